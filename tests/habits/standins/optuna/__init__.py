"""The part of Optuna's protocol that the scripts use, for machines where it is not installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class TrialPruned(Exception):
    """A trial that was given up."""


class Trial:
    """One call of the objective: choices are taken in turn, and every second trial shall be pruned early."""

    def __init__(self, number: int) -> None:
        self.number, self.params, self.reports = number, {}, {}

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        """One of the choices."""
        self.params[name] = choices[self.number % len(choices)]
        return self.params[name]

    def report(self, value: float, step: int) -> None:
        """A number on the way."""
        self.reports[int(step)] = float(value)

    def should_prune(self) -> bool:
        """Whether to give up."""
        return self.number % 2 == 1 and len(self.reports) >= 3


class Study:
    """The trials and the best of them."""

    def __init__(self, direction: str) -> None:
        self.sign, self.trials, self.pruned = (1 if direction == "minimize" else -1), [], []

    def optimize(self, objective: Callable[[Trial], float], n_trials: int) -> None:
        """Call the objective that often."""
        for number in range(n_trials):
            trial = Trial(number)
            try:
                self.trials.append((self.sign * objective(trial), number, trial))
            except TrialPruned:
                self.pruned.append(trial)

    @property
    def best_params(self) -> dict[str, Any]:
        """The parameters of the best trial."""
        return min(self.trials)[2].params


def create_study(direction: str = "minimize") -> Study:
    """A new study."""
    return Study(direction)
