"""Rules over fields that predict what the expert would answer where it was not asked, with a measure of doubt.

A committee of small trees is grown on the answers. Each leaves some answers out and draws where it cuts between two
answers that differ, so the trees disagree where the answers leave a boundary open. One further tree, which cuts in the
middle, is what people read. Predictions say where to ask; they are never evidence for a promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray

TREES = 48
LEFT_OUT = 0.2
"""The share of answers that a tree does not see."""

IGNORED = 0.25
"""How often a tree does not look at a field when it cuts."""

ERRORS = 0.03
"""How often an answer is not what a leaf says, if all answers in it are the same."""


@dataclass(frozen=True, eq=False)
class Committee:
    """What trees predict: `votes [trees, S]`, -1 where a state has no fields; `left_out [trees, n]` says which answers
    each has not seen."""

    votes: IntArray
    left_out: FloatArray
    states: IntArray
    actions: IntArray
    n_actions: int

    @cached_property
    def chances(self) -> FloatArray:
        """`[n, A]`: how likely each action is in the states that were answered, by the trees that have not seen that
        answer, and by chance."""
        unseen = self.left_out > 0
        voted = self.votes[:, self.states, None] == np.arange(self.n_actions)
        often = (voted & unseen[:, :, None]).sum(axis=0)
        chance = (often + 1 / self.n_actions) / (unseen.sum(axis=0)[:, None] + 1)
        return np.asarray((1 - ERRORS) * chance + ERRORS / self.n_actions)

    @property
    def log_likelihood(self) -> float:
        """Of all answers together."""
        return float(np.log(self.chances[np.arange(len(self.actions)), self.actions]).sum())


def committee(
    table: FieldTable, states: IntArray, actions: IntArray, n_actions: int, rng: np.random.Generator, trees: int = TREES
) -> Committee:
    """Trees grown on the `actions [n]` that were answered in `states [n]`."""
    values, categorical = _columns(table)
    known = table.known
    inside = known[states]
    states, actions = states[inside], actions[inside]
    votes = np.full((trees, len(known)), -1, dtype=np.int64)
    left_out = np.zeros((trees, len(states)))
    if not len(states):
        return Committee(votes, left_out, states, actions, n_actions)
    circular = [k for k, field in enumerate(table.fields) if field.kind == "circular"]
    for tree in range(trees):
        kept = rng.random(len(states)) >= LEFT_OUT
        if not kept.any():
            kept[rng.integers(len(states))] = True
        turned = values.copy()
        for k in circular:  # a circle has no end: each tree opens it somewhere else
            met = table.distinct(k)
            start = met[rng.integers(len(met))]
            turned[:, k] = np.where(turned[:, k] < start, turned[:, k] + met[-1] - met[0] + 1, turned[:, k])
        draws = rng.random((4 * len(states) + 4, 2 * values.shape[1]))
        seen = turned[states[kept]], actions[kept]
        votes[tree, known] = _voted(turned[known], *seen, categorical, draws, IGNORED, n_actions)
        left_out[tree] = ~kept
    return Committee(votes, left_out, states, actions, n_actions)


@dataclass(frozen=True)
class Rule:
    """What the expert does where all `conditions` hold, as (field, low, high); `answers` of its answers say so, and
    `against` do not."""

    conditions: tuple[tuple[int, float, float], ...]
    action: int
    answers: int
    against: int

    def words(self, table: FieldTable, names: Sequence[str] = ()) -> str:
        """The rule as people read it."""
        said = names[self.action] if len(names) else f"action {self.action}"
        where = [_range(table, *one) for one in self.conditions]
        return f"{said} if {' and '.join(where)}" if where else f"{said} everywhere"


def rules(table: FieldTable, states: IntArray, actions: IntArray) -> tuple[Rule, ...]:
    """The readable rules behind the `actions [n]` that were answered in `states [n]`, those of most answers first.

    Each begins as a leaf of one tree that cuts in the middle, and loses the conditions that no answer needs. Of these
    rules, as few are kept as say all answers.
    """
    inside = table.known[states]
    states, actions = states[inside], actions[inside]
    if not len(states):
        return ()
    values = table.values[states]
    bounds = np.array([[table.distinct(k)[0], table.distinct(k)[-1]] for k in range(len(table.fields))])
    wide = [_widened(rule, values, actions) for rule in _leaves(table, values, actions, bounds)]
    kept: list[Rule] = []
    said = np.zeros(len(states), dtype=np.bool_)
    while not said.all():
        news = [int((_holding(rule, values) & (actions == rule.action) & ~said).sum()) for rule in wide]
        best = int(np.argmax(news))
        if not news[best]:
            break
        kept.append(wide[best])
        said |= _holding(wide[best], values) & (actions == wide[best].action)
    return tuple(sorted(kept, key=lambda rule: (-rule.answers, rule.conditions)))


def _holding(rule: Rule, values: FloatArray) -> BoolArray:
    """`[n]`: where all conditions of a rule hold."""
    inside = np.ones(len(values), dtype=np.bool_)
    for k, low, high in rule.conditions:
        inside &= (values[:, k] >= low) & (values[:, k] <= high)
    return inside


def _widened(rule: Rule, values: FloatArray, actions: IntArray) -> Rule:
    """The rule without conditions that no answer needs; each time the one is left out that lets most answers in."""
    while True:
        wider = []
        for one in rule.conditions:
            other = replace(rule, conditions=tuple(c for c in rule.conditions if c != one))
            there = actions[_holding(other, values)]
            right = int((there == rule.action).sum())
            if len(there) - right <= rule.against:
                wider.append(replace(other, answers=right, against=len(there) - right))
        if not wider:
            return rule
        rule = max(wider, key=lambda other: other.answers)


def _leaves(table: FieldTable, values: FloatArray, actions: IntArray, bounds: FloatArray) -> Iterator[Rule]:
    given = np.bincount(actions)
    cut = None if np.count_nonzero(given) == 1 else _best_cut(table, values, actions)
    if cut is None:
        whole = [[table.distinct(k)[0], table.distinct(k)[-1]] for k in range(len(table.fields))]
        conditions = tuple(
            (k, float(low), float(high)) for k, (low, high) in enumerate(bounds) if [low, high] != whole[k]
        )
        yield Rule(conditions, int(given.argmax()), int(given.max()), int(given.sum() - given.max()))
        return
    field, at = cut
    for low in (True, False):
        side = values[:, field] <= at if low else values[:, field] > at
        met = table.distinct(field)
        narrower = bounds.copy()
        narrower[field, 1 if low else 0] = met[met <= at][-1] if low else met[met > at][0]
        yield from _leaves(table, values[side], actions[side], narrower)


def _best_cut(table: FieldTable, values: FloatArray, actions: IntArray) -> tuple[int, float] | None:
    """The cut after which the answers on either side differ least, in the middle of a gap; the first of equal ones."""
    best: tuple[float, int, float] | None = None
    for k in range(len(table.fields)):
        present = np.unique(values[:, k])
        for low, high in pairwise(present.tolist()):
            side = values[:, k] <= low
            worse = sum(
                float((np.bincount(actions[part]) * (1 - np.bincount(actions[part]) / part.sum())).sum())
                for part in (side, ~side)
            )
            if best is None or worse < best[0] - 1e-9:
                best = worse, k, (low + high) / 2
    return None if best is None else best[1:]


def _range(table: FieldTable, k: int, low: float, high: float) -> str:
    """A condition in words."""
    field, met = table.fields[k], table.distinct(k)
    if field.kind == "categorical":
        inside = [field.value(v) for v in met if low <= v <= high]
        return f"{field.name} is {' or '.join(inside)}"
    if low == high:
        return f"{field.name} is {field.value(low)}"
    if low <= met[0]:
        return f"{field.name} is at most {field.value(high)}"
    if high >= met[-1]:
        return f"{field.name} is at least {field.value(low)}"
    return f"{field.name} is {field.value(low)} to {field.value(high)}"


def _columns(table: FieldTable) -> tuple[FloatArray, IntArray]:
    categorical = np.array([field.kind == "categorical" for field in table.fields])
    return np.nan_to_num(table.values, nan=0.0), categorical.astype(np.int64)


@compiled
def _voted(
    states: FloatArray,
    values: FloatArray,
    actions: IntArray,
    categorical: IntArray,
    draws: FloatArray,
    ignored: float,
    n_actions: int,
) -> IntArray:
    """Grow one tree on `values [n, F]` with their `actions [n]`, and let it vote on `states [s, F]`.

    A node holds the answers `order[first:last]` and the states `placed[s] == node`. It is cut where the answers on
    either side differ least (Gini), at a random point between two answers; a categorical field is cut into one value
    and the others.
    """
    n, n_fields = values.shape
    order, spare = np.arange(n), np.empty(n, np.int64)
    placed = np.zeros(states.shape[0], np.int64)
    voted = np.zeros(states.shape[0], np.int64)
    first, last = np.zeros(2 * n + 2, np.int64), np.zeros(2 * n + 2, np.int64)
    last[0], made, node = n, 1, 0
    left, right = np.empty(n_actions), np.empty(n_actions)
    while node < made:
        a, b = first[node], last[node]
        best, best_field, best_at, best_equal = np.inf, -1, 0.0, False
        pure = True
        for i in range(a + 1, b):
            pure = pure and actions[order[i]] == actions[order[a]]
        for attempt in range(0 if pure else 2):
            if attempt and best_field >= 0:
                break  # else no field can be cut but those that were ignored
            for k in range(n_fields):
                if attempt == 0 and draws[node % draws.shape[0], k] < ignored:
                    continue
                for i in range(a, b):
                    # The candidate lies between this answer's value and the next higher one, or is this value.
                    here, above = values[order[i], k], np.inf
                    for j in range(a, b):
                        if here < values[order[j], k] < above:
                            above = values[order[j], k]
                    if categorical[k] == 0 and above == np.inf:
                        continue
                    left[:], right[:] = 0.0, 0.0
                    for j in range(a, b):
                        inside = values[order[j], k] == here if categorical[k] else values[order[j], k] <= here
                        if inside:
                            left[actions[order[j]]] += 1
                        else:
                            right[actions[order[j]]] += 1
                    if left.sum() == 0 or right.sum() == 0:
                        continue
                    worse = left.sum() - (left**2).sum() / left.sum() + right.sum() - (right**2).sum() / right.sum()
                    worse += 1e-6 * draws[node % draws.shape[0], (k + i) % draws.shape[1]]
                    if worse < best:
                        best, best_field, best_equal = worse, k, categorical[k] == 1
                        share = draws[node % draws.shape[0], n_fields + k]
                        best_at = here if categorical[k] else here + share * (above - here)
        if best_field < 0:
            left[:] = 0.0
            for i in range(a, b):
                left[actions[order[i]]] += 1
            for s in range(states.shape[0]):
                if placed[s] == node:
                    voted[s] = left.argmax()
            node += 1
            continue
        lower, upper = a, 0
        for i in range(a, b):
            value = values[order[i], best_field]
            if value == best_at if best_equal else value <= best_at:
                order[lower], lower = order[i], lower + 1
            else:
                spare[upper], upper = order[i], upper + 1
        for i in range(upper):
            order[lower + i] = spare[i]
        first[made], last[made], first[made + 1], last[made + 1] = a, lower, lower, b
        for s in range(states.shape[0]):
            if placed[s] == node:
                value = states[s, best_field]
                placed[s] = made if (value == best_at if best_equal else value <= best_at) else made + 1
        made, node = made + 2, node + 1
    return voted
