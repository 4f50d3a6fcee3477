"""Pictures: curves over samples, and visits, rewards and policies drawn on the environment's own shape.

Every function returns a figure of its own and leaves matplotlib's global state alone, so that they may be called from
any thread, with or without a screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Patch, Polygon, Rectangle
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from aceirl.envs.problem import Layout
from aceirl.errors import InputError
from aceirl.mdp import BoolArray, FloatArray, check_policy, check_reward

INK, MUTED, RULE = "#1f2a33", "#66737d", "#cfd6db"
LINE, MARK = "#0072b2", "#d55e00"  # Okabe and Ito: told apart by all common kinds of colour vision

# Little is light, much is dark: even steps of lightness in Oklab, on a way from grey-green to blue-black.
RAMP = ["#e3efe4", "#b3dbd0", "#83c6c4", "#57adba", "#3693af", "#26779e", "#265c86", "#264369", "#212d49"]
COLOURS = LinearSegmentedColormap.from_list("aceirl", RAMP)

# What keeps a name legible on a cell of many colours.
PLATE: dict[str, object] = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}

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
WITH_GENERATIVE_MODEL = ("uniform", "travel")  # dashed: they do not have to walk

CELL = 0.88  # of the unit distance between neighbours, so that cells do not touch


def learning_curve(samples: ArrayLike, regret: ArrayLike, threshold: float | None = None) -> Figure:
    """Normalised regret `[K]` over samples `[K]`; marks where it is first below the threshold, if it is."""
    x, y = _curve(samples, regret, "regret")
    figure, axes = _paper("Regret", "normalised: 0 is as good as the expert, 1 is the worst there is")
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
    figure, axes = _paper("Error bound", "what is promised about the recovered reward, so far")
    _draw_curve(axes, x, y)
    axes.set_yscale("log")
    low = float(y.min()) if epsilon is None else min(float(y.min()), epsilon)
    axes.set_ylim(low / 1.6, float(y.max()) * 1.6)
    axes.yaxis.set_major_locator(LogLocator(subs=_steps(float(y.max()) / low)))
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    axes.yaxis.set_minor_formatter(NullFormatter())
    if epsilon is not None:
        _draw_target(figure, axes, x, y, y <= epsilon, epsilon, f"at most {epsilon:g}")
    return figure


Band = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # samples, mean, low and high, each `[K]`


def regret_curves(
    curves: Mapping[str, Band], title: str, threshold: float | None = None, *, legend: bool = True
) -> Figure:
    """Mean regret over samples of several strategies, with bands; a small sheet, made to stand beside others."""
    figure, axes = _sheet(title, legend)
    for name, (samples, mean, low, high) in curves.items():
        colour, dashes = strategy_colour(name), (0, (3, 1.4)) if name in WITH_GENERATIVE_MODEL else "solid"
        axes.fill_between(samples, low, high, color=colour, alpha=0.16, linewidth=0)
        # `guided` begins as `advice` does: a wider line under it keeps both in sight.
        width = 3.0 if name == "advice" else 1.5
        axes.plot(samples, mean, color=colour, linewidth=width, linestyle=dashes, label=name)
        if len(samples) == 1:
            axes.plot(samples, mean, "o", color=colour, markersize=3)
    if threshold is not None:
        axes.axhline(threshold, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("regret", color=MUTED, fontsize=8)
    _samples_axis(axes)
    _key(figure, axes, legend)
    return figure


def threshold_curves(needed: Mapping[str, Band], title: str, *, legend: bool = True) -> Figure:
    """Samples until the regret is below a threshold, over thresholds; `needed` is by strategy, as for `regret_curves`.

    A strategy has no point where some of its runs never got there.
    """
    figure, axes = _sheet(title, legend)
    for name, (thresholds, mean, low, high) in needed.items():
        colour, dashes = strategy_colour(name), (0, (3, 1.4)) if name in WITH_GENERATIVE_MODEL else "solid"
        axes.fill_between(thresholds, low, high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(
            thresholds, mean, color=colour, linewidth=1.5, linestyle=dashes, marker="o", markersize=2.6, label=name
        )
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("samples", color=MUTED, fontsize=8)
    axes.set_xlabel("regret to get below", color=MUTED, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    _key(figure, axes, legend)
    return figure


def looks(layout: Layout, visits: ArrayLike, goals: Sequence[int] = ()) -> Figure:
    """Where a strategy looked: each state's share of `visits [S]`, in nine steps from 0.03 % to 30 %.

    States never seen are empty. `goals` are ringed. No title and no scale: made to stand beside others like it.
    """
    seen = np.asarray(visits, dtype=np.float64)
    if seen.shape != (layout.n_states,):
        raise InputError(f"visits must have shape [{layout.n_states}], got {list(seen.shape)}")
    share = seen / max(1.0, float(seen.sum()))
    low, high = layout.positions.min(axis=0) - 0.55, layout.positions.max(axis=0) + 0.55
    columns, rows = high - low
    inch = min(0.42, 3.2 / columns, 2.0 / rows)
    figure = Figure(figsize=(columns * inch, rows * inch), facecolor="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.axis("off")
    for s, (x, y) in enumerate(layout.positions):
        step = int(np.clip(np.round((np.log10(max(share[s], 1e-9)) + 3.5) / 3 * 8), 0, 8))
        colour = RAMP[step] if share[s] > 0 else "none"
        axes.add_patch(_blob(layout, x, y, facecolor=colour, edgecolor=RULE, linewidth=0.5))
        if s in goals:
            axes.add_patch(_blob(layout, x, y, facecolor="none", edgecolor=MARK, linewidth=1.4))
    return figure


def strategy_colour(name: str) -> str:
    """The colour of a strategy; one that is not of the house gets one that depends on its name alone."""
    return STRATEGY_COLOURS.get(name) or OTHER_COLOURS[sum(name.encode()) % len(OTHER_COLOURS)]


def visits(layout: Layout, visits: ArrayLike) -> Figure:
    """How often each state was visited: `visits [H, S, A]` summed over steps and actions, on a logarithmic scale."""
    total = _array(layout, visits, "visits").sum(axis=(0, 2))
    if (total < 0).any():
        raise InputError(f"visits of state {int(np.argmin(total))} sum to {total.min()}, which is negative")
    seen = total[total > 0]
    high = float(seen.max()) if seen.size else 1.0
    low = min(float(seen.min()), high / 10) if seen.size else 0.1
    unseen = "" if seen.size == total.size else "; white: never"
    picture = _Picture(layout, "Visits", "all steps and actions together" + unseen)
    picture.scale(LogNorm(low, high), "visits", LogLocator(subs=_steps(high / low)))
    for s, value in enumerate(total):
        picture.cell(s, picture.colour(value) if value > 0 else "white")
        picture.name(s)
        picture.value(s, _short(value))
    return picture.figure


def reward(layout: Layout, reward: ArrayLike, visited: ArrayLike | None = None) -> Figure:
    """The mean over steps of `reward [H, S, A]`, one part of the cell for each action.

    Where every action points somewhere, its part lies on that side of the cell; otherwise the parts are stripes. A
    state that is not `visited [S]`, whose reward rests on nothing, is hatched.
    """
    seen = np.ones(layout.n_states, dtype=np.bool_) if visited is None else np.asarray(visited, dtype=np.bool_)
    if seen.shape != (layout.n_states,):
        raise InputError(f"visited must have shape [{layout.n_states}], got {list(seen.shape)}")
    mean = _array(layout, reward, "reward").mean(axis=0)
    wedges = _all_directed(layout)
    same = np.ptp(mean, axis=1) <= 1e-9
    order = "the side of a cell is its action" if wedges else f"stripes: {_span(layout.action_names)}, left to right"
    note = "mean over steps" + ("" if same.all() else f"; {order}") + ("" if seen.all() else "; hatched: never visited")
    picture = _Picture(layout, "Reward", note)
    shown = mean[seen] if seen.any() else np.zeros(1)
    low, high = float(shown.min()), float(shown.max())
    picture.scale(Normalize(low, high if high > low else low + 1), "reward", MaxNLocator(5, steps=[1, 2, 5, 10]))
    for s, values in enumerate(mean):
        if not seen[s]:
            picture.unknown(s)
            continue
        colours = [picture.colour(value) for value in values]
        if same[s]:
            picture.cell(s, colours[0])
            picture.name(s)
            picture.value(s, _short(values[0]))
        else:
            picture.parts(s, _wedges(layout) if wedges else _stripes(layout.n_actions), colours)
            if picture.large:
                picture.name(s)
    return picture.figure


def policy(layout: Layout, policy: ArrayLike, known: ArrayLike | None = None) -> Figure:
    """The likeliest action of each state at the first step of `policy [H, S, A]`, and how much later steps agree.

    With `known [H, S]`, only steps at which the expert is known count, and a state without any is hatched. The first
    step, because an action there still has the time to matter; near the end most of them are as good as any other.
    """
    table = check_policy(policy, _shape(layout, policy, "policy"))
    counts = np.ones(table.shape[:2], dtype=np.bool_) if known is None else np.asarray(known, dtype=np.bool_)
    if counts.shape != table.shape[:2]:
        raise InputError(f"known must have shape {list(table.shape[:2])}, got {list(counts.shape)}")
    note = "action at the first step" if known is None else "action at the first step where the expert is known"
    picture = _Picture(layout, "Policy", note if counts.any(axis=0).all() else f"{note}; hatched: never")
    picture.scale(Normalize(0, 1), "share of steps with that action", MaxNLocator(5))
    for s in range(layout.n_states):
        steps = table[counts[:, s], s]
        if not len(steps):
            picture.unknown(s)
            continue
        action = int(steps[0].argmax())
        picture.cell(s, picture.colour(steps[:, action].mean()))
        picture.action(s, action)
        if picture.large:
            picture.name(s)
    return picture.figure


def save(figure: Figure, path_stem: str | Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write the figure once for each format, next to each other; the same figure gives the same bytes."""
    stem = Path(path_stem)
    paths = [stem.with_name(f"{stem.name}.{form}") for form in formats]
    for path, form in zip(paths, formats, strict=True):
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
        with matplotlib.rc_context({"svg.hashsalt": "aceirl"}):
            figure.savefig(path, format=form, dpi=160, metadata=undated)
    return paths


