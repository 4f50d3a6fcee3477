"""An expert who is no longer there: a log of what it observed and did, replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.errors import InputError
from aceirl.experts.function import own_action
from aceirl.protocols import ObservableEnvironment, Question

# What the demonstrations in the folder of an interview, or of a run that was exported, are called.
DEMONSTRATIONS = "demonstrations.jsonl"


@dataclass(frozen=True)
class Demonstration:
    """One thing the expert did; without a step, it is taken to do so at any."""

    observation: Any
    action: Any
    step: int | None = None


class DemonstrationExpert:
    """Answers what the log says, and nothing where the log is silent.

    It is stationary if no entry names its step, and deterministic if no two entries disagree about an observation; else
    it answers with one of the logged actions, each as likely as it is frequent.
    """

    def __init__(self, log: Iterable[Demonstration], environment: ObservableEnvironment) -> None:
        self.environment = environment
        entries = list(log)
        self.stationary = all(entry.step is None for entry in entries)
        self.actions: dict[Hashable, list[int]] = {}
        for number, entry in enumerate(entries, start=1):
            if not self.stationary and entry.step is None:
                raise InputError(f"demonstration {number} has no step, but others have")
            if entry.step is not None and (isinstance(entry.step, bool) or not isinstance(entry.step, int)):
                raise InputError(f"demonstration {number} has the step {entry.step!r}, which is not a whole number")
            if entry.step is not None and not 0 <= entry.step < environment.horizon:
                last = environment.horizon - 1
                raise InputError(f"demonstration {number} has the step {entry.step}; steps are 0 to {last}")
            action = own_action(environment, entry.action, entry.observation)
            if action is None:
                raise InputError(f"demonstration {number} has no action")
            self.actions.setdefault(self._question(entry.step, entry.observation), []).append(action)
        self.deterministic = all(len(set(actions)) == 1 for actions in self.actions.values())

    @classmethod
    def load(cls, path: Path, environment: ObservableEnvironment) -> DemonstrationExpert:
        """From a `.npz` with `observations`, `actions` and perhaps `steps`, or from lines of JSON, one for each.

        The folder of an interview has such lines too; there may be none, of a person who never knew.
        """
        entries = read_log(path, environment.read_observation)
        if not entries and not path.is_dir():
            raise InputError(f"the demonstrations in {path} are empty")
        return cls(entries, environment)

    @property
    def ask_again(self) -> float:
        """A log says nothing of the other observations that fall into a bin."""
        return 1.0 if self.environment.binned else 0.0

    def answer(self, question: Question) -> int | None:
        """What the log says of the state."""
        actions = self.actions.get(self._question(question.step, question.observation))
        if actions is None or (question.again and self.deterministic):
            return None
        return actions[question.rng.integers(len(actions))]

    def _question(self, step: int | None, observation: Any) -> Hashable:
        return (None if self.stationary else step, self.environment.key(observation))


def read_log(path: Path, read: Callable[[Any], Any]) -> list[Demonstration]:
    """The demonstrations in a file, or in a folder that has some; `read` turns JSON into observations."""
    if path.is_dir():
        folder, path = path, path / DEMONSTRATIONS
        if not path.exists():
            raise InputError(
                f"{folder} has no {DEMONSTRATIONS}: an interview has it when it is finished, a run when it is exported"
            )
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                steps = file["steps"].tolist() if "steps" in file else [None] * len(file["actions"])
                columns = file["observations"], file["actions"], steps
                return [Demonstration(*entry) for entry in zip(*columns, strict=True)]
        lines = enumerate(path.read_text().splitlines(), start=1)
        return [_entry(path, number, line, read) for number, line in lines if line.strip()]
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file of demonstrations {path}") from None
    except KeyError as error:
        raise InputError(f"{path} has no {error.args[0]!r}; an entry needs an observation and an action") from None
    except Exception as error:
        raise InputError(f"{path} cannot be read as demonstrations: {type(error).__name__}: {error}") from None


def _entry(path: Path, number: int, line: str, read: Callable[[Any], Any]) -> Demonstration:
    try:
        entry = json.loads(line)
        return Demonstration(read(entry["observation"]), entry["action"], entry.get("step"))
    except KeyError as error:
        raise InputError(f"{path}, line {number} has no {error.args[0]!r}") from None
    except Exception as error:
        raise InputError(f"{path}, line {number} cannot be read: {type(error).__name__}: {error}") from None
