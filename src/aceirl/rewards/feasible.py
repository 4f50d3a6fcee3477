"""The feasible reward set: every reward under which the expert is optimal, as something to ask questions of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from aceirl.counts import Estimate
from aceirl.dynamic_programming import occupancy, optimal_values
from aceirl.errors import InputError
from aceirl.mdp import MDP, BoolArray, FloatArray, IntArray, check_policy, check_reward, frozen, steps_after
from aceirl.rewards.answers import Answer, Membership, Place, first_place, worst_of
from aceirl.rewards.feasible_samples import interior_values, sample_reward
from aceirl.rewards.polytope import (
    Bellman,
    EmptySetError,
    Programme,
    Solution,
    nearest_by_largest,
    nearest_by_sum,
    tie_bounds,
    with_most_room,
)
from aceirl.rewards.recovered import Recovered, infeasibility

# In units of Rmax: what the linear solver may leave unsatisfied in one constraint, with room to add up over the steps.
TOLERANCE = 1e-6

Norm = Literal["l1", "linf"]


@dataclass(frozen=True, eq=False)
class FeasibleRewardSet:
    """Rewards `r [H, S, A]`, `lower ≤ r ≤ upper`, under which what the expert is known to do is optimal.

    Paper, Definition "Feasible Reward Set". With `V = V*(r)` and `Q = r + P·V`: `Q_h(s,a) = V_h(s)` for every action
    the expert uses at an `(h, s)` where it is `known`. Nothing is asked where it is not. `unknown_step_reward` is the worth of each
    step after an unknown row of transitions, as in `Recovered`. With a `slack` the expert may err: it is asked only to
    lose at most that much from the start, `Σ μᴱ·(V - Q) ≤ slack`, where it is taken to be right from the first state
    on in which it is unknown.

    Where the expert is known everywhere this is a polytope in `(r, V)` and every answer is exact. Where it is not, it
    is a union of polytopes, one for each way the expert might act there. The linear programmes then give a bound, by
    leaving `V ≥ Q` alone there, and a member, by completing the expert with what is best under that first answer.

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
            h, s, a = place = first_place(wrong)
            low, high = self.lower[h, s, a], self.upper[h, s, a]
            raise InputError(f"bounds{list(place)} are {low:g} to {high:g}, not an interval in 0 to {self.rmax:g}")

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
        """The recovered set. `unknown_step_reward` is that of the reward in question, or `Rmax`, as in the plain feasible point.

        The expert counts as known wherever it was asked: the actions it gave are optimal, whatever else it may do.
        """
        mdp, known = estimate.mdp, np.asarray(estimate.expert_uses.any(axis=2))
        worth = rmax if unknown_step_reward is None else unknown_step_reward
        return cls(mdp, estimate.expert_policy, known, rmax, worth, np.zeros(mdp.shape), np.full(mdp.shape, rmax))

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

    @cached_property
    def uses(self) -> BoolArray:
        """`[H, S, A]`: the actions the expert is known to take."""
        return np.asarray((self.expert_policy > 0) & self.known[:, :, None])

    @cached_property
    def expert_occupancy(self) -> FloatArray:
        """`[H, S, A]`: where the expert goes before the first state in which it is unknown."""
        return occupancy(self.mdp, np.where(self.known[:, :, None], self.expert_policy, 0.0))

    def losses(self, reward: FloatArray) -> FloatArray:
        """`[H, S, A]`: how far each action is behind the best one, `V* - Q*`; one backward induction."""
        q = self.action_values(reward)
        return np.asarray(q.max(axis=2, keepdims=True) - q)

    def action_values(self, reward: FloatArray) -> FloatArray:
        """`Q* [H, S, A]` of a reward in this process."""
        return optimal_values(self.mdp, reward, self.unknown_step_reward * steps_after(self.mdp.horizon))[0]

    def contains(self, reward: ArrayLike, tolerance: float | None = None) -> Membership:
        """Whether a reward is a member up to `tolerance` (`1e-6·Rmax` if none), and the constraint it violates most."""
        array = check_reward(reward, self.mdp.shape)
        allowed = TOLERANCE * self.rmax if tolerance is None else tolerance
        worst = max(
            worst_of("lower", self.lower - array),
            worst_of("upper", array - self.upper),
            self._optimality(array),
            key=lambda membership: membership.violation,
        )
        return replace(worst, holds=worst.violation <= allowed)

    def compatible(self, reward: ArrayLike, slack: float) -> Membership:
        """Whether the expert loses at most `slack` from the start under a reward within the bounds."""
        return self.with_slack(slack).contains(reward)

    def expert_loss(self, reward: ArrayLike) -> float:
        """What the expert is known to lose from the start under a reward: `Σ μᴱ·(V* - Q*)`."""
        return float(np.vdot(self.expert_occupancy, self.losses(check_reward(reward, self.mdp.shape))))

    def _optimality(self, reward: FloatArray) -> Membership:
        losses = self.losses(reward)
        if self.slack is not None:
            lost = self.expert_occupancy * losses
            excess = float(lost.sum()) - self.slack
            if excess <= 0:
                return Membership(True, 0.0, "none")
            return Membership(False, excess, "slack", first_place(lost == lost.max()))
        worst = worst_of("optimality", np.where(self.uses, losses, 0.0))
        if worst.place is None:
            return worst
        h, s, _ = worst.place
        return replace(worst, better=int(losses[h, s].argmin()))

    def to_parameters(self, reward: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """`(A [H, S, A], V [H, S])` of a feasible reward, whatever its bounds: how far actions are behind, and values.

        Paper, Lemma "Feasible Reward Set Explicit", read backward.
        """
        array = check_reward(reward, self.mdp.shape)
        feasible = replace(self, slack=None)._optimality(array)
        if feasible.violation > TOLERANCE * self.rmax:
            raise InputError(f"reward has no parameters in this set: {feasible}")
        q = self.action_values(array)
        values = q.max(axis=2)
        return np.where(self.uses, 0.0, values[:, :, None] - q), values

    def from_parameters(self, advantage: ArrayLike, values: ArrayLike) -> FloatArray:
        """`r = -A·1{πᴱ = 0} + V - P·V` for `advantage [H, S, A] ≥ 0` and `values [H, S]`; it may leave the bounds.

        Paper, Lemma "Feasible Reward Set Explicit". Differs: the sign before `P·V`, printed as `+`, is a slip.
        """
        behind = check_reward(advantage, self.mdp.shape, name="advantage")
        if (behind < 0).any():
            place = first_place(behind < 0)
            raise InputError(f"advantage{list(place)} is {behind[place]:g}; it must be at least 0")
        worth = np.asarray(values, dtype=np.float64)
        if worth.shape != self.mdp.shape[:2] or not np.isfinite(worth).all():
            raise InputError(f"values must be finite, of shape {list(self.mdp.shape[:2])}, got {list(worth.shape)}")
        return (
            worth[:, :, None]
            - self.bellman.continuation(worth, self.unknown_step_reward)
            - np.where(self.uses, 0.0, behind)
        )

    def matched(self, other: FeasibleRewardSet, reward: ArrayLike) -> FloatArray:
        """The reward of another problem with the same parameters `(A, V)`; it may leave the other's bounds."""
        self._check_same_shape(other)
        return other.from_parameters(*self.to_parameters(reward))

    def error_propagation(self, other: FeasibleRewardSet, reward: ArrayLike) -> FloatArray:
        """`[H, S, A]`: a bound on `|r - r̂|` for a member and its match, `A·1{πᴱ = 0 < π̂ᴱ} + Σ |P - P̂|·V`.

        Paper, Theorem "Error Propagation". Differs: the paper has `|πᴱ - π̂ᴱ|` in place of the indicator, which is the
        same for deterministic experts and does not hold for others. Next to an unknown row, what follows is compared.
        """
        self._check_same_shape(other)
        advantage, values = self.to_parameters(reward)
        mine, theirs = self.bellman, other.bellman
        padded = np.concatenate([np.abs(values).ravel(), np.zeros(self.mdp.n_states)])
        spread = np.asarray(abs(mine.expectation - theirs.expectation) @ padded).reshape(self.mdp.shape)
        change = np.abs(
            mine.continuation(values, self.unknown_step_reward) - theirs.continuation(values, other.unknown_step_reward)
        )
        dynamics = np.where(self.mdp.known & other.mdp.known, spread, change)
        return np.where(~self.uses & other.uses, advantage, 0.0) + dynamics

    def project(self, reward: ArrayLike, norm: Norm = "l1") -> Answer:
        """The nearest member, by the sum ("l1") or the largest ("linf") of the changes; a member is its own."""
        target = check_reward(reward, self.mdp.shape)
        if norm not in ("l1", "linf"):
            raise InputError(f"norm must be 'l1' or 'linf', got {norm!r}")
        inside = self.contains(target)
        if inside:
            return Answer(target, 0.0, 0.0, inside, iterations=0, method="none")
        nearest = nearest_by_sum if norm == "l1" else nearest_by_largest

        def distance(answer: FloatArray) -> float:
            change = np.abs(answer - target)
            return float(change.sum() if norm == "l1" else change.max())

        return self._answer(lambda piece: nearest(piece.programme(np.zeros_like(target)), target), distance)

    def extreme(self, direction: ArrayLike) -> Answer:
        """The member that goes furthest in a direction `[H, S, A]`: the largest `⟨direction, r⟩`."""
        towards = check_reward(direction, self.mdp.shape, name="direction")
        answer = self._answer(
            lambda piece: piece.programme(-towards).solve(), lambda reward: float(np.vdot(towards, reward))
        )
        return replace(answer, bound=-answer.bound)

    def interval(self, step: int, state: int, action: int) -> tuple[float, float]:
        """The least and the largest reward that any member gives to one `(h, s, a)`.

        Without further bounds and unknown rows it is `[0, Rmax]`, since every constant reward is feasible; it says
        something once the set is `restricted`. Where the expert is not known everywhere it is an outer bound.
        """
        place = (step, state, action)
        if not all(0 <= index < size for index, size in zip(place, self.mdp.shape, strict=True)):
            raise InputError(f"entry {list(place)} is outside rewards of shape {list(self.mdp.shape)}")
        entry = np.zeros(self.mdp.shape)
        entry[place] = 1.0
        ends = float(self.lower[place]), float(self.upper[place])
        # A constant reward often attains an end, and to see that is a thousand times quicker than a linear programme.
        attained = [bool(self.contains(np.full(self.mdp.shape, end))) for end in ends]
        low = ends[0] if attained[0] else self._bound(entry)
        return low, ends[1] if attained[1] else -self._bound(-entry)

    def intervals(self, entries: Iterable[Place]) -> FloatArray:
        """`[n, 2]`: the interval of each entry `(h, s, a)`."""
        return np.array([self.interval(*entry) for entry in entries]).reshape(-1, 2)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`[n, H, S, A]`: independent members, drawn about uniformly from the whole set.

        Each is the end of its own Gibbs chain (`feasible_samples`). Where the expert is not known it is completed at
        random, anew for each. A set with a slack, or with bounds that leave it no inside, is refused.
        """
        if self.slack is not None:
            raise InputError("sample draws from the feasible set itself, and this one has a slack")
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise InputError(f"n must be a whole number of at least 1, got {n!r}")
        start = self._inside()
        samples = []
        for _ in range(n):
            guess = rng.integers(self.mdp.n_actions, size=self.known.shape)
            uses = self.uses if self.known.all() else self.completed(guess).uses
            samples.append(sample_reward(self.mdp, uses, self.unknown_step_reward, self.lower, self.upper, start, rng))
        return np.array(samples)

    def completed(self, actions: IntArray) -> FeasibleRewardSet:
        """The members under which `actions [H, S]` are optimal too wherever the expert is not known."""
        policy = np.where(self.known[:, :, None], self.expert_policy, np.eye(self.mdp.n_actions)[actions])
        return replace(self, expert_policy=policy, known=np.ones_like(self.known))

    def least_slack(self) -> float:
        """The least the expert loses from the start under any reward within the bounds.

        With less slack than that a set is empty. A lower bound on it where the expert is not known everywhere.
        """
        programme = self.with_slack(self.rmax * self.mdp.horizon).programme(np.zeros(self.mdp.shape))
        return max(0.0, replace(programme, cost=programme.rows[[-1]].toarray()[0]).solve().objective)

    def programme(self, cost: FloatArray) -> Programme:
        """Minimise `⟨cost, r⟩`, `cost [H, S, A]`, over the polytope in `(r, V)`: see `Bellman` for its rows."""
        bellman = self.bellman
        rows = bellman.rows
        low, high = tie_bounds(self.uses if self.slack is None else np.zeros_like(self.uses))
        if self.slack is not None:
            lost = sparse.csr_array((self.expert_occupancy.ravel() @ rows)[None, :])
            rows = sparse.vstack([rows, lost], format="csr")
            low, high = np.append(low, -np.inf), np.append(high, self.slack)
        lower, upper = bellman.bounds(
            self.lower, self.upper, self.rmax, (self.unknown_step_reward, self.unknown_step_reward)
        )
        padded = np.zeros(bellman.n_unknowns)
        padded[: bellman.n_rewards] = cost.ravel()
        return Programme(padded, rows, low, high, lower, upper)

    @cached_property
    def bellman(self) -> Bellman:
        """The rows that tie rewards to values."""
        return Bellman(self.mdp)

    def _bound(self, cost: FloatArray) -> float:
        try:
            return self.programme(cost).solve().objective
        except EmptySetError:
            raise self._empty() from None

    def _answer(self, solve: Callable[[FeasibleRewardSet], Solution], value: Callable[[FloatArray], float]) -> Answer:
        """The solver's answer, made exact and judged by a backward induction; on a completion if it needs one."""
        try:
            first = last = solve(self)
        except EmptySetError:
            raise self._empty() from None
        reward = self.polished(first.x)
        membership = self.contains(reward)
        if not membership and not self.known.all():
            piece = self.completed(self.action_values(reward).argmax(axis=2))
            try:
                last = solve(piece)
            except EmptySetError:
                raise EmptySetError(
                    "no member was found within the bounds, though there may be one: the expert is not known everywhere"
                ) from None
            reward = piece.polished(last.x)
            membership = self.contains(reward)
        return Answer(reward, value(reward), first.objective, membership, last.iterations, last.method)

    def polished(self, unknowns: FloatArray) -> FloatArray:
        """The reward `[H, S, A]` in a solver's answer, with the rows it satisfied up to its tolerance made exact.

        What is left over is moved into the bounds, where it cannot add up over the steps.
        """
        reward = unknowns[: self.bellman.n_rewards].reshape(self.mdp.shape)
        if self.slack is None:
            values = self.bellman.values(unknowns)
            room = values[:, :, None] - self.bellman.continuation(values, self.unknown_step_reward)
            reward = np.where(self.uses, room, np.minimum(reward, room))
        return np.clip(reward, self.lower, self.upper)

    def _inside(self) -> FloatArray:
        """`V [H, S]` with room in every constraint, wherever the expert is not known too."""
        if (self.lower == 0).all() and (self.upper == self.rmax).all():
            return interior_values(self.mdp, self.rmax, self.unknown_step_reward)
        open_to_all = np.full(self.mdp.shape, 1.0 / self.mdp.n_actions)
        policy = np.where(self.known[:, :, None], self.expert_policy, open_to_all)
        cautious = replace(self, expert_policy=policy, known=np.ones_like(self.known))
        widest = with_most_room(cautious.programme(np.zeros(self.mdp.shape)), self.uses.size)
        try:
            solution = widest.solve()
        except EmptySetError:
            raise self._empty() from None
        if solution.x[-1] <= TOLERANCE * self.rmax:
            raise InputError("sample needs bounds with room between them, and these leave the set no inside")
        return self.bellman.values(solution.x)

    def _empty(self) -> EmptySetError:
        least = self.least_slack()
        return EmptySetError(
            "the set is empty: under every reward within the bounds the expert errs, and from the start it loses "
            f"{least:.6g} or more; widen the bounds, or allow it that much slack"
        )

    def _check_same_shape(self, other: FeasibleRewardSet) -> None:
        if self.mdp.shape != other.mdp.shape:
            raise InputError(f"other is a problem of shape {list(other.mdp.shape)}, not {list(self.mdp.shape)}")


def projected(estimate: Estimate, recovered: Recovered, rmax: float, norm: Norm = "l1") -> Recovered:
    """The recovered reward moved to the nearest feasible one; of use after any IRL algorithm.

    Changes the reward least, where `made_feasible` blends all of it; but it may leave the expert's actions tied with
    others, where `made_feasible` puts them ahead.
    """
    answer = FeasibleRewardSet.of_estimate(estimate, rmax, recovered.unknown_step_reward).project(
        recovered.reward, norm
    )
    return replace(
        recovered,
        reward=answer.reward,
        infeasibility=infeasibility(estimate, answer.reward, recovered.unknown_step_reward),
    )
