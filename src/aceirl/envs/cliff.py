"""Cliff walking: along the edge or well away from it. Sutton and Barto (2018), example 6.6."""

from __future__ import annotations

import numpy as np

from aceirl.envs.grid import DOWN, RIGHT, Grid
from aceirl.envs.problem import Problem, check_count, check_counts, check_probabilities


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
    check_counts(horizon=horizon)
    check_probabilities(failure=failure)
    cliff = [(x, 0) for x in range(1, width - 1)]
    grid = Grid((x, y) for x in range(width) for y in range(height) if (x, y) not in cliff)
    start, goal = grid.number[0, 0], grid.number[width - 1, 0]
    edge = {grid.number[x, 1] for x, _ in cliff}

    def step(state: int, direction: int) -> int:
        over = (state in edge and direction == DOWN) or (state == start and direction == RIGHT)
        return state if state == goal else start if over else grid.step(state, direction)

    moves = grid.straying(failure, step)
    return Problem.of_moves("cliff-walking", moves, grid.layout(), [goal], horizon=horizon, start=start, rng=rng)
