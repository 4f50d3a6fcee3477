"""A person at the keyboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aceirl.errors import AnswerError
from aceirl.protocols import ObservableEnvironment, Question


class TerminalExpert:
    """Shows an observation and asks for an action by name or number; an empty line means "I cannot say", `q` stops.

    A person is taken to be deterministic, and asked once per state unless `stationary` is false; now and then again, to
    see whether they stand by it.
    """

    deterministic = True
    ask_again = 0.1

    def __init__(
        self,
        environment: ObservableEnvironment,
        *,
        stationary: bool = True,
        action_names: Sequence[str] = (),
        read: Callable[[str], str] = input,
        show: Callable[[str], None] = print,
    ) -> None:
        self.environment, self.stationary = environment, stationary
        self.names = list(action_names) or [str(environment.action(a)) for a in range(environment.n_actions)]
        self._read, self._show = read, show

    def answer(self, question: Question) -> int | None:
        """What the person types, asked again until it can be understood."""
        when = "" if self.stationary else f" at step {question.step}"
        self._show(f"You see{when}: {question.observation}")
        while True:
            try:
                typed = self._read(f"What do you do? [{', '.join(self.names)}; Enter: cannot say, q: stop] ").strip()
            except EOFError:
                typed = "q"
            if typed == "q":
                raise AnswerError("you stopped answering; all finished iterations are kept")
            if not typed:
                return None
            if typed in self.names:
                return self.names.index(typed)
            self._show(f"{typed!r} is not one of {', '.join(self.names)}.")
