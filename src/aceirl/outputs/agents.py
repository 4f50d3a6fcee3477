"""The way back into Gymnasium: an environment that pays the recovered reward, and a policy that lives by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from aceirl.errors import InputError
from aceirl.outputs.gym_result import GymResult


class RecoveredReward(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """The environment with the recovered reward in the place of its own; train any agent on it.

    The environment's own reward stays in `info["original_reward"]`. `elsewhere` is what an action pays in states that
    were never met, instead of what the reward says of such: -1 keeps an agent to what is known.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], result: GymResult, elsewhere: float | None = None) -> None:
        if elsewhere is not None and not isinstance(elsewhere, int | float | np.number):
            raise InputError(f"elsewhere must be a number, such as -1, got {elsewhere!r}")
        gymnasium.utils.RecordConstructorArgs.__init__(self, result=result, elsewhere=elsewhere)
        gymnasium.Wrapper.__init__(self, env)
        self._result = replace(result, elsewhere=elsewhere)
        self._observation: Any = None
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._observation, info = self.env.reset(seed=seed, options=options)
        self._step = 0
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; it is paid by the observation it was taken in, and by the one it ended the episode with."""
        observation, original, terminated, truncated, info = self.env.step(action)
        reward = self._result(self._observation, action, self._step, observation, terminated=bool(terminated))
        self._observation, self._step = observation, self._step + 1
        return observation, reward, terminated, truncated, {**info, "original_reward": float(original)}


class GreedyPolicy:
    """The greedy policy of a recovered reward, with the `predict` that Stable-Baselines3 and imitation know.

    It depends on the step, and the `state` that `predict` takes and returns is that step, one for each environment.
    """

    def __init__(self, result: GymResult) -> None:
        self._result = result

    def check(self, observation: Any) -> None:
        """Refuse what is no observation, nor a batch of them, of the run's own environment."""
        for seen in _batch(self._result.states.space, observation)[1]:
            self._result.check(seen)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, tuple[Any, ...]]:
        """The actions for one observation or a batch of them, and the steps that come next."""
        space = self._result.states.space
        single, batch = _batch(space, observation)
        steps = np.zeros(len(batch), dtype=np.int64) if state is None else np.asarray(state[0])
        if episode_start is not None:
            steps = np.where(episode_start, 0, steps)
        actions = [self._result.act(seen, int(step)) for seen, step in zip(batch, steps, strict=True)]
        # A single action is a number of NumPy, which tables of transitions take as a key; an array of none is not.
        return (np.asarray(actions[0])[()] if single else np.asarray(actions)), (steps + 1,)


def _batch(space: gymnasium.Space[Any], observation: Any) -> tuple[bool, list[Any]]:
    """Whether it is a single observation, and the observations; a batch of dictionaries is a dictionary of batches."""
    if space.contains(observation):
        return True, [observation]
    if isinstance(space, gymnasium.spaces.Dict):
        parts = {name: [np.reshape(row, part.shape or ()) for row in observation[name]] for name, part in space.items()}
        return False, [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    single = np.ndim(observation) == len(space.shape or ())
    return single, [observation] if single else list(observation)
