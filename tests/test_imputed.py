"""What is imputed of an expert where it was not asked yet, and why a promise may rest on it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from aceirl.certificates import Wager, possible_losses
from aceirl.certificates.e_process import with_new_states
from aceirl.data.dataset import Trajectory
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import FunctionExpert, PolicyExpert
from aceirl.irl.belief import Plan, Target
from aceirl.learner.collect import Answers, Collected, Reply, Streams, collect
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of, learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.counts import Counts, StepCounts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, IntArray
from aceirl.protocols import Capabilities, Expert, Question
from studies import soundness as study
from studies.adversaries import CASES, Case, Numbered
from studies.collecting import table_of


def doing(actions: IntArray, *, stationary: bool = False, ask_again: float = 0.0) -> FunctionExpert:
    """An expert who takes `actions [H, S]`."""
    return FunctionExpert(lambda step, state: int(actions[step, state]), stationary=stationary, ask_again=ask_again)


RUN = {"strategy": "advice", "irl": "feasible-point", "infer_after_growth": 10.0}


@pytest.mark.parametrize("name", ["random", "turning answers", "a stationary expert", "growing", "early endings"])
def test_from_the_first_wager_on_what_is_presumed_stands_and_what_is_lost_never_rises(name: str) -> None:
    """The lemma that the wagers rest on, turn by turn, by the exact mean of `Z`; also where states are met later."""
    wagered = right = later = 0
    for seed in range(6):
        case = CASES[name](np.random.default_rng([seed, 3]), 0.1)
        lost, before = 1.0, None
        settings = Settings(**RUN, seed=seed, max_samples=60 * case.mdp.horizon)
        environment, expert = study.played(case)
        for turn in study.turns(Engine(environment, answers_of(expert, settings), settings), expert):
            belief = turn.belief
            if "imputed" not in belief.evidence.get("policy", {}):
                continue
            imputed, reference, known = belief.imputed, belief.imputed_actions, belief.known_actions
            assert reference is not None
            assert known is not None
            if before is not None:
                stands = before[:-1] >= 0
                np.testing.assert_array_equal(before[:-1][stands], imputed[: len(before) - 1][stands])
                later += int((imputed[len(before) - 1 :] >= 0).sum())
            order = environment.order if isinstance(environment, Numbered) else list(range(case.mdp.n_states))
            found = np.full_like(case.actions, -1)
            found[:, order] = reference
            found[:, sorted(case.terminal)] = case.actions[:, sorted(case.terminal)]
            agreed = np.where(found == case.actions, found, -1)
            assert study.lost_share(case, agreed) <= lost + 1e-12
            lost = study.lost_share(case, agreed)
            right += int(((reference == case.actions[:, order]) & (known < 0)).sum())
            wagered, before = wagered + 1, imputed
    assert wagered > 20
    assert right > 0 or name not in ("random", "a stationary expert")
    assert later > 0 or not case.numbered, "states that were met after the first wager have answers of their own"


def test_in_states_met_later_their_first_answers_are_imputed() -> None:
    answers = np.zeros((2, 4, 3), dtype=np.int64)
    answers[0, 0, 2] = answers[1, 2, 1] = 1
    memory = {"now": np.zeros(1), "imputed": np.array([0.0, 1.0, 1.0])}  # two states, and what was imputed elsewhere
    after = with_new_states(memory, StepCounts.of(answers))
    np.testing.assert_array_equal(after["imputed"], [0, 1, 1, -1, 1])
    assert after["now"] is memory["now"]
    answers[0, 2, 0] = 5
    answers[0, 3, 2] = 1
    np.testing.assert_array_equal(with_new_states(after, StepCounts.of(answers))["imputed"], [0, 1, 1, 2, 1])
    assert with_new_states({}, StepCounts.of(answers)) == {}


def chain() -> tuple[MDP, IntArray]:
    """Three states that lead round, and what an expert does: 0, but 1 in the second at the last step."""
    rows = np.repeat(np.roll(np.eye(3), 1, axis=1)[:, None], 2, axis=1)
    actions = np.zeros((5, 3), dtype=np.int64)
    actions[4, 1] = 1
    return MDP.from_dense(rows, initial=0, horizon=5), actions


def collected(answers: Answers, expert: Expert | None, reference: IntArray, mdp: MDP, plan: Plan) -> Collected:
    access = Capabilities.of(Simulator(mdp))
    model = table_of(access, answers.kind, Counts.empty(mdp.shape))
    walking = collect(access, answers, plan, 1, model, reference, Streams(0, 0))
    reply: int | Reply | None = None
    while True:
        try:
            question = next(walking) if reply is None else walking.send(reply)
        except StopIteration as over:
            found: Collected = over.value
            return found
        assert isinstance(question, Question)
        said = None if expert is None else expert.answer(question)
        reply = Reply.SKIP if said is None else said


def test_an_episode_counts_up_to_where_the_expert_does_not_do_what_is_presumed() -> None:
    """Drawn from a table and walked step by step alike; whatever the plan does there, and silence is no consent."""
    mdp, actions = chain()
    all_zero, kind = np.zeros((5, 3), dtype=np.int64), ExpertKind()
    table = Answers(kind, PolicyExpert(actions, mdp.shape).policy)
    says = doing(actions)
    silent = FunctionExpert(lambda step, state: None if step >= 2 else 0, ask_again=0.0)
    for follow in (0.0, 1.0):
        plan = Plan(policy=np.eye(2)[all_zero], follow=np.full((5, 3), follow))
        for found in (
            collected(table, None, all_zero, mdp, plan),
            collected(Answers(kind), says, all_zero, mdp, plan),
        ):
            assert found.first_deviations.argmax() == 4, "not after the step at which the expert does something else"
            right = collected(table, None, actions, mdp, plan)
            assert right.first_deviations.argmax() == 5 if follow else 4
    plan = Plan(policy=np.eye(2)[all_zero], follow=np.ones((5, 3)))
    assert collected(Answers(kind), silent, all_zero, mdp, plan).first_deviations.argmax() == 2
    limited = collected(Answers(kind, limit=3), says, all_zero, mdp, plan)
    assert limited.first_deviations.argmax() == 3, "who may not be asked any more confirms nothing"
    quiet = collected(Answers(kind), says, all_zero, mdp, replace(plan, ask=False))
    assert quiet.first_deviations.argmax() == 0
    nothing = collected(Answers(kind), says, np.full((5, 3), -1), mdp, plan)
    assert nothing.first_deviations.argmax() == 0


def test_nothing_is_presumed_of_who_may_say_something_else_where_it_has_answered() -> None:
    problem = make("four-paths", 0)
    found = {}
    for again in (0.0, 0.5, 1.0):
        expert = doing(problem.expert.argmax(axis=2), ask_again=again)
        settings = Settings(strategy="advice", irl="feasible-point", max_samples=100)
        engine = Engine(Simulator(problem.mdp), answers_of(expert, settings), settings)
        *_, last = study.turns(engine, expert)
        known, reference = last.belief.known_actions, last.belief.imputed_actions
        assert known is not None
        assert reference is not None
        np.testing.assert_array_equal(reference[known >= 0], known[known >= 0])
        found[again] = int((reference >= 0).sum() - (known >= 0).sum())
    assert found[0.0] > 0
    assert found[0.5] == found[1.0] == 0


def test_the_most_that_can_be_lost_is_lost_on_some_path() -> None:
    """Against all paths, in a process in which every state leads to every other."""
    horizon, n_states = 3, 2
    target, kind = Target(0.3, 0.1, 1.0), ExpertKind()
    losses = target.losses(horizon)
    paths = list(itertools.product(range(n_states), repeat=horizon))
    for bits in itertools.product((-1, 0), repeat=horizon * n_states):
        known = np.array(bits).reshape(horizon, n_states)
        for initial in (None, np.array([1.0, 0.0]), np.array([0.5, 0.5])):
            starts = range(n_states) if initial is None else np.flatnonzero(initial)
            possible = [path for path in paths if path[0] in starts]
            leaves = [next((h for h in range(horizon) if known[h, path[h]] < 0), horizon) for path in possible]
            counts = Counts.empty((horizon, n_states, 1))
            estimate = Estimate.of(counts, kind=kind, delta=0.1, initial=initial)
            found = possible_losses(target, estimate, known)
            assert found[0] == pytest.approx(losses[min(leaves)])
            np.testing.assert_allclose(found, np.minimum(losses, found[0]))
            unsure = replace(estimate, kind=ExpertKind(ask_again=1.0))
            np.testing.assert_array_equal(possible_losses(target, unsure, known), losses)
            more = possible_losses(target, replace(estimate, possible_states=np.inf), known)
            assert more[0] == losses[int(initial is not None and (known[0, initial > 0] >= 0).all())]


def test_who_is_known_everywhere_is_certified_without_a_wager() -> None:
    problem = make("random-mdp", 0)
    expert = PolicyExpert(problem.expert[0], problem.mdp.shape, stationary=True)
    settings = Settings(strategy="advice", irl="feasible-point")
    engine = Engine(Simulator(problem.mdp), answers_of(expert, settings), settings)
    *_, last = study.turns(engine, expert)
    assert last.stopped == "certificate"
    assert last.certificate("policy").value == 0
    assert (last.counts.answers.sum(axis=(0, 2)) > 0).all()
    np.testing.assert_array_equal(last.policy, expert.policy.argmax(axis=2))


def test_once_something_is_promised_the_policy_does_what_is_presumed() -> None:
    problem = make("double-chain", 1)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    settings = Settings(strategy="advice", irl="feasible-point", infer_after_growth=10.0)
    engine = Engine(Simulator(problem.mdp), answers_of(expert, settings), settings)
    found = list(study.turns(engine, expert))
    first, last = found[1], found[-1]
    assert first.belief.frozen_imputation is None
    assert last.stopped == "certificate"
    reference = last.belief.imputed_actions
    assert reference is not None
    assert (reference >= 0).all()
    np.testing.assert_array_equal(last.policy, reference)
    assert (first.policy != first.belief.imputed_actions).any()


@pytest.mark.parametrize(("stationary", "most"), [(True, 800), (False, 1500)])
def test_presuming_makes_the_policy_certificate_cheaper(*, stationary: bool, most: int) -> None:
    spent: dict[float, list[int]] = {0.0: [], 1.0: []}
    for seed, again in itertools.product(range(4), spent):
        problem = make("double-chain", seed)
        actions = np.repeat(problem.expert.argmax(axis=2)[:1], 20, axis=0) if stationary else problem.expert.argmax(2)
        expert = doing(actions, stationary=stationary, ask_again=again)
        settings = Settings(strategy="advice", irl="feasible-point", infer_after_growth=10.0, seed=seed)
        engine = Engine(Simulator(problem.mdp), answers_of(expert, settings), settings)
        *_, last = study.turns(engine, expert)
        spent[again].append(last.samples)
    assert np.mean(spent[0.0]) <= most
    assert np.mean(spent[0.0]) < 0.9 * np.mean(spent[1.0])


def test_evidence_about_what_was_presumed_is_lost_with_an_expert_of_whom_nothing_is() -> None:
    """Their policy does something else where the expert was not asked, and would lose far more than was promised."""
    horizon, n_states = 5, 100
    mdp = MDP.from_dense(np.full((n_states, 2, n_states), 1 / n_states), initial=0, horizon=horizon)
    actions = np.ones((horizon, n_states), dtype=np.int64)
    case, settings = Case(mdp, actions), Settings(strategy="advice", irl="feasible-point")
    *_, last = learn(Simulator(mdp), doing(actions), settings)
    assert last.stopped == "certificate"
    assert study.lost_share(case, last.policy) == 0
    (same, *_), (other, *_) = (
        learn(Simulator(mdp), doing(actions, ask_again=again), settings, state=last.state, reconsider=True)
        for again in (0.0, 1.0)
    )
    assert same.certificate("policy").holds
    np.testing.assert_array_equal(same.policy, last.policy)
    assert study.lost_share(case, np.where(other.policy == actions, actions, -1)) > 0.3
    assert other.belief.frozen_imputation is None
    assert other.certificate("policy").value == horizon


def test_answers_may_be_noted_while_a_batch_meets_new_ends() -> None:
    """They count from the next batch on; the one under way is judged by what it began with."""
    environment, expert = study.played(CASES["early endings"](np.random.default_rng(0), 0.1))
    settings = Settings(strategy="advice", irl="feasible-point", episodes_per_iteration=30, max_samples=10_000)
    engine = Engine(environment, answers_of(expert, settings), settings)
    began, ended, answers = engine.access.shape[1], 0, 0
    while isinstance(step := engine.ask(), Question):
        said = expert.answer(step)
        assert said is not None
        engine.tell(said)
        if max(engine.access.terminal) >= began and not ended:
            ended = max(engine.access.terminal)
            engine.add_answers([(step.step, step.state, said)])
        answers += 1
    assert ended >= began
    assert step.iteration == 1
    assert step.counts.questions == answers + 1


def test_who_answers_again_later_gains_nothing_from_episodes_that_lost() -> None:
    """Of a person, what was known when an episode began is counted by what stands at the end."""
    mdp = MDP.from_dense(np.eye(3)[[[2], [2], [2]]], initial=np.array([0.5, 0.5, 0.0]), horizon=2)
    settings = Settings(epsilon=0.2, irl="feasible-point")
    now = []
    for also in (True, False):
        answers = ((0, 0, 0), (0, 1, 0)) if also else ((0, 0, 0),)
        first = Trajectory.of_moves(0, ((0, 0, 0, 2),), answers=answers), {"policy": Wager(0.0)}
        again = Trajectory.of_moves(0, ((0, 0, 0, 2), (1, 2, 0, 2)), answers=((0, 1, 0),))
        lost = again, {"policy": Wager(0.5)}
        engine = Engine(Simulator(mdp), Answers(ExpertKind(stationary=True, ask_again=0.1)), settings)
        engine.replay([first, lost])
        now.append(engine.belief.evidence["policy"]["now"])
    assert (now[0] < 0).any(), "the episode left what was known at its second step"
    assert (now[1] <= now[0]).all(), "with the other start unanswered until then it proves no more"
