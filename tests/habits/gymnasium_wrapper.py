"""A Gymnasium user: a wrapper that pays the learned reward, and steps counted as usual."""

import gymnasium as gym

import aceirl

env = gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20)
shortest = {0: 1, 4: 1, 8: 2, 9: 1, 13: 2, 14: 2, 1: 2, 2: 1, 3: 0, 6: 1, 10: 1}
result = aceirl.ActiveIRL().fit(env, lambda obs: shortest.get(obs, 1))
wrapped = result.wrapper(env)
obs, info = wrapped.reset(seed=3)
obs, reward, terminated, truncated, info = wrapped.step(wrapped.action_space.sample())
assert isinstance(reward, float)
assert result.reward(14, 2, 15) >= result.reward(0, 1, 4)
wrapped.close()
