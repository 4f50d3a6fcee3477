"""Where the people of an interview agree and where not: over the situations that two or more of them have answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from scipy.stats import binomtest

CONFIDENCE = 0.9

# What people said: by person and then by situation, the number of the action.
Answers = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Pair:
    """Two people: how many situations both have answered, and in how many of them they would do the same.

    `low` and `high` hold the share of equal answers with 90 % confidence, as if the situations that both have answered
    were drawn at random: the exact interval for a binomial (Clopper and Pearson); 0 and 1 if there are none.
    """

    people: tuple[str, str]
    common: int
    equal: int
    low: float
    high: float


@dataclass(frozen=True)
class Disagreement:
    """A situation in which not all would do the same, and what each of them would do who has said so."""

    situation: str
    answers: dict[str, int]


@dataclass(frozen=True)
class Agreement:
    """All pairs of people, and all situations in which they differ; `common` counts those with several answers."""

    pairs: tuple[Pair, ...]
    common: int
    disagreements: tuple[Disagreement, ...]


def agreement(answers: Answers) -> Agreement:
    """Compare what people said, situation by situation; situations come in the order in which they were answered."""
    situations = list(dict.fromkeys(situation for said in answers.values() for situation in said))
    told = {s: {name: said[s] for name, said in answers.items() if s in said} for s in situations}
    common = {situation: said for situation, said in told.items() if len(said) > 1}
    return Agreement(
        tuple(_pair(one, other, answers) for one, other in combinations(answers, 2)),
        len(common),
        tuple(Disagreement(situation, said) for situation, said in common.items() if len(set(said.values())) > 1),
    )


def _pair(one: str, other: str, answers: Answers) -> Pair:
    both = answers[one].keys() & answers[other].keys()
    equal = sum(answers[one][situation] == answers[other][situation] for situation in both)
    return Pair((one, other), len(both), equal, *interval(equal, len(both)))


@cache
def interval(equal: int, common: int) -> tuple[float, float]:
    """The exact interval for the probability of an equal answer, from `equal` of `common` ones."""
    if not common:
        return 0.0, 1.0
    low, high = binomtest(equal, common).proportion_ci(CONFIDENCE, method="exact")
    return float(low), float(high)
