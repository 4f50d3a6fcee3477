"""What is left of an environment when there is only a recording of it: its observations and its actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from aceirl.envs.written_space import read_space
from aceirl.errors import InputError

RECORDING = "a recording cannot be acted in; give the environment it was recorded in"


class RecordedEnv(gymnasium.Env[Any, Any]):
    """The spaces of an environment that is not here; `observations` and `actions` as `write_space` has them.

    An environment like this has names for its states and takes rewards and policies. Nothing can be done in it, and
    `away` says why.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, observations: Mapping[str, Any], actions: Mapping[str, Any], away: str = RECORDING) -> None:
        self.observation_space, self.action_space, self.away = read_space(observations), read_space(actions), away

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """There is none."""
        raise InputError(self.away)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """There is none."""
        raise InputError(self.away)


def space_of(values: Sequence[Any], what: str = "observation") -> gymnasium.Space[Any]:
    """The smallest space that has all of these values, of which there is at least one."""
    first = values[0]
    if isinstance(first, Mapping):
        return spaces.Dict({name: space_of([value[name] for value in values], what) for name in first})
    if isinstance(first, str):
        letters = sorted({letter for value in values for letter in value})
        return spaces.Text(max(1, *map(len, values)), charset="".join(letters) or " ")
    if isinstance(first, tuple):
        return spaces.Tuple([space_of(list(part), what) for part in zip(*values, strict=True)])
    try:
        array = np.array(values)
    except ValueError:
        array = np.zeros(0, dtype=np.object_)
    if array.dtype.kind not in "biuf" or not len(array):
        raise InputError(
            f"the {what}s are not all of one kind: the first is {first!r}; all must be numbers, arrays or text"
        )
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.ndim == 1 and array.dtype.kind in "iu":
        low = int(min(0, array.min()))
        return spaces.Discrete(int(array.max()) - low + 1, start=low)
    kept = np.float64 if array.dtype.kind == "f" else np.int64
    return spaces.Box(array.min(axis=0).astype(kept), array.max(axis=0).astype(kept), dtype=kept)


def action_space_of(values: Sequence[Any]) -> gymnasium.Space[Any]:
    """The actions from zero to the largest that was taken."""
    space = space_of(values, "action")
    if isinstance(space, spaces.Discrete):
        if space.start < 0:
            raise InputError(f"actions are counted from 0, but {int(space.start)} was recorded")
        return space
    if isinstance(space, spaces.Box) and space.dtype == np.int64 and len(space.shape) == 1 and (space.low >= 0).all():
        return spaces.MultiDiscrete(space.high + 1)
    raise InputError(f"actions must be whole numbers, or lists of such; the first is {values[0]!r}")
