"""Radii: valid at all times and for all value functions at once, and sharper where a row is simple."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import rel_entr
from scipy.stats import betabinom, binom

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.irl.belief import Plan
from aceirl.models.tabular.confidence import (
    CONCENTRATION,
    FAMILIES,
    SHARE_OF_FIRST,
    adaptive,
    kl,
    largest_drop,
    mixture_divergence,
    subset_variation,
)
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import IntArray, Transitions
from studies.collecting import collected


def _known(name: str, episodes: int, *, stationary: bool = True, told: bool = True) -> Estimate:
    """What is known after some episodes of the uniform policy."""
    problem, rng = make(name, 0), np.random.default_rng(0)
    expert, shape = PolicyExpert(problem.expert, problem.mdp.shape), problem.mdp.shape
    plan = Plan(policy=np.full(shape, 1 / shape[2]))
    before = Counts.empty(shape, stationary=stationary)
    counts = collected(Simulator(problem.mdp), expert, plan, episodes, before, rng).counts
    return Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=problem.mdp.initial if told else None)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5), st.floats(1e-4, 2))
def test_the_largest_drop_covers_every_set_of_outcomes(weights: list[float], divergence: float) -> None:
    shares = np.array(weights) / np.sum(weights)
    sums = [
        shares[list(chosen)].sum()
        for size in range(1, len(shares))
        for chosen in combinations(range(len(shares)), size)
    ]
    grid = np.linspace(0, 1, 4001)
    drops = []
    for p in sums:
        inside = grid[(grid <= p) & (rel_entr(p, grid) + rel_entr(1 - p, 1 - grid) <= divergence)]
        drops.append(p - inside.min() if len(inside) else 0.0)
    bound = largest_drop(np.array([shares.max()]), np.array([divergence]))[0]
    assert max(drops) <= bound + 1e-12
    assert bound <= np.sqrt(divergence / 2) + 1e-12


def test_a_row_with_one_successor_gets_a_radius_of_order_one_over_its_visits() -> None:
    visits, one = np.array([100.0, 1000.0, 10_000.0]), np.ones(3, dtype=np.int64)
    tv_radius, unseen_mass = subset_variation(visits, one, np.ones(3), 10, 20, 0.1)
    assert (tv_radius == 0).all()
    by_sets = (np.log(20 / 0.1 / (1 - SHARE_OF_FIRST)) + np.log(10 * 2) + np.log(2) + 0.5 * np.log(visits)) / visits
    of_first = [1 - _excluded_below(n - 1, 0, np.log(20 / 0.1 / SHARE_OF_FIRST)) for n in visits]
    assert unseen_mass == pytest.approx(np.minimum(-np.expm1(-by_sets), of_first), rel=1e-3)
    assert unseen_mass[0] < of_first[0]  # few observations say more by sets
    assert unseen_mass[2] == pytest.approx(of_first[2], rel=1e-3)
    assert unseen_mass[2] < unseen_mass[0] / 70


def _excluded_below(hits: float, misses: float, log_level: float) -> float:
    """The lower end of what is not excluded, from the laws of the two counts as scipy has them."""
    n = int(hits + misses)

    def excess(p: float) -> float:
        mixed = betabinom.logpmf(int(hits), n, CONCENTRATION * p, CONCENTRATION * (1 - p))
        return float(mixed - binom.logpmf(int(hits), n, p)) - log_level

    return float(brentq(excess, 1e-9, (hits + 0.5) / (n + 1), xtol=1e-12)) if excess(1e-9) > 0 else 0.0


@pytest.mark.parametrize(("first", "second"), [(9000, 1000), (20_000, 20_000), (999, 1)])
def test_a_row_with_two_successors_is_judged_by_the_one_seen_first(first: int, second: int) -> None:
    n, level, states = first + second, np.log(164 / 0.1 / SHARE_OF_FIRST), 41
    shape = np.array([float(n)]), np.array([2]), np.array([max(first, second) / n])
    tv_radius, unseen_mass = subset_variation(*shape, states, 164, 0.1)
    worst = unseen_mass[0]
    for hits, misses in ((first, second), (second, first)):  # either may have been the first
        low = _excluded_below(hits - 1, misses, level)
        high = 1 - _excluded_below(misses, hits - 1, level)
        worst = max(worst, hits / n - low, high - hits / n + unseen_mass[0])
    pairs = np.log(164 / 0.1 / (1 - SHARE_OF_FIRST)) + np.log(states * 2) + np.log(2) + 0.5 * np.log(n)
    by_sets = largest_drop(shape[2], np.array([pairs / n]))[0]
    assert tv_radius[0] == pytest.approx(min(worst, by_sets), rel=1e-3)
    assert (tv_radius[0] < 0.9 * by_sets) == (second >= 1000)


@pytest.mark.parametrize("row", [[0.7, 0.3, 0, 0, 0], [0.97, 0.01, 0.01, 0.01, 0], [0.2] * 5, [1.0, 0, 0, 0, 0]])
def test_a_row_stays_within_its_radius_at_all_times(row: list[float]) -> None:
    """Looked at many times along each of 400 sequences; beyond the radius in no more of them than `δ` allows."""
    truth, delta, runs = np.array(row), 0.1, 400
    rng = np.random.default_rng(0)
    looks = np.unique(np.geomspace(1, 10_000, 40).astype(int))
    broken = np.zeros(runs, dtype=bool)
    counts, before = np.zeros((runs, 5)), 0
    for look in looks:
        counts += rng.multinomial(look - before, truth, size=runs)
        before = look
        visits, seen, guess = counts.sum(axis=1), np.count_nonzero(counts, axis=1), counts / look
        tv_radius, unseen_mass = subset_variation(visits, seen, guess.max(axis=1), 5, 1, delta)
        broken |= np.abs(guess - truth).sum(axis=1) / 2 > np.maximum(tv_radius, unseen_mass)
        broken |= np.where(counts > 0, 0.0, truth).sum(axis=1) > unseen_mass
    assert broken.sum() <= binom.isf(1e-7, runs, delta)


@pytest.mark.parametrize("name", ["random-mdp", "gridworld", "chain", "double-chain", "four-paths"])
def test_adaptive_radii_are_sharper_than_kl_wherever_rows_are_well_known(name: str) -> None:
    known = _known(name, 100_000)
    often = known.row_visits > 1000
    assert often.any()
    ours, theirs = adaptive(known, 1.0, 0.1), kl(known, 1.0, 0.1)
    assert (ours.tv_radius[often] < theirs.tv_radius[often]).all()
    assert (ours.unseen_mass[often] < theirs.unseen_mass[often]).all()


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_radii_shrink_and_unvisited_rows_know_nothing(family: str) -> None:
    few, many = (FAMILIES[family](_known("double-chain", n), 1.0, 0.1) for n in (1000, 1_000_000))
    assert (many.tv_radius <= few.tv_radius + 1e-12).all()
    assert many.tv_radius.mean() < 0.8 * few.tv_radius.mean()
    nothing = FAMILIES[family](_known("double-chain", 1), 1.0, 0.1)
    unvisited = _known("double-chain", 1).row_visits == 0
    assert (nothing.tv_radius[unvisited] == 1).all()
    assert (nothing.unseen_mass[unvisited] == 1).all()


def test_dynamics_that_may_change_with_the_step_are_known_less_well() -> None:
    pooled, per_step = (adaptive(_known("chain", 2000, stationary=kind), 1.0, 0.1) for kind in (True, False))
    assert (per_step.tv_radius >= pooled.tv_radius).all()


def test_a_start_that_is_not_told_costs_and_is_learnt() -> None:
    told = adaptive(_known("chain", 1000), 1.0, 0.1)
    few, many = (adaptive(_known("chain", n, told=False), 1.0, 0.1) for n in (100, 100_000))
    assert told.start == 0
    assert 0 < many.start < few.start / 5
    assert (many.tv_radius <= few.tv_radius).all()


@pytest.mark.parametrize("row", [[0.7, 0.3, 0, 0, 0], [0.97, 0.01, 0.01, 0.01, 0], [0.2] * 5, [1.0, 0, 0, 0, 0]])
def test_the_divergence_of_a_row_stays_within_its_bound_at_all_times(row: list[float]) -> None:
    """As above, at two levels."""
    truth, runs, deltas = np.array(row), 400, (0.1, 0.5)
    rng = np.random.default_rng(1)
    counts, before = np.zeros((runs, 5), dtype=np.int64), 0
    broken = np.zeros((2, runs), dtype=bool)
    for look in np.unique(np.geomspace(1, 10_000, 40).astype(int)):
        counts += rng.multinomial(look - before, truth, size=runs)
        before = look
        divergence = rel_entr(counts / look, np.where(counts > 0, truth, 0.0)).sum(axis=1)
        for k, delta in enumerate(deltas):
            bounds = mixture_divergence(_rows(counts), np.full(runs, float(look)), 5, 1, delta)
            broken[k] |= divergence > bounds + 1e-12
    for found, delta in zip(broken.sum(axis=1), deltas, strict=True):
        assert found <= binom.isf(1e-7, runs, delta)


def _rows(counts: IntArray) -> Transitions:
    """Counts `[rows, S]` as rows of as many states with one action each."""
    filled = counts > 0
    return Transitions(
        n_states=len(counts),
        n_actions=1,
        indptr=np.concatenate(([0], np.cumsum(filled.sum(axis=1)))),
        successors=np.nonzero(filled)[1].astype(np.int32),
        probabilities=(counts / np.maximum(1, counts.sum(axis=1, keepdims=True)))[filled],
    )


@given(st.lists(st.integers(0, 300_000), min_size=2, max_size=6).filter(any), st.floats(0.01, 0.9))
def test_the_mixture_is_the_probability_of_the_observations(times: list[int], delta: float) -> None:
    """Against the product of the predictions `(nᵢ + α)/(n + 1)`, one observation after the other."""
    counts = np.array(times)
    code = sum(np.log(np.arange(1, n) + 1 / len(counts)).sum() + np.log(1 / len(counts)) for n in counts if n > 0)
    total = int(counts.sum())
    code -= np.log(np.arange(1, total + 1)).sum()
    best = rel_entr(counts, total).sum()
    padded = np.zeros((len(counts), len(counts)), dtype=np.int64)
    padded[0] = counts
    visits = np.zeros(len(counts))
    visits[0] = total
    found = mixture_divergence(_rows(padded), visits, len(counts), 3, delta)
    assert found[0] * total == pytest.approx(np.log(3 / delta) + best - code, rel=1e-9, abs=1e-6)
    assert (found[1:] == np.inf).all()


def test_delta_outside_its_range_is_named() -> None:
    with pytest.raises(InputError, match="delta must be in \\(0, 1\\), got 0"):
        subset_variation(np.ones(1), np.ones(1, dtype=np.int64), np.ones(1), 2, 1, 0)
