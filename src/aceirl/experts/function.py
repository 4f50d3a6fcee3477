"""An expert given as a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FunctionExpert:
    """Answers by calling `function(step, state)`, which may return None for no answer; say what is true of it."""

    function: Callable[[int, int], int | None]
    deterministic: bool = True
    stationary: bool = False

    def answer(self, step: int, state: int, rng: np.random.Generator) -> int | None:
        """What the function says."""
        return self.function(step, state)
