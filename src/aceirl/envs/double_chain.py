"""Double Chain: a corridor entered in the middle, a reward at its right end. Paper, appendix; released likewise."""

from __future__ import annotations

import numpy as np

from aceirl.envs.layout import Layout
from aceirl.envs.problem import Problem, check_count, check_probability, from_moves, reward_in


def double_chain(rng: np.random.Generator, *, length: int = 31, horizon: int = 20, slip: float = 0.1) -> Problem:
    """States `0 … length-1` in a row, actions left and right; with probability `slip` the other way. Walls hold.

    Episodes start in state `(length-1)/2`, rounded down.
    """
    check_count("length", length, minimum=2)
    check_count("horizon", horizon)
    check_probability("slip", slip)

    def moves(state: int, action: int) -> list[tuple[int, int, int, float]]:
        left, right = max(state - 1, 0), min(state + 1, length - 1)
        meant, other = (left, right) if action == 0 else (right, left)
        return [(state, action, meant, 1 - slip), (state, action, other, slip)]

    mdp = from_moves(
        (move for state in range(length) for action in range(2) for move in moves(state, action)),
        n_states=length,
        n_actions=2,
        horizon=horizon,
        initial=np.eye(length)[(length - 1) // 2],
    )
    layout = Layout(
        kind="chain",
        positions=np.column_stack([np.arange(length), np.zeros(length)]),
        state_names=tuple(map(str, range(length))),
        action_names=("left", "right"),
        action_directions=np.array([[-1.0, 0.0], [1.0, 0.0]]),
    )
    return Problem.solved("double-chain", mdp, reward_in([length - 1], mdp), layout, rng)
