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
    listed = ",".join(f"{key}={text}" for key, text in _parameters(thing).items())
    return f"{name}:{listed}" if listed else name


def _parameters(thing: Any) -> dict[str, str]:
    """What a thing was made with, as far as it differs from the defaults, in writing."""
    if is_dataclass(thing) and not isinstance(thing, type):
        own = type(thing).__qualname__
        texts = {f: _written(getattr(thing, f.name), f"{own}.{f.name}") for f in fields(thing)}
        return {f.name: text for f, text in texts.items() if text != _default(f)}
    if hasattr(thing, "__qualname__") or not getattr(thing, "__dict__", None):
        return {}
    raise InputError(
        f"{type(thing).__qualname__} cannot be saved, so its run could not be resumed; make it a frozen "
        "dataclass whose fields are its parameters"
    )


def _default(field: Any) -> str | None:
    """The default of a field in writing; None if it has none."""
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return None if default is MISSING else _written(default, field.name)


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
    while listed:
        key, equals, rest = listed.partition("=")
        if not equals or "," in key:
            raise InputError(f"parameters of {what} are key=value, got {key.partition(',')[0]!r}")
        if key not in names:
            raise unknown_name(f"parameter of {what}", key, names)
        parameters[key], listed = _first_value(rest)
    try:
        return maker(**parameters)
    except InputError:
        raise
    except TypeError as error:
        raise InputError(f"{what} cannot be made: {error}") from None


def _first_value(text: str) -> tuple[Any, str]:
    """The value that a text begins with, up to a comma, and what follows: JSON, or else a plain word."""
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        end = -1
    if end < 0 or text[end : end + 1] not in ("", ","):
        value, _, rest = text.partition(",")
        return value, rest
    return value, text[end + 1 :]


def _written(value: Any, name: str) -> str:
    """JSON; of a string the plain word, if it is read back as that."""
    try:
        text = json.dumps(value)
    except TypeError:
        raise InputError(
            f"{name} cannot be saved, so its run could not be resumed; parameters are numbers, strings, "
            "booleans and lists of them"
        ) from None
    return value if isinstance(value, str) and value and _first_value(value) == (value, "") else text
