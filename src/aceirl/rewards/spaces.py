"""Reward spaces: what a reward may depend on. Each is a linear map from parameters to tables, with its adjoint.

A reward of steps, states and actions can always say "do what the expert did". A smaller space can only say what the
expert wants, and that can be taken elsewhere. Laid over a process, a space turns parameters `θ [n]` into a table
`r [H, S, A]`, and a table of weights, such as a gradient, back into one weight for each parameter.

A terminal state is paid for on arrival, once: an action earns `Σ P(s'|s,a)·θ(s')` over the terminal `s'` that it may
lead to. The *step cost* is what each step after the end of an episode is worth; up to a constant, what each step before
it costs. It is a parameter of its own wherever episodes end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy

from aceirl.errors import InputError
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray

Entries = tuple[IntArray, IntArray, FloatArray]
"""A sparse matrix, row by row: those of row `k` are `(second, third)[first[k]:first[k + 1]]`, by column and value."""


class RewardSpace(ABC):
    """A kind of reward, before there is a process: a subclass has a `name` and lays itself over one.

    It answers for itself. A `free` space has every table, so it can repeat any answers, and names no goal. A space is
    `by_state` if all actions of a state are paid alike. It is `fixed` unless an algorithm has yet to choose one.
    `names [K]` are what people call its parameters.
    """

    name: ClassVar[str]
    free: ClassVar[bool] = False
    by_state: ClassVar[bool] = False
    fixed: ClassVar[bool] = True
    names: tuple[str, ...] = ()

    @abstractmethod
    def design_matrix(self, mdp: MDP, terminal: IntArray) -> DesignMatrix:
        """The map of this space over a process whose episodes end in the `terminal` states."""

    def as_features(self) -> FeatureReward | None:
        """The features of states that its parameters weigh, if they do."""
        return None


@dataclass(frozen=True, eq=False)
class DesignMatrix:
    """`Φ`, a space laid over a process: `table` and `adjoint`, and what each parameter is about.

    Parameter `k` is about the state `states[k]` (-1 if none) and the action `actions[k]` (-1 if any); it is a step cost
    if it is the last and `has_step_cost`. `matrix [rows, n]` is sparse, a row for each `(s, a)`, or `(h, s, a)` where
    they depend on the step; it is the identity if the space is `free`. `payments [S·A, n]`, sparse, is what each
    parameter pays for an action in a state, and in a terminal state for having arrived there, the step cost left out;
    on average over the steps if it depends on them.
    """

    name: str
    shape: tuple[int, int, int]
    states: IntArray
    actions: IntArray
    matrix: Any
    payments: Any
    has_step_cost: bool
    free: bool = False

    @property
    def n_parameters(self) -> int:
        """How many parameters there are, the step cost included."""
        return len(self.states)

    @cached_property
    def _transposed(self) -> Any:
        return scipy.sparse.csr_array(self.matrix.T)

    @cached_property
    def entries(self) -> tuple[Entries, Entries]:
        """Those of the matrix by row, and by parameter."""
        rows, columns = (
            (one.indptr.astype(np.int64), one.indices.astype(np.int64), one.data.astype(np.float64))
            for one in (self.matrix, self._transposed)
        )
        return rows, columns

    def steps(self, theta: FloatArray) -> FloatArray:
        """`Φθ` as `[1, S, A]` if it is the same at every step, else `[H, S, A]`; of many `θ [N, n]`, one for each."""
        tables = np.ascontiguousarray((self.matrix @ theta.T).T)
        return tables.reshape(*theta.shape[:-1], -1, *self.shape[1:])

    def table(self, theta: FloatArray) -> FloatArray:
        """`r [H, S, A] = Φθ`."""
        return np.ascontiguousarray(np.broadcast_to(self.steps(theta), self.shape))

    def paid(self, theta: FloatArray) -> FloatArray:
        """`[S, A]`: what is paid for an action in a state, and in a terminal state for having arrived there."""
        return np.asarray(self.payments @ theta).reshape(self.shape[1:])

    def adjoint(self, weights: FloatArray) -> FloatArray:
        """`Φᵀw [n]` for weights `[H, S, A]`: `⟨Φθ, w⟩ = ⟨θ, Φᵀw⟩`."""
        every_step = weights if self.matrix.shape[0] == weights.size else weights.sum(axis=0)
        return np.asarray(self._transposed @ every_step.ravel())


@dataclass(frozen=True)
class AnyReward(RewardSpace):
    """`θ[h, s, a]`, the paper's: every reward there is."""

    name: ClassVar = "any"
    free: ClassVar = True

    def design_matrix(self, mdp: MDP, terminal: IntArray) -> DesignMatrix:
        """One parameter for each entry."""
        horizon, n_states, n_actions = mdp.shape
        _, states, actions = np.indices(mdp.shape).reshape(3, -1)
        matrix = scipy.sparse.eye_array(horizon * n_states * n_actions, format="csr")
        mean = scipy.sparse.kron(
            np.full((1, horizon), 1 / horizon), scipy.sparse.eye_array(n_states * n_actions), format="csr"
        )
        return DesignMatrix(self.name, mdp.shape, states, actions, matrix, mean, has_step_cost=False, free=True)


