"""The hooks in a real torch, in a real process that was given a ring.

One process runs every scenario below and notes when each began and ended; its marks are told apart
by their time. A second one runs, without hooks, those whose results must be the same.
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

SCENARIOS = '''
import copy, gc, io, json, math, os, pickle, random, sys, time, warnings
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)
LOSS = nn.MSELoss()

def small():
    return nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 1)))

def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)

def train(model, optimizer, inputs=None):
    loss = model(torch.randn(3, 4) if inputs is None else inputs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

class Scaled(nn.Module):
    def forward(self, x):
        return x * 2

class Transformed(Dataset):
    """Its items run a module, as image transforms do, and in a data worker."""
    def __init__(self, loaded):
        self.loaded, self.transform = loaded, Scaled()
    def __len__(self):
        return 4
    def __getitem__(self, i):
        item = self.transform(torch.full((4,), float(i)))
        with torch.no_grad():
            self.transform(item)
        self.loaded.set()
        return item

def workers():
    # The first to mark, while this process has not marked yet.
    import multiprocessing
    fork = multiprocessing.get_context("fork")
    loaded = fork.Event()
    batches = iter(DataLoader(Transformed(loaded), 2, num_workers=2, multiprocessing_context=fork))
    assert loaded.wait(60)
    model = small()
    optimizer = sgd(model)
    for batch in batches:
        train(model, optimizer, batch)
    return os.getpid()

def plain():
    model = small()
    optimizer = sgd(model)
    for x, y in DataLoader(TensorDataset(torch.randn(6, 4), torch.randn(6, 1)), batch_size=2):
        optimizer.zero_grad()
        LOSS(model(x), y).backward()
        optimizer.step()

def tokens():
    model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(20, 1))
    optimizer = sgd(model)
    for _ in range(2):
        train(model, optimizer, torch.ones(3, 5, dtype=torch.long))

def accumulation():
    model = small()
    optimizer = sgd(model)
    loader = DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=2)
    for i, (x,) in enumerate(loader):
        model(x).square().mean().backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.layers, self.reentrant = nn.ModuleList(small() for _ in range(1)), reentrant
    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return x

def _checkpointing(reentrant):
    model = Checkpointed(reentrant)
    optimizer = sgd(model)
    for _ in range(2):
        train(model, optimizer, torch.randn(3, 4, requires_grad=True))

def reentrant_checkpointing():
    _checkpointing(True)

def other_checkpointing():
    _checkpointing(False)

def two_models():
    maker, judge = nn.Linear(2, 4), nn.Linear(4, 1)
    for_maker, for_judge = (torch.optim.Adam(m.parameters()) for m in (maker, judge))
    for _ in range(5):
        for_judge.zero_grad()
        (judge(torch.randn(3, 4)) - judge(maker(torch.randn(3, 2)).detach())).mean().backward()
        for_judge.step()
        for_maker.zero_grad()
        judge(maker(torch.randn(3, 2))).mean().backward()
        for_maker.step()

def step_in_backward():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
    of = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}
    def update(parameter):
        of[parameter].step()
        of[parameter].zero_grad()
    handles = [parameter.register_post_accumulate_grad_hook(update) for parameter in of]
    for _ in range(4):
        model(torch.randn(3, 4)).square().mean().backward()
    for handle in handles:
        handle.remove()  # or they would keep the optimizers alive

def parents_step():
    class Adam(torch.optim.Adam):
        def step(self, closure=None):
            return super().step(closure)
    model = small()
    optimizer, parent = Adam(model.parameters()), torch.optim.Adam(model.parameters())
    for _ in range(3):
        train(model, optimizer)

def evaluation():
    model = small()
    optimizer = sgd(model)
    for _ in range(3):
        for (x,) in DataLoader(TensorDataset(torch.randn(4, 4)), batch_size=2):
            train(model, optimizer, x)
        with torch.no_grad():
            for (x,) in DataLoader(TensorDataset(torch.randn(4, 4)), batch_size=2):
                model(x)

def lbfgs():
    model = small()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    def closure():
        optimizer.zero_grad()
        loss = LOSS(model(x), y)
        loss.backward()
        return loss
    for _ in range(2):
        optimizer.step(closure)

def compiled():
    model = small()
    optimizer = sgd(model)
    fast = torch.compile(model, backend="eager", fullgraph=True)
    for _ in range(3):
        train(fast, optimizer)

def compiled_gradient():
    def slope(x):
        return torch.autograd.grad(x.square().sum(), x)[0]
    x = torch.ones(3, requires_grad=True)
    return torch.compile(slope, backend="eager")(x).tolist()

def nan_losses():
    model = small()
    optimizer = sgd(model)
    for i in range(4):
        train(model, optimizer, torch.full((3, 4), math.nan if i == 1 else 1.0))

def skipped_steps():
    model = small()
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu")
    for i in range(4):
        loss = model(torch.randn(3, 4)).square().mean() * (math.nan if i in (1, 2) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return float(scaler.get_scale())

class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 1)
    def forward(self, x):
        raise ValueError("forward")

def failing_forward():
    try:
        nn.Sequential(Failing())(torch.randn(3, 4))
    except ValueError as error:
        assert str(error) == "forward"
    model = small()
    train(model, sgd(model))

def failing_backward():
    try:
        torch.randn(3).sum().backward()
    except RuntimeError:
        pass
    model = small()
    train(model, sgd(model))

def failing_step():
    class Bad(torch.optim.SGD):
        def step(self, closure=None):
            raise MemoryError("step")
    model = small()
    try:
        Bad(model.parameters(), lr=0.1).step()
    except MemoryError as error:
        assert str(error) == "step"
    train(model, sgd(model))

def copies():
    model = small()
    assert str(copy.deepcopy(model)) == str(model)
    back = pickle.loads(pickle.dumps(model))
    assert all(torch.equal(a, b) for a, b in zip(back.parameters(), model.parameters()))
    optimizer = pickle.loads(pickle.dumps(sgd(model)))
    assert type(optimizer) is torch.optim.SGD
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert str(torch.load(file, weights_only=False)) == str(model)

def tracing():
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(small(), torch.randn(3, 4))

def nested_tensors():
    ragged = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)])
    return [part.shape[0] for part in nn.Linear(4, 4)(ragged).unbind()]

class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 50)
    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))

def losses():
    torch.manual_seed(0)
    random.seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randint(0, 50, (62, 12)))
    told = []
    for epoch in range(4):
        model.train()
        for (batch,) in DataLoader(data, batch_size=8, shuffle=True):
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            told.append(repr(loss.item()))
        model.eval()
        with torch.no_grad():
            told.append(repr(model(data.tensors[0][:, :-1]).sum().item()))
    state = [torch.random.get_rng_state().tolist(), str(random.getstate())]
    return {"losses": told, "random": state}

def failing_counted_step():
    # The third step of this process is the first that is counted, and its optimizer fails.
    class Bad(torch.optim.SGD):
        def step(self, closure=None):
            if self.fails:
                raise MemoryError("step")
            return super().step(closure)
    model = small()
    optimizer = Bad(model.parameters(), lr=0.1)
    optimizer.fails = True
    try:
        train(model, optimizer)
    except MemoryError as error:
        assert str(error) == "step"
    optimizer.fails = False
    train(model, optimizer)
    from torch.utils._python_dispatch import _get_current_dispatch_mode
    return _get_current_dispatch_mode() is None

names = sys.argv[2:]
report = {}
for name in names:
    begin_ns = time.monotonic_ns()
    value = globals()[name]()
    report[name] = (begin_ns, time.monotonic_ns(), value)
    gc.collect()  # no optimizer may lead the next scenario's
with open(sys.argv[1], "w") as file:
    json.dump(report, file)
'''

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


@pytest.fixture(scope="module")
def scenario_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hooks") / "scenarios.py"
    path.write_text(SCENARIOS)
    return path


def run_hooked(scenario_file: Path, *names: str) -> Hooked:
    """Run scenarios in a hooked process of their own."""
    report = scenario_file.with_name(f"hooked-{names[0]}.json")
    descriptor = make_ring()
    ring = PhaseRing(descriptor)
    target = resolve_target([str(scenario_file), str(report), *names], module=False)
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
def hooked(scenario_file: Path) -> Hooked:
    return run_hooked(scenario_file, *NAMES)


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


def test_the_losses_and_the_randomness_are_those_without_us(scenario_file: Path) -> None:
    report = scenario_file.with_name("plain.json")
    with subprocess.Popen([sys.executable, scenario_file, report, "losses"]) as alone:
        seen = run_hooked(scenario_file, "losses").scenarios["losses"]  # beside it
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
