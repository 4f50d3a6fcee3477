"""Distances between rewards: each against its definition written out, and what must not change them."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import unrolled
from scipy import sparse
from scipy.sparse.linalg import splu
from strategies import SEEDS, mdps, random_mdp, random_policy, rewards

from aceirl.envs import make
from aceirl.errors import InputError
from aceirl.models.tabular.dynamic_programming import evaluate, greedy_actions, occupancy, optimal_values
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray, Transitions
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import dard, epic, largest_regret, shaping, starc
from aceirl.rewards.shaping import unshaped

Distance = Callable[..., float]


def by_epic(mdp: MDP, first: Any, second: Any, **options: Any) -> float:
    """EPIC, called like the others."""
    return epic(first, second, horizon=mdp.horizon, **options)


DISTANCES: dict[str, Distance] = {"epic": by_epic, "dard": dard, "starc": starc}
every_distance = pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES.keys())


# The definitions, written out.


def epic_form(reward: FloatArray, states: FloatArray, actions: FloatArray) -> FloatArray:
    """The canonical form of `reward [H, S, A, S']`, any reward of transitions, with every expectation enumerated."""
    form, following = reward.copy(), next_step(reward)
    n_states, n_actions = len(states), len(actions)
    for h, s, a, t in np.ndindex(reward.shape):
        for S, A, S1 in itertools.product(range(n_states), range(n_actions), range(n_states)):
            inside = following[h, t, A, S1] - reward[h, s, A, S1] - following[h, S, A, S1]
            form[h, s, a, t] += states[S] * actions[A] * states[S1] * inside
    return form


def dard_form(reward: FloatArray, P: FloatArray, actions: FloatArray) -> FloatArray:
    """The canonical form of `reward [H, S, A, S']` in the process `P [H, S, A, S']`, likewise."""
    form, following, P_following = reward.copy(), next_step(reward), np.concatenate((P[1:], P[-1:]))
    _, n_states, n_actions, _ = reward.shape
    for h, s, a, t in np.ndindex(reward.shape):
        for A, S1, S2 in itertools.product(range(n_actions), range(n_states), range(n_states)):
            inside = following[h, t, A, S2] - reward[h, s, A, S1] - following[h, S1, A, S2]
            form[h, s, a, t] += actions[A] * P[h, s, A, S1] * P_following[h, t, A, S2] * inside
    return form


def next_step(array: FloatArray) -> FloatArray:
    return np.concatenate((array[1:], np.zeros_like(array[:1])))


def pearson_distance(first: FloatArray, second: FloatArray, weights: FloatArray) -> float:
    """From the weighted correlation; a form that does not vary has distance 0 from such a one and ½ from others."""
    flat = weights.ravel() / weights.sum()
    one, two = (form.ravel() - flat @ form.ravel() for form in (first, second))
    spread_one, spread_two = (np.sqrt(flat @ form**2) for form in (one, two))
    still_one, still_two = (spread < 1e-9 for spread in (spread_one, spread_two))
    if still_one or still_two:
        return 0.0 if still_one and still_two else 0.5
    return float(np.sqrt(max(0.0, (1 - flat @ (one * two) / (spread_one * spread_two)) / 2)))


def shaping_matrix(mdp: MDP) -> FloatArray:
    """`[H·S·A, H·S]`: from potentials to what they add to a reward."""
    P, _ = unrolled(mdp)
    horizon, n_states, _ = mdp.shape
    matrix = np.zeros((*mdp.shape, horizon, n_states))
    for h, s, a in np.ndindex(mdp.shape):
        matrix[h, s, a, h, s] += 1
        if h + 1 < horizon:
            matrix[h, s, a, h + 1] -= P[h, s, a]
    return matrix.reshape(int(np.prod(mdp.shape)), horizon * n_states)


def starc_by_least_squares(mdp: MDP, first: FloatArray, second: FloatArray, coverage: FloatArray) -> float:
    root = np.sqrt(coverage.ravel() / coverage.sum())
    matrix = root[:, None] * shaping_matrix(mdp)
    forms = []
    for reward in (first, second):
        target = root * reward.ravel()
        form = target - matrix @ np.linalg.lstsq(matrix, target, rcond=None)[0]
        norm = np.linalg.norm(form)
        forms.append(form / norm if norm > 1e-9 * np.abs(reward).max() else np.zeros_like(form))
    return float(np.linalg.norm(forms[0] - forms[1]) / 2)


def shaped(mdp: MDP, reward: FloatArray, potential: FloatArray) -> FloatArray:
    """The reward with shaping by `potential [H, S]`, which is zero after the last step."""
    P, _ = unrolled(mdp)
    return np.asarray(reward - potential[:, :, None] + np.einsum("hsat,ht->hsa", P, next_step(potential)))


def deterministic_policies(shape: tuple[int, int, int]) -> list[FloatArray]:
    horizon, n_states, n_actions = shape
    choices = itertools.product(range(n_actions), repeat=horizon * n_states)
    return [np.eye(n_actions)[np.reshape(choice, (horizon, n_states))] for choice in choices]


def returns(mdp: MDP, reward: FloatArray, policies: list[FloatArray]) -> FloatArray:
    return np.array([mdp.initial @ evaluate(mdp, reward, policy)[1][0] for policy in policies])


def random_coverage(rng: np.random.Generator, mdp: MDP, kind: str) -> FloatArray:
    """ "uniform", "positive", or "holes": where a policy gets that never takes some actions."""
    if kind == "holes":
        return occupancy(mdp, random_policy(rng, mdp.shape, "sparse"))
    return np.ones(mdp.shape) if kind == "uniform" else rng.exponential(size=mdp.shape)


COVERAGES = st.sampled_from(["uniform", "positive", "holes"])
TINY = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[MDP, FloatArray, FloatArray]:
    """A small process and two rewards."""
    mdp = draw(mdps(complete=True, shape=TINY))
    return mdp, draw(rewards(mdp.shape)), draw(rewards(mdp.shape))


def scaled(reward: FloatArray) -> FloatArray:
    """With one as the largest entry, so that what is zero up to rounding can be told."""
    return np.asarray(reward / max(np.abs(reward).max(), 1e-300))


def of_transitions(reward: FloatArray) -> FloatArray:
    """`[H, S, A, S']`: the same whatever the successor."""
    return np.repeat(scaled(reward)[..., None], reward.shape[1], axis=3)


@given(pairs(), COVERAGES, SEEDS)
@settings(max_examples=40)
def test_epic_is_the_definition(pair: tuple[MDP, FloatArray, FloatArray], kind: str, seed: int) -> None:
    mdp, first, second = pair
    coverage = random_coverage(np.random.default_rng(seed), mdp, kind)
    coverage /= coverage.sum()
    states, actions = coverage.sum(axis=(0, 2)), coverage.sum(axis=(0, 1))
    forms = [epic_form(of_transitions(reward), states, actions) for reward in (first, second)]
    expected = pearson_distance(forms[0], forms[1], coverage[..., None] * states)
    assert epic(first, second, coverage=coverage) == pytest.approx(expected, abs=1e-7)


@given(pairs(), COVERAGES, SEEDS)
@settings(max_examples=40)
def test_dard_is_the_definition(pair: tuple[MDP, FloatArray, FloatArray], kind: str, seed: int) -> None:
    mdp, first, second = pair
    P, _ = unrolled(mdp)
    coverage = random_coverage(np.random.default_rng(seed), mdp, kind)
    actions = coverage.sum(axis=(0, 1)) / coverage.sum()
    forms = [dard_form(of_transitions(reward), P, actions) for reward in (first, second)]
    expected = pearson_distance(forms[0], forms[1], coverage[..., None] * P)
    assert dard(mdp, first, second, coverage=coverage) == pytest.approx(expected, abs=1e-7)


@given(pairs(), COVERAGES, SEEDS)
def test_starc_is_the_definition(pair: tuple[MDP, FloatArray, FloatArray], kind: str, seed: int) -> None:
    mdp, first, second = pair
    coverage = random_coverage(np.random.default_rng(seed), mdp, kind)
    expected = starc_by_least_squares(mdp, first, second, coverage)
    assert starc(mdp, first, second, coverage=coverage) == pytest.approx(expected, abs=1e-7)


@given(mdps(complete=True, shape=TINY), SEEDS)
@settings(max_examples=20)
def test_the_forms_that_are_compared_with_have_the_invariance_of_the_papers(mdp: MDP, seed: int) -> None:
    """Shaping that depends on the successor, `φ_{h+1}(s') - φ_h(s)`, changes neither EPIC's nor DARD's form."""
    rng = np.random.default_rng(seed)
    P, _ = unrolled(mdp)
    reward, potential = rng.normal(size=P.shape), rng.normal(size=mdp.shape[:2])
    other = reward + next_step(potential)[:, None, None, :] - potential[:, :, None, None]
    states, actions = rng.dirichlet(np.ones(mdp.n_states)), rng.dirichlet(np.ones(mdp.n_actions))
    difference = epic_form(other, states, actions) - epic_form(reward, states, actions)
    np.testing.assert_allclose(difference, 0, atol=1e-12)
    np.testing.assert_allclose(dard_form(other, P, actions), dard_form(reward, P, actions), atol=1e-12)


# What must not change a distance, and what must.


@every_distance
@given(pairs(), SEEDS)
def test_factors_constants_and_the_first_state_do_not_count(
    distance: Distance, pair: tuple[MDP, FloatArray, FloatArray], seed: int
) -> None:
    mdp, first, second = pair
    rng = np.random.default_rng(seed)
    changed = rng.choice([1e-3, 1.0, 1e3]) * (first + rng.normal(size=(mdp.horizon, 1, 1)))
    changed[0] += rng.normal(size=(mdp.n_states, 1))
    assert distance(mdp, changed, second) == pytest.approx(distance(mdp, first, second), abs=1e-6)
    assert distance(mdp, first, changed) == pytest.approx(0, abs=1e-6)


@given(pairs(), COVERAGES, SEEDS)
def test_shaping_in_the_process_does_not_change_starc(
    pair: tuple[MDP, FloatArray, FloatArray], kind: str, seed: int
) -> None:
    mdp, first, second = pair
    rng = np.random.default_rng(seed)
    coverage = random_coverage(rng, mdp, kind)
    changed = shaped(mdp, first, rng.choice([1.0, 100.0]) * rng.normal(size=mdp.shape[:2]))
    expected = starc(mdp, first, second, coverage=coverage)
    assert starc(mdp, changed, second, coverage=coverage) == pytest.approx(expected, abs=1e-6)
    assert starc(mdp, first, changed, coverage=coverage) == pytest.approx(0, abs=1e-6)


@every_distance
@given(pairs(), COVERAGES, SEEDS)
def test_they_are_distances(distance: Distance, pair: tuple[MDP, FloatArray, FloatArray], kind: str, seed: int) -> None:
    """Symmetric, zero for equals, within [0, 1], and no detour is shorter."""
    mdp, first, second = pair
    rng = np.random.default_rng(seed)
    coverage = random_coverage(rng, mdp, kind)
    third = rng.choice([-1, 0, 1]) * first + rng.normal(size=mdp.shape)

    def between(one: FloatArray, two: FloatArray) -> float:
        return distance(mdp, one, two, coverage=coverage)

    assert between(first, first) == 0
    assert between(first, second) == between(second, first)
    assert 0 <= between(first, second) <= 1
    assert between(first, second) <= between(first, third) + between(third, second) + 1e-9


@every_distance
@given(SEEDS)
@settings(max_examples=20)
def test_opposite_rewards_are_farthest_and_relabelled_states_are_the_same(distance: Distance, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (3, 4, 2), stationary=bool(seed % 2))
    first, second = rng.normal(size=(2, *mdp.shape))
    assert distance(mdp, first, -first) == pytest.approx(1, abs=1e-9)
    order = rng.permutation(mdp.n_states)
    dense = mdp.transitions.dense()[..., order, :, :][..., order]
    relabelled = MDP.from_dense(dense, initial=mdp.initial[order], horizon=mdp.horizon)
    moved = distance(relabelled, first[:, order], second[:, order])
    assert moved == pytest.approx(distance(mdp, first, second), abs=1e-9)


@every_distance
def test_rewards_that_prefer_nothing_are_half_way_from_all_others(distance: Distance) -> None:
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, (3, 4, 2))
    nothing, constant, other = np.zeros(mdp.shape), np.full(mdp.shape, 0.1), rng.normal(size=mdp.shape)
    by_step = np.broadcast_to(rng.normal(size=(3, 1, 1)), mdp.shape)
    for one, two in itertools.product((nothing, constant, by_step), repeat=2):
        assert distance(mdp, one, two) == 0
    for one in (nothing, constant, by_step):
        assert [distance(mdp, one, other), distance(mdp, other, one)] == pytest.approx([0.5, 0.5], abs=1e-12)
    only_shaping = shaped(mdp, nothing, rng.normal(size=mdp.shape[:2]))
    assert starc(mdp, only_shaping, nothing) == 0
    assert starc(mdp, only_shaping, other) == pytest.approx(0.5, abs=1e-12)


@every_distance
def test_a_reward_without_steps_is_the_same_at_every_step(distance: Distance) -> None:
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, (3, 4, 2))
    first, second, coverage = rng.random((3, 4, 2))
    given_rewards = [first.copy(), second.copy()]
    every_step = [np.repeat(array[None], 3, axis=0) for array in (first, second, coverage)]
    expected = distance(mdp, every_step[0], every_step[1], coverage=every_step[2])
    assert distance(mdp, first, second.tolist(), coverage=coverage) == pytest.approx(expected, abs=1e-12)
    assert distance(mdp, first, every_step[1], coverage=17 * every_step[2]) == pytest.approx(expected, abs=1e-12)
    np.testing.assert_array_equal([first, second], given_rewards)


# Shaping, and the ordering of policies.


def test_what_differs_by_shaping_is_the_same_here_but_not_elsewhere() -> None:
    """In its process the shaped reward has the same best policies. EPIC, which knows no process, sees a difference, and
    rightly so: in another process the shaping is none, and planning with it goes wrong there."""
    here, elsewhere = make("four-paths", 0), make("four-paths", 1)
    potential = np.random.default_rng(0).normal(size=here.mdp.shape[:2])
    disguised = shaped(here.mdp, here.reward, potential)
    assert starc(here.mdp, here.reward, disguised) < 1e-10
    assert largest_regret([here.mdp], disguised, here.reward) < 1e-9
    assert epic(here.reward, disguised) > 0.5
    assert dard(here.mdp, here.reward, disguised) > 0.5
    assert starc(elsewhere.mdp, here.reward, disguised) > 0.1
    assert largest_regret([here.mdp, elsewhere.mdp], disguised, here.reward) > 0.1


@given(SEEDS)
@settings(max_examples=30)
def test_starc_is_zero_exactly_if_policies_are_ordered_alike(seed: int) -> None:
    """All 16 policies, and with them all mixtures: the same order if their returns differ by a positive factor and a
    constant. What happens where episodes cannot get does not matter to a coverage that is zero there."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (2, 2, 2), stationary=False, sparsity=rng.choice([0.0, 0.7]), start="point")
    policies = deterministic_policies(mdp.shape)
    reachable = occupancy(mdp, np.full(mdp.shape, 0.5))
    first = rng.normal(size=mdp.shape)
    alike = shaped(mdp, first, rng.normal(size=mdp.shape[:2])) + np.where(reachable > 0, 0.0, [3.0, -3.0])
    different = alike + 0.1 * rng.normal(size=mdp.shape)
    alike *= rng.uniform(0.1, 10)
    assert ordered_alike(returns(mdp, first, policies), returns(mdp, alike, policies))
    assert starc(mdp, first, alike, coverage=reachable) < 1e-8
    assert starc(mdp, first, alike) > 1e-3, "from a start in the other state policies are ordered otherwise"
    assert not ordered_alike(returns(mdp, first, policies), returns(mdp, different, policies))
    assert starc(mdp, first, different, coverage=reachable) > 1e-5


