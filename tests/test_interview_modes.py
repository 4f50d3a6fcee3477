"""An interview in a person's hands: the same everywhere, episodes that are shown, playing, comparing, and deciding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from interviews import (
    DOWN,
    FLAG,
    FOUR_PATHS,
    GRIDWORLD,
    LEFT,
    RIGHT,
    UP,
    all_closed,
    answer,
    begin,
    finish,
    flag_seeker,
    here,
    wants_the_end_of,
    work_out,
)

import aceirl
from aceirl.certificates.base import DECLARED
from aceirl.envs import make
from aceirl.errors import InputError
from aceirl.experts.tasks import Source
from aceirl.protocols import Question
from aceirl.runs import files
from aceirl.runs.files import Event
from aceirl.web import dialogue, driver
from aceirl.web.driver import ANSWERS, Interview, StaleError
from aceirl.web.episode_mode import MOST_GUESSES, RIGHT_GUESSES
from aceirl.web.history import Accuracy, LoggedTrajectory, Mode, Scope, effective
from aceirl.web.view import answers, like, view
from studies.interviewees import Interviewee, interviewed

UPWARD = wants_the_end_of(UP)
LAKE = Source("FrozenLake-v1", {}, seed=0, stationary_expert=True)
BLACKJACK = Source("Blackjack-v1", {}, seed=0, stationary_expert=True, horizon=12)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    with all_closed():
        yield


def logged(folder: Path) -> list[Event]:
    return [json.loads(line) for line in (folder / ANSWERS).read_text().splitlines()]


def assert_same_when_opened_again(interview: Interview) -> Interview:
    """What is in memory is what the log says: same answers, same evidence, same question."""
    interview.walk_on(10)
    before, asked = interview.engine.belief, interview.asked
    interview.close()
    again = begin(interview.folder, *interview.begun_with)
    after = again.engine.belief
    assert again.history.known() == interview.history.known()
    assert again.version == interview.version
    for name in ("visits", "starts", "move_keys", "move_counts"):
        np.testing.assert_array_equal(getattr(before.estimate.counts, name), getattr(after.estimate.counts, name))
    np.testing.assert_array_equal(before.known_actions, after.known_actions)
    for kind, memory in before.evidence.items():
        for name, values in memory.items():
            np.testing.assert_array_equal(values, after.evidence[kind][name], err_msg=f"{kind} {name}")
    if isinstance(asked, Question) and isinstance(again.asked, Question):
        assert (again.asked.state, again.asked.step) == (asked.state, asked.step)
    elif isinstance(asked, LoggedTrajectory) and isinstance(again.asked, LoggedTrajectory):
        assert again.asked.number == asked.number
    else:
        assert again.asked == asked
    return again


# The same everywhere like this


def test_a_scope_covers_what_relates_so_and_nothing_else() -> None:
    here: dict[str, int | float | str] = {"hand": 14, "dealer": 10, "ace": "no"}
    scope = Scope.like(here, {"hand": "at most", "ace": "same"})
    assert scope.covers({"hand": 14, "dealer": 3, "ace": "no"})
    assert scope.covers({"hand": 5, "dealer": 10, "ace": "no"})
    assert not scope.covers({"hand": 15, "dealer": 10, "ace": "no"})
    assert not scope.covers({"hand": 14, "dealer": 10, "ace": "yes"})
    assert not scope.covers({"dealer": 10, "ace": "no"}), "what has no such feature is not like it"
    assert Scope.read([list(one) for one in scope.conditions]) == scope
    assert scope.words == "ace no, hand 14 or less"
    assert Scope.like(here, {}).covers({})


@pytest.mark.parametrize(
    ("relations", "said"),
    [
        ({"hands": "same"}, "'hands' is not one of hand, dealer, ace"),
        ({"ace": "at most"}, "ace can be same, not 'at most'"),
        ({"hand": "below"}, "hand can be same, at most, at least, not 'below'"),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused_in_words(relations: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Scope.like({"hand": 14, "dealer": 10, "ace": "no"}, relations)


def test_an_answer_can_hold_everywhere_like_this(tmp_path: Path) -> None:
    interview = begin(tmp_path, FOUR_PATHS)
    assert here(interview) == 0, "in the middle"
    interview.answer(interview.turn, UP)
    interview.walk_on(10)
    assert interview.view.features(here(interview)) == {"corridor": "upper", "cell": 1}
    told = like(interview, {"corridor": "same"})
    assert told["count"] == 10
    assert "10 situations" in told["words"]
    interview.answer(interview.turn, UP, {"corridor": "same"})
    assert interview.history.known() == {0: UP} | dict.fromkeys(range(11, 21), UP)
    assert interview.history.answers == 2, "one answer, however much it says"
    interview.walk_on(10)
    assert here(interview) == 19, "one in ten is asked about"
    answer(interview, UPWARD)
    assert here(interview) not in range(11, 21), "and no other"
    again = assert_same_when_opened_again(interview)
    assert {row["how"] for row in answers(again)} == {"", "the same: corridor upper"}

    for _ in range(2):
        again.undo(again.turn)
    assert again.history.known() == {0: UP}
    assert again.history.reopened
    assert here(again) == 11


def test_an_answer_can_hold_in_painted_places_and_is_taken_back_with_them(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    interview.answer(interview.turn, UP, also=[11, 12, 13])
    assert interview.history.known() == {0: UP, 11: UP, 12: UP, 13: UP}
    assert interview.history.rules == []
    interview.close()
    interview = begin(tmp_path)
    assert interview.history.known() == {0: UP, 11: UP, 12: UP, 13: UP}
    state = here(interview)
    interview.answer(interview.turn, DOWN, also=[12, 14])
    known = {0: UP, 11: UP, 12: UP, 13: UP, state: DOWN, 14: DOWN}
    assert interview.history.known() == known, "what was said before stays"
    interview.undo(interview.turn)
    assert interview.history.known() == {0: UP, 11: UP, 12: UP, 13: UP}
    with pytest.raises(InputError, match="not states to act in"):
        interview.answer(interview.turn, UP, also=[99])
    with pytest.raises(InputError, match="either"):
        interview.answer(interview.turn, UP, {"corridor": "same"}, [15])


def test_it_holds_for_situations_that_are_met_later_and_not_for_those_spoken_about_before(tmp_path: Path) -> None:
    interview = begin(tmp_path, BLACKJACK)
    first = here(interview)
    interview.answer(interview.turn, 1)
    interview.walk_on(10)
    while interview.view.features(here(interview))["usable ace"] == "yes":
        answer(interview, lambda state: 1)
    known = dict(interview.history.known())
    interview.answer(interview.turn, 0, {"usable ace": "same"})
    covered = [s for s, a in interview.history.known().items() if s not in known]
    assert len(covered) > 20, "the agent had looked around before it asked"
    for _ in range(3):
        interview.walk_on(10)
        assert interview.view.features(here(interview))["usable ace"] == "yes"
        answer(interview, lambda state: 1)
    features = interview.view.features
    for state, action in interview.history.known().items():
        if state not in known:
            assert action == (0 if features(state)["usable ace"] == "no" else 1)
    assert interview.history.standing(first) == 1, "what was said before stays"
    applied = [event for event in logged(tmp_path) if event["event"] == "applied"]
    assert applied, "some were met only later"
    again = assert_same_when_opened_again(interview)
    while any(event["event"] == "answer" and "scope" in event for event in effective(logged(tmp_path))):
        again.undo(again.turn)
    left = [event["event"] for event in effective(logged(tmp_path))]
    assert "applied" not in left, "what followed from it goes with it"
    assert set(again.history.known()) == set(known)


def test_one_in_ten_of_the_declared_is_asked_and_a_promise_says_that_it_rests_on_the_others(tmp_path: Path) -> None:
    interview = begin(tmp_path, BLACKJACK)
    while interview.view.features(here(interview))["usable ace"] == "yes":
        answer(interview, lambda state: 1)
    assert DECLARED not in assumed(interview)
    interview.answer(interview.turn, 0, {"usable ace": "same"})
    repeats, checked = interview.history.repeats, []
    for _ in range(40):
        interview.walk_on(10)
        if interview.phase == "done":
            break
        asked = interview.asked
        if isinstance(asked, Question) and asked.again and interview.history.votes[asked.state].declared:
            checked.append(asked.state)
            interview.answer(interview.turn, 0)
        elif isinstance(asked, Question):
            interview.answer(interview.turn, int(interview.view.features(asked.state)["usable ace"] == "yes"))
        else:
            interview.review(interview.turn)
    declared = [state for state, votes in interview.history.votes.items() if votes.declared]
    assert len(declared) > 60
    assert len(set(checked)) == len(checked), "each once"
    assert 1 <= len(checked) <= 25, "a tenth of some hundred, with a probability of more than 1 - 1e-6"
    assert interview.history.repeats - repeats <= 4, "how often people err is told by what they said one by one"
    assert DECLARED in assumed(interview)
    interview.finish(interview.turn)
    work_out(interview)
    shown = aceirl.load(interview.folder).certificate
    assert shown is not None
    assert DECLARED in shown.assumptions, "wherever the folder is opened"


def test_a_declared_answer_that_is_contradicted_withholds_the_promise(tmp_path: Path) -> None:
    interview = begin(tmp_path, BLACKJACK)
    while interview.view.features(here(interview))["usable ace"] == "yes":
        answer(interview, lambda state: 1)
    interview.answer(interview.turn, 0, {"usable ace": "same"})
    while not interview.history.contradictory():
        interview.walk_on(10)
        asked = interview.asked
        assert isinstance(asked, Question)
        interview.answer(interview.turn, 1)
    (state,) = interview.history.contradictory()
    assert interview.history.votes[state].declared
    assert not interview.certified
    assert interview.certified_share == 1


def assumed(interview: Interview) -> tuple[str, ...]:
    return interview.engine.last_turn.certificate("policy").assumptions


# Episodes that are shown


def shown_episode(folder: Path, source: Source = GRIDWORLD) -> tuple[Interview, Interviewee]:
    """An interview at the moment at which an episode is shown; rewards are worked out after every answer."""
    interview = begin(folder, source)
    person = Interviewee(interview, declare=False)
    for _ in range(60):
        if isinstance(interview.asked, LoggedTrajectory):
            return interview, person
        assert interview.phase == "asking"
        person.reply()
        interview.walk_on(10)
        if interview.history.answers:
            interview.adopt(interview.preview(), interview.version)
    raise AssertionError("nothing was shown")


# So large that some states are never met: if all were known, there would be nothing to wager on.
LARGER_GRID = Source("gridworld", {"size": 7, "horizon": 10}, seed=0, stationary_expert=True)
TAXI_LIKE = Source("gridworld", {"size": 7, "horizon": 14}, seed=0, stationary_expert=True)


def test_an_episode_on_guesses_is_shown_once_they_are_right_and_approving_answers_them_all(tmp_path: Path) -> None:
    interview, _ = shown_episode(tmp_path, TAXI_LIKE)
    walk = interview.asked
    assert isinstance(walk, LoggedTrajectory)
    assert interview.history.right_guesses >= RIGHT_GUESSES
    assert 0 < len(walk.guessed) <= MOST_GUESSES
    known = dict(interview.history.known())
    assert not {state for _, state, _ in walk.guessed} & set(known), "only guesses are asked about"
    assert all(walk.moves[step][1:3] == (state, action) for step, state, action in walk.guessed)
    shown = view(interview)["question"]
    assert (shown["kind"], len(shown["steps"])) == ("episode", len(walk.guessed))
    with pytest.raises(StaleError):
        interview.answer(interview.turn, UP)
    with pytest.raises(StaleError):
        interview.prefer(interview.turn, 0)

    before = interview.history.answers
    assert_same_when_opened_again(interview)
    interview = begin(tmp_path, TAXI_LIKE)
    interview.review(interview.turn)
    assert interview.history.known() == known | {state: action for _, state, action in walk.guessed}
    assert interview.history.answers == before + 1
    again = assert_same_when_opened_again(interview)
    assert {"you saw it"} <= {row["how"] for row in answers(again)}


def test_an_objection_answers_what_came_before_it_and_says_what_is_right(tmp_path: Path) -> None:
    interview, _ = shown_episode(tmp_path, TAXI_LIKE)
    walk = interview.asked
    assert isinstance(walk, LoggedTrajectory)
    known = dict(interview.history.known())
    step, state, action = walk.guessed[-1]
    other = (action + 1) % 4
    with pytest.raises(InputError, match="was not a guess"):
        interview.review(interview.turn, 13_000, other)
    with pytest.raises(InputError, match="what the agent did"):
        interview.review(interview.turn, step, action)
    interview.review(interview.turn, step, other)
    approved = {s: a for h, s, a in walk.guessed if h < step}
    assert interview.history.known() == known | approved | {state: other}
    assert interview.history.right_guesses == 0, "the agent asks again before it shows more"
    interview.undo(interview.turn)
    assert interview.history.known() == known
    asked = interview.asked
    assert isinstance(asked, LoggedTrajectory)
    assert asked.number == walk.number
    again = assert_same_when_opened_again(interview)
    assert again.history.right_guesses > 0
    again.skip(again.turn)
    assert again.history.known() == known
    assert again.history.right_guesses == 0, "who cannot say of an episode is asked about situations"
    assert not again.history.reopened


def test_the_promise_holds_for_people_who_declare_and_approve(tmp_path: Path) -> None:
    """A promise with confidence 0.9 may fail in 12 of 24 interviews with probability 8e-7."""
    broken = shown = declared = 0
    for seed in range(24):
        source = Source("gridworld", {"size": 5, "horizon": 8}, seed=seed, stationary_expert=True)
        interview = begin(tmp_path / str(seed), source)
        person = Interviewee(interview, declare=seed % 2 == 0)
        while interview.phase != "done":
            person.reply()
            interview.walk_on(10)
            if interview.history.answers % 3 == 0:
                interview.adopt(interview.preview(), interview.version)
        assert interview.certified
        shown += any(walk.reviewed for walk in interview.history.trajectories)
        declared += bool(interview.history.rules)
        broken += lost_share(interview, seed) > 0.1
    assert min(shown, declared) >= 5
    assert broken <= 11


def lost_share(interview: Interview, seed: int) -> float:
    """`E[Z]`, exactly: the share of an episode that is left when someone who follows the answers runs out of them."""
    mdp = make("gridworld", seed, size=5, horizon=8).mdp
    known, dense = interview.history.known(), mdp.transitions.dense()
    value = np.zeros(mdp.n_states)
    for h in range(mdp.horizon - 1, -1, -1):
        value = np.array([dense[s, known[s]] @ value if s in known else mdp.horizon - h for s in range(mdp.n_states)])
    return float(mdp.initial @ value) / mdp.horizon


@pytest.mark.parametrize("name", ["four-paths", "double-chain", "gridworld"])
def test_whoever_declares_and_approves_gives_fewer_answers_for_as_good_a_policy(name: str) -> None:
    source = Source(name, {}, seed=1, stationary_expert=True)
    *_, before = interviewed(source, one_by_one=True)
    *_, after = interviewed(source)
    assert after.answers < before.answers
    assert after.regret <= before.regret + 1e-9
    assert before.certified
    assert after.certified


# Playing


def test_whoever_plays_makes_every_move_and_each_is_an_answer(tmp_path: Path) -> None:
    interview = begin(tmp_path, LAKE)
    interview.change_mode(interview.turn, "play")
    interview.walk_on(10)
    person, moves = flag_seeker(interview), []
    while (
        interview.history.episodes < 25
        or interview.history.trajectory is None
        or interview.history.trajectory.mode == "alone"
    ):
        state = here(interview)
        moves.append((state, person(state)))
        interview.answer(interview.turn, person(state))
        interview.walk_on(10)
        if interview.phase == "done":
            break
    played = [move[1:3] for walk in interview.history.trajectories if walk.mode != "alone" for move in walk.moves]
    assert played[: len(moves)] == moves[: len(played)], "the agent does nothing of its own"
    assert all(action == person(state) for state, action in interview.history.known().items())
    assert len(interview.history.known()) < len(moves) <= interview.history.answers


def test_a_move_is_made_even_where_the_person_did_something_else_before(tmp_path: Path) -> None:
    interview = begin(tmp_path, LAKE)
    interview.change_mode(interview.turn, "play")
    moves, rng = [], np.random.default_rng(0)
    for _ in range(30):
        interview.walk_on(10)
        moves.append((here(interview), int(rng.integers(4))))
        interview.answer(interview.turn, moves[-1][1])
    interview.walk_on(10)
    played = [move[1:3] for walk in interview.history.trajectories if walk.mode != "alone" for move in walk.moves]
    assert played == moves[: len(played)]
    assert len(played) >= len(moves) - 1
    assert interview.history.contradictory()
    assert not interview.certified


# Comparing


def reached(interview: Interview, number: int) -> int:
    """1 if an episode ends at the flag."""
    return int(interview.view.name(interview.history.trajectories[number].states[-1]) == FLAG)


def test_comparing_episodes_is_enough_to_find_a_reward_and_too_little_to_be_sure_of_it(tmp_path: Path) -> None:
    interview = begin(tmp_path, LAKE)
    interview.change_mode(interview.turn, "compare")
    for _ in range(14):
        interview.walk_on(10)
        interview.adopt(interview.preview(), interview.version)
        pair = interview.asked
        if not isinstance(pair, tuple):
            break
        assert view(interview)["question"]["kind"] == "pair"
        first, second = (reached(interview, number) for number in pair)
        interview.prefer(interview.turn, None if first == second else int(second > first))
    assert len(interview.history.compared) >= 8
    assert not interview.history.known(), "nothing was said about what to do"
    interview.finish(interview.turn)
    turn = work_out(interview)
    assert turn.explanation is not None
    assert [interview.view.name(place) for place in turn.explanation.goals] == [FLAG]
    assert turn.wish.best.places == ((turn.explanation.goals[0], 1.0),), "no wish predicts them better"
    sentence = view(interview)["outcome"]["wish"]["headline"]
    assert sentence == f"You seem to want to be in {FLAG} or row 4, column 2: the comparisons do not tell which."
    assert not interview.certified
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["goal"] == [sentence]
    assert (kept["wish"]["kind"], kept["wish"]["sentence"]) == ("set", sentence)
    assert kept["wish"]["named"][0]["name"] == FLAG


def test_who_cannot_say_which_is_better_has_said_nothing(tmp_path: Path) -> None:
    interview = begin(tmp_path, LAKE)
    interview.change_mode(interview.turn, "compare")
    interview.walk_on(10)
    assert interview.needs_inference
    interview.adopt(interview.preview(), interview.version)
    pair = interview.asked
    assert isinstance(pair, tuple)
    interview.skip(interview.turn)
    assert [tuple(one["pair"]) for one in interview.history.compared] == [pair]
    assert not interview.engine.belief.estimate.preferences
    assert interview.history.answers == 0
    interview.undo(interview.turn)
    assert interview.asked == pair
    with pytest.raises(InputError, match="better must be"):
        interview.prefer(interview.turn, 2)
    interview.prefer(interview.turn, 1)
    (preference,) = interview.engine.belief.estimate.preferences
    assert preference.preferred == tuple(interview.history.trajectories[pair[1]].moves)
    assert_same_when_opened_again(interview)


# Deciding


def test_finishing_ends_it_with_what_there_is_and_going_on_goes_on(tmp_path: Path) -> None:
    interview = begin(tmp_path, LAKE)
    person = flag_seeker(interview)
    for _ in range(3):
        answer(interview, person)
    question = here(interview)
    interview.finish(interview.turn)
    assert interview.phase == "done"
    work_out(interview)
    outcome = view(interview)["outcome"]
    assert "You finished before more could be promised." in outcome["lines"]
    assert (tmp_path / "run.json").exists()
    again = assert_same_when_opened_again(interview)
    assert again.phase == "done"
    again.go_on(again.turn)
    assert not (tmp_path / "run.json").exists(), "it is not the last word any more"
    again.walk_on(10)
    assert here(again) == question
    finish(again, person)
    assert again.certified


def test_starting_again_forgets_everything_but_the_log_and_meets_new_chances(tmp_path: Path) -> None:
    interview = begin(tmp_path, LAKE)
    for _ in range(3):
        answer(interview, lambda state: RIGHT)
    walked = [list(walk.moves) for walk in interview.history.trajectories]
    lines = len(logged(tmp_path))
    interview.start_again(interview.turn)
    assert (interview.history.answers, interview.history.trajectories, interview.learned) == (0, [], None)
    assert len(logged(tmp_path)) == lines + 1
    with pytest.raises(InputError, match="no answer"):
        interview.undo(interview.turn)
    interview.walk_on(10)
    assert [list(walk.moves) for walk in interview.history.trajectories] != walked
    assert_same_when_opened_again(interview)
    finish(interview := begin(tmp_path, LAKE), flag_seeker(interview))
    assert interview.certified


def test_another_accuracy_is_promised_only_on_what_was_tried_for_it(tmp_path: Path) -> None:
    interview = begin(tmp_path, LAKE)  # nobody says how many states there are, so there is always something to wager on
    person = flag_seeker(interview)
    finish(interview, person)
    assert interview.certified
    known, walked = interview.history.known(), interview.history.episodes
    interview.adjust(interview.turn, 0.05, 0.02, interview.environment.horizon)
    assert interview.certified_share == 1.0, "what was won for another aim does not count"
    assert interview.history.known() == known
    assert interview.accuracy == Accuracy(0.05, 0.02)
    interview.walk_on(60)
    while interview.phase == "asking":
        answer(interview, person)
    assert interview.certified
    assert interview.certified_share <= 0.05 * (1 + 1e-9)
    assert interview.history.episodes - walked >= np.log(1 / 0.02) / -np.log1p(-0.05) * 0.9
    again = assert_same_when_opened_again(interview)
    assert again.accuracy == Accuracy(0.05, 0.02)


def test_shorter_and_longer_episodes_keep_the_answers(tmp_path: Path) -> None:
    interview = begin(tmp_path, LAKE)
    person = flag_seeker(interview)
    for _ in range(5):
        answer(interview, person)
    known = interview.history.known()
    for horizon in (20, 60):
        interview.adjust(interview.turn, 0.1, 0.1, horizon)
        assert interview.environment.horizon == interview.engine.access.shape[0] == horizon
        assert interview.history.known() == known
        interview.walk_on(10)
        interview = assert_same_when_opened_again(interview)
    finish(interview, person)
    assert interview.certified


@pytest.mark.parametrize(
    ("epsilon", "delta", "horizon", "said"),
    [
        (0.0, 0.1, 100, "epsilon"),
        (1e-320, 0.1, 100, "epsilon must be between 0.001 and 0.99"),
        (0.1, 1.0, 100, "delta"),
        (0.1, 0.1, 0, "horizon"),
        (0.1, 0.1, 10**9, "horizon must be a whole number from 1 to 606, got 1000000000"),
    ],
)
def test_an_aim_that_makes_no_sense_is_refused_and_changes_nothing(
    tmp_path: Path, epsilon: float, delta: float, horizon: int, said: str
) -> None:
    interview = begin(tmp_path, LAKE)
    content = (tmp_path / ANSWERS).read_bytes()
    with pytest.raises(InputError, match=said):
        interview.adjust(interview.turn, epsilon, delta, horizon)
    assert (tmp_path / ANSWERS).read_bytes() == content
    assert interview.environment.horizon == 100


def test_an_aim_that_cannot_be_taken_in_is_not_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interview = begin(tmp_path, FOUR_PATHS)
    answer(interview, wants_the_end_of(UP))
    content, state = (tmp_path / ANSWERS).read_bytes(), here(interview)

    def too_large(source: Source) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(driver, "open_view", too_large)
        with pytest.raises(MemoryError):
            interview.adjust(interview.turn, 0.1, 0.1, 30)
    assert (tmp_path / ANSWERS).read_bytes() == content
    interview.walk_on(10)
    assert (here(interview), interview.environment.horizon) == (state, 20)
    interview.adjust(interview.turn, 0.2, 0.1, 30)
    assert interview.environment.horizon == 30


def test_any_answer_can_be_put_right_in_the_list(tmp_path: Path) -> None:
    interview = begin(tmp_path, FOUR_PATHS)
    for _ in range(4):
        answer(interview, UPWARD)
    rows = answers(interview)
    assert [row["action"] for row in rows] == [UPWARD(row["state"]) for row in rows]
    interview.correct(interview.turn, rows[1]["state"], LEFT)
    changed = {row["state"]: row for row in answers(interview)}
    assert changed[rows[1]["state"]]["action"] == LEFT
    assert changed[rows[1]["state"]]["how"] == "changed"
    assert_same_when_opened_again(interview)


def test_a_question_that_was_reopened_is_there_again_after_a_kill(tmp_path: Path) -> None:
    interview = begin(tmp_path, FOUR_PATHS)
    for _ in range(3):
        answer(interview, UPWARD)
    interview.undo(interview.turn)
    assert interview.history.reopened
    again = assert_same_when_opened_again(interview)
    assert again.history.reopened


def test_how_much_is_familiar_rises_to_all_of_it(tmp_path: Path) -> None:
    interview = begin(tmp_path, LAKE)
    assert view(interview)["gauge"]["covered"] == 0
    person, seen = flag_seeker(interview), []
    while interview.phase != "done":
        answer(interview, person)
        seen.append(view(interview)["gauge"]["covered"])
    assert seen[0] > 0.05, "it moves with the first answer"
    assert seen[-1] > 0.95
    assert np.mean(np.diff(seen) >= -0.1) > 0.8


def test_the_agent_looks_around_before_it_asks_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interview = begin(tmp_path / "looking", LAKE)
    assert {walk.mode for walk in interview.history.trajectories[:-1]} == {"alone"}
    assert interview.history.answers == 0
    finish(interview, flag_seeker(interview))
    last = [walk.mode for walk in interview.history.trajectories[-20:]]
    assert last.count("alone") <= 2, "once nothing is asked any more, it walks on the answers"
    monkeypatch.setattr(dialogue, "next_mode", lambda history, can_guess: "asked")
    asked = begin(tmp_path / "asked", LAKE)
    finish(asked, flag_seeker(asked))
    assert interview.history.answers <= asked.history.answers


def test_an_answer_that_comes_back_by_undoing_stands_only_since_then(tmp_path: Path) -> None:
    """Episodes in between were walked on another one, whatever is said afterwards."""
    interview = begin(tmp_path, GRIDWORLD)
    for _ in range(4):
        answer(interview, lambda state: RIGHT)
    state, action = next(iter(interview.history.known().items()))
    interview.correct(interview.turn, state, (action + 1) % 4)
    while interview.asked is None or interview.history.trajectory is None:
        interview.walk_on(10)
    answer(interview, lambda state: RIGHT)
    now = interview.history.trajectory.number
    interview.undo(interview.turn)
    interview.undo(interview.turn)
    assert interview.history.standing(state) == action
    assert interview.history.votes[state].since[0] >= now


def test_starting_again_on_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interview = begin(tmp_path, LAKE)
    for _ in range(3):
        answer(interview, lambda state: RIGHT)
    interview.answer(interview.turn, RIGHT)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files, "_write_all", full)
        for change in (lambda: interview.walk_on(5), lambda: interview.start_again(interview.turn)):
            with pytest.raises(InputError, match="No space left"):
                change()
    interview.walk_on(10)
    assert interview.history.answers == 4
    assert interview.engine.belief.iteration == interview.history.episodes
    assert_same_when_opened_again(interview)


def test_a_contradiction_is_counted_whichever_answer_it_comes_with(tmp_path: Path) -> None:
    interview = begin(tmp_path, GRIDWORLD)
    interview.change_mode(interview.turn, "play")
    interview.walk_on(10)
    said: dict[int, list[int]] = {}
    while not any(len(votes) == 3 for votes in said.values()):
        votes = said.setdefault(here(interview), [])
        votes.append(RIGHT if len(votes) < 2 else LEFT)
        answer(interview, lambda state: said[state][-1])
    assert interview.history.contradictions == 0, "the first repeats were answered alike"
    several = sum(len(votes) > 1 for votes in said.values())
    words = view(interview)["gauge"]["words"]
    assert f": 1 of {several} situation" in words
    assert "different answers" in words


def test_who_finished_and_takes_an_answer_back_is_not_told_of_more_to_come(tmp_path: Path) -> None:
    interview = begin(tmp_path, GRIDWORLD)
    answer(interview, lambda state: RIGHT)
    assert "yet" in view(interview)["gauge"]["words"]
    interview.finish(interview.turn)
    interview.undo(interview.turn)
    shown = view(interview)
    assert shown["phase"] == "asking"
    assert shown["gauge"]["words"] == "Nothing can be promised."
    assert shown["progress"]["words"] == "You finished; this one comes again because you took it back."
    interview.answer(interview.turn, RIGHT)
    assert interview.phase == "done"


def test_who_plays_is_shown_how_much_was_familiar_from_earlier_episodes(tmp_path: Path) -> None:
    interview = begin(tmp_path, LARGER_GRID)
    interview.change_mode(interview.turn, "play")
    interview.walk_on(10)
    shares = []
    while len([walk for walk in interview.history.trajectories if walk.mode != "alone"]) <= 8:
        shares.append(view(interview)["gauge"]["covered"])
        answer(interview, lambda state: RIGHT)
    horizon = interview.environment.horizon
    assert shares[:horizon] == [None] * horizon, "in the first episode there is nothing to be familiar with"
    known: set[int] = set()
    familiar, met = 0, 0
    for number, walk in enumerate(one for one in interview.history.trajectories if one.mode != "alone" and one.over):
        states = set(walk.states[:-1])
        familiar, met = familiar + len(states & known) * (number > 0), met + len(states) * (number > 0)
        known |= states
    assert 0 < familiar < met
    assert shares[-1] == pytest.approx(familiar / met, abs=0.1)
    assert view(interview)["gauge"]["covered"] == pytest.approx(familiar / met)


@pytest.mark.parametrize("mode", ["ask", "play", "compare"])
def test_who_answered_nothing_is_told_so_at_the_end(tmp_path: Path, mode: Mode) -> None:
    interview = begin(tmp_path, GRIDWORLD)
    interview.change_mode(interview.turn, mode)
    interview.finish(interview.turn)
    work_out(interview)
    outcome = view(interview)["outcome"]
    headline = "You have answered nothing, so there is nothing to say about what you want."
    assert outcome["wish"]["headline"] == headline
    assert outcome["explained"]["words"] == "You did not say of any situation what you would do."
    assert not any("explains any" in line for line in outcome["lines"])


def test_it_comes_out_the_same_however_often_the_agent_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked, pieces = Interview.walk_on, 0
    modes: set[str] = set()

    def log_of(folder: Path) -> list[Event]:
        interview, _ = shown_episode(folder, TAXI_LIKE)
        modes.update(walk.mode for walk in interview.history.trajectories)
        return [{name: event[name] for name in event if name not in ("time", "seconds")} for event in logged(folder)]

    def walk_in_pieces(interview: Interview, seconds: float) -> None:
        nonlocal pieces
        while interview.phase == "walking":
            walked(interview, 1e-3)
            pieces += 1

    whole = log_of(tmp_path / "whole")
    monkeypatch.setattr(Interview, "walk_on", walk_in_pieces)
    monkeypatch.setattr(dialogue, "PAUSE", 3)
    assert log_of(tmp_path / "pieces") == whole
    assert pieces > sum("stakes" in event for event in whole), "episodes were interrupted"
    assert modes == {"asked", "shown", "alone"}
