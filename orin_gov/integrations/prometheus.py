"""Prometheus: the metrics of the run under way, for `orin-gov run --metrics-port PORT`.

Names and units follow Prometheus' conventions: base units, counters end in _total. What is missing
has no sample, never a zero.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from orin_gov import __version__
from orin_gov.board.probe import Board
from orin_gov.errors import UsageError
from orin_gov.meter import Meter
from orin_gov.tally import Tally

LOOPBACK = "127.0.0.1"


class RunCollector(Collector):  # type: ignore[misc]
    """Collects what the supervisor knows at the moment of a scrape; it keeps nothing itself."""

    def __init__(self, name: str, board: Board, meter: Meter, tally: Tally) -> None:
        self._info = {
            "script": name,
            "board": board.identity.title,
            "virtual": board.identity.virtual or "",
            "version": __version__,
        }
        self._meter, self._tally = meter, tally

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the run."""
        yield InfoMetricFamily("orin_gov_run", "The run under way", value=self._info)
        yield from self._energy()
        yield from self._steps()
        yield from self._clock()
        yield from self._decisions()

    def _energy(self) -> Iterator[Metric]:
        now = self._meter.now()
        rails = {rail: read[0] for rail, read in now["rails"].items() if read is not None}
        energy = CounterMetricFamily(
            "orin_gov_rail_energy_joules", "Energy of a rail since the run began", labels=["rail"]
        )
        for rail, joules in rails.items():
            energy.add_metric([rail], joules)
        yield energy
        power = GaugeMetricFamily(
            "orin_gov_rail_power_watts", "Power of a rail as read last", labels=["rail"]
        )
        for rail, watts in self._meter.power_w.items():
            if watts is not None:
                power.add_metric([rail], watts)
        yield power
        total = self._meter.total
        if total and set(total) <= set(rails):
            yield CounterMetricFamily(
                "orin_gov_energy_joules",
                "Energy of the module since the run began",
                value=sum(rails[rail] for rail in total),
            )

    def _steps(self) -> Iterator[Metric]:
        tally = self._tally
        yield CounterMetricFamily("orin_gov_steps", "Optimizer steps", value=tally.steps)
        yield CounterMetricFamily(
            "orin_gov_step_seconds", "Time of all steps", value=tally.step_time_s
        )
        yield CounterMetricFamily(
            "orin_gov_step_energy_joules",
            "Energy of the steps whose energy was measured",
            value=tally.step_energy_j,
        )
        yield CounterMetricFamily(
            "orin_gov_measured_steps",
            "Steps whose energy was measured",
            value=tally.steps_with_energy,
        )

    def _clock(self) -> Iterator[Metric]:
        if self._meter.clock_hz is not None:
            yield GaugeMetricFamily(
                "orin_gov_gpu_clock_hertz",
                "The GPU's clock as it reads",
                value=self._meter.clock_hz,
            )
        spent = CounterMetricFamily(
            "orin_gov_gpu_clock_seconds", "Time at each clock", labels=["hertz"]
        )
        for hz, seconds in dict(self._tally.clock_s).items():
            spent.add_metric([str(hz)], seconds)
        yield spent

    def _decisions(self) -> Iterator[Metric]:
        tally = self._tally
        yield CounterMetricFamily("orin_gov_epochs", "Decision epochs", value=tally.epochs)
        yield CounterMetricFamily(
            "orin_gov_clock_changes", "Clock changes", value=tally.clock_changes
        )
        if not tally.recent:
            return
        last = tally.recent[-1]
        state = GaugeMetricFamily(
            "orin_gov_state", "1 for what the window under way is measured for", labels=["state"]
        )
        state.add_metric([last.decision.state.value], 1.0)
        yield state
        if last.decision.target_hz is not None:
            yield GaugeMetricFamily(
                "orin_gov_target_clock_hertz",
                "The clock that is held; absent under the board's own governor",
                value=last.decision.target_hz,
            )
        for name, what, value in (
            ("saving", "Energy saved per unit of work against the baseline", last.outcome.saving),
            ("slowdown", "Time lost per unit of work against it", last.outcome.slowdown),
        ):
            if value is not None:
                yield GaugeMetricFamily(
                    f"orin_gov_last_epoch_{name}_ratio", f"{what}, last epoch", value=value
                )


@contextmanager
def metrics_endpoint(port: int, collector: RunCollector) -> Iterator[int]:
    """Serve the metrics at http://127.0.0.1:PORT/metrics while the block runs; yield the port.

    Port 0 takes a free one. Only this machine can ask: what leaves it is a proxy's matter.

    Raises:
        UsageError: the port cannot be used.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--metrics-port {port} cannot be used: {error}") from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
