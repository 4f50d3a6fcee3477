"""Four Paths: a centre, four arms, and a goal at the end of one of them. Paper, appendix "Details on the Environments".

State 0 is the centre, state `1 + d·L + i` is cell `i` of arm `d`; arms and actions are left, up, right, down.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aceirl.envs.grid import ARROWS, DIRECTIONS
from aceirl.envs.layout import Layout
from aceirl.envs.problem import Moves, Problem, check_count, check_counts, check_probabilities
from aceirl.models.tabular.mdp import FloatArray

CENTRE = 0


def four_paths(
    rng: np.random.Generator, *, arm_length: int = 10, horizon: int = 20, max_failure: float = 0.3
) -> Problem:
    """As in the paper's text: action `d` fails with probability `p_d ~ U(0, max_failure)` and then goes the other way.

    The goal is the tip of a random arm. The text leaves open what an action across an arm does: it stays put, like
    a move outward at the tip.
    """
    check_count("arm_length", arm_length)
    return _build("four-paths", _paper_moves, arm_length - 1, rng, arm_length, horizon, max_failure)


def four_paths_released(
    rng: np.random.Generator, *, arm_length: int = 10, horizon: int = 20, max_failure: float = 0.3
) -> Problem:
    """As in the released code behind the paper's Table 1.

    Differs: `p_d` is the probability to *leave* the centre, else one stays; in an arm only its own action does
    anything, and nothing leads back to the centre; the last cell is never reached and the goal is the one before.
    """
    check_count("arm_length", arm_length, minimum=2)
    return _build("four-paths-released", _released_moves, arm_length - 2, rng, arm_length, horizon, max_failure)


def _build(
    name: str,
    moves: Callable[[int, FloatArray], Moves],
    goal_cell: int,
    rng: np.random.Generator,
    arm_length: int,
    horizon: int,
    max_failure: float,
) -> Problem:
    check_counts(horizon=horizon)
    check_probabilities(max_failure=max_failure)
    failure = rng.uniform(0, max_failure, size=4)
    goal = 1 + int(rng.integers(4)) * arm_length + goal_cell
    paths = moves(arm_length, failure), _layout(arm_length)
    return Problem.of_moves(name, *paths, [goal], horizon=horizon, start=CENTRE, rng=rng)


def _paper_moves(arm_length: int, failure: FloatArray) -> Moves:
    for state in range(4 * arm_length + 1):
        for action in range(4):
            yield state, action, _step(state, action, arm_length), 1 - failure[action]
            yield state, action, _step(state, (action + 2) % 4, arm_length), failure[action]


def _step(state: int, direction: int, arm_length: int) -> int:
    """Where one step in a direction leads."""
    if state == CENTRE:
        return 1 + direction * arm_length
    arm, cell = divmod(state - 1, arm_length)
    if direction == arm:
        return min(state + 1, (arm + 1) * arm_length)
    if direction == (arm + 2) % 4:
        return CENTRE if cell == 0 else state - 1
    return state


def _released_moves(arm_length: int, failure: FloatArray) -> Moves:
    for action in range(4):
        first = 1 + action * arm_length
        goal = first + arm_length - 2
        yield CENTRE, action, first, failure[action]
        yield CENTRE, action, CENTRE, 1 - failure[action]
        for state in range(1, 4 * arm_length + 1):
            if first <= state <= goal:
                yield state, action, max(state - 1, first), failure[action]
                yield state, action, min(state + 1, goal), 1 - failure[action]
            else:
                yield state, action, state, 1.0


def _layout(arm_length: int) -> Layout:
    cells = np.arange(1, arm_length + 1)
    arms = [cell * arrow for arrow in ARROWS for cell in cells]
    names = [f"{direction[0]}{cell}" for direction in DIRECTIONS for cell in cells]
    return Layout("arms", np.array([np.zeros(2), *arms]), ("c", *names), DIRECTIONS, ARROWS)
