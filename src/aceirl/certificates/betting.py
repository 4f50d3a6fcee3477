"""Bets on the expert's route: how an episode that does what the expert does turns into evidence about the policy.

`K` is where the expert is known before an episode begins, and `Z` the share of the episode that is left when it first
stands outside `K`. Whoever agrees with the expert on `K` loses at most `E[Z]·H·Rmax` against it. To certify `E[Z] ≤ ε`,
bet against `E[Z] ≥ ε`: as long as that holds, no bet gains on average, so wealth above `1/δ` is seen with probability
at most `δ`, whenever one looks (Ville's inequality). `K` only grows, so `E[Z]` only falls: what is certified stays so.

The bets are placed before the episode and may use everything seen before: here, a forecast of `Z` from the estimated
process. A bad forecast costs time and never the truth of the promise. The proof is in `docs/certificates.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aceirl.counts import Estimate
from aceirl.kernels import compiled
from aceirl.mdp import FloatArray, IntArray, frozen

LEVELS_PER_DOUBLING = 8
"""How finely the certified values are told apart; the target is always one of them."""

DOUBLINGS_BELOW = 4
"""How far below the target values are certified, in doublings."""

STAKES = np.concatenate((np.arange(0.0, 0.95, 0.05), [0.93, 0.96, 0.98]))
"""The shares of the wealth that may be staked. Never all of it: one surprise costs at most a factor of fifty."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """What the next episode on the route is expected to do; a guess that only decides how much is staked.

    `exits [H, S]` is how likely it first stands outside `K` there, `law [H+1]` at which step, never in the last entry.
    `worst` is the largest share of an episode that can still be lost; that is not a guess.
    """

    exits: FloatArray
    law: FloatArray
    worst: float

    @property
    def losses(self) -> FloatArray:
        """`[H+1]`: the share of an episode that is lost by leaving at each step."""
        return 1 - np.arange(len(self.law)) / (len(self.law) - 1)


def forecast(estimate: Estimate, route: IntArray) -> Forecast:
    """What happens on the expert's known `route [H, S]` (-1 where it is not known), by the estimated process.

    A row is trusted up to the share of its observations whose successor was seen only once (Good and Turing: about that
    likely is something new); that share goes anywhere.
    """
    mdp, counts = estimate.mdp, estimate.counts
    if estimate.end is not None:
        route = np.where(np.arange(mdp.n_states) == estimate.end, 0, route)  # nobody leaves the route any more
    row = counts.move_keys // mdp.n_states
    once = np.bincount(row, weights=counts.move_counts == 1, minlength=mdp.n_rows)
    visits = np.bincount(row, weights=counts.move_counts, minlength=mdp.n_rows)
    novelty = np.where(np.diff(mdp.indptr) > 0, once / np.maximum(1, visits), 1.0)
    exits = np.zeros(route.shape)
    rows = mdp.indptr, mdp.successors, mdp.probabilities, mdp.stride
    start = mdp.initial if mdp.initial.any() else np.full(mdp.n_states, 1 / mdp.n_states)
    stays = _follow(*rows, mdp.n_actions, start, route, novelty, exits)
    certain_start = estimate.start_known and (route[0, mdp.initial > 0] >= 0).all()
    return Forecast(exits, np.append(exits.sum(axis=1), stays), 1 - 1 / mdp.horizon if certain_start else 1.0)


@compiled
def _follow(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    n_actions: int,
    start: FloatArray,
    route: IntArray,
    novelty: FloatArray,
    exits: FloatArray,
) -> float:
    """Push the start along the route; what leaves it is written to `exits [H, S]`, what never does is returned."""
    horizon, n_states = route.shape
    here = start.copy()
    for h in range(horizon):
        after = np.zeros(n_states)
        anywhere = 0.0
        for s in range(n_states):
            if here[s] == 0.0:
                continue
            if route[h, s] < 0:
                exits[h, s] = here[s]
                continue
            row = h * stride + s * n_actions + route[h, s]
            anywhere += here[s] * novelty[row]
            for k in range(indptr[row], indptr[row + 1]):
                after[successors[k]] += here[s] * (1.0 - novelty[row]) * probabilities[k]
        here = after + anywhere / n_states
    return float(here.sum())


@dataclass(frozen=True)
class Bet:
    """A `stake` on the next episodes losing less than claimed; `worst` is the most they can lose, `growth` the hope."""

    stake: float
    worst: float
    growth: float

    def returns(self, losses: FloatArray, levels: FloatArray) -> FloatArray:
        """`log` of what the wealth is multiplied by, `[..., levels]`, after a loss, for claims `E[Z] ≥ level`.

        `1 - c + c·(worst - z)/(worst - level)`: at most one on average if the claim holds. It rises with the level, so
        whoever is rich enough at one level is so at all higher ones.
        """
        gains = (self.worst - losses[..., None]) / (self.worst - levels)
        return np.asarray(np.log1p(self.stake * (gains - 1)))


def place(expected: Forecast, target: float) -> Bet:
    """The stake whose wealth is forecast to grow fastest against the claim `E[Z] ≥ target` (Kelly)."""
    if target >= expected.worst:
        return Bet(0.0, expected.worst, 0.0)
    gains = (expected.worst - np.minimum(expected.losses, expected.worst)) / (expected.worst - target)
    growth = np.log1p(STAKES[:, None] * (gains - 1)) @ expected.law
    best = int(growth.argmax())
    return Bet(float(STAKES[best]), expected.worst, float(growth[best]))


@dataclass(frozen=True, eq=False)
class Wealth:
    """What became of a stake of one, put on each bettor's claims.

    `levels [L]` are the claimed losses as shares of an episode, rising. `now [bettors, L]` is the logarithm of the
    wealth, `best [bettors, L]` the largest it has been. Bettor 0 follows the expert from the first step; bettor `1+a`
    takes action `a` first and then follows the expert.
    """

    levels: FloatArray
    now: FloatArray
    best: FloatArray

    def __post_init__(self) -> None:
        for name in ("levels", "now", "best"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.float64))

    @property
    def n_actions(self) -> int:
        """How many first actions are bet on."""
        return len(self.now) - 1

    @classmethod
    def of_beginners(cls, target: float, n_actions: int) -> Wealth:
        """Nobody has won anything; `target` is the loss to be certified, as a share of an episode."""
        lowest, highest = -DOUBLINGS_BELOW * LEVELS_PER_DOUBLING, int(np.log2(1 / target) * LEVELS_PER_DOUBLING)
        levels = target * 2.0 ** (np.arange(lowest, max(lowest, highest) + 1) / LEVELS_PER_DOUBLING)
        none = np.zeros((1 + n_actions, len(levels)))
        return cls(levels, none, none)

    def after(self, bettor: int, bet: Bet, exits: IntArray) -> Wealth:
        """The wealth after episodes of which `exits [H+1]` left the route at each step."""
        horizon = len(exits) - 1
        open_claims = self.levels < bet.worst
        losses = np.minimum(1 - np.arange(horizon + 1) / horizon, bet.worst)
        gained = np.full(len(self.levels), np.inf)
        gained[open_claims] = exits @ bet.returns(losses, self.levels[open_claims])
        now = self.now.copy()
        now[bettor] += gained
        return Wealth(self.levels, now, np.maximum(self.best, now))

    def certified(self, bettor: int, delta: float) -> float:
        """The smallest loss, as a share of an episode, certified with confidence `1 - delta`; one if none is."""
        reached = self.best[bettor] >= np.log(1 / delta)
        return float(self.levels[int(reached.argmax())]) if reached.any() else 1.0

    def missing(self, bettor: int, target: float, delta: float) -> float:
        """How much the logarithm of the wealth on the target still has to grow."""
        at_target = int(np.abs(self.levels - target).argmin())
        return max(0.0, float(np.log(1 / delta) - self.now[bettor, at_target]))
