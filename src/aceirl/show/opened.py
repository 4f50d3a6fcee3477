"""A run, opened again: what it recorded, what it was about, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from aceirl.engine import Engine
from aceirl.envs import Layout
from aceirl.errors import InputError
from aceirl.loop import answers_of
from aceirl.mdp import BoolArray, FloatArray, IntArray
from aceirl.named import Unavailable
from aceirl.rewards import FeatureReward, answer_importance
from aceirl.runs import ENVIRONMENT, Run
from aceirl.sources import Task, action_names, drawing, open_source, state_names
from aceirl.turns import Record, RunState, Turn


@dataclass(frozen=True, eq=False)
class OpenedRun:
    """A run with at least one finished iteration: its `title`, its records, its last turn, and what it was about."""

    title: str
    records: list[Record]
    turn: Turn
    task: Task

    @classmethod
    def of(cls, records: list[Record], turn: Turn, task: Task) -> OpenedRun:
        """With the environment's name for a title, where it has one."""
        return cls(task.source.environment if task.source else "A run from Python", records, turn, task)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What people call the states."""
        known = state_names(self.task, self.turn.names)
        return known or tuple(f"state {s}" for s in range(self.turn.counts.shape[1]))

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """What people call the actions."""
        return action_names(self.task)

    @cached_property
    def layout(self) -> Layout | None:
        """Where the states lie on paper; None if nobody can say."""
        found = drawing(self.task, self.turn.names)
        return found if found is not None and len(found.drawn) else None

    @cached_property
    def visits(self) -> IntArray:
        """`[H, S, A]`: how often each action was taken; where episodes end, how often they did, under the first one."""
        counts = self.turn.counts
        visits, over = counts.visits.copy(), self.turn.belief.estimate.over
        arrivals = np.bincount(counts.move_keys % visits.shape[1], counts.move_counts, visits.shape[1])
        visits[-1, over, 0] += arrivals[over].astype(np.int64)
        return visits

    @cached_property
    def answered(self) -> BoolArray:
        """`[H, S]`: where an answer of the expert counts."""
        return np.asarray(self.turn.belief.estimate.expert_uses.any(axis=2))

    @cached_property
    def importance(self) -> FloatArray:
        """`[S]`: how important the answers in each state are, as shares."""
        return answer_importance(self.turn.belief.estimate, self.turn.belief.recovered, self.turn.policy)

    def most_important(self, n: int) -> list[int]:
        """The states whose answers matter most, at most `n` of them."""
        order = np.argsort(-self.importance, kind="stable")[:n]
        return [int(s) for s in order if self.importance[s] > 0]


@contextmanager
def opened(run: Run, task: Task | None = None) -> Iterator[OpenedRun]:
    """The run as its folder keeps it; a `task` that is open already is taken instead.

    While a run goes on its folder has no map yet: then the environment is opened for as long as it takes.
    """
    records, state = finished(run)
    kept = None if task else run.kept()
    if kept is not None and (kept.complete or run.source is None):
        yield _opened(run, records, state, kept.task, kept.features)
    elif task is not None or run.source is None:
        if task is None:
            raise InputError(f"{run.path} does not say what it was about; {ENVIRONMENT} is missing")
        yield _opened(run, records, state, task)
    else:
        with open_source(replace(run.source, num_envs=1)) as found:
            yield _opened(run, records, state, found)


def _opened(
    run: Run, records: list[Record], state: RunState, task: Task, features: FloatArray | None = None
) -> OpenedRun:
    settings = run.settings
    if features is not None and isinstance(settings.reward, Unavailable):
        settings = settings.model_copy(update={"reward": FeatureReward(features)})
    answers = answers_of(task.expert, settings)
    turn = Engine(task.environment, answers, settings, state=state).last_turn
    return OpenedRun.of(records, turn, replace(task, source=run.source))


def finished(run: Run) -> tuple[list[Record], RunState]:
    """What a run has recorded, and where it stands."""
    records, state = run.records(), run.state()
    if not records or state is None:
        raise InputError(f"{run.path} has no finished iteration yet")
    return records, state
