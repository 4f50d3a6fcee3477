"""The problems of the arena: what is known of each from its rules, worked out by hand or by trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from aceirl.envs import Problem, make
from aceirl.models.tabular.dynamic_programming import evaluate, optimal_values
from aceirl.models.tabular.mdp import FloatArray


def best_return(problem: Problem) -> float:
    return float(problem.mdp.initial @ optimal_values(problem.mdp, problem.reward)[1][0])


def random_return(problem: Problem) -> float:
    policy = np.full(problem.mdp.shape, 1 / problem.mdp.n_actions)
    return float(problem.mdp.initial @ evaluate(problem.mdp, problem.reward, policy)[1][0])


def returns_of_sequences(problem: Problem) -> dict[tuple[int, ...], float]:
    """What every sequence of actions earns on average, followed blindly."""
    horizon, _, n_actions = problem.mdp.shape
    dense = problem.mdp.transitions.dense()
    found = {}
    for actions in itertools.product(range(n_actions), repeat=horizon - 1):
        here: FloatArray = problem.mdp.initial
        earned = 0.0
        for h, action in enumerate((*actions, 0)):
            earned += float(here @ problem.reward[h, :, action])
            here = here @ dense[:, action]
        found[actions] = earned
    return found


@pytest.mark.parametrize("depth", [2, 5, 8])
def test_a_random_dive_finds_the_treasure_once_in_two_to_the_depth(depth: int) -> None:
    calm = make("deep-sea", 3, depth=depth, horizon=depth + 1, slip=0.0)
    assert best_return(calm) == pytest.approx(1.0)
    assert random_return(calm) == pytest.approx(2.0**-depth)
    rough = make("deep-sea", 3, depth=depth, horizon=depth + 1, slip=0.1)
    assert best_return(rough) == pytest.approx(0.9**depth)


def test_only_one_sequence_opens_the_lock() -> None:
    problem = make("combination-lock", 2, length=4, n_actions=3, horizon=5, slip=0.0)
    opening = {actions: earned for actions, earned in returns_of_sequences(problem).items() if earned > 0}
    assert len(opening) == 1
    (code,) = opening
    assert opening[code] == pytest.approx(1.0)
    assert [int(problem.expert[h, h].argmax()) for h in range(4)] == list(code)
    assert random_return(problem) == pytest.approx(3.0**-4)


def test_a_lock_that_is_released_can_be_opened_after_a_wrong_digit() -> None:
    jammed = make("combination-lock", 2, horizon=20).mdp.transitions.dense()[-1]
    assert (jammed[:, -1] == 1).all()
    released = make("combination-lock", 2, horizon=20, release=0.5).mdp.transitions.dense()[-1]
    np.testing.assert_allclose(released[:, 0], 0.5)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_rooms_have_four_doors_and_the_shortest_way_is_the_one_around_the_walls(size: int) -> None:
    steps = 8 * size + 2
    problem = make("rooms", 1, size=size, horizon=steps, failure=0.0)
    assert problem.mdp.n_states == 4 * size * size + 4
    names = problem.layout.state_names
    moves = problem.mdp.transitions.dense().max(axis=1) > 0
    distance = {names.index("0,0"): 0}
    for step in range(1, steps):
        reached = {int(s) for state in list(distance) for s in np.flatnonzero(moves[state])}
        distance |= dict.fromkeys(reached - distance.keys(), step)
    (goal,) = np.flatnonzero(problem.reward[0, :, 0])
    assert best_return(problem) == pytest.approx(steps - distance[int(goal)])
    assert names[goal] in {f"0,{2 * size}", f"{2 * size},{2 * size}", f"{2 * size},0"}


def test_a_closed_door_is_a_wall_and_the_way_round_is_longer() -> None:
    def goal(seed: int) -> str:
        problem = make("rooms", seed)
        return problem.layout.state_names[int(np.flatnonzero(problem.reward[0, :, 0])[0])]

    seed = next(seed for seed in range(20) if goal(seed) == "4,0")
    ways = [30 - best_return(make("rooms", seed, horizon=30, failure=0.0, closed=door)) for door in (-1, 0, 1, 2, 3)]
    # Straight on through the door below the centre, one row up for it; with that one closed, through the three others.
    assert ways == pytest.approx([6, 6, 6, 6, 3 + 3 + 4 + 2])
    assert make("rooms", seed, closed=3).mdp.n_states == 19


def test_every_action_of_a_garnet_has_as_many_successors_as_it_says() -> None:
    problem = make("garnet", 4, n_states=12, n_actions=3, branching=3, rewarded=2)
    dense = problem.mdp.transitions.dense()
    assert ((dense > 0).sum(axis=2) == 3).all()
    assert problem.reward[0, :, 0].tolist() == [0.0] * 10 + [1.0] * 2
    # Two uniform cuts of the unit interval: each piece is a third on average, with variance 1/18.
    pieces = np.concatenate(
        [make("garnet", seed, n_states=30, branching=3).mdp.transitions.probabilities for seed in (0, 1)]
    )
    assert pieces.mean() == pytest.approx(1 / 3)
    assert pieces.var() == pytest.approx(1 / 18, abs=0.02)


def test_the_taxi_fetches_and_drops_in_as_many_steps_as_the_way_is_long() -> None:
    problem = make("small-taxi", 0, size=3, horizon=14)
    names, n = problem.layout.state_names, 3
    _, v = optimal_values(problem.mdp, problem.reward)
    dense = problem.mdp.transitions.dense()
    (stop,) = [s for s in range(n * n) if dense[s, 4, s] == 0]
    (other,) = [s for s in range(n * n, 2 * n * n) if dense[s, 5, s] == 0]
    assert abs(stop - (other - n * n)) in (8, 4)  # opposite corners
    for state in range(n * n):
        way = sum(abs(a - b) for a, b in zip(divmod(state, n), divmod(stop, n), strict=True))
        # To the stop, fetch, across to the other corner, drop: then it pays for the rest of the episode.
        assert v[0, state] == pytest.approx(14 - (way + 1 + 2 * (n - 1) + 1)), names[state]
    assert v[0, names.index("delivered")] == pytest.approx(14)


def test_elsewhere_fetching_and_dropping_do_nothing() -> None:
    dense = make("small-taxi", 0).mdp.transitions.dense()
    for action, changes in ((4, 1), (5, 1)):
        assert sum(dense[s, action, s] == 0 for s in range(18)) == changes
