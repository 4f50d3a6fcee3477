"""Gymnasium environments as people see them: words for actions and states, and where states lie on the rendering."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aceirl.envs.families import is_wrapped, library_of
from aceirl.envs.problem import Layout, Sheet
from aceirl.errors import InputError
from aceirl.mdp import FloatArray

if TYPE_CHECKING:
    from aceirl.envs.observations import StateIndex

Seeing = Callable[[Any, Any], Any]  # of the unwrapped environment, and of an observation or a shape

# More maps than this are not drawn beside each other; those with the fewest states are left out.
MOST_SHEETS = 24

# A state in words is not longer than this, in characters.
LONGEST = 100

# Between two maps, in cells: room for a title.
GAP = 0.9


@dataclass(frozen=True)
class Place:
    """Where a state is drawn: `x` columns to the right and `y` rows up, on the sheet of that title.

    `ahead` is where the actions that go up or forward lead, for those who turn. Sheets of one title with different
    scenes are different sheets: a `scene` is whatever else the rendering shows.
    """

    x: float
    y: float
    sheet: str = ""
    ahead: tuple[float, float] = (0.0, 1.0)
    scene: Hashable = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.x) and math.isfinite(self.y)):
            raise InputError(f"a place needs finite x and y, got {self.x} and {self.y}")
        if not math.isclose(math.hypot(*self.ahead), 1.0):
            raise InputError(f"ahead must be a direction of length 1, got {self.ahead}")


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
    is made, so that it can be rendered there, and `frame` is given the shape of the rendering. Where a wrapper changes
    the observations nothing is known of them, unless the functions understand wrapped ones too.
    """

    actions: tuple[str, ...] = ()
    brief: str = "Decide what you want to happen here, and stay with it."
    words: Callable[[Any, Any], str] = lambda env, observation: f"the observation {_plain(observation)}"
    place: Callable[[Any, Any], Place | None] = lambda env, observation: None
    pose: Callable[[Any, Any], None] = lambda env, observation: None
    frame: Callable[[Any, tuple[int, ...]], Frame | None] = lambda env, shape: None
    understands_wrappers: bool = False


def scenery(env: Any) -> Scenery:
    """How an environment is seen: its own way, or that of its kind."""
    kinds = type(env.unwrapped).__mro__
    found = next((known for kind in kinds if (known := _scenery_of(kind)) is not None), Scenery())
    return found if found.understands_wrappers or not _observed_otherwise(env) else Scenery(found.actions, found.brief)


def _observed_otherwise(env: Any) -> bool:
    """Whether a wrapper changes the observations."""
    return env.observation_space != env.unwrapped.observation_space or is_wrapped(env, "ObservationWrapper")


def _scenery_of(kind: type) -> Scenery | None:
    own = vars(kind).get("scenery")
    if isinstance(own, Scenery):
        return own
    return SCENERIES.get(kind.__name__) if library_of(kind) in ("gymnasium", "minigrid") else None


def words(env: Any, observation: Any) -> str:
    """An observation in a few words; as it is, if those fail."""
    told = str(_tried(scenery(env).words, Scenery().words, env, observation))
    return told if len(told) <= LONGEST else f"{told[:LONGEST].rstrip()} …"


def place(env: Any, observation: Any) -> Place | None:
    """Where an observation is drawn; nowhere, if that fails."""
    found = _tried(scenery(env).place, Scenery().place, env, observation)
    return found if isinstance(found, Place) else None


def _tried(function: Seeing, otherwise: Seeing, env: Any, observation: Any) -> Any:
    """What a function of someone else's says; if it fails, that is said once, and the other is asked."""
    try:
        return function(env.unwrapped, observation)
    except Exception as error:
        kind = type(env.unwrapped).__name__
        warnings.warn(f"the scenery of {kind} failed: {type(error).__name__}: {error}", stacklevel=3)
        return otherwise(env.unwrapped, observation)


