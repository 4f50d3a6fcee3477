"""Error bounds and the stopping rules made of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aceirl.confidence import Radii
from aceirl.kernels import clipped_backward
from aceirl.mdp import MDP, FloatArray


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """`E [H, S, A]` and what it says of the start: `value = Σ_s initial·max_a E[0] + start radius`."""

    error: FloatArray
    value: float

    def certifies(self, epsilon: float) -> bool:
        """Paper, (SP1): stop when `4·E ≤ ε`."""
        return 4 * self.value <= epsilon


def error_bound(mdp: MDP, radii: Radii) -> ErrorBound:
    """Paper, (EB1): `E[h] = min((H-h)·Rmax, C[h] + P̂·max_a E[h+1])`, one backward induction.

    Differs: a row never visited is worth the trivial bound, and an estimated start adds its own radius.
    """
    error, worst = np.empty(mdp.shape), np.zeros((mdp.horizon + 1, mdp.n_states))
    rows = mdp.indptr, mdp.successors, mdp.probabilities, mdp.stride
    clipped_backward(*rows, radii.total, radii.ceiling, error, worst)
    known_start = mdp.initial.any()
    value = float(mdp.initial @ worst[0]) + radii.start if known_start else float(radii.ceiling[0])
    return ErrorBound(error, min(value, float(radii.ceiling[0])))
