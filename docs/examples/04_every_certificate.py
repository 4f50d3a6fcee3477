"""
Every certificate firing
========================

A run stops on the certificate that it was asked for. The five kinds promise different things at different prices. This
is a small room with short episodes, so that all of them are cheap enough to watch; the sixth, `transfer`, is computed
at the end for a room without the obstacle.
"""

import matplotlib.pyplot as plt

from aceirl import ActiveIRL, make
from aceirl.certificates import transfer_certificate

problem = make("gridworld", seed=0, horizon=4)
kinds = {  # kind: strategy, episodes between two plans
    "policy": ("guided", 1),
    "criterion": ("guided", 1),
    "reward": ("ace", 200),
    "set": ("ace", 200),
    "dynamics": ("ace-rf", 200),
}
results = {
    kind: ActiveIRL(
        certify=kind, strategy=strategy, episodes_per_iteration=batch, confidence="adaptive", max_samples=10**6
    ).fit(problem)
    for kind, (strategy, batch) in kinds.items()
}
for kind, result in results.items():
    print(f"{kind:9}  {result.samples:7,} samples: {result.certificate.promise} {result.certificate.value:.2f}")

# %%
# Each curve is the value that is certified so far. It stops where it meets the accuracy that was asked, a tenth of an
# episode.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for kind, result in results.items():
    samples = [record.samples for record in result.records]
    ax.loglog(samples, [record.certificates[kind] for record in result.records], label=kind)
    ax.plot(samples[-1], result.certificate.value, "o", color=ax.lines[-1].get_color())
ax.axhline(result.certificate.epsilon, color="0.6", linewidth=1)
ax.set(xlabel="samples", ylabel="certified loss, at most")
legend = ax.legend(frameon=False, title="certificate")

# %%
# `transfer` is about planning with the recovered reward in another process that is known.

other = make("gridworld", seed=0, horizon=4, obstacle=0.0)
promise = transfer_certificate(results["set"].turn.belief, other.mdp)
print(f"transfer: {promise.promise} {promise.value:.2f}")
