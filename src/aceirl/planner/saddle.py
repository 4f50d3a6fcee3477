"""The exploration problem of AceIRL as a saddle point, solved by fictitious play with a certified gap.

    min over x of  max over μ̂ of   Σ μ̂[h,s,a] · ( weight[h,s,a] / sqrt(n + x)[h,s,a] + fixed[h,s,a] )

Paper, appendix "Computing the exploration policy". The adversary `μ̂` is an occupancy measure of the
model, or of the policy set `⟨r, μ̂⟩ ≥ v`. The explorer adds visits `x` to the counts `n`: `N_E` episodes of an occupancy
measure, or a budget of samples spread at will (TRAVEL). Counts are per step, or pooled over steps: then `x` is summed
over `h`.

**Method.** Fictitious play: in turn, each player answers the average of what the other has played (one backward and
one forward pass) and adds the answer to its own average. Answers are softened by a temperature that follows the gap
down, so that near-ties are played evenly instead of one after the other. An allocation of samples needs no averaging:
its best answer is known in closed form.

**Certificate.** Let `z = n + x`, and `ŵ = μ̄·weight` (summed over `h` if pooled) for the averaged adversary `μ̄`.

* `upper = max_μ̂ ⟨μ̂, weight/√z + fixed⟩`, the value of the adversary's best answer; with a policy set, the Lagrangian
  dual of it.
* For every price `p ≥ 0`, `ŵ/√z ≥ (3/2^{2/3})·ŵ^{2/3}·p^{1/3} - p·z`, the conjugate of `ŵ/√z`. Minimised over the
  explorer, `L(p) = Σ (3/2^{2/3})·ŵ^{2/3}·p^{1/3} - ⟨p, n⟩ - max_x ⟨p, x⟩ + ⟨μ̄, fixed⟩` is a lower bound, and the last
  maximum is the value of the explorer's best answer. With `p = ŵ·z^{-3/2}/2`, minus the gradient at `z`, this is the
  linear bound of Frank–Wolfe; the best multiple of that `p` gives `φ·sqrt(φ/2B) + ⟨μ̄, fixed⟩`, where
  `φ = ⟨ŵ, 1/√z⟩` and `B = ⟨p, n⟩ + max_x ⟨p, x⟩`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from aceirl.backends import Backend, uses_gpu
from aceirl.dynamic_programming import occupancy
from aceirl.errors import InputError
from aceirl.kernels import compiled
from aceirl.mdp import MDP, FloatArray, check_reward
from aceirl.planner.constrained import (
    add_occupancy,
    feasibility_slack,
    reward_ceiling,
    search_multiplier,
    values_of,
)
from aceirl.planner.passes import NOTHING, Actions, Cost, Graph, graph_of, push, respond

if TYPE_CHECKING:
    from aceirl.planner.gpu import Mixture

CHUNK = 2_000_000
"""How many entries the compiled loop handles before it lets Python look for an interrupt."""

SHARED = 60_000
"""From so many entries a step on, on average over the horizon, threads share the passes; see docs/planner.md."""

WARM_WEIGHT = 0.3
"""A start counts for this many iterations, over its relative gap in the new problem."""

SEARCH_LIMIT = 2
"""How many multipliers the adversary tries per iteration; its pair of policies carries over to the next."""

SEARCH_TOLERANCE = 0.1
"""The part of the gap asked for that is good enough for one answer of an adversary with a policy set."""

SOFT_ADVERSARY, SOFT_EXPLORER, SOFT_POWER = 1.0, 3.0, 0.7
"""The temperature of an answer is one of the first two, times the relative gap to this power; see docs/planner.md."""

LARGE, SOFTNESS_OF_LARGE = 1_000_000, 4.0
"""From so many entries on, answers begin that much softer; see docs/planner.md."""

COARSE, SOFTNESS_OF_COARSE = 0.04, 6.0
"""Softer still if the gap asked for is no smaller than this: that finds a rough plan sooner, and a fine one later."""

SOFTNESS_OF_ACTIONS = 3.0
"""Never softer than this times the logarithm of the number of actions: fewer need less, and get on worse with more."""

FIRST_CHECK, PROGRESS = 16, 1.4
"""From this iteration on, at every power of two, the gap must have shrunk by this factor or softness is halved."""


class SaddleStatus(Enum):
    """How a plan ended."""

    OPTIMAL = "optimal"
    """The relative gap is at most the tolerance."""
    LIMIT = "limit"
    """The iterations ran out; the bounds hold, the gap is larger than asked for."""


@dataclass(frozen=True)
class Episodes:
    """The explorer plays one policy for this many episodes: `x = number · μ` with `μ` an occupancy measure."""

    number: float


@dataclass(frozen=True)
class Samples:
    """The explorer spreads this many samples over the entries at will: `x ≥ 0`, `Σ x = number` (a generative model)."""

    number: float


@dataclass(frozen=True, eq=False)
class Separable:
    """A weight `steps[h] · entries[s, a]`, from `steps [H]` and `entries [S, A]`: nothing of size `H·S·A` is stored."""

    steps: FloatArray
    entries: FloatArray

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """The weight `[H, S, A]`."""
        return np.asarray(np.asarray(self.steps)[:, None, None] * np.asarray(self.entries), dtype=dtype)


@dataclass(frozen=True, eq=False)
class PolicySet:
    """The adversary's policies: those with `⟨reward, μ̂⟩ ≥ floor`; `reward [H, S, A]`."""

    reward: FloatArray
    floor: float


