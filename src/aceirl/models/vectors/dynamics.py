"""The dynamics of a simulator, learned from its episodes: where a step leads, and whether the episode is over there.

The change of the coordinates is a ridge regression on random Fourier features of the observation (Rahimi and Recht
2007), its numbers and their squares, plus, for each part of the action, the same with fewer waves times that part: one
part per action of a Discrete space, one per number of a Box. Steps that fit badly, as those against a wall, are left
out and the rest is fitted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aceirl.data.arrays import BoolArray, FloatArray
from aceirl.errors import InputError
from aceirl.models.vectors.episodes import Episode, TriedActions
from aceirl.models.vectors.features import Coordinates, Ends, wrapped

N_WAVES, N_ACTION_WAVES, FREQUENCIES = 300, 40, (0.1, 0.3, 0.6)
"""How many random Fourier features there are, how many of them an action changes, and how fast they vary over a
standard deviation."""

RIDGE = 1e-8

OUTLIER = 8.0
"""A step is left out if it misses the first fit by so many times the median miss of a coordinate."""


BEYOND = 0.01
"""How far beyond a border that was not reached yet coordinates can go, as a share of what was seen."""


@dataclass(frozen=True, eq=False)
class LearnedDynamics:
    """Learned dynamics over `coordinates`, for `choices` of actions.

    `coefficients [k, c]` map the features of an observation and an action to the change of the coordinates in units of
    `change [c]`; coordinates stay between `low` and `high [c]`, what was seen.
    """

    coordinates: Coordinates
    choices: TriedActions
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
    def fit(
        cls, coordinates: Coordinates, choices: TriedActions, episodes: Sequence[Episode], known: Ends | None = None
    ) -> LearnedDynamics:
        """From episodes of any policies; ends `known` of another simulator count until something else is seen."""
        if not sum(episode.steps for episode in episodes):
            raise InputError("dynamics cannot be learned from no step at all; play an episode first")
        before = np.concatenate([episode.observations[:-1] for episode in episodes])
        after = np.concatenate([episode.arrivals for episode in episodes])
        over = np.concatenate([episode.ends for episode in episodes])
        acted = choices.parts(np.concatenate([episode.actions for episode in episodes]))
        values, arrived = coordinates.encode(before), coordinates.encode(after)
        changes = coordinates.difference(arrived, values)
        change = changes.std(axis=0) + 1e-9
        shift, scale = before.mean(axis=0), before.std(axis=0) + 1e-6
        rng = np.random.default_rng(0)
        waves = rng.standard_normal((before.shape[1], N_WAVES)) * rng.choice(FREQUENCIES, N_WAVES)
        phases = rng.uniform(0, 2 * np.pi, N_WAVES)
        shared = _random_features((before - shift) / scale, waves, phases)
        few = shared[:, _acted_on(shared.shape[1])]
        X = np.concatenate((shared, *(few * part[:, None] for part in acted.T)), axis=1)
        coefficients = _robust_ridge(X, changes / change)
        inside = np.concatenate((before, after[~over]))
        low, high = np.minimum(values, arrived).min(axis=0), np.maximum(values, arrived).max(axis=0)
        ends = Ends.of(coordinates, inside, after[over])
        if known is not None:
            ends = ends.with_borders_of(known, inside)
            for border in ends.borders:  # what lies beyond can be arrived at, though it was not yet
                beyond = border.at + border.side * BEYOND * (high - low)[border.coordinate]
                low[border.coordinate] = min(low[border.coordinate], beyond)
                high[border.coordinate] = max(high[border.coordinate], beyond)
        return cls(
            coordinates,
            choices,
            ends,
            shift,
            scale,
            waves,
            phases,
            coefficients,
            change,
            low,
            high,
        )

    def step(self, values: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Where all actions lead from coordinates `[n, c]`: to `[A, n, c]`, and whether to an end `[A, n]`."""
        shared = _random_features((self.coordinates.decode(values) - self.shift) / self.scale, self.waves, self.phases)
        first = shared.shape[1]
        few = shared[:, _acted_on(first)]
        width = few.shape[1]
        same = shared @ self.coefficients[:first]
        by_part = np.stack(
            [few @ self.coefficients[start : start + width] for start in range(first, len(self.coefficients), width)]
        )
        changes = same + np.tensordot(self.choices.parts(self.choices.values), by_part, axes=1)
        arrived = values + changes * self.change
        circles = self.coordinates.circles
        arrived[..., circles] = wrapped(arrived[..., circles])
        arrived[..., ~circles] = np.clip(arrived[..., ~circles], self.low[~circles], self.high[~circles])
        over = self.ends.over(self.coordinates.decode(arrived.reshape(-1, values.shape[1])))
        return arrived, over.reshape(arrived.shape[:2])


def _random_features(standard: FloatArray, waves: FloatArray, phases: FloatArray) -> FloatArray:
    """`[n, 1 + 2d + waves]`: one, the numbers, their squares, and cosines of random directions."""
    return np.concatenate(
        (np.ones((len(standard), 1)), standard, standard**2, np.cos(standard @ waves + phases)), axis=1
    )


def _acted_on(n_features: int) -> slice:
    """Those of the features that an action changes the weights of."""
    return slice(n_features - N_WAVES + N_ACTION_WAVES)


def _robust_ridge(X: FloatArray, Y: FloatArray) -> FloatArray:
    """The ridge regression of `Y [n, c]` on `X [n, k]`, twice: the second time without the rows that fitted badly."""
    ridge = RIDGE * len(X) * np.eye(X.shape[1])
    first = np.linalg.solve(X.T @ X + ridge, X.T @ Y)
    miss = np.abs(Y - X @ first)
    kept = (miss <= OUTLIER * np.median(miss, axis=0) + 1e-3).all(axis=1)
    if kept.all() or kept.sum() < len(X) // 2:
        return np.asarray(first)
    X, Y = X[kept], Y[kept]
    return np.asarray(np.linalg.solve(X.T @ X + ridge, X.T @ Y))
