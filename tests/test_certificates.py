"""Promises: the wagers are fair, the bounds hold for any two problems, and the loop stops on what it is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr
from scipy.stats import binom

from aceirl.certificates import transfer_certificate
from aceirl.certificates.criterion import Criterion
from aceirl.certificates.dynamics import Dynamics
from aceirl.certificates.e_process import (
    STAKES,
    BatchOutcome,
    EProcess,
    Wager,
    log_factors,
)
from aceirl.certificates.forecast import LOOK_AGAIN, Forecast, forecast
from aceirl.certificates.reward import Reward
from aceirl.certificates.reward_set import RewardSet
from aceirl.data.arrays import Move
from aceirl.data.dataset import Trajectory
from aceirl.envs import make
from aceirl.envs.simulator import WALKED_EPISODES, Simulator
from aceirl.errors import InputError
from aceirl.experts import FunctionExpert, PolicyExpert
from aceirl.irl.belief import Plan, Target
from aceirl.learner.collect import first_deviations
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of, learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.confidence import Radii, trivial_bound
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import evaluate, occupancy
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray, steps_after
from aceirl.models.tabular.metrics import Truth
from aceirl.protocols import Moves
from aceirl.runs import Run
from studies import soundness as study
from studies.adversaries import CASES, Case, rare_branch_case
from studies.collecting import collected, watched_actions

# Evidence: how far episodes do what the expert is known to do.


def test_an_episode_deviates_where_no_action_is_known_or_right_after_another_one() -> None:
    reference = np.array([[0, 1], [1, -1], [0, 0]])

    def first(*walk: Move) -> int:
        counted = first_deviations(reference, [Trajectory.of_moves(walk[0][1], walk)], 3)
        assert counted.sum() == 1
        return int(counted.argmax())

    assert first((0, 0, 0, 0), (1, 0, 1, 1), (2, 1, 0, 0)) == 3
    assert first((0, 0, 0, 1), (1, 1, 1, 1), (2, 1, 0, 0)) == 1
    assert first((0, 0, 1, 0), (1, 0, 1, 1), (2, 1, 0, 0)) == 1
    assert first((0, 0, 0, 0), (1, 0, 1, 1), (2, 1, 1, 0)) == 3
    assert first((0, 2, 0, 0)) == 0  # a state met only in this episode
    assert first_deviations(None, [Trajectory.of_moves(0, ((0, 0, 0, 0),))], 3).sum() == 0  # nothing was reference


@pytest.mark.parametrize("episodes", [WALKED_EPISODES, 100_000])
def test_first_deviations_of_walked_and_of_drawn_episodes_have_the_exact_law(episodes: int) -> None:
    problem, rng = make("double-chain", 0), np.random.default_rng(1)
    reference = np.where(rng.random(problem.mdp.shape[:2]) < 0.1, -1, problem.expert.argmax(axis=2))
    policy = 0.9 * problem.expert + 0.1 / problem.mdp.n_actions
    times = max(1, 20_000 // episodes)
    environment = Simulator(problem.mdp)
    deviated = np.zeros(problem.mdp.horizon + 1, dtype=np.int64)
    for _ in range(times):
        counted = environment.rollout(policy, episodes, rng, reference).first_deviations
        assert counted is not None
        deviated += counted
    law = _deviation_law(problem.mdp, policy, reference)
    total = episodes * times
    assert deviated.sum() == total
    tails = [min(binom.cdf(n, total, p), binom.sf(n - 1, total, p)) for n, p in zip(deviated, law, strict=True)]
    assert min(tails) > 1e-8


def _deviation_law(mdp: MDP, policy: FloatArray, reference: IntArray) -> FloatArray:
    """By the definition: the probability of having deviated by each step, step after step."""
    dense, here, law = mdp.transitions.dense(), mdp.initial.copy(), np.zeros(mdp.horizon + 1)
    for h in range(mdp.horizon):
        law[h] += here[reference[h] < 0].sum()
        here = np.where(reference[h] < 0, 0.0, here)
        meant = np.maximum(reference[h], 0)
        right = policy[h, np.arange(mdp.n_states), meant]
        law[h + 1] += (here * (1 - right)).sum()
        here = (here * right) @ dense[np.arange(mdp.n_states), meant]
    law[-1] += here.sum()
    return law


def _advice(mdp: MDP) -> Plan:
    """Follow the expert everywhere."""
    return Plan(policy=np.full(mdp.shape, 1 / mdp.n_actions), follow=np.ones(mdp.shape[:2], dtype=bool))


def test_stepping_and_drawing_give_the_same_evidence() -> None:
    problem = make("gridworld", 3)
    table = PolicyExpert(problem.expert, problem.mdp.shape)
    stepping = FunctionExpert(lambda h, s: int(problem.expert[h, s].argmax()))
    environment, advice = Simulator(problem.mdp), _advice(problem.mdp)
    before = collected(environment, table, advice, 20, Counts.empty(problem.mdp.shape), np.random.default_rng(0)).counts
    reference = watched_actions(ExpertKind(), before)
    assert reference is not None
    law = _deviation_law(problem.mdp, problem.expert, reference)
    assert 0.1 < law[-1] < 0.9
    for expert in (table, stepping):
        deviated = collected(environment, expert, advice, 2000, before, np.random.default_rng(1)).first_deviations
        tails = [min(binom.cdf(n, 2000, p), binom.sf(n - 1, 2000, p)) for n, p in zip(deviated, law, strict=True)]
        assert min(tails) > 1e-8


# Wagers.

LOSSES = np.array([1.0, 0.75, 0.5, 0.25, 0.0])


@given(
    st.lists(st.floats(0.001, 1), min_size=4, max_size=12),
    st.sampled_from([float(stake) for stake in STAKES]),
    st.floats(0.01, 0.9),
)
def test_a_wager_against_a_true_claim_gains_nothing_on_average(
    weights: list[float], stake: float, share: float
) -> None:
    law = np.array(weights) / np.sum(weights)
    losses = np.linspace(1, 0, len(law))
    level = share * float(law @ losses)
    higher = np.array([level, min(0.99, 1.1 * level)])
    gains = np.exp(log_factors(stake, losses, higher))
    assert law @ gains[:, 0] <= 1 + 1e-12
    assert (gains[:, 1] >= gains[:, 0] - 1e-12).all()


def test_without_a_stake_nothing_is_won_or_lost_but_claims_that_cannot_hold_any_more_are_refuted() -> None:
    process, nobody = EProcess.started(0.1), np.array([3, 0, 5])
    for largest in (1.0, 1.0, 0.3):  # what can be lost only falls
        losses = np.array([largest, largest / 2, 0.0])
        after = process.after(Wager(0.0), BatchOutcome(nobody, losses))
        refuted = process.levels >= largest
        np.testing.assert_array_equal(after.now, np.where(refuted, np.inf, 0.0))
        np.testing.assert_array_equal(after.peak, after.now)
        process = after


def test_episodes_that_lose_nothing_certify_after_as_many_as_the_logarithm_says() -> None:
    process, wager = EProcess.started(0.1), Wager(0.98)
    assert process.certified(0.1) == 1.0
    nothing_lost = BatchOutcome(np.array([0, 0, 0, 0, 1]), LOSSES)
    needed = int(np.ceil(np.log(10) / np.log(0.02 + 0.98 / 0.9)))
    for _ in range(needed - 1):
        process = process.after(wager, nothing_lost)
    assert process.certified(0.1) > 0.1
    process = process.after(wager, nothing_lost)
    assert process.certified(0.1) == 0.1
    lost_again = process.after(wager, BatchOutcome(np.array([5, 0, 0, 0, 0]), LOSSES))
    assert lost_again.now.max() < process.now.max()
    assert lost_again.certified(0.1) == 0.1


def test_a_forecast_far_above_the_target_is_made_again_when_there_are_more_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was not looked at would not have been wagered on: without waiting, the run is the same."""
    problem = make("garnet", 0, n_states=60, branching=20, horizon=3)
    made: list[int] = []

    def learned(look_again: float) -> list[Turn]:
        made.clear()
        monkeypatch.setattr("aceirl.certificates.policy.LOOK_AGAIN", look_again)
        settings = Settings(strategy="advice", epsilon=0.01, max_samples=9_000, irl="feasible-point")
        return list(
            learn(Simulator(problem.mdp, hide_start=True), PolicyExpert(problem.expert, problem.mdp.shape), settings)
        )

    def counted(estimate: Estimate, *arguments: Any) -> Forecast:
        made.append(estimate.counts.samples)
        return forecast(estimate, *arguments)

    monkeypatch.setattr("aceirl.certificates.policy.forecast", counted)
    waited = learned(LOOK_AGAIN)
    looked = made.copy()
    always = learned(1.0)
    assert [turn.record.certificates for turn in waited] == [turn.record.certificates for turn in always]
    first, second = (run[-1].belief.evidence["policy"] for run in (waited, always))
    for name in ("now", "peak"):
        np.testing.assert_array_equal(first[name], second[name])
    assert first["peak"].max() > 0, "something was wagered in the end"
    assert waited[-1].record.stopped == "certificate"
    assert len(made) == len(always)
    assert len(looked) < len(made) - 50


