"""
The feasible set of a 3×3 grid
==============================

The expert goes to the cell on the right of the middle row. Many rewards make that optimal. Here are the true one, two
that a solver found as extreme members of the feasible set, and three members drawn at random. In all of them every
action of the expert is optimal: `contains` checks it by backward induction.
"""

import matplotlib.pyplot as plt
import numpy as np

from aceirl import FeasibleRewardSet, make, rewards

problem = make("gridworld", seed=0)
feasible = FeasibleRewardSet.of_problem(problem.mdp, problem.expert, rmax=1.0)
rng = np.random.default_rng(0)

centre, corner = np.zeros(problem.mdp.shape), np.zeros(problem.mdp.shape)
centre[:, 4], corner[:, 0] = 1.0, 1.0
members = {
    "the truth": problem.reward,
    "most for the centre": rewards.extreme(feasible, centre).reward,
    "most for a corner": rewards.extreme(feasible, corner).reward,
    **{f"drawn at random, {i + 1}": reward for i, reward in enumerate(rewards.sample(feasible, rng, 3))},
}
for name, reward in members.items():
    print(f"{name:22}", rewards.contains(feasible, reward))

# %%
# Each cell shows the mean over steps and actions.

figure, axes = plt.subplots(2, 3, figsize=(7.5, 5.2), layout="constrained")
for ax, (name, reward) in zip(axes.flat, members.items(), strict=True):
    drawn = ax.imshow(reward.mean(axis=(0, 2)).reshape(3, 3).T, origin="lower", vmin=0, vmax=1, cmap="viridis")
    ax.set(title=name, xticks=[], yticks=[])
colours = figure.colorbar(drawn, ax=axes, label="mean reward", shrink=0.6)

# %%
# So the expert's behaviour alone does not determine a reward that may depend on step, state and action. What it rules
# out is the rest: of rewards drawn from the whole box, none of a thousand is feasible.

box = rng.uniform(size=(1000, *problem.mdp.shape))
print(sum(bool(rewards.contains(feasible, reward)) for reward in box), "of 1000 random rewards are feasible")
