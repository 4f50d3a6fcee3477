"""A committee of small networks over vectors of numbers: which choice the expert would make, and how sure that is.

Every member is a network of two hidden layers of ReLU units over standardised observations. All members see the same
answers and differ by their initial weights and, where answers are many, by the order in which they see them. Where
answers are near, members agree; far from all answers they do not, and that is what the score tells.

The weights are plain arrays with the members first, `[M, in, out]`, so that one matrix product serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aceirl.errors import InputError
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import FloatArray, IntArray

MEMBERS, UNITS = 6, 64
"""How many networks a committee has where nobody says, and the units of each of their hidden layers."""

HARDNESS = 0.5
"""What is added to the spread of the margins: without it a committee of one mind would be sure of anything."""

FARTHEST = 10.0
"""Standardised observations are cut there, so that a coordinate that hardly varied so far cannot take over."""

AT_ONCE = 256
"""So many observations are decided on at a time: what is computed of them stays in the cache."""

BLOCK = 64
"""Products of matrices take so many rows at a time: below what libraries divide among threads, which on a busy machine
takes many times as long, and makes a result hang on their number."""

BETA_MEAN, BETA_SQUARE, TINY = 0.9, 0.99, 1e-8
"""Adam's memory of the gradient and of its square, and what keeps it from dividing by zero."""

