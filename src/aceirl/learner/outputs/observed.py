"""What a run has recovered, for observations: a reward, an environment that pays it, and a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from aceirl.envs.gymnasium import GymAdapter, actions_of
from aceirl.errors import InputError, shown
from aceirl.experts import Demonstration
from aceirl.learner.turns import Turn
from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.models.tabular.encoder import PADDING_STATE, StateIndex
from aceirl.models.tabular.estimate import ExpertKind
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards import Explanation, RewardSpace
from aceirl.rewards.spaces import described_by

MOST_SHOWN = 10  # actions in a message


@dataclass(frozen=True, eq=False)
class ObservedReward:
    """A recovered reward for the observations and actions of a Gymnasium environment.

    `reward [H, S, A]` is the run's table and `explanation` what it says of the expert. If the reward is about
    `features` of observations, observations that were never met have a reward too. `elsewhere` is what an action in a
    state that was never met pays; None: what the reward says of such. `unsought [S]` are ends that save no step cost;
    None: there are none.
    """

    reward: FloatArray
    unknown_step_reward: float
    explanation: Explanation | None
    states: StateIndex
    actions: tuple[Any, ...]
    features: Callable[[Any], Any] | None = None
    elsewhere: float | None = None
    unsought: BoolArray | None = None
    names: tuple[str, ...] = ()
    """What the features are called, if they have names."""

    @classmethod
    def of(cls, turn: Turn, environment: GymAdapter) -> ObservedReward:
        """From a turn of a run in that environment, usually its last."""
        recovered, space = turn.belief.recovered, turn.settings.reward
        return cls(
            reward=recovered.reward,
            unknown_step_reward=recovered.unknown_step_reward,
            explanation=recovered.explanation,
            states=states_of(turn, environment),
            actions=environment.actions,
            features=None if isinstance(space, RewardSpace) else space,
            names=() if turn.space is None else turn.space.names,
        )

    def __call__(
        self, observation: Any, action: Any, next_observation: Any = None, *, terminated: bool = False, step: int = 0
    ) -> float:
        """The reward of an action, and of the observation it led to if the episode is over then.

        Beyond the horizon it is that of the last step.
        """
        number, step = self._number(action), min(step, len(self.payments) - 1)
        paid = self._payment(step, observation, number)
        return paid + self._payment(step, next_observation, None) if terminated else paid

    def check(self, observation: Any) -> None:
        """Refuse what is no observation of the run's own environment; rewards and policies say something of more."""
        check_observation(self.states, observation)

    def _number(self, action: Any) -> int:
        number = self._numbers.get(_hashable(action))
        if number is None:
            known = ", ".join(shown(own) for own in self.actions[:MOST_SHOWN])
            more = ", ..." if len(self.actions) > MOST_SHOWN else ""
            raise InputError(f"the action {shown(action)} is not one of this environment's: {known}{more}")
        return number

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        """The number of each of the environment's own actions."""
        return {_hashable(action): number for number, action in enumerate(self.actions)}

    @cached_property
    def payments(self) -> FloatArray:
        """What is paid for an action in a state and, in a terminal state, for having arrived there by that step.

        `[1, S, A]`, or `[H, S, A]` if it depends on the step. Nothing is earned after the end of an episode. So a
        reward with a step cost takes it from every step instead, and what a table has for the steps after the end
        is paid at once, less the most that any end has. Every policy loses alike by that. An end that is not
        sought saves no step cost: that of a whole episode is taken at once.
        """
        told, ends = self.explained, self._ends
        if told is not None:
            spared = np.where(told.ends, 0.0, told.step_cost)
            if self.unsought is not None:
                spared = np.where(self.unsought, self._no_end, spared)
            return np.asarray(told.paid - spared[:, None])[None]
        paid = self.reward - self._after[:, None, None]
        paid[:, ends] = _sum_of_later(paid[:, ends].max(axis=2))[:, :, None]
        return paid

    def _payment(self, step: int, observation: Any, action: int | None) -> float:
        """What is paid for an action or, if there is none, for the end of an episode."""
        state, told = self.states.find(observation, terminal=action is None), self.explained
        if state is not None and state < self.payments.shape[1]:
            return float(self.payments[step, state, action or 0])
        if action is not None and self.elsewhere is not None:
            return self.elsewhere
        if told is None:
            unknown = self.unknown_step_reward - self._after
            return float((unknown if action is not None else _sum_of_later(unknown))[step])
        if self.features is not None:
            weights = told.theta[: len(told.theta) - told.has_step_cost]
            worth = float(described_by(self.features, observation)[1] @ weights)
            return worth - (0.0 if action is None else told.step_cost)
        return -(self._no_end if action is None else told.step_cost)

    @property
    def _no_end(self) -> float:
        """What an end that is not sought takes, as one that was never met: the step cost of a whole episode."""
        told = self.explained
        return 0.0 if told is None or self.unsought is None else told.step_cost * told.horizon

    @property
    def explained(self) -> Explanation | None:
        """The explanation, if it is in a space in which a reward does not depend on the step."""
        return None if self.explanation is None or self.explanation.space == "any" else self.explanation

    @cached_property
    def _after(self) -> FloatArray:
        """`[H]`: what each step is worth at most after the end of an episode, by the table."""
        return np.asarray(self.reward[:, self._ends].max(axis=(1, 2), initial=0.0))

    @property
    def _ends(self) -> list[int]:
        return sorted(self.states.terminal - {PADDING_STATE})


