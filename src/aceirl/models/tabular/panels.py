"""Dynamics of a panel: what the recorded decisions led to, as transitions.

A kind of dynamics is a value with one verb, `fit(panel, weights)`, so that an estimate can be made again on a sample of
the individuals. `weights [I]` are how often each individual counts, by default once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from aceirl.data.tables import Panel
from aceirl.errors import InputError
from aceirl.models.tabular.mdp import FloatArray, IntArray, Transitions, frozen


class PanelDynamics(Protocol):
    """How dynamics follow from a panel."""

    def fit(self, panel: Panel, weights: FloatArray | None = None) -> Transitions:
        """The transitions; `weights [I]` are how often each individual counts. The end is the last state."""


@dataclass(frozen=True)
class CountedDynamics:
    """A row for each state and action, estimated by its own counts; one that nobody tried is unknown."""

    def fit(self, panel: Panel, weights: FloatArray | None = None) -> Transitions:
        """`P̂ = n(s, a, s') / n(s, a)`; `weights [I]` are how often each individual counts."""
        weight = np.ones(len(panel)) if weights is None else np.asarray(weights)[panel.individual]
        kept = (panel.successor >= 0) & (weight > 0)
        row = panel.state[kept] * panel.n_actions + panel.action[kept]
        return _transitions(panel, row, panel.successor[kept], weight[kept])


@dataclass(frozen=True)
class IncrementDynamics:
    """States in order, and an action moves up or down by an amount whose distribution is the same in all of them.

    With `renews`, the number of an action that starts again from state 0 (a replacement), all actions share one
    distribution: that action moves on from 0, the others from where they are. Without it each action has its own.
    `increments [N]`, one entry a decision of the panel, says what each was where a column has it (negative: not known);
    else it is the difference of the states. Moves beyond the last state end in it.
    """

    renews: int | None = None
    increments: tuple[int, ...] | None = None

    def fit(self, panel: Panel, weights: FloatArray | None = None) -> Transitions:
        """The same moves from every state; `weights [I]` are how often each individual counts."""
        n_states, n_actions = panel.n_states, panel.n_actions
        if panel.ends:
            raise InputError(
                "increments know no end of the process; leave terminated out, or count the rows as they are"
            )
        if self.renews is not None and not 0 <= self.renews < n_actions:
            raise InputError(f"renews is {self.renews}, not one of the actions 0 to {n_actions - 1}")
        moves = {a: self.shares(panel, a, weights) for a in range(n_actions)}
        rows, successors, probabilities = [], [], []
        for a, (sizes, shares) in moves.items():
            start = np.zeros(n_states, dtype=np.int64) if a == self.renews else np.arange(n_states)
            landed = np.clip(start[:, None] + sizes[None, :], 0, n_states - 1)
            rows.append(np.repeat(np.arange(n_states) * n_actions + a, len(sizes)))
            successors.append(landed.reshape(-1))
            probabilities.append(np.tile(shares, n_states))
        return _transitions(panel, np.concatenate(rows), np.concatenate(successors), np.concatenate(probabilities))

    def shares(self, panel: Panel, action: int, weights: FloatArray | None = None) -> tuple[IntArray, FloatArray]:
        """`(sizes [M], shares [M])`: by how much an action moves, and how often."""
        weight = np.ones(len(panel)) if weights is None else np.asarray(weights)[panel.individual]
        if self.increments is None:
            size = panel.successor - np.where(panel.action == self.renews, 0, panel.state)
            known = panel.successor >= 0
        else:
            size = np.array(self.increments)
            if len(size) != len(panel):
                raise InputError(f"increments have {len(size)} entries for {len(panel)} decisions")
            known = size >= 0
        if self.renews is None:
            known = known & (panel.action == action)
        if not (known & (weight > 0)).any():
            raise InputError(f"no move of the action {panel.actions[action]!r} was recorded: what it does is not known")
        sizes, which = np.unique(size[known], return_inverse=True)
        counts = np.bincount(which, weights=weight[known])
        return sizes.astype(np.int64), np.asarray(counts / counts.sum())


@dataclass(frozen=True, eq=False)
class GivenDynamics:
    """Transitions that are known beforehand."""

    transitions: Transitions

    def fit(self, panel: Panel, weights: FloatArray | None = None) -> Transitions:
        """As they are; `weights [I]` change nothing."""
        needed = panel.n_states + panel.ends, panel.n_actions
        if (self.transitions.n_states, self.transitions.n_actions) != needed:
            raise InputError(
                f"the dynamics have {self.transitions.n_states} states and {self.transitions.n_actions} actions, "
                f"and the table {needed[0]} and {needed[1]}"
            )
        return self.transitions


def given_dynamics(transitions: object) -> GivenDynamics:
    """From `Transitions` or an array `[S, A, S]`; a row of zeros is unknown, or that of a terminal state."""
    if isinstance(transitions, Transitions):
        return GivenDynamics(transitions)
    dense = np.asarray(transitions, dtype=np.float64)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
        raise InputError(f"dynamics must have shape [S, A, S], got {list(dense.shape)}")
    matrix = scipy.sparse.csr_array(dense.reshape(-1, dense.shape[2]))
    return GivenDynamics(Transitions(dense.shape[0], dense.shape[1], matrix.indptr, matrix.indices, matrix.data))


def _transitions(panel: Panel, row: NDArray[Any], successor: NDArray[Any], weight: NDArray[Any]) -> Transitions:
    """Rows of weights, each divided by its sum."""
    n_states = panel.n_states + panel.ends
    shape = n_states * panel.n_actions, n_states
    counts = scipy.sparse.csr_array(scipy.sparse.coo_array((weight.astype(np.float64), (row, successor)), shape=shape))
    counts.sum_duplicates()
    totals = np.asarray(counts.sum(axis=1)).reshape(-1)
    shares = counts.data / np.repeat(totals, np.diff(counts.indptr))
    return Transitions(n_states, panel.n_actions, counts.indptr, counts.indices, frozen(shares, np.float64))
