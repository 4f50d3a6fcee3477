"""Methods of other papers: each formula against another route, each promise against the truth of small problems."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binom
from strategies import SEEDS, random_mdp, random_policy

import studies.rivals as study
from aceirl.bench.rivals import caty_irl, pirlo, rle, rlp, us_irl
from aceirl.certificates import KINDS
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.explore import STRATEGIES
from aceirl.irl import ALGORITHMS
from aceirl.irl.belief import Target
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.bounds import dynamics_bound
from aceirl.models.tabular.confidence import FAMILIES, adaptive
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import occupancy, optimal_values
from aceirl.models.tabular.estimate import CERTAIN, Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray
from aceirl.rewards import FeasibleRewardSet, expert_loss
from studies.adversaries import Case
from studies.soundness import belief_of

QUICK = settings(max_examples=12, deadline=None)
DELTA = 0.1


def seen(seed: int, *, stationary: bool = True, episodes: int = 4) -> tuple[Case, Estimate]:
    """A small case and what a few random episodes tell of it: rows and answers may be missing."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (3, 4, 2), sparsity=0.3, start="point", stationary=stationary)
    case = Case(mdp, optimal_values(mdp, rng.random(mdp.shape))[0].argmax(axis=2))
    moves = Simulator(mdp).rollout(np.full(mdp.shape, 0.5), episodes, rng)
    counts = Counts.of_moves(moves, mdp.shape, stationary=stationary)
    answers = np.eye(2, dtype=np.int64)[case.actions] * counts.visits.any(axis=2, keepdims=True)
    return case, Estimate.of(counts.with_answers(answers), kind=ExpertKind(), delta=DELTA / 3, initial=mdp.initial)


# All of them.

METHODS = {
    "US-IRL": {"strategy": "aceirl.bench.rivals.us_irl.UsIrl", "certify": "aceirl.bench.rivals.us_irl.SetDistance"},
    "RLE": {"strategy": "aceirl.bench.rivals.rle.Rle", "irl": "aceirl.bench.rivals.rlp.Rlp"},
    "RLP": {"strategy": "advice", "irl": "aceirl.bench.rivals.rlp.Rlp"},
    "CATY-IRL": {
        "strategy": "aceirl.bench.rivals.caty_irl.RfExpress",
        "irl": "aceirl.bench.rivals.caty_irl.CatyIrl",
        "certify": "aceirl.bench.rivals.caty_irl.Compatibility",
    },
    "PIRLO": {"strategy": "random", "irl": "aceirl.bench.rivals.pirlo.Pirlo:base=feasible-point", "reward": "any"},
}


@pytest.mark.parametrize("name", METHODS)
def test_a_rival_runs_by_its_dotted_name_and_the_same_seed_gives_the_same_run(name: str) -> None:
    problem = make("gridworld", seed=1)
    chosen = Settings(**{"certify": None, **METHODS[name]}, max_samples=60, seed=5)
    assert Settings(**chosen.model_dump()) == chosen, "it can be written down and read back"
    ends = []
    for _ in range(2):
        expert = PolicyExpert(problem.expert, problem.mdp.shape)
        *_, last = learn(Simulator(problem.mdp), expert, chosen)
        assert last.record.samples >= 60
        reward = last.belief.recovered.reward
        assert reward.shape == problem.mdp.shape
        assert (reward >= 0).all()
        assert (reward <= 1).all()
        ends.append((reward, last.belief.estimate.counts.visits))
    np.testing.assert_array_equal(ends[0][0], ends[1][0])
    np.testing.assert_array_equal(ends[0][1], ends[1][1])


def test_no_rival_has_a_short_name() -> None:
    listed = [*STRATEGIES.values(), *ALGORITHMS.values(), *KINDS.values()]
    assert not [thing for thing in listed if thing.__module__.startswith("aceirl.bench.rivals")]


# US-IRL.


@QUICK
@given(SEEDS, st.integers(1, 40))
def test_samples_go_one_by_one_to_where_there_are_fewest(seed: int, samples: int) -> None:
    rng = np.random.default_rng(seed)
    visits = rng.integers(0, 6, size=(2, 3, 2))
    one_by_one = visits.ravel().copy()
    for _ in range(samples):
        one_by_one[one_by_one.argmin()] += 1
    added = us_irl.levelled(visits, samples, rng)
    assert added.sum() == samples
    assert (added >= 0).all()
    np.testing.assert_array_equal(np.sort((visits + added).ravel()), np.sort(one_by_one))


