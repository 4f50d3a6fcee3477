"""A known process played as an unknown one: it can be acted in and sampled, never looked into."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aceirl.errors import InputError
from aceirl.kernels import compiled
from aceirl.mdp import MDP, FloatArray, IntArray
from aceirl.protocols import Moves

# Below this many episodes walking them one by one is cheaper than drawing multinomials for every state.
WALKED_EPISODES = 200


class Simulator:
    """The environment of a known MDP. It keeps its transitions to itself; the start is told unless `hide_start`."""

    def __init__(self, mdp: MDP, *, hide_start: bool = False) -> None:
        mdp.require_complete()
        self._mdp = mdp
        self._told_start = None if hide_start else mdp.initial
        self._rng: np.random.Generator | None = None
        self._step = 0
        self._state = 0
        row = np.repeat(np.arange(mdp.n_rows), np.diff(mdp.indptr))
        totals = np.concatenate(([0.0], np.cumsum(mdp.probabilities)))
        self._cumulative = totals[1:] - totals[mdp.indptr[row]]
        self._wide = _padded(mdp, row)

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
    def initial(self) -> FloatArray | None:
        """The start distribution `[S]`, or None if the learner has to estimate it."""
        return self._told_start

    def reset(self, rng: np.random.Generator) -> int:
        """Begin an episode and return its state."""
        self._rng, self._step = rng, 0
        self._state = int(np.searchsorted(np.cumsum(self._mdp.initial[:-1]), rng.random(), side="right"))
        return self._state

    def step(self, action: int) -> int:
        """Take an action and return the state it led to."""
        if self._rng is None or self._step >= self._mdp.horizon:
            raise InputError("step was called outside an episode; call reset first")
        self._state = self.sample(self._step, self._state, action, self._rng)
        self._step += 1
        return self._state

    def sample(self, step: int, state: int, action: int, rng: np.random.Generator) -> int:
        """One successor of `(step, state, action)`."""
        mdp = self._mdp
        for name, value, size in (("step", step, mdp.horizon), ("state", state, mdp.n_states)):
            if not 0 <= value < size:
                raise InputError(f"{name} {value} is not one of 0 to {size - 1}")
        if not 0 <= action < mdp.n_actions:
            raise InputError(f"action {action} is not one of 0 to {mdp.n_actions - 1}")
        row = step * mdp.stride + state * mdp.n_actions + action
        first, last = mdp.indptr[row], mdp.indptr[row + 1]
        k = np.searchsorted(self._cumulative[first : last - 1], rng.random(), side="right")
        return int(mdp.successors[first + k])

    def sample_many(self, allocation: IntArray, rng: np.random.Generator) -> Moves:
        """`allocation[h, s, a]` independent successors of each `(h, s, a)`; no episode begins."""
        step, state, action = np.nonzero(allocation)
        moved = self._successors(step, state, action, allocation[step, state, action], rng)
        return Moves(*moved, np.zeros(self.n_states, dtype=np.int64))

    def rollout(self, policy: FloatArray, episodes: int, rng: np.random.Generator) -> Moves:
        """The transitions of `episodes` independent episodes of `policy [H, S, A]`.

        Few episodes are walked. Many are drawn together: the episodes in a state split over actions, and those of an
        action over successors, as multinomials, so the cost depends on the process and not on the number of episodes.
        """
        if episodes <= WALKED_EPISODES:
            return self._walk(policy, episodes, rng)
        starts = rng.multinomial(episodes, self._mdp.initial / self._mdp.initial.sum())
        here, parts = starts, []
        for h in range(self.horizon):
            states = np.flatnonzero(here)
            split = rng.multinomial(here[states], policy[h, states] / policy[h, states].sum(axis=1, keepdims=True))
            state, action = np.nonzero(split)
            moved = self._successors(np.full_like(state, h), states[state], action, split[state, action], rng)
            parts.append(moved)
            here = np.bincount(moved[3], weights=moved[4], minlength=self.n_states).astype(np.int64)
        step, state, action, successor, count = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Moves(step, state, action, successor, count, starts)

    def _successors(
        self, step: IntArray, state: IntArray, action: IntArray, times: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        row = step * self._mdp.stride + state * self._mdp.n_actions + action
        split = rng.multinomial(times, self._wide[row])
        which, slot = np.nonzero(split)
        successor = self._mdp.successors[self._mdp.indptr[row[which]] + slot].astype(np.int64)
        return step[which], state[which], action[which], successor, split[which, slot]

    def _walk(self, policy: FloatArray, episodes: int, rng: np.random.Generator) -> Moves:
        mdp = self._mdp
        path = np.empty((4, episodes * mdp.horizon), dtype=np.int64)
        starts = np.zeros(mdp.n_states, dtype=np.int64)
        draws = rng.random((episodes, 2 * mdp.horizon + 1))
        rows = mdp.indptr, mdp.successors, self._cumulative, mdp.stride
        _walk(*rows, np.cumsum(mdp.initial), np.cumsum(policy, axis=2), draws, path, starts)
        step, state, action, successor = path
        return Moves(step, state, action, successor, np.ones(path.shape[1], dtype=np.int64), starts)


@compiled
def _walk(
    indptr: IntArray,
    successors: NDArray[np.int32],
    cumulative: FloatArray,
    stride: int,
    start: FloatArray,
    policy: FloatArray,
    draws: FloatArray,
    path: IntArray,
    starts: IntArray,
) -> None:
    """Episodes by inversion: `draws [episodes, 2H+1]` are uniform, `start [S]` and `policy [H, S, A]` cumulative."""
    horizon, n_states, n_actions = policy.shape
    i = 0
    for e in range(draws.shape[0]):
        state = 0
        while state < n_states - 1 and draws[e, 2 * horizon] >= start[state]:
            state += 1
        starts[state] += 1
        for h in range(horizon):
            action = 0
            while action < n_actions - 1 and draws[e, 2 * h] >= policy[h, state, action]:
                action += 1
            row = h * stride + state * n_actions + action
            k, last = indptr[row], indptr[row + 1] - 1
            while k < last and draws[e, 2 * h + 1] >= cumulative[k]:
                k += 1
            path[0, i], path[1, i], path[2, i], path[3, i] = h, state, action, successors[k]
            state = successors[k]
            i += 1


def _padded(mdp: MDP, row: IntArray) -> FloatArray:
    """`[rows, widest row]`: probabilities padded with zeros, each row summing to one as closely as floats allow."""
    wide = np.zeros((mdp.n_rows, int(np.diff(mdp.indptr).max())))
    wide[row, np.arange(len(row)) - mdp.indptr[row]] = mdp.probabilities
    return wide / wide.sum(axis=1, keepdims=True)
