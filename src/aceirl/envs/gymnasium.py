"""Any Gymnasium environment with discrete actions as the learner wants it, used through `reset` and `step` alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from aceirl.envs.fields import fields_of
from aceirl.envs.pay import PaySeen
from aceirl.errors import InputError, cause, shown
from aceirl.models.fields.table import Fields, Given
from aceirl.models.tabular.encoder import Discretise, StateIndex, read
from aceirl.models.tabular.mdp import check_horizon
from aceirl.protocols import Seen

OLD_INTERFACE = "an environment of the old Gym has to be wrapped, for example with shimmy's GymV21CompatibilityV0"


class GymAdapter(ABC):
    """Gymnasium's actions by number, the encoder of its observations, and the rules for steps: what all adapters share.

    Truncation is a limit on patience and not part of the dynamics, so it may come only at the horizon.
    """

    initial = None

    def __init__(
        self,
        horizon: int,
        action_space: gymnasium.Space[Any],
        observation_space: gymnasium.Space[Any],
        discretise: Discretise | None,
    ) -> None:
        self.horizon = horizon
        self.action_space = action_space
        self.actions = actions_of(action_space)
        self.n_actions = len(self.actions)
        self._numbers = {one: number for number, one in enumerate(self.actions) if isinstance(one, int)}
        self.states = StateIndex(observation_space, discretise)
        self.pay_seen = PaySeen()
        self._step: int | None = None

    @abstractmethod
    def reset(self, rng: np.random.Generator) -> Any:
        """Begin an episode and return its observation."""

    @abstractmethod
    def step(self, action: int) -> Seen:
        """Take an action; the observation it led to, the last one once the episode is over, and whether it is."""

    @property
    def binned(self) -> bool:
        """Whether a state may have several observations."""
        return self.states.binned

    @property
    def n_states(self) -> int:
        """How many states were met so far."""
        return len(self.states)

    @property
    def terminal(self) -> frozenset[int]:
        """The states met so far in which episodes are over."""
        return self.states.terminal

    @property
    def names(self) -> tuple[str, ...]:
        """The states met so far, as text in their order."""
        return self.states.names

    def observation(self, state: int) -> Any:
        """The observation that stands for a state."""
        return self.states.observation(state)

    def key(self, observation: Any) -> Hashable:
        """The same for two observations exactly if they are one state."""
        return self.states.key(observation)

    def read_observation(self, written: Any) -> Any:
        """An observation from its form in JSON."""
        observation = read(self.states.space, written)
        if not self.states.space.contains(observation):
            raise InputError(f"{written!r} is not in {self.states.space}")
        return observation

    def action(self, number: int) -> Any:
        """The environment's own action of that number."""
        return self.actions[number]

    def action_number(self, action: Any) -> int | None:
        """The number of one of the environment's own actions; None if it is not one."""
        if type(action) is int:
            return self._numbers.get(action)
        array = np.asarray(action)
        if array.dtype.kind == "f" and (array == np.round(array)).all():  # as networks and tables of floats have them
            array = array.astype(np.int64)
        if array.dtype.kind not in "biu":
            return None
        alone = np.squeeze(array)
        if alone.ndim == 0:
            return self._numbers.get(int(alone))
        return next((number for number, known in enumerate(self.actions) if np.array_equal(known, alone)), None)

    def _count_step(self) -> None:
        if self._step is None or self._step >= self.horizon:
            raise InputError("step was called outside an episode; call reset first")
        self._step += 1

    def _check_truncation(self, truncated: Any) -> None:
        if truncated and self._step != self.horizon:
            raise InputError(
                f"the environment truncated an episode after {self._step} steps, before the horizon of {self.horizon}; "
                f"choose horizon={self._step}, or lift its limit with max_episode_steps={self.horizon}"
            )


