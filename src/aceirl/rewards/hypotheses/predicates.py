"""The grammar of wishes in fields: places given by conditions on fields, and kinds of ends by the last observation.

A condition is that a field has a value, or one of a range; a predicate is up to three of them, of all states or of
those in which episodes end. Two predicates that hold in the same states say the same, and the simpler one is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import log

import numpy as np

from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.mdp import BoolArray, FloatArray

MOST_VALUES = 60
"""A field with more values than this has no single ones that are tried."""

MOST_CONDITIONS = 3


@dataclass(frozen=True, order=True)
class FieldCondition:
    """The field of that number is from `low` to `high`, both included."""

    field: int
    low: float
    high: float


@dataclass(frozen=True, order=True)
class Predicate:
    """All `conditions` hold and, if it is of `ends`, the episode is over. `log_prior` is its weight beforehand."""

    conditions: tuple[FieldCondition, ...] = ()
    ends: bool = False
    log_prior: float = field(default=0.0, compare=False)

    def holds(self, table: FieldTable) -> BoolArray:
        """`[S]`: the states in which it holds."""
        found = table.known & (table.ends if self.ends else True)
        for one in self.conditions:
            column = table.values[:, one.field]
            found = found & (column >= one.low) & (column <= one.high)
        return np.asarray(found)

    def within(self, other: Predicate) -> bool:
        """Whether the other says the same of the same fields, or leaves more values to some."""
        fields = [one.field for one in self.conditions]
        return (
            self.ends == other.ends
            and fields == [one.field for one in other.conditions]
            and all(b.low <= a.low and a.high <= b.high for a, b in zip(self.conditions, other.conditions, strict=True))
        )

    @property
    def ranged(self) -> tuple[int, ...]:
        """The fields that have a range, not a value."""
        return tuple(one.field for one in self.conditions if one.low < one.high)

    def words(self, table: FieldTable) -> str:
        """The same as people read it: "carrying = 1 and position = (10, 1)", "stock from 5 to 8"."""
        said, conditions = [], list(self.conditions)
        groups = [table.fields[one.field].group for one in conditions]
        while conditions:
            together = [k for k, group in enumerate(groups) if group == groups[0]]
            whole = sum(one.group == groups[0] for one in table.fields)
            single = all(conditions[k].low == conditions[k].high for k in together)
            if len(together) > 1 and len(together) == whole and single:
                values = ", ".join(self._value(table, conditions[k]) for k in together)
                said.append(f"{groups[0]} = ({values})")
            else:
                together = [0]
                said.append(_condition(table, conditions[0]))
            conditions = [one for k, one in enumerate(conditions) if k not in together]
            groups = [one for k, one in enumerate(groups) if k not in together]
        where = " and ".join(said)
        if not self.ends:
            return where
        return f"an end with {where}" if where else "any end"

    @staticmethod
    def _value(table: FieldTable, condition: FieldCondition) -> str:
        return table.fields[condition.field].value(condition.low)


def _condition(table: FieldTable, one: FieldCondition) -> str:
    own, met = table.fields[one.field], table.distinct(one.field)
    if one.low == one.high:
        return f"{own.name} = {own.value(one.low)}"
    if one.low <= met[0]:
        return f"{own.name} at most {own.value(one.high)}"
    if one.high >= met[-1]:
        return f"{own.name} at least {own.value(one.low)}"
    return f"{own.name} from {own.value(one.low)} to {own.value(one.high)}"


@dataclass(frozen=True, eq=False)
class Grammar:
    """The predicates over the fields of states that were `met [S]`.

    Of an ordered field with more than `most_cuts` values, so many are tried as the ends of a range. Of two fields with
    more than `most_pairs` pairs of values, no pair is tried before one of the two values has proved good. What holds in
    fewer than `least_states` is none: one state is a place.
    """

    table: FieldTable
    met: BoolArray
    most_cuts: int = 32
    most_pairs: int = 400
    least_states: int = 2

    @cached_property
    def simple(self) -> tuple[Predicate, ...]:
        """Those of one field, and of two single values; of all states and, where there are ends, of those alone."""
        return tuple(self._distinct(self._listed(), {}))

    @cached_property
    def extents(self) -> dict[bytes, Predicate]:
        """The predicate of each set of states that was listed."""
        return {self.extent(one).tobytes(): one for one in self.simple}

    @cached_property
    def of_states(self) -> list[Predicate]:
        """Those with all values of a state that is no end; none if that is more than a wish may have."""
        varied = [k for k in range(len(self.table.fields)) if len(self.table.distinct(k)) > 1]
        if len(varied) > MOST_CONDITIONS:
            return []
        values = np.unique(self.table.values[self.met & self.table.known & ~self.table.ends][:, varied], axis=0)
        named = (zip(varied, one, one, strict=True) for one in values.tolist())
        return [self._made([FieldCondition(*condition) for condition in one], False) for one in named]

    def extent(self, predicate: Predicate) -> BoolArray:
        """`[S]`: the states met in which it holds."""
        return predicate.holds(self.table) & self.met

    def refined(self, predicate: Predicate) -> list[Predicate]:
        """The same with one more condition, a single value of another field; in fewer words if there are such."""
        if len(predicate.conditions) >= MOST_CONDITIONS:
            return []
        taken = {one.field for one in predicate.conditions}
        more = (
            self._made((*predicate.conditions, one), predicate.ends)
            for k in range(len(self.table.fields))
            if k not in taken
            for one in self._values(k, self.extent(predicate))
        )
        return [self.extents.get(self.extent(one).tobytes(), one) for one in self._distinct(more, {})]

    def moved(self, predicate: Predicate) -> list[Predicate]:
        """The same with one end of a condition on a field that is not categorical at the next value that was met; of
        one field alone all ranges are among the simple ones."""
        conditions, found = predicate.conditions, []
        for k, one in enumerate(conditions if len(conditions) > 1 else ()):
            met = self.table.distinct(one.field)
            low, high = np.searchsorted(met, (one.low, one.high)).tolist()
            ends = ((low - 1, high), (low, high + 1), (low + 1, high), (low, high - 1))
            for a, b in ends if self.table.fields[one.field].kind != "categorical" else ():
                if 0 <= a <= b < len(met):
                    other = FieldCondition(one.field, float(met[a]), float(met[b]))
                    found.append(self._made((*conditions[:k], other, *conditions[k + 1 :]), predicate.ends))
        return list(self._distinct(iter(found), dict.fromkeys(self.extents)))

    def at(self, state: int) -> Predicate:
        """The place itself: all fields have the values that they have there."""
        values = self.table.values[state].tolist()
        return self._made([FieldCondition(k, one, one) for k, one in enumerate(values)], bool(self.table.ends[state]))

    def others(self, predicate: Predicate) -> list[Predicate]:
        """The range of all other values of a predicate's field, if it holds up to the least or the most of them."""
        (one,) = predicate.conditions
        met = self.table.distinct(one.field)
        below, above = met[met < one.low], met[met > one.high]
        return [
            self._made((FieldCondition(one.field, float(rest[0]), float(rest[-1])),), False)
            for rest, none in ((below, above), (above, below))
            if len(rest) and not len(none)
        ]

    def narrower(self, predicate: Predicate) -> list[Predicate]:
        """The same with one more condition, a single value of another field; even if it holds in one of the states, or
        in all of them, because only one value was met there."""
        where, taken = self.extent(predicate), {one.field for one in predicate.conditions}
        if len(taken) >= MOST_CONDITIONS:
            return []
        fields = (k for k in range(len(self.table.fields)) if k not in taken and len(self.table.distinct(k)) > 1)
        return [
            self._made((*predicate.conditions, FieldCondition(k, value, value)), predicate.ends)
            for k in fields
            for value in self._met(k, where).tolist()[:MOST_VALUES]
        ]

    def both(self, predicate: Predicate, others: Iterable[Predicate]) -> list[Predicate]:
        """Where it holds and another one too, of those that are about other fields."""
        taken = {one.field for one in predicate.conditions}
        further = [one.conditions for one in others if one.ends == predicate.ends]
        return [
            self._made((*predicate.conditions, *more), predicate.ends)
            for more in further
            if 0 < len(more) <= MOST_CONDITIONS - len(taken) and taken.isdisjoint(one.field for one in more)
        ]

    def _listed(self) -> Iterator[Predicate]:
        over = self.met & self.table.ends
        numbers = range(len(self.table.fields))
        both = ((True, over), (False, self.met)) if over.sum() > 1 else ((False, self.met),)
        if over.sum() > 1:
            yield self._made((), True)
            yield from self.kinds_of_ends
        groups = [one.group for one in self.table.fields]
        pairs = sorted(combinations(numbers, 2), key=lambda pair: groups[pair[0]] != groups[pair[1]])
        together = [pair for pair in pairs if groups[pair[0]] == groups[pair[1]]]
        for ends, where in both:
            for k in numbers:
                yield from (self._made((one,), ends) for one in self._values(k, where))
            for pair in together:
                yield from (self._made(both_values, ends) for both_values in self._pairs(*pair, where))
        for ends, where in both:
            for k in numbers:
                yield from (self._made((one,), ends) for one in self._ranges(k, where))
        for ends, where in both:
            for pair in pairs[len(together) :]:
                yield from (self._made(both_values, ends) for both_values in self._pairs(*pair, where))

    @cached_property
    def kinds_of_ends(self) -> tuple[Predicate, ...]:
        """What episodes end with; each of them is as likely beforehand."""
        prior = -log(4 * max(1, len(self.table.kinds_of_ends)))
        return tuple(
            Predicate(tuple(FieldCondition(k, v, v) for k, v in zip(fields, values.tolist(), strict=True)), True, prior)
            for fields, values in self.table.kinds_of_ends
        )

    def _distinct(self, predicates: Iterator[Predicate], seen: dict[bytes, None]) -> Iterator[Predicate]:
        """The first of those that hold in the same states; none that hold in too few states, or in all."""
        everywhere = int((self.met & self.table.known).sum())
        for one in predicates:
            extent = self.extent(one)
            key, size = extent.tobytes(), int(extent.sum())
            if self.least_states <= size < everywhere and key not in seen:
                seen[key] = None
                yield one

    def _pairs(self, first: int, second: int, where: BoolArray) -> list[tuple[FieldCondition, FieldCondition]]:
        """The pairs of values that were met, those of most states first; none if there are too many."""
        if not (self._values(first, where) and self._values(second, where)):
            return []
        values = self.table.values[where & self.table.known][:, [first, second]]
        found, times = np.unique(values, axis=0, return_counts=True)
        if len(found) > self.most_pairs:
            return []
        order = np.argsort(-times, kind="stable")
        return [(FieldCondition(first, a, a), FieldCondition(second, b, b)) for a, b in found[order].tolist()]

    def _values(self, k: int, where: BoolArray) -> list[FieldCondition]:
        found = self._met(k, where)
        return [FieldCondition(k, float(v), float(v)) for v in found] if 2 <= len(found) <= MOST_VALUES else []

    def _ranges(self, k: int, where: BoolArray) -> list[FieldCondition]:
        if self.table.fields[k].kind == "categorical":
            return []
        found = self._met(k, where)
        if len(found) < 3:
            return []
        few = np.linspace(0, len(found) - 1, min(len(found), self.most_cuts)).round().astype(int)
        return [FieldCondition(k, float(a), float(b)) for a, b in combinations(found[few], 2)]

    def _met(self, k: int, where: BoolArray) -> FloatArray:
        return np.unique(self.table.values[where & self.table.known, k])

    def _made(self, conditions: Sequence[FieldCondition], ends: bool) -> Predicate:
        """A predicate with its weight beforehand; the entries of one array are chosen together. Of a field that is
        alone any range is as likely as any other, also one of a single value."""
        prior = log(0.5) if ends else 0.0
        table, left = self.table, list(conditions)
        for group in {table.fields[one.field].group for one in conditions}:
            own = [one for one in conditions if table.fields[one.field].group == group and one.low == one.high]
            if len(own) > 1:
                columns = [one.field for one in own]
                prior -= log(len(table.fields) * table.n_together(tuple(columns)))
                left = [one for one in left if one not in own]
        for one in left:
            values = len(self.table.distinct(one.field))
            choices = values if one.low == one.high else values * (values - 1) / 2
            if table.alone:
                choices = values * (values + 1) / 2
            prior -= log(len(self.table.fields) * max(2.0, choices))
        return Predicate(tuple(sorted(conditions)), ends, prior)
