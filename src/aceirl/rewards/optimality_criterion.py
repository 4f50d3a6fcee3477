"""The paper's optimality criterion: how well a recovered feasible set matches the exact one, and matched pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aceirl.errors import InputError
from aceirl.models.tabular.dynamic_programming import occupancy, worst_values
from aceirl.models.tabular.kernels import clipped_backward
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, check_reward, start_distribution
from aceirl.rewards.feasible import TOLERANCE, FeasibleRewardSet, first_best
from aceirl.rewards.membership import contains
from aceirl.rewards.parameters import matched
from aceirl.rewards.queries import extreme

# Rounds of finding the worst reward for a policy and the worst policy for a reward; each can only make it worse.
ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Condition:
    """The value of a condition of the paper's Definition "Optimality Criterion": between `low` and `high`.

    `reward [H, S, A]` is the exact set's member that attains `low`.
    """

    low: float
    high: float
    reward: FloatArray


def recall_of(exact: FeasibleRewardSet, recovered: FeasibleRewardSet, reward: FloatArray) -> float:
    """The first condition for one true reward: what the best recovered one loses on it, after the worst first action.

    The best is the plain feasible point: its optimal policies are all that take actions the expert is known to use, and
    every other recovered reward has those too. Where the expert is not known, any action may be taken; the worst is.
    `reward` is a member of the exact set, `[H, S, A]`.
    """
    _check(exact, recovered)
    membership = contains(exact, reward)
    if not membership:
        raise InputError(f"reward is not in the exact set: {membership}")
    return _worst_loss(exact, check_reward(reward, exact.mdp.shape), _open(recovered))[0]


def matched_loss(exact: FeasibleRewardSet, recovered: FeasibleRewardSet, reward: FloatArray) -> float:
    """What planning with the match of a true reward loses on it: in the recovered problem, by the worst optimal policy.

    After the worst first action, as in the paper's conditions, but with one recovered reward for each true one.
    `reward` is a member of the exact set, `[H, S, A]`.
    """
    match = matched(exact, recovered, reward)
    best = recovered.losses(match) <= TOLERANCE * recovered.rmax
    return _worst_loss(exact, check_reward(reward, exact.mdp.shape), best)[0]


def recall(exact: FeasibleRewardSet, recovered: FeasibleRewardSet) -> Condition:
    """The first condition for the worst true reward. Paper, Definition "Optimality Criterion", first line.

    Computed, `low = high`, if the recovered expert is known everywhere, has one action in each state, and episodes have
    one start. Else `high` adds up start states as if each had a true reward of its own, or what a policy may lose from
    its first deviation from the expert on; `low` comes from alternating between the worst reward and the worst policy.
    """
    _check(exact, recovered)
    taken = _open(recovered)
    deviation = _loss_by_deviation(exact, taken)
    high = float(exact.mdp.initial @ deviation.max(axis=1))
    reward = np.where(exact.uses, exact.rmax, 0.0)
    low, policy, first = _worst_loss(exact, reward, taken)
    if (taken.sum(axis=2) == 1).all():
        high, candidates = _worst_by_start(exact, policy, deviation)
        reward = max([reward, *candidates], key=lambda member: _worst_loss(exact, member, taken)[0])
        low, policy, first = _worst_loss(exact, reward, taken)
    for _ in range(ROUNDS):
        if high - low <= TOLERANCE * exact.rmax:
            break
        candidate = extreme(exact, _direction(exact.mdp, exact.expert_policy, policy, first)).reward
        worse, policy, first = _worst_loss(exact, candidate, taken)
        if worse <= low:
            break
        low, reward = worse, candidate
    return Condition(low, max(low, high), reward)


def _open(recovered: FeasibleRewardSet) -> BoolArray:
    """`[H, S, A]`: what a policy that agrees with the known expert may do."""
    return np.asarray(recovered.uses | ~recovered.known[:, :, None])


def _worst_loss(exact: FeasibleRewardSet, reward: FloatArray, taken: BoolArray) -> tuple[float, FloatArray, FloatArray]:
    """`(loss, policy [H, S, A], first [S, A])`: the policy within `taken` that loses most, and its worst first actions.

    The loss is `Σ_s initial(s)·max_a (Q*_0(s,a) - Q_0(s,a))`, both in the exact problem.
    """
    mdp, n_actions = exact.mdp, exact.mdp.n_actions
    q, _ = worst_values(mdp, reward, taken)
    policy = np.eye(n_actions)[first_best(np.where(taken, -q, -np.inf), TOLERANCE * exact.rmax)]
    lost = exact.action_values(reward)[0] - q[0]
    return float(mdp.initial @ lost.max(axis=1)), policy, np.eye(n_actions)[lost.argmax(axis=1)]


def _loss_by_deviation(exact: FeasibleRewardSet, taken: BoolArray) -> FloatArray:
    """`[S, A]`: a bound on what a policy within `taken` loses on any true reward after each first action.

    It loses nothing while it does as the expert does, and at most all that remains once it does not.
    """
    remaining = exact.rmax * exact.mdp.steps_left
    # A deviation costs the ceiling itself, so what is clipped is all that follows it.
    cost = np.where(exact.uses, 0.0, remaining[:, None, None])
    _, lost = exact.mdp.sweep(clipped_backward, np.where(taken, cost, -np.inf), remaining)
    return np.asarray(exact.continuation(lost)[0])


def _worst_by_start(
    exact: FeasibleRewardSet, policy: FloatArray, deviation: FloatArray
) -> tuple[float, list[FloatArray]]:
    """What one policy loses, `Σ_s initial(s)·max_a` over the true reward worst for that `(s, a)`, and those rewards.

    A first action that cannot lose more than another does, by the bound `deviation [S, A]`, is passed over.
    """
    total, rewards = 0.0, []
    for state in np.flatnonzero(exact.mdp.initial):
        alone = replace(exact.mdp, initial=start_distribution(state, exact.mdp.n_states))
        worst = 0.0
        for action in np.argsort(-deviation[state]):
            if deviation[state, action] <= worst:
                break
            first = np.broadcast_to(np.eye(exact.mdp.n_actions)[action], exact.mdp.shape[1:])
            found = extreme(exact, _direction(alone, exact.expert_policy, policy, first))
            worst = max(worst, found.bound)
            rewards.append(found.reward)
        total += float(exact.mdp.initial[state]) * worst
    return total, rewards


def _direction(mdp: MDP, expert_policy: FloatArray, policy: FloatArray, first: FloatArray) -> FloatArray:
    """`[H, S, A]`: how much more often the expert is at each entry than the policy, both after `first [S, A]`."""
    expert, other = (np.concatenate([first[None], followed[1:]]) for followed in (expert_policy, policy))
    return occupancy(mdp, expert) - occupancy(mdp, other)


def _check(exact: FeasibleRewardSet, recovered: FeasibleRewardSet) -> None:
    exact.require_tables("the optimality criterion")
    recovered.require_tables("the optimality criterion")
    if exact.mdp.shape != recovered.mdp.shape:
        raise InputError(
            f"recovered is a problem of shape {list(recovered.mdp.shape)}, not {list(exact.mdp.shape)} as exact"
        )
    exact.mdp.require_complete()
    if not exact.known.all():
        raise InputError(f"exact must know its expert everywhere, and does not in {np.argwhere(~exact.known)[0]}")
