"""A discount in episodes: against processes in which each step ends an episode by chance, and against loops."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import oracles
import pytest
from gymnasium import spaces
from scipy import sparse
from strategies import random_mdp
from typer.testing import CliRunner

from aceirl import ActiveIRL, load
from aceirl.cli import app
from aceirl.data.preferences import Preference
from aceirl.envs import Layout, Problem, make
from aceirl.envs.pay import reward_range
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.irl.belief import Target
from aceirl.irl.boltzmann import Boltzmann, Choices
from aceirl.irl.comparisons import returns
from aceirl.learner.settings import Settings
from aceirl.models.tabular.bounds import error_bound
from aceirl.models.tabular.confidence import kl
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.discounted import Discounted
from aceirl.models.tabular.dynamic_programming import evaluate, follow, occupancy, optimal_values, worst_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray, Transitions
from aceirl.models.tabular.metrics import Truth
from aceirl.models.tabular.planner import solve_constrained
from aceirl.rewards import FeasibleRewardSet, StateReward, contains, extreme
from aceirl.rewards.distances import dard, starc
from aceirl.rewards.hypotheses.evidence import DrawnDynamics, GivenAnswers, Rewards, judged, preferred
from aceirl.rewards.samples import sample

SHAPE = (5, 4, 3)
DISCOUNT = 0.7


def padded(table: FloatArray, fill: float = 0.0) -> FloatArray:
    """`[H, S + 1, A]`: the same with the state of the oracle in which it is over."""
    return np.concatenate((table, np.full((len(table), 1, table.shape[2]), fill)), axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_values_are_those_of_episodes_that_may_end_at_every_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = replace(random_mdp(rng, SHAPE), discount=DISCOUNT)
    oracle, reward, policy = oracles.ending(mdp), rng.normal(size=SHAPE), rng.dirichlet(np.ones(3), SHAPE[:2])
    anything = padded(policy, 1 / 3)
    allowed = rng.random(SHAPE) < 0.6
    allowed[:, :, 0] = True
    allowed_there = padded(allowed.astype(np.float64), 1.0) > 0
    for ours, theirs in (
        (optimal_values(mdp, reward), optimal_values(oracle, padded(reward))),
        (evaluate(mdp, reward, policy), evaluate(oracle, padded(reward), anything)),
        (worst_values(mdp, reward, allowed), worst_values(oracle, padded(reward), allowed_there)),
    ):
        np.testing.assert_allclose(ours[0], theirs[0][:, :-1], atol=1e-12)
        np.testing.assert_allclose(ours[1], theirs[1][:, :-1], atol=1e-12)
    np.testing.assert_allclose(occupancy(mdp, policy), occupancy(oracle, anything)[:, :-1], atol=1e-12)
    worth = float(mdp.initial @ evaluate(mdp, reward, policy)[1][0])
    assert (occupancy(mdp, policy) * reward).sum() == pytest.approx(worth)
    actions = rng.integers(3, size=SHAPE[:2])
    np.testing.assert_allclose(follow(mdp, reward, actions), evaluate(mdp, reward, np.eye(3)[actions])[1], atol=1e-12)
    np.testing.assert_allclose(mdp.steps_left, [sum(DISCOUNT**k for k in range(5 - h)) for h in range(5)])
    np.testing.assert_allclose(mdp.steps_after, [sum(DISCOUNT**k for k in range(1, 5 - h)) for h in range(5)])


def test_a_discount_of_one_is_none() -> None:
    mdp = random_mdp(np.random.default_rng(0), SHAPE)
    assert mdp.discount == 1
    assert mdp.backup is mdp.transitions
    np.testing.assert_array_equal(mdp.steps_left, [5, 4, 3, 2, 1])
    np.testing.assert_array_equal(mdp.steps_after, [4, 3, 2, 1, 0])
    with pytest.raises(InputError, match=r"discount must be a number from 0 to 1, got 1\.5"):
        replace(mdp, discount=1.5)


def test_a_long_horizon_is_none() -> None:
    """The first step of many is the fixed point of a process without an end."""
    rng = np.random.default_rng(1)
    mdp = replace(random_mdp(rng, (200, 4, 3)), discount=DISCOUNT)
    reward = rng.normal(size=(4, 3))
    found = Discounted(mdp.transitions, DISCOUNT).solve(reward)
    np.testing.assert_allclose(
        optimal_values(mdp, np.broadcast_to(reward, mdp.shape).copy())[0][0], found.q, atol=1e-12
    )


def test_the_planner_finds_what_a_constraint_allows() -> None:
    """The constrained problem, against the same one where episodes end by chance."""
    rng = np.random.default_rng(2)
    mdp = replace(random_mdp(rng, SHAPE), discount=DISCOUNT)
    cost, reward = rng.random(SHAPE), rng.random(SHAPE)
    floor = 0.9 * float(mdp.initial @ optimal_values(mdp, reward)[1][0])
    ours = solve_constrained(mdp, cost, reward, floor)
    theirs = solve_constrained(oracles.ending(mdp), padded(cost), padded(reward), floor)
    assert ours.bound == pytest.approx(theirs.bound, rel=1e-6)
    assert ours.bound < float(mdp.initial @ optimal_values(mdp, cost)[1][0]) - 1e-3


def present(reward: FloatArray) -> FloatArray:
    """The rewards `[H, S, A]` as they are worth at the first step."""
    return reward * DISCOUNT ** np.arange(len(reward))[:, None, None]


@pytest.mark.parametrize("seed", range(6))
def test_the_feasible_set_is_that_of_what_rewards_are_worth_at_the_start(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, SHAPE)
    discounted = replace(mdp, discount=DISCOUNT)
    expert = rng.integers(3, size=SHAPE[:2])
    ours = FeasibleRewardSet.of_problem(discounted, expert)
    plain = FeasibleRewardSet.of_problem(mdp, expert)
    partly = replace(ours, known=rng.random(SHAPE[:2]) < 0.5)
    assert all(contains(partly, member) for member in sample(partly, np.random.default_rng(seed), 4))
    members = sample(ours, np.random.default_rng(seed), 8)
    for member in members:
        assert contains(ours, member)
        assert contains(plain, present(member))
    assert any(not contains(plain, member) for member in members)
    for _ in range(6):
        other = rng.random(SHAPE)
        assert bool(contains(ours, other)) == bool(contains(plain, present(other)))
    direction = rng.normal(size=SHAPE)
    bounded = plain.restricted(upper=present(np.ones(SHAPE)))
    found = extreme(ours, direction).value
    assert found == pytest.approx(extreme(bounded, direction / present(np.ones(SHAPE))).value, rel=1e-6)


def test_samples_of_an_estimated_set_are_members_of_it() -> None:
    """Where rows and answers are missing too."""
    rng = np.random.default_rng(9)
    seen = Counts.of_moves(Simulator(random_mdp(rng, SHAPE)).rollout(np.full(SHAPE, 1 / 3), 2, rng), SHAPE)
    answers = np.eye(3, dtype=np.int64)[rng.integers(3, size=SHAPE[:2])] * seen.visits.any(axis=2, keepdims=True)
    known = Estimate.of(seen.with_answers(answers), kind=ExpertKind(), delta=0.1, discount=DISCOUNT)
    feasible = FeasibleRewardSet.of_estimate(known)
    assert not known.mdp.known.all()
    assert all(contains(feasible, member) for member in sample(feasible, rng, 6))


def test_without_a_horizon_the_feasible_set_is_that_of_ng_and_russell() -> None:
    """Rewards of states for which `(P_a* - P_a)·(I - γ·P_a*)⁻¹·r ≥ 0` (Ng & Russell 2000), by a long horizon."""
    rng = np.random.default_rng(3)
    mdp = replace(random_mdp(rng, (120, 4, 3)), discount=DISCOUNT)
    rows, expert = mdp.transitions.dense(), rng.integers(3, size=4)
    followed = rows[np.arange(4), expert]
    inverse = np.linalg.inv(np.eye(4) - DISCOUNT * followed)
    feasible = FeasibleRewardSet.of_problem(mdp, np.broadcast_to(expert, mdp.shape[:2]).copy(), space=StateReward())
    for _ in range(5):
        theta = rng.normal(size=4)
        behind = DISCOUNT * np.einsum("sat,t->sa", followed[:, None] - rows, inverse @ theta)
        np.testing.assert_allclose(feasible.losses(theta)[0], behind, atol=1e-12)


def test_boltzmann_experts_look_ahead_by_the_discount() -> None:
    rng = np.random.default_rng(4)
    mdp = replace(random_mdp(rng, SHAPE), discount=DISCOUNT)
    design, theta = StateReward().design_matrix(mdp, np.zeros(0, dtype=np.int64)), rng.normal(size=(1, 4))
    model = Boltzmann(mdp, design, 2.0, Choices.of_answers(np.ones(SHAPE, dtype=np.int64)))
    policy, q = model.experts(theta)
    expected = optimal_values(oracles.ending(mdp), padded(np.broadcast_to(theta[0][None, :, None], SHAPE)))[0][:, :-1]
    np.testing.assert_allclose(q[0], expected, atol=1e-12)
    weights = np.exp(2.0 * expected)
    np.testing.assert_allclose(policy[0], weights / weights.sum(axis=2, keepdims=True), atol=1e-12)
    assert model.log_likelihood(theta)[0] == pytest.approx(np.log(policy[0]).sum())


def counted(seed: int) -> Counts:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, SHAPE, sparsity=0.3)
    seen = Counts.of_moves(Simulator(mdp).rollout(np.full(SHAPE, 1 / 3), 40, rng), SHAPE)
    answers = np.eye(3, dtype=np.int64)[rng.integers(3, size=SHAPE[:2])] * seen.visits.any(axis=2, keepdims=True)
    return seen.with_answers(answers)


def test_a_wish_for_places_with_a_discount_is_one_for_places_that_fade() -> None:
    """What places pay may shrink by itself: a hypothesis of the undiscounted search, and an independent route."""
    counts, rng, none = counted(5), np.random.default_rng(5), np.zeros(0, dtype=np.int64)
    answers, dynamics = GivenAnswers.of(counts, none), DrawnDynamics.drawn(counts, 6, rng)
    places, nothing = rng.normal(size=(7, 4)), np.zeros((7, 3))
    lasting, fading = (
        Rewards(places, places, np.full(7, 5), nothing, np.zeros(7), np.full(7, decay)) for decay in (1.0, DISCOUNT)
    )
    ours, theirs = judged(lasting, dynamics, answers, none, None, DISCOUNT), judged(fading, dynamics, answers, none)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9)
    np.testing.assert_array_equal(ours[1], theirs[1])
    assert np.abs(ours[0] - judged(lasting, dynamics, answers, none)[0]).max() > 1e-3
    early, late = (((0, 0, 0, 1), (1, 1, 0, 2), (2, 2, 0, 3)), ((0, 2, 0, 1), (1, 1, 0, 0), (2, 0, 0, 3)))
    told = (Preference(early, late),)
    np.testing.assert_allclose(preferred(lasting, told, none, DISCOUNT)[0], preferred(fading, told, none)[0])


def test_returns_of_episodes_are_discounted() -> None:
    """With an end: it is paid on arrival, and the steps after it are there to be saved."""
    counts, ends = counted(6), np.array([3])
    mdp = Estimate.of(counts, kind=ExpertKind(), delta=0.1, terminal=[3]).mdp
    design, rng = StateReward().design_matrix(mdp, ends), np.random.default_rng(6)
    theta = rng.normal(size=design.n_parameters)
    walk = ((0, 0, 1, 2), (1, 2, 0, 3))
    paid = [theta[0], theta[2] + theta[3], theta[-1], theta[-1], theta[-1]]
    expected = sum(DISCOUNT**h * each for h, each in enumerate(paid))
    assert float((returns(design, ends, [walk], DISCOUNT) @ theta)[0]) == pytest.approx(expected)


def test_rewards_that_differ_by_discounted_shaping_are_the_same_to_starc() -> None:
    rng = np.random.default_rng(7)
    mdp = replace(random_mdp(rng, SHAPE), discount=DISCOUNT)
    reward, potential = rng.normal(size=SHAPE), np.vstack((rng.normal(size=SHAPE[:2]), np.zeros(4)))
    moved = np.einsum("sat,ht->hsa", mdp.transitions.dense(), potential[1:])
    shaped = 2 * reward + DISCOUNT * moved - potential[:-1, :, None]
    assert starc(mdp, reward, shaped) == pytest.approx(0.0, abs=1e-6)
    assert starc(replace(mdp, discount=1.0), reward, shaped) > 0.01
    with pytest.raises(InputError, match=r"dard compares returns without a discount, and the process has 0\.7"):
        dard(mdp, reward, shaped)


def test_what_can_be_lost_is_the_effective_horizon() -> None:
    target = Target(0.1, 0.1, 2.0, discount=0.5)
    assert target.possible(4) == pytest.approx(2 * (1 + 0.5 + 0.25 + 0.125))
    np.testing.assert_allclose(target.losses(4) * target.possible(4), [3.75, 1.75, 0.75, 0.25, 0])
    of_states = replace(target, by_state=True)
    np.testing.assert_allclose(of_states.losses(4) * of_states.possible(4), [1.75, 0.75, 0.25, 0, 0])
    assert Target(0.1, 0.1, 2.0).possible(4) == 8
    assert Settings(discount=0.5, rmax=2.0).target(4).epsilon == pytest.approx(0.375)


def test_the_bound_of_the_paper_with_a_discount() -> None:
    """(EB1), written as a loop."""
    counts = counted(8)
    known = Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=np.eye(4)[0], discount=DISCOUNT)
    radii, rows = kl(known, 1.0, 0.1), known.mdp.transitions.dense()
    later, left = np.zeros(4), 0.0
    for h in reversed(range(5)):
        before, left = left, 1 + DISCOUNT * left
        cost = DISCOUNT * before * radii.tv_radius[h] + np.where(known.expert_known[h], 0.0, left)[:, None]
        ahead = np.where(known.mdp.known[h], DISCOUNT * rows @ later, np.inf if before else 0.0)
        later = np.minimum(left, np.minimum(left, cost) + ahead).max(axis=1)
    assert error_bound(known.mdp, radii).value == pytest.approx(later[0])


def corridor() -> Problem:
    """From the middle of seven cells, a small reward is two steps to the left, a large one three to the right."""
    rows = np.zeros((7, 2, 7))
    for cell in range(7):
        rows[cell, 0, max(cell - 1, 0)] = rows[cell, 1, min(cell + 1, 6)] = 1.0
    rows[1, :] = np.eye(7)[1]
    rows[6, :] = np.eye(7)[6]
    reward = np.zeros((7, 2))
    reward[1], reward[6] = 0.5, 1.0
    cells = np.stack((np.arange(7.0), np.zeros(7)), axis=1)
    names, sides = tuple(f"cell {cell}" for cell in range(7)), np.array([[-1.0, 0.0], [1.0, 0.0]])
    layout = Layout("chain", cells, names, ("left", "right"), sides)
    mdp = MDP.from_dense(rows, initial=3, horizon=8)
    return Problem.solved("corridor", mdp, reward, layout, np.random.default_rng(0))


def test_an_impatient_expert_is_understood_as_one(tmp_path: Path) -> None:
    """Patience goes right and impatience left; by the right discount the truth explains both and a plan is right."""
    patient, impatient = corridor(), corridor().discounted(0.4)
    assert patient.expert[0, 3].argmax() == 1
    assert impatient.expert[0, 3].argmax() == 0
    assert Truth(impatient.mdp, impatient.reward).regret(impatient.expert) == 0
    assert Truth(patient.mdp, patient.reward).regret(impatient.expert) > 0.2
    assert patient.discounted(1.0) is patient
    options = {"max_samples": 4000, "strategy": "random", "certify": None, "reward": "state"}
    found = ActiveIRL(**options).fit(impatient, out=tmp_path / "run")
    assert found.turn.settings.discount == 0.4
    assert found.turn.belief.estimate.mdp.discount == 0.4
    assert found.regret == pytest.approx(0, abs=1e-9)
    assert found.explanation is not None
    assert found.explanation.explains
    again = load(tmp_path / "run")
    assert again.turn.settings.discount == 0.4
    moved = again.transfer(impatient.mdp, discount=1.0)
    stays = again.transfer(impatient.mdp)
    assert stays.policy[0, 3].argmax() == 0
    assert moved.target.mdp.discount == 1.0
    assert moved.certificate is None
    with pytest.raises(InputError, match=r"discount 0\.4, not 0\.9, and that cannot be changed: the evidence"):
        found.resume(discount=0.9)


def test_a_certificate_with_a_discount_needs_fewer_episodes() -> None:
    """What comes late can cost little, so less has to be seen of it; and the promise is kept."""
    needed = {}
    for discount in (1.0, 0.5):
        found = ActiveIRL(discount=discount, strategy="advice", epsilon=0.4, max_samples=60_000).fit("double-chain")
        assert found.stopped == "certificate"
        assert found.regret is not None
        said = "; ".join(found.turn.certificate("policy").assumptions)
        assert ("a reward is worth 0.5 as much a step later" in said) == (discount == 0.5)
        needed[discount] = found.samples
        problem = make("double-chain", 0).discounted(discount)
        truth = Truth(problem.mdp, problem.reward)
        assert truth.best - truth.value(found.policy) <= 0.4
    assert needed[0.5] < needed[1.0]


def test_the_certificate_of_a_transfer_is_for_one_discount() -> None:
    found = ActiveIRL(discount=0.8, max_samples=800, strategy="random", certify=None).fit("gridworld")
    problem = make("gridworld", 0)
    own = found.transfer(problem)
    assert own.certificate is not None
    assert own.certificate.possible == pytest.approx(sum(0.8**k for k in range(problem.mdp.horizon)))
    assert found.transfer(problem, discount=1.0).certificate is None


def test_large_processes_keep_their_rows_sparse() -> None:
    rows = sparse.eye_array(6, format="csr")
    mdp = MDP(3, Transitions(3, 2, rows.indptr, rows.indices % 3, rows.data), np.eye(3)[0], 0.5)
    assert mdp.backup.successors is mdp.transitions.successors
    assert mdp.transitions.probabilities.sum() == 6
    assert mdp.backup.probabilities.sum() == 3


class Ring(gymnasium.Env[int, int]):
    """Six places in a ring, without an end and without a limit of steps."""

    def __init__(self) -> None:
        self.observation_space: Any = spaces.Discrete(6)
        self.action_space: Any = spaces.Discrete(2)
        self.rmax: float | None = None
        self.max_return: float | None = None

    def reset(self, **options: Any) -> tuple[int, dict[str, Any]]:
        self.place = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.place = (self.place + (1 if action else -1)) % 6
        return self.place, 0.0, False, False, {}


def test_an_environment_without_a_limit_is_followed_while_it_matters() -> None:
    learner = {"max_samples": 200, "certify": None}
    found = ActiveIRL(discount=0.8, **learner).fit(Ring(), lambda place: int(place < 2))
    assert found.turn.counts.shape[0] == 21
    assert 0.8**21 <= 0.01 < 0.8**20
    with pytest.raises(InputError, match="horizon must be given"):
        ActiveIRL(**learner).fit(Ring(), lambda place: 1)


def test_what_an_environment_says_of_its_returns_is_not_said_of_discounted_ones() -> None:
    """+1 and then -1 makes returns of 0, and less than 0 if later ones count more: nothing of 0.1 bounds them."""
    env = gymnasium.make("FrozenLake-v1")
    assert reward_range(env) == reward_range(env, 0.9) == (1.0, 1.0), "it pays once"
    said = Ring()
    said.rmax, said.max_return = 1.0, 0.1
    assert reward_range(said) == (1.0, 0.1)
    assert reward_range(said, 0.9) == (1.0, None)
    found = ActiveIRL(discount=0.9, max_samples=400, certify=None).fit(env, "optimal")
    assert found.turn.settings.max_return == 1.0


def test_the_command_line_has_a_discount(tmp_path: Path) -> None:
    def said(*words: str) -> str:
        ran = CliRunner().invoke(app, words)
        assert ran.exit_code == 0, ran.output
        return ran.output

    folder = str(tmp_path / "run")
    said("run", "gridworld", "--discount", "0.8", "--max-samples", "300", "--out", folder)
    kept = load(folder)
    assert (kept.turn.settings.discount, kept.task.source and kept.task.source.discount) == (0.8, 0.8)
    assert kept.turn.belief.target.possible(10) == pytest.approx(sum(0.8**k for k in range(10)))
    own, other = (
        json.loads(said("transfer", folder, *words, "--json").splitlines()[-1]) for words in ([], ["--discount", "1"])
    )
    assert own["value"] < other["value"], "less of what is later counts"
