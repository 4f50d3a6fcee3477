"""What a run came to, and what follows from that: what words and pictures are made of."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from aceirl.envs import Layout
from aceirl.experts.tasks import Task, drawing
from aceirl.explain.support import Support, support_of
from aceirl.explain.wish import SaidWish, Statement, said_wish
from aceirl.learner.turns import Record, Turn
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards import answer_importance


@dataclass(frozen=True, eq=False)
class Learned:
    """A run with at least one finished iteration: its records, its last turn, and the task it was about.

    `told` is what a person said of their wish itself, at the end of an interview.
    """

    records: list[Record]
    turn: Turn
    task: Task
    _: KW_ONLY
    told: tuple[Statement, ...] = ()

    @property
    def title(self) -> str:
        """The environment's name, where it has one."""
        return self.task.source.environment if self.task.source else "A run from Python"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What people call the states."""
        known = self.task.world.state_names(self.turn.names)
        return known or tuple(f"state {s}" for s in range(self.turn.counts.shape[1]))

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """What people call the actions; none if they have no names."""
        return self.task.world.action_names

    @cached_property
    def layout(self) -> Layout | None:
        """Where the states lie on paper; None if nobody can say."""
        found = drawing(self.task, self.turn.names)
        return found if found is not None and len(found.drawn) else None

    @cached_property
    def wish(self) -> SaidWish:
        """What the answers tell of the expert's wish, from probabilities alone; `sentence` says it in words."""
        return said_wish(self.turn, self.names, self.actions, told=self.told)

    @cached_property
    def support(self) -> Support:
        """What the data support, what they leave open, and what to record next."""
        return support_of(self.turn)

    @cached_property
    def visits(self) -> IntArray:
        """`[H, S, A]`: how often each action was taken; where episodes end, how often they did, under the first one."""
        counts = self.turn.counts
        visits, over = counts.visits.copy(), self.turn.belief.estimate.terminal_states
        arrivals = np.bincount(counts.move_keys % visits.shape[1], counts.move_counts, visits.shape[1])
        visits[-1, over, 0] += arrivals[over].astype(np.int64)
        return visits

    @property
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