def places(env: Any, states: StateIndex) -> dict[int, Place]:
    """The places of the states met so far, by their numbers; none, if some lie on each other: that is no map."""
    found = {n: spot for n in range(1, len(states)) if (spot := place(env, states.observation(n))) is not None}
    spots = {(spot.x, spot.y, spot.sheet, spot.scene) for spot in found.values()}
    return found if len(spots) == len(found) else {}


def state_words(env: Any, states: StateIndex) -> tuple[str, ...]:
    """The states met so far in words; where those do not tell one from another, with its number."""
    told = [words(env, states.observation(number)) for number in range(1, len(states))]
    often = Counter(told)
    unclear = [text.endswith("…") or often[text] > 1 for text in told]
    numbered = zip(range(1, len(states)), told, unclear, strict=True)
    return ("the end", *(f"state {number}: {text}" if vague else text for number, text, vague in numbered))


def action_names(env: Any, actions: list[Any]) -> list[str]:
    """By the names this kind of environment has for them, its own names, or numbers."""
    names = list(scenery(env).actions)
    listed = getattr(env.unwrapped, "actions", None)
    if not names and isinstance(listed, type) and issubclass(listed, Enum):
        names = [member.name.replace("_", " ") for member in listed]
    if names and len(names) != len(actions):
        warnings.warn(f"{len(names)} names for {len(actions)} actions: {', '.join(names)}", stacklevel=2)
    return names if len(names) == len(actions) else [f"action {action}" for action in actions]


def rendered(env: Any) -> NDArray[np.uint8] | None:
    """The environment's own picture of itself, `[h, w, 3]`; None if it has none."""
    try:
        pixels = env.render()
    except Exception:
        return None
    return pixels if isinstance(pixels, np.ndarray) and pixels.ndim == 3 and pixels.dtype == np.uint8 else None