def test_each_first_action_has_an_e_process_of_its_own() -> None:
    target, wager, nothing_lost = Target(0.4, 0.1, 1.0), Wager(0.98), BatchOutcome(np.array([0, 0, 0, 0, 100]), LOSSES)
    memory = Criterion().update({}, wager, Plan(first_action=2), nothing_lost, target)
    assert {name.partition(".")[0] for name in memory} == {"2"}
    again = Criterion().update(memory, wager, Plan(first_action=0), nothing_lost, target)
    assert {name.partition(".")[0] for name in again} == {"0", "2"}
    for name, array in memory.items():
        np.testing.assert_array_equal(again[name], array)


def test_the_forecast_knows_the_way_once_the_actions_are_known() -> None:
    problem = make("double-chain", 0)
    expert, rng = PolicyExpert(problem.expert, problem.mdp.shape), np.random.default_rng(0)
    counts = Counts.empty(problem.mdp.shape)
    advice, target = _advice(problem.mdp), Target(1.0, 0.1, 1.0)
    nothing = watched_actions(ExpertKind(), counts)
    assert nothing is not None
    blank = Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=problem.mdp.initial)
    assert forecast(blank, nothing, target).law[0] == pytest.approx(1)
    counts = collected(Simulator(problem.mdp), expert, advice, 100_000, counts, rng).counts
    known = watched_actions(ExpertKind(), counts)
    assert known is not None
    estimate = Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=problem.mdp.initial)
    expected = forecast(estimate, known, target)
    assert expected.law.sum() == pytest.approx(1)
    assert expected.law[-1] > 0.99
    assert expected.losses[:2] == pytest.approx(1 - 1 / problem.mdp.horizon)


