"""
A reward of coordinates, taken elsewhere
========================================

MountainCar's expert pushes where the car moves. Where the actions are swapped and gravity is stronger, whoever copies
it never leaves the valley. What the expert wants can be taken there: a reward is found by leading the expert astray,
and planned with in a world of which nothing is known beforehand.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

from aceirl import ActiveIRL


def push_along(observation):
    """Push where it moves."""
    return 2 if observation[1] >= 0 else 0


class Swapped(gymnasium.ActionWrapper):
    """Left is right."""

    def action(self, action):
        return 2 - action


result = ActiveIRL(max_answers=60, certify=None).fit("MountainCar-v0", push_along, horizon=200)
print(result.sentence)

away = Swapped(gymnasium.make("MountainCar-v0"))
away.unwrapped.gravity = 0.003
planned = result.transfer(away)
print(planned.in_words())

# %%
# An episode of each in the changed world; the flag is at 0.5.


def path(act):
    """The positions of one episode."""
    observation, _ = away.reset(seed=1)
    positions, over = [observation[0]], False
    while not over:
        observation, _, terminated, truncated, _ = away.step(act(observation))
        positions.append(observation[0])
        over = terminated or truncated
    return np.array(positions)


figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.plot(path(push_along), label="copying the expert")
ax.plot(path(planned.predict), label="planning with its reward")
ax.axhline(0.5, color="#888888", linewidth=1, linestyle=":")
ax.set(xlabel="step", ylabel="position")
legend = ax.legend(frameon=False)
