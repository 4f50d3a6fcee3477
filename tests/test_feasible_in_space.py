"""The feasible set in a reward space, against dense matrices of policy evaluation; conflicts against brute force."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.irl.likelihood import Likelihood
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import evaluate, occupancy, optimal_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.rewards import (
    AnyReward,
    EmptySetError,
    FeasibleRewardSet,
    FeatureReward,
    StateActionReward,
    StateReward,
    answer_errors,
    conflict,
    contains,
    determined,
    estimated_conflict,
    expert_loss,
    extreme,
    intervals,
    largest_parameters,
    least_slack,
    normalised_intervals,
    project,
    sample,
)
from aceirl.rewards.conflicts import SHARE

SPACES = (StateReward(), StateActionReward(), AnyReward())


def random_mdp(rng: np.random.Generator, shape: tuple[int, int, int], *, stationary: bool = True) -> MDP:
    horizon, n_states, n_actions = shape
    lead = () if stationary else (horizon,)
    rows = rng.dirichlet(np.full(n_states, 0.5), size=(*lead, n_states, n_actions))
    return MDP.from_dense(rows, initial=np.full(n_states, 1 / n_states), horizon=horizon)


def best_actions(mdp: MDP, reward: FloatArray) -> IntArray:
    return np.asarray(optimal_values(mdp, reward)[0].argmax(axis=2))


@dataclass(frozen=True, eq=False)
class Dense:
    """What each parameter adds to `V` and to `V - Q` of the expert's policy, by one policy evaluation for each."""

    values: FloatArray  # [H, S, n]
    behind: FloatArray  # [H, S, A, n]

    @classmethod
    def of(cls, feasible: FeasibleRewardSet) -> Dense:
        each = [
            evaluate(feasible.mdp, feasible.design.table(unit), feasible.policy)
            for unit in np.eye(feasible.design.n_parameters)
        ]
        values = np.stack([v for _, v in each], axis=-1)
        return cls(values, values[:, :, None] - np.stack([q for q, _ in each], axis=-1))

    def extreme(self, feasible: FeasibleRewardSet, direction: FloatArray) -> float:
        """The largest `⟨direction, θ⟩` where nothing tried is better than the expert's action."""
        rows = self.behind.reshape(-1, len(direction))
        bounds = np.stack((feasible.lower, feasible.upper), axis=1)
        answer = linprog(-direction, A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=bounds)
        assert answer.status == 0
        return -float(answer.fun)


@pytest.mark.parametrize("seed", range(12))
def test_membership_is_optimality_in_the_process(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (4, 4, 3), stationary=seed % 2 == 0)
    space = SPACES[seed % 3]
    design = space.design_matrix(mdp, np.array([], dtype=np.int64))
    truth = rng.uniform(0 if design.free else -1, 1, design.n_parameters)
    expert = best_actions(mdp, design.table(truth))
    feasible = FeasibleRewardSet.of_problem(mdp, expert, space=space)
    assert contains(feasible, truth.reshape(feasible.lower.shape))
    for _ in range(20):
        theta = truth + rng.normal(size=len(truth)) * rng.choice([0.01, 0.1, 1.0])
        q, v = optimal_values(mdp, design.table(theta))
        loss = float((v - np.take_along_axis(q, expert[:, :, None], axis=2)[:, :, 0]).max())
        outside = float(max((feasible.lower.ravel() - theta).max(), (theta - feasible.upper.ravel()).max()))
        found = contains(feasible, theta.reshape(feasible.lower.shape))
        assert bool(found) == (max(loss, outside) <= 1e-6 * 4)
        if not found and found.constraint == "optimality":
            assert found.entry is not None
            h, s, a = found.entry
            assert a == expert[h, s]
            assert found.better is not None
            assert found.better != a


