"""Gymnasium environments as people see them: words for actions and states, and where states lie on the rendering."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aceirl.envs.problem import Layout, Sheet
from aceirl.mdp import FloatArray

if TYPE_CHECKING:
    from aceirl.envs.observations import States

# More maps than this are not drawn beside each other; those with the fewest states are left out.
MOST_SHEETS = 24

# Between two maps, in cells: room for a title.
GAP = 0.9


@dataclass(frozen=True)
class Place:
    """Where a state is drawn: `x` columns to the right and `y` rows up, on the sheet of that title.

    `ahead` is where the actions that go up or forward lead, for those who turn.
    """

    x: float
    y: float
    sheet: str = ""
    ahead: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Frame:
    """Where the cells are on a rendering, in pixels: the middle of the first one, and the way to the next ones."""

    first: tuple[float, float]
    pitch: tuple[float, float]


@dataclass(frozen=True)
class Scenery:
    """What people call things in one kind of environment, and where its states lie.

    An environment of your own takes part if its class has one as its attribute `scenery`. All functions are given the
    unwrapped environment: `words` and `place` an observation too, `pose` puts the environment where that observation
    is made, so that it can be rendered there, and `frame` is given the shape of the rendering.
    """

    actions: tuple[str, ...] = ()
    brief: str = "Decide what you want to happen here, and stay with it."
    words: Callable[[Any, Any], str] = lambda env, observation: f"what you see is {_plain(observation)}"
    place: Callable[[Any, Any], Place | None] = lambda env, observation: None
    pose: Callable[[Any, Any], None] = lambda env, observation: None
    frame: Callable[[Any, tuple[int, ...]], Frame | None] = lambda env, shape: None


def scenery(env: Any) -> Scenery:
    """How an environment is seen: its own way, or that of its kind."""
    kinds = [vars(kind).get("scenery") or SCENERIES.get(kind.__name__) for kind in type(env.unwrapped).__mro__]
    return next((known for known in kinds if isinstance(known, Scenery)), Scenery())


def action_names(env: Any, actions: list[Any]) -> list[str]:
    """By the names this kind of environment has for them, its own names, or numbers."""
    names = list(scenery(env).actions)
    listed = getattr(env.unwrapped, "actions", None)
    if not names and isinstance(listed, type) and issubclass(listed, Enum):
        names = [member.name.replace("_", " ") for member in listed]
    return names if len(names) == len(actions) else [f"action {action}" for action in actions]


def rendered(env: Any) -> NDArray[np.uint8] | None:
    """The environment's own picture of itself, `[h, w, 3]`; None if it has none."""
    try:
        pixels = env.render()
    except Exception:
        return None
    return pixels if isinstance(pixels, np.ndarray) and pixels.ndim == 3 and pixels.dtype == np.uint8 else None


