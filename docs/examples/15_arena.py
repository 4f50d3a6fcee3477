"""
The arena
=========

Methods side by side: the same task, the same seeds, one yardstick. Four rooms, entered in one of them; the expert knows
the way to a goal. `guided` tries what the expert declines near its way, cloning repeats its answers, and PAC-EIG asks
where a posterior over rewards expects to learn most. Samples are counted until planning with the reward elsewhere loses
at most 0.05 and keeps to it: from every start, and with a door closed.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt

from aceirl.bench.arena import ArenaResults, entries_of
from aceirl.bench.statistics import mean_curve
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, sweep

methods = ("guided", "pac-eig", "ace", "random", "cloning")
entries = entries_of(",".join(methods), "rooms", None, seeds=4)
with TemporaryDirectory() as folder:
    store = Store(Path(folder))
    for _ in sweep(entries.cells, store, Here()):
        pass
    results = ArenaResults.read(entries.cells, store)

for method in methods:
    print(f"{method:8} {results.summary('rooms', method, 'transfer', 'samples')} samples")

# %%
figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for method in methods:
    curve = mean_curve([(samples, regret) for samples, _, regret in results.series["rooms", method]])
    ax.plot(curve.samples, curve.mean, label=method)
ax.axhline(0.05, color="grey", linewidth=0.8, linestyle=":")
ax.set(xlabel="samples", ylabel="transfer regret", ylim=(0, 1))
legend = ax.legend(frameon=False)

# %%
# `aceirl arena` does this for every method, every task and fifty seeds, and writes a page; a method of your own takes
# part with one decorator.