def test_a_parameter_out_of_bounds_is_named() -> None:
    feasible = FeasibleRewardSet.of_problem(
        random_mdp(np.random.default_rng(0), (2, 3, 2)), np.zeros(3, int), space=StateReward()
    )
    assert str(contains(feasible, [1.0, 1.0, 1.0])) == "in the set"
    assert str(contains(feasible, [1.5, 1.5, 1.5])) == "parameter 0 is 0.5 too high"
    assert str(contains(feasible, [-1.25, -1.25, -1.25])) == "parameter 0 is 0.25 too low"


@pytest.mark.parametrize("seed", range(6))
def test_extremes_and_intervals_are_those_of_dense_policy_evaluation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (4, 4, 3), stationary=seed % 2 == 0)
    space = SPACES[seed % 2]
    design = space.design_matrix(mdp, np.array([], dtype=np.int64))
    expert = best_actions(mdp, design.table(rng.uniform(-1, 1, design.n_parameters)))
    feasible = FeasibleRewardSet.of_problem(mdp, expert, space=space).fixed(0, 0.5).restricted()
    dense = Dense.of(feasible)
    for _ in range(4):
        direction = rng.normal(size=design.n_parameters)
        found = extreme(feasible, direction)
        assert found.membership
        assert found.value == pytest.approx(dense.extreme(feasible, direction), abs=1e-6)
        assert found.gap < 1e-6
    for k, (low, high) in enumerate(intervals(feasible)):
        unit = np.eye(design.n_parameters)[k]
        assert high == pytest.approx(dense.extreme(feasible, unit), abs=1e-6)
        assert low == pytest.approx(-dense.extreme(feasible, -unit), abs=1e-6)


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_the_nearest_member_is_one_that_no_member_comes_nearer_than(norm: str) -> None:
    rng = np.random.default_rng(3)
    mdp = random_mdp(rng, (4, 4, 3))
    expert = best_actions(mdp, np.broadcast_to(rng.random(4)[None, :, None], mdp.shape))
    feasible = FeasibleRewardSet.of_problem(mdp, expert, space=StateReward())
    order = 1 if norm == "l1" else np.inf
    others = sample(feasible, rng, 50)
    for _ in range(5):
        target = rng.uniform(-1, 1, 4)
        found = project(feasible, target, "l1" if norm == "l1" else "linf")
        assert found.membership
        assert found.value == pytest.approx(float(np.linalg.norm(found.theta - target, order)), abs=1e-9)
        assert found.gap < 1e-6
        assert all(np.linalg.norm(other - target, order) >= found.value - 1e-6 for other in others)
        again = project(feasible, found.theta, "l1" if norm == "l1" else "linf")
        assert again.value == 0
    with pytest.raises(InputError, match="norm must be"):
        project(feasible, np.zeros(4), "l2")  # type: ignore[arg-type]


def test_the_goal_is_the_only_place_that_may_be_the_largest() -> None:
    problem = make("gridworld", 0)
    goal = int(problem.reward[0, :, 0].argmax())
    feasible = FeasibleRewardSet.of_problem(problem.mdp, problem.expert, space=StateReward())
    assert largest_parameters(feasible) == [goal]
    np.testing.assert_allclose(normalised_intervals(feasible), np.stack([np.eye(9)[goal]] * 2, axis=1), atol=1e-3)
    assert determined(feasible).all(), "with the goal at one and something at zero, all else is zero"
    np.testing.assert_allclose(intervals(feasible.normalised(goal))[goal], 1.0)


def test_any_place_but_the_avoided_one_may_be_the_largest() -> None:
    problem = make("chain", 0)
    avoided = int(problem.reward[0, :, 0].argmin())
    feasible = FeasibleRewardSet.of_problem(problem.mdp, problem.expert, space=StateReward())
    assert largest_parameters(feasible) == [s for s in range(problem.mdp.n_states) if s != avoided]
    assert contains(feasible.normalised(largest=0, smallest=avoided), 1.0 - np.eye(problem.mdp.n_states)[avoided])
    low, high = normalised_intervals(feasible).T
    drawn = [
        extreme(feasible.normalised(largest=k, smallest=avoided), np.arange(6.0)).theta
        for k in largest_parameters(feasible)
    ]
    assert all(((low <= theta + 1e-6) & (theta <= high + 1e-6)).all() for theta in drawn)
    assert not determined(feasible)[:avoided].any()


