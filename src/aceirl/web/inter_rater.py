"""How often people agree: with each other where two or more have answered, and with themselves when asked twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import scipy

CONFIDENCE = 0.9

# What is taken for granted before anything was asked twice: as much as ten repeats, one of them answered differently.
PRIOR_REPEATS, PRIOR_CONTRADICTIONS = 10, 1

# What people said: by person and then by situation, the number of the action.
AnswersByPerson = Mapping[str, Mapping[str, int]]


@cache
def interval(found: int, of: int) -> tuple[float, float]:
    """The exact interval for a binomial probability (Clopper and Pearson); 0 and 1 if there is nothing to go by."""
    if not of:
        return 0.0, 1.0
    low, high = scipy.stats.binomtest(found, of).proportion_ci(CONFIDENCE, method="exact")
    return float(low), float(high)


@dataclass(frozen=True)
class Pair:
    """Two people: how many situations both have answered, and in how many of them they would do the same.

    `low` and `high` hold the share of equal answers with 90 % confidence, as if the situations that both have answered
    were drawn at random.
    """

    people: tuple[str, str]
    common: int
    equal: int
    low: float
    high: float


@dataclass(frozen=True)
class PeopleAgreement:
    """All pairs of people, how many situations have several answers, and what was said in those where people differ.

    `disagreements` are by situation and then by person.
    """

    pairs: tuple[Pair, ...]
    common: int
    disagreements: dict[str, dict[str, int]]


def agreement(answers: AnswersByPerson) -> PeopleAgreement:
    """Compare what people said, situation by situation; situations come in the order in which they were answered."""
    situations = list(dict.fromkeys(situation for said in answers.values() for situation in said))
    told = {s: {name: said[s] for name, said in answers.items() if s in said} for s in situations}
    common = {situation: said for situation, said in told.items() if len(said) > 1}
    differing = {situation: said for situation, said in common.items() if len(set(said.values())) > 1}
    return PeopleAgreement(tuple(_pair(*two, answers) for two in combinations(answers, 2)), len(common), differing)


def _pair(one: str, other: str, answers: AnswersByPerson) -> Pair:
    both = answers[one].keys() & answers[other].keys()
    equal = sum(answers[one][situation] == answers[other][situation] for situation in both)
    return Pair((one, other), len(both), equal, *interval(equal, len(both)))


@dataclass(frozen=True)
class AnswerErrors:
    """How often a single answer is an error: a guess, and an interval that holds it with 90 % confidence."""

    repeated: int
    contradicted: int
    guess: float
    low: float
    high: float


def answer_errors(repeated: int, contradicted: int) -> AnswerErrors:
    """From `repeated` questions asked again, each counted once, of which `contradicted` were answered differently.

    Two answers of which a share `e` is wrong contradict each other with a probability of at most `1 - (1-e)²`, if two
    errors never agree, and at least `2e(1-e)`, if they always do; the interval for `e` holds whatever errors are like,
    as long as fewer than half of the answers are errors. The guess takes it that errors never agree, and starts from
    what people are like, so that a single repeat does not swing it from never to always.
    """
    low, high = interval(contradicted, repeated)
    guess = (contradicted + PRIOR_CONTRADICTIONS) / (repeated + PRIOR_REPEATS)
    most = (1 - (1 - 2 * high) ** 0.5) / 2 if high < 0.5 else 1.0
    return AnswerErrors(repeated, contradicted, 1 - (1 - guess) ** 0.5, 1 - (1 - low) ** 0.5, most)
