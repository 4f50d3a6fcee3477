"""
What a bin costs
================

MountainCar's observations are two numbers, place and speed. The expert pushes the way the car rolls, so it looks at
the sign of the speed and at nothing else. Ten bins of the speed have an edge at zero. Nine have none: there the expert
does two things in one bin, and a policy of bins cannot follow it. The run notices, says where, and promises nothing.
"""

import json

import matplotlib.pyplot as plt
import numpy as np

from aceirl import ActiveIRL, Bins


def swing(observation):
    """Push the way the car rolls."""
    return 2 if observation[1] >= 0 else 0


results = {}
for bins, budget in ((10, 20_000), (9, 5_000)):
    cut = Bins((-1.2, -0.07), (0.6, 0.07), (bins, bins))
    # All 200 steps of an episode cost one, so that two episodes differ by 200 at most. Only the promise matters here,
    # so the expert is followed and the reward is inferred seldom.
    learner = ActiveIRL(
        strategy="advice", irl="feasible-point", max_return=200.0, max_samples=budget, infer_after_growth=10.0
    )
    results[bins] = learner.fit("MountainCar-v0", swing, discretise=cut)
    print(f"{bins} by {bins}:", results[bins].certificate.in_words().split(". ")[0])
contradicted = sum(bool(n) for n in results[9].turn.counts.contradicted)
print(f"9 by 9: the expert contradicted itself in {contradicted} bins")

# %%
# Where the expert contradicted the first answer of a bin.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained", sharey=True)
for ax, (bins, result) in zip(axes, results.items(), strict=True):
    shares = np.full((bins, bins), np.nan)
    cut = result.task.environment.states.discretise
    for name, (same, other) in zip(result.turn.names, result.turn.counts.repeats, strict=True):
        if same + other:  # a state is called after the first observation in it
            place, speed = cut(json.loads(name))
            shares[speed, place] = other / (same + other)
    drawn = ax.imshow(shares, origin="lower", extent=(-1.2, 0.6, -0.07, 0.07), aspect="auto", vmin=0, vmax=1)
    ax.set(title=f"{bins} by {bins} bins", xlabel="place")
    ax.axhline(0, color="#d55e00", linewidth=1)
axes[0].set_ylabel("speed")
colours = figure.colorbar(drawn, ax=axes, label="share of answers that\ncontradict the first")
