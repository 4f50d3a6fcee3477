"""One batch, collected outside a run: what a plan gathers in an environment and from an expert."""

from __future__ import annotations

import numpy as np

from aceirl.belief import Plan
from aceirl.certificates.criterion import with_first
from aceirl.collect import Answers, Collected, Reply, Streams, collect
from aceirl.counts import Counts, ExpertKind
from aceirl.mdp import IntArray
from aceirl.protocols import Access, Environment, Expert, TableExpert


def collected(
    environment: Environment,
    expert: Expert,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    rng: np.random.Generator,
    *,
    limit: int | None = None,
) -> Collected:
    """The new observations of a plan; deviations are counted from what the expert is known to do by what is there."""
    kind = ExpertKind(expert.deterministic, expert.stationary, ask_again=expert.ask_again)
    answers = Answers(kind, expert.policy if isinstance(expert, TableExpert) else None, limit)
    watched = watched_actions(kind, so_far, plan.first_action)
    streams = Streams(rng, rng, rng, rng, rng)
    walk = collect(Access.to(environment), answers, plan, episodes, so_far, watched, streams)
    try:
        question = next(walk)
        while True:
            action = expert.answer(question)
            question = walk.send(Reply.SKIP if action is None else action)
    except StopIteration as over:
        new: Collected = over.value
        return new


def watched_actions(kind: ExpertKind, so_far: Counts, first_action: int | None = None) -> IntArray | None:
    """`[H, S]`: what the expert is known to do, an imposed first action included; None if it is stochastic."""
    known = kind.known_actions(so_far.answers)
    return known if known is None or first_action is None else with_first(known, first_action)
