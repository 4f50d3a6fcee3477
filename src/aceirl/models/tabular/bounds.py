"""Error bounds and the stopping rules made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aceirl.data.arrays import IntArray
from aceirl.models.tabular.confidence import Radii
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import Successors, clipped_backward, compiled
from aceirl.models.tabular.mdp import MDP, FloatArray
from aceirl.models.tabular.planner import PolicySet, solve_constrained

HALVINGS = 40
"""How finely the worst row is searched for; every step of the search is a bound already."""

ROUNDING = 1e-9
"""Returns of an episode that differ by less, as a share of the most it can pay, are equal."""


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """`E [H, S, A]` and what it says of the start: `value = Σ_s initial·max_a E[0] + start radius`."""

    error: FloatArray
    value: float


def error_bound(mdp: MDP, radii: Radii) -> ErrorBound:
    """Paper, (EB1): `E[h] = min((H-h)·Rmax, C[h] + γ·P̂·max_a E[h+1])`, one backward induction.

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
    after = unknown_step_reward * mdp.steps_after
    known = mdp.transitions.filled.reshape(-1, mdp.n_states, mdp.n_actions)
    earned = np.where(known, reward, reward + after[:, None, None])
    floor = float(mdp.initial @ optimal_values(mdp, earned)[1][0]) - 10 * accuracy
    return PolicySet(earned, floor) if floor > ROUNDING * float(earned.max(axis=(1, 2)).sum()) else None


def plausible_error(estimate: Estimate, radii: Radii, policies: PolicySet) -> float:
    """Paper, (EB2): `max ⟨μ, C⟩` over the occupancy measures of the plausible policies."""
    answer = solve_constrained(estimate.mdp, radii.total, policies.reward, policies.floor)
    return answer.bound + radii.start


def highest_means(mdp: MDP, divergence: FloatArray, values: FloatArray) -> FloatArray:
    """`[H, S, A]`: how far the mean of `values [H, S]`, those at the next step, may truly lie above the estimated one.

    `sup {(q - P̂)·v : KL(P̂‖q) ≤ κ}` with `κ` the `divergence [H, S, A]`. For every `ν ≥ max v`, by Jensen's inequality,
    `log(ν - q·v) ≥ Σ P̂·log(ν - v) - κ`, so the mean is at most `ν - exp(Σ P̂·log(ν - v) - κ)`. That is convex in `ν`
    and, at the best `ν`, the supremum; mass that the row has left over goes to the best state there is, seen or not.
    After an unknown row it is zero: there is no estimate that it could lie above.
    """
    above = np.zeros(mdp.shape)
    _highest_means(*mdp.transitions.rows, np.ascontiguousarray(divergence), np.ascontiguousarray(values), above)
    return above


@compiled
def _highest_means(
    indptr: IntArray,
    successors: Successors,
    probabilities: FloatArray,
    stride: int,
    divergence: FloatArray,
    values: FloatArray,
    above: FloatArray,
) -> None:
    horizon, n_states, n_actions = above.shape
    for h in range(horizon):
        best, lowest = values[h].max(), values[h].min()
        if best == lowest:
            continue
        for s in range(n_states):
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                first, last = indptr[row], indptr[row + 1]
                if first < last:
                    seen = values[h][successors[first:last]]
                    above[h, s, a] = _highest_mean(probabilities[first:last], seen, best, lowest, divergence[h, s, a])


@compiled
def _highest_mean(row: FloatArray, seen: FloatArray, best: float, lowest: float, kappa: float) -> float:
    """That of one `row [K]` over the values `seen [K]`; `best` and `lowest` are those of all states."""
    mean = float((row * seen).sum())
    room = max(best - mean, 0.0)
    if room == 0.0 or kappa <= 0.0:
        return 0.0
    if kappa == np.inf:
        return room
    # With x = ν - mean, the true mean lies at most x·(1 - exp(Σ P̂·log(1 - (v - mean)/x) - κ)) above.
    low, high = np.log(room), np.log(room + best - lowest) - 0.5 * np.log(min(kappa, 1.0))
    above, x = room, room
    for _ in range(HALVINGS):
        logs, inverse = 0.0, 0.0
        for k in range(len(row)):
            share = (seen[k] - mean) / x
            if share >= 1.0:
                logs, inverse = -np.inf, np.inf
                break
            logs += row[k] * np.log1p(-share)
            inverse += row[k] / (1 - share)
        above = min(above, -x * np.expm1(logs - kappa))
        # The bound rises with x where inverse·exp(logs - κ) ≤ 1.
        if inverse < np.inf and logs + np.log(inverse) <= kappa:
            if x == room:
                break
            high = np.log(x)
        else:
            low = np.log(x)
        x = np.exp((low + high) / 2)
    return float(above)
