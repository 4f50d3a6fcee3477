"""Whom one can ask about a Gymnasium environment, and the exact models that some of them stand on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium_environments import Corridor
from typer.testing import CliRunner

from aceirl.cli.app import app
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.envs.truth import Renumbered, exact_model
from aceirl.errors import AnswerError, InputError
from aceirl.experts import (
    Demonstration,
    DemonstrationExpert,
    ObservationExpert,
    PredictExpert,
    TerminalExpert,
)
from aceirl.experts.tasks import Source, open_source, open_task
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.encoder import PADDING_STATE, StateIndex
from aceirl.models.tabular.metrics import Truth
from aceirl.protocols import Expert, Question
from aceirl.runs import Run

RNG = np.random.default_rng(0)

versionless = pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment")


def corridor(**options: Any) -> GymEnvironment:
    """A corridor whose rooms 0 to 3 are known by the numbers 1 to 4."""
    environment = GymEnvironment(Corridor(**options), horizon=8)
    for room in range(4):
        environment.states.number(room)
    return environment


def asked(expert: Expert, step: int, room: int, rng: np.random.Generator = RNG) -> int | None:
    """What an expert says of a room."""
    return expert.answer(Question(step, room + 1, (), rng, observation=room))


def test_a_function_of_observations_is_asked_about_observations() -> None:
    expert = ObservationExpert(lambda room: int(room > 1), corridor())
    assert expert.stationary
    assert [asked(expert, 0, room) for room in (0, 1, 2, 3)] == [0, 0, 1, 1]
    by_step = ObservationExpert(lambda room, step: int(step > 3), corridor())
    assert not by_step.stationary
    assert [asked(by_step, step, 0) for step in (3, 4)] == [0, 1]


def test_anything_that_predicts_is_an_expert() -> None:
    class Model:
        def predict(self, observation: Any, deterministic: bool = False) -> tuple[Any, None]:
            assert deterministic, "an expert is asked for what it would do, not for an experiment"
            return np.array(observation % 2), None

    expert = PredictExpert(Model(), corridor())
    assert [asked(expert, 0, room) for room in (0, 1, 2)] == [0, 1, 0]


def test_an_environment_is_closed_when_it_has_been_played() -> None:
    closed: list[bool] = []

    class Device(Corridor):
        def close(self) -> None:
            closed.append(True)

    make_device.env = Device  # type: ignore[attr-defined]
    with open_source(Source("test_gym_experts:make_device", {}, 0, expert="test_gym_experts:drifter", horizon=3)):
        assert not closed
    assert closed == [True]


def make_device() -> Corridor:
    return make_device.env()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(("slip", "expert"), [(0.02, "optimal"), (0.0, "optimal")])
def test_rare_randomness_is_found_and_a_certain_environment_is_believed(slip: float, expert: str) -> None:
    """With 5 tries of 2 actions in 200 rooms, a slip of 2 % stays unseen with probability 0.98^2000 < 1e-17."""
    source = Source("gymnasium_environments:Corridor", {"rooms": 200, "slip": slip}, 0, expert=expert, horizon=250)
    if slip:
        with pytest.raises(InputError, match="is random, so the exact model cannot be found"):
            open_task(source)
    else:
        assert open_task(source).regret is not None


class OwnRandomness(Corridor):
    """A corridor with a generator of its own, and a name for its patience that MiniGrid has too."""

    max_steps = 50

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.own = np.random.default_rng(seed)
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return super().step(0 if self.own.random() < self.slip else action)


class Swapped(gymnasium.ActionWrapper[Any, Any, Any]):
    def action(self, action: Any) -> Any:
        return 3 - action


class Mirrored(gymnasium.ObservationWrapper[Any, Any, Any]):
    def observation(self, observation: Any) -> Any:
        return 15 - observation


class Doubled(gymnasium.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> Any:
        return 2 * float(reward)


def test_randomness_of_the_environments_own_is_found_too() -> None:
    parameters = {"rooms": 60, "slip": 0.2}
    with pytest.raises(InputError, match="is random"):
        open_task(Source("test_gym_experts:OwnRandomness", parameters, 0, expert="optimal", horizon=70))
    with pytest.raises(InputError, match="is random"):  # in 400 tries, but with probability 0.8^400
        open_task(Source("test_gym_experts:OwnRandomness", {"rooms": 1, "slip": 0.2}, 0, expert="optimal", horizon=2))
    certain = open_task(Source("test_gym_experts:OwnRandomness", {"rooms": 4}, 0, expert="optimal", horizon=9))
    pay = certain.world.rmax, certain.world.max_return
    assert pay == (1.0, 1.0)  # as the environment pays, not as MiniGrid would


@pytest.mark.parametrize("wrapper", ["Swapped", "Mirrored", "Doubled"])
def test_a_wrapper_that_changes_the_environment_changes_its_model(wrapper: str) -> None:
    source = Source("FrozenLake-v1", {}, 0, expert="optimal", horizon=20, wrap=(f"test_gym_experts:{wrapper}",))
    with pytest.raises(InputError, match="a wrapper changes the environment"):
        open_task(source)


class Unpaid(Corridor):
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, 0.0, terminated, truncated, info


def test_where_nothing_is_paid_nothing_is_best() -> None:
    with pytest.raises(InputError, match="no policy is best"):
        open_task(Source("test_gym_experts:Unpaid", {}, 0, expert="optimal", horizon=9))


def clueless(observation: Any) -> int:
    return {0: 1}[observation]


def test_a_mistake_in_the_expert_is_found_and_the_way_on_is_named(tmp_path: Path) -> None:
    arguments = ["run", "gymnasium_environments:Corridor", "--expert", "test_gym_experts:clueless", "--horizon", "3"]
    arguments += ["--set", "slip=0.9", "--out", str(tmp_path / "run")]
    failed = CliRunner().invoke(app, arguments)
    assert failed.exit_code == 2
    assert "failed on the observation 1: KeyError: 1 (test_gym_experts.py, line" in failed.output
    assert f"go on with: aceirl resume {tmp_path / 'run'}" in failed.output


def test_an_expert_who_is_silent_is_said_to_be(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"observation": 0, "action": 1}\n')
    arguments = ["run", "gymnasium_environments:Corridor", "--expert", str(log), "--horizon", "6"]
    ran = CliRunner().invoke(app, [*arguments, "--max-samples", "60", "--out", str(tmp_path / "run")])
    assert "In 3 of the visited states the expert gave no answer" in ran.output


def test_a_model_may_be_stochastic() -> None:
    class Model:
        def predict(self, observation: Any, deterministic: bool = False) -> tuple[Any, None]:
            assert not deterministic
            return np.array(1), None

    expert = PredictExpert(Model(), corridor(), deterministic=False)
    assert not expert.deterministic
    assert asked(expert, 0, 0) == 1


def drifter(observation: Any, rng: np.random.Generator) -> int:
    """An expert who goes on three times out of four."""
    return int(rng.random() < 0.75)


def test_a_stochastic_expert_is_asked_at_every_visit(tmp_path: Path) -> None:
    arguments = ["run", "gymnasium_environments:Corridor", "--expert", "test_gym_experts:drifter", "--horizon", "8"]
    arguments += ["--max-samples", "200", "--out", str(tmp_path / "run"), "--json"]
    refused = CliRunner().invoke(app, [*arguments, "--stochastic-expert"])
    assert "needs an expert who always gives the same answer" in refused.output
    drawn = CliRunner().invoke(
        app, [*arguments, "--stochastic-expert", "--least-probability", "0.2", "--certify", "dynamics"]
    )
    assert drawn.exit_code == 0, drawn.output
    found = json.loads(drawn.output.splitlines()[-1])
    assert found["answers"] == found["samples"]
    again = Run.open(tmp_path / "run")
    assert again.source is not None
    task = open_task(again.source)
    *_, last = learn(task.environment, task.expert, again.settings)
    np.testing.assert_array_equal(last.state.counts.answers, again.state().counts.answers)  # type: ignore[union-attr]
    table = CliRunner().invoke(app, ["run", "FrozenLake-v1", "--expert", "optimal", "--stochastic-expert"])
    assert "stochastic_expert is for functions and models, not for 'optimal'" in table.output


def test_demonstrations_are_replayed_and_silent_elsewhere() -> None:
    expert = DemonstrationExpert([Demonstration(0, 1), Demonstration(2, 0), Demonstration(0, 1)], corridor())
    assert expert.stationary
    assert expert.deterministic
    assert [asked(expert, 5, room) for room in (0, 1, 2)] == [1, None, 0]

    by_step = DemonstrationExpert([Demonstration(0, 1, 0), Demonstration(0, 0, 1)], corridor())
    assert by_step.deterministic
    assert [asked(by_step, step, 0) for step in (0, 1, 2)] == [1, 0, None]

    undecided = DemonstrationExpert([Demonstration(0, 1)] * 3 + [Demonstration(0, 0)], corridor())
    assert not undecided.deterministic
    drawn = [asked(undecided, 0, 0, np.random.default_rng(seed)) for seed in range(1000)]
    # 750 are expected; 100 away is more than seven standard deviations, which happens once in 10¹².
    assert 650 < sum(action or 0 for action in drawn) < 850


def test_where_the_expert_is_silent_nothing_is_counted_and_the_run_goes_on() -> None:
    environment = GymEnvironment(Corridor(), horizon=8)
    expert = DemonstrationExpert([Demonstration(room, 1) for room in (0, 1, 3)], environment)
    settings = Settings(strategy="advice", max_samples=100)
    turn = list(learn(environment, expert, settings))[-1]
    assert turn.record.answers == 3
    assert turn.state.counts.visits.sum(axis=(0, 2))[environment.states.find(2)] > 0


@pytest.mark.parametrize("form", ["jsonl", "npz"])
def test_demonstrations_are_read_from_files(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{form}"
    if form == "jsonl":
        path.write_text('{"observation": 0, "action": 1}\n{"observation": 3, "action": 0}\n')
    else:
        np.savez(path, observations=np.array([0, 3]), actions=np.array([1, 0]))
    expert = DemonstrationExpert.load(path, corridor())
    assert [asked(expert, 0, room) for room in (0, 1, 3)] == [1, None, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "are empty"),
        ('{"observation": 0}\n', "has no 'action'"),
        ('{"observation": 0, "action": 1}\nnonsense\n', r"log\.jsonl, line 2 cannot be read"),
        ('{"observation": 9, "action": 1}\n', r"line 1 cannot be read: InputError: 9 is not in Discrete\(4\)"),
        ('{"observation": 0, "action": 1, "step": "2"}\n', "has the step '2', which is not a whole number"),
        ('{"observation": 0, "action": 1, "step": 8}\n', "has the step 8; steps are 0 to 7"),
        ('{"observation": 0, "action": 7}\n', "answered 7 .* actions are 0 to 1"),
        (
            '{"observation": 0, "action": 1, "step": 0}\n{"observation": 1, "action": 1}\n',
            "demonstration 2 has no step",
        ),
    ],
)
def test_wrong_demonstrations_are_explained(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        DemonstrationExpert.load(path, corridor())


def test_a_person_at_the_terminal_is_asked_until_understood() -> None:
    typed, shown = iter(["up", "on", "", "back", "q"]), list[str]()
    expert = TerminalExpert(corridor(), action_names=("back", "on"), read=lambda prompt: next(typed), show=shown.append)
    assert asked(expert, 0, 2) == 1
    assert shown == ["You see: 2", "'up' is not one of back, on."]
    assert asked(expert, 0, 0) is None
    assert asked(expert, 0, 1) == 0
    with pytest.raises(AnswerError, match="finished iterations are kept"):
        asked(expert, 0, 3)


def played(env: gymnasium.Env[Any, Any], policy: Any, horizon: int, episodes: int) -> list[float]:
    """The returns of a policy `(step, observation) -> action`, by playing."""
    returns = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=7 if episode == 0 else None)
        total = 0.0
        for step in range(horizon):
            observation, reward, terminated, _, _ = env.step(policy(step, observation))
            total += float(reward)
            if terminated:
                break
        returns.append(total)
    return returns


@versionless
@pytest.mark.parametrize(
    ("name", "options", "horizon"),
    [
        ("FrozenLake-v1", {}, 30),
        ("FrozenLake-v1", {"is_slippery": False}, 12),
        ("CliffWalking", {}, 20),
        ("Taxi", {}, 30),
        ("Blackjack-v1", {}, 8),
        ("Blackjack-v1", {"sab": False, "natural": True}, 8),
    ],
)
def test_the_exact_model_predicts_what_playing_earns(name: str, options: dict[str, Any], horizon: int) -> None:
    env = gymnasium.make(name, max_episode_steps=horizon, disable_env_checker=True, **options)
    n_actions = int(env.action_space.n)  # type: ignore[attr-defined]
    model = exact_model(env, horizon, n_actions)
    truth, best = Truth(model.mdp, model.reward), model.expert()
    assert truth.regret(best) == pytest.approx(0, abs=1e-12)
    returns = played(env, lambda step, seen: int(best[step, model.states.find(seen)]), horizon, 1500)
    # Six standard errors: exceeded once in 10⁸.
    assert np.mean(returns) == pytest.approx(truth.best, abs=6 * np.std(returns) / np.sqrt(1500) + 1e-9)


def test_the_table_is_read_as_it_is_meant() -> None:
    """Outcomes with one successor add up, rewards are averaged, and what ends an episode is a state of its own."""
    env = Corridor(rooms=2)
    env.P = {  # type: ignore[attr-defined]
        0: {0: [(0.25, 0, 4.0, False), (0.25, 0, 0.0, False), (0.5, 1, 1.0, False)], 1: [(1.0, 1, 0.0, False)]},
        1: {0: [(0.5, 1, 2.0, True), (0.5, 0, 0.0, False)], 1: [(1.0, 0, 0.0, False)]},
    }
    env.initial_state_distrib = np.array([0.5, 0.5])  # type: ignore[attr-defined]
    model = exact_model(env, 3, 2)
    assert len(model.states) == 4
    zero, one, end = model.states.number(0), model.states.number(1), model.states.number(1, terminal=True)
    assert {zero, one, end} == {1, 2, 3}, "all were there before"
    assert model.states.terminal == {PADDING_STATE, end}
    dense = model.mdp.transitions.dense()
    assert dense[zero, 0, [end, zero, one]].tolist() == [0, 0.5, 0.5]
    assert dense[one, 0, [end, zero, one]].tolist() == [0.5, 0.5, 0]
    for over in (end, PADDING_STATE):
        assert dense[over, :, over].tolist() == [1, 1]
    assert model.mdp.initial[[zero, one]].tolist() == [0.5, 0.5]
    assert model.reward[0, [zero, one], 0].tolist() == [1.5, 1.0]


def test_a_policy_is_renumbered_as_its_states_are() -> None:
    """States are numbered as they are met: more of them later, and all of them anew in another run."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    model = exact_model(env, 5, 4)
    theirs = StateIndex(env.observation_space)
    renumbered = Renumbered(model, theirs)

    def choice(cell: int) -> int:
        here = model.states.find(cell)
        assert here is not None
        return int(renumbered(policy)[2, here])

    theirs.number(4)
    policy = np.array([[0, 3]] * 5)
    assert choice(4) == 3
    assert choice(8) == -1, "any action is as likely as another"
    theirs.number(8)
    policy = np.array([[0, 3, 1]] * 5)
    assert (choice(4), choice(8)) == (3, 1)
    theirs.recall(())
    theirs.number(8)
    theirs.number(4)
    assert (choice(4), choice(8)) == (1, 3)


