"""Counts, the whole sufficient statistic; and Estimate, what the learner believes because of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aceirl.errors import InputError
from aceirl.kernels import compiled, frequencies
from aceirl.mdp import MDP, BoolArray, FloatArray, IntArray, Successors, Transitions, frozen, shared
from aceirl.preferences import Preference
from aceirl.protocols import Move, Moves


@dataclass(frozen=True, eq=False)
class Counts:
    """Everything observed so far. Additive: `counts + counts`.

    `visits [H, S, A]`, `answers [H, S, A]` and `starts [S]` are dense. Transitions are sparse: `move_counts[i]` times
    the successor `move_keys[i] mod S` followed row `move_keys[i] div S`, where rows are `(s, a)` if the dynamics are
    taken as stationary, and `(h, s, a)` if not. Keys are sorted and distinct. `repeats [S, 2]` is how often the expert,
    asked again about a state, said the same, and how often it did not; they do not change what it said first.
    """

    stationary: bool
    visits: IntArray
    answers: IntArray
    starts: IntArray
    move_keys: IntArray
    move_counts: IntArray
    repeats: IntArray = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))

    def __post_init__(self) -> None:
        if not len(self.repeats):
            object.__setattr__(self, "repeats", np.zeros((len(self.starts), 2), dtype=np.int64))
        for name in _FIELDS[1:]:
            object.__setattr__(self, name, _checked(name, getattr(self, name)))
        self._check_shapes()
        self._check_moves()

    def _check_shapes(self) -> None:
        shape = self.visits.shape
        of_states = self.starts.shape, self.repeats.shape
        if len(shape) != 3 or self.answers.shape != shape or of_states != (shape[1:2], (shape[1], 2)):
            raise InputError(
                f"visits {list(shape)}, answers {list(self.answers.shape)}, starts {list(self.starts.shape)} and "
                f"repeats {list(self.repeats.shape)} do not belong to one problem"
            )

    @classmethod
    def _of(cls, stationary: bool, *arrays: IntArray) -> Counts:
        """Of new arrays that are made of counts in a way that leaves them counts: there is nothing to check."""
        made = cls.__new__(cls)
        vars(made).update(zip(_FIELDS, (stationary, *map(_kept, arrays)), strict=True))
        return made

    def _check_moves(self) -> None:
        keys, (horizon, n_states, n_actions) = self.move_keys, self.shape
        if keys.ndim != 1 or keys.shape != self.move_counts.shape:
            raise InputError(
                f"move_keys and move_counts must be lists of one length, got shapes {list(keys.shape)} "
                f"and {list(self.move_counts.shape)}"
            )
        limit = n_states * n_actions * n_states * (1 if self.stationary else horizon)
        wrong = (np.diff(keys, prepend=-1) <= 0) | (keys >= limit) | (self.move_counts == 0)
        if wrong.any():
            k = int(np.argmax(wrong))
            raise InputError(
                f"move_keys[{k}] is {keys[k]} and move_counts[{k}] is {self.move_counts[k]}; "
                f"keys must rise and stay below {limit}, counts be at least 1"
            )

    @classmethod
    def empty(cls, shape: tuple[int, int, int], *, stationary: bool = True) -> Counts:
        """No observation at all of a problem with `shape = (H, S, A)`."""
        none = np.zeros(0, dtype=np.int64)
        dense = np.zeros(shape, dtype=np.int64)
        return cls(stationary, dense, dense, dense[0, :, 0], none, none)

    @classmethod
    def of_moves(cls, moves: Moves, shape: tuple[int, int, int], *, stationary: bool = True) -> Counts:
        """The counts of observed transitions; no answers."""
        n_states = shape[1]
        columns = [_whole(getattr(moves, name)) for name in MOVE]
        times, starts = _checked("count", moves.count), _checked("starts", moves.starts)
        visits, keys = np.zeros(shape, dtype=np.int64), np.empty(len(times), dtype=np.int64)
        steps, states, actions, successors = columns
        if not _tally(steps, states, actions, successors, times, stationary, visits, keys):
            raise _wrong_move(columns, shape)
        keys, counts = _merge(keys, times)
        made = cls._of(stationary, visits, _none(shape), starts, keys, counts, _none((n_states, 2)))
        made._check_shapes()
        vars(made).update(samples=int(times.sum()), questions=0, repeated=0)
        return made

    @classmethod
    def of_walks(
        cls, starts: Sequence[int], walks: Sequence[Sequence[Move]], shape: tuple[int, int, int], *, stationary: bool
    ) -> Counts:
        """The counts of episodes that were walked; no answers."""
        moves = np.array([move for walk in walks for move in walk], dtype=np.int64).reshape(-1, 4)
        visits, keys = np.zeros(shape, dtype=np.int64), np.empty(len(moves), dtype=np.int64)
        for start in starts:
            if not 0 <= start < shape[1]:
                raise InputError(f"an episode starts in the state {start}, not one of 0 to {shape[1] - 1}")
        times, begun = np.ones(len(moves), dtype=np.int64), np.bincount(starts, minlength=shape[1])
        steps, states, actions, successors = columns = moves.T.copy()
        if not _tally(steps, states, actions, successors, times, stationary, visits, keys):
            raise _wrong_move(columns, shape)
        made = cls._of(stationary, visits, _none(shape), begun, *_merge(keys, times), _none((shape[1], 2)))
        vars(made).update(samples=len(moves), questions=0, repeated=0, episodes=len(starts))
        return made

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(H, S, A)`."""
        horizon, n_states, n_actions = self.visits.shape
        return horizon, n_states, n_actions

    @cached_property
    def samples(self) -> int:
        """How many steps of the environment were observed."""
        return int(self.visits.sum())

    @cached_property
    def episodes(self) -> int:
        """How many episodes began."""
        return int(self.starts.sum())

    @cached_property
    def questions(self) -> int:
        """How many answers the expert gave."""
        return int(self.answers.sum())

    @cached_property
    def repeated(self) -> int:
        """How often the expert was asked again."""
        return int(self.repeats.sum())

    def grown(self, n_states: int) -> Counts:
        """The same observations of a problem in which more states are known; the new ones come last."""
        _, before, n_actions = self.shape
        if n_states == before:
            return self
        row, successor = np.divmod(self.move_keys, before)
        # Rows lie state by state within each step, so those of later steps move up by what earlier steps gained.
        row = row + row // (before * n_actions) * ((n_states - before) * n_actions)
        made = Counts._of(
            self.stationary,
            with_states(self.visits, n_states),
            with_states(self.answers, n_states),
            with_states(self.starts[None], n_states)[0],
            row * n_states + successor,
            self.move_counts,
            with_states(self.repeats[None], n_states)[0],
        )
        vars(made).update({name: getattr(self, name) for name in _TOTALS})
        return made

    @property
    def contradicted(self) -> IntArray:
        """`[S]`: how often the expert, asked again about a state, did not say what it had said."""
        return self.repeats[:, 1]

    def with_answers(self, answers: IntArray, repeats: IntArray | None = None) -> Counts:
        """The same counts with these answers `[H, S, A]` and repeats `[S, 2]`."""
        told = _checked("answers", answers), _checked("repeats", self.repeats if repeats is None else repeats)
        moves = self.move_keys, self.move_counts
        made = Counts._of(self.stationary, self.visits, told[0], self.starts, *moves, told[1])
        made._check_shapes()
        vars(made).update(samples=self.samples, episodes=self.episodes)
        return made

    def __add__(self, other: Counts) -> Counts:
        if self.shape != other.shape or self.stationary != other.stationary:
            raise InputError(f"counts of shape {list(self.shape)} and {list(other.shape)} cannot be added")
        made = Counts._of(
            self.stationary,
            self.visits + other.visits,
            self.answers + other.answers if other.questions else self.answers,
            self.starts + other.starts,
            *self._moves_with(other.move_keys, other.move_counts),
            self.repeats + other.repeats if other.repeated else self.repeats,
        )
        vars(made).update({name: getattr(self, name) + getattr(other, name) for name in _TOTALS})
        return made

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


