"""Experiments in TOML: what they mean, and how what is wrong is told."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from aceirl.bench.experiments import RunResult
from aceirl.bench.report import write_report
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, sweep
from aceirl.bench.userspecs import read_spec
from aceirl.bench.work import RESULTS_VERSION
from aceirl.errors import InputError

GOOD = """\
title = "Mine"
strategies = ["random", "advice"]
seeds = [3, 5]
threshold = 0.3

[settings]
max_samples = 500
irl = "feasible-point"

[[scenario]]
environment = "four-paths"
parameters = { arm_length = 4 }
episodes_per_iteration = [5, 10]

[[scenario]]
environment = "chain"
name = "walk"
max_samples = 200
"""


def read(tmp_path: Path, text: str):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return read_spec(path)


def test_lists_stand_for_one_scenario_each_and_own_values_win(tmp_path: Path) -> None:
    spec = read(tmp_path, GOOD)
    assert [scenario.name for scenario in spec.scenarios] == ["four-paths-5", "four-paths-10", "walk"]
    assert spec.scenarios[1].title == "four-paths, N_E = 10"
    cells = spec.cells()
    assert len(cells) == 2 * 3 * 2
    assert {cell.seed for cell in cells} == {3, 5}
    assert {cell.settings.max_samples for cell in cells} == {500, 200}
    assert {cell.settings.named("irl") for cell in cells} == {"feasible-point"}
    assert cells[0].parameters == {"arm_length": 4}
    assert cells[-1].settings.episodes_per_iteration == 1
    assert (spec.title, spec.threshold) == ("Mine", 0.3)


def test_strategies_may_have_parameters(tmp_path: Path) -> None:
    spec = read(tmp_path, GOOD.replace('"advice"]', '"ace:tolerance=0.050", "ace", "ace:tolerance=0.05"]'))
    assert spec.strategies == ("random", "ace:tolerance=0.05", "ace")
    assert len({cell.key for cell in spec.cells()}) == 2 * 3 * 3


@pytest.mark.parametrize(
    ("file", "title"),
    [("my.toml", "My"), ("longer_arms-2.toml", "Longer arms 2"), ("-.toml", "-"), ("AB c.toml", "AB c")],
)
def test_without_a_title_the_name_of_the_file_is_made_readable(tmp_path: Path, file: str, title: str) -> None:
    path = tmp_path / file
    path.write_text(GOOD.replace('title = "Mine"', ""))
    assert (read_spec(path).title, read_spec(path).summary) == (title, f"A sweep from {file}.")
    path.write_text('description = " Why? "\n' + GOOD)
    assert (read_spec(path).title, read_spec(path).summary) == ("Mine", "Why?")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('title = "Mine"', 'title = "Mine', r"is not TOML: .*line 1"),
        ('title = "Mine"', "title = 3", r"line 1, title: must be text, got 3"),
        ('"advice"]', '"advise"]', r"line 2, strategies: unknown strategy 'advise'; did you mean 'advice'\?"),
        ('"advice"]', '"ace:tol=1"]', r"line 2, strategies: unknown parameter of strategy 'ace' 'tol'"),
        ('"advice"]', '"no.such.Strategy"]', r"line 2, strategies: no.such.Strategy cannot be found: No module named"),
        ('["random", "advice"]', '"random"', r"line 2, strategies: must be a list of names"),
        ("seeds = [3, 5]", "seeds = 0", r"line 3, seeds: must be a number of seeds of at least 1.* got 0"),
        ("threshold = 0.3", "threshold = 4", r"line 4, threshold: must be a regret between 0 and 1, got 4"),
        ("threshold = 0.3", "treshold = 0.3", r"line 4, treshold: unknown key 'treshold'; did you mean 'threshold'\?"),
        ("max_samples = 500", "max_samples = -1", r"line 7, settings.max_samples: .*greater.*, got -1"),
        ("max_samples = 500", "max_sample = 5", r"line 7, settings.max_sample: unknown .*did you mean 'max_samples'\?"),
        ('"four-paths"', '"four-path"', r"line 11, scenario\[0\].environment: unknown environment .*'four-paths'\?"),
        ('environment = "chain"', "", r"line 15, scenario\[1\].environment: is missing"),
        ("arm_length = 4", "arm_lenght = 4", r"line 12, scenario\[0\].parameters: unknown parameter .*'arm_length'\?"),
        ("arm_length = 4", "arm_length = 0", r"line 12, scenario\[0\].parameters: arm_length must be .* got 0"),
        ("[5, 10]", "[5, 0]", r"line 13, scenario\[0\].episodes_per_iteration: .*greater.* got 0"),
        ("[5, 10]", "[]", r"line 13, scenario\[0\].episodes_per_iteration: is an empty list"),
        ("max_samples = 200", 'irl = "magic"', r"line 18, scenario\[1\].irl: unknown IRL algorithm 'magic'"),
        ('name = "walk"', "reward_free = 1", r"line 17, scenario\[1\].reward_free: must be true or false, got 1"),
        ('"chain"\nname = "walk"', '"four-paths"\nname = "four-paths-5"', r"two scenarios are called 'four-paths-5'"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_key(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=told) as caught:
        read(tmp_path, GOOD.replace(old, new))
    assert "\n" not in str(caught.value)
    assert "mine.toml" in str(caught.value)


GYMNASIUM = """\
strategies = ["random", "guided"]
seeds = 1

