"""An expert who was recorded, and is no longer there."""

from __future__ import annotations

from dataclasses import dataclass

from aceirl.protocols import Question


@dataclass(frozen=True)
class RecordedExpert:
    """Has nothing more to say: all that it did is in the recording, and to repeat it would count it twice."""

    deterministic: bool = True
    stationary: bool = False
    ask_again: float = 0.0

    def answer(self, question: Question) -> int | None:
        """Nothing."""
        return None
