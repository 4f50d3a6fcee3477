"""Combination lock: one sequence of digits opens it, any wrong digit jams it. After Kakade (2003), chapter 2."""

from __future__ import annotations

import numpy as np

from aceirl.envs.layout import Layout
from aceirl.envs.problem import Moves, Problem, check_counts, check_probabilities


def combination_lock(
    rng: np.random.Generator,
    *,
    length: int = 5,
    n_actions: int = 3,
    horizon: int = 7,
    slip: float = 0.1,
    release: float = 0.0,
) -> Problem:
    """States `0 … length`, the digits that are right so far, and `jammed`, the last index.

    One action of each state, drawn at random, is the next digit; any other jams the lock. A jammed lock stays so, but
    that it returns to the start with probability `release`. With probability `slip` a digit is not taken: nothing
    happens. The open lock, state `length`, stays open and pays 1 a step.

    Without slip only one of `n_actions^length` sequences opens it.
    """
    check_counts(length=length, n_actions=n_actions, horizon=horizon)
    check_probabilities(slip=slip, release=release)
    code, is_open, jammed = rng.integers(n_actions, size=length), length, length + 1

    def moves() -> Moves:
        for action in range(n_actions):
            for state in range(length):
                yield state, action, state + 1 if action == code[state] else jammed, 1 - slip
                yield state, action, state, slip
            yield is_open, action, is_open, 1.0
            yield jammed, action, 0, release
            yield jammed, action, jammed, 1 - release

    layout = Layout(
        kind="chain",
        positions=np.array([*((right, 0) for right in range(length + 1)), (length // 2, -1)]),
        state_names=(*(f"{right} right" for right in range(length)), "open", "jammed"),
        action_names=tuple(map(str, range(n_actions))),
        action_directions=np.zeros((n_actions, 2)),
    )
    return Problem.of_moves("combination-lock", moves(), layout, [is_open], horizon=horizon, start=0, rng=rng)
