"""How likely the expert's answers are under a reward, when the dynamics are only estimated.

The expert takes the best action for the steps that are left, and errs now and then. The learner knows its rows of
transitions up to an error: a row of `n` observations gives the mean of a value `V` up to `Var(V)/n`. So an action that
falls short of the best one by less than that may be the best one. The standardised gap of an action at `(h, s)`, in
units of its error, is

    z(a) = (max Q - Q(a)) / sqrt((ρ·R)² + (1 + log(k-1))·σ²),

where `k` actions were tried in the state, `σ²` adds up the errors of two rows, `R` is the range of the values at the
next step, and `ρ` is how much of it the expert takes no notice of. The logarithm is what the best of `k-1` wrong
actions gains by luck. An action that was never tried cannot be compared and is left out. `Q` and `V` are optimal values
over the actions that were tried. All of it is free of units. The likelihood of an answer is

    (1-e)·exp(-z(a)) / Σ exp(-z(a')) + e/k,

where `e` is how often the expert errs. The answers of one state, at several steps, rest on the same rows and so on the
same errors: `n` of them count for no more than `1 + log n`, and at most for four.

This file is the likelihood as it is written here, one reward at a time. A search judges thousands of rewards that
differ a little: `incremental_likelihood` finds the same numbers, and does as little work for it as it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import Successors, compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards.spaces import Entries

INDIFFERENCE = 0.01
"""`ρ`: the share of the range of values that an expert takes no notice of."""

ERROR_RATES = np.array([0.0, 0.03, 0.1, 0.3])
"""The rates `e` of answer errors that are told apart."""

ERROR_PRICE = np.array([0.0, 1.2, 2.0, 3.5])
"""How many nats an error rate must gain to be believed."""

MOST_WEIGHT = 4.0
"""What the answers of one state count for at most."""

EXPLAINED = 1.0
"""An answer is explained if the standardised gap of its action is at most this."""

LEAST_RANGE = 1e-6
"""Values are taken to range over at least this share of the largest: gaps that are due to rounding are none."""


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
    def answers(self) -> FloatArray:
        """`[H, S, A]`: what each answer counts for."""
        answers = np.ascontiguousarray(self.estimate.counts.answers, dtype=np.float64)
        if not self.estimate.mdp.stationary:
            return answers
        given = np.maximum(1.0, answers.sum(axis=(0, 2)))
        return np.asarray(answers * (np.minimum(1 + np.log(given), MOST_WEIGHT) / given)[None, :, None])

    @cached_property
    def visits(self) -> FloatArray:
        """How often each row was observed, `[1, S, A]`, or `[H, S, A]` if rows differ by step."""
        visits = self.estimate.row_visits
        return np.ascontiguousarray(visits[:1] if self.estimate.mdp.stationary else visits, dtype=np.float64)

    def _sums(self, reward: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`[3, E]` and `[H, S]`: see `_sum_over_answers`."""
        sums, gaps = np.zeros((3, len(ERROR_RATES))), np.full(self.estimate.mdp.shape[:2], np.nan)
        mdp = self.estimate.mdp
        _sum_over_answers(mdp.backup.rows, mdp.discount, self.visits, self.answers, reward, sums, gaps)
        return sums, gaps

    def judged(self, reward: FloatArray, more: FloatArray | float = 0.0) -> Judgement:
        """How likely the answers are at the likeliest error rate, and how likely they should be.

        `more [3, E]` is what else is known of the reward, in the same form: see `Comparisons.sums`.
        """
        sums = self._sums(reward)[0] + more
        best = int((sums[0] + ERROR_PRICE).argmin())
        loss, expected, variance = (float(value) for value in sums[:, best])
        return Judgement(loss + float(ERROR_PRICE[best]), expected, variance, float(ERROR_RATES[best]))

    def loss(self, reward: FloatArray) -> float:
        """Minus the log-likelihood of all answers at the likeliest error rate, with its price."""
        return self.judged(reward).loss

    def explained(self, reward: FloatArray) -> tuple[BoolArray, BoolArray]:
        """`[H, S]` each: which answers can be compared at all, and which of these the reward explains."""
        gaps = self._sums(reward)[1]
        compared = np.isfinite(gaps)
        return compared, compared & (np.nan_to_num(gaps) <= EXPLAINED)

    @cached_property
    def feature_gap(self) -> FloatArray:
        """`[H, S, A]`: how much more often the expert goes there than someone who takes any action that was tried.

        It tells where to look for a reward: the entries to which the answers lead, and the others do not.
        """
        known = np.asarray(self.estimate.mdp.known, dtype=np.float64)
        anything = known / np.maximum(1.0, known.sum(axis=2, keepdims=True))
        given = self.answers * known
        flow = given - given.sum(axis=2)[:, :, None] * anything
        _push(*self.estimate.mdp.backup.rows, anything, flow)
        return np.asarray(flow)


