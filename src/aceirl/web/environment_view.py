"""An environment as a person sees it: names for states and actions, pictures, maps, and episodes as films."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aceirl.envs import Layout
from aceirl.envs.described import action_names, description, features, map_cell, rules, words
from aceirl.envs.description import COMPASS, Features, MapCell
from aceirl.envs.map_layout import rendered
from aceirl.envs.simulator import Simulator
from aceirl.experts.tasks import Source, layout, rendering_env
from aceirl.models.tabular.encoder import PADDING_NAME, PADDING_STATE, plain
from aceirl.models.tabular.mdp import MDP, IntArray
from aceirl.protocols import Capabilities, NumberedEnvironment

# Pictures are large; a film has no more of them than this.
MOST_FRAMES = 60


@dataclass(frozen=True)
class Action:
    """A button: what it is called, where it points (x right, y up; zeros if nowhere), and the key that presses it."""

    name: str
    direction: tuple[float, float]
    key: str


BRIEFS = {
    "arms": "Four corridors leave a room. Decide which end you want to reach, and stay with it.",
    "grid": "A small room. Decide which cell you want to be in as long as possible, and stay with it.",
    "chain": "A row of places. Decide where you want to be, and stay with it.",
    "ring": "A handful of places without an order. Decide which you like, and stay with it.",
}


class BuiltinView:
    """One of our own environments as a person sees it, drawn from its layout."""

    def __init__(self, source: Source) -> None:
        problem = source.problem()
        self.environment: NumberedEnvironment = Simulator(problem.mdp)
        self.layout: Layout = problem.layout
        self.shape: str = self.layout.kind
        self.brief, self.rules = BRIEFS[self.shape], _chance_in_words(problem.mdp)
        pairs = zip(self.layout.action_names, self.layout.action_directions.tolist(), strict=True)
        self.actions = with_keys([(name, (x, y)) for name, (x, y) in pairs])

    def name(self, state: int) -> str:
        """A state in a few words: the name on the drawing, spelled out where it stands for a place in an arm."""
        short = self.layout.state_names[state]
        if self.shape != "arms":
            return f"cell {short}" if self.shape == "grid" else f"place {short}"
        if short == "c":
            return "the middle"
        arms = {"l": "left", "u": "upper", "r": "right", "d": "lower"}
        return f"the {arms[short[0]]} corridor, cell {short[1:]}"

    def features(self, state: int) -> Features:
        """What a state consists of, by name."""
        return self.layout.features(state)

    def demonstrated(self, state: int, action: int) -> tuple[Any, Any]:
        """An observation and an action as demonstrations have them: the name on the drawing is an observation."""
        return self.layout.state_names[state], action

    def map_cell(self, state: int) -> MapCell | None:
        """Where a state is drawn; None if it is not on the map."""
        return MapCell(*self.layout.positions[state].tolist())

    def picture(self) -> str | None:
        """The environment as it is now, as a data URL; None if it is drawn from its places."""
        return None


class GymView:
    """A Gymnasium environment as a person sees it, shown by its own rendering."""

    def __init__(self, source: Source) -> None:
        from aceirl.envs.gymnasium import GymEnvironment

        self._env = rendering_env(source)
        self._told: dict[tuple[str, int], tuple[Any, bool, Any]] = {}
        self.environment = GymEnvironment(self._env, horizon=source.horizon)
        self.shape, self.brief = "grid", description(self._env).brief
        self.rules = rules(self._env)

    @cached_property
    def actions(self) -> list[Action]:
        """By the names this kind of environment has for them, its own names, or numbers."""
        names = action_names(self._env, [self.environment.action(n) for n in range(self.environment.n_actions)])
        return with_keys([(name, COMPASS.get(name, (0.0, 0.0))) for name in names])

    def name(self, state: int) -> str:
        """A state in words."""
        return str(self._once("name", state, words, PADDING_NAME, terminal=state in self.environment.terminal))

    def features(self, state: int) -> Features:
        """What the observation consists of, by name; nothing if it cannot be taken apart."""
        return dict(self._once("features", state, features, {}))

    def map_cell(self, state: int) -> MapCell | None:
        """A cell of the map, for environments that have one."""
        cell: MapCell | None = self._once("map cell", state, map_cell, None)
        return cell

    def _once(self, what: str, state: int, told: Callable[..., Any], padding: Any, **options: bool) -> Any:
        """What is told of a state's observation, asked for once; states may be numbered anew."""
        if state == PADDING_STATE:
            return padding
        seen, terminal = self.environment.observation(state), state in self.environment.terminal
        known = self._told.get((what, state))
        if known is None or known[0] is not seen or known[1] != terminal:
            known = self._told[what, state] = seen, terminal, told(self._env, seen, **options)
        return known[2]

    def demonstrated(self, state: int, action: int) -> tuple[Any, Any]:
        """The environment's own observation and action."""
        return plain(self.environment.observation(state)), plain(self.environment.action(action))

    def picture(self) -> str | None:
        """What the environment renders; None if it cannot."""
        pixels = rendered(self._env)
        return None if pixels is None else data_url(pixels)


EnvironmentView = BuiltinView | GymView


def situation(view: EnvironmentView, state: int) -> str:
    """What tells a state from others whoever met it, and in whatever order."""
    return json.dumps(view.demonstrated(state, 0)[0])