class _Picture:
    """A figure with the cells of a layout, measured in inches so that the text around them never changes their size."""

    ink: str
    plate: dict[str, object] | None

    def __init__(self, layout: Layout, title: str, note: str) -> None:
        self.layout = layout
        low, high = layout.positions.min(axis=0) - 0.5, layout.positions.max(axis=0) + 0.5
        columns, rows = high - low
        self.inch = min(0.95, 11 / columns, 6.6 / rows)
        self.large = self.inch >= 0.7
        self.wide = columns > 2.5 * rows
        width, height = columns * self.inch, rows * self.inch
        self.upright = not self.wide and layout.kind != "arms"
        right, bottom = (1.15 if self.upright else 0.3), (0.75 if self.wide else 0.3)
        full = max(width + 0.3 + right, 5.2)
        self.size = (full, height + bottom + 0.85)
        self.figure = Figure(figsize=self.size, facecolor="white")
        self.box = (0.3 + (full - 0.3 - right - width) / 2, bottom, width, height)
        self.axes = self._inches(*self.box)
        self.axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        self.axes.axis("off")
        _titles(self.figure, title, note)

    def _inches(self, left: float, bottom: float, width: float, height: float) -> Axes:
        full, tall = self.size
        return self.figure.add_axes((left / full, bottom / tall, width / full, height / tall))

    def scale(self, norm: Normalize, label: str, ticks: Locator) -> None:
        """The colour bar: under a wide picture, in the empty corner between two arms, else on the right."""
        self.norm = norm
        left, bottom, width, height = self.box
        if self.wide:
            length = min(width, 3.2)
            place = self._inches(left + (width - length) / 2, bottom - 0.24, length, 0.11)
        elif self.layout.kind == "arms":
            place = self._inches(left + 0.6 * width, bottom + 0.8 * height, 0.36 * width, 0.11)
        else:
            length = min(height, 2.6)
            place = self._inches(left + width + 0.2, bottom + (height - length) / 2, 0.11, length)
        bar = self.figure.colorbar(
            ScalarMappable(norm, COLOURS),
            cax=place,
            orientation="vertical" if self.upright else "horizontal",
            ticks=ticks,
            format=FuncFormatter(_tick),
        )
        bar.outline.set_visible(False)
        bar.set_label(label, color=MUTED, fontsize=8.5)
        bar.ax.tick_params(length=0, labelsize=8, labelcolor=MUTED, which="both")
        bar.ax.minorticks_off()

    def colour(self, value: float) -> tuple[float, float, float]:
        red, green, blue, _ = COLOURS(float(self.norm(value)))
        return red, green, blue

    def outline(self, s: int) -> Patch:
        x, y = self.layout.positions[s]
        if self.layout.kind == "ring":
            return Circle((x, y), CELL / 2)
        style = "round,pad=0,rounding_size=0.13"
        return FancyBboxPatch((x - CELL / 2, y - CELL / 2), CELL, CELL, boxstyle=style)

    def unknown(self, s: int) -> None:
        """A cell of which there is nothing to show."""
        self.cell(s, "white").set(hatch="/" * 5, edgecolor="#aab3ba")

    def cell(self, s: int, colour: str | tuple[float, float, float]) -> Patch:
        """Fill a cell; the colour is remembered, for whatever is written on it."""
        patch = self.outline(s)
        patch.set(facecolor=colour, edgecolor=RULE, linewidth=0.6)
        self.ink, self.plate = ("white" if _lightness(colour) < 0.45 else INK), None
        self.axes.add_patch(patch)
        return patch

    def parts(self, s: int, polygons: list[FloatArray], colours: list[tuple[float, float, float]]) -> None:
        """Fill a cell with polygons, given on the unit square around its middle."""
        frame = self.cell(s, "none")
        for polygon, colour in zip(polygons, colours, strict=True):
            part = Polygon(self.layout.positions[s] + CELL * polygon, facecolor=colour, edgecolor=colour, linewidth=0.3)
            self.axes.add_patch(part)
            part.set_clip_path(frame)
        self.ink, self.plate = INK, PLATE

    def name(self, s: int) -> None:
        """The state's name, at the top of a large cell or in the middle of a small one."""
        x, y = self.layout.positions[s]
        self._write(x, y + (0.28 if self.large else 0), self.layout.state_names[s], 8)

    def value(self, s: int, text: str) -> None:
        """A number, where there is room for it beside the name."""
        x, y = self.layout.positions[s]
        if self.large:
            self._write(x, y - 0.06, text, 10.5)

    def action(self, s: int, a: int) -> None:
        """An arrow, or the name of an action that points nowhere."""
        x, y = self.layout.positions[s] - (0, 0.08 if self.large else 0)
        dx, dy = 0.46 * self.layout.action_directions[a]
        if dx == dy == 0:
            self._write(x, y, self.layout.action_names[a], 10.5)
            return
        self.axes.arrow(
            x - dx / 2, y - dy / 2, dx, dy, width=0.045, head_width=0.22, head_length=0.2,
            length_includes_head=True, color=self.ink, linewidth=0, zorder=3,
        )  # fmt: skip

    def _write(self, x: float, y: float, text: str, size: float) -> None:
        room = 0.82 * self.inch * 72 / (0.62 * max(len(text), 1))
        if min(size, room) >= 4.5:
            self.axes.text(
                x, y, text, fontsize=min(size, room), color=self.ink, ha="center", va="center", zorder=3,
                bbox=self.plate,
            )  # fmt: skip


