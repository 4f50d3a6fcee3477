"""The exact model of a Gymnasium environment, for experts and evaluations that ask for it, never for the learner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import scipy

from aceirl.envs.blackjack import STICK, blackjack_moves, blackjack_starts, natural_values
from aceirl.envs.families import is_a, is_wrapped
from aceirl.envs.problem import from_moves
from aceirl.envs.search import Row, Say, log, sampled, searched
from aceirl.errors import InputError
from aceirl.models.tabular.dynamic_programming import evaluate, optimal_values
from aceirl.models.tabular.encoder import Discretise, StateIndex
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray, check_policy, check_reward
from aceirl.models.tabular.metrics import Truth

# Policy iteration needs a handful of improvements; more would be a circle of rounding errors.
MAX_IMPROVEMENTS = 1_000


@dataclass(frozen=True, eq=False)
class ExactModel:
    """Dynamics, the environment's own reward `[H, S, A]`, and the numbers of the states in both."""

    mdp: MDP
    reward: FloatArray
    states: StateIndex

    def expert(self) -> IntArray:
        """`[H, S]`: the best action for the steps that are left; of several, the one that gets there soonest."""
        return _optimal_policy(self.mdp, self.reward)

    def stationary_expert(self) -> IntArray:
        """`[S]`: the best of a few policies that do not look at the step; see `stationary_policy`."""
        return stationary_policy(self.mdp, self.reward)

    def regret(self, states: StateIndex) -> Callable[[IntArray], float]:
        """What a policy loses by the environment's own reward, where states are numbered as they are met."""
        truth, renumbered = Truth(self.mdp, self.reward), Renumbered(self, states)
        return lambda policy: truth.regret(renumbered(policy))

    def discounted(self, discount: float) -> ExactModel:
        """The same where a reward one step later is worth `discount` as much."""
        return replace(self, mdp=replace(self.mdp, discount=discount))

    @property
    def max_return(self) -> float:
        """How far the returns of two episodes can lie apart."""
        return _largest_return(self.mdp, self.reward) + _largest_return(self.mdp, -self.reward)


class Renumbered:
    """Policies of states that are numbered otherwise, as they are met, as policies of a model."""

    def __init__(self, model: ExactModel, states: StateIndex) -> None:
        self.model, self.states = model, states
        self._names: tuple[str, ...] = ()
        self._numbers: list[int] = []  # of the model, by the states in which one acts; -1 for others
        self._unmet = np.full(model.mdp.shape[:2], -1)
        self._unmet[:, list(model.states.terminal)] = 0

    def __call__(self, policy: IntArray) -> IntArray:
        """Actions `[H, S]` from actions `[H, S']`; -1, which is any, in states that were not met.

        After the end all actions are the same.
        """
        names = self.states.names
        if names is not self._names:
            if names[: len(self._names)] != self._names:  # they were numbered anew
                self._numbers = []
            for number in range(len(self._numbers), len(names)):
                over = number in self.states.terminal
                found = None if over else self.model.states.find(self.states.observation(number))
                self._numbers.append(-1 if found is None else found)
            self._names = names
        numbers, actions = np.array(self._numbers), self._unmet.copy()
        acting = np.flatnonzero(numbers >= 0)
        actions[:, numbers[acting]] = policy[:, acting]
        return actions


def stationary_policy(mdp: MDP, reward: FloatArray) -> IntArray:
    """`[S]`: the best, for a reward `[H, S, A]`, of a few policies that do not look at the step.

    They are the best first actions for this horizon, and the best ones for discounts of about its length.
    """
    discounts = [1 - share / mdp.horizon for share in (0.1, 0.3, 1.0, 3.0) if share < mdp.horizon]
    policies = [
        _optimal_policy(mdp, reward)[0],
        *(_discounted(mdp, reward, discount).argmax(axis=1) for discount in discounts),
    ]

    def value(actions: IntArray) -> float:
        return float(mdp.initial @ evaluate(mdp, reward, check_policy(actions, mdp.shape))[1][0])

    return max(policies, key=value)


def _optimal_policy(mdp: MDP, reward: FloatArray) -> IntArray:
    q, _ = optimal_values(mdp, reward)
    # Values that differ by rounding alone are equal, else a tie would be broken differently at every step.
    rounding = 1e-9 * float(np.abs(q).max())
    best = q >= q.max(axis=2, keepdims=True) - rounding
    return np.asarray(np.where(best, _discounted(mdp, reward, 1 - 1 / mdp.horizon), -np.inf).argmax(axis=2))


def _discounted(mdp: MDP, reward: FloatArray, discount: float) -> FloatArray:
    """`Q [S, A]` of an endless episode in which later rewards count still less, by policy iteration."""
    paid, transitions = reward.mean(axis=0), mdp.backup.matrix
    states, q = np.arange(mdp.n_states), paid
    policy = q.argmax(axis=1)
    for _ in range(MAX_IMPROVEMENTS):
        followed = transitions[states * mdp.n_actions + policy]
        v = scipy.sparse.linalg.spsolve(
            scipy.sparse.csc_array(scipy.sparse.eye_array(mdp.n_states) - discount * followed), paid[states, policy]
        )
        q = paid + discount * (transitions @ v).reshape(paid.shape)
        better = q.max(axis=1) > v + 1e-9 * float(np.abs(v).max())
        if not better.any():
            break
        policy = np.where(better, q.argmax(axis=1), policy)
    return np.asarray(q)


