"""A dispatch mode that adds up operations, bytes moved and kernel launches.

It sees every operator on its way to a kernel, in the forward and the backward pass alike:
autograd's device threads run under the modes of the thread that called backward
(torch_dispatch_mode_state_ in ATen/ThreadLocalState.h). It sees what really runs, so frozen
parameters, adapters and autocast need no rule of their own.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode

Formula = Callable[..., int]

FORMULAS: Mapping[Any, Formula] = getattr(flop_counter, "flop_registry", {})
"""Torch's formulas of operations, by operator; a torch before 2.2 has them in another form."""

NO_KERNEL = frozenset(
    {"detach", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
    | {"_unsafe_view", "_reshape_alias", "lift_fresh", "_local_scalar_dense"}
)
"""Operators that launch nothing, besides the views."""

LOOKUPS = frozenset({"embedding", "gather", "index", "index_select"})
"""Operators that read as much of their first operand as they return."""

FOREACH_TENSORS, FOREACH_ELEMENTS = 48, 320 * 65536
"""What one launch of a multi-tensor kernel takes in (PyTorch's limits, at a depth of three)."""


def _flash_on_cpu(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Two products: scores of queries and keys, and what they weigh; [..., rows, width]."""
    scores = int(query.numel() // query.shape[-1] * key.shape[-2])
    return 2 * scores * int(query.shape[-1] + value.shape[-1])


def _flash_back_on_cpu(grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Five products: the scores once more, and a gradient for each operand of the two."""
    return _flash_on_cpu(query, key, value) // 2 * 5


def formulas() -> dict[Any, Formula]:
    """Torch's formulas, and those that it lacks: the fused attention of a CPU."""
    flash = "_scaled_dot_product_flash_attention_for_cpu"
    ours: dict[str, Formula] = {flash: _flash_on_cpu, f"{flash}_backward": _flash_back_on_cpu}
    aten = torch.ops.aten
    known = {getattr(aten, name): each for name, each in ours.items() if hasattr(aten, name)}
    return {**known, **FORMULAS}


class _Kind:
    """What an operator is to us, looked up once."""

    __slots__ = ("foreach", "formula", "launches", "lookup", "written")

    def __init__(self, operator: Any, formulas: Mapping[Any, Callable[..., int]]) -> None:
        packet = getattr(operator, "overloadpacket", operator)
        name = getattr(packet, "__name__", "")
        schema = getattr(operator, "_schema", None)
        is_view = schema is not None and any(
            each.alias_info is not None and not each.alias_info.is_write for each in schema.returns
        )
        kernel = getattr(operator, "namespace", "aten") not in ("prim", "profiler")
        self.launches = kernel and not is_view and name not in NO_KERNEL
        self.formula = formulas.get(packet)
        self.lookup = name in LOOKUPS
        self.foreach = name.startswith(("_foreach_", "_fused_"))
        # What works in place on lists returns nothing: the lists it writes are among its operands.
        silent = schema is not None and not schema.returns
        self.written = tuple(
            place
            for place, each in enumerate(schema.arguments if schema is not None and silent else ())
            if each.alias_info is not None and each.alias_info.is_write
        )


class CountingMode(TorchDispatchMode):  # type: ignore[misc]
    """Adds up operations, bytes and launches of all operators while it is active.

    `seen` counts them, views as well; `own_ns` is the time spent counting. Thread-safety: one
    thread at a time, as autograd has it with one device.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[Any, _Kind] = {}
        self._formulas = formulas()
        self.reset()

    def reset(self) -> None:
        """Begin from zero."""
        self.operations = self.moved = self.launches = 0
        self.seen = self.own_ns = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operator, and count it."""
        out = func(*args, **(kwargs or {}))
        begin_ns = time.perf_counter_ns()
        self.seen += 1
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = _Kind(func, self._formulas)
        if kind.launches:
            self._count(kind, args, kwargs or {}, out)
        self.own_ns += time.perf_counter_ns() - begin_ns
        return out

    def _count(self, kind: _Kind, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> None:
        if kind.formula is not None:
            self.operations += kind.formula(*args, **kwargs, out_val=out)
        written = tensor_bytes([args[place] for place in kind.written if place < len(args)])
        written += tensor_bytes((out,))
        read = tensor_bytes(args[1:]) + written if kind.lookup else tensor_bytes(args)
        self.moved += written + read + (tensor_bytes(kwargs.values()) if kwargs else 0)
        self.launches += foreach_launches(args) if kind.foreach else 1


def tensor_bytes(values: Iterable[Any]) -> int:
    """Return the bytes of all tensors among `values`, and in the lists among them."""
    total = 0
    for value in values:
        if isinstance(value, torch.Tensor):
            total += value.numel() * value.element_size()
        elif isinstance(value, (list, tuple)):
            total += tensor_bytes(value)
    return total


def foreach_launches(args: Sequence[Any]) -> int:
    """Return how many kernels a GPU needs for the lists of tensors that `args` begins with."""
    tensors = [each for each in args[0] if isinstance(each, torch.Tensor)] if args else []
    elements = int(sum(each.numel() for each in tensors))
    launches = math.ceil(len(tensors) / FOREACH_TENSORS + elements / FOREACH_ELEMENTS)
    return max(1, launches)