Weights = tuple[NDArray[np.float32], ...]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a committee is fitted: the rate rises over a tenth of the steps, then falls to zero.

    Each step looks at `batch` answers, drawn for every member; at all of them, if there are no more.
    """

    steps: int
    rate: float
    batch: int = 512

    def rates(self) -> FloatArray:
        """`[steps]`: the rate of each step, one cycle."""
        rising = max(1, self.steps // 10)
        falling = 0.5 * (1 + np.cos(np.pi * np.arange(1, self.steps - rising + 1) / max(1, self.steps - rising)))
        return np.asarray(self.rate * np.concatenate((np.arange(1, rising + 1) / rising, falling)))


@dataclass(frozen=True, eq=False)
class NetworkCommittee:
    """The members' `weights` (of each layer `[M, in, out]` and `[M, 1, out]`), and what standardises observations.

    `centre [d]` and `scale [d]` are those of the answered observations.
    """

    centre: FloatArray
    scale: FloatArray
    weights: Weights

    @property
    def n_choices(self) -> int:
        """Among how many choices it decides."""
        return int(self.weights[-1].shape[-1])

    def decide(self, observations: FloatArray) -> tuple[IntArray, FloatArray]:
        """The choice for each of the `observations [n, d]`, and how sure it is: `[n]` and `[n]`.

        The score is `mean/(spread + 0.5)` of the members' margins: by how much each prefers the committee's choice, in
        logits, to the best other one.
        """
        choice, margins = self._margins(observations)
        mean = margins.mean(axis=0)
        spread = np.sqrt(((margins - mean) ** 2).mean(axis=0))
        return choice, np.asarray(mean / (spread + HARDNESS), dtype=np.float64)

    def agree(self, observations: FloatArray) -> tuple[IntArray, FloatArray]:
        """The same choices, and how far the members are from disagreeing: the least of their margins, `[n]` and `[n]`.

        It is below zero where a member would choose otherwise. Where a large committee errs it tells more than the
        score of `decide`, and less of how much there is to learn.
        """
        choice, margins = self._margins(observations)
        return choice, np.asarray(margins.min(axis=0), dtype=np.float64)

    def _margins(self, observations: FloatArray) -> tuple[IntArray, NDArray[np.float32]]:
        """The choices `[n]` and the members' margins `[M, n]`."""
        parts = [
            self._margins_at_once(observations[i : i + AT_ONCE]) for i in range(0, max(1, len(observations)), AT_ONCE)
        ]
        return np.concatenate([choice for choice, _ in parts]), np.concatenate([part for _, part in parts], axis=1)

    def _margins_at_once(self, observations: FloatArray) -> tuple[IntArray, NDArray[np.float32]]:
        logits = self.logits(observations)
        choice = logits.mean(axis=0).argmax(axis=1)
        rows = np.arange(logits.shape[1])
        own = logits[:, rows, choice]
        logits[:, rows, choice] = -np.inf
        return choice, own - logits.max(axis=2)

    def logits(self, observations: FloatArray) -> NDArray[np.float32]:
        """`[M, n, K]`: what every member makes of the `observations [n, d]`."""
        n = len(observations)
        blocks = _blocks(self._standardised(observations)[None])
        return _layers(blocks, self.weights)[-1].reshape(len(self.weights[0]), -1, self.n_choices)[:, :n]

    def with_last_layer(self, change: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> NetworkCommittee:
        """The same with other weights `[M, in, K]` and biases `[M, 1, K]` of the layer from which logits come."""
        *before, weights, bias = self.weights
        return replace(self, weights=(*before, change(weights), change(bias)))

    def _standardised(self, observations: FloatArray) -> NDArray[np.float32]:
        away = (np.asarray(observations, dtype=np.float64) - self.centre) / self.scale
        return np.minimum(np.maximum(away, -FARTHEST), FARTHEST).astype(np.float32)

    def arrays(self) -> dict[str, Any]:
        """What `of_arrays` reads."""
        return {"centre": self.centre, "scale": self.scale} | {f"weights{i}": w for i, w in enumerate(self.weights)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> NetworkCommittee:
        """The committee that `arrays` wrote."""
        weights = tuple(arrays[f"weights{i}"] for i in range(6))
        return cls(arrays["centre"], arrays["scale"], weights)


def fitted(
    observations: FloatArray,
    choices: IntArray,
    n_choices: int,
    schedule: Schedule,
    *,
    seed: tuple[int, ...],
    start: NetworkCommittee | None = None,
    members: int = MEMBERS,
) -> NetworkCommittee:
    """The committee after a fit to the expert's `choices [n]` at `observations [n, d]`, from `start` or from anew.

    A new one has so many `members`. It minimises the cross-entropy of every member by Adam. The same `seed` gives the
    same committee.
    """
    observations = np.asarray(observations, dtype=np.float64)
    if observations.ndim != 2 or len(observations) != len(choices) or not len(choices):
        raise InputError(f"{len(choices)} choices for observations of shape {list(observations.shape)}; give [n, d]")
    if not np.isfinite(observations).all():
        first = int(np.flatnonzero(~np.isfinite(observations).all(axis=1))[0])
        raise InputError(f"observation {first} is {observations[first].tolist()}; all numbers must be finite")
    rng = np.random.default_rng(seed)
    spread = observations.std(axis=0)
    scale = np.where(spread > 1e-6 * (1 + np.abs(observations).max(axis=0)), spread, 1.0)
    known = start is not None and start.n_choices == n_choices and len(start.centre) == observations.shape[1]
    weights = start.weights if start is not None and known else _drawn(observations.shape[1], n_choices, members, rng)
    begun = NetworkCommittee(observations.mean(axis=0), scale, weights)
    inputs, wanted = begun._standardised(observations), np.asarray(choices)
    return NetworkCommittee(begun.centre, scale, _adam(weights, inputs, wanted, schedule, rng))


def _drawn(n_inputs: int, n_choices: int, members: int, rng: np.random.Generator) -> Weights:
    """Initial weights: normal with variance `2/in` (He et al. 2015), and biases that spread the kinks."""
    sizes = (n_inputs, UNITS, UNITS, n_choices)
    drawn: list[NDArray[np.float32]] = []
    for before, after in pairwise(sizes):
        drawn.append((rng.standard_normal((members, before, after)) * math.sqrt(2 / before)).astype(np.float32))
        drawn.append((0.3 * rng.standard_normal((members, 1, after))).astype(np.float32))
    return tuple(drawn)


def _blocks(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """`[M, n, d]` as `[M, B, BLOCK, d]`, filled up with zeros; a few rows are one small block."""
    members, n, numbers = rows.shape
    size = max(1, min(n, BLOCK))
    if n % size:
        rows = np.concatenate((rows, np.zeros((members, -n % size, numbers), dtype=rows.dtype)), axis=1)
    return rows.reshape(members, -1, size, numbers)


def _layers(inputs: NDArray[np.float32], weights: Weights) -> list[NDArray[np.float32]]:
    """The values of the two hidden layers and the logits, `[M, B, b, ·]` each; `inputs` are blocks of rows."""
    found = [inputs]
    for layer in range(3):
        values = found[-1] @ weights[2 * layer][:, None]
        values += weights[2 * layer + 1][:, None]
        found.append(values if layer == 2 else np.maximum(values, np.zeros_like(values), out=values))
    return found[1:]


@compiled
def _rectify(values: NDArray[np.float32], bias: NDArray[np.float32]) -> None:
    """Add the bias and cut at zero."""
    zero = values.dtype.type(0)
    for row in range(values.shape[0]):
        for unit in range(values.shape[1]):
            value = values[row, unit] + bias[unit]
            values[row, unit] = value if value > zero else zero


@compiled
def _off(logits: NDArray[np.float32], bias: NDArray[np.float32], choices: IntArray, n: int, slope: Any) -> None:
    """In the place of the logits, the probabilities less what was chosen, by `n`; their sum is added to the slope."""
    for row in range(logits.shape[0]):
        most = logits[row, 0] + bias[0]
        for choice in range(logits.shape[1]):
            logits[row, choice] += bias[choice]
            most = max(most, logits[row, choice])
        total = 0.0
        for choice in range(logits.shape[1]):
            logits[row, choice] = math.exp(logits[row, choice] - most)
            total += logits[row, choice]
        for choice in range(logits.shape[1]):
            logits[row, choice] = (logits[row, choice] / total - (choice == choices[row])) / n
            slope[choice] += logits[row, choice]


@compiled
def _pass_back(slopes: NDArray[np.float32], values: NDArray[np.float32], total: Any) -> None:
    """Keep the slopes of units that were above zero; their sum is added to the total."""
    zero = values.dtype.type(0)
    for row in range(values.shape[0]):
        for unit in range(values.shape[1]):
            slope = slopes[row, unit] if values[row, unit] > zero else zero
            slopes[row, unit] = slope
            total[unit] += slope


@compiled
def _gradient(inputs: NDArray[np.float32], choices: IntArray, weights: Weights, slopes: Weights) -> None:
    """Write the gradient of every member's mean cross-entropy to `slopes`, which have the shapes of the `weights`.

    `inputs [M, n, d]` or `[1, n, d]`, `choices [M, n]`. One member and one block of rows follow the other, so that what
    is computed stays in the cache.
    """
    members, n = choices.shape
    for member in range(members):
        rows = inputs[member if len(inputs) > 1 else 0]
        turned, out = weights[2][member].T.copy(), weights[4][member].T.copy()
        for slope in slopes:
            slope[member] = 0
        for start in range(0, n, BLOCK):
            block = rows[start : start + BLOCK]
            first = np.dot(block, weights[0][member])
            _rectify(first, weights[1][member, 0])
            second = np.dot(first, weights[2][member])
            _rectify(second, weights[3][member, 0])
            off = np.dot(second, weights[4][member])
            _off(off, weights[5][member, 0], choices[member, start : start + BLOCK], n, slopes[5][member, 0])
            back = np.dot(off, out)
            _pass_back(back, second, slopes[3][member, 0])
            far = np.dot(back, turned)
            _pass_back(far, first, slopes[1][member, 0])
            slopes[0][member] += np.dot(block.T, far)
            slopes[2][member] += np.dot(first.T, back)
            slopes[4][member] += np.dot(second.T, off)


def _adam(
    weights: Weights, inputs: NDArray[np.float32], choices: IntArray, schedule: Schedule, rng: np.random.Generator
) -> Weights:
    """The weights after all steps of the schedule (Kingma and Ba 2015)."""
    now = np.concatenate([part.ravel() for part in weights])
    slope, mean, square = np.empty_like(now), np.zeros_like(now), np.zeros_like(now)
    found, slopes = _parts(now, weights), _parts(slope, weights)
    members, n = len(weights[0]), len(choices)
    batch, wanted = inputs[None], np.tile(choices, (members, 1))
    for step, rate in enumerate(schedule.rates(), start=1):
        if n > schedule.batch:
            drawn = rng.integers(n, size=(members, schedule.batch))
            batch, wanted = inputs[drawn], choices[drawn]
        _gradient(batch, wanted, found, slopes)
        mean += np.float32(1 - BETA_MEAN) * (slope - mean)
        square += np.float32(1 - BETA_SQUARE) * (slope * slope - square)
        slope[:] = np.sqrt(square)
        slope *= np.float32(1 / math.sqrt(1 - BETA_SQUARE**step))
        slope += np.float32(TINY)
        now -= np.float32(rate / (1 - BETA_MEAN**step)) * mean / slope
    return found


def _parts(flat: NDArray[np.float32], like: Weights) -> Weights:
    """Views of one array in the shapes of these: what is done to all weights is done once."""
    ends = np.cumsum([part.size for part in like])
    return tuple(flat[end - part.size : end].reshape(part.shape) for end, part in zip(ends, like, strict=True))
