"""Best responses to a reward where the expert was observed: planned on a grid, or searched for about a copy of it.

A grid takes at most four coordinates and learned dynamics; a search takes steps, and only finds controllers that are
not far from the expert. Both are judged by playing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aceirl.models.vectors.controllers import Controller, search
from aceirl.models.vectors.episodes import Act, Episode, worth
from aceirl.models.vectors.experience import Experience
from aceirl.models.vectors.features import VectorReward
from aceirl.models.vectors.planning import COARSE, FINE, Prepared

EXPLORATION, COPIES = 0.75, 0.9
"""The shares of the steps that are spent when exploring is done, and the controllers about a copy of the expert."""

FARTHEST = 1.5
"""How far these are from the copy at most, in standard deviations of its weights."""

EpisodePair = tuple[str, Episode, Episode, int]
"""The group, the expert's episode, the other one from the same seed, and the step from which they may differ."""


class OnGrid:
    """Plans in learned dynamics, after tours to where little was seen."""

    attempts = 2
    """How often it may be tried for one reward, each time with more care."""

    def __init__(self, met: Experience, gamma: float) -> None:
        self.met, self.gamma = met, gamma
        self.prepared: Prepared | None = None
        self.copy: Controller | None = None

    def prepare(self, steps: int) -> list[EpisodePair]:
        """Go where little was seen, so that the dynamics are known beside the expert's path too."""
        met = self.met
        while met.steps < EXPLORATION * steps:
            dynamics = met.dynamics()
            plan = met.prepared(dynamics, self.gamma, COARSE).plan(met.novelty(dynamics.coordinates))
            for _ in range(3):
                met.play(met.noisy(plan.predict, 0.1))
        return []

    def act(self, reward: VectorReward, attempt: int) -> Act:
        """A plan on a coarse grid, then on a fine one."""
        self.prepared = self.met.prepared(self.met.dynamics(), self.gamma, (COARSE, FINE)[attempt])
        return self.prepared.plan(reward.batch).predict


class BySearch:
    """The best of many controllers about a copy of the expert, by its answers `[n]` to `observations [n, d]`."""

    attempts = 1

    def __init__(self, met: Experience, gamma: float, own: Sequence[Episode], observations: Any, actions: Any) -> None:
        self.met, self.gamma, self.own = met, gamma, own
        self.prepared: Prepared | None = None
        self.copy = Controller.copying(met.choices, np.array(observations), np.array(actions))
        self.steps = 0

    def prepare(self, steps: int) -> list[EpisodePair]:
        """Controllers near the copy and less near."""
        met, copy, pairs = self.met, self.copy, list[EpisodePair]()
        self.steps = steps
        while met.steps < COPIES * steps or not pairs:
            base = self.own[len(pairs) % len(self.own)]
            away = FARTHEST * met.rng.random() * copy.size * met.rng.standard_normal(copy.weights.shape)
            other = replace(copy, weights=copy.weights + away)
            pairs.append(("controllers about a copy", base, met.play(other.predict, base.seed), 0))
        return pairs

    def act(self, reward: VectorReward, attempt: int) -> Act:
        """What a search finds in the steps that are left: few, so it seldom goes far from the copy."""
        until = max(self.steps, self.met.steps + 1)
        found = search(self.met, lambda one: worth(reward.batch, one, self.gamma), self.copy, until, each=1)
        return found.controller.predict
