"""From runs to statements: means with their uncertainty, censored runs as such, and tests of the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from aceirl.experiments.claims import Claim, Term
from aceirl.experiments.specs import Scenario, Spec
from aceirl.experiments.store import RunResult, Store
from aceirl.mdp import FloatArray, IntArray
from aceirl.metrics import samples_to_threshold

CONFIDENCE = 0.95
RESAMPLES = 10_000
RANDOM_SIGNS = 100_000
EXACT_UP_TO = 16  # pairs whose sign flips are all tried


@dataclass(frozen=True, eq=False)
class Results:
    """All finished runs of a spec, by scenario and strategy, and what went wrong with the others."""

    spec: Spec
    runs: Mapping[tuple[str, str], Sequence[RunResult]]
    errors: Sequence[tuple[Scenario, str, int, str]]

    @classmethod
    def read(cls, spec: Spec, store: Store) -> Results:
        """What the store has of an experiment."""
        runs: dict[tuple[str, str], list[RunResult]] = {}
        errors = []
        for scenario, strategy, cell in spec.placed:
            found = runs.setdefault((scenario.name, strategy), [])
            run = store.read(cell)
            if run is not None:
                found.append(run)
            elif (error := store.error(cell)) is not None:
                errors.append((scenario, strategy, cell.seed, error))
        return cls(spec, runs, errors)

    def of(self, scenario: str, strategy: str) -> Sequence[RunResult]:
        """The finished runs of one strategy in one scenario, by seed."""
        return self.runs.get((scenario, strategy), ())


@dataclass(frozen=True)
class Summary:
    """Samples to a threshold over the seeds: mean, standard error and a bootstrap interval of the mean.

    A run that never got there counts with the samples it spent, so if any is `censored` the true mean is at least
    this one.
    """

    runs: int
    censored: int
    mean: float
    error: float
    low: float
    high: float

    def __str__(self) -> str:
        sign = "≥ " if self.censored else ""
        return f"{sign}{self.mean:,.0f} ± {self.error:,.0f}"


def summary(runs: Sequence[RunResult], threshold: float) -> Summary | None:
    """The samples that these runs needed; None if there are none."""
    return summary_of(*samples_needed(runs, threshold)) if runs else None


def summary_of(spent: FloatArray, censored: IntArray) -> Summary:
    """The mean of what runs spent, `[runs]`; `censored [runs]` is 1 where that was in vain."""
    low, high = bootstrap(spent, lambda draws: draws.mean(axis=-1))
    error = float(spent.std(ddof=1) / np.sqrt(len(spent))) if len(spent) > 1 else 0.0
    return Summary(len(spent), int(censored.sum()), float(spent.mean()), error, low, high)


@dataclass(frozen=True)
class Loss:
    """A regret over the seeds: its mean, and a bootstrap interval of that."""

    runs: int
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f}–{self.high:.3f})"


def transfer_loss(runs: Sequence[RunResult], plan: str, target: str | None = None) -> Loss | None:
    """What a plan loses in a target, or on average over all; None if no run says."""
    regrets = [
        [
            regret
            for regret, (planned, where) in zip(run.regret, run.labels, strict=True)
            if planned == plan and target in (None, where)
        ]
        for run in runs
        if run.labels
    ]
    means = np.array([np.mean(values) for values in regrets if values])
    if not len(means):
        return None
    return Loss(len(means), float(means.mean()), *bootstrap(means, lambda draws: draws.mean(axis=-1)))


def samples_needed(runs: Sequence[RunResult], threshold: float) -> tuple[FloatArray, IntArray]:
    """`(samples, censored)`, each `[runs]`: when the regret was first below the threshold, or all that was spent."""
    reached = [samples_to_threshold(run.samples.tolist(), run.regret.tolist(), threshold) for run in runs]
    return (
        np.array([float(one.samples) for one in reached]),
        np.array([int(one.censored) for one in reached], dtype=np.int64),
    )


def bootstrap(values: FloatArray, statistic: Callable[[FloatArray], FloatArray]) -> tuple[float, float]:
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
    low: float
    high: float
    reference_censored: bool
    own_censored: bool

    def __str__(self) -> str:
        sign = "≥ " if self.reference_censored else ""
        if self.own_censored:
            sign = "≈ " if self.reference_censored else "≤ "
        return f"{sign}{self.value:.3g}×"


def efficiency(runs: Sequence[RunResult], reference: Sequence[RunResult], threshold: float) -> Ratio | None:
    """The ratio of the means over the seeds both have: above one if these need fewer samples."""
    own, other = paired(runs, reference)
    if not own:
        return None
    mine, mine_censored = samples_needed(own, threshold)
    theirs, theirs_censored = samples_needed(other, threshold)
    pairs = np.column_stack([mine, theirs])
    low, high = bootstrap(pairs, lambda draws: draws[..., 1].mean(axis=1) / draws[..., 0].mean(axis=1))
    return Ratio(float(theirs.mean() / mine.mean()), low, high, bool(theirs_censored.any()), bool(mine_censored.any()))


def paired(one: Sequence[RunResult], other: Sequence[RunResult]) -> tuple[list[RunResult], list[RunResult]]:
    """The runs whose seeds are in both; a seed draws the same problem for every strategy."""
    by_seed = {run.cell.seed: run for run in other}
    mine = [run for run in one if run.cell.seed in by_seed]
    return mine, [by_seed[run.cell.seed] for run in mine]


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean regret `[K]` over `samples [K]`, with a 95 % band for the mean."""

    samples: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


