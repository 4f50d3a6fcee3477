"""What a page may send to change an interview: read strictly, and carried out."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from aceirl.errors import InputError
from aceirl.web.history import Mode
from aceirl.web.session import Interview


class Change(BaseModel):
    """Something that a person does; `turn` says which question they saw."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    turn: int

    @classmethod
    def read(cls, body: bytes) -> Change:
        """From JSON, or an error that says what was wrong with it."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            needed = " and ".join(name for name, field in cls.model_fields.items() if field.is_required())
            raise InputError(f"{where or 'the request'}: {first['msg'].lower()}; needed are {needed}") from None

    def apply(self, interview: Interview) -> None:
        """Do it."""
        raise NotImplementedError


class Answer(Change):
    """What the person would do here and, if `like` says how others relate to it, in all situations like it."""

    action: int
    like: dict[str, str] | None = None

    def apply(self, interview: Interview) -> None:
        """Answer the current question."""
        interview.answer(self.turn, self.action, self.like)


class Skip(Change):
    """The person does not know."""

    def apply(self, interview: Interview) -> None:
        """Go on without an answer."""
        interview.skip(self.turn)


class Undo(Change):
    """The last thing that was said is taken back."""

    def apply(self, interview: Interview) -> None:
        """Ask about it once more."""
        interview.undo(self.turn)


class Correct(Change):
    """What the person would really do in a situation that they have spoken about."""

    state: int
    action: int

    def apply(self, interview: Interview) -> None:
        """Put it right."""
        interview.correct(self.turn, self.state, self.action)


class Review(Change):
    """The episode that was shown is as good as what the person would do, up to a `step` where they do otherwise."""

    step: int | None = None
    action: int | None = None

    def apply(self, interview: Interview) -> None:
        """Take the guesses for answers."""
        interview.review(self.turn, self.step, self.action)


class Prefer(Change):
    """Which of two episodes is better; None if both alike."""

    better: Literal[0, 1] | None

    def apply(self, interview: Interview) -> None:
        """Take in the comparison."""
        interview.prefer(self.turn, self.better)


class Finish(Change):
    """The person ends the interview."""

    def apply(self, interview: Interview) -> None:
        """End it with what there is."""
        interview.finish(self.turn)


class GoOn(Change):
    """The person goes on after having ended it."""

    def apply(self, interview: Interview) -> None:
        """Ask again."""
        interview.go_on(self.turn)


class StartAgain(Change):
    """The person begins anew."""

    def apply(self, interview: Interview) -> None:
        """Forget what was said."""
        interview.start_again(self.turn)


class ChangeMode(Change):
    """The person wants to be asked, to play, or to compare."""

    mode: Mode

    def apply(self, interview: Interview) -> None:
        """Go on in that way."""
        interview.change_mode(self.turn, self.mode)


class Adjust(Change):
    """The person asks for another accuracy, error rate or length of episodes."""

    epsilon: float
    delta: float
    horizon: int

    def apply(self, interview: Interview) -> None:
        """Aim at that from now on."""
        interview.adjust(self.turn, self.epsilon, self.delta, self.horizon)


CHANGES: dict[str, type[Change]] = {
    "answer": Answer,
    "skip": Skip,
    "undo": Undo,
    "correct": Correct,
    "review": Review,
    "prefer": Prefer,
    "finish": Finish,
    "go_on": GoOn,
    "start_again": StartAgain,
    "mode": ChangeMode,
    "adjust": Adjust,
}
