"""The door: what is wrong is named before any work starts, and what is let in cannot be changed from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, mdps, random_policy, rewards, shapes

from aceirl.errors import InputError, unknown_name
from aceirl.irl.belief import uniform_policy
from aceirl.models.tabular.mdp import MDP, FloatArray, Transitions, check_policy, check_reward, frozen, shared

COIN = np.full((2, 2, 2), 0.5)
SHAPE = (3, 2, 2)
PARTS: dict[str, Any] = {
    "horizon": 3,
    "n_states": 2,
    "n_actions": 1,
    "indptr": np.array([0, 2, 3]),
    "successors": np.array([0, 1, 0]),
    "probabilities": np.array([0.25, 0.75, 1.0]),
    "initial": np.array([1.0, 0.0]),
}


def made(**parts: Any) -> MDP:
    """From the parts of a process, those of its transitions among them."""
    parts = {**PARTS, **parts}
    horizon, initial = parts.pop("horizon"), parts.pop("initial")
    return MDP(horizon, Transitions(**parts), initial)


def changed(array: FloatArray, index: tuple[int, ...], value: float) -> FloatArray:
    copy = array.copy()
    copy[index] = value
    return copy


@pytest.mark.parametrize(
    ("transitions", "named"),
    [
        (np.ones((2, 2)), ["transitions", "[2, 2]"]),
        (np.ones((2, 1, 3)), ["transitions", "[2, 1, 3]"]),
        (np.ones((2, 0, 2)), ["transitions", "[2, 0, 2]"]),
        (np.ones((0, 1, 0)), ["transitions", "[0, 1, 0]"]),
        (changed(COIN, (1, 0, 1), 0.6), ["transitions[1, 0]", "1.1"]),
        (changed(COIN, (1, 0), 0.0), ["transitions[1, 0]", "sum to 0"]),
        (changed(COIN, (0, 1, 1), np.nan), ["transitions[0, 1, 1]", "NaN"]),
        (changed(COIN, (0, 1, 1), np.inf), ["transitions[0, 1]", "inf"]),
        (changed(changed(COIN, (1, 1, 0), -0.5), (1, 1, 1), 1.5), ["transitions[1, 1]", "-0.5"]),
    ],
)
def test_wrong_stationary_transitions_are_named(transitions: FloatArray, named: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        MDP.from_dense(transitions, initial=0, horizon=3)
    assert all(part in str(caught.value) for part in named), caught.value


def test_wrong_per_step_transitions_are_named_with_their_step() -> None:
    per_step = np.stack([COIN, changed(COIN, (1, 0, 1), 0.4)])
    with pytest.raises(InputError, match=r"transitions\[1, 1, 0\] sum to 0\.9,"):
        MDP.from_dense(per_step, initial=0)
    with pytest.raises(InputError, match=r"transitions.*\[0, 2, 2, 2\]"):
        MDP.from_dense(np.ones((0, 2, 2, 2)), initial=0)


@pytest.mark.parametrize("horizon", [0, -1, 2.5, "three", None])
def test_a_wrong_horizon_is_named(horizon: Any) -> None:
    with pytest.raises(InputError, match="horizon") as caught:
        MDP.from_dense(COIN, initial=0, horizon=horizon)
    assert horizon is None or repr(horizon) in str(caught.value)


def test_a_horizon_that_contradicts_the_transitions_is_named() -> None:
    with pytest.raises(InputError, match="horizon is 3, but transitions have 2 steps"):
        MDP.from_dense(np.stack([COIN, COIN]), initial=0, horizon=3)


@pytest.mark.parametrize(
    ("initial", "named"),
    [
        (2, ["initial", "2", "0 to 1"]),
        (-1, ["initial", "-1"]),
        (0.7, ["initial", "0.7"]),
        (np.nan, ["initial", "nan"]),
        ([0.5, 0.4], ["initial", "0.9"]),
        ([0.0, 0.0], ["initial", "0"]),
        ([1.5, -0.5], ["initial[1]", "-0.5"]),
        ([1.0, np.nan], ["initial[1]", "nan"]),
        ([1.0, 0.0, 0.0], ["initial", "[2]", "[3]"]),
        ([[1.0, 0.0]], ["initial", "[2]", "[1, 2]"]),
    ],
)
def test_a_wrong_start_is_named(initial: Any, named: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        MDP.from_dense(COIN, initial=initial, horizon=3)
    assert all(part in str(caught.value) for part in named), caught.value


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("horizon", 0, ["horizon", "0"]),
        ("n_states", 0, ["n_states", "0"]),
        ("n_actions", 0, ["n_actions", "0"]),
        ("n_actions", 1.0, ["n_actions", "1.0"]),
        ("steps", 0, ["steps", "0"]),
        ("steps", 3, ["indptr", "6 rows", "[3]"]),
        ("indptr", np.array([0, 3]), ["indptr", "2 rows", "[2]"]),
        ("indptr", np.array([1, 2, 3]), ["indptr"]),
        ("indptr", np.array([0, 4, 3]), ["indptr"]),
        ("successors", np.array([0, 1]), ["successors", "3", "[2]"]),
        ("successors", np.array([0, 1, 2]), ["successor 2", "[1, 0]"]),
        ("successors", np.array([0, -1, 0]), ["successor -1", "[0, 0]"]),
        ("probabilities", np.array([0.25, 0.75]), ["probabilities", "3", "[2]"]),
        ("probabilities", np.array([0.25, np.nan, 1.0]), ["transitions[0, 0]", "nan"]),
        ("probabilities", np.array([0.25, 0.75, 0.5]), ["transitions[1, 0]", "0.5"]),
    ],
)
def test_wrong_sparse_parts_are_named(name: str, value: Any, named: list[str]) -> None:
    made()
    with pytest.raises(InputError) as caught:
        made(**{name: value})
    assert all(part in str(caught.value) for part in named), caught.value


def test_a_row_may_be_unknown_in_an_estimate_but_not_in_a_real_process() -> None:
    mdp = made(indptr=[0, 2, 2], successors=[0, 1], probabilities=[0.25, 0.75])
    np.testing.assert_array_equal(mdp.known[:, :, 0], [[True, False]] * 3)
    with pytest.raises(InputError, match=r"transitions\[1, 0\] sum to 0"):
        mdp.require_complete()
    with pytest.raises(InputError, match="initial sums to 0"):
        made(initial=[0.0, 0.0]).require_complete()


@pytest.mark.parametrize(
    ("reward", "named"),
    [
        (np.zeros((2, 2, 2)), ["[3, 2, 2]", "[2, 2]", "[2, 2, 2]"]),
        (np.zeros(3), ["[3]"]),
        (changed(np.zeros(SHAPE), (2, 0, 1), np.nan), ["[2, 0, 1]", "nan"]),
        (changed(np.zeros((2, 2)), (1, 1), -np.inf), ["[1, 1]", "-inf"]),
    ],
)
def test_a_wrong_reward_is_named(reward: FloatArray, named: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        check_reward(reward, SHAPE, name="prize")
    assert all(part in str(caught.value) for part in ["prize", *named]), caught.value


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (np.zeros((2, 2, 2)), ["[3, 2]", "[3, 2, 2]", "[2, 2, 2]"]),
        (np.array([0, 2]), ["[1]", "2", "0 to 1"]),
        (np.array([[0, 0], [0, -1], [0, 0]]), ["[1, 1]", "-1"]),
        (np.array([0.0, 1.0]), ["[2]"]),
        (changed(np.full(SHAPE, 0.5), (1, 0, 1), 0.6), ["[1, 0]", "[0.5, 0.6]"]),
        (changed(np.full(SHAPE, 0.5), (2, 1, 0), np.nan), ["[2, 1]", "[nan, 0.5]"]),
        (changed(changed(np.full(SHAPE, 0.5), (0, 1, 0), 1.5), (0, 1, 1), -0.5), ["[0, 1]", "[1.5, -0.5]"]),
    ],
)
def test_a_wrong_policy_is_named(policy: FloatArray, named: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        check_policy(policy, SHAPE, name="advice")
    assert all(part in str(caught.value) for part in ["advice", *named]), caught.value


@given(st.data(), shapes())
def test_a_policy_may_be_given_as_actions_and_for_all_steps_at_once(data: st.DataObject, shape: Any) -> None:
    horizon, n_states, n_actions = shape
    rng = np.random.default_rng(data.draw(SEEDS))
    actions = rng.integers(n_actions, size=(horizon, n_states))
    expected = np.zeros(shape)
    for h, s in np.ndindex(horizon, n_states):
        expected[h, s, actions[h, s]] = 1.0
    np.testing.assert_array_equal(check_policy(actions, shape), expected)
    np.testing.assert_array_equal(check_policy(actions[0], shape)[-1], expected[0])
    table = random_policy(rng, shape)[0]
    np.testing.assert_array_equal(check_policy(table, shape)[-1], table)
    reward = data.draw(rewards(shape))
    np.testing.assert_array_equal(check_reward(reward, shape), reward)
    np.testing.assert_array_equal(check_reward(reward[0], shape)[-1], reward[0])


@given(mdps(complete=True))
def test_dense_and_back(mdp: MDP) -> None:
    again = MDP.from_dense(mdp.transitions.dense(), initial=mdp.initial, horizon=mdp.horizon)
    np.testing.assert_array_equal(again.transitions.dense(), mdp.transitions.dense())
    np.testing.assert_array_equal(again.initial, mdp.initial)
    assert (again.shape, again.stationary) == (mdp.shape, mdp.stationary)
    assert again.transitions.n_rows == mdp.transitions.n_rows


@given(mdps())
def test_dense_is_what_the_rows_say(mdp: MDP) -> None:
    P, known = oracles.unrolled(mdp)
    np.testing.assert_array_equal(np.broadcast_to(mdp.transitions.dense(), P.shape), P)
    np.testing.assert_array_equal(mdp.known, known)


@given(mdps())
def test_the_matrix_has_a_row_for_every_row(mdp: MDP) -> None:
    dense, matrix = mdp.transitions.dense(), mdp.transitions.matrix
    assert matrix.shape == (mdp.transitions.n_rows, mdp.n_states)
    np.testing.assert_array_equal(matrix.toarray().reshape(dense.shape), dense)
    np.testing.assert_array_equal(mdp.transitions.filled, np.diff(mdp.transitions.indptr) > 0)


@given(mdps(), SEEDS)
def test_expectations_are_products_with_the_dense_rows(mdp: MDP, seed: int) -> None:
    P, known = oracles.unrolled(mdp)
    rng = np.random.default_rng(seed)
    values, unknown = rng.normal(size=mdp.shape[:2]), rng.normal(size=mdp.horizon)
    mean = np.einsum("hsat,ht->hsa", P, values)
    found = mdp.transitions.expect(values, unknown)
    np.testing.assert_allclose(found, np.where(known, mean, unknown[:, None, None]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mdp.transitions.expect(values), mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mdp.transitions.expect(values, 2.5), np.where(known, mean, 2.5), rtol=1e-12, atol=1e-12)


@given(mdps(), SEEDS)
def test_mass_is_pushed_along_the_dense_rows_and_lost_in_unknown_ones(mdp: MDP, seed: int) -> None:
    P, _ = oracles.unrolled(mdp)
    rng = np.random.default_rng(seed)
    start, policy = rng.random(mdp.n_states), random_policy(rng, mdp.shape, "sparse")
    found = mdp.transitions.push(start, policy)
    np.testing.assert_allclose(found, oracles.occupancy(P, start, policy), rtol=1e-12, atol=1e-12)
    assert (found.sum(axis=(1, 2)) <= start.sum() * (1 + 1e-12)).all()


@given(mdps(), SEEDS)
def test_expectation_and_push_are_adjoint(mdp: MDP, seed: int) -> None:
    """What the mass after a step is worth is what the step is expected to be worth to the mass before it."""
    rng = np.random.default_rng(seed)
    policy, values = random_policy(rng, mdp.shape), rng.normal(size=mdp.shape[:2])
    mass = mdp.transitions.push(mdp.initial, policy)
    worth = (mass[:-1] * mdp.transitions.expect(values)[:-1]).sum(axis=(1, 2))
    np.testing.assert_allclose((mass[1:].sum(axis=2) * values[:-1]).sum(axis=1), worth, rtol=1e-9, atol=1e-9)


def test_a_horizon_that_contradicts_sparse_rows_is_named() -> None:
    rows = MDP.from_dense(np.stack([COIN, COIN]), initial=0).transitions
    with pytest.raises(InputError, match="horizon is 3, but transitions have 2 steps"):
        MDP(3, rows, np.array([1.0, 0.0]))


def test_a_start_may_be_a_state() -> None:
    np.testing.assert_array_equal(MDP.from_dense(COIN, initial=1, horizon=1).initial, [0.0, 1.0])


def test_the_arrays_inside_are_read_only_and_nobody_elses() -> None:
    parts: dict[str, Any] = {
        name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in PARTS.items()
    }
    mdp = made(**parts)
    for name in ("indptr", "successors", "probabilities", "initial"):
        inside = getattr(mdp if name == "initial" else mdp.transitions, name)
        assert not np.shares_memory(inside, parts[name])
        with pytest.raises(ValueError, match="read-only"):
            inside[0] = 0
        np.testing.assert_array_equal(parts[name], PARTS[name])
        assert parts[name].flags.writeable
    with pytest.raises(AttributeError):
        mdp.horizon = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        mdp.transitions.n_states = 5  # type: ignore[misc]


@pytest.mark.parametrize("check", [check_reward, check_policy])
def test_checked_arrays_are_read_only_copies(check: Any) -> None:
    given_array = np.full(SHAPE, 0.5)
    checked = check(given_array, SHAPE)
    given_array[0, 0] = [1.0, 0.0]
    assert (checked == 0.5).all()
    assert not checked.flags.writeable
    assert given_array.flags.writeable


def test_frozen_does_not_trust_a_read_only_view() -> None:
    owner = np.zeros(3)
    view = owner[:]
    view.flags.writeable = False
    kept = frozen(view, np.float64)
    owner[0] = 1.0
    assert kept[0] == 0.0
    assert frozen(kept, np.float64) is kept


def test_an_unknown_name_comes_with_the_nearest_one() -> None:
    assert "did you mean 'random'" in str(unknown_name("strategy", "randon", ["random", "greedy"]))
    assert "known: greedy, random" in str(unknown_name("strategy", "xyz", ["random", "greedy"]))


@given(mdps())
def test_other_probabilities_leave_the_rows_as_they_are(mdp: MDP) -> None:
    rows = mdp.transitions
    lengths = np.diff(rows.indptr)
    even = np.repeat(1 / np.maximum(1, lengths), lengths)
    other = rows.with_probabilities(even)
    assert other.indptr is rows.indptr
    np.testing.assert_allclose(other.matrix.toarray().sum(axis=1), rows.filled)
    again = Transitions(rows.n_states, rows.n_actions, rows.indptr, rows.successors, even, rows.steps)
    np.testing.assert_array_equal(other.dense(), again.dense())


def test_probabilities_that_do_not_fit_the_rows_are_named() -> None:
    rows = MDP.from_dense(np.full((2, 2, 2), 0.5), initial=0, horizon=3).transitions
    with pytest.raises(InputError, match=r"transitions\[0, 1\] sum to 1\.1"):
        rows.with_probabilities(np.array([0.5, 0.5, 0.5, 0.6, 0.5, 0.5, 0.5, 0.5]))
    with pytest.raises(InputError, match="must have length"):
        rows.with_probabilities(np.ones(3))


def test_what_depends_on_a_shape_alone_is_made_once_unless_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, ...]] = []

    @shared
    def ones(shape: tuple[int, ...]) -> FloatArray:
        made.append(shape)
        return np.ones(shape)

    assert ones((2, 3)) is ones((2, 3))
    monkeypatch.setattr("aceirl.models.tabular.mdp.SHARED", 5)
    assert ones((2, 3)) is not ones((2, 3))
    assert made == [(2, 3)] * 3
    policy = uniform_policy((2, 3, 4))
    assert not policy.flags.writeable
    np.testing.assert_array_equal(policy, 0.25)
