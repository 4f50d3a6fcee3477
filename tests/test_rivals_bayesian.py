"""The Bayesian rivals: acquisition functions against brute force, the episodes they plan, and what they learn."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, random_mdp

from aceirl.bench.rivals.active_var import ActiveVaR, value_at_risk
from aceirl.bench.rivals.pac_eig import PacEIG, grouped, regret_gain
from aceirl.bench.rivals.policy_entropy import PolicyEntropy, policy_entropy
from aceirl.bench.rivals.querying import PosteriorDraws, Querying
from aceirl.bench.rivals.reward_centroid import RewardCentroid, optimal_centroid
from aceirl.bench.rivals.reward_eig import RewardEIG, information_gain
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.irl.boltzmann import Boltzmann, Choices
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of, learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import evaluate, occupancy, optimal_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import StateReward

STRATEGIES: list[type[Querying]] = [PolicyEntropy, ActiveVaR, RewardEIG, PacEIG]


def some_policies(seed: int, n: int = 7, shape: tuple[int, int, int] = (2, 3, 3)) -> FloatArray:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(shape[2], 0.4), size=(n, *shape[:2]))


def mutual_information(joint: FloatArray) -> float:
    """Of a table of probabilities, by its definition."""
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    positive = joint > 0
    return float((joint[positive] * np.log(joint[positive] / apart[positive])).sum())


@given(SEEDS)
def test_the_gain_about_the_reward_is_the_information_of_answer_and_sample(seed: int) -> None:
    policies = some_policies(seed)
    gains = information_gain(policies)
    for h, s in np.ndindex(gains.shape):
        assert gains[h, s] == pytest.approx(mutual_information(policies[:, h, s] / len(policies)), abs=1e-12)


@given(SEEDS, st.integers(1, 5))
def test_the_gain_about_the_regret_is_the_information_of_answer_and_group(seed: int, n_groups: int) -> None:
    policies = some_policies(seed)
    groups = np.random.default_rng(seed).integers(n_groups, size=policies.shape[:3])
    gains = regret_gain(policies, groups)
    for h, s in np.ndindex(gains.shape):
        joint = np.array([policies[groups[:, h, s] == g, h, s].sum(axis=0) for g in range(n_groups)]) / len(policies)
        assert gains[h, s] == pytest.approx(mutual_information(joint), abs=1e-12)
    assert (gains <= information_gain(policies) + 1e-12).all(), "a group says no more than the sample itself"


@given(SEEDS, st.integers(1, 8))
def test_regrets_are_grouped_by_rank_and_equals_together(seed: int, bins: int) -> None:
    regrets = np.random.default_rng(seed).integers(4, size=(9, 2, 3)).astype(np.float64)
    groups = grouped(regrets, bins)
    for h, s in np.ndindex(regrets.shape[1:]):
        column = regrets[:, h, s]
        for m in range(9):
            assert groups[m, h, s] == int((column < column[m]).sum()) * bins // 9


@given(SEEDS, st.integers(2, 10))
def test_the_policy_entropy_is_that_of_histograms(seed: int, bins: int) -> None:
    policies = some_policies(seed)
    found = policy_entropy(policies, bins)
    for h, s in np.ndindex(found.shape):
        total = 0.0
        for a in range(policies.shape[3]):
            counted = np.zeros(bins)
            for probability in policies[:, h, s, a]:
                # The paper's bins are (k/K, (k+1)/K]; the first has zero too.
                counted[next(k for k in range(bins) if probability <= (k + 1) / bins or k == bins - 1)] += 1
            shares = counted[counted > 0] / len(policies)
            total -= float((shares * np.log(shares)).sum()) / policies.shape[3]
        assert found[h, s] == pytest.approx(total, abs=1e-12)


def drawn_from(seed: int) -> PosteriorDraws:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (3, 4, 2))
    over = StateReward().design_matrix(mdp, np.zeros(0, dtype=np.int64))
    likelihood = Boltzmann(mdp, over, 4.0, Choices.of_answers(np.zeros(mdp.shape, dtype=np.int64)))
    return PosteriorDraws(likelihood, rng.uniform(-1, 1, size=(20, 4)))


@given(SEEDS)
def test_the_value_at_risk_is_a_quantile_of_what_the_apprentice_loses(seed: int) -> None:
    drawn = drawn_from(seed)
    mdp, design = drawn.likelihood.mdp, drawn.likelihood.design
    mean_q = optimal_values(mdp, design.table(drawn.thetas.mean(axis=0)))[0]
    policy = np.eye(2)[mean_q.argmax(axis=2)]
    lost = np.array(
        [
            optimal_values(mdp, design.table(theta))[1] - evaluate(mdp, design.table(theta), policy)[1]
            for theta in drawn.thetas
        ]
    )
    np.testing.assert_allclose(drawn.losses, lost, atol=1e-12)
    at_risk = value_at_risk(drawn.losses, 0.9)
    np.testing.assert_allclose(at_risk, np.sort(lost, axis=0)[17], atol=1e-12)
    assert ((lost <= at_risk + 1e-12).mean(axis=0) >= 0.9).all()
    immediate = optimal_values(mdp, design.table(drawn.thetas[0]))
    taken = np.take_along_axis(immediate[0], mean_q.argmax(axis=2)[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(drawn.immediate_losses[0], immediate[1] - taken, atol=1e-12)


def test_an_answer_where_nothing_can_be_chosen_tells_nothing_however_uncertain_it_is() -> None:
    """The case against asking by the entropy of the answer alone: a state that cannot be left."""
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 1] = moves[0, 1, 2] = moves[1, :, 1] = moves[2, :, 2] = 1.0
    mdp = MDP.from_dense(moves, initial=0, horizon=3)
    over = StateReward().design_matrix(mdp, np.zeros(0, dtype=np.int64))
    likelihood = Boltzmann(mdp, over, 4.0, Choices.of_answers(np.zeros(mdp.shape, dtype=np.int64)))
    drawn = PosteriorDraws(likelihood, np.random.default_rng(0).uniform(-1, 1, size=(30, 3)))
    answer = drawn.policies.mean(axis=0)
    np.testing.assert_allclose(answer[:, 1:], 0.5, err_msg="the answer there is as uncertain as can be")
    for strategy in (RewardEIG(), PacEIG(), PolicyEntropy(), ActiveVaR()):
        worth = strategy.acquisition(drawn)
        np.testing.assert_allclose(worth[:, 1:], 0.0, atol=1e-12, err_msg=type(strategy).__name__)
        assert worth[0, 0] > 0.05


@dataclass(frozen=True)
class Wanting(Querying):
    """Goes where it is told that answers are worth something."""

    worth: tuple[tuple[float, ...], ...] = ()

    def acquisition(self, drawn: PosteriorDraws) -> FloatArray:
        return np.array(self.worth)


def engine_of(mdp: MDP, strategy: Querying, seed: int = 0, *, stochastic: bool = True) -> Engine:
    policy: FloatArray = np.full(mdp.shape, 1.0 / mdp.n_actions)
    if not stochastic:
        policy = np.eye(mdp.n_actions)[np.zeros(mdp.shape[:2], dtype=np.int64)]
    settings = Settings(strategy=strategy, irl="feasible-point", certify=None, seed=seed)
    return Engine(Simulator(mdp), answers_of(PolicyExpert(policy, mdp.shape), settings), settings)


@given(SEEDS)
def test_the_episode_collects_the_most_that_any_can(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (3, 3, 2), start="point")
    worth = rng.random(mdp.shape[:2])
    strategy = Wanting(worth=tuple(map(tuple, worth.tolist())))
    belief = engine_of(mdp, strategy).belief
    estimate = Estimate.of(belief.estimate.counts, kind=belief.estimate.kind, delta=0.1, initial=mdp.initial)
    vars(estimate).update(mdp=mdp)
    known = replace(belief, model=replace(belief.table, estimate=estimate))
    policy = strategy.plan(known, rng).policy
    assert policy is not None
    collected = float((occupancy(mdp, policy).sum(axis=2) * worth).sum())
    every = np.indices((2,) * 9).reshape(9, -1).T.reshape(-1, 3, 3)
    best = max(float((occupancy(mdp, np.eye(2)[one]).sum(axis=2) * worth).sum()) for one in every)
    assert collected == pytest.approx(best)


def test_what_has_been_answered_is_not_worth_a_visit_and_what_is_unknown_is() -> None:
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 1] = moves[0, 1, 2] = moves[1, :, 1] = moves[2, :, 2] = 1.0
    mdp = MDP.from_dense(moves, initial=0, horizon=2)
    strategy = Wanting(worth=((0.1, 1.0, 1.0), (0.1, 1.0, 0.9)))
    belief = engine_of(mdp, strategy, stochastic=False).belief
    answers: IntArray = np.zeros(mdp.shape, dtype=np.int64)

    def planned(answers: IntArray, process: MDP) -> int:
        estimate = Estimate.of(
            Counts.empty(mdp.shape).with_answers(answers), kind=ExpertKind(), delta=0.1, initial=mdp.initial
        )
        vars(estimate).update(mdp=process)
        known = replace(belief, model=replace(belief.table, estimate=estimate))
        policy = strategy.plan(known, np.random.default_rng(0)).policy
        assert policy is not None
        return int(policy[0, 0].argmax())

    assert planned(answers, mdp) == 0, "the first place is worth more at the second step"
    answers[1, 1, 0] = 1
    assert planned(answers, mdp) == 1, "once it was asked there, the other is"
    rows = mdp.transitions
    keep = np.repeat(np.arange(6) != 0, np.diff(rows.indptr))
    unknown = replace(
        rows,
        indptr=np.concatenate(([0, 0], rows.indptr[2:] - 1)),
        successors=rows.successors[keep],
        probabilities=rows.probabilities[keep],
    )
    assert planned(answers, replace(mdp, transitions=unknown)) == 0, "nobody knows yet where the first action leads"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plans_depend_on_the_seed_alone_and_take_their_chains_up_again(strategy: type[Querying]) -> None:
    problem = make("gridworld", 0)
    settings = Settings(strategy=strategy(), irl="feasible-point", certify=None, max_samples=60, seed=3)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    one, two = ([*learn(Simulator(problem.mdp), expert, settings)] for _ in range(2))
    np.testing.assert_array_equal(one[-1].counts.visits, two[-1].counts.visits)
    belief = one[-1].belief
    assert belief.memory["z"].shape == (strategy().chains, problem.mdp.n_states)
    plans = [strategy().plan(belief, np.random.default_rng(4)) for _ in range(2)]
    np.testing.assert_array_equal(plans[0].policy, plans[1].policy)
    grown = replace(belief, memory={"z": np.zeros((1, 1))})
    assert strategy().plan(grown, np.random.default_rng(4)).memory["z"].shape == belief.memory["z"].shape
    name = f"{strategy.__module__}.{strategy.__name__}"
    assert Settings(strategy=f"{name}:beta=2.5").strategy == strategy(beta=2.5)
    assert Settings(strategy=strategy(beta=2.5)).named("strategy") == f"{name}:beta=2.5"
    with pytest.raises(InputError, match="reward space"):
        strategy(space="place")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_finds_a_reward_to_act_on(strategy: type[Querying]) -> None:
    problem = make("gridworld", 0)
    truth = Truth(problem.mdp, problem.reward)
    settings = Settings(
        strategy=strategy(), irl="posterior-mean", reward="state", certify=None, max_samples=400, infer_after_growth=1
    )
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    *_, last = learn(Simulator(problem.mdp), expert, settings, regret=truth.regret)
    assert last.record.regret is not None
    assert last.record.regret < 0.1


def informed(mdp: MDP, actions: IntArray, asked: FloatArray) -> Estimate:
    answers = (np.eye(mdp.n_actions)[actions] * asked[:, :, None]).astype(np.int64)
    found = Estimate.of(
        Counts.empty(mdp.shape).with_answers(answers), kind=ExpertKind(), delta=0.1, initial=mdp.initial
    )
    vars(found).update(mdp=mdp)
    return found


@given(SEEDS)
def test_the_centroid_makes_the_expert_optimal_wherever_it_is_known(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, (3, 4, 3))
    actions = rng.integers(3, size=mdp.shape[:2])
    everywhere = RewardCentroid()(informed(mdp, actions, np.ones(mdp.shape[:2])), 2.0)
    assert everywhere.infeasibility == 0
    np.testing.assert_array_equal(everywhere.reward, 2.0 * np.eye(3)[actions])
    asked = (rng.random(mdp.shape[:2]) < 0.5).astype(np.float64)
    partly = optimal_centroid(informed(mdp, actions, asked))
    np.testing.assert_allclose(partly.sum(axis=2), 1.0)
    np.testing.assert_array_equal(partly[asked == 0], 1.0 / 3)


def test_the_centroid_of_a_stochastic_expert_is_the_logarithm_of_what_it_does() -> None:
    mdp = random_mdp(np.random.default_rng(0), (1, 2, 3))
    answers: IntArray = np.array([[[6, 3, 0], [0, 0, 0]]])
    kind = ExpertKind(deterministic=False)
    found = Estimate.of(Counts.empty(mdp.shape).with_answers(answers), kind=kind, delta=0.1, initial=mdp.initial)
    vars(found).update(mdp=mdp)
    recovered = RewardCentroid(least_probability=0.01)(found, 1.0)
    advantages = np.array([0.0, np.log(0.5), np.log(0.01 / (2 / 3))])
    np.testing.assert_allclose(recovered.reward[0, 0], 1 - advantages / np.log(0.01))
    np.testing.assert_array_equal(recovered.reward[0, 1], 0.0)
    with pytest.raises(InputError, match="reward-centroid"):
        RewardCentroid()(found, 1.0, None, StateReward())
