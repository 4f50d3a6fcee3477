"""From answers to a reward: the mathematics of maximum causal entropy, and the meaning of what comes out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from strategies import SEEDS, counts, mdps, random_mdp, random_policy, rewards, shapes

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.irl import ALGORITHMS, FeasiblePoint, MaxCausalEntropy, PosteriorMean, SparseLikelihood, reproducing_answers
from aceirl.irl.feasible_point import MARGIN
from aceirl.irl.max_causal_entropy import RESIDUAL, gathered, loss, problem_of
from aceirl.learner.named import read
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import greedy_actions, occupancy, optimal_values, soft_values
from aceirl.models.tabular.estimate import CERTAIN, Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, steps_after
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import Recovered, RewardSpace, StateActionReward, StateReward, action_values
from aceirl.rewards.recovered import infeasibility, scaled

max_causal_entropy = MaxCausalEntropy(reproduce_answers=False)
REGULARISATION = max_causal_entropy.regularisation
feasible_point = FeasiblePoint()


def informed(mdp: MDP, policy: FloatArray, asked: BoolArray | None = None) -> Estimate:
    """An estimate that happens to be the truth: `mdp`, and the expert `policy [H, S, A]` where `asked [H, S]`."""
    deterministic = bool(np.isin(policy, (0.0, 1.0)).all())
    answers = (policy > 0).astype(np.int64)
    if asked is not None:
        answers *= asked[:, :, None].astype(np.int64)
        policy = np.where(asked[:, :, None], policy, 1 / mdp.n_actions)
    kind = ExpertKind(deterministic=deterministic)
    known = Estimate.of(Counts.empty(mdp.shape).with_answers(answers), kind=kind, delta=0.1, initial=mdp.initial)
    # What an estimate works out when first asked is told to it before.
    vars(known).update(mdp=mdp, row_visits=np.where(mdp.known, CERTAIN, 0))
    vars(known.said).update(expert_policy=policy)
    return known


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    """Any process with a known start, unknown rows and all; an expert of any kind, asked here and there."""
    mdp = draw(mdps().filter(lambda mdp: mdp.initial.any()))
    rng = np.random.default_rng(draw(SEEDS))
    policy = random_policy(rng, mdp.shape, draw(st.sampled_from(["deterministic", "sparse", "dirichlet"])))
    asked = rng.random(mdp.shape[:2]) < draw(st.sampled_from([0.0, 0.7, 1.0]))
    return informed(mdp, policy, asked)


def twin_objective(estimate: Estimate, flat: FloatArray) -> tuple[float, FloatArray]:
    """`V_soft(r) - ⟨μᴱ, r⟩ + λ/2·‖r‖²` and its gradient, dense."""
    mdp, reward = estimate.mdp, flat.reshape(estimate.mdp.shape)
    P, known = oracles.unrolled(mdp)
    after = np.log(mdp.n_actions) * steps_after(mdp.horizon)
    policy, value = oracles.soft_backward_induction(P, known, reward, after)
    difference = oracles.occupancy(P, mdp.initial, policy) - oracles.occupancy(P, mdp.initial, estimate.expert_policy)
    expert = oracles.occupancy(P, mdp.initial, estimate.expert_policy)
    loss = mdp.initial @ value[0] - np.vdot(expert, reward) + REGULARISATION / 2 * flat @ flat
    return float(loss), (difference + REGULARISATION * reward).ravel()


@given(estimates(), SEEDS, st.booleans())
def test_the_gradient_is_the_slope_of_the_objective(estimate: Estimate, seed: int, sparse: bool) -> None:
    mdp, rng = estimate.mdp, np.random.default_rng(seed)
    shape, after = mdp.shape, np.log(mdp.n_actions) * steps_after(mdp.horizon)
    start = rng.normal(size=shape) * (rng.random((*shape[:2], 1)) < 0.2 if sparse else 1)
    fixed = problem_of(mdp.transitions.rows, mdp.initial, after, occupancy(mdp, estimate.expert_policy), start)
    inside = np.zeros(shape, dtype=np.bool_)  # where there can be a gradient, or are parameters
    for h in range(mdp.horizon):
        inside[h, fixed.states[fixed.first[h] : fixed.first[h + 1]]] = True

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        inner, gradient = gathered(fixed.first, fixed.states, point.reshape(shape)), np.zeros(shape)
        slope = np.full(inner.shape, np.nan)
        value = loss(fixed, REGULARISATION, inner, slope)
        gradient[inside] = slope.ravel()
        return value, gradient.ravel()

    point = start.ravel()
    value, gradient = objective(point)
    expected_value, expected_gradient = twin_objective(estimate, point)
    assert value == pytest.approx(expected_value, rel=1e-10)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-9, atol=1e-12)
    for _ in range(3):
        direction = rng.normal(size=point.size) * inside.ravel()
        step = 1e-5 * direction
        slope = (objective(point + step)[0] - objective(point - step)[0]) / 2e-5
        assert slope == pytest.approx(float(gradient @ direction), rel=1e-5, abs=1e-7)


@given(estimates())
@settings(max_examples=60)
def test_the_answer_satisfies_the_first_order_condition(estimate: Estimate) -> None:
    recovered = max_causal_entropy(estimate, rmax=1.0)
    gradient = twin_objective(estimate, recovered.parameters["theta"].ravel())[1]
    scale = np.linalg.norm(occupancy(estimate.mdp, estimate.expert_policy))
    assert np.linalg.norm(gradient) <= RESIDUAL * scale * (1 + 1e-6)
    assert recovered.residual == pytest.approx(np.linalg.norm(gradient) / scale, rel=1e-4, abs=1e-9)
    assert recovered.residual <= RESIDUAL == 1e-4


@given(estimates())
@settings(max_examples=15)
def test_another_solver_finds_the_same_optimum(estimate: Estimate) -> None:
    recovered = max_causal_entropy(estimate, rmax=1.0)
    size = recovered.parameters["theta"].size
    answer = minimize(
        lambda x: twin_objective(estimate, x), np.full(size, 0.1), jac=True, method="BFGS", options={"gtol": 1e-7}
    )
    # The objective curves at least λ everywhere, so points with gradients below g lie within 2g/λ.
    reach = (np.linalg.norm(answer.jac) + recovered.residual * np.sqrt(estimate.mdp.horizon)) / REGULARISATION
    assert np.linalg.norm(answer.x - recovered.parameters["theta"].ravel()) <= reach + 1e-6
    loss = twin_objective(estimate, recovered.parameters["theta"].ravel())[0]
    assert loss <= answer.fun + (RESIDUAL**2 * estimate.mdp.horizon) / (2 * REGULARISATION) + 1e-9


def fork(horizon: int = 2) -> MDP:
    """State 0; action 0 leads to 1, action 1 to 2, and there one stays."""
    stay = np.eye(3)
    return MDP.from_dense([[stay[1], stay[2]], [stay[1]] * 2, [stay[2]] * 2], initial=0, horizon=horizon)


def test_what_the_expert_does_is_worth_more() -> None:
    policy = np.zeros((2, 3, 2))
    policy[:, :, 1] = 1.0
    recovered = max_causal_entropy(informed(fork(), policy), rmax=1.0)
    reward = recovered.reward
    assert reward[0, 0, 1] > reward[0, 0, 0]
    assert reward[1, 2].max() > reward[1, 1].max()  # where the expert ends up, against where it could have
    assert soft_values(fork(), recovered.parameters["theta"])[0][0, 0, 1] > 0.97
    # Nobody is ever in state 1 at step 0: there the data say nothing and the reward stays that of an unknown step.
    assert (recovered.parameters["theta"][0, 1:] == 0).all()
    np.testing.assert_allclose(reward[0, 1:], recovered.unknown_step_reward)


def test_an_indifferent_expert_has_no_preference() -> None:
    recovered = max_causal_entropy(informed(fork(3), np.full((3, 3, 2), 0.5)), rmax=1.0)
    assert not recovered.parameters["theta"].any()  # no step is taken after rounding errors
    assert (recovered.iterations, recovered.residual <= RESIDUAL) == (0, True)


def test_a_soft_expert_is_imitated_as_far_as_the_regulariser_lets_it() -> None:
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, (4, 4, 3), sparsity=0.3)
    policy, _ = soft_values(mdp, 2 * rng.normal(size=mdp.shape))
    recovered = max_causal_entropy(informed(mdp, policy), rmax=1.0)
    expert, learned = occupancy(mdp, policy), occupancy(mdp, soft_values(mdp, recovered.parameters["theta"])[0])
    uniform = occupancy(mdp, np.full(mdp.shape, 1 / 3))
    assert np.abs(learned - expert).max() < 0.03
    assert np.abs(learned - expert).sum() < 0.15 * np.abs(uniform - expert).sum()
    np.testing.assert_allclose(expert - learned, REGULARISATION * recovered.parameters["theta"], atol=2e-4)


@pytest.mark.parametrize("space", [StateReward(), StateActionReward()])
def test_in_a_space_what_the_parameters_are_about_is_met_as_often_as_the_expert_meets_it(space: RewardSpace) -> None:
    """First-order condition: `Φᵀ(μᴱ - μ) = λθ`."""
    rng = np.random.default_rng(3)
    mdp = random_mdp(rng, (5, 4, 3), sparsity=0.3)
    policy, _ = soft_values(mdp, 2 * rng.normal(size=mdp.shape[1:])[None].repeat(5, axis=0))
    recovered = MaxCausalEntropy()(informed(mdp, policy), 1.0, {}, space)
    design = space.design_matrix(mdp, np.zeros(0, dtype=np.int64))
    theta = recovered.parameters[f"theta.{space.name}"]
    learned = occupancy(mdp, soft_values(mdp, design.table(theta))[0])
    behind = design.adjoint(occupancy(mdp, policy) - learned)
    np.testing.assert_allclose(behind, REGULARISATION * theta, atol=1e-3)
    uniform = design.adjoint(occupancy(mdp, policy) - occupancy(mdp, np.full(mdp.shape, 1 / 3)))
    assert np.abs(behind).max() < 0.1 * np.abs(uniform).max()
    table = design.table(theta)
    np.testing.assert_allclose(recovered.reward - recovered.unknown_step_reward, table / (np.ptp([0, *table.ravel()])))


def test_the_way_to_the_goal_is_recovered_on_a_corridor() -> None:
    problem = make("double-chain", seed=0, length=7, horizon=6)
    recovered = max_causal_entropy(informed(problem.mdp, problem.expert), rmax=1.0)
    q, _ = optimal_values(problem.mdp, recovered.reward)
    actions = greedy_actions(q, np.random.default_rng(0))
    assert (actions[0, 3], actions[1, 4], actions[2, 5]) == (1, 1, 1)
    assert Truth(problem.mdp, problem.reward).regret(actions) < 0.02


def test_an_unknown_row_is_a_way_into_the_dark_worth_nothing_special() -> None:
    # The expert turns right at the fork; what action 0 would do was never seen.
    mdp = fork()
    rows = mdp.transitions
    unseen = replace(
        mdp,
        transitions=replace(
            rows,
            indptr=rows.indptr - (np.arange(7) > 0),
            successors=rows.successors[1:],
            probabilities=rows.probabilities[1:],
        ),
    )
    policy = np.zeros((2, 3, 2))
    policy[:, :, 1] = 1.0
    estimate = informed(unseen, policy)
    recovered = max_causal_entropy(estimate, rmax=1.0)
    assert recovered.residual <= RESIDUAL
    q = action_values(estimate, recovered.reward, recovered.unknown_step_reward)
    assert q[0, 0, 1] > q[0, 0, 0]
    assert q[0, 0, 0] == pytest.approx(recovered.reward[0, 0, 0] + recovered.unknown_step_reward)


def test_a_warm_start_is_quicker_and_ends_at_the_same_answer() -> None:
    problem = make("four-paths", seed=0)
    simulator, rng = Simulator(problem.mdp), np.random.default_rng(0)

    def seen(episodes: int) -> Estimate:
        moves = simulator.rollout(np.full(problem.mdp.shape, 0.25), episodes, rng)
        some = Counts.of_moves(moves, problem.mdp.shape)
        asked = some.visits.sum(axis=2, keepdims=True) > 0
        return Estimate.of(
            some.with_answers((problem.expert * asked).astype(np.int64)),
            kind=ExpertKind(),
            delta=0.1,
            initial=problem.mdp.initial,
        )

    before = max_causal_entropy(seen(100_000), 1.0)
    now = seen(100_000)
    cold, warm = max_causal_entropy(now, 1.0), max_causal_entropy(now, 1.0, before.parameters)
    assert warm.iterations < cold.iterations
    assert max(warm.residual, cold.residual) <= RESIDUAL
    np.testing.assert_allclose(warm.reward, cold.reward, atol=0.02)
    kept = warm.parameters["theta"].copy()
    again = max_causal_entropy(now, 1.0, warm.parameters)
    np.testing.assert_array_equal(warm.parameters["theta"], kept)
    assert again.iterations == 0
    np.testing.assert_array_equal(again.reward, warm.reward)


@given(estimates(), st.sampled_from(sorted(ALGORITHMS)), st.sampled_from([0.3, 1.0, 17.0]))
@settings(max_examples=60)
def test_every_algorithm_returns_a_reward_in_range_and_says_how_feasible_it_is(
    estimate: Estimate, name: str, rmax: float
) -> None:
    whole = ALGORITHMS[name]()
    blends = not isinstance(whole, FeasiblePoint | SparseLikelihood | PosteriorMean)
    alone = read(f"{name}:reproduce_answers=false", "", ALGORITHMS) if blends else whole
    recovered = alone(estimate, rmax, {}, None)
    again = alone(estimate, rmax, recovered.parameters, None)
    assert recovered.reward.shape == again.reward.shape == estimate.mdp.shape
    assert recovered.reward.min() >= 0
    assert recovered.reward.max() <= rmax
    assert 0 <= recovered.unknown_step_reward <= rmax
    lost = infeasibility(estimate, recovered.reward, recovered.unknown_step_reward)
    assert recovered.infeasibility == pytest.approx(lost, rel=1e-9, abs=1e-12)
    if isinstance(whole, SparseLikelihood | PosteriorMean):
        assert recovered.blend == 0.0, "it says how many answers it explains, and is not mixed until it explains all"
        return
    fixed = reproducing_answers(estimate, recovered, rmax)
    assert fixed.reward.min() >= 0
    assert fixed.reward.max() <= rmax
    np.testing.assert_allclose(whole(estimate, rmax, {}, None).reward, fixed.reward, rtol=1e-12, atol=1e-14)


@given(st.data(), shapes())
def test_scaling_fills_the_range_and_takes_zero_along(data: st.DataObject, shape: tuple[int, int, int]) -> None:
    parameters = data.draw(rewards(shape))
    reward, unknown_step_reward = scaled(parameters)
    assert reward.min() >= 0
    assert reward.max() <= 1
    if parameters.any():
        assert max(reward.max(), unknown_step_reward) == pytest.approx(1.0)
        assert min(reward.min(), unknown_step_reward) == pytest.approx(0.0, abs=1e-12)
        # Differences keep their proportions.
        factor = 1 / (max(0.0, parameters.max()) - min(0.0, parameters.min()))
        np.testing.assert_allclose(reward - unknown_step_reward, factor * parameters, rtol=1e-9, atol=1e-9)


def test_parameters_of_any_shape_survive_new_states_and_those_of_other_states_are_no_obstacle() -> None:
    own = {"weights": np.arange(5.0), "scale": np.array(2.0)}
    grown = Recovered(np.ones((2, 3, 2)), 0.25, 0.0, own).grown(4)
    assert grown.parameters is own
    assert grown.reward.shape == (2, 4, 2)
    assert (grown.reward[:, 3] == 0.25).all()

    policy = np.zeros((2, 3, 2))
    policy[:, :, 1] = 1.0
    estimate = informed(fork(), policy)
    found = max_causal_entropy(estimate, 1.0).parameters["theta"]
    fewer, more = found[:, :2], np.pad(found, ((0, 0), (0, 1), (0, 0)))
    for warm in (fewer, more):
        again = max_causal_entropy(estimate, 1.0, {"theta": warm})
        assert again.residual <= RESIDUAL
        np.testing.assert_allclose(again.parameters["theta"], found, atol=2 * RESIDUAL * np.sqrt(2) / REGULARISATION)


def test_without_a_known_start_there_is_nothing_to_learn_yet() -> None:
    mdp = random_mdp(np.random.default_rng(0), (2, 3, 2), start="unknown")
    recovered = max_causal_entropy(informed(mdp, np.full(mdp.shape, 0.5)), 1.0)
    assert not recovered.reward.any()


def test_an_unknown_algorithm_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'max-causal-entropi'.*'max-causal-entropy'"):
        read("max-causal-entropi", "IRL algorithm", ALGORITHMS)


@given(st.data(), mdps(complete=True))
def test_infeasibility_is_zero_exactly_if_the_expert_is_optimal(data: st.DataObject, mdp: MDP) -> None:
    reward = data.draw(rewards(mdp.shape))
    P, known = oracles.unrolled(mdp)
    q = oracles.backward_induction(P, known, reward, np.zeros(mdp.horizon))[0]
    best = np.eye(mdp.n_actions)[q.argmax(axis=2)]
    assert infeasibility(informed(mdp, best), reward, 0.0) == pytest.approx(0.0, abs=1e-9)
    other = random_policy(np.random.default_rng(data.draw(SEEDS)), mdp.shape, "deterministic")
    loss = q.max(axis=2) - (q * other).sum(axis=2)
    assert infeasibility(informed(mdp, other), reward, 0.0) == pytest.approx(loss.max(), rel=1e-9, abs=1e-9)
    # Where nobody was asked, nothing can be infeasible.
    nobody = np.zeros(mdp.shape[:2], dtype=np.bool_)
    assert infeasibility(informed(mdp, other, nobody), reward, 0.0) == 0.0


@given(st.data(), counts(), st.booleans(), st.booleans())
def test_the_feasible_point_is_feasible_whatever_the_dynamics(
    data: st.DataObject, some: Counts, deterministic: bool, stationary: bool
) -> None:
    kind = ExpertKind(deterministic=deterministic, stationary=stationary)
    estimate = Estimate.of(some, kind=kind, delta=0.1)
    recovered = feasible_point(estimate, 2.0)
    assert recovered.infeasibility == pytest.approx(0.0, abs=1e-12)
    assert set(np.unique(recovered.reward)) <= {0.0, 2.0}
    anywhere = data.draw(mdps(complete=True, shape=st.just(some.shape)))
    q, v = optimal_values(anywhere, recovered.reward)
    uses = estimate.expert_uses
    np.testing.assert_allclose(q[uses], np.broadcast_to(v[:, :, None], q.shape)[uses], rtol=1e-12)
    others = uses.any(axis=2, keepdims=True) & ~uses
    assert (q[others] <= np.broadcast_to(v[:, :, None], q.shape)[others] - 2.0 + 1e-9).all()


def margin(estimate: Estimate, reward: FloatArray, unknown_step_reward: float) -> float:
    """How far the least of the expert's known answers is ahead of every other action, anywhere."""
    uses = estimate.expert_uses
    q = action_values(estimate, reward, unknown_step_reward)
    ahead = [
        q[h, s][uses[h, s]].min() - q[h, s][~uses[h, s]].max()
        for h, s in np.ndindex(uses.shape[:2])
        if uses[h, s].any() and not uses[h, s].all()
    ]
    return float(min(ahead, default=np.inf))


