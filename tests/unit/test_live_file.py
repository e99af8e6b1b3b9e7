"""live.json: written over in place, read by anyone, and never half of it believed."""

import json
import threading
import zlib
from pathlib import Path

import pytest
from snapshots import MOMENT, NOTHING

from orin_gov.errors import RunDirectoryError
from orin_gov.record.live import NAME, LiveFile, read_live
from orin_gov.view.state import VERSION, from_json


@pytest.mark.parametrize("moment", [MOMENT, NOTHING])
def test_what_is_written_is_read_again(tmp_path: Path, moment) -> None:
    file = LiveFile(tmp_path)
    file.write({"long": "x" * 10_000})
    file.write(moment.as_json())
    again = from_json(read_live(tmp_path), "x")
    assert again.as_json() == json.loads(json.dumps(moment.as_json()))
    file.remove()
    with pytest.raises(FileNotFoundError):
        read_live(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_never_sees_half_a_moment(tmp_path: Path) -> None:
    file, ended = LiveFile(tmp_path), threading.Event()
    file.write({"number": 0, "fill": ""})

    def write() -> None:
        for number in range(2000):
            file.write({"number": number, "fill": f"{number:05}" * (number % 700)})
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    reads, last = 0, 0
    while not ended.is_set():
        content = read_live(tmp_path)
        number = content["number"]
        assert content["fill"] == f"{number:05}" * (number % 700)
        assert number >= last
        reads, last = reads + 1, number
    writer.join()
    assert reads > 0


def test_what_a_longer_moment_left_behind_is_passed_over(tmp_path: Path) -> None:
    file = LiveFile(tmp_path)
    file.write({"number": 1})
    with (tmp_path / NAME).open("ab") as late:  # as before it is cut off
        late.write(b'5555"}\n123\n')
    assert read_live(tmp_path) == {"number": 1}
    file.remove()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "damaged"),
        (b'{"version": 1}\n12\n', "damaged"),
        (b"\xff\xfe\n\n", "damaged"),
        (b"no checksum", "damaged"),
        (b"no JSON\n%d\n" % zlib.crc32(b"no JSON"), "damaged"),
        (b"[" * 100_000 + b"\n%d\n" % zlib.crc32(b"[" * 100_000), "damaged"),
        (b"{}\n" + b"9" * 5000 + b"\n", "damaged"),
    ],
)
def test_a_damaged_one_is_told(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(RunDirectoryError, match=says):
        read_live(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            {**MOMENT.as_json(), "version": VERSION + 1},
            f"of version {VERSION + 1}, this orin-gov reads {VERSION}",
        ),
        ([], "of version None"),
        ({"version": VERSION}, "damaged: 'pid'"),
        ({**MOMENT.as_json(), "total": 7}, "damaged"),
        ({**MOMENT.as_json(), "rails": {"a": {"power": 1}}}, "damaged"),
    ],
)
def test_another_version_is_told(content: object, says: str) -> None:
    with pytest.raises(RunDirectoryError, match=says):
        from_json(content, "live.json")
