"""What is asked and what an answer means: from a history alone, without an engine, a clock or a disk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interviews import DOWN, FOUR_PATHS, LEFT, UP

from aceirl.errors import InputError
from aceirl.learner.collect import Guess
from aceirl.protocols import Question
from aceirl.web.dialogue import Dialogue
from aceirl.web.environment_view import open_view
from aceirl.web.history import History, LoggedTrajectory, SaidRule

BEGUN = {"event": "walk", "episode": 0, "step": 0, "path": [0], "stakes": {}}
MIDDLE, UPPER = 0, 11


def answered(state: int, action: int, **more: Any) -> dict[str, Any]:
    return {"event": "answer", "state": state, "step": 0, "action": action, "time": "now", **more}


def dialogue(*events: dict[str, Any]) -> Dialogue:
    return Dialogue(History.of([BEGUN, *events]), open_view(FOUR_PATHS), seed=0, learned=None)


def question(state: int, step: int = 1) -> Question:
    return Question(step, state, (), np.random.default_rng(0))


def test_the_agent_does_what_was_said_and_asks_about_the_rest() -> None:
    told = dialogue(answered(MIDDLE, UP))
    assert told.reply(question(MIDDLE)) == Guess(UP)
    assert told.reply(question(UPPER)) is None, "the person is asked"
    assert told.wanted(1, UPPER, False)
    assert not told.wanted(1, MIDDLE, True), "not twice in a row"


def test_an_answer_for_many_situations_is_an_event_and_answers_for_those_like_it() -> None:
    told = dialogue(answered(MIDDLE, UP))
    event = told.answer(question(UPPER), UP, {"corridor": "same"})
    assert (event["state"], event["also"]) == (UPPER, list(range(UPPER + 1, UPPER + 10)))
    assert event["turn"] == told.history.turn == 1
    assert told.history.known() == {MIDDLE: UP}, "nothing is taken in before it is logged"
    later = dialogue(answered(MIDDLE, UP), event | {"also": []})
    reply = later.reply(question(UPPER + 5))
    assert isinstance(reply, SaidRule)
    assert (reply.number, reply.action) == (1, UP)


def test_what_was_taken_back_is_asked_before_all_others() -> None:
    told = dialogue(answered(MIDDLE, UP), answered(UPPER, DOWN), {"event": "undo"})
    asked = told.asked
    assert isinstance(asked, Question)
    assert asked.state == UPPER
    assert told.history.known() == {MIDDLE: UP}
    assert told.history.turn == 3
    assert dialogue(answered(MIDDLE, UP), {"event": "undo"}, answered(MIDDLE, LEFT)).asked is None


def test_a_history_keeps_when_each_standing_answer_was_given() -> None:
    history = History.of([BEGUN, answered(MIDDLE, UP), {"event": "correct", "state": MIDDLE, "action": LEFT}])
    assert history.given[MIDDLE, UP]["event"] == "answer"
    assert history.given[MIDDLE, LEFT]["event"] == history.first_said[MIDDLE]["event"] == "correct"


def test_a_review_says_the_guesses_before_the_first_wrong_one() -> None:
    told = dialogue()
    walk = LoggedTrajectory(0, MIDDLE, {}, guessed=[(0, MIDDLE, UP), (1, UPPER, UP), (2, UPPER + 1, UP)])
    event = told.review(walk, 1, LEFT)
    assert (event["approved"], event["instead"]) == ([[0, MIDDLE, UP]], [1, UPPER, LEFT])
    assert told.news(event) == [(0, MIDDLE, UP), (1, UPPER, LEFT)]
    with pytest.raises(InputError, match="was not a guess"):
        told.review(walk, 7, LEFT)


@pytest.mark.parametrize(("state", "action", "wrong"), [(MIDDLE, 4, "is not one of"), (UPPER, UP, "never answered")])
def test_what_cannot_be_said_is_refused(state: int, action: int, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        dialogue(answered(MIDDLE, UP)).correct(state, action)