def test_who_is_next_is_drawn() -> None:
    first = [us_irl.levelled(np.zeros((2, 2, 2), dtype=np.int64), 1, np.random.default_rng(seed)) for seed in range(60)]
    assert (np.sum(first, axis=0) > 0).all()


@pytest.mark.parametrize("stationary", [True, False])
def test_the_radius_of_us_irl_is_that_of_its_paper(stationary: bool) -> None:
    """`2√2·(H-h+1)·sqrt(β/n)` with steps from 1, for rewards in [-1, 1]: half of that in units of [0, 1]."""
    horizon, n_states, n_actions, times = 3, 4, 2, 50_000
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, (horizon, n_states, n_actions), stationary=stationary)
    moves = Simulator(mdp).sample_many(np.full(mdp.shape, times), rng)
    counts = Counts.of_moves(moves, mdp.shape, stationary=stationary)
    asked = counts.with_answers(np.ones(mdp.shape, dtype=np.int64) * (np.arange(2) == 0))
    known = Estimate.of(asked, kind=ExpertKind(), delta=0.1, initial=mdp.initial)
    n = times * horizon if stationary else times
    rows = n_states * n_actions * (1 if stationary else horizon)
    beta = np.log(rows / DELTA) + (n_states - 1) * np.log(math.e * (1 + n / (n_states - 1)))
    assert us_irl.set_distance(known, 1.0, DELTA) == pytest.approx(np.sqrt(2) * horizon * np.sqrt(beta / n))
    assert us_irl.set_distance(known, 5.0, DELTA) == pytest.approx(5 * us_irl.set_distance(known, 1.0, DELTA))
    belief = belief_of(known, FAMILIES["adaptive"], target=Target(1.0, DELTA, 1.0))
    kind = us_irl.SetDistance()
    assert kind.value(belief) == pytest.approx(horizon * us_irl.set_distance(known, 1.0, DELTA))
    assert kind.explain(belief).value == kind.value(belief)
    unasked = Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=mdp.initial)
    assert us_irl.set_distance(unasked, 1.0, DELTA) == 1.0, "nothing is known of an expert who was not asked"


def test_the_stopping_rule_of_us_irl_stops_where_its_theorem_says() -> None:
    """`n = 8H²β/ε²` visits of each entry (Theorem 6.1, before its logarithms are solved for), to within a batch."""
    mdp = random_mdp(np.random.default_rng(1), (3, 3, 2), start="point")
    per_round, asked = int(np.prod(mdp.shape)), 0.9
    chosen = Settings(
        strategy=us_irl.UsIrl(),
        certify=us_irl.SetDistance(),
        irl="feasible-point",
        reward="any",
        epsilon=asked * mdp.horizon,
        delta=DELTA,
        episodes_per_iteration=10 * per_round // mdp.horizon,
        max_samples=10**7,
    )
    *_, last = learn(Simulator(mdp), PolicyExpert(np.zeros(mdp.shape[:2], dtype=np.int64), mdp.shape), chosen)
    assert last.record.stopped == "certificate"
    n = last.belief.estimate.row_visits.min()
    paper = 2 * asked  # in units of rewards in [-1, 1]
    needed = [8 * mdp.horizon**2 / paper**2 * _beta(mdp, visits) for visits in (n, n - 10 * mdp.horizon)]
    assert needed[0] <= n
    assert needed[1] > n - 10 * mdp.horizon


def _beta(mdp: MDP, n: float) -> float:
    free = mdp.n_states - 1
    return float(np.log(mdp.n_states * mdp.n_actions / DELTA) + free * np.log(math.e * (1 + n / free)))


