"""Every way to make the evidence for a promise start anew, tried after each surprise: does the error rate add up?

The process is made for it: an episode is one step from a start, and to start in one of fifty rare places is a
little more likely than the share that is certified. Whoever meets none of them for a while would promise too much, and
whoever begins anew after each surprise tries again and again. Stakes are as bold as any can be. The promise is looked
at after every episode; it is broken if at any of them more is lost on average than is promised.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import gymnasium
import numpy as np

from aceirl.certificates import Wager
from aceirl.certificates.policy import PolicyCertificate
from aceirl.experts import FunctionExpert
from aceirl.experts.tasks import Source, open_source
from aceirl.irl.belief import Belief, Plan
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.mdp import IntArray
from aceirl.protocols import Question
from aceirl.runs import Run
from aceirl.runs.folder import state_under
from aceirl.web.driver import Interview
from aceirl.web.history import Accuracy
from studies.soundness import DELTAS, Outcome, Promise, certified_value, looked

SHARE, CHANCE, RARE = 0.1, 0.14, 50
STAKE = 0.98
EPISODES = 40


class Starts:
    """Episodes of one step, from the start 0 or from one of the rare ones."""

    n_states, n_actions, horizon, initial = 1 + RARE, 2, 1, None

    def __init__(self, chance: float = CHANCE) -> None:
        self.chance = chance

    def reset(self, rng: np.random.Generator) -> int:
        """Draw a start."""
        return int(rng.integers(1, 1 + RARE)) if rng.random() < self.chance else 0

    def step(self, action: int) -> tuple[int, bool]:
        """There is nothing after it."""
        return 0, False


class Rooms(gymnasium.Env[Any, Any]):
    """The same, for people."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    observation_space, action_space = gymnasium.spaces.Discrete(1 + RARE), gymnasium.spaces.Discrete(2)

    def __init__(self, chance: float = CHANCE) -> None:
        self.chance = chance

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return Starts(self.chance).reset(self.np_random), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, 0.0, False, False, {}


def look(outcome: Outcome, belief: Belief, names: tuple[str, ...] = ()) -> int:
    """Look at the promise of a moment: what is lost on average at the starts that are not known; how many are.

    Nothing is presumed of the experts here. `names` are the states, where they are numbered as they are met.
    """
    known = belief.known_actions
    assert known is not None
    starts = np.flatnonzero(known[0] >= 0).tolist()
    numbers = {int(names[state]) for state in starts if names[state] != "nowhere"} if names else set(starts)
    lost = (1 - CHANCE) * (0 not in numbers) + CHANCE * (RARE - len(numbers - {0})) / RARE
    for promise in outcome:
        looked(outcome, promise, lost, certified_value(belief, "policy", promise.delta), 1.0)
    return len(starts)


@contextmanager
def bold() -> Iterator[None]:
    """The boldest stakes there are, people who are asked in every episode, and no reward inferred."""
    asked = patch("aceirl.web.dialogue.next_mode", lambda *_, **__: "asked")
    plain = patch("aceirl.web.driver.Settings", partial(Settings, irl=None))
    with asked, plain, patch.object(PolicyCertificate, "watch", _wager):
        yield


def _wager(kind: PolicyCertificate, belief: Belief, plan: Plan, reference: IntArray | None) -> Wager:
    """Nearly all on every episode, once a start is known."""
    return Wager(STAKE if belief.known_actions is not None and belief.known_actions.max() >= 0 else 0.0)


# Runs.

WANTED = Settings(strategy="advice", irl=None, certify="policy", epsilon=SHARE, delta=min(DELTAS), reward="any")
OTHERWISE: dict[str, Callable[[int], dict[str, Any]]] = {
    "resume": lambda time: {"epsilon": SHARE / 20.0 ** min(time, 10)},  # below all levels that there were
    "space": lambda time: {"reward": "state"},
    "none": lambda time: {},
}
"""What is asked for a moment after each surprise, by how many there were, before the run goes on as it was."""


@bold()
def resumed_run(way: str, seed: int) -> Outcome:
    """A run of which something else is asked after each surprise, and then the same as before."""
    outcome: Outcome = {Promise("policy, E[Z]", f"restarts: {way}", delta): None for delta in DELTAS}
    expert = FunctionExpert(lambda step, state: 1, ask_again=1.0)
    settings, met = Settings(**{**WANTED.model_dump(), "seed": seed}), 0
    engine = Engine(Starts(), answers_of(expert, settings), settings)
    for _ in range(EPISODES):
        turn = _next_turn(engine)
        now = look(outcome, turn.belief)
        if now > met:
            other = Settings(**{**settings.model_dump(), **OTHERWISE[way](now)})
            state = state_under(state_under(turn.state, settings, other), other, settings)
            engine = Engine(Starts(), answers_of(expert, settings), settings, state=state)
        met = now
    return outcome


