"""
Ask where unsure
================

CartPole's four numbers cannot be counted, and nothing is cut into bins. Three hundred answers teach a committee of
networks what the expert does. It acts where it is sure and asks where it is not, and two hundred demonstrations from
which nothing is learned say how much it has to ask for a promise.
"""

import matplotlib.pyplot as plt
import numpy as np

from aceirl import ActiveIRL


def balance(observation):
    """Push to the side to which a weighted sum leans."""
    place, speed, angle, turning = observation
    return int(angle + 0.25 * turning + 0.05 * place + 0.1 * speed > 0)


result = ActiveIRL(max_answers=300, calibration_episodes=200).fit("CartPole-v1", balance, horizon=200)
result.show()

# %%
# What it does and where it asks, for a cart that stands in the middle. The line is where the expert changes its mind.

angle, turning = np.meshgrid(np.linspace(-0.2, 0.2, 81), np.linspace(-2, 2, 81))
seen = np.column_stack((np.zeros((angle.size, 2)), angle.ravel(), turning.ravel()))
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained", sharey=True)
shown = {"pushes to the right": result.predict(seen)[0], "asks": result.ask_here(seen)}
for ax, (title, values) in zip(axes, shown.items(), strict=True):
    ax.pcolormesh(angle, turning, np.reshape(values, angle.shape).astype(float), cmap="Blues", vmin=0, vmax=1.5)
    ax.plot(angle[0], -4 * angle[0], color="#d55e00", linewidth=1)
    ax.set(title=title, xlabel="pole angle", ylim=(-2, 2))
label = axes[0].set_ylabel("pole angular velocity")
