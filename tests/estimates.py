"""Estimates for the tests of inference: of small random processes, and of the paper's environments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from strategies import random_mdp

from aceirl.envs import Problem
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.irl import SparseLikelihood
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.estimate import CERTAIN, Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.rewards import Explanation, RewardSpace


def growing(seed: int, wanted: int, episodes: tuple[int, ...] = (12,), n_states: int = 4) -> Iterator[Estimate]:
    """Estimates of a process of a few states and two actions after more and more episodes of any actions.

    The expert wants, or shuns, so many places; none means that it answers at random.
    """
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (4, n_states, 2), sparsity=0.5)
    theta = np.zeros(n_states)
    theta[rng.choice(n_states, wanted, replace=False)] = rng.choice([1.0, -1.0, 0.5, -0.5], wanted)
    actions: IntArray = rng.integers(2, size=(4, n_states))
    if wanted:
        actions = optimal_values(mdp, np.broadcast_to(theta[:, None], mdp.shape).copy())[0].argmax(axis=2)
    seen = Counts.empty(mdp.shape)
    for number in episodes:
        seen += Counts.of_moves(Simulator(mdp).rollout(np.full(mdp.shape, 0.5), number, rng), mdp.shape)
        asked = seen.visits.any(axis=2, keepdims=True)
        answers = np.eye(2, dtype=np.int64)[actions] * asked
        yield Estimate.of(seen.with_answers(answers), kind=ExpertKind(), delta=0.1, initial=mdp.initial)


def observed(problem: Problem, strategy: str, samples: int, seed: int, expert: FloatArray | None = None) -> Estimate:
    """What is known after so many samples; of the expert of the problem, unless another is given."""
    shown = PolicyExpert(problem.expert if expert is None else expert, problem.mdp.shape)
    settings = Settings(strategy=strategy, irl="feasible-point", certify=None, max_samples=samples, seed=seed)
    *_, last = learn(Simulator(problem.mdp), shown, settings)
    return last.belief.estimate


def with_known_dynamics(estimate: Estimate, mdp: MDP) -> Estimate:
    """The same answers, and the process as it is."""
    known = Estimate.of(estimate.counts, kind=estimate.kind, delta=estimate.delta, initial=mdp.initial)
    vars(known).update(mdp=mdp, row_visits=np.full(mdp.shape, CERTAIN))
    return known


def explained(estimate: Estimate, space: RewardSpace | None = None) -> Explanation:
    """What the sparse likelihood makes of it, in a space or in the smallest that will do."""
    explanation = SparseLikelihood()(estimate, 1.0, None, space).explanation
    assert explanation is not None
    return explanation


def places(problem: Problem) -> FloatArray:
    """`[S]`: what the true reward pays at most in each state."""
    return np.asarray(problem.reward.max(axis=(0, 2)))
