"""Drives the engine for a person: logs what is said and done, walks on, and saves what came out of it.

No thread ever waits for a person.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from aceirl.certificates import Budget
from aceirl.data.dataset import Trajectory
from aceirl.errors import InputError
from aceirl.experts.demonstrations import DEMONSTRATIONS
from aceirl.experts.tasks import Source
from aceirl.explain.wish import Statement
from aceirl.learner.collect import Answers, Guess, Reply
from aceirl.learner.engine import Engine
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.estimate import ExpertKind
from aceirl.protocols import Capabilities, NumberedEnvironment, Question
from aceirl.runs import Run
from aceirl.runs.files import DiskError, Event, LogFile, disk
from aceirl.runs.files import replace as write
from aceirl.runs.folder import CONFIGURATION as RUN
from aceirl.runs.folder import HERE, RECORDS, STATE
from aceirl.web.dialogue import Dialogue, generator
from aceirl.web.ending import Ending, NamedStates, ending_of
from aceirl.web.environment_view import open_view, situation
from aceirl.web.episode_mode import enough_episodes, looks_around, next_pair
from aceirl.web.history import USER_ACTIONS, Accuracy, EpisodeMode, History, LoggedTrajectory, Mode, SaidRule, Verdict
from aceirl.web.inter_rater import answer_errors

CONFIGURATION, ANSWERS, RESULT = "interview.json", "answers.jsonl", "result.json"

# What is there when the interview is over; without the first of them the folder is not yet a run, or not any more.
RESULTS = (RUN, RECORDS, STATE, DEMONSTRATIONS, RESULT)
FORMAT = 3

# So many episodes in a row without a question, and nothing is left to ask.
QUIET_EPISODES = 300

# So many steps of episodes the agent makes at most, and so many bytes the log may have for something to be added to it:
# no person comes near, and all of it is kept in memory, and read again when something is taken back.
MOST_WALKED, MOST_LOGGED = 200_000, 16_000_000

# A reward is inferred when there are a quarter more samples than the last time; in between the page shows a preview.
INFER_AFTER_GROWTH = 0.25

# Episodes may be made so long, unless they were to begin with: steps, and steps times situations times actions. Each of
# the latter costs about a thousand bytes and, whenever something is taken back or changed, a microsecond.
MOST_STEPS, MOST_ENTRIES = 1_000, 80_000

# The stream of randomness from which is drawn what comes when the person starts again.
AGAIN = 5

STRATEGIES: dict[EpisodeMode, str] = {"asked": "guided", "shown": "advice", "alone": "probe"}

PERSON = ExpertKind(deterministic=True, stationary=True, ask_again=0.1)

Phase = Literal["asking", "walking", "done"]
Kind = TypeVar("Kind")


class StaleError(Exception):
    """The answer is to a question that is no longer the current one."""


class SettingsError(InputError):
    """The folder holds an interview with other settings."""


Said = dict[str, tuple[str, int]]
"""What a person would do: by situation, its name and the action."""


@dataclass(frozen=True)
class Public:
    """What others may see of an interview, as it was at one moment; `learned` is its last word, None before that."""

    version: tuple[int, int]
    answers: int
    phase: Phase
    said: Said
    learned: Turn | None
    told: Sequence[Statement]


class Interview:
    """The questions and answers in a folder.

    The log in `answers.jsonl` is the truth; everything else is computed from it. An event is logged before it is taken
    in, so a write that fails changes nothing; `trouble` says why it failed until a write works again. `turn` counts
    what the person did, undoing included, and names the current question: whoever acts says which turn they saw, and is
    refused if it has passed, so of two answers to one question only the first counts. When it is over, the folder is
    also a run, whose expert are the demonstrations beside it. `needs` are the states that the person shall speak of
    because others have: every second question at most is about one of these. One thread at a time may read or change
    it; any may read what is `public`.
    """

    def __init__(self, folder: Path, source: Source, accuracy: Accuracy) -> None:
        self.folder, self.begun_with = folder, (source, accuracy)
        self.view = open_view(source)
        self.environment = self.view.environment
        self._begun_horizon, self.most_steps = self.environment.horizon, _most_steps(self.environment)
        self.log, self.history = LogFile(folder / ANSWERS), History()
        self.trouble: str | None = None
        self.ending: Ending | None = None
        self.needs: Callable[[], Sequence[int]] = tuple
        self._needs_seen = -1
        self.learned_version = (0, 0)
        self.kept_version: tuple[int, int] | None = None
        self._step: Question | Turn | None = None  # what the agent did last, until it is logged
        self._shown: tuple[int, float] | None = None
        self.public = Public((0, 0), 0, "walking", {}, None, ())
        try:
            self._rebuild(None)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, folder: Path, source: Source, accuracy: Accuracy) -> Interview:
        """The interview in a folder that exists, begun if there is none. From now on only its owner can read it.

        One with other settings gives way if nothing was answered in it, as after a start that failed.
        """
        begun = {"format": FORMAT, "source": asdict(source), "accuracy": asdict(accuracy)}
        path, wanted = folder / CONFIGURATION, json.loads(json.dumps(begun))
        if not path.exists() and any(not found.name.startswith(".") for found in folder.iterdir()):
            raise InputError(f"{folder} has files but no interview; choose another folder with --out")
        if not path.exists() or configuration_in(path) != wanted:
            if _has_answers(folder / ANSWERS):
                raise SettingsError(
                    f"{folder} holds an interview with other settings; choose another folder with --out"
                )
            with disk(path):
                (folder / ANSWERS).unlink(missing_ok=True)
                write(path, json.dumps(wanted, indent=2).encode(), private=True)
        with suppress(OSError):  # not every disk knows owners
            folder.chmod(0o700)
        return cls(folder, source, accuracy)

    def close(self) -> None:
        """Nothing more is written."""
        self.log.close()

    # What the person says and decides

    def answer(
        self, turn: int, action: int, like: Mapping[str, str] | None = None, also: Sequence[int] | None = None
    ) -> None:
        """What the person would do in the current situation and, if `like` says how others relate to it (see `Scope`),
        in all that are like it; or in those states that they name, `also`."""
        question = self._asked(turn, Question)
        event = self.dialogue.answer(question, action, like, also)
        wondered = self.dialogue.wondered
        if self._say(event):
            added = [(question.step, state, action) for state in event.get("also", ())]
            if wondered:
                added.insert(0, (question.step, question.state, action))
                self.dialogue.needed = next(iter(self.history.pending), None)
            else:
                self.engine.tell(Guess(action) if question.again else action)
                self.dialogue.question = None
            if added:
                self.engine.add_answers(added)

    def skip(self, turn: int) -> None:
        """The person does not know; the agent does something, and goes on."""
        asked = self._asked(turn, object)
        if isinstance(asked, LoggedTrajectory):
            self._review(self.dialogue.reviewed(asked, [], None))
        elif isinstance(asked, tuple):
            self._decide(turn, {"event": "prefer", "pair": list(asked), "better": None, "unknown": True})
        elif isinstance(asked, Question) and self._say(self.dialogue.skip(asked)):
            self.engine.tell(Reply.SKIP)
            self.dialogue.question = None

    def review(self, turn: int, step: int | None = None, action: int | None = None) -> None:
        """The person has seen an episode: it did as well as they would have, up to a step where they would do something
        else; to its end, if they name none."""
        self._review(self.dialogue.review(self._asked(turn, LoggedTrajectory), step, action))

    def _review(self, event: Event) -> None:
        news = self.dialogue.news(event)
        if self._say(event) and news:
            self.engine.add_answers(news)

    def prefer(self, turn: int, better: int | None) -> None:
        """Which of the two episodes the person likes better: 0, 1, or None if both alike."""
        pair = self._asked(turn, tuple)
        if better not in (0, 1, None):
            raise InputError(f"better must be 0, 1 or null, got {better!r}")
        self._decide(turn, {"event": "prefer", "pair": list(pair), "better": better} | self._seconds())

    def correct(self, turn: int, state: int, action: int) -> None:
        """What the person really would do in a state that has an answer."""
        self._check_turn(turn)
        self._decide(turn, self.dialogue.correct(state, action))

    def undo(self, turn: int) -> None:
        """Take back the last thing the person said, and ask about it once more; the episodes stay as they were.

        To play an episode again that had a surprise in it would make the promise unsound.
        """
        self._check_turn(turn)
        if not self.history.said:
            raise InputError("there is no answer to take back")
        self._decide(turn, {"event": "undo"})

    def verdict(
        self, turn: int, verdict: Verdict, what: str | None = None, where: int | None = None, *, besides: bool = False
    ) -> None:
        """Whether the person wanted what is read from their answers, at the end; and, if they say so, `what` they want
        ("wants") or avoid ("avoids"), and the state `where`, perhaps `besides` what they said before. That is about
        their wish, and nothing else."""
        self._check_turn(turn)
        ending = self.ending
        if self.phase != "done" or ending is None:
            raise StaleError
        n_states = self.engine.access.shape[1]
        if (what is None) != (where is None) or what not in ("wants", "avoids", None):
            raise InputError(f"what must be wants or avoids, and where a state; got {what!r} and {where!r}")
        if where is not None and not 0 <= where < n_states:
            raise InputError(f"where must be a state from 0 to {n_states - 1}, got {where}")
        named = [[one["what"], -1 if one["where"] is None else one["where"]] for one in ending.wish.named]
        chosen = None if what is None else [what, where]
        said: Event = {} if where is None else self.dialogue.named(where)
        event: Event = {"event": "verdict", "verdict": verdict, "named": named, "chosen": chosen}
        if ending.wish.kind == "set":
            event["one_of"] = True
        if besides and chosen is not None:
            event["besides"] = [one for one in self.history.chosen if one[:2] != chosen]
        self._decide(turn, event | {"sentence": ending.wish.sentence} | said | {"seconds": None})

    def finish(self, turn: int) -> None:
        """End here, with what there is."""
        self._decide(turn, {"event": "finish"})

    def go_on(self, turn: int) -> None:
        """Go on after having finished."""
        self._decide(turn, {"event": "go on"})

    def more(self, turn: int) -> None:
        """Be asked, after the end, about the situations that would tell most of what the person wants."""
        self._check_turn(turn)
        ending = self.ending
        if self.phase != "done" or ending is None or not ending.telling:
            raise StaleError
        self._decide(turn, {"event": "more", "states": list(ending.telling)})

    def start_again(self, turn: int) -> None:
        """Forget everything that was said and seen, and begin anew; the log keeps it."""
        self._decide(turn, {"event": "start again"})
        self.dialogue.learned, self.learned_version, self.ending = None, (0, 0), None

    def change_mode(self, turn: int, mode: Mode) -> None:
        """From now on be asked, play, or compare."""
        self._decide(turn, {"event": "mode", "mode": mode})

    def adjust(self, turn: int, epsilon: float, delta: float, horizon: int) -> None:
        """Ask for another accuracy, error rate or length of episodes; the evidence for a promise is gathered anew.

        Answers and episodes stay. Only what is wagered from now on can be about the new aim.
        """
        if (Accuracy(epsilon, delta), horizon) == (self.accuracy, self.environment.horizon):
            return
        self._check_horizon(horizon)
        event: Event = {"event": "adjust", "epsilon": epsilon, "delta": delta, "horizon": horizon}
        self._check_turn(turn)
        self._keep_step()
        try:  # what cannot be taken in must not be in the log
            self._rebuild(self.learned, event)
            self._keep(event)
        except BaseException:
            self._rebuild(self.learned)
            raise

    def question_shown(self) -> None:
        """The person has the current question before them; how long they take is counted from the first time."""
        if self.phase == "asking" and (self._shown is None or self._shown[0] != self.turn):
            self._shown = self.turn, time.monotonic()

    def _asked(self, turn: int, kind: type[Kind]) -> Kind:
        """What the person is asked, which must be of that kind."""
        self._check_turn(turn)
        asked = self.asked
        if self.phase != "asking" or not isinstance(asked, kind):
            raise StaleError
        return asked

    def _check_turn(self, turn: int) -> None:
        if turn != self.turn:
            raise StaleError

    def _say(self, event: Event) -> bool:
        """Log an answer to what is asked, and take it in; whether the engine waits for it, and was not built again."""
        wondered = self.dialogue.wondered and event["event"] == "answer"
        apart = not wondered and (self.history.reopened is not None or self.dialogue.needed is not None)
        declares = "scope" in event and not self.history.rules
        if self.history.apply(self._keep(event | self._seconds())) or apart or declares:
            self._rebuild(self.learned)
            return False
        return True

    def _decide(self, turn: int, event: Event) -> None:
        """Log what changes more than the next answer, and compute everything again."""
        self._check_turn(turn)
        self._keep(event)
        self._rebuild(self.learned)

    def _seconds(self) -> Event:
        """How long the current question has been before the person; None if that is not known."""
        if self._shown is None or self._shown[0] != self.turn:
            return {"seconds": None}
        return {"seconds": round(time.monotonic() - self._shown[1], 3)}

    # What the agent does

    @property
    def phase(self) -> Phase:
        """Whether the person is asked, the agent acts on its own, or the interview is over."""
        history = self.history
        if history.reopened is not None:
            return "asking"
        if history.pending:
            looks = looks_around(history) and not self.has_walked_enough
            return "walking" if self._step is not None or looks else "asking"
        if history.finished:
            return "done"
        if self._step is not None:
            return "walking"
        if self.dialogue.needed is not None:
            return "asking"
        if history.mode == "compare":
            if not enough_episodes(history) or self.learned_version != self.version:
                return "walking"
            return "done" if self.dialogue.pair is None else "asking"
        quiet = history.episodes_since_user_action >= QUIET_EPISODES or self.has_walked_enough
        if quiet or self.engine.belief.certified("policy"):
            return "done"
        return "asking" if self.asked is not None else "walking"

    @property
    def has_walked_enough(self) -> bool:
        """Whether the agent has made all the steps that it may make."""
        return self.history.samples >= MOST_WALKED

    @property
    def needs_inference(self) -> bool:
        """Whether the next step is to work out what is known, which whoever drives the interview has to do."""
        return self.history.mode == "compare" and enough_episodes(self.history) and self._step is None

    def walk_on(self, seconds: float, *, one_episode: bool = False) -> None:
        """Let the agent act on its own until the person is needed, all is done, or the time is up.

        With `one_episode` also until the episode is over.
        """
        deadline = time.perf_counter() + seconds
        while self.phase == "walking" and not self.needs_inference and time.perf_counter() < deadline:
            if self._step is None and self._between_episodes and self._ask_what_is_needed():
                break
            if self._step is None:
                self._step = self._next_step(deadline)
            self._keep_step()
            if one_episode and self.history.trajectory is not None and self.history.trajectory.over:
                break
        if self.phase == "done" and not (self.folder / RESULT).exists():  # else the person has seen the end
            self._ask_what_is_needed()
        self._publish()

    @property
    def _between_episodes(self) -> bool:
        walk = self.history.trajectory
        return (walk is None or walk.over) and not self.engine.under_way

    def _ask_what_is_needed(self) -> bool:
        """Whether there is a state that the person shall speak of because others have; then they are asked about it.

        It is looked for once after each thing that the person did, before the next episode, and at the end.
        """
        history, over = self.history, self.phase == "done"
        due = 2 * history.needed < history.answers and history.mode == "ask" and not history.finished
        if not due or history.pending or (self._needs_seen == self.turn and not over):
            return False
        self._needs_seen = self.turn
        self.dialogue.needed = next((state for state in self.needs() if state not in history.votes), None)
        return self.dialogue.needed is not None

    def _next_step(self, deadline: float) -> Question | Turn | None:
        """Walk until the person is needed, or the episode is over; None if the time is up before."""
        if self._between_episodes:
            self.dialogue.begin_episode()
            self._use_settings()
        step = self.engine.ask()
        while isinstance(step, Question):
            if time.perf_counter() > deadline:
                return None  # the next time it is the same question
            reply = self.dialogue.reply(step)
            if reply is None:
                break
            if isinstance(reply, SaidRule):
                self._log_walk(_so_far(step))
                self._log_applied([(reply, step.step, step.state)])
                reply = reply.action
            self.engine.tell(reply)
            step = self.engine.ask()
        return step

    def _use_settings(self) -> None:
        """An episode that the person plays, or may be shown, does what they would do throughout; one without them tries
        what they would not."""
        mode: EpisodeMode = "shown" if self.history.mode == "play" else self.dialogue.episode_mode
        self.engine.settings = self._settings_by_mode[mode]

    # What is logged

    def _keep(self, event: Event) -> Event:
        """Log what the person did, after all that the agent did before, and see it on the disk; the event as logged."""
        if self.log.size > MOST_LOGGED:
            raise InputError(f"{self.log.path.name} is full; start again in another folder")
        self._keep_step()
        self._note_spent()
        event = event | {"time": datetime.now(UTC).isoformat(timespec="seconds")}
        with self._writing():
            self.log.append([event])
        self._drop_result()
        return event

    def _keep_step(self) -> None:
        """Log what the agent did last, and take it in."""
        step = self._step
        if isinstance(step, Question):
            self._log_walk(_so_far(step))
            self.dialogue.question = step
        elif step is not None:
            self._log_walk(step.episodes[0], over=True)
        self._step = None
        if isinstance(step, Turn):
            self._apply_rules()

    def _log_walk(self, episode: Trajectory, *, over: bool = False) -> None:
        """Log the part of an episode that is not in the history yet, and take it in.

        It need not be on the disk at once: no answer is in it, and from the same answers it would come out the same.
        """
        history, walk = self.history, self.history.trajectory
        begins = walk is None or walk.over
        number = 0 if walk is None else walk.number + begins
        first, noted = (0, 0) if walk is None or begins else (walk.step, len(walk.guessed))
        new = episode.walk[first:]
        path = [new[0][1] if new else walk.states[-1] if walk and not begins else episode.start]
        path += [value for _, _, action, there in new for value in (action, there)]
        event: Event = {"event": "walk", "episode": number, "step": first, "path": path}
        if begins:
            wagers = self.engine.wagers
            event["stakes"] = {kind: wager.stake for kind, wager in wagers.items()}
            if waits := {kind: wager.wait_for for kind, wager in wagers.items() if wager.wait_for}:
                event["waits"] = waits
            event["conduct"] = self.dialogue.episode_mode
        if guessed := list(self.dialogue.guessed.values())[noted:]:
            event["guessed"] = [list(one) for one in guessed]
        if over:
            event |= {"over": True, "offered": self.dialogue.offers_review}
        names = self.engine.access.names
        if len(names) > len(history.names):
            event["names"] = list(names[len(history.names) :])
        if begins or over or new:
            self._log([event])

    def _apply_rules(self) -> None:
        """Answers for many situations hold for those too that were met when nobody was asked."""
        history = self.history
        new = sorted(set(history.met) - set(history.known()) - self.engine.access.terminal) if history.rules else []
        found = [(rule, 0, state) for state in new if (rule := self.dialogue.rule(state)) is not None]
        if found:
            self._log_applied(found)
            self.engine.add_answers([(step, state, rule.action) for rule, step, state in found])

    def _log_applied(self, found: list[tuple[SaidRule, int, int]]) -> None:
        """Log that answers for many situations hold for these steps and states."""
        self._log(
            [
                {"event": "applied", "state": state, "step": step, "action": rule.action, "rule": rule.number}
                | self.dialogue.named(state, rule.action)
                for rule, step, state in found
            ]
        )

    def _log(self, events: list[Event]) -> None:
        with self._writing():
            self.log.append(events, wait=False)
        for event in events:
            self.history.apply(event)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A write that fails is remembered until one works."""
        try:
            yield
        except DiskError as error:
            self.trouble = str(error)
            raise
        self.trouble = None

    def _note_spent(self) -> None:
        """Log what a run that went on from the result has spent of the error rate, before that is lost with it."""
        try:
            state = Run.open(self.folder).state() if (self.folder / RUN).exists() else None
        except InputError:
            return  # it cannot go on either
        restarts = 0 if state is None else Budget.of(state.evidence).restarts
        if restarts > self.history.spent:
            self._log([{"event": "spent", "restarts": restarts}])

    def _drop_result(self) -> None:
        """Remove what was left in the folder when the interview was over: it holds no more."""
        for name in RESULTS:
            with suppress(OSError):  # `files` does without it, and the next result replaces it
                (self.folder / name).unlink()

    # What follows from the log

    def _rebuild(self, learned: Turn | None, *also: Event) -> None:
        """Compute everything from the log again, and bring the environment back to where the log ends.

        `also` are events to be tried, as if they were the last of the log.
        """
        earlier = self.history.earlier
        events = [*self.log.after(earlier.lines), *also]
        try:
            self.history = history = History.of(events, earlier)
        except InputError as error:
            raise InputError(f"{self.log.path}, {error}") from error.__cause__
        self._note_spent()
        self._set_up()
        horizon = self.environment.horizon
        self.dialogue = Dialogue(history, self.view, self.source.seed, learned)
        begun = Budget.begun("policy")
        budget = replace(begun.started_anew("policy", history.restarts), restarts=history.spent)
        answers = Answers(replace(PERSON, declares=bool(history.rules)), wanted=self.dialogue.wanted)
        self.engine = Engine(self.environment, answers, self.settings, budget=budget)
        self.engine.access.recall(tuple(history.names))
        if not history.fits(self.engine.access.shape):
            raise InputError(f"{self.log.path} is of another environment")
        recorded, under_way = history.recorded(horizon), history.under_way(horizon)
        self.engine.replay(recorded[:-1] if under_way else recorded, tuple(history.names))
        if history.compared:
            self.engine.prefer(*history.preferences(horizon))
        if under_way:
            self.engine.resume_episode(*recorded[-1])
        self._use_settings()
        self._step = None
        if self.phase != "done":
            self._drop_result()
        self._publish()

    def _publish(self) -> None:
        """Let others see what there is now."""
        history, view, before = self.history, self.view, self.public
        known = history.known()
        said = before.said
        if (before.version[0], len(said)) != (self.turn, len(known)):
            said = {situation(view, state): (view.name(state), action) for state, action in known.items()}
        learned = self.learned if self.phase == "done" and self.kept_version == self.version else None
        self.public = Public(self.version, history.answers, self.phase, said, learned, history.told)

    def _set_up(self) -> None:
        """The settings that hold now: those the interview was begun with, or as the person has adjusted them."""
        history, (self.source, self.accuracy) = self.history, self.begun_with
        horizon = self._begun_horizon
        if history.adjusted is not None:
            self.accuracy, horizon = history.adjusted
        if horizon != self._begun_horizon:
            self._check_horizon(horizon)
            self.source = self.source.with_horizon(horizon)
        if horizon != self.environment.horizon:
            self.view = open_view(self.source)
            self.environment = self.view.environment
        # Who starts again meets new chances: to see the same episodes once more would make the promise unsound.
        self.seed, times = self.source.seed, history.times_begun
        if times:
            self.seed = int(generator(self.seed, AGAIN, times).integers(2**31))
        self.settings = Settings(
            strategy="guided",
            epsilon=self.accuracy.epsilon * horizon,
            delta=self.accuracy.delta,
            max_samples=10**9,
            infer_after_growth=INFER_AFTER_GROWTH,
            seed=self.seed,
        )
        self._settings_by_mode: dict[EpisodeMode, Settings] = {
            mode: Settings(**(self.settings.model_dump() | {"strategy": strategy}))
            for mode, strategy in STRATEGIES.items()
        }

    def _check_horizon(self, horizon: int) -> None:
        if not 1 <= horizon <= self.most_steps:
            raise InputError(f"horizon must be a whole number from 1 to {self.most_steps}, got {horizon}")

    # What is known

    @property
    def turn(self) -> int:
        """How many things the person did, undoing included."""
        return self.history.turn

    @property
    def asked(self) -> Question | LoggedTrajectory | tuple[int, int] | None:
        """What the person is asked now; see `Dialogue.asked`."""
        return self.dialogue.asked

    @property
    def learned(self) -> Turn | None:
        """What was inferred last; None if nothing was."""
        return self.dialogue.learned

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

    def preview(self) -> Turn:
        """What is known now, as a turn from which nothing has been worked out yet.

        The last one also has how often the person said the same again: what they contradicted is not certified.
        """
        walk = self.history.trajectory
        if walk is None or walk.over:
            turn = self.engine.last_turn
        else:
            turn = self.engine.preview(self.history.recorded(self.environment.horizon)[-1][0])
        return turn.with_repeats(self.history.repeated(turn.counts.shape[1])) if self.phase == "done" else turn

    @property
    def askable(self) -> list[int]:
        """The states that were met and of which the person has said nothing; none for one who compares."""
        history = self.history
        if history.mode == "compare":
            return []
        return sorted(set(history.met) - history.votes.keys() - self.engine.access.terminal)

    def named(self) -> NamedStates:
        """What the states and actions are called, for sentences about them."""
        view, states = self.view, range(self.environment.n_states)
        said = self.history.known()
        return NamedStates(
            [view.name(state) for state in states],
            [action.name for action in view.actions],
            said,
            {state: view.features(state) for state in said},
        )

    def adopt(self, turn: Turn, version: tuple[int, int], ending: Ending | None = None) -> None:
        """Take over what was worked out, and leave it in the folder if it is the last word; that comes with an
        `ending`, which is worked out if it is not given."""
        self.dialogue.learned, self.learned_version = turn, version
        if self.needs_inference and version == self.version:
            self.dialogue.pair = next_pair(self.history, turn)
        if self.phase == "done" and version == self.version:
            self.ending = ending or ending_of(turn, self.named(), self.history.told, self.askable)
            result = json.dumps(summary(self), indent=2, ensure_ascii=False).encode()
            lines = "".join(json.dumps(line) + "\n" for line in self._demonstrations())
            with self._writing(), disk(self.folder):
                write(self.folder / DEMONSTRATIONS, lines.encode(), private=True)
                source = replace(self.source, expert=HERE)
                Run.written(self.folder, self.settings, source, turn, "questions", self.history.told)
                write(self.folder / RESULT, result, private=True)
            self.kept_version = version
        self._publish()

    def _demonstrations(self) -> Iterator[dict[str, Any]]:
        """The answers that stand, as `DemonstrationExpert` reads them: with names, and when each was last given."""
        for state, action in sorted(self.history.known().items()):
            observation, does = self.view.demonstrated(state, action)
            given = {key: self.history.given[state, action].get(key) for key in ("time", "seconds")}
            yield {"observation": observation, "action": does} | self.dialogue.named(state, action) | given

    def files(self) -> dict[str, bytes]:
        """The files for the person: the log, and the result if it is the present one; without what is gone."""
        found = {ANSWERS: self.log.content()}
        for name in (CONFIGURATION, *(RESULTS if self.kept_version == self.version else ())):
            with suppress(FileNotFoundError):
                found[name] = (self.folder / name).read_bytes()
        return found


