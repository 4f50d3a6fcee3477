"""The feasible reward set: every reward of a space under which the expert is optimal, as a value to ask questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import Successors, compiled
from aceirl.models.tabular.mdp import (
    MDP,
    BoolArray,
    FloatArray,
    IntArray,
    check_policy,
    check_reward,
    frozen,
)
from aceirl.rewards.spaces import AnyReward, DesignMatrix, RewardSpace

# In units of Rmax: what the linear solver may leave unsatisfied in one constraint, with room to add up over the steps.
TOLERANCE = 1e-6

# `(h, s, a)`.
Entry = tuple[int, int, int]
"""Step, state and action, `(h, s, a)`."""


@dataclass(frozen=True, eq=False)
class FeasibleRewardSet:
    """Parameters `θ` of a space, `lower ≤ θ ≤ upper`, with rewards `Φθ` under which what the expert does is optimal.

    Paper, Definition "Feasible Reward Set": in the space `any`, `θ` is the reward `[H, S, A]` itself, from 0 to `rmax`;
    in any other it is a vector `[n]`. With `V = V*(r)` and `Q = r + P·V`: `Q_h(s,a) = V_h(s)` for every action the
    expert uses at an `(h, s)` where it is `known`. Nothing is asked where it is not. `unknown_step_reward` is what each
    step after an unknown row of transitions earns, as in `Recovered`; without one, an action that was never tried
    cannot be compared and is left out, and a state in which nothing was tried is worth its own reward, once.

    With a `slack` the expert may err: it is asked only to lose at most that much from the start, `Σ μᴱ·(V - Q) ≤
    slack`, where it is taken to be right from the first state on in which it is unknown. In a space smaller than `any`,
    without a slack, `V` follows the expert where it is known: an advantage of zero at every step is what makes a policy
    optimal. There no action may be better than an answer, nor an answer worse than `V`, by more than its `tolerance`.

    Where the expert is known everywhere this is a polytope in `(θ, V)`; where it is not, a union of polytopes, one for
    each way the expert might act there. The questions about a set are functions: `aceirl.rewards` has them all.

    Shapes: `expert_policy [H, S, A]`, `known` and `tolerance [H, S]`, `lower` and `upper` as `θ`.
    """

    mdp: MDP
    design: DesignMatrix
    expert_policy: FloatArray
    known: BoolArray
    lower: FloatArray
    upper: FloatArray
    rmax: float = 1.0
    unknown_step_reward: float | None = None
    tolerance: FloatArray | float = 0.0
    slack: float | None = None

    def __post_init__(self) -> None:
        shape = self.mdp.shape
        if not (np.isfinite(self.rmax) and self.rmax > 0):
            raise InputError(f"rmax must be a positive number, got {self.rmax}")
        if self.unknown_step_reward is not None and not 0 <= self.unknown_step_reward <= self.rmax:
            raise InputError(
                f"unknown_step_reward must be between 0 and rmax = {self.rmax:g}, got {self.unknown_step_reward}"
            )
        if self.slack is not None and not (np.isfinite(self.slack) and self.slack >= 0):
            raise InputError(f"slack must be a number of at least 0, got {self.slack}")
        if np.shape(self.known) != shape[:2]:
            raise InputError(f"known must have shape {list(shape[:2])}, got {list(np.shape(self.known))}")
        object.__setattr__(self, "known", frozen(self.known, np.bool_))
        policy = np.where(self.known[:, :, None], self.expert_policy, 1 / shape[2])
        object.__setattr__(self, "expert_policy", check_policy(policy, shape, name="expert_policy"))
        tolerance = np.asarray(self.tolerance, dtype=np.float64)
        if tolerance.shape not in ((), shape[:2]) or not np.isfinite(tolerance).all():
            raise InputError(f"tolerance must be finite, of shape {list(shape[:2])}, got {tolerance}")
        if (tolerance < 0).any():
            raise InputError(f"tolerance must be at least 0, got {tolerance.min():g}")
        if tolerance.any() and not self.follows:
            raise InputError("a tolerance needs a space smaller than 'any', and a set without a slack")
        object.__setattr__(self, "tolerance", frozen(np.where(self.known, tolerance, 0.0), np.float64))
        for name in ("lower", "upper"):
            object.__setattr__(self, name, frozen(self.checked(getattr(self, name), name), np.float64))
        self._check_bounds()

    def _check_bounds(self) -> None:
        least, most = (0.0, self.rmax) if self.design.free else (-np.inf, np.inf)
        wrong = ~((self.lower >= least) & (self.lower <= self.upper) & (self.upper <= most))
        if wrong.any():
            entry = tuple(np.argwhere(wrong)[0].tolist())
            within = f" in 0 to {self.rmax:g}" if self.design.free else ""
            low, high = self.lower[entry], self.upper[entry]
            raise InputError(f"bounds{list(entry)} are {low:g} to {high:g}, not an interval{within}")

    @classmethod
    def of_problem(
        cls,
        mdp: MDP,
        expert_policy: ArrayLike,
        rmax: float = 1.0,
        space: RewardSpace | None = None,
        terminal: Sequence[int] = (),
    ) -> FeasibleRewardSet:
        """The exact set: all rows of the process are known, and the expert, `[H, S, A]` or actions, is everywhere.

        Without a `space` it is `any`. In a smaller one parameters are from `-rmax` to `rmax`.
        """
        mdp.require_complete()
        policy = check_policy(expert_policy, mdp.shape, name="expert_policy")
        design = (space or AnyReward()).design_matrix(mdp, np.asarray(terminal, dtype=np.int64))
        return cls._of(mdp, design, policy, np.ones(mdp.shape[:2], dtype=np.bool_), rmax, None, 0.0)

    @classmethod
    def of_estimate(
        cls,
        estimate: Estimate,
        rmax: float = 1.0,
        unknown_step_reward: float | None = None,
        space: RewardSpace | None = None,
        tolerance: ArrayLike = 0.0,
    ) -> FeasibleRewardSet:
        """The recovered set. In `any`, the `unknown_step_reward` is `Rmax` by default, as in the plain feasible point.

        The expert counts as known wherever it was asked: the actions it gave are optimal, whatever else it may do. In a
        space smaller than `any` answers may fall short by a `tolerance`, a number or `[H, S]`.
        """
        design = (space or AnyReward()).design_matrix(estimate.mdp, estimate.terminal_states)
        known, allowed = np.asarray(estimate.expert_uses.any(axis=2)), np.asarray(tolerance, dtype=np.float64)
        return cls._of(estimate.mdp, design, estimate.expert_policy, known, rmax, unknown_step_reward, allowed)

    @classmethod
    def _of(
        cls,
        mdp: MDP,
        design: DesignMatrix,
        policy: FloatArray,
        known: BoolArray,
        rmax: float,
        unknown: float | None,
        tolerance: FloatArray | float,
    ) -> FeasibleRewardSet:
        if design.free:
            after = rmax if unknown is None else unknown
            return cls(mdp, design, policy, known, np.zeros(mdp.shape), np.full(mdp.shape, rmax), rmax, after)
        if unknown is None:  # what the expert does counts as far as it was tried
            policy = np.where(mdp.known, policy, 0.0)
            mass = policy.sum(axis=2, keepdims=True)
            policy = np.divide(policy, mass, out=np.zeros_like(policy), where=mass > 0)
            known = known & (mass > 0)[:, :, 0]
        most = np.full(design.n_parameters, float(rmax))
        return cls(mdp, design, policy, known, -most, most, rmax, unknown, tolerance)

    def restricted(self, lower: ArrayLike | None = None, upper: ArrayLike | None = None) -> FeasibleRewardSet:
        """The members between these bounds, a number or as `θ`: what else is known of the reward."""
        return replace(
            self,
            lower=self.lower if lower is None else np.maximum(self.lower, self.checked(lower, "lower")),
            upper=self.upper if upper is None else np.minimum(self.upper, self.checked(upper, "upper")),
        )

    def fixed(self, parameter: int | Entry, value: float) -> FeasibleRewardSet:
        """The members that give one parameter this value."""
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[parameter] = upper[parameter] = value
        return replace(self, lower=lower, upper=upper)

    def normalised(self, largest: int | Entry, smallest: int | Entry | None = None) -> FeasibleRewardSet:
        """The members in `[0, 1]` with one at the one parameter, and zero at the other if it is given."""
        unit = replace(self, lower=np.zeros_like(self.lower), upper=np.ones_like(self.upper)).fixed(largest, 1.0)
        return unit if smallest is None else unit.fixed(smallest, 0.0)

    def with_slack(self, slack: float) -> FeasibleRewardSet:
        """The rewards under which the expert loses at most `slack` from the start: a person may err a little."""
        return replace(self, slack=slack)

    def completed(self, actions: IntArray) -> FeasibleRewardSet:
        """The members under which `actions [H, S]` are optimal too wherever the expert is not known."""
        policy = np.where(self.known[:, :, None], self.expert_policy, np.eye(self.mdp.n_actions)[actions])
        return replace(self, expert_policy=policy, known=np.ones_like(self.known))

    def best_actions(self, theta: FloatArray) -> IntArray:
        """`[H, S]`: the first of the best actions under parameters, up to rounding; to complete the expert with."""
        return first_best(self.action_values(theta), self.rounding)

    @property
    def follows(self) -> bool:
        """Whether values are those of the expert where it is known: linear in the parameters, so they need no unknowns.

        In the free space they would depend on all rewards that follow, and a programme would have no zeros.
        """
        return not self.design.free and self.slack is None

    @cached_property
    def policy(self) -> FloatArray:
        """`[H, S, A]`: what the expert does, zero where it is not known."""
        return np.where(self.known[:, :, None], self.expert_policy, 0.0)

    @cached_property
    def uses(self) -> BoolArray:
        """`[H, S, A]`: the actions the expert is known to take."""
        return np.asarray(self.policy > 0)

    @cached_property
    def counted(self) -> BoolArray:
        """`[H, S, A]`: the actions that count; without an `unknown_step_reward` those that were tried, if any was."""
        if self.unknown_step_reward is not None:
            return np.ones(self.mdp.shape, dtype=np.bool_)
        return np.asarray(self.mdp.known | ~self.mdp.known.any(axis=2, keepdims=True))

    @cached_property
    def expert_occupancy(self) -> FloatArray:
        """`[H, S, A]`: where the expert goes before the first state in which it is unknown."""
        return occupancy(self.mdp, self.policy)

    @cached_property
    def scale(self) -> float:
        """The largest size of a parameter; errors of the solver are in units of it."""
        if self.design.free:
            return self.rmax
        return float(max(np.abs(self.lower).max(), np.abs(self.upper).max())) or 1.0

    @cached_property
    def largest_reward(self) -> float:
        """No reward within the bounds is larger than this, of either sign."""
        if self.design.free:
            return self.rmax
        sizes = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return float((np.abs(self.design.matrix) @ sizes).max())

    @property
    def rounding(self) -> float:
        """What an answer may fall short by the solver's doing."""
        return self.rounding_of(self.largest_reward)

    def rounding_of(self, size: float) -> float:
        """What the solver may leave of numbers of a size; it adds up over the steps, but not where it is `polished`."""
        return TOLERANCE * size * (1 if self.design.free else self.mdp.horizon)

    def checked(self, theta: ArrayLike, name: str = "parameters") -> FloatArray:
        """Parameters of the right shape, from a number or an array; a table may be `[S, A]`."""
        if self.design.free:
            whole = theta if np.ndim(theta) else np.full(self.mdp.shape, theta)
            return check_reward(whole, self.mdp.shape, "reward" if name == "parameters" else name)
        array, shape = np.asarray(theta, dtype=np.float64), (self.design.n_parameters,)
        if array.shape not in ((), shape) or not np.isfinite(array).all():
            raise InputError(f"{name} must be finite, of shape {list(shape)}, got {array}")
        return np.broadcast_to(array, shape)

    def table(self, theta: FloatArray) -> FloatArray:
        """The reward `[H, S, A]` of parameters."""
        return theta if self.design.free else self.design.table(theta)

    def values(self, theta: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """`(Q [H, S, A], V [H, S])` under parameters; `Q` is `-inf` for actions that do not count."""
        reward = np.ascontiguousarray(self.table(self.checked(theta)))
        q, v = np.empty(self.mdp.shape), np.zeros((self.mdp.horizon + 1, self.mdp.n_states))
        policy = self.policy if self.follows else np.zeros(self.mdp.shape)
        _follow(*self.mdp.backup.rows, reward, self.after_unknown_rows, policy, self.counted, q, v)
        return q, v[:-1]

    def action_values(self, theta: ArrayLike) -> FloatArray:
        """`Q [H, S, A]` under parameters; one backward induction."""
        return self.values(theta)[0]

    def losses(self, theta: ArrayLike) -> FloatArray:
        """`[H, S, A]`: how far each action is behind, `V - Q`; `inf` for actions that do not count."""
        q, v = self.values(theta)
        return np.asarray(v[:, :, None] - q)

    def continuation(self, values: FloatArray) -> FloatArray:
        """`γ·P·V [H, S, A]`: what is expected after each action, for any `values [H, S]`."""
        later = np.concatenate([values[1:], np.zeros((1, self.mdp.n_states))])
        return self.mdp.backup.expect(later, self.after_unknown_rows)

    @property
    def after_unknown_rows(self) -> FloatArray:
        """`[H]`: what follows an unknown row of transitions."""
        return (self.unknown_step_reward or 0.0) * self.mdp.steps_after

    def require_tables(self, question: str) -> None:
        """The error for a question about rewards of the space `any`."""
        if not self.design.free:
            raise InputError(f"{question} is about rewards of the space 'any', not of {self.design.name!r}")


def first_best(q: FloatArray, rounding: float) -> IntArray:
    """`[H, S]`: the first of the actions whose value in `q [H, S, A]` is the largest, up to rounding."""
    return np.asarray((q >= q.max(axis=2, keepdims=True) - rounding).argmax(axis=2))


def first_entry(mask: BoolArray) -> Entry:
    """The first true entry of a mask `[H, S, A]`."""
    h, s, a = (int(i) for i in np.argwhere(mask)[0])
    return h, s, a


@compiled
def _follow(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    reward: FloatArray, unknown: FloatArray, policy: FloatArray, counted: BoolArray, q: FloatArray, v: FloatArray,
) -> None:  # fmt: skip
    """Backward over `q [H, S, A]` and `v [H+1, S]`: follow the policy where it acts, else take the best that counts."""
    horizon, n_states, n_actions = reward.shape
    for h in range(horizon - 1, -1, -1):
        for s in range(n_states):
            best, mean, mass = -np.inf, 0.0, 0.0
            for a in range(n_actions):
                if not counted[h, s, a]:
                    q[h, s, a] = -np.inf
                    continue
                row = h * stride + s * n_actions + a
                total = unknown[h] if indptr[row] == indptr[row + 1] else 0.0
                for k in range(indptr[row], indptr[row + 1]):
                    total += probabilities[k] * v[h + 1, successors[k]]
                total += reward[h, s, a]
                q[h, s, a] = total
                best = max(best, total)
                mean += policy[h, s, a] * total
                mass += policy[h, s, a]
            v[h, s] = mean if mass > 0 else best
