"""Reward spaces: linear maps with their adjoints, and what they pay for, against loops and enumeration."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, mdps, random_mdp, random_policy

from aceirl.errors import InputError
from aceirl.irl import FeasiblePoint, MaxMargin
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import evaluate, optimal_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray, steps_left
from aceirl.rewards import (
    SPACES,
    AnyReward,
    AutoReward,
    DesignMatrix,
    FeatureReward,
    RewardSpace,
    StateActionReward,
    StateReward,
)

NAMES = [*SPACES, "features", "features of actions"]


def space_of(name: str, mdp: MDP, rng: np.random.Generator) -> RewardSpace:
    """A space by name; features are drawn."""
    if name in SPACES:
        return SPACES[name]()
    by_state = rng.normal(size=(mdp.n_states, 3))
    wide = rng.normal(size=(mdp.n_states, mdp.n_actions, 3))
    return FeatureReward(by_state if name == "features" else wide)


@st.composite
def laid(draw: st.DrawFn) -> tuple[MDP, IntArray, RewardSpace, np.random.Generator]:
    """Any process, unknown rows and all, any of its states terminal, and any space."""
    mdp = draw(mdps())
    rng = np.random.default_rng(draw(SEEDS))
    terminal = np.flatnonzero(rng.random(mdp.n_states) < draw(st.sampled_from([0.0, 0.4])))
    return mdp, terminal, space_of(draw(st.sampled_from(NAMES)), mdp, rng), rng


def ending(rng: np.random.Generator, shape: tuple[int, int, int], ends: int, *, stationary: bool = True) -> MDP:
    """A process whose last states keep whoever gets there; it starts elsewhere."""
    P, _ = oracles.unrolled(random_mdp(rng, shape, stationary=stationary, sparsity=0.3))
    P[:, -ends:] = np.eye(shape[1])[-ends:, None]
    initial = np.append(rng.dirichlet(np.ones(shape[1] - ends)), np.zeros(ends))
    return MDP.from_dense(P[0] if stationary else P, initial=initial, horizon=shape[0])


def by_hand(space: RewardSpace, design: DesignMatrix, mdp: MDP, terminal: IntArray, theta: FloatArray) -> FloatArray:
    """`r [H, S, A]` as the spaces are defined, entry by entry."""
    P, _ = oracles.unrolled(mdp)
    table = np.zeros(mdp.shape)

    def own(h: int, s: int, a: int) -> float:
        if isinstance(space, AnyReward):
            return float(theta.reshape(mdp.shape)[h, s, a])
        if isinstance(space, StateReward):
            return float(theta[s])
        if isinstance(space, StateActionReward):
            of = (design.states == s) & (design.actions == (-1 if s in terminal else a))
            return float(theta[np.flatnonzero(of)[0]])
        assert isinstance(space, FeatureReward)
        features = space.features[s] if space.features.ndim == 2 else space.features[s, a]
        return float(features @ theta[: len(features)])

    for h, s, a in np.ndindex(mdp.shape):
        if isinstance(space, AnyReward):
            table[h, s, a] = own(h, s, a)
        elif s in terminal:
            table[h, s, a] = theta[-1]  # hurry
        else:
            table[h, s, a] = own(h, s, a) + sum(P[h, s, a, end] * own(h, end, 0) for end in terminal)
    return table


@given(laid())
def test_a_table_is_what_the_definition_says_entry_by_entry(
    drawn: tuple[MDP, IntArray, RewardSpace, np.random.Generator],
) -> None:
    mdp, terminal, space, rng = drawn
    design = space.design_matrix(mdp, terminal)
    theta = rng.normal(size=design.n_parameters)
    expected = by_hand(space, design, mdp, terminal, theta)
    np.testing.assert_allclose(design.table(theta), expected, rtol=1e-9, atol=1e-12)
    assert design.name == space.name
    assert design.has_step_cost == (len(terminal) > 0 and not isinstance(space, AnyReward))
    assert len(design.states) == len(design.actions) == design.n_parameters


@given(laid())
def test_tables_are_linear_and_the_adjoint_is_the_adjoint(
    drawn: tuple[MDP, IntArray, RewardSpace, np.random.Generator],
) -> None:
    mdp, terminal, space, rng = drawn
    design = space.design_matrix(mdp, terminal)
    first, second = rng.normal(size=(2, design.n_parameters))
    together = design.table(2.0 * first - 3.0 * second)
    np.testing.assert_allclose(together, 2.0 * design.table(first) - 3.0 * design.table(second), rtol=1e-9, atol=1e-12)
    weights = rng.normal(size=mdp.shape)
    pulled = design.adjoint(weights)
    assert pulled.shape == first.shape
    scale = np.abs(design.table(first)).sum() + 1
    assert np.vdot(design.table(first), weights) == pytest.approx(float(first @ pulled), rel=1e-9, abs=1e-12 * scale)
    assert not design.table(np.zeros(design.n_parameters)).any()


@given(laid())
def test_one_step_stands_for_all_where_rewards_do_not_depend_on_it(
    drawn: tuple[MDP, IntArray, RewardSpace, np.random.Generator],
) -> None:
    mdp, terminal, space, rng = drawn
    design = space.design_matrix(mdp, terminal)
    several = rng.normal(size=(3, design.n_parameters))
    steps = design.steps(several)
    alike = not isinstance(space, AnyReward) and (mdp.stationary or not len(terminal))
    assert steps.shape == (3, 1 if alike else mdp.horizon, *mdp.shape[1:])
    for theta, step in zip(several, steps, strict=True):
        np.testing.assert_allclose(np.broadcast_to(step, mdp.shape), design.table(theta), rtol=1e-12, atol=1e-14)


@given(laid())
def test_what_is_paid_is_the_table_without_what_ends_bring_and_without_hurry(
    drawn: tuple[MDP, IntArray, RewardSpace, np.random.Generator],
) -> None:
    mdp, terminal, space, rng = drawn
    design = space.design_matrix(mdp, terminal)
    theta = rng.normal(size=design.n_parameters)
    paid = design.paid(theta)
    without_ends = space.design_matrix(mdp, np.zeros(0, dtype=np.int64))
    acting = np.setdiff1d(np.arange(mdp.n_states), terminal)
    if isinstance(space, StateActionReward):
        for k, (state, action) in enumerate(zip(design.states, design.actions, strict=True)):
            if state >= 0:
                np.testing.assert_allclose(paid[state] if action < 0 else paid[state, action], theta[k])
    else:
        own = without_ends.table(theta[: without_ends.n_parameters]).mean(axis=0)
        np.testing.assert_allclose(paid[acting], own[acting], rtol=1e-9, atol=1e-12)
        if not isinstance(space, FeatureReward) or space.features.ndim == 2:
            np.testing.assert_allclose(paid, own, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("name", ["state", "state-action", "features"])
def test_a_terminal_place_is_paid_once_on_arrival_and_hurry_at_every_step_after(name: str, stationary: bool) -> None:
    """The value of a policy, against all its episodes one by one."""
    rng = np.random.default_rng(5)
    mdp = ending(rng, (3, 4, 2), 2, stationary=stationary)
    terminal = np.array([2, 3])
    space = space_of(name, mdp, rng)
    design = space.design_matrix(mdp, terminal)
    theta = rng.normal(size=design.n_parameters)
    payment, hurry = design.paid(theta), float(theta[-1])
    policy = random_policy(rng, mdp.shape)
    P, _ = oracles.unrolled(mdp)
    expected = 0.0
    for path in product(range(4), repeat=4):
        for actions in product(range(2), repeat=3):
            chance, earned = mdp.initial[path[0]], 0.0
            for h, a in enumerate(actions):
                here, there = path[h], path[h + 1]
                chance *= policy[h, here, a] * P[h, here, a, there]
                earned += hurry if here in terminal else payment[here, a]
                earned += payment[there, 0] if there in terminal and here not in terminal else 0.0
            expected += chance * earned
    value = float(mdp.initial @ evaluate(mdp, design.table(theta), policy)[1][0])
    assert value == pytest.approx(expected, rel=1e-9)


@given(SEEDS, st.sampled_from(["state", "state-action", "features"]), st.booleans())
def test_hurry_is_what_each_step_before_the_end_costs_up_to_a_constant(seed: int, name: str, stationary: bool) -> None:
    rng = np.random.default_rng(seed)
    mdp = ending(rng, (4, 5, 3), 2, stationary=stationary)
    design = space_of(name, mdp, rng).design_matrix(mdp, np.array([3, 4]))
    theta = rng.normal(size=design.n_parameters)
    hurry, patient = float(theta[-1]), np.append(theta[:-1], 0.0)
    costly = design.table(patient) - np.where(np.arange(5) < 3, hurry, 0.0)[:, None]
    hurrying, _ = optimal_values(mdp, design.table(theta))
    paying, _ = optimal_values(mdp, costly)
    np.testing.assert_allclose(hurrying - hurry * steps_left(4)[:, None, None], paying, rtol=1e-9, atol=1e-9)


@given(SEEDS, st.booleans())
def test_each_space_has_all_rewards_of_the_smaller_ones(seed: int, stationary: bool) -> None:
    assert list(SPACES) == ["state", "state-action", "any"]
    rng = np.random.default_rng(seed)
    mdp = ending(rng, (3, 5, 2), 2, stationary=stationary)
    maps = [SPACES[name]().design_matrix(mdp, np.array([3, 4])) for name in SPACES]
    for smaller, larger in pairwise(maps):
        assert smaller.n_parameters < larger.n_parameters
        wanted = smaller.table(rng.normal(size=smaller.n_parameters)).ravel()
        columns = np.array([larger.table(unit).ravel() for unit in np.eye(larger.n_parameters)]).T
        found, *_ = np.linalg.lstsq(columns, wanted)
        np.testing.assert_allclose(columns @ found, wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "named"),
    [((4, 2), r"\[3, K\]"), ((3,), r"\[3, K\]"), ((3, 2, 2, 1), r"\[3, K\]"), ((3, 5, 2), "5 actions")],
)
def test_features_of_the_wrong_shape_are_refused(shape: tuple[int, ...], named: str) -> None:
    mdp = random_mdp(np.random.default_rng(0), (2, 3, 2))
    nowhere = np.zeros(0, dtype=np.int64)
    with pytest.raises(InputError, match=named):
        FeatureReward(np.zeros(shape)).design_matrix(mdp, nowhere)
    for wrong in (np.nan, np.inf):
        with pytest.raises(InputError, match="finite"):
            FeatureReward(np.full((3, 2), wrong)).design_matrix(mdp, nowhere)


def test_auto_has_no_map_and_algorithms_that_know_tables_only_refuse_a_space() -> None:
    mdp = random_mdp(np.random.default_rng(0), (2, 3, 2))
    with pytest.raises(InputError, match="auto"):
        AutoReward().design_matrix(mdp, np.zeros(0, dtype=np.int64))
    estimate = Estimate.of(Counts.empty(mdp.shape), kind=ExpertKind(), delta=0.1, initial=mdp.initial)
    for algorithm in (FeasiblePoint(), MaxMargin()):
        assert algorithm(estimate, 1.0, {}, AnyReward()).reward.shape == mdp.shape
        with pytest.raises(InputError, match="'state'"):
            algorithm(estimate, 1.0, {}, StateReward())
