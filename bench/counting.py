"""What counting operations now and then costs a training run.

Steps of the encoder example, hooked as in a governed run, in CPU time of one thread: plain ones and
counted ones take turns. The cost is what a counted step takes longer than the plain one before it,
over the steps that the hooks' own schedule lets pass until the next count.
"""

import random
import sys
import time
from dataclasses import dataclass

import torch

from bench._figures import Figure, median_figure, parser, publish
from bench.encoder_steps import make_step
from orin_gov._phases import PhaseRing
from orin_gov.workload.counting import StepCounter
from orin_gov.workload.hooks import install_hooks
from orin_gov.workload.marker import Marker
from orin_gov.workload.ring import make_ring
from orin_gov.workload.schedule import COST, EVERY

ROUNDS = 40
WARM_UP = 20


@dataclass(frozen=True)
class Round:
    """A plain and a counted step (s), and how rarely steps would be counted after it."""

    plain_s: float
    counted_s: float
    interval: int

    @property
    def extra_s(self) -> float:
        """What counting took."""
        return self.counted_s - self.plain_s


def measure(rounds: int) -> list[Round]:
    """Return so many rounds of a plain and a counted step, in random order."""
    marker, order = Marker(), random.Random(0)
    counter = install_hooks(marker)
    marker.use(PhaseRing(make_ring()))
    step = make_step()
    for _ in range(WARM_UP):
        step()
    found = []
    for _ in range(rounds):
        took_s = {counted: _time(step, counter, counted) for counted in order.sample([0, 1], 2)}
        interval = max(EVERY, counter.schedule.interval)
        found.append(Round(took_s[0], took_s[1], interval))
    return found


def _time(step, counter: StepCounter, counted: int) -> float:
    """Return the CPU seconds of one step, counted or not; the one before it is not timed."""
    step()
    counter.counting = False
    if counted:
        counter.count_next()
    begin_s = time.thread_time()
    step()
    return time.thread_time() - begin_s


def figures_of(rounds: list[Round]) -> list[Figure]:
    """Return the figures of the rounds measured."""
    costs = [100 * each.extra_s / (each.plain_s * each.interval) for each in rounds]
    return [
        median_figure("counting_cost_percent", costs, "%", "<= 0.2"),
        median_figure("counting_interval", [each.interval for each in rounds], "steps"),
        median_figure(
            "first_count_repaid_after",
            [each.extra_s / (COST * each.plain_s) for each in rounds],
            "steps",
        ),
        median_figure("counted_step_extra_ms", [1e3 * each.extra_s for each in rounds], "ms"),
        median_figure("plain_step_ms", [1e3 * each.plain_s for each in rounds], "ms"),
    ]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="of a plain and a counted")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    figures = figures_of(measure(options.rounds))
    return publish("counting", "no board: this machine's own time", figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
