"""How well hypotheses about the expert's wish predict its answers, with the dynamics averaged over.

A hypothesis is a reward. Under dynamics drawn from what the counts leave possible, it says which of the tried actions
are best at each step; an answer is one of those, or an error. How an expert chooses between the best is not known: in
each state any of them, each time anew, or rather the one that it takes at later steps; or everywhere by habit, rather
the one that it took there at the steps before and, the first time, rather one that it often took elsewhere. Where
observations have fields, it may also have an order of its own, and take what it often took elsewhere among several
that were equally good, or take the first of the best, as programs do, which so seem to care for one field before
another; its tolerances for ties may be small everywhere; and what is believed of a state may be wrong. All
answers of one state are judged under the same draw, because one badly known row counts at many steps; the states are
judged apart. So for each hypothesis the numbers below are probabilities of all answers together, and a ratio of two of
them, or to a habit that knows no world, is a likelihood ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from aceirl.data.preferences import Preference
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray
from aceirl.rewards.hypotheses.likelihood import judge

TIES = np.array([1e-9, 0.003, 0.03, 0.12, 0.35])
"""Actions tie if they differ by at most this share of the range of values at that step. Each is as likely, in each
state by itself: what differs clearly near to a wish may be lost in the noise of what is known far from it. If most have
one answer, which tells no tolerance, all states may share one."""

SMALL_TIES = 3
"""An expert who takes the first of the best, or has an order among them, may have small tolerances alone."""

ERRORS = np.array([0.002, 0.03, 0.12])
"""How often the expert errs; each is as likely."""

BY_HABIT = 0.1
"""How probably an expert chooses between the best by habit."""

PSEUDO_COUNT = 1.0
"""What a row is credited with, spread over all successors that any action had in its state."""


@dataclass(frozen=True, eq=False)
class GivenAnswers:
    """The answers that can be compared with another action that was tried, by step.

    Answer `i` took `action[i]` in `state[i]`, `times[i]` times; those of step `h` are `first[h]` to `first[h + 1]`, by
    state.
    `options [S]` is how many actions were tried in each state, `tried [S, A]` which.
    """

    state: IntArray
    action: IntArray
    times: IntArray
    first: IntArray
    options: IntArray
    tried: BoolArray

    @classmethod
    def of(cls, counts: Counts, terminal: IntArray, steps: slice = slice(None)) -> GivenAnswers:
        """Those of all steps, or of some."""
        horizon, n_states, _ = counts.shape
        tried, given = counts.visited.pooled > 0, counts.given
        comparable = (tried.sum(axis=1) >= 2) & ~np.isin(np.arange(n_states), terminal)
        row, step = np.divmod(given.keys, horizon)
        wanted = np.zeros(horizon, dtype=np.bool_)
        wanted[steps] = True
        kept = np.flatnonzero(wanted[step] & (comparable[:, None] & tried).ravel()[row])
        kept = kept[np.argsort(step[kept], kind="stable")]
        state, action = np.divmod(row[kept], counts.shape[2])
        first = np.searchsorted(step[kept], np.arange(horizon + 1))
        return cls(state, action, given.times[kept], first, tried.sum(axis=1), tried)

    def at_once(self, ahead: int) -> GivenAnswers:
        """The same as if all were given so many steps before the end."""
        order = np.argsort(self.state, kind="stable")
        first = np.full(ahead + 1, len(order))
        first[0] = 0
        return replace(self, state=self.state[order], action=self.action[order], times=self.times[order], first=first)

    def once(self) -> GivenAnswers:
        """The earliest answer of each state, as if it had been given once."""
        kept = np.sort(np.unique(self.state, return_index=True)[1])
        first = np.searchsorted(kept, self.first)
        return replace(self, state=self.state[kept], action=self.action[kept], times=np.ones_like(kept), first=first)

    @property
    def step(self) -> IntArray:
        """The step of each answer."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @property
    def number(self) -> int:
        """How many there are."""
        return int(self.times.sum())

    @property
    def common(self) -> FloatArray:
        """`[n, A]`: how often each action was taken, in any state, before those of the same step and state; and a
        half."""
        taken = self.times[:, None] * np.eye(self.tried.shape[1])[self.action]
        place = self.step * len(self.tried) + self.state
        return np.asarray((taken.cumsum(axis=0) - taken)[np.searchsorted(place, place)] + 0.5)


