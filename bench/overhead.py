"""What orin_gov costs a script that it only watches, and what itself takes of a processor.

Steps of the encoder example with and without hooks and supervisor (`--dry-run`, rails read at
200 Hz from a tree of plain files), interleaved in one process; see bench/encoder_steps.py. Then the
supervisor's and the live view's share of one core while they govern (bench/_supervisor.py), and how
much longer than Python `orin-gov --help` takes. `load` is what else ran: the mean of a minute.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench import _supervisor
from bench._figures import Figure, median_figure, parser, publish
from orin_gov.virtual.plant import load_board
from orin_gov.virtual.tree import build_tree

ROUNDS = 40
STARTS = 40
WINDOWS, WINDOW_S = 6, 10.0


def step_figures(rounds: int) -> list[Figure]:
    """Return the ratios of step times, each against the plain step of the same round."""
    script = Path(__file__).with_name("encoder_steps.py")
    with tempfile.TemporaryDirectory() as folder:
        root, times = Path(folder) / "root", Path(folder) / "times.json"
        root.mkdir()
        build_tree(load_board("agx-orin-64gb"), root)
        words = ["run", "--dry-run", "--root", root, "--output", Path(folder) / "run", script]
        subprocess.run(
            [sys.executable, "-m", "orin_gov", *words, times, str(rounds)],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        measured = {name: np.array(each) for name, each in json.loads(times.read_text()).items()}
    plain = measured["plain"]
    return [
        median_figure("hooks_step_time_ratio", measured["hooks"] / plain, "x", "<= 1.01"),
        median_figure("monitor_step_time_ratio", measured["monitor"] / plain, "x"),
        median_figure("plain_step_ms", plain * 1e3, "ms"),
    ]


def help_figure(starts: int) -> Figure:
    """Return how many times longer `orin-gov --help` takes than `python -c pass`."""
    console_script = Path(sys.executable).with_name("orin-gov")
    ratios = []
    for _ in range(starts):
        seconds = []
        for words in ([console_script, "--help"], [sys.executable, "-c", "pass"]):
            begin = time.perf_counter()
            subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
            seconds.append(time.perf_counter() - begin)
        ratios.append(seconds[0] / seconds[1])
    return median_figure("cli_help_ratio", ratios, "x", "<= 2.5")


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="of steps")
    arguments.add_argument(
        "--windows", type=int, default=WINDOWS, help=f"of {WINDOW_S:.0f} s, to weigh the supervisor"
    )
    options = arguments.parse_args()
    figures = [
        *step_figures(options.rounds),
        *_supervisor.figures(options.windows, WINDOW_S),
        help_figure(STARTS),
        Figure("load", os.getloadavg()[0], "", 1),
    ]
    return publish("overhead", "no board: this machine's own time", figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
