"""The tabular model as a value: counts, what they say, how wrong that may be, and exact planning in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from aceirl.data.dataset import Dataset, Totals
from aceirl.models.fields.reduction import FEW, Reduced, reduced
from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.bounds import ErrorBound, error_bound
from aceirl.models.tabular.confidence import Family, Radii
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.protocols import ActionBelief, Capabilities, ConfidenceRadii, ExactPlanning, RewardFunction


@dataclass(frozen=True, eq=False)
class TabularModel(ExactPlanning, ConfidenceRadii):
    """What the counts say and how wrong that may be; radii and bound are computed when they are first asked for.

    `access` is where observations get their numbers; without it they are numbers already.
    """

    estimate: Estimate
    family: Family
    rmax: float
    delta: float
    access: Capabilities | None = None

    @cached_property
    def radii(self) -> Radii:
        """How wrong the estimates may be."""
        return self.family(self.estimate, self.rmax, self.delta)

    @cached_property
    def bound(self) -> ErrorBound:
        """(EB1)."""
        return error_bound(self.estimate.mdp, self.radii)

    def at(self, delta: float) -> TabularModel:
        """The same with another confidence, which settles less or more of a stochastic expert too."""
        if delta == self.delta:
            return self
        if delta not in self._at:
            estimate = self.estimate
            if not estimate.kind.deterministic:
                estimate = replace(estimate, delta=delta / 3, before=None)
            self._at[delta] = replace(self, estimate=estimate, delta=delta)
        return self._at[delta]

    @cached_property
    def _at(self) -> dict[float, TabularModel]:
        return {}

    @cached_property
    def fields(self) -> FieldTable | None:
        """The fields of all states; None if nothing is known of what observations consist of."""
        return None if self.access is None else self.access.field_table

    @cached_property
    def fewer(self) -> Reduced | None:
        """The fewest states that fields make of many; None if all are needed, or if wishes are not said in fields."""
        known = self.counts.shape[1]
        fields = None if known <= FEW else self.fields
        if fields is None or not fields.speaks:
            return None
        # Others may have been met in the environment since.
        return reduced(self.estimate, replace(fields, values=fields.values[:known], ends=fields.ends[:known]))

    @property
    def counts(self) -> Counts:
        """Everything observed so far."""
        return self.estimate.counts

    @property
    def totals(self) -> Totals:
        """How much was observed and answered so far."""
        return self.counts.totals

    def encode(self, observation: Any, terminal: bool = False) -> int:
        """The number of an observation."""
        return int(observation) if self.access is None else self.access.encode(observation, terminal)

    def update(self, data: Dataset) -> TabularModel:
        """The model that knows these data too; their observations are numbers."""
        new = Counts.of_data(data, self.shape, stationary=self.counts.stationary)
        return self.with_counts(self.counts.grown(new.shape[1]) + new, self.estimate.preferences + data.preferences)

    def with_counts(self, counts: Counts, preferences: tuple[Any, ...] | None = None) -> TabularModel:
        """The model of other counts: those of bulk roll-outs come so."""
        before, access = self.estimate, self.access
        known = before.terminal if access is None else access.terminal
        possible = before.possible_states if access is None else access.possible_states
        estimate = Estimate.of(
            counts,
            kind=before.kind,
            delta=before.delta,
            initial=before.initial,
            terminal=known,
            possible_states=possible,
            preferences=before.preferences if preferences is None else preferences,
            discount=before.discount,
            before=before,
        )
        return replace(self, estimate=estimate)

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(H, S, A)`, with the states met so far."""
        return self.counts.shape if self.access is None else self.access.shape

    def said(self, step: int, state: int) -> int | None:
        """What a deterministic expert has said in a state; None if it has not."""
        if state >= self.counts.shape[1]:
            return None
        given = self.counts.given.in_state(state, None if self.estimate.kind.stationary else step)
        action = int(given.argmax())
        return action if given[action] else None

    def expert(self, observations: Sequence[int], step: int) -> ActionBelief:
        """What the expert does in numbered states at a step."""
        states = np.asarray(observations, dtype=np.int64)
        return ActionBelief(self.estimate.expert_policy[step, states], self.estimate.answered[step, states])

    def plan(self, reward: RewardFunction | None) -> TablePolicy:
        """The best policy for a reward in the estimated process, which does what the expert is known to do."""
        allowed, mdp = self.estimate.allowed, self.estimate.mdp
        worth = np.zeros(mdp.shape) if reward is None else self._expected(reward)
        values = optimal_values(mdp, worth)[0]
        return self.policy(np.where(allowed, values, -np.inf).argmax(axis=2))

    def policy(self, table: IntArray) -> TablePolicy:
        """A policy `[H, S]` on observations."""
        return TablePolicy(table, self.counts.shape[2], self.access)

    def _expected(self, reward: RewardFunction) -> FloatArray:
        """`[H, S, A]`: what each step is worth on average, by the estimated process; 0 where nothing is known."""
        rows, ends = self.estimate.mdp.transitions, self.estimate.terminal
        horizon, n_states, n_actions = self.estimate.mdp.shape
        encoder = None if self.access is None else self.access.encoder
        seen = range(n_states) if encoder is None else [encoder.observation(s) for s in range(n_states)]
        worth = np.zeros((horizon, n_states, n_actions))
        for step, state, action in np.ndindex(horizon, n_states, n_actions):
            row = step * rows.stride + state * n_actions + action
            for k in range(rows.indptr[row], rows.indptr[row + 1]):
                after = int(rows.successors[k])
                paid = reward(seen[state], action, seen[after], after in ends, step)
                worth[step, state, action] += rows.probabilities[k] * paid
        return worth

    def uncertainty(self, observations: Sequence[int], actions: Sequence[int]) -> FloatArray:
        """`[n]`: the largest total variation radius of the rows, over all steps."""
        return np.asarray(self.radii.tv_radius.max(axis=0)[list(observations), list(actions)])


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """A policy `[H, S]` on observations; on one that was never met any of the `n_actions` is taken."""

    table: IntArray
    n_actions: int
    access: Capabilities | None = None

    def act(self, observation: Any, step: int, rng: np.random.Generator) -> int:
        """The action of the table."""
        encoder = None if self.access is None else self.access.encoder
        state: int | None = observation if encoder is None else encoder.find(observation)
        known = state is not None and state < self.table.shape[1]
        return int(self.table[step, state]) if known else int(rng.integers(self.n_actions))
