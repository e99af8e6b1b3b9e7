"""Counting real steps of torch: against its own counter, and against what can be told by hand."""

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="counting is for torch, which is not installed")

from orin_gov.counts import BYTES, LAUNCHES, OPERATIONS, SHAPED_OPERATIONS, Counts  # noqa: E402
from orin_gov.counts import counts_of as counts_of_marks  # noqa: E402
from orin_gov.phases import BACKWARD, FORWARD, OPTIMIZER  # noqa: E402
from orin_gov.virtual import operations  # noqa: E402
from orin_gov.workload import counting, dispatch  # noqa: E402
from orin_gov.workload.counting import StepCounter  # noqa: E402
from orin_gov.workload.dispatch import CountingMode, foreach_launches, tensor_bytes  # noqa: E402
from orin_gov.workload.schedule import FIRST  # noqa: E402

nn = torch.nn
ROWS, WIDTH, HIDDEN = 6, 16, 32


def perceptron(trained: bool = True) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))
    model[0].requires_grad_(trained)
    return model


def count_step(model: Any, inputs: Any, around: Callable[[], Any] = nullcontext) -> Counts:
    """Run steps until one is counted, as the hooks run them; return its counts."""
    counter = StepCounter()
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.01, foreach=False)

    def run(phase: int, call: Any, *args: Any) -> Any:
        return counter.run(phase, call, *args) if counter.counting else call(*args)

    for _ in range(FIRST):
        with around():
            loss = run(FORWARD, nn.Module.__call__, model, inputs).square().sum()
        run(BACKWARD, loss.backward)
        run(OPTIMIZER, optimizer.step)
        optimizer.zero_grad()
        marks = counter.end_step(0.01, float(len(inputs)))
    found = counts_of_marks(marks, float(len(inputs)))
    assert found is not None
    return found


@pytest.fixture
def inputs() -> Any:
    torch.manual_seed(1)
    return torch.randn(ROWS, WIDTH)


def product(rows: int, n_in: int, n_out: int) -> tuple[int, int]:
    """Operations and bytes of one product in fp32."""
    return 2 * rows * n_in * n_out, 4 * (rows * n_in + n_in * n_out + rows * n_out)


def test_operations_are_those_of_the_products_forward_and_backward(inputs: Any) -> None:
    counts = count_step(perceptron(), inputs)
    one = product(ROWS, WIDTH, HIDDEN)[0]
    assert counts.operations == {"forward": 2 * one, "backward": 3 * one, "optimizer": 0.0}


def test_bytes_and_launches_are_those_of_the_kernels(inputs: Any) -> None:
    counts = count_step(perceptron(), inputs)
    moved = product(ROWS, WIDTH, HIDDEN)[1] + product(ROWS, HIDDEN, WIDTH)[1]
    biases, relu = 4 * (HIDDEN + WIDTH), 4 * 2 * ROWS * HIDDEN
    assert counts.launches["forward"] == 3
    assert counts.moved["forward"] == moved + biases + relu
    # SGD on the CPU goes over each of the four tensors once: gradient and weight read, one written.
    sizes = [WIDTH * HIDDEN, HIDDEN, HIDDEN * WIDTH, WIDTH]
    assert counts.launches["optimizer"] == 4
    assert counts.moved["optimizer"] == 4 * 3 * sum(sizes)


def test_frozen_weights_spare_their_gradients(inputs: Any) -> None:
    counts = count_step(perceptron(trained=False), inputs)
    one = product(ROWS, WIDTH, HIDDEN)[0]
    # Of the second layer the weights' gradient alone: no one asks for that of its input.
    assert counts.operations["backward"] == one
    assert counts.launches["optimizer"] == 2


