"""An episode as a film: where it went, picture by picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from aceirl.mdp import IntArray
from aceirl.protocols import EndingEnvironment, GrowingEnvironment
from aceirl.sources import Source
from aceirl.web.stage import Stage, open_stage

# Pictures are large; a film has no more of them than this.
MOST_FRAMES = 60


def replay(source: Source, rng: np.random.Generator, actions: list[int]) -> list[dict[str, Any]]:
    """An episode that was played before, from its chance and its actions; only its end, if it was long."""
    stage = open_stage(source)
    skipped = max(0, len(actions) + 1 - MOST_FRAMES)
    state = stage.environment.reset(rng)
    frames = [] if skipped else [_frame(stage, state, None)]
    for number, action in enumerate(actions, start=1):
        state = stage.environment.step(action)
        if number >= skipped:
            frames.append(_frame(stage, state, action))
    return frames


def film(source: Source, rng: np.random.Generator, policy: IntArray, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """A new episode of a policy `[H, S]`; `names` are the states as the policy numbers them."""
    stage = open_stage(source)
    environment = stage.environment
    if isinstance(environment, GrowingEnvironment):
        environment.recall(names)
    end = environment.end if isinstance(environment, EndingEnvironment) else None
    state = environment.reset(rng)
    frames = [_frame(stage, state, None)]
    for step in range(min(environment.horizon, MOST_FRAMES - 1)):
        if state == end:
            break
        met_before = state < policy.shape[1]
        action = int(policy[step, state]) if met_before else int(rng.integers(environment.n_actions))
        state = environment.step(action)
        frames.append(_frame(stage, state, action))
    return frames


def _frame(stage: Stage, state: int, action: int | None) -> dict[str, Any]:
    place = stage.place(state)
    did = "" if action is None else f"{stage.actions[action].name}: "
    return {
        "x": None if place is None else place.x,
        "y": None if place is None else place.y,
        "words": did + stage.name(state),
        "picture": stage.picture(),
    }
