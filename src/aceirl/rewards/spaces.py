"""Reward spaces: what a reward may depend on. Each is a linear map from parameters to tables, with its adjoint.

A reward of steps, states and actions can always say "do what the expert did". A smaller space can only say what the
expert wants, and that can be taken elsewhere. Laid over a process, a space turns parameters `θ [n]` into a table
`r [H, S, A]`, and a table of weights, such as a gradient, back into one weight for each parameter.

A terminal state is paid for on arrival, once: an action earns `Σ P(s'|s,a)·θ(s')` over the terminal `s'` that it may
lead to. *Hurry* is what each step after the end of an episode is worth; up to a constant, what each step before it
costs. It is a parameter of its own wherever episodes end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import sparse

from aceirl.errors import InputError
from aceirl.mdp import MDP, BoolArray, FloatArray, IntArray


class RewardSpace(Protocol):
    """A kind of reward, before there is a process; `name` is how it is called."""

    name: ClassVar[str]

    def over(self, mdp: MDP, terminal: IntArray) -> RewardMap:
        """The map of this space over a process whose episodes end in the `terminal` states."""


@dataclass(frozen=True, eq=False)
class RewardMap:
    """A space laid over a process: `table` and `adjoint`, and what each parameter is about.

    Parameter `k` is about the state `states[k]` (-1 if none), the action `actions[k]` (-1 if any), and it is hurry if it
    is the last one and `hurries`. `matrix [rows, n]`, sparse, has a row for each `(s, a)`, or `(h, s, a)` if rewards
    depend on the step.
    """

    name: str
    shape: tuple[int, int, int]
    states: IntArray
    actions: IntArray
    matrix: Any
    hurries: bool

    @property
    def n_parameters(self) -> int:
        """How many parameters there are, hurry included."""
        return len(self.states)

    @cached_property
    def _transposed(self) -> Any:
        return sparse.csr_array(self.matrix.T)

    def steps(self, theta: FloatArray) -> FloatArray:
        """`Φθ` as `[1, S, A]` if it is the same at every step, else as `[H, S, A]`."""
        return np.asarray(self.matrix @ theta).reshape(-1, *self.shape[1:])

    def table(self, theta: FloatArray) -> FloatArray:
        """`r [H, S, A] = Φθ`."""
        return np.ascontiguousarray(np.broadcast_to(self.steps(theta), self.shape))

    def adjoint(self, weights: FloatArray) -> FloatArray:
        """`Φᵀw [n]` for weights `[H, S, A]`: `⟨Φθ, w⟩ = ⟨θ, Φᵀw⟩`."""
        every_step = weights if self.matrix.shape[0] == weights.size else weights.sum(axis=0)
        return np.asarray(self._transposed @ every_step.ravel())


@dataclass(frozen=True)
class AnyReward:
    """`θ[h, s, a]`, the paper's: every reward there is."""

    name: ClassVar = "any"

    def over(self, mdp: MDP, terminal: IntArray) -> RewardMap:
        """One parameter for each entry."""
        horizon, n_states, n_actions = mdp.shape
        _, states, actions = np.indices(mdp.shape).reshape(3, -1)
        matrix = sparse.eye_array(horizon * n_states * n_actions, format="csr")
        return RewardMap(self.name, mdp.shape, states, actions, matrix, hurries=False)


@dataclass(frozen=True)
class StateReward:
    """`θ[s]`, paid for being in a state, and for a terminal one on arrival; and hurry."""

    name: ClassVar = "state"

    def over(self, mdp: MDP, terminal: IntArray) -> RewardMap:
        """One parameter for each state, and hurry if episodes can end."""
        n_states, n_actions = mdp.shape[1:]
        states = np.arange(n_states)
        being = _columns(np.repeat(~_is(terminal, n_states), n_actions), np.repeat(states, n_actions), n_states)
        return _with_ends(self.name, mdp, terminal, states, np.full(n_states, -1), being)


@dataclass(frozen=True)
class StateActionReward:
    """`θ[s, a]`, paid for an action in a state, and for a terminal state on arrival; and hurry."""

    name: ClassVar = "state-action"

    def over(self, mdp: MDP, terminal: IntArray) -> RewardMap:
        """One parameter for each state and action, one for each terminal state, and hurry if episodes can end."""
        n_states, n_actions = mdp.shape[1:]
        over = _is(terminal, n_states)
        acted = np.repeat(~over, n_actions)
        states, actions = (index.ravel() for index in np.indices((n_states, n_actions)))
        doing = _columns(acted, np.arange(n_states * n_actions), n_states * n_actions)[:, acted]
        ends = np.flatnonzero(over)
        own = sparse.hstack([doing, sparse.csr_array((n_states * n_actions, len(ends)))], format="csr")
        return _with_ends(
            self.name,
            mdp,
            terminal,
            np.concatenate((states[acted], ends)),
            np.concatenate((actions[acted], np.full(len(ends), -1))),
            own,
        )


