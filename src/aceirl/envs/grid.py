"""What environments of cells share: four directions, steps that walls stop, and a drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from aceirl.envs.layout import Layout
from aceirl.envs.problem import Moves

DIRECTIONS = ("left", "up", "right", "down")
ARROWS = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])
RIGHT, DOWN = 2, 3
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))


class Grid:
    """Cells `(x, y)` numbered in their order; x goes right, y goes up. A step to where no cell is stays put."""

    def __init__(self, cells: Iterable[tuple[int, int]]) -> None:
        self.cells = list(cells)
        self.number = {cell: i for i, cell in enumerate(self.cells)}

    @classmethod
    def square(cls, size: int) -> Grid:
        """State `x·size + y` is the cell in column `x` from the left and row `y` from below."""
        return cls(divmod(state, size) for state in range(size * size))

    def __len__(self) -> int:
        return len(self.cells)

    def step(self, state: int, direction: int) -> int:
        """The cell one step away in a direction, or the same one at a wall."""
        (x, y), (right, up) = self.cells[state], STEPS[direction]
        return self.number.get((x + right, y + up), state)

    def straying(self, failure: float, step: Callable[[int, int], int]) -> Moves:
        """Moves by `step(state, direction)`; a share `failure` of them in one of the other three directions."""
        for state in range(len(self)):
            for action in range(4):
                for direction in range(4):
                    yield state, action, step(state, direction), 1 - failure if direction == action else failure / 3

    def layout(self, names: Iterable[str] | None = None) -> Layout:
        """The cells where they are; by default their coordinates are their names."""
        called = (f"{x},{y}" for x, y in self.cells) if names is None else names
        return Layout("grid", np.array(self.cells, dtype=np.float64), tuple(called), DIRECTIONS, ARROWS)
