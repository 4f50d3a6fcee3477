"""What an interview is about: an environment that a person can look at, with names for what can be done in it."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from aceirl.envs import ENVIRONMENTS, Layout, make
from aceirl.envs.simulator import Simulator
from aceirl.protocols import Environment
from aceirl.tasks import Source, gym_env
from aceirl.web.png import png


@dataclass(frozen=True)
class Action:
    """A button: what it is called, where it points (x right, y up; zeros if nowhere), and the key that presses it."""

    name: str
    direction: tuple[float, float]
    key: str


@dataclass(frozen=True)
class Place:
    """Where a state is drawn. States of one group are drawn together; those of other groups lie on other sheets."""

    x: float
    y: float
    group: int = 0


class Stage(Protocol):
    """An environment as a person sees it."""

    @property
    def environment(self) -> Environment: ...
    @property
    def actions(self) -> list[Action]: ...
    @property
    def shape(self) -> str: ...
    @property
    def brief(self) -> str: ...

    def name(self, state: int) -> str:
        """A state in a few words."""

    def place(self, state: int) -> Place | None:
        """Where a state is drawn; None if it has no place."""

    def picture(self) -> str | None:
        """The environment as it is now, as a data URL; None if it is drawn from its places."""


def open_stage(source: Source) -> Stage:
    """The environment that a source names, ready to be looked at."""
    return BuiltinStage(source) if source.environment in ENVIRONMENTS else GymStage(source)


BRIEFS = {
    "arms": "Four corridors leave a room. Decide which end you want to reach, and stay with it.",
    "grid": "A small room. Decide which cell you want to be in as long as possible, and stay with it.",
    "chain": "A row of places. Decide where you want to be, and stay with it.",
    "ring": "A handful of places without an order. Decide which you like, and stay with it.",
}


class BuiltinStage:
    """One of our own environments, drawn from its layout."""

    def __init__(self, source: Source) -> None:
        problem = make(source.environment, source.seed, **source.parameters)
        self.environment = Simulator(problem.mdp)
        self.layout: Layout = problem.layout
        self.shape = self.layout.kind
        self.brief = BRIEFS[self.layout.kind]
        pairs = zip(self.layout.action_names, self.layout.action_directions.tolist(), strict=True)
        self.actions = with_keys([(name, (x, y)) for name, (x, y) in pairs])

    def name(self, state: int) -> str:
        """The name on the drawing, spelled out where it stands for a place in an arm."""
        short = self.layout.state_names[state]
        if self.shape != "arms":
            return f"cell {short}" if self.shape == "grid" else f"place {short}"
        if short == "c":
            return "the middle"
        arms = {"l": "left", "u": "upper", "r": "right", "d": "lower"}
        return f"the {arms[short[0]]} corridor, cell {short[1:]}"

    def place(self, state: int) -> Place:
        """Where the layout has it."""
        x, y = self.layout.positions[state].tolist()
        return Place(x, y)

    def picture(self) -> None:
        """The layout is drawn instead."""


class GymStage:
    """A Gymnasium environment, shown by its own rendering."""

    def __init__(self, source: Source) -> None:
        from aceirl.envs.gymnasium import GymEnvironment

        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        parameters = source.parameters | {"render_mode": "rgb_array"}
        self._env = gym_env(Source(**{**vars(source), "parameters": parameters}))
        self.environment = GymEnvironment(self._env, horizon=source.horizon)
        self._kind = KINDS.get(type(self._env.unwrapped).__name__, Kind())
        self.shape = "grid"
        self.brief = self._kind.brief

    @cached_property
    def actions(self) -> list[Action]:
        """By the names this kind of environment has for them, its own names, or numbers."""
        n_actions = self.environment.n_actions
        names = list(self._kind.actions)
        listed = getattr(self._env.unwrapped, "actions", None)
        if not names and isinstance(listed, type) and issubclass(listed, Enum):
            names = [member.name.replace("_", " ") for member in listed]
        if len(names) != n_actions:
            names = [f"action {self.environment.action(number)}" for number in range(n_actions)]
        return with_keys([(name, COMPASS.get(name, (0.0, 0.0))) for name in names])

    def name(self, state: int) -> str:
        """The state in words."""
        if state == self.environment.end:
            return "the end of the episode"
        return self._kind.words(self._env.unwrapped, self.environment.observation(state))

    def place(self, state: int) -> Place | None:
        """A cell of the map, for environments that have one."""
        if state == self.environment.end or self._kind.place is None:
            return None
        return self._kind.place(self._env.unwrapped, self.environment.observation(state))

    def picture(self) -> str | None:
        """What the environment renders; None if it cannot."""
        try:
            pixels = self._env.render()
        except Exception:
            return None
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 3:
            return None
        return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


@dataclass(frozen=True)
class Kind:
    """What people call things in one kind of environment."""

    actions: tuple[str, ...] = ()
    brief: str = "Decide what you want to happen here, and stay with it."
    words: Callable[[Any, Any], str] = lambda env, observation: f"what you see is {_plain(observation)}"
    place: Callable[[Any, Any], Place] | None = None


def _plain(observation: Any) -> str:
    return str(observation.tolist() if isinstance(observation, np.ndarray) else observation)


def _on_map(columns: int, observation: int) -> Place:
    row, column = divmod(int(observation), columns)
    return Place(column, -row)


def _cell_words(columns: int, observation: int) -> str:
    row, column = divmod(int(observation), columns)
    return f"row {row + 1}, column {column + 1}"


def _taxi_words(env: Any, observation: int) -> str:
    row, column, passenger, destination = env.decode(observation)
    stands = ("the red stand", "the green stand", "the yellow stand", "the blue stand")
    where = "in the taxi" if passenger == 4 else f"waiting at {stands[passenger]}"
    place = f"the taxi in row {row + 1}, column {column + 1}"
    return f"{place}, the passenger {where}, bound for {stands[destination]}"


def _taxi_place(env: Any, observation: int) -> Place:
    row, column, passenger, destination = env.decode(observation)
    return Place(column, -row, group=passenger * 4 + destination)


def _blackjack_words(env: Any, observation: tuple[int, int, int]) -> str:
    total, dealer, ace = (int(part) for part in observation)
    return f"a hand of {total}{' with a usable ace' if ace else ''} against the dealer's {dealer}"


KINDS = {
    "FrozenLakeEnv": Kind(
        ("left", "down", "right", "up"),
        "A frozen lake with holes in it. You may want to get to the flag, and not to fall in; the ice is slippery.",
        lambda env, observation: _cell_words(env.desc.shape[1], observation),
        lambda env, observation: _on_map(env.desc.shape[1], observation),
    ),
    "CliffWalkingEnv": Kind(
        ("up", "right", "down", "left"),
        "A path along a cliff. You may want to get to the other side, and not to fall.",
        lambda env, observation: _cell_words(env.shape[1], observation),
        lambda env, observation: _on_map(env.shape[1], observation),
    ),
    "TaxiEnv": Kind(
        ("south", "north", "east", "west", "pick up", "drop off"),
        "A taxi and its passenger. You may want to take them to the coloured stand they are bound for.",
        _taxi_words,
        _taxi_place,
    ),
    "BlackjackEnv": Kind(("stick", "hit"), "A game of Blackjack. You may want to win it.", _blackjack_words),
}

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

ARROW_KEYS = {(-1.0, 0.0): "ArrowLeft", (1.0, 0.0): "ArrowRight", (0.0, 1.0): "ArrowUp", (0.0, -1.0): "ArrowDown"}
RESERVED_KEYS = "ur?"


def with_keys(actions: list[tuple[str, tuple[float, float]]]) -> list[Action]:
    """Arrow keys for the actions that point somewhere, others have first letters or, if these clash, digits."""
    aims = [(round(x, 6) + 0.0, round(y, 6) + 0.0) for _, (x, y) in actions]
    keys = [ARROW_KEYS.get(aim, "") if aim not in aims[:number] else "" for number, aim in enumerate(aims)]
    rest = [number for number, key in enumerate(keys) if not key]
    letters = [actions[number][0][:1].lower() for number in rest]
    clash = len(set(letters)) < len(letters) or any(not x.isalpha() or x in RESERVED_KEYS for x in letters)
    for place, number in enumerate(rest):
        keys[number] = ("1234567890"[place] if place < 10 else "") if clash else letters[place]
    return [Action(name, aim, key) for (name, _), aim, key in zip(actions, aims, keys, strict=True)]