def test_feasible_sets_are_no_further_apart_than_us_irl_says() -> None:
    """Exactly, by all vertices, where there are eight rewards; and the distance shrinks with the samples."""
    distances = []
    rng = np.random.default_rng(0)
    case = study.small_case(rng, (2, 2, 2))
    truth = FeasibleRewardSet.of_problem(case.mdp, case.actions, 1.0)
    for times in (20, 5000):
        known = study.sampled(case, times, rng)
        distance = study.hausdorff(truth, FeasibleRewardSet.of_estimate(known, 1.0))
        rho = 2 * np.abs(case.rows - known.mdp.transitions.dense()).sum(axis=2).max()
        assert distance <= 0.5 * 2 * rho / (1 + rho) + 1e-6, "Theorem 3.2, in halves"
        assert distance <= us_irl.set_distance(known, 1.0, DELTA)
        distances.append(distance)
    assert 0 < distances[1] < distances[0]


def test_all_vertices_are_found() -> None:
    """Of one state and one step, two actions: a triangle."""
    mdp = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=1)
    found = study.vertices(FeasibleRewardSet.of_problem(mdp, np.array([[0]]), 1.0))
    assert sorted(map(tuple, found.reshape(-1, 2))) == [(0, 0), (1, 0), (1, 1)]


# RLP and RLE.


@pytest.mark.parametrize("stationary", [True, False])
def test_the_pessimistic_reward_is_the_formula_of_its_paper(stationary: bool) -> None:
    _, known = seen(3, stationary=stationary)
    rng = np.random.default_rng(4)
    values, advantage = rng.random(known.mdp.shape[:2]), rng.random(known.mdp.shape)
    found = rlp.pessimistic(known, values, advantage, DELTA)
    bonus = rlp.penalty(known, values, DELTA)
    P, rows = oracles.unrolled(known.mdp)
    later = np.vstack([values[1:], np.zeros((1, 4))])
    assert (bonus >= 0).all()
    assert not rows.all()
    for h, s, a in np.ndindex(known.mdp.shape):
        own = values[h, s] - P[h, s, a] @ later[h] - bonus[h, s, a]
        assert found[h, s, a] == pytest.approx(own - (0 if known.expert_uses[h, s, a] else advantage[h, s, a]))
        if not rows[h, s, a]:
            assert bonus[h, s, a] == later[h].max()


def test_a_pessimistic_reward_is_not_too_high_and_planning_with_it_loses_no_more_than_it_says() -> None:
    """Theorem 4.3 (monotonicity) and Proposition 3.3, on data of random episodes; broken as seldom as asked for."""
    runs, broken = 25, 0
    distances: dict[int, list[float]] = {30: [], 3000: []}
    for rng in np.random.default_rng(11).spawn(runs):
        case = study.small_case(rng)
        for episodes, found in distances.items():
            known = study.walked(case, np.full(case.mdp.shape, 0.5), episodes, rng)
            fared = study.pessimism(case, known, rng, DELTA)
            broken += fared.too_high > 1e-9
            if fared.too_high <= 1e-9:
                assert fared.regret <= fared.distance + 1e-9, "Proposition 3.3"
            found.append(fared.distance)
    assert broken <= binom.isf(1e-7, 2 * runs, DELTA)
    assert np.mean(distances[3000]) < np.mean(distances[30]) / 3


def test_rlp_returns_the_reward_of_its_base_where_everything_is_known() -> None:
    """No pessimism is left, so actions compare as they do under the base's reward."""
    case, known = seen(5, episodes=400)
    vars(known).update(mdp=case.mdp, observed=np.full(case.mdp.transitions.n_rows, CERTAIN))
    base = ALGORITHMS["max-margin"]()(known, 1.0, {}, None)
    found = rlp.Rlp(base="max-margin")(known, 1.0)
    assert found.infeasibility < 1e-6
    both = [optimal_values(case.mdp, reward)[0] for reward in (base.reward, found.reward)]
    gaps = [q.max(axis=2, keepdims=True) - q for q in both]
    scale = gaps[1].max() / gaps[0].max()
    np.testing.assert_allclose(gaps[1], scale * gaps[0], atol=1e-4)