@dataclass(frozen=True)
class StateReward(RewardSpace):
    """`θ[s]`, paid for being in a state, and for a terminal one on arrival; and a step cost."""

    name: ClassVar = "state"
    by_state: ClassVar = True

    def design_matrix(self, mdp: MDP, terminal: IntArray) -> DesignMatrix:
        """One parameter for each state, and a step cost if episodes can end."""
        states, rows = np.arange(mdp.n_states), np.arange(mdp.n_states * mdp.n_actions)
        payments = scipy.sparse.csr_array((np.ones(len(rows)), (rows, rows // mdp.n_actions)))
        return _laid_over(self.name, mdp, terminal, states, np.full(mdp.n_states, -1), payments)


@dataclass(frozen=True)
class StateActionReward(RewardSpace):
    """`θ[s, a]`, paid for an action in a state, and for a terminal state on arrival; and a step cost."""

    name: ClassVar = "state-action"

    def design_matrix(self, mdp: MDP, terminal: IntArray) -> DesignMatrix:
        """One parameter for each state and action, one for each terminal state, and a step cost if episodes can end."""
        n_states, n_actions = mdp.shape[1:]
        states, actions = np.divmod(np.arange(n_states * n_actions), n_actions)
        ended = _is(terminal, n_states)[states]
        own = ~ended | (actions == 0)
        parameter = np.cumsum(own) - 1
        columns = np.where(ended, parameter[states * n_actions], parameter)
        entries = (np.ones(len(states)), (np.arange(len(states)), columns))
        payments = scipy.sparse.csr_array(entries, shape=(len(states), int(own.sum())))
        return _laid_over(self.name, mdp, terminal, states[own], np.where(ended, -1, actions)[own], payments)


@dataclass(frozen=True, eq=False)
class FeatureReward(RewardSpace):
    """`φ(s, a)·θ`, with features `[S, K]` or `[S, A, K]`; those of a terminal state are paid on arrival.

    `names [K]` are what people call the features.
    """

    features: FloatArray
    names: tuple[str, ...] = ()
    name: ClassVar = "features"

    def design_matrix(self, mdp: MDP, terminal: IntArray) -> DesignMatrix:
        """One parameter for each feature, and a step cost if episodes can end."""
        array = np.asarray(self.features, dtype=np.float64)
        if array.ndim not in (2, 3) or array.shape[0] != mdp.n_states or not np.isfinite(array).all():
            raise InputError(
                f"features must be finite, of shape [{mdp.n_states}, K] or [{mdp.n_states}, {mdp.n_actions}, K], "
                f"got {list(array.shape)}"
            )
        if array.ndim == 3 and array.shape[1] != mdp.n_actions:
            raise InputError(f"features are for {array.shape[1]} actions, and there are {mdp.n_actions}")
        wide = np.repeat(array[:, None], mdp.n_actions, axis=1) if array.ndim == 2 else array
        none = np.full(array.shape[-1], -1)
        return _laid_over(
            self.name, mdp, terminal, none, none, scipy.sparse.csr_array(wide.reshape(-1, array.shape[-1]))
        )

    def as_features(self) -> FeatureReward:
        """Itself."""
        return self


@dataclass(frozen=True)
class FeatureFile(RewardSpace):
    """`φ(s, a)·θ` with features from a file, `path`, that numpy has saved (`.npy`); see `FeatureReward`."""

    path: str = ""
    name: ClassVar = "features"

    def design_matrix(self, mdp: MDP, terminal: IntArray) -> DesignMatrix:
        """One parameter for each feature, and a step cost if episodes can end."""
        return self.as_features().design_matrix(mdp, terminal)

    def as_features(self) -> FeatureReward:
        """Those in the file."""
        try:
            return FeatureReward(np.load(self.path))
        except (OSError, ValueError) as error:
            raise InputError(
                f"features are not in {self.path!r}: {error}; give them as features:path=FILE.npy"
            ) from None


@dataclass(frozen=True)
class AutoReward(RewardSpace):
    """The smallest space in which a reward explains the answers; which one that is, the IRL algorithm decides."""

    name: ClassVar = "auto"
    fixed: ClassVar = False

    def design_matrix(self, mdp: MDP, terminal: IntArray) -> DesignMatrix:
        """There is no map before a space was chosen."""
        raise InputError("the space 'auto' has no map of its own; an IRL algorithm chooses one of the others")


SPACES: dict[str, type[RewardSpace]] = {"state": StateReward, "state-action": StateActionReward, "any": AnyReward}
"""By name, from the smallest to the largest; `FeatureReward` needs features."""


def described_by(features: Callable[[Any], Any], observation: Any) -> tuple[tuple[str, ...], FloatArray]:
    """`(names, values [K])` of the features of an observation; a function that returns a mapping names them."""
    found = features(observation)
    named = isinstance(found, Mapping)
    values = np.asarray(list(found.values()) if named else found, dtype=np.float64)
    return tuple(map(str, found)) if named else (), np.atleast_1d(values)


def require_any(algorithm: str, space: RewardSpace | None) -> None:
    """The error for an algorithm that knows tables only."""
    if space is not None and not space.free:
        raise InputError(f"{algorithm} finds rewards of the space 'any' only, not of {space.name!r}")


def pays_by_state(reward: object) -> bool:
    """Whether a choice of space, or a function that gives features of observations, is a space that is `by_state`."""
    return isinstance(reward, RewardSpace) and reward.by_state


def _is(states: IntArray, n_states: int) -> BoolArray:
    member = np.zeros(n_states, dtype=np.bool_)
    member[states] = True
    return member


def _rows_of(matrix: Any, kept: BoolArray) -> Any:
    """A sparse matrix, without its zeros, in which all rows but those that are kept are empty."""
    entries = np.repeat(kept, np.diff(matrix.indptr)) & (matrix.data != 0)
    counted = np.concatenate(([0], np.cumsum(entries)))
    return scipy.sparse.csr_array(
        (matrix.data[entries], matrix.indices[entries], counted[matrix.indptr]), shape=matrix.shape
    )


def _laid_over(
    name: str, mdp: MDP, terminal: IntArray, states: IntArray, actions: IntArray, payments: Any
) -> DesignMatrix:
    """The map of payments `[S·A, n]`: those of a terminal state on arrival, and a step cost if episodes can end."""
    if not len(terminal):
        return DesignMatrix(name, mdp.shape, states, actions, payments, payments, has_step_cost=False)
    is_terminal = _is(terminal, mdp.n_states)
    ended = np.repeat(is_terminal, mdp.n_actions)
    steps = mdp.transitions.n_rows // len(ended)
    # How likely each row ends an episode that was not over yet, in each terminal state.
    arriving = _rows_of(mdp.transitions.matrix, np.tile(~ended, steps))
    acting, ends = _rows_of(payments, ~ended), _rows_of(payments[:: mdp.n_actions], is_terminal)
    paid = (acting if steps == 1 else scipy.sparse.vstack([acting] * steps)) + arriving @ ends
    after = scipy.sparse.csr_array(np.tile(ended, steps)[:, None].astype(np.float64))
    return DesignMatrix(
        name,
        mdp.shape,
        np.append(states, -1),
        np.append(actions, -1),
        matrix=scipy.sparse.hstack([paid, after], format="csr"),
        payments=scipy.sparse.hstack([payments, scipy.sparse.csr_array((payments.shape[0], 1))], format="csr"),
        has_step_cost=True,
    )
