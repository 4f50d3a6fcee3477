"""The page of an arena: tables, curves and ranks in a single file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aceirl import files
from aceirl.arena.analysis import (
    GOALS,
    LEAST_PAIRS,
    REFERENCE,
    UNITS,
    Comparison,
    Goal,
    Overall,
    Ranking,
    Results,
    Spent,
    Standing,
    Unit,
    against_reference,
    against_store,
    calibration,
    got_there,
    is_fair,
    overall,
    ranking,
    standing,
)
from aceirl.arena.entries import Entries
from aceirl.arena.measure import REGRET
from aceirl.experiments.analysis import mean_curve
from aceirl.experiments.report import Gallery, Written, page_colours, versions
from aceirl.experiments.store import Store
from aceirl.show import plots

PAGE = "arena.html"
NAMED_CURVES = 6
"""How many methods, besides the reference, have a colour in the curves; the others are grey."""

GOAL_WORDS: dict[Goal, str] = {
    "transfer": f"transfer regret {REGRET:g}",
    "policy": f"policy regret {REGRET:g}",
    "certificate": "a certificate",
}
AXES = {"states": "states S", "actions": "actions A", "horizon": "steps H"}


@dataclass(frozen=True)
class Entry:
    """One cell of a table, and whether it is among the best without a generative model."""

    method: str
    spent: Spent | None
    best: bool


@dataclass(frozen=True)
class Table:
    """What every method spent in every task to reach a goal."""

    goal: Goal
    unit: Unit
    rows: list[tuple[str, list[Entry]]]

    @property
    def title(self) -> str:
        """Its heading."""
        return f"{self.unit.capitalize()} to {GOAL_WORDS[self.goal]}"


@dataclass(frozen=True)
class Tested:
    """Comparisons with the reference, or with another store, of one goal."""

    goal: Goal
    unit: Unit
    rows: list[tuple[str, list[Comparison | None]]]

    @property
    def title(self) -> str:
        """Its heading."""
        return f"{self.unit.capitalize()} to {GOAL_WORDS[self.goal]}"


def write_page(entries: Entries, store: Store, out: Path, *, command: str, before: Results | None = None) -> Written:
    """Write `arena.html`, its figures under `figures/`, and `results.parquet` with a row for each run."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, select_autoescape

    results = Results.read(entries.cells, store)
    tables = [table_of(results, goal, unit) for goal in GOALS for unit in UNITS]
    first = overall(results)
    with files.disk(out, "all runs are kept"):
        gallery = Gallery(out / "figures")
        ranks = [(unit, ranking(results, "transfer", unit)) for unit in UNITS]
        environment = Environment(
            loader=ChoiceLoader([PackageLoader("aceirl.arena"), PackageLoader("aceirl.experiments")]),
            autoescape=select_autoescape(),
            trim_blocks=True,
            lstrip_blocks=True,
        )
        page = environment.get_template("arena.html").render(
            results=results,
            methods=entries.methods,
            first=first,
            tables=tables,
            diagrams=[(unit, found, diagram(found, unit)) for unit, found in ranks if found is not None],
            missed=missed(results),
            paired="" if before is None else paired(results, before),
            least_pairs=LEAST_PAIRS,
            tested=[tested(results, goal, unit, None) for goal in GOALS for unit in UNITS],
            versions_tested=[] if before is None else [tested(results, g, u, before) for g in GOALS for u in UNITS],
            panels=curve_panels(results, first, gallery),
            scaling=scaling_panels(results, first, gallery),
            colours_of=named_colours(first),
            calibrated=calibration(results),
            left_out=entries.left_out,
            seeds=entries.seeds,
            regret=REGRET,
            reference=REFERENCE,
            goal_words=GOAL_WORDS,
            generative=[method for method in results.methods if not is_fair(results, method)],
            seconds=sum(run.seconds for run in results.runs),
            censored=sum(run.transfer_samples is None for run in results.runs),
            versions=versions(),
            command=command,
            colours=page_colours(),
            ramp=plots.RAMP,
        )
        results.write(out)
        path = out / PAGE
        files.replace(path, page.encode())
    return Written(path, lines(results, first, before))


def table_of(results: Results, goal: Goal, unit: Unit) -> Table:
    """The means of all methods in all tasks, with the best marked: all within its standard error, as the paper does."""
    rows = []
    for task in results.tasks:
        found = {method: results.summary(task, method, goal, unit) for method in results.methods}
        fair = [one.mean for method, one in found.items() if one is not None and is_fair(results, method)]
        best = min(fair, key=lambda mean: mean.mean, default=None)
        limit = -np.inf if best is None else best.mean + best.error
        first = {
            method
            for method, one in found.items()
            if one is not None and is_fair(results, method) and got_there(one.mean) and one.mean.mean <= limit
        }
        entries = [Entry(method, one, method in first) for method, one in found.items()]
        rows.append((task, entries))
    return Table(goal, unit, rows)


