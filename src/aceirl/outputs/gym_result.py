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
from aceirl.envs.observations import NOWHERE, TERMINAL, StateIndex, plain
from aceirl.errors import InputError
from aceirl.experts import Demonstration
from aceirl.mdp import FloatArray, IntArray
from aceirl.rewards import Explanation
from aceirl.turns import Turn


@dataclass(frozen=True, eq=False)
class GymResult:
    """A recovered reward and the policy of a run, for observations instead of numbers of states.

    `reward [H, S, A]` is the run's table and `explanation` what it says of the expert. `policy [H, S]` does what the
    expert is known to do, and elsewhere what is best under the reward.
    """

    reward: FloatArray
    unknown_step_reward: float
    explanation: Explanation | None
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
        return cls(
            reward=recovered.reward,
            unknown_step_reward=recovered.unknown_step_reward,
            explanation=recovered.explanation,
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

    def __call__(
        self, observation: Any, action: Any, step: int, next_observation: Any = None, *, terminated: bool = False
    ) -> float:
        """The reward of an action, and of the observation it led to if the episode is over then.

        Nothing is earned after the end of an episode: a reward that hurries takes something from every step instead.
        Beyond the horizon the reward is that of the last step.
        """
        state, number = self.states.find(observation), self.numbers[_hashable(action)]
        end = self.states.find(next_observation, terminal=True) if terminated else None
        if self._payments is None:
            return self._paid_from_table(min(step, self.horizon - 1), state, number, end)
        acting, arriving, hurry = self._payments
        here = 0.0 if state is None else float(acting[state, number])
        return here - hurry + (0.0 if end is None else float(arriving[end]))

    @cached_property
    def _payments(self) -> tuple[FloatArray, FloatArray, float] | None:
        """`(acting [S, A], arriving [S], hurry)` of a reward in a space of states; None for a table."""
        told = self.explanation
        if told is None or told.space not in ("state", "state-action"):
            return None
        acting, arriving = np.zeros(self.reward.shape[1:]), np.zeros(self.reward.shape[1])
        for state, action, value in zip(told.states, told.actions, told.theta, strict=True):
            if state in self.states.terminal:
                arriving[state] += value
            elif state >= 0:
                acting[state, slice(None) if action < 0 else action] += value
        return acting, arriving, told.hurry

    def _paid_from_table(self, step: int, state: int | None, action: int, end: int | None) -> float:
        """What the table has, less what each step after the end is worth at most; an end is paid for at once."""
        after = self.reward[:, sorted(self.states.terminal)].max(axis=(1, 2))
        here = self.unknown_step_reward if state is None else self.reward[step, state, action]
        rest = 0.0 if end is None else float((self.reward[step + 1 :, end, 0] - after[step + 1 :]).sum())
        return float(here - after[step]) + rest

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
        """The reward as a table: what each parameter is about, and its value; or step, observation, action, reward."""
        told = self.explanation
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            if told is None or self._payments is None:
                writer.writerow(("step", "observation", "action", "reward", "greedy"))
                for step, state, action in np.ndindex(*self.reward.shape):
                    if state not in self.states.terminal:
                        entry = (step, self.states.names[state], plain(self.actions[action]))
                        chosen = int(self.policy[step, state] == action)
                        writer.writerow((*entry, f"{self.reward[step, state, action]:.6g}", chosen))
                return
            writer.writerow(("observation", "terminal", "action", "reward"))
            for state, action, value in zip(told.states, told.actions, told.theta, strict=True):
                if state == NOWHERE:
                    continue
                name = "hurry" if state < 0 else self.states.names[state].removeprefix(TERMINAL)
                over = int(state in self.states.terminal)
                writer.writerow((name, over, "" if action < 0 else plain(self.actions[action]), f"{value:.6g}"))


def _hashable(action: Any) -> Any:
    return tuple(np.asarray(action).ravel().tolist())
