"""Tables that grow: what a crash leaves can be read, a day is small, and memory stays as it is."""

import os
import shutil
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import RAILS, START_NS, TABLE_HZ, manifest, step

from orin_gov._sampler import Samples
from orin_gov.policy.decision import Decision, Outcome, State
from orin_gov.policy.window import Surroundings, Window
from orin_gov.record import stream
from orin_gov.record.decisions import as_json
from orin_gov.record.stream import LARGE_ROWS, Stream, tail_of
from orin_gov.record.tables import read_table
from orin_gov.record.writer import RunWriter
from orin_gov.tally import EpochRecord

SCHEMA = pa.schema([("step", pa.int64()), ("energy_j", pa.float64()), ("power_w", pa.float32())])
MS = 1_000_000
SECONDS_OF_DAY = 86_400


def row(number: int) -> dict[str, float | None]:
    return {"step": number, "energy_j": None if number % 7 == 3 else number / 3, "power_w": 1.5}


def numbers(path: Path) -> list[int]:
    table, _ = read_table(path, "step")
    assert table is not None
    found: list[int] = table["step"].to_pylist()
    return found


@given(st.lists(st.integers(1, 30), max_size=30), st.booleans())
@settings(max_examples=30, deadline=None)
def test_every_row_is_there_once_after_each_flush(counts: list[int], close: bool) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "LARGE_ROWS", 40)
        path = Path(folder) / "t.arrows"
        table = Stream(path, SCHEMA)
        written = 0
        for count in counts:
            for _ in range(count):
                table.append(row(written))
                written += 1
            table.flush()
            assert numbers(path) == list(range(written))
        table.close()
        found, note = read_table(path, "step")
        assert note is None
        assert found is not None
        assert found.to_pylist() == [row(number) for number in range(written)]
        assert os.listdir(folder) == ["t.arrows"]


def test_a_tail_that_was_moved_on_but_not_emptied_is_not_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "t.arrows"
    table = Stream(path, SCHEMA)
    for number in range(LARGE_ROWS + 300):
        table.append(row(number))
    table.flush()
    # Both tails are there: the full one stays until its successor is full.
    assert tail_of(path, 0).exists()
    assert tail_of(path, 1).exists()
    assert numbers(path) == list(range(LARGE_ROWS + 300))


