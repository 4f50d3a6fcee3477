"""Gridworld: a small room, a sticky centre, a goal right of it. Paper, appendix (from Metelli et al., 2021).

State `x·size + y` is the cell in column `x` from the left and row `y` from below; actions are left, up, right, down.
The paper names both centre (2,2) and "right center" (2,1), which no single reading of coordinates allows; here the
obstacle is the centre and the goal the rightmost cell of the middle row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from aceirl.envs.layout import Layout
from aceirl.envs.problem import Problem, check_count, check_probability, from_moves, reward_in
from aceirl.errors import InputError

DIRECTIONS = ("left", "up", "right", "down")
ARROWS = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
RIGHT = 2

Moves = Iterator[tuple[int, int, int, float]]


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
    moves: Callable[[int, int, float, float], Moves],
    rng: np.random.Generator,
    size: int,
    horizon: int,
    failure: float,
    obstacle: float,
) -> Problem:
    if check_count("size", size, minimum=3) % 2 == 0:
        raise InputError(f"size must be odd, for a room with a centre, got {size}")
    check_count("horizon", horizon)
    check_probability("failure", failure)
    check_probability("obstacle", obstacle)
    n_states = size * size
    goal = (size - 1) * size + size // 2
    initial = np.full(n_states, 1 / (n_states - 1))
    initial[goal] = 0
    mdp = from_moves(
        moves(size, goal, failure, obstacle), n_states=n_states, n_actions=4, horizon=horizon, initial=initial
    )
    return Problem.solved(name, mdp, reward_in([goal], mdp), _layout(size), rng)


def _paper_moves(size: int, goal: int, failure: float, obstacle: float, up: int) -> Moves:
    for state in range(size * size):
        for action in range(4):
            for direction in range(4):
                probability = 1 - failure if direction == action else failure / 3
                for successor, share in _held_back(state, direction, size, obstacle, up):
                    yield state, action, successor, probability * share


def _released_moves(size: int, goal: int, failure: float, obstacle: float) -> Moves:
    for action in range(4):
        yield goal, action, goal, 1.0
        for state in set(range(size * size)) - {goal}:
            for successor, share in _held_back(state, action, size, obstacle):
                yield state, action, successor, (1 - failure) * share
            for direction in range(4):
                yield state, action, _step(state, direction, size), failure / 4


def _step(state: int, direction: int, size: int) -> int:
    """The cell one step away in a direction, or the same one at a wall."""
    x, y = np.clip(np.array(divmod(state, size)) + ARROWS[direction], 0, size - 1)
    return int(x * size + y)


def _held_back(state: int, direction: int, size: int, obstacle: float, up: int = 0) -> list[tuple[int, float]]:
    """Where a step ends and how likely, now that the cell so far above the centre may hold a move to the right back."""
    held = obstacle if state == size * size // 2 + up and direction == RIGHT else 0.0
    return [(state, held), (_step(state, direction, size), 1 - held)]


def _layout(size: int) -> Layout:
    cells = [divmod(state, size) for state in range(size * size)]
    names = tuple(f"{x + 1},{y + 1}" for x, y in cells)
    return Layout("grid", np.array(cells, dtype=np.float64), names, DIRECTIONS, ARROWS.astype(np.float64))
