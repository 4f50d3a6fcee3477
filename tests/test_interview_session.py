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
from aceirl.files import Event, alone
from aceirl.loop import learn
from aceirl.sources import Source
from aceirl.web.answer_errors import answer_errors
from aceirl.web.environment_view import open_view, with_keys
from aceirl.web.history import MAX_SKIPS, effective
from aceirl.web.png import png
from aceirl.web.session import ANSWERS, MAX_VOTES, QUIET_EPISODES, Accuracy, Interview, StaleError
from aceirl.web.view import view

UPWARD = wants_the_end_of(UP)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    with all_closed():
        yield


def logged(folder: Path) -> list[Event]:
    return [json.loads(line) for line in (folder / ANSWERS).read_text().splitlines()]


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
    with np.load(tmp_path / "reward.npz") as arrays:
        assert arrays["reward"].shape == (20, 41, 4)


def test_a_state_is_asked_about_once_but_for_a_few_repeats(tmp_path: Path) -> None:
    interview = begin(tmp_path, Source("four-paths", {"max_failure": 1.0}, seed=3, stationary_expert=True))
    asked = finish(interview, UPWARD)
    again = sum(times - 1 for times in Counter(asked).values())
    assert again == interview.history.repeats
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


def test_an_interview_cut_short_after_every_answer_is_the_same_to_the_byte(tmp_path: Path) -> None:
    whole = begin(tmp_path / "whole")
    finish(whole, UPWARD)
    cut = begin(tmp_path / "cut")
    while cut.phase != "done":
        cut.answer(cut.turn, UPWARD(here(cut)))
        cut.close()
        cut = begin(tmp_path / "cut")
    assert (tmp_path / "cut" / ANSWERS).read_bytes() == (tmp_path / "whole" / ANSWERS).read_bytes()
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
        walked = [list(walk.moves) for walk in interview.history.walks]
        interview.undo(interview.turn)
        assert here(interview) == state, "the same question comes again"
        assert interview.reopened
        assert interview.history.standing(state) is None
        assert [walk.moves for walk in interview.history.walks] == walked, "no episode is played anew"
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
def test_an_interview_and_a_run_of_the_same_answers_end_alike(tmp_path: Path, source: Source) -> None:
    """They are the same code: same counts, same policy, same certificate."""
    interview = begin(tmp_path, source)
    actions = interview.environment.n_actions

    def person(state: int) -> int:
        return (3 * state + 1) % actions

    finish(interview, person)
    interviewed = work_out(interview)

    environment = open_view(source).environment
    expert = FunctionExpert(lambda step, state: person(state), stationary=True)
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
        state, walk = here(interview), interview.history.walk
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
    np.testing.assert_array_equal(interview.glance().policy, again.glance().policy)


def test_answers_that_cannot_be_written_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interview = begin(tmp_path)
    before = (tmp_path / ANSWERS).read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="No space left"):
            interview.answer(interview.turn, UP)
    assert (tmp_path / ANSWERS).read_bytes() == before
    assert interview.history.answers == 0
    answer(interview, UPWARD)
    assert interview.history.answers == 1


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
        assert len(guesses) >= 10
        assert np.median(errors[len(errors) // 2 :]) <= 0.25 * total
        assert guesses[-1][1] <= 3


def test_settings_of_another_interview_and_folders_of_something_else_are_refused(tmp_path: Path) -> None:
    begin(tmp_path)
    with pytest.raises(InputError, match="other settings"):
        Interview.open(tmp_path, GRIDWORLD, Accuracy())
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="no interview"):
        Interview.open(tmp_path / "else", FOUR_PATHS, Accuracy())
    with pytest.raises(InputError, match="epsilon must be between 0 and 1"):
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
