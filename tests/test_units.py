"""Units: whatever the most a step can pay, decisions are the same, and rewards and certificates in proportion."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from strategies import random_mdp

from aceirl.envs import Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.explore import STRATEGIES
from aceirl.irl import ALGORITHMS, FeasiblePoint
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.bounds import plausible_policies
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import greedy_actions, optimal_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray
from aceirl.models.tabular.planner import Episodes, PolicySet, solve_constrained, solve_saddle
from aceirl.rewards import (
    FeasibleRewardSet,
    FeatureReward,
    Norm,
    StateReward,
    answer_importance,
    conflict,
    contains,
    expert_loss,
    extreme,
    interval,
    intervals,
    largest_parameters,
    least_slack,
    matched_loss,
    normalised_intervals,
    project,
    recall,
    sample,
)

LOOP_UNITS = (1e-10, 1e-5, 1e6)
UNITS = (1e-12, 1e-10, 1e-7, 1e-5, 1e-3, 1e6, 1e12)
NORMS: tuple[Norm, Norm] = ("l1", "linf")


@cache
def grid() -> Problem:
    return make("gridworld", 0)


@cache
def run(strategy: str, irl: str, rmax: float) -> list[Turn]:
    problem = grid()
    settings = Settings(strategy=strategy, irl=irl, rmax=rmax, certify="set", max_samples=200, episodes_per_iteration=4)
    return list(learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings))


def close(found: Any, expected: Any, unit: float, tolerance: float = 1e-7) -> None:
    """In proportion: equal up to a share of the unit."""
    np.testing.assert_allclose(np.asarray(found) / unit, expected, rtol=tolerance, atol=tolerance)


LOOPS = [(strategy, "max-causal-entropy") for strategy in STRATEGIES] + [
    ("guided", irl) for irl in ALGORITHMS if irl != "max-causal-entropy"
]


@pytest.mark.parametrize("rmax", LOOP_UNITS)
@pytest.mark.parametrize(("strategy", "irl"), LOOPS)
def test_a_run_is_the_same_in_any_units(strategy: str, irl: str, rmax: float) -> None:
    ones, others = run(strategy, irl, 1.0), run(strategy, irl, rmax)
    assert len(ones) == len(others)
    for one, other in zip(ones, others, strict=True):
        assert (one.counts.visits == other.counts.visits).all()
        assert (one.counts.answers == other.counts.answers).all()
        assert (one.policy == other.policy).all()
        assert one.stopped == other.stopped
        recovered, scaled = one.belief.recovered, other.belief.recovered
        close(scaled.reward, recovered.reward, rmax, 1e-12)
        close(scaled.unknown_step_reward, recovered.unknown_step_reward, rmax, 1e-12)
        close(scaled.infeasibility, recovered.infeasibility, rmax, 1e-9)
        close(other.belief.accuracy, one.belief.accuracy, rmax, 1e-9)
        uses = other.belief.estimate.expert_uses
        agrees = np.take_along_axis(uses, other.policy[:, :, None], axis=2)[:, :, 0]
        assert (agrees | ~uses.any(axis=2)).all(), "the policy repeats the known answers"
    for kind in ones[-1].belief.certificates:
        first, second = ones[-1].certificate(kind), others[-1].certificate(kind)
        close(second.value, first.value, rmax, 1e-9)
        assert first.holds == second.holds


@pytest.mark.parametrize("rmax", LOOP_UNITS)
def test_plans_for_plausible_policies_are_the_same_in_any_units(rmax: float) -> None:
    """Large batches on Chain, whose actions tie: fictitious play would make of a rounding error another plan."""
    ones, others = many_samples(1.0), many_samples(rmax)
    last = ones[-1].belief
    assert plausible_policies(
        last.estimate, last.recovered.reward, last.recovered.unknown_step_reward, last.accuracy
    ), "the adversary has a floor"
    for one, other in zip(ones, others, strict=True):
        assert (one.counts.visits == other.counts.visits).all()
        assert (one.policy == other.policy).all()
        close(other.belief.accuracy, one.belief.accuracy, rmax, 1e-9)


@cache
def many_samples(rmax: float) -> list[Turn]:
    problem, episodes = make("chain", 0), 400_000
    budget = 5 * episodes * problem.mdp.horizon
    settings = Settings(
        strategy="ace", irl="max-causal-entropy", certify=None, rmax=rmax,
        max_samples=budget, episodes_per_iteration=episodes,
    )  # fmt: skip
    return list(learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings))


def observed(problem: Problem, episodes: int = 12) -> Estimate:
    """What a few episodes of any actions tell; some states were never met, so the expert is not known there."""
    mdp, rng = problem.mdp, np.random.default_rng(1)
    counts = Counts.of_moves(Simulator(mdp).rollout(np.full(mdp.shape, 1 / mdp.n_actions), episodes, rng), mdp.shape)
    asked = counts.visits.any(axis=2, keepdims=True)
    counts = counts.with_answers((asked * problem.expert).astype(np.int64))
    return Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=mdp.initial)


@pytest.mark.parametrize("irl", ALGORITHMS)
def test_a_reward_is_computed_in_units_of_rmax(irl: str) -> None:
    estimate, algorithm = observed(grid()), ALGORITHMS[irl]()
    one = algorithm(estimate, 1.0, {}, None)
    assert one.reward.any()
    for unit in UNITS:
        found = algorithm(estimate, unit, {}, None)
        assert (found.reward == unit * one.reward).all()
        assert found.unknown_step_reward == unit * one.unknown_step_reward
        assert found.blend == one.blend
        assert found.reward.max() <= unit


def test_ties_are_those_of_the_values_in_any_units() -> None:
    q = np.random.default_rng(0).integers(0, 3, size=(4, 50, 3)) / 3.0
    rounded = q * (1 + 1e-15 * np.random.default_rng(1).normal(size=q.shape))
    expected = greedy_actions(q, np.random.default_rng(2))
    for unit in (*UNITS, 1e-300):
        assert (greedy_actions(unit * rounded, np.random.default_rng(2)) == expected).all()
    apart = greedy_actions(1e-12 * np.array([[[1.0, 0.999]]]), np.random.default_rng(0))
    assert apart.item() == 0, "a difference is one, however small the unit"


@cache
def feasible(unit: float, kind: str) -> FeasibleRewardSet:
    problem = grid()
    if kind == "exact":
        return FeasibleRewardSet.of_problem(problem.mdp, problem.expert, unit)
    return FeasibleRewardSet.of_estimate(observed(problem), unit, 0.25 * unit)


def noisy() -> FloatArray:
    noise = np.random.default_rng(0).normal(size=grid().mdp.shape)
    return np.clip(grid().reward + 0.1 * noise, 0, 1)


@pytest.mark.parametrize("kind", ["exact", "estimated"])
@pytest.mark.parametrize("unit", UNITS)
def test_questions_to_the_feasible_set_have_answers_in_proportion(kind: str, unit: float) -> None:
    one, other = feasible(1.0, kind), feasible(unit, kind)
    target, rng = noisy(), np.random.default_rng(3)
    for reward in (target, grid().reward, np.full(one.mdp.shape, 0.25)):
        expected, found = contains(one, reward), contains(other, unit * reward)
        assert found.holds == expected.holds
        assert found.holds or (found.entry, found.better) == (expected.entry, expected.better)
        close(found.violation, expected.violation, unit)
        close(expert_loss(other, unit * reward), expert_loss(one, reward), unit)
    for norm in NORMS:
        expected_member, found_member = project(one, target, norm), project(other, unit * target, norm)
        assert found_member.membership
        close(found_member.value, expected_member.value, unit)
        close(found_member.bound, expected_member.bound, unit)
    direction = rng.normal(size=one.mdp.shape)
    expected_member = extreme(one, direction)
    for size in (1.0, 1e-9):
        found_member = extreme(other, size * direction)
        assert found_member.membership
        close(found_member.value, expected_member.value, size * unit)
        close(found_member.reward, expected_member.reward, unit)
    close(sample(other, np.random.default_rng(4), 2), sample(one, np.random.default_rng(4), 2), unit)


@pytest.mark.parametrize("unit", UNITS)
def test_bounds_and_slacks_of_the_feasible_set_are_in_proportion(unit: float) -> None:
    one, other = feasible(1.0, "exact"), feasible(unit, "exact")
    upper = np.ones(one.mdp.shape)
    upper[9, 3, 3] = 0.3
    close(interval(other.restricted(upper=unit * upper), 9, 3, 1), [0.0, 0.3], unit)
    wrong = grid().expert.argmax(axis=2)
    wrong[2:5, 4] = 2
    strict, scaled = (
        FeasibleRewardSet.of_problem(grid().mdp, wrong, size).restricted(
            lower=0.9 * size * grid().reward, upper=size * grid().reward
        )
        for size in (1.0, unit)
    )
    needed = least_slack(strict)
    assert needed > 0.01
    close(least_slack(scaled), needed, unit)
    close(
        project(scaled.with_slack(unit * 2 * needed), unit * grid().reward).value,
        project(strict.with_slack(2 * needed), grid().reward).value,
        unit,
    )
    mistaken = FeasibleRewardSet.of_problem(grid().mdp, wrong, unit)
    expected = recall(one, FeasibleRewardSet.of_problem(grid().mdp, wrong, 1.0))
    found = recall(other, mistaken)
    close((found.low, found.high), (expected.low, expected.high), unit)
    reference = matched_loss(one, FeasibleRewardSet.of_problem(grid().mdp, wrong, 1.0), grid().reward)
    close(matched_loss(other, mistaken, unit * grid().reward), reference, unit)


@pytest.mark.parametrize("unit", UNITS)
def test_parameters_and_features_have_units_too(unit: float) -> None:
    rng = np.random.default_rng(5)
    mdp = random_mdp(rng, (4, 4, 3))
    features = rng.random((4, 3))
    expert = optimal_values(mdp, np.broadcast_to((features @ [1.0, 0.0, 0.5])[:, None], mdp.shape).copy())[0]
    direction, target = rng.normal(size=3), rng.uniform(-1, 1, 3)
    actions = expert.argmax(axis=2)
    one = FeasibleRewardSet.of_problem(mdp, actions, space=FeatureReward(features))
    drawn = sample(one, np.random.default_rng(6), 3)
    for other, of_theta, of_reward in (
        (FeasibleRewardSet.of_problem(mdp, actions, unit, FeatureReward(features)), unit, unit),
        (FeasibleRewardSet.of_problem(mdp, actions, space=FeatureReward(unit * features)), 1.0, unit),
    ):
        assert contains(other, of_theta * np.array([1.0, 0.0, 0.5]))
        assert not contains(other, of_theta * np.array([-1.0, 0.0, -0.5]))
        close(extreme(other, 1e-8 * direction).theta, extreme(one, direction).theta, of_theta)
        close(project(other, of_theta * target).value, project(one, target).value, of_theta)
        close(intervals(other), intervals(one), of_theta)
        close(normalised_intervals(other), normalised_intervals(one), 1.0)
        close(sample(other, np.random.default_rng(6), 3), drawn, of_theta, 1e-4)
        strict = one.restricted(0.5, [0.6, 1.0, 1.0])
        erring = other.restricted(0.5 * of_theta, of_theta * np.array([0.6, 1.0, 1.0]))
        close(least_slack(erring), least_slack(strict), of_reward)
        assert largest_parameters(other) == largest_parameters(one)


def test_the_same_answers_are_in_conflict_whatever_the_units_of_features() -> None:
    other = make("random-mdp", 0)
    features = np.eye(other.mdp.n_states)
    expected = conflict(FeasibleRewardSet.of_problem(other.mdp, other.expert, space=StateReward()))
    assert len(expected) > 1
    for unit in (1e-9, 1e6):
        space = FeatureReward(unit * features)
        assert conflict(FeasibleRewardSet.of_problem(other.mdp, other.expert, space=space)) == expected


@pytest.mark.parametrize("unit", UNITS)
def test_plans_and_constrained_problems_have_bounds_in_proportion(unit: float) -> None:
    rng = np.random.default_rng(7)
    for _ in range(8):
        mdp = random_mdp(rng, (3, 4, 2))
        weight, reward = rng.random(mdp.shape), rng.random(mdp.shape)
        floor = 0.95 * best(mdp, reward)
        one = solve_constrained(mdp, weight, reward, floor)
        for of_cost, of_reward in ((unit, 1.0), (1.0, unit), (unit, 1 / unit)):
            found = solve_constrained(mdp, of_cost * weight, of_reward * reward, of_reward * floor)
            assert found.status is one.status
            close((found.value, found.bound), (one.value, one.bound), of_cost)
            plan = solve_saddle(
                mdp, of_cost * weight, np.ones(mdp.shape), Episodes(9),
                policies=PolicySet(of_reward * reward, of_reward * floor), tolerance=1e-3,
            )  # fmt: skip
            same = solve_saddle(
                mdp, weight, np.ones(mdp.shape), Episodes(9), policies=PolicySet(reward, floor), tolerance=1e-3
            )
            assert plan.gap <= 1e-3
            assert plan.upper / of_cost == pytest.approx(same.upper, rel=2e-3)


def best(mdp: MDP, reward: FloatArray) -> float:
    return float(mdp.initial @ optimal_values(mdp, reward)[1][0])


def test_all_policies_are_plausible_at_the_first_accuracy_and_answers_matter_alike() -> None:
    """The plain feasible point is worth `H·Rmax`, and ten times the first accuracy is that too, up to rounding."""
    estimate = observed(grid())
    importance = None
    for unit in (1.0, *UNITS, 0.1, 0.3, 0.7, 3.0):
        point = FeasiblePoint()(estimate, unit)
        accuracy = 0.1 * estimate.mdp.horizon * unit
        assert plausible_policies(estimate, point.reward, point.unknown_step_reward, accuracy) is None
        assert plausible_policies(estimate, point.reward, point.unknown_step_reward, 0.9 * accuracy) is not None
        policy = estimate.expert_policy.argmax(axis=2)
        found = answer_importance(estimate, point, policy)
        assert found.sum() == pytest.approx(1.0)
        importance = found if importance is None else importance
        np.testing.assert_allclose(found, importance, atol=1e-12)
