"""Twenty-odd ways to go wrong, as people do in their first hour: each is answered in a line or two that say what would
be right."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas  # type: ignore[import-untyped]
import polars
import pytest
from gymnasium import spaces
from gymnasium_environments import Corridor
from typer.testing import CliRunner

from aceirl import ActiveIRL, InputError, Result
from aceirl.cli import app

SHORT = ActiveIRL(max_samples=30, certify=None)


class OldEnvironment:
    """As the old Gym had them: no base class, no info, no seed."""

    observation_space, action_space = spaces.Discrete(4), spaces.Discrete(2)

    def reset(self) -> int:
        return 0

    def step(self, action: int) -> tuple[int, float, bool, dict[str, Any]]:
        return 0, 0.0, False, {}


class OldReset(gymnasium.Env[Any, Any]):
    observation_space, action_space = spaces.Discrete(4), spaces.Discrete(2)

    def reset(self, seed: int | None = None) -> int:  # type: ignore[override]
        return 0


class OldStep(Corridor):
    def step(self, action: Any) -> Any:
        return (*super().step(action)[:3], {})


class Continuous(Corridor):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1, 1)


def onwards(room: int) -> int:
    return 1


def lake() -> Result:
    return SHORT.fit("FrozenLake-v1", lambda room: 1, horizon=9)


def corridor() -> Result:
    return SHORT.fit(Corridor(), onwards, horizon=6)


LAKE = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]


MISUSES: dict[str, tuple[Callable[[], Any], str]] = {
    "class as environment": (
        lambda: SHORT.fit(Corridor, onwards, horizon=6),
        r"environment is the class Corridor; give an instance, Corridor\(",
    ),
    "class as expert": (
        lambda: SHORT.fit(Corridor(), Corridor, horizon=6),
        r"expert is the class Corridor; give an instance",
    ),
    "class to wrap": (lambda: corridor().wrapper(Corridor), r"env is the class Corridor; give an instance"),
    "class to transfer to": (lambda: corridor().transfer(Corridor), r"the class Corridor; give an instance"),
    "half an action": (
        lambda: SHORT.fit(Corridor(), lambda room: 0.5, horizon=6),
        r"answered 0\.5 to the observation 0; actions are 0 to 1",
    ),
    "old Gym": (
        lambda: SHORT.fit(OldEnvironment(), onwards, horizon=6),
        r"OldEnvironment is not a gymnasium\.Env: derive it from that class",
    ),
    "old reset": (
        lambda: SHORT.fit(OldReset(), onwards, horizon=6),
        r"reset must return \(observation, info\), got 0; an environment of the old Gym",
    ),
    "old step": (
        lambda: SHORT.fit(OldStep(), onwards, horizon=6),
        r"step must return \(observation, reward, terminated, truncated, info\)",
    ),
    "continuous actions in numbered states": (
        lambda: SHORT.fit(Continuous(), onwards, horizon=6, discretise=lambda room: room),
        r"actions must be Discrete or MultiDiscrete",
    ),
    "answer beyond continuous actions": (
        lambda: SHORT.fit(Continuous(), lambda room: "left", horizon=6),
        r"answered 'left' to the observation 0; actions are Box",
    ),
    "strategy without states": (
        lambda: ActiveIRL(strategy="ace").fit("CartPole-v1", lambda seen: 0),
        r"strategy is for numbered states, .*discretise=Bins",
    ),
    "certificate without states": (
        lambda: ActiveIRL(certify="set").fit("CartPole-v1", lambda seen: 0),
        r"certificate 'set' is for numbered states",
    ),
    "best policy without states": (
        lambda: SHORT.fit("CartPole-v1", "optimal"),
        r"expert 'optimal' is for numbered states; with continuous observations give a function",
    ),
    "no expert without states": (lambda: SHORT.fit("CartPole-v1"), r"expert must be given, or demonstrations"),
    "stochastic expert without states": (
        lambda: SHORT.fit("CartPole-v1", lambda seen: 0, stochastic_expert=True),
        r"the expert must be deterministic: no policy agrees with a stochastic one for long",
    ),
    "regret without states": (
        lambda: SHORT.fit("CartPole-v1", lambda seen: 0, regret=lambda policy: 0.0),
        r"regret is a function of a policy \[H, S\]",
    ),
    "answer that is no action": (
        lambda: SHORT.fit("CartPole-v1", lambda seen: 7),
        r"answered 7 to the observation .*; actions are Discrete\(2\)",
    ),
    "too few names": (
        lambda: SHORT.fit("CartPole-v1", lambda seen: 0, fields=("place", "speed")),
        r"fields must be 4 names",
    ),
    "several environments that differ": (
        lambda: SHORT.fit(
            gymnasium.vector.SyncVectorEnv(
                [lambda: gymnasium.make("CartPole-v1"), lambda: gymnasium.make("CartPole-v1", max_episode_steps=50)]
            ),
            lambda seen: 0,
        ),
        r"environments of the vector are not the same; give the one to learn in",
    ),
    "no time limit": (lambda: SHORT.fit(Corridor(), onwards), "horizon must be given"),
    "reward of a lake in a taxi": (
        lambda: lake().wrapper("Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"),
        r"the reward is about 4 actions, and those of this environment are Discrete\(6\)",
    ),
    "reward of a lake on a cliff": (
        lambda: lake().wrapper(Corridor(rooms=16)),
        r"the reward is about 4 actions",
    ),
    "reward of other observations": (
        lambda: corridor().wrapper(Corridor(rooms=9)),
        r"about observations in Discrete\(4\), and this environment's are Discrete\(9\)",
    ),
    "no expert": (lambda: SHORT.fit(Corridor(), horizon=6), "expert must be a function of an observation"),
    "expert that fails": (
        lambda: SHORT.fit(Corridor(), lambda room: [][room], horizon=6),
        r"the expert failed on the observation 0: IndexError",
    ),
    "trajectories as an expert": (
        lambda: SHORT.fit("FrozenLake-v1", [[(0, 1, 0.0, True, False)]]),
        r"give them as demonstrations",
    ),
    "setting given to fit": (
        lambda: SHORT.fit(Corridor(), onwards, horizon=6, max_samples=9),
        r"it is a setting: ActiveIRL\(max_samples=9\)",
    ),
    "misspelt setting": (lambda: ActiveIRL(max_sample=9), "did you mean 'max_samples'"),
    "negative budget": (lambda: ActiveIRL(max_samples=-3), "max_samples"),
    "recording without observations": (
        lambda: ActiveIRL().infer(pandas.DataFrame({"x": [0], "action": [1]})),
        "the data frame has no array 'observations'; it has action, x",
    ),
    "recording of one endless episode": (
        lambda: ActiveIRL().infer({"observations": [0, 1], "actions": [1, 1]}),
        "does not say where episodes end",
    ),
    "text as a recording": (lambda: ActiveIRL().infer(7), "a recording is"),
    "no such file": (lambda: ActiveIRL().infer("nothing.jsonl"), "there is no file nothing.jsonl"),
    "picture that is none": (lambda: corridor().plot("rewrd"), "did you mean 'reward'"),
    "environment that is none": (lambda: SHORT.fit("FrozenLak-v1", onwards), "did you mean 'FrozenLake"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_answered_in_a_line_or_two(name: str) -> None:
    misuse, message = MISUSES[name]
    with pytest.raises(InputError, match=message) as raised:
        misuse()
    assert len(str(raised.value)) <= 2 * 160, "a line or two"
    assert "\n" not in str(raised.value)


def test_a_whole_number_is_an_action_whatever_its_type() -> None:
    answers = (lambda room: 1.0, lambda room: np.float32(1), lambda room: np.array([1.0]))
    found = [SHORT.fit(Corridor(), answer, horizon=6).policy.tolist() for answer in (onwards, *answers)]
    assert all(policy == found[0] for policy in found)


ROWS = {"episode": [0, 0, 1], "observation": [0, 1, 0], "action": [1, 0, 1], "next_observation": [1, 0, 1]}


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_a_data_frame_is_a_recording(frame: Callable[[Any], Any]) -> None:
    shown = ActiveIRL().infer(frame(ROWS)).demonstrations
    assert shown is not None
    assert [len(walk.actions) for walk in shown.walks] == [2, 1]


def test_done_is_not_taken_for_an_end_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    """The first episode is cut off where the second goes on; the second ends where nobody ever acts."""
    rows = {"observations": [0, 1, 0, 1], "actions": [1, 0, 1, 1], "next_observations": [1, 0, 1, 2]}
    with caplog.at_level(logging.WARNING, logger="aceirl"):
        shown = ActiveIRL().infer(rows | {"dones": [0, 1, 0, 1]}).demonstrations
    assert shown is not None
    assert [walk.terminated for walk in shown.walks] == [False, True]
    assert "Of 2 such episodes, 1 end with an observation after which other episodes go on" in caplog.text
    caplog.clear()
    said = ActiveIRL().infer(rows | {"dones": [0, 1, 0, 1], "truncated": [0, 0, 0, 1]}).demonstrations
    assert said is not None
    assert [walk.terminated for walk in said.walks] == [True, False], "both together say it"
    assert not caplog.text


@pytest.mark.parametrize("command", ["run", "infer", "transfer", "resume", "advise"])
def test_help_cuts_no_option_in_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, [command, "--help"], terminal_width=80).output
    assert "…" not in shown
    assert "--" in shown
    if command == "run":
        assert "--episodes-per-iteration" in shown
        assert "--stochastic-expert / --no-stochastic-expert" in shown


def test_transfer_says_that_env_is_called_to(tmp_path: Path) -> None:
    corridor().save(tmp_path / "run")
    said = CliRunner().invoke(app, ["transfer", str(tmp_path / "run"), "--env", "FrozenLake-v1"])
    assert said.exit_code == 2
    assert "say where to with --to FrozenLake-v1" in said.stderr


def test_what_is_inferred_leads_to_a_run_where_there_is_an_environment(tmp_path: Path) -> None:
    """And every count in its summary follows from another one."""
    env, rng, lines = gymnasium.make("FrozenLake-v1", max_episode_steps=20), np.random.default_rng(0), []
    for number in range(40):
        seen, over = env.reset(seed=number)[0], False
        while not over:
            action = LAKE[seen] if rng.random() < 0.8 else int(rng.integers(4))
            after, _, terminated, truncated, _ = env.step(action)
            lines.append({"episode": number, "observation": int(seen), "action": action, "terminated": terminated})
            lines[-1]["next_observation"] = int(after)
            seen, over = after, terminated or truncated
    (tmp_path / "lake.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = str(tmp_path / "lake.jsonl")
    alone = CliRunner().invoke(app, ["infer", data, "--deterministic-expert"]).stdout
    assert "aceirl run" not in alone
    answered = len({line["observation"] for line in lines})
    compared = sum(len({x["action"] for x in lines if x["observation"] == s}) > 1 for s in range(16))
    words = re.search(r"The ([\d,]+) recorded actions count as ([\d,]+) answers, one for each state. (\w+) of", alone)
    assert words is not None
    assert words.groups() == (f"{len(lines):,}", str(answered), "All" if compared == answered else str(compared))
    known = CliRunner().invoke(app, ["infer", data, "--env", "FrozenLake-v1"]).stdout
    assert f"aceirl run FrozenLake-v1 --recordings {data}" in known


SOURCES = Path(__file__).parents[1] / "src"


def test_the_version_is_known_without_installation() -> None:
    """In a process that sees the sources and no installed package at all."""
    code = f"import sys; sys.path = [{str(SOURCES)!r}, *[p for p in sys.path if 'site-packages' not in p]]"
    code += "; import aceirl; print(aceirl.__version__)"
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "0.1.0"


def test_compiling_is_said_once(tmp_path: Path) -> None:
    """Where nothing is compiled yet: a run that is silent for a minute looks as if it hung."""
    code = "import numpy as np; from aceirl.models.tabular import kernels\n"
    code += "table = np.zeros((1, 1, 1)); kernels.policy_mean(0.0, table, table, 0, 0)\n"
    code += "kernels.best_action(0.0, table, table, 0, 0)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCES), "NUMBA_CACHE_DIR": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == "Compiling for this machine; the first run takes up to a minute longer.\n"
