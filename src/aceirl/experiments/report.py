"""One page that shows an experiment: tables, curves, maps and verdicts, in a single file that needs nothing else."""

from __future__ import annotations

import importlib.metadata
import io
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from aceirl import files
from aceirl.envs import ENVIRONMENTS, make
from aceirl.experiments.analysis import (
    Loss,
    Ratio,
    Results,
    Summary,
    Verdict,
    curve,
    efficiency,
    summary,
    transfer_loss,
    verdicts,
)
from aceirl.experiments.published import Published
from aceirl.experiments.specs import Scenario, Spec, needs_generative_model
from aceirl.experiments.store import Store
from aceirl.experiments.transfers import PLANS
from aceirl.show import plots
from aceirl.show.maps import visit_map

REFERENCE = "random"  # what efficiency is measured against
LIBRARIES = ("aceirl", "numpy", "numba", "scipy", "pyarrow", "matplotlib", "joblib")


@dataclass(frozen=True)
class Written:
    """A report on disk, and what it says in lines for a terminal."""

    path: Path
    lines: list[str]


@dataclass(frozen=True)
class Entry:
    """One cell of a table: ours, the paper's, and whether it is among the best without a generative model."""

    strategy: str
    ours: Summary | None
    published: Published | None = None
    ratio: Ratio | None = None
    best: bool = False


@dataclass(frozen=True)
class Row:
    """A scenario and its entries, one for each strategy."""

    scenario: Scenario
    entries: list[Entry]


@dataclass(frozen=True)
class TransferRow:
    """What a plan loses elsewhere, in words and for each strategy."""

    scenario: Scenario
    plan: str
    losses: list[tuple[str, Loss | None]]


@dataclass(frozen=True)
class Map:
    """Where one strategy looked, as a picture."""

    strategy: str
    svg: str


@dataclass
class Section:
    """What the page shows of one spec."""

    spec: Spec
    rows: list[Row] = field(default_factory=list)
    transfers: list[TransferRow] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    panels: list[str] = field(default_factory=list)
    maps: list[tuple[Scenario, list[Map]]] = field(default_factory=list)
    errors: list[tuple[Scenario, str, int, str]] = field(default_factory=list)

    @property
    def transfer_tables(self) -> list[tuple[Scenario, list[TransferRow]]]:
        """What is lost elsewhere, a table for each scenario."""
        return [
            (scenario, rows)
            for scenario in self.spec.scenarios
            if (rows := [row for row in self.transfers if row.scenario is scenario])
        ]

    @property
    def published(self) -> bool:
        """Whether the paper has numbers for this."""
        return any(entry.published for row in self.rows for entry in row.entries)


@dataclass(frozen=True)
class Times:
    """How long the runs of a strategy took: processor seconds in all and per run, milliseconds per iteration."""

    strategy: str
    runs: int
    total: float
    per_run: float
    planning: float
    inferring: float


def write_report(specs: Sequence[Spec], store: Store, out: Path, *, command: str, paper: bool = False) -> Written:
    """Write `report.html`, and every figure as SVG and PDF under `figures/`.

    With `paper` the specs are the paper's experiments: its numbers stand beside ours, and its claims are tested.
    """
    from jinja2 import Environment, PackageLoader, select_autoescape

    every = [Results.read(spec, store) for spec in specs]
    with files.disk(out, "all runs are kept"):
        gallery = Gallery(out / "figures")
        sections = [_section(results, gallery, paper) for results in every]
        page = (
            Environment(
                loader=PackageLoader("aceirl.experiments"),
                autoescape=select_autoescape(),
                trim_blocks=True,
                lstrip_blocks=True,
            )
            .get_template("report.html")
            .render(
                sections=sections,
                paper=paper,
                times=_times(every),
                versions=versions(),
                command=command,
                colours=page_colours(),
                colour_of=plots.strategy_colour,
                ramp=plots.RAMP,
                generative=needs_generative_model,
                reference=REFERENCE,
                runs=sum(len(runs) for results in every for runs in results.runs.values()),
            )
        )
        path = out / "report.html"
        files.replace(path, page.encode())
    return Written(path, [line for section in sections for line in _lines(section)])


class Gallery:
    """Figures, each saved to a folder and handed back as a piece of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, label: str, saved: Figure, shown: Figure | None = None) -> str:
        """Save a figure as SVG and PDF; the inline SVG is that of `shown`, if the page needs another."""
        name = re.sub(r"[^\w.-]+", "-", name)  # a scenario's name may have spaces; ids and file names must not
        self.folder.mkdir(parents=True, exist_ok=True)
        plots.save(saved, self.folder / name, formats=("svg", "pdf"))
        return inline_svg(shown or saved, name, label)


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """A figure as SVG to put into a page: as wide as its place, in the page's font and colours, with ids of its own."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()[buffer.getvalue().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', _opening(label), svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--font)", svg)
    for colour, variable in _variables().items():
        svg = svg.replace(colour, f"var(--{variable})")
    return re.sub(r"\n\s*", "\n", svg)


