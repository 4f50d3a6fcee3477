"""A day's work: three environments of one's own, each from its class to a sentence, a transfer and a trained agent.

The scripts in `tests/day` are as a user would write them, in 25 lines at most.
"""

from __future__ import annotations

import re
import runpy
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium_environments import Conveyor, Corridor

import aceirl
from aceirl.envs import search
from aceirl.envs.pay import PaySeen
from aceirl.envs.search import Sampled, copied
from aceirl.envs.truth import exact_model, sampled_model
from aceirl.explore.telling import Telling
from aceirl.learner.comparing import METHODS, _without
from aceirl.models.tabular.encoder import StateIndex

SCRIPTS = Path(__file__).parent / "day"
DAY = ("warehouse", "inventory", "queue")


@cache
def worked(name: str) -> dict[str, Any]:
    return runpy.run_path(str(SCRIPTS / f"{name}.py"))


def trained(env: gymnasium.Env[Any, Any], horizon: int, episodes: int = 3_000) -> Any:
    """What an agent does that learned on this environment: one of Stable-Baselines3, or a table of action values."""
    if find_spec("stable_baselines3"):
        from stable_baselines3 import DQN

        space: Any = env.observation_space

        def flat(seen: Any) -> Any:
            return spaces.flatten(space, seen if isinstance(space, spaces.Discrete) else np.asarray(seen))

        shown = gymnasium.wrappers.TransformObservation(env, flat, spaces.flatten_space(space))
        linear = {"policy_kwargs": {"net_arch": []}, "learning_rate": lambda left: 0.05 * left, "batch_size": 128}
        often = {"learning_starts": 500, "target_update_interval": 250, "exploration_fraction": 0.7}
        model = DQN("MlpPolicy", gymnasium.wrappers.TimeLimit(shown, horizon), seed=0, **linear, **often)
        model.learn(20_000)
        return lambda seen: int(model.predict(flat(seen), deterministic=True)[0])
    q: defaultdict[Any, Any] = defaultdict(lambda: np.zeros(int(env.action_space.n)))  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    for episode in range(episodes):
        seen, _ = env.reset(seed=episode)
        for _ in range(horizon):
            greedy = rng.random() > max(0.1, 1 - 1.5 * episode / episodes)
            action = int(q[seen].argmax()) if greedy else int(rng.integers(len(q[seen])))
            after, reward, over, _, _ = env.step(action)
            q[seen][action] += 0.2 * (float(reward) + 0.95 * (0.0 if over else q[after].max()) - q[seen][action])
            seen = after
            if over:
                break
    return lambda seen: int(q[seen].argmax())


def returned(env: gymnasium.Env[Any, Any], act: Any, horizon: int, episodes: int = 200) -> float:
    """The mean return of an episode."""
    total = 0.0
    for episode in range(episodes):
        seen, _ = env.reset(seed=10_000 + episode)
        for _ in range(horizon):
            seen, reward, over, _, _ = env.step(act(seen))
            total += float(reward)
            if over:
                break
    return total / episodes