def test_a_stationary_expert_does_not_dawdle() -> None:
    """With time to spare every first action is as good as any, but not if it is taken for ever."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    model = exact_model(env, 50, 4)
    truth = Truth(model.mdp, model.reward)
    assert truth.regret(model.stationary_expert()) == 0
    first_of_equals = np.zeros(model.mdp.n_states, dtype=np.int64)
    assert truth.regret(first_of_equals) == 1


def test_minigrid_is_searched_and_learned() -> None:
    pytest.importorskip("minigrid")
    source = Source("MiniGrid-Empty-5x5-v0", {}, 0, stationary_expert=True, expert="optimal", horizon=20)
    task = open_task(source)
    settings = Settings(strategy="guided", max_samples=60)
    turn = list(learn(task.environment, task.expert, settings, regret=task.regret))[-1]
    assert turn.record.regret == 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Source("FrozenLake-v1", {}, 0), "has no expert of its own"),
        (Source("FrozenLake-v1", {}, 0, expert="optimist"), "expert 'optimist' is not one of"),
        (Source("FrozenLake-v1", {}, 0, expert="model.zip"), "as in ppo:model.zip"),
        (Source("FrozenLake-v1", {}, 0, expert="gone.jsonl"), "no file of demonstrations gone.jsonl"),
        (Source("FrozenLake-v1", {"lake": 3}, 0, expert="optimal"), "cannot be made"),
        (Source("FrozenLaek-v1", {}, 0, expert="optimal"), "did you mean 'FrozenLake-v1'"),
        (Source("no.such.module:make", {}, 0, expert="optimal"), "cannot be imported"),
        (Source("gymnasium_environments:make_tea", {}, 0, expert="optimal"), "has no 'make_tea'"),
        (Source("builtins:dict", {}, 0, expert="optimal"), "not a Gymnasium environment"),
        (Source("CartPole-v1", {}, 0, expert="optimal"), "discretise"),
        (Source("four-paths", {}, 0, expert="optimal"), "expert is for Gymnasium environments"),
        (Source("Pendulum-v1", {}, 0, expert="terminal", discretise="3"), "actions must be Discrete"),
    ],
)
def test_wrong_sources_are_explained(source: Source, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_task(source)


def on_the_command_line(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_the_command_line_runs_resumes_and_exports_a_gymnasium_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--expert", "optimal", "--stationary-expert", "--set", "is_slippery=false", "--horizon", "20"]
    options += ["--strategy", "advice"]  # who follows the expert sees the six steps of its way, and nothing else
    code, out, error = on_the_command_line(
        "run", "FrozenLake-v1", *options, "--max-samples", "60", "--out", "lake", "--json"
    )
    assert (code, error) == (0, "")
    assert json.loads(out)["regret"] == 0
    assert json.loads((tmp_path / "lake" / "run.json").read_text())["source"]["horizon"] == 20
    code, out, _ = on_the_command_line("export", "lake")
    assert code == 0
    rows = (tmp_path / "lake" / "reward.csv").read_text().splitlines()
    assert rows[0] == "step,observation,terminal,action,reward,greedy"
    assert "0,15,1,,0," in rows, "to be at the flag is worth as much as any end, and nothing is greedy there"
    answers = (tmp_path / "lake" / "demonstrations.jsonl").read_text().splitlines()
    assert len(answers) == 6

    replayed = ["--expert", "lake/demonstrations.jsonl", *options[3:]]
    code, out, _ = on_the_command_line("run", "FrozenLake-v1", *replayed, "--max-samples", "30", "--json")
    assert code == 0
    assert json.loads(out)["answers"] == 6
    assert json.loads(out)["regret"] is None


@pytest.mark.parametrize("command", ["show", "resume", "export"])
def test_a_run_of_another_version_is_refused_in_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = ["gymnasium_environments:Corridor", "--expert", "test_gym_experts:always_on", "--horizon", "9"]
    assert on_the_command_line("run", *own, "--max-samples", "10", "--out", "old")[0] == 0
    assert on_the_command_line(command, "old")[0] == 0
    configuration = json.loads((tmp_path / "old" / "run.json").read_text())
    (tmp_path / "old" / "run.json").write_text(json.dumps(configuration | {"format": 1}))
    code, _, error = on_the_command_line(command, "old")
    assert code == 2
    assert error.strip() == (
        "aceirl: old was written by another version, with other certificates (format 1; this one reads 7); run it "
        "again, in another folder"
    )


def always_on(room: int) -> int:
    return 1


def test_a_users_own_environment_and_expert_run_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kitchen.py").write_text(
        "from gymnasium_environments import Corridor as make_env\n\n\ndef cook(room):\n    return 1\n"
    )
    own = ["kitchen:make_env", "--expert", "kitchen:cook", "--horizon", "9", "--set", "rooms=5"]
    code, out, error = on_the_command_line("run", *own, "--max-samples", "10", "--json")
    assert (code, error) == (0, "")
    assert json.loads(out)["answers"] == 5
    code, _, error = on_the_command_line("run", "FrozenLake-v1")
    assert code == 2
    assert "has no expert of its own" in error
    assert not (tmp_path / "runs" / "FrozenLake-v1-guided-0").exists()
