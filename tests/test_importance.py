"""The importance of the expert's answers, against acting without each of them."""

from __future__ import annotations

import numpy as np
import pytest

from aceirl import Settings
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.learner.loop import learn
from aceirl.models.tabular.dynamic_programming import evaluate, occupancy, optimal_values
from aceirl.models.tabular.mdp import steps_after
from aceirl.rewards import answer_importance


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("name", ["gridworld", "double-chain"])
def test_an_answer_is_as_important_as_a_guess_instead_of_it_is_costly(name: str, stationary: bool) -> None:
    problem = make(name, 3, horizon=6)
    environment = Simulator(problem.mdp)
    table = problem.expert[0] if stationary else problem.expert
    expert = PolicyExpert(table, problem.mdp.shape, stationary=stationary)
    # Under this reward nothing is better than what the expert is known to do.
    paper = {"irl": "max-causal-entropy", "reward": "any"}
    settings = Settings(strategy="random", episodes_per_iteration=5, max_samples=120, seed=1, **paper)
    *_, turn = learn(environment, expert, settings)
    known, recovered, policy = turn.belief.estimate, turn.belief.recovered, turn.policy
    assert policy is not None
    horizon, n_states, n_actions = known.mdp.shape
    after_unknown = recovered.unknown_step_reward * steps_after(horizon)
    answered = known.kind.pooled(known.counts.answers).any(axis=2)

    def value(table: np.ndarray) -> float:
        v = evaluate(known.mdp, recovered.reward, table, after_unknown)[1]
        return float(known.mdp.initial @ v[0])

    acting = np.eye(n_actions)[policy]
    lost = np.zeros(n_states)
    for h, s in np.argwhere(answered):
        guessing = acting.copy()
        guessing[h, s] = 1 / n_actions
        lost[s] += value(acting) - value(guessing)
    assert (lost > 1e-3).sum() >= 3
    np.testing.assert_allclose(answer_importance(known, recovered, policy), lost / lost.sum(), atol=1e-9)


@pytest.mark.parametrize("name", ["gridworld", "double-chain"])
def test_where_the_reward_does_not_explain_an_answer_a_guess_is_compared_with_the_best_action(name: str) -> None:
    """A reward in a small space need not make every answer the best one, and shares are never negative all the same."""
    problem = make(name, 3, horizon=6)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    settings = Settings(strategy="probe", episodes_per_iteration=5, max_samples=180, seed=1, reward="state")
    *_, turn = learn(Simulator(problem.mdp), expert, settings)
    known, recovered = turn.belief.estimate, turn.belief.recovered
    horizon, n_states, n_actions = known.mdp.shape
    q, _ = optimal_values(known.mdp, recovered.reward, recovered.unknown_step_reward * steps_after(horizon))
    here = occupancy(known.mdp, np.eye(n_actions)[turn.policy])
    saved = np.zeros(n_states)
    for h, s in np.ndindex(horizon, n_states):
        if known.counts.answers[h, s].any():
            saved[s] += here[h, s].sum() * (q[h, s].max() - q[h, s].mean())
    shares = answer_importance(known, recovered, turn.policy)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(shares, saved / saved.sum(), atol=1e-9)