def missed(results: Results) -> list[Standing]:
    """Where others get to transfer, and the reference is neither first nor within one standard error of first."""
    if REFERENCE not in results.methods:
        return []
    found = [standing(results, task, REFERENCE, "transfer", unit) for unit in UNITS for task in results.tasks]
    return [one for one in found if one is not None and got_there(one.best) and not one.holds]


def tested(results: Results, goal: Goal, unit: Unit, before: Results | None) -> Tested:
    """Every method against the reference or, if there is another store, against itself there."""
    found = against_reference(results, goal, unit) if before is None else against_store(results, before, goal, unit)
    by_place = {(one.task, one.method): one for one in found}
    methods = [method for method in results.methods if any(one.method == method for one in found)]
    rows = [(method, [by_place.get((task, method)) for task in results.tasks]) for method in methods]
    return Tested(goal, unit, rows)


def named_colours(first: Sequence[Overall]) -> dict[str, str]:
    """The reference and the best others, each with a colour."""
    palette = [
        colour for name, colour in plots.STRATEGY_COLOURS.items() if name not in ("ace-rf", "rf-ucrl", REFERENCE)
    ]
    others = [one.method for one in first if one.method != REFERENCE and one.ranks[0] is not None][:NAMED_CURVES]
    colours = dict(zip(others, palette, strict=False))
    return {REFERENCE: plots.STRATEGY_COLOURS[REFERENCE], **colours}


def curve_panels(results: Results, first: Sequence[Overall], gallery: Gallery) -> list[str]:
    """Mean transfer regret over samples, a panel for each task."""
    colours, panels = named_colours(first), []
    for task in results.tasks:
        curves: dict[str, plots.Band] = {}
        for method in results.methods:
            runs = [(samples, regret) for samples, _, regret in results.series.get((task, method), ())]
            if runs and is_fair(results, method):
                found = mean_curve(runs)
                curves[method] = found.samples, found.mean, found.low, found.high
        shown = {name: band for name, band in curves.items() if name in colours}
        label = f"Mean transfer regret over samples, {task}: {', '.join(shown)} in colour, the others in grey"
        figures = [
            plots.regret_curves(curves, task, REGRET, legend=legend, colours=colours) for legend in (True, False)
        ]
        panels.append(gallery.add(f"transfer-{task}", label, *figures))
    return panels


def scaling_panels(results: Results, first: Sequence[Overall], gallery: Gallery) -> list[str]:
    """Samples to transfer over a size, where at least three tasks of a family differ in that size alone."""
    colours, panels = named_colours(first), []
    sizes = {run.task: (run.states, run.actions, run.horizon) for run in results.runs if run.expert == "optimal"}
    families = {run.task: run.family for run in results.runs}
    for axis, words in enumerate(AXES.values()):
        groups: dict[tuple[object, ...], dict[int, str]] = {}
        for task, size in sizes.items():
            rest = (families[task], *size[:axis], *size[axis + 1 :])
            groups.setdefault(rest, {})[size[axis]] = task
        for (family, *_), tasks in groups.items():
            if len(tasks) >= 3:
                needed = _needed(results, dict(sorted(tasks.items())))
                title = f"{family}, {words}"
                figures = [
                    plots.threshold_curves(needed, title, legend=legend, colours=colours, over=words)
                    for legend in (True, False)
                ]
                label = f"Samples to {GOAL_WORDS['transfer']} over {words}, {family}"
                panels.append(gallery.add(f"scaling-{family}-{words[-1]}", label, *figures))
    return panels


def _needed(results: Results, tasks: dict[int, str]) -> dict[str, plots.Band]:
    """The samples to transfer by method over a size; no point where half of the runs or more did not get there."""
    found: dict[str, plots.Band] = {}
    for method in results.methods:
        if is_fair(results, method):
            every = [(size, results.summary(task, method, "transfer", "samples")) for size, task in tasks.items()]
            known = [(size, one) for size, one in every if one is not None and one.median is not None]
            if known:
                x = np.array([float(size) for size, _ in known])
                bands = [[one.median or 0.0, one.median_low, one.median_high] for _, one in known]
                found[method] = (x, *np.array(bands).T)
    return found


ROW, WIDTH, MARGIN = 22, 720, 210


