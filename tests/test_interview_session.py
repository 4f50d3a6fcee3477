"""The interview without its page: asked once, nothing lost, errors allowed, and a promise that holds."""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interviews import (
    DOWN,
    FOUR_PATHS,
    GRIDWORLD,
    LEFT,
    RIGHT,
    UP,
    all_closed,
    answer,
    begin,
    finish,
    here,
    wants_the_end_of,
    work_out,
)
from scipy.stats import binom

from aceirl.envs import make
from aceirl.errors import InputError
from aceirl.experts import FunctionExpert
from aceirl.experts.tasks import Source
from aceirl.learner.loop import learn
from aceirl.protocols import Question
from aceirl.runs import Run, files
from aceirl.runs.files import Event, alone
from aceirl.web import dialogue, driver
from aceirl.web.driver import ANSWERS, QUIET_EPISODES, RESULTS, Interview, StaleError
from aceirl.web.environment_view import open_view, png, with_keys
from aceirl.web.episode_mode import FIRST_REPEAT, MAX_VOTES
from aceirl.web.history import MAX_SKIPS, Accuracy, History, effective
from aceirl.web.inter_rater import answer_errors
from aceirl.web.view import about, tag, view

UPWARD = wants_the_end_of(UP)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    with all_closed():
        yield


def logged(folder: Path) -> list[Event]:
    return [json.loads(line) for line in (folder / ANSWERS).read_text().splitlines()]


def timeless(events: list[Event]) -> list[Event]:
    """The events without when they happened and how long they took."""
    return [{key: value for key, value in event.items() if key not in ("time", "seconds")} for event in events]


def true_loss_share(interview: Interview, problem_seed: int) -> float:
    """`E[Z]`, exactly: the share of an episode that is left when someone who follows the answers runs out of them."""
    mdp = make(interview.source.environment, problem_seed).mdp
    known = interview.history.known()
    dense = mdp.transitions.dense()
    value = np.zeros(mdp.n_states)
    for h in range(mdp.horizon - 1, -1, -1):
        value = np.array([dense[s, known[s]] @ value if s in known else mdp.horizon - h for s in range(mdp.n_states)])
    return float(mdp.initial @ value) / mdp.horizon


def test_a_whole_interview_ends_with_the_certificate_and_a_reward_that_explains_the_answers(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    asked = finish(interview, UPWARD)
    learned = work_out(interview)

    assert interview.certified
    assert interview.certified_share <= 0.1 * (1 + 1e-9)
    for state in set(asked):
        assert (learned.policy[:, state] == UPWARD(state)).all()
    assert int(learned.mean_reward.argmax()) == 20, "the end of the upper arm is where this person wants to be"
    explanation = learned.belief.recovered.explanation
    assert explanation is not None
    assert (explanation.space, explanation.explains) == ("state", True)
    assert explanation.explained >= 0.8 * explanation.compared > 0
    assert int(explanation.theta.argmax()) == 20

    summary = json.loads((tmp_path / "result.json").read_text())
    assert summary["certified"]
    kept = Run.open(tmp_path).state()
    assert kept is not None
    assert kept.recovered.reward.shape == (20, 41, 4)


def test_a_state_is_asked_about_once_but_for_a_few_repeats(tmp_path: Path) -> None:
    interview = begin(tmp_path, Source("four-paths", {"max_failure": 1.0}, seed=3, stationary_expert=True))
    asked = finish(interview, UPWARD)
    again = sum(times - 1 for times in Counter(asked).values())
    assert again == interview.history.repeats
    assert max(Counter(asked).values()) == 2, "who says the same twice is not asked a third time"
    assert 1 <= again <= len(asked) / 6


def test_the_promise_holds_in_the_true_environment(tmp_path: Path) -> None:
    """A promise with confidence 0.9 may fail in 11 of 20 interviews with probability 7e-7."""
    broken, before = 0, []
    for seed in range(20):
        interview = begin(tmp_path / str(seed), Source("gridworld", {}, seed=seed, stationary_expert=True))
        before.append(true_loss_share(interview, seed))
        finish(interview, lambda state: [UP, RIGHT, DOWN][state % 3])
        assert interview.certified
        broken += true_loss_share(interview, seed) > 0.1
    assert min(before) > 0.1, "without answers there is nothing to promise"
    assert broken <= 10


def test_an_interview_cut_short_after_every_answer_is_the_same_but_for_the_clock(tmp_path: Path) -> None:
    whole = begin(tmp_path / "whole")
    finish(whole, UPWARD)
    cut = begin(tmp_path / "cut")
    while cut.phase != "done":
        cut.answer(cut.turn, UPWARD(here(cut)))
        cut.close()
        cut = begin(tmp_path / "cut")
    assert timeless(logged(tmp_path / "cut")) == timeless(logged(tmp_path / "whole"))
    assert cut.version == whole.version


def test_a_line_that_was_cut_off_in_writing_is_dropped_and_comes_again(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    for _ in range(3):
        answer(interview, UPWARD)
    interview.close()
    log = tmp_path / ANSWERS
    content = log.read_bytes()
    log.write_bytes(content[:-7])
    again = begin(tmp_path)
    assert log.read_bytes() == content
    assert again.version == interview.version


def test_a_spoiled_line_inside_the_log_is_named(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    answer(interview, UPWARD)
    interview.close()
    log = tmp_path / ANSWERS
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], b"{]\n", *lines[2:]]))
    with pytest.raises(InputError, match="line 2"):
        begin(tmp_path)


