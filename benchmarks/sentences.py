"""What is said of a wish, in families of tasks drawn at random: how often it is true, and how often anything is said.

    python benchmarks/sentences.py [--goal] [--runs N] [--first SEED] [--only FAMILY ...] [--keep FILE] [--docs]
    python benchmarks/sentences.py --fields [--runs N] [--first SEED] [--only FAMILY ...] [--keep FILE] [--docs]

A default run for each seed, and what `result.wish` says at its end; with `--goal` a run that stops when the wish is
known, or after 20,000 samples. A bold sentence is right if all that it names is true, a set if one of what it names is.
Seeds below 10,000 were looked at while thresholds were chosen; the default ones were not. "Bounded" is whether at most
one run in twenty ends in a false bold sentence, and at least 19 of 20 sets hold the truth, by one-sided tests at 1e-3;
"broken" is how many runs stopped on a certificate of the wish, which is false with a probability of at most 0.1, and
false. With `--keep` finished runs are kept in a file, and a later call goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np
from joblib import Parallel, delayed
from scipy.stats import binomtest

from aceirl import ActiveIRL
from studies.families import FAMILIES, FRESH, case
from studies.field_families import FIELD_FAMILIES, FieldEnv, field_case
from studies.kept import Kept

LEVEL = 1e-3
"""A share that is too high by luck fails its test this rarely."""

DELTA = 0.1
"""How often a certificate of the wish may be false."""

MOST_SAMPLES = 20_000
"""A run that shall know the wish ends at the latest after so many."""


def measure(options: argparse.Namespace, report: frame.Report) -> int:
    """All families; the exit status is 1 if a family is not bounded."""
    columns = (
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
    )
    bounds = frame.Column("bounded", lambda bounded: "yes" if bounded else "**no**")
    if options.fields:
        table = report.table("field-wishes", *columns, bounds, page="fields.md")
    elif options.goal:
        table = report.table("known-wishes", *columns, frame.number("stopped"), frame.number("broken"), bounds)
    else:
        table = report.table("wishes", *columns, bounds, page="sentences.md")
    kept = Kept(options.keep)
    failed = 0
    settings = {"certify": "goal", "max_samples": MOST_SAMPLES} if options.goal else {}
    families = options.only or [*(OF_FIELDS if options.fields else FAMILIES)]
    for family in families:
        seeds = range(options.first, options.first + options.runs)
        todo = [seed for seed in seeds if (family, seed) not in kept.runs]
        for run in Parallel(n_jobs=-1, return_as="generator")(delayed(_run)(family, seed, settings) for seed in todo):
            kept.add(run)
        runs = [kept.runs[family, seed] for seed in seeds]
        counted = {(kind, true): _count(runs, kind, true) for kind in ("bold", "set") for true in (True, False)}
        sets = counted["set", True] + counted["set", False]
        bounded = binomtest(counted["bold", False], len(runs), 0.05, "greater").pvalue > LEVEL
        bounded &= not sets or binomtest(counted["set", False], sets, 0.05, "greater").pvalue > LEVEL
        spoken = sum(counted.values())
        samples, answers = (float(np.median([run[name] for run in runs])) for name in ("samples", "answers"))
        row: list[Any] = [
            family,
            len(runs),
            *counted.values(),
            len(runs) - spoken,
            spoken / len(runs),
            samples,
            answers,
        ]
        if options.goal:
            stopped = [run for run in runs if run["stopped"] == "certificate"]
            broken = sum(not run["true"] for run in stopped)
            row += [len(stopped), broken]
            bounded &= not stopped or binomtest(broken, len(stopped), DELTA, "greater").pvalue > LEVEL
        failed += not bounded
        table.add(*row, bounded)
    bold = [sum(row[column] for row in table.rows) for column in (2, 3)]
    print(f"\nOf {sum(bold):,} bold sentences {bold[1]:,} are false, {bold[1] / max(1, sum(bold)):.1%}.")
    return int(failed > 0)


def _count(runs: list[dict[str, Any]], kind: str, true: bool) -> int:
    return sum(run["kind"] == kind and run["true"] == true for run in runs)


def _run(family: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """One run, and what it says."""
    if family in OF_FIELDS:
        return _run_of_fields(family, seed)
    drawn = case(family, seed)
    result = drawn.fitted(ActiveIRL(seed=seed, **settings))
    wish = result.wish
    named = drawn.claims(wish)
    return {
        "family": family,
        "seed": seed,
        "kind": wish.kind,
        "true": drawn.holds(wish.kind, named),
        "named": named,
        "evidence": wish.evidence,
        "samples": result.samples,
        "answers": result.answers,
        "stopped": result.stopped,
    }


SPARING = {"strategy": "sparing", "irl": None, "certify": None, "max_answers": 40, "max_samples": MOST_SAMPLES}

OF_FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{name}, {how}": (name, settings)
    for how, settings in (("40 answers", SPARING), ("default run", {"max_samples": MOST_SAMPLES}))
    for name in FIELD_FAMILIES
}
"""By name: a family whose observations have fields, and how it is learned."""


def _run_of_fields(family: str, seed: int) -> dict[str, Any]:
    name, settings = OF_FIELDS[family]
    drawn = field_case(name, seed)
    result = ActiveIRL(seed=seed, **settings).fit(FieldEnv(drawn), drawn.expert, horizon=drawn.horizon)
    table, kind = result.turn.belief.telling_fields, result.wish.kind
    assert table is not None
    return {
        "family": family,
        "seed": seed,
        "kind": kind,
        "true": kind != "open" and drawn.holds(result.turn.wish, table),
        "named": [(one.claim.what, one.words or one.claim.where) for one in result.turn.wish.named],
        "evidence": result.wish.evidence,
        "samples": result.samples,
        "answers": result.answers,
        "stopped": result.stopped,
    }


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--fields", action="store_true", help="families whose observations have fields"),
        frame.argument("--goal", action="store_true", help="stop when the wish is known"),
        frame.argument("--runs", type=int, default=200),
        frame.argument("--first", type=int, default=FRESH, help="the first seed"),
        frame.argument("--only", nargs="+", part=True, choices=[*FAMILIES, *OF_FIELDS], metavar="FAMILY"),
        frame.argument("--keep", type=Path, metavar="FILE", help="where finished runs are kept"),
    )