def test_an_expert_who_uses_two_actions_ties_where_they_lead() -> None:
    """From state 0 one action leads to 1, one to 2 and one to 3, where one stays; the expert takes the first two."""
    rows = np.zeros((4, 3, 4))
    rows[0, [0, 1, 2], [1, 2, 3]] = 1.0
    rows[[1, 2, 3], :, [1, 2, 3]] = 1.0
    mdp = MDP.from_dense(rows, initial=0, horizon=3)
    expert = np.full((3, 4, 3), 1 / 3)
    expert[:, 0] = [0.5, 0.5, 0.0]
    feasible = FeasibleRewardSet.of_problem(mdp, expert, space=StateReward())
    assert largest_parameters(feasible.restricted(upper=[1, 1, 1, 0.5])) == [0, 1, 2, 3], (
        "no bound but zero and one matters"
    )
    np.testing.assert_allclose(intervals(feasible.normalised(largest=1)), [[0, 1], [1, 1], [1, 1], [0, 1]], atol=1e-7)
    np.testing.assert_allclose(normalised_intervals(feasible), [[0, 1]] * 4, atol=1e-7)
    assert not determined(feasible).any(), "nothing is said of state 0, and all that is said of 3 is that it is no more"
    assert not contains(feasible, [0.0, 1.0, 0.9, 0.0])


def test_without_a_slack_an_error_empties_the_set_and_the_least_slack_opens_it() -> None:
    problem = make("gridworld", 0)
    goal = int(problem.reward[0, :, 0].argmax())
    wrong = problem.expert.argmax(axis=2)
    q, v = optimal_values(problem.mdp, problem.reward)
    there = occupancy(problem.mdp, problem.expert).sum(axis=2)
    h, s = np.unravel_index(int((there * (v - q.min(axis=2))).argmax()), v.shape)
    wrong[h, s] = q[h, s].argmin()
    feasible = FeasibleRewardSet.of_problem(problem.mdp, wrong, space=StateReward()).normalised(
        largest=goal, smallest=(goal + 1) % 9
    )
    with pytest.raises(EmptySetError, match="tolerance or a slack"):
        extreme(feasible, np.ones(9))
    least = least_slack(feasible)
    assert least > 0.01
    with pytest.raises(EmptySetError):
        extreme(feasible.with_slack(0.9 * least), np.ones(9))
    found = extreme(feasible.with_slack(1.1 * least), np.ones(9))
    assert found.membership
    lost = expert_loss(feasible, found.theta)
    assert 0.99 * least <= lost <= 1.11 * least
    outside = contains(feasible.with_slack(0.5 * least), found.theta)
    assert outside.constraint == "slack"
    assert outside.violation == pytest.approx(lost - 0.5 * least)


def observed(problem_name: str, seed: int, episodes: int, *, asked: float = 1.0) -> Estimate:
    """Random episodes, with the expert's answer at a share of the places they went to."""
    problem, rng = make(problem_name, seed), np.random.default_rng(seed)
    shape = problem.mdp.shape
    counts = Counts.of_moves(Simulator(problem.mdp).rollout(np.full(shape, 1 / shape[2]), episodes, rng), shape)
    been = (counts.visits.sum(axis=2, keepdims=True) > 0) & (rng.random((*shape[:2], 1)) < asked)
    counts = counts.with_answers(been * problem.expert.astype(np.int64))
    return Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=problem.mdp.initial)


