"""Recorded episodes: what every form of a recording is read into."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


def recorded_episode(
    observations: Sequence[Any], actions: Sequence[Any], terminated: bool | None, where: str
) -> Trajectory:
    """An episode with at least one action; `where` is how errors call it."""
    if not len(actions):
        raise InputError(f"{where} has no action; leave it out")
    return Trajectory(observations, actions, terminated, where=where)


def with_known_ends(recording: Recording) -> Recording:
    """The recording with a reason for the end of every episode, and a warning where it does not name the reason.

    `done` is said both of an end and of a time limit. An environment does not go on from where an episode is over, so
    an episode whose last observation is acted on elsewhere in the recording was cut off; any other is taken to be over.
    """
    unsaid = [episode for episode in recording.episodes if episode.terminated is None]
    if not unsaid:
        return recording
    acted_on = {_written(seen) for one in recording.episodes for seen in one.observations[: len(one.actions)]}

    def is_cut(one: Trajectory) -> bool:
        return len(one.observations) > len(one.actions) and _written(one.observations[-1]) in acted_on

    logging.getLogger("aceirl").warning(
        "The recording has 'done', which does not tell termination from a time limit. Of %d such episodes, %d end with "
        "an observation after which other episodes go on: these count as truncated, the others as terminated. To be "
        "sure, record 'terminated' and 'truncated'.",
        len(unsaid),
        sum(map(is_cut, unsaid)),
    )
    known = (
        one if one.terminated is not None else replace(one, terminated=not is_cut(one)) for one in recording.episodes
    )
    return replace(recording, episodes=tuple(known))


def _written(observation: Any) -> str:
    """An observation as text, the same for those that are alike."""
    return json.dumps(observation, sort_keys=True, default=lambda value: np.asarray(value).tolist())


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
