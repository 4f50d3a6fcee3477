"""How often the two promises of a gated policy break, where both are known exactly.

    python benchmarks/gates.py [--runs N] [--jobs N]

The tasks (`studies/gates.py`) draw scores and errors of a classifier step by step, so that the loss and the asked share
of every gate have a closed form. A promise is *broken* if the truth is worse than it. ε is a tenth of an episode and δ
a tenth, half of it for each number.
"""

from __future__ import annotations

import argparse
import statistics

import _frame as frame
import numpy as np
from joblib import Parallel, delayed

from studies.gates import FAMILIES, promised


def runs_of(name: str, episodes: int, seeds: list[int]) -> list[tuple[float, float, float, bool, bool]]:
    """`(asks at most, asks, loses, loss broken, share broken)` of each run."""
    task, rows = FAMILIES[name], []
    for seed in seeds:
        found, loss, asks = promised(task, episodes, seed)
        truth = task.truth(found.threshold)
        rows.append((found.asks, truth[1], truth[0], loss, asks))
    return rows


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A row for each task and number of demonstrations."""
    table = report.table(
        "gates",
        frame.Column("simulated task"),
        frame.number("demonstrations"),
        frame.number("runs"),
        frame.number("asks at most", "{:.3f}"),
        frame.number("asks", "{:.3f}"),
        frame.number("loses", "{:.3f}"),
        frame.number("loss broken", "{:.1%}"),
        frame.number("share broken", "{:.1%}"),
        frame.number("either", "{:.1%}"),
        page="certificates.md",
    )
    for name in FAMILIES:
        for episodes in (100, 400):
            parts = np.array_split(np.arange(options.runs), 20)
            chunks = Parallel(options.jobs)(delayed(runs_of)(name, episodes, part.tolist()) for part in parts)
            rows = [row for chunk in chunks for row in chunk]
            means = [statistics.fmean(row[i] for row in rows) for i in range(5)]
            either = statistics.fmean(row[3] or row[4] for row in rows)
            table.add(name, episodes, len(rows), *means, either)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--runs", type=int, default=2_000),
        frame.argument("--jobs", type=int, default=1, help="processes"),
    )
