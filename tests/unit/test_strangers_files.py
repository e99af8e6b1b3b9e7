"""A policy or a run directory from a stranger: read, or refused in one line, and nothing else."""

import ast
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import orin_gov
from orin_gov.commands import main
from orin_gov.view.lines import print_warning, printable

PACKAGE = Path(orin_gov.__file__).parent
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
SHELL = re.compile(r"(/usr)?(/bin/)?(ba|da|z|k)?sh")
ESCAPES = "\x1b]0;yours\x07\x1b[2J\x9b31m"

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
)
KEYS = ("state", "target_hz", "steps", "duration_s", "energy_j", "slowdown", "saving", "unit")
measured = st.fixed_dictionaries({key: values for key in KEYS}) | values
decided = values | st.fixed_dictionaries(
    {"state": values, "target_hz": values, "reason": values, "path": values}
)
epochs = values | st.fixed_dictionaries(
    {"epoch": values, "measured": measured, "decision": decided}
)


def explain(path: Path) -> tuple[int, str]:
    """Run `orin-gov explain` here; return its exit code and all that it said."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(["explain", str(path)])
    return code, said.getvalue()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(manifest=st.dictionaries(st.text(max_size=8), values), epochs=st.lists(epochs, max_size=3))
def test_any_run_directory_is_explained_or_refused(
    tmp_path: Path, manifest: dict[str, Any], epochs: list[Any]
) -> None:
    known = {"version": 1, "name": ESCAPES, "board": ESCAPES, "started": ESCAPES}
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **known}))
    lines = "".join(json.dumps(each) + "\n" for each in epochs)
    (tmp_path / "decisions.jsonl").write_text(lines)
    code, said = explain(tmp_path)
    assert code in (0, 125)
    assert not CONTROL.search(said)


@pytest.mark.parametrize("name", ["manifest.json", "decisions.jsonl"])
def test_a_run_directory_nested_without_end_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "manifest.json").write_text('{"version": 1, "name": 1, "board": 1, "started": 1}')
    (tmp_path / "decisions.jsonl").write_text("")
    (tmp_path / name).write_text("[" * 200_000 + "\n")
    code, said = explain(tmp_path)
    assert code == 125
    assert "is damaged" in said


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 100_000, "9" * 100_000, "\x00", ""])
def test_a_policy_that_is_a_trap_for_the_parser_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text)
    code, said = explain(path)
    assert code == 125
    assert "Traceback" not in said


def test_a_policys_words_do_not_steer_the_terminal(tmp_path: Path) -> None:
    leaf = {"energy": [0.8, 1.0], "time": [1.05, 1.0], "spread": 1.0, "samples": 3}
    content = {
        "format": "orin_gov policy",
        "version": 2,
        "card": {"made by": ESCAPES, ESCAPES: "theirs"},
        "clock_shares": [0.7, 1.0],
        "nodes": [leaf],
        "deviations": [[0.1, 0.0, 0.1, 0.0]],
        "rest": 0.01,
    }
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(content))
    code, said = explain(path)
    assert code == 0, said
    assert said.count("]0;yours") == 2
    assert not CONTROL.search(said)


@given(st.text())
def test_what_is_printable_has_no_control_characters_and_keeps_its_length(text: str) -> None:
    assert not CONTROL.search(printable(text))
    assert len(printable(text)) == len(text)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        print_warning(text)
    assert not CONTROL.search(said.getvalue())


def is_given_a_shell(call: ast.Call) -> bool:
    """Tell whether a call starts a shell: by its keyword, or as the program to be run."""
    words = [(getattr(each, "elts", None) or [each])[0] for each in call.args]
    return any(SHELL.fullmatch(str(getattr(word, "value", ""))) for word in words) or any(
        each.arg == "shell" and getattr(each.value, "value", True) is not False
        for each in call.keywords
    )


def test_no_code_of_ours_can_run_a_strangers_words() -> None:
    """No shell, no pickle and its like, no eval: looked for in the syntax of every module."""
    modules = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
    functions = {"eval", "exec", "system", "popen", "getoutput", "getstatusoutput", "read_pickle"}
    loaders = {"torch.load", "numpy.load", "np.load"}
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [each.name.split(".")[0] for each in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module.split(".")[0], *(each.name for each in node.names)]
            elif isinstance(node, ast.Call):
                names = [ast.unparse(node.func), ast.unparse(node.func).rpartition(".")[2]]
                names += ["a shell"] * is_given_a_shell(node)
            if {*names} & {*modules, *functions, *loaders, "a shell"}:
                found.append(f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)} {names}")
    assert not found
