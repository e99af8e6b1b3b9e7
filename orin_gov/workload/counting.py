"""Counting what one step does now and then: operations, bytes moved and launches of each phase.

A dispatch mode sees every operator on its way to a kernel, in the forward and the backward pass
alike: autograd's device threads run under the modes of the thread that called backward
(torch_dispatch_mode_state_ in ATen/ThreadLocalState.h). It sees what really runs, so frozen
parameters, adapters and autocast need no rule of their own. What runs between phases, such as
clipping gradients, is not counted.

Where a model is compiled, kernels are not seen, and a mode would have torch compile again: then
operations follow from the shapes (`orin_gov.workload.shapes`).
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from orin_gov.counts import BYTES, LAUNCHES, OPERATIONS, SHAPED_OPERATIONS
from orin_gov.phases import BACKWARD, FORWARD, OPTIMIZER
from orin_gov.workload.schedule import Schedule
from orin_gov.workload.shapes import is_compiled, shaped_operations

NO_KERNEL = frozenset(
    {"detach", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
    | {"_unsafe_view", "_reshape_alias", "lift_fresh", "_local_scalar_dense"}
)
"""Operators that launch nothing, besides the views."""

LOOKUPS = frozenset({"embedding", "gather", "index", "index_select"})
"""Operators that read as much of their first operand as they return."""

FOREACH_TENSORS, FOREACH_ELEMENTS = 48, 320 * 65536
"""What one launch of a multi-tensor kernel takes in (PyTorch's limits, at a depth of three)."""

PROBES = 9
"""Operators that are timed to learn what one costs more under a mode."""


def _flash_on_cpu(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))


def _flash_back_on_cpu(grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_backward_flop_count(grad.shape, query.shape, key.shape, value.shape))


def _formulas() -> dict[Any, Callable[..., int]]:
    """Torch's formulas by operator, and those that it lacks; an older torch lacks operators too."""
    flash = "_scaled_dot_product_flash_attention_for_cpu"
    ours = {flash: _flash_on_cpu, f"{flash}_backward": _flash_back_on_cpu}
    aten = torch.ops.aten
    known = {getattr(aten, name): each for name, each in ours.items() if hasattr(aten, name)}
    return {**known, **flop_registry}


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
            for place, each in enumerate(schema.arguments if silent else ())
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
        self._formulas = _formulas()
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


def detour_ns() -> float:
    """Return what an operator's way through Python costs here, besides the time spent counting.

    Timed in a row, so a lower bound: between real kernels the caches are cold.
    """
    number, mode = torch.zeros(1), CountingMode()

    def usual_ns() -> float:
        times = []
        for _ in range(PROBES):
            begin_ns = time.perf_counter_ns()
            number.neg_()
            times.append(time.perf_counter_ns() - begin_ns)
        return median(times)

    with torch.no_grad():
        usual_ns()
        plain_ns = usual_ns()
        with mode:
            counted_ns = usual_ns()
    return max(0.0, counted_ns - plain_ns - mode.own_ns / PROBES)


class StepCounter:
    """Counts the steps that its schedule picks; the hooks run each phase of them through it."""

    def __init__(self) -> None:
        self.counting = False
        self.schedule = Schedule()
        self._modes = {phase: CountingMode() for phase in (FORWARD, BACKWARD, OPTIMIZER)}
        self._active: CountingMode | None = None
        self._shaped: dict[int, float] = {}
        self._blind = False

    def run(self, phase: int, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what `call` returns, having counted it."""
        self.begin(phase, call, args, kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            self.end()

    def begin(self, phase: int, *forward: Any) -> None:
        """Count from now on as `phase`; `forward` is the module's call, where it is one."""
        if self._active is not None:
            self._active.reset()  # an optimizer's step failed, and what came after was counted
        self.end()
        if phase not in self._modes:
            return
        if is_compiled(forward):
            self._blind = True
            for each, operations in shaped_operations(phase, forward).items():
                self._shaped[each] = self._shaped.get(each, 0.0) + operations
        # A mode of the script's own would see ours come and go.
        elif not self._blind and _get_current_dispatch_mode() is None:
            self._active = self._modes[phase]
            self._active.__enter__()

    def end(self) -> None:
        """Count no more; a mode that the script has put on top of ours is left for later."""
        if self._active is not None and _get_current_dispatch_mode() is self._active:
            self._active.__exit__(None, None, None)
            self._active = None

    def end_step(self, busy_s: float, work: float) -> dict[tuple[int, int], float]:
        """Return the counts of the step that ends, and decide whether to count the next one."""
        self.end()
        counts, extra_s = {}, None
        if self.counting:
            counts = self._counts()
            seen = sum(mode.seen for mode in self._modes.values())
            own_ns = sum(mode.own_ns for mode in self._modes.values())
            extra_s = (own_ns + detour_ns() * seen) * 1e-9 if seen else 0.0
        self.counting = False
        if self.schedule.end_step(busy_s, work, extra_s):
            self.count_next()
        return counts

    def count_next(self) -> None:
        """Count the next step, whatever the schedule says."""
        self.counting = True
        self._shaped, self._blind = {}, False
        for mode in self._modes.values():
            mode.reset()

    def _counts(self) -> dict[tuple[int, int], float]:
        if self._blind:
            return {(phase, SHAPED_OPERATIONS): each for phase, each in self._shaped.items()}
        found: dict[tuple[int, int], float] = {}
        for phase, mode in self._modes.items():
            if mode.launches:
                found[phase, OPERATIONS] = float(mode.operations)
                found[phase, BYTES] = float(mode.moved)
                found[phase, LAUNCHES] = float(mode.launches)
        return found
