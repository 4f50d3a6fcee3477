"""Observations and actions of Gymnasium's spaces as vectors of numbers, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from aceirl.errors import InputError, shown
from aceirl.models.tabular.encoder import key_function
from aceirl.models.tabular.mdp import FloatArray
from aceirl.models.vectors.choices import ActionChoices

MOST_NUMBERS, MOST_ACTIONS = 2_000, 200
"""So many numbers an observation may have, and so many a space of actions that are chosen among one by one."""


def is_continuous(observations: Space[Any], actions: Space[Any]) -> bool:
    """Whether observations or actions cannot be numbered, so that a model of tables cannot take them."""
    if isinstance(actions, spaces.Box) and not np.issubdtype(actions.dtype, np.integer):
        return True
    try:
        key_function(observations)
    except InputError:
        return True
    return False


@dataclass(frozen=True, eq=False)
class Encoding:
    """The `observations` of an environment as `[d]` numbers and its `actions` as `[p]`."""

    observations: Space[Any]
    actions: Space[Any]

    def __post_init__(self) -> None:
        try:
            numbers = int(spaces.flatdim(self.observations))
        except (NotImplementedError, ValueError):
            raise InputError(
                f"observations {self.observations} cannot be written as numbers; use a wrapper that returns a Box"
            ) from None
        if numbers > MOST_NUMBERS:
            raise InputError(
                f"observations have {numbers:,} numbers, and at most {MOST_NUMBERS:,} can be learned from; use a "
                "wrapper that returns a few features instead of an image"
            )
        if not isinstance(self.actions, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            raise InputError(f"actions must be Discrete, MultiDiscrete, MultiBinary or Box, not {self.actions}")

    @cached_property
    def dimension(self) -> int:
        """The numbers of an observation."""
        return int(spaces.flatdim(self.observations))

    @cached_property
    def choices(self) -> ActionChoices | None:
        """All actions, where there are finitely many; None where prototypes have to be found among the expert's."""
        match self.actions:
            case spaces.Discrete():
                listed = np.arange(int(self.actions.n))[:, None] + int(self.actions.start)
            case spaces.MultiDiscrete():
                listed = np.array(list(np.ndindex(*self.actions.nvec.ravel()))) + self.actions.start.ravel()
            case spaces.MultiBinary():
                listed = np.array(list(np.ndindex(*[2] * math.prod(self.actions.shape))))
            case _:
                return None
        if len(listed) > MOST_ACTIONS:
            raise InputError(f"there are {len(listed):,} actions, and at most {MOST_ACTIONS} can be learned")
        return ActionChoices(np.asarray(listed, dtype=np.float64))

    def vector(self, observation: Any) -> FloatArray:
        """`[d]`: an observation as numbers."""
        found: FloatArray = self.vectors([observation])[0]
        return found

    def vectors(self, observations: Any) -> FloatArray:
        """`[n, d]`: observations as numbers."""
        if isinstance(self.observations, spaces.Box):
            try:
                array = np.asarray(observations, dtype=np.float64)
            except (TypeError, ValueError):
                array = np.zeros((0, 0))
            if array.shape[1:] != self.observations.shape:
                raise self._wrong(observations[0])
            found = array.reshape(len(array), -1)
        else:
            try:
                found = np.array([spaces.flatten(self.observations, one) for one in observations], dtype=np.float64)
            except Exception:
                raise self._wrong(observations[0]) from None
        if not np.isfinite(found).all():
            raise InputError(f"observation {shown(observations[0])} has a number that is not finite")
        return found

    def _wrong(self, observation: Any) -> InputError:
        return InputError(f"observation {shown(observation)} is not in {self.observations}")

    def is_batch(self, observation: Any) -> bool:
        """Whether it is several observations, `[n, ...]`."""
        return isinstance(self.observations, spaces.Box) and np.ndim(observation) == len(self.observations.shape) + 1

    def values(self, action: Any) -> FloatArray | None:
        """`[p]`: one of the environment's actions as numbers; None if it is not one."""
        try:
            found = np.asarray(action, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            return None
        wanted = math.prod(self.actions.shape or ())
        if found.shape != (wanted,) or not np.isfinite(found).all():
            return None
        if self.choices is not None and self.choices.numbers(found[None])[0] < 0:
            return None
        if isinstance(self.actions, spaces.Box):
            return np.clip(found, self.actions.low.ravel(), self.actions.high.ravel())
        return found

    def action(self, values: FloatArray) -> Any:
        """The environment's own action of these numbers `[p]`."""
        if isinstance(self.actions, spaces.Discrete):
            return int(values[0])
        return np.asarray(values).reshape(self.actions.shape).astype(self.actions.dtype)
