"""The run directory: what is written can be read to its last complete record, whatever happened."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from runs import tally_of

from orin_gov._sampler import Samples
from orin_gov.errors import RunDirectoryError
from orin_gov.measured import MeasuredStep
from orin_gov.phases import BACKWARD, FORWARD, PHASES
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.window import Window
from orin_gov.record.reader import read_decisions, read_manifest, read_summary
from orin_gov.record.tables import read_table
from orin_gov.record.writer import GRID_NS, RunWriter, create_run_directory
from orin_gov.tally import EpochRecord
from orin_gov.workload.tracker import Span, Step

RAILS = ("GPU", "CPU")
NAN = float("nan")
MS = 1_000_000


def table(path: Path) -> list[dict[str, object]]:
    found, note = read_table(path, "step" if path.stem == "steps" else "t_ns")
    assert found is not None, note
    rows: list[dict[str, object]] = found.to_pylist()
    return rows


def step(number: int = 0, energy_j: float | None = 6.0, work: float | None = 32.0) -> MeasuredStep:
    spans = (Span(FORWARD, 0, 100 * MS), Span(BACKWARD, 100 * MS, 300 * MS))
    return MeasuredStep(
        step=Step(number, spans, work),
        phase_time_s={"forward": 0.1, "backward": 0.2},
        phase_energy_j={"forward": 2.0, "backward": None if energy_j is None else 4.0},
        rail_energy_j={"GPU": 5.0, "CPU": None if energy_j is None else 1.0},
        energy_j=energy_j,
    )


def samples(
    powers: list[tuple[float, float]], period_ns: int = 10 * MS, gap_ns: int = 100 * MS
) -> Samples:
    """Return what the sampler says of two rails with these powers; NaN is a reading that failed."""
    power = np.array(powers)
    energy, missing = np.zeros_like(power), np.zeros_like(power)
    for rail in range(2):
        last = None
        for i in range(len(power)):
            if i:
                energy[i, rail], missing[i, rail] = energy[i - 1, rail], missing[i - 1, rail]
            if not np.isnan(power[i, rail]):
                if last is not None:
                    span_ns = (i - last) * period_ns
                    mean_w = 0.5 * (power[i, rail] + power[last, rail])
                    energy[i, rail] += mean_w * span_ns * 1e-9 if span_ns <= gap_ns else 0
                    missing[i, rail] += span_ns if span_ns > gap_ns else 0
                last = i
    t_ns = 10**12 + period_ns * np.arange(len(power), dtype=np.int64)
    return Samples(t_ns, power, energy, missing)


def test_a_run_reads_back_as_it_was_written(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RAILS) as writer:
        writer.manifest({"name": "train.py", "board": "Ünïcode"})
        writer.step(step(0), None, epoch=0)
        writer.step(step(1, energy_j=None, work=None), 918_000_000, epoch=1)
        writer.decision({"epoch": 0, "reason": "a\nb"})
        writer.summary({"steps": 2})
    assert read_manifest(tmp_path) == {"version": 1, "name": "train.py", "board": "Ünïcode"}
    assert read_summary(tmp_path)["steps"] == 2
    assert read_decisions(tmp_path) == [{"epoch": 0, "reason": "a\nb"}]
    first, second = table(tmp_path / "steps.arrows")
    assert (first["step"], first["epoch"], first["target_hz"]) == (0, 0, None)
    assert (first["begin_ns"], first["end_ns"]) == (0, 300 * MS)
    assert first["duration_s"] == pytest.approx(0.3)
    assert (first["work"], first["energy_j"], first["energy_GPU_j"]) == (32.0, 6.0, 5.0)
    parts = (first["time_backward_s"], first["energy_backward_j"])
    assert parts == pytest.approx((0.2, 4.0), rel=1e-5)
    # No time was spent there, which is a measurement.
    assert (first["time_data_s"], first["energy_data_j"]) == (0.0, 0.0)
    assert second["target_hz"] == 918_000_000
    missing = {key for key, value in second.items() if value is None}
    assert missing == {"work", "energy_j", "energy_backward_j", "energy_CPU_j"}
    assert {f"time_{phase}_s" for phase in PHASES} <= set(first)


def test_samples_are_mean_power_over_50_ms_of_the_energy(tmp_path: Path) -> None:
    ramp = [(float(i), 5.0) for i in range(21)]
    with RunWriter(tmp_path, RAILS) as writer:
        found = samples(ramp)
        for begin in range(0, 21, 4):  # as the engine drains them
            part = Samples(*(column[begin : begin + 4] for column in found))
            writer.samples(part, 306_000_000 + begin)
    rows = table(tmp_path / "samples.arrows")
    assert [row["t_ns"] for row in rows] == [10**12 + i * GRID_NS for i in (1, 2, 3, 4)]
    assert [row["power_GPU_w"] for row in rows] == pytest.approx([2.5, 7.5, 12.5, 17.5])
    assert [row["power_CPU_w"] for row in rows] == pytest.approx([5.0] * 4)
    assert [row["clock_hz"] for row in rows] == [306_000_004, 306_000_008, 306_000_012, 306_000_020]


def test_power_that_was_not_read_is_missing_and_never_zero(tmp_path: Path) -> None:
    # The CPU rail is read for 0.2 s, fails for 0.25 s, and is read again.
    powers = [(30.0, NAN if 20 < i < 45 else 5.0) for i in range(71)]
    with RunWriter(tmp_path, RAILS) as writer:
        writer.samples(samples(powers), None)
    rows = table(tmp_path / "samples.arrows")
    assert [row["power_GPU_w"] for row in rows] == pytest.approx([30.0] * 14)
    cpu = [row["power_CPU_w"] for row in rows]
    assert cpu[:4] == pytest.approx([5.0] * 4)
    assert cpu[4:9] == [None] * 5
    assert cpu[9:] == pytest.approx([5.0] * 5)
    assert {row["clock_hz"] for row in rows} == {None}


def test_power_after_a_short_failure_is_not_told_too_high(tmp_path: Path) -> None:
    powers = [(30.0, NAN if 8 < i < 14 else 5.0) for i in range(31)]
    with RunWriter(tmp_path, RAILS) as writer:
        writer.samples(samples(powers), None)
    cpu = [row["power_CPU_w"] for row in table(tmp_path / "samples.arrows")]
    assert cpu == [pytest.approx(5.0), None, None, *[pytest.approx(5.0)] * 3]


def test_a_sampler_that_stood_still_leaves_a_hole(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RAILS) as writer:
        writer.samples(samples([(30.0, 5.0)] * 4, period_ns=400 * MS), None)
    rows = table(tmp_path / "samples.arrows")
    assert [row["power_GPU_w"] for row in rows] == [None] * 3


def test_decisions_cut_at_any_byte_are_read_to_the_last_complete_one(tmp_path: Path) -> None:
    written = [{"epoch": i, "decision": {"reason": "wörds\u2028\x1c\n"}} for i in range(3)]
    with RunWriter(tmp_path, RAILS) as writer:
        for each in written:
            writer.decision(each)
    file = tmp_path / "decisions.jsonl"
    whole = file.read_bytes()
    for length in range(len(whole) + 1):
        file.write_bytes(whole[:length])
        complete = whole[:length].count(b"\n")
        assert read_decisions(tmp_path) == written[:complete]


CRASH = """
import os, sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
from test_record import RAILS, samples, step
from orin_gov.record.writer import RunWriter
writer = RunWriter(Path({run!r}), RAILS)
writer.manifest({{"name": "x"}})
for epoch in range(3):
    writer.samples(samples([(30.0, 5.0)] * 21), None)
    writer.step(step(epoch), None, epoch)
    writer.decision({{"epoch": epoch}})
