"""A Gymnasium user: an environment, a function that acts, the usual loop of episodes."""

import gymnasium as gym

from aceirl import ActiveIRL

env = gym.make("FrozenLake-v1", is_slippery=False)
shortest = {0: 1, 4: 1, 8: 2, 9: 1, 13: 2, 14: 2, 1: 2, 2: 1, 3: 0, 6: 1, 10: 1}
result = ActiveIRL(seed=0).fit(env, lambda obs: shortest.get(obs, 1))
obs, info = env.reset(seed=0)
done = False
while not done:
    action, _ = result.predict(obs)
    obs, reward, terminated, truncated, info = env.step(action)
    done = terminated or truncated
assert reward == 1.0
