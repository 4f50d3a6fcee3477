"""Twenty scripted people with definite wishes: what they would do, what they want, and whether the ending says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from aceirl.envs.described import words
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.envs.truth import exact_model
from aceirl.experts.tasks import Source, gym_env
from aceirl.models.tabular.encoder import PADDING_STATE
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.protocols import Question
from aceirl.rewards.hypotheses import Claim
from aceirl.web.driver import Interview
from aceirl.web.history import Accuracy, LoggedTrajectory
from aceirl.web.view import view

Verdict = Literal["right", "agrees", "quoted", "contradicted", "rule", "vague", "open", "wrong"]
"""What the last sentence is worth, by what the person wants.

It is "right" if it names that, alone or as one of at most four. It "agrees" if it says that the person wants what they
said, and that their answers agree; it is "quoted" if it says that they do not show it, and "contradicted" if it says
that they speak against it. A "rule" is what somebody does who wants no place, and is told in what the agent does. A
"vague" sentence is true and does not name the place: of somebody who wants the only end, that they want to lose
no time."""

# How much a step later is worth to people.
PATIENCE = 0.97

# So often people let themselves be asked more, when it is over and their wish is not told.
MORE_TIMES = 2

# So many places somebody names at most that they keep away from.
MOST_AVOIDED = 4

# Sentences after which nobody goes on.
GOOD = ("right", "agrees", "rule")

# What somebody wants: what each place pays, by words in its name.
Pays = Mapping[str, float]


@dataclass(frozen=True)
class Somebody:
    """A person who does what is best for what places `pay`, by words in their names, on an environment.

    The first place that pays most is what they want, and in an episode in which they have been there, `then`.
    `believes` are other parameters of the environment that they take for granted, `does` says instead what they do by
    the features of a situation, `rule` that in words, and who is `erratic` does anything.
    """

    name: str
    environment: str
    pays: Pays = field(default_factory=dict)
    then: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    believes: Mapping[str, Any] | None = None
    does: Callable[[Mapping[str, Any]], str] | None = None
    rule: str | None = None
    erratic: bool = False
    horizon: int | None = None

    @property
    def source(self) -> Source:
        """The environment."""
        return Source(self.environment, dict(self.parameters), seed=0, stationary_expert=True, horizon=self.horizon)


LAKE, CLIFF = "FrozenLake-v1", "CliffWalking-v1"
PEOPLE = (
    Somebody("the flag", LAKE, {"flag": 1.0}),
    Somebody("the flag, no slip", LAKE, {"flag": 1.0}, parameters={"is_slippery": False}),
    Somebody("the nearest hole", LAKE, {"hole in row 2, column 2": 1.0}),
    Somebody("never the left column", LAKE, {"column 1": -1.0}),
    Somebody("the flag, but not the top row", LAKE, {"flag": 1.0, "row 1,": -0.05}),
    Somebody("park in a corner", LAKE, {"row 1, column 4": 1.0}),
    Somebody("does not know that the ice slips", LAKE, {"flag": 1.0}, believes={"is_slippery": False}),
    Somebody("clicks at random, lake", LAKE, erratic=True),
    Somebody("the goal, far from the cliff", CLIFF, {"goal": 1.0, "row 3,": -0.05}, horizon=100),
    Somebody("the goal, the short way", CLIFF, {"goal": 1.0}, horizon=100),
    Somebody("park in the far corner", CLIFF, {"row 1, column 12": 1.0}, horizon=100),
    Somebody("the end of the upper corridor", "four-paths", {"upper corridor, cell 10": 1.0}),
    Somebody("the passenger delivered", "Taxi-v4", {"delivered": 1.0}, horizon=30),
    Somebody("the middle", "four-paths", {"the middle": 1.0}),
    Somebody(
        "stick from 17",
        "Blackjack-v1",
        does=lambda hand: "stick" if hand["your hand"] >= 17 else "hit",
        rule="stick: your hand 17 or more",
        horizon=12,
    ),
    Somebody("the right end of a chain", "double-chain", {"place 30": 1.0}),
    Somebody("the left end of a chain", "double-chain", {"place 0": 1.0}),
    Somebody("a corner of a room", "gridworld", {"cell 1,1": 1.0}),
    Somebody("first one corner, then another", "gridworld", {"cell 1,1": 1.0}, then="cell 3,3"),
    Somebody("clicks at random, paths", "four-paths", erratic=True),
)
"""Twenty people on seven environments. Two were put right after a first try, as they named cells that do not exist; two
were exchanged when the others had been seen: for a seventh environment, and for a wish that comes after another."""


@dataclass(frozen=True)
class Ended:
    """How an interview ended: the number of answers, the last sentence and what it is worth, three times: at first;
    when the person, asked back, has said what they want; and after up to `MORE_TIMES` times some questions more, if
    that is not yet right and there are any. The answers would agree with `as_well` other places that somebody might say
    they want; None if nothing was said."""

    answers: tuple[int, int, int]
    sentences: tuple[str, str, str]
    verdicts: tuple[Verdict, Verdict, Verdict]
    as_well: int | None


def interviewed(person: Somebody, seed: int = 0, most: int = 60) -> Ended:
    """One person, until nothing is left to ask, or after so many answers, in a world of that seed."""
    source = replace(person.source, seed=seed)
    with TemporaryDirectory() as folder, closing(Interview.open(Path(folder), source, Accuracy())) as interview:
        act = _answering(interview, person, seed)
        while True:
            interview.walk_on(np.inf)
            if interview.phase == "done":
                break
            if interview.history.answers >= most:
                interview.finish(interview.turn)
                break
            _reply(interview, act)
        moments = [_moment(interview, person)]
        assert interview.ending is not None
        told = moments[0][2] == "right" and interview.ending.wish.kind == "bold"
        if told:
            interview.verdict(interview.turn, "yes")
        for number, claim in enumerate(() if told else _wanted(interview, person)):
            interview.verdict(interview.turn, "nearly", *claim, besides=number > 0)
            _moment(interview, person)
        moments.append(_moment(interview, person))
        for _ in range(MORE_TIMES):
            if _moment(interview, person)[2] in GOOD or not interview.ending.telling:
                break
            interview.more(interview.turn)
            interview.walk_on(np.inf)
            while interview.phase == "asking":
                _reply(interview, act)
                interview.walk_on(np.inf)
        moments.append(_moment(interview, person))
        answers, sentences, verdicts = zip(*moments, strict=True)
        return Ended(answers, sentences, verdicts, _as_well(interview))


def _as_well(interview: Interview) -> int | None:
    """With how many other places the answers would agree, if somebody said that they want to be there."""
    affirmed = [Claim(*one) for said in interview.history.told if said.right for one in said.claims]
    assert interview.learned is not None
    found = interview.learned.agreement(affirmed)
    return None if found is None else len(found.others)


def _moment(interview: Interview, person: Somebody) -> tuple[int, str, Verdict]:
    """How many answers there are, the last sentence, and what it is worth."""
    interview.walk_on(np.inf)
    if interview.kept_version != interview.version:
        _work_out(interview)
    outcome = view(interview)["outcome"]
    ends = [interview.view.name(state) for state in interview.engine.access.terminal - {PADDING_STATE}]
    return interview.history.answers, outcome["wish"]["headline"], _judged(outcome, person, ends)


def _judged(outcome: dict[str, Any], person: Somebody, ends: list[str]) -> Verdict:
    """What a last screen is worth."""
    wish, headline = outcome["wish"], outcome["wish"]["headline"]
    quoted = headline.startswith("You say")
    if wish["kind"] == "open" and not quoted:
        said = {f"{group['action']}: {group['where']}" for group in outcome["does"]}
        return "rule" if person.rule is not None and person.rule in said else "open"
    if person.erratic or not person.pays:
        return "wrong"
    best = max(person.pays, key=lambda word: abs(person.pays[word]))
    if best in headline or (person.then is not None and person.then in headline):
        if not quoted:
            return "right"
        return "agrees" if wish["kind"] == "stated" else "contradicted" if "against" in headline else "quoted"
    soon = "lose no time" in headline
    return "vague" if soon and ends and all(best in end for end in ends) else "wrong"


def _answering(interview: Interview, person: Somebody, seed: int) -> Callable[[int], int]:
    """What the person says in a state of the interview."""
    if not person.erratic:
        return _conduct(interview, person)
    rng = np.random.default_rng([1, seed])
    return lambda state: int(rng.integers(interview.environment.n_actions))


def _wanted(interview: Interview, person: Somebody) -> list[tuple[str, int]]:
    """What the person chooses on the last screen: the first place that they want, and all that they keep away from, if
    these are no more than they have patience for."""
    names = [(state, interview.view.name(state)) for state in range(interview.environment.n_states)]
    paid = [(state, pay) for word, pay in person.pays.items() for state, name in names if word in name]
    wants = [("wants", state) for state, pay in paid if pay > 0]
    avoids = [("avoids", state) for state, pay in paid if pay < 0]
    return wants[:1] + (avoids if len(avoids) <= MOST_AVOIDED else [])


def _conduct(interview: Interview, person: Somebody) -> Callable[[int], int]:
    """What the person does in a state of the interview."""
    names = [action.name for action in interview.view.actions]
    if person.does is not None:
        by_features = person.does
        return lambda state: names.index(by_features(interview.view.features(state)))
    transitions, terminal, called, number = _process(interview, person)

    def best(pays: Pays) -> IntArray:
        worth = np.array([sum(pay for word, pay in pays.items() if word in name) for name in called])
        earned, live = transitions @ worth, np.ones(len(called))
        live[terminal] = 0.0
        values = np.zeros(len(called))
        for _ in range(2_000):
            values = live * (earned + PATIENCE * transitions @ (live * values)).max(axis=1)
        return np.asarray((earned + PATIENCE * transitions @ (live * values)).argmax(axis=1))

    at_first, then = best(person.pays), None if person.then is None else best({person.then: 1.0})

    def does(state: int) -> int:
        walk = interview.history.trajectory
        been = then is not None and walk is not None and not walk.over and _been(interview, person, walk.states)
        return int((then if then is not None and been else at_first)[number(state)])

    return does


def _been(interview: Interview, person: Somebody, states: list[int]) -> bool:
    """Whether an episode has come to the place that the person wants first."""
    return any(word in interview.view.name(state) for state in states for word in person.pays)


def _process(interview: Interview, person: Somebody) -> tuple[FloatArray, list[int], list[str], Callable[[int], int]]:
    """The dynamics `[S, A, S]` as the person believes them to be, the ends among their states, what these are called,
    and the number there of a state of the interview."""
    source, environment = interview.source, interview.environment
    if source.ours:
        mdp = source.problem().mdp
        return mdp.transitions.dense(), [], [interview.view.name(s) for s in range(mdp.n_states)], lambda state: state
    assert isinstance(environment, GymEnvironment)
    env = gym_env(replace(source, parameters=source.parameters | dict(person.believes or {})))
    model, states = exact_model(env, environment.horizon, environment.n_actions), environment.states
    ends = sorted(model.states.terminal)

    def number(state: int) -> int:
        found = model.states.find(states.observation(state), terminal=state in states.terminal) if state else 0
        assert found is not None
        return found

    called = [""] + [words(env, model.states.observation(s), terminal=s in ends) for s in range(1, len(model.states))]
    return model.mdp.transitions.dense(), ends, called, number


def _reply(interview: Interview, does: Callable[[int], int]) -> None:
    asked = interview.asked
    if isinstance(asked, LoggedTrajectory):
        wrong = next((one for one in asked.guessed if does(one[1]) != one[2]), None)
        interview.review(interview.turn, *(() if wrong is None else (wrong[0], does(wrong[1]))))
    elif isinstance(asked, Question):
        interview.answer(interview.turn, does(asked.state))


def _work_out(interview: Interview) -> None:
    turn = interview.preview()
    interview.adopt(turn, interview.version)