@pytest.mark.parametrize("name", ["double-chain", "four-paths", "chain"])
def test_members_explain_every_answer_by_the_likelihood_too(name: str) -> None:
    """Few episodes: many actions never tried, and an expert who was not asked at most places."""
    estimate = observed(name, 1, 12, asked=0.6)
    assert not estimate.mdp.known.all()
    feasible = FeasibleRewardSet.of_estimate(estimate, space=StateReward())
    rng, likelihood = np.random.default_rng(0), Likelihood(estimate)
    for _ in range(3):
        found = extreme(feasible, rng.normal(size=feasible.design.n_parameters))
        assert found.membership
        assert found.value <= found.bound + 1e-6
        compared, explained = likelihood.explained(feasible.design.steps(found.theta))
        assert compared.sum() > 5
        assert (explained == compared).all()
    low, high = intervals(feasible).T
    assert ((low <= found.theta + 1e-6) & (found.theta <= high + 1e-6)).all()


def test_an_action_never_tried_rules_nothing_out() -> None:
    """In state 0 the expert goes to 1. Action 1 leads to 2 and was tried, action 2 leads to 3 and was not."""
    horizon, counts = 3, np.zeros((4, 3), dtype=np.int64)
    leads = np.array([[1, 2, 3], [1, 1, 1], [2, 2, 2], [3, 3, 3]])
    counts[:] = 1
    counts[0, 2] = 0
    visits = np.zeros((horizon, 4, 3), dtype=np.int64)
    visits[0] = counts
    keys = [(s * 3 + a) * 4 + leads[s, a] for s in range(4) for a in range(3) if counts[s, a]]
    answers = np.zeros_like(visits)
    answers[:, 0, 0] = 1
    seen = Counts.of_arrays(
        visits=visits,
        answers=answers,
        starts=np.array([1, 0, 0, 0]),
        move_keys=np.array(keys),
        move_counts=np.ones(len(keys), dtype=np.int64),
        stationary=True,
    )
    estimate = Estimate.of(seen, kind=ExpertKind(), delta=0.1)
    feasible = FeasibleRewardSet.of_estimate(estimate, space=StateReward())
    assert contains(feasible, [0.0, 0.5, 0.2, 1.0])
    assert not contains(feasible, [0.0, 0.2, 0.5, 1.0])
    assert contains(feasible, [0.0, 0.2, 0.5, 1.0]).better == 1


def test_a_tolerance_lets_an_answer_lag() -> None:
    estimate = observed("gridworld", 0, 20)
    truth = make("gridworld", 0).reward[0, :, 0]
    feasible = FeasibleRewardSet.of_estimate(estimate, space=StateReward())
    lag = contains(feasible, truth).violation
    assert lag > 0.01
    assert contains(FeasibleRewardSet.of_estimate(estimate, space=StateReward(), tolerance=1.01 * lag), truth)
    assert not contains(FeasibleRewardSet.of_estimate(estimate, space=StateReward(), tolerance=0.9 * lag), truth)


def test_a_terminal_place_is_paid_on_arrival_and_hurry_has_bounds_of_its_own() -> None:
    """A corridor of three places; action 0 stays, action 1 goes on, and the last step ends the episode in state 3."""
    rows = np.zeros((4, 2, 4))
    rows[[0, 1, 2, 3], 0, [0, 1, 2, 3]] = 1.0
    rows[[0, 1, 2, 3], 1, [1, 2, 3, 3]] = 1.0
    mdp = MDP.from_dense(rows, initial=0, horizon=6)
    feasible = FeasibleRewardSet.of_problem(mdp, np.ones(4, int), space=StateReward(), terminal=[3])
    assert feasible.design.n_parameters == 5
    assert contains(feasible, [0, 0, 0, 1, 0])
    assert contains(feasible, [0, 0, 0, 0, 1]), "an end of the episode is what a hurried expert wants"
    assert not contains(feasible, [0, 0, 0.5, 1, 0])
    assert contains(feasible, [0, 0, 0.1, 1, 0.1])


