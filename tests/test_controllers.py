"""Plans where observations have more coordinates than a grid takes: controllers, translated and searched for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from aceirl import ActiveIRL, ContinuousResult
from aceirl.errors import InputError
from aceirl.explain.coordinates import reward_in_words
from aceirl.irl import deviations
from aceirl.irl.claims import claims
from aceirl.irl.deviations import RewardByDeviations, recover_reward
from aceirl.learner.continuous.transfer import (
    Planned,
    members_disagree,
    search_by_sampling,
    transfer_reward,
    translated_copy,
)
from aceirl.models.vectors.controllers import Controller, Effects, search
from aceirl.models.vectors.episodes import TriedActions, play, worth
from aceirl.models.vectors.experience import Experience
from aceirl.models.vectors.features import Coordinates, Ends, VectorReward

PUSHES = np.array([[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])


class Dock(gymnasium.Env[Any, Any]):
    """A ship that slows down at a dock: place, speed and the heat of its engine, of 60 steps at most.

    The episode ends at rest in the dock, or far away. `order` says which push an action is, `drag` what slows it, and
    `strength` how strong a push is.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (6,))

    def __init__(
        self, order: tuple[int, ...] = (0, 1, 2, 3, 4), drag: float = 0.05, strength: float = 0.05, *, box: bool = False
    ) -> None:
        self.order, self.drag, self.strength, self.box = order, drag, strength, box
        self.action_space = spaces.Box(-1.0, 1.0, (2,)) if box else spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.speed = self.np_random.uniform(-0.8, 0.8, 2), self.np_random.uniform(-0.05, 0.05, 2)
        self.heat, self.steps = np.zeros(2), 0
        return self._seen(), {}

    def _seen(self) -> Any:
        return np.concatenate((self.place, self.speed, self.heat))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        push = np.asarray(action) if self.box else PUSHES[self.order[int(action)]]
        self.speed = (1 - self.drag) * self.speed + self.strength * push + 0.002 * self.np_random.standard_normal(2)
        self.place = self.place + self.speed
        self.heat = 0.7 * self.heat + 0.1 * np.abs(push)
        self.steps += 1
        out = bool(np.abs(self.place).max() > 1.5)
        rest = bool(np.abs(self.place).max() < 0.08 and np.abs(self.speed).max() < 0.03)
        self.speed = self.speed * (not rest)
        paid = -float(np.abs(self.place).max()) - 10 * out + 10 * rest
        return self._seen(), paid, out or rest, self.steps >= 60, {}


def steer(observation: Any) -> int:
    """Push along the axis that is farther from where it should be."""
    wanted = -0.5 * observation[:2] - 2.5 * observation[2:4]
    axis = int(np.abs(wanted).argmax())
    return 0 if abs(wanted[axis]) < 0.02 else 1 + 2 * axis + int(wanted[axis] > 0)


def steer_freely(observation: Any) -> Any:
    """The same with a push of any size."""
    return np.clip(8 * (-0.5 * observation[:2] - 2.5 * observation[2:4]), -1, 1).astype(np.float32)


def dock(**options: Any) -> Any:
    return Dock(**options)


def changed() -> Any:
    """Left is right, up is down, and there is more drag."""
    return Dock(order=(0, 2, 1, 4, 3), drag=0.2)


def earned(env: Any, act: Any) -> float:
    return float(np.mean([play(env, act, seed).paid for seed in range(20)]))


def aimless(env: Any, episodes: int, seed: int = 0) -> Experience:
    met = Experience(env, np.random.default_rng(seed))
    for _ in range(episodes):
        met.play(met.sticky())
    return met


def copied(env: Any, act: Any, seed: int = 0) -> tuple[Controller, Experience]:
    """A copy of an expert by twenty episodes that err, and those episodes."""
    met = Experience(env, np.random.default_rng(seed))
    for _ in range(20):
        met.play(met.noisy(act, 0.3))
    seen = np.concatenate([episode.observations[:-1] for episode in met.episodes])
    return Controller.copying(met.choices, seen, np.array([act(one) for one in seen])), met


