"""Accelerate: governs a loop written with an Accelerator; its trackers get energy and clock.

    with orin_gov.integrations.accelerate.governed(accelerator, max_slowdown=0.05):
        for batch in loader:
            with accelerator.accumulate(model):
                ...
            accelerator.log({"loss": loss.item()}, step=step)

Steps and phases are seen by torch's hooks: with gradient accumulation a step is that of the
optimizer, as the accelerator lets it through.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accelerate import Accelerator

from orin_gov.integrations.logs import EnergyLog
from orin_gov.library import Governor


@contextmanager
def governed(accelerator: Accelerator, **options: Any) -> Iterator[Governor | None]:
    """Govern the block; what it logs by `accelerator.log` has energy and clock as well.

    Of several processes the first on each machine governs; the others get None. `options` are those
    of orin_gov.Governor.
    """
    if not accelerator.is_local_main_process:
        yield None
        return
    with Governor(**options) as governor:
        log, original = EnergyLog(governor), accelerator.log

        def with_energy(values: dict[str, Any], step: int | None = None, **other: Any) -> Any:
            found = log.values(step or 0, time.monotonic())
            return original({**values, **found}, step=step, **other)

        accelerator.log = with_energy
        try:
            yield governor
        finally:
            accelerator.log = original
