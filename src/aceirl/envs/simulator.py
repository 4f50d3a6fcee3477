"""A known process played as an unknown one: it can be acted in and sampled, never looked into."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aceirl.errors import InputError
from aceirl.models.fields.table import Fields
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray, Transitions
from aceirl.protocols import Moves

# Below this many episodes walking them one by one is cheaper than drawing multinomials for every state.
WALKED_EPISODES = 200


class Simulator:
    """The environment of a known MDP. It keeps its transitions to itself, and with `hide_start` its start too."""

    def __init__(self, mdp: MDP, *, hide_start: bool = False, fields: Fields | None = None) -> None:
        mdp.require_complete()
        self._mdp, self.fields = mdp, fields
        self._known_start = None if hide_start else mdp.initial
        self._rng: np.random.Generator | None = None
        self._step = 0
        self._state = 0
        self._rows = rows = mdp.transitions
        self._shape, self._stride = mdp.shape, rows.stride
        row = np.repeat(np.arange(rows.n_rows), np.diff(rows.indptr))
        totals = np.concatenate(([0.0], np.cumsum(rows.probabilities)))
        self._cumulative = totals[1:] - totals[rows.indptr[row]]
        self._wide = _padded(rows, row)

    @property
    def n_states(self) -> int:
        """How many states there are."""
        return self._mdp.n_states

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self._mdp.n_actions

    @property
    def horizon(self) -> int:
        """How many steps an episode has."""
        return self._mdp.horizon

    @property
    def stationary_dynamics(self) -> bool:
        """Whether one row serves all steps; the learner is told, for it would take that for granted."""
        return self._mdp.stationary

    @property
    def initial(self) -> FloatArray | None:
        """The start distribution `[S]`, or None if the learner has to estimate it."""
        return self._known_start

    def reset(self, rng: np.random.Generator) -> int:
        """Begin an episode; the state, which is observed as its number."""
        self._rng, self._step = rng, 0
        self._state = int(np.searchsorted(np.cumsum(self._mdp.initial[:-1]), rng.random(), side="right"))
        return self._state

    def step(self, action: int) -> tuple[int, bool]:
        """Take an action; the state it led to, and that no episode is over before the horizon."""
        if self._rng is None or self._step >= self._mdp.horizon:
            raise InputError("step was called outside an episode; call reset first")
        self._state = self.sample(self._step, self._state, action, self._rng)
        self._step += 1
        return self._state, False

    def sample(self, step: int, state: int, action: int, rng: np.random.Generator) -> int:
        """One successor of `(step, state, action)`."""
        horizon, n_states, n_actions = self._shape
        for name, value, size in (("step", step, horizon), ("state", state, n_states), ("action", action, n_actions)):
            if not 0 <= value < size:
                raise InputError(f"{name} {value} is not one of 0 to {size - 1}")
        row = step * self._stride + state * n_actions + action
        first, last = self._rows.indptr[row], self._rows.indptr[row + 1]
        k = np.searchsorted(self._cumulative[first : last - 1], rng.random(), side="right")
        return int(self._rows.successors[first + k])

    def sample_many(self, allocation: IntArray, rng: np.random.Generator) -> Moves:
        """`allocation[h, s, a]` independent successors of each `(h, s, a)`; no episode begins."""
        step, state, action = np.nonzero(allocation)
        moved, _ = self._successors(step, state, action, allocation[step, state, action], rng)
        return Moves(*moved, np.zeros(self.n_states, dtype=np.int64))

    def rollout(
        self, policy: FloatArray, episodes: int, rng: np.random.Generator, reference: IntArray | None = None
    ) -> Moves:
        """The transitions of `episodes` independent episodes of `policy [H, S, A]`; `reference [H, S]`: see `Moves`.

        Few episodes are walked. Many are drawn together: the episodes in a state split over actions, and those of an
        action over successors, as multinomials, so the cost depends on the process and not on the number of episodes.
        """
        if episodes <= WALKED_EPISODES:
            return self._walk(policy, episodes, rng, reference)
        starts = _multinomial(np.array([episodes]), self._mdp.initial[None, :], rng)[0]
        known = np.full(policy.shape[:2], -1) if reference is None else reference
        first_deviations = np.zeros(self.horizon + 1, dtype=np.int64)
        # Row 0 counts the episodes that are doing what is known, by state; row 1 those that have deviated.
        here, parts = np.array([starts, np.zeros_like(starts)]), []
        for h in range(self.horizon):
            lost = here[0] * (known[h] < 0)
            first_deviations[h] += lost.sum()
            here += np.array([-lost, lost])
            deviated, states = np.nonzero(here)
            split = _multinomial(here[deviated, states], policy[h, states], rng)
            which, action = np.nonzero(split)
            state, deviated = states[which], deviated[which]
            leaving = (deviated == 0) & (action != known[h, state])
            first_deviations[h + 1] += split[which, action][leaving].sum()
            moved, source = self._successors(np.full_like(state, h), state, action, split[which, action], rng)
            parts.append(moved)
            cell = (deviated | leaving)[source] * self.n_states + moved[3]
            here = np.zeros_like(here)
            np.add.at(here.reshape(-1), cell, moved[4])
        first_deviations[-1] += here[0].sum()
        step, state, action, successor, count = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Moves(step, state, action, successor, count, starts, None if reference is None else first_deviations)

    def _successors(
        self, step: IntArray, state: IntArray, action: IntArray, times: IntArray, rng: np.random.Generator
    ) -> tuple[tuple[IntArray, IntArray, IntArray, IntArray, IntArray], IntArray]:
        """Where `times` episodes in each entry go: the columns of `Moves`, and the entry each of their rows is from."""
        row = step * self._stride + state * self.n_actions + action
        split = _multinomial(times, self._wide[row], rng)
        which, slot = np.nonzero(split)
        successor = self._rows.successors[self._rows.indptr[row[which]] + slot].astype(np.int64)
        return (step[which], state[which], action[which], successor, split[which, slot]), which

    def _walk(self, policy: FloatArray, episodes: int, rng: np.random.Generator, reference: IntArray | None) -> Moves:
        mdp = self._mdp
        path = np.empty((4, episodes * mdp.horizon), dtype=np.int64)
        starts = np.zeros(mdp.n_states, dtype=np.int64)
        deviations = np.zeros(0 if reference is None else mdp.horizon + 1, dtype=np.int64)
        draws = rng.random((episodes, 2 * mdp.horizon + 1))
        indptr, successors, _, stride = self._rows.rows
        cumulative = indptr, successors, self._cumulative, stride
        known = starts[:0].reshape(0, 0) if reference is None else reference
        _walk(*cumulative, np.cumsum(mdp.initial), policy, draws, known, path, starts, deviations)
        step, state, action, successor = path
        times = np.ones(path.shape[1], dtype=np.int64)
        return Moves(step, state, action, successor, times, starts, None if reference is None else deviations)


@compiled
def _walk(
    indptr: IntArray,
    successors: NDArray[np.int32],
    cumulative: FloatArray,
    stride: int,
    start: FloatArray,
    policy: FloatArray,
    draws: FloatArray,
    reference: IntArray,
    path: IntArray,
    starts: IntArray,
    deviations: IntArray,
) -> None:
    """Episodes by inversion: `draws [episodes, 2H+1]` are uniform, `cumulative` and `start [S]` are cumulative.

    Unless of size zero, `deviations [H+1]` counts when episodes first deviate from `reference [H, S]`: see `Moves`.
    """
    horizon, n_states, n_actions = policy.shape
    i = 0
    for e in range(draws.shape[0]):
        state = 0
        while state < n_states - 1 and draws[e, 2 * horizon] >= start[state]:
            state += 1
        starts[state] += 1
        following = deviations.size > 0
        for h in range(horizon):
            action, total = 0, policy[h, state, 0]
            while action < n_actions - 1 and draws[e, 2 * h] >= total:
                action += 1
                total += policy[h, state, action]
            if following and reference[h, state] != action:
                deviations[h + (reference[h, state] >= 0)] += 1
                following = False
            row = h * stride + state * n_actions + action
            k, last = indptr[row], indptr[row + 1] - 1
            while k < last and draws[e, 2 * h + 1] >= cumulative[k]:
                k += 1
            path[0, i], path[1, i], path[2, i], path[3, i] = h, state, action, successors[k]
            state = successors[k]
            i += 1
        if following:
            deviations[horizon] += 1


def _padded(rows: Transitions, row: IntArray) -> FloatArray:
    """`[rows, widest row]`: the probabilities of each row, padded with zeros."""
    wide = np.zeros((rows.n_rows, int(np.diff(rows.indptr).max())))
    wide[row, np.arange(len(row)) - rows.indptr[row]] = rows.probabilities
    return wide


def _multinomial(times: IntArray, probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """`[rows, n]`: `times [rows]` draws from each row of `probabilities [rows, n]`.

    numpy gives whatever rounding leaves over to the last column, and out of 10¹⁵ draws some are left over. So the
    likeliest outcome takes that column's place: what cannot happen does not happen.
    """
    rows, likeliest = np.arange(len(times)), probabilities.argmax(axis=1)
    order = np.tile(np.arange(probabilities.shape[1]), (len(times), 1))
    order[rows, likeliest], order[:, -1] = probabilities.shape[1] - 1, likeliest
    swapped = np.take_along_axis(probabilities, order, axis=1)
    split = rng.multinomial(times, swapped / swapped.sum(axis=1, keepdims=True))
    return np.take_along_axis(split, order, axis=1)
