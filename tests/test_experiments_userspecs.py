"""Experiments in TOML: what they mean, and how what is wrong is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from aceirl.errors import InputError
from aceirl.experiments.userspecs import read_spec

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


def test_a_file_that_is_not_there_or_has_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*nothing.toml: No such file"):
        read_spec(tmp_path / "nothing.toml")
    with pytest.raises(InputError, match=r"needs at least one \[\[scenario\]\]"):
        read(tmp_path, 'strategies = ["random"]')
