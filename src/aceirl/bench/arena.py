"""The arena: who competes where, what each method spent to get there, who is first, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aceirl.bench.measure import REGRET, ArenaCell
from aceirl.bench.methods import GENERATIVE, METHODS, Method, methods_of
from aceirl.bench.statistics import Ranking, Significance, Summary, best_of, corrected, signed_rank
from aceirl.bench.store import Store
from aceirl.bench.tasks import EXPERTS, SCALING, TASKS, ArenaTask, tasks_of
from aceirl.errors import InputError
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.runs import files

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
class Entries:
    """Every method in every task, from seeds `0 … seeds-1`."""

    methods: tuple[Method, ...]
    tasks: tuple[ArenaTask, ...]
    seeds: int

    @cached_property
    def cells(self) -> list[ArenaCell]:
        """All runs, seed by seed: whatever is finished early says something about every task."""
        places = product(range(self.seeds), self.tasks, self.methods)
        return [ArenaCell.of(task, method, seed) for seed, task, method in places]

    @property
    def left_out(self) -> list[str]:
        """What there is and does not compete here, a sentence each."""
        names = {method.name for method in self.methods}
        keys = {task.key for task in self.tasks}
        said = {
            "methods": [name for name in METHODS if name not in names],
            "tasks": [name for name in TASKS if name not in keys],
            "sizes, which `--tasks scaling` adds": [name for name in SCALING if name not in keys],
            "experts": [
                f"{name} with the expert {expert}"
                for name, task in TASKS.items()
                for expert in EXPERTS[1:]
                if task.with_expert(expert).key not in keys
            ],
        }
        return [f"{what}: {', '.join(names)}" for what, names in said.items() if names]


def entries_of(methods: str | None, tasks: str | None, experts: str | None, seeds: int) -> Entries:
    """What the options of the command name; by default every method of the package in every task."""
    chosen = list(METHODS.values()) if methods is None else methods_of(methods)
    return Entries(tuple(chosen), tuple(tasks_of(tasks, experts)), seeds)


@dataclass(frozen=True)
class ArenaRun:
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

    @classmethod
    def of(cls, cell: ArenaCell, columns: Mapping[str, Any], seconds: float) -> ArenaRun:
        """From the columns of the run's table, each `[K]`."""
        # The last batch of a budget is finished: what is beyond it by less than an episode still counts.
        budget = int(np.searchsorted(columns["samples"], cell.task.budget + columns["horizon"][0]))
        certified, claimed = columns["certified"], columns["claimed"].astype(np.float64)
        reached = {
            "transfer": learnt_at(columns["samples"][:budget], columns["transfer_regret"][:budget]),
            "policy": learnt_at(columns["samples"][:budget], columns["policy_regret"][:budget]),
            "certificate": int(certified.argmax()) if certified.any() else None,
        }
        numbers: dict[str, Any] = {name: int(columns[name][-1]) for name in ("states", "actions", "horizon")}
        for unit in UNITS:
            numbers[unit], numbers[f"all_{unit}"] = int(columns[unit][budget - 1]), int(columns[unit][-1])
            for goal, index in reached.items():
                numbers[f"{goal}_{unit}"] = None if index is None else int(columns[unit][index])
        broken = (columns["lost"] > claimed + ROUNDING)[certified.argmax() :].any() if certified.any() else None
        return cls(
            **_named(cell),
            family=cell.task.family,
            expert=cell.task.expert,
            **numbers,
            claims=bool(np.isfinite(claimed).any()),
            broken=None if broken is None else bool(broken),
            seconds=seconds,
        )


def _named(cell: ArenaCell) -> dict[str, Any]:
    """What names a run."""
    method = cell.entry
    return {
        "task": cell.task.key,
        "method": method.name,
        "source": method.source,
        "access": method.access,
        "seed": cell.seed,
    }


def learnt_at(samples: IntArray, regret: FloatArray) -> int | None:
    """The first index from which `regret [K]` is at most `REGRET` until `samples [K]` have doubled, or the run is over.

    A regret that falls and rises again is luck.
    """
    for index in np.flatnonzero(regret <= REGRET).tolist():
        if (regret[index : np.searchsorted(samples, 2 * samples[index], side="right")] <= REGRET).all():
            return index
    return None


@dataclass(frozen=True)
class FailedRun:
    """A run that did not come to its end, and why."""

    task: str
    method: str
    source: str
    access: str
    seed: int
    error: str


_ARROW = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_(), "float": pa.float64()}
SCHEMA = pa.schema([(one.name, _ARROW[str(one.type).removesuffix(" | None")]) for one in fields(ArenaRun)])

Series = tuple[IntArray, FloatArray, FloatArray]
"""Of one run: samples, policy regret and transfer regret, each `[K]`."""


