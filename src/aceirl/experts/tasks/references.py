"""Things of a user's own, named as `package.module:name`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from aceirl.errors import InputError


def is_reference(text: str) -> bool:
    """Whether a text has the form `package.module:name`."""
    module, colon, name = text.partition(":")
    return bool(colon) and name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def named_object(reference: str) -> Any:
    """What `package.module:name` names; modules of the current folder are found too."""
    if not is_reference(reference):
        raise InputError(f"{reference!r} is not of the form package.module:name")
    module, _, name = reference.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise InputError(f"{reference} cannot be imported: {error}") from None
    except AttributeError:
        raise InputError(f"module {module} has no {name!r}") from None


def reference_to(thing: Any) -> str | None:
    """The name by which `named_object` finds a function or class again; None if it has none, as those of a script."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if module in (None, "__main__") or not name.isidentifier():
        return None
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is thing else None
