"""How many answers a person has to give in an interview, asked one by one and with all that saves them answers.

    python benchmarks/answers.py [--only Taxi ...] [--seeds N]

The person wants what the environment pays for. Asked one by one, they answer every situation on its own. Else they say
in which other situations the same holds, and approve of episodes that were walked on guesses; either is one answer.
`regret` is what the policy loses by the environment's own reward; `answers to it` is how many were needed until it lost
no more than after all the answers one by one.
"""

from __future__ import annotations

import argparse
import statistics

import _frame as frame

from aceirl.experts.tasks import Source
from studies.interviewees import Moment, interviewed

ENVIRONMENTS: dict[str, tuple[str, int | None]] = {
    "Four Paths": ("four-paths", None),
    "Double Chain": ("double-chain", None),
    "Chain": ("chain", None),
    "Gridworld": ("gridworld", None),
    "FrozenLake": ("FrozenLake-v1", None),
    "CliffWalking": ("CliffWalking-v1", 50),
    "Taxi": ("Taxi-v4", None),
    "Blackjack": ("Blackjack-v1", 12),
}

# Regrets that differ by less are the same.
EQUAL = 1e-6


def needed(moments: list[Moment], regret: float) -> int | None:
    """The answers after which the policy never lost more than that; None if it did at the end."""
    enough = None
    for moment in moments:
        if moment.regret > regret + EQUAL:
            enough = None
        elif enough is None:
            enough = moment.answers
    return enough


def main(options: argparse.Namespace, report: frame.Report) -> None:
    """Every person is interviewed twice."""
    table = report.table(
        "answers",
        frame.Column("environment"),
        frame.number("one by one: answers", "{:.0f}"),
        frame.number("regret", "{:.4f}"),
        frame.number("now: answers to it", "{:.0f}"),
        frame.number("answers to the end", "{:.0f}"),
        frame.number("situations", "{:.0f}"),
        frame.number("regret", "{:.4f}"),
        frame.number("certified, before and now", "{}"),
        page="interview.md",
    )
    for name in options.only:
        environment, horizon = ENVIRONMENTS[name]
        before, after, enough = [], [], []
        for seed in range(options.seeds):
            source = Source(environment, {}, seed, stationary_expert=True, horizon=horizon)
            before.append(list(interviewed(source, one_by_one=True))[-1])
            moments = list(interviewed(source))
            after.append(moments[-1])
            enough.append(needed(moments, before[-1].regret))
        reached = [value for value in enough if value is not None]
        table.add(
            name,
            statistics.mean(moment.answers for moment in before),
            statistics.mean(moment.regret for moment in before),
            statistics.mean(reached) if len(reached) == len(enough) else None,
            statistics.mean(moment.answers for moment in after),
            statistics.mean(moment.situations for moment in after),
            statistics.mean(moment.regret for moment in after),
            f"{sum(moment.certified for moment in before)}, {sum(moment.certified for moment in after)}",
        )


if __name__ == "__main__":
    frame.start(
        main,
        __doc__,
        frame.argument("--seeds", type=int, default=3),
        frame.argument("--only", nargs="+", part=True, default=list(ENVIRONMENTS), choices=list(ENVIRONMENTS)),
    )
