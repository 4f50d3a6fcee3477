"""A recording as the engine takes it: episodes of numbered states, and an expert who did what was recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from aceirl.data.answers import Key, answers_taken, contradicted, counted_answers
from aceirl.data.dataset import Dataset, Trajectory
from aceirl.errors import InputError
from aceirl.experts import RecordedExpert
from aceirl.experts.tasks import Recording, Source, Task, read_recording
from aceirl.experts.tasks.opening import ONLY_RECORDED
from aceirl.irl import MaxCausalEntropy
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.protocols import Capabilities, Expert, ObservableEnvironment
from aceirl.rewards import StateReward

RECORDED = "recording"
"""Why a run ends that is a recording and nothing else."""


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """The episodes of a recording in numbered states, and what they say of their expert.

    `walks` have in their answers all actions that were recorded. `names` are the states in their order, where they are
    numbered as they are met.
    """

    walks: tuple[Trajectory, ...]
    names: tuple[str, ...]

    def taken(self, *, stationary: bool) -> dict[Key, Counter[int]]:
        """How often each action was taken, by step and state, or by state alone."""
        return answers_taken((answer for walk in self.walks for answer in walk.answers), stationary=stationary)

    @cached_property
    def stationary(self) -> bool:
        """Whether the expert does not seem to look at the step.

        It seems to if it did different things in a state, but never at the same step, though it was there twice.
        """
        if not self.contradicted(stationary=True):
            return True
        by_step = self.taken(stationary=False)
        return bool(contradicted(by_step)) or not any(taken.total() > 1 for taken in by_step.values())

    def contradicted(self, *, stationary: bool) -> dict[Key, Counter[int]]:
        """Where different actions were taken."""
        return contradicted(self.taken(stationary=stationary))

    def expert(self, *, stochastic: bool | None = None, stationary: bool | None = None) -> RecordedExpert:
        """The expert who did this; `stochastic` if it contradicts itself, unless something else is said of it.

        One who is not does what it did most often. That it does not look at the step is a guess unless it is said, and
        a guess is good enough for a reward and not for a promise: the expert would have to be asked everywhere.
        """
        by_state = self.stationary if stationary is None else stationary
        if stochastic is None:
            stochastic = bool(self.contradicted(stationary=by_state))
        guessed = by_state and stationary is None
        return RecordedExpert(deterministic=not stochastic, stationary=by_state, ask_again=1.0 if guessed else 0.0)

    def answered(self, expert: Expert) -> Dataset:
        """The episodes with the answers that count: of a stochastic expert all."""
        if not expert.deterministic:
            return Dataset(self.walks)
        counted, repeats = counted_answers(self.walks, stationary=expert.stationary)
        told = (replace(walk, answers=answers) for walk, answers in zip(self.walks, counted, strict=True))
        return Dataset(tuple(told), repeats=tuple(repeats))

    @property
    def steps(self) -> int:
        """How many steps were recorded."""
        return sum(len(walk.walk) for walk in self.walks)

    @property
    def actions(self) -> int:
        """How many actions were recorded; one after which nothing was observed is no step."""
        return sum(len(walk.answers) for walk in self.walks)


def numbered(recording: Recording, task: Task) -> Demonstrations:
    """The recording in the states and actions of an environment, which meets them in its order."""
    environment = task.environment
    horizon = environment.horizon
    state_of, action_of = _readers(task)
    walks = []
    for episode in recording.episodes:
        if len(episode.actions) > horizon:
            raise InputError(
                f"{episode.where} has {len(episode.actions)} steps, and episodes have {horizon}; give a horizon of "
                f"{recording.longest} (--horizon), or cut it"
            )
        walks.append(_walk(episode, state_of, action_of))
    return Demonstrations(tuple(walks), Capabilities.of(environment).names)


def _walk(
    episode: Trajectory, state_of: Callable[[Any, bool, str], int], action_of: Callable[[Any, str], int]
) -> Trajectory:
    n = len(episode.actions)
    actions = [action_of(action, f"{episode.where}, action {k}") for k, action in enumerate(episode.actions)]
    last = len(episode.observations) - 1
    states = [
        state_of(seen, bool(episode.terminated) and k == n, f"{episode.where}, observation {k}")
        for k, seen in enumerate(episode.observations)
    ]
    if last < n and episode.terminated:  # with what it ended nobody wrote down: it ended where it was
        states.append(state_of(episode.observations[-1], True, f"{episode.where}, observation {last}"))
    answers = tuple((k, states[k], actions[k]) for k in range(n))
    return Trajectory(states, actions, episode.terminated, answers, where=episode.where)


def _readers(task: Task) -> tuple[Callable[[Any, bool, str], int], Callable[[Any, str], int]]:
    """The number of a state, given its observation and whether an episode ended with it; and that of an action."""
    environment = task.environment
    if isinstance(environment, ObservableEnvironment):
        from aceirl.envs.gymnasium import GymAdapter
        from aceirl.models.tabular.encoder import plain

        assert isinstance(environment, GymAdapter)
        adapter = environment

        def state_of(seen: Any, terminal: bool, where: str) -> int:
            try:
                return adapter.states.number(adapter.read_observation(plain(seen)), terminal=terminal)
            except (InputError, ValueError, TypeError, KeyError) as error:
                raise InputError(f"{where} is not one of this environment: {error}") from None

        def action_of(action: Any, where: str) -> int:
            number = adapter.action_number(action)
            if number is None:
                raise InputError(f"{where} is {action!r}, not one of {_first(adapter.actions)}")
            return number

        return state_of, action_of
    return _own_readers(task)


def _own_readers(task: Task) -> tuple[Callable[[Any, bool, str], int], Callable[[Any, str], int]]:
    """In our own environments, states are numbers or have names."""
    names = () if task.world.layout is None else task.world.layout.state_names
    number_of = {name: number for number, name in enumerate(names)}
    environment = task.environment

    def whole(value: Any, n: int, where: str) -> int:
        array = np.asarray(value)
        if array.size != 1 or array.dtype.kind not in "iu" or not 0 <= int(array.item()) < n:
            raise InputError(f"{where} is {value!r}, not one of 0 to {n - 1}")
        return int(array.item())

    def state_of(seen: Any, terminal: bool, where: str) -> int:
        if isinstance(seen, str):
            if seen not in number_of:
                raise InputError(f"{where} is {seen!r}, which is not a state of this environment: {_first(names)}")
            return number_of[seen]
        return whole(seen, environment.n_states, where)

    return state_of, lambda action, where: whole(action, environment.n_actions, where)


def _first(things: Iterable[Any]) -> str:
    texts = [str(thing) for thing in things]
    return ", ".join(texts[:6]) + (", ..." if len(texts) > 6 else "")


def with_expert(
    task: Task, shown: Demonstrations, *, stochastic: bool | None = None, stationary: bool | None = None
) -> Task:
    """The task with the expert who was recorded, where there is nobody else to ask."""
    if not isinstance(task.expert, RecordedExpert):
        return task
    return replace(task, expert=shown.expert(stochastic=stochastic, stationary=stationary))


def open_recordings(task: Task, source: Source) -> tuple[Task, Demonstrations | None]:
    """The task of a source with its recordings, and these; None if there are none."""
    if source.recordings is None:
        return task, None
    shown = numbered(read_recording(source.recordings), task)
    return with_expert(task, shown), shown


def recorded_turn(task: Task, shown: Demonstrations, settings: Settings) -> Turn:
    """What the engine makes of a recording, as the first turn of a run; nothing was wagered on it."""
    engine = Engine(task.environment, answers_of(task.expert, settings), settings, regret=task.regret)
    engine.take_recording(shown.answered(task.expert), shown.names)
    return engine.last_turn


def going_on(source: Source | None) -> str:
    """How to go on from a recording, in which nobody can be asked."""
    named = source is not None and source.environment not in ("", ONLY_RECORDED)
    env = source.environment if source is not None and named else "ENV"
    data = "DATA" if source is None or source.recordings is None else source.recordings
    return (
        "this is a recording, which answers no questions; to go on from it with an expert: "
        f"aceirl run {env} --recordings {data} --expert ...; to infer from it otherwise: aceirl infer {data}"
    )


def judged_by_visits(settings: Settings) -> Settings:
    """The settings for a recording whose answers can be compared with too little: where the expert is tells more."""
    return settings.model_copy(update={"irl": MaxCausalEntropy(reproduce_answers=False), "reward": StateReward()})


def after_recording(settings: Settings, shown: Demonstrations) -> Settings:
    """The settings with budgets that begin when a recording ends."""
    limit = settings.max_answers
    return settings.model_copy(
        update={
            "max_samples": settings.max_samples + shown.steps,
            "max_answers": None if limit is None else limit + shown.actions,
        }
    )
