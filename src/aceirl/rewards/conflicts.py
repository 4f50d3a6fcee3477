"""A smallest set of answers that no reward of a space explains together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import BoolArray, FloatArray
from aceirl.rewards.feasible import Entry, FeasibleRewardSet
from aceirl.rewards.polytope import compared, linear
from aceirl.rewards.programme import Programme, Solution
from aceirl.rewards.spaces import RewardSpace

SHARE = 0.1
"""A reward counts if it prefers the answers on the whole, this much of what the best one in the space does."""

ESTIMATED_SHARE = 0.5
"""The same where dynamics are estimated. Of 8 experts each who want places, after 200 to 300 samples all rewards that
explain them reach 0.6 of the largest preference or more; of 8 whose reward depends on the step, 0.4 to 0.8 after 1,000
samples, 0.3 to 0.45 after 3,000 and 0.2 to 0.3 after 10,000."""

MOST_PARAMETERS = 64
"""Errors are averaged over about so many parameters at most."""

SOLVER = 1e-7
"""What a preference may be off by the solver's doing, as a share of the range of values."""


def conflict(feasible: FeasibleRewardSet, errors: ArrayLike = 0.0, share: float = SHARE) -> list[Entry]:
    """Answers `(h, s, a)` that no reward of the space explains together, though one does without any of them.

    Every answer is optimal under a constant reward, so not every reward counts. The *preference* of a reward is the
    mean of `Q(answer) - Q(a')` over all answers and everything else that was tried, where the values of a step range
    over one at most, and all go on as the expert does. Those count that reach a `share` of the largest preference there
    is. They may be indifferent in many answers, as an expert is who has ties. Actions that no reward of the space tells
    apart are not compared. Empty if a reward that counts explains all answers.

    `errors`, a number or `[H, S]`, is what an answer may fall short by, as a share of the range of values: see
    `answer_errors`. Where the expert is not known everywhere, what is found is a conflict all the same, but there may
    be others.
    """
    if not 0 < share <= 1:
        raise InputError(f"share must be above 0 and at most 1, got {share}")
    allowed = np.broadcast_to(np.asarray(errors, dtype=np.float64), feasible.known.shape)
    preferences = Preferences(feasible, allowed)
    places: BoolArray = np.asarray(preferences.compared.any(axis=2))
    least = share * preferences.largest(np.zeros_like(places)).value
    if least <= SOLVER:
        return []
    all_answers = preferences.largest(places)
    if all_answers.value >= least - SOLVER:
        return []
    # The answers with dual prices are in conflict already; of these one after the other is left out, if it can be.
    priced = preferences.largest(all_answers.binding).value < least - SOLVER
    left = all_answers.binding if priced else places
    for h, s in sorted(np.argwhere(left).tolist(), key=lambda place: -allowed[place[0], place[1]]):
        without = left.copy()
        without[h, s] = False
        if preferences.largest(without).value < least - SOLVER:
            left = without
    return [(h, s, int(feasible.policy[h, s].argmax())) for h, s in np.argwhere(left).tolist()]


def estimated_conflict(estimate: Estimate, space: RewardSpace) -> list[Entry]:
    """The conflict of the answers in a space, as far as the estimated dynamics tell: see `ESTIMATED_SHARE`."""
    feasible = FeasibleRewardSet.of_estimate(estimate, space=space)
    return conflict(feasible, answer_errors(estimate, feasible), ESTIMATED_SHARE)


