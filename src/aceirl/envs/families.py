"""Where an environment comes from, and what is wrapped around it."""

from __future__ import annotations

from typing import Any


def library_of(kind: type) -> str:
    """The library that a class is from."""
    return kind.__module__.partition(".")[0]


def is_a(env: Any, name: str, library: str) -> bool:
    """Whether an environment is of that library's class, whatever its own class is called."""
    kinds = type(env.unwrapped).__mro__
    return any(kind.__name__ == name and library_of(kind) == library for kind in kinds)


def is_wrapped(env: Any, *names: str) -> bool:
    """Whether there is a wrapper of one of these classes around an environment."""
    while env is not env.unwrapped:
        if any(kind.__name__ in names for kind in type(env).__mro__):
            return True
        env = env.env
    return False
