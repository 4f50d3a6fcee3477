"""
Strategies compared
===================

Double Chain is a corridor of 31 states, entered in the middle; the expert goes to its right end. Random steps hardly
ever get there. `ace` plans for what is uncertain, and `guided`, the default, asks the expert which way to go.
"""

import matplotlib.pyplot as plt
import numpy as np

from aceirl import ActiveIRL, make
from aceirl.explain.plots import strategy_colour

strategies, seeds, grid = ("random", "greedy", "ace", "guided"), range(5), np.arange(500, 10_001, 500)
curves = {}
for strategy in strategies:
    runs = []
    for seed in seeds:
        learner = ActiveIRL(strategy=strategy, seed=seed, max_samples=10_000, episodes_per_iteration=25, certify=None)
        measured = [record for record in learner.fit(make("double-chain", seed)).records if record.regret is not None]
        runs.append(np.interp(grid, [one.samples for one in measured], [one.regret for one in measured]))
    curves[strategy] = np.array(runs)
    print(f"{strategy:7} mean regret after 5,000 samples: {curves[strategy][:, 9].mean():.2f}")

# %%
figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for strategy, runs in curves.items():
    colour = strategy_colour(strategy)
    ax.plot(grid, runs.mean(axis=0), color=colour, label=strategy)
    ax.fill_between(grid, runs.min(axis=0), runs.max(axis=0), color=colour, alpha=0.12, linewidth=0)
ax.set(xlabel="samples", ylabel="normalised regret", ylim=(0, 1))
legend = ax.legend(frameon=False)
