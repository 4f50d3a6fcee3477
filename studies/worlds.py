"""Gymnasium's classic control tasks and the same with other dynamics: where a reward is taken to.

A task has an environment at home, changed ones, the true reward as a function of whole arrays, and experts by rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from aceirl.data.arrays import BoolArray, FloatArray
from studies.controllers import balance, land, rock, swing, upright


class Swapped(gymnasium.ActionWrapper):
    """The actions in reverse order: of a Discrete space the last is the first, of a Box about zero the sign changes."""

    def action(self, action: Any) -> Any:
        """What the environment is told."""
        if isinstance(self.action_space, gymnasium.spaces.Discrete):
            return int(self.action_space.n) - 1 - int(action)
        return -np.asarray(action)


class FarStart(gymnasium.Wrapper):
    """CartPole that begins far from the middle: 0.8 to 1 times `far` to the left or the right."""

    def __init__(self, env: Any, far: float) -> None:
        super().__init__(env)
        self.far = far

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """As before, and then the cart is put elsewhere."""
        observation, info = self.env.reset(**options)
        world: Any = self.env.unwrapped
        side = world.np_random.choice([-1.0, 1.0]) * world.np_random.uniform(0.8, 1.0) * self.far
        state = np.array(world.state)
        state[0] = side
        world.state = tuple(state)
        observation = np.array(observation)
        observation[0] = side
        return observation, info


def cart_pole(*, length: float = 0.5, far: float = 0.0, swapped: bool = False) -> Any:
    """CartPole of 300 steps with a pole of half the given length on each side of its centre."""
    env: Any = gymnasium.make("CartPole-v1", max_episode_steps=300)
    world = env.unwrapped
    world.length, world.polemass_length = length, world.masspole * length
    env = FarStart(env, far) if far else env
    return Swapped(env) if swapped else env


def mountain_car(*, gravity: float = 0.0025, swapped: bool = False) -> Any:
    """MountainCar of 200 steps."""
    env: Any = gymnasium.make("MountainCar-v0", max_episode_steps=200)
    env.unwrapped.gravity = gravity
    return Swapped(env) if swapped else env


def pendulum(*, gravity: float = 10.0, swapped: bool = False) -> Any:
    """Pendulum of 200 steps, with its continuous torque."""
    env: Any = gymnasium.make("Pendulum-v1", g=gravity, max_episode_steps=200)
    return Swapped(env) if swapped else env


def acrobot(*, masses: tuple[float, float] = (1.0, 1.0), swapped: bool = False) -> Any:
    """Acrobot of 300 steps."""
    env: Any = gymnasium.make("Acrobot-v1", max_episode_steps=300)
    env.unwrapped.LINK_MASS_1, env.unwrapped.LINK_MASS_2 = masses
    return Swapped(env) if swapped else env


def lander(*, wind: float = 0.0, gravity: float = -10.0, swapped: bool = False) -> Any:
    """LunarLander of 500 steps. Without wind, version 2 of older Gymnasiums does the same."""
    name = "LunarLander-v3" if "LunarLander-v3" in gymnasium.registry else "LunarLander-v2"
    env: Any = gymnasium.make(name, enable_wind=wind > 0, wind_power=wind, gravity=gravity, max_episode_steps=500)
    return SwappedEngines(env) if swapped else env


class SwappedEngines(gymnasium.ActionWrapper):
    """LunarLander with its left engine where the right one was."""

    def action(self, action: Any) -> int:
        """What the environment is told."""
        return (0, 3, 2, 1)[int(action)]


def _each_step(value: float) -> Callable[..., FloatArray]:
    def reward(observations: FloatArray, actions: FloatArray, arrivals: FloatArray, ends: BoolArray) -> FloatArray:
        return np.full(len(arrivals), value)

    return reward


def _until_the_end(observations: FloatArray, actions: FloatArray, arrivals: FloatArray, ends: BoolArray) -> FloatArray:
    """Acrobot pays -1 for each step but the last."""
    return np.where(ends, 0.0, -1.0)


def _upright(observations: FloatArray, actions: FloatArray, arrivals: FloatArray, ends: BoolArray) -> FloatArray:
    """Pendulum's own formula, of the observation before the step."""
    angle = np.arctan2(observations[:, 1], observations[:, 0])
    return np.asarray(-(angle**2 + 0.1 * observations[:, 2] ** 2 + 0.001 * np.asarray(actions)[:, 0] ** 2))


@dataclass(frozen=True)
class Task:
    """`home` makes the environment, `away` the changed one; `reward` is the true one, None if it is what an episode is
    paid; `rule` a plain expert, if any."""

    home: Callable[[], Any]
    away: Callable[[], Any]
    reward: Callable[..., FloatArray] | None
    rule: Callable[[Any], Any] | None = None
    names: tuple[str, ...] = field(default=())


TASKS: dict[str, Task] = {
    "CartPole": Task(cart_pole, lambda: cart_pole(length=1.0, far=1.5, swapped=True), _each_step(1.0), balance),
    "MountainCar": Task(mountain_car, lambda: mountain_car(gravity=0.003, swapped=True), _each_step(-1.0), rock),
    "Pendulum": Task(pendulum, lambda: pendulum(gravity=15.0, swapped=True), _upright, upright),
    "Acrobot": Task(acrobot, lambda: acrobot(masses=(1.5, 0.7), swapped=True), _until_the_end, swing),
    "LunarLander, wind": Task(lander, lambda: lander(wind=15.0), None, land),
    "LunarLander, gravity": Task(lander, lambda: lander(gravity=-6.0), None, land),
    "LunarLander, engines": Task(lander, lambda: lander(swapped=True), None, land),
}
"""The tasks by name: actions swapped *and* dynamics changed, but for LunarLander, which needs Box2D."""
