"""Numbers from runs: means with their uncertainty, censored runs as such, curves, ranks, and tests of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
import scipy

from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray

CONFIDENCE = 0.95
RESAMPLES = 10_000
RANDOM_SIGNS = 100_000
EXACT_UP_TO = 16  # pairs whose sign flips are all tried

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Summary:
    """A number of each run, `amounts [runs]`, such as the samples it spent; `late [runs]` marks those in vain.

    A late run counts with what it spent or could have spent, so if any is `censored` the true mean is at least this
    one. Intervals are by bootstrap.
    """

    amounts: FloatArray
    late: BoolArray

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.amounts)

    @cached_property
    def censored(self) -> int:
        """How many did not get there."""
        return int(self.late.sum())

    @property
    def reached(self) -> bool:
        """Whether any of the runs got there."""
        return self.censored < self.runs

    @cached_property
    def mean(self) -> float:
        """Over the runs."""
        return float(self.amounts.mean())

    @cached_property
    def error(self) -> float:
        """The standard error of the mean; 0 for a single run."""
        return float(self.amounts.std(ddof=1) / np.sqrt(self.runs)) if self.runs > 1 else 0.0

    @cached_property
    def interval(self) -> Interval:
        """Of the mean."""
        return bootstrap(self.amounts, lambda draws: draws.mean(axis=-1))

    @property
    def median(self) -> float | None:
        """None if half of the runs or more did not get there."""
        return float(np.median(self.amounts)) if 2 * self.censored < self.runs else None

    @cached_property
    def median_interval(self) -> Interval:
        """Of the median."""
        return bootstrap(self.amounts, lambda draws: np.median(draws, axis=-1))

    def __str__(self) -> str:
        sign = "≥ " if self.censored else ""
        return f"{sign}{self.mean:,.0f} ± {self.error:,.0f}"


def best_of(found: Mapping[str, Summary]) -> tuple[str, set[str]]:
    """Who has the least mean, and all within its standard error, the paper's rule for bold type."""
    first = min(found, key=lambda name: (found[name].mean, found[name].censored))
    limit = found[first].mean + found[first].error
    return first, {name for name, one in found.items() if one.mean <= limit}


def bootstrap(values: FloatArray, statistic: Callable[[FloatArray], FloatArray]) -> Interval:
    """The percentile interval of a statistic of `values [n]` or of pairs `[n, 2]`; always the same for the same values.

    `statistic` reduces `[draws, n]` (or `[draws, n, 2]`, less its last axis) to `[draws]`. The numbers are those of
    `scipy.stats.bootstrap`, which refuses a single value.
    """
    draws = values.take(_resamples(len(values)), axis=0)  # `values[…]` takes ten times as long for pairs
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(statistic(draws), [tail, 1 - tail])
    return float(low), float(high)


@lru_cache(maxsize=1)
def _resamples(n: int) -> IntArray:
    """`[RESAMPLES, n]`: which of `n` values are drawn."""
    return np.random.default_rng(0).integers(n, size=(RESAMPLES, n))


@dataclass(frozen=True)
class Ratio:
    """How many times as many samples the reference needed; `censored` tells which mean is only known from below."""

    value: float
    interval: Interval
    reference_censored: bool
    own_censored: bool

    @classmethod
    def of(cls, own: Summary, reference: Summary) -> Ratio:
        """That of the means, with an interval by bootstrap of the pairs of runs."""
        pairs = np.column_stack([own.amounts, reference.amounts])
        interval = bootstrap(pairs, lambda draws: draws[..., 1].mean(axis=1) / draws[..., 0].mean(axis=1))
        return cls(reference.mean / own.mean, interval, bool(reference.censored), bool(own.censored))

    def __str__(self) -> str:
        sign = "≥ " if self.reference_censored else ""
        if self.own_censored:
            sign = "≈ " if self.reference_censored else "≤ "
        return f"{sign}{self.value:.3g}×"


class Curve(NamedTuple):
    """Mean regret `[K]` over `samples [K]`, with a 95 % band for the mean."""

    samples: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


def mean_curve(runs: Sequence[tuple[IntArray, FloatArray]], points: int = 200) -> Curve:
    """The mean of learning curves `(samples [K], regret [K])`, at least one; who ended early keeps the last regret.

    The band is the normal one, mean ± 1.96 standard errors, cut at 0 and 1.
    """
    first = max(int(samples[0]) for samples, _ in runs)
    last = max(int(samples[-1]) for samples, _ in runs)
    every = np.unique(np.concatenate([samples for samples, _ in runs]))
    grid = every[(every >= first) & (every <= last)].astype(np.float64)
    if len(grid) > points:
        grid = grid[np.unique(np.linspace(0, len(grid) - 1, points).astype(int))]
    regret = np.array([regret[np.searchsorted(samples, grid, side="right") - 1] for samples, regret in runs])
    mean = regret.mean(axis=0)
    error = regret.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros_like(mean)
    return Curve(grid, mean, np.clip(mean - 1.96 * error, 0, 1), np.clip(mean + 1.96 * error, 0, 1))


