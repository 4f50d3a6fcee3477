"""Maps: visits, rewards, policies and the importance of answers, on the shape or the rendering of an environment."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm, Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Patch, Polygon, Rectangle
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator
from matplotlib.transforms import Affine2D
from numpy.typing import ArrayLike

from aceirl.envs import Layout
from aceirl.errors import InputError
from aceirl.explain.plots import COLOURS, INK, MARK, MUTED, RAMP, RULE, WHY, short, steps, tick, titles
from aceirl.models.tabular.mdp import BoolArray, FloatArray, check_policy, check_reward

# What keeps a name legible on a cell of many colours.
PLATE: dict[str, object] = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}

CELL = 0.88  # of the unit distance between neighbours, so that cells do not touch
GLASS = 0.85  # how much a colour covers of the rendering under it
MIDDLE = 0.36  # the part of a cell for actions that point nowhere, where others have the sides
SMALL = 0.26  # inches: the least size of a cell, where there are many maps


def visits(layout: Layout, visits: ArrayLike) -> Figure:
    """How often each state was visited: `visits [H, S, A]` summed over steps and actions, on a logarithmic scale."""
    total = _array(layout, visits, "visits").sum(axis=(0, 2))
    if (total < 0).any():
        raise InputError(f"visits of state {int(np.argmin(total))} sum to {total.min()}, which is negative")
    seen = total[total > 0]
    high = float(seen.max()) if seen.size else 1.0
    low = min(float(seen.min()), high / 10) if seen.size else 0.1
    unseen = "" if (total[layout.drawn] > 0).all() else "; white: never visited"
    picture = _Picture(layout, "Visits", "how often each place was visited, at any step" + unseen)
    picture.scale(LogNorm(low, high), "visits", LogLocator(subs=steps(high / low)))
    for s in layout.drawn:
        picture.cell(s, picture.colour(total[s]) if total[s] > 0 else "white")
        picture.name(s)
        picture.value(s, short(total[s]))
    return picture.figure


def reward(layout: Layout, reward: ArrayLike, visited: ArrayLike | None = None) -> Figure:
    """The mean over steps of `reward [H, S, A]`, one part of the cell for each action.

    An action's part lies on the side of the cell to which it points, in the middle if it points nowhere; if none does,
    or two point alike, the parts are stripes. A state that is not `visited [S]`, whose reward rests on nothing, is
    hatched.
    """
    seen = _states(layout, visited, "visited")
    return _rewards(layout, _array(layout, reward, "reward").mean(axis=0), "mean over steps", ~seen, "never visited")


def explained(layout: Layout, paid: ArrayLike, undetermined: ArrayLike, step_cost: float = 0.0) -> Figure:
    """What a reward that explains the answers pays, `paid [S, A]`: its parameters, for each action if they differ.

    Hatched where it may be as large as the largest: `undetermined [S]`. An end of episodes is paid for on arrival; with
    `step_cost`, each step before it costs that much.
    """
    pay = _array(layout, np.asarray(paid)[None], "paid")[0]
    costs = (
        f"each step costs {step_cost:g} until the end"
        if step_cost > 0
        else f"each step pays {-step_cost:g} until the end"
    )
    note = "what each place pays" + (f"; {costs}" if step_cost else "")
    open_to_all = _states(layout, undetermined, "undetermined")
    return _rewards(layout, pay, note, open_to_all, "not determined, may pay as much as 1")


def _rewards(layout: Layout, pay: FloatArray, note: str, hatched: BoolArray, why: str) -> Figure:
    """`pay [S, A]` on the map, with some states hatched and the reason why."""
    same = np.ptp(pay, axis=1) <= 1e-9 * np.abs(pay).max(initial=0.0)
    note += "" if same[layout.drawn].all() else f"; {_parts_in_words(layout)}"
    picture = _Picture(layout, "Reward", note + (f"; hatched: {why}" if hatched[layout.drawn].any() else ""))
    shown = pay[layout.drawn][~hatched[layout.drawn]]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 0.0)
    picture.scale(Normalize(low, high if high > low else low + 1), "reward", MaxNLocator(5, steps=[1, 2, 5, 10]))
    for s in layout.drawn:
        if hatched[s]:
            picture.unknown(s)
            continue
        colours = [picture.colour(value) for value in pay[s]]
        if same[s]:
            picture.cell(s, colours[0])
            picture.name(s)
            picture.value(s, short(pay[s, 0]))
        else:
            picture.parts(s, _parts(layout.directions(s)), colours)
            if picture.large:
                picture.name(s)
    return picture.figure


def policy(layout: Layout, policy: ArrayLike, known: ArrayLike | None = None) -> Figure:
    """The likeliest action of each state at the first step of `policy [H, S, A]`, and how much later steps agree.

    With `known [H, S]`, only steps at which the expert has answered count, and a state without any is hatched. The
    first step, because an action there still has the time to matter; near the end most are as good as any other.
    """
    table = check_policy(policy, _shape(layout, policy, "policy"))
    counts = np.ones(table.shape[:2], dtype=np.bool_) if known is None else np.asarray(known, dtype=np.bool_)
    if counts.shape != table.shape[:2]:
        raise InputError(f"known must have shape {list(table.shape[:2])}, got {list(counts.shape)}")
    note = "action at the first step" if known is None else "action at the first step the expert answered for"
    everywhere = counts[:, layout.drawn].any(axis=0).all()
    likeliest = table >= table.max(axis=2, keepdims=True) - 1e-9
    first = counts.argmax(axis=0)
    tied = likeliest[first, np.arange(layout.n_states)].sum(axis=1) > 1
    note += "; no arrow: several are as good" if tied[layout.drawn].any() else ""
    picture = _Picture(layout, "Policy", note if everywhere else f"{note}; hatched: never answered")
    picture.scale(Normalize(0, 1), "share of steps with that action", MaxNLocator(5))
    for s in layout.drawn:
        chosen = table[counts[:, s], s]
        if not len(chosen):
            picture.unknown(s)
            continue
        action = int(chosen[0].argmax())
        picture.cell(s, picture.colour(chosen[:, action].mean()))
        if not tied[s]:
            picture.action(s, action)
        if picture.large:
            picture.name(s)
    picture.explain_letters()
    return picture.figure


def importance(layout: Layout, importance: ArrayLike, answered: ArrayLike | None = None) -> Figure:
    """How important the expert's answers in each state are, `importance [S]`; hatched where it was not `answered`."""
    known = _states(layout, answered, "answered")
    share = np.asarray(importance, dtype=np.float64)
    if share.shape != (layout.n_states,):
        raise InputError(f"importance must have shape [{layout.n_states}], got {list(share.shape)}")
    asked = "" if known[layout.drawn].all() else "; hatched: no answer"
    picture = _Picture(layout, "Why here", WHY + asked)
    high = float(share.max()) or 1.0
    picture.scale(Normalize(0, high), "share", MaxNLocator(5, steps=[1, 2, 5, 10]))
    for s in layout.drawn:
        if not known[s]:
            picture.unknown(s)
            continue
        picture.cell(s, picture.colour(share[s]))
        picture.name(s)
        picture.value(s, f"{share[s]:.1%}")
    return picture.figure


