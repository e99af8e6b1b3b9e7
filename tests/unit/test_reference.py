"""The baseline's law: time and energy of a step as a line in its work."""

import pytest

from orin_gov.policy.reference import Reference
from orin_gov.policy.window import StepSample, Window


def window_of(
    tokens: list[float], per_step: float, per_token: float, watts: float = 20.0
) -> Window:
    times = [per_step + per_token * each for each in tokens]
    return Window(
        start_ns=0,
        end_ns=1,
        duration_s=sum(times),
        target_hz=None,
        steps=len(tokens),
        work=sum(tokens),
        unit="unit of work",
        energy_j=watts * sum(times),
        samples=[StepSample(w, t, watts * t) for w, t in zip(tokens, times, strict=True)],
    )


def test_short_sentences_look_like_neither_saving_nor_slowdown() -> None:
    reference = Reference()
    reference.add(window_of([100, 200, 300, 150], per_step=0.2, per_token=0.001))
    short = window_of([20, 30, 25], per_step=0.2, per_token=0.001)
    assert reference.relative_time(short) == pytest.approx(1.0)
    assert reference.relative_energy(short) == pytest.approx(1.0)
    # Per token alone the same steps would look several times slower.
    assert short.duration_s / (short.work or 1) > 4 * (0.2 + 0.1875) / 187.5


def test_a_slower_window_is_slower_at_any_length() -> None:
    reference = Reference()
    reference.add(window_of([100, 200, 300, 150], per_step=0.2, per_token=0.001))
    slow = window_of([50, 400], per_step=0.22, per_token=0.0011)
    assert reference.relative_time(slow) == pytest.approx(1.1)


def test_a_window_without_work_has_no_ratio_and_teaches_nothing() -> None:
    reference = Reference()
    idle = Window(0, 1, 5.0, None, 0, None, "busy cycle", 10.0)
    reference.add(idle)
    assert reference.windows == []
    assert reference.relative_time(idle) is None
    reference.add(window_of([10, 20], 0.1, 0.01))
    assert reference.relative_time(idle) is None


def test_a_window_with_a_hole_in_its_energy_is_no_baseline_for_energy() -> None:
    whole = window_of([10, 20, 30], 0.1, 0.01)
    holed = [*whole.samples[:2], StepSample(30, 0.4, None)]
    reference = Reference()
    reference.add(Window(0, 1, 1.0, None, 3, 60.0, "unit of work", None, samples=holed))
    assert reference.relative_energy(whole) is None
    reference.add(whole)
    assert reference.relative_energy(whole) == pytest.approx(1.0)
    assert reference.relative_time(whole) == pytest.approx(1.0, rel=0.2)
