"""Wagers on the known expert actions: how an episode that does what the expert does becomes evidence about the policy.

`K` is where the expert is known before an episode begins, and `Z` what can still be lost when the episode first stands
outside `K` or the expert says something else than it did before, as a share of all that an episode can lose. Whoever
does what the expert is known to do loses at most the mean of `Z` against it. To certify `E[Z] ≤ ε`,
wager against `E[Z] ≥ ε`: as long as that holds, no wager gains on average, so what becomes of a stake of one is a test
martingale, an e-process, and exceeds `1/δ` with probability at most `δ`, whenever one looks (Ville's inequality). `K`
only grows, so `E[Z]` only falls: what is certified stays so.

A wager is made before the episode and may use everything seen before: here, a forecast of `Z` from the estimated
process. A bad forecast costs time and never the truth of the promise. The proof is in `docs/certificates.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aceirl.belief import Belief, Memory, Plan, Target
from aceirl.counts import Estimate
from aceirl.kernels import compiled
from aceirl.mdp import FloatArray, IntArray

LEVELS_PER_DOUBLING = 8
"""How finely the certified values are told apart; the target is always one of them."""

DOUBLINGS_BELOW = 4
"""How far below the target values are certified, in doublings."""

FAR, LOOK_AGAIN = 1.5, 1.01
"""A forecast that is so many times too high is made again when there are so many times the samples."""

STAKES = np.concatenate((np.arange(0.0, 0.95, 0.05), [0.93, 0.96, 0.98]))
"""The shares that may be staked. Never all: one surprise costs at most a factor of fifty."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """What the next episode that follows the known actions is expected to do; a guess that only decides the stake.

    `deviations [H, S]` is how likely it first stands outside `K` there, `law [H+1]` at which step, never in the last
    entry. `losses [H+1]` is what can be lost by deviating at each step; that is not a guess.
    """

    deviations: FloatArray
    law: FloatArray
    losses: FloatArray


def forecast(
    estimate: Estimate,
    watched: IntArray,
    target: Target,
    taken: FloatArray | None = None,
    doubt: FloatArray | None = None,
) -> Forecast:
    """What happens on the actions `watched [H, S]` (-1 where there is none), by the estimated process.

    `taken [H, S]` is how likely an episode takes the watched action; always, if nothing is said. `doubt [H, S]` is how
    likely one that is only presumed is not the expert's, 0 where it is known; everywhere, if nothing is said. Where the
    expert, asked again, said something else, it is expected to do so as often once more.

    A row, and a start that is estimated, are trusted up to the share of their observations that were seen only once
    (Good and Turing: about that likely is something new). That share goes to a state that was never met, where there
    can be one, and else anywhere. Before any start was seen, nothing is expected to be known.
    """
    mdp, counts = estimate.mdp, estimate.counts
    deviations, law = np.zeros(watched.shape), np.zeros(mdp.horizon + 1)
    if not (estimate.start_known or counts.episodes):
        law[0] = 1.0
        return Forecast(deviations, law, target.losses(mdp.horizon))
    doubt = NOTHING if doubt is None else doubt
    new_start = 0.0 if estimate.start_known else np.count_nonzero(counts.starts == 1) / counts.episodes
    _follow(
        *mdp.transitions.rows,
        mdp.n_actions,
        mdp.initial,
        new_start,
        watched,
        NOTHING if taken is None else taken,
        doubt,
        counts.repeats,
        estimate.over,
        estimate.move_rows,
        counts.move_counts,
        estimate.possible_states <= mdp.n_states,
        deviations,
        law,
    )
    return Forecast(deviations, law, wagered_losses(target, estimate, watched, doubt))


NOTHING: FloatArray = np.zeros((0, 0))
"""Stands for an array that is not there, where compiled passes take one."""


def doubts(belief: Belief) -> FloatArray:
    """`[H, S]`: how likely the expert does not do what is presumed of it; 0 where its action is known. A guess.

    In a state with answers: as many of them are others than presumed, and as many in all such states, the latter with
    the weight of one answer. In a state without any: as many states with answers have others than are presumed there.
    """
    kept = belief.estimate.of_answers if belief.standing is None else {}
    doubt: FloatArray | None = kept.get("doubts")
    if doubt is None:
        known = belief.known_actions
        assert known is not None
        doubt = kept["doubts"] = np.zeros(known.shape)
        _doubt(known, belief.presumed, belief.estimate.common_answers, doubt)
        doubt.flags.writeable = False
    return doubt


@compiled
def _doubt(known: IntArray, presumed: IntArray, common: IntArray, doubt: FloatArray) -> None:
    horizon, n_states = known.shape
    answers, wrong = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon):
        for s in range(n_states):
            if known[h, s] >= 0:
                answers[s] += 1
                wrong[s] += known[h, s] != presumed[s]
    tried, met, others = 0.0, 0.0, 0.0
    for s in range(n_states):
        # Of the answers of a state one is no trial: by it the action is presumed.
        tried += max(answers[s] - 1, wrong[s])
        met += answers[s] > 0
        others += answers[s] > 0 and common[s] != presumed[n_states]
    overall, unmet = (wrong.sum() + 1) / (tried + 2), (others + 1) / (met + 2)
    of_state = answers
    for s in range(n_states):
        if presumed[s] < 0:
            of_state[s] = 0.0
        elif answers[s] > 0:
            of_state[s] = (wrong[s] + overall) / (max(answers[s] - 1, wrong[s]) + 1)
        else:
            of_state[s] = unmet
    for h in range(horizon):
        for s in range(n_states):
            if known[h, s] < 0:
                doubt[h, s] = of_state[s]


def chance_taken(plan: Plan, watched: IntArray) -> FloatArray:
    """`[H, S]`: how likely a plan takes the known action, empty if always; an imposed first action is always taken."""
    assert plan.policy is not None
    if plan.always_follows:
        return NOTHING
    follow = NOTHING if plan.follow is None else np.asarray(plan.follow, dtype=np.float64)
    taken = _chances(plan.policy, follow, watched)
    if plan.first_action is not None:
        taken[0] = 1.0
    return taken


def possible_losses(
    target: Target, estimate: Estimate, known_actions: IntArray, doubt: FloatArray = NOTHING
) -> FloatArray:
    """`[H+1]`: the share that can be lost by deviating at each step, by what the expert is known to do.

    No episode deviates before the first step at which it can be in a state without an action in `known_actions [H, S]`,
    or with one in `doubt [H, S]`; unless the expert may say something else than it did.
    """
    losses, initial = target.losses(len(known_actions)), estimate.initial
    all_met = estimate.possible_states <= known_actions.shape[1]
    if estimate.kind.asked_everywhere or (initial is None and not all_met):
        return losses
    first = _first_unknown(known_actions, doubt, estimate.over, losses[:0] if initial is None else initial, all_met)
    return np.asarray(np.minimum(losses, losses[first]))


@compiled
def _first_unknown(known: IntArray, doubt: FloatArray, over: IntArray, initial: FloatArray, all_met: bool) -> int:
    """The first step at which an episode can be in a state where nothing is known; `initial [S]` is empty if unknown.

    After the first step that is any state, and one that was never met where there can be one.
    """
    horizon, n_states = known.shape
    ended = np.zeros(n_states, dtype=np.bool_)
    ended[over] = True
    for h in range(horizon):
        told = h == 0 and initial.size > 0
        if not (told or all_met):
            return h
        for s in range(initial.size if told else n_states):
            unknown = known[h, s] < 0 or (doubt.size > 0 and doubt[h, s] > 0.0)
            if unknown and not ended[s] and (not told or initial[s] > 0.0):
                return h
    return int(horizon)


def wagered_losses(
    target: Target, estimate: Estimate, known_actions: IntArray, doubt: FloatArray = NOTHING
) -> FloatArray:
    """`[H+1]`: the same, for a wager; of an expert who may take an answer back, as if nothing were known.

    What was known when an episode began is then told in hindsight, and must not make what it lost look smaller.
    """
    if not estimate.kind.presumed:
        return target.losses(len(known_actions))
    return possible_losses(target, estimate, known_actions, doubt)


@compiled
def _follow(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    n_actions: int,
    start: FloatArray,
    new_start: float,
    watched: IntArray,
    taken: FloatArray,
    doubt: FloatArray,
    repeats: IntArray,
    over: IntArray,
    move_rows: IntArray,
    move_counts: IntArray,
    all_met: bool,
    deviations: FloatArray,
    law: FloatArray,
) -> None:
    """Push the start along the watched actions; what leaves them goes to `deviations [H, S]` and `law [H+1]`, by step.

    What never leaves them goes to the last entry of the law. Where an action is watched the share `doubt [H, S]` leaves
    or, where there is none, as often as the expert took an answer back by its `repeats [S, 2]`; from the states that
    are `over` nobody does. An empty `doubt` is none, and an empty `taken` means always. What takes another action, or
    goes to states never met before, leaves at the step after. That goes by the share of the observations of a row that
    were seen only once: the `move_counts` of each of the `move_rows`.
    """
    horizon, n_states = watched.shape
    ended, back = np.zeros(n_states, dtype=np.bool_), np.zeros(n_states)
    ended[over] = True
    for s in range(n_states):
        back[s] = repeats[s, 1] / max(1, repeats[s, 0] + repeats[s, 1])
    once, visits = np.zeros(indptr.size - 1), np.zeros(indptr.size - 1)
    for i in range(move_rows.size):
        once[move_rows[i]] += move_counts[i] == 1
        visits[move_rows[i]] += move_counts[i]
    here = start * (1.0 - new_start)
    if all_met:
        here += new_start / n_states
    else:
        law[0] = new_start
    for h in range(horizon):
        after = np.zeros(n_states)
        anywhere = 0.0
        for s in range(n_states):
            if here[s] == 0.0:
                continue
            action, leaving = 0, 0.0
            if not ended[s]:
                action = watched[h, s]
                leaving = doubt[h, s] if doubt.size > 0 and doubt[h, s] > 0.0 else back[s]
            deviations[h, s] = here[s] * (leaving if action >= 0 else 1.0)
            law[h] += deviations[h, s]
            if action < 0:
                continue
            here[s] -= deviations[h, s]
            row = h * stride + s * n_actions + action
            mass = here[s] * taken[h, s] if taken.size > 0 else here[s]
            law[h + 1] += here[s] - mass
            novelty = once[row] / max(1.0, visits[row]) if indptr[row] < indptr[row + 1] else 1.0
            anywhere += mass * novelty
            for k in range(indptr[row], indptr[row + 1]):
                after[successors[k]] += mass * (1.0 - novelty) * probabilities[k]
        if all_met:
            here = after + anywhere / n_states
        else:
            here = after
            law[h + 1] += anywhere
    law[horizon] += here.sum()


@dataclass(frozen=True)
class Wager:
    """A `stake` on the next episodes losing less than claimed, and the `growth` that is hoped for.

    Where the forecast was far from good enough, it is not made anew before there are `wait_for` samples.
    """

    stake: float
    growth: float = 0.0
    wait_for: float = 0.0


@dataclass(frozen=True, eq=False)
class Watched:
    """How a batch fared on the watched actions: `first_deviations [H+1]` counts its episodes by the step at which they
    first deviated, and `losses [H+1]` is what can be lost from each step on; it never rises. `presumed [S+1]` are the
    actions among them that were presumed, by state; None if none were."""

    first_deviations: IntArray
    losses: FloatArray
    presumed: IntArray | None = None

    def standing(self, memory: Memory, wager: Wager) -> Memory:
        """The presumed actions that something was wagered on, now or before, as a part of the evidence."""
        if "presumed" in memory:
            return {"presumed": memory["presumed"]}
        new = wager.stake > 0 and self.presumed is not None
        return {"presumed": np.asarray(self.presumed, dtype=np.float64)} if new else {}


def log_factors(stake: float, losses: FloatArray, levels: FloatArray) -> FloatArray:
    """`[n, levels]`: `log` of what the e-process is multiplied by after each loss, for claims `E[Z] ≥ level`.

    The first of the `losses [n]` is the largest. `1 - c + c·(largest - z)/(largest - level)`: at most one on average if
    the claim holds. It rises with the level, so what is reached at one level is reached at all higher ones.
    """
    gains = (losses[0] - losses[:, None]) / (losses[0] - levels)
    return np.asarray(np.log1p(stake * (gains - 1)))


def kelly_wager(expected: Forecast, target: float) -> Wager:
    """The stake that is forecast to grow fastest against the claim `E[Z] ≥ target` (Kelly)."""
    if target >= expected.losses[0]:
        return Wager(0.0)
    return Wager(*_fastest(STAKES, expected.losses, expected.law, target))


def unpromising(expected: Forecast, target: float) -> bool:
    """Whether a loss is forecast that is far above the target: then nothing is staked, for a while."""
    return float(expected.law @ expected.losses) >= FAR * target


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
    def started(cls, target: float) -> EProcess:
        """Nothing was won or lost; `target` is the loss to be certified, as a share of an episode."""
        lowest, highest = (
            -DOUBLINGS_BELOW * LEVELS_PER_DOUBLING,
            int(np.floor(np.log2(1 / target) * LEVELS_PER_DOUBLING + 1e-9)),
        )
        levels = target * 2.0 ** (np.arange(lowest, max(lowest, highest) + 1) / LEVELS_PER_DOUBLING)
        return cls(levels, np.zeros(len(levels)), np.zeros(len(levels)))

    def after(self, wager: Wager, seen: Watched) -> EProcess:
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


def kept_evidence(memory: Memory, share: float) -> Memory:
    """The e-processes of a run of which another accuracy is asked, a `share` of an episode: all, or none.

    Their levels were chosen before the first episode, and what is certified is always one of them: at whatever level
    the run shall stop from now on, the chance that any of the levels below the truth is ever reached stays `δ`. If the
    share lies below all levels, none of them can show it: then nothing was wagered on it yet, and new ones start from
    one, which is as good as a run that begins now.
    """
    lowest = [array[0] for name, array in memory.items() if name.endswith("levels")]
    return memory if all(level <= share * (1 + 1e-9) for level in lowest) else {}


@compiled
def _chances(policy: FloatArray, follow: FloatArray, watched: IntArray) -> FloatArray:
    """`[H, S]`: how likely the watched action is by the policy, or by the expert where it is followed, if it is."""
    taken = np.empty(watched.shape)
    for h in range(watched.shape[0]):
        for s in range(watched.shape[1]):
            taken[h, s] = policy[h, s, max(watched[h, s], 0)]
            if follow.size > 0:
                taken[h, s] = follow[h, s] + (1 - follow[h, s]) * taken[h, s]
    return taken