def ordered_alike(first: FloatArray, second: FloatArray) -> bool:
    one, two = first - first.mean(), second - second.mean()
    return bool(one @ two > (1 - 1e-10) * np.linalg.norm(one) * np.linalg.norm(two))


def test_the_same_best_policy_is_not_the_same_ordering() -> None:
    mdp = MDP.from_dense(np.ones((1, 3, 1)), initial=0, horizon=1)
    first, second = np.array([[0.0, 1.0, 10.0]]), np.array([[1.0, 0.0, 10.0]])
    assert largest_regret([mdp], first, second) == 0
    assert starc(mdp, first, second) > 0.01


# How shaping is taken out.


def test_nothing_is_left_to_take_out_of_a_large_sparse_process() -> None:
    """What is left is orthogonal to all shaping, and differs by shaping: no policy's lead over another has changed."""
    rng = np.random.default_rng(0)
    mdp = sparse_process(rng, (15, 2000, 3), successors=3)
    reward, weights = rng.normal(size=mdp.shape), rng.exponential(size=mdp.shape)
    left = unshaped(mdp, reward, weights)
    potential = rng.normal(size=mdp.shape[:2])
    change = potential[:, :, None] - mdp.transitions.expect(next_step(potential))
    assert abs(np.vdot(weights * left, change)) < 1e-9 * np.sqrt(
        np.vdot(weights * reward, reward) * np.vdot(weights * change, change)
    )
    for actions in rng.integers(3, size=(3, *mdp.shape[:2])):
        lead = occupancy(mdp, np.eye(3)[actions]) - occupancy(mdp, np.full(mdp.shape, 1 / 3))
        assert np.vdot(lead, left) == pytest.approx(np.vdot(lead, reward), abs=1e-9)


