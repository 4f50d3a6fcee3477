"""`advice`: do what the expert says."""

from __future__ import annotations

import numpy as np

from aceirl.collect import Plan
from aceirl.explore.base import Belief, uniform_policy


class Advice:
    """Follow the expert's answer in every state. Not in the paper.

    The expert's own path is where its answers matter most in this environment, so a few episodes go a long way; what
    lies off the path stays unknown.
    """

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The expert, everywhere."""
        return Plan(policy=uniform_policy(belief.shape), follow=np.ones(belief.shape[:2], dtype=np.bool_))
