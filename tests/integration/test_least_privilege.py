"""Under sudo the board is root's to set; the script, and all files of the run, are the caller's."""

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import command
from governed import governed
from jobs import write_job
from trees import content, gpu_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="being called through sudo takes root")

NOBODY = pwd.getpwnam("nobody")
PACKAGE = Path(__file__).parents[2]

TELL = """
echo "uid $(id -u) gid $(id -g) groups $(id -G)"
echo "effective $(grep CapEff /proc/self/status | cut -f2)"
env
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder of the caller's: pytest's own lies where only root may look."""
    path = Path(tempfile.mkdtemp(prefix="least-privilege-"))
    os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
    yield path
    shutil.rmtree(path)


def under_sudo(folder: Path, *words: object, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as sudo starts it for nobody: as root, told who called."""
    sudo = {"SUDO_UID": str(NOBODY.pw_uid), "SUDO_GID": str(NOBODY.pw_gid), "SUDO_USER": "nobody"}
    env = {**os.environ, "HOME": "/root", "USER": "root", "LOGNAME": "root", **sudo, **more}
    return subprocess.run(
        command(*words), cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )


def environment(lines: list[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_under_sudo_the_script_is_the_callers_process(folder: Path, root: Path) -> None:
    done = under_sudo(folder, "run", "--root", root, "--", "sh", "-c", TELL, GIVEN="1")
    assert done.returncode == 0, done.stderr
    assert "governing for energy" in done.stderr
    lines = done.stdout.splitlines()
    groups = " ".join(map(str, os.getgrouplist("nobody", NOBODY.pw_gid)))
    assert lines[0] == f"uid {NOBODY.pw_uid} gid {NOBODY.pw_gid} groups {groups}"
    assert lines[1] == "effective 0000000000000000"
    env = environment(lines)
    assert (env["HOME"], env["USER"], env["LOGNAME"]) == (NOBODY.pw_dir, "nobody", "nobody")
    assert env["GIVEN"] == "1"
    assert not [name for name in env if name.startswith("SUDO_")]


def test_under_sudo_the_run_directory_is_the_callers(folder: Path, root: Path) -> None:
    assert under_sudo(folder, "run", "--root", root, "--", "true").returncode == 0
    made = list((folder / "orin_gov_runs").rglob("*"))
    assert {path.name for path in made} >= {"manifest.json", "summary.json", "decisions.jsonl"}
    for path in (folder / "orin_gov_runs", *made):
        assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY.pw_uid, NOBODY.pw_gid), path


@pytest.mark.parametrize("place", ["summary.json", "run", "run, late"])
def test_a_script_cannot_have_root_write_through_a_link(
    folder: Path, root: Path, tmp_path: Path, place: str
) -> None:
    theirs = tmp_path / "of root"
    theirs.mkdir(mode=0o700)
    for name in ("summary.json", "live.json", "samples.tail-0.arrows"):
        (theirs / name).write_text("root's")
    before = content(theirs)
    swap = f"mv run away && ln -s '{theirs}' run"
    spoil = {
        "summary.json": f"ln -s '{theirs}/summary.json' run/summary.json",
        "run": f"{swap}; sleep 1.5",  # it is only after a while that live.json is opened
        "run, late": f"until test -e run/live.json; do sleep 0.05; done; {swap}",
    }[place]
    words = ("run", "--root", root, "--output", "run", "--", "sh", "-c", f"{spoil}; exit 7")
    done = under_sudo(folder, *words)
    assert done.returncode == 7
    assert "the record of this run ends here" in done.stderr
    assert content(theirs) == before


def test_under_sudo_a_run_directory_is_made_only_where_the_caller_may(
    folder: Path, root: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    words = ("run", "--root", root, "--output", tmp_path / "run", "--", "touch", "ran")
    done = under_sudo(folder, *words)
    assert done.returncode == 125
    assert "cannot make" in done.stderr
    assert not (tmp_path / "run").exists()
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("kind", ["policy", "script"])
def test_under_sudo_nothing_is_read_that_the_caller_may_not_read(
    folder: Path, root: Path, tmp_path: Path, kind: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's password is swordfish\n")
    secret.chmod(0o600)
    words = ["--policy", secret, "--", "true"] if kind == "policy" else [secret]
    done = under_sudo(folder, "run", "--root", root, *words)
    assert done.returncode in (125, 126, 127)
    assert "swordfish" not in done.stderr
    assert "ermission denied" in done.stderr or "no such script" in done.stderr


def test_what_the_caller_may_not_run_is_not_started_and_the_board_left(
    folder: Path, root: Path
) -> None:
    tool = folder / "roots-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o700)
    before = content(root)
    done = under_sudo(folder, "run", "--root", root, "--", tool)
    assert done.returncode == 126
    told = f"orin-gov error: {tool}: Permission denied for nobody, whose process it would be"
    assert done.stderr.splitlines()[-1] == told
    assert content(root) == before


def test_the_phases_of_a_script_under_sudo_are_still_seen(folder: Path, root: Path) -> None:
    """The shared memory has no name and no owner: who inherits it may use it."""
    script = folder / "train.py"
    script.write_text("import os, sys; print(os.getuid(), 'orin_gov._phases' in sys.modules)\n")
    done = under_sudo(folder, "run", "--root", root, "--", _python(), script)
    assert done.stdout == f"{NOBODY.pw_uid} True\n", done.stderr


def _python() -> str:
    """Return a Python that nobody may run and that can load our extension."""
    for python in (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"):
        words = ["-c", f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import orin_gov._phases"]
        try:
            done = subprocess.run([python, *words], user="nobody", cwd="/", capture_output=True)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    pytest.skip("no Python that the user nobody may run has our extension")


def test_a_root_that_nobody_called_stays_root(folder: Path, root: Path) -> None:
    done = under_sudo(folder, "run", "--root", root, "--", "id", "-u", SUDO_UID="0", SUDO_GID="0")
    assert (done.returncode, done.stdout) == (0, "0\n")


# With sudo itself

USER = "orin-gov-test"


@pytest.fixture
def sudoer(folder: Path) -> Iterator[str]:
    """Make a user who may call sudo, for this test."""
    for tool in ("sudo", "useradd", "userdel", "su"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    rights = Path("/etc/sudoers.d") / USER
    subprocess.run(["useradd", "--no-create-home", "--home-dir", folder, USER], check=True)
    try:
        shutil.chown(folder, USER)
        rights.touch(mode=0o440)
        rights.write_text(f"{USER} ALL=(root) NOPASSWD: ALL\n")
        yield USER
    finally:
        rights.unlink(missing_ok=True)
        subprocess.run(["userdel", USER], check=True, capture_output=True)


def test_through_a_real_sudo_the_script_has_the_callers_environment(
    folder: Path, root: Path, sudoer: str
) -> None:
    script = folder / "call.sh"
    words = command("run", "--root", root, "--output", "run", "--", "sh", "-c", TELL)
    quoted = " ".join(f"'{word}'" for word in words)
    path = f"/a/path/of/mine:{os.environ['PATH']}"
    script.write_text(
        f"cd '{folder}'; export MINE=yes PATH='{path}'\n"
        f"sudo GIVEN=1 PYTHONPATH='{PACKAGE}' {quoted}\n"
    )
    done = subprocess.run(
        ["su", "-s", "/bin/sh", sudoer, str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    entry = pwd.getpwnam(sudoer)
    env = environment(done.stdout.splitlines())
    assert done.stdout.startswith(f"uid {entry.pw_uid} gid {entry.pw_gid} ")
    assert (env["MINE"], env["GIVEN"], env["PATH"]) == ("yes", "1", path)
    assert (env["HOME"], env["USER"]) == (str(folder), sudoer)
    for path in (folder / "run").iterdir():
        assert path.stat().st_uid == entry.pw_uid
        assert not path.stat().st_mode & stat.S_IWOTH
    assert json.loads((folder / "run/summary.json").read_text())["exit_code"] == 0


def test_the_board_is_set_by_root_and_not_by_the_script(folder: Path, root: Path) -> None:
    gpu = gpu_folder(root)
    for name in ("min_freq", "max_freq"):
        (gpu / name).chmod(0o644)
    root.parent.chmod(0o755)
    done = under_sudo(
        folder, "run", "--root", root, "--", "sh", "-c", f"echo 1 > '{gpu}/max_freq' || exit 5"
    )
    assert done.returncode == 5


def test_a_script_under_sudo_cannot_end_the_governor(folder: Path, root: Path) -> None:
    done = under_sudo(folder, "run", "--root", root, "--", "sh", "-c", "kill -9 $PPID || exit 9")
    assert done.returncode == 9


def test_any_user_can_keep_a_governor_from_starting(folder: Path, root: Path) -> None:
    """Whoever may read a file may lock it: the price of a lock that cannot go stale."""
    top = gpu_folder(root) / "max_freq"
    body = "import fcntl, time; fcntl.flock(0, 2); print(flush=True); time.sleep(60)"
    python = f"/usr/bin/python{sys.version_info[0]}"
    if not Path(python).exists():
        pytest.skip(f"{python} is not installed")
    with (
        open(top, "rb") as opened,
        subprocess.Popen(
            [python, "-c", body],
            user="nobody",
            stdin=opened,
            stdout=subprocess.PIPE,
        ) as holder,
    ):
        assert holder.stdout is not None
        holder.stdout.readline()
        done = under_sudo(folder, "run", "--root", root, "--", "touch", "ran")
        holder.kill()
    assert done.returncode == 125
    assert "another orin-gov governs" in done.stderr


def test_a_run_listens_on_no_port(tmp_path: Path, root: Path) -> None:
    with governed(write_job(tmp_path), "--root", root) as run:
        us = psutil.Process(run.process.pid)
        for process in (us, *us.children(recursive=True)):
            assert process.net_connections("inet") == []
        assert run.ends() == 7
