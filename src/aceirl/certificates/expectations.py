"""A certificate over all rewards of a space, where the expert can drive: its feature expectations beside the policy's.

Let a step be worth `w·f` with features `f` in [0, 1] and `‖w‖₁ ≤ 1`, nothing after the end, and at most `H` steps. With
`μ` the expected sum of features of an episode divided by `H`, a policy loses `H·w·(μ_E - μ_π) ≤ H·max_k |μ_E - μ_π|_k`
against the expert. Pairs of episodes, one of each, give a mean in [-1, 1] per feature. Each has a confidence sequence
by betting (Waudby-Smith and Ramdas 2024), valid at all times together with probability `1 - δ`. The proof is in
`docs/certificates.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from aceirl.data.arrays import FloatArray
from aceirl.errors import InputError
from aceirl.models.vectors.episodes import Episode
from aceirl.models.vectors.features import Features

GRID = 500
"""Means in [0, 1] are told apart by so many steps; a bound is rounded outwards."""

MOST_STAKED = 0.5
"""The largest share of what is there that one pair of episodes can cost."""


def betting_bounds(x: FloatArray, delta: float) -> tuple[float, float]:
    """A confidence interval for the mean of values `x [n]` in [0, 1], valid for all `n` at once with `1 - delta`.

    For every mean `m`, wagers that `x > m` and that `x < m`, each on half of `delta`. The stakes are chosen before the
    value is seen, by the variance so far.
    """
    means = np.linspace(0.0, 1.0, GRID + 1)
    seen = np.arange(1, len(x) + 1)
    guess = (0.5 + np.cumsum(x)) / (1 + seen)
    variance = np.concatenate(([0.25], (0.25 + np.cumsum((x - guess) ** 2)) / (1 + seen)))[:-1]
    stake = np.sqrt(2 * np.log(2 / delta) / (np.maximum(variance, 1e-6) * seen * np.log1p(seen)))
    needed = np.log(2 / delta)
    up = np.minimum(stake[:, None], MOST_STAKED / np.maximum(means, 1e-12))
    down = np.minimum(stake[:, None], MOST_STAKED / np.maximum(1 - means, 1e-12))
    above = np.cumsum(np.log1p(up * (x[:, None] - means)), axis=0).max(axis=0, initial=0.0) >= needed
    below = np.cumsum(np.log1p(down * (means - x[:, None])), axis=0).max(axis=0, initial=0.0) >= needed
    lower = means[above].max(initial=0.0)
    upper = means[below].min(initial=1.0)
    return float(lower), float(upper)


@dataclass(frozen=True, eq=False)
class ExpectationCertificate:
    """With probability `1 - delta`, the policy loses at most `loss` against the expert per episode of at most `horizon`
    steps, by any reward `w` with `‖w‖₁ ≤ 1` over these features, or by any of the feasible set if one was given.

    `lower` and `upper [k]` bound `μ_E - μ_π`; `worst` is the name of the feature that the loss is largest for.
    """

    loss: float
    horizon: int
    delta: float
    pairs: int
    lower: FloatArray
    upper: FloatArray
    worst: str

    @property
    def share(self) -> float:
        """The loss as a share of what an episode can be worth."""
        return self.loss / self.horizon

    @property
    def statement(self) -> str:
        """The promise in words."""
        return (
            f"With probability {1 - self.delta:.3g}, the policy loses at most {self.loss:.3g} of {self.horizon} per "
            f"episode against the expert, by any reward over these features; after {self.pairs} pairs of episodes"
        )


def feature_means(features: Features, episodes: Sequence[Episode], horizon: int) -> FloatArray:
    """`[n, k]`: the sums of features of episodes, divided by the horizon."""
    for number, one in enumerate(episodes):
        if one.steps > horizon:
            raise InputError(f"episode {number} has {one.steps} steps; the horizon is {horizon}")
    return np.array([features(one.arrivals, one.ends).sum(axis=0) / horizon for one in episodes])


def certify_expectations(
    expert: FloatArray,
    policy: FloatArray,
    delta: float,
    horizon: int,
    names: Sequence[str] = (),
    moments: FloatArray | None = None,
) -> ExpectationCertificate:
    """The certificate from pairs of independent episodes: `expert` and `policy [n, k]` are their `feature_means`.

    It may be looked at after every pair. Over the feasible set, rewards satisfy `moments·w ≥ 0` besides, `[m, k]`: the
    largest loss is then a linear programme.
    """
    ours, theirs = np.asarray(policy, dtype=np.float64), np.asarray(expert, dtype=np.float64)
    if ours.shape != theirs.shape or ours.ndim != 2 or not len(ours):
        raise InputError(
            f"expert and policy have the shapes {theirs.shape} and {ours.shape}; both must be (pairs, features)"
        )
    for name, values in (("expert", theirs), ("policy", ours)):
        if values.min() < -1e-9 or values.max() > 1 + 1e-9:
            raise InputError(f"{name} has values from {values.min():.3g} to {values.max():.3g}; they must be in [0, 1]")
    if not 0 < delta < 1:
        raise InputError(f"delta is {delta}; it must be between 0 and 1")
    k = ours.shape[1]
    x = np.clip((theirs - ours + 1) / 2, 0.0, 1.0)
    bounds = np.array([betting_bounds(x[:, number], delta / k) for number in range(k)]) * 2 - 1
    lower, upper = bounds[:, 0], bounds[:, 1]
    each = np.maximum(upper, -lower)
    share = float(each.max()) if moments is None else _over_feasible(lower, upper, np.asarray(moments))
    worst = int(each.argmax())
    return ExpectationCertificate(
        horizon * share,
        horizon,
        delta,
        len(x),
        lower,
        upper,
        names[worst] if len(names) else f"feature {worst}",
    )


def _over_feasible(lower: FloatArray, upper: FloatArray, moments: FloatArray) -> float:
    """`max Σ w⁺·upper - w⁻·lower` over `Σ w⁺ + w⁻ ≤ 1` and `moments·(w⁺ - w⁻) ≥ 0`: at least what a reward can lose."""
    k = len(lower)
    found = scipy.optimize.linprog(
        np.concatenate((-upper, lower)),
        A_ub=np.concatenate((np.ones((1, 2 * k)), np.column_stack((-moments, moments)))),
        b_ub=np.concatenate(([1.0], np.zeros(len(moments)))),
        bounds=(0, None),
        method="highs",
    )
    return max(0.0, -float(found.fun))
