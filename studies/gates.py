"""Simulated demonstrations beside a classifier whose every miss is known in advance, to count broken promises.

At each step the score is one of `K` levels, drawn with probability `levels [K]`, and the classifier is wrong with
probability `wrong [K]`, whatever came before. Then both promised numbers are known exactly for every gate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aceirl.certificates.gated import Demonstrated, GatedCertificate, certify
from aceirl.irl.belief import Target
from aceirl.models.tabular.mdp import FloatArray


@dataclass(frozen=True, eq=False)
class Simulated:
    """A task by its `levels [K]` and `wrong [K]`. Episodes have `horizon` steps, or end before each with `ending`."""

    levels: FloatArray
    wrong: FloatArray
    horizon: int = 50
    ending: float = 0.0

    def demonstrations(self, episodes: int, rng: np.random.Generator) -> Demonstrated:
        """So many episodes that the expert drives."""
        lengths = np.minimum(rng.geometric(self.ending, episodes) if self.ending else self.horizon, self.horizon)
        lengths = np.broadcast_to(lengths, episodes).copy()
        level = rng.choice(len(self.levels), size=int(lengths.sum()), p=self.levels)
        return Demonstrated(level + rng.random(len(level)) / 2, rng.random(len(level)) >= self.wrong[level], lengths)

    def truth(self, threshold: float) -> tuple[float, float]:
        """`E[Z]`, and the mean share of an episode's steps that are asked up to the first miss, for the gate."""
        # A level spreads its scores evenly over half a unit above its number.
        open_share = np.clip(1 - (threshold - np.arange(len(self.levels))) / 0.5, 0.0, 1.0)
        missed = float((self.levels * open_share * self.wrong).sum())
        asked = float((self.levels * (1 - open_share)).sum()) / (1 - missed)  # of a step that is no miss
        step = np.arange(self.horizon)
        there = ((1 - missed) * (1 - self.ending)) ** step
        loss = float((there * missed * (self.horizon - step) / self.horizon).sum())
        whole = 1 - float((there * missed).sum())  # without a miss, of whatever length
        return loss, asked * (whole + float((there * missed * step / (step + 1)).sum()))


FAMILIES = {
    "few levels": Simulated(np.array([0.05, 0.1, 0.85]), np.array([0.4, 0.02, 0.0005])),
    "evenly wrong": Simulated(np.full(10, 0.1), np.full(10, 0.02)),
    "score without sense": Simulated(np.array([0.5, 0.5]), np.array([0.001, 0.008])),
    "rare and fatal": Simulated(np.array([0.004, 0.996]), np.array([1.0, 0.0])),
    "episodes that end": Simulated(np.array([0.1, 0.2, 0.7]), np.array([0.3, 0.05, 0.004]), 100, 0.03),
    "at the limit": Simulated(np.array([0.02, 0.98]), np.array([0.5, 0.0043])),
}
"""Written down before any of them was run; stakes were not changed after. In the last the open gate loses too much."""

SHARE, DELTA = 0.1, 0.1


def promised(task: Simulated, episodes: int, seed: int) -> tuple[GatedCertificate, bool, bool]:
    """The certificate of one run, and whether its loss and its asked share are broken."""
    target = Target(SHARE * task.horizon, DELTA, 1.0)
    shown = task.demonstrations(episodes, np.random.default_rng((seed, episodes)))
    found = certify(shown, target, task.horizon, DELTA)
    loss, asks = task.truth(found.threshold)
    return found, loss > found.share + 1e-12, asks > found.asks + 1e-12
