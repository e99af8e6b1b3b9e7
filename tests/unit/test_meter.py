"""The meter: joules at a moment, and the script that asks for them."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest

from orin_gov._sampler import Samples
from orin_gov.errors import UsageError
from orin_gov.meter import KEEP_NS, Meter
from orin_gov.workload.metering import Meter as Client
from orin_gov.workload.ring import make_ring, meter_of

MS = 1_000_000
RAILS = ("GPU", "CPU")
NAN = float("nan")


def samples(begin_ns: int, count: int, watts: tuple[float, float] = (20.0, 5.0)) -> Samples:
    """Return readings each 10 ms of constant powers since time 0; NaN is a rail that is silent."""
    t_ns = begin_ns + 10 * MS * np.arange(count, dtype=np.int64)
    power = np.tile(watts, (count, 1))
    known = np.nan_to_num(power)
    missing = np.where(np.isnan(power), t_ns[:, None], 0.0)
    return Samples(t_ns, power, known * t_ns[:, None] * 1e-9, missing)


def test_energy_is_a_line_between_readings() -> None:
    meter = Meter(RAILS, RAILS, cycle_ns=0)
    meter.feed(samples(0, 101), 918_000_000)
    at = meter.at(505 * MS)
    assert at["rails"]["GPU"] == (pytest.approx(20 * 0.505), 0.0)
    assert at["rails"]["CPU"] == (pytest.approx(5 * 0.505), 0.0)
    assert (at["clock_hz"], at["total"]) == (918_000_000, RAILS)
    assert meter.now()["t_ns"] == 1000 * MS


def test_readings_are_late_by_the_sensors_cycle() -> None:
    meter = Meter(RAILS, RAILS, cycle_ns=7 * MS)
    meter.feed(samples(0, 101), None)
    assert meter.at(493 * MS)["rails"]["GPU"] == (pytest.approx(20 * 0.5), 0.0)


def test_a_question_waits_for_the_readings_that_cover_it() -> None:
    meter = Meter(RAILS, RAILS, cycle_ns=0)
    meter.feed(samples(0, 11), None)
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(meter.at(150 * MS, 60.0)))
    asking.start()
    meter.feed(samples(110 * MS, 11), None)
    asking.join(30.0)
    assert answers
    (answer,) = answers
    assert isinstance(answer, dict)
    assert answer["rails"]["GPU"] == (pytest.approx(20 * 0.15), 0.0)


def test_what_no_reading_has_covered_is_a_hole() -> None:
    meter = Meter(RAILS, None, cycle_ns=0)
    assert meter.at(0, 0.0)["rails"] == {"GPU": None, "CPU": None}
    meter.feed(samples(100 * MS, 11, (20.0, NAN)), None)
    late = meter.at(300 * MS, 0.0)["rails"]
    assert late["GPU"] == (pytest.approx(20 * 0.2), pytest.approx(0.1))
    assert late["CPU"] is None
    early = meter.at(50 * MS)["rails"]["GPU"]
    assert early == (pytest.approx(20 * 0.1), pytest.approx(-0.05))


def test_memory_is_bounded() -> None:
    meter = Meter(RAILS, RAILS, cycle_ns=0)
    for second in range(100):
        meter.feed(samples(second * 1000 * MS, 100), None)
    kept_s = KEEP_NS // (1000 * MS)
    assert len(meter._recent) <= 100 * (kept_s + 1)


@pytest.fixture
def ring() -> Iterator[int]:
    made = make_ring()
    yield made
    os.close(made)


class Feeder:
    """Feeds a meter with readings up to the present, as the engine would, until it is closed."""

    def __init__(self, meter: Meter) -> None:
        self._meter, self._ending = meter, threading.Event()
        self._next_ns = time.monotonic_ns() // (10 * MS) * 10 * MS - 2000 * MS
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._feed()
        self._thread.start()

    def _feed(self) -> None:
        count = (time.monotonic_ns() - self._next_ns) // (10 * MS)
        if count > 0:
            self._meter.feed(samples(self._next_ns, count), 306_000_000)
            self._next_ns += count * 10 * MS

    def _run(self) -> None:
        while not self._ending.wait(0.05):
            self._feed()

    def close(self) -> None:
        self._ending.set()
        self._thread.join()


@pytest.fixture
def client(ring: int) -> Iterator[Client]:
    meter = Meter(RAILS, RAILS, cycle_ns=0)
    feeder = Feeder(meter)
    with meter.served(ring) as answer:
        answer()
        made = Client(meter_of(ring))
        yield made
        made.close()
    feeder.close()


def test_windows_overlap_and_end_in_any_order(client: Client) -> None:
    client.begin_window("a")
    client.begin_window("b")
    readings = client.readings()
    assert readings["clock_hz"] == 306e6
    assert readings["energy_j"] > 0
    first = client.end_window("a")
    second = client.end_window("b")
    assert second.time > first.time
    for each in (first, second):
        assert each.total_energy == pytest.approx(25.0 * each.time, rel=1e-3)
        assert each.rail_energy["GPU"] == pytest.approx(20.0 * each.time, rel=1e-3)
    client.begin_window("a")
    assert client.end_window("a", cancel=True).total_energy is None
    client.begin_window("c")
    assert client.end_window("c").total_energy is not None
    assert not client._known


def test_a_window_that_is_not_open_is_an_error(client: Client) -> None:
    with pytest.raises(UsageError, match="was not begun"):
        client.end_window("x")
    client.begin_window("x")
    with pytest.raises(UsageError, match="was begun already"):
        client.begin_window("x")


def test_without_a_supervisor_time_is_known_and_energy_is_missing(ring: int) -> None:
    for address in (None, meter_of(ring)):
        client = Client(address)
        client.begin_window("x")
        found = client.end_window("x")
        assert found.time > 0
        assert found.total_energy is None
        assert client.readings() == {}


def test_a_supervisor_that_ends_leaves_the_script_running(ring: int) -> None:
    meter = Meter(RAILS, RAILS, cycle_ns=0)
    with meter.served(ring):
        client = Client(meter_of(ring))
        client.begin_window("x")  # connected, and never answered
    assert client.end_window("x").total_energy is None


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "question", [b"\n", b"{}\n", b'{"t_ns": "x"}\n', b"[" * 9000 + b"\n", b'{"t_ns": 1e999}\n']
)
def test_nonsense_is_not_answered(ring: int, question: bytes) -> None:
    meter = Meter(RAILS, RAILS, cycle_ns=0)
    with (
        meter.served(ring) as answer,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer,
    ):
        answer()
        peer.settimeout(30.0)
        peer.connect(meter_of(ring))
        peer.sendall(question)
        with suppress(ConnectionResetError):  # closed with what was sent unread
            assert peer.recv(100) == b""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            other.settimeout(30.0)
            other.connect(meter_of(ring))
            other.sendall(b'{"t_ns": null}\n')
            assert json.loads(other.makefile("rb").readline())["t_ns"] is None


def ask(address: str) -> bytes:
    """Ask for now; return the first bytes of the answer, none where it was refused."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer, suppress(OSError):
        peer.settimeout(30.0)
        peer.connect(address)
        peer.sendall(b'{"t_ns": null}\n')
        return peer.recv(9)
    return b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_answered(ring: int) -> None:
    meter = Meter(RAILS, RAILS, cycle_ns=0)
    address = meter_of(ring)
    with meter.served(ring) as answer:
        answer()
        assert ask(address) == b'{"t_ns": '
        child = os.fork()
        if not child:
            os.setuid(65534)
            os._exit(1 if ask(address) else 0)
        assert os.waitpid(child, 0)[1] == 0
