"""What people call things in an environment, and where its states lie: what its author, or we, say about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.errors import InputError, shown
from aceirl.models.fields.table import Record, entries

# Where actions of these names point: x right, y up.
COMPASS = {
    "left": (-1.0, 0.0),
    "right": (1.0, 0.0),
    "up": (0.0, 1.0),
    "down": (0.0, -1.0),
    "west": (-1.0, 0.0),
    "east": (1.0, 0.0),
    "north": (0.0, 1.0),
    "south": (0.0, -1.0),
    "forward": (0.0, 1.0),
}


@dataclass(frozen=True)
class MapCell:
    """Where a state is drawn: `x` columns to the right and `y` rows up, on the map panel of that title.

    `ahead` is where the actions that go up or forward lead, for those who turn. Panels of one title with different
    scenes are different panels: a `scene` is whatever else the rendering shows.
    """

    x: float
    y: float
    panel: str = ""
    ahead: tuple[float, float] = (0.0, 1.0)
    scene: Hashable = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.x) and math.isfinite(self.y)):
            raise InputError(f"a map cell needs finite x and y, got {self.x} and {self.y}")
        if not math.isclose(math.hypot(*self.ahead), 1.0):
            raise InputError(f"ahead must be a direction of length 1, got {self.ahead}")


@dataclass(frozen=True)
class Frame:
    """Where the cells are on a rendering, in pixels: the middle of the first one, and the way to the next ones."""

    first: tuple[float, float]
    pitch: tuple[float, float]

    @classmethod
    def from_corner(cls, width: float, height: float) -> Frame:
        """Cells of that size, the first in the upper left corner."""
        return cls((width / 2, height / 2), (width, height))

    def pixel(self, cell: MapCell) -> tuple[float, float]:
        """The middle of a cell: pixels to the right and pixels down."""
        return self.first[0] + cell.x * self.pitch[0], self.first[1] - cell.y * self.pitch[1]


Features = Record
"""What an observation consists of, by name: numbers have an order, and text has none."""


OBSERVED = "the observation "
"""How the name of a state begins that has none of its own."""


def _as_it_is(env: Any, observation: Any) -> str:
    names, is_vector = getattr(env, "fields", None), isinstance(observation, np.ndarray) and observation.ndim == 1
    parts = list(observation) if is_vector or isinstance(observation, tuple) else [observation]
    if isinstance(names, tuple | list) and len(names) == len(parts) and not isinstance(observation, dict):
        return f"{OBSERVED}{shown(dict(zip(names, parts, strict=True)))}"
    if isinstance(observation, np.ndarray) and observation.ndim == 1:
        return f"{OBSERVED}[{', '.join(f'{value:.3g}' for value in observation.tolist())}]"
    if isinstance(observation, dict | tuple | np.generic):
        return f"{OBSERVED}{shown(observation)}"
    return f"{OBSERVED}{' '.join(str(observation).split())}"


@dataclass(frozen=True)
class EnvironmentDescription:
    """What people call things in one kind of environment, and where its states lie.

    An environment of your own takes part if its class has one as its attribute `description`. All functions are given
    the unwrapped environment: `words` and `map_cell` an observation too, `end_words` one with which an episode ended
    (None: as any other), `features` says what an observation consists of, `pose` puts the environment where that
    observation is made, so that it can be rendered there, and `frame` is given the shape of the rendering. `rules` are
    sentences that people are told before they are asked: what is left to chance, and what ends an episode. Where a
    wrapper changes the observations nothing is known of them, unless the functions understand wrapped ones too.
    """

    actions: tuple[str, ...] = ()
    brief: str = "Decide what you want to happen here, and stay with it."
    words: Callable[[Any, Any], str] = _as_it_is
    map_cell: Callable[[Any, Any], MapCell | None] = lambda env, observation: None
    pose: Callable[[Any, Any], None] = lambda env, observation: None
    frame: Callable[[Any, tuple[int, ...]], Frame | None] = lambda env, shape: None
    understands_wrappers: bool = False
    end_words: Callable[[Any, Any], str | None] = lambda env, observation: None
    features: Callable[[Any, Any], Features] = lambda env, observation: entries(observation)
    rules: Callable[[Any], tuple[str, ...]] = lambda env: ()
