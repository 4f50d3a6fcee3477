"""CATY-IRL: is a given reward compatible with what the expert does? In the tabular case.

Lazzati, Mutti and Metelli, "How does Inverse RL Scale to Large State Spaces? A Provably Efficient Approach" (NeurIPS
2024). Its exploration is RF-Express: Ménard, Domingues, Jonsson, Kaufmann, Leurent and Valko, "Fast active learning for
pure exploration in reinforcement learning" (ICML 2021).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from aceirl.bench.rivals.rebased import Rebased, judged, towards
from aceirl.certificates.base import Certificate, CertificateKind, radii_certificate
from aceirl.errors import InputError
from aceirl.irl.belief import Belief, Plan
from aceirl.irl.feasible_point import plain_reward
from aceirl.models.tabular.bounds import dynamics_bound
from aceirl.models.tabular.confidence import Radii
from aceirl.models.tabular.dynamic_programming import greedy_actions, occupancy, optimal_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray, check_reward
from aceirl.rewards import FeasibleRewardSet, Recovered, expert_loss

PROMISE = "for every reward, what the expert loses under it is known up to"

NEVER = 2.0
"""What a row never tried weighs, where one tried once weighs 1; as much as a row would that was tried half a time."""


@dataclass(frozen=True)
class RfExpress:
    """RF-Express: greedy for `W = 1/n + (1 + 1/H)·P̂·max W`, with a bonus that falls as fast as the visits grow.

    Differs: the paper's bonus is `15·H²·β/n`, cut off at `H`, and with it all actions are the same until a row has
    hundreds of visits. Without the cut a constant changes nothing, so there is none. All that follows a row never
    tried is taken to be never tried. Counts are pooled where the dynamics are stationary. CATY-IRL asks nothing of the
    expert while it explores, and has its episodes from elsewhere; here the expert is asked along the way. The
    stopping rule is the certificate `Compatibility`, which does not need the paper's constants either.
    """

    access: ClassVar = "episodes"
    summary: ClassVar = (
        "go where the states and actions on the path have the fewest visits (paper: RF-Express, CATY-IRL)"
    )

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """At each state the action with the largest bonus to come."""
        index = bonuses(belief.estimate)
        return Plan(policy=np.eye(belief.shape[2])[greedy_actions(index, rng)])


def bonuses(estimate: Estimate) -> FloatArray:
    """`W [H, S, A]`, the bonus that is still to be had from each `(h, s, a)` on."""
    mdp, visits = estimate.mdp, estimate.row_visits
    growth = np.asarray((1 + 1 / mdp.horizon) ** np.arange(mdp.horizon), dtype=np.float64)
    bonus = np.where(visits > 0, 1.0 / np.maximum(1, visits), NEVER)
    # With W'[h] = growth[h]·W[h] the factor 1 + 1/H is part of the reward of each step.
    behind = NEVER * (growth.sum() - np.cumsum(growth))
    rising = growth[:, None, None]
    return optimal_values(mdp, np.asarray(rising * bonus, dtype=np.float64), behind)[0] / rising


@dataclass(frozen=True)
class CatyIrl(Rebased):
    """The classification phase, as an algorithm: a reward that the estimate calls compatible, `Ĉ(r) ≤ threshold`.

    `base` names the algorithm whose reward is classified. If it is not compatible it is moved towards the plain
    feasible point, under which the expert loses nothing, just as far as needed: `Ĉ` is convex, so at the share
    `1 - threshold/Ĉ(r)` of that point it is at most the `threshold`, in units of `H·Rmax`. The paper classifies
    rewards that are given (see `classified`) and returns none.
    """

    threshold: float = 0.05

    def changed(self, estimate: Estimate, first: Recovered) -> Recovered:
        """The base's reward, moved if it is not compatible."""
        lost = _noncompatibility(estimate, first.reward, first.unknown_step_reward)
        allowed = self.threshold * estimate.mdp.horizon
        if lost <= allowed:
            return first
        moved = towards(first, plain_reward(estimate, 1.0), 1 - allowed / lost)
        return judged(estimate, replace(moved, explanation=None))


