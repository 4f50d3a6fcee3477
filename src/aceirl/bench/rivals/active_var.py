"""ActiveVaR: ask where the policy that one would deploy may lose most.

Brown, Cui and Niekum, "Risk-Aware Active Inverse Reinforcement Learning" (CoRL 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.bench.rivals.querying import PosteriorDraws, Querying
from aceirl.models.tabular.mdp import FloatArray


@dataclass(frozen=True)
class ActiveVaR(Querying):
    """The paper's Algorithm 1: the start with the largest value at risk of the apprentice's loss is asked about.

    The loss from a state on is `V*(s) - V(s)` of the policy that is best for the posterior mean, under a reward drawn
    from the posterior; the value at risk is its quantile at the `level`. Differs: see `querying`; a question is for an
    action, not for a critique; the evaluated policy is that of the mean reward, not of the likeliest one; and the prior
    is that of `irl.posterior`, not uniform over weights of norm one.

    Not checked against a number of the paper: its figures show curves without a table, and in the code that its authors
    released the state with the largest value at risk is worked out, but another, drawn at random, is what is shown for
    a critique. Checked in `benchmarks/rivals_bayesian.py` is what the paper says the quantile is: a bound on the true
    loss that holds as often as its level says.
    """

    level: float = 0.95

    summary: ClassVar = "go where the apprentice's policy may lose most (paper: ActiveVaR)"

    def acquisition(self, drawn: PosteriorDraws) -> FloatArray:
        """`[H, S]`: the value at risk."""
        return value_at_risk(drawn.losses, self.level)


def value_at_risk(losses: FloatArray, level: float) -> FloatArray:
    """The quantile at the `level` of losses `[M, …]` over `M`: the smallest that so large a share is at most."""
    return np.quantile(losses, level, axis=0, method="inverted_cdf")
