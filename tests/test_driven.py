"""A person who drives: histories, what is asked and learned, what a kill leaves, what is promised, and the page."""

from __future__ import annotations

import copy
import errno
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from starlette.testclient import TestClient
from typer.testing import CliRunner

import aceirl
from aceirl.certificates.gated import ASK_EVERYWHERE, Demonstrated, certify, least_episodes
from aceirl.cli import app
from aceirl.errors import InputError
from aceirl.experts.tasks import Source
from aceirl.experts.tasks.continuous import open_continuous
from aceirl.irl.belief import Target
from aceirl.learner.continuous.collect import FIRST, FIRST_STEPS, rounds
from aceirl.runs import continuous
from aceirl.runs.files import DiskError, Event
from aceirl.web.driven.buttons import MOST_BUTTONS
from aceirl.web.driven.history import Drives
from aceirl.web.driven.pages import CHANGES, application
from aceirl.web.driven.policies import known_of
from aceirl.web.driven.session import QUOTA, Session
from aceirl.web.driver import StaleError
from aceirl.web.history import Accuracy
from aceirl.web.security import Reach

LEFT, RIGHT = 0, 1
HORIZON = 12
LOOSE = Accuracy(0.8, 0.5)
PORT = 8472
JSON = {"content-type": "application/json"}


class Track(gymnasium.Env[Any, Any]):
    """A point that drifts and is pushed; an episode ends where it leaves the track."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - as Gymnasium declares it
    observation_space = spaces.Box(-2, 2, shape=(2,), dtype=np.float32)
    fields = ("place", "speed")

    def __init__(self, actions: int = 2, numbers: int = 0, bound: float = 1.0, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.action_space: spaces.Space[Any] = spaces.Discrete(actions)
        if numbers:
            self.action_space = spaces.Box(-bound, bound, shape=(numbers,), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.speed = self.np_random.uniform(-1, 1, size=2)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        push = 2.0 * int(action) - 1 if np.ndim(action) == 0 else float(action[0])
        self.speed = 0.8 * self.speed + 0.2 * push + 0.1 * self.np_random.normal()
        self.place += 0.3 * self.speed
        return self._seen(), 1.0, abs(self.place) > 1.9, False, {}

    def render(self) -> Any:
        picture = np.zeros((20, 40, 3), dtype=np.uint8)
        picture[:, int(np.clip(10 * (self.place + 2), 0, 39))] = 255
        return picture

    def _seen(self) -> Any:
        return np.clip(np.array([self.place, self.speed], dtype=np.float32), -2, 2)


class Unseen(Track):
    """The same, which nobody can look at."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()


def source(name: str = "Track", **parameters: Any) -> Source:
    return Source(f"test_driven:{name}", parameters, 0, stationary_expert=True, horizon=HORIZON)


@contextmanager
def session_in(folder: Path, accuracy: Accuracy = LOOSE) -> Iterator[Session]:
    with closing(Session.open(folder, source(), accuracy)) as opened:
        yield opened


def home(session: Session) -> int:
    """What somebody does who wants to stay in the middle."""
    place, speed = session.task.encoding.vector(session._seen)
    return int(place + speed < 0)


def begin(session: Session, way: Any) -> None:
    session.begin(session.history.turn, way)


def press(session: Session, times: int = 1) -> None:
    for _ in range(times):
        session.press(session.history.turn, home(session))


def drive(session: Session, way: Any = "drive") -> None:
    """A whole episode."""
    begin(session, way)
    while session.phase == "driving":
        press(session)


def answer_until(session: Session, answers: int) -> None:
    begin(session, "ask")
    press(session, answers - session.history.answers)


def without_times(session: Session) -> list[Event]:
    return [{name: value for name, value in event.items() if name != "time"} for event in session.log]


# Histories