def curve(runs: Sequence[RunResult], points: int = 200) -> Curve | None:
    """The mean learning curve; a run that ended early keeps its last regret.

    The band is the normal one, mean ± 1.96 standard errors, cut at 0 and 1.
    """
    return mean_curve([(run.samples, run.regret) for run in runs], points) if runs else None


def mean_curve(runs: Sequence[tuple[IntArray, FloatArray]], points: int = 200) -> Curve:
    """The same of runs that are given as `(samples [K], regret [K])`; there must be one."""
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


@dataclass(frozen=True)
class Verdict:
    """A claim of the paper put to the test: the measured effect, in words, and how likely chance alone does as much.

    `adjusted` is the p-value after Holm's correction for all tests of the same claim.
    """

    claim: str
    where: str
    effect: str
    p_value: float
    adjusted: float = 1.0

    @property
    def holds(self) -> bool:
        """Whether the data support the claim at the 5 % level."""
        return self.adjusted < 0.05


def adjusted(found: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts claim by claim, with Holm's correction for all tests of a claim."""
    claims = list(dict.fromkeys(verdict.claim for verdict in found))
    every = []
    for claim in claims:
        members = [verdict for verdict in found if verdict.claim == claim]
        corrected = holm([verdict.p_value for verdict in members])
        every += [replace(verdict, adjusted=p) for verdict, p in zip(members, corrected, strict=True)]
    return every


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction for n tests: the k-th smallest times n-k+1, never falling, at most one; in the same order."""
    order = np.argsort(p_values, kind="stable")
    raised = np.asarray(p_values)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(raised))
    return [float(p) for p in corrected]


def verdicts(results: Results) -> list[Verdict]:
    """Every claim of the experiment that the finished runs allow to test.

    Seeds are pairs: each draws one problem for all strategies. Samples are compared by their logarithms, and a run that
    never got there counts with its budget, which makes its side look better than it is; reward-free runs are compared
    by their mean regret.
    """
    found = []
    for claim in results.spec.claims:
        for case in _cases(claim, results.spec.scenarios):
            for comparison in claim.comparisons:
                differences = _differences(results, comparison.terms, case)
                if len(differences) > 1:
                    mean = float(differences.mean())
                    size = mean if claim.reward_free else float(np.exp(mean))
                    where, effect = comparison.where.format(**case), comparison.effect.format(size=size, **case)
                    found.append(Verdict(claim.text, where, effect, sign_flip_test(differences)))
    return adjusted(found)


Case = Mapping[str, Scenario]  # by role


def _cases(claim: Claim, scenarios: Sequence[Scenario]) -> list[Case]:
    """Where a claim is tested: which scenario has which role."""
    meant = [
        scenario
        for scenario in scenarios
        if scenario.reward_free == claim.reward_free and (not claim.families or scenario.family in claim.families)
    ]
    if claim.over == "scenarios":
        return [{"here": scenario} for scenario in meant]
    families: dict[str, list[Scenario]] = {}
    for scenario in meant:
        if scenario.family:
            families.setdefault(scenario.family, []).append(scenario)
    by_batch = [sorted(members, key=lambda scenario: scenario.batch) for members in families.values()]
    return [{"small": members[0], "large": members[-1]} for members in by_batch if len(members) > 1]


def _differences(results: Results, terms: Sequence[Term], case: Case) -> FloatArray:
    """`Σ sign·value` over the terms, for each seed that has all of them."""
    columns = [(term.sign, _values(results, case[term.scenario], term.strategy)) for term in terms]
    seeds = sorted(set.intersection(*(set(column) for _, column in columns)))
    return np.array([sum(sign * column[seed] for sign, column in columns) for seed in seeds])


def _values(results: Results, scenario: Scenario, strategy: str) -> dict[int, float]:
    """What a claim compares of each run, by seed: the mean regret if reward-free, else the logarithm of samples."""
    runs = results.of(scenario.name, strategy)
    if scenario.reward_free:
        return {run.cell.seed: float(run.regret.mean()) for run in runs}
    samples, _ = samples_needed(runs, results.spec.threshold)
    return {run.cell.seed: float(np.log(n)) for run, n in zip(runs, samples, strict=True)}
