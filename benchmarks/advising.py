"""What `aceirl advise` foretells, beside what the advised run takes.

    python benchmarks/advising.py [--seeds N]

Of each environment the seeds 1 to N, with which the rule was not chosen. A forecast that is not made is left out of the
median and counted in the last column; a run that its budget ended is counted with the budget.
"""

from __future__ import annotations

import argparse

import _frame as frame
import numpy as np

from aceirl.experts.tasks import Source, open_source
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.runs.advise import advise
from aceirl.runs.folder import settings_for

OURS = (
    "four-paths",
    "double-chain",
    "chain",
    "gridworld",
    "random-mdp",
    "deep-sea",
    "combination-lock",
    "rooms",
    "small-taxi",
    "frozen-lake",
)
GYMNASIUM = {"FrozenLake-v1": None, "CliffWalking-v1": 30, "Blackjack-v1": 5}
"""With the horizon, where they have no limit of their own."""


def sources(seed: int) -> list[Source]:
    """The environments, each with an expert."""
    asked = [
        Source(name, {}, seed, expert="optimal", stationary_expert=True, horizon=steps)
        for name, steps in GYMNASIUM.items()
    ]
    return [Source(name, {}, seed) for name in OURS] + asked


def taken(source: Source) -> tuple[int, int]:
    """The samples and answers of the run that is advised."""
    with open_source(source) as task:
        turns = learn(task.environment, task.expert, settings_for(task, Settings(seed=source.seed)))
        record = [turn.record for turn in turns][-1]
    return record.samples, record.answers


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """One row for each environment."""
    table = report.table(
        "advising",
        frame.Column("environment"),
        frame.number("samples foretold", "{:,.0f}"),
        frame.number("taken", "{:,.0f}"),
        frame.number("answers foretold", "{:,.0f}"),
        frame.number("given", "{:,.0f}"),
        frame.number("largest factor", "{:.1f}"),
        frame.Column("not foretold"),
        page="choosing.md",
    )
    for of_seeds in zip(*(sources(seed) for seed in range(1, options.seeds + 1)), strict=True):
        pairs = []
        for source in of_seeds:
            cost = advise(source).cost
            if cost is not None and cost.samples is not None and cost.answers is not None:
                pairs.append((cost.samples, cost.answers, *taken(source)))
        foretold, answers, samples, given = np.median(pairs, axis=0) if pairs else [None] * 4
        factor = max((max(one[0] / one[2], one[2] / one[0]) for one in pairs), default=None)
        silent = f"{len(of_seeds) - len(pairs)} of {len(of_seeds)}"
        table.add(of_seeds[0].environment, foretold, samples, answers, given, factor, silent)


if __name__ == "__main__":
    frame.start(measure, __doc__, frame.argument("--seeds", type=int, default=3))
