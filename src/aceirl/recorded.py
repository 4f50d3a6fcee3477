"""A recording as the engine takes it: episodes of numbered states, and an expert who did what was recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from aceirl.collect import Episode
from aceirl.engine import Engine
from aceirl.envs import ENVIRONMENTS, Problem, make
from aceirl.errors import InputError
from aceirl.experts import RecordedExpert
from aceirl.irl import MaxCausalEntropy
from aceirl.loop import answers_of
from aceirl.mdp import MDP, IntArray
from aceirl.protocols import Expert, Move, ShowingEnvironment
from aceirl.rewards import StateReward
from aceirl.settings import Settings
from aceirl.sources import Recording, Source, Task, given_task, gym_env, read_recording, recorded_source, task_to_infer
from aceirl.sources.recordings import ONLY_RECORDED, RecordedEpisode
from aceirl.turns import Turn

RECORDED = "recording"
"""Why a run ends that is a recording and nothing else."""

Key = tuple[int | None, int]
"""A step, None if it does not matter, and a state."""


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """The episodes of a recording in numbered states, and what they say of their expert.

    `walks` have in their answers all actions that were recorded. `names` are the states in their order, where the
    environment numbers them; there are `n_states` in all.
    """

    walks: tuple[Episode, ...]
    names: tuple[str, ...]
    n_states: int

    @cached_property
    def _by_state(self) -> dict[Key, Counter[int]]:
        return _counted(((None, state), action) for walk in self.walks for _, state, action in walk.answers)

    @cached_property
    def _by_step(self) -> dict[Key, Counter[int]]:
        return _counted(((step, state), action) for walk in self.walks for step, state, action in walk.answers)

    @cached_property
    def stationary(self) -> bool:
        """Whether the expert does not seem to look at the step.

        It seems to if it did different things in a state, but never at the same step, though it was there twice.
        """
        if not _contradicted(self._by_state):
            return True
        twice = any(sum(taken.values()) > 1 for taken in self._by_step.values())
        return bool(_contradicted(self._by_step)) or not twice

    def taken(self, *, stationary: bool) -> dict[Key, Counter[int]]:
        """How often each action was taken, by step and state, or by state alone."""
        return self._by_state if stationary else self._by_step

    def contradicted(self, *, stationary: bool) -> dict[Key, Counter[int]]:
        """Where different actions were taken."""
        return _contradicted(self.taken(stationary=stationary))

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

    def answered(self, expert: Expert) -> tuple[tuple[Episode, ...], IntArray]:
        """The episodes with the answers that count, and the repeats `[S, 2]` of `Counts`.

        Of a stochastic expert every action counts. A deterministic one has answered once for each state, with the
        action that is the commonest there; the other times it has said the same, or not.
        """
        repeats = np.zeros((self.n_states, 2), dtype=np.int64)
        if not expert.deterministic:
            return self.walks, repeats
        taken, heard = self.taken(stationary=expert.stationary), set[Key]()
        episodes = []
        for walk in self.walks:
            first = []
            for step, state, action in walk.answers:
                key = (None if expert.stationary else step, state)
                if key in heard:
                    repeats[state, int(action != _commonest(taken[key]))] += 1
                else:
                    heard.add(key)
                    first.append((step, state, _commonest(taken[key])))
                    if action != first[-1][2]:  # the answer was given another time, and this time something else
                        repeats[state] += (-1, 1)
            episodes.append(replace(walk, answers=tuple(first)))
        return tuple(episodes), repeats

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
    names = environment.names if hasattr(environment, "names") else ()
    return Demonstrations(tuple(walks), names, environment.n_states)


def _walk(
    episode: RecordedEpisode, state_of: Callable[[Any, bool, str], int], action_of: Callable[[Any, str], int]
) -> Episode:
    n = len(episode.actions)
    actions = [action_of(action, f"{episode.where}, action {k}") for k, action in enumerate(episode.actions)]
    last = len(episode.observations) - 1
    states = [
        state_of(seen, episode.terminated and k == n, f"{episode.where}, observation {k}")
        for k, seen in enumerate(episode.observations)
    ]
    if last < n and episode.terminated:  # with what it ended nobody wrote down: it ended where it was
        states.append(state_of(episode.observations[-1], True, f"{episode.where}, observation {last}"))
    walk: list[Move] = [(k, states[k], actions[k], states[k + 1]) for k in range(len(states) - 1)]
    return Episode(states[0], tuple(walk), tuple((k, states[k], actions[k]) for k in range(n)))


def _readers(task: Task) -> tuple[Callable[[Any, bool, str], int], Callable[[Any, str], int]]:
    """The number of a state, given its observation and whether an episode ended with it; and that of an action."""
    environment = task.environment
    if isinstance(environment, ShowingEnvironment):
        from aceirl.envs.gymnasium import GymAdapter
        from aceirl.envs.observations import plain

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
    names = () if task.layout is None else task.layout.state_names
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
                raise InputError(f"{where} is {seen!r}, which is no state of this environment: {_first(names)}")
            return number_of[seen]
        return whole(seen, environment.n_states, where)

    return state_of, lambda action, where: whole(action, environment.n_actions, where)


def _first(things: Iterable[Any]) -> str:
    texts = [str(thing) for thing in things]
    return ", ".join(texts[:6]) + (", ..." if len(texts) > 6 else "")


def recorded_task(
    recording: Recording,
    environment: Any = None,
    *,
    horizon: int | None = None,
    discretise: Callable[[Any], Any] | None = None,
    seed: int = 0,
) -> Task:
    """The environment of a recording, as `recorded_source` and `given_task` find it, and nobody to ask."""
    if environment is None or isinstance(environment, str):
        environment = Source(environment or "", {}, seed, horizon=horizon)
    if isinstance(environment, Source):
        source = recorded_source(recording, environment)
        if discretise is None:
            return task_to_infer(recording, source)
        environment, horizon = gym_env(source), source.horizon
    if hasattr(environment, "action_space") and not isinstance(environment, ShowingEnvironment):
        horizon = horizon or recording.longest
    task = given_task(environment, RecordedExpert(), horizon=horizon, discretise=discretise, seed=seed)
    return replace(task, regret=None)


def expert_or_recorded(environment: Any, expert: Any) -> Any:
    """The expert to ask: the one that was given, the environment's own, or else the one who was recorded."""
    ours = isinstance(environment, Problem) or (isinstance(environment, str) and environment in ENVIRONMENTS)
    return RecordedExpert() if expert is None and not ours else expert


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
    engine.take_recording(*shown.answered(task.expert), shown.names)
    return engine.last_turn


