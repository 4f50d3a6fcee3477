"""What a run's folder keeps of its environment and expert, so that it can be shown and used without them."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from aceirl.envs import Layout
from aceirl.envs.layout import MapPanel
from aceirl.errors import InputError
from aceirl.experts import RecordedExpert
from aceirl.experts.tasks.opening import drawing
from aceirl.experts.tasks.references import named_object
from aceirl.experts.tasks.source import Source, Task
from aceirl.experts.tasks.world import OfflineWorld
from aceirl.models.tabular.estimate import ExpertKind
from aceirl.models.tabular.mdp import FloatArray
from aceirl.protocols import TERMINAL, Capabilities, NumberedEnvironment, Seen

AWAY = (
    "the environment and the expert of this run were not saved with it; to go on, give them: "
    "ActiveIRL(...).fit(environment, expert, out=FOLDER)"
)
"""What is said of a run whose environment and expert were objects that a folder cannot name."""


@dataclass(frozen=True, eq=False)
class OfflineTask:
    """A task as a folder keeps it: to be looked at, not to be played.

    It is `complete` if it was written after the last turn, with the map. `features [S, K]` are those of the states, if
    the reward is about features of observations.
    """

    task: Task
    complete: bool
    features: FloatArray | None = None


class OfflineEnvironment:
    """The sizes of an environment that is not at hand."""

    def __init__(self, sizes: dict[str, Any], initial: FloatArray | None) -> None:
        self.horizon, self.n_states, self.n_actions = sizes["horizon"], sizes["n_states"], sizes["n_actions"]
        self.initial, self.terminal = initial, frozenset(sizes["terminal"])

    def reset(self, rng: np.random.Generator) -> Any:
        """There is nothing to begin."""
        raise InputError(AWAY)

    def step(self, action: int) -> Seen:
        """There is nothing to step in."""
        raise InputError(AWAY)


class OfflineStates(OfflineEnvironment):
    """The same of one whose states are numbered as they are met; it is its own encoder, of the names alone."""

    binned = False

    def __init__(self, sizes: dict[str, Any], initial: FloatArray | None) -> None:
        super().__init__(sizes, initial)
        self.possible_states: int | None = sizes["possible_states"]
        self.names: tuple[str, ...] = ()

    @property
    def states(self) -> OfflineStates:
        """The encoder."""
        return self

    def number(self, observation: Any, *, terminal: bool = False) -> int:
        """There are no observations."""
        raise InputError(AWAY)

    def find(self, observation: Any) -> int | None:
        """There are no observations."""
        raise InputError(AWAY)

    def observation(self, state: int) -> Any:
        """There is none."""
        raise InputError(AWAY)

    def recall(self, names: tuple[str, ...]) -> None:
        """Number the states as these names do."""
        self.names, self.n_states = names, len(names)
        self.terminal |= {number for number, name in enumerate(names) if name.startswith(TERMINAL)}


def write_task(
    task: Task,
    names: tuple[str, ...],
    *,
    kind: ExpertKind,
    features: FloatArray | None = None,
    complete: bool = False,
) -> bytes:
    """The task of a run as a file; `names` are the states met, where the environment numbers them.

    `kind` is what was assumed of the expert, `features [S, K]` are those of the states. The map is drawn,
    which takes its time, if it is `complete`.
    """
    world, access = task.world, Capabilities.of(task.environment)
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
        "gym": _written_gym(task.environment),
        "expert": {
            "deterministic": task.expert.deterministic,
            "stationary": task.expert.stationary,
            "ask_again": kind.ask_again,
            "declares": kind.declares,
        },
        "pay": {name: getattr(world, name) for name in ("rmax", "max_return", "stationary_dynamics")},
        "words": {"states": world.state_names(names), "actions": world.action_names},
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


def read_task(content: bytes, source: Source | None = None) -> OfflineTask:
    """The task that `write_task` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = dict(file)
    about = json.loads(str(arrays.pop("about")))
    environment = None if about["gym"] is None else _read_gym(about["gym"])
    if environment is None:
        sizes, initial = about["sizes"], arrays.get("initial")
        environment = (OfflineStates if about["growing"] else OfflineEnvironment)(sizes, initial)
    world = OfflineWorld(
        environment,
        layout=None if about["layout"] is None else _read_layout(about["layout"], arrays),
        states=tuple(about["words"]["states"]),
        actions=tuple(about["words"]["actions"]),
        **about["pay"],
    )
    task = Task(world, RecordedExpert(**about["expert"], away=AWAY), source=source)
    return OfflineTask(task, about["complete"], arrays.get("features"))


def _written_gym(environment: NumberedEnvironment) -> dict[str, Any] | None:
    """What tells observations and actions of a Gymnasium environment apart, as plain values."""
    if not hasattr(environment, "action_number"):
        return None
    from aceirl.envs.gymnasium import GymAdapter, GymEnvironment
    from aceirl.envs.written_space import write_space

    if not isinstance(environment, GymAdapter):
        return None
    return {
        "horizon": environment.horizon,
        "actions": write_space(environment.action_space),
        "observations": write_space(environment.states.space),
        "binned": environment.binned,
        "discretise": _written_discretiser(environment.states.discretise),
        "fields": environment.named_fields if isinstance(environment, GymEnvironment) else None,
    }


def _read_gym(written: dict[str, Any]) -> Any:
    """An environment that knows its observations again; None if they cannot be told apart without what is not here."""
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.envs.recorded import RecordedEnv

    discretise = _read_discretiser(written["discretise"]) if written["binned"] else None
    if None in (written["actions"], written["observations"]) or (written["binned"] and discretise is None):
        return None
    env = RecordedEnv(written["observations"], written["actions"], AWAY)
    return GymEnvironment(env, horizon=written["horizon"], discretise=discretise, fields=written.get("fields"))


def _written_discretiser(discretise: Any) -> Any:
    """`Bins` in full, a function by its name."""
    from aceirl.models.tabular.bins import Bins

    if isinstance(discretise, Bins):
        return asdict(discretise)
    module, name = getattr(discretise, "__module__", None), getattr(discretise, "__qualname__", "")
    return f"{module}:{name}" if module and name.isidentifier() else None


def _read_discretiser(written: Any) -> Any:
    """What was written; None if it cannot be found here."""
    from aceirl.models.tabular.bins import Bins

    if isinstance(written, dict):
        return Bins(**{name: tuple(values) for name, values in written.items()})
    try:
        found = named_object(written or "")
    except InputError:
        return None
    return found if callable(found) else None


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