@pytest.mark.parametrize("name", DAY)
def test_a_script_is_short_and_says_what_was_wanted(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    written = (SCRIPTS / f"{name}.py").read_text().splitlines()
    assert len(written) <= 25
    runpy.run_path(str(SCRIPTS / f"{name}.py"))
    said = capsys.readouterr().out
    assert "expert wants" in said, "what it wants, or that the answers do not tell"
    assert "Certified with 90 % confidence: the policy" in said
    assert "The target has no exact model, so one was estimated from" in said
    assert "In this run rewards were" in said


@pytest.mark.parametrize(("name", "promised"), [("inventory", 1.5 * 5.5), ("warehouse", 1.2)])
def test_a_promise_is_said_in_units_of_what_was_paid(name: str, promised: float) -> None:
    """It is in proportion to the largest difference of two rewards, so it needs no other run to be said in theirs."""
    result = worked(name)["result"]
    assert result.certificate.value == pytest.approx(promised / result.task.environment.pay_seen.spans[0])
    said = next(
        line for line in result.sentences if line.startswith("The environment does not declare a range of rewards")
    )
    assert f"the promise is a loss of at most {promised:.3g}" in said
    assert ("which is more than these returns differ by" in said) == (name == "warehouse")
    assert said.endswith("set rmax=1 and max_return=1." if name == "warehouse" else "set rmax=5.5 and max_return=27.")


def test_a_report_says_what_would_tell_more_and_that_works() -> None:
    """Where the wish is open, the last line is a command, and nothing has to be chosen besides."""
    result = worked("queue")["result"]
    assert result.wish.kind == "open"
    command = re.search(r"result\.resume\(.*?\)", result.sentences[-1])
    assert command is not None
    more = eval(command[0].replace(f"max_samples={10 * result.samples}", f"max_samples={2 * result.samples}"))
    assert isinstance(more.turn.settings.strategy, Telling)
    assert more.samples > result.samples
    assert not any("go on with the certificate goal" in line for line in more.sentences), "it was about that"


@pytest.mark.parametrize("name", DAY)
def test_an_agent_learns_from_the_recovered_reward(name: str) -> None:
    made = worked(name)
    env, horizon = made["agent_env"], made["result"].task.environment.horizon
    act, rng = trained(env, horizon), np.random.default_rng(0)
    n_actions = int(env.action_space.n)
    learned, chance = returned(env, act, horizon), returned(env, lambda seen: int(rng.integers(n_actions)), horizon)
    best = made["result"].transfer(env.env).value
    if name == "warehouse":
        assert returned(env.env, act, horizon) == 1.0, "the box is brought, by what the environment itself pays"
    assert learned > chance
    assert np.isfinite(best)


def test_many_copies_of_an_environment_pay_the_recovered_reward() -> None:
    """As `make_vec_env(..., wrapper_class=result.wrapper)` of Stable-Baselines3 makes them, and Gymnasium too."""
    result = aceirl.ActiveIRL(max_samples=300, certify=None).fit("FrozenLake-v1", lambda seen: 1, horizon=20)
    many = gymnasium.vector.SyncVectorEnv([lambda: result.wrapper(gymnasium.make("FrozenLake-v1"))] * 3)
    many.reset(seed=0)
    _, rewards, _, _, infos = many.step(np.array([1, 1, 1]))
    assert rewards.shape == (3,)
    assert "original_reward" in infos
    made = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync", wrappers=[result.wrapper])
    assert made.reset(seed=0)[0].shape == (2,)


@pytest.mark.parametrize("name", DAY)
@pytest.mark.parametrize("picture", ["reward", "visits", "policy", "why-here", "bound"])
def test_every_environment_has_its_pictures(name: str, picture: str) -> None:
    drawn = worked(name)["result"].plot(picture)
    written = [text.get_text() for axes in drawn.axes for text in axes.get_yticklabels()]
    if picture in ("policy", "why-here"):
        assert any(": action" in text for text in written), "with what is done there"


def test_a_reward_can_be_drawn_where_nothing_was_learned() -> None:
    result = aceirl.ActiveIRL(max_samples=12, certify=None).fit(Corridor(), lambda room: None, horizon=6)
    assert result.plot("reward").axes
    with pytest.raises(aceirl.InputError, match="every guess is as good as an answer"):
        result.plot("why-here")


def test_a_reward_predicts_what_copying_cannot() -> None:
    """An expert of its own for each state: what it says of one tells copying nothing of another."""
    result = worked("warehouse")["result"]
    found = result.compare()
    assert {*result.score().scores} == {
        one for one in found.scores if one.method in ("this reward", "copying", "a habit")
    }
    right = {score.method: score.right for score in found.scores}
    assert right["this reward"] >= 0.75
    assert right["copying"] == right["chance"] < 0.5
    assert found.scores == tuple(sorted(found.scores, key=lambda score: -score.nats))
    assert str(found).startswith(f"Predicting {found.answers} answers of the expert")


def test_what_is_predicted_was_not_shown() -> None:
    """Whatever the hidden answers are, every method predicts the same."""
    turn = worked("queue")["result"].turn
    told = turn.counts.answers.any(axis=2)
    hidden = np.zeros_like(told)
    hidden[tuple(np.argwhere(told)[::2].T)] = True
    answers = np.where(hidden[:, :, None], turn.counts.answers[:, :, ::-1], turn.counts.answers)
    assert not np.array_equal(answers, turn.counts.answers)
    model = turn.belief.table.with_counts(turn.counts.with_answers(answers, turn.counts.repeats))
    otherwise = replace(turn, belief=replace(turn.belief, model=model))
    for method in METHODS.values():
        np.testing.assert_array_equal(
            method(turn, _without(turn, hidden)), method(otherwise, _without(otherwise, hidden))
        )


def test_chance_scores_as_chance_does() -> None:
    result = aceirl.ActiveIRL(max_samples=400, certify=None).fit(Corridor(), lambda room: 1, horizon=6)
    chance = next(score for score in result.compare().scores if score.method == "chance")
    assert chance.nats == pytest.approx(np.log(1 / 2))
    assert chance.right == pytest.approx(1 / 2)
    assert (chance.accepted, chance.options) == (1.0, 2.0)


def test_a_result_is_a_data_frame() -> None:
    result = worked("inventory")["result"]
    frame = result.to_frame()
    assert frame["visits"].sum() == result.samples
    assert frame["answers"].sum() == result.answers
    assert frame.groupby("state")["policy"].sum().to_numpy() == pytest.approx(1.0)
    assert result.to_frame("records")["samples"].iloc[-1] == result.samples
    with pytest.raises(aceirl.InputError, match="did you mean 'records'"):
        result.to_frame("record")


def test_what_was_paid_is_remembered() -> None:
    seen = PaySeen()
    for rewards in ([1.0, -0.5], [2.0], [0.25]):
        seen.begin()
        for reward in rewards:
            seen.add(reward)
    assert seen.rewards == (-0.5, 2.0)
    assert seen.returns == (0.5, 2.0), "the last episode is not over yet"
    assert seen.spans == (2.5, 1.5)


def test_a_sampled_model_is_the_exact_one_where_nothing_is_random() -> None:
    env = Corridor(rooms=5)
    exact, (estimated, steps) = exact_model(env, 8, 2), sampled_model(Corridor(rooms=5), 8)
    order = [exact.states.names.index(name) for name in estimated.states.names]
    np.testing.assert_array_equal(
        estimated.mdp.transitions.dense(), exact.mdp.transitions.dense()[np.ix_(order, range(2), order)]
    )
    np.testing.assert_array_equal(estimated.reward, exact.reward[:, order])
    assert steps >= 5 * 2


@pytest.mark.parametrize("way", ["try_everywhere", "play_episodes"])
def test_a_sampled_model_is_close_to_the_exact_one(way: str) -> None:
    """Slippery ice, whose table is known. With 200 tries, one of 130 shares is off by 0.23 once in a million, and they
    are off by 0.03 on average."""
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=100)
    exact = exact_model(env, 20, 4)
    tally = Sampled(env, StateIndex(env.observation_space), lambda text: None)
    getattr(tally, way)()
    same = [exact.states.names.index(name) for name in tally.states.names]
    truth, off = exact.mdp.transitions.dense(), []
    for state, action, successor, probability in tally.moves:
        place = same[int(state)], int(action)
        if tally._tried.get(int(4 * state + action), 0) < 200:
            continue
        off.append(abs(probability - truth[(*place, same[int(successor)])]))
        assert tally.reward[int(state), int(action)] == pytest.approx(exact.reward[(0, *place)], abs=0.23)
    assert len(off) > 20
    assert max(off) < 0.23
    assert np.mean(off) < 0.06


