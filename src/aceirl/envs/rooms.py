"""Rooms: four rooms around a cross of walls with a door in each, a goal in the far corner of one. Sutton et al. (1999).

State numbers go by column `x` from the left and row `y` from below, walls left out; actions are left, up, right, down.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aceirl.envs.gridworld import ARROWS, DIRECTIONS
from aceirl.envs.layout import Layout
from aceirl.envs.problem import Problem, check_count, check_probability, from_moves, reward_in
from aceirl.errors import InputError


def rooms(
    rng: np.random.Generator, *, size: int = 2, horizon: int = 14, failure: float = 0.1, closed: int = -1
) -> Problem:
    """Four rooms of `size` by `size` cells; the doors are in the middle of their walls.

    With probability `failure` one of the other three directions is taken, each as likely. Walls hold. Episodes start
    in the lower left corner; the goal is the outer corner of one of the other rooms, drawn at random, and pays 1 a
    step. The door `closed`, counted left, up, right, down from the centre, is a wall; -1 for none.
    """
    check_count("size", size)
    check_count("horizon", horizon)
    check_probability("failure", failure)
    if closed not in range(-1, 4):
        raise InputError(f"closed must be a door from 0 to 3, or -1 for none, got {closed!r}")
    cells = _cells(size, closed)
    number = {cell: i for i, cell in enumerate(cells)}
    last = 2 * size
    goal = number[[(0, last), (last, last), (last, 0)][int(rng.integers(3))]]

    def moves() -> Iterator[tuple[int, int, int, float]]:
        for state, (x, y) in enumerate(cells):
            for direction, (dx, dy) in enumerate(ARROWS.tolist()):
                there = number.get((x + dx, y + dy), state)
                for action in range(4):
                    yield state, action, there, 1 - failure if action == direction else failure / 3

    n_states = len(cells)
    mdp = from_moves(moves(), n_states=n_states, n_actions=4, horizon=horizon, initial=np.eye(n_states)[number[0, 0]])
    names = tuple(f"{x},{y}" for x, y in cells)
    layout = Layout("grid", np.array(cells, dtype=np.float64), names, DIRECTIONS, ARROWS.astype(np.float64))
    return Problem.solved("rooms", mdp, reward_in([goal], mdp), layout, rng)


def _cells(size: int, closed: int) -> list[tuple[int, int]]:
    """Columns and rows of all cells that are no wall: the rooms, and the doors that are open."""
    width, wall, door = 2 * size + 1, size, size // 2
    doors = [(door, wall), (wall, wall + 1 + door), (wall + 1 + door, wall), (wall, door)]
    is_open = {one for i, one in enumerate(doors) if i != closed}
    every = [(x, y) for x in range(width) for y in range(width)]
    return [(x, y) for x, y in every if (x != wall and y != wall) or (x, y) in is_open]
