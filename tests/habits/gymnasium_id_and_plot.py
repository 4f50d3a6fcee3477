"""A Gymnasium user: the id of an environment, a table of actions, a picture in a file."""

import matplotlib.pyplot as plt
import numpy as np

from aceirl import ActiveIRL

policy = np.array([2] * 11 + [1] + [2] * 11 + [1] + [2] * 11 + [1] + [0] * 12)
policy[36] = 0
result = ActiveIRL(max_samples=3000, seed=1).fit("CliffWalking-v1", policy, horizon=30)
print(result)
fig = result.plot()
fig.savefig("reward.png")
plt.close(fig)
