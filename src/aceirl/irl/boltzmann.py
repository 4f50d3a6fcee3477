"""How likely the answers of a Boltzmann expert are under a reward, and what such an expert would answer.

A Boltzmann expert of rationality `β` takes the action `a` at step `h` in state `s` with the probability

    π(a|h, s) = exp(β·Q(h, s, a)) / Σ exp(β·Q(h, s, a')),

where `Q` are the optimal values of its reward (Ramachandran and Amir 2007). A ranked answer puts several actions in
order. By Plackett and Luce it is a chain of choices: the first out of all actions, the next out of those that are left.
So an answer is a choice of one action out of a set, and that is all the likelihood knows of.

The estimated process is taken for the true one. Where a row was never observed nothing is known of its action: it is
no part of any choice, and values are those of the actions that were tried. With all rows known this changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from aceirl.errors import InputError
from aceirl.irl.likelihood import write_rewards
from aceirl.models.tabular.kernels import Successors, compiled
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.rewards.spaces import DesignMatrix, Entries

MOST_ACTIONS = 63
"""Sets of actions are the bits of a number, and so many fit."""


class Evidence(NamedTuple):
    """What compiled passes are told: the process, the design matrix by row, and the choices of each step.

    `rows` are `Transitions.rows`. The choices of step `h` are `first[h]` to `first[h+1]` of the flat arrays.
    """

    rows: tuple[IntArray, Successors, FloatArray, int]
    design: Entries
    shape: tuple[int, int, int]
    beta: float
    first: IntArray
    state: IntArray
    action: IntArray
    among: IntArray
    counts: FloatArray


class Room(NamedTuple):
    """Room to work in: `theta [n]`, `table [rows] = Φθ`, the numbers of its rows, `q [S, A]`, and `v [2, S]`."""

    theta: FloatArray
    table: FloatArray
    all_rows: IntArray
    q: FloatArray
    v: FloatArray


@dataclass(frozen=True, eq=False)
class Choices:
    """Answers as choices: `count[i]` times, `action[i]` was taken at `step[i]` in `state[i]` out of the set `among[i]`.

    All are flat arrays of one length; the bit `a` of `among[i]` says whether the action `a` could be taken.
    """

    step: IntArray
    state: IntArray
    action: IntArray
    among: IntArray
    count: FloatArray

    @classmethod
    def of_answers(cls, answers: IntArray) -> Choices:
        """Of answers `[H, S, A]`, each a choice out of all actions."""
        n_actions = answers.shape[2]
        _check_actions(n_actions)
        step, state, action = np.nonzero(answers)
        every = np.full(len(step), (1 << n_actions) - 1, dtype=np.int64)
        return cls(step, state, action, every, answers[step, state, action].astype(np.float64))

    @classmethod
    def of_rankings(cls, rankings: Sequence[Sequence[int]], n_actions: int) -> Choices:
        """Of ranked answers `(step, state, first action, second action, …)`; actions left out come after all others."""
        _check_actions(n_actions)
        made = []
        for step, state, *order in rankings:
            left = (1 << n_actions) - 1
            for action in order:
                if not 0 <= action < n_actions or not left >> action & 1:
                    raise InputError(
                        f"a ranking has the actions {order}; each must be one of 0 to {n_actions - 1}, once"
                    )
                made.append((step, state, action, left))
                left ^= 1 << action
        columns = np.array(made, dtype=np.int64).reshape(-1, 4).T
        return cls(columns[0], columns[1], columns[2], columns[3], np.ones(len(made)))

    def __add__(self, other: Choices) -> Choices:
        names = ("step", "state", "action", "among", "count")
        return Choices(*(np.concatenate((getattr(self, name), getattr(other, name))) for name in names))

    def by_step(self, horizon: int) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]:
        """`(first [H+1], state, action, among, count)`, where those of step `h` are `first[h]` to `first[h+1]`."""
        order = np.lexsort((self.among, self.state, self.step))
        first = np.searchsorted(self.step[order], np.arange(horizon + 1))
        return first, self.state[order], self.action[order], self.among[order], self.count[order]


def _check_actions(n_actions: int) -> None:
    if n_actions > MOST_ACTIONS:
        raise InputError(f"choices can be between at most {MOST_ACTIONS} actions, got {n_actions}")


@dataclass(frozen=True, eq=False)
class Boltzmann:
    """The Boltzmann experts of a process, one for each reward of a space that is laid `over` it, and their answers."""

    mdp: MDP
    design: DesignMatrix
    beta: float
    choices: Choices

    def __post_init__(self) -> None:
        if not 0 < self.beta < np.inf:
            raise InputError(f"beta must be a finite number above 0, got {self.beta}")

    @cached_property
    def evidence(self) -> Evidence:
        """All of it, for the compiled passes."""
        mdp, chosen = self.mdp, self.choices.by_step(self.mdp.horizon)
        return Evidence(mdp.backup.rows, self.design.entries[0], mdp.shape, float(self.beta), *chosen)

    def log_likelihood(self, thetas: FloatArray) -> FloatArray:
        """`[N]`: of all answers, for each of the parameters `[N, n]`."""
        found = np.empty(len(thetas))
        _log_likelihoods(self.evidence, np.ascontiguousarray(thetas, dtype=np.float64), found)
        return found

    def experts(self, thetas: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`(policy, Q)`, `[N, H, S, A]` each: how the expert of each of the parameters `[N, n]` acts, and why.

        Actions that were never tried have the value `-inf`, and the expert does not take them; where none was tried it
        takes each as often, and all are worth what the step itself pays.
        """
        shape = len(thetas), *self.mdp.shape
        policy, q = np.empty(shape), np.empty(shape)
        _experts(self.evidence, np.ascontiguousarray(thetas, dtype=np.float64), policy, q)
        return policy, q

    def returns(self, thetas: FloatArray, actions: IntArray) -> FloatArray:
        """`[N, H, S]`: what whoever takes the `actions [H, S]` earns under each of the parameters `[N, n]`.

        An action that was never tried earns what its own step pays.
        """
        earned = np.empty((len(thetas), *self.mdp.shape[:2]))
        _returns(self.evidence, np.ascontiguousarray(thetas, dtype=np.float64), actions, earned)
        return earned


