"""What scripts do to their own process: under us they do the same, and the same comes out."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import VIRTUAL, command

SCRIPT = """
import faulthandler, os, signal, sys, tempfile, time
start = os.getcwd()
if __name__ == "__main__":
    os.closerange(3, 4096)
    os.chdir(tempfile.mkdtemp(dir=start))
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        torch.nn.Linear(2, 2)(torch.ones(1, 2))  # a forward of a worker is no phase of ours
        return torch.full((4,), float(index))

def train(steps):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(steps):
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()

def say(*words):
    print(*words, flush=True)

def forked(code):
    pid = os.fork()
    if pid == 0:
        say("child", list(train(3)))
        os._exit(code)
    say("of the child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

def main():
    spans = {}
    torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)  # or each process would import for it
    forked(4)  # before there was a step
    spans["first"] = time.monotonic_ns()
    say("parent", list(train(6)))
    spans["others"] = time.monotonic_ns()
    forked(5)  # and after
    spans["workers"] = time.monotonic_ns()
    for context, workers in (("fork", 2), ("spawn", 1)):
        loader = DataLoader(
            Numbers(), batch_size=4, num_workers=workers, multiprocessing_context=context
        )
        say(context, [batch.sum().item() for batch in loader])
    spans["alarms"] = time.monotonic_ns()
    rings = []
    signal.signal(signal.SIGALRM, lambda *_: rings.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    say("alarms", list(train(40)))
    signal.setitimer(signal.ITIMER_REAL, 0)
    say(len(rings) > 5)
    spans["last"] = time.monotonic_ns()
    calls = []
    sys.setprofile(lambda frame, what, arg: calls.append((frame.f_code, what)))
    say("profiled", list(train(6)))
    sys.setprofile(None)
    say(calls.count((train.__code__, "call")))
    with open("stacks", "w+") as file:
        faulthandler.register(signal.SIGUSR1, file)
        os.kill(os.getpid(), signal.SIGUSR1)
        file.seek(0)
        say("in main" in file.read())
    spans["end"] = time.monotonic_ns()
    with open(os.path.join(start, "spans.json"), "w") as file:
        __import__("json").dump(spans, file)
    say(any("orin_gov" in type(finder).__module__ for finder in sys.meta_path))
    say(os.getcwd().startswith(start), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

if __name__ == "__main__":
    main()
"""


def steps_between(folder: Path, begin: str, end: str) -> int:
    """Count the steps that were seen between two moments of the script."""
    spans = json.loads((folder / "spans.json").read_text())
    with pa.OSFile(str(folder / "run/steps.arrows")) as file:
        ends_ns = pa.ipc.open_stream(file).read_all()["end_ns"].to_pylist()
    return sum(spans[begin] < ns <= spans[end] for ns in ends_ns)


def test_whatever_a_script_does_comes_out_the_same_and_only_its_own_steps_are_seen(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(SCRIPT)
    words = command("run", "--board", VIRTUAL, "-o", "run", "script.py")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 9
    alone: dict[str, Any] = {"__name__": "alone"}
    exec(SCRIPT, alone)
    losses = list(alone["train"](40))
    assert done.stdout.splitlines() == [
        f"child {losses[:3]}",
        "of the child 4",
        f"parent {losses[:6]}",
        f"child {losses[:3]}",
        "of the child 5",
        "fork [24.0, 88.0]",
        "spawn [24.0, 88.0]",
        f"alarms {losses}",
        "True",
        f"profiled {losses[:6]}",
        "7",
        "True",
        "False",
        "True True",
    ]
    assert steps_between(tmp_path, "first", "others") >= 5  # but for the first
    assert steps_between(tmp_path, "others", "alarms") == 0
    assert steps_between(tmp_path, "alarms", "last") >= 38  # but for one that was counted
    assert steps_between(tmp_path, "last", "end") >= 5
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert (summary["exit_code"], summary["dropped_marks"]) == (9, 0)


LIBRARY = """
import json, os, signal, socket, sys, time
import orin_gov, torch
from torch.utils.data import DataLoader, TensorDataset

OPTIONS = json.loads(sys.argv[1])
data = TensorDataset(torch.ones(16, 4))
loader = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True)
found = {}
with orin_gov.Governor(output="first", **OPTIONS) as governor:
    deadline_s = time.monotonic() + 60
    while "energy_j" not in governor.readings() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    governor.begin_window("in the parent")  # not before the sensors are read: the energy is whole
    found["batches"] = len(list(loader))  # the worker, alive to the end, holds all that we hold
    pid = os.fork()
    if pid == 0:
        governor.begin_window("in the child")
        governor.end_window("in the child")
        governor.__exit__(None, None, None)
        os._exit(3)
    found["child"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    found["measured"] = governor.end_window("in the parent").total_energy is not None
    until_s = time.monotonic() + 2  # a supervisor that was told to end has ended by then
    while time.monotonic() < until_s and "energy_j" in governor.readings():
        time.sleep(0.05)
    found["goes on"] = "energy_j" in governor.readings()
found["worker"] = loader._iterator._workers[0].is_alive()
del loader
for asked_first in ("window", "readings"):
    with orin_gov.Governor(output=asked_first, **OPTIONS) as governor:
        governor.begin_window("cut off")
        os.closerange(3, 4096)
        pairs = [socket.socketpair() for _ in range(16)]  # all the numbers that were ours
        for number, (one, other) in enumerate(pairs, 1):
            one.sendall(b"x" * number)
            other.sendall(b"x" * number)
        if asked_first == "readings":
            found["readings"] = governor.readings()
        found["cut off"] = governor.end_window("cut off").total_energy
    for pair in pairs:
        for each in pair:
            each.shutdown(socket.SHUT_WR)
    found[f"{asked_first} first"] = [[len(each.recv(99)) for each in pair] for pair in pairs]
    for pair in pairs:
        for each in pair:
            each.close()
found["runs"] = [os.path.exists(f"{each}/summary.json") for each in ("first", "window", "readings")]
print(json.dumps(found))
sys.exit(5)
"""


@pytest.fixture
def library(tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    (tmp_path / "script.py").write_text(LIBRARY)
    words = [sys.executable, "script.py", json.dumps({"board": VIRTUAL})]
    return subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=150, env=dict(os.environ)
    )


def test_the_librarys_block_ends_whatever_holds_or_has_closed_its_descriptors(
    library: "subprocess.CompletedProcess[str]",
) -> None:
    assert library.returncode == 5, library.stderr[-3000:]
    found: dict[str, Any] = json.loads(library.stdout)
    received = [[number, number] for number in range(1, 17)]  # by both ends: nothing of ours
    assert found == {
        "batches": 4,
        "child": 3,
        "measured": True,
        "goes on": True,
        "worker": True,
        "cut off": None,
        "readings": {},
        "window first": received,
        "readings first": received,
        "runs": [True] * 3,
    }
