"""From runs to statements: what each method spent to get there, who is first, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats

from aceirl import files
from aceirl.arena.measure import REGRET, ArenaCell
from aceirl.arena.methods import GENERATIVE
from aceirl.errors import InputError
from aceirl.experiments.analysis import Summary, bootstrap, holm, summary_of
from aceirl.experiments.store import Store
from aceirl.mdp import FloatArray, IntArray

Goal = Literal["transfer", "policy", "certificate"]
Unit = Literal["samples", "answers"]
GOALS: tuple[Goal, ...] = ("transfer", "policy", "certificate")
UNITS: tuple[Unit, ...] = ("samples", "answers")

RESULTS = "results.parquet"
REFERENCE = "guided"
ROUNDING = 1e-9

LEAST_PAIRS = 6
"""With fewer pairs Wilcoxon's test finds no difference at the 5 % level, however large: 2·2⁻⁵ is more than that."""


@dataclass(frozen=True)
class Run:
    """What came out of one run.

    Of each goal it has the samples and answers it took, None if the goal was not reached. `samples` and `answers` are
    what was spent within the budget for regrets, `all_samples` and `all_answers` in the whole run. `claims` is whether
    the method could have claimed anything; `broken` whether it claimed less than its policy lost, at any measurement
    after its certificate held; None without a claim.
    """

    task: str
    family: str
    expert: str
    method: str
    source: str
    access: str
    seed: int
    states: int
    actions: int
    horizon: int
    samples: int
    answers: int
    all_samples: int
    all_answers: int
    transfer_samples: int | None
    transfer_answers: int | None
    policy_samples: int | None
    policy_answers: int | None
    certificate_samples: int | None
    certificate_answers: int | None
    claims: bool
    broken: bool | None
    seconds: float

    def took(self, goal: Goal, unit: Unit) -> int | None:
        """What the goal took; None if it was not reached."""
        reached: int | None = getattr(self, f"{goal}_{unit}")
        return reached


def learnt_at(samples: IntArray, regret: FloatArray) -> int | None:
    """The first index from which `regret [K]` is at most `REGRET` until `samples [K]` have doubled, or the run is over.

    A regret that falls and rises again is luck.
    """
    for index in np.flatnonzero(regret <= REGRET).tolist():
        if (regret[index : np.searchsorted(samples, 2 * samples[index], side="right")] <= REGRET).all():
            return index
    return None


def run_of(cell: ArenaCell, columns: Mapping[str, Any], seconds: float) -> Run:
    """What came out of a run, from the columns of its table, each `[K]`."""
    # The last batch of a budget is finished: what is beyond it by less than an episode still counts.
    budget = int(np.searchsorted(columns["samples"], cell.task.budget + columns["horizon"][0]))
    reached = {
        "transfer": learnt_at(columns["samples"][:budget], columns["transfer_regret"][:budget]),
        "policy": learnt_at(columns["samples"][:budget], columns["policy_regret"][:budget]),
        "certificate": int(columns["certified"].argmax()) if columns["certified"].any() else None,
    }
    when = {
        f"{goal}_{unit}": None if index is None else int(columns[unit][index])
        for goal, index in reached.items()
        for unit in UNITS
    }
    certified, claimed = reached["certificate"], columns["claimed"].astype(np.float64)
    broken = None if certified is None else bool((columns["lost"] > claimed + ROUNDING)[certified:].any())
    method, task = cell.entry, cell.task
    return Run(
        task=task.key,
        family=task.family,
        expert=task.expert,
        method=method.name,
        source=method.source,
        access=method.access,
        seed=cell.seed,
        states=int(columns["states"][-1]),
        actions=int(columns["actions"][-1]),
        horizon=int(columns["horizon"][-1]),
        samples=int(columns["samples"][budget - 1]),
        answers=int(columns["answers"][budget - 1]),
        all_samples=int(columns["samples"][-1]),
        all_answers=int(columns["answers"][-1]),
        **when,
        claims=bool(np.isfinite(claimed).any()),
        broken=broken,
        seconds=seconds,
    )


Series = tuple[IntArray, FloatArray, FloatArray]
"""Of one run: samples, policy regret and transfer regret, each `[K]`."""


@dataclass(frozen=True)
class FailedRun:
    """A run that did not come to its end, and why."""

    task: str
    method: str
    source: str
    access: str
    seed: int
    error: str


