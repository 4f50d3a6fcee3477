"""Counts, the whole sufficient statistic; and Estimate, what the learner believes because of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aceirl.data.arrays import Move
from aceirl.data.dataset import Dataset, Totals
from aceirl.data.preferences import Preference
from aceirl.errors import InputError
from aceirl.models.tabular.kernels import compiled, frequencies
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray, Successors, Transitions, frozen, shared
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
    def at(cls, shape: tuple[int, int, int], steps: IntArray, states: IntArray, actions: IntArray) -> StepCounts:
        """One at each of these."""
        keys = (states * shape[2] + actions) * shape[0] + steps
        return cls(shape, *_merge(keys, np.ones(len(keys), dtype=np.int64)))

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
            self.given + other.given if other.questions else self.given,
            self.starts + other.starts,
            *self._moves_with(other.move_keys, other.move_counts),
            self.repeats + other.repeats if other.repeated else self.repeats,
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


@compiled
def _laid_out(
    move_keys: IntArray, over: IntArray, steps: int, n_states: int, n_actions: int
) -> tuple[IntArray, IntArray, IntArray, Successors, FloatArray]:
    """`(moved, staying, indptr, successors, probabilities)`: where moves, and stays in states that are `over`, lie in
    the rows of all steps, and the rows, in each of which all successors are as likely as any other."""
    n_stays = steps * over.size * n_actions
    moved, staying = np.empty(move_keys.size, np.int64), np.empty(n_stays, np.int64)
    indptr = np.zeros(steps * n_states * n_actions + 1, np.int64)
    successors = np.empty(move_keys.size + n_stays, np.int32)
    i, j, n = 0, 0, 0
    while i < move_keys.size or j < n_stays:
        stay = -1
        if j < n_stays:
            row, state = j // n_actions, over[j // n_actions % over.size]
            stay = ((row // over.size * n_states + state) * n_actions + j % n_actions) * n_states + state
        move = move_keys[i] if i < move_keys.size else -1
        key = move if stay < 0 or 0 <= move <= stay else stay
        indptr[key // n_states + 1] += 1
        successors[n] = key % n_states
        if key == move:
            moved[i], i = n, i + 1
        if key == stay:
            staying[j], j = n, j + 1
        n += 1
    probabilities = np.empty(n)
    for row in range(indptr.size - 1):
        first, often = indptr[row], indptr[row + 1]
        indptr[row + 1] += first
        for k in range(first, first + often):
            probabilities[k] = 1.0 / often
    return moved, staying, indptr, successors[:n].copy(), probabilities


def _merge(keys: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Sorted distinct keys with the counts of equal ones added up; none that never occurred."""
    if len(keys) == 1 and counts[0]:
        return keys, counts
    keys, counts = keys[counts != 0], counts[counts != 0]
    highest = int(keys.max(initial=0))
    if highest < max(FEW_KEYS, 16 * len(keys)):
        return _tallied(keys, counts, np.zeros(highest + 1, dtype=np.int64))
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


@dataclass(frozen=True)
class ExpertKind:
    """What is assumed of the expert.

    `least_probability` is, for a stochastic expert, a floor on the probability of every action it uses; without it no
    number of answers rules an action out. `ask_again` is how often a deterministic one is asked about a state for which
    it has answered, to see whether it looks at more than the state. One that `declares` has said of many states at once
    what it would do there.
    """

    deterministic: bool = True
    stationary: bool = False
    least_probability: float | None = None
    ask_again: float = 0.0
    declares: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.ask_again <= 1:
            raise InputError(f"ask_again must be between 0 and 1, got {self.ask_again}")
        floor = self.least_probability
        if floor is not None and not 0 < floor <= 1:
            raise InputError(f"least_probability must be in (0, 1], got {floor}")

    @property
    def asked_everywhere(self) -> bool:
        """Whether nothing is assumed of how its answers depend on the state: it is asked wherever that would matter."""
        return self.ask_again == 1

    @property
    def imputed(self) -> bool:
        """Whether it may be imputed to answer as it did elsewhere, until it says otherwise.

        Not if it may be heard to say otherwise where it has answered: then what is imputed would not stand.
        """
        return self.deterministic and self.ask_again == 0

    def given(self, counts: Counts | Totals) -> int:
        """How many answers it gave, repeats included unless it is asked everywhere: then they cost nothing."""
        return counts.questions + (0 if self.asked_everywhere else counts.repeated)

    def settled(self, answers: IntArray, delta: float, possible_states: float | None = None) -> BoolArray:
        """`[H, S]`: whether the actions the expert uses are known, but for probability `delta` over all states.

        A deterministic expert: after one answer. A stochastic one: `m` answers miss a used action with probability at
        most `(1 - least_probability)^m`, with a union over all `(h, s, a)` that there can be.
        """
        given = self.pooled(answers).sum(axis=2)
        if self.deterministic or self.least_probability == 1:
            return np.asarray(given > 0)
        if self.least_probability is None:
            return np.zeros(given.shape, dtype=np.bool_)
        horizon, met, n_actions = answers.shape
        questions = horizon * (possible_states or met) * n_actions
        needed = np.log(questions / delta) / -np.log1p(-self.least_probability)
        return np.asarray(given >= needed)

    def pooled(self, answers: IntArray) -> IntArray:
        """`[H, S, A]`: the answers that count at each step; all of them, if the expert is stationary."""
        return np.broadcast_to(answers.sum(axis=0), answers.shape) if self.stationary else answers

    def known_actions(self, given: StepCounts) -> IntArray | None:
        """`[H, S]`: what a deterministic expert is known to do by its answers, -1 where it is not; None if it is
        stochastic."""
        if not self.deterministic:
            return None
        answers = given.pooled[None] if self.stationary else given.table
        known = np.where(answers.any(axis=2), answers.argmax(axis=2), -1)
        return np.repeat(known, given.shape[0], axis=0) if self.stationary else known