@compiled
def room_for(evidence: Evidence, n: int) -> Room:
    """Room for `n` parameters."""
    _, n_states, n_actions = evidence.shape
    rows = len(evidence.design[0]) - 1
    return Room(np.empty(n), np.empty(rows), np.arange(rows), np.empty((n_states, n_actions)), np.empty((2, n_states)))


@compiled
def values_before(
    rows: tuple[IntArray, Successors, FloatArray, int], h: int, paid: FloatArray, later: FloatArray, q: FloatArray,
    here: FloatArray,
) -> None:  # fmt: skip
    """One step backward over the actions that were tried: `q [S, A]` and `here [S]` of `paid [S·A]` and `later [S]`."""
    indptr, successors, probabilities, stride = rows
    n_states, n_actions = q.shape
    for s in range(n_states):
        best, most = -np.inf, -np.inf
        for a in range(n_actions):
            row = h * stride + s * n_actions + a
            first, last = indptr[row], indptr[row + 1]
            total = paid[s * n_actions + a]
            most = max(most, total)
            for k in range(first, last):
                total += probabilities[k] * later[successors[k]]
            q[s, a] = total if last > first else -np.inf
            best = max(best, q[s, a])
        here[s] = best if best > -np.inf else most


@compiled
def log_likelihood(evidence: Evidence, limit: float, room: Room) -> float:
    """Of all choices under the parameters in the room.

    Every choice makes it smaller, so what has fallen below the `limit` is not worked out to the end.
    """
    horizon, n_states, n_actions = evidence.shape
    beta, action, among, count = evidence.beta, evidence.action, evidence.among, evidence.counts
    size, table, q, v = n_states * n_actions, room.table, room.q, room.v
    write_rewards(evidence.design, room.theta, room.all_rows, table)
    v[:] = 0.0
    total = 0.0
    for h in range(horizon - 1, -1, -1):
        at = 0 if len(table) == size else h * size
        values_before(evidence.rows, h, table[at : at + size], v[(h + 1) % 2], q, v[h % 2])
        state, members, normaliser = -1, 0, 0.0
        for i in range(evidence.first[h], evidence.first[h + 1]):
            s = evidence.state[i]
            if s != state or among[i] != members:
                state, members = s, among[i]
                best, normaliser = -np.inf, 0.0
                for a in range(n_actions):
                    if members >> a & 1:
                        best = max(best, q[s, a])
                if best > -np.inf:
                    for a in range(n_actions):
                        if members >> a & 1 and q[s, a] > -np.inf:
                            normaliser += np.exp(beta * (q[s, a] - best))
                    normaliser = beta * best + np.log(normaliser)
            if q[s, action[i]] > -np.inf:
                total += count[i] * (beta * q[s, action[i]] - normaliser)
        if total < limit:
            break
    return total


@compiled
def _log_likelihoods(evidence: Evidence, thetas: FloatArray, found: FloatArray) -> None:
    room = room_for(evidence, thetas.shape[1])
    for i in range(len(thetas)):
        room.theta[:] = thetas[i]
        found[i] = log_likelihood(evidence, -np.inf, room)


@compiled
def _experts(evidence: Evidence, thetas: FloatArray, policy: FloatArray, q: FloatArray) -> None:
    """Those of `Boltzmann.experts`; the choices are not looked at."""
    horizon, n_states, n_actions = evidence.shape
    size, room = n_states * n_actions, room_for(evidence, thetas.shape[1])
    table, v = room.table, room.v
    for i in range(len(thetas)):
        write_rewards(evidence.design, thetas[i], room.all_rows, table)
        v[:] = 0.0
        for h in range(horizon - 1, -1, -1):
            at = 0 if len(table) == size else h * size
            paid, here = table[at : at + size], v[h % 2]
            values_before(evidence.rows, h, paid, v[(h + 1) % 2], q[i, h], here)
            for s in range(n_states):
                total, tried = 0.0, False
                for a in range(n_actions):
                    tried |= q[i, h, s, a] > -np.inf
                for a in range(n_actions):
                    if not tried:
                        q[i, h, s, a] = paid[s * n_actions + a]
                    weight = np.exp(evidence.beta * (q[i, h, s, a] - here[s])) if tried else 1.0
                    policy[i, h, s, a] = weight
                    total += weight
                for a in range(n_actions):
                    policy[i, h, s, a] /= total


@compiled
def _returns(evidence: Evidence, thetas: FloatArray, actions: IntArray, earned: FloatArray) -> None:
    """Those of `Boltzmann.returns`."""
    indptr, successors, probabilities, stride = evidence.rows
    horizon, n_states, n_actions = evidence.shape
    size, room = n_states * n_actions, room_for(evidence, 0)
    table = room.table
    for i in range(len(thetas)):
        write_rewards(evidence.design, thetas[i], room.all_rows, table)
        for h in range(horizon - 1, -1, -1):
            at = 0 if len(table) == size else h * size
            for s in range(n_states):
                entry = s * n_actions + actions[h, s]
                total = table[at + entry]
                if h + 1 < horizon:
                    for k in range(indptr[h * stride + entry], indptr[h * stride + entry + 1]):
                        total += probabilities[k] * earned[i, h + 1, successors[k]]
                earned[i, h, s] = total
