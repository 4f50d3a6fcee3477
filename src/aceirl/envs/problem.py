"""A problem to try the software on: dynamics, the true reward, an expert, and how to draw it all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from aceirl.envs.layout import Layout
from aceirl.errors import InputError
from aceirl.models.tabular.dynamic_programming import TIE_TOLERANCE, greedy_actions, optimal_values
from aceirl.models.tabular.mdp import MDP, FloatArray, Transitions, check_policy, check_reward

Moves = Iterator[tuple[int, int, int, float]]
"""Moves `(s, a, s', probability)` of stationary dynamics."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Dynamics and an expert, and the truth that only an evaluation may see.

    Shapes: `reward [H, S, A]` between 0 and `rmax`, `expert [H, S, A]`, the probabilities of the expert's actions.
    """

    name: str
    mdp: MDP
    reward: FloatArray
    expert: FloatArray
    layout: Layout
    rmax: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        self.mdp.require_complete()
        shape = self.mdp.shape
        object.__setattr__(self, "reward", check_reward(self.reward, shape))
        object.__setattr__(self, "expert", check_policy(self.expert, shape, name="expert"))
        outside = (self.reward < 0) | (self.reward > self.rmax)
        if outside.any():
            index = tuple(np.argwhere(outside)[0])
            entry = [int(i) for i in index]
            raise InputError(f"reward{entry} is {self.reward[index]}, not between 0 and {self.rmax:g}")
        if (self.layout.n_states, self.layout.n_actions) != shape[1:]:
            raise InputError(
                f"layout has {self.layout.n_states} states and {self.layout.n_actions} actions, "
                f"but mdp has {shape[1]} and {shape[2]}"
            )

    @classmethod
    def solved(cls, name: str, mdp: MDP, reward: ArrayLike, layout: Layout, rng: np.random.Generator) -> Problem:
        """With an optimal, deterministic expert for `reward [H, S, A]` or `[S, A]`; ties are broken by `rng`."""
        truth = check_reward(reward, mdp.shape)
        q, _ = optimal_values(mdp, truth)
        return cls(name, mdp, truth, np.eye(mdp.n_actions)[greedy_actions(q, rng)], layout)

    def discounted(self, discount: float) -> Problem:
        """The same with rewards that are worth `discount` as much a step later, and an expert who is best for these.

        Of several best actions it takes the one that it took without, if that is one of them.
        """
        if discount == self.mdp.discount:
            return self
        mdp = replace(self.mdp, discount=discount)
        q, v = optimal_values(mdp, self.reward)
        best = q >= v[:, :, None] - TIE_TOLERANCE * float(np.abs(q).max())
        before = self.expert > 0
        taken = np.where((best & before).any(axis=2, keepdims=True), best & before, best)
        return replace(self, mdp=mdp, expert=np.eye(mdp.n_actions)[taken.argmax(axis=2)])

    @classmethod
    def of_moves(
        cls,
        name: str,
        moves: Moves,
        layout: Layout,
        goals: Sequence[int],
        *,
        horizon: int,
        start: int | FloatArray,
        rng: np.random.Generator,
    ) -> Problem:
        """The states and actions of a layout, with these moves; every step in one of the `goals` pays 1.

        Episodes `start` in a state, or by a distribution `[S]`.
        """
        n_states = layout.n_states
        initial = np.eye(n_states)[start] if isinstance(start, int) else start
        mdp = from_moves(moves, n_states=n_states, n_actions=layout.n_actions, horizon=horizon, initial=initial)
        reward = np.zeros(mdp.shape)
        reward[:, goals] = 1.0
        return cls.solved(name, mdp, reward, layout, rng)


def from_moves(
    moves: Iterable[tuple[int, int, int, float]] | FloatArray,
    *,
    n_states: int,
    n_actions: int,
    horizon: int,
    initial: ArrayLike,
) -> MDP:
    """Stationary dynamics from moves `(s, a, s', probability)`.

    A move named twice adds up (two outcomes may end in the same cell); those of probability zero are dropped.
    """
    *places, weight = np.array(moves if isinstance(moves, np.ndarray) else list(moves), dtype=np.float64).T
    state, action, successor = (column.astype(np.int64) for column in places)
    keys, which = np.unique((state * n_actions + action) * n_states + successor, return_inverse=True)
    probability = np.asarray(np.bincount(which, weights=weight), dtype=np.float64)
    keys, probability = keys[probability > 0], probability[probability > 0]
    transitions = Transitions(
        n_states=n_states,
        n_actions=n_actions,
        indptr=np.searchsorted(keys, np.arange(n_states * n_actions + 1) * n_states),
        successors=(keys % n_states).astype(np.int32),
        probabilities=probability,
    )
    return MDP(horizon, transitions, np.asarray(initial, dtype=np.float64))


def check_count(name: str, value: int, minimum: int = 1) -> int:
    """A whole number of at least the minimum, or an error with the argument's name."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise InputError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    return int(value)


def check_counts(**values: int) -> None:
    """Whole numbers of at least 1, by the names of the arguments."""
    for name, value in values.items():
        check_count(name, value)


def check_probabilities(**values: float) -> None:
    """Numbers in `[0, 1]`, by the names of the arguments."""
    for name, value in values.items():
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not number or not 0 <= value <= 1:
            raise InputError(f"{name} must be a probability between 0 and 1, got {value!r}")
