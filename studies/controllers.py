"""Controllers of Gymnasium's continuous tasks, as experts whose answers are free; and what a policy earns there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.experts.tasks.continuous import ContinuousTask, open_continuous
from aceirl.models.tabular.mdp import FloatArray
from aceirl.models.vectors.choices import ActionChoices
from aceirl.models.vectors.committee import NetworkCommittee


def balance(observation: Any) -> int:
    """CartPole: push to the side to which a weighted sum leans."""
    place, speed, angle, turning = observation
    return int(angle + 0.25 * turning + 0.05 * place + 0.1 * speed > 0)


def rock(observation: Any) -> int:
    """MountainCar: accelerate where it moves."""
    return 2 if observation[1] >= 0 else 0


def swing(observation: Any) -> int:
    """Acrobot: a torque against the first joint's motion."""
    return 2 if observation[4] < 0 else 0


def upright(observation: Any) -> Any:
    """Pendulum: pump energy below, a proportional and derivative controller near the top."""
    cosine, sine, turning = map(float, observation)
    if cosine > 0.8:
        torque = -(12 * math.atan2(sine, cosine) + 3 * turning)
    else:
        torque = 2.0 if abs(turning) <= 1e-9 or turning * (15 * (1 - cosine) - 0.5 * turning * turning) >= 0 else -2.0
    return np.array([min(max(torque, -2.0), 2.0)], dtype=np.float32)


def land(observation: Any) -> int:
    """LunarLander: the controller that Gymnasium documents."""
    x, y, speed_x, speed_y, angle, turning, left, right = map(float, observation)
    wanted = min(max(0.5 * x + 1.0 * speed_x, -0.4), 0.4)
    tilt, hover = (wanted - angle) * 0.5 - turning * 1.0, (0.55 * abs(x) - y) * 0.5 - speed_y * 0.5
    if left or right:
        tilt, hover = 0.0, -speed_y * 0.5
    if hover > abs(tilt) and hover > 0.05:
        return 2
    return 3 if tilt < -0.05 else 1 if tilt > 0.05 else 0


@dataclass(frozen=True)
class Controlled:
    """A task: its environment, its controller, the steps of an episode, and what shall be shown of it.

    After `few` answers the policy shall earn 95 % of what the expert earns; after `many` it shall ask at most the share
    `asks` of its steps behind a gate that loses at most a tenth.
    """

    environment: str
    controller: Callable[[Any], Any]
    horizon: int
    few: int
    many: int
    asks: float

    def open(self) -> ContinuousTask:
        """The environment and the expert."""
        return open_continuous(self.environment, self.controller, horizon=self.horizon)


TASKS = {
    "CartPole": Controlled("CartPole-v1", balance, 200, 60, 1_000, 0.02),
    "MountainCar": Controlled("MountainCar-v0", rock, 200, 100, 500, 0.02),
    "Acrobot": Controlled("Acrobot-v1", swing, 300, 250, 500, 0.02),
    "Pendulum": Controlled("Pendulum-v1", upright, 200, 500, 2_000, 0.05),
    "LunarLander": Controlled("LunarLander-v3", land, 400, 500, 4_000, 0.15),
}


Act = Callable[[list[Any]], FloatArray]
"""What is done at each of so many observations: `values [n, p]`."""


def expert_of(task: ContinuousTask) -> Act:
    """What the controller does."""
    return lambda seen: np.array([task.answer(one, 0) for one in seen])


def policy_of(committee: NetworkCommittee, choices: ActionChoices, task: ContinuousTask) -> Act:
    """What a committee does that never asks."""
    return lambda seen: choices.values[committee.decide(task.encoding.vectors(seen))[0]]


def earned(spec: Controlled, act: Act, episodes: int, first: int = 3_000_000) -> float:
    """The mean return over episodes of fresh seeds, all played at the same time."""
    tasks = [spec.open() for _ in range(episodes)]
    seen = [task.reset(first + number) for number, task in enumerate(tasks)]
    playing, total = list(range(episodes)), 0.0
    for _ in range(spec.horizon):
        over = set()
        for number, values in zip(playing, act([seen[number] for number in playing]), strict=True):
            task = tasks[number]
            seen[number], reward, terminated, truncated, _ = task.env.step(task.encoding.action(values))
            total += float(reward)
            if terminated or truncated:
                over.add(number)
        playing = [number for number in playing if number not in over]
        if not playing:
            break
    for task in tasks:
        task.close()
    return total / episodes