class RecoveredReward(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """The environment with the recovered reward in the place of its own; train any agent on it.

    The environment's own reward stays in `info["original_reward"]`. `elsewhere` is what an action pays in states that
    were never met, instead of what the reward says of such: -1 keeps an agent to what is known.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], paid: ObservedReward, elsewhere: float | None = None) -> None:
        if elsewhere is not None and not isinstance(elsewhere, int | float | np.number):
            raise InputError(f"elsewhere must be a number, such as -1, got {elsewhere!r}")
        check_spaces(env, paid)
        gymnasium.utils.RecordConstructorArgs.__init__(self, paid=paid, elsewhere=elsewhere)
        gymnasium.Wrapper.__init__(self, env)
        self._paid = replace(paid, elsewhere=elsewhere)
        self._observation: Any = None
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._observation, info = self.env.reset(seed=seed, options=options)
        self._step = 0
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; it is paid by the observation it was taken in, and by the one it ended the episode with."""
        observation, original, terminated, truncated, info = self.env.step(action)
        reward = self._paid(self._observation, action, observation, terminated=bool(terminated), step=self._step)
        self._observation, self._step = observation, self._step + 1
        return observation, reward, terminated, truncated, {**info, "original_reward": float(original)}


def _nothing_predicted(observation: Any) -> None:
    """Of an observation that was never met."""


@dataclass(frozen=True, eq=False)
class GreedyPolicy:
    """What the expert is known to do and elsewhere what is best under the reward: `policy [H, S]` for observations.

    It has the `predict` that Stable-Baselines3 and imitation know. It depends on the step, and the `state` that
    `predict` takes and returns is that step, one for each environment. `answers [H, S, A]` are those of an expert of a
    `kind`. On an observation that was never met it does what is `predicted`, where something is.
    """

    policy: IntArray
    answers: IntArray
    kind: ExpertKind
    states: StateIndex
    actions: tuple[Any, ...]
    predicted: Callable[[Any], int | None] = _nothing_predicted

    @classmethod
    def of(cls, turn: Turn, environment: GymAdapter) -> GreedyPolicy:
        """From a turn of a run in that environment, usually its last."""
        kind, states = turn.belief.estimate.kind, states_of(turn, environment)
        return cls(turn.policy, turn.counts.answers, kind, states, environment.actions, turn.predicted_action)

    def check(self, observation: Any) -> None:
        """Refuse what is no observation, nor a batch of them, of the run's own environment."""
        for seen in _batch(self.states.space, observation)[1]:
            check_observation(self.states, seen)

    def act(self, observation: Any, step: int) -> Any:
        """The action; where a state was never met, the one that is predicted, else the first."""
        state = self.states.find(observation)
        if state is None:
            return self.actions[self.predicted(observation) or 0]
        return self.actions[self.policy[min(step, len(self.policy) - 1), state]]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, tuple[Any, ...]]:
        """The actions for one observation or a batch of them, and the steps that come next."""
        single, batch = _batch(self.states.space, observation)
        steps = np.zeros(len(batch), dtype=np.int64) if state is None else np.asarray(state[0])
        if episode_start is not None:
            steps = np.where(episode_start, 0, steps)
        actions = [self.act(seen, int(step)) for seen, step in zip(batch, steps, strict=True)]
        # A single action is a number of NumPy, which tables of transitions take as a key; an array of none is not.
        return (np.asarray(actions[0])[()] if single else np.asarray(actions)), (steps + 1,)

    def expert_action(self, observation: Any, step: int) -> Any:
        """What the expert is known to do, most often if it varies; None where it was not asked."""
        state = self.states.find(observation)
        if state is None or step >= len(self.policy) or not self._known[step, state].any():
            return None
        return self.actions[self._known[step, state].argmax()]

    @cached_property
    def _known(self) -> IntArray:
        return self.kind.pooled(self.answers)

    def demonstrations(self) -> list[Demonstration]:
        """The expert's answers, each once for every time it was given."""
        return [
            Demonstration(self.states.observation(state), self.actions[action], step)
            for step, state, action in answers_given(self.answers, self.kind)
        ]


