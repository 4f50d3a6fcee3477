"""Policy-entropy querying: ask where the posterior disagrees most about what the expert does.

Lopes, Melo and Montesano, "Active Learning for Reward Estimation in Inverse Reinforcement Learning" (ECML PKDD 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.bench.rivals.querying import PosteriorDraws, Querying, entropy
from aceirl.models.tabular.mdp import FloatArray


@dataclass(frozen=True)
class PolicyEntropy(Querying):
    """The paper's Algorithm 1: the state with the largest mean entropy `1/A·Σ_a H(μ_sa)` is asked about.

    `μ_sa` is the posterior law of `π(a|s)`, the probability that the expert takes `a`, as a histogram of `bins` bins
    of one width over `[0, 1]`. Differs: see `querying`; and policies have a step, so there is such a law at each.

    Not checked against a number of the paper, whose figures show curves without a table. What it claims, that fewer
    answers are needed than by asking at random, was looked for in `benchmarks/rivals_bayesian.py` and not found there:
    in grids with cells of a few kinds both lose the same. Checked by tests is the formula.
    """

    bins: int = 10

    summary: ClassVar = "go where the posterior disagrees most about the expert's policy (paper: active sampling)"

    def acquisition(self, drawn: PosteriorDraws) -> FloatArray:
        """`[H, S]`: the mean entropy of the histograms."""
        return policy_entropy(drawn.policies, self.bins)


def policy_entropy(policies: FloatArray, bins: int) -> FloatArray:
    """`[H, S]`: the entropy of the histogram of each `π(a|h, s)` over `policies [M, H, S, A]`, its mean over `a`."""
    bin_of = np.clip(np.ceil(policies * bins).astype(np.int64) - 1, 0, bins - 1)
    shares = np.array([(bin_of == k).mean(axis=0) for k in range(bins)])
    return np.asarray(entropy(shares, axis=0).mean(axis=2))
