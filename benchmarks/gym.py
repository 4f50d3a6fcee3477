"""Steps and answers until a recovered reward is worth acting on, in Gymnasium's own environments.

    python benchmarks/gym.py [--only NAME ...] [--strategies NAME ...] [--seeds N]

Every strategy learns until its policy has a normalised regret of at most 0.05 against the expert, or until its budget
is spent; then the row says so, with the regret it had. The expert is the exact optimum of the environment, taken as
stationary where it loses little by that. Of several seeds a row has the medians. MiniGrid needs `pip install minigrid`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import _frame as frame

from aceirl.experts.tasks import Source, open_task
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Record

GOAL = 0.05


@dataclass(frozen=True)
class Case:
    """An environment and what is asked of it."""

    environment: str
    episodes_per_iteration: int
    max_samples: int
    horizon: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    def source(self, seed: int) -> Source:
        """Where environment and expert come from."""
        return Source(
            self.environment,
            self.parameters,
            seed,
            stationary_expert=True,
            expert="optimal",
            horizon=self.horizon,
        )


CASES = {
    "FrozenLake 4x4": Case("FrozenLake-v1", 5, 20_000),
    "FrozenLake 8x8": Case("FrozenLake8x8-v1", 10, 60_000),
    "CliffWalking": Case("CliffWalking", 5, 20_000, horizon=100),
    "CliffWalking, slippery": Case("CliffWalking", 5, 40_000, horizon=200, parameters={"is_slippery": True}),
    "Taxi": Case("Taxi", 50, 100_000),
    "Blackjack": Case("Blackjack-v1", 100, 60_000, horizon=12),
    "MiniGrid-Empty-8x8": Case("MiniGrid-Empty-8x8-v0", 5, 20_000, horizon=60),
}
STRATEGIES = ("guided", "random", "greedy", "ace")


def measured(case: Case, strategy: str, seed: int) -> tuple[Record, int]:
    """The last record of a run, and how many states it met."""
    task = open_task(case.source(seed))
    settings = Settings(
        strategy=strategy,
        episodes_per_iteration=case.episodes_per_iteration,
        max_samples=case.max_samples,
        until_regret=GOAL,
        seed=seed,
    )
    for turn in learn(task.environment, task.expert, settings, regret=task.regret):
        last = turn
    return last.record, last.belief.shape[1]


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A row for each environment and strategy."""
    table = report.table(
        "gym",
        frame.Column("environment"),
        frame.Column("strategy"),
        frame.number("steps", "{:,.0f}"),
        frame.number("answers", "{:,.0f}"),
        frame.number("states met", "{:,.0f}"),
        frame.number("regret", "{:.3f}"),
        frame.Column("reached 0.05"),
        frame.number("seconds", "{:.1f}"),
        page="gymnasium.md",
    )
    for name in options.only or CASES:
        for strategy in options.strategies or STRATEGIES:
            began = time.perf_counter()
            runs = [measured(CASES[name], strategy, seed) for seed in range(options.seeds)]
            reached = sum(record.stopped == "regret" for record, _ in runs)
            if options.seeds > 1:
                said = f"{reached} of {options.seeds}"
            else:
                said = "yes" if reached else "no"
            table.add(
                name,
                strategy,
                statistics.median(record.samples for record, _ in runs),
                statistics.median(record.answers for record, _ in runs),
                statistics.median(states for _, states in runs),
                statistics.median(record.regret or 0.0 for record, _ in runs),
                said,
                (time.perf_counter() - began) / options.seeds,
            )


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--only", nargs="+", choices=CASES, part=True, help="environments; by default all"),
        frame.argument(
            "--strategies", nargs="+", part=True, metavar="NAME", help=f"by default {', '.join(STRATEGIES)}"
        ),
        frame.argument("--seeds", type=int, default=1),
    )
