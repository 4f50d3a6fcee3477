"""`uniform`: sample every `(h, s, a)` alike, with a generative model."""

from __future__ import annotations

import numpy as np

from aceirl.collect import Plan
from aceirl.explore.base import Belief


class Uniform:
    """Paper, "Uniform Sampling": as many samples as `N_E` episodes have steps, spread uniformly over `(h, s, a)`.

    Needs a generative model: it never walks anywhere.
    """

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """A multinomial draw over all `(h, s, a)`."""
        size = int(np.prod(belief.shape))
        samples = belief.episodes * belief.shape[0]
        return Plan(allocation=rng.multinomial(samples, np.full(size, 1.0 / size)).reshape(belief.shape))
