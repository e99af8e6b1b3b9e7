"""Operations of a step from the shapes alone, where a compiled model hides its kernels.

A product of activations and weights takes 2 operations for each weight and row; its backward pass
takes as many for the gradient of its input, and again for that of each weight that is trained.
Attention's own products are left out: they are a few percent up to a thousand tokens.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from orin_gov.phases import BACKWARD, FORWARD


def is_compiled(call: Sequence[Any]) -> bool:
    """Tell whether this process has compiled anything, or is about to call a compiled module.

    Which of the operators ahead are in a compiled region cannot be told, so all of them may be.
    """
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters.get("frames"):
        return True
    modules = [each for each in _arguments(call) if isinstance(each, nn.Module)]
    return any(_is_compiled_module(part) for each in modules for part in each.modules())


def _is_compiled_module(module: nn.Module) -> bool:
    scripted = isinstance(module, torch.jit.ScriptModule)
    # torch.compile(module) wraps it, module.compile() keeps it.
    wrapped = type(module).__name__ == "OptimizedModule"
    return scripted or wrapped or getattr(module, "_compiled_call_impl", None) is not None


def shaped_operations(phase: int, call: Sequence[Any]) -> Mapping[int, float]:
    """Return the operations of a module's forward, and of the backward it entails, by phase.

    None for any other call: the weights that it uses are not known; nor for convolutions, whose
    weights are used once for each place of an image.
    """
    arguments = _arguments(call)
    module = next((each for each in arguments if isinstance(each, nn.Module)), None)
    if phase != FORWARD or module is None:
        return {}
    rows = count_rows([each for each in arguments if isinstance(each, torch.Tensor)])
    weights, trained = count_weights(module)
    if not rows or not weights:
        return {}
    return {FORWARD: 2.0 * weights * rows, BACKWARD: 2.0 * (weights + trained) * rows}


def _arguments(call: Sequence[Any]) -> list[Any]:
    """The module and what it is called with, of (function, args, kwargs)."""
    if len(call) != 3:
        return []
    return [*call[1], *call[2].values()]


def count_rows(tensors: Sequence[torch.Tensor]) -> int:
    """Return how many rows the weights see: the tokens, or the inputs without their features."""
    for tensor in tensors:
        if tensor.dim() >= 2 and not tensor.is_floating_point() and tensor.dtype != torch.bool:
            return int(tensor.numel())
    first = next((tensor for tensor in tensors if tensor.dim() >= 2 and tensor.size(-1)), None)
    return int(first.numel() // first.size(-1)) if first is not None else 0


def count_weights(module: nn.Module) -> tuple[int, int]:
    """Return the weights that are multiplied with, and how many of them are trained.

    Embeddings are looked up; one that is tied to the output is multiplied with there.
    """
    seen: dict[int, nn.Parameter] = {}
    for part in module.modules():
        if isinstance(part, nn.modules.conv._ConvNd):
            return 0, 0
        if not isinstance(part, nn.Embedding):
            seen.update({id(each): each for each in part.parameters(recurse=False)})
    matrices = [each for each in seen.values() if each.dim() >= 2]
    trained = sum(each.numel() for each in matrices if each.requires_grad)
    return sum(each.numel() for each in matrices), trained
