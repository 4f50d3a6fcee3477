"""The tutorial says what happens: its blocks are executed in order, and what they print is compared. The blocks of the
Gymnasium page are executed too."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium_environments import Shown
from typer.testing import CliRunner

from aceirl import ActiveIRL
from aceirl.cli import app
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.experts import ObservationExpert

DOCS = Path(__file__).parents[1] / "docs"
TUTORIAL, REFERENCE = DOCS / "tutorial.md", DOCS / "gymnasium.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs_and_prints_what_it_says() -> None:
    names: dict[str, Any] = {"__name__": "tutorial"}
    printed, compared = "", 0
    for kind, text in BLOCK.findall(TUTORIAL.read_text()):
        if kind == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, str(TUTORIAL), "exec"), names)
            printed = output.getvalue()
        elif kind == "text":
            assert printed == text
            compared += 1
    assert compared == 3


def always_on(room: int) -> int:
    return 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_blocks_of_the_gymnasium_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment whose observations are pairs, as on the page, and with the folder of a run that it names."""
    monkeypatch.chdir(tmp_path)

    def make_env() -> Shown:
        return Shown(spaces.MultiDiscrete([5, 2]), [np.array([room, 1]) for room in range(5)])

    run = ["run", "gymnasium_environments:Corridor", "--expert", "test_gym_tutorial:always_on", "--horizon", "8"]
    assert CliRunner().invoke(app, [*run, "--max-samples", "20", "--out", "tidy"]).exit_code == 0
    environment = GymEnvironment(make_env(), horizon=8)
    result = ActiveIRL(max_samples=20).fit(environment, ObservationExpert(lambda seen: 1, environment))
    names: dict[str, Any] = {
        "gymnasium": gymnasium,
        "make_env": make_env,
        "result": result,
        "observation": np.array([0, 1]),
    }
    executed = 0
    for kind, text in BLOCK.findall(REFERENCE.read_text()):
        if kind == "python":
            exec(compile(text, str(REFERENCE), "exec"), names)
            executed += 1
            if "workers" in names:
                names.pop("workers").close()
                names["environment"] = environment
    assert executed == 4
    described = names["House"].description
    assert described.words(None, (2, 1)) == "room 2 with the toy"
    assert described.map_cell(None, (2, 1)).panel == "with the toy"
    assert names["action"] == 1
    assert names["recovered"].reward.shape == (8, 6, 2), "of the run on disk: nowhere, four rooms and the end"
