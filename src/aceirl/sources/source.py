"""What a run is about, in words that can be written down, and what they stand for once opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aceirl.envs import ENVIRONMENTS, Layout
from aceirl.errors import InputError
from aceirl.mdp import IntArray
from aceirl.protocols import Environment, Expert

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True)
class Source:
    """Where a run's environment and expert come from, in words that can be written down.

    `environment` is one of ours, `package.module:function`, or a Gymnasium id; for the last two `expert` says whom to
    ask, `horizon` how long episodes are, `discretise` how continuous observations are cut (as `Bins.of` reads it, or a
    function), `wrap` which wrappers go around the environment, the innermost first (by default none, but a MiniGrid is
    shown whole), `num_envs` how many episodes are played side by side, in processes of their own, and
    `stochastic_expert` that the function or model is a stochastic expert. In one of ours, `expert` can be the folder of
    an interview. `recordings` are what a run begins with; without an expert, they are what is known of it.
    """

    environment: str
    parameters: dict[str, Any]
    seed: int
    stationary_expert: bool = False
    expert: str | None = None
    horizon: int | None = None
    discretise: str | None = None
    wrap: tuple[str, ...] = ()
    num_envs: int = 1
    stochastic_expert: bool = False
    recordings: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "wrap", tuple(self.wrap))  # JSON knows no tuples
        if self.num_envs < 1:
            raise InputError(f"num_envs must be at least 1, got {self.num_envs}")
        if self.num_envs > 1 and self.environment in ENVIRONMENTS:
            raise InputError(f"num_envs is for Gymnasium environments; {self.environment} plays its episodes at once")


@dataclass(frozen=True)
class Words:
    """What people call the states, in their order, and the actions of an environment."""

    states: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """An environment to act in, an expert to ask and, where it is known, the truth.

    `stationary_dynamics` is false if the dynamics are known to depend on the step. `rmax` is how far the rewards of two
    steps lie apart, `max_return` how far the returns of two episodes do, where that is known. `layout` is how
    the environment is drawn, where that is known without it, `env` the Gymnasium environment if it is one, `source`
    what names it all, and `words` are kept ones of an environment that is not at hand.
    """

    environment: Environment
    expert: Expert
    regret: Callable[[IntArray], float] | None = None
    stationary_dynamics: bool = True
    rmax: float = 1.0
    max_return: float | None = None
    layout: Layout | None = None
    env: gymnasium.Env[Any, Any] | None = None
    source: Source | None = None
    words: Words | None = None

    def close(self) -> None:
        """Close the Gymnasium environment, if there is one."""
        if self.env is not None:
            self.env.close()


def is_vector(env: Any) -> bool:
    """Whether it is a Gymnasium vector environment; asking a wrapper for an attribute is not a way to find out."""
    from gymnasium.vector import VectorEnv

    return isinstance(env, VectorEnv)
