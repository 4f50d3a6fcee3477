"""The dynamics of a simulator, learned from its episodes: where a step leads, and whether the episode is over there.

The change of the coordinates is a ridge regression on random Fourier features of the observation (Rahimi and Recht
2007), its numbers and their squares: one regression per action of a Discrete space, one with the action among the
inputs for a Box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aceirl.data.arrays import BoolArray, FloatArray
from aceirl.errors import InputError
from aceirl.models.vectors.episodes import Choices, Episode
from aceirl.models.vectors.features import Coordinates, Ends, wrapped

N_WAVES, FREQUENCIES = 200, (0.3, 0.7, 1.2)
"""How many random Fourier features there are, and how fast they vary over a standard deviation."""

RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Learned dynamics over `coordinates`, for `choices` of actions.

    `coefficients [A or 1, k, c]` map the features of an observation to the change of its coordinates in units of
    `change [c]`; coordinates stay between `low` and `high [c]`, a little beyond what was seen.
    """

    coordinates: Coordinates
    choices: Choices
    ends: Ends
    shift: FloatArray
    scale: FloatArray
    waves: FloatArray
    phases: FloatArray
    coefficients: FloatArray
    change: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def fit(cls, coordinates: Coordinates, choices: Choices, episodes: Sequence[Episode]) -> Dynamics:
        """From episodes of any policies."""
        if not sum(episode.steps for episode in episodes):
            raise InputError("dynamics cannot be learned from no step at all; play an episode first")
        before = np.concatenate([episode.observations[:-1] for episode in episodes])
        after = np.concatenate([episode.arrivals for episode in episodes])
        over = np.concatenate([episode.ends for episode in episodes])
        acted = choices.vectors(np.concatenate([episode.actions for episode in episodes]))
        inputs = before if choices.discrete else np.concatenate((before, acted), axis=1)
        values, arrived = coordinates.encode(before), coordinates.encode(after)
        changes = coordinates.difference(arrived, values)
        change = changes.std(axis=0) + 1e-9
        rng = np.random.default_rng(0)
        shape = (inputs.shape[1], N_WAVES)
        shift, scale = inputs.mean(axis=0), inputs.std(axis=0) + 1e-6
        waves = rng.standard_normal(shape) * rng.choice(FREQUENCIES, N_WAVES)
        phases = rng.uniform(0, 2 * np.pi, N_WAVES)
        X = _random_features((inputs - shift) / scale, waves, phases)
        groups = [choices.numbers(acted) == number for number in range(len(choices))] if choices.discrete else [...]
        ridge = RIDGE * np.eye(X.shape[1])
        coefficients = np.stack(
            [np.linalg.solve(X[g].T @ X[g] + ridge, X[g].T @ (changes[g] / change)) for g in groups]
        )
        inside = np.concatenate((before, after[~over]))
        low, high = np.minimum(values.min(0), arrived.min(0)), np.maximum(values.max(0), arrived.max(0))
        margin = 0.05 * (high - low)
        return cls(
            coordinates,
            choices,
            Ends.of(coordinates, inside, after[over]),
            shift,
            scale,
            waves,
            phases,
            coefficients,
            change,
            low - margin,
            high + margin,
        )

    def step(self, values: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Where every action leads from coordinates `[n, c]`: coordinates `[A, n, c]`, and whether that is over `[A, n]`."""
        observations = self.coordinates.decode(values)
        if self.choices.discrete:
            X = _random_features((observations - self.shift) / self.scale, self.waves, self.phases)
            changes = X @ self.coefficients
        else:
            changes = np.empty((len(self.choices), *values.shape))
            for number, action in enumerate(self.choices.values):
                inputs = np.concatenate((observations, np.broadcast_to(action, (len(values), len(action)))), axis=1)
                X = _random_features((inputs - self.shift) / self.scale, self.waves, self.phases)
                changes[number] = X @ self.coefficients[0]
        arrived = values + changes * self.change
        circles = self.coordinates.circles
        arrived[..., circles] = wrapped(arrived[..., circles])
        arrived[..., ~circles] = np.clip(arrived[..., ~circles], self.low[~circles], self.high[~circles])
        over = self.ends.over(self.coordinates.decode(arrived.reshape(-1, values.shape[1])))
        return arrived, over.reshape(arrived.shape[:2])


def _random_features(standard: FloatArray, waves: FloatArray, phases: FloatArray) -> FloatArray:
    """`[n, waves + 2d + 1]`: cosines of random directions, the numbers, their squares, and one."""
    return np.concatenate(
        (np.cos(standard @ waves + phases), standard, standard**2, np.ones((len(standard), 1))), axis=1
    )