@dataclass(frozen=True, eq=False)
class Results:
    """All finished runs, and what went wrong with the others.

    `series` are the measurements of the runs, by task and method.
    """

    runs: tuple[Run, ...]
    errors: tuple[FailedRun, ...] = ()
    series: Mapping[tuple[str, str], Sequence[Series]] = field(default_factory=dict)

    @classmethod
    def read(cls, cells: Sequence[ArenaCell], store: Store) -> Results:
        """What the store has of these runs."""
        runs: list[Run] = []
        errors: list[FailedRun] = []
        series: dict[tuple[str, str], list[Series]] = {}
        for cell in cells:
            found = store.table(cell)
            if found is not None:
                columns = {name: found[0][name].to_numpy() for name in found[0].column_names}
                runs.append(run_of(cell, columns, found[1]["processor"]))
                measured = columns["samples"], columns["policy_regret"], columns["transfer_regret"]
                series.setdefault(cell.place, []).append(measured)
            elif (error := store.error(cell)) is not None:
                method = cell.entry
                errors.append(FailedRun(cell.task.key, method.name, method.source, method.access, cell.seed, error))
        return cls(tuple(runs), tuple(errors), series)

    def write(self, folder: Path) -> None:
        """One Parquet file with a row for each run."""
        buffer = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist([asdict(run) for run in self.runs], schema=SCHEMA), buffer)
        files.replace(folder / RESULTS, buffer.getvalue().to_pybytes())

    @classmethod
    def of_store(cls, path: Path) -> Results:
        """What another arena wrote: its folder, or the file in it."""
        file = path if path.is_file() else path / RESULTS
        if not file.is_file():
            raise InputError(f"{path} is no result of an arena: there is no {file}; give the --out of an earlier arena")
        try:
            rows = pq.read_table(file, schema=SCHEMA).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{file} is no result of an arena: {error}") from None
        return cls(tuple(Run(**row) for row in rows))

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks, in the order of the runs."""
        return list(dict.fromkeys(run.task for run in self.runs))

    @cached_property
    def methods(self) -> list[str]:
        """The methods, in the order of the runs."""
        return list(dict.fromkeys(run.method for run in self.runs))

    @cached_property
    def access(self) -> dict[str, str]:
        """What each method needs."""
        every: list[Run | FailedRun] = [*self.errors, *self.runs]
        return {one.method: one.access for one in every}

    @cached_property
    def by_place(self) -> dict[tuple[str, str], dict[int, Run]]:
        """The runs by task and method, then by seed."""
        found: dict[tuple[str, str], dict[int, Run]] = {}
        for run in self.runs:
            found.setdefault((run.task, run.method), {})[run.seed] = run
        return found

    def of(self, task: str, method: str) -> dict[int, Run]:
        """The runs of a method in a task, by seed."""
        return self.by_place.get((task, method), {})

    def summary(self, task: str, method: str, goal: Goal, unit: Unit) -> Spent | None:
        """What a method spent in a task; None if it has no run there, or cannot claim what the goal is about."""
        key = task, method, goal, unit
        if key not in self._summaries:
            runs = [run for run in self.of(task, method).values() if goal != "certificate" or run.claims]
            self._summaries[key] = spent(*self.amounts(runs, goal, unit)) if runs else None
        return self._summaries[key]

    def amounts(self, runs: Sequence[Run], goal: Goal, unit: Unit) -> tuple[FloatArray, IntArray]:
        """`(amounts, censored)`, each `[runs]`: what a goal took or, if it was not reached, the task's `most`."""
        took = [run.took(goal, unit) for run in runs]
        most = [self.most[run.task, goal == "certificate", unit] for run in runs]
        spent = [float(late if one is None else one) for late, one in zip(most, took, strict=True)]
        return np.array(spent), np.array([int(one is None) for one in took])

    @cached_property
    def most(self) -> dict[tuple[str, bool, Unit], int]:
        """The most samples and answers that any run of a task spent, within the budget for regrets or in all.

        A run that did not get there counts with these: of samples they are its budget, and one who stopped asking does
        not look better for it.
        """
        found: dict[tuple[str, bool, Unit], int] = {}
        for run, unit, whole in product(self.runs, UNITS, (False, True)):
            spent: int = getattr(run, f"all_{unit}" if whole else unit)
            found[run.task, whole, unit] = max(found.get((run.task, whole, unit), 0), spent)
        return found

    @cached_property
    def _summaries(self) -> dict[tuple[str, str, Goal, Unit], Spent | None]:
        return {}


_ARROW = {"str": pa.string(), "int": pa.int64(), "int | None": pa.int64(), "bool": pa.bool_()}
_ARROW |= {"bool | None": pa.bool_(), "float": pa.float64()}
SCHEMA = pa.schema([(one.name, _ARROW[str(one.type)]) for one in fields(Run)])


@dataclass(frozen=True)
class Spent:
    """What runs spent to reach a goal: the mean with its uncertainty, and the median with its own.

    A run that did not get there counts with the most that any run of the task spent; the mean is then at least this.
    The median is None if half of the runs or more are such.
    """

    mean: Summary
    median: float | None
    median_low: float
    median_high: float

    def __str__(self) -> str:
        return str(self.mean)


