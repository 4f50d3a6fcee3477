"""What the Bayesian rivals share: a few samples of the posterior, and an episode through the states worth asking about.

Their papers know the dynamics and may ask about any state. Here the estimated process is taken for the true one, and a
state has to be reached: the expert is asked in every state of an episode, so the episode is planned that collects the
most of what the paper's acquisition function gives for a question. A row that was never observed counts as if it led
to the best questions there are, so that the dynamics are learnt on the way. What a deterministic expert has answered is
worth nothing any more, for it is not asked again.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from aceirl.errors import unknown_name
from aceirl.irl.belief import Belief, Plan, uniform_policy
from aceirl.irl.boltzmann import Boltzmann, Choices
from aceirl.irl.posterior import Prior, sample
from aceirl.models.tabular.dynamic_programming import greedy_actions, optimal_values
from aceirl.models.tabular.mdp import FloatArray, IntArray, steps_after
from aceirl.rewards import SPACES

COLD = 20
"""Moves of a chain before its first samples; later ones begin where the last ended."""


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Samples `thetas [M, n]` of the posterior of a Boltzmann `likelihood`, and what follows from them."""

    likelihood: Boltzmann
    thetas: FloatArray

    @cached_property
    def _experts(self) -> tuple[FloatArray, FloatArray]:
        return self.likelihood.experts(self.thetas)

    @property
    def policies(self) -> FloatArray:
        """`[M, H, S, A]`: how the expert acts, if it has each of the rewards."""
        return self._experts[0]

    @property
    def values(self) -> FloatArray:
        """`Q [M, H, S, A]`: what is best under each of the rewards; `-inf` for what was never tried."""
        return self._experts[1]

    @cached_property
    def apprentice(self) -> IntArray:
        """`[H, S]`: the best actions for the mean reward, of those that were tried."""
        mean = self.thetas.mean(axis=0, keepdims=True)
        return np.asarray(self.likelihood.experts(mean)[1][0].argmax(axis=2))

    @cached_property
    def losses(self) -> FloatArray:
        """`[M, H, S]`: by how much the apprentice earns less than the best policy, from each state on."""
        earned = self.likelihood.returns(self.thetas, self.apprentice)
        return np.asarray(np.maximum(self.values.max(axis=3) - earned, 0.0))

    @cached_property
    def immediate_losses(self) -> FloatArray:
        """`[M, H, S]`: the same, if only the next action is the apprentice's."""
        taken = np.take_along_axis(self.values, self.apprentice[None, :, :, None], axis=3)[..., 0]
        return np.asarray(self.values.max(axis=3) - taken)


@dataclass(frozen=True)
class Querying:
    """A strategy that goes where an answer is worth most, by an acquisition function of posterior samples.

    `beta` is the rationality of the expert, `space` the reward space by name, `prior` and `scale` those of
    `irl.posterior.Prior`. `chains` chains make `moves` moves a plan, and their last `kept` samples are looked at.
    """

    beta: float = 10.0
    space: str = "state"
    prior: str = "uniform"
    scale: float = 1.0
    chains: int = 12
    moves: int = 6
    kept: int = 4

    access: ClassVar = "episodes"

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise unknown_name("reward space", self.space, SPACES)

    @abstractmethod
    def acquisition(self, drawn: PosteriorDraws) -> FloatArray:
        """`[H, S]`: what an answer is worth at each step in each state, never less than zero."""

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """The episode that is worth most, by the answers that it asks for."""
        estimate = belief.estimate
        if not estimate.mdp.initial.any():
            return Plan(policy=uniform_policy(belief.shape))
        drawn, last = self.drawn(belief, rng)
        worth = self.acquisition(drawn)
        if estimate.kind.deterministic:
            worth = np.where(estimate.answered, 0.0, worth)
        worth[:, estimate.terminal_states] = 0.0
        most = float(worth.max())
        paid = np.broadcast_to(worth[:, :, None], belief.shape)
        q, _ = optimal_values(estimate.mdp, np.ascontiguousarray(paid), most * steps_after(belief.shape[0]))
        policy = np.eye(belief.shape[2])[greedy_actions(q, rng)]
        return Plan(policy=policy, memory={"z": last}, evidence={"acquisition": most})

    def drawn(self, belief: Belief, rng: np.random.Generator) -> tuple[PosteriorDraws, FloatArray]:
        """The samples, and where the chains ended, `[C, n]`; they begin where those of the last plan did."""
        estimate = belief.estimate
        design = SPACES[self.space]().design_matrix(estimate.mdp, estimate.terminal_states)
        likelihood = Boltzmann(estimate.mdp, design, self.beta, Choices.of_answers(estimate.counts.answers))
        start = belief.memory.get("z")
        if start is not None and start.shape != (self.chains, design.n_parameters):
            start = None
        kept = min(self.kept, self.moves)
        found = sample(
            likelihood,
            Prior(self.prior, self.scale),
            rng,
            chains=self.chains,
            draws=kept,
            burn_in=self.moves - kept if start is not None else COLD,
            start=start,
        )
        return PosteriorDraws(likelihood, found.all), found.last


def entropy(probabilities: FloatArray, axis: int = -1) -> FloatArray:
    """In nats, along an axis."""
    logs = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    return np.asarray(-(probabilities * logs).sum(axis=axis))
