"""Serving the metrics of a run where they are asked for; what keeps us from it costs no training."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

from orin_gov.board.probe import Board
from orin_gov.errors import UsageError
from orin_gov.meter import Meter
from orin_gov.view.lines import print_note, print_warning

if TYPE_CHECKING:
    from orin_gov.tally import Tally


def serve_metrics(
    port: int | None, name: str, board: Board, meter: Meter, tally: "Tally"
) -> ExitStack:
    """Serve Prometheus metrics at `port` until what is returned is closed; None serves nothing."""
    served = ExitStack()
    if port is None:
        return served
    # Here, so that no other run needs its package.
    from orin_gov.integrations.prometheus import RunCollector, metrics_endpoint

    try:
        collector = RunCollector(name, board, meter, tally)
        port = served.enter_context(metrics_endpoint(port, collector))
        print_note(f"metrics at http://127.0.0.1:{port}/metrics")
    except UsageError as error:
        print_warning(str(error))
    return served
