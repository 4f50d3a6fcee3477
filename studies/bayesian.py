"""Problems in which a posterior over rewards can be judged: a reward is drawn from the prior, its expert is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aceirl.envs import make
from aceirl.irl.boltzmann import Boltzmann, Choices
from aceirl.irl.posterior import Posterior, Prior, sample
from aceirl.models.tabular.dynamic_programming import boltzmann_policy, optimal_values
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.rewards import DesignMatrix, FeatureReward, RewardSpace, StateReward

PADDING_STATE: IntArray = np.zeros(0, dtype=np.int64)


def drawn_ranking(scores: FloatArray, rng: np.random.Generator) -> list[int]:
    """All actions in an order drawn by Plackett and Luce: the first in proportion to `exp(scores [A])`, and so on."""
    # The order of scores with Gumbel noise is such a draw.
    return [int(action) for action in np.argsort(-(scores + rng.gumbel(size=len(scores))), kind="stable")]


@dataclass(frozen=True, eq=False)
class Scene:
    """A known process, a space, a prior, and how an expert of rationality `beta` is asked `questions` times.

    `ranked` experts put all actions in order. Chains take `draws` samples each after `burn_in` moves.
    """

    name: str
    mdp: MDP
    space: RewardSpace
    prior: Prior
    beta: float
    questions: int
    ranked: bool = False
    chains: int = 8
    draws: int = 150
    burn_in: int = 60

    @property
    def design(self) -> DesignMatrix:
        """The space, laid over the process."""
        return self.space.design_matrix(self.mdp, PADDING_STATE)

    def drawn(self, rng: np.random.Generator) -> tuple[FloatArray, Boltzmann]:
        """A reward `[n]` of the prior, and the likelihood of what its expert answers in states drawn at random."""
        design = self.design
        theta = self.prior.parameters(rng.standard_normal(design.n_parameters))
        horizon, n_states, n_actions = self.mdp.shape
        steps, states = rng.integers(horizon, size=self.questions), rng.integers(n_states, size=self.questions)
        if self.ranked:
            scores = self.beta * optimal_values(self.mdp, design.table(theta))[0]
            asked_at = zip(steps.tolist(), states.tolist(), strict=True)
            choices = Choices.of_rankings([(h, s, *drawn_ranking(scores[h, s], rng)) for h, s in asked_at], n_actions)
        else:
            asked = np.zeros((horizon, n_states), dtype=np.int64)
            np.add.at(asked, (steps, states), 1)
            policy = boltzmann_policy(self.mdp, design.table(theta), self.beta)
            choices = Choices.of_answers(rng.multinomial(asked, policy / policy.sum(axis=2, keepdims=True)))
        return theta, Boltzmann(self.mdp, design, self.beta, choices)

    def posterior(self, likelihood: Boltzmann, rng: np.random.Generator) -> Posterior:
        """Its samples."""
        return sample(likelihood, self.prior, rng, chains=self.chains, draws=self.draws, burn_in=self.burn_in)


def corridor(seed: int) -> Scene:
    """Two places, stay or go, and a Gaussian prior: two parameters, so that the posterior can be integrated."""
    moves = np.zeros((2, 2, 2))
    moves[:, 0], moves[:, 1] = np.eye(2), np.eye(2)[::-1]
    mdp = MDP.from_dense(moves, initial=0, horizon=3)
    return Scene("two places", mdp, StateReward(), Prior("gaussian"), beta=1.5, questions=24)


def room(seed: int) -> Scene:
    """The paper's 3x3 room with five steps, a reward of states, and a uniform prior."""
    mdp = make("gridworld", seed, horizon=5).mdp
    return Scene(
        "3x3 room", mdp, StateReward(), Prior("uniform"), beta=4.0, questions=30, chains=12, draws=110, burn_in=60
    )


def ranked(seed: int) -> Scene:
    """A random process, a reward of three random features, a Gaussian prior, and an expert who ranks the actions."""
    mdp = make("random-mdp", seed, n_states=4, n_actions=3, horizon=4).mdp
    features = np.random.default_rng(seed).normal(size=(mdp.n_states, mdp.n_actions, 3))
    return Scene(
        "ranked, random MDP", mdp, FeatureReward(features), Prior("gaussian"), beta=2.0, questions=10, ranked=True
    )


SCENES: tuple[Callable[[int], Scene], ...] = (corridor, room, ranked)
"""Each makes a scene from a seed."""