def going_on(source: Source | None) -> str:
    """How to go on from a recording, in which nobody can be asked."""
    named = source is not None and source.environment not in ("", ONLY_RECORDED)
    env = source.environment if source is not None and named else "ENV"
    data = "DATA" if source is None or source.recordings is None else source.recordings
    return (
        "this is a recording, and there is nobody to ask; to go on from it with an expert: "
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


def contradictions(shown: Demonstrations, task: Task) -> list[str]:
    """What the recording has and its environment cannot do, where the exact model of that is known; a sentence each."""
    model = _known_model(task)
    if model is None:
        return []
    mdp, names = model
    number_of = {name: number for number, name in enumerate(names)}
    numbers = [number_of.get(name, -1) for name in shown.names] if names else list(range(mdp.n_states))
    moves = [move for walk in shown.walks for move in walk.walk]
    ends = sum(numbers[after] < 0 <= numbers[state] for _, state, _, after in moves)
    rows = mdp.transitions.matrix
    wrong = 0
    for step, state, action, after in moves:
        here, there = numbers[state], numbers[after]
        row = ((0 if mdp.stationary else step) * mdp.n_states + here) * mdp.n_actions + action
        wrong += here < 0 or (there >= 0 and rows[row, there] == 0)
    advice = "is it the environment of the recording, with the right parameters?"
    lines = []
    if ends:
        lines.append(
            f"Warning: {ends:,} of {len(shown.walks):,} episodes end where the environment has no end; {advice}"
        )
    if wrong:
        lines.append(f"Warning: {wrong:,} of {len(moves):,} steps are moves that the environment cannot make; {advice}")
    return lines


def _known_model(task: Task) -> tuple[MDP, tuple[str, ...]] | None:
    """The exact model of an environment that has a table of it, and the names of its states, if it has some."""
    source = task.source
    if source is not None and source.environment in ENVIRONMENTS:
        return make(source.environment, source.seed, **source.parameters).mdp, ()
    environment = task.environment
    if task.env is None or not hasattr(task.env.unwrapped, "P") or getattr(environment, "binned", True):
        return None
    from aceirl.envs.truth import exact_model

    try:
        model = exact_model(task.env, environment.horizon, environment.n_actions)
    except InputError:  # a wrapper changes it
        return None
    return model.mdp, model.states.names


def told_of(shown: Demonstrations, task: Task, names: Sequence[str], actions: Sequence[str] = ()) -> list[str]:
    """What was recorded, what contradicts the environment, and what the expert is taken to be.

    `names [S]` and `actions [A]` are what people call states and actions.
    """
    horizon, expert = task.environment.horizon, task.expert
    longest = max(len(walk.answers) for walk in shown.walks)
    so = "the length of the longest" if horizon == longest else f"the longest has {longest:,}"
    lines = [
        f"Recorded: {shown.steps:,} steps in {len(shown.walks):,} episodes, {shown.actions:,} actions. The horizon is "
        f"{horizon:,} steps ({so}).",
        *contradictions(shown, task),
    ]
    found = shown.contradicted(stationary=expert.stationary)
    if not expert.stationary:
        lines.append("In the same state it did different things at different steps: it is taken to look at the step.")
    if not found:
        return lines
    (step, state), taken = max(found.items(), key=lambda item: (sum(item[1].values()), -item[0][1]))
    did = ", ".join(f"{n:,} × {actions[a] if actions else f'action {a}'}" for a, n in taken.most_common())
    at = "" if step is None else f" at step {step + 1}"
    where = "1 state" if len(found) == 1 else f"{len(found):,} states"
    rule = (
        "it is taken to do there what it did most often"
        if expert.deterministic
        else "it is taken to draw its actions (say that it is deterministic if these are errors)"
    )
    lines.append(f"The expert contradicts itself in {where}, for one in {names[state]}{at}: {did}; {rule}.")
    return lines


def _counted(pairs: Iterable[tuple[Key, int]]) -> dict[Key, Counter[int]]:
    found: dict[Key, Counter[int]] = {}
    for key, action in pairs:
        found.setdefault(key, Counter())[action] += 1
    return found


def _contradicted(taken: dict[Key, Counter[int]]) -> dict[Key, Counter[int]]:
    return {key: counted for key, counted in taken.items() if len(counted) > 1}


def _commonest(counted: Counter[int]) -> int:
    """The action that was taken most often; of several, the first in order."""
    return min(counted, key=lambda action: (-counted[action], action))
