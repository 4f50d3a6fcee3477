"""`dynamics`: whatever the reward, planning with the estimated dynamics is as good as with the true ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from aceirl.certificates.base import Certificate, CertificateKind, radii_certificate
from aceirl.certificates.budget import promised
from aceirl.irl.belief import Belief
from aceirl.models.tabular.bounds import dynamics_bound

PROMISE = "planning with the estimated dynamics loses, for any reward, at most"


@dataclass(frozen=True)
class Dynamics(CertificateKind):
    """What planning in the estimated process may lose, for any reward in `[0, Rmax]`; the rule of reward-free UCRL.

    The plan's value and the best one are each estimated up to (EB1) of the dynamics.
    """

    name: ClassVar = "dynamics"
    summary: ClassVar = "for any reward, planning with the estimated dynamics is as good as with the true ones"

    def value(self, belief: Belief) -> float:
        """Twice (EB1) of the dynamics alone."""
        belief = promised(belief)
        return min(2 * dynamics_bound(belief.estimate.mdp, belief.radii).value, float(belief.radii.ceiling[0]))

    def explain(self, belief: Belief) -> Certificate:
        """Where the radii of the dynamics are largest along the worst policy."""
        belief = promised(belief)
        bound = dynamics_bound(belief.estimate.mdp, belief.radii)
        radii = replace(belief.radii, expert=np.zeros_like(belief.radii.expert))
        return radii_certificate("dynamics", PROMISE, belief, self.value(belief), bound, radii, expert=False)
