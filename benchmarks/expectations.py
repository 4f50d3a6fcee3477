"""How often the certificate on feature expectations is broken, and how much it promises.

    python benchmarks/expectations.py [--runs N]

Per episode and feature a mean in [0, 1] is drawn, for the expert and for the policy. The certificate is broken if at
any number of pairs its bounds leave out the truth of any feature; since the bounds are running ones, the last tell.
`loss` is the mean of what is promised, as a share of an episode; `true` is the largest true difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import _frame as frame
import numpy as np

from aceirl.certificates.expectations import certify_expectations

DELTA, FEATURES, PAIRS = 0.1, 2, 50

CASES: dict[str, tuple[float, Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]]] = {
    "rare events": (
        0.04,
        lambda rng, n: (
            (rng.random((n, FEATURES)) < 0.05).astype(float),
            (rng.random((n, FEATURES)) < 0.01).astype(float),
        ),
    ),
    "coins": (
        0.0,
        lambda rng, n: (
            (rng.random((n, FEATURES)) < 0.5).astype(float),
            (rng.random((n, FEATURES)) < 0.5).astype(float),
        ),
    ),
    "little variance": (
        0.05,
        lambda rng, n: (rng.uniform(0.5, 0.6, (n, FEATURES)), rng.uniform(0.45, 0.55, (n, FEATURES))),
    ),
}
"""By name: the largest true difference, and how pairs are drawn."""


def main(options: argparse.Namespace, report: frame.Report) -> None:
    """Every case."""
    table = report.table(
        "expectations",
        frame.Column("episodes"),
        frame.number("pairs"),
        frame.number("runs"),
        frame.number("broken", "{:.1%}"),
        frame.number("loss", "{:.3f}"),
        frame.number("true", "{:.3f}"),
        page="continuous-reward.md",
    )
    for case, (true, drawn) in CASES.items():
        rng, broken, promised = np.random.default_rng(list(CASES).index(case)), 0, 0.0
        for _ in range(options.runs):
            found = certify_expectations(*drawn(rng, PAIRS), DELTA, 1)
            broken += not bool((found.lower <= true).all() and (true <= found.upper).all())
            promised += found.loss
        table.add(case, PAIRS, options.runs, broken / options.runs, promised / options.runs, true)


if __name__ == "__main__":
    frame.start(main, __doc__, frame.argument("--runs", type=int, default=2000, part=True))
