"""The arena's tables for the docs: who is first, and what each method spends in each task.

    python benchmarks/arena.py [--seeds N] [--jobs N] [--runs FOLDER]

The same runs as `aceirl arena`; with its folder, those that it finished are not done again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import _frame as frame

from aceirl.bench.arena import ArenaResults, Overall, entries_of, overall, standing
from aceirl.bench.store import Store
from aceirl.bench.sweep import Processes, sweep

REFERENCE = "guided"
BEST = 6


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """One table of methods, one of tasks."""
    entries = entries_of(None, None, None, options.seeds)
    store = Store(options.runs / "runs")
    for progress in sweep(entries.cells, store, Processes(options.jobs)):
        if progress.failed:
            raise SystemExit(f"a run failed: {progress.outcome}")
    results = ArenaResults.read(entries.cells, store)
    methods(results, report)
    best(results, report)
    tasks(results, report)


def methods(results: ArenaResults, report: frame.Report) -> None:
    """The first table: every method over all tasks."""
    table = report.table(
        "arena",
        frame.Column("method"),
        frame.Column("source"),
        frame.number("rank by samples", "{:.1f}"),
        frame.number("by answers", "{:.1f}"),
        frame.number("among first by samples", "{}"),
        frame.number("by answers", "{}"),
        frame.number("learnt", "{:.0%}"),
        frame.number("claims broken", "{}"),
        frame.number("seconds a run", "{:.2f}"),
        page="arena.md",
    )
    for one in overall(results):
        name = f"`{one.method}`" + ("" if results.is_fair(one.method) else " (generative model)")
        among = [f"{first} of {one.tasks}" for first in one.among_first]
        table.add(name, one.source, *one.ranks, *among, one.learnt, _broken(one), one.seconds)


def best(results: ArenaResults, report: frame.Report) -> None:
    """The README's table: the best of those that are ranked."""
    table = report.table(
        "arena-best",
        frame.Column("method"),
        frame.Column("from"),
        frame.number("mean rank by samples", "{:.1f}"),
        frame.number("by answers", "{:.1f}"),
        frame.number("learnt", "{:.0%}"),
        frame.number("claims broken", "{}"),
        page="../README.md",
    )
    ranked = [one for one in overall(results) if results.is_fair(one.method)]
    for one in ranked[:BEST]:
        name = f"`{one.method}`" + (", the default" if one.method == REFERENCE else "")
        table.add(name, one.source, *one.ranks, one.learnt, _broken(one))


def _broken(one: Overall) -> str | None:
    claims = one.calibration
    return None if claims is None else f"{claims.broken} of {claims.claimed}"


def tasks(results: ArenaResults, report: frame.Report) -> None:
    """What the reference spends to transfer in every task, and who is first."""
    table = report.table(
        "arena-tasks",
        frame.Column("task"),
        *(
            column
            for unit in ("samples", "answers")
            for column in (
                frame.number(f"{unit}, `{REFERENCE}`", "{}"),
                frame.number("first", "{}"),
                frame.Column("who"),
            )
        ),
        page="arena.md",
    )
    for task in results.tasks:
        found = [standing(results, task, REFERENCE, "transfer", unit) for unit in ("samples", "answers")]
        table.add(task, *(cell for one in found if one is not None for cell in (one.own, one.best, f"`{one.first}`")))


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=50),
        frame.argument("--jobs", type=int, default=2, help="processes"),
        frame.argument("--runs", type=Path, default=Path("arena"), help="folder of `aceirl arena`"),
    )
