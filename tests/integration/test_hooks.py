"""The hooks in a real torch, in a real process that was given a ring.

One process runs every scenario of hook_scenarios.py and notes when each began and ended; its marks
are told apart by their time. A second one runs, without hooks, those whose results must be the same.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orin_gov._phases import STEP, PhaseRing
from orin_gov.counts import parse_kind
from orin_gov.phases import BACKWARD, CHECKPOINT, DATA, EPOCH_END, EVAL, FORWARD, IDLE, OPTIMIZER
from orin_gov.workload.launch import launch, resolve_target
from orin_gov.workload.ring import make_ring
from orin_gov.workload.schedule import FIRST
from orin_gov.workload.tracker import MARK, Step, StepTracker

pytestmark = pytest.mark.timeout(400)

pytest.importorskip("torch", reason="the hooks are for torch, which is not installed")

SCENARIOS = Path(__file__).with_name("hook_scenarios.py")

FORWARD_TO_STEP = [FORWARD, IDLE, BACKWARD, IDLE, OPTIMIZER, IDLE, STEP]
"""The marks of one step of the scenarios' train()."""

NAMES = (
    "workers",
    "failing_counted_step",
    "plain",
    "tokens",
    "accumulation",
    "reentrant_checkpointing",
    "other_checkpointing",
    "two_models",
    "step_in_backward",
    "parents_step",
    "evaluation",
    "lbfgs",
    "compiled",
    "compiled_gradient",
    "nan_losses",
    "skipped_steps",
    "failing_forward",
    "failing_backward",
    "failing_step",
    "copies",
    "tracing",
    "nested_tensors",
)


@dataclass(frozen=True)
class Seen:
    """What the marks of one scenario say, and what it returned."""

    kinds: list[int]
    steps: list[Step]
    value: Any

    def phases(self) -> list[list[int]]:
        """Return each step's named phases in order."""
        return [[span.phase for span in step.spans if span.phase != IDLE] for step in self.steps]


@dataclass(frozen=True)
class Hooked:
    """The hooked process: its scenarios, and the process that wrote the marks."""

    scenarios: dict[str, Seen]
    producer_pid: int


def run_hooked(folder: Path, *names: str) -> Hooked:
    """Run scenarios in a hooked process of their own, which leaves its report in the folder."""
    report = folder / "hooked.json"
    descriptor = make_ring()
    ring = PhaseRing(descriptor)
    target = resolve_target([str(SCENARIOS), str(report), *names], module=False)
    assert launch(target, descriptor).wait(300) == 0
    marks = np.frombuffer(ring.drain(), dtype=MARK)
    assert ring.dropped == 0
    scenarios = {}
    for name, (begin_ns, end_ns, value) in json.loads(report.read_text()).items():
        own = marks[(marks["t_ns"] >= begin_ns) & (marks["t_ns"] <= end_ns)]
        kinds = [kind for kind in own["kind"].tolist() if parse_kind(kind) is None]
        scenarios[name] = Seen(kinds, StepTracker().feed(own), value)
    hooked = Hooked(scenarios, ring.producer_pid)
    ring.close()
    os.close(descriptor)
    return hooked


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Hooked:
    return run_hooked(tmp_path_factory.mktemp("hooks"), *NAMES)


@pytest.fixture(scope="module")
def seen(hooked: Hooked) -> dict[str, Seen]:
    return hooked.scenarios


def test_the_phases_of_a_plain_loop_are_marked_in_order(seen: dict[str, Seen]) -> None:
    # The loss is a module too. The last batch's fetch finds that there is none.
    step = [DATA, IDLE, FORWARD, IDLE, FORWARD, IDLE, BACKWARD, IDLE, OPTIMIZER, IDLE, STEP]
    assert seen["plain"].kinds == [*step * 3, DATA, EPOCH_END, IDLE]
    assert seen["plain"].phases() == [[DATA, FORWARD, FORWARD, BACKWARD, OPTIMIZER]] * 3


def test_work_is_the_samples_of_a_batch_or_its_tokens(seen: dict[str, Seen]) -> None:
    assert [step.work for step in seen["plain"].steps] == [2.0] * 3
    assert [step.work for step in seen["tokens"].steps] == [15.0] * 2


def test_modules_inside_modules_are_one_forward(seen: dict[str, Seen]) -> None:
    assert seen["tokens"].kinds == FORWARD_TO_STEP * 2


def test_gradient_accumulation_is_one_step_of_several_forwards(seen: dict[str, Seen]) -> None:
    assert seen["accumulation"].phases() == [[*[DATA, FORWARD, BACKWARD] * 4, OPTIMIZER]] * 2
    assert [step.work for step in seen["accumulation"].steps] == [8.0, 8.0]


@pytest.mark.parametrize("name", ["reentrant_checkpointing", "other_checkpointing"])
def test_the_recomputed_forward_is_backward(seen: dict[str, Seen], name: str) -> None:
    assert seen[name].kinds == FORWARD_TO_STEP * 2


def test_two_optimizers_are_one_step_a_round(seen: dict[str, Seen]) -> None:
    assert len(seen["two_models"].steps) == 5
    turn = [BACKWARD, OPTIMIZER]
    whole = [FORWARD, FORWARD, *turn, FORWARD, FORWARD, FORWARD, *turn]
    assert [sorted(phases) for phases in seen["two_models"].phases()[1:]] == [sorted(whole)] * 4


