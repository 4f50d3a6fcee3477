"""The actions of a continuous task as buttons with keys, and its pictures."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
from gymnasium import spaces

from aceirl.envs.description import COMPASS
from aceirl.errors import InputError
from aceirl.experts.tasks import Source, rendering_env
from aceirl.experts.tasks.continuous import ContinuousTask
from aceirl.models.vectors.choices import ActionChoices
from aceirl.models.vectors.encoding import Encoding
from aceirl.web.environment_view import Action, data_url, with_keys

# So many buttons a hand can find; of one continuous number, and of each of two, so many values are offered.
MOST_BUTTONS, OF_ONE, OF_TWO = 10, 5, 3

# A picture has at most so many pixels each way.
MOST_PIXELS = 800


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


def drawing_env(source: Source) -> Any:
    """The environment, made to draw itself as an array of pixels; an error if it cannot."""
    env = rendering_env(source)
    try:
        if env.render_mode != "rgb_array":
            raise InputError(
                f"{source.environment} does not draw itself (it has no render mode rgb_array), so nobody can drive it "
                "on a page; give a function as the expert: aceirl run --expert"
            )
        env.reset(seed=0)
        picture(env)
    except InputError:
        env.close()
        raise
    except Exception as error:
        env.close()
        raise InputError(f"{source.environment} cannot be drawn: {' '.join(str(error).split())}") from error
    return env


def picture(env: Any) -> str:
    """What the environment draws, as a data URL; large ones are made smaller."""
    pixels = env.render()
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise InputError(f"a picture must be an array [height, width, 3], got {type(pixels).__name__}")
    every = -(-max(pixels.shape[:2]) // MOST_PIXELS)
    return data_url(np.ascontiguousarray(pixels[::every, ::every].astype(np.uint8)))
