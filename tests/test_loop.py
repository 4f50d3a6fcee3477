"""The loop: one record a turn, the same run from the same seed, and no way for the truth to get in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from comparisons import assert_same, timeless

from aceirl.envs import Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import AnswerError, InputError
from aceirl.experts import FunctionExpert, PolicyExpert
from aceirl.irl.belief import Belief, Plan
from aceirl.learner.collect import Streams
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import RunState, Turn, last_measured
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.models.tabular.metrics import Threshold, Truth, samples_to_threshold
from aceirl.rewards import Recovered, RewardSpace, StateReward


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make("double-chain", seed=0, length=7, horizon=6)


def turns(problem: Problem, state: RunState | None = None, regret: Any = None, **settings: Any) -> list[Turn]:
    """A short run; nothing stops it early unless the settings say so."""
    chosen = Settings(**{"max_samples": 30, "epsilon": 1e-9, **settings})
    simulator = Simulator(problem.mdp, hide_start=True)
    return list(learn(simulator, PolicyExpert(problem.expert, problem.mdp.shape), chosen, state=state, regret=regret))


@pytest.mark.parametrize("strategy", ["random", "greedy", "advice", "uniform"])
def test_each_turn_is_one_record_and_adds_its_samples(problem: Problem, strategy: str) -> None:
    run = turns(problem, strategy=strategy, episodes_per_iteration=2, max_samples=40)
    assert [turn.record.iteration for turn in run] == [1, 2, 3, 4]
    assert [turn.record.samples for turn in run] == [12, 24, 36, 48]
    assert [turn.record.episodes for turn in run] == [2, 4, 6, 8]
    assert [turn.record.stopped for turn in run] == [None, None, None, "budget"]
    for turn in run:
        record, state = turn.record, turn.state
        assert state.counts.samples == record.samples
        assert state.counts.questions == record.answers
        assert record.regret is None
        assert record.bound >= 0
        assert min(record.planning_seconds, record.inferring_seconds) >= 0
        assert 0 <= state.recovered.reward.min() <= state.recovered.reward.max() <= 1
    answers = [turn.record.answers for turn in run]
    assert answers == sorted(answers)


def test_the_loop_waits_for_whoever_reads_it(problem: Problem) -> None:
    asked = []

    def expert(step: int, state: int) -> int:
        asked.append((step, state))
        return 1

    run = learn(Simulator(problem.mdp), FunctionExpert(expert), Settings(epsilon=1e-9))
    assert isinstance(run, Iterator)
    assert not asked
    next(run)
    assert 0 < len(asked) <= problem.mdp.horizon


@pytest.mark.parametrize("strategy", ["random", "greedy", "advice", "uniform"])
@pytest.mark.parametrize("irl", ["max-causal-entropy", "feasible-point"])
def test_the_same_seed_gives_the_same_run_and_another_seed_another(problem: Problem, strategy: str, irl: str) -> None:
    first, second, other = (turns(problem, strategy=strategy, irl=irl, seed=seed) for seed in (3, 3, 4))
    assert_same(first, second)
    assert any((a.state.counts.visits != b.state.counts.visits).any() for a, b in zip(first, other, strict=False))


@pytest.mark.parametrize(
    "settings", [{}, {"strategy": "greedy", "stationary_dynamics": False, "confidence": "hoeffding"}]
)
def test_a_run_goes_on_from_any_of_its_states_as_if_nothing_had_happened(
    problem: Problem, settings: dict[str, Any]
) -> None:
    whole = turns(problem, max_samples=36, **settings)
    for k, turn in enumerate(whole[:-1]):
        assert_same(turns(problem, state=turn.state, max_samples=36, **settings), whole[k + 1 :])


def test_the_streams_of_an_iteration_have_names_and_do_not_repeat() -> None:
    names = ("strategy", "environment", "ties", "actions", "answers")
    draws = {
        (seed, iteration, name): tuple(rng.random(4))
        for seed in (0, 1)
        for iteration in (0, 1)
        for name, rng in ((name, getattr(Streams(seed, iteration), name)) for name in names)
    }
    assert len(set(draws.values())) == len(draws) == 20
    children = np.random.SeedSequence(1, spawn_key=(1,)).spawn(5)
    for name, child in zip(names, children, strict=True):
        assert draws[1, 1, name] == tuple(np.random.default_rng(child).random(4))


def test_a_generous_accuracy_is_certified_at_once(problem: Problem) -> None:
    for kind in ("policy", "set"):
        (turn,) = turns(problem, epsilon=1e6, certify=kind)
        assert turn.record.stopped == "certificate"
        assert turn.record.certificates[kind] <= 1e6
    assert turns(problem, epsilon=1e6, certify=None)[-1].record.stopped == "budget"


def test_a_run_stops_at_the_regret_asked_for(problem: Problem) -> None:
    truth = Truth(problem.mdp, problem.reward)
    run = turns(problem, regret=truth.regret, until_regret=0.1, max_samples=10_000)
    assert run[-1].record.stopped == "regret"
    regrets = [turn.record.regret for turn in run]
    assert regrets[-1] is not None
    assert regrets[-1] < 0.1
    assert all(regret is not None and regret >= 0.1 for regret in regrets[:-1])
    assert regrets[-1] == truth.regret(run[-1].policy)


def test_a_run_stops_at_its_budget(problem: Problem) -> None:
    run = turns(problem, max_samples=13)
    assert [turn.record.samples for turn in run] == [6, 12, 18]
    assert run[-1].record.stopped == "budget"
    assert turns(problem, max_answers=5, max_samples=10_000)[-1].record.answers == 5


def test_the_naive_strategy_misses_what_advice_reaches() -> None:
    """Double Chain, regret 0.4 within 100 samples: `random` never, `advice` always."""
    reached: dict[str, list[Threshold]] = {}
    for strategy in ("random", "advice"):
        reached[strategy] = []
        for seed in range(5):
            chain = make("double-chain", seed=seed)
            run = turns(
                chain,
                regret=Truth(chain.mdp, chain.reward).regret,
                strategy=strategy,
                until_regret=0.4,
                max_samples=100,
                seed=seed,
            )
            samples = [turn.record.samples for turn in run]
            regrets = [turn.record.regret or 0.0 for turn in run]
            reached[strategy].append(samples_to_threshold(samples, regrets, 0.4))
    assert all(result.censored and result.samples == 100 for result in reached["random"])
    assert all(not result.censored for result in reached["advice"])


class Stay:
    """A strategy of one's own: action 0, and a memory of how often it was asked."""

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        policy = np.zeros(belief.shape)
        policy[:, :, 0] = 1.0
        return Plan(policy=policy, memory={"turns": belief.memory.get("turns", np.zeros(1)) + 1}, evidence={"gap": 0.5})


