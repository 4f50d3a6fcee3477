"""Double Chain: a corridor entered in the middle, a reward at its right end. Paper, appendix; released likewise."""

from __future__ import annotations

import numpy as np

from aceirl.envs.layout import Layout
from aceirl.envs.problem import Moves, Problem, check_count, check_counts, check_probabilities


def double_chain(rng: np.random.Generator, *, length: int = 31, horizon: int = 20, slip: float = 0.1) -> Problem:
    """States `0 … length-1` in a row, actions left and right; with probability `slip` the other way. Walls hold.

    Episodes start in state `(length-1)/2`, rounded down.
    """
    check_count("length", length, minimum=2)
    check_counts(horizon=horizon)
    check_probabilities(slip=slip)

    def moves() -> Moves:
        for state in range(length):
            sides = max(state - 1, 0), min(state + 1, length - 1)
            for action in range(2):
                yield state, action, sides[action], 1 - slip
                yield state, action, sides[1 - action], slip

    layout = Layout(
        kind="chain",
        positions=np.column_stack([np.arange(length), np.zeros(length)]),
        state_names=tuple(map(str, range(length))),
        action_names=("left", "right"),
        action_directions=np.array([[-1.0, 0.0], [1.0, 0.0]]),
    )
    start = (length - 1) // 2
    return Problem.of_moves("double-chain", moves(), layout, [length - 1], horizon=horizon, start=start, rng=rng)
