"""A reward in the terms of fields: what it pays is said of values, so it can be taken to observations never met."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aceirl.errors import InputError
from aceirl.models.fields.table import Fields, FieldTable
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards.hypotheses.predicates import FieldCondition, Predicate
from aceirl.rewards.hypotheses.search import Hypothesis, claimed
from aceirl.rewards.hypotheses.wish import Named, Wish


@dataclass(frozen=True, eq=False)
class FieldReward:
    """What `features`, as predicates with what they are worth, pay; each step costs `step_cost`.

    A predicate of ends is paid for on arrival at an end, another one for every step that begins where it holds and for
    an end where it does. `table` says how values are written as numbers, `fields` how observations are read.
    """

    features: tuple[tuple[Predicate, float], ...]
    step_cost: float
    table: FieldTable
    fields: Fields

    @classmethod
    def of(cls, wish: Wish, table: FieldTable, fields: Fields) -> FieldReward | None:
        """What the likeliest hypothesis pays, if all that it wants are fields.

        A range is as probable as the hypotheses that say the same of the same fields make it, and each pays its share;
        of a field that is alone, all hypotheses that want nothing else do.
        """
        best = wish.best
        if not _is_of_fields(best):
            return None
        if table.alone:
            return cls._expected([one for one in wish.likeliest if _is_of_fields(one[0])], table, fields)
        features: list[tuple[Predicate, float]] = []
        for said, worth in ((claimed(*one), one[1]) for one in best.features):
            shares: dict[Predicate, float] = defaultdict(float)
            for hypothesis, weight in wish.likeliest:
                in_words = hypothesis.said_by(best).features
                for (predicate, _), one in zip(hypothesis.features, in_words, strict=True):
                    if claimed(*one) == said:
                        shares[predicate] += weight
            total = sum(shares.values())
            features += [(predicate, worth * share / total) for predicate, share in shares.items()]
        return cls(tuple(features), best.step_cost, table, fields)

    @classmethod
    def _expected(cls, likely: list[tuple[Hypothesis, float]], table: FieldTable, fields: Fields) -> FieldReward:
        """What hypotheses, each with its weight, pay together; a step costs nothing where no episode can end early."""
        total = max(sum(weight for _, weight in likely), np.finfo(float).tiny)
        paid: dict[Predicate, float] = defaultdict(float)
        for hypothesis, weight in likely:
            for predicate, worth in hypothesis.features:
                paid[predicate] += worth * weight / total
        return cls(tuple(paid.items()), 0.0, table, fields)

    def __call__(
        self, observation: Any, action: Any, next_observation: Any, terminal: bool = False, step: int = 0
    ) -> float:
        """What a step pays."""
        paid = self._worth(observation, over=False) - self.step_cost
        return paid + self._worth(next_observation, over=True) if terminal else paid

    def pays(self, named: Named) -> bool:
        """Whether what is said to be wanted of a field that is alone is paid most, and what is avoided least."""
        if named.predicate is None:
            return False
        values = self.table.distinct(0)
        (one,) = named.predicate.conditions
        worth = np.array([self._paid(np.array([value]), over=False) for value in values])
        inside = worth[(one.low <= values) & (values <= one.high)]
        wants = named.claim.fields.startswith("wants")
        return bool(inside.max() >= worth.max() - 1e-9 if wants else inside.min() <= worth.min() + 1e-9)

    def elsewhere(self, values: Mapping[str, float]) -> FieldReward:
        """The same wish of other values: what was said of one value of these fields is said of another.

        Where "position" is an array, its entries are the fields "position, entry 1" and "position, entry 2".
        """
        unknown = set(values) - set(self.table.names)
        if unknown:
            raise InputError(f"there is no field {sorted(unknown)[0]!r}; the fields are {', '.join(self.table.names)}")
        if values and self.table.alone:
            raise InputError(
                f"what is wanted of {self.table.names[0]} is a range of it, {self.words()}, and cannot be said of one "
                "other value; write a reward of your own"
            )
        numbers = {self.table.names.index(name): float(value) for name, value in values.items()}

        def moved(one: FieldCondition) -> FieldCondition:
            value = numbers.get(one.field)
            return one if value is None or one.low < one.high else FieldCondition(one.field, value, value)

        return replace(
            self,
            features=tuple(
                (replace(predicate, conditions=tuple(moved(one) for one in predicate.conditions)), worth)
                for predicate, worth in self.features
            ),
        )

    def words(self) -> str:
        """What pays how much."""
        said = [f"{predicate.words(self.table)}: {worth:g}" for predicate, worth in self.features]
        return "; ".join([*said, f"a step: {-self.step_cost:g}"] if self.step_cost else said)

    def _worth(self, observation: Any, over: bool) -> float:
        values = self.table.numbers(self.fields.read(observation))
        if values is None:
            return 0.0
        return self._paid(np.array(values), over)

    def _paid(self, values: FloatArray, over: bool) -> float:
        return sum(
            worth
            for predicate, worth in self.features
            if (over or not predicate.ends)
            and all(one.low <= values[one.field] <= one.high for one in predicate.conditions)
        )


def _is_of_fields(hypothesis: Hypothesis) -> bool:
    """Whether all that it wants, at any step, are fields."""
    others = hypothesis.later or hypothesis.other_ends or any(worth > 0 for _, worth in hypothesis.places)
    return bool(hypothesis.features) and not others and hypothesis.decay == 1
