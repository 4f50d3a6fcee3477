"""Asking where a committee is unsure: rounds of episodes in which it acts, and the expert is asked now and then.

1. The expert drives the beginnings of a few episodes, and every step is an answer: `FIRST` of them.
2. A committee is fitted to all answers so far.
3. It acts. At each step it is told how sure it is; the `LEAST_SURE` share of steps is asked with probability `ASK`, any
   other with probability `AUDIT`. An asked step does what the expert says. When the answers have grown by a sixth, 2.
4. At the end a new and larger committee is fitted to all answers, longer and at a higher rate.

Every stream of random numbers is named by the seed and the round, so what follows from a state is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aceirl.errors import InputError
from aceirl.experts.tasks.continuous import ContinuousTask
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.models.vectors.choices import ActionChoices, prototypes
from aceirl.models.vectors.committee import MEMBERS, NetworkCommittee, Schedule, fitted
from aceirl.models.vectors.encoding import Encoding

FIRST, FIRST_STEPS = 20, 10
"""Answers while the expert drives, and how many of them an episode has at most."""

LEAST_SURE, ASK, AUDIT = 0.12, 0.2, 0.005
"""The share of steps that are least sure; how often one of those is asked, and how often any other."""

GROWTH, LEAST_NEW = 6, 8
"""A round is over when the answers have grown by one part in so many, and by so many at least."""

LONGEST_ROUND = 400
"""Episodes of a round at most: a committee that is sure everywhere asks little."""

RECENT, LOOK_AGAIN = 2_000, 50
"""By how many of the last scores the least sure are told, and after how many steps they are looked at again."""

SHORT, LONG = 150, 750
"""Steps of a fit between rounds and of the last one, for few answers."""

COOL, WARM, HOT = 8e-3, 2e-2, 5e-2
"""Rates of a fit between rounds, and of the last one for few and for many answers."""

FEW_AT_ONCE = 256
"""Answers that a step of a fit between rounds looks at."""

MANY, VERY_MANY = 500, 1_500
"""Answers above which fits between rounds, and the last one, take twice as many steps; the last one is hot above the
first of them: what it fits then is more than it sees at once."""

LAST_MEMBERS = 18
"""Networks of the last committee: more of one mind are a surer sign, and it is fitted once."""

SETTLED = 150
"""By so many answers continuous actions are rounded: later ones would move the borders between choices, where most
answers were asked."""

LEARNING, CALIBRATING, DECIDING, FITTING, LAST = range(5)
"""What streams of random numbers are for."""


@dataclass(frozen=True, eq=False)
class Answered:
    """The expert's answers so far: `observations [n, d]` and `actions [n, p]`; and what they took.

    `committee` is that of the last round, None before the first. Continuous actions are rounded by the first `settled`.
    """

    observations: FloatArray
    actions: FloatArray
    rounds: int = 0
    episodes: int = 0
    samples: int = 0
    committee: NetworkCommittee | None = None
    settled: int = SETTLED

    def __len__(self) -> int:
        return len(self.observations)

    def choices(self, encoding: Encoding) -> ActionChoices:
        """What is chosen among: all actions, or prototypes of those that were answered first."""
        return encoding.choices or prototypes(self.actions[: self.settled])

    def arrays(self) -> dict[str, Any]:
        """What `of_arrays` reads."""
        counts = {name: np.asarray(getattr(self, name)) for name in self._counts}
        committee = {} if self.committee is None else self.committee.arrays()
        told = {"observations": self.observations, "actions": self.actions, **counts}
        return told | {f"committee.{name}": array for name, array in committee.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> Answered:
        """The answers that `arrays` wrote."""
        committee = {name.partition(".")[2]: value for name, value in arrays.items() if name.startswith("committee.")}
        counts = {name: int(arrays[name]) for name in cls._counts}
        known = NetworkCommittee.of_arrays(committee) if committee else None
        return cls(arrays["observations"], arrays["actions"], **counts, committee=known)

    _counts = ("rounds", "episodes", "samples", "settled")


class Doubt:
    """Whether to ask at a step, by how sure a committee is there: often at the least sure steps, rarely at others.

    `before` are scores that it had elsewhere.
    """

    def __init__(self, rng: np.random.Generator, before: Sequence[float] = ()) -> None:
        self.rng, self.scores = rng, list(before)
        self.unsure = float(np.quantile(self.scores, LEAST_SURE)) if before else 0.0

    def asks(self, score: float) -> bool:
        """Whether to ask at the next step, which has this score."""
        self.scores.append(score)
        if len(self.scores) % LOOK_AGAIN == 1:
            self.unsure = float(np.quantile(self.scores[-RECENT:], LEAST_SURE))
        # Drawn at every step, so that what follows does not hang on one comparison.
        return bool(self.rng.random() < (ASK if score <= self.unsure else AUDIT))


def new_answers(answers: int) -> int:
    """How many more answers it takes until a committee that knows so many is fitted again."""
    return max(LEAST_NEW, answers // GROWTH)


def episode_seed(seed: int, stream: int, number: int) -> int:
    """The seed of an episode of the environment."""
    return int(np.random.default_rng((seed, stream, number)).integers(2**31))


def rounds(
    task: ContinuousTask, seed: int, max_answers: int, max_samples: int, state: Answered | None = None
) -> Iterator[Answered]:
    """The answers after each round, until there are `max_answers`, or `max_samples` steps were taken.

    The round that reaches a budget of samples is finished.
    """
    if state is None:
        state = first_answers(task, seed, min(FIRST, max_answers))
        yield state
    while len(state) < max_answers and state.samples < max_samples:
        before = len(state)
        state = one_round(task, seed, max_answers, state)
        yield state
        if len(state) == before:  # nothing is unsure, and chance asked nothing either
            return


def first_answers(task: ContinuousTask, seed: int, wanted: int) -> Answered:
    """The expert drives the beginnings of episodes, until it has answered so often."""
    seen: list[FloatArray] = []
    said: list[FloatArray] = []
    episodes = 0
    while len(seen) < wanted:
        observation = task.reset(episode_seed(seed, LEARNING, episodes))
        episodes += 1
        for step in range(min(task.horizon, FIRST_STEPS, wanted - len(seen))):
            seen.append(task.encoding.vector(observation))
            said.append(task.answer(observation, step))
            observation, terminated, truncated = task.step(said[-1])
            if terminated or truncated:
                break
    return Answered(np.array(seen), np.array(said), episodes=episodes, samples=len(seen))


def one_round(task: ContinuousTask, seed: int, max_answers: int, state: Answered) -> Answered:
    """The committee learns from all answers, then acts; see the head of this file."""
    choices = state.choices(task.encoding)
    committee = _fit(state, choices, _between_rounds(state), (seed, FITTING, state.rounds), state.committee)
    doubt = Doubt(np.random.default_rng((seed, DECIDING, state.rounds)))
    wanted = min(new_answers(len(state)), max_answers - len(state))
    quota = max(3, math.ceil(wanted / 12))  # of an episode, so that answers come from many
    seen: list[FloatArray] = []
    said: list[FloatArray] = []
    samples, episodes = 0, 0
    while len(seen) < wanted and episodes < LONGEST_ROUND:
        observation = task.reset(episode_seed(seed, LEARNING, state.episodes + episodes))
        episodes, left = episodes + 1, quota
        for step in range(task.horizon):
            vector = task.encoding.vector(observation)
            chosen, sure = committee.decide(vector[None])
            values = choices.values[chosen[0]]
            if doubt.asks(float(sure[0])) and left and len(seen) < wanted:
                seen.append(vector)
                said.append(task.answer(observation, step))
                values, left = said[-1], left - 1
            observation, terminated, truncated = task.step(values)
            samples += 1
            if terminated or truncated:
                break
    return replace(
        state,
        observations=np.concatenate((state.observations, np.reshape(seen, (-1, state.observations.shape[1])))),
        actions=np.concatenate((state.actions, np.reshape(said, (-1, state.actions.shape[1])))),
        rounds=state.rounds + 1,
        episodes=state.episodes + episodes,
        samples=state.samples + samples,
        committee=committee,
    )


def last_fit(state: Answered, encoding: Encoding, seed: int) -> tuple[NetworkCommittee, ActionChoices]:
    """The committee that acts from now on: fitted anew to all answers, and what it decides among."""
    choices = state.choices(encoding)
    schedule = Schedule(LONG if len(state) <= VERY_MANY else 2 * LONG, WARM if len(state) <= MANY else HOT)
    return _fit(state, choices, schedule, (seed, LAST, len(state)), members=LAST_MEMBERS), choices


def quick_fit(state: Answered, encoding: Encoding, seed: int) -> tuple[NetworkCommittee, ActionChoices]:
    """A committee to go on asking with, and what it decides among; it depends on the answers and the seed alone."""
    choices = state.choices(encoding)
    return _fit(state, choices, _between_rounds(state), (seed, FITTING, len(state))), choices


def _between_rounds(state: Answered) -> Schedule:
    return Schedule(SHORT if len(state) <= MANY else 2 * SHORT, COOL, FEW_AT_ONCE)


def _fit(
    state: Answered,
    choices: ActionChoices,
    schedule: Schedule,
    seed: tuple[int, ...],
    start: NetworkCommittee | None = None,
    members: int = MEMBERS,
) -> NetworkCommittee:
    wanted, known = choices.numbers(state.actions), max(2, len(choices))
    return fitted(state.observations, wanted, known, schedule, seed=seed, start=start, members=members)


@dataclass(frozen=True, eq=False)
class ExpertEpisodes:
    """Episodes in which the expert drives: `observations [N, d]` and `actions [N, p]` before each step.

    `lengths [n]` are their steps, and `ended [n]` says which were over by themselves.
    """

    observations: FloatArray
    actions: FloatArray
    lengths: IntArray
    ended: BoolArray

    def __len__(self) -> int:
        return len(self.lengths)

    def __add__(self, other: ExpertEpisodes) -> ExpertEpisodes:
        return ExpertEpisodes(*(np.concatenate((getattr(self, name), getattr(other, name))) for name in self._names))

    _names = ("observations", "actions", "lengths", "ended")

    def arrays(self) -> dict[str, Any]:
        """What `of_arrays` reads."""
        return {name: getattr(self, name) for name in self._names}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> ExpertEpisodes:
        """The demonstrations that `arrays` wrote."""
        return cls(*(arrays[name] for name in cls._names))

    def answers(self) -> Answered:
        """Every step as an answer; actions are rounded by all of them, since none was asked at a border."""
        return Answered(self.observations, self.actions, settled=max(SETTLED, len(self.actions)))

    def chosen(self, episodes: IntArray) -> ExpertEpisodes:
        """Only these, in this order."""
        ends = np.cumsum(self.lengths)
        steps = np.concatenate([np.arange(ends[i] - self.lengths[i], ends[i]) for i in episodes] or [np.zeros(0, int)])
        return ExpertEpisodes(
            self.observations[steps], self.actions[steps], self.lengths[episodes], self.ended[episodes]
        )


def demonstrated(task: ContinuousTask, choices: ActionChoices, seed: int, first: int, last: int) -> ExpertEpisodes:
    """The calibrating episodes from number `first` to before `last`: the expert drives, rounded to the choices.

    Their seeds have a stream of their own, and nothing is learned from them.
    """
    seen: list[FloatArray] = []
    said: list[FloatArray] = []
    lengths, ended = [], []
    for number in range(first, last):
        observation, terminated, length = task.reset(episode_seed(seed, CALIBRATING, number)), False, 0
        for step in range(task.horizon):
            seen.append(task.encoding.vector(observation))
            answer = task.answer(observation, step)
            said.append(choices.values[choices.numbers(answer[None])[0]] if choices.rounding else answer)
            observation, terminated, truncated = task.step(said[-1])
            length += 1
            if terminated or truncated:
                break
        lengths.append(length)
        ended.append(terminated)
    return ExpertEpisodes(np.array(seen), np.array(said), np.array(lengths), np.array(ended))


def of_recording(episodes: Any, encoding: Encoding, horizon: int) -> ExpertEpisodes:
    """Recorded trajectories as demonstrations; what goes beyond the horizon is left out."""
    seen, said, lengths, ended = [], [], [], []
    for episode in episodes:
        steps = min(len(episode.actions), horizon)
        seen.append(encoding.vectors(list(episode.observations[:steps])))
        for action in episode.actions[:steps]:
            values = encoding.values(action)
            if values is None:
                raise InputError(f"{episode.where} has the action {action!r}, which is not in {encoding.actions}")
            said.append(values)
        lengths.append(steps)
        ended.append(bool(episode.terminated) and steps == len(episode.actions))
    return ExpertEpisodes(np.concatenate(seen), np.array(said), np.array(lengths), np.array(ended))