def exact_model(env: gymnasium.Env[Any, Any], horizon: int, n_actions: int, say: Say = log) -> ExactModel:
    """The exact model: from the table `P` of a toy-text environment, from Blackjack's rules, or by exhaustive search.

    The search copies the environment and tries every action in every state, so it needs one that is deterministic;
    `say` is told how far it is.
    """
    inner: Any = env.unwrapped
    if getattr(inner, "fickle_passenger", False):
        raise InputError("a fickle passenger is not in the table P, so there is no exact model; use another expert")
    minigrid = is_a(env, "MiniGridEnv", "minigrid")
    if minigrid and is_wrapped(env, "RewardWrapper"):
        raise InputError("a wrapper changes MiniGrid's rewards, so there is no exact model; use another expert")
    if is_a(env, "BlackjackEnv", "gymnasium"):
        _require_unchanged(env)
        model = model_of(blackjack_moves(), blackjack_starts(), env, horizon, n_actions)
        return _with_naturals(model, natural_values(natural=inner.natural, sab=inner.sab))
    if hasattr(inner, "P") and hasattr(inner, "initial_state_distrib"):
        _require_unchanged(env)
        return model_of(_table_rows(inner.P), list(enumerate(inner.initial_state_distrib)), env, horizon, n_actions)
    rows, start = searched(env, say)
    model = model_of(rows, [(start, 1.0)], env, horizon, n_actions)
    return _paid_by_speed(model, inner.max_steps) if minigrid else model


def sampled_model(
    env: gymnasium.Env[Any, Any], horizon: int, discretise: Discretise | None = None, say: Say = log
) -> tuple[ExactModel, int]:
    """The model of any environment, estimated from steps in it, and how many these were; its reward is a mean too."""
    found = sampled(env, discretise, say)
    n_states, n_actions = len(found.states), len(found.actions)
    mdp = from_moves(found.moves, n_states=n_states, n_actions=n_actions, horizon=horizon, initial=found.initial)
    return ExactModel(mdp, check_reward(found.reward, mdp.shape), found.states), found.steps


def _require_unchanged(env: gymnasium.Env[Any, Any]) -> None:
    """The rules are those of the environment itself: a wrapper that changes it changes them too."""
    changing = ("ObservationWrapper", "ActionWrapper", "RewardWrapper")
    if env.observation_space != env.unwrapped.observation_space or is_wrapped(env, *changing):
        raise InputError("a wrapper changes the environment, so its own model does not describe it; use another expert")


def _table_rows(table: Any) -> Iterable[Row]:
    return ((state, action, outcomes) for state, row in table.items() for action, outcomes in row.items())


def model_of(
    rows: Iterable[Row],
    starts: Iterable[tuple[Any, float]],
    env: gymnasium.Env[Any, Any],
    horizon: int,
    n_actions: int,
) -> ExactModel:
    """The model of these rows and starts.

    Outcomes with one successor add up, episodes that are over stay where they are, and rewards are averaged.
    """
    states = StateIndex(env.observation_space)
    moves = []
    earned: dict[tuple[int, int], float] = {}
    for observation, action, outcomes in rows:
        state = states.number(observation)
        for probability, successor, reward, terminated in outcomes:
            moves.append((state, action, states.number(successor, terminal=terminated), probability))
            earned[state, action] = earned.get((state, action), 0.0) + probability * reward
    begun = [(states.number(observation), probability) for observation, probability in starts]
    moves += [(state, action, state, 1.0) for state in states.terminal for action in range(n_actions)]
    initial = np.bincount([s for s, _ in begun], weights=[p for _, p in begun], minlength=len(states))
    reward_table = np.zeros((len(states), n_actions))
    for entry, value in earned.items():
        reward_table[entry] = value
    mdp = from_moves(moves, n_states=len(states), n_actions=n_actions, horizon=horizon, initial=initial)
    return ExactModel(mdp, check_reward(reward_table, mdp.shape), states)


def _with_naturals(model: ExactModel, values: dict[tuple[int, int, int], float]) -> ExactModel:
    """Blackjack pays a natural by rules of its own, and only the first step can have one."""
    reward = model.reward.copy()
    for observation, value in values.items():
        reward[0, model.states.number(observation), STICK] = value
    return ExactModel(model.mdp, reward, model.states)


def _paid_by_speed(model: ExactModel, max_steps: int) -> ExactModel:
    """MiniGrid pays `1 - 0.9·steps/max_steps` on arrival: its reward depends on the step, and the search saw one."""
    steps = np.arange(1, model.mdp.horizon + 1)
    paid = 1 - 0.9 * steps / max_steps
    return ExactModel(model.mdp, np.where(model.reward > 0, paid[:, None, None], 0.0), model.states)


def _largest_return(mdp: MDP, reward: FloatArray) -> float:
    """The largest discounted return of any episode that can happen, whoever acts."""
    rows, best = mdp.transitions, np.zeros(mdp.n_states)
    for h in reversed(range(mdp.horizon)):
        first = h * rows.stride
        ends = rows.indptr[first : first + mdp.n_states * mdp.n_actions + 1]
        after = np.maximum.reduceat(best[rows.successors[ends[0] : ends[-1]]], ends[:-1] - ends[0])
        best = (reward[h] + mdp.discount * after.reshape(reward[h].shape)).max(axis=1)
    return float(best[mdp.initial > 0].max())