@dataclass(frozen=True, eq=False)
class ArenaResults:
    """All finished runs, and what went wrong with the others.

    `series` are the measurements of the runs, by task and method.
    """

    runs: tuple[ArenaRun, ...]
    errors: tuple[FailedRun, ...] = ()
    series: Mapping[tuple[str, str], Sequence[Series]] = field(default_factory=dict)

    @classmethod
    def read(cls, cells: Sequence[ArenaCell], store: Store) -> ArenaResults:
        """What the store has of these runs."""
        runs: list[ArenaRun] = []
        errors: list[FailedRun] = []
        series: dict[tuple[str, str], list[Series]] = {}
        for cell in cells:
            found = store.table(cell)
            if found is not None:
                columns = {name: found[0][name].to_numpy() for name in found[0].column_names}
                runs.append(ArenaRun.of(cell, columns, found[1]["processor"]))
                measured = columns["samples"], columns["policy_regret"], columns["transfer_regret"]
                series.setdefault(cell.place, []).append(measured)
            elif (error := store.error(cell)) is not None:
                errors.append(FailedRun(**_named(cell), error=error))
        return cls(tuple(runs), tuple(errors), series)

    def write(self, folder: Path) -> None:
        """One Parquet file with a row for each run."""
        buffer = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist([asdict(run) for run in self.runs], schema=SCHEMA), buffer)
        files.replace(folder / RESULTS, buffer.getvalue().to_pybytes())

    @classmethod
    def of_store(cls, path: Path) -> ArenaResults:
        """What another arena wrote: its folder, or the file in it."""
        file = path if path.is_file() else path / RESULTS
        if not file.is_file():
            raise InputError(f"{path} has no result of an arena, {file}; give the --out of an earlier arena")
        try:
            rows = pq.read_table(file, schema=SCHEMA).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{file} cannot be read as the result of an arena: {error}") from None
        return cls(tuple(ArenaRun(**row) for row in rows))

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks, in the order of the runs."""
        return list(dict.fromkeys(run.task for run in self.runs))

    @cached_property
    def methods(self) -> list[str]:
        """The methods, in the order of the runs."""
        return list(dict.fromkeys(run.method for run in self.runs))

    @cached_property
    def walking(self) -> list[str]:
        """Those that walk from the start as the others do; a generative model is put wherever it likes."""
        return [method for method in self.methods if self.is_fair(method)]

    @cached_property
    def access(self) -> dict[str, str]:
        """What each method needs."""
        every: list[ArenaRun | FailedRun] = [*self.errors, *self.runs]
        return {one.method: one.access for one in every}

    def is_fair(self, method: str) -> bool:
        """Whether a method has no generative model."""
        return self.access[method] != GENERATIVE

    @cached_property
    def by_place(self) -> dict[tuple[str, str], dict[int, ArenaRun]]:
        """The runs by task and method, then by seed."""
        found: dict[tuple[str, str], dict[int, ArenaRun]] = {}
        for run in self.runs:
            found.setdefault((run.task, run.method), {})[run.seed] = run
        return found

    def of(self, task: str, method: str) -> dict[int, ArenaRun]:
        """The runs of a method in a task, by seed."""
        return self.by_place.get((task, method), {})

    def summary(self, task: str, method: str, goal: Goal, unit: Unit) -> Summary | None:
        """What a method spent in a task; None if it has no run there, or cannot claim what the goal is about."""
        key = task, method, goal, unit
        if key not in self._summaries:
            runs = [run for run in self.of(task, method).values() if goal != "certificate" or run.claims]
            self._summaries[key] = self.spent(runs, goal, unit) if runs else None
        return self._summaries[key]

    def summaries(self, task: str, methods: Sequence[str], goal: Goal, unit: Unit) -> dict[str, Summary]:
        """Those of several methods, as far as there are any."""
        found = {method: self.summary(task, method, goal, unit) for method in methods}
        return {method: one for method, one in found.items() if one is not None}

    def spent(self, runs: Sequence[ArenaRun], goal: Goal, unit: Unit) -> Summary:
        """What runs took to reach a goal or, if they did not, the task's `most`."""
        took = [run.took(goal, unit) for run in runs]
        most = [self.most[run.task, goal == "certificate", unit] for run in runs]
        amounts = [float(late if one is None else one) for late, one in zip(most, took, strict=True)]
        return Summary(np.array(amounts), np.array([one is None for one in took]))

    @cached_property
    def _summaries(self) -> dict[tuple[str, str, Goal, Unit], Summary | None]:
        return {}

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


@dataclass(frozen=True)
class Standing:
    """How a method stands in a task: the first method, its mean and standard error, and the method's own mean.

    It `holds` if the method got there at all, and is first or within one standard error of the first.
    """

    task: str
    unit: Unit
    first: str
    best: Summary
    own: Summary
    holds: bool


