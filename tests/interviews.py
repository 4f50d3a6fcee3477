"""People to interview who know what they want, for the tests of the interview."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aceirl.experts.tasks import Source
from aceirl.learner.turns import Turn
from aceirl.protocols import Question
from aceirl.web.driver import Interview
from aceirl.web.history import Accuracy, LoggedTrajectory

Person = Callable[[int], int]

FOUR_PATHS = Source("four-paths", {}, seed=0, stationary_expert=True)
GRIDWORLD = Source("gridworld", {}, seed=0, stationary_expert=True)
LEFT, UP, RIGHT, DOWN = range(4)


def wants_the_end_of(arm: int, length: int = 10) -> Person:
    """Someone who wants to get to the end of one arm of Four Paths, wherever they are."""

    def answer(state: int) -> int:
        if state == 0:
            return arm
        here = (state - 1) // length
        return arm if here == arm else (here + 2) % 4

    return answer


FLAG = "the flag in row 4, column 4"
# What is best on the slippery ice for someone who wants the flag, row by row; nothing in holes and at the flag.
TO_THE_FLAG = ("left", "up", "up", "up", "left", "", "left", "", "up", "down", "left", "", "", "right", "down", "")


def on_the_lake(interview: Interview, ways: Sequence[str]) -> Person:
    """Someone who does that on FrozenLake, row by row."""
    names, view = [action.name for action in interview.view.actions], interview.view

    def answer(state: int) -> int:
        cell = view.map_cell(state)
        assert cell is not None
        return names.index(ways[int(cell.x - 4 * cell.y)])

    return answer


def flag_seeker(interview: Interview) -> Person:
    """Someone who wants the flag of FrozenLake."""
    return on_the_lake(interview, TO_THE_FLAG)


_begun: list[Interview] = []


@contextmanager
def all_closed() -> Iterator[None]:
    """Close every interview that was begun meanwhile."""
    yield
    while _begun:
        _begun.pop().close()


def begin(folder: Path, source: Source = FOUR_PATHS, accuracy: Accuracy | None = None) -> Interview:
    """An interview in a folder, at its next question."""
    folder.mkdir(exist_ok=True)
    interview = Interview.open(folder, source, accuracy or Accuracy())
    _begun.append(interview)
    interview.walk_on(10)
    return interview


def here(interview: Interview) -> int:
    """The state the person is asked about."""
    assert interview.phase == "asking"
    assert isinstance(interview.asked, Question)
    return int(interview.asked.state)


def answer(interview: Interview, person: Person) -> int:
    """One answer, and on to the next question; the state that was asked about.

    Of an episode that is shown: whether they would do as well, or what they would do at the first step where not.
    """
    shown = interview.asked
    if isinstance(shown, LoggedTrajectory):
        wrong = next((one for one in shown.guessed if person(one[1]) != one[2]), None)
        interview.review(interview.turn, *(() if wrong is None else (wrong[0], person(wrong[1]))))
        state = shown.guessed[-1][1] if wrong is None else wrong[1]
    else:
        state = here(interview)
        interview.answer(interview.turn, person(state))
    interview.walk_on(10)
    return state


def finish(interview: Interview, person: Person, most: int = 200) -> list[int]:
    """Answer until the interview is over; the states asked about, in their order."""
    asked: list[int] = []
    while interview.phase != "done":
        assert len(asked) < most, "the interview does not come to an end"
        asked.append(answer(interview, person))
    return asked


def work_out(interview: Interview) -> Turn:
    """What the interview has taught so far, as its page has it worked out."""
    turn = interview.preview()
    interview.adopt(turn, interview.version)
    return turn
