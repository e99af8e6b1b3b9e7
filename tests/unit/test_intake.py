"""The intake: when a window ends that no step does, and what becomes of a script without steps."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from orin_gov._phases import STEP, PhaseRing
from orin_gov._sampler import Samples
from orin_gov.board.probe import Board, open_board
from orin_gov.energy import EnergyTimeline
from orin_gov.epoch import Epoch, parse_epoch
from orin_gov.intake import Intake
from orin_gov.measured import MeasuredStep
from orin_gov.phases import BACKWARD, DATA, EVAL, FORWARD, IDLE
from orin_gov.policy.decision import State
from orin_gov.policy.window import Window
from orin_gov.windows import WindowBuilder

S = 1_000_000_000
START_NS = 5000 * S
WATT = 10.0
TRAINS = (DATA, FORWARD, BACKWARD, STEP)
INFERS = (DATA, EVAL, IDLE)


class Played:
    """An intake a second at a time: samples of one constant power, and marks as they are put."""

    def __init__(
        self, board: Board, ring: PhaseRing, stepped: bool, epoch: Epoch | None = None
    ) -> None:
        rails = tuple(rail.label for rail in board.rails)
        self.ring, self.now_ns = ring, START_NS
        self.timeline = EnergyTimeline(rails)
        self.builder = WindowBuilder(epoch or Epoch(), self.timeline, board.total_rails)
        self.took: list[MeasuredStep] = []
        self.noted: list[str] = []
        self.intake = Intake(
            board, ring, self.timeline, self.builder, stepped, START_NS,
            self.took.append, self.noted.append,
        )  # fmt: skip

    def go_on(self, seconds: int, marks: Sequence[int] = (), sampled: bool = True) -> list[Window]:
        """Let so many seconds go by with these marks in each; return the windows that ended."""
        windows = []
        for _ in range(seconds):
            for number, kind in enumerate(marks):
                self.ring.put(self.now_ns + number * S // 10, kind, 1.0)
            if sampled:
                self._sample()
            self.now_ns += S
            self.builder.poll(self.now_ns, 10**9, 0.9)
            self.intake.drain()
            for window in self.intake.windows(self.now_ns):
                windows.append(window)
                self.builder.begin(None, window.end_ns)
        return windows

    def _sample(self) -> None:
        t_ns = self.now_ns + np.arange(10, dtype=np.int64) * (S // 10)
        ones = np.ones((len(t_ns), len(self.timeline.rails)))
        energy = ones * ((t_ns - START_NS) * 1e-9 * WATT)[:, None]
        samples = Samples(t_ns, ones * WATT, energy, 0 * ones)
        self.timeline.append(samples, self.intake.open_since_ns)


@pytest.fixture
def board(root: Path) -> Board:
    return open_board(root)


def test_windows_by_time_go_on_without_energy_where_the_sampler_has_stopped(
    board: Board, producer: PhaseRing
) -> None:
    played = Played(board, producer, stepped=False)
    sampled = played.go_on(11)
    assert len(sampled) == 2
    assert all(window.energy_j is not None for window in sampled)
    blind = played.go_on(20, sampled=False)
    assert len(blind) >= 3
    assert all(window.energy_j is None for window in blind)
    assert all(window.work for window in blind)


def test_a_window_by_time_of_many_minutes_has_energy(board: Board, producer: PhaseRing) -> None:
    played = Played(board, producer, False, parse_epoch("100s"))
    played.builder.begin(None, START_NS, State.HOLD)
    (window,) = played.go_on(510)
    assert window.duration_s > 499
    assert window.rail_energy_j == dict.fromkeys(
        played.timeline.rails, pytest.approx(WATT * window.duration_s)
    )


def test_a_step_of_many_minutes_has_energy(board: Board, producer: PhaseRing) -> None:
    played = Played(board, producer, stepped=True)
    played.go_on(3, TRAINS)
    played.go_on(200, (FORWARD, BACKWARD))
    played.go_on(3, TRAINS)
    long = max(played.took, key=lambda measured: measured.step.duration_s)
    assert long.step.duration_s > 200
    assert None not in long.rail_energy_j.values()


def test_a_script_that_only_infers_is_judged_by_time_in_the_end_and_told_so_once(
    board: Board, producer: PhaseRing
) -> None:
    played = Played(board, producer, stepped=True)
    assert not played.go_on(300, INFERS)
    assert not played.noted
    windows = played.go_on(60, INFERS)
    assert len(windows) >= 9
    assert all(window.unit == "busy cycle" and window.energy_j for window in windows)
    (noted,) = played.noted
    assert "no optimizer step in 300 s" in noted


def test_a_script_without_a_mark_is_judged_by_time_sooner(
    board: Board, producer: PhaseRing
) -> None:
    played = Played(board, producer, stepped=True)
    assert not played.go_on(30)
    assert len(played.go_on(30)) >= 4


def test_a_script_that_made_a_step_is_never_judged_by_time(
    board: Board, producer: PhaseRing
) -> None:
    played = Played(board, producer, stepped=True)
    assert not played.go_on(1, TRAINS)
    assert not played.go_on(400, INFERS)
    assert not played.noted
    assert {window.steps for window in played.go_on(7, TRAINS)} == {3}


def test_steps_that_come_late_are_what_windows_are_made_of_from_then_on(
    board: Board, producer: PhaseRing
) -> None:
    played = Played(board, producer, stepped=True)
    assert played.go_on(310, INFERS)
    windows = played.go_on(20, TRAINS)
    assert len(played.took) >= 19
    assert {window.steps for window in windows[1:]} == {3}
    assert not played.go_on(400, INFERS)[1:]


def test_a_first_step_is_of_no_window_before_its_clock_has_come(
    board: Board, producer: PhaseRing
) -> None:
    played = Played(board, producer, stepped=False)
    played.go_on(3)
    played.builder.begin(306_000_000, None)
    assert not played.go_on(20, TRAINS)
    came_ns = played.now_ns
    played.builder.begin(306_000_000, came_ns)
    (window, *_) = played.go_on(6, TRAINS)
    assert (window.target_hz, window.steps) == (306_000_000, 3)
    assert window.start_ns >= came_ns
