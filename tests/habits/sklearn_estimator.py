"""A scikit-learn user: parameters in the constructor, fit, predict on the estimator, get_params."""

import gymnasium as gym

from aceirl import ActiveIRL

env = gym.make("FrozenLake-v1", is_slippery=False)
shortest = {0: 1, 4: 1, 8: 2, 9: 1, 13: 2, 14: 2, 1: 2, 2: 1, 3: 0, 6: 1, 10: 1}
model = ActiveIRL(max_samples=2000, random_state=0)
print(model, model.get_params()["max_samples"])
model.fit(env, lambda obs: shortest.get(obs, 1))
print(model.predict([0, 4, 8]))