@dataclass(frozen=True, eq=False)
class SaddleStart:
    """What the next plan starts from: both players' policies `[H, S, A]`, all zero in a row where a player never is.

    They count for `weight` iterations at most. Only these three matter, so a plan made from a saved and reloaded start
    is the same bit for bit on the same machine. For samples, `explorer` is the allocation in the shape of the counts,
    and is not needed.
    """

    explorer: FloatArray
    adversary: FloatArray
    weight: float


@dataclass(frozen=True, eq=False)
class SaddlePlan:
    """The explorer's side of the saddle point, with its certificate `lower ≤ optimum ≤ upper`.

    `upper` is what this very plan guarantees. `policy [H, S, A]` is all zero in a row where the plan never is, and
    `reached [H, S]` says where it is; `occupancy [H, S, A]` is the policy's. For samples, `occupancy` is the allocation
    in the shape of the counts and `policy` is empty. `multiplier` is that of the policy set. `trace [iterations, 2]`
    holds the upper bound of every iteration and the best lower bound so far. A plan too large for a policy has a
    `mixture` instead; its `occupancy` is that of all steps together, `[S, A]`, and nothing can start from it.
    """

    status: SaddleStatus
    policy: FloatArray
    occupancy: FloatArray
    upper: float
    lower: float
    iterations: int
    multiplier: float
    trace: FloatArray
    start: SaddleStart
    mixture: Mixture | None = None

    @property
    def gap(self) -> float:
        """Relative gap `(upper - lower) / upper`; zero if nothing is uncertain."""
        return (self.upper - self.lower) / self.upper if self.upper > 0.0 else 0.0

    @property
    def reached(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """`[H, S]`: where the plan has an opinion."""
        return np.asarray(self.policy.any(axis=-1), dtype=np.bool_)


class Problem(NamedTuple):
    """What stays the same: `counts [H', S, A]`, `H' = 1` if pooled; `floor` is minus infinity without a policy set."""

    counts: FloatArray
    weight: FloatArray
    fixed: FloatArray
    reward: FloatArray
    floor: float
    slack: float
    number: float
    samples: bool


class State(NamedTuple):
    """What the iterations change, in place. Sums are over answers; an average is a sum over its total weight.

    `explored [H', S, A]` and `weighted [H', S, A]` sum `x/number` and `ŵ`; `explorer [H, S, A]` (the same array as
    `explored` if counts are per step) and `adversary [H, S, A]` sum the occupancies; `root` and `price [H', S, A]` are
    `1/√z` and `p`; `policy [H, S, A]` and `mass [H, S]` are the last answer. `pair` and `rewards` belong to the
    adversary's policy set, see `search_multiplier`. `totals` is indexed by the names below.
    """

    explored: FloatArray
    weighted: FloatArray
    explorer: FloatArray
    adversary: FloatArray
    root: FloatArray
    price: FloatArray
    policy: FloatArray
    mass: FloatArray
    pair: Actions
    rewards: FloatArray
    totals: FloatArray


EXPLORER, ADVERSARY, CONSTANT, LOWER, UPPER, MULTIPLIER, STEP, CHECKED, SOFTNESS, TOTALS = range(10)
"""Places in `totals`: weights of both sums, `Σ⟨μ̂, fixed⟩`, bounds, multiplier, iterations, gap checked, softness."""


@compiled
def set_root(problem: Problem, state: State) -> None:
    """`1/√(n + x)` for the averaged explorer."""
    counts, explored, root = problem.counts.ravel(), state.explored.ravel(), state.root.ravel()
    scale = problem.number / state.totals[EXPLORER]
    for i in range(counts.size):
        root[i] = 1.0 / np.sqrt(counts[i] + scale * explored[i])


@compiled
def set_price(problem: Problem, state: State) -> tuple[float, float]:
    """`p = ŵ·z^{-3/2}/2` for the averaged adversary; returns `(⟨ŵ, 1/√z⟩, ⟨p, n⟩)`."""
    counts, weighted = problem.counts.ravel(), state.weighted.ravel()
    root, price = state.root.ravel(), state.price.ravel()
    scale = 1.0 / state.totals[ADVERSARY]
    value, held = 0.0, 0.0
    for i in range(counts.size):
        here = scale * weighted[i] * root[i]
        p = 0.5 * here * root[i] * root[i]
        price[i] = p
        value += here
        held += p * counts[i]
    return value, held


@compiled
def add_answer(graph: Graph, problem: Problem, state: State, actions: Actions, share: float, adversary: bool) -> None:
    """Add `share` of an answer, `actions` or else `policy`, to the sums of a player; `mass` holds its distribution."""
    steps, n_states, n_actions = problem.counts.shape
    states, distribution, with_actions = graph.states, state.mass, actions.size > 0
    policy, weight, fixed = state.policy.ravel(), problem.weight.ravel(), problem.fixed.ravel()
    pooled, whole = (state.weighted, state.adversary) if adversary else (state.explored, state.explorer)
    separate, pooled, whole = whole.shape[0] > steps or adversary, pooled.ravel(), whole.ravel()
    constant = 0.0
    for h in range(distribution.shape[0]):
        layer = h * n_states * n_actions
        pool = layer if steps > 1 else 0
        for i in range(graph.first[h], graph.first[h + 1]):
            s = states[i]
            mass = share * distribution[h, s]
            if mass == 0.0:
                continue
            low, high = (actions[h, s], actions[h, s] + 1) if with_actions else (0, n_actions)
            for entry in range(s * n_actions + low, s * n_actions + high):
                flow = mass if with_actions else mass * policy[layer + entry]
                if flow == 0.0:
                    continue
                if separate:
                    whole[layer + entry] += flow
                pooled[pool + entry] += flow * weight[layer + entry] if adversary else flow
                if adversary and fixed.size:
                    constant += flow * fixed[layer + entry]
    state.totals[ADVERSARY if adversary else EXPLORER] += share
    state.totals[CONSTANT] += constant


@compiled
def upper_bound(graph: Graph, problem: Problem, state: State, temperature: float, tolerance: float) -> float:
    """The certificate's upper bound for the averaged explorer; the adversary's softened answer goes to `policy`."""
    cost = Cost(problem.weight, state.root, problem.fixed, problem.reward)
    if not np.isfinite(problem.floor):
        return respond(graph, cost, 0.0, temperature, state.pair[0, :0], state.policy)
    _, _, upper, state.totals[MULTIPLIER], _ = search_multiplier(
        graph, cost, problem.floor, problem.slack, 0.0, state.pair, state.rewards, state.mass,
        temperature, state.policy, SEARCH_TOLERANCE * tolerance, SEARCH_LIMIT,
    )  # fmt: skip
    return upper


@compiled
def add_adversary(graph: Graph, problem: Problem, state: State) -> None:
    """Add the adversary's answer to its sums, inside the policy set if there is one.

    What is softened need not meet the floor, or may stay above a floor that binds: mixed with the policy on the other
    side of the floor it meets it exactly.
    """
    n_actions, none = problem.counts.shape[2], state.pair[0, :0]
    push(graph, none, state.policy, n_actions, state.mass)
    share, other = 1.0, 0
    if np.isfinite(problem.floor):
        cost = Cost(NOTHING, state.root, NOTHING, problem.reward)
        reward = values_of(graph, cost, none, state.policy, state.mass)[1]
        if reward < problem.floor:
            share = mixing_share(state.rewards[0] - problem.floor, state.rewards[0] - reward, problem.slack)
        elif state.totals[MULTIPLIER] > 0.0 and state.rewards[1] < problem.floor:
            share, other = (problem.floor - state.rewards[1]) / (reward - state.rewards[1]), 1
    add_answer(graph, problem, state, none, share, True)
    if share < 1.0:
        push(graph, state.pair[other], state.policy, n_actions, state.mass)
        add_answer(graph, problem, state, state.pair[other], 1.0 - share, True)


@compiled
def mixing_share(spare: float, lacking: float, slack: float) -> float:
    """How much of an answer that lies below the floor may be mixed with one that has reward to `spare`.

    Where the two differ by no more than rounding, nothing of it: the other one meets the floor by itself.
    """
    return max(0.0, spare) / lacking if lacking > slack else 0.0


@compiled
def lower_bound(graph: Graph, problem: Problem, state: State, temperature: float) -> float:
    """The certificate's lower bound for both averages; the explorer's softened answer goes to `policy`."""
    value, held = set_price(problem, state)
    if problem.samples:
        gain = state.price.max()
    else:
        cost = Cost(NOTHING, state.price, NOTHING, NOTHING)
        gain = respond(graph, cost, 0.0, temperature, state.pair[0, :0], state.policy)
    total = held + problem.number * gain
    constant = float(state.totals[CONSTANT] / state.totals[ADVERSARY])
    return constant if total <= 0.0 else constant + value * float(np.sqrt(value / (2.0 * total)))


@compiled
def _fill(problem: Problem, state: State) -> None:
    """The best allocation against the averaged adversary: `n + x = max(n, κ·ŵ^{2/3})`, `κ` such that `Σ x = number`.

    `Σ max(0, κ·ŵ^{2/3} - n)` is convex and piecewise linear in `κ`, so Newton's method from above is finite. Where all
    counts are so large that the samples are lost in rounding, the differences are: what is left of them is stretched.
    """
    scale = 1.0 / state.totals[ADVERSARY]
    allocate(
        problem.counts.ravel(),
        state.weighted.ravel(),
        scale,
        problem.number,
        state.price.ravel(),
        state.explored.ravel(),
    )


@compiled
def allocate(
    counts: FloatArray, weighted: FloatArray, scale: float, number: float, level: FloatArray, explored: FloatArray
) -> None:
    """The allocation of `_fill`, as shares of the samples, to `explored`; all arrays are flat, `level` is room."""
    for i in range(counts.size):
        level[i] = np.cbrt(scale * weighted[i]) ** 2
    if level.max() == 0.0:
        explored[:] = 1.0 / counts.size
        return
    kappa = np.inf
    while True:
        held, slope = 0.0, 0.0
        for i in range(counts.size):
            if level[i] > 0.0 and kappa * level[i] > counts[i]:
                held += counts[i]
                slope += level[i]
        if slope == 0.0 or not (number + held) / slope < kappa:
            break
        kappa = (number + held) / slope
    total = 0.0
    for i in range(counts.size):
        explored[i] = max(0.0, kappa * level[i] - counts[i])
        total += explored[i]
    for i in range(counts.size):
        explored[i] = explored[i] / total if total > 0.0 else level[i] / level.sum()


@compiled
def softness_after(softness: float, step: int, checked: float, gap: float) -> tuple[float, float]:
    """The softness after an iteration with this gap, and the gap that the next check compares with.

    It is halved when twice the iterations have not brought the gap down: softened answers then hold it up.
    """
    if step >= FIRST_CHECK and step & (step - 1) == 0:
        return (0.5 * softness if gap > checked / PROGRESS else softness), gap
    return softness, checked


@compiled
def iterate(graph: Graph, problem: Problem, state: State, tolerance: float, trace: FloatArray) -> tuple[int, bool]:
    """Fictitious play for as many iterations as `trace` has rows, or until the gap is small; `(iterations, done)`.

    An iteration begins with the explorer's move, so that the last upper bound is that of the explorer returned. An
    allocation is exact against `μ̄`, hence bounded below before `μ̄` moves on; a policy is only a direction, and does
    better to answer what the adversary has just added.
    """
    totals, samples = state.totals, problem.samples
    for t in range(trace.shape[0]):
        upper, lower = totals[UPPER], totals[LOWER]
        gap = max(0.0, upper - lower) / upper if upper > 0.0 else 0.0  # rounding may put one above the other
        heat = totals[SOFTNESS] * gap**SOFT_POWER
        if samples and totals[ADVERSARY] > 0.0:
            _fill(problem, state)
        elif not samples and totals[STEP] > 0.0:
            push(graph, state.pair[0, :0], state.policy, problem.counts.shape[2], state.mass)
            add_answer(graph, problem, state, state.pair[0, :0], 1.0, False)
        set_root(problem, state)
        if samples and totals[ADVERSARY] > 0.0:
            lower = max(lower, lower_bound(graph, problem, state, 0.0))
        upper = upper_bound(graph, problem, state, SOFT_ADVERSARY * heat, tolerance)
        add_adversary(graph, problem, state)
        if not samples:
            lower = max(lower, lower_bound(graph, problem, state, SOFT_EXPLORER * heat))
        totals[LOWER], totals[UPPER] = lower, upper
        totals[STEP] += 1.0
        trace[t, 0], trace[t, 1] = upper, lower
        if upper - lower <= tolerance * upper:
            return t + 1, True
        gap = (upper - lower) / upper if upper > 0.0 else 0.0
        totals[SOFTNESS], totals[CHECKED] = softness_after(totals[SOFTNESS], int(totals[STEP]), totals[CHECKED], gap)
    return trace.shape[0], False


def solve_saddle(
    mdp: MDP,
    weight: ArrayLike,
    counts: ArrayLike,
    explorer: Episodes | Samples,
    *,
    fixed: ArrayLike | None = None,
    policies: PolicySet | None = None,
    tolerance: float = 0.01,
    max_iterations: int = 100_000,
    start: SaddleStart | None = None,
    backend: Backend = "auto",
) -> SaddlePlan:
    """Plan where to explore: the saddle point of this module, to a relative gap of `tolerance`.

    `weight [H, S, A] ≥ 0` and `fixed [H, S, A] ≥ 0` make the radius `weight/√(n + x) + fixed`; `counts > 0` are
    `[S, A]` if they are pooled over steps and `[H, S, A]` if not. Unknown rows of the model earn their entry and end
    the episode there. Without a `start` the explorer begins with uniform actions; with one, from an earlier plan's.

    The `backend` is "cpu", "gpu", or "auto": a large problem goes to the GPU if there is one. There, a `Separable`
    weight with pooled counts and all policies is planned without anything of size `H·S·A`; the plan is a `Mixture`.
    """
    if not 0.0 < tolerance < 1.0:
        raise InputError(f"tolerance must lie between 0 and 1, got {tolerance}")
    if max_iterations < 1:
        raise InputError(f"max_iterations must be at least 1, got {max_iterations}")
    _check_start(start, mdp, explorer)
    if uses_gpu(backend, math.prod(mdp.shape)):
        from aceirl.planner.gpu import solve_on_gpu

        return solve_on_gpu(mdp, weight, counts, explorer, fixed, policies, tolerance, max_iterations, start)
    problem = checked_problem(mdp, weight, counts, explorer, fixed, policies)
    graph = graph_of(mdp)
    if policies is not None:
        best = reward_ceiling(graph, problem.reward, np.zeros(mdp.shape[:2], dtype=np.int32), np.zeros(mdp.shape[:2]))
        problem = problem._replace(floor=attainable_floor(policies, best, problem.slack))
    if start is None:
        state = _cold_state(graph, problem, mdp, tolerance)
    else:
        state = _warm_state(graph, problem, mdp, start, tolerance)
    chunk = max(1, CHUNK // problem.weight.size)
    pieces: list[FloatArray] = []
    iterations, done = 0, False
    with _player(graph, problem) as play:
        while not done and iterations < max_iterations:
            piece = np.empty((min(chunk, max_iterations - iterations), 2))
            used, done = play(graph, problem, state, tolerance, piece)
            pieces.append(piece[:used])
            iterations += used
    status = SaddleStatus.OPTIMAL if done else SaddleStatus.LIMIT
    return _plan(problem, state, np.shape(counts), status, np.concatenate(pieces))


@contextmanager
def _player(graph: Graph, problem: Problem) -> Iterator[Callable[..., tuple[int, bool]]]:
    """`iterate`, or, where the steps of a problem are large, the same play shared by threads."""
    if graph.states.size * problem.counts.shape[2] < SHARED * problem.weight.shape[0]:
        yield iterate
        return
    from aceirl.planner.threads import Crew, available

    with Crew(graph, available()) as crew:
        yield crew.play


def _check_start(start: SaddleStart | None, mdp: MDP, explorer: Episodes | Samples) -> None:
    if start is None:
        return
    if start.adversary.shape != mdp.shape:
        raise InputError(f"start.adversary must have shape {list(mdp.shape)}, got {list(start.adversary.shape)}")
    if not (np.isfinite(start.weight) and start.weight > 0):
        raise InputError(f"start.weight must be a positive number, got {start.weight}")
    if isinstance(explorer, Episodes) and start.explorer.shape != mdp.shape:
        raise InputError(f"start.explorer must have shape {list(mdp.shape)}, got {list(start.explorer.shape)}")


def softness_of(shape: tuple[int, int, int], tolerance: float) -> float:
    """How soft the answers begin in a problem of `shape` `(H, S, A)`, planned to that gap."""
    if math.prod(shape) < LARGE:
        return 1.0
    softest = SOFTNESS_OF_COARSE if tolerance >= COARSE else SOFTNESS_OF_LARGE
    return max(1.0, min(softest, SOFTNESS_OF_ACTIONS * math.log(shape[2])))


def checked_problem(
    mdp: MDP,
    weight: ArrayLike,
    counts: ArrayLike,
    explorer: Episodes | Samples,
    fixed: ArrayLike | None,
    policies: PolicySet | None,
) -> Problem:
    """Everything checked and in its place, with the floor as it was given."""
    n = checked_counts(mdp, counts, explorer)
    w = _not_negative(weight, mdp, "weight")
    constant = NOTHING if fixed is None else _not_negative(fixed, mdp, "fixed")
    reward, floor, slack = NOTHING, -np.inf, 0.0
    if policies is not None:
        reward, floor = check_reward(policies.reward, mdp.shape), float(policies.floor)
        slack = feasibility_slack(reward, floor)
    return Problem(n, w, constant, reward, floor, slack, float(explorer.number), isinstance(explorer, Samples))


def checked_counts(mdp: MDP, counts: ArrayLike, explorer: Episodes | Samples) -> FloatArray:
    """`counts [1 or H, S, A]`, after a look at them, at the explorer and at the start."""
    n = np.asarray(counts, dtype=np.float64)
    if n.shape not in (mdp.shape, mdp.shape[1:]):
        raise InputError(f"counts must have shape {list(mdp.shape)} or {list(mdp.shape[1:])}, got {list(n.shape)}")
    if not (np.isfinite(n).all() and (n > 0).all()):
        raise InputError("counts must be finite and positive")
    if not (np.isfinite(explorer.number) and explorer.number > 0):
        raise InputError(f"the explorer's number must be positive, got {explorer.number}")
    if mdp.initial.sum() == 0:
        raise InputError("initial sums to 0, not to 1")
    n = np.ascontiguousarray(n).reshape(-1, *mdp.shape[1:])
    n.flags.writeable = False
    return n


def attainable_floor(policies: PolicySet, best: float, slack: float) -> float:
    """The floor of a policy set that is not empty; one that rounding puts above the best value is that value."""
    if policies.floor - best > slack:
        raise InputError(f"the policy set is empty: its floor {policies.floor:.9g} is above the best value {best:.9g}")
    return min(float(policies.floor), best)


def _not_negative(array: ArrayLike, mdp: MDP, name: str) -> FloatArray:
    checked = check_reward(array, mdp.shape, name)
    if (checked < 0).any():
        index = [int(i) for i in np.argwhere(checked < 0)[0]]
        raise InputError(f"{name}{index} is {checked[tuple(index)]}, but must not be negative")
    return checked


def _empty_state(graph: Graph, problem: Problem, mdp: MDP, tolerance: float) -> State:
    """Sums of nothing; with a policy set, the pair holds the best policy for its reward, which meets every floor."""
    shape, part = mdp.shape, problem.counts.shape
    explored = np.zeros(part)
    separate = part[0] == 1 and shape[0] > 1
    explorer = explored if not separate else np.zeros((0, 0, 0) if problem.samples else shape)
    state = State(
        explored=explored,
        weighted=np.zeros(part),
        explorer=explorer,
        adversary=np.zeros(shape),
        root=np.empty(part),
        price=np.empty(part),
        policy=np.empty(shape),
        mass=np.zeros(shape[:2]),
        pair=np.zeros((3, *shape[:2]), dtype=np.int32),
        rewards=np.full(2, np.nan),
        totals=np.zeros(TOTALS),
    )
    state.totals[UPPER] = state.totals[CHECKED] = 1.0
    state.totals[SOFTNESS] = softness_of(shape, tolerance)
    if np.isfinite(problem.floor):
        state.rewards[0] = reward_ceiling(graph, problem.reward, state.pair[0], state.mass)
    return state


def _cold_state(graph: Graph, problem: Problem, mdp: MDP, tolerance: float) -> State:
    """The explorer begins with uniform actions, or with a uniform allocation."""
    state = _empty_state(graph, problem, mdp, tolerance)
    if problem.samples:
        state.explored[:] = 1.0 / problem.counts.size
    else:
        _set_explorer(problem, state, occupancy(mdp, np.full(mdp.shape, 1.0 / mdp.n_actions)))
    state.totals[EXPLORER] = 1.0
    return state


def _set_explorer(problem: Problem, state: State, mu: FloatArray) -> None:
    """Let the explorer's sums be one answer of occupancy `mu`."""
    state.explorer[:] = mu
    if state.explorer is not state.explored:
        np.sum(mu, axis=0, keepdims=True, out=state.explored)
    state.totals[EXPLORER] = 1.0


def _warm_state(graph: Graph, problem: Problem, mdp: MDP, start: SaddleStart, tolerance: float) -> State:
    """Both players begin with an earlier plan's policies, followed through this model.

    The gap of fictitious play falls like one over its iterations, so a start counts for as many as its gap suggests.
    """
    state = _cold_state(graph, problem, mdp, tolerance)
    if not problem.samples:
        _set_explorer(problem, state, occupancy(mdp, completed(start.explorer)))
    _set_adversary(graph, problem, state, mdp, completed(start.adversary))
    if problem.samples:
        _fill(problem, state)
    set_root(problem, state)
    upper, lower = upper_bound(graph, problem, state, 0.0, tolerance), lower_bound(graph, problem, state, 0.0)
    state.totals[UPPER], state.totals[LOWER] = upper, max(0.0, lower)
    weight = starting_weight(start.weight, upper, lower)
    if not problem.samples:
        for array in {id(state.explored): state.explored, id(state.explorer): state.explorer}.values():
            array *= weight
        state.totals[EXPLORER] *= weight
    for array in (state.adversary, state.weighted, state.totals[ADVERSARY : CONSTANT + 1]):
        array *= weight
    return state


def starting_weight(weight: float, upper: float, lower: float) -> float:
    """For how many iterations a start counts whose bounds in the new problem are these."""
    return min(weight, max(1.0, WARM_WEIGHT * upper / (upper - lower))) if lower < upper else weight


def completed(policy: FloatArray) -> FloatArray:
    """Uniform actions where a policy has no opinion."""
    missing = ~policy.any(axis=-1, keepdims=True)
    return np.where(missing, 1.0 / policy.shape[-1], policy)


def _set_adversary(graph: Graph, problem: Problem, state: State, mdp: MDP, policy: FloatArray) -> None:
    """Let the adversary's sums be this policy, mixed with the reward's best one until it meets the model's floor."""
    mu = occupancy(mdp, policy)
    if np.isfinite(problem.floor):
        reward, ceiling = float(np.vdot(mu, problem.reward)), state.rewards[0]
        share = (
            1.0 if reward >= problem.floor else mixing_share(ceiling - problem.floor, ceiling - reward, problem.slack)
        )
        mu *= share
        push(graph, state.pair[0], state.policy, mdp.n_actions, state.mass, None)
        add_occupancy(graph, state.pair[0], state.mass, 1.0 - share, mu)
    state.adversary[:] = mu
    mu *= problem.weight
    state.weighted[:] = mu if problem.counts.shape[0] == mdp.horizon else mu.sum(axis=0)
    state.totals[ADVERSARY] = 1.0
    if problem.fixed.size:
        state.totals[CONSTANT] = float(np.vdot(state.adversary, problem.fixed))


def policy_of(occupancy: FloatArray) -> FloatArray:
    """`μ(a|s)`, all zero where the occupancy is."""
    mass = occupancy.sum(axis=-1, keepdims=True)
    policy: FloatArray = np.divide(occupancy, mass, out=np.zeros_like(occupancy), where=mass > 0)
    return policy


def _plan(
    problem: Problem, state: State, shape: tuple[int, ...], status: SaddleStatus, trace: FloatArray
) -> SaddlePlan:
    """The averages as policies; an allocation in the shape of the counts."""
    samples = problem.samples
    if samples:
        mu, policy = (problem.number * state.explored).reshape(shape), np.zeros((0, 0, 0))
    else:
        mu = state.explorer / state.totals[EXPLORER]
        policy = policy_of(mu)
    start = SaddleStart(
        explorer=mu if samples else policy, adversary=policy_of(state.adversary), weight=float(len(trace))
    )
    for array in (mu, policy, trace, start.adversary):
        array.flags.writeable = False
    upper, lower, multiplier = (float(state.totals[place]) for place in (UPPER, LOWER, MULTIPLIER))
    return SaddlePlan(status, policy, mu, upper, lower, len(trace), multiplier, trace, start)
