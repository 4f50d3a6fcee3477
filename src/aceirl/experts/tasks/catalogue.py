"""The environments that a person can choose from without knowing their names."""

from __future__ import annotations

import inspect
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aceirl.envs import ENVIRONMENTS, make
from aceirl.envs.described import description
from aceirl.experts.tasks.gymnasium import gym_env
from aceirl.experts.tasks.source import Source

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True)
class CatalogueEntry:
    """An environment by its name, in one line.

    `steps` is how long its episodes are, None if it does not say; `parameters` are what can be changed, as it is.
    """

    name: str
    summary: str
    steps: int | None
    parameters: dict[str, Any]
    own: bool = False


def offered() -> list[CatalogueEntry]:
    """Our own environments, and Gymnasium's toy texts if it is installed."""
    return [*map(offer, ENVIRONMENTS), *map(offer, _toy_texts())]


def offer(name: str) -> CatalogueEntry:
    """One environment; it is an error if there is none of that name, or if it is not discrete."""
    if name in ENVIRONMENTS:
        spec = ENVIRONMENTS[name]
        summary = spec.summary[0].upper() + spec.summary[1:] + "."
        return CatalogueEntry(name, summary, make(name, seed=0).mdp.horizon, spec.parameters, own=True)
    from aceirl.envs.gymnasium import GymEnvironment

    with closing(gym_env(Source(name, {}, seed=0))) as env:
        steps = None if env.spec is None else env.spec.max_episode_steps
        GymEnvironment(env, horizon=steps or 1)
        return CatalogueEntry(name, description(env).brief, steps, _parameters(env))


def _parameters(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    """What the environment is made with that can be typed in: numbers, words, yes and no."""
    usual = inspect.signature(type(env.unwrapped)).parameters.values()
    found = {one.name: one.default for one in usual} | ({} if env.spec is None else env.spec.kwargs)
    return {name: value for name, value in found.items() if isinstance(value, bool | int | float | str)}


def _toy_texts() -> list[str]:
    try:
        import gymnasium
    except ImportError:
        return []
    toys = "gymnasium.envs.toy_text."
    return sorted(name for name, spec in gymnasium.registry.items() if str(spec.entry_point).startswith(toys))
