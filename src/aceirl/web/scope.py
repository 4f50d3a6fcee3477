"""The same everywhere like this: an answer that a person declares to hold for many situations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from aceirl.envs.description import Features
from aceirl.errors import InputError

Relation = Literal["same", "at most", "at least"]


@dataclass(frozen=True)
class Scope:
    """The situations whose features relate to given values so; a feature that is not named may be anything."""

    conditions: tuple[tuple[str, Relation, int | float | str], ...]

    @classmethod
    def like(cls, features: Features, relations: Mapping[str, str]) -> Scope:
        """The situations that are like one with these features, by the relations that a person named."""
        conditions: list[tuple[str, Relation, int | float | str]] = []
        for name, relation in relations.items():
            if name not in features:
                raise InputError(f"{name!r} is not one of {', '.join(features) or 'no features at all'}")
            value = features[name]
            allowed: tuple[Relation, ...] = get_args(Relation) if not isinstance(value, str) else ("same",)
            found = next((one for one in allowed if one == relation), None)
            if found is None:
                raise InputError(f"{name} can be {', '.join(allowed)}, not {relation!r}")
            conditions.append((name, found, value))
        return cls(tuple(sorted(conditions)))

    @classmethod
    def read(cls, written: object) -> Scope:
        """From its form in JSON; a `ValueError` if it is none."""
        if not isinstance(written, list):
            raise ValueError(written)
        for one in written:
            named = isinstance(one, list) and len(one) == 3 and isinstance(one[0], str)
            if not named or one[1] not in get_args(Relation) or not isinstance(one[2], int | float | str):
                raise ValueError(written)
        return cls(tuple((name, relation, value) for name, relation, value in written))

    def covers(self, features: Features) -> bool:
        """Whether a situation with these features is one of them."""
        return all(name in features and _holds(features[name], how, value) for name, how, value in self.conditions)

    @property
    def words(self) -> str:
        """The situations in words."""
        if not self.conditions:
            return "everywhere"
        how = {"same": "", "at most": " or less", "at least": " or more"}
        return ", ".join(f"{name} {value}{how[relation]}" for name, relation, value in self.conditions)


def _holds(found: int | float | str, relation: Relation, value: int | float | str) -> bool:
    if relation == "same":
        return found == value
    if isinstance(found, str) or isinstance(value, str):
        return False
    return found <= value if relation == "at most" else found >= value
