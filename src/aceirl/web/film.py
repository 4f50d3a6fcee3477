"""An episode as a film: where it went, picture by picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from aceirl.mdp import IntArray
from aceirl.protocols import Access
from aceirl.sources import Source
from aceirl.web.environment_view import EnvironmentView, open_view

# Pictures are large; a film has no more of them than this.
MOST_FRAMES = 60


def replay(source: Source, rng: np.random.Generator, actions: list[int]) -> list[dict[str, Any]]:
    """An episode that was played before, from its randomness and its actions; only its end, if it was long."""
    view = open_view(source)
    skipped = max(0, len(actions) + 1 - MOST_FRAMES)
    state = view.environment.reset(rng)
    frames = [] if skipped else [_frame(view, state, None)]
    for number, action in enumerate(actions, start=1):
        state = view.environment.step(action)
        if number >= skipped:
            frames.append(_frame(view, state, action, number))
    return frames


def film(source: Source, rng: np.random.Generator, policy: IntArray, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """A new episode of a policy `[H, S]`; `names` are the states as the policy numbers them.

    Of a long one its beginning and its end. The last picture has the `ending` in words.
    """
    view = open_view(source)
    environment, access = view.environment, Access.to(view.environment)
    access.recall(names)
    state = environment.reset(rng)
    frames, step = [_frame(view, state, None)], 0
    while step < environment.horizon and state not in access.terminal:
        met_before = state < policy.shape[1]
        action = int(policy[step, state]) if met_before else int(rng.integers(environment.n_actions))
        state = environment.step(action)
        step += 1
        over = step == environment.horizon or state in access.terminal
        if len(frames) < MOST_FRAMES - 1 or over:
            frames.append(_frame(view, state, action, step))
    frames[-1]["ending"] = _ending(view.name(state), step, state in access.terminal)
    return frames


def _ending(name: str, steps: int, terminal: bool) -> str:
    """How an episode ended, in the words for its last state."""
    after = f"After {steps:,} step{'' if steps == 1 else 's'}"
    if terminal:
        return f"{after} the episode ended: {name}."
    return f"{after} the time was up, in {name}."


def _frame(view: EnvironmentView, state: int, action: int | None, step: int = 0) -> dict[str, Any]:
    cell = view.map_cell(state)
    did = "" if action is None else f"{view.actions[action].name}: "
    return {
        "x": None if cell is None else cell.x,
        "y": None if cell is None else cell.y,
        "step": step,
        "words": did + view.name(state),
        "picture": view.picture(),
    }
