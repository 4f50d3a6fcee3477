"""The feasible set inside a reward space: parameters under which the answers are optimal, a polytope in `(θ, V)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from aceirl.counts import Estimate
from aceirl.errors import InputError
from aceirl.kernels import Successors, compiled
from aceirl.mdp import MDP, BoolArray, FloatArray, IntArray, check_policy, frozen, steps_left
from aceirl.rewards.feasible import TOLERANCE, first_best, first_entry
from aceirl.rewards.membership import SATISFIED, Membership
from aceirl.rewards.programme import EmptySetError, Programme, Repeated, Solution, nearest_by_largest, nearest_by_sum
from aceirl.rewards.queries import Norm
from aceirl.rewards.spaces import RewardMap, RewardSpace

MOVES_PER_PARAMETER = 4
"""Moves of the chain between two samples, for each parameter that is free."""

NARROW = 0.1
"""A parameter is determined if its interval in the normalised set is at most this wide."""


@dataclass(frozen=True, eq=False)
class MemberParameters:
    """Parameters `theta [n]` found by a linear programme, and the evidence: see `Member`."""

    theta: FloatArray
    value: float
    bound: float
    membership: Membership

    @property
    def gap(self) -> float:
        """How much better than `value` the best member may be."""
        return abs(self.value - self.bound)


@dataclass(frozen=True, eq=False)
class FeasibleParameters:
    """Parameters `θ [n]` of a space, `lower ≤ θ ≤ upper`, under whose reward `Φθ` the expert's answers are optimal.

    `V` is worth what follows if one acts as the expert answers, and as is best where it was not asked. No action that
    was tried may have an advantage `Q - V` over an answer of more than its `tolerance [H, S]`, and with a `slack` the
    expert may err: what exceeds the tolerances may add up to that. Without either this is optimality, for an advantage
    of zero at every step is what makes a policy optimal.

    An action that was never tried cannot be compared and is left out, as an answer or as what is better. A state in
    which nothing was tried is worth its own reward, once. Where the expert is known everywhere the set is a polytope,
    and what is found in it is exact; else it is a union of polytopes, and a larger one gives the bounds.

    Shapes: `policy [H, S, A]`, zero where there is no answer; `answered [H, S]`; `lower` and `upper [n]`.
    """

    mdp: MDP
    space: RewardMap
    policy: FloatArray
    answered: BoolArray
    tolerance: FloatArray
    lower: FloatArray
    upper: FloatArray
    slack: float = 0.0

    def __post_init__(self) -> None:
        n, shape = self.space.n_parameters, self.mdp.shape
        if not (np.isfinite(self.slack) and self.slack >= 0):
            raise InputError(f"slack must be a number of at least 0, got {self.slack}")
        for name, size in (("lower", (n,)), ("upper", (n,)), ("tolerance", shape[:2])):
            array = np.asarray(getattr(self, name), dtype=np.float64)
            if array.shape not in ((), size) or not np.isfinite(array).all():
                raise InputError(f"{name} must be finite, of shape {list(size)}, got {array}")
            object.__setattr__(self, name, frozen(np.broadcast_to(array, size), np.float64))
        wrong = self.lower > self.upper
        if wrong.any():
            k = int(wrong.argmax())
            raise InputError(f"bounds[{k}] are {self.lower[k]:g} to {self.upper[k]:g}, not an interval")
        if (self.tolerance < 0).any():
            raise InputError(f"tolerance must be at least 0, got {self.tolerance.min():g}")

    @classmethod
    def of_problem(
        cls, mdp: MDP, expert_policy: ArrayLike, space: RewardSpace, terminal: Sequence[int] = ()
    ) -> FeasibleParameters:
        """The exact set, `-1 ≤ θ ≤ 1`, of an expert `[H, S, A]`, or actions, that is known everywhere."""
        mdp.require_complete()
        policy = check_policy(expert_policy, mdp.shape, name="expert_policy")
        over = space.over(mdp, np.asarray(terminal, dtype=np.int64))
        return cls._of(mdp, over, policy, np.zeros(mdp.shape[:2]))

    @classmethod
    def of_estimate(cls, estimate: Estimate, space: RewardSpace, tolerance: ArrayLike = 0.0) -> FeasibleParameters:
        """The recovered set, `-1 ≤ θ ≤ 1`; answers may lag by a tolerance, a number or `[H, S]`."""
        over = space.over(estimate.mdp, estimate.over)
        policy = np.where(estimate.expert_uses, estimate.expert_policy, 0.0)
        return cls._of(estimate.mdp, over, policy, np.asarray(tolerance, dtype=np.float64))

    @classmethod
    def _of(cls, mdp: MDP, over: RewardMap, policy: FloatArray, tolerance: FloatArray) -> FeasibleParameters:
        """What the expert does, as far as it was tried."""
        tried = np.where(mdp.known, policy, 0.0)
        mass = tried.sum(axis=2, keepdims=True)
        followed = np.divide(tried, mass, out=np.zeros_like(tried), where=mass > 0)
        one = np.ones(over.n_parameters)
        return cls(mdp, over, frozen(followed, np.float64), followed.any(axis=2), tolerance, -one, one)

    def restricted(self, lower: ArrayLike | None = None, upper: ArrayLike | None = None) -> FeasibleParameters:
        """The same within other bounds, a number or `[n]` each."""
        return replace(
            self,
            lower=self.lower if lower is None else np.asarray(lower, dtype=np.float64),
            upper=self.upper if upper is None else np.asarray(upper, dtype=np.float64),
        )

    def fixed(self, parameter: int, value: float) -> FeasibleParameters:
        """The members that give one parameter this value."""
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[parameter] = upper[parameter] = value
        return replace(self, lower=lower, upper=upper)

    def normalised(self, largest: int, smallest: int | None = None) -> FeasibleParameters:
        """The members in `[0, 1]` with one at the one parameter, and zero at the other if it is given."""
        unit = self.restricted(0.0, 1.0).fixed(largest, 1.0)
        return unit if smallest is None else unit.fixed(smallest, 0.0)

    def with_slack(self, slack: float) -> FeasibleParameters:
        """The same where what exceeds the tolerances may add up to `slack`."""
        return replace(self, slack=slack)

    def completed(self, theta: FloatArray) -> FeasibleParameters:
        """The members under which, where the expert was not asked, what is best under `theta` is best too."""
        best = np.eye(self.mdp.n_actions)[first_best(self._values(theta)[0], self._rounding)]
        return replace(self, policy=np.where(self.followed[:, :, None], self.policy, best))

    @cached_property
    def tried(self) -> BoolArray:
        """`[H, S, A]`: the actions that count: those that were tried, or all where none was."""
        known = self.mdp.known
        return np.asarray(known | ~known.any(axis=2, keepdims=True))

    @cached_property
    def followed(self) -> BoolArray:
        """`[H, S]`: where it is settled what is done."""
        return np.asarray(self.policy.any(axis=2))

    @cached_property
    def scale(self) -> float:
        """The largest size of a parameter; errors of the solver are in units of it."""
        return float(max(np.abs(self.lower).max(), np.abs(self.upper).max())) or 1.0

    @cached_property
    def _largest_reward(self) -> float:
        """No reward within the bounds is larger than this, of either sign."""
        sizes = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return float((np.abs(self.space.matrix) @ sizes).max())

    @cached_property
    def _feature_size(self) -> float:
        """The largest reward that one parameter of size one can give: programmes have rewards in units of it."""
        return float(np.abs(self.space.matrix).max()) or 1.0

    @property
    def _rounding(self) -> float:
        """What an answer may lag by the solver's doing, which adds up over the steps."""
        return TOLERANCE * self._largest_reward * self.mdp.horizon

    def _values(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`(Q [H, S, A], V [H, S])`; `Q` is `-inf` for actions that do not count."""
        q, v = np.empty(self.mdp.shape), np.zeros((self.mdp.horizon + 1, self.mdp.n_states))
        _following(*self.mdp.transitions.rows, self.space.table(theta), self.policy, self.tried, q, v)
        return q, v[:-1]

    def values_of(self, theta: ArrayLike) -> FloatArray:
        """`V [H, S]`: what is earned from each state on."""
        return self._values(self._checked(theta))[1]

    def advantages(self, theta: ArrayLike) -> FloatArray:
        """`[H, S, A]`: `Q - V` of each action that was tried, `-inf` of the others."""
        q, v = self._values(self._checked(theta))
        return np.asarray(q - v[:, :, None])

    def excess(self, theta: ArrayLike) -> FloatArray:
        """`[H, S, A]`: by how much more than the tolerance an action is better than the answers, or an answer worse."""
        advantage = self.advantages(theta)
        behind = np.where(self.policy > 0, np.abs(advantage), advantage) - self.tolerance[:, :, None]
        return np.where(self.answered[:, :, None], np.maximum(behind, 0.0), 0.0)

    def contains(self, theta: ArrayLike, tolerance: float | None = None) -> Membership:
        """Whether parameters `[n]` are a member up to a tolerance, and what they violate most."""
        array = self._checked(theta)
        of_bounds, of_lags = TOLERANCE * self.scale * self.mdp.horizon, self._rounding
        if tolerance is not None:
            of_bounds = of_lags = tolerance
        found = [
            replace(membership, holds=membership.violation <= allowed)
            for membership, allowed in (
                (_bound("lower", self.lower - array), of_bounds),
                (_bound("upper", array - self.upper), of_bounds),
                (self._optimality(array), of_lags),
            )
        ]
        return max(found, key=lambda membership: (not membership.holds, membership.violation))

    def _optimality(self, theta: FloatArray) -> Membership:
        excess = self.excess(theta)
        largest, total = float(excess.max()), float(excess.sum())
        if total <= self.slack:
            return SATISFIED
        h, s, better = first_entry(excess == largest)
        entry = h, s, int(self.policy[h, s].argmax())
        if self.slack > 0:
            return Membership(False, total - self.slack, "slack", entry)
        return Membership(False, largest, "optimality", entry, better)

    def nearest(self, theta: ArrayLike, norm: Norm = "l1") -> MemberParameters:
        """The nearest member, by the sum ("l1") or the largest ("linf") of the changes; a member is its own."""
        target = self._checked(theta)
        if norm not in ("l1", "linf"):
            raise InputError(f"norm must be 'l1' or 'linf', got {norm!r}")
        inside = self.contains(target)
        if inside:
            return MemberParameters(target, 0.0, 0.0, inside)
        solve = nearest_by_sum if norm == "l1" else nearest_by_largest

        def distance(other: FloatArray) -> float:
            change = np.abs(other - target)
            return float(change.sum() if norm == "l1" else change.max())

        return self._member(lambda piece: solve(piece.programme(), target), distance)

    def furthest(self, direction: ArrayLike) -> MemberParameters:
        """The member that goes furthest in a direction `[n]`: the largest `⟨direction, θ⟩`."""
        towards = self._checked(direction)
        size = float(np.abs(towards).max()) or 1.0
        found = self._member(
            lambda piece: piece.programme(-towards / size).solve(), lambda theta: float(towards @ theta)
        )
        return replace(found, bound=-size * found.bound)

    def intervals(self) -> FloatArray:
        """`[n, 2]`: the least and the largest value that any member gives to each parameter.

        Where the expert is not known everywhere these are outer bounds.
        """
        found = np.stack((self.upper, self.lower), axis=1)
        self._widen(found, Repeated(self.programme()))
        return found

    def normalised_intervals(self) -> FloatArray:
        """`[n, 2]`: the same for the members whose smallest parameter is zero and whose largest is one.

        That leaves out constant rewards, which explain everything. It is a union of polytopes, one for each parameter
        that may be the largest and each that may be the smallest, so there may be `n²` of them.
        """
        found, base = np.tile([1.0, 0.0], (self.space.n_parameters, 1)), Repeated(self.restricted(0.0, 1.0).programme())
        for largest in self.largest():
            for smallest in range(len(found)):
                piece = self.normalised(largest, smallest)
                try:
                    if smallest != largest:
                        piece._widen(found, base.within(piece.lower, piece.upper))
                except EmptySetError:
                    continue
        if (found[:, 0] > found[:, 1]).any():
            raise _empty()
        return found

    def _widen(self, found: FloatArray, base: Repeated) -> None:
        """Widen intervals `[n, 2]`, in place, to what members reach; ends that are bounds need no further look."""
        n = len(found)

        def look(cost: FloatArray) -> None:
            theta = np.clip(_solved(base, cost).x[:n], self.lower, self.upper)
            found[:, 0], found[:, 1] = np.minimum(found[:, 0], theta), np.maximum(found[:, 1], theta)

        look(np.ones(n))
        for k in range(n):
            if found[k, 0] > self.lower[k]:
                look(np.eye(1, n, k)[0])
            if found[k, 1] < self.upper[k]:
                look(-np.eye(1, n, k)[0])

    def determined(self, narrow: float = NARROW) -> BoolArray:
        """`[n]`: the parameters whose interval in the normalised set is narrow."""
        low, high = self.normalised_intervals().T
        return np.asarray(high - low <= narrow)

    def largest(self) -> list[int]:
        """The parameters that may be the largest: with one there, and zero somewhere, there is a member in `[0, 1]`.

        Outer too: where the expert is not known everywhere, some of them may not be.
        """
        base = Repeated(self.restricted(0.0, 1.0).programme())
        return [k for k in range(self.space.n_parameters) if self._may_be_largest(k, base)]

    def _may_be_largest(self, parameter: int, anything: Repeated) -> bool:
        piece = self.normalised(parameter)
        n, allowed, base = self.space.n_parameters, 1e-6, anything.within(piece.lower, piece.upper)
        try:
            theta = base.solve(np.ones(n)).x[:n]
        except EmptySetError:
            return False
        # No parameter can be further from one than all of them together.
        if (1 - theta).sum() < 1 - allowed:
            return False
        order = np.argsort(theta, kind="stable").tolist()
        return bool(theta.min() <= allowed) or any(base.solve(np.eye(1, n, k)[0]).objective <= allowed for k in order)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`[n, parameters]`: members from one chain whose law is uniform over the set.

        The chain begins in the middle of extreme members and moves along random mixtures of what leads to them, each
        time to a point drawn from the segment within the bounds, which shrinks until the point is a member (Neal 2003,
        "Slice sampling"). How close to uniform so many moves come is not proved.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError(f"n must be a whole number of at least 1, got {n!r}")
        piece = self.completed(self.furthest(rng.normal(size=self.space.n_parameters)).theta)
        ends = piece._ends(rng)
        theta, samples = ends.mean(axis=0), np.empty((n, self.space.n_parameters))
        for sample in samples:
            for _ in range(MOVES_PER_PARAMETER * len(ends) // 2):
                theta = self._moved(theta, rng.normal(size=len(ends)) @ (ends - ends[0]), rng)
            sample[:] = theta
        return samples

    def _ends(self, rng: np.random.Generator) -> FloatArray:
        """`[2·free, n]`: members whose differences span the set, the furthest in directions not spanned before."""
        base, free = Repeated(self.programme()), np.diag((self.lower < self.upper).astype(np.float64))
        ends, looked = [], np.zeros((0, len(free)))
        for _ in range(max(1, int(free.sum()))):
            way = rng.normal(size=len(free)) @ free
            for _ in range(2):  # the second time for what rounding leaves
                way -= looked.T @ (looked @ way)
            pair = [_solved(base, sign * way).x[: len(free)] for sign in (1.0, -1.0)]
            found = pair[1] - pair[0]
            # Where the set is flat in a direction, that direction is done with; else what leads across it is.
            across = found - looked.T @ (looked @ found) if way @ found > TOLERANCE * self.scale else way
            looked = np.vstack([looked, across / max(float(np.linalg.norm(across)), 1e-300)])
            ends += pair
        return np.array(ends)

    def _moved(self, theta: FloatArray, direction: FloatArray, rng: np.random.Generator) -> FloatArray:
        moving = np.abs(direction) > 1e-12 * self.scale
        if not moving.any():
            return theta
        ends = np.stack((self.lower - theta, self.upper - theta))[:, moving] / direction[moving]
        low, high = min(0.0, float(ends.min(axis=0).max())), max(0.0, float(ends.max(axis=0).min()))
        while high - low > 1e-9:
            length = rng.uniform(low, high)
            moved = np.clip(theta + length * direction, self.lower, self.upper)
            if self._optimality(moved).violation <= self._rounding:
                return moved
            low, high = (length, high) if length < 0 else (low, length)
        return theta

    @cached_property
    def _linear(self) -> tuple[Any, Any]:
        """`V [H·S, m]` and `V - Q [H·S·A, m]`, sparse, as functions of `m` unknowns, in units of `_feature_size`.

        These are the parameters, and then the value of each state at each step in which it is not settled what is done.
        All other values are mixtures of these, put together from the last step on.
        """
        horizon, n_states, n_actions = self.mdp.shape
        n, is_open = self.space.n_parameters, ~self.followed.ravel()
        m = n + int(is_open.sum())
        matrix = self.space.matrix / self._feature_size
        paid = sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], m - n))], format="csr")
        place = np.flatnonzero(is_open)
        unknown = sparse.csr_array((np.ones(m - n), (place, n + np.arange(m - n))), shape=(horizon * n_states, m))
        per_step, later = n_states * n_actions, sparse.csr_array((n_states, m))
        values, behind = [later] * horizon, [later] * horizon
        for h in range(horizon - 1, -1, -1):
            of_step = slice(0, per_step) if self.mdp.stationary else slice(h * per_step, (h + 1) * per_step)
            rewards = paid[:per_step] if paid.shape[0] == per_step else paid[h * per_step : (h + 1) * per_step]
            q = rewards + self.mdp.transitions.matrix[of_step] @ later
            own = np.arange(n_states + 1) * n_actions
            follow = sparse.csr_array((self.policy[h].ravel(), np.arange(per_step), own), shape=(n_states, per_step))
            later = follow @ q + unknown[h * n_states : (h + 1) * n_states]
            values[h], behind[h] = later, later[np.repeat(np.arange(n_states), n_actions)] - q
        return sparse.vstack(values, format="csr"), _rounded(sparse.vstack(behind, format="csr"))

    @property
    def values(self) -> Any:
        """Sparse `[H·S, m]`: each `V` as a function of the `m` unknowns, of which the parameters come first."""
        return self._linear[0]

    @property
    def behind(self) -> Any:
        """Sparse `[H·S·A, m]`: `V - Q` of each entry as a function of the unknowns."""
        return self._linear[1]

    @cached_property
    def compared(self) -> BoolArray:
        """`[H, S, A]`: the actions that count and that some reward of the space tells apart from what is done."""
        apart = np.diff(self.behind.indptr).reshape(self.mdp.shape) > 0
        return np.asarray(self.tried & apart)

    def programme(self, cost: FloatArray | None = None) -> Programme:
        """Minimise `⟨cost, θ⟩`, `cost [n]`; with a slack, what exceeds the tolerances comes last of all unknowns."""
        n, n_open = self.space.n_parameters, self.behind.shape[1] - self.space.n_parameters
        tolerance = np.where(self.answered, self.tolerance / self._feature_size, 0.0)[:, :, None]
        remaining = np.broadcast_to(steps_left(self.mdp.horizon)[:, None], self.followed.shape)[~self.followed]
        most = self._largest_reward / self._feature_size * remaining
        within = Programme(
            cost=np.append(np.zeros(n) if cost is None else cost, np.zeros(n_open)),
            rows=self.behind[self.compared.ravel()],
            low=np.broadcast_to(-tolerance, self.compared.shape)[self.compared],
            high=np.where(self.policy > 0, tolerance, np.inf)[self.compared],
            lower=np.append(self.lower, -most),
            upper=np.append(self.upper, most),
            unit=self.scale,
        )
        if self.slack == 0:
            return within
        excusable = np.broadcast_to(self.answered[:, :, None], self.compared.shape)[self.compared]
        return _excused(within, np.flatnonzero(excusable), self.slack / self._feature_size)

    def _member(
        self, solve: Callable[[FeasibleParameters], Solution], value: Callable[[FloatArray], float]
    ) -> MemberParameters:
        """The solver's parameters, judged by a backward induction; see `queries` for an expert not known everywhere."""
        n = self.space.n_parameters
        try:
            first = solve(self)
        except EmptySetError:
            raise _empty() from None
        theta = np.clip(first.x[:n], self.lower, self.upper)
        membership = self.contains(theta)
        if not membership and not self.followed.all():
            try:
                theta = np.clip(solve(self.completed(theta)).x[:n], self.lower, self.upper)
            except EmptySetError:
                raise EmptySetError(
                    "no member was found within the bounds, though there may be one: the expert is not known everywhere"
                ) from None
            membership = self.contains(theta)
        return MemberParameters(theta, value(theta), first.objective, membership)

    def _checked(self, theta: ArrayLike) -> FloatArray:
        array = np.asarray(theta, dtype=np.float64)
        if array.shape != (self.space.n_parameters,) or not np.isfinite(array).all():
            raise InputError(f"parameters must be finite, of shape [{self.space.n_parameters}], got {array}")
        return array


def least_excess(feasible: FeasibleParameters) -> float:
    """The least slack with which there is a member, or a lower bound on it: see `FeasibleParameters.slack`."""
    ample = feasible.with_slack(1.0).programme()
    total = ample.rows[[-1]].toarray()[0]
    least = replace(ample, cost=total, high=np.append(ample.high[:-1], np.inf)).solve().objective
    return feasible._feature_size * max(0.0, least)


def _excused(base: Programme, excusable: IntArray, slack: float) -> Programme:
    """Each of these rows may be exceeded, on either side, by one more unknown; they add up to the slack at most."""
    m, k = base.rows.shape[0], len(excusable)
    each = sparse.csr_array((np.ones(k), (excusable, np.arange(k))), shape=(m, k))
    total = sparse.csr_array(np.ones((1, k)))
    below, above = np.isfinite(base.low), np.isfinite(base.high)
    never = np.inf
    return Programme(
        cost=np.append(base.cost, np.zeros(k)),
        rows=sparse.block_array(
            [[base.rows[below], each[below]], [base.rows[above], -each[above]], [None, total]], format="csr"
        ),
        low=np.concatenate([base.low[below], np.full(above.sum(), -never), [-never]]),
        high=np.concatenate([np.full(below.sum(), never), base.high[above], [slack]]),
        lower=np.append(base.lower, np.zeros(k)),
        upper=np.append(base.upper, np.full(k, never)),
        unit=base.unit,
    )


def _rounded(rows: Any) -> Any:
    """Without what is left of sums that cancel: it would tell actions apart that are the same."""
    rows.data[np.abs(rows.data) < 1e-12] = 0.0
    rows.eliminate_zeros()
    return rows


def _bound(constraint: Any, violation: FloatArray) -> Membership:
    k = int(violation.argmax())
    return SATISFIED if violation[k] <= 0 else Membership(False, float(violation[k]), constraint, parameter=k)


def _solved(programme: Repeated, cost: FloatArray) -> Solution:
    try:
        return programme.solve(cost)
    except EmptySetError:
        raise _empty() from None


def _empty() -> EmptySetError:
    return EmptySetError("no reward of the space within the bounds explains all answers; allow a tolerance or a slack")


@compiled
def _following(
    indptr: IntArray,
    successors: Successors,
    probabilities: FloatArray,
    stride: int,
    reward: FloatArray,
    policy: FloatArray,
    tried: BoolArray,
    q: FloatArray,
    v: FloatArray,
) -> None:
    """Backward over `q [H, S, A]` and `v [H+1, S]`: follow the policy where it acts, else take the best that counts."""
    horizon, n_states, n_actions = reward.shape
    for h in range(horizon - 1, -1, -1):
        for s in range(n_states):
            best, mean, mass = -np.inf, 0.0, 0.0
            for a in range(n_actions):
                if not tried[h, s, a]:
                    q[h, s, a] = -np.inf
                    continue
                row, total = h * stride + s * n_actions + a, reward[h, s, a]
                for k in range(indptr[row], indptr[row + 1]):
                    total += probabilities[k] * v[h + 1, successors[k]]
                q[h, s, a] = total
                best = max(best, total)
                mean += policy[h, s, a] * total
                mass += policy[h, s, a]
            v[h, s] = mean if mass > 0 else best
