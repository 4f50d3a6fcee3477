"""The report and the commands: one page that needs nothing else, and one clear line for what is wrong."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PatchCollection
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from aceirl.bench.page import inline_svg
from aceirl.bench.paper import SPECS
from aceirl.bench.report import write_report
from aceirl.bench.specs import Scenario, Spec
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, Progress, sweep
from aceirl.bench.work import Failed, Finished
from aceirl.cli import app
from aceirl.cli.watching import LiveDisplay, Remaining, status
from aceirl.envs import make
from aceirl.errors import InputError
from aceirl.explain import maps, plots

TOML = """\
title = "A <small> & quick look"
description = "Two rooms."
strategies = ["uniform", "random", "advice"]
seeds = 2
threshold = 0.3

[settings]
irl = "feasible-point"
max_samples = 60

[[scenario]]
environment = "gridworld"

[[scenario]]
environment = "four-paths"
episodes_per_iteration = [1, 2]
until_regret = 0.3

[[scenario]]
environment = "gridworld"
name = "a room/of five"
parameters = { size = 5 }
"""


class Page(HTMLParser):
    """The tags and texts of a page; complains about tags that do not close in order."""

    VOID = ("meta", "link", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A sweep of one's own, done by the command."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "mine.toml").write_text(TOML)
    done = CliRunner().invoke(app, ["sweep", str(folder / "mine.toml"), "--out", str(folder / "out"), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    return folder / "out", done.output


def test_the_page_needs_nothing_else_and_says_what_was_found(swept: tuple[Path, str]) -> None:
    out, output = swept
    text = (out / "report.html").read_text()
    page = Page(text)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert "url(" not in re.sub(r"url\(#", "", text)
    assert "A <small> & quick look" in page.words
    assert "aceirl" in page.words
    assert "prefers-color-scheme: dark" in text
    assert len(page.ids) == len(set(page.ids))
    assert "24 runs done, 0 kept from before, 0 failed" in output
    assert re.search(r"four-paths, N_E = 2 +≥ 80 ± 0", output)


def test_the_report_of_ones_own_sweep_speaks_of_that_sweep(swept: tuple[Path, str]) -> None:
    out, output = swept
    text = (out / "report.html").read_text()
    words = " ".join(Page(text).words.split())
    assert "<h1>A &lt;small&gt; &amp; quick look</h1>" in text
    assert "Two rooms." in words
    assert "paper" not in words.lower()
    assert (
        "The table counts the samples until the normalised regret is first below 0.3: the mean over 2 seeds ±" in words
    )
    assert "≥ marks a mean in which some runs never got there" in words
    assert "Samples until the regret is first below 0.3: mean ± standard error; ≥: some runs never got there" in output
    assert "Of each environment only the first scenario is drawn." in words
    assert 'data-name="planning, an iteration"' in text


def test_every_figure_is_also_there_as_svg_and_pdf(swept: tuple[Path, str]) -> None:
    figures = swept[0] / "figures"
    names = {path.stem for path in figures.iterdir()}
    assert "mine-gridworld" in names
    assert "mine-gridworld-visits-advice" in names
    assert "mine-a-room-of-five" in names
    for name in names:
        assert (figures / f"{name}.svg").read_text().startswith("<?xml")
        assert (figures / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_same_command_again_keeps_all_and_writes_the_same_figures(swept: tuple[Path, str]) -> None:
    out, _ = swept
    before = {path.name: path.read_bytes() for path in (out / "figures").iterdir()}
    done = CliRunner().invoke(app, ["sweep", str(out.parent / "mine.toml"), "--out", str(out), "--jobs", "1"])
    assert "0 runs done, 24 kept from before" in done.output
    assert {path.name: path.read_bytes() for path in (out / "figures").iterdir()} == before


def test_a_failed_run_is_in_the_report(tmp_path: Path) -> None:
    scenario = Scenario(name="room", title="Room", environment="gridworld", choices={"max_samples": 20})
    spec = Spec(name="one", title="One", summary="one", scenarios=(scenario,), strategies=("random",), seeds=(0, 1))
    store = Store(tmp_path / "runs")
    list(sweep([scenario.cell("random", 0)], store, Here()))
    lost = scenario.cell("random", 1)
    store.save(Failed(lost, lost.key, "RuntimeError: the lamp <went> out"))
    written = write_report([spec], store, tmp_path, command="aceirl sweep one.toml")
    words = Page(written.path.read_text()).words
    assert "RuntimeError: the lamp <went> out" in words
    assert "aceirl sweep one.toml" in words


def test_published_numbers_stand_beside_ours(tmp_path: Path) -> None:
    table1 = SPECS["table1"]
    quick = [scenario for scenario in table1.scenarios if scenario.name.startswith(("random-mdp", "gridworld"))]
    spec = table1.model_copy(update={"scenarios": tuple(quick), "strategies": ("random", "greedy"), "seeds": (0, 1)})
    store = Store(tmp_path / "runs")
    list(sweep(spec.cells(), store, Here()))
    written = write_report([spec], store, tmp_path, command="", paper=True)
    assert "paper 45 ± 2" in " ".join(Page(written.path.read_text()).words.split())
    assert any("published" in line and "22 ± 1" in line for line in written.lines)
    mine = write_report([spec.model_copy(update={"summary": "mine"})], store, tmp_path, command="")
    assert "paper" not in Page(mine.path.read_text()).words.lower()
    assert not any("published" in line for line in mine.lines)


def test_what_is_reward_free_has_curves_and_no_row(tmp_path: Path) -> None:
    room = Scenario(name="room", title="Room", environment="gridworld", choices={"max_samples": 20})
    free = room.model_copy(update={"name": "free", "title": "Free room", "reward_free": True})
    spec = Spec(name="one", title="One", summary="one", scenarios=(room, free), strategies=("random",), seeds=(0, 1))
    store = Store(tmp_path / "runs")
    list(sweep(spec.cells(), store, Here()))
    written = write_report([spec], store, tmp_path, command="")
    assert "In Free room the expert plays no part" in written.path.read_text()
    assert any(line.startswith("Room ") for line in written.lines)
    assert not any(line.startswith("Free room") for line in written.lines)


def test_every_picture_on_the_page_of_a_run_is_a_link_to_its_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["run", "gridworld", "--max-samples", "20", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, ["show", str(tmp_path / "run")]).exit_code == 0
    text = (tmp_path / "run" / "report.html").read_text()
    links = re.findall(r'<a href="([^"]*)"', text)
    assert len(links) == text.count("<img") > 0
    assert all(re.fullmatch(r"pictures/[\w-]+\.svg", link) and (tmp_path / "run" / link).is_file() for link in links)


def test_colours_of_the_page_replace_those_of_the_figure() -> None:
    ones = np.ones(2)
    curves = {name: (10 * np.arange(1, 3.0), ones, ones, ones) for name in plots.STRATEGY_COLOURS}
    svg = inline_svg(plots.regret_curves(curves, "N_E", 0.4), "a-name", 'say "yes" \\1')
    assert not set(re.findall(r"#[0-9a-f]{6}", svg)) & set(plots.STRATEGY_COLOURS.values())
    assert plots.INK not in svg
    assert 'aria-label="say &quot;yes&quot; 1"' in svg
    assert all(name.startswith("a-name-") for name in re.findall(r'id="([^"]*)"', svg))


def test_maps_show_shares_and_refuse_other_shapes() -> None:
    problem = make("gridworld", 0)
    figure = maps.visit_map(problem.layout, [0, 1, 9, 90, 900, 9000, 0, 0, 0], goals=[7])
    cells, rings = figure.artists
    assert isinstance(cells, PatchCollection)
    assert isinstance(rings, PatchCollection)
    assert (len(cells.get_paths()), len(rings.get_paths())) == (9, 1)
    assert len(np.unique(cells.get_facecolor(), axis=0)) == 6
    ringed = rings.get_paths()[0].vertices
    assert_array_equal(ringed, cells.get_paths()[7].vertices)
    with pytest.raises(InputError, match=r"visits must have shape \[9\], got \[4\]"):
        maps.visit_map(problem.layout, [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ('"random"', '"rnadom"'),
            r"mine.toml, line 3, strategies: unknown strategy 'rnadom'; did you mean 'random'\?",
        ),
        (("seeds = 2", "seeds = "), r"mine.toml is not TOML: .*line 4"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    (tmp_path / "mine.toml").write_text(TOML.replace(*change))
    done = CliRunner().invoke(app, ["sweep", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert re.fullmatch(rf"aceirl: .*{told}.*", done.stderr.strip())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--out", "{file}/x"], r"aceirl: cannot write to .*: Not a directory; finished runs are kept.*"),
        (["--cluster", "here"], r"aceirl: --cluster must be `local` or an address such as tcp://host:8786, got 'here'"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path: Path, options: list[str], told: str) -> None:
    (tmp_path / "file").write_text("")
    options = [option.format(file=tmp_path / "file") for option in options]
    done = CliRunner().invoke(app, ["reproduce", "table1", *options])
    assert done.exit_code == 2
    assert re.fullmatch(told, done.stderr.strip())


def test_experiments_are_listed_with_all_their_strategies() -> None:
    output = CliRunner().invoke(app, ["experiments"], env={"COLUMNS": "200"}).output
    assert all(name in output for name in SPECS)
    assert "3,150" in output


def test_the_expected_end_comes_from_runs_of_the_same_kind() -> None:
    scenario = Scenario(name="room", title="Room", environment="gridworld", choices={"max_samples": 20})
    cells = [scenario.cell(strategy, seed) for seed in range(3) for strategy in ("random", "advice")]
    remaining = Remaining(cells)
    progress = Progress(total=6, kept=0, running=2)
    remaining.learn(progress)
    assert remaining.seconds(progress) is None
    for number, (cell, seconds) in enumerate(zip(cells[:2], (10.0, 1.0), strict=True), start=1):
        outcome = Finished(cell, cell.key, b"", {"total": seconds}, samples=20, stopped="budget")
        progress = Progress(total=6, kept=0, finished=number, running=2, outcome=outcome)
        remaining.learn(progress)
    assert remaining.seconds(progress) == (2 * 10 + 2 * 1) / 2
    assert re.fullmatch(
        r"2 of 6 runs · 2 running · 0 failed · about 11 s left, until \d\d:\d\d", status(progress, remaining)
    )


def test_a_terminal_shows_four_pictures_a_second_and_always_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(name="room", title="Room", environment="gridworld", choices={"max_samples": 20})
    display = LiveDisplay(Remaining([scenario.cell("random", 0)]))
    clock = itertools.count(100.0, 0.0625)  # sixteen runs a second
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    drawn: list[bool] = []
    monkeypatch.setattr(display.live, "update", lambda _, refresh: drawn.append(refresh))
    pictures = []
    for done in range(11):
        display.show(Progress(total=10, kept=0, finished=done))
        pictures.append(len(drawn))
    assert pictures == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4]
    assert all(drawn)
