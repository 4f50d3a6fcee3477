"""The pleasant face: what it returns, what it refuses, and that it goes on where it was."""

from __future__ import annotations

import inspect
import pydoc
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from typer.main import get_command
from typer.testing import CliRunner

import aceirl
from aceirl import ActiveIRL, InputError, PolicyExpert, Run, Settings, Simulator, Truth, Turn, make
from aceirl.cli import app
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.experts import Demonstration
from aceirl.explore import STRATEGIES
from aceirl.irl import ALGORITHMS
from aceirl.models.tabular.dynamic_programming import evaluate, optimal_values
from aceirl.models.tabular.mdp import MDP

ROOT = Path(__file__).parents[1]


class Stop(Exception):
    pass


def parts() -> tuple[Simulator, PolicyExpert, Truth]:
    problem = make("gridworld", 0)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    return Simulator(problem.mdp), expert, Truth(problem.mdp, problem.reward)


def test_the_first_example_does_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert block is not None
    exec(block.group(1), {})
    said = capsys.readouterr().out
    quoted = said.splitlines()[0]
    assert quoted.startswith("The expert wants to be where the observation is [0, 0, 1] ")
    assert quoted in (ROOT / "README.md").read_text()
    assert "32 answers from the expert" in said
    assert "Predicting " in said
    assert "<Transfer: to " in said
    assert (tmp_path / "runs" / "warehouse" / "run.json").exists()


def test_a_fit_interrupted_and_begun_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    environment, expert, truth = parts()
    learner = ActiveIRL(strategy="ace", max_samples=200, seed=4)
    whole = learner.fit(environment, expert, regret=truth.regret)

    def tire(turn: Turn) -> None:
        if turn.record.iteration == 5:
            raise Stop

    with pytest.raises(Stop):
        learner.fit(environment, expert, regret=truth.regret, out=tmp_path / "run", callback=tire)
    again = learner.fit(environment, expert, regret=truth.regret, out=tmp_path / "run")
    np.testing.assert_array_equal(again.reward_table, whole.reward_table)
    np.testing.assert_array_equal(again.policy, whole.policy)
    assert [record.regret for record in again.records] == [record.regret for record in whole.records]
    assert again.certificate == whole.certificate
    assert again.stopped == whole.stopped == "budget"
    with pytest.raises(InputError, match="holds a run with seed 4, not 5, and that cannot be changed"):
        ActiveIRL(strategy="ace", max_samples=200, seed=5).fit(environment, expert, out=tmp_path / "run")


def test_strategies_and_algorithms_may_be_objects() -> None:
    environment, expert, _ = parts()
    named = ActiveIRL(strategy="random", irl="feasible-point", max_samples=100, certify=None)
    given = ActiveIRL(
        strategy=STRATEGIES["random"](), irl=ALGORITHMS["feasible-point"](), max_samples=100, certify=None
    )
    first, second = named.fit(environment, expert), given.fit(environment, expert)
    np.testing.assert_array_equal(first.reward_table, second.reward_table)
    assert first.certificate is None


