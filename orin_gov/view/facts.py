"""The facts of a run in words, for a report: what is not known is left out, never guessed."""

from collections.abc import Iterator, Mapping
from typing import Any

from orin_gov.policy.saving import LEAST_WINDOWS
from orin_gov.record.run import Run
from orin_gov.view.lines import UNTOLD, is_untold, megahertz
from orin_gov.view.plan import plan_words

Fact = tuple[str, str]
DASH = "–"


def number(value: float | None, unit: str = "", digits: int = 3) -> str:
    """Return a value with its unit and so many digits, or a dash; never as a power of ten."""
    if value is None or value != value:
        return DASH
    text = f"{value:.{digits}g}"
    return f"{float(text):,.10g}{unit and ' ' + unit}"


def duration(seconds: float | None) -> str:
    """Return seconds for people: 42.1 s, 3 min 20 s, 23 h 59 min."""
    if seconds is None:
        return DASH
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def energy(joules: float | None) -> str:
    """Return joules, from 10 kJ on in kJ and from 10 MJ on in MJ."""
    if joules is None:
        return DASH
    for scale, unit in ((1e6, "MJ"), (1e3, "kJ")):
        if abs(joules) >= 10 * scale:
            return number(joules / scale, unit)
    return number(joules, "J")


def change(found: Mapping[str, Any] | None) -> str:
    """Return a relative change with its interval."""
    if not found:
        return "no comparison"
    return f"{found['value']:+.1%} (95 %: {found['low']:+.1%} to {found['high']:+.1%})"


