"""An imitation user: environment and expert to the constructor, then train()."""

import gymnasium as gym

from aceirl import ActiveIRL

env = gym.make("FrozenLake-v1", is_slippery=False)
shortest = {0: 1, 4: 1, 8: 2, 9: 1, 13: 2, 14: 2, 1: 2, 2: 1, 3: 0, 6: 1, 10: 1}
trainer = ActiveIRL(env=env, expert=lambda obs: shortest.get(obs, 1))
trainer.train(total_timesteps=2000)
print(trainer.policy)