def test_what_was_never_tried_does_what_other_actions_did_there() -> None:
    """Two rooms and an end: going on was tried in the first, and nothing in the second."""
    env = Corridor(rooms=2)
    tally = Sampled(env, StateIndex(env.observation_space), lambda text: None)
    start = tally._start(0)
    then, _ = tally._step(env, start, 1)
    end, over = tally._step(env, then, 1)
    assert over
    del tally._tried[2 * then + 1], tally._led[2 * then + 1, end], tally._paid[2 * then + 1]
    led = {(int(s), int(a)): (int(after), share) for s, a, after, share in tally.moves}
    expected = {start: then, then: then, end: end, 0: 0}
    assert led == {(s, a): (after, 1.0) for s, after in expected.items() for a in range(2)}
    np.testing.assert_array_equal(tally.initial, np.eye(4)[start])


class Odd(Corridor):
    """Arrays, two names for one of them, and a list: what copies must neither share nor tear apart."""

    def __init__(self, listed: bool) -> None:
        super().__init__()
        self.place = np.zeros(2)
        self.alias = self.place
        self.path: list[int] | None = [] if listed else None


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("limit", [None, 9])
def test_a_copy_of_an_environment_goes_on_by_itself(listed: bool, limit: int | None) -> None:
    own = Odd(listed)
    env = own if limit is None else gymnasium.wrappers.TimeLimit(own, limit)
    env.reset(seed=0)
    other: Any = copied(env)
    inner = other.unwrapped
    inner.place[0], inner.room = 7.0, 2
    assert inner.alias is inner.place
    assert (own.place[0], own.room) == (0.0, 0)
    assert inner.observation_space is own.observation_space
    assert inner.np_random is own.np_random, "so no two tries see the same numbers"
    if listed:
        inner.path.append(1)
        assert own.path == []
    other.step(1)
    assert own.room == 0