def test_what_is_new_is_told_by_episodes_and_not_by_visits() -> None:
    """Every episode goes back and forth between the first state and one that no other episode meets."""
    target, shape, episodes = Target(0.6, 0.1, 1.0), (6, 11, 1), 10
    walks = [[(h, *((0, 0, i) if h % 2 == 0 else (i, 0, 0))) for h in range(6)] for i in range(1, episodes + 1)]
    counts = Counts.of_walks([0] * episodes, walks, shape, stationary=True)
    assert counts.met.tolist() == [episodes] + [1] * 10
    known = np.zeros(shape[:2], dtype=np.int64)

    def law(counts: Counts, possible: float) -> FloatArray:
        estimate = Estimate.of(counts, kind=ExpertKind(), delta=0.1, possible_states=possible)
        return forecast(estimate, known, target).law

    unmet = 1 / (episodes + 1)  # one more new state is expected, at any step
    found = law(counts, np.inf)
    assert found[1] == pytest.approx(1 - unmet + unmet / 6), "the second state of an episode was never met before"
    assert found.sum() == pytest.approx(1)
    assert law(counts, 11)[-1] == pytest.approx(1), "unless there is no other"
    # Had the episodes met one another's states, all would be known but what single moves leave open.
    mixed = replace(counts, met=np.full(11, 2))
    assert law(mixed, np.inf)[-1] == pytest.approx(1 - unmet)


