"""(EB1) against its twin, and what (SP1) promises: matched pairs of rewards, checked by computing both sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr
from strategies import SEEDS, from_rows, mdps, random_mdp, random_policy, rewards

from aceirl.envs.simulator import Simulator
from aceirl.models.tabular.bounds import ErrorBound, error_bound, highest_means
from aceirl.models.tabular.confidence import Radii, kl, trivial_bound
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray


def radii_of(cost: FloatArray, rmax: float = 1.0, start: float = 0.0) -> Radii:
    """Radii whose total is `cost [H, S, A]`, clipped."""
    nothing, ceiling = np.zeros(cost.shape), trivial_bound(len(cost), rmax)
    return Radii(
        cost,
        nothing[:, :, 0],
        start,
        ceiling,
        tv_radius=nothing,
        unseen_mass=nothing,
        divergence=nothing,
        guaranteed=True,
    )


@given(st.data(), mdps(), st.sampled_from([0.0, 0.3]))
def test_eb1_is_its_twin(data: st.DataObject, mdp: MDP, start: float) -> None:
    radii = radii_of(np.abs(data.draw(rewards(mdp.shape))), start=start)
    bound = error_bound(mdp, radii)
    expected = oracles.error_bound(*oracles.unrolled(mdp), radii.total, radii.ceiling)
    np.testing.assert_allclose(bound.error, expected, rtol=1e-12, atol=1e-12)
    value = float(mdp.initial @ expected[0].max(axis=1)) + start if mdp.initial.any() else float(mdp.horizon)
    assert bound.value == pytest.approx(min(value, mdp.horizon))
    assert (bound.error <= radii.ceiling[:, None, None]).all()


def test_eb1_by_hand() -> None:
    # Two states; action 0 of state 0 leads to either alike, action 1 to itself; state 1 stays. C is 0.1 and, in 1, 0.4.
    mdp = MDP.from_dense([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]], initial=0, horizon=3)
    cost = np.full(mdp.shape, 0.1)
    cost[:, 1] = 0.4
    bound = error_bound(mdp, radii_of(cost))
    # E_2 = (0.1, 0.4), E_1 = (0.1 + 0.25, 0.8), E_0(0) = 0.1 + (0.35 + 0.8)/2.
    np.testing.assert_allclose(bound.error[:, 0, 0], [0.675, 0.35, 0.1])
    assert bound.value == pytest.approx(0.675)


def test_nothing_follows_the_last_step_so_an_unknown_row_costs_no_more_there() -> None:
    mdp = random_mdp(np.random.default_rng(0), (3, 2, 2), unknown=1.0)
    bound = error_bound(mdp, radii_of(np.full(mdp.shape, 0.25)))
    np.testing.assert_array_equal(bound.error[:, 0, 0], [3.0, 2.0, 0.25])


def test_an_unknown_start_is_worth_everything() -> None:
    mdp = random_mdp(np.random.default_rng(0), (3, 2, 2), start="unknown")
    assert error_bound(mdp, radii_of(np.zeros(mdp.shape))).value == 3.0


@given(st.data(), mdps())
def test_larger_radii_give_a_larger_bound(data: st.DataObject, mdp: MDP) -> None:
    cost = np.abs(data.draw(rewards(mdp.shape)))
    small, large = (error_bound(mdp, radii_of(scale * cost)) for scale in (1.0, 1.5))
    assert (small.error <= large.error).all()


def matched_pair(
    rng: np.random.Generator, P: FloatArray, P_hat: FloatArray, used: BoolArray, used_hat: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """`r = R(V, A)` and `r̂ = R̂(V, A)` for random parameters, moved and stretched so that both lie in [0, 1]."""
    horizon, n_states, _ = used.shape
    V = np.zeros((horizon + 1, n_states))
    V[:-1] = rng.normal(size=(horizon, n_states)) * rng.choice([0.1, 1.0, 5.0])
    A = rng.exponential(size=used.shape) * rng.choice([0.1, 1.0])

    def reward(P: FloatArray, used: BoolArray) -> FloatArray:
        return np.asarray(-A * ~used + V[:-1, :, None] - np.einsum("hsat,ht->hsa", P, V[1:]))

    r, r_hat = reward(P, used), reward(P_hat, used_hat)
    # A constant reward per step is a change of V, so this is another matched pair.
    low, high = min(r.min(), r_hat.min()), max(r.max(), r_hat.max())
    span = high - low or 1.0
    return (r - low) / span, (r_hat - low) / span


def check_promise(
    rng: np.random.Generator, truth: MDP, estimate: MDP, used: BoolArray, used_hat: BoolArray, bound: ErrorBound
) -> None:
    """Every policy's value agrees up to 2E, and planning with `r̂` in `M̂` loses at most 4E under `r` in `M`."""
    P, known = oracles.unrolled(truth)
    P_hat, seen = oracles.unrolled(estimate)
    # Whatever an unknown row really does, it may be filled in anyhow.
    P_hat = np.where(seen[..., None], P_hat, rng.dirichlet(np.ones(truth.n_states), size=truth.shape))
    r, r_hat = matched_pair(rng, P, P_hat, used, used_hat)
    nothing = np.zeros(truth.horizon)

    def value(P: FloatArray, reward: FloatArray, policy: FloatArray) -> float:
        return float(truth.initial @ oracles.policy_values(P, known, reward, policy, nothing)[1][0])

    def best(P: FloatArray, reward: FloatArray) -> FloatArray:
        q, _ = oracles.backward_induction(P, known, reward, nothing)
        return np.asarray(np.eye(truth.n_actions)[q.argmax(axis=2)])

    candidates = [best(P, r), best(P_hat, r_hat), best(P, -r), best(P_hat, -r_hat)]
    candidates += [random_policy(rng, truth.shape, "deterministic") for _ in range(5)]
    for policy in candidates:
        assert abs(value(P, r, policy) - value(P_hat, r_hat, policy)) <= 2 * bound.value + 1e-9
    assert value(P, r, best(P, r)) - value(P, r, best(P_hat, r_hat)) <= 4 * bound.value + 1e-9


