"""A small taxi: fetch the passenger at one stop, bring it to the other. After Dietterich (2000), with exact truth."""

from __future__ import annotations

import numpy as np

from aceirl.envs.grid import ARROWS, DIRECTIONS, Grid
from aceirl.envs.layout import Layout, MapPanel
from aceirl.envs.problem import Moves, Problem, check_count, check_counts, check_probabilities

WAITING, ABOARD = 0, 1
FETCH, DROP = 4, 5


def small_taxi(rng: np.random.Generator, *, size: int = 3, horizon: int = 14, failure: float = 0.0) -> Problem:
    """A square of `size` by `size` cells with two stops, in opposite corners drawn at random.

    The passenger waits at the first stop, is aboard, or has been delivered at the second, which pays 1 a step for the
    rest of the episode. Actions are the four directions, fetch and drop; fetch and drop do nothing elsewhere. A move
    fails with probability `failure`: the taxi stays. It starts in any cell, the passenger waiting.

    State `aboard·size² + x·size + y`, and `delivered` is the last one.
    """
    check_count("size", size, minimum=2)
    check_counts(horizon=horizon)
    check_probabilities(failure=failure)
    grid, cells, last = Grid.square(size), size * size, size - 1
    corners = [((0, 0), (last, last)), ((last, last), (0, 0)), ((0, last), (last, 0)), ((last, 0), (0, last))]
    first, second = (x * size + y for x, y in corners[int(rng.integers(4))])
    delivered = 2 * cells

    def moves() -> Moves:
        for aboard in (WAITING, ABOARD):
            for cell in range(cells):
                state = aboard * cells + cell
                for action in range(4):
                    yield state, action, aboard * cells + grid.step(cell, action), 1 - failure
                    yield state, action, state, failure
                yield state, FETCH, cells + cell if cell == first and not aboard else state, 1.0
                yield state, DROP, delivered if aboard and cell == second else state, 1.0
        for action in range(6):
            yield delivered, action, delivered, 1.0

    start = np.where(np.arange(2 * cells + 1) < cells, 1 / cells, 0.0)
    return Problem.of_moves(
        "small-taxi", moves(), _layout(grid, size), [delivered], horizon=horizon, start=start, rng=rng
    )


def _layout(grid: Grid, size: int) -> Layout:
    """Two squares side by side, one for the passenger waiting and one for it aboard; delivered is right of them."""
    square, shift = np.array(grid.cells, dtype=np.float64), np.array([size + 1.0, 0.0])
    names = [f"{x + 1},{y + 1}" for x, y in grid.cells]
    ends = np.array([[2 * size + 2.0, (size - 1) / 2]])
    low, high = -0.5, size - 0.5
    return Layout(
        kind="grid",
        positions=np.vstack([square, square + shift, ends]),
        state_names=(*(f"{name} waiting" for name in names), *(f"{name} aboard" for name in names), "delivered"),
        action_names=(*DIRECTIONS, "fetch", "drop"),
        action_directions=np.vstack([ARROWS, np.zeros((2, 2))]),
        panels=(
            MapPanel("waiting", (low, high, low, high)),
            MapPanel("aboard", (low + size + 1, high + size + 1, low, high)),
            MapPanel("delivered", (2 * size + 1.5, 2 * size + 2.5, low, high)),
        ),
    )