def sign_flip_test(differences: FloatArray) -> float:
    """One-sided p-value that paired `differences [n]` are positive on average.

    If the two sides of each pair were exchangeable, every sign would be as likely as its opposite: the p-value is the
    share of sign patterns with at least the observed mean, over all patterns or, for many pairs, 100 000 random ones.
    `scipy.stats.permutation_test` tells the same (a test compares them), but takes half a second each time.
    """
    n = len(differences)
    observed = differences.sum() - 1e-12 * np.abs(differences).sum()  # sums in another order round differently
    if n <= EXACT_UP_TO:
        signs = 1 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float((signs @ differences >= observed).mean())
    reached = (_random_signs(n) @ differences >= observed).sum()
    return float((reached + 1) / (RANDOM_SIGNS + 1))


@lru_cache(maxsize=1)
def _random_signs(n: int) -> FloatArray:
    """`[RANDOM_SIGNS, n]`: the signs of `n` pairs, at random."""
    return np.asarray(1.0 - 2 * np.random.default_rng(0).integers(0, 2, size=(RANDOM_SIGNS, n), dtype=np.int8))


def signed_rank(differences: FloatArray) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test; differences of zero are split between both signs."""
    if not differences.any():
        return 1.0
    return float(scipy.stats.wilcoxon(differences, zero_method="zsplit", correction=True, method="approx").pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for n tests: the k-th smallest times n-k+1, never falling, at most one; in the same order."""
    order = np.argsort(p_values, kind="stable")
    raised = np.asarray(p_values)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(raised))
    return [float(p) for p in corrected]


@dataclass(frozen=True)
class Significance:
    """A test: how likely chance alone does as much, and the same after Holm's correction for all tests beside it."""

    p_value: float = field(kw_only=True)
    adjusted: float = field(default=1.0, kw_only=True)

    @property
    def holds(self) -> bool:
        """Whether it is more than chance, at the 5 % level."""
        return self.adjusted < 0.05


T = TypeVar("T", bound=Significance)


def corrected(found: Sequence[T]) -> list[T]:
    """The same tests with Holm's correction for all of them."""
    p_values = holm([one.p_value for one in found])
    return [replace(one, adjusted=p) for one, p in zip(found, p_values, strict=True)]


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranks of methods over tasks, 1 is best: `ranks [tasks, methods]` and their `mean [methods]` (Demšar 2006).

    `difference` is Nemenyi's critical difference at 5 %: mean ranks that lie closer are not told apart. `p_value` is
    Friedman's, that all methods are alike; None for two, which it is not for. Methods are in the order of their mean
    ranks.
    """

    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    ranks: FloatArray
    mean: FloatArray
    difference: float
    p_value: float | None

    @classmethod
    def of(cls, methods: Sequence[str], means: Mapping[str, Sequence[float]]) -> Ranking:
        """By what the methods spent on average in each task."""
        ranks = np.array([scipy.stats.rankdata(row) for row in means.values()])
        mean = ranks.mean(axis=0)
        order = np.argsort(mean, kind="stable")
        return cls(
            tuple(methods[i] for i in order),
            tuple(means),
            ranks[:, order],
            mean[order],
            critical_difference(len(methods), len(means)),
            float(scipy.stats.friedmanchisquare(*ranks.T).pvalue) if len(methods) > 2 else None,
        )

    @property
    def named(self) -> dict[str, float]:
        """The mean ranks by method."""
        return dict(zip(self.methods, self.mean.tolist(), strict=True))

    @property
    def groups(self) -> list[tuple[int, int]]:
        """The largest runs of methods, first and last, that are not told apart."""
        found: list[tuple[int, int]] = []
        for first in range(len(self.methods)):
            last = int(np.searchsorted(self.mean, self.mean[first] + self.difference, side="right")) - 1
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found


def critical_difference(methods: int, tasks: int, level: float = 0.05) -> float:
    """Nemenyi: `q·√(k(k+1)/6N)` for k methods and N tasks, `q` the studentized range over `√2`."""
    q = scipy.stats.studentized_range.ppf(1 - level, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * tasks)))
