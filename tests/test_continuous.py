"""Continuous observations and actions without bins: what is learned, counted, promised, kept and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from typer.testing import CliRunner

import aceirl
from aceirl import ActiveIRL, ContinuousResult, GatedPolicy, InputError
from aceirl.cli import app
from aceirl.envs.coordinates import coordinate_names
from aceirl.learner.continuous.collect import LONG
from aceirl.learner.continuous.learning import LearningState, learn
from aceirl.models.vectors.encoding import Encoding, is_continuous
from aceirl.runs.continuous import ContinuousRun


class Line(gymnasium.Env[Any, Any]):
    """A point that drifts and is pushed; an episode ends where it leaves the line."""

    observation_space = spaces.Box(-2, 2, shape=(2,), dtype=np.float32)
    action_space: gymnasium.Space[Any] = spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.speed = self.np_random.uniform(-1, 1, size=2)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        type(self).steps += 1
        push = self._push(action)
        self.speed = 0.8 * self.speed + 0.2 * push + 0.1 * self.np_random.normal()
        self.place += 0.3 * self.speed
        return self._seen(), 1.0, abs(self.place) > 2, False, {}

    def _push(self, action: Any) -> float:
        return 2.0 * int(action) - 1

    def _seen(self) -> Any:
        return np.clip(np.array([self.place, self.speed], dtype=np.float32), -2, 2)


class Pushed(Line):
    """The same, pushed as hard as one likes."""

    action_space = spaces.Box(-1, 1, shape=(1,), dtype=np.float32)

    def _push(self, action: Any) -> float:
        return float(action[0])


class Labelled(Line):
    """The same, with parts that have names."""

    observation_space = spaces.Dict({"place": spaces.Box(-9, 9, (1,)), "side": spaces.Discrete(2)})  # type: ignore[assignment]

    def _seen(self) -> Any:
        return {"place": np.array([self.place], dtype=np.float32), "side": int(self.speed > 0)}


def home(observation: Any) -> int:
    return int(observation[0] + 0.5 * observation[1] < 0)


def softly(observation: Any) -> Any:
    return np.clip([-observation[0] - 0.5 * observation[1]], -1, 1)


class Model:
    """A controller with the interface of Stable-Baselines3."""

    def predict(self, observation: Any, deterministic: bool = False) -> tuple[Any, None]:
        assert deterministic
        return np.array(home(observation)), None


SMALL: dict[str, Any] = {"max_answers": 60, "calibration_episodes": 90}
LENGTH: dict[str, Any] = {"horizon": 20}


def fit(settings: dict[str, Any], env: Any, *given: Any, **options: Any) -> ContinuousResult:
    found = ActiveIRL(**settings).fit(env, *given, **{**LENGTH, **options})
    assert isinstance(found, ContinuousResult)
    return found


@pytest.fixture(scope="module", autouse=True)
def shorter_fits() -> Iterator[None]:
    """A line is learned in a third of the steps that are taken for harder tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aceirl.learner.continuous.collect.LONG", 250)
        yield


@pytest.fixture(scope="module")
def result() -> ContinuousResult:
    return fit(SMALL, Line(), home, fields=("place", "speed"))


def seen(n: int = 400, seed: int = 5) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, size=(n, 2)).astype(np.float32)


def test_it_does_what_the_expert_does_and_asks_where_it_errs(result: ContinuousResult) -> None:
    where = seen()
    wanted = np.array([home(one) for one in where])
    found, memory = result.predict(where)
    assert memory is None
    assert (found == wanted).mean() > 0.9
    asks = result.ask_here(where)
    assert result.predict(where[0])[0] == found[0]
    assert [result.ask_here(one) for one in where[:20]] == asks[:20].tolist()
    assert (found != wanted)[asks].mean() > (found != wanted)[~asks].mean(), "it asks where it errs more"


def test_answers_and_steps_are_counted_as_they_were(result: ContinuousResult) -> None:
    asked = 0

    def counted(observation: Any) -> int:
        nonlocal asked
        asked += 1
        return home(observation)

    Line.steps = 0
    again = fit(SMALL, Line(), counted)
    assert asked == again.answers + again.progress.demonstrated
    assert Line.steps == again.samples
    assert again.answers == 60
    assert (again.progress.answered.observations == result.progress.answered.observations).all()
    assert again.certificate == result.certificate


