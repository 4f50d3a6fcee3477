"""Gymnasium environments from a source: made, wrapped, discretised, one of them or several side by side."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aceirl.envs import ENVIRONMENTS
from aceirl.errors import InputError, unknown_name
from aceirl.experts.tasks.references import is_reference, named_object
from aceirl.experts.tasks.source import Source

if TYPE_CHECKING:
    import gymnasium

    from aceirl.envs.gymnasium import GymAdapter, GymEnvironment
    from aceirl.envs.vector import GymVectorEnvironment

# Families of ids that a library of their own registers, and the wrappers without which observations hide the state.
FAMILIES = {"MiniGrid": ("minigrid", ("minigrid.wrappers:FullyObsWrapper",))}


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
        if is_reference(source.environment):
            env = named_object(source.environment)(**source.parameters)
        else:
            if family:
                import_module(family)
            env = gymnasium.make(
                source.environment, max_episode_steps=source.horizon, disable_env_checker=True, **source.parameters
            )
        for wrapper in source.wrap or wrappers:
            env = named_object(wrapper)(env)
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


def adapted(source: Source, env: gymnasium.Env[Any, Any]) -> GymEnvironment:
    """The environment as the learner wants it."""
    from aceirl.envs.gymnasium import GymEnvironment

    return GymEnvironment(env, horizon=source.horizon, discretise=discretiser(source, env))


def side_by_side(source: Source, one: GymAdapter) -> GymVectorEnvironment:
    """`num_envs` environments, each in a process of its own, that are otherwise like this one."""
    from gymnasium.vector import AsyncVectorEnv

    from aceirl.envs.vector import GymVectorEnvironment

    make = partial(_env_of_process, source, os.getpid())
    try:
        # In shared memory there is no room for spaces of one's own, and a wrong observation looks right.
        vector = AsyncVectorEnv([make] * source.num_envs, shared_memory=False)
    except Exception as error:
        raise InputError(
            f"environment {source.environment!r} cannot be made in processes of its own: {type(error).__name__}: "
            f"{' '.join(str(error).split())}"
        ) from error
    return GymVectorEnvironment(vector, horizon=one.horizon, discretise=one.states.discretise)


def _env_of_process(source: Source, parent: int) -> gymnasium.Env[Any, Any]:
    from aceirl.envs.vector import Resting

    if os.getpid() != parent:  # Ctrl-C is for the parent, which then closes the environments
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return Resting(gym_env(source))


def discretiser(source: Source, env: gymnasium.Env[Any, Any]) -> Callable[[Any], Any] | None:
    """What cuts the observations, as the source says; None if nothing does."""
    from aceirl.models.tabular.bins import Bins

    text = source.discretise
    if text is None:
        return None
    if is_reference(text):
        return named_object(text)  # type: ignore[no-any-return]
    return Bins.of(text, env.observation_space)


@contextmanager
def without_reports() -> Iterator[None]:
    """Gymnasium would print the traceback of a process that failed, besides raising its error."""
    from gymnasium import logger

    level, logger.min_level = logger.min_level, logger.ERROR + 1
    try:
        yield
    finally:
        logger.min_level = level