def standing(results: ArenaResults, task: str, method: str, goal: Goal, unit: Unit) -> Standing | None:
    """Against all methods with no more access than to episodes; None if the method has no run there."""
    found = results.summaries(task, [*results.walking, method], goal, unit)
    if method not in found:
        return None
    first, among = best_of(found)
    own = found[method]
    return Standing(task, unit, first, found[first], own, own.reached and method in among)


@dataclass(frozen=True)
class PairedComparison(Significance):
    """Two series of runs, paired by task and seed: how many times as much the first spent, and how likely by chance.

    `ratio` is that of the geometric means; `p_value` that of Wilcoxon's signed-rank test of the logarithms, two-sided.
    A run that did not get there counts with the most that any of the task spent.
    """

    task: str
    method: str
    pairs: int
    ratio: float
    censored: int = 0

    @property
    def differs(self) -> bool:
        """Whether the difference is more than chance, at the 5 % level."""
        return self.holds and not self.too_few

    @property
    def too_few(self) -> bool:
        """Whether there are too few pairs for the test to find anything."""
        return self.pairs < LEAST_PAIRS


def compared(
    one: ArenaResults, other: ArenaResults, task: str, methods: tuple[str, str], goal: Goal, unit: Unit
) -> PairedComparison | None:
    """A method's runs in a task against another's, there or in another store.

    None if fewer than two seeds are in both, or the goal is out of reach of either.
    """
    mine_by_seed, theirs_by_seed = one.of(task, methods[0]), other.of(task, methods[1])
    seeds = [seed for seed in mine_by_seed if seed in theirs_by_seed]
    sides = [[runs[seed] for seed in seeds] for runs in (mine_by_seed, theirs_by_seed)]
    able = goal != "certificate" or all(run.claims for runs in sides for run in runs)
    if len(seeds) < 2 or not able:
        return None
    mine, theirs = one.spent(sides[0], goal, unit), other.spent(sides[1], goal, unit)
    differences = np.log(np.maximum(mine.amounts, 1)) - np.log(np.maximum(theirs.amounts, 1))
    return PairedComparison(
        task,
        methods[0],
        len(seeds),
        float(np.exp(differences.mean())),
        mine.censored + theirs.censored,
        p_value=signed_rank(differences),
    )


def against(
    results: ArenaResults, goal: Goal, unit: Unit, before: ArenaResults | None = None
) -> list[PairedComparison]:
    """Every other method in every task against the reference or, if there is another store, each against itself there.

    All tests of a goal are corrected together.
    """
    found = [
        compared(results, before or results, task, (method, method if before else REFERENCE), goal, unit)
        for method in results.methods
        for task in results.tasks
        if before or method != REFERENCE
    ]
    return corrected([one for one in found if one is not None])


def ranking(results: ArenaResults, goal: Goal, unit: Unit) -> Ranking | None:
    """Methods that have runs in all tasks, ranked in each by what they spent on average.

    Methods with a generative model are left out; tasks that a method with fewer claims is not in, too. None if fewer
    than two methods or two tasks are left.
    """
    found = {task: results.summaries(task, results.walking, goal, unit) for task in results.tasks}
    methods = [method for method in results.walking if any(method in row for row in found.values())]
    means = {
        task: [row[method].mean for method in methods] for task, row in found.items() if len(row) == len(methods) > 0
    }
    return Ranking.of(methods, means) if min(len(methods), len(means)) >= 2 else None


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


def calibration(results: ArenaResults) -> list[Calibration]:
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
    ranks: tuple[float | None, ...]
    among_first: tuple[int, ...]
    tasks: int
    learnt: float | None
    calibration: Calibration | None
    seconds: float | None
    failed: int = 0


def overall(results: ArenaResults) -> list[Overall]:
    """Every method, by its mean rank in samples to transfer; those that are not ranked come last."""
    rankings = [ranking(results, "transfer", unit) for unit in UNITS]
    claims = {one.method: one for one in calibration(results)}
    found = []
    for method in dict.fromkeys((*results.methods, *(one.method for one in results.errors))):
        runs = [run for run in results.runs if run.method == method]
        failed = [one for one in results.errors if one.method == method]
        every: list[ArenaRun | FailedRun] = [*runs, *failed]
        tasks = list(dict.fromkeys(one.task for one in every))
        standings = [[standing(results, task, method, "transfer", unit) for task in tasks] for unit in UNITS]
        found.append(
            Overall(
                method,
                every[0].source,
                every[0].access,
                tuple(None if one is None else one.named.get(method) for one in rankings),
                tuple(sum(one is not None and one.holds for one in row) for row in standings),
                len(tasks),
                float(np.mean([run.transfer_samples is not None for run in runs])) if runs else None,
                claims.get(method),
                float(np.mean([run.seconds for run in runs])) if runs else None,
                len(failed),
            )
        )
    return sorted(found, key=lambda one: np.inf if one.ranks[0] is None else one.ranks[0])
