"""Fewer fields: those that are enough to say where actions lead and what the expert answers.

A battery that runs down whatever is done makes many states of one place. Where nothing happens by chance, a field
changes by itself, and no move and no answer depends on it as far as was seen, states that differ in it alone are one
state: an action that was tried in one of them was tried in all, and an answer given in one holds in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from aceirl.models.fields.dynamics import LEAST_SUPPORT
from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.counts import Counts, StepCounts
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.protocols import Moves

FEW = 300
"""Of so many states none are made one: they are few enough."""

MOST_FIELDS = 8
"""Of more fields no part is tried."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """An estimate in fewer states, and their `table`, in which fields that are not `kept` have one value everywhere.

    `numbers [S]` are which of them the states of the run are.
    """

    estimate: Estimate
    table: FieldTable
    kept: tuple[int, ...]
    numbers: IntArray

    @cached_property
    def first(self) -> IntArray:
        """The state of the run that was met first of those that each of them is."""
        return np.unique(self.numbers, return_index=True)[1]

    def found(self, values: FloatArray, ends: BoolArray) -> IntArray:
        """`[n]`: which of them have these `values [n, F]` of the fields, and are ends or not; -1 if none."""
        kept, known = list(self.kept), self.table.known
        records = zip(map(tuple, self.table.values[:, kept].tolist()), self.table.ends.tolist(), strict=True)
        number = {record: k for k, record in enumerate(records) if known[k]}
        wanted: Sequence[tuple[float, ...]] = list(map(tuple, values[:, kept].tolist()))
        return np.array([number.get(one, -1) for one in zip(wanted, ends.tolist(), strict=True)], dtype=np.int64)


def reduced(estimate: Estimate, table: FieldTable) -> Reduced | None:
    """The estimate in the fewest states that fields make; None if that is not half as many."""
    kind, n_fields = estimate.kind, len(table.fields)
    says_one_thing = kind.deterministic and kind.stationary and not estimate.preferences
    too_little = estimate.counts.questions < LEAST_SUPPORT or n_fields > MOST_FIELDS
    if not says_one_thing or not estimate.counts.stationary or too_little:
        return None
    for size in range(1, n_fields):
        parts = [(kept, _numbers(table, kept)) for kept in combinations(range(n_fields), size)]
        for kept, numbers in sorted(parts, key=lambda part: int(part[1].max())):
            if _is_enough(estimate.counts, numbers) and _is_left_alone(estimate.counts, table, kept):
                return Reduced(_merged(estimate, numbers), _fewer(table, kept, numbers), kept, numbers)
    return None


def _numbers(table: FieldTable, kept: tuple[int, ...]) -> IntArray:
    """`[S]`: the states by the fields that are kept, and by whether they are ends, numbered as they were met."""
    key = 2 * table.known.astype(np.int64) + table.ends
    for k in kept:
        met = table.distinct(k)
        key = key * (len(met) + 1) + np.where(table.known, np.searchsorted(met, table.values[:, k]), len(met))
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[number])


def _is_enough(counts: Counts, numbers: IntArray) -> bool:
    """Whether each action that was tried leads to one state, each state has one answer, and enough of them agree."""
    horizon, n_states, n_actions = counts.shape
    n_fewer = int(numbers.max()) + 1
    state, action = np.divmod(counts.given.keys // horizon, n_actions)
    answers = np.unique(numbers[state] * n_actions + action)
    answered = len(np.unique(answers // n_actions))
    agreed = len(np.unique(state)) - answered
    if 2 * n_fewer > n_states or answered < len(answers) or agreed < LEAST_SUPPORT:
        return False
    before, action, after = _moves(counts)
    rows = numbers[before] * n_actions + action
    return len(np.unique(rows)) == len(np.unique(rows * n_fewer + numbers[after]))


def _is_left_alone(counts: Counts, table: FieldTable, kept: tuple[int, ...]) -> bool:
    """Whether the fields that are not kept change by themselves: what nobody can change tells of no wish."""
    others = [k for k in range(len(table.fields)) if k not in kept]
    number = np.unique(np.nan_to_num(table.values[:, others]), axis=0, return_inverse=True)[1].ravel()
    before, _, after = _moves(counts)
    inside = table.known[before] & table.known[after]
    here, there = number[before[inside]], number[after[inside]]
    return len(np.unique(here)) == len(np.unique(here * len(number) + there))


def _moves(counts: Counts) -> tuple[IntArray, IntArray, IntArray]:
    """The state, the action and the successor of each move that was seen."""
    row, after = np.divmod(counts.move_keys, counts.shape[1])
    before, action = np.divmod(row, counts.shape[2])
    return before, action, after


def _merged(estimate: Estimate, numbers: IntArray) -> Estimate:
    """The estimate of the fewer states, of which each state has one of the `numbers [S]`."""
    counts, initial = estimate.counts, estimate.initial
    horizon, _, n_actions = counts.shape
    shape = (horizon, int(numbers.max()) + 1, n_actions)
    before, action, after = _moves(counts)
    starts = np.bincount(numbers, weights=counts.starts).astype(np.int64)
    moves = Moves(np.zeros_like(action), numbers[before], action, numbers[after], counts.move_counts, starts)
    row, step = np.divmod(counts.given.keys, horizon)
    answers = np.repeat(np.column_stack((step, numbers[row // n_actions], row % n_actions)), counts.given.times, axis=0)
    return Estimate.of(
        replace(Counts.of_moves(moves, shape), given=StepCounts.at(shape, *answers.T)),
        kind=estimate.kind,
        delta=estimate.delta,
        initial=None if initial is None else np.bincount(numbers, weights=initial).astype(np.float64),
        terminal=set(numbers[estimate.terminal_states].tolist()),
        discount=estimate.discount,
    )


def _fewer(table: FieldTable, kept: tuple[int, ...], numbers: IntArray) -> FieldTable:
    """The fields of the fewer states; those that are not kept have the value that was met first."""
    first = np.unique(numbers, return_index=True)[1]
    values, known = table.values[first].copy(), table.known[first]
    for k in set(range(len(table.fields))) - set(kept):
        values[known, k] = table.distinct(k)[0]
    return FieldTable(table.fields, values, table.ends[first], table.speaks)
