"""US-IRL: sample everything alike, until the recovered set of rewards is close to the true one.

Metelli, Lazzati and Restelli, "Towards Theoretical Understanding of Inverse Reinforcement Learning" (ICML 2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.certificates.base import Certificate, CertificateKind, radii_certificate
from aceirl.irl.belief import Belief, Plan
from aceirl.models.tabular.bounds import error_bound
from aceirl.models.tabular.confidence import Radii, total_variation, trivial_bound
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import IntArray

PROMISE = (
    "the recovered set of rewards and the set of those that explain the expert differ, in the value of any policy, by "
    "at most"
)


@dataclass(frozen=True)
class UsIrl:
    """Algorithm 1 (US-IRL): one sample of each `(h, s, a)` after the other.

    Differs: a batch has as many samples as `N_E` episodes have steps and need not be a whole round, so the entries that
    were sampled least come first, in random order. The stopping rule is `SetDistance`.
    """

    access: ClassVar = "generative model"
    summary: ClassVar = "sample every step, state and action equally often (paper: US-IRL)"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The samples that make all visits as equal as can be."""
        samples = belief.episodes * belief.shape[0]
        return Plan(allocation=levelled(belief.estimate.counts.visits, samples, rng))


def levelled(visits: IntArray, samples: int, rng: np.random.Generator) -> IntArray:
    """As `visits`, of any shape: so many samples that the sums become as equal as can be; who is next is drawn."""
    order = np.lexsort((rng.random(visits.size), visits.ravel()))
    ranked = visits.ravel()[order]
    # Raising the first k entries to the level of the k-th takes needed[k-1] samples.
    needed = np.arange(visits.size) * ranked - (np.cumsum(ranked) - ranked)
    raised = int(np.searchsorted(needed, samples, side="right"))
    each, left = divmod(samples - int(needed[raised - 1]), raised)
    added = np.zeros(visits.size, dtype=np.int64)
    added[order[:raised]] = ranked[raised - 1] - ranked[:raised] + each
    added[rng.permutation(order[:raised])[:left]] += 1
    return added.reshape(visits.shape)


@dataclass(frozen=True)
class SetDistance(CertificateKind):
    """Theorem 6.1: the Hausdorff distance between the true and the recovered feasible set, and when to stop.

    Differs: rewards are in `[0, Rmax]` and not in `[-1, 1]`, which halves every distance in units of Rmax. What is
    asked of a certificate is in units of reward summed over an episode, so the value is `H` times the largest
    difference of two rewards at one step: no policy's value differs by more. The paper stops at that difference,
    `epsilon = H·ε` here. An expert who is not known adds its own term, as in Theorem 3.2.
    """

    name: ClassVar = "set-distance"
    summary: ClassVar = "the recovered set of rewards and the true one are close (paper: US-IRL)"

    def value(self, belief: Belief) -> float:
        """`H·distance`, at most what an episode can pay."""
        estimate = belief.estimate
        if estimate.counts.contradicted.any() or not math.isfinite(estimate.possible_states):
            return estimate.mdp.horizon * belief.rmax
        return estimate.mdp.horizon * set_distance(estimate, belief.rmax, belief.delta)

    def explain(self, belief: Belief) -> Certificate:
        """Where the radii are largest along the worst policy."""
        radii = distance_radii(belief.estimate, belief.rmax, belief.delta)
        bound = error_bound(belief.estimate.mdp, radii)
        return radii_certificate(self.name, PROMISE, belief, self.value(belief), bound, radii)


def set_distance(estimate: Estimate, rmax: float, delta: float) -> float:
    """A bound on `max |r - r̂|` between a reward of either feasible set in `[0, Rmax]` and the nearest of the other.

    Holds with probability `1 - delta` at all times at once.
    """
    radii = distance_radii(estimate, rmax, delta)
    return float(min(rmax, (radii.transition + radii.expert[:, :, None]).max()))


def distance_radii(estimate: Estimate, rmax: float, delta: float) -> Radii:
    """The confidence function of the paper: `C = 2√2·(H-h)·sqrt(β/n)`, `h` from 0, in halves of Rmax.

    `β = log(rows/δ) + (S-1)·log(e·(1 + n/(S-1)))` with `rows = S·A·H`, and `S·A` where the dynamics are stationary and
    counts are pooled. By Theorem 3.2 the distance is at most `2ρ`, where `ρ` is the largest
    `(H-h)·(|1{πᴱ=0} - 1{π̂ᴱ=0}| + ‖P - P̂‖₁)`: so an unknown expert adds `2(H-h)`. Nothing is clipped here.
    """
    horizon, n_states, n_actions = estimate.mdp.shape
    guaranteed = math.isfinite(estimate.possible_states)
    possible = int(estimate.possible_states) if guaranteed else n_states
    rows = possible * n_actions * (1 if estimate.mdp.stationary else horizon)
    part = delta if estimate.kind.deterministic else 2 / 3 * delta  # a third is spent in `ExpertKind.settled`
    l1 = 2 * total_variation(estimate.row_visits, possible, rows, part)
    reach = trivial_bound(horizon, rmax)
    return Radii(
        transition=reach[:, None, None] * l1,
        expert=np.where(estimate.expert_known, 0.0, reach[:, None]),
        start=0.0,
        ceiling=reach,
        tv_radius=l1 / 2,
        unseen_mass=l1 / 2,
        divergence=l1**2 / 2,
        guaranteed=guaranteed,
    )
