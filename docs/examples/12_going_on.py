"""
Going on with a run
===================

A run that is over can be asked for more. Nothing that was paid for is lost: the second promise, twice as sharp, starts
from the evidence of the first.
"""

import matplotlib.pyplot as plt

from aceirl import ActiveIRL

first = ActiveIRL(seed=0).fit("gridworld")
closer = first.resume(epsilon=0.5)
again = ActiveIRL(seed=0, epsilon=0.5).fit("gridworld")
print(f"to {first.certificate.epsilon:g}: {first.samples:,} samples")
print(f"to 0.5, going on: {closer.samples - first.samples:,} more")
print(f"to 0.5, from the beginning: {again.samples:,}")

# %%
figure, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
samples = [record.samples for record in closer.records]
ax.semilogy(samples, [record.certificates["policy"] for record in closer.records], color="#0072b2")
for epsilon, at in ((first.certificate.epsilon, first.samples), (0.5, closer.samples)):
    ax.axhline(epsilon, color="0.7", linewidth=1)
    ax.plot(at, epsilon, "o", color="#d55e00")
    label = f"{epsilon:g} after {at:,}"
    note = ax.annotate(label, (at, epsilon), xytext=(-6, -14), textcoords="offset points", ha="right")
axis = ax.set(xlabel="samples", ylabel="the policy loses at most", ylim=(0.35, None))