def test_the_promise_has_both_numbers_and_words(result: ContinuousResult) -> None:
    promise = result.certificate
    assert promise is not None
    assert promise.loss == pytest.approx(2.0)
    assert promise.possible == 20
    assert 0 < promise.asks < 1
    assert (promise.opening, promise.counting) == (60, 30)
    assert "loses at most 2 against the expert" in result.summary()
    assert "60 answers" in result.summary()
    told = json.loads(json.dumps(result.to_json()))
    assert told["certificate"]["asks"] == promise.asks
    assert told["demonstrations"] == 90


def test_a_vector_of_environments_is_learned_as_one_of_them() -> None:
    learner = ActiveIRL(max_answers=30, certify=None)

    def answered(env: Any) -> Any:
        found = learner.fit(env, lambda seen: int(seen[2] > 0))
        assert isinstance(found, ContinuousResult)
        return found.progress.answered.observations

    alone = answered("CartPole-v1")
    makers = [lambda: gymnasium.make("CartPole-v1")] * 2
    vectors: list[Any] = [
        gymnasium.make_vec("CartPole-v1", num_envs=2),
        gymnasium.vector.SyncVectorEnv(makers),
        gymnasium.vector.AsyncVectorEnv(makers),
    ]
    for vector in vectors:
        assert (answered(vector) == alone).all()


def test_a_gated_run_is_the_experts_run_up_to_its_first_miss(result: ContinuousResult) -> None:
    """What is told from demonstrations alone is what happens: same seeds, gate and expert, played out."""
    from aceirl.certificates.gated import Demonstrated
    from aceirl.learner.continuous.collect import CALIBRATING as STREAM
    from aceirl.learner.continuous.collect import demonstrated, episode_seed

    policy, task = result.policy, result.task
    assert task is not None
    shown = demonstrated(task, policy.choices, 0, 500, 520)
    chosen, scores = policy.committee.agree(shown.observations)
    agrees = policy.choices.values[chosen, 0] == shown.actions[:, 0]
    expected = Demonstrated(scores, agrees, shown.lengths).first_misses(policy.threshold)
    for number, first in enumerate(expected):
        observation, length = task.reset(episode_seed(0, STREAM, 500 + number)), 0
        for step in range(20):
            asks = policy.ask_here(observation)
            action = home(observation) if asks else policy.predict(observation)[0]
            if action != home(observation):
                break
            observation, over, _ = task.step(np.array([action]))
            length = step + 1
            if over:
                break
        assert length == first


def test_rules_use_the_names_and_tell_most_steps(result: ContinuousResult) -> None:
    rules = result.rules()
    assert all("place" in rule or "speed" in rule for rule in rules)
    assert any(rule.startswith("action 1 if") and "place is below" in rule for rule in rules), rules


def test_a_model_with_predict_and_a_function_of_the_step_are_experts() -> None:
    few: dict[str, Any] = {"max_answers": 30, "certify": None}
    by_model = fit(few, Line(), Model())
    by_step = fit(few, Line(), lambda observation, step: home(observation))
    assert (by_model.progress.answered.actions == by_step.progress.answered.actions).all()
    assert by_model.certificate is None
    assert "Nothing is promised." in by_model.summary()
    assert by_model.ask_here([0.5, 0.5]), "without a promise there is no gate to rely on"


def test_a_policy_is_saved_and_loaded_without_the_run(result: ContinuousResult, tmp_path: Path) -> None:
    kept = GatedPolicy.load(result.policy.save(tmp_path / "policy.npz"))
    assert (kept.predict(seen())[0] == result.predict(seen())[0]).all()
    assert (kept.ask_here(seen()) == result.ask_here(seen())).all()
    (tmp_path / "no.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read as a policy"):
        GatedPolicy.load(tmp_path / "no.npz")
    with pytest.raises(InputError, match="there is no file"):
        GatedPolicy.load(tmp_path / "gone.npz")


