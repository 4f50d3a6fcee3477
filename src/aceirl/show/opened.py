"""A run, opened again: what it recorded, what it was about, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

import numpy as np

from aceirl.engine import Engine
from aceirl.errors import InputError
from aceirl.loop import answers_of
from aceirl.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards import answer_importance
from aceirl.runs import Run
from aceirl.sources import Task, action_names, open_source, state_names
from aceirl.turns import Record, RunState, Turn


class OpenedRun:
    """A run with at least one finished iteration; `task` is None if it was begun from Python and is not open there."""

    def __init__(self, run: Run, task: Task | None) -> None:
        self.run, self.task = run, task
        self.records, self.state = finished(run)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What people call the states."""
        return () if self.task is None else state_names(self.task, self.state.names)

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """What people call the actions."""
        return () if self.task is None else action_names(self.task)

    @cached_property
    def turn(self) -> Turn:
        """The last turn, as it was."""
        assert self.task is not None
        answers = answers_of(self.task.expert, self.run.settings)
        return Engine(self.task.environment, answers, self.run.settings, state=self.state).last_turn

    @cached_property
    def visits(self) -> IntArray:
        """`[H, S, A]`: how often each action was taken; where episodes end, how often they did, under the first one."""
        counts = self.state.counts
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
    """The run with its task, which is opened for as long as it takes unless it is given."""
    if task is not None or run.source is None:
        yield OpenedRun(run, task)
        return
    with open_source(replace(run.source, num_envs=1)) as task:
        yield OpenedRun(run, task)


def finished(run: Run) -> tuple[list[Record], RunState]:
    """What a run has recorded, and where it stands."""
    records, state = run.records(), run.state()
    if not records or state is None:
        raise InputError(f"{run.path} has no finished iteration yet")
    return records, state
