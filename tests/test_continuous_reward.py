"""Rewards over coordinates: features, learned dynamics, plans on a grid, deviations, claims, transfer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from aceirl.envs.coordinates import coordinate_names
from aceirl.errors import InputError
from aceirl.explain.coordinates import reward_in_words, reward_picture
from aceirl.irl.claims import ENDS, CoordinateClaim, claims, least_slack
from aceirl.irl.deviations import RewardByDeviations, recover_reward
from aceirl.learner.continuous.transfer import Planned, members_disagree, plan_by_sampling, transfer_reward
from aceirl.models.vectors.dynamics import LearnedDynamics
from aceirl.models.vectors.episodes import Episode, TriedActions, discounted, play, worth
from aceirl.models.vectors.experience import Experience, novelty
from aceirl.models.vectors.features import HATS, Border, Coordinates, Ends, Features, VectorReward, logistic
from aceirl.models.vectors.planning import NodeGrid, Prepared
from studies.controllers import balance, rock
from studies.worlds import TASKS, cart_pole, mountain_car, pendulum

RNG = np.random.default_rng(0)


def angles(n: int = 500) -> Any:
    """Observations of a pendulum: cosine, sine, speed."""
    rng = np.random.default_rng(1)
    theta = rng.uniform(-np.pi, np.pi, n)
    return np.stack([np.cos(theta), np.sin(theta), rng.normal(size=n)], axis=1)


# Coordinates and features


def test_cosine_and_sine_are_one_angle_and_back() -> None:
    seen = angles()
    found = Coordinates.of(seen, ("cosine of angle", "sine of angle", "speed"))
    assert found.names == ("angle", "speed")
    assert found.circles.tolist() == [True, False]
    np.testing.assert_allclose(found.decode(found.encode(seen)), seen, atol=1e-12)
    np.testing.assert_allclose(found.encode(seen)[:, 0], [np.angle(complex(c, s)) for c, s, _ in seen], atol=1e-12)
    around = found.difference(np.array([[np.pi - 0.1, 1.0]]), np.array([[-np.pi + 0.1, 0.0]]))
    np.testing.assert_allclose(around, [[-0.2, 1.0]])


def test_flags_are_told_from_numbers() -> None:
    found = Coordinates.of(np.array([[0.0, 0.5], [1.0, 0.25], [0.0, 0.75]]))
    assert [part.kind for part in found.parts] == ["flag", "line"]
    assert found.names == ("entry 1", "entry 2")


@pytest.mark.parametrize(
    ("seen", "names", "said"),
    [
        (np.zeros((0, 2)), (), "at least one"),
        (np.zeros(3), (), "must be vectors"),
        (np.array([[0.0, np.nan]]), (), "entry 1 of observation 0 is nan"),
        (np.zeros((2, 2)), ("one",), "1 names for observations of 2 entries"),
    ],
)
def test_what_no_coordinates_can_be_made_of_is_said(seen: Any, names: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Coordinates.of(seen, names)


def test_hats_are_linear_interpolation_and_sum_to_one() -> None:
    part = Coordinates.of(RNG.normal(size=(400, 1))).parts[0]
    values = np.linspace(-5, 5, 301)
    found = part.features(values)
    for number in range(HATS):
        np.testing.assert_allclose(found[:, number], np.interp(values, part.knots, np.eye(HATS)[number]), atol=1e-12)
    np.testing.assert_allclose(found[:, :HATS].sum(axis=1), 1.0)
    np.testing.assert_allclose(found[:, HATS], np.minimum((values / part.scale) ** 2, 4) / 4)


def test_hats_of_a_circle_go_round() -> None:
    part = Coordinates.of(angles()).parts[0]
    values = np.linspace(-np.pi, np.pi, 101)
    found = part.features(values)[:, :HATS]
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(found[0], found[-1], atol=1e-12)
    np.testing.assert_allclose(found[50], [0, 0, 1, 0, 0], atol=1e-12)  # at zero


def test_kinds_of_ends_are_borders_and_clusters() -> None:
    rng = np.random.default_rng(3)
    inside = rng.uniform(-1, 1, (2000, 3))
    inside = inside[(inside[:, 1:] ** 2).sum(axis=1) < 0.8]
    right = np.column_stack([rng.uniform(1.01, 1.1, 10), rng.uniform(-0.3, 0.3, (10, 2))])
    corner = np.column_stack([rng.uniform(-0.5, 0.5, 12), rng.uniform(0.7, 0.85, (12, 2))])
    ends = Ends.of(Coordinates.of(np.concatenate((inside, right, corner))), inside, np.concatenate((right, corner)))
    assert len(ends.borders) == 1
    assert len(ends.clusters) == 1
    assert ends.borders[0].side == 1
    assert inside[:, 0].max() < ends.borders[0].at < right[:, 0].min()
    assert ends.kind(right).tolist() == [0] * 10
    assert ends.kind(corner).tolist() == [1] * 12
    assert ends.over(right).all()
    assert ends.over(corner).all()
    assert ends.over(inside).mean() < 0.01


def test_a_reward_is_the_sum_of_its_features_and_survives_json() -> None:
    seen = angles()
    features = Features.of(
        seen[:-20], seen[-20:] + np.array([0, 0, 9.0]), ("cosine of angle", "sine of angle", "speed")
    )
    assert len(features.names) == features.n_features == len(features(seen, np.zeros(len(seen), dtype=bool))[0])
    assert sum(part.stop - part.start for part in features.groups.values()) == features.n_features
    reward = VectorReward(features, RNG.normal(size=features.n_features))
    again = VectorReward.from_json(reward.to_json())
    for observation, end in ((seen[3], False), (seen[-1] + np.array([0, 0, 9.0]), True)):
        by_hand = float(features(observation[None], np.array([end]))[0] @ reward.weights)
        assert reward(None, 0, observation, end, 0) == pytest.approx(by_hand)
        assert again(None, 0, observation, end, 0) == pytest.approx(by_hand)
    with pytest.raises(InputError, match="weights have the shape"):
        VectorReward(features, np.zeros(2))


def test_logistic_is_a_minimum() -> None:
    D, share = RNG.normal(size=(60, 4)) + 0.3, np.full(60, 1 / 60)
    w = logistic(D, share, 0.1)

    def loss(w: Any) -> float:
        return float(np.mean(np.log(1 + np.exp(-D @ w))) + 0.05 * w @ w)

    for step in 1e-3 * np.vstack((np.eye(4), -np.eye(4))):
        assert loss(w + step) > loss(w)


def test_discounted_sums_go_on_as_at_last() -> None:
    paid = RNG.normal(size=(30, 2))
    by_hand = np.zeros(2)
    for t in range(4000):
        by_hand += 0.9**t * (paid[t] if t < 30 else paid[-5:].mean(axis=0))
    np.testing.assert_allclose(discounted(paid, False, 0.9, last=5), by_hand)
    np.testing.assert_allclose(discounted(paid, True, 0.9), sum(0.9**t * row for t, row in enumerate(paid)))


# Simulators


def test_choices_of_spaces() -> None:
    three = TriedActions.of(spaces.Discrete(3, start=1))
    assert [three.action(k) for k in range(3)] == [1, 2, 3]
    assert three.parts([2, 3]).tolist() == [[0, 1, 0], [0, 0, 1]]
    box = TriedActions.of(spaces.Box(np.array([-2, 0], dtype=np.float32), np.array([2, 1], dtype=np.float32)))
    assert len(box) == 25
    assert box.parts([[2.0, 0.5]]).tolist() == [[1.0, 0.0]]
    many = TriedActions.of(spaces.Box(-1.0, 1.0, (6,)))
    assert len(many) == 125
    with pytest.raises(InputError, match="it must be Discrete"):
        TriedActions.of(spaces.Box(-np.inf, np.inf, (2,)))


def test_names_of_known_environments() -> None:
    assert coordinate_names(gymnasium.make("CartPole-v1"))[2] == "pole angle"
    assert len(coordinate_names(gymnasium.make("Acrobot-v1"))) == 6
    assert coordinate_names(gymnasium.make("Pendulum-v1"))[2] == "angular velocity"


def learned(env: Any, steps: int) -> tuple[Experience, LearnedDynamics]:
    met = Experience(env, np.random.default_rng(5))
    while met.steps < steps:
        met.play(met.sticky())
    return met, met.dynamics()


def test_learned_dynamics_are_the_simulators() -> None:
    """By the simulator's own step from states that were not seen."""
    env = pendulum(gravity=15.0, swapped=True)
    _, found = learned(env, 2500)
    for theta, speed in ((0.3, 1.0), (-2.0, 0.5), (3.0, -2.0)):
        arrived, _ = found.step(np.array([[theta, speed]]))
        for number, action in enumerate(found.choices.values):
            env.reset(seed=0)
            env.unwrapped.state = np.array([theta, speed])
            observation = env.step(action.astype(np.float32))[0]
            there = found.coordinates.encode(observation[None])
            assert np.abs(found.coordinates.difference(arrived[number], there)).max() < 0.02