def test_a_strategy_and_an_algorithm_of_one_s_own(problem: Problem) -> None:
    warm_starts: list[dict[str, FloatArray]] = []
    spaces: list[RewardSpace | None] = []

    def infer(estimate: Estimate, rmax: float, warm: Mapping[str, FloatArray], space: RewardSpace | None) -> Recovered:
        warm_starts.append(dict(warm))
        spaces.append(space)
        count = {"calls": np.array([float(len(warm_starts))])}
        return Recovered(np.zeros(estimate.mdp.shape), 0.0, 0.0, count, iterations=1, residual=0.0)

    settings = Settings(max_samples=18, epsilon=1e-9, strategy=Stay(), irl=infer)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    run = list(learn(Simulator(problem.mdp), expert, settings))
    assert run[-1].state.counts.visits[:, :, 1].sum() == 0
    assert [turn.state.memory["turns"][0] for turn in run] == [1, 2, 3]
    assert [turn.record.planner_gap for turn in run] == [0.5] * 3
    assert warm_starts == [{}, {"calls": 1.0}, {"calls": 2.0}]
    assert spaces == [None] * 3, "with the space auto, the algorithm may choose"
    told = next(learn(Simulator(problem.mdp), expert, settings.model_copy(update={"reward": StateReward()})))
    assert not told.belief.recovered.reward.any()
    assert spaces[3:] == [StateReward()], "else it is told"
    # Whatever the algorithm said, the policy does what the expert is known to do.
    known = run[-1].counts.answers.any(axis=2)
    assert known.any()
    np.testing.assert_array_equal(run[-1].policy[known], problem.expert.argmax(axis=2)[known])


def test_the_truth_reaches_the_record_and_nothing_else(problem: Problem) -> None:
    truth = Truth(problem.mdp, problem.reward)
    seen: list[IntArray] = []

    def lie(policy: IntArray) -> float:
        seen.append(policy)
        return 0.123

    without, honest, lying = (turns(problem, regret=regret) for regret in (None, truth.regret, lie))
    assert_same_but_regret(without, honest)
    assert_same_but_regret(without, lying)
    assert [turn.record.regret for turn in lying] == [0.123] * len(lying)
    assert len(seen) == len(lying)
    assert all(policy.shape == problem.mdp.shape[:2] for policy in seen)


