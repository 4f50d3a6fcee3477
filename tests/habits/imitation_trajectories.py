"""An imitation user: trajectories collected with a policy are the expert."""

import gymnasium as gym
import numpy as np
from imitation.data.types import TrajectoryWithRew

from aceirl import ActiveIRL

env = gym.make("FrozenLake-v1", is_slippery=False)
obs, acts = np.array([0, 4, 8, 9, 13, 14, 15]), np.array([1, 1, 2, 1, 2, 2])
trajectory = TrajectoryWithRew(obs=obs, acts=acts, rews=np.eye(6)[5], infos=None, terminal=True)
result = ActiveIRL(max_samples=2000, rng=np.random.default_rng(0)).fit(env, demonstrations=[trajectory] * 5)
print(result.reward(14, 2, 15))
