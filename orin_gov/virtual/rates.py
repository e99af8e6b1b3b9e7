"""Rates: what a board's GPU and host need for an operation, a byte, a launch, an example."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orin_gov.virtual.plant import BoardModel

TRAINING: dict[str, Any] = json.loads(
    Path(__file__).with_name("training.json").read_text(encoding="utf-8")
)
"""Constants of training, with their sources: rates, tasks, recipes, and what a loop adds."""


@dataclass(frozen=True)
class Rates:
    """What training costs on one board.

    `flops_per_cycle` and `bytes_per_cycle` are those of all TPCs; `dram_byte_s` is what a byte
    takes beyond that, at any GPU clock. Energies are those at the lowest voltage; times of the host
    are those at the CPU's top clock, per launch, per example of a batch and per step.
    """

    flops_per_cycle: Mapping[str, float]
    bytes_per_cycle: float
    dram_byte_s: float
    kernel_cycles: float
    forward_launch_s: float
    backward_launch_s: float
    example_s: float
    step_s: float
    disk_bytes_per_s: float
    core_j_per_flop: Mapping[str, float]
    core_j_per_byte: float
    memory_j_per_byte: float


def load_rates(board: BoardModel) -> Rates:
    """The rates of a board: the GPU's grow with its TPCs, the memory's with its bus."""
    of_one = TRAINING["rates"]
    tpcs = board.constants.tpcs
    return Rates(
        **{
            **of_one,
            "flops_per_cycle": {
                precision: rate * tpcs for precision, rate in of_one["flops_per_cycle"].items()
            },
            "bytes_per_cycle": of_one["bytes_per_cycle"] * tpcs,
            "dram_byte_s": of_one["dram_byte_s"]
            / TRAINING["dram_share"][board.name.partition(":")[0]],
        }
    )
