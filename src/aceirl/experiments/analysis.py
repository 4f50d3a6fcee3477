"""From runs to statements: means with their uncertainty, censored runs as such, and tests of the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aceirl.experiments.specs import Setting, Spec
from aceirl.experiments.store import RunResult, Store
from aceirl.mdp import FloatArray, IntArray
from aceirl.metrics import samples_to_threshold

CONFIDENCE = 0.95
RESAMPLES = 10_000
RANDOM_SIGNS = 100_000
EXACT_UP_TO = 16  # pairs whose sign flips are all tried


@dataclass(frozen=True, eq=False)
class Results:
    """All finished runs of a spec, by setting and strategy, and what went wrong with the others."""

    spec: Spec
    runs: Mapping[tuple[str, str], Sequence[RunResult]]
    errors: Sequence[tuple[Setting, str, int, str]]

    @classmethod
    def read(cls, spec: Spec, store: Store) -> Results:
        """What the store has of an experiment."""
        runs: dict[tuple[str, str], list[RunResult]] = {}
        errors = []
        for setting in spec.settings:
            for strategy in spec.strategies:
                found = runs.setdefault((setting.name, strategy), [])
                for seed in spec.seeds:
                    cell = setting.cell(strategy, seed)
                    run = store.read(cell)
                    if run is not None:
                        found.append(run)
                    elif (error := store.error(cell)) is not None:
                        errors.append((setting, strategy, seed, error))
        return cls(spec, runs, errors)

    def of(self, setting: str, strategy: str) -> Sequence[RunResult]:
        """The finished runs of one strategy in one setting, by seed."""
        return self.runs.get((setting, strategy), ())


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
    if not runs:
        return None
    samples, censored = samples_needed(runs, threshold)
    low, high = bootstrap(samples, lambda draws: draws.mean(axis=-1))
    error = float(samples.std(ddof=1) / np.sqrt(len(samples))) if len(samples) > 1 else 0.0
    return Summary(len(runs), int(censored.sum()), float(samples.mean()), error, low, high)


def samples_needed(runs: Sequence[RunResult], threshold: float) -> tuple[FloatArray, IntArray]:
    """`(samples, censored)`, each `[runs]`: when the regret was first below the threshold, or all that was spent."""
    reached = [samples_to_threshold(run.samples.tolist(), run.regret.tolist(), threshold) for run in runs]
    return (
        np.array([float(one.samples) for one in reached]),
        np.array([int(one.censored) for one in reached], dtype=np.int64),
    )


def bootstrap(values: FloatArray, statistic: Callable[[FloatArray], FloatArray]) -> tuple[float, float]:
    """The percentile interval of a statistic of `values [n]` or of pairs `[n, 2]`; always the same for the same values.

    `statistic` reduces `[draws, n]` (or `[draws, n, 2]`, less its last axis) to `[draws]`.
    """
    rng = np.random.default_rng(0)
    draws = values[rng.integers(len(values), size=(RESAMPLES, len(values)))]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(statistic(draws), [tail, 1 - tail])
    return float(low), float(high)


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
    if not runs:
        return None
    first = max(int(run.samples[0]) for run in runs)
    last = max(int(run.samples[-1]) for run in runs)
    every = np.unique(np.concatenate([run.samples for run in runs]))
    grid = every[(every >= first) & (every <= last)].astype(np.float64)
    if len(grid) > points:
        grid = grid[np.unique(np.linspace(0, len(grid) - 1, points).astype(int))]
    regret = np.array([run.regret[np.searchsorted(run.samples, grid, side="right") - 1] for run in runs])
    mean = regret.mean(axis=0)
    spread = regret.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros_like(mean)
    return Curve(grid, mean, np.clip(mean - 1.96 * spread, 0, 1), np.clip(mean + 1.96 * spread, 0, 1))


def sign_flip_test(differences: FloatArray) -> float:
    """One-sided p-value that paired `differences [n]` are positive on average.

    If the two sides of each pair were exchangeable, every sign would be as likely as its opposite: the p-value is the
    share of sign patterns with at least the observed mean, over all patterns or, for many pairs, 100 000 random ones.
    """
    n = len(differences)
    observed = differences.sum() * (1 - 1e-12)
    if n <= EXACT_UP_TO:
        signs = 1 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float((signs @ differences >= observed).mean())
    rng = np.random.default_rng(0)
    random_signs = 1.0 - 2 * rng.integers(0, 2, size=(RANDOM_SIGNS, n), dtype=np.int8)
    reached = (random_signs @ differences >= observed).sum()
    return float((reached + 1) / (RANDOM_SIGNS + 1))


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
    """The verdicts claim by claim, with Holm's correction: the k-th smallest of n times n-k+1, never falling."""
    claims = list(dict.fromkeys(verdict.claim for verdict in found))
    corrected: dict[int, float] = {}
    for claim in claims:
        members = sorted(
            (i for i, verdict in enumerate(found) if verdict.claim == claim), key=lambda i: found[i].p_value
        )
        largest = 0.0
        for rank, i in enumerate(members):
            largest = max(largest, min(1.0, found[i].p_value * (len(members) - rank)))
            corrected[i] = largest
    every = [replace(verdict, adjusted=corrected[i]) for i, verdict in enumerate(found)]
    return sorted(every, key=lambda verdict: claims.index(verdict.claim))


