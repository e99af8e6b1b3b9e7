"""Power caps on other powers than the module's mean, brought to what the belief knows: that mean."""

from dataclasses import replace

from orin_gov.policy.objective import Objective
from orin_gov.policy.window import Window


class PowerCap:
    """Turns a cap on the GPU's rail, or on the 99th percentile, into one on the module's mean.

    What the other rails take hardly follows the GPU's clock, nor does how far spikes rise over the
    mean. Of what the windows show the worst counts, so the cap only ever falls and no two operating
    points can send each other back and forth. Not thread-safe.
    """

    def __init__(self) -> None:
        self._others_w: float | None = None
        self._spikes = 1.0

    def see(self, window: Window) -> None:
        """Learn from a window how the powers lie to each other."""
        mean_w = window.power_w
        if mean_w is None or not mean_w > 0:
            return
        rail_w = window.mean_gpu_rail_w
        if rail_w is not None and 0 < rail_w <= mean_w:
            others_w = mean_w - rail_w
            self._others_w = min(others_w, self._others_w or others_w)
        if window.power_range_w is not None:
            self._spikes = max(self._spikes, window.power_range_w[1] / mean_w)

    def planned(self, objective: Objective) -> Objective:
        """The objective with its cap on the module's mean power; where nothing is known of the
        others yet, they count as nothing, which is on the safe side."""
        cap_w = objective.power_cap_w
        if cap_w is None or objective.capped_power == "module":
            return objective
        if objective.capped_power == "gpu":
            cap_w += self._others_w or 0.0
        else:
            cap_w /= self._spikes
        return replace(objective, power_cap_w=cap_w)
