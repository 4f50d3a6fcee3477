"""Experts that are functions, of numbered states or of observations, and models with `predict`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aceirl.errors import AnswerError, cause, shown
from aceirl.protocols import ObservableEnvironment, Question


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


class ObservationExpert:
    """Answers by calling `function(observation)`, or `function(observation, step)` if it takes two arguments.

    The answer is one of the environment's own actions, or None for "I cannot say". A function of the observation alone
    is stationary; whether it is deterministic has to be said. A stochastic one should have a parameter `rng`, and is
    given the run's own generator: with another source of randomness, a run cannot be repeated. It is called wherever an
    episode goes, in case it looks at more than the state; `ask_again=0` says that it does not.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        environment: ObservableEnvironment,
        *,
        deterministic: bool = True,
        ask_again: float = 1.0,
    ) -> None:
        self.function, self.environment = function, environment
        self.deterministic, self.ask_again = deterministic, ask_again
        self.stationary = not takes_step(function)
        self._takes_rng = "rng" in parameters_of(function)

    def answer(self, question: Question) -> int | None:
        """What the function says of the observation that was met."""
        observation = question.observation
        known = (observation,) if self.stationary else (observation, question.step)
        try:
            action = self.function(*known, rng=question.rng) if self._takes_rng else self.function(*known)
        except Exception as error:
            raise AnswerError(f"the expert failed on the observation {shown(observation)}: {cause(error)}") from error
        return own_action(self.environment, action, observation)


class PredictExpert:
    """Anything with `predict(observation, deterministic=...)` that returns an action and its memory, which is ignored.

    Models of Stable-Baselines3 and policies of imitation are of this kind. Unless it is `deterministic`, the model is
    a stochastic expert.
    """

    stationary = True
    ask_again = 1.0

    def __init__(self, model: Any, environment: ObservableEnvironment, *, deterministic: bool = True) -> None:
        self.model, self.environment = model, environment
        self.deterministic = deterministic

    def answer(self, question: Question) -> int | None:
        """What the model predicts for the observation that was met."""
        action, _ = self.model.predict(question.observation, deterministic=self.deterministic)
        return own_action(self.environment, action, question.observation)


def own_action(environment: ObservableEnvironment, action: Any, observation: Any) -> int | None:
    """The number of an action, None for None; an error if it is not one of the environment's."""
    if action is None:
        return None
    number = environment.action_number(action)
    if number is None:
        last = environment.action(environment.n_actions - 1)
        raise AnswerError(
            f"the expert answered {shown(action)} to the observation {shown(observation)}; "
            f"actions are {environment.action(0)} to {last}"
        )
    return number


def takes_step(function: Callable[..., Any]) -> bool:
    """Whether a function wants the step besides the observation."""
    parameters = [parameter for name, parameter in parameters_of(function).items() if name != "rng"]
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(needed) >= 2


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
