"""What the integrations log: energy since the start, of a step and as power, and the clock."""

from orin_gov.library import Governor


class EnergyLog:
    """Turns a governor's readings into values to log; what is not known is left out."""

    def __init__(self, governor: Governor) -> None:
        self._governor = governor
        self._last: tuple[float, int, float] | None = None  # energy, step, time of the last log

    def values(self, step: int, time_s: float) -> dict[str, float]:
        """Return values for step number `step` at `time_s`, a monotonic time.

        `energy_j` since the run began, `step_energy_j` and `power_w` as means since
        the last call, `gpu_clock_hz` as it reads now.
        """
        now = self._governor.readings()
        found: dict[str, float] = {}
        if "clock_hz" in now:
            found["gpu_clock_hz"] = now["clock_hz"]
        if "energy_j" not in now:
            return found
        energy_j = now["energy_j"]
        found["energy_j"] = energy_j
        if self._last is not None:
            before_j, before_step, before_s = self._last
            if step > before_step:
                found["step_energy_j"] = (energy_j - before_j) / (step - before_step)
            if time_s > before_s:
                found["power_w"] = (energy_j - before_j) / (time_s - before_s)
        self._last = energy_j, step, time_s
        return found
