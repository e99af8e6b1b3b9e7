"""Counting what one step does now and then, in each of its phases.

What runs between phases, such as clipping gradients, is not counted. Where a model is compiled,
kernels are not seen, and a mode would have torch compile again: then operations follow from the
shapes (`orin_gov.workload.shapes`).
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from orin_gov.counts import BYTES, LAUNCHES, OPERATIONS, SHAPED_OPERATIONS
from orin_gov.phases import BACKWARD, FORWARD, OPTIMIZER
from orin_gov.workload.dispatch import FORMULAS, CountingMode
from orin_gov.workload.schedule import Schedule
from orin_gov.workload.shapes import is_compiled, shaped_operations

PROBES = 9
"""Operators that are timed to learn what one costs more under a mode."""


def detour_ns() -> float:
    """Return what an operator's way through Python costs here, besides the time spent counting.

    Timed in a row, so a lower bound: between real kernels the caches are cold.
    """
    number, mode = torch.zeros(1), CountingMode()

    def usual_ns() -> float:
        times = []
        for _ in range(PROBES):
            begin_ns = time.perf_counter_ns()
            number.neg_()
            times.append(time.perf_counter_ns() - begin_ns)
        return median(times)

    with torch.no_grad():
        usual_ns()
        plain_ns = usual_ns()
        with mode:
            counted_ns = usual_ns()
    return max(0.0, counted_ns - plain_ns - mode.own_ns / PROBES)


class StepCounter:
    """Counts the steps that its schedule picks; the hooks run each phase of them through it."""

    def __init__(self) -> None:
        self.counting = False
        self.schedule = Schedule()
        self._modes = {phase: CountingMode() for phase in (FORWARD, BACKWARD, OPTIMIZER)}
        self._active: CountingMode | None = None
        self._shaped: dict[int, float] = {}
        self._blind = False

    def run(self, phase: int, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what `call` returns, having counted it."""
        self.begin(phase, call, args, kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            self.end()

    def begin(self, phase: int, *forward: Any) -> None:
        """Count from now on as `phase`; `forward` is the module's call, where it is one."""
        if self._active is not None:
            self._active.reset()  # an optimizer's step failed, and what came after was counted
        self.end()
        if phase not in self._modes:
            return
        if is_compiled(forward):
            self._blind = True
            for each, operations in shaped_operations(phase, forward).items():
                self._shaped[each] = self._shaped.get(each, 0.0) + operations
        # A mode of the script's own would see ours come and go.
        elif not self._blind and _get_current_dispatch_mode() is None:
            self._active = self._modes[phase]
            self._active.__enter__()

    def end(self) -> None:
        """Count no more; a mode that the script has put on top of ours is left for later."""
        if self._active is not None and _get_current_dispatch_mode() is self._active:
            self._active.__exit__(None, None, None)
            self._active = None

    def end_step(self, busy_s: float, work: float) -> dict[tuple[int, int], float]:
        """Return the counts of the step that ends, and decide whether to count the next one."""
        self.end()
        counts, extra_s = {}, None
        if self.counting:
            counts = self._counts()
            seen = sum(mode.seen for mode in self._modes.values())
            own_ns = sum(mode.own_ns for mode in self._modes.values())
            extra_s = (own_ns + detour_ns() * seen) * 1e-9 if seen else 0.0
        self.counting = False
        if self.schedule.end_step(busy_s, work, extra_s):
            self.count_next()
        return counts

    def count_next(self) -> None:
        """Count the next step, whatever the schedule says."""
        self.counting = True
        self._shaped, self._blind = {}, False
        for mode in self._modes.values():
            mode.reset()

    def _counts(self) -> dict[tuple[int, int], float]:
        if self._blind:
            return {(phase, SHAPED_OPERATIONS): each for phase, each in self._shaped.items()}
        found: dict[tuple[int, int], float] = {}
        for phase, mode in self._modes.items():
            if mode.launches:
                if FORMULAS:
                    found[phase, OPERATIONS] = float(mode.operations)
                found[phase, BYTES] = float(mode.moved)
                found[phase, LAUNCHES] = float(mode.launches)
        return found
