"""The page of an arena: tables, curves and ranks in a single file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from aceirl.bench import page
from aceirl.bench.arena import (
    GOALS,
    LEAST_PAIRS,
    REFERENCE,
    UNITS,
    ArenaResults,
    Entries,
    Goal,
    Overall,
    PairedComparison,
    Standing,
    Unit,
    against,
    calibration,
    overall,
    ranking,
    standing,
)
from aceirl.bench.measure import REGRET
from aceirl.bench.page import Gallery, TableCell, Written
from aceirl.bench.statistics import Ranking, best_of, mean_curve
from aceirl.bench.store import Store
from aceirl.explain import plots
from aceirl.runs import files

PAGE = "arena.html"
NAMED_CURVES = 6
"""How many methods, besides the reference, have a colour in the curves; the others are grey."""

GOAL_WORDS: dict[Goal, str] = {
    "transfer": f"transfer regret {REGRET:g}",
    "policy": f"policy regret {REGRET:g}",
    "certificate": "a certificate",
}
AXES = ("states S", "actions A", "steps H")
EVERY = tuple(product(GOALS, UNITS))


class Tested(NamedTuple):
    """Comparisons of one goal with the reference, or with another store: a row for each method, a cell for each task.

    `title` is the heading.
    """

    title: str
    rows: list[tuple[str, list[PairedComparison | None]]]


def write_page(
    entries: Entries, store: Store, out: Path, *, command: str, before: ArenaResults | None = None
) -> Written:
    """Write `arena.html`, its figures under `figures/`, and `results.parquet` with a row for each run."""
    results = ArenaResults.read(entries.cells, store)
    first = overall(results)
    with files.disk(out, "all runs are kept"):
        gallery = Gallery(out / "figures")
        ranks = [(unit, ranking(results, "transfer", unit)) for unit in UNITS]
        page.write(
            out / PAGE,
            results=results,
            methods=entries.methods,
            first=first,
            tables=[(title_of(goal, unit), table_of(results, goal, unit)) for goal, unit in EVERY],
            diagrams=[(unit, found, diagram(found, unit)) for unit, found in ranks if found is not None],
            missed=missed(results),
            paired="" if before is None else paired(results, before),
            least_pairs=LEAST_PAIRS,
            tested=[tested(results, goal, unit, None) for goal, unit in EVERY],
            versions_tested=[] if before is None else [tested(results, goal, unit, before) for goal, unit in EVERY],
            panels=curve_panels(results, first, gallery),
            scaling=scaling_panels(results, first, gallery),
            colours_of=named_colours(first),
            calibrated=calibration(results),
            left_out=entries.left_out,
            seeds=entries.seeds,
            regret=REGRET,
            reference=REFERENCE,
            generative=[method for method in results.methods if not results.is_fair(method)],
            seconds=sum(run.seconds for run in results.runs),
            censored=sum(run.transfer_samples is None for run in results.runs),
            command=command,
        )
        results.write(out)
    return Written(out / PAGE, lines(results, first, before))


def title_of(goal: Goal, unit: Unit) -> str:
    """The heading of a table."""
    return f"{unit.capitalize()} to {GOAL_WORDS[goal]}"


def table_of(results: ArenaResults, goal: Goal, unit: Unit) -> list[tuple[str, list[TableCell]]]:
    """The means of all methods in every task; the best are all within its standard error, as in the paper."""
    rows = []
    for task in results.tasks:
        fair = results.summaries(task, results.walking, goal, unit)
        best = {method for method in best_of(fair)[1] if fair[method].reached} if fair else set()
        spent = {method: results.summary(task, method, goal, unit) for method in results.methods}
        rows.append((task, [TableCell(method, one, method in best) for method, one in spent.items()]))
    return rows


def missed(results: ArenaResults) -> list[Standing]:
    """Where others get to transfer, and the reference is neither first nor within one standard error of first."""
    if REFERENCE not in results.methods:
        return []
    found = [standing(results, task, REFERENCE, "transfer", unit) for unit in UNITS for task in results.tasks]
    return [one for one in found if one is not None and one.best.reached and not one.holds]


def tested(results: ArenaResults, goal: Goal, unit: Unit, before: ArenaResults | None) -> Tested:
    """Every method against the reference or, if there is another store, against itself there."""
    by_place = {(one.task, one.method): one for one in against(results, goal, unit, before)}
    methods = [method for method in results.methods if any(method == other for _, other in by_place)]
    rows = [(method, [by_place.get((task, method)) for task in results.tasks]) for method in methods]
    return Tested(title_of(goal, unit), rows)


def named_colours(first: Sequence[Overall]) -> dict[str, str]:
    """The reference and the best others, each with a colour."""
    palette = [
        colour for name, colour in plots.STRATEGY_COLOURS.items() if name not in ("ace-rf", "rf-ucrl", REFERENCE)
    ]
    others = [one.method for one in first if one.method != REFERENCE and one.ranks[0] is not None][:NAMED_CURVES]
    colours = dict(zip(others, palette, strict=False))
    return {REFERENCE: plots.STRATEGY_COLOURS[REFERENCE], **colours}


def curve_panels(results: ArenaResults, first: Sequence[Overall], gallery: Gallery) -> list[str]:
    """Mean transfer regret over samples, a panel for each task."""
    colours, panels = named_colours(first), []
    for task in results.tasks:
        series = {method: results.series.get((task, method), ()) for method in results.walking}
        curves = {
            method: mean_curve([(samples, regret) for samples, _, regret in runs])
            for method, runs in series.items()
            if runs
        }
        shown = [name for name in curves if name in colours]
        label = f"Mean transfer regret over samples, {task}: {', '.join(shown)} in colour, the others in grey"
        panels.append(
            gallery.panel(f"transfer-{task}", label, plots.regret_curves, curves, task, REGRET, colours=colours)
        )
    return panels


def scaling_panels(results: ArenaResults, first: Sequence[Overall], gallery: Gallery) -> list[str]:
    """Samples to transfer over a size, where at least three tasks of a family differ in that size alone."""
    colours, panels = named_colours(first), []
    sizes = {run.task: (run.states, run.actions, run.horizon) for run in results.runs if run.expert == "optimal"}
    families = {run.task: run.family for run in results.runs}
    for axis, words in enumerate(AXES):
        groups: dict[tuple[object, ...], dict[int, str]] = {}
        for task, size in sizes.items():
            rest = (families[task], *size[:axis], *size[axis + 1 :])
            groups.setdefault(rest, {})[size[axis]] = task
        for (family, *_), tasks in groups.items():
            if len(tasks) >= 3:
                needed = _needed(results, dict(sorted(tasks.items())))
                name = f"scaling-{family}-{words[-1]}"
                label = f"Samples to {GOAL_WORDS['transfer']} over {words}, {family}"
                options = {"colours": colours, "over": words}
                panels.append(
                    gallery.panel(name, label, plots.threshold_curves, needed, f"{family}, {words}", **options)
                )
    return panels


def _needed(results: ArenaResults, tasks: dict[int, str]) -> dict[str, plots.Band]:
    """The samples to transfer by method over a size; no point where half of the runs or more did not get there."""
    found: dict[str, plots.Band] = {}
    for method in results.walking:
        every = [(size, results.summary(task, method, "transfer", "samples")) for size, task in tasks.items()]
        known = [
            (size, one.median, *one.median_interval)
            for size, one in every
            if one is not None and one.median is not None
        ]
        if known:
            x, median, low, high = np.array(known).T
            found[method] = x, median, low, high
    return found


def diagram(found: Ranking, unit: Unit) -> str:
    """Demšar's diagram as SVG: mean ranks on a line, and bars over methods that are not told apart."""
    return page.filled("ranks.html", found=found, unit=unit, reference=REFERENCE)


