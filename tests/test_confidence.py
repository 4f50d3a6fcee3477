"""Radii: the formulas by hand, and how often the truth really lies outside."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from strategies import counts, random_mdp, random_policy

from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.models.tabular.confidence import FAMILIES, hoeffding, kl, total_variation, trivial_bound
from aceirl.models.tabular.counts import Counts, StepCounts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray

FALSE_ALARM = 1e-7  # the probability that a coverage test of right radii fails


def seen_everywhere(times: int, *, stationary: bool = True, shape: tuple[int, int, int] = (3, 2, 2)) -> Counts:
    """Every `(h, s, a)` seen `times` times, always with successor 0; nobody asked."""
    horizon, n_states, n_actions = shape
    n_rows = n_states * n_actions * (1 if stationary else horizon)
    per_row = times * horizon if stationary else times
    visits = np.full(shape, times)
    keys = np.arange(n_rows) * n_states
    none = np.zeros(0, dtype=np.int64)
    moved = (keys, np.full(n_rows, per_row)) if times else (none, none)
    return Counts.of_arrays(stationary, visits, np.zeros_like(visits), visits[0, :, 0] * 0, *moved)


def estimated(some: Counts, initial: FloatArray | None = None, **kind: Any) -> Estimate:
    return Estimate.of(some, kind=ExpertKind(**kind), delta=0.1, initial=initial)


def test_the_paper_s_radius_by_hand() -> None:
    # H=3, S=A=2, n=1000, δ=0.1: ℓ = log(24·2·2·3·1000²/0.1) = 21.78106; 3·2·sqrt(2ℓ/1000) = 1.252292.
    radii = hoeffding(estimated(seen_everywhere(1000), initial=np.array([1.0, 0.0])), 1.0, 0.1)
    np.testing.assert_allclose(radii.total[:, 0, 0], [1.252292, 0.834862, 0.417431], rtol=1e-5)
    assert radii.start == 0.0


def test_the_kl_radius_by_hand() -> None:
    # H=3, S=A=2, N=1000 in each row, a third of δ=0.1: β = log(4/0.0333) + log(e·1001) = 12.69625, TV = 0.0796751.
    some = replace(
        seen_everywhere(1000, stationary=False),
        stationary=True,
        visited=StepCounts.of(np.array([np.full((2, 2), v) for v in (1000, 0, 0)])),
        move_keys=np.array([0, 2, 4, 6]),
        move_counts=np.full(4, 1000),
        given=StepCounts.of(np.ones((3, 2, 2), dtype=np.int64)),
    )
    radii = kl(estimated(some, initial=np.array([1.0, 0.0])), 1.0, 0.1)
    np.testing.assert_allclose(radii.total[:, 0, 0], [0.159350, 0.0796751, 0.0], rtol=1e-5)
    # Per step the union is over three times as many rows.
    apart = seen_everywhere(1000, stationary=False).with_answers(np.ones((3, 2, 2), dtype=np.int64))
    beta = math.log(12 / (0.1 / 3)) + math.log(math.e * 1001)
    radii = kl(estimated(apart, initial=np.array([1.0, 0.0])), 1.0, 0.1)
    np.testing.assert_allclose(radii.transition[:, 0, 0], np.array([2, 1, 0]) * math.sqrt(beta / 2000), rtol=1e-12)


def scalar_hoeffding(n: int, h: int, shape: tuple[int, int, int], rmax: float, delta: float) -> float:
    horizon, n_states, n_actions = shape
    n = max(1, n)
    ell = math.log(24 * n_states * n_actions * horizon * n * n / delta)
    return (horizon - h) * rmax * min(1.0, 2 * math.sqrt(2 * ell / n))


def scalar_kl(n: int, h: int, shape: tuple[int, int, int], rows: int, rmax: float, delta: float) -> float:
    horizon, n_states, _ = shape
    if n_states == 1:
        return 0.0
    if n == 0:
        return (horizon - h - 1) * rmax
    beta = math.log(rows / delta) + (n_states - 1) * math.log(math.e * (1 + n / (n_states - 1)))
    return (horizon - h - 1) * rmax * min(1.0, math.sqrt(beta / (2 * n)))


@given(
    counts(answered="consistent"), st.sampled_from([0.5, 1.0, 7.0]), st.sampled_from([0.01, 0.5]), st.integers(0, 1000)
)
def test_radii_are_the_formulas_entry_by_entry(some: Counts, rmax: float, delta: float, factor: int) -> None:
    # Multiplying the counts reaches the range in which radii are not trivial.
    visited = StepCounts.of(some.visits * (factor + 1))
    some = replace(some, visited=visited, move_counts=some.move_counts * (factor + 1))
    start = np.eye(some.shape[1])[0]
    estimate = Estimate.of(some, kind=ExpertKind(), delta=delta, initial=start)
    paper, sound = hoeffding(estimate, rmax, delta), kl(estimate, rmax, delta)
    for h, s, a in np.ndindex(some.shape):
        n = int(some.visits[:, s, a].sum() if some.stationary else some.visits[h, s, a])
        assert paper.transition[h, s, a] == pytest.approx(
            scalar_hoeffding(int(some.visits[h, s, a]), h, some.shape, rmax, delta)
        )
        rows = estimate.mdp.transitions.n_rows
        assert sound.transition[h, s, a] == pytest.approx(scalar_kl(n, h, some.shape, rows, rmax, delta / 3))
        known = some.answers[h, s].any()
        assert sound.expert[h, s] == (0.0 if known else (some.shape[0] - h) * rmax)
        ceiling = (some.shape[0] - h) * rmax
        assert sound.total[h, s, a] == min(ceiling, sound.transition[h, s, a] + sound.expert[h, s])


@pytest.mark.parametrize("family", list(FAMILIES))
def test_radii_shrink_with_counts_and_grow_as_delta_falls(family: str) -> None:
    radius = FAMILIES[family]
    start = np.array([1.0, 0.0])
    by_counts = [
        radius(estimated(seen_everywhere(n), start), 1.0, 0.1).transition for n in (0, 10, 10**3, 10**5, 10**9)
    ]
    for more, less in zip(by_counts[1:], by_counts, strict=False):
        assert (more <= less).all()
    assert (by_counts[-1] < 1e-2).all()
    estimate = estimated(seen_everywhere(10**5), start)
    by_delta = [radius(estimate, 1.0, delta).transition[:-1] for delta in (0.5, 0.1, 1e-3, 1e-9)]
    for stricter, laxer in zip(by_delta[1:], by_delta, strict=False):
        assert (stricter > laxer).all()
    np.testing.assert_allclose(radius(estimate, 5.0, 0.1).total, 5 * radius(estimate, 1.0, 0.1).total)


def test_the_paper_s_family_alone_is_not_guaranteed() -> None:
    estimate = estimated(seen_everywhere(10))
    for name, family in FAMILIES.items():
        assert family(estimate, 1.0, 0.1).guaranteed == (name != "hoeffding")


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_a_wrong_delta_is_named(delta: float) -> None:
    with pytest.raises(InputError, match=f"delta.*{delta}"):
        total_variation(np.array([3]), 2, 4, delta)


def test_a_row_with_one_possible_successor_is_certain() -> None:
    np.testing.assert_array_equal(total_variation(np.array([0, 5]), 1, 4, 0.1), [0.0, 0.0])


def test_an_unseen_row_is_worth_everything() -> None:
    np.testing.assert_array_equal(total_variation(np.array([0, 1]), 5, 4, 0.1), [1.0, 1.0])
    np.testing.assert_array_equal(trivial_bound(3, 2.0), [6.0, 4.0, 2.0])


def test_an_estimated_start_has_a_radius_of_its_own() -> None:
    # 50 resets, a third of δ=0.1: β = log(1/0.0333) + log(e·51), 3·sqrt(β/100) = 0.866009.
    some = replace(seen_everywhere(10), starts=np.array([20, 30]))
    assert kl(estimated(some), 1.0, 0.1).start == pytest.approx(0.866009, rel=1e-5)
    assert kl(estimated(some, initial=np.array([0.4, 0.6])), 1.0, 0.1).start == 0.0
    assert kl(estimated(seen_everywhere(10)), 1.0, 0.1).start == 3.0
    assert hoeffding(estimated(some), 1.0, 0.1).start > 0


def violations(radius: Any, rows: FloatArray, runs: int, times: int, rng: np.random.Generator) -> int:
    """How many of `runs` sequences of observations leave the radius at any row `[R, K]` and any time."""
    n = np.arange(1, times + 1)
    limit = radius(n)
    outside = np.zeros(runs, dtype=np.bool_)
    for row in rows:
        drawn = rng.choice(len(row), p=row, size=(runs, times))
        distance = 0.5 * sum(np.abs(np.cumsum(drawn == k, axis=1) / n - row[k]) for k in range(len(row)))
        outside |= (distance > limit).any(axis=1)
    return int(outside.sum())


@pytest.mark.parametrize("successors", [2, 4])
def test_total_variation_holds_for_all_rows_and_all_times_at_once(successors: int) -> None:
    """At most a share δ of the runs is ever outside; a radius for one row and one time is outside far more often."""
    rng = np.random.default_rng(successors)
    rows = rng.dirichlet(np.ones(successors), size=6)
    runs, delta = 1000, 0.2
    limit = binom.isf(FALSE_ALARM, runs, delta)
    found = violations(lambda n: total_variation(n, successors, len(rows), delta), rows, runs, 300, rng)
    assert found <= limit

    def one_row_one_time(n: Any) -> Any:
        return np.sqrt(np.log(2 / delta) / (2 * n))

    assert violations(one_row_one_time, rows, runs, 300, rng) > limit


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"hoeffding"}))
@pytest.mark.parametrize("stationary", [True, False])
def test_the_truth_stays_within_the_radii_of_a_run(family: str, stationary: bool) -> None:
    """Whole runs, estimated start included, checked after every batch; at most a share δ may ever fail."""
    runs, delta = 60, 0.3
    failed = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        truth = random_mdp(rng, (3, 2, 2), stationary=stationary, sparsity=0.0)
        simulator, policy = Simulator(truth, hide_start=True), random_policy(rng, truth.shape)
        total, inside = Counts.empty(truth.shape, stationary=stationary), True
        for episodes in (1, 3, 12, 50, 200, 800, 3200):
            total = total + Counts.of_moves(
                simulator.rollout(policy, episodes, rng), truth.shape, stationary=stationary
            )
            estimate = Estimate.of(total, kind=ExpertKind(), delta=delta)
            radii = FAMILIES[family](estimate, 1.0, delta)
            distance = 0.5 * np.abs(estimate.mdp.transitions.dense() - truth.transitions.dense()).sum(axis=-1)
            reach = np.array([2.0, 1.0, 0.0])[:, None, None]
            seen = estimate.mdp.known
            inside &= bool((reach * distance <= radii.transition)[seen].all())
            inside &= 3 * 0.5 * np.abs(estimate.mdp.initial - truth.initial).sum() <= radii.start
        failed += not inside
    assert failed <= binom.isf(FALSE_ALARM, runs, delta)