def _next_turn(engine: Engine) -> Turn:
    while isinstance(step := engine.ask(), Question):
        engine.tell(1)
    return step


# Interviews.

PERSON_EPISODES, OPENINGS, OPENED_EPISODES = 30, 2, 20


@bold()
def interviewed_run(way: str, seed: int) -> Outcome:
    """An interview whose person does something after each surprise that makes the evidence start anew."""
    outcome: Outcome = {Promise("policy, E[Z]", f"restarts: {way}", delta): None for delta in DELTAS}
    source = Source("studies.restarts:Rooms", {}, seed=seed, horizon=1)
    with TemporaryDirectory() as folder, closing(Interview.open(Path(folder), source, Accuracy())) as interview:
        surprised, interventions = False, 0
        for _ in range(PERSON_EPISODES):
            if interview.phase == "done":
                break
            if interview.phase == "walking":
                interview.walk_on(60.0, one_episode=True)
            if isinstance(interview.asked, Question):
                surprised |= len(interview.history.known()) > 0 and not interview.asked.again
                interview.answer(interview.turn, 1)
                interview.walk_on(60.0, one_episode=True)
            look(outcome, interview.engine.belief, interview.engine.access.names)
            if surprised and interview.phase == "walking" and (way != "opening" or interventions < OPENINGS):
                INTERVENTIONS[way](interview, outcome)
                surprised, interventions = False, interventions + 1
    return outcome


def edit(interview: Interview, outcome: Outcome) -> None:
    """Say something else of the common start."""
    state, action = next(iter(interview.history.known().items()))
    interview.correct(interview.turn, state, 1 - action)


def undo(interview: Interview, outcome: Outcome) -> None:
    """Take the last answer back after an episode, and say the same again."""
    interview.walk_on(60.0, one_episode=True)
    interview.undo(interview.turn)
    if isinstance(interview.asked, Question):
        interview.answer(interview.turn, 1)


def adjust(interview: Interview, outcome: Outcome) -> None:
    """Ask for another accuracy."""
    interview.adjust(interview.turn, interview.accuracy.epsilon * 0.999, interview.accuracy.delta, 1)


def start_again(interview: Interview, outcome: Outcome) -> None:
    """Forget everything."""
    interview.start_again(interview.turn)


def opening(interview: Interview, outcome: Outcome) -> None:
    """Finish, go on in the folder as a run of which another accuracy is asked, and then with the interview."""
    interview.finish(interview.turn)
    with patch("aceirl.web.driver.summary", lambda _: {}):  # the words take long, and promise nothing
        interview.adopt(interview.preview(), interview.version)
    run = Run.open(interview.folder)
    for epsilon in (SHARE / 20.0 ** (1 + interview.history.spent), SHARE):
        run.change({"epsilon": epsilon, "irl": None, "certify": "policy", "strategy": "advice"})
    assert run.source is not None
    with open_source(run.source) as task:
        for turn in itertools.islice(run.resume(task.environment, task.expert, task=task), OPENED_EPISODES):
            look(outcome, turn.belief, turn.names)
    interview.go_on(interview.turn)


INTERVENTIONS: dict[str, Callable[[Interview, Outcome], None]] = {
    "edit": edit,
    "undo": undo,
    "adjust": adjust,
    "start again": start_again,
    "opening": opening,
}

RESTARTS: dict[str, Callable[[int], Outcome]] = {
    **{f"restarts: {way}": partial(resumed_run, way) for way in OTHERWISE},
    **{f"restarts: {way}": partial(interviewed_run, way) for way in INTERVENTIONS},
}

WORDS = {
    "restarts: resume": "`resume` with a far smaller `ε`, then as before",
    "restarts: space": "`resume` with a reward of states, then as before",
    "restarts: none": "nothing",
    "restarts: edit": "an answer is put right",
    "restarts: undo": "the answer is taken back after an episode, and given again",
    "restarts: adjust": "another `ε` is asked of the interview",
    "restarts: start again": "the interview starts again",
    "restarts: opening": "the interview is opened as a run that `resume`s with a far smaller `ε`, then goes on",
}
"""What is done after each surprise."""
