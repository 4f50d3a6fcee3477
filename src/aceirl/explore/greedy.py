"""`greedy`: go where the error bound is largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.irl.belief import Belief, Plan
from aceirl.models.tabular.dynamic_programming import greedy_actions
from aceirl.protocols import ConfidenceRadii, ExactPlanning


@dataclass(frozen=True)
class Greedy:
    """Paper, "AceIRL Greedy": the greedy policy of (EB1), ties broken at random.

    It looks at the uncertainty there is, not at what a batch will leave of it, so large batches hurt it.
    """

    access: ClassVar = "episodes"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning, ConfidenceRadii)
    summary: ClassVar = "go where the error bound is largest (paper: AceIRL Greedy)"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """At each state the action with the largest bound."""
        actions = greedy_actions(belief.bound.error, rng)
        return Plan(policy=np.eye(belief.shape[2])[actions])