def summary(interview: Interview) -> dict[str, Any]:
    """What an interview has come to, in plain values."""
    history, view, ending = interview.history, interview.view, interview.ending
    names = [view.name(state) for state in range(interview.environment.n_states)]
    actions = [action.name for action in view.actions]
    return {
        "environment": interview.source.environment,
        "goal": [] if ending is None or ending.goal is None else ending.goal.lines,
        "wish": None if ending is None else ending.wish.to_json(),
        "verdicts": [
            {name: event.get(name) for name in ("sentence", "verdict", "chosen", "state_name")}
            for event in history.verdicts
        ],
        "certified": interview.certified,
        "certified_loss_share": interview.certified_share,
        "asked_loss_share": interview.accuracy.epsilon,
        "confidence": 1 - interview.accuracy.delta,
        "answers": history.answers,
        "situations": len(history.known()),
        "comparisons": len(history.compared),
        "skipped": history.skips,
        "episodes": history.episodes,
        "steps": history.samples,
        "answer_errors": asdict(answer_errors(history.repeats, history.contradictions)),
        "answers_by_state": {names[state]: actions[action] for state, action in history.known().items()},
        "contradictions": {
            names[state]: [actions[vote] for vote in votes.votes] for state, votes in history.contradictory().items()
        },
    }


def _so_far(question: Question) -> Trajectory:
    """The episode that led to a question."""
    return Trajectory.of_moves(question.walk[0][1] if question.walk else question.state, question.walk)


def _most_steps(environment: NumberedEnvironment) -> int:
    """How long episodes may be made: as long as they are, and as there is room for."""
    access = Capabilities.of(environment)
    (horizon, n_states, n_actions), possible = access.shape, access.possible_states or 0
    entries = n_actions * int(possible if n_states < possible < np.inf else n_states)
    return max(horizon, min(MOST_STEPS, MOST_ENTRIES // entries))


def configuration_in(path: Path) -> Any:
    """What an interview was begun with."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _has_answers(path: Path) -> bool:
    """Whether a person has done anything in a log."""
    if not path.exists():
        return False
    with closing(LogFile(path)) as log:
        return any(event.get("event") in USER_ACTIONS for event in log)