@compiled
def _sum_over_answers(
    rows: tuple[IntArray, Successors, FloatArray, int],
    discount: float,
    visits: FloatArray,
    answers: FloatArray,
    reward: FloatArray,
    sums: FloatArray,
    gaps: FloatArray,
) -> None:
    """One backward sweep over optimal values of the tried actions, with `rows` that are discounted.

    Adds to `sums [3, E]`, at each error rate: minus the log-likelihood, its mean if the reward were right, and its
    variance then. `gaps [H, S]` becomes the standardised gap of the worst answer, where answers can be compared.
    """
    indptr, successors, probabilities, stride = rows
    horizon, n_states, n_actions = answers.shape
    q, spread, later = np.empty(n_actions), np.empty(n_actions), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        paid, n = reward[0 if len(reward) == 1 else h], visits[0 if len(visits) == 1 else h]
        span, here = max(value_range(later), spread_of(paid.ravel())), np.empty(n_states)
        for s in range(n_states):
            tried, given, mean, square = 0, 0.0, 0.0, 0.0
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                if indptr[row] == indptr[row + 1]:
                    q[a] = -np.inf
                    continue
                q[a], m, m2 = paid[s, a], 0.0, 0.0
                for k in range(indptr[row], indptr[row + 1]):
                    part = probabilities[k] * later[successors[k]]
                    q[a] += part
                    m += part
                    m2 += part * later[successors[k]]
                m2 *= discount  # of the square of what is discounted
                spread[a] = max(0.0, m2 - m * m)
                tried, given, mean, square = tried + 1, given + answers[h, s, a], mean + m, square + m2
            best = q.max()
            here[s] = best if tried else paid[s].max()
            if tried < 2 or given == 0.0:
                continue
            # What is not known of a row is guessed from the other actions of the state, as one observation.
            elsewhere = max(0.0, square / tried - (mean / tried) ** 2)
            largest, total = 0.0, 0.0
            for a in range(n_actions):
                if q[a] > -np.inf:
                    error = (n[s, a] * spread[a] + elsewhere) / ((n[s, a] + 1.0) * n[s, a])
                    largest, total = max(largest, error), total + error
            luck = 1.0 + np.log(tried - 1.0)
            unit = np.sqrt((INDIFFERENCE * span) ** 2 + luck * (largest + total / tried) + 1e-300)
            gap = (best - q) / unit
            share = np.exp(-gap)
            for e in range(len(ERROR_RATES)):
                mean, square = 0.0, 0.0
                for a in range(n_actions):
                    if q[a] > -np.inf:
                        likely = (1.0 - ERROR_RATES[e]) * share[a] / share.sum() + ERROR_RATES[e] / tried
                        loss = -np.log(max(likely, 1e-300))
                        sums[0, e] += answers[h, s, a] * loss
                        mean += likely * loss
                        square += likely * loss * loss
                sums[1, e] += given * mean
                sums[2, e] += given * max(0.0, square - mean * mean)
            for a in range(n_actions):
                if answers[h, s, a] > 0.0 and q[a] > -np.inf and not gaps[h, s] > gap[a]:
                    gaps[h, s] = gap[a]
        later = here


@compiled
def spread_of(values: FloatArray) -> float:
    """The largest of some numbers less the smallest."""
    least, most = values[0], values[0]
    for value in values:
        least, most = min(least, value), max(most, value)
    return float(most - least)


@compiled
def value_range(values: FloatArray) -> float:
    """The same of values that differ by more than rounding; of others, as much as tells them apart from rounding."""
    least, most = values[0], values[0]
    for value in values:
        least, most = min(least, value), max(most, value)
    return float(max(most - least, LEAST_RANGE * max(-least, most)))


@compiled
def write_rewards(by_row: Entries, theta: FloatArray, which: IntArray, rows: FloatArray) -> None:
    """What `theta [n]` pays, written into some of the `rows`."""
    first, parameters, pays = by_row
    for row in which:
        total = 0.0
        for i in range(first[row], first[row + 1]):
            total += pays[i] * theta[parameters[i]]
        rows[row] = total


@compiled
def _push(
    indptr: IntArray,
    successors: Successors,
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
