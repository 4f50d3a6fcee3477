"""Curves over samples and thresholds, and what all pictures have in common: colours, titles, numbers, files.

Every function returns a figure of its own and leaves matplotlib's global state alone, so that they may be called from
any thread, with or without a screen.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from aceirl.errors import InputError
from aceirl.models.tabular.mdp import BoolArray, FloatArray

INK, MUTED, RULE = "#1f2a33", "#66737d", "#cfd6db"
LINE, MARK = "#0072b2", "#d55e00"  # Okabe and Ito: told apart by all common kinds of colour vision

# Little is light, much is dark: even steps of lightness in Oklab, on a way from grey-green to blue-black.
RAMP = ["#e3efe4", "#b3dbd0", "#83c6c4", "#57adba", "#3693af", "#26779e", "#265c86", "#264369", "#212d49"]
COLOURS = LinearSegmentedColormap.from_list("aceirl", RAMP)

# One colour for each strategy, from the same palette; the reward-free ones have those of their kin.
STRATEGY_COLOURS = {
    "ace": "#0072b3",
    "ace-rf": "#0072b3",
    "greedy": "#e69f00",
    "rf-ucrl": "#e69f00",
    "random": "#7d868c",
    "uniform": "#56b4e9",
    "travel": "#009e73",
    "advice": "#d55e01",
    "guided": "#cc79a7",
}
OTHER_COLOURS = ("#332288", "#999933", "#882255", "#117733")
DASHES = (0, (3, 1.4))
WHY = "what a guess there instead of the expert's answer would cost, as a share of it all"


def learning_curve(samples: ArrayLike, regret: ArrayLike, threshold: float | None = None) -> Figure:
    """Normalised regret `[K]` over samples `[K]`; marks where it is first below the threshold, if it is."""
    x, y = _curve(samples, regret, "regret")
    figure, axes = _large_figure("Regret", "normalised: 0 is as good as can be, 1 is the worst there is")
    _draw_curve(axes, x, y)
    axes.set_ylim(-0.015, max(1.0, float(y.max())) * 1.04)
    if threshold is not None:
        _draw_target(figure, axes, x, y, y < threshold, threshold, f"below {threshold:g}")
    return figure


def bound_curve(samples: ArrayLike, bound: ArrayLike, epsilon: float | None = None) -> Figure:
    """The error bound `[K]` over samples `[K]`, on a logarithmic scale; marks where it first meets `epsilon`."""
    x, y = _curve(samples, bound, "bound")
    if not (y > 0).all():
        raise InputError(f"bound[{int(np.argmin(y > 0))}] is {y[np.argmin(y > 0)]}, which has no logarithm")
    figure, axes = _large_figure("Error bound", "what is promised, so far")
    _draw_curve(axes, x, y)
    axes.set_yscale("log")
    low = float(y.min()) if epsilon is None else min(float(y.min()), epsilon)
    axes.set_ylim(low / 1.6, float(y.max()) * 1.6)
    _log_ticks(axes.yaxis, float(y.max()) / low)
    if epsilon is not None:
        _draw_target(figure, axes, x, y, y <= epsilon, epsilon, f"at most {epsilon:g}")
    return figure


Band = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # samples, mean, low and high, each `[K]`


def regret_curves(
    curves: Mapping[str, Band],
    title: str,
    threshold: float | None = None,
    *,
    dashed: Collection[str] = (),
    legend: bool = True,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Mean regret over samples of several strategies, with bands; a small figure, made to stand beside others.

    With `colours`, those that have none are drawn thin, in the background, and are not in the legend.
    """
    figure, axes = _bands(curves, title, dashed, legend, colours)
    for name, (samples, mean, _, _) in curves.items():
        if len(samples) == 1 and (colours is None or name in colours):
            axes.plot(samples, mean, "o", color=_colour(name, colours), markersize=3)
    if threshold is not None:
        axes.axhline(threshold, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("regret", color=MUTED, fontsize=8)
    _samples_axis(axes)
    _legend(figure, axes, legend)
    return figure


def threshold_curves(
    needed: Mapping[str, Band],
    title: str,
    *,
    dashed: Collection[str] = (),
    legend: bool = True,
    colours: Mapping[str, str] | None = None,
    over: str = "regret to get below",
) -> Figure:
    """Samples until the regret is below a threshold, over thresholds; `needed` is by strategy, as for `regret_curves`.

    A strategy has no point where some of its runs never got there. What the samples are drawn `over` may be another
    quantity, such as a size.
    """
    figure, axes = _bands(needed, title, dashed, legend, colours, marker="o", markersize=2.6)
    axes.set_yscale("log")
    bottom, top = axes.get_ylim()
    _log_ticks(axes.yaxis, 10 * top / bottom)
    axes.set_ylabel("samples", color=MUTED, fontsize=8)
    axes.set_xlabel(over, color=MUTED, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    _legend(figure, axes, legend)
    return figure


def _bands(
    curves: Mapping[str, Band],
    title: str,
    dashed: Collection[str],
    legend: bool,
    colours: Mapping[str, str] | None,
    **marks: Any,
) -> tuple[Figure, Axes]:
    """A small figure with the curves that have a colour and their bands; the others thin, behind them."""
    figure, axes = _small_figure(title, legend)
    named = {name: band for name, band in curves.items() if colours is None or name in colours}
    for x, mean, _, _ in (band for name, band in curves.items() if name not in named):
        axes.plot(x, mean, color=RULE, linewidth=0.8)
    for name, (x, mean, low, high) in named.items():
        colour, style = _colour(name, colours), DASHES if name in dashed else "solid"
        axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(x, mean, color=colour, linewidth=_width(name), linestyle=style, label=name, **marks)
    return figure, axes


def _colour(name: str, colours: Mapping[str, str] | None) -> str:
    return strategy_colour(name) if colours is None else colours[name]


def bars(names: Sequence[str], values: ArrayLike, title: str, note: str, form: str = ".3g") -> Figure:
    """Bars for the `values [K]` of named things, the first at the top; `form` is how their numbers are written."""
    value = np.asarray(values, dtype=np.float64)
    height = 0.3 * max(1, len(names)) + 0.95
    figure = Figure(figsize=(7.2, height), facecolor="white")
    axes = figure.add_axes((0.5, 0.12 / height, 0.4, 0.3 * max(1, len(names)) / height))
    axes.barh(np.arange(len(names)), value, color=LINE, height=0.62)
    low, high = float(value.min(initial=0.0)), float(value.max(initial=0.0))
    axes.set(ylim=(max(1, len(names)) - 0.5, -0.5), xlim=(low, high if high > low else low + 1.0))
    axes.set_yticks(range(len(names)), [textwrap.shorten(name, 56, placeholder=" …") for name in names])
    axes.tick_params(axis="y", labelcolor=INK, labelsize=8)
    for row, size in enumerate(value):
        axes.text(max(size, 0.0), row, f" {size:{form}}", va="center", fontsize=8, color=MUTED)
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.tick_params(length=0)
    titles(figure, title, note)
    return figure


def strategy_colour(name: str) -> str:
    """The colour of a strategy; one that is not of the house gets one that depends on its name alone."""
    return STRATEGY_COLOURS.get(name) or OTHER_COLOURS[sum(name.encode()) % len(OTHER_COLOURS)]


def save(figure: Figure, path_stem: str | Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write the figure once for each format, next to each other; the same figure gives the same bytes."""
    stem = Path(path_stem)
    paths = [stem.with_name(f"{stem.name}.{form}") for form in formats]
    for path, form in zip(paths, formats, strict=True):
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
        with matplotlib.rc_context({"svg.hashsalt": "aceirl"}):
            figure.savefig(path, format=form, dpi=160, metadata=undated)
    return paths


def _large_figure(title: str, note: str) -> tuple[Figure, Axes]:
    """An empty figure for one curve over samples."""
    figure = Figure(figsize=(6.4, 4.0), facecolor="white")
    axes = figure.add_axes((0.105, 0.135, 0.86, 0.655))
    titles(figure, title, note)
    axes.set_xlabel("samples", color=MUTED, fontsize=9)
    _plain(axes, 0.6, 8.5)
    return figure, axes


def _small_figure(title: str, legend: bool) -> tuple[Figure, Axes]:
    """An empty figure for several curves, with room for a legend on the right if there shall be one."""
    width = 4.7 if legend else 3.6
    figure = Figure(figsize=(width, 2.6), facecolor="none")
    axes = figure.add_axes((0.46 / width, 0.17, 3.02 / width, 0.7))
    words = title.replace("N_E", "$N_E$")
    figure.text(0.08 / width, 0.985, words, fontsize=9.5, color=INK, va="top", fontweight="bold")
    axes.patch.set_visible(False)
    _plain(axes, 0.5, 8)
    return figure, axes


def _plain(axes: Axes, rule: float, size: float) -> None:
    """Nothing but a line at the bottom and thin ones across, `rule` wide, with labels of this size."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(RULE)
    axes.grid(axis="y", color=RULE, linewidth=rule)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=size, labelcolor=MUTED, which="both")


def _width(strategy: str) -> float:
    """`guided` begins as `advice` does: a wider line under it keeps both in sight."""
    return 3.0 if strategy == "advice" else 1.5


def _samples_axis(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("samples", color=MUTED, fontsize=8)
    low, high = axes.get_xlim()
    _log_ticks(axes.xaxis, 10 * high / low)


def _log_ticks(axis: Axis, ratio: float) -> None:
    """Ticks of a logarithmic axis whose ends have this ratio."""
    axis.set_major_locator(LogLocator(subs=steps(ratio)))
    axis.set_major_formatter(FuncFormatter(tick))
    axis.set_minor_formatter(NullFormatter())


def _legend(figure: Figure, axes: Axes, legend: bool) -> None:
    if legend and axes.get_legend_handles_labels()[0]:
        figure.legend(loc="center right", frameon=False, fontsize=8, labelcolor=INK, handlelength=1.6)


def titles(figure: Figure, title: str, note: str) -> None:
    """A title and what there is to know about the picture, at its top."""
    width, height = figure.get_size_inches()
    figure.text(0.3 / width, 1 - 0.2 / height, title, fontsize=13, color=INK, va="top", fontweight="bold")
    figure.text(0.3 / width, 1 - 0.47 / height, note, fontsize=9, color=MUTED, va="top")


def _draw_curve(axes: Axes, x: FloatArray, y: FloatArray) -> None:
    axes.plot(x, y, color=LINE, linewidth=1.8, marker="o" if x.size <= 30 else "", markersize=4)
    if x[0] > 0 and x[-1] / x[0] > 100:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(0, float(x[-1]) * 1.03 or 1)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(tick))


def _draw_target(
    figure: Figure, axes: Axes, x: FloatArray, y: FloatArray, met: BoolArray, target: float, words: str
) -> None:
    axes.axhline(target, color=MARK, linewidth=1.1, linestyle=(0, (5, 3)))
    text = f"not {words} yet"
    if met.any():
        first = int(np.argmax(met))
        text = f"{words} after {x[first]:,.0f} samples"
        axes.plot(x[first], y[first], "o", markersize=8, color="white", markeredgecolor=MARK, markeredgewidth=1.8)
    width, height = figure.get_size_inches()
    figure.text(1 - 0.22 / width, 1 - 0.23 / height, text, ha="right", va="top", color=MARK, fontsize=10)


def _curve(samples: ArrayLike, values: ArrayLike, name: str) -> tuple[FloatArray, FloatArray]:
    """Two `[K]` arrays, checked: finite, of one length, samples in order."""
    x, y = np.asarray(samples, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or x.shape != y.shape:
        raise InputError(
            f"samples and {name} must be of one length, at least 1; got {list(x.shape)} and {list(y.shape)}"
        )
    for label, array in (("samples", x), (name, y)):
        if not np.isfinite(array).all():
            raise InputError(f"{label}[{int(np.argmin(np.isfinite(array)))}] is not finite")
    if (np.diff(x) < 0).any():
        raise InputError(f"samples[{int(np.argmin(np.diff(x)) + 1)}] is smaller than the one before")
    return x, y


def steps(ratio: float) -> tuple[float, ...]:
    """Where a logarithmic axis has its ticks: at powers of ten, and between them if there are only a few."""
    return (1.0,) if ratio > 1000 else (1.0, 2.0, 5.0)


def tick(value: float, _: int | None) -> str:
    """What stands beside a tick."""
    return short(value)


def short(value: float) -> str:
    """A number in at most five characters or so: 12, 0.35, 4.2k, 17M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"
