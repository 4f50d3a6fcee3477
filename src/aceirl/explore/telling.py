"""`telling`: go where rival wishes of the expert would be told apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from aceirl.explore.probe import Probe
from aceirl.irl.belief import Belief, Plan, is_due
from aceirl.models.tabular.dynamic_programming import greedy_actions
from aceirl.models.tabular.mdp import FloatArray
from aceirl.protocols import ExactPlanning
from aceirl.rewards import action_values
from aceirl.rewards.hypotheses import contested


@dataclass(frozen=True)
class Telling:
    """Probe near the expert's way; then, every other time, seek rows that were hardly tried where wishes disagree.

    What an answer tells of a wish depends on what the other actions would have led to. So a row is worth the more the
    less it was tried and the more the likeliest wishes differ in what they would do in its state, beside a `floor` for
    any state; the way to as much of that as possible is planned in the estimated process. Wishes are compared whenever
    the iterations have grown by the share `growth`. Not in the paper.
    """

    probing_episodes: int = 20
    growth: float = 0.25
    floor: float = 0.1

    access: ClassVar = "episodes"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning,)
    summary: ClassVar = "try what was rarely tried where the most probable rewards of the expert disagree"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The expert's way, or the rows that tell most."""
        if belief.iteration * belief.episodes < self.probing_episodes:
            return Probe().plan(belief, rng)
        worth = self._worth(belief)
        memory = {"worth": worth}
        if belief.iteration % 2 == 0:
            return replace(Probe().plan(belief, rng), memory=memory)
        bonus = worth[None, :, None] / np.sqrt(1.0 + belief.estimate.row_visits)
        bonus[:, belief.estimate.terminal_states] = 0.0
        q = action_values(belief.estimate, np.broadcast_to(bonus, belief.shape), 0.0)
        return Plan(np.eye(belief.shape[2])[greedy_actions(q, rng)], memory=memory)

    def _worth(self, belief: Belief) -> FloatArray:
        """`[S]`: how much rows of each state tell, at most 1."""
        before = belief.memory.get("worth")
        if before is not None and not is_due(belief.iteration, self.growth):
            return np.concatenate((before, np.ones(belief.shape[1] - len(before))))
        there = contested(belief.estimate, belief.wish, belief.telling_fields)
        return np.asarray(self.floor + (1 - self.floor) * there / there.max() if there.any() else np.ones(len(there)))