def test_a_result_is_saved_and_loaded(result: ContinuousResult, tmp_path: Path) -> None:
    loaded = aceirl.load(result.save(tmp_path / "run"))
    assert isinstance(loaded, ContinuousResult)
    assert loaded.certificate == result.certificate
    assert loaded.summary() == result.summary()
    assert (loaded.predict(seen())[0] == result.predict(seen())[0]).all()
    with pytest.raises(InputError, match="is not empty"):
        result.save(tmp_path / "run")


@pytest.mark.parametrize("stopped_after", [1, 4, 9])
def test_a_run_that_was_killed_ends_as_if_it_had_not_been(
    result: ContinuousResult, tmp_path: Path, stopped_after: int
) -> None:
    class Killed(BaseException):
        pass

    turns = 0

    def kill(progress: LearningState) -> None:
        nonlocal turns
        turns += 1
        if turns == stopped_after:
            raise Killed

    options: dict[str, Any] = {"fields": ("place", "speed"), "out": tmp_path / "run"}
    with pytest.raises(Killed):
        fit(SMALL, Line(), home, callback=kill, **options)
    unfinished = aceirl.load(tmp_path / "run")
    assert unfinished.stopped == "interrupted"
    again = fit({}, Line(), home, **options)
    assert again.stopped == "budget"
    assert again.certificate == result.certificate
    assert again.to_json() | {"directory": None} == result.to_json()
    same = zip(again.policy.committee.weights, result.policy.committee.weights, strict=True)
    assert all((one == other).all() for one, other in same)


def test_more_answers_go_on_with_what_there_is_and_spend_from_the_budget(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = fit(SMALL, Line(), home, out=out)
    more = fit({"max_answers": 80}, Line(), home, out=out)
    assert (more.answers, more.progress.restarts) == (80, 1)
    assert (more.progress.answered.observations[:60] == first.progress.answered.observations).all()
    old, new = first.progress.demonstrations, more.progress.demonstrations
    assert old is not None
    assert new is not None
    assert not (old.observations[0] == new.observations[0]).all(), "what has been looked at is no evidence any more"
    assert more.progress.driven == 180
    assert more.samples == more.progress.answered.samples + first.progress.demonstrated + more.progress.demonstrated
    unchanged = fit({}, Line(), home, out=out)
    assert unchanged.progress.restarts == 1
    with pytest.raises(InputError, match="seed 0, not 3, and that cannot be changed"):
        fit({"seed": 3}, Line(), home, out=out)
    with pytest.raises(InputError, match="was begun with horizon 20, not 21"):
        fit({}, Line(), home, out=out, horizon=21)
    stricter = unchanged.resume(epsilon=3.0)
    assert stricter.progress.restarts == 2
    loaded: Any = aceirl.load(out)
    assert loaded.progress.restarts == 2
    with pytest.raises(InputError, match="environment and expert were not saved with the run"):
        loaded.resume(max_answers=90)
    with pytest.raises(InputError, match="was begun with expert home, not Model"):
        fit({}, Line(), Model(), out=out)


def recorded(n: int, expert: Any = home, env: Line | None = None) -> list[list[tuple[Any, ...]]]:
    env, found = env or Line(), []
    for number in range(n):
        observation, _ = env.reset(seed=number)
        steps: list[tuple[Any, ...]] = []
        for step in range(20):
            action = expert(observation)
            after, reward, over, _, _ = env.step(action)
            steps.append((observation, action, reward, over, step == 19))
            observation = after
            if over:
                break
        found.append(steps)
    return found


def test_recordings_alone_are_learned_from_by_halves_and_calibrate_a_gate() -> None:
    Line.steps = 0
    episodes = recorded(140)
    before = Line.steps
    result = fit({}, Line(), demonstrations=episodes)
    assert Line.steps == before, "nothing is done in the environment"
    assert (result.answers, result.samples, result.stopped) == (0, 0, "recorded")
    assert len(result.progress.demonstrations or ()) == 70
    assert result.certificate is not None
    assert result.certificate.asks < 0.8
    assert ActiveIRL().infer(episodes, Line(), **LENGTH).certificate == result.certificate


def test_continuous_actions_are_rounded_and_the_promise_says_so() -> None:
    result = fit(SMALL, Pushed(), softly)
    assert len(result.policy.choices) <= 5
    action, _ = result.predict(np.array([0.5, 0.5], dtype=np.float32))
    assert Pushed.action_space.contains(action)
    assert action[0] < 0
    assert result.certificate is not None
    assert result.certificate.rounded
    assert "the expert with its actions rounded" in result.summary() or result.certificate.asks == 1
    assert "Actions are rounded to" in result.summary()
    assert Pushed.action_space.contains(result.policy.rounded([0.1]))
    unrounded = fit({}, Pushed(), recorded(60, softly, Pushed()))
    assert unrounded.certificate is not None
    assert unrounded.certificate.asks == 1, "recorded actions that were not rounded agree with no choice"


def test_observations_of_named_parts_are_numbers() -> None:
    assert coordinate_names(Labelled()) == ("place", "side 0", "side 1")

    def expert(seen: Any) -> int:
        return int(seen["place"][0] < 0)

    result = fit({"max_answers": 40, "certify": None}, Labelled(), expert)
    assert result.predict({"place": np.array([0.9], dtype=np.float32), "side": 1})[0] == 0
    assert "if place is" in result.rules()[0]
    with pytest.raises(InputError, match="is not in Dict"):
        result.predict({"place": 3})


@pytest.mark.parametrize(
    ("observations", "actions", "expected"),
    [
        (spaces.Box(-1, 1, (2,)), spaces.Discrete(2), True),
        (spaces.Discrete(4), spaces.Discrete(2), False),
        (spaces.Discrete(4), spaces.Box(-1, 1, (1,)), True),
        (spaces.Box(0, 9, (2,), np.int64), spaces.Discrete(2), False),
        (spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(2)}), spaces.Discrete(2), True),
    ],
)
def test_what_tables_cannot_take_is_continuous(observations: Any, actions: Any, expected: bool) -> None:
    assert is_continuous(observations, actions) is expected