def diagram(found: Ranking, unit: Unit) -> str:
    """Demšar's diagram as SVG: mean ranks on a line, and bars over methods that are not told apart."""
    n = len(found.methods)
    left, right = MARGIN, WIDTH - MARGIN
    bars, half = found.groups, (n + 1) // 2
    axis = 46 + 9 * len(bars)

    def x(rank: float) -> float:
        return left + (rank - 1) / (n - 1) * (right - left)

    parts = [f'<line x1="{left}" y1="{axis}" x2="{right}" y2="{axis}" class="axis"/>']
    for tick in range(1, n + 1):
        parts.append(f'<line x1="{x(tick):.1f}" y1="{axis - 5}" x2="{x(tick):.1f}" y2="{axis}" class="axis"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{axis - 9}" class="tick">{tick}</text>')
    end = x(1 + min(found.difference, n - 1))
    parts.append(f'<path d="M{left} 10v8M{left} 14H{end:.1f}M{end:.1f} 10v8" class="axis"/>')
    parts.append(f'<text x="{end + 8:.1f}" y="18" class="name">critical difference {found.difference:.2f}</text>')
    for i, (method, rank) in enumerate(zip(found.methods, found.mean.tolist(), strict=True)):
        on_left = i < half
        y = axis + 18 + ROW * (i if on_left else n - 1 - i)
        edge, anchor = (left - 12, "end") if on_left else (right + 12, "start")
        parts.append(f'<path d="M{x(rank):.1f} {axis}V{y}H{edge}" class="stem"/>')
        strong = " strong" if method == REFERENCE else ""
        parts.append(
            f'<text x="{edge + (-6 if on_left else 6)}" y="{y + 4}" text-anchor="{anchor}" class="name{strong}">'
            f"{method} ({rank:.2f})</text>"
        )
    for i, (start, stop) in enumerate(bars):
        y = axis + 5 + 5 * i
        ends = x(found.mean[start]) - 4, x(found.mean[stop]) + 4
        parts.append(f'<line x1="{ends[0]:.1f}" y1="{y}" x2="{ends[1]:.1f}" y2="{y}" class="bar"/>')
    height = axis + 30 + ROW * half
    label = f"Mean ranks by {unit}: " + ", ".join(
        f"{method} {rank:.2f}" for method, rank in zip(found.methods, found.mean.tolist(), strict=True)
    )
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}" class="ranks">{"".join(parts)}</svg>'


def lines(results: Results, first: Sequence[Overall], before: Results | None) -> list[str]:
    """The first table, and where the reference is not first, for a terminal; and what changed since another store."""
    if not first:
        return ["No run is finished."]
    width = max(len(one.method) for one in first)
    head = (
        f"{'method':{width}}  {'rank by samples':>15}  {'by answers':>10}  {'among first':>12}  {'learnt':>6}  seconds"
    )
    n_tasks = max(one.tasks for one in first)
    tasks = f"{n_tasks} task{'s' if n_tasks > 1 else ''}"
    found = ["", f"To {GOAL_WORDS['transfer']}, {tasks}", head]
    for one in first:
        ranks = [f"{rank:.2f}" if rank is not None else "–" for rank in one.ranks]
        among = f"{one.among_first[0]}, {one.among_first[1]} of {one.tasks}"
        learnt = "–" if one.learnt is None else f"{one.learnt:.0%}"
        seconds = "–" if one.seconds is None else f"{one.seconds:.2f}"
        row = f"{one.method:{width}}  {ranks[0]:>15}  {ranks[1]:>10}  {among:>12}  {learnt:>6}  {seconds:>7}"
        row += "" if is_fair(results, one.method) else "  (generative model)"
        found.append(row + (f"  ({one.failed} runs failed)" if one.failed else ""))
    found += [
        f"{REFERENCE} is not first by {late.unit} in {late.task}: {late.own} against {late.best} of {late.first}"
        for late in missed(results)
    ]
    if before is not None:
        found += against_lines(results, before)
    return [*found, ""]


def paired(results: Results, before: Results) -> str:
    """A sentence about how many runs have one to be compared with in another store."""
    if not set(results.methods) & set(before.methods):
        names = ", ".join(before.methods) or "none"
        return f"Nothing is compared: no method has the name of one in the other arena, which has {names}."
    pairs = [one.pairs for one in against_store(results, before, "transfer", "samples")]
    if not pairs:
        return "Nothing is compared: no method has the same task and two seeds in both arenas."
    return f"Compared with the other arena: {sum(pairs):,} pairs of runs with the same method, task and seed."


def against_lines(results: Results, before: Results) -> list[str]:
    """What changed since another store, for a terminal."""
    found = [paired(results, before)]
    for unit in UNITS:
        every = against_store(results, before, "transfer", unit)
        able = [one for one in every if not one.too_few]
        changed = [one for one in able if one.differs]
        found += [f"{one.method} in {one.task}: {one.ratio:.2f} times the {unit} of before" for one in changed]
        if able and not changed:
            found.append(f"No method needs more or fewer {unit} than before, at the 5 % level.")
        if len(able) < len(every):
            where = ", ".join(f"{one.method} in {one.task}" for one in every if one.too_few)
            found.append(f"Too few seeds to tell by {unit} (at least {LEAST_PAIRS} are needed): {where}")
    return found
