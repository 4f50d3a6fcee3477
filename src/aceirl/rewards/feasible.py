"""The feasible reward set: every reward under which the expert is optimal, as a value to ask questions about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from aceirl.counts import Estimate
from aceirl.dynamic_programming import occupancy, optimal_values
from aceirl.errors import InputError
from aceirl.mdp import MDP, BoolArray, FloatArray, IntArray, check_policy, check_reward, frozen, steps_after

# In units of Rmax: what the linear solver may leave unsatisfied in one constraint, with room to add up over the steps.
TOLERANCE = 1e-6

# `(h, s, a)`.
Entry = tuple[int, int, int]
"""Step, state and action, `(h, s, a)`."""


@dataclass(frozen=True, eq=False)
class FeasibleRewardSet:
    """Rewards `r [H, S, A]`, `lower ≤ r ≤ upper`, under which what the expert is known to do is optimal.

    Paper, Definition "Feasible Reward Set". With `V = V*(r)` and `Q = r + P·V`: `Q_h(s,a) = V_h(s)` for every action
    the expert uses at an `(h, s)` where it is `known`. Nothing is asked where it is not. `unknown_step_reward` is what
    each step after an unknown row of transitions earns, as in `Recovered`. With a `slack` the expert may err: it is
    asked only to lose at most that much from the start, `Σ μᴱ·(V - Q) ≤ slack`, where it is taken to be right from the
    first state on in which it is unknown.

    Where the expert is known everywhere this is a polytope in `(r, V)`; where it is not, a union of polytopes, one for
    each way the expert might act there. The questions about a set are functions: `aceirl.rewards` has them all.

    Shapes: `expert_policy [H, S, A]`, `known [H, S]`, `lower` and `upper [H, S, A]`.
    """

    mdp: MDP
    expert_policy: FloatArray
    known: BoolArray
    rmax: float
    unknown_step_reward: float
    lower: FloatArray
    upper: FloatArray
    slack: float | None = None

    def __post_init__(self) -> None:
        shape = self.mdp.shape
        if not (np.isfinite(self.rmax) and self.rmax > 0):
            raise InputError(f"rmax must be a positive number, got {self.rmax}")
        if not 0 <= self.unknown_step_reward <= self.rmax:
            raise InputError(
                f"unknown_step_reward must be between 0 and rmax = {self.rmax:g}, got {self.unknown_step_reward}"
            )
        if self.slack is not None and not (np.isfinite(self.slack) and self.slack >= 0):
            raise InputError(f"slack must be a number of at least 0, got {self.slack}")
        if np.shape(self.known) != shape[:2]:
            raise InputError(f"known must have shape {list(shape[:2])}, got {list(np.shape(self.known))}")
        object.__setattr__(self, "expert_policy", check_policy(self.expert_policy, shape, name="expert_policy"))
        object.__setattr__(self, "known", frozen(self.known, np.bool_))
        for name in ("lower", "upper"):
            object.__setattr__(self, name, check_reward(getattr(self, name), shape, name=name))
        wrong = ~((self.lower >= 0) & (self.lower <= self.upper) & (self.upper <= self.rmax))
        if wrong.any():
            entry = first_entry(wrong)
            low, high = self.lower[entry], self.upper[entry]
            raise InputError(f"bounds{list(entry)} are {low:g} to {high:g}, not an interval in 0 to {self.rmax:g}")

    @classmethod
    def of_problem(cls, mdp: MDP, expert_policy: ArrayLike, rmax: float) -> FeasibleRewardSet:
        """The exact set: all rows of the process are known, and the expert, `[H, S, A]` or actions, is everywhere."""
        mdp.require_complete()
        policy = check_policy(expert_policy, mdp.shape, name="expert_policy")
        known = np.ones(mdp.shape[:2], dtype=np.bool_)
        return cls(mdp, policy, known, rmax, rmax, np.zeros(mdp.shape), np.full(mdp.shape, rmax))

    @classmethod
    def of_estimate(
        cls, estimate: Estimate, rmax: float, unknown_step_reward: float | None = None
    ) -> FeasibleRewardSet:
        """The recovered set. Without an `unknown_step_reward` it is `Rmax`, as in the plain feasible point.

        The expert counts as known wherever it was asked: the actions it gave are optimal, whatever else it may do.
        """
        mdp, known = estimate.mdp, np.asarray(estimate.expert_uses.any(axis=2))
        after = rmax if unknown_step_reward is None else unknown_step_reward
        return cls(mdp, estimate.expert_policy, known, rmax, after, np.zeros(mdp.shape), np.full(mdp.shape, rmax))

    def restricted(self, lower: ArrayLike | None = None, upper: ArrayLike | None = None) -> FeasibleRewardSet:
        """The members between these bounds, `[H, S, A]` or `[S, A]`: what else is known of the reward."""
        shape = self.mdp.shape
        return replace(
            self,
            lower=self.lower if lower is None else np.maximum(self.lower, check_reward(lower, shape, "lower")),
            upper=self.upper if upper is None else np.minimum(self.upper, check_reward(upper, shape, "upper")),
        )

    def with_slack(self, slack: float) -> FeasibleRewardSet:
        """The rewards under which the expert loses at most `slack` from the start: a person may err a little."""
        return replace(self, slack=slack)

    def completed(self, actions: IntArray) -> FeasibleRewardSet:
        """The members under which `actions [H, S]` are optimal too wherever the expert is not known."""
        policy = np.where(self.known[:, :, None], self.expert_policy, np.eye(self.mdp.n_actions)[actions])
        return replace(self, expert_policy=policy, known=np.ones_like(self.known))

    @cached_property
    def uses(self) -> BoolArray:
        """`[H, S, A]`: the actions the expert is known to take."""
        return np.asarray((self.expert_policy > 0) & self.known[:, :, None])

    @cached_property
    def expert_occupancy(self) -> FloatArray:
        """`[H, S, A]`: where the expert goes before the first state in which it is unknown."""
        return occupancy(self.mdp, np.where(self.known[:, :, None], self.expert_policy, 0.0))

    def action_values(self, reward: FloatArray) -> FloatArray:
        """`Q* [H, S, A]` of a reward in this process; one backward induction."""
        return optimal_values(self.mdp, reward, self._after_unknown_rows)[0]

    def losses(self, reward: FloatArray) -> FloatArray:
        """`[H, S, A]`: how far each action is behind the best one, `V* - Q*`."""
        q = self.action_values(reward)
        return np.asarray(q.max(axis=2, keepdims=True) - q)

    def continuation(self, values: FloatArray) -> FloatArray:
        """`P·V [H, S, A]`: what is expected after each action, for any `values [H, S]`."""
        later = np.concatenate([values[1:], np.zeros((1, self.mdp.n_states))])
        return self.mdp.transitions.expect(later, self._after_unknown_rows)

    @property
    def _after_unknown_rows(self) -> FloatArray:
        return self.unknown_step_reward * steps_after(self.mdp.horizon)


def first_best(q: FloatArray, rounding: float) -> IntArray:
    """`[H, S]`: the first of the actions whose value in `q [H, S, A]` is the largest, up to rounding."""
    return np.asarray((q >= q.max(axis=2, keepdims=True) - rounding).argmax(axis=2))


def first_entry(mask: BoolArray) -> Entry:
    """The first true entry of a mask `[H, S, A]`."""
    h, s, a = (int(i) for i in np.argwhere(mask)[0])
    return h, s, a