_FIELDS = tuple(one.name for one in fields(Counts))
_TOTALS = ("samples", "episodes", "questions", "repeated")


@shared
def _none(shape: tuple[int, ...]) -> IntArray:
    """Nothing was counted."""
    return _kept(np.zeros(shape, dtype=np.int64))


def _kept(array: IntArray) -> IntArray:
    """A new array that nobody else has; made read-only, so that it need not be copied."""
    array.flags.writeable = False
    return array


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
    times: IntArray,
    stationary: bool,
    visits: IntArray,
    keys: IntArray,
) -> bool:
    """Add moves to `visits [H, S, A]` and write their keys; false if one of them is not of that problem."""
    horizon, n_states, n_actions = visits.shape
    for i in range(steps.size):
        step, state, action, successor = steps[i], states[i], actions[i], successors[i]
        met = 0 <= state < n_states and 0 <= successor < n_states
        if not (met and 0 <= step < horizon and 0 <= action < n_actions):
            return False
        visits[step, state, action] += times[i]
        row = state * n_actions + action + (0 if stationary else step * n_states * n_actions)
        keys[i] = row * n_states + successor
    return True


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
    it has answered, to see whether it looks at more than the state.
    """

    deterministic: bool = True
    stationary: bool = False
    least_probability: float | None = None
    ask_again: float = 0.0

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
    def presumed(self) -> bool:
        """Whether it may be presumed to answer as it did elsewhere, until it says otherwise.

        Not if it may be heard to say otherwise where it has answered: then what is presumed would not stand.
        """
        return self.deterministic and self.ask_again == 0

    def given(self, counts: Counts) -> int:
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

    def known_actions(self, answers: IntArray) -> IntArray | None:
        """`[H, S]`: what a deterministic expert is known to do, -1 where it is not; None if it is stochastic."""
        if not self.deterministic:
            return None
        given = answers.sum(axis=0, keepdims=True) if self.stationary else answers
        known = np.where(given.any(axis=2), given.argmax(axis=2), -1)
        return np.repeat(known, len(answers), axis=0) if self.stationary else known


CERTAIN = 2**60
"""As many observations, over all steps of an episode, as are as good as certainty."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the counts say: `P̂`, `π̂ᴱ`, and how much stands behind each; worked out when first asked for.

    Paper, §"Estimating Transition Model and Expert Policy". Differs: a row never visited has no estimate, and an expert
    never asked is not assumed to act in any way.

    `kind` is what is assumed of the expert, `delta` how often what is settled of a stochastic one may be wrong. The
    start `initial [S]` is given where the learner is told it. `terminal` are the states in which episodes that are over
    stay; that needs no observation. `possible_states` is how many states there can be, infinite if nobody can say.
    `preferences` say which of two episodes the expert likes better: they tell of its reward, and of nothing else.
    """

    counts: Counts
    kind: ExpertKind
    delta: float
    initial: FloatArray | None
    terminal: frozenset[int]
    possible_states: float
    preferences: tuple[Preference, ...] = ()

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
    ) -> Estimate:
        """From counts and assumptions; by default there are no states but those of the counts."""
        possible = counts.shape[1] if possible_states is None else possible_states
        return cls(counts, kind, delta, initial, frozenset(terminal), possible, preferences)

    @property
    def start_known(self) -> bool:
        """Whether the learner was told the start."""
        return self.initial is not None

    @cached_property
    def over(self) -> IntArray:
        """The terminal states, in order."""
        return np.array(sorted(self.terminal), dtype=np.int64)

    def continued(self, before: Estimate) -> Estimate:
        """The same estimate, with all that `before` has worked out and that follows from what has not changed since.

        That is what is said of the expert, as long as there is no new answer, and which successors a row has, as long
        as no row has shown a new one.
        """
        counts, counts_before = self.counts, before.counts
        if (self.kind, self.delta, self.possible_states, self.terminal, counts.stationary) == (
            before.kind,
            before.delta,
            before.possible_states,
            before.terminal,
            counts_before.stationary,
        ):
            kept = {"over"}
            if counts.answers is counts_before.answers:
                kept |= _OF_ANSWERS
            if counts.move_keys is counts_before.move_keys and counts.shape == counts_before.shape:
                kept |= _OF_MOVES
            known = vars(before)
            vars(self).update({name: known[name] for name in kept & known.keys()})
        return self

    @cached_property
    def of_answers(self) -> dict[str, Any]:
        """What others have worked out from the answers and the assumptions alone, by name; they may keep it here."""
        return {}

    @cached_property
    def _rows(self) -> tuple[IntArray, IntArray, Transitions]:
        """Where each move and each stay in a terminal state lies in the rows, and the rows with some probabilities."""
        horizon, n_states, n_actions = self.counts.shape
        steps = None if self.counts.stationary else horizon
        keys, over = self.counts.move_keys, self.over
        if len(over) and not 0 <= over[0] <= over[-1] < n_states:
            wrong = over[0] if over[0] < 0 else over[-1]
            raise InputError(f"episodes are said to end in the state {wrong}, not one of 0 to {n_states - 1}")
        moved, staying, indptr, successors, even = _laid_out(keys, over, steps or 1, n_states, n_actions)
        return moved, staying, Transitions(n_states, n_actions, indptr, successors, even, steps)

    @cached_property
    def move_rows(self) -> IntArray:
        """`[moves]`: the row of each of the counted moves."""
        return self.counts.move_keys // self.counts.shape[1]

    @cached_property
    def mdp(self) -> MDP:
        """The estimated process; a row never visited is unknown, and after the end nothing happens any more."""
        counts = self.counts
        moved, staying, transitions = self._rows
        probabilities = np.empty(len(transitions.successors))
        frequencies(transitions.indptr, moved, counts.move_counts, staying, probabilities)
        probabilities.flags.writeable = False
        horizon, estimated = counts.shape[0], transitions.with_probabilities(probabilities, trusted=True)
        if self.initial is not None:
            return MDP(horizon, estimated, self.initial)
        return MDP.trusted(horizon, estimated, counts.starts / max(1, counts.episodes))

    @cached_property
    def step_visits(self) -> IntArray:
        """`[H, S, A]`: observations made at that very step; as good as certain where episodes are over."""
        if not self.terminal:
            return self.counts.visits
        visits = self.counts.visits.copy()
        visits[:, self.over] += CERTAIN // visits.shape[0]
        return visits

    @cached_property
    def row_visits(self) -> IntArray:
        """`[H, S, A]`: observations that stand behind the row of `(h, s, a)`."""
        if not self.counts.stationary:
            return self.step_visits
        return np.broadcast_to(self.step_visits.sum(axis=0), self.counts.shape)

    @cached_property
    def answered(self) -> BoolArray:
        """`[H, S]`: whether an answer of the expert counts there."""
        return np.asarray(self.kind.pooled(self.counts.answers).any(axis=2))

    @cached_property
    def expert_known(self) -> BoolArray:
        """`[H, S]`: whether the actions that the expert uses are known; after the end there is nothing to know."""
        settled = self.kind.settled(self.counts.answers, self.delta, self.possible_states).copy()
        settled[:, self.over] = True
        return settled

    @cached_property
    def expert_policy(self) -> FloatArray:
        """`[H, S, A]`: the answers' frequencies; the commonest answer if the expert is deterministic.

        Uniform where nobody was asked: the choice of largest entropy, and not a claim.
        """
        answers = self.kind.pooled(self.counts.answers)
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
        return self.kind.known_actions(self.counts.answers)

    @cached_property
    def presumed_actions(self) -> IntArray:
        """`[H, S]`: what a deterministic expert is known to do, and elsewhere its commonest answers."""
        known = self.known_actions
        assert known is not None
        return np.where(known < 0, self.common_answers[:-1], known)

    @cached_property
    def common_answers(self) -> IntArray:
        """`[S+1]`: the commonest answer in each state over all steps; where there is none, and in states never met (the
        last entry), the commonest of all. -1 before any answer."""
        by_state = np.vstack((self.counts.answers.sum(axis=0), np.zeros((1, self.counts.shape[2]), dtype=np.int64)))
        overall = by_state.sum(axis=0)
        commonest = np.where(by_state.any(axis=1), by_state.argmax(axis=1), overall.argmax())
        return commonest if overall.any() else np.full(len(by_state), -1)


_OF_ANSWERS = frozenset(
    (
        "answered",
        "expert_known",
        "expert_policy",
        "expert_uses",
        "allowed",
        "known_actions",
        "presumed_actions",
        "common_answers",
        "of_answers",
    )
)
"""What an estimate says that depends on nothing but the answers and the assumptions."""

_OF_MOVES = frozenset(("_rows", "move_rows"))
"""What depends on nothing but which successors were seen of each row."""
