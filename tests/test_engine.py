"""Ask and tell: whoever answers drives the same learner, and whoever looks on changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from comparisons import assert_same, assert_same_arrays, timeless

from aceirl.certificates import KINDS, BatchOutcome, Certificate, CertificateKind, Wager
from aceirl.envs import Problem, make
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.envs.simulator import Simulator
from aceirl.errors import AnswerError, InputError
from aceirl.experts import FunctionExpert, PolicyExpert
from aceirl.irl.belief import Belief, Memory, Plan, Target
from aceirl.learner.collect import Answers, Reply
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of, learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import RunState, Turn
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.models.tabular.metrics import Truth
from aceirl.protocols import Question
from aceirl.rewards import Recovered, RewardSpace
from aceirl.runs import Run


@pytest.fixture(scope="module")
def problem() -> Problem:
    return make("double-chain", seed=0, length=7, horizon=6)


def begun(problem: Problem, state: RunState | None = None, *, stationary: bool = False, **settings: Any) -> Engine:
    """An engine whose expert is asked, question by question."""
    chosen = Settings(**{"max_samples": 60, "epsilon": 1e-9, **settings})
    kind = ExpertKind(stationary=stationary)
    return Engine(Simulator(problem.mdp, hide_start=True), Answers(kind), chosen, state=state)


def asked(engine: Engine) -> Question:
    """The next question, of which there must be one."""
    question = engine.ask()
    assert isinstance(question, Question)
    return question


def played(engine: Engine, reply: Callable[[Question], int | Reply]) -> Turn:
    """One turn, every question of it replied to."""
    while isinstance(step := engine.ask(), Question):
        engine.tell(reply(step))
    return step


def test_asked_again_before_it_is_told_it_asks_the_same(problem: Problem) -> None:
    engine = begun(problem)
    first = asked(engine)
    assert engine.ask() is first
    engine.tell(0)
    second = asked(engine)
    assert (second.step, second.state) != (first.step, first.state)
    assert engine.ask() is second


def test_a_question_says_how_the_episode_got_there(problem: Problem) -> None:
    engine = begun(problem, strategy="random", episodes_per_iteration=4)
    while isinstance(question := engine.ask(), Question):
        assert len(question.walk) == question.step
        assert [move[0] for move in question.walk] == list(range(question.step))
        assert all(one[3] == two[1] for one, two in zip(question.walk, question.walk[1:], strict=False))
        assert not question.walk or question.walk[-1][3] == question.state
        engine.tell(1)


def test_there_is_nothing_to_tell_where_nothing_was_asked(problem: Problem) -> None:
    engine = begun(problem)
    with pytest.raises(InputError, match="nothing was asked"):
        engine.tell(0)
    played(engine, lambda question: 1)
    with pytest.raises(InputError, match="nothing was asked"):
        engine.tell(0)


@pytest.mark.parametrize("answer", [-1, 2, 1.0, "left", True, None])
def test_an_answer_that_is_no_action_is_refused_and_the_question_stays_open(problem: Problem, answer: Any) -> None:
    engine = begun(problem)
    question = asked(engine)
    with pytest.raises(AnswerError) as caught:
        engine.tell(answer)
    named = f"answered {answer!r} in state {question.state} at step {question.step}; actions are 0 to 1"
    assert named in str(caught.value)
    assert engine.ask() is question
    whole_number: Any = np.int64(1)
    engine.tell(whole_number)
    assert asked(engine) is not question


@pytest.mark.parametrize("stationary", [True, False])
def test_what_was_skipped_is_not_asked_again_in_the_batch_and_counts_as_nothing(
    problem: Problem, stationary: bool
) -> None:
    engine = begun(problem, stationary=stationary, strategy="random", episodes_per_iteration=6)
    batches = []
    for _ in range(2):
        questions: list[tuple[int, int]] = []

        def skip(question: Question, questions: list[tuple[int, int]] = questions) -> Reply:
            questions.append((0 if stationary else question.step, question.state))
            return Reply.SKIP

        turn = played(engine, skip)
        assert len(questions) == len(set(questions)) > 1
        batches.append(set(questions))
    assert turn.counts.questions == 0
    assert turn.counts.samples == 2 * 6 * problem.mdp.horizon
    assert batches[0] & batches[1], "the next batch asks about it again"


def test_a_stochastic_expert_who_skips_is_asked_at_the_next_visit(problem: Problem) -> None:
    settings = Settings(strategy="random", certify=None, episodes_per_iteration=6)
    engine = Engine(Simulator(problem.mdp), Answers(ExpertKind(deterministic=False)), settings)
    questions: list[tuple[int, int]] = []

    def skip(question: Question) -> Reply:
        questions.append((question.step, question.state))
        return Reply.SKIP

    played(engine, skip)
    assert len(questions) == 6 * problem.mdp.horizon > len(set(questions))


def test_where_nobody_is_there_no_more_is_asked_in_the_batch(problem: Problem) -> None:
    engine = begun(problem, strategy="random", episodes_per_iteration=6)
    for turn_number in (1, 2):
        questions = 0

        def answered_twice(question: Question) -> int | Reply:
            nonlocal questions
            questions += 1
            return 1 if questions < 3 else Reply.NOBODY

        turn = played(engine, answered_twice)
        assert questions == 3
        assert turn.counts.questions == 2 * turn_number
        assert turn.counts.samples == 6 * problem.mdp.horizon * turn_number


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"strategy": "random", "episodes_per_iteration": 3, "max_answers": 9},
        {"strategy": "ace", "certify": "criterion", "episodes_per_iteration": 2},
        {"strategy": "uniform", "irl": "feasible-point"},
    ],
)
def test_a_run_by_hand_is_the_run_of_the_loop(problem: Problem, settings: dict[str, Any]) -> None:
    chosen = Settings(**{"max_samples": 48, "epsilon": 1e-9, "seed": 5, **settings})
    actions = problem.expert.argmax(axis=2)
    truth = Truth(problem.mdp, problem.reward)
    expert = FunctionExpert(lambda step, state: int(actions[step, state]))
    looped = list(learn(Simulator(problem.mdp), expert, chosen, regret=truth.regret))
    engine = Engine(Simulator(problem.mdp), answers_of(expert, chosen), chosen, regret=truth.regret)
    by_hand = [played(engine, lambda question: int(actions[question.step, question.state]))]
    while not by_hand[-1].stopped:
        by_hand.append(played(engine, lambda question: int(actions[question.step, question.state])))
    assert_same(looped, by_hand)


@pytest.mark.parametrize("growth", [0.0, 0.5])
@pytest.mark.parametrize("strategy", ["guided", "ace"])
def test_an_engine_goes_on_from_any_state_as_if_nothing_had_happened(
    problem: Problem, strategy: str, growth: float
) -> None:
    settings: dict[str, Any] = {"strategy": strategy, "infer_after_growth": growth, "max_samples": 60, "seed": 2}
    actions = problem.expert.argmax(axis=2)

    def rest(engine: Engine) -> list[Turn]:
        turns = [played(engine, lambda question: int(actions[question.step, question.state]))]
        while not turns[-1].stopped:
            turns.append(played(engine, lambda question: int(actions[question.step, question.state])))
        return turns

    whole = rest(begun(problem, **settings))
    inferences = len({turn.state.inferred_at for turn in whole})
    assert inferences == len(whole) if growth == 0 else 1 < inferences < len(whole)
    for k, turn in enumerate(whole[:-1]):
        assert_same(rest(begun(problem, state=turn.state, **settings)), whole[k + 1 :])


@pytest.mark.parametrize("strategy", ["guided", "ace", "random"])
def test_whoever_looks_on_changes_nothing(problem: Problem, strategy: str) -> None:
    """A run of which every turn is looked at in full, and one of which only the end is."""
    chosen = Settings(strategy=strategy, certify="set", epsilon=1e-9, infer_after_growth=0.3, max_samples=180, seed=1)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)

    def engine() -> Engine:
        return Engine(Simulator(problem.mdp), answers_of(expert, chosen), chosen)

    reference, alone = engine(), engine()
    while True:
        seen = reference.ask()
        assert isinstance(seen, Turn)
        assert seen.policy.shape == problem.mdp.shape[:2]
        assert seen.record.samples == seen.state.counts.samples
        assert all(seen.certificate(kind).in_words() for kind in seen.belief.certificates)
        if seen.stopped:
            break
    while True:
        unseen = alone.ask()
        assert isinstance(unseen, Turn)
        if unseen.stopped:
            break
    assert_same([seen], [unseen])
    for kind in seen.belief.certificates:
        assert seen.certificate(kind) == unseen.certificate(kind)


@dataclass(frozen=True)
class EnoughOf(CertificateKind):
    """A certificate of one's own: holds after so many episodes that began with an action, and sees that they do."""

    action: int
    episodes: int = 3

    name: ClassVar = "enough"
    summary: ClassVar = "so many episodes began with one action"

    def check(self, expert: ExpertKind) -> None:
        if expert.stationary:
            raise InputError("enough is for experts who look at the step")

    def steer(self, plan: Plan, belief: Belief) -> Plan:
        return replace(plan, first_action=self.action)

    def watch(self, belief: Belief, plan: Plan, reference: IntArray | None) -> Wager | None:
        assert reference is not None
        assert (reference[0] == self.action).all()
        return Wager(0.5) if belief.iteration > 0 else None  # nothing is wagered on the first batch

    def update(self, memory: Memory, wager: Wager, plan: Plan, seen: BatchOutcome, target: Target) -> Memory:
        assert plan.first_action == self.action
        assert wager == Wager(0.5)
        return {"seen": memory.get("seen", np.zeros(1)) + seen.first_deviations.sum()}

    def value(self, belief: Belief) -> float:
        seen = float(belief.evidence.get(self.name, {}).get("seen", np.zeros(1))[0])
        return belief.target.epsilon * self.episodes / max(seen, 0.5)

    def explain(self, belief: Belief) -> Certificate:
        target = belief.target
        return Certificate(
            kind=self.name,
            value=self.value(belief),
            epsilon=target.epsilon,
            delta=target.delta,
            radii=None,
            assumptions=("nothing in particular",),
            promise="what is missing is",
            entry=None,
            weight=0.0,
            more_samples=None,
            possible=belief.shape[0] * target.rmax,
        )


