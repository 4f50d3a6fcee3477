"""Steps and answers until a recovered reward is worth acting on, in Gymnasium's own environments.

    python benchmarks/gym.py [--only NAME] [--strategy NAME ...] [--seed N]

Every strategy learns until the greedy policy of its reward has a normalised regret of at most 0.05 against the expert,
or until its budget is spent; then the row says so, with the regret it had. The expert is the exact optimum of the
environment, taken as stationary where it loses little by that. MiniGrid needs `pip install minigrid`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import Any

from aceirl.loop import Record, learn
from aceirl.settings import Settings
from aceirl.sources import Source, open_task

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
    return last.record, last.state.counts.shape[1]


def main() -> None:
    """Measure what was asked for, and print a table of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--strategy", nargs="+", default=STRATEGIES)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print("| environment | strategy | steps | answers | states met | regret | reached 0.05 | seconds |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |")
    for name in [chosen.only] if chosen.only else CASES:
        for strategy in chosen.strategy:
            began = time.perf_counter()
            record, states = measured(CASES[name], strategy, chosen.seed)
            reached = "yes" if record.stopped == "regret" else "no"
            print(
                f"| {name} | {strategy} | {record.samples:,} | {record.answers:,} | {states:,} | {record.regret:.3f} "
                f"| {reached} | {time.perf_counter() - began:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
