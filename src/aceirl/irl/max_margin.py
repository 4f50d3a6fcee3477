"""Maximum margin: a sparse reward that puts the expert's actions ahead of the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy

from aceirl.irl.feasible_point import reproducing_answers
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import BoolArray
from aceirl.rewards.feasible import TOLERANCE, FeasibleRewardSet, first_best
from aceirl.rewards.polytope import polished, programme, unpacked
from aceirl.rewards.programme import Programme, Solution
from aceirl.rewards.recovered import Parameters, Recovered, action_values, infeasibility
from aceirl.rewards.spaces import RewardSpace, require_any

# What a unit of reward costs, in units of margin. Just above 1: below it a reward can pay for itself where it is given,
# and the answer tends to the plain feasible point; above it a reward must put the expert ahead elsewhere as well.
PRICE = 1.05


@dataclass(frozen=True)
class MaxMargin:
    """The feasible reward with the largest `Σ min(margin_h(s), Rmax) - λ·Σ r`, summed where the expert is known.

    The margin of `(h, s)` is how far the expert's actions are ahead of the best other one. It counts up to `Rmax`, the
    most there can be at the last step; else what is decided early would outweigh the rest. The `unknown_step_reward` is
    chosen along with the reward. After Ng and Russell (2000), for a finite horizon. Some actions stay tied with the
    expert's, all of them where no reward separates two states; `reproduce_answers` decides between them.

    Where the expert is not known it is first taken to do no worse than any action, and if that is not borne out by a
    backward induction, to do what was best under the first answer.

    A programme has a row for each `(h, s, a)`, so a run solves few of them: a reward is inferred again when the samples
    have grown by half.
    """

    reproduce_answers: bool = True
    least_growth: ClassVar = 0.5

    def __call__(
        self, estimate: Estimate, rmax: float, warm: Parameters | None = None, space: RewardSpace | None = None
    ) -> Recovered:
        """One linear programme, or two."""
        require_any("max-margin", space)
        feasible = FeasibleRewardSet.of_estimate(estimate, 1.0)
        solution = _programme(feasible, feasible.known).solve()
        recovered = _recovered(estimate, feasible, solution)
        if recovered.infeasibility > TOLERANCE:
            q = action_values(estimate, recovered.reward, recovered.unknown_step_reward)
            completed = feasible.completed(first_best(q, TOLERANCE))
            solution = _programme(completed, feasible.known).solve()
            recovered = _recovered(estimate, completed, solution)
        return (reproducing_answers(estimate, recovered, 1.0) if self.reproduce_answers else recovered).in_units(rmax)


def _programme(feasible: FeasibleRewardSet, counted: BoolArray) -> Programme:
    """The polytope of the set, its `unknown_step_reward` free, with a margin for each `(h, s)` in `counted [H, S]`."""
    n_rewards = feasible.uses.size
    base = programme(feasible, np.full(feasible.mdp.shape, PRICE))
    behind = ~feasible.uses & counted[:, :, None]
    states = np.flatnonzero(behind.any(axis=2))
    row = np.flatnonzero(behind)
    margin = np.searchsorted(states, row // feasible.mdp.n_actions)
    margins = scipy.sparse.csr_array((-np.ones(row.size), (row, margin)), shape=(n_rewards, states.size))
    lower, upper = base.lower.copy(), base.upper.copy()
    lower[-1], upper[-1] = 0.0, 1.0
    return Programme(
        cost=np.concatenate([base.cost, -np.ones(states.size)]),
        rows=scipy.sparse.hstack([base.rows, margins]),
        low=base.low,
        high=base.high,
        lower=np.concatenate([lower, np.zeros(states.size)]),
        upper=np.concatenate([upper, np.ones(states.size)]),
    )


def _recovered(estimate: Estimate, feasible: FeasibleRewardSet, solution: Solution) -> Recovered:
    _, _, chosen = unpacked(feasible.mdp, solution.x)
    unknown_step_reward = min(max(0.0, chosen), feasible.rmax)
    reward = polished(replace(feasible, unknown_step_reward=unknown_step_reward), solution.x)
    return Recovered(
        reward=reward,
        unknown_step_reward=unknown_step_reward,
        infeasibility=infeasibility(estimate, reward, unknown_step_reward),
        iterations=solution.iterations,
    )
