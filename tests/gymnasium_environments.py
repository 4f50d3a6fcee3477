"""Small Gymnasium environments that tests need: one of each kind of observation, and some that misbehave."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Corridor(gymnasium.Env[Any, Any]):
    """Rooms in a row; 0 goes back, 1 goes on, and leaving the last room ends the episode. Steps slip with `slip`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, rooms: int = 4, slip: float = 0.0) -> None:
        self.rooms, self.slip = rooms, slip
        self.observation_space = spaces.Discrete(rooms)
        self.action_space = spaces.Discrete(2)
        self.room = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.room = 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ahead = (action == 1) != (self.np_random.random() < self.slip)
        self.room = self.room + 1 if ahead else max(0, self.room - 1)
        over = self.room == self.rooms
        if over:
            self.room -= 1
        return self.seen(), float(over), over, False, {}

    def seen(self) -> Any:
        return self.room


class Conveyor(Corridor):
    """The corridor, entered anywhere in its first half; whatever is done, it moves on."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.room = int(self.np_random.integers(self.rooms // 2))
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return super().step(1)


class Shown(Corridor):
    """The corridor, with its rooms shown as elements of any space."""

    def __init__(self, space: gymnasium.Space[Any], elements: list[Any], **options: Any) -> None:
        super().__init__(rooms=len(elements), **options)
        self.observation_space, self.elements = space, elements

    def seen(self) -> Any:
        return copy.deepcopy(self.elements[self.room])


class Failing(Corridor):
    """The corridor, in which something goes wrong in the first step of an episode, once `after` steps were taken."""

    def __init__(self, after: int, how: str) -> None:
        super().__init__(slip=0.2)
        self.after, self.how, self.taken, self.first = after, how, 0, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.first = True
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        fails = self.first and self.taken >= self.after
        self.taken, self.first = self.taken + 1, False
        observation, reward, terminated, truncated, info = super().step(action)
        if fails:
            if self.how == "raise":
                raise RuntimeError("the motor is stuck")
            if self.how == "type":
                observation = float(observation) + 0.5
            if self.how == "range":
                observation = 99
            if self.how == "truncate":
                terminated, truncated = False, True
            if self.how == "tuple":
                return observation, reward, terminated  # type: ignore[return-value]
        return observation, reward, terminated, truncated, info


class Guarded(gymnasium.Env[Any, Any]):
    """Passes on `reset` and `step`, tells its spaces and its limit, and fails on any other access."""

    ALLOWED = frozenset({"reset", "step", "observation_space", "action_space", "spec", "__class__", "calls", "_inner"})

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "calls", set())

    def __getattribute__(self, name: str) -> Any:
        if name not in type(self).ALLOWED:
            raise AssertionError(f"the learner looked at {name!r}")
        if name in ("__class__", "calls", "_inner"):
            return object.__getattribute__(self, name)
        object.__getattribute__(self, "calls").add(name)
        return getattr(object.__getattribute__(self, "_inner"), name)


class GuardedVector(Guarded):
    """The same around a vector environment, which also tells how many environments it has and when it resets them."""

    ALLOWED = Guarded.ALLOWED - {"observation_space", "action_space"} | {
        "single_observation_space",
        "single_action_space",
        "num_envs",
        "metadata",
        "unwrapped",
    }

    def __getattribute__(self, name: str) -> Any:
        return self if name == "unwrapped" else super().__getattribute__(name)


class Warehouse(gymnasium.Env[Any, Any]):
    """Four rows of six cells, with slips; episodes end at two places of delivery, and in two shafts on the way."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    observation_space, action_space = spaces.Discrete(24), spaces.Discrete(4)
    DELIVERIES, SHAFTS, SLIP = (23, 17), (9, 14), 0.1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = int(self.np_random.choice([0, 6, 12, 18]))
        return self.cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if self.np_random.random() < self.SLIP:
            action = int(self.np_random.integers(4))
        self.cell = self.beside(self.cell, action)
        return self.cell, 0.0, self.cell in (*self.DELIVERIES, *self.SHAFTS), False, {}

    @staticmethod
    def beside(cell: int, action: int) -> int:
        row, column = divmod(cell, 6)
        rows, columns = (0, -1, 0, 1), (-1, 0, 1, 0)
        return 6 * min(3, max(0, row + rows[action])) + min(5, max(0, column + columns[action]))

    @classmethod
    def rows(cls) -> Any:
        """`[S, A, S]`."""
        moved = np.zeros((24, 4, 24))
        for cell in range(24):
            for action in range(4):
                moved[cell, action, cls.beside(cell, action)] += 1.0
        return (1 - cls.SLIP) * moved + cls.SLIP * moved.mean(axis=1, keepdims=True)

    @classmethod
    def best(cls, paid: Any) -> Any:
        """`[S]`: what is best under rewards `[S, A, S]`; nothing is paid after an end."""
        rows, value = cls.rows(), np.zeros(24)
        for _ in range(300):
            q = (rows * paid).sum(axis=2) + rows @ value
            value = q.max(axis=1)
            value[[*cls.DELIVERIES, *cls.SHAFTS]] = 0.0
        return q.argmax(axis=1)