@given(st.data(), estimates(), st.sampled_from([0.5, 1.0, 3.0]))
def test_a_reward_that_reproduces_answers_makes_every_known_one_greedy(
    data: st.DataObject, estimate: Estimate, rmax: float
) -> None:
    in_units, of_unknown = scaled(data.draw(rewards(estimate.mdp.shape)))
    reward, unknown_step_reward = rmax * in_units, rmax * of_unknown
    given_reward = Recovered(reward, unknown_step_reward, 0.0, {"theta": reward})
    before = margin(estimate, reward, unknown_step_reward)
    fixed = reproducing_answers(estimate, given_reward, rmax)
    assert margin(estimate, fixed.reward, fixed.unknown_step_reward) >= MARGIN * rmax
    if before >= MARGIN * rmax:
        assert fixed.blend == 0.0
        np.testing.assert_array_equal(fixed.reward, reward)
    else:
        assert fixed.blend > 0.0
    point = feasible_point(estimate, rmax)
    np.testing.assert_allclose(fixed.reward, (1 - fixed.blend) * reward + fixed.blend * point.reward, atol=1e-12)
    np.testing.assert_array_equal(fixed.parameters["theta"], given_reward.parameters["theta"])
    if estimate.kind.deterministic:
        q = action_values(estimate, fixed.reward, fixed.unknown_step_reward)
        actions = greedy_actions(q, np.random.default_rng(0))
        uses = estimate.expert_uses
        asked = uses.any(axis=2)
        np.testing.assert_array_equal(actions[asked], uses.argmax(axis=2)[asked])


def test_no_more_is_blended_in_than_needed() -> None:
    # One state, one step; the reward prefers action 0 by 0.1 and the expert takes action 1: w ≥ 0.1/1.1 = 1/11.
    mdp = MDP.from_dense([[[1.0], [1.0]]], initial=0, horizon=1)
    estimate = informed(mdp, np.array([[[0.0, 1.0]]]))
    wrong = Recovered(np.array([[[0.1, 0.0]]]), 0.0, 0.1)
    assert reproducing_answers(estimate, wrong, 1.0).blend == 1 / 8
