"""A committee over vectors, what it chooses among, and a small tree that says it in words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aceirl import InputError
from aceirl.models.vectors.choices import ActionChoices, prototypes
from aceirl.models.vectors.committee import MEMBERS, NetworkCommittee, Schedule, _drawn, _gradient, _layers, fitted
from aceirl.models.vectors.tree import leaves

RNG = np.random.default_rng(0)
SEEN = RNG.uniform(-1, 1, size=(300, 3))
SAID = (SEEN[:, 0] + 0.5 * SEEN[:, 1] > 0).astype(int)


@pytest.fixture(scope="module")
def committee() -> NetworkCommittee:
    return fitted(SEEN, SAID, 2, Schedule(300, 0.02), seed=(1,))


def test_the_gradient_is_that_of_differences() -> None:
    """In double precision, for which it need not be compiled; and that of the compiled one is the same."""
    rng = np.random.default_rng(2)
    weights = tuple(part.astype(np.float64) for part in _drawn(3, 4, MEMBERS, rng))
    inputs, wanted = rng.normal(size=(1, 70, 3)), rng.integers(4, size=(MEMBERS, 70))

    def loss(parts: tuple[np.ndarray, ...]) -> float:
        logits = _layers(inputs[:, None], parts)[-1][:, 0]  # type: ignore[arg-type]
        logs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
        return -float(np.take_along_axis(logs, wanted[..., None], axis=2).mean(axis=1).sum())

    slopes = tuple(np.empty_like(part) for part in weights)
    _gradient.py_func(inputs, wanted, weights, slopes)  # type: ignore[attr-defined]
    narrow, found = (tuple(part.astype(np.float32) for part in parts) for parts in (weights, slopes))
    _gradient(inputs.astype(np.float32), wanted, narrow, found)
    for slope, compiled in zip(slopes, found, strict=True):
        np.testing.assert_allclose(compiled, slope, rtol=1e-3, atol=1e-5)
    for number, slope in enumerate(slopes):
        way = rng.normal(size=slope.shape)
        up, down = (
            loss((*weights[:number], weights[number] + side * 1e-6 * way, *weights[number + 1 :])) for side in (1, -1)
        )
        assert (up - down) / 2e-6 == pytest.approx(float((slope * way).sum()), rel=1e-4, abs=1e-7)


def test_it_learns_a_rule_and_is_unsure_where_the_rule_turns_and_far_away(committee: NetworkCommittee) -> None:
    fresh = np.random.default_rng(3).uniform(-1, 1, size=(2_000, 3))
    lean = fresh[:, 0] + 0.5 * fresh[:, 1]
    chosen, scores = committee.decide(fresh)
    assert (chosen == (lean > 0)).mean() > 0.95
    assert scores[np.abs(lean) < 0.02].mean() < 0.5 * scores[np.abs(lean) > 0.5].mean()
    assert (scores[chosen != (lean > 0)]).mean() < scores.mean()


def test_the_least_margin_tells_whether_all_members_agree(committee: NetworkCommittee) -> None:
    fresh = np.random.default_rng(3).uniform(-1, 1, size=(2_000, 3))
    chosen, scores = committee.agree(fresh)
    each = committee.logits(fresh).argmax(axis=2)
    assert ((scores > 0) == (each == chosen).all(axis=0)).all()
    assert 0 < (scores < 0).mean() < 0.2
    assert (chosen == committee.decide(fresh)[0]).all()
    logits = committee.logits(fresh[:1])[:, 0]
    other = 1 - chosen[0]
    assert scores[0] == pytest.approx(float((logits[:, chosen[0]] - logits[:, other]).min()), rel=1e-5)


def test_the_same_seed_gives_the_same_committee_and_another_seed_another(committee: NetworkCommittee) -> None:
    again = fitted(SEEN, SAID, 2, Schedule(300, 0.02), seed=(1,))
    other = fitted(SEEN, SAID, 2, Schedule(300, 0.02), seed=(2,))
    assert all((one == two).all() for one, two in zip(committee.weights, again.weights, strict=True))
    assert any((one != two).any() for one, two in zip(committee.weights, other.weights, strict=True))
    kept = NetworkCommittee.of_arrays(committee.arrays())
    assert (kept.logits(SEEN) == committee.logits(SEEN)).all()


def test_a_fit_goes_on_from_where_the_last_one_was(committee: NetworkCommittee) -> None:
    def off(found: NetworkCommittee) -> float:
        return float((found.decide(SEEN)[0] != SAID).mean())

    short = Schedule(10, 1e-3)
    assert off(fitted(SEEN, SAID, 2, short, seed=(5,), start=committee)) < 0.03
    assert off(fitted(SEEN, SAID, 2, short, seed=(5,))) > 0.1


def test_a_number_that_never_varied_takes_nothing_over(committee: NetworkCommittee) -> None:
    seen = np.column_stack((SEEN, np.zeros(len(SEEN))))
    found = fitted(seen, SAID, 2, Schedule(300, 0.02), seed=(1,))
    moved = seen + np.array([0, 0, 0, 0.01])
    assert (found.decide(moved)[0] == SAID).mean() > 0.95


def test_wrong_observations_are_refused() -> None:
    with pytest.raises(InputError, match="observation 1 is"):
        fitted(np.array([[0.0], [np.nan]]), np.array([0, 1]), 2, Schedule(1, 0.1), seed=(0,))
    with pytest.raises(InputError, match="2 choices for observations of shape"):
        fitted(np.zeros((3, 1)), np.array([0, 1]), 2, Schedule(1, 0.1), seed=(0,))


def test_the_rate_rises_over_a_tenth_of_the_steps_and_falls_to_nothing() -> None:
    rates = Schedule(100, 0.5).rates()
    assert len(rates) == 100
    assert rates.argmax() == 9
    assert rates.max() == 0.5
    assert rates[-1] < 1e-3
    assert len(Schedule(1, 0.5).rates()) == 1


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 3))
def test_prototypes_lie_among_the_actions_and_every_action_has_the_nearest(seed: int, size: int) -> None:
    actions = np.random.default_rng(seed).uniform(-2, 2, size=(200, size))
    found = prototypes(actions)
    assert len(found) <= 5 * size
    assert (np.abs(found.values) <= 2).all()
    numbers = found.numbers(actions)
    apart = np.abs(actions[:, None] - found.values) ** 2
    assert (numbers == apart.sum(axis=2).argmin(axis=1)).all()
    assert (found.numbers(found.values) == np.arange(len(found))).all()


def test_few_actions_are_their_own_prototypes_and_finite_ones_are_not_rounded() -> None:
    assert prototypes(np.array([[2.0], [-2.0], [2.0]])).values.tolist() == [[-2.0], [2.0]]
    assert ActionChoices(np.array([[0.0], [1.0]])).numbers(np.array([[1.0], [0.5]])).tolist() == [1, -1]
    ends = prototypes(np.concatenate((np.full(50, -2.0), np.full(50, 2.0), np.linspace(-2, 2, 41)))[:, None])
    assert ends.values.ravel().round(1).tolist() == pytest.approx([-2.0, -1.0, 0.0, 1.0, 2.0], abs=0.2)


def test_a_tree_finds_the_rules_and_says_them() -> None:
    seen = np.random.default_rng(4).uniform(-1, 1, size=(3_000, 2))
    said = np.where(seen[:, 1] < 0.25, 0, np.where(seen[:, 0] < -0.5, 1, 2))
    found = leaves(seen, said, 3)
    words = [leaf.words(("speed", "angle"), ("left", "stay", "right")) for leaf in found]
    assert [leaf.choice for leaf in found] == [0, 2, 1]
    assert sum(leaf.right for leaf in found) > 0.97 * len(said)
    assert words[0].startswith("left if angle is below 0.2")
    assert "angle is above 0.2" in words[1]
    assert "speed is above -0." in words[1]
    (single,) = leaves(seen, np.zeros(len(seen), dtype=int), 2)
    assert single.words(("speed", "angle"), ("left", "right")) == "left always (3,000 of 3,000 steps)"