@QUICK
@given(SEEDS, st.booleans())
def test_no_policy_spreads_visits_better_than_rle_says(seed: int, pooled: bool) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (3, 4, 2), unknown=rng.choice([0.0, 0.3]))
    visits = rng.integers(0, 5, size=(1 if pooled else 3, 4, 2))
    mu, gap = rle.spread(mdp, visits, 10, 1e-3, 200)

    def spread(occupied: FloatArray) -> float:
        behind = 10 * (np.array([2, 1, 0])[:, None, None] * occupied * ~mdp.known).sum()
        return float(np.log(1 + visits + 10 * (occupied.sum(axis=0) if pooled else occupied)).sum() + behind)

    assert mu[0].sum() == pytest.approx(1)
    for _ in range(20):
        shares = rng.dirichlet(np.ones(3))
        mixed = [w * occupancy(mdp, random_policy(rng, mdp.shape)) for w in shares]
        assert spread(np.sum(mixed, axis=0)) <= spread(mu) + gap + 1e-9


def test_rle_plays_all_actions_alike_where_they_are_alike_and_the_gap_closes() -> None:
    mdp = MDP.from_dense(np.ones((1, 3, 1)), initial=0, horizon=1)
    mu, gap = rle.spread(mdp, np.zeros((1, 1, 3), dtype=np.int64), 1000, 1e-4, 5000)
    np.testing.assert_allclose(mu.ravel(), 1 / 3, atol=0.02)
    assert gap < 0.01
    behind, _ = rle.spread(mdp, np.array([[[1000, 0, 0]]]), 1000, 1e-4, 5000)
    np.testing.assert_allclose(behind.ravel(), [0, 0.5, 0.5], atol=0.02)


def test_rle_gets_to_the_end_of_a_lock_where_random_actions_do_not() -> None:
    """Fifteen states in a row; any wrong action leads back to the first."""
    n = 15
    rows = np.zeros((n, 2, n))
    rows[:, 1, 0] = 1
    rows[np.arange(n), 0, np.minimum(np.arange(n) + 1, n - 1)] = 1
    mdp = MDP.from_dense(rows, initial=0, horizon=n)
    reached = {}
    for strategy in ("random", "aceirl.bench.rivals.rle.Rle"):
        chosen = Settings(strategy=strategy, irl="feasible-point", reward="any", certify=None, max_samples=40 * n)
        *_, last = learn(Simulator(mdp), PolicyExpert(np.zeros((n, n), dtype=np.int64), mdp.shape), chosen)
        reached[strategy] = last.belief.estimate.counts.visits.sum(axis=(0, 2)).nonzero()[0].max()
    assert reached["random"] < n - 1
    assert reached["aceirl.bench.rivals.rle.Rle"] == n - 1


# CATY-IRL.


def test_the_example_of_the_paper_on_compatibility() -> None:
    """Example 4.1: muffin, cake and soup, with losses of 0, 0.01 and 2; rewards in [-1, 1] are moved to [0, 2]."""
    mdp = MDP.from_dense(np.ones((1, 3, 1)), initial=0, horizon=1)
    case = Case(mdp, np.array([[0]]))
    known = study.sampled(case, 1, np.random.default_rng(0))
    rewards = {0.0: [1, 0.99, -1], 0.01: [0.99, 1, -1], 2.0: [-1, -1, 1]}
    for loss, reward in rewards.items():
        moved = np.array(reward).reshape(1, 1, 3) + 1
        assert caty_irl.noncompatibility(known, moved, 2.0) == pytest.approx(loss, abs=1e-12)
        assert caty_irl.classified(known, moved, 2.0, threshold=0.02) == (loss < 0.02)
    # Example 4.3: of what the expert never does it tells nothing.
    assert caty_irl.noncompatibility(known, [[[1.99, 0, 2]]], 2.0) == pytest.approx(0.01)


@pytest.mark.parametrize("stationary", [True, False])
def test_the_index_of_rf_express_is_its_recursion(stationary: bool) -> None:
    _, known = seen(6, stationary=stationary)
    found = caty_irl.bonuses(known)
    P, rows = oracles.unrolled(known.mdp)
    later = np.zeros(4)
    behind = 0.0
    for h in reversed(range(3)):
        own = np.where(rows[h], 1 / np.maximum(1, known.row_visits[h]), caty_irl.NEVER)
        expected = own + np.where(rows[h], (1 + 1 / 3) * (P[h] @ later), behind)
        np.testing.assert_allclose(found[h], expected)
        later = expected.max(axis=1)
        behind = (1 + 1 / 3) * (caty_irl.NEVER + behind)
    assert not rows.all()


