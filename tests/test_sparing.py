"""Asking what settles most: few answers to a good policy, none where the members agree, and nothing promised by it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from aceirl import ActiveIRL
from aceirl.envs import make
from aceirl.envs.truth import stationary_policy
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.experts.tasks import open_task
from aceirl.explore.sparing import Sparing, _stopping
from aceirl.irl.belief import Belief
from aceirl.irl.prediction import LOST, Prediction, _plans, _told_apart, _with_trees
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.fields.rules import Committee
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.kernels import look_ahead
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards.hypotheses.search import Hypothesis, Judged, StationarySearch
from studies.fields import KeyDoor, key_expert
from studies.large import small_driver, small_warehouse


def members(*tables: list[int]) -> Prediction:
    """Members who each accept one action in each state, with equal weights."""
    accepted = np.array(tables)[:, :, None] == np.arange(3)
    weights = np.full(len(tables), 1 / len(tables))
    return Prediction(accepted.astype(float), weights, len(weights))


def test_the_question_that_tells_all_members_apart_settles_most() -> None:
    # State 0 tells all four apart, state 1 only two halves, and of state 2 all say the same.
    found = members([0, 0, 0, 0], [1, 0, 0, 1], [2, 1, 0, 2], [2, 1, 0, 2])
    everywhere = np.ones(4, dtype=np.bool_)
    settled = found.settled(np.full(4, 0.25), everywhere)
    assert settled[0] == max(settled)
    assert settled[0] > settled[1] > settled[2] == 0
    assert found.doubt[2] == pytest.approx(0, abs=1e-12)
    assert found.actions[2] == 0


def test_what_is_settled_is_the_doubt_that_the_answers_take_away() -> None:
    found = members([0, 0], [1, 1])
    mass = np.array([0.0, 1.0])
    value = found.settled(mass, np.array([True, False]))
    # Before, one of two is right; after an answer that is in 2 of 100 cases any of three, it is nearly sure.
    right = 0.98 + 0.02 / 3
    wrong = 0.02 / 3
    other = 0.02 / 3 * 0.5
    assert value[0] == pytest.approx(2 * 0.5 * max(right, wrong) + other - 0.5)
    assert value[1] == 0


def test_what_is_settled_counts_as_much_as_the_wrong_action_loses() -> None:
    # Two members disagree in both states; in the first either action is nearly as good to both.
    worth = np.array([[[1.0, 0.8], [1.0, 0.0]], [[0.8, 1.0], [0.0, 1.0]]])
    found = Prediction(worth, np.full(2, 0.5), 2)
    everywhere = np.ones(2, dtype=np.bool_)
    little, much = (found.settled(np.array(mass), everywhere)[0] for mass in ([1.0, 0.0], [0.0, 1.0]))
    assert 0 < little == pytest.approx(0.2 * much)
    assert (found.accepted == (worth == 1)).all(), "what one would lose a fifth by is not accepted"


def test_an_answer_tells_of_a_wish_even_where_the_likelier_one_accepts_everything() -> None:
    accepted = np.array([[[True, True], [True, True]], [[True, False], [True, True]]])
    found = Prediction(accepted.astype(float), np.array([0.9, 0.1]), 2)
    assert not found.doubt.any(), "what the other wish wants, both accept"
    assert found.settled(np.array([0.5, 0.5]), np.ones(2, dtype=np.bool_))[0] == pytest.approx(0, abs=1e-9)
    # The mutual information, by its definition: the first wish says each of two, the second nearly always the first.
    joint = np.array([[0.9 * 0.5, 0.9 * 0.5], [0.1 * 0.99, 0.1 * 0.01]])
    alone = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    assert found.telling[0] == pytest.approx(float((joint * np.log(joint / alone)).sum()))
    assert found.telling[1] == pytest.approx(0)


def test_all_trees_together_are_one_more_wish() -> None:
    # A wish and two trees that disagree with each other: which of the trees is right tells nothing of the wish.
    accepted = np.array([[[True, True]], [[True, False]], [[False, True]]])
    found = Prediction(accepted.astype(float), np.array([0.5, 0.25, 0.25]), 1)
    assert found.by_rules == 0.5
    assert found.telling[0] == pytest.approx(0)


def test_trees_decide_what_a_plan_leaves_open() -> None:
    # One answer, of which the trees that have not seen it say the same two times of three.
    trees = Committee(np.array([[0], [0], [1]]), np.ones((3, 1)), np.array([0]), np.array([0]), 3)
    chances = 0.97 * (np.array([2, 1, 0]) + 1 / 3) / 4 + 0.03 / 3
    assert trees.chances[0] == pytest.approx(chances)
    assert trees.log_likelihood == pytest.approx(np.log(chances[0]))
    plans = np.array([[[True, True, True]], [[True, False, True]], [[False, True, True]]])
    shares = np.array([chances[0], chances[0] / (chances[0] + chances[2]), 0.0])
    assert _with_trees(plans, trees) == pytest.approx(np.log(0.98 * shares + 0.02 / 3))


def test_wishes_that_accept_the_same_are_one_member() -> None:
    worth = np.array([[[1.0, 0.0]], [[0.95, 0.0]], [[0.0, 1.0]]])
    wishes = tuple(Hypothesis(((place, 1.0),)) for place in range(3))
    score = np.log([0.2, 0.3, 0.4])
    kept, found = _told_apart(worth, Judged(wishes, score - 1, np.ones(3), np.zeros(3)))
    assert kept.tolist() == [[[1.0, 0.0]], [[0.0, 1.0]]]
    assert found.hypotheses == (wishes[0], wishes[2])
    assert np.exp(found.score) == pytest.approx([0.5, 0.4])


def test_plans_are_of_somebody_who_does_not_look_at_the_step() -> None:
    search = StationarySearch(turns(3, 6)[-1].belief.estimate, None)
    worth, found = _plans(search)
    (horizon, n_states, n_actions), mdp = search.shape, search.estimate.mdp
    assert mdp.known[0].all()
    to = mdp.transitions.dense().reshape(n_states, n_actions, n_states)
    compared = 0
    for each, hypothesis in zip(worth, found.hypotheses, strict=True):
        if hypothesis.places and hypothesis == Hypothesis(hypothesis.places):
            paid, q = np.zeros(n_states), np.zeros((n_states, n_actions))
            for place, pays in hypothesis.places:
                paid[place] += pays
            for _ in range(2 * horizon):
                q = paid[:, None] + (1 - 1 / horizon) * to @ q.max(axis=1)
            behind = (q.max(axis=1, keepdims=True) - q) / (max(0, q.max()) - min(0, q.min()))
            assert each == pytest.approx(np.maximum(0, 1 - behind / LOST))
            compared += 1
    assert compared > 3


def test_answers_of_any_step_are_told_as_if_given_at_the_first() -> None:
    last = turns(3, 6)[-1]
    search = StationarySearch(last.belief.estimate, None)
    given = search.answers
    order = np.lexsort((given.action, given.state))
    assert (np.diff(given.state) >= 0).all()
    answers = last.counts.answers.sum(axis=0)[given.state[order], given.action[order]]
    assert given.times[order].tolist() == answers.tolist()
    # Before an answer, those in states before it were given, and none of its own state.
    for i, row in enumerate(given.common):
        before = given.state < given.state[i]
        assert row.tolist() == [given.times[before & (given.action == a)].sum() + 0.5 for a in range(len(row))]


def test_where_to_stop_is_where_nothing_better_can_be_reached() -> None:
    task = open_task(make("double-chain", 0))
    problem = make("double-chain", 0)
    mdp, value = problem.mdp, np.random.default_rng(0).random(problem.mdp.n_states)
    stop, _, worth = _stopping(*mdp.transitions.rows, mdp.n_actions, value, mdp.horizon)
    ahead = np.zeros(mdp.n_states)
    rows = mdp.transitions.dense()
    for step in range(mdp.horizon - 1, -1, -1):
        best = (rows @ ahead).max(axis=1)
        assert (stop[step] == (value >= best * (1 - 1e-9))).all()
        ahead = np.maximum(value, best)
    assert np.allclose(worth, ahead)
    task.close()


def test_looking_ahead_is_backward_induction() -> None:
    problem = make("gridworld", 1)
    reward = np.random.default_rng(1).random(problem.mdp.shape[1:])
    q, v = look_ahead(*problem.mdp.transitions.rows, reward, problem.mdp.horizon, 1.0)
    whole, values = optimal_values(problem.mdp, np.broadcast_to(reward, problem.mdp.shape).copy())
    assert np.allclose(q, whole[0])
    assert np.allclose(v, values[0])


def turns(seed: int, most: int, **settings: Any) -> list[Turn]:
    """A gridworld with an expert who does not look at the step, until so many answers were given."""
    problem = make("gridworld", seed)
    does = stationary_policy(problem.mdp, problem.reward)
    table = np.broadcast_to(np.eye(problem.mdp.n_actions)[does], problem.mdp.shape)
    expert = PolicyExpert(table, problem.mdp.shape, stationary=True)
    asked = Settings(strategy="sparing", irl=None, certify=None, seed=seed, max_answers=most, **settings)
    return list(learn(open_task(problem).environment, expert, asked))


def test_a_few_answers_are_enough_for_a_gridworld() -> None:
    problem = make("gridworld", 0)
    task = open_task(problem)
    assert task.regret is not None
    last = turns(0, 6)[-1]
    does = stationary_policy(problem.mdp, problem.reward)
    own = task.regret(np.broadcast_to(does, problem.mdp.shape[:2]))
    assert last.counts.questions <= 6
    assert task.regret(last.policy) - own <= 0.01


def test_at_most_one_question_an_episode_and_none_while_looking_around() -> None:
    asked = [turn.counts.questions for turn in turns(1, 3)]
    assert asked[0] == 0
    assert max(np.diff(asked)) == 1


def test_with_few_steps_at_most_half_are_for_looking_around() -> None:
    found = ActiveIRL(strategy="sparing", irl=None, certify=None, max_samples=400, seed=0).fit("gridworld")
    asked = [record.samples for record in found.records if record.answers]
    assert 200 <= asked[0] <= 240


def test_the_policy_does_what_was_answered() -> None:
    last = turns(2, 5)[-1]
    known = last.belief.known_actions
    assert known is not None
    assert (known >= 0).any()
    assert (last.policy[known >= 0] == known[known >= 0]).all()


def test_predictions_promise_nothing() -> None:
    result = ActiveIRL(strategy="sparing", max_answers=4, seed=0).fit(KeyDoor(), key_expert, horizon=40)
    assert result.certificate is not None
    assert not result.certificate.holds


def test_dynamics_that_depend_on_the_step_are_refused() -> None:
    with pytest.raises(InputError, match="needs a deterministic expert, and dynamics that do not depend on the step"):
        ActiveIRL(strategy="sparing", max_samples=100, stationary_dynamics=False).fit("gridworld")


def test_in_a_large_world_questions_are_weighed_anew_as_answers_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aceirl.explore.sparing.LARGE", 1)
    weighed: list[int] = []
    values = Sparing._values

    def noted(self: Sparing, belief: Belief) -> FloatArray:
        assert belief.imagined is not None
        weighed.append(belief.estimate.counts.questions)
        return values(self, belief)

    monkeypatch.setattr(Sparing, "_values", noted)
    learner = ActiveIRL(strategy="sparing", irl=None, certify=None, max_answers=14, seed=0)
    learner.fit(small_warehouse(), small_driver, horizon=12)
    assert weighed[:5] == [0, 1, 2, 3, 4]
    assert len(weighed) < 14
    assert all(later <= earlier / 0.8 + 1 for earlier, later in itertools.pairwise(weighed[1:]))
    assert weighed[-1] >= 10
