"""Several experts: one is optimal, and of each other it is known how much it loses at most.

Poiani, Curti, Metelli and Restelli, "Inverse Reinforcement Learning with Sub-optimal Experts" (2024; at NeurIPS 2024 as
"Sub-optimal Experts mitigate Ambiguity in Inverse Reinforcement Learning").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from aceirl.counts import Estimate
from aceirl.dynamic_programming import evaluate
from aceirl.errors import InputError
from aceirl.mdp import FloatArray, check_policy, check_reward, frozen, steps_after, steps_left
from aceirl.rewards import FeasibleRewardSet, Recovered, RewardSpace, action_values, contains
from aceirl.rewards.feasible import TOLERANCE, first_best
from aceirl.rewards.polytope import expectation, programme, unpacked
from aceirl.rewards.programme import Programme, Solution, with_most_room
from aceirl.rewards.recovered import infeasibility
from aceirl.rewards.spaces import require_any


@dataclass(frozen=True, eq=False)
class SubOptimalExperts:
    """The rewards of a feasible set under which expert `i` is nowhere more than `bounds[i]` below the optimal one.

    In every `(h, s)`, `V_h(s) - V_h^i(s) ≤ ξᵢ`, the paper's condition on the rewards with several experts. Differs: the
    horizon is finite, so there is one condition for each step too. `policies [n, H, S, A]` are the other experts',
    `bounds [n]` their `ξ`, in units of reward summed over what is left of an episode.
    """

    feasible: FeasibleRewardSet
    policies: FloatArray
    bounds: FloatArray

    def __post_init__(self) -> None:
        bounds = frozen(self.bounds, np.float64)
        if bounds.ndim != 1 or len(bounds) != len(self.policies):
            raise InputError(f"there are {len(self.policies)} policies, and bounds of shape {list(bounds.shape)}")
        if not (np.isfinite(bounds) & (bounds >= 0)).all():
            wrong = int(np.argmin(np.isfinite(bounds) & (bounds >= 0)))
            raise InputError(f"bounds[{wrong}] is {bounds[wrong]}; it must be a number of at least 0")
        shape = self.feasible.mdp.shape
        checked = [check_policy(policy, shape, name=f"policies[{i}]") for i, policy in enumerate(self.policies)]
        object.__setattr__(self, "policies", np.stack(checked) if checked else np.zeros((0, *shape)))
        object.__setattr__(self, "bounds", bounds)

    def losses(self, reward: ArrayLike) -> FloatArray:
        """`[n, H, S]`: how far each expert is below the best policy in every state, under a reward."""
        feasible = self.feasible
        array = check_reward(reward, feasible.mdp.shape)
        best = feasible.action_values(array).max(axis=2)
        after = feasible.unknown_step_reward * steps_after(feasible.mdp.horizon)
        values = [evaluate(feasible.mdp, array, policy, after)[1] for policy in self.policies]
        return np.asarray(best - np.array(values).reshape(-1, *best.shape))

    def holds(self, reward: ArrayLike) -> bool:
        """Whether a reward is in the set: a member of the feasible set under which no expert loses more than it may.

        Implicit form: the optimal expert's advantages are what they are in the feasible set, and
        `max over (h, s) of the losses ≤ ξ`.
        """
        allowed = self.bounds[:, None, None] + TOLERANCE * self.feasible.rmax
        return bool(contains(self.feasible, reward)) and bool((self.losses(reward) <= allowed).all())

    @property
    def most_behind(self) -> FloatArray:
        """`[H, S, A]`: no action is further behind the optimal expert's, under any member, than the least `ξᵢ/πᵢ`.

        The paper's bound on how much the others can shrink the set: an expert that takes an action with probability `p`
        loses at least `p` times what that action is behind.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = np.where(self.policies > 0, self.bounds[:, None, None, None] / self.policies, np.inf)
        return np.asarray(bound.min(axis=0, initial=np.inf))

    def extreme(self, cost: ArrayLike) -> FloatArray:
        """The member `[H, S, A]` with the least `⟨cost, r⟩`; one linear programme."""
        return self.reward_of(self._programme(check_reward(cost, self.feasible.mdp.shape, "cost")).solve())

    def interval(self, entry: tuple[int, int, int]) -> tuple[float, float]:
        """The least and the largest reward that a member has at `(h, s, a)`."""
        cost = np.zeros(self.feasible.mdp.shape)
        cost[entry] = 1.0
        low, high = (self._programme(sign * cost).solve().objective * sign for sign in (1, -1))
        return low, high

    def centre(self) -> Solution:
        """The member with the most room left in every bound and every condition; its reward comes first in `x`."""
        cost = np.zeros(self.feasible.mdp.shape)
        return with_most_room(self._programme(cost), cost.size).solve()

    def reward_of(self, solution: Solution) -> FloatArray:
        """The reward `[H, S, A]` in a solver's answer, within its bounds."""
        return np.clip(unpacked(self.feasible.mdp, solution.x)[0], self.feasible.lower, self.feasible.upper)

    def _programme(self, cost: FloatArray) -> Programme:
        """That of the feasible set, with the values of each other expert as further unknowns."""
        base, mdp = programme(self.feasible, cost), self.feasible.mdp
        n, n_values = len(self.policies), mdp.horizon * mdp.n_states
        valued = [_valuation(self, policy) for policy in self.policies]
        own = sparse.csr_array((n_values, cost.size))
        own = sparse.hstack([own, -sparse.eye_array(n_values), sparse.csr_array((n_values, 1))])
        rows = sparse.block_array(
            [
                [base.rows, sparse.csr_array((base.rows.shape[0], n * n_values))],
                *([[first, _placed(i, n, second)] for i, (first, second) in enumerate(valued)]),
                *([[own, _placed(i, n, sparse.eye_array(n_values))] for i in range(n)]),
            ],
            format="csr",
        )
        free = np.full(n * n_values, np.inf)
        allowed = np.repeat(self.bounds, n_values)
        ceiling = np.tile(np.repeat(self.feasible.rmax * steps_left(mdp.horizon), mdp.n_states), n)
        return replace(
            base,
            cost=np.concatenate([base.cost, np.zeros(n * n_values)]),
            rows=rows,
            low=np.concatenate([base.low, np.zeros(n * n_values), -allowed]),
            high=np.concatenate([base.high, np.zeros(n * n_values), free]),
            lower=np.concatenate([base.lower, np.zeros(n * n_values)]),
            upper=np.concatenate([base.upper, ceiling]),
        )


