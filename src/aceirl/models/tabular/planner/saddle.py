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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.models.tabular.backends import Backend, uses_gpu
from aceirl.models.tabular.mdp import MDP, FloatArray, check_reward
from aceirl.models.tabular.planner.constrained import feasibility_slack
from aceirl.models.tabular.planner.passes import (
    EXPLORER,
    LOWER,
    MULTIPLIER,
    NOTHING,
    SOFTNESS,
    UPPER,
    Graph,
    Model,
    SaddleProblem,
    SaddleState,
    empty_state,
    graph_of,
)
from aceirl.models.tabular.planner.play import begin, begin_from, iterate, reward_ceiling

if TYPE_CHECKING:
    from aceirl.models.tabular.planner.gpu import Mixture

CHUNK = 2_000_000
"""How many entries the compiled loop handles before it lets Python look for an interrupt."""

SHARED = 60_000
"""From so many entries a step on, on average over the horizon, threads share the passes; see docs/planner.md."""

LARGE, SOFTNESS_OF_LARGE = 1_000_000, 4.0
"""From so many entries on, answers begin that much softer; see docs/planner.md."""

COARSE, SOFTNESS_OF_COARSE = 0.04, 6.0
"""Softer still if the gap asked for is no smaller than this: that finds a rough plan sooner, and a fine one later."""

SOFTNESS_OF_ACTIONS = 3.0
"""Never softer than this times the logarithm of the number of actions: fewer need less, and get on worse with more."""


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
    with _prepared(mdp, weight, counts, explorer, fixed, policies, start, backend) as (model, problem, state):
        state.totals[SOFTNESS] = softness_of(mdp.shape, tolerance)
        if policies is not None:
            best = reward_ceiling(model, problem, state)
            problem = problem._replace(floor=_attainable_floor(policies, best, problem.slack))
        if start is None:
            begin(model, problem, state)
        else:
            players = _completed(start.explorer), _completed(start.adversary)
            begin_from(model, problem, state, *players, start.weight, tolerance)
        pieces, iterations, done = [], 0, False
        while not done and iterations < max_iterations:
            piece = np.empty((min(max(1, CHUNK // problem.weight.size), max_iterations - iterations), 2))
            used, done = iterate(model, problem, state, tolerance, piece)
            pieces.append(piece[:used])
            iterations += used
        state, mixture = (state, None) if isinstance(model, Graph) else model.results(state)
    status = SaddleStatus.OPTIMAL if done else SaddleStatus.LIMIT
    return _plan(problem, state, np.shape(counts), status, np.concatenate(pieces), mixture)


@contextmanager
def _prepared(
    mdp: MDP,
    weight: ArrayLike,
    counts: ArrayLike,
    explorer: Episodes | Samples,
    fixed: ArrayLike | None,
    policies: PolicySet | None,
    start: SaddleStart | None,
    backend: Backend,
) -> Iterator[tuple[Model, SaddleProblem, SaddleState]]:
    """The model that the problem is played over, the problem and an empty state, where that model wants them."""
    if uses_gpu(backend, math.prod(mdp.shape)):
        from aceirl.models.tabular.planner.gpu import on_gpu

        free = fixed is None and policies is None and start is None
        if free and isinstance(weight, Separable) and isinstance(explorer, Episodes) and np.ndim(counts) == 2:
            yield on_gpu(mdp, _separable_problem(mdp, weight, counts, explorer), weight.steps)
        else:
            yield on_gpu(mdp, _checked_problem(mdp, weight, counts, explorer, fixed, policies))
        return
    problem = _checked_problem(mdp, weight, counts, explorer, fixed, policies)
    graph, state = graph_of(mdp), empty_state(problem, mdp.shape)
    if graph.states.size * mdp.n_actions < SHARED * mdp.horizon:
        yield graph, problem, state
        return
    from aceirl.models.tabular.planner.threads import ThreadPool, available

    with ThreadPool(graph, available()) as pool:
        yield pool, problem, state


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


def _checked_problem(
    mdp: MDP,
    weight: ArrayLike,
    counts: ArrayLike,
    explorer: Episodes | Samples,
    fixed: ArrayLike | None,
    policies: PolicySet | None,
) -> SaddleProblem:
    """Everything checked and in its place, with the floor as it was given."""
    n = _checked_counts(mdp, counts, explorer)
    w = _not_negative(weight, mdp, "weight")
    constant = NOTHING if fixed is None else _not_negative(fixed, mdp, "fixed")
    reward, floor, slack = NOTHING, -np.inf, 0.0
    if policies is not None:
        reward, floor = check_reward(policies.reward, mdp.shape), float(policies.floor)
        slack = feasibility_slack(reward, floor)
    return SaddleProblem(
        n, w, constant, reward, floor, slack, 0.0, float(explorer.number), isinstance(explorer, Samples)
    )


def _separable_problem(mdp: MDP, weight: Separable, counts: ArrayLike, explorer: Episodes) -> SaddleProblem:
    """That of all policies, with the entries of a separable weight `[1, S, A]`; nothing has the size `H·S·A`."""
    n = _checked_counts(mdp, counts, explorer)
    entries = check_reward(weight.entries, (1, *mdp.shape[1:]), "weight.entries")
    steps = np.asarray(weight.steps, dtype=np.float64)
    if steps.shape != mdp.shape[:1] or not (steps >= 0).all() or (entries < 0).any():
        raise InputError(f"a separable weight has {mdp.horizon} steps and entries [S, A], none of them negative")
    return SaddleProblem(n, entries, NOTHING, NOTHING, -math.inf, 0.0, 0.0, float(explorer.number), False)


def _checked_counts(mdp: MDP, counts: ArrayLike, explorer: Episodes | Samples) -> FloatArray:
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


def _attainable_floor(policies: PolicySet, best: float, slack: float) -> float:
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


def _completed(policy: FloatArray) -> FloatArray:
    """Uniform actions where a policy has no opinion."""
    missing = ~policy.any(axis=-1, keepdims=True)
    return np.where(missing, 1.0 / policy.shape[-1], policy)


def _policy_of(occupancy: FloatArray) -> FloatArray:
    """`μ(a|s)`, all zero where the occupancy is."""
    mass = occupancy.sum(axis=-1, keepdims=True)
    policy: FloatArray = np.divide(occupancy, mass, out=np.zeros_like(occupancy), where=mass > 0)
    return policy


def _plan(
    problem: SaddleProblem,
    state: SaddleState,
    shape: tuple[int, ...],
    status: SaddleStatus,
    trace: FloatArray,
    mixture: Mixture | None,
) -> SaddlePlan:
    """The averages as policies, or as a mixture; an allocation in the shape of the counts."""
    policy = np.zeros((0, 0, 0))
    if problem.samples:
        mu = (problem.number * state.explored).reshape(shape)
    elif mixture is not None:
        mu = mixture.visits
    else:
        mu = state.explorer / state.totals[EXPLORER]
        policy = _policy_of(mu)
    explorer, adversary = mu if problem.samples else policy, _policy_of(state.adversary)
    for array in (mu, policy, trace, adversary):
        array.flags.writeable = False
    upper, lower, multiplier = (float(state.totals[place]) for place in (UPPER, LOWER, MULTIPLIER))
    start = SaddleStart(explorer, adversary, float(len(trace)))
    return SaddlePlan(status, policy, mu, upper, lower, len(trace), multiplier, trace, start, mixture)
