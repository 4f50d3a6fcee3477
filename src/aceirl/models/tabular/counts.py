"""Counts, the whole sufficient statistic: what was observed, kept where something was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aceirl.data.arrays import Move
from aceirl.data.dataset import Dataset, Totals
from aceirl.errors import InputError
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import IntArray, frozen, shared
from aceirl.protocols import Moves


@dataclass(frozen=True, eq=False)
class StepCounts:
    """How often something was counted at each step, in each state, for each action: only where it was.

    The key of `(h, s, a)` is `(s·A + a)·H + h`, so that those of states that are met later come last. `keys [n]` rise,
    and `times [n]` are at least 1. Additive.
    """

    shape: tuple[int, int, int]
    keys: IntArray
    times: IntArray

    @classmethod
    def of(cls, array: IntArray) -> StepCounts:
        """Those of a table `[H, S, A]`."""
        by_state = array.transpose(1, 2, 0).ravel()
        keys = np.flatnonzero(by_state)
        return cls(array.shape, keys, by_state[keys])

    @classmethod
    def at(
        cls,
        shape: tuple[int, int, int],
        steps: IntArray,
        states: IntArray,
        actions: IntArray,
        times: IntArray | None = None,
    ) -> StepCounts:
        """One at each of these, or so many `times [n]`."""
        keys = (states * shape[2] + actions) * shape[0] + steps
        return cls(shape, *_merge(keys, np.ones(len(keys), dtype=np.int64) if times is None else times))

    @cached_property
    def table(self) -> IntArray:
        """`[H, S, A]`, read-only."""
        horizon, n_states, n_actions = self.shape
        rows, steps = np.divmod(self.keys, horizon)
        table = np.zeros((horizon, n_states * n_actions), dtype=np.int64)
        table[steps, rows] = self.times
        table.flags.writeable = False
        return table.reshape(self.shape)

    @cached_property
    def pooled(self) -> IntArray:
        """`[S, A]`: over all steps, read-only."""
        horizon, n_states, n_actions = self.shape
        pooled = np.zeros(n_states * n_actions, dtype=np.int64)
        _add_pooled(self.keys, self.times, horizon, pooled)
        pooled.flags.writeable = False
        return pooled.reshape(n_states, n_actions)

    @cached_property
    def total(self) -> int:
        """How often in all."""
        return int(self.times.sum())

    def in_state(self, state: int, step: int | None = None) -> IntArray:
        """`[A]`: those of one state, at a step or over all."""
        horizon, _, n_actions = self.shape
        first, last = np.searchsorted(self.keys, (state * n_actions * horizon, (state + 1) * n_actions * horizon))
        found = np.zeros(n_actions, dtype=np.int64)
        for key, times in zip(self.keys[first:last].tolist(), self.times[first:last].tolist(), strict=True):
            if step is None or key % horizon == step:
                found[key // horizon % n_actions] += times
        return found

    def grown(self, n_states: int) -> StepCounts:
        """The same of a problem in which more states are known."""
        return replace(self, shape=(self.shape[0], n_states, self.shape[2]))

    def __add__(self, other: StepCounts) -> StepCounts:
        return StepCounts(self.shape, *_merge_sorted(self.keys, self.times, other.keys, other.times))


@dataclass(frozen=True, eq=False)
class Counts:
    """Everything observed so far. Additive: `counts + counts`.

    What was `visited` and the answers that were `given` are kept by step, state and action, where there are any;
    `visits [H, S, A]` and `answers [H, S, A]` are the tables of them, made when they are asked for. `starts [S]` is
    dense. Transitions are sparse: `move_counts[i]` times the successor `move_keys[i] mod S` followed row
    `move_keys[i] div S`, where rows are `(s, a)` if the dynamics are taken as stationary, and `(h, s, a)` if not. Keys
    are sorted and distinct. `repeats [S, 2]` is how often the expert, asked again about a state, said the same, and how
    often it did not; they do not change what it said first. `met [S]` is in how many episodes each state was met; where
    that was not counted, how often.
    """

    stationary: bool
    visited: StepCounts
    given: StepCounts
    starts: IntArray
    move_keys: IntArray
    move_counts: IntArray
    repeats: IntArray
    met: IntArray

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            getattr(self, name).flags.writeable = False

    @classmethod
    def of_arrays(
        cls,
        stationary: bool,
        visits: Any,
        answers: Any,
        starts: Any,
        move_keys: Any,
        move_counts: Any,
        repeats: Any = None,
        met: Any = None,
    ) -> Counts:
        """From tables `visits [H, S, A]` and `answers [H, S, A]` and the other arrays, which are checked."""
        visits, answers, starts = (
            _checked(name, array) for name, array in (("visits", visits), ("answers", answers), ("starts", starts))
        )
        keys, times = _checked("move_keys", move_keys), _checked("move_counts", move_counts)
        again = np.zeros((len(starts), 2), dtype=np.int64) if repeats is None else repeats
        found = np.zeros(len(starts), dtype=np.int64) if met is None else met
        again, found = _checked("repeats", again), _checked("met", found)
        shape, of_states = visits.shape, (starts.shape, again.shape, found.shape)
        if len(shape) != 3 or answers.shape != shape or of_states != (shape[1:2], (shape[1], 2), shape[1:2]):
            raise InputError(
                f"visits {list(shape)}, answers {list(answers.shape)}, starts {list(starts.shape)}, "
                f"repeats {list(again.shape)} and met {list(found.shape)} have shapes that do not fit"
            )
        _check_moves(keys, times, shape, stationary)
        if met is None:
            found = arrivals(starts, keys, times)
        return cls(bool(stationary), StepCounts.of(visits), StepCounts.of(answers), starts, keys, times, again, found)

    def arrays(self) -> dict[str, Any]:
        """What `of_arrays` makes them of again."""
        return {name: getattr(self, name) for name in ("stationary", "visits", "answers", *_ARRAYS)}

    @classmethod
    def empty(cls, shape: tuple[int, int, int], *, stationary: bool = True) -> Counts:
        """No observation at all of a problem with `shape = (H, S, A)`."""
        none, of_states = np.zeros(0, dtype=np.int64), np.zeros(shape[1], dtype=np.int64)
        nothing = StepCounts(shape, none, none)
        return cls(stationary, nothing, nothing, of_states, none, none, _none((shape[1], 2)), of_states)

    @classmethod
    def of_moves(cls, moves: Moves, shape: tuple[int, int, int], *, stationary: bool = True) -> Counts:
        """The counts of observed transitions; no answers."""
        columns = [_whole(getattr(moves, name)) for name in MOVE]
        times, starts = _checked("count", moves.count), _checked("starts", moves.starts)
        if starts.shape != shape[1:2]:
            raise InputError(f"starts {list(starts.shape)} do not belong to a problem of {shape[1]} states")
        return cls._tallied(columns, times, starts, shape, stationary)

    @classmethod
    def _tallied(
        cls,
        columns: Sequence[IntArray] | IntArray,
        times: IntArray,
        starts: IntArray,
        shape: tuple[int, int, int],
        stationary: bool,
        met: IntArray | None = None,
    ) -> Counts:
        """Of the columns of moves, each of which happened so many times; `met [S]` as in the counts."""
        visits, keys = np.empty(len(times), dtype=np.int64), np.empty(len(times), dtype=np.int64)
        steps, states, actions, successors = columns
        if not _tally(steps, states, actions, successors, stationary, shape, visits, keys):
            raise _wrong_move(columns, shape)
        none, moved = np.zeros(0, dtype=np.int64), _merge(keys, times)
        if met is None:
            met = arrivals(starts, *moved)
        visited, given = StepCounts(shape, *_merge(visits, times)), StepCounts(shape, none, none)
        return cls(stationary, visited, given, starts, *moved, _none((shape[1], 2)), met)

    @classmethod
    def of_walks(
        cls, starts: Sequence[int], walks: Sequence[Sequence[Move]], shape: tuple[int, int, int], *, stationary: bool
    ) -> Counts:
        """The counts of episodes that were walked; no answers."""
        moves = np.array([move for walk in walks for move in walk], dtype=np.int64).reshape(-1, 4)
        for start in starts:
            if not 0 <= start < shape[1]:
                raise InputError(f"an episode starts in the state {start}, not one of 0 to {shape[1] - 1}")
        times, begun = np.ones(len(moves), dtype=np.int64), np.bincount(starts, minlength=shape[1])
        lengths = [len(walk) for walk in walks]
        episode = np.concatenate((np.arange(len(starts)), np.repeat(np.arange(len(walks)), lengths)))
        there = np.concatenate((np.asarray(starts, dtype=np.int64), moves[:, 3]))
        states = np.unique(episode * shape[1] + np.clip(there, 0, shape[1] - 1)) % shape[1]
        met = np.bincount(states, minlength=shape[1])
        return cls._tallied(moves.T.copy(), times, begun, shape, stationary, met)

    @classmethod
    def of_data(cls, data: Dataset, shape: tuple[int, int, int], *, stationary: bool) -> Counts:
        """The counts of trajectories and answers in numbers."""
        walks = [one.walk for one in data.trajectories]
        counts = cls.of_walks([one.start for one in data.trajectories], walks, shape, stationary=stationary)
        given = data.all_answers
        if not given and not data.repeats:
            return counts
        repeats = np.zeros((shape[1], 2), dtype=np.int64)
        np.add.at(repeats, tuple(np.array(data.repeats, dtype=np.int64).reshape(-1, 2).T), 1)
        answers = StepCounts.at(shape, *np.array(given, dtype=np.int64).reshape(-1, 3).T)
        return replace(counts, given=answers, repeats=repeats)

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(H, S, A)`."""
        return self.visited.shape

    @property
    def visits(self) -> IntArray:
        """`[H, S, A]`: how often each action was taken, read-only."""
        return self.visited.table

    @property
    def answers(self) -> IntArray:
        """`[H, S, A]`: how often each action was the expert's answer, read-only."""
        return self.given.table

    @cached_property
    def totals(self) -> Totals:
        """How much was observed and answered."""
        return Totals(self.visited.total, int(self.starts.sum()), self.given.total, int(self.repeats.sum()))

    @property
    def samples(self) -> int:
        """How many steps of the environment were observed."""
        return self.totals.samples

    @property
    def episodes(self) -> int:
        """How many episodes began."""
        return self.totals.episodes

    @property
    def questions(self) -> int:
        """How many answers the expert gave."""
        return self.totals.questions

    @property
    def repeated(self) -> int:
        """How often the expert was asked again."""
        return self.totals.repeated

    def grown(self, n_states: int) -> Counts:
        """The same observations of a problem in which more states are known; the new ones come last."""
        _, before, n_actions = self.shape
        if n_states == before:
            return self
        row, successor = np.divmod(self.move_keys, before)
        # Rows lie state by state within each step, so those of later steps move up by what earlier steps gained.
        row = row + row // (before * n_actions) * ((n_states - before) * n_actions)
        return Counts(
            self.stationary,
            self.visited.grown(n_states),
            self.given.grown(n_states),
            with_states(self.starts[None], n_states)[0],
            row * n_states + successor,
            self.move_counts,
            with_states(self.repeats[None], n_states)[0],
            with_states(self.met[None], n_states)[0],
        )

    @property
    def contradicted(self) -> IntArray:
        """`[S]`: how often the expert, asked again about a state, did not say what it had said."""
        return self.repeats[:, 1]

    def with_answers(self, answers: IntArray, repeats: IntArray | None = None) -> Counts:
        """The same counts with these answers `[H, S, A]` and repeats `[S, 2]`."""
        given, again = _checked("answers", answers), _checked("repeats", self.repeats if repeats is None else repeats)
        if given.shape != self.shape or again.shape != self.repeats.shape:
            raise InputError(
                f"answers {list(given.shape)} and repeats {list(again.shape)} do not belong to a problem of shape "
                f"{list(self.shape)}"
            )
        return replace(self, given=StepCounts.of(given), repeats=again)

    def __add__(self, other: Counts) -> Counts:
        if self.shape != other.shape or self.stationary != other.stationary:
            raise InputError(f"counts of shape {list(self.shape)} and {list(other.shape)} cannot be added")
        return Counts(
            self.stationary,
            self.visited + other.visited,
            self.given + other.given if len(other.given.keys) else self.given,
            self.starts + other.starts,
            *self._moves_with(other.move_keys, other.move_counts),
            self.repeats + other.repeats,
            self.met + other.met,
        )

    def _moves_with(self, keys: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
        """The keys and counts of all moves; the very same keys, if none of those added is new."""
        at = np.searchsorted(self.move_keys, keys)
        if len(self.move_keys) and (self.move_keys.take(at, mode="clip") == keys).all():
            added = self.move_counts.copy()
            added[at] += counts
            return self.move_keys, added
        return _merge_sorted(self.move_keys, self.move_counts, keys, counts)


MOVE = ("step", "state", "action", "successor")


def _wrong_move(columns: Iterable[IntArray], shape: tuple[int, int, int]) -> InputError:
    """The error for moves, by column, of which one is not of a problem of that shape."""
    horizon, n_states, n_actions = shape
    for values, name, size in zip(columns, MOVE, (horizon, n_states, n_actions, n_states), strict=True):
        wrong = values[(values < 0) | (values >= size)]
        if len(wrong):
            return InputError(f"a move has the {name} {wrong[0]}, not one of 0 to {size - 1}")
    raise AssertionError("all moves are of that problem")


_ARRAYS = ("starts", "move_keys", "move_counts", "repeats", "met")


def _check_moves(keys: IntArray, times: IntArray, shape: tuple[int, ...], stationary: bool) -> None:
    horizon, n_states, n_actions = shape
    if keys.ndim != 1 or keys.shape != times.shape:
        raise InputError(
            f"move_keys and move_counts must be lists of one length, got shapes {list(keys.shape)} "
            f"and {list(times.shape)}"
        )
    limit = n_states * n_actions * n_states * (1 if stationary else horizon)
    wrong = (np.diff(keys, prepend=-1) <= 0) | (keys >= limit) | (times == 0)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(
            f"move_keys[{k}] is {keys[k]} and move_counts[{k}] is {times[k]}; "
            f"keys must rise and stay below {limit}, counts be at least 1"
        )


def arrivals(starts: IntArray, move_keys: IntArray, move_counts: IntArray) -> IntArray:
    """`[S]`: how often episodes were in each state."""
    met = np.array(starts, dtype=np.int64)
    np.add.at(met, move_keys % max(1, len(met)), move_counts)
    return frozen(met, np.int64)


@shared
def _none(shape: tuple[int, ...]) -> IntArray:
    """Nothing was counted; read-only."""
    return frozen(np.zeros(shape, dtype=np.int64), np.int64)


def _checked(name: str, counts: Any) -> IntArray:
    """Counts that nobody else can write to."""
    array = np.asarray(counts)
    if array.dtype != np.int64 or array.min(initial=0) < 0:
        _require_counts(name, array)
    return frozen(array, np.int64)


def _require_counts(name: str, array: NDArray[Any]) -> None:
    wrong = ~((array >= 0) & (array < 2.0**63)) | (array != np.floor(array))
    if wrong.any():
        index = [int(i) for i in np.argwhere(wrong)[0]]
        raise InputError(f"{name}{index} is {array[tuple(index)]}: counts are whole numbers, never negative")


def with_states(array: NDArray[Any], n_states: int) -> NDArray[Any]:
    """An array `[H, S, ...]` with zeros for the states that were not known when it was made."""
    wide = np.zeros((array.shape[0], n_states, *array.shape[2:]), dtype=array.dtype)
    wide[:, : array.shape[1]] = array
    return wide


def _whole(column: Any) -> IntArray:
    """A column of moves, as whole numbers one after the other."""
    return np.ascontiguousarray(np.asarray(column).astype(np.int64, casting="same_kind", copy=False))


@compiled
def _tally(
    steps: IntArray,
    states: IntArray,
    actions: IntArray,
    successors: IntArray,
    stationary: bool,
    shape: tuple[int, int, int],
    visits: IntArray,
    keys: IntArray,
) -> bool:
    """Write the keys of moves, and those of their visits; false if one of them is not of a problem of that shape."""
    horizon, n_states, n_actions = shape
    for i in range(steps.size):
        step, state, action, successor = steps[i], states[i], actions[i], successors[i]
        met = 0 <= state < n_states and 0 <= successor < n_states
        if not (met and 0 <= step < horizon and 0 <= action < n_actions):
            return False
        row = state * n_actions + action
        visits[i] = row * horizon + step
        keys[i] = (row + (0 if stationary else step * n_states * n_actions)) * n_states + successor
    return True


@compiled
def _add_pooled(keys: IntArray, times: IntArray, horizon: int, pooled: IntArray) -> None:
    """Add `times [n]` to the rows `[S·A]` of the keys of `StepCounts`."""
    for i in range(keys.size):
        pooled[keys[i] // horizon] += times[i]


@compiled
def _merge_sorted(
    keys: IntArray, counts: IntArray, new_keys: IntArray, new_counts: IntArray
) -> tuple[IntArray, IntArray]:
    """Two lists of sorted distinct keys in one, and their counts; those of equal keys add up."""
    merged, of_both = np.empty(keys.size + new_keys.size, np.int64), np.empty(keys.size + new_keys.size, np.int64)
    i, j, n = 0, 0, 0
    while i < keys.size or j < new_keys.size:
        old = i < keys.size and (j == new_keys.size or keys[i] <= new_keys[j])
        both = old and j < new_keys.size and keys[i] == new_keys[j]
        merged[n] = keys[i] if old else new_keys[j]
        of_both[n] = (counts[i] if old else new_counts[j]) + (new_counts[j] if both else 0)
        i, j, n = i + old, j + (both or not old), n + 1
    return merged[:n].copy(), of_both[:n].copy()


def _merge(keys: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Sorted distinct keys with the counts of equal ones added up; none that never occurred."""
    if len(keys) == 1 and counts[0]:
        return keys, counts
    highest = int(keys.max(initial=0))
    if highest < max(FEW_KEYS, 16 * len(keys)):
        return _tallied(keys, counts, np.zeros(highest + 1, dtype=np.int64))
    keys, counts = keys[counts != 0], counts[counts != 0]
    if len(keys) <= FEW_MOVES:
        return _merged_few(keys, counts)
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[first], np.add.reduceat(counts, first) if len(first) else counts


FEW_KEYS = 10_000
"""Up to so many keys, or a few times as many as there are to merge, a table of all is quicker than sorting."""


FEW_MOVES = 64
"""Up to so many moves, as an episode has, are put in their places one by one."""


@compiled
def _merged_few(keys: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Sorted distinct keys, with the counts of equal ones added up."""
    merged, added, n = np.empty_like(keys), np.empty_like(counts), 0
    for i in range(keys.size):
        at = n
        while at > 0 and merged[at - 1] > keys[i]:
            at -= 1
        if at > 0 and merged[at - 1] == keys[i]:
            added[at - 1] += counts[i]
            continue
        for j in range(n, at, -1):
            merged[j], added[j] = merged[j - 1], added[j - 1]
        merged[at], added[at], n = keys[i], counts[i], n + 1
    return merged[:n].copy(), added[:n].copy()


@compiled
def _tallied(keys: IntArray, counts: IntArray, table: IntArray) -> tuple[IntArray, IntArray]:
    """The keys that occur, in order, and how often each does; `table [keys]` begins with zeros."""
    for i in range(keys.size):
        table[keys[i]] += counts[i]
    found = np.flatnonzero(table)
    return found, table[found]
