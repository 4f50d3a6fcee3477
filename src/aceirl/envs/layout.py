"""How an environment is drawn: where its states lie on paper, and where its actions point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aceirl.errors import InputError
from aceirl.models.fields.table import Record
from aceirl.models.tabular.mdp import FloatArray, IntArray, frozen


@dataclass(frozen=True, eq=False)
class MapPanel:
    """A part of a drawing: `extent` is its left, right, bottom and top; `pixels [h, w, 3]` are a picture under it."""

    title: str
    extent: tuple[float, float, float, float]
    pixels: NDArray[np.uint8] | None = None


@dataclass(frozen=True, eq=False)
class Layout:
    """How to draw an environment: where its states lie on paper, and where its actions point.

    Shapes: `positions [S, 2]` (x right, y up, neighbours one apart; nan for a state that is not drawn) and
    `action_directions [A, 2]`, or `[S, A, 2]` if they depend on the state (arrows of length one; zeros for an action
    that points nowhere). The kind is "chain", "grid", "arms" or "ring".
    """

    kind: str
    positions: FloatArray
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    action_directions: FloatArray
    panels: tuple[MapPanel, ...] = ()

    def __post_init__(self) -> None:
        positions = np.array(self.positions, dtype=np.float64)
        directions = np.array(self.action_directions, dtype=np.float64)
        if positions.shape != (self.n_states, 2):
            raise InputError(f"positions must have shape [{self.n_states}, 2], got {list(positions.shape)}")
        if directions.shape not in ((self.n_actions, 2), (self.n_states, self.n_actions, 2)):
            raise InputError(f"action_directions must have shape [{self.n_actions}, 2], got {list(directions.shape)}")
        wrong = np.isinf(positions).any(axis=1) | (np.isnan(positions).sum(axis=1) == 1)
        if wrong.any():
            raise InputError(f"positions[{int(np.argmax(wrong))}] is not finite")
        length = np.linalg.norm(directions, axis=-1)
        crooked = ~((length == 0) | (np.abs(length - 1) <= 1e-6))
        if crooked.any():
            index = tuple(np.argwhere(crooked)[0])
            entry = [int(i) for i in index]
            raise InputError(f"action_directions{entry} is {directions[index].tolist()}, not of length 1 or 0")
        object.__setattr__(self, "positions", frozen(positions, np.float64))
        object.__setattr__(self, "action_directions", frozen(directions, np.float64))

    def directions(self, state: int) -> FloatArray:
        """`[A, 2]`: where the actions point in a state."""
        return self.action_directions if self.action_directions.ndim == 2 else self.action_directions[state]

    def features(self, state: int) -> Record:
        """What a state consists of, by name: corridor and cell, or what the coordinates say."""
        if self.kind == "arms":
            corridors = {"l": "left", "u": "upper", "r": "right", "d": "lower"}
            name = self.state_names[state]
            if name == "c":
                return {"corridor": "the middle", "cell": 0}
            return {"corridor": corridors[name[0]], "cell": int(name[1:])}
        x, y = (1 + round(value) for value in self.positions[state].tolist())
        if self.kind == "grid":
            return {"column": x, "row": y}
        alone = (self.positions[:, 1] == self.positions[0, 1]).all()
        return {"place": x} if self.kind == "chain" and alone else {}

    @property
    def drawn(self) -> IntArray:
        """The states that have a position."""
        return np.flatnonzero(np.isfinite(self.positions).all(axis=1))

    @property
    def n_states(self) -> int:
        """How many states there are, drawn or not."""
        return len(self.state_names)

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.action_names)
