"""The saving and its confidence interval: each governed window against the baseline around it.

A governed window is compared with the level of the board's own governor at its time: between the
baseline windows before and after it that level is a straight line, so a machine that drifts looks
neither like a saving nor like a slowdown. Changes are logarithms of ratios to the reference line.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from orin_gov.policy.compared import Rows, rows_of
from orin_gov.policy.line import Line, Sums, line_through
from orin_gov.policy.window import Window

Floats = npt.NDArray[np.float64]

DRAWS = 400
DRAWN_AT_ONCE = 20_000
"""So many numbers take 0.3 MB, however many windows there are."""

LEAST_WINDOWS = 2
"""Fewer windows on a side do not tell how they scatter."""

Z = 1.959964
FREEDOM = (1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 30.0, math.inf)
T_QUANTILE = (12.706, 4.303, 3.182, 2.776, 2.447, 2.228, 2.042, Z)
"""Student's t for 95 %, by degrees of freedom: numpy has none, and SciPy is much for one line."""


@dataclass(frozen=True)
class Change:
    """A relative change against the baseline (-0.12 is 12 % less) with its 95 % interval."""

    value: float
    low: float
    high: float
    n_governed: int
    n_baseline: int

    @property
    def log(self) -> float:
        """The change as the logarithm of a ratio."""
        return math.log1p(self.value)

    @property
    def log_error(self) -> float:
        """The interval's half width in logarithms, as a standard error."""
        return (math.log1p(self.high) - math.log1p(self.low)) / (2 * Z)


@dataclass(frozen=True)
class Saving:
    """Energy and time against the board's own governor: of the module, and of two of its rails."""

    energy: Change | None
    time: Change | None
    two_rail_energy: Change | None


@dataclass(frozen=True)
class Expected:
    """What the governor believes of one operating point against the board's own governor: natural
    logarithms and their standard errors."""

    target_hz: int
    energy: float
    time: float
    energy_error: float
    time_error: float


@dataclass(frozen=True)
class AgainstTop:
    """The run against the pinned maximum `top_hz`; `estimated` where no window was run there."""

    top_hz: int
    estimated: bool
    energy: Change | None
    time: Change | None


def relative_to_baseline(
    governed: Rows | Sequence[Window], baseline: Rows | Sequence[Window]
) -> tuple[Change | None, Change | None]:
    """Return the change of energy and of time; None with fewer than two windows on a side."""
    others, own = _rows(governed), _rows(baseline)
    return _change(others, own, "energy_j", "energy"), _change(others, own, "duration_s", "time")


def saving(governed: Rows | Sequence[Window], baseline: Rows | Sequence[Window]) -> Saving:
    """Return all changes against the board's own governor; None where there is none to tell."""
    others, own = _rows(governed), _rows(baseline)
    energy, time = relative_to_baseline(others, own)
    return Saving(energy, time, _change(others, own, "two_rails_j", None))


def against_top(
    governed: Rows | Sequence[Window],
    baseline: Rows | Sequence[Window],
    believed: Expected | None,
) -> AgainstTop | None:
    """Return the run against the pinned maximum of `believed`: from windows run there, where there
    are two or more, and else from what the governor believes of it."""
    if believed is None:
        return None
    others, own = _rows(governed), _rows(baseline)
    all_energy, all_time = relative_to_baseline(others, own)
    energy, time = relative_to_baseline(others[others["target_hz"] == believed.target_hz], own)
    if energy is not None and time is not None:
        found = [(energy.log, energy.log_error), (time.log, time.log_error)]
    else:
        found = [(believed.energy, believed.energy_error), (believed.time, believed.time_error)]
    changes = [
        None if each is None else _moved(each, *by)
        for each, by in zip((all_energy, all_time), found, strict=True)
    ]
    return AgainstTop(believed.target_hz, energy is None or time is None, *changes)


def why_no_saving(governed: int, baseline: int, energy: Change | None) -> str | None:
    """Say why there is no energy change to tell, or None where there is one."""
    if energy is not None:
        return None
    if min(governed, baseline) < LEAST_WINDOWS:
        return (
            f"it takes {LEAST_WINDOWS} windows each, there were {governed} governed and "
            f"{baseline} of the board's own governor"
        )
    return "the energy or the work of too many windows is missing"


def _rows(windows: Rows | Sequence[Window]) -> Rows:
    return windows if isinstance(windows, np.ndarray) else rows_of(windows)


def _change(governed: Rows, baseline: Rows, name: str, sums: str | None) -> Change | None:
    line = _line(baseline, name, sums)
    if line is None:
        return None
    own, others = _values(baseline, name, line), _values(governed, name, line)
    if min(len(own), len(others)) < LEAST_WINDOWS:
        return None
    stops = _stops(own[:, 0], others[:, 0])
    means = np.array([own[stops == stop, 1].mean() for stop in range(stops[-1] + 1)])
    times = np.array([own[stops == stop, 0].mean() for stop in range(stops[-1] + 1)])
    shares = others[:, 2] / others[:, 2].sum()
    paired = others[:, 1] - np.interp(others[:, 0], times, means)
    value = float(shares @ paired)
    weights = _weights(others[:, 0], shares, times)[stops] / np.bincount(stops)[stops]
    half = _half_width(own[:, 1], weights, paired - value, shares)
    low, high = math.expm1(value - half), math.expm1(value + half)
    return Change(math.expm1(value), low, high, len(others), len(own))


