"""The last screen without its page: what the person wants in words and on maps, what follows from it, and what next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from interviews import FLAG, RIGHT, UP, all_closed, answer, begin, finish, flag_seeker, wants_the_end_of, work_out

from aceirl.experts.tasks import Source
from aceirl.web.driver import Interview, summary
from aceirl.web.environment_view import film, maps
from aceirl.web.history import Accuracy
from aceirl.web.view import view

LAKE = Source("FrozenLake-v1", {}, seed=0, stationary_expert=True)
TAXI = Source("Taxi-v4", {}, seed=0, stationary_expert=True)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interview]:
    """FrozenLake, answered as a person who wants the flag."""
    with all_closed():
        interview = begin(tmp_path_factory.mktemp("lake"), LAKE)
        finish(interview, flag_seeker(interview))
        work_out(interview)
        yield interview


@pytest.fixture(scope="module")
def corridor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interview]:
    """Four Paths, answered as a person who wants the end of one, until a small loss is certain."""
    with all_closed():
        interview = begin(tmp_path_factory.mktemp("corridor"), accuracy=Accuracy(epsilon=0.01))
        finish(interview, wants_the_end_of(UP))
        work_out(interview)
        yield interview


def test_who_answered_little_is_told_that_the_answers_do_not_tell(lake: Interview) -> None:
    outcome = view(lake)["outcome"]
    assert outcome["lines"][0] == "The answers do not tell what you want: too many wishes predict them as well."
    assert not any("expert" in line for line in outcome["lines"])


def test_who_answered_longer_is_told_one_of_two(corridor: Interview) -> None:
    first = view(corridor)["outcome"]["lines"][0]
    ends = "the upper corridor, cell 10 or the upper corridor, cell 9"
    assert first == f"You seem to want to be in {ends}: which, the answers do not tell."
    wish = summary(corridor)["wish"]
    assert (wish["kind"], wish["sentence"]) == ("set", first)
    assert [one["name"] for one in wish["named"]] == ["the upper corridor, cell 10", "the upper corridor, cell 9"]
    assert sum(one["probability"] for one in wish["named"]) >= 0.95


def test_the_flag_is_worth_most_and_ends_are_told_apart(lake: Interview) -> None:
    places = view(lake)["outcome"]["places"]
    ends = {place["name"]: place for place in places if "end" in place and place["name"] != "nowhere"}
    assert {name: place["end"] for name, place in ends.items()} == {
        name: "flag" if name == FLAG else "hole" for name in ends
    }
    assert len(ends) == 5
    flag = ends.pop(FLAG)
    assert flag["reward"] == 1.0
    assert all(place["reward"] < 0.5 for place in places if place is not flag)
    assert all(hole["reward"] == 0.0 for hole in ends.values())


def test_every_answer_is_listed_with_whether_it_is_explained(lake: Interview) -> None:
    found = view(lake)["outcome"]["explained"]
    names = [action.name for action in lake.view.actions]
    given = {lake.view.name(state): names[action] for state, action in lake.history.known().items()}
    assert {row["name"]: row["action"] for row in found["rows"]} == given
    verdicts = [row["explained"] for row in found["rows"]]
    compared = [verdict for verdict in verdicts if verdict is not None]
    assert f" in {sum(compared)} of {len(compared)} situations." in found["words"]
    assert verdicts == sorted(verdicts, key=(False, True, None).index), "what is not explained comes first"


def test_what_the_answers_leave_open_is_said_and_marked(lake: Interview, tmp_path: Path) -> None:
    outcome = view(lake)["outcome"]
    assert outcome["open"] == [], "where no goal is named, nothing is beside it"
    assert len([place for place in outcome["places"] if place["open"] and place["name"] != FLAG]) > 1
    with all_closed():
        interview = begin(tmp_path, Source("gridworld", {}, seed=0, stationary_expert=True))
        answer(interview, lambda state: RIGHT)
        while interview.phase != "done":
            interview.skip(interview.turn)
            interview.walk_on(10)
        work_out(interview)
        assert view(interview)["outcome"]["open"][-1].startswith("You did not say what you would do in cell ")


def test_the_next_steps_name_the_folder_and_work_for_the_environment(lake: Interview, tmp_path: Path) -> None:
    steps = [step["code"] for step in view(lake)["outcome"]["next"]]
    folder = shlex.quote(str(lake.folder))
    assert f"aceirl export {folder}" in steps
    assert f"aceirl transfer {folder} --start uniform" in steps
    assert f"aceirl interview FrozenLake-v1 --out {folder}" in steps
    (program,) = (step for step in steps if "\n" in step)
    compile(program, "program", "exec")
    assert repr(str(lake.folder)) in program
    with all_closed():
        source = Source("four-paths", {"max_failure": 1.0}, seed=3, stationary_expert=True)
        path = tmp_path / "my interview"
        interview = begin(path, source, Accuracy(epsilon=0.3))
        finish(interview, wants_the_end_of(UP))
        work_out(interview)
        outcome = view(interview)["outcome"]
        again = (
            f"aceirl interview four-paths --out {shlex.quote(str(path))} --set max_failure=1.0 --seed 3 --epsilon 0.3"
        )
        codes = [step["code"] for step in outcome["next"]]
        assert again in codes
        assert not any("export" in code or "gymnasium" in code for code in codes), "it is not a Gymnasium environment"
        assert not any("end" in place for place in outcome["places"])


DRY = Source("FrozenLake-v1", {"is_slippery": False}, seed=0)
SURE = Source("four-paths", {"max_failure": 0.0}, seed=0)


@pytest.mark.parametrize(
    ("source", "action", "steps", "how"),
    [
        (DRY, 1, 3, "the episode ended: the hole in row 4, column 1."),
        (DRY, 0, 100, "the time was up, in row 1, column 1."),
        (SURE, UP, 20, "the time was up, in the upper corridor, cell 10."),
    ],
)
def test_a_film_says_how_its_episode_ended(source: Source, action: int, steps: int, how: str) -> None:
    frames = film(source, np.random.default_rng(0), np.full((100, 100), action), ())
    assert frames[-1]["ending"] == f"After {steps} steps {how}"
    assert frames[-1]["step"] == steps, "the last picture is that of the end"
    assert len(frames) == min(60, steps + 1)
    assert not any("ending" in frame for frame in frames[:-1])


def test_a_map_has_the_picture_of_the_environment_and_all_its_places(lake: Interview) -> None:
    assert lake.learned is not None
    (panel,) = maps(LAKE, lake.learned.names)
    assert panel["picture"].startswith("data:image/png;base64,")
    left, right, bottom, top = panel["box"]
    assert (right - left, top - bottom) == (4, 4)
    where = {lake.view.name(state): (x - left, top - y) for state, x, y in panel["places"]}
    assert where[FLAG] == pytest.approx((3.5, 3.5))
    assert len(where) == 16
    (bare,) = maps(Source("gridworld", {}, seed=0), ())
    assert (bare["picture"], len(bare["places"])) == (None, 9)


def test_every_panel_of_taxi_is_there(tmp_path: Path) -> None:
    with all_closed():
        interview = begin(tmp_path, TAXI)
        for _ in range(12):
            answer(interview, lambda state: state % 4)
        found = maps(TAXI, interview.engine.access.names)
        shown = {cell.panel for s in range(1, interview.environment.n_states) if (cell := interview.view.map_cell(s))}
        assert {panel["title"].lower() for panel in found} == shown
        assert len(found) > 1
        placed = sorted(state for panel in found for state, _, _ in panel["places"])
        assert placed == list(range(1, interview.environment.n_states)), "each state is on one panel"