def visit_map(layout: Layout, visits: ArrayLike, goals: Sequence[int] = ()) -> Figure:
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
    step = np.clip(np.round((np.log10(np.maximum(share, 1e-9)) + 3.5) / 3 * 8), 0, 8).astype(np.int64)
    colours = [RAMP[step[s]] if share[s] > 0 else "none" for s in range(layout.n_states)]
    blobs = [_blob(layout, x, y) for x, y in layout.positions]
    # No axes, and all cells as one thing: a report has dozens of these maps, drawn in less than half the time.
    place = Affine2D().translate(*-low).scale(inch) + figure.dpi_scale_trans
    style: dict[str, Any] = {"joinstyle": "miter", "transform": place}
    figure.add_artist(PatchCollection(blobs, facecolor=colours, edgecolor=RULE, linewidth=0.5, **style))
    rings = [blobs[s] for s in goals]
    figure.add_artist(PatchCollection(rings, facecolor="none", edgecolor=MARK, linewidth=1.4, **style))
    return figure


class _Picture:
    """A figure with the cells of a layout, measured in inches so that the text around them never changes their size."""

    ink: str
    plate: dict[str, object] | None

    def __init__(self, layout: Layout, title: str, note: str) -> None:
        self.layout = layout
        self.letters: dict[str, str] = {}
        self.over = any(panel.pixels is not None for panel in layout.panels)
        low, high = _bounds(layout)
        columns, rows = high - low
        least = min(SMALL, 16 / columns) if len(layout.panels) > 1 else 0.0
        self.inch = min(0.95, max(min(11 / columns, 6.6 / rows), least))
        self.large = self.inch >= 0.7
        self.wide = columns > 2.5 * rows
        width, height = columns * self.inch, rows * self.inch
        self.upright = not self.wide and layout.kind != "arms"
        right, bottom = (1.15 if self.upright else 0.3), (0.75 if self.wide else 0.3)
        full = max(width + 0.3 + right, 5.2)
        note += "; cells without a mark: never met" if self.over else ""
        missing = layout.n_states - len(layout.drawn) - 1 if layout.panels else 0
        note += f"; {missing} states are not on the map" if missing > 0 else ""
        lines = textwrap.wrap(note, int(13 * full))
        self.size = (full, height + bottom + 0.7 + 0.15 * len(lines))
        self.figure = Figure(figsize=self.size, facecolor="white")
        self.box = (0.3 + (full - 0.3 - right - width) / 2, bottom, width, height)
        self.axes = self._inches(*self.box)
        self.axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        self.axes.axis("off")
        for panel in layout.panels:
            left, _, _, top = panel.extent
            if panel.pixels is not None:
                self.axes.imshow(panel.pixels, extent=panel.extent, aspect="auto", zorder=0)
            size = min(9.0, 30 * self.inch)
            self.axes.text(left, top + 0.12, panel.title, fontsize=size, color=INK, va="bottom", clip_on=True)
        titles(self.figure, title, "\n".join(lines))

    def _inches(self, left: float, bottom: float, width: float, height: float) -> Axes:
        full, tall = self.size
        return self.figure.add_axes((left / full, bottom / tall, width / full, height / tall))

    def scale(self, norm: Normalize, label: str, ticks: Locator) -> None:
        """The colour bar: under a wide picture, in the empty corner between two arms, else on the right."""
        self.norm = norm
        left, bottom, width, height = self.box
        if self.wide:
            length = min(width, 3.2)
            bar_axes = self._inches(left + (width - length) / 2, bottom - 0.24, length, 0.11)
        elif self.layout.kind == "arms":
            bar_axes = self._inches(left + 0.6 * width, bottom + 0.8 * height, 0.36 * width, 0.11)
        else:
            length = min(height, 2.6)
            bar_axes = self._inches(left + width + 0.2, bottom + (height - length) / 2, 0.11, length)
        bar = self.figure.colorbar(
            ScalarMappable(norm, COLOURS),
            cax=bar_axes,
            orientation="vertical" if self.upright else "horizontal",
            ticks=ticks,
            format=FuncFormatter(tick),
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
        self.cell(s, "none" if self.over else "white").set(hatch="/" * 5, edgecolor="#aab3ba")

    def cell(self, s: int, colour: str | tuple[float, float, float]) -> Patch:
        """Fill a cell; the colour is remembered, for whatever is written on it."""
        patch = self.outline(s)
        fill: object = (*to_rgb(colour), GLASS) if self.over and colour != "none" else colour
        patch.set(facecolor=fill, edgecolor=RULE, linewidth=0.6)
        self.ink, self.plate = ("white" if _lightness(colour) < 0.45 else INK), None
        self.axes.add_patch(patch)
        return patch

    def parts(self, s: int, polygons: list[FloatArray], colours: list[tuple[float, float, float]]) -> None:
        """Fill a cell with polygons, given on the unit square around its middle."""
        frame = self.cell(s, "none")
        outermost_first = sorted(zip(polygons, colours, strict=True), key=lambda part: -np.ptp(part[0]))
        for polygon, colour in outermost_first:
            edge, width = ("none", 0.0) if self.over else (colour, 0.3)
            alpha = GLASS if self.over and np.ptp(polygon) > MIDDLE else 1.0  # the middle lies on the sides
            part = Polygon(
                self.layout.positions[s] + CELL * polygon,
                facecolor=colour,
                edgecolor=edge,
                linewidth=width,
                alpha=alpha,
            )
            self.axes.add_patch(part)
            part.set_clip_path(frame)
        self.ink, self.plate = INK, PLATE

    def name(self, s: int) -> None:
        """The state's name, at the top of a large cell or in the middle of a small one; none where it can be seen."""
        x, y = self.layout.positions[s]
        if not self.layout.panels:
            self._write(x, y + (0.28 if self.large else 0), self.layout.state_names[s], 8)

    def value(self, s: int, text: str) -> None:
        """A number, where there is room for it; on a rendering there is no name beside it."""
        x, y = self.layout.positions[s]
        if self.large or (self.layout.panels and self.inch >= 0.4):
            self._write(x, y - 0.06, text, 10.5)

    def action(self, s: int, a: int) -> None:
        """An arrow, or the name of an action that points nowhere."""
        x, y = self.layout.positions[s] - (0, 0.08 if self.large and not self.layout.panels else 0)
        dx, dy = 0.46 * self.layout.directions(s)[a]
        if dx == dy == 0:
            name = self.layout.action_names[a]
            if self._write(x, y, name, 10.5) != name:
                self.letters[name[:1]] = name
            return
        self.axes.arrow(
            x - dx / 2, y - dy / 2, dx, dy, width=0.045, head_width=0.22, head_length=0.2,
            length_includes_head=True, color=self.ink, linewidth=0, zorder=3,
        )  # fmt: skip

    def explain_letters(self) -> None:
        """What the letters stand for, where there was no room for words."""
        words = ", ".join(f"{letter}: {name}" for letter, name in sorted(self.letters.items()))
        width, height = self.size
        self.figure.text(0.3 / width, 0.1 / height, words, fontsize=8.5, color=MUTED)

    def _write(self, x: float, y: float, text: str, size: float) -> str:
        """A text as large as there is room for, or its first letter; what was written is returned."""
        for words in (text, text[:1]):
            room = 0.82 * self.inch * 72 / (0.62 * max(len(words), 1))
            if min(size, room) >= 4.5:
                self.axes.text(
                    x, y, words, fontsize=min(size, room), color=self.ink, ha="center", va="center", zorder=3,
                    bbox=self.plate,
                )  # fmt: skip
                return words
        return ""


def _bounds(layout: Layout) -> tuple[FloatArray, FloatArray]:
    """The lower left and the upper right corner of all that is drawn."""
    if not layout.panels:
        return np.nanmin(layout.positions, axis=0) - 0.5, np.nanmax(layout.positions, axis=0) + 0.5
    left, right, bottom, top = np.array([panel.extent for panel in layout.panels]).T
    above = 0.9 if any(panel.title for panel in layout.panels) else 0.0
    return np.array([left.min(), bottom.min()]), np.array([right.max(), top.max() + above])


def _blob(layout: Layout, x: float, y: float) -> Patch:
    """A small cell: a disc where states have no place of their own, else a square."""
    if layout.kind == "ring":
        return Circle((x, y), CELL / 2)
    return Rectangle((x - CELL / 2, y - CELL / 2), CELL, CELL)


def _states(layout: Layout, chosen: ArrayLike | None, name: str) -> BoolArray:
    """`[S]`: which states are meant; all, if nothing is said."""
    states = np.ones(layout.n_states, dtype=np.bool_) if chosen is None else np.asarray(chosen, dtype=np.bool_)
    if states.shape != (layout.n_states,):
        raise InputError(f"{name} must have shape [{layout.n_states}], got {list(states.shape)}")
    return states


def _shape(layout: Layout, array: ArrayLike, name: str) -> tuple[int, int, int]:
    shape = np.shape(array)
    if len(shape) != 3 or shape[0] < 1 or shape[1:] != (layout.n_states, layout.n_actions):
        raise InputError(f"{name} must have shape [H, {layout.n_states}, {layout.n_actions}], got {list(shape)}")
    return shape[0], shape[1], shape[2]


def _array(layout: Layout, array: ArrayLike, name: str) -> FloatArray:
    return check_reward(array, _shape(layout, array, name), name=name)


def _sides(directions: FloatArray) -> BoolArray:
    """`[A]`: which actions have a side of the cell; none if two would share one, or if there is only one."""
    pointing = directions.any(axis=1)
    sides = {tuple(direction) for direction in np.round(directions[pointing], 6).tolist()}
    return np.asarray(pointing & (len(sides) == pointing.sum() > 1))


def _parts_in_words(layout: Layout) -> str:
    sided = _sides(layout.directions(int(layout.drawn[0])))
    if not sided.any():
        return f"stripes: {_span(layout.action_names)}, left to right"
    others = [name for name, side in zip(layout.action_names, sided, strict=True) if not side]
    return "the side of a cell is its action" + (f", the middle: {_span(others)}" if others else "")


def _parts(directions: FloatArray) -> list[FloatArray]:
    """A polygon for each action, on the unit square: the middle lies on the sides."""
    sided = _sides(directions)
    if not sided.any():
        return _stripes(len(directions))
    wedges, middle = iter(_wedges(directions[sided])), iter(_stripes(int((~sided).sum())))
    return [next(wedges) if side else MIDDLE * next(middle) for side in sided]


def _wedges(directions: FloatArray) -> list[FloatArray]:
    """For each direction the sector around it, at most a quarter wide, cut large enough for the unit square.

    It points where the action does: what lies between two sectors that are far apart belongs to none.
    """
    angles = np.arctan2(directions[:, 1], directions[:, 0])
    order = np.argsort(angles)
    gaps = np.diff(angles[order], append=angles[order[0]] + 2 * np.pi)
    wedges = {}
    for a, before, after in zip(order, np.roll(gaps, 1), gaps, strict=True):
        half = min(before, after, np.pi / 2) / 2
        arc = np.linspace(angles[a] - half, angles[a] + half, 9)
        wedges[int(a)] = np.vstack([np.zeros(2), np.column_stack([np.cos(arc), np.sin(arc)])])
    return [wedges[a] for a in range(len(directions))]


def _stripes(n: int) -> list[FloatArray]:
    """The unit square cut into upright stripes."""
    edges = np.linspace(-0.5, 0.5, n + 1)
    return [np.array([[left, -0.5], [left, 0.5], [right, 0.5], [right, -0.5]]) for left, right in pairwise(edges)]


def _span(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} to {names[-1]}"


def _lightness(colour: str | tuple[float, float, float]) -> float:
    """Perceived lightness, 0 to 1 (sRGB luma)."""
    return 1.0 if colour == "none" else float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)))
