"""The environment's own pictures, and where its places are on them."""

from __future__ import annotations

from typing import Any

from aceirl.sources import Source, layout
from aceirl.web.png import data_url


def maps(source: Source, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The map panels of an environment, each with its title, picture and places; `names` are the states in their order.

    `box` is the panel's left, right, bottom and top, and `places` are `[state, x, y]`; x goes right and y goes up.
    There is no `picture` of an environment that does not render, and no panel of one whose states lie nowhere.
    """
    drawing = layout(source, names)
    places = [[int(state), *drawing.positions[state].tolist()] for state in drawing.drawn]
    if not drawing.panels:
        return [{"title": "", "box": None, "picture": None, "places": places}] if places else []
    panels = []
    for panel in drawing.panels:
        left, right, bottom, top = panel.extent
        panels.append(
            {
                "title": panel.title[:1].upper() + panel.title[1:],
                "box": panel.extent,
                "picture": None if panel.pixels is None else data_url(panel.pixels),
                "places": [place for place in places if left <= place[1] <= right and bottom <= place[2] <= top],
            }
        )
    return panels
