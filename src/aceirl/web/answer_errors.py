"""People err: how often, judging by the questions that were asked twice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from scipy.stats import binomtest

CONFIDENCE = 0.9

# What is taken for granted before anything was asked twice: as much as ten repeats, one of them answered differently.
PRIOR_REPEATS, PRIOR_CONTRADICTIONS = 10, 1


@dataclass(frozen=True)
class AnswerErrors:
    """How often a single answer is an error: a guess, and an interval that holds it with 90 % confidence."""

    repeated: int
    contradicted: int
    guess: float
    low: float
    high: float


@cache
def answer_errors(repeated: int, contradicted: int) -> AnswerErrors:
    """From `repeated` questions asked again, each counted once, of which `contradicted` were answered differently.

    The interval for the probability of a contradiction is the exact one for a binomial (Clopper and Pearson). Two
    answers of which a share `e` is wrong contradict each other with a probability of at most `1 - (1-e)²`, if two
    errors never agree, and at least `2e(1-e)`, if they always do; the interval for `e` holds whatever errors are like,
    as long as fewer than half of the answers are errors. The guess takes it that errors never agree, and starts from
    what people are like, so that a single repeat does not swing it from never to always.
    """
    low, high = 0.0, 1.0
    if repeated:
        low, high = binomtest(contradicted, repeated).proportion_ci(CONFIDENCE, method="exact")
    guess = (contradicted + PRIOR_CONTRADICTIONS) / (repeated + PRIOR_REPEATS)
    most = (1 - (1 - 2 * high) ** 0.5) / 2 if high < 0.5 else 1.0
    return AnswerErrors(repeated, contradicted, _never_agreeing(guess), _never_agreeing(low), most)


def _never_agreeing(disagreement: float) -> float:
    return float(1 - (1 - disagreement) ** 0.5)