def _valuation(experts: SubOptimalExperts, policy: FloatArray) -> tuple[Any, Any]:
    """Rows `[H·S]` that are zero if the second unknowns are a policy's values: of `(r, V, u)`, and of those values."""
    mdp = experts.feasible.mdp
    n_values = mdp.horizon * mdp.n_states
    entry = np.arange(policy.size)
    mean = sparse.csr_array((policy.ravel(), (entry // mdp.n_actions, entry)), shape=(n_values, policy.size))
    remaining = np.where(mdp.known, 0.0, steps_after(mdp.horizon)[:, None, None]).reshape(-1, 1)
    first = sparse.hstack([-mean, sparse.csr_array((n_values, n_values)), sparse.csr_array(-(mean @ remaining))])
    return first, sparse.eye_array(n_values) - mean @ expectation(mdp)


def _placed(i: int, n: int, block: Any) -> Any:
    """A block in the columns of the `i`-th of `n` experts."""
    return sparse.kron(sparse.csr_array(np.eye(1, n, i)), block)


@dataclass(frozen=True)
class SubOptimalExpertsIrl:
    """The member with the most room, as an algorithm; the other experts come from a file that numpy has saved.

    `path` names an `.npz` file with `policies [n, H, S, A]` and `bounds [n]`, in the units of the problem's reward. The
    optimal expert is the one who is asked. Where it was not, it is first taken to do no worse than any action, and if a
    backward induction does not bear that out, to do what was best under the first answer. A programme has unknowns for
    each `(h, s, a)`, so a run solves few of them.
    """

    path: str = ""
    least_growth: ClassVar = 0.5

    def __call__(
        self,
        estimate: Estimate,
        rmax: float,
        warm: Mapping[str, FloatArray] | None = None,
        space: RewardSpace | None = None,
    ) -> Recovered:
        """One linear programme, or two."""
        require_any("sub-optimal experts", space)
        try:
            with np.load(self.path) as kept:
                policies, bounds = kept["policies"], kept["bounds"]
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"the other experts are not in {self.path!r}: {error}") from None
        feasible = FeasibleRewardSet.of_estimate(estimate, 1.0)
        found = _centred(estimate, SubOptimalExperts(feasible, policies, bounds / rmax))
        if found.infeasibility > TOLERANCE:
            q = action_values(estimate, found.reward, found.unknown_step_reward)
            completed = feasible.completed(first_best(q, TOLERANCE))
            found = _centred(estimate, SubOptimalExperts(completed, policies, bounds / rmax))
        return found.in_units(rmax)


def _centred(estimate: Estimate, experts: SubOptimalExperts) -> Recovered:
    solution = experts.centre()
    reward, after = experts.reward_of(solution), experts.feasible.unknown_step_reward
    return Recovered(reward, after, infeasibility(estimate, reward, after), iterations=solution.iterations)
