"""Workloads that others measured on an AGX Orin 64 GB, as laws of the plant.

Decoding: Llama-3.2-1B (bf16, Hugging Face eager), 100 new tokens for every sequence of a batch
(EnergyLLM, Zanatticus/EnergyLLM on GitHub). Fine-tuning: one epoch of DeBERTa-v2-xlarge, Gemma-2B
and Pythia-14M (esainulab/slmdvfs on GitHub). Their numbers were fitted by
`python -m bench.plant --fit` and stand in the board's file under "published".
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from orin_gov.virtual.board_file import read_board_file
from orin_gov.virtual.phase_law import PhaseLaw

DECODE_SHARPNESS = 20.0
"""The overlap in a loop of equal steps. Derived: 16 to 24 fit the decode times, 8 and less do not."""

TILE = 16
"""Rows of a matrix product's tile. Derived: the decode times fall by 1 % between batch 16 and 18."""

FINETUNE_SHARPNESS = 8.0
"""The overlap in a step of many layers. Assumed: softer; the published energies hardly tell."""


def decode_laws(batch: float) -> tuple[PhaseLaw, PhaseLaw]:
    """The two parts of decoding 100 tokens at a batch size: the layers, and choosing the tokens."""
    return decode_laws_of(_published()["decode"], batch)


def decode_laws_of(numbers: Mapping[str, Any], batch: float) -> tuple[PhaseLaw, PhaseLaw]:
    """The same from given numbers; a pair of them is a constant and a slope per sequence.

    Over `TILE` sequences the matrix products are of another kind, and the host has less to do.
    """
    at_batch = {
        key: value[0] + value[1] * batch if isinstance(value, list) else value
        for key, value in numbers.items()
    }
    layers = PhaseLaw.of_work(
        host_s=at_batch["layers_host_s"] + (at_batch["over_tile_host_s"] if batch > TILE else 0.0),
        compute_s=at_batch["layers_compute_s"],
        memory_s=at_batch["layers_memory_s"],
        core_j=at_batch["core_j"],
        memory_j=at_batch["memory_j"],
        sharpness=DECODE_SHARPNESS,
    )
    choosing = PhaseLaw(
        at_batch["choosing_host_s"],
        at_batch["choosing_compute_s"],
        0.0,
        sharpness=DECODE_SHARPNESS,
    )
    return layers, choosing


def finetune_law(name: str) -> PhaseLaw:
    """The law of a whole fine-tuning step; `name` is one of `FINETUNES`. Times are relative."""
    numbers = _published()["finetune"][name]
    return PhaseLaw(compute=1.0, **numbers, sharpness=FINETUNE_SHARPNESS)


FINETUNES = (
    "DeBERTa-v2-xlarge/qnli",
    "DeBERTa-v2-xlarge/sst2",
    "Gemma-2B/qnli",
    "Pythia-14M/qnli",
)
"""The fine-tuning jobs whose energies are published."""


@cache
def _published() -> dict[str, Any]:
    published: dict[str, Any] = read_board_file("agx-orin-64gb")["published"]
    return published