def test_a_new_successor_of_a_row_need_not_be_a_new_state() -> None:
    """From each of five states to each other, once; every state was met in many episodes."""
    target, shape = Target(0.3, 0.1, 1.0), (3, 5, 1)
    pairs = [(s, n) for s in range(5) for n in range(5)]
    walks = [[(0, s, 0, n), (1, n, 0, 0)] for s, n in pairs]
    counts = Counts.of_walks([s for s, _ in pairs], walks, shape, stationary=True)
    known = np.zeros(shape[:2], dtype=np.int64)
    estimate = Estimate.of(counts, kind=ExpertKind(), delta=0.1, possible_states=np.inf)
    expected = forecast(estimate, known, target)
    assert expected.law.sum() == pytest.approx(1)
    assert expected.law[-1] == pytest.approx(1 - 1 / 26), "but for one that is expected after 25 episodes"


# The loop.


def _task(name: str, seed: int = 0) -> tuple[Simulator, PolicyExpert, Truth]:
    problem = make(name, seed)
    return (
        Simulator(problem.mdp),
        PolicyExpert(problem.expert, problem.mdp.shape),
        Truth(problem.mdp, problem.reward),
    )


def test_following_the_expert_certifies_the_policy_and_wandering_does_not() -> None:
    environment, expert, truth = _task("chain")
    settings = Settings(irl="feasible-point", max_samples=3000)
    *_, last = learn(environment, expert, settings)
    assert last.record.stopped == "certificate"
    assert last.record.certificates["policy"] <= 1.0
    assert truth.best - truth.value(last.policy) <= 1.0
    wandering = Settings(strategy="random", irl="feasible-point", max_samples=3000)
    *_, last = learn(environment, expert, wandering)
    assert last.record.stopped == "budget"
    assert last.record.certificates["policy"] > 1.0


@pytest.mark.parametrize("epsilon", [0.7, 1.1, 1.3, 2.3])
def test_the_accuracy_asked_for_is_met_whatever_its_rounding(epsilon: float) -> None:
    environment, expert, _ = _task("chain")
    *_, last = learn(
        environment,
        expert,
        Settings(strategy="advice", irl="feasible-point", epsilon=epsilon, rmax=0.3, max_samples=5000),
    )
    assert last.record.stopped == "certificate"
    assert epsilon / 2 < last.record.certificates["policy"] <= epsilon * (1 + 1e-12)


def test_batches_certify_too() -> None:
    environment, expert, _ = _task("four-paths")
    settings = Settings(irl="feasible-point", episodes_per_iteration=50, max_samples=20_000)
    *_, last = learn(environment, expert, settings)
    assert last.record.stopped == "certificate"
    assert last.record.samples <= 6000


def test_the_criterion_is_certified_for_every_first_action_at_less_than_twice_their_number_of_times_the_price() -> None:
    environment, expert, _ = _task("gridworld")
    samples = {}
    for kind in ("policy", "criterion"):
        settings = Settings(irl="feasible-point", certify=kind, max_samples=30_000)
        *_, last = learn(environment, expert, settings)
        assert last.record.stopped == "certificate"
        samples[kind] = last.record.samples
    first_actions = last.counts.visits[0].sum(axis=0)
    assert (first_actions > 0).all()
    assert {name.partition(".")[0] for name in last.belief.evidence["criterion"]} == {*"0123", "imputed"}
    assert last.record.certificates["criterion"] <= 0.1 * environment.horizon * (1 + 1e-12)
    assert samples["criterion"] <= 2 * 4 * samples["policy"]


def test_a_stochastic_expert_gets_no_policy_certificate() -> None:
    problem = make("chain", 0)
    drawn = PolicyExpert(0.9 * problem.expert + 0.01, problem.mdp.shape)
    with pytest.raises(InputError, match="certify is 'policy', which needs an expert who always gives the same answer"):
        next(learn(Simulator(problem.mdp), drawn, Settings()))
    *_, last = learn(Simulator(problem.mdp), drawn, Settings(irl="feasible-point", certify="set", max_samples=600))
    assert last.record.certificates["policy"] == problem.mdp.horizon