def test_undoing_takes_the_answer_back_asks_once_more_and_keeps_the_episodes(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    for _ in range(4):
        state = here(interview)
        interview.answer(interview.turn, DOWN)
        interview.walk_on(10)
        walked = [list(walk.moves) for walk in interview.history.trajectories]
        interview.undo(interview.turn)
        assert here(interview) == state, "the same question comes again"
        assert interview.history.reopened
        assert interview.history.standing(state) is None
        assert [walk.moves for walk in interview.history.trajectories] == walked, "no episode is played anew"
        answer(interview, UPWARD)
    assert interview.history.answers == 4
    assert interview.turn == 12
    assert all(action == UPWARD(state) for state, action in interview.history.known().items())
    assert [event["event"] for event in effective(logged(tmp_path))].count("undone") == 4


def test_whoever_undoes_after_each_surprise_gains_nothing_by_it(tmp_path: Path) -> None:
    """An episode that met something unknown stays in the account, whatever is taken back."""
    interview = begin(tmp_path, GRIDWORLD)
    lost = []
    for _ in range(6):
        answer(interview, lambda state: RIGHT)
        interview.undo(interview.turn)
        interview.answer(interview.turn, RIGHT)
        interview.walk_on(10)
        lost.append(interview.certified_share)
    plain = begin(tmp_path / "plain", GRIDWORLD)
    for _ in range(6):
        answer(plain, lambda state: RIGHT)
    assert interview.history.episodes >= plain.history.episodes - 1
    assert interview.certified_share >= plain.certified_share


@pytest.mark.parametrize("source", [FOUR_PATHS, GRIDWORLD, Source("FrozenLake-v1", {}, seed=0, stationary_expert=True)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_interview_and_a_run_of_the_same_answers_end_alike(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the same code, if the agent never looks around: same counts, same policy, same certificate."""
    monkeypatch.setattr(dialogue, "next_mode", lambda history, can_guess: "asked")
    interview = begin(tmp_path, source)
    actions = interview.environment.n_actions

    def person(state: int) -> int:
        return (3 * state + 1) % actions

    finish(interview, person)
    interviewed = work_out(interview)

    environment = open_view(source).environment
    # As of a person, nothing is imputed of who may be asked again, however rarely.
    expert = FunctionExpert(lambda step, state: person(state), stationary=True, ask_again=1e-9)
    *_, run = learn(environment, expert, interview.settings)
    assert run.stopped == "certificate"
    for name in ("visits", "answers", "starts", "move_keys", "move_counts"):
        np.testing.assert_array_equal(getattr(run.counts, name), getattr(interviewed.counts, name))
    np.testing.assert_array_equal(run.policy, interviewed.policy)
    np.testing.assert_array_equal(run.belief.recovered.reward, interviewed.belief.recovered.reward)
    assert run.certificate("policy") == interviewed.certificate("policy")
    assert run.names == interviewed.names


def test_there_is_nothing_to_undo_before_the_first_answer(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    with pytest.raises(InputError, match="no answer"):
        interview.undo(interview.turn)


def test_of_two_answers_to_one_question_only_the_first_counts(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    seen, state = interview.turn, here(interview)
    interview.answer(seen, UP)
    for late in (lambda: interview.answer(seen, DOWN), lambda: interview.skip(seen), lambda: interview.undo(seen)):
        with pytest.raises(StaleError):
            late()
    assert interview.history.standing(state) == UP
    assert interview.history.answers == 1


def test_an_action_that_does_not_exist_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    before = (tmp_path / ANSWERS).read_bytes()
    with pytest.raises(InputError, match="action 4 is not one of 0 to 3"):
        interview.answer(interview.turn, 4)
    assert (tmp_path / ANSWERS).read_bytes() == before


def test_who_does_not_know_is_asked_again_in_later_episodes_and_then_left_alone(tmp_path: Path) -> None:
    interview = begin(tmp_path, GRIDWORLD)
    asked: Counter[tuple[int, int]] = Counter()
    skipped: Counter[int] = Counter()
    while interview.phase != "done":
        state, walk = here(interview), interview.history.trajectory
        assert walk is not None
        asked[walk.number, state] += 1
        skipped[state] += 1
        interview.skip(interview.turn)
        interview.walk_on(10)
    assert set(asked.values()) == {1}
    assert set(skipped.values()) == {MAX_SKIPS}
    assert not interview.certified
    assert interview.history.episodes_since_user_action == QUIET_EPISODES
    assert interview.history.skips == sum(skipped.values())


def test_the_agent_and_the_log_come_to_an_end_whatever_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "MOST_WALKED", 300)
    interview = begin(tmp_path)
    while interview.phase == "asking":
        answer(interview, lambda state: state % 4)
    walked = interview.history.samples
    assert 300 <= walked < 400
    for _ in range(3):
        interview.finish(interview.turn)
        interview.go_on(interview.turn)
        interview.walk_on(10)
        assert (interview.phase, interview.history.samples) == ("done", walked)
    work_out(interview)
    assert any(f"{walked} steps, as many as it may" in line for line in view(interview)["outcome"]["lines"])
    interview.start_again(interview.turn)
    assert (interview.phase, interview.history.samples) == ("walking", 0), "what is forgotten does not count"

    monkeypatch.setattr(driver, "MOST_LOGGED", interview.log.size - 1)
    before, turn = logged(tmp_path), interview.turn
    for refused in (lambda: interview.change_mode(turn, "play"), lambda: interview.finish(turn)):
        with pytest.raises(InputError, match=r"answers\.jsonl is full"):
            refused()
    assert (logged(tmp_path), interview.turn) == (before, turn)


def test_not_knowing_at_a_repeated_question_moves_on(tmp_path: Path) -> None:
    interview = begin(tmp_path, Source("four-paths", {"max_failure": 1.0}, seed=3, stationary_expert=True))
    skipped: list[tuple[int, int]] = []
    while interview.phase != "done":
        question = interview.asked
        assert isinstance(question, Question)
        if question.again:
            assert question.state not in [state for state, _ in skipped]
            known = interview.history.standing(question.state)
            skipped.append((question.state, interview.history.answers))
            assert "twice on purpose" in view(interview)["question"]["why"]
            interview.skip(interview.turn)
            interview.close()
            interview = begin(tmp_path, interview.source)
            assert interview.history.standing(question.state) == known, "what was said before still stands"
        else:
            answer(interview, UPWARD)
    assert interview.certified
    answers = [after for _, after in skipped]
    assert answers
    assert min(np.diff(answers), default=FIRST_REPEAT) >= FIRST_REPEAT, "another one does not come at once"
    assert interview.history.repeats == 0


def test_taking_back_a_repeated_answer_asks_again(tmp_path: Path) -> None:
    interview = begin(tmp_path, Source("four-paths", {"max_failure": 1.0}, seed=3, stationary_expert=True))
    while not (isinstance(interview.asked, Question) and interview.asked.again):
        answer(interview, UPWARD)
    state = answer(interview, lambda state: (UPWARD(state) + 1) % 4)
    assert not interview.certified
    assert (interview.history.repeats, interview.history.contradictions) == (1, 1)
    interview.undo(interview.turn)
    assert (interview.history.reopened is not None, here(interview)) == (True, state)
    assert (interview.history.repeats, interview.history.contradictory()) == (0, {})
    answer(interview, UPWARD)
    assert (interview.history.repeats, interview.history.contradictions) == (1, 0)


def test_nothing_is_promised_to_whoever_never_says_the_same_twice(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    asked: Counter[int] = Counter()

    def careless(state: int) -> int:
        asked[state] += 1
        return (UPWARD(state) + asked[state] - 1) % 4

    finish(interview, careless)
    work_out(interview)
    history, shown = interview.history, view(interview)
    assert history.contradictions == history.repeats > 0
    assert interview.engine.belief.certified("policy"), "the answers alone would have been enough"
    assert not shown["outcome"]["certified"]
    assert shown["gauge"]["words"].startswith("Nothing is promised")
    assert not any(" enough" in line for line in shown["outcome"]["lines"])


def test_the_page_says_what_is_true(tmp_path: Path) -> None:
    interview = begin(tmp_path, Source("four-paths", {"max_failure": 1.0}, seed=3, stationary_expert=True))
    assert "may come twice" in view(interview)["answer_errors"]
    reasons = Counter[str]()
    while interview.phase != "done":
        shown, question = view(interview), interview.asked
        assert isinstance(question, Question)
        often = re.search(r"came up in (\d+) of (\d+) episodes", shown["question"]["why"])
        if often:
            walks = [walk for walk in interview.history.trajectories if walk.over]
            met = sum(any(move[1] == question.state for move in walk.moves) for walk in walks)
            assert (met, len(walks)) == (int(often[1]), int(often[2]))
        repeated = question.state in interview.history.known()
        assert ("on purpose" in shown["question"]["why"]) == repeated
        assert not (repeated and "does not know" in shown["question"]["why"])
        reasons[" ".join(shown["question"]["why"].split()[:3])] += 1
        answer(interview, UPWARD)
    assert reasons["You were asked"] == interview.history.repeats > 0
    assert reasons["You have not"]


def test_the_last_screen_says_what_is_true_of_someone_who_said_little(tmp_path: Path) -> None:
    interview = begin(tmp_path, GRIDWORLD)
    answer(interview, lambda state: RIGHT)
    while interview.phase != "done":
        interview.skip(interview.turn)
        interview.walk_on(10)
    work_out(interview)
    shown = view(interview)
    text = " ".join([*shown["outcome"]["lines"], shown["gauge"]["words"], shown["answer_errors"]])
    assert "You gave 1 answer;" in text
    assert "yet" not in text
    assert "It stops at" not in text
    assert "No question came twice" in text
    assert "you did not say what you would do" in text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_lake_that_is_not_slippery_is_not_called_so(tmp_path: Path) -> None:
    source = Source("FrozenLake-v1", {"is_slippery": False}, seed=0, stationary_expert=True)
    assert "slip" not in about(begin(tmp_path, source))["brief"].lower()


def test_skipping_does_not_keep_the_certificate_away_for_good(tmp_path: Path) -> None:
    interview = begin(tmp_path, GRIDWORLD)
    for _ in range(3):
        interview.skip(interview.turn)
        interview.walk_on(10)
    finish(interview, lambda state: RIGHT)
    assert interview.certified


class Wavering:
    """Someone who gives another answer when asked about a state for the second time, and then the first one again."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()

    def __call__(self, state: int) -> int:
        self.asked[state] += 1
        return LEFT if self.asked[state] == 2 else UPWARD(state)


def test_contradictions_are_counted_and_can_be_put_right(tmp_path: Path) -> None:
    interview = begin(tmp_path, Source("four-paths", {"max_failure": 1.0}, seed=3, stationary_expert=True))
    person = Wavering()
    finish(interview, person)
    wavered = {state for state, times in person.asked.items() if times > 1}
    assert wavered
    assert interview.history.contradictions >= len(wavered)
    assert max(person.asked.values()) <= MAX_VOTES

    work_out(interview)
    shown = view(interview)
    assert {found["state"] for found in shown["contradictions"]} == wavered
    assert "another answer" in shown["answer_errors"] or "something else" in shown["answer_errors"]
    assert not interview.certified, "the promise rests on answers that contradict each other"
    assert interview.certified_share == 1.0
    assert not shown["outcome"]["certified"]
    several = sum(times > 1 for times in person.asked.values())
    told = f"{len(wavered)} of {several} situation"
    assert shown["gauge"]["words"].startswith("Nothing is promised")
    assert told in shown["gauge"]["words"]
    assert not shown["gauge"]["reached"]
    assert not json.loads((tmp_path / "result.json").read_text())["certified"]
    while contradictions := view(interview)["contradictions"]:
        state = contradictions[0]["state"]
        interview.correct(interview.turn, state, UPWARD(state))
        interview.walk_on(10)
    for state in wavered:
        assert interview.history.standing(state) == UPWARD(state)
    finish(interview, UPWARD)
    assert interview.certified


def test_what_was_won_with_a_wrong_answer_is_taken_back_when_it_is_put_right(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    finish(interview, UPWARD)
    assert interview.certified
    interview.correct(interview.turn, 0, DOWN)
    assert interview.certified_share == 1.0, "every episode so far left the middle the wrong way"
    interview.undo(interview.turn)
    assert interview.certified
    interview.correct(interview.turn, 0, UP)
    assert interview.certified, "what was said again is not put right, but confirmed"


def test_the_incremental_and_the_recomputed_account_agree(tmp_path: Path) -> None:
    interview = begin(tmp_path, GRIDWORLD)
    person = Wavering()
    for number in range(14):
        if interview.phase == "done":
            break
        answer(interview, person)
        if number % 5 == 3:
            interview.undo(interview.turn)
            interview.walk_on(10)
    again = begin(tmp_path, GRIDWORLD)
    assert again.version == interview.version
    mine, theirs = interview.engine.belief, again.engine.belief
    assert mine.evidence.keys() == theirs.evidence.keys()
    for name, array in mine.evidence["policy"].items():
        np.testing.assert_array_equal(array, theirs.evidence["policy"][name])
    for name in ("visits", "answers", "starts", "move_keys", "move_counts"):
        np.testing.assert_array_equal(getattr(mine.estimate.counts, name), getattr(theirs.estimate.counts, name))
    np.testing.assert_array_equal(interview.preview().policy, again.preview().policy)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def half(file: Any, content: bytes) -> None:
    file.write(content[: len(content) // 2])
    full()


def test_what_was_before_a_new_start_is_not_read_again_and_counts_the_same(tmp_path: Path) -> None:
    """A log grows with every new start; what it takes to compute everything again does not."""
    interview = begin(tmp_path)
    for number in range(1, 4):
        for _ in range(2):
            answer(interview, wants_the_end_of(UP))
        interview.correct(interview.turn, next(iter(interview.history.known())), RIGHT)
        interview.start_again(interview.turn)
        lines = len(list(interview.log))
        assert interview.history.earlier.lines == lines
        assert list(interview.log.after(lines)) == []
        whole = History.of(interview.log)
        assert whole.earlier == interview.history.earlier
        assert (whole.turn, whole.times_begun, whole.spent) == (4 * number, number, interview.history.spent)
        assert whole.restarts == whole.spent >= number
        interview.walk_on(10)
        again, whole = History.of(interview.log.after(lines), interview.history.earlier), History.of(interview.log)
        assert (again.turn, again.spent, again.samples) == (whole.turn, whole.spent, whole.samples)
    with (tmp_path / "answers.jsonl").open("ab") as file:
        file.write(b'{"event":"answer"}\n')
    with pytest.raises(InputError, match=f"line {len(list(interview.log))} does not fit"):
        Interview.open(tmp_path, interview.source, interview.accuracy)


@pytest.mark.parametrize(("part", "failing"), [(os, "fsync"), (files, "_write_all")])
def test_an_answer_that_cannot_be_written_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: Any, failing: str
) -> None:
    interview = begin(tmp_path)
    before, state, turn = (tmp_path / ANSWERS).read_bytes(), here(interview), interview.turn
    with monkeypatch.context() as patched:
        patched.setattr(part, failing, half if failing == "_write_all" else full)
        for _ in range(2):
            with pytest.raises(InputError, match="No space left"):
                interview.answer(interview.turn, UP)
            assert "No space left" in view(interview)["trouble"]
    assert (tmp_path / ANSWERS).read_bytes() == before
    assert (interview.history.answers, interview.turn, here(interview)) == (0, turn, state)
    assert "No space left" in view(interview)["trouble"], "nothing was mended yet"
    answer(interview, UPWARD)
    assert interview.history.answers == 1
    assert view(interview)["trouble"] is None


def test_what_the_agent_did_waits_until_it_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, interview = begin(tmp_path / "whole"), begin(tmp_path / "full")
    while whole.phase != "done":
        answer(whole, UPWARD)
        interview.answer(interview.turn, UPWARD(here(interview)))
        before = interview.version
        with monkeypatch.context() as patched:
            patched.setattr(files, "_write_all", half)
            for _ in range(2):
                with pytest.raises(InputError, match="No space left"):
                    interview.walk_on(10)
            assert interview.phase == "walking", "neither over nor at a question before it is in the log"
            assert interview.version == before
            assert interview.trouble is not None
            tag_of_trouble = tag(interview)
        interview.walk_on(10)
        assert interview.trouble is None
        assert tag(interview) != tag_of_trouble
    assert timeless(logged(tmp_path / "full")) == timeless(logged(tmp_path / "whole"))


@pytest.mark.parametrize("chance", range(4))
def test_a_folder_can_be_opened_whatever_write_failed_and_whatever_was_done_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chance: int
) -> None:
    rng, write = np.random.default_rng(chance), files._write_all

    def now_and_then(file: Any, content: bytes) -> None:
        (half if rng.random() < 0.2 else write)(file, content)

    interview, refused = begin(tmp_path, GRIDWORLD), list[str]()
    monkeypatch.setattr(files, "_write_all", now_and_then)
    for _ in range(30):
        try:
            interview.walk_on(10)
            if rng.random() < 0.2 and interview.history.said:
                interview.undo(interview.turn)
            elif interview.phase == "asking":
                interview.answer(interview.turn, int(rng.integers(4)))
        except InputError as error:
            refused.append(str(error))
    assert refused
    assert all("No space left" in error for error in refused)
    monkeypatch.undo()
    interview.walk_on(10)
    again = begin(tmp_path, GRIDWORLD)
    assert again.version == interview.version
    assert again.history.known() == interview.history.known()
    np.testing.assert_array_equal(again.preview().policy, interview.preview().policy)


def test_it_is_over_when_the_result_is_in_the_folder_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interview = begin(tmp_path)
    finish(interview, UPWARD)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(InputError, match="No space left"):
            work_out(interview)
        shown = view(interview)
        assert shown["phase"] == "thinking"
        assert shown["outcome"] is None
        assert "No space left" in shown["trouble"]
    work_out(interview)
    shown = view(interview)
    assert (shown["phase"], shown["trouble"]) == ("done", None)
    assert (tmp_path / "result.json").exists()


def test_a_result_that_holds_no_more_is_taken_away(tmp_path: Path) -> None:
    interview = begin(tmp_path)
    finish(interview, UPWARD)
    work_out(interview)
    assert set(interview.files()) == {ANSWERS, "interview.json", *RESULTS}
    interview.undo(interview.turn)
    assert set(interview.files()) == {ANSWERS, "interview.json"}
    assert not (tmp_path / "result.json").exists()
    assert not any((tmp_path / name).exists() for name in RESULTS)
    interview.answer(interview.turn, UPWARD(here(interview)))
    interview.walk_on(10)
    finish(interview, UPWARD)
    work_out(interview)
    assert json.loads((tmp_path / "result.json").read_text())["answers"] == interview.history.answers


@pytest.mark.skipif(os.name == "nt", reason="modes are other ones there")
def test_only_its_owner_can_look_into_an_interview(tmp_path: Path) -> None:
    interview = begin(tmp_path / "new")
    finish(interview, UPWARD)
    work_out(interview)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    modes = {name: (tmp_path / "new" / name).stat().st_mode & 0o777 for name in interview.files()}
    assert modes == dict.fromkeys(modes, 0o600)


def test_a_start_that_failed_is_not_in_the_way_of_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="horizon"):
        begin(tmp_path, Source("Blackjack-v1", {}, seed=0, stationary_expert=True))
    interview = begin(tmp_path, Source("Blackjack-v1", {}, seed=0, stationary_expert=True, horizon=5))
    assert interview.phase == "asking"
    interview.close()
    assert begin(tmp_path, FOUR_PATHS).phase == "asking", "nothing was answered that could be lost"


ANSWER = {"event": "answer", "state": 0, "step": 0, "action": 1}
WALK = {"event": "walk", "episode": 0, "step": 0, "path": [0, 1, 2], "stakes": {}}


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"event": "dance"},
        {"event": ["answer"]},
        {"event": "undo"},
        {"event": "answer"},
        ANSWER | {"action": -1},
        ANSWER | {"action": True},
        ANSWER | {"action": "1"},
        ANSWER | {"state": 1.0},
        {"event": "skip", "state": 0, "step": 0},
        {"event": "correct", "state": 0, "action": 0},
        WALK | {"path": []},
        WALK | {"path": [0, 1]},
        WALK | {"path": 3},
        WALK | {"episode": 1},
        WALK | {"step": 2},
        WALK | {"stakes": [1]},
        WALK | {"stakes": {"policy": 2}},
        WALK | {"stakes": {"policy": "x"}},
        {"event": "walk", "episode": 0, "step": 0, "path": [0, 1, 2]},
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, line: Event) -> None:
    Interview.open(tmp_path, FOUR_PATHS, Accuracy()).close()
    (tmp_path / ANSWERS).write_text(json.dumps(line) + "\n")
    with pytest.raises(InputError, match=r"answers\.jsonl, line 1 does not fit"):
        begin(tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        [WALK, ANSWER | {"action": 4}],
        [WALK, ANSWER | {"state": 41}],
        [WALK, ANSWER | {"step": 20}],
        [WALK | {"path": [0, 1, 99]}],
        [WALK | {"path": [0, 9, 1]}],
        [WALK | {"path": [0] + 30 * [1, 0]}],
    ],
)
def test_a_log_of_another_environment_is_refused(tmp_path: Path, lines: list[Event]) -> None:
    Interview.open(tmp_path, FOUR_PATHS, Accuracy()).close()
    (tmp_path / ANSWERS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match=r"answers\.jsonl is of another environment"):
        begin(tmp_path)


def test_the_number_of_questions_to_come_is_about_right_from_half_way_on(tmp_path: Path) -> None:
    """As the page says it: never more than there are states left."""
    for seed in range(3):
        source = Source("gridworld", {"size": 5, "horizon": 8}, seed=seed, stationary_expert=True)
        interview = begin(tmp_path / str(seed), source)
        guesses: list[tuple[int, int]] = []
        while interview.phase != "done":
            words = view(interview)["progress"]["words"]
            if "expected" in words:
                told = re.search(r"\d+", words)
                guesses.append((len(interview.history.known()), int(told.group()) if told else 0))
            answer(interview, lambda state: RIGHT)
        total = len(interview.history.known())
        errors = [abs(known + expected - total) for known, expected in guesses]
        assert len(guesses) >= 5
        assert np.median(errors[len(errors) // 2 :]) <= 0.25 * total
        assert guesses[-1][1] <= 3


def test_settings_of_another_interview_and_folders_of_something_else_are_refused(tmp_path: Path) -> None:
    answer(begin(tmp_path), UPWARD)
    with pytest.raises(InputError, match="other settings"):
        Interview.open(tmp_path, GRIDWORLD, Accuracy())
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "notes.txt").write_text("mine")
    (tmp_path / "else").chmod(0o755)
    with pytest.raises(InputError, match="no interview"):
        Interview.open(tmp_path / "else", FOUR_PATHS, Accuracy())
    assert (tmp_path / "else").stat().st_mode & 0o777 == 0o755, "what is not ours stays as it is"
    with pytest.raises(InputError, match="epsilon must be between"):
        Accuracy(epsilon=2.0)


def test_a_folder_is_for_one_server_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with alone(folder, "busy"), pytest.raises(InputError, match="in use: busy"), alone(folder, "busy"):
        pass
    with alone(folder, "busy"):
        pass


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("repeats", [1, 5, 20])
def test_the_interval_for_answer_errors_covers_the_true_rate(rate: float, repeats: int) -> None:
    disagreement = 1 - (1 - rate) ** 2
    covered = 0.0
    for contradicted in range(repeats + 1):
        found = answer_errors(repeats, contradicted)
        assert found.low <= found.high
        covered += float(binom.pmf(contradicted, repeats, disagreement)) * (found.low <= rate <= found.high)
    assert covered >= 0.9


@pytest.mark.parametrize(("states", "rate"), [(40, 0.03), (40, 0.25), (200, 0.1)])
def test_the_interval_covers_the_rate_of_people_who_err(rate: float, states: int) -> None:
    """The events of interviews in which every state is asked about twice, and once more where two answers differ.

    Of 200 intervals that hold with 90 % each, 156 or fewer hold with a probability below 1e-6.
    """
    rng, held, counted_all = np.random.default_rng(0), 0, 0
    for _ in range(200):
        history = History()

        def ask(state: int, history: History = history) -> None:
            wrong = rng.random() < rate
            action = int(rng.integers(1, 4)) if wrong else 0
            history.apply({"event": "answer", "state": state, "step": 0, "action": action})

        for _ in range(2):
            for state in range(states):
                ask(state)
        again = [state for state, votes in history.votes.items() if votes.tied]
        for state in again:
            ask(state)
        assert history.repeats == states
        found = answer_errors(history.repeats, history.contradictions)
        held += found.low <= rate <= found.high
        third = sum(history.votes[state].votes[2] != history.votes[state].votes[1] for state in again)
        naive = answer_errors(states + len(again), history.contradictions + third)
        counted_all += naive.low <= rate <= naive.high
    assert held > 156
    assert counted_all < held, "third answers come only where two differ, so they tell of more errors than there are"


@pytest.mark.parametrize("alike", [True, False])
def test_the_interval_holds_whether_or_not_errors_are_alike(alike: bool) -> None:
    rate, repeats = 0.2, 60
    disagreement = 2 * rate * (1 - rate) if alike else 1 - (1 - rate) ** 2
    contradicted = np.arange(repeats + 1)
    found = [answer_errors(repeats, int(number)) for number in contradicted]
    holds = np.array([one.low <= rate <= one.high for one in found])
    assert binom.pmf(contradicted, repeats, disagreement)[holds].sum() >= 0.9


def test_more_contradictions_mean_more_answer_errors() -> None:
    guesses = [answer_errors(10, contradicted).guess for contradicted in range(11)]
    assert guesses == sorted(guesses)
    assert 0 < answer_errors(0, 0).guess < 0.1
    assert (answer_errors(0, 0).low, answer_errors(0, 0).high) == (0.0, 1.0)


def test_keys_are_arrows_where_actions_point_and_never_taken_twice() -> None:
    still = (0.0, 0.0)
    taxi = with_keys([("south", (0, -1)), ("north", (0, 1)), ("pick up", still), ("drop off", still)])
    assert [action.key for action in taxi] == ["ArrowDown", "ArrowUp", "p", "d"]
    alike = with_keys([(f"a{i}", still) for i in range(1, 12)])
    assert [action.key for action in alike] == [*"1234567890", ""]
    reserved = with_keys([("undo", still), ("go", still)])
    assert [action.key for action in reserved] == ["1", "2"], "U is for taking back"


def test_a_picture_survives_being_written_as_png() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    content = png(pixels)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (7, 5)
    length = struct.unpack(">I", content[33:37])[0]
    rows = np.frombuffer(zlib.decompress(content[41 : 41 + length]), dtype=np.uint8).reshape(5, 22)
    np.testing.assert_array_equal(rows[:, 1:].reshape(5, 7, 3), pixels)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_gymnasium_environment_is_shown_and_interrupted_like_any_other(tmp_path: Path) -> None:
    source = Source("FrozenLake-v1", {}, seed=0, stationary_expert=True)
    interview = begin(tmp_path, source)
    while interview.phase != "done":
        question = view(interview)["question"]
        assert question["picture"].startswith("data:image/png;base64,")
        assert question["where"].startswith("Row ")
        interview.answer(interview.turn, here(interview) % 4)
        interview.close()
        interview = begin(tmp_path, source)
    assert interview.certified
    learned = work_out(interview)
    for state, action in interview.history.known().items():
        assert (learned.policy[:, state] == action).all()
