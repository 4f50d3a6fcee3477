"""How likely answers are under a reward: the compiled sweep against the formulas, written as loops."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from strategies import SEEDS, counts, shapes

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.irl.incremental_likelihood import IncrementalLikelihood
from aceirl.irl.likelihood import ERROR_PRICE, ERROR_RATES, EXPLAINED, INDIFFERENCE, MOST_WEIGHT, Likelihood
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import CERTAIN, Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.protocols import Moves
from aceirl.rewards import DesignMatrix, StateReward

SHAPES = shapes(max_horizon=4, max_states=4, max_actions=4)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    """Any counts and answers; rows that were never tried, and perhaps states where episodes end."""
    some = draw(counts(shape=draw(SHAPES)))
    terminal = draw(st.sampled_from([(), (some.shape[1] - 1,)]))
    options: dict[str, Any] = {"terminal": terminal, "discount": draw(st.sampled_from([1.0, 0.9, 0.3]))}
    return Estimate.of(some, kind=ExpertKind(), delta=0.1, initial=np.eye(some.shape[1])[0], **options)


def drawn_reward(rng: np.random.Generator, shape: tuple[int, int, int]) -> FloatArray:
    """Numbers of any sign, or a few ones among zeros, which make for ties."""
    return rng.normal(size=shape) if rng.random() < 0.5 else (rng.random(shape) < 0.3).astype(np.float64)


def tables(shape: tuple[int, ...]) -> DesignMatrix:
    """Rewards `[H or 1, S, A]` as their own parameters."""
    none, identity = np.zeros(0, dtype=np.int64), sparse.eye_array(math.prod(shape), format="csr")
    horizon, n_states, n_actions = shape
    return DesignMatrix("table", (horizon, n_states, n_actions), none, none, identity, None, has_step_cost=False)


def losses(
    likelihood: Likelihood,
    rewards: FloatArray,
    prices: FloatArray,
    limit: float = np.inf,
    common: FloatArray | float = 0.0,
) -> FloatArray:
    """The losses of rewards `[N, H or 1, S, A]` that are said to have a reward `[H or 1, S, A]` in common."""
    design = tables(rewards.shape[1:])
    shared = IncrementalLikelihood(likelihood).common(design, np.broadcast_to(common, rewards.shape[1:]).ravel())
    by_rate = np.repeat(prices[:, None], len(ERROR_RATES), axis=1)
    return IncrementalLikelihood(likelihood).losses(design, rewards.reshape(len(rewards), -1), by_rate, limit, shared)


@given(estimates(), SEEDS)
def test_the_incremental_likelihood_is_the_plain_one(estimate: Estimate, seed: int) -> None:
    """Of rewards that are the same at every step and of others, whatever they are said to have in common."""
    rng, likelihood = np.random.default_rng(seed), Likelihood(estimate)
    for steps in (1, estimate.mdp.horizon):
        rewards = np.stack([drawn_reward(rng, estimate.mdp.shape)[:steps] for _ in range(4)])
        rewards[2:, :, 0] = rewards[1, :, 0]
        expected = [likelihood.loss(reward) for reward in rewards]
        for common in (0.0, np.where(rewards[1] == rewards[2], rewards[1], 0.0)):
            found = losses(likelihood, rewards, np.zeros(4), np.inf, common)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


class Place(NamedTuple):
    """One state at one step: the weights of its answers, and the lag of each action that was tried, by action."""

    weights: dict[int, float]
    lags: dict[int, float]


def places(estimate: Estimate, reward: FloatArray) -> dict[tuple[int, int], Place]:
    """All `(h, s)` where answers can be compared, by the formulas of the module's docstring."""
    mdp = estimate.mdp
    P, known = oracles.unrolled(mdp)
    horizon, n_states, n_actions = mdp.shape
    answers, found, discount = estimate.counts.answers, {}, estimate.discount
    value = [0.0] * n_states
    for h in reversed(range(horizon)):
        span = max(max(value) - min(value), float(np.ptp(reward[h])))
        here = [0.0] * n_states
        for s in range(n_states):
            tried = [a for a in range(n_actions) if known[h, s, a]]
            q = {
                a: float(reward[h, s, a]) + sum(discount * P[h, s, a, t] * value[t] for t in range(n_states))
                for a in tried
            }
            here[s] = max(q.values()) if q else float(reward[h, s].max())
            of_state = int(answers[:, s].sum())
            each = min(1 + math.log(of_state), MOST_WEIGHT) / of_state if mdp.stationary and of_state else 1.0
            weights = {a: each * float(answers[h, s, a]) for a in tried if answers[h, s, a]}
            if len(tried) < 2 or not weights:
                continue
            together = np.mean([P[h, s, a] for a in tried], axis=0)
            elsewhere = discount**2 * variance(together, value)
            errors = []
            for a in tried:
                n = float(estimate.row_visits[h, s, a])
                # The variance of the row with one observation from elsewhere, over the number of observations.
                errors.append((n * discount**2 * variance(P[h, s, a], value) + elsewhere) / (n + 1) / n)
            noise = (1 + math.log(len(tried) - 1)) * (max(errors) + sum(errors) / len(errors))
            unit = math.sqrt((INDIFFERENCE * span) ** 2 + noise) or 1.0
            found[h, s] = Place(weights, {a: (here[s] - q[a]) / unit for a in tried})
        value = here
    return found


