"""Fine-tuning jobs: a model, a task and a recipe, turned into the laws of a board's phases.

`bert-base/sst2` is a job; `bert-base/sst2:batch=32,precision=bf16,lora=8` changes its recipe, and
`path/to/config.json/sst2` takes a model that is not known by name. training.json beside this module
holds the tasks, the recipes and the rates, with their sources.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from orin_gov.errors import UsageError
from orin_gov.virtual import operations
from orin_gov.virtual.architecture import Architecture, load_architecture
from orin_gov.virtual.counted import counts_of_kernels
from orin_gov.virtual.job import Job, Pause, StepKind
from orin_gov.virtual.operations import Kernels, Recipe
from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import BoardModel
from orin_gov.virtual.rates import TRAINING, Rates, load_rates

Floats = npt.NDArray[np.float64]

TASKS: tuple[str, ...] = tuple(TRAINING["tasks"])
"""The tasks that are known by name."""


@dataclass(frozen=True)
class Task:
    """A data set: examples, and their lengths in tokens (lognormal, cut at `max_length`)."""

    train: int
    evaluation: int
    median_tokens: float
    spread: float
    max_length: int

    def draw_lengths(self, rng: np.random.Generator, batches: int, batch: int) -> Floats:
        """The length of the longest example in each of so many batches."""
        longest = rng.standard_normal((batches, batch)).max(axis=1)
        tokens: Floats = self.median_tokens * np.exp(self.spread * longest)
        return np.minimum(tokens, self.max_length)


@dataclass(frozen=True)
class FineTuning:
    """One epoch of fine-tuning a model on a task, evaluated and saved at its end."""

    name: str
    shape: Architecture
    task: Task
    recipe: Recipe

    def job(self, board: BoardModel) -> Job:
        """The job as a board runs it: one kind of step for each padded length."""
        rates = load_rates(board)
        pad = self._pad
        lengths = np.arange(pad, self.task.max_length + pad, pad, dtype=np.float64)
        forward, backward = operations.forward_backward(self.shape, self.recipe, lengths)
        update = operations.optimizer(self.shape, self.recipe, lengths[:1])
        always = {
            "data": PhaseLaw.of_work(rates.example_s * self.recipe.batch, 0.0, 0.0, 0.0, 0.0),
            "optimizer": self._laws(update, rates, board, rates.forward_launch_s)[0],
            "idle": PhaseLaw.of_work(rates.step_s, 0.0, 0.0, 0.0, 0.0),
        }
        forwards = self._laws(forward, rates, board, rates.forward_launch_s)
        backwards = self._laws(backward, rates, board, rates.backward_launch_s)
        counted = counts_of_kernels(
            {"forward": forward, "backward": backward, "optimizer": update},
            (self.recipe.batch * lengths).tolist(),
        )
        kinds = tuple(
            StepKind(
                work=self.recipe.batch * length,
                laws={
                    "data": always["data"],
                    "forward": ahead,
                    "backward": back,
                    "optimizer": always["optimizer"],
                    "idle": always["idle"],
                },
                counts=counts,
            )
            for length, ahead, back, counts in zip(
                lengths.tolist(), forwards, backwards, counted, strict=True
            )
        )
        loop = TRAINING["loop"]
        steps = -(-self.task.train // self.recipe.batch)
        return Job(
            name=self.name,
            kinds=kinds,
            draw=self._draw,
            steps=steps,
            noise=loop["noise"],
            stall_share=loop["stall_share"],
            stall_s=loop["stall_s"],
            pauses=(self._evaluation(rates, board, steps), self._checkpoint(rates, steps)),
        )

    @property
    def _pad(self) -> int:
        """Batches are padded to a multiple of this: of 8 where tensor cores ask for it."""
        return 8 if self.recipe.is_mixed else 1

    def _draw(self, rng: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
        """The kinds of n steps: the lengths that their batches are padded to."""
        lengths = self.task.draw_lengths(rng, n, self.recipe.batch)
        return np.ceil(lengths / self._pad).astype(np.int64) - 1

    def _evaluation(self, rates: Rates, board: BoardModel, steps: int) -> Pause:
        """A pass over the evaluation split, in batches padded to their usual longest."""
        batch = TRAINING["loop"]["evaluation_batch"]
        draws = self.task.draw_lengths(np.random.default_rng(0), 100, batch)
        recipe = replace(self.recipe, batch=batch)
        forward, _ = operations.forward_backward(self.shape, recipe, np.array([draws.mean()]))
        batches = -(-self.task.evaluation // batch)
        once = self._laws(forward, rates, board, rates.forward_launch_s)[0]
        host_s = once.floor + rates.example_s * batch
        law = replace(once, floor=host_s)
        return Pause("eval", law, repeat=batches, every=steps)

    def _checkpoint(self, rates: Rates, steps: int) -> Pause:
        """Weights and optimizer state (two moments of what is trained) written to disk."""
        trained = sum(operations.trained_tensors(self.shape, self.recipe))
        weights = trained if self.recipe.lora_rank else self.shape.parameters()
        seconds = 4.0 * (weights + 2 * trained) / rates.disk_bytes_per_s
        law = PhaseLaw.of_work(seconds, 0.0, 0.0, 0.0, 0.0)
        return Pause("checkpoint", law, repeat=1, every=steps)

    def _laws(
        self, kernels: Kernels, rates: Rates, board: BoardModel, launch_s: float
    ) -> list[PhaseLaw]:
        """The law of a phase at each length that its kernels were counted at."""
        flop_s = 1.0 / (rates.flops_per_cycle[self.recipe.precision] * board.top_hz)
        byte_s = 1.0 / (rates.bytes_per_cycle * board.top_hz)
        flop_j = rates.core_j_per_flop[self.recipe.precision]
        compute_s = memory_s = core_j = memory_j = np.zeros_like(kernels[0].flops)
        for kernel in kernels:
            # The slower of computing and moving data is what a kernel takes.
            moving = kernel.flops * flop_s < kernel.moved * (byte_s + rates.dram_byte_s)
            own_s = np.where(moving, kernel.moved * byte_s, kernel.flops * flop_s)
            own_s = own_s + rates.kernel_cycles / board.top_hz
            dram_s = moving * kernel.moved * rates.dram_byte_s
            own_j = kernel.flops * flop_j + kernel.moved * rates.core_j_per_byte
            compute_s = compute_s + kernel.launches * own_s
            memory_s = memory_s + kernel.launches * dram_s
            core_j = core_j + kernel.launches * own_j
            memory_j = memory_j + kernel.launches * kernel.moved * rates.memory_j_per_byte
        host_s = launch_s * sum(kernel.launches for kernel in kernels)
        columns = (compute_s, memory_s, core_j, memory_j)
        return [
            PhaseLaw.of_work(host_s, *row)
            for row in zip(*(column.tolist() for column in columns), strict=True)
        ]


def parse_workload(text: str) -> FineTuning:
    """The job that `MODEL/TASK` or `MODEL/TASK:batch=N,precision=P,lora=R` names.

    Raises:
        UsageError: there is no such model or task, or the recipe is wrong.
    """
    name, _, changes = text.partition(":")
    model, _, task = name.rpartition("/")
    if task not in TASKS or not model:
        raise UsageError(
            f"workload is {text!r}, expected MODEL/TASK as in bert-base/sst2, with TASK one of "
            f"{', '.join(TASKS)}"
        )
    shape = load_architecture(model)
    usual = TRAINING["recipes"].get(model, {"batch": 32, "precision": "fp32"})
    recipe = Recipe(usual.get(f"{task}_batch", usual["batch"]), usual["precision"])
    label = text if model in TRAINING["recipes"] else f"{Path(model).stem}/{text[len(model) + 1 :]}"
    return FineTuning(
        label, shape, Task(**TRAINING["tasks"][task]), _changed(recipe, changes, text)
    )


def _changed(recipe: Recipe, changes: str, text: str) -> Recipe:
    for change in filter(None, changes.split(",")):
        key, _, value = change.partition("=")
        if key == "precision" and value in operations.PRECISIONS:
            recipe = replace(recipe, precision=value)
        elif key == "batch" and value.isdecimal() and int(value) > 0:
            recipe = replace(recipe, batch=int(value))
        elif key == "lora" and value.isdecimal() and int(value) > 0:
            recipe = replace(recipe, lora_rank=int(value))
        else:
            raise UsageError(
                f"workload is {text!r}: {change!r} is none of batch=N, lora=RANK, "
                f"precision={'|'.join(operations.PRECISIONS)}"
            )
    return recipe
