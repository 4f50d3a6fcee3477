"""The likelihood of `likelihood.py` for a search: the losses of many rewards that differ a little from each other.

What the rewards have in common is worked out once. Of each of them only those states are looked at anew from which one
may come to a row that it pays otherwise, and a reward that is sure to be worse than a limit is not judged to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from aceirl.irl.likelihood import (
    ERROR_PRICE,
    ERROR_RATES,
    INDIFFERENCE,
    Likelihood,
    spread_of,
    value_range,
    write_rewards,
)
from aceirl.models.tabular.kernels import Successors, compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards.spaces import DesignMatrix, Entries

SETTLED = 1e-12
"""Values that grow by amounts that differ by at most this share of the largest value grow alike."""

ROUNDING = 1e-9
"""By how many nats a sum may be off that was added up in another order, and more."""


class _Data(NamedTuple):
    """What compiled sweeps are told of an estimate, with its rows discounted.

    `answers [H, S, A]` is what each answer counts for and `earlier [H, S, A]` what those of a step and of all before it
    do; the latter is empty if rows differ by step. `asked [H+1, S]` is whether there are answers at a step or, in the
    last row, at any. `visits` is `[1, S, A]`, or `[H, S, A]` if rows differ by step. The states with an action that may
    lead to `s` are `leading[leading_first[s]:leading_first[s + 1]]`; both are empty if rows differ by step.
    """

    indptr: IntArray
    successors: Successors
    probabilities: FloatArray
    stride: int
    discount: float
    answers: FloatArray
    earlier: FloatArray
    asked: BoolArray
    visits: FloatArray
    leading_first: IntArray
    leading: IntArray


class Common(NamedTuple):
    """A reward that others have in common, worked out: from where they pay nothing else, all is as it says.

    Its parameters are `theta [n]`. With `k + 1` steps left `v[k]` are the values `[S]` of `reward [S, A]`, `q[k]` those
    of the actions `[S, A]`, -inf where one was not tried, and `noise[k]` is what the errors of the rows `[S]` add to
    the square of the unit of a gap. That is for `steps` steps; with each one more all values rise by `growth`. With
    `still` steps left or more the values do not change any more.

    The answers of a state cost `least [S, E]` or more, at each error rate, in whatever range the values of other states
    lie; and just that, unless the state is one of those that are `unsettled`, in order.
    """

    theta: FloatArray
    reward: FloatArray
    v: FloatArray
    q: FloatArray
    noise: FloatArray
    least: FloatArray
    unsettled: IntArray
    steps: int
    growth: float
    still: int


_NOTHING: FloatArray = np.zeros((0, 0))
_NO_COMMON = Common(
    np.zeros(0), _NOTHING, _NOTHING, np.zeros((0, 0, 0)), _NOTHING, _NOTHING, np.zeros(0, dtype=np.int64), 0, 0.0, 0
)


@dataclass(frozen=True, eq=False)
class IncrementalLikelihood:
    """The same answers, for many rewards at once; `losses` are those of `likelihood`."""

    likelihood: Likelihood

    @cached_property
    def _data(self) -> _Data:
        mdp, answers = self.likelihood.estimate.mdp, self.likelihood.answers
        asked, leading = np.asarray(answers.any(axis=2)), self._leading
        return _Data(
            *mdp.backup.rows,
            mdp.discount,
            answers=answers,
            earlier=np.cumsum(answers, axis=0) if mdp.stationary else answers[:0],
            asked=np.vstack((asked, asked.any(axis=0))),
            visits=self.likelihood.visits,
            leading_first=leading[0],
            leading=leading[1],
        )

    @property
    def _leading(self) -> tuple[IntArray, IntArray]:
        """`leading_first` and `leading`: see `_Data`."""
        mdp = self.likelihood.estimate.mdp
        if not mdp.stationary:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        states = np.repeat(np.arange(mdp.transitions.n_rows) // mdp.n_actions, np.diff(mdp.transitions.indptr))
        pairs = np.unique(mdp.transitions.successors.astype(np.int64) * mdp.n_states + states)
        return np.searchsorted(pairs, np.arange(mdp.n_states + 1) * mdp.n_states), pairs % mdp.n_states

    def common(self, design: DesignMatrix, theta: FloatArray) -> Common:
        """What the reward of parameters `[n]` makes of the answers, for `losses` of others that differ a little.

        Where it, or the rows, are not the same at every step, there is nothing to be gained.
        """
        mdp, reward = self.likelihood.estimate.mdp, design.steps(theta)
        if not mdp.stationary or len(reward) != 1:
            return _NO_COMMON
        v, q, noise = np.empty(mdp.shape[:2]), np.empty(mdp.shape), np.empty(mdp.shape[:2])
        kept = _NO_COMMON._replace(theta=np.array(theta), reward=reward[0], v=v, q=q, noise=noise)
        all_states = np.arange(mdp.n_states)
        steps, growth = _sweep(self._data, reward, all_states, kept, np.zeros(0), np.inf)
        least = np.zeros((mdp.n_states, len(ERROR_RATES)))
        unsettled = _add_least(self._data, v, q, noise, steps, least)
        still = (mdp.horizon + 1 if growth else steps) if reward.any() else 0
        return kept._replace(least=least, unsettled=unsettled, steps=steps, growth=growth, still=still)

    def losses(
        self, design: DesignMatrix, thetas: FloatArray, prices: FloatArray, limit: float, common: Common
    ) -> FloatArray:
        """`[N]`: the loss of each reward of parameters `thetas [N, n]`, plus its prices `[N, E]` by error rate.

        What is sure to be above the limit is not worked out to the end. It is all the same which part of them is said
        to be `common` to all, but for the time it takes.
        """
        found = prices + ERROR_PRICE
        table = np.empty((design.matrix.shape[0] // (design.shape[1] * design.shape[2]), *design.shape[1:]))
        _sweep_all(self._data, *design.entries, thetas, table, common, found, limit)
        return np.asarray(found.min(axis=1))


@compiled
def _sweep(
    data: _Data,
    reward: FloatArray,
    affected: IntArray,
    common: Common,
    sums: FloatArray,
    limit: float,
) -> tuple[int, float]:
    """One backward sweep over optimal values of the tried actions; adds the loss at each error rate to `sums [E]`.

    Of the states that are not `affected`, values are those of what is `common`, and only those are judged that are
    unsettled by it. Where reward and rows are the same at every step, the value of a state is worked out anew only if
    one of those it leads to has changed. It ends early where all sums are above the `limit`: they only ever grow. And
    where reward and rows are the same at every step, it ends once the values of all states grow by the same amount from
    step to step: they then do so for ever, so the step before stands for all `earlier` ones. Discounted growth slows
    down, so there it ends once the values do not grow any more.

    With no `sums` nothing is judged, and what is worked out is written into `common`. Returned are for how many steps
    it was, and by how much values grow with each one more.
    """
    answers, earlier, visits, indptr, stride = data.answers, data.earlier, data.visits, data.indptr, data.stride
    successors, probabilities, asked, discount = data.successors, data.probabilities, data.asked, data.discount
    common_v, common_q, common_noise = common.v, common.q, common.noise
    horizon, n_states, n_actions = answers.shape
    v, alike, others = np.zeros((2, n_states)), reward.shape[0] == 1, len(affected) < n_states
    own, looked_at = _with_own(affected, common.unsettled, n_states) if others else (affected >= 0, affected)
    keeping, settled, paid = sums.size == 0, False, 0.0
    q, spread, share = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    luck, logs = np.ones(n_actions + 1), np.full((len(ERROR_RATES), n_actions + 1, 2, 2), np.nan)
    changing = np.ones(n_states, dtype=np.bool_)
    for tried in range(3, n_actions + 1):
        luck[tried] = 1.0 + np.log(tried - 1.0)
    for h in range(horizon - 1, -1, -1):
        if not keeping and sums.min() > limit:
            break
        here, later = v[h % 2], v[(h + 1) % 2]
        left, pooled, step = horizon - 1 - h, 0 if visits.shape[0] == 1 else h, 0 if alike else h
        known = min(left, common.steps - 1)
        if others and left <= common.still:
            for s in range(n_states):
                here[s] = common_v[known, s] + (left - known) * common.growth
        counted, judging = (earlier[h], asked[horizon]) if settled else (answers[h], asked[h])
        if h == horizon - 1 or not alike:
            paid = spread_of(reward[step].ravel())
        span = -1.0
        for s in looked_at:
            judged = judging[s]
            best, tried, given, noise = -np.inf, 0, 0.0, 0.0
            if own[s]:
                if not (judged or keeping or changing[s]):
                    here[s] = later[s]
                    continue
                mean, square = 0.0, 0.0
                last = np.uint64(indptr[h * stride + s * n_actions])
                for a in range(n_actions):
                    # Unsigned numbers need no look at whether they count from the end.
                    first, last = last, np.uint64(indptr[h * stride + s * n_actions + a + 1])
                    q[a] = -np.inf
                    if first == last:
                        continue
                    value, m, m2 = reward[step, s, a], 0.0, 0.0
                    if judged or keeping:
                        for k in range(first, last):
                            x = later[np.uint32(successors[k])]
                            part = probabilities[k] * x
                            value += part
                            m += part
                            m2 += part * x
                        m2 *= discount  # of the square of what is discounted
                        spread[a] = max(0.0, m2 - m * m)
                        mean += m
                        square += m2
                        given += counted[s, a]
                    else:
                        for k in range(first, last):
                            value += probabilities[k] * later[np.uint32(successors[k])]
                    q[a] = value
                    tried += 1
                    best = max(best, value)
                if tried == 0:
                    for a in range(n_actions):
                        best = max(best, reward[step, s, a])
                here[s] = best
                if tried >= 2 and (judged or keeping):
                    # What is not known of a row is guessed from the other actions of the state, as one observation.
                    mean, square = mean / tried, square / tried
                    elsewhere = max(0.0, square - mean * mean)
                    largest, total = 0.0, 0.0
                    for a in range(n_actions):
                        if q[a] > -np.inf:
                            n = visits[pooled, s, a]
                            error = (n * spread[a] + elsewhere) / ((n + 1.0) * n)
                            total += error
                            largest = max(largest, error)
                    noise = luck[tried] * (largest + total / tried)
                if keeping:
                    common_v[left, s], common_q[left, s], common_noise[left, s] = best, q, noise
                    continue
            elif judged:
                best, noise = common_v[known, s], common_noise[known, s]
                for a in range(n_actions):
                    q[a] = common_q[known, s, a]
                    if q[a] > -np.inf:
                        tried += 1
                        given += counted[s, a]
            if not judged or tried < 2 or given == 0.0:
                continue
            if span < 0.0:
                span = max(value_range(later), paid)
            unit = np.sqrt((INDIFFERENCE * span) ** 2 + noise + 1e-300)
            total = 0.0
            for a in range(n_actions):
                share[a] = 1.0 if q[a] == best else np.exp((q[a] - best) / unit) if q[a] > -np.inf else 0.0
                total += share[a]
            for e in range(len(ERROR_RATES)):
                for a in range(n_actions):
                    if q[a] == -np.inf or counted[s, a] == 0.0:
                        continue
                    likely = (1.0 - ERROR_RATES[e]) * share[a] / total + ERROR_RATES[e] / tried
                    # Most states have one clear best action or none: then the logarithm is that of the state before.
                    best_one = int(share[a] == 1.0)
                    if logs[e, tried, best_one, 0] != likely:
                        logs[e, tried, best_one, 0], logs[e, tried, best_one, 1] = likely, -np.log(max(likely, 1e-300))
                    sums[e] += counted[s, a] * logs[e, tried, best_one, 1]
        if settled:
            break
        if not alike or earlier.shape[0] == 0:
            continue
        # One step does not show growth: a state in which nothing was tried may be worth as much, and never grows.
        if left and (not others or left >= common.steps):
            growth, spread_of_it, largest = _growth(here, later, affected)
            if others:
                growth, spread_of_it = common.growth, max(spread_of_it, abs(growth - common.growth))
            settled = max(spread_of_it, abs(growth) if discount < 1.0 else 0.0) <= SETTLED * largest
            if settled and keeping:
                # What is due to rounding alone is no growth.
                return left + 1, growth if abs(growth) > SETTLED * largest else 0.0
        if others and left < common.still:
            changing[affected] = True
        else:
            _mark_changing(here, later, affected, data.leading_first, data.leading, changing)
    return horizon, 0.0


@compiled
def _with_own(affected: IntArray, unsettled: IntArray, n_states: int) -> tuple[BoolArray, IntArray]:
    """Whether each state is affected, and those that are so or are unsettled, in order."""
    own = np.zeros(n_states, dtype=np.bool_)
    own[affected] = True
    looked_at = own.copy()
    looked_at[unsettled] = True
    return own, np.flatnonzero(looked_at)


@compiled
def _growth(here: FloatArray, later: FloatArray, states: IntArray) -> tuple[float, float, float]:
    """By how much the values of states have grown: of one of them, how far the others are apart, and the largest."""
    least, most, largest = np.inf, -np.inf, 0.0
    for s in states:
        least, most = min(least, here[s] - later[s]), max(most, here[s] - later[s])
        largest = max(largest, abs(here[s]))
    return (least, most - least, largest) if len(states) else (0.0, 0.0, 0.0)


@compiled
def _mark_changing(
    here: FloatArray,
    later: FloatArray,
    states: IntArray,
    leading_first: IntArray,
    leading: IntArray,
    changing: BoolArray,
) -> None:
    """Which of the states lead to one of them that has changed, and so may change at the step before."""
    for s in states:
        changing[s] = False
    for s in states:
        if here[s] != later[s]:
            for k in range(leading_first[s], leading_first[s + 1]):
                changing[leading[k]] = True


@compiled
def _add_least(data: _Data, v: FloatArray, q: FloatArray, noise: FloatArray, steps: int, least: FloatArray) -> IntArray:
    """Add to `least [S, E]`: see `Common`, with which it shares `v`, `q`, `noise` and `steps`; returns the unsettled.

    Where all actions are equally good, that is all there is to it. Else the unit of a gap is at least the root of the
    noise: so the best action is at most as likely as with that unit, and another at most as likely as each of those
    that are as good or better.
    """
    horizon, n_states, n_actions = data.answers.shape
    unsettled = np.zeros(n_states, dtype=np.bool_)
    for h in range(horizon - 1, -1, -1):
        known, settled = min(horizon - 1 - h, steps - 1), horizon - h >= steps
        counted, judging = (data.earlier[h], data.asked[horizon]) if settled else (data.answers[h], data.asked[h])
        for s in np.flatnonzero(judging):
            tried, total, unit = 0, 0.0, np.sqrt(noise[known, s] + 1e-300)
            for a in range(n_actions):
                tried += q[known, s, a] > -np.inf
                total += np.exp((q[known, s, a] - v[known, s]) / unit)
            for a in range(n_actions):
                if q[known, s, a] == -np.inf or counted[s, a] == 0.0:
                    continue
                as_good = 0
                for b in range(n_actions):
                    as_good += q[known, s, b] >= q[known, s, a]
                unsettled[s] |= as_good < tried or q[known, s, a] < v[known, s]
                likely = 1.0 / total if q[known, s, a] == v[known, s] else 1.0 / as_good
                for e in range(len(ERROR_RATES)):
                    least[s, e] -= counted[s, a] * np.log((1.0 - ERROR_RATES[e]) * likely + ERROR_RATES[e] / tried)
        if settled:
            break
    return np.flatnonzero(unsettled)


@compiled
def _sweep_all(
    data: _Data,
    by_row: Entries,
    by_parameter: Entries,
    thetas: FloatArray,
    table: FloatArray,
    common: Common,
    found: FloatArray,
    limit: float,
) -> None:
    """Add to each of the prices `found [N, E]` the loss of the reward of its parameters `[N, n]`, at each error rate.

    `table [H or 1, S, A]` is where rewards are written. Where the answers that are judged by what is common, with the
    price, are sure to be above the limit, the others are not looked at.
    """
    least, rows, n_states = common.least, table.reshape(-1), data.answers.shape[1]
    affected, all_rows = np.arange(n_states), np.arange(rows.size)
    in_all, still_open = np.zeros((2, len(ERROR_RATES))), np.empty(len(ERROR_RATES))
    unsettled = np.zeros(len(least), dtype=np.bool_)
    unsettled[common.unsettled] = True
    for k in range(len(least)):
        in_all[int(unsettled[k])] += least[k]
    for n in range(len(thetas)):
        if common.steps:
            paid_otherwise = _rows_of_changed(thetas[n], common.theta, by_parameter)
            affected = _reaching(paid_otherwise, table.shape[2], n_states, data.leading_first, data.leading)
            still_open[:] = in_all[1]
            for e in range(len(ERROR_RATES)):
                found[n, e] += in_all[0, e]
                for s in affected:
                    if unsettled[s]:
                        still_open[e] -= least[s, e]
                    else:
                        found[n, e] -= least[s, e]
            if (found[n] + still_open).min() > limit + ROUNDING:
                found[n] += still_open
                continue
            table[0] = common.reward
            write_rewards(by_row, thetas[n], paid_otherwise, rows)
        else:
            write_rewards(by_row, thetas[n], all_rows, rows)
        _sweep(data, table, affected, common, found[n], limit)


@compiled
def _rows_of_changed(theta: FloatArray, common: FloatArray, by_parameter: Entries) -> IntArray:
    """The rows, some perhaps twice, that are paid by parameters `[n]` that are not the same."""
    first, rows, _ = by_parameter
    n = 0
    for k in range(len(theta)):
        n += first[k + 1] - first[k] if theta[k] != common[k] else 0
    found, n = np.empty(n, dtype=np.int64), 0
    for k in range(len(theta)):
        if theta[k] != common[k]:
            for i in range(first[k], first[k + 1]):
                found[n], n = rows[i], n + 1
    return found


@compiled
def _reaching(rows: IntArray, n_actions: int, n_states: int, leading_first: IntArray, leading: IntArray) -> IntArray:
    """The states, in order, from which one may come to one of the rows `(s, a)`: see `_Data`."""
    found, waiting, left = np.zeros(n_states, dtype=np.bool_), np.empty(n_states, dtype=np.int64), 0
    for row in rows:
        s = row // n_actions
        if not found[s]:
            found[s], waiting[left], left = True, s, left + 1
    while left:
        left -= 1
        reached = waiting[left]
        for k in range(leading_first[reached], leading_first[reached + 1]):
            if not found[leading[k]]:
                found[leading[k]], waiting[left], left = True, leading[k], left + 1
    return np.flatnonzero(found)
