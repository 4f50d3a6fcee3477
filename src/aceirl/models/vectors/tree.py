"""A small decision tree over named numbers, to say in words what a policy does (CART, Breiman et al. 1984)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aceirl.models.tabular.mdp import FloatArray, IntArray

DEPTH, LEAST = 3, 0.01
"""How many conditions a rule has at most, and which share of all steps a rule is about at least."""

CUTS = 63
"""How many places to cut are tried for each number: its quantiles, rounded as they are said."""


@dataclass(frozen=True)
class Leaf:
    """Steps at which all `conditions` `(column, below, cut)` hold; `right` of `steps` are of the commonest `choice`."""

    conditions: tuple[tuple[int, bool, float], ...]
    choice: int
    right: int
    steps: int

    def words(self, columns: Sequence[str], choices: Sequence[str]) -> str:
        """The rule in words: "push right if pole angle is above 0.02"."""
        bounds: dict[int, list[float | None]] = {}
        for column, below, cut in self.conditions:  # later ones are narrower
            bounds.setdefault(column, [None, None])[below] = cut
        told = [_told(columns[column], *ends) for column, ends in bounds.items()]
        when = f" if {' and '.join(told)}" if told else " always"
        return f"{choices[self.choice]}{when} ({self.right:,} of {self.steps:,} steps)"


def _told(name: str, above: float | None, below: float | None) -> str:
    """A range of a number in words."""
    if above is not None and below is not None:
        return f"{name} is between {above:g} and {below:g}"
    return f"{name} is above {above:g}" if above is not None else f"{name} is below {below:g}"


def leaves(observations: FloatArray, choices: IntArray, n_choices: int) -> list[Leaf]:
    """The leaves of a tree that tells the `choices [n]` at `observations [n, d]` apart, those of most steps first.

    Neighbouring leaves with the same choice are one.
    """
    cuts = [_cuts(column) for column in observations.T]
    found = list(_grown(observations, choices, n_choices, cuts, (), max(1, int(LEAST * len(choices)))))
    return sorted(found, key=lambda leaf: -leaf.steps)


def _grown(
    observations: FloatArray,
    choices: IntArray,
    n_choices: int,
    cuts: list[FloatArray],
    conditions: tuple[tuple[int, bool, float], ...],
    least: int,
) -> Iterator[Leaf]:
    counts = np.bincount(choices, minlength=n_choices)
    here = Leaf(conditions, int(counts.argmax()), int(counts.max()), len(choices))
    split = None if here.right == here.steps or len(conditions) == DEPTH else _split(observations, choices, cuts, least)
    if split is None:
        yield here
        return
    column, cut = split
    below = observations[:, column] < cut
    sides = [
        list(_grown(observations[part], choices[part], n_choices, cuts, (*conditions, (column, side, cut)), least))
        for part, side in ((below, True), (~below, False))
    ]
    if len({leaf.choice for side in sides for leaf in side}) == 1:
        yield here
        return
    for side in sides:
        yield from side


def _split(observations: FloatArray, choices: IntArray, cuts: list[FloatArray], least: int) -> tuple[int, float] | None:
    """Where to cut so that the sides are purest (Gini); None if no cut leaves enough steps on both sides."""
    marks = np.eye(choices.max() + 1)[choices]
    best, found = (marks.sum(axis=0) ** 2).sum() / len(choices) + 1e-9, None
    for column, places in enumerate(cuts):
        below = observations[:, column] < places[:, None]
        left = below @ marks
        n_left = below.sum(axis=1)
        right, n_right = marks.sum(axis=0) - left, len(choices) - n_left
        enough = (n_left >= least) & (n_right >= least)
        if not enough.any():
            continue
        purity = np.full(len(places), -np.inf)
        purity[enough] = ((left**2).sum(axis=1)[enough] / n_left[enough]) + (
            (right**2).sum(axis=1)[enough] / n_right[enough]
        )
        if purity.max() > best:
            best, found = float(purity.max()) + 1e-9, (column, float(places[purity.argmax()]))
    return found


def _cuts(column: FloatArray) -> FloatArray:
    """Places to cut a number, with two digits of the range it has."""
    places = np.quantile(column, np.arange(1, CUTS + 1) / (CUTS + 1))
    spread = np.quantile(column, 0.95) - np.quantile(column, 0.05)
    digits = 2 - int(np.floor(np.log10(spread))) if spread > 0 else 3
    return np.unique(np.round(places, digits)) + 0.0
