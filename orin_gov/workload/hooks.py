"""The hooks in torch: they mark phases and change nothing that the script computes.

They draw no random numbers, touch no tensor's data and keep no reference to a model.
"""

import atexit
import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.utils.data._utils.worker as data_worker
import torch.utils.data.dataloader
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from orin_gov.phases import BACKWARD, CHECKPOINT, DATA, EVAL, FORWARD, OPTIMIZER
from orin_gov.workload.counting import StepCounter
from orin_gov.workload.cuda_events import cuda_event_marks
from orin_gov.workload.marker import Marker

OTHER_OPTIMIZER_STEPS = 3
"""An optimizer that steps this often while the leading one does not takes the lead."""


def install_hooks(marker: Marker) -> StepCounter:
    """Hook data loading, the outermost forward, backward, the optimizer step and saving.

    Returns what counts a step now and then.
    """
    counter = StepCounter()
    marker.watch_steps(counter.end_step)
    if edges := cuda_event_marks(marker.put):
        marker.mark_by(edges)
        atexit.register(edges.flush)
    _hook_forward(marker, counter)
    for name in ("backward", "grad"):
        _wrap(torch.autograd, name, marker, BACKWARD, counter)
    _hook_loading(marker)
    _wrap(torch, "save", marker, CHECKPOINT)
    _hook_optimizers(marker, counter)
    _silence_workers(marker)
    return counter


def _wrap(
    owner: Any, name: str, marker: Marker, phase: int, counter: StepCounter | None = None
) -> None:
    setattr(owner, name, _marked(getattr(owner, name), marker, phase, counter))


def _marked(
    original: Callable[..., Any], marker: Marker, phase: int, counter: StepCounter | None
) -> Callable[..., Any]:
    @functools.wraps(original)
    def marked(*args: Any, **kwargs: Any) -> Any:
        if not marker.enter(phase):
            return original(*args, **kwargs)
        try:
            if counter is not None and counter.counting:
                return counter.run(phase, original, *args, **kwargs)
            return original(*args, **kwargs)
        finally:
            marker.leave()

    return marked


def _hook_loading(marker: Marker) -> None:
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    original = iterator.__next__

    @functools.wraps(original)
    def load(batches: Any) -> Any:
        if not marker.enter(DATA):
            return original(batches)
        try:
            return original(batches)
        except StopIteration:
            marker.end_epoch()
            raise
        finally:
            marker.leave()

    iterator.__next__ = load


def _silence_workers(marker: Marker) -> None:
    """Mark nothing in a forked data worker: one that runs a module could take the ring first."""
    original = data_worker._worker_loop

    @functools.wraps(original)
    def worker_loop(*args: Any, **kwargs: Any) -> Any:
        marker.use(None)
        return original(*args, **kwargs)

    data_worker._worker_loop = worker_loop


def _hook_forward(marker: Marker, counter: StepCounter) -> None:
    original = torch.nn.Module.__call__
    is_grad_enabled, is_compiling = torch.is_grad_enabled, torch.compiler.is_compiling
    is_tracing = torch.jit.is_tracing

    @functools.wraps(original)
    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or is_tracing():
            return original(module, *args, **kwargs)
        training = is_grad_enabled()
        if not marker.enter(FORWARD if training else EVAL):
            return original(module, *args, **kwargs)
        try:
            if training and has_parameters(module):
                marker.add_work(count_work(args, kwargs))
            if training and counter.counting:
                return counter.run(FORWARD, original, module, *args, **kwargs)
            return original(module, *args, **kwargs)
        finally:
            marker.leave()

    torch.nn.Module.__call__ = call


def has_parameters(module: torch.nn.Module) -> bool:
    """Tell whether the module learns: a loss module's inputs are no work of their own."""
    return next(module.parameters(), None) is not None


def count_work(args: Sequence[Any], kwargs: Mapping[str, Any]) -> float:
    """Return the work in a forward's inputs: tokens of the first integer tensor, else samples."""
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    for tensor in tensors:
        if tensor.dim() >= 2 and not tensor.is_floating_point() and tensor.dtype != torch.bool:
            return float(tensor.numel())
    return float(tensors[0].size(0)) if tensors and tensors[0].dim() else 0.0


def _hook_optimizers(marker: Marker, counter: StepCounter) -> None:
    """Mark optimizer steps; the steps of the leading optimizer are the steps of training.

    Torch's own hooks reach every optimizer, those made before us as well. But what runs after a
    step does not run when it fails: its phase then ends when the next step begins.
    """
    is_leading = _leadership()
    under_way: list[bool] = []  # of the outermost step: whether its phase is ours to leave
    ended = 0

    def before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if _within_a_step():
            return
        if under_way and under_way.pop():
            marker.leave()
        under_way.append(marker.enter(OPTIMIZER))
        if under_way[-1] and counter.counting:
            counter.begin(OPTIMIZER)

    def after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if _within_a_step() or not under_way:
            return
        if under_way.pop():
            counter.end()
            marker.leave()
        end_step(optimizer)

    def end_step(optimizer: torch.optim.Optimizer) -> None:
        nonlocal ended
        ended += 1
        if is_leading(optimizer) and not marker.explicit_steps:
            marker.step()

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    _hook_scaler(end_step, lambda: ended)


def _hook_scaler(
    end_step: Callable[[torch.optim.Optimizer], None], ended: Callable[[], int]
) -> None:
    """End a step as well where a gradient scaler leaves the optimizer's out: a loss or a gradient
    was no number. Two steps would look like one of twice the work.
    """
    scaler: Any = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    original = scaler.step

    @functools.wraps(original)
    def step(self: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        before = ended()
        result = original(self, optimizer, *args, **kwargs)
        if ended() == before and isinstance(optimizer, torch.optim.Optimizer):
            end_step(optimizer)
        return result

    scaler.step = step


def _within_a_step() -> bool:
    """Tell whether the step that calls our hook runs inside another: a subclass's, a closure's."""
    step = sys._getframe(2)
    outer = step.f_back
    while outer is not None and outer.f_code is not step.f_code:
        outer = outer.f_back
    return outer is not None


def _leadership() -> Callable[[torch.optim.Optimizer], bool]:
    """Return a function to be told of every optimizer's step; it tells whether that one leads.

    A loop with several optimizers (a GAN's) thus has one step a round.
    """
    lead: weakref.ref[torch.optim.Optimizer] | None = None
    others: Counter[int] = Counter()

    def is_leading(optimizer: torch.optim.Optimizer) -> bool:
        nonlocal lead
        others[id(optimizer)] += 1
        leader = lead() if lead else None
        if leader is None or others[id(optimizer)] > OTHER_OPTIMIZER_STEPS:
            lead, leader = weakref.ref(optimizer), optimizer
        if optimizer is leader:
            others.clear()
        return optimizer is leader

    return is_leading
