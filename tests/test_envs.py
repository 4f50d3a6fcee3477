"""The environments do what the paper's text, or the released code, says; the numbers here are worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from aceirl.envs import ENVIRONMENTS, Layout, Problem, make
from aceirl.errors import InputError
from aceirl.models.tabular.mdp import MDP, FloatArray

LEFT, UP, RIGHT, DOWN = range(4)
SIZES = {
    "four-paths": (20, 41, 4),
    "double-chain": (20, 31, 2),
    "chain": (10, 6, 10),
    "gridworld": (10, 9, 4),
    "random-mdp": (10, 9, 4),
    "deep-sea": (7, 28, 2),
    "combination-lock": (7, 7, 3),
    "rooms": (14, 20, 4),
    "garnet": (10, 10, 3),
    "small-taxi": (14, 19, 6),
    "frozen-lake": (20, 16, 4),
    "cliff-walking": (14, 14, 4),
    "four-paths-released": (20, 41, 4),
    "gridworld-released": (10, 9, 4),
    "random-mdp-released": (10, 9, 4),
}
SMALL: dict[str, dict[str, int]] = {
    "four-paths": {"arm_length": 2, "horizon": 4},
    "double-chain": {"length": 5, "horizon": 5},
    "chain": {"n_actions": 3, "horizon": 4},
    "gridworld": {"horizon": 4},
    "random-mdp": {"n_states": 4, "n_actions": 2, "horizon": 4},
    "deep-sea": {"depth": 3, "horizon": 4},
    "combination-lock": {"length": 3, "horizon": 5},
    "rooms": {"size": 1, "horizon": 5},
    "garnet": {"n_states": 5, "horizon": 4},
    "small-taxi": {"size": 2, "horizon": 5},
    "frozen-lake": {"horizon": 4},
    "cliff-walking": {"width": 3, "height": 2, "horizon": 5},
    "four-paths-released": {"arm_length": 3, "horizon": 5},
    "gridworld-released": {"horizon": 4},
    "random-mdp-released": {"n_states": 4, "n_actions": 2, "horizon": 4},
}


def per_step(mdp: MDP) -> FloatArray:
    """`[H, S, A, S]`, whatever the kind."""
    dense = mdp.transitions.dense()
    return np.broadcast_to(dense, (mdp.horizon, *dense.shape[-3:]))


def row(problem: Problem, state: str, action: int) -> dict[str, float]:
    """The successors of a state, by name."""
    names = problem.layout.state_names
    probabilities = problem.mdp.transitions.dense()[names.index(state), action]
    return {names[s]: float(probabilities[s]) for s in np.flatnonzero(probabilities)}


def goal_of(problem: Problem) -> str:
    (goal,) = np.flatnonzero(problem.reward.any(axis=(0, 2)))
    assert (problem.reward[:, goal] == 1).all()
    return problem.layout.state_names[goal]


def failures(problem: Problem) -> FloatArray:
    """`p_d` of Four Paths (paper), read off the failures at the centre."""
    return np.array([problem.mdp.transitions.dense()[0, a, 1 + (a + 2) % 4 * 10] for a in range(4)])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_sizes_rows_and_rewards_are_as_stated(name: str) -> None:
    problem = make(name, 0)
    assert problem.name == name
    assert problem.mdp.shape == problem.reward.shape == problem.expert.shape == SIZES[name]
    np.testing.assert_allclose(problem.mdp.transitions.dense().sum(axis=-1), 1)
    assert problem.mdp.stationary == (name != "random-mdp-released")
    assert problem.reward.min() >= 0
    assert problem.reward.max() <= problem.rmax
    distance = np.linalg.norm(problem.layout.positions[:, None] - problem.layout.positions, axis=-1)
    assert distance[~np.eye(problem.mdp.n_states, dtype=bool)].min() == pytest.approx(1)


@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_expert_takes_the_best_action_by_plain_backward_induction(name: str, seed: int) -> None:
    problem = make(name, seed)
    transitions, value = per_step(problem.mdp), np.zeros(problem.mdp.n_states)
    assert set(np.unique(problem.expert)) == {0.0, 1.0}
    for h in reversed(range(problem.mdp.horizon)):
        q = problem.reward[h] + transitions[h] @ value
        value = q.max(axis=1)
        np.testing.assert_allclose((problem.expert[h] * q).sum(axis=1), value, atol=1e-9)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_expert_earns_what_the_linear_programme_over_occupancies_earns(name: str) -> None:
    problem = make(name, 3, **SMALL[name])
    mdp, transitions = problem.mdp, per_step(problem.mdp)
    horizon, n_states, _ = mdp.shape
    flow = np.zeros((horizon, n_states, *mdp.shape))
    inflow = np.zeros((horizon, n_states))
    inflow[0] = mdp.initial
    for h in range(horizon):
        for s in range(n_states):
            flow[h, s, h, s] = 1
            if h:
                flow[h, s, h - 1] -= transitions[h - 1, :, :, s]
    best = linprog(-problem.reward.ravel(), A_eq=flow.reshape(horizon * n_states, -1), b_eq=inflow.ravel())
    here, earned = mdp.initial, 0.0
    for h in range(horizon):
        mu = here[:, None] * problem.expert[h]
        earned += float((mu * problem.reward[h]).sum())
        here = np.einsum("sa,sat->t", mu, transitions[h])
    assert earned == pytest.approx(-best.fun, abs=1e-8)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_seed_decides_everything(name: str) -> None:
    first, again, other = make(name, 5), make(name, 5), make(name, 6)
    np.testing.assert_array_equal(first.mdp.transitions.dense(), again.mdp.transitions.dense())
    np.testing.assert_array_equal(first.reward, again.reward)
    np.testing.assert_array_equal(first.expert, again.expert)
    assert (first.expert != other.expert).any()


def test_start_distributions() -> None:
    assert make("four-paths", 0).mdp.initial[0] == 1
    assert make("four-paths-released", 0).mdp.initial[0] == 1
    assert make("double-chain", 0).mdp.initial[15] == 1
    np.testing.assert_allclose(make("chain", 0).mdp.initial, 1 / 6)
    for name in ("gridworld", "gridworld-released"):
        problem = make(name, 0)
        goal = problem.layout.state_names.index("3,2")
        assert problem.mdp.initial[goal] == 0
        np.testing.assert_allclose(np.delete(problem.mdp.initial, goal), 1 / 8)
    assert (make("random-mdp", 0).mdp.initial > 0).all()


def test_four_paths_moves_the_opposite_way_when_an_action_fails() -> None:
    problem = make("four-paths", 4)
    p = failures(problem)
    assert ((p > 0) & (p < 0.3)).all()
    assert len(set(p)) == 4
    assert row(problem, "c", LEFT) == pytest.approx({"l1": 1 - p[LEFT], "r1": p[LEFT]})
    assert row(problem, "c", DOWN) == pytest.approx({"d1": 1 - p[DOWN], "u1": p[DOWN]})
    assert row(problem, "l1", LEFT) == pytest.approx({"l2": 1 - p[LEFT], "c": p[LEFT]})
    assert row(problem, "l4", RIGHT) == pytest.approx({"l3": 1 - p[RIGHT], "l5": p[RIGHT]})
    assert row(problem, "l4", UP) == {"l4": 1}
    assert row(problem, "u10", UP) == pytest.approx({"u10": 1 - p[UP], "u9": p[UP]})
    assert row(problem, "u10", DOWN) == pytest.approx({"u9": 1 - p[DOWN], "u10": p[DOWN]})


def test_four_paths_goal_is_a_tip_and_every_arm_gets_it() -> None:
    assert {goal_of(make("four-paths", seed)) for seed in range(30)} == {"l10", "u10", "r10", "d10"}


def test_four_paths_released_leaves_the_centre_rarely_and_never_comes_back() -> None:
    problem = make("four-paths-released", 4)
    p = [row(problem, "c", d)[f"{'lurd'[d]}1"] for d in range(4)]
    assert all(0 < chance < 0.3 for chance in p)
    assert row(problem, "c", UP) == pytest.approx({"u1": p[UP], "c": 1 - p[UP]})
    assert row(problem, "u1", UP) == pytest.approx({"u1": p[UP], "u2": 1 - p[UP]})
    assert row(problem, "u5", UP) == pytest.approx({"u4": p[UP], "u6": 1 - p[UP]})
    assert row(problem, "u9", UP) == pytest.approx({"u8": p[UP], "u9": 1 - p[UP]})
    assert row(problem, "u5", DOWN) == row(problem, "u5", LEFT) == {"u5": 1}
    assert row(problem, "u10", UP) == {"u10": 1}


def test_four_paths_released_rewards_the_ninth_cell_because_nothing_reaches_the_tenth() -> None:
    problem = make("four-paths-released", 0)
    step = problem.mdp.transitions.dense().any(axis=1)
    reached = problem.mdp.initial > 0
    for _ in range(problem.mdp.n_states):
        reached = reached | (reached @ step)
    unreachable = {problem.layout.state_names[s] for s in np.flatnonzero(~reached)}
    assert unreachable == {"l10", "u10", "r10", "d10"}
    assert {goal_of(make("four-paths-released", seed)) for seed in range(30)} == {"l9", "u9", "r9", "d9"}


def test_double_chain_slips_and_its_walls_hold() -> None:
    problem = make("double-chain", 0)
    assert row(problem, "15", 0) == pytest.approx({"14": 0.9, "16": 0.1})
    assert row(problem, "15", 1) == pytest.approx({"14": 0.1, "16": 0.9})
    assert row(problem, "0", 0) == pytest.approx({"0": 0.9, "1": 0.1})
    assert row(problem, "30", 1) == pytest.approx({"29": 0.1, "30": 0.9})
    assert goal_of(problem) == "30"


def test_chain_has_one_good_action() -> None:
    problem = make("chain", 0)
    assert row(problem, "s2", 9) == pytest.approx({"s3": 0.7, "su": 0.3})
    assert row(problem, "s2", 4) == pytest.approx({"s3": 0.3, "su": 0.7})
    assert row(problem, "s5", 9) == pytest.approx({"s5": 0.7, "su": 0.3})
    assert row(problem, "su", 9) == pytest.approx({"s1": 0.05, "su": 0.95})
    assert row(problem, "su", 0) == pytest.approx({"s1": 0.01, "su": 0.99})
    assert (problem.reward[:, :5] == 1).all()
    assert (problem.reward[:, 5] == 0).all()
    assert (problem.expert[:-1].argmax(axis=-1) == 9).all()


def test_gridworld_by_the_paper() -> None:
    problem = make("gridworld", 0)
    assert goal_of(problem) == "3,2"
    assert row(problem, "1,1", RIGHT) == pytest.approx({"2,1": 0.7, "1,2": 0.1, "1,1": 0.2})
    assert row(problem, "2,2", LEFT) == pytest.approx({"1,2": 0.7, "2,3": 0.1, "2,1": 0.1, "3,2": 0.02, "2,2": 0.08})
    assert row(problem, "2,2", RIGHT) == pytest.approx({"3,2": 0.14, "2,2": 0.56, "1,2": 0.1, "2,3": 0.1, "2,1": 0.1})
    assert row(problem, "3,2", LEFT) == pytest.approx({"2,2": 0.7, "3,3": 0.1, "3,1": 0.1, "3,2": 0.1})


def test_gridworld_released_has_an_absorbing_goal_and_failures_in_all_directions() -> None:
    problem = make("gridworld-released", 0)
    assert goal_of(problem) == "3,2"
    assert row(problem, "1,1", RIGHT) == pytest.approx({"2,1": 0.775, "1,2": 0.075, "1,1": 0.15})
    assert row(problem, "2,2", RIGHT) == pytest.approx(
        {"3,2": 0.14 + 0.075, "2,2": 0.56, "1,2": 0.075, "2,3": 0.075, "2,1": 0.075}
    )
    assert row(problem, "2,2", LEFT) == pytest.approx({"1,2": 0.775, "3,2": 0.075, "2,3": 0.075, "2,1": 0.075})
    assert all(row(problem, "3,2", action) == {"3,2": 1} for action in range(4))


def test_the_obstacle_of_gridworld_can_be_moved() -> None:
    """Up by one: the cell above the centre holds moves to the right back, and the centre does not."""
    usual, moved = (make("gridworld", 0, obstacle_up=up).mdp.transitions.dense() for up in (0, 1))
    np.testing.assert_array_equal(np.argwhere((usual != moved).any(axis=(1, 2)))[:, 0], [4, 5])
    assert moved[4, RIGHT, 7] == pytest.approx(0.7)
    assert moved[5, RIGHT, 8] == pytest.approx(usual[4, RIGHT, 7])
    for up in (2, -2, 0.5, True):
        with pytest.raises(InputError, match="obstacle_up must be a whole number that stays in the room"):
            make("gridworld", 0, obstacle_up=up)


@pytest.mark.parametrize("name", ["gridworld", "gridworld-released"])
def test_gridworld_without_obstacle_differs_in_the_centre_only(name: str) -> None:
    sticky, free = make(name, 0).mdp.transitions.dense(), make(name, 0, obstacle=0.0).mdp.transitions.dense()
    assert set(np.argwhere(sticky != free)[:, 0]) == {4}
    assert free[4, RIGHT, 7] == pytest.approx(0.7 if name == "gridworld" else 0.775)


def test_random_mdp_released_differs_from_step_to_step_and_the_papers_does_not() -> None:
    released, paper = make("random-mdp-released", 0), make("random-mdp", 0)
    dense = released.mdp.transitions.dense()
    assert dense.shape == (10, 9, 4, 9)
    assert all((dense[h] != dense[h + 1]).all() for h in range(9))
    assert paper.mdp.transitions.dense().shape == (9, 4, 9)
    assert 0.4 < paper.reward.mean() < 0.6
    assert (paper.reward[0] != paper.reward[1]).all()


@given(
    name=st.sampled_from(sorted(ENVIRONMENTS)),
    seed=st.integers(0, 2**32),
    horizon=st.integers(1, 6),
    size=st.integers(2, 6),
)
def test_any_size_gives_a_sound_problem(name: str, seed: int, horizon: int, size: int) -> None:
    of_size: dict[str, dict[str, int]] = {
        "four-paths": {"arm_length": size - 1},
        "four-paths-released": {"arm_length": size},
        "double-chain": {"length": size},
        "chain": {"length": size - 1, "n_actions": size},
        "gridworld": {"size": 2 * (size // 2) + 1},
        "gridworld-released": {"size": 2 * (size // 2) + 1},
        "random-mdp": {"n_states": size - 1, "n_actions": 7 - size},
        "deep-sea": {"depth": size},
        "combination-lock": {"length": size - 1, "n_actions": 7 - size},
        "rooms": {"size": size - 1},
        "garnet": {"n_states": size, "branching": size // 2, "rewarded": size // 2},
        "small-taxi": {"size": size},
        "frozen-lake": {},
        "cliff-walking": {"width": size + 1, "height": size},
        "random-mdp-released": {"n_states": size - 1, "n_actions": 7 - size},
    }
    problem = make(name, seed, horizon=horizon, **of_size[name])
    assert problem.mdp.horizon == horizon
    np.testing.assert_allclose(problem.mdp.transitions.dense().sum(axis=-1), 1)
    assert problem.mdp.initial.sum() == pytest.approx(1)
    assert not problem.reward.flags.writeable
    assert not problem.expert.flags.writeable


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("four-paths", {"arm_length": 0}, "arm_length .* 0"),
        ("four-paths-released", {"arm_length": 1}, "arm_length .* at least 2, got 1"),
        ("four-paths", {"max_failure": 1.5}, r"max_failure .* 1\.5"),
        ("double-chain", {"length": 1}, "length .* 1"),
        ("double-chain", {"slip": float("nan")}, "slip .* nan"),
        ("double-chain", {"slip": "0.1"}, "slip .* '0.1'"),
        ("double-chain", {"horizon": 0}, "horizon .* 0"),
        ("double-chain", {"horizon": 2.0}, r"horizon .* 2\.0"),
        ("chain", {"n_actions": 0}, "n_actions .* 0"),
        ("chain", {"recover_other": -0.1}, r"recover_other .* -0\.1"),
        ("gridworld", {"size": 4}, "size must be odd.* 4"),
        ("gridworld-released", {"obstacle": 2}, "obstacle .* 2"),
        ("random-mdp", {"n_states": True}, "n_states .* True"),
        ("deep-sea", {"depth": 0}, "depth .* 0"),
        ("combination-lock", {"release": 2}, "release .* 2"),
        ("rooms", {"closed": 4}, "closed .* 4"),
        ("garnet", {"n_states": 3, "branching": 4}, "branching 4 .* n_states, 3"),
        ("small-taxi", {"size": 1}, "size .* at least 2, got 1"),
        ("frozen-lake", {"slip": 2}, "slip .* 2"),
        ("cliff-walking", {"width": 2}, "width .* at least 3, got 2"),
        ("random-mdp", {"n_stats": 3}, "unknown parameter of random-mdp 'n_stats'; did you mean 'n_states'"),
        ("random-mdp", {"rng": 3}, "unknown parameter"),
        ("four-path", {}, "unknown environment 'four-path'; did you mean 'four-paths'"),
    ],
)
def test_a_bad_parameter_is_named_with_its_value(name: str, parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        make(name, 0, **parameters)


@pytest.mark.parametrize("seed", [-1, 0.5, None])
def test_a_bad_seed_is_named(seed: Any) -> None:
    with pytest.raises(InputError, match="seed"):
        make("chain", seed)


def test_long_arms_stay_sparse() -> None:
    problem = make("four-paths", 0, arm_length=500, horizon=2)
    assert problem.mdp.transitions.successors.size < 2 * problem.mdp.transitions.n_rows


def test_layouts_and_problems_check_their_shapes() -> None:
    good = make("double-chain", 0)
    with pytest.raises(InputError, match="positions must have shape"):
        Layout("chain", np.zeros((2, 2)), ("a",), ("b",), np.zeros((1, 2)))
    with pytest.raises(InputError, match=r"positions\[0\] is not finite"):
        Layout("chain", np.array([[np.nan, 0.0]]), ("a",), ("b",), np.zeros((1, 2)))
    with pytest.raises(InputError, match=r"action_directions\[0\] is \[2.0, 0.0\]"):
        Layout("chain", np.zeros((1, 2)), ("a",), ("b",), np.array([[2.0, 0.0]]))
    with pytest.raises(InputError, match="layout has 6 states and 10 actions, but mdp has 31 and 2"):
        Problem("x", good.mdp, good.reward, good.expert, make("chain", 0).layout)
    with pytest.raises(InputError, match=r"reward\[0, 30, 0\] is 2.0"):
        Problem("x", good.mdp, 2 * good.reward, good.expert, good.layout)
    with pytest.raises(InputError, match="expert"):
        Problem("x", good.mdp, good.reward, good.expert / 2, good.layout)


def test_the_registry_names_the_papers_values() -> None:
    assert set(ENVIRONMENTS) == set(SIZES)
    assert ENVIRONMENTS["gridworld"].parameters == {
        "size": 3, "horizon": 10, "failure": 0.3, "obstacle": 0.8, "obstacle_up": 0
    }  # fmt: skip
    assert all(spec.summary for spec in ENVIRONMENTS.values())
