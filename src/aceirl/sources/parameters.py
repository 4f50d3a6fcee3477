"""Parameters of an environment as a person types them."""

from __future__ import annotations

import json
from typing import Any

from aceirl.errors import InputError


def read_parameters(assignments: list[str], where: str = "--set") -> dict[str, Any]:
    """`name=value` pairs, with numbers read as numbers; `where` is the option or the field they were given in."""
    parameters: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals or not name:
            raise InputError(f"{where} takes name=value, got {assignment!r}")
        try:
            parameters[name] = json.loads(text)
        except (ValueError, RecursionError):
            parameters[name] = text
    return parameters
