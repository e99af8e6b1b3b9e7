"""The script runs as `python train.py` would run it: every rule against a real process."""

import contextlib
import functools
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import VIRTUAL, command, side_by_side
from terminals import Played

LOOK = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "name": __name__, "file": globals().get("__file__"),
    "cwd": os.getcwd(), "env": dict(os.environ), "stdin": sys.stdin.read(),
    "descriptors": sorted(os.listdir("/proc/self/fd")),
    "main": sys.modules["__main__"].__dict__ is globals(),
    "spec": __spec__ and [__spec__.name, __spec__.origin],
    "package": __package__, "flags": repr(sys.flags),
    "mask": open("/proc/self/status").read().split("SigBlk:")[1].split()[0],
    "finders": len(sys.meta_path),
    "heavy": [name for name in ("torch", "numpy", "pyarrow") if name in sys.modules],
}))
"""

GOVERNED = ("run", "--board", VIRTUAL, "--output", "run")
PATIENCE_S = 60.0

pytestmark = pytest.mark.timeout(400)  # the first test of a module's fixture waits for all its runs

Completed = subprocess.CompletedProcess[str]


def look(words: list[str], cwd: Path, **env: str) -> dict[str, object]:
    done = subprocess.run(
        words,
        cwd=cwd,
        capture_output=True,
        text=True,
        input="from stdin",
        env={**os.environ, **env},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


ENVIRONMENTS = ({}, {"PYTHONPATH": "/somewhere"}, {"PYTHONPATH": ""})
TARGETS = {
    "script": ["look.py", "--epoch", "5", "-h"],
    "module": ["-m", "package.look", "--board", "x"],
    "command": ["--", sys.executable, "look.py", "a b"],
}
Looks = dict[tuple[str, int], tuple[dict[str, object], dict[str, object]]]


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    """What the script sees without us and with us, by target and environment."""

    def look_at(name: str, which: int) -> tuple[dict[str, object], dict[str, object]]:
        folder, target = tmp_path_factory.mktemp("look"), TARGETS[name]
        (folder / "look.py").write_text(LOOK)
        (folder / "package").mkdir()
        (folder / "package/look.py").write_text(LOOK)
        plain = target[1:] if target[0] == "--" else [sys.executable, *target]
        env = ENVIRONMENTS[which]
        return look(plain, folder, **env), look(command(*GOVERNED, *target), folder, **env)

    keys = [(name, which) for name in TARGETS for which in range(len(ENVIRONMENTS))]
    found = side_by_side(*(functools.partial(look_at, *key) for key in keys))
    return dict(zip(keys, found, strict=True))


@pytest.mark.parametrize("which", range(len(ENVIRONMENTS)))
@pytest.mark.parametrize("name", TARGETS)
def test_the_script_sees_what_it_would_see_without_us(looks: Looks, name: str, which: int) -> None:
    expected, seen = looks[name, which]
    # The one trace: the finder that waits for torch stands among the finders.
    assert seen.pop("finders") == expected.pop("finders") + 1  # type: ignore[operator]
    assert seen == expected


def test_a_command_that_is_no_python_keeps_its_environment(tmp_path: Path) -> None:
    expected = subprocess.run(["env"], capture_output=True, text=True, cwd=tmp_path).stdout
    seen = subprocess.run(
        command(*GOVERNED, "--", "env"), capture_output=True, text=True, cwd=tmp_path
    ).stdout
    assert sorted(seen.splitlines()) == sorted(expected.splitlines())


def test_a_sitecustomize_of_the_users_own_still_runs(tmp_path: Path, script) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text("import builtins; builtins.theirs = 1")
    path = script("print(theirs, __import__('sitecustomize').__file__)")
    done = subprocess.run(
        command(*GOVERNED, path),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"1 {tmp_path}/site/sitecustomize.py\n"


CODES = {
    "pass": 0,
    "raise SystemExit(3)": 3,
    "raise ValueError('theirs')": 1,
    "import sys; sys.exit('words')": 1,
    "import os; os._exit(9)": 9,
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": 137,
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": 139,
    "import os; os.fork(); os._exit(4)": 4,
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Completed]:
    """A run of each script that ends."""

    def run(body: str) -> Completed:
        folder = tmp_path_factory.mktemp("ended")
        (folder / "script.py").write_text(body)
        words = command(*GOVERNED, "script.py")
        return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)

    runs = side_by_side(*(functools.partial(run, body) for body in CODES))
    return dict(zip(CODES, runs, strict=True))


@pytest.mark.parametrize("body", CODES)
def test_the_exit_code_is_the_scripts(ended: dict[str, Completed], body: str) -> None:
    assert ended[body].returncode == CODES[body]
    assert ended[body].stdout == ""


def test_who_starts_us_may_ignore_the_ends_of_children(script, tmp_path: Path) -> None:
    path = script("import signal, sys; sys.exit(int(signal.getsignal(signal.SIGCHLD)))")
    done = subprocess.run(
        command(*GOVERNED, path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGCHLD, signal.SIG_IGN),
    )
    assert done.returncode == signal.SIG_IGN  # as it is without us, and its exit code comes through
    assert "Traceback" not in done.stderr


def test_a_traceback_reads_as_without_us(orin_gov, script, tmp_path: Path) -> None:
    path = script("def f():\n    raise ValueError('theirs')\nf()\n")
    expected = subprocess.run([sys.executable, path], capture_output=True, text=True).stderr
    assert expected in orin_gov(*GOVERNED, path).stderr


WRONG = [
    (["missing.py"], 127, "no such script"),
    (["--", "no-such-command"], 127, "command not found"),
    (["--", "./plain.txt"], 126, "not executable"),
    (["broken.py"], 1, "not Python: "),
    (["binary.py"], 1, "not Python: "),
    ([], 2, "nothing to run"),
    (["--"], 2, "nothing to run"),
    (["--no-such-option", "ok.py"], 2, "unrecognized arguments"),
    (["--epoch", "often", "ok.py"], 2, "expected steps"),
    (["--epoch", "0", "ok.py"], 2, "expected steps"),
    (["--objective", "speed", "ok.py"], 2, "expected one of energy"),
    (["--max-slowdown", "much", "ok.py"], 2, "expected a number"),
    (["--max-slowdown", "-1", "ok.py"], 2, "expected a share"),
    (["--power-cap", "0", "ok.py"], 2, "more than 0"),
    (["--baseline-share", "60%", "ok.py"], 2, "expected 0 to 0.5"),
    (["--board", "virtual:tx1", "ok.py"], 2, "agx-orin-64gb"),
    (["--board", "agx-orin", "ok.py"], 2, "virtual:"),
    (["--policy", "missing.json", "ok.py"], 125, "missing.json"),
    (["--output", ".", "ok.py"], 125, "exists already"),
    (["--output", "plain.txt/run", "ok.py"], 125, "cannot make"),
]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Completed, list[str]]]:
    """Each of the WRONG as it was refused, and what it has left that was not there before."""

    def refuse(words: list[str]) -> tuple[Completed, list[str]]:
        folder = tmp_path_factory.mktemp("refused")
        (folder / "ok.py").write_text("print('ran')")
        (folder / "plain.txt").write_text("text")
        (folder / "broken.py").write_text("def f(:\n")
        (folder / "binary.py").write_bytes(b"\x7fELF\0\1")
        before = os.listdir(folder)
        board = [] if "--board" in words else ["--board", VIRTUAL]
        words = command("run", *board, *words)
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
        return done, sorted(set(os.listdir(folder)) ^ set(before))

    return side_by_side(*(functools.partial(refuse, words) for words, _, _ in WRONG))


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_input_ends_in_one_clear_line_and_its_code(
    refused: list[tuple[Completed, list[str]]], number: int
) -> None:
    (_, code, says), (done, left) = WRONG[number], refused[number]
    assert done.returncode == code, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert says in last
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert left == []


def test_without_a_board_it_refuses_and_names_the_option(orin_gov, script, tmp_path: Path) -> None:
    done = orin_gov("run", "--root", tmp_path, script("print('ran')"))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "--board virtual:agx-orin-64gb" in done.stderr


def test_a_directory_with_a_main_runs_as_python_runs_it(orin_gov, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/__main__.py").write_text("print('app')")
    assert orin_gov(*GOVERNED, "app").stdout == "app\n"


def test_megabytes_of_output_pass_unchanged(script, tmp_path: Path) -> None:
    path = script(
        "import sys\nfor i in range(20):\n    sys.stdout.buffer.write(bytes(range(256)) * 4096)\n"
    )
    done = subprocess.run(command(*GOVERNED, path), cwd=tmp_path, capture_output=True, check=True)
    expected = hashlib.sha256(bytes(range(256)) * 4096 * 20).digest()
    assert hashlib.sha256(done.stdout).digest() == expected


def test_a_broken_torch_breaks_the_script_as_it_would_alone(
    orin_gov, script, tmp_path: Path
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise ImportError('libcudart.so.12: not found')")
    done = orin_gov(*GOVERNED, script("import torch"))
    assert done.returncode == 1
    assert "ImportError: libcudart.so.12: not found" in done.stderr


def test_a_torch_without_what_we_hook_is_left_alone(orin_gov, script, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("value = 42")
    done = orin_gov(*GOVERNED, script("import torch; print(torch.value)"))
    assert (done.returncode, done.stdout) == (0, "42\n")
    assert "cannot be hooked" in done.stderr


SIGNALS = """
import os, signal, sys, time
def said(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")  # print() is not re-entrant
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, said)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


