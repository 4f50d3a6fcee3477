"""What an interview is about: an environment that a person can look at, with names for what can be done in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from aceirl.envs import ENVIRONMENTS, Layout, make
from aceirl.envs.described import action_names, description, features, map_cell, words
from aceirl.envs.description import COMPASS, Features, MapCell
from aceirl.envs.map_layout import rendered
from aceirl.envs.observations import NOWHERE, NOWHERE_NAME, plain
from aceirl.envs.simulator import Simulator
from aceirl.protocols import Environment
from aceirl.sources import Source, rendering_env
from aceirl.web.png import data_url


@dataclass(frozen=True)
class Action:
    """A button: what it is called, where it points (x right, y up; zeros if nowhere), and the key that presses it."""

    name: str
    direction: tuple[float, float]
    key: str


class EnvironmentView(Protocol):
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

    def features(self, state: int) -> Features:
        """What a state consists of, by name; nothing if it cannot be taken apart."""

    def demonstrated(self, state: int, action: int) -> tuple[Any, Any]:
        """An observation and an action as demonstrations have them."""

    def map_cell(self, state: int) -> MapCell | None:
        """Where a state is drawn; None if it is not on the map."""

    def picture(self) -> str | None:
        """The environment as it is now, as a data URL; None if it is drawn from its places."""


def open_view(source: Source) -> EnvironmentView:
    """The environment that a source names, ready to be looked at."""
    return BuiltinView(source) if source.environment in ENVIRONMENTS else GymView(source)


BRIEFS = {
    "arms": "Four corridors leave a room. Decide which end you want to reach, and stay with it.",
    "grid": "A small room. Decide which cell you want to be in as long as possible, and stay with it.",
    "chain": "A row of places. Decide where you want to be, and stay with it.",
    "ring": "A handful of places without an order. Decide which you like, and stay with it.",
}


class BuiltinView:
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

    def features(self, state: int) -> Features:
        """Corridor and cell, or what the layout's coordinates say."""
        if self.shape == "arms":
            _, corridor, *cell = self.name(state).replace(",", "").split()
            return {"corridor": corridor, "cell": int(cell[-1])} if cell else {"corridor": "the middle", "cell": 0}
        x, y = (1 + round(value) for value in self.layout.positions[state].tolist())
        if self.shape == "grid":
            return {"column": x, "row": y}
        alone = (self.layout.positions[:, 1] == self.layout.positions[0, 1]).all()
        return {"place": x} if self.shape == "chain" and alone else {}

    def demonstrated(self, state: int, action: int) -> tuple[str, int]:
        """The name of the state on the drawing stands for an observation."""
        return self.layout.state_names[state], action

    def map_cell(self, state: int) -> MapCell:
        """Where the layout has it."""
        x, y = self.layout.positions[state].tolist()
        return MapCell(x, y)

    def picture(self) -> None:
        """The layout is drawn instead."""


class GymView:
    """A Gymnasium environment, shown by its own rendering."""

    def __init__(self, source: Source) -> None:
        from aceirl.envs.gymnasium import GymEnvironment

        self._env = rendering_env(source)
        self._told: dict[tuple[str, int], tuple[Any, bool, Any]] = {}
        self.environment = GymEnvironment(self._env, horizon=source.horizon)
        self.shape = "grid"
        self.brief = description(self._env).brief

    @cached_property
    def actions(self) -> list[Action]:
        """By the names this kind of environment has for them, its own names, or numbers."""
        names = action_names(self._env, [self.environment.action(n) for n in range(self.environment.n_actions)])
        return with_keys([(name, COMPASS.get(name, (0.0, 0.0))) for name in names])

    def name(self, state: int) -> str:
        """The state in words."""
        if state == NOWHERE:
            return NOWHERE_NAME
        terminal = state in self.environment.terminal
        return str(self._once("name", state, lambda seen: words(self._env, seen, terminal=terminal)))

    def _once(self, what: str, state: int, told: Callable[[Any], Any]) -> Any:
        """What is told of a state's observation, asked for once; states may be numbered anew."""
        seen, terminal = self.environment.observation(state), state in self.environment.terminal
        known = self._told.get((what, state))
        if known is None or known[0] is not seen or known[1] != terminal:
            known = self._told[what, state] = seen, terminal, told(seen)
        return known[2]

    def features(self, state: int) -> Features:
        """What the observation consists of."""
        if state == NOWHERE:
            return {}
        return dict(self._once("features", state, lambda seen: features(self._env, seen)))

    def demonstrated(self, state: int, action: int) -> tuple[Any, Any]:
        """The environment's own observation and action."""
        return plain(self.environment.observation(state)), plain(self.environment.action(action))

    def map_cell(self, state: int) -> MapCell | None:
        """A cell of the map, for environments that have one."""
        if state == NOWHERE:
            return None
        cell: MapCell | None = self._once("map cell", state, lambda seen: map_cell(self._env, seen))
        return cell

    def picture(self) -> str | None:
        """What the environment renders; None if it cannot."""
        pixels = rendered(self._env)
        return None if pixels is None else data_url(pixels)


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
