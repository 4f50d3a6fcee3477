"""Promises of a gated policy, which acts where it is sure and asks the expert where it is not.

A *gate* is a threshold on a score: the policy asks where the score is below it. An asked step is one at which the
policy does what the expert does; a *miss* is a step that is not asked and at which the expert would do something else.
Up to its first miss a gated run is the expert's own run. So demonstrations, in which the expert drives, show for every
gate at once at which step its first miss would be, and how often it asks before.

Two numbers are promised together, each with half of what the budget has of `δ`:

* `loss`: the gated policy loses at most this against the expert. `Z` is what can still be lost from the first miss on;
  the loss is at most `E[Z]`. As a gate opens, `Z` rises in every single demonstration, so wagers against `E[Z] ≥ ε`,
  with the same stakes for every gate, find the most open gate at which a stake of one ever became `2/δ`.
* `asks`: of the steps of an episode up to its first miss it asks at most this share on average. It is counted on
  further demonstrations, which had no say in the choice of the gate.

The classifier, the score and the expert are fixed before the first demonstration, and nothing is learned from them. The
proof is in `docs/certificates.md`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.certificates.e_process import log_factors
from aceirl.errors import InputError
from aceirl.irl.belief import Target
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray

STAKES, WEIGHTS = np.array([0.3, 0.6, 0.98]), np.array([0.15, 0.25, 0.6])
"""What is staked, the same for all gates, and how a stake of one is divided among these. Most on the boldest: a gate
that loses half of what it may is found by it, and one that loses nearly all takes too many demonstrations anyway."""

SPARE = 1.7
"""The gate is chosen by so many times the demonstrations that a gate without any miss would take, or by two fifths."""

ASK_EVERYWHERE, ASK_NOWHERE = math.inf, -math.inf

LONGEST_SEARCH = 1_000_000
"""More demonstrations than this are not counted."""

FINENESS = 10_000
"""Into how many parts the promised share of questions is divided."""

MARGIN = 1e-3
"""A threshold lies above the score of the last miss that it asks about by this, so that no step hangs on rounding."""


@dataclass(frozen=True, eq=False)
class Demonstrated:
    """What a classifier made of demonstrations, step by step: `scores [N]`, and whether it `agrees [N]`.

    The demonstrations follow each other; `lengths [n]` are their steps.
    """

    scores: FloatArray
    agrees: BoolArray
    lengths: IntArray

    def __post_init__(self) -> None:
        if not (len(self.scores) == len(self.agrees) == int(np.sum(self.lengths))):
            raise InputError(
                f"{len(self.scores)} scores and {len(self.agrees)} agreements of demonstrations with "
                f"{int(np.sum(self.lengths))} steps; give one of each a step"
            )
        if np.isnan(self.scores).any():
            raise InputError(f"the score of step {int(np.isnan(self.scores).argmax())} is not a number")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def episode(self) -> IntArray:
        """`[N]`: to which demonstration a step belongs."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def step(self) -> IntArray:
        """`[N]`: which step of its demonstration it is."""
        return np.arange(len(self.scores)) - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)

    def part(self, first: int, last: int) -> Demonstrated:
        """The demonstrations from `first` to before `last`."""
        ends = np.append(0, np.cumsum(self.lengths))
        steps = slice(ends[first], ends[last])
        return Demonstrated(self.scores[steps], self.agrees[steps], self.lengths[first:last])

    def first_misses(self, threshold: float) -> IntArray:
        """`[n]`: the step of the first miss of the gated policy, or the number of steps if it has none."""
        missed = np.flatnonzero(~self.agrees & (self.scores >= threshold))
        found = self.lengths.copy()
        np.minimum.at(found, self.episode[missed], self.step[missed])
        return found

    def losses(self, threshold: float, losses: FloatArray) -> FloatArray:
        """`[n]`: `Z`, what can be lost from the first miss on, by the `losses [H+1]` of each step; 0 without one."""
        first = self.first_misses(threshold)
        return np.where(first < self.lengths, losses[np.minimum(first, len(losses) - 1)], 0.0)

    def asked(self, threshold: float) -> FloatArray:
        """`[n]`: the share of the steps up to and with the first miss that are asked."""
        steps = np.minimum(self.first_misses(threshold) + 1, self.lengths)
        counts = (self.scores < threshold) & (self.step < steps[self.episode])
        return np.asarray(np.bincount(self.episode[counts], minlength=len(self)) / steps)


