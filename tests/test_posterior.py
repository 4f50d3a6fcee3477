"""The posterior over rewards: its likelihood, its samples against integration on a grid, and its intervals."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm
from strategies import SEEDS, random_mdp

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.irl import PosteriorMean
from aceirl.irl.boltzmann import Boltzmann, Choices
from aceirl.irl.posterior import Posterior, Prior, sample
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.dynamic_programming import boltzmann_policy, optimal_values
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import SPACES, DesignMatrix, StateReward
from studies.bayesian import drawn_ranking

NOBODY: IntArray = np.zeros(0, dtype=np.int64)


def laid(mdp: MDP, space: str = "state", terminal: IntArray = NOBODY) -> DesignMatrix:
    return SPACES[space]().design_matrix(mdp, terminal)


def dense_log_likelihood(likelihood: Boltzmann, theta: FloatArray) -> float:
    """The same by dense backward induction over tried actions, choice by choice."""
    mdp, choices = likelihood.mdp, likelihood.choices
    table, known = likelihood.design.table(theta), mdp.known
    rows = np.broadcast_to(mdp.transitions.dense(), (*mdp.shape, mdp.n_states))
    value, q = np.zeros(mdp.n_states), np.empty(mdp.shape)
    for h in reversed(range(mdp.horizon)):
        q[h] = np.where(known[h], table[h] + rows[h] @ value, -np.inf)
        value = np.where(known[h].any(axis=1), q[h].max(axis=1), table[h].max(axis=1))
    total = 0.0
    for h, s, a, among, count in zip(
        choices.step, choices.state, choices.action, choices.among, choices.count, strict=True
    ):
        members = [b for b in range(mdp.n_actions) if among >> b & 1 and known[h, s, b]]
        if a in members:
            total += count * likelihood.beta * q[h, s, a]
            total -= count * float(np.logaddexp.reduce(likelihood.beta * q[h, s, members]))
    return total


@given(SEEDS, st.sampled_from(sorted(SPACES)), st.booleans())
def test_the_likelihood_is_that_of_choices_by_optimal_values(seed: int, space: str, stationary: bool) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (3, 4, 3), stationary=stationary, sparsity=0.3, unknown=0.3)
    design = laid(mdp, space)
    answers = rng.poisson(0.5, size=mdp.shape)
    rankings = [(int(rng.integers(3)), int(rng.integers(4)), *rng.permutation(3).tolist()) for _ in range(5)]
    choices = Choices.of_answers(answers) + Choices.of_rankings(rankings, 3)
    likelihood = Boltzmann(mdp, design, 2.5, choices)
    thetas = rng.normal(size=(4, design.n_parameters))
    expected = [dense_log_likelihood(likelihood, theta) for theta in thetas]
    np.testing.assert_allclose(likelihood.log_likelihood(thetas), expected, rtol=1e-9, atol=1e-9)


def test_what_a_boltzmann_expert_does_is_what_its_answers_are_likely_by() -> None:
    problem = make("gridworld", 0)
    design = laid(problem.mdp)
    theta = np.random.default_rng(0).normal(size=(1, design.n_parameters))
    likelihood = Boltzmann(problem.mdp, design, 3.0, Choices.of_answers(np.zeros(problem.mdp.shape, dtype=np.int64)))
    policy, q = likelihood.experts(theta)
    np.testing.assert_allclose(policy[0], boltzmann_policy(problem.mdp, design.table(theta[0]), 3.0), atol=1e-12)
    np.testing.assert_allclose(q[0], optimal_values(problem.mdp, design.table(theta[0]))[0], atol=1e-12)
    one = np.zeros(problem.mdp.shape, dtype=np.int64)
    one[2, 4, 1] = 1
    answered = Boltzmann(problem.mdp, design, 3.0, Choices.of_answers(one))
    assert answered.log_likelihood(theta)[0] == pytest.approx(np.log(policy[0, 2, 4, 1]))
    actions = q[0].argmax(axis=2)
    np.testing.assert_allclose(likelihood.returns(theta, actions)[0], q[0].max(axis=2), atol=1e-12)


def test_a_ranking_is_as_likely_as_plackett_and_luce_say() -> None:
    mdp = random_mdp(np.random.default_rng(1), (2, 3, 3))
    design = laid(mdp, "state-action")
    theta = np.random.default_rng(2).normal(size=design.n_parameters)
    scores = 2.0 * optimal_values(mdp, design.table(theta))[0]

    def likely(order: tuple[int, ...]) -> float:
        choices = Choices.of_rankings([(1, 2, *order)], 3)
        return float(np.exp(Boltzmann(mdp, design, 2.0, choices).log_likelihood(theta[None])[0]))

    orders = list(permutations(range(3)))
    chances = np.array([likely(order) for order in orders])
    assert chances.sum() == pytest.approx(1.0), "all orders together are certain"
    weights = np.exp(scores[1, 2])
    first, second, third = orders[3]
    by_hand = weights[first] / weights.sum() * weights[second] / (weights[second] + weights[third])
    assert chances[3] == pytest.approx(by_hand)

    rng = np.random.default_rng(3)
    rankings = [tuple(drawn_ranking(scores[1, 2], rng)) for _ in range(4000)]
    drawn = np.array([[ranking == order for order in orders] for ranking in rankings]).sum(axis=0)
    low, high = binom.ppf([1e-8, 1 - 1e-8], 4000, chances[:, None]).T
    assert ((drawn >= low) & (drawn <= high)).all()


@pytest.mark.parametrize("order", [(0, 0), (3,), (-1,)])
def test_a_ranking_names_each_action_once(order: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="once"):
        Choices.of_rankings([(0, 0, *order)], 3)


def corridor() -> tuple[MDP, DesignMatrix, IntArray]:
    """Two places and two actions, stay or go; who is asked in either prefers, nine times of twelve, the second."""
    moves = np.zeros((2, 2, 2))
    moves[:, 0] = np.eye(2)
    moves[:, 1] = np.eye(2)[::-1]
    mdp = MDP.from_dense(moves, initial=0, horizon=3)
    answers = np.zeros(mdp.shape, dtype=np.int64)
    answers[0] = [[1, 5], [4, 2]]
    return mdp, laid(mdp), answers


@pytest.mark.parametrize("law", Prior.LAWS)
def test_samples_agree_with_integration_on_a_grid(law: str) -> None:
    mdp, design, answers = corridor()
    prior, likelihood = Prior(law, 0.8), Boltzmann(mdp, design, 1.5, Choices.of_answers(answers))
    # By the midpoint rule in quantiles of the prior, so that both laws are uniform there.
    middle = (np.arange(400) + 0.5) / 400
    axis = prior.parameters(norm.ppf(middle))
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.exp(likelihood.log_likelihood(grid))
    weights /= weights.sum()
    mean = weights @ grid
    spread = np.sqrt(weights @ (grid - mean) ** 2)

    found = sample(likelihood, prior, np.random.default_rng(0), chains=8, draws=2500, burn_in=100)
    assert (found.r_hat < 1.01).all()
    error = spread / np.sqrt(found.effective)
    assert (np.abs(found.mean - mean) < 6 * error).all()
    np.testing.assert_allclose(found.all.std(axis=0), spread, rtol=0.06)
    ordered = np.argsort(grid, axis=0)
    low, high = found.interval(0.9)
    for k in range(2):
        below = np.cumsum(weights[ordered[:, k]])
        exact = grid[ordered[:, k], k][np.searchsorted(below, [0.05, 0.95])]
        # The quantile of a sample has an error of about 2.1 standard deviations over the root of its size, or less.
        np.testing.assert_allclose([low[k], high[k]], exact, atol=6 * 2.1 * error[k] + 0.01)


def test_without_answers_the_posterior_is_the_prior() -> None:
    mdp, design, answers = corridor()
    likelihood = Boltzmann(mdp, design, 1.5, Choices.of_answers(np.zeros_like(answers)))
    found = sample(likelihood, Prior("uniform", 2.0), np.random.default_rng(0), chains=8, draws=2000, burn_in=0)
    quantiles = np.quantile(found.all, np.linspace(0.1, 0.9, 9), axis=0)
    np.testing.assert_allclose(quantiles, np.linspace(-1.6, 1.6, 9)[:, None].repeat(2, axis=1), atol=0.25)
    assert (found.effective > 1000).all()


def covered(draws: int, seed: int) -> IntArray:
    """`[n]`: of how many rewards drawn from the prior the 90 % interval holds each parameter, given their answers."""
    mdp, design, _ = corridor()
    rng, prior, counted = np.random.default_rng(seed), Prior("gaussian", 1.0), np.zeros(2, dtype=np.int64)
    asked = np.full(mdp.shape[:2], 4)
    for _ in range(draws):
        theta = prior.parameters(rng.standard_normal(2))
        answers = rng.multinomial(asked, boltzmann_policy(mdp, design.table(theta), 1.5))
        likelihood = Boltzmann(mdp, design, 1.5, Choices.of_answers(answers))
        low, high = sample(likelihood, prior, rng, chains=6, draws=150, burn_in=30).interval(0.9)
        counted += (low <= theta) & (theta <= high)
    return counted


def test_intervals_hold_as_often_as_they_say() -> None:
    """`benchmarks/posterior.py` does the same for three problems and 2000 draws each."""
    counted = covered(200, seed=0)
    low, high = binom.ppf([1e-7, 1 - 1e-7], 200, [[0.87], [0.93]]).diagonal()
    assert (counted >= low).all()
    assert (counted <= high).all()


def test_evidence_tells_chains_that_agree_from_chains_that_do_not() -> None:
    rng = np.random.default_rng(0)
    independent = Posterior(rng.normal(size=(4, 1000, 1)), np.zeros((4, 1)), 0)
    assert independent.r_hat[0] < 1.01
    assert 3000 < independent.effective[0] < 5500
    apart = Posterior(independent.samples + 2.0 * np.arange(4)[:, None, None], np.zeros((4, 1)), 0)
    assert apart.r_hat[0] > 1.5
    assert apart.effective[0] < 40
    # An autoregressive chain with coefficient 0.9 is worth (1 - 0.9)/(1 + 0.9) of its length.
    slow, noise = np.empty((4, 5000, 1)), rng.normal(size=(4, 5000, 1))
    slow[:, 0] = noise[:, 0]
    for t in range(1, 5000):
        slow[:, t] = 0.9 * slow[:, t - 1] + np.sqrt(1 - 0.81) * noise[:, t]
    assert Posterior(slow, np.zeros((4, 1)), 0).effective[0] == pytest.approx(20_000 / 19, rel=0.35)


def test_the_same_seed_gives_the_same_samples_and_chains_can_be_taken_up() -> None:
    mdp, design, answers = corridor()
    likelihood = Boltzmann(mdp, design, 1.5, Choices.of_answers(answers))
    one, two = (sample(likelihood, Prior(), np.random.default_rng(5), draws=20) for _ in range(2))
    np.testing.assert_array_equal(one.samples, two.samples)
    np.testing.assert_allclose(Prior().parameters(one.last), one.samples[:, -1], atol=1e-12)
    kept = one.last.copy()
    sample(likelihood, Prior(), np.random.default_rng(6), draws=20, burn_in=0, start=one.last)
    np.testing.assert_array_equal(one.last, kept)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chains": 0}, "chains"),
        ({"draws": 0}, "draws"),
        ({"start": np.zeros((3, 2))}, r"start must have shape \[4, 2\]"),
    ],
)
def test_what_cannot_be_sampled_is_said(wrong: dict[str, object], message: str) -> None:
    mdp, design, answers = corridor()
    likelihood = Boltzmann(mdp, design, 1.5, Choices.of_answers(answers))
    with pytest.raises(InputError, match=message):
        sample(likelihood, Prior(), np.random.default_rng(0), **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="beta"):
        Boltzmann(mdp, design, 0.0, likelihood.choices)
    with pytest.raises(InputError, match="prior"):
        Prior("cauchy")
    with pytest.raises(InputError, match="scale"):
        Prior("gaussian", -1.0)


def test_the_posterior_mean_finds_a_reward_to_act_on_that_chance_would_not() -> None:
    problem = make("gridworld", 0)
    truth = Truth(problem.mdp, problem.reward)
    settings = Settings(strategy="random", irl="posterior-mean", reward="state", certify=None, max_samples=1500)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    *_, last = learn(Simulator(problem.mdp), expert, settings)
    recovered = last.belief.recovered
    assert recovered.explanation is not None
    assert recovered.explanation.space == "state"
    best = np.eye(problem.mdp.n_actions)[optimal_values(problem.mdp, recovered.reward)[0].argmax(axis=2)]
    assert truth.regret(best) < 0.1
    assert truth.regret(np.full(problem.mdp.shape, 0.25)) > 0.3


def test_the_posterior_mean_is_the_same_for_the_same_counts() -> None:
    problem = make("gridworld", 0)
    settings = Settings(strategy="random", irl="feasible-point", certify=None, max_samples=200)
    *_, last = learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings)
    estimate = last.belief.estimate
    one, two = (PosteriorMean()(estimate, 1.0, {}, StateReward()) for _ in range(2))
    np.testing.assert_array_equal(one.reward, two.reward)
    other = PosteriorMean(seed=1)(estimate, 1.0, {}, StateReward())
    assert not np.array_equal(other.reward, one.reward)
