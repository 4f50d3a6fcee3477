"""What the feasible reward set answers: whether a reward is a member, and which member was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from aceirl.mdp import BoolArray, FloatArray

Place = tuple[int, int, int]


@dataclass(frozen=True)
class Membership:
    """Whether a reward is in the set: true or false, and by how much and where it fails most.

    `violation` is the largest violation (zero if there is none at all), `constraint` what it is of: the "lower" or
    "upper" bound of the reward, the "optimality" of the expert's action at `place`, or its "slack" from the start.
    `better` is the action that beats the expert's, where it is optimality that fails.
    """

    holds: bool
    violation: float
    constraint: Literal["none", "lower", "upper", "optimality", "slack"]
    place: Place | None = None
    better: int | None = None

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        if self.holds or self.place is None:
            return "in the set"
        h, s, a = self.place
        where = f"action {a} in state {s} at step {h}"
        return {
            "none": "in the set",
            "lower": f"the reward of {where} is {self.violation:.3g} too low",
            "upper": f"the reward of {where} is {self.violation:.3g} too high",
            "optimality": f"the expert's {where} is {self.violation:.3g} worse than action {self.better}",
            "slack": f"the expert loses {self.violation:.3g} more than the slack, most of it by {where}",
        }[self.constraint]


@dataclass(frozen=True, eq=False)
class Answer:
    """A reward `[H, S, A]` of the set that answers a question, and the evidence.

    `value` is what was asked for (the least distance, the largest product) at this reward; `bound` is what no member
    can beat. They agree, up to the solver's tolerance, where the expert is known everywhere. `membership` is what a
    backward induction, independent of the solver, says of the reward. `iterations` and `method` are the solver's.
    """

    reward: FloatArray
    value: float
    bound: float
    membership: Membership
    iterations: int
    method: str

    @property
    def gap(self) -> float:
        """How much better than `value` the best member may be."""
        return abs(self.value - self.bound)


def first_place(mask: BoolArray) -> Place:
    """The first true `(h, s, a)` of a mask `[H, S, A]`."""
    h, s, a = (int(i) for i in np.argwhere(mask)[0])
    return h, s, a


def worst_of(constraint: Literal["lower", "upper", "optimality"], violation: FloatArray) -> Membership:
    """The largest entry of `violation [H, S, A]`, as a membership that fails if it is positive at all."""
    largest = float(violation.max())
    if largest <= 0:
        return Membership(True, 0.0, "none")
    return Membership(False, largest, constraint, first_place(violation == largest))
