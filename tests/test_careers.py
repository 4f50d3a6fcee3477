"""The career decisions: the file beside published counts, and the small model against loops and draws."""

from __future__ import annotations

import numpy as np
import pytest

from aceirl.bench import careers
from aceirl.bench.careers import (
    CHOICES,
    DISCOUNT,
    FIRST_AGE,
    LAST_AGE,
    PUBLISHED_AT_16,
    SCHOOLING,
    STATES,
    CareerDecisions,
)
from aceirl.irl.structural import StructuralEstimate


@pytest.fixture(scope="module")
def decisions() -> CareerDecisions:
    return CareerDecisions.shipped()


@pytest.fixture(scope="module")
def found(decisions: CareerDecisions) -> StructuralEstimate:
    return careers.model(decisions).fit(decisions.choices)


def test_the_file_has_the_published_decisions(decisions: CareerDecisions) -> None:
    assert len(decisions.man) == 12_359
    assert decisions.choices.individuals == 1_373
    at_16 = np.bincount(decisions.choice[decisions.age == FIRST_AGE])
    assert dict(zip(CHOICES, at_16.tolist(), strict=True)) == PUBLISHED_AT_16
    for state in (0, 77, len(STATES[0]) - 1):
        assert careers.number(*(part[state] for part in STATES)) == state
    assert careers.number(LAST_AGE + 1, 12, 0) == len(STATES[0])


def test_every_recorded_year_is_one_of_the_model(decisions: CareerDecisions) -> None:
    """The successor of each decision is where the same man was a year later."""
    ahead = careers.transitions()
    assert ahead.n_rows == (len(STATES[0]) + 1) * len(CHOICES)
    same = decisions.man[1:] == decisions.man[:-1]
    led = ahead.successors[decisions.state * len(CHOICES) + decisions.choice][:-1][same]
    np.testing.assert_array_equal(led, decisions.state[1:][same])


def test_the_reward_explains_what_it_can(found: StructuralEstimate, decisions: CareerDecisions) -> None:
    """The likelihood by backward induction over ages, written as a loop; and what it says of looking ahead."""
    assert found.converged
    reward = found.model.features @ found.parameters
    years, chosen = len(SCHOOLING), len(CHOICES)
    later, total = np.zeros((years, chosen)), 0.0
    for age in range(LAST_AGE, FIRST_AGE - 1, -1):
        here = slice(*(int(careers.number(a, SCHOOLING[0], 0)) for a in (age, age + 1)))
        q = reward[here].reshape(years, chosen, chosen).copy()
        for choice in range(chosen):
            for year in range(years):
                q[year, :, choice] += DISCOUNT * later[min(year + (choice == 0), years - 1), choice]
        q[-1, :, 0] = -np.inf
        later = np.log(np.exp(q).sum(axis=2))
        told = decisions.age == age
        at = decisions.schooling[told] - SCHOOLING[0], decisions.last[told]
        total += float((q[(*at, decisions.choice[told])] - later[at]).sum())
    assert found.log_likelihood == pytest.approx(total, rel=1e-9)
    blind = careers.model(decisions, 0.0).fit(decisions.choices)
    assert found.log_likelihood > blind.log_likelihood + 50


def test_dollars_and_what_a_subsidy_does(found: StructuralEstimate, decisions: CareerDecisions) -> None:
    dollars = careers.in_dollars(found)
    assert dollars["wage"] == pytest.approx((1.0, 0.0), abs=1e-9)
    draws = np.random.default_rng(0).multivariate_normal(found.parameters, found.covariance("clustered"), 4000)
    college = found.names.index("college")
    assert dollars["college"][1] == pytest.approx(float((draws[:, college] / draws[:, 0]).std()), rel=0.1)
    shares, errors = careers.with_interval(found, decisions)
    assert (shares[1] - shares[0] > 3 * errors.max(axis=0)).all()
    policy = found.model.problem.solve(found.model.features @ found.parameters).policy
    np.testing.assert_allclose(shares[0], walked(policy, decisions, 40_000), atol=0.02)


def walked(policy: np.ndarray, decisions: CareerDecisions, men: int) -> np.ndarray:
    """The shares of schooling of men who are drawn one year after the other; off by 0.02 once in 10^14."""
    rng, ahead = np.random.default_rng(1), careers.transitions()
    state = rng.choice(len(decisions.start), size=men, p=decisions.start)
    for _ in range(11):
        choice = (rng.random(men)[:, None] > policy[state].cumsum(axis=1)[:, :-1]).sum(axis=1)
        state = ahead.successors[state * len(CHOICES) + choice]
    return np.array([(STATES[1][state] >= least).mean() for least in (12, 16)])