def unsought_ends(turn: Turn) -> BoolArray | None:
    """`[S]`: the ends at which the expert arrives no more often than by chance, and that the reward says nothing of.

    By chance is to do any of the actions that were tried. None if the reward has no step cost, or if that is so of all
    ends.
    """
    told, mdp = turn.explanation, turn.belief.estimate.mdp
    if told is None or told.repeats_answers or not told.step_cost > 0:
        return None
    tried = mdp.known | ~mdp.known.any(axis=2, keepdims=True)
    policies = np.eye(mdp.n_actions)[turn.policy], tried / tried.sum(axis=2, keepdims=True)
    own, by_chance = (occupancy(mdp, policy).sum(axis=(0, 2)) for policy in policies)
    led_to = told.ends & ((own > by_chance) | (told.paid != 0).any(axis=1))
    return np.asarray(told.ends & ~led_to) if led_to.any() else None


def answers_given(answers: IntArray, kind: ExpertKind) -> list[tuple[int | None, int, int]]:
    """`(step, state, action)` of `answers [H, S, A]`, each once for every time; no step if the expert has none."""
    times = np.repeat(np.argwhere(answers), answers[answers > 0], axis=0).tolist()
    return [(None if kind.stationary else step, state, action) for step, state, action in times]


def states_of(turn: Turn, environment: GymAdapter) -> StateIndex:
    """The states of a turn, as its environment tells observations apart."""
    if not turn.names:
        raise InputError("the run was not made in a Gymnasium environment")
    return environment.states.numbered(turn.names)


def check_spaces(env: gymnasium.Env[Any, Any], paid: ObservedReward) -> None:
    """Refuse an environment of other observations or actions than those that the reward is about.

    Features of observations, and bins, may know those of other spaces.
    """
    if isinstance(env, type):
        raise InputError(f"env is the class {env.__name__}; give an instance, {env.__name__}(...)")
    own, known = actions_of(env.action_space), paid.actions
    if len(own) != len(known) or not all(np.array_equal(a, b) for a, b in zip(own, known, strict=True)):
        raise InputError(
            f"the reward is about {len(known)} actions, and those of this environment are {env.action_space}"
        )
    space = paid.states.space
    if paid.features is None and not paid.states.binned and env.observation_space != space:
        raise InputError(
            f"the reward is about observations in {space}, and this environment's are {env.observation_space}"
        )


def check_observation(states: StateIndex, observation: Any) -> None:
    """Refuse what is no observation of the environment of these states."""
    cause = None
    try:
        known = states.find(observation) is not None or states.discretise is not None
    except InputError as error:
        known, cause = False, error
    if cause is not None or not (known or _in_space(states.space, observation)):
        told = f"{shown(observation)} ({type(observation).__name__})"
        raise InputError(f"{told} is not an observation of this environment: it is not in {states.space}") from cause


def _sum_of_later(steps: FloatArray) -> FloatArray:
    """`Σ x[h'] over h' > h`, for `x [H, ...]`."""
    return np.asarray(steps[::-1].cumsum(axis=0)[::-1] - steps)


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


def _batch(space: gymnasium.Space[Any], observation: Any) -> tuple[bool, list[Any]]:
    """Whether it is a single observation, and the observations; a batch of dictionaries is a dictionary of batches."""
    if space.contains(observation):
        return True, [observation]
    if isinstance(space, gymnasium.spaces.Dict):
        parts = {name: [np.reshape(row, part.shape or ()) for row in observation[name]] for name, part in space.items()}
        return False, [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    single = np.ndim(observation) == len(space.shape or ())
    return single, [observation] if single else list(observation)
