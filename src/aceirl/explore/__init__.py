"""Where to go next: one strategy a file, one verb, `plan(belief, rng) -> Plan`."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from aceirl.explore.ace import Ace, AceRF
from aceirl.explore.advice import Advice
from aceirl.explore.greedy import Greedy
from aceirl.explore.guided import Guided
from aceirl.explore.probe import Probe
from aceirl.explore.random import Random
from aceirl.explore.rf_ucrl import RfUcrl
from aceirl.explore.sparing import Sparing
from aceirl.explore.telling import Telling
from aceirl.explore.travel import Travel
from aceirl.explore.uniform import Uniform
from aceirl.irl.belief import Belief, Plan


class Strategy(Protocol):
    """Where to go next, from what is still uncertain."""

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan: ...


class ListedStrategy(Strategy, Protocol):
    """One of ours: what it needs of an environment and of the model, and its rule in a line."""

    access: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[type, ...]]


STRATEGIES: dict[str, type[ListedStrategy]] = {
    "ace": Ace,
    "ace-rf": AceRF,
    "advice": Advice,
    "greedy": Greedy,
    "guided": Guided,
    "probe": Probe,
    "random": Random,
    "rf-ucrl": RfUcrl,
    "sparing": Sparing,
    "telling": Telling,
    "travel": Travel,
    "uniform": Uniform,
}
"""The strategies by name, as `--strategy` takes them."""

__all__ = ["STRATEGIES", "Belief", "Guided", "Plan", "Strategy"]
