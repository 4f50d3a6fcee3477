"""A Markov decision process with one constraint, solved exactly by backward and forward passes.

    primal   max ⟨μ, c⟩  over occupancy measures μ of the model,  s.t. ⟨μ, r⟩ ≥ v
    dual     min g(λ)  over λ ≥ 0,   g(λ) = max_μ ⟨μ, c + λ·r⟩ - λ·v

Paper, (EB2). `g` is convex and piecewise linear: every deterministic policy contributes the line
`c_π + λ·(r_π - v)`. The search keeps two policies, one that meets the floor (`r ≥ v`) and one that does not, and
evaluates `g` where their lines cross. Either no line lies above the crossing, and the mixture of the two that meets the
floor exactly is optimal, or the best policy there replaces one of the two. A line is never met twice, so the search is
finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aceirl.errors import InputError
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import MDP, FloatArray, check_reward
from aceirl.models.tabular.planner.passes import (
    NOTHING,
    Actions,
    Graph,
    SaddleProblem,
    empty_state,
    graph_of,
    push,
)
from aceirl.models.tabular.planner.play import ROUNDING, maximise

FEASIBILITY = 1e-10
"""How far below the floor, relative to the size of the rewards' values, a policy still counts as meeting it."""

PRECISION = 1e-10
"""The relative gap at which the search ends; a crossing that no line exceeds has a gap of rounding errors only."""


class ConstrainedStatus(Enum):
    """How a constrained problem ended."""

    OPTIMAL = "optimal"
    """The constraint binds; the optimum mixes at most two deterministic policies."""
    SLACK = "slack"
    """The best policy without the constraint meets it; the multiplier is zero."""
    DEGENERATE = "degenerate"
    """The floor is the best value of the reward: only its best policies are left, and the multiplier is not unique."""
    INFEASIBLE = "infeasible"
    """No policy meets the floor; the policy returned comes nearest, and `shortfall` says how near."""
    LIMIT = "limit"
    """The search ran out of evaluations; value and bound hold, their gap is what is left."""


@dataclass(frozen=True, eq=False)
class Constrained:
    """The answer to `max ⟨μ, c⟩ s.t. ⟨μ, r⟩ ≥ v`, with its certificate `value ≤ optimum ≤ bound`.

    Shapes: `policies [1 or 2, H, S]` (actions), `weights [1 or 2]`, `occupancy [H, S, A]` of their mixture.
    """

    status: ConstrainedStatus
    value: float
    bound: float
    multiplier: float
    policies: NDArray[np.int32]
    weights: FloatArray
    occupancy: FloatArray
    evaluations: int
    shortfall: float

    @property
    def gap(self) -> float:
        """How far the value may be from the optimum; infinite if the problem is infeasible."""
        return self.bound - self.value


def feasibility_slack(reward: FloatArray, floor: float = 0.0) -> float:
    """The rounding error allowed in the floor: `FEASIBILITY` of the largest return of an episode, or of the floor."""
    largest = np.abs(reward).max(axis=(1, 2)).sum()
    return FEASIBILITY * max(float(largest), abs(floor), np.finfo(np.float64).tiny)


def mixed_occupancy(graph: Graph, policies: Actions, weights: FloatArray, mass: FloatArray) -> FloatArray:
    """`[H, S, A]`: the occupancy of a mixture of deterministic policies; `mass [H, S]` is room."""
    occupancy = np.zeros((*mass.shape, graph.n_actions))
    for actions, weight in zip(policies, weights, strict=True):
        push(graph, actions, occupancy[:0], mass)
        _add_occupancy(graph, actions, mass, weight, occupancy)
    return occupancy


@compiled
def _add_occupancy(graph: Graph, actions: Actions, mass: FloatArray, weight: float, occupancy: FloatArray) -> None:
    """Add `weight` times the occupancy of a deterministic policy with state distribution `mass [H, S]`."""
    for h in range(mass.shape[0]):
        for i in range(graph.first[h], graph.first[h + 1]):
            s = graph.states[i]
            occupancy[h, s, actions[h, s]] += weight * mass[h, s]


def solve_constrained(
    mdp: MDP, cost: ArrayLike, reward: ArrayLike, floor: float, *, max_evaluations: int = 1000
) -> Constrained:
    """Maximise `⟨μ, cost⟩` over the occupancy measures of the model with `⟨μ, reward⟩ ≥ floor`.

    Cost and reward are `[H, S, A]` (or `[S, A]`). Unknown rows of the model earn their entry and end the episode there.
    A floor above the best value of the reward by no more than rounding is read as that value.
    """
    c, r = check_reward(cost, mdp.shape, "cost"), check_reward(reward, mdp.shape)
    if not np.isfinite(floor):
        raise InputError(f"floor must be finite, got {floor}")
    if max_evaluations < 1:
        raise InputError(f"max_evaluations must be at least 1, got {max_evaluations}")
    slack, cost_slack = feasibility_slack(r, floor), feasibility_slack(c)
    problem = SaddleProblem(np.ones((1, *mdp.shape[1:])), c, NOTHING, r, float(floor), slack, cost_slack, 0.0, False)
    graph, mass = graph_of(mdp), np.zeros(mdp.shape[:2])
    state = empty_state(problem, mdp.shape, whole=False, stored=False)._replace(mass=mass)
    ceiling, share, value, bound, multiplier, evaluations = maximise(graph, problem, state, PRECISION, max_evaluations)
    pair, shortfall = state.pair, max(0.0, floor - ceiling)
    if shortfall > slack:
        nearest, ones = pair[:1].copy(), np.ones(1)
        occupancy = mixed_occupancy(graph, nearest, ones, mass)
        value = float((occupancy * c).sum())
        return Constrained(ConstrainedStatus.INFEASIBLE, value, np.inf, np.inf, nearest, ones, occupancy, 1, shortfall)
    policies, weights = (pair[:1], np.ones(1)) if share == 1.0 else (pair[:2], np.array([share, 1.0 - share]))
    occupancy = mixed_occupancy(graph, policies, weights, mass)
    rounding = ROUNDING * (cost_slack + multiplier * slack)
    converged = bound - value <= 2 * (PRECISION * max(abs(bound), abs(value)) + rounding)
    status = _status(converged, multiplier, floor >= ceiling - slack)
    return Constrained(status, value, bound, multiplier, policies.copy(), weights, occupancy, evaluations + 1, 0.0)


def _status(converged: bool, multiplier: float, at_ceiling: bool) -> ConstrainedStatus:
    if not converged:
        return ConstrainedStatus.LIMIT
    if multiplier == 0.0:
        return ConstrainedStatus.SLACK
    return ConstrainedStatus.DEGENERATE if at_ceiling else ConstrainedStatus.OPTIMAL
