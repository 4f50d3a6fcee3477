"""What a run's folder keeps of its environment and expert, so that it can be shown and used without them."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.envs import Layout
from aceirl.envs.layout import MapPanel
from aceirl.errors import InputError
from aceirl.mdp import FloatArray
from aceirl.protocols import Access, Question
from aceirl.sources.source import Source, Task, Words
from aceirl.sources.views import action_names, drawing, state_names

AWAY = (
    "the environment and the expert of this run are not at hand; to go on, give them: "
    "ActiveIRL(...).fit(environment, expert, out=FOLDER)"
)
"""What is said of a run whose environment and expert were objects that a folder cannot name."""

# How the name of a state begins in which episodes are over.
TERMINAL = "terminal "


@dataclass(frozen=True, eq=False)
class Kept:
    """A task as a folder keeps it: to be looked at, not to be played.

    It is `complete` if it was written after the last turn, with the map. `features [S, K]` are those of the states, if
    the reward is about features of observations.
    """

    task: Task
    complete: bool
    features: FloatArray | None = None


class KeptEnvironment:
    """The sizes of an environment that is not at hand."""

    def __init__(self, sizes: dict[str, Any], initial: FloatArray | None) -> None:
        self.horizon, self.n_states, self.n_actions = sizes["horizon"], sizes["n_states"], sizes["n_actions"]
        self.initial, self.terminal = initial, frozenset(sizes["terminal"])

    def reset(self, rng: np.random.Generator) -> int:
        """There is nothing to begin."""
        raise InputError(AWAY)

    def step(self, action: int) -> int:
        """There is nothing to step in."""
        raise InputError(AWAY)


class KeptStates(KeptEnvironment):
    """The same of one that numbers its states as it meets them."""

    def __init__(self, sizes: dict[str, Any], initial: FloatArray | None) -> None:
        super().__init__(sizes, initial)
        self.possible_states: int | None = sizes["possible_states"]
        self.names: tuple[str, ...] = ()

    def recall(self, names: tuple[str, ...]) -> None:
        """Number the states as these names do."""
        self.names, self.n_states = names, len(names)
        self.terminal |= {number for number, name in enumerate(names) if name.startswith(TERMINAL)}


@dataclass(frozen=True)
class KeptExpert:
    """What is true of an expert who is not at hand."""

    deterministic: bool
    stationary: bool
    ask_again: float

    def answer(self, question: Question) -> int | None:
        """There is nobody to answer."""
        raise InputError(AWAY)


def write_task(
    task: Task, names: tuple[str, ...], *, ask_again: float, features: FloatArray | None = None, complete: bool = False
) -> bytes:
    """The task of a run as a file; `names` are the states met, where the environment numbers them.

    `ask_again` is how often the expert was asked again, `features [S, K]` are those of the states. The map is drawn,
    which takes its time, if it is `complete`.
    """
    access = Access.to(task.environment)
    drawn = drawing(task, names) if complete else None
    about = {
        "complete": complete,
        "sizes": {
            "horizon": access.shape[0],
            "n_states": max(access.shape[1], len(names)),
            "n_actions": access.shape[2],
            "terminal": sorted(access.terminal),
            "possible_states": None if access.growing is None else access.growing.possible_states,
        },
        "growing": access.growing is not None,
        "gym": _gym(task),
        "expert": {
            "deterministic": task.expert.deterministic,
            "stationary": task.expert.stationary,
            "ask_again": ask_again,
        },
        "pay": {"rmax": task.rmax, "max_return": task.max_return, "stationary_dynamics": task.stationary_dynamics},
        "words": {"states": state_names(task, names), "actions": action_names(task)},
        "layout": None if drawn is None else _written_layout(drawn),
    }
    arrays = {} if drawn is None else _layout_arrays(drawn)
    if task.environment.initial is not None:
        arrays["initial"] = task.environment.initial
    if features is not None:
        arrays["features"] = features
    packed = io.BytesIO()
    np.savez_compressed(packed, about=np.array(json.dumps(about)), **arrays)
    return packed.getvalue()


def read_task(content: bytes, source: Source | None = None) -> Kept:
    """The task that `write_task` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = dict(file)
    about = json.loads(str(arrays.pop("about")))
    words = Words(tuple(about["words"]["states"]), tuple(about["words"]["actions"]))
    layout = None if about["layout"] is None else _read_layout(about["layout"], arrays)
    environment = _environment(about, arrays.get("initial"))
    task = Task(environment, KeptExpert(**about["expert"]), layout=layout, words=words, source=source, **about["pay"])
    return Kept(task, about["complete"], arrays.get("features"))


def _gym(task: Task) -> dict[str, Any] | None:
    if not hasattr(task.environment, "action_number"):
        return None
    from aceirl.envs.gymnasium import GymAdapter
    from aceirl.envs.kept import write_gym

    return write_gym(task.environment) if isinstance(task.environment, GymAdapter) else None


def _environment(about: dict[str, Any], initial: FloatArray | None) -> Any:
    if about["gym"] is not None:
        from aceirl.envs.kept import KeptGym

        if (found := KeptGym.read(about["gym"])) is not None:
            return found
    return (KeptStates if about["growing"] else KeptEnvironment)(about["sizes"], initial)


def _written_layout(layout: Layout) -> dict[str, Any]:
    return {
        "kind": layout.kind,
        "state_names": layout.state_names,
        "action_names": layout.action_names,
        "panels": [[panel.title, panel.extent] for panel in layout.panels],
    }


def _layout_arrays(layout: Layout) -> dict[str, Any]:
    pixels = {f"panel.{k}": panel.pixels for k, panel in enumerate(layout.panels) if panel.pixels is not None}
    return {"positions": layout.positions, "directions": layout.action_directions, **pixels}


def _read_layout(written: dict[str, Any], arrays: dict[str, Any]) -> Layout:
    return Layout(
        kind=written["kind"],
        positions=arrays["positions"],
        state_names=tuple(written["state_names"]),
        action_names=tuple(written["action_names"]),
        action_directions=arrays["directions"],
        panels=tuple(
            MapPanel(title, tuple(extent), arrays.get(f"panel.{k}"))
            for k, (title, extent) in enumerate(written["panels"])
        ),
    )
