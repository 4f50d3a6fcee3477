"""Rivals against the truth of small problems: what their own papers state, as numbers that can be counted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.optimize import linprog

from aceirl.bench.rivals.caty_irl import Compatibility, noncompatibility
from aceirl.bench.rivals.pirlo import possibly, surely
from aceirl.bench.rivals.rlp import pessimistic
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.irl.belief import Plan, Target
from aceirl.models.tabular.confidence import FAMILIES, adaptive
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import evaluate, greedy_actions, occupancy, optimal_values
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import MDP, FloatArray
from aceirl.rewards import FeasibleRewardSet, expert_loss
from studies.adversaries import Case
from studies.collecting import collected
from studies.soundness import belief_of, estimate

ROUNDING = 1e-9


def small_case(rng: np.random.Generator, shape: tuple[int, int, int] = (4, 4, 2)) -> Case:
    """Dense rows, one start, and an expert that is optimal for some reward."""
    horizon, n_states, n_actions = shape
    rows = rng.dirichlet(np.ones(n_states), (n_states, n_actions))
    mdp = MDP.from_dense(rows, initial=0, horizon=horizon)
    return Case(mdp, greedy_actions(optimal_values(mdp, rng.random(shape))[0], rng))


def sampled(case: Case, times: int, rng: np.random.Generator) -> Estimate:
    """What is known after so many samples of each `(h, s, a)`, and an answer everywhere."""
    moves = Simulator(case.mdp).sample_many(np.full(case.mdp.shape, times), rng)
    counts = Counts.of_moves(moves, case.mdp.shape)
    return estimate(case, counts.with_answers(np.eye(case.mdp.n_actions, dtype=np.int64)[case.actions]))


def walked(case: Case, policy: FloatArray, episodes: int, rng: np.random.Generator) -> Estimate:
    """What is known after so many episodes of a policy `[H, S, A]`, with the expert asked along the way."""
    seen = collected(
        Simulator(case.mdp),
        PolicyExpert(case.actions, case.mdp.shape),
        Plan(policy=policy),
        episodes,
        Counts.empty(case.mdp.shape),
        rng,
    )
    return estimate(case, seen.counts)


# US-IRL: the distance between two feasible sets.


def vertices(feasible: FeasibleRewardSet) -> FloatArray:
    """`[N, H, S, A]`: all vertices of the feasible set of a deterministic expert; for a handful of rewards only."""
    mdp, size, slopes = feasible.mdp, feasible.uses.size, _slopes(feasible)
    found = []
    for n_free in range(min(size, len(slopes)) + 1):
        for free in map(list, combinations(range(size), n_free)):
            held = np.setdiff1d(np.arange(size), free)
            ends = feasible.rmax * np.array(list(product((0.0, 1.0), repeat=len(held))))
            for tight in map(list, combinations(range(len(slopes)), n_free)):
                square = slopes[tight][:, free]
                if n_free and abs(np.linalg.det(square)) < ROUNDING:
                    continue
                points = np.empty((len(ends), size))
                points[:, held] = ends
                points[:, free] = -np.linalg.solve(square, slopes[tight][:, held] @ ends.T).T
                inside = (points >= -1e-7) & (points <= feasible.rmax + 1e-7)
                found.append(points[inside.all(axis=1) & (points @ slopes.T <= 1e-7).all(axis=1)])
    unique = np.unique(np.round(np.concatenate(found), 7), axis=0)
    return np.asarray(unique.reshape(-1, *mdp.shape))


def _slopes(feasible: FeasibleRewardSet) -> FloatArray:
    """`[declined, H·S·A]`: `Q - V` of each action that the expert declines, linear in the reward; at most zero."""
    rows = []
    for unit in np.eye(feasible.uses.size).reshape(-1, *feasible.mdp.shape):
        q, v = evaluate(feasible.mdp, unit, feasible.expert_policy)
        rows.append((q - v[:, :, None])[~feasible.uses])
    return np.array(rows).T


def hausdorff(one: FeasibleRewardSet, other: FeasibleRewardSet) -> float:
    """The Hausdorff distance of two feasible sets by the largest difference of two rewards, exact.

    The distance to a convex set is convex, so it is largest at a vertex; each is one linear programme.
    """
    return max(_directed(one, other), _directed(other, one))


def _directed(one: FeasibleRewardSet, other: FeasibleRewardSet) -> float:
    slopes, size = _slopes(other), other.uses.size
    each, z = np.eye(size), -np.ones((size, 1))
    rows = np.block([[slopes, np.zeros((len(slopes), 1))], [each, z], [-each, z]])
    largest = 0.0
    for vertex in vertices(one).reshape(-1, size):
        limits = np.concatenate([np.zeros(len(slopes)), vertex, -vertex])
        bounds = [*[(0.0, other.rmax)] * size, (0.0, None)]
        largest = max(largest, linprog(np.append(np.zeros(size), 1.0), rows, limits, bounds=bounds).fun)
    return largest


# RLP: pessimism.


@dataclass(frozen=True)
class Pessimism:
    """How a pessimistic reward fared: the most by which it is too high anywhere, which should not be positive; the
    distance `d^π` of the paper on the true optimal policy; and what planning with it loses, which that should bound."""

    too_high: float
    distance: float
    regret: float


def pessimism(case: Case, known: Estimate, rng: np.random.Generator, delta: float) -> Pessimism:
    """The reward of random parameters in the true process against the pessimistic one of the estimate."""
    mdp = case.mdp
    advantage = np.where(case.used, 0.0, rng.random(mdp.shape))
    values = rng.random(mdp.shape[:2]) * np.arange(mdp.horizon, 0, -1.0)[:, None]
    later = np.concatenate([values[1:], np.zeros((1, mdp.n_states))])
    true = values[:, :, None] - mdp.transitions.expect(later) - advantage
    found = pessimistic(known, values, advantage, delta)
    best = np.eye(mdp.n_actions)[optimal_values(mdp, true)[0].argmax(axis=2)]
    here = occupancy(mdp, best).sum(axis=2)
    apart = np.abs(evaluate(mdp, true, best)[1] - evaluate(mdp, found, best)[1])
    planned = np.eye(mdp.n_actions)[optimal_values(mdp, found)[0].argmax(axis=2)]
    regret = mdp.initial @ (optimal_values(mdp, true)[1][0] - evaluate(mdp, true, planned)[1][0])
    return Pessimism(float((found - true).max()), float((here * apart).sum(axis=1).max()), float(regret))


# CATY-IRL: compatibility.


def compatibility_error(case: Case, known: Estimate, rng: np.random.Generator, rewards: int = 30) -> float:
    """The largest `|C(r) - Ĉ(r)|` found over random rewards in `[0, 1]`, most of them at the corners."""
    truth = FeasibleRewardSet.of_problem(case.mdp, case.actions, 1.0)
    tried = [rng.random(case.mdp.shape) for _ in range(rewards // 3)]
    tried += [rng.integers(0, 2, case.mdp.shape).astype(np.float64) for _ in range(rewards // 3)]
    paid = [rng.integers(0, 2, case.mdp.n_states).astype(np.float64) for _ in range(rewards - len(tried))]
    tried += [np.broadcast_to(states[:, None], case.mdp.shape) for states in paid]
    return max(abs(expert_loss(truth, reward) - noncompatibility(known, reward, 1.0)) for reward in tried)


def compatibility_promise(known: Estimate, delta: float) -> float:
    """What the certificate says of that error."""
    target = Target(0.1 * known.mdp.horizon, delta, 1.0)
    return Compatibility().value(belief_of(known, FAMILIES["adaptive"], target=target))


# PIRLO: sub- and superset.


@dataclass(frozen=True)
class Inclusion:
    """Of some rewards: how many are feasible, how many of those the superset holds, and how many the subset does, in
    all and among the feasible ones."""

    feasible: int
    possible: int
    sure: int
    sure_and_feasible: int


def inclusion(case: Case, known: Estimate, rng: np.random.Generator, rewards: int, delta: float) -> Inclusion:
    """Random rewards, some of which put the expert far ahead: in the true set, in the subset, in the superset."""
    tv_radius = adaptive(known, 1.0, delta).tv_radius
    truth = FeasibleRewardSet.of_problem(case.mdp, case.actions, 1.0)
    tried = (leaning(case, rng) for _ in range(rewards))
    found = [
        (
            expert_loss(truth, reward) <= ROUNDING,
            possibly(known, tv_radius, reward, 1.0) >= -ROUNDING,
            surely(known, tv_radius, reward, 1.0) >= ROUNDING,
        )
        for reward in tried
    ]
    feasible, possible, sure = np.array(found).T
    return Inclusion(
        int(feasible.sum()), int((feasible & possible).sum()), int(sure.sum()), int((sure & feasible).sum())
    )


def leaning(case: Case, rng: np.random.Generator) -> FloatArray:
    """A random reward that leans towards what the expert does, more or less."""
    lean = rng.random()
    return lean * case.used + (1 - lean) * rng.random(case.mdp.shape)
