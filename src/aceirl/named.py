"""Things with a name and parameters, such as strategies: `NAME:key=value,key=value` in text, and back.

What can be written down can be kept with a run and compared when it is resumed. A thing of one's own is written by the
dotted name of its class or function; its parameters are the fields of a dataclass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any

from aceirl.errors import InputError, unknown_name


@dataclass(frozen=True)
class Unavailable:
    """A thing that was named in a run, by a text, and cannot be found here; the run can be shown, not resumed."""

    text: str
    reason: str

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("_"):
            raise AttributeError(verb)
        raise InputError(f"{self.text} was used in this run and cannot be found here: {self.reason}")

    def __call__(self, *arguments: Any) -> Any:
        """As any other use."""
        raise InputError(f"{self.text} was used in this run and cannot be found here: {self.reason}")


def read(text: str, kind: str, known: Mapping[str, Callable[..., Any]]) -> Any:
    """The thing that a text names, made with the parameters it gives."""
    name, _, listed = text.partition(":")
    if name not in known:
        return _read_own(text, name, listed, kind, known)
    maker = known[name]
    if not isinstance(maker, type):  # a function is a thing without parameters
        if listed:
            raise InputError(f"{kind} {name!r} has no parameters, got {listed!r}")
        return maker
    return _made(maker, f"{kind} {name!r}", listed)


def write(thing: Any, known: Mapping[str, Callable[..., Any]]) -> str:
    """The text that names a thing: what `read` understands, with the parameters that differ from their defaults."""
    if isinstance(thing, Unavailable):
        return thing.text
    name = next((name for name, maker in known.items() if maker in (thing, type(thing))), None)
    if name is None:
        own = thing if hasattr(thing, "__qualname__") else type(thing)
        name = f"{own.__module__}.{own.__qualname__}"
    listed = ",".join(f"{key}={_written(value)}" for key, value in _parameters(thing).items())
    return f"{name}:{listed}" if listed else name


def _parameters(thing: Any) -> dict[str, Any]:
    """What a thing was made with, as far as it differs from the defaults."""
    if is_dataclass(thing) and not isinstance(thing, type):
        return {f.name: value for f in fields(thing) if (value := getattr(thing, f.name)) != _default(f)}
    if hasattr(thing, "__qualname__") or not getattr(thing, "__dict__", None):
        return {}
    raise InputError(
        f"{type(thing).__qualname__} cannot be written down, so its run could not be resumed; make it a frozen "
        "dataclass whose fields are its parameters"
    )


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _read_own(text: str, name: str, listed: str, kind: str, known: Mapping[str, Callable[..., Any]]) -> Any:
    """A thing of one's own: `package.module.Class` or `package.module.function`."""
    module, dot, attribute = name.rpartition(".")
    if not dot:
        raise unknown_name(kind, name, known)
    try:
        own = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        return Unavailable(text, str(error))
    return _made(own, f"{kind} {name!r}", listed) if isinstance(own, type) else own


def _made(maker: type, what: str, listed: str) -> Any:
    parameters = {}
    names = [f.name for f in fields(maker)] if is_dataclass(maker) else []
    for part in filter(None, listed.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"parameters of {what} are key=value, got {part!r}")
        if key not in names:
            raise unknown_name(f"parameter of {what}", key, names)
        parameters[key] = _value(value)
    try:
        return maker(**parameters)
    except InputError:
        raise
    except TypeError as error:
        raise InputError(f"{what} cannot be made: {error}") from None


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