def _paper(title: str, note: str) -> tuple[Figure, Axes]:
    """An empty sheet for a curve over samples."""
    figure = Figure(figsize=(6.4, 4.0), facecolor="white")
    axes = figure.add_axes((0.105, 0.135, 0.86, 0.655))
    _titles(figure, title, note)
    axes.set_xlabel("samples", color=MUTED, fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(RULE)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8.5, labelcolor=MUTED, which="both")
    return figure, axes


def _sheet(title: str, legend: bool) -> tuple[Figure, Axes]:
    """A small sheet for several curves, with room for a key on the right if there shall be one."""
    width = 4.7 if legend else 3.6
    figure = Figure(figsize=(width, 2.6), facecolor="none")
    axes = figure.add_axes((0.46 / width, 0.17, 3.02 / width, 0.7))
    words = title.replace("N_E", "$N_E$")
    figure.text(0.08 / width, 0.985, words, fontsize=9.5, color=INK, va="top", fontweight="bold")
    axes.patch.set_visible(False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(RULE)
    axes.grid(axis="y", color=RULE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8, labelcolor=MUTED, which="both")
    return figure, axes


def _samples_axis(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("samples", color=MUTED, fontsize=8)
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=_steps(10 * high / low)))
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _key(figure: Figure, axes: Axes, legend: bool) -> None:
    if legend and axes.get_legend_handles_labels()[0]:
        figure.legend(loc="center right", frameon=False, fontsize=8, labelcolor=INK, handlelength=1.6)


