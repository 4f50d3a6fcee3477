"""A posterior over the rewards of a space: samples of its parameters, given a prior and the answers.

Parameters are images of independent standard normal numbers `z`, so one chain serves all priors: elliptical slice
sampling (Murray, Adams and MacKay 2010). A move draws an ellipse through `z` and another draw of the prior, and looks
on it for a point that is likely enough, in an arc that shrinks towards `z`. Several chains run side by side, and each
also moves along the line between two others, which know by then how parameters hang together. Nothing has to be tuned,
every move ends in a new point, and the law that the chains tend to is exactly the posterior. How well they agree, and
how many independent samples theirs are worth, comes with the samples.

Many answers of an expert who never errs leave a narrow cone of rewards, in which chains are slow once there are dozens
of parameters: `r_hat` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from aceirl.errors import InputError
from aceirl.irl.boltzmann import Boltzmann, Evidence, Room, log_likelihood, room_for
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import FloatArray

REACH = 3.0
"""How far apart the ends of a line are that a move searches, in distances of the two chains that give its direction."""


@dataclass(frozen=True)
class Prior:
    """Every parameter on its own: `gaussian` with the standard deviation `scale`, or `uniform` up to that size."""

    law: str = "uniform"
    scale: float = 1.0

    LAWS: ClassVar = ("gaussian", "uniform")

    def __post_init__(self) -> None:
        if self.law not in self.LAWS:
            raise InputError(f"a prior is one of {', '.join(self.LAWS)}, got {self.law!r}")
        if not 0 < self.scale < np.inf:
            raise InputError(f"the scale of a prior must be a finite number above 0, got {self.scale}")

    @property
    def uniform(self) -> bool:
        """Whether it is."""
        return self.law == "uniform"

    def parameters(self, z: FloatArray) -> FloatArray:
        """The parameters whose standard normal numbers are `z`, of the same shape."""
        return np.asarray(self.scale * (scipy.special.erf(z / np.sqrt(2)) if self.uniform else z))


@dataclass(frozen=True, eq=False)
class Posterior:
    """Samples `[C, N, n]` of the parameters: `N` of each of `C` chains; `last [C, n]` is where these ended, as `z`.

    `evaluations` is how many rewards were judged on the way.
    """

    samples: FloatArray
    last: FloatArray
    evaluations: int

    @property
    def all(self) -> FloatArray:
        """`[C·N, n]`: the samples of all chains."""
        return self.samples.reshape(-1, self.samples.shape[2])

    @property
    def mean(self) -> FloatArray:
        """`[n]`: the posterior mean."""
        return np.asarray(self.all.mean(axis=0))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """`(low, high)`, `[n]` each: what holds so much of the posterior of each parameter, as much on either side."""
        low, high = np.quantile(self.all, ((1 - level) / 2, (1 + level) / 2), axis=0)
        return low, high

    @cached_property
    def r_hat(self) -> FloatArray:
        """`[n]`: how much wider all chains are together than each half of one (Gelman and Rubin); 1 if they agree."""
        half = self.samples.shape[1] // 2
        parts = np.concatenate((self.samples[:, :half], self.samples[:, half : 2 * half]))
        within = parts.var(axis=1, ddof=1).mean(axis=0)
        between = parts.mean(axis=1).var(axis=0, ddof=1)
        ratio = np.divide(between, within, out=np.zeros_like(within), where=within > 0)
        return np.asarray(np.sqrt((half - 1) / half + ratio))

    @cached_property
    def effective(self) -> FloatArray:
        """`[n]`: how many independent samples these are worth, by Geyer's initial positive sequence."""
        chains, draws, _ = self.samples.shape
        centred = self.samples - self.samples.mean(axis=1, keepdims=True)
        spectrum = np.fft.rfft(centred, 2 * draws, axis=1)
        covariance = np.fft.irfft(spectrum * spectrum.conj(), 2 * draws, axis=1)[:, :draws].mean(axis=0) / draws
        within = covariance[0] * draws / (draws - 1)
        between = self.samples.mean(axis=1).var(axis=0, ddof=1) if chains > 1 else np.zeros_like(within)
        variance = covariance[0] + between
        unit = np.where(variance > 0, variance, 1.0)
        correlation = 1 - (within - covariance) / unit
        pairs = correlation[: draws // 2 * 2].reshape(-1, 2, correlation.shape[1]).sum(axis=1)
        positive = np.minimum.accumulate(pairs > 0, axis=0)
        time = np.maximum(
            2 * (np.minimum.accumulate(pairs, axis=0) * positive).sum(axis=0) - 1, 1 / np.log10(chains * draws + 10)
        )
        return np.asarray(chains * draws / time)


def sample(
    likelihood: Boltzmann,
    prior: Prior,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    draws: int = 500,
    burn_in: int = 200,
    start: FloatArray | None = None,
) -> Posterior:
    """Samples of the posterior: `draws` of each chain, one a move, after `burn_in` moves.

    The chains begin at draws of the prior, or at `start [C, n]`, the `last` of samples that were drawn before.
    """
    for name, value, least in (("chains", chains, 1), ("draws", draws, 1), ("burn_in", burn_in, 0)):
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}")
    shape = chains, likelihood.design.n_parameters
    if start is not None and start.shape != shape:
        raise InputError(f"start must have shape {list(shape)}, got {list(start.shape)}")
    z = rng.standard_normal(shape) if start is None else np.array(start, dtype=np.float64)
    samples = np.empty((chains, draws, shape[1]))
    evaluations = _run(_Target(likelihood.evidence, prior.uniform, prior.scale), rng, burn_in, z, samples)
    return Posterior(samples, z, evaluations)


