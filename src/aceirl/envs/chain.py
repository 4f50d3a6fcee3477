"""Chain: walk to the right and do not fall off. Paper, appendix (from Metelli et al., 2021); released likewise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aceirl.envs.layout import Layout
from aceirl.envs.problem import Problem, check_count, check_probability, from_moves, reward_in


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
    check_count("length", length)
    check_count("n_actions", n_actions)
    check_count("horizon", horizon)
    check_probability("advance", advance)
    check_probability("advance_other", advance_other)
    check_probability("recover", recover)
    check_probability("recover_other", recover_other)
    fallen = length

    def moves() -> Iterator[tuple[int, int, int, float]]:
        for action in range(n_actions):
            good = action == n_actions - 1
            forward, back = (advance, recover) if good else (advance_other, recover_other)
            for state in range(length):
                yield state, action, min(state + 1, length - 1), forward
                yield state, action, fallen, 1 - forward
            yield fallen, action, 0, back
            yield fallen, action, fallen, 1 - back

    mdp = from_moves(
        moves(),
        n_states=length + 1,
        n_actions=n_actions,
        horizon=horizon,
        initial=np.full(length + 1, 1 / (length + 1)),
    )
    row = np.column_stack([np.arange(length), np.zeros(length)])
    layout = Layout(
        kind="chain",
        positions=np.vstack([row, [(length - 1) / 2, -1]]),
        state_names=(*(f"s{i + 1}" for i in range(length)), "su"),
        action_names=tuple(f"a{i + 1}" for i in range(n_actions)),
        action_directions=np.zeros((n_actions, 2)),
    )
    return Problem.solved("chain", mdp, reward_in(range(length), mdp), layout, rng)
