"""The promises of a gated policy: by hand, by a slow twin, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from aceirl import InputError
from aceirl.certificates.budget import Budget
from aceirl.certificates.gated import (
    ASK_EVERYWHERE,
    ASK_NOWHERE,
    STAKES,
    WEIGHTS,
    Demonstrated,
    certify,
    log_wealth,
    most_asked,
    open_gate,
    opening_episodes,
)
from aceirl.irl.belief import Target
from studies.gates import DELTA, FAMILIES, SHARE, promised

BY_HAND = Demonstrated(
    scores=np.array([3.0, 1.0, 2.0, 0.5, 5.0, 4.0]),
    agrees=np.array([True, False, False, False, True, True]),
    lengths=np.array([4, 2]),
)
"""Two demonstrations: the first disagrees from its second step on."""


@pytest.mark.parametrize(
    ("threshold", "misses", "asked"),
    [
        (ASK_NOWHERE, [1, 2], [0, 0]),
        (0.7, [1, 2], [0, 0]),
        (1.5, [2, 2], [1 / 3, 0]),
        (2.5, [4, 2], [3 / 4, 0]),
        (4.5, [4, 2], [1, 1 / 2]),
        (ASK_EVERYWHERE, [4, 2], [1, 1]),
    ],
)
def test_the_first_miss_and_the_questions_before_it_are_those_of_the_gate(
    threshold: float, misses: list[int], asked: list[float]
) -> None:
    assert BY_HAND.first_misses(threshold).tolist() == misses
    assert BY_HAND.asked(threshold).tolist() == asked
    left = Target(0.4, 0.1, 1.0).losses(4)
    expected = [left[miss] if miss < length else 0.0 for miss, length in zip(misses, [4, 2], strict=True)]
    assert BY_HAND.losses(threshold, left).tolist() == expected


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_gate_that_asks_more_never_loses_more_in_any_demonstration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=12)
    shown = Demonstrated(rng.normal(size=lengths.sum()), rng.random(lengths.sum()) < 0.7, lengths)
    left = Target(1.0, 0.1, 1.0).losses(8)
    lost = np.array([shown.losses(gate, left) for gate in np.sort(rng.normal(size=20))])
    assert (np.diff(lost, axis=0) <= 0).all()


def test_the_wager_is_the_product_of_its_factors_and_gains_nothing_on_average_at_the_level() -> None:
    values, level = np.array([0.0, 0.3, 0.0, 1.0, 0.05]), 0.2
    parts, most = WEIGHTS.copy(), 0.0
    for value in values:
        for i, stake in enumerate(STAKES):
            parts[i] *= 1 - stake + stake * (1 - value) / (1 - level)
        most = max(most, parts.sum())
    assert log_wealth(values, level) == pytest.approx(math.log(most))
    for low, high in ((0.0, 1.0), (0.1, 0.5)):  # two values whose mean is the level
        often = (level - low) / (high - low)
        for stake in STAKES:
            factors = [1 - stake + stake * (1 - value) / (1 - level) for value in (low, high)]
            assert (1 - often) * factors[0] + often * factors[1] == pytest.approx(1)


def test_of_all_gates_the_most_open_one_is_found_that_a_search_through_all_finds() -> None:
    task, left = FAMILIES["few levels"], Target(SHARE * 50, DELTA, 1.0).losses(50)
    for seed in range(5):
        shown = task.demonstrations(80, np.random.default_rng(seed))
        found = open_gate(shown, left, SHARE, 0.05)
        wrong = np.sort(shown.scores[~shown.agrees])
        gates = [ASK_NOWHERE, *(wrong + 1e-3 * (1 + wrong))]
        held = [gate for gate in gates if log_wealth(shown.losses(gate, left), SHARE) >= math.log(20)]
        assert found == pytest.approx(min(held))


def test_without_evidence_it_asks_everywhere_and_without_misses_nowhere() -> None:
    perfect = Demonstrated(np.ones(400), np.ones(400, dtype=bool), np.full(40, 10))
    target = Target(1.0, 0.1, 1.0)
    few = certify(perfect.part(0, 20), target, 10, 0.1)
    assert (few.threshold, few.loss, few.asks) == (ASK_EVERYWHERE, 0.0, 1.0)
    assert "unless it asks at every step" in few.in_words()
    enough = opening_episodes(400, 0.1, 0.05)
    assert open_gate(perfect, target.losses(10), 0.1, 0.05) == ASK_NOWHERE, f"and {enough} would do"
    assert most_asked(perfect, ASK_NOWHERE, 0.05) == 0.0
    lost = Demonstrated(np.ones(400), np.zeros(400, dtype=bool), np.full(40, 10))
    assert certify(lost, target, 10, 0.1).asks == 1.0


def test_a_second_certificate_spends_from_the_same_budget() -> None:
    task, target = FAMILIES["few levels"], Target(SHARE * 50, DELTA, 1.0)
    shown = task.demonstrations(400, np.random.default_rng(3))
    shares = [Budget.begun("gated").started_anew("gated", times).share("gated") for times in range(4)]
    assert sum(shares) < 1
    asked = [certify(shown, target, 50, DELTA * share).asks for share in shares]
    assert asked[0] < min(asked[1:])


def test_wrong_demonstrations_are_refused() -> None:
    with pytest.raises(InputError, match="3 scores and 3 agreements of demonstrations with 4 steps"):
        Demonstrated(np.zeros(3), np.ones(3, dtype=bool), np.array([4]))
    with pytest.raises(InputError, match="score of step 1 is not a number"):
        Demonstrated(np.array([0.0, np.nan]), np.ones(2, dtype=bool), np.array([2]))
    with pytest.raises(InputError, match="4 steps, and the horizon is 3"):
        certify(BY_HAND, Target(0.3, 0.1, 1.0), 3, 0.1)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_truth_of_a_simulated_task_is_what_its_demonstrations_average_to(name: str) -> None:
    task = FAMILIES[name]
    shown = task.demonstrations(4_000, np.random.default_rng(1))
    left = Target(1.0, 0.1, 1.0).losses(task.horizon)
    for gate in (0.3, 1.2):
        for values, truth in zip((shown.losses(gate, left), shown.asked(gate)), task.truth(gate), strict=True):
            assert abs(values.mean() - truth) <= 5.5 * values.std() / math.sqrt(len(values)) + 1e-9


RUNS = 300
TOLERATED = int(binom.isf(1e-7, RUNS, DELTA))
"""More broken promises than this have a probability below one in ten million if at most a share δ breaks."""


def test_promises_break_as_rarely_as_they_say_and_a_gate_by_the_plain_mean_does_not() -> None:
    task, left = FAMILIES["at the limit"], Target(1.0, 0.1, 1.0).losses(50)
    broken = naive = useful = 0
    for seed in range(RUNS):
        found, loss, asks = promised(task, 100, seed)
        broken += loss or asks
        shown = task.demonstrations(100, np.random.default_rng((seed, 100)))
        gates = [ASK_NOWHERE, *np.sort(shown.scores[~shown.agrees])]
        plain = next(gate for gate in gates if shown.losses(gate + 1e-9, left).mean() <= SHARE)
        naive += task.truth(plain)[0] > SHARE
        useful += found.asks < 1
    assert useful > RUNS / 2
    assert broken <= TOLERATED
    assert naive > TOLERATED