def test_what_an_expert_loses_is_known_up_to_what_the_certificate_says() -> None:
    """Definition 4.3, at three looks into each of some runs, with rewards drawn anew; and the value gets useful."""
    runs, broken, last = 20, 0, []
    for rng in np.random.default_rng(12).spawn(runs):
        case = study.small_case(rng)
        wrong = False
        for episodes in (3, 100, 20_000):
            known = study.walked(case, np.full(case.mdp.shape, 0.5), episodes, rng)
            promised = study.compatibility_promise(known, DELTA)
            assert 0 <= promised <= case.mdp.horizon
            wrong |= study.compatibility_error(case, known, rng, 12) > promised
        broken += wrong
        last.append(promised)
    assert broken <= binom.isf(1e-7, runs, DELTA)
    assert max(last) < 1.0


def test_an_expert_who_was_not_asked_or_is_stochastic_has_no_known_loss() -> None:
    case, known = seen(7, episodes=5000)
    belief = belief_of(known, FAMILIES["adaptive"])
    nobody = Estimate.of(
        known.counts.with_answers(np.zeros(known.counts.shape, dtype=np.int64)),
        kind=known.kind,
        delta=known.delta,
        initial=case.mdp.initial,
    )
    assert caty_irl.Compatibility().value(belief_of(nobody, FAMILIES["adaptive"])) == case.mdp.horizon
    assert caty_irl.expert_error(nobody, belief.radii) == pytest.approx(case.mdp.horizon)
    assert dynamics_bound(nobody.mdp, belief.radii).value < case.mdp.horizon
    with pytest.raises(InputError, match="always gives the same answer"):
        caty_irl.Compatibility().check(ExpertKind(deterministic=False))


@QUICK
@given(SEEDS)
def test_a_reward_that_is_not_compatible_is_moved_just_far_enough(seed: int) -> None:
    case, known = seen(seed, episodes=50)
    given_reward = np.random.default_rng(seed).random(case.mdp.shape)

    class Fixed:
        def __call__(self, *_: object) -> object:
            return replace(ALGORITHMS["feasible-point"]()(known, 1.0, {}, None), reward=given_reward)

    algorithm = caty_irl.CatyIrl(base="fixed", threshold=0.02)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ALGORITHMS, "fixed", Fixed)
        found = algorithm(known, 1.0)
    before = caty_irl.noncompatibility(known, given_reward, 1.0)
    after = caty_irl.noncompatibility(known, found.reward, 1.0)
    assert after <= max(0.02 * 3, 0.0) + 1e-9
    assert (found.blend == 0) == (before <= 0.06)


# PIRLO.


@settings(max_examples=5, deadline=None)
@given(SEEDS, st.booleans())
def test_the_kindest_process_is_that_of_a_linear_programme(seed: int, stationary: bool) -> None:
    _, known = seen(seed, stationary=stationary)
    rng = np.random.default_rng(seed)
    shape = known.mdp.shape
    reward, radius = rng.random(shape), rng.random(shape) * rng.choice([0.2, 1.0])
    allowed = rng.random(shape) < 0.6
    allowed[:, :, 0] |= ~allowed.any(axis=2)
    for largest in (True, False):
        found = pirlo.extended(known, radius, reward, 0.3, allowed, largest=largest)
        P, rows = oracles.unrolled(known.mdp)
        values = np.zeros(shape[1])
        for h in reversed(range(shape[0])):
            q = np.array(
                [
                    [
                        reward[h, s, a]
                        + (_kindest(P[h, s, a], radius[h, s, a], values) if rows[h, s, a] else max(values))
                        for a in range(shape[2])
                    ]
                    for s in range(shape[1])
                ]
            )
            np.testing.assert_allclose(found[h], q, atol=1e-7)
            kept = np.where(allowed[h], q, -np.inf if largest else np.inf)
            values = kept.max(axis=1) if largest else kept.min(axis=1)