def test_features_bound_what_can_be_said() -> None:
    problem = make("gridworld", 0)
    goal = int(problem.reward[0, :, 0].argmax())
    features = np.stack((np.eye(9)[goal], np.ones(9)), axis=1)
    feasible = FeasibleRewardSet.of_problem(problem.mdp, problem.expert, space=FeatureReward(features))
    np.testing.assert_allclose(intervals(feasible), [[0, 1], [-1, 1]], atol=1e-7)


def test_samples_are_spread_as_draws_from_the_box_that_are_members() -> None:
    rng = np.random.default_rng(5)
    mdp = random_mdp(rng, (3, 3, 2))
    expert = best_actions(mdp, np.broadcast_to(rng.random(3)[None, :, None], mdp.shape))
    feasible = FeasibleRewardSet.of_problem(mdp, expert, space=StateReward())
    box = rng.uniform(-1, 1, (5_000, 3))
    members = np.array([theta for theta in box if contains(feasible, theta, tolerance=0.0)])
    assert len(members) > 500
    drawn = sample(feasible, rng, 500)
    assert all(contains(feasible, theta) for theta in drawn)
    np.testing.assert_allclose(drawn.mean(axis=0), members.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(members.T), atol=0.05)
    with pytest.raises(InputError, match="n must be"):
        sample(feasible, rng, 0)


def test_samples_keep_to_a_set_without_an_inside() -> None:
    problem = make("gridworld", 0)
    goal = int(problem.reward[0, :, 0].argmax())
    feasible = FeasibleRewardSet.of_problem(problem.mdp, problem.expert, space=StateReward()).normalised(goal)
    drawn = sample(feasible, np.random.default_rng(0), 5)
    assert (drawn[:, goal] == 1).all()
    assert all(contains(feasible, theta) for theta in drawn)
    assert drawn.std(axis=0).max() > 0.05


def test_bounds_are_checked() -> None:
    feasible = FeasibleRewardSet.of_problem(
        random_mdp(np.random.default_rng(0), (2, 3, 2)), np.zeros(3, int), space=StateReward()
    )
    with pytest.raises(InputError, match=r"bounds\[1\] are 0.5 to 0, not an interval"):
        feasible.restricted([0, 0.5, 0], [0, 0, 0])
    with pytest.raises(InputError, match="slack must be"):
        feasible.with_slack(-1.0)
    with pytest.raises(InputError, match=r"parameters must be finite, of shape \[3\]"):
        contains(feasible, [0.0, 1.0])


# Conflicts.


def preference(feasible: FeasibleRewardSet, explained: list[tuple[int, int]]) -> float:
    """The largest mean preference of a reward that explains these answers, from dense policy evaluation."""
    dense, (horizon, n_states, _) = Dense.of(feasible), feasible.mdp.shape
    n = feasible.design.n_parameters
    apart = np.abs(dense.behind).max(axis=-1) > 1e-9
    rows = [-np.append(row, np.zeros(horizon)) for h, s in explained for row in dense.behind[h, s]]
    sides = [0.0] * len(rows)
    for h in range(horizon):
        for s in range(n_states):
            above = np.append(dense.values[h, s], -np.eye(horizon)[h])
            rows += [above, -above]
            sides += [1.0, 0.0]
    cost = np.append(-dense.behind[apart].mean(axis=0), np.zeros(horizon))
    bounds = [*zip(feasible.lower, feasible.upper, strict=True), *[(None, None)] * horizon]
    answer = linprog(cost, A_ub=np.array(rows), b_ub=np.array(sides), bounds=bounds)
    assert answer.status == 0
    assert len(cost) == n + horizon
    return -float(answer.fun)