def answer_errors(estimate: Estimate, feasible: FeasibleRewardSet) -> FloatArray:
    """`[H, S]`: the standard error of a difference between two actions, as a share of the range of values.

    Errors are those of `irl.likelihood`: a row of `n` observations gives the mean of `V` up to `Var(V)/n`, and what was
    never seen is guessed from the other actions, as one more observation. The mean square is taken over the values that
    single parameters give, each with a range of one; of many parameters some are taken.
    """
    n = feasible.design.n_parameters
    squares = [_square_errors(estimate, feasible, np.eye(1, n, k)[0]) for k in range(0, n, -(-n // MOST_PARAMETERS))]
    return np.asarray(np.sqrt(np.mean(squares, axis=0)))


def _square_errors(estimate: Estimate, feasible: FeasibleRewardSet, theta: FloatArray) -> FloatArray:
    """`[H, S]`: the same for one reward, squared; nothing if it makes no difference."""
    mdp, (_, values) = estimate.mdp, feasible.values(theta)
    span = float((values.max(axis=1) - values.min(axis=1)).max())
    later = np.concatenate([mdp.discount * values[1:], np.zeros((1, mdp.n_states))]) / (span if span > 0 else np.inf)
    mean, square = mdp.transitions.expect(later), mdp.transitions.expect(later**2)
    tried = np.maximum(1, mdp.known.sum(axis=2))
    others = (square.sum(axis=2) / tried - (mean.sum(axis=2) / tried) ** 2)[:, :, None]
    visits = np.maximum(1.0, estimate.row_visits)
    error = np.maximum(0.0, visits * (square - mean**2) + others) / ((visits + 1) * visits) * mdp.known
    luck = 1 + np.log(np.maximum(1, tried - 1))
    return np.asarray(luck * (error.max(axis=2) + error.sum(axis=2) / tried))


@dataclass(frozen=True, eq=False)
class Separation:
    """What the answers are preferred by under the best reward, and which answers keep it from more, `[H, S]`."""

    value: float
    theta: FloatArray
    binding: BoolArray


@dataclass(frozen=True, eq=False)
class Preferences:
    """Rewards of a space by how much they prefer the answers: a linear programme in `θ` and the values of open states.

    `errors [H, S]` is what answers may fall short by.
    """

    feasible: FeasibleRewardSet
    errors: FloatArray

    @cached_property
    def compared(self) -> BoolArray:
        """`[H, S, A]`: what answers are preferred to."""
        return np.asarray(compared(self.feasible, self._linear[1]) & self.feasible.known[:, :, None])

    @cached_property
    def _linear(self) -> tuple[Any, Any]:
        """`V` and `V - Q` as functions of the unknowns, all following the expert where it is known."""
        return linear(self.feasible, self.feasible.policy)

    @cached_property
    def _base(self) -> Programme:
        """What holds of all rewards, whatever they explain; the last unknowns are the least value of each step."""
        feasible, (values, behind) = self.feasible, self._linear
        horizon, n_states, _ = feasible.mdp.shape
        n_values, m = values.shape
        is_open = behind[(compared(feasible, behind) & ~feasible.known[:, :, None]).ravel()]
        level = scipy.sparse.kron(scipy.sparse.eye_array(horizon), np.ones((n_states, 1)))
        free = np.full(m - feasible.design.n_parameters + horizon, np.inf)
        mean = np.asarray(behind[self.compared.ravel()].mean(axis=0)).ravel()
        return Programme(
            cost=np.append(-mean, np.zeros(horizon)),
            rows=scipy.sparse.block_array([[is_open, None], [values, -level]], format="csr"),
            low=np.zeros(is_open.shape[0] + n_values),
            high=np.append(np.full(is_open.shape[0], np.inf), np.ones(n_values)),
            lower=np.append(feasible.lower.ravel(), -free),
            upper=np.append(feasible.upper.ravel(), free),
        )

    def largest(self, explained: BoolArray) -> Separation:
        """Of the rewards that explain these answers, `[H, S]`, the one that prefers all answers most."""
        if not self.compared.any():
            return Separation(0.0, np.zeros_like(self.feasible.lower), np.zeros_like(explained))
        base, entries = self._base, (self.compared & explained[:, :, None]).ravel()
        ahead = scipy.sparse.hstack(
            [self._linear[1][entries], scipy.sparse.csr_array((int(entries.sum()), self.feasible.mdp.horizon))]
        )
        per_entry = np.repeat(self.errors.ravel(), self.feasible.mdp.n_actions)[entries]
        solution = replace(
            base,
            rows=scipy.sparse.vstack([base.rows, ahead], format="csr"),
            low=np.append(base.low, -per_entry),
            high=np.append(base.high, np.where(self.feasible.policy.ravel()[entries] > 0, per_entry, np.inf)),
        ).solve()
        return Separation(
            -solution.objective, solution.x[: self.feasible.design.n_parameters], self._binding(entries, solution)
        )

    def _binding(self, entries: BoolArray, solution: Solution) -> BoolArray:
        """`[H, S]`: where rows of the answers have a price."""
        priced = np.zeros(entries.size, dtype=np.bool_)
        priced[entries] = np.abs(solution.prices[len(self._base.low) :]) > 1e-9 * max(1.0, -solution.objective)
        return np.asarray(priced.reshape(self.compared.shape).any(axis=2))
