"""`aceirl data` and `aceirl estimate`: from files to published figures, words, intervals and counterfactuals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import aceirl
from aceirl.bench import reproductions
from aceirl.cli import app
from aceirl.data.catalogue import SETS
from aceirl.errors import InputError
from aceirl.rewards.expressions import evaluate, read_feature
from aceirl.runs.estimating import EstimatedReward

BUSES = SETS["rust-bus"].path("group4.csv")


def said(*words: str, code: int = 0) -> str:
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == code, ran.output
    return ran.output


@pytest.fixture(scope="module")
def rust() -> EstimatedReward:
    return reproductions.rust_bus()


def test_the_published_figures_are_on_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(self: Any, draws: int = 0, **_: Any) -> np.ndarray:
        return np.zeros((2, 2))

    monkeypatch.setattr("aceirl.irl.structural.StructuralEstimate.bootstrap", quick)  # the only slow part
    figures = json.loads(said("data", "reproduce", "rust-bus", "--json").splitlines()[-1])
    assert figures["RC"] == pytest.approx(10.075, abs=0.005)
    assert figures["theta"] == pytest.approx(2.293, abs=0.001)
    assert figures["log_likelihood"] == pytest.approx(-163.584, abs=0.001)
    assert figures["RC_se"] == pytest.approx(1.582, abs=0.001)
    assert figures["theta_se"] == pytest.approx(0.639, abs=0.001)


def test_a_word_without_quotes_is_told_apart_from_a_name() -> None:
    columns = {"patch": np.array([["rich"], ["poor"]]), "act": np.array([["move", "stay"]])}
    np.testing.assert_array_equal(evaluate("patch=='rich' and act=='move'", columns), [[1, 0], [0, 0]])
    with pytest.raises(InputError, match="'move' is a value of act: in a feature it has quotes, act=='move'"):
        evaluate("act==move", columns)


def test_every_set_says_its_licence_and_what_it_does_not_tell(tmp_path: Path) -> None:
    assert set(json.loads(said("data", "list", "--json"))) == set(SETS) == set(reproductions.REPRODUCTIONS)
    for name in SETS:
        assert name in said("data", "list")
        shown = said("data", "show", name)
        assert "licence: " in shown
        assert "does not tell: " in shown
    written = json.loads(said("data", "fetch", "rust-bus", "--out", str(tmp_path), "--json"))["files"]
    assert Path(written[0]).read_bytes() == BUSES.read_bytes()
    assert any("LICENSE" in one for one in written), "the licence travels with the data"
    assert "unknown data set 'rust-buss'; did you mean 'rust-bus'?" in said("data", "show", "rust-buss", code=2)
    assert "needs the name of a data set" in said("data", "fetch", code=2)


def test_sepsis_comes_with_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aceirl.data.catalogue.find_spec", lambda name: None)
    assert "pip install icu-sepsis" in said("data", "reproduce", "icu-sepsis", code=2)


def test_the_values_of_sepsis_are_those_of_value_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one of the same form: two wards, death, survival, and what follows."""
    transitions = np.zeros((5, 2, 5))
    transitions[0, 0, [1, 2]] = 0.5
    transitions[0, 1, [2, 3]] = [0.4, 0.6]
    transitions[1, 0, [0, 3]] = [0.2, 0.8]
    transitions[2:, :, 4] = 1
    reward = np.zeros((5, 2, 5))
    reward[:2, :, 3] = 1.0
    policy = np.array([[0.5, 0.5], [1, 0], [1, 0], [1, 0], [1, 0]])
    parts = {"transitions": transitions, "policy": policy, "reward": reward, "initial": np.eye(5)[0]}
    monkeypatch.setattr(reproductions, "sepsis_arrays", lambda: parts)
    monkeypatch.setattr(reproductions, "SEPSIS_ENDS", 2)
    v, best = np.zeros(5), np.zeros(5)
    for _ in range(200):
        q = (transitions * reward).sum(axis=2) + transitions @ v
        v[:2] = (policy * q).sum(axis=1)[:2]
        q = (transitions * reward).sum(axis=2) + transitions @ best
        best[:2] = np.array([q[0].max(), q[1, 0]])
    found = reproductions.sepsis_values()
    assert found["clinicians"] == pytest.approx(v[0])
    assert found["optimal"] == pytest.approx(best[0])
    patients = reproductions.sepsis_panel(400)
    assert set(patients.state) == {0, 1}, "nothing is decided after the end"
    went = patients.action[patients.state == 0]
    assert went.mean() == pytest.approx(0.5, abs=0.06)