writer.step(step(99), None, 3)  # of an epoch that has not ended
os._exit(1)
"""


def test_after_an_abrupt_end_every_finished_epoch_can_be_read(tmp_path: Path) -> None:
    code = CRASH.format(tests=str(Path(__file__).parent), run=str(tmp_path))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 1
    assert [row["step"] for row in table(tmp_path / "steps.arrows")] == [0, 1, 2]
    assert table(tmp_path / "samples.arrows")
    assert [each["epoch"] for each in read_decisions(tmp_path)] == [0, 1, 2]
    assert read_manifest(tmp_path)["name"] == "x"
    with pytest.raises(RunDirectoryError, match=r"summary\.json: No such file"):
        read_summary(tmp_path)


def test_many_steps_are_written_without_waiting_for_a_decision(tmp_path: Path) -> None:
    with RunWriter(tmp_path, RAILS) as writer:
        for i in range(450):
            writer.step(step(i), None, 0)
        early = table(tmp_path / "steps.arrows")
    assert len(early) == 400
    assert [row["step"] for row in table(tmp_path / "steps.arrows")] == list(range(450))


def test_a_new_run_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    create_run_directory(tmp_path / "runs/today/one")
    assert (tmp_path / "runs/today/one").is_dir()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_exists_already_is_left_alone(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "run")
    with pytest.raises(RunDirectoryError, match="exists already and is left alone; name another"):
        create_run_directory(tmp_path / "run")


def test_a_run_directory_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="Not a directory; name another place"):
        create_run_directory(tmp_path / "file/run")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is damaged"),
        (b"{", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[]", "is not of version 1"),
        (b'{"version": 2}', "is not of version 1"),
    ],
)
@pytest.mark.parametrize("read", [read_manifest, read_summary])
def test_a_damaged_record_is_told(
    tmp_path: Path, read: Callable[[Path], object], content: bytes, says: str
) -> None:
    for name in ("manifest.json", "summary.json"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RunDirectoryError, match=says):
        read(tmp_path)


@pytest.mark.parametrize("content", [b"nonsense\n", b'{"epoch": 0}\n{\n', b"\xff\xfe\n"])
def test_damaged_decisions_are_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "decisions.jsonl").write_bytes(content)
    with pytest.raises(RunDirectoryError, match="is damaged"):
        read_decisions(tmp_path)


def test_a_folder_without_decisions_is_no_run_directory(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="is no run directory: No such file"):
        read_decisions(tmp_path)


def epoch(number: int, state: State, target_hz: int | None, unit: str = "step") -> EpochRecord:
    window = Window(
        start_ns=number,
        end_ns=number + 1,
        duration_s=1.0,
        target_hz=target_hz,
        steps=1,
        work=1.0,
        unit=unit,
        energy_j=1.0,
    )
    decision = Decision(State.HOLD, None, "")
    return EpochRecord(number, state, window, Outcome(None, None, None), decision)


def test_windows_under_a_target_are_governed_and_warm_up_is_in_neither_side() -> None:
    epochs = [
        epoch(0, State.WARMUP, None),
        epoch(1, State.BASELINE, None),
        epoch(2, State.VERIFY, 918),
        epoch(3, State.HOLD, 918),
        epoch(4, State.BASELINE, None),
        epoch(5, State.FALLBACK, None),
    ]
    governed, baseline = tally_of(epochs).compared()
    assert governed["start_ns"].tolist() == [2, 3]
    assert baseline["start_ns"].tolist() == [1, 4, 5]
    assert [len(side) for side in tally_of([]).compared()] == [0, 0]


def test_windows_that_count_their_work_otherwise_are_not_compared() -> None:
    epochs = [
        epoch(0, State.BASELINE, None, "busy cycle"),
        epoch(1, State.VERIFY, 306, "busy cycle"),
        epoch(2, State.BASELINE, None),
        epoch(3, State.HOLD, 918),
    ]
    governed, baseline = tally_of(epochs).compared()
    assert [*governed["start_ns"], *baseline["start_ns"]] == [3, 2]


def test_a_full_disk_ends_the_record_and_raises_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run"
    create_run_directory(path)
    with RunWriter(path, ["VDD_IN"]) as writer:
        writer.manifest({})
        (path / "summary.json").mkdir()  # a fault that root has as well
        writer.summary({})
        assert writer.fault is not None
        assert writer.fault.endswith("Is a directory; the record of this run ends here")
        writer.decision({"epoch": 0})
        writer.manifest({"told": "late"})
    writer.decision({"epoch": 1})  # from a thread that was left behind
    assert (path / "decisions.jsonl").read_text() == ""
    assert "late" not in (path / "manifest.json").read_text()


def test_a_table_imports_no_pandas(tmp_path: Path) -> None:
    """pyarrow imports it on the way from a list, which takes the engine's thread seconds."""
    body = """
import sys
from pathlib import Path
import pyarrow as pa
from orin_gov.record.stream import Stream as _Table
schema = pa.schema([("a", pa.int64()), ("b", pa.float32()), ("c", pa.float64())])
table = _Table(Path(sys.argv[1]), schema)
table.append({"a": 2**40 + 1, "b": None, "c": 0.1})
table.append({"a": None, "b": 0.5, "c": float("nan")})
table.close()
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", body, tmp_path / "t.arrows"], check=True)
    first, second = pa.ipc.open_stream(tmp_path / "t.arrows").read_all().to_pylist()
    assert first == {"a": 2**40 + 1, "b": None, "c": 0.1}
    assert (second["a"], second["b"]) == (None, 0.5)
    assert math.isnan(second["c"])
