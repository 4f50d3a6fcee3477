"""A person as the expert of a continuous task: what they do changes the log, the environment follows it.

All of this runs in one thread. The log is written before anything is done, so a kill loses nothing but the answer being
given; opened again, the episode under way is repeated from its seed and its actions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.envs.described import description
from aceirl.errors import InputError
from aceirl.experts.tasks import Source
from aceirl.experts.tasks.continuous import ContinuousTask, open_continuous
from aceirl.learner.continuous.collect import (
    CALIBRATING,
    FIRST,
    FIRST_STEPS,
    LEARNING,
    Answered,
    Doubt,
    ExpertEpisodes,
    episode_seed,
)
from aceirl.learner.continuous.learning import LearningState, learn, least_demonstrations
from aceirl.learner.settings import Settings
from aceirl.runs.continuous import PERSON, ContinuousResult, ContinuousRun
from aceirl.runs.files import Event, LogFile, alone, disk
from aceirl.runs.files import replace as write
from aceirl.runs.folder import CONFIGURATION as RUN
from aceirl.runs.folder import STATE
from aceirl.web.driven.buttons import buttons, offered
from aceirl.web.driven.ending import outcome
from aceirl.web.driven.history import Drive, Drives, Over, Way
from aceirl.web.driven.policies import Policies, known_of
from aceirl.web.driven.scenes import BRIEFS, Films, NumberBars, drawing_env, picture
from aceirl.web.driver import ANSWERS, CONFIGURATION, StaleError, configuration_in
from aceirl.web.history import Accuracy
from aceirl.web.people import BUSY
from aceirl.web.security import lasting_token

DRIVEN, FORMAT = "driven", 1

# What a person is asked in an episode at most, as its later steps are much like those before; and the episodes without
# a question after which there is nothing left to ask.
QUOTA, QUIET = 3, 20

# So many pictures lead to a question.
TRAIL = 12

# A stream of random numbers for films, see `learner/continuous/collect.py`.
FILMING = 11


class Session:
    """The interview in a folder, and the environment at its current moment.

    Every change says which `turn` it saw and is refused if that has passed. Not to be used by two threads at once.
    """

    def __init__(self, folder: Path, source: Source, accuracy: Accuracy, opened: ExitStack) -> None:
        self.folder, self.source, self.accuracy, self._opened = folder, source, accuracy, opened
        self.task, self.other = (_drawn_task(source, opened) for _ in range(2))
        self.choices = offered(self.task.encoding)
        self.actions = buttons(self.task, self.choices)
        self.log = LogFile(folder / ANSWERS)
        opened.callback(self.log.close)
        self.history = Drives(self.log)
        self.token = lasting_token(folder)
        self.quiet = self._astray = False
        self.numbers = NumberBars(self.task)
        self.films = Films(self.other, self.choices, [action.name for action in self.actions])
        self.policies = Policies(self.other, self.choices, source.seed, self._answered)
        self._doubt: Doubt | None = None
        self._wanted: dict[int, int] = {}
        self._seen: Any = None
        self._result: ContinuousResult | None = None
        self._restore()

    @classmethod
    def open(cls, folder: Path, source: Source, accuracy: Accuracy) -> Session:
        """The interview in a folder, begun if there is none. From now on only its owner can read the folder."""
        begun = {"kind": DRIVEN, "format": FORMAT, "source": asdict(source), "accuracy": asdict(accuracy)}
        path, wanted = folder / CONFIGURATION, json.loads(json.dumps(begun))
        with ExitStack() as opened:
            opened.enter_context(alone(folder, BUSY))
            if not path.exists():
                if any(not found.name.startswith(".") for found in folder.iterdir()):
                    raise InputError(f"{folder} has files but no interview; choose another folder with --out")
                with ExitStack() as tried:  # an error leaves no interview behind
                    offered(_drawn_task(source, tried).encoding)
                with disk(path):
                    write(path, json.dumps(wanted, indent=2).encode(), private=True)
            elif configuration_in(path) != wanted:
                raise InputError(f"{folder} holds an interview with other settings; choose another folder with --out")
            with suppress(OSError):  # not every disk knows owners
                folder.chmod(0o700)
            session = cls(folder, source, accuracy, opened)
            session._opened = opened.pop_all()
            return session

    def close(self) -> None:
        """Nothing more is written, and others may use the folder."""
        self._opened.close()

    # What the person does

    def begin(self, turn: int, way: Way) -> None:
        """Begin an episode: to drive, to be asked, to watch, or to test."""
        self._check(turn)
        if way == "watch" and self.history.answers < FIRST:
            raise InputError(f"it knows nothing yet: give it {FIRST - self.history.answers} more answers first")
        self.quiet = False
        with self._consistent():
            self._begin(way)
            self._go_on()

    def press(self, turn: int, action: int) -> None:
        """Take an action in the episode under way, as the person or as the answer to what is asked."""
        self._check(turn)
        if self.phase not in ("driving", "asked"):
            raise InputError("no episode is under way that you can drive; begin one")
        if not 0 <= action < len(self.choices):
            raise InputError(f"action must be from 0 to {len(self.choices) - 1}, got {action}")
        seen = self.task.encoding.vector(self._seen).tolist()
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._consistent():
            self._note({"event": "person", "action": action, "seen": seen, "time": time}, wait=True)
            over = self._step(action, self._drive.steps)
            if over:
                self._note({"event": "over", "how": over})
            self.quiet = False
            self._go_on()

    def take(self, turn: int, step: int) -> None:
        """Take over from the policy before a step of the episode that is watched."""
        self._check(turn)
        drive = self.history.at
        if self.phase != "watching" or drive is None:
            raise InputError("there is nothing to take over; watch it first")
        if not drive.free <= step < drive.steps:
            raise InputError(f"step must be from {drive.free} to {drive.steps - 1}, got {step}")
        with self._consistent():
            self._note({"event": "take", "step": step})
            self._restore()

    def hand_back(self, turn: int) -> None:
        """Let the policy, as it was when the episode began, go on to the end."""
        self._check(turn)
        if self.phase != "driving" or self._drive.way != "watch":
            raise InputError("only an episode that you took over can be handed back")
        with self._consistent():
            self._run_policy()

    def undo(self, turn: int) -> None:
        """Take back the person's last action."""
        self._check(turn)
        if self.history.undoable is None or self.history.finished:
            raise InputError("there is nothing to undo")
        with self._consistent():
            self._note({"event": "undo"}, wait=True)
            self.policies.forget(self.history.answers)
            self._restore()

    def finish(self, turn: int) -> None:
        """End the interview: learn from all answers, promise what can be promised, and keep it as a run."""
        self._check(turn)
        if self.history.answers < FIRST:
            raise InputError(f"give it {FIRST - self.history.answers} more answers first; it knows too little")
        with self._consistent():
            self._note({"event": "finish"}, wait=True)
            self._restore()

    def go_on(self, turn: int) -> None:
        """Go on after the end. What was promised has been seen, so another promise needs other test drives."""
        self._check(turn)
        if self._result is None:
            raise InputError("the interview is not finished")
        with self._consistent():
            for name in (RUN, STATE):
                (self.folder / name).unlink(missing_ok=True)
            self._note({"event": "go on", "promised": self._result.certificate is not None}, wait=True)
            self._result = None

    # What is shown

    @property
    def phase(self) -> str:
        """What the person can do: choose, drive, answer, watch, look at an episode that is over, or at the ending."""
        drive = self.history.at
        if self.history.finished:
            return "done"
        if drive is None:
            return "choose"
        if drive.way == "watch" and drive.over:
            return "watching"
        if drive.over:
            return "over"
        return "asked" if drive.way == "ask" else "driving"

    def view(self) -> dict[str, Any]:
        """The current moment, for the page."""
        history, drive = self.history, self.history.at
        last = history.undoable
        return {
            "turn": history.turn,
            "phase": self.phase,
            "way": None if drive is None else drive.way,
            "quiet": self.quiet,
            "step": 0 if drive is None else drive.steps,
            "over": "" if drive is None else drive.over,
            "picture": None if drive is None or self.phase == "watching" else picture(self.task.env),
            "numbers": [] if drive is None else self.numbers.shown(self._seen),
            "answers": history.answers,
            "missing": max(0, FIRST - history.answers),
            "episodes": len(history.drives),
            "tests": len(history.evidence),
            "tests_wanted": self.tests_wanted,
            "last": None if last is None else self.actions[last.actions[last.free - 1]].name,
            "outcome": None if self._result is None else outcome(self._result, history, self.tests_wanted),
        }

    def about(self) -> dict[str, Any]:
        """What does not change."""
        env = self.task.env
        kind = type(env.unwrapped).__name__
        return {
            "environment": self.source.environment,
            "brief": BRIEFS.get(kind) or description(env).brief,
            "actions": [asdict(action) for action in self.actions],
            "rounded": self.choices.rounding,
            "horizon": self.task.horizon,
            "first": FIRST,
        }

    @property
    def tests_wanted(self) -> int:
        """How many test drives the next promise takes."""
        restarts = self.history.endings
        if restarts not in self._wanted:
            self._wanted[restarts] = least_demonstrations(self.task, self._settings(), restarts)
        return self._wanted[restarts]

    def film(self, number: int = 0) -> list[dict[str, Any]]:
        """The pictures that lead to this moment; all that is watched; at the end, an episode of what was learned."""
        drive = self.history.at
        if self._result is not None:
            return list(self.films.of_result(self._result, episode_seed(self.source.seed, FILMING, number)))
        if drive is None:
            return []
        first = drive.free if self.phase == "watching" else max(0, drive.steps - TRAIL)
        return list(self.films.of_drive(drive, self._seed(drive), first))

    def files(self) -> dict[str, bytes]:
        """All files of the interview but the secret."""
        names = [name for name in (CONFIGURATION, RUN, STATE) if (self.folder / name).exists()]
        return {ANSWERS: self.log.content(), **{name: (self.folder / name).read_bytes() for name in names}}

    # What follows from it

    @property
    def _drive(self) -> Drive:
        assert self.history.at is not None
        return self.history.at

    def _settings(self, **more: Any) -> Settings:
        """In units in which no step is worth more than 1, whatever the person wants."""
        epsilon, delta = self.accuracy.epsilon * self.task.horizon, self.accuracy.delta
        return Settings(epsilon=epsilon, delta=delta, rmax=1.0, seed=self.source.seed, **more)

    def _check(self, turn: int) -> None:
        self._mend()
        if turn != self.history.turn:
            raise StaleError

    @contextmanager
    def _consistent(self) -> Iterator[None]:
        """If something goes wrong on the way, the environment goes back to what the log says, now or later."""
        try:
            yield
        except BaseException:
            self._astray = True
            with suppress(Exception):
                self._mend()
            raise

    def _mend(self) -> None:
        if self._astray:
            self._restore()
            self._astray = False

    def _note(self, event: Event, *, wait: bool = False) -> None:
        """Log an event, then take it in; with `wait` it is on the disk first."""
        self.log.append([event], wait=wait)
        self.history.apply(event)

    def _begin(self, way: Way) -> None:
        """Begin an episode. The policy that asks is fitted again when the answers have grown, that watched always."""
        answers = self.history.answers
        known = {"ask": known_of(answers), "watch": answers}.get(way, 0)
        looked = self.policies.look_around(known) if way == "ask" and known else 0
        self._note({"event": "begin", "way": way, "known": known, "looked": looked})
        self._repeat(self._drive)

    def _restore(self) -> None:
        """Repeat the episode under way, or open the result; then go on to where the person has something to do."""
        self.quiet = False
        if self.history.finished:
            self._conclude()
        if self.history.at is None:
            return
        drive = self.history.at
        try:
            over = self._repeat(drive)
        except InputError:  # the environment fails, or does something else than before: the answers are kept
            self.history.at = None
            return
        if over and not drive.over:
            self._note({"event": "over", "how": over})
        self._go_on()

    def _repeat(self, drive: Drive) -> Over:
        """Take all steps of an episode again, from its seed; whether it is over."""
        self._seen, self._doubt = self.task.reset(self._seed(drive)), None
        if drive.way == "ask" and drive.known:
            self._doubt = self.policies.doubt(drive.known, drive.number)
        over: Over = ""
        seen = iter(drive.seen)
        for step, (action, own) in enumerate(zip(drive.actions, drive.own, strict=True), start=1):
            if own and not np.allclose(next(seen), self.task.encoding.vector(self._seen), atol=1e-6):
                raise InputError(f"{self.source.environment} does not repeat an episode from its seed")
            self._doubts(drive)
            over = self._step(action, step)
        if drive.stopped and not over:
            self._doubts(drive)
        return over

    def _doubts(self, drive: Drive) -> bool:
        """Whether the policy asks where the episode is now; to be called once a step."""
        return self._doubt is not None and self._doubt.asks(self.policies.decision(drive.known, self._seen)[1])

    def _step(self, action: int, number: int) -> Over:
        """Take the action that is this step of its episode; whether that is over."""
        self._seen, terminated, truncated = self.task.step(self.choices.values[action])
        return "ended" if terminated else "time" if truncated or number >= self.task.horizon else ""

    def _go_on(self) -> None:
        """The policy goes on to where it asks or, watched, to the end, unless it has done so."""
        drive = self._drive
        if drive.way == "ask" and (drive.over or not drive.stopped):
            self._ask_on()
        elif drive.way == "watch" and not drive.over and not drive.steps and not drive.stopped:
            self._run_policy()

    def _ask_on(self) -> None:
        """The policy goes on until it asks; in other episodes, if this one is over or was asked about enough."""
        for _ in range(QUIET):
            drive = self._drive
            if not drive.over and len(drive.seen) < (QUOTA if drive.known else FIRST_STEPS):
                actions, over = self._until_asked(drive)
                self._note({"event": "policy", "actions": actions})
                if not over:
                    return
                self._note({"event": "over", "how": over})
            self._begin("ask")
        # Nothing was asked in all of them; the person may say what they would do where the last one begins.
        self.quiet = True
        self._note({"event": "policy", "actions": []})

    def _until_asked(self, drive: Drive) -> tuple[list[int], Over]:
        """What the policy does before it asks, or before the episode is over."""
        actions: list[int] = []
        if not drive.known:  # the first answers are about every step
            return actions, ""
        while not self._doubts(drive):
            actions.append(self.policies.decision(drive.known, self._seen)[0])
            over = self._step(actions[-1], drive.steps + len(actions))
            if over:
                return actions, over
        return actions, ""

    def _run_policy(self) -> None:
        """The policy goes on to the end of the episode."""
        drive, actions, over = self._drive, list[int](), ""
        while not over:
            actions.append(self.policies.decision(drive.known, self._seen)[0])
            over = self._step(actions[-1], drive.steps + len(actions))
        self._note({"event": "policy", "actions": actions})
        self._note({"event": "over", "how": over})

    def _answered(self, known: int | None = None) -> Answered:
        seen, said = self.history.answered(known)
        values = self.choices.values[said]
        episodes = len(self.history.learning)
        return Answered(np.array(seen), values, episodes=episodes, samples=self.history.steps)

    def _seed(self, drive: Drive) -> int:
        return episode_seed(self.source.seed, CALIBRATING if drive.way == "test" else LEARNING, drive.number)

    # The ending

    def _conclude(self) -> None:
        """What all came to, as a run in the folder; one that is there already is opened."""
        if (self.folder / RUN).exists() and (self.folder / STATE).exists():
            self._result = ContinuousRun.open(self.folder).result()
            return
        tests = self.history.evidence[: self.tests_wanted]
        wanted, certify = self.tests_wanted, "policy" if len(tests) == self.tests_wanted else None
        settings = self._settings(calibration_episodes=wanted, certify=certify)
        driven = self.history.tests
        state = LearningState(
            self._answered(),
            demonstrations=self._demonstrations(tests) if tests else None,
            restarts=self.history.endings,
            driven=len(driven),
            driven_steps=sum(test.steps for test in driven),
        )
        *_, state = learn(self.task, settings, state)
        self._result = ContinuousResult(state, settings, None, self.folder, self.source, person=True)
        run = ContinuousRun(self.folder, settings, self.source, {**self.task.parts, **PERSON})
        run.save(state)
        run.write()  # last: without it, the folder is no run

    def _demonstrations(self, tests: list[Drive]) -> ExpertEpisodes:
        return ExpertEpisodes(
            np.concatenate([test.seen for test in tests]),
            np.concatenate([self.choices.values[test.actions] for test in tests]),
            np.array([test.steps for test in tests]),
            np.array([test.over == "ended" for test in tests]),
        )


def _drawn_task(source: Source, opened: ExitStack) -> ContinuousTask:
    """The task, in an environment that draws itself."""
    env = drawing_env(source)
    opened.callback(env.close)
    with closing(open_continuous(source)) as task:
        return replace(task, env=env)
