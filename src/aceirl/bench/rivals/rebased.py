"""What three rivals share: their papers describe sets of rewards or judge one, so that of another is changed."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

from aceirl.irl import ALGORITHMS
from aceirl.learner.named import read
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards import InverseReinforcement, Recovered, RewardSpace
from aceirl.rewards.recovered import Parameters, infeasibility


@dataclass(frozen=True)
class Rebased:
    """An algorithm that begins with the reward of another one, `base` by name."""

    base: str = "sparse-likelihood"

    @abstractmethod
    def changed(self, estimate: Estimate, first: Recovered) -> Recovered:
        """The base's reward, changed; both in units of Rmax."""

    def __call__(
        self, estimate: Estimate, rmax: float, warm: Parameters | None = None, space: RewardSpace | None = None
    ) -> Recovered:
        """What is recovered for what is known now."""
        algorithm: InverseReinforcement = read(self.base, "IRL algorithm", ALGORITHMS)
        return self.changed(estimate, algorithm(estimate, 1.0, warm or {}, space)).in_units(rmax)


def towards(first: Recovered, point: FloatArray, share: float) -> Recovered:
    """A reward moved by a share of the way to the plain feasible point `[H, S, A]`, under which the expert is right."""
    reward = (1 - share) * first.reward + share * point
    unknown = (1 - share) * first.unknown_step_reward + share
    return replace(first, reward=reward, unknown_step_reward=unknown, blend=share)


def judged(estimate: Estimate, found: Recovered) -> Recovered:
    """With the infeasibility of the reward it has now."""
    return replace(found, infeasibility=infeasibility(estimate, found.reward, found.unknown_step_reward))
