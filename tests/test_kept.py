"""Folders complete in themselves: what was made in Python or on the command line is shown, loaded and used anywhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from matplotlib.figure import Figure
from typer.testing import CliRunner

import aceirl
from aceirl import ActiveIRL, InputError, Result, Run, make
from aceirl.cli import app
from aceirl.envs.written_space import read_space, write_space
from aceirl.experts.tasks import Source
from aceirl.experts.tasks.source import named_source
from aceirl.models.tabular.bins import Bins
from aceirl.models.tabular.encoder import StateIndex

MODULE = '''
import gymnasium
from gymnasium import spaces
from aceirl.envs.description import EnvironmentDescription, MapCell

class Rooms(gymnasium.Env):
    """A corridor of five rooms with a key in the last and a door in the first."""

    observation_space = spaces.Dict({"room": spaces.Discrete(5), "key": spaces.Discrete(2)})
    action_space = spaces.Discrete(2)
    description = EnvironmentDescription(
        actions=("left", "right"),
        words=lambda env, seen: f"room {seen['room'] + 1}" + (", with the key" if seen["key"] else ""),
        map_cell=lambda env, seen: MapCell(seen["room"], seen["key"]),
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room, self.key = 2, 0
        return {"room": self.room, "key": self.key}, {}

    def step(self, action):
        self.room = min(max(self.room + (1 if action else -1), 0), 4)
        self.key = int(self.key or self.room == 4)
        over = bool(self.key and self.room == 0)
        return {"room": self.room, "key": self.key}, float(over), over, False, {}

def fetch(seen):
    return int(not seen["key"])

def likes(seen):
    return [float(seen["room"] == 0 and seen["key"]), float(seen["room"] == 4)]

def by_room(seen):
    return seen["room"], seen["key"]
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in an environment and with an expert of somebody's own module, which is not here any more."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "rooms.py").write_text(MODULE)
    program = (
        "import rooms\nfrom aceirl import ActiveIRL\n"
        "ActiveIRL(max_samples=400, max_return=1.0).fit(rooms.Rooms(), rooms.fetch, horizon=12, out='run')"
    )
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, timeout=300)
    other = program.replace("max_return=1.0", "max_return=1.0, reward=rooms.likes").replace("'run'", "'features'")
    third = program.replace("horizon=12", "horizon=12, discretise=rooms.by_room").replace("'run'", "'binned'")
    subprocess.run([sys.executable, "-c", f"{other}\n{third}"], cwd=folder, check=True, timeout=300)
    (folder / "rooms.py").unlink()
    return folder / "run"


def aceirl_command(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_a_moved_run_is_shown_and_used_where_its_module_is_not(made: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(made, moved)
    result = aceirl.load(moved)
    assert isinstance(result, Result)
    assert result.explanation is not None
    assert [result.names[place] for place in result.explanation.goals] == ["the end in room 1, with the key"]
    assert result.in_words().startswith("The answers do not tell what the expert wants: "), "eight are few"
    assert int(result.predict({"room": 2, "key": 0})[0]) == 1
    assert int(result.predict({"room": 3, "key": 1})[0]) == 0
    together, _ = result.predict({"room": np.array([2, 3]), "key": np.array([0, 1])})
    assert together.tolist() == [1, 0]
    assert result.explanation.step_cost > 0
    paid = result.reward({"room": 1, "key": 1}, 1, {"room": 2, "key": 1})
    assert paid == pytest.approx(-result.explanation.step_cost), "every step before the end costs"
    assert isinstance(result.plot(), Figure)
    shown = aceirl_command("show", str(moved))
    assert shown.exit_code == 0, shown.output
    assert re.search(r"mattered most: .*room \d, with the key", shown.stdout)
    assert (moved / "pictures" / "policy.svg").exists()
    exported = aceirl_command("export", str(moved))
    assert exported.exit_code == 0, exported.output
    assert '""room"":0,""key"":1' in (moved / "reward.csv").read_text()
    refused = aceirl_command("resume", str(moved))
    assert refused.exit_code == 2
    assert "fit(environment, expert, out=" in refused.output
    with pytest.raises(InputError, match="give them: ActiveIRL"):
        result.resume(max_samples=500)


def test_features_by_a_function_that_is_not_here_are_kept(made: Path) -> None:
    result = aceirl.load(made.parent / "features")
    assert result.explanation is not None
    assert result.explanation.space == "features"
    assert aceirl_command("show", str(made.parent / "features")).exit_code == 0
    assert int(result.predict({"room": 2, "key": 0})[0]) == 1


def test_bins_by_a_function_that_is_not_here_are_shown_and_cannot_be_told_apart(made: Path) -> None:
    result = aceirl.load(made.parent / "binned")
    assert result.explanation is not None
    assert [result.names[place] for place in result.explanation.goals] == ["the end in room 1, with the key"]
    with pytest.raises(InputError, match="the observations of this run cannot be read here"):
        result.predict({"room": 2, "key": 0})


def test_python_goes_on_with_a_run_of_the_command_line_if_it_is_in_the_same_environment(tmp_path: Path) -> None:
    ran = aceirl_command("run", "gridworld", "--out", str(tmp_path / "run"), "--max-samples", "50", "--seed", "1")
    assert ran.exit_code == 0, ran.output
    more = ActiveIRL(max_samples=120, certify=None).fit("gridworld", out=tmp_path / "run")
    assert (more.samples, more.turn.settings.seed) == (120, 1)
    with pytest.raises(InputError, match="begun with environment gridworld, not chain"):
        ActiveIRL(max_samples=200).fit("chain", out=tmp_path / "run")


def test_a_saved_result_comes_back_whole(tmp_path: Path) -> None:
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20)
    result = ActiveIRL(max_samples=300).fit(env, lambda seen: 1)
    again = aceirl.load(result.save(tmp_path / "kept"))
    np.testing.assert_array_equal(again.policy, result.policy)
    np.testing.assert_array_equal(again.reward_table, result.reward_table)
    assert [record.samples for record in again.records] == [record.samples for record in result.records]
    assert (again.certificate, again.names, again.in_words()) == (
        result.certificate, result.names, result.in_words()
    )  # fmt: skip
    assert again.names[1] == "row 1, column 1"
    paying = again.wrapper(env)
    paying.reset(seed=0)
    assert isinstance(paying.step(1)[1], float)
    copied = again.save(tmp_path / "copy")
    assert aceirl.load(copied).in_words() == result.in_words()
    with pytest.raises(InputError, match="exists and is not empty"):
        result.save(tmp_path / "kept")


def test_folders_of_the_command_line_open_in_python_and_the_other_way_round(tmp_path: Path) -> None:
    ran = aceirl_command("run", "gridworld", "--out", str(tmp_path / "typed"), "--seed", "3", "--max-samples", "150")
    assert ran.exit_code == 0, ran.output
    typed = aceirl.load(tmp_path / "typed")
    called = ActiveIRL(max_samples=150, seed=3).fit("gridworld", out=tmp_path / "called")
    np.testing.assert_array_equal(typed.reward_table, called.reward_table)
    assert typed.turn.settings.model_dump() == called.turn.settings.model_dump(), "the same defaults"
    strip = ("seconds", "planning_seconds", "inferring_seconds")
    plain = [[{k: v for k, v in r.to_json().items() if k not in strip} for r in x.records] for x in (typed, called)]
    assert plain[0] == plain[1]
    elsewhere = aceirl_command("transfer", str(tmp_path / "called"), "--start", "uniform")
    assert elsewhere.exit_code == 0, elsewhere.output
    assert Run.open(tmp_path / "called").source == Run.open(tmp_path / "typed").source
    on = aceirl_command("resume", str(tmp_path / "called"), "--max-samples", "260", "--certify", "none")
    assert on.exit_code == 0, on.output
    assert aceirl.load(tmp_path / "called").samples >= 260


def test_a_problem_of_ones_own_keeps_its_names_and_map(tmp_path: Path) -> None:
    problem = make("four-paths", 1)
    ActiveIRL(max_samples=200).fit(problem, out=tmp_path / "run")
    kept = Run.open(tmp_path / "run").kept()
    assert kept is not None
    assert kept.complete
    assert kept.task.world.layout is not None
    assert kept.task.world.layout.state_names == problem.layout.state_names
    np.testing.assert_array_equal(kept.task.world.layout.positions, problem.layout.positions)
    here = aceirl_command("transfer", str(tmp_path / "run"), "--to", "four-paths", "--env-seed", "1", "--json")
    assert here.exit_code == 0, here.output
    nowhere = aceirl_command("transfer", str(tmp_path / "run"))
    assert (nowhere.exit_code, "say where --to" in nowhere.output) == (2, True)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=2),
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiDiscrete(np.array([[3, 4], [2, 2]])),
        spaces.MultiBinary(3),
        spaces.MultiBinary([2, 3]),
        spaces.Box(0, 255, (3, 3), np.uint8),
        spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32)),
        spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(2)]),
        spaces.Dict([("b", spaces.Discrete(2)), ("a", spaces.Dict({"c": spaces.Discrete(3)}))]),
    ],
    ids=str,
)
def test_spaces_are_written_and_read_back(space: gymnasium.Space[Any]) -> None:
    written = write_space(space)
    assert written is not None
    again = read_space(json.loads(json.dumps(written)))
    assert again == space
    if isinstance(space, spaces.Dict) and isinstance(again, spaces.Dict):
        assert list(again.spaces) == list(space.spaces)


def test_an_unknown_space_is_not_written() -> None:
    assert write_space(spaces.Sequence(spaces.Discrete(3))) is None
    assert write_space(spaces.Tuple([spaces.Sequence(spaces.Discrete(3))])) is None


def test_dictionaries_keep_the_order_of_their_keys_when_a_run_goes_on() -> None:
    space = spaces.Dict({"room": spaces.Discrete(5), "key": spaces.Discrete(2)})
    assert list(space.spaces) == ["key", "room"], "Gymnasium sorts them"
    met = StateIndex(space)
    met.number({"room": 2, "key": 0})
    again = met.numbered(met.names)
    assert again.names == met.names
    assert list(again.observation(1)) == ["room", "key"]


@pytest.mark.parametrize(
    ("environment", "expert", "options", "source"),
    [
        ("gridworld", None, {}, Source("gridworld", {}, 0)),
        ("FrozenLake-v1", "optimal", {"horizon": 9}, Source("FrozenLake-v1", {}, 0, expert="optimal", horizon=9)),
        (make("gridworld", 0), None, {}, None),
        ("gridworld", [0] * 9, {}, None),
        (gymnasium.make("FrozenLake-v1", map_name="8x8", render_mode="ansi"), "optimal", {},
         Source("FrozenLake-v1", {"map_name": "8x8"}, 0, expert="optimal", horizon=100)),
        (gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), float), "optimal", {}, None),
        ("CartPole-v1", "optimal", {"discretise": Bins((-1.0,) * 4, (1.0,) * 4, (3,) * 4)},
         Source("CartPole-v1", {}, 0, expert="optimal", discretise=",".join(["-1.0:1.0:3"] * 4))),
        ("CartPole-v1", lambda seen: 0, {"discretise": lambda seen: 0}, None),
    ],
)  # fmt: skip
def test_what_has_a_name_is_named(environment: Any, expert: Any, options: Any, source: Source | None) -> None:
    assert named_source(environment, expert, **options) == source


def test_the_expert_of_another_environment_is_told_apart() -> None:
    other = make("chain", 0)
    expert = aceirl.PolicyExpert(other.expert, other.mdp.shape)
    with pytest.raises(
        InputError, match="10 steps, 6 states and 10 actions, and the environment has 10 steps, 9 states"
    ):
        ActiveIRL(max_samples=50).fit("gridworld", expert)


def test_the_modules_that_the_pages_name_open_in_a_fresh_interpreter(made: Path) -> None:
    program = f"import aceirl; print(len(aceirl.runs.Run.open({str(made)!r}).records()) > 0)"
    found = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=300)
    assert found.stdout.strip() == "True", found.stderr