@pytest.mark.parametrize(("box", "act"), [(False, steer), (True, steer_freely)])
def test_a_copy_does_what_the_expert_does(box: bool, act: Any) -> None:
    copy, met = copied(dock(box=box), act)
    seen = np.concatenate([episode.observations[:-1] for episode in aimless(dock(box=box), 5, 3).episodes])
    asked, said = (np.array([policy(one) for one in seen]) for policy in (act, copy.predict))
    if box:
        assert np.abs(asked - said).mean() < 0.25
        assert met.choices.within(np.array([-7.0, 0.5])).tolist() == [-1.0, 0.5]
    else:
        assert (asked == said).mean() > 0.75
    assert earned(dock(box=box), copy.predict) > earned(dock(box=box), act) - 3


def test_what_actions_do_is_a_regression() -> None:
    """A push adds 0.05 to the speed; beside it the mean of all five is left out."""
    met = aimless(dock(), 20)
    scale = np.ones(6)
    found = Effects.of(met.choices, met.episodes, scale)
    np.testing.assert_allclose(found.mean[:, 2:4], 0.05 * PUSHES, atol=5 * found.error[:, 2:4].max())
    np.testing.assert_allclose(found.mean[:, :2], 0.05 * PUSHES, atol=5 * found.error[:, :2].max())
    assert found.error[:, 2:4].max() < 0.001


@pytest.mark.parametrize("seed", range(5))
def test_actions_are_translated_by_what_they_do(seed: int) -> None:
    order = tuple(int(one) for one in np.random.default_rng(seed).permutation(5))
    home, away = aimless(dock(), 10, seed), aimless(dock(order=order, drag=0.0), 10, seed + 100)
    scale = home.observations.std(axis=0)
    one = Controller(home.choices, scale, np.arange(5.0)[:, None] * np.ones(13), 1.0)
    effects = [Effects.of(met.choices, met.episodes, scale) for met in (home, away)]
    assert tuple(one.translated(effects[0], effects[1], away.choices).weights[:, 0].astype(int)) == order


def test_numbers_of_a_box_are_translated_with_their_sign() -> None:
    class Turned(gymnasium.ActionWrapper[Any, Any, Any]):
        def action(self, action: Any) -> Any:
            return np.array([-action[1], action[0]])

    home, away = aimless(dock(box=True), 10), aimless(Turned(dock(box=True)), 10, 1)
    scale = home.observations.std(axis=0)
    effects = [Effects.of(met.choices, met.episodes, scale) for met in (home, away)]
    one = Controller(home.choices, scale, np.array([[1.0] * 13, [2.0] * 13]), 1.0)
    # The first number pushes up, as the second did at home; the second pushes left, as minus the first did.
    assert one.translated(effects[0], effects[1], away.choices).weights[:, 0].tolist() == [2.0, -1.0]


def test_actions_of_another_form_stand_for_none() -> None:
    home, away = aimless(dock(), 3), aimless(dock(box=True), 3)
    scale = home.observations.std(axis=0)
    effects = [Effects.of(met.choices, met.episodes, scale) for met in (home, away)]
    found = Controller(home.choices, scale, np.ones((5, 13)), 1.0).translated(effects[0], effects[1], away.choices)
    assert found.weights.tolist() == np.zeros((2, 13)).tolist()


def test_a_search_improves_on_its_start_and_never_returns_worse() -> None:
    copy, _ = copied(dock(), steer)
    poor = replace(copy, weights=copy.weights + 0.4 * np.random.default_rng(5).standard_normal(copy.weights.shape))
    met = Experience(dock(), np.random.default_rng(0))
    found = search(met, lambda one: one.paid, poor, 15_000)
    assert 10_000 < met.steps < 17_000
    assert earned(dock(), found.controller.predict) > earned(dock(), poor.predict) + 1
    assert len({tuple(one.seed for one in episodes) for episodes in found.last}) == 1
    met = Experience(dock(), np.random.default_rng(1))
    same = search(met, lambda one: one.paid, found.controller, 100, each=1)
    tests = [episode.seed for episode in met.episodes[:8]]
    before, after = (
        np.mean([play(dock(), one.predict, seed).paid for seed in tests]) for one in (found.controller, same.controller)
    )
    assert after >= before - 1e-9
    assert same.value == pytest.approx(after)