def test_an_adapter_beside_a_frozen_weight_is_counted_as_it_runs(inputs: Any) -> None:
    class Adapted(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(WIDTH, WIDTH, bias=False).requires_grad_(False)
            self.down, self.up = (nn.Linear(*n, bias=False) for n in ((WIDTH, 4), (4, WIDTH)))

        def forward(self, x: Any) -> Any:
            return self.base(x) + self.up(self.down(x))

    counts = count_step(Adapted(), inputs)
    base, thin = product(ROWS, WIDTH, WIDTH)[0], product(ROWS, WIDTH, 4)[0]
    assert counts.operations["forward"] == base + 2 * thin
    assert counts.operations["backward"] == 3 * thin  # both weights, and the input of `up`


def test_autocast_halves_the_bytes_and_shows_its_casts(inputs: Any) -> None:
    wide = count_step(perceptron(), inputs)
    half = count_step(perceptron(), inputs, lambda: torch.autocast("cpu", torch.bfloat16))
    assert half.operations["forward"] == wide.operations["forward"]
    assert half.operations["backward"] == wide.operations["backward"]
    assert half.launches["forward"] > wide.launches["forward"]


def test_torchs_own_counter_agrees_on_a_transformer() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    inputs = torch.randn(3, 10, 32)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        counts = count_step(model, inputs)
        with FlopCounterMode(display=False) as ahead:
            loss = model(inputs).square().sum()
        with FlopCounterMode(display=False) as back:
            loss.backward()
    assert counts.operations["forward"] == ahead.get_total_flops()
    assert counts.operations["backward"] == back.get_total_flops()


def test_the_fused_attention_of_a_cpu_counts_as_the_one_written_out() -> None:
    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8))

        def forward(self, x: Any) -> Any:
            q = x * self.weight
            return nn.functional.scaled_dot_product_attention(q, q, q)

    inputs = torch.randn(2, 4, 10, 8)
    fused = count_step(Attention(), inputs)
    assert fused.operations["forward"] == 2 * 2 * 2 * 4 * 10 * 10 * 8
    # The fused one recomputes the scores: five products where forward has two.
    assert fused.operations["backward"] == fused.operations["forward"] / 2 * 5


def test_a_recomputed_forward_is_counted_as_backward(inputs: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, reentrant: bool) -> None:
            super().__init__()
            self.inner, self.reentrant = perceptron(), reentrant

        def forward(self, x: Any) -> Any:
            x = x.requires_grad_()
            return checkpoint(self.inner, x, use_reentrant=self.reentrant)

    one = product(ROWS, WIDTH, HIDDEN)[0]
    for reentrant in (True, False):
        counts = count_step(Checkpointed(reentrant), inputs.clone())
        assert counts.operations["forward"] == 2 * one
        # Up to the last activation that backward needs, or all of it.
        assert counts.operations["backward"] in (5 * one, 6 * one)


def test_counting_changes_no_bit_of_weights_or_randomness(inputs: Any) -> None:
    def train(counted: bool) -> tuple[Any, Any]:
        torch.manual_seed(3)
        model = nn.Sequential(perceptron(), nn.Dropout(0.3), nn.LayerNorm(WIDTH))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        counter = StepCounter()
        for _ in range(5):
            counter.counting = counted
            loss = (
                counter.run(FORWARD, model, inputs).square().mean()
                if counted
                else (model(inputs).square().mean())
            )
            counter.run(BACKWARD, loss.backward) if counted else loss.backward()
            counter.run(OPTIMIZER, optimizer.step) if counted else optimizer.step()
            optimizer.zero_grad()
            if counted:
                assert counter.end_step(0.01, 6.0)
        return [copy.deepcopy(each) for each in model.parameters()], torch.get_rng_state()

    weights, randomness = train(counted=True)
    expected, expected_randomness = train(counted=False)
    assert all(torch.equal(a, b) for a, b in zip(weights, expected, strict=True))
    assert torch.equal(randomness, expected_randomness)


