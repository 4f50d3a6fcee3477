"""An expert given as a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aceirl.protocols import Question


@dataclass(frozen=True)
class FunctionExpert:
    """Answers by calling `function(step, state)`, which may return None for no answer; say what is true of it.

    It is called wherever an episode goes, in case it looks at more than the state; `ask_again=0` says that it does not.
    """

    function: Callable[[int, int], int | None]
    deterministic: bool = True
    stationary: bool = False
    ask_again: float = 1.0

    def answer(self, question: Question) -> int | None:
        """What the function says."""
        return self.function(question.step, question.state)