@dataclass(frozen=True, eq=False)
class DrawnDynamics:
    """Draws of the dynamics from what the counts leave possible: one Dirichlet a row that was tried.

    `probabilities [draws, entries]` belong to `successors [entries]`; row `r = (h·)s·a` has the entries `indptr[r]` to
    `indptr[r + 1]`. A row that was never tried has none. `stride` is 0 if all steps share their rows. `by_chance` is
    the share of rows, of those that may have several successors, with more than one.
    """

    indptr: IntArray
    successors: IntArray
    probabilities: FloatArray
    stride: int
    by_chance: float

    @classmethod
    def drawn(cls, counts: Counts, draws: int, rng: np.random.Generator) -> DrawnDynamics:
        """So many draws. A row may lead wherever any action in its state has led, or, as often as such rows are found,
        to one place only."""
        horizon, n_states, n_actions = counts.shape
        steps = 1 if counts.stationary else horizon
        row, successor = np.divmod(counts.move_keys, n_states)
        places = np.unique(row // n_actions * n_states + successor)
        pool = np.searchsorted(places, np.arange(steps * n_states + 1) * n_states)
        rows = np.unique(row)
        sizes = np.zeros(steps * n_states * n_actions, dtype=np.int64)
        sizes[rows] = np.diff(pool)[rows // n_actions]
        indptr = np.concatenate(([0], np.cumsum(sizes)))
        entries = np.repeat(rows, sizes[rows])
        within = np.arange(indptr[-1]) - indptr[entries]
        successors = places[pool[entries // n_actions] + within] % n_states
        keys = entries * n_states + successors
        at = np.searchsorted(counts.move_keys, keys)
        seen = counts.move_keys.take(at, mode="clip") == keys
        credit = np.where(seen, counts.move_counts.take(at, mode="clip"), 0) + PSEUDO_COUNT / sizes[entries]
        weights = rng.standard_gamma(np.broadcast_to(credit, (draws, len(credit)))) + np.finfo(float).tiny
        share = 1.0
        if len(rows):
            first, wide = indptr[rows], np.diff(indptr)[rows]
            settled = _without_chance(credit, first, wide, draws, rng)
            share = float(1 - settled[:, wide > 1].mean()) if (wide > 1).any() else 0.0
            weights *= np.repeat(~settled, wide, axis=1) | seen
            weights /= np.repeat(np.add.reduceat(weights, first, axis=1), wide, axis=1)
        stride = 0 if steps == 1 else n_states * n_actions
        return cls(indptr, successors, np.ascontiguousarray(weights), stride, share)

    @classmethod
    def estimated(cls, mdp: MDP) -> DrawnDynamics:
        """The dynamics as they are estimated, as if they were the only ones possible: one draw."""
        rows = mdp.transitions
        wide = np.diff(rows.indptr)
        share = float((wide > 1).sum() / max(1, (wide > 0).sum()))
        # Copies, which can be written to as those that are drawn can: for others `judge` would be compiled again.
        copies = rows.indptr.copy(), rows.successors.astype(np.int64), rows.probabilities[None].copy()
        return cls(*copies, rows.stride, share)


def _without_chance(
    credit: FloatArray, first: IntArray, wide: IntArray, draws: int, rng: np.random.Generator
) -> BoolArray:
    """`[draws, rows]`: which rows lead to one place only.

    How many rows are of this kind is drawn from its posterior, any share beforehand being as likely as another: rows
    that were tried more often, always with the same successor, speak for it, those with two successors against it.
    `credit [entries]` are the counts with their pseudo-counts; row `i` has `wide[i]` entries from `first[i]` on.
    """
    spread = np.repeat(PSEUDO_COUNT / wide, wide)
    tries = np.add.reduceat(credit, first) - PSEUDO_COUNT
    same = np.maximum.reduceat(credit - spread, first) > tries - 0.5
    of_chance = scipy.special.gammaln(PSEUDO_COUNT) - scipy.special.gammaln(tries + PSEUDO_COUNT)
    of_chance += np.add.reduceat(scipy.special.gammaln(credit) - scipy.special.gammaln(spread), first)
    odds = np.where(same, -np.log(wide) - of_chance, -np.inf)  # logs: how much likelier the counts are without chance
    kinds, number = np.unique(odds, return_counts=True)
    shares = (np.arange(200) + 0.5) / 200
    told = np.logaddexp(np.log1p(-shares[:, None]), np.log(shares[:, None]) + kinds) @ number
    posterior = np.exp(told - told.max())
    share = rng.choice(shares, size=(draws, 1), p=posterior / posterior.sum())
    return np.asarray(rng.random((draws, len(first))) < scipy.special.expit(scipy.special.logit(share) + odds))


@dataclass(frozen=True, eq=False)
class Rewards:
    """Rewards to be judged, one a row: what each pays before and after its step of change, for places and actions.

    `early [n, S]` and `late [n, S]` are paid for being in a place, in a terminal one for arriving there; `change [n]`
    is the first step of the late ones. `action [n, A]` is paid for an action, `step_cost [n]` taken for every step, and
    what places pay shrinks by the factor `decay [n]` a step.
    """

    early: FloatArray
    late: FloatArray
    change: IntArray
    action: FloatArray
    step_cost: FloatArray
    decay: FloatArray


def judged(
    rewards: Rewards,
    dynamics: DrawnDynamics,
    answers: GivenAnswers,
    terminal: IntArray,
    draws: int | None = None,
    discount: float = 1.0,
    errors: FloatArray = ERRORS,
    by_order: bool = False,
    large: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """`(log_likelihood [n], unexplained [n])` of the answers; with the first `draws` of the dynamics, or all.

    With `by_order` the expert may take the first of what is equally good, as programs do, or have an order of its own;
    each is as likely as neither.

    Unexplained is how many answers are expected to be errors: the draws, tolerances of ties and error rates have the
    weights that the answers of each state give them. In a `large` world one tolerance may also hold in all states: that
    is as likely as that each state has its own. And of its states only those are looked at to which tried actions lead
    from states with answers.
    """
    n, n_states = rewards.early.shape
    ends = np.zeros(n_states, dtype=np.bool_)
    ends[terminal] = True
    acting = np.flatnonzero(answers.tried.any(axis=1) & ~ends)
    block = np.full(n_states, -1)
    asked = np.unique(answers.state)
    block[asked] = np.arange(len(asked))
    if large and dynamics.stride == 0:
        acting = acting[_reached(dynamics.indptr, dynamics.successors, asked, n_states)[acting]]
    whose, prior = [(0, len(TIES))], [1.0]
    if by_order:
        whose, prior = [*whose, (0, SMALL_TIES)], [0.5, 0.5]
    if large:
        whose += [(k, k + 1) for k in range(len(TIES))]
        prior = [*(one / 2 for one in prior), *(0.5 / len(TIES) for _ in TIES)]
    others = (1 - BY_HABIT) / 3
    ways = np.log([others, BY_HABIT, others, others] if by_order else [1 - BY_HABIT, BY_HABIT])
    logs, unexplained = np.empty((2, n, len(errors), len(ways), len(prior)))
    judge(
        dynamics.indptr,
        dynamics.successors,
        dynamics.probabilities[:draws],
        dynamics.stride,
        discount,
        (rewards.early, rewards.late, rewards.change, rewards.action, rewards.step_cost, rewards.decay),
        (answers.state, answers.action, answers.times, answers.first, answers.options, answers.tried, answers.common),
        _by_state(answers, block[answers.state], len(asked)),
        np.flatnonzero(ends),
        acting,
        block,
        TIES,
        errors,
        np.array(whose),
        np.random.default_rng(0).integers(1, 2**62, size=(answers.tried.shape[1],)),
        logs,
        unexplained,
    )
    logs += ways[:, None] + np.log(prior)
    mean = np.logaddexp.reduce(logs, axis=(1, 2, 3)) - np.log(len(errors))
    return mean, (np.exp(logs - mean[:, None, None, None]) * unexplained).sum(axis=(1, 2, 3)) / len(errors)


def _by_state(
    answers: GivenAnswers, block: IntArray, n_blocks: int
) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray, FloatArray]:
    """`(block [n], own [n], own_first [blocks + 1], place [n], later [n, A], earlier [n, A])` for `judge`."""
    own = np.argsort(block, kind="stable")
    own_first = np.searchsorted(block[own], np.arange(n_blocks + 1))
    begin, end = own_first[block], own_first[block + 1]
    place = np.empty_like(own)
    place[own] = np.arange(len(own))
    taken = np.zeros((len(own) + 1, answers.tried.shape[1]))
    taken[np.arange(len(own)) + 1, answers.action[own]] = answers.times[own]
    taken = taken.cumsum(axis=0)
    moment = block * len(answers.first) + answers.step
    of_own = moment[own]
    earlier = taken[np.searchsorted(of_own, moment)] - taken[begin]
    later = taken[end] - taken[np.searchsorted(of_own, moment, side="right")]
    return block, own, own_first, place - begin, later, earlier


def preferred(
    rewards: Rewards, preferences: Sequence[Preference], terminal: IntArray, discount: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """`(log_likelihood [n], unexplained [n])` of preferences between episodes, which need no dynamics.

    The better episode is preferred. Of two that are worth about the same, by `EQUAL` of the larger, that is as likely
    said as that they are equal. The expert errs as often as in its answers, and then says any of the three.
    """
    right = np.zeros((len(rewards.early), len(preferences)))
    for i, one in enumerate(preferences):
        first, second = (_returns(rewards, walk, terminal, discount) for walk in (one.preferred, one.other))
        gap, size = first - second, np.maximum(np.abs(first), np.abs(second))
        close = np.abs(gap) <= EQUAL * size + 1e-12
        better = np.where(np.abs(gap) <= 1e-9, 0.5, gap > 0)
        right[:, i] = 0.5 * close if one.equal else np.where(close, 0.5, 1.0) * better
    told = np.log((1 - ERRORS[:, None, None]) * right + ERRORS[:, None, None] / 3).sum(axis=2)
    mean = np.logaddexp.reduce(told, axis=0) - np.log(len(ERRORS))
    return mean, (right == 0).sum(axis=1).astype(np.float64)


EQUAL = 0.1
"""Episodes whose returns differ by at most this share of the larger may be called equal."""


def _returns(
    rewards: Rewards, walk: Sequence[tuple[int, int, int, int]], terminal: IntArray, discount: float
) -> FloatArray:
    """`[n]`: what an episode is worth under each reward."""
    step, state, action, after = np.array(walk, dtype=np.int64).T
    early = step[None] < rewards.change[:, None]
    worth = rewards.decay[:, None] ** step[None]
    here, there = (np.where(early, rewards.early[:, at], rewards.late[:, at]) * worth for at in (state, after))
    paid = here + there * np.isin(after, terminal) + rewards.action[:, action] - rewards.step_cost[:, None]
    return np.asarray((paid * discount ** step[None]).sum(axis=1))


@compiled
def _reached(indptr: IntArray, successors: IntArray, begin: IntArray, n_states: int) -> BoolArray:
    """`[S]`: the states to which rows, the same at all steps, lead from those to `begin` with, and these."""
    n_actions = (indptr.size - 1) // n_states
    reached, queue, n = np.zeros(n_states, np.bool_), np.empty(n_states, np.int64), 0
    for s in begin:
        reached[s], queue[n], n = True, s, n + 1
    i = 0
    while i < n:
        for k in range(indptr[queue[i] * n_actions], indptr[(queue[i] + 1) * n_actions]):
            there = successors[k]
            if not reached[there]:
                reached[there], queue[n], n = True, there, n + 1
        i += 1
    return reached