@compiled
def first_questions(visits: IntArray, answers: IntArray, stationary: bool) -> IntArray:
    """`[H, S]`: one question for each visited state not known yet; at its first step, if the expert is stationary.

    The rule of `AnswerMemory`, in bulk: `visits [H, S]` are those of a batch, `answers [H, S, A]` those given before.
    """
    horizon, n_states = visits.shape
    asked = np.zeros(visits.shape, np.int64)
    for s in range(n_states):
        known = bool(stationary and answers[:, s].any())
        for h in range(horizon):
            if visits[h, s] > 0 and not known and (stationary or not answers[h, s].any()):
                asked[h, s], known = 1, stationary
    return asked


CERTAIN = 2**60
"""As many observations, over all steps of an episode, as are as good as certainty."""


@dataclass(frozen=True, eq=False)
class AnswerTables:
    """What the answers that were `given` say of the expert, under what is assumed of it; worked out when asked for.

    The fields are those of `Estimate`, which has these tables too, as long as no answer is new the same ones.
    """

    given: StepCounts
    kind: ExpertKind
    delta: float
    terminal: frozenset[int]
    possible_states: float

    @property
    def answers(self) -> IntArray:
        """`[H, S, A]`: how often each action was the answer."""
        return self.given.table

    @cached_property
    def answered(self) -> BoolArray:
        """`[H, S]`: whether an answer of the expert counts there."""
        return np.asarray(self.kind.pooled(self.answers).any(axis=2))

    @cached_property
    def expert_known(self) -> BoolArray:
        """`[H, S]`: whether the actions that the expert uses are known; after the end there is nothing to know."""
        settled = self.kind.settled(self.answers, self.delta, self.possible_states).copy()
        settled[:, sorted(self.terminal)] = True
        return settled

    @cached_property
    def expert_policy(self) -> FloatArray:
        """`[H, S, A]`: the answers' frequencies; the commonest answer if the expert is deterministic.

        Uniform where nobody was asked: the choice of largest entropy, and not a claim.
        """
        answers = self.kind.pooled(self.answers)
        n_actions = answers.shape[2]
        if self.kind.deterministic:
            policy = np.eye(n_actions)[answers.argmax(axis=2)]
        else:
            policy = answers / np.maximum(1, answers.sum(axis=2, keepdims=True))
        return np.asarray(np.where(self.answered[:, :, None], policy, 1.0 / n_actions), dtype=np.float64)

    @cached_property
    def expert_uses(self) -> BoolArray:
        """`[H, S, A]`: the actions the expert is known to take."""
        return np.asarray((self.expert_policy > 0) & self.answered[:, :, None])

    @cached_property
    def allowed(self) -> BoolArray:
        """`[H, S, A]`: the same, and all actions where none is known."""
        return np.asarray(self.expert_uses | ~self.answered[:, :, None])

    @cached_property
    def known_actions(self) -> IntArray | None:
        """`[H, S]`: what the expert is known to do, -1 where it is not; None if it is stochastic."""
        return self.kind.known_actions(self.given)

    @cached_property
    def imputed_actions(self) -> IntArray:
        """`[H, S]`: what a deterministic expert is known to do, and elsewhere its commonest answers."""
        known = self.known_actions
        assert known is not None
        return np.where(known < 0, self.common_answers[:-1], known)

    @cached_property
    def common_answers(self) -> IntArray:
        """`[S+1]`: the commonest answer in each state over all steps; where there is none, and in states never met (the
        last entry), the commonest of all. -1 before any answer."""
        by_state = np.vstack((self.given.pooled, np.zeros((1, self.given.shape[2]), dtype=np.int64)))
        overall = by_state.sum(axis=0)
        commonest = np.where(by_state.any(axis=1), by_state.argmax(axis=1), overall.argmax())
        return commonest if overall.any() else np.full(len(by_state), -1)

    @cached_property
    def doubts(self) -> FloatArray | None:
        """`[H, S]`: `imputation_doubts` of the commonest answers; None if the expert is stochastic."""
        return None if self.known_actions is None else imputation_doubts(self, self.common_answers)