@dataclass(frozen=True)
class GatedCertificate:
    """With probability `1 - delta`: the policy that asks where its score is below `threshold` loses at most `loss`
    against the expert, and asks on average at most a share `asks` of an episode's steps up to its first disagreement.

    `loss` is in units of reward summed over an episode, where two episodes differ by at most `possible`: the `epsilon`
    that was asked for, or 0 where it asks everywhere. `opening` and
    `counting` are how many demonstrations chose the gate and counted its questions. With `rounded` the expert beside
    which this holds is the one whose actions are rounded to the nearest choice.
    """

    threshold: float
    loss: float
    asks: float
    epsilon: float
    delta: float
    possible: float
    opening: int
    counting: int
    rounded: bool = False

    @property
    def share(self) -> float:
        """The loss as a share of what two episodes can differ by."""
        return self.loss / self.possible

    def in_words(self) -> str:
        """What is promised, and what that rests on."""
        beside = "the expert with its actions rounded" if self.rounded else "the expert"
        if self.threshold == ASK_EVERYWHERE:
            return (
                f"Nothing is promised unless it asks at every step: {self.opening + self.counting} demonstrations do "
                "not show where it can act without asking. More answers or more demonstrations may."
            )
        return (
            f"With {1 - self.delta:.0%} confidence, a policy that acts where it is sure and else asks loses at most "
            f"{self.loss:.3g} against {beside}, where the best and the worst episode differ by at most "
            f"{self.possible:.3g}; on average it asks at most {100 * self.asks:.1f} % of an episode's steps, up to its "
            f"first disagreement with the expert. {self.opening} demonstrations were used to choose where it asks, "
            f"{self.counting} to count its questions."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; a gate that asks everywhere or nowhere has no threshold."""
        finite = math.isfinite(self.threshold)
        return {**vars(self), "threshold": self.threshold if finite else None}


def certify(
    demonstrated: Demonstrated, target: Target, horizon: int, delta: float, *, rounded: bool = False
) -> GatedCertificate:
    """The most open gate that loses at most `target.epsilon`, and what it asks; both hold with probability `1 - delta`.

    At worst it asks everywhere, which loses nothing. `delta` is what the budget has for it.
    """
    losses, share = target.losses(horizon), target.share(horizon)
    if demonstrated.lengths.size and demonstrated.lengths.max() > horizon:
        raise InputError(f"a demonstration has {demonstrated.lengths.max()} steps, and the horizon is {horizon}")
    opening = opening_episodes(len(demonstrated), share, delta / 2)
    first, rest = demonstrated.part(0, opening), demonstrated.part(opening, len(demonstrated))
    threshold = open_gate(first, losses, share, delta / 2)
    return GatedCertificate(
        threshold,
        0.0 if threshold == ASK_EVERYWHERE else target.epsilon,
        most_asked(rest, threshold, delta / 2),
        target.epsilon,
        target.delta,
        target.possible(horizon),
        opening,
        len(rest),
        rounded,
    )


def opening_episodes(episodes: int, share: float, delta: float) -> int:
    """How many of so many demonstrations choose the gate; the others count its questions. It is fixed beforehand."""
    if share >= 1:
        return 0
    needed = (math.log(1 / delta) - math.log(WEIGHTS[-1])) / math.log1p(STAKES[-1] * share / (1 - share))
    return max(2 * episodes // 5, min(math.ceil(SPARE * needed), 2 * episodes // 3))


def least_episodes(share: float, delta: float) -> int:
    """How many demonstrations it takes at least until a gate can be certified: one that misses nothing in any of them.

    `delta` is what the budget has for the whole promise.
    """
    many = range(1, LONGEST_SEARCH)
    opening = bisect_left(many, math.log(2 / delta), key=lambda n: log_wealth(np.zeros(n), share)) + 1
    return bisect_left(many, opening, key=lambda n: opening_episodes(n, share, delta / 2)) + 1


def open_gate(demonstrated: Demonstrated, losses: FloatArray, share: float, delta: float) -> float:
    """The threshold of the most open gate with `E[Z] ≤ share`, with confidence `1 - delta`; see `log_wealth`.

    `Z` changes only where a gate passes the score of a disagreement, and what is certified of a gate is certified of
    all that ask more, so the gates between these scores are searched by halves.
    """
    if share >= 1:
        return ASK_NOWHERE
    scores = np.unique(demonstrated.scores[~demonstrated.agrees])
    gates = np.concatenate(([ASK_NOWHERE], scores + MARGIN * (1 + np.abs(scores))))

    def certified(gate: float) -> bool:
        return log_wealth(demonstrated.losses(gate, losses), share) >= math.log(1 / delta)

    low, high = 0, len(gates)  # the last one asks everywhere
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if certified(float(gates[middle])) else (middle + 1, high)
    return float(gates[low]) if low < len(gates) else ASK_EVERYWHERE


def most_asked(demonstrated: Demonstrated, threshold: float, delta: float) -> float:
    """The smallest share that the mean of what is asked is below, with confidence `1 - delta`, rounded up.

    What is shown of one share is shown of all larger ones, so it is searched by halves.
    """
    if threshold in (ASK_EVERYWHERE, ASK_NOWHERE):
        return float(threshold == ASK_EVERYWHERE)
    asked = demonstrated.asked(threshold)
    low, high = 1, FINENESS
    while low < high:
        middle = (low + high) // 2
        shown = log_wealth(asked, middle / FINENESS) >= math.log(1 / delta)
        low, high = (low, middle) if shown else (middle + 1, high)
    return low / FINENESS


def log_wealth(values: FloatArray, level: float) -> float:
    """`log` of the most that a stake of one, divided by `WEIGHTS`, ever is on the `values [n]` averaging below `level`.

    Each of them, in `[0, 1]`, multiplies a part by `1 - c + c·(1 - value)/(1 - level)`: by at most one on average if
    the mean is at least the level. The process falls with every value and rises with the level.
    """
    if not len(values):
        return 0.0
    factors = [log_factors(stake, np.append(1.0, values), np.array([level]))[1:, 0] for stake in STAKES]
    paths = np.cumsum(factors, axis=1) + np.log(WEIGHTS)[:, None]
    return float(np.logaddexp.reduce(paths, axis=0).max())