def test_a_wall_does_not_spoil_the_dynamics() -> None:
    """MountainCar's car stops at the wall; away from it, steps are exact all the same."""
    met, found = learned(mountain_car(gravity=0.001), 3000)
    values = found.coordinates.encode(met.observations)
    assert values[:, 0].min() < -1.19
    arrived, _ = found.step(np.array([[-0.5, 0.01]]))
    for action in range(3):
        speed = 0.01 + (action - 1) * 0.001 - np.cos(3 * -0.5) * 0.001
        np.testing.assert_allclose(arrived[action, 0], [-0.5 + speed, speed], atol=1e-4)


def test_ends_of_another_simulator_are_expected_until_something_else_is_seen() -> None:
    met, unaware = learned(mountain_car(), 1000)
    assert not met.ends.size  # random actions never get to the goal
    near = np.array([[0.48, 0.05]])
    assert not unaware.step(near)[1].any()
    seen = unaware.ends
    met.known = replace(seen, borders=(Border(0, 1, 0.5), Border(0, -1, -0.55)))  # it went on left of -0.55
    aware = met.dynamics()
    assert aware.ends.borders == (Border(0, 1, 0.5),)
    assert aware.step(near)[1].all()
    assert not aware.step(np.array([[0.3, 0.01]]))[1].any()
    own = replace(seen, borders=(Border(0, 1, 0.6),))
    assert own.with_borders_of(met.known, met.inside).borders == own.borders


