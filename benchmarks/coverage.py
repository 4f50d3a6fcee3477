"""How often a certificate's promise is broken: the study of `studies/soundness.py`, as a table.

    python benchmarks/coverage.py [--runs N] [--workers N]

A run is one of each of the six cases.
"""

from __future__ import annotations

if __name__ != "__main__":
    raise ImportError("numba looks for the tool called coverage; this is not it")

import argparse

import _frame as frame

from studies.soundness import tallies


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """All promises with all radii."""
    table = report.table(
        "coverage",
        frame.Column("promise"),
        frame.Column("radii"),
        frame.Column("runs"),
        frame.Column("broken", lambda share: f"{share[0]} ({100 * share[0] / share[1]:.2g} %)"),
        frame.Column("most often", lambda share: f"{share[0]}: {100 * share[1] / share[2]:.2g} %"),
        frame.Column("p-value there", "{:.2g}"),
        frame.Column(""),
        page="certificates.md",
    )
    for tally in tallies(options.runs, options.workers):
        total, made = sum(tally.broken.values()), tally.runs * len(tally.broken)
        worst = tally.worst, tally.broken[tally.worst], tally.runs
        table.add(tally.promise, tally.family, made, (total, made), worst, tally.p_value, tally.verdict)


frame.start(
    measure,
    __doc__,
    frame.argument("--runs", type=int, default=400, help="of each of the six cases"),
    frame.argument("--workers", type=int, default=1, help="processes"),
)
