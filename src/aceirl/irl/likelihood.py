"""How likely the expert's answers are under a reward, when the dynamics are only estimated.

The expert takes the best action for the steps that are left, and errs now and then. The learner knows its rows of
transitions up to an error: a row of `n` observations gives the mean of a value `V` up to `Var(V)/n`. So an action that
lags behind the best one by less than that may be the best one. The lag of an action at `(h, s)`, in units of its error,
is

    z(a) = (max Q - Q(a)) / sqrt((ρ·R)² + (1 + log(k-1))·σ²),

where `k` actions were tried in the state, `σ²` adds up the errors of two rows, `R` is the range of the values at the
next step, and `ρ` is how much of it the expert takes no notice of. The logarithm is what the best of `k-1` wrong
actions gains by luck. An action that was never tried cannot be compared and is left out. `Q` and `V` are optimal values
over the actions that were tried. All of it is free of units. The likelihood of an answer is

    (1-e)·exp(-z(a)) / Σ exp(-z(a')) + e/k,

where `e` is how often the expert errs. The answers of one state, at several steps, rest on the same rows and so on the
same errors: `n` of them count for no more than `1 + log n`, and at most for four.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aceirl.counts import Estimate
from aceirl.kernels import compiled
from aceirl.mdp import BoolArray, FloatArray, IntArray

INDIFFERENCE = 0.01
"""`ρ`: the share of the range of values that an expert takes no notice of."""

ERROR_RATES = np.array([0.0, 0.03, 0.1, 0.3])
"""The rates `e` of answer errors that are told apart."""

ERROR_PRICE = np.array([0.0, 1.2, 2.0, 3.5])
"""How many nats an error rate must gain to be believed."""

MOST_WEIGHT = 4.0
"""What the answers of one state count for at most."""

EXPLAINED = 1.0
"""An answer is explained if its action lags by at most this many errors."""


SETTLED = 1e-12
"""Values that grow by amounts that differ by at most this share of the largest value grow alike."""

ROUNDING = 1e-9
"""By how many nats a sum may be off that was added up in another order, and more."""

_NOTHING: FloatArray = np.zeros((0, 0))


@dataclass(frozen=True)
class Judgement:
    """What the answers say of a reward: their `loss` in nats, and its mean and variance if the reward were right."""

    loss: float
    expected: float
    variance: float
    error_rate: float


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The answers of an estimate, ready to be judged by rewards `[H, S, A]`, or `[1, S, A]` for all steps alike."""

    estimate: Estimate

    @cached_property
    def _rows(self) -> tuple[IntArray, NDArray[np.int32], FloatArray, int]:
        return self.estimate.mdp.transitions.rows

    @cached_property
    def _answers(self) -> FloatArray:
        """`[H, S, A]`: what each answer counts for."""
        answers = np.ascontiguousarray(self.estimate.counts.answers, dtype=np.float64)
        if not self.estimate.mdp.stationary:
            return answers
        given = np.maximum(1.0, answers.sum(axis=(0, 2)))
        return np.asarray(answers * (np.minimum(1 + np.log(given), MOST_WEIGHT) / given)[None, :, None])

    @cached_property
    def _earlier(self) -> FloatArray:
        """`[H, S, A]`: what the answers of a step and of all before it count for; empty if rows differ by step."""
        answers = self._answers
        return np.cumsum(answers, axis=0) if self.estimate.mdp.stationary else answers[:0]

    @cached_property
    def _asked(self) -> tuple[IntArray, IntArray]:
        """Where there are answers: at step `h` in the states `second[first[h]:first[h + 1]]`, in order; those with an
        answer at any step come last, from `first[-1]` on."""
        asked = np.asarray(self._answers.any(axis=2))
        steps, states = np.nonzero(np.vstack((asked, asked.any(axis=0))))
        return np.searchsorted(steps, np.arange(len(asked) + 1)), states

    @cached_property
    def _visits(self) -> FloatArray:
        """`[1, S, A]`, or `[H, S, A]` if rows differ from step to step."""
        visits = self.estimate.row_visits
        return np.ascontiguousarray(visits[:1] if self.estimate.mdp.stationary else visits, dtype=np.float64)

    @cached_property
    def _leading(self) -> tuple[IntArray, IntArray]:
        """The states with an action that may lead to `s` are `second[first[s]:first[s + 1]]`; both are empty if rows
        differ by step."""
        mdp = self.estimate.mdp
        if not mdp.stationary:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        states = np.repeat(np.arange(mdp.transitions.n_rows) // mdp.n_actions, np.diff(mdp.transitions.indptr))
        pairs = np.unique(mdp.transitions.successors.astype(np.int64) * mdp.n_states + states)
        return np.searchsorted(pairs, np.arange(mdp.n_states + 1) * mdp.n_states), pairs % mdp.n_states

    @cached_property
    def _unpaid(self) -> FloatArray:
        """`[S]`: what the answers of each state cost where nothing is ever paid from there on and every action is as
        good as any other; empty if rows differ by step."""
        mdp = self.estimate.mdp
        if not mdp.stationary:
            return np.zeros(0)
        tried = np.diff(mdp.transitions.indptr).reshape(mdp.shape[1:]) > 0
        given = np.where(tried, self._answers.sum(axis=0), 0.0).sum(axis=1)
        return np.asarray(given * np.log(np.maximum(1, tried.sum(axis=1))))

    def _sums(self, reward: FloatArray, rates: FloatArray, n: int, lag: FloatArray = _NOTHING) -> FloatArray:
        """`[n, E]`: minus the log-likelihood; if `n` is 3, its mean if the reward were right, and its variance then."""
        sums, all_states = np.zeros((n, len(rates))), np.arange(self.estimate.mdp.n_states)
        (asked_first, asked), (leading_first, leading) = self._asked, self._leading
        answers, earlier, visits = self._answers, self._earlier, self._visits
        _sweep(
            *self._rows, reward, all_states, leading_first, leading, answers, earlier, asked_first, asked, visits,
            rates, sums, lag, np.inf,
        )  # fmt: skip
        return sums

    def judged(self, reward: FloatArray, more: FloatArray | float = 0.0) -> Judgement:
        """How likely the answers are at the likeliest error rate, and how likely they should be.

        `more [3, E]` is what else is known of the reward, in the same form: see `Comparisons.sums`.
        """
        sums = self._sums(reward, ERROR_RATES, 3) + more
        best = int((sums[0] + ERROR_PRICE).argmin())
        loss, expected, variance = (float(value) for value in sums[:, best])
        return Judgement(loss + float(ERROR_PRICE[best]), expected, variance, float(ERROR_RATES[best]))

    def loss(self, reward: FloatArray) -> float:
        """Minus the log-likelihood of all answers at the likeliest error rate, with its price."""
        return float((self._sums(reward, ERROR_RATES, 1)[0] + ERROR_PRICE).min())

    def losses(self, rewards: FloatArray, prices: FloatArray, limit: float) -> FloatArray:
        """`[N]`: the loss of each of many `rewards [N, H or 1, S, A]`, plus its price `[N]`, or `[N, E]` by error rate.

        What is sure to be above the limit is not worked out to the end.
        """
        found = prices.reshape(len(rewards), -1) + ERROR_PRICE
        (asked_first, asked), (leading_first, leading) = self._asked, self._leading
        answers, earlier, visits = self._answers, self._earlier, self._visits
        _sweep_all(
            *self._rows, rewards, leading_first, leading, self._unpaid, answers, earlier, asked_first, asked, visits,
            ERROR_RATES, found, limit,
        )  # fmt: skip
        return np.asarray(found.min(axis=1))

    def explained(self, reward: FloatArray) -> tuple[BoolArray, BoolArray]:
        """`[H, S]` each: which answers can be compared at all, and which of these the reward explains."""
        lag = np.full(self.estimate.mdp.shape[:2], np.nan)
        self._sums(reward, ERROR_RATES[:1], 1, lag)
        compared = np.isfinite(lag)
        return compared, compared & (np.nan_to_num(lag) <= EXPLAINED)

    @cached_property
    def pull(self) -> FloatArray:
        """`[H, S, A]`: how much more often the expert goes there than someone who takes any action that was tried.

        It tells where to look for a reward: the entries to which the answers lead, and the others do not.
        """
        known = np.asarray(self.estimate.mdp.known, dtype=np.float64)
        anything = known / np.maximum(1.0, known.sum(axis=2, keepdims=True))
        given = self._answers * known
        flow = given - given.sum(axis=2)[:, :, None] * anything
        _push(*self._rows, anything, flow)
        return np.asarray(flow)


@compiled
def _sweep(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    reward: FloatArray,
    paid_from: IntArray,
    leading_first: IntArray,
    leading: IntArray,
    answers: FloatArray,
    earlier: FloatArray,
    asked_first: IntArray,
    asked: IntArray,
    visits: FloatArray,
    rates: FloatArray,
    sums: FloatArray,
    lag: FloatArray,
    limit: float,
) -> None:
    """One backward sweep over optimal values of the tried actions; adds to the `sums` of `Likelihood._sums`.

    From all states but those of `paid_from`, in order, nothing is ever paid: every action is as good as any other. So
    only these are looked at, and those that were `asked` about: see `Likelihood._asked`. Where reward and rows are the
    same at every step, the value of a state is worked out anew only if one of those it is `leading` to has changed.
    `lag [H, S]`, unless of size zero, becomes that of the worst answer there. It ends early where all sums are above
    the `limit`: they only ever grow. And where reward and rows are the same at every step, it ends once the values of
    all states grow by the same amount from step to step: they then do so for ever, so the step before stands for all
    `earlier` ones.
    """
    horizon, n_states, n_actions = answers.shape
    v, alike = np.zeros((2, n_states)), reward.shape[0] == 1
    settled, paid, nothing = False, 0.0, len(paid_from) < n_states
    q, spread, share = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    luck, logs = np.ones(n_actions + 1), np.full((len(rates), n_actions + 1, 2, 2), np.nan)
    unpaid, changing = np.full((len(rates), n_actions + 1), np.nan), np.ones(n_states, dtype=np.bool_)
    for tried in range(3, n_actions + 1):
        luck[tried] = 1.0 + np.log(tried - 1.0)
    for h in range(horizon - 1, -1, -1):
        if sums[0].min() > limit:
            return
        here, later = v[h % 2], v[(h + 1) % 2]
        pooled, step = 0 if visits.shape[0] == 1 else h, 0 if alike else h
        counted = earlier[h] if settled else answers[h]
        if h == horizon - 1 or not alike:
            paid = _span(reward[step].ravel())
        judging = asked[asked_first[horizon] :] if settled else asked[asked_first[h] : asked_first[h + 1]]
        span = max(_span_of(later, paid_from, nothing), paid) if len(judging) else 0.0
        to_pay, to_judge = 0, 0
        while to_pay < len(paid_from) or to_judge < len(judging):
            next_paid = paid_from[to_pay] if to_pay < len(paid_from) else n_states
            next_judged = judging[to_judge] if to_judge < len(judging) else n_states
            s, judged = min(next_paid, next_judged), next_judged <= next_paid
            to_judge += judged
            if next_judged < next_paid:
                _add_unpaid(indptr, h * stride + s * n_actions, counted, s, rates, unpaid, sums)
                continue
            to_pay += 1
            if not (judged or changing[s]):
                here[s] = later[s]
                continue
            best, tried, given = -np.inf, 0, 0.0
            mean, square = 0.0, 0.0
            last = np.uint64(indptr[h * stride + s * n_actions])
            for a in range(n_actions):
                # Unsigned numbers need no look at whether they count from the end.
                first, last = last, np.uint64(indptr[h * stride + s * n_actions + a + 1])
                q[a] = -np.inf
                if first == last:
                    continue
                value, m, m2 = reward[step, s, a], 0.0, 0.0
                if judged:
                    for k in range(first, last):
                        x = later[np.uint32(successors[k])]
                        part = probabilities[k] * x
                        value += part
                        m += part
                        m2 += part * x
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
            if tried < 2 or given == 0.0:
                continue
            # What is not known of a row is guessed from the other actions of the state, as one more observation.
            mean, square = mean / tried, square / tried
            elsewhere = max(0.0, square - mean * mean)
            largest, total = 0.0, 0.0
            for a in range(n_actions):
                if q[a] > -np.inf:
                    n = visits[pooled, s, a]
                    error = (n * spread[a] + elsewhere) / ((n + 1.0) * n)
                    total += error
                    largest = max(largest, error)
            unit = np.sqrt((INDIFFERENCE * span) ** 2 + luck[tried] * (largest + total / tried) + 1e-300)
            total = 0.0
            for a in range(n_actions):
                share[a] = 1.0 if q[a] == best else np.exp((q[a] - best) / unit) if q[a] > -np.inf else 0.0
                total += share[a]
            for e in range(len(rates)):
                mean, square = 0.0, 0.0
                for a in range(n_actions):
                    if q[a] == -np.inf or (counted[s, a] == 0.0 and sums.shape[0] == 1):
                        continue
                    likely = (1.0 - rates[e]) * share[a] / total + rates[e] / tried
                    # Most states have one clear best action or none: then the logarithm is that of the state before.
                    best_one = int(share[a] == 1.0)
                    if logs[e, tried, best_one, 0] != likely:
                        logs[e, tried, best_one, 0], logs[e, tried, best_one, 1] = likely, -np.log(max(likely, 1e-300))
                    loss = logs[e, tried, best_one, 1]
                    mean += likely * loss
                    square += likely * loss * loss
                    sums[0, e] += counted[s, a] * loss
                if sums.shape[0] == 3:
                    sums[1, e] += given * mean
                    sums[2, e] += given * max(0.0, square - mean * mean)
            if lag.size:
                for at in range(0 if settled else h, h + 1):
                    for a in range(n_actions):
                        behind = (best - q[a]) / unit
                        if answers[at, s, a] > 0.0 and q[a] > -np.inf and not lag[at, s] > behind:
                            lag[at, s] = behind
        if settled:
            return
        settled = alike and earlier.shape[0] > 0 and _grow_alike(here, later, paid_from, nothing)
        if alike and leading_first.size:
            _mark_changing(here, later, paid_from, leading_first, leading, changing)


@compiled
def _span(values: FloatArray) -> float:
    """The largest of some numbers less the smallest."""
    least, most = values[0], values[0]
    for value in values:
        least, most = min(least, value), max(most, value)
    return float(most - least)


@compiled
def _span_of(values: FloatArray, states: IntArray, nothing: bool) -> float:
    """The largest value of these states less the smallest; with `nothing`, there are others, which have none."""
    least, most = (0.0, 0.0) if nothing else (values[states[0]], values[states[0]])
    for s in states:
        least, most = min(least, values[s]), max(most, values[s])
    return float(most - least)


@compiled
def _add_unpaid(
    indptr: IntArray, row: int, counted: FloatArray, s: int, rates: FloatArray, unpaid: FloatArray, sums: FloatArray
) -> None:
    """Add the answers `counted[s]` of a state whose rows begin at `row`, where every action is as good as any other.

    `unpaid [E, A+1]` keeps what an answer costs by the number of actions that were tried.
    """
    tried, n_actions = 0, counted.shape[1]
    for a in range(n_actions):
        tried += indptr[row + a] < indptr[row + a + 1]
    if tried >= 2:
        for a in range(n_actions):
            if counted[s, a] != 0.0 and indptr[row + a] < indptr[row + a + 1]:
                for e in range(len(rates)):
                    if np.isnan(unpaid[e, tried]):
                        likely = (1.0 - rates[e]) * 1.0 / tried + rates[e] / tried
                        unpaid[e, tried] = -np.log(max(likely, 1e-300))
                    sums[0, e] += counted[s, a] * unpaid[e, tried]


@compiled
def _grow_alike(here: FloatArray, later: FloatArray, states: IntArray, nothing: bool) -> bool:
    """Whether the values of all states have grown by the same amount, up to rounding; see `_span_of`."""
    least, most = (0.0, 0.0) if nothing else (np.inf, -np.inf)
    largest = 0.0
    for s in states:
        least, most = min(least, here[s] - later[s]), max(most, here[s] - later[s])
        largest = max(largest, abs(here[s]))
    return most - least <= SETTLED * largest


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
def _sweep_all(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    rewards: FloatArray,
    leading_first: IntArray,
    leading: IntArray,
    unpaid: FloatArray,
    answers: FloatArray,
    earlier: FloatArray,
    asked_first: IntArray,
    asked: IntArray,
    visits: FloatArray,
    rates: FloatArray,
    found: FloatArray,
    limit: float,
) -> None:
    """Add to each of the prices `found [N, E]` the loss of its reward at each error rate.

    Where the answers from which nothing is paid, with the price, are above the limit, the others are not looked at.
    """
    lag, n_states = np.empty((0, 0)), answers.shape[1]
    paid_from, all_unpaid = np.arange(n_states), unpaid.sum()
    for n in range(len(rewards)):
        if leading_first.size and rewards.shape[1] == 1:
            paid_from, still_unpaid = _paid_from(rewards[n, 0], leading_first, leading), all_unpaid
            for s in paid_from:
                still_unpaid -= unpaid[s]
            if found[n].min() + still_unpaid > limit + ROUNDING:
                found[n] += still_unpaid
                continue
        _sweep(
            indptr,
            successors,
            probabilities,
            stride,
            rewards[n],
            paid_from,
            leading_first,
            leading,
            answers,
            earlier,
            asked_first,
            asked,
            visits,
            rates,
            found[n : n + 1],
            lag,
            limit,
        )


@compiled
def _paid_from(reward: FloatArray, leading_first: IntArray, leading: IntArray) -> IntArray:
    """The states, in order, from which something may be paid by `reward [S, A]`: see `Likelihood._leading`."""
    n_states, n_actions = reward.shape
    found, waiting, left = np.zeros(n_states, dtype=np.bool_), np.empty(n_states, dtype=np.int64), 0
    for s in range(n_states):
        for a in range(n_actions):
            if reward[s, a] != 0.0 and not found[s]:
                found[s], waiting[left], left = True, s, left + 1
    while left:
        left -= 1
        reached = waiting[left]
        for k in range(leading_first[reached], leading_first[reached + 1]):
            if not found[leading[k]]:
                found[leading[k]], waiting[left], left = True, leading[k], left + 1
    return np.flatnonzero(found)


@compiled
def _push(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    policy: FloatArray,
    flow: FloatArray,
) -> None:
    """Follow `flow [H, S, A]` forward through a policy `[H, S, A]`, in place: all that comes from it is added."""
    horizon, n_states, n_actions = policy.shape
    here = np.zeros(n_states)
    for h in range(horizon):
        after = np.zeros(n_states)
        for s in range(n_states):
            for a in range(n_actions):
                flow[h, s, a] += here[s] * policy[h, s, a]
                if flow[h, s, a] != 0.0:
                    row = h * stride + s * n_actions + a
                    for k in range(indptr[row], indptr[row + 1]):
                        after[successors[k]] += flow[h, s, a] * probabilities[k]
        here = after
