"""The figures of the regret bench, from jobs played."""

from collections.abc import Sequence
from timeit import repeat

import numpy as np

from bench import _regret_measures as measures
from bench._environment import Played
from bench._figures import Figure
from bench._ours import shipped_policy
from bench._statistics import by_job, mean_figure, quantile_figure, worst_figure
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
    n = len(regrets)
    return [
        mean_figure("settled_regret_mean_percent", regrets, bar="<= 0.5"),
        worst_figure("settled_regret_worst_percent", names, singles, bar="<= 1.5"),
        Figure("settled_regret_single_worst_percent", max(singles), "%", len(singles)),
        mean_figure("job_excess_percent", excess, bar="<= 1"),
        Figure("job_excess_worst_percent", max(excess), "%", n),
        quantile_figure("settle_steps_p95", steps, 0.95, "steps", "<= 30"),
        mean_figure("settle_steps_mean", steps, "steps"),
    ]


def finetune_figures(
    played: Sequence[Played], max_slowdown: float, podgov_j: dict[str, float]
) -> list[Figure]:
    """The published curves. Savings are of the settled point, as the paper's are of a static one."""
    names = [each.job.name for each in played]
    regrets = by_job(names, [measures.settled_regret(each, max_slowdown) for each in played])
    excess = by_job(names, [measures.job_excess(each, max_slowdown) for each in played])
    against = {"podgov_simulated": [], "podgov_published": [], "pinned_max": []}
    for each in played:
        segment = each.job.segments[0]
        top = segment.at[max(segment.points_hz)]
        settled_j = segment.costs(measures.settled(each).target).energy_j
        against["podgov_simulated"].append(100 * (1 - settled_j / segment.at[None].energy_j))
        against["pinned_max"].append(100 * (1 - settled_j / top.energy_j))
        if each.job.name in podgov_j:
            measured_j = settled_j * each.job.scale
            against["podgov_published"].append(100 * (1 - measured_j / podgov_j[each.job.name]))
    worst = Figure("finetune_regret_worst_percent", max(regrets), "%", len(regrets), bar="<= 0.5")
    found = [worst, mean_figure("finetune_job_excess_percent", excess)]
    for name, savings in against.items():
        if savings:
            of_jobs = by_job(names, savings)
            found.append(mean_figure(f"finetune_saving_{name}_mean_percent", of_jobs))
            best = f"finetune_saving_{name}_best_percent"
            found.append(Figure(best, max(of_jobs), "%", len(of_jobs)))
    for name, percent in PAPER_SAVINGS.items():
        found.append(Figure(f"paper_saving_podgov_{name}_percent", percent, "%", 1))
    return found


def budget_figures(played: dict[float, list[Played]]) -> list[Figure]:
    """Slowdown budgets: how often they are exceeded, and how much of the oracle's saving is had."""
    over, over_whole, ours, oracles = [], [], [], []
    found = []
    for budget, jobs in played.items():
        settled = [measures.settled(each) for each in jobs]
        steady = [
            measures.slowdown(each, where.step, governed=True)
            for each, where in zip(jobs, settled, strict=True)
        ]
        whole = [measures.slowdown(each, 0, governed=False) for each in jobs]
        over += [slowdown > budget + measures.TOLERANCE for slowdown in steady]
        over_whole += [slowdown > budget + measures.TOLERANCE for slowdown in whole]
        savings = [measures.saving(each, measures.podgov(each)) for each in jobs]
        best = [measures.oracle_saving(each, budget) for each in jobs]
        at = f"{100 * budget:.0f}_percent"
        violations = 100 * float(np.mean(over[-len(jobs) :]))
        found += [
            Figure(f"budget_violation_at_{at}", violations, "%", len(jobs)),
            Figure(f"budget_saving_share_at_{at}", _share(savings, best), "%", len(jobs)),
            mean_figure(f"budget_oracle_saving_at_{at}", best),
        ]
        ours, oracles = ours + savings, oracles + best
    n = len(over)
    share = Figure(
        "budget_saving_share_percent",
        _share(ours, oracles),
        "%",
        n,
        _interval(ours, oracles),
        ">= 90",
    )
    violation = mean_figure("budget_violation_percent", (100.0 * each for each in over), bar="<= 5")
    whole_job = mean_figure("budget_violation_whole_job_percent", (100.0 * w for w in over_whole))
    return [violation, whole_job, share, *found]


def _share(ours: Sequence[float], oracles: Sequence[float]) -> float:
    return float(100 * sum(ours) / sum(oracles))


def _interval(ours: Sequence[float], oracles: Sequence[float]) -> tuple[float, float]:
    pairs = np.array([ours, oracles])
    picks = np.random.default_rng(0).integers(0, len(ours), (2000, len(ours)))
    sums = pairs[:, picks].sum(axis=2)
    low, high = np.quantile(100 * sums[0] / sums[1], (0.025, 0.975))
    return float(low), float(high)


def drift_figures(played: Sequence[Played], max_slowdown: float) -> list[Figure]:
    """After a batch change, an evaluation, heat, a cap that comes and a cap that goes."""
    drifts = [measures.after_drifts(each, max_slowdown) for each in played]
    regrets = [
        100 * (sum(drift.taken_j for drift in job) / sum(drift.best_j for drift in job) - 1)
        for job in drifts
    ]
    every = [drift for job in drifts for drift in job]
    epochs = [float(drift.epochs) for drift in every]
    points = [measures.held_regret(each, max_slowdown) for each in played]
    return [
        mean_figure("drift_regret_mean_percent", regrets, bar="<= 1"),
        mean_figure("drift_held_regret_mean_percent", points),
        quantile_figure("drift_resettle_epochs_p95", epochs, 0.95, "epochs", "<= 3"),
        mean_figure("drift_resettle_epochs_mean", epochs, "epochs"),
        Figure(
            "limit_cycles", float(sum(each.cycles for each in every)), "", len(every), bar="<= 0"
        ),
    ]


def thinking_figures(played: Sequence[Played]) -> list[Figure]:
    """How long one decision takes, from the window on, and a walk through the tree."""
    wall_ms, processor_ms = (1e3 * np.concatenate([each.think_s for each in played])).T
    window = played[0].epochs[0].window
    features = features_of(window, played[0].job.segments[0].points_hz[-1], 0.1)
    nodes = shipped_policy().nodes
    # The quickest of many: what the walk takes where nothing else has the processor.
    walks_s = repeat(lambda: walk(nodes, features), number=1000, repeat=30)
    return [
        quantile_figure("decide_ms_p99", wall_ms, 0.99, "ms", "<= 2"),
        quantile_figure("decide_processor_ms_p99", processor_ms, 0.99, "ms"),
        Figure("tree_walk_us", 1e3 * min(walks_s), "us", 30_000, bar="<= 5"),
    ]
