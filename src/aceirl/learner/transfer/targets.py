"""Where a reward can be taken to: a process whose dynamics are known and whose states have names."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aceirl.envs import Layout, Problem
from aceirl.errors import InputError, unknown_name
from aceirl.experts.tasks import Source, gym_env
from aceirl.experts.tasks.gymnasium import discretiser
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray, check_reward
from aceirl.protocols import TERMINAL

if TYPE_CHECKING:
    from aceirl.models.tabular.encoder import Discretise

Say = Callable[[str], None]
log = logging.getLogger("aceirl").info

MODEL_FILE = ".npz"
UNIFORM = "uniform"


@dataclass(frozen=True, eq=False)
class KnownProcess:
    """A process to plan in.

    `names` are those of its states, by which a run knows them again, and `words` what people call them; without names
    states are known by their numbers. In the `terminal` ones episodes are over. `reward [H, S, A]` is the truth, if it
    is known; nothing but a regret is computed from it. `observations [S]` are those of a Gymnasium environment.
    `sampled` is from how many steps dynamics and reward were estimated; 0 if they are exact.
    """

    mdp: MDP
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    terminal: frozenset[int] = frozenset()
    reward: FloatArray | None = None
    layout: Layout | None = None
    observations: tuple[Any, ...] = ()
    sampled: int = 0

    def __post_init__(self) -> None:
        self.mdp.require_complete()
        if self.names and len(self.names) != self.mdp.n_states:
            raise InputError(f"there are {len(self.names)} names for {self.mdp.n_states} states")
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InputError(f"two states are called {twice!r}")
        if self.reward is not None:
            object.__setattr__(self, "reward", check_reward(self.reward, self.mdp.shape))

    @classmethod
    def of(cls, problem: Problem) -> KnownProcess:
        """One of our own problems, with its true reward."""
        names = problem.layout.state_names
        words = tuple(f"state {name}" for name in names)
        return cls(problem.mdp, names, words, reward=problem.reward, layout=problem.layout)

    @property
    def terminal_states(self) -> IntArray:
        """The terminal states, in order."""
        return np.array(sorted(self.terminal), dtype=np.int64)

    def word(self, state: int) -> str:
        """What people call a state."""
        return self.words[state] if self.words else self.names[state] if self.names else f"state {state}"

    def starting(self, start: Any) -> KnownProcess:
        """The same with another start: a state's name or its observation, or `uniform` over all states that can be met
        and are no end."""
        if start is None:
            return self
        n_states = self.mdp.n_states
        if isinstance(start, str) and start == UNIFORM:
            initial = self._met(n_states).astype(np.float64)
            initial[self.terminal_states] = 0.0
        else:
            initial = np.arange(n_states) == self._number(start)
            if initial[self.terminal_states].any():
                raise InputError(f"episodes are over in {start}, so none can start there")
        return replace(self, mdp=replace(self.mdp, initial=initial / initial.sum()))

    def discounted(self, discount: float) -> KnownProcess:
        """The same where a reward one step later is worth `discount` as much."""
        return replace(self, mdp=replace(self.mdp, discount=discount))

    def valued_as(self, other: KnownProcess) -> KnownProcess:
        """The same with the true reward of another process, state by state: what its expert wants, wanted here."""
        if other.reward is None or other.mdp.n_actions != self.mdp.n_actions:
            return replace(self, reward=None)
        steps, reward = min(self.mdp.horizon, other.mdp.horizon), np.zeros(self.mdp.shape)
        number_of = {name: number for number, name in enumerate(other.names)}
        theirs = np.array([number_of.get(name, -1) for name in self.names], dtype=np.int64)
        shared = np.flatnonzero(theirs >= 0)
        reward[:steps, shared] = other.reward[:steps, theirs[shared]]
        return replace(self, reward=reward)

    def _number(self, start: Any) -> int:
        name = start if isinstance(start, str) else _written(start)
        numbered = self.names or tuple(map(str, range(self.mdp.n_states)))
        for known, wanted in ((numbered, name), (self.words, name), (numbered, name.replace(" ", ""))):
            if wanted in known:
                return known.index(wanted)
        raise unknown_name("state of the target", name, numbered)

    @property
    def reachable(self) -> BoolArray:
        """`[S]`: the states that an episode may meet."""
        return self._met(self.mdp.horizon)

    def _met(self, steps: int) -> BoolArray:
        """`[S]`: the states that can be met in so many steps."""
        transitions, met = self.mdp.transitions, self.mdp.initial > 0
        for _ in range(steps):
            acting = np.resize(np.repeat(met, self.mdp.n_actions), transitions.n_rows).astype(np.float64)
            further = met | (acting @ transitions.matrix > 0)
            if (further == met).all():
                break
            met = further
        return np.asarray(met)


def _written(observation: Any) -> str:
    """An observation as states are named."""
    from aceirl.models.tabular.encoder import plain

    return json.dumps(plain(observation))


def named_process(name: str, seed: int = 0, say: Say = log, **parameters: Any) -> KnownProcess:
    """One of our own environments, a Gymnasium environment, or a model file."""
    if name.endswith(MODEL_FILE):
        if parameters:
            raise InputError(f"a model file has no parameters, got {', '.join(parameters)}")
        return process_of_file(Path(name))
    return process_of_source(Source(name, parameters, seed), say)


def process_of_source(source: Source, say: Say = log) -> KnownProcess:
    """The process that a source names, with its own reward as the truth."""
    if source.ours:
        return KnownProcess.of(source.problem())
    with closing(gym_env(source)) as env:
        return process_of_env(env, source.horizon, discretiser(source, env), say)


def process_of_env(env: Any, horizon: int | None, discretise: Discretise | None = None, say: Say = log) -> KnownProcess:
    """The process of a Gymnasium environment; `horizon` is by default its limit of steps.

    Where there is no exact model, it is estimated by sampling; `say` is told how far that is.
    """
    from aceirl.envs.described import state_words
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.envs.truth import exact_model, sampled_model

    try:
        environment, steps = GymEnvironment(env, horizon=horizon, discretise=discretise), 0
    except InputError as error:
        raise InputError(
            f"planning in {env} needs its model: {str(error).partition('; ')[0]}; give one as a file"
        ) from None
    try:
        if discretise is not None:
            raise InputError("bins have no exact model")
        model = exact_model(env, environment.horizon, environment.n_actions, say)
    except InputError as error:
        say(f"{str(error).partition('; ')[0]}; it is estimated by sampling")
        model, steps = sampled_model(env, environment.horizon, discretise, say)
    states = model.states
    return KnownProcess(
        model.mdp,
        states.names,
        state_words(env, states.numbered(states.names)),
        states.terminal,
        model.reward if np.ptp(model.reward) > 0 else None,  # what pays the same everywhere is no truth
        observations=tuple(states.observation(number) for number in range(len(states))),
        sampled=steps,
    )


def process_of_file(path: Path) -> KnownProcess:
    """The process of a `.npz` with `transitions`, `initial`, `horizon` and, if wanted, `names`, `terminal`, `reward`.

    `transitions [S, A, S]` need a `horizon`, `[H, S, A, S]` do not. `initial [S]` is a distribution, or one state.
    `names [S]` are text. `terminal [S]` is true where episodes are over; by default in states whose names begin with
    "terminal". `reward [H, S, A]` or `[S, A]` is the truth.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except FileNotFoundError:
        raise InputError(f"there is no model file {path}") from None
    except Exception as error:
        raise InputError(f"{path} cannot be read as a model: {error}") from None
    known = ("transitions", "initial", "horizon", "names", "terminal", "reward")
    for name in arrays:
        if name not in known:
            raise unknown_name(f"array of {path}", name, known)
    for name in ("transitions", "initial"):
        if name not in arrays:
            raise InputError(f"{path} has no array {name!r}")
    try:
        horizon = int(arrays["horizon"]) if "horizon" in arrays else None
        mdp = MDP.from_dense(arrays["transitions"], initial=arrays["initial"], horizon=horizon)
        names = tuple(map(str, arrays.get("names", ())))
        return KnownProcess(mdp, names, terminal=_terminal(arrays, names, mdp), reward=arrays.get("reward"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _terminal(arrays: dict[str, Any], names: Sequence[str], mdp: MDP) -> frozenset[int]:
    if "terminal" not in arrays:
        return frozenset(number for number, name in enumerate(names) if name.startswith(TERMINAL))
    marked = np.asarray(arrays["terminal"], dtype=np.bool_)
    if marked.shape != (mdp.n_states,):
        raise InputError(f"terminal must have shape [{mdp.n_states}], got {list(marked.shape)}")
    return frozenset(np.flatnonzero(marked).tolist())