def spent(amounts: FloatArray, censored: IntArray) -> Spent:
    """The summary of what runs spent, `[runs]`; `censored [runs]` is 1 where that was in vain."""
    low, high = bootstrap(amounts, lambda draws: np.median(draws, axis=-1))
    known = 2 * censored.sum() < len(amounts)
    return Spent(summary_of(amounts, censored), float(np.median(amounts)) if known else None, low, high)


@dataclass(frozen=True)
class Standing:
    """How a method stands in a task: the first method, its mean and standard error, and the method's own mean."""

    task: str
    goal: Goal
    unit: Unit
    first: str
    best: Summary
    own: Summary

    @property
    def holds(self) -> bool:
        """Whether the method got there at all, and is first or within one standard error of the first."""
        return got_there(self.own) and self.own.mean <= self.best.mean + self.best.error


def got_there(found: Summary) -> bool:
    """Whether any of the runs got there."""
    return found.censored < found.runs


def standing(results: Results, task: str, method: str, goal: Goal, unit: Unit) -> Standing | None:
    """Against all methods with no more access than to episodes; None if the method has no run there."""
    own = results.summary(task, method, goal, unit)
    if own is None:
        return None
    rivals = {name: results.summary(task, name, goal, unit) for name in results.methods if is_fair(results, name)}
    means = {name: found.mean for name, found in rivals.items() if found is not None}
    means[method] = own.mean
    first = min(means, key=lambda name: (means[name].mean, means[name].censored))
    return Standing(task, goal, unit, first, means[first], own.mean)


def is_fair(results: Results, method: str) -> bool:
    """Whether a method walks from the start as the others do; a generative model is put wherever it likes."""
    return results.access[method] != GENERATIVE


@dataclass(frozen=True)
class Comparison:
    """Two series of runs, paired by task and seed: how many times as much the first spent, and how likely by chance.

    `ratio` is that of the geometric means; `p_value` that of Wilcoxon's signed-rank test of the logarithms, two-sided,
    `adjusted` after Holm's correction. A run that did not get there counts with the most that any of the task spent.
    """

    task: str
    method: str
    pairs: int
    ratio: float
    p_value: float
    adjusted: float = 1.0
    censored: int = 0

    @property
    def differs(self) -> bool:
        """Whether the difference is more than chance, at the 5 % level."""
        return self.adjusted < 0.05 and not self.too_few

    @property
    def too_few(self) -> bool:
        """Whether there are too few pairs for the test to find anything."""
        return self.pairs < LEAST_PAIRS


def compared(
    one: Results, other: Results, task: str, methods: tuple[str, str], goal: Goal, unit: Unit
) -> Comparison | None:
    """A method's runs in a task against another's, there or in another store.

    None if fewer than two seeds are in both, or the goal is out of reach of either.
    """
    mine_by_seed, theirs_by_seed = one.of(task, methods[0]), other.of(task, methods[1])
    seeds = [seed for seed in mine_by_seed if seed in theirs_by_seed]
    sides = [[runs[seed] for seed in seeds] for runs in (mine_by_seed, theirs_by_seed)]
    able = goal != "certificate" or all(run.claims for runs in sides for run in runs)
    if len(seeds) < 2 or not able:
        return None
    mine, mine_late = one.amounts(sides[0], goal, unit)
    theirs, theirs_late = other.amounts(sides[1], goal, unit)
    differences = np.log(np.maximum(mine, 1)) - np.log(np.maximum(theirs, 1))
    return Comparison(
        task,
        methods[0],
        len(seeds),
        float(np.exp(differences.mean())),
        signed_rank(differences),
        censored=int(mine_late.sum() + theirs_late.sum()),
    )


def signed_rank(differences: FloatArray) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test; differences of zero are split between both signs."""
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="zsplit", correction=True, method="approx").pvalue)


def corrected(found: Sequence[Comparison]) -> list[Comparison]:
    """The same comparisons with Holm's correction for all of them."""
    p_values = holm([one.p_value for one in found])
    return [replace(one, adjusted=p) for one, p in zip(found, p_values, strict=True)]


def against_reference(results: Results, goal: Goal, unit: Unit, reference: str = REFERENCE) -> list[Comparison]:
    """Every other method in every task against the reference; all tests of a goal are corrected together."""
    found = [
        compared(results, results, task, (method, reference), goal, unit)
        for method in results.methods
        for task in results.tasks
        if method != reference
    ]
    return corrected([one for one in found if one is not None])