def layout(env: Any, states: StateIndex, actions: list[Any]) -> Layout:
    """Where the states met so far lie, over the environment's own rendering; nowhere, if they have no places.

    StateIndex that differ in more than their place lie on several sheets, one beside the other. The environment is reset.
    """
    found = places(env, states)
    sheets: dict[tuple[str, Hashable], list[int]] = {}
    for number, spot in found.items():
        sheets.setdefault((spot.sheet, spot.scene), []).append(number)
    scenes = list(dict.fromkeys(scene for _, scene in sheets))
    largest = sorted(sheets, key=lambda key: -len(sheets[key]))[:MOST_SHEETS]
    shown = sorted(largest, key=lambda key: (key[0], scenes.index(key[1])))
    pictures = _pictures(env, [states.observation(sheets[key][0]) for key in shown])
    frame, shape = _frame(env, list(found.values()), pictures)

    names = action_names(env, actions)
    arrows = np.array([COMPASS.get(name, (0.0, 0.0)) for name in names])
    positions = np.full((len(states), 2), np.nan)
    directions = np.tile(arrows, (len(states), 1, 1))
    unit, drawn = min(frame.pitch), []
    width, height = shape[1] / unit, shape[0] / unit
    columns = _columns(len(shown), (width + GAP) / (height + GAP))
    for number, ((title, scene), pixels) in enumerate(zip(shown, pictures, strict=True)):
        left, top = (number % columns) * (width + GAP), -(number // columns) * (height + GAP)
        full = f"{title}, scene {scenes.index(scene) + 1}" if len(scenes) > 1 else title
        drawn.append(Sheet(full, (left, left + width, top - height, top), pixels))
        for state in sheets[title, scene]:
            spot = found[state]
            positions[state, 0] = left + (frame.first[0] + spot.x * frame.pitch[0]) / unit
            positions[state, 1] = top - (frame.first[1] - spot.y * frame.pitch[1]) / unit
            directions[state] = turned(arrows, spot.ahead)
    outside = [spot for spot in found.values() if not _inside(spot, frame, shape)]
    if outside:
        warnings.warn(f"{outside[0]} lies outside the rendering; x goes right, and y goes up from 0", stacklevel=2)
    return Layout("grid", positions, state_words(env, states), tuple(names), directions, tuple(drawn))


def _inside(spot: Place, frame: Frame, shape: tuple[int, ...]) -> bool:
    x, y = frame.first[0] + spot.x * frame.pitch[0], frame.first[1] - spot.y * frame.pitch[1]
    return 0 <= x <= shape[1] and 0 <= y <= shape[0]


def _pictures(env: Any, observations: list[Any]) -> list[NDArray[np.uint8] | None]:
    """The environment as it renders itself where these observations are made."""
    if not observations:
        return []
    env.reset(seed=0)
    pictures = []
    for observation in observations:
        _tried(scenery(env).pose, Scenery().pose, env, observation)
        pictures.append(rendered(env))
    return pictures


def _frame(env: Any, places: list[Place], pictures: list[NDArray[np.uint8] | None]) -> tuple[Frame, tuple[int, ...]]:
    """Where the cells are on the pictures, and the shape of those; cells of size one, where there are none."""
    shapes = {None if picture is None else picture.shape for picture in pictures}
    shape = shapes.pop() if len(shapes) == 1 else None
    frame = None if shape is None else _tried(scenery(env).frame, Scenery().frame, env, shape)
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


def _from_corner(width: float, height: float) -> Frame:
    """Cells of that size, the first in the upper left corner."""
    return Frame((width / 2, height / 2), (width, height))


def _plain(observation: Any) -> str:
    if isinstance(observation, np.ndarray) and observation.ndim == 1:
        return f"[{', '.join(f'{value:.3g}' for value in observation.tolist())}]"
    return " ".join(str(observation).split())


def _put(env: Any, observation: Any) -> None:
    """Toy-text environments keep their state as a number."""
    env.s = int(observation)


def _of_numbers(shape: Callable[[Any], tuple[int, int]], actions: tuple[str, ...], brief: str) -> Scenery:
    """A map whose cells are numbered row by row."""

    def words(env: Any, observation: Any) -> str:
        row, column = divmod(int(observation), shape(env)[1])
        return f"row {row + 1}, column {column + 1}"

    def place(env: Any, observation: Any) -> Place:
        row, column = divmod(int(observation), shape(env)[1])
        return Place(column, -row)

    return Scenery(actions, brief, words, place, _put, lambda env, _: _from_corner(*env.cell_size))


STANDS = ("the red stand", "the green stand", "the yellow stand", "the blue stand")


def _taxi_words(env: Any, observation: int) -> str:
    row, column, passenger, destination = env.decode(observation)
    where = "in the taxi" if passenger == 4 else f"waiting at {STANDS[passenger]}"
    place = f"the taxi in row {row + 1}, column {column + 1}"
    return f"{place}, the passenger {where}, bound for {STANDS[destination]}"


def _taxi_place(env: Any, observation: int) -> Place:
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
EMPTY, AGENT = 1, 10
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
        return Scenery().words(env, observation)
    column, row, direction = agent
    things = _minigrid_things(observation)
    return f"row {row + 1}, column {column + 1}, facing {FACING[direction]}{'; ' + things if things else ''}"


def _minigrid_place(env: Any, observation: Any) -> Place | None:
    agent = _minigrid_agent(env, observation)
    if agent is None:
        return None
    column, row, direction = agent
    rest = observation["image"].copy()
    rest[column, row] = (EMPTY, 0, 0)
    return Place(column, -row, f"facing {FACING[direction]}", COMPASS[FACING[direction]], rest.tobytes())


def _minigrid_pose(env: Any, observation: Any) -> None:
    """Put the agent and all things where they are seen."""
    agent = _minigrid_agent(env, observation)
    if agent is not None:
        column, row, env.agent_dir = agent
        env.agent_pos, env.highlight = (column, row), False
        env.grid, _ = type(env.grid).decode(observation["image"])


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
        frame=lambda env, shape: _from_corner(shape[1] / env.width, shape[0] / env.height),
        understands_wrappers=True,
    ),
}
