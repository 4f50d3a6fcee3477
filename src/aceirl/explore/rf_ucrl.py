"""`rf-ucrl`: go where the dynamics are most uncertain; no expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.irl.belief import Belief, Plan
from aceirl.models.tabular.bounds import dynamics_bound
from aceirl.models.tabular.dynamic_programming import greedy_actions
from aceirl.protocols import ConfidenceRadii, ExactPlanning


@dataclass(frozen=True)
class RfUcrl:
    """Reward-free UCRL (Kaufmann et al. 2021): greedy for the error bound of the dynamics alone, nobody asked.

    Differs: the radii are those of the run's family and counts are pooled where the dynamics are stationary. Its
    stopping rule is the certificate `dynamics`.
    """

    access: ClassVar = "episodes, no expert"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning, ConfidenceRadii)
    summary: ClassVar = "go where the dynamics are most uncertain (paper: RF-UCRL)"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """At each state the action with the largest bound on what the dynamics may hide."""
        actions = greedy_actions(dynamics_bound(belief.estimate.mdp, belief.radii).error, rng)
        return Plan(policy=np.eye(belief.shape[2])[actions], ask=False)
