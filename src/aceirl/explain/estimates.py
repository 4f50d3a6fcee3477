"""Pictures of structural estimates: choices by state, and the demand for an action against a price."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from aceirl.explain.plots import INK, LINE, MARK, MUTED, RULE, titles
from aceirl.models.tabular.mdp import FloatArray


def demand_curve(
    prices: ArrayLike,
    demand: ArrayLike,
    intervals: ArrayLike,
    *,
    title: str,
    note: str,
    price: str,
    quantity: str,
    today: tuple[float, float] | None = None,
) -> Figure:
    """`demand [M]` against `prices [M]`, with a band of `intervals [M, 2]`; `today` is the point as estimated."""
    x, y, band = (np.asarray(values, dtype=np.float64) for values in (prices, demand, intervals))
    figure, axes = _figure(title, note)
    axes.fill_between(x, band[:, 0], band[:, 1], color=LINE, alpha=0.16, linewidth=0)
    axes.plot(x, y, color=LINE, linewidth=1.8)
    if today is not None:
        axes.plot(*today, "o", markersize=8, color="white", markeredgecolor=MARK, markeredgewidth=1.8)
        axes.annotate("as estimated", today, (9, 5), textcoords="offset points", color=MARK, fontsize=9)
    axes.set_xlim(float(x.min()), float(x.max()))
    axes.set_ylim(0, float(np.quantile(band[:, 1], 0.95)) * 1.05)
    axes.set_xlabel(price, color=MUTED, fontsize=9)
    axes.set_ylabel(quantity, color=MUTED, fontsize=9)
    return figure


def choice_curve(
    states: Sequence[object],
    probability: FloatArray,
    intervals: FloatArray,
    taken: FloatArray,
    asked: FloatArray,
    *,
    title: str,
    state: str,
) -> Figure:
    """The `probability [S]` of an action by state with `intervals [S, 2]`, and its recorded share, larger if of more.

    `taken [S]` of `asked [S]` decisions were the action.
    """
    figure, axes = _figure(title, "line and band: the estimated expert; dots: recorded shares, by number of decisions")
    numbers = all(isinstance(one, int | float) for one in states)
    x = np.array(states, dtype=np.float64) if numbers else np.arange(len(states), dtype=np.float64)
    axes.fill_between(x, intervals[:, 0], intervals[:, 1], color=LINE, alpha=0.16, linewidth=0)
    axes.plot(x, probability, color=LINE, linewidth=1.8)
    seen = asked > 0
    size = 4 + 60 * asked[seen] / max(1.0, float(asked.max()))
    axes.scatter(x[seen], taken[seen] / asked[seen], s=size, color=MARK, alpha=0.6, linewidths=0)
    if not numbers:
        axes.set_xticks(x, [str(one) for one in states], rotation=60 if len(states) > 8 else 0)
    shown = x[seen]
    axes.set_xlim(float(shown.min()) - 0.5, float(shown.max()) + 0.5)
    often = asked >= min(5.0, float(asked.max()))  # a share of very few decisions would set the scale
    top = max(float(intervals[seen, 1].max()), float((taken[often] / asked[often]).max()))
    axes.set_ylim(-0.02 * top, min(1.02, 1.1 * top))
    axes.set_xlabel(state, color=MUTED, fontsize=9)
    axes.set_ylabel("probability", color=MUTED, fontsize=9)
    return figure


def _figure(title: str, note: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 4.0), facecolor="white")
    axes = figure.add_axes((0.12, 0.135, 0.845, 0.655))
    titles(figure, title, note)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(RULE)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8.5, labelcolor=INK)
    return figure, axes