@pytest.mark.parametrize(
    "actions",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(2),
        spaces.Box(-2, 2, (2, 1), np.float32),
    ],
)
def test_actions_become_numbers_and_come_back(actions: Any) -> None:
    actions.seed(0)
    encoding = Encoding(spaces.Box(-1, 1, (2,)), actions)
    for _ in range(20):
        action = actions.sample()
        values = encoding.values(action)
        assert values is not None
        assert np.array_equal(encoding.action(values), action)
    assert encoding.values("left") is None
    assert encoding.values(None) is None
    if encoding.choices is not None:
        assert encoding.choices.numbers(encoding.choices.values).tolist() == list(range(len(encoding.choices)))


def test_pictures_and_wrong_observations_are_refused(result: ContinuousResult) -> None:
    with pytest.raises(InputError, match=r"27,648 numbers, and at most 2,000"):
        Encoding(spaces.Box(0, 1, (96, 96, 3)), spaces.Discrete(2))
    with pytest.raises(InputError, match="is not in Box"):
        result.predict([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="not finite"):
        result.predict([1.0, np.nan])


def test_learning_without_an_expert_is_refused(result: ContinuousResult) -> None:
    from dataclasses import replace

    assert result.task is not None
    with pytest.raises(InputError, match="expert must be given"):
        list(learn(replace(result.task, ask=None), result.settings))


def lean(observation: Any) -> int:
    """An expert with a name."""
    return int(observation[2] + 0.25 * observation[3] > 0)


def test_the_command_line_runs_resumes_and_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--horizon", "30", "--max-answers", "24", "--calibration-episodes", "70"]
    run = CliRunner().invoke(app, ["run", "CartPole-v1", "--expert", "test_continuous:lean", *few, "--json"])
    assert run.exit_code == 0, run.output
    told = json.loads(run.stdout.splitlines()[-1])
    assert told["answers"] == 24
    folder = told["directory"]
    more = CliRunner().invoke(app, ["resume", folder, "--max-answers", "30"])
    assert more.exit_code == 0, more.output
    assert "Learned from 30 answers" in more.stdout
    shown = CliRunner().invoke(app, ["show", folder])
    assert shown.stdout == more.stdout
    assert "pole" in shown.stdout
    refused = CliRunner().invoke(app, ["run", "CartPole-v1"])
    assert refused.exit_code != 0
    assert "has no expert of its own; give one: package.module:function" in refused.output
    assert aceirl.load(folder).answers == 30
    monkeypatch.setattr("aceirl.irl.deviations.RECOVERING", 1_500)
    other = CliRunner().invoke(app, ["transfer", folder, "--horizon", "30", "--steps", "500", "--json"])
    assert other.exit_code == 0, other.output
    elsewhere = json.loads(other.stdout.splitlines()[-1])
    assert set(elsewhere) == {"sentence", "steps", "value", "warning"}
    assert 500 <= elsewhere["steps"] < 1_000


def test_sixty_answers_balance_a_pole_and_copying_as_many_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """95 % of the expert's return."""
    monkeypatch.setattr("aceirl.learner.continuous.collect.LONG", LONG)
    from aceirl.learner.continuous.collect import first_answers, last_fit
    from studies.controllers import TASKS, earned, policy_of

    spec = TASKS["CartPole"]
    task = spec.open()
    result = fit({"max_answers": 60, "certify": None, "seed": 7}, "CartPole-v1", spec.controller, horizon=200)
    copied = policy_of(*last_fit(first_answers(task, 7, 60), task.encoding, 7), task)
    assert earned(spec, copied, 20) < 0.9 * 200
    assert earned(spec, lambda seen: result.predict(np.array(seen))[0][:, None], 20) >= 0.95 * 200


def test_a_reward_is_recovered_said_and_taken_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where actions are swapped, copying never leaves the valley and planning with the reward does."""
    monkeypatch.setattr("aceirl.learner.continuous.collect.LONG", LONG)
    monkeypatch.setattr("aceirl.irl.deviations.RECOVERING", 8_000)
    result = fit(
        {"max_answers": 60, "certify": None}, "MountainCar-v0", lambda seen: 2 if seen[1] >= 0 else 0, horizon=200
    )
    away = gymnasium.wrappers.TransformAction(gymnasium.make("MountainCar-v0"), lambda a: 2 - a, spaces.Discrete(3))
    planned = result.transfer(away, steps=4_000)
    assert "position above 0.5" in result.sentence
    assert result.reward(np.array([0.4, 0.0]), 0, np.array([0.51, 0.0]), True, 0) > result.reward(
        np.array([0.4, 0.0]), 0, np.array([0.41, 0.0]), False, 0
    )
    assert planned.steps < 5_000
    assert json.loads(json.dumps(planned.to_json()))["warning"] == planned.warning
    assert f"{planned.steps:,} steps" in planned.in_words()
    assert [walked(away, act) for act in (planned.predict, lambda seen: result.predict(seen)[0])] == [True, False]


def walked(env: Any, act: Any) -> bool:
    """Whether an episode ends before its limit."""
    seen, _ = env.reset(seed=3)
    terminated = truncated = False
    while not (terminated or truncated):
        seen, _, terminated, truncated, _ = env.step(act(seen))
    return bool(terminated)


def test_a_policy_stands_in_for_an_expert_who_cannot_or_must_not_be_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("aceirl.irl.deviations.RECOVERING", 1_500)
    recorded_only = fit({"certify": None}, Line(), recorded(30))
    assert recorded_only.recovered.answers == 0
    assert "stands in for the expert" in recorded_only.sentence
    asked = 0

    def counting(seen: Any) -> Any:
        nonlocal asked
        asked += 1
        return home(seen)

    learned = fit({"max_answers": 40, "certify": None}, Line(), counting)
    before = asked
    silent = learned.without_asking()
    assert silent.reward.weights.any()
    assert asked == before
    assert silent.resume(max_answers=45).silent
    assert ContinuousRun.open(silent.save(tmp_path / "kept")).result().silent
    assert not ContinuousRun.open(learned.save(tmp_path / "asks")).result().silent
    before = asked
    assert learned.reward.weights.any()
    assert asked > before + 100


def test_a_reward_needs_an_expert_who_does_the_same_at_every_step() -> None:
    stepwise = fit({"max_answers": 40, "certify": None}, Line(), lambda seen, step: home(seen))
    with pytest.raises(InputError, match="do not depend on the step"):
        _ = stepwise.reward
