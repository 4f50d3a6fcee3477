"""Environments by name, the paper's and those of the arena, each a `Problem` drawn from a seed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from aceirl.envs.chain import chain
from aceirl.envs.cliff import cliff_walking
from aceirl.envs.deep_sea import deep_sea
from aceirl.envs.double_chain import double_chain
from aceirl.envs.four_paths import four_paths, four_paths_released
from aceirl.envs.frozen_lake import frozen_lake
from aceirl.envs.garnet import garnet
from aceirl.envs.gridworld import gridworld, gridworld_released
from aceirl.envs.layout import Layout
from aceirl.envs.lock import combination_lock
from aceirl.envs.problem import Problem, check_count
from aceirl.envs.random_mdp import random_mdp, random_mdp_released
from aceirl.envs.rooms import rooms
from aceirl.envs.taxi import small_taxi
from aceirl.errors import unknown_name

__all__ = ["ENVIRONMENTS", "EnvironmentSpec", "Layout", "Problem", "make"]

# Keeps the draws of a problem apart from those of a run that is given the same seed.
PROBLEM_STREAM = 1


@dataclass(frozen=True)
class EnvironmentSpec:
    """How to build an environment, and what it is in one line."""

    builder: Callable[..., Problem]
    summary: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The names of what can be changed, with the values they have by default."""
        signature = inspect.signature(self.builder).parameters.values()
        return {p.name: p.default for p in signature if p.kind is inspect.Parameter.KEYWORD_ONLY}


ENVIRONMENTS: Mapping[str, EnvironmentSpec] = MappingProxyType(
    {
        "four-paths": EnvironmentSpec(four_paths, "a centre and four long arms, a goal at the end of one"),
        "double-chain": EnvironmentSpec(double_chain, "a corridor entered in the middle, a goal at its right end"),
        "chain": EnvironmentSpec(chain, "a short walk with one good action of ten, and a pit beside it"),
        "gridworld": EnvironmentSpec(gridworld, "a 3x3 room with a sticky centre, a goal right of it"),
        "random-mdp": EnvironmentSpec(random_mdp, "random transitions and rewards, nine states"),
        "deep-sea": EnvironmentSpec(deep_sea, "a dive, with a treasure for always steering right"),
        "combination-lock": EnvironmentSpec(combination_lock, "one sequence of digits opens it, a wrong digit jams it"),
        "rooms": EnvironmentSpec(rooms, "four rooms with doors between them, a goal in the corner of one"),
        "garnet": EnvironmentSpec(garnet, "random transitions to few states each, a reward in one of them"),
        "small-taxi": EnvironmentSpec(small_taxi, "fetch a passenger at one stop, bring it to the other"),
        "frozen-lake": EnvironmentSpec(frozen_lake, "across slippery ice, past the holes, to a gift"),
        "cliff-walking": EnvironmentSpec(
            cliff_walking, "along a cliff or well away from it; a step over it leads back to the start"
        ),
        "four-paths-released": EnvironmentSpec(
            four_paths_released, "four-paths as the paper's released code has it: hard to leave the centre"
        ),
        "gridworld-released": EnvironmentSpec(
            gridworld_released, "gridworld as the paper's released code has it: the goal is absorbing"
        ),
        "random-mdp-released": EnvironmentSpec(
            random_mdp_released, "random-mdp as the paper's released code has it: new transitions at every step"
        ),
    }
)
"""The environments by name; `make` builds one."""


def make(name: str, seed: int, **parameters: Any) -> Problem:
    """The environment of that name; the seed decides all that is random in it, and the expert's choice among equals."""
    if name not in ENVIRONMENTS:
        raise unknown_name("environment", name, ENVIRONMENTS)
    spec = ENVIRONMENTS[name]
    for parameter in parameters:
        if parameter not in spec.parameters:
            raise unknown_name(f"parameter of {name}", parameter, spec.parameters)
    check_count("seed", seed, minimum=0)
    rng = np.random.default_rng(np.random.SeedSequence([seed, PROBLEM_STREAM]))
    return spec.builder(rng, **parameters)
