"""Where a reward can be taken to: a process whose dynamics are known and whose states have names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.envs import Layout, Problem
from aceirl.errors import InputError, unknown_name
from aceirl.experts.tasks import Source, gym_env
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray, check_reward

MODEL_FILE = ".npz"
UNIFORM = "uniform"

# How the name of a state begins in which episodes are over, as Gymnasium environments have them.
TERMINAL = "terminal "


@dataclass(frozen=True, eq=False)
class KnownProcess:
    """A process to plan in.

    `names` are those of its states, by which a run knows them again, and `words` what people call them; without names
    states are known by their numbers. In the `terminal` ones episodes are over. `reward [H, S, A]` is the truth, if it
    is known; nothing but a regret is computed from it. `observations [S]` are those of a Gymnasium environment.
    """

    mdp: MDP
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    terminal: frozenset[int] = frozenset()
    reward: FloatArray | None = None
    layout: Layout | None = None
    observations: tuple[Any, ...] = ()

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

    def starting(self, start: str | None) -> KnownProcess:
        """The same with another start: a state's name, or `uniform` over all states that can be met and are no end."""
        if start is None:
            return self
        n_states = self.mdp.n_states
        if start == UNIFORM:
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
        for number, name in enumerate(self.names):
            if name in number_of:
                reward[:steps, number] = other.reward[:steps, number_of[name]]
        return replace(self, reward=reward)

    def _number(self, name: str) -> int:
        for known in (self.names or tuple(map(str, range(self.mdp.n_states))), self.words):
            if name in known:
                return known.index(name)
        raise unknown_name("state of the target", name, self.names or map(str, range(self.mdp.n_states)))

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


def named_process(name: str, seed: int = 0, **parameters: Any) -> KnownProcess:
    """One of our own environments, a Gymnasium environment that has an exact model, or a model file."""
    if name.endswith(MODEL_FILE):
        if parameters:
            raise InputError(f"a model file has no parameters, got {', '.join(parameters)}")
        return process_of_file(Path(name))
    return process_of_source(Source(name, parameters, seed))


def process_of_source(source: Source) -> KnownProcess:
    """The process that a source names, with its own reward as the truth."""
    if source.ours:
        return KnownProcess.of(source.problem())
    with closing(gym_env(source)) as env:
        if source.discretise is not None:
            raise InputError(f"planning in {source.environment} needs its model, and discretised it has none")
        return process_of_env(env, source.horizon, source.environment)


def process_of_env(env: Any, horizon: int | None, name: str | None = None) -> KnownProcess:
    """The process of a Gymnasium environment that has an exact model; `horizon` is by default its limit of steps."""
    from aceirl.envs.described import state_words
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.envs.truth import exact_model

    try:
        environment = GymEnvironment(env, horizon=horizon)
        model = exact_model(env, environment.horizon, environment.n_actions)
    except InputError as error:
        told = str(error).partition("; ")[0]
        raise InputError(f"planning in {name or env} needs its model: {told}; give one as a file") from None
    states = model.states
    return KnownProcess(
        model.mdp,
        states.names,
        state_words(env, states),
        states.terminal,
        model.reward,
        observations=tuple(states.observation(number) for number in range(len(states))),
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
