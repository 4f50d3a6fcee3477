"""People err: how often, judging by the questions that were asked twice."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import betaincinv

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


def answer_errors(repeated: int, contradicted: int) -> AnswerErrors:
    """From `repeated` questions asked again, of which `contradicted` were answered differently.

    Two answers disagree if one of them is an error, so with a rate of `e` they do with probability `1 - (1-e)²`. The
    interval for that probability is the exact one for a binomial (Clopper and Pearson). The guess starts from what
    people are like, so that a single repeat does not swing it from never to always.
    """
    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(contradicted, repeated - contradicted + 1, tail)) if contradicted else 0.0
    high = float(betaincinv(contradicted + 1, repeated - contradicted, 1 - tail)) if contradicted < repeated else 1.0
    guess = (contradicted + PRIOR_CONTRADICTIONS) / (repeated + PRIOR_REPEATS)
    return AnswerErrors(repeated, contradicted, _per_answer(guess), _per_answer(low), _per_answer(high))


def _per_answer(disagreement: float) -> float:
    return float(1 - (1 - disagreement) ** 0.5)
