"""The command line as a person meets it: one clear line for a mistake, exit code 2, and nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from aceirl.cli import app
from aceirl.envs import Problem, make
from aceirl.errors import InputError
from aceirl.runs.result import Result as OneResult

SMALL = ["--set", "arm_length=3", "--set", "horizon=6", "--episodes-per-iteration", "2"]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def aceirl(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_the_command_is_there() -> None:
    """In a process of its own, as a person starts it."""
    ran = subprocess.run(
        [sys.executable, "-m", "aceirl", "run", "four-path"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr == "aceirl: unknown environment 'four-path'; did you mean 'four-paths'?\n"


def test_a_run_from_start_to_pictures(tmp_path: Path) -> None:
    ran = aceirl("run", "four-paths", *SMALL, "--strategy", "advice", "--max-samples", "120", "--out", "r", "--json")
    assert ran.exit_code == 0, ran.stderr
    result = json.loads(ran.stdout.splitlines()[-1])
    assert {"samples", "iterations", "answers", "regret", "stopped", "bound", "seconds"} <= result.keys()
    assert result["stopped"] in ("certificate", "regret", "budget")
    assert 0 <= result["regret"] <= 1
    again = aceirl("resume", "r", "--json")
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[-1]) == result
    shown = aceirl("show", "r")
    assert shown.exit_code == 0, shown.stderr
    for name in ("learning", "bound", "visits", "reward", "policy", "why-here"):
        assert (tmp_path / "r" / "pictures" / f"{name}.svg").stat().st_size > 1000
    page = (tmp_path / "r" / "report.html").read_text()
    assert page.count("data:image/svg+xml") == 6
    assert "http" not in page.replace("http://www.w3.org", "")


def test_what_was_shown_is_shown_again_until_something_changes(tmp_path: Path) -> None:
    assert aceirl("run", "four-paths", *SMALL, "--max-samples", "60", "--certify", "none", "--out", "r").exit_code == 0
    first, picture = aceirl("show", "r").stdout, tmp_path / "r" / "pictures" / "reward.svg"
    drawn = picture.stat().st_mtime_ns
    assert "explains" in first or "wants" in first
    assert aceirl("show", "r").stdout == first
    assert picture.stat().st_mtime_ns == drawn
    picture.write_text("")
    assert aceirl("show", "r").stdout == first
    assert picture.stat().st_size
    picture.unlink()
    assert aceirl("show", "r").stdout == first
    drawn = picture.stat().st_mtime_ns
    assert aceirl("resume", "r", "--max-samples", "120").exit_code == 0
    assert "120 steps" in aceirl("show", "r").stdout
    assert picture.stat().st_mtime_ns > drawn
    (tmp_path / "r" / "shown.json").write_text("[]")
    assert "120 steps" in aceirl("show", "r").stdout


def test_what_parts_of_ones_own_may_change_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine.py").write_text("from aceirl.irl import FeasiblePoint\n\nclass Mine(FeasiblePoint):\n    pass\n")
    small = [*SMALL, "--max-samples", "60", "--certify", "none"]
    for name, part in (("own", "mine.Mine"), ("ours", "feasible-point")):
        run = aceirl("run", "four-paths", *small, "--irl", part, "--out", name)
        assert run.exit_code == 0, run.stderr
        assert aceirl("show", name).exit_code == 0
    assert not (tmp_path / "own" / "shown.json").exists()
    readable = (tmp_path / "ours" / "run.json").stat().st_mode
    assert (tmp_path / "ours" / "shown.json").stat().st_mode == readable


def test_what_changes_while_it_is_drawn_is_shown_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert aceirl("run", "four-paths", *SMALL, "--max-samples", "60", "--certify", "none", "--out", "r").exit_code == 0
    draw = OneResult.draw

    def slowly(self: OneResult) -> list[Path]:
        monkeypatch.setattr(OneResult, "draw", draw)
        drawn = self.draw()
        assert aceirl("resume", "r", "--max-samples", "120").exit_code == 0
        return drawn

    monkeypatch.setattr(OneResult, "draw", slowly)
    assert "60 steps" in aceirl("show", "r").stdout
    assert "120 steps" in aceirl("show", "r").stdout


def test_sentences_come_before_pictures_and_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert aceirl("run", "four-paths", *SMALL, "--max-samples", "60", "--certify", "none", "--out", "r").exit_code == 0

    def broken(self: OneResult) -> list[Path]:
        raise InputError("the disk is full")

    monkeypatch.setattr(OneResult, "draw", broken)
    shown = aceirl("show", "r")
    assert shown.exit_code == 2
    assert "60 steps" in shown.stdout


def problem() -> Problem:
    return make("four-paths", 0, arm_length=3, horizon=6)


def goal_of(truth: Problem) -> str:
    """The name of the place of the largest true reward."""
    return truth.layout.state_names[int(truth.reward.max(axis=(0, 2)).argmax())]


def test_a_run_names_the_goal(tmp_path: Path) -> None:
    ran = aceirl("run", "four-paths", "--out", "r", "--json")
    assert ran.exit_code == 0, ran.stderr
    result = json.loads(ran.stdout.splitlines()[-1])
    goal = goal_of(make("four-paths", 0))
    assert (result["space"], result["goal"]) == ("state", goal)
    assert 0.9 < result["explains"] <= 1
    shown = aceirl("show", "r")
    assert shown.exit_code == 0, shown.stderr
    wanted = f"The expert wants to be in state {goal} (explains "
    assert shown.stdout.startswith(wanted)
    assert wanted in (tmp_path / "r" / "report.html").read_text()


def test_a_reward_that_may_be_anything_names_no_goal() -> None:
    options = ["--reward", "any", "--irl", "max-causal-entropy", "--strategy", "advice", "--max-samples", "60"]
    ran = aceirl("run", "four-paths", *SMALL, *options, "--out", "r", "--json")
    assert ran.exit_code == 0, ran.stderr
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (result["space"], result["goal"], result["explains"]) == (None, None, None)
    shown = aceirl("show", "r")
    assert "wants" not in shown.stdout
    assert shown.stdout.startswith("The recovered reward is largest in ")


def test_features_come_from_a_file(tmp_path: Path) -> None:
    """One feature for each state is the space of states by another name."""
    np.save(tmp_path / "phi.npy", np.eye(13))
    results = []
    for reward in ("state", "features:path=phi.npy"):
        ran = aceirl("run", "four-paths", *SMALL, "--max-samples", "240", "--reward", reward, "--json")
        assert ran.exit_code == 0, ran.stderr
        results.append(json.loads(ran.stdout.splitlines()[-1]))
    by_state, by_features = results
    assert (by_state["space"], by_features["space"]) == ("state", "features")
    assert by_features["goal"] == by_state["goal"] == goal_of(problem())
    assert by_features["explains"] == by_state["explains"]
    shown = aceirl("show", by_features["directory"])
    assert shown.exit_code == 0, shown.stderr
    number = problem().layout.state_names.index(goal_of(problem()))
    assert shown.stdout.startswith(f"The expert's reward is a sum of features, with the weights feature {number}: 1")


def test_features_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "phi.npy", np.eye(12))
    (tmp_path / "phi.txt").write_text("1 0\n0 1\n")
    for path, message in (
        ("phi.npy", "features must be finite, of shape [13, K] or [13, 4, K], got [12, 12]"),
        ("nowhere.npy", "features are not in 'nowhere.npy'"),
        ("phi.txt", "features are not in 'phi.txt'"),
    ):
        ran = aceirl("run", "four-paths", *SMALL, "--reward", f"features:path={path}", "--out", "r")
        assert ran.exit_code == 2
        assert message in ran.stderr
        assert len(ran.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "four-path"], "unknown environment 'four-path'; did you mean 'four-paths'?"),
        (["run", "chain", "--strategy", "advise"], "unknown strategy 'advise'; did you mean 'advice'?"),
        (["run", "chain", "--irl", "max-entropy"], "unknown IRL algorithm 'max-entropy'"),
        (["run", "chain", "--reward", "states"], "did you mean 'state'?"),
        (["run", "chain", "--confidence", "kk"], "unknown confidence family 'kk'"),
        (["run", "chain", "--delta", "1.5"], "delta: input should be less than 1, got 1.5"),
        (["run", "chain", "--epsilon", "-1"], "epsilon: input should be greater than 0, got -1"),
        (["run", "chain", "--max-samples", "0"], "max_samples: input should be greater than or equal to 1, got 0"),
        (["run", "chain", "--set", "lenght=3"], "did you mean 'length'?"),
        (["run", "chain", "--set", "horizon=0"], "horizon"),
        (["run", "chain", "--set", "horizon"], "--set takes name=value"),
        (["resume", "nowhere"], "nowhere is not a run"),
        (["show", "nowhere"], "nowhere is not a run"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    ran = aceirl(*arguments)
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_lists_name_everything() -> None:
    from aceirl.envs import ENVIRONMENTS
    from aceirl.explore import STRATEGIES

    for verb, names in (("envs", ENVIRONMENTS), ("strategies", STRATEGIES)):
        listed = aceirl(verb)
        assert listed.exit_code == 0
        assert all(name in listed.stdout for name in names)


def test_help_and_import_stay_light() -> None:
    """What takes long to load is loaded by the command that needs it, and parts of scipy where they are first used."""
    code = (
        "import sys, aceirl, aceirl.cli; print({'numpy', 'numba', 'scipy', 'matplotlib'} & set(sys.modules))\n"
        "import aceirl.runs.driving; print({f'scipy.{part}' for part in ('optimize', 'sparse', 'special', 'stats')}"
        " & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["set()", "set()"]


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "aceirl.bench.store", raising=False)
    missing = aceirl("reproduce", "table1", "--seeds", "1")
    assert missing.exit_code == 2
    assert missing.stderr == "aceirl: this needs pyarrow: pip install 'aceirl[report]'\n"


def test_the_demo_can_be_given_twice(tmp_path: Path) -> None:
    for _ in range(2):
        shown = aceirl("demo", "--out", "demo")
        assert shown.exit_code == 0, shown.stderr
    assert "Certified" in shown.stdout
    (tmp_path / "demo" / "notes.txt").write_text("mine")
    refused = aceirl("demo", "--out", "demo")
    assert refused.exit_code == 2
    assert "exists and is not empty" in refused.stderr


def test_the_version_is_told() -> None:
    from importlib.metadata import version

    result = CliRunner().invoke(app, ["--version"])
    assert result.output == f"aceirl {version('aceirl')}\n"
    assert result.exit_code == 0
