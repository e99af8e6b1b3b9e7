"""Marks that wait for the GPU, on a stream that is played here, and on CUDA where there is one."""

import itertools
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="events are torch's, which is not installed")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from orin_gov._phases import STEP  # noqa: E402
from orin_gov.phases import BACKWARD, DATA, FORWARD, IDLE  # noqa: E402
from orin_gov.workload import cuda_events  # noqa: E402
from orin_gov.workload.cuda_events import EventMarks, cuda_event_marks  # noqa: E402

MS = 1_000_000


class Machine:
    """A host and a stream with clocks of their own; kernels run one after another."""

    def __init__(self, drift: float = 0.0) -> None:
        self.now_ns = 1_000 * MS
        self.free_ns = 0  # when the stream will have run all that was launched
        self.drift = drift
        self.put: list[tuple[int, int, float]] = []
        self.usable = True
        self.fails = False
        self.made = 0
        self.marks = EventMarks(
            lambda *record: self.put.append(record),
            lambda: StreamEvent(self),
            lambda: self.usable,
            lambda: self.now_ns,
        )

    def host(self, ms: float) -> None:
        """Let the host work."""
        self.now_ns += round(ms * MS)

    def launch(self, ms: float) -> None:
        """Launch a kernel that takes so long."""
        self.free_ns = max(self.free_ns, self.now_ns) + round(ms * MS)

    def synchronize(self) -> None:
        """Wait for the stream, as a script does when it prints its loss."""
        self.now_ns = max(self.now_ns, self.free_ns)

    def mark(self, kind: int) -> None:
        self.marks.mark(self.now_ns, kind)

    @property
    def told_ms(self) -> list[tuple[int, float]]:
        """The records so far: kind, and ms since the machine's start."""
        return [(kind, t_ns / MS - 1_000) for t_ns, kind, _ in self.put]


class StreamEvent:
    """An event on the machine's stream."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.comes_ns = machine, 0
        machine.made += 1

    def record(self) -> None:
        if self.machine.fails:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        self.comes_ns = max(self.machine.free_ns, self.machine.now_ns)

    def query(self) -> bool:
        return self.comes_ns <= self.machine.now_ns

    def elapsed_time(self, later: "StreamEvent", /) -> float:
        return (later.comes_ns - self.comes_ns) / MS * (1 + self.machine.drift)


def step(machine: Machine, forward_ms: float = 10.0, backward_ms: float = 20.0) -> None:
    """Launch a step in 2 ms of the host's time."""
    machine.mark(FORWARD)
    machine.launch(forward_ms)
    machine.host(1.0)
    machine.mark(IDLE)
    machine.mark(BACKWARD)
    machine.launch(backward_ms)
    machine.host(1.0)
    machine.mark(IDLE)
    machine.marks.follow(machine.now_ns, STEP, 64.0)


def test_phases_last_as_long_as_their_kernels_run_not_as_their_launches() -> None:
    machine = Machine()
    step(machine)
    assert machine.told_ms == [(FORWARD, 0.0)]  # nothing has been waited for
    machine.synchronize()
    machine.mark(FORWARD)
    assert machine.told_ms == [
        (FORWARD, 0.0),
        (IDLE, 10.0),
        (BACKWARD, 10.0),
        (IDLE, 30.0),
        (STEP, 30.0),
        (FORWARD, 30.0),
    ]
    assert machine.put[4][2] == 64.0


def test_a_stream_that_waits_for_the_host_has_the_hosts_edges() -> None:
    machine = Machine()
    for _ in range(3):
        machine.mark(FORWARD)
        machine.launch(0.1)
        machine.host(5.0)
        machine.mark(IDLE)
        machine.host(2.0)
    assert machine.told_ms == [(k, at) for at, k in zip((0, 5, 7, 12, 14, 19), [2, 0] * 3)]  # noqa: B905


def test_loading_that_the_gpu_does_not_wait_for_takes_none_of_its_time() -> None:
    machine = Machine()
    machine.mark(BACKWARD)
    machine.launch(100.0)
    machine.mark(IDLE)
    machine.mark(DATA)
    machine.host(30.0)
    machine.mark(IDLE)
    machine.synchronize()
    machine.marks.follow(machine.now_ns, STEP, 1.0)
    assert machine.told_ms == [(BACKWARD, 0), *[(k, 100) for k in (IDLE, DATA, IDLE, STEP)]]


