"""The actions of a continuous task as buttons with keys."""

from __future__ import annotations

import itertools
import re

import numpy as np
from gymnasium import spaces

from aceirl.envs.description import COMPASS
from aceirl.errors import InputError
from aceirl.experts.tasks.continuous import ContinuousTask
from aceirl.models.vectors.choices import ActionChoices
from aceirl.models.vectors.encoding import Encoding
from aceirl.web.environment_view import Action, with_keys

# So many buttons a hand can find; of one continuous number, and of each of two, so many values are offered.
MOST_BUTTONS, OF_ONE, OF_TWO = 10, 5, 3


def offered(encoding: Encoding) -> ActionChoices:
    """What a person can choose among: all actions, or a few values of one or two continuous numbers."""
    if encoding.choices is not None:
        if len(encoding.choices) > MOST_BUTTONS:
            raise InputError(
                f"there are {len(encoding.choices)} actions, and a page has buttons for {MOST_BUTTONS} at most; wrap "
                "the environment so that it takes fewer"
            )
        return encoding.choices
    space = encoding.actions
    assert isinstance(space, spaces.Box)
    low, high = space.low.ravel().astype(float), space.high.ravel().astype(float)
    if len(low) > 2:
        raise InputError(
            f"an action has {len(low)} numbers, and a page has buttons for two at most; wrap the environment so that "
            "it takes fewer"
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InputError(f"actions are {space}; a page has buttons for bounded ones only")
    few = OF_ONE if len(low) == 1 else OF_TWO
    values = itertools.product(*(np.linspace(a, b, few) for a, b in zip(low, high, strict=True)))
    return ActionChoices(np.array(list(values)), rounding=True)


def buttons(task: ContinuousTask, choices: ActionChoices) -> list[Action]:
    """The choices with names and keys: arrows where there is a left and a right, else letters or digits."""
    names = task.names(choices)
    aims = [_aim(name) for name in names]
    if not {COMPASS["left"], COMPASS["right"]} <= set(aims):
        aims = [(0.0, 0.0)] * len(names)
    return with_keys(list(zip(names, aims, strict=True)))


def _aim(name: str) -> tuple[float, float]:
    """Where an action points, by its name; one that does nothing points down, where a hand rests."""
    words = re.findall("[a-z]+", name.lower())
    if {"no", "not", "nothing"} & set(words):
        return COMPASS["down"]
    words = ["up" if word == "main" else word for word in words]
    return next((COMPASS[word] for word in words if word in COMPASS), (0.0, 0.0))