def test_interpolation_is_exact_for_multilinear_functions() -> None:
    grid = NodeGrid((np.array([0.0, 0.1, 0.5, 1.0]), np.array([-1.0, 0.0, 2.0])), np.array([False, False]))

    def f(v: Any) -> Any:
        return 1 + 2 * v[:, 0] - v[:, 1] + 3 * v[:, 0] * v[:, 1]

    points = RNG.uniform((0, -1), (1, 2), (50, 2))
    corners, weights = grid.locate(points)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose((f(grid.nodes)[corners] * weights).sum(axis=1), f(points))


def test_interpolation_goes_round_a_circle() -> None:
    grid = NodeGrid((np.linspace(-np.pi, np.pi, 8, endpoint=False),), np.array([True]))
    corners, weights = grid.locate(np.array([[np.pi - 1e-9], [np.pi - np.pi / 8]]))
    assert {int(k) for k in corners[1]} == {7, 0}
    np.testing.assert_allclose(weights[1], 0.5)
    np.testing.assert_allclose(weights[0][corners[0] == 0], 1.0, atol=1e-6)


def test_values_satisfy_the_bellman_equation() -> None:
    met, found = learned(mountain_car(), 1500)
    prepared = Prepared.of(found, found.coordinates.encode(met.observations), 0.95, nodes=400)
    reward = lambda o, a, arrived, end: -((arrived[:, 0] - 0.2) ** 2)  # noqa: E731
    plan = prepared.plan(reward)
    backed = np.full(len(plan.values), -np.inf)
    for a in range(3):
        after = plan.interpolated(found.coordinates.encode(prepared.arrivals[a])) * ~prepared.over[a]
        backed = np.maximum(backed, reward(None, None, prepared.arrivals[a], None) + 0.95 * after)
    change = backed - plan.values
    assert np.ptp(change) < 0.01
    observation = met.observations[40]
    assert plan.predict(observation) == int(plan.worths(observation[None])[:, 0].argmax())


