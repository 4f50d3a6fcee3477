"""What a run is about, from words that can be written down: an environment, an expert and, if known, the truth."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
    from aceirl.envs.observations import States
    from aceirl.envs.vector import GymVectorEnvironment


# Families of ids that a library of their own registers, and the wrappers without which observations hide the state.
FAMILIES = {"MiniGrid": ("minigrid", ("minigrid.wrappers:FullyObsWrapper",))}

# How files of recorded answers end.
LOGS = (".jsonl", ".npz")


@dataclass(frozen=True)
class Source:
    """Where a run's environment and expert come from, in words that can be written down.

    `environment` is one of ours, `package.module:function`, or a Gymnasium id; for the last two `expert` says whom to
    ask, `horizon` how long episodes are, `discretise` how continuous observations are cut (as `Bins.of` reads it, or a
    function), `wrap` which wrappers go around the environment, the innermost first (by default none, but a MiniGrid is
    shown whole), `copies` how many episodes are played side by side, in processes of their own, and `stochastic_expert`
    that the function or model draws its actions.
    """

    environment: str
    parameters: dict[str, Any]
    seed: int
    stationary_expert: bool = False
    expert: str | None = None
    horizon: int | None = None
    discretise: str | None = None
    wrap: tuple[str, ...] = ()
    copies: int = 1
    stochastic_expert: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "wrap", tuple(self.wrap))  # JSON knows no tuples
        if self.copies < 1:
            raise InputError(f"copies must be at least 1, got {self.copies}")
        if self.copies > 1 and self.environment in ENVIRONMENTS:
            raise InputError(f"copies are for Gymnasium environments; {self.environment} plays its episodes at once")


@dataclass(frozen=True)
class Task:
    """An environment to act in, an expert to ask and, where it is known, the truth.

    `stationary_dynamics` is false if the dynamics are known to depend on the step; `reward_range` is where the true
    rewards lie. `layout` is how one of our own environments is drawn, `env` the Gymnasium environment if it is one.
    """

    environment: Environment
    expert: Expert
    regret: Callable[[IntArray], float] | None = None
    stationary_dynamics: bool = True
    reward_range: tuple[float, float] | None = None
    layout: Layout | None = None
    env: gymnasium.Env[Any, Any] | None = None


def open_task(source: Source) -> Task:
    """The environment and the expert that a source names; one copy, however many are to be played."""
    if source.environment not in ENVIRONMENTS:
        env = gym_env(source)
        try:
            return _gym_task(source, env, _adapted(source, env))
        except Exception:
            env.close()
            raise
    for option in ("expert", "horizon", "discretise", "wrap", "stochastic_expert"):
        if getattr(source, option):
            raise InputError(f"{option} is for Gymnasium environments; {source.environment} comes with its own")
    problem = make(source.environment, source.seed, **source.parameters)
    return Task(
        environment=Simulator(problem.mdp),
        expert=PolicyExpert(problem.expert, problem.mdp.shape, stationary=source.stationary_expert),
        regret=Truth(problem.mdp, problem.reward).regret,
        stationary_dynamics=problem.mdp.stationary,
        layout=problem.layout,
    )


@contextmanager
def playing(source: Source) -> Iterator[Task]:
    """The task that a source names, with all its copies; everything is closed when the block ends, however it does."""
    if source.copies == 1:
        task = open_task(source)
        try:
            yield task
        finally:
            if task.env is not None:
                task.env.close()
        return
    with (
        closing(gym_env(source)) as env,
        _without_reports(),
        closing(_side_by_side(source, _adapted(source, env))) as environment,
    ):
        yield _gym_task(source, env, environment)


@contextmanager
def _without_reports() -> Iterator[None]:
    """Gymnasium would print the traceback of a process that failed, besides raising its error."""
    from gymnasium import logger

    level, logger.min_level = logger.min_level, logger.ERROR + 1
    try:
        yield
    finally:
        logger.min_level = level


def _adapted(source: Source, env: gymnasium.Env[Any, Any]) -> GymEnvironment:
    from aceirl.envs.gymnasium import GymEnvironment

    return GymEnvironment(env, horizon=source.horizon, discretise=_discretiser(source, env))


def _side_by_side(source: Source, one: GymEnvironment) -> GymVectorEnvironment:
    """As many copies as the source says, each in a process of its own, that are otherwise like this one."""
    from gymnasium.vector import AsyncVectorEnv

    from aceirl.envs.vector import GymVectorEnvironment

    make = partial(_env_of_copy, source, os.getpid())
    try:
        # In shared memory there is no room for spaces of one's own, and a wrong observation looks right.
        vector = AsyncVectorEnv([make] * source.copies, shared_memory=False)
    except Exception as error:
        raise InputError(
            f"environment {source.environment!r} cannot be made in processes of its own: {type(error).__name__}: "
            f"{' '.join(str(error).split())}"
        ) from error
    return GymVectorEnvironment(vector, horizon=one.horizon, discretise=one.states.discretise)


def _env_of_copy(source: Source, parent: int) -> gymnasium.Env[Any, Any]:
    from aceirl.envs.vector import Resting

    if os.getpid() != parent:  # Ctrl-C is for the parent, which then closes the copies
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A forked process has its parent's chance: copies that draw from it would all play the same episode.
        random.seed()
        np.random.seed()  # noqa: NPY002 - for environments that use it
    return Resting(gym_env(source))


def _gym_task(source: Source, env: gymnasium.Env[Any, Any], environment: GymEnvironment) -> Task:
    if source.expert is None:
        raise InputError(
            f"{source.environment} has no expert of its own; give one: optimal, terminal, package.module:function, "
            "a file of demonstrations (.jsonl, .npz), or a model as ppo:model.zip"
        )
    if source.stochastic_expert and (source.expert in ("optimal", "terminal") or source.expert.endswith(LOGS)):
        raise InputError(f"stochastic_expert is for functions and models, not for {source.expert!r}")
    if source.expert == "optimal":
        return optimal_task(env, environment, stationary=source.stationary_expert)
    expert = gym_expert(source.expert, environment, deterministic=not source.stochastic_expert)
    return Task(environment, expert, env=env)


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


def rendering_env(source: Source) -> gymnasium.Env[Any, Any]:
    """The Gymnasium environment that a source names, made to draw itself if it can."""
    # Pictures are wanted, and neither a window nor what the library has to say about the lack of one.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    try:
        return gym_env(replace(source, parameters=source.parameters | {"render_mode": "rgb_array"}))
    except InputError:
        return gym_env(source)


def state_names(task: Task, names: tuple[str, ...]) -> tuple[str, ...]:
    """What people call the states of a run; `names` are those it met, in their order."""
    from aceirl.envs.scenery import state_words

    if task.layout is not None:
        return tuple(f"state {name}" for name in task.layout.state_names)
    return () if task.env is None else state_words(task.env, _states_met(task.environment, names))


def layout(source: Source, names: tuple[str, ...]) -> Layout:
    """Where the states of a run lie on paper; `names` are those it met, in their order."""
    if source.environment in ENVIRONMENTS:
        return make(source.environment, source.seed, **source.parameters).layout
    from aceirl.envs.scenery import layout as over_rendering

    with closing(rendering_env(source)) as env:
        environment = _adapted(source, env)
        actions = [environment.action(number) for number in range(environment.n_actions)]
        return over_rendering(env, _states_met(environment, names), actions)


def _states_met(environment: Environment, names: tuple[str, ...]) -> States:
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.envs.observations import States

    assert isinstance(environment, GymEnvironment)
    return States(environment.states.space, environment.states.discretise, names)


def optimal_task(env: gymnasium.Env[Any, Any], environment: GymEnvironment, *, stationary: bool = False) -> Task:
    """The best policy as the expert, and the regret against it. Only here is the environment's own model looked at."""
    from aceirl.envs.truth import exact_model

    model = exact_model(env, environment.horizon, environment.n_actions)
    if np.ptp(model.reward) == 0:
        raise InputError("the environment pays the same whatever is done, so no policy is best; use another expert")
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
        env=env,
    )


def gym_expert(name: str, environment: GymEnvironment, *, deterministic: bool = True) -> Expert:
    """The expert of that name: `terminal`, a file of demonstrations, a model file, or a function of observations.

    Whether a model or a function is `deterministic` has to be said; a log shows it.
    """
    if name == "terminal":
        return TerminalExpert(environment)
    if name.endswith(LOGS):
        return DemonstrationExpert.load(Path(name), environment)
    if name.endswith(".zip"):
        return PredictExpert(_model(name), environment, deterministic=deterministic)
    if not _is_reference(name):
        raise InputError(
            f"expert {name!r} is not one of: optimal, terminal, package.module:function, demonstrations.jsonl or .npz, "
            "ppo:model.zip"
        )
    found = _named_object(name)
    kind = PredictExpert if hasattr(found, "predict") else ObservationExpert
    return kind(found, environment, deterministic=deterministic)


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


def _discretiser(source: Source, env: gymnasium.Env[Any, Any]) -> Callable[[Any], Any] | None:
    from aceirl.envs.discretise import Bins

    text = source.discretise
    if text is None:
        return None
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
