"""Gymnasium's spaces in JSON, so that a folder can say what observations looked like without the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from aceirl.errors import InputError

Written = dict[str, Any]


def write_space(space: Space[Any]) -> Written | None:
    """A space as plain values; None if it is of a kind that is not known here."""
    match space:
        case spaces.Discrete():
            return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            start = np.broadcast_to(np.asarray(getattr(space, "start", 0)), space.nvec.shape)
            return {
                "kind": "MultiDiscrete",
                "nvec": space.nvec.tolist(),
                "start": start.tolist(),
                "dtype": str(space.dtype),
            }
        case spaces.MultiBinary():
            return {"kind": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.shape)}
        case spaces.Box():
            return {
                "kind": "Box",
                "low": _bound(space.low),
                "high": _bound(space.high),
                "shape": list(space.shape),
                "dtype": str(space.dtype),
            }
        case spaces.Text():
            return {"kind": "Text", "longest": space.max_length, "letters": space.characters}
        case spaces.Tuple():
            parts = [write_space(part) for part in space.spaces]
            return None if None in parts else {"kind": "Tuple", "parts": parts}
        case spaces.Dict():
            named = [[name, write_space(part)] for name, part in space.spaces.items()]
            return None if any(part is None for _, part in named) else {"kind": "Dict", "parts": named}
        case _:
            return None


def read_space(written: Mapping[str, Any]) -> Space[Any]:
    """The space that `write_space` wrote."""
    match written["kind"]:
        case "Discrete":
            return spaces.Discrete(written["n"], start=written["start"])
        case "MultiDiscrete":
            return spaces.MultiDiscrete(
                np.array(written["nvec"]), dtype=np.dtype(written["dtype"]).type, start=np.array(written["start"])
            )
        case "MultiBinary":
            return spaces.MultiBinary(written["n"])
        case "Box":
            dtype, shape = np.dtype(written["dtype"]), tuple(written["shape"])
            low, high = (np.broadcast_to(np.array(written[end], dtype), shape).copy() for end in ("low", "high"))
            return spaces.Box(low, high, dtype=dtype.type)
        case "Text":
            return spaces.Text(written["longest"], charset=written["letters"])
        case "Tuple":
            return spaces.Tuple([read_space(part) for part in written["parts"]])
        case "Dict":
            return spaces.Dict([(name, read_space(part)) for name, part in written["parts"]])
        case kind:
            raise InputError(f"there is no space of the kind {kind!r}")


def _bound(values: np.ndarray[Any, Any]) -> Any:
    """A bound as numbers: a single one, if it is the same everywhere."""
    flat = values.ravel()
    return flat[0].item() if flat.size and (flat == flat[0]).all() else values.tolist()
