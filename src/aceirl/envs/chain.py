"""Chain: walk to the right and do not fall off. Paper, appendix (from Metelli et al., 2021); released likewise."""

from __future__ import annotations

import numpy as np

from aceirl.envs.layout import Layout
from aceirl.envs.problem import Moves, Problem, check_counts, check_probabilities


def chain(
    rng: np.random.Generator,
    *,
    length: int = 5,
    n_actions: int = 10,
    horizon: int = 10,
    advance: float = 0.7,
    advance_other: float = 0.3,
    recover: float = 0.05,
    recover_other: float = 0.01,
) -> Problem:
    """States `s_1 … s_length` in a row and `s_u` beside it, the last index; the last action is the good one.

    In the row it moves right with probability `advance` (`advance_other` for any other action) and falls to `s_u`
    otherwise; from `s_u` it returns to `s_1` with probability `recover` (`recover_other`) and stays otherwise. The last
    state of the row moves right into itself. Every state but `s_u` pays 1. Episodes start anywhere, `s_u` included.
    """
    check_counts(length=length, n_actions=n_actions, horizon=horizon)
    check_probabilities(advance=advance, advance_other=advance_other, recover=recover, recover_other=recover_other)
    row, fallen = range(length), length

    def moves() -> Moves:
        for action in range(n_actions):
            good = action == n_actions - 1
            forward, back = (advance, recover) if good else (advance_other, recover_other)
            for state in row:
                yield state, action, min(state + 1, length - 1), forward
                yield state, action, fallen, 1 - forward
            yield fallen, action, 0, back
            yield fallen, action, fallen, 1 - back

    layout = Layout(
        kind="chain",
        positions=np.array([*((x, 0.0) for x in row), ((length - 1) / 2, -1.0)]),
        state_names=(*(f"s{i + 1}" for i in row), "su"),
        action_names=tuple(f"a{i + 1}" for i in range(n_actions)),
        action_directions=np.zeros((n_actions, 2)),
    )
    start = np.full(length + 1, 1 / (length + 1))
    return Problem.of_moves("chain", moves(), layout, row, horizon=horizon, start=start, rng=rng)
