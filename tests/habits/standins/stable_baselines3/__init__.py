"""The part of Stable-Baselines3's protocol that the scripts use, for machines where it is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np


class BaseAlgorithm:
    """A model whose policy is a table drawn from the seed; learning steps in the environment and leaves it as it is."""

    def __init__(self, policy: str, env: Any, *, seed: int | None = None, **options: Any) -> None:
        self.env = env
        rng = np.random.default_rng(seed)
        self.table = rng.integers(env.action_space.n, size=env.observation_space.n)

    def learn(self, total_timesteps: int) -> BaseAlgorithm:
        """As many steps as asked for, with a reward that must be a number."""
        self.env.reset(seed=0)
        for _ in range(total_timesteps):
            _, reward, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
            assert np.isfinite(reward)
            if terminated or truncated:
                self.env.reset()
        return self

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """The action for an observation or a batch of them, as an array, and the state as it was given."""
        return self.table[np.asarray(observation)], state


class DQN(BaseAlgorithm):
    """As the real one is called."""


class PPO(BaseAlgorithm):
    """As the real one is called."""