def test_a_reward_that_prefers_one_of_the_experts_actions_is_that_far_from_its_match() -> None:
    """One state, one step: an expert who uses both actions is explained by equal rewards alone.

    A reward that differs calls policies good that it values up to epsilon less than its match does.
    """
    mdp = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=1)
    expert = PolicyExpert(np.array([[[0.7, 0.3]]]), mdp.shape)
    asked = {"certify": "reward", "epsilon": 0.5, "least_probability": 0.3, "max_samples": 2000}
    *_, last = learn(Simulator(mdp), expert, Settings(irl="max-causal-entropy", reward="any", **asked))
    assert np.ptp(last.belief.recovered.reward) > 0.5
    assert last.record.certificates["reward"] == pytest.approx(0.5)
    *_, last = learn(Simulator(mdp), expert, Settings(**asked))
    assert np.ptp(last.belief.recovered.reward) == 0, "a reward that repeats the answers has no favourite among them"
    assert last.record.certificates["reward"] == pytest.approx(0.0)


def test_a_first_action_that_was_imposed_is_not_the_experts_answer() -> None:
    problem = make("chain", 0)
    policy = np.full(problem.mdp.shape, 0.1)
    policy[0] = np.eye(problem.mdp.n_actions)[3]
    expert = PolicyExpert(policy, problem.mdp.shape)
    everywhere = np.ones(problem.mdp.shape[:2], dtype=np.bool_)
    plan = Plan(policy=policy, follow=everywhere, first_action=7)
    empty = Counts.empty(problem.mdp.shape)
    seen = collected(Simulator(problem.mdp), expert, plan, 500, empty, np.random.default_rng(0)).counts
    assert seen.visits[0, :, 7].sum() == seen.answers[0, :, 3].sum() == 500
    np.testing.assert_array_equal(seen.answers[1:], seen.visits[1:])


def test_a_run_goes_on_with_the_same_evidence(tmp_path: Path) -> None:
    environment, expert, _ = _task("gridworld")
    settings = Settings(irl="feasible-point", max_samples=400, seed=4)
    *_, whole = learn(environment, expert, settings)
    run = Run.create(tmp_path / "run", settings)
    for turn in run.resume(environment, expert):
        if turn.record.iteration == 15:
            break
    *_, last = Run.open(tmp_path / "run").resume(environment, expert)
    expected, found = whole.state.evidence["policy"], last.state.evidence["policy"]
    assert set(found) == set(expected) == {"levels", "now", "peak", "imputed"}
    for name, array in expected.items():
        assert np.array_equal(found[name], array)


def test_what_is_left_of_the_criterion_lies_behind_the_first_action_that_is_certified_least() -> None:
    rows = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    environment = Simulator(MDP.from_dense(rows, initial=0, horizon=4))
    expert = FunctionExpert(lambda step, state: 0 if state == 0 else None)  # nothing to say about state 1
    settings = Settings(certify="criterion", irl="feasible-point", max_samples=400)
    *_, last = learn(environment, expert, settings)
    promise = last.certificate("criterion")
    assert promise.entry == (1, 1)
    assert promise.weight == pytest.approx(3.0)  # what is left of an episode after its first step
    due = "The largest part of it, about 3, is due to step 2, {}."
    assert due.format("the cellar") in promise.in_words(("the hall", "the cellar"))
    assert due.format("state 1") in promise.in_words()
    assert promise.more_samples is None  # no number of samples will make the expert speak
    assert last.certificate("policy").entry is None


def test_an_unknown_kind_is_named_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match=r"unknown certificate 'polcy'; did you mean 'policy'\?"):
        Settings(certify="polcy")


