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
from aceirl.kernels import compiled
from aceirl.mdp import MDP, FloatArray, check_reward
from aceirl.planner.passes import NOTHING, Actions, Cost, Graph, graph_of, push, respond

FEASIBILITY = 1e-10
"""How far below the floor, relative to the size of the rewards' values, a policy still counts as meeting it."""

PRECISION = 1e-10
"""The relative gap at which the search ends; a crossing that no line exceeds has a gap of rounding errors only."""

ROUNDING = 1e-4
"""What rounding may make of a value, as a share of the slack: a gap of that size decides nothing."""


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


@compiled
def values_of(graph: Graph, cost: Cost, actions: Actions, policy: FloatArray, mass: FloatArray) -> tuple[float, float]:
    """`(⟨μ, c⟩, ⟨μ, r⟩)` of the actions or policy whose state distribution `push` has just written to `mass [H, S]`."""
    states, weight, root, fixed, reward = graph.states, cost.weight, cost.root, cost.fixed, cost.reward
    n_actions = root.shape[2]
    value, earned = 0.0, 0.0
    for h in range(mass.shape[0]):
        step = h if root.shape[0] > 1 else 0
        for i in range(graph.first[h], graph.first[h + 1]):
            s = states[i]
            if mass[h, s] == 0.0:
                continue
            low, high = (actions[h, s], actions[h, s] + 1) if actions.size else (0, n_actions)
            for a in range(low, high):
                flow = mass[h, s] if actions.size else mass[h, s] * policy[h, s, a]
                entry = root[step, s, a]
                if weight.size:
                    entry *= weight[h, s, a]
                if fixed.size:
                    entry += fixed[h, s, a]
                value += flow * entry
                if reward.size:
                    earned += flow * reward[h, s, a]
    return value, earned


@compiled
def search_multiplier(
    graph: Graph,
    cost: Cost,
    floor: float,
    slack: float,
    cost_slack: float,
    pair: Actions,
    rewards: FloatArray,
    mass: FloatArray,
    temperature: float,
    policy: FloatArray,
    tolerance: float,
    limit: int,
) -> tuple[float, float, float, float, int]:
    """Improve a pair of policies until their mixture is optimal up to a tolerance; the search of this module.

    `pair [3, H, S]` holds the policy that meets the floor, the one that does not (if `rewards[1]` is finite) and room
    for a third; `rewards [2]` are their values of the reward, which do not depend on the cost. All are changed in
    place, so the next cost may start from them. `policy` is the softened answer to the last multiplier, see `respond`.
    `slack` and `cost_slack` are the `feasibility_slack` of reward and cost. Returns
    `(share of the first, value, bound, multiplier, evaluations)`.
    """
    n_actions = cost.root.shape[2]
    none = policy[:0]
    push(graph, pair[0], none, n_actions, mass)
    meets = values_of(graph, cost, pair[0], none, mass)[0]
    misses = -np.inf
    if np.isfinite(rewards[1]):
        push(graph, pair[1], none, n_actions, mass)
        misses = values_of(graph, cost, pair[1], none, mass)[0]
    bound, best, evaluations = np.inf, 0.0, 0
    while evaluations < limit:
        multiplier = 0.0
        if misses > meets:
            # Every multiplier gives a bound, so a difference of rounding size decides nothing.
            multiplier = (misses - meets) / max(rewards[0] - rewards[1], slack)
        dual = respond(graph, cost, multiplier, temperature, pair[2], policy) - multiplier * floor
        evaluations += 1
        if dual < bound:
            bound, best = dual, multiplier
        crossing = meets + multiplier * (rewards[0] - floor)
        if dual - crossing <= tolerance * abs(dual) + ROUNDING * (cost_slack + multiplier * slack):
            break
        push(graph, pair[2], none, n_actions, mass)
        value, reward = values_of(graph, cost, pair[2], none, mass)
        if reward >= floor - slack:
            pair[0], meets, rewards[0] = pair[2], value, reward
            if multiplier == 0.0:
                break
        else:
            pair[1], misses, rewards[1] = pair[2], value, reward
    if misses <= meets:
        return 1.0, meets, bound, best, evaluations
    share = min(1.0, max(0.0, (floor - rewards[1]) / max(rewards[0] - rewards[1], slack)))
    return share, share * meets + (1.0 - share) * misses, bound, best, evaluations


def reward_ceiling(graph: Graph, reward: FloatArray, actions: Actions, mass: FloatArray) -> float:
    """The best value of a reward `[H, S, A]`, as the forward pass adds it up; its policy goes to `actions [H, S]`."""
    cost, no_policy = Cost(reward, np.ones((1, *reward.shape[1:])), NOTHING, NOTHING), np.empty((0, 0, 0))
    respond(graph, cost, 0.0, 0.0, actions, no_policy, None)
    push(graph, actions, no_policy, reward.shape[2], mass, None)
    return float(values_of(graph, cost, actions, no_policy, mass)[0])


def feasibility_slack(reward: FloatArray, floor: float = 0.0) -> float:
    """The rounding error allowed in the floor: `FEASIBILITY` of the largest return of an episode, or of the floor."""
    largest = np.abs(reward).max(axis=(1, 2)).sum()
    return FEASIBILITY * max(float(largest), abs(floor), np.finfo(np.float64).tiny)


def mixed_occupancy(
    graph: Graph, policies: Actions, weights: FloatArray, n_actions: int, mass: FloatArray
) -> FloatArray:
    """`[H, S, A]`: the occupancy of a mixture of deterministic policies."""
    occupancy = np.zeros((*mass.shape, n_actions))
    for actions, weight in zip(policies, weights, strict=True):
        push(graph, actions, occupancy[:0], n_actions, mass, None)
        add_occupancy(graph, actions, mass, weight, occupancy)
    return occupancy


@compiled
def add_occupancy(graph: Graph, actions: Actions, mass: FloatArray, weight: float, occupancy: FloatArray) -> None:
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
    graph = graph_of(mdp)
    mass = np.zeros(mdp.shape[:2])
    pair = np.zeros((3, *mdp.shape[:2]), dtype=np.int32)
    ceiling = reward_ceiling(graph, r, pair[0], mass)
    slack, cost_slack = feasibility_slack(r, floor), feasibility_slack(c)
    shortfall = max(0.0, floor - ceiling)
    parts = Cost(c, np.ones((1, *mdp.shape[1:])), NOTHING, r)
    if shortfall > slack:
        nearest, ones = pair[:1].copy(), np.ones(1)
        occupancy = mixed_occupancy(graph, nearest, ones, mdp.n_actions, mass)
        value = float((occupancy * c).sum())
        return Constrained(ConstrainedStatus.INFEASIBLE, value, np.inf, np.inf, nearest, ones, occupancy, 1, shortfall)
    floor = min(float(floor), ceiling)
    rewards = np.array([ceiling, np.nan])
    share, value, bound, multiplier, evaluations = search_multiplier(
        graph, parts, floor, slack, cost_slack, pair, rewards, mass,
        0.0, np.empty((0, 0, 0)), PRECISION, max_evaluations,
    )  # fmt: skip
    policies, weights = (pair[:1], np.ones(1)) if share == 1.0 else (pair[:2], np.array([share, 1.0 - share]))
    occupancy = mixed_occupancy(graph, policies, weights, mdp.n_actions, mass)
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
