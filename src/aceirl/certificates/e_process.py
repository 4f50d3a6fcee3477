"""Wagers on the known expert actions: how an episode that does what the expert does becomes evidence about the policy.

`K` is where the expert is known before an episode begins, and `Z` what can still be lost when the episode first stands
outside `K` or the expert says something else than it did before, as a share of all that an episode can lose. Whoever
does what the expert is known to do loses at most the mean of `Z` against it. To certify `E[Z] ≤ ε`,
wager against `E[Z] ≥ ε`: as long as that holds, no wager gains on average, so what becomes of a stake of one is a test
martingale, an e-process, and exceeds `1/δ` with probability at most `δ`, whenever one looks (Ville's inequality). `K`
only grows, so `E[Z]` only falls: what is certified stays so.

Nothing here needs a model: an episode is the step at which it first deviated, and what can be lost from there. A wager
is made before the episode and may use everything seen before: the deviations of earlier episodes, or a forecast by a
model (`forecast.py`). A bad forecast costs time and never the truth of the promise. The proof is in
`docs/certificates.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aceirl.irl.belief import Memory
from aceirl.models.tabular.counts import StepCounts
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import FloatArray, IntArray

LEVELS_PER_DOUBLING = 8
"""How finely the certified values are told apart; the target is always one of them."""

DOUBLINGS_BELOW = 4
"""How far below the target values are certified, in doublings."""

STAKES = np.concatenate((np.arange(0.0, 0.95, 0.05), [0.93, 0.96, 0.98]))
"""The shares that may be staked. Never all: one surprise costs at most a factor of fifty."""


PARTS = ("levels", "now", "peak")
"""What is kept of an e-process."""

DEVIATIONS, FADING = "deviations", 0.9
"""What is kept of the first deviations of earlier episodes, and how much of that is left after one more batch."""


@dataclass(frozen=True)
class Wager:
    """A `stake` on the next episodes losing less than claimed, and the `growth` that is hoped for.

    Where the forecast was far from good enough, it is not made anew before there are `wait_for` samples.
    """

    stake: float
    growth: float = 0.0
    wait_for: float = 0.0


@dataclass(frozen=True, eq=False)
class BatchOutcome:
    """How a batch fared on the reference policy: `first_deviations [H+1]` counts episodes by the step at which they
    first deviated, and `losses [H+1]` is what can be lost from each step on; it never rises. `imputed [S+1]` are the
    actions among them that were imputed, by state; None if none were."""

    first_deviations: IntArray
    losses: FloatArray
    imputed: IntArray | None = None
    habits: bool = False
    """Whether the next wagers go by these deviations, because no model forecasts them."""

    def frozen_imputation(self, memory: Memory, wager: Wager) -> Memory:
        """The imputed actions that something was wagered on, now or before, as a part of the evidence."""
        if "imputed" in memory:
            return {"imputed": memory["imputed"]}
        new = wager.stake > 0 and self.imputed is not None
        return {"imputed": np.asarray(self.imputed, dtype=np.float64)} if new else {}


def with_new_states(memory: Memory, given: StepCounts) -> Memory:
    """What was imputed stands; in a state that was met since then it is the commonest of the first answers `given`.

    That stands too. Until there is an answer, nothing is imputed there: -1. The last entry is what was imputed in
    states without any answer.
    """
    if "imputed" not in memory:
        return memory
    before, by_state = memory["imputed"], given.pooled
    imputed = np.full(len(by_state) + 1, -1.0)
    imputed[: len(before) - 1], imputed[-1] = before[:-1], before[-1]
    new = np.flatnonzero((imputed[:-1] < 0) & by_state.any(axis=1))
    if not new.size and len(imputed) == len(before):
        return memory
    imputed[new] = by_state[new].argmax(axis=1)
    return {**memory, "imputed": imputed}


def log_factors(stake: float, losses: FloatArray, levels: FloatArray) -> FloatArray:
    """`[n, levels]`: `log` of what the e-process is multiplied by after each loss, for claims `E[Z] ≥ level`.

    The first of the `losses [n]` is the largest. `1 - c + c·(largest - z)/(largest - level)`: at most one on average if
    the claim holds. It rises with the level, so what is reached at one level is reached at all higher ones.
    """
    gains = (losses[0] - losses[:, None]) / (losses[0] - levels)
    return np.asarray(np.log1p(stake * (gains - 1)))


def kelly_wager(law: FloatArray, losses: FloatArray, target: float) -> Wager:
    """The stake that grows fastest against the claim `E[Z] ≥ target` (Kelly), if episodes deviate by that `law [H+1]`.

    `losses [H+1]` is what can be lost by deviating at each step; that is not a guess.
    """
    if target >= losses[0]:
        return Wager(0.0)
    return Wager(*_fastest(STAKES, losses, law, target))


def habitual_wager(memory: Memory, losses: FloatArray, target: float) -> Wager:
    """The same by the deviations of earlier episodes, of which those long ago count less."""
    seen = memory.get(DEVIATIONS, np.eye(1, len(losses))[0])
    return kelly_wager(seen / seen.sum(), losses, target)


@compiled
def _fastest(stakes: FloatArray, losses: FloatArray, law: FloatArray, target: float) -> tuple[float, float]:
    """The stake that grows fastest, and by how much, if losses have that law; see `log_factors`."""
    best, fastest = 0.0, -np.inf
    for stake in stakes:
        growth = 0.0
        for h in range(len(law)):
            if law[h] > 0.0:
                growth += law[h] * np.log1p(stake * ((losses[0] - losses[h]) / (losses[0] - target) - 1.0))
        if growth > fastest:
            best, fastest = stake, growth
    return best, fastest


@dataclass(frozen=True, eq=False)
class EProcess:
    """What became of a stake of one, put on each claim of a loss of at least a `level`.

    `levels [L]` are shares of an episode, rising; `now [L]` is the logarithm of the process, `peak [L]` the largest it
    has been.
    """

    levels: FloatArray
    now: FloatArray
    peak: FloatArray

    @classmethod
    def of(cls, memory: Memory, target: float, name: str = "") -> EProcess:
        """As the evidence has it, under a name if there are several; a new one if it has none."""
        if f"{name}now" not in memory:
            return cls.started(target)
        return cls(*(memory[f"{name}{part}"] for part in PARTS))

    def evidence(self, name: str = "") -> Memory:
        """What `of` reads."""
        return {f"{name}{part}": getattr(self, part) for part in PARTS}

    @classmethod
    def started(cls, target: float) -> EProcess:
        """Nothing was won or lost; `target` is the loss to be certified, as a share of an episode."""
        lowest, highest = (
            -DOUBLINGS_BELOW * LEVELS_PER_DOUBLING,
            int(np.floor(np.log2(1 / target) * LEVELS_PER_DOUBLING + 1e-9)),
        )
        levels = target * 2.0 ** (np.arange(lowest, max(lowest, highest) + 1) / LEVELS_PER_DOUBLING)
        return cls(levels, np.zeros(len(levels)), np.zeros(len(levels)))

    def after(self, wager: Wager, seen: BatchOutcome) -> EProcess:
        """The process after a batch of episodes."""
        if wager.stake == 0 and self.levels[-1] < seen.losses[0]:  # all claims are open, and nothing is staked on any
            return self
        open_claims = self.levels < seen.losses[0]
        gained = np.full(len(self.levels), np.inf)
        gained[open_claims] = seen.first_deviations @ log_factors(wager.stake, seen.losses, self.levels[open_claims])
        now = self.now + gained
        return EProcess(self.levels, now, np.maximum(self.peak, now))

    def certified(self, delta: float) -> float:
        """The smallest loss, as a share of an episode, certified with confidence `1 - delta`; one if none is."""
        reached = self.peak >= math.log(1 / delta)
        first = int(reached.argmax())
        return float(self.levels[first]) if reached[first] else 1.0

    def missing(self, target: float, delta: float) -> float:
        """How much the logarithm of the process still has to grow at the target, or at the next level below it."""
        at_target = max(0, int(np.searchsorted(self.levels, target * (1 + 1e-9), side="right")) - 1)
        return max(0.0, float(np.log(1 / delta) - self.now[at_target]))


def shows(memory: Memory, share: float) -> bool:
    """Whether the e-processes in a memory can show another accuracy, a `share` of an episode.

    Their levels were chosen before the first episode, and what is certified is always one of them: at whatever level
    the run shall stop from now on, the chance that any of the levels below the truth is ever reached stays `δ`. If the
    share lies below all levels, none of them can show it: then new ones start from one, on what is left of the budget.
    """
    lowest = [array[0] for name, array in memory.items() if name.endswith("levels")]
    return all(level <= share * (1 + 1e-9) for level in lowest)
