"""What a run has recovered in a Gymnasium environment, in the environment's own observations and actions."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.counts import ExpertKind
from aceirl.envs.gymnasium import GymAdapter
from aceirl.envs.observations import END, StateIndex, plain
from aceirl.errors import InputError
from aceirl.experts import Demonstration
from aceirl.mdp import FloatArray, IntArray
from aceirl.turns import Turn


@dataclass(frozen=True, eq=False)
class GymResult:
    """A recovered reward and its greedy policy, for observations instead of numbers of states.

    `reward [H, S, A]` is the run's, moved so that nothing is earned after the end of an episode: from each step the
    same is taken everywhere, and as every episode has `H` steps, with those after its end, all policies lose alike.
    `unknown_step_reward [H]` is what a state that was never met earns.
    """

    reward: FloatArray
    unknown_step_reward: FloatArray
    policy: IntArray
    answers: IntArray
    kind: ExpertKind
    states: StateIndex
    actions: tuple[Any, ...]

    @classmethod
    def of(cls, turn: Turn, environment: GymAdapter) -> GymResult:
        """From a turn of a run in that environment, usually its last."""
        if not turn.names:
            raise InputError("the run was not made in a Gymnasium environment")
        estimate, recovered = turn.belief.estimate, turn.belief.recovered
        after_end = recovered.reward[:, END].max(axis=1)
        return cls(
            reward=recovered.reward - after_end[:, None, None],
            unknown_step_reward=recovered.unknown_step_reward - after_end,
            policy=turn.policy,
            answers=estimate.counts.answers,
            kind=estimate.kind,
            states=environment.states.numbered(turn.names),
            actions=environment.actions,
        )

    @property
    def horizon(self) -> int:
        """How many steps an episode has."""
        return len(self.reward)

    @cached_property
    def numbers(self) -> dict[Any, int]:
        """The number of each of the environment's own actions."""
        return {_hashable(action): number for number, action in enumerate(self.actions)}

    def __call__(self, observation: Any, action: Any, step: int) -> float:
        """The reward of an action; beyond the horizon that of the last step."""
        step, state = min(step, self.horizon - 1), self.states.find(observation)
        if state is None:
            return float(self.unknown_step_reward[step])
        return float(self.reward[step, state, self.numbers[_hashable(action)]])

    def act(self, observation: Any, step: int) -> Any:
        """The greedy action; where a state was never met, the first."""
        state = self.states.find(observation)
        return self.actions[0 if state is None else self.policy[min(step, self.horizon - 1), state]]

    def expert_action(self, observation: Any, step: int) -> Any:
        """What the expert is known to do, most often if it varies; None where it was not asked."""
        state = self.states.find(observation)
        if state is None or step >= self.horizon or not self._known[step, state].any():
            return None
        return self.actions[self._known[step, state].argmax()]

    @cached_property
    def _known(self) -> IntArray:
        return self.kind.pooled(self.answers)

    def demonstrations(self) -> list[Demonstration]:
        """The expert's answers, each once for every time it was given."""
        return [
            Demonstration(
                self.states.observation(state), self.actions[action], None if self.kind.stationary else int(step)
            )
            for step, state, action in np.argwhere(self.answers)
            for _ in range(self.answers[step, state, action])
        ]

    def save_demonstrations(self, path: Path) -> None:
        """The answers as lines of JSON, which `DemonstrationExpert` can replay."""
        lines = [
            {"step": entry.step, "observation": plain(entry.observation), "action": plain(entry.action)}
            for entry in self.demonstrations()
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def save_table(self, path: Path) -> None:
        """The reward as a table: step, observation, action, reward, and whether the greedy policy takes it."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("step", "observation", "action", "reward", "greedy"))
            for step, state, action in np.ndindex(*self.reward.shape):
                if state != END:
                    entry = (step, self.states.names[state], plain(self.actions[action]))
                    greedy = int(self.policy[step, state] == action)
                    writer.writerow((*entry, f"{self.reward[step, state, action]:.6g}", greedy))


def _hashable(action: Any) -> Any:
    return tuple(np.asarray(action).ravel().tolist())
