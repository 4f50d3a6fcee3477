"""What planning elsewhere loses with a recovered reward, and with what else might be taken there.

    python benchmarks/transfer.py [--seeds N] [--jobs N] [--runs FOLDER]

The same runs as `aceirl reproduce transfer`; with its folder, those that it finished are not done again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import _frame as frame

from aceirl.bench.experiments import ExperimentResults, transfer_loss
from aceirl.bench.paper import SPECS
from aceirl.bench.statistics import Summary
from aceirl.bench.store import Store
from aceirl.bench.sweep import Processes, sweep
from aceirl.bench.transfers import ELSEWHERE

STRATEGY = "guided"  # the default, whose rivals are shown
RIVALS = {"reward": "recovered reward", "any": "`any` reward", "point": "plain point", "answers": "copying"}


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """One table for the strategies, one for the rivals, one for the targets."""
    spec = SPECS["transfer"].with_seeds(options.seeds)
    store = Store(options.runs / "runs")
    for progress in sweep(spec.cells(), store, Processes(options.jobs)):
        if progress.failed:
            raise SystemExit(f"a run failed: {progress.outcome}")
    results = ExperimentResults.read(spec, store)

    strategies = report.table(
        "transfer-strategies",
        frame.Column(""),
        *(frame.number(strategy, lost) for strategy in spec.strategies),
        page="transfer.md",
    )
    for scenario in spec.scenarios:
        found = [transfer_loss(results.of(scenario.name, strategy), "reward") for strategy in spec.strategies]
        strategies.add(scenario.title, *found)

    rivals = report.table(
        "transfer-rivals",
        frame.Column(f"`{STRATEGY}`"),
        *(frame.number(name, lost) for name in RIVALS.values()),
        frame.number("entropy, all known", lost),
        page="transfer.md",
    )
    for scenario in spec.scenarios:
        if scenario.transfer == "estimated":
            runs = results.of(scenario.name, STRATEGY)
            known = next(one for one in spec.scenarios if one.family == scenario.family and one.transfer == "known")
            entropy = transfer_loss(results.of(known.name, STRATEGY), "occupancy")
            rivals.add(scenario.title, *(transfer_loss(runs, plan) for plan in RIVALS), entropy)

    there = [name for scenario in spec.scenarios for name in ELSEWHERE[scenario.environment]]
    names = list(dict.fromkeys(["every start", *there]))
    targets = report.table(
        "transfer-targets",
        frame.Column(f"`{STRATEGY}`"),
        *(frame.number(name, lost) for name in names),
        page="transfer.md",
    )
    for scenario in spec.scenarios:
        runs = results.of(scenario.name, STRATEGY)
        targets.add(scenario.title, *(transfer_loss(runs, "reward", name) for name in names))


def lost(loss: Summary) -> str:
    """A mean and its interval."""
    return "{:.3f} ({:.3f}–{:.3f})".format(loss.mean, *loss.interval)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=50),
        frame.argument("--jobs", type=int, default=2, help="processes"),
        frame.argument("--runs", type=Path, default=Path("reproduction"), help="folder of `aceirl reproduce`"),
    )
