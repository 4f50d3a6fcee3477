"""Dynamics of fields by chance: by how much the fields change together after an action, wherever it is taken.

A stock falls by a random demand, whatever it was before. So what an action did where it was tried tells what it does
elsewhere, or nearby: the fields change by as much, and stay between the least and the most that they were met with. How
far the rows that were tried agree says how near that has to be, and how many tries it is worth; where they do not,
nothing is predicted. It is a guess, and part of no promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import scipy

from aceirl.models.fields.dynamics import FieldDynamics, Imagined, Records, codes_of, with_moves
from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray

WORTH = np.array([1, 3, 10, 30, 100, 300, 1000])
"""What is predicted of a row counts as so many tries: as many as make the rows that were tried likeliest, each by what
the others say."""

REACH = np.array([np.inf, 1 / 2, 1 / 4, 1 / 8])
"""Those that are so near, as a share of the range of every field; also what makes the rows likeliest, but each is
`NARROWER` times as likely beforehand as the one before."""

NARROWER = 0.05

LEAST_WORTH = 10
"""Rows that agree less predict nothing."""

APART = 0.05
"""How probably a row does something of its own, before anything is seen."""

LEAST_AGREEING = 0.8
"""So many of the rows that were tried, as a share, have to agree; the others are left alone."""

ROUNDS = 100
"""So often the chances are fitted: a move to the least or the most of a field may be one of several changes."""

ROUNDING = 1e-9
"""Changes, and values, that differ by less, as a share of the range of a field, are the same."""

LEAST_KNOWN = 0.9
"""A row is predicted if states that were met hold at least so much of its chance."""

MOST_STATES, MOST_ENTRIES = 1_000, 200_000
"""Of more states, or more changes of all actions in all of them, nothing is predicted."""


def imagined_by_chance(estimate: Estimate, table: FieldTable) -> Imagined | None:
    """The estimate with what is predicted of all rows but those that speak against it; None if nothing is.

    All fields are numbers that have an order, and tell states, and ends, apart. States that were not met are not
    imagined.
    """
    counts, records = estimate.counts, Records(table)
    n_states, n_actions = counts.shape[1:]
    ordered = bool(table.fields) and all(one.kind == "ordered" for one in table.fields)
    if not ordered or not records.unique or not counts.stationary or not counts.samples:
        return None
    if (_ends(table, table.values) != table.ends)[table.known].any() or _same_but_for_rounding(table):
        return None
    row, after = np.divmod(counts.move_keys, n_states)
    before, action = np.divmod(row, n_actions)
    inside = table.known[before] & table.known[after]
    before, action, after, times = before[inside], action[inside], after[inside], counts.move_counts[inside]
    going_on = np.flatnonzero(table.known & ~table.ends)
    step = ROUNDING * _range(table)
    change = np.rint((table.values[after] - table.values[before]) / step) * step
    changes = {int(a): np.unique(change[action == a], axis=0) for a in np.unique(action)}
    entries = len(going_on) * sum(map(len, changes.values()))
    if len(going_on) > MOST_STATES or entries > MOST_ENTRIES:
        return None

    def fitted(a: int, kept: BoolArray) -> _Effect:
        mine = (action == a) & kept
        return _Effect.fitted(records, a, changes[a], before[mine], after[mine], times[mine])

    effects = [fitted(a, np.ones(len(before), dtype=np.bool_)) for a in changes]
    compared = [one for one in effects if len(one.tried) > 1]
    likely = np.sum([one.log_likelihood for one in compared], axis=0) + log(NARROWER) * np.arange(len(REACH))[:, None]
    best = np.unravel_index(likely.argmax(), likely.shape)
    reach, worth = float(REACH[best[0]]), int(WORTH[best[1]])
    against = {one.action: one.against(best) for one in compared}
    agree = {one.action: len(one.tried) - len(against[one.action]) for one in compared}
    if sum(agree.values()) < LEAST_AGREEING * sum(len(one.tried) for one in compared) or worth < LEAST_WORTH:
        return None
    moves = [
        fitted(a, ~np.isin(before, own)).moves(records, np.setdiff1d(going_on, own), reach, worth)
        for a, own in against.items()
        if agree[a] > 1
    ]
    state, act, there, number = (np.concatenate(column) for column in zip(*moves, strict=True))
    return Imagined(with_moves(estimate, records, state, act, there, number), table) if len(state) else None


@dataclass(frozen=True, eq=False)
class _Effect:
    """What an action does: in the states `tried [m]` the fields changed by `changes [n, F]`, each so often as `times
    [m, n]` says, as far as that can be told.

    The rows of these states are so likely: by what the others that are near say, `shared [REACH, WORTH, m]`, and each
    by itself, `apart [m]`; the logs.
    """

    action: int
    changes: FloatArray
    tried: IntArray
    times: FloatArray
    shared: FloatArray
    apart: FloatArray

    @classmethod
    def fitted(
        cls, records: Records, action: int, changes: FloatArray, before: IntArray, after: IntArray, times: IntArray
    ) -> _Effect:
        """From moves between states, each of which happened so many times."""
        tried, row = np.unique(before, return_inverse=True)
        cells, cell, width = _cells(records, tried, changes)
        row_of, seen = cells // width, np.zeros(len(cells))
        seen[np.searchsorted(cells, row * width + after)] = times

        own, chances = np.zeros(cell.shape), np.full(len(changes), 1 / len(changes))
        for _ in range(ROUNDS):
            own = chances * (seen / np.maximum(_summed(cell, chances, cells), np.finfo(float).tiny))[cell]
            chances = own.sum(axis=0) / max(1.0, seen.sum())
        shared, apart_from = np.empty((len(REACH), len(WORTH), len(tried))), _distances(records, tried, tried)
        for k, reach in enumerate(REACH):
            others = (apart_from <= reach) @ own - own + 0.5 / len(changes)
            expected = _summed(cell, others / others.sum(axis=1, keepdims=True), cells)
            shared[k] = [_log_likelihood(worth * expected, seen, row_of) for worth in WORTH]
        apart = _log_likelihood(1 / np.bincount(row_of)[row_of], seen, row_of)
        return cls(action, changes, tried, own, shared, apart)

    @property
    def log_likelihood(self) -> FloatArray:
        """`[REACH, WORTH]`: how likely all rows are, each with `APART` by itself."""
        return np.asarray(np.logaddexp(log(1 - APART) + self.shared, log(APART) + self.apart).sum(axis=2))

    def against(self, best: tuple[np.intp, ...]) -> IntArray:
        """The states in which what was seen is likelier by itself."""
        return np.asarray(self.tried[log(1 - APART) + self.shared[best] < log(APART) + self.apart])

    def moves(
        self, records: Records, states: IntArray, reach: float, worth: int
    ) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """`(states, actions, successors, times)`: what it does in states, as if it had been tried so often there."""
        others = (_distances(records, states, self.tried) <= reach) & (states[:, None] != self.tried)
        near = others @ self.times
        support = near.sum(axis=1)
        cells, cell, width = _cells(records, states, self.changes)
        chance = _summed(cell, near / np.maximum(support, np.finfo(float).tiny)[:, None], cells)
        row, there = np.divmod(cells, width)
        met = there < width - 1
        known = np.bincount(row[met], chance[met], len(states)) >= LEAST_KNOWN
        times = _whole(chance * np.minimum(worth, support)[row], row)
        kept = met & known[row] & (times > 0)
        return states[row[kept]], np.full(int(kept.sum()), self.action), there[kept], times[kept]


def _distances(records: Records, states: IntArray, others: IntArray) -> FloatArray:
    """`[n, m]`: how far states are from others, as a share of the range of the field in which they differ most."""
    values = records.table.values / _range(records.table)
    return np.asarray(np.abs(values[states][:, None] - values[others]).max(axis=2))


def _range(table: FieldTable) -> FloatArray:
    """`[F]`: how far apart the values of a field lie; 1 if all are the same."""
    found = np.ptp(table.values[table.known], axis=0)
    return np.where(found > 0, found, 1.0)


def _whole(times: FloatArray, row: IntArray) -> IntArray:
    """Whole numbers instead of `times`: in each row those that are nearest and have the same sum, rounded."""
    whole = np.floor(times + ROUNDING).astype(np.int64)
    missing = np.rint(np.bincount(row, times) - ROUNDING).astype(np.int64) - np.bincount(row, whole).astype(np.int64)
    order = np.lexsort((np.round(whole - times, 6), row))
    place = np.arange(len(row)) - np.searchsorted(row[order], row[order])
    whole[order[place < missing[row[order]]]] += 1
    return whole


def _cells(records: Records, states: IntArray, changes: FloatArray) -> tuple[IntArray, IntArray, int]:
    """`(cells, cell [n, changes], width)`: where changes lead from states `[n]`, as pairs of which state it is from and
    where to, written as one number each, and which of them each change is. The last of `width` places to go to is any
    that was not met."""
    table, n_states = records.table, len(records.table.values)
    met = table.values[table.known]
    values = np.clip(table.values[states][:, None] + changes, met.min(axis=0), met.max(axis=0))
    values = _as_met(table, values.reshape(-1, values.shape[2]))
    found = records.numbered(values, _ends(table, values), most=n_states)
    unmet = (found < 0) | (codes_of(table, values) < 0).any(axis=1)
    leads = np.where(unmet, n_states, found).reshape(len(states), len(changes))
    cells, cell = np.unique(np.arange(len(states))[:, None] * (n_states + 1) + leads, return_inverse=True)
    return cells, np.asarray(cell.reshape(leads.shape)), n_states + 1


def _same_but_for_rounding(table: FieldTable) -> bool:
    """Whether two values of a field that were met are."""
    gaps = [np.diff(table.distinct(k)).min(initial=np.inf) for k in range(len(table.fields))]
    return bool((gaps <= 8 * ROUNDING * _range(table)).any())


def _as_met(table: FieldTable, values: FloatArray) -> FloatArray:
    """Values `[n, F]`, those that were met where they differ by rounding alone."""
    for k, tolerance in enumerate(4 * ROUNDING * _range(table)):
        met = table.distinct(k)
        nearest = met[np.minimum(np.searchsorted(met, values[:, k] - tolerance), len(met) - 1)]
        values[:, k] = np.where(np.abs(nearest - values[:, k]) <= tolerance, nearest, values[:, k])
    return values


def _summed(cell: IntArray, weights: FloatArray, cells: IntArray) -> FloatArray:
    """`[cells]`: the weights of changes `[n, changes]`, or the same in all rows, by where they lead."""
    return np.asarray(np.bincount(cell.ravel(), np.broadcast_to(weights, cell.shape).ravel(), len(cells)), np.float64)


def _ends(table: FieldTable, values: FloatArray) -> BoolArray:
    """`[n]`: whether episodes end where the fields have these values `[n, F]`."""
    return FieldDynamics(table, 0, ()).ends(values)


def _log_likelihood(weights: FloatArray, seen: FloatArray, row: IntArray) -> FloatArray:
    """`[rows]`: how likely is what was `seen` where the chances of each row have such Dirichlet weights."""
    whole, tries = np.bincount(row, weights), np.bincount(row, seen)
    of_cells = scipy.special.gammaln(weights + seen) - scipy.special.gammaln(weights)
    found: FloatArray = scipy.special.gammaln(whole) - scipy.special.gammaln(whole + tries) + np.bincount(row, of_cells)
    return found