def test_more_coordinates_than_a_grid_takes_are_refused() -> None:
    env = gymnasium.wrappers.FlattenObservation(
        gymnasium.wrappers.FrameStackObservation(cart_pole(), 2)  # eight numbers
    )
    with pytest.raises(InputError, match="8 coordinates"):
        plan_by_sampling(env, true_reward("CartPole"), np.random.default_rng(0), 200)


def test_novelty_counts_visits() -> None:
    coordinates = Coordinates.of(np.array([[0.0, 0.5], [1.0, 0.2], [0.3, 1.0]]))
    seen = np.array([[0.05, 0.05]] * 3 + [[0.95, 0.95], [0.0, 0.0], [1.0, 1.0]])
    reward = novelty(coordinates, seen)
    arrived = np.array([[0.02, 0.07], [0.95, 0.91], [0.5, 0.5], [0.5, 0.5], [-0.4, 0.5]])
    ends = np.array([False, False, False, True, False])
    found = reward(arrived, arrived, arrived, ends)
    np.testing.assert_allclose(found, [1 / np.sqrt(5), 1 / np.sqrt(2), 1.0, 0.0, 1.0])


def true_reward(task: str) -> Any:
    return TASKS[task].reward


def test_worlds_are_changed() -> None:
    same, other = cart_pole(), TASKS["CartPole"].away()
    assert play(same, balance, 3).steps == 300
    assert play(other, balance, 3).steps < 30
    assert abs(other.reset(seed=4)[0][0]) > 1.1
    assert play(mountain_car(), rock, 3).terminated
    assert not play(TASKS["MountainCar"].away(), rock, 3).terminated
    env = TASKS["Pendulum"].home()
    one = play(env, lambda _: np.array([1.5], dtype=np.float32), 2)
    paid = true_reward("Pendulum")(one.observations[:-1], one.actions, one.arrivals, one.ends)
    assert paid.sum() == pytest.approx(one.paid, rel=1e-4)


# Recovering, saying, planning elsewhere


@pytest.fixture(scope="module")
def recovered() -> RewardByDeviations:
    """MountainCar's reward from the rule "push where it moves"."""
    env = mountain_car()
    return recover_reward(mountain_car, rock, np.random.default_rng(0), 10_000, names=coordinate_names(env))


def test_the_end_is_what_is_wanted(recovered: RewardByDeviations) -> None:
    assert recovered.warning is None
    assert recovered.chosen.level == "ends and the step"
    assert recovered.steps <= 10_000
    assert 0 < recovered.answers < recovered.steps
    (found,) = claims(recovered, np.random.default_rng(0))
    assert (found.about, found.likes) == (ENDS, (("the end with position above 0.5", 1),))
    assert "wants to reach the end with position above 0.5 soon" in reward_in_words((found,))


def test_the_expert_is_preferred_in_every_group(recovered: RewardByDeviations) -> None:
    """The moment inequalities, by hand; the expert is a rule, which some detours improve on a little."""
    w, home = recovered.reward.weights, recovered.home
    unit = float(w @ (home.expert - home.random))
    assert unit > 0
    for group in {one.group for one in recovered.comparisons}:
        mean = np.mean([one.difference for one in recovered.comparisons if one.group == group], axis=0)
        assert float(w @ mean) > -0.1 * unit, group


@pytest.fixture(scope="module")
def planned(recovered: RewardByDeviations) -> Planned:
    """The same reward where gravity is stronger and actions are swapped."""
    counted: list[int] = []
    found = transfer_reward(TASKS["MountainCar"].away, recovered, np.random.default_rng(1), 5_000, counted.append)
    assert found.steps == counted[-1] <= 5_500
    return found


