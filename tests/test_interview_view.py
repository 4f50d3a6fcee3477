"""The last screen without its page: what the person wants in words and on maps, what follows from it, and what next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from interviews import (
    FLAG,
    RIGHT,
    UP,
    Person,
    all_closed,
    answer,
    begin,
    finish,
    flag_seeker,
    here,
    on_the_lake,
    wants_the_end_of,
    work_out,
)

from aceirl.envs.description import Features
from aceirl.errors import InputError
from aceirl.experts.tasks import Source
from aceirl.explain.goal import explained_answers
from aceirl.explain.listing import YOU
from aceirl.explain.wish import Statement, said_wish
from aceirl.rewards.hypotheses import Claim, agreement
from aceirl.rewards.hypotheses.wish import Named
from aceirl.web.driver import Interview, StaleError, summary
from aceirl.web.ending import NamedStates, grouped
from aceirl.web.environment_view import film, maps
from aceirl.web.history import Accuracy, History
from aceirl.web.view import about, view

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
    wish = outcome["wish"]
    assert (wish["headline"], wish["why"]) == (
        "I cannot tell yet what you want.",
        "Your answers: too many simple rewards predict them equally well.",
    )
    assert wish["rivals"][0]["words"] == f"Get to {FLAG}"
    assert not any("expert" in line for line in outcome["lines"])


def test_who_always_went_one_way_is_told_that_it_may_be_a_habit(corridor: Interview) -> None:
    """The end of the corridor comes first among what may be chosen, and is not named."""
    shown = view(corridor)["outcome"]["wish"]
    assert (shown["kind"], shown["headline"]) == ("open", "I cannot tell yet what you want.")
    assert shown["why"].startswith("Your answers: a habit (the same action everywhere) predicts the 18 that can be")
    assert [one["name"] for one in shown["rivals"]][:2] == ["the upper corridor, cell 10", "the upper corridor, cell 9"]
    assert summary(corridor)["wish"]["named"] == []


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


def test_what_is_not_explained_is_told_together_by_what_was_said(lake: Interview) -> None:
    assert lake.learned is not None
    assert lake.ending is not None
    found = view(lake)["outcome"]["explained"]
    compared = explained_answers(lake.learned)
    assert f" in {sum(compared.values())} of {len(compared)} situations." in found["words"]
    known = lake.history.known()
    states = [state for state, action in known.items() if action == UP][:2]
    ending = replace(lake.ending, explained=dict.fromkeys(compared, True) | dict.fromkeys(states, False))
    with patch.object(lake, "ending", ending):
        (row,) = view(lake)["outcome"]["explained"]["rows"]
    assert (row["action"], row["count"]) == (lake.view.actions[UP].name, 2)
    assert all(lake.view.name(state).split(", ")[0] in row["where"] for state in states)


def test_what_the_agent_does_is_told_in_groups_that_are_true(lake: Interview) -> None:
    """Every group covers what it says, by the features alone, and together they cover all answers."""
    known, names = lake.history.known(), [action.name for action in lake.view.actions]
    told = list(grouped(known, lake.named()))
    assert sum(group.count - group.otherwise for group in told) >= len(known)
    for group in told:
        assert any(group.action == names[action] for action in known.values())
    hands: dict[int, Features] = {state: {"your hand": 4 + state, "usable ace": "no"} for state in range(18)}
    said = {state: int(hands[state]["your hand"] < 17) for state in hands}  # type: ignore[operator]
    named = NamedStates([f"hand {4 + state}" for state in hands], ["stick", "hit"], said, hands)
    assert [(one.action, one.words, one.count) for one in grouped(said, named)] == [
        ("stick", "your hand 17 or more", 5),
        ("hit", "your hand 16 or less", 13),
    ]


def test_what_has_no_features_is_told_by_name() -> None:
    named = NamedStates(["a", "b", "c"], ["go", "stay"], {0: 0, 1: 1, 2: 0}, {})
    assert [(one.action, one.words) for one in grouped(named.said, named)] == [("go", "a, c"), ("stay", "b")]


def test_what_the_person_says_to_the_ending_is_evidence_and_can_be_taken_back(tmp_path: Path) -> None:
    with all_closed():
        interview = begin(tmp_path, LAKE)
        finish(interview, flag_seeker(interview))
        with pytest.raises(StaleError):
            interview.verdict(interview.turn, "yes")
        work_out(interview)
        before = view(interview)["outcome"]["wish"]
        flag = before["rivals"][0]["where"]
        samples = interview.history.samples, interview.certified_share
        interview.verdict(interview.turn, "nearly", "wants", flag)
        work_out(interview)
        after = view(interview)["outcome"]["wish"]
        said = f"You say that you want to reach {FLAG}, and your answers agree."
        assert (after["kind"], after["headline"]) == ("stated", said)
        assert after["why"].startswith("11 of the 11 that can be compared are among the best for it")
        assert after["verdict"] == f"You said: get to {FLAG}."
        assert (interview.history.samples, interview.certified_share) == samples, "it is evidence of nothing else"
        (kept,) = json.loads((tmp_path / "result.json").read_text())["verdicts"]
        assert (kept["verdict"], kept["state_name"]) == ("nearly", FLAG)
        interview.verdict(interview.turn, "no")
        work_out(interview)
        denied = view(interview)["outcome"]["wish"]
        assert denied["verdict"] == "You said: no."
        for _ in range(2):
            interview.undo(interview.turn)
            work_out(interview)
        assert view(interview)["outcome"]["wish"] == before
        interview.close()
        again = Interview.open(tmp_path, LAKE, Accuracy())
        assert again.history.verdicts == []
        again.close()


@pytest.mark.parametrize(
    ("what", "where", "said"),
    [("wants", None, "what must be"), ("likes", 3, "what must be"), ("wants", 99, "where must")],
)
def test_a_verdict_that_makes_no_sense_is_refused_in_words(
    lake: Interview, what: str, where: int | None, said: str
) -> None:
    turn = lake.turn
    with pytest.raises(InputError, match=said):
        lake.verdict(turn, "no", what, where)
    assert lake.turn == turn


def test_answers_agree_with_what_a_person_says_or_speak_against_it(tmp_path: Path) -> None:
    with all_closed():
        interview = begin(tmp_path)
        finish(interview, wants_the_end_of(UP))
        work_out(interview)
        interview.verdict(interview.turn, "nearly", "wants", 20)
        work_out(interview)
        wish = view(interview)["outcome"]["wish"]
        assert wish["headline"] == "You say that you want to be in the upper corridor, cell 10, and your answers agree."
        assert "are among the best for it, far more than by chance." in wish["why"]
        (stated,) = json.loads((tmp_path / "result.json").read_text())["wish"]["named"]
        assert (stated["where"], stated["probability"]) == (20, None)
        interview.verdict(interview.turn, "nearly", "wants", 40)
        work_out(interview)
        wish = view(interview)["outcome"]["wish"]
        assert wish["kind"] == "open"
        assert wish["headline"].endswith("lower corridor, cell 10, but your answers speak against it.")
        interview.verdict(interview.turn, "nearly", "avoids", 10, besides=True)
        work_out(interview)
        assert interview.history.told == [Statement(frozenset({("wants", 40), ("avoids", 10)}))]
        both = "get to the lower corridor, cell 10 and keep away from the left corridor, cell 10"
        assert view(interview)["outcome"]["wish"]["verdict"] == f"You said: {both}."


def test_more_questions_come_when_they_are_asked_for_and_say_more_of_the_wish(tmp_path: Path) -> None:
    with all_closed():
        interview = begin(tmp_path, LAKE)
        with pytest.raises(StaleError):
            interview.more(interview.turn)
        hole = the_hole(interview)
        finish(interview, to_the_hole(interview))
        work_out(interview)
        interview.verdict(interview.turn, "nearly", "wants", hole)
        work_out(interview)
        before = view(interview)["outcome"]["wish"]
        assert before["why"] == "Your answers alone do not show that yet, and do not contradict it."
        assert interview.ending is not None
        asked, answers, episodes = interview.ending.telling, interview.history.answers, interview.history.episodes
        heard = agreement(interview.engine.belief.estimate, [Claim("wants", hole)])
        assert before["more"] == len(asked) > 1
        interview.more(interview.turn)
        assert interview.phase == "walking", "the agent looks around first"
        interview.walk_on(10)
        seen = [answer(interview, to_the_hole(interview)) for _ in asked]
        assert tuple(seen) == asked
        assert interview.history.answers == answers + len(asked)
        assert interview.history.episodes > episodes
        assert not interview.history.needed, "nobody else has asked for them"
        again = Interview.open(tmp_path, LAKE, Accuracy())
        assert (again.phase, again.history.known()) == (interview.phase, interview.history.known())
        mine, theirs = interview.engine.belief, again.engine.belief
        np.testing.assert_array_equal(mine.estimate.counts.answers, theirs.estimate.counts.answers)
        for name, array in mine.evidence["policy"].items():
            np.testing.assert_array_equal(array, theirs.evidence["policy"][name])
        again.close()
        finish(interview, to_the_hole(interview))
        work_out(interview)
        after = agreement(interview.engine.belief.estimate, [Claim("wants", hole)])
        assert heard is not None
        assert after is not None
        assert after.bearing != "contradict"
        assert after.answers > heard.answers


def test_who_has_asked_for_more_questions_may_skip_undo_and_finish(tmp_path: Path) -> None:
    with all_closed():
        interview = begin(tmp_path, LAKE)
        finish(interview, to_the_hole(interview))
        work_out(interview)
        interview.more(interview.turn)
        interview.walk_on(10)
        assert "You may want several things" in view(interview)["question"]["why"]
        first = here(interview)
        interview.skip(interview.turn)
        assert here(interview) != first
        second = answer(interview, to_the_hole(interview))
        interview.undo(interview.turn)
        assert here(interview) == second
        answer(interview, to_the_hole(interview))
        interview.finish(interview.turn)
        assert interview.phase == "done"


def the_hole(interview: Interview) -> int:
    """The hole nearest to the start."""
    states = range(interview.environment.n_states)
    return next(state for state in states if "hole in row 2, column 2" in interview.view.name(state))


def to_the_hole(interview: Interview) -> Person:
    """Somebody who wants the hole nearest to the start, on the slippery ice."""
    ways = ("down", "left", "left", "up", "up", "", "left", "", "up", "up", "left", "", "", "left", "left", "")
    return on_the_lake(interview, ways)


def test_no_to_one_of_several_wishes_denies_each_and_yes_affirms_none() -> None:
    named = [["wants", 3], ["wants", 5]]
    event = {"event": "verdict", "verdict": "no", "named": named, "chosen": None, "one_of": True}
    denied = History.of([event]).told
    assert denied == [Statement(frozenset({("wants", place)}), right=False) for place in (3, 5)]
    assert History.of([event | {"verdict": "yes"}]).told == []
    together = [Statement(frozenset({("wants", 3), ("wants", 5)}))]
    assert History.of([event | {"verdict": "yes", "one_of": False}]).told == together


def test_who_says_something_else_than_the_answers_is_quoted_too(lake: Interview) -> None:
    turn = lake.learned
    assert turn is not None
    soon = Named(Claim("hurry", -1), 0.99)
    hole = the_hole(lake)
    names, told = [f"place {s}" for s in range(turn.counts.shape[1])], [Statement(frozenset({("wants", hole)}))]
    with patch.object(type(turn), "wish_after", lambda self, denied: replace(turn.wish, kind="bold", named=(soon,))):
        found = said_wish(turn, names, who=YOU, told=told)
    assert (found.kind, found.named) == ("open", [])
    assert found.quote == f"You say that you want to reach place {hole}, but your answers speak against it."
    assert "lose no time" not in found.sentence


def test_undo_says_what_it_takes_back(tmp_path: Path) -> None:
    with all_closed():
        interview = begin(tmp_path)
        assert view(interview)["last"] is None
        interview.answer(interview.turn, UP)
        assert view(interview)["last"] == {"short": "You said up", "full": "“up” in the middle"}
        interview.correct(interview.turn, 0, RIGHT)
        assert view(interview)["last"] == {
            "short": "You changed it to right",
            "full": "the change to “right” in the middle",
        }
        interview.undo(interview.turn)
        assert view(interview)["last"] == {"short": "You said up", "full": "“up” in the middle"}
        interview.walk_on(10)
        interview.skip(interview.turn)
        assert view(interview)["last"]["short"] == "You did not know"


@pytest.mark.parametrize(
    ("slippery", "told"), [(True, "one time in three you go where you want"), (False, "always go")]
)
def test_the_rules_say_whether_the_ice_slips(tmp_path: Path, slippery: bool, told: str) -> None:
    with all_closed():
        interview = begin(tmp_path, Source("FrozenLake-v1", {"is_slippery": slippery}, seed=0, stationary_expert=True))
        rules = about(interview)["rules"]
        assert told in rules[0]
        assert rules[-1] == "After 100 steps an episode is over in any case."


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
