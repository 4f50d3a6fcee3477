"""What a run has recovered in a Gymnasium environment, in the environment's own observations and actions."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from aceirl.counts import ExpertKind
from aceirl.envs.gymnasium import GymAdapter
from aceirl.envs.observations import NOWHERE, TERMINAL, StateIndex, plain
from aceirl.errors import InputError, shown
from aceirl.experts import Demonstration
from aceirl.mdp import FloatArray, IntArray
from aceirl.rewards import Explanation, RewardSpace
from aceirl.turns import Turn

MOST_SHOWN = 10  # actions in a message


@dataclass(frozen=True, eq=False)
class GymResult:
    """A recovered reward and the policy of a run, for observations instead of numbers of states.

    `reward [H, S, A]` is the run's table and `explanation` what it says of the expert. `policy [H, S]` does what the
    expert is known to do, and elsewhere what is best under the reward. If the reward is about `features` of
    observations, observations that were never met have a reward too. `elsewhere` is what an action in a state that was
    never met pays; None: what the reward says of such.
    """

    reward: FloatArray
    unknown_step_reward: float
    explanation: Explanation | None
    policy: IntArray
    answers: IntArray
    kind: ExpertKind
    states: StateIndex
    actions: tuple[Any, ...]
    features: Callable[[Any], Any] | None = None
    elsewhere: float | None = None

    @classmethod
    def of(cls, turn: Turn, environment: GymAdapter) -> GymResult:
        """From a turn of a run in that environment, usually its last."""
        if not turn.names:
            raise InputError("the run was not made in a Gymnasium environment")
        estimate, recovered, space = turn.belief.estimate, turn.belief.recovered, turn.settings.reward
        return cls(
            reward=recovered.reward,
            unknown_step_reward=recovered.unknown_step_reward,
            explanation=recovered.explanation,
            policy=turn.policy,
            answers=estimate.counts.answers,
            kind=estimate.kind,
            states=environment.states.numbered(turn.names),
            actions=environment.actions,
            features=None if isinstance(space, RewardSpace) else space,
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

        Beyond the horizon it is that of the last step.
        """
        number, step = self._number(action), min(step, len(self.payments) - 1)
        paid = self._payment(step, observation, number)
        return paid + self._payment(step, next_observation, None) if terminated else paid

    def _number(self, action: Any) -> int:
        number = self.numbers.get(_hashable(action))
        if number is None:
            known = ", ".join(shown(own) for own in self.actions[:MOST_SHOWN])
            more = ", ..." if len(self.actions) > MOST_SHOWN else ""
            raise InputError(f"the action {shown(action)} is none of this environment's: {known}{more}")
        return number

    def check(self, observation: Any) -> None:
        """Refuse what is no observation of the run's own environment; rewards and policies say something of more."""
        space = self.states.space
        try:
            known = self.states.find(observation) is not None or self.states.discretise is not None
        except InputError as error:
            raise _no_observation(space, observation) from error
        if not known and not _in_space(space, observation):
            raise _no_observation(space, observation)

    @cached_property
    def payments(self) -> FloatArray:
        """What is paid for an action in a state and, in a terminal state, for having arrived there by that step.

        `[1, S, A]`, or `[H, S, A]` if it depends on the step. Nothing is earned after the end of an episode. So a
        reward that hurries takes something from every step instead, and what a table has for the steps after the end
        is paid at once, less the most that any end has. Every policy loses alike by that.
        """
        told, ends = self._told, self._ends
        if told is not None:
            return np.asarray(told.paid - np.where(told.ends, 0.0, told.hurry)[:, None])[None]
        paid = self.reward - self._after[:, None, None]
        paid[:, ends] = _sum_of_later(paid[:, ends].max(axis=2))[:, :, None]
        return paid

    def _payment(self, step: int, observation: Any, action: int | None) -> float:
        """What is paid for an action or, if there is none, for the end of an episode."""
        state, told = self.states.find(observation, terminal=action is None), self._told
        if state is not None and state < self.payments.shape[1]:
            return float(self.payments[step, state, action or 0])
        if action is not None and self.elsewhere is not None:
            return self.elsewhere
        if told is None:
            unknown = self.unknown_step_reward - self._after
            return float((unknown if action is not None else _sum_of_later(unknown))[step])
        worth = 0.0
        if self.features is not None:
            weights = told.theta[: len(told.theta) - told.hurries]
            worth = float(np.atleast_1d(self.features(observation)) @ weights)
        return worth - (0.0 if action is None else told.hurry)

    @property
    def _told(self) -> Explanation | None:
        """The explanation, if it is in a space in which a reward does not depend on the step."""
        return None if self.explanation is None or self.explanation.space == "any" else self.explanation

    @cached_property
    def _after(self) -> FloatArray:
        """`[H]`: what each step is worth at most after the end of an episode, by the table."""
        return np.asarray(self.reward[:, self._ends].max(axis=(1, 2), initial=0.0))

    @property
    def _ends(self) -> list[int]:
        return sorted(self.states.terminal - {NOWHERE})

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
        """The reward as a table: a line for each parameter, or for what is paid at each step if it depends on that."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerows(self._payment_lines() if self._told is None else self._parameter_lines(self._told))

    def _parameter_lines(self, told: Explanation) -> Iterator[tuple[Any, ...]]:
        yield "observation", "terminal", "action", "reward"
        for k, (state, action, value) in enumerate(zip(told.states, told.actions, told.theta, strict=True)):
            if told.hurries and k == len(told.theta) - 1:
                yield "hurry", "", "", f"{value:.6g}"
            elif state < 0:
                yield f"feature {k}", "", "", f"{value:.6g}"
            elif state != NOWHERE:
                name, over = self.states.names[state].removeprefix(TERMINAL), int(state in self.states.terminal)
                yield name, over, "" if action < 0 else plain(self.actions[action]), f"{value:.6g}"

    def _payment_lines(self) -> Iterator[tuple[Any, ...]]:
        yield "step", "observation", "terminal", "action", "reward", "greedy"
        for step, state, action in np.ndindex(*self.payments.shape):
            name, paid = self.states.names[state].removeprefix(TERMINAL), f"{self.payments[step, state, action]:.6g}"
            if state not in self.states.terminal:
                yield step, name, 0, plain(self.actions[action]), paid, int(self.policy[step, state] == action)
            elif state != NOWHERE and action == 0:
                yield step, name, 1, "", paid, ""


def _sum_of_later(steps: FloatArray) -> FloatArray:
    """`Σ x[h'] over h' > h`, for `x [H, ...]`."""
    return np.asarray(steps[::-1].cumsum(axis=0)[::-1] - steps)


def _no_observation(space: spaces.Space[Any], observation: Any) -> InputError:
    return InputError(f"{shown(observation)} ({type(observation).__name__}) is no observation: it is not in {space}")


def _in_space(space: spaces.Space[Any], observation: Any) -> bool:
    """Whether a space holds an observation, whatever the type of its numbers."""
    match space:
        case spaces.Tuple():
            return all(_in_space(part, own) for part, own in zip(space.spaces, observation, strict=True))
        case spaces.Dict():
            return all(_in_space(part, observation[name]) for name, part in space.items())
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            return bool(space.contains(np.asarray(observation).astype(space.dtype)))
        case _:
            return bool(space.contains(observation))


def _hashable(action: Any) -> Any:
    return tuple(np.asarray(action).ravel().tolist())
