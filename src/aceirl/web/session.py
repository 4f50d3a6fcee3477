"""An interview without a page: a person drives the engine, and a log remembers. No thread ever waits for a person."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from dataclasses import replace as changed
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from aceirl.collect import Answers, Episode, Guess, Reply
from aceirl.counts import ExpertKind
from aceirl.engine import Engine
from aceirl.envs import ENVIRONMENTS
from aceirl.errors import InputError
from aceirl.experts.demonstrations import DEMONSTRATIONS
from aceirl.files import DiskError, Event, Log, disk, replace
from aceirl.preferences import Preference
from aceirl.protocols import Question
from aceirl.runs import CONFIGURATION as RUN
from aceirl.runs import HERE, RECORDS, STATE, Run
from aceirl.settings import Settings
from aceirl.sources import Source
from aceirl.turns import Turn
from aceirl.web.conduct import MOST_GUESSES, guess, is_worth_showing, next_conduct, wants_repeat
from aceirl.web.environment_view import open_view
from aceirl.web.history import (
    USER_ACTIONS,
    Conduct,
    History,
    Mode,
    Reviewed,
    Rule,
    Walk,
    last_said,
    taken_back,
)
from aceirl.web.outcome import demonstrations, summary
from aceirl.web.pairs import enough_episodes, next_pair
from aceirl.web.scope import Scope

CONFIGURATION, ANSWERS, RESULT = "interview.json", "answers.jsonl", "result.json"

# What is there when the interview is over; without the first of them the folder is not yet a run, or not any more.
RESULTS = (RUN, RECORDS, STATE, DEMONSTRATIONS, RESULT)
FORMAT = 3

# So many episodes in a row without a question, and nothing is left to ask.
QUIET_EPISODES = 300

# A reward is inferred when there are a quarter more samples than the last time; in between the page shows a glance.
INFER_AFTER_GROWTH = 0.25

# Where the person is not asked, the agent can be interrupted after so many steps.
PAUSE = 20

# What share of the error rate is kept for evidence that is gathered anew.
CHANGES = 0.1

# Streams of randomness of the interview's own: when a question comes twice, what the agent does when nobody tells it,
# and what is drawn anew when the person starts again.
REPEAT, WANDER, AGAIN = 2, 4, 5

# How often the agent does what it thinks best where episodes are to be compared; else it does anything.
AT_ITS_BEST = 0.5

STRATEGIES: dict[Conduct, str] = {"asked": "guided", "shown": "advice", "alone": "probe"}

PERSON = ExpertKind(deterministic=True, stationary=True, ask_again=0.1)

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
        self.folder, self.begun_with = folder, (source, accuracy)
        self.source, self.accuracy = source, accuracy
        self.view = open_view(source)
        self.environment = self.view.environment
        self._begun_horizon = self.environment.horizon
        self.log = Log(folder / ANSWERS)
        self.trouble: str | None = None
        self.learned: Turn | None = None
        self.learned_version = (0, 0)
        self.kept_version: tuple[int, int] | None = None
        self._step: Question | Turn | None = None
        self._question: Question | None = None
        self._reopened: Event | None = None
        self._shown: tuple[int, float] | None = None
        self._guessed: dict[int, Reviewed] = {}
        self._noted = 0
        self._moved: tuple[int, int, int] | None = None
        self._pair: tuple[int, int] | None = None
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

    # What the person says

    def answer(self, turn: int, action: int, relations: Mapping[str, str] | None = None) -> None:
        """What the person would do in the current situation and, with relations, in all that are like it.

        `relations` say how the features of the others relate to those of this one; see `Scope`.
        """
        question = self._asked(turn)
        if not isinstance(question, Question):
            raise StaleError
        self._check_action(action)
        event: Event = {"event": "answer", "state": question.state, "step": question.step, "action": action}
        if not question.again and self._reopened is None:
            event["guess"] = guess(self.learned, question.state)
        also: list[int] = []
        if relations is not None:
            scope = Scope.like(self.view.features(question.state), relations)
            also = [state for state in self.like(scope) if state != question.state]
            event |= {"scope": [list(one) for one in scope.conditions], "also": also, "turn": self.turn}
        event |= self.named(question.state, action) | self._seconds()
        changed = self._do(event)
        if changed or self.reopened:
            self._rebuild()
            return
        self.engine.tell(Guess(action) if question.again else action)
        if also:
            self.engine.note([(question.step, state, action) for state in also])
        self._question = None

    def like(self, scope: Scope) -> list[int]:
        """The states known so far that a scope covers, in which the person might act and has not said how."""
        over, known = self.engine.access.terminal, self.history.known()
        return [
            state
            for state in range(self.environment.n_states)
            if state not in over and state not in known and scope.covers(self.view.features(state))
        ]

    def skip(self, turn: int) -> None:
        """The person does not know; the agent does something, and goes on."""
        question = self._asked(turn)
        if isinstance(question, Walk):
            self._do_review(question, [], None)
            return
        if not isinstance(question, Question):
            self._do({"event": "prefer", "pair": list(question), "better": None, "unknown": True})
            self._rebuild()
            return
        event: Event = {"event": "skip", "state": question.state, "step": question.step}
        self._do(event | self.named(question.state) | self._seconds())
        if self.reopened:
            self._rebuild()
        else:
            self.engine.tell(Reply.SKIP)
            self._question = None

    def review(self, turn: int, step: int | None = None, action: int | None = None) -> None:
        """The person has seen an episode: it did as well as they would have, up to a step where they would do something
        else; to its end, if they name none."""
        walk = self._asked(turn)
        if not isinstance(walk, Walk):
            raise StaleError
        if step is None or action is None:
            self._do_review(walk, walk.guessed, None)
            return
        self._check_action(action)
        found = next((one for one in walk.guessed if one[0] == step), None)
        if found is None:
            raise InputError(f"step {step} was no guess; the guesses were at {[one[0] for one in walk.guessed]}")
        if found[2] == action:
            raise InputError(f"that is what the agent did at step {step}")
        self._do_review(walk, [one for one in walk.guessed if one[0] < step], (step, found[1], action))

    def prefer(self, turn: int, better: int | None) -> None:
        """Which of the two episodes the person likes better: 0, 1, or None if both alike."""
        pair = self._asked(turn)
        if not isinstance(pair, tuple):
            raise StaleError
        if better not in (0, 1, None):
            raise InputError(f"better must be 0, 1 or null, got {better!r}")
        self._do({"event": "prefer", "pair": list(pair), "better": better} | self._seconds())
        self._rebuild()

    def correct(self, turn: int, state: int, action: int) -> None:
        """What the person really would do in a state that has an answer."""
        self._check_turn(turn)
        self._check_action(action)
        if self.history.standing(state) is None:
            raise InputError(f"state {state} was never answered, so there is nothing to put right")
        event: Event = {"event": "correct", "state": state, "action": action}
        self._do(event | self.named(state, action) | {"seconds": None})
        self._rebuild()

    def undo(self, turn: int) -> None:
        """Take back the last thing the person said, and ask about it once more; the episodes stay as they were.

        To play an episode again that had a surprise in it would make the promise unsound.
        """
        self._check_turn(turn)
        if last_said(self.log) is None:
            raise InputError("there is no answer to take back")
        self._keep({"event": "undo"})
        self._rebuild()

    # What the person decides

    def finish(self, turn: int) -> None:
        """End here, with what there is."""
        self._decide(turn, {"event": "finish"})

    def go_on(self, turn: int) -> None:
        """Go on after having finished."""
        self._decide(turn, {"event": "go on"})

    def start_again(self, turn: int) -> None:
        """Forget everything that was said and seen, and begin anew; the log keeps it."""
        self._decide(turn, {"event": "start again"})
        self.learned, self.learned_version = None, (0, 0)

    def change_mode(self, turn: int, mode: Mode) -> None:
        """From now on be asked, play, or compare."""
        self._decide(turn, {"event": "mode", "mode": mode})

    def adjust(self, turn: int, epsilon: float, delta: float, horizon: int) -> None:
        """Ask for another accuracy, error rate or length of episodes; the evidence for a promise is gathered anew.

        Answers and episodes stay. Only what is wagered from now on can be about the new aim.
        """
        if (Accuracy(epsilon, delta), horizon) == (self.accuracy, self.environment.horizon):
            return
        if horizon < 1:
            raise InputError(f"horizon must be a whole number of at least 1, got {horizon}")
        if horizon != self.environment.horizon:
            open_view(_with_horizon(self.source, horizon))
        self._decide(turn, {"event": "adjust", "epsilon": epsilon, "delta": delta, "horizon": horizon})

    def _decide(self, turn: int, event: Event) -> None:
        self._check_turn(turn)
        self._keep(event)
        self._rebuild()

    def _do_review(self, walk: Walk, approved: list[Reviewed], instead: Reviewed | None) -> None:
        news = [*approved, *([] if instead is None else [instead])]
        last = self.environment.horizon - 1  # the episode may have been longer
        news = [(min(step, last), state, a) for step, state, a in news if self.history.standing(state) is None]
        event: Event = {
            "event": "review",
            "episode": walk.number,
            "approved": [list(one) for one in approved],
            "instead": None if instead is None else list(instead),
            "names": [self.named(state, action) for _, state, action in news],
        }
        self._do(event | self._seconds())
        if self.reopened:
            self._rebuild()
        elif news:
            self.engine.note(news)

    def question_shown(self) -> None:
        """The person has the current question before them; how long they take is counted from the first time."""
        if self.phase == "asking" and (self._shown is None or self._shown[0] != self.turn):
            self._shown = self.turn, time.monotonic()

    # What the agent does

    @property
    def asked(self) -> Question | Walk | tuple[int, int] | None:
        """What the person is asked now: about a situation, about an episode that they are shown, or about a pair of
        episodes, by their numbers. What was taken back comes before all others."""
        again, history = self._reopened, self.history
        if again is not None:
            match again["event"]:
                case "review":
                    return history.walks[again["episode"]]
                case "prefer":
                    first, second = again["pair"]
                    return first, second
                case _:
                    return Question(again["step"], again["state"], (), np.random.default_rng(0))
        if history.to_review is not None:
            return history.to_review
        return self._pair if history.mode == "compare" else self._question

    @property
    def reopened(self) -> bool:
        """Whether the question is one whose answer was taken back, and not about where the agent is now."""
        return self._reopened is not None

    @property
    def phase(self) -> Phase:
        """Whether the person is asked, the agent acts on its own, or the interview is over."""
        history = self.history
        if self._reopened is not None:
            return "asking"
        if history.finished:
            return "done"
        if self._step is not None:
            return "walking"
        if history.mode == "compare":
            if not enough_episodes(history) or self.learned_version != self.version:
                return "walking"
            return "done" if self._pair is None else "asking"
        if self.engine.belief.certified("policy") or history.episodes_since_user_action >= QUIET_EPISODES:
            return "done"
        return "asking" if self.asked is not None else "walking"

    @property
    def ponders(self) -> bool:
        """Whether the next step is to work out what is known, which whoever drives the interview has to do."""
        return self.history.mode == "compare" and enough_episodes(self.history) and self._step is None

    def walk_on(self, seconds: float, *, one_episode: bool = False) -> None:
        """Let the agent act on its own until the person is needed, all is done, or the time is up.

        With `one_episode` also until the episode is over.
        """
        deadline = time.perf_counter() + seconds
        while self.phase == "walking" and not self.ponders and time.perf_counter() < deadline:
            if self._step is None:
                self._step = self._next_step(deadline)
            self._keep_step()
            if one_episode and self.history.walk is not None and self.history.walk.over:
                break

    def _next_step(self, deadline: float) -> Question | Turn | None:
        """Walk until the person is needed, or the episode is over; None if the time is up before."""
        walk = self.history.walk
        if (walk is None or walk.over) and not self.engine.under_way:
            can_guess = self.learned is not None and self.learned.explanation is not None
            self.conduct: Conduct = next_conduct(self.history, can_guess=can_guess)
            self._use_settings()
        step = self.engine.ask()
        while isinstance(step, Question):
            if time.perf_counter() > deadline:
                return None  # the next time it is the same question
            reply = self._reply(step)
            if reply is None:
                break
            self.engine.tell(reply)
            step = self.engine.ask()
        return step

    def _use_settings(self) -> None:
        """An episode that the person plays, or may be shown, does what they would do throughout; one without them tries
        what they would not."""
        conduct: Conduct = "shown" if self.history.mode == "play" else self.conduct
        self.engine.settings = self._settings_by_conduct[conduct]

    def _reply(self, question: Question) -> int | Guess | Reply | None:
        """What the agent does without the person: what follows from what they said, or a guess; None if it asks."""
        history, state, step = self.history, question.state, question.step
        if self.conduct == "alone" and history.mode != "compare":
            return Reply.SKIP
        walk = history.walk
        if walk is not None and self._moved is not None and self._moved[:2] == (walk.number, step) and not walk.over:
            return Guess(self._moved[2])  # the person moved, and then the engine was built again
        standing = history.standing(state)
        if standing is not None and not question.again:
            return Guess(standing)
        if history.mode == "compare":
            return Guess(self._wander(question))
        if standing is not None and not self._asks_again(state):
            return Reply.SKIP
        if standing is None:
            rule = self._rule(state)
            if rule is not None:
                self._note(Episode(question.walk[0][1] if question.walk else state, tuple(question.walk)))
                self._apply([(rule, step, state)])
                return rule.action
        if self.conduct != "shown" or standing is not None:
            return None
        found = self._guessed[state][2] if state in self._guessed else guess(self.learned, state)
        if found is not None and len(self._guessed) < MOST_GUESSES:
            self._guessed.setdefault(state, (step, state, found))
        return None if found is None else Guess(found)

    def _rule(self, state: int) -> Rule | None:
        """The first answer for many situations that holds for this one too; None if there is none."""
        rules = self.history.rules
        features = self.view.features(state) if rules else {}
        return next((rule for rule in rules if rule.scope.covers(features)), None)

    def _apply_rules(self) -> None:
        """Answers for many situations hold for those too that were met when nobody was asked."""
        if not self.history.rules:
            return
        known, over = self.history.known(), self.engine.access.terminal
        new = sorted(set(self.history.met) - set(known) - over)
        found = [(rule, 0, state) for state in new if (rule := self._rule(state)) is not None]
        if found:
            self._apply(found)
            self.engine.note([(step, state, rule.action) for rule, step, state in found])

    def _apply(self, found: list[tuple[Rule, int, int]]) -> None:
        """Log that answers for many situations hold for these steps and states."""
        events: list[Event] = [
            {"event": "applied", "state": state, "step": step, "action": rule.action, "rule": rule.number}
            | self.named(state, rule.action)
            for rule, step, state in found
        ]
        with self._writing():
            self.log.append(events, wait=False)
        for event in events:
            self.history.apply(event)

    def _wander(self, question: Question) -> int:
        """What the agent thinks best, or anything: episodes to compare should differ."""
        rng = self.generator(WANDER, self.history.samples + len(question.walk), self.history.episodes)
        best, anything = guess(self.learned, question.state), int(rng.integers(self.environment.n_actions))
        return best if best is not None and rng.random() < AT_ITS_BEST else anything

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
            turn = self.engine.glance(self.history.recorded(self.environment.horizon)[-1].episode)
        return turn.with_repeats(self.history.repeated(turn.counts.shape[1])) if self.phase == "done" else turn

    def adopt(self, turn: Turn, version: tuple[int, int]) -> None:
        """Take over what was worked out, and leave it in the folder if it is the last word."""
        self.learned, self.learned_version = turn, version
        if self.ponders and version == self.version:
            self._pair = next_pair(self.history, turn)
        if self.phase == "done" and version == self.version:
            result = json.dumps(summary(self), indent=2, ensure_ascii=False).encode()
            lines = "".join(json.dumps(line) + "\n" for line in demonstrations(self))
            with self._writing(), disk(self.folder):
                replace(self.folder / DEMONSTRATIONS, lines.encode(), private=True)
                settings = self.settings.model_copy(update={"delta": self.accuracy.delta})
                Run.written(self.folder, settings, changed(self.source, expert=HERE), turn, "questions")
                replace(self.folder / RESULT, result, private=True)
            self.kept_version = version

    @property
    def files(self) -> list[Path]:
        """The files for the person: the log, and the result if it is the present one."""
        results = RESULTS if self.kept_version == self.version else ()
        return [self.folder / name for name in (CONFIGURATION, ANSWERS, *results)]

    def generator(self, *name: int) -> np.random.Generator:
        """A stream of randomness of that name; the same whenever it is asked for."""
        return np.random.default_rng(np.random.SeedSequence([self.source.seed, *name]))

    def _check_turn(self, turn: int) -> None:
        if turn != self.turn:
            raise StaleError

    def _asked(self, turn: int) -> Question | Walk | tuple[int, int]:
        self._check_turn(turn)
        if self.phase != "asking" or self.asked is None:
            raise StaleError
        return self.asked

    def _check_action(self, action: int) -> None:
        if not 0 <= action < self.environment.n_actions:
            raise InputError(f"action {action} is not one of 0 to {self.environment.n_actions - 1}")

    def named(self, state: int, action: int | None = None) -> Event:
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
        step, over = self._step, isinstance(self._step, Turn)
        if isinstance(step, Question):
            self._note(Episode(step.walk[0][1] if step.walk else step.state, tuple(step.walk)))
            self._question = step
        elif step is not None:
            self._note(step.episodes[0], over=True)
        self._step = None
        if over:
            self._apply_rules()

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
            wagers = self.engine.wagers
            event["stakes"] = {kind: wager.stake for kind, wager in wagers.items()}
            if waits := {kind: wager.wait_for for kind, wager in wagers.items() if wager.wait_for}:
                event["waits"] = waits
            event["conduct"], self._noted = self.conduct, 0
        guessed = list(self._guessed.values())[self._noted :]
        if guessed:
            event["guessed"] = [list(one) for one in guessed]
        if over:
            event["over"] = True
            event["offered"] = self.conduct == "shown" and is_worth_showing(history, len(self._guessed))
        names = self.engine.access.names
        if len(names) > len(history.names):
            event["names"] = list(names[len(history.names) :])
        if begins or over or new:
            with self._writing():
                self.log.append([event], wait=False)
            history.apply(event)
            self._noted += len(guessed)
        if over:
            self._guessed, self._noted = {}, 0

    def _wanted(self, step: int, state: int, answered: bool) -> bool:
        """Whether the person may be asked about a state, perhaps once more."""
        history, pause = self.history, step % PAUSE == PAUSE - 1  # where the agent can be interrupted
        if history.mode == "compare":
            return True
        if self.conduct == "alone":
            return not answered and pause
        return pause or self._asks_again(state) if answered else history.may_ask(state)

    def _asks_again(self, state: int) -> bool:
        """Whether the person is asked once more about a state that they have answered."""
        if self.history.mode == "play":
            return True
        return self.conduct == "asked" and wants_repeat(self.history, state, partial(self.generator, REPEAT))

    def _rebuild(self) -> None:
        """Compute everything from the log again, and bring the environment back to where the log ends."""
        events = list(self.log)
        try:
            self.history = History.of(events)
        except InputError as error:
            raise InputError(f"{self.log.path}, {error}") from error.__cause__
        self.turn = sum(event["event"] in USER_ACTIONS for event in events)
        self._set_up(sum(event["event"] == "start again" for event in events))
        recorded = self.history.recorded(self.environment.horizon)
        self.engine = Engine(self.environment, Answers(PERSON, wanted=self._wanted), self.settings)
        self.engine.access.recall(tuple(self.history.names))
        self._check_log()
        walk = self.history.walk
        under_way = walk is not None and not walk.over and walk.step < self.environment.horizon
        self.engine.take(recorded[:-1] if under_way else recorded, tuple(self.history.names))
        if self.history.compared:
            self.engine.prefer(*self._preferences())
        self.conduct, self._guessed = "asked", {}
        if walk is not None and under_way:
            self.engine.take_up(recorded[-1])
            self.conduct, self._guessed = walk.conduct, {one[1]: one for one in walk.guessed}
        self._noted = len(self._guessed)
        self._use_settings()
        self._step = self._question = self._pair = self._moved = None
        if walk is not None and under_way and events[-1]["event"] == "answer" and events[-1]["step"] == walk.step:
            self._moved = walk.number, walk.step, events[-1]["action"]
        self._reopened = taken_back(events)
        if self.phase != "done":
            self._drop_result()

    def _set_up(self, times_begun: int) -> None:
        """The settings that hold now: those the interview was begun with, or as the person has adjusted them."""
        (self.source, self.accuracy), adjusted = self.begun_with, self.history.adjusted
        horizon = self._begun_horizon
        if adjusted is not None:
            self.accuracy, horizon = Accuracy(adjusted.epsilon, adjusted.delta), adjusted.horizon
        if horizon != self._begun_horizon:
            self.source = _with_horizon(self.source, horizon)
        if horizon != self.environment.horizon:
            self.view = open_view(self.source)
            self.environment = self.view.environment
        # Who starts again meets new chances: to see the same episodes once more would make the promise unsound.
        seed = self.begun_with[0].seed
        self.seed = seed if not times_begun else int(self.generator(AGAIN, times_begun).integers(2**31))
        self.settings = Settings(
            strategy="guided",
            epsilon=self.accuracy.epsilon * self.environment.horizon,
            delta=self.accuracy.delta * _share_of_delta(self.history.times_anew),
            max_samples=10**9,
            infer_after_growth=INFER_AFTER_GROWTH,
            seed=self.seed,
        )
        self._settings_by_conduct: dict[Conduct, Settings] = {
            conduct: Settings(**(self.settings.model_dump() | {"strategy": strategy}))
            for conduct, strategy in STRATEGIES.items()
        }

    def _preferences(self) -> Iterator[Preference]:
        """What the person said of pairs of episodes that differ."""
        for one in (one for one in self.history.compared if one.known):
            first, second = (tuple(self.history.walks[number].moves[: self.environment.horizon]) for number in one.pair)
            if first and second:
                better, other = (second, first) if one.better == 1 else (first, second)
                yield Preference(better, other, equal=one.better is None)

    def _check_log(self) -> None:
        """The states, actions and steps in a log must be those of this environment."""
        horizon, n_states, n_actions = self.engine.access.shape
        history = self.history
        states = {state for walk in history.walks for state in walk.states} | set(history.votes)
        actions = {action for walk in history.walks for action in walk.actions}
        actions |= {vote for votes in history.votes.values() for vote in votes.votes}
        steps = {walk.step - 1 for walk in history.walks} | {votes.since[1] for votes in history.votes.values()}
        if history.adjusted is not None:  # episodes may have been longer
            steps = set()
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
        return self.history.said > 0


def _share_of_delta(times: int) -> float:
    """What the evidence may spend of the error rate, if it was gathered anew so many times: never more than all of it.

    Most is for those who never change what they said.
    """
    return 1 - CHANGES if times == 0 else CHANGES / (times * (times + 1))


def _with_horizon(source: Source, horizon: int) -> Source:
    """The same environment with longer or shorter episodes."""
    if source.environment in ENVIRONMENTS:
        return changed(source, parameters=source.parameters | {"horizon": horizon})
    return changed(source, horizon=horizon)


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