def test_the_regret_is_measured_with_each_inference_and_at_the_end_or_always_if_it_is_to_stop_the_run(
    problem: Problem,
) -> None:
    """6, 12, ..., 60 samples; a reward is inferred when they have doubled."""
    truth = Truth(problem.mdp, problem.reward)
    asked: dict[str, Any] = {"regret": truth.regret, "max_samples": 60, "infer_after_growth": 1.0}
    run = turns(problem, **asked)
    measured = [turn.record.regret is not None for turn in run]
    assert [turn.record.samples for turn, has_it in zip(run, measured, strict=True) if has_it] == [6, 12, 24, 48, 60]
    assert all(turn.regret == truth.regret(turn.policy) for turn in run)
    assert all(turn.record.regret in (None, turn.regret) for turn in run)
    last = last_measured([turn.record for turn in run[:-1]])
    assert last is not None
    assert last.samples == 48
    always = turns(problem, until_regret=0.0, **asked)
    assert all(turn.record.regret == turn.regret for turn in always)
    assert last_measured([turn.record for turn in turns(problem)]) is None


def assert_same_but_regret(first: list[Turn], second: list[Turn]) -> None:
    for one, two in zip(first, second, strict=True):
        assert {**timeless(one), "regret": None} == {**timeless(two), "regret": None}
        np.testing.assert_array_equal(one.policy, two.policy)
        np.testing.assert_array_equal(one.state.counts.visits, two.state.counts.visits)


class Bare:
    """No more of an environment than the protocol has: whatever else the loop touched would be missing."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Simulator) -> None:
        self._inner = inner

    n_states = property(lambda self: self._inner.n_states)
    n_actions = property(lambda self: self._inner.n_actions)
    horizon = property(lambda self: self._inner.horizon)
    initial = None

    def reset(self, rng: np.random.Generator) -> int:
        return self._inner.reset(rng)

    def step(self, action: int) -> tuple[int, bool]:
        return self._inner.step(action)


def test_an_environment_of_one_s_own_needs_no_more_than_the_protocol(problem: Problem) -> None:
    settings = Settings(max_samples=30, epsilon=1e-9)
    run = list(learn(Bare(Simulator(problem.mdp)), FunctionExpert(lambda h, s: 1), settings))
    assert run[-1].record.samples == 30
    with pytest.raises(InputError, match="generative model"):
        next(learn(Bare(Simulator(problem.mdp)), FunctionExpert(lambda h, s: 1), Settings(strategy="uniform")))


@pytest.mark.parametrize("name", ["horizon", "n_states", "n_actions"])
def test_an_environment_without_size_is_named(problem: Problem, name: str) -> None:
    hollow = type("Hollow", (Bare,), {name: 0})(Simulator(problem.mdp))
    with pytest.raises(InputError, match=f"{name} is 0"):
        next(learn(hollow, FunctionExpert(lambda h, s: 0), Settings()))


def test_an_expert_that_fails_stops_the_run_and_leaves_the_last_state(problem: Problem) -> None:
    def expert(step: int, state: int) -> int:
        if len(kept) == 2:
            raise RuntimeError("gone home")
        return 1

    kept: list[Turn] = []
    run = learn(Bare(Simulator(problem.mdp)), FunctionExpert(expert, deterministic=False), Settings(certify=None))
    kept.append(next(run))
    kept.append(next(run))
    with pytest.raises(AnswerError, match="gone home"):
        next(run)
    assert [turn.record.iteration for turn in kept] == [1, 2]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"delta": 0.0}, ["delta", "0.0"]),
        ({"delta": 1.0}, ["delta", "1.0"]),
        ({"delta": float("nan")}, ["delta", "nan"]),
        ({"epsilon": -1.0}, ["epsilon", "-1.0"]),
        ({"rmax": float("inf")}, ["rmax", "inf"]),
        ({"episodes_per_iteration": 0}, ["episodes_per_iteration", "0"]),
        ({"max_samples": 0}, ["max_samples", "0"]),
        ({"until_regret": 1.5}, ["until_regret", "1.5"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"least_probability": 0.0}, ["least_probability", "0.0"]),
        ({"strategy": "gredy"}, ["strategy", "'gredy'", "'greedy'"]),
        ({"irl": "max-causal"}, ["IRL algorithm", "'max-causal'", "'max-causal-entropy'"]),
        ({"confidence": "hoefding"}, ["confidence", "'hoefding'", "'hoeffding'"]),
        ({"max_sample": 5}, ["setting", "'max_sample'", "'max_samples'"]),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        Settings(**settings)
    message = str(caught.value)
    assert all(part in message for part in named), message
    assert "\n" not in message


def test_samples_to_a_threshold_are_censored_never_dropped() -> None:
    hit = samples_to_threshold([10, 20, 30], [0.9, 0.3, 0.5], 0.4)
    assert (hit.samples, hit.censored) == (20, False)
    miss = samples_to_threshold([10, 20, 30], [0.9, 0.4, 0.5], 0.4)
    assert (miss.samples, miss.censored) == (30, True)
    assert samples_to_threshold([], [], 0.4).censored