def test_a_certificate_of_one_s_own_steers_watches_updates_and_stops(problem: Problem, tmp_path: Path) -> None:
    settings = Settings(strategy="random", irl="feasible-point", certify=EnoughOf(action=1, episodes=4))
    environment, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
    turns = list(learn(environment, expert, settings))
    assert [turn.stopped for turn in turns] == [None] * 4 + ["certificate"]
    assert [list(turn.record.certificates) for turn in turns[:-1]] == [["enough"]] * 4
    assert set(turns[-1].record.certificates) == {
        "enough",
        *(name for name, kind in KINDS.items() if not kind.on_request),
    }
    assert turns[-1].counts.visits[0, :, 0].sum() == 0
    assert turns[-1].counts.visits[0, :, 1].sum() == 5
    assert [turn.certificate("enough").holds for turn in turns] == [False] * 4 + [True]
    assert "what is missing is 0.6" in turns[-1].certificate("enough").in_words()
    assert_same_arrays(turns[-1].state.evidence["enough"], {"seen": np.array([4.0])})

    run = Run.create(tmp_path / "run", settings)
    for turn in run.resume(environment, expert):
        if turn.iteration == 3:
            break
    *_, last = Run.open(tmp_path / "run").resume(environment, expert)
    assert_same(turns[-1:], [last])
    with pytest.raises(InputError, match="enough is for experts who look at the step"):
        next(learn(environment, FunctionExpert(lambda step, state: 0, stationary=True), settings))


