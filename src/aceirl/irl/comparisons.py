"""How likely it is that somebody likes one episode better than another, and which two to show next.

A reward with parameters `θ` pays an episode its return `f·θ`, where `f [n]` adds up what each parameter pays for the
moves that were really made: a terminal state on arrival, a step cost for each step left then. Two episodes with
the difference `d = f - f'` are compared by what speaks for either of them, `d·θ`, in units of

    ρ·Σ |d_k·θ_k|,

where `ρ` is the share of it that nobody takes notice of. So only shares matter: neither the scale of the reward nor the
length of the episodes. Call that `y`. With `σ(y) = 1/(1 + exp(-y))`, the first is liked better, the two are liked
equally, or the second is liked better with the probabilities

    σ(y)²,  2·σ(y)·σ(-y),  σ(-y)².

It is as if one looked twice, by Bradley and Terry (1952) each time, and called equal what comes out both ways: the
model of Davidson (1970) for ties, with `ν = 2`. With the probability `e`, any of the three is said in error. The error
rates are those of the answers, for it is the same person: see `likelihood`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from aceirl.data.arrays import Move
from aceirl.irl.likelihood import ERROR_RATES, INDIFFERENCE
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray, steps_after
from aceirl.rewards.spaces import DesignMatrix

Walk = tuple[Move, ...]

NO_DIFFERENCE = 1e-9
"""Pairs whose information differs by less, in nats, are equally informative."""


CERTAIN = 30.0
"""A lead of so many units leaves no doubt."""


def returns(design: DesignMatrix, terminal: IntArray, walks: Sequence[Walk], discount: float = 1.0) -> Any:
    """`F [N, n]`, sparse: the discounted return of each episode is `F·θ`, by what is paid for the moves that were made.

    An episode that ends in a `terminal` state stays there until the horizon; one that is cut off before earns no more.
    """
    horizon, n_states, n_actions = design.shape
    if not walks:
        return scipy.sparse.csr_array((0, design.n_parameters))
    moves = np.array([move for walk in walks for move in walk], dtype=np.int64).reshape(-1, 4)
    episode = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks])
    step, state, action, successor = moves.T
    ended = np.zeros(n_states, dtype=np.bool_)
    ended[terminal] = True
    acting = ~ended[state]
    arriving = acting & ended[successor]
    rows = np.concatenate(((state * n_actions + action)[acting], (successor * n_actions)[arriving]))
    made = np.concatenate((episode[acting], episode[arriving]))
    worth, shape = discount**step, (len(walks), n_states * n_actions)
    weights = np.concatenate((worth[acting], worth[arriving]))
    paid = scipy.sparse.csr_array((weights, (made, rows)), shape=shape) @ design.payments
    if design.has_step_cost:
        after = worth[arriving] * steps_after(horizon, discount)[step[arriving]]
        left = (after, (episode[arriving], np.full(arriving.sum(), design.n_parameters - 1)))
        paid = paid + scipy.sparse.csr_array(left, shape=paid.shape)
    paid = scipy.sparse.csr_array(paid)
    paid.sum_duplicates()
    return paid


class Comparisons:
    """The preferences of an estimate, ready to be judged by parameters `[n]` of a space that is laid over it."""

    def __init__(self, estimate: Estimate, design: DesignMatrix) -> None:
        told, self._n_parameters = estimate.preferences, design.n_parameters
        self.equal: BoolArray = np.array([one.equal for one in told], dtype=np.bool_)
        walks = [one.preferred for one in told] + [one.other for one in told]
        earned = returns(design, estimate.terminal_states, walks, estimate.mdp.discount)
        self.differences = scipy.sparse.csr_array(earned[: len(told)] - earned[len(told) :])

    def __len__(self) -> int:
        return len(self.equal)

    def losses(self, thetas: FloatArray) -> FloatArray:
        """`[N, E]`: minus the log-likelihood of all preferences, for each of `thetas [N, n]` and each error rate."""
        sums = np.zeros((len(thetas), len(ERROR_RATES)))
        if len(self):
            _add_losses(*self._rows, self.equal, np.ascontiguousarray(thetas), ERROR_RATES, sums)
        return sums

    def sums(self, theta: FloatArray) -> FloatArray:
        """`[3, E]`: minus the log-likelihood, its mean if the reward were right, and its variance then."""
        likely = (1 - ERROR_RATES) * _probabilities(self.lead(theta))[..., None] + ERROR_RATES / 3  # [3, P, E]
        loss = -np.log(likely)
        mean = (likely * loss).sum(axis=0)
        variance = (likely * (loss - mean) ** 2).sum(axis=0)
        return np.array([self.losses(theta[None])[0], mean.sum(axis=0), variance.sum(axis=0)])

    def lead(self, theta: FloatArray) -> FloatArray:
        """`[P]`: by how much more, in units, the reward pays for the episode that is liked better."""
        gap, weight = self.differences @ theta, abs(self.differences) @ np.abs(theta)
        return np.asarray(np.divide(gap, INDIFFERENCE * weight, out=np.zeros(len(self)), where=weight > 0))

    def explained(self, theta: FloatArray) -> BoolArray:
        """`[P]`: whether what was said is the likeliest of the three."""
        return np.asarray(_probabilities(self.lead(theta)).argmax(axis=0) == np.where(self.equal, 1, 0))

    @cached_property
    def feature_gap(self) -> FloatArray:
        """`[n]`: of how many episodes that are liked better each parameter pays more, less those of which it pays less.

        A single parameter is as likely as that says: its sign is all that a difference leaves of it.
        """
        liked = self.differences[~self.equal]
        return np.asarray(liked.sign().sum(axis=0)).reshape(self._n_parameters)

    @cached_property
    def paid(self) -> BoolArray:
        """`[n]`: which parameters pay any two episodes differently."""
        paid = np.zeros(self._n_parameters, dtype=np.bool_)
        paid[self.differences.nonzero()[1]] = True
        return paid

    @cached_property
    def _rows(self) -> tuple[IntArray, IntArray, FloatArray]:
        rows = self.differences
        return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data.astype(np.float64)


def informative_pair(
    earned: Any, thetas: FloatArray, weights: FloatArray, asked: Collection[tuple[int, int]] = ()
) -> tuple[int, int] | None:
    """The two episodes whose comparison tells most about which of the rewards `thetas [M, n]` is right.

    `earned [N, n]` is that of `returns`; `weights [M]` are the probabilities of the rewards. What a comparison tells is
    the mutual information of what is said and the reward: the entropy of the mean probabilities less the mean entropy.
    Of pairs that tell equally much, and if there are no rewards to tell apart, it is the one that differs in the most
    parameters. Pairs `(i, j)` that were `asked`, and those that are paid alike by every reward, are left out; None if
    no others are left.
    """
    n_walks = earned.shape[0]
    is_asked = np.zeros((n_walks, n_walks), dtype=np.bool_)
    for i, j in asked:
        is_asked[i, j] = is_asked[j, i] = True
    used = np.flatnonzero(thetas.any(axis=0))
    each, rewards = earned[:, used].toarray(), thetas[:, used]
    parts = np.zeros((n_walks, len(thetas), int(np.count_nonzero(thetas, axis=1).max(initial=0))))
    for m, theta in enumerate(rewards):
        support = np.flatnonzero(theta)
        parts[:, m, : len(support)] = each[:, support] * theta[support]
    rows = scipy.sparse.csr_array(earned)
    rows.sort_indices()
    ends, columns = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
    i, j = _best_pair(ends, columns, rows.data.astype(np.float64), parts, weights, is_asked)
    return None if i < 0 else (i, j)


def _probabilities(lead: FloatArray) -> FloatArray:
    """`[3, P]`: that the first is liked better, both equally, or the second better."""
    small = np.exp(-np.abs(lead))
    likelier, less_likely = (1 / (1 + small)) ** 2, (small / (1 + small)) ** 2
    equal = 2 * small / (1 + small) ** 2
    return np.array([np.where(lead >= 0, likelier, less_likely), equal, np.where(lead >= 0, less_likely, likelier)])


@compiled
def _add_losses(
    indptr: IntArray,
    columns: IntArray,
    values: FloatArray,
    equal: BoolArray,
    thetas: FloatArray,
    rates: FloatArray,
    sums: FloatArray,
) -> None:
    """Add to `sums [N, E]` the loss of each of `thetas [N, n]`; preferences are rows of differences."""
    for n in range(len(thetas)):
        for p in range(len(equal)):
            gap, weight = 0.0, 0.0
            for k in range(indptr[p], indptr[p + 1]):
                part = values[k] * thetas[n, columns[k]]
                gap += part
                weight += abs(part)
            y = gap / (INDIFFERENCE * weight) if weight > 0.0 else 0.0
            liked = 1.0 / (1.0 + np.exp(-y))
            likely = 2.0 * liked / (1.0 + np.exp(y)) if equal[p] else liked * liked
            for e in range(len(rates)):
                sums[n, e] -= np.log((1.0 - rates[e]) * likely + rates[e] / 3.0)


@compiled
def _plogp(p: float) -> float:
    return -p * np.log(p) if p > 0.0 else 0.0


@compiled
def _best_pair(
    indptr: IntArray, columns: IntArray, values: FloatArray, parts: FloatArray, weights: FloatArray, asked: BoolArray
) -> tuple[int, int]:
    """See `informative_pair`; `parts [N, M, K]` is what each reward pays each episode, parameter by parameter."""
    n_walks, n_rewards, n_parts = parts.shape
    best, best_told, most = (-1, -1), -1.0, 0
    for i in range(n_walks):
        for j in range(i + 1, n_walks):
            if asked[i, j]:
                continue
            different = _different(indptr, columns, values, i, j)
            if different == 0:
                continue
            first, second, noise = 0.0, 0.0, 0.0
            for m in range(n_rewards):
                gap, weight = 0.0, 0.0
                for k in range(n_parts):
                    part = parts[i, m, k] - parts[j, m, k]
                    gap += part
                    weight += abs(part)
                y = gap / (INDIFFERENCE * weight) if weight > 0.0 else 0.0
                if y > CERTAIN:
                    first += weights[m]
                elif y < -CERTAIN:
                    second += weights[m]
                else:
                    p = 1.0 / (1.0 + np.exp(-y))
                    q = 1.0 - p
                    first += weights[m] * p * p
                    second += weights[m] * q * q
                    # Of two looks, less what their order would tell.
                    noise += weights[m] * 2.0 * (np.log1p(np.exp(-y)) + y * q - p * q * np.log(2.0))
            told = _plogp(first) + _plogp(second) + _plogp(max(0.0, weights.sum() - first - second)) - noise
            if told > best_told + NO_DIFFERENCE or (told > best_told - NO_DIFFERENCE and different > most):
                best, best_told, most = (i, j), max(told, best_told), different
    return best


@compiled
def _different(indptr: IntArray, columns: IntArray, values: FloatArray, i: int, j: int) -> int:
    """In how many columns two rows differ; columns rise within a row."""
    a, b, found = indptr[i], indptr[j], 0
    while a < indptr[i + 1] or b < indptr[j + 1]:
        if b == indptr[j + 1] or (a < indptr[i + 1] and columns[a] < columns[b]):
            found += values[a] != 0.0
            a += 1
        elif a == indptr[i + 1] or columns[b] < columns[a]:
            found += values[b] != 0.0
            b += 1
        else:
            found += values[a] != values[b]
            a += 1
            b += 1
    return found
