"""Other routes to the planner's answers: linear programmes (HiGHS) and a conic one (Clarabel), from dense algebra.

Nothing here uses the planner's passes. Occupancy measures are the `μ ≥ 0` with `flow @ μ = start`; mass that enters an
unknown row leaves the system, because such a row of the dense transitions is zero.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from aceirl.models.tabular.mdp import MDP, FloatArray


def flow_matrix(mdp: MDP) -> tuple[sp.csr_matrix, FloatArray]:
    """`(flow [H·S, H·S·A], start [H·S])`: `Σ_a μ[h,s,a] - Σ P(s|s',a')·μ[h-1,s',a'] = start[h,s]`."""
    horizon, n_states, n_actions = mdp.shape
    size = n_states * n_actions
    out = sp.kron(sp.eye(horizon * n_states), np.ones((1, n_actions)), format="csr")
    dense = np.broadcast_to(mdp.transitions.dense(), (horizon, n_states, n_actions, n_states))
    moves = [sp.csr_matrix((n_states, horizon * size))]
    for h in range(horizon - 1):
        left, right = sp.csr_matrix((n_states, h * size)), sp.csr_matrix((n_states, (horizon - h - 1) * size))
        moves.append(sp.hstack([left, sp.csr_matrix(dense[h].reshape(size, n_states).T), right], format="csr"))
    start = np.zeros(horizon * n_states)
    start[:n_states] = mdp.initial
    return (out - sp.vstack(moves, format="csr")).tocsr(), start


def best_value(
    mdp: MDP, cost: FloatArray, reward: FloatArray | None = None, floor: float = 0.0
) -> tuple[float, FloatArray] | None:
    """`max ⟨μ, cost⟩` over occupancy measures (with `⟨μ, reward⟩ ≥ floor`) by HiGHS; none if there is none."""
    flow, start = flow_matrix(mdp)
    above = {} if reward is None else {"A_ub": -reward.reshape(1, -1), "b_ub": [-floor]}
    scale = max(1.0, float(np.abs(cost).max()))
    answer = linprog(-cost.ravel() / scale, A_eq=flow, b_eq=start, method="highs", **above)
    return (-float(answer.fun) * scale, answer.x.reshape(mdp.shape)) if answer.status == 0 else None


def visits(explored: FloatArray, counts: FloatArray) -> FloatArray:
    """`x` in the shape of the counts: summed over steps if those are pooled."""
    return explored.sum(axis=0) if explored.ndim > counts.ndim else explored


def upper_bound(
    mdp: MDP,
    weight: FloatArray,
    counts: FloatArray,
    fixed: FloatArray,
    added: FloatArray,
    reward: FloatArray | None,
    floor: float,
) -> float:
    """What the adversary can still get when the explorer adds `added` visits, in the shape of the counts."""
    answer = best_value(mdp, weight / np.sqrt(counts + added) + fixed, reward, floor)
    assert answer is not None
    return answer[0]


def lower_bound(
    mdp: MDP,
    weight: FloatArray,
    counts: FloatArray,
    fixed: FloatArray,
    adversary: FloatArray,
    added: FloatArray,
    number: float,
    samples: bool,
) -> float:
    """The linear lower bound of Frank–Wolfe at an adversary `[H, S, A]` and added visits, by numpy and HiGHS."""
    weighted = visits(adversary * weight, counts)
    z = counts + added
    gradient = -0.5 * weighted / z**1.5
    if samples:
        least = number * gradient.min()
    else:
        full = np.broadcast_to(gradient, mdp.shape)
        answer = best_value(mdp, np.ascontiguousarray(-full))
        assert answer is not None
        least = -number * answer[0]
    return float((weighted / np.sqrt(z)).sum() + (adversary * fixed).sum() + least - (gradient * added).sum())


@dataclass(frozen=True, eq=False)
class Conic:
    """The conic solver's answer: its objective, the visits it adds (in the shape of the counts), and if it is sure."""

    value: float
    added: FloatArray
    occupancy: FloatArray
    accurate: bool


def conic_saddle(
    mdp: MDP,
    weight: FloatArray,
    counts: FloatArray,
    number: float,
    samples: bool,
    fixed: FloatArray,
    reward: FloatArray | None = None,
    floor: float = 0.0,
    options: dict[str, Any] | None = None,
) -> Conic:
    """The whole saddle as one convex programme, the adversary through the dual of its linear programme.

        min  ⟨start, y⟩ - λ·floor    s.t.   flowᵀ·y - λ·reward ≥ weight·t + fixed,   t ≥ (n + x)^{-1/2},   λ ≥ 0

    over `x = number·μ` for occupancy measures `μ`, or `x ≥ 0` with `Σ x = number`. The variables are scaled: `n + x` by
    `n`, which makes counts of 10⁸ and of 1 alike, and the objective by its value without exploration. `options` go to
    Clarabel.
    """
    cp: Any = import_module("cvxpy")
    flow, start = flow_matrix(mdp)
    plain = best_value(mdp, weight / np.sqrt(counts) + fixed)
    assert plain is not None
    scale = plain[0] if plain[0] > 1e-9 else 1.0
    n = counts.ravel()
    pool = sp.kron(np.ones((1, mdp.horizon)), sp.eye(n.size), format="csr") if n.size < weight.size else sp.eye(n.size)
    occupancy = cp.Variable(n.size if samples else weight.size, nonneg=True)
    added = occupancy if samples else pool @ occupancy
    rules = [cp.sum(occupancy) == 1] if samples else [flow @ occupancy == start]
    root = cp.Variable(n.size, nonneg=True)
    y, multiplier = cp.Variable(start.size), cp.Variable(nonneg=True)
    entry = cp.multiply((weight / np.sqrt(counts)).ravel() / scale, pool.T @ root) + fixed.ravel() / scale
    gain = 0.0 if reward is None else multiplier * reward.ravel()
    rules += [flow.T @ y - gain >= entry, root >= cp.power(1 + cp.multiply(number / n, added), -0.5)]
    objective = start @ y - (0.0 if reward is None else multiplier * floor)
    problem = cp.Problem(cp.Minimize(objective), rules)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, **(options or {}))
    measure = np.maximum(np.asarray(occupancy.value), 0.0)
    total = number * (measure if samples else pool @ measure).reshape(counts.shape)
    return Conic(float(objective.value) * scale, total, measure, problem.status == cp.OPTIMAL)