def test_an_optimizer_for_each_parameter_is_one_step_a_round(seen: dict[str, Seen]) -> None:
    assert len(seen["step_in_backward"].steps) == 4
    assert OPTIMIZER not in seen["step_in_backward"].kinds  # it is inside backward


def test_an_optimizer_that_calls_its_parents_step_steps_once(seen: dict[str, Seen]) -> None:
    assert seen["parents_step"].kinds == FORWARD_TO_STEP * 3


def test_losses_that_are_no_numbers_are_steps_like_others(seen: dict[str, Seen]) -> None:
    assert seen["nan_losses"].kinds == FORWARD_TO_STEP * 4


def test_a_step_that_a_gradient_scaler_leaves_out_is_a_step_all_the_same(
    seen: dict[str, Seen],
) -> None:
    skipped = seen["skipped_steps"]
    assert skipped.value == 65536 / 4  # it has left two out
    left_out = [FORWARD, BACKWARD]
    whole = [*left_out, OPTIMIZER]
    assert skipped.phases() == [whole, left_out, left_out, whole]
    assert [step.work for step in skipped.steps] == [3.0] * 4


def test_evaluation_between_steps_is_in_none_of_them(seen: dict[str, Seen]) -> None:
    assert seen["evaluation"].kinds.count(EVAL) == 6
    plain = [DATA, FORWARD, BACKWARD, OPTIMIZER]
    after = [DATA, *plain]  # one more fetch finds the end of the evaluation's data
    assert seen["evaluation"].phases()[1:] == [plain, after, plain, after, plain]


def test_data_workers_mark_nothing_and_never_take_the_ring(hooked: Hooked) -> None:
    workers = hooked.scenarios["workers"]
    assert hooked.producer_pid == workers.value
    assert workers.kinds == [*[DATA, IDLE, *FORWARD_TO_STEP] * 2, DATA, EPOCH_END, IDLE]


def test_what_a_closure_does_is_the_optimizers(seen: dict[str, Seen]) -> None:
    assert seen["lbfgs"].kinds == [OPTIMIZER, IDLE, STEP] * 2
    assert [step.work for step in seen["lbfgs"].steps] == [None, None]


def test_a_compiled_model_is_marked_too(seen: dict[str, Seen]) -> None:
    assert seen["compiled"].kinds == FORWARD_TO_STEP * 3
    assert seen["compiled_gradient"].value == [2.0] * 3


@pytest.mark.parametrize(
    ("name", "phase"),
    [("failing_forward", FORWARD), ("failing_backward", BACKWARD)],
)
def test_a_phase_that_fails_is_left(seen: dict[str, Seen], name: str, phase: int) -> None:
    assert seen[name].kinds == [phase, IDLE, *FORWARD_TO_STEP]


def test_a_step_that_fails_is_left_when_the_next_one_begins(seen: dict[str, Seen]) -> None:
    assert seen["failing_step"].kinds == [OPTIMIZER, IDLE, OPTIMIZER, IDLE, STEP]


def test_models_and_optimizers_can_be_copied_and_saved(seen: dict[str, Seen]) -> None:
    # To pickle a tensor is to save it.
    saved = seen["copies"].kinds
    assert saved == [CHECKPOINT, IDLE] * (len(saved) // 2) != []


def test_a_trace_records_what_the_model_does_and_not_us(seen: dict[str, Seen]) -> None:
    # The scenario fails where torch warns. Torch then tries the trace, without gradients.
    assert set(seen["tracing"].kinds) <= {EVAL, IDLE}


def test_a_tensor_without_a_shape_is_no_fault(seen: dict[str, Seen]) -> None:
    assert seen["nested_tensors"].value == [2, 3]


def test_a_counted_step_whose_optimizer_fails_leaves_nothing_on(seen: dict[str, Seen]) -> None:
    failed = seen["failing_counted_step"]
    assert failed.value is True
    assert failed.kinds == [*FORWARD_TO_STEP[:4], OPTIMIZER, IDLE, OPTIMIZER, IDLE, STEP]
    (step,) = failed.steps
    assert step.counts is not None
    assert set(step.counts.launches) == {"forward", "backward", "optimizer"}
    # What ran between the step that failed and the next one is not taken for the optimizer's.
    assert step.counts.operations["optimizer"] == 0
    assert step.counts.launches["optimizer"] == 4


def test_the_losses_and_the_randomness_are_those_without_us(tmp_path: Path) -> None:
    report = tmp_path / "plain.json"
    with subprocess.Popen([sys.executable, SCENARIOS, report, "losses"]) as alone:
        seen = run_hooked(tmp_path, "losses").scenarios["losses"]  # beside it
    assert alone.returncode == 0
    _, _, expected = json.loads(report.read_text())["losses"]
    assert len(expected["losses"]) == 36
    assert seen.value["losses"] == expected["losses"]
    assert seen.value["random"] == expected["random"]
    assert len(seen.steps) == 32
    # The same holds for the step that was counted.
    assert [step.number for step in seen.steps if step.counts] == [FIRST - 1]
    counts = seen.steps[FIRST - 1].counts
    assert counts is not None
    assert counts.operations["backward"] > counts.operations["forward"] > 0
    assert counts.work == 8 * 11