def test_a_certificate_that_nobody_asked_for_neither_steers_nor_stops(problem: Problem) -> None:
    turns = list(
        learn(
            Simulator(problem.mdp),
            PolicyExpert(problem.expert, problem.mdp.shape),
            Settings(strategy="random", irl="feasible-point", certify=None, max_samples=60),
        )
    )
    assert turns[-1].stopped == "budget"
    assert all(turn.record.certificates == {} for turn in turns)


def counting(estimate: Estimate, rmax: float, warm: Mapping[str, FloatArray], space: RewardSpace | None) -> Recovered:
    """An algorithm whose parameters have no states: a number, a row, and a block that grows as it likes."""
    calls = float(warm.get("calls", np.zeros(()))) + 1
    parameters = {
        "calls": np.array(calls),
        "row": np.arange(calls),
        "block": np.zeros((int(calls), 2, 1, 3)),
    }
    reward = np.zeros(estimate.mdp.shape)
    reward[:, -1] = rmax
    return Recovered(reward, 0.5, 0.0, parameters)


def test_in_a_large_world_a_reward_is_inferred_when_the_samples_have_doubled(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(strategy="random", irl=counting, certify=None, max_samples=200, seed=3)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)

    def inferred_at() -> list[int]:
        turns = learn(Simulator(problem.mdp), expert, settings)
        return sorted({turn.state.inferred_at for turn in turns})

    often = inferred_at()
    monkeypatch.setattr("aceirl.learner.engine.LARGE", 1)
    monkeypatch.setattr("aceirl.learner.engine.DOUBLING", 1)
    rarely = inferred_at()
    assert len(rarely) < len(often)
    assert all(later >= 2 * sooner for sooner, later in itertools.pairwise(rarely[:-1])), "the last one ends the run"
    assert rarely[-1] == often[-1]