def lines(results: ArenaResults, first: Sequence[Overall], before: ArenaResults | None) -> list[str]:
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
        row += "" if results.is_fair(one.method) else "  (generative model)"
        found.append(row + (f"  ({one.failed} runs failed)" if one.failed else ""))
    found += [
        f"{REFERENCE} is not first by {late.unit} in {late.task}: {late.own} against {late.best} of {late.first}"
        for late in missed(results)
    ]
    if before is not None:
        found += against_lines(results, before)
    return [*found, ""]


def paired(results: ArenaResults, before: ArenaResults) -> str:
    """A sentence about how many runs have one to be compared with in another store."""
    if not set(results.methods) & set(before.methods):
        names = ", ".join(before.methods) or "none"
        return f"Nothing is compared: no method has the name of one in the other arena, which has {names}."
    pairs = [one.pairs for one in against(results, "transfer", "samples", before)]
    if not pairs:
        return "Nothing is compared: no method has the same task and two seeds in both arenas."
    return f"Compared with the other arena: {sum(pairs):,} pairs of runs with the same method, task and seed."


def against_lines(results: ArenaResults, before: ArenaResults) -> list[str]:
    """What changed since another store, for a terminal."""
    found = [paired(results, before)]
    for unit in UNITS:
        every = against(results, "transfer", unit, before)
        able = [one for one in every if not one.too_few]
        changed = [one for one in able if one.differs]
        found += [f"{one.method} in {one.task}: {one.ratio:.2f} times the {unit} of before" for one in changed]
        if able and not changed:
            found.append(f"No method needs more or fewer {unit} than before, at the 5 % level.")
        if len(able) < len(every):
            where = ", ".join(f"{one.method} in {one.task}" for one in every if one.too_few)
            found.append(f"Too few seeds to tell by {unit} (at least {LEAST_PAIRS} are needed): {where}")
    return found
