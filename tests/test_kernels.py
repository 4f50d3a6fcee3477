"""Every compiled pass against its dense twin, over random processes of both kinds."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import oracles
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import chi2
from strategies import SEEDS, from_rows, mdps, policies, random_mdp, rewards, shapes

from aceirl.models.tabular import dynamic_programming as dp
from aceirl.models.tabular import kernels
from aceirl.models.tabular.mdp import MDP, FloatArray, steps_after, steps_left

CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}


def worths(draw: Any, mdp: MDP) -> FloatArray:
    """`[H]`: what follows an unknown row."""
    return np.random.default_rng(draw(SEEDS)).normal(scale=3.0, size=mdp.horizon)


@given(st.data(), mdps())
def test_backward_is_backward_induction(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    q, v = dp.optimal_values(mdp, reward, unknown)
    expected_q, expected_v = oracles.backward_induction(*oracles.unrolled(mdp), reward, unknown)
    np.testing.assert_allclose(q, expected_q, **CLOSE)
    np.testing.assert_allclose(v, expected_v, **CLOSE)


@given(st.data(), mdps())
def test_soft_backward_is_soft_backward_induction(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    policy, v = dp.soft_values(mdp, reward, unknown)
    expected_policy, expected_v = oracles.soft_backward_induction(*oracles.unrolled(mdp), reward, unknown)
    np.testing.assert_allclose(policy, expected_policy, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(v, expected_v, **CLOSE)
    np.testing.assert_allclose(policy.sum(axis=2), 1.0, **CLOSE)


@given(st.data(), mdps())
def test_evaluate_is_policy_evaluation(data: st.DataObject, mdp: MDP) -> None:
    reward, policy, unknown = data.draw(rewards(mdp.shape)), data.draw(policies(mdp.shape)), worths(data.draw, mdp)
    q, v = dp.evaluate(mdp, reward, policy, unknown)
    expected_q, expected_v = oracles.policy_values(*oracles.unrolled(mdp), reward, policy, unknown)
    np.testing.assert_allclose(q, expected_q, **CLOSE)
    np.testing.assert_allclose(v, expected_v, **CLOSE)


@given(st.data(), mdps(), st.booleans())
def test_returns_and_the_best_policy_are_those_of_the_sweeps_with_tables(
    data: st.DataObject, mdp: MDP, same_at_every_step: bool
) -> None:
    reward, policy = np.round(data.draw(rewards(mdp.shape)), 1), data.draw(policies(mdp.shape))
    if same_at_every_step:
        reward = np.broadcast_to(reward[:1], mdp.shape)  # a view of one step is read as that
    table = np.ascontiguousarray(reward)
    q, v = dp.optimal_values(mdp, table)
    worst, own = -dp.optimal_values(mdp, -table)[1][0], dp.evaluate(mdp, table, policy)[1][0]
    expected = [float(mdp.initial @ values) for values in (v[0], worst, own)]
    np.testing.assert_allclose(dp.returns(mdp, reward, policy), expected, **CLOSE)
    ties = q >= v[:, :, None] - 1e-9 * np.abs(q).max()
    np.testing.assert_allclose(dp.best_policy(mdp, reward, 1e-9), ties / ties.sum(axis=2, keepdims=True), **CLOSE)


@given(st.data(), mdps())
def test_following_actions_is_evaluating_the_policy_that_takes_them(data: st.DataObject, mdp: MDP) -> None:
    reward = data.draw(rewards(mdp.shape))
    actions = np.random.default_rng(data.draw(SEEDS)).integers(-1, mdp.n_actions, size=mdp.shape[:2])
    any_alike = np.full(mdp.shape, 1 / mdp.n_actions)
    policy = np.where((actions < 0)[:, :, None], any_alike, np.eye(mdp.n_actions)[actions])
    np.testing.assert_array_equal(dp.follow(mdp, reward, actions), dp.evaluate(mdp, reward, policy)[1])


@given(st.data(), shapes())
def test_actions_that_are_not_allowed_are_never_the_best(data: st.DataObject, shape: tuple[int, int, int]) -> None:
    q, rng = np.round(data.draw(rewards(shape)), 1), np.random.default_rng(data.draw(SEEDS))
    allowed = rng.random(shape) < 0.5
    allowed[:, :, 0] |= ~allowed.any(axis=2)
    found = dp.greedy_actions(q, np.random.default_rng(3), allowed)
    np.testing.assert_array_equal(found, dp.greedy_actions(np.where(allowed, q, -np.inf), np.random.default_rng(3)))


@given(st.data(), mdps())
def test_occupancy_is_the_forward_pass(data: st.DataObject, mdp: MDP) -> None:
    policy = data.draw(policies(mdp.shape))
    expected = oracles.occupancy(oracles.unrolled(mdp)[0], mdp.initial, policy)
    np.testing.assert_allclose(dp.occupancy(mdp, policy), expected, **CLOSE)


@given(st.data(), mdps())
def test_the_passes_themselves_start_from_the_values_after_the_last_step(data: st.DataObject, mdp: MDP) -> None:
    reward, policy, unknown = data.draw(rewards(mdp.shape)), data.draw(policies(mdp.shape)), worths(data.draw, mdp)
    last = np.random.default_rng(data.draw(SEEDS)).normal(size=mdp.n_states)
    P, known = oracles.unrolled(mdp)

    def result(run, *parameters):
        out, v = np.full(mdp.shape, np.nan), np.full((mdp.horizon + 1, mdp.n_states), np.nan)
        v[-1] = last
        run(*mdp.transitions.rows, reward, unknown, *parameters, out, v)
        assert (v[-1] == last).all()
        return out, v[:-1]

    for found, expected in (
        (result(kernels.backward), oracles.backward_induction(P, known, reward, unknown, last)),
        (result(kernels.soft_backward), oracles.soft_backward_induction(P, known, reward, unknown, last)),
        (result(kernels.evaluate_backward, policy), oracles.policy_values(P, known, reward, policy, unknown, last)),
    ):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found[1], expected[1], **CLOSE)


@given(st.data(), mdps())
def test_clipped_backward_is_eb1(data: st.DataObject, mdp: MDP) -> None:
    cost = np.abs(data.draw(rewards(mdp.shape)))
    ceiling = data.draw(st.sampled_from([0.5, 1.0, 4.0])) * steps_left(mdp.horizon)
    behind_unknown = np.where(steps_after(mdp.horizon) > 0, np.inf, 0.0)
    q, v = np.full(mdp.shape, np.nan), np.zeros((mdp.horizon + 1, mdp.n_states))
    kernels.clipped_backward(*mdp.transitions.rows, cost, behind_unknown, ceiling, q, v)
    expected = oracles.error_bound(*oracles.unrolled(mdp), cost, ceiling)
    np.testing.assert_allclose(q, expected, **CLOSE)
    np.testing.assert_allclose(v[:-1], expected.max(axis=2), **CLOSE)


@given(st.data(), mdps(shape=shapes(max_horizon=3, max_states=2, max_actions=2)))
def test_no_deterministic_policy_is_better(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    best = float(mdp.initial @ dp.optimal_values(mdp, reward, unknown)[1][0])
    expected = oracles.best_by_enumeration(*oracles.unrolled(mdp), mdp.initial, reward, unknown)
    assert best == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.data(), mdps())
def test_dynamic_programming_and_linear_programming_agree(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    best = float(mdp.initial @ dp.optimal_values(mdp, reward, unknown)[1][0])
    expected = oracles.best_by_lp(*oracles.unrolled(mdp), mdp.initial, reward, unknown)
    assert best == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.data(), mdps(complete=True))
def test_occupancy_of_a_complete_process_sums_to_one_at_every_step(data: st.DataObject, mdp: MDP) -> None:
    mu = dp.occupancy(mdp, data.draw(policies(mdp.shape)))
    np.testing.assert_allclose(mu.sum(axis=(1, 2)), 1.0, **CLOSE)
    assert (mu >= 0).all()


@given(st.data(), mdps())
def test_value_is_the_reward_met_on_the_way(data: st.DataObject, mdp: MDP) -> None:
    reward, policy, unknown = data.draw(rewards(mdp.shape)), data.draw(policies(mdp.shape)), worths(data.draw, mdp)
    earned = reward + np.where(mdp.known, 0.0, unknown[:, None, None])
    value = float(mdp.initial @ dp.evaluate(mdp, reward, policy, unknown)[1][0])
    assert value == pytest.approx(float(np.vdot(dp.occupancy(mdp, policy), earned)), rel=1e-9, abs=1e-9)


@given(st.data(), mdps())
def test_the_greedy_policy_earns_the_optimal_value(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    q, v = dp.optimal_values(mdp, reward, unknown)
    actions = dp.greedy_actions(q, np.random.default_rng(data.draw(SEEDS)))
    earned = dp.evaluate(mdp, reward, np.eye(mdp.n_actions)[actions], unknown)[1]
    np.testing.assert_allclose(earned, v, rtol=1e-8, atol=1e-8)


@given(st.data(), mdps())
def test_relabelling_states_and_actions_permutes_the_answers(data: st.DataObject, mdp: MDP) -> None:
    horizon, n_states, n_actions = mdp.shape
    reward, policy, unknown = data.draw(rewards(mdp.shape)), data.draw(policies(mdp.shape)), worths(data.draw, mdp)
    states = np.array(data.draw(st.permutations(range(n_states))))
    actions = np.array(data.draw(st.permutations(range(n_actions))))
    P, known = oracles.unrolled(mdp)
    steps = 1 if mdp.stationary else horizon
    twin = from_rows(
        P[:steps][:, states][:, :, actions][..., states].reshape(-1, n_states),
        known[:steps][:, states][:, :, actions].ravel(),
        mdp.shape,
        mdp.initial[states],
        stationary=mdp.stationary,
    )

    def moved(array: FloatArray) -> FloatArray:
        return np.ascontiguousarray(array[:, states][:, :, actions] if array.ndim == 3 else array[:, states])

    for run in (
        lambda m, r, p: dp.optimal_values(m, r, unknown),
        lambda m, r, p: dp.soft_values(m, r, unknown),
        lambda m, r, p: dp.evaluate(m, r, p, unknown),
        lambda m, r, p: (dp.occupancy(m, p),),
    ):
        for here, there in zip(run(mdp, reward, policy), run(twin, moved(reward), moved(policy)), strict=True):
            np.testing.assert_allclose(there, moved(here), rtol=1e-9, atol=1e-9)


@given(st.data(), mdps())
def test_inputs_stay_unchanged_and_may_be_read_only(data: st.DataObject, mdp: MDP) -> None:
    reward, policy, unknown = data.draw(rewards(mdp.shape)), data.draw(policies(mdp.shape)), worths(data.draw, mdp)
    indptr, successors, probabilities, _ = mdp.transitions.rows
    inputs: list[Any] = [reward, policy, unknown, indptr, successors, probabilities, mdp.initial]
    before = [array.copy() for array in inputs]
    for array in inputs:
        array.flags.writeable = False
    q, _ = dp.optimal_values(mdp, reward, unknown)
    dp.soft_values(mdp, reward, unknown)
    dp.evaluate(mdp, reward, policy, unknown)
    dp.occupancy(mdp, policy)
    kept = q.copy()
    dp.greedy_actions(q, np.random.default_rng(0))
    for array, copy in zip([*inputs, q], [*before, kept], strict=True):
        np.testing.assert_array_equal(array, copy)


@given(st.data(), mdps(shape=shapes(max_horizon=3, max_states=2, max_actions=2)))
def test_no_allowed_policy_is_worse(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    horizon, n_states, n_actions = mdp.shape
    rng = np.random.default_rng(data.draw(SEEDS))
    allowed = rng.random(mdp.shape) < 0.6
    allowed[..., 0] |= ~allowed.any(axis=2)  # everywhere something is
    q, v = dp.worst_values(mdp, reward, allowed, unknown)
    P, known = oracles.unrolled(mdp)
    choices = [np.flatnonzero(row) for row in allowed.reshape(-1, n_actions)]
    values = [
        oracles.policy_values(P, known, reward, np.eye(n_actions)[np.reshape(actions, (horizon, n_states))], unknown)[1]
        for actions in itertools.product(*choices)
    ]
    np.testing.assert_allclose(v, np.min(values, axis=0), **CLOSE)
    later = np.vstack((v[1:], np.zeros((1, n_states))))
    ahead = np.where(known, np.einsum("hsat,ht->hsa", P, later), unknown[:, None, None])
    np.testing.assert_allclose(q, reward + ahead, **CLOSE)


@given(st.data(), mdps())
def test_the_worst_of_all_policies_is_the_best_of_the_opposite_reward(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    everything = np.ones(mdp.shape, dtype=np.bool_)
    found = dp.worst_values(mdp, reward, everything, unknown)
    opposite = dp.optimal_values(mdp, -reward, -unknown)
    for one, other in zip(found, opposite, strict=True):
        np.testing.assert_allclose(one, -other, **CLOSE)


def test_a_soft_value_of_large_rewards_does_not_overflow() -> None:
    mdp = MDP.from_dense([[[1.0], [1.0]]], initial=0, horizon=1)
    policy, v = dp.soft_values(mdp, np.array([[[5000.0, 5000.0]]]))
    assert v[0, 0] == pytest.approx(5000 + np.log(2))
    np.testing.assert_allclose(policy[0, 0], 0.5)


def test_without_a_worth_nothing_follows_an_unknown_row() -> None:
    mdp = from_rows(np.ones((1, 1)), np.array([False]), (3, 1, 1), np.ones(1), stationary=True)
    q, _ = dp.optimal_values(mdp, np.full(mdp.shape, 2.0))
    np.testing.assert_array_equal(q.ravel(), [2.0, 2.0, 2.0])


@given(st.data(), shapes())
def test_greedy_actions_are_maximisers(data: st.DataObject, shape: tuple[int, int, int]) -> None:
    q = data.draw(rewards(shape))
    actions = dp.greedy_actions(q, np.random.default_rng(data.draw(SEEDS)))
    chosen = np.take_along_axis(q, actions[:, :, None], axis=2)[:, :, 0]
    assert (chosen >= q.max(axis=2) - 1e-10 * max(1.0, np.abs(q).max())).all()


@pytest.mark.parametrize("tied", [(0, 1, 2), (1, 3), (0, 3), (2,)])
def test_ties_are_broken_uniformly(tied: tuple[int, ...]) -> None:
    # Chi-square with n-1 degrees of freedom, each test at 1e-7.
    draws = 60_000
    q = np.zeros((20, draws // 20, 4))
    q[:, :, list(tied)] = 1.0
    chosen = np.bincount(dp.greedy_actions(q, np.random.default_rng(5)).ravel(), minlength=4)
    assert chosen[list(tied)].sum() == draws
    expected = draws / len(tied)
    statistic = ((chosen[list(tied)] - expected) ** 2 / expected).sum()
    assert statistic <= (chi2.isf(1e-7, len(tied) - 1) if len(tied) > 1 else 0.0)


@given(SEEDS, SEEDS)
def test_the_same_seed_breaks_ties_alike_and_another_differently(seed: int, other: int) -> None:
    assume(seed != other)
    q = np.zeros((4, 50, 3))

    def actions(seed: int):
        return dp.greedy_actions(q, np.random.default_rng(seed))

    np.testing.assert_array_equal(actions(seed), actions(seed))
    assert (actions(seed) != actions(other)).any()


STEPPED_THROUGH = """
import json
import sys

