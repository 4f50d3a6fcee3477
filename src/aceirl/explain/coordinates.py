"""A reward over the coordinates of observations, in words and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aceirl.errors import InputError
from aceirl.explain.listing import listed
from aceirl.irl.claims import ENDS, CoordinateClaim
from aceirl.models.vectors.features import VectorReward


def reward_in_words(found: Sequence[CoordinateClaim], *, tested: bool = True) -> str:
    """What is sure of a recovered reward in a sentence, and what of it is open in another; see `aceirl.irl.claims`.

    Unless `tested`, it is not known whether rewards without a part of it would do as well.
    """
    parts = [words for one in found if (words := _claim(one))]
    if parts and not tested:
        return (
            f"By the reward that was found the expert {'; '.join(parts)}. Whether others would explain it as well was "
            "not tested: observations have too many coordinates."
        )
    sure = [words for one in found if one.sure and (words := _claim(one))]
    open_ones = [words for one in found if not one.sure and (words := _claim(one))]
    said = [f"The expert {'; '.join(sure)}."] if sure else ["What was observed does not tell what the expert wants."]
    if open_ones:
        said.append(f"Open: whether it {', or '.join(open_ones)}; rewards without that explain the expert as well.")
    return " ".join(said)


def _claim(one: CoordinateClaim) -> str:
    """A claim as the end of a sentence; empty if nothing can be said."""
    if not one.likes:
        return ""
    if one.about != ENDS:
        article = "" if "entry " in one.about else "the "
        return f"keeps {article}{one.about} {one.likes[0][0]}"
    signs = {sign for _, sign in one.likes}
    if signs == {-1}:
        return "avoids that the episode ends"
    wanted = [kind for kind, sign in one.likes if sign > 0]
    avoided = [kind for kind, sign in one.likes if sign < 0]
    parts = [f"wants to reach {listed(wanted)} soon" if wanted else "", f"avoids {listed(avoided)}" if avoided else ""]
    return " and ".join(part for part in parts if part)


def reward_picture(reward: VectorReward, across: str, up: str, axes: Any = None) -> Any:
    """A map of a reward over two coordinates, all others at zero; the axes of matplotlib that it was drawn on."""
    coordinates = reward.features.coordinates
    for name in (across, up):
        if name not in coordinates.names:
            raise InputError(f"there is no coordinate {name!r}; there are: {', '.join(coordinates.names)}")
    from matplotlib import pyplot as plt

    drawn = plt.subplots()[1] if axes is None else axes
    places = [coordinates.names.index(name) for name in (across, up)]
    sides = [np.linspace(coordinates.parts[place].low, coordinates.parts[place].high, 121) for place in places]
    grid = np.meshgrid(*sides)
    values = np.zeros((grid[0].size, len(coordinates)))
    for place, side in zip(places, grid, strict=True):
        values[:, place] = side.ravel()
    arrived = coordinates.decode(values)
    paid = reward.batch(arrived, arrived, arrived, np.zeros(len(arrived), dtype=bool)).reshape(grid[0].shape)
    mesh = drawn.pcolormesh(*sides, paid, shading="gouraud", cmap="viridis")
    drawn.set_xlabel(across)
    drawn.set_ylabel(up)
    drawn.figure.colorbar(mesh, ax=drawn, label="reward of arriving here")
    return drawn