def variance(row: FloatArray, value: list[float]) -> float:
    mean = sum(p * x for p, x in zip(row, value, strict=True))
    return float(sum(p * (x - mean) ** 2 for p, x in zip(row, value, strict=True)))


def probabilities(place: Place, error_rate: float) -> dict[int, float]:
    total = sum(math.exp(-lag) for lag in place.lags.values())
    return {
        a: (1 - error_rate) * math.exp(-lag) / total + error_rate / len(place.lags) for a, lag in place.lags.items()
    }


def sums(estimate: Estimate, reward: FloatArray, error_rate: float) -> tuple[float, float, float]:
    """Minus the log-likelihood, its mean if the reward were right, and its variance then."""
    loss = mean = spread = 0.0
    for place in places(estimate, reward).values():
        likely = {a: p for a, p in probabilities(place, error_rate).items() if p > 0}
        nats = {a: -math.log(p) for a, p in likely.items()}
        loss += sum(weight * nats.get(a, -math.log(1e-300)) for a, weight in place.weights.items())
        own = sum(p * nats[a] for a, p in likely.items())
        given = sum(place.weights.values())
        mean += given * own
        spread += given * sum(p * (nats[a] - own) ** 2 for a, p in likely.items())
    return loss, mean, spread


@given(estimates(), SEEDS)
def test_the_loss_is_what_the_formulas_say(estimate: Estimate, seed: int) -> None:
    rng = np.random.default_rng(seed)
    likelihood, shape = Likelihood(estimate), estimate.mdp.shape
    rewards = np.stack([drawn_reward(rng, shape) for _ in range(3)])
    by_rate = np.array([[sums(estimate, reward, rate) for rate in ERROR_RATES] for reward in rewards])
    for k, reward in enumerate(rewards):
        lost = by_rate[k, :, 0] + ERROR_PRICE
        assert likelihood.loss(reward) == pytest.approx(lost.min(), rel=1e-7, abs=1e-9)
        judged = likelihood.judged(reward)
        assert judged.loss == pytest.approx(lost.min(), rel=1e-7, abs=1e-9)
        best = int(np.flatnonzero(judged.error_rate == ERROR_RATES)[0])
        assert lost[best] == pytest.approx(lost.min(), rel=1e-7, abs=1e-9)
        assert judged.expected == pytest.approx(by_rate[k, best, 1], rel=1e-6, abs=1e-8)
        assert judged.variance == pytest.approx(by_rate[k, best, 2], rel=1e-6, abs=1e-8)
        assert judged.variance >= 0
    prices = rng.random(3)
    expected = (by_rate[:, :, 0] + ERROR_PRICE).min(axis=1) + prices
    np.testing.assert_allclose(losses(likelihood, rewards, prices), expected, rtol=1e-7, atol=1e-9)


