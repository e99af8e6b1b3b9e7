"""The figures of the regret bench, from jobs played."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from timeit import repeat

import numpy as np

from bench import _regret_measures as measures
from bench._environment import Played
from bench._figures import RESAMPLES, Figure
from bench._ours import shipped_policy
from bench._statistics import Floats, by_job, mean_figure, quantile_figure, worst_figure
from orin_gov.policy.features import features_of
from orin_gov.policy.tree import walk

PAPER_SAVINGS = {"mean": 13.11, "best": 26.73}
"""What arXiv 2607.05933 saves against MAXN (percent), on average and at most."""


def grid_figures(played: Sequence[Played], max_slowdown: float) -> list[Figure]:
    """The measured grid; intervals are over batches, each the mean of its seeds."""
    names = [each.job.name for each in played]
    singles = [measures.settled_regret(each, max_slowdown) for each in played]
    regrets = by_job(names, singles)
    excess = by_job(names, [measures.job_excess(each, max_slowdown) for each in played])
    steps = [measures.settled(each).step for each in played]
    near = [measures.near_step(each, max_slowdown) for each in played]
    podgov = [measures.saving(each, measures.podgov(each)) for each in played]
    top = [measures.saving(each, measures.pinned_max(each)) for each in played]
    return [
        mean_figure("settled_regret_mean_percent", regrets, bar="<= 0.5"),
        worst_figure("settled_regret_worst_percent", names, singles, bar="<= 1.5"),
        Figure("settled_regret_single_worst_percent", max(singles), "%", len(singles)),
        mean_figure("job_excess_percent", excess, bar="<= 1"),
        Figure("job_excess_worst_percent", max(excess), "%", len(excess)),
        quantile_figure("settle_steps_p95", steps, 0.95, "steps", "<= 30"),
        mean_figure("settle_steps_mean", steps, "steps"),
        quantile_figure("settle_near_steps_p95", near, 0.95, "steps"),
        mean_figure("grid_saving_podgov_simulated_percent", by_job(names, podgov)),
        mean_figure("grid_saving_pinned_max_percent", by_job(names, top)),
    ]


def finetune_figures(
    played: Sequence[Played], max_slowdown: float, podgov_j: Mapping[str, float]
) -> list[Figure]:
    """The published curves. Savings are of the settled point, as the paper's are of a static one."""
    names = [each.job.name for each in played]
    regrets = [measures.settled_regret(each, max_slowdown) for each in played]
    excess = by_job(names, [measures.job_excess(each, max_slowdown) for each in played])
    found = [
        worst_figure("finetune_regret_worst_percent", names, regrets, bar="<= 0.5"),
        mean_figure("finetune_job_excess_percent", excess),
    ]
    savings = [_finetune_savings(each, podgov_j) for each in played]
    for against in ("podgov_published", "podgov_simulated", "pinned_max"):
        pairs = zip(names, savings, strict=True)
        known = [(name, saving[against]) for name, saving in pairs if against in saving]
        if known:
            of_jobs = by_job(*zip(*known, strict=True))
            mean = f"finetune_saving_{against}_mean_percent"
            best = f"finetune_saving_{against}_best_percent"
            found += [mean_figure(mean, of_jobs), Figure(best, max(of_jobs), "%", len(of_jobs))]
    for name, percent in PAPER_SAVINGS.items():
        found.append(Figure(f"paper_saving_podgov_{name}_percent", percent, "%", 1))
    return found


def _finetune_savings(played: Played, podgov_j: Mapping[str, float]) -> dict[str, float]:
    """What the settled point saves (percent), by what it is compared with."""
    segment = played.job.segments[0]
    settled_j = segment.costs(measures.settled(played).target).energy_j
    others_j = {
        "podgov_simulated": segment.at[None].energy_j,
        "pinned_max": segment.at[max(segment.points_hz)].energy_j,
    }
    if played.job.name in podgov_j:
        others_j["podgov_published"] = podgov_j[played.job.name] / played.job.scale
    return {name: 100 * (1 - settled_j / other_j) for name, other_j in others_j.items()}