def test_a_large_batch_that_a_power_loss_took_is_still_in_its_tail(tmp_path: Path) -> None:
    path = tmp_path / "t.arrows"
    table = Stream(path, SCHEMA)
    for number in range(LARGE_ROWS + 300):
        table.append(row(number))
    table.flush()
    whole = path.read_bytes()
    for length in (0, 100, len(whole) // 2):
        path.write_bytes(whole[:length])
        assert numbers(path) == list(range(LARGE_ROWS + 300))


CRASH = """
import os, sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {unit!r}]
from test_stream import SCHEMA, row
from orin_gov.record.stream import Stream
table = Stream(Path({path!r}), SCHEMA)
for number in range(12_345):
    table.append(row(number))
table.flush()
os._exit(1)
"""


def test_after_a_crash_all_that_was_flushed_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.arrows"
    here = Path(__file__).parent
    code = CRASH.format(tests=str(here.parent), unit=str(here), path=str(path))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 1
    assert numbers(path) == list(range(12_345))


def write_stretch(writer: RunWriter, begin_s: int, seconds: int, step_s: float, epoch: int) -> None:
    """Write so many seconds as the engine does: samples at 200 Hz, noisy steps, an epoch each 10."""
    random = np.random.default_rng(begin_s)
    steps_a_second = round(1 / step_s)
    for second in range(begin_s, begin_s + seconds):
        t_ns = START_NS + second * 1000 * MS + 5 * MS * np.arange(200, dtype=np.int64)
        watts = np.array([25.0, 3.0, 7.0, 4.0]) * random.normal(1.0, 0.1, (200, 4))
        energy = 39.0 * second + np.cumsum(watts * 0.005, axis=0)
        writer.samples(Samples(t_ns, watts, energy, np.zeros((200, 4))), TABLE_HZ[2])
        for index in range(steps_a_second):
            number = second * steps_a_second + index
            whole = step(number)
            noise = random.normal(1.0, 0.03, 20)
            late_ns = random.integers(0, MS, len(whole.step.spans)).tolist()
            spans = tuple(
                replace(span, begin_ns=span.begin_ns + late, end_ns=span.end_ns + late)
                for span, late in zip(whole.step.spans, late_ns, strict=True)
            )
            noisy = replace(
                whole,
                step=replace(whole.step, spans=spans, work=float(random.integers(500, 2000))),
                energy_j=12.0 * noise[0],
                phase_time_s=_noisy(whole.phase_time_s, noise[1:5]),
                phase_energy_j=_noisy(whole.phase_energy_j, noise[5:9]),
                rail_energy_j=_noisy(whole.rail_energy_j, noise[9:13]),
            )
            writer.step(noisy, TABLE_HZ[2], number // 10)
            if number % 10 == 9:
                writer.decision(_noisy_decision(random))


def _noisy(values: "dict[str, float | None]", noise: "np.ndarray") -> "dict[str, float | None]":
    return {
        key: None if value is None else value * factor
        for (key, value), factor in zip(values.items(), noise, strict=True)
    }


def _noisy_decision(random: np.random.Generator) -> dict[str, object]:
    """Return what the engine writes of an epoch, with all that a board and a job can tell."""

    def of(*names: str) -> dict[str, float]:
        return dict(zip(names, random.random(len(names)).tolist(), strict=True))

    phases = ("data", "forward", "backward", "optimizer", "idle")
    number, share = (float(value) for value in random.random(2))
    window = Window(
        start_ns=int(number * 1e15),
        end_ns=int(share * 1e15),
        duration_s=number,
        target_hz=TABLE_HZ[2],
        steps=10,
        work=1e4 * share,
        unit="unit of work",
        energy_j=40 * number,
        rail_energy_j=of(*RAILS),
        phase_time_s=of(*phases),
        phase_energy_j=of(*phases),
        frequency_hz=9e8 * number,
        load=number,
        coarseness=share,
        operations_per_step=of(*phases[1:4]),
        bytes_per_step=of(*phases[1:4]),
        launches_per_step=of(*phases[1:4]),
        power_range_w=(10 * number, 40 * share),
        surroundings=Surroundings(49.5, *TABLE_HZ[::4], 3_199_000_000, 0, RAILS[0], 4096.0, 2e11),
        sensitivity=share,
    )
    # While the governor rests, windows are short and the tree is not asked.
    reason = Decision(State.FALLBACK, None, "20 windows until the next try")
    record = EpochRecord(7, State.HOLD, window, Outcome(number, share, share), reason, {"oc1": 0})
    return as_json(record)


@pytest.mark.parametrize(("step_s", "most_mb"), [(0.5, 100), (0.1, 200)])
def test_a_days_run_at_defaults_is_under_200_mb(
    tmp_path: Path, step_s: float, most_mb: float
) -> None:
    seconds = 300  # a large batch of samples and more, so that what is told is told of a day
    with RunWriter(tmp_path, RAILS) as writer:
        writer.manifest(manifest())
        write_stretch(writer, 0, seconds, step_s, 0)
        under_way = sum(file.stat().st_size for file in tmp_path.iterdir())
    ended = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert ended * SECONDS_OF_DAY / seconds < most_mb * 1e6
    # While it runs, the tails come on top: they do not grow with the run.
    assert under_way < ended + 8e6


def test_the_writers_memory_does_not_grow_over_hours(tmp_path: Path) -> None:
    minutes = 6  # each stands for ten: what grows with the rows grows with these as well
    with RunWriter(tmp_path, RAILS) as writer:
        write_stretch(writer, 0, 600, 0.5, 0)
        tracemalloc.start()
        write_stretch(writer, 600, 60, 0.5, 0)
        before, _ = tracemalloc.get_traced_memory()
        kept = pa.total_allocated_bytes()
        write_stretch(writer, 660, 60 * minutes, 0.5, 0)
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert after - before < 1e6
        assert pa.total_allocated_bytes() - kept < 4e6
    shutil.rmtree(tmp_path)


def test_nothing_that_is_put_in_the_place_of_a_tail_is_followed(tmp_path: Path) -> None:
    path, precious = tmp_path / "t.arrows", tmp_path / "precious"
    precious.write_text("untouched")
    table = Stream(path, SCHEMA)
    for turn in (0, 1):
        tail_of(path, turn).unlink()
        tail_of(path, turn).symlink_to(precious)
    for number in range(2 * LARGE_ROWS + 100):
        table.append(row(number))
    table.close()
    assert precious.read_text() == "untouched"
    assert numbers(path) == list(range(2 * LARGE_ROWS + 100))


def test_nothing_is_removed_from_what_is_put_in_the_folders_place(tmp_path: Path) -> None:
    run, away = tmp_path / "run", tmp_path / "away"
    run.mkdir()
    table = Stream(run / "t.arrows", SCHEMA)
    table.append(row(0))
    run.rename(away)
    run.mkdir()
    precious = [tail_of(run / "t.arrows", turn) for turn in (0, 1)]
    for each in precious:
        each.write_text("untouched")
    table.close()
    assert [each.read_text() for each in precious] == ["untouched"] * 2
    assert [each.name for each in away.iterdir()] == ["t.arrows"]
    assert numbers(away / "t.arrows") == [0]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_rows_that_a_power_loss_filled_with_zeros_are_not_shown(
    tmp_path: Path, share: float
) -> None:
    """The file has its full length then: what was not written yet reads as zeros."""
    path = tmp_path / "t.arrows"
    table = Stream(path, SCHEMA)
    for number in range(150):
        table.append(row(number))
        if number == 99:
            table.flush()
            first = tail_of(path, 0).stat().st_size
    table.flush()
    whole = tail_of(path, 0).read_bytes()
    kept = first + round((len(whole) - first) * share)
    tail_of(path, 0).write_bytes(whole[:kept] + bytes(len(whole) - kept))
    assert numbers(path) == list(range(100))
    _, note = read_table(path, "number")
    assert note is not None
    assert "ends after 100 rows" in note
