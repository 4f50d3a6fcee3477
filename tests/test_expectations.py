"""The certificate on feature expectations: valid, not vacuous, and tighter over a feasible set."""

from __future__ import annotations

import numpy as np
import pytest

from aceirl.certificates.expectations import betting_bounds, certify_expectations, feature_means
from aceirl.errors import InputError
from aceirl.models.vectors.episodes import Episode
from aceirl.models.vectors.features import Features


def test_intervals_hold_as_often_as_they_say() -> None:
    """Looked at all along: the bounds are running ones. At most 64 of 300 may fail at δ = 0.1 (chance below 1e-8)."""
    rng = np.random.default_rng(0)
    broken = 0
    for run in range(300):
        mean = (0.03, 0.3, 0.5)[run % 3]
        low, high = betting_bounds((rng.random(80) < mean).astype(float), 0.1)
        broken += not low <= mean <= high
    assert broken <= 64


def test_intervals_shrink_and_know_small_variance() -> None:
    rng = np.random.default_rng(1)
    widths = [np.ptp(betting_bounds(0.5 + 0.1 * rng.uniform(-1, 1, n), 0.1)) for n in (50, 200, 800)]
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 0.02 < np.ptp(betting_bounds((rng.random(800) < 0.5).astype(float), 0.1))


def test_wagers_by_hand() -> None:
    """What is staked on one mean, step by step in plain Python."""
    x, delta, m = [0.9, 0.8, 0.95, 0.85] * 10, 0.1, 0.5
    wealth, total, squares, most = 1.0, 0.0, 0.0, 1.0
    for t, value in enumerate(x, start=1):
        variance = 0.25 if t == 1 else (0.25 + squares) / t
        stake = min((2 * np.log(2 / delta) / (variance * t * np.log(1 + t))) ** 0.5, 0.5 / m)
        wealth *= 1 + stake * (value - m)
        most = max(most, wealth)
        total += value
        squares += (value - (0.5 + total) / (1 + t)) ** 2
    assert (betting_bounds(np.array(x), delta)[0] >= m) == (most >= 2 / delta)
    assert most >= 2 / delta


def test_the_loss_of_every_reward_is_below_the_certificate() -> None:
    rng = np.random.default_rng(2)
    expert, policy = rng.beta(2, 3, (300, 4)), rng.beta(2, 4, (300, 4))
    found = certify_expectations(expert, policy, 0.05, 10, ("a", "b", "c", "d"))
    truth = 2 / 5 - 2 / 6
    assert 10 * truth < found.loss < 10 * (truth + 0.15)
    assert found.share == pytest.approx(found.loss / 10)
    assert found.worst in "abcd"
    assert "loses at most" in found.statement
    w = rng.laplace(size=(1000, 4))
    w /= np.abs(w).sum(axis=1, keepdims=True)
    assert (10 * w @ np.full(4, truth)).max() <= found.loss


def test_a_feasible_set_leaves_less_to_lose() -> None:
    """Rewards that like the first feature no less than they mind the second; by a grid over all of them."""
    rng = np.random.default_rng(3)
    expert, policy = rng.beta(2, 3, (200, 2)), np.column_stack((rng.beta(2, 3, 200), rng.beta(2, 8, 200)))
    whole = certify_expectations(expert, policy, 0.1, 1)
    moments = np.array([[1.0, -1.0], [0.0, -1.0]])  # w1 ≥ w2 and w2 ≤ 0
    part = certify_expectations(expert, policy, 0.1, 1, moments=moments)
    assert part.loss < whole.loss
    w = rng.laplace(size=(100000, 2))
    w /= np.abs(w).sum(axis=1, keepdims=True)
    w = w[(w @ moments.T >= 0).all(axis=1)]
    by_hand = (np.maximum(w, 0) @ part.upper - np.maximum(-w, 0) @ part.lower).max()
    assert part.loss == pytest.approx(by_hand, abs=1e-3)


def test_means_of_features_are_per_step_of_the_horizon() -> None:
    seen = np.linspace(0, 1, 41)[:, None]
    features = Features.of(seen, np.empty((0, 1)))
    one = Episode(seen, np.zeros(40, dtype=int), False, 0)
    found = feature_means(features, [one], 80)
    assert found[0, -1] == 0.5  # the step
    assert found.min() >= 0
    assert found.max() <= 1
    with pytest.raises(InputError, match="episode 0 has 40 steps"):
        feature_means(features, [one], 10)


@pytest.mark.parametrize(
    ("expert", "policy", "delta", "said"),
    [
        (np.zeros((3, 2)), np.zeros((3, 1)), 0.1, "have the shapes"),
        (np.full((3, 2), 2.0), np.zeros((3, 2)), 0.1, r"expert has values from 2 to 2; they must be in \[0, 1\]"),
        (np.zeros((3, 2)), np.zeros((3, 2)), 1.5, "delta is 1.5"),
    ],
)
def test_what_cannot_be_certified_is_said(expert: np.ndarray, policy: np.ndarray, delta: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        certify_expectations(expert, policy, delta, 5)
