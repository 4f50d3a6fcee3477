"""PAC-EIG: ask where an answer is expected to tell most about the apprentice's regret.

Bajgar, Gould, Liu, Abate, Gatsis and Osborne, "PAC Apprenticeship Learning with Bayesian Active Inverse Reinforcement
Learning" (RLC 2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.bench.rivals.querying import PosteriorDraws, Querying, entropy
from aceirl.models.tabular.mdp import FloatArray, IntArray


@dataclass(frozen=True)
class PacEIG(Querying):
    """The expected information gain of an answer about the immediate regret of the apprentice in the same state.

    The immediate regret is `max Q(s, ·) - Q(s, a)` for the action of the apprentice, which does what is best for the
    posterior mean. `I(a; ρ) = H(E π(·|s)) - E H(E[π(·|s) | ρ])`, where the regret `ρ` is known up to one of `bins`
    groups of about as many samples each; equal regrets are in one group. Differs: see `querying`; and of the paper only
    what it says in words could be had, that it maximises the information about the immediate regret, so how regrets are
    grouped is ours.

    Not checked against a number of the paper, for the same reason. Checked in `benchmarks/rivals_bayesian.py` and by
    tests: the gain is never above that about the reward, it is zero where the regret is certain, and fewer answers are
    needed than by asking at random.
    """

    bins: int = 6

    summary: ClassVar = "go where an answer tells most about the apprentice's regret (paper: PAC-EIG)"

    def acquisition(self, drawn: PosteriorDraws) -> FloatArray:
        """`[H, S]`: the information gain."""
        return regret_gain(drawn.policies, grouped(drawn.immediate_losses, self.bins))


def grouped(regrets: FloatArray, bins: int) -> IntArray:
    """The group, 0 to `bins` - 1, of each of `regrets [M, …]` among those of the same state; equals are together.

    Regrets up to a billionth of the largest are equal.
    """
    rounded = np.round(regrets / max(float(regrets.max()), 1e-300), 9)
    ordered = np.sort(rounded, axis=0)
    numbers = np.arange(len(regrets)).reshape(-1, *(1,) * (regrets.ndim - 1))
    new = np.concatenate((np.ones_like(ordered[:1], dtype=np.bool_), np.diff(ordered, axis=0) > 0))
    smaller = np.maximum.accumulate(np.where(new, numbers, 0), axis=0)
    rank = np.empty_like(smaller)
    np.put_along_axis(rank, np.argsort(rounded, axis=0, kind="stable"), smaller, axis=0)
    return rank * bins // len(regrets)


def regret_gain(policies: FloatArray, groups: IntArray) -> FloatArray:
    """`[H, S]`: in nats, what an answer tells about the group of the policy that it is from.

    `policies [M, H, S, A]` are equally likely, and `groups [M, H, S]` numbers from zero.
    """
    left = np.zeros(policies.shape[1:3])
    for group in range(int(groups.max()) + 1):
        member = (groups == group).astype(np.float64)
        share = member.mean(axis=0)
        mean = (policies * member[..., None]).mean(axis=0) / np.maximum(share, 1e-300)[..., None]
        left += share * entropy(mean)
    return np.maximum(entropy(policies.mean(axis=0)) - left, 0.0)