@given(estimates(), SEEDS)
def test_states_from_which_nothing_is_paid_need_no_look(estimate: Estimate, seed: int) -> None:
    """Rewards that pay in one place, the same at every step: by the formulas, alone, and below a limit."""
    shape = estimate.mdp.shape
    rewards = np.zeros((shape[1], 1, *shape[1:]))
    rewards[np.arange(shape[1]), 0, np.arange(shape[1])] = 1.0
    likelihood, none = Likelihood(estimate), np.zeros(shape[1])
    whole = losses(likelihood, rewards, none)
    alone = [likelihood.loss(reward) for reward in rewards]
    np.testing.assert_allclose(whole, alone, rtol=1e-12, atol=1e-12)
    place = int(np.random.default_rng(seed).integers(shape[1]))
    every_step = np.broadcast_to(rewards[place], shape)
    expected = min(
        sums(estimate, every_step, rate)[0] + price for rate, price in zip(ERROR_RATES, ERROR_PRICE, strict=True)
    )
    assert whole[place] == pytest.approx(expected, rel=1e-7, abs=1e-9)
    limit = float(np.median(whole))
    cut = losses(likelihood, rewards, none, limit)
    np.testing.assert_array_equal(cut[whole <= limit], whole[whole <= limit])
    assert (cut[whole > limit] > limit).all()


@given(estimates(), SEEDS)
def test_it_is_all_the_same_what_rewards_are_said_to_have_in_common(estimate: Estimate, seed: int) -> None:
    """By the formulas, whatever the limit; the reward in common may pay anything, all of theirs or nothing of it."""
    rng, (_, n_states, n_actions) = np.random.default_rng(seed), estimate.mdp.shape
    shared = drawn_reward(rng, (1, n_states, n_actions))
    changed = np.array([drawn_reward(rng, shared.shape) * (rng.random((n_states, 1)) < 0.4) for _ in range(5)])
    rewards, prices = np.concatenate((shared[None], shared + changed, changed)), rng.random(11)
    likelihood = Likelihood(estimate)
    expected = prices + [likelihood.loss(reward) for reward in rewards]
    for common in (shared, rng.normal() * shared, 0.0, np.full_like(shared, rng.normal())):
        np.testing.assert_allclose(losses(likelihood, rewards, prices, np.inf, common), expected, rtol=1e-9, atol=1e-9)
        for limit in np.quantile(expected, [0.1, 0.5, 0.9]) + 1e-6:
            cut = losses(likelihood, rewards, prices, float(limit), common)
            np.testing.assert_allclose(cut[expected <= limit], expected[expected <= limit], rtol=1e-9, atol=1e-9)
            assert (cut[expected > limit + 1e-8] > limit).all()
            assert (cut <= expected + 1e-8).all()


@pytest.mark.parametrize("name", ["gridworld", "four-paths", "double-chain", "random-mdp"])
def test_what_is_common_is_right_long_after_its_values_grow_alike(name: str) -> None:
    """Many steps, rewards that are paid for at every one, and others that differ from them in one or two places."""
    estimate = long_estimate(name)
    likelihood, rng = Likelihood(estimate), np.random.default_rng(1)
    shared = np.zeros((1, *estimate.mdp.shape[1:]))
    shared[0, rng.integers(shared.shape[1], size=2)] = 1.0
    rewards = np.repeat(shared[None], 12, axis=0)
    for reward in rewards:
        reward[0, rng.integers(shared.shape[1])] += rng.choice([1.0, -1.0, 0.5])
    expected = [likelihood.loss(np.repeat(reward, estimate.mdp.horizon, axis=0)) for reward in rewards]
    found = losses(likelihood, rewards, np.zeros(len(rewards)), np.inf, shared)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
    assert (
        0 < IncrementalLikelihood(likelihood).common(tables(shared.shape), shared.ravel()).steps <= estimate.mdp.horizon
    )