def verdicts(results: Results) -> list[Verdict]:
    """Every claim that the finished runs allow to test.

    Seeds are pairs: each draws one problem for all strategies. Samples are compared by their logarithms, and a run that
    never got there counts with its budget, which makes its side look better than it is.
    """
    log_samples = _LogSamples(results)
    found = [
        *_best_without_generative_model(log_samples),
        *_smaller_batches_help(log_samples),
        *_large_batches_hurt_greedy(log_samples),
        *_greedy_against_random(log_samples),
        *_ours_against_ace(log_samples),
    ]
    return adjusted([verdict for verdict in found if verdict is not None])


def reward_free_verdicts(results: Results) -> list[Verdict]:
    """The paper's claim on reward-free exploration, tested on each run's mean regret over its iterations."""
    found = []
    for setting in results.spec.settings:
        batched, greedy = paired(results.of(setting.name, "ace-rf"), results.of(setting.name, "rf-ucrl"))
        difference = np.array([b.regret.mean() - a.regret.mean() for a, b in zip(batched, greedy, strict=True)])
        if len(difference) > 1:
            claim = "In batches, Ace-RF explores better than reward-free UCRL"
            effect = f"the mean regret is {difference.mean():.2f} lower"
            found.append(Verdict(claim, setting.title, effect, sign_flip_test(difference)))
    return adjusted(found)


class _LogSamples:
    """Logarithms of the samples needed, by seed."""

    def __init__(self, results: Results) -> None:
        self.spec = results.spec
        self._values: dict[tuple[str, str], dict[int, float]] = {}
        for key, runs in results.runs.items():
            samples, _ = samples_needed(runs, results.spec.threshold)
            self._values[key] = {run.cell.seed: float(np.log(n)) for run, n in zip(runs, samples, strict=True)}

    def families(self) -> list[tuple[str, list[Setting]]]:
        """Settings of one environment that differ in the batch, from the smallest to the largest."""
        by_title: dict[str, list[Setting]] = {}
        for setting in self.spec.settings:
            by_title.setdefault(setting.title.split(",")[0], []).append(setting)
        return [(title, members) for title, members in by_title.items() if len(members) > 1]

    def combined(self, *terms: tuple[int, str, str]) -> FloatArray:
        """`Σ sign·log(samples)` over terms `(sign, setting, strategy)`, for each seed that has all of them."""
        columns = [(sign, self._values.get((setting, strategy), {})) for sign, setting, strategy in terms]
        seeds = sorted(set.intersection(*(set(column) for _, column in columns)))
        return np.array([sum(sign * column[seed] for sign, column in columns) for seed in seeds])


