"""Discounted problems against value iteration, closed forms, linear programmes and the sweeps over steps."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from scipy.optimize import linprog

from aceirl.errors import InputError
from aceirl.models.tabular.discounted import Discounted, effective_horizon
from aceirl.models.tabular.dynamic_programming import evaluate, optimal_values, soft_values
from aceirl.models.tabular.mdp import MDP, Transitions


def process(seed: int, n_states: int = 7, n_actions: int = 3) -> tuple[Transitions, np.ndarray]:
    rng = np.random.default_rng(seed)
    dense = rng.dirichlet(np.full(n_states, 0.3), size=(n_states, n_actions))
    return MDP.from_dense(dense, initial=0, horizon=1).transitions, rng.normal(size=(n_states, n_actions))


def value_iteration(transitions: Transitions, reward: np.ndarray, discount: float, scale: float) -> np.ndarray:
    """The plain route: back up until nothing changes."""
    dense, v = transitions.dense(), np.zeros(transitions.n_states)
    for _ in range(20_000):
        q = reward + discount * dense @ v
        new = q.max(axis=1) if scale == 0 else scale * np.log(np.exp(q / scale).sum(axis=1))
        if np.abs(new - v).max() < 1e-13:
            break
        v = new
    return v


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("discount", [0.0, 0.9])
@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0])
def test_the_fixed_point_is_that_of_value_iteration(seed: int, discount: float, scale: float) -> None:
    transitions, reward = process(seed)
    found = Discounted(transitions, discount, scale).solve(reward)
    np.testing.assert_allclose(found.v, value_iteration(transitions, reward, discount, scale), atol=1e-9)
    assert found.steps < 15
    assert found.residual < 1e-9
    np.testing.assert_allclose(found.policy.sum(axis=1), 1)


def test_the_optimum_is_that_of_the_linear_programme() -> None:
    transitions, reward = process(9)
    discount, dense = 0.9, transitions.dense()
    rows = np.eye(7)[:, None, :] - discount * dense
    solved = linprog(np.ones(7), A_ub=-rows.reshape(-1, 7), b_ub=-reward.reshape(-1), bounds=(None, None))
    np.testing.assert_allclose(Discounted(transitions, discount).solve(reward).v, solved.x, atol=1e-8)


def test_one_state_has_a_closed_form() -> None:
    transitions = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=1).transitions
    reward, scale, discount = np.array([[1.0, 0.5]]), 0.4, 0.9999
    found = Discounted(transitions, discount, scale).solve(reward)
    step = scale * np.log(np.exp(1.0 / scale) + np.exp(0.5 / scale))
    np.testing.assert_allclose(found.v, step / (1 - discount), rtol=1e-10)
    np.testing.assert_allclose(found.policy[0, 0], 1 / (1 + np.exp(-0.5 / scale)), rtol=1e-10)
    assert found.steps <= 3, "Newton needs two steps where a contraction needs two hundred thousand"


def test_a_small_scale_comes_near_the_maximum() -> None:
    transitions, reward = process(3)
    hard = Discounted(transitions, 0.9).solve(reward)
    soft = Discounted(transitions, 0.9, 1e-3).solve(reward)
    assert (soft.v >= hard.v - 1e-9).all()
    np.testing.assert_allclose(soft.v, hard.v, atol=1e-3 * np.log(3) / 0.1)


def test_a_policy_is_worth_what_its_visits_pay() -> None:
    transitions, reward = process(5)
    problem = Discounted(transitions, 0.8)
    rng = np.random.default_rng(0)
    policy, initial = rng.dirichlet(np.ones(3), size=7), rng.dirichlet(np.ones(7))
    q, v = problem.evaluate(reward, policy)
    visits = problem.occupancy(initial, policy)
    np.testing.assert_allclose(visits.sum(), 1 / (1 - 0.8))
    np.testing.assert_allclose((visits * reward).sum(), initial @ v)
    np.testing.assert_allclose((policy * q).sum(axis=1), v)
    assert (problem.solve(reward).v >= v - 1e-12).all()


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_a_long_horizon_is_none(scale: float) -> None:
    """The first of many steps of a discounted sweep is the fixed point, of the maximum and of the soft one."""
    transitions, reward = process(2)
    mdp = MDP(300, transitions, np.full(7, 1 / 7), 0.9)
    table = np.tile(reward, (300, 1, 1))
    found = (optimal_values if scale == 0 else soft_values)(mdp, table)[1][0]
    np.testing.assert_allclose(found, Discounted(transitions, 0.9, scale).solve(reward).v, atol=1e-10)


def test_a_long_horizon_is_a_fixed_point_up_to_what_is_left() -> None:
    transitions, reward = process(4)
    discount, bound = 0.9, float(np.abs(reward).max())
    horizon = effective_horizon(discount, bound, 1e-3)
    swept = optimal_values(MDP(horizon, transitions, np.full(7, 1 / 7), discount), np.tile(reward, (horizon, 1, 1)))[1]
    gap = np.abs(swept[0] - Discounted(transitions, discount).solve(reward).v).max()
    assert gap <= 1e-3
    assert discount ** (horizon - 1) * bound / (1 - discount) > 1e-3, "one step fewer is not enough by the formula"


def test_ending_at_random_is_discounting() -> None:
    transitions, reward = process(6)
    discount, initial = 0.85, np.full(7, 1 / 7)
    horizon = effective_horizon(discount, float(np.abs(reward).max()), 1e-7)
    mdp = oracles.ending(MDP(horizon, transitions, initial, discount))
    policy = np.random.default_rng(1).dirichlet(np.ones(3), size=7)
    paid = np.broadcast_to(np.vstack([reward, np.zeros(3)]), mdp.shape).copy()
    chosen = np.broadcast_to(np.vstack([policy, np.full(3, 1 / 3)]), mdp.shape).copy()
    value = mdp.initial @ evaluate(mdp, paid, chosen)[1][0]
    np.testing.assert_allclose(
        value, initial @ Discounted(transitions, discount).evaluate(reward, policy)[1], atol=1e-6
    )


def walk_to_the_end() -> Transitions:
    """Two states and an end: action 0 stays, action 1 goes on. In the end nothing can be done."""
    return Transitions(
        n_states=3, n_actions=2, indptr=np.array([0, 1, 2, 3, 4, 4, 4]), successors=np.array([0, 1, 1, 2]),
        probabilities=np.ones(4),
    )  # fmt: skip


def test_a_state_without_actions_is_terminal() -> None:
    problem = Discounted(walk_to_the_end(), 1.0)
    _, v = problem.evaluate(np.full((3, 2), -1.0), np.array([[0.5, 0.5], [0, 1], [0, 0]]))
    np.testing.assert_allclose(v, [-3, -1, 0])
    found = Discounted(walk_to_the_end(), 0.5).solve(np.array([[-1.0, -1], [-1, -1], [5, 5]]))
    np.testing.assert_allclose(found.v, [-1.5, -1, 0])
    assert not found.policy[2].any()


def test_what_cannot_be_solved_is_said() -> None:
    transitions, reward = process(0)
    with pytest.raises(InputError, match=r"discount must be a number from 0 to 1, got 1\.2"):
        Discounted(process(0)[0], 1.2)
    with pytest.raises(InputError, match="same at every step"):
        Discounted(MDP.from_dense(np.full((2, 1, 1, 1), 1.0), initial=0).transitions, 0.9)
    with pytest.raises(InputError, match=r"reward must have shape \[7, 3\], got \[7\]"):
        Discounted(transitions, 0.9).solve(reward[:, 0])
    with pytest.raises(InputError, match="every state must lead to a terminal one"):
        Discounted(walk_to_the_end(), 1.0).evaluate(np.zeros((3, 2)), np.array([[1.0, 0], [0, 1], [0, 0]]))
    with pytest.raises(InputError, match="action 0 is available in state 2"):
        Discounted(walk_to_the_end(), 0.9, available=np.ones((3, 2), dtype=bool))
    with pytest.raises(InputError, match=r"policy\[1\] is \[0.5, 0.0, 0.0\]"):
        Discounted(transitions, 0.9).evaluate(reward, np.array([[1, 0, 0], [0.5, 0, 0], *[[1, 0, 0]] * 5]))
    with pytest.raises(InputError, match="give a horizon"):
        effective_horizon(1.0, 1.0, 0.1)
