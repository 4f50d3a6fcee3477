"""Error bounds and the stopping rules made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aceirl.confidence import Radii
from aceirl.counts import Estimate
from aceirl.dynamic_programming import optimal_values
from aceirl.kernels import clipped_backward
from aceirl.mdp import MDP, FloatArray, steps_after
from aceirl.planner import PolicySet, solve_constrained

ROUNDING = 1e-9
"""Returns of an episode that differ by less, as a share of the most it can pay, are equal."""


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """`E [H, S, A]` and what it says of the start: `value = Σ_s initial·max_a E[0] + start radius`."""

    error: FloatArray
    value: float


def error_bound(mdp: MDP, radii: Radii) -> ErrorBound:
    """Paper, (EB1): `E[h] = min((H-h)·Rmax, C[h] + P̂·max_a E[h+1])`, one backward induction.

    Differs: a row never visited is worth the trivial bound, and an estimated start adds its own radius.
    """
    behind_unknown = np.full(mdp.horizon, np.inf)
    behind_unknown[-1] = 0.0  # nothing follows the last step
    error, worst = mdp.sweep(clipped_backward, radii.total, radii.ceiling, unknown=behind_unknown)
    known_start = mdp.initial.any()
    value = float(mdp.initial @ worst[0]) + radii.start if known_start else float(radii.ceiling[0])
    return ErrorBound(error, min(value, float(radii.ceiling[0])))


def dynamics_bound(mdp: MDP, radii: Radii) -> ErrorBound:
    """(EB1) of the dynamics alone: how far any policy's value for any reward may be from its value in the estimate."""
    return error_bound(mdp, replace(radii, expert=np.zeros_like(radii.expert)))


def plausible_policies(
    estimate: Estimate, reward: FloatArray, unknown_step_reward: float, accuracy: float
) -> PolicySet | None:
    """`Π̂ = {π : V*(r̂) - V^π(r̂) ≤ 10·ε_k}` in the estimated process, as a constraint `⟨r̂, μ⟩ ≥ V̂* - 10·ε_k`.

    None if every policy is in it, because no reward is negative. Differs from the paper's matrix form, which drops `V̂*`
    and gives the slack a reward. What follows an unknown row earns `unknown_step_reward` a step, so it is part of that
    row's own reward here.
    """
    mdp = estimate.mdp
    after = unknown_step_reward * steps_after(mdp.horizon)
    earned = np.where(mdp.known, reward, reward + after[:, None, None])
    floor = float(mdp.initial @ optimal_values(mdp, earned)[1][0]) - 10 * accuracy
    return PolicySet(earned, floor) if floor > ROUNDING * float(earned.max(axis=(1, 2)).sum()) else None


def plausible_error(estimate: Estimate, radii: Radii, policies: PolicySet) -> float:
    """Paper, (EB2): `max ⟨μ, C⟩` over the occupancy measures of the plausible policies."""
    answer = solve_constrained(estimate.mdp, radii.total, policies.reward, policies.floor)
    return answer.bound + radii.start
