"""Whether a reward is in the feasible set, and if not, what it violates; decided by a backward induction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards.feasible import Entry, FeasibleRewardSet, first_entry


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


def contains(feasible: FeasibleRewardSet, theta: ArrayLike, tolerance: float | None = None) -> Membership:
    """Whether a reward, by its parameters, is a member, and the constraint it violates most.

    Up to a `tolerance`; without one, `1e-6` in units of the largest reward, and in a smaller space for each step.
    """
    array, slack = feasible.checked(theta), feasible.slack
    of_bounds = feasible.rounding_of(feasible.scale) if tolerance is None else tolerance
    of_losses = feasible.rounding if tolerance is None else tolerance
    found = [
        replace(membership, holds=membership.violation <= allowed)
        for membership, allowed in (
            (_bound(feasible, "lower", feasible.lower - array), of_bounds),
            (_bound(feasible, "upper", array - feasible.upper), of_bounds),
            (optimality(feasible, array) if slack is None else _within_slack(feasible, array, slack), of_losses),
        )
    ]
    return max(found, key=lambda membership: (not membership.holds, membership.violation))


def compatible(feasible: FeasibleRewardSet, theta: ArrayLike, slack: float) -> Membership:
    """Whether the expert loses at most `slack` from the start under a reward within the bounds."""
    return contains(feasible.with_slack(slack), theta)


def expert_loss(feasible: FeasibleRewardSet, theta: ArrayLike) -> float:
    """What the expert is known to lose from the start under a reward: `Σ μᴱ·(V* - Q*)`."""
    return float(_lost(feasible.with_slack(0.0), feasible.checked(theta)).sum())


def optimality(feasible: FeasibleRewardSet, theta: FloatArray) -> Membership:
    """Whether every action the expert is known to use is optimal under a reward, whatever the bounds and the slack.

    Paper, Lemma "Feasible Reward Set Implicit".
    """
    losses = feasible.losses(theta)
    # Where values follow the expert, another action is better if it is ahead of them, and an answer worse by either.
    short = np.where(feasible.uses, np.abs(losses), -losses) - np.asarray(feasible.tolerance)[:, :, None]
    worst = np.where(feasible.known[:, :, None], np.maximum(short, 0.0), 0.0)
    largest = float(worst.max())
    if largest <= 0:
        return SATISFIED
    h, s, a = first_entry(worst == largest)
    if feasible.uses[h, s, a]:
        return Membership(False, largest, "optimality", (h, s, a), int(losses[h, s].argmin()))
    return Membership(False, largest, "optimality", (h, s, int(feasible.policy[h, s].argmax())), a)


def _within_slack(feasible: FeasibleRewardSet, theta: FloatArray, slack: float) -> Membership:
    lost = _lost(feasible, theta)
    excess = float(lost.sum()) - slack
    return SATISFIED if excess <= 0 else Membership(False, excess, "slack", first_entry(lost == lost.max()))


def _lost(feasible: FeasibleRewardSet, theta: FloatArray) -> FloatArray:
    """`[H, S, A]`: what the expert loses at each entry before the first state in which it is unknown."""
    there = feasible.expert_occupancy
    return there * np.where(there > 0, feasible.losses(theta), 0.0)


def _bound(feasible: FeasibleRewardSet, constraint: Literal["lower", "upper"], violation: FloatArray) -> Membership:
    """The parameter that is furthest outside its bound, if any is."""
    largest = float(violation.max())
    if largest <= 0:
        return SATISFIED
    if feasible.design.free:
        return Membership(False, largest, constraint, first_entry(violation == largest))
    return Membership(False, largest, constraint, parameter=int(violation.argmax()))
