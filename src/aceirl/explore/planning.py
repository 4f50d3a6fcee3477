"""What the planner-based strategies share: the radius they expect after a batch, and the way to and from the solver."""

from __future__ import annotations

import numpy as np

from aceirl.irl.belief import Belief, Memory
from aceirl.models.tabular.bounds import plausible_policies
from aceirl.models.tabular.counts import with_states
from aceirl.models.tabular.mdp import MDP, FloatArray
from aceirl.models.tabular.planner import Episodes, SaddlePlan, SaddleStart, Samples, solve_saddle

DIGITS = 9
"""Rewards are planned for up to so many digits, in units of Rmax: hundreds of iterations would magnify the rest."""

UNANSWERED = 10.0
"""How much more a state weighs whose answer is missing. Of 1, 2, 4 and 10, the last needed the fewest samples."""


def expected_radius(belief: Belief) -> tuple[FloatArray, FloatArray]:
    """`(weight [H, S, A], counts)` of the radius `weight/√(counts + x)` that `x` more visits would leave.

    The paper's radius without its `min(1, ·)`, so that the problem is convex, in units of Rmax, with counts pooled over
    steps (`[S, A]`) where the dynamics are stationary. A state whose answer is missing weighs more, because one visit
    settles it for good. Behind an unknown row everything is unknown, so such a row carries the radii of all the steps
    that follow it. This steers the exploration and promises nothing.
    """
    horizon, n_states, n_actions = belief.shape
    counts = belief.estimate.counts
    visits = np.maximum(1.0, counts.visited.pooled if counts.stationary else counts.visits)
    log_term = np.log(24 * n_states * n_actions * horizon * visits**2 / belief.delta)
    remaining = belief.estimate.mdp.steps_left
    ahead = np.cumsum(remaining[::-1])[::-1]
    reach = np.where(belief.estimate.mdp.known, remaining[:, None, None], ahead[:, None, None])
    answers = np.where(belief.estimate.expert_known, 1.0, UNANSWERED)
    return reach * answers[:, :, None] * np.sqrt(2 * log_term), visits


def solved(
    belief: Belief,
    explorer: Episodes | Samples,
    tolerance: float,
    *,
    mdp: MDP | None = None,
    all_policies: bool = False,
) -> SaddlePlan:
    """The exploration problem at this belief, started from the last plan; in the estimated process or the one given."""
    weight, visits = expected_radius(belief)
    policies = None
    if not all_policies:
        recovered = belief.recovered
        reward = np.round(recovered.reward / belief.rmax, DIGITS)
        after, accuracy = (
            round(amount / belief.rmax, DIGITS) for amount in (recovered.unknown_step_reward, belief.accuracy)
        )
        policies = plausible_policies(belief.estimate, reward, after, accuracy)
    return solve_saddle(
        mdp or belief.estimate.mdp,
        weight,
        visits,
        explorer,
        policies=policies,
        tolerance=tolerance,
        start=_remembered(belief.memory, belief.shape),
    )


def memory_of(plan: SaddlePlan) -> dict[str, FloatArray]:
    """What the next plan starts from, as named arrays."""
    return {
        "explorer": plan.start.explorer,
        "adversary": plan.start.adversary,
        "weight": np.array([plan.start.weight]),
    }


def evidence_of(plan: SaddlePlan, rmax: float) -> dict[str, float]:
    """What the solver can say of a plan."""
    upper, lower = rmax * plan.upper, rmax * plan.lower
    return {"gap": plan.gap, "upper": upper, "lower": lower, "iterations": plan.iterations}


def _remembered(memory: Memory, shape: tuple[int, int, int]) -> SaddleStart | None:
    """The last plan, with no opinion about states that were met since."""
    if not memory:
        return None
    horizon, n_states, _ = shape
    explorer, adversary = (
        with_states(memory[name], n_states)
        if memory[name].shape[0] == horizon and memory[name].ndim == 3
        else memory[name]
        for name in ("explorer", "adversary")
    )
    return SaddleStart(explorer, adversary, float(memory["weight"][0]))
