"""Parameters of an environment as a person types them."""

from __future__ import annotations

import json
from typing import Any

from aceirl.errors import InputError

PYTHONS = {"True": True, "False": False, "None": None}


def read_parameters(assignments: list[str], where: str = "--set") -> dict[str, Any]:
    """`name=value` pairs, with numbers, true, false and null read as such, and True, False and None as Python has them.

    `where` is the option or the field they were given in.
    """
    parameters: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals or not name:
            raise InputError(f"{where} takes name=value, got {assignment!r}")
        try:
            parameters[name] = json.loads(text)
        except (ValueError, RecursionError):
            parameters[name] = PYTHONS.get(text, text)
    return parameters
