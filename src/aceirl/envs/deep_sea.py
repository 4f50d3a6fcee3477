"""Deep sea: dive one row a step, and only who steers right every time finds the treasure. Osband et al. (2019)."""

from __future__ import annotations

import numpy as np

from aceirl.envs.layout import Layout
from aceirl.envs.problem import Moves, Problem, check_counts, check_probabilities


def deep_sea(rng: np.random.Generator, *, depth: int = 6, horizon: int = 7, slip: float = 0.1) -> Problem:
    """Rows `0 … depth`, cell `c` of row `r` for `c ≤ r`; an episode starts at the top and sinks a row each step.

    In each cell one of the two actions, drawn at random, steers right (`c + 1`), the other straight down; with
    probability `slip` the other one happens. The last row is the sea floor, where one stays; its last cell has the
    treasure, which pays 1 a step. In `depth + 1` steps the last is on the floor.

    Random actions reach the treasure with probability `2^-depth`. Differs from the source: steering right costs
    nothing, so that the reward is one of states; there is slip.
    """
    check_counts(depth=depth, horizon=horizon)
    check_probabilities(slip=slip)
    cells = [(r, c) for r in range(depth + 1) for c in range(r + 1)]
    number = {cell: i for i, cell in enumerate(cells)}
    right = rng.integers(2, size=len(cells))

    def moves() -> Moves:
        for state, (r, c) in enumerate(cells):
            for action in range(2):
                steers = 1 - slip if action == right[state] else slip
                yield state, action, number.get((r + 1, c + 1), state), steers
                yield state, action, number.get((r + 1, c), state), 1 - steers

    ways = np.array([[1.0, 0.0], [0.0, -1.0]])
    layout = Layout(
        kind="grid",
        positions=np.array([(c, -r) for r, c in cells], dtype=np.float64),
        state_names=tuple(f"{r},{c}" for r, c in cells),
        action_names=("a1", "a2"),
        action_directions=np.stack([ways if first == 0 else ways[::-1] for first in right]),
    )
    return Problem.of_moves("deep-sea", moves(), layout, [len(cells) - 1], horizon=horizon, start=0, rng=rng)
