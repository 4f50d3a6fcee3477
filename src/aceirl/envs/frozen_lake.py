"""Frozen lake: across slippery ice, past the holes, to the gift. Gymnasium's FrozenLake, four by four."""

from __future__ import annotations

import numpy as np

from aceirl.envs.grid import Grid
from aceirl.envs.problem import Moves, Problem, check_counts, check_probabilities

MAP = ("SFFF", "FHFH", "FFFH", "HFFG")
SIZE = len(MAP)


def frozen_lake(rng: np.random.Generator, *, horizon: int = 20, slip: float = 0.2) -> Problem:
    """Cells are numbered row by row from the top left, where episodes start; actions are left, up, right, down.

    With probability `slip` a step goes to one of the two sides instead, each as likely; Gymnasium's slippery ice is
    `slip = 2/3`. Walls hold. Whoever falls into a hole stays there. The gift pays 1 a step. Differs from Gymnasium's,
    where it pays once and the episode is over: here arriving sooner is worth more.
    """
    check_counts(horizon=horizon)
    check_probabilities(slip=slip)
    grid, tiles = Grid((column, -row) for row in range(SIZE) for column in range(SIZE)), "".join(MAP)

    def moves() -> Moves:
        for state, tile in enumerate(tiles):
            for action in range(4):
                if tile in "HG":
                    yield state, action, state, 1.0
                    continue
                for turn, share in ((0, 1 - slip), (1, slip / 2), (3, slip / 2)):
                    yield state, action, grid.step(state, (action + turn) % 4), share

    layout = grid.layout(f"{tile}{-y},{x}" for tile, (x, y) in zip(tiles, grid.cells, strict=True))
    return Problem.of_moves("frozen-lake", moves(), layout, [len(grid) - 1], horizon=horizon, start=0, rng=rng)
