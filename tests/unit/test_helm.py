"""The helm: what is left to choose from when a clock does not come, or another writer comes."""

import errno
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plants import policy_of
from trees import AGX_CLOCKS, build_tree, eventually, following, gpu_folder, limits

from orin_gov import standstill
from orin_gov._actuator import Transition
from orin_gov.board.gpu import Gpu, find_gpu
from orin_gov.control import Control, take_control
from orin_gov.errors import BoardError
from orin_gov.helm import MOST_ADOPTIONS, Helm, has_come, open_points
from orin_gov.lookout import Lookout
from orin_gov.policy.decision import State
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective

LOW, TOP = AGX_CLOCKS[0], AGX_CLOCKS[-1]


def change(
    target_hz: int, achieved_hz: int | None, came: bool = False, failed: int = 0
) -> Transition:
    return Transition(1, 1, 2, 3 if came else None, target_hz, target_hz, achieved_hz, failed)


@pytest.mark.parametrize(
    ("target", "achieved", "before", "left"),
    [
        # A cap that does not show in the limits: the clock rose as far as it could.
        (AGX_CLOCKS[9], AGX_CLOCKS[7], AGX_CLOCKS[2], AGX_CLOCKS[:8]),
        # Another user of the GPU holds a floor.
        (AGX_CLOCKS[1], AGX_CLOCKS[4], AGX_CLOCKS[9], AGX_CLOCKS[4:]),
        # Refused: nothing moved, and only this one is known not to come.
        (AGX_CLOCKS[5], AGX_CLOCKS[2], AGX_CLOCKS[2], AGX_CLOCKS[:5] + AGX_CLOCKS[6:]),
        (AGX_CLOCKS[5], None, AGX_CLOCKS[2], AGX_CLOCKS[:5] + AGX_CLOCKS[6:]),
    ],
)
def test_what_does_not_come_closes_points(target, achieved, before, left) -> None:
    assert open_points(AGX_CLOCKS, change(target, achieved), before) == left


@given(
    target=st.sampled_from(AGX_CLOCKS),
    achieved=st.none() | st.integers(0, 2_000_000_000),
    before=st.none() | st.integers(0, 2_000_000_000),
)
def test_a_clock_that_did_not_come_is_never_left_and_nothing_is_added(
    target: int, achieved: int | None, before: int | None
) -> None:
    if achieved == target:
        return
    left = open_points(AGX_CLOCKS, change(target, achieved), before)
    assert target not in left
    assert set(left) <= set(AGX_CLOCKS)


def test_a_gpu_that_is_off_refuses_nothing() -> None:
    assert has_come(change(LOW, LOW, came=True))
    assert has_come(change(LOW, 0))  # Thor's clock reads 0 while the GPU is gated
    assert not has_come(change(LOW, TOP))
    assert not has_come(change(LOW, 0, failed=13))


@pytest.fixture
def gpu(tmp_path: Path) -> Gpu:
    found = find_gpu(build_tree(tmp_path / "board"))
    assert found is not None
    return found


@pytest.fixture
def control(tmp_path: Path, gpu: Gpu) -> Iterator[Control]:
    with take_control(tmp_path / "board", gpu) as taken, following(gpu.directory):
        yield taken


def helm(control: Control | None) -> tuple[Helm, list[str]]:
    governor = Governor(policy_of(), AGX_CLOCKS, Objective())
    warnings: list[str] = []
    return Helm(control, governor, AGX_CLOCKS, warnings), warnings


def test_without_control_it_holds_nothing_and_does_nothing() -> None:
    idle, warnings = helm(None)
    assert not idle.holds
    assert idle.transitions() == []
    assert idle.respect_others() is None
    assert idle.look(time.monotonic_ns() + 10**12) is None
    assert idle.judge(change(LOW, TOP)) is None
    assert warnings == []


def test_a_foreign_cap_is_planned_within_and_looked_for_once_a_second(
    control: Control, gpu: Gpu
) -> None:
    at_helm, warnings = helm(control)
    at_helm.request(TOP, LOW)
    assert eventually(at_helm.transitions)
    (gpu.directory / "max_freq").write_text(str(AGX_CLOCKS[4]))
    now_ns = time.monotonic_ns()
    assert at_helm.look(now_ns) is None  # not yet a second
    decision = at_helm.look(now_ns + 2_000_000_000)
    assert decision is not None
    assert (decision.state, decision.target_hz) == (State.BASELINE, None)
    assert warnings == ["another writer set 714-714 MHz; planned anew within 306-714 MHz"]
    assert at_helm.holds


