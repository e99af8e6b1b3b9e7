"""A run on a board that gets too hot, or draws too much: lower, said, and in no saving."""

import json
from pathlib import Path

from governed import AT_REST, SLOWLY, governed
from jobs import write_job
from trees import build_tree, eventually, following, gpu_folder, is_pinned, limits, write


def hot_board(root: Path) -> Path:
    """Write a board whose GPU can be cooled and whose over-current events are counted."""
    build_tree(root)
    cooling = root / "sys/class/thermal/cooling_device0"
    write(cooling / "type", "devfreq-17000000.gpu\n")
    write(cooling / "cur_state", "0\n")
    hwmon = root / "sys/class/hwmon/hwmon9"
    write(hwmon / "name", "soctherm_oc\n")
    write(hwmon / "oc3_event_cnt", "7\n")
    return root


def test_on_heat_a_run_goes_lower_says_why_and_counts_no_such_window(tmp_path: Path) -> None:
    root = hot_board(tmp_path / "board")
    state = root / "sys/class/thermal/cooling_device0/cur_state"
    gpu = gpu_folder(root)
    with following(gpu), governed(write_job(tmp_path), "--root", root, *SLOWLY) as run:
        assert eventually(lambda: is_pinned(gpu))
        state.write_text("2\n")
        assert eventually(lambda: "the GPU is being cooled, its clock capped; the" in run.told)
        state.write_text("0\n")
        assert eventually(lambda: "undisturbed" in run.told)
        assert run.ends() == 7
    assert limits(gpu) == AT_REST
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["windows_disturbed"] >= 1
    assert "left out for heat or over-current" in run.told
    lines = (tmp_path / "run/decisions.jsonl").read_text().splitlines()
    epochs = [json.loads(line) for line in lines]
    touched = [each for each in epochs if each["measured"]["disturbed"]]
    assert touched
    for each in touched:
        asked_hz = each["measured"]["target_hz"]
        if asked_hz and each["measured"]["state"] != "warm-up":
            assert each["decision"]["target_hz"] <= asked_hz


def test_a_window_with_over_current_events_is_measured_once_more(tmp_path: Path) -> None:
    root = hot_board(tmp_path / "board")
    counter = root / "sys/class/hwmon/hwmon9/oc3_event_cnt"
    with governed(write_job(tmp_path), "--root", root, *SLOWLY) as run:
        assert eventually(lambda: "-> baseline" in run.told)
        counter.write_text("12\n")
        assert eventually(lambda: "over-current events: OC3 5; the window does not" in run.told)
        assert run.ends() == 7
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["windows_disturbed"] >= 1
