"""What an observation consists of: named fields, each categorical, ordered or circular, as numbers for all states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from aceirl.errors import InputError, shown
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray

Kind = Literal["categorical", "ordered", "circular"]
Entry = int | float | str
Record = dict[str, Entry]
"""What an observation consists of, by name: numbers have an order, and text has none."""

Given = Sequence[str] | Mapping[str, Kind | Callable[[Any], Entry]] | Callable[[Any], Mapping[str, Entry]]
"""How fields are given by hand: the names of the entries in their order; a kind, or a function of an observation, for
each name; or one function that returns all of them."""

MOST_FIELDS = 8
"""An observation with more entries than this is not told apart by them."""

MOST_OF_AN_END = 3
"""A kind of end is told by so many fields at most."""

MOST_TOGETHER = 1_000
"""So many combinations of values are looked for, at most."""

ALONE = "observation"
"""The field of an observation that is a single number or word."""

PART = ", entry "
"""Between the name of an array and the number of one of its entries."""


def entries(observation: Any) -> Record:
    """The fields of an observation that is made of a few numbers or words; none of any other."""
    match observation:
        case dict():
            named = {str(name): part for name, part in observation.items()}
        case tuple() if hasattr(observation, "_asdict"):
            named = observation._asdict()
        case tuple() | list():
            named = {f"entry {number}": part for number, part in enumerate(observation, start=1)}
        case np.ndarray() if observation.ndim == 1:
            return entries(tuple(observation.tolist()))
        case _ if is_dataclass(observation) and not isinstance(observation, type):
            named = {one.name: getattr(observation, one.name) for one in fields(observation)}
        case _:
            return {}
    found: Record = {}
    for name, part in named.items():
        plain = _plain(part)
        found |= {name: plain} if plain is not None else {f"{name}, {k}": value for k, value in entries(part).items()}
    return found if len(found) <= MOST_FIELDS else {}


def _plain(part: Any) -> Entry | None:
    """A number or a word, as Python has it; None if it is neither."""
    if isinstance(part, str):
        return part
    if np.ndim(part) == 0 and not isinstance(part, dict) and np.isreal(part) and not is_dataclass(part):
        value: Entry = part if isinstance(part, int | float) else np.asarray(part).item()
        return value
    return None


@dataclass(frozen=True)
class Field:
    """A named part of an observation. Of a categorical one, `labels` are its values in the order of their numbers."""

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()

    def value(self, number: float) -> str:
        """What people call the value of that number."""
        return self.labels[int(number)] if self.labels else f"{number:.6g}"

    @property
    def group(self) -> str:
        """The array it is an entry of, else its own name."""
        return self.name.partition(PART)[0]


@dataclass(frozen=True, eq=False)
class FieldTable:
    """The fields of all states: `values [S, F]`, nan for a state that has none, as the padding state.

    Numbers are as they are; words are numbered in the order of the alphabet. `ends [S]` is whether episodes are over.
    """

    fields: tuple[Field, ...]
    values: FloatArray
    ends: BoolArray
    speaks: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(one.name for one in self.fields)

    @cached_property
    def known(self) -> BoolArray:
        """`[S]`: the states that have all fields."""
        return np.asarray(~np.isnan(self.values).any(axis=1))

    @property
    def alone(self) -> bool:
        """Whether there is one field, with an order, that all states have but the padding, each another value of it."""
        if [one.kind for one in self.fields] != ["ordered"] or not (self.known != self.ends).all():
            return False
        return bool(self.ends.sum() <= 1) and len(self.distinct(0)) == int(self.known.sum())

    def distinct(self, field: int) -> FloatArray:
        """The values of a field that were met, in order."""
        return self._distinct[field]

    @cached_property
    def _distinct(self) -> tuple[FloatArray, ...]:
        return tuple(np.unique(column) for column in self.values[self.known].T)

    def numbers(self, record: Mapping[str, Entry]) -> tuple[float, ...] | None:
        """The values of a record of the same fields, as numbers; None if it lacks one, or has a new word."""
        found = []
        for one in self.fields:
            value = record.get(one.name)
            if value is None or (one.labels and _said(value) not in one.labels):
                return None
            found.append(float(one.labels.index(_said(value)) if one.labels else value))
        return tuple(found)

    def n_together(self, fields: tuple[int, ...]) -> int:
        """How many values these fields have together."""
        if fields not in self._n_together:
            self._n_together[fields] = len(np.unique(self.values[self.known][:, list(fields)], axis=0))
        return self._n_together[fields]

    @cached_property
    def _n_together(self) -> dict[tuple[int, ...], int]:
        return {}

    @cached_property
    def kinds_of_ends(self) -> tuple[tuple[tuple[int, ...], FloatArray], ...]:
        """What episodes end with: the values of as few fields as tell ends from other states, each of two ends at
        least."""
        met = self.values[self.known]
        codes = [np.searchsorted(self.distinct(k), column) for k, column in enumerate(met.T)]
        sizes, over = [len(values) for values in self._distinct], self.ends[self.known]
        found: list[tuple[tuple[int, ...], FloatArray]] = []
        left = over.copy()
        for size in range(1, min(MOST_OF_AN_END, len(sizes)) + 1):
            for told_by in combinations(range(len(sizes)), size):
                if left.sum() < 2:
                    return tuple(found)
                number = np.ravel_multi_index([codes[k] for k in told_by], [sizes[k] for k in told_by])
                those, first, times = np.unique(number[left], return_index=True, return_counts=True)
                ends = (times > 1) & ~np.isin(those, number[~over])
                found += [(told_by, values) for values in met[left][first[ends]][:, told_by]]
                left &= ~np.isin(number, those[ends])
        return tuple(found)

    @cached_property
    def few(self) -> IntArray:
        """The fields that have few values: the fewest first, as long as there are at most `MOST_TOGETHER` together."""
        sizes = np.array([len(self.distinct(k)) for k in range(len(self.fields))], dtype=np.float64)
        order = np.argsort(sizes, kind="stable")
        return np.sort(order[np.cumprod(sizes[order]) <= MOST_TOGETHER])

    def met_together(self, n_met: int) -> BoolArray:
        """`[S]`: whether its values of the fields with `few` of them occur together in the first `n_met` states.

        An end tells nothing of others with the same values, unless it is of a kind that these make.
        """
        _, number = np.unique(np.nan_to_num(self.values[:, self.few], nan=-1.0), axis=0, return_inverse=True)
        telling = ~self.known | ~self.ends
        for told_by, values in self.kinds_of_ends:
            if np.isin(told_by, self.few).all():
                telling |= (self.values[:, list(told_by)] == values).all(axis=1)
        return np.isin(number, number[:n_met][telling[:n_met]]) | (np.arange(len(number)) < n_met)


@dataclass(frozen=True, eq=False)
class Fields:
    """How observations are taken apart: `read` returns the record of one, `kinds` says more of the fields than their
    values do. Numbers are ordered, words and truth values categorical, unless said otherwise."""

    read: Callable[[Any], Mapping[str, Entry]]
    kinds: Mapping[str, Kind]
    required: tuple[str, ...] = ()
    """Names that a person gave: an observation without one of them is an error."""
    speaks: bool = True
    """Whether wishes are sought, and said, in these fields."""
    _read_before: dict[int, tuple[Any, Record]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def given(cls, given: Given, known: Callable[[Any], Mapping[str, Entry]] = entries) -> Fields:
        """Fields given by hand, where `known` is what is read of an observation without."""
        if isinstance(given, Fields):
            return given
        if isinstance(given, Mapping):
            functions = {name: how for name, how in given.items() if callable(how)}
            kinds: dict[str, Kind] = {}
            for name, how in given.items():
                if not callable(how) and how not in get_args(Kind):
                    raise InputError(
                        f"fields[{name!r}] is {how!r}; it must be categorical, ordered, circular, or a function of an "
                        "observation"
                    )
                if not callable(how):
                    kinds[name] = how
            return cls(_NamedFields(known, kinds, functions), kinds, tuple(kinds))
        if callable(given):
            return cls(given, {})
        names = tuple(given)
        if not names or not all(isinstance(name, str) for name in names):
            raise InputError(f"fields must be names, a mapping by name, or a function of an observation; got {given!r}")
        return cls(_Renamed(known, names), {}, names)

    def table(self, observations: Sequence[Any], ends: Iterable[int] = ()) -> FieldTable:
        """The fields of states, of each of which an observation is given; None for one that has none."""
        records = [self._record(state, one) for state, one in enumerate(observations)]
        names = list(dict.fromkeys(name for record in records if record for name in record))
        for name in self.required:
            if name not in names and any(records):
                raise InputError(f"there is no field {name!r} in the observations; their fields are {', '.join(names)}")
        found, columns = [], []
        for name in names:
            made, numbers = _column(name, [record.get(name) for record in records], self.kinds.get(name))
            found.append(made)
            columns.append(numbers)
        values = np.array(columns, dtype=np.float64).reshape(len(columns), len(records)).T
        over = np.zeros(len(records), dtype=np.bool_)
        over[sorted(ends)] = True
        return FieldTable(tuple(found), np.ascontiguousarray(values), over, self.speaks)

    def _record(self, state: int, observation: Any) -> Record:
        """The record of a state's observation, read once; states may be numbered anew."""
        known = self._read_before.get(state)
        if known is None or known[0] is not observation:
            known = observation, {} if observation is None else dict(self.read(observation))
            self._read_before[state] = known
        return known[1]


