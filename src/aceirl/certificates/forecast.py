"""What the next episode is expected to do, by the tabular model: a guess that chooses a stake and promises nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aceirl.irl.belief import Belief, Plan, Target
from aceirl.models.tabular.estimate import Estimate, imputation_doubts
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray

FAR, LOOK_AGAIN = 1.5, 1.01
"""A forecast that is so many times too high is made again when there are so many times the samples."""


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
    reference: IntArray,
    target: Target,
    taken: FloatArray | None = None,
    doubt: FloatArray | None = None,
) -> Forecast:
    """What happens on the actions `reference [H, S]` (-1 where there is none), by the estimated process.

    `taken [H, S]` is how likely an episode takes the reference action; 1 by default. `doubt [H, S]` is how
    likely one that is only imputed is not the expert's, 0 where it is known; everywhere, if nothing is said. Where the
    expert, asked again, said something else, it is expected to do so as often once more, and to say nothing as often as
    it did.

    A row, and a start that is estimated, are trusted up to the share of their observations that were seen only once
    (Good and Turing: about that likely is something new), or that led to states met in one episode only: visits of one
    episode may be alike for its own reasons. As likely as the latter a state follows that was never met, where there
    can be one; else, where something new follows, it is any state. Before any start was seen, nothing is expected to be
    known. Where something is imputed of the expert, what is first wagered on stands, so it should not be early: a state
    that was never met is expected once more, at any step (Laplace's rule of succession over episodes).
    """
    mdp, counts = estimate.mdp, estimate.counts
    deviations, law = np.zeros(reference.shape), np.zeros(mdp.horizon + 1)
    if not (estimate.start_known or counts.episodes):
        law[0] = 1.0
        return Forecast(deviations, law, target.losses(mdp.horizon))
    doubt = NOTHING if doubt is None else doubt
    rare, begun_once = counts.met == 1, counts.starts == 1
    new_state, new_start = (0.0, 0.0) if estimate.start_known else _shares(begun_once, rare, counts.episodes)
    _follow(
        *mdp.transitions.rows,
        mdp.n_actions,
        mdp.initial,
        new_state,
        new_start,
        reference,
        NOTHING if taken is None else taken,
        doubt,
        _not_confirmed(estimate),
        estimate.terminal_states,
        estimate.move_rows,
        counts.move_keys % mdp.n_states,
        counts.move_counts,
        rare,
        estimate.possible_states <= mdp.n_states,
        deviations,
        law,
    )
    if estimate.kind.imputed and estimate.possible_states > mdp.n_states:
        unmet = 1 / (counts.episodes + 1)
        law *= 1 - unmet
        law[:-1] += unmet / mdp.horizon
    return Forecast(deviations, law, wagered_losses(target, estimate, reference, doubt))


def _shares(once: BoolArray, rare: BoolArray, episodes: int) -> tuple[float, float]:
    """How likely an episode starts in a state that was never met, and in another in which none started."""
    return np.count_nonzero(once & rare) / episodes, np.count_nonzero(once & ~rare) / episodes


def _not_confirmed(estimate: Estimate) -> FloatArray:
    """`[S]`: the share of the times at which the expert was asked again and did not say the same.

    Of one who is asked everywhere, silence is as good as that.
    """
    counts = estimate.counts
    asked, differed = counts.repeats.sum(axis=1), counts.repeats[:, 1]
    silent = 0
    if estimate.kind.asked_everywhere:
        visits, answers = (one.pooled.sum(axis=1) for one in (counts.visited, counts.given))
        silent = np.maximum(visits - answers - asked, 0)
    return np.asarray((differed + silent) / np.maximum(asked + silent, 1))


NOTHING: FloatArray = np.zeros((0, 0))
"""Stands for an array that is not there, where compiled passes take one."""


def doubts(belief: Belief) -> FloatArray:
    """`[H, S]`: how likely the expert does not do what is imputed of it; 0 where its action is known. A guess."""
    said = belief.estimate.said
    if belief.frozen_imputation is None and said.doubts is not None:
        return said.doubts
    return imputation_doubts(said, belief.imputed)


def chance_taken(plan: Plan, reference: IntArray) -> FloatArray:
    """`[H, S]`: how likely a plan takes the known action, empty if always; an imposed first action is always taken."""
    if plan.always_follows:
        return NOTHING
    assert plan.policy is not None
    follow = NOTHING if plan.follow is None else np.asarray(plan.follow, dtype=np.float64)
    taken = _chances(np.ascontiguousarray(plan.policy), np.ascontiguousarray(follow), reference)
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
    first = _first_unknown(
        known_actions, doubt, estimate.terminal_states, losses[:0] if initial is None else initial, all_met
    )
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
    if not estimate.kind.imputed:
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
    new_state: float,
    new_start: float,
    reference: IntArray,
    taken: FloatArray,
    doubt: FloatArray,
    back: FloatArray,
    over: IntArray,
    move_rows: IntArray,
    move_successors: IntArray,
    move_counts: IntArray,
    rare: BoolArray,
    all_met: bool,
    deviations: FloatArray,
    law: FloatArray,
) -> None:
    """Push the start along the reference actions; what leaves goes to `deviations [H, S]` and `law [H+1]`, by step.

    What never leaves goes to the last entry of the law. Where there is a reference, the share `doubt [H, S]` leaves
    or, where there is none, as often as the expert does not confirm what it said, `back [S]`; from the states that are
    `over` nobody does. An empty `doubt` is none, and an empty `taken` means always. What takes another action, or
    goes to states never met before, leaves at the step after. That goes by the share of the observations of a row, the
    `move_counts` of each of the `move_rows`, that led to `rare [S]` states; those seen only once say how likely any
    state follows.
    """
    horizon, n_states = reference.shape
    ended = np.zeros(n_states, dtype=np.bool_)
    ended[over] = True
    once, new, visits = np.zeros((3, indptr.size - 1))
    for i in range(move_rows.size):
        if rare[move_successors[i]]:
            new[move_rows[i]] += move_counts[i]
        elif move_counts[i] == 1:
            once[move_rows[i]] += 1
        visits[move_rows[i]] += move_counts[i]
    here = start * (1.0 - new_start - new_state)
    if all_met:
        new_start += new_state
    else:
        law[0] = new_state
    here += new_start / n_states
    for h in range(horizon):
        after = np.zeros(n_states)
        anywhere = 0.0
        for s in range(n_states):
            if here[s] == 0.0:
                continue
            action, leaving = 0, 0.0
            if not ended[s]:
                action = reference[h, s]
                leaving = doubt[h, s] if doubt.size > 0 and doubt[h, s] > 0.0 else back[s]
            deviations[h, s] = here[s] * (leaving if action >= 0 else 1.0)
            law[h] += deviations[h, s]
            if action < 0:
                continue
            here[s] -= deviations[h, s]
            row = h * stride + s * n_actions + action
            mass = here[s] * taken[h, s] if taken.size > 0 else here[s]
            law[h + 1] += here[s] - mass
            unmet, novelty = 1.0, 0.0
            if indptr[row] < indptr[row + 1]:
                unmet, novelty = new[row] / max(1.0, visits[row]), once[row] / max(1.0, visits[row])
            for k in range(indptr[row], indptr[row + 1]):
                after[successors[k]] += mass * (1.0 - unmet - novelty) * probabilities[k]
            anywhere += mass * novelty
            if all_met:
                anywhere += mass * unmet
            else:
                law[h + 1] += mass * unmet
        here = after + anywhere / n_states
    law[horizon] += here.sum()


def unpromising(expected: Forecast, target: float) -> bool:
    """Whether a loss is forecast that is far above the target: then nothing is staked, for a while."""
    return float(expected.law @ expected.losses) >= FAR * target


@compiled
def _chances(policy: FloatArray, follow: FloatArray, reference: IntArray) -> FloatArray:
    """`[H, S]`: how likely the reference action is by the policy, or by the expert where it is followed, if it is."""
    taken = np.empty(reference.shape)
    for h in range(reference.shape[0]):
        for s in range(reference.shape[1]):
            taken[h, s] = policy[h, s, max(reference[h, s], 0)]
            if follow.size > 0:
                taken[h, s] = follow[h, s] + (1 - follow[h, s]) * taken[h, s]
    return taken
