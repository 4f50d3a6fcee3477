"""Which answer counts: the one place that says so, for questions, recordings and people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aceirl.data.dataset import Answer, Trajectory

Key = tuple[int | None, Any]
"""A step, None if it does not matter, and a state."""


class AnswerMemory:
    """What an expert has said, by step and state or, of a `stationary` one, by state alone.

    Of a `deterministic` expert who is asked, the first answer for a state counts, and a later one is a repeat that says
    the same or not. Whoever was recorded has answered with what it did most often. Of a stochastic one every answer
    counts. `before(step, state)` is what it had said earlier, None if nothing: it is looked up only where it is needed.
    """

    def __init__(
        self, *, deterministic: bool, stationary: bool, before: Callable[[int, Any], int | None] | None = None
    ) -> None:
        self.deterministic, self.stationary, self._before = deterministic, stationary, before
        self.answers: list[Answer] = []
        self.repeats: list[tuple[Any, bool]] = []
        self._said: dict[Key, int | None] = {}

    def key(self, step: int, state: Any) -> Key:
        """Where an answer holds."""
        return None if self.stationary else step, state

    def said(self, step: int, state: Any) -> int | None:
        """What a deterministic expert has said there, None if it has not."""
        key = self.key(step, state)
        if key not in self._said and self.deterministic and self._before is not None:
            earlier = self._before(step, state)
            if earlier is not None:
                self._said[key] = earlier
        return self._said.get(key)

    def silent(self, step: int, state: Any) -> bool:
        """Whether a deterministic expert had nothing to say there."""
        return self._said.get(self.key(step, state), 0) is None

    def add(self, step: int, state: Any, action: int) -> None:
        """An answer where there was none that counts."""
        self.answers.append((step, state, action))
        if self.deterministic:
            self._said[self.key(step, state)] = action

    def repeat(self, state: Any, *, differs: bool) -> None:
        """The expert was asked again, and did or did not say the same."""
        self.repeats.append((state, differs))

    def skip(self, step: int, state: Any) -> None:
        """The expert has nothing to say there."""
        if self.deterministic:
            self._said[self.key(step, state)] = None


def answers_taken(answers: Iterable[Answer], *, stationary: bool) -> dict[Key, Counter[int]]:
    """How often each action was taken, by step and state, or by state alone."""
    found: dict[Key, Counter[int]] = {}
    for step, state, action in answers:
        found.setdefault((None if stationary else step, state), Counter())[action] += 1
    return found


def contradicted(taken: dict[Key, Counter[int]]) -> dict[Key, Counter[int]]:
    """Where different actions were taken."""
    return {key: actions for key, actions in taken.items() if len(actions) > 1}


def commonest(taken: Counter[int]) -> int:
    """The action that was taken most often; of several, the first in order."""
    return min(taken, key=lambda action: (-taken[action], action))


def standing(votes: Sequence[int]) -> int | None:
    """The answer of a person who was asked several times: the commonest, and of those equally common the latest."""
    often = Counter(votes)
    most = max(often.values(), default=0)
    return next((vote for vote in reversed(votes) if often[vote] == most), None)


def counted_answers(
    trajectories: Sequence[Trajectory], *, stationary: bool
) -> tuple[list[tuple[Answer, ...]], list[tuple[Any, bool]]]:
    """Of a deterministic expert who was recorded, the answers that count in each trajectory, and the repeats.

    It has answered once for each state, with the action that is the commonest there; the other times it has said the
    same, or not.
    """
    taken = answers_taken((answer for one in trajectories for answer in one.answers), stationary=stationary)
    memory = AnswerMemory(deterministic=True, stationary=stationary)
    counted: list[tuple[Answer, ...]] = []
    for one in trajectories:
        given = len(memory.answers)
        for step, state, _ in one.answers:
            if memory.said(step, state) is None:
                memory.add(step, state, commonest(taken[memory.key(step, state)]))
        counted.append(tuple(memory.answers[given:]))
    for (_, state), actions in taken.items():
        same = actions[commonest(actions)]
        memory.repeats += [(state, False)] * (same - 1) + [(state, True)] * (actions.total() - same)
    return counted, memory.repeats
