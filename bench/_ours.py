"""What this project decides with: the tree alone, the tree verified, and the whole loop."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources

from bench._environment import Played, play
from bench._rival import Plan, Rival, Search
from bench._table_job import TableJob
from orin_gov.policy.decider import Decider
from orin_gov.policy.features import features_of
from orin_gov.policy.governor import Governor
from orin_gov.policy.objective import Objective
from orin_gov.policy.policy_file import parse_policy
from orin_gov.policy.tree import Policy, choice_of, walk
from orin_gov.policy.window import Window

OURS = ("tree", "tree_verify", "loop")


@cache
def shipped_policy() -> Policy:
    """The policy that ships with the package."""
    shipped = resources.files("orin_gov.policy") / "default.json"
    return parse_policy(shipped.read_text(encoding="utf-8"), str(shipped))


def ours(name: str, points_hz: Sequence[int], objective: Objective) -> Decider:
    """One of OURS over the given operating points."""
    made: dict[str, Callable[[Policy, Sequence[int], Objective], Governor]] = {
        "tree_verify": _TreeVerified,
        "loop": Governor,
    }
    if name == "tree":
        return Rival(points_hz, objective, _tree_alone(objective, points_hz[-1]))
    return made[name](shipped_policy(), points_hz, objective)


def _tree_alone(objective: Objective, top_hz: int) -> Plan:
    """Where the tree leads from the last baseline window, without a look at what comes of it.

    Its clocks are relative to the top of the board's table, `top_hz`.
    """

    def search(points: Sequence[int], baseline: Sequence[Window]) -> Search:
        features = features_of(baseline[-1], top_hz, objective.max_slowdown)
        policy = shipped_policy()
        chosen = choice_of(walk(policy.nodes, features).leaf, objective)
        if chosen is None:
            return points[-1]
        target_hz = policy.clock_shares[chosen] * top_hz
        return min(points, key=lambda hz: abs(hz - target_hz))
        yield  # a generator that measures nothing

    return search


class _TreeVerified(Governor):
    """The governor without its looks at neighbouring points."""

    def _look(self, best: int | None, steps: int) -> int | None:
        return None


def play_ours(
    name: str, jobs: Sequence[TableJob], objective: Objective, seeds: int = 1
) -> list[Played]:
    """Play every job with every seed under one of ours."""
    return [
        play(ours(name, job.segments[0].points_hz, objective), job, seed)
        for job in jobs
        for seed in range(seeds)
    ]
