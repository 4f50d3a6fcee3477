"""What a run is about, in words that can be written down, and what they stand for once opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aceirl.envs import ENVIRONMENTS, Problem, make
from aceirl.errors import InputError
from aceirl.experts.tasks.references import reference_to
from aceirl.experts.tasks.world import World, is_vector
from aceirl.models.tabular.mdp import IntArray
from aceirl.protocols import Expert, NumberedEnvironment


@dataclass(frozen=True)
class Source:
    """Where a run's environment and expert come from, in words that can be written down.

    `environment` is one of ours, `package.module:function`, or a Gymnasium id; for the last two `expert` says whom to
    ask, `horizon` how long episodes are, `discretise` how continuous observations are cut (as `Bins.of` reads it, or a
    function), `wrap` which wrappers go around the environment, the innermost first (by default none, but a MiniGrid is
    shown whole), `num_envs` how many episodes are played side by side, in processes of their own, and
    `stochastic_expert` that the function or model is a stochastic expert. In one of ours, `expert` can be the folder of
    an interview. `recordings` are what a run begins with; without an expert, they are what is known of it. The expert
    of one of ours, and the optimal one, are those of rewards that are discounted by `discount` a step.
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
    discount: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "wrap", tuple(self.wrap))  # JSON knows no tuples
        if self.num_envs < 1:
            raise InputError(f"num_envs must be at least 1, got {self.num_envs}")
        if self.num_envs > 1 and self.ours:
            raise InputError(f"num_envs is for Gymnasium environments; leave it out for {self.environment}")

    @property
    def ours(self) -> bool:
        """Whether it is one of our own environments, which has an expert of its own and plays many episodes at once."""
        return self.environment in ENVIRONMENTS

    def problem(self) -> Problem:
        """Our own environment of that name."""
        return make(self.environment, self.seed, **self.parameters).discounted(self.discount)

    def with_horizon(self, horizon: int) -> Source:
        """The same with longer or shorter episodes."""
        if self.ours:
            return replace(self, parameters=self.parameters | {"horizon": horizon})
        return replace(self, horizon=horizon)


@dataclass(frozen=True)
class Task:
    """A world, an expert to ask there and, where it is known, the `regret` by the truth; `source` is what names it."""

    world: World
    expert: Expert
    regret: Callable[[IntArray], float] | None = None
    source: Source | None = None

    @property
    def environment(self) -> NumberedEnvironment:
        """The environment to act in."""
        return self.world.environment

    def close(self) -> None:
        """Free what the environment holds."""
        self.world.close()


def named_source(
    environment: Any,
    expert: Any = None,
    *,
    horizon: int | None = None,
    discretise: Callable[[Any], Any] | None = None,
    stochastic_expert: bool = False,
    seed: int = 0,
    discount: float = 1.0,
) -> Source | None:
    """The words that name what `fit` was given, so that the command line can open it; None if there are none."""
    made = _spec_of(environment)
    asked = str(expert) if isinstance(expert, str | Path) else reference_to(expert)
    cut = getattr(discretise, "text", None) or reference_to(discretise)
    if made is None or (asked is None) != (expert is None) or (cut is None) != (discretise is None):
        return None
    name, parameters, steps = made
    return Source(
        name,
        parameters,
        seed,
        expert=asked,
        horizon=horizon or steps,
        discretise=cut,
        stochastic_expert=stochastic_expert,
        discount=discount,
    )


PLAIN_WRAPPERS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")
"""Those that Gymnasium puts around an environment by itself."""


def _spec_of(environment: Any) -> tuple[str, dict[str, Any], int | None] | None:
    """How an environment is made again: its name, parameters and time limit; None if nobody can say."""
    if isinstance(environment, str):
        return environment, {}, None
    spec = getattr(environment, "spec", None)
    if spec is None or is_vector(environment) or spec.additional_wrappers:
        return None
    layer = environment
    while layer is not environment.unwrapped:
        if type(layer).__name__ not in PLAIN_WRAPPERS:
            return None
        layer = layer.env
    parameters = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    try:
        json.dumps(parameters)
    except TypeError:
        return None
    return spec.id, parameters, spec.max_episode_steps


# What people type who know Python; the rest is JSON.
PYTHONS = {"True": True, "False": False, "None": None}


def read_parameters(assignments: list[str], where: str = "--set") -> dict[str, Any]:
    """`name=value` pairs, with numbers, true, false and null read as such, and True, False and None as Python has them.

    `where` is the option or the field they were given in.
    """
    parameters: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals or not name:
            raise InputError(f"{where} takes name=value, got {assignment!r}")
        try:
            parameters[name] = json.loads(text)
        except (ValueError, RecursionError):
            parameters[name] = PYTHONS.get(text, text)
    return parameters
