"""`transfer`: planning with the recovered reward in another, known process loses at most so much."""

from __future__ import annotations

from functools import reduce

import numpy as np

from aceirl.certificates.base import (
    Certificate,
    family_name,
    largest_entry,
    refutation,
    same_to_expert,
    taken_for_granted,
)
from aceirl.certificates.budget import DIVERGENCE, promised
from aceirl.errors import InputError
from aceirl.irl.belief import Belief
from aceirl.models.tabular.bounds import highest_means
from aceirl.models.tabular.confidence import Radii
from aceirl.models.tabular.dynamic_programming import greedy_actions, occupancy, optimal_values
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.rewards import Recovered, action_values


def transfer_certificate(belief: Belief, process: MDP, policy: FloatArray | None = None) -> Certificate:
    """What planning with the recovered reward may lose in a target process that is known.

    `policy [H, S, A]` is the plan, one that is best there for the recovered reward; by default that of
    `transfer_policy`.

    The match is the recovered reward and `(P̂ - P)·V̂` and, where the expert is unknown or the reward prefers one of its
    actions to another, at most its own advantage. What the best policy there gains of that and the planned one does
    not is added up along the target's dynamics; where both go, it is the same for both.
    """
    belief = promised(belief, DIVERGENCE)
    estimate, radii, recovered, target = belief.estimate, belief.radii, belief.recovered, belief.target
    if process.shape != estimate.mdp.shape:
        raise InputError(f"the target has shape {list(process.shape)}, but the reward has {list(estimate.mdp.shape)}")
    if process.discount != estimate.mdp.discount:
        raise InputError(
            f"the target has the discount {process.discount:g}, and the run {estimate.mdp.discount:g}: nothing is "
            "certified for another discount; give the target that of the run"
        )
    process.require_complete()
    higher, lower = _reward_error(estimate, radii, recovered)
    planned = np.eye(process.n_actions)[transfer_policy(recovered, process)] if policy is None else policy
    own, most = occupancy(process, planned), _most_visits(process)[:, :, None]
    # A policy that goes there μ times, and the plan own times: (μ - own)⁺·higher + (own - μ)⁺·lower, convex in μ, so at
    # most own·lower + μ·against for all 0 ≤ μ ≤ most.
    against = np.where(most > 0, ((most - own) * higher - own * lower) / np.where(most > 0, most, 1.0), 0.0)
    q, v = optimal_values(process, against)
    worst = greedy_actions(q, np.random.default_rng(0))
    share = occupancy(process, np.eye(process.n_actions)[worst]) * against + own * lower
    return Certificate(
        kind="transfer",
        value=max(0.0, float(process.initial @ v[0]) + float((own * lower).sum())),
        epsilon=target.epsilon,
        delta=target.delta,
        radii=family_name(belief),
        assumptions=(*taken_for_granted(estimate, target.rmax), "the target's dynamics are as given"),
        promise="planning with the recovered reward in the target environment loses, by a reward that explains the "
        "expert, at most",
        entry=largest_entry(share),
        weight=float(share.max()),
        more_samples=None,
        possible=target.steps(process.horizon) * target.rmax,
        guaranteed=radii.guaranteed,
        refuted=refutation(estimate) if estimate.counts.contradicted.any() else None,
    )


def transfer_policy(recovered: Recovered, process: MDP) -> IntArray:
    """`[H, S]`: the policy that the recovered reward plans in a target; of equally good actions the first."""
    actions: IntArray = optimal_values(process, recovered.reward)[0].argmax(axis=2)
    return actions


def _reward_error(estimate: Estimate, radii: Radii, recovered: Recovered) -> tuple[FloatArray, FloatArray]:
    """`[H, S, A]` each: how far the match may lie above the recovered reward, and how far below it."""
    q = action_values(estimate, recovered.reward, recovered.unknown_step_reward)
    v = q.max(axis=2)
    later = estimate.mdp.discount * np.vstack((v[1:], np.zeros((1, v.shape[1]))))
    guess = recovered.unknown_step_reward * estimate.mdp.steps_after
    known = estimate.mdp.known
    falls, rises = (
        np.where(known, highest_means(estimate.mdp, radii.divergence, values), beyond[:, None, None])
        for values, beyond in ((-later, guess - later.min(axis=1)), (later, later.max(axis=1) - guess))
    )
    not_ruled_out = ~estimate.expert_known[:, :, None] | same_to_expert(estimate)
    return falls + np.where(not_ruled_out, v[:, :, None] - q, 0.0), rises


def _most_visits(process: MDP) -> FloatArray:
    """`[H, S]`: a bound on how likely any policy is to be in each state at each step, times `discount^h`."""
    rows, n_actions, per_step = process.backup, process.n_actions, process.n_states * process.n_actions
    most = np.empty(process.shape[:2])
    most[0] = process.initial
    for h in range(process.horizon - 1):
        if h == 0 or not rows.stationary:
            step = rows.matrix[h * rows.stride : h * rows.stride + per_step]
            likeliest = reduce(lambda one, other: one.maximum(other), (step[a::n_actions] for a in range(n_actions)))
        most[h + 1] = np.minimum(1.0, likeliest.T @ most[h])
    return most
