"""Operations, bytes and launches of each phase of a training step, computed from the architecture.

A phase is a list of kernels as PyTorch launches them in eager mode, with the attention written out,
counted for one batch at many sequence lengths at once (arrays over the lengths). A matrix product
counts 2 m k n operations; every kernel moves its operands and its result once. The tests count the
same in real models of transformers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from orin_gov.virtual.architecture import LABELS, Architecture

Array = npt.NDArray[np.float64]

MIXED = ("fp16", "bf16")
"""Precisions in which activations are half as wide, while weights and optimizer stay in fp32."""

PRECISIONS = ("fp32", "tf32", *MIXED)

FOREACH_TENSORS, FOREACH_ELEMENTS = 48, 320 * 65536
"""What one launch of a multi-tensor kernel takes in (PyTorch's limits, at a depth of three)."""

ADAMW_PASSES, ADAMW_BYTES = 13, 104
"""AdamW over lists of tensors: kernels, and bytes each parameter moves in all of them.

Clipping reads each gradient and writes it scaled (3 kernels, 20 bytes with the norm's second read);
decay, both moments, root, division, epsilon and update are 10 kernels and 84 bytes.
"""

UNSCALE_PASSES, UNSCALE_BYTES = 2, 8
"""The gradient scaler of fp16: each gradient is read and written once more."""


@dataclass(frozen=True)
class Kernel:
    """`launches` alike kernels, each of so many operations and bytes, [lengths]."""

    launches: float
    flops: Array
    moved: Array


Kernels = Sequence[Kernel]


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: batch, precision, and fully or (with a rank) by LoRA on q and v."""

    batch: int
    precision: str = "fp32"
    lora_rank: int | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether weights are cast for every step."""
        return self.precision in MIXED

    @property
    def item_bytes(self) -> int:
        """Bytes of a number in the activations."""
        return 2 if self.is_mixed else 4


@dataclass
class _Tape:
    """The kernels of a forward pass, and those of the backward pass that it entails."""

    recipe: Recipe
    forward: list[Kernel] = field(default_factory=list)
    backward: list[Kernel] = field(default_factory=list)

    def linear(self, rows: Array, n_in: int, n_out: int, bias: bool, adapter: bool = False) -> None:
        """A product with a weight matrix, its bias in the same kernel; an `adapter` is LoRA's."""
        trained = adapter or self.recipe.lora_rank is None
        flops = 2.0 * rows * n_in * n_out
        moved = self.recipe.item_bytes * (rows * n_in + n_in * n_out + rows * n_out)
        self.forward.append(Kernel(1, flops, moved))
        self.backward.append(Kernel(2 if trained else 1, flops, moved))
        if bias and trained:
            self.backward.append(_plain(1, self.recipe.item_bytes * rows * n_out))
        if self.recipe.is_mixed:
            cast = np.full_like(rows, 6.0 * n_in * n_out)
            self.forward.append(_plain(1 + bias, cast / (1 + bias)))
            if trained:
                self.backward.append(_plain(1 + bias, cast / (1 + bias)))

    def adapted(self, rows: Array, n_in: int, n_out: int, bias: bool) -> None:
        """A linear that LoRA adapts: two thin products, a dropout, a scale and a sum beside it."""
        self.linear(rows, n_in, n_out, bias)
        if rank := self.recipe.lora_rank:
            self.linear(rows, n_in, rank, bias=False, adapter=True)
            self.linear(rows, rank, n_out, bias=False, adapter=True)
            self.each(rows * n_in, 1, 1)
            self.each(rows * n_out, 2, 2)

    def product(self, count: float, m: Array, k: Array, n: Array) -> None:
        """`count` products of two activations in one launch."""
        flops = 2.0 * count * m * k * n
        moved = self.recipe.item_bytes * count * (m * k + k * n + m * n)
        self.forward.append(Kernel(1, flops, moved))
        self.backward.append(Kernel(2, flops, moved))

    def each(self, elements: Array, ahead: float, back: float) -> None:
        """So many kernels each way that go over the elements; forward reads and writes each, and
        backward reads what forward kept as well."""
        item = self.recipe.item_bytes
        self.forward.append(_plain(ahead, 2 * item * elements))
        self.backward.append(_plain(back, 3 * item * elements))


def _plain(launches: float, moved: Array) -> Kernel:
    return Kernel(launches, np.zeros_like(moved), moved)


def forward_backward(
    shape: Architecture, recipe: Recipe, lengths: Array
) -> tuple[list[Kernel], list[Kernel]]:
    """The kernels of the forward and of the backward pass of one batch padded to each length."""
    layer, ends = _Tape(recipe), _Tape(recipe)
    _LAYERS[shape.family](layer, shape, lengths)
    _embed_and_classify(ends, shape, lengths)
    return (
        _repeat(layer.forward, shape.layers) + ends.forward,
        _repeat(layer.backward, shape.layers) + ends.backward,
    )


def _repeat(kernels: Kernels, times: int) -> list[Kernel]:
    return [Kernel(each.launches * times, each.flops, each.moved) for each in kernels]


def optimizer(shape: Architecture, recipe: Recipe, lengths: Array) -> list[Kernel]:
    """The kernels of one step of AdamW, with gradients clipped (and unscaled first, in fp16)."""
    sizes = trained_tensors(shape, recipe)
    passes = ADAMW_PASSES + (UNSCALE_PASSES if recipe.precision == "fp16" else 0)
    moved = ADAMW_BYTES + (UNSCALE_BYTES if recipe.precision == "fp16" else 0)
    launches = passes * math.ceil(len(sizes) / FOREACH_TENSORS + sum(sizes) / FOREACH_ELEMENTS)
    return [_plain(launches, np.full_like(lengths, moved * sum(sizes) / launches))]


def trained_tensors(shape: Architecture, recipe: Recipe) -> list[int]:
    """Sizes of the parameter tensors that are trained; with LoRA the classifier is one of them."""
    rank = recipe.lora_rank
    if rank is None:
        return shape.tensors()
    if shape.family == "neox":
        pairs = [shape.hidden * rank, rank * 3 * shape.hidden]
    else:
        outputs = (shape.q_width, shape.kv_width)
        pairs = [size for out in outputs for size in (shape.hidden * rank, rank * out)]
    return [*pairs * shape.layers, LABELS * shape.hidden]


def _attention(tape: _Tape, shape: Architecture, lengths: Array, dropout: bool) -> None:
    """Scores, their softmax, and what they weigh."""
    count = tape.recipe.batch * shape.heads
    width = np.full_like(lengths, shape.head_dim)
    tape.product(count, lengths, width, lengths)
    tape.each(count * lengths**2, 2 + dropout, 2 + dropout)  # scale or mask, softmax
    tape.product(count, lengths, lengths, width)


def _bert(tape: _Tape, shape: Architecture, lengths: Array) -> None:
    rows = tape.recipe.batch * lengths
    hidden = rows * shape.hidden
    tape.adapted(rows, shape.hidden, shape.q_width, bias=True)
    tape.linear(rows, shape.hidden, shape.kv_width, bias=True)
    tape.adapted(rows, shape.hidden, shape.kv_width, bias=True)
    _attention(tape, shape, lengths, dropout=True)
    tape.linear(rows, shape.q_width, shape.hidden, bias=True)
    tape.linear(rows, shape.hidden, shape.intermediate, bias=True)
    tape.each(rows * shape.intermediate, 1, 1)
    tape.linear(rows, shape.intermediate, shape.hidden, bias=True)
    tape.each(hidden, 10, 12)  # 4 copies of layout; twice dropout, sum and norm; gradients' sums


def _deberta(tape: _Tape, shape: Architecture, lengths: Array) -> None:
    _bert(tape, shape, lengths)
    rows, count = tape.recipe.batch * lengths, tape.recipe.batch * shape.heads
    near = np.full_like(lengths, 2.0 * shape.buckets)
    # The relative positions pass through the layer's own matrices of queries and keys.
    tape.linear(near, shape.hidden, shape.q_width, bias=True)
    tape.linear(near, shape.hidden, shape.kv_width, bias=True)
    width = np.full_like(lengths, shape.head_dim)
    tape.product(count, lengths, width, near)
    tape.product(count, lengths, width, near)
    tape.each(count * lengths * near, 0, 2)  # zeros that the gathered gradients are put into
    tape.each(count * lengths**2, 11, 12)
    tape.each(near * shape.hidden, 7, 4)
    tape.each(rows * shape.hidden, 2, 2)
    tape.each(np.ones_like(lengths), 6, 0)  # scales


def _neox(tape: _Tape, shape: Architecture, lengths: Array) -> None:
    rows = tape.recipe.batch * lengths
    tape.adapted(rows, shape.hidden, 3 * shape.hidden, bias=True)
    _attention(tape, shape, lengths, dropout=False)
    tape.linear(rows, shape.hidden, shape.hidden, bias=True)
    tape.linear(rows, shape.hidden, shape.intermediate, bias=True)
    tape.each(rows * shape.intermediate, 1, 1)
    tape.linear(rows, shape.intermediate, shape.hidden, bias=True)
    tape.each(rows * shape.hidden, 6, 16)  # norms, sums, copies; gradients of the slices of q, k, v
    tape.each(rows * shape.hidden / 4, 14, 13)  # rotary positions, on a quarter of each head


def _llama(tape: _Tape, shape: Architecture, lengths: Array) -> None:
    rows = tape.recipe.batch * lengths
    tape.adapted(rows, shape.hidden, shape.q_width, shape.qkv_bias)
    tape.linear(rows, shape.hidden, shape.kv_width, shape.qkv_bias)
    tape.adapted(rows, shape.hidden, shape.kv_width, shape.qkv_bias)
    tape.each(rows * shape.q_width, 7, 8)  # rotary positions and copies of layout
    tape.each(rows * shape.kv_width, 8, 8)
    _attention(tape, shape, lengths, dropout=False)
    tape.linear(rows, shape.q_width, shape.hidden, bias=False)
    for n_in, n_out in ((shape.hidden, shape.intermediate),) * 2:
        tape.linear(rows, n_in, n_out, bias=False)
    tape.each(rows * shape.intermediate, 2, 3)
    tape.linear(rows, shape.intermediate, shape.hidden, bias=False)
    tape.each(rows * shape.hidden, 14, 25)  # two RMS norms, written out in fp32, and two sums
    tape.each(rows, 4, 12)


_LAYERS = {"bert": _bert, "deberta": _deberta, "neox": _neox, "llama": _llama}


def _embed_and_classify(tape: _Tape, shape: Architecture, lengths: Array) -> None:
    rows, first = tape.recipe.batch * lengths, np.full_like(lengths, tape.recipe.batch)
    hidden = rows * shape.hidden
    if tape.recipe.lora_rank is None:
        # The gradient of an embedding is as large as the table, however few rows were looked up.
        table = 4.0 * shape.hidden * (shape.vocabulary + shape.positions + shape.token_types)
        tape.backward.append(_plain(1, np.full_like(lengths, table)))
    if shape.convolution:
        tape.linear(rows, shape.convolution * shape.hidden, shape.hidden, bias=True)
    if shape.family in ("bert", "deberta"):
        tape.each(hidden, 7, 5)
        tape.linear(first, shape.hidden, shape.hidden, bias=True)
        tape.linear(first, shape.hidden, LABELS, bias=True)
        tape.each(first, *((41, 12) if shape.family == "deberta" else (7, 6)))
    else:
        tape.each(hidden, 4, 4)
        tape.linear(rows, shape.hidden, LABELS, bias=False)
        tape.each(rows, *((31, 3) if shape.family == "neox" else (38, 15)))
