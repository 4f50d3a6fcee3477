"""Gridworld: a small room, a sticky centre, a goal right of it. Paper, appendix (from Metelli et al., 2021).

State `x·size + y` is the cell in column `x` from the left and row `y` from below; actions are left, up, right, down.
The paper names both centre (2,2) and "right center" (2,1), which no single reading of coordinates allows; here the
obstacle is the centre and the goal the rightmost cell of the middle row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from aceirl.envs.grid import RIGHT, Grid
from aceirl.envs.problem import Moves, Problem, check_count, check_counts, check_probabilities
from aceirl.errors import InputError


def gridworld(
    rng: np.random.Generator,
    *,
    size: int = 3,
    horizon: int = 10,
    failure: float = 0.3,
    obstacle: float = 0.8,
    obstacle_up: int = 0,
) -> Problem:
    """As in the paper's text: with probability `failure` one of the *other* three directions is taken, each as likely.

    Whatever the reason, a move to the right from the centre, or from the cell `obstacle_up` cells above it, stays there
    with probability `obstacle`. The goal is a cell like any other: one may leave it. Walls hold; episodes start in any
    other cell.
    """
    if isinstance(obstacle_up, bool) or not isinstance(obstacle_up, int) or 2 * abs(obstacle_up) > size:
        raise InputError(f"obstacle_up must be a whole number that stays in the room, got {obstacle_up!r}")
    return _build("gridworld", partial(_paper_moves, up=obstacle_up), rng, size, horizon, failure, obstacle)


def gridworld_released(
    rng: np.random.Generator, *, size: int = 3, horizon: int = 10, failure: float = 0.3, obstacle: float = 0.8
) -> Problem:
    """As in the released code behind the paper's Table 1.

    Differs: the goal is absorbing; a failed move takes any of the four directions, the intended one included, and the
    obstacle does not hold it back.
    """
    return _build("gridworld-released", _released_moves, rng, size, horizon, failure, obstacle)


def _build(
    name: str,
    moves: Callable[[Grid, int, float, float], Moves],
    rng: np.random.Generator,
    size: int,
    horizon: int,
    failure: float,
    obstacle: float,
) -> Problem:
    if check_count("size", size, minimum=3) % 2 == 0:
        raise InputError(f"size must be odd, for a room with a centre, got {size}")
    check_counts(horizon=horizon)
    check_probabilities(failure=failure, obstacle=obstacle)
    grid, goal = Grid.square(size), (size - 1) * size + size // 2
    start = np.full(len(grid), 1 / (len(grid) - 1))
    start[goal] = 0
    layout = grid.layout(f"{x + 1},{y + 1}" for x, y in grid.cells)
    return Problem.of_moves(
        name, moves(grid, goal, failure, obstacle), layout, [goal], horizon=horizon, start=start, rng=rng
    )


def _paper_moves(grid: Grid, goal: int, failure: float, obstacle: float, up: int) -> Moves:
    for state in range(len(grid)):
        for action in range(4):
            for direction in range(4):
                probability = 1 - failure if direction == action else failure / 3
                for successor, share in _held_back(grid, state, direction, obstacle, up):
                    yield state, action, successor, probability * share


def _released_moves(grid: Grid, goal: int, failure: float, obstacle: float) -> Moves:
    for action in range(4):
        yield goal, action, goal, 1.0
        for state in set(range(len(grid))) - {goal}:
            for successor, share in _held_back(grid, state, action, obstacle):
                yield state, action, successor, (1 - failure) * share
            for direction in range(4):
                yield state, action, grid.step(state, direction), failure / 4


def _held_back(grid: Grid, state: int, direction: int, obstacle: float, up: int = 0) -> list[tuple[int, float]]:
    """Where a step ends and how likely, now that the cell so far above the centre may hold a move to the right back."""
    held = obstacle if state == len(grid) // 2 + up and direction == RIGHT else 0.0
    return [(state, held), (grid.step(state, direction), 1 - held)]