@pytest.mark.parametrize("how", ["wrapped", "kept", "inside", "before"])
def test_a_compiled_model_is_told_from_its_shapes(how: str) -> None:
    import torch._dynamo.utils as dynamo

    torch.manual_seed(0)
    embed = nn.Embedding(50, WIDTH)
    model = nn.Sequential(embed, perceptron())
    model[1][0].requires_grad_(False)
    fast, tokens = model, torch.randint(0, 50, (3, 7))
    try:
        if how == "wrapped":
            fast = torch.compile(model, backend="eager")
        elif how == "kept":
            model.compile(backend="eager")
        elif how == "inside":
            model[1].compile(backend="eager")
        else:
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
        counts = count_step(fast, tokens)
    finally:
        dynamo.counters.clear()
        torch.compiler.reset()
    assert counts.by_shapes
    weights, rows = 2 * WIDTH * HIDDEN, 21
    assert counts.operations["forward"] == 2 * weights * rows
    assert counts.operations["backward"] == 2 * (weights + weights // 2) * rows
    assert not counts.moved
    assert not counts.launches


def test_a_failing_call_leaves_no_mode_on() -> None:
    counter = StepCounter()

    def fail() -> None:
        raise MemoryError("here")

    with pytest.raises(MemoryError, match="here"):
        counter.run(FORWARD, fail)
    assert counting._get_current_dispatch_mode() is None


def test_a_step_that_failed_is_left_at_the_next_chance() -> None:
    counter = StepCounter()
    counter.begin(OPTIMIZER)  # whose step raises: nothing tells us
    assert counting._get_current_dispatch_mode() is not None
    counter.end_step(0.01, 1.0)
    assert counting._get_current_dispatch_mode() is None


def test_a_mode_of_the_scripts_own_is_left_alone(inputs: Any) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    model = perceptron()
    counter = StepCounter()
    with FlopCounterMode(display=False) as own:
        counter.run(FORWARD, model, inputs)
    assert own.get_total_flops() == 2 * product(ROWS, WIDTH, HIDDEN)[0]
    assert counter._counts() == {}


def test_a_lookup_reads_what_it_returns_and_not_its_table() -> None:
    table = nn.Embedding(10_000, WIDTH)
    counts = count_step(table, torch.randint(0, 10_000, (3, 5)))
    assert counts.moved["forward"] == 8 * 15 + 2 * 4 * 15 * WIDTH


def test_views_and_allocations_launch_nothing() -> None:
    mode = CountingMode()
    with mode:
        torch.empty(5).view(5, 1).t().detach().expand(3, 5)
    assert mode.seen > 0
    assert (mode.launches, mode.moved) == (0, 0)


def test_lists_of_tensors_are_launched_in_chunks() -> None:
    assert (dispatch.FOREACH_TENSORS, dispatch.FOREACH_ELEMENTS) == (
        operations.FOREACH_TENSORS,
        operations.FOREACH_ELEMENTS,
    )
    small = [torch.zeros(1)] * 100
    assert foreach_launches((small,)) == 3
    assert foreach_launches(([],)) == foreach_launches(()) == 1


def test_lists_that_are_worked_on_in_place_are_read_and_written() -> None:
    mode = CountingMode()
    lists = [[torch.zeros(10), torch.zeros(20)] for _ in range(2)]
    with mode:
        torch._foreach_add_(*lists)
    assert (mode.moved, mode.launches) == (4 * 30 * 3, 1)


def test_bytes_are_those_of_tensors_and_of_lists_of_them() -> None:
    half = torch.zeros(4, dtype=torch.float16)
    assert tensor_bytes((half, [half, half], 3, None, (half,))) == 32


def test_quantities_are_told_by_phase(inputs: Any) -> None:
    counter = StepCounter()
    counter.run(FORWARD, perceptron(), inputs)
    assert set(counter._counts()) == {(FORWARD, each) for each in (OPERATIONS, BYTES, LAUNCHES)}
    assert SHAPED_OPERATIONS not in {quantity for _, quantity in counter._counts()}
