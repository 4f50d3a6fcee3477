"""One run in pictures: curves and maps, and a page that holds them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aceirl.explain.learned import Learned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from aceirl.envs import Layout

MOST_SHARES = 12  # of the states whose answers mattered, if they are listed


def figures(found: Learned) -> dict[str, Figure]:
    """The pictures of a run by name: maps first, where states have a place, then curves."""
    return {**_maps(found), **_curves(found)}


def _curves(found: Learned) -> dict[str, Figure]:
    """What is promised and, where the truth is known, what is lost, over samples."""
    from aceirl.explain import plots

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


def _maps(found: Learned) -> dict[str, Figure]:
    """Visits, reward, policy and importance on a map; without one, the states whose answers mattered most as bars."""
    from aceirl.explain import maps, plots

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


def _reward(found: Learned, drawing: Layout) -> Figure:
    """What the reward pays where it explains the answers; else the table, as it is."""
    from aceirl.explain import maps

    turn, visited = found.turn, np.asarray(found.visits.any(axis=(0, 2)))
    if turn.explanation is None or turn.alternatives is None:
        return maps.reward(drawing, turn.belief.recovered.reward, visited)
    told, undetermined = turn.explanation, np.zeros_like(visited)
    undetermined[[s for s in turn.alternatives.undetermined if s not in told.goals]] = True
    # With a step cost, each step after the end is worth what each step before it costs.
    paid = told.paid + np.where(told.ends, told.step_cost, 0.0)[:, None]
    return maps.explained(drawing, paid, undetermined, told.step_cost)