ARGUMENTS = [
    *("--state", "bin", "--action", "replaced", "--individual", "bus", "--time", "month", "--states", "90"),
    *("--dynamics", "increments", "--renews", "1", "--increments", "usage", "--skip", "1", "--discount", "0.9999"),
]
FEATURES = ["--features", "RC=-(replaced==1)", "--features", "theta=-0.001*bin*(replaced==0)"]


def test_a_new_user_gets_from_a_file_to_a_sentence_intervals_and_a_counterfactual(tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    shutil.copyfile(BUSES, mine)
    picture = tmp_path / "choices.png"
    words = said("estimate", str(mine), *ARGUMENTS, *FEATURES, "--change", "RC*0.8", "--plot", str(picture))
    assert "4,292 decisions of 37 individuals" in words
    assert "RC is positive: 10.07, 90 % interval 7.85" in words
    assert "It predicts better than a habit (95 % sure)" in words
    assert "Decisions never identify the level of the reward" in words
    assert "With RC*0.8, shares of decisions in the long run" in words
    assert picture.read_bytes()[:4] == b"\x89PNG"
    told = json.loads(said("estimate", str(mine), *ARGUMENTS, *FEATURES, "--change", "discount=0.99", "--json"))
    assert told["parameters"]["RC"] == pytest.approx(10.075, abs=0.005)
    low, high = told["counterfactual"]["1"]["interval"]
    assert low < told["counterfactual"]["1"]["share"] < high


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--change", "RC"], "a change is NAME"),
        (["--change", "RD*2"], "unknown parameter 'RD'"),
        (["--features", "x=bin*wheels"], "unknown name in a feature 'wheels'"),
        (["--features", "bin"], "a feature is written name=expression"),
        (["--state", "bins"], "unknown column"),
    ],
)
def test_wrong_words_end_with_one_line(words: list[str], message: str) -> None:
    assert message in said("estimate", str(BUSES), *ARGUMENTS, *FEATURES, *words, code=2)


def test_the_same_in_python_with_functions_and_arrays(rust: EstimatedReward) -> None:
    by_function = aceirl.estimate(
        BUSES, state="bin", action="replaced", individual="bus", time="month", n_states=90, discount=0.9999, skip=1,
        features={"RC": lambda s, a: -float(a == 1), "theta": np.outer(np.arange(90), [-0.001, 0])},
        dynamics=rust.dynamics,
    )  # fmt: skip
    assert by_function.parameters == pytest.approx(rust.parameters)
    assert by_function.standard_errors["RC"] == pytest.approx(1.351, abs=0.001)


def test_demand_falls_with_the_price_and_can_be_drawn(rust: EstimatedReward) -> None:
    share, ends = rust.demand("RC", [0.8, 1.0, 1.2], 1)
    assert share[0] > share[1] > share[2]
    assert (ends[:, 0] < share).all()
    assert (share < ends[:, 1]).all()
    for figure in (rust.plot(), rust.plot(parameter="RC", action=1)):
        assert figure.axes[0].lines


