"""A Gymnasium environment of which only the spaces were kept: it knows its observations again and plays nothing."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any

import numpy as np

from aceirl.envs.discretise import Bins
from aceirl.envs.gymnasium import GymAdapter
from aceirl.envs.observations import Discretise
from aceirl.envs.written_space import read_space, write_space
from aceirl.errors import InputError

AWAY = (
    "the environment of this run is not at hand; to go on, give it with the expert: "
    "ActiveIRL(...).fit(environment, expert, out=FOLDER)"
)


class KeptGym(GymAdapter):
    """The observations and actions of an environment that is not at hand."""

    @classmethod
    def read(cls, written: dict[str, Any]) -> KeptGym | None:
        """From what `write_gym` wrote; None if observations cannot be told apart without what is not here."""
        if written["actions"] is None or written["observations"] is None:
            return None
        discretise = _read_discretiser(written["discretise"]) if written["binned"] else None
        if written["binned"] and discretise is None:
            return None
        return cls(written["horizon"], read_space(written["actions"]), read_space(written["observations"]), discretise)

    def reset(self, rng: np.random.Generator) -> int:
        """There is nothing to begin."""
        raise InputError(AWAY)

    def step(self, action: int) -> int:
        """There is nothing to step in."""
        raise InputError(AWAY)

    def seen(self, episode: int = 0) -> Any:
        """Nothing is seen."""
        raise InputError(AWAY)


def write_gym(environment: GymAdapter) -> dict[str, Any]:
    """What tells observations and actions of an environment apart, as plain values."""
    return {
        "horizon": environment.horizon,
        "actions": write_space(environment.action_space),
        "observations": write_space(environment.states.space),
        "binned": environment.binned,
        "discretise": _written_discretiser(environment.states.discretise),
    }


def _written_discretiser(discretise: Discretise | None) -> Any:
    """`Bins` in full, a function by its name."""
    if isinstance(discretise, Bins):
        return asdict(discretise)
    module, name = getattr(discretise, "__module__", None), getattr(discretise, "__qualname__", "")
    return f"{module}:{name}" if module and name.isidentifier() else None


def _read_discretiser(written: Any) -> Discretise | None:
    """What was written; None if it cannot be found here."""
    if isinstance(written, dict):
        return Bins(**{name: tuple(values) for name, values in written.items()})
    module, _, name = (written or "").partition(":")
    try:
        found = getattr(import_module(module), name, None) if module else None
    except ImportError:
        return None
    return found if callable(found) else None
