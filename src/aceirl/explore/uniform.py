"""`uniform`: sample every `(h, s, a)` alike, with a generative model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aceirl.irl.belief import Belief, Plan
from aceirl.protocols import ExactPlanning


@dataclass(frozen=True)
class Uniform:
    """Paper, "Uniform Sampling": as many samples as `N_E` episodes have steps, spread uniformly over `(h, s, a)`.

    Needs a generative model: it never walks anywhere.
    """

    access: ClassVar = "generative model"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning,)
    summary: ClassVar = "sample every step, state and action equally often"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """A multinomial draw over all `(h, s, a)`."""
        size = int(np.prod(belief.shape))
        samples = belief.episodes * belief.shape[0]
        return Plan(allocation=rng.multinomial(samples, np.full(size, 1.0 / size)).reshape(belief.shape))
