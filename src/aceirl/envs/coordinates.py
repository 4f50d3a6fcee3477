"""What the numbers of continuous observations and actions are called, where that is documented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium import spaces

from aceirl.envs.described import action_names
from aceirl.envs.families import is_wrapped, library_of
from aceirl.errors import InputError

# By the name of the environment's class: what Gymnasium's documentation calls the coordinates, and the actions.
KNOWN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "CartPoleEnv": (
        ("cart position", "cart velocity", "pole angle", "pole angular velocity"),
        ("push left", "push right"),
    ),
    "MountainCarEnv": (("position", "velocity"), ("accelerate left", "do not accelerate", "accelerate right")),
    "Continuous_MountainCarEnv": (("position", "velocity"), ("force",)),
    "AcrobotEnv": (
        (
            "cosine of angle 1",
            "sine of angle 1",
            "cosine of angle 2",
            "sine of angle 2",
            "angular velocity 1",
            "angular velocity 2",
        ),
        ("torque -1", "no torque", "torque +1"),
    ),
    "PendulumEnv": (("cosine of angle", "sine of angle", "angular velocity"), ("torque",)),
    "LunarLander": (
        (
            "horizontal position",
            "height",
            "horizontal speed",
            "vertical speed",
            "angle",
            "angular speed",
            "left leg on the ground",
            "right leg on the ground",
        ),
        ("do nothing", "fire left engine", "fire main engine", "fire right engine"),
    ),
}


def coordinate_names(env: Any, given: Any = None) -> tuple[str, ...]:
    """A name for each number of an observation: as given, as the environment's `fields`, as documented, or numbered."""
    numbers = int(spaces.flatdim(env.observation_space))
    said = getattr(env.unwrapped, "fields", None) if given is None else given
    if said is not None:
        if isinstance(said, str) or not isinstance(said, Sequence | Mapping) or len(said) != numbers:
            raise InputError(f"fields must be {numbers} names, one for each number of an observation; got {said!r}")
        return tuple(map(str, said))
    known = _known(env)
    if known and len(known[0]) == numbers and not is_wrapped(env, "ObservationWrapper"):
        return known[0]
    parts = getattr(env.observation_space, "spaces", None)
    if isinstance(parts, Mapping):  # in the order in which Gymnasium flattens them
        sizes = {name: int(spaces.flatdim(part)) for name, part in parts.items()}
        return tuple(f"{name} {i}" if n > 1 else name for name, n in sizes.items() for i in range(n))
    return tuple(f"observation {i}" for i in range(numbers))


def choice_names(env: Any, values: Sequence[Sequence[float]]) -> tuple[str, ...]:
    """What to call the actions with these `values [K, p]`."""
    known = _known(env)
    names = known[1] if known and not is_wrapped(env, "ActionWrapper") else ()
    if isinstance(env.action_space, spaces.Discrete):
        numbered = [int(value[0]) for value in values]
        return names if len(names) == len(numbered) else tuple(action_names(env, numbered))
    called = f"{names[0]} " if len(names) == 1 else "action "
    return tuple(called + ", ".join(f"{number:.3g}" for number in value) for value in values)


def _known(env: Any) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    kinds = type(env.unwrapped).__mro__
    return next(
        (KNOWN[kind.__name__] for kind in kinds if kind.__name__ in KNOWN and library_of(kind) == "gymnasium"), None
    )
