"""An interview without a page: a person drives the engine, and a log remembers. No thread ever waits for a person."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from dataclasses import replace as changed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from aceirl.collect import Answers, Episode, Reply
from aceirl.counts import ExpertKind
from aceirl.engine import Engine
from aceirl.errors import InputError
from aceirl.experts.demonstrations import DEMONSTRATIONS
from aceirl.files import DiskError, Event, Log, disk, replace
from aceirl.protocols import Question
from aceirl.runs import CONFIGURATION as RUN
from aceirl.runs import HERE, RECORDS, STATE, Run
from aceirl.settings import Settings
from aceirl.sources import Source
from aceirl.turns import Turn
from aceirl.web.answer_errors import answer_errors
from aceirl.web.environment_view import open_view
from aceirl.web.history import USER_ACTIONS, History, effective, last_user_action

CONFIGURATION, ANSWERS, RESULT = "interview.json", "answers.jsonl", "result.json"

# What is there when the interview is over; without the first of them the folder is not yet a run, or not any more.
RESULTS = (RUN, RECORDS, STATE, DEMONSTRATIONS, RESULT)
FORMAT = 2

# The first question that comes twice comes after so many answers, and the next ones after some number in the range.
FIRST_REPEAT, LATER_REPEATS = 6, (9, 15)

# A question is not repeated before so many others were answered. It comes a third time if two answers differ.
REST, MAX_VOTES = 4, 3

# So many episodes in a row without a question, and nothing is left to ask.
QUIET_EPISODES = 300

# A reward is inferred when there are a quarter more samples than the last time; in between the page shows a glance.
INFER_AFTER_GROWTH = 0.25

# A stream of randomness of the interview's own: when a question comes twice.
REPEAT = 2

PERSON = ExpertKind(deterministic=True, stationary=True)

Phase = Literal["asking", "walking", "done"]


class StaleError(Exception):
    """The answer is to a question that is no longer the current one."""


@dataclass(frozen=True)
class Accuracy:
    """What is asked of the certificate: a loss of at most a share `epsilon`, with confidence `1 - delta`."""

    epsilon: float = 0.1
    delta: float = 0.1

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise InputError(f"{name} must be between 0 and 1, got {value!r}")


class Interview:
    """The questions and answers in a folder.

    The log in `answers.jsonl` is the truth; everything else is computed from it. An event is logged before it is taken
    in, so a write that fails changes nothing; `trouble` says why it failed until a write works again. `turn` counts
    what the person did, undoing included, and names the current question: whoever acts says which turn they saw, and is
    refused if it has passed, so of two answers to one question only the first counts. When it is over, the folder is
    also a run, whose expert are the demonstrations beside it.
    """

    def __init__(self, folder: Path, source: Source, accuracy: Accuracy) -> None:
        self.folder, self.source, self.accuracy = folder, source, accuracy
        self.view = open_view(source)
        self.environment = self.view.environment
        self.settings = Settings(
            strategy="guided",
            epsilon=accuracy.epsilon * self.environment.horizon,
            delta=accuracy.delta,
            max_samples=10**9,
            infer_after_growth=INFER_AFTER_GROWTH,
            seed=source.seed,
        )
        self.log = Log(folder / ANSWERS)
        self.trouble: str | None = None
        self.learned: Turn | None = None
        self.learned_version = (0, 0)
        self.kept_version: tuple[int, int] | None = None
        self._step: Question | Turn | None = None
        self._question: Question | None = None
        self._reopened: Question | None = None
        self._shown: tuple[int, float] | None = None
        try:
            self._rebuild()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, folder: Path, source: Source, accuracy: Accuracy) -> Interview:
        """The interview in a folder that exists, begun if there is none. From now on only its owner can read it.

        One with other settings gives way if nothing was answered in it, as after a start that failed.
        """
        wanted = {"format": FORMAT, "source": asdict(source), "accuracy": asdict(accuracy)}
        wanted = json.loads(json.dumps(wanted))
        path = folder / CONFIGURATION
        if not path.exists() and any(not found.name.startswith(".") for found in folder.iterdir()):
            raise InputError(f"{folder} has files but no interview; choose another folder with --out")
        if not path.exists() or _configuration(path) != wanted:
            if _has_answers(folder / ANSWERS):
                raise InputError(f"{folder} holds an interview with other settings; choose another folder with --out")
            with disk(path):
                (folder / ANSWERS).unlink(missing_ok=True)
                replace(path, json.dumps(wanted, indent=2).encode(), private=True)
        with suppress(OSError):  # not every disk knows owners
            folder.chmod(0o700)
        return cls(folder, source, accuracy)

    def close(self) -> None:
        """Nothing more is written."""
        self.log.close()

    # What the person does

    def answer(self, turn: int, action: int) -> None:
        """What the person would do in the current situation."""
        question = self._asked(turn)
        self._check_action(action)
        event: Event = {"event": "answer", "state": question.state, "step": question.step, "action": action}
        if self._do(event | self._names(question.state, action) | self._seconds()) or self._reopened is not None:
            self._rebuild()
        else:
            standing = self.history.standing(question.state)
            assert standing is not None
            self.engine.tell(standing)
        self._reopened = self._question = None

    def skip(self, turn: int) -> None:
        """The person does not know; the agent does something, and goes on."""
        question = self._asked(turn)
        event: Event = {"event": "skip", "state": question.state, "step": question.step}
        self._do(event | self._names(question.state) | self._seconds())
        if self._reopened is not None:
            self._rebuild()
        else:
            self.engine.tell(Reply.SKIP)
            self._question = None

    def correct(self, turn: int, state: int, action: int) -> None:
        """What the person really would do in a state about which they said different things."""
        self._check_turn(turn)
        self._check_action(action)
        if self.history.standing(state) is None:
            raise InputError(f"state {state} was never answered, so there is nothing to put right")
        event: Event = {"event": "correct", "state": state, "action": action}
        self._do(event | self._names(state, action) | {"seconds": None})
        self._rebuild()

    def undo(self, turn: int) -> None:
        """Take back the last thing the person did, and ask about it once more; the episodes stay as they were.

        To play an episode again that had a surprise in it would make the promise unsound.
        """
        self._check_turn(turn)
        taken_back = last_user_action(self.log)
        if taken_back is None:
            raise InputError("there is no answer to take back")
        self._keep({"event": "undo"})
        self._rebuild()
        if taken_back["event"] != "correct":
            self._reopened = Question(taken_back["step"], taken_back["state"], (), np.random.default_rng(0))

    def question_shown(self) -> None:
        """The person has the current question before them; how long they take is counted from the first time."""
        if self.phase == "asking" and (self._shown is None or self._shown[0] != self.turn):
            self._shown = self.turn, time.monotonic()

    # What the agent does

    @property
    def question(self) -> Question | None:
        """What the person is asked now; one that was taken back comes before all others."""
        return self._reopened or self._question

    @property
    def reopened(self) -> bool:
        """Whether the question is one whose answer was taken back, and not about where the agent is now."""
        return self._reopened is not None

    @property
    def phase(self) -> Phase:
        """Whether the person is asked, the agent acts on its own, or the interview is over."""
        if self._reopened is not None:
            return "asking"
        if self._step is not None:
            return "walking"
        if self.engine.belief.certified("policy") or self.history.episodes_since_user_action >= QUIET_EPISODES:
            return "done"
        return "asking" if self._question is not None else "walking"

    def walk_on(self, seconds: float) -> None:
        """Let the agent act on its own until the person is needed, all is done, or the time is up."""
        deadline = time.perf_counter() + seconds
        while self.phase == "walking" and time.perf_counter() < deadline:
            if self._step is None:
                self._step = self.engine.ask()
            self._keep_step()

    # What is known

    @property
    def certified_share(self) -> float:
        """The certified loss against the person, as a share of the most an episode can be worth.

        Nothing is certified as long as the person has said different things of one state and has not put it right: the
        promise takes for granted that they would do what they said.
        """
        belief = self.engine.belief
        if self.history.contradictory():
            return 1.0
        return belief.certificates["policy"].value(belief) / belief.shape[0]

    @property
    def certified(self) -> bool:
        """Whether the policy certificate is as good as was asked."""
        return not self.history.contradictory() and self.engine.belief.certified("policy")

    @property
    def version(self) -> tuple[int, int]:
        """The moment: what the person and the agent have done so far."""
        return self.turn, self.history.samples

    def glance(self) -> Turn:
        """What is known now, as a turn from which nothing has been worked out yet.

        The last one also has how often the person said the same again: what they contradicted is not certified.
        """
        walk = self.history.walk
        if walk is None or walk.over:
            turn = self.engine.last_turn
        else:
            turn = self.engine.glance(self.history.recorded()[-1].episode)
        return turn.with_repeats(self.history.repeated(turn.counts.shape[1])) if self.phase == "done" else turn

    def adopt(self, turn: Turn, version: tuple[int, int]) -> None:
        """Take over what was worked out, and leave it in the folder if it is the last word."""
        self.learned, self.learned_version = turn, version
        if self.phase == "done" and version == self.version:
            result = json.dumps(self.summary(), indent=2, ensure_ascii=False).encode()
            lines = "".join(json.dumps(line) + "\n" for line in self.demonstrations())
            with self._writing(), disk(self.folder):
                replace(self.folder / DEMONSTRATIONS, lines.encode(), private=True)
                Run.written(self.folder, self.settings, changed(self.source, expert=HERE), turn, "questions")
                replace(self.folder / RESULT, result, private=True)
            self.kept_version = version

    @property
    def files(self) -> list[Path]:
        """The files for the person: the log, and the result if it is the present one."""
        results = RESULTS if self.kept_version == self.version else ()
        return [self.folder / name for name in (CONFIGURATION, ANSWERS, *results)]

    def demonstrations(self) -> list[dict[str, Any]]:
        """The answers that stand, as `DemonstrationExpert` reads them: with names, and when each was last given."""
        given = {
            (event["state"], event["action"]): event
            for event in effective(self.log)
            if event["event"] in ("answer", "correct")
        }
        lines = []
        for state, action in sorted(self.history.known().items()):
            observation, does = self.view.demonstrated(state, action)
            line = {"observation": observation, "action": does} | self._names(state, action)
            lines.append(line | {key: given[state, action].get(key) for key in ("time", "seconds")})
        return lines

    def summary(self) -> dict[str, Any]:
        """The outcome in plain values."""
        history = self.history
        return {
            "environment": self.source.environment,
            "certified": self.certified,
            "certified_loss_share": self.certified_share,
            "asked_loss_share": self.accuracy.epsilon,
            "confidence": 1 - self.accuracy.delta,
            "answers": history.answers,
            "skipped": history.skips,
            "episodes": history.episodes,
            "steps": history.samples,
            "answer_errors": asdict(answer_errors(history.repeats, history.contradictions)),
            "answers_by_state": {
                self.view.name(state): self.view.actions[action].name for state, action in history.known().items()
            },
            "contradictions": {
                self.view.name(state): [self.view.actions[vote].name for vote in votes.votes]
                for state, votes in history.contradictory().items()
            },
        }

    def generator(self, *name: int) -> np.random.Generator:
        """A stream of randomness of that name; the same whenever it is asked for."""
        return np.random.default_rng(np.random.SeedSequence([self.source.seed, *name]))

    def _check_turn(self, turn: int) -> None:
        if turn != self.turn:
            raise StaleError

    def _asked(self, turn: int) -> Question:
        self._check_turn(turn)
        if self.phase != "asking" or self.question is None:
            raise StaleError
        return self.question

    def _check_action(self, action: int) -> None:
        if not 0 <= action < self.environment.n_actions:
            raise InputError(f"action {action} is not one of 0 to {self.environment.n_actions - 1}")

    def _names(self, state: int, action: int | None = None) -> Event:
        """A state and an action in words."""
        named = {"state_name": self.view.name(state)}
        return named if action is None else named | {"action_name": self.view.actions[action].name}

    def _seconds(self) -> Event:
        """How long the current question has been before the person; None if that is not known."""
        if self._shown is None or self._shown[0] != self.turn:
            return {"seconds": None}
        return {"seconds": round(time.monotonic() - self._shown[1], 3)}

    def _do(self, event: Event) -> bool:
        """Log what the person did, and take it in; whether an answer that stood before has changed."""
        self._keep(event)
        self.turn += 1
        return self.history.apply(event)

    def _keep(self, event: Event) -> None:
        """Log what the person did, after all that the agent did before, and see it on the disk."""
        if self._step is not None:
            self._keep_step()
        with self._writing():
            self.log.append([event | {"time": datetime.now(UTC).isoformat(timespec="seconds")}])
        self._drop_result()

    def _keep_step(self) -> None:
        """Log what the agent did last, and take it in."""
        step = self._step
        if isinstance(step, Question):
            self._note(Episode(step.walk[0][1] if step.walk else step.state, tuple(step.walk)))
            self._question = step
        elif step is not None:
            self._note(step.episodes[0], over=True)
        self._step = None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A write that fails is remembered until one works."""
        try:
            yield
        except DiskError as error:
            self.trouble = str(error)
            raise
        self.trouble = None

    def _note(self, episode: Episode, *, over: bool = False) -> None:
        """Take in the part of an episode that is not in the history yet.

        It need not be on the disk at once: no answer is in it, and from the same answers it would come out the same.
        """
        walk, history = self.history.walk, self.history
        begins = walk is None or walk.over
        first = 0 if begins or walk is None else walk.step
        number = 0 if walk is None else walk.number + begins
        new = episode.walk[first:]
        path = [new[0][1] if new else walk.states[-1] if walk and not begins else episode.start]
        path += [value for _, _, action, there in new for value in (action, there)]
        event: Event = {"event": "walk", "episode": number, "step": first, "path": path}
        if begins:
            event["stakes"] = {kind: wager.stake for kind, wager in self.engine.wagers.items()}
        if over:
            event["over"] = True
        names = self.engine.access.names
        if len(names) > len(history.names):
            event["names"] = list(names[len(history.names) :])
        if begins or over or new:
            with self._writing():
                self.log.append([event], wait=False)
            history.apply(event)

    def _wanted(self, step: int, state: int, answered: bool) -> bool:
        """Whether the person shall be asked, perhaps once more, to see how often they err."""
        history = self.history
        if not answered:
            return history.may_ask(state)
        votes = history.votes[state]
        if votes.settled or len(votes.votes) >= MAX_VOTES or history.answers - votes.last_answer < REST:
            return False
        if len(votes.votes) > 1:
            return votes.tied
        low, high = LATER_REPEATS
        number = history.repeats
        gap = FIRST_REPEAT if number == 0 else int(self.generator(REPEAT, number).integers(low, high + 1))
        return history.answers - history.last_repeat >= gap

    def _rebuild(self) -> None:
        """Compute everything from the log again, and bring the environment back to where the log ends."""
        events = list(self.log)
        try:
            self.history = History.of(events)
        except InputError as error:
            raise InputError(f"{self.log.path}, {error}") from error.__cause__
        self.turn = sum(event["event"] in (*USER_ACTIONS, "undo") for event in events)
        recorded = self.history.recorded()
        self.engine = Engine(self.environment, Answers(PERSON, wanted=self._wanted), self.settings)
        self.engine.access.recall(tuple(self.history.names))
        self._check_log()
        under_way = self.history.walk is not None and not self.history.walk.over
        self.engine.take(recorded[:-1] if under_way else recorded, tuple(self.history.names))
        if under_way:
            self.engine.take_up(recorded[-1])
        self._step = self._question = self._reopened = None
        if self.phase != "done":
            self._drop_result()

    def _check_log(self) -> None:
        """The states, actions and steps in a log must be those of this environment."""
        horizon, n_states, n_actions = self.engine.access.shape
        history = self.history
        states = {state for walk in history.walks for state in walk.states} | set(history.votes)
        actions = {action for walk in history.walks for action in walk.actions}
        actions |= {vote for votes in history.votes.values() for vote in votes.votes}
        steps = {walk.step - 1 for walk in history.walks} | {votes.since[1] for votes in history.votes.values()}
        for found, size in ((states, n_states), (actions, n_actions), (steps, horizon)):
            if max(found, default=0) >= size:
                raise InputError(f"{self.log.path} is of another environment")

    def _drop_result(self) -> None:
        """Remove what was left in the folder when the interview was over: it holds no more."""
        for name in RESULTS:
            with suppress(OSError):  # `files` does without it, and the next result replaces it
                (self.folder / name).unlink()

    @property
    def can_undo(self) -> bool:
        """Whether there is anything to take back."""
        return self.history.answers + self.history.skips > 0 or any(v.settled for v in self.history.votes.values())


def _configuration(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _has_answers(path: Path) -> bool:
    """Whether a person has done anything in a log."""
    if not path.exists():
        return False
    log = Log(path)
    try:
        return any(event.get("event") in USER_ACTIONS for event in log)
    finally:
        log.close()
