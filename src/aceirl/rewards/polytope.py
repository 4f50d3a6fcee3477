"""Rewards and values as the unknowns of a sparse linear programme; HiGHS solves it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from aceirl.errors import InputError
from aceirl.mdp import MDP, BoolArray, FloatArray, steps_after, steps_left

# HiGHS's dual simplex; its interior point is asked when that gives up.
METHODS = ("highs-ds", "highs-ipm")


class EmptySetError(InputError):
    """No reward satisfies what was asked of it."""


@dataclass(frozen=True, eq=False)
class Programme:
    """Minimise `⟨cost, x⟩` with `low ≤ rows·x ≤ high` and `lower ≤ x ≤ upper`.

    Shapes for `n` unknowns and `m` rows: `cost`, `lower`, `upper [n]`, `rows [m, n]` sparse, `low`, `high [m]`.
    """

    cost: FloatArray
    rows: Any
    low: FloatArray
    high: FloatArray
    lower: FloatArray
    upper: FloatArray

    def solve(self) -> Solution:
        """An optimal vertex; `EmptySetError` if there is none because nothing satisfies the rows."""
        tied = self.low == self.high
        below, above = np.isfinite(self.high) & ~tied, np.isfinite(self.low) & ~tied
        rows = sparse.csr_array(self.rows)
        for method in METHODS:
            answer = linprog(
                self.cost,
                A_ub=sparse.vstack([rows[below], -rows[above]], format="csr"),
                b_ub=np.concatenate([self.high[below], -self.low[above]]),
                A_eq=rows[tied],
                b_eq=self.low[tied],
                bounds=np.column_stack([self.lower, self.upper]),
                method=method,
            )
            if answer.status in (0, 2):
                break
        if answer.status == 2:
            raise EmptySetError("no reward satisfies all constraints")
        if answer.status != 0:
            raise RuntimeError(f"the linear programme was not solved: {answer.message}")
        return Solution(answer.x, float(answer.fun), int(answer.nit), method)


@dataclass(frozen=True, eq=False)
class Solution:
    """The unknowns `x [n]` at the optimum, the objective there, and the work it took."""

    x: FloatArray
    objective: float
    iterations: int
    method: str


@dataclass(frozen=True, eq=False)
class Bellman:
    """One row for each `(h, s, a)`: how far the action is behind, `V_h(s) - r_h(s,a) - Σ P(s'|s,a)·V_{h+1}(s')`.

    The unknowns are `r [H·S·A]`, then `V [H·S]`, then the worth `unknown_step_reward` of one step of unknown consequence, which
    stands in for `P` where a row of transitions is unknown: `(H-h-1)·unknown_step_reward`.
    """

    mdp: MDP

    @property
    def n_rewards(self) -> int:
        """`H·S·A`."""
        return int(np.prod(self.mdp.shape))

    @property
    def n_unknowns(self) -> int:
        """`H·S·A + H·S + 1`."""
        return self.n_rewards + self.mdp.horizon * self.mdp.n_states + 1

    @cached_property
    def expectation(self) -> Any:
        """Sparse `[H·S·A, (H+1)·S]`: the expected value of the next step, given values of all steps."""
        horizon, stride, matrix = self.mdp.horizon, self.mdp.transitions.stride, self.mdp.transitions.matrix
        if self.mdp.stationary:
            return sparse.kron(sparse.eye_array(horizon, horizon + 1, k=1), matrix, format="csr")
        steps = sparse.block_diag(
            [matrix[step * stride : (step + 1) * stride] for step in range(horizon)], format="csr"
        )
        return sparse.hstack([sparse.csr_array((self.n_rewards, self.mdp.n_states)), steps], format="csr")

    @cached_property
    def remaining(self) -> FloatArray:
        """`[H, S, A]`: `H-h-1` where the row of transitions is unknown, else zero."""
        return np.where(self.mdp.known, 0.0, steps_after(self.mdp.horizon)[:, None, None])

    @cached_property
    def rows(self) -> Any:
        """Sparse `[H·S·A, H·S·A + H·S + 1]`: the rows described above."""
        n_values = self.mdp.horizon * self.mdp.n_states
        action = np.arange(self.n_rewards)
        own = sparse.csr_array((np.ones(self.n_rewards), (action, action // self.mdp.n_actions)))
        values = own - self.expectation[:, :n_values]
        unknown_step_reward = sparse.csr_array(-self.remaining.reshape(-1, 1))
        return sparse.hstack([-sparse.eye_array(self.n_rewards), values, unknown_step_reward], format="csr")

    def continuation(self, values: FloatArray, unknown_step_reward: float) -> FloatArray:
        """`[H, S, A]`: what follows each action is worth, for values `[H, S]`."""
        padded = np.concatenate([values.ravel(), np.zeros(self.mdp.n_states)])
        return np.asarray(self.expectation @ padded).reshape(self.mdp.shape) + unknown_step_reward * self.remaining

    def values(self, unknowns: FloatArray) -> FloatArray:
        """`V [H, S]` among the unknowns."""
        horizon, n_states, _ = self.mdp.shape
        first = self.n_rewards
        return unknowns[first : first + horizon * n_states].reshape(horizon, n_states)

    def bounds(
        self, lower: FloatArray, upper: FloatArray, rmax: float, unknown_step_reward: tuple[float, float]
    ) -> tuple[FloatArray, FloatArray]:
        """The least and the largest value of every unknown, for rewards between `lower` and `upper [H, S, A]`."""
        horizon, n_states, _ = self.mdp.shape
        ceiling = np.repeat(rmax * steps_left(horizon), n_states)
        least = np.concatenate([lower.ravel(), np.zeros(horizon * n_states), [unknown_step_reward[0]]])
        return least, np.concatenate([upper.ravel(), ceiling, [unknown_step_reward[1]]])


def tie_bounds(tied: BoolArray) -> tuple[FloatArray, FloatArray]:
    """`(low, high)` of the Bellman rows `[H·S·A]`: zero where the action is tied to be best, else at least zero."""
    flat = tied.ravel()
    return np.zeros(flat.size), np.where(flat, 0.0, np.inf)


def nearest_by_sum(base: Programme, target: FloatArray) -> Solution:
    """The rewards `r` that satisfy the base with the least `Σ |r - target|`.

    Solved for `r = t + p - q` with `p, q ≥ 0`, where `t` is the target moved into the bounds: who is within them has
    to make that move anyway. The unknowns `r` become `p`, and `q` is added at the end.
    """
    n = target.size
    lower, upper = base.lower[:n], base.upper[:n]
    inside = np.clip(target.ravel(), lower, upper)
    rows = sparse.csr_array(base.rows)
    reached = np.asarray(rows[:, :n] @ inside)
    solution = Programme(
        cost=np.concatenate([np.ones(n), np.zeros(base.cost.size - n), np.ones(n)]),
        rows=sparse.hstack([rows, -rows[:, :n]]),
        low=base.low - reached,
        high=base.high - reached,
        lower=np.concatenate([np.zeros(n), base.lower[n:], np.zeros(n)]),
        upper=np.concatenate([upper - inside, base.upper[n:], inside - lower]),
    ).solve()
    x = solution.x[: base.cost.size].copy()
    x[:n] += inside - solution.x[base.cost.size :]
    moved = float(np.abs(target.ravel() - inside).sum())
    return replace(solution, x=x, objective=solution.objective + moved)


def nearest_by_largest(base: Programme, target: FloatArray) -> Solution:
    """The rewards `r` that satisfy the base with the least `z`, `target - z ≤ r ≤ target + z`."""
    n = target.size
    each = sparse.eye_array(n, base.cost.size)
    one = sparse.csr_array(np.ones((n, 1)))
    never = np.full(n, np.inf)
    return Programme(
        cost=np.append(np.zeros_like(base.cost), 1.0),
        rows=sparse.block_array([[base.rows, None], [each, -one], [each, one]]),
        low=np.concatenate([base.low, -never, target.ravel()]),
        high=np.concatenate([base.high, target.ravel(), never]),
        lower=np.append(base.lower, 0.0),
        upper=np.append(base.upper, np.inf),
    ).solve()


def with_most_room(base: Programme, n_rewards: int) -> Programme:
    """Maximise the room `t`, the last unknown, left in every bound of a reward and every row that is not tied."""
    each = sparse.eye_array(n_rewards, base.cost.size)
    one = sparse.csr_array(np.ones((n_rewards, 1)))
    loose = sparse.csr_array(np.where(base.low == base.high, 0.0, -1.0).reshape(-1, 1))
    never = np.full(n_rewards, np.inf)
    lower, upper = base.lower[:n_rewards], base.upper[:n_rewards]
    return Programme(
        cost=np.append(np.zeros_like(base.cost), -1.0),
        rows=sparse.block_array([[base.rows, loose], [each, -one], [each, one]]),
        low=np.concatenate([base.low, lower, -never]),
        high=np.concatenate([base.high, never, upper]),
        lower=np.append(base.lower, 0.0),
        upper=np.append(base.upper, np.inf),
    )
