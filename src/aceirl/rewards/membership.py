"""Whether a reward is in the feasible set, and if not, what it violates; decided by a backward induction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from aceirl.mdp import FloatArray, check_reward
from aceirl.rewards.feasible import TOLERANCE, Entry, FeasibleRewardSet, first_entry


@dataclass(frozen=True)
class Membership:
    """Whether a reward is in the set: true or false, and by how much and where it fails most.

    `violation` is the largest violation (zero if there is none at all), `constraint` what it is of: the "lower" or
    "upper" bound of the reward, the "optimality" of the expert's action at `entry`, or its "slack" from the start.
    `better` is the action that beats the expert's, where it is optimality that fails. In a reward space it is a
    `parameter` that has bounds.
    """

    holds: bool
    violation: float
    constraint: Literal["none", "lower", "upper", "optimality", "slack"]
    entry: Entry | None = None
    better: int | None = None
    parameter: int | None = None

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        if self.parameter is not None and not self.holds:
            side = "low" if self.constraint == "lower" else "high"
            return f"parameter {self.parameter} is {self.violation:.3g} too {side}"
        if self.holds or self.entry is None:
            return "in the set"
        h, s, a = self.entry
        where = f"action {a} in state {s} at step {h}"
        return {
            "none": "in the set",
            "lower": f"the reward of {where} is {self.violation:.3g} too low",
            "upper": f"the reward of {where} is {self.violation:.3g} too high",
            "optimality": f"the expert's {where} is {self.violation:.3g} worse than action {self.better}",
            "slack": f"the expert loses {self.violation:.3g} more than the slack, most of it by {where}",
        }[self.constraint]


SATISFIED = Membership(True, 0.0, "none")


def contains(feasible: FeasibleRewardSet, reward: ArrayLike, tolerance: float | None = None) -> Membership:
    """Whether a reward is a member up to `tolerance` (`1e-6·Rmax` if none), and the constraint it violates most."""
    array = check_reward(reward, feasible.mdp.shape)
    allowed = TOLERANCE * feasible.rmax if tolerance is None else tolerance
    worst = max(
        _worst("lower", feasible.lower - array),
        _worst("upper", array - feasible.upper),
        optimality(feasible, array) if feasible.slack is None else _within_slack(feasible, array, feasible.slack),
        key=lambda membership: membership.violation,
    )
    return replace(worst, holds=worst.violation <= allowed)


def compatible(feasible: FeasibleRewardSet, reward: ArrayLike, slack: float) -> Membership:
    """Whether the expert loses at most `slack` from the start under a reward within the bounds."""
    return contains(feasible.with_slack(slack), reward)


def expert_loss(feasible: FeasibleRewardSet, reward: ArrayLike) -> float:
    """What the expert is known to lose from the start under a reward: `Σ μᴱ·(V* - Q*)`."""
    return float(np.vdot(feasible.expert_occupancy, feasible.losses(check_reward(reward, feasible.mdp.shape))))


def optimality(feasible: FeasibleRewardSet, reward: FloatArray) -> Membership:
    """Whether every action the expert is known to use is optimal under a reward, whatever the bounds and the slack.

    Paper, Lemma "Feasible Reward Set Implicit".
    """
    losses = feasible.losses(reward)
    worst = _worst("optimality", np.where(feasible.uses, losses, 0.0))
    if worst.entry is None:
        return worst
    h, s, _ = worst.entry
    return replace(worst, better=int(losses[h, s].argmin()))


def _within_slack(feasible: FeasibleRewardSet, reward: FloatArray, slack: float) -> Membership:
    lost = feasible.expert_occupancy * feasible.losses(reward)
    excess = float(lost.sum()) - slack
    return SATISFIED if excess <= 0 else Membership(False, excess, "slack", first_entry(lost == lost.max()))


def _worst(constraint: Literal["lower", "upper", "optimality"], violation: FloatArray) -> Membership:
    """The largest entry of `violation [H, S, A]`, as a membership that fails if it is positive at all."""
    largest = float(violation.max())
    return SATISFIED if largest <= 0 else Membership(False, largest, constraint, first_entry(violation == largest))