def _opening(label: str) -> str:
    quoted = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\\", "")
    return rf'<svg viewBox="\1" role="img" aria-label="{quoted}">'


def _variables() -> dict[str, str]:
    """Colours of the figures that the page sets itself, so that they suit a light and a dark screen."""
    fixed = {plots.INK: "ink", plots.MUTED: "muted", plots.RULE: "rule", plots.MARK: "mark"}
    ramp = {colour: f"heat-{step}" for step, colour in enumerate(plots.RAMP)}
    strategies = {colour: f"s{colour[1:]}" for colour in page_colours()}
    return fixed | ramp | strategies


def page_colours() -> dict[str, str]:
    """Every colour that may stand for a strategy, and a brighter one for a dark screen."""
    every = [*plots.STRATEGY_COLOURS.values(), *plots.OTHER_COLOURS]
    return {colour: _brighter(colour) for colour in every}


def _brighter(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{channel + (255 - channel) * 3 // 10:02x}" for channel in (red, green, blue))


def _section(results: Results, gallery: Gallery, paper: bool) -> Section:
    spec = results.spec
    section = Section(spec, errors=list(results.errors))
    if any(scenario.transfer for scenario in spec.scenarios):
        section.transfers = _transfer_rows(results)
        return section
    if spec.thresholds:
        section.panels = _threshold_panels(results, gallery)
        return section
    to_the_end = [scenario for scenario in spec.scenarios if scenario.choices.get("until_regret") is None]
    section.panels = [_curve_panel(results, scenario, gallery) for scenario in to_the_end]
    if spec.tabulated:
        section.rows = [_row(results, scenario, paper) for scenario in spec.scenarios if not scenario.reward_free]
    section.verdicts = verdicts(results)
    section.maps = _maps(results, gallery)
    return section


def _transfer_rows(results: Results) -> list[TransferRow]:
    """One for each scenario and whatever was planned with."""
    rows = []
    for scenario in results.spec.scenarios:
        for plan, words in PLANS.items():
            runs = {strategy: results.of(scenario.name, strategy) for strategy in results.spec.strategies}
            losses = [(strategy, transfer_loss(found, plan)) for strategy, found in runs.items()]
            if any(loss for _, loss in losses):
                rows.append(TransferRow(scenario, words, losses))
    return rows


def _row(results: Results, scenario: Scenario, paper: bool) -> Row:
    threshold = results.spec.threshold
    published = results.spec.published.get(scenario.name, {}) if paper else {}
    reference = results.of(scenario.name, REFERENCE)
    entries = []
    for strategy in results.spec.strategies:
        runs = results.of(scenario.name, strategy)
        ratio = efficiency(runs, reference, threshold) if strategy != REFERENCE else None
        entries.append(Entry(strategy, summary(runs, threshold), published.get(strategy), ratio))
    return Row(scenario, _marked(entries))


def _marked(entries: list[Entry]) -> list[Entry]:
    """The paper's rule for bold type: the best without a generative model, and all within its standard error."""
    rivals = {
        entry.strategy: entry.ours for entry in entries if entry.ours and not needs_generative_model(entry.strategy)
    }
    if len(rivals) < 2:
        return entries
    best = min(rivals.values(), key=lambda ours: ours.mean)
    among_best = {strategy for strategy, ours in rivals.items() if ours.mean <= best.mean + best.error}
    return [replace(entry, best=entry.strategy in among_best) for entry in entries]


def _curve_panel(results: Results, scenario: Scenario, gallery: Gallery) -> str:
    curves: dict[str, plots.Band] = {}
    for strategy in results.spec.strategies:
        found = curve(results.of(scenario.name, strategy))
        if found is not None:
            curves[strategy] = (found.samples, found.mean, found.low, found.high)
    threshold = None if scenario.reward_free else results.spec.threshold
    title, name = scenario.title, f"{results.spec.name}-{scenario.name}"
    label = f"Mean regret over samples, {title}: {', '.join(curves)}"
    return gallery.add(
        name,
        label,
        plots.regret_curves(curves, title, threshold, dashed=_dashed(results)),
        plots.regret_curves(curves, title, threshold, dashed=_dashed(results), legend=False),
    )


def _threshold_panels(results: Results, gallery: Gallery) -> list[str]:
    panels = []
    for scenario in results.spec.scenarios:
        needed: dict[str, plots.Band] = {}
        for strategy in results.spec.strategies:
            runs = results.of(scenario.name, strategy)
            means = [(t, summary(runs, t)) for t in results.spec.thresholds]
            known = [(t, found) for t, found in means if found is not None and not found.censored]
            if known:
                needed[strategy] = (
                    np.array([t for t, _ in known]),
                    np.array([found.mean for _, found in known]),
                    np.array([found.low for _, found in known]),
                    np.array([found.high for _, found in known]),
                )
        label = f"Samples to a regret, over regrets, {scenario.title}"
        panels.append(
            gallery.add(
                f"{results.spec.name}-{scenario.name}",
                label,
                plots.threshold_curves(needed, scenario.title, dashed=_dashed(results)),
                plots.threshold_curves(needed, scenario.title, dashed=_dashed(results), legend=False),
            )
        )
    return panels


def _dashed(results: Results) -> list[str]:
    """The strategies that need not walk."""
    return [strategy for strategy in results.spec.strategies if needs_generative_model(strategy)]


def _maps(results: Results, gallery: Gallery) -> list[tuple[Scenario, list[Map]]]:
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
                maps.append(Map(strategy, gallery.add(name, f"Where {strategy} looked, {scenario.title}", figure)))
        if maps:
            found.append((scenario, maps))
    return found


def _times(every: Sequence[Results]) -> list[Times]:
    by_strategy: dict[str, list[tuple[Mapping[str, float], int]]] = {}
    for results in every:
        for (_, strategy), runs in results.runs.items():
            timed = [(run.seconds, len(run.samples)) for run in runs if run.seconds]
            by_strategy.setdefault(strategy, []).extend(timed)
    return [_time(strategy, timed) for strategy, timed in by_strategy.items() if timed]


def _time(strategy: str, timed: Sequence[tuple[Mapping[str, float], int]]) -> Times:
    iterations = sum(n for _, n in timed)
    sums = {part: sum(seconds[part] for seconds, _ in timed) for part in ("processor", "planning", "inferring")}
    return Times(
        strategy=strategy,
        runs=len(timed),
        total=sums["processor"],
        per_run=sums["processor"] / len(timed),
        planning=1e3 * sums["planning"] / iterations,
        inferring=1e3 * sums["inferring"] / iterations,
    )


def versions() -> dict[str, str]:
    """What the runs were done with."""
    found = {"Python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    found["cores"] = str(os.cpu_count())
    return found | {name: importlib.metadata.version(name) for name in LIBRARIES}


def _lines(section: Section) -> list[str]:
    """The table and the verdicts, for a terminal."""
    tested = ["", *(_sentence(verdict) for verdict in section.verdicts)] if section.verdicts else []
    if section.transfers:
        return _transfer_lines(section)
    if not section.rows:
        return tested
    width = max(len(row.scenario.title) for row in section.rows)
    names = [entry.strategy for entry in section.rows[0].entries]
    column = max(18, 2 + max(map(len, names)))
    counted = f"Samples until the regret is first below {section.spec.threshold:g}: mean ± standard error"
    if any(entry.ours and entry.ours.censored for row in section.rows for entry in row.entries):
        counted += "; ≥: some runs never got there"
    lines = ["", section.spec.title, counted, " " * width + "".join(f"{name:>{column}}" for name in names)]
    for row in section.rows:
        ours = [str(entry.ours) if entry.ours else "–" for entry in row.entries]
        lines.append(f"{row.scenario.title:{width}}" + "".join(f"{text:>{column}}" for text in ours))
        if any(entry.published for entry in row.entries):
            paper = [f"{e.published.mean:,} ± {e.published.error:,}" if e.published else "" for e in row.entries]
            lines.append(f"{'  published':{width}}" + "".join(f"{text:>{column}}" for text in paper))
    return [*lines, *tested, ""]


def _transfer_lines(section: Section) -> list[str]:
    """The losses elsewhere, for a terminal."""
    width = max(len(row.plan) for row in section.transfers) + 4
    lines = ["", section.spec.title, "Mean regret over all targets and seeds, with a 95 % interval"]
    heads = "".join(f"{strategy:>22}" for strategy, _ in section.transfers[0].losses)
    for scenario, rows in section.transfer_tables:
        lines += ["", f"{scenario.title:{width}}{heads}"]
        for row in rows:
            lines.append(f"{'  ' + row.plan:{width}}" + "".join(f"{loss or '–'!s:>22}" for _, loss in row.losses))
    return [*lines, ""]


def _sentence(verdict: Verdict) -> str:
    mark = "yes" if verdict.holds else "no "
    return f"{mark} p={verdict.adjusted:<8.2g} {verdict.claim} – {verdict.where}: {verdict.effect}"
