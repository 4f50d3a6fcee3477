"""`travel`: with a generative model, spread the samples so that as little as possible is left uncertain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from aceirl.explore.planning import evidence_of, memory_of, solved
from aceirl.irl.belief import Belief, Plan
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.models.tabular.planner import Samples
from aceirl.protocols import ConfidenceRadii, ExactPlanning


@dataclass(frozen=True)
class Travel:
    """TRAVEL (Metelli et al. 2021) with the estimated process as its target: (ACE) with a free allocation of samples.

    A generative model reaches everything, so a row never sampled is planned for as if it led anywhere; else nothing
    beyond the known rows would be sampled. With stationary dynamics a row's samples are spread evenly over the steps,
    because only its total matters for the dynamics and every step has its own answer.
    """

    tolerance: float = 0.01

    access: ClassVar = "generative model"
    needs: ClassVar[tuple[type, ...]] = (ExactPlanning, ConfidenceRadii)
    summary: ClassVar = "spread the samples as ACE would (paper: TRAVEL)"

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        """As many samples as `N_E` episodes have steps, rounded at random to whole numbers."""
        samples = belief.episodes * belief.shape[0]
        plan = solved(belief, Samples(samples), self.tolerance, mdp=leading_anywhere(belief.estimate.mdp))
        allocation = plan.occupancy if plan.occupancy.ndim == 3 else plan.occupancy / belief.shape[0]
        return Plan(
            allocation=rounded(np.broadcast_to(allocation, belief.shape), samples, rng),
            memory=memory_of(plan),
            evidence=evidence_of(plan, belief.rmax),
        )


def leading_anywhere(mdp: MDP) -> MDP:
    """The same process with each unknown row a uniform one."""
    rows, n_states = mdp.transitions, mdp.n_states
    lengths = np.diff(rows.indptr)
    lengths_filled = np.where(rows.filled, lengths, n_states)
    indptr = np.concatenate(([0], np.cumsum(lengths_filled)))
    unknown = np.repeat(~rows.filled, lengths_filled)
    successors = np.empty(indptr[-1], dtype=np.int32)
    probabilities = np.empty(indptr[-1])
    successors[unknown] = np.tile(np.arange(n_states), int((~rows.filled).sum()))
    successors[~unknown] = rows.successors
    probabilities[unknown] = 1.0 / n_states
    probabilities[~unknown] = rows.probabilities
    return replace(mdp, transitions=replace(rows, indptr=indptr, successors=successors, probabilities=probabilities))


def rounded(allocation: FloatArray, total: int, rng: np.random.Generator) -> IntArray:
    """Whole numbers that sum to `total`: the floors, and what is left drawn in proportion to the remainders."""
    scaled = allocation * (total / allocation.sum())
    whole: IntArray = np.floor(scaled + 1e-9).astype(np.int64)  # what is whole up to rounding is whole
    left = total - int(whole.sum())
    if left > 0:
        rest = np.maximum(0.0, scaled - whole).ravel()
        whole += rng.multinomial(left, rest / rest.sum()).reshape(whole.shape)
    return whole
