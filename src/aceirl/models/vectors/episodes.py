"""Episodes in a simulator whose observations are vectors, and the actions that are tried in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from aceirl.data.arrays import BoolArray, FloatArray
from aceirl.errors import InputError

Act = Callable[[Any], Any]
"""A policy: an observation in, one of the environment's own actions out."""

BatchReward = Callable[[FloatArray, FloatArray, FloatArray, BoolArray], FloatArray]
"""`[n]` of observations `[n, d]`, actions `[n, m]`, arrivals `[n, d]`, and whether those are ends `[n]`."""

LEVELS = 5
"""How many values of one continuous action are tried, evenly from the lowest to the highest."""

MOST_CHOICES = 125
"""How many continuous actions are tried at most; where the product has more, so many are drawn from it."""


@dataclass(frozen=True, eq=False)
class Episode:
    """`observations [n+1, d]` and `actions [n]` or `[n, m]`; `terminated` if the last observation is an end, else a
    limit of time cut the episode. `seed` is what the environment was reset with, `paid` the sum of its rewards."""

    observations: FloatArray
    actions: Any
    terminated: bool
    seed: int
    paid: float = 0.0

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return len(self.actions)

    @property
    def arrivals(self) -> FloatArray:
        """`[n, d]`: the observations that the steps led to."""
        return self.observations[1:]

    @property
    def ends(self) -> Any:
        """`[n]`: whether each step ended the episode."""
        ends = np.zeros(self.steps, dtype=bool)
        ends[-1:] = self.terminated
        return ends


def play(env: Any, act: Act, seed: int) -> Episode:
    """One episode of a policy in a Gymnasium environment."""
    observation, _ = env.reset(seed=seed)
    observations = [np.asarray(observation, dtype=np.float64)]
    actions: list[Any] = []
    paid, over, terminated = 0.0, False, False
    while not over:
        action = act(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        observations.append(np.asarray(observation, dtype=np.float64))
        actions.append(action)
        paid += float(reward)
        over = terminated or truncated
    return Episode(np.array(observations), np.array(actions), bool(terminated), seed, paid)


def discounted(paid: FloatArray, terminated: bool, gamma: float, last: int = 20) -> FloatArray:
    """`[k]`: discounted sums of `paid [n, k]`; unless `terminated`, the mean of the `last` rows goes on for ever."""
    n = len(paid)
    total = gamma ** np.arange(n) @ paid
    if not terminated and n:
        total = total + gamma**n / (1 - gamma) * paid[-last:].mean(axis=0)
    return np.asarray(total)


def worth(reward: BatchReward, episode: Episode, gamma: float) -> float:
    """The discounted sum of rewards of an episode; one cut by a limit of time goes on as in its last steps."""
    actions = np.asarray(episode.actions, dtype=np.float64).reshape(episode.steps, -1)
    paid = reward(episode.observations[:-1], actions, episode.arrivals, episode.ends)
    return float(discounted(np.asarray(paid)[:, None], episode.terminated, gamma)[0])


@dataclass(frozen=True, eq=False)
class TriedActions:
    """The actions among which plans choose: all of a Discrete space, a grid over a Box.

    `values [A, m]` has them as vectors; of a Discrete space `m` is 1 and the numbers start at `start`.
    """

    values: FloatArray
    discrete: bool

    @classmethod
    def of(cls, space: Any) -> TriedActions:
        """The choices of an action space; an error for one that is neither Discrete nor a bounded Box."""
        from gymnasium import spaces

        match space:
            case spaces.Discrete():
                return cls(np.arange(space.start, space.start + space.n, dtype=np.float64)[:, None], True)
            case spaces.Box() if space.is_bounded() and len(space.shape) == 1:
                axes = [np.linspace(low, high, LEVELS) for low, high in zip(space.low, space.high, strict=True)]
                if LEVELS ** len(axes) <= MOST_CHOICES:
                    return cls(np.array(list(product(*axes))), False)
                drawn = np.random.default_rng(0).integers(LEVELS, size=(MOST_CHOICES, len(axes)))
                return cls(np.array([[axis[k] for axis, k in zip(axes, row, strict=True)] for row in drawn]), False)
        raise InputError(f"the action space is {space}; it must be Discrete, or a Box with one axis and finite bounds")

    def __len__(self) -> int:
        return len(self.values)

    def action(self, number: int) -> Any:
        """A choice as the environment takes it."""
        return int(self.values[number, 0]) if self.discrete else self.values[number].astype(np.float32)

    def parts(self, actions: Any) -> FloatArray:
        """`[n, m]`: the environment's actions as regressions take them: one-hot if Discrete, -1 to 1 in a Box."""
        vectors = np.asarray(actions, dtype=np.float64).reshape(len(actions), -1)
        if self.discrete:
            return np.asarray(vectors == self.values[:, 0], dtype=np.float64)
        low, high = self.values.min(axis=0), self.values.max(axis=0)
        return np.asarray((vectors - (low + high) / 2) / np.maximum((high - low) / 2, 1e-9))

    def within(self, parts: FloatArray) -> Any:
        """The action of a Box whose `parts [m]` are these; what is beyond -1 or 1 is cut."""
        low, high = self.values.min(axis=0), self.values.max(axis=0)
        return ((low + high) / 2 + np.clip(parts, -1.0, 1.0) * (high - low) / 2).astype(np.float32)

    def draw(self, rng: np.random.Generator) -> Any:
        """An action at random: any of a Discrete space, anywhere in a Box."""
        if self.discrete:
            return self.action(int(rng.integers(len(self))))
        return rng.uniform(self.values.min(axis=0), self.values.max(axis=0)).astype(np.float32)