def estimate_of(moves: list[tuple[int, int, int]], shape: tuple[int, int, int], asked: IntArray) -> Estimate:
    """Each of the moves `(state, action, successor)` seen five times; `asked [H, S, A]` are the answers."""
    columns = np.array(moves, dtype=np.int64).T
    state, action, successor = columns
    starts = np.eye(shape[1], dtype=np.int64)[0]
    seen = Moves(np.zeros_like(state), state, action, successor, np.full_like(state, 5), starts)
    return Estimate.of(Counts.of_moves(seen, shape).with_answers(asked), kind=ExpertKind(), delta=0.1)


def test_a_state_in_which_nothing_was_tried_does_not_grow_with_the_others() -> None:
    """All values are alike at the last step, and at the step before that of state 2 is not: nobody acted there."""
    asked = np.zeros((6, 4, 2), dtype=np.int64)
    asked[:, 0, 1] = 1
    moves = [(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 1), (3, 0, 3), (3, 1, 3)]
    likelihood = Likelihood(estimate_of(moves, (6, 4, 2), asked))
    constant = np.ones((1, 4, 2))
    rewards = np.repeat(constant[None], 3, axis=0)
    rewards[:, 0, 1] += np.array([0.0, 0.03, -0.03])[:, None]
    expected = [likelihood.loss(np.repeat(reward, 6, axis=0)) for reward in rewards]
    np.testing.assert_allclose([likelihood.loss(reward) for reward in rewards], expected, rtol=1e-9)
    for common in (0.0, constant):
        found = losses(likelihood, rewards, np.zeros(3), np.inf, common)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_what_rounding_makes_of_a_reward_that_pays_alike_everywhere_explains_nothing() -> None:
    """Every place pays as much as hurry does after the end, state 0: all actions are equally good, up to rounding."""
    moves = [(1, 0, 0, 5), (1, 0, 1, 10), (1, 0, 2, 2), (1, 1, 0, 5), (1, 1, 1, 10), (1, 1, 2, 5)]
    moves += [(2, 0, 1, 2), (2, 0, 2, 1), (2, 1, 0, 2), (2, 1, 2, 3)]
    state, action, successor, times = np.array(moves, dtype=np.int64).T
    seen = Moves(np.zeros_like(state), state, action, successor, times, np.array([0, 1, 0]))
    for horizon, answered in itertools.product((100, 200), itertools.product(range(2), repeat=2)):
        asked = np.zeros((horizon, 3, 2), dtype=np.int64)
        asked[::2, (1, 2), answered] = 1
        counts = Counts.of_moves(seen, asked.shape).with_answers(asked)
        estimate = Estimate.of(counts, kind=ExpertKind(), delta=0.1, terminal=[0])
        likelihood, design = Likelihood(estimate), StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
        everything = np.array([0.0, 1.0, 1.0, 1.0])
        assert likelihood.loss(design.steps(everything)) == pytest.approx(chance(estimate), rel=1e-3)
        assert likelihood.loss(design.table(everything)) == pytest.approx(chance(estimate), rel=1e-3)
        for k in (1, 2):
            common = IncrementalLikelihood(likelihood).common(design, np.where(np.arange(4) == k, 0.0, everything))
            found = IncrementalLikelihood(likelihood).losses(design, everything[None], np.zeros((1, 4)), np.inf, common)
            np.testing.assert_allclose(found, chance(estimate), rtol=1e-3)