def sparse_process(rng: np.random.Generator, shape: tuple[int, int, int], successors: int) -> MDP:
    horizon, n_states, n_actions = shape
    rows = Transitions(
        n_states=n_states,
        n_actions=n_actions,
        indptr=np.arange(n_states * n_actions + 1) * successors,
        successors=rng.integers(n_states, size=n_states * n_actions * successors).astype(np.int32),
        probabilities=rng.dirichlet(np.ones(successors), n_states * n_actions).ravel(),
    )
    return MDP(horizon, rows, np.full(n_states, 1 / n_states))


@pytest.mark.parametrize("horizon", [1, 20, 300])
def test_a_factorisation_leaves_the_same(horizon: int) -> None:
    mdp = replace(make("four-paths", 0).mdp, horizon=horizon)
    reward = np.random.default_rng(0).random(mdp.shape)
    own = sparse.kron(sparse.eye_array(horizon * mdp.n_states), np.ones((mdp.n_actions, 1)))
    following = sparse.kron(sparse.eye_array(horizon, k=1), mdp.transitions.matrix)
    matrix = sparse.csc_array(own - following)
    potential = splu(sparse.csc_array(matrix.T @ matrix)).solve(matrix.T @ reward.ravel())
    left = unshaped(mdp, reward, np.ones(mdp.shape))
    np.testing.assert_allclose(left.ravel(), reward.ravel() - matrix @ potential, atol=1e-9)


