"""`random`: any action, anywhere."""

from __future__ import annotations

import numpy as np

from aceirl.collect import Plan
from aceirl.explore.base import Belief, uniform_policy


class Random:
    """Paper, "Random Exploration": uniform actions."""

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The uniform policy, whatever is believed."""
        return Plan(policy=uniform_policy(belief.shape))