def noncompatibility(estimate: Estimate, reward: ArrayLike, rmax: float) -> float:
    """`Ĉ(r) = Ĵ*(r) - Ĵᴱ(r)`, Definition 4.1 in the estimated process: what the expert loses from the start.

    Differs: the paper estimates `Jᴱ` from episodes of the expert and `J*` from its own; here both are values in one
    estimated process, with the expert's answers. Where it was never asked the expert is taken to be right, and steps
    after an unknown row earn `Rmax`. By how much this may be off is the certificate `Compatibility`.
    """
    return rmax * _noncompatibility(estimate, check_reward(reward, estimate.mdp.shape) / rmax, 1.0)


def classified(estimate: Estimate, reward: ArrayLike, rmax: float, threshold: float) -> bool:
    """Whether the expert is at most `threshold` worse than the best policy under a reward (Definition 4.2).

    With an accuracy `ε` (see `Compatibility`), all that are with `threshold - ε` truly are, and none that is not with
    `threshold + ε` (Remark 4.2).
    """
    return noncompatibility(estimate, reward, rmax) <= threshold


def _noncompatibility(estimate: Estimate, reward: FloatArray, unknown_step_reward: float) -> float:
    """In units of Rmax."""
    return expert_loss(FeasibleRewardSet.of_estimate(estimate, 1.0, unknown_step_reward), reward)


@dataclass(frozen=True)
class Compatibility(CertificateKind):
    """Definition 4.3: `sup over r of |C(r) - Ĉ(r)|`, for all rewards in `[0, Rmax]` at once.

    Differs: the error of `J*` is (EB1) of the dynamics and that of `Jᴱ` the same along the expert's own way, with the
    radii of the run; the paper stops by the bonuses of RF-Express. What the expert earns from the first state on for
    which it was not asked, or behind a row never tried, may be anything. A stochastic expert's return depends on how
    often it takes each action, which no radius here bounds; so it has to be deterministic.
    """

    name: ClassVar = "compatibility"
    summary: ClassVar = "for every reward it is known what the expert loses under it (paper: CATY-IRL)"

    def check(self, expert: ExpertKind) -> None:
        """Only of a deterministic expert."""
        if not expert.deterministic:
            raise InputError("the certificate compatibility needs an expert that always gives the same answer")

    def value(self, belief: Belief) -> float:
        """The two errors; at most what an episode can pay."""
        estimate, radii = belief.estimate, belief.radii
        ceiling = float(radii.ceiling[0])
        trusted = estimate.kind.deterministic and not estimate.counts.contradicted.any()
        if not estimate.mdp.initial.any() or not trusted:
            return ceiling
        return min(dynamics_bound(estimate.mdp, radii).value + expert_error(estimate, radii), ceiling)

    def explain(self, belief: Belief) -> Certificate:
        """Where the radii are largest along the worst policy."""
        return radii_certificate(self.name, PROMISE, belief, self.value(belief), belief.bound, belief.radii)


def expert_error(estimate: Estimate, radii: Radii) -> float:
    """How far the expert's value may be from that in the estimate, for any reward: radii summed along its way.

    `Jᴱ - Ĵᴱ = Σ μ̂ᴱ·(P - P̂)·Vᴱ`, where `μ̂ᴱ` is the estimated occupancy and `Vᴱ` the true value. Mass that comes to a
    state without an answer, or to an unknown row, costs all that is left to earn.
    """
    mdp, ceiling = estimate.mdp, radii.ceiling[:, None, None]
    mu = occupancy(mdp, np.where(estimate.expert_known[:, :, None], estimate.expert_policy, 0.0))
    cost = np.where(mdp.known, np.minimum(radii.transition, ceiling), ceiling)
    arriving = np.append(mdp.initial.sum(), (mu * mdp.known).sum(axis=(1, 2))[:-1])
    unanswered = np.maximum(0.0, arriving - mu.sum(axis=(1, 2)))
    return float((mu * cost).sum() + unanswered @ radii.ceiling + radii.start)