def headline(figures: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return label, value and remark of the figures that matter most."""
    per = f"per {figures.get('unit') or 'step'}, against the board's own governor in the same run"
    rows = []
    for label, key in (("Energy", "energy_change"), ("Time", "time_change")):
        found = figures.get(key)
        value = f"{found['value']:+.1%}" if found else "not compared"
        interval = (
            f"95 %: {found['low']:+.1%} to {found['high']:+.1%}" if found else _too_few(figures)
        )
        if found and is_untold(found):
            interval += UNTOLD
        budget = figures.get("max_slowdown")
        if label == "Time" and budget is not None:
            interval += f"; budget {budget:+.0%}"
        rows.append((label, value, f"{interval}; {per}" if found else interval))
    steps = figures.get("steps") or 0
    if steps:
        rows.append(
            (
                "A step",
                number(figures.get("step_energy_j"), "J"),
                f"{number(figures.get('step_time_s'), 's')}; {steps:,} steps, "
                f"{figures.get('steps_with_energy') or 0:,} of them with energy",
            )
        )
    whole_j = figures.get("steps_energy_j", figures.get("energy_j"))
    rows.append(("In all", energy(whole_j), f"{duration(figures.get('elapsed_s'))} of run"))
    return rows


def _too_few(figures: Mapping[str, Any]) -> str:
    governed, baseline = figures.get("windows_governed"), figures.get("windows_baseline")
    if governed is None or baseline is None:
        return "nothing was governed"
    if min(governed, baseline) >= LEAST_WINDOWS:
        return "not measured in enough of the windows that would be compared"
    return f"it takes {LEAST_WINDOWS} windows each; governed {governed}, baseline {baseline}"


def origin(run: Run) -> Fact | None:
    """Return what was virtual about a run, or where it comes from, as a kind and a sentence."""
    virtual = run.manifest.get("virtual")
    if virtual:
        return (
            "simulated",
            f"The board was virtual ({virtual}): watts, clocks and savings come from a simulated "
            "Jetson. The script, its steps and its losses were real; its phases were stretched to "
            "last as long as the virtual board says.",
        )
    if run.manifest.get("source"):
        return "imported", f"Imported from a log of {run.manifest['source']}: nothing was governed."
    if run.manifest and not run.manifest.get("governing", True):
        return "measured only", "Nothing was written to the board: the run was measured only."
    return None


def board_facts(run: Run) -> Iterator[Fact]:
    """Tell the board, its mode and the settings of the run."""
    manifest = run.manifest
    started = run.started
    yield "started", started.strftime("%Y-%m-%d %H:%M:%S %z") if started else "unknown"
    yield "board", str(manifest.get("board") or "unknown")
    if manifest.get("module"):
        yield "module", str(manifest["module"])
    if manifest.get("l4t"):
        pack = f" (JetPack {manifest['jetpack']})" if manifest.get("jetpack") else ""
        yield "release", f"L4T {manifest['l4t']}{pack}"
    yield from _condition_facts(manifest.get("conditions"), (run.summary or {}).get("conditions"))
    if run.total_rails:
        yield "module power", " + ".join(run.total_rails)
    elif run.rails:
        yield "module power", "not known: no table tells which rails make it up"
    objective = manifest.get("objective") or {}
    if objective:
        cap = objective.get("power_cap_w")
        limit = f", at most {cap:g} W" if cap else ""
        yield (
            "objective",
            f"{objective.get('name')}, {objective.get('max_slowdown', 0):.0%} slower at most{limit}",
        )
        if objective.get("steps"):
            yield "plan", plan_words(objective)
    if manifest.get("policy"):
        yield "policy", str(manifest["policy"].get("fitted_on") or "unknown")
    if manifest.get("argv"):
        yield "command", " ".join(map(str, manifest["argv"][1:]))
    yield "orin_gov", str(manifest.get("orin_gov") or "unknown version")


def _condition_facts(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Iterator[Fact]:
    before = before or {}
    if mode := before.get("power_mode"):
        cap = f", GPU to {megahertz(mode['gpu_max_hz'])}" if mode.get("gpu_max_hz") else ""
        yield "power mode", f"{mode.get('name') or 'unknown'} ({mode.get('number')}{cap})"
    if before.get("emc_rate_hz"):
        yield "memory clock", megahertz(before["emc_rate_hz"])
    hottest = [_hottest(each) for each in (before, after or {})]
    if hottest[0]:
        then = f", {hottest[1]} at the end" if hottest[1] else ""
        yield "hottest zone", f"{hottest[0]} at the start{then}"


def _hottest(conditions: Mapping[str, Any]) -> str | None:
    known = {k: v for k, v in (conditions.get("temperature_c") or {}).items() if v is not None}
    if not known:
        return None
    zone = max(known, key=lambda name: known[name])
    return f"{zone} {known[zone]:.1f} °C"


def quality_facts(figures: Mapping[str, Any]) -> Iterator[Fact]:
    """Tell how well the run was measured."""
    sampler = figures.get("sampler") or {}
    if sampler.get("rate_hz"):
        yield (
            "sampling",
            f"{sampler['rate_hz']:.0f} sweeps a second, {sampler.get('sweeps', 0):,} in all",
        )
    if sampler.get("time_constant_s") is not None:
        told = "phases can be told apart" if sampler.get("resolves_phases") else "phases cannot"
        yield "sensors", f"lag {sampler['time_constant_s'] * 1e3:.3g} ms; {told}"
    if figures.get("steps"):
        share = (figures.get("steps_with_energy") or 0) / figures["steps"]
        yield "steps with energy", f"{share:.1%}"
    if figures.get("dropped_marks") is not None:
        yield "phase marks lost", f"{figures['dropped_marks']:,}"
    if switch := figures.get("switch_s"):
        yield (
            "clock changes",
            f"{figures.get('frequency_changes')}; in force after {switch['p50'] * 1e3:.1f} ms "
            f"(median), {switch['p99'] * 1e3:.1f} ms (99 %)",
        )
    if figures.get("windows_disturbed"):
        yield (
            "left out of comparison",
            f"{figures['windows_disturbed']} windows: heat, over-current",
        )
    counts = {k: v for k, v in (figures.get("over_current_events") or {}).items() if v is not None}
    if counts:
        yield "over-current events", ", ".join(f"{name.upper()} {n}" for name, n in counts.items())
