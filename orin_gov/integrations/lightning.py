"""Lightning: a callback that governs `fit` and logs energy and clock to the trainer's loggers.

Trainer(callbacks=[orin_gov.integrations.lightning.GovernorCallback(max_slowdown=0.05)])
"""

import time
from typing import Any

import lightning

from orin_gov.integrations.logs import EnergyLog
from orin_gov.library import Governor
from orin_gov.phases import OPTIMIZER


class GovernorCallback(lightning.Callback):  # type: ignore[misc]
    """Governs from the first batch to the last; `options` are those of orin_gov.Governor.

    Steps are the optimizer's, as torch's hooks see them, and so are the phases; the optimizer's
    phase begins with Lightning's event, so that clipping counts to it.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.governor: Governor | None = None
        self._log: EnergyLog | None = None
        self._optimizing = False

    def on_fit_start(self, trainer: "lightning.Trainer", pl_module: Any) -> None:
        """Start governing, in the first process on its machine."""
        if trainer.local_rank == 0 and self.governor is None:
            governor = Governor(**self._options)
            governor.__enter__()
            self.governor, self._log = governor, EnergyLog(governor)

    def on_before_optimizer_step(
        self, trainer: "lightning.Trainer", pl_module: Any, optimizer: Any
    ) -> None:
        """Begin the optimizer's phase."""
        if self.governor is not None and not self._optimizing:
            self._optimizing = self.governor.marker.enter(OPTIMIZER)

    def on_train_batch_end(
        self, trainer: "lightning.Trainer", pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the phase, and log as often as the trainer does."""
        if self._log is None:
            return
        self._end_phase()
        if trainer.global_step % max(1, trainer.log_every_n_steps) == 0:
            found = self._log.values(trainer.global_step, time.monotonic())
            for logger in trainer.loggers:
                logger.log_metrics(found, step=trainer.global_step)

    def on_fit_end(self, trainer: "lightning.Trainer", pl_module: Any) -> None:
        """Stop governing; the board is put back when this returns."""
        self._stop()

    def on_exception(
        self, trainer: "lightning.Trainer", pl_module: Any, exception: BaseException
    ) -> None:
        """Stop governing when training fails."""
        self._stop()

    def _end_phase(self) -> None:
        if self._optimizing and self.governor is not None:
            self.governor.marker.leave()
        self._optimizing = False

    def _stop(self) -> None:
        self._end_phase()
        if self.governor is not None:
            self.governor.__exit__(None, None, None)
        self.governor = self._log = None