def against_store(results: Results, before: Results, goal: Goal, unit: Unit) -> list[Comparison]:
    """Every method in every task against itself in another store, paired by seed."""
    found = [
        compared(results, before, task, (method, method), goal, unit)
        for method in results.methods
        for task in results.tasks
    ]
    return corrected([one for one in found if one is not None])


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranks of methods over tasks, 1 is best: `ranks [tasks, methods]` and their `mean [methods]`.

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

    def rank(self, method: str) -> float | None:
        """The mean rank of a method; None if it is not ranked."""
        return float(self.mean[self.methods.index(method)]) if method in self.methods else None

    @property
    def groups(self) -> list[tuple[int, int]]:
        """The largest runs of methods, first and last, that are not told apart."""
        found: list[tuple[int, int]] = []
        for first in range(len(self.methods)):
            last = int(np.searchsorted(self.mean, self.mean[first] + self.difference, side="right")) - 1
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found


def ranking(results: Results, goal: Goal, unit: Unit) -> Ranking | None:
    """Methods that have runs in all tasks, ranked in each by what they spent on average (Demšar 2006).

    Methods with a generative model are left out; tasks that a method with fewer claims is not in, too. None if fewer
    than two methods or two tasks are left.
    """
    methods = [method for method in results.methods if is_fair(results, method)]
    means = {task: [results.summary(task, method, goal, unit) for method in methods] for task in results.tasks}
    able = [any(row[i] is not None for row in means.values()) for i in range(len(methods))]
    methods = [method for method, one in zip(methods, able, strict=True) if one]
    rows = {task: [found for found, one in zip(row, able, strict=True) if one] for task, row in means.items()}
    whole = {task: [one.mean.mean for one in row if one] for task, row in rows.items() if row and all(row)}
    if len(methods) < 2 or len(whole) < 2:
        return None
    ranks = np.array([stats.rankdata(row) for row in whole.values()])
    mean = ranks.mean(axis=0)
    order = np.argsort(mean, kind="stable")
    return Ranking(
        tuple(methods[i] for i in order),
        tuple(whole),
        ranks[:, order],
        mean[order],
        critical_difference(len(methods), len(whole)),
        float(stats.friedmanchisquare(*ranks.T).pvalue) if len(methods) > 2 else None,
    )


def critical_difference(methods: int, tasks: int, level: float = 0.05) -> float:
    """Nemenyi: `q·√(k(k+1)/6N)` for k methods and N tasks, `q` the studentized range over `√2`."""
    q = stats.studentized_range.ppf(1 - level, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * tasks)))


@dataclass(frozen=True)
class Calibration:
    """What a method claimed over all runs in which it could: how often it did, and how often that was wrong."""

    method: str
    able: int
    claimed: int
    broken: int

    @property
    def share(self) -> float:
        """The share of claims that were wrong."""
        return self.broken / self.claimed if self.claimed else 0.0


def calibration(results: Results) -> list[Calibration]:
    """Of every method that can claim anything."""
    found = []
    for method in results.methods:
        able = [run for run in results.runs if run.method == method and run.claims]
        if able:
            made = [run for run in able if run.broken is not None]
            found.append(Calibration(method, len(able), len(made), sum(bool(run.broken) for run in made)))
    return found


@dataclass(frozen=True)
class Overall:
    """A method over all tasks, in numbers: the first table.

    `ranks` are its mean ranks by samples and by answers to transfer, None if it is not ranked; `among_first` counts the
    tasks where it is first or within one standard error of first, of all it was in, by samples and by answers.
    `learnt` is the share of finished runs that reached the transfer goal, `seconds` what one took; None if none was
    finished. `failed` is how many were not.
    """

    method: str
    source: str
    access: str
    ranks: tuple[float | None, float | None]
    among_first: tuple[int, int]
    tasks: int
    learnt: float | None
    calibration: Calibration | None
    seconds: float | None
    failed: int = 0


def overall(results: Results) -> list[Overall]:
    """Every method, by its mean rank in samples to transfer; those that are not ranked come last."""
    rankings = [ranking(results, "transfer", unit) for unit in UNITS]
    claims = {one.method: one for one in calibration(results)}
    found = []
    for method in dict.fromkeys((*results.methods, *(one.method for one in results.errors))):
        runs = [run for run in results.runs if run.method == method]
        failed = [one for one in results.errors if one.method == method]
        every: list[Run | FailedRun] = [*runs, *failed]
        tasks = list(dict.fromkeys(one.task for one in every))
        by_samples, by_answers = (
            sum(
                one is not None and one.holds for one in (standing(results, t, method, "transfer", unit) for t in tasks)
            )
            for unit in UNITS
        )
        samples, answers = (one.rank(method) if one is not None else None for one in rankings)
        found.append(
            Overall(
                method,
                every[0].source,
                every[0].access,
                (samples, answers),
                (by_samples, by_answers),
                len(tasks),
                float(np.mean([run.transfer_samples is not None for run in runs])) if runs else None,
                claims.get(method),
                float(np.mean([run.seconds for run in runs])) if runs else None,
                len(failed),
            )
        )
    return sorted(found, key=lambda one: np.inf if one.ranks[0] is None else one.ranks[0])
