"""PIRLO: from fixed data, a set of rewards that surely explain the expert, and one of all that possibly do.

Lazzati, Mutti and Metelli, "Offline Inverse RL: New Solution Concepts and Provably Efficient Algorithms" (ICML 2024).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aceirl.bench.rivals.rebased import Rebased, judged, towards
from aceirl.data.arrays import IntArray
from aceirl.irl.feasible_point import plain_reward
from aceirl.models.tabular.confidence import adaptive
from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import Successors, compiled
from aceirl.models.tabular.mdp import BoolArray, FloatArray, steps_after
from aceirl.rewards import Recovered

ROUNDING = 1e-9
"""Values that differ by less, in units of what an episode can pay, are equal."""

HALVINGS = 12
"""How finely the edge of the pessimistic set is searched for, from inside."""


@dataclass(frozen=True)
class Pirlo(Rebased):
    """A reward of the pessimistic set, as near as can be to the one that `base`, another algorithm, finds.

    The pessimistic set is convex and the plain feasible point is in it, whatever the data: so the base's reward is
    moved towards that point until it surely explains the expert. The paper returns the two sets, which here are
    `surely` and `possibly`, and no reward.
    """

    delta: float = 0.1

    def changed(self, estimate: Estimate, first: Recovered) -> Recovered:
        """The base's reward, moved into the set."""
        point, tv_radius = plain_reward(estimate, 1.0), adaptive(estimate, 1.0, self.delta).tv_radius
        low, high, share = 0.0, 1.0, 0.0
        for _ in range(HALVINGS):
            tried = towards(first, point, share)
            if surely(estimate, tv_radius, tried.reward, tried.unknown_step_reward) >= -ROUNDING * len(point):
                high = share
            else:
                low = share
            if high == 0.0:
                break
            share = (low + high) / 2
        chosen = towards(first, point, high)
        return judged(estimate, replace(chosen, explanation=None) if high else chosen)


def surely(estimate: Estimate, tv_radius: FloatArray, reward: FloatArray, unknown_step_reward: float) -> float:
    """The margin by which a reward is in the pessimistic set: at least 0 for its members, all of them feasible.

    At every `(h, s)` that the expert may come to, what it does is at the worst as good as any other action at the best,
    over all processes with rows no further than `tv_radius [H, S, A]` from the estimated ones. So the expert is optimal
    from the start in each of these, as long as it was seen to come to all the states that it does come to. Where it was
    not asked it may do anything.
    """
    allowed = _may_take(estimate)
    q_low = -extended(estimate, tv_radius, -reward, -unknown_step_reward, allowed)
    q_high = extended(estimate, tv_radius, reward, unknown_step_reward, np.ones_like(allowed))
    margin = np.where(allowed, q_low - best_other(q_high), np.inf).min(axis=2)
    return float(np.where(_may_come_to(estimate, allowed), margin, np.inf).min())


def possibly(estimate: Estimate, tv_radius: FloatArray, reward: FloatArray, unknown_step_reward: float) -> float:
    """The margin by which a reward is in the optimistic set: at least 0 for its members, among them all feasible ones.

    At every `(h, s)` that the expert is known to come to, what it does is at the best as good as any other action at
    the worst.
    """
    allowed = _may_take(estimate)
    q_high = extended(estimate, tv_radius, reward, unknown_step_reward, allowed)
    q_low = -extended(estimate, tv_radius, -reward, -unknown_step_reward, np.ones_like(allowed), largest=False)
    margin = np.where(estimate.expert_uses, q_high, np.inf).min(axis=2) - q_low.max(axis=2)
    known = np.where(estimate.expert_known[:, :, None], estimate.expert_policy, 0.0)
    comes = occupancy(estimate.mdp, known).sum(axis=2) > 0
    return float(np.where(comes & estimate.answered, margin, np.inf).min(initial=np.inf))


def extended(
    estimate: Estimate,
    tv_radius: FloatArray,
    reward: FloatArray,
    unknown_step_reward: float,
    allowed: BoolArray,
    *,
    largest: bool = True,
) -> FloatArray:
    """`Q [H, S, A]` with the kindest process: `Q = r + max over p of p·V`, `V` the best or worst `allowed` action's.

    `p` are all rows no further in total variation than the `tv_radius [H, S, A]` from the estimated one, or any where
    there is none. For the least kind process turn the signs of the reward and of the answer. A state that was not met
    yet earns `unknown_step_reward` a step.
    """
    shape = estimate.mdp.shape
    all_met = estimate.possible_states <= shape[1]
    elsewhere = np.full(shape[0], -np.inf) if all_met else unknown_step_reward * steps_after(shape[0])
    q, v = np.empty(shape), np.zeros((shape[0] + 1, shape[1]))
    _extended(
        *estimate.mdp.transitions.rows,
        np.ascontiguousarray(reward),
        np.ascontiguousarray(tv_radius),
        np.ascontiguousarray(allowed),
        elsewhere,
        largest,
        q,
        v,
    )
    return q


@compiled
def _extended(
    indptr: IntArray,
    successors: Successors,
    probabilities: FloatArray,
    stride: int,
    reward: FloatArray,
    tv_radius: FloatArray,
    allowed: BoolArray,
    elsewhere: FloatArray,
    largest: bool,
    q: FloatArray,
    v: FloatArray,
) -> None:
    horizon, n_states, n_actions = reward.shape
    for h in range(horizon - 1, -1, -1):
        later = v[h + 1]
        best = max(later.max(), elsewhere[h])
        for s in range(n_states):
            chosen = -np.inf if largest else np.inf
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                first, last = indptr[row], indptr[row + 1]
                mean = best
                if first < last:
                    mean = _kindest(probabilities[first:last], later[successors[first:last]], best, tv_radius[h, s, a])
                q[h, s, a] = reward[h, s, a] + mean
                if allowed[h, s, a]:
                    chosen = max(chosen, q[h, s, a]) if largest else min(chosen, q[h, s, a])
            v[h, s] = chosen


@compiled
def _kindest(row: FloatArray, seen: FloatArray, best: float, moved: float) -> float:
    """The largest mean when `moved` of the mass of a `row [K]` over values `seen [K]` goes to the `best` instead."""
    mean, left = 0.0, moved
    for k in np.argsort(seen):
        taken = min(row[k], left)
        left -= taken
        mean += (row[k] - taken) * seen[k] + taken * best
    return mean


def best_other(q: FloatArray) -> FloatArray:
    """`[H, S, A]`: the largest of the other actions' values; minus infinity if there is none."""
    if q.shape[2] == 1:
        return np.full(q.shape, -np.inf)
    second, first = np.moveaxis(np.partition(q, -2, axis=2)[:, :, -2:], 2, 0)[:, :, :, None]
    alone = (q == first).sum(axis=2, keepdims=True) == 1
    return np.asarray(np.where((q == first) & alone, second, first))


def _may_take(estimate: Estimate) -> BoolArray:
    """`[H, S, A]`: the actions that the expert may use."""
    return np.asarray(estimate.allowed | ~estimate.expert_known[:, :, None])


def _may_come_to(estimate: Estimate, allowed: BoolArray) -> BoolArray:
    """`[H, S]`: where it may come to, as far as was seen; anywhere after a row of unknown consequence."""
    mu = occupancy(estimate.mdp, allowed / allowed.sum(axis=2, keepdims=True))
    lost = ((mu > 0) & ~estimate.mdp.known).any(axis=(1, 2))
    anywhere = np.append(False, np.logical_or.accumulate(lost)[:-1]) | ~estimate.mdp.initial.any()
    return np.asarray((mu.sum(axis=2) > 0) | anywhere[:, None])
