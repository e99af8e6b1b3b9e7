"""The rule that lets a group set the clock: which files, which names, and taken back."""

import fnmatch
import grp
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import board_names, content, gpu_folder, plant

from orin_gov.board.gpu import find_gpu
from orin_gov.errors import BoardError, UsageError
from orin_gov.rights import (
    GPU_KERNEL_NAMES,
    RULE,
    UNIT,
    grant,
    install_service,
    rule_text,
)

GROUP = grp.getgrgid(os.getgid()).gr_name
THREE = ("governor", "min_freq", "max_freq")
WRITERS = stat.S_IWGRP | stat.S_IWOTH

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to a group takes root")


def writable_by_others(root: Path) -> set[Path]:
    return {
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & WRITERS
    }


@as_root
def test_exactly_the_three_files_of_the_gpu_become_the_groups(root: Path) -> None:
    before, texts = writable_by_others(root), content(root)
    files = grant(root, "audio", 29)
    assert writable_by_others(root) - before == set(files)
    assert set(files) == {gpu_folder(root) / name for name in THREE}
    for file in files:
        info = file.stat()
        assert (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid) == (0o664, 0, 29)
    assert {path: each for path, each in content(root).items() if path in texts} == texts


@as_root
def test_removing_takes_all_of_it_back(orin_gov, root: Path) -> None:
    before = {path: path.stat().st_mode for path in root.rglob("*")}
    words = ("setup", "--root", root)
    assert orin_gov(*words, "--group", GROUP, "--service", "somebody").returncode == 0
    assert (root / RULE).exists()
    assert (root / UNIT).exists()
    done = orin_gov(*words, "--remove")
    assert done.returncode == 0, done.stderr
    assert not (root / RULE).exists()
    assert not (root / UNIT).exists()
    assert {path: path.stat().st_mode for path in before} == before
    assert orin_gov(*words, "--remove").returncode == 0  # nothing is there: no fault


@pytest.mark.parametrize("name", board_names())
def test_the_rule_names_the_gpu_of_every_board_and_nothing_else(tmp_path: Path, name: str) -> None:
    root = plant(tmp_path, name)
    gpu = find_gpu(root)
    matched = {
        folder.name
        for folder in (root / "sys/class/devfreq").glob("*")
        if any(fnmatch.fnmatch(folder.name, each) for each in GPU_KERNEL_NAMES.split("|"))
    }
    assert matched == ({gpu.directory.name} if gpu else set())


def test_the_rule_starts_no_shell_and_names_three_files() -> None:
    text = rule_text("video")
    programs = re.findall(r'RUN\+="([^"]*)"', text)
    assert [each.split()[0] for each in programs] == ["/bin/chgrp", "/bin/chmod"]
    for program in programs:
        assert program.split()[2:] == [f"/sys%p/{name}" for name in THREE]


@given(st.text(min_size=1, max_size=40))
def test_what_is_no_name_gets_into_no_rule(group: str) -> None:
    if re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", group):
        assert f"chgrp {group} " in rule_text(group)
    else:
        with pytest.raises(UsageError, match="expected the name of a group"):
            rule_text(group)


@pytest.mark.parametrize("name", ["", 'x", RUN+="/bin/sh', "a\nb", "video\n"])
def test_a_rule_cannot_be_extended_by_a_groups_name(name: str) -> None:
    with pytest.raises(UsageError):
        rule_text(name)


def test_a_link_in_the_rules_place_is_replaced_and_not_written_through(root: Path) -> None:
    elsewhere = root / "elsewhere"
    elsewhere.write_text("theirs")
    (root / RULE).parent.mkdir(parents=True)
    (root / RULE).symlink_to(elsewhere)
    grant(root, GROUP, os.getgid())
    assert elsewhere.read_text() == "theirs"
    assert not (root / RULE).is_symlink()
    assert stat.S_IMODE((root / RULE).stat().st_mode) == 0o644


def test_a_rule_that_cannot_be_written_leaves_the_old_one(root: Path) -> None:
    grant(root, GROUP, os.getgid())
    text = (root / RULE).read_text()
    (root / RULE).with_name(".60-orin_gov.rules.new").mkdir()  # the draft cannot be made
    with pytest.raises(BoardError, match="cannot change"):
        grant(root, GROUP, os.getgid())
    assert (root / RULE).read_text() == text


@pytest.mark.parametrize("words", [[], ["--remove", "--group", "video"]])
def test_it_wants_one_thing_at_a_time(orin_gov, root: Path, words: list[str]) -> None:
    before = content(root)
    done = orin_gov("setup", "--root", root, *words)
    assert done.returncode == 2
    assert "or --remove" in done.stderr
    assert content(root) == before


def test_the_service_is_the_users_and_restores_the_board_after_it(
    root: Path, tmp_path: Path
) -> None:
    install_service(root, "somebody")
    unit = tmp_path / "orin-gov@.service"
    lines = (root / UNIT).read_text().replace("=somebody", "=root")
    unit.write_text(lines)
    assert "User=root" in lines
    assert "NoNewPrivileges=yes" in lines
    assert "KillMode=mixed" in lines
    (after,) = (line for line in lines.splitlines() if line.startswith("ExecStopPost="))
    assert after.endswith("-m orin_gov restore")
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60
        )
        assert "orin-gov@" not in done.stderr, done.stderr


@pytest.mark.parametrize("user", ["root\nExecStart=/bin/sh", "a b", ""])
def test_a_service_cannot_be_extended_by_a_users_name(root: Path, user: str) -> None:
    with pytest.raises(UsageError):
        install_service(root, user)
    assert not (root / UNIT).exists()
