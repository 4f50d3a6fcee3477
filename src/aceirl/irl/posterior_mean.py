"""The posterior mean: the reward that a Bayesian expects, and the one whose best policy it would deploy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aceirl.irl.boltzmann import Boltzmann, Choices
from aceirl.irl.likelihood import Likelihood
from aceirl.irl.posterior import Posterior, Prior, sample
from aceirl.irl.sparse_likelihood import PENALTY, SparseFit, explanation_of
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards.recovered import Parameters, Recovered, recovered_from
from aceirl.rewards.spaces import DesignMatrix, RewardSpace, StateReward

COLD, WARM = 60, 8
"""Moves of a chain before its samples count: from the prior, and from where the last posterior ended."""


@dataclass(frozen=True)
class PosteriorMean:
    """The mean of samples from `posterior`, in a space; `beta` is the rationality of a Boltzmann expert.

    An expected return is linear in the reward, so the policy that is best for the mean reward has the largest return
    that one can expect. Ramachandran and Amir (2007). Differs: the dynamics are the estimated ones, and the samples
    come from elliptical slices. The `prior`, of that `scale`, is `uniform` or `gaussian`. `seed` decides all draws,
    together with the counts. Without a space it is `state`.
    """

    beta: float = 10.0
    prior: str = "uniform"
    scale: float = 1.0
    chains: int = 12
    draws: int = 12
    seed: int = 0

    def __call__(
        self, estimate: Estimate, rmax: float, warm: Parameters | None = None, space: RewardSpace | None = None
    ) -> Recovered:
        """The mean reward, from chains that begin where the last ones ended."""
        design = (space or StateReward()).design_matrix(estimate.mdp, estimate.terminal_states)
        found = self.posterior(estimate, design, (warm or {}).get(f"z.{design.name}"))
        mean = found.mean
        mean = mean / max(float(np.abs(mean).max()), 1e-300)
        fit = SparseFit(Likelihood(estimate), design, PENALTY)
        explanation = None if design.free else explanation_of(fit, mean)
        last, residual = {f"z.{design.name}": found.last}, float(found.r_hat.max()) - 1.0
        table = design.table(mean)
        return recovered_from(estimate, table, last, found.evaluations, residual, explanation).in_units(rmax)

    def posterior(self, estimate: Estimate, design: DesignMatrix, start: FloatArray | None = None) -> Posterior:
        """The samples themselves; `start [C, n]` is where earlier chains ended, if they were as many."""
        likelihood = Boltzmann(estimate.mdp, design, self.beta, Choices.of_answers(estimate.counts.answers))
        rng = np.random.default_rng([self.seed, estimate.counts.samples, estimate.counts.questions])
        known = start is not None and start.shape == (self.chains, design.n_parameters)
        return sample(
            likelihood,
            Prior(self.prior, self.scale),
            rng,
            chains=self.chains,
            draws=self.draws,
            burn_in=WARM if known else COLD,
            start=start if known else None,
        )
