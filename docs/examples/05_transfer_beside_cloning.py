"""
Transfer beside cloning
=======================

The same answers are used in three ways where actions fail differently and episodes start anywhere: plan with the
recovered reward of places, plan with the paper's reward, a table for every step, state and action, or copy the answers.
"""

import matplotlib.pyplot as plt
import numpy as np

from aceirl import ActiveIRL, Truth, make
from aceirl.learner.transfer import KnownProcess

home = make("four-paths", seed=0)
elsewhere = make("four-paths", seed=3)  # other dynamics
result = ActiveIRL(seed=0, max_samples=1000, certify=None).fit(home)
print(result.in_words().splitlines()[0])

# %%
# The target has other dynamics, and its episodes start anywhere. The goal stays that of the expert at home.

target = KnownProcess(elsewhere.mdp, home.layout.state_names, reward=home.reward).starting("uniform")
table = result.resume(reward="any", irl="max-causal-entropy")
known = result.turn.belief.known_actions  # -1 where the expert never answered: there any action will do
copies = np.where(known[:, :, None] < 0, 1 / target.mdp.n_actions, np.eye(target.mdp.n_actions)[known])
regret = {
    "plan with the reward": result.transfer(target).regret,
    "plan with the table": table.transfer(target).regret,
    "copy the answers": Truth(target.mdp, target.reward).regret(copies),
}
for name, lost in regret.items():
    print(f"{name:22} loses {lost:.1%}")

# %%
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
bars = ax.barh(list(regret)[::-1], list(regret.values())[::-1], color=["#7d868c", "#e69f00", "#0072b2"])
ax.bar_label(bars, fmt="{:.0%}", padding=4)
ax.set(xlim=(0, 1.08), xlabel="normalised regret in the other process")
ax.spines[["top", "right"]].set_visible(False)
