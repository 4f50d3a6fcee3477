"""What a task is made of, in words that tell another one from it."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from aceirl.experts.tasks.experts import is_log
from aceirl.experts.tasks.references import is_reference
from aceirl.experts.tasks.source import Source, Task
from aceirl.experts.tasks.world import is_vector
from aceirl.protocols import Capabilities

CODE = "the expert's code"
"""The part that is a digest of the code or the table of an expert, where words cannot tell it from others."""


def fingerprint(task: Task) -> dict[str, str]:
    """Environment, observations, sizes and expert of a task, as far as words can tell them from others."""
    environment, access = task.environment, Capabilities.of(task.environment)
    sizes = f"{environment.horizon} steps, {environment.n_actions} actions"
    parts = {
        "kind of environment": f"{type(environment).__module__}.{type(environment).__qualname__}",
        "shape": sizes if access.growing is not None else f"{sizes}, {environment.n_states} states",
        **expert_parts(task.expert),
    }
    if (states := getattr(environment, "states", None)) is not None and hasattr(states, "space"):
        cut = states.discretise
        parts["observations"] = str(states.space) + (
            "" if cut is None else f", cut by {getattr(cut, 'text', _name(cut))}"
        )
    env = getattr(task.world, "env", None)
    if (spec := getattr(env, "spec", None)) is not None:
        parts["environment"] = _call(spec.id, spec.kwargs)
    elif env is not None and not is_vector(env):
        parts["environment"] = type(env.unwrapped).__qualname__
    return parts


def source_fingerprint(source: Source | None) -> dict[str, str]:
    """The same of what a source names, without opening it."""
    if source is None:
        return {}
    parts = {}
    if source.ours:
        parts["environment"] = _call(source.environment, source.parameters)
    elif source.environment and not is_reference(source.environment):
        import gymnasium

        registered = gymnasium.registry.get(source.environment)
        if registered is not None:
            parts["environment"] = _call(source.environment, {**registered.kwargs, **source.parameters})
    expert = source.expert
    if expert is not None and not Path(expert).is_dir():  # an interview can be moved
        parts["named expert"] = Path(expert).name if is_log(expert) else expert
    return parts


def _call(name: str, parameters: dict[str, Any]) -> str:
    """A name with its parameters, as one writes a call."""
    written = {key: json.dumps(value, default=_name) for key, value in parameters.items() if key != "render_mode"}
    return f"{name}({', '.join(f'{key}={written[key]}' for key in sorted(written))})" if written else name


def _name(thing: Any) -> str:
    """The name of a function, or of the class of anything else; a script and a module may both hold it."""
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))


def expert_parts(expert: Any) -> dict[str, str]:
    """Who is asked: the function, model or table inside one of our experts, or an object of one's own."""
    asked = inspect.unwrap(getattr(expert, "function", getattr(expert, "model", expert)))
    parts = {"expert": _name(asked)}
    code = getattr(asked, "__code__", None)
    table = getattr(asked, "policy", getattr(asked, "table", None))
    if isinstance(code, CodeType) and not str(asked.__module__).startswith("aceirl."):
        parts[CODE] = _digest(_instructions(code))
    elif isinstance(table, np.ndarray):
        parts[CODE] = _digest(np.round(table, 3).astype(np.float64).tobytes())
    return parts


def _digest(content: bytes) -> str:
    """Short, and of this version of Python: others compile differently."""
    return f"python {sys.version_info.major}.{sys.version_info.minor}, {hashlib.sha256(content).hexdigest()[:16]}"


def _instructions(code: CodeType) -> bytes:
    """What a function does, wherever it stands in its file."""
    constants = [_instructions(c) if isinstance(c, CodeType) else repr(c).encode() for c in code.co_consts]
    return b"\0".join([code.co_code, repr(code.co_names).encode(), *constants])
