"""`random`: any action, anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.irl.belief import Belief, Plan, uniform_policy
from aceirl.protocols import ExactPlanning


@dataclass(frozen=True)
class Random:
    """Paper, "Random Exploration": uniform actions."""

    access: ClassVar = "episodes"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning,)
    summary: ClassVar = "take random actions"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The uniform policy, whatever is believed."""
        return Plan(policy=uniform_policy(belief.shape))