def test_a_search_that_does_not_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shaping, "MAX_ITERATIONS", 3)
    mdp = make("four-paths", 0).mdp
    with pytest.raises(RuntimeError, match="not removed in 3 iterations"):
        starc(mdp, np.random.default_rng(0).random(mdp.shape), np.ones(mdp.shape))


# Regret.


@given(SEEDS, st.booleans())
@settings(max_examples=40)
def test_the_largest_regret_is_that_of_the_worst_best_policy(seed: int, whole: bool) -> None:
    """All policies enumerated: the worst under `second` of those that are best under `first`, ties included."""
    rng = np.random.default_rng(seed)
    targets = [random_mdp(rng, (2, 2, 2), stationary=bool(rng.integers(2))) for _ in range(3)]
    first, second = rng.normal(size=(2, 2, 2, 2))
    if whole:
        first, second = np.round(first), np.round(second)
    expected = []
    for mdp in targets:
        policies = deterministic_policies(mdp.shape)
        # Best in every state, whether the start leads there or not.
        anywhere = replace(mdp, initial=np.full(2, 0.5))
        under_first, under_second = returns(anywhere, first, policies), returns(mdp, second, policies)
        best = under_first >= under_first.max() - 1e-9
        span = np.ptp(under_second)
        expected.append((under_second.max() - under_second[best].min()) / span if span > 1e-12 else 0.0)
    assert largest_regret(targets, first, second) == pytest.approx(max(expected), abs=1e-9)
    assert largest_regret(targets, second, second) < 1e-9


