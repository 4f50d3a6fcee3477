"""Whom to ask: an expert from any form in which people have one, by name or as an object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aceirl.errors import InputError, unknown_name
from aceirl.experts import (
    Demonstration,
    DemonstrationExpert,
    FunctionExpert,
    ObservationExpert,
    PolicyExpert,
    PredictExpert,
    TerminalExpert,
)
from aceirl.experts.demonstrations import read_log
from aceirl.experts.tasks.references import is_reference, named_object
from aceirl.experts.tasks.source import Task
from aceirl.experts.tasks.world import GymWorld, World
from aceirl.protocols import Expert

if TYPE_CHECKING:
    from aceirl.envs.gymnasium import GymAdapter

# How files of recorded answers end.
LOGS = (".jsonl", ".npz")


def optimal_task(world: GymWorld, *, stationary: bool = False) -> Task:
    """The best policy as the expert, and the regret against it. Only here is the environment's own model looked at."""
    from aceirl.envs.pay import reward_range

    environment, model = world.environment, world.model()
    if np.ptp(model.reward) == 0:
        raise InputError("the environment's reward is always the same, so no policy is best; use another expert")
    best = model.stationary_expert()[None] if stationary else model.expert()

    def answer(observation: Any, step: int) -> Any:
        return environment.action(int(best[0 if stationary else step, model.states.find(observation)]))

    best_action = (lambda observation: answer(observation, 0)) if stationary else answer
    expert = ObservationExpert(best_action, environment, ask_again=1.0 if environment.binned else 0.0)
    rmax = reward_range(world.env)[0] or float(np.ptp(model.reward))
    paying = replace(world, rmax=rmax, max_return=world.max_return or model.max_return)
    return Task(paying, expert, model.regret(environment.states))


def expert_of(expert: Any, world: World, *, stochastic: bool = False) -> Expert:
    """An expert in any form, as one who can be asked in this world; functions and models may be `stochastic`.

    It is an object with `answer(question)`, a function, a model with `predict`, an array of actions, demonstrations or
    a name: of observations in a Gymnasium environment, of numbered states elsewhere.
    """
    if isinstance(expert, type):
        raise InputError(f"expert is the class {expert.__name__}; give an instance, {expert.__name__}(...)")
    if callable(getattr(expert, "answer", None)):
        return expert  # type: ignore[no-any-return]
    if isinstance(world, GymWorld):
        return _of_observations(expert, world.environment, stochastic=stochastic)
    environment = world.environment
    return _of_states(expert, (environment.horizon, environment.n_states, environment.n_actions), stochastic=stochastic)


def _of_observations(expert: Any, environment: GymAdapter, *, stochastic: bool) -> Expert:
    if isinstance(expert, str | Path):
        return _named(str(expert), environment, stochastic=stochastic)
    if hasattr(expert, "predict"):
        return PredictExpert(expert, environment, deterministic=not stochastic)
    if callable(expert):
        return ObservationExpert(expert, environment, deterministic=not stochastic)
    if isinstance(expert, Sequence) and expert and all(isinstance(entry, Demonstration) for entry in expert):
        return DemonstrationExpert(expert, environment)
    if isinstance(expert, Sequence) and expert and all(hasattr(entry, "acts") for entry in expert):  # imitation's
        pairs = (pair for one in expert for pair in zip(one.obs[:-1], one.acts, strict=True))
        return DemonstrationExpert([Demonstration(*pair) for pair in pairs], environment)
    space: Any = environment.states.space
    table, count = _array(expert), str(space.n) if getattr(space, "start", None) == 0 else "S"
    if table.dtype.kind not in "iu" or table.ndim != 1 or str(len(table)) != count:
        floats = "" if table.dtype.kind in "iu" else f" of {table.dtype}"
        raise InputError(
            "a policy array for a Gymnasium environment has one action for each observation, "
            f"[{count}] whole numbers; got shape {list(table.shape)}{floats}; for anything else give a function"
        )
    return ObservationExpert(_Table(table), environment)


@dataclass(frozen=True, eq=False)
class _Table:
    """An action for each observation, `table [S]`."""

    table: np.ndarray[Any, Any]

    def __call__(self, observation: Any) -> Any:
        return self.table[observation]


