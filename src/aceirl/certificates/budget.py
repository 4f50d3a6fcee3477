"""One `delta` for all that a run promises: it lies with the evidence, and whatever starts anew spends from it.

A promise rests on an event that fails with a probability of at most its share of `delta`. The shares are given before
anything is seen: most to the event of the kind that the run was begun for, a little to every other, so that a report
may have them all. What is left is for e-processes that start anew: the `k`-th on one body of evidence, whatever its
kind and whatever made it start, gets `ANEW/(k·(k+1))`. All shares that are ever given add up to one at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from aceirl.irl.belief import Belief, Memory

ROWS, DIVERGENCE = "rows", "divergence"
EVENTS = ("policy", "criterion", ROWS, DIVERGENCE)
"""What promises rest on: two kinds of wagers, the total variation of all rows, and their divergence."""

ANEW, OTHERS = 0.05, 0.05
"""What is kept of `delta` for e-processes that start anew, and for events that the run was not begun for."""

BUDGET, RESTARTS = "budget", "restarts"
"""Under what name the budget lies with the evidence, and what in it counts e-processes that started anew."""

Evidence = Mapping[str, Memory]
"""What each kind of certificate keeps, by name, and the budget."""


@dataclass(frozen=True)
class Budget:
    """The share of `delta` of each event, and how many e-processes were started anew so far."""

    shares: Mapping[str, float]
    restarts: int = 0

    @classmethod
    def begun(cls, asked: str | None) -> Budget:
        """That of a run for a promise which rests on this event; for none, all events have the same."""
        if asked is None:
            return cls(dict.fromkeys(EVENTS, (1 - ANEW) / len(EVENTS)))
        return cls({**dict.fromkeys(EVENTS, OTHERS / len(EVENTS)), asked: 1 - ANEW - OTHERS})

    @classmethod
    def of(cls, evidence: Evidence) -> Budget:
        """As the evidence has it; without one, there is but one promise, which has all."""
        kept = evidence.get(BUDGET, {})
        shares = {name: float(share) for name, share in kept.items() if name != RESTARTS}
        return cls(shares, int(kept.get(RESTARTS, 0)))

    def share(self, event: str) -> float:
        """The share of an event."""
        return self.shares.get(event, 1.0)

    def started_anew(self, event: str, times: int = 1) -> Budget:
        """After the e-process of an event was given up so many times, and another one begun."""
        if not times:
            return self
        number = self.restarts + times
        return Budget({**self.shares, event: ANEW / (number * (number + 1))}, number)

    @property
    def evidence(self) -> dict[str, Memory]:
        """What `of` reads."""
        return {BUDGET: {name: np.asarray(value) for name, value in {**self.shares, RESTARTS: self.restarts}.items()}}


def delta_of(belief: Belief, event: str) -> float:
    """How often an event may fail, by the budget that lies with the evidence."""
    return belief.target.delta * Budget.of(belief.evidence).share(event)


def promised(belief: Belief, event: str = ROWS) -> Belief:
    """The belief with radii of the confidence that the budget has for an event of theirs.

    Those it has otherwise steer the exploration. Radii that guarantee nothing stay as they are.
    """
    if not belief.radii.guaranteed:
        return belief
    table = belief.table.at(delta_of(belief, event))
    return belief if table is belief.table else replace(belief, model=table)


def given_up(evidence: Evidence, kinds: Iterable[str]) -> dict[str, Memory]:
    """The evidence without that of some kinds, whose next e-processes spend from the budget.

    Where nothing was won or lost yet, the next one is the first.
    """
    budget = Budget.of(evidence)
    kinds = [kind for kind in kinds if kind in evidence]
    for kind in kinds:
        if any(array.any() for name, array in evidence[kind].items() if name.endswith(("now", "peak"))):
            budget = budget.started_anew(kind)
    kept = {name: memory for name, memory in evidence.items() if name not in (*kinds, BUDGET)}
    return {**kept, **budget.evidence}
