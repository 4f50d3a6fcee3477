"""What a Gymnasium environment can pay, where it says so or is known: for certificates in its own units."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np

from aceirl.envs.families import is_a
from aceirl.errors import InputError

# Wrappers that leave rewards as they are. Of an environment in another one nothing is known.
KEEP_REWARDS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "ObservationWrapper", "ActionWrapper", "EpisodeLog")

Pay = tuple[float | None, float | None]


class PaySeen:
    """What an environment paid while it was acted in: for people, who may know that it can pay no more.

    Nothing is learned from it.
    """

    def __init__(self) -> None:
        self.rewards: tuple[float, float] | None = None
        self.returns: tuple[float, float] | None = None
        self._sums: dict[int, float] = {}

    def begin(self, episodes: int = 1) -> None:
        """Begin so many episodes; those before are over."""
        for total in self._sums.values():
            self.returns = _widened(self.returns, total)
        self._sums = dict.fromkeys(range(episodes), 0.0)

    def add(self, reward: Any, episode: int = 0) -> None:
        """A step of an episode was paid for."""
        self.rewards = _widened(self.rewards, float(reward))
        self._sums[episode] += float(reward)

    @property
    def spans(self) -> Pay:
        """How far the rewards of two steps lay apart, one after the end of an episode being 0, and two returns."""
        if self.rewards is None or self.returns is None:
            return None, None
        low, high = _widened(self.rewards, 0.0)
        return high - low or None, self.returns[1] - self.returns[0] or None


def _widened(span: tuple[float, float] | None, value: float) -> tuple[float, float]:
    return (value, value) if span is None else (min(span[0], value), max(span[1], value))


def reward_range(env: Any, discount: float = 1.0) -> Pay:
    """How far the rewards of two steps, and the returns of two episodes, can lie apart; None where nobody says.

    A step after the end of an episode counts as one that pays 0. An environment says so by attributes `rmax` and
    `max_return`; those of the outermost wrapper that has any hold. What it says of returns does not hold for discounted
    ones: later rewards may take back earlier ones. Of those known here every episode is paid once.
    """
    for layer in _layers(env):
        told = {name: _declared(layer, name) for name in ("rmax", "max_return")}
        if any(value is not None for value in told.values()):
            return told["rmax"], told["max_return"] if discount == 1 else None
        if layer is not env.unwrapped and not any(kind.__name__ in KEEP_REWARDS for kind in type(layer).__mro__):
            return None, None
    return _known(env)


def _layers(env: Any) -> Iterator[Any]:
    """An environment with all its wrappers, the outermost first."""
    while env is not env.unwrapped:
        yield env
        env = env.env
    yield env


def _declared(layer: Any, name: str) -> float | None:
    """An attribute of the layer itself; None if it has none, or if that is no value."""
    value = getattr(layer, name, None) if name in dir(layer) else None
    if value is None or callable(value):
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise InputError(f"the environment's {name} is {value!r}; it must be a number above 0, or None")
    return float(value)


def _known(env: Any) -> Pay:
    """Of Gymnasium's own and of MiniGrid, what is in their tables or their rules."""
    own = env.unwrapped
    if any(is_a(env, name, "gymnasium") for name in ("FrozenLakeEnv", "CliffWalkingEnv", "TaxiEnv")):
        outcomes = np.array(
            [outcome[2:4] for row in own.P.values() for rows in row.values() for outcome in rows], dtype=np.float64
        )
        paid, over = outcomes.T
        span = float(paid.max(initial=0.0) - paid.min(initial=0.0))
        once = not paid[over == 0].any()
        return (span, span if once else None) if span > 0 else (None, None)
    if is_a(env, "BlackjackEnv", "gymnasium"):
        span = 2.5 if own.natural and not own.sab else 2.0
        return span, span
    if is_a(env, "MiniGridEnv", "minigrid"):
        span = 2.0 if is_a(env, "DynamicObstaclesEnv", "minigrid") else 1.0
        return span, span
    return None, None