def test_ends_that_lie_close_together_are_a_kind_of_their_own() -> None:
    rng = np.random.default_rng(0)
    inside = rng.standard_normal((3000, 4))
    rest = 0.02 * rng.standard_normal((30, 4)) + np.array([0.3, 0, 0, 0])
    crashes = 0.8 * rng.standard_normal((40, 4))
    ends = Ends.of(Coordinates.of(inside, ("x", "y", "speed", "turn")), inside, np.concatenate((rest, crashes)))
    assert len(ends.clusters) == 2
    kinds = ends.kind(np.concatenate((rest, crashes)))
    assert len(set(kinds[:30])) == 1
    assert (kinds[30:] != kinds[0]).mean() > 0.95
    assert sorted(ends.names)[1] == "any other end"
    assert sorted(ends.names)[0].startswith("an end like ")
    assert Ends.from_json(ends.coordinates, ends.to_json()).kind(crashes).tolist() == kinds[30:].tolist()


def test_ends_that_lie_alike_are_one_kind() -> None:
    rng = np.random.default_rng(0)
    inside = rng.standard_normal((3000, 4))
    for seed in range(20):
        ends = np.random.default_rng(seed).standard_normal((40, 4)) * 0.8
        assert len(Ends.of(Coordinates.of(inside), inside, ends)) == 1


@pytest.fixture(scope="module")
def recovered() -> RewardByDeviations:
    """What is wanted of the ship, which has six coordinates."""
    names = ("x", "y", "x speed", "y speed", "x heat", "y heat")
    return recover_reward(dock, steer, np.random.default_rng(0), 10_000, names=names)


@pytest.fixture(scope="module")
def planned(recovered: RewardByDeviations) -> Planned:
    counted: list[int] = []
    found = transfer_reward(changed, recovered, np.random.default_rng(1), 20_000, counted.append)
    assert found.steps == counted[-1]
    assert 15_000 < found.steps < 22_000
    return found


def test_the_reward_of_six_coordinates_survives_where_copying_fails(
    recovered: RewardByDeviations, planned: Planned
) -> None:
    assert recovered.warning is None
    assert recovered.chosen.level == "squares"
    assert recovered.reward.weights[-1] == 0  # of the step: the ends say as much
    assert recovered.steps < 11_000
    assert recovered.home.prepared is None
    assert recovered.home.effects is not None
    assert recovered.home.copy is not None
    true = search_by_sampling(
        changed(), lambda one: one.paid, np.random.default_rng(1), 20_000, (recovered.home.copy, recovered.home.effects)
    )
    chance = earned(changed(), lambda _: int(np.random.default_rng(0).integers(5)))
    best = earned(changed(), true.predict)
    found = earned(changed(), planned.predict)
    assert earned(changed(), steer) < best - 15
    assert found > chance + 0.9 * (best - chance)


def test_the_reward_makes_something_of_a_poor_copy(recovered: RewardByDeviations) -> None:
    """A good one needs only to be translated."""
    copy, effects = recovered.home.copy, recovered.home.effects
    assert copy is not None
    assert effects is not None
    away = copy.size * np.random.default_rng(0).standard_normal(copy.weights.shape)
    start = replace(copy, weights=copy.weights + away), effects
    translated = translated_copy(Experience(changed(), np.random.default_rng(1)), start, 20_000)
    found = search_by_sampling(
        changed(), lambda one: worth(recovered.reward.batch, one, 0.99), np.random.default_rng(1), 20_000, start
    )
    assert earned(changed(), found.predict) > earned(changed(), translated.predict) + 10


