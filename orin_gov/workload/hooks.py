"""The hooks in torch: they mark phases and change nothing that the script computes.

They draw no random numbers, touch no tensor's data and keep no reference to a model.
"""

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.utils.data.dataloader
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from orin_gov.phases import BACKWARD, CHECKPOINT, DATA, EVAL, FORWARD, OPTIMIZER
from orin_gov.workload.marker import Marker

OTHER_OPTIMIZER_STEPS = 3
"""An optimizer that steps this often while the leading one does not takes the lead."""


def install_hooks(marker: Marker) -> None:
    """Hook data loading, the outermost forward, backward, the optimizer step and saving."""
    _hook_forward(marker)
    _wrap(torch.autograd, "backward", marker, BACKWARD)
    _wrap(torch.autograd, "grad", marker, BACKWARD)
    _wrap(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", marker, DATA)
    _wrap(torch, "save", marker, CHECKPOINT)
    _hook_optimizers(marker)


def _wrap(owner: Any, name: str, marker: Marker, phase: int) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(original)
    def marked(*args: Any, **kwargs: Any) -> Any:
        if not marker.enter(phase):
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            marker.leave()

    setattr(owner, name, marked)


def _hook_forward(marker: Marker) -> None:
    original = torch.nn.Module.__call__
    is_grad_enabled, is_compiling = torch.is_grad_enabled, torch.compiler.is_compiling

    @functools.wraps(original)
    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(module, *args, **kwargs)
        training = is_grad_enabled()
        if not marker.enter(FORWARD if training else EVAL):
            return original(module, *args, **kwargs)
        try:
            if training and has_parameters(module):
                marker.add_work(count_work(args, kwargs))
            return original(module, *args, **kwargs)
        finally:
            marker.leave()

    torch.nn.Module.__call__ = call


def has_parameters(module: torch.nn.Module) -> bool:
    """Tell whether the module learns: a loss module's inputs are no work of their own."""
    return next(module.parameters(), None) is not None


def count_work(args: Sequence[Any], kwargs: Mapping[str, Any]) -> float:
    """Return the work in a forward's inputs: tokens of the first tensor of integers, else samples."""
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    for tensor in tensors:
        if tensor.dim() >= 2 and not tensor.is_floating_point() and tensor.dtype != torch.bool:
            return float(tensor.numel())
    return float(tensors[0].shape[0]) if tensors and tensors[0].dim() else 0.0


def _hook_optimizers(marker: Marker) -> None:
    """Mark optimizer steps; the steps of the leading optimizer are the steps of training.

    A loop with several optimizers (a GAN's) thus has one step a round.
    """
    entered: list[bool] = []
    lead: weakref.ref[torch.optim.Optimizer] | None = None
    others = 0

    def before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        entered.append(marker.enter(OPTIMIZER))

    def after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal lead, others
        others += 1
        leader = lead() if lead else None
        if leader is None or others > OTHER_OPTIMIZER_STEPS:
            lead, leader = weakref.ref(optimizer), optimizer
        if entered and entered.pop():
            marker.leave()
        if optimizer is leader:
            others = 0
            if not marker.explicit_steps:
                marker.step()

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