import numpy as np

import aceirl.learner.engine
from aceirl.models.tabular import dynamic_programming as dp
from aceirl.models.tabular import kernels
from aceirl.envs import make

problem = make("random-mdp", 0, n_states=3, n_actions=2, horizon=3)
allowed = problem.expert > 0
found = (
    dp.optimal_values(problem.mdp, problem.reward),
    dp.soft_values(problem.mdp, problem.reward),
    dp.evaluate(problem.mdp, problem.reward, problem.expert),
    dp.worst_values(problem.mdp, problem.reward, allowed),
    (dp.occupancy(problem.mdp, problem.expert),),
)
print(json.dumps([type(kernels.backward).__name__, [[array.tolist() for array in one] for one in found]]))
"""


def test_without_compiling_the_passes_can_be_stepped_through_and_say_the_same() -> None:
    kinds, values = [], []
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        ran = subprocess.run(
            [sys.executable, "-c", STEPPED_THROUGH], env=environment, capture_output=True, text=True, check=True
        )
        kind, found = json.loads(ran.stdout)
        kinds.append(kind)
        values.append(found)
    assert kinds == ["CPUDispatcher", "function"]
    for compiled, stepped in zip(*values, strict=True):
        for one, two in zip(compiled, stepped, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("stationary", [True, False])
def test_per_step_rows_are_read_at_their_own_step(stationary: bool) -> None:
    # The twin of the wrong stride: rows of step 0 read at every step give other values.
    mdp = random_mdp(np.random.default_rng(1), (3, 3, 2), stationary=stationary, sparsity=0.0)
    P, known = oracles.unrolled(mdp)
    reward = np.random.default_rng(2).random(mdp.shape)
    first = np.repeat(P[:1], 3, axis=0)
    wrong = oracles.backward_induction(first, known, reward, np.zeros(3))[1]
    assert np.allclose(dp.optimal_values(mdp, reward)[1], wrong) == stationary