def test_where_many_steps_showed_no_chance_each_further_action_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    twice, steps = sampled_model(Corridor(rooms=400), 8)
    monkeypatch.setattr(search, "SAMPLES", 1_400)
    once, fewer = sampled_model(Corridor(rooms=400), 8)
    np.testing.assert_array_equal(once.mdp.transitions.successors, twice.mdp.transitions.successors)
    np.testing.assert_array_equal(once.reward, twice.reward)
    assert fewer < steps - 300


class Endless(Corridor):
    """One action, and no end of rooms, some of which are skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space, self.action_space = spaces.Discrete(10**9), spaces.Discrete(1)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.room += 1 + int(self.np_random.random() < 0.5)
        return self.room, 0.0, False, False, {}


def test_sampling_ends_where_states_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCH_LIMIT", 200)
    monkeypatch.setattr(search, "SAMPLES", 5_000)
    model, steps = sampled_model(Endless(), 10)
    assert model.mdp.n_states > 200
    assert steps <= 2 * 5_000 + search.MOST_TRIALS


@dataclass(frozen=True)
class Map:
    walls: frozenset[tuple[int, int]]
    visitors: list[int] | None = None


class Stamped(Corridor):
    """One that keeps what changes in a list, and what does not in a tuple."""

    def __init__(self) -> None:
        super().__init__(rooms=5)
        self.visited, self.names = [0], ("hall", ("left", 3))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.visited.append(action)
        return super().step(action)


def test_a_copy_shares_what_cannot_change_and_nothing_else() -> None:
    walls = frozenset({(0, 1), (2, 3)})
    assert search._is_fixed(Map(walls))
    assert not search._is_fixed(Map(walls, [0]))
    env = Stamped()
    env.reset(seed=0)
    other = search.copied(env)
    assert other.names is env.names
    other.step(1)
    assert env.visited == [0]


def test_random_starts_are_no_reason_to_refuse() -> None:
    result = aceirl.ActiveIRL(max_samples=200, certify=None).fit(Conveyor(rooms=6), lambda room: 1, horizon=8)
    anywhere = result.transfer(Conveyor(rooms=6))
    assert anywhere.target.sampled
    started = anywhere.target.mdp.initial[anywhere.target.mdp.initial > 0]
    assert started == pytest.approx(np.full(3, 1 / 3), abs=0.1)
    assert anywhere.certificate is None, "a promise needs a model that is known"
    at = result.transfer(Conveyor(rooms=6), start=4).target
    assert at.mdp.initial.argmax() == at.names.index("4")
    assert "estimated from" in anywhere.in_words()
