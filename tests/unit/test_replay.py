"""What-if over a characterization and over a run."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orin_gov.characterization import Characterization, sweep_jobs
from orin_gov.commands import main
from orin_gov.deciding import load_policy
from orin_gov.epoch import Epoch
from orin_gov.errors import RunDirectoryError
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.record.characterization import curves, read_measurements
from orin_gov.record.decisions import as_json
from orin_gov.record.run import Run
from orin_gov.replay import replay_curve, replay_run
from orin_gov.virtual import simulate
from orin_gov.virtual.plant import load_board

JOB = "bert-base/sst2"


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("swept") / "run"
    sweep_jobs(Characterization(Epoch(10), "virtual:agx-orin-64gb", repeats=2, output=path), [JOB])
    return path


@pytest.mark.parametrize("budget", [0.02, 0.10, 1.0])
def test_a_characterization_is_played_as_a_job(swept: Path, budget: float) -> None:
    measured = read_measurements(swept)
    found = replay_curve(JOB, measured, load_policy(None), Objective("energy", budget))
    curve = {point.target_hz: point for point in curves(measured)[JOB]}
    ratio = (curve[found.chosen_hz].energy_j or 0) / (curve[None].energy_j or 1)
    assert found.energy.value == pytest.approx(ratio - 1)
    assert found.energy.low <= found.energy.value <= found.energy.high
    assert found.time.value <= budget + 0.03  # of two noisy windows of ten steps
    assert found.best_energy is not None
    assert found.best_energy <= 0


def test_the_command_tells_it_in_words_and_as_json(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(swept), "--max-slowdown", "0.02", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["workload"] == JOB
    assert main(["replay", str(swept), "--max-slowdown", "50%"]) == 0
    assert "settles at" in capsys.readouterr().out


def test_without_the_boards_own_governor_there_is_nothing_to_compare_with(swept: Path) -> None:
    pinned = [each for each in read_measurements(swept) if each.target_hz is not None]
    with pytest.raises(RunDirectoryError, match="the board's own governor"):
        replay_curve(JOB, pinned, load_policy(None), Objective())


def recorded(budget: float) -> Run:
    board = load_board("agx-orin-64gb")
    governor = Governor(load_policy(None), board.frequencies_hz, Objective("energy", budget))
    epochs = simulate(board, JOB, governor).epochs[:40]
    decisions: list[dict[str, Any]] = json.loads(json.dumps([as_json(each) for each in epochs]))
    manifest = {"table_hz": list(board.frequencies_hz), "name": "job"}
    return Run(Path("job"), manifest, None, decisions, pa.table({}), pa.table({}), ())


def test_a_run_tells_of_points_it_never_measured_with_a_wider_interval() -> None:
    run, policy = recorded(0.02), load_policy(None)
    same = replay_run(run, policy, Objective("energy", 0.02))
    other = replay_run(run, policy, Objective("energy", 1.0))
    assert not other.measured
    assert other.energy.value < same.energy.value
    assert other.energy.high - other.energy.low > same.energy.high - same.energy.low


def test_a_run_without_a_baseline_is_refused() -> None:
    run = recorded(0.02)
    run.decisions[:] = [each for each in run.decisions if each["measured"]["target_hz"]]
    with pytest.raises(RunDirectoryError, match="0 windows of the board's own governor"):
        replay_run(run, load_policy(None), Objective())
