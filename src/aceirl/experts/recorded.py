"""An expert who is not there: recorded once, or of a run that was opened again without it."""

from __future__ import annotations

from dataclasses import dataclass

from aceirl.errors import InputError
from aceirl.protocols import Question


@dataclass(frozen=True)
class RecordedExpert:
    """What is true of an expert who is not there.

    One who was recorded has nothing more to say: all that it did is in the recording, and to repeat it would count it
    twice. For one who could be asked if only it were given, `away` says so. `declares` is as in `ExpertKind`.
    """

    deterministic: bool = True
    stationary: bool = False
    ask_again: float = 0.0
    declares: bool = False
    away: str | None = None

    def answer(self, question: Question) -> int | None:
        """Nothing."""
        if self.away is not None:
            raise InputError(self.away)
        return None