def test_without_ties_it_is_the_regret_of_the_truth() -> None:
    rng = np.random.default_rng(0)
    targets = [make("four-paths", seed).mdp for seed in range(3)]
    first, true = rng.random(targets[0].shape), rng.random(targets[0].shape)
    regrets = [Truth(mdp, true).regret(best_actions(mdp, first)) for mdp in targets]
    assert largest_regret(targets, first, true) == pytest.approx(max(regrets), abs=1e-12)
    assert 0 < min(regrets) < max(regrets)


def best_actions(mdp: MDP, reward: FloatArray) -> IntArray:
    return greedy_actions(optimal_values(mdp, reward)[0], np.random.default_rng(0))


def test_a_reward_that_says_nothing_risks_everything_and_one_that_asks_for_nothing_is_always_met() -> None:
    mdp = random_mdp(np.random.default_rng(0), (3, 4, 2))
    rng = np.random.default_rng(1)
    reward = rng.normal(size=mdp.shape)
    assert largest_regret([mdp], np.zeros(mdp.shape), reward) == pytest.approx(1.0, abs=1e-12)
    assert largest_regret([mdp], reward, np.full(mdp.shape, 0.3)) == 0
    only_shaping = shaped(mdp, np.zeros(mdp.shape), rng.normal(size=mdp.shape[:2]))
    assert largest_regret([mdp], reward, only_shaping) == 0
    other_horizons = [mdp, replace(mdp, horizon=7)]
    assert largest_regret(other_horizons, -reward[0], reward[0]) == pytest.approx(1.0, abs=1e-12)
    assert largest_regret(other_horizons, 1e-9 * reward[0], reward[0]) == pytest.approx(0.0, abs=1e-12)