def test_a_certificate_explains_itself() -> None:
    environment, expert, _ = _task("gridworld")
    settings = Settings(irl="feasible-point", max_samples=100)
    *_, last = learn(environment, expert, settings)
    early = last.certificate("policy")
    assert not early.holds
    assert "Not certified yet" in early.in_words()
    assert "The largest part of it, about " in early.in_words()
    assert "depends on the state and the step only" in early.in_words()
    settings = Settings(irl="feasible-point", max_samples=5000)
    *_, last = learn(environment, expert, settings)
    done = last.certificate("policy")
    assert done.holds
    assert done.value == last.record.certificates["policy"]
    assert "90 % confidence" in done.in_words()
    paper = Settings(irl="feasible-point", confidence="hoeffding")
    again = Engine(environment, answers_of(expert, paper), paper, state=last.state).last_turn
    assert "These radii guarantee nothing" in again.certificate("set").in_words()


# What the bounds promise, for any two problems: no statistics, radii that hold exactly.


def _two_problems(seed: int, discount: float) -> tuple[Case, Estimate, Radii, np.random.Generator]:
    """A true case, an estimate of it from a few episodes, and the smallest radii that cover the difference."""
    rng = np.random.default_rng(seed)
    case = list(CASES.values())[seed % len(CASES)](rng, 0.1)
    case = replace(case, mdp=replace(case.mdp, discount=discount))
    *_, counts = (counts for counts, _ in zip(study.explored(case, rng), range(1 + seed % 3), strict=False))
    known = study.estimate(case, counts)
    truth, guess = case.rows, known.mdp.transitions.dense()
    shape = case.mdp.shape
    met = known.row_visits[0] > 0
    distance = np.where(met, np.abs(truth - guess).sum(axis=2) / 2, 1.0)
    missing = np.where(met, np.where(guess > 0, 0.0, truth).sum(axis=2), 1.0)
    divergence = np.where(met, rel_entr(guess, np.where(guess > 0, truth, 0.0)).sum(axis=2), np.inf)
    ceiling = trivial_bound(shape[0], 1.0, discount)
    radii = Radii(
        transition=steps_after(shape[0], discount)[:, None, None] * distance,
        expert=np.where(known.expert_known, 0.0, ceiling[:, None]),
        start=ceiling[0] * float(np.abs(case.mdp.initial - known.mdp.initial).sum() / 2),
        ceiling=ceiling,
        tv_radius=np.broadcast_to(distance, shape),
        unseen_mass=np.broadcast_to(missing, shape),
        divergence=np.broadcast_to(divergence, shape),
        guaranteed=True,
    )
    return case, known, radii, rng


@pytest.mark.parametrize(("seed", "discount"), [*((k, 1.0) for k in range(96)), *((k, 0.6) for k in range(48))])
def test_every_promise_follows_from_its_radii(seed: int, discount: float) -> None:
    case, known, radii, rng = _two_problems(seed, discount)
    shape = known.mdp.shape
    recovered = study.recovered_reward(known, rng)
    belief = study.belief_of(known, lambda *_: radii, recovered)
    target = MDP.from_dense(rng.dirichlet(np.ones(shape[1]), shape[1:]), initial=0, horizon=shape[0], discount=discount)
    assert study.set_gap(case, known, rng) <= RewardSet().value(belief) + 1e-9
    assert study.dynamics_regret(case, known, rng) <= Dynamics().value(belief) + 1e-9
    assert study.reward_gap(case, known, recovered, belief.target.epsilon, rng) <= Reward().value(belief) + 1e-9
    promised = transfer_certificate(belief, target).value
    assert study.transfer_regret(case, known, recovered, target) <= promised + 1e-9