DRIVEN: list[Event] = [
    {"event": "begin", "way": "drive", "known": 0},
    {"event": "person", "action": 1, "seen": [0.5]},
    {"event": "person", "action": 0, "seen": [0.25]},
    {"event": "over", "how": "ended"},
    {"event": "begin", "way": "watch", "known": 2, "looked": 7},
    {"event": "policy", "actions": [1, 1, 0, 1]},
    {"event": "over", "how": "time"},
    {"event": "take", "step": 2},
    {"event": "person", "action": 0, "seen": [0.125]},
]
TESTED: list[Event] = [
    {"event": "begin", "way": "test", "known": 0},
    {"event": "person", "action": 1, "seen": [1.0]},
]


def facts_of(history: Drives) -> dict[str, Any]:
    """All that is known but the turn: two histories with the same facts go on in the same way."""
    at = None if history.at is None else history.drives.index(history.at)
    return {name: value for name, value in vars(history).items() if name not in ("turn", "at", "_said")} | {"at": at}


def test_what_was_driven_is_answers_and_what_was_tested_is_not() -> None:
    history = Drives([*DRIVEN, *TESTED])
    assert history.answered() == ([[0.5], [0.25], [0.125]], [1, 0, 0])
    assert history.answered(2) == ([[0.5], [0.25]], [1, 0])
    assert (history.answers, history.steps, history.turn) == (3, 2 + 3 + 7, 11)
    assert history.drives[1].actions == [1, 1, 0]
    assert history.drives[1].own == [False, False, True]
    assert (history.drives[1].free, history.drives[1].over) == (3, "")


def test_undoing_leads_back_through_episodes_to_where_it_began() -> None:
    history, facts = Drives(), []
    for event in DRIVEN:
        if event["event"] == "person":
            facts.append(copy.deepcopy(facts_of(history)))
        history.apply(event)
    undo: Event = {"event": "undo"}
    for before in reversed(facts):
        history.apply(undo)
        now = facts_of(history)
        assert now["at"] == before["at"]
        for one, other in zip(now["drives"], before["drives"], strict=True):
            assert (one.actions, one.own, one.seen, one.over) == (other.actions, other.own, other.seen, other.over)
    assert history.undoable is None
    assert history.looked == 7, "steps that were taken stay taken"
    with pytest.raises(ValueError, match="nothing to undo"):
        history.apply(undo)


def test_a_test_drive_is_tried_once_finished_before_the_next_and_counts_for_one_promise() -> None:
    history = Drives([*DRIVEN, *TESTED])
    assert history.undoable is None, "whoever could try again would not drive as always"
    history.apply({"event": "begin", "way": "drive", "known": 0})
    history.apply(TESTED[0])
    assert history.at is history.tests[0]
    assert history.evidence == []
    for event in ({"event": "over", "how": "time"}, TESTED[0], {"event": "finish"}):
        history.apply(event)
    assert [test.number for test in history.tests] == [0, 1]
    assert history.evidence == history.tests[:1]
    seen_twice = copy.deepcopy(history)
    seen_twice.apply({"event": "go on", "promised": False})
    assert (len(seen_twice.evidence), seen_twice.endings) == (1, 0), "nothing was shown, so nothing was used"
    history.apply({"event": "go on", "promised": True})
    assert (history.evidence, history.endings, history.undoable) == ([], 1, None)


def test_a_log_of_something_else_is_refused_by_its_line() -> None:
    with pytest.raises(InputError, match=r"line 2 of the log is not an event of this interview: 'jump' is unknown"):
        Drives([DRIVEN[0], {"event": "jump"}])
    with pytest.raises(InputError, match="line 1 of the log is not an event of this interview: no episode is under"):
        Drives([DRIVEN[1]])


# Sessions


