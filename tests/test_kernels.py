"""Every compiled pass against its dense twin, over random processes of both kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracles
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import chi2
from strategies import SEEDS, from_rows, mdps, policies, random_mdp, rewards, shapes

from aceirl import kernels
from aceirl.mdp import MDP, FloatArray

CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}


def worths(draw: Any, mdp: MDP) -> FloatArray:
    """`[H]`: what follows an unknown row."""
    return np.random.default_rng(draw(SEEDS)).normal(scale=3.0, size=mdp.horizon)


@given(st.data(), mdps())
def test_backward_is_backward_induction(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    q, v = kernels.optimal_values(mdp, reward, unknown)
    expected_q, expected_v = oracles.backward_induction(*oracles.unrolled(mdp), reward, unknown)
    np.testing.assert_allclose(q, expected_q, **CLOSE)
    np.testing.assert_allclose(v, expected_v, **CLOSE)


@given(st.data(), mdps())
def test_soft_backward_is_soft_backward_induction(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    policy, v = kernels.soft_values(mdp, reward, unknown)
    expected_policy, expected_v = oracles.soft_backward_induction(*oracles.unrolled(mdp), reward, unknown)
    np.testing.assert_allclose(policy, expected_policy, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(v, expected_v, **CLOSE)
    np.testing.assert_allclose(policy.sum(axis=2), 1.0, **CLOSE)


@given(st.data(), mdps())
def test_evaluate_is_policy_evaluation(data: st.DataObject, mdp: MDP) -> None:
    reward, policy, unknown = data.draw(rewards(mdp.shape)), data.draw(policies(mdp.shape)), worths(data.draw, mdp)
    q, v = kernels.evaluate(mdp, reward, policy, unknown)
    expected_q, expected_v = oracles.policy_values(*oracles.unrolled(mdp), reward, policy, unknown)
    np.testing.assert_allclose(q, expected_q, **CLOSE)
    np.testing.assert_allclose(v, expected_v, **CLOSE)


@given(st.data(), mdps())
def test_occupancy_is_the_forward_pass(data: st.DataObject, mdp: MDP) -> None:
    policy = data.draw(policies(mdp.shape))
    expected = oracles.occupancy(oracles.unrolled(mdp)[0], mdp.initial, policy)
    np.testing.assert_allclose(kernels.occupancy(mdp, policy), expected, **CLOSE)


@given(st.data(), mdps())
def test_the_passes_themselves_start_from_the_values_after_the_last_step(data: st.DataObject, mdp: MDP) -> None:
    reward, policy, unknown = data.draw(rewards(mdp.shape)), data.draw(policies(mdp.shape)), worths(data.draw, mdp)
    last = np.random.default_rng(data.draw(SEEDS)).normal(size=mdp.n_states)
    rows = mdp.indptr, mdp.successors, mdp.probabilities, mdp.stride
    P, known = oracles.unrolled(mdp)

    def result(run, *inputs):
        out, v = np.full(mdp.shape, np.nan), np.full((mdp.horizon + 1, mdp.n_states), np.nan)
        v[-1] = last
        run(*rows, *inputs, unknown, out, v)
        assert (v[-1] == last).all()
        return out, v[:-1]

    for found, expected in (
        (result(kernels.backward, reward), oracles.backward_induction(P, known, reward, unknown, last)),
        (result(kernels.soft_backward, reward), oracles.soft_backward_induction(P, known, reward, unknown, last)),
        (
            result(kernels.evaluate_backward, reward, policy),
            oracles.policy_values(P, known, reward, policy, unknown, last),
        ),
    ):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found[1], expected[1], **CLOSE)


@given(st.data(), mdps())
def test_clipped_backward_is_eb1(data: st.DataObject, mdp: MDP) -> None:
    cost = np.abs(data.draw(rewards(mdp.shape)))
    ceiling = data.draw(st.sampled_from([0.5, 1.0, 4.0])) * np.arange(mdp.horizon, 0, -1.0)
    q, v = np.full(mdp.shape, np.nan), np.zeros((mdp.horizon + 1, mdp.n_states))
    kernels.clipped_backward(mdp.indptr, mdp.successors, mdp.probabilities, mdp.stride, cost, ceiling, q, v)
    expected = oracles.error_bound(*oracles.unrolled(mdp), cost, ceiling)
    np.testing.assert_allclose(q, expected, **CLOSE)
    np.testing.assert_allclose(v[:-1], expected.max(axis=2), **CLOSE)


@given(st.data(), mdps(shape=shapes(max_horizon=3, max_states=2, max_actions=2)))
def test_no_deterministic_policy_is_better(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    best = float(mdp.initial @ kernels.optimal_values(mdp, reward, unknown)[1][0])
    expected = oracles.best_by_enumeration(*oracles.unrolled(mdp), mdp.initial, reward, unknown)
    assert best == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.data(), mdps())
def test_dynamic_programming_and_linear_programming_agree(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    best = float(mdp.initial @ kernels.optimal_values(mdp, reward, unknown)[1][0])
    expected = oracles.best_by_lp(*oracles.unrolled(mdp), mdp.initial, reward, unknown)
    assert best == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.data(), mdps(complete=True))
def test_occupancy_of_a_complete_process_sums_to_one_at_every_step(data: st.DataObject, mdp: MDP) -> None:
    mu = kernels.occupancy(mdp, data.draw(policies(mdp.shape)))
    np.testing.assert_allclose(mu.sum(axis=(1, 2)), 1.0, **CLOSE)
    assert (mu >= 0).all()


@given(st.data(), mdps())
def test_value_is_the_reward_met_on_the_way(data: st.DataObject, mdp: MDP) -> None:
    reward, policy, unknown = data.draw(rewards(mdp.shape)), data.draw(policies(mdp.shape)), worths(data.draw, mdp)
    earned = reward + np.where(mdp.known, 0.0, unknown[:, None, None])
    value = float(mdp.initial @ kernels.evaluate(mdp, reward, policy, unknown)[1][0])
    assert value == pytest.approx(float(np.vdot(kernels.occupancy(mdp, policy), earned)), rel=1e-9, abs=1e-9)


@given(st.data(), mdps())
def test_the_greedy_policy_earns_the_optimal_value(data: st.DataObject, mdp: MDP) -> None:
    reward, unknown = data.draw(rewards(mdp.shape)), worths(data.draw, mdp)
    q, v = kernels.optimal_values(mdp, reward, unknown)
    actions = kernels.greedy_actions(q, np.random.default_rng(data.draw(SEEDS)))
    earned = kernels.evaluate(mdp, reward, np.eye(mdp.n_actions)[actions], unknown)[1]
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
        lambda m, r, p: kernels.optimal_values(m, r, unknown),
        lambda m, r, p: kernels.soft_values(m, r, unknown),
        lambda m, r, p: kernels.evaluate(m, r, p, unknown),
        lambda m, r, p: (kernels.occupancy(m, p),),
    ):
        for here, there in zip(run(mdp, reward, policy), run(twin, moved(reward), moved(policy)), strict=True):
            np.testing.assert_allclose(there, moved(here), rtol=1e-9, atol=1e-9)


@given(st.data(), mdps())
def test_inputs_stay_unchanged_and_may_be_read_only(data: st.DataObject, mdp: MDP) -> None:
    reward, policy, unknown = data.draw(rewards(mdp.shape)), data.draw(policies(mdp.shape)), worths(data.draw, mdp)
    inputs: list[Any] = [reward, policy, unknown, mdp.indptr, mdp.successors, mdp.probabilities, mdp.initial]
    before = [array.copy() for array in inputs]
    for array in inputs:
        array.flags.writeable = False
    q, _ = kernels.optimal_values(mdp, reward, unknown)
    kernels.soft_values(mdp, reward, unknown)
    kernels.evaluate(mdp, reward, policy, unknown)
    kernels.occupancy(mdp, policy)
    kept = q.copy()
    kernels.greedy_actions(q, np.random.default_rng(0))
    for array, copy in zip([*inputs, q], [*before, kept], strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_soft_value_of_large_rewards_does_not_overflow() -> None:
    mdp = MDP.from_dense([[[1.0], [1.0]]], initial=0, horizon=1)
    policy, v = kernels.soft_values(mdp, np.array([[[5000.0, 5000.0]]]))
    assert v[0, 0] == pytest.approx(5000 + np.log(2))
    np.testing.assert_allclose(policy[0, 0], 0.5)


def test_without_a_worth_nothing_follows_an_unknown_row() -> None:
    mdp = from_rows(np.ones((1, 1)), np.array([False]), (3, 1, 1), np.ones(1), stationary=True)
    q, _ = kernels.optimal_values(mdp, np.full(mdp.shape, 2.0))
    np.testing.assert_array_equal(q.ravel(), [2.0, 2.0, 2.0])


@given(st.data(), shapes())
def test_greedy_actions_are_maximisers(data: st.DataObject, shape: tuple[int, int, int]) -> None:
    q = data.draw(rewards(shape))
    actions = kernels.greedy_actions(q, np.random.default_rng(data.draw(SEEDS)))
    chosen = np.take_along_axis(q, actions[:, :, None], axis=2)[:, :, 0]
    assert (chosen >= q.max(axis=2) - 1e-10 * max(1.0, np.abs(q).max())).all()


@pytest.mark.parametrize("tied", [(0, 1, 2), (1, 3), (0, 3), (2,)])
def test_ties_are_broken_uniformly(tied: tuple[int, ...]) -> None:
    # Chi-square with n-1 degrees of freedom, each test at 1e-7.
    draws = 60_000
    q = np.zeros((20, draws // 20, 4))
    q[:, :, list(tied)] = 1.0
    chosen = np.bincount(kernels.greedy_actions(q, np.random.default_rng(5)).ravel(), minlength=4)
    assert chosen[list(tied)].sum() == draws
    expected = draws / len(tied)
    statistic = ((chosen[list(tied)] - expected) ** 2 / expected).sum()
    assert statistic <= (chi2.isf(1e-7, len(tied) - 1) if len(tied) > 1 else 0.0)


@given(SEEDS, SEEDS)
def test_the_same_seed_breaks_ties_alike_and_another_differently(seed: int, other: int) -> None:
    assume(seed != other)
    q = np.zeros((4, 50, 3))

    def actions(seed: int):
        return kernels.greedy_actions(q, np.random.default_rng(seed))

    np.testing.assert_array_equal(actions(seed), actions(seed))
    assert (actions(seed) != actions(other)).any()


@pytest.mark.parametrize("stationary", [True, False])
def test_per_step_rows_are_read_at_their_own_step(stationary: bool) -> None:
    # The twin of the wrong stride: rows of step 0 read at every step give other values.
    mdp = random_mdp(np.random.default_rng(1), (3, 3, 2), stationary=stationary, sparsity=0.0)
    P, known = oracles.unrolled(mdp)
    reward = np.random.default_rng(2).random(mdp.shape)
    first = np.repeat(P[:1], 3, axis=0)
    wrong = oracles.backward_induction(first, known, reward, np.zeros(3))[1]
    assert np.allclose(kernels.optimal_values(mdp, reward)[1], wrong) == stationary
