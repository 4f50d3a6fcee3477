"""An SB3 user: save, load, predict, with deterministic=True and the state that predict returns."""

import gymnasium as gym

import aceirl

env = gym.make("FrozenLake-v1", is_slippery=False)
shortest = {0: 1, 4: 1, 8: 2, 9: 1, 13: 2, 14: 2, 1: 2, 2: 1, 3: 0, 6: 1, 10: 1}
result = aceirl.ActiveIRL(max_samples=2000, verbose=1).fit(env, lambda obs: shortest.get(obs, 1))
result.save("frozen_lake_reward")
del result
result = aceirl.load("frozen_lake_reward")
obs, _ = env.reset()
action, _states = result.predict(obs, deterministic=True)
assert action in env.action_space