@pytest.mark.parametrize("growth", [0.0, 0.5])
def test_an_algorithm_s_parameters_are_its_own_affair_where_states_are_met_one_by_one(
    tmp_path: Path, growth: float
) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    settings = Settings(
        strategy="random", irl=counting, certify=None, infer_after_growth=growth, episodes_per_iteration=2,
        max_samples=120, seed=3,
    )  # fmt: skip

    def environment() -> GymEnvironment:
        return GymEnvironment(gymnasium.make("FrozenLake-v1"))

    expert = FunctionExpert(lambda step, state: 1)
    turns = list(learn(environment(), expert, settings))
    met = [turn.belief.shape[1] for turn in turns]
    assert met[-1] > met[0], "states should have been met on the way"
    calls = [float(turn.state.recovered.parameters["calls"]) for turn in turns]
    assert calls[-1] == len({turn.state.inferred_at for turn in turns}) > 1
    assert turns[-1].state.recovered.parameters["block"].shape == (calls[-1], 2, 1, 3)
    assert all(turn.belief.recovered.reward.shape == turn.belief.shape for turn in turns)

    run = Run.create(tmp_path / "run", settings)
    for turn in run.resume(environment(), expert):
        if turn.iteration == 2:
            break
    again = list(Run.open(tmp_path / "run").resume(environment(), expert))
    assert_same(again, turns[2:])


def test_a_turn_s_record_is_what_the_loop_wrote(problem: Problem) -> None:
    """The last turn of a run that is opened again says the same of itself, but for what the plan had cost."""
    settings = Settings(strategy="ace", certify="set", epsilon=1e-9, max_samples=60)
    environment, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
    *_, last = learn(environment, expert, settings)
    again = Engine(environment, answers_of(expert, settings), settings, state=last.state).last_turn
    assert {**timeless(again), "planner_gap": last.record.planner_gap} == timeless(last)
    np.testing.assert_array_equal(again.policy, last.policy)
    for kind in last.belief.certificates:
        assert again.certificate(kind) == last.certificate(kind)


def test_a_long_run_in_many_states_infers_when_its_samples_have_doubled(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inferred_at(max_samples: int) -> list[int]:
        engine = begun(problem, max_samples=max_samples, certify=None)
        found = []
        while True:
            turn = played(engine, lambda question: 0)
            found.append(turn.inferred_at)
            if turn.stopped is not None:
                return list(dict.fromkeys(found))

    often = inferred_at(3_000)
    monkeypatch.setattr("aceirl.learner.engine.FEW_STATES", 1)
    monkeypatch.setattr("aceirl.learner.engine.MANY_SAMPLES", 300)
    seldom = inferred_at(3_000)
    assert [at for at in seldom if at <= 300] == [at for at in often if at <= 300]
    late = [at for at in seldom if at > 300]
    assert all(later >= 2 * earlier for earlier, later in itertools.pairwise(late))
    assert late[-1] == often[-1] >= 3_000, "a run ends on a reward that knows all samples"
    assert len(late) <= 4 < sum(at > 300 for at in often)
