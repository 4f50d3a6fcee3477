"""One batch, collected outside a run: what a plan gathers in an environment and from an expert."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aceirl.certificates.criterion import with_first
from aceirl.irl.belief import Plan
from aceirl.learner.collect import Answers, Collected, Reply, Streams, collect
from aceirl.models.tabular.confidence import FAMILIES
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import IntArray
from aceirl.models.tabular.model import TabularModel
from aceirl.protocols import Capabilities, Environment, Expert, TableExpert


def collected(
    environment: Environment,
    expert: Expert,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    rng: np.random.Generator,
    *,
    limit: int | None = None,
) -> Batch:
    """The new observations of a plan; deviations are counted from what the expert is known to do by what is there."""
    kind = ExpertKind(expert.deterministic, expert.stationary, ask_again=expert.ask_again)
    answers = Answers(kind, expert.policy if isinstance(expert, TableExpert) else None, limit)
    reference = watched_actions(kind, so_far, plan.first_action)
    access = Capabilities.of(environment)
    model = table_of(access, kind, so_far)
    walk = collect(access, answers, plan, episodes, model, reference, OneStream(0, 0, rng))
    try:
        question = next(walk)
        while True:
            action = expert.answer(question)
            question = walk.send(Reply.SKIP if action is None else action)
    except StopIteration as over:
        new: Collected = over.value
        return batch_of(new, access, so_far)


@dataclass(frozen=True)
class OneStream(Streams):
    """All draws from one generator."""

    rng: np.random.Generator

    def _stream(self, number: int) -> np.random.Generator:
        return self.rng


def table_of(access: Capabilities, kind: ExpertKind, counts: Counts) -> TabularModel:
    """The model of counts, of an expert of a kind."""
    estimate = Estimate.of(counts, kind=kind, delta=0.1, initial=access.initial, terminal=access.terminal)
    return TabularModel(estimate, FAMILIES["adaptive"], 1.0, 0.1, access)


@dataclass(frozen=True, eq=False)
class Batch:
    """What was collected, as counts."""

    counts: Counts
    first_deviations: IntArray


def batch_of(new: Collected, access: Capabilities, so_far: Counts) -> Batch:
    """What was collected, as counts."""
    counts = new.counts or Counts.of_data(new.data, access.shape, stationary=so_far.stationary)
    return Batch(counts, new.first_deviations)


def watched_actions(kind: ExpertKind, so_far: Counts, first_action: int | None = None) -> IntArray | None:
    """`[H, S]`: what the expert is known to do, an imposed first action included; None if it is stochastic."""
    known = kind.known_actions(so_far.given)
    return known if known is None or first_action is None else with_first(known, first_action)
