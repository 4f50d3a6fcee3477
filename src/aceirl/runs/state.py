"""The state of a run as named arrays, and back; nothing in it needs pickling.

A field of a value inside the state is called `value.field`, evidence `evidence.kind.field`.
"""

from __future__ import annotations

import io
from dataclasses import fields
from typing import Any

import numpy as np

from aceirl.data.preferences import Preference
from aceirl.learner.turns import RunState
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.mdp import IntArray
from aceirl.rewards import Explanation, Recovered


def packed(state: RunState) -> bytes:
    """A state as the content of a `.npz`."""
    recovered = _fields(state.recovered)
    parameters, told = recovered.pop("parameters"), recovered.pop("explanation")
    groups = {
        "counts": state.counts.arrays(),
        "recovered": recovered,
        "parameters": parameters,
        "explanation": {} if told is None else _fields(told),
        "memory": state.memory,
        **{f"evidence.{kind}": memory for kind, memory in state.evidence.items()},
    }
    arrays: dict[str, Any] = {name: getattr(state, name) for name in ("iteration", "accuracy", "inferred_at")}
    arrays |= {f"{group}.{name}": array for group, named in groups.items() for name, array in named.items()}
    if state.names:
        arrays["names"] = np.array([name.encode("ascii") for name in state.names])
    if state.preferences:
        arrays["preferences"] = np.array(
            [
                (number, one.equal, liked, *move)
                for number, one in enumerate(state.preferences)
                for liked, walk in enumerate((one.other, one.preferred))
                for move in walk
            ]
        )
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def unpacked(arrays: dict[str, Any]) -> RunState:
    """The state that `packed` wrote."""

    def group(name: str) -> dict[str, Any]:
        return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}

    def plain(name: str) -> dict[str, Any]:
        return {key: value if value.ndim else value.item() for key, value in group(name).items()}

    told, kinds = plain("explanation"), dict.fromkeys(name.partition(".")[0] for name in group("evidence"))
    return RunState(
        iteration=int(arrays["iteration"]),
        counts=Counts.of_arrays(**plain("counts")),
        recovered=Recovered(
            **plain("recovered"), parameters=group("parameters"), explanation=Explanation(**told) if told else None
        ),
        accuracy=float(arrays["accuracy"]),
        inferred_at=int(arrays["inferred_at"]),
        memory=group("memory"),
        evidence={kind: group(f"evidence.{kind}") for kind in kinds},
        names=tuple(name.decode("ascii") for name in arrays.get("names", [])),
        preferences=_preferences(arrays.get("preferences", np.zeros((0, 7), dtype=np.int64))),
    )


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _preferences(rows: IntArray) -> tuple[Preference, ...]:
    """From rows of `(number, equal, liked better, move)`."""
    found = []
    for number in np.unique(rows[:, 0]):
        own = rows[rows[:, 0] == number]
        other, preferred = (tuple(map(tuple, own[own[:, 2] == liked, 3:].tolist())) for liked in (0, 1))
        found.append(Preference(preferred, other, equal=bool(own[0, 1])))
    return tuple(found)
