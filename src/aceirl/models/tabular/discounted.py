"""Discounted problems: the fixed point of a backup instead of a sweep over steps, through the same transitions.

With the discount `γ` and the scale `σ` of the taste shocks the values solve

    Q(s, a) = r(s, a) + γ·Σ P(s'|s, a)·V(s'),      V(s) = σ·log Σ_a exp(Q(s, a)/σ),

and for `σ = 0` the backup is the maximum. A Newton step on this equation evaluates the policy that the present values
make greedy (`σ = 0`) or logit (`σ > 0`), with the entropy of the policy paid as `σ·H(π)`. So one loop is policy
iteration (Howard 1960) and the Newton–Kantorovich iteration of Rust (1987), and it converges from everywhere: each
evaluation is at least as good as the one before. An evaluation is one sparse factorisation of `I − γ·P_π`.

A state in which no action is available is terminal: it is worth 0. With `γ = 1` every policy must end. With a horizon,
`MDP.discount` is the factor of the sweeps over steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray, Transitions, check_discount, frozen

TOLERANCE = 1e-12
"""The fixed point is found when one more backup changes no value by more than this share of the largest."""
MOST_STEPS = 500

Solver = Callable[[FloatArray], FloatArray]
"""Solves `(I − γ·P_π) x = b` for `b [S]` or `[S, K]`."""


@dataclass(frozen=True, eq=False)
class DiscountedValues:
    """A fixed point, and how well it is met.

    Shapes: `q [S, A]` (−inf where an action is not available), `v [S]`, `policy [S, A]` (zero in terminal states).
    `residual` is the largest change of a value by one more backup, `steps` the evaluations that were needed.
    """

    q: FloatArray
    v: FloatArray
    policy: FloatArray
    residual: float
    steps: int

    def __post_init__(self) -> None:
        for name in ("q", "v", "policy"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.float64))


@dataclass(frozen=True, eq=False)
class Discounted:
    """A stationary process without an end, its discount and the scale of the taste shocks; no reward.

    `available [S, A]` are the actions that can be chosen, by default those with a known row. One without a known row
    cannot be available: nothing is known of what follows it.
    """

    transitions: Transitions
    discount: float
    scale: float = 0.0
    available: BoolArray | None = None

    def __post_init__(self) -> None:
        if not self.transitions.stationary:
            raise InputError("a discounted problem without a horizon needs dynamics that are the same at every step")
        check_discount(self.discount)
        if not 0 <= self.scale < math.inf:
            raise InputError(f"scale must be a finite number of at least 0, got {self.scale!r}")
        shape = self.transitions.n_states, self.transitions.n_actions
        known = self.transitions.filled.reshape(shape)
        allowed = known if self.available is None else np.asarray(self.available, dtype=np.bool_)
        if allowed.shape != shape:
            raise InputError(f"available must have shape {list(shape)}, got {list(allowed.shape)}")
        if (allowed & ~known).any():
            s, a = (int(i) for i in np.argwhere(allowed & ~known)[0])
            raise InputError(f"action {a} is available in state {s}, but transitions[{s}, {a}] are not known")
        object.__setattr__(self, "available", frozen(allowed, np.bool_))

    @property
    def shape(self) -> tuple[int, int]:
        """`(S, A)`."""
        return self.transitions.n_states, self.transitions.n_actions

    @property
    def allowed(self) -> BoolArray:
        """`[S, A]`: the actions that can be chosen."""
        assert self.available is not None
        return self.available

    def expected(self, values: FloatArray) -> FloatArray:
        """`[S, A, ...]`: `γ·P values` for `values [S, ...]`."""
        return np.asarray(self.discount * (self.transitions.matrix @ values)).reshape(*self.shape, *values.shape[1:])

    def backup(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`(v [S], policy [S, A])` of `q [S, A]`; ties of the maximum go to the first action."""
        allowed = self.allowed
        acting = np.asarray(allowed.any(axis=1))
        masked = np.where(allowed, q, -np.inf)
        best = np.where(acting, masked.max(axis=1), 0.0)
        if self.scale == 0:
            policy = np.where(acting[:, None], np.eye(q.shape[1])[masked.argmax(axis=1)], 0.0)
            return best, policy
        weights = np.where(allowed, np.exp((masked - best[:, None]) / self.scale), 0.0)
        total = np.where(acting, weights.sum(axis=1), 1.0)
        return best + self.scale * np.log(total), weights / total[:, None]

    def solver(self, policy: FloatArray) -> Solver:
        """Factorises `I − γ·P_π` for `policy [S, A]`."""
        solve: Solver = self._factorised(policy).solve
        return solve

    def chain(self, policy: FloatArray) -> scipy.sparse.csr_array:
        """`P_π`, sparse `[S, S]`, for `policy [S, A]`."""
        return scipy.sparse.csr_array(scipy.sparse.eye_array(self.shape[0]) - self._system(policy, 1.0))

    @cached_property
    def _pattern(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Where the entries of every `I − γ·P_π` lie by columns: of the diagonal, and of each probability."""
        n_states, n_actions = self.shape
        row = np.repeat(np.arange(n_states * n_actions), np.diff(self.transitions.indptr)) // n_actions
        diagonal = np.arange(n_states) * (n_states + 1)
        keys, place = np.unique(
            np.concatenate((diagonal, self.transitions.successors.astype(np.int64) * n_states + row)),
            return_inverse=True,
        )
        indptr = np.searchsorted(keys, np.arange(n_states + 1) * n_states)
        return keys % n_states, indptr, place[:n_states], place[n_states:]

    def _system(self, policy: FloatArray, discount: float) -> scipy.sparse.csc_matrix:
        indices, indptr, diagonal, place = self._pattern
        taken = np.repeat(policy.reshape(-1), np.diff(self.transitions.indptr)) * self.transitions.probabilities
        data = np.asarray(np.bincount(place, weights=-discount * taken, minlength=len(indices)), dtype=np.float64)
        data[diagonal] = data[diagonal] + 1.0
        return scipy.sparse.csc_matrix((data, indices, indptr), shape=(self.shape[0], self.shape[0]))

    def _factorised(self, policy: FloatArray) -> Any:
        try:
            return scipy.sparse.linalg.splu(self._system(policy, self.discount))
        except RuntimeError:
            raise InputError("with a discount of 1 every state must lead to a terminal one, and some do not") from None

    def evaluate(self, reward: ArrayLike, policy: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """`(q [S, A], v [S])` of `policy [S, A]` for `reward [S, A]`, without any entropy."""
        paid, chosen = self._check_reward(reward), self._check_policy(policy)
        v = self.solver(chosen)((chosen * paid).sum(axis=1))
        return np.where(self.allowed, paid + self.expected(v), -np.inf), v

    def occupancy(self, initial: ArrayLike, policy: ArrayLike) -> FloatArray:
        """`[S, A]`: the discounted number of visits of `policy [S, A]` from `initial [S]`; sums to `1/(1−γ)`."""
        chosen = self._check_policy(policy)
        start = np.asarray(initial, dtype=np.float64)
        visits: FloatArray = self._factorised(chosen).solve(start, "T")
        return visits[:, None] * chosen

    def solve(self, reward: ArrayLike, start: FloatArray | None = None) -> DiscountedValues:
        """The fixed point for `reward [S, A]`, by Newton's method, from the values `start [S]`."""
        paid = self._check_reward(reward)
        v = np.zeros(self.shape[0]) if start is None else np.asarray(start, dtype=np.float64)
        q = paid + self.expected(v)
        better, policy = self.backup(q)
        residual, steps = math.inf, 0
        while steps < MOST_STEPS:
            steps += 1
            q = paid + self.expected(self.solver(policy)(self._paid_by(policy, paid)))
            # The values of a backup, not of the evaluation: they are one contraction nearer.
            better, following = self.backup(q)
            change = self.backup(paid + self.expected(better))[0] - better
            before, residual = residual, float(np.abs(change).max(initial=0.0))
            size = max(1.0, float(np.abs(better).max(initial=0.0)))
            # Rounding ends the improvement before the tolerance does where the discount is near 1.
            stalled = residual >= before and (residual <= 1e-9 * size or np.array_equal(policy, following))
            if residual <= TOLERANCE * size or stalled:
                break
            policy = following
        q = np.where(self.allowed, paid + self.expected(better), -np.inf)
        v, policy = self.backup(q)
        return DiscountedValues(q, v, policy, residual, steps)

    def _paid_by(self, policy: FloatArray, reward: FloatArray) -> FloatArray:
        """`[S]`: what one step of the policy pays, with its entropy."""
        entropy = 0.0
        if self.scale > 0:
            entropy = -self.scale * (policy * np.log(np.where(policy > 0, policy, 1.0))).sum(axis=1)
        return np.asarray((policy * reward).sum(axis=1) + entropy)

    def _check_reward(self, reward: ArrayLike) -> FloatArray:
        paid = np.asarray(reward, dtype=np.float64)
        if paid.shape != self.shape:
            raise InputError(f"reward must have shape {list(self.shape)}, got {list(paid.shape)}")
        if not np.isfinite(paid).all():
            index = np.argwhere(~np.isfinite(paid))[0]
            raise InputError(f"reward{[int(i) for i in index]} is {paid[tuple(index)]}, not a finite number")
        return paid

    def _check_policy(self, policy: ArrayLike) -> FloatArray:
        chosen = np.asarray(policy, dtype=np.float64)
        if chosen.shape != self.shape:
            raise InputError(f"policy must have shape {list(self.shape)}, got {list(chosen.shape)}")
        acting = np.asarray(self.allowed.any(axis=1))
        wrong = acting & ((np.abs(chosen.sum(axis=1) - 1) > 1e-8) | (chosen < 0).any(axis=1))
        if wrong.any():
            s = int(np.argmax(wrong))
            raise InputError(f"policy[{s}] is {chosen[s].tolist()}, not a distribution over actions")
        if (chosen[~self.allowed] > 0).any():
            s, a = (int(i) for i in np.argwhere((chosen > 0) & ~self.allowed)[0])
            if acting[s]:
                raise InputError(f"policy[{s}, {a}] is {chosen[s, a]}, but that action is not available")
        return np.where(acting[:, None], chosen, 0.0)


def effective_horizon(discount: float, rmax: float, epsilon: float) -> int:
    """The fewest steps after which what is left is worth at most `epsilon`: `γ^H·Rmax/(1−γ) ≤ ε`."""
    if not 0 <= check_discount(discount) < 1:
        raise InputError("with a discount of 1 no number of steps is enough; give a horizon")
    if not (rmax > 0 and epsilon > 0):
        raise InputError(f"rmax and epsilon must be above 0, got {rmax!r} and {epsilon!r}")
    if discount == 0:
        return 1
    return max(1, math.ceil(math.log(epsilon * (1 - discount) / rmax) / math.log(discount)))