[settings]
max_samples = 200

[[scenario]]
environment = "FrozenLake-v1"
parameters = { is_slippery = false }
horizon = 20

[[scenario]]
environment = "gymnasium_environments:Corridor"
name = "corridor"
expert = "test_experiments_userspecs:onwards"
horizon = 9
"""


def onwards(room: int) -> int:
    return 1


def test_environments_of_gymnasium_and_of_ones_own_are_swept_too(tmp_path: Path) -> None:
    spec = read(tmp_path, GYMNASIUM)
    cells = spec.cells()
    assert [(cell.environment, cell.source) for cell in cells[::2]] == [
        ("FrozenLake-v1", {"horizon": 20}),
        ("gymnasium_environments:Corridor", {"expert": "test_experiments_userspecs:onwards", "horizon": 9}),
    ]
    store = Store(tmp_path / "runs")
    *_, last = sweep(cells, store, Here())
    assert (last.finished, last.failed) == (4, 0)
    for cell in cells:
        run = RunResult.read(cell, store)
        assert run is not None
        assert np.isfinite(run.regret).all()
        assert run.samples[-1] >= 200
    assert write_report([spec], store, tmp_path, command="aceirl sweep mine.toml").path.exists()


def test_a_cell_of_ours_has_the_key_it_always_had(tmp_path: Path) -> None:
    """Results on disk are found again by it: what is for Gymnasium alone is no part of it."""
    cell = read(tmp_path, GOOD).cells()[0]
    everything = {"results": RESULTS_VERSION, **cell.model_dump(exclude={"source"})}
    assert cell.key == hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()[:40]
    assert cell.key != cell.model_copy(update={"source": {"horizon": 3}}).key


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"FrozenLake-v1"', '"FrozenLak-v1"', r"line 8, scenario\[0\].environment: unknown environment"),
        ("horizon = 20", 'expert = "nobody"', r"scenario\[0\].environment: expert 'nobody' is not one of"),
        ("horizon = 20", "reward_free = true", r"line 10, scenario\[0\].reward_free: is for built-in environments"),
        ("horizon = 9", "", r"scenario\[1\].environment: horizon must be given"),
        ('"FrozenLake-v1"\nparameters = { is_slippery = false }', '"chain"', r"horizon: is for Gymnasium environments"),
    ],
)
def test_what_is_wrong_with_a_gymnasium_scenario_is_told(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in GYMNASIUM
    with pytest.raises(InputError, match=told):
        read(tmp_path, GYMNASIUM.replace(old, new))


def test_a_file_that_is_not_there_or_has_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*nothing.toml: No such file"):
        read_spec(tmp_path / "nothing.toml")
    with pytest.raises(InputError, match=r"needs at least one \[\[scenario\]\]"):
        read(tmp_path, 'strategies = ["random"]')
