"""Maps of Gymnasium environments: where the states met so far lie, over the environment's own rendering."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aceirl.envs.described import action_names, ask_description, map_cells, state_words
from aceirl.envs.description import COMPASS, Frame, MapCell
from aceirl.envs.layout import Layout, MapPanel
from aceirl.models.tabular.mdp import FloatArray

if TYPE_CHECKING:
    from aceirl.models.tabular.encoder import StateIndex

Pixels = NDArray[np.uint8]
Shape = tuple[int, ...]
"""Of a rendering: its height and width come first."""

# More panels than this are not drawn beside each other; those with the fewest states are left out.
MOST_PANELS = 24

# Between two panels, in cells: room for a title.
GAP = 0.9


def layout(env: Any, states: StateIndex, actions: Sequence[Any]) -> Layout:
    """Where the states met so far lie, over the environment's own rendering; nowhere, if they have no map cells.

    States that differ in more than their cell lie on several panels, one beside the other. The environment is reset.
    """
    cells = map_cells(env, states)
    members: dict[tuple[str, Hashable], list[int]] = {}
    for number, cell in cells.items():
        members.setdefault((cell.panel, cell.scene), []).append(number)
    scenes = list(dict.fromkeys(scene for _, scene in members))
    largest = sorted(members, key=lambda key: -len(members[key]))[:MOST_PANELS]
    shown = sorted(largest, key=lambda key: (key[0], scenes.index(key[1])))
    pictures, frame, shape = _background(env, [states.observation(members[key][0]) for key in shown], cells.values())

    names = action_names(env, actions)
    arrows = np.array([COMPASS.get(name, (0.0, 0.0)) for name in names])
    positions = np.full((len(states), 2), np.nan)
    directions = np.tile(arrows, (len(states), 1, 1))
    unit, panels = min(frame.pitch), []
    width, height = shape[1] / unit, shape[0] / unit
    columns = _columns(len(shown), (width + GAP) / (height + GAP))
    for number, ((title, scene), pixels) in enumerate(zip(shown, pictures, strict=True)):
        left, top = (number % columns) * (width + GAP), -(number // columns) * (height + GAP)
        full = f"{title}, scene {scenes.index(scene) + 1}" if len(scenes) > 1 else title
        panels.append(MapPanel(full, (left, left + width, top - height, top), pixels))
        for state in members[title, scene]:
            x, y = frame.pixel(cells[state])
            positions[state] = left + x / unit, top - y / unit
            directions[state] = turned(arrows, cells[state].ahead)
    outside = [cell for cell in cells.values() if not _inside(frame.pixel(cell), shape)]
    if outside:
        warnings.warn(f"{outside[0]} lies outside the rendering; x goes right, and y goes up from 0", stacklevel=2)
    return Layout("grid", positions, state_words(env, states), tuple(names), directions, tuple(panels))


def rendered(env: Any) -> Pixels | None:
    """The environment's own picture of itself, `[h, w, 3]`; None if it has none."""
    try:
        pixels = env.render()
    except Exception:
        return None
    return pixels if isinstance(pixels, np.ndarray) and pixels.ndim == 3 and pixels.dtype == np.uint8 else None


def turned(arrows: FloatArray, ahead: tuple[float, float]) -> FloatArray:
    """Arrows `[A, 2]` turned so that those which point up point ahead."""
    x, y = ahead
    return np.asarray(arrows @ np.array([[y, -x], [x, y]]))


def _background(
    env: Any, observations: list[Any], cells: Iterable[MapCell]
) -> tuple[list[Pixels | None], Frame, Shape]:
    """Renderings where these observations are made, where cells are on them, and their shape.

    Without renderings of one shape and a frame for them: no pictures, and cells of size one.
    """
    pictures = _pictures(env, observations)
    shapes = {None if picture is None else picture.shape for picture in pictures}
    shape = shapes.pop() if len(shapes) == 1 else None
    frame = None if shape is None else ask_description(env, "frame", shape)
    if shape is not None and frame is not None:
        return pictures, frame, shape
    return [None] * len(pictures), *_bare(cells)


def _pictures(env: Any, observations: list[Any]) -> list[Pixels | None]:
    """The environment as it renders itself where these observations are made."""
    if not observations:
        return []
    env.reset(seed=0)
    pictures = []
    for observation in observations:
        ask_description(env, "pose", observation)
        pictures.append(rendered(env))
    return pictures


def _bare(cells: Iterable[MapCell]) -> tuple[Frame, Shape]:
    """Cells of size one, where nothing is rendered, and the rows and columns they take."""
    spots = [(cell.x, cell.y) for cell in cells] or [(0.0, 0.0)]
    (left, bottom), (right, top) = np.min(spots, axis=0).tolist(), np.max(spots, axis=0).tolist()
    return Frame((0.5 - left, 0.5 + top), (1.0, 1.0)), (round(top - bottom) + 1, round(right - left) + 1)


def _inside(pixel: tuple[float, float], shape: Shape) -> bool:
    return 0 <= pixel[0] <= shape[1] and 0 <= pixel[1] <= shape[0]


def _columns(n: int, aspect: float) -> int:
    """How many panels of that aspect go side by side, so that `n` of them fill a page a bit wider than high."""
    return max(1, min(n, round(math.sqrt(1.4 * n / aspect))))
