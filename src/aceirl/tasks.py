"""What a run is about, from words that can be written down: an environment, an expert and, if known, the truth."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aceirl.envs import ENVIRONMENTS, Layout, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError, unknown_name
from aceirl.experts import (
    DemonstrationExpert,
    FunctionExpert,
    ObservationExpert,
    PolicyExpert,
    PredictExpert,
    TerminalExpert,
)
from aceirl.mdp import IntArray
from aceirl.metrics import Truth
from aceirl.protocols import Environment, Expert

if TYPE_CHECKING:
    import gymnasium

    from aceirl.envs.gymnasium import GymEnvironment


# Families of ids that a library of their own registers, and the wrappers without which observations hide the state.
FAMILIES = {"MiniGrid": ("minigrid", ("minigrid.wrappers:FullyObsWrapper",))}


@dataclass(frozen=True)
class Source:
    """Where a run's environment and expert come from, in words that can be written down.

    `environment` is one of ours, `package.module:function`, or a Gymnasium id; for the last two `expert` says whom to
    ask, `horizon` how long episodes are, `discretise` how continuous observations are cut (as `Bins.of` reads it, or a
    function), and `wrap` which wrappers go around the environment, the innermost first (by default none, but a
    MiniGrid is shown whole).
    """

    environment: str
    parameters: dict[str, Any]
    seed: int
    stationary_expert: bool = False
    expert: str | None = None
    horizon: int | None = None
    discretise: str | None = None
    wrap: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """An environment to act in, an expert to ask and, where they are known, the truth and the shape to draw.

    `stationary_dynamics` is false if the dynamics are known to depend on the step; `reward_range` is where the true
    rewards lie.
    """

    environment: Environment
    expert: Expert
    regret: Callable[[IntArray], float] | None = None
    layout: Layout | None = None
    stationary_dynamics: bool = True
    reward_range: tuple[float, float] | None = None


def open_task(source: Source) -> Task:
    """The environment and the expert that a source names."""
    if source.environment not in ENVIRONMENTS:
        return _gym_task(source)
    for option in ("expert", "horizon", "discretise", "wrap"):
        if getattr(source, option):
            raise InputError(f"{option} is for Gymnasium environments; {source.environment} comes with its own")
    problem = make(source.environment, source.seed, **source.parameters)
    return Task(
        environment=Simulator(problem.mdp),
        expert=PolicyExpert(problem.expert, problem.mdp.shape, stationary=source.stationary_expert),
        regret=Truth(problem.mdp, problem.reward).regret,
        layout=problem.layout,
        stationary_dynamics=problem.mdp.stationary,
    )


def _gym_task(source: Source) -> Task:
    from aceirl.envs.gymnasium import GymEnvironment

    env = gym_env(source)
    discretise = None if source.discretise is None else _discretiser(source.discretise, env)
    environment = GymEnvironment(env, horizon=source.horizon, discretise=discretise)
    if source.expert is None:
        raise InputError(
            f"{source.environment} has no expert of its own; give one: optimal, terminal, package.module:function, "
            "a file of demonstrations (.jsonl, .npz), or a model as ppo:model.zip"
        )
    if source.expert == "optimal":
        return optimal_task(env, environment, stationary=source.stationary_expert)
    return Task(environment, gym_expert(source.expert, environment))


def gym_env(source: Source) -> gymnasium.Env[Any, Any]:
    """The Gymnasium environment that a source names, with its wrappers."""
    try:
        import gymnasium
    except ImportError:
        if ":" in source.environment or "-v" in source.environment:
            raise InputError(f"{source.environment} needs Gymnasium: pip install 'aceirl[gym]'") from None
        raise unknown_name("environment", source.environment, ENVIRONMENTS) from None
    family, wrappers = FAMILIES.get(source.environment.partition("-")[0], ("", ()))
    try:
        if _is_reference(source.environment):
            env = _named_object(source.environment)(**source.parameters)
        else:
            if family:
                import_module(family)
            env = gymnasium.make(
                source.environment, max_episode_steps=source.horizon, disable_env_checker=True, **source.parameters
            )
        for wrapper in source.wrap or wrappers:
            env = _named_object(wrapper)(env)
    except InputError:
        raise
    except gymnasium.error.NameNotFound:
        names = [*ENVIRONMENTS, *gymnasium.registry]
        raise unknown_name("environment", source.environment, names) from None
    except Exception as error:
        raise InputError(
            f"environment {source.environment!r} cannot be made: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(env, gymnasium.Env):
        raise InputError(f"{source.environment} returned a {type(env).__name__}, not a Gymnasium environment")
    return env


def optimal_task(env: gymnasium.Env[Any, Any], environment: GymEnvironment, *, stationary: bool = False) -> Task:
    """The best policy as the expert, and the regret against it. Only here is the environment's own model looked at."""
    from aceirl.envs.truth import exact_model

    model = exact_model(env, environment.horizon, environment.n_actions)
    truth = Truth(model.mdp, model.reward)
    best = model.stationary_expert()[None] if stationary else model.expert()

    def answer(step: int, state: int) -> int:
        here = model.states.find(environment.observation(state))
        return int(best[0 if stationary else step, here])

    return Task(
        environment,
        FunctionExpert(answer, stationary=stationary),
        regret=lambda policy: truth.regret(model.spread(policy, environment.states)),
        reward_range=(float(model.reward.min()), float(model.reward.max())),
    )


def gym_expert(name: str, environment: GymEnvironment) -> Expert:
    """The expert of that name: `terminal`, a file of demonstrations, a model file, or a function of observations."""
    if name == "terminal":
        return TerminalExpert(environment)
    if name.endswith((".jsonl", ".npz")):
        return DemonstrationExpert.load(Path(name), environment)
    if name.endswith(".zip"):
        return PredictExpert(_model(name), environment)
    if not _is_reference(name):
        raise InputError(
            f"expert {name!r} is not one of: optimal, terminal, package.module:function, demonstrations.jsonl or .npz, "
            "ppo:model.zip"
        )
    found = _named_object(name)
    return PredictExpert(found, environment) if hasattr(found, "predict") else ObservationExpert(found, environment)


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


def _discretiser(text: str, env: gymnasium.Env[Any, Any]) -> Callable[[Any], Any]:
    from aceirl.envs.discretise import Bins

    if _is_reference(text):
        return _named_object(text)  # type: ignore[no-any-return]
    return Bins.of(text, env.observation_space)


def _is_reference(text: str) -> bool:
    """Whether a text has the form `package.module:name`."""
    module, colon, name = text.partition(":")
    return bool(colon) and name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _named_object(reference: str) -> Any:
    """What `package.module:name` names; modules of the current folder are found too."""
    if not _is_reference(reference):
        raise InputError(f"{reference!r} is not of the form package.module:name")
    module, _, name = reference.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise InputError(f"{reference} cannot be imported: {error}") from None
    except AttributeError:
        raise InputError(f"module {module} has no {name!r}") from None