def test_a_result_says_what_the_expert_wants() -> None:
    environment, expert, truth = parts()
    goal = int(truth.reward.max(axis=(0, 2)).argmax())
    found = ActiveIRL(max_samples=200, certify=None).fit(environment, expert)
    assert found.explanation is not None
    assert (found.explanation.space, found.explanation.goals) == ("state", [goal])
    count = f"(explains {found.explanation.explained} of the {found.explanation.compared} answers it was inferred from)"
    assert found.in_words().splitlines()[0] == f"The expert wants to be in state {goal} {count}."
    names = [f"cell {letter}" for letter in "abcdefghi"]
    assert found.in_words(names).splitlines()[0] == f"The expert wants to be in {names[goal]} {count}."
    silent = ActiveIRL(max_samples=100, certify=None, irl="feasible-point").fit(environment, expert)
    assert silent.explanation is None
    assert silent.in_words() == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": 3}, "strategy must be a name or an object with a method `plan`, got 3"),
        ({"irl": 3}, "IRL algorithm must be a name or something to call, got 3"),
        ({"strategy": "asce"}, "did you mean 'ace'"),
        ({"max_sample": 3}, "did you mean 'max_samples'"),
        ({"delta": 0}, "delta"),
    ],
)
def test_what_cannot_be_is_said(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ActiveIRL(**arguments)


# What people try first.


def lake(**options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20, **options)


DOWN, RIGHT = 1, 2
WAY = [DOWN, DOWN, DOWN, DOWN, DOWN, DOWN, DOWN, DOWN, RIGHT, RIGHT, DOWN, DOWN, DOWN, RIGHT, RIGHT, DOWN]
"""To the flag of the 4×4 lake, around the holes."""


class Model:
    """As Stable-Baselines3 has it."""

    def predict(self, observation: Any, deterministic: bool = False) -> tuple[Any, None]:
        return np.array(WAY[int(observation)]), None


@pytest.mark.parametrize(
    "expert",
    [
        lambda observation: WAY[observation],
        Model(),
        WAY,
        np.array(WAY),
        [Demonstration(o, a) for o, a in enumerate(WAY)],
    ],
    ids=["function", "model", "list", "array", "demonstrations"],
)
def test_a_raw_environment_and_any_usual_expert_will_do(expert: Any) -> None:
    result = ActiveIRL(max_samples=600).fit(lake(), expert)
    assert result.stopped == "certificate"
    assert result.certificate is not None
    assert result.certificate.possible == 1.0, "what FrozenLake pays is known"
    assert result.explanation is not None
    assert ["the flag" in result.names[place] for place in result.explanation.goals] == [True]
    assert result.in_words().startswith("The answers do not tell what the expert wants: "), "seven are few"


def test_an_adapter_is_asked_about_observations_too() -> None:
    asked: list[Any] = []

    def expert(observation: Any) -> int:
        asked.append(observation)
        return int(WAY[observation])

    result = ActiveIRL(max_samples=60, certify=None).fit(GymEnvironment(lake(), horizon=20), expert)
    assert 0 in asked, "the start is observation 0; its number as a state is 1"
    assert int(result.predict(0)[0]) == WAY[0]


def test_a_result_acts_pays_and_trains(capsys: pytest.CaptureFixture[str]) -> None:
    result = ActiveIRL(max_samples=600).fit("FrozenLake-v1", "optimal", horizon=30)
    assert result.records[-1].regret is not None
    action, step = result.predict(0)
    assert action in range(4)
    assert step == (1,)
    env = result.wrapper(lake())
    observation, _ = env.reset(seed=0)
    following, paid, terminated, _, info = env.step(int(action))
    assert paid == pytest.approx(result.reward(observation, int(action), following, terminated=terminated))
    assert "original_reward" in info
    result.show()
    told = capsys.readouterr().out
    assert "It stopped because the" in told
    assert "<Result" not in told
    assert len(repr(result)) < 120


def test_ours_go_by_name_and_bring_their_expert() -> None:
    by_name = ActiveIRL(max_samples=300, seed=2, certify=None).fit("gridworld")
    problem = make("gridworld", 2)
    by_problem = ActiveIRL(max_samples=300, seed=2, certify=None).fit(problem)
    by_parts = ActiveIRL(max_samples=300, seed=2, certify=None).fit(problem.mdp, problem.expert.argmax(axis=2))
    np.testing.assert_array_equal(by_name.policy, by_problem.policy)
    np.testing.assert_array_equal(by_name.policy, by_parts.policy)
    of_states = ActiveIRL(max_samples=50, certify=None).fit(problem.mdp, lambda state: 0)
    assert of_states.turn.belief.estimate.kind.stationary


@pytest.mark.parametrize(
    ("environment", "expert", "options", "message"),
    [
        (3, None, {}, "environment must be a Gymnasium environment or its id"),
        ("gridworld", None, {"horizon": 3}, "horizon is for Gymnasium environments"),
        ("FrozenLake-v1", None, {}, "expert must be a function of an observation"),
        ("FrozenLake-v1", [[0.5] * 4] * 16, {}, r"\[16\] whole numbers; got shape \[16, 4\]"),
        ("FrozenLake-v1", "nobody", {}, "'nobody' is not one of: optimal"),
        ("gridworld", "optimal", {}, "'optimal' is for Gymnasium environments"),
        ("FrozenLake-v9", "optimal", {}, "cannot be made"),
    ],
)
def test_what_cannot_be_learnt_from_is_explained(
    environment: Any, expert: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ActiveIRL(max_samples=50).fit(environment, expert, **options)


def test_states_without_observations_say_so() -> None:
    result = ActiveIRL(max_samples=50, certify=None).fit("gridworld")
    with pytest.raises(InputError, match=r"use reward_table \[H, S, A\] and policy \[H, S\]"):
        result.predict(0)


class KeyDoor(gymnasium.Env[Any, Any]):
    """A corridor of five rooms with a key in the last and a door in the first; observations are dictionaries."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    observation_space = spaces.Dict({"room": spaces.Discrete(5), "key": spaces.Discrete(2)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.room, self.key = 2, 0
        return {"room": self.room, "key": self.key}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.room = min(max(self.room + (1 if action else -1), 0), 4)
        self.key = int(self.key or self.room == 4)
        over = bool(self.key and self.room == 0)
        return {"room": self.room, "key": self.key}, float(over), over, False, {}


def fetch(observation: Any) -> int:
    return int(not observation["key"])


def test_batches_of_dictionaries_are_dictionaries_of_batches() -> None:
    result = ActiveIRL(max_samples=400, max_return=1.0).fit(KeyDoor(), fetch, horizon=12)
    alone = [int(result.predict({"room": room, "key": key})[0]) for room, key in ((2, 0), (3, 1))]
    assert alone == [1, 0]
    together, _ = result.predict({"room": np.array([2, 3]), "key": np.array([0, 1])})
    assert together.tolist() == alone
    columns, _ = result.predict({"room": np.array([[2], [3]]), "key": np.array([[0], [1]])})
    assert columns.tolist() == alone


def test_a_regret_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="regret returned nan after"):
        ActiveIRL(max_samples=50).fit("gridworld", regret=lambda policy: float("nan"))


def test_settings_are_seen_where_people_look_for_them() -> None:
    listed = inspect.signature(ActiveIRL).parameters
    assert {name: parameter.default for name, parameter in listed.items()} == Settings().model_dump()
    documented = pydoc.plain(pydoc.render_doc(ActiveIRL))
    for name, field in Settings.model_fields.items():
        assert field.description
        assert f"{name}: {field.description}" in documented
    assert repr(ActiveIRL(max_samples=50, strategy="ace")) == "ActiveIRL(strategy='ace', max_samples=50)"


def test_the_command_line_has_the_same_defaults() -> None:
    command = get_command(app).commands["run"]  # type: ignore[attr-defined]
    usual = {parameter.name: parameter.default for parameter in command.params}
    left_to_the_task = {"rmax": 1.0, "episodes_per_iteration": 1}
    for name, default in Settings().model_dump().items():
        if name in usual:
            assert usual[name] == (None if name in left_to_the_task else default), name


def test_results_print_short() -> None:
    result = ActiveIRL(max_samples=50).fit("gridworld")
    assert repr(result).startswith("<Result: 50 steps, ")
    assert len(repr(result)) < 100


def test_texts_show_observations_as_people_write_them() -> None:
    class Pair(KeyDoor):
        observation_space = spaces.MultiDiscrete([5, 2])  # type: ignore[assignment]

        def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
            seen, info = super().reset(**options)
            return np.array([seen["room"], seen["key"]]), info

    with pytest.raises(InputError, match=r"answered 'left' to the observation \[2, 0\]; actions are 0 to 1"):
        ActiveIRL(max_samples=50).fit(Pair(), lambda seen: "left", horizon=12)
    with pytest.raises(InputError, match=r"answered 7 to the observation room 2, key 0"):
        ActiveIRL(max_samples=50).fit(KeyDoor(), lambda seen: np.int64(7), horizon=12)
    result = ActiveIRL(max_samples=400, max_return=1.0, epsilon=0.05, certify="reward").fit(
        KeyDoor(), fetch, horizon=12
    )
    assert result.certificate is not None
    said = result.certificate.in_words(result.names, ("left", "right"))
    assert re.search(
        r"The largest part of it, about \S+, is due to step \d+, .*room \d, key \d, (left|right)\.", said
    ), said
    assert result.explanation is not None
    assert [result.names[place] for place in result.explanation.goals] == ["the end in the observation room 0, key 1"]


def test_a_folder_may_be_named_by_text(tmp_path: Path) -> None:
    ActiveIRL(max_samples=50, certify=None).fit("gridworld", out=str(tmp_path / "run"))
    assert Run.open(str(tmp_path / "run")).state() is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"irl": "maxent"}, "did you mean 'max-causal-entropy'"),
        ({"random_state": 3}, "did you mean 'seed'"),
        ({"rng": 3}, "did you mean 'seed'"),
        ({"env": 3}, r"env is not a setting; give it to fit: ActiveIRL\(...\).fit\(environment, expert\)"),
        ({"total_timesteps": 3}, "did you mean 'max_samples'"),
        ({"straetgy": "ace"}, "did you mean 'strategy'"),
    ],
)
def test_names_of_other_libraries_are_understood(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ActiveIRL(**settings)


def test_the_samples_still_needed_go_by_how_long_episodes_are() -> None:
    result = ActiveIRL(max_samples=60, max_return=1.0, epsilon=0.05).fit(KeyDoor(), fetch, horizon=100)
    promise = result.certificate
    assert promise is not None
    assert not promise.holds
    assert promise.more_samples is not None
    # About 60 episodes of at most 20 steps each; by the horizon it would be 6000.
    assert 200 < promise.more_samples < 2000


def go_down(observation: Any) -> int:
    return 1


def go_right(observation: Any) -> int:
    return 2


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("environment", "expert", "message"),
    [
        (("FrozenLake-v1", {"map_name": "8x8"}), go_down, r"observations Discrete\(16\), not Discrete\(64\)"),
        (("FrozenLake-v1", {"is_slippery": False}), go_down, r"environment FrozenLake-v1\(.*is_slippery=false"),
        (("FrozenLake-v1", {}), go_right, "expert go_down, not go_right"),
        (("FrozenLake-v1", {}), [1] * 16, "expert go_down, not _Table"),
    ],
)
def test_a_folder_of_another_environment_or_expert_is_left_as_it_was(
    environment: tuple[str, dict[str, Any]], expert: Any, message: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    ActiveIRL(max_samples=100).fit("FrozenLake-v1", go_down, horizon=20, out=out)
    before = contents(out)
    name, parameters = environment
    with pytest.raises(InputError, match=message):
        ActiveIRL(max_samples=200).fit(gymnasium.make(name, **parameters), expert, horizon=20, out=out)
    assert contents(out) == before
    assert ActiveIRL(max_samples=200).fit(gymnasium.make(name), go_down, horizon=20, out=out).samples >= 200


def test_two_lambdas_or_tables_that_do_different_things_are_two_experts(tmp_path: Path) -> None:
    tables = [1] * 16, [2] * 16
    lambdas = (lambda observation: 1), (lambda observation: 2)
    for number, (first, second) in enumerate((tables, lambdas)):
        out = tmp_path / str(number)
        ActiveIRL(max_samples=100).fit("FrozenLake-v1", first, horizon=20, out=out)
        with pytest.raises(InputError, match="begun with another expert"):
            ActiveIRL(max_samples=200).fit("FrozenLake-v1", second, horizon=20, out=out)
        assert ActiveIRL(max_samples=200).fit("FrozenLake-v1", first, horizon=20, out=out).samples >= 200


def test_a_result_says_what_the_command_line_says_of_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = iter(range(10**6))
    result = ActiveIRL(max_samples=300).fit(
        "FrozenLake-v1", lambda observation: next(said) % 3, horizon=20, out=tmp_path / "run"
    )
    result.show()
    told = capsys.readouterr().out
    assert "Asked again, the expert gave another answer" in told
    assert "It stopped because the budget is spent." in told
    aceirl.load(tmp_path / "run").show()
    assert capsys.readouterr().out == told
    run = CliRunner().invoke(app, ["show", str(tmp_path / "run")])
    assert run.exit_code == 0
    assert run.output.startswith(told)


def test_a_run_that_a_callback_stopped_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    ActiveIRL(max_samples=300).fit("gridworld", callback=lambda turn: True).show()
    assert "It stopped because the callback said so" in capsys.readouterr().out


EPISODES = [[(0, 1, 0.0, False, False), (4, 1, 0.0, True, False)], [(0, 2, 0.0, True, False)]]


@pytest.mark.parametrize(
    ("environment", "expert", "options", "message"),
    [
        ("FrozenLake-v1", EPISODES, {}, "demonstrations="),
        ("FrozenLake-v1", [[0, 1], [2]], {}, "expert must be a function of an observation"),
        ("CartPole-v1", go_down, {"discretise": [3, 3, 3, 3]}, r"discretise must be Bins\(low, high, bins\)"),
        ("CartPole-v1", go_down, {"discretise": 3}, r"Bins\(.*got 3"),
        ("CartPole-v1", go_down, {"discretise": "3,3,3,3"}, r"Bins\(.*got '3,3,3,3'"),
        ("FrozenLake-v1", go_down, {"callback": 3}, "callback must be a function of one argument.*got 3"),
        ("FrozenLake-v1", go_down, {"callback": lambda: None}, "callback must be a function of one argument"),
        ("FrozenLake-v1", [1] * 15, {}, r"\[16\] whole numbers; got shape \[15\]"),
        ("FrozenLake-v1", [1.0] * 16, {}, r"\[16\] whole numbers; got shape \[16\] of float64"),
        ("gridworld", [0.0] * 9, {}, "actions are whole numbers"),
        ("FrozenLake-v1", go_down, {"max_samples": 3}, r"it is a setting: ActiveIRL\(max_samples=3\)"),
        ("FrozenLake-v1", go_down, {"zzzz": 3}, r"known: callback, demonstrations, .*stochastic_expert$"),
    ],
)
def test_what_fit_cannot_use_is_refused_in_words(
    environment: str, expert: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ActiveIRL(max_samples=20).fit(environment, expert, **options)


def test_what_a_result_cannot_use_is_refused_in_words() -> None:
    result = ActiveIRL(max_samples=100, certify="none").fit("FrozenLake-v1", go_down, horizon=20)
    assert result.turn.settings.certify is None
    with pytest.raises(InputError, match="the action 7 is not one of this environment's: 0, 1, 2, 3"):
        result.reward(0, 7, 1)
    for outside in (lambda: result.predict(99), lambda: result.reward(99, 1, 1), lambda: result.predict("x")):
        with pytest.raises(InputError, match=r"is not an observation of this environment: it is not in Discrete\(16\)"):
            outside()
    assert result.predict(np.array([0, 15]))[0].shape == (2,), "a batch, and a state that was perhaps never met"
    with pytest.raises(InputError, match=r"99 \(.*is not an observation"):
        result.predict(np.array([0, 99]))
    with pytest.raises(InputError, match="no picture of learning: without the true reward"):
        result.plot("learning")
    with pytest.raises(InputError, match="unknown argument of transfer 'nmaes'; did you mean 'names'"):
        result.transfer("FrozenLake-v1", nmaes=())
    with pytest.raises(InputError, match="unknown argument of infer 'horizont'; did you mean 'horizon'"):
        ActiveIRL().infer(EPISODES, horizont=3)
    with pytest.raises(InputError, match="did you mean 'env'"):
        ActiveIRL().infer(EPISODES, enviroment="FrozenLake-v1")
    assert result.wrapper("FrozenLake-v1").reset(seed=0)[0] == 0
    with pytest.raises(InputError, match="unknown environment"):
        result.wrapper("FrozenLak-v1")


def test_a_transfer_is_printed_in_a_line() -> None:
    result = ActiveIRL(max_samples=100, certify=None).fit("gridworld")
    assert re.fullmatch(r"<Transfer: to \d+ states and \d+ steps, .*>", repr(result.transfer(make("gridworld", 1))))


def test_a_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(InputError, match=r"notes\.txt is a file; a run is a folder"):
        aceirl.load(tmp_path / "notes.txt")


def test_rows_that_differ_by_step_are_not_taken_for_stationary() -> None:
    """Half-way the two actions swap what they do: pooled over steps, the dynamics look as if nothing mattered."""
    horizon = 4
    rows = np.zeros((horizon, 2, 2, 2))
    rows[:2, :, 0, 0] = rows[:2, :, 1, 1] = rows[2:, :, 0, 1] = rows[2:, :, 1, 0] = 1.0
    mdp = MDP.from_dense(rows, initial=0)
    environment = Simulator(mdp)
    for given in (mdp, environment):
        result = ActiveIRL(certify="dynamics", epsilon=0.6, max_samples=20_000, strategy="uniform", seed=3).fit(
            given, np.zeros((horizon, 2), dtype=int)
        )
        assert not result.turn.settings.stationary_dynamics
        assert result.certificate is not None
        promised = result.certificate.value
        reward = np.zeros(mdp.shape)
        reward[1:, 1] = 1.0
        planned = np.eye(2)[optimal_values(result.turn.belief.estimate.mdp, reward)[0].argmax(axis=2)]
        best, own = optimal_values(mdp, reward)[1][0, 0], evaluate(mdp, reward, planned)[1][0, 0]
        assert best - own <= promised + 1e-9
        assert "the dynamics are the same at every step" not in result.certificate.assumptions
    with pytest.raises(InputError, match="stationary_dynamics is True, but this process has transitions for every"):
        ActiveIRL(stationary_dynamics=True).fit(mdp, np.zeros((horizon, 2), dtype=int))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("epsilon", 1e-320, "epsilon: input should lie between 1e-100 and 1e100, got"),
        ("epsilon", 1e-30, "epsilon is 1e-30, and two episodes can differ by 10; it must be at least 1e-15 of that"),
        ("rmax", 1e308, "rmax: input should lie between 1e-100 and 1e100, got"),
        ("max_return", 1e-320, "max_return: input should lie between 1e-100 and 1e100, got"),
        ("delta", 1e-320, "delta: input should lie between 1e-100 and 1e100, got"),
        ("epsilon", float("nan"), "epsilon: input should be"),
    ],
)
def test_numbers_that_cannot_be_reckoned_with_are_refused(name: str, value: float, why: str) -> None:
    with pytest.raises(InputError, match=why):
        ActiveIRL(**{name: value, "max_samples": 20}).fit("gridworld")


def test_episodes_that_no_table_can_hold_are_refused() -> None:
    class Endless:
        n_states, n_actions, horizon, initial = 1, 2, 10**9, None

        def reset(self, rng: np.random.Generator) -> int:
            return 0

        def step(self, action: int) -> tuple[int, bool]:
            return 0, False

    with pytest.raises(InputError, match="horizon must be at most 1,000,000 steps, got 1,000,000,000"):
        ActiveIRL().fit(Endless(), lambda state: 0)
    with pytest.raises(InputError, match="horizon must be at most 1,000,000 steps"):
        ActiveIRL().fit(gymnasium.make("FrozenLake-v1", max_episode_steps=10**9), "optimal", horizon=10**9)
