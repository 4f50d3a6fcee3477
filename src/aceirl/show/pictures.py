"""One run in pictures: curves and maps, and a page that holds them all."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aceirl.files import replace
from aceirl.runs import Run
from aceirl.show.opened import OpenedRun, opened
from aceirl.show.words import sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from aceirl.envs import Layout

MOST_SHARES = 12  # of the states whose answers mattered, if they are listed


def draw(run: Run, found: OpenedRun | None = None) -> list[Path]:
    """The pictures of a run and a page that holds them all, in the run's own folder.

    A run that is open already, `found`, is not opened again.
    """
    if found is None:
        with opened(run) as found:
            return draw(run, found)
    from aceirl.show import plots

    folder = run.path / "pictures"
    folder.mkdir(exist_ok=True)
    drawn = figures(found).items()
    written = [path for name, figure in drawn for path in plots.save(figure, folder / name)]
    return [_page(run, found, [path for path in written if path.suffix == ".svg"]), *written]


def figures(found: OpenedRun) -> dict[str, Figure]:
    """The pictures of a run by name: maps first, where states have a place, then curves."""
    return {**_maps(found), **_curves(found)}


def _curves(found: OpenedRun) -> dict[str, Figure]:
    """What is promised and, where the truth is known, what is lost, over samples."""
    from aceirl.show import plots

    settings, records = found.turn.settings, found.records
    samples, asked = [record.samples for record in records], settings.certify
    promised = [record.certificates[asked.name] if asked else record.bound for record in records]
    epsilon = settings.target(found.turn.counts.shape[0]).epsilon
    # The scale is logarithmic: what is certain altogether is drawn far below what was asked.
    figures = {"bound": plots.bound_curve(samples, np.maximum(promised, epsilon / 100), epsilon)}
    if measured := [(record.samples, record.regret) for record in records if record.regret is not None]:
        when, regret = zip(*measured, strict=True)
        figures["learning"] = plots.learning_curve(when, regret, settings.until_regret)
    return figures


def _maps(found: OpenedRun) -> dict[str, Figure]:
    """Visits, reward, policy and importance on a map; without one, the states whose answers mattered most as bars."""
    from aceirl.show import maps, plots

    drawing = found.layout
    if drawing is not None:
        turn, answered = found.turn, found.answered
        return {
            "reward": _reward(found, drawing),
            "visits": maps.visits(drawing, found.visits),
            "policy": maps.policy(drawing, np.eye(drawing.n_actions)[turn.policy], answered),
            "why-here": maps.importance(drawing, found.importance, answered.any(axis=0)),
        }
    if most := found.most_important(MOST_SHARES):
        return {"why-here": plots.shares([found.names[s] for s in most], found.importance[most])}
    return {}


def _reward(found: OpenedRun, drawing: Layout) -> Figure:
    """What the reward pays where it explains the answers; else the table, as it is."""
    from aceirl.show import maps

    turn, visited = found.turn, np.asarray(found.visits.any(axis=(0, 2)))
    if turn.explanation is None or turn.alternatives is None:
        return maps.reward(drawing, turn.belief.recovered.reward, visited)
    told, undetermined = turn.explanation, np.zeros_like(visited)
    undetermined[[s for s in turn.alternatives.undetermined if s not in told.goals]] = True
    # To a hurried expert, each step after the end is worth what each step before it costs.
    paid = told.paid + np.where(told.ends, told.hurry, 0.0)[:, None]
    return maps.explained(drawing, paid, undetermined, told.hurry)


def _page(run: Run, found: OpenedRun, pictures: list[Path]) -> Path:
    from jinja2 import Environment, PackageLoader

    template = Environment(loader=PackageLoader("aceirl.show"), autoescape=True).get_template("run.html")
    images = {path.stem: base64.b64encode(path.read_bytes()).decode() for path in pictures}
    page = run.path / "report.html"
    replace(page, template.render(title=run.path.name, words=sentences(found), images=images).encode())
    return page
