"""`guided`: first the expert's own way, then wherever uncertainty is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.belief import Belief, Plan
from aceirl.explore.ace import planned
from aceirl.explore.advice import Advice


@dataclass(frozen=True)
class Guided:
    """Do as the expert says until what it does on its own way is certified; then explore with ACE. The default.

    The certificate `policy` is about the states the expert meets, and only episodes that do what the expert does bear
    on it, so until it holds at the accuracy asked for every episode follows the expert. All other certificates are
    about the dynamics and about states off that way, where following the expert again teaches nothing and (ACE) plans
    best. The first phase takes as many samples as the policy certificate, a vanishing share of what the others need.
    A stochastic expert has no such certificate: it is followed in every other iteration.
    """

    tolerance: float = 0.01

    access: ClassVar = "episodes"
    summary: ClassVar = "follow the expert until its way is certified, then explore as ace"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The expert's way, or that of (ACE)."""
        if belief.estimate.kind.deterministic:
            follow = not belief.certified("policy")
        else:
            follow = belief.iteration % 2 == 0
        return Advice().plan(belief, rng) if follow else planned(belief, self.tolerance)
