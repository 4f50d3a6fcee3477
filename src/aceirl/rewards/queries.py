"""The member of the feasible set that is nearest, or furthest in a direction: questions to a linear programme."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from aceirl.counts import Estimate
from aceirl.errors import InputError
from aceirl.mdp import FloatArray, check_reward
from aceirl.rewards.feasible import TOLERANCE, Entry, FeasibleRewardSet, first_best
from aceirl.rewards.membership import Membership, contains
from aceirl.rewards.polytope import polished, programme
from aceirl.rewards.programme import EmptySetError, Programme, Solution, nearest_by_largest, nearest_by_sum
from aceirl.rewards.recovered import Recovered, infeasibility

Norm = Literal["l1", "linf"]
"""How far two rewards lie apart: the sum of all differences, or the largest."""


@dataclass(frozen=True, eq=False)
class Member:
    """A reward `[H, S, A]` of the set, found by a linear programme, and the evidence.

    `value` is what was asked for (the least distance, the largest product) at this reward; `bound` is what no member
    can beat. They agree, up to the solver's tolerance, where the expert is known everywhere. `membership` is what a
    backward induction, independent of the solver, says of the reward. `iterations` and `method` are the solver's.
    """

    reward: FloatArray
    value: float
    bound: float
    membership: Membership
    iterations: int
    method: str

    @property
    def gap(self) -> float:
        """How much better than `value` the best member may be."""
        return abs(self.value - self.bound)


def project(feasible: FeasibleRewardSet, reward: ArrayLike, norm: Norm = "l1") -> Member:
    """The nearest member, by the sum ("l1") or the largest ("linf") of the changes; a member is its own."""
    target = check_reward(reward, feasible.mdp.shape)
    if norm not in ("l1", "linf"):
        raise InputError(f"norm must be 'l1' or 'linf', got {norm!r}")
    inside = contains(feasible, target)
    if inside:
        return Member(target, 0.0, 0.0, inside, iterations=0, method="none")
    nearest = nearest_by_sum if norm == "l1" else nearest_by_largest

    def distance(other: FloatArray) -> float:
        change = np.abs(other - target)
        return float(change.sum() if norm == "l1" else change.max())

    return _member(feasible, lambda piece: nearest(programme(piece, np.zeros_like(target)), target), distance)


def projected(estimate: Estimate, recovered: Recovered, rmax: float, norm: Norm = "l1") -> Recovered:
    """The recovered reward moved to the nearest feasible one; of use after any IRL algorithm.

    It changes the reward least, where `irl.reproducing_answers` blends all of it; but it may leave the expert's actions
    tied with others, which the other puts ahead.
    """
    feasible = FeasibleRewardSet.of_estimate(estimate, rmax, recovered.unknown_step_reward)
    reward = project(feasible, recovered.reward, norm).reward
    return replace(
        recovered, reward=reward, infeasibility=infeasibility(estimate, reward, recovered.unknown_step_reward)
    )


def extreme(feasible: FeasibleRewardSet, direction: ArrayLike) -> Member:
    """The member that goes furthest in a direction `[H, S, A]`: the largest `⟨direction, r⟩`."""
    towards = check_reward(direction, feasible.mdp.shape, name="direction")
    size = float(np.abs(towards).max()) or 1.0
    found = _member(
        feasible,
        lambda piece: programme(piece, -towards / size).solve(),
        lambda reward: float(np.vdot(towards, reward)),
    )
    return replace(found, bound=-size * found.bound)


def interval(feasible: FeasibleRewardSet, step: int, state: int, action: int) -> tuple[float, float]:
    """The least and the largest reward that any member gives to one `(h, s, a)`.

    Without further bounds and unknown rows it is `[0, Rmax]`, since every constant reward is feasible; it says
    something once the set is `restricted`. Where the expert is not known everywhere it is an outer bound.
    """
    low, high = intervals(feasible, [(step, state, action)])[0]
    return float(low), float(high)


def intervals(feasible: FeasibleRewardSet, entries: Iterable[Entry]) -> FloatArray:
    """`[n, 2]`: the interval of each entry `(h, s, a)`."""
    base = programme(feasible, np.zeros(feasible.mdp.shape))
    return np.array([_interval(feasible, base, entry) for entry in entries]).reshape(-1, 2)


def least_slack(feasible: FeasibleRewardSet) -> float:
    """The least the expert loses from the start under any reward within the bounds.

    With less slack than that a set is empty. A lower bound on it where the expert is not known everywhere.
    """
    ample = feasible.with_slack(feasible.rmax * feasible.mdp.horizon)
    base = programme(ample, np.zeros(feasible.mdp.shape))
    return max(0.0, replace(base, cost=base.rows[[-1]].toarray()[0]).solve().objective)


def emptiness(feasible: FeasibleRewardSet) -> EmptySetError:
    """What to raise where a set turns out to be empty: the error says how much slack it needs."""
    return EmptySetError(
        "the set is empty: under every reward within the bounds the expert errs, and from the start it loses "
        f"{least_slack(feasible):.6g} or more; widen the bounds, or allow it that much slack"
    )


def _interval(feasible: FeasibleRewardSet, base: Programme, entry: Entry) -> tuple[float, float]:
    shape = feasible.mdp.shape
    if not all(0 <= index < size for index, size in zip(entry, shape, strict=True)):
        raise InputError(f"entry {list(entry)} is outside rewards of shape {list(shape)}")
    cost = np.zeros_like(base.cost)
    cost[np.ravel_multi_index(entry, shape)] = 1.0

    def least(cost: FloatArray) -> float:
        try:
            return replace(base, cost=cost).solve().objective
        except EmptySetError:
            raise emptiness(feasible) from None

    # A constant reward often attains an end, and to see that is a thousand times quicker than a linear programme.
    low, high = float(feasible.lower[entry]), float(feasible.upper[entry])
    return (
        low if contains(feasible, np.full(shape, low)) else least(cost),
        high if contains(feasible, np.full(shape, high)) else -least(-cost),
    )


def _member(
    feasible: FeasibleRewardSet, solve: Callable[[FeasibleRewardSet], Solution], value: Callable[[FloatArray], float]
) -> Member:
    """The solver's reward, made exact and judged by a backward induction.

    Where the expert is not known everywhere the first solution gives the bound. If it is no member, the expert is
    completed with what is best under it, and the second solution is one.
    """
    try:
        first = last = solve(feasible)
    except EmptySetError:
        raise emptiness(feasible) from None
    reward = polished(feasible, first.x)
    membership = contains(feasible, reward)
    if not membership and not feasible.known.all():
        best = first_best(feasible.action_values(reward), TOLERANCE * feasible.rmax)
        piece = feasible.completed(best)
        try:
            last = solve(piece)
        except EmptySetError:
            raise EmptySetError(
                "no member was found within the bounds, though there may be one: the expert is not known everywhere"
            ) from None
        reward = polished(piece, last.x)
        membership = contains(feasible, reward)
    return Member(reward, value(reward), first.objective, membership, last.iterations, last.method)
