"""Planning with a reward in any simulator, by sampling: nothing is known of its dynamics beforehand.

Rounds of learning the dynamics, planning in them, and playing: episodes that go where little was seen, and episodes of
the plan itself, by which the plans of all rounds are compared. The best of them is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.errors import InputError
from aceirl.models.vectors.episodes import Episode, discounted
from aceirl.models.vectors.experience import Experience
from aceirl.models.vectors.planning import COARSE, FINE, BatchReward, GridPlan

ROUNDS, FIRST_JUDGED = 4, 2
"""How often the dynamics are learned anew after the first time, and from which round on plans may be kept."""

FIRST, NOISE, TESTS = 0.15, 0.1, 3
"""The share of steps for the first random episodes, of random actions while exploring, and the episodes a plan is
judged by; they start from the same seeds in every round."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan for a reward in a simulator: `predict` says what to do. `value` is what its test episodes were worth by
    that reward, discounted; `steps` is what was spent in the simulator."""

    plan: GridPlan
    value: float
    steps: int
    episodes: tuple[Episode, ...]

    def predict(self, observation: Any) -> Any:
        """The action on an observation, as the environment takes it."""
        return self.plan.predict(observation)


def worth(reward: BatchReward, episode: Episode, gamma: float) -> float:
    """The discounted sum of rewards of an episode; one cut by a limit of time goes on as in its last steps."""
    actions = np.asarray(episode.actions, dtype=np.float64).reshape(episode.steps, -1)
    paid = reward(episode.observations[:-1], actions, episode.arrivals, episode.ends)
    return float(discounted(np.asarray(paid)[:, None], episode.terminated, gamma)[0])


def plan_by_sampling(
    env: Any,
    reward: BatchReward,
    rng: np.random.Generator,
    steps: int,
    gamma: float = 0.99,
    report: Callable[[int], None] | None = None,
) -> Planned:
    """Plan for `reward` in a Gymnasium environment with about `steps` steps in it, the last episode being finished.

    `report` is told after each episode how many steps were taken.
    """
    if steps < 1:
        raise InputError(f"steps is {steps}; at least one is needed to learn anything of the simulator")
    met = Experience(env, rng, report)
    tests = [int(seed) for seed in rng.integers(2**31, size=TESTS)]
    while met.steps < FIRST * steps:
        met.play(met.sticky())
    best: tuple[float, GridPlan] | None = None
    plan: GridPlan | None = None
    for turn in range(ROUNDS + 1):
        dynamics = met.dynamics()
        coarse = met.prepared(dynamics, gamma, COARSE)
        plan = coarse.plan(reward, plan)
        if turn >= ROUNDS - 1:
            plan = met.prepared(dynamics, gamma, FINE).plan(reward, plan)
        if turn >= FIRST_JUDGED:
            value = float(np.mean([worth(reward, met.play(plan.predict, seed), gamma) for seed in tests]))
            if best is None or value >= best[0]:
                best = value, plan
        if turn < ROUNDS and met.steps < steps:
            novel = coarse.plan(met.novelty(dynamics.coordinates))
            while met.steps < steps * (FIRST + (1 - FIRST) * (turn + 1) / (ROUNDS + 1)):
                met.play(met.noisy(novel.predict, NOISE))
                met.play(met.noisy(plan.predict, NOISE))
    assert best is not None
    return Planned(best[1], best[0], met.steps, tuple(met.episodes))