def budget_figures(played: Mapping[float, Sequence[Played]]) -> list[Figure]:
    """Slowdown budgets: how often they are exceeded, and how much of the oracle's saving is had."""
    budgets = {budget: _Budget.of(jobs, budget) for budget, jobs in played.items()}
    every = _Budget(*map(np.concatenate, zip(*map(astuple, budgets.values()), strict=True)))
    found = [
        mean_figure("budget_violation_percent", every.over, bar="<= 5"),
        mean_figure("budget_violation_whole_job_percent", every.over_whole),
        *_share("budget_saving_share_percent", every.savings, every.oracle, ">= 90"),
        *_share("budget_saving_share_settled_percent", every.settled, every.oracle),
    ]
    for budget, each in budgets.items():
        at = f"at_{100 * budget:.0f}_percent"
        found += [
            mean_figure(f"budget_violation_{at}", each.over),
            *_share(f"budget_saving_share_{at}", each.savings, each.oracle),
            mean_figure(f"budget_oracle_saving_{at}", each.oracle),
        ]
    return found


@dataclass(frozen=True)
class _Budget:
    """Jobs under one budget. Savings in percent of podgov's energy: of the whole job, of the
    settled point alone, and the oracle's; `over` is 100 where the budget was exceeded, else 0."""

    over: Floats
    over_whole: Floats
    savings: Floats
    settled: Floats
    oracle: Floats

    @classmethod
    def of(cls, jobs: Sequence[Played], budget: float) -> "_Budget":
        least = budget + measures.TOLERANCE
        since = [measures.settled(each).step for each in jobs]
        pairs = list(zip(jobs, since, strict=True))
        steady = [measures.slowdown(each, step, governed=True) for each, step in pairs]
        whole = [measures.slowdown(each, 0, governed=False) for each in jobs]
        podgov = [measures.podgov(each) for each in jobs]
        return cls(
            over=100.0 * (np.array(steady) > least),
            over_whole=100.0 * (np.array(whole) > least),
            savings=np.array([measures.saving(*pair) for pair in zip(jobs, podgov, strict=True)]),
            settled=np.array([measures.settled_saving(each) for each in jobs]),
            oracle=np.array([measures.oracle_saving(each, budget) for each in jobs]),
        )


def _share(name: str, ours: Floats, oracles: Floats, bar: str | None = None) -> list[Figure]:
    """The sum of savings as a share of the oracle's; no figure where that saves nothing."""
    if oracles.sum() <= 0:
        return []
    picks = np.random.default_rng(0).integers(0, len(ours), (RESAMPLES, len(ours)))
    sums = np.stack([ours[picks].sum(axis=1), oracles[picks].sum(axis=1)])
    sums = sums[:, sums[1] > 0]
    low, high = np.quantile(100 * sums[0] / sums[1], (0.025, 0.975))
    value = float(100 * ours.sum() / oracles.sum())
    return [Figure(name, value, "%", len(ours), (float(low), float(high)), bar)]


def drift_figures(played: Sequence[Played], max_slowdown: float) -> list[Figure]:
    """After a batch change, an evaluation, heat, a cap that comes and a cap that goes."""
    every = [drift for each in played for drift in measures.after_drifts(each, max_slowdown)]
    regrets = [measures.drift_regret(each, max_slowdown) for each in played]
    epochs = [float(drift.epochs) for drift in every]
    near = [float(drift.near_epochs) for drift in every]
    points = [measures.held_regret(each, max_slowdown) for each in played]
    return [
        mean_figure("drift_regret_mean_percent", regrets, bar="<= 1"),
        mean_figure("drift_held_regret_mean_percent", points),
        quantile_figure("drift_resettle_epochs_p95", epochs, 0.95, "epochs", "<= 3"),
        quantile_figure("drift_resettle_near_epochs_p95", near, 0.95, "epochs"),
        mean_figure("drift_resettle_epochs_mean", epochs, "epochs"),
        Figure(
            "limit_cycles", float(sum(each.cycles for each in every)), "", len(every), bar="<= 0"
        ),
    ]


def thinking_figures(played: Sequence[Played]) -> list[Figure]:
    """How long one decision takes, from the window on, and a walk through the tree.

    The processor's time is judged: the wall's has in it what else the machine was doing.
    """
    wall_ms, processor_ms = (1e3 * np.concatenate([each.think_s for each in played])).T
    points_hz = played[0].job.segments[0].points_hz
    features = features_of(played[0].epochs[0].window, points_hz[-1], 0.1)
    nodes = shipped_policy().nodes
    walks_s = repeat(lambda: walk(nodes, features), number=100, repeat=200)
    return [
        quantile_figure("decide_ms_p99", processor_ms, 0.99, "ms", "<= 2"),
        quantile_figure("decide_wall_ms_p99", wall_ms, 0.99, "ms"),
        Figure("tree_walk_us", 1e4 * min(walks_s), "us", 20_000, bar="<= 5"),
    ]