@pytest.mark.parametrize("seed", range(8))
def test_a_conflict_is_irreducible_by_brute_force(seed: int) -> None:
    """Random experts of small processes: what is found is in conflict, and no part of it is."""
    rng = np.random.default_rng(100 + seed)
    mdp = random_mdp(rng, (3, 3, 2))
    feasible = FeasibleRewardSet.of_problem(mdp, rng.integers(2, size=(3, 3)), space=StateReward())
    needed = SHARE * preference(feasible, [])
    every = [(h, s) for h in range(3) for s in range(3)]
    found = [(h, s) for h, s, _ in conflict(feasible)]
    if not found:
        assert preference(feasible, every) >= needed - 1e-6
        return
    assert preference(feasible, found) < needed + 1e-6
    for size in range(len(found)):
        for part in combinations(found, size):
            assert preference(feasible, list(part)) >= needed - 1e-6


def test_some_random_experts_are_in_conflict_and_some_are_not() -> None:
    sizes = []
    for seed in range(8):
        rng = np.random.default_rng(100 + seed)
        mdp = random_mdp(rng, (3, 3, 2))
        sizes.append(
            len(conflict(FeasibleRewardSet.of_problem(mdp, rng.integers(2, size=(3, 3)), space=StateReward())))
        )
    assert min(sizes) == 0
    assert max(sizes) >= 2


def test_an_expert_whose_reward_depends_on_the_step_is_in_conflict_in_states_and_not_in_tables() -> None:
    for seed in range(3):
        problem = make("random-mdp", seed)
        feasible = FeasibleRewardSet.of_problem(problem.mdp, problem.expert, space=StateReward())
        found = conflict(feasible)
        assert 2 <= len(found) <= 6
        places, needed = [(h, s) for h, s, _ in found], SHARE * preference(feasible, [])
        assert preference(feasible, places) < needed + 1e-6
        for place in places:
            assert preference(feasible, [other for other in places if other != place]) >= needed - 1e-6
        assert all(problem.expert[entry] == 1 for entry in found)
        assert len({h for h, _, _ in found}) > 1, "answers of one step alone have a reward"
        assert conflict(FeasibleRewardSet.of_problem(problem.mdp, problem.expert, space=AnyReward())) == []


@pytest.mark.parametrize("name", ["four-paths", "double-chain", "chain", "gridworld"])
def test_an_expert_who_wants_places_is_in_no_conflict_whatever_its_ties(name: str) -> None:
    problem = make(name, 1)
    assert conflict(FeasibleRewardSet.of_problem(problem.mdp, problem.expert, space=StateReward())) == []


def test_errors_of_estimates_are_no_conflict_and_a_real_one_outlives_them() -> None:
    for name, episodes, in_conflict in (("gridworld", 20, False), ("random-mdp", 1_000, True)):
        estimate = observed(name, 0, episodes)
        feasible = FeasibleRewardSet.of_estimate(estimate, space=StateReward())
        assert conflict(feasible), "taken at its word, an estimate contradicts itself"
        assert bool(estimated_conflict(estimate, StateReward())) == in_conflict


def test_errors_shrink_with_observations_and_depend_on_the_spread_of_a_row() -> None:
    few, many = observed("gridworld", 0, 20), observed("gridworld", 0, 2_000)
    one, two = (answer_errors(e, FeasibleRewardSet.of_estimate(e, space=StateReward())) for e in (few, many))
    assert np.median(two) < 0.25 * np.median(one)
    sure = observed("double-chain", 0, 200)
    feasible = FeasibleRewardSet.of_estimate(sure, space=StateReward())
    assert answer_errors(sure, feasible)[-1].max() == 0, "after the last step nothing follows"


def test_a_share_that_is_none_is_refused() -> None:
    feasible = FeasibleRewardSet.of_problem(
        random_mdp(np.random.default_rng(0), (2, 3, 2)), np.zeros(3, int), space=StateReward()
    )
    with pytest.raises(InputError, match="share must be"):
        conflict(feasible, share=0.0)