def test_a_reward_that_says_the_opposite_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search about a copy of the expert stays near it whatever the reward is, so that alone must not do."""
    found = deviations._fitted
    monkeypatch.setattr(deviations, "_fitted", lambda *given: -found(*given))
    said = recover_reward(dock, steer, np.random.default_rng(0), 10_000).warning
    assert said is not None
    assert "no reward over these features was found" in said


def test_what_never_changes_does_no_harm() -> None:
    class Padded(gymnasium.ObservationWrapper[Any, Any, Any]):
        def observation(self, observation: Any) -> Any:
            return np.append(observation, 5.0)

    copy, _ = copied(Padded(dock()), steer)
    assert earned(Padded(dock()), copy.predict) > earned(dock(), steer) - 3
    plain = aimless(dock(), 20)
    with_it = aimless(Padded(dock()), 20)
    errors = [
        Effects.of(one.choices, one.episodes, scale).error[:, 2:4]
        for one, scale in ((plain, copy.scale[:6]), (with_it, copy.scale))
    ]
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.1)


def test_rest_is_wanted_and_nothing_is_sure_that_was_not_tested(recovered: RewardByDeviations) -> None:
    found = claims(recovered, np.random.default_rng(0))
    assert not any(one.sure for one in found)
    said = reward_in_words(found, tested=False)
    assert said.startswith("By the reward that was found the expert ")
    assert "was not tested: observations have too many coordinates." in said
    ends = recovered.reward.features.ends
    rest = int(ends.kind(np.zeros((1, 6)))[0])
    assert ends.names[rest] == "any other end"  # besides those where x or y is far away
    assert recovered.reward.weights[-1 - len(ends) : -1].argmax() == rest


def test_other_rewards_that_plan_otherwise_are_warned_of_after_a_search(
    recovered: RewardByDeviations, planned: Planned
) -> None:
    turned = VectorReward(recovered.reward.features, -recovered.reward.weights)
    said = members_disagree(planned, replace(recovered, members=(turned, *recovered.members)))
    assert said is not None
    assert "has another plan here" in said


def test_an_estimator_takes_many_coordinates_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aceirl.irl.deviations.RECOVERING_WIDE", 4_000)
    result = ActiveIRL(max_answers=60, certify=None).fit(dock(), steer, horizon=60)
    assert isinstance(result, ContinuousResult)
    assert "too many coordinates" in result.without_asking().sentence
    assert result.without_asking().recovered.answers == 0
    found = result.transfer(changed(), steps=8_000)
    assert found.steps < 9_000
    assert earned(changed(), found.predict) > earned(changed(), steer) + 10
    few = result.transfer(changed(), steps=500)
    assert few.steps < 1_000
    with pytest.raises(InputError, match="steps is 0"):
        result.transfer(changed(), steps=0)


def test_actions_that_are_neither_numbered_nor_bounded_are_refused() -> None:
    with pytest.raises(InputError, match="it must be Discrete, or a Box"):
        TriedActions.of(spaces.MultiBinary(3))


def test_what_is_the_same_at_home_and_not_elsewhere_does_no_harm_either() -> None:
    class Padded(gymnasium.ObservationWrapper[Any, Any, Any]):
        def __init__(self, env: Any, value: float) -> None:
            super().__init__(env)
            self.value = value

        def observation(self, observation: Any) -> Any:
            return np.append(observation, self.value)

    copy, _ = copied(Padded(dock(), 5.0), steer)
    assert earned(Padded(dock(), 9.0), copy.predict) > earned(dock(), steer) - 3


def test_a_search_begins_near_a_copy_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all of the copy is in its network."""
    copy, _ = copied(dock(), steer)
    assert not copy.weights.any()
    tried: list[Any] = []

    def noted(self: Controller, seen: Any) -> int:
        tried.append(self.weights)
        return 0

    monkeypatch.setattr(Controller, "predict", noted)
    search(Experience(dock(), np.random.default_rng(0)), lambda one: one.paid, copy, 3_000)
    spread = np.unique(np.array(tried), axis=0).std() / copy.size
    assert 0.15 < spread < 0.35
