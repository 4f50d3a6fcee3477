"""`advice`: do what the expert says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.irl.belief import Belief, Plan


@dataclass(frozen=True)
class Advice:
    """Follow the expert's answer in every state. Not in the paper.

    The expert's own path is where its answers matter most in this environment, so a few episodes go a long way; what
    lies off the path stays unknown.
    """

    access: ClassVar = "episodes"
    needs: ClassVar[tuple[type, ...]] = ()
    summary: ClassVar = "follow the expert's answer in every state"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The expert, everywhere."""
        policy = None if belief.tables is None else np.broadcast_to(1.0 / belief.shape[2], belief.shape)
        return Plan(policy=policy, follow=1.0)
