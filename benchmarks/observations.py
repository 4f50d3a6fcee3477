"""What becomes of `policy` where the expert sees more than the learner: bins and hidden state, by two rules.

    python benchmarks/observations.py [--seeds N] [--only NAME]

"Asked once" takes a state's first answer for all observations that fall into it; "asked everywhere", the default for
functions and models, counts an episode only as far as the policy did what the expert says at the observations really
met. A promise is broken if the policy and the expert, played in the same fresh episodes (200 or 2000), differ by more
than was certified, by six standard errors.
"""

from __future__ import annotations

import argparse

import _frame as frame
import numpy as np
from joblib import Parallel, delayed

from studies.observed import DEAR, OBSERVED, Price, observed_run
from studies.soundness import p_value

RULES = {"asked once": 0.0, "asked everywhere": 1.0}


def mean(values: list[float]) -> float | None:
    """None of none."""
    return float(np.mean(values)) if values else None


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """Every case by both rules; the one that is not the default, and what takes long, with a fifth of the runs."""
    table = report.table(
        "observations",
        frame.Column("environment and bins"),
        frame.Column("the expert is"),
        frame.number("runs"),
        frame.number("certified"),
        frame.number("broken"),
        frame.number("p", "{:.2g}"),
        frame.number("promised", "{:.3g}"),
        frame.number("lost", "{:.3g}"),
        frame.number("samples", "{:,.0f}"),
        frame.number("answers", "{:,.0f}"),
        frame.number("asked again", "{:,.0f}"),
        page="certificates.md",
    )
    for name in OBSERVED:
        if options.only and not any(text in name for text in options.only):
            continue
        for rule, ask_again in RULES.items():
            runs = options.seeds if ask_again and name not in DEAR else max(1, options.seeds // 5)
            found: list[Price] = Parallel(options.jobs)(
                delayed(observed_run)(name, seed, ask_again=ask_again) for seed in range(runs)
            )
            kept = [price for price in found if price.certified]
            broken = sum(price.broken for price in kept)
            table.add(
                name,
                rule,
                runs,
                len(kept),
                broken,
                p_value(broken, runs),
                mean([price.value for price in kept]),
                mean([price.loss for price in kept if price.loss is not None]),
                mean([float(price.samples) for price in found]),
                mean([float(price.answers) for price in found]),
                mean([float(price.asked_again) for price in found]),
            )


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=500),
        frame.argument("--jobs", type=int, default=2),
        frame.argument("--only", nargs="+", part=True, metavar="TEXT", help="only what has this in its name"),
    )
