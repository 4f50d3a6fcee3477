"""The evaluation as Stable-Baselines3 does it: in batches, with the state that `predict` returned last."""

from __future__ import annotations

from typing import Any

import numpy as np


def evaluate_policy(model: Any, env: Any, n_eval_episodes: int = 10, deterministic: bool = True) -> tuple[float, float]:
    """Mean and standard deviation of the return."""
    returns = []
    for episode in range(n_eval_episodes):
        observation, _ = env.reset(seed=episode)
        state, start, total, over = None, np.ones(1, dtype=bool), 0.0, False
        while not over:
            batch = np.array([observation])
            actions, state = model.predict(batch, state=state, episode_start=start, deterministic=deterministic)
            observation, reward, terminated, truncated, _ = env.step(actions[0])
            total, over, start = total + reward, terminated or truncated, np.zeros(1, dtype=bool)
        returns.append(total)
    return float(np.mean(returns)), float(np.std(returns))