def layout(env: Any, states: States, actions: list[Any]) -> Layout:
    """Where the states met so far lie, over the environment's own rendering; nowhere, if they have no places.

    States that differ in more than their place lie on several sheets, one beside the other. The environment is reset.
    """
    seen, inner = scenery(env), env.unwrapped
    observations = [states.observation(number) for number in range(len(states))]
    places = {n: place for n in range(1, len(states)) if (place := seen.place(inner, observations[n])) is not None}
    if len({(place.x, place.y, place.sheet) for place in places.values()}) < len(places):
        places = {}  # states that lie on each other are no map
    sheets: dict[str, list[int]] = {}
    for number, place in places.items():
        sheets.setdefault(place.sheet, []).append(number)
    shown = sorted(sorted(sheets, key=lambda title: -len(sheets[title]))[:MOST_SHEETS])
    pictures = _pictures(env, [observations[sheets[title][0]] for title in shown])
    frame, shape = _frame(env, list(places.values()), pictures)

    names = action_names(env, actions)
    arrows = np.array([COMPASS.get(name, (0.0, 0.0)) for name in names])
    positions = np.full((len(states), 2), np.nan)
    directions = np.tile(arrows, (len(states), 1, 1))
    unit, drawn = min(frame.pitch), []
    width, height = shape[1] / unit, shape[0] / unit
    columns = _columns(len(shown), (width + GAP) / (height + GAP))
    for number, (title, pixels) in enumerate(zip(shown, pictures, strict=True)):
        left, top = (number % columns) * (width + GAP), -(number // columns) * (height + GAP)
        drawn.append(Sheet(title, (left, left + width, top - height, top), pixels))
        for state in sheets[title]:
            place = places[state]
            positions[state, 0] = left + (frame.first[0] + place.x * frame.pitch[0]) / unit
            positions[state, 1] = top - (frame.first[1] - place.y * frame.pitch[1]) / unit
            directions[state] = turned(arrows, place.ahead)
    words = ("the end", *(seen.words(inner, observation) for observation in observations[1:]))
    return Layout("grid", positions, words, tuple(names), directions, tuple(drawn))


def _pictures(env: Any, observations: list[Any]) -> list[NDArray[np.uint8] | None]:
    """The environment as it renders itself where these observations are made."""
    if not observations:
        return []
    env.reset(seed=0)
    pictures = []
    for observation in observations:
        scenery(env).pose(env.unwrapped, observation)
        pictures.append(rendered(env))
    return pictures


def _frame(env: Any, places: list[Place], pictures: list[NDArray[np.uint8] | None]) -> tuple[Frame, tuple[int, ...]]:
    """Where the cells are on the pictures, and the shape of those; cells of size one, where there are none."""
    shapes = {None if picture is None else picture.shape for picture in pictures}
    shape = shapes.pop() if len(shapes) == 1 else None
    frame = None if shape is None else scenery(env).frame(env.unwrapped, shape)
    if shape is not None and frame is not None:
        return frame, shape
    pictures[:] = [None] * len(pictures)
    return _bare(places)


def turned(arrows: FloatArray, ahead: tuple[float, float]) -> FloatArray:
    """Arrows `[A, 2]` turned so that those which point up point ahead."""
    x, y = ahead
    return np.asarray(arrows @ np.array([[y, -x], [x, y]]))


def _bare(places: list[Place]) -> tuple[Frame, tuple[int, ...]]:
    """Cells of size one, where nothing is rendered, and the rows and columns they take."""
    xs, ys = [place.x for place in places], [place.y for place in places]
    left, right = min(xs, default=0.0), max(xs, default=0.0)
    bottom, top = min(ys, default=0.0), max(ys, default=0.0)
    return Frame((0.5 - left, 0.5 + top), (1.0, 1.0)), (round(top - bottom) + 1, round(right - left) + 1)


def _columns(n: int, aspect: float) -> int:
    """How many maps of that aspect go side by side, so that `n` of them fill a sheet a bit wider than high."""
    return max(1, min(n, round(math.sqrt(1.4 * n / aspect))))


def _evenly(rows: int, columns: int, shape: tuple[int, ...]) -> Frame:
    """Cells that share a whole rendering evenly."""
    pitch = (shape[1] / columns, shape[0] / rows)
    return Frame((pitch[0] / 2, pitch[1] / 2), pitch)


def _plain(observation: Any) -> str:
    return str(observation.tolist() if isinstance(observation, np.ndarray) else observation)


def _put(env: Any, observation: Any) -> None:
    """Toy-text environments keep their state as a number."""
    env.s = int(observation)


def _of_numbers(shape: Callable[[Any], tuple[int, int]], actions: tuple[str, ...], brief: str) -> Scenery:
    """A map whose cells are numbered row by row."""

    def words(env: Any, observation: Any) -> str:
        row, column = divmod(int(observation), shape(env)[1])
        return f"row {row + 1}, column {column + 1}"

    def place(env: Any, observation: Any) -> Place | None:
        if not env.observation_space.contains(observation):
            return None
        row, column = divmod(int(observation), shape(env)[1])
        return Place(column, -row)

    return Scenery(actions, brief, words, place, _put, lambda env, pixels: _evenly(*shape(env), pixels))


STANDS = ("the red stand", "the green stand", "the yellow stand", "the blue stand")


def _taxi_words(env: Any, observation: int) -> str:
    row, column, passenger, destination = env.decode(observation)
    where = "in the taxi" if passenger == 4 else f"waiting at {STANDS[passenger]}"
    place = f"the taxi in row {row + 1}, column {column + 1}"
    return f"{place}, the passenger {where}, bound for {STANDS[destination]}"


def _taxi_place(env: Any, observation: int) -> Place | None:
    if not env.observation_space.contains(observation):
        return None
    row, column, passenger, destination = env.decode(observation)
    whence = "in the taxi" if passenger == 4 else f"at {STANDS[passenger].split()[1]}"
    return Place(column, -row, f"{whence}, to {STANDS[destination].split()[1]}")


def _taxi_frame(env: Any, shape: tuple[int, ...]) -> Frame:
    (x, y), (right, _), (_, below) = (env.get_surf_loc(cell) for cell in ((0, 0), (0, 1), (1, 0)))
    width, height = env.cell_size
    return Frame((x + width / 2, y + height / 2), (right - x, below - y))


def _blackjack_words(env: Any, observation: tuple[int, int, int]) -> str:
    total, dealer, ace = (int(part) for part in observation)
    return f"a hand of {total}{' with a usable ace' if ace else ''} against the dealer's {dealer}"


# MiniGrid's encoding of a cell: its kind, colour and state.
AGENT = 10
SCENE = {5: "key", 6: "ball", 7: "box", 4: "door"}
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
DOORS = ("open", "closed", "locked")
FACING = ("right", "down", "left", "up")


def _minigrid_agent(env: Any, observation: Any) -> tuple[int, int, int] | None:
    """Column, row and direction of the agent, if the whole grid is observed."""
    image = observation.get("image") if isinstance(observation, dict) else None
    if image is None or image.shape[:2] != (env.width, env.height):
        return None
    found = np.argwhere(image[:, :, 0] == AGENT)
    if len(found) != 1:
        return None
    column, row = found[0].tolist()
    return column, row, int(image[column, row, 2])


def _minigrid_things(observation: Any) -> str:
    """The movable things of a grid in words; empty if there are none."""
    things = []
    for column, row in np.argwhere(np.isin(observation["image"][:, :, 0], list(SCENE))).tolist():
        kind, colour, state = observation["image"][column, row].tolist()
        how = f" {DOORS[state]}" if SCENE[kind] == "door" else ""
        things.append(f"{COLOURS[colour]} {SCENE[kind]}{how} at {row + 1},{column + 1}")
    return ", ".join(things)


def _minigrid_words(env: Any, observation: Any) -> str:
    agent = _minigrid_agent(env, observation)
    if agent is None:
        return f"what you see is {observation}"
    column, row, direction = agent
    things = _minigrid_things(observation)
    return f"row {row + 1}, column {column + 1}, facing {FACING[direction]}{'; ' + things if things else ''}"


def _minigrid_place(env: Any, observation: Any) -> Place | None:
    agent = _minigrid_agent(env, observation)
    if agent is None:
        return None
    column, row, direction = agent
    things = _minigrid_things(observation)
    ahead = COMPASS[FACING[direction]]
    return Place(column, -row, f"facing {FACING[direction]}{'; ' + things if things else ''}", ahead)


def _minigrid_pose(env: Any, observation: Any) -> None:
    column, row, direction = _minigrid_agent(env, observation) or (*env.agent_pos, env.agent_dir)
    env.highlight = False
    env.agent_pos, env.agent_dir = (column, row), direction


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

SCENERIES = {
    "FrozenLakeEnv": _of_numbers(
        lambda env: env.desc.shape,
        ("left", "down", "right", "up"),
        "A frozen lake with holes in it. You may want to get to the flag, and not to fall in; the ice is slippery.",
    ),
    "CliffWalkingEnv": _of_numbers(
        lambda env: env.shape,
        ("up", "right", "down", "left"),
        "A path along a cliff. You may want to get to the other side, and not to fall.",
    ),
    "TaxiEnv": Scenery(
        ("south", "north", "east", "west", "pick up", "drop off"),
        "A taxi and its passenger. You may want to take them to the coloured stand they are bound for.",
        _taxi_words,
        _taxi_place,
        _put,
        _taxi_frame,
    ),
    "BlackjackEnv": Scenery(("stick", "hit"), "A game of Blackjack. You may want to win it.", _blackjack_words),
    "MiniGridEnv": Scenery(
        words=_minigrid_words,
        place=_minigrid_place,
        pose=_minigrid_pose,
        frame=lambda env, shape: _evenly(env.height, env.width, shape),
    ),
}
