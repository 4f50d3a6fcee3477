"""Frozen lake: across slippery ice, past the holes, to the gift. Gymnasium's FrozenLake, four by four."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aceirl.envs.gridworld import ARROWS, DIRECTIONS
from aceirl.envs.layout import Layout
from aceirl.envs.problem import Problem, check_count, check_probability, from_moves, reward_in

MAP = ("SFFF", "FHFH", "FFFH", "HFFG")
SIZE = len(MAP)


def frozen_lake(rng: np.random.Generator, *, horizon: int = 20, slip: float = 0.2) -> Problem:
    """Cells are numbered row by row from the top left, where episodes start; actions are left, up, right, down.

    With probability `slip` a step goes to one of the two sides instead, each as likely; Gymnasium's slippery ice is
    `slip = 2/3`. Walls hold. Whoever falls into a hole stays there. The gift pays 1 a step. Differs from Gymnasium's,
    where it pays once and the episode is over: here arriving sooner is worth more.
    """
    check_count("horizon", horizon)
    check_probability("slip", slip)
    cells = [(row, column) for row in range(SIZE) for column in range(SIZE)]

    def moves() -> Iterator[tuple[int, int, int, float]]:
        for state, (row, column) in enumerate(cells):
            for action in range(4):
                if MAP[row][column] in "HG":
                    yield state, action, state, 1.0
                    continue
                for turn, share in ((0, 1 - slip), (1, slip / 2), (3, slip / 2)):
                    right, up = ARROWS[(action + turn) % 4].tolist()
                    there = min(max(row - up, 0), SIZE - 1), min(max(column + right, 0), SIZE - 1)
                    yield state, action, there[0] * SIZE + there[1], share

    mdp = from_moves(moves(), n_states=len(cells), n_actions=4, horizon=horizon, initial=np.eye(len(cells))[0])
    layout = Layout(
        kind="grid",
        positions=np.array([(column, -row) for row, column in cells], dtype=np.float64),
        state_names=tuple(f"{MAP[row][column]}{row},{column}" for row, column in cells),
        action_names=DIRECTIONS,
        action_directions=ARROWS.astype(np.float64),
    )
    return Problem.solved("frozen-lake", mdp, reward_in([len(cells) - 1], mdp), layout, rng)
