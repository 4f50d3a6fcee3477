"""Distances between rewards: each against its definition written out, and what must not change them."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import unrolled
from scipy import sparse
from scipy.sparse.linalg import splu
from strategies import SEEDS, mdps, random_mdp, rewards

from aceirl.dynamic_programming import evaluate, greedy_actions, occupancy, optimal_values
from aceirl.envs import make
from aceirl.errors import InputError
from aceirl.mdp import MDP, FloatArray, IntArray, Transitions
from aceirl.metrics import Truth
from aceirl.rewards import dard, epic, largest_regret, shaping, starc
from aceirl.rewards.shaping import unshaped

Distance = Callable[..., float]


def by_epic(mdp: MDP, first: Any, second: Any, **options: Any) -> float:
    """EPIC, called like the others."""
    return epic(first, second, horizon=mdp.horizon, **options)


DISTANCES: dict[str, Distance] = {"epic": by_epic, "dard": dard, "starc": starc}
every_distance = pytest.mark.parametrize("distance", DISTANCES.values(), ids=DISTANCES.keys())


# The definitions, written out.


def epic_form(reward: FloatArray, states: FloatArray, actions: FloatArray) -> FloatArray:
    """The canonical form of `reward [H, S, A, S']`, any reward of transitions, with every expectation enumerated."""
    horizon, n_states, n_actions, _ = reward.shape
    form = reward.copy()
    for h, s, a, t in np.ndindex(reward.shape):
        for S, A, S2 in itertools.product(range(n_states), range(n_actions), range(n_states)):
            chance = states[S] * actions[A] * states[S2]
            form[h, s, a, t] -= chance * reward[h, s, A, S2]
            if h + 1 < horizon:
                form[h, s, a, t] += chance * (reward[h + 1, t, A, S2] - reward[h + 1, S, A, S2])
    return form


def dard_form(reward: FloatArray, P: FloatArray, actions: FloatArray) -> FloatArray:
    """The canonical form of `reward [H, S, A, S']` in the process `P [H, S, A, S']`, likewise."""
    horizon, n_states, n_actions, _ = reward.shape
    form = reward.copy()
    for h, s, a, t in np.ndindex(reward.shape):
        for A, S1 in itertools.product(range(n_actions), range(n_states)):
            arrives = actions[A] * P[h, s, A, S1]
            form[h, s, a, t] -= arrives * reward[h, s, A, S1]
            if h + 1 < horizon:
                for S2 in range(n_states):
                    goes_on = P[h + 1, t, A, S2]
                    form[h, s, a, t] -= arrives * goes_on * reward[h + 1, S1, A, S2]
                    form[h, s, a, t] += actions[A] * goes_on * reward[h + 1, t, A, S2] / n_states
    return form


def pearson_distance(first: FloatArray, second: FloatArray, weights: FloatArray) -> float:
    """From the weighted correlation; a form that does not vary has distance 0 from such a one and ½ from others."""
    flat = weights.ravel() / weights.sum()
    one, two = (form.ravel() - flat @ form.ravel() for form in (first, second))
    spread_one, spread_two = (np.sqrt(flat @ form**2) for form in (one, two))
    still_one, still_two = (spread < 1e-9 for spread in (spread_one, spread_two))
    if still_one or still_two:
        return 0.0 if still_one and still_two else 0.5
    return float(np.sqrt(max(0.0, (1 - flat @ (one * two) / (spread_one * spread_two)) / 2)))


def shaping_matrix(mdp: MDP) -> FloatArray:
    """`[H·S·A, H·S]`: from potentials to what they add to a reward."""
    P, _ = unrolled(mdp)
    horizon, n_states, _ = mdp.shape
    matrix = np.zeros((*mdp.shape, horizon, n_states))
    for h, s, a in np.ndindex(mdp.shape):
        matrix[h, s, a, h, s] += 1
        if h + 1 < horizon:
            matrix[h, s, a, h + 1] -= P[h, s, a]
    return matrix.reshape(int(np.prod(mdp.shape)), horizon * n_states)


def starc_by_least_squares(mdp: MDP, first: FloatArray, second: FloatArray, coverage: FloatArray) -> float:
    root = np.sqrt(coverage.ravel() / coverage.sum())
    matrix = root[:, None] * shaping_matrix(mdp)
    forms = []
    for reward in (first, second):
        target = root * reward.ravel()
        form = target - matrix @ np.linalg.lstsq(matrix, target, rcond=None)[0]
        norm = np.linalg.norm(form)
        forms.append(form / norm if norm > 1e-9 * np.abs(reward).max() else np.zeros_like(form))
    return float(np.linalg.norm(forms[0] - forms[1]) / 2)


def shaped(mdp: MDP, reward: FloatArray, potential: FloatArray) -> FloatArray:
    """The reward with shaping by `potential [H, S]`, which is zero after the last step."""
    P, _ = unrolled(mdp)
    later = np.concatenate((potential[1:], np.zeros((1, mdp.n_states))))
    return reward - potential[:, :, None] + np.einsum("hsat,ht->hsa", P, later)


def deterministic_policies(shape: tuple[int, int, int]) -> list[FloatArray]:
    horizon, n_states, n_actions = shape
    choices = itertools.product(range(n_actions), repeat=horizon * n_states)
    return [np.eye(n_actions)[np.reshape(choice, (horizon, n_states))] for choice in choices]


def returns(mdp: MDP, reward: FloatArray, policies: list[FloatArray]) -> FloatArray:
    return np.array([mdp.initial @ evaluate(mdp, reward, policy)[1][0] for policy in policies])


def random_coverage(rng: np.random.Generator, shape: tuple[int, int, int], kind: str) -> FloatArray:
    """ "uniform", "positive", or "holes": some entries do not count."""
    weights = rng.exponential(size=shape)
    if kind == "uniform":
        return np.ones(shape)
    if kind == "holes":
        weights *= rng.random(shape) < 0.6
        weights.flat[rng.integers(weights.size)] += 1.0
    return weights


COVERAGES = st.sampled_from(["uniform", "positive", "holes"])
TINY = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[MDP, FloatArray, FloatArray]:
    """A small process and two rewards."""
    mdp = draw(mdps(complete=True, shape=TINY))
    return mdp, draw(rewards(mdp.shape)), draw(rewards(mdp.shape))


@given(pairs(), COVERAGES, SEEDS)
@settings(max_examples=40)
def test_epic_is_the_definition(pair: tuple[MDP, FloatArray, FloatArray], kind: str, seed: int) -> None:
    mdp, first, second = pair
    coverage = random_coverage(np.random.default_rng(seed), mdp.shape, kind)
    coverage /= coverage.sum()
    states, actions = coverage.sum(axis=(0, 2)), coverage.sum(axis=(0, 1))
    forms = [epic_form(over_successors(reward, mdp), states, actions) for reward in (first, second)]
    expected = pearson_distance(*scaled(forms, first, second), coverage[..., None] * states)
    assert epic(first, second, coverage=coverage) == pytest.approx(expected, abs=1e-7)


@given(pairs(), COVERAGES, SEEDS)
@settings(max_examples=40)
def test_dard_is_the_definition(pair: tuple[MDP, FloatArray, FloatArray], kind: str, seed: int) -> None:
    mdp, first, second = pair
    P, _ = unrolled(mdp)
    coverage = random_coverage(np.random.default_rng(seed), mdp.shape, kind)
    coverage /= coverage.sum()
    forms = [dard_form(over_successors(reward, mdp), P, coverage.sum(axis=(0, 1))) for reward in (first, second)]
    expected = pearson_distance(*scaled(forms, first, second), coverage[..., None] * P)
    assert dard(mdp, first, second, coverage=coverage) == pytest.approx(expected, abs=1e-7)


@given(pairs(), COVERAGES, SEEDS)
def test_starc_is_the_definition(pair: tuple[MDP, FloatArray, FloatArray], kind: str, seed: int) -> None:
    mdp, first, second = pair
    coverage = random_coverage(np.random.default_rng(seed), mdp.shape, kind)
    expected = starc_by_least_squares(mdp, first, second, coverage)
    assert starc(mdp, first, second, coverage=coverage) == pytest.approx(expected, abs=1e-7)


def over_successors(reward: FloatArray, mdp: MDP) -> FloatArray:
    return np.repeat(reward[..., None], mdp.n_states, axis=3)
