"""`guided`: first near the expert's own way, then along it, then wherever uncertainty is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.explore.ace import planned
from aceirl.explore.advice import Advice
from aceirl.explore.probe import Probe
from aceirl.irl.belief import Belief, Plan
from aceirl.protocols import ConfidenceRadii, ExactPlanning


@dataclass(frozen=True)
class Guided:
    """Probe near the expert's way, follow it until that is certified, then explore with ACE. The default.

    A reward needs to know what the expert declined, and the first `probing_episodes` see most of that: about as many as
    the policy certificate takes at the very least; later every so many episodes, `probe_every`, see more. The
    certificate `policy` is about the states the expert meets, and only episodes that do what the expert does bear on
    it, so until it holds at the accuracy asked for all others follow the expert. All other certificates are about the
    dynamics and about states off that way, where (ACE) plans best. A stochastic expert has no such certificate, and
    each of its answers says less: the first `stochastic_episodes` probe, and every other iteration after that; else
    ACE plans.
    """

    probing_episodes: int = 20
    stochastic_episodes: int = 100
    probe_every: int = 6
    tolerance: float = 0.01

    access: ClassVar = "episodes"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning, ConfidenceRadii)
    summary: ClassVar = "try other actions near the expert's path, follow it until certified, then explore as ace"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The next of the three."""
        deterministic = belief.estimate.kind.deterministic
        probing = self.probing_episodes if deterministic else self.stochastic_episodes
        if belief.iteration * belief.episodes < probing:
            return Probe().plan(belief, rng)
        if not deterministic:
            return Probe().plan(belief, rng) if belief.iteration % 2 == 0 else planned(belief, self.tolerance)
        if belief.certified("policy"):
            return planned(belief, self.tolerance)
        return (Probe() if belief.iteration % self.probe_every == 0 else Advice()).plan(belief, rng)
