"""Whether answers agree with a wish that somebody states outright: a test of that wish, not a search for another."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np

from aceirl.models.tabular.estimate import Estimate
from aceirl.rewards.hypotheses.habits import ANYTHING, habits
from aceirl.rewards.hypotheses.search import Claim, Hypothesis, Search
from aceirl.rewards.hypotheses.wish import ENOUGH, UNEXPLAINED, guessed

BESIDES = (1.0, 0.3, 0.1, 0.03)
"""How much a place may be disliked beside one that is wanted, by the step."""

Bearing = Literal["agree", "contradict", "neither"]


@dataclass(frozen=True)
class Agreement:
    """How the `answers` bear on a stated wish; about `unexplained` of them are not among the best under it.

    They "agree" if the wish predicts them better than chance by `ENOUGH` nats, and leaves at most the share
    `UNEXPLAINED`. They "contradict" it if another place, wanted or avoided, or chance predicts them so much better.
    `others` are the places of which the same could be stated as being wanted, and the answers would agree. `habit` is
    one that predicts them no worse than the wish does; None if none does.
    """

    bearing: Bearing
    answers: int
    unexplained: float
    others: tuple[int, ...]
    habit: str | None


def agreement(estimate: Estimate, claims: Collection[Claim]) -> Agreement | None:
    """Of a wish for places, or to keep away from some; None of any other."""
    if not claims or any(one.what not in ("wants", "avoids") for one in claims):
        return None
    search = Search(estimate, np.random.default_rng([0, 0x77]))
    of_preferences = guessed(estimate.preferences)
    customs = {name: found + of_preferences for name, found in habits(search.answers).items()}
    answers = search.answers.number + len(estimate.preferences)
    stated = frozenset(claims)
    alone = [frozenset({Claim(what, place)}) for place in search.places for what in ("wants", "avoids")]
    found = _predicted(search, [stated, *alone])
    most = max(customs[ANYTHING], *(likelihood for likelihood, _ in found.values()))

    def bearing(wish: frozenset[Claim]) -> Bearing:
        likelihood, unexplained = found[wish]
        if most - likelihood >= ENOUGH:
            return "contradict"
        told = likelihood - customs[ANYTHING] >= ENOUGH and unexplained <= UNEXPLAINED * answers
        return "agree" if told else "neither"

    agreeing = {one for wish in alone if wish != stated and bearing(wish) == "agree" for one in wish}
    habit = max(customs, key=customs.__getitem__)
    return Agreement(
        bearing(stated),
        answers,
        found[stated][1],
        tuple(sorted(one.where for one in agreeing if one.what == "wants")),
        habit if customs[habit] >= found[stated][0] else None,
    )


def _predicted(search: Search, wishes: list[frozenset[Claim]]) -> dict[frozenset[Claim], tuple[float, float]]:
    """`(log_likelihood, unexplained)` of the answers under each wish that pays for just that: of something wanted also
    if in a hurry, and of an end also if other ends are avoided; what is avoided beside it may matter less. Each of
    these ways is as likely."""
    ways = {one: _ways(search, one) for one in wishes}
    judged = search.judged([way for some in ways.values() for way in some])
    found, first = {}, 0
    for wish, some in ways.items():
        here = slice(first, first := first + len(some))
        likelihood = np.logaddexp.reduce(judged.log_likelihood[here])
        weights = np.exp(judged.log_likelihood[here] - likelihood)
        found[wish] = float(likelihood) - log(len(some)), float(weights @ judged.unexplained[here])
    return found


def _ways(search: Search, claims: frozenset[Claim]) -> list[Hypothesis]:
    wanted, avoided = (sorted(one.where for one in claims if one.what == what) for what in ("wants", "avoids"))
    ways = []
    for worth in BESIDES if wanted and avoided else (1.0,):
        places = tuple(sorted([*((place, 1.0) for place in wanted), *((place, -worth) for place in avoided)]))
        ways.append(Hypothesis(places))
        if wanted and len(search.terminal):
            ways.append(Hypothesis(places, step_cost=0.02))
            if len(search.terminal) > 1 and set(wanted) <= set(search.terminal.tolist()):
                ways.append(Hypothesis(places, step_cost=0.02, other_ends=-1.0))
    return ways
