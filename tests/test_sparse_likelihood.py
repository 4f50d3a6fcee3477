"""The reward with the fewest parameters: the search against enumeration, and what it says of experts that are known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from estimates import explained, growing, observed, places, with_known_dynamics

from aceirl.data.preferences import Preference
from aceirl.envs import Problem, make
from aceirl.irl import SparseLikelihood
from aceirl.irl.likelihood import Likelihood
from aceirl.irl.sparse_likelihood import EQUAL, PENALTY, SIZES, UNLIKELY, SparseFit
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray
from aceirl.protocols import Moves
from aceirl.rewards import FeatureReward, RewardSpace, StateActionReward, StateReward


def fit_of(estimate: Estimate, space: RewardSpace | None = None) -> SparseFit:
    space = space or StateReward()
    return SparseFit(Likelihood(estimate), space.design_matrix(estimate.mdp, estimate.terminal_states), PENALTY)


def total(fit: SparseFit, theta: FloatArray) -> float:
    """The cost at the likeliest error rate."""
    return fit.likelihood.loss(fit.design.steps(theta)) + PENALTY * np.count_nonzero(theta)


def least_cost(fit: SparseFit) -> float:
    """Over all parameters of one or two places, of all sizes and signs."""
    n, values = fit.design.n_parameters, [sign * size for size in SIZES for sign in (1.0, -1.0)]
    candidates = [sign * np.eye(n)[k] for k in range(n) for sign in (1.0, -1.0)]
    for (i, j), (first, second) in itertools.product(
        itertools.combinations(range(n), 2), itertools.product(values, values)
    ):
        if max(abs(first), abs(second)) == 1:
            candidates.append(first * np.eye(n)[i] + second * np.eye(n)[j])
    return min(fit.cost(theta) for theta in candidates)


@pytest.mark.parametrize("wanted", [1, 2])
def test_the_search_finds_the_best_of_all_rewards_of_one_or_two_places(wanted: int) -> None:
    """Sizes that are equally good up to `EQUAL` nats may be smaller than the best."""
    for seed in range(12):
        fit = fit_of(next(growing(seed, wanted)))
        theta = fit.solve()
        assert np.abs(theta).max() == 1
        assert fit.cost(theta) <= least_cost(fit) + 2 * EQUAL
        assert set(np.abs(theta)) <= {0.0, *SIZES}


def test_no_single_place_is_better_even_for_an_expert_who_answers_at_random() -> None:
    for seed in range(12):
        fit = fit_of(next(growing(seed, 0)))
        theta = fit.solve()
        singles = [sign * place for place in np.eye(4) for sign in (1.0, -1.0)]
        assert fit.cost(theta) <= min(fit.cost(single) for single in singles) + 4 * EQUAL
        thinner = [np.where(np.arange(4) == k, 0.0, theta) for k in np.flatnonzero(theta)]
        for fewer in thinner:
            if fewer.any():
                assert fit.cost(theta) <= fit.cost(fewer / np.abs(fewer).max()) + 1e-9


def test_a_warm_start_never_ends_worse_than_it_began_nor_where_the_expert_has_a_goal_than_a_cold_one() -> None:
    for seed in range(12):
        before = None
        for estimate in growing(seed, 1, episodes=(3, 6, 12, 24)):
            fit, cold = fit_of(estimate), fit_of(estimate)
            warm = fit.solve(before)
            if before is not None:
                assert total(fit, warm) <= total(fit, before) + 4 * EQUAL
            assert total(fit, warm) <= total(cold, cold.solve()) + 1e-9
            before = warm


def test_in_a_large_world_states_that_were_met_since_are_worth_nothing_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fit = fit_of(next(growing(0, 1)))
    assert fit._grown(np.array([1.0, 0.0])) is None, "a small one is searched anew"
    monkeypatch.setattr("aceirl.irl.sparse_likelihood.LARGE", 3)
    np.testing.assert_array_equal(fit._grown(np.array([0.5, 1.0])), [0.5, 1.0, 0.0, 0.0])
    assert fit._grown(np.ones(5)) is None
    start = fit._grown(np.array([0.0, 1.0]))
    assert start is not None
    assert fit.cost(fit.solve(np.array([0.0, 1.0]))) <= fit.cost(start) + 1e-9


def test_smaller_sizes_never_undo_what_a_change_has_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    """To go back to where one came from, because it costs hardly more, would never end."""
    fit = fit_of(next(growing(0, 2)))
    best = fit.cost(fit.solve())
    start = next(place for place in np.eye(4) if fit.cost(place) > best + 0.1)
    begin, rounds = (start, fit.cost(start)), list[float]()

    def back(better: tuple[FloatArray, float]) -> tuple[FloatArray, float]:
        rounds.append(better[1])
        assert len(rounds) < 50
        return begin[0], begin[1] + EQUAL / 2

    monkeypatch.setattr(fit, "_resized", back)
    found, cost = fit._improved(begin)
    assert rounds == sorted(rounds, reverse=True)
    assert cost == rounds[-1] == pytest.approx(fit.cost(found))
    assert begin[1] > cost >= best - 2 * EQUAL


def neighbours(theta: FloatArray, visited: set[int]) -> Iterator[FloatArray]:
    """All that differ from it in the place or the sign of one parameter, and itself once for each parameter."""
    for k in np.flatnonzero(theta):
        for j, sign in itertools.product(sorted(visited), (1.0, -1.0)):
            if j == k or theta[j] == 0:
                other = theta.copy()
                other[k] = 0.0
                other[j] = sign * theta[k]
                yield other


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_the_mean_is_that_of_rewards_about_as_likely(wanted: int) -> None:
    blurred = 0
    for seed in range(8):
        estimate = next(growing(seed, wanted, episodes=(3,)))
        fit, visited = fit_of(estimate), set(np.flatnonzero(estimate.counts.visits.any(axis=(0, 2))).tolist())
        theta = fit.solve()
        least = fit.cost(theta)
        near = [other for other in (theta, *neighbours(theta, visited)) if fit.cost(other) <= least + UNLIKELY]
        expected = sum(np.exp(least - fit.cost(other)) * other for other in near)
        mean = fit.averaged(theta)
        np.testing.assert_allclose(mean, expected / np.abs(expected).max(), atol=1e-9)
        assert np.abs(mean).max() == 1
        blurred += not np.array_equal(mean, theta)
    assert blurred, "three episodes leave something open"


def test_where_one_reward_explains_best_by_far_the_mean_is_that_one() -> None:
    problem = make("gridworld", 0)
    fit = fit_of(with_known_dynamics(observed(problem, "uniform", 200, 0), problem.mdp))
    theta = fit.solve()
    np.testing.assert_array_equal(fit.averaged(theta), theta)
    np.testing.assert_array_equal(theta, np.eye(9)[places(problem).argmax()])


def test_the_same_estimate_gives_the_same_reward_to_the_last_bit() -> None:
    for estimate in growing(3, 2, episodes=(12, 12)):
        first, second = (SparseLikelihood()(estimate, 1.0) for _ in range(2))
        np.testing.assert_array_equal(first.reward, second.reward)
        assert first.iterations == second.iterations
        again = SparseLikelihood()(estimate, 1.0, first.parameters)
        assert again.explanation is not None
        assert first.explanation is not None
        np.testing.assert_array_equal(again.explanation.theta, first.explanation.theta)


def test_a_start_of_another_size_is_no_obstacle() -> None:
    estimate = next(growing(0, 1))
    cold = SparseLikelihood()(estimate, 1.0).reward
    for start in (np.ones(2), np.zeros(4), np.ones(9)):
        np.testing.assert_array_equal(SparseLikelihood()(estimate, 1.0, {"theta.state": start}).reward, cold)


@pytest.mark.parametrize("name", ["four-paths", "double-chain", "gridworld"])
def test_with_known_dynamics_sixty_samples_show_the_goal(name: str) -> None:
    for seed in range(3):
        problem = make(name, seed)
        seen = explained(with_known_dynamics(observed(problem, "advice", 60, seed), problem.mdp))
        assert seen.space == "state"
        assert seen.goals == [int(places(problem).argmax())]
        assert (seen.explained, seen.avoided) == (seen.compared, [])


def test_an_expert_who_only_avoids_a_place_is_said_to_avoid_it() -> None:
    for seed in range(3):
        problem = make("chain", seed)
        seen = explained(with_known_dynamics(observed(problem, "advice", 60, seed), problem.mdp))
        assert seen.space == "state"
        assert seen.avoided[0] == int(places(problem).argmin()) == int(seen.by_state.argmin())
        assert int(seen.theta.argmin()) == seen.avoided[0]
        assert seen.goals == []


@pytest.mark.parametrize("name", ["four-paths", "double-chain"])
def test_with_unknown_dynamics_probing_shows_the_goal(name: str) -> None:
    for seed in range(3):
        problem = make(name, seed)
        probed = explained(observed(problem, "probe", 500, seed))
        assert (probed.space, probed.goals) == ("state", [int(places(problem).argmax())])


def test_following_the_expert_alone_rules_no_reward_out() -> None:
    """In a process that does what it is told, hardly anything that the expert declines is ever seen."""
    problem = make("four-paths", 1, max_failure=0.0)
    followed, probed = (explained(observed(problem, strategy, 500, 1)) for strategy in ("advice", "probe"))
    assert (followed.space, followed.goals) == ("any", [])
    assert followed.compared <= followed.answers / 2
    assert (probed.space, probed.goals) == ("state", [int(places(problem).argmax())])


def test_an_expert_who_answers_at_random_wants_nothing_that_can_be_named() -> None:
    """Of 30 such runs, half of them of 1000 samples, 2 were taken to avoid some place."""
    mistaken = []
    for name, seed in itertools.product(("four-paths", "double-chain", "gridworld"), range(4)):
        problem = make(name, seed)
        horizon, n_states, n_actions = problem.mdp.shape
        actions = np.random.default_rng(seed).integers(n_actions, size=(horizon, n_states))
        estimate = observed(problem, "probe", 300, seed, np.eye(n_actions)[actions])
        seen = explained(estimate)
        mistaken.append(seen.space != "any")
        assert seen.goals == []
        if seen.space == "any":
            assert not any(explained(estimate, space).explains for space in (StateReward(), StateActionReward()))
    assert sum(mistaken) <= 2


def test_rewards_that_depend_on_the_step_need_the_largest_space() -> None:
    for seed in range(4):
        problem = make("random-mdp", seed)
        estimate = observed(problem, "probe", 1000, seed)
        recovered = SparseLikelihood()(estimate, 2.0)
        seen = recovered.explanation
        assert seen is not None
        assert (seen.space, seen.explains, seen.goals, seen.avoided) == ("any", False, [], [])
        assert not explained(estimate, StateReward()).explains
        # The reward repeats the answers, and nothing else.
        np.testing.assert_array_equal(recovered.reward, np.where(estimate.expert_uses, 2.0, 0.0))
        assert recovered.infeasibility == 0.0
        assert recovered.unknown_step_reward == 0.0


def erring(problem: Problem, rate: float, seed: int) -> FloatArray:
    """The expert `[H, S, A]` with a wrong answer here and there."""
    rng = np.random.default_rng(seed)
    actions, n_actions = problem.expert.argmax(axis=2), problem.mdp.n_actions
    wrong = (actions + rng.integers(1, n_actions, size=actions.shape)) % n_actions
    return np.asarray(np.eye(n_actions)[np.where(rng.random(actions.shape) < rate, wrong, actions)])


@pytest.mark.parametrize("name", ["four-paths", "double-chain", "gridworld"])
def test_wrong_answers_are_borne(name: str) -> None:
    """With known dynamics nothing but an error can make an answer wrong."""
    for seed in range(3):
        problem = make(name, seed)
        estimate = observed(problem, "uniform", 1000, seed, erring(problem, 0.05, seed))
        seen = explained(with_known_dynamics(estimate, problem.mdp))
        assert seen.goals == [int(places(problem).argmax())]
        assert 0 < seen.error_rate <= 0.1
        assert 0.9 < seen.share < 1


def test_the_space_one_asks_for_is_the_space_one_gets() -> None:
    problem = make("gridworld", 0)
    estimate = observed(problem, "probe", 200, 0)
    for space in (StateReward(), StateActionReward()):
        recovered = SparseLikelihood()(estimate, 3.0, None, space)
        assert recovered.explanation is not None
        assert recovered.explanation.space == space.name
        design = space.design_matrix(estimate.mdp, estimate.terminal_states)
        table = design.table(recovered.explanation.theta)
        low, high = min(0.0, table.min()), max(0.0, table.max())
        np.testing.assert_allclose(recovered.reward, 3.0 * (table - low) / (high - low), atol=1e-12)
        assert set(recovered.parameters) == {f"theta.{space.name}"}


def test_a_larger_penalty_never_leaves_more_parameters_on_the_same_answers() -> None:
    problem = make("chain", 0)
    estimate = observed(problem, "probe", 600, 0)
    sizes = []
    for penalty in (0.5, 4.0, 40.0):
        recovered = SparseLikelihood(penalty)(estimate, 1.0, None, StateReward())
        assert recovered.explanation is not None
        sizes.append(np.count_nonzero(recovered.explanation.map_estimate))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


def test_features_that_cancel_out_over_what_was_visited_are_tried_all_the_same() -> None:
    """As many visits on the one side as on the other, and the expert wants to be on one of them."""
    step = np.array([0, 0, 1, 1])
    state, action, successor = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0]), np.array([1, 2, 1, 2])
    starts = np.array([40, 0, 0])
    moves = Moves(step=step, state=state, action=action, successor=successor, count=np.full(4, 20), starts=starts)
    answers = np.zeros((2, 3, 2), dtype=np.int64)
    answers[0, 0, 0] = 20
    seen = Counts.of_moves(moves, (2, 3, 2)).with_answers(answers)
    estimate = Estimate.of(seen, kind=ExpertKind(), delta=0.1)
    side = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_array_equal(explained(estimate, FeatureReward(side)).map_estimate, [1.0, 0.0])


def test_where_nothing_was_visited_there_is_a_reward_all_the_same() -> None:
    nothing = Estimate.of(Counts.empty((2, 3, 2)), kind=ExpertKind(), delta=0.1)
    for space in (StateReward(), StateActionReward()):
        seen = explained(nothing, space)
        assert np.abs(seen.theta).max() == np.abs(seen.map_estimate).max() == 1
        assert not seen.explains


def test_where_only_hurry_was_ever_paid_for_there_is_no_goal_to_pair_it_with() -> None:
    """The one feature is a state that was not met yet; of two episodes the shorter one is preferred."""
    seen = np.array([(0, 0, 0, 0), (0, 0, 1, 1), (1, 0, 1, 1)]).T
    step, state, action, successor = seen
    counts = Counts.of_moves(
        Moves(step, state, action, successor, np.ones(3, dtype=int), np.array([2, 0, 0])), (3, 3, 2)
    )
    shorter = Preference(((0, 0, 1, 1),), ((0, 0, 0, 0), (1, 0, 1, 1)))
    estimate = Estimate.of(counts, kind=ExpertKind(), delta=0.1, terminal=[1], preferences=(shorter,))
    found = SparseLikelihood()(estimate, 1.0, None, FeatureReward(np.array([[0.0], [0.0], [1.0]]))).explanation
    assert found is not None
    np.testing.assert_array_equal(found.map_estimate, [0.0, 1.0])


def test_what_rewards_have_in_common_changes_no_cost_and_no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an end and a step cost: blocks as the search makes them, of rewards with one hurry and with several."""
    counts = observed(make("gridworld", 0), "uniform", 200, 0).counts
    estimate = Estimate.of(counts, kind=ExpertKind(), delta=0.1, terminal=[counts.shape[1] - 1])
    rng, found, fits = np.random.default_rng(0), list[FloatArray](), list[FloatArray]()
    n = fit_of(estimate).design.n_parameters
    thetas = np.repeat(rng.choice([0.0, 0.0, 1.0, -0.25], size=(1, n)), 40, axis=0)
    thetas[np.arange(40), rng.integers(n - 1, size=40)] = 0.5
    thetas[:, -1] = rng.choice([0.0, 0.1, 1.0], size=40)
    for least in (0, 10**9):
        monkeypatch.setattr("aceirl.irl.sparse_likelihood.WORTH_SHARING", least)
        fit = fit_of(estimate)
        assert fit._shares == (least == 0)
        found.append(fit.costs(thetas))
        fits.append(fit.solve())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(fits[0], fits[1])
