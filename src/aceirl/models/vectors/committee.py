"""A committee of small networks over vectors of numbers: which choice the expert would make, and how sure that is.

Every member is a network of two hidden layers of ReLU units over standardised observations. All members see the same
answers and differ by their initial weights and, where answers are many, by the order in which they see them. Where
answers are near, members agree; far from all answers they do not, and that is what the score tells.

The weights are plain arrays with the members first, `[M, in, out]`, so that one matrix product serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aceirl.errors import InputError
from aceirl.models.tabular.mdp import FloatArray, IntArray

MEMBERS, UNITS = 6, 64
"""How many networks a committee has where nobody says, and the units of each of their hidden layers."""

HARDNESS = 0.5
"""What is added to the spread of the margins: without it a committee of one mind would be sure of anything."""

FARTHEST = 10.0
"""Standardised observations are cut there, so that a coordinate that hardly varied so far cannot take over."""

AT_ONCE = 4_096
"""So many observations are decided on at a time, to keep the memory small."""

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
        parts = [self._decided(observations[i : i + AT_ONCE]) for i in range(0, max(1, len(observations)), AT_ONCE)]
        return np.concatenate([choice for choice, _ in parts]), np.concatenate([score for _, score in parts])

    def _decided(self, observations: FloatArray) -> tuple[IntArray, FloatArray]:
        logits = self.logits(observations)
        choice = logits.mean(axis=0).argmax(axis=1)
        rows = np.arange(logits.shape[1])
        own = logits[:, rows, choice]
        logits[:, rows, choice] = -np.inf
        margins = own - logits.max(axis=2)
        return choice, np.asarray(margins.mean(axis=0) / (margins.std(axis=0) + HARDNESS), dtype=np.float64)

    def logits(self, observations: FloatArray) -> NDArray[np.float32]:
        """`[M, n, K]`: what every member makes of the `observations [n, d]`."""
        n = len(observations)
        blocks = _blocks(self._standardised(observations)[None])
        return _layers(blocks, self.weights)[-1].reshape(len(self.weights[0]), -1, self.n_choices)[:, :n]

    def _standardised(self, observations: FloatArray) -> NDArray[np.float32]:
        away = (np.asarray(observations, dtype=np.float64) - self.centre) / self.scale
        return np.clip(away, -FARTHEST, FARTHEST).astype(np.float32)

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
    n = rows.shape[1]
    size = min(n, BLOCK)
    filled = np.pad(rows, ((0, 0), (0, -n % max(1, size)), (0, 0)))
    return filled.reshape(rows.shape[0], -1, size, rows.shape[2])


def _layers(inputs: NDArray[np.float32], weights: Weights) -> list[NDArray[np.float32]]:
    """The values of the two hidden layers and the logits, `[M, B, b, ·]` each; `inputs` are blocks of rows."""
    first = np.maximum(inputs @ weights[0][:, None] + weights[1][:, None], 0)
    second = np.maximum(first @ weights[2][:, None] + weights[3][:, None], 0)
    return [first, second, second @ weights[4][:, None] + weights[5][:, None]]


def _gradient(inputs: NDArray[np.float32], choices: IntArray, weights: Weights) -> list[NDArray[np.float32]]:
    """The gradient of every member's mean cross-entropy; `inputs [M, n, d]` or `[1, n, d]`, `choices [M, n]`."""
    members, n = choices.shape
    blocks = _blocks(inputs)
    first, second, logits = _layers(blocks, weights)
    off = np.exp(logits - logits.max(axis=3, keepdims=True))
    off /= off.sum(axis=3, keepdims=True)
    flat = off.reshape(members, -1, off.shape[3])
    flat[np.arange(members)[:, None], np.arange(n), choices] -= 1
    flat[:, n:] = 0  # what fills up the last block
    off /= off.dtype.type(n)
    back = (off @ weights[4].transpose(0, 2, 1)[:, None]) * (second > 0)
    far = (back @ weights[2].transpose(0, 2, 1)[:, None]) * (first > 0)
    return [
        part
        for into, out in ((blocks, far), (first, back), (second, off))
        for part in ((into.swapaxes(2, 3) @ out).sum(axis=1), out.sum(axis=(1, 2))[:, None])
    ]


def _adam(
    weights: Weights, inputs: NDArray[np.float32], choices: IntArray, schedule: Schedule, rng: np.random.Generator
) -> Weights:
    """The weights after all steps of the schedule (Kingma and Ba 2015)."""
    now = [part.copy() for part in weights]
    means, squares = [np.zeros_like(part) for part in now], [np.zeros_like(part) for part in now]
    members, n = len(now[0]), len(choices)
    batch, wanted = inputs[None], np.broadcast_to(choices, (members, n))
    for step, rate in enumerate(schedule.rates(), start=1):
        if n > schedule.batch:
            drawn = rng.integers(n, size=(members, schedule.batch))
            batch, wanted = inputs[drawn], choices[drawn]
        change = np.float32(rate / (1 - BETA_MEAN**step))
        root = np.float32(1 / math.sqrt(1 - BETA_SQUARE**step))
        for part, mean, square, slope in zip(now, means, squares, _gradient(batch, wanted, tuple(now)), strict=True):
            mean += np.float32(1 - BETA_MEAN) * (slope - mean)
            square += np.float32(1 - BETA_SQUARE) * (slope * slope - square)
            part -= change * mean / (root * np.sqrt(square) + np.float32(TINY))
    return tuple(now)
