"""Cliff walking: along the edge or well away from it. Sutton and Barto (2018), example 6.6."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aceirl.envs.gridworld import ARROWS, DIRECTIONS
from aceirl.envs.layout import Layout
from aceirl.envs.problem import Problem, check_count, check_probability, from_moves, reward_in


def cliff_walking(
    rng: np.random.Generator, *, width: int = 6, height: int = 3, horizon: int = 14, failure: float = 0.1
) -> Problem:
    """Cells of `width` columns and `height` rows; between the start, below left, and the goal, below right, is a cliff.

    With probability `failure` one of the other three directions is taken, each as likely. Walls hold. A step over the
    edge leads back to the start. The goal pays 1 a step, and one stays there. Differs from the source, where every step
    costs 1 and a fall 100: by its worst policy all others would look alike.
    """
    check_count("width", width, minimum=3)
    check_count("height", height, minimum=2)
    check_count("horizon", horizon)
    check_probability("failure", failure)
    start, goal = (0, 0), (width - 1, 0)
    cells = [(x, y) for x in range(width) for y in range(height) if y > 0 or (x, y) in (start, goal)]
    number = {cell: i for i, cell in enumerate(cells)}

    def moves() -> Iterator[tuple[int, int, int, float]]:
        for (x, y), state in number.items():
            for direction, (right, up) in enumerate(ARROWS.tolist()):
                there = min(max(x + right, 0), width - 1), min(max(y + up, 0), height - 1)
                successor = state if (x, y) == goal else number.get(there, number[start])
                for action in range(4):
                    yield state, action, successor, 1 - failure if action == direction else failure / 3

    n_states = len(cells)
    mdp = from_moves(moves(), n_states=n_states, n_actions=4, horizon=horizon, initial=np.eye(n_states)[number[start]])
    names = tuple(f"{x},{y}" for x, y in cells)
    layout = Layout("grid", np.array(cells, dtype=np.float64), names, DIRECTIONS, ARROWS.astype(np.float64))
    return Problem.solved("cliff-walking", mdp, reward_in([number[goal]], mdp), layout, rng)
