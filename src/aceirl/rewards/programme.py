"""Sparse linear programmes over rewards and further unknowns; HiGHS solves them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from aceirl.errors import InputError
from aceirl.models.tabular.mdp import FloatArray

# HiGHS's dual simplex; its interior point is asked when that gives up.
METHODS = ("highs-ds", "highs-ipm")


class EmptySetError(InputError):
    """No reward satisfies what was asked of it."""


@dataclass(frozen=True, eq=False)
class Programme:
    """Minimise `⟨cost, x⟩` with `low ≤ rows·x ≤ high` and `lower ≤ x ≤ upper`.

    Shapes for `n` unknowns and `m` rows: `cost`, `lower`, `upper [n]`, `rows [m, n]` sparse, `low`, `high [m]`. What
    the solver leaves unsatisfied, up to 1e-7, is in units of `unit`: about the size that unknowns can have.
    """

    cost: FloatArray
    rows: Any
    low: FloatArray
    high: FloatArray
    lower: FloatArray
    upper: FloatArray
    unit: float = 1.0

    def solve(self) -> Solution:
        """An optimal vertex; `EmptySetError` if there is none because nothing satisfies the rows."""
        tied = self.low == self.high
        below, above = np.isfinite(self.high) & ~tied, np.isfinite(self.low) & ~tied
        rows = scipy.sparse.csr_array(self.rows)
        low, high, lower, upper = (array / self.unit for array in (self.low, self.high, self.lower, self.upper))
        for method in METHODS:
            answer = scipy.optimize.linprog(
                self.cost,
                A_ub=scipy.sparse.vstack([rows[below], -rows[above]], format="csr"),
                b_ub=np.concatenate([high[below], -low[above]]),
                A_eq=rows[tied],
                b_eq=low[tied],
                bounds=np.column_stack([lower, upper]),
                method=method,
            )
            if answer.status in (0, 2):
                break
        if answer.status == 2:
            raise EmptySetError("no reward satisfies all constraints")
        if answer.status != 0:
            raise RuntimeError(f"the linear programme was not solved: {answer.message}")
        prices = np.zeros(len(self.low))
        prices[tied] = answer.eqlin.marginals
        prices[below] += answer.ineqlin.marginals[: below.sum()]
        prices[above] -= answer.ineqlin.marginals[below.sum() :]
        return Solution(self.unit * answer.x, self.unit * float(answer.fun), int(answer.nit), method, prices)


@dataclass(frozen=True, eq=False)
class Solution:
    """The unknowns `x [n]` at the optimum, the objective there, and the work it took.

    `prices [m]` are the dual ones: by how much the objective changes with the end at which each row is held.
    """

    x: FloatArray
    objective: float
    iterations: int
    method: str
    prices: FloatArray


class Repeated:
    """One programme solved for many costs, with the rows that matter: those that some solution would violate.

    All unknowns must be bounded. It pays where there are many more rows than unknowns.
    """

    def __init__(self, base: Programme, at_once: int = 100, tolerance: float = 1e-9) -> None:
        self.base, self.at_once, self.tolerance = base, at_once, tolerance
        self._kept = np.zeros(len(base.low), dtype=np.bool_)

    def within(self, lower: FloatArray, upper: FloatArray) -> Repeated:
        """The same for other bounds of the first unknowns; both learn which rows matter."""
        rest = len(lower)
        other = Repeated(
            replace(
                self.base,
                lower=np.append(lower, self.base.lower[rest:]),
                upper=np.append(upper, self.base.upper[rest:]),
            ),
            self.at_once,
            self.tolerance,
        )
        other._kept = self._kept
        return other

    def solve(self, cost: FloatArray) -> Solution:
        """An optimal vertex for `cost [n]`, or for as many of the first unknowns as it has entries."""
        base = replace(self.base, cost=np.append(cost, np.zeros(len(self.base.cost) - len(cost))))
        while True:
            kept = self._kept
            found = replace(base, rows=base.rows[kept], low=base.low[kept], high=base.high[kept]).solve()
            reached = np.asarray(base.rows @ found.x)
            violation = np.where(kept, 0.0, np.maximum(base.low - reached, reached - base.high))
            worst = np.argsort(-violation, kind="stable")[: self.at_once]
            worst = worst[violation[worst] > self.tolerance * base.unit]
            if not len(worst):
                prices = np.zeros(len(kept))
                prices[kept] = found.prices
                return replace(found, prices=prices)
            self._kept[worst] = True


def nearest_by_sum(base: Programme, target: FloatArray) -> Solution:
    """The rewards `r` that satisfy the base with the least `Σ |r - target|`.

    Solved for `r = t + p - q` with `p, q ≥ 0`, where `t` is the target moved into the bounds: who is within them has
    to make that move anyway. The unknowns `r` become `p`, and `q` is added at the end.
    """
    n = target.size
    lower, upper = base.lower[:n], base.upper[:n]
    inside = np.clip(target.ravel(), lower, upper)
    rows = scipy.sparse.csr_array(base.rows)
    reached = np.asarray(rows[:, :n] @ inside)
    solution = Programme(
        cost=np.concatenate([np.ones(n), np.zeros(base.cost.size - n), np.ones(n)]),
        rows=scipy.sparse.hstack([rows, -rows[:, :n]]),
        low=base.low - reached,
        high=base.high - reached,
        lower=np.concatenate([np.zeros(n), base.lower[n:], np.zeros(n)]),
        upper=np.concatenate([upper - inside, base.upper[n:], inside - lower]),
        unit=base.unit,
    ).solve()
    x = solution.x[: base.cost.size].copy()
    x[:n] += inside - solution.x[base.cost.size :]
    moved = float(np.abs(target.ravel() - inside).sum())
    return replace(solution, x=x, objective=solution.objective + moved)


def nearest_by_largest(base: Programme, target: FloatArray) -> Solution:
    """The rewards `r` that satisfy the base with the least `z`, `target - z ≤ r ≤ target + z`."""
    n = target.size
    each = scipy.sparse.eye_array(n, base.cost.size)
    one = scipy.sparse.csr_array(np.ones((n, 1)))
    never = np.full(n, np.inf)
    return Programme(
        cost=np.append(np.zeros_like(base.cost), 1.0),
        rows=scipy.sparse.block_array([[base.rows, None], [each, -one], [each, one]]),
        low=np.concatenate([base.low, -never, target.ravel()]),
        high=np.concatenate([base.high, target.ravel(), never]),
        lower=np.append(base.lower, 0.0),
        upper=np.append(base.upper, np.inf),
        unit=base.unit,
    ).solve()


def with_most_room(base: Programme, n_rewards: int) -> Programme:
    """Maximise the room `t`, the last unknown, left in every bound of a reward and every row that is not tied."""
    each = scipy.sparse.eye_array(n_rewards, base.cost.size)
    one = scipy.sparse.csr_array(np.ones((n_rewards, 1)))
    loose = scipy.sparse.csr_array(np.where(base.low == base.high, 0.0, -1.0).reshape(-1, 1))
    never = np.full(n_rewards, np.inf)
    lower, upper = base.lower[:n_rewards], base.upper[:n_rewards]
    return Programme(
        cost=np.append(np.zeros_like(base.cost), -1.0),
        rows=scipy.sparse.block_array([[base.rows, loose], [each, -one], [each, one]]),
        low=np.concatenate([base.low, lower, -never]),
        high=np.concatenate([base.high, never, upper]),
        lower=np.append(base.lower, 0.0),
        upper=np.append(base.upper, np.inf),
        unit=base.unit,
    )
