"""Simulated windows count what live ones do, with the same meaning."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orin_gov.board.peaks import PEAKS, find_peaks
from orin_gov.board.probe import open_board
from orin_gov.epoch import Epoch
from orin_gov.policy.features import features_of
from orin_gov.policy.pinned import Pinned
from orin_gov.policy.window import Surroundings
from orin_gov.surroundings import LOOK_NS, Lookaround, gpu_temperature_c
from orin_gov.virtual.counted import counts_of_laws, power_range_w, surroundings_of
from orin_gov.virtual.family import VirtualWorkload, window_at, window_at_podgov, workload_family
from orin_gov.virtual.finetuning import parse_workload
from orin_gov.virtual.operations import forward_backward, optimizer
from orin_gov.virtual.phase_law import PhaseLaw
from orin_gov.virtual.plant import BOARDS, load_board
from orin_gov.virtual.simulation import Simulation
from orin_gov.virtual.tree import build_tree

BOARD = load_board("agx-orin-64gb")
LOW, MIDDLE = 408_000_000, 816_000_000


def features(workload: VirtualWorkload, hz: int) -> dict[str, float | None]:
    return features_of(window_at(BOARD, workload, hz, 10), BOARD.top_hz, 0.1)


def steady(floor: float, compute: float) -> VirtualWorkload:
    """A workload of one phase, of so much time of the host's and the GPU's."""
    law = PhaseLaw(floor, compute, 10.0, memory_w=2.0)
    return VirtualWorkload("steady", {"forward": law}, {"forward": 1.0}, 0.5, 1000.0)


def test_operations_are_a_constant_share_of_the_peak_where_the_gpu_is_the_limit() -> None:
    shares = [
        features(steady(0.02, 1.0), hz)["forward_operations_of_peak"] for hz in (LOW, BOARD.top_hz)
    ]
    assert shares[0] == pytest.approx(shares[1], rel=1e-3)
    assert 0 < shares[0] < 1


def test_launches_have_a_constant_rate_where_the_host_is_the_limit() -> None:
    rates = [features(steady(1.0, 0.05), hz)["forward_launches_per_s"] for hz in (LOW, MIDDLE)]
    assert rates[0] == pytest.approx(rates[1], rel=1e-3)


def test_what_a_step_does_is_the_same_at_every_clock() -> None:
    workload = workload_family(1, seed=3)[0]
    names = ("operations_per_step", "bytes_per_step", "launches_per_step", "intensity")
    low, top = features(workload, LOW), features(workload, BOARD.top_hz)
    assert [low[name] for name in names] == [top[name] for name in names]


@pytest.mark.parametrize("workload", workload_family(12, seed=5), ids=lambda w: w.name)
def test_all_features_of_the_family_are_known_but_the_sensitivity(
    workload: VirtualWorkload,
) -> None:
    found = features_of(window_at_podgov(BOARD, workload, 10), BOARD.top_hz, 0.1)
    assert {name for name, value in found.items() if value is None} == {"sensitivity"}
    assert all(np.isfinite(value) for value in found.values() if value is not None)


def test_counts_of_laws_need_the_time_and_power_that_they_came_from() -> None:
    law = PhaseLaw.of_work(0.1, 0.4, 0.0, 0.0, 3.0)
    counts = counts_of_laws(BOARD, {"forward": law}, {"forward": 0.45}, 10.0)
    scale = 0.45 / (0.1**4 + 0.4**4) ** 0.25
    assert counts.launches["forward"] == pytest.approx(0.1 * scale / 50e-6)
    assert counts.moved["forward"] == pytest.approx(3.0 * scale / 75e-12, rel=1e-6)


def test_a_jobs_window_counts_the_kernels_of_its_steps() -> None:
    tuning = parse_workload("bert-base/sst2")
    job = tuning.job(BOARD)
    kind = job.kinds[-1]
    alone = replace(job, kinds=(kind,), draw=lambda rng, n: np.zeros(n, dtype=np.int64))
    window = next(Simulation(BOARD, alone, Epoch(), 0).run(Pinned(MIDDLE))).window
    length = np.array([kind.work / tuning.recipe.batch])
    passes = dict(
        zip(
            ("forward", "backward", "optimizer"),
            (
                *forward_backward(tuning.shape, tuning.recipe, length),
                optimizer(tuning.shape, tuning.recipe, length),
            ),
            strict=True,
        )
    )
    for counts, of in ((window.operations_per_step, "flops"), (window.bytes_per_step, "moved")):
        expected = {
            phase: sum(each.launches * getattr(each, of)[0] for each in kernels)
            for phase, kernels in passes.items()
        }
        assert counts == pytest.approx(expected)
    assert window.launches_per_step == pytest.approx(
        {phase: sum(each.launches for each in kernels) for phase, kernels in passes.items()}
    )


def test_a_simulated_run_observes_the_sensitivity_once_the_clock_has_changed() -> None:
    job = parse_workload("bert-base/sst2").job(BOARD)

    class Down(Pinned):
        def decide(self, window):
            return Pinned(LOW).first()

    records = Simulation(BOARD, job, Epoch(), 0).run(Down(BOARD.top_hz))
    first, second = next(records).window, next(records).window
    assert first.sensitivity is None
    assert 0.5 < second.sensitivity < 1.05
    low_w, high_w = second.power_range_w
    assert low_w < second.power_w < high_w


@given(st.lists(st.tuples(st.floats(1, 60), st.floats(0, 5)), min_size=1, max_size=30))
def test_a_range_of_power_is_within_what_was_taken(spans: list[tuple[float, float]]) -> None:
    watts, seconds = (np.array(column) for column in zip(*spans, strict=True))
    found = power_range_w(watts, seconds)
    if not (seconds > 0).any():
        assert found is None
    else:
        taken = watts[seconds > 0]
        assert taken.min() <= found[0] <= found[1] <= taken.max()


def test_power_that_lasts_less_than_a_hundredth_is_no_part_of_the_range() -> None:
    watts, seconds = np.array([5.0, 20.0, 30.0, 99.0]), np.array([0.005, 0.6, 0.39, 0.005])
    assert power_range_w(watts, seconds) == (20.0, 30.0)


@pytest.mark.parametrize("name", BOARDS)
def test_simulated_surroundings_are_those_read_from_the_virtual_board(
    name: str, tmp_path: Path
) -> None:
    model = load_board(name)
    build_tree(model, tmp_path)
    board = open_board(tmp_path)
    simulated = surroundings_of(model, None)
    lookaround = Lookaround()
    lookaround.look(board, 0)
    read = lookaround.surroundings(board, (simulated.floor_hz or 0, simulated.ceiling_hz or 0))
    assert read.gpu_rail == simulated.gpu_rail
    assert read.power_mode == simulated.power_mode
    assert read.peak_operations_per_cycle == simulated.peak_operations_per_cycle
    assert read.peak_bytes_per_s == pytest.approx(simulated.peak_bytes_per_s, rel=1e-3)
    # The memory's own clock takes root on a board; a cap of it does not.
    assert read.emc_hz in (None, simulated.emc_hz)


def test_peaks_follow_the_module_and_its_family() -> None:
    assert find_peaks("p3701-0005") == PEAKS["p3701"]
    assert find_peaks("p3701-0004") == PEAKS["p3701-0004"]
    assert find_peaks("p3767") == PEAKS["p3767"]
    assert find_peaks(None) is find_peaks("p9999-0000") is None
    # NVIDIA's data sheet: AGX Orin 64 GB has 5.3 TFLOPS of fp32 at 1.3 GHz, and 204.8 GB/s.
    assert find_peaks("p3701-0005").operations_per_cycle * 1.3e9 == pytest.approx(5.3e12, rel=0.01)
    assert find_peaks("p3701-0005").bytes_per_s(None) == pytest.approx(204.8e9, rel=0.001)
    assert find_peaks("p3701-0005").bytes_per_s(1_600_000_000) == pytest.approx(102.4e9)


@pytest.mark.parametrize(
    ("zones", "celsius"),
    [
        ({"cpu": 40.0, "gpu": 45.0, "tj": 47.0}, 45.0),
        ({"cpu": 40.0, "gpu": None, "tj": 47.0}, 47.0),
        ({"cpu": 40.0, "soc0": 43.0, "cv": None}, 43.0),
        ({"cpu": None}, None),
        ({}, None),
    ],
)
def test_the_gpus_own_zone_tells_its_temperature(
    zones: dict[str, float | None], celsius: float | None
) -> None:
    assert gpu_temperature_c(zones) == celsius


def test_the_board_is_looked_at_only_now_and_then(tmp_path: Path) -> None:
    build_tree(BOARD, tmp_path)
    board, lookaround = open_board(tmp_path), Lookaround()
    assert lookaround.surroundings(board, None) == Surroundings()

    def found_at(now_ns: int) -> float | None:
        lookaround.look(board, now_ns)
        return lookaround.surroundings(board, None).temperature_c

    zones = [z for z in (tmp_path / "sys/class/thermal").glob("*/type") if "gpu" in z.read_text()]
    (zone,) = zones
    zone.with_name("temp").write_text("50000\n")
    assert found_at(0) == 50.0
    zone.with_name("temp").write_text("61500\n")
    assert found_at(LOOK_NS - 1) == 50.0
    assert found_at(LOOK_NS) == 61.5
    zone.with_name("temp").unlink()
    assert found_at(2 * LOOK_NS) != 61.5  # another zone must do