class GymEnvironment(GymAdapter):
    """A Gymnasium environment with discrete actions.

    `horizon` is by default the environment's own limit of steps, and an environment that truncates earlier is an error.
    Every episode is seeded from the generator that `reset` is given. `fields` say what observations consist of.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        horizon: int | None = None,
        discretise: Discretise | None = None,
        fields: Given | None = None,
    ) -> None:
        super().__init__(checked_horizon(env, horizon), env.action_space, env.observation_space, discretise)
        self._env, self._given_fields = env, fields
        self._ended: Seen | None = None

    @cached_property
    def fields(self) -> Fields:
        """What observations consist of; the environment is asked for it by those who want to know."""
        return fields_of(self._env, self._given_fields)

    @property
    def named_fields(self) -> list[str] | dict[str, str] | None:
        """The fields as they were given in the call or in the class, if that is by names or kinds, as plain values."""
        given: Any = getattr(self._env.unwrapped, "fields", None) if self._given_fields is None else self._given_fields
        if isinstance(given, Mapping):
            return dict(given) if all(isinstance(kind, str) for kind in given.values()) else None
        return list(given) if isinstance(given, list | tuple) else None

    def reset(self, rng: np.random.Generator) -> Any:
        """Begin an episode and return its observation."""
        seed = seed_from(rng)
        try:
            begun: Any = self._env.reset(seed=seed)
        except Exception as error:
            raise failure(f"reset(seed={seed})", error) from error
        if not isinstance(begun, tuple) or len(begun) != 2:
            raise InputError(f"reset must return (observation, info), got {shown(begun)}; {OLD_INTERFACE}")
        self._step, self._ended = 0, None
        self.pay_seen.begin()
        return begun[0]

    def step(self, action: int) -> Seen:
        """Take an action; the observation it led to, the last one once the episode is over, and whether it is."""
        self._count_step()
        if self._ended is not None:
            return self._ended
        try:
            taken: Any = self._env.step(self.actions[action])
        except Exception as error:
            raise failure(f"step {self._step} of an episode, with action {self.actions[action]}", error) from error
        if not isinstance(taken, tuple) or len(taken) != 5:
            raise InputError(
                f"step must return (observation, reward, terminated, truncated, info), got {shown(taken)}; "
                f"{OLD_INTERFACE}"
            )
        observation, reward, terminated, truncated, _ = taken
        self.pay_seen.add(reward)
        if terminated:
            self._ended = observation, True
        else:
            self._check_truncation(truncated)
        return observation, bool(terminated)


def check_interface(env: Any) -> None:
    """Refuse what has spaces and is no environment of Gymnasium."""
    if not isinstance(env, gymnasium.Env | VectorEnv):
        raise InputError(
            f"{type(env).__name__} is not a gymnasium.Env: derive it from that class, with reset(*, seed, options) "
            f"that returns (observation, info); {OLD_INTERFACE}"
        )


def seed_from(rng: np.random.Generator) -> int:
    """The seed of one episode."""
    return int(rng.integers(2**31))


def failure(where: str, error: Exception) -> InputError:
    """The error for an environment that raised one."""
    said = "its process has died" if isinstance(error, EOFError) and not str(error) else cause(error)
    return InputError(f"the environment failed in {where}: {said}")


def checked_horizon(env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], horizon: int | None) -> int:
    """The steps of an episode: as given, or else the environment's own limit."""
    spec = getattr(env, "spec", None)
    limit = spec.max_episode_steps if spec is not None else None
    if horizon is None:
        if limit is None:
            raise InputError("horizon must be given (--horizon): the environment does not say how long an episode is")
        return int(limit)
    check_horizon(horizon)
    if limit is not None and horizon > limit:
        raise InputError(
            f"horizon is {horizon}, but the environment truncates episodes after {limit} steps; "
            f"make it with max_episode_steps={horizon}"
        )
    return int(horizon)


def actions_of(space: gymnasium.Space[Any]) -> tuple[Any, ...]:
    """All actions in order."""
    match space:
        case spaces.Discrete():
            return tuple(int(space.start) + action for action in range(int(space.n)))
        case spaces.MultiDiscrete():
            start = getattr(space, "start", np.zeros_like(space.nvec))
            return tuple(start + np.array(index, dtype=space.dtype) for index in np.ndindex(*space.nvec))
        case _:
            raise InputError(f"actions must be Discrete or MultiDiscrete, and the environment's are {space}")
