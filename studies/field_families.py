"""Families of tasks whose observations have fields: maps drawn at random, and wishes in two fields drawn at random.

In some of them the expert has an order of its own among what is equally good, or errs, or has a habit where actions
have no effect. Families, sizes and the rule by which a sentence counts as true were fixed before anything was measured
on them. Seeds below `FRESH` of `studies.families` were looked at while the software was built; those from there on were
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from aceirl.models.fields.table import FieldTable
from aceirl.rewards.hypotheses import Named, Predicate, Wish

Record = tuple[int, ...]
Move = Callable[[Record, int], tuple[Record, bool]]
Habit = Callable[[Record], int | None]
Draw = np.random.Generator

STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))
PATIENCE = 0.97
"""The discount of the expert, who does not look at the step."""


@dataclass(frozen=True, eq=False)
class FieldCase:
    """A world of records, and a wish: `paid` are the fields with the first and the last value that are paid for.

    `sizes` are the names of the fields, each with how many values it has; `move` is where an action leads and whether
    the episode is over. Of `ends` arriving is paid for, else every step that begins there; a step costs `step_cost`. Of
    equally good actions the expert takes the first, in its `order` if it has one; what it does `instead`, wherever that
    is not None, nobody wants. Without anything `paid` no claim is true.
    """

    sizes: Mapping[str, int]
    starts: tuple[Record, ...]
    n_actions: int
    move: Move
    paid: Mapping[str, tuple[int, int]]
    ends: bool
    horizon: int
    step_cost: float = 0.0
    order: Sequence[int] = ()
    instead: Habit = lambda record: None

    @cached_property
    def records(self) -> list[tuple[Record, bool]]:
        """All that can be reached, with whether the episode is over."""
        found = dict.fromkeys((start, False) for start in self.starts)
        left = list(found)
        while left:
            record, over = left.pop()
            for action in () if over else range(self.n_actions):
                after = self.move(record, action)
                if after not in found:
                    found[after] = None
                    left.append(after)
        return list(found)

    def pays(self, record: Record, over: bool) -> bool:
        """Whether the wish is fulfilled there."""
        inside = all(low <= record[list(self.sizes).index(name)] <= high for name, (low, high) in self.paid.items())
        return inside and (over or not self.ends)

    @cached_property
    def _worth(self) -> dict[Record, float]:
        going_on = [record for record, over in self.records if not over]
        number = {record: i for i, record in enumerate(going_on)}
        here = np.array([0.0 if self.ends else float(self.pays(record, False)) for record in going_on])
        moves = [[self.move(record, action) for action in range(self.n_actions)] for record in going_on]
        after = np.array([[number.get(there, 0) for there, _ in row] for row in moves])
        over = np.array([[over for _, over in row] for row in moves])
        last = np.array([[float(over and self.pays(there, over)) for there, over in row] for row in moves])
        value = np.zeros(len(going_on))
        for _ in range(400):
            value = (here[:, None] - self.step_cost + last + PATIENCE * np.where(over, 0.0, value[after])).max(axis=1)
        return dict(zip(going_on, value.tolist(), strict=True))

    def quality(self, record: Record, action: int) -> float:
        """What an action is worth to the expert."""
        here = (float(self.pays(record, False)) if not self.ends else 0.0) - self.step_cost
        after, over = self.move(record, action)
        return here + (float(self.pays(after, True)) if over else PATIENCE * self._worth[after])

    def expert(self, seen: Any) -> int:
        """What is best, or what it does instead."""
        record = tuple(int(seen[name]) for name in self.sizes)
        instead = self.instead(record)
        if instead is not None:
            return instead
        return max(self.order or range(self.n_actions), key=lambda action: round(self.quality(record, action), 9))

    def fulfilled_from(self, start: Record) -> bool:
        """Whether the expert gets what it wants from there."""
        record, over = start, False
        for _ in range(self.horizon):
            if over or self.pays(record, over):
                break
            record, over = self.move(record, self.expert(dict(zip(self.sizes, record, strict=True))))
        return self.pays(record, over)

    @property
    def can_be_had(self) -> bool:
        """Whether the wish is fulfilled from four starts of five, and at the start in fewer than three of ten; or there
        is none."""
        if not self.paid:
            return True
        begun = float(np.mean([self.pays(start, False) for start in self.starts]))
        return begun < 0.3 and float(np.mean([self.fulfilled_from(start) for start in self.starts])) >= 0.8

    def is_true(self, one: Named, table: FieldTable) -> bool:
        """Whether a claim is true.

        What is wanted must hold where the wish is fulfilled and nowhere else, among all that can be reached. Of a range
        the fields must be the right ones, what is wanted must be inside the widest range that is named, and a field
        that is said to be in a range, not only perhaps, must be wanted in one. What is avoided are ends at which the
        wish is not fulfilled, or all places where it is not.
        """
        if not self.paid:
            return False
        if one.claim.what == "hurry":
            return self.step_cost > 0
        fulfilled = np.array([self.pays(record, over) for record, over in self.records])
        if one.claim.what == "wants":
            return [self.records[i][0] for i in np.flatnonzero(fulfilled)] == [self._record(one.claim.where, table)]
        if one.claim.what != "features" or one.predicate is None or one.widest is None:
            return False
        held = self._held(one.predicate, table)
        if one.claim.fields.startswith("avoids"):
            return (
                not (held & fulfilled).any() if self.ends and one.predicate.ends else bool((held == ~fulfilled).all())
            )
        if (held == fulfilled).all():
            return True
        sure, perhaps = ({table.names[k] for k in which.ranged} for which in (one.predicate, one.widest))
        truly = {name for name, (low, high) in self.paid.items() if low < high}
        right_fields = {table.names[c.field] for c in one.predicate.conditions} == set(self.paid)
        if not truly or not sure <= truly <= perhaps or not right_fields:
            return False
        return bool((fulfilled <= self._held(one.widest, table)).all())

    def holds(self, wish: Wish, table: FieldTable) -> bool:
        """Whether what is named is true: all of a bold sentence, one of a set."""
        true = [self.is_true(one, table) for one in wish.named]
        return all(true) if wish.kind == "bold" else any(true)

    def _record(self, state: int, table: FieldTable) -> Record:
        values = dict(zip(table.names, table.values[state].tolist(), strict=True))
        return tuple(int(values[name]) for name in self.sizes)

    def _held(self, predicate: Predicate, table: FieldTable) -> Any:
        order = [list(self.sizes).index(name) for name in table.names]
        values = np.array([[record[k] for k in order] for record, _ in self.records], dtype=np.float64)
        return predicate.holds(FieldTable(table.fields, values, np.array([over for _, over in self.records])))


class FieldEnv(gymnasium.Env[Any, Any]):
    """The world of a case, which pays nothing that anybody sees."""

    def __init__(self, case: FieldCase) -> None:
        self.case = case
        self.observation_space = spaces.Dict({name: spaces.Discrete(size) for name, size in case.sizes.items()})
        self.action_space = spaces.Discrete(case.n_actions)
        self.fields = dict.fromkeys(case.sizes, "ordered")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, int], dict[str, Any]]:
        """Begin anywhere that episodes begin."""
        super().reset(seed=seed)
        self.record = self.case.starts[int(self.np_random.integers(len(self.case.starts)))]
        return self._seen(), {}

    def step(self, action: int) -> tuple[dict[str, int], float, bool, bool, dict[str, Any]]:
        """Move."""
        self.record, over = self.case.move(self.record, int(action))
        return self._seen(), 0.0, over, False, {}

    def _seen(self) -> dict[str, int]:
        return dict(zip(self.case.sizes, self.record, strict=True))


def _map(rng: Draw) -> tuple[int, frozenset[tuple[int, int]], list[tuple[int, int]]]:
    """`(size, walls, floor)`: a square room with a few walls, of which the largest connected part is the floor."""
    size = int(rng.integers(4, 7))
    walls = {cell for cell in product(range(size), repeat=2) if rng.random() < 0.15}
    left, largest = set(product(range(size), repeat=2)) - walls, set[tuple[int, int]]()
    while left:
        part, frontier = set[tuple[int, int]](), [left.pop()]
        while frontier:
            x, y = frontier.pop()
            part.add((x, y))
            near = {(x + dx, y + dy) for dx, dy in STEPS} & left
            left -= near
            frontier += sorted(near)
        largest = max(largest, part, key=len)
    return size, frozenset(cell for cell in product(range(size), range(size)) if cell not in largest), sorted(largest)


def _walked(size: int, walls: frozenset[tuple[int, int]], x: int, y: int, action: int) -> tuple[int, int]:
    there = x + STEPS[action][0], y + STEPS[action][1]
    inside = 0 <= there[0] < size and 0 <= there[1] < size
    return there if inside and there not in walls else (x, y)


def _cells(rng: Draw, floor: list[tuple[int, int]], number: int) -> list[tuple[int, int]]:
    return [floor[i] for i in rng.permutation(len(floor))[:number].tolist()]


def errand(rng: Draw) -> FieldCase:
    """Fetch something and bring it somewhere, before the battery is empty."""
    size, walls, floor = _map(rng)
    battery = int(rng.integers(10, 17))
    item, drop = _cells(rng, floor, 2)

    def move(record: Record, action: int) -> tuple[Record, bool]:
        x, y = _walked(size, walls, record[0], record[1], action)
        left, carrying = record[3] - 1, int(record[2] or (x, y) == item)
        return (x, y, carrying, left), (bool(record[2]) and (x, y) == drop) or left == 0

    starts = tuple((x, y, 0, battery) for x, y in floor if (x, y) not in (item, drop))
    sizes = {"x": size, "y": size, "carrying": 2, "battery": battery + 1}
    paid = {"x": (drop[0], drop[0]), "y": (drop[1], drop[1]), "carrying": (1, 1)}
    return FieldCase(sizes, starts, 4, move, paid, True, battery + 5, 0.02)


def switch_room(rng: Draw) -> FieldCase:
    """Be in a place while a switch, which is worked elsewhere, is in a position."""
    size, walls, floor = _map(rng)
    positions = int(rng.integers(2, 4))
    switch, wanted = _cells(rng, floor, 2)

    def move(record: Record, action: int) -> tuple[Record, bool]:
        x, y = (record[0], record[1]) if action == len(STEPS) else _walked(size, walls, record[0], record[1], action)
        worked = (x, y) == switch and (x, y) != (record[0], record[1])
        return (x, y, (record[2] + worked) % positions), False

    starts = tuple((x, y, k) for x, y in floor for k in range(positions))
    light = int(rng.integers(positions))
    paid = {"x": (wanted[0], wanted[0]), "y": (wanted[1], wanted[1]), "switch": (light, light)}
    return FieldCase({"x": size, "y": size, "switch": positions}, starts, len(STEPS) + 1, move, paid, False, 25)


def exits(rng: Draw) -> FieldCase:
    """Leave by one of three exits, with something that lies about, or without it."""
    size, walls, floor = _map(rng)
    key, *doors = _cells(rng, floor, 4)

    def move(record: Record, action: int) -> tuple[Record, bool]:
        x, y = _walked(size, walls, record[0], record[1], action)
        return (x, y, int(record[2] or (x, y) == key)), (x, y) in doors

    starts = tuple((x, y, 0) for x, y in floor if (x, y) not in (key, *doors))
    carried = int(rng.integers(2))
    paid = {"x": (doors[0][0],) * 2, "y": (doors[0][1],) * 2, "key": (carried, carried)}
    return FieldCase({"x": size, "y": size, "key": 2}, starts, 4, move, paid, True, 30, 0.02)


def dials(rng: Draw) -> FieldCase:
    """Hold one dial at a value, and another one at a value or in a range."""
    first, second = int(rng.integers(6, 11)), int(rng.integers(4, 8))
    low = int(rng.integers(first - 2))
    high = low if rng.random() < 0.5 else int(rng.integers(low + 1, min(first, low + 4)))
    at = int(rng.integers(second))

    def move(record: Record, action: int) -> tuple[Record, bool]:
        a = min(first - 1, max(0, record[0] + (1, -1, 0, 0, 0)[action]))
        b = min(second - 1, max(0, record[1] + (0, 0, 1, -1, 0)[action]))
        return (a, b), False

    starts = tuple(product(range(first), range(second)))
    paid = {"level": (low, high), "heat": (at, at)}
    return FieldCase({"level": first, "heat": second}, starts, 5, move, paid, False, 25)


WORLDS: tuple[Callable[[Draw], FieldCase], ...] = (errand, switch_room, exits, dials)


def _drawn_for(rng: Draw) -> Callable[[Record], Draw]:
    """A generator for each record, always the same one."""
    seed = int(rng.integers(2**32))
    return lambda record: np.random.default_rng([seed, *record])


def any_order(rng: Draw) -> FieldCase:
    """One of these, of an expert who has an order of its own among what is equally good."""
    found = WORLDS[int(rng.integers(len(WORLDS)))](rng)
    return replace(found, order=rng.permutation(found.n_actions).tolist())


def erring(rate: float) -> Callable[[Draw], FieldCase]:
    """One of these, of an expert who in that share of situations does anything, always the same there."""

    def drawn(rng: Draw) -> FieldCase:
        found, own = WORLDS[int(rng.integers(len(WORLDS)))](rng), _drawn_for(rng)

        def instead(record: Record) -> int | None:
            here = own(record)
            return int(here.integers(found.n_actions)) if here.random() < rate else None

        return replace(found, instead=instead)

    return drawn


def without_effect(rng: Draw) -> FieldCase:
    """One of these worlds, in which what happens in each situation was drawn once, whatever anybody does; and an expert
    who always does the same."""
    found, own = WORLDS[int(rng.integers(len(WORLDS)))](rng), _drawn_for(rng)
    action = int(rng.integers(found.n_actions))
    move = found.move

    def goes_on(record: Record, _: int) -> tuple[Record, bool]:
        return move(record, int(own(record).integers(found.n_actions)))

    return replace(found, move=goes_on, paid={}, instead=lambda record: action)


def without_effect_by_value(rng: Draw) -> FieldCase:
    """The same of an expert who goes by the value of one field."""
    found = without_effect(rng)
    field, size = list(enumerate(found.sizes.values()))[int(rng.integers(len(found.sizes)))]
    habit = rng.integers(found.n_actions, size=size).tolist()
    return replace(found, instead=lambda record: habit[record[field]])


FIELD_FAMILIES: dict[str, Callable[[Draw], FieldCase]] = {
    "errand": errand,
    "switch and place": switch_room,
    "exit and key": exits,
    "two dials": dials,
    "any of them, an order of its own": any_order,
    "any of them, errs 5 %": erring(0.05),
    "any of them, errs 15 %": erring(0.15),
    "no effect, one action": without_effect,
    "no effect, an action a value": without_effect_by_value,
}


def field_case(family: str, seed: int) -> FieldCase:
    """A case of a family: the first that is drawn whose wish, if there is one, can be fulfilled."""
    return next(one for one in _drawn(family, seed) if one.can_be_had)


def _drawn(family: str, seed: int) -> Iterator[FieldCase]:
    rng = np.random.default_rng([list(FIELD_FAMILIES).index(family), seed])
    while True:
        yield FIELD_FAMILIES[family](rng)
