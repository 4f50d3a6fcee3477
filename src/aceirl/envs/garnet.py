"""GARNET: generic average random processes, with few successors each. Archibald, McKinnon and Thomas (1995)."""

from __future__ import annotations

import numpy as np

from aceirl.envs.problem import Moves, Problem, check_counts
from aceirl.envs.random_mdp import ring_layout
from aceirl.errors import InputError


def garnet(
    rng: np.random.Generator,
    *,
    n_states: int = 10,
    n_actions: int = 3,
    branching: int = 2,
    horizon: int = 10,
    rewarded: int = 1,
) -> Problem:
    """Each action of each state leads to `branching` states, drawn without repetition.

    Their probabilities are the pieces of the unit interval cut at `branching - 1` uniform points. The last `rewarded`
    states pay 1 a step; episodes start in the first. Differs from the source: rewards are few, and not normal.
    """
    check_counts(n_states=n_states, n_actions=n_actions, horizon=horizon, branching=branching, rewarded=rewarded)
    if max(branching, rewarded) > n_states:
        raise InputError(f"branching {branching} and rewarded {rewarded} must be at most n_states, {n_states}")

    def moves() -> Moves:
        for state in range(n_states):
            for action in range(n_actions):
                successors = rng.choice(n_states, branching, replace=False).tolist()
                cuts = np.concatenate(([0.0], np.sort(rng.random(branching - 1)), [1.0]))
                for successor, probability in zip(successors, np.diff(cuts).tolist(), strict=True):
                    yield state, action, successor, probability

    paying, layout = range(n_states - rewarded, n_states), ring_layout(n_states, n_actions)
    return Problem.of_moves("garnet", moves(), layout, paying, horizon=horizon, start=0, rng=rng)
