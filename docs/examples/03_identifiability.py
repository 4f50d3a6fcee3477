"""
Identifiability lost and regained
=================================

When is a reward determined? Seek it in a small space, here one number for each place, and fix its scale: the largest
is 1 and the smallest is 0. Then each place has an interval of values that explain all answers. With answers at every
step the 3×3 grid is determined completely. With an expert who is known only on the last step, hardly anything is.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from aceirl import make, rewards

problem = make("gridworld", seed=0)
exact = rewards.FeasibleRewardSet.of_problem(problem.mdp, problem.expert, space=rewards.StateReward())
names = problem.layout.state_names


def known_at(steps):
    """The same set, where only the answers at these steps are known."""
    policy = np.zeros_like(problem.expert)
    policy[steps] = problem.expert[steps]
    return replace(exact, expert_policy=policy, known=policy.any(axis=2))


cases = {
    "answers at every step": exact,
    "answers at the last three steps": known_at(slice(7, 10)),
    "answers at the last step": known_at(slice(9, 10)),
}
intervals = {name: rewards.normalised_intervals(case) for name, case in cases.items()}
for name, found in intervals.items():
    print(f"{name}: {int((np.ptp(found, axis=1) <= 0.1).sum())} of 9 places are determined")

# %%
# At the last step nothing follows, so every action earns what its place pays: the answer says nothing. Earlier answers
# compare places with each other.

figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), sharey=True, layout="constrained")
for ax, (name, found) in zip(axes, intervals.items(), strict=True):
    ax.barh(range(9), np.maximum(np.ptp(found, axis=1), 0.02), left=found[:, 0] - 0.01, color="#26779e")
    ax.set(title=name, xlim=(-0.05, 1.05), xlabel="possible values", yticks=range(9), yticklabels=names)
    ax.title.set_fontsize(10)
label = axes[0].set_ylabel("place (column, row)")
