"""`set`: every reward that explains the expert judges policies as its matched reward does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aceirl.certificates.base import Certificate, CertificateKind, radii_certificate
from aceirl.certificates.budget import promised
from aceirl.irl.belief import Belief
from aceirl.models.tabular.dynamic_programming import optimal_values

PROMISE = (
    "for each reward that explains the expert there is a recovered one by which the value of any policy differs by at "
    "most"
)


@dataclass(frozen=True)
class RewardSet(CertificateKind):
    """Paper, (SP1), over matched pairs."""

    name: ClassVar = "set"
    summary: ClassVar = "every reward that explains the expert has a recovered one that judges all policies as it does"

    def value(self, belief: Belief) -> float:
        """(EB1) without its clipping: for matched pairs it bounds the gap between every policy's two values.

        Differs from the paper, (SP1), which stops at four times (EB1); with its own radii so does this. The matched
        reward of one in `[0, Rmax]` may leave that range, so `(H-h)·Rmax` is no ceiling here; what it loses in all
        steps to come is.
        """
        belief = promised(belief)
        mdp, radii = belief.estimate.mdp, belief.radii
        if not mdp.initial.any() or belief.estimate.counts.contradicted.any():
            return float(radii.ceiling.sum())
        if not radii.guaranteed:
            return 4 * belief.bound.value
        worst = optimal_values(mdp, radii.transition + radii.expert[:, :, None])[1]
        return min(float(mdp.initial @ worst[0]) + radii.start, float(radii.ceiling.sum()))

    def explain(self, belief: Belief) -> Certificate:
        """Where the radii are largest along the worst policy."""
        belief = promised(belief)
        return radii_certificate("set", PROMISE, belief, self.value(belief), belief.bound, belief.radii)
