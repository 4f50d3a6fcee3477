"""A finite-horizon Markov decision process without reward, sparse and checked once at the door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aceirl.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SUM_TOLERANCE = 1e-8


def frozen(array: ArrayLike, dtype: type) -> NDArray[Any]:
    """A read-only, contiguous array of the given type that nobody else can write to."""
    result: NDArray[Any] = np.ascontiguousarray(array, dtype=dtype)
    if result is array and not result.flags.writeable and result.flags.owndata:
        return result
    if result is array or result.base is not None:
        result = result.copy()
    result.flags.writeable = False
    return result


@dataclass(frozen=True, eq=False)
class MDP:
    """Dynamics `P`, horizon `H` and start distribution; no reward.

    Transitions are sparse rows: the successors of row `k` are `successors[indptr[k]:indptr[k+1]]` with the same slice
    of `probabilities`. A stationary process has one row per `(s, a)`, `k = s·A + a`; a per-step one has a row per
    `(h, s, a)`, `k = (h·S + s)·A + a`. A row is a distribution, or it is empty: *unknown*. Only estimates have unknown
    rows, and nothing is ever read from them. The start is a distribution over `S` states, or all zero if unknown.

    Shapes: `indptr [rows+1]`, `successors [nnz]`, `probabilities [nnz]`, `initial [S]`.
    """

    horizon: int
    n_states: int
    n_actions: int
    indptr: IntArray
    successors: NDArray[np.int32]
    probabilities: FloatArray
    initial: FloatArray
    stationary: bool = True

    def __post_init__(self) -> None:
        for name in ("horizon", "n_states", "n_actions"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
        for name, dtype in (
            ("indptr", np.int64),
            ("successors", np.int32),
            ("probabilities", np.float64),
            ("initial", np.float64),
        ):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        self._check_rows()
        self._check_initial()

    @property
    def n_rows(self) -> int:
        """How many rows of transitions there are: `S·A`, times `H` if they depend on the step."""
        return self.n_states * self.n_actions * (1 if self.stationary else self.horizon)

    @property
    def stride(self) -> int:
        """How far the rows of one step lie from those of the next: row `(h, s, a)` is `h·stride + s·A + a`."""
        return 0 if self.stationary else self.n_states * self.n_actions

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(H, S, A)`, the shape of rewards, policies and occupancies."""
        return self.horizon, self.n_states, self.n_actions

    @property
    def known(self) -> BoolArray:
        """`[H, S, A]`: whether the row has successors."""
        filled = np.diff(self.indptr) > 0
        rows = filled.reshape(-1, self.n_states, self.n_actions)
        return np.broadcast_to(rows, self.shape)

    @classmethod
    def from_dense(cls, transitions: ArrayLike, *, initial: ArrayLike, horizon: int | None = None) -> MDP:
        """From `transitions [S, A, S]` (with a horizon) or `[H, S, A, S]`, and `initial`, a distribution or a state."""
        dense = np.asarray(transitions, dtype=np.float64)
        if dense.ndim not in (3, 4) or dense.shape[-1] != dense.shape[-3] or dense.size == 0:
            raise InputError(
                f"transitions must have shape [S, A, S] or [H, S, A, S], none of them 0, got {list(dense.shape)}"
            )
        if dense.ndim == 3 and horizon is None:
            raise InputError("horizon must be given with stationary transitions [S, A, S]")
        if dense.ndim == 4 and horizon not in (None, dense.shape[0]):
            raise InputError(f"horizon is {horizon}, but transitions have {dense.shape[0]} steps")
        if np.isnan(dense).any():
            raise InputError(f"transitions{_index(np.isnan(dense))} is NaN")
        n_states, n_actions = dense.shape[-3:-1]
        rows = dense.reshape(-1, n_states)
        filled = rows != 0
        mdp = cls(
            horizon=dense.shape[0] if horizon is None else horizon,
            n_states=n_states,
            n_actions=n_actions,
            indptr=np.concatenate(([0], np.cumsum(filled.sum(axis=1)))),
            successors=np.nonzero(filled)[1].astype(np.int32),
            probabilities=rows[filled],
            initial=start_distribution(initial, n_states),
            stationary=dense.ndim == 3,
        )
        mdp.require_complete()
        return mdp

    def dense(self) -> FloatArray:
        """The transitions as `[S, A, S]` or `[H, S, A, S]`; unknown rows are zero."""
        result = np.zeros((self.n_rows, self.n_states))
        row = np.repeat(np.arange(self.n_rows), np.diff(self.indptr))
        np.add.at(result, (row, self.successors), self.probabilities)
        lead = () if self.stationary else (self.horizon,)
        return result.reshape(*lead, self.n_states, self.n_actions, self.n_states)

    def require_complete(self) -> None:
        """Raise unless every row and the start are known, as those of a real process are."""
        empty = np.diff(self.indptr) == 0
        if empty.any():
            raise InputError(f"transitions{self._place(int(np.argmax(empty)))} sum to 0, not to 1")
        if self.initial.sum() == 0:
            raise InputError("initial sums to 0, not to 1")

    def _place(self, row: int) -> str:
        """The index of a row as the user wrote it."""
        state_action = np.unravel_index(row % (self.n_states * self.n_actions), (self.n_states, self.n_actions))
        step = () if self.stationary else (row // (self.n_states * self.n_actions),)
        return str([int(i) for i in (*step, *state_action)])

    def _check_rows(self) -> None:
        if self.indptr.shape != (self.n_rows + 1,) or self.indptr[0] != 0 or (np.diff(self.indptr) < 0).any():
            raise InputError(f"indptr must rise from 0 over {self.n_rows} rows, got shape {list(self.indptr.shape)}")
        nonzeros = int(self.indptr[-1])
        if self.successors.shape != (nonzeros,) or self.probabilities.shape != (nonzeros,):
            raise InputError(
                f"successors and probabilities must have length indptr[-1] = {nonzeros}, "
                f"got shapes {list(self.successors.shape)} and {list(self.probabilities.shape)}"
            )
        row = np.repeat(np.arange(self.n_rows), np.diff(self.indptr))
        outside = (self.successors < 0) | (self.successors >= self.n_states)
        if outside.any():
            k = int(np.argmax(outside))
            raise InputError(f"successor {self.successors[k]} of {self._place(int(row[k]))} is not a state")
        bad = ~(self.probabilities >= 0) | ~np.isfinite(self.probabilities)
        if bad.any():
            k = int(np.argmax(bad))
            raise InputError(f"transitions{self._place(int(row[k]))} has the probability {self.probabilities[k]}")
        sums = np.bincount(row, weights=self.probabilities, minlength=self.n_rows)
        wrong = (np.abs(sums - 1) > SUM_TOLERANCE) & (np.diff(self.indptr) > 0)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise InputError(f"transitions{self._place(k)} sum to {sums[k]:.9g}, not to 1")

    def _check_initial(self) -> None:
        start = self.initial
        if start.shape != (self.n_states,):
            raise InputError(f"initial must have shape [{self.n_states}], got {list(start.shape)}")
        if not np.isfinite(start).all() or (start < 0).any():
            k = int(np.argmax(~np.isfinite(start) | (start < 0)))
            raise InputError(f"initial[{k}] is {start[k]}, not a probability")
        if start.any() and abs(start.sum() - 1) > SUM_TOLERANCE:
            raise InputError(f"initial sums to {start.sum():.9g}, not to 1")


def start_distribution(initial: ArrayLike, n_states: int) -> FloatArray:
    """`[S]` from a distribution, or from the one state in which every episode starts."""
    start = np.asarray(initial)
    if start.ndim == 0:
        if not np.issubdtype(start.dtype, np.integer) or not 0 <= start < n_states:
            raise InputError(f"initial is {start.item()!r}, not one of the states 0 to {n_states - 1}")
        return np.asarray(np.arange(n_states) == start, dtype=np.float64)
    return np.asarray(start, dtype=np.float64)


def check_reward(reward: ArrayLike, shape: tuple[int, int, int], name: str = "reward") -> FloatArray:
    """A finite `[H, S, A]` array, from one of that shape or of `[S, A]` (the same at every step)."""
    array = np.asarray(reward, dtype=np.float64)
    if array.shape not in (shape, shape[1:]):
        raise InputError(f"{name} must have shape {list(shape)} or {list(shape[1:])}, got {list(array.shape)}")
    if not np.isfinite(array).all():
        wrong = ~np.isfinite(array)
        raise InputError(f"{name}{_index(wrong)} is {array[wrong][0]}, not a finite number")
    return frozen(np.broadcast_to(array, shape), np.float64)


def check_policy(policy: ArrayLike, shape: tuple[int, int, int], name: str = "policy") -> FloatArray:
    """A policy `[H, S, A]`, from such an array, from actions `[H, S]` or `[S]`, or from `[S, A]`."""
    array = np.asarray(policy)
    horizon, n_states, n_actions = shape
    if array.shape in ((horizon, n_states), (n_states,)) and np.issubdtype(array.dtype, np.integer):
        wrong = (array < 0) | (array >= n_actions)
        if wrong.any():
            raise InputError(f"{name}{_index(wrong)} is {array[wrong][0]}, but actions are 0 to {n_actions - 1}")
        array = np.eye(n_actions)[array]
    if array.shape not in (shape, shape[1:]):
        raise InputError(
            f"{name} must be actions of shape [{horizon}, {n_states}] or probabilities of shape {list(shape)}, "
            f"got {list(array.shape)}"
        )
    array = np.asarray(array, dtype=np.float64)
    wrong = ~(np.abs(array.sum(axis=-1) - 1) <= SUM_TOLERANCE) | ~(array >= 0).all(axis=-1)
    if wrong.any():
        raise InputError(f"{name}{_index(wrong)} is {array[wrong][0].tolist()}, not a distribution over actions")
    return frozen(np.broadcast_to(array, shape), np.float64)


def _index(mask: NDArray[np.bool_]) -> str:
    """The first true index of a mask, as the user would write it."""
    return str([int(i) for i in np.argwhere(mask)[0]])
