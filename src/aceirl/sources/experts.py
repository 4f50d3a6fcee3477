"""Experts for Gymnasium environments, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aceirl.errors import InputError, unknown_name
from aceirl.experts import (
    DemonstrationExpert,
    FunctionExpert,
    ObservationExpert,
    PredictExpert,
    TerminalExpert,
)
from aceirl.experts.demonstrations import read_log
from aceirl.mdp import IntArray
from aceirl.metrics import Truth
from aceirl.protocols import Expert
from aceirl.sources.references import is_reference, named_object
from aceirl.sources.source import Task

if TYPE_CHECKING:
    import gymnasium

    from aceirl.envs.gymnasium import GymAdapter

# How files of recorded answers end.
LOGS = (".jsonl", ".npz")


def optimal_task(env: gymnasium.Env[Any, Any], environment: GymAdapter, *, stationary: bool = False) -> Task:
    """The best policy as the expert, and the regret against it. Only here is the environment's own model looked at."""
    from aceirl.envs.pay import pay_of
    from aceirl.envs.truth import Renumbered, exact_model

    model = exact_model(env, environment.horizon, environment.n_actions)
    if np.ptp(model.reward) == 0:
        raise InputError("the environment pays the same whatever is done, so no policy is best; use another expert")
    truth, renumbered = Truth(model.mdp, model.reward), Renumbered(model, environment.states)
    best = model.stationary_expert()[None] if stationary else model.expert()

    def answer(observation: Any, step: int) -> Any:
        return environment.action(int(best[0 if stationary else step, model.states.find(observation)]))

    rmax, max_return = pay_of(env)
    best_action = (lambda observation: answer(observation, 0)) if stationary else answer
    return Task(
        environment,
        ObservationExpert(best_action, environment, ask_again=1.0 if environment.binned else 0.0),
        regret=lambda policy: truth.regret(renumbered(policy)),
        rmax=rmax or float(np.ptp(model.reward)),
        max_return=max_return or model.max_return,
        env=env,
    )


def own_regret(task: Task) -> Callable[[IntArray], float]:
    """What a policy loses by what a Gymnasium environment pays itself, which must have an exact model."""
    from aceirl.envs.gymnasium import GymAdapter
    from aceirl.envs.truth import Renumbered, exact_model

    environment = task.environment
    if task.env is None or not isinstance(environment, GymAdapter):
        raise InputError("only a Gymnasium environment says what it pays")
    model = exact_model(task.env, environment.horizon, environment.n_actions)
    truth, renumbered = Truth(model.mdp, model.reward), Renumbered(model, environment.states)
    return lambda policy: truth.regret(renumbered(policy))


def gym_expert(name: str, environment: GymAdapter, *, deterministic: bool = True) -> Expert:
    """The expert of that name: `terminal`, demonstrations, a model file, or a function of observations.

    Whether a model or a function is `deterministic` has to be said; a log shows it.
    """
    if name == "terminal":
        return TerminalExpert(environment)
    if is_log(name):
        return DemonstrationExpert.load(Path(name), environment)
    if name.endswith(".zip"):
        return PredictExpert(_model(name), environment, deterministic=deterministic)
    if not is_reference(name):
        raise InputError(
            f"expert {name!r} is not one of: optimal, terminal, package.module:function, demonstrations.jsonl or .npz, "
            "the folder of an interview, ppo:model.zip"
        )
    found = named_object(name)
    kind = PredictExpert if hasattr(found, "predict") else ObservationExpert
    return kind(found, environment, deterministic=deterministic)


def is_log(name: str) -> bool:
    """Whether an expert of that name is replayed from demonstrations: a file, or the folder of an interview."""
    return name.endswith(LOGS) or Path(name).is_dir()


def interviewed_expert(folder: str, names: Sequence[str], n_actions: int) -> FunctionExpert:
    """What was said of one of our own environments, whose states have these `names [S]`, by one who answers alike."""
    path = Path(folder)
    entries = read_log(path, _NamedStates(names))
    stationary = all(entry.step is None for entry in entries)
    known: dict[tuple[int | None, int], int] = {}
    for entry in entries:
        if entry.action not in range(n_actions):
            raise InputError(f"{path} has the action {entry.action!r}; actions are 0 to {n_actions - 1}")
        if known.setdefault((entry.step, entry.observation), entry.action) != entry.action:
            raise InputError(f"{path} says different things of {names[entry.observation]}")
    return FunctionExpert(
        lambda step, state: known.get((None if stationary else step, state)), stationary=stationary, ask_again=0.0
    )


class _NamedStates:
    """Our own environments have no observations; there the names of states stand for them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.numbers = {name: number for number, name in enumerate(names)}

    def read_observation(self, written: Any) -> int:
        """The number of the state of that name."""
        if written not in self.numbers:
            raise InputError(f"{written!r} is no state of this environment")
        return self.numbers[written]


def _model(name: str) -> Any:
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
