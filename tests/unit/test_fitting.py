"""Fitting on characterizations: what they hold becomes a policy, and what they lack is told."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orin_gov.characterization import Characterization, sweep_jobs
from orin_gov.commands import main
from orin_gov.deciding import load_policy
from orin_gov.epoch import Epoch
from orin_gov.errors import PolicyError, RunDirectoryError
from orin_gov.fitting import gather, window_of
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.pinned import Pinned
from orin_gov.record.characterization import read_measurements
from orin_gov.virtual import simulate

pytest.importorskip("sklearn", reason="fitting needs scikit-learn (the extra named fit)")

WORKLOADS = ("bert-base/sst2", "bert-tiny/cola", "pythia-70m/cola")
POINTS = "306,612,816,1122,1300"


def swept(path: Path, workloads=WORKLOADS, **changes) -> Path:
    wanted = {
        "epoch": Epoch(10),
        "board": "virtual:agx-orin-64gb",
        "freqs": POINTS,
        "repeats": 2,
        "output": path,
    }
    return sweep_jobs(Characterization(**{**wanted, **changes}), workloads).path


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    return swept(tmp_path_factory.mktemp("characterizations") / "three")


def fitted(output: Path, *runs: Path) -> dict:
    assert main(["fit", "-o", str(output), *map(str, runs)]) == 0
    return json.loads(output.read_text())


def copied(path: Path, to: Path, keep) -> Path:
    """A copy of a run directory with those measurements that `keep` keeps, or changes."""
    to.mkdir()
    (to / "manifest.json").write_bytes((path / "manifest.json").read_bytes())
    lines = (path / "measurements.jsonl").read_text().splitlines()
    kept = [json.dumps(found) for line in lines if (found := keep(json.loads(line)))]
    (to / "measurements.jsonl").write_text("".join(f"{line}\n" for line in kept))
    return to


def renamed(path: Path, to: Path, **fingerprint) -> Path:
    """A copy whose board is in another state."""
    copied(path, to, lambda each: each)
    manifest = json.loads((to / "manifest.json").read_text())
    manifest["fingerprint"].update(fingerprint)
    (to / "manifest.json").write_text(json.dumps(manifest))
    return to


def test_the_card_says_board_mode_data_and_how_well_it_does_on_workloads_left_out(three, tmp_path):
    card = fitted(tmp_path / "policy.json", three)["card"]
    assert card["fitted_on"].startswith("virtual board agx-orin-64gb: bert-base/sst2, bert-tiny")
    assert "simulated" in card["fitted_on"]
    assert (card["module"], card["power_mode"]) == ("p3701-0005", "MAXN")
    assert card["data"] == ["three"]
    assert card["rounds"] == 2
    assert card["holes"] == []
    assert max(card["table_hz"]) == 1_300_500_000
    assert set(card["versions"]) == {"orin_gov", "scikit-learn"}
    assert {each["workloads"] for each in card["left_out"].values()} == {3}


def test_a_leaf_is_the_curve_that_was_measured(three, tmp_path):
    output = tmp_path / "policy.json"
    fitted(output, swept(tmp_path / "one", WORKLOADS[:1]))
    measured = read_measurements(tmp_path / "one")
    own, *rest = (
        window_of([each for each in measured if each.target_hz == hz])
        for hz in (None, 306_000_000, 612_000_000, 816_000_000, 1_122_000_000, 1_300_500_000)
    )
    leaf = load_policy(output).nodes[0]
    assert leaf.energy == pytest.approx([w.energy_per_work_j / own.energy_per_work_j for w in rest])
    assert leaf.time == pytest.approx([w.time_per_work_s / own.time_per_work_s for w in rest])


def test_what_few_workloads_do_not_say_of_others_is_doubted(three, tmp_path):
    fitted(tmp_path / "policy.json", three)
    policy = load_policy(tmp_path / "policy.json")
    curves = gather([three]).examples
    told = math.sqrt(float((policy.deviations**2).sum()) + policy.rest**2)
    differ = np.std([each.answer for each in curves], axis=0).max()
    assert (
        told > differ
    )  # a leaf knows its own workload, and yet it is not trusted to the last digit


def test_one_workload_says_that_regret_cannot_be_cross_validated(tmp_path, capfd):
    one = swept(tmp_path / "one", WORKLOADS[:1])
    card = fitted(tmp_path / "policy.json", one)["card"]
    assert card["left_out"] == {"why_missing": "a single workload cannot be left out"}
    assert "no cross-validated regret" in capfd.readouterr().err


def test_the_same_workload_in_two_runs_is_left_out_as_one(tmp_path):
    runs = [swept(tmp_path / name, WORKLOADS[:1], seed=n) for n, name in enumerate("ab")]
    card = fitted(tmp_path / "policy.json", *runs)["card"]
    assert "why_missing" in card["left_out"]


def test_a_policy_fitted_on_a_workload_governs_it(three, tmp_path):
    fitted(tmp_path / "policy.json", three)
    policy = load_policy(tmp_path / "policy.json")
    table = json.loads((three / "manifest.json").read_text())["fingerprint"]["table_hz"]
    run = simulate(
        "agx-orin-64gb", "bert-base/sst2", Governor(policy, table, Objective("energy", 0.1))
    )
    own = simulate("agx-orin-64gb", "bert-base/sst2", Pinned(None))
    assert run.energy_j < 0.94 * own.energy_j
    assert run.steps_time_s < 1.11 * own.steps_time_s


def test_points_that_a_workload_lacks_are_not_used_and_that_is_told(three, tmp_path, capfd):
    def keep(each):
        hole = each["workload"] == "bert-tiny/cola" and each["target_hz"] == 816_000_000
        return None if hole else each

    policy = fitted(tmp_path / "policy.json", copied(three, tmp_path / "hole", keep))
    assert policy["card"]["holes"] == ["816 MHz not measured for every workload: not used"]
    assert len(policy["clock_shares"]) == 4
    assert "816 MHz not measured" in capfd.readouterr().err


def test_clocks_keep_their_share_of_the_top_where_the_top_was_not_measured(three, tmp_path):
    cut = copied(three, tmp_path / "cut", lambda e: e if e["target_hz"] != 1_300_500_000 else None)
    shares = fitted(tmp_path / "policy.json", cut)["clock_shares"]
    assert shares[-1] == pytest.approx(1_122 / 1_300.5)


def test_a_workload_that_was_interrupted_early_is_left_out(three, tmp_path):
    def keep(each):
        early = each["workload"] != "bert-tiny/cola" or each["target_hz"] in (None, 306_000_000)
        return each if early else None

    card = fitted(tmp_path / "policy.json", copied(three, tmp_path / "early", keep))["card"]
    assert card["holes"] == [
        "early, bert-tiny/cola: left out, 1 of 5 operating points measured",
    ]
    assert "bert-tiny" not in card["fitted_on"]
    assert len(card["points_hz"]) == 5


def test_a_workload_without_a_baseline_is_left_out(three, tmp_path):
    def keep(each):
        return None if each["workload"] == "bert-tiny/cola" and not each["target_hz"] else each

    found = gather([copied(three, tmp_path / "blind", keep)])
    assert "bert-tiny/cola" not in found.workloads
    assert found.holes == [
        "blind, bert-tiny/cola: left out, the board's own governor was not measured"
    ]


def test_measurements_without_energy_do_not_count(three, tmp_path):
    def keep(each):
        return {**each, "energy_j": None if each["round"] else each["energy_j"]}

    found = gather([copied(three, tmp_path / "gaps", keep)])
    assert found.rounds == 1
    assert found.holes == ["gaps: 18 measurements without energy do not count"]


def test_without_any_energy_it_says_what_is_missing(three, tmp_path):
    blind = copied(three, tmp_path / "blind", lambda each: {**each, "energy_j": None})
    with pytest.raises(PolicyError, match="36 measurements without energy do not count"):
        gather([blind])


def test_too_few_points_are_refused(three, tmp_path):
    def keep(each):
        return each if each["target_hz"] in (None, 306_000_000, 612_000_000) else None

    with pytest.raises(
        PolicyError, match="there are 2; orin-gov characterize with the same --output"
    ):
        gather([copied(three, tmp_path / "few", keep)])


@pytest.mark.parametrize(
    "other", [{"module": "p3767-0000"}, {"power_mode": "MODE_30W"}, {"table_hz": [1, 2]}]
)
def test_boards_and_modes_are_not_mixed(three, tmp_path, other):
    with pytest.raises(PolicyError, match=f"has {next(iter(other))} .* one board in one state"):
        gather([three, renamed(three, tmp_path / "other", **other)])


def test_records_of_earlier_versions_are_fitted_by_what_they_hold(three, tmp_path):
    late = {"operations_per_step", "bytes_per_step", "launches_per_step"}
    late |= {"power_range_w", "surroundings"}
    old = copied(three, tmp_path / "old", lambda e: {k: v for k, v in e.items() if k not in late})
    manifest = json.loads((old / "manifest.json").read_text())
    del manifest["fingerprint"]
    (old / "manifest.json").write_text(json.dumps(manifest))
    card = fitted(tmp_path / "policy.json", old)["card"]
    assert card["module"] is None
    assert len(gather([three, old]).examples) == 6


@pytest.mark.parametrize("damage", ["no directory", "a run", "no JSON", "strange values"])
def test_what_is_no_characterization_is_refused(three, tmp_path, damage):
    path = tmp_path / "strange"
    if damage != "no directory":
        copied(three, path, lambda each: {**each, "rail_energy_j": 5, "duration_s": "long"})
    if damage == "a run":
        (path / "manifest.json").write_text('{"name": "train.py"}')
    if damage == "no JSON":
        (path / "manifest.json").write_text("{")
    with pytest.raises(RunDirectoryError, match="strange"):
        gather([path])


def test_rounds_make_one_window(three):
    rounds = [
        each
        for each in read_measurements(three)
        if each.workload == "bert-base/sst2" and each.target_hz == 612_000_000
    ]
    whole, one = window_of(rounds), window_of(rounds[:1])
    assert whole.duration_s == pytest.approx(sum(each.duration_s for each in rounds))
    assert whole.steps == 20
    assert whole.power_w == pytest.approx(one.power_w, rel=0.05)
    assert whole.operations_per_step
    assert whole.surroundings.gpu_rail == "VDD_GPU_SOC"
    blind = window_of([replace(rounds[0], energy_j=None), rounds[1]])
    assert blind.energy_j is None


def test_options_of_the_family_do_not_go_with_runs(three, tmp_path):
    assert main(["fit", "-o", str(tmp_path / "p"), "--seed", "1", str(three)]) == 2