def _verdict(claim: str, where: str, words: str, difference: FloatArray) -> Verdict | None:
    if len(difference) < 2:
        return None
    return Verdict(claim, where, words.format(np.exp(difference.mean())), sign_flip_test(difference))


def _best_without_generative_model(logs: _LogSamples) -> list[Verdict | None]:
    claim = "AceIRL needs the fewest samples of all strategies without a generative model"
    return [
        _verdict(
            claim,
            f"{setting.title}: against {other}",
            f"{other} needs {{:.2f}}× the samples of ace",
            logs.combined((1, setting.name, other), (-1, setting.name, "ace")),
        )
        for setting in logs.spec.settings
        for other in ("random", "greedy")
    ]


def _smaller_batches_help(logs: _LogSamples) -> list[Verdict | None]:
    found = []
    for title, members in logs.families():
        small, large = members[0], members[-1]
        batches = f"N_E {_batch(small)} against {_batch(large)}"
        found += [
            _verdict(
                "AceIRL needs fewer samples with smaller batches",
                f"{title}: {batches}",
                f"N_E = {_batch(large)} costs ace {{:.2f}}× the samples of N_E = {_batch(small)}",
                logs.combined((1, large.name, "ace"), (-1, small.name, "ace")),
            ),
            _verdict(
                "AceIRL's advantage over random exploration grows as batches get smaller",
                f"{title}: {batches}",
                f"the advantage is {{:.2f}}× as large at N_E = {_batch(small)}",
                logs.combined(
                    (1, small.name, "random"),
                    (-1, small.name, "ace"),
                    (-1, large.name, "random"),
                    (1, large.name, "ace"),
                ),
            ),
        ]
    return found


def _large_batches_hurt_greedy(logs: _LogSamples) -> list[Verdict | None]:
    found = []
    for title, members in logs.families():
        small, large = members[0], members[-1]
        found += [
            _verdict(
                "Large batches hurt AceIRL Greedy",
                f"{title}: N_E {_batch(large)} against {_batch(small)}",
                f"N_E = {_batch(large)} costs greedy {{:.2f}}× the samples of N_E = {_batch(small)}",
                logs.combined((1, large.name, "greedy"), (-1, small.name, "greedy")),
            ),
            _verdict(
                "Large batches hurt AceIRL Greedy more than AceIRL",
                f"{title}: N_E {_batch(large)} against {_batch(small)}",
                "greedy loses {:.2f}× as much as ace",
                logs.combined(
                    (1, large.name, "greedy"),
                    (-1, small.name, "greedy"),
                    (-1, large.name, "ace"),
                    (1, small.name, "ace"),
                ),
            ),
        ]
    return found


def _greedy_against_random(logs: _LogSamples) -> list[Verdict | None]:
    return [
        _verdict(
            "AceIRL Greedy needs more samples than random exploration on Four Paths",
            setting.title,
            "greedy needs {:.2f}× the samples of random",
            logs.combined((1, setting.name, "greedy"), (-1, setting.name, "random")),
        )
        for setting in logs.spec.settings
        if setting.environment == "four-paths-released"
    ]


def _ours_against_ace(logs: _LogSamples) -> list[Verdict | None]:
    return [
        _verdict(
            f"Not in the paper: {ours} needs fewer samples than AceIRL",
            setting.title,
            f"ace needs {{:.2f}}× the samples of {ours}",
            logs.combined((1, setting.name, "ace"), (-1, setting.name, ours)),
        )
        for ours in ("advice", "guided")
        for setting in logs.spec.settings
    ]


def _batch(setting: Setting) -> int:
    return int(setting.choices["episodes_per_iteration"])
