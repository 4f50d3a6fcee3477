"""`probe`: try what the expert declined, near its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.explore.advice import Advice
from aceirl.irl.belief import Belief, Plan
from aceirl.models.tabular.mdp import IntArray
from aceirl.protocols import ExactPlanning


@dataclass(frozen=True)
class Probe:
    """Follow the expert, and a few times an episode, where something was hardly tried, take that instead.

    Following the expert shows what it does, and not what it declined: without the consequences of the declined actions
    no reward is ruled out. But who deviates all the time never gets to where the expert wants to be. So there are about
    `deviations` in an episode, in a long one the share `deviate` of its steps; at most every other step is one. How
    often the action tried least in a state was tried is that state's level; the states on the lowest levels are probed,
    as many as make up a `share` of all visits. So all levels rise together along the expert's way, from start to end,
    and states that are hardly ever met do not hold the others up. At first that means actions that were never
    tried. The very first episode, if planned alone, only follows: it shows the way to its end, which some deviations
    bar. Not in the paper.
    """

    deviations: float = 3.0
    share: float = 0.05
    deviate: float = 0.15

    access: ClassVar = "episodes"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning,)
    summary: ClassVar = "follow the expert, and a few times an episode try what it declined"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The expert, or what was hardly tried."""
        shape, counts = belief.shape, belief.estimate.counts
        if belief.episodes == 1 and not counts.samples:
            return Advice().plan(belief, rng)
        visits = belief.estimate.row_visits
        if counts.stationary:  # every step has the same rows
            visits, met = visits[:1], counts.visited.pooled.sum(axis=1)[None]
        else:
            met = counts.visits.sum(axis=2)
        level = visits.min(axis=2)
        probed = level <= self._highest(level, met)
        rarest = probed[:, :, None] & (visits == level[:, :, None])
        rarest = rarest / np.maximum(1, rarest.sum(axis=2, keepdims=True))
        share = met[probed].sum() / met.sum() if met.any() else 1.0
        chance = self._chance(share * shape[0], shape[0])
        return Plan(
            policy=np.broadcast_to(np.where(probed[:, :, None], rarest, 1.0 / shape[2]), shape),
            follow=np.broadcast_to(np.where(probed, 1 - chance, 1.0), shape[:2]),
            follow_new=1 - self._chance(shape[0], shape[0]),
        )

    def _chance(self, steps: float, horizon: int) -> float:
        """How likely each of so many steps of an episode is a deviation."""
        wanted = max(self.deviations, horizon * self.deviate)
        return wanted / max(steps, 2 * wanted)

    def _highest(self, level: IntArray, met: IntArray) -> int:
        """The level up to which states are probed; `met [H, S]` is how often each was met."""
        order = np.argsort(level, axis=None, kind="stable")
        below = np.cumsum(met.ravel()[order])
        if below[-1] == 0:
            return 0
        return int(level.ravel()[order][np.searchsorted(below, self.share * below[-1])])
