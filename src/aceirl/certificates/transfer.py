"""`transfer`: planning with the recovered reward in another, known process loses at most so much."""

from __future__ import annotations

import numpy as np

from aceirl.belief import Belief
from aceirl.certificates.base import (
    Certificate,
    family_name,
    largest_entry,
    refutation,
    same_to_expert,
    taken_for_granted,
)
from aceirl.confidence import Radii
from aceirl.counts import Estimate
from aceirl.dynamic_programming import greedy_actions, occupancy, optimal_values
from aceirl.errors import InputError
from aceirl.mdp import MDP, FloatArray, IntArray, steps_after
from aceirl.rewards import Recovered, action_values


def transfer_certificate(belief: Belief, process: MDP, policy: FloatArray | None = None) -> Certificate:
    """What planning with the recovered reward may lose in a target process that is known.

    `policy [H, S, A]` is the plan, one that is best there for the recovered reward; by default that of
    `transfer_policy`.

    The recovered reward differs from its match by `(P̂ - P)·V̂` and, where the expert is unknown or the reward prefers
    one of its actions to another, by at most its own advantage; both are added up along the target's dynamics, for the
    best policy there and for the planned one.
    """
    estimate, radii, recovered, target = belief.estimate, belief.radii, belief.recovered, belief.target
    if process.shape != estimate.mdp.shape:
        raise InputError(f"the target has shape {list(process.shape)}, but the reward has {list(estimate.mdp.shape)}")
    process.require_complete()
    dynamics, advantage = _reward_error(estimate, radii, recovered)
    unknown = ~estimate.expert_known[:, :, None]
    against = dynamics + np.where(unknown | same_to_expert(estimate), advantage, 0.0)
    best = float(process.initial @ optimal_values(process, against)[1][0])
    planned = np.eye(process.n_actions)[transfer_policy(recovered, process)] if policy is None else policy
    own = occupancy(process, planned)
    worst = greedy_actions(optimal_values(process, against)[0], np.random.default_rng(0))
    share = occupancy(process, np.eye(process.n_actions)[worst]) * against + own * dynamics
    return Certificate(
        kind="transfer",
        value=best + float((own * dynamics).sum()),
        epsilon=target.epsilon,
        delta=target.delta,
        radii=family_name(belief),
        assumptions=(*taken_for_granted(estimate, target.rmax), "the target's dynamics are as given"),
        promise="planning with the recovered reward in the target environment loses, under its match, at most",
        entry=largest_entry(share),
        weight=float(share.max()),
        more_samples=None,
        possible=process.horizon * target.rmax,
        guaranteed=radii.guaranteed,
        refuted=refutation(estimate) if estimate.counts.contradicted.any() else None,
    )


def transfer_policy(recovered: Recovered, process: MDP) -> IntArray:
    """`[H, S]`: the policy that the recovered reward plans in a target; of equally good actions the first."""
    actions: IntArray = optimal_values(process, recovered.reward)[0].argmax(axis=2)
    return actions


def _reward_error(estimate: Estimate, radii: Radii, recovered: Recovered) -> tuple[FloatArray, FloatArray]:
    """`[H, S, A]` each: how far dynamics may move the recovered reward from its match, and its own advantages."""
    q = action_values(estimate, recovered.reward, recovered.unknown_step_reward)
    v = q.max(axis=2)
    later = np.vstack((v[1:], np.zeros((1, v.shape[1]))))
    high, low = later.max(axis=1), later.min(axis=1)
    guess = recovered.unknown_step_reward * steps_after(len(v))
    of_unknown = np.maximum(high - guess, guess - low)
    known = estimate.mdp.known
    dynamics = np.where(known, radii.tv_radius * (high - low)[:, None, None], of_unknown[:, None, None])
    return dynamics, v[:, :, None] - q