def test_the_set_promise_is_not_loose_by_a_constant() -> None:
    """One action that matters, one row that is off: the two values differ by all that EB1 allows."""
    rows = np.zeros((3, 2, 3))
    rows[0, :] = [0, 0.5, 0.5]
    rows[1:, :, 1:] = np.eye(2)[:, None]
    truth = MDP.from_dense(rows, initial=0, horizon=2)
    rows[0, :] = [0, 0.7, 0.3]
    guess = MDP.from_dense(rows, initial=0, horizon=2)
    advantage = np.zeros((2, 3, 2))
    advantage[1, 1, 1] = 1.0
    policy = np.eye(2)[np.array([[0, 0, 0], [0, 1, 0]])]
    lost = [evaluate(mdp, advantage, policy)[1][0, 0] for mdp in (truth, guess)]
    ceiling = trivial_bound(2, 1.0)
    tv_radius = np.zeros((2, 3, 2))
    tv_radius[:, 0] = 0.2
    transition = np.array([1.0, 0.0])[:, None, None] * tv_radius
    nothing = np.zeros((2, 3, 2))
    radii = Radii(transition, nothing[:, :, 0], 0.0, ceiling, tv_radius, nothing, divergence=nothing, guaranteed=True)
    columns = np.array([[0, 0, 0, 1, 7], [0, 0, 0, 2, 3], [1, 1, 1, 1, 1], [1, 2, 1, 2, 1]]).T
    moves = Moves(columns[0], columns[1], columns[2], columns[3], columns[4], starts=np.array([10, 0, 0]))
    known = Estimate.of(Counts.of_moves(moves, (2, 3, 2)), kind=ExpertKind(), delta=0.1, initial=truth.initial)
    assert abs(lost[0] - lost[1]) == pytest.approx(RewardSet().value(study.belief_of(known, lambda *_: radii)))


def test_the_worst_reward_makes_the_policy_certificate_tight() -> None:
    """Where the expert is unknown anything may be lost: `E[Z]` is the regret of the worst policy under some reward."""
    case = rare_branch_case(np.random.default_rng(0))
    reference = case.actions.copy()
    reference[1:, 2:] = -1
    other = np.where(reference < 0, 1 - case.actions, reference)
    expert, policy = (occupancy(case.mdp, np.eye(2)[actions]) for actions in (case.actions, other))
    reward = (expert > policy).astype(np.float64)
    values = [
        case.mdp.initial @ evaluate(case.mdp, reward, np.eye(2)[actions])[1][0] for actions in (case.actions, other)
    ]
    regret = study.worst_regret(case, other)
    assert values[0] - values[1] == pytest.approx(regret)
    assert regret == pytest.approx(case.mdp.horizon * study.lost_share(case, reference))


# Coverage, in small; the tables in docs/certificates.md come from benchmarks/soundness.py.


@pytest.mark.parametrize("way", study.WAYS, ids=lambda way: f"{way.kind}, {way}")
def test_promises_of_the_loop_are_rarely_broken(way: study.Way) -> None:
    """On two of the cases each way has; no way is one that never promises anything."""
    runs, certified = 8, 0
    tally: dict[study.Promise, int] = {}
    for name in sorted(way.only & {"rare branch", "combination lock", "early endings"})[:2]:
        for rng in np.random.default_rng(7).spawn(runs):
            outcome, stopped = study.loop_run(CASES[name](rng, way.share), way, int(rng.integers(2**62)))
            certified += stopped == "certificate"
            for promise, state in outcome.items():
                tally[promise] = tally.get(promise, 0) + bool(state)
    assert certified >= runs
    for promise, broken in tally.items():
        assert broken <= binom.isf(1e-7, 2 * runs, promise.delta), promise


def test_promises_made_of_radii_are_rarely_broken() -> None:
    runs = 2
    tally: dict[study.Promise, list[bool | None]] = {}
    for draw in CASES.values():
        for rng in np.random.default_rng(8).spawn(runs):
            for promise, broken in study.radii_run(draw(rng, 0.1), rng).items():
                tally.setdefault(promise, []).append(broken)
    for promise, found in tally.items():
        assert sum(map(bool, found)) <= binom.isf(1e-7, len(found), promise.delta), promise
        assert found.count(None) < len(found) / 2, promise


def test_a_policy_that_breaks_its_promise_is_found_out() -> None:
    """The study sees what it is there to see: promises of half of what is lost, and radii of half the width."""
    case = rare_branch_case(np.random.default_rng(0))
    reference = np.where(np.arange(4) < 2, case.actions, -1)
    lost = case.mdp.horizon * study.lost_share(case, reference)
    promise = study.Promise("policy", "", 0.1)
    outcome: study.Outcome = {promise: None}
    study.looked(outcome, promise, lost, case.mdp.horizon, case.mdp.horizon)
    assert outcome[promise] is None
    study.looked(outcome, promise, lost, 1.01 * lost, case.mdp.horizon)
    assert outcome[promise] is False
    study.looked(outcome, promise, lost, lost / 2, case.mdp.horizon)
    study.looked(outcome, promise, lost, 2 * lost, case.mdp.horizon)
    assert outcome[promise] is True, "broken once is broken"
    case, known, radii, _ = _two_problems(0, 1.0)
    assert not study.event_broken(case, known, radii)
    assert study.event_broken(case, known, replace(radii, tv_radius=radii.tv_radius / 2))


