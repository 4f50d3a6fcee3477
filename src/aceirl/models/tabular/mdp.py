"""Transitions, an operator over sparse rows, and a finite-horizon Markov decision process without reward."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import InitVar, dataclass, replace
from functools import cached_property, lru_cache, wraps
from typing import Any, TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from aceirl.data.arrays import BoolArray, FloatArray, IntArray
from aceirl.errors import InputError
from aceirl.models.tabular.kernels import (
    Successors,
    are_distributions,
    expectations,
    push_forward,
)

__all__ = [
    "MDP",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "Successors",
    "Transitions",
    "check_discount",
    "check_policy",
    "check_reward",
    "frozen",
    "shared",
    "start_distribution",
    "steps_after",
    "steps_left",
]

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


SHARED = 1_000_000
"""Up to so many entries, what depends on nothing but a shape is made once."""

T = TypeVar("T")


def shared(make: Callable[[tuple[int, ...]], T]) -> Callable[[tuple[int, ...]], T]:
    """Make what depends on a shape alone, and what nobody can write to, once for each of the last few shapes.

    What is large is made each time: nobody should have to pay for it any longer than they need it.
    """
    kept = lru_cache(maxsize=4)(make)
    return wraps(make)(lambda shape: kept(shape) if math.prod(shape) <= SHARED else make(shape))


MOST_STEPS = 1_000_000
"""How long an episode can be: what is known is kept for every step."""


def check_horizon(horizon: Any) -> None:
    """An `InputError` unless an episode can have so many steps."""
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise InputError(f"horizon must be a whole number of at least 1, got {horizon!r}")
    if horizon > MOST_STEPS:
        raise InputError(
            f"horizon must be at most {MOST_STEPS:,} steps, got {horizon:,}; tables are kept for every step"
        )


def steps_left(horizon: int, discount: float = 1.0) -> FloatArray:
    """`[H]`, read-only: `H - h`, steps from each one on, itself included; the `k`-th after it counts `discount^k`."""
    check_horizon(horizon)
    return _steps_left(int(horizon), float(discount))


@lru_cache(maxsize=4)
def _steps_left(horizon: int, discount: float) -> FloatArray:
    return frozen(np.cumsum(discount ** np.arange(horizon))[::-1], np.float64)


def steps_after(horizon: int, discount: float = 1.0) -> FloatArray:
    """`[H]`: `H - h - 1`, the steps that follow each one, seen from it."""
    return steps_left(horizon, discount) - 1.0


def check_discount(discount: float) -> float:
    """A number from 0 to 1, or an error."""
    if isinstance(discount, bool) or not isinstance(discount, int | float | np.number) or not 0 <= discount <= 1:
        raise InputError(f"discount must be a number from 0 to 1, got {discount!r}")
    return float(discount)


@dataclass(frozen=True, eq=False)
class Transitions:
    """Sparse rows of successors: the operator `P` that takes expectations backward and pushes mass forward.

    The successors of row `k` are `successors[indptr[k]:indptr[k+1]]` with the same slice of `probabilities`. A
    stationary process has one row per `(s, a)`, `k = s·A + a`; with `steps` there is a row per `(h, s, a)`,
    `k = (h·S + s)·A + a`. A row is a distribution, or it is empty: *unknown*. Only estimates have unknown rows, and
    nothing is ever read from them. Parts that are right because of how they were made need not be `checked`.

    Shapes: `indptr [rows+1]`, `successors [nnz]`, `probabilities [nnz]`.
    """

    n_states: int
    n_actions: int
    indptr: IntArray
    successors: Successors
    probabilities: FloatArray
    steps: int | None = None
    checked: InitVar[bool] = True

    def __post_init__(self, checked: bool) -> None:
        for name in ("n_states", "n_actions", "steps"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
        for name, dtype in (("indptr", np.int64), ("successors", np.int32), ("probabilities", np.float64)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        if checked:
            self._check()

    @property
    def stationary(self) -> bool:
        """Whether the rows are the same at every step."""
        return self.steps is None

    @property
    def n_rows(self) -> int:
        """How many rows there are: `S·A`, times the number of steps if they differ."""
        return self.n_states * self.n_actions * (self.steps or 1)

    @property
    def stride(self) -> int:
        """How far the rows of one step lie from those of the next: row `(h, s, a)` is `h·stride + s·A + a`."""
        return 0 if self.stationary else self.n_states * self.n_actions

    @cached_property
    def rows(self) -> tuple[IntArray, Successors, FloatArray, int]:
        """The leading arguments of every compiled sweep."""
        return self.indptr, self.successors, self.probabilities, self.stride

    @cached_property
    def filled(self) -> BoolArray:
        """`[rows]`: whether the row has successors."""
        return np.asarray(np.diff(self.indptr) > 0)

    @cached_property
    def matrix(self) -> Any:
        """Sparse `[rows, S]`; unknown rows are zero."""
        return scipy.sparse.csr_array(
            (self.probabilities, self.successors, self.indptr), shape=(self.n_rows, self.n_states)
        )

    def expect(self, values: FloatArray, unknown: ArrayLike = 0.0) -> FloatArray:
        """`[H, S, A]`: the mean of `values [H, S]`, those at the next step, after each `(h, s, a)`.

        `unknown`, a number or `[H]`, stands in for it after an unknown row.
        """
        mean = np.empty((*values.shape, self.n_actions))
        after = np.ascontiguousarray(np.broadcast_to(np.asarray(unknown, dtype=np.float64), values.shape[:1]))
        expectations(*self.rows, np.ascontiguousarray(values, dtype=np.float64), after, mean)
        return mean

    def push(self, initial: FloatArray, policy: FloatArray) -> FloatArray:
        """`[H, S, A]`: where mass that starts as `initial [S]` and acts by `policy [H, S, A]` is at every step."""
        mass = np.empty(policy.shape)
        push_forward(*self.rows, initial, policy, mass)
        return mass

    def with_probabilities(self, probabilities: FloatArray, *, trusted: bool = False) -> Transitions:
        """The same rows with other `probabilities [nnz]`; if they are `trusted` to be some, that is not checked."""
        return replace(self, probabilities=probabilities, checked=not trusted)

    def dense(self) -> FloatArray:
        """`[S, A, S]` or `[H, S, A, S]`; unknown rows are zero."""
        lead = () if self.steps is None else (self.steps,)
        return np.asarray(self.matrix.toarray()).reshape(*lead, self.n_states, self.n_actions, self.n_states)

    def index(self, row: int) -> str:
        """The index of a row as the user wrote it."""
        per_step = self.n_states * self.n_actions
        state_action = np.unravel_index(row % per_step, (self.n_states, self.n_actions))
        step = () if self.stationary else (row // per_step,)
        return str([int(i) for i in (*step, *state_action)])

    @cached_property
    def _row(self) -> IntArray:
        """`[nnz]`: the row of each successor."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    def _check(self) -> None:
        if self.indptr.shape != (self.n_rows + 1,) or self.indptr[0] != 0 or (np.diff(self.indptr) < 0).any():
            raise InputError(f"indptr must rise from 0 over {self.n_rows} rows, got shape {list(self.indptr.shape)}")
        nonzeros = int(self.indptr[-1])
        if self.successors.shape != (nonzeros,) or self.probabilities.shape != (nonzeros,):
            raise InputError(
                f"successors and probabilities must have length indptr[-1] = {nonzeros}, "
                f"got shapes {list(self.successors.shape)} and {list(self.probabilities.shape)}"
            )
        outside = (self.successors < 0) | (self.successors >= self.n_states)
        if outside.any():
            k = int(np.argmax(outside))
            raise InputError(f"successor {self.successors[k]} of {self.index(int(self._row[k]))} is not a state")
        if are_distributions(self.indptr, self.probabilities, SUM_TOLERANCE):
            return
        bad = ~(self.probabilities >= 0) | ~np.isfinite(self.probabilities)
        if bad.any():
            k = int(np.argmax(bad))
            raise InputError(f"transitions{self.index(int(self._row[k]))} has the probability {self.probabilities[k]}")
        sums = np.bincount(self._row, weights=self.probabilities, minlength=self.n_rows)
        wrong = (np.abs(sums - 1) > SUM_TOLERANCE) & self.filled
        if wrong.any():
            k = int(np.argmax(wrong))
            raise InputError(f"transitions{self.index(k)} sum to {sums[k]:.9g}, not to 1")


