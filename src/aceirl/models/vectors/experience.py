"""What was met in a simulator so far: episodes of chosen, random and exploring policies, counted step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aceirl.data.arrays import BoolArray, FloatArray, IntArray
from aceirl.models.vectors.dynamics import LearnedDynamics
from aceirl.models.vectors.episodes import Act, BatchReward, Episode, TriedActions, play
from aceirl.models.vectors.features import Coordinates, Ends
from aceirl.models.vectors.planning import Prepared

STAY = 0.9
"""How likely a random policy keeps its action for one more step: single steps at random lead nowhere."""

CELLS = 10
"""Into how many cells each coordinate is cut where visits are counted."""


class Experience:
    """A simulator, the episodes played in it, and how many steps that took. Randomness is from `rng` alone.

    Ends that are `known` of another simulator are expected here too.
    """

    def __init__(
        self,
        env: Any,
        rng: np.random.Generator,
        report: Callable[[int], None] | None = None,
        known: Ends | None = None,
    ) -> None:
        self.env, self.rng, self.known = env, rng, known
        self.choices = TriedActions.of(env.action_space)
        self.episodes: list[Episode] = []
        self._report = report

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return sum(episode.steps for episode in self.episodes)

    @property
    def observations(self) -> FloatArray:
        """`[n, d]`: everything that was observed."""
        return np.concatenate([episode.observations for episode in self.episodes])

    @property
    def inside(self) -> FloatArray:
        """`[n, d]`: the observations at which episodes went on, or might have."""
        return np.concatenate(
            [episode.observations[: episode.steps + (not episode.terminated)] for episode in self.episodes]
        )

    @property
    def ends(self) -> FloatArray:
        """`[m, d]`: the observations at which episodes were over."""
        return np.concatenate([episode.arrivals[episode.ends] for episode in self.episodes])

    def play(self, act: Act, seed: int | None = None) -> Episode:
        """One more episode, from a seed of its own if none is given."""
        start = int(self.rng.integers(2**31)) if seed is None else seed
        episode = play(self.env, act, start)
        self.episodes.append(episode)
        if self._report is not None:
            self._report(self.steps)
        return episode

    def sticky(self) -> Act:
        """A policy that keeps a random action for a while."""
        held = self.choices.draw(self.rng)

        def act(_: Any) -> Any:
            nonlocal held
            if self.rng.random() > STAY:
                held = self.choices.draw(self.rng)
            return held

        return act

    def noisy(self, act: Act, share: float) -> Act:
        """A policy that errs: a `share` of its actions is random."""
        return lambda observation: self.choices.draw(self.rng) if self.rng.random() < share else act(observation)

    def dynamics(self) -> LearnedDynamics:
        """The dynamics as far as they are known."""
        return LearnedDynamics.fit(Coordinates.of(self.observations), self.choices, self.episodes, self.known)

    def prepared(self, dynamics: LearnedDynamics, gamma: float, nodes: int) -> Prepared:
        """Learned dynamics laid out for plans on a grid of so many nodes."""
        return Prepared.of(dynamics, dynamics.coordinates.encode(self.observations), gamma, nodes)

    def novelty(self, coordinates: Coordinates) -> BatchReward:
        """A reward for arriving where nothing was seen: `1/√(1 + visits of the cell)`, and nothing at an end."""
        return novelty(coordinates, coordinates.encode(self.observations))


def novelty(coordinates: Coordinates, seen: FloatArray) -> BatchReward:
    """The reward `1/√(1 + visits)` of the cell that is arrived in, where coordinates `[n, c]` were `seen`.

    Cells beyond what was seen count too, so that plans push at the borders of what is known.
    """
    circles = coordinates.circles
    low = np.where(circles, -np.pi, seen.min(axis=0))
    width = np.where(circles, 2 * np.pi, np.maximum(np.ptp(seen, axis=0), 1e-9)) / CELLS
    sizes = (CELLS + 2) ** np.arange(len(circles))

    def cell(values: FloatArray) -> IntArray:
        number = np.clip(np.floor((values - low) / width), -1, CELLS).astype(np.int64) + 1
        number[:, circles] = np.clip(number[:, circles], 1, CELLS)
        return np.asarray(number @ sizes)

    visited, counts = np.unique(cell(seen), return_counts=True)

    def reward(observations: FloatArray, actions: FloatArray, arrivals: FloatArray, ends: BoolArray) -> FloatArray:
        there = cell(coordinates.encode(arrivals))
        place = np.minimum(np.searchsorted(visited, there), len(visited) - 1)
        visits = np.where(visited[place] == there, counts[place], 0)
        return np.where(ends, 0.0, 1 / np.sqrt(1 + visits))

    return reward
