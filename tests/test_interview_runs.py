"""The folder of an interview is a run: it can be shown, exported, transferred and resumed, and be an expert."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from interviews import FOUR_PATHS, GRIDWORLD, UP, Person, all_closed, answer, begin, finish, here, wants_the_end_of
from interviews import work_out as finish_off
from typer.testing import CliRunner

import aceirl
from aceirl.cli import app
from aceirl.errors import InputError
from aceirl.experts.tasks import Source, open_task
from aceirl.runs import Run
from aceirl.runs.result import opened
from aceirl.web.driver import ANSWERS, Interview, summary
from aceirl.web.history import Accuracy
from aceirl.web.view import view

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

LAKE = Source("FrozenLake-v1", {"is_slippery": False}, seed=0, stationary_expert=True)
UPWARD = wants_the_end_of(UP)
DOWN, RIGHT = 1, 2
# Of the sixteen cells, in rows of four: what someone does who wants the flag in the last one and no hole on the way.
TO_THE_FLAG = [DOWN, RIGHT, DOWN, 0, DOWN, 0, DOWN, 0, RIGHT, DOWN, DOWN, 0, 0, RIGHT, RIGHT, 0]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    with all_closed():
        yield


@pytest.fixture(scope="module", params=["lake", "paths"])
def interview(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Interview:
    return interviewed(tmp_path_factory.mktemp("interviews") / request.param)


def interviewed(folder: Path) -> Interview:
    """An interview that is over: on the lake someone wants the flag, on Four Paths the end of the upper arm."""
    begun = begin(folder, LAKE if folder.name == "lake" else FOUR_PATHS)
    finish(begun, person_of(begun))
    finish_off(begun)
    return begun


def person_of(begun: Interview) -> Person:
    if begun.source.environment == "four-paths":
        return UPWARD
    return lambda state: TO_THE_FLAG[begun.view.environment.observation(state)]  # type: ignore[attr-defined]


def on_the_command_line(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_finished_interview_is_a_run_that_says_the_same(interview: Interview) -> None:
    learned, run = interview.learned, Run.open(interview.folder)
    assert learned is not None
    (record,) = run.records()
    assert record.stopped == "certificate"
    assert (record.samples, record.answers) == (interview.history.samples, interview.history.answers)
    found = opened(run)
    np.testing.assert_array_equal(found.turn.policy, learned.policy)
    np.testing.assert_array_equal(found.turn.belief.recovered.reward, learned.belief.recovered.reward)
    promise = found.turn.certificate("policy")
    assert promise.holds
    assert promise.value == pytest.approx(interview.certified_share * interview.environment.horizon)


def test_show_says_what_the_answers_tell_wherever_the_folder_lies(
    interview: Interview, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(interview.folder, moved)
    monkeypatch.chdir(tmp_path)
    source = Run.open("moved").source
    assert source is not None
    assert source.expert == "moved"
    code, out, error = on_the_command_line("show", "moved")
    assert (code, error) == (0, "")
    first = out.splitlines()[0]
    assert first.startswith("The answers do not tell what the expert wants: a habit (the same action everywhere) ")
    goal = "u10" if interview.source.environment == "four-paths" else "row 4, column 4"
    found = opened(Run.open("moved"))
    assert found.explanation is not None
    assert [goal in found.names[place] for place in found.explanation.goals] == [True], "the reward pays for it"
    assert "It stopped because the certificate that was asked for holds." in out
    assert "true reward" not in out, "what the environment pays is not what a person wants"
    assert (moved / "pictures" / "policy.svg").exists()


def test_show_goes_by_what_the_person_said_at_the_ending(tmp_path: Path) -> None:
    lake, paths = interviewed(tmp_path / "lake"), interviewed(tmp_path / "paths")
    for begun, name, said in (
        (lake, "the flag in row 4, column 4", "The expert says that the goal is to reach the flag in row 4, column 4"),
        (paths, "the upper corridor, cell 10", "The expert says that the goal is to be in state u10"),
    ):
        place = next(s for s in range(begun.environment.n_states) if begun.view.name(s) == name)
        begun.verdict(begun.turn, "nearly", "wants", place)
        finish_off(begun)
        told = begun.history.told
        code, out, error = on_the_command_line("show", begun.folder)
        assert (code, error) == (0, "")
        assert out.splitlines()[0] == f"{said}, and the answers agree."
        assert "are among the best for it, far more than by chance." in out.splitlines()[1]
        assert list(Run.open(begun.folder).told) == told
        begun.undo(begun.turn)
        finish_off(begun)
        assert Run.open(begun.folder).told == ()
        assert on_the_command_line("show", begun.folder)[1].startswith("The answers do not tell what the expert wants")


def test_export_writes_the_reward_and_leaves_the_log_and_the_demonstrations_as_they_are(interview: Interview) -> None:
    kept = {name: (interview.folder / name).read_bytes() for name in (ANSWERS, "demonstrations.jsonl")}
    code, out, error = on_the_command_line("export", interview.folder)
    assert (code, error) == (0, "")
    assert [Path(line).name for line in out.splitlines()] == ["reward.csv", "demonstrations.jsonl"]
    assert {name: (interview.folder / name).read_bytes() for name in kept} == kept
    with (interview.folder / "reward.csv").open() as file:
        rows = list(csv.DictReader(file))
    best = max(rows, key=lambda row: float(row["reward"]))
    assert (best.get("state") or best["observation"]) == ("u10" if "state" in best else "15")


def test_transfer_plans_with_what_the_person_wants(interview: Interview) -> None:
    elsewhere = {"four-paths": ["--start", "d3"], "FrozenLake-v1": ["--set", "is_slippery=true"]}
    code, out, error = on_the_command_line("transfer", interview.folder, *elsewhere[interview.source.environment])
    assert (code, error) == (0, "")
    code, out, _ = on_the_command_line("transfer", interview.folder, "--json")
    assert code == 0
    assert json.loads(out)["regret"] is None, "there is no truth to compare with"


def test_a_finished_interview_is_loaded_and_asked_for_another_reward(interview: Interview, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(interview.folder, moved)
    result = aceirl.load(moved)
    assert result.stopped in ("certificate", "questions")
    assert result.in_words().splitlines()[0] in on_the_command_line("show", moved)[1]
    code, out, error = on_the_command_line("resume", moved, "--reward", "state-action", "--json")
    assert code == 0, error
    told = json.loads(out.splitlines()[-1])
    assert (told["space"], told["samples"], told["answers"]) == ("state-action", result.samples, result.answers)
    if os.name == "posix":
        for name in ("run.json", "state.npz", "records.jsonl", "environment.npz"):
            assert (moved / name).stat().st_mode & 0o077 == 0, "only its owner can read it"


def test_resuming_a_finished_interview_says_what_came_out(interview: Interview) -> None:
    before = (interview.folder / "state.npz").read_bytes()
    code, out, _ = on_the_command_line("resume", interview.folder, "--json")
    assert code == 0
    assert json.loads(out)["answers"] == interview.history.answers
    assert (interview.folder / "state.npz").read_bytes() == before


def test_the_person_can_be_the_expert_of_another_run(interview: Interview, tmp_path: Path) -> None:
    own = interview.source.environment == "four-paths"
    options = [] if own else ["--set", "is_slippery=false"]
    code, out, error = on_the_command_line(
        "run", interview.source.environment, *options, "--expert", interview.folder, "--max-samples", 4000,
        "--episodes-per-iteration", 5, "--seed", 0, "--out", tmp_path / "again", "--json",
    )  # fmt: skip
    assert (code, error) == (0, "")
    assert json.loads(out)["goal"] == ("u10" if own else "the flag in row 4, column 4")
    assert json.loads(out)["regret"] is None
    found = opened(Run.open(tmp_path / "again"))
    assert found.task is not None
    assert found.task.expert.stationary
    known = dict(summary(interview)["answers_by_state"])
    answered = np.flatnonzero(found.turn.counts.answers.any(axis=(0, 2)))
    assert 0 < len(answered) <= len(known), "where the person said nothing, the expert says nothing"
    if own:
        assert all(found.turn.policy[0, state] == UPWARD(int(state)) for state in answered)
    assert on_the_command_line("resume", tmp_path / "again")[0] == 0


@pytest.mark.parametrize("command", ["resume", "show", "export", "transfer"])
def test_an_unfinished_interview_says_which_command_goes_on_with_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = Source("FrozenLake-v1", {"is_slippery": False, "map_name": "4x4"}, 3, stationary_expert=True, horizon=20)
    begun = begin(Path("my lake"), source, Accuracy(epsilon=0.2))
    answer(begun, lambda state: RIGHT)
    code, _, error = on_the_command_line(command, "my lake")
    assert code == 2
    assert error.strip() == (
        "aceirl: the interview in my lake is not finished; go on with: aceirl interview FrozenLake-v1 --set "
        "is_slippery=false --set 'map_name=\"4x4\"' --epsilon 0.2 --horizon 20 --seed 3 --out 'my lake'"
    )
    (tmp_path / "my lake" / "interview.json").write_text("{")
    assert "interview.json cannot be read" in on_the_command_line(command, "my lake")[2]


def test_what_was_taken_back_is_no_run_any_more(tmp_path: Path) -> None:
    begun = interviewed(tmp_path / "paths")
    begun.undo(begun.turn)
    for arguments in (["show", begun.folder], ["run", "four-paths", "--expert", begun.folder]):
        code, _, error = on_the_command_line(*arguments)
        assert code == 2
        assert "finished" in error
    answer(begun, UPWARD)
    finish(begun, UPWARD)
    finish_off(begun)
    assert on_the_command_line("show", begun.folder)[0] == 0


def test_answers_name_states_and_actions_and_say_when_they_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("aceirl.web.driver.time.monotonic", lambda: clock[0])
    begun = begin(tmp_path, LAKE)
    person = person_of(begun)
    answer(begun, person)
    begun.question_shown()
    clock[0] += 2.5
    begun.question_shown()
    clock[0] += 1.25
    answer(begun, person)
    finish(begun, person)
    finish_off(begun)
    said = [event for event in lines(tmp_path / ANSWERS) if event["event"] == "answer"]
    assert [event["seconds"] for event in said[:3]] == [None, 3.75, None], "only what was shown has a beginning"
    for event in [*said, *lines(tmp_path / "demonstrations.jsonl")]:
        when = datetime.fromisoformat(str(event["time"]))
        assert when.utcoffset() == timedelta(0)
        assert abs(datetime.now(UTC) - when) < timedelta(minutes=5)
        assert str(event["state_name"]).startswith("row ")
        assert event["action_name"] in ("left", "down", "right", "up")
    first = lines(tmp_path / "demonstrations.jsonl")[0]
    assert (first["observation"], first["action"], first["action_name"]) == (0, DOWN, "down")
    assert first["state_name"] == "row 1, column 1"


def test_what_was_contradicted_is_not_certified_by_the_run_either(tmp_path: Path) -> None:
    begun = begin(tmp_path)
    asked: set[int] = set()

    def careless(state: int) -> int:
        again = state in asked
        asked.add(state)
        return (UPWARD(state) + again) % 4

    finish(begun, careless)
    finish_off(begun)
    (state, *_) = begun.history.contradictory()
    run = Run.open(tmp_path)
    assert run.records()[-1].stopped == "questions"
    found = opened(run)
    assert not found.turn.certificate("policy").holds
    assert found.turn.counts.contradicted[state]
    code, out, _ = on_the_command_line("show", tmp_path)
    assert code == 0
    assert "nothing was left to ask" in out
    assert "Asked again, the expert gave another answer" in out
    for state, votes in begun.history.contradictory().items():
        begun.correct(begun.turn, state, votes.votes[0])
    begun.walk_on(10)
    finish(begun, UPWARD)
    finish_off(begun)
    found = opened(Run.open(tmp_path))
    assert found.turn.certificate("policy").holds == begun.certified
    for state, action in begun.history.known().items():
        assert (found.turn.policy[:, state] == action).all()


def test_someone_who_never_knew_leaves_a_run_without_answers(tmp_path: Path) -> None:
    begun = begin(tmp_path, GRIDWORLD)
    while begun.phase != "done":
        here(begun)
        begun.skip(begun.turn)
        begun.walk_on(10)
    finish_off(begun)
    code, out, error = on_the_command_line("show", tmp_path)
    assert (code, error) == (0, "")
    assert "The expert gave no answer" in out


def test_an_interview_in_another_environment_is_no_expert_here(tmp_path: Path) -> None:
    paths = interviewed(tmp_path / "paths").folder
    with pytest.raises(InputError, match="'c' is not a state of this environment"):
        open_task(replace(GRIDWORLD, expert=str(paths)))
    with pytest.raises(InputError, match="'c' is not in Discrete"):
        open_task(replace(LAKE, expert=str(paths)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no demonstrations\.jsonl"):
        open_task(replace(LAKE, expert=str(tmp_path / "empty")))


def test_a_run_of_ours_can_be_exported_and_replayed(tmp_path: Path) -> None:
    for arguments in (
        ["run", "chain", "--max-samples", 300, "--out", tmp_path / "chain"],
        ["export", tmp_path / "chain"],
        ["run", "chain", "--expert", tmp_path / "chain", "--max-samples", 300, "--out", tmp_path / "again"],
    ):
        code, _, error = on_the_command_line(*arguments)
        assert (code, error) == (0, "")
    first, second = opened(Run.open(tmp_path / "chain")), opened(Run.open(tmp_path / "again"))
    both = first.turn.counts.answers.any(axis=2) & second.turn.counts.answers.any(axis=2)
    assert both.any()
    np.testing.assert_array_equal(
        first.turn.counts.answers.argmax(axis=2)[both], second.turn.counts.answers.argmax(axis=2)[both]
    )


def test_the_page_says_that_it_is_over_when_the_run_is_there(tmp_path: Path) -> None:
    begun = interviewed(tmp_path / "paths")
    assert view(begun)["phase"] == "done"
    assert set(begun.files()) == {
        "interview.json", ANSWERS, "demonstrations.jsonl", "run.json", "records.jsonl", "state.npz", "result.json",
    }  # fmt: skip
