"""Hugging Face Trainer: a callback that governs training and puts energy and clock into its logs.

    trainer = Trainer(...)
    orin_gov.integrations.huggingface.govern(trainer, max_slowdown=0.05)
    trainer.train()

Whatever the trainer logs to (TensorBoard, W&B, MLflow, its own history) then has `energy_j`,
`step_energy_j`, `power_w` and `gpu_clock_hz` as well. In a script that `orin-gov run` governs
already, the callback only adds its marks and logs.
"""

import time
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from orin_gov.integrations.logs import EnergyLog
from orin_gov.library import Governor
from orin_gov.phases import OPTIMIZER


def govern(trainer: Trainer, **options: Any) -> "GovernorCallback":
    """Add the callback in front of the trainer's loggers, so that they see what it logs.

    `options` are those of orin_gov.Governor; `steps` is the trainer's own number.
    """
    callback = GovernorCallback(**options)
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback


class GovernorCallback(TrainerCallback):  # type: ignore[misc]
    """Governs from the first step to the last. `Trainer(callbacks=[...])` takes it as well.

    There it comes after the loggers that the trainer makes itself: its values are then in
    `trainer.state.log_history`, but not in TensorBoard or W&B; `govern` puts it before them.
    Steps and the optimizer's phase are told by the trainer's events, the rest by torch's hooks.
    Of several processes of one training, the first on its machine governs.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.governor: Governor | None = None
        self._log: EnergyLog | None = None
        self._optimizing = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start governing."""
        if args.local_process_index > 0 or self.governor is not None:
            return
        left = state.max_steps - state.global_step
        governor = Governor(**{"steps": left if left > 0 else None, **self._options})
        governor.__enter__()
        self.governor, self._log = governor, EnergyLog(governor)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Count the trainer's steps from here on, not the optimizer's."""
        if self.governor is not None:
            self.governor.marker.explicit_steps = True

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin the optimizer's phase."""
        if self.governor is not None and not self._optimizing:
            self._optimizing = self.governor.marker.enter(OPTIMIZER)

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End the optimizer's phase."""
        if self.governor is not None and self._optimizing:
            self.governor.marker.leave()
            self._optimizing = False

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End the step."""
        if self.governor is not None:
            self.on_optimizer_step(args, state, control)
            self.governor.marker.step()

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End the decision epoch with the training epoch."""
        if self.governor is not None:
            self.governor.marker.end_epoch()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Put energy and clock into what is logged."""
        if self._log is None or logs is None:
            return
        found = self._log.values(state.global_step, time.monotonic())
        logs.update(found)
        if state.log_history:
            state.log_history[-1].update(found)  # a copy that was made before we were asked

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Stop governing; the board is put back when this returns."""
        if self.governor is not None:
            self.governor.marker.explicit_steps = False
            self.governor.__exit__(None, None, None)
        self.governor = self._log = None
