"""What is said of a wish, in families of tasks drawn at random: how often it is true, and how often anything is said.

    python benchmarks/sentences.py [--runs N] [--first SEED] [--only FAMILY ...] [--keep FILE] [--docs]

A default run for each seed, and what `result.wish` says at its end. A bold sentence is right if all that it names is
true, a set if one of what it names is. Seeds below 10,000 were looked at while thresholds were chosen; the default ones
were not. "Bounded" is whether at most one run in twenty ends in a false bold sentence, and at least 19 of 20 sets hold
the truth, by one-sided tests at 1e-3. With `--keep` finished runs are kept in a file, and a later call goes on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np
from joblib import Parallel, delayed
from scipy.stats import binomtest

from aceirl import ActiveIRL
from studies.families import FAMILIES, FRESH, case

LEVEL = 1e-3
"""A share that is too high by luck fails its test this rarely."""


def measure(options: argparse.Namespace, report: frame.Report) -> int:
    """All families; the exit status is 1 if a family is not bounded."""
    table = report.table(
        "wishes",
        frame.Column("family"),
        frame.number("runs"),
        frame.number("bold and right"),
        frame.number("bold and false"),
        frame.number("sets that hold"),
        frame.number("sets that do not"),
        frame.number("open"),
        frame.number("speaks", "{:.0%}"),
        frame.number("samples", "{:,.0f}"),
        frame.number("answers", "{:,.0f}"),
        frame.Column("bounded", lambda bounded: "yes" if bounded else "**no**"),
        page="sentences.md",
    )
    kept = _Kept(options.keep)
    failed = 0
    for family in options.only or FAMILIES:
        seeds = range(options.first, options.first + options.runs)
        todo = [seed for seed in seeds if (family, seed) not in kept.runs]
        for run in Parallel(n_jobs=-1, return_as="generator")(delayed(_run)(family, seed) for seed in todo):
            kept.add(run)
        runs = [kept.runs[family, seed] for seed in seeds]
        counted = {(kind, true): _count(runs, kind, true) for kind in ("bold", "set") for true in (True, False)}
        sets = counted["set", True] + counted["set", False]
        bounded = binomtest(counted["bold", False], len(runs), 0.05, "greater").pvalue > LEVEL
        bounded &= not sets or binomtest(counted["set", False], sets, 0.05, "greater").pvalue > LEVEL
        failed += not bounded
        spoken = sum(counted.values())
        samples, answers = (float(np.mean([run[name] for run in runs])) for name in ("samples", "answers"))
        table.add(
            family, len(runs), *counted.values(), len(runs) - spoken, spoken / len(runs), samples, answers, bounded
        )
    bold = [sum(row[column] for row in table.rows) for column in (2, 3)]
    print(f"\nOf {sum(bold):,} bold sentences {bold[1]:,} are false, {bold[1] / max(1, sum(bold)):.1%}.")
    return int(failed > 0)


def _count(runs: list[dict[str, Any]], kind: str, true: bool) -> int:
    return sum(run["kind"] == kind and run["true"] == true for run in runs)


def _run(family: str, seed: int) -> dict[str, Any]:
    """One run, and what it says."""
    drawn = case(family, seed)
    result = ActiveIRL(seed=seed).fit(drawn.problem)
    wish = result.wish
    named = [(one["what"], -1 if one["where"] is None else int(one["where"])) for one in wish.named]
    return {
        "family": family,
        "seed": seed,
        "kind": wish.kind,
        "true": drawn.holds(wish.kind, named),
        "named": named,
        "evidence": wish.evidence,
        "samples": result.samples,
        "answers": result.answers,
    }


class _Kept:
    """Finished runs by family and seed, in a file of JSON lines if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self.runs = {(run["family"], run["seed"]): run for run in map(json.loads, lines)}

    def add(self, run: dict[str, Any]) -> None:
        """One more."""
        self.runs[run["family"], run["seed"]] = run
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(run) + "\n")


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--runs", type=int, default=200),
        frame.argument("--first", type=int, default=FRESH, help="the first seed"),
        frame.argument("--only", nargs="+", part=True, choices=FAMILIES, metavar="FAMILY"),
        frame.argument("--keep", type=Path, metavar="FILE", help="where finished runs are kept"),
    )