def test_states_that_are_numbered_as_they_are_met_are_the_same_case() -> None:
    """The numbers change nothing of the truth, and only what was never met is missing from what is known."""
    rng = np.random.default_rng(3)
    case = CASES["growing"](rng, 0.1)
    counts = next(study.explored(case, rng))
    true, met = study.as_numbered(case, counts)
    assert met.shape[1] < case.mdp.n_states
    assert study.worst_regret(true, 1 - true.actions) == pytest.approx(study.worst_regret(case, 1 - case.actions))
    assert met.samples == counts.samples > 0
    known, whole = study.estimate(true, met.grown(case.mdp.n_states)), study.estimate(case, counts)
    agrees = (np.eye(2)[true.actions] * known.counts.answers).sum()
    assert agrees == known.counts.questions == whole.counts.questions
    distances = [np.abs(one.mdp.transitions.dense() - of.rows).sum() for one, of in ((known, true), (whole, case))]
    assert distances[0] == pytest.approx(distances[1])


def test_tallies_count_any_study_of_promises() -> None:
    """Every third run broken, every other one promising nothing: no more than half the time is fine, a tenth is not."""
    found = {tally.promise.delta: tally for tally in study.tallies({"thirds": _every_third}, 300)}
    for tally in found.values():
        assert (tally.case, tally.runs, tally.made, tally.broken) == ("thirds", 300, 200, 100)
    assert found[0.5].passes
    assert not found[0.1].passes


def _every_third(seed: int) -> study.Outcome:
    state = (True, False, None)[seed % 3]
    return {study.Promise("policy", "here", delta): state for delta in study.DELTAS}


def test_the_literal_criterion_holds_where_the_dynamics_are_not_known_at_all() -> None:
    """The worked example of docs/certificates.md: the criterion holds, the set of rewards is anyone's guess."""
    rows = np.array([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    mdp = MDP.from_dense(rows, initial=0, horizon=3)
    expert = PolicyExpert(np.zeros((3, 2), dtype=int), mdp.shape)
    settings = Settings(
        strategy="advice", irl="feasible-point", certify="criterion", confidence="adaptive", max_samples=2000
    )
    *_, last = learn(Simulator(mdp), expert, settings)
    assert last.record.stopped == "certificate"
    assert last.record.samples < 400
    assert last.counts.visits[1:, 1, 1].sum() == 0
    assert last.record.certificates["criterion"] < 0.31 < 1 <= last.record.certificates["set"]


def test_with_the_papers_radii_the_set_certificate_is_the_papers_rule() -> None:
    """(SP1): four times (EB1), which is all there is at first, so no policy is implausible yet."""
    environment, expert, _ = _task("gridworld")
    turn = next(learn(environment, expert, Settings(confidence="hoeffding", certify="set")))
    assert turn.record.certificates["set"] == pytest.approx(4 * turn.record.bound)


def test_a_reward_of_states_is_not_lost_where_the_episodes_part() -> None:
    """Said of the space, and only of it: `auto` may find the same space and promises as before."""
    environment, expert, _ = _task("gridworld")
    assumed = {}
    for reward in ("state", "auto"):
        settings = Settings(reward=reward, max_samples=20)
        *_, last = learn(environment, expert, settings)
        assumed[reward] = "a reward depends on the state alone" in last.certificate("policy").in_words()
        horizon = environment.horizon
        lost = last.belief.target.losses(horizon) * horizon
        np.testing.assert_allclose(
            lost[:2], [horizon - 1, horizon - 2] if reward == "state" else [horizon, horizon - 1]
        )
    assert assumed == {"state": True, "auto": False}