def test_the_reward_survives_where_copying_fails(planned: Planned) -> None:
    env = TASKS["MountainCar"].away()
    assert planned.warning is None
    assert np.mean([play(env, rock, seed).paid for seed in range(5)]) == -200
    assert np.mean([play(env, planned.predict, seed).paid for seed in range(5)]) > -135


def test_a_plan_that_falls_short_is_warned_of(recovered: RewardByDeviations) -> None:
    """A world in which the car is too weak to reach anything: no plan is worth what the expert was at home."""

    def weak() -> Any:
        env = mountain_car()
        env.unwrapped.force = 0.0001
        return env

    planned = transfer_reward(weak, recovered, np.random.default_rng(2), 1_500)
    assert planned.warning is not None
    assert "does worse than the expert did in its own environment" in planned.warning


def test_members_that_plan_otherwise_are_warned_of(recovered: RewardByDeviations, planned: Planned) -> None:
    assert members_disagree(planned, recovered) is None
    turned = VectorReward(recovered.reward.features, -recovered.reward.weights)
    doubtful = replace(recovered, members=(turned, *recovered.members))
    said = members_disagree(planned, doubtful)
    assert said is not None
    assert "has another plan here" in said


def test_a_careless_expert_gets_a_warning() -> None:
    """Who acts at random wants nothing that plans could show."""
    rng = np.random.default_rng(8)
    found = recover_reward(
        cart_pole, lambda _: int(rng.integers(2)), np.random.default_rng(0), 2_500, names=coordinate_names(cart_pole())
    )
    assert found.warning is not None
    assert "no reward over these features" in found.warning


def test_least_slack_by_brute_force() -> None:
    rng = np.random.default_rng(4)
    for _ in range(5):
        rows, unit = rng.normal(size=(4, 2)), rng.normal(size=2)
        found, w = least_slack(rows, unit, np.array([True, True]), np.ones(2))
        assert unit @ w == pytest.approx(1)
        side = np.array([-unit[1], unit[0]])
        tried = unit / (unit @ unit) + np.linspace(-40, 40, 80001)[:, None] * side
        tried = tried[np.abs(tried).max(axis=1) <= 100]
        best = np.maximum(0.0, -(tried @ rows.T).min(axis=1)).min()
        assert found == pytest.approx(best, abs=5e-3)
    assert least_slack(rows, unit, np.array([False, False]), np.ones(2))[0] == np.inf


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((), "What was observed does not tell what the expert wants."),
        (
            (CoordinateClaim("pole angle", True, (("near 0", 1),)), CoordinateClaim(ENDS, True, (("the end", -1),))),
            "The expert keeps the pole angle near 0; avoids that the episode ends.",
        ),
        (
            (CoordinateClaim("entry 2", False, (("near 0.5", 1),)),),
            "What was observed does not tell what the expert wants. "
            "Open: whether it keeps entry 2 near 0.5; rewards without that explain the expert as well.",
        ),
        (
            (CoordinateClaim(ENDS, True, (("the goal", 1), ("a crash", -1))), CoordinateClaim("speed", True, ())),
            "The expert wants to reach the goal soon and avoids a crash.",
        ),
    ],
)
def test_words(found: Any, said: str) -> None:
    assert reward_in_words(found) == said


def test_a_picture_of_two_coordinates(recovered: RewardByDeviations) -> None:
    axes = reward_picture(recovered.reward, "position", "velocity")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("position", "velocity")
    with pytest.raises(InputError, match="there are: position, velocity"):
        reward_picture(recovered.reward, "height", "velocity")


def test_budgets_are_checked() -> None:
    with pytest.raises(InputError, match="steps is 3"):
        recover_reward(mountain_car, rock, np.random.default_rng(0), 3)
    with pytest.raises(InputError, match="steps is 0"):
        plan_by_sampling(mountain_car(), true_reward("MountainCar"), np.random.default_rng(0), 0)


def test_worth_is_the_discounted_reward() -> None:
    one = Episode(np.arange(4.0)[:, None], np.zeros(3, dtype=int), True, 0)
    paid = worth(lambda o, a, arrived, end: arrived[:, 0] + 10 * end, one, 0.5)
    assert paid == pytest.approx(1 + 0.5 * 2 + 0.25 * 13)
