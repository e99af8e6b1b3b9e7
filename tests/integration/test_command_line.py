"""The command line as a whole: its manual, its completion, and JSON from whatever tells facts."""

import argparse
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, Run
from trees import build_tree

from orin_gov.commands import COMMANDS
from orin_gov.commands.manual import manual, whole_parser

TELL_NO_FACTS = {"run", "completion", "top", "setup"}
"""Commands without --json: they run a script, or what they print is for a shell or a terminal."""


def test_the_manual_is_what_the_parsers_say() -> None:
    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == manual(), (
        "mend it with: python -m orin_gov.commands.manual > docs/cli.md"
    )


def test_every_option_is_explained() -> None:
    _, commands = whole_parser()
    assert set(commands) == set(COMMANDS)
    for name, command in commands.items():
        for action in command._actions:
            if action.help != argparse.SUPPRESS:
                assert action.help, (name, action.dest)


def test_every_command_that_tells_facts_has_json() -> None:
    _, commands = whole_parser()
    for name in set(commands) - TELL_NO_FACTS:
        assert "--json" in commands[name]._option_string_actions, name


def test_doctor_tells_its_findings_as_json(orin_gov: Run, tmp_path: Path) -> None:
    done = orin_gov("doctor", "--json", "--root", tmp_path)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["board"], told["ready"]) == (None, False)
    assert told["problems"][0]["mend"].startswith("orin-gov run --board virtual:")
    done = orin_gov("doctor", "--json", "--root", build_tree(tmp_path / "board"))
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert (told["module"], told["ready"], told["changed"]) == ("p3701-0005", True, False)
    assert (told["gpu"]["min_hz"], told["gpu"]["max_hz"]) == (306_000_000, 1_300_500_000)
    assert [rail["in_total"] for rail in told["rails"]] == [True, True, True, False]


def test_restore_and_characterize_tell_json(orin_gov: Run, tmp_path: Path) -> None:
    done = orin_gov("restore", "--json", "--root", tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"restored": None})
    words = ("--workload", "bert-tiny/sst2", "--freqs", "306,1122", "--repeats", 2, "-o", "sweep")
    done = orin_gov("characterize", "--json", "--board", "virtual:agx-orin-64gb", *words)
    told = json.loads(done.stdout)
    (points,) = told["curves"].values()
    assert [point["target_hz"] for point in points] == [None, 306_000_000, 1_122_000_000]
    assert told["run"] == "sweep"


def completions(script: Path, words: str) -> list[str]:
    """Return what bash offers for the last of `words`."""
    code = (
        f"source {script}; COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ));"
        'COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE};'
        "f=$(complete -p orin-gov | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $f orin-gov \"${COMP_WORDS[-1]}\";"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=30)
    return done.stdout.split()


def test_bash_completes_commands_and_options(orin_gov: Run, tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    if shutil.which("bash") is None:
        pytest.skip("no bash to try it in")
    script = tmp_path / "orin-gov.bash"
    script.write_text(orin_gov("completion", "bash").stdout)
    assert sorted(completions(script, "orin-gov ex")) == ["explain", "export"]
    assert completions(script, "orin-gov run --ep") == ["--epoch"]
    assert "--figures" in completions(script, "orin-gov report --f")


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_have_a_script(orin_gov: Run, shell: str) -> None:
    pytest.importorskip("shtab")
    done = orin_gov("completion", shell)
    assert done.returncode == 0
    assert "characterize" in done.stdout
    if found := shutil.which(shell):
        checked = subprocess.run([found, "-n"], input=done.stdout, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr


def test_a_shell_that_is_unknown_is_told(orin_gov: Run) -> None:
    done = orin_gov("completion", "fish")
    assert done.returncode == 2
    assert "expected bash, zsh, tcsh" in done.stderr