@given(estimates(), SEEDS)
def test_a_limit_saves_work_and_changes_nothing_below_it(estimate: Estimate, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rewards, prices = np.stack([drawn_reward(rng, estimate.mdp.shape) for _ in range(4)]), rng.random(4)
    likelihood = Likelihood(estimate)
    whole = losses(likelihood, rewards, prices)
    limit = float(np.median(whole))
    cut = losses(likelihood, rewards, prices, limit)
    below = whole <= limit
    np.testing.assert_array_equal(cut[below], whole[below])
    assert (cut[~below] > limit).all()
    assert (cut <= whole).all()


@given(estimates(), SEEDS, st.sampled_from([1e-6, 0.2, 3.0, 1e6]))
def test_the_loss_is_free_of_units(estimate: Estimate, seed: int, factor: float) -> None:
    reward = drawn_reward(np.random.default_rng(seed), estimate.mdp.shape)
    likelihood = Likelihood(estimate)
    assert likelihood.loss(factor * reward) == pytest.approx(likelihood.loss(reward), rel=1e-6, abs=1e-8)
    assert likelihood.loss(np.zeros_like(reward)) == pytest.approx(chance(estimate), rel=1e-9, abs=1e-12)


def chance(estimate: Estimate) -> float:
    """The loss if every action that was tried is as likely."""
    nothing = np.zeros(estimate.mdp.shape)
    return sum(sum(place.weights.values()) * math.log(len(place.lags)) for place in places(estimate, nothing).values())


@given(estimates(), SEEDS)
def test_one_table_for_all_steps_is_the_same_table_at_every_step(estimate: Estimate, seed: int) -> None:
    horizon, n_states, n_actions = estimate.mdp.shape
    step = drawn_reward(np.random.default_rng(seed), (1, n_states, n_actions))
    likelihood = Likelihood(estimate)
    assert likelihood.loss(step) == pytest.approx(likelihood.loss(np.repeat(step, horizon, axis=0)), rel=1e-12)


@given(estimates(), SEEDS)
def test_what_is_compared_and_explained(estimate: Estimate, seed: int) -> None:
    """Compared: something else was tried there too. Explained: no answer there lags by more than its error."""
    reward = drawn_reward(np.random.default_rng(seed), estimate.mdp.shape)
    expected = places(estimate, reward)
    compared, explained = Likelihood(estimate).explained(reward)
    assert {(int(h), int(s)) for h, s in np.argwhere(compared)} == set(expected)
    assert not (explained & ~compared).any()
    for (h, s), place in expected.items():
        worst = max(place.lags[a] for a in place.weights)
        if abs(worst - EXPLAINED) > 1e-6:
            assert explained[h, s] == (worst <= EXPLAINED)


@given(estimates())
def test_the_pull_is_where_the_answers_lead_and_other_actions_do_not(estimate: Estimate) -> None:
    """Each answer, followed for ever after by any action that was tried, against any such action at once."""
    mdp = estimate.mdp
    P, known = oracles.unrolled(mdp)
    _, n_states, n_actions = mdp.shape
    anything = known / np.maximum(1, known.sum(axis=2, keepdims=True))
    expected = np.zeros(mdp.shape)
    answers = estimate.counts.answers
    for h, s, a in np.argwhere(answers):
        if not known[h, s, a]:
            continue
        of_state = answers[:, s].sum()
        each = min(1 + np.log(of_state), MOST_WEIGHT) / of_state if mdp.stationary else 1.0
        follow, instead = anything[h:].copy(), anything[h:].copy()
        follow[0, s] = np.eye(n_actions)[a]
        here = np.eye(n_states)[s]
        difference = oracles.occupancy(P[h:], here, follow) - oracles.occupancy(P[h:], here, instead)
        expected[h:] += each * answers[h, s, a] * difference
    np.testing.assert_allclose(Likelihood(estimate).feature_gap, expected, rtol=1e-9, atol=1e-10)


def fork(visits: tuple[int, int, int], answered: int = 0) -> Estimate:
    """State 0 at step 0; action `a` leads to state `a + 1`, and there one stays; the expert answered once."""
    n_states = 1 + len(visits)
    step, state, action, successor, count = [], [], [], [], []
    for a, n in enumerate(visits):
        if n:
            step += [0, 1]
            state += [0, a + 1]
            action += [a, 0]
            successor += [a + 1, a + 1]
            count += [n, n]
    moves = Moves(
        step=np.array(step),
        state=np.array(state),
        action=np.array(action),
        successor=np.array(successor),
        count=np.array(count),
        starts=np.eye(1, n_states, dtype=np.int64)[0],
    )
    answers = np.zeros((2, n_states, len(visits)), dtype=np.int64)
    answers[0, 0, answered] = 1
    seen = Counts.of_moves(moves, (2, n_states, len(visits))).with_answers(answers)
    return Estimate.of(seen, kind=ExpertKind(), delta=0.1)


def paid_in(state: int) -> FloatArray:
    reward = np.zeros((1, 4, 3))
    reward[0, state] = 1.0
    return reward


def test_a_row_that_was_never_tried_is_neither_for_nor_against_a_reward() -> None:
    nowhere_else = Likelihood(fork((5, 0, 0)))
    assert nowhere_else.loss(paid_in(1)) == nowhere_else.loss(paid_in(2)) == 0.0
    assert not nowhere_else.explained(paid_in(1))[0].any()
    # Where action 2 leads is not known: to pay for that place changes nothing, but for the range of values.
    two = Likelihood(fork((CERTAIN, CERTAIN, 0)))
    assert two.loss(paid_in(3)) == pytest.approx(math.log(2))
    assert two.loss(paid_in(1)) == pytest.approx(0.0, abs=1e-9)
    # An answer that was never tried itself cannot be compared.
    assert Likelihood(fork((5, 5, 0), answered=2)).loss(paid_in(3)) == 0.0


def test_the_more_was_seen_the_more_an_answer_says() -> None:
    against = [Likelihood(fork((n, n, n))).loss(paid_in(2)) for n in (1, 4, 16, CERTAIN)]
    for_it = [Likelihood(fork((n, n, n))).loss(paid_in(1)) for n in (1, 4, 16, CERTAIN)]
    assert against == sorted(against)
    assert for_it == sorted(for_it, reverse=True)
    assert for_it[-1] == pytest.approx(0.0, abs=1e-9)
    # What an expert does against all reason is an error, at some price.
    assert against[-1] == pytest.approx(min(ERROR_PRICE[1:] - np.log(ERROR_RATES[1:] / 3)), rel=1e-6)


def test_answers_of_one_state_count_as_many_only_up_to_a_point() -> None:
    """They rest on the same rows, and so on the same errors."""
    few = fork((3, 3, 3))
    for n, weight in ((1, 1.0), (2, 1 + math.log(2)), (100, MOST_WEIGHT)):
        answers = few.counts.answers.copy()
        answers[0, 0, 0] = n
        many = Estimate.of(few.counts.with_answers(answers), kind=ExpertKind(), delta=0.1)
        assert Likelihood(many).loss(paid_in(1)) == pytest.approx(weight * Likelihood(few).loss(paid_in(1)))


def long_estimate(name: str) -> Estimate:
    """What a thousand samples say of an environment in which episodes are long."""
    problem = make(name, seed=1, horizon=40)
    settings = Settings(max_samples=1_000, certify=None, infer_after_growth=10.0)
    *_, turn = learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings)
    return turn.belief.estimate


@pytest.mark.parametrize("name", ["gridworld", "four-paths", "double-chain", "random-mdp"])
def test_a_reward_for_all_steps_is_judged_as_the_same_reward_written_out_step_by_step(name: str) -> None:
    """Written out, no step is left out; in one piece, the sweep ends once all values grow alike."""
    estimate = long_estimate(name)
    likelihood, rng = Likelihood(estimate), np.random.default_rng(0)
    for _ in range(20):
        reward = np.zeros((1, *estimate.mdp.shape[1:]))
        reward[0, rng.integers(reward.shape[1], size=2)] = rng.choice([1.0, -1.0, 0.5], size=(2, 1))
        written_out = np.repeat(reward, estimate.mdp.horizon, axis=0)
        assert likelihood.loss(reward) == pytest.approx(likelihood.loss(written_out), rel=1e-8)
        whole, steps = likelihood.judged(reward), likelihood.judged(written_out)
        assert whole.expected == pytest.approx(steps.expected, rel=1e-8)
        assert whole.variance == pytest.approx(steps.variance, rel=1e-8)
        for one, other in zip(likelihood.explained(reward), likelihood.explained(written_out), strict=True):
            assert np.array_equal(one, other)
