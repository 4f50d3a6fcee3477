"""How well hypotheses about the expert's wish predict its answers, with the dynamics averaged over.

A hypothesis is a reward. Under dynamics drawn from what the counts leave possible, it says which of the tried actions
are best at each step; an answer is one of those, each as likely, or an error. All answers of one state are judged
under the same draw, because one badly known row counts at many steps; the states are judged apart. So for each
hypothesis the numbers below are probabilities of all answers together, and a ratio of two of them, or to a habit that
knows no world, is a likelihood ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aceirl.data.preferences import Preference
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray

TIES = np.array([0.003, 0.03, 0.12, 0.35])
"""Actions tie if they differ by at most this share of the range of values at that step; each is as likely."""

ERRORS = np.array([0.002, 0.03, 0.12])
"""How often the expert errs; each is as likely."""

PSEUDO_COUNT = 1.0
"""What a row is credited with, spread over all successors that any action had in its state."""


@dataclass(frozen=True, eq=False)
class GivenAnswers:
    """The answers that can be compared with another action that was tried, by step.

    Answer `i` took `action[i]` in `state[i]`, `times[i]` times; those of step `h` are `first[h]` to `first[h + 1]`.
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
        tried = np.asarray(counts.visits.any(axis=0))
        told = np.zeros_like(counts.answers)
        told[steps] = counts.answers[steps]
        comparable = (tried.sum(axis=1) >= 2) & ~np.isin(np.arange(n_states), terminal)
        step, state, action = np.nonzero(told * comparable[:, None] * tried)
        first = np.searchsorted(step, np.arange(horizon + 1))
        return cls(state, action, told[step, state, action], first, tried.sum(axis=1), tried)

    @property
    def step(self) -> IntArray:
        """The step of each answer."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    @property
    def number(self) -> int:
        """How many there are."""
        return int(self.times.sum())


@dataclass(frozen=True, eq=False)
class DrawnDynamics:
    """Draws of the dynamics from what the counts leave possible: one Dirichlet a row that was tried.

    `probabilities [draws, entries]` belong to `successors [entries]`; row `r = (h·)s·a` has the entries `indptr[r]` to
    `indptr[r + 1]`. A row that was never tried has none. `stride` is 0 if all steps share their rows.
    """

    indptr: IntArray
    successors: IntArray
    probabilities: FloatArray
    stride: int

    @classmethod
    def drawn(cls, counts: Counts, draws: int, rng: np.random.Generator) -> DrawnDynamics:
        """So many draws. A row may lead wherever any action in its state has led."""
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
        totals = np.add.reduceat(weights, indptr[rows], axis=1) if len(rows) else weights
        probabilities = weights / np.repeat(totals, sizes[rows], axis=1)
        return cls(indptr, successors, np.ascontiguousarray(probabilities), 0 if steps == 1 else n_states * n_actions)

    @classmethod
    def estimated(cls, mdp: MDP) -> DrawnDynamics:
        """The dynamics as they are estimated, as if they were the only ones possible: one draw."""
        rows = mdp.transitions
        return cls(rows.indptr, rows.successors.astype(np.int64), rows.probabilities[None], rows.stride)


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
    rewards: Rewards, dynamics: DrawnDynamics, answers: GivenAnswers, terminal: IntArray, draws: int | None = None
) -> tuple[FloatArray, IntArray]:
    """`(log_likelihood [n], unexplained [n])` of the answers; with the first `draws` of the dynamics, or all.

    Unexplained are answers that are not among the best actions whatever the draw, each state taken by itself, at the
    tolerance of ties that fits best.
    """
    n, n_states = rewards.early.shape
    ends = np.zeros(n_states, dtype=np.bool_)
    ends[terminal] = True
    acting = np.flatnonzero(answers.tried.any(axis=1) & ~ends)
    block = np.full(n_states, -1)
    asked = np.unique(answers.state)
    block[asked] = np.arange(len(asked))
    logs, unexplained = np.empty((n, len(TIES), len(ERRORS))), np.empty((n, len(TIES)), dtype=np.int64)
    _judge(
        dynamics.indptr,
        dynamics.successors,
        dynamics.probabilities[:draws],
        dynamics.stride,
        (rewards.early, rewards.late, rewards.change, rewards.action, rewards.step_cost, rewards.decay),
        (answers.state, answers.action, answers.times, answers.first, answers.options, answers.tried),
        ends,
        acting,
        block,
        len(asked),
        TIES,
        _shares(answers.tried.shape[1]),
        logs,
        unexplained,
    )
    best = logs.max(axis=2).argmax(axis=1)
    mean = np.logaddexp.reduce(logs.reshape(n, -1), axis=1) - np.log(logs[0].size) if n else np.zeros(0)
    return mean, unexplained[np.arange(n), best]


def preferred(rewards: Rewards, preferences: Sequence[Preference], terminal: IntArray) -> tuple[FloatArray, IntArray]:
    """`(log_likelihood [n], unexplained [n])` of preferences between episodes, which need no dynamics.

    The better episode is preferred, either if they are worth the same; two are called equal if they are worth about the
    same, by `EQUAL` of the larger. The expert errs as often as in its answers.
    """
    right = np.zeros((len(rewards.early), len(preferences)))
    for i, one in enumerate(preferences):
        first, second = (_returns(rewards, walk, terminal) for walk in (one.preferred, one.other))
        gap, size = first - second, np.maximum(np.abs(first), np.abs(second))
        close = np.abs(gap) <= EQUAL * size + 1e-12
        right[:, i] = close if one.equal else np.where(np.abs(gap) <= 1e-9, 0.5, gap > 0)
    chance = np.array([1 / 3 if one.equal else 1 / 2 for one in preferences])
    told = np.log((1 - ERRORS[:, None, None]) * right + ERRORS[:, None, None] * chance).sum(axis=2)
    return np.logaddexp.reduce(told, axis=0) - np.log(len(ERRORS)), (right == 0).sum(axis=1)


EQUAL = 0.1
"""Episodes whose returns differ by at most this share of the larger may be called equal."""


def _returns(rewards: Rewards, walk: Sequence[tuple[int, int, int, int]], terminal: IntArray) -> FloatArray:
    """`[n]`: what an episode is worth under each reward."""
    step, state, action, after = np.array(walk, dtype=np.int64).T
    early = step[None] < rewards.change[:, None]
    worth = rewards.decay[:, None] ** step[None]
    here, there = (np.where(early, rewards.early[:, at], rewards.late[:, at]) * worth for at in (state, after))
    paid = here + there * np.isin(after, terminal) + rewards.action[:, action] - rewards.step_cost[:, None]
    return np.asarray(paid.sum(axis=1))


def _shares(n_actions: int) -> FloatArray:
    """`[errors, A+1, A+1]`: the log-probability of an answer among so many options of which so many are best.

    With none in the last index, the answer is not among them.
    """
    options, best = np.arange(n_actions + 1)[:, None], np.arange(n_actions + 1)[None]
    with np.errstate(divide="ignore"):
        chance = np.where(best > 0, 1 / np.maximum(best, 1), 0.0)
        shares = np.log(ERRORS[:, None, None] / np.maximum(options, 1) + (1 - ERRORS[:, None, None]) * chance)
    return np.asarray(shares)


@compiled
def _judge(
    indptr: IntArray,
    successors: IntArray,
    draws: FloatArray,
    stride: int,
    rewards: tuple[FloatArray, FloatArray, IntArray, FloatArray, FloatArray, FloatArray],
    answers: tuple[IntArray, IntArray, IntArray, IntArray, IntArray, BoolArray],
    ends: BoolArray,
    acting: IntArray,
    block: IntArray,
    n_blocks: int,
    ties: FloatArray,
    shares: FloatArray,
    logs: FloatArray,
    unexplained: IntArray,
) -> None:
    """The log-likelihood of all answers for each reward, tolerance of ties and error rate; and what is unexplained."""
    early, late, change, paid, step_cost, decay = rewards
    states, actions, times, first, options, tried = answers
    horizon, n_states, n_actions = first.size - 1, early.shape[1], paid.shape[1]
    q, v, v_next = np.zeros((n_states, n_actions)), np.zeros(n_states), np.zeros(n_states)
    told = np.empty((draws.shape[0], ties.size, shares.shape[0], n_blocks))
    wrong = np.empty((draws.shape[0], ties.size, n_blocks), np.int64)
    for i in range(early.shape[0]):
        told[:], wrong[:] = 0.0, 0
        for d in range(draws.shape[0]):
            v_next[:] = 0.0
            for h in range(horizon - 1, -1, -1):
                places = early[i] if h < change[i] else late[i]
                worth = decay[i] ** h
                highest, lowest = -np.inf, np.inf
                for s in acting:
                    v[s] = -np.inf
                    for a in range(n_actions):
                        if not tried[s, a]:
                            continue
                        row = h * stride + s * n_actions + a
                        total = worth * places[s] - step_cost[i] + paid[i, a]
                        for k in range(indptr[row], indptr[row + 1]):
                            there = successors[k]
                            total += draws[d, k] * (worth * places[there] if ends[there] else v_next[there])
                        q[s, a] = total
                        v[s], lowest = max(v[s], total), min(lowest, total)
                    highest = max(highest, v[s])
                for k in range(first[h], first[h + 1]):
                    s = states[k]
                    for t in range(ties.size):
                        least, best = v[s] - ties[t] * (highest - lowest) - 1e-12, 0
                        for a in range(n_actions):
                            best += tried[s, a] and q[s, a] >= least
                        if q[s, actions[k]] < least:
                            best = 0
                            wrong[d, t, block[s]] += times[k]
                        for e in range(shares.shape[0]):
                            told[d, t, e, block[s]] += times[k] * shares[e, options[s], best]
                v, v_next = v_next, v
        for t in range(ties.size):
            unexplained[i, t] = 0
            for b in range(n_blocks):
                unexplained[i, t] += wrong[:, t, b].min()
            for e in range(shares.shape[0]):
                logs[i, t, e] = 0.0
                for b in range(n_blocks):
                    most = told[:, t, e, b].max()
                    logs[i, t, e] += most + np.log(np.exp(told[:, t, e, b] - most).mean())