def _line(baseline: Rows, name: str, sums: str | None) -> Line | None:
    """Return the reference line of a quantity, from the sums over steps or the windows' means."""
    counted = baseline[baseline["work"] > 0]
    if sums is None:
        steps = np.maximum(counted["steps"], 1)
        x, y = counted["work"] / steps, counted[name] / steps
        of_each = np.stack([np.ones(len(x)), x, y, x * x, x * y], axis=1)
    else:
        of_each = counted[sums]
    of_each = of_each[~np.isnan(of_each).any(axis=1)]
    return line_through(Sums(*of_each.sum(axis=0).tolist())) if len(of_each) else None


def _values(rows: Rows, name: str, line: Line) -> Floats:
    """Middle, log ratio and work of each row that has them, [rows, 3], in order of time."""
    middle_s = rows["start_ns"] * 0.5e-9 + rows["end_ns"] * 0.5e-9
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(rows[name] / (line.per_step * rows["steps"] + line.per_unit * rows["work"]))
    found = np.stack([middle_s, logs, rows["work"]], axis=1)
    found = found[np.isfinite(logs) & (rows["work"] > 0)]
    return found[np.argsort(found[:, 0], kind="stable")]


def _stops(own_s: Floats, governed_s: Floats) -> npt.NDArray[np.int64]:
    """Number baseline windows by the stop they belong to: one with no governed window within."""
    before = np.searchsorted(governed_s, own_s)
    return np.concatenate([[0], np.cumsum(np.diff(before) > 0)])


def _weights(governed_s: Floats, shares: Floats, stops_s: Floats) -> Floats:
    """How much each stop's level counts in all governed windows' levels, [stops]; the sum is 1."""
    place = np.interp(governed_s, stops_s, np.arange(len(stops_s), dtype=np.float64))
    left = np.minimum(place.astype(np.int64), len(stops_s) - 1)
    right = np.minimum(left + 1, len(stops_s) - 1)
    part = place - left
    n = len(stops_s)
    lefts, rights = np.bincount(left, shares * (1 - part), n), np.bincount(right, shares * part, n)
    return np.asarray(lefts + rights)


def _half_width(own: Floats, weights: Floats, off: Floats, shares: Floats) -> float:
    """Half the 95 % interval of the mean paired logarithm, by a bootstrap.

    Drawn anew are how baseline windows differ from the next one, which a drift hardly changes, and
    how governed windows differ from the mean. The quantiles of few windows' draws are too narrow,
    so it is the draws' standard deviation that counts, times Student's t; von Neumann 1941 for the
    degrees of freedom of successive differences, Welch 1947 for those of both sides.
    """
    rng = np.random.default_rng(0)
    steps = np.diff(own) / math.sqrt(2)
    steps = np.concatenate([steps, -steps])
    pairs, n = len(steps) // 2, len(off)
    baseline = float((_draw(rng, steps, weights) ** 2).mean())
    governed = n / (n - 1) * float((_draw(rng, off, shares) ** 2).mean())
    variance, own_freedom = baseline + governed, 2 * pairs**2 / (3 * pairs - 1)
    if variance <= 0.0:
        return 0.0
    welch = variance**2 / (baseline**2 / own_freedom + governed**2 / (n - 1))
    # Where both sides are few Welch's freedom is too much, by simulation: halfway to the smaller.
    return t_quantile(math.sqrt(welch * own_freedom)) * math.sqrt(variance)


def _draw(rng: np.random.Generator, values: Floats, weights: Floats) -> Floats:
    """Return weighted means of values drawn anew, each time as many as there are weights, [DRAWS]."""
    at_once = max(1, DRAWN_AT_ONCE // len(weights))
    blocks = [min(at_once, DRAWS - done) for done in range(0, DRAWS, at_once)]
    drawn = (rng.integers(len(values), size=(rows, len(weights))) for rows in blocks)
    return np.concatenate([values[each] @ weights for each in drawn])


def t_quantile(freedom: float) -> float:
    """Return Student's t for 95 % with so many degrees of freedom."""
    known = [1 / each for each in reversed(FREEDOM)]
    return math.exp(float(np.interp(1 / freedom, known, np.log(T_QUANTILE[::-1]))))


def _moved(change: Change, log: float, error: float) -> Change:
    """Return a change against what itself lies `log` (with its standard error) off the baseline."""
    value, half = change.log - log, Z * math.hypot(change.log_error, error)
    return replace(
        change, value=math.expm1(value), low=math.expm1(value - half), high=math.expm1(value + half)
    )
