"""Where to go next: one strategy a file, one verb, `plan(belief, rng) -> Plan`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aceirl.errors import unknown_name
from aceirl.explore.ace import Ace, AceRF
from aceirl.explore.advice import Advice
from aceirl.explore.base import Belief, Strategy
from aceirl.explore.greedy import Greedy
from aceirl.explore.guided import Guided
from aceirl.explore.random import Random
from aceirl.explore.rf_ucrl import RfUcrl
from aceirl.explore.travel import Travel
from aceirl.explore.uniform import Uniform


@dataclass(frozen=True)
class StrategySpec:
    """How to build a strategy, and what a list of them says of it."""

    build: Callable[[], Strategy]
    access: str
    summary: str


STRATEGIES: dict[str, StrategySpec] = {
    "ace": StrategySpec(Ace, "episodes", "leave plausible policies as certain as a batch can (paper: AceIRL)"),
    "ace-rf": StrategySpec(
        AceRF, "episodes, no expert", "leave all policies as certain as a batch can (paper: Ace-RF)"
    ),
    "advice": StrategySpec(Advice, "episodes", "follow the expert's answer in every state"),
    "greedy": StrategySpec(Greedy, "episodes", "go where the error bound is largest (paper: AceIRL Greedy)"),
    "guided": StrategySpec(Guided, "episodes", "follow the expert until its way is certified, then explore as ace"),
    "random": StrategySpec(Random, "episodes", "any action, anywhere"),
    "rf-ucrl": StrategySpec(RfUcrl, "episodes, no expert", "go where the dynamics are most uncertain (paper: RF-UCRL)"),
    "travel": StrategySpec(Travel, "generative model", "spread the samples as ACE would (paper: TRAVEL)"),
    "uniform": StrategySpec(Uniform, "generative model", "sample every step, state and action alike"),
}


def strategy(name: str) -> Strategy:
    """The strategy of that name."""
    if name not in STRATEGIES:
        raise unknown_name("strategy", name, STRATEGIES)
    return STRATEGIES[name].build()


__all__ = ["STRATEGIES", "Belief", "Strategy", "strategy"]
