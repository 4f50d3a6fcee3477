"""What a strategy is told and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from aceirl.bounds import ErrorBound
from aceirl.collect import Plan
from aceirl.confidence import Radii
from aceirl.counts import Estimate
from aceirl.mdp import FloatArray


@dataclass(frozen=True, eq=False)
class Belief:
    """All that is known when a plan is made; a function of the counts, the last reward and the last plan.

    `reward [H, S, A]` is the last one recovered and `neutral` what a step of unknown consequence earns under it;
    `accuracy` is the last `ε_k`, the bound that defines the set of plausible policies; `policy_certified` says whether
    the policy certificate holds at the accuracy asked for; `memory` holds what the
    strategy's last plan asked to get back.
    """

    estimate: Estimate
    radii: Radii
    bound: ErrorBound
    reward: FloatArray
    neutral: float
    accuracy: float
    rmax: float
    delta: float
    episodes: int
    iteration: int = 0
    policy_certified: bool = False
    memory: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(H, S, A)`."""
        return self.estimate.mdp.shape


class Strategy(Protocol):
    """Where to go next, from what is still uncertain."""

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan: ...


def uniform_policy(shape: tuple[int, int, int]) -> FloatArray:
    """`[H, S, A]`: every action as likely as any other."""
    return np.full(shape, 1.0 / shape[2])