def imputation_doubts(tables: AnswerTables, imputed: IntArray) -> FloatArray:
    """`[H, S]`: how likely the expert does not do what is `imputed [S+1]` of it; 0 where its action is known. A guess.

    In a state with answers: as many of them are others than imputed, and as many in all such states, the latter with
    the weight of one answer. In a state without any: as many states with answers have others than are imputed there.
    """
    assert tables.known_actions is not None
    doubt = np.zeros(tables.known_actions.shape)
    _doubt(tables.known_actions, imputed, tables.common_answers, doubt)
    doubt.flags.writeable = False
    return doubt


@compiled
def _doubt(known: IntArray, imputed: IntArray, common: IntArray, doubt: FloatArray) -> None:
    horizon, n_states = known.shape
    answers, wrong = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon):
        for s in range(n_states):
            if known[h, s] >= 0:
                answers[s] += 1
                wrong[s] += known[h, s] != imputed[s]
    tried, met, others = 0.0, 0.0, 0.0
    for s in range(n_states):
        # Of the answers of a state one is no trial: by it the action is imputed.
        tried += max(answers[s] - 1, wrong[s])
        met += answers[s] > 0
        others += answers[s] > 0 and common[s] != imputed[n_states]
    overall, unmet = (wrong.sum() + 1) / (tried + 2), (others + 1) / (met + 2)
    of_state = answers
    for s in range(n_states):
        if imputed[s] < 0:
            of_state[s] = 0.0
        elif answers[s] > 0:
            of_state[s] = (wrong[s] + overall) / (max(answers[s] - 1, wrong[s]) + 1)
        else:
            of_state[s] = unmet
    for h in range(horizon):
        for s in range(n_states):
            if known[h, s] < 0:
                doubt[h, s] = of_state[s]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Which successors were seen of each row: the same as long as no row has shown a new one."""

    move_keys: IntArray
    shape: tuple[int, int, int]
    stationary: bool
    terminal: frozenset[int]

    @cached_property
    def terminal_states(self) -> IntArray:
        """The terminal states, in order."""
        return np.array(sorted(self.terminal), dtype=np.int64)

    @cached_property
    def move_rows(self) -> IntArray:
        """`[moves]`: the row of each of the counted moves."""
        return self.move_keys // self.shape[1]

    @cached_property
    def laid_out(self) -> tuple[IntArray, IntArray, Transitions]:
        """Where each move and each stay in a terminal state lies in the rows, and the rows with some probabilities."""
        horizon, n_states, n_actions = self.shape
        steps = None if self.stationary else horizon
        over = self.terminal_states
        if len(over) and not 0 <= over[0] <= over[-1] < n_states:
            wrong = over[0] if over[0] < 0 else over[-1]
            raise InputError(f"episodes are said to end in the state {wrong}, not one of 0 to {n_states - 1}")
        moved, staying, indptr, successors, even = _laid_out(self.move_keys, over, steps or 1, n_states, n_actions)
        return moved, staying, Transitions(n_states, n_actions, indptr, successors, even, steps)


def _same(one: AnswerTables | _Rows, other: AnswerTables | _Rows) -> bool:
    """Whether both are of the very same arrays, under the same assumptions."""
    pairs = [(getattr(one, part.name), getattr(other, part.name)) for part in fields(one)]
    return all(a is b if isinstance(a, np.ndarray) else a == b for a, b in pairs)


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the counts say: `P̂`, `π̂ᴱ`, and how much stands behind each; worked out when first asked for.

    Paper, §"Estimating Transition Model and Expert Policy". Differs: a row never visited has no estimate, and an expert
    never asked is not assumed to act in any way.

    `kind` is what is assumed of the expert, `delta` how often what is settled of a stochastic one may be wrong. The
    start `initial [S]` is given where the learner is told it. `terminal` are the states in which episodes that are over
    stay; that needs no observation. `possible_states` is how many states there can be, infinite if nobody can say.
    `preferences` say which of two episodes the expert likes better: they tell of its reward, and of nothing else. Its
    returns are taken to be discounted, by `discount` a step.
    """

    counts: Counts
    kind: ExpertKind
    delta: float
    initial: FloatArray | None
    terminal: frozenset[int]
    possible_states: float
    preferences: tuple[Preference, ...] = ()
    discount: float = 1.0

    @classmethod
    def of(
        cls,
        counts: Counts,
        *,
        kind: ExpertKind,
        delta: float,
        initial: FloatArray | None = None,
        terminal: Collection[int] = (),
        possible_states: float | None = None,
        preferences: tuple[Preference, ...] = (),
        discount: float = 1.0,
        before: Estimate | None = None,
    ) -> Estimate:
        """From counts and assumptions; by default there are no states but those of the counts."""
        possible = counts.shape[1] if possible_states is None else possible_states
        return cls(counts, kind, delta, initial, frozenset(terminal), possible, preferences, discount, before)

    @property
    def start_known(self) -> bool:
        """Whether the learner was told the start."""
        return self.initial is not None

    said: AnswerTables = field(init=False)
    rows: _Rows = field(init=False)
    before: InitVar[Estimate | None] = None
    """What fewer counts said: what follows from what has not changed since is not worked out again."""

    def __post_init__(self, before: Estimate | None) -> None:
        counts = self.counts
        said = AnswerTables(counts.given, self.kind, self.delta, self.terminal, self.possible_states)
        rows = _Rows(counts.move_keys, counts.shape, counts.stationary, self.terminal)
        if before is not None:
            said = before.said if _same(said, before.said) else said
            rows = before.rows if _same(rows, before.rows) else rows
        object.__setattr__(self, "said", said)
        object.__setattr__(self, "rows", rows)

    @property
    def terminal_states(self) -> IntArray:
        """The terminal states, in order."""
        return self.rows.terminal_states

    @property
    def move_rows(self) -> IntArray:
        """`[moves]`: the row of each of the counted moves."""
        return self.rows.move_rows

    @cached_property
    def mdp(self) -> MDP:
        """The estimated process; a row never visited is unknown, and after the end nothing happens any more."""
        counts = self.counts
        moved, staying, transitions = self.rows.laid_out
        probabilities = np.empty(len(transitions.successors))
        frequencies(transitions.indptr, moved, counts.move_counts, staying, probabilities)
        probabilities.flags.writeable = False
        horizon, estimated = counts.shape[0], transitions.with_probabilities(probabilities, trusted=True)
        if self.initial is not None:
            return MDP(horizon, estimated, self.initial, self.discount)
        return MDP.trusted(horizon, estimated, counts.starts / max(1, counts.episodes), self.discount)

    @cached_property
    def step_visits(self) -> IntArray:
        """`[H, S, A]`: observations made at that very step; as good as certain where episodes are over."""
        if not self.terminal:
            return self.counts.visits
        visits = self.counts.visits.copy()
        visits[:, self.terminal_states] += CERTAIN // visits.shape[0]
        return visits

    @cached_property
    def row_visits(self) -> IntArray:
        """`[H, S, A]`: observations that stand behind the row of `(h, s, a)`."""
        if not self.counts.stationary:
            return self.step_visits
        pooled, horizon = self.counts.visited.pooled.copy(), self.counts.shape[0]
        pooled[self.terminal_states] += CERTAIN // horizon * horizon
        return np.broadcast_to(pooled, self.counts.shape)

    @property
    def answered(self) -> BoolArray:
        """`[H, S]`: whether an answer of the expert counts there."""
        return self.said.answered

    @property
    def expert_known(self) -> BoolArray:
        """`[H, S]`: whether the actions that the expert uses are known; after the end there is nothing to know."""
        return self.said.expert_known

    @property
    def expert_policy(self) -> FloatArray:
        """`[H, S, A]`: the answers' frequencies; the commonest answer if the expert is deterministic."""
        return self.said.expert_policy

    @property
    def expert_uses(self) -> BoolArray:
        """`[H, S, A]`: the actions the expert is known to take."""
        return self.said.expert_uses

    @property
    def allowed(self) -> BoolArray:
        """`[H, S, A]`: the same, and all actions where none is known."""
        return self.said.allowed

    @property
    def known_actions(self) -> IntArray | None:
        """`[H, S]`: what the expert is known to do, -1 where it is not; None if it is stochastic."""
        return self.said.known_actions

    @property
    def imputed_actions(self) -> IntArray:
        """`[H, S]`: what a deterministic expert is known to do, and elsewhere its commonest answers."""
        return self.said.imputed_actions

    @property
    def common_answers(self) -> IntArray:
        """`[S+1]`: the commonest answer in each state over all steps, and in states never met."""
        return self.said.common_answers