class _Target(NamedTuple):
    """What the chains sample from: the answers, and a prior that is uniform or normal, of this scale."""

    evidence: Evidence
    uniform: bool
    scale: float


@compiled
def _likely(target: _Target, z: FloatArray, limit: float, room: Room) -> float:
    """The log-likelihood at `z [n]`, if it is not below the `limit`; its parameters are written into the room."""
    for k in range(len(z)):
        room.theta[k] = target.scale * math.erf(z[k] / math.sqrt(2.0)) if target.uniform else target.scale * z[k]
    return log_likelihood(target.evidence, limit, room)


@compiled
def _turn(target: _Target, rng: np.random.Generator, here: FloatArray, likely: float, room: Room) -> tuple[float, int]:
    """Move `here [n]` on an ellipse; returns the log-likelihood there, and how often one was worked out.

    Only some of the numbers move, given the others: their prior is still standard normal.
    """
    n = len(here)
    share, chosen, moved = rng.random() ** 2, int(n * rng.random()), here.copy()
    others, turning = rng.standard_normal(n), np.empty(n, dtype=np.bool_)
    for k in range(n):
        turning[k] = k == chosen or rng.random() < share
    needed, angle, evaluations = likely - rng.standard_exponential(), 2.0 * np.pi * rng.random(), 0
    low, high = angle - 2.0 * np.pi, angle
    while True:
        for k in range(n):
            if turning[k]:
                moved[k] = here[k] * np.cos(angle) + others[k] * np.sin(angle)
        found = _likely(target, moved, needed, room)
        evaluations += 1
        if found >= needed:
            here[:] = moved
            return found, evaluations
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * rng.random()


@compiled
def _slide(
    target: _Target, rng: np.random.Generator, direction: FloatArray, here: FloatArray, likely: float, room: Room
) -> tuple[float, int]:
    """Move `here [n]` along a `direction [n]` by slice sampling (Neal 2003); returns the same as `_turn`."""
    needed = likely - 0.5 * float(here @ here) - rng.standard_exponential()
    evaluations = 0
    low = -REACH * rng.random()
    high = low + REACH
    while True:
        by = low + (high - low) * rng.random()
        moved = here + by * direction
        limit = needed + 0.5 * float(moved @ moved)
        found = _likely(target, moved, limit, room)
        evaluations += 1
        if found >= limit:
            here[:] = moved
            return found, evaluations
        if by < 0.0:
            low = by
        else:
            high = by


@compiled
def _run(target: _Target, rng: np.random.Generator, burn_in: int, z: FloatArray, samples: FloatArray) -> int:
    """Run the chains on `z [C, n]`, in place, and note their parameters in `samples [C, N, n]`."""
    chains, n = z.shape
    room, likely = room_for(target.evidence, n), np.empty(chains)
    for c in range(chains):
        likely[c] = _likely(target, z[c], -np.inf, room)
    evaluations: int = chains
    for move in range(burn_in + samples.shape[1]):
        for c in range(chains):
            likely[c], turned = _turn(target, rng, z[c], likely[c], room)
            evaluations += turned
            if chains > 2:
                one, other = 1 + int((chains - 1) * rng.random()), 1 + int((chains - 2) * rng.random())
                other += other >= one
                direction = z[(c + one) % chains] - z[(c + other) % chains]
                likely[c], slid = _slide(target, rng, direction, z[c], likely[c], room)
                evaluations += slid
            if move >= burn_in:
                samples[c, move - burn_in] = room.theta
    return evaluations
