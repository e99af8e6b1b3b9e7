"""What live windows count, in simulated ones: operations, bytes, launches, power's range, peaks."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from orin_gov.board.identity import module_of
from orin_gov.board.modules import family_of
from orin_gov.board.peaks import find_peaks
from orin_gov.counts import Counts
from orin_gov.energy import PERCENTILES
from orin_gov.policy.window import Surroundings
from orin_gov.virtual.operations import Kernels
from orin_gov.virtual.phase_law import PhaseLaw, overlap
from orin_gov.virtual.plant import BoardModel
from orin_gov.virtual.rates import Rates, load_rates

Floats = npt.NDArray[np.float64]

NOMINAL = "fp32"
"""The precision that the operations of a random workload are told in: its law knows none."""


def counts_of_kernels(phases: Mapping[str, Kernels], work: Sequence[float]) -> list[Counts]:
    """Return the counts of steps of so much work: of the kernels of each phase at that work."""
    shape = (len(work),)

    def sums(of: str) -> dict[str, list[float]]:
        return {
            phase: np.broadcast_to(
                sum(each.launches * getattr(each, of) for each in kernels), shape
            ).tolist()
            for phase, kernels in phases.items()
        }

    operations, moved = sums("flops"), sums("moved")
    launches = {phase: sum(each.launches for each in kernels) for phase, kernels in phases.items()}
    return [
        Counts(
            {phase: values[index] for phase, values in operations.items()},
            {phase: values[index] for phase, values in moved.items()},
            launches,
            units,
        )
        for index, units in enumerate(work)
    ]


def counts_of_laws(
    board: BoardModel, laws: Mapping[str, PhaseLaw], seconds: Mapping[str, float], work: float
) -> Counts:
    """Return what phases that last so long at the top clock would have to do by the plant's rates.

    Launches follow from the host's time, bytes from the memory's power, and operations (fp32) from
    what is then left of the GPU's own time.
    """
    rates = load_rates(board)
    launch_s = {"forward": rates.forward_launch_s, "backward": rates.backward_launch_s}
    launch_s["optimizer"] = rates.forward_launch_s
    found = {
        phase: _counts_of_law(board, rates, laws[phase], seconds[phase], launch_s[phase])
        for phase in launch_s
        if phase in laws
    }
    operations = {phase: each[0] for phase, each in found.items()}
    if "optimizer" in operations:
        operations["optimizer"] = 0.0  # its kernels are sums, which count none
    return Counts(
        operations,
        {phase: each[1] for phase, each in found.items()},
        {phase: each[2] for phase, each in found.items()},
        work,
    )


def _counts_of_law(
    board: BoardModel, rates: Rates, law: PhaseLaw, seconds: float, launch_s: float
) -> tuple[float, float, float]:
    longest = overlap(law.floor, law.compute + law.memory, law.sharpness)
    launches = law.floor / longest * seconds / launch_s
    moved = law.memory_w * seconds / rates.memory_j_per_byte
    cycles = law.compute / longest * seconds * board.top_hz
    spent = launches * rates.kernel_cycles + moved / rates.bytes_per_cycle
    return max(0.0, cycles - spent) * rates.flops_per_cycle[NOMINAL], moved, launches


def power_range_w(power_w: Floats, seconds: Floats) -> tuple[float, float] | None:
    """Return the 1st and 99th percentile of power that was taken for so many seconds each."""
    taken = seconds > 0
    if not taken.any():
        return None
    power_w, seconds = power_w[taken], seconds[taken]
    order = np.argsort(power_w)
    until = np.cumsum(seconds[order])
    places = np.searchsorted(until, np.array(PERCENTILES) / 100 * until[-1])
    low_w, high_w = power_w[order][np.minimum(places, len(order) - 1)].tolist()
    return low_w, high_w


@lru_cache(maxsize=16)
def _module(compatible: tuple[str, ...]) -> str | None:
    return module_of("\n".join(compatible))


def surroundings_of(board: BoardModel, temperature_c: float | None) -> Surroundings:
    """Return what orin_gov.surroundings would read from the board, in its power mode."""
    module = _module(board.compatible)
    family, peaks = family_of(module), find_peaks(module)
    labels = [rail.label for rail in board.rails]
    return Surroundings(
        temperature_c=temperature_c,
        floor_hz=board.frequencies_hz[0],
        ceiling_hz=board.cap_hz,
        emc_hz=board.emc_hz,
        power_mode=board.mode.id,
        gpu_rail=family.gpu_rail(labels) if family else None,
        peak_operations_per_cycle=peaks.operations_per_cycle if peaks else None,
        peak_bytes_per_s=peaks.bytes_per_s(board.emc_hz) if peaks else None,
    )
