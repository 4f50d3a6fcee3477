"""The report on experiments: tables, curves, maps and verdicts, in a single file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from aceirl.bench import page
from aceirl.bench.experiments import (
    ExperimentResults,
    Verdict,
    efficiency,
    samples_needed,
    transfer_loss,
    verdicts,
)
from aceirl.bench.page import Gallery, TableCell, Written
from aceirl.bench.specs import Scenario, Spec, needs_generative_model
from aceirl.bench.statistics import Summary, best_of, mean_curve
from aceirl.bench.store import Store
from aceirl.bench.transfers import PLANS
from aceirl.envs import ENVIRONMENTS, make
from aceirl.explain import plots
from aceirl.explain.maps import visit_map
from aceirl.runs import files

REFERENCE = "random"  # what efficiency is measured against

Losses = list[tuple[str, list[tuple[str, Summary | None]]]]
"""What is planned with, in words, and what each strategy loses by that."""


@dataclass
class Section:
    """What the page shows of one spec: by scenario its table, what is lost elsewhere, and a map for each strategy."""

    spec: Spec
    rows: list[tuple[Scenario, list[TableCell]]] = field(default_factory=list)
    transfers: list[tuple[Scenario, Losses]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    panels: list[str] = field(default_factory=list)
    maps: list[tuple[Scenario, list[tuple[str, str]]]] = field(default_factory=list)
    errors: Sequence[tuple[Scenario, str, int, str]] = ()

    @property
    def cells(self) -> list[TableCell]:
        """Those of all rows."""
        return [cell for _, cells in self.rows for cell in cells]


def write_report(specs: Sequence[Spec], store: Store, out: Path, *, command: str, paper: bool = False) -> Written:
    """Write `report.html`, and every figure as SVG and PDF under `figures/`.

    With `paper` the specs are the paper's experiments: its numbers stand beside ours, and its claims are tested.
    """
    every = [ExperimentResults.read(spec, store) for spec in specs]
    with files.disk(out, "all runs are kept"):
        gallery = Gallery(out / "figures")
        sections = [_section(results, gallery, paper) for results in every]
        page.write(
            out / "report.html",
            sections=sections,
            paper=paper,
            times=_times(every),
            command=command,
            colour_of=plots.strategy_colour,
            generative=needs_generative_model,
            reference=REFERENCE,
            runs=sum(len(runs) for results in every for runs in results.runs.values()),
        )
    return Written(out / "report.html", [line for section in sections for line in _lines(section)])


def _section(results: ExperimentResults, gallery: Gallery, paper: bool) -> Section:
    spec = results.spec
    section = Section(spec, errors=results.errors)
    if any(scenario.transfer for scenario in spec.scenarios):
        section.transfers = _transfers(results)
        return section
    if spec.thresholds:
        section.panels = [_threshold_panel(results, scenario, gallery) for scenario in spec.scenarios]
        return section
    to_the_end = [scenario for scenario in spec.scenarios if scenario.choices.get("until_regret") is None]
    section.panels = [_curve_panel(results, scenario, gallery) for scenario in to_the_end]
    if spec.tabulated:
        tabulated = [scenario for scenario in spec.scenarios if not scenario.reward_free]
        section.rows = [(scenario, _row(results, scenario, paper)) for scenario in tabulated]
    section.verdicts = verdicts(results)
    section.maps = _maps(results, gallery)
    return section


def _transfers(results: ExperimentResults) -> list[tuple[Scenario, Losses]]:
    tables = []
    for scenario in results.spec.scenarios:
        runs = {strategy: results.of(scenario.name, strategy) for strategy in results.spec.strategies}
        rows = [
            (words, [(strategy, transfer_loss(found, plan)) for strategy, found in runs.items()])
            for plan, words in PLANS.items()
        ]
        rows = [(words, losses) for words, losses in rows if any(loss for _, loss in losses)]
        if rows:
            tables.append((scenario, rows))
    return tables


def _row(results: ExperimentResults, scenario: Scenario, paper: bool) -> list[TableCell]:
    """A cell for each strategy; the best are those without a generative model, if there is more than one."""
    threshold = results.spec.threshold
    published = results.spec.published.get(scenario.name, {}) if paper else {}
    runs = {strategy: results.of(scenario.name, strategy) for strategy in results.spec.strategies}
    needed = {strategy: samples_needed(found, threshold) for strategy, found in runs.items()}
    fair = {name: one for name, one in needed.items() if one is not None and not needs_generative_model(name)}
    best = best_of(fair)[1] if len(fair) > 1 else set()
    reference = results.of(scenario.name, REFERENCE)
    return [
        TableCell(
            strategy,
            spent,
            strategy in best,
            published.get(strategy),
            efficiency(runs[strategy], reference, threshold) if strategy != REFERENCE else None,
        )
        for strategy, spent in needed.items()
    ]


def _curve_panel(results: ExperimentResults, scenario: Scenario, gallery: Gallery) -> str:
    found = {strategy: results.of(scenario.name, strategy) for strategy in results.spec.strategies}
    curves = {name: mean_curve([(run.samples, run.regret) for run in runs]) for name, runs in found.items() if runs}
    return gallery.panel(
        f"{results.spec.name}-{scenario.name}",
        f"Mean regret over samples, {scenario.title}: {', '.join(curves)}",
        plots.regret_curves,
        curves,
        scenario.title,
        None if scenario.reward_free else results.spec.threshold,
        dashed=_dashed(results),
    )


def _threshold_panel(results: ExperimentResults, scenario: Scenario, gallery: Gallery) -> str:
    needed: dict[str, plots.Band] = {}
    for strategy in results.spec.strategies:
        runs = results.of(scenario.name, strategy)
        means = [(t, samples_needed(runs, t)) for t in results.spec.thresholds]
        known = [(t, one.mean, *one.interval) for t, one in means if one is not None and not one.censored]
        if known:
            x, mean, low, high = np.array(known).T
            needed[strategy] = x, mean, low, high
    return gallery.panel(
        f"{results.spec.name}-{scenario.name}",
        f"Samples to a regret, over regrets, {scenario.title}",
        plots.threshold_curves,
        needed,
        scenario.title,
        dashed=_dashed(results),
    )


def _dashed(results: ExperimentResults) -> list[str]:
    """The strategies that need not walk."""
    return [strategy for strategy in results.spec.strategies if needs_generative_model(strategy)]


def _maps(results: ExperimentResults, gallery: Gallery) -> list[tuple[Scenario, list[tuple[str, str]]]]:
    """One problem of each environment, that of the first seed in the first of its scenarios, through all strategies."""
    shown: dict[str, Scenario] = {}
    for scenario in results.spec.scenarios:
        if scenario.environment in ENVIRONMENTS:  # others number their states as they meet them, each run its own way
            shown.setdefault(scenario.environment, scenario)
    found = []
    for scenario in shown.values():
        maps = []
        problem = make(scenario.environment, results.spec.seeds[0], **scenario.parameters)
        mean_reward = problem.reward.mean(axis=(0, 2))
        goals = np.flatnonzero(mean_reward > 0.99).tolist()
        for strategy in results.spec.strategies:
            run = next((r for r in results.of(scenario.name, strategy) if r.cell.seed == results.spec.seeds[0]), None)
            if run is not None:
                figure = visit_map(problem.layout, run.visits, goals if len(goals) == 1 else [])
                name = f"{results.spec.name}-{scenario.name}-visits-{strategy}"
                maps.append((strategy, gallery.add(name, f"Where {strategy} looked, {scenario.title}", figure)))
        if maps:
            found.append((scenario, maps))
    return found


def _times(every: Sequence[ExperimentResults]) -> list[tuple[str, int, float, float, float]]:
    """Of each strategy the runs, their processor seconds, and milliseconds an iteration of planning and inferring."""
    by_strategy: dict[str, list[tuple[dict[str, float], int]]] = {}
    for results in every:
        for (_, strategy), runs in results.runs.items():
            found_here = [(run.seconds, len(run.samples)) for run in runs if run.seconds]
            by_strategy.setdefault(strategy, []).extend(found_here)
    found = []
    for strategy, timed in by_strategy.items():
        if timed:
            total, *parts = (sum(spent[part] for spent, _ in timed) for part in ("processor", "planning", "inferring"))
            planning, inferring = (1e3 * part / sum(n for _, n in timed) for part in parts)
            found.append((strategy, len(timed), total, planning, inferring))
    return found


def _lines(section: Section) -> list[str]:
    """The table and the verdicts, for a terminal."""
    tested = ["", *(_sentence(verdict) for verdict in section.verdicts)] if section.verdicts else []
    if section.transfers:
        return _transfer_lines(section)
    if not section.rows:
        return tested
    width = max(len(scenario.title) for scenario, _ in section.rows)
    names = [cell.name for cell in section.rows[0][1]]
    column = max(18, 2 + max(map(len, names)))
    counted = f"Samples until the regret is first below {section.spec.threshold:g}: mean ± standard error"
    if any(cell.spent and cell.spent.censored for cell in section.cells):
        counted += "; ≥: some runs never got there"
    lines = ["", section.spec.title, counted, " " * width + "".join(f"{name:>{column}}" for name in names)]
    for scenario, cells in section.rows:
        ours = [str(cell.spent) if cell.spent else "–" for cell in cells]
        lines.append(f"{scenario.title:{width}}" + "".join(f"{text:>{column}}" for text in ours))
        if any(cell.published for cell in cells):
            paper = [f"{one.published.mean:,} ± {one.published.error:,}" if one.published else "" for one in cells]
            lines.append(f"{'  published':{width}}" + "".join(f"{text:>{column}}" for text in paper))
    return [*lines, *tested, ""]


def _transfer_lines(section: Section) -> list[str]:
    """The losses elsewhere, for a terminal."""
    width = max(len(plan) for _, rows in section.transfers for plan, _ in rows) + 4
    lines = ["", section.spec.title, "Mean regret over all targets and seeds, with a 95 % interval"]
    heads = "".join(f"{strategy:>22}" for strategy, _ in section.transfers[0][1][0][1])
    for scenario, rows in section.transfers:
        lines += ["", f"{scenario.title:{width}}{heads}"]
        for plan, losses in rows:
            lines.append(f"{'  ' + plan:{width}}" + "".join(f"{_loss(loss):>22}" for _, loss in losses))
    return [*lines, ""]


def _loss(loss: Summary | None) -> str:
    return "–" if loss is None else "{:.3f} ({:.3f}–{:.3f})".format(loss.mean, *loss.interval)


def _sentence(verdict: Verdict) -> str:
    mark = "yes" if verdict.holds else "no "
    return f"{mark} p={verdict.adjusted:<8.2g} {verdict.claim} – {verdict.where}: {verdict.effect}"
