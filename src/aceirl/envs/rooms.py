"""Rooms: four rooms around a cross of walls with a door in each, a goal in the far corner of one. Sutton et al. (1999).

State numbers go by column `x` from the left and row `y` from below, walls left out; actions are left, up, right, down.
"""

from __future__ import annotations

import numpy as np

from aceirl.envs.grid import Grid
from aceirl.envs.problem import Problem, check_counts, check_probabilities
from aceirl.errors import InputError


def rooms(
    rng: np.random.Generator, *, size: int = 2, horizon: int = 14, failure: float = 0.1, closed: int = -1
) -> Problem:
    """Four rooms of `size` by `size` cells; the doors are in the middle of their walls.

    With probability `failure` one of the other three directions is taken, each as likely. Walls hold. Episodes start
    in the lower left corner; the goal is the outer corner of one of the other rooms, drawn at random, and pays 1 a
    step. The door `closed`, counted left, up, right, down from the centre, is a wall; -1 for none.
    """
    check_counts(size=size, horizon=horizon)
    check_probabilities(failure=failure)
    if closed not in range(-1, 4):
        raise InputError(f"closed must be a door from 0 to 3, or -1 for none, got {closed!r}")
    grid, last = Grid(_cells(size, closed)), 2 * size
    goal = grid.number[[(0, last), (last, last), (last, 0)][int(rng.integers(3))]]
    moves, start = grid.straying(failure, grid.step), grid.number[0, 0]
    return Problem.of_moves("rooms", moves, grid.layout(), [goal], horizon=horizon, start=start, rng=rng)


def _cells(size: int, closed: int) -> list[tuple[int, int]]:
    """Columns and rows of all cells that are no wall: the rooms, and the doors that are open."""
    width, wall, door = 2 * size + 1, size, size // 2
    doors = [(door, wall), (wall, wall + 1 + door), (wall + 1 + door, wall), (wall, door)]
    is_open = {one for i, one in enumerate(doors) if i != closed}
    every = [(x, y) for x in range(width) for y in range(width)]
    return [(x, y) for x, y in every if (x != wall and y != wall) or (x, y) in is_open]
