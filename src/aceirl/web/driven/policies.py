"""The policies that are learned on the way, each from the first so many answers, and where they ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aceirl.experts.tasks.continuous import ContinuousTask
from aceirl.learner.continuous.collect import DECIDING, FIRST, Answered, Doubt, episode_seed, new_answers, quick_fit
from aceirl.models.vectors.choices import ActionChoices
from aceirl.models.vectors.committee import NetworkCommittee

# Episodes of a new policy that nobody sees, by which is told which of its steps are the least sure.
LOOKS = 2

# A stream of random numbers, see `learner/continuous/collect.py`.
LOOKING = 10

# So many policies are remembered.
REMEMBERED = 3


def known_of(answers: int) -> int:
    """How many of so many answers the policy knows that asks: it is fitted again when they have grown by a part."""
    if answers < FIRST:
        return 0
    known = FIRST
    while known + new_answers(known) <= answers:
        known += new_answers(known)
    return known


class Policies:
    """The policies of a task whose actions are `choices`; `answered` tells the first so many answers."""

    def __init__(
        self, task: ContinuousTask, choices: ActionChoices, seed: int, answered: Callable[[int], Answered]
    ) -> None:
        self.task, self.choices, self.seed, self.answered = task, choices, seed, answered
        self._committees: dict[int, tuple[NetworkCommittee, ActionChoices]] = {}
        self._scores: tuple[int, list[float]] = 0, []

    def decision(self, known: int, observation: Any) -> tuple[int, float]:
        """The number of what the policy does that knows so many answers, and how sure it is."""
        committee, choices = self._committee(known)
        chosen, sure = committee.decide(self.task.encoding.vector(observation)[None])
        return int(self.choices.numbers(choices.values[chosen])[0]), float(sure[0])

    def doubt(self, known: int, episode: int) -> Doubt:
        """What says where the policy asks in an episode."""
        self.look_around(known)
        return Doubt(np.random.default_rng((self.seed, DECIDING, episode)), self._scores[1])

    def look_around(self, known: int) -> int:
        """Let a new policy act where nobody sees it, to tell how sure it usually is; how many steps that took."""
        if self._scores[0] == known:
            return 0
        scores: list[float] = []
        for number in range(LOOKS):
            observation = self.task.reset(episode_seed(self.seed, LOOKING, number))
            for _ in range(self.task.horizon):
                action, score = self.decision(known, observation)
                scores.append(score)
                observation, terminated, truncated = self.task.step(self.choices.values[action])
                if terminated or truncated:
                    break
        self._scores = known, scores
        return len(scores)

    def forget(self, answers: int) -> None:
        """Forget what knows more than so many answers: one was taken back."""
        self._committees = {known: made for known, made in self._committees.items() if known <= answers}
        if self._scores[0] > answers:
            self._scores = 0, []

    def _committee(self, known: int) -> tuple[NetworkCommittee, ActionChoices]:
        if known not in self._committees:
            self._committees[known] = quick_fit(self.answered(known), self.task.encoding, self.seed)
            for old in list(self._committees)[:-REMEMBERED]:
                del self._committees[old]
        return self._committees[known]