@dataclass(frozen=True, eq=False)
class FeatureReward:
    """`φ(s, a)·θ`, with features `[S, K]` or `[S, A, K]`; those of a terminal state are paid on arrival.

    `names [K]` are what people call the features.
    """

    features: FloatArray
    names: tuple[str, ...] = ()
    name: ClassVar = "features"

    def over(self, mdp: MDP, terminal: IntArray) -> RewardMap:
        """One parameter for each feature, and hurry if episodes can end."""
        array = np.asarray(self.features, dtype=np.float64)
        if array.ndim not in (2, 3) or array.shape[0] != mdp.n_states or not np.isfinite(array).all():
            raise InputError(
                f"features must be finite, of shape [{mdp.n_states}, K] or [{mdp.n_states}, {mdp.n_actions}, K], "
                f"got {list(array.shape)}"
            )
        if array.ndim == 3 and array.shape[1] != mdp.n_actions:
            raise InputError(f"features are for {array.shape[1]} actions, and there are {mdp.n_actions}")
        wide = np.repeat(array[:, None], mdp.n_actions, axis=1) if array.ndim == 2 else array
        over = _is(terminal, mdp.n_states)
        own = sparse.csr_array(np.where(over[:, None, None], 0.0, wide).reshape(-1, array.shape[-1]))
        arriving = _arrivals(mdp, terminal) @ sparse.csr_array(wide[:, 0])
        none = np.full(array.shape[-1], -1)
        return _hurrying(self.name, mdp, terminal, none, none, own, arriving)


@dataclass(frozen=True)
class AutoReward:
    """The smallest space in which a reward explains the answers; which one that is, the IRL algorithm decides."""

    name: ClassVar = "auto"

    def over(self, mdp: MDP, terminal: IntArray) -> RewardMap:
        """There is no map before a space was chosen."""
        raise InputError("the space 'auto' has no map of its own; an IRL algorithm chooses one of the others")


SPACES: dict[str, type[RewardSpace]] = {"state": StateReward, "state-action": StateActionReward, "any": AnyReward}
"""By name, from the smallest to the largest; `FeatureReward` needs features."""


def require_any(algorithm: str, space: RewardSpace | None) -> None:
    """The error for an algorithm that knows tables only."""
    if space is not None and not isinstance(space, AnyReward):
        raise InputError(f"{algorithm} finds rewards of the space 'any' only, not of {space.name!r}")


def _is(states: IntArray, n_states: int) -> BoolArray:
    member = np.zeros(n_states, dtype=np.bool_)
    member[states] = True
    return member


def _columns(rows: BoolArray, column: IntArray, n: int) -> Any:
    """Sparse `[rows, n]`: a one in the column of each row that is true."""
    row = np.flatnonzero(rows)
    return sparse.csr_array((np.ones(len(row)), (row, column[row])), shape=(len(rows), n))


def _arrivals(mdp: MDP, terminal: IntArray) -> Any:
    """Sparse `[rows, S]`: how likely each row ends an episode that was not over yet in each terminal state."""
    over = _is(terminal, mdp.n_states)
    acting = np.resize(np.repeat(~over, mdp.n_actions), mdp.transitions.n_rows).astype(np.float64)
    ending = sparse.diags_array(over.astype(np.float64))
    return sparse.csr_array(sparse.diags_array(acting) @ mdp.transitions.matrix @ ending)


def _with_ends(name: str, mdp: MDP, terminal: IntArray, states: IntArray, actions: IntArray, own: Any) -> RewardMap:
    """The map of parameters about states, with what is paid on arrival in a terminal one, and hurry."""
    about = _columns(_is(terminal, mdp.n_states)[states], states, mdp.n_states).T
    return _hurrying(name, mdp, terminal, states, actions, own, _arrivals(mdp, terminal) @ about)


def _hurrying(
    name: str, mdp: MDP, terminal: IntArray, states: IntArray, actions: IntArray, own: Any, arriving: Any
) -> RewardMap:
    """The map of what is paid in a state and on arrival, with hurry as its last parameter if episodes can end."""
    if not mdp.stationary:
        own = sparse.vstack([own] * mdp.horizon)
    rows = own + arriving
    if not len(terminal):
        return RewardMap(name, mdp.shape, states, actions, sparse.csr_array(rows), hurries=False)
    over = np.repeat(_is(terminal, mdp.n_states), mdp.n_actions).astype(np.float64)
    after = sparse.csr_array(np.resize(over, mdp.transitions.n_rows)[:, None])
    matrix = sparse.hstack([rows, after], format="csr")
    return RewardMap(name, mdp.shape, np.append(states, -1), np.append(actions, -1), matrix, hurries=True)