def _kindest(row: FloatArray, radius: float, values: FloatArray) -> float:
    """The largest mean over rows within the total variation: `q = p + up - down`, `Σ up = Σ down ≤ radius`."""
    n = len(row)
    answer = linprog(
        -np.concatenate([values, -values]),
        A_eq=[np.concatenate([np.ones(n), -np.ones(n)])],
        b_eq=[0.0],
        A_ub=[np.concatenate([np.ones(n), np.zeros(n)])],
        b_ub=[radius],
        bounds=[*((0, None) for _ in range(n)), *((0, p) for p in row)],
    )
    return float(row @ values - answer.fun)


@QUICK
@given(SEEDS)
def test_the_best_of_the_other_actions(seed: int) -> None:
    q = np.random.default_rng(seed).integers(0, 3, size=(2, 3, 4)).astype(np.float64)
    found = pirlo.best_other(q)
    for h, s, a in np.ndindex(q.shape):
        assert found[h, s, a] == max(q[h, s, b] for b in range(4) if b != a)
    assert (pirlo.best_other(q[:, :, :1]) == -np.inf).all()


@QUICK
@given(SEEDS)
def test_members_of_the_subset_are_feasible_and_feasible_ones_are_in_the_superset_in_all_processes_near(
    seed: int,
) -> None:
    """For processes drawn from within the radii, with the successors that were seen: no confidence is involved."""
    rng = np.random.default_rng(seed)
    case = study.small_case(rng, (3, 3, 2))
    known = study.sampled(case, 30, rng)
    guess = known.mdp.transitions.dense()
    share = rng.choice([0.02, 0.2])
    radius = np.full(case.mdp.shape, share)
    for _ in range(4):
        rows = (1 - share) * guess + share * rng.dirichlet(np.full(3, 0.3), (3, 2)) * (guess > 0)
        near = MDP.from_dense(rows / rows.sum(axis=2, keepdims=True), initial=0, horizon=3)
        if np.abs(near.transitions.dense() - guess).sum(axis=2).max() / 2 > share:
            continue
        truth = FeasibleRewardSet.of_problem(near, case.actions, 1.0)
        reward = study.leaning(case, rng)
        loss = expert_loss(truth, reward)
        if pirlo.surely(known, radius, reward, 1.0) >= 0:
            assert loss <= 1e-9
        if loss <= 1e-12:
            assert pirlo.possibly(known, radius, reward, 1.0) >= -1e-9


def test_the_two_sets_of_pirlo_hold_the_true_one_between_them_and_close_in_on_it() -> None:
    runs, outside = 20, 0
    undecided = {}
    for episodes in (100, 30_000):
        found = []
        for rng in np.random.default_rng(13).spawn(runs):
            case = study.small_case(rng)
            known = study.walked(case, np.full(case.mdp.shape, 0.5), episodes, rng)
            one = study.inclusion(case, known, rng, 25, DELTA)
            outside += one.possible < one.feasible or one.sure_and_feasible < one.sure
            found.append(one)
        assert sum(one.feasible for one in found) > 50
        undecided[episodes] = 1 - sum(one.sure for one in found) / sum(one.feasible for one in found)
    assert outside <= binom.isf(1e-7, 2 * runs, DELTA)
    assert undecided[30_000] < undecided[100] / 2


def test_pirlo_returns_a_member_and_moves_no_further_than_it_has_to() -> None:
    shares = []
    for episodes in (100, 30_000):
        rng = np.random.default_rng(3)
        case = study.small_case(rng)
        known = study.walked(case, np.full(case.mdp.shape, 0.5), episodes, rng)
        found = pirlo.Pirlo(base="max-margin", delta=DELTA)(known, 1.0)
        radius = adaptive(known, 1.0, DELTA).tv_radius
        assert pirlo.surely(known, radius, found.reward, found.unknown_step_reward) >= -1e-8
        assert found.infeasibility < 1e-8
        base = ALGORITHMS["max-margin"]()(known, 1.0, {}, None)
        if found.blend:
            less = found.blend - 2.0**-10
            reward = (1 - less) * base.reward + less * np.where(known.expert_uses | ~known.answered[:, :, None], 1.0, 0)
            unknown = (1 - less) * base.unknown_step_reward + less
            assert pirlo.surely(known, radius, reward, unknown) < 0
        shares.append(found.blend)
    assert shares[1] < shares[0]
