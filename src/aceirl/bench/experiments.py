"""What the runs of an experiment say: samples to a threshold, losses elsewhere, and tests of what is claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aceirl.bench.specs import Cell, PaperClaim, Scenario, Spec, Term
from aceirl.bench.statistics import Ratio, Significance, Summary, corrected, sign_flip_test
from aceirl.bench.store import Store
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.models.tabular.metrics import samples_to_threshold


@dataclass(frozen=True, eq=False)
class RunResult:
    """A finished run: `samples [K]` and `regret [K]`, one entry an iteration; `visits [S]`, observations by state.

    In a transfer run an entry stands for a plan and a target, which `labels [K]` name.
    """

    cell: Cell
    samples: IntArray
    regret: FloatArray
    visits: IntArray
    seconds: dict[str, float]
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, cell: Cell, store: Store) -> RunResult | None:
        """What the store has of a run; None if it is not finished."""
        labels = ("plan", "target") if cell.transfer else ()
        found = store.table(cell, ("samples", "regret", "visits", *labels))
        if found is None:
            return None
        table, seconds = found
        return cls(
            cell=cell,
            samples=table["samples"].to_numpy(),
            regret=table["regret"].to_numpy(),
            visits=np.asarray(table["visits"][-1].as_py(), dtype=np.int64),
            seconds=seconds,
            labels=tuple(zip(*(table[name].to_pylist() for name in labels), strict=True)),
        )


@dataclass(frozen=True, eq=False)
class ExperimentResults:
    """All finished runs of a spec, by scenario and strategy, and what went wrong with the others."""

    spec: Spec
    runs: Mapping[tuple[str, str], Sequence[RunResult]]
    errors: Sequence[tuple[Scenario, str, int, str]]

    @classmethod
    def read(cls, spec: Spec, store: Store) -> ExperimentResults:
        """What the store has of an experiment."""
        runs: dict[tuple[str, str], list[RunResult]] = {}
        errors = []
        for scenario, strategy, cell in spec.placed:
            found = runs.setdefault((scenario.name, strategy), [])
            run = RunResult.read(cell, store)
            if run is not None:
                found.append(run)
            elif (error := store.error(cell)) is not None:
                errors.append((scenario, strategy, cell.seed, error))
        return cls(spec, runs, errors)

    def of(self, scenario: str, strategy: str) -> Sequence[RunResult]:
        """The finished runs of one strategy in one scenario, by seed."""
        return self.runs.get((scenario, strategy), ())


def samples_needed(runs: Sequence[RunResult], threshold: float) -> Summary | None:
    """When the regret was first below the threshold, or all that a run spent; None if there are no runs."""
    if not runs:
        return None
    reached = [samples_to_threshold(run.samples.tolist(), run.regret.tolist(), threshold) for run in runs]
    return Summary(np.array([float(one.samples) for one in reached]), np.array([one.censored for one in reached]))


def transfer_loss(runs: Sequence[RunResult], plan: str, target: str | None = None) -> Summary | None:
    """The regret of a plan in a target, or on average over all; None if no run says."""
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
    return Summary(means, np.zeros(len(means), dtype=np.bool_)) if len(means) else None


def efficiency(runs: Sequence[RunResult], reference: Sequence[RunResult], threshold: float) -> Ratio | None:
    """The ratio of the means over the seeds both have: above one if these need fewer samples.

    A seed draws the same problem for every strategy.
    """
    by_seed = {run.cell.seed: run for run in reference}
    own = samples_needed([run for run in runs if run.cell.seed in by_seed], threshold)
    other = samples_needed([by_seed[run.cell.seed] for run in runs if run.cell.seed in by_seed], threshold)
    if own is None or other is None:
        return None
    return Ratio.of(own, other)


@dataclass(frozen=True)
class Verdict(Significance):
    """A claim of the paper put to the test: the measured effect, in words, and how likely chance alone does as much."""

    claim: str
    where: str
    effect: str


def verdicts(results: ExperimentResults) -> list[Verdict]:
    """Every claim of the experiment that the finished runs allow to test, with Holm's correction within a claim.

    Seeds are pairs: each draws one problem for all strategies. Samples are compared by their logarithms, and a run that
    never got there counts with its budget, which makes its side look better than it is; reward-free runs are compared
    by their mean regret.
    """
    every = []
    for claim in results.spec.claims:
        found = []
        for case in _cases(claim, results.spec.scenarios):
            for contrast in claim.contrasts:
                differences = _differences(results, contrast.terms, case)
                if len(differences) > 1:
                    mean = float(differences.mean())
                    size = mean if claim.reward_free else float(np.exp(mean))
                    where, effect = contrast.where.format(**case), contrast.effect.format(size=size, **case)
                    found.append(Verdict(claim.text, where, effect, p_value=sign_flip_test(differences)))
        every += corrected(found)
    return every


Case = Mapping[str, Scenario]  # by role


def _cases(claim: PaperClaim, scenarios: Sequence[Scenario]) -> list[Case]:
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


def _differences(results: ExperimentResults, terms: Sequence[Term], case: Case) -> FloatArray:
    """`Σ sign·value` over the terms, for each seed that has all of them."""
    columns = [(term.sign, _values(results, case[term.scenario], term.strategy)) for term in terms]
    seeds = sorted(set.intersection(*(set(column) for _, column in columns)))
    return np.array([sum(sign * column[seed] for sign, column in columns) for seed in seeds])


def _values(results: ExperimentResults, scenario: Scenario, strategy: str) -> dict[int, float]:
    """What a claim compares of each run, by seed: the mean regret if reward-free, else the logarithm of samples."""
    runs = results.of(scenario.name, strategy)
    if scenario.reward_free:
        return {run.cell.seed: float(run.regret.mean()) for run in runs}
    needed = samples_needed(runs, results.spec.threshold)
    logs = () if needed is None else np.log(needed.amounts).tolist()
    return {run.cell.seed: log for run, log in zip(runs, logs, strict=True)}
