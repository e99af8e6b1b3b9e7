"""`orin-gov top`: a run seen from another terminal, while it runs and after it has ended."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import command, without_rights
from snapshots import MOMENT
from terminals import PATIENCE_S, Played
from trees import build_tree

from orin_gov.commands import main
from orin_gov.record.live import LiveFile
from orin_gov.running import announced, running
from orin_gov.view.state import VERSION

WAITS = """
import pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.02)
"""

Begin = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def begin(tmp_path: Path, script) -> Iterator[Begin]:
    """Begin runs that last until the file "go" is there; return once all have written live.json.

    Returns the last one.
    """
    build_tree(tmp_path / "board")
    path = script(WAITS)
    begun: list[subprocess.Popen[bytes]] = []

    def start(*outputs: str) -> "subprocess.Popen[bytes]":
        for output in outputs:
            words = command("run", "--root", "board", "--dry-run", "--output", output, path)
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            begun.append(subprocess.Popen(words, cwd=tmp_path, **quiet))  # type: ignore[call-overload]
        deadline = time.monotonic() + PATIENCE_S
        while not all(is_live(tmp_path / output) for output in outputs):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return begun[-1]

    yield start
    (tmp_path / "go").touch()
    for process in begun:
        process.wait(PATIENCE_S)


def is_live(folder: Path) -> bool:
    try:
        return bool((folder / "live.json").stat().st_size)
    except FileNotFoundError:
        return False


def test_a_run_is_followed_to_its_end(begin: Begin, tmp_path: Path) -> None:
    process = begin("a run")
    played = Played(command("top", "a run"), tmp_path, (100, 24))
    try:
        played.sees("─ dry run ─ script.py on Jetson AGX Orin 64GB", "sensors", "q ends this")
        first = played.seen
        played.until(lambda: played.seen != first)
        (tmp_path / "go").touch()
        assert played.exit_code() == 0
        assert "a run: it has ended" in played.seen
        assert "orin-gov explain 'a run'" in played.seen
        assert not played.terminal.screen.cursor.hidden
    finally:
        played.close()
    assert process.wait(PATIENCE_S) == 0
    # The summary stands for the run from now on.
    assert not (tmp_path / "a run/live.json").exists()
    assert (tmp_path / "a run/summary.json").exists()


def test_a_key_ends_it_and_not_the_run(begin: Begin, tmp_path: Path) -> None:
    process = begin("run")
    for key, code in (("q", 0), ("\x03", 130)):
        played = Played(command("top", "run"), tmp_path, (20, 6))
        try:
            played.sees("─ dry run")
            played.type(key)
            assert played.exit_code() == code
        finally:
            played.close()
        assert process.poll() is None


def test_without_a_terminal_the_moment_is_printed(begin: Begin, orin_gov, tmp_path: Path) -> None:
    begin("run")
    before = sorted(tmp_path.rglob("*"))
    done = orin_gov("top", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "─ dry run ─ script.py on Jetson AGX Orin 64GB" in done.stdout
    assert "\x1b" not in done.stdout
    told = json.loads(orin_gov("top", "run", "--json").stdout)
    assert (told["name"], told["mode"], told["virtual"]) == ("script.py", "dry run", False)
    assert told["clock_hz"] in told["table_hz"]
    assert sorted(tmp_path.rglob("*")) == before  # it has written nothing


def test_runs_are_found_from_anywhere_and_several_are_listed(
    begin: Begin, orin_gov, tmp_path: Path
) -> None:
    begin("one", "two")
    done = orin_gov("top", cwd="/")
    assert done.returncode == 0
    assert "name the one to watch: orin-gov top RUN" in done.stdout
    for name in ("one", "two"):
        (line,) = (line for line in done.stdout.splitlines() if f"{tmp_path / name}  " in line)
        assert "script.py  0:00:" in line
        assert "dry run" in line
    assert orin_gov("top", ".").stdout.startswith("2 runs; name the one")


def test_a_run_that_was_cut_off_is_told_so(begin: Begin, orin_gov, tmp_path: Path) -> None:
    process = begin("run")
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while "it was cut off after 0:00:" not in (told := orin_gov("top", "run").stdout):
        assert time.monotonic() < deadline, told
    assert tmp_path / "run" not in running()


def write_manifest(folder: Path, version: int = 1) -> None:
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"version": version, "name": "x"}))


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> Callable[..., tuple[int, str]]:
    """Run the command in this process; return its exit code and all it said."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str]:
        code = main(["top", *words])
        said = capfd.readouterr()
        return code, said.out + said.err

    return run


def test_what_cannot_be_watched_is_told_in_a_line(top, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, version in (("newer", 2), ("torn", 1), ("other", 1), ("begun", 1)):
        write_manifest(tmp_path / name, version)
    (tmp_path / "torn/live.json").write_bytes(b'{"version": 1, "pi')
    LiveFile(tmp_path / "other").write({**MOMENT.as_json(), "version": 9})
    for words, says, code in (
        (["missing"], "cannot read missing/manifest.json", 125),
        (["empty"], "cannot read empty/manifest.json", 125),
        (["newer"], "is not of version 1", 125),
        (["torn"], "live.json is damaged", 125),
        (["other"], f"is of version 9, this orin-gov reads {VERSION}", 125),
        (["begun"], "begun: it has no summary", 0),
        (["begun", "--json"], "begun/summary.json", 125),
    ):
        found, said = top(*words)
        assert (found, says in said) == (code, True), said
        assert len(said.splitlines()) == 1


TOP_OF_EACH = """
import sys
from orin_gov.commands import main
for name in ("closed", "closed/run", "unreadable", "unseen"):
    print(main(["top", name]), flush=True)
"""


def test_what_may_not_be_read_is_told_in_a_line(tmp_path: Path) -> None:
    for name in ("closed/run", "unreadable", "unseen"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "manifest.json").write_text(json.dumps({"version": 1, "name": "x"}))
        LiveFile(tmp_path / name).write(MOMENT.as_json())
    files = ("closed", "unreadable/manifest.json", "unseen/live.json")
    shut = [tmp_path / file for file in files]
    for path in shut:
        path.chmod(0)
    done = subprocess.run(
        without_rights([sys.executable, "-c", TOP_OF_EACH]),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    for path in shut:
        path.chmod(0o755)
    assert done.stdout.split() == ["125"] * 4, done.stderr
    told = done.stderr.splitlines()
    assert len(told) == 4, done.stderr
    for line, file in zip(
        told,
        ("closed", "closed/run/manifest.json", "unreadable/manifest.json", "unseen/live.json"),
        strict=True,
    ):
        assert f"cannot read {file}" in line
        assert "Permission denied" in line


def test_a_snapshot_of_a_process_that_is_another_now_is_no_running_one(top, tmp_path: Path) -> None:
    write_manifest(tmp_path / "run")
    LiveFile(tmp_path / "run").write(replace(MOMENT, pid=os.getpid(), t_ns=1).as_json())
    assert "it was cut off after 0:01:23" in top("run")[1]


def test_a_run_is_announced_while_it_lasts(tmp_path: Path) -> None:
    here = Path("/tmp") / f"top-{os.getpid()} with ünusual name"
    with announced(here):
        assert here in running()
    assert here not in running()
    with announced(tmp_path / ("x" * 200)):  # too long for a name: it has to be told to top
        assert not any("xxxxxxx" in str(each) for each in running())
