"""The member of the feasible set that is nearest, or furthest in a direction: questions to a linear programme."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import BoolArray, FloatArray
from aceirl.rewards.feasible import Entry, FeasibleRewardSet
from aceirl.rewards.membership import Membership, contains
from aceirl.rewards.polytope import polished, programme, unit_reward
from aceirl.rewards.programme import EmptySetError, Programme, Repeated, Solution, nearest_by_largest, nearest_by_sum
from aceirl.rewards.recovered import Recovered, infeasibility

Norm = Literal["l1", "linf"]
"""How far two rewards lie apart: the sum of all differences, or the largest."""

NARROW = 0.1
"""A parameter is determined if its interval in the normalised set is at most this wide."""


@dataclass(frozen=True, eq=False)
class Member:
    """A reward of the set, `[H, S, A]`, found by a linear programme, its parameters `theta`, and the evidence.

    `value` is what was asked for (the least distance, the largest product) at these parameters; `bound` is what no
    member can beat. They agree, up to the solver's tolerance, where the expert is known everywhere. `membership` is
    what a backward induction, independent of the solver, says of it. `iterations` and `method` are the solver's.
    """

    reward: FloatArray
    theta: FloatArray
    value: float
    bound: float
    membership: Membership
    iterations: int
    method: str

    @property
    def gap(self) -> float:
        """How much better than `value` the best member may be."""
        return abs(self.value - self.bound)


def project(feasible: FeasibleRewardSet, theta: ArrayLike, norm: Norm = "l1") -> Member:
    """The nearest member, by the sum ("l1") or the largest ("linf") of the changes; a member is its own."""
    target = feasible.checked(theta)
    if norm not in ("l1", "linf"):
        raise InputError(f"norm must be 'l1' or 'linf', got {norm!r}")
    inside = contains(feasible, target)
    if inside:
        return Member(feasible.table(target), target, 0.0, 0.0, inside, iterations=0, method="none")
    nearest = nearest_by_sum if norm == "l1" else nearest_by_largest

    def distance(other: FloatArray) -> float:
        change = np.abs(other - target)
        return float(change.sum() if norm == "l1" else change.max())

    return _member(feasible, lambda piece: nearest(programme(piece), target), distance)


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
    """The member that goes furthest in a direction, of the shape of parameters: the largest `⟨direction, θ⟩`."""
    towards = feasible.checked(direction, "direction")
    size = float(np.abs(towards).max()) or 1.0
    found = _member(
        feasible,
        lambda piece: programme(piece, -towards / size).solve(),
        lambda theta: float(np.vdot(towards, theta)),
    )
    return replace(found, bound=-size * found.bound)


def interval(feasible: FeasibleRewardSet, step: int, state: int, action: int) -> tuple[float, float]:
    """The least and the largest reward that any member gives to one `(h, s, a)`.

    Without further bounds and unknown rows it is `[0, Rmax]`, since every constant reward is feasible; it says
    something once the set is `restricted`. Where the expert is not known everywhere it is an outer bound.
    """
    low, high = intervals(feasible, [(step, state, action)])[0]
    return float(low), float(high)


def intervals(feasible: FeasibleRewardSet, entries: Iterable[Entry] | None = None) -> FloatArray:
    """`[n, 2]`: the least and the largest value that any member gives to each parameter, or to these entries.

    Entries `(h, s, a)` are those of a table. Where the expert is not known everywhere these are outer bounds.
    """
    if entries is not None:
        feasible.require_tables("an entry")
        base = programme(feasible)
        return np.array([_interval(feasible, base, entry) for entry in entries]).reshape(-1, 2)
    found = np.stack((feasible.upper.ravel(), feasible.lower.ravel()), axis=1)
    _widen(feasible, found, Repeated(programme(feasible)))
    return found


def normalised_intervals(feasible: FeasibleRewardSet) -> FloatArray:
    """`[n, 2]`: the same for the members of a space whose smallest parameter is zero and whose largest is one.

    That leaves out constant rewards, which explain everything. It is a union of polytopes, one for each parameter that
    may be the largest and each that may be the smallest, so there may be `n²` of them.
    """
    found = np.tile([1.0, 0.0], (feasible.design.n_parameters, 1))
    base = _of_normalised(feasible)
    for largest in largest_parameters(feasible):
        for smallest in range(len(found)):
            piece = feasible.normalised(largest, smallest)
            try:
                if smallest != largest:
                    _widen(piece, found, base.within(piece.lower, piece.upper))
            except EmptySetError:
                continue
    if (found[:, 0] > found[:, 1]).any():
        raise emptiness(feasible)
    return found


def determined(feasible: FeasibleRewardSet, narrow: float = NARROW) -> BoolArray:
    """`[n]`: the parameters whose interval in the normalised set is narrow."""
    low, high = normalised_intervals(feasible).T
    return np.asarray(high - low <= narrow)


def largest_parameters(feasible: FeasibleRewardSet) -> list[int]:
    """The parameters that may be the largest: with one there, and zero somewhere, there is a member in `[0, 1]`.

    Outer too: where the expert is not known everywhere, some of them may not be.
    """
    base = _of_normalised(feasible)
    return [k for k in range(feasible.design.n_parameters) if _may_be_largest(feasible.normalised(k), base)]


def least_slack(feasible: FeasibleRewardSet) -> float:
    """The least the expert loses from the start under any reward within the bounds.

    With less slack than that a set is empty. A lower bound on it where the expert is not known everywhere.
    """
    base = programme(replace(feasible, tolerance=0.0, slack=2 * feasible.largest_reward * feasible.mdp.horizon))
    least = replace(base, cost=base.rows[[-1]].toarray()[0]).solve().objective
    return unit_reward(feasible) * max(0.0, least)


def emptiness(feasible: FeasibleRewardSet) -> EmptySetError:
    """What to raise where a set turns out to be empty; of tables the error says how much slack it needs."""
    if not feasible.design.free:
        return EmptySetError(
            "no reward of the space within the bounds explains all answers; allow a tolerance or a slack"
        )
    return EmptySetError(
        "the set is empty: under every reward within the bounds the expert errs, and from the start it loses "
        f"{least_slack(feasible):.6g} or more; widen the bounds, or allow it that much slack"
    )


def solved(feasible: FeasibleRewardSet, base: Repeated, cost: FloatArray) -> FloatArray:
    """`[n]`: the parameters at an optimal vertex for a cost `[n]`, within their bounds."""
    try:
        return polished(feasible, base.solve(cost).x)
    except EmptySetError:
        raise emptiness(feasible) from None


def _of_normalised(feasible: FeasibleRewardSet) -> Repeated:
    """The programme of all members in `[0, 1]`, for those of each largest parameter."""
    return Repeated(
        programme(replace(feasible, lower=np.zeros_like(feasible.lower), upper=np.ones_like(feasible.upper)))
    )


def _widen(feasible: FeasibleRewardSet, found: FloatArray, base: Repeated) -> None:
    """Widen intervals `[n, 2]`, in place, to what members reach; ends that are bounds need no further look."""
    n, lower, upper = len(found), feasible.lower.ravel(), feasible.upper.ravel()

    def look(cost: FloatArray) -> None:
        theta = solved(feasible, base, cost).ravel()
        found[:, 0], found[:, 1] = np.minimum(found[:, 0], theta), np.maximum(found[:, 1], theta)

    look(np.ones(n))
    for k in range(n):
        if found[k, 0] > lower[k]:
            look(np.eye(1, n, k)[0])
        if found[k, 1] < upper[k]:
            look(-np.eye(1, n, k)[0])


def _may_be_largest(piece: FeasibleRewardSet, anything: Repeated) -> bool:
    """Whether there is a member in `[0, 1]`, one of whose parameters is fixed at one, with zero somewhere."""
    n, allowed, base = piece.design.n_parameters, 1e-6, anything.within(piece.lower, piece.upper)
    try:
        theta = base.solve(np.ones(n)).x[:n]
    except EmptySetError:
        return False
    # No parameter can be further from one than all of them together.
    if (1 - theta).sum() < 1 - allowed:
        return False
    order = np.argsort(theta, kind="stable").tolist()
    return bool(theta.min() <= allowed) or any(base.solve(np.eye(1, n, k)[0]).objective <= allowed for k in order)


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
    """The solver's parameters, made exact and judged by a backward induction.

    Where the expert is not known everywhere the first solution gives the bound. If it is no member, the expert is
    completed with what is best under it, and the second solution is one.
    """
    try:
        first = last = solve(feasible)
    except EmptySetError:
        raise emptiness(feasible) from None
    theta = polished(feasible, first.x)
    membership = contains(feasible, theta)
    if not membership and not feasible.known.all():
        piece = feasible.completed(feasible.best_actions(theta))
        try:
            last = solve(piece)
        except EmptySetError:
            raise EmptySetError(
                "no member was found within the bounds, though there may be one: the expert is not known everywhere"
            ) from None
        theta = polished(piece, last.x)
        membership = contains(feasible, theta)
    return Member(feasible.table(theta), theta, value(theta), first.objective, membership, last.iterations, last.method)
