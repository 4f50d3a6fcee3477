"""Reward-EIG: ask where an answer is expected to tell most about the reward.

Bajgar, Gould, Liu, Abate, Gatsis and Osborne, "PAC Apprenticeship Learning with Bayesian Active Inverse Reinforcement
Learning" (RLC 2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.bench.rivals.querying import PosteriorDraws, Querying, entropy
from aceirl.models.tabular.mdp import FloatArray


@dataclass(frozen=True)
class RewardEIG(Querying):
    """The expected information gain of an answer about the reward, `I(a; θ) = H(E π(·|s)) - E H(π(·|s))`.

    The gain is the entropy of the answer as one expects it, less what would be left of it if the reward were known;
    means are over posterior samples. Differs: see `querying`; what the answers of one episode tell is added up, where
    they may tell the same.

    Not checked against a number of the paper, whose tables could not be had. Checked in `benchmarks/rivals_bayesian.py`
    and by tests: the gain is zero in a state that cannot be left, where the entropy of the answer alone is largest,
    which is the paper's case against asking by entropy; and fewer answers are needed than by asking at random.
    """

    summary: ClassVar = "go where an answer tells most about the reward (paper: Reward-EIG)"

    def acquisition(self, drawn: PosteriorDraws) -> FloatArray:
        """`[H, S]`: the information gain."""
        return information_gain(drawn.policies)


def information_gain(policies: FloatArray) -> FloatArray:
    """`[H, S]`: in nats, what an answer tells about which of the equally likely `policies [M, H, S, A]` it is from."""
    return np.asarray(np.maximum(entropy(policies.mean(axis=0)) - entropy(policies).mean(axis=0), 0.0))
