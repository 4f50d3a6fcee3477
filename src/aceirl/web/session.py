"""An interview without a page: what to ask next, what to do with an answer. No thread ever waits for a person."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from aceirl.certificates import place
from aceirl.errors import InputError
from aceirl.protocols import EndingEnvironment, GrowingEnvironment
from aceirl.sources import Source
from aceirl.web import learning
from aceirl.web.history import History, Walk, effective
from aceirl.web.learning import Learnt, Snapshot
from aceirl.web.log import Event, Log, replace_file
from aceirl.web.slips import slips
from aceirl.web.stage import open_stage

CONFIGURATION, ANSWERS, REWARD, RESULT = "interview.json", "answers.jsonl", "reward.npz", "result.json"
PUBLIC_FILES = (CONFIGURATION, ANSWERS, REWARD, RESULT)
FORMAT = 1

# The first question that comes twice comes after so many answers, and the next ones after some number in the range.
FIRST_REPEAT, LATER_REPEATS = 6, (9, 15)

# A question is not repeated before so many others were answered, nor asked more than three times in all.
REST, MAX_VOTES = 4, 3

# So many episodes in a row without a question, and nothing is left to ask.
QUIET_EPISODES = 300

# What a stream of chance is for, in the name of its seed.
EPISODE, GUESS, REPEAT = 0, 1, 2

Phase = Literal["asking", "walking", "done"]


class StaleError(Exception):
    """The answer is to a question that is no longer the current one."""


@dataclass(frozen=True)
class Terms:
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

    The log in `answers.jsonl` is the truth; everything else is computed from it. `turn` counts what the person did,
    undoing included, and names the current question: whoever acts says which turn they saw, and is refused if it has
    passed, so of two answers to one question only the first counts.
    """

    def __init__(self, folder: Path, source: Source, terms: Terms) -> None:
        self.folder, self.source, self.terms = folder, source, terms
        self.stage = open_stage(source)
        self.environment = self.stage.environment
        self.log = Log(folder / ANSWERS)
        self.learnt: Learnt | None = None
        try:
            self._rebuild()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, folder: Path, source: Source, terms: Terms) -> Interview:
        """The interview in a folder that exists, begun if there is none."""
        wanted = {"format": FORMAT, "source": asdict(source), "terms": asdict(terms)}
        wanted = json.loads(json.dumps(wanted))
        path = folder / CONFIGURATION
        if path.exists():
            try:
                found = json.loads(path.read_text())
            except ValueError as error:
                raise InputError(f"{path} cannot be read: {error}") from None
            if found != wanted:
                raise InputError(f"{folder} holds an interview with other settings; choose another folder with --out")
        else:
            if any(folder.iterdir()):
                raise InputError(f"{folder} has files but no interview; choose another folder with --out")
            replace_file(path, json.dumps(wanted, indent=2).encode())
        return cls(folder, source, terms)

    def close(self) -> None:
        """Nothing more is written."""
        self.log.close()

    # What the person does

    def answer(self, turn: int, action: int) -> None:
        """What the person would do in the current situation."""
        walk = self._asked(turn)
        self._check_action(action)
        self._do({"event": "answer", "state": walk.states[-1], "step": walk.step, "action": action})

    def skip(self, turn: int) -> None:
        """The person does not know; the agent does something, and goes on."""
        walk = self._asked(turn)
        self._do({"event": "skip", "state": walk.states[-1], "step": walk.step})

    def correct(self, turn: int, state: int, action: int) -> None:
        """What the person really would do in a state about which they said different things."""
        self._check_turn(turn)
        self._check_action(action)
        if self.history.standing(state) is None:
            raise InputError(f"state {state} was never answered, so there is nothing to put right")
        self._do({"event": "correct", "state": state, "action": action})

    def undo(self, turn: int) -> None:
        """Take back the last thing the person did: everything is again as it was when they did it."""
        self._check_turn(turn)
        if not self.deeds:
            raise InputError("there is no answer to take back")
        self.log.append([{"event": "undo"}])
        self._rebuild()

    # What the agent does

    @property
    def phase(self) -> Phase:
        """Whether the person is asked, the agent acts on its own, or the interview is over."""
        history = self.history
        if self.certified or history.episodes_since_deed >= QUIET_EPISODES:
            return "done"
        if history.over():
            return "walking"
        assert history.walk is not None
        return "asking" if self._wants_answer(history.walk.number, history.walk.states[-1]) else "walking"

    def walk_on(self, seconds: float) -> None:
        """Let the agent act on its own until the person is needed, all is done, or the time is up."""
        deadline = time.perf_counter() + seconds
        events: list[Event] = []
        while self.phase == "walking" and time.perf_counter() < deadline:
            event = self._stretch()
            events.append(event)
            self.history.apply(event)
        # No answer is in these events, and from the same answers they would come out the same.
        self.log.append(events, wait=False)

    # What is known

    @property
    def certified_share(self) -> float:
        """The certified loss against the person, as a share of the most an episode can be worth."""
        return self.history.wealth.certified(0, self.terms.delta)

    @property
    def certified(self) -> bool:
        """Whether the policy certificate is as good as was asked."""
        return self.certified_share <= self.terms.epsilon * (1 + 1e-9)

    @property
    def version(self) -> tuple[int, int]:
        """The moment: what the person and the agent have done so far."""
        return self.turn, self.history.samples

    def snapshot(self) -> Snapshot:
        """A copy of what is known now, to learn from."""
        warm = None if self.learnt is None else self.learnt.parameters
        return Snapshot.of(self.environment, self.history, self.version, self.terms.delta, warm)

    def adopt(self, learnt: Learnt) -> None:
        """Take over what was learnt from a snapshot, and leave it in the folder if it is the last word."""
        self.learnt = learnt
        if self.phase == "done" and learnt.version == self.version:
            for name, content in learning.as_files(learnt, self.summary()).items():
                replace_file(self.folder / name, content)

    def summary(self) -> dict[str, Any]:
        """The outcome in plain values."""
        history = self.history
        erring = slips(history.repeats, history.contradictions)
        return {
            "environment": self.source.environment,
            "certified": self.certified,
            "certified_loss_share": self.certified_share,
            "asked_loss_share": self.terms.epsilon,
            "confidence": 1 - self.terms.delta,
            "answers": history.answers,
            "skipped": history.skips,
            "episodes": history.episodes,
            "steps": history.samples,
            "greedy_policy_agrees_with_answers": self.learnt is not None and self.learnt.agrees,
            "slips": asdict(erring),
            "slack": None if self.learnt is None else self.learnt.slack,
            "answers_by_state": {
                self.stage.name(state): self.stage.actions[action].name for state, action in history.known().items()
            },
            "contradictions": {
                self.stage.name(state): [self.stage.actions[vote].name for vote in opinion.votes]
                for state, opinion in history.opinions.items()
                if opinion.contradictory
            },
        }

    def episode_generator(self, number: int) -> np.random.Generator:
        """All the chance of an episode, as it was when the episode was played."""
        return self.generator(EPISODE, number)

    def generator(self, *name: int) -> np.random.Generator:
        """A stream of chance of that name; the same whenever it is asked for."""
        return np.random.default_rng(np.random.SeedSequence(self.source.seed, spawn_key=name))

    def _check_turn(self, turn: int) -> None:
        if turn != self.turn:
            raise StaleError

    def _asked(self, turn: int) -> Walk:
        self._check_turn(turn)
        if self.phase != "asking" or self.history.walk is None:
            raise StaleError
        return self.history.walk

    def _check_action(self, action: int) -> None:
        if not 0 <= action < self.environment.n_actions:
            raise InputError(f"action {action} is not one of 0 to {self.environment.n_actions - 1}")

    def _do(self, event: Event) -> None:
        self.log.append([event])
        self.history.apply(event)
        self.turn += 1
        self.deeds += 1
        if self.history.stale:
            self._rebuild()

    def _wants_answer(self, episode: int, state: int) -> bool:
        if self.history.open(state):
            return not self.history.skipped_in(episode, state)
        return self._is_due_again(state)

    def _is_due_again(self, state: int) -> bool:
        history, opinion = self.history, self.history.opinions[state]
        if opinion.settled or not 0 < len(opinion.votes) < MAX_VOTES or history.answers - opinion.last_answer < REST:
            return False
        if opinion.tied:
            return True
        low, high = LATER_REPEATS
        number = history.repeats
        gap = FIRST_REPEAT if number == 0 else int(self.generator(REPEAT, number).integers(low, high + 1))
        return history.answers - history.last_repeat >= gap

    def _stretch(self) -> Event:
        """Go on by the known answers to the next question or the end of the episode; begin one if there is none."""
        environment, walk = self.environment, self.history.walk
        event: Event = {"event": "walk"}
        if walk is None or self.history.over():
            number, first = (0 if walk is None else walk.number + 1), 0
            event["stake"] = place(self.history.forecast(), self.terms.epsilon).stake
            path = [environment.reset(self.episode_generator(number))]
        else:
            number, first = walk.number, walk.step
            path = [walk.states[-1], *self._step(number, first, walk.states[-1])]
        end = environment.end if isinstance(environment, EndingEnvironment) else None
        while (step := first + len(path) // 2) < environment.horizon and path[-1] != end:
            if self._wants_answer(number, path[-1]):
                break
            path += self._step(number, step, path[-1])
        event |= {"episode": number, "step": first, "path": path}
        if isinstance(environment, GrowingEnvironment) and environment.n_states > len(self.history.names):
            event["names"] = list(environment.names[len(self.history.names) :])
        return event

    def _step(self, number: int, step: int, state: int) -> tuple[int, int]:
        """One step by the answer that counts, or any action where there is none: `(action, next state)`."""
        action = self.history.standing(state)
        if action is None:
            action = int(self.generator(GUESS, number, step).integers(self.environment.n_actions))
        return action, self.environment.step(action)

    def _rebuild(self) -> None:
        """Compute everything from the log again, and bring the environment back to where the log ends."""
        events, self.turn = effective(self.log)
        self.deeds = sum(event["event"] != "walk" for event in events)
        self.history = self._replayed(events, None)
        if self.history.stale:
            final = {state: opinion.standing for state, opinion in self.history.opinions.items()}
            self.history = self._replayed(events, final)
        if isinstance(self.environment, GrowingEnvironment):
            self.environment.recall(tuple(self.history.names))
        if not self.history.over():
            assert self.history.walk is not None
            self._walk_again(self.history.walk)

    def _replayed(self, events: list[Event], final: dict[int, int | None] | None) -> History:
        environment = self.environment
        initial = environment.initial
        history = History(
            (environment.horizon, environment.n_actions),
            self.terms.epsilon,
            starts=None if initial is None else tuple(int(state) for state in np.flatnonzero(initial)),
            end=environment.end if isinstance(environment, EndingEnvironment) else None,
            standing_at_the_end=final,
        )
        for event in events:
            history.apply(event)
        if final is not None:
            history.final, history.stale = None, False
        return history

    def _walk_again(self, walk: Walk) -> None:
        states = [self.environment.reset(self.episode_generator(walk.number))]
        states += [self.environment.step(action) for action in walk.actions]
        if states != walk.states:
            raise InputError(
                f"episode {walk.number} of {self.folder} went differently when it was played again; "
                "the environment must take all its chance from the seed"
            )