@given(SEEDS, st.booleans(), st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.3]))
def test_sp1_holds_with_the_smallest_radii_that_are_true(
    seed: int, stationary: bool, unknown: float, unasked: float
) -> None:
    """The radii are the real distances between the two processes, so nothing hides behind their looseness."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    truth = random_mdp(rng, shape, stationary=stationary)
    other = random_mdp(rng, shape, stationary=stationary, sparsity=0.0, unknown=unknown)
    near = rng.choice([0.02, 0.2, 1.0])
    mixed = (1 - near) * truth.transitions.dense() + near * other.transitions.dense()
    estimate = from_rows(
        mixed.reshape(-1, shape[1]),
        other.transitions.filled,
        shape,
        truth.initial,
        stationary=stationary,
        stored_zeros=True,
    )
    distance = 0.5 * np.abs(oracles.unrolled(truth)[0] - oracles.unrolled(estimate)[0]).sum(axis=3)
    ceiling = trivial_bound(shape[0], 1.0)
    asked = rng.random(shape[:2]) >= unasked
    used = np.eye(shape[2], dtype=np.bool_)[rng.integers(shape[2], size=shape[:2])]
    radii = replace(
        radii_of(np.arange(shape[0] - 1, -1, -1.0)[:, None, None] * distance),
        expert=np.where(asked, 0.0, ceiling[:, None]),
    )
    check_promise(rng, truth, estimate, used, used | ~asked[:, :, None], error_bound(estimate, radii))


@given(SEEDS, st.sampled_from([10**2, 10**4, 10**6]))
def test_sp1_holds_for_what_was_really_seen(seed: int, episodes: int) -> None:
    rng = np.random.default_rng(seed)
    truth = random_mdp(rng, (3, 2, 2), sparsity=0.0)
    actions = rng.integers(2, size=truth.shape[:2])
    moves = Simulator(truth).rollout(np.full(truth.shape, 0.5), episodes, rng)
    seen = Counts.of_moves(moves, truth.shape)
    asked = seen.visits.sum(axis=2) > 0
    seen = seen.with_answers(np.eye(2, dtype=np.int64)[actions] * asked[:, :, None])
    known = Estimate.of(seen, kind=ExpertKind(), delta=0.01, initial=truth.initial)
    radii = kl(known, 1.0, 0.01)
    distance = 0.5 * np.abs(oracles.unrolled(truth)[0] - oracles.unrolled(known.mdp)[0]).sum(axis=3)
    reach = np.array([2.0, 1.0, 0.0])[:, None, None]
    if (reach * distance > radii.transition)[known.mdp.known].any():
        return  # outside the radii, with probability at most 0.01: nothing was promised
    bound = error_bound(known.mdp, radii)
    used = np.eye(2, dtype=np.bool_)[actions]
    check_promise(rng, truth, known.mdp, used, used | ~known.expert_known[:, :, None], bound)
    if episodes == 10**6:
        assert 4 * bound.value < 0.1 * 3  # and the promise is worth something


def test_a_smaller_promise_would_be_broken() -> None:
    """The check can fail: with radii of a tenth of the real distance some pair is further apart."""
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(50):
        truth, estimate = (random_mdp(rng, (3, 3, 2), sparsity=0.0, start="point") for _ in range(2))
        estimate = MDP.from_dense(estimate.transitions.dense(), initial=truth.initial, horizon=3)
        distance = 0.5 * np.abs(truth.transitions.dense() - estimate.transitions.dense()).sum(axis=-1)
        bound = error_bound(estimate, radii_of(0.1 * np.array([2.0, 1.0, 0.0])[:, None, None] * distance))
        used = np.eye(2, dtype=np.bool_)[rng.integers(2, size=(3, 3))]
        try:
            check_promise(rng, truth, estimate, used, used, bound)
        except AssertionError:
            broken += 1
    assert broken > 0


# The worst row in a KL ball, for values that are known.


@pytest.mark.parametrize("seed", range(12))
def test_the_highest_mean_is_that_of_a_conic_solver(seed: int) -> None:
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (2, 4, 2), unknown=0.2)
    values, divergence = rng.random(mdp.shape[:2]) * 10, 10 ** rng.uniform(-5, 1, mdp.shape)
    above = highest_means(mdp, divergence, values)
    P, known = oracles.unrolled(mdp)
    assert (above[~known] == 0).all()
    for h, s, a in np.argwhere(known):
        row, q = P[h, s, a], cp.Variable(mdp.n_states, nonneg=True)
        seen = row > 0
        ball = cp.sum(cp.rel_entr(row[seen], q[np.flatnonzero(seen)])) <= divergence[h, s, a]
        highest = cp.Problem(cp.Maximize(values[h] @ q), [cp.sum(q) == 1, ball]).solve(solver=cp.CLARABEL)
        assert above[h, s, a] == pytest.approx(highest - row @ values[h], abs=1e-4)


@given(mdps(), SEEDS, st.floats(1e-9, 20))
def test_no_row_in_the_ball_has_a_higher_mean(mdp: MDP, seed: int, spread: float) -> None:
    """Against rows drawn near the estimated one, with mass on what was never seen."""
    rng = np.random.default_rng(seed)
    P, known = oracles.unrolled(mdp)
    values = rng.normal(size=mdp.shape[:2])
    weight = rng.random((*mdp.shape, 1)) * min(1.0, spread)
    other = (1 - weight) * P + weight * rng.dirichlet(np.full(mdp.n_states, 0.5), mdp.shape)
    distance = np.where(known, rel_entr(P, np.where(P > 0, other, 0.0)).sum(axis=3), np.inf)
    above = highest_means(mdp, distance, values)
    moved = np.einsum("hsan,hn->hsa", other - P, values)
    assert (moved[known] <= above[known] + 1e-9).all()
    assert (above <= np.ptp(values, axis=1)[:, None, None] + 1e-12).all()
    np.testing.assert_array_equal(highest_means(mdp, np.full(mdp.shape, np.inf), values)[~known], 0.0)
