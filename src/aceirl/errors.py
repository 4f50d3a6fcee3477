"""The one kind of error a user can cause, and the search for the nearest name."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class InputError(ValueError):
    """Something given from outside is wrong; the message names it, its value, and what would be right."""


class AnswerError(InputError):
    """The expert gave no usable answer; everything collected before the question is kept."""


def cause(error: Exception, path: str = "") -> str:
    """What went wrong in someone else's code, and where; if it is the code of the file `path`, where in that."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if path in ("", frame.filename)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def shown(value: Any) -> str:
    """A value as people write it: arrays and their numbers without NumPy's names for them."""
    if hasattr(value, "tolist"):
        return shown(value.tolist())
    match value:
        case dict():
            return ", ".join(f"{name} {shown(part)}" for name, part in value.items())
        case list():
            return f"[{', '.join(map(shown, value))}]"
        case tuple():
            return f"({', '.join(map(shown, value))}{',' if len(value) == 1 else ''})"
        case float():
            return f"{value:.6g}"
        case _:
            return repr(value)


SYNONYMS = {
    "maxent": "max-causal-entropy",
    "mceirl": "max-causal-entropy",
    "maxentropy": "max-causal-entropy",
    "randomstate": "seed",
    "rng": "seed",
    "trajectories": "demonstrations",
    "demos": "demonstrations",
    "env": "environment",
    "folder": "out",
    "totaltimesteps": "max_samples",
    "eps": "epsilon",
    "batchsize": "episodes_per_iteration",
}
"""What other libraries call things, without strokes."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    synonym = SYNONYMS.get("".join(letter for letter in name.lower() if letter.isalnum()))
    near = [synonym] if synonym in names else difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return InputError(f"unknown {kind} {name!r}; {hint}")
