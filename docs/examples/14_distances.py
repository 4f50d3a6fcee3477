"""
Distances between rewards
=========================

Two rewards can look different and order all policies alike: a factor and shaping by a potential change nothing. Here
are rewards that go from the truth, shaped by a random potential, to noise. STARC knows the process and is zero for the
shaped truth; EPIC and DARD notice a difference there that does no harm in this process.
"""

import matplotlib.pyplot as plt
import numpy as np

from aceirl import make, rewards
from aceirl.learner.outputs import shaped

problem = make("gridworld", seed=0)
rng = np.random.default_rng(0)
alike = 3 * shaped(problem.mdp, problem.reward, rng.normal(size=problem.mdp.shape[:2]))
noise = rng.normal(size=problem.mdp.shape) * alike.std()

shares = np.linspace(0, 1, 13)
mixed = [(1 - share) * alike + share * noise for share in shares]
measured = {
    "plain difference": [np.abs(r - problem.reward).mean() / np.abs(noise).mean() for r in mixed],
    "EPIC": [rewards.epic(r, problem.reward) for r in mixed],
    "DARD": [rewards.dard(problem.mdp, r, problem.reward) for r in mixed],
    "STARC": [rewards.starc(problem.mdp, r, problem.reward) for r in mixed],
    "regret of planning": [rewards.largest_regret([problem.mdp], r, problem.reward) for r in mixed],
}
for name, values in measured.items():
    print(f"{name:19} {values[0]:.2f} for the shaped truth, {values[-1]:.2f} for noise")

# %%
figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for name, values in measured.items():
    ax.plot(shares, values, "k--" if name.startswith("regret") else "-", label=name)
ax.set(xlabel="share of noise", ylabel="distance", ylim=(0, None))
legend = ax.legend(frameon=False)
