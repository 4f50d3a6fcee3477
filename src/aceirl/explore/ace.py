"""`ace`: explore so that, after this batch, as little as possible is left uncertain about plausible policies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from aceirl.explore.planning import evidence_of, memory_of, solved
from aceirl.irl.belief import Belief, Plan, uniform_policy
from aceirl.models.tabular.planner import Episodes
from aceirl.protocols import ConfidenceRadii, ExactPlanning


@dataclass(frozen=True)
class Ace:
    """Paper, (ACE): the policy that minimises the largest expected error over the plausible policies.

    Differs: the real batch size is planned for, the set of plausible policies keeps its `V̂*`, and the plan comes with a
    certified gap, at most the `tolerance`. Where the plan never is, actions are uniform.
    """

    tolerance: float = 0.01

    access: ClassVar = "episodes"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning, ConfidenceRadii)
    summary: ClassVar = "reduce the uncertainty of plausible policies as far as a batch can (paper: AceIRL)"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The explorer's side of the saddle point."""
        return planned(belief, self.tolerance)


@dataclass(frozen=True)
class AceRF:
    """Paper, appendix "Connection to Reward-free Exploration": as `ace`, with all policies plausible and no expert."""

    tolerance: float = 0.01

    access: ClassVar = "episodes, no expert"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning, ConfidenceRadii)
    summary: ClassVar = "reduce the uncertainty of all policies as far as a batch can (paper: Ace-RF)"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The explorer's side of the saddle point over all policies."""
        return replace(planned(belief, self.tolerance, all_policies=True), ask=False)


def planned(belief: Belief, tolerance: float, *, all_policies: bool = False) -> Plan:
    """The plan of (ACE); uniform before any start has been seen, as nothing can then be planned."""
    uniform = uniform_policy(belief.shape)
    if not belief.estimate.mdp.initial.any():
        return Plan(policy=uniform)
    plan = solved(belief, Episodes(belief.episodes), tolerance, all_policies=all_policies)
    policy = np.where(plan.reached[:, :, None], plan.policy, uniform)
    return Plan(policy=policy, memory=memory_of(plan), evidence=evidence_of(plan, belief.rmax))