def _chance_in_words(mdp: MDP) -> tuple[str, ...]:
    """How often what one does has its usual effect."""
    usual = float(mdp.transitions.dense().max(axis=-1).mean())
    if usual > 0.999:
        return ("Each action always has the same effect.",)
    return (f"In {100 * usual:.0f} of 100 cases an action has its usual effect, otherwise another one.",)


def open_view(source: Source) -> EnvironmentView:
    """The environment that a source names, ready to be looked at."""
    return BuiltinView(source) if source.ours else GymView(source)


ARROW_KEYS = {(-1.0, 0.0): "ArrowLeft", (1.0, 0.0): "ArrowRight", (0.0, 1.0): "ArrowUp", (0.0, -1.0): "ArrowDown"}
RESERVED_KEYS = "ur?"


def with_keys(actions: list[tuple[str, tuple[float, float]]]) -> list[Action]:
    """Arrow keys for the actions that point somewhere, others have first letters or, if these clash, digits."""
    aims = [(round(x, 6) + 0.0, round(y, 6) + 0.0) for _, (x, y) in actions]
    keys = [ARROW_KEYS.get(aim, "") if aim not in aims[:number] else "" for number, aim in enumerate(aims)]
    rest = [number for number, key in enumerate(keys) if not key]
    letters = [actions[number][0][:1].lower() for number in rest]
    clash = len(set(letters)) < len(letters) or any(not x.isalpha() or x in RESERVED_KEYS for x in letters)
    for order, number in enumerate(rest):
        keys[number] = ("1234567890"[order] if order < 10 else "") if clash else letters[order]
    return [Action(name, aim, key) for (name, _), aim, key in zip(actions, aims, keys, strict=True)]


def replay(source: Source, rng: np.random.Generator, actions: list[int]) -> list[dict[str, Any]]:
    """An episode from its randomness and its actions, up to where it ends; only its last steps, if it was long."""
    view = open_view(source)
    skipped = max(0, len(actions) + 1 - MOST_FRAMES)
    access = Capabilities.of(view.environment)
    state = access.encode(view.environment.reset(rng))
    frames = [] if skipped else [_frame(view, state, None)]
    for number, action in enumerate(actions, start=1):
        if state in access.terminal:
            break
        state = access.encode(*view.environment.step(action))
        if number >= skipped:
            frames.append(_frame(view, state, action, number))
    return frames


def film(source: Source, rng: np.random.Generator, policy: IntArray, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """A new episode of a policy `[H, S]`; `names` are the states as the policy numbers them.

    Of a long one its beginning and its end. The last picture has the `ending` in words.
    """
    view = open_view(source)
    environment, access = view.environment, Capabilities.of(view.environment)
    access.recall(names)
    state = access.encode(environment.reset(rng))
    frames, step = [_frame(view, state, None)], 0
    while step < environment.horizon and state not in access.terminal:
        met_before = state < policy.shape[1]
        action = int(policy[step, state]) if met_before else int(rng.integers(environment.n_actions))
        state = access.encode(*environment.step(action))
        step += 1
        over = step == environment.horizon or state in access.terminal
        if len(frames) < MOST_FRAMES - 1 or over:
            frames.append(_frame(view, state, action, step))
    ended = "the episode ended:" if state in access.terminal else "the time was up, in"
    frames[-1]["ending"] = f"After {step:,} step{'' if step == 1 else 's'} {ended} {view.name(state)}."
    return frames


def _frame(view: EnvironmentView, state: int, action: int | None, step: int = 0) -> dict[str, Any]:
    cell = view.map_cell(state)
    did = "" if action is None else f"{view.actions[action].name}: "
    return {
        "x": None if cell is None else cell.x,
        "y": None if cell is None else cell.y,
        "step": step,
        "words": did + view.name(state),
        "picture": view.picture(),
    }


def maps(source: Source, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The map panels of an environment, each with its title, picture and places; `names` are the states in their order.

    `box` is the panel's left, right, bottom and top, and `places` are `[state, x, y]`; x goes right and y goes up.
    There is no `picture` of an environment that does not render, and no panel of one whose states lie nowhere.
    """
    drawing = layout(source, names)
    places = [[int(state), *drawing.positions[state].tolist()] for state in drawing.drawn]
    if not drawing.panels:
        return [{"title": "", "box": None, "picture": None, "places": places}] if places else []
    panels = []
    for panel in drawing.panels:
        left, right, bottom, top = panel.extent
        panels.append(
            {
                "title": panel.title[:1].upper() + panel.title[1:],
                "box": panel.extent,
                "picture": None if panel.pixels is None else data_url(panel.pixels),
                "places": [place for place in places if left <= place[1] <= right and bottom <= place[2] <= top],
            }
        )
    return panels


def png(pixels: NDArray[np.uint8]) -> bytes:
    """The file for `pixels [height, width, 3]`."""
    height, width, _ = pixels.shape
    # Every row begins with the number of its filter; 0 is none.
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)
    rows[:, 1:] = pixels.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(rows.tobytes(), 3)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def data_url(pixels: NDArray[np.uint8]) -> str:
    """The file for `pixels [height, width, 3]` as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
