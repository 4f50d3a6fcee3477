"""Confidence radii: how wrong the estimates may be. One function an equation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy

from aceirl.errors import InputError
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.kernels import compiled
from aceirl.models.tabular.mdp import FloatArray, IntArray, Transitions, steps_left


@dataclass(frozen=True, eq=False)
class Radii:
    """How wrong the recovered reward may be at each `(h, s, a)`, and where it comes from.

    `transition [H, S, A]` is the part of the dynamics, `expert [H, S]` that of the expert's policy, `start` that of an
    estimated start distribution. `tv_radius [H, S, A]` bounds the total variation between the estimated and the true
    row, and `unseen_mass [H, S, A]` how likely a successor is that was never observed there; `divergence [H, S, A]`
    bounds `KL(P̂‖P)`, for whoever knows the values that the row is to average. A promise rests on the first two or on
    the last: each holds with the family's confidence, not all three at once. `guaranteed` is false for a family kept
    for reproduction only.
    """

    transition: FloatArray
    expert: FloatArray
    start: float
    ceiling: FloatArray
    tv_radius: FloatArray
    unseen_mass: FloatArray
    divergence: FloatArray
    guaranteed: bool

    @cached_property
    def total(self) -> FloatArray:
        """`C [H, S, A]`, at most the trivial bound `(H - h)·Rmax`."""
        return np.minimum(self.ceiling[:, None, None], self.transition + self.expert[:, :, None])


Family = Callable[[Estimate, float, float], Radii]


def hoeffding(estimate: Estimate, rmax: float, delta: float) -> Radii:
    """The paper's radii, `C = (H-h)·Rmax·min(1, 2·sqrt(2ℓ/n))`, `ℓ = log(24·S·A·H·n²/δ)`, `n = max(1, n[h,s,a])`.

    For reproduction. Its proof concentrates one fixed value function, while the criterion takes a supremum over
    rewards, so nothing is promised with it. It covers dynamics and expert in one term.
    """
    horizon, n_states, n_actions = estimate.mdp.shape
    ceiling = trivial_bound(horizon, rmax, estimate.mdp.discount)
    visits = np.maximum(1, estimate.step_visits)
    log_term = np.log(24 * n_states * n_actions * horizon * visits.astype(np.float64) ** 2 / delta)
    share = np.minimum(1.0, 2 * np.sqrt(2 * log_term / visits))
    return Radii(
        transition=ceiling[:, None, None] * share,
        expert=np.zeros((horizon, n_states)),
        start=_start_radius(estimate, rmax, delta),
        ceiling=ceiling,
        tv_radius=share,
        unseen_mass=share,
        divergence=2 * share**2,
        guaranteed=False,
    )


def kl(estimate: Estimate, rmax: float, delta: float) -> Radii:
    """Radii valid for all value functions and all times at once.

    With `N` visits of a row and `K` possible successors, `KL(P̂‖P) ≤ β/N` for every row and every `N`, with probability
    `1-δ`, where `β = log(rows/δ) + (K-1)·log(e·(1 + N/(K-1)))` (Jonsson et al. 2020, Proposition 1). By Pinsker
    `TV ≤ min(1, sqrt(β/2N))`, and values at `h+1` span at most `(H-h-1)·Rmax`.

    Assumes independent transitions, and of a deterministic expert only that it is one. Where states are met one by one
    and nobody can say how many there are, `K` counts those met, which steers the exploration and guarantees nothing.
    A stochastic expert's share of `δ` is spent in `ExpertKind.settled`; dynamics, start and expert each get a third.
    """
    possible = _possible_states(estimate)
    n_rows = estimate.mdp.transitions.n_rows // estimate.mdp.n_states * possible
    tv_radius = total_variation(estimate.observed, possible, n_rows, delta / 3)
    # Pinsker backwards: the divergence is 2·TV², and the seen successors keep at least exp(-divergence).
    divergence = np.where(tv_radius < 1, 2 * tv_radius**2, np.inf)
    start = _start_radius(estimate, rmax, delta / 3)
    return _radii(estimate, rmax, tv_radius, -np.expm1(-divergence), divergence, start)


def adaptive(estimate: Estimate, rmax: float, delta: float) -> Radii:
    """Radii valid for all value functions and all times at once, that learn how many successors a row has and how even.

    For a set `J` of `j` successors, `N·kl(P̂(J)‖P(J)) ≤ log(rows/δ) + log(binom(S, j)·j·(j+1)) + ½·log N + log 2` at all
    times (Ville's inequality for the Krichevsky–Trofimov mixture; sets are weighted by their size). The largest
    `P̂(J) - P(J)` is the total variation, and only sets of successors that were *seen* can attain it. So rows with few
    successors pay for few sets, a row that is nearly certain gets a radius of order `1/N`, and none of this is assumed.
    Rows with one or two successors gain by `of_first_seen`, which takes its `SHARE_OF_FIRST` of `δ`.

    The divergence is that of `mixture_divergence`. Assumes what `kl` assumes. The start and a stochastic expert get a
    share of `δ` only if there is anything to learn.
    """
    part = delta / (1 + (not estimate.start_known) + (not estimate.kind.deterministic))
    mdp, possible = estimate.mdp, _possible_states(estimate)
    n_rows = mdp.transitions.n_rows // mdp.n_states * possible
    tv_radius, unseen_mass = subset_variation(*_row_shape(estimate), possible, n_rows, part)
    start = 0.0
    if not estimate.start_known:
        begun = estimate.counts.starts[None, :]
        resets = np.maximum(1, begun.sum(axis=1))
        shape = begun.sum(axis=1), np.count_nonzero(begun, axis=1), begun.max(axis=1) / resets
        start = float(mdp.steps_left[0]) * rmax * float(np.maximum(*subset_variation(*shape, possible, 1, part))[0])
    divergence = mixture_divergence(mdp.transitions, estimate.observed.astype(np.float64), possible, n_rows, part)
    return _radii(estimate, rmax, np.maximum(tv_radius, unseen_mass), unseen_mass, divergence, start)


def _radii(
    estimate: Estimate,
    rmax: float,
    tv_radius: FloatArray,
    unseen_mass: FloatArray,
    divergence: FloatArray,
    start: float,
) -> Radii:
    """Radii from bounds `[rows]`.

    Values at `h+1` span at most `(H-h-1)·Rmax`; an expert who is not known may do anything.
    """
    shape = estimate.mdp.shape
    tv_radius, unseen_mass, divergence = (
        _at_every_step(bound, shape) for bound in (tv_radius, unseen_mass, divergence)
    )
    ceiling = trivial_bound(estimate.mdp.horizon, rmax, estimate.mdp.discount)
    reach = rmax * estimate.mdp.steps_after
    return Radii(
        transition=reach[:, None, None] * tv_radius,
        expert=np.where(estimate.expert_known, 0.0, ceiling[:, None]),
        start=start,
        ceiling=ceiling,
        tv_radius=tv_radius,
        unseen_mass=unseen_mass,
        divergence=divergence,
        guaranteed=math.isfinite(estimate.possible_states),
    )


def _at_every_step(bound: FloatArray, shape: tuple[int, int, int]) -> FloatArray:
    """A `bound [rows]` as `[H, S, A]`; that of stationary rows is not copied, and read-only."""
    if bound.size == math.prod(shape):
        return bound.reshape(shape)
    strides = 0, shape[2] * bound.itemsize, bound.itemsize
    spread = np.ndarray(shape, bound.dtype, np.ascontiguousarray(bound), strides=strides)  # quicker than broadcast_to
    spread.flags.writeable = False
    return spread


def _row_shape(estimate: Estimate) -> tuple[FloatArray, IntArray, FloatArray]:
    """`[rows]` each: how often a row was observed, how many successors it showed, and the share of the commonest."""
    mdp = estimate.mdp
    seen = np.diff(mdp.transitions.indptr)
    likeliest = np.zeros(mdp.transitions.n_rows)
    np.maximum.at(likeliest, np.repeat(np.arange(mdp.transitions.n_rows), seen), mdp.transitions.probabilities)
    return estimate.observed.astype(np.float64), seen, likeliest


HALVINGS = 60
"""How finely the ends of intervals are searched for, from outside."""

SHARE_OF_FIRST = 0.25
"""The share of `δ` that goes to the successor seen first, by which rows with two successors are judged."""

CONCENTRATION = 300.0
"""How narrow the mixture for it is: best for rows with about thirty times as many visits, good for all with more."""

COUNTABLE = 1e12
"""From so many visits on the logarithms of the mixture have too few digits, and nothing is left to gain."""

INWARDS = 12
"""How finely that interval is searched for, from outside."""

STIRLING = 1e5
"""From so many observations on, the next term of the series is below rounding."""

FAMILIES: dict[str, Family] = {"adaptive": adaptive, "hoeffding": hoeffding, "kl": kl}


def total_variation(visits: FloatArray | IntArray, n_successors: int, n_rows: int, delta: float) -> FloatArray:
    """A bound on `TV(P̂, P)` of rows with `visits` observations, all `n_rows` rows and all times at once."""
    if not 0 < delta < 1:
        raise InputError(f"delta must be in (0, 1), got {delta}")
    seen = np.maximum(1, visits)
    free = n_successors - 1
    log_ratio = np.log(math.e * (1 + seen / free)) if free else 0.0
    beta = np.log(n_rows / delta) + free * log_ratio
    return np.where(visits > 0, np.minimum(1.0, np.sqrt(beta / (2 * seen))), 1.0) if free else np.zeros(visits.shape)


def mixture_divergence(
    rows: Transitions, visits: FloatArray, n_successors: int, n_rows: int, delta: float
) -> FloatArray:
    """`[rows]`: bounds on `KL(P̂‖P)` of estimated rows with `visits [rows]`, all `n_rows` rows and all times at once.

    With `nᵢ` observations of a successor among `N`, and `α = 1/S`,
    `N·KL(P̂‖P) ≤ log(rows/δ) + Σ nᵢ·log(nᵢ/N) + lnΓ(N+1) - Σ_{nᵢ>0} [lnΓ(nᵢ+α) - lnΓ(α)]` (Ville's inequality for the
    Dirichlet(α) mixture, with which a row of few successors hardly pays for the others). A row never visited may be
    anything.
    """
    if not 0 < delta < 1:
        raise InputError(f"delta must be in (0, 1), got {delta}")
    seen, alpha = np.diff(rows.indptr), 1.0 / n_successors
    owner = np.repeat(np.arange(len(seen)), seen)
    often = np.maximum(1.0, visits)
    of_successors = -_log_gamma_excess(rows.probabilities * often[owner], alpha) + _log_gamma(alpha)
    regret = _log_gamma_excess(often, 1.0) + np.bincount(owner, weights=of_successors, minlength=len(seen))
    return np.where(visits > 0, (np.log(n_rows / delta) + regret) / often, np.inf)


def _log_gamma(x: FloatArray | IntArray | float) -> FloatArray:
    """`log Γ(x)`."""
    return np.asarray(scipy.special.gammaln(x))


def _log_gamma_excess(n: FloatArray, shift: float) -> FloatArray:
    """`lnΓ(n + shift) - n·log n + n`, without losing the digits that these have in common (Stirling)."""
    small, large = np.minimum(n, STIRLING), np.maximum(n, STIRLING)
    exact = _log_gamma(small + shift) - small * (np.log(small) - 1)
    series = (shift - 0.5) * np.log(large) + 0.5 * np.log(2 * np.pi) + (1 + 6 * shift * (shift - 1)) / (12 * large)
    return np.asarray(np.where(n > STIRLING, series, exact))


def subset_variation(
    visits: FloatArray | IntArray,
    seen: IntArray,
    likeliest: FloatArray,
    n_successors: int,
    n_rows: int,
    delta: float,
) -> tuple[FloatArray, FloatArray]:
    """`(tv_radius, unseen_mass)` of rows: `visits` observations, `seen` successors, the commonest of share `likeliest`.

    Bounds on the mass by which sets of some of the seen successors are overestimated, and on the mass of all others;
    the larger is the total variation. The equation is in `adaptive`. All arrays are `[rows]`.
    """
    if not 0 < delta < 1:
        raise InputError(f"delta must be in (0, 1), got {delta}")
    often = np.maximum(1.0, visits)
    price, dearest = _prices(n_successors)
    # Sets smaller than what was seen decide the tv_radius, the set of all that was seen decides what was not.
    dearest = dearest[seen]
    common = np.log(n_rows / (delta * (1 - SHARE_OF_FIRST))) + 0.5 * np.log(often) + np.log(2)
    divergence = (common + dearest) / often
    tv_radius = np.where(seen > 1, largest_drop(likeliest, divergence), 0.0)
    unseen_mass = np.where(seen < n_successors, -np.expm1(-(common + price[seen - 1]) / often), 0.0)
    of_first_seen(often, seen, likeliest, np.log(n_rows / (delta * SHARE_OF_FIRST)), tv_radius, unseen_mass)
    return np.where(visits > 0, tv_radius, 1.0), np.where(visits > 0, unseen_mass, 1.0)


@lru_cache(maxsize=1)
def _prices(n_successors: int) -> tuple[FloatArray, FloatArray]:
    """What a union over sets of successors costs, by their size from 1 on; and the dearest of all smaller sets."""
    sizes = np.arange(1, n_successors + 1)
    price = (
        _log_gamma(n_successors + 1)
        - _log_gamma(sizes + 1)
        - _log_gamma(n_successors - sizes + 1)
        + np.log(sizes * (sizes + 1.0))
    )
    return price, np.concatenate(([0.0, 0.0], np.maximum.accumulate(price)[:-1]))


@compiled
def of_first_seen(
    visits: FloatArray,
    seen: IntArray,
    likeliest: FloatArray,
    log_level: float,
    tv_radius: FloatArray,
    unseen_mass: FloatArray,
) -> None:
    """Make `tv_radius` and `unseen_mass [rows]` smaller, where they can be, by what the first successor tells.

    Which successor was seen first is known from then on, so its probability in the observations that follow needs no
    union over successors; the interval for it is that of `_interval_end`. If no other was seen, what is beyond the
    interval is the mass of all others. If one other was, the total variation is at most how far the first is above its
    interval's lower end, or below its upper end and the mass unseen. Counts do not say which of two was the first, so
    the worse case counts.
    """
    for row in range(len(visits)):
        n = visits[row]
        if seen[row] == 1 and unseen_mass[row] > 0 and 1 < n <= COUNTABLE:
            unseen_mass[row] = 1 - _interval_end(n - 1, 0.0, 1 - unseen_mass[row], log_level)
        elif seen[row] == 2 and n <= COUNTABLE:
            worst = unseen_mass[row]
            for first in (likeliest[row], 1 - likeliest[row]):
                hits, misses = n * first - 1, n - n * first
                low = _interval_end(hits, misses, max(0.0, first - tv_radius[row]), log_level)
                high = _interval_end(hits, misses, min(1.0, first + tv_radius[row]), log_level)
                worst = max(worst, first - low, high - first + unseen_mass[row])
            tv_radius[row] = min(tv_radius[row], worst)


@compiled
def _interval_end(hits: float, misses: float, end: float, log_level: float) -> float:
    """An end of an interval that holds a probability `P` after so many hits and misses, whenever one looks.

    The mixture of all probabilities by the Beta density with mean `P` and `CONCENTRATION` pseudo-observations, over the
    likelihood of `P`, is a martingale if `P` is true; `P` is excluded when it reaches the level. Its logarithm is
    `Σ_{i<hits} log(1 + i/(cP)) + Σ_{i<misses} log(1 + i/(c(1-P)))` and a constant: convex in `P`, so what is not
    excluded is an interval. Searched for from `end`, which is an end of one already, inwards.
    """
    outside, inside = end, (hits + 0.5) / (hits + misses + 1)
    if (0 < end < 1) and _log_mixture(hits, misses, end) <= log_level:
        return end
    for _ in range(INWARDS):
        middle = (outside + inside) / 2
        if _log_mixture(hits, misses, middle) > log_level:
            outside = middle
        else:
            inside = middle
    return outside


@compiled
def _log_mixture(hits: float, misses: float, p: float) -> float:
    """The logarithm of that martingale at `p`, `0 < p < 1`."""
    c, n = CONCENTRATION, hits + misses
    mixed = math.lgamma(c * p + hits) - math.lgamma(c * p) + math.lgamma(c * (1 - p) + misses)
    mixed += math.lgamma(c) - math.lgamma(c * (1 - p)) - math.lgamma(c + n)
    return mixed - hits * math.log(p) - misses * math.log1p(-p)


def largest_drop(likeliest: FloatArray, divergence: FloatArray) -> FloatArray:
    """The most that a set of outcomes with estimated probability `p` can truly be below it, `kl(p‖q) ≤ divergence`.

    Over all sets of outcomes, the commonest of which has the share `likeliest`. The drop `p - q` is concave in `p`, and
    at most `sqrt(divergence/2)` (Pinsker). If one outcome has more than half, every set has at least its share or at
    most the rest, so where the drop falls beyond the one and rises up to the other, these two decide.
    """
    largest = np.minimum(1.0, np.sqrt(divergence / 2))
    _decided_drops(likeliest, divergence, largest)
    return largest


@compiled
def _decided_drops(likeliest: FloatArray, divergence: FloatArray, largest: FloatArray) -> None:
    """The `largest [rows]` where one outcome has more than half and the two decide; the others are left as they are."""
    for row in range(len(likeliest)):
        p, limit = likeliest[row], divergence[row]
        if p <= 0.5:
            continue
        above, falls = _drop(p, limit)
        below, rises = _drop(1 - p, limit)
        if falls <= 0 and rises >= 0:
            largest[row] = min(largest[row], max(above, below))


@compiled
def _drop(p: float, divergence: float) -> tuple[float, float]:
    """The largest `p - q` with `kl(p‖q) ≤ divergence`, rounded up, and the slope of it in `p`."""
    low, high = 0.0, p
    for _ in range(HALVINGS):
        q = (low + high) / 2
        if _binary_kl(p, q) > divergence:
            low = q
        else:
            high = q
    q = low
    if 0 < q < p < 1:
        return p - q, 1 - np.log(p * (1 - q) / (q * (1 - p))) * q * (1 - q) / (p - q)
    return p - q, 1.0 if p < 1 else -1.0


@compiled
def _binary_kl(p: float, q: float) -> float:
    """`kl(p‖q)` of two outcomes, for `0 < q < 1`."""
    first = p * np.log(p / q) if p > 0 else 0.0
    return first + (1 - p) * np.log((1 - p) / (1 - q)) if p < 1 else first


def trivial_bound(horizon: int, rmax: float, discount: float = 1.0) -> FloatArray:
    """`[H]`: `(H - h)·Rmax`, what an episode can still earn; less, if what is later is discounted."""
    return rmax * steps_left(horizon, discount)


def _start_radius(estimate: Estimate, rmax: float, delta: float) -> float:
    """What an estimated start distribution may cost: its total variation times the largest value, `H·Rmax`."""
    if estimate.start_known:
        return 0.0
    resets = np.array([estimate.counts.episodes])
    variation = total_variation(resets, _possible_states(estimate), 1, delta)
    return float(estimate.mdp.steps_left[0]) * rmax * float(variation[0])


def _possible_states(estimate: Estimate) -> int:
    """How many successors a row can have; those met, if nobody can say, and then nothing is promised."""
    known = estimate.possible_states
    return int(known) if math.isfinite(known) else estimate.mdp.n_states