def panel(rows: int, seed: int) -> dict[str, list[Any]]:
    """Somebody who stays or goes at random, with no wish."""
    rng = np.random.default_rng(seed)
    spot, who = rng.integers(3, size=rows), np.repeat(np.arange(rows // 20), 20)
    return {"spot": spot.tolist(), "went": rng.integers(2, size=rows).tolist(), "who": who.tolist()}


def test_a_habit_that_predicts_as_well_is_said() -> None:
    found = aceirl.estimate(
        panel(400, 0),
        state="spot",
        action="went",
        individual="who",
        features=["likes=(spot==2)*(went==1)"],
        discount=0.5,
    )
    words = found.in_words()
    assert "likes may be positive or negative" in words
    assert "not clearly better than a habit, so the data do not tell what is wanted" in words


def test_an_action_that_was_never_taken_claims_nothing() -> None:
    table = {**panel(200, 1), "went": [0] * 200}
    found = aceirl.estimate(
        table, state="spot", action="went", individual="who", features=["likes=went==1"], discount=0.5,
        dynamics=np.full((3, 2, 3), 1 / 3), n_actions=2,
    )  # fmt: skip
    assert "there is no estimate" in found.in_words()


def test_what_is_not_identified_is_in_the_words() -> None:
    found = aceirl.estimate(
        panel(400, 2), state="spot", action="went", individual="who", discount=0.5,
        features={"went": "went", "level": "1"},
    )  # fmt: skip
    assert "level is not identified by the decisions." in found.in_words()
    assert found.to_json()["standard_errors"]["level"] is None


def test_a_state_that_is_never_left_is_no_end_by_itself() -> None:
    table = {"s": [0, 1, 0, 2], "a": [0, 1, 1, None]}
    with pytest.raises(InputError, match="the state 2 is entered, and no row says what happens there"):
        aceirl.estimate(table, state="s", action="a", features=["x=a"], discount=0.9)
    ended = {"s": [0, 1, 0, 1], "a": [0, 1, 1, 0], "over": [0, 1, 0, 1]}
    found = aceirl.estimate(ended, state="s", action="a", features=["x=a"], discount=0.9, terminated="over")
    assert found.estimate.policy[2].sum() == 0, "nothing is chosen after the end"


def test_a_process_that_ends_has_shares_in_the_recorded_states(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [(who, s, int(rng.random() < 0.3 + 0.3 * s), int(s == 1)) for who in range(60) for s in (0, 1)]
    mine = tmp_path / "mine.csv"
    mine.write_text("who,s,a,over\n" + "\n".join(",".join(map(str, row)) for row in rows))
    words = ["--state", "s", "--action", "a", "--individual", "who", "--terminated", "over", "--discount", "0.9"]
    told = said("estimate", str(mine), *words, "--features", "late=a*s", "--features", "cost=-a", "--change", "late*2")
    assert "shares of decisions in the recorded states" in told
    found = aceirl.estimate(
        mine, state="s", action="a", individual="who", terminated="over", discount=0.9, features=["late=a*s", "cost=-a"]
    )
    share, ends = found.counterfactual().shares(found.estimate.counts.sum(axis=1))
    np.testing.assert_allclose(share, found.estimate.counts.sum(axis=0) / 120, atol=1e-6)  # a logit matches shares
    assert (ends[:, 0] < share).all()


def test_expressions_are_arithmetic_and_nothing_else() -> None:
    values = {"bin": np.arange(3)[:, None], "kind": np.array(["a", "b"])[None, :]}
    squares = np.array([[0, 0], [0, -0.5], [0, -2]])
    np.testing.assert_allclose(evaluate("-0.5*bin**2*(kind == 'b')", values), squares)
    np.testing.assert_array_equal(evaluate("bin >= 1 and not kind == 'a'", values), [[0, 0], [0, 1], [0, 1]])
    np.testing.assert_allclose(evaluate("max(bin, 1) + sqrt(4)", values)[:, 0], [3, 3, 4])
    assert read_feature("RC=-(a==1)") == ("RC", "-(a==1)")
    for bad in ("__import__('os')", "bin.shape", "[1]", "bin(", "log(bin)", "kind + 1"):
        with pytest.raises(InputError):
            evaluate(bad, values)
