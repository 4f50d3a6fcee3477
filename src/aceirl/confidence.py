"""Confidence radii: how wrong the estimates may be. One function an equation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aceirl.counts import Estimate
from aceirl.errors import InputError
from aceirl.mdp import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Radii:
    """How wrong the recovered reward may be at each `(h, s, a)`, and where it comes from.

    `transition [H, S, A]` is the part of the dynamics, `expert [H, S]` that of the expert's policy, `start` that of an
    estimated start distribution. `guaranteed` is false for a family kept for reproduction only.
    """

    transition: FloatArray
    expert: FloatArray
    start: float
    ceiling: FloatArray
    guaranteed: bool

    @property
    def total(self) -> FloatArray:
        """`C [H, S, A]`, at most the trivial bound `(H - h)·Rmax`."""
        return np.minimum(self.ceiling[:, None, None], self.transition + self.expert[:, :, None])


Family = Callable[[Estimate, float, float], Radii]


def hoeffding(estimate: Estimate, rmax: float, delta: float) -> Radii:
    """The paper's radii, `C = (H-h)·Rmax·min(1, 2·sqrt(2ℓ/n))`, `ℓ = log(24·S·A·H·n²/δ)`, `n = max(1, n[h,s,a])`.

    For reproduction. Its proof concentrates one fixed value function, while the criterion takes a supremum over
    rewards, so nothing is promised with it. It covers dynamics and expert in one term.
    """
    horizon, n_states, n_actions = estimate.mdp.shape
    ceiling = trivial_bound(horizon, rmax)
    visits = np.maximum(1, estimate.step_visits)
    log_term = np.log(24 * n_states * n_actions * horizon * visits.astype(np.float64) ** 2 / delta)
    radius = ceiling[:, None, None] * np.minimum(1.0, 2 * np.sqrt(2 * log_term / visits))
    return Radii(radius, np.zeros((horizon, n_states)), _start_radius(estimate, rmax, delta), ceiling, guaranteed=False)


def kl(estimate: Estimate, rmax: float, delta: float) -> Radii:
    """Radii valid for all value functions and all times at once.

    With `N` visits of a row and `K` possible successors, `KL(P̂‖P) ≤ β/N` for every row and every `N`, with probability
    `1-δ`, where `β = log(rows/δ) + (K-1)·log(e·(1 + N/(K-1)))` (Jonsson et al. 2020, Proposition 1). By Pinsker
    `TV ≤ min(1, sqrt(β/2N))`, and values at `h+1` span at most `(H-h-1)·Rmax`.

    Assumes independent transitions, and of a deterministic expert only that it is one. Where states are met one by one
    and nobody can say how many there are, `K` counts those met, which steers the exploration and guarantees nothing.
    A stochastic expert's share of `δ` is spent in `ExpertKind.settled`; dynamics, start and expert each get a third.
    """
    horizon, n_states, _ = estimate.mdp.shape
    ceiling = trivial_bound(horizon, rmax)
    possible = _possible_states(estimate)
    spread = total_variation(estimate.row_visits, possible, estimate.mdp.n_rows // n_states * possible, delta / 3)
    reach = rmax * np.arange(horizon - 1, -1, -1.0)
    return Radii(
        transition=reach[:, None, None] * spread,
        expert=np.where(estimate.expert_known, 0.0, ceiling[:, None]),
        start=_start_radius(estimate, rmax, delta / 3),
        ceiling=ceiling,
        guaranteed=math.isfinite(estimate.possible_states),
    )


FAMILIES: dict[str, Family] = {"hoeffding": hoeffding, "kl": kl}


def total_variation(visits: FloatArray | IntArray, n_successors: int, n_rows: int, delta: float) -> FloatArray:
    """A bound on `TV(P̂, P)` of rows with `visits` observations, all `n_rows` rows and all times at once."""
    if not 0 < delta < 1:
        raise InputError(f"delta must be in (0, 1), got {delta}")
    seen = np.maximum(1, visits)
    free = n_successors - 1
    log_ratio = np.log(np.e * (1 + seen / free)) if free else 0.0
    beta = np.log(n_rows / delta) + free * log_ratio
    return np.where(visits > 0, np.minimum(1.0, np.sqrt(beta / (2 * seen))), 1.0) if free else np.zeros(visits.shape)


def trivial_bound(horizon: int, rmax: float) -> FloatArray:
    """`[H]`: `(H - h)·Rmax`, what an episode can still earn."""
    return rmax * np.arange(horizon, 0, -1.0)


def _start_radius(estimate: Estimate, rmax: float, delta: float) -> float:
    """What an estimated start distribution may cost: its total variation times the largest value, `H·Rmax`."""
    if estimate.start_known:
        return 0.0
    resets = np.array([estimate.counts.starts.sum()])
    return estimate.mdp.horizon * rmax * float(total_variation(resets, _possible_states(estimate), 1, delta)[0])


def _possible_states(estimate: Estimate) -> int:
    """How many successors a row can have; those met, if nobody can say, and then nothing is promised."""
    known = estimate.possible_states
    return int(known) if math.isfinite(known) else estimate.mdp.n_states