@pytest.mark.parametrize("drift", [-1e-3, 1e-3])
def test_clocks_that_drift_apart_are_held_together(drift: float) -> None:
    machine = Machine(drift)
    for _ in range(2000):
        step(machine)
        machine.synchronize()
        machine.host(0.5)
    machine.mark(FORWARD)
    # A minute at a millisecond a second would have been 60 ms.
    assert machine.put[-1][0] == pytest.approx(machine.now_ns, abs=1 * MS)


@given(
    st.lists(st.tuples(st.sampled_from("hlm"), st.floats(0, 20)), max_size=60),
    st.floats(-1e-3, 1e-3),
)
def test_records_come_in_order_and_never_before_their_time(
    acts: list[tuple[str, float]], drift: float
) -> None:
    machine = Machine(drift)
    recorded = []
    for act, ms in acts:
        if act == "h":
            machine.host(ms)
        elif act == "l":
            machine.launch(ms)
        else:
            recorded.append(machine.now_ns)
            machine.mark(FORWARD)
    machine.synchronize()
    machine.marks.follow(machine.now_ns, STEP, 1.0)
    times = [t_ns for t_ns, _, _ in machine.put]
    assert len(times) == len(recorded) + 1
    assert all(a <= b for a, b in itertools.pairwise(times))
    assert all(t_ns >= at for t_ns, at in zip(times, recorded, strict=False))
    assert times[-1] <= machine.now_ns


def test_events_are_used_again() -> None:
    machine = Machine()
    for _ in range(100):
        step(machine)
        machine.synchronize()
    assert machine.made <= 10


def test_without_cuda_in_use_marks_go_straight_through() -> None:
    machine = Machine()
    machine.usable = False
    step(machine)
    assert machine.told_ms == [(FORWARD, 0), (IDLE, 1), (BACKWARD, 1), (IDLE, 2), (STEP, 2)]
    assert machine.made == 0


def test_nothing_is_asked_while_a_graph_is_captured() -> None:
    machine = Machine()
    step(machine)
    machine.synchronize()
    machine.usable = False
    machine.mark(FORWARD)
    assert machine.told_ms == [(FORWARD, 0)]
    machine.usable = True
    machine.mark(IDLE)
    assert [kind for kind, _ in machine.told_ms] == [2, 0, 3, 0, STEP, 2, 0]


def test_an_error_of_cuda_leaves_the_host_marks() -> None:
    machine = Machine()
    step(machine)
    machine.fails = True
    step(machine)
    assert [kind for kind, _ in machine.told_ms] == [2, 0, 3, 0, STEP] * 2
    machine.fails = False
    step(machine)
    assert [kind for kind, _ in machine.told_ms] == [2, 0, 3, 0, STEP] * 3


def test_a_stream_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_events, "MOST_WAITING", 20)
    machine = Machine()
    machine.launch(1e9)
    for _ in range(10):
        step(machine)
    assert len(machine.put) >= 30


def test_what_waits_at_the_end_is_put() -> None:
    machine = Machine()
    step(machine)
    machine.marks.flush()
    assert [kind for kind, _ in machine.told_ms] == [2, 0, 3, 0, STEP]


def test_a_torch_without_cuda_has_no_such_marks() -> None:
    if torch.version.cuda is not None:
        pytest.skip("this torch has CUDA")
    assert cuda_event_marks(lambda *record: None) is None


@pytest.fixture
def on_cuda() -> Iterator[None]:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device here; run this on a board")
    torch.zeros(1, device="cuda")
    yield
    torch.cuda.synchronize()


def test_real_events_tell_a_products_time(on_cuda: None) -> None:
    put: list[tuple[int, int, float]] = []
    marks = cuda_event_marks(lambda *record: put.append(record))
    assert marks is not None
    import time

    square = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    marks.mark(time.monotonic_ns(), FORWARD)
    for _ in range(20):
        square @ square
    launched_ns = time.monotonic_ns()
    marks.mark(launched_ns, IDLE)
    torch.cuda.synchronize()
    marks.follow(time.monotonic_ns(), STEP, 1.0)
    (begin, *_), (end, *_), _ = put
    assert launched_ns < end <= time.monotonic_ns()
    assert begin < end