def _blob(layout: Layout, x: float, y: float, **style: object) -> Patch:
    """A small cell: a disc where states have no place of their own, else a square."""
    if layout.kind == "ring":
        return Circle((x, y), CELL / 2, **style)
    return Rectangle((x - CELL / 2, y - CELL / 2), CELL, CELL, **style)  # type: ignore[arg-type]


def _titles(figure: Figure, title: str, note: str) -> None:
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
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))


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


def _shape(layout: Layout, array: ArrayLike, name: str) -> tuple[int, int, int]:
    shape = np.shape(array)
    if len(shape) != 3 or shape[0] < 1 or shape[1:] != (layout.n_states, layout.n_actions):
        raise InputError(f"{name} must have shape [H, {layout.n_states}, {layout.n_actions}], got {list(shape)}")
    return shape[0], shape[1], shape[2]


def _array(layout: Layout, array: ArrayLike, name: str) -> FloatArray:
    return check_reward(array, _shape(layout, array, name), name=name)


def _all_directed(layout: Layout) -> bool:
    """Whether every action points to a side of its own."""
    sides = {tuple(direction) for direction in np.round(layout.action_directions, 6).tolist()}
    return (0.0, 0.0) not in sides and len(sides) == layout.n_actions


def _wedges(layout: Layout) -> list[FloatArray]:
    """For each action the sector of directions nearest to its own, cut large enough for the unit square."""
    angles = np.arctan2(layout.action_directions[:, 1], layout.action_directions[:, 0])
    order = np.argsort(angles)
    gaps = np.diff(angles[order], append=angles[order[0]] + 2 * np.pi)
    wedges = {}
    for a, before, after in zip(order, np.roll(gaps, 1), gaps, strict=True):
        arc = np.linspace(angles[a] - before / 2, angles[a] + after / 2, 9)
        wedges[int(a)] = np.vstack([np.zeros(2), np.column_stack([np.cos(arc), np.sin(arc)])])
    return [wedges[a] for a in range(layout.n_actions)]


def _stripes(n: int) -> list[FloatArray]:
    """The unit square cut into upright stripes."""
    edges = np.linspace(-0.5, 0.5, n + 1)
    return [np.array([[left, -0.5], [left, 0.5], [right, 0.5], [right, -0.5]]) for left, right in pairwise(edges)]


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _lightness(colour: str | tuple[float, float, float]) -> float:
    """Perceived lightness, 0 to 1 (sRGB luma)."""
    return 1.0 if colour == "none" else float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)))


def _steps(ratio: float) -> tuple[float, ...]:
    """Where a logarithmic axis has its ticks: at powers of ten, and between them if there are only a few."""
    return (1.0,) if ratio > 1000 else (1.0, 2.0, 5.0)


def _tick(value: float, _: int | None) -> str:
    return _short(value)


def _short(value: float) -> str:
    """A number in at most five characters or so: 12, 0.35, 4.2k, 17M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"
