"""The fields of an environment's observations: as its description, its class or its space has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from aceirl.envs.described import features
from aceirl.models.fields.table import ALONE, Entry, Fields, Given, Kind


def fields_of(env: Any, given: Given | None = None) -> Fields:
    """How observations of a Gymnasium environment are taken apart.

    As `given`, else as the environment's class says in its attribute `fields`, with what is known of its kind (see
    `known_descriptions`), else by the parts of Dict, Tuple, MultiDiscrete and Box observations. Wishes are said in
    fields that were given, in the call or by the class.
    """
    said = getattr(env.unwrapped, "fields", None) if given is None else given

    def read(observation: Any) -> Mapping[str, Entry]:
        found: dict[str, Entry] = dict(features(env, observation))
        if not found and isinstance(env.observation_space, spaces.Discrete):
            found = {ALONE: int(observation)}
        return found

    if said is not None:
        return Fields.given(said, read)
    return Fields(read, _kinds(env.observation_space), speaks=False)


def _kinds(space: Any) -> dict[str, Kind]:
    """What a space of named parts says of them: one of two values has no order."""
    if not isinstance(space, spaces.Dict):
        return {}
    return {
        name: "categorical"
        for name, part in space.spaces.items()
        if isinstance(part, spaces.Discrete) and part.n == 2 and part.start == 0
    }
