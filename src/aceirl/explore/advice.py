"""`advice`: do what the expert says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.irl.belief import Belief, Plan, uniform_policy
from aceirl.models.tabular.mdp import shared


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
        return Plan(follow=1.0) if belief.tables is None else _following(belief.shape)


@shared
def _following(shape: tuple[int, ...]) -> Plan:
    """The plan of all who follow the expert in a problem of that shape."""
    follow = np.ones(shape[:2])
    follow.flags.writeable = False
    return Plan(policy=uniform_policy(shape), follow=follow)