def _named(name: str, environment: GymAdapter, *, stochastic: bool) -> Expert:
    """`terminal`, demonstrations, a model file, or a function of observations."""
    if name == "terminal":
        return TerminalExpert(environment)
    if is_log(name):
        return DemonstrationExpert.load(Path(name), environment)
    if not name.endswith(".zip") and not is_reference(name):
        raise InputError(
            f"expert {name!r} is not one of: optimal, terminal, package.module:function, demonstrations.jsonl or .npz, "
            "the folder of an interview, ppo:model.zip"
        )
    found = saved_model(name) if name.endswith(".zip") else named_object(name)
    kind = PredictExpert if hasattr(found, "predict") else ObservationExpert
    return kind(found, environment, deterministic=not stochastic)


def _of_states(expert: Any, shape: tuple[int, int, int], *, stochastic: bool) -> Expert:
    if callable(expert):
        by_state = len(inspect.signature(expert).parameters) < 2
        answer = _of_state_alone(expert) if by_state else expert
        return FunctionExpert(answer, deterministic=not stochastic, stationary=by_state)
    if isinstance(expert, str | Path):
        raise InputError(
            f"expert {str(expert)!r} is for Gymnasium environments; give an array or a function of the state"
        )
    table = _array(expert)
    if table.dtype.kind == "f" and table.shape in (shape[:2], shape[1:2]):
        raise InputError(f"actions are whole numbers; the expert's array {list(table.shape)} is of {table.dtype}")
    return PolicyExpert(table, shape)


def _of_state_alone(expert: Callable[[int], Any]) -> Callable[[int, int], Any]:
    """A function of the state alone, as one of step and state; `fingerprint` finds the first in `__wrapped__`."""

    def answer(step: int, state: int) -> Any:
        return expert(state)

    answer.__wrapped__ = expert  # type: ignore[attr-defined]
    return answer


def _array(expert: Any) -> np.ndarray[Any, Any]:
    if isinstance(expert, Sequence) and any(_is_episode(entry) for entry in expert):
        raise InputError(
            "recorded episodes cannot be asked; give them as demonstrations: fit(environment, demonstrations=...)"
        )
    try:
        table = np.asarray(expert) if expert is not None else np.zeros(0, dtype=object)
    except ValueError:  # rows of several lengths
        table = np.zeros(0, dtype=object)
    if table.dtype.kind not in "iuf" or not table.ndim:
        raise InputError(
            "expert must be a function of an observation, a model with predict, an array of actions, demonstrations "
            f"({', '.join(LOGS)}), or an object with answer(question); got {expert!r}"
        )
    return table


def _is_episode(entry: Any) -> bool:
    """Whether it is a dictionary, or a sequence of steps `(observation, action, ...)`."""
    if isinstance(entry, dict):
        return True
    return isinstance(entry, Sequence) and not isinstance(entry, str) and any(isinstance(step, tuple) for step in entry)


def is_log(name: str) -> bool:
    """Whether an expert of that name is replayed from demonstrations: a file, or the folder of an interview."""
    return name.endswith(LOGS) or Path(name).is_dir()


def interviewed_expert(folder: str, names: Sequence[str], n_actions: int) -> FunctionExpert:
    """What was said of one of our own environments, whose states have these `names [S]`, by one who answers alike."""
    path, numbers = Path(folder), {name: number for number, name in enumerate(names)}

    def state_of(written: Any) -> int:
        if written not in numbers:
            raise InputError(f"{written!r} is not a state of this environment")
        return numbers[written]

    entries = read_log(path, state_of)
    stationary = all(entry.step is None for entry in entries)
    known: dict[tuple[int | None, int], int] = {}
    for entry in entries:
        if entry.action not in range(n_actions):
            raise InputError(f"{path} has the action {entry.action!r}; actions are 0 to {n_actions - 1}")
        if known.setdefault((entry.step, entry.observation), entry.action) != entry.action:
            raise InputError(f"{path} has different actions for {names[entry.observation]}; keep one of them")
    return FunctionExpert(
        lambda step, state: known.get((None if stationary else step, state)), stationary=stationary, ask_again=0.0
    )


def saved_model(name: str) -> Any:
    """A model of Stable-Baselines3, from `algorithm:file.zip`."""
    algorithm, colon, path = name.partition(":")
    if not colon:
        raise InputError(f"say which algorithm made the model {name!r}, as in ppo:{name}")
    try:
        library = import_module("stable_baselines3")
    except ImportError:
        raise InputError(f"expert {name!r} needs Stable-Baselines3: pip install stable-baselines3") from None
    kinds = {kind.lower(): kind for kind in ("A2C", "DDPG", "DQN", "PPO", "SAC", "TD3")}
    if algorithm.lower() not in kinds:
        raise unknown_name("algorithm", algorithm, kinds)
    if not Path(path).exists():
        raise InputError(f"there is no model file {path}")
    return getattr(library, kinds[algorithm.lower()]).load(path, device="cpu")