def read_line(descriptor: int) -> str:
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([descriptor], [], [], PATIENCE_S)[0], f"nothing more after {line!r}"
        byte = os.read(descriptor, 1)
        assert byte, f"the stream ended after {line!r}"
        line += byte
    return line.decode().strip()


def is_pending(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    masks = re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", status, re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def test_ctrl_c_reaches_the_script_then_term_then_kill(script, tmp_path: Path) -> None:
    words = command(*GOVERNED, "--no-live", script(SIGNALS))
    with contextlib.closing(Played(words, tmp_path)) as play:
        play.sees("ready")
        play.type("\x03")
        play.sees("SIGINT")
        # Until it is taken up: another one that comes before is the same one, to the kernel.
        play.until(lambda: not is_pending(play.pid, signal.SIGINT))
        play.type("\x03")
        play.until(lambda: play.seen.count("SIGINT") == 2 and "SIGTERM" in play.seen)
        play.type("\x03")
        assert play.exit_code() == 137


def test_ctrl_c_reaches_the_script_only_once(script, tmp_path: Path) -> None:
    body = """
import time
print("ready", flush=True)
try:
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    time.sleep(0.5)   # a second interrupt would end this clean-up
    print("cleaned up", flush=True)
    raise SystemExit(7)
"""
    words = command(*GOVERNED, "--no-live", script(body))
    with contextlib.closing(Played(words, tmp_path)) as play:
        play.sees("ready")
        play.type("\x03")
        play.sees("cleaned up")
        assert play.exit_code() == 7


@contextlib.contextmanager
def in_a_session(words: list[str], cwd: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command in a session of its own; what has not ended with the block is killed."""
    with subprocess.Popen(
        words,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("number", "then"),
    [
        (signal.SIGTERM, ["SIGINT", "SIGTERM"]),  # not SIGTERM twice: it is passed on once
        (signal.SIGHUP, ["SIGINT", "SIGTERM"]),
        (signal.SIGINT, ["SIGTERM"]),  # the second interrupt is a SIGTERM
    ],
)
def test_a_signal_sent_to_us_alone_is_passed_on(
    script, tmp_path: Path, number: signal.Signals, then: list[str]
) -> None:
    with in_a_session(command(*GOVERNED, script(SIGNALS)), tmp_path) as process:
        assert process.stdout is not None
        stdout = process.stdout.fileno()
        assert read_line(stdout) == "ready"
        process.send_signal(number)
        assert read_line(stdout) == number.name
        if number is not signal.SIGINT:
            process.send_signal(number)
        for name in then:
            process.send_signal(signal.SIGINT)
            assert read_line(stdout) == name
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 137
        assert process.stdout.read() == b""


def test_a_plain_signal_death_is_told_as_the_shell_tells_it(script, tmp_path: Path) -> None:
    body = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
    process = subprocess.Popen(
        command(*GOVERNED, script(body)), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.wait(20) == 143
    process.stdout.close()
