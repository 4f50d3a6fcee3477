"""What is said about runs: means, intervals, censoring and tests, against answers known beforehand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from aceirl.bench.experiments import ExperimentResults, RunResult, Verdict, efficiency, samples_needed, verdicts
from aceirl.bench.paper import REWARD_FREE_CLAIMS, SPECS, TABLE1_CLAIMS
from aceirl.bench.specs import Contrast, PaperClaim, Scenario, Spec, Term
from aceirl.bench.statistics import (
    EXACT_UP_TO,
    RANDOM_SIGNS,
    RESAMPLES,
    bootstrap,
    corrected,
    mean_curve,
    sign_flip_test,
)
from aceirl.explore import STRATEGIES
from aceirl.models.tabular.mdp import FloatArray

BATCHES = {"small": 50, "large": 200}
SCENARIOS = tuple(
    Scenario(
        name=name,
        title=f"Paths, N_E = {batch}",
        environment="four-paths",
        family="Paths",
        choices={"episodes_per_iteration": batch, "max_samples": 1000},
    )
    for name, batch in BATCHES.items()
)


def run(
    samples: list[int], regret: list[float], *, strategy: str = "ace", seed: int = 0, scenario: int = 0
) -> RunResult:
    none = np.zeros(len(samples), dtype=np.int64)
    return RunResult(
        SCENARIOS[scenario].cell(strategy, seed), np.array(samples), np.array(regret), none, {"total": 1.0}
    )


def reaching(samples: int, **names: int | str) -> RunResult:
    """A run whose regret falls below 0.4 after that many samples."""
    return run([1, samples], [0.9, 0.1], **names)  # type: ignore[arg-type]


def results(needed: dict[tuple[str, str], list[int]]) -> ExperimentResults:
    runs = {
        (scenario, strategy): [
            reaching(n, strategy=strategy, seed=seed, scenario=list(BATCHES).index(scenario))
            for seed, n in enumerate(samples)
        ]
        for (scenario, strategy), samples in needed.items()
    }
    strategies = tuple(dict.fromkeys(strategy for _, strategy in needed))
    spec = Spec(
        name="paths",
        title="",
        summary="",
        scenarios=SCENARIOS,
        strategies=strategies,
        seeds=tuple(range(20)),
        claims=TABLE1_CLAIMS,
    )
    return ExperimentResults(spec, runs, [])


def test_a_summary_is_the_mean_with_its_standard_error_and_interval() -> None:
    found = samples_needed([reaching(n) for n in (100, 200, 300, 400)], 0.4)
    assert found is not None
    assert (found.mean, found.runs, found.censored) == (250, 4, 0)
    assert found.error == pytest.approx(np.std([100, 200, 300, 400], ddof=1) / 2)
    assert found.interval[0] < found.mean < found.interval[1]
    assert str(found) == "250 ± 65"


def test_a_run_that_never_got_there_is_counted_with_what_it_spent_and_shown() -> None:
    found = samples_needed([reaching(100), run([1, 1000], [0.9, 0.5])], 0.4)
    assert found is not None
    assert (found.mean, found.censored) == (550, 1)
    assert str(found).startswith("≥ 550")
    assert samples_needed([], 0.4) is None


def test_bootstrap_intervals_cover_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        low, high = bootstrap(rng.normal(3, 1, size=50), lambda draws: draws.mean(axis=-1))
        covered += low <= 3 <= high
    # Deterministic by its seed; for any other seed, with a true coverage of 0.9 or more, this fails once in a million.
    assert stats.binom.cdf(154, 200, 0.9) < 1e-6
    assert covered >= 155


@pytest.mark.parametrize("n", [2, 7, 50])
def test_bootstrap_intervals_are_those_of_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    one, other = rng.exponential(100, size=n), rng.exponential(300, size=n)
    resampled: dict[str, Any] = {"n_resamples": RESAMPLES, "method": "percentile", "paired": True}
    mean = stats.bootstrap((one,), np.mean, random_state=np.random.default_rng(0), **resampled)
    assert bootstrap(one, lambda draws: draws.mean(axis=-1)) == pytest.approx(mean.confidence_interval)

    def of_means(a: FloatArray, b: FloatArray, axis: int = -1) -> FloatArray:
        return np.asarray(b.mean(axis=axis) / a.mean(axis=axis))

    ratio = stats.bootstrap((one, other), of_means, random_state=np.random.default_rng(0), **resampled)
    pairs = np.column_stack([one, other])
    ours = bootstrap(pairs, lambda draws: draws[..., 1].mean(axis=1) / draws[..., 0].mean(axis=1))
    assert ours == pytest.approx(ratio.confidence_interval)


def test_efficiency_is_the_ratio_of_means_over_common_seeds() -> None:
    own = [reaching(100, seed=0), reaching(300, seed=1), reaching(999, seed=7)]
    other = [reaching(400, seed=0, strategy="random"), reaching(1200, seed=1, strategy="random")]
    found = efficiency(own, other, 0.4)
    assert found is not None
    assert found.value == 4
    assert found.interval == (4, 4)
    assert str(found) == "4×"
    censored = efficiency(own[:2], [other[0], run([1200], [0.9], seed=1)], 0.4)
    assert str(censored) == "≥ 4×"
    assert efficiency(own, [], 0.4) is None


def test_a_curve_holds_the_last_regret_of_a_run_that_ended() -> None:
    early, late = run([10, 20], [0.8, 0.2]), run([10, 20, 30], [0.6, 0.4, 0.0])
    found = mean_curve([(one.samples, one.regret) for one in (early, late)])
    assert found.samples.tolist() == [10, 20, 30]
    assert found.mean == pytest.approx([0.7, 0.3, 0.1])
    assert (found.low <= found.mean).all()
    assert (found.mean <= found.high).all()


def test_a_sign_flip_test_counts_sign_patterns() -> None:
    differences = np.array([3.0, 1.0, -0.5, 2.0])
    patterns = [np.dot(signs, np.abs(differences)) for signs in product((1, -1), repeat=4)]
    assert sign_flip_test(differences) == np.mean(np.array(patterns) >= differences.sum() - 1e-9)
    assert sign_flip_test(np.ones(10)) == 2.0**-10
    assert sign_flip_test(np.zeros(5)) == 1.0


@pytest.mark.parametrize("mean", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("n", [2, 3, 8, 16, 30])
def test_a_sign_flip_test_agrees_with_scipy(n: int, mean: float) -> None:
    differences = np.random.default_rng(n).normal(mean, 1, size=n)
    theirs = stats.permutation_test(
        (differences,),
        lambda values, axis: values.sum(axis=axis),
        permutation_type="samples",
        alternative="greater",
        n_resamples=RANDOM_SIGNS,
        vectorized=True,
        random_state=np.random.default_rng(1),
    ).pvalue
    # Both are exact up to 16 pairs; above, each has a standard deviation of at most 0.0016.
    assert sign_flip_test(differences) == pytest.approx(theirs, abs=1e-12 if n <= EXACT_UP_TO else 0.01)


def test_a_sign_flip_test_of_many_pairs_agrees_with_the_t_test() -> None:
    differences = np.random.default_rng(1).normal(0.3, 1, size=50)
    assert sign_flip_test(differences) == pytest.approx(
        stats.ttest_1samp(differences, 0, alternative="greater").pvalue, rel=0.1
    )
    assert sign_flip_test(-differences) > 0.9


def test_holms_correction_within_a_claim() -> None:
    found = corrected([Verdict("a", "", "", p_value=p) for p in (0.04, 0.01, 0.03)])
    assert [verdict.adjusted for verdict in found] == pytest.approx([0.06, 0.03, 0.06])
    assert [verdict.holds for verdict in found] == [False, True, False]
    assert corrected([Verdict("b", "", "", p_value=0.04)])[0].holds


def test_the_papers_claims_hold_where_they_are_built_in_and_not_where_they_are_not() -> None:
    rng = np.random.default_rng(2)

    def around(mean: int) -> list[int]:
        return [int(mean * factor) for factor in rng.uniform(0.8, 1.2, size=20)]

    needed = {
        ("small", "ace"): around(100),
        ("large", "ace"): around(150),
        ("small", "random"): around(300),
        ("large", "random"): around(300),
        ("small", "greedy"): around(200),
        ("large", "greedy"): around(900),
        ("small", "advice"): around(50),
        ("large", "advice"): around(300),
    }
    claims: dict[str, list[bool]] = {}
    for verdict in verdicts(results(needed)):
        claims.setdefault(verdict.claim, []).append(verdict.holds)
    assert claims == {
        "AceIRL needs the fewest samples of all strategies without a generative model": [True] * 4,
        "AceIRL needs fewer samples with smaller batches": [True],
        "AceIRL's advantage over random exploration grows as batches get smaller": [True],
        "Large batches hurt AceIRL Greedy": [True],
        "Large batches hurt AceIRL Greedy more than AceIRL": [True],
        "Not in the paper: advice needs fewer samples than AceIRL": [True, False],
    }


def test_a_verdict_says_where_and_how_much() -> None:
    needed = {
        ("small", "ace"): [100, 200],
        ("large", "ace"): [200, 400],
        ("small", "random"): [800, 1600],
        ("large", "random"): [800, 1600],
    }
    found = {(verdict.where, verdict.effect) for verdict in verdicts(results(needed))}
    assert found == {
        ("Paths, N_E = 50: against random", "random needs 8.00× the samples of ace"),
        ("Paths, N_E = 200: against random", "random needs 4.00× the samples of ace"),
        ("Paths: N_E 50 against 200", "N_E = 200 costs ace 2.00× the samples of N_E = 50"),
        ("Paths: N_E 50 against 200", "the advantage is 2.00× as large at N_E = 50"),
    }


def test_a_new_claim_is_data_and_only_seeds_with_all_terms_count() -> None:
    claim = PaperClaim(
        "Random exploration is not hurt by large batches",
        (
            Contrast(
                (Term(1, "small", "random"), Term(-1, "large", "random")),
                "{small.name} to {large.name}",
                "by {size:.1f}",
            ),
        ),
        over="batch sizes",
        families=("Paths",),
    )
    given = results({("small", "random"): [400, 400, 100], ("large", "random"): [200, 200]})
    given = replace(given, spec=given.spec.model_copy(update={"claims": (claim,)}))
    (found,) = verdicts(given)
    assert (found.claim, found.where, found.effect) == (claim.text, "small to large", "by 2.0")
    assert found.p_value == 0.25
    elsewhere = replace(claim, families=("Chain",))
    assert verdicts(replace(given, spec=given.spec.model_copy(update={"claims": (elsewhere,)}))) == []


def test_reward_free_claims_compare_mean_regrets_where_the_expert_plays_no_part() -> None:
    free = SCENARIOS[0].model_copy(update={"name": "free", "title": "Free", "reward_free": True})
    strategies = {"ace-rf": 0.1, "rf-ucrl": 0.4}
    runs = {
        (scenario.name, strategy): [run([1, 2], [regret, regret + 0.2], strategy=strategy, seed=i) for i in range(6)]
        for strategy, regret in strategies.items()
        for scenario in (free, SCENARIOS[0])
    }
    spec = Spec(
        name="free",
        title="",
        summary="",
        scenarios=(free, SCENARIOS[0]),
        strategies=tuple(strategies),
        claims=REWARD_FREE_CLAIMS,
    )
    (found,) = verdicts(ExperimentResults(spec, runs, []))
    assert (found.where, found.effect) == ("Free", "the mean regret is 0.30 lower")
    assert found.p_value == 2.0**-6
    assert found.holds


def test_claims_speak_of_strategies_and_families_that_there_are() -> None:
    claims = [(spec, claim) for spec in SPECS.values() for claim in spec.claims]
    assert claims
    for spec, claim in claims:
        terms = [term for contrast in claim.contrasts for term in contrast.terms]
        assert {term.strategy for term in terms} <= set(STRATEGIES)
        roles = {"here"} if claim.over == "scenarios" else {"small", "large"}
        assert {term.scenario for term in terms} <= roles
        assert set(claim.families) <= {scenario.family for scenario in spec.scenarios}
        assert any(scenario.reward_free == claim.reward_free for scenario in spec.scenarios)