def test_limits_that_a_suspend_has_reset_are_written_again_though_nobody_has_told_of_it(
    control: Control, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look that finds them may come before the engine's that notices the suspend."""
    at_helm, warnings = helm(control)
    at_helm.request(TOP, LOW)
    assert eventually(at_helm.transitions)
    least_ns, most_ns = standstill.ahead_ns()
    asleep_ns = 60 * 10**9
    monkeypatch.setattr(standstill, "ahead_ns", lambda: (least_ns + asleep_ns, most_ns + asleep_ns))
    (gpu.directory / "min_freq").write_text(str(LOW))
    assert at_helm.look(time.monotonic_ns() + 2_000_000_000) is None
    assert eventually(lambda: limits(gpu.directory) == (str(TOP), str(TOP)))
    assert "forgotten its limits while suspended" in warnings[0]


def test_one_that_leaves_no_choice_or_never_stops_may_have_the_board(
    control: Control, gpu: Gpu
) -> None:
    at_helm, warnings = helm(control)
    for _ in range(MOST_ADOPTIONS + 1):
        assert at_helm.holds
        at_helm.request(AGX_CLOCKS[6], LOW)
        assert eventually(at_helm.transitions)
        for name, hz in (("max_freq", TOP), ("min_freq", LOW)):
            (gpu.directory / name).write_text(str(hz))
        decision = at_helm.respect_others()
        assert decision is not None
    assert decision.state is State.FALLBACK
    assert not at_helm.holds
    assert limits(gpu.directory) == (str(LOW), str(TOP))
    assert warnings[-1].endswith("again and again; the board governs itself from here on")


def test_one_that_comes_again_on_other_days_is_followed(
    control: Control, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As nvpmodel's by day and by night."""
    monkeypatch.setattr("orin_gov.helm.AGAIN_NS", 0)
    at_helm, _ = helm(control)
    for _ in range(MOST_ADOPTIONS + 2):
        at_helm.request(AGX_CLOCKS[6], LOW)
        assert eventually(at_helm.transitions)
        for name, hz in (("max_freq", TOP), ("min_freq", LOW)):
            (gpu.directory / name).write_text(str(hz))
        assert at_helm.respect_others() is not None
        assert at_helm.holds


def test_a_suspend_of_long_ago_makes_no_limits_forgotten(
    control: Control, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_helm, warnings = helm(control)
    at_helm.request(AGX_CLOCKS[6], LOW)
    assert eventually(at_helm.transitions)
    least_ns, most_ns = standstill.ahead_ns()
    asleep_ns = 8 * 3600 * 10**9
    monkeypatch.setattr(standstill, "ahead_ns", lambda: (least_ns + asleep_ns, most_ns + asleep_ns))
    monkeypatch.setattr("orin_gov.helm.LOOK_NS", 0)
    assert at_helm.look(time.monotonic_ns()) is None  # nothing was found then
    monkeypatch.setattr("orin_gov.helm.WAKING_NS", 0)  # and it is long since
    for name, hz in (("max_freq", TOP), ("min_freq", LOW)):
        (gpu.directory / name).write_text(str(hz))
    decision = at_helm.look(time.monotonic_ns())
    assert decision is not None
    assert "another writer set 306-1300 MHz" in warnings[0]


def test_a_cap_that_has_come_and_gone_before_it_was_looked_at_ends_nothing(
    control: Control,
) -> None:
    at_helm, warnings = helm(control)
    decision = at_helm.judge(change(AGX_CLOCKS[6], LOW, failed=errno.ECANCELED))
    assert decision is not None
    assert decision.state is State.BASELINE
    assert at_helm.holds
    assert "another writer's cap has come and gone" in warnings[0]


def test_limits_that_cannot_be_read_any_more_make_it_let_go(control: Control, gpu: Gpu) -> None:
    at_helm, warnings = helm(control)
    (gpu.directory / "max_freq").unlink()
    decision = at_helm.respect_others()
    assert decision is not None
    assert decision.state is State.FALLBACK
    assert not at_helm.holds
    assert "max_freq: No such file" in warnings[0]
    (gpu.directory / "max_freq").write_text(str(TOP))


def test_a_write_that_is_refused_makes_it_let_go_at_once(control: Control) -> None:
    at_helm, warnings = helm(control)
    decision = at_helm.judge(change(TOP, LOW, failed=13))
    assert decision is not None
    assert decision.state is State.FALLBACK
    assert "the board refused 1300-1300 MHz (errno 13)" in warnings[0]


def test_a_clock_that_comes_makes_up_for_one_that_did_not(control: Control) -> None:
    at_helm, _ = helm(control)
    for _ in range(3):
        at_helm.request(TOP, LOW)
        decision = at_helm.judge(change(TOP, AGX_CLOCKS[8]))
        assert decision is not None
        assert decision.state is State.BASELINE
        assert at_helm.judge(change(LOW, LOW, came=True)) is None
    assert at_helm.holds


def test_a_gpu_is_looked_for_ever_more_rarely(tmp_path: Path) -> None:
    lookout = Lookout(tmp_path, None)
    start_ns = time.monotonic_ns()
    tree = build_tree(tmp_path / "other")
    looks = 0
    for tenth in range(600):  # a minute
        before = lookout._patience_ns
        assert lookout.look(start_ns + tenth * 100_000_000) is None
        looks += lookout._patience_ns != before
    assert looks == 6  # after 0.5, 1, 2, 4, 8, 16 s, and then every 30
    (tmp_path / "sys").symlink_to(tree / "sys")
    assert lookout.look(start_ns + 120_000_000_000) is not None


def test_a_late_gpu_is_handed_over_or_it_is_told_why_not(tmp_path: Path, gpu: Gpu, control) -> None:
    at_helm, warnings = helm(None)
    assert Lookout(tmp_path, None).hand_over(gpu, None, at_helm) is None
    assert not at_helm.holds
    assert Lookout(tmp_path, lambda gpu: control).hand_over(gpu, "it is closed", at_helm) is None

    def refuse(gpu: Gpu) -> Control:
        raise BoardError("another orin-gov governs it")

    assert Lookout(tmp_path, refuse).hand_over(gpu, None, at_helm) is None
    (gpu.directory / "max_freq").write_text(str(LOW))
    assert Lookout(tmp_path, lambda gpu: control).hand_over(gpu, None, at_helm) is None
    (gpu.directory / "max_freq").write_text(str(TOP))
    reasons = [warning.partition("start")[2] for warning in warnings]
    assert reasons == [
        "",
        ", but is not governed: it is closed",
        ", but is not governed: another orin-gov governs it",
        ", but is not governed: the board's cap leaves a single GPU clock",
    ]
    decision = Lookout(tmp_path, lambda gpu: control).hand_over(gpu, None, at_helm)
    assert decision is not None
    assert (decision.state, at_helm.holds) == (State.BASELINE, True)
    assert gpu_folder(tmp_path / "board") == gpu.directory