@dataclass(frozen=True)
class _Renamed:
    """The entries of an observation under other names."""

    known: Callable[[Any], Mapping[str, Entry]]
    names: tuple[str, ...]

    def __call__(self, observation: Any) -> dict[str, Entry]:
        alone = _plain(observation)
        values = [alone] if alone is not None else list(self.known(observation).values())
        if len(values) != len(self.names):
            raise InputError(
                f"fields has {len(self.names)} names ({', '.join(self.names)}), and the observation "
                f"{shown(observation)} has {len(values)} entries"
            )
        return {name: value for name, value in zip(self.names, values, strict=True) if value is not None}


@dataclass(frozen=True)
class _NamedFields:
    """The known fields of an observation with further ones; a single number goes by the one name that is given."""

    known: Callable[[Any], Mapping[str, Entry]]
    kinds: Mapping[str, Kind]
    functions: Mapping[str, Callable[[Any], Entry]]

    def __call__(self, observation: Any) -> dict[str, Entry]:
        alone = _plain(observation)
        found = dict(self.known(observation))
        if alone is not None and len(self.kinds) == 1 and set(found) <= {ALONE}:
            found = {next(iter(self.kinds)): alone}
        return found | {name: read(observation) for name, read in self.functions.items()}


def _column(name: str, values: Sequence[Entry | None], kind: Kind | None) -> tuple[Field, FloatArray]:
    """A field and its numbers `[S]`."""
    present = [value for value in values if value is not None]
    words = any(isinstance(value, str) for value in present)
    truths = bool(present) and all(isinstance(value, bool) for value in present)
    found: Kind = kind or ("categorical" if words or truths else "ordered")
    if found != "categorical":
        if words:
            raise InputError(f"fields[{name!r}] is {found}, and has the value {next(iter(present))!r}")
        return Field(name, found), np.array([np.nan if one is None else float(one) for one in values])
    labels = sorted(set(present), key=lambda one: (isinstance(one, str), one))
    number = {label: k for k, label in enumerate(labels)}
    said = tuple(_said(one) for one in labels)
    return Field(name, "categorical", said), np.array([np.nan if one is None else number[one] for one in values])


def _said(label: Entry) -> str:
    return "yes" if label is True else "no" if label is False else f"{label}"
