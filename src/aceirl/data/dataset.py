"""What was observed and said: trajectories, and all that a run has learned from, which adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from aceirl.data.arrays import Move
from aceirl.data.preferences import Preference
from aceirl.errors import InputError

Answer = tuple[int, Any, int]
"""`(step, state, action)`: what the expert said it would do."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """An episode, or its beginning: `actions [n]` and the `observations [n + 1]` before and after them.

    The observations are the environment's own or, in a model, as that encodes them: a table has numbers. The last may
    be missing, in a recording that ends with an action. `terminated` is whether the episode was over then; else its
    recording was, and None in one that is being read if it does not say which. `answers` are those that the expert gave
    in it, and `skipped` the `(step, state)` about which it had nothing to say. `disagreed` is the first step at which
    it did not confirm what was known or imputed of it before; None if there is none. `where` is how errors call it.
    """

    observations: Sequence[Any]
    actions: Sequence[Any] = ()
    terminated: bool | None = False
    answers: tuple[Answer, ...] = ()
    skipped: tuple[tuple[int, Any], ...] = ()
    disagreed: int | None = None
    where: str = "the episode"

    def __post_init__(self) -> None:
        n, seen = len(self.actions), len(self.observations)
        if seen not in (n, n + 1) or not seen:
            raise InputError(f"{self.where} has {n} actions and {seen} observations; it needs {n + 1}")

    @classmethod
    def of_moves(cls, start: Any, moves: Sequence[Move], **details: Any) -> Trajectory:
        """From where an episode started and its moves; for the other fields see the class."""
        return cls((start, *(move[3] for move in moves)), tuple(move[2] for move in moves), **details)

    @property
    def start(self) -> Any:
        """The first observation."""
        return self.observations[0]

    @cached_property
    def walk(self) -> tuple[Move, ...]:
        """The moves `(step, state, action, successor)`; an action after which nothing was observed is none."""
        return tuple(
            (step, self.observations[step], self.actions[step], self.observations[step + 1])
            for step in range(len(self.observations) - 1)
        )

    @property
    def last(self) -> Any:
        """The last observation."""
        return self.observations[-1]


@dataclass(frozen=True)
class Totals:
    """How much there is: steps in the environment, episodes, answers of the expert, and repeats of answers."""

    samples: int = 0
    episodes: int = 0
    questions: int = 0
    repeated: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.samples + other.samples,
            self.episodes + other.episodes,
            self.questions + other.questions,
            self.repeated + other.repeated,
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """All that a model can learn from; `dataset + dataset` is both.

    `answers` are those given besides the ones in trajectories, `repeats` pairs of a state about which the expert was
    asked again and whether it said something else than before, and `preferences` tell which of two episodes it likes
    better.
    """

    trajectories: tuple[Trajectory, ...] = ()
    answers: tuple[Answer, ...] = ()
    repeats: tuple[tuple[Any, bool], ...] = ()
    preferences: tuple[Preference, ...] = ()

    def __add__(self, other: Dataset) -> Dataset:
        return Dataset(
            self.trajectories + other.trajectories,
            self.answers + other.answers,
            self.repeats + other.repeats,
            self.preferences + other.preferences,
        )

    @property
    def all_answers(self) -> list[Answer]:
        """The answers, in episodes and besides."""
        return [*chain.from_iterable(one.answers for one in self.trajectories), *self.answers]

    @property
    def totals(self) -> Totals:
        """How much there is."""
        samples = sum(len(one.observations) - 1 for one in self.trajectories)
        return Totals(samples, len(self.trajectories), len(self.all_answers), len(self.repeats))