def test_the_first_answers_are_about_every_step_then_it_asks_where_it_is_unsure(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        begin(session, "ask")
        press(session, FIRST)
        firsts = [drive for drive in session.history.drives if not drive.known]
        assert all(all(drive.own) and drive.steps <= FIRST_STEPS for drive in firsts)
        while session._drive.known == 0:
            press(session)
        press(session, 20)
        asked = [drive for drive in session.history.drives if drive.known]
        assert sum(drive.steps for drive in asked) > 2 * sum(len(drive.seen) for drive in asked), "it acts itself"
        assert max(len(drive.seen) for drive in asked) <= QUOTA
        assert {drive.known for drive in asked} <= {20, 28, 36, 44}
        assert session.phase == "asked"
        assert [number["name"] for number in session.view()["numbers"]] == ["place", "speed"]


def test_a_policy_is_fitted_again_when_a_run_that_asks_a_function_would(tmp_path: Path) -> None:
    task = open_continuous(Track(), lambda seen: int(seen.sum() < 0), horizon=HORIZON)
    fitted = [len(state) for state in rounds(task, 0, 61, 10**6)]
    assert fitted[-1] == 61
    for answers in range(FIRST, 61):
        assert known_of(answers) == max(n for n in fitted if n <= answers)
    assert known_of(FIRST - 1) == 0


def test_killed_after_every_event_it_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    def person(session: Session, step: Callable[[Callable[[Session], None]], None]) -> None:
        step(lambda one: begin(one, "drive"))
        for _ in range(4):
            step(press)
        step(lambda one: begin(one, "ask"))
        for _ in range(26):
            step(press)
        step(lambda one: one.undo(one.history.turn))
        step(press)
        step(lambda one: begin(one, "watch"))
        step(lambda one: one.take(one.history.turn, one._drive.steps // 2))
        step(press)
        step(lambda one: one.hand_back(one.history.turn))
        step(lambda one: begin(one, "test"))
        step(press)

    (tmp_path / "whole").mkdir()
    with session_in(tmp_path / "whole") as whole:
        person(whole, lambda act: act(whole))
        killed = Session.open(tmp_path / "killed", source(), LOOSE)

        def step(act: Callable[[Session], None]) -> None:
            nonlocal killed
            act(killed)
            before, seen = copy.deepcopy(facts_of(killed.history)), killed._seen
            killed.close()
            killed = Session.open(tmp_path / "killed", source(), LOOSE)
            assert facts_of(killed.history) == before
            assert (killed._seen == seen).all()

        person(killed, step)
        assert without_times(killed) == without_times(whole)
        killed.close()


@pytest.mark.parametrize("cut", ["begin", "person", "policy"])
def test_what_the_policy_had_not_done_when_it_was_killed_it_does_when_it_is_opened(tmp_path: Path, cut: str) -> None:
    with session_in(tmp_path) as session:
        answer_until(session, 24)
        begin(session, "ask")
        press(session)
        whole, facts = session.log.content().splitlines(keepends=True), copy.deepcopy(facts_of(session.history))
    last = max(n for n, line in enumerate(whole) if json.loads(line)["event"] == cut)
    (tmp_path / "answers.jsonl").write_bytes(b"".join(whole[: last + 1]) + b'{"event": "per')
    with session_in(tmp_path) as again:
        assert facts_of(again.history) == facts


def test_an_answer_that_was_taken_back_is_known_to_no_policy(tmp_path: Path) -> None:
    with session_in(tmp_path / "a") as one, session_in(tmp_path / "b") as other:
        for session in (one, other):
            answer_until(session, 27)
        one.press(one.history.turn, 1 - home(one))  # a slip
        begin(one, "watch")
        one.undo(one.history.turn)
        for session in (one, other):
            press(session)
            begin(session, "watch")
            assert session._drive.known == 28
        assert one._drive.actions == other._drive.actions
        assert one.policies.decision(28, one._seen) == other.policies.decision(28, other._seen)


def test_taking_over_cuts_the_film_and_the_answers_change_the_next_one(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        answer_until(session, 22)
        begin(session, "watch")
        film = session.film()
        assert [frame["step"] for frame in film] == list(range(session._drive.steps + 1))
        assert all(frame["picture"].startswith("data:image/png;base64,") for frame in film)
        with pytest.raises(InputError, match="step must be from 0 to"):
            session.take(session.history.turn, session._drive.steps)
        session.take(session.history.turn, 3)
        assert (session.phase, session._drive.steps, session.view()["step"]) == ("driving", 3, 3)
        press(session, 2)
        session.hand_back(session.history.turn)
        assert session._drive.own[:6] == [False, False, False, True, True, False]
        assert session.film()[0] | {"picture": ""} == {"step": 5, "words": "you: " + one_of(session, 4), "picture": ""}
        with pytest.raises(InputError, match="step must be from 5 to"):
            session.take(session.history.turn, 4)
        begin(session, "watch")
        assert session._drive.known == 24


def one_of(session: Session, step: int) -> str:
    return session.actions[session._drive.actions[step]].name


def test_episodes_end_by_themselves_or_by_the_limit_of_time(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        drive(session)
        assert (session.phase, session._drive.over, session._drive.steps) == ("over", "time", HORIZON)
        begin(session, "drive")
        while session.phase == "driving":
            session.press(session.history.turn, 1 - home(session))
        assert session._drive.over == "ended"
        with pytest.raises(InputError, match="no episode is under way that you can drive"):
            press(session)


def test_what_comes_too_late_or_too_early_changes_nothing(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        begin(session, "drive")
        with pytest.raises(StaleError):
            session.press(0, LEFT)
        with pytest.raises(InputError, match="action must be from 0 to 1, got 2"):
            session.press(session.history.turn, 2)
        for refused in (lambda turn: session.begin(turn, "watch"), session.finish):
            with pytest.raises(InputError, match="20 more answers first"):
                refused(session.history.turn)
        for refused in (session.undo, session.go_on, session.hand_back):
            with pytest.raises(InputError):
                refused(session.history.turn)
        assert session.history.turn == 1


def test_a_full_disk_changes_nothing_and_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session_in(tmp_path) as session:
        answer_until(session, 24)
        appended = session.log.append

        def full(events: list[Event], *, wait: bool = True) -> None:
            if events[0]["event"] != "person":
                raise DiskError(f"cannot write: {errno.ENOSPC}")
            appended(events, wait=wait)

        monkeypatch.setattr(session.log, "append", full)
        with pytest.raises(DiskError):
            press(session)
        with pytest.raises(DiskError):
            press(session)
        monkeypatch.setattr(session.log, "append", appended)
        assert session.history.answers == 25
        with pytest.raises(StaleError):
            session.press(session.history.turn, LEFT)  # what the policy had still to do comes first
        press(session)
        facts = copy.deepcopy(facts_of(session.history))
    with session_in(tmp_path) as again:
        assert facts_of(again.history) == facts


# The ending


def test_without_enough_test_drives_nothing_is_promised_and_the_run_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_in(tmp_path, Accuracy()) as session:
        answer_until(session, 40)
        drive(session, "test")
        session.finish(session.history.turn)
        outcome = session.view()["outcome"]
        assert outcome["promise"].startswith("No promise: it takes 51 test drives, and you made 1.")
        assert not outcome["promised"]
        assert any(rule.startswith("action 1 if") for rule in outcome["rules"])
        film = session.film(0)
        assert film[-1]["ending"].startswith("After ")
        assert session.film(0) == film
        assert session.film(1) != film
        with pytest.raises(InputError, match="nothing to undo"):
            session.undo(session.history.turn)
    result: Any = aceirl.load(tmp_path)
    assert (result.person, result.answers, result.certificate) == (True, 40, None)
    assert "1 more episodes" in result.summary()
    assert "were not learned from" in result.summary()
    assert result.predict([-1.0, -0.5])[0] == RIGHT
    with pytest.raises(InputError, match="goes on on its page"):
        result.resume(max_answers=50)

    @dataclass
    class Recovered:
        acted: Any
        answers: int = 7

    monkeypatch.setattr(continuous, "reward_of", lambda task, *_: Recovered(task.ask([-1.0, -0.5], 0)))
    assert result.recovered == Recovered(RIGHT, 0), "the policy stands in for the person, who is not asked"
    told = CliRunner().invoke(app, ["resume", str(tmp_path)])
    assert "is an interview; go on with: aceirl interview test_driven:Track" in told.output
    shown = CliRunner().invoke(app, ["show", str(tmp_path)])
    assert "Learned from 40 answers" in shown.output
    with session_in(tmp_path, Accuracy()) as again:
        assert again.phase == "done"
        assert again.view()["outcome"] == outcome


def test_test_drives_are_evidence_for_one_promise(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        answer_until(session, 60)
        wanted = session.tests_wanted
        for _ in range(wanted + 1):
            drive(session, "test")
        session.finish(session.history.turn)
        outcome, promise = session.view()["outcome"], session._result.certificate if session._result else None
        assert promise is not None
        assert promise.opening + promise.counting == wanted, "how many count was fixed before"
        assert outcome["promised"]
        assert outcome["promise"].startswith("With 50% confidence: if it asks you where it is unsure, it loses at most")
        session.go_on(session.history.turn)
        assert not (tmp_path / "run.json").exists()
        assert (session.phase, session.view()["tests"]) == ("choose", 0)
        assert session.tests_wanted > wanted, "another promise spends from the same delta"
        assert session.history.answers == 60
        session.finish(session.history.turn)
        assert session._result is not None
        assert session._result.certificate is None
        assert session._result.progress.restarts == 1


@pytest.mark.parametrize(("share", "delta"), [(0.1, 0.1), (0.3, 0.05), (0.8, 0.5)])
def test_the_least_number_of_demonstrations_opens_a_gate_and_one_less_does_not(share: float, delta: float) -> None:
    target = Target(share * 10, delta, 1.0, None)

    def threshold(episodes: int) -> float:
        agreed = Demonstrated(np.ones(10 * episodes), np.ones(10 * episodes, dtype=bool), np.full(episodes, 10))
        return certify(agreed, target, 10, delta).threshold

    needed = least_episodes(share, delta)
    assert threshold(needed) < ASK_EVERYWHERE
    assert needed == 1 or threshold(needed - 1) == ASK_EVERYWHERE


# What cannot be driven, and what the buttons are


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("Unseen", {}, "Unseen does not draw itself .it has no render mode rgb_array., so it cannot be driven"),
        ("Track", {"actions": MOST_BUTTONS + 1}, "there are 11 actions, and a page has buttons for 10 at most"),
        ("Track", {"numbers": 3}, "an action has 3 numbers, and a page has buttons for two at most"),
        ("Track", {"numbers": 1, "bound": float("inf")}, "a page has buttons for bounded ones only"),
    ],
)
def test_what_cannot_be_driven_is_said_in_a_sentence(
    tmp_path: Path, name: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Session.open(tmp_path, source(name, **parameters), LOOSE)
    with session_in(tmp_path) as session:
        assert session.phase == "choose", "nothing was left behind"


def test_a_picture_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: Any) -> Any:
        raise gymnasium.error.DependencyNotInstalled('pygame is not installed, run `pip install "gymnasium[...]"`')

    monkeypatch.setattr(Track, "render", missing)
    with pytest.raises(InputError, match="Track cannot be drawn: pygame is not installed, run `pip install"):
        Session.open(tmp_path, source(), LOOSE)


def test_one_folder_holds_one_interview(tmp_path: Path) -> None:
    with session_in(tmp_path), pytest.raises(InputError, match="already running"):
        Session.open(tmp_path, source(), LOOSE)
    with pytest.raises(InputError, match="holds an interview with other settings"):
        Session.open(tmp_path, source(), Accuracy())
    (tmp_path / "interview.json").unlink()
    with pytest.raises(InputError, match="has files but no interview"):
        Session.open(tmp_path, source(), LOOSE)


@pytest.mark.parametrize(
    ("environment", "keys"),
    [
        ("CartPole-v1", {"push left": "ArrowLeft", "push right": "ArrowRight"}),
        (
            "MountainCar-v0",
            {"accelerate left": "ArrowLeft", "do not accelerate": "ArrowDown", "accelerate right": "ArrowRight"},
        ),
        ("Acrobot-v1", {"torque -1": "1", "no torque": "2", "torque +1": "3"}),
        (
            "Pendulum-v1",
            {"torque -2": "1", "torque -1": "2", "torque 0": "3", "torque 1": "4", "torque 2": "5"},
        ),
    ],
)
def test_actions_have_keys(tmp_path: Path, environment: str, keys: dict[str, str]) -> None:
    made = Source(environment, {}, 0, stationary_expert=True, horizon=20)
    with closing(Session.open(tmp_path, made, LOOSE)) as session:
        assert {action.name: action.key for action in session.actions} == keys
        begin(session, "drive")
        session.press(session.history.turn, len(keys) - 1)
        assert session.view()["last"] == list(keys)[-1]


# The page


@contextmanager
def served(folder: Path) -> Iterator[TestClient]:
    with session_in(folder) as session:
        base = f"http://127.0.0.1:{PORT}"
        with TestClient(application(session, Reach(PORT)), base_url=base, headers={"x-token": session.token}) as client:
            yield client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with served(tmp_path) as opened:
        yield opened


def at(client: TestClient, path: str = "") -> str:
    return f"/{client.headers['x-token']}/{path}"


def send(client: TestClient, path: str, **body: Any) -> Any:
    return client.post(at(client, path), headers=JSON, content=json.dumps(body))


def test_the_page_is_driven_over_http_and_nobody_else_can(client: TestClient) -> None:
    page = client.get(at(client))
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "test_driven:Track" in page.text
    shown = send(client, "begin", turn=0, way="drive").json()
    assert shown["phase"] == "driving"
    after = send(client, "press", turn=shown["turn"], action=LEFT).json()
    assert (after["answers"], after["step"], after["last"]) == (1, 1, "action 0")
    assert send(client, "press", turn=shown["turn"], action=LEFT).json() == after, "what is stale changes nothing"
    assert client.get(at(client, f"view?have={after['turn']}")).json() is None
    assert client.get(at(client, "view")).json() == after
    film = client.get(at(client, "film")).json()
    assert (film["turn"], [frame["step"] for frame in film["frames"]]) == (after["turn"], [0, 1])
    with zipfile.ZipFile(BytesIO(client.get(at(client, "everything.zip")).content)) as archive:
        assert sorted(archive.namelist()) == ["answers.jsonl", "interview.json"]
    assert client.get(f"/{'x' * 32}/view").status_code == 403
    elsewhere = client.post(at(client, "undo"), headers=JSON | {"origin": "http://x.example"}, content='{"turn": 2}')
    assert elsewhere.status_code == 403


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("press", {"turn": 0}, "needed are turn and action"),
        ("press", {"turn": 0, "action": "left"}, "action: input should be a valid integer"),
        ("begin", {"turn": 0, "way": "fly"}, "way: input should be 'drive', 'ask', 'watch' or 'test'"),
        ("begin", {"turn": 0, "way": "watch"}, "it knows nothing yet: give it 20 more answers first"),
        ("take", {"turn": 0, "step": 10**12}, "there is nothing to take over"),
        ("finish", {"turn": 0, "now": 1}, "now: extra inputs are not permitted"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    client: TestClient, path: str, body: dict[str, Any], said: str
) -> None:
    answer = send(client, path, **body)
    assert answer.status_code == 422
    assert said in answer.json()["error"]
    assert client.get(at(client, "view")).json()["turn"] == 0


def test_while_it_works_everybody_can_look_and_nobody_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working, go_on, pressed = threading.Event(), threading.Event(), []
    taken = Session.press

    def slow(session: Session, turn: int, action: int) -> None:
        working.set()
        assert go_on.wait(60)
        pressed.append(action)
        taken(session, turn, action)

    monkeypatch.setitem(CHANGES, "press", (slow, CHANGES["press"][1]))
    with served(tmp_path) as other:
        shown = send(other, "begin", turn=0, way="drive").json()
        with ThreadPoolExecutor(1) as tab:
            first = tab.submit(send, other, "press", turn=shown["turn"], action=LEFT)
            assert working.wait(60)
            for _ in range(5):
                assert send(other, "press", turn=shown["turn"], action=RIGHT).json() == shown
                assert other.get(at(other, "view")).json() == shown
            go_on.set()
            assert first.result().json()["answers"] == 1
    assert pressed == [LEFT]


def test_whoever_begins_again_and_again_is_told_to_wait(client: TestClient) -> None:
    turn, codes = 0, []
    for _ in range(20):
        answer = send(client, "begin", turn=turn, way="drive")
        codes.append(answer.status_code)
        turn = answer.json().get("turn", turn)
    assert codes[:8] == [200] * 8
    assert 429 in codes
