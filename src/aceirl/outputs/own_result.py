"""What a run has recovered in an environment without observations, by the names of its states and actions."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.turns import Turn


@dataclass(frozen=True, eq=False)
class OwnResult:
    """A turn of a run in an environment whose states are called `names [S]` and whose actions `actions [A]`."""

    turn: Turn
    names: Sequence[str]
    actions: Sequence[str] = ()

    @property
    def _actions(self) -> Sequence[str]:
        return self.actions or [f"action {a}" for a in range(self.turn.counts.shape[2])]

    def save_demonstrations(self, path: Path) -> None:
        """The answers as lines of JSON, each once for every time it was given."""
        answers, stationary = self.turn.counts.answers, self.turn.belief.estimate.kind.stationary
        lines = [
            {
                "step": None if stationary else int(step),
                "observation": self.names[state],
                "action": int(action),
                "action_name": self._actions[action],
            }
            for step, state, action in np.argwhere(answers)
            for _ in range(answers[step, state, action])
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def save_table(self, path: Path) -> None:
        """The reward as a table: a line for each parameter, or for each step if it depends on that."""
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(self._lines())

    def _lines(self) -> Iterator[tuple[Any, ...]]:
        told, states, actions = self.turn.explanation, self.names, self._actions
        if told is None or told.space == "any":
            yield "step", "state", "action", "reward", "greedy"
            reward, policy = self.turn.belief.recovered.reward, self.turn.policy
            for step, state, action in np.ndindex(*reward.shape):
                value, greedy = f"{reward[step, state, action]:.6g}", int(policy[step, state] == action)
                yield step, states[state], actions[action], value, greedy
            return
        yield "state", "action", "reward"
        for k, (state, action, value) in enumerate(zip(told.states, told.actions, told.theta, strict=True)):
            if told.hurries and k == len(told.theta) - 1:
                yield "hurry", "", f"{value:.6g}"
            else:
                name = f"feature {k}" if state < 0 else states[state]
                yield name, "" if action < 0 else actions[action], f"{value:.6g}"
