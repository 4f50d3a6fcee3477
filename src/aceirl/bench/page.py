"""What all pages share: one template and style, figures as inline SVG that suit a light and a dark screen."""

from __future__ import annotations

import importlib.metadata
import io
import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from aceirl.bench.specs import Published
from aceirl.bench.statistics import Ratio, Summary
from aceirl.explain import plots
from aceirl.runs import files

LIBRARIES = ("aceirl", "numpy", "numba", "scipy", "pyarrow", "matplotlib", "joblib")


@dataclass(frozen=True)
class Written:
    """A report on disk, and what it says in lines for a terminal."""

    path: Path
    lines: list[str]


@dataclass(frozen=True)
class TableCell:
    """What a strategy or method spent, whether it is among the best without a generative model, and what is beside it.

    `published` is the paper's number, `ratio` that to a reference.
    """

    name: str
    spent: Summary | None
    best: bool = False
    published: Published | None = None
    ratio: Ratio | None = None


def filled(template: str, **values: Any) -> str:
    """A template with its values."""
    from jinja2 import Environment, PackageLoader, select_autoescape

    environment = Environment(
        loader=PackageLoader("aceirl.bench"), autoescape=select_autoescape(), trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(**values)


def write(path: Path, **values: Any) -> None:
    """Fill the template of the page's name, and put the page there whole."""
    page = filled(path.name, **values, versions=versions(), colours=page_colours(), ramp=plots.RAMP)
    files.replace(path, page.encode())


def versions() -> dict[str, str]:
    """What the runs were done with."""
    found = {"Python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    found["cores"] = str(os.cpu_count())
    return found | {name: importlib.metadata.version(name) for name in LIBRARIES}


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

    def panel(self, name: str, label: str, drawn: Callable[..., Figure], *values: Any, **options: Any) -> str:
        """Curves, saved with their legend and shown without: the page has one for all."""
        saved, shown = (drawn(*values, **options, legend=legend) for legend in (True, False))
        return self.add(name, label, saved, shown)


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
