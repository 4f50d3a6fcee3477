"""What the planner-based strategies share: the radius they expect after a batch, and the way to and from the solver."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aceirl.bounds import plausible_policies
from aceirl.explore.base import Belief
from aceirl.mdp import MDP, FloatArray
from aceirl.planner import Episodes, SaddlePlan, SaddleStart, Samples, solve_saddle

UNANSWERED = 10.0
"""How much more a state weighs whose answer is missing. Of 1, 2, 4 and 10, the last needed the fewest samples."""


def expected_radius(belief: Belief) -> tuple[FloatArray, FloatArray]:
    """`(weight [H, S, A], counts)` of the radius `weight/√(counts + x)` that `x` more visits would leave.

    The paper's radius without its `min(1, ·)`, so that the problem is convex, with counts pooled over steps (`[S, A]`)
    where the dynamics are stationary. A state whose answer is missing weighs more, because one visit settles it for
    good. Behind an unknown row everything is unknown, so such a row carries the radii of all the steps that follow it.
    This steers the exploration and promises nothing.
    """
    horizon, n_states, n_actions = belief.shape
    counts = belief.estimate.counts
    visits = np.maximum(1.0, counts.visits.sum(axis=0) if counts.stationary else counts.visits)
    log_term = np.log(24 * n_states * n_actions * horizon * visits**2 / belief.delta)
    remaining = belief.rmax * np.arange(horizon, 0, -1.0)
    ahead = np.cumsum(remaining[::-1])[::-1]
    reach = np.where(belief.estimate.mdp.known, remaining[:, None, None], ahead[:, None, None])
    answers = np.where(belief.estimate.expert_known, 1.0, UNANSWERED)
    return reach * answers[:, :, None] * np.sqrt(2 * log_term), visits


def solved(
    belief: Belief, explorer: Episodes | Samples, *, mdp: MDP | None = None, all_policies: bool = False
) -> SaddlePlan:
    """The exploration problem at this belief, started from the last plan; in the estimated process or the one given."""
    weight, visits = expected_radius(belief)
    policies = (
        None if all_policies else plausible_policies(belief.estimate, belief.reward, belief.neutral, belief.accuracy)
    )
    return solve_saddle(
        mdp or belief.estimate.mdp, weight, visits, explorer, policies=policies, start=_remembered(belief.memory)
    )


def memory_of(plan: SaddlePlan) -> dict[str, FloatArray]:
    """What the next plan starts from, as named arrays."""
    return {
        "explorer": plan.start.explorer,
        "adversary": plan.start.adversary,
        "weight": np.array([plan.start.weight]),
    }


def evidence_of(plan: SaddlePlan) -> dict[str, float]:
    """What the solver can say of a plan."""
    return {"gap": plan.gap, "upper": plan.upper, "lower": plan.lower, "iterations": plan.iterations}


def _remembered(memory: Mapping[str, FloatArray]) -> SaddleStart | None:
    if not memory:
        return None
    return SaddleStart(memory["explorer"], memory["adversary"], float(memory["weight"][0]))