@dataclass(frozen=True, eq=False)
class MDP:
    """Transitions, a start, a horizon and a discount; no reward.

    The start `initial [S]` is a distribution over states, or all zero if it is unknown, as an estimate's may be. A
    reward `k` steps later is worth `discount^k` as much: values are `Q_h = r_h + γ·P·V_{h+1}`.
    """

    horizon: int
    transitions: Transitions
    initial: FloatArray
    discount: float = 1.0
    checked: InitVar[bool] = True

    def __post_init__(self, checked: bool) -> None:
        check_horizon(self.horizon)
        if self.transitions.steps not in (None, self.horizon):
            raise InputError(f"horizon is {self.horizon}, but transitions have {self.transitions.steps} steps")
        object.__setattr__(self, "initial", frozen(self.initial, np.float64))
        object.__setattr__(self, "discount", check_discount(self.discount))
        if checked:
            self._check_initial()

    @classmethod
    def trusted(cls, horizon: int, transitions: Transitions, initial: FloatArray, discount: float = 1.0) -> MDP:
        """One whose parts are known to be right, because of how they were made."""
        return cls(horizon, transitions, initial, discount, checked=False)

    @cached_property
    def backup(self) -> Transitions:
        """`γ·P`: the operator by which values go backward, and the discounted occupancy forward.

        Its rows sum to the discount; what is lost is as if an episode ended there. `transitions` is what happens.
        """
        if self.discount == 1:
            return self.transitions
        rows = self.transitions
        return rows.with_probabilities(self.discount * rows.probabilities, trusted=True)

    @cached_property
    def steps_left(self) -> FloatArray:
        """`[H]`: the steps from each one on, itself included; later ones count less by the discount."""
        return steps_left(self.horizon, self.discount)

    @cached_property
    def steps_after(self) -> FloatArray:
        """`[H]`: the steps that follow each one, seen from it."""
        return frozen(steps_after(self.horizon, self.discount), np.float64)

    @property
    def n_states(self) -> int:
        """How many states there are."""
        return self.transitions.n_states

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self.transitions.n_actions

    @property
    def stationary(self) -> bool:
        """Whether the dynamics are the same at every step."""
        return self.transitions.stationary

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(H, S, A)`, the shape of rewards, policies and occupancies."""
        return self.horizon, self.n_states, self.n_actions

    @property
    def known(self) -> BoolArray:
        """`[H, S, A]`: whether the row has successors."""
        return np.broadcast_to(self.transitions.filled.reshape(-1, self.n_states, self.n_actions), self.shape)

    def sweep(
        self, kernel: Callable[..., None], reward: FloatArray, *parameters: Any, unknown: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """`(q [H, S, A], v [H, S])` of a compiled backward sweep; `unknown [H]` is what follows an unknown row."""
        q, v = np.empty(self.shape), np.zeros((self.horizon + 1, self.n_states))
        after = np.zeros(self.horizon) if unknown is None else np.asarray(unknown, dtype=np.float64)
        kernel(*self.backup.rows, np.ascontiguousarray(reward), after, *parameters, q, v)
        return q, v[:-1]

    @classmethod
    def from_dense(
        cls, transitions: ArrayLike, *, initial: ArrayLike, horizon: int | None = None, discount: float = 1.0
    ) -> MDP:
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
        sparse_rows = Transitions(
            n_states=n_states,
            n_actions=n_actions,
            indptr=np.concatenate(([0], np.cumsum(filled.sum(axis=1)))),
            successors=np.nonzero(filled)[1].astype(np.int32),
            probabilities=rows[filled],
            steps=None if dense.ndim == 3 else dense.shape[0],
        )
        mdp = cls(
            horizon=dense.shape[0] if horizon is None else horizon,
            transitions=sparse_rows,
            initial=start_distribution(initial, n_states),
            discount=discount,
        )
        mdp.require_complete()
        return mdp

    def require_complete(self) -> None:
        """Raise unless every row and the start are known, as those of a real process are."""
        empty = ~self.transitions.filled
        if empty.any():
            raise InputError(f"transitions{self.transitions.index(int(np.argmax(empty)))} sum to 0, not to 1")
        if self.initial.sum() == 0:
            raise InputError("initial sums to 0, not to 1")

    def _check_initial(self) -> None:
        start = self.initial
        if start.shape != (self.n_states,):
            raise InputError(f"initial must have shape [{self.n_states}], got {list(start.shape)}")
        if are_distributions(np.array([0, len(start)]), start, SUM_TOLERANCE):
            return
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
    if not (array.min(initial=0) >= 0 and np.abs(array @ np.ones(n_actions) - 1).max(initial=0) <= SUM_TOLERANCE):
        wrong = ~(np.abs(array.sum(axis=-1) - 1) <= SUM_TOLERANCE) | ~(array >= 0).all(axis=-1)
        raise InputError(f"{name}{_index(wrong)} is {array[wrong][0].tolist()}, not a distribution over actions")
    return frozen(array if array.shape == shape else np.broadcast_to(array, shape), np.float64)


def _index(mask: NDArray[np.bool_]) -> str:
    """The first true index of a mask, as the user would write it."""
    return str([int(i) for i in np.argwhere(mask)[0]])
