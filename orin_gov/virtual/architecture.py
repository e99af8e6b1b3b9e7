"""Architectures: a transformer's shape, read from its Hugging Face config, and its parameters.

Only what decides operations, bytes and launches is kept. models.json beside this module holds the
configs of the models that are known by name, as published with them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_gov.errors import UsageError

_MODELS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("models.json").read_text(encoding="utf-8")
)

MODELS: tuple[str, ...] = tuple(_MODELS)
"""The models that are known by name."""

LABELS = 2
"""Classes of the classifier: all four tasks have two."""

_BERT = ("bert", "roberta", "xlm-roberta")
_LLAMA = ("llama", "mistral", "qwen2", "gemma")
_TYPES = (*_BERT, "deberta-v2", "gpt_neox", *_LLAMA)


@dataclass(frozen=True)
class Architecture:
    """A transformer with a classifier on top.

    `family` is bert, deberta, neox or llama: how a layer is built. `buckets` is the number of
    relative positions (DeBERTa; 0 elsewhere), `convolution` the kernel of its convolution or 0.
    """

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    positions: int
    token_types: int
    qkv_bias: bool
    buckets: int
    convolution: int

    @property
    def q_width(self) -> int:
        """Width of the queries of all heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of the keys (and of the values) of all heads."""
        return self.kv_heads * self.head_dim

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward network has a gate beside its first matrix."""
        return self.family == "llama"

    def layer_tensors(self) -> list[int]:
        """Sizes of one layer's parameter tensors."""
        h, q, kv, wide = self.hidden, self.q_width, self.kv_width, self.intermediate
        if self.family == "llama":
            biases = [q, kv, kv] if self.qkv_bias else []
            return [h * q, h * kv, h * kv, *biases, q * h, *[h * wide] * 3, h, h]
        attention = [3 * h * q, 3 * q] if self.family == "neox" else [h * q, q] * 3
        return [*attention, q * h, h, h * wide, wide, wide * h, h, *[h] * 4]

    def other_tensors(self) -> list[int]:
        """Sizes of the parameter tensors outside the layers: embeddings, norms, classifier."""
        h = self.hidden
        embeddings = [n * h for n in (self.vocabulary, self.positions, self.token_types) if n]
        if self.family == "llama":
            return [*embeddings, h, LABELS * h]
        if self.family == "neox":
            return [*embeddings, h, h, LABELS * h]
        dense = [h * h, h, LABELS * h, LABELS]
        relative = [2 * self.buckets * h, h, h] if self.buckets else []
        convolution = [self.convolution * h * h, h, h, h] if self.convolution else []
        return [*embeddings, h, h, *dense, *relative, *convolution]

    def tensors(self) -> list[int]:
        """Sizes of all parameter tensors."""
        return self.layer_tensors() * self.layers + self.other_tensors()

    def parameters(self) -> int:
        """Number of parameters."""
        return sum(self.tensors())


def load_architecture(model: str) -> Architecture:
    """The architecture of a model known by name, or of the config.json at a path.

    Raises:
        UsageError: there is no such model or file, or its type of model is not known.
    """
    if model in _MODELS:
        return parse_config(_MODELS[model], model)
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"no model {model!r}: expected {', '.join(MODELS)}, or the path of a config.json"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a model's config: {error}") from error
    if not isinstance(config, dict):
        raise UsageError(f"{path} is not a model's config: it holds no object")
    return parse_config(config, str(path))


def parse_config(config: Mapping[str, Any], source: str) -> Architecture:
    """The architecture that a Hugging Face config describes; `source` is named in errors.

    Raises:
        UsageError: its type of model is not known, or a number is missing or not positive.
    """
    kind = config.get("model_type")
    if kind not in _TYPES:
        raise UsageError(f"{source} has model_type {kind!r}, expected one of {', '.join(_TYPES)}")

    def number(name: str, default: int | None = None) -> int:
        value = config.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or value < 0 or (value == 0 and default != 0):
            raise UsageError(f"{source} has {name} = {value!r}, expected a positive integer")
        return value

    hidden, heads = number("hidden_size"), number("num_attention_heads")
    is_llama, is_deberta = kind in _LLAMA, kind == "deberta-v2"
    families = {"deberta-v2": "deberta", "gpt_neox": "neox"}
    learned = kind in _BERT or (is_deberta and config.get("position_biased_input", True))
    return Architecture(
        family="llama" if is_llama else families.get(kind, "bert"),
        layers=number("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=number("num_key_value_heads", heads) if is_llama else heads,
        head_dim=number("head_dim", hidden // heads) if is_llama else hidden // heads,
        intermediate=number("intermediate_size"),
        vocabulary=number("vocab_size"),
        positions=number("max_position_embeddings") if learned else 0,
        token_types=0 if kind == "gpt_neox" or is_llama else number("type_vocab_size", 0),
        qkv_bias=kind == "qwen2" or not is_llama,
        buckets=_relative_positions(config) if is_deberta else 0,
        convolution=number("conv_kernel_size", 0) if is_deberta else 0,
    )


def _relative_positions(config: Mapping[str, Any]) -> int:
    """DeBERTa's relative positions to each side."""
    if not config.get("relative_attention"):
        return 0
    buckets, most = config.get("position_buckets", -1), config.get("max_relative_positions", -1)
    return int(max(buckets, 0) or max(most, 0) or config["max_position_embeddings"])
