"""Recorded episodes: what every form of a recording is read into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.data.dataset import Trajectory
from aceirl.errors import InputError


@dataclass(frozen=True, eq=False)
class Recording:
    """Episodes that were recorded.

    `spaces` are those of the observations and the actions, and `environment` the id of the Gymnasium environment with
    its parameters, where the recording names them.
    """

    episodes: tuple[Trajectory, ...]
    spaces: tuple[Any, Any] | None = None
    environment: tuple[str, dict[str, Any]] | None = None

    @property
    def longest(self) -> int:
        """The steps of the longest episode."""
        return max(len(episode.actions) for episode in self.episodes)


def recorded_episode(observations: Sequence[Any], actions: Sequence[Any], terminated: bool, where: str) -> Trajectory:
    """An episode with at least one action; `where` is how errors call it."""
    if not len(actions):
        raise InputError(f"{where} has no action; leave it out")
    return Trajectory(observations, actions, terminated, where=where)


def rows_of(column: Any) -> Sequence[Any]:
    """The entries of a column; of parts made of columns, entries made of parts."""
    if hasattr(column, "unwrap"):  # imitation's DictObs
        column = column.unwrap()
    if isinstance(column, Mapping):
        parts = {name: rows_of(part) for name, part in column.items()}
        return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]
    if isinstance(column, tuple):
        return list(zip(*(rows_of(part) for part in column), strict=True))
    array = np.asarray(column) if isinstance(column, np.ndarray) else None
    return list(column) if array is None else list(array)


def same_observation(one: Any, other: Any) -> bool:
    """Whether two observations are alike."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_observation(part, other[name]) for name, part in one.items())
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(same_observation(a, b) for a, b in zip(one, other, strict=True))
    return bool(np.array_equal(one, other))
