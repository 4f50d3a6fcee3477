"""The choices that a committee decides among: the actions of a finite space, or a few prototypes of a continuous one.

A continuous action is rounded to the nearest prototype. Whatever is promised then is promised beside the expert whose
every action is so rounded: with that expert, as with one of finitely many actions, to agree is to do exactly the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.models.tabular.mdp import FloatArray, IntArray

PER_DIMENSION, MOST = 5, 25
"""How many prototypes a continuous action has for each of its numbers, and in all."""

ROUNDS = 50
"""How often prototypes are moved to the mean of their actions, at most."""


@dataclass(frozen=True, eq=False)
class ActionChoices:
    """`values [K, p]`: the actions that can be chosen, each as `p` numbers. With `rounding`, others are rounded."""

    values: FloatArray
    rounding: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def numbers(self, actions: FloatArray) -> IntArray:
        """`[n]`: which choice each of the `actions [n, p]` is, or is rounded to; -1 where it is none."""
        apart = ((np.asarray(actions)[:, None, :] - self.values) ** 2).sum(axis=2)
        nearest: IntArray = apart.argmin(axis=1)
        if not self.rounding:
            nearest[apart.min(axis=1) > 0] = -1
        return nearest

    def arrays(self) -> dict[str, Any]:
        """What `of_arrays` reads."""
        return {"values": self.values, "rounding": np.asarray(self.rounding)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> ActionChoices:
        """The choices that `arrays` wrote."""
        return cls(arrays["values"], bool(arrays["rounding"]))


def prototypes(actions: FloatArray) -> ActionChoices:
    """A few actions near which all of the expert's `actions [n, p]` lie, in the order of their numbers (k-means).

    Where the expert takes few different actions, these; the first is the action nearest to the mean, each further one
    the farthest from those before. Nothing is drawn, so the same actions give the same prototypes.
    """
    actions = np.asarray(actions, dtype=np.float64)
    wanted = min(PER_DIMENSION * actions.shape[1], MOST)
    distinct = np.unique(actions, axis=0)
    if len(distinct) <= wanted:
        return ActionChoices(distinct, rounding=True)
    spread = actions.std(axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    points = actions / unit
    centres = points[[((points - points.mean(axis=0)) ** 2).sum(axis=1).argmin()]]
    while len(centres) < wanted:
        apart = ((points[:, None, :] - centres) ** 2).sum(axis=2).min(axis=1)
        centres = np.vstack((centres, points[apart.argmax()]))
    for _ in range(ROUNDS):
        nearest = ((points[:, None, :] - centres) ** 2).sum(axis=2).argmin(axis=1)
        moved = np.array([points[nearest == k].mean(axis=0) for k in range(wanted)])
        if np.abs(moved - centres).max() < 1e-9:
            break
        centres = moved
    return ActionChoices(np.unique(centres * unit, axis=0), rounding=True)