# Mistakes.


@every_distance
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"first": np.zeros((2, 4, 2))}, r"first must have shape \[3, 4, 2\] or \[4, 2\], got \[2, 4, 2\]"),
        ({"second": np.zeros((4, 3))}, r"(second must have shape|same states and actions).*got .*\[4, 3\]"),
        ({"first": np.zeros(4)}, "first must have shape"),
        ({"second": np.full((4, 2), np.nan)}, r"second\[0, 0\] is nan, not a finite number"),
        ({"coverage": -np.eye(4)[:, :2]}, r"coverage\[0, 0, 0\] is negative"),
        ({"coverage": np.zeros((4, 2))}, "coverage is 0 everywhere"),
        ({"coverage": np.ones(4)}, "coverage must have shape"),
    ],
)
def test_mistakes_are_named(distance: Distance, changed: dict[str, Any], message: str) -> None:
    mdp = random_mdp(np.random.default_rng(0), (3, 4, 2))
    arguments = {"first": np.ones((3, 4, 2)), "second": np.ones((4, 2)), **changed}
    with pytest.raises(InputError, match=message):
        distance(mdp, **arguments)


def test_a_horizon_is_asked_for_and_checked() -> None:
    with pytest.raises(InputError, match=r"horizon must be given if both rewards have shape \[S, A\]"):
        epic(np.ones((4, 2)), np.ones((4, 2)))
    with pytest.raises(InputError, match="horizon must be a whole number of at least 1, got 0"):
        epic(np.ones((4, 2)), np.ones((4, 2)), horizon=0)
    with pytest.raises(InputError, match=r"first must have shape \[5, 4, 2\] or \[4, 2\], got \[3, 4, 2\]"):
        epic(np.ones((3, 4, 2)), np.ones((4, 2)), horizon=5)
    with pytest.raises(InputError, match="none of them 0"):
        epic(np.ones((3, 0, 2)), np.ones((3, 0, 2)))


def test_processes_must_be_complete_and_targets_fit() -> None:
    reward = np.ones((3, 4, 2))
    rng = np.random.default_rng(0)
    mdp, partly_known = random_mdp(rng, reward.shape), random_mdp(rng, reward.shape, unknown=0.5)
    for distance in (dard, starc):
        with pytest.raises(InputError, match="sum to 0, not to 1"):
            distance(partly_known, reward, reward)
    with pytest.raises(InputError, match="sum to 0, not to 1"):
        largest_regret([mdp, partly_known], reward, reward)
    with pytest.raises(InputError, match=r"second, in targets\[1\], must have shape \[5, 4, 2\]"):
        largest_regret([mdp, replace(mdp, horizon=5)], reward[0], reward)
    with pytest.raises(InputError, match="targets is empty"):
        largest_regret([], reward, reward)


def test_a_coverage_that_leads_where_nothing_is_covered_is_refused() -> None:
    """The potential of such a state would be free, and could explain any reward of what leads there."""
    mdp = MDP.from_dense([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]], initial=0, horizon=3)
    coverage = np.ones(mdp.shape)
    coverage[2, 1] = 0
    reward = np.random.default_rng(0).random(mdp.shape)
    with pytest.raises(InputError, match=r"coverage\[1, 0, 1\] is positive, but no action is covered in some state"):
        starc(mdp, reward, -reward, coverage=coverage)
    coverage[:, 1], coverage[:2, 0, 1] = 0, 0
    assert starc(mdp, reward, 2 * reward, coverage=coverage) == pytest.approx(0, abs=1e-9)


def test_the_page_runs_and_prints_what_it_says() -> None:
    page = Path(__file__).parents[1] / "docs" / "distances.md"
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "text"]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(blocks[0][1], str(page), "exec"), {})
    assert output.getvalue() == blocks[1][1]
