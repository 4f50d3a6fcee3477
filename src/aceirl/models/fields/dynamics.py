"""Dynamics that factor over fields: what an action does to each field, as far as the moves that were seen agree.

An effect changes a field by an amount, or sets it to a value. Each field depends on the action and on as few fields as
leave no two moves that contradict each other; a field whose moves always contradict each other, as in a world of
chance, is not predicted. Episodes end where a few fields have values that only ends had. What follows for rows that
were never tried is a guess: it steers, and is part of no promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.protocols import Moves

MOST_PARENTS = 3
"""A field depends on so many fields at most."""

LEAST_SUPPORT = 30
"""So many moves must have agreed with others before what they agree on is taken elsewhere."""

MOST_STATES = 20_000
"""So many states are imagined at most, with those that were met."""

MOST_SUPPORT = 1_000
"""A row that is predicted counts as so many tries at most."""


@dataclass(frozen=True, eq=False)
class FieldEffect:
    """What actions do to one field: where the fields `parents` have the values of `context [C]`, action included, it
    changes by `amount [C]`, or is set to it if `sets [C]`. `support [C]` is how many moves, of any context, have agreed
    with others and contradicted none; 1 of a context that was met once."""

    parents: tuple[int, ...]
    context: IntArray
    sets: BoolArray
    amount: FloatArray
    support: IntArray


@dataclass(frozen=True, eq=False)
class FieldDynamics:
    """What actions do to the fields of a `table`; `effects` has None for a field that is not predicted."""

    table: FieldTable
    n_actions: int
    effects: tuple[FieldEffect | None, ...]

    @classmethod
    def fitted(cls, table: FieldTable, counts: Counts) -> FieldDynamics:
        """From the moves that were counted, of dynamics that are the same at every step."""
        n_states, n_actions = counts.shape[1:]
        row, after = np.divmod(counts.move_keys, n_states)
        before, action = np.divmod(row % (n_states * n_actions), n_actions)
        inside = table.known[before] & table.known[after]
        before, action, after = before[inside], action[inside], after[inside]
        codes = codes_of(table, table.values[before])
        effects = tuple(
            _effects(table, k, codes, action, n_actions, table.values[before, k], table.values[after, k])
            for k in range(len(table.fields))
        )
        return cls(table, n_actions, effects)

    @property
    def complete(self) -> bool:
        """Whether every field is predicted."""
        return all(one is not None for one in self.effects)

    def after(self, values: FloatArray, actions: IntArray) -> tuple[FloatArray, IntArray]:
        """`(values [n, F], support [n])` after `actions [n]` where the fields have `values [n, F]`; how many moves
        speak for it, 0 where nothing is predicted."""
        codes, found = codes_of(self.table, values), np.full(values.shape, np.nan)
        support = np.where((codes >= 0).all(axis=1), np.iinfo(np.int64).max, 0)
        for k, one in enumerate(self.effects):
            if one is None:
                return found, np.zeros(len(values), dtype=np.int64)
            context = _context(self.table, codes, one.parents, actions, self.n_actions)
            at = np.minimum(np.searchsorted(one.context, context), len(one.context) - 1)
            support = np.minimum(support, np.where(one.context[at] == context, one.support[at], 0))
            found[:, k] = np.where(one.sets[at], one.amount[at], self._moved(k, values[:, k], one.amount[at]))
        support[(codes_of(self.table, found) < 0).any(axis=1)] = 0  # a value that was never met
        return found, support

    def ends(self, values: FloatArray) -> BoolArray:
        """`[n]`: whether episodes end where the fields have these `values [n, F]`."""
        over = np.zeros(len(values), dtype=np.bool_)
        for fields, those in self.table.kinds_of_ends:
            over |= (values[:, list(fields)] == those).all(axis=1)
        return over

    def _moved(self, k: int, values: FloatArray, amount: FloatArray) -> FloatArray:
        if self.table.fields[k].kind != "circular":
            return values + amount
        met = self.table.distinct(k)
        return np.asarray(met[0] + (values - met[0] + amount) % (met[-1] - met[0] + 1))


def codes_of(table: FieldTable, values: FloatArray) -> IntArray:
    """`[n, F]`: the number of each value among those met, -1 if it was never met."""
    codes = np.empty(values.shape, dtype=np.int64)
    for k in range(values.shape[1]):
        met = table.distinct(k)
        at = np.minimum(np.searchsorted(met, values[:, k]), len(met) - 1)
        codes[:, k] = np.where(met[at] == values[:, k], at, -1)
    return codes


def _context(table: FieldTable, codes: IntArray, parents: Sequence[int], actions: IntArray, n_actions: int) -> IntArray:
    """`[n]`: one number for an action and the values of some fields."""
    number = actions.astype(np.int64)
    size = n_actions
    for k in parents:
        number = number + codes[:, k] * size
        size *= len(table.distinct(k))
    return number


def _effects(
    table: FieldTable,
    k: int,
    codes: IntArray,
    actions: IntArray,
    n_actions: int,
    before: FloatArray,
    after: FloatArray,
) -> FieldEffect | None:
    """The effects on field `k`, by as few fields as leave no contradiction and are borne out by enough moves."""
    change = after - before
    kind = table.fields[k].kind
    if kind == "circular":
        met = table.distinct(k)
        change = change % (met[-1] - met[0] + 1)
    elif kind == "categorical":  # it stays, or is set
        change = np.where(change == 0, 0.0, np.inf)
    if not len(change):
        return None
    explained = {True: _commonness(after), False: np.where(np.isinf(change), 0, _commonness(change))}
    for size in range(min(MOST_PARENTS, codes.shape[1]) + 1):
        fitting = []
        for parents in combinations(range(codes.shape[1]), size):
            context = _context(table, codes, parents, actions, n_actions)
            met_contexts, at = np.unique(context, return_inverse=True)
            options = {}
            for sets, target in ((False, change), (True, after)):
                low, high = np.full(len(met_contexts), np.inf), np.full(len(met_contexts), -np.inf)
                np.minimum.at(low, at, target)
                np.maximum.at(high, at, target)
                options[sets] = (low == high) & np.isfinite(low), low
            if (options[True][0] | options[False][0]).all():
                support = np.bincount(at)
                fitting.append((int(support[support > 1].sum()), parents, met_contexts, at, options, support))
        fitting = [one for one in fitting if one[0] >= LEAST_SUPPORT]
        if fitting:
            agreed, parents, met_contexts, at, options, support = max(fitting, key=lambda one: one[0])
            often_set, often_changed = np.zeros((2, len(met_contexts)), dtype=np.int64)
            often_set[at], often_changed[at] = explained[True], explained[False]
            sets = options[True][0] & (~options[False][0] | (often_set > often_changed))
            amount = np.where(sets, options[True][1], options[False][1])
            return FieldEffect(parents, met_contexts, sets, amount, np.where(support > 1, agreed, 1))
    return None


def _commonness(target: FloatArray) -> IntArray:
    """`[n]`: how often each entry occurs."""
    _, at, times = np.unique(target, return_inverse=True, return_counts=True)
    return np.asarray(times[at])


@dataclass(frozen=True, eq=False)
class Imagined:
    """An estimate and its fields with rows and states that were never met but are predicted; those met come first."""

    estimate: Estimate
    table: FieldTable

    @cached_property
    def numbers(self) -> dict[tuple[float, ...], int]:
        """The state of each record of values that is no end."""
        going_on = np.flatnonzero(self.table.known & ~self.table.ends)
        return {tuple(self.table.values[s].tolist()): int(s) for s in going_on}


def imagined(estimate: Estimate, table: FieldTable) -> Imagined | None:
    """The estimate with what the dynamics of fields predict; None if they do not predict every field, or if states are
    not told apart by their fields.

    Each row counts as tried once for each move that speaks for it. Episodes may start with values of fields that were
    met together, and what else starts had.
    """
    counts = estimate.counts
    if not counts.stationary or not counts.samples or not table.fields:
        return None
    dynamics = FieldDynamics.fitted(table, counts)
    n_actions, records = counts.shape[2], Records(table)
    if not dynamics.complete or not records.unique:
        return None
    starts = _starts(table, counts)
    records.numbered(starts, np.zeros(len(starts), dtype=np.bool_), MOST_STATES)
    frontier = np.flatnonzero(~np.isnan(records.values).any(axis=1) & ~records.ends)
    moves: list[tuple[IntArray, IntArray, IntArray, IntArray]] = []
    while len(frontier):
        state, action = np.repeat(frontier, n_actions), np.tile(np.arange(n_actions), len(frontier))
        values, support = dynamics.after(records.values[state], action)
        sure = support > 0
        state, action, values, support = state[sure], action[sure], values[sure], support[sure]
        known_before = records.n_states
        after = records.numbered(values, dynamics.ends(values), MOST_STATES)
        moves.append((state[after >= 0], action[after >= 0], after[after >= 0], support[after >= 0]))
        fresh = np.arange(known_before, records.n_states)
        frontier = fresh[~records.ends[fresh]]
    state, action, after, support = (np.concatenate(column) for column in zip(*moves, strict=True))
    contradicted = _contradicted(counts, state, action, after)
    state, action, after, support = (column[~contradicted] for column in (state, action, after, support))
    fuller = with_moves(estimate, records, state, action, after, np.minimum(support, MOST_SUPPORT))
    return Imagined(fuller, FieldTable(table.fields, records.values, records.ends, table.speaks))


def with_moves(
    estimate: Estimate, records: Records, state: IntArray, action: IntArray, after: IntArray, times: IntArray
) -> Estimate:
    """The estimate of the states that are recorded, with moves that are only imagined, each so many times."""
    before, counts, n_states = len(records.table.values), estimate.counts, records.n_states
    none, steps = np.zeros(n_states, dtype=np.int64), np.zeros(len(state), dtype=np.int64)
    shape = (counts.shape[0], n_states, counts.shape[2])
    more = Counts.of_moves(Moves(steps, state, action, after, times, none), shape)
    initial = estimate.initial
    if initial is not None:
        initial = np.concatenate((initial, np.zeros(n_states - before)))
    return Estimate.of(
        counts.grown(n_states) + more,
        kind=estimate.kind,
        delta=estimate.delta,
        initial=initial,
        terminal=estimate.terminal | set(np.flatnonzero(records.ends).tolist()),
        possible_states=max(estimate.possible_states, n_states),
        preferences=estimate.preferences,
        discount=estimate.discount,
    )


def _starts(table: FieldTable, counts: Counts) -> FloatArray:
    """`[n, F]`: how episodes may start: the values of fields that have few of them as they were met together, and those
    of the others as a start had them."""
    few = table.few
    begun = np.flatnonzero(counts.starts[: len(table.values)] * table.known)
    others = np.setdiff1d(np.arange(len(table.fields)), few)
    together = np.unique(table.values[table.known & ~table.ends][:, few], axis=0)
    ways = np.unique(table.values[begun][:, others], axis=0)
    found = np.empty((len(together) * len(ways), len(table.fields)))
    found[:, few] = np.repeat(together, len(ways), axis=0)
    found[:, others] = np.tile(ways, (len(together), 1))
    return found


def _contradicted(counts: Counts, state: IntArray, action: IntArray, after: IntArray) -> BoolArray:
    """`[n]`: whether such a move was tried and has led elsewhere."""
    n_states, n_actions = counts.shape[1:]
    tried = counts.visited.pooled > 0
    met = state < n_states
    row = np.where(met, state, 0) * n_actions + action
    keys = row * n_states + np.where(after < n_states, after, 0)
    at = np.minimum(np.searchsorted(counts.move_keys, keys), len(counts.move_keys) - 1)
    same = (counts.move_keys[at] == keys) & (after < n_states)
    return np.asarray(met & tried[np.where(met, state, 0), action] & ~same)


class Records:
    """States by the values of their fields; more are numbered as they are imagined."""

    def __init__(self, table: FieldTable) -> None:
        self.table, self.values, self.ends = table, table.values, table.ends
        known = np.flatnonzero(table.known)
        keys = self._keys(table.values[known], table.ends[known])
        order = np.argsort(keys, kind="stable")
        self._sorted, self._states = keys[order], known[order]
        self.unique = len(np.unique(keys)) == len(keys)

    @property
    def n_states(self) -> int:
        """How many there are."""
        return len(self.values)

    def _keys(self, values: FloatArray, ends: BoolArray) -> IntArray:
        codes, key = codes_of(self.table, values), ends.astype(np.int64)
        for k in range(values.shape[1]):
            key = key * len(self.table.distinct(k)) + codes[:, k]
        return key

    def numbered(self, values: FloatArray, ends: BoolArray, most: int) -> IntArray:
        """`[n]`: the states of these records; -1 for one that is new when there are as many as `most`."""
        wanted = self._keys(values, ends)
        new, first = np.unique(wanted[~np.isin(wanted, self._sorted)], return_index=True)
        room = max(0, most - self.n_states)
        fresh = np.flatnonzero(~np.isin(wanted, self._sorted))[first][:room]
        states = np.arange(self.n_states, self.n_states + len(fresh))
        self.values = np.concatenate((self.values, values[fresh]))
        self.ends = np.concatenate((self.ends, ends[fresh]))
        keys, states = np.concatenate((self._sorted, new[:room])), np.concatenate((self._states, states))
        order = np.argsort(keys, kind="stable")
        self._sorted, self._states = keys[order], states[order]
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        return np.where(self._sorted[at] == wanted, self._states[at], -1)
