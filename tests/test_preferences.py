"""Preferences between two episodes: how likely they are, what they tell of a reward, and which two to show next."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS

from aceirl.data.dataset import Trajectory
from aceirl.data.preferences import Preference
from aceirl.envs import Problem, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.explain.goal import explained_answers, goal_in_words, goal_of
from aceirl.irl import SparseLikelihood
from aceirl.irl.alternatives import Alternatives
from aceirl.irl.comparisons import Comparisons, Walk, informative_pair, returns
from aceirl.irl.likelihood import ERROR_PRICE, ERROR_RATES, INDIFFERENCE, Likelihood
from aceirl.irl.sparse_likelihood import PENALTY, SparseFit
from aceirl.learner.collect import Answers
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of, learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray
from aceirl.protocols import Moves, Question
from aceirl.rewards import Explanation, RewardSpace, StateActionReward, StateReward
from aceirl.runs import Run

Judge = Callable[[Walk, Walk], Preference]

ICE = ("S..H", ".H..", "...F")
"""A lake: a start, two holes and a flag. Moves slip to a side one time in five."""


def recorded(problem: Problem, number: int, rng: np.random.Generator) -> list[Walk]:
    """Episodes that go mostly one way, each its own."""
    environment, found = Simulator(problem.mdp), []
    horizon, _, n_actions = problem.mdp.shape
    for _ in range(number):
        state, favourite, walk = environment.reset(rng), int(rng.integers(n_actions)), []
        for step in range(horizon):
            action = favourite if rng.random() < 0.8 else int(rng.integers(n_actions))
            successor, _ = environment.step(action)
            walk.append((step, state, action, successor))
            state = successor
        found.append(tuple(walk))
    return found


def counted(walks: Sequence[Walk], shape: tuple[int, int, int]) -> Counts:
    step, state, action, successor = np.array([move for walk in walks for move in walk]).T
    starts = np.bincount([walk[0][1] for walk in walks], minlength=shape[1])
    return Counts.of_moves(Moves(step, state, action, successor, np.ones_like(step), starts), shape)


def lake_walks(number: int, horizon: int, rng: np.random.Generator) -> list[Walk]:
    """Episodes on the ice, mostly right and down, that end in a hole or at the flag."""
    rows, columns, cells, found = len(ICE), len(ICE[0]), "".join(ICE), []
    for _ in range(number):
        state, walk = 0, []
        for step in range(horizon):
            action = int(rng.choice(4, p=[0.1, 0.4, 0.4, 0.1]))  # left, down, right, up
            moved = (action + (int(rng.choice([1, 3])) if rng.random() < 0.2 else 0)) % 4
            row, column = divmod(state, columns)
            row = min(rows - 1, max(0, row + (0, 1, 0, -1)[moved]))
            column = min(columns - 1, max(0, column + (-1, 0, 1, 0)[moved]))
            walk.append((step, state, action, row * columns + column))
            state = row * columns + column
            if cells[state] in "HF":
                break
        found.append(tuple(walk))
    return found


def by_return(a: Walk, b: Walk, *, earned: Callable[[Walk], float]) -> Preference:
    """Somebody who compares by a return, and sees every difference."""
    first, second = earned(a), earned(b)
    if math.isclose(first, second, abs_tol=1e-9):
        return Preference(a, b, equal=True)
    return Preference(a, b) if first > second else Preference(b, a)


def erring(a: Walk, b: Walk, *, judge: Judge, rng: np.random.Generator, rate: float) -> Preference:
    """Somebody who says anything now and then."""
    said = (judge(a, b), Preference(a, b), Preference(b, a), Preference(a, b, equal=True))
    return said[int(rng.integers(1, 4)) if rng.random() < rate else 0]


def estimate_of(
    counts: Counts, preferences: Sequence[Preference], terminal: Sequence[int] = (), initial: FloatArray | None = None
) -> Estimate:
    told = tuple(preferences)
    return Estimate.of(counts, kind=ExpertKind(), delta=0.1, initial=initial, terminal=terminal, preferences=told)


def inferred(estimate: Estimate, space: RewardSpace | None = None) -> Explanation:
    found = SparseLikelihood()(estimate, 1.0, None, space).explanation
    assert found is not None
    return found


@st.composite
def compared(draw: st.DrawFn) -> Estimate:
    """A small problem, perhaps with an end, and preferences between episodes of any length in it."""
    rng = np.random.default_rng(draw(SEEDS))
    horizon, n_states, n_actions = (int(n) for n in rng.integers(2, 5, size=3))
    terminal = (n_states - 1,) if draw(st.booleans()) else ()

    def walk() -> Walk:
        state, moves = int(rng.integers(n_states - len(terminal))), []
        for step in range(int(rng.integers(1, horizon + 1))):
            successor = int(rng.integers(n_states))
            moves.append((step, state, int(rng.integers(n_actions)), successor))
            state = successor
            if state in terminal:
                break
        return tuple(moves)

    told = [Preference(walk(), walk(), equal=bool(rng.random() < 0.3)) for _ in range(int(rng.integers(1, 6)))]
    counts = counted([walk for one in told for walk in (one.preferred, one.other)], (horizon, n_states, n_actions))
    return estimate_of(counts, told, terminal)


def earned_by(walk: Walk, theta: FloatArray, estimate: Estimate) -> dict[int, float]:
    """What each parameter of a reward of places pays an episode, move by move; the last one is a step cost."""
    horizon, n_states, _ = estimate.mdp.shape
    found = dict.fromkeys(range(n_states + 1), 0.0)
    for step, state, _, successor in walk:
        found[state] += float(theta[state])
        if successor in estimate.terminal:
            found[successor] += float(theta[successor])
            for _ in range(step + 1, horizon):
                found[n_states] += theta[n_states]
    return found


def direct_probabilities(one: Preference, theta: FloatArray, estimate: Estimate) -> tuple[float, float, float]:
    """By Davidson's model with `ν = 2` and strengths `exp(2·return/unit)`."""
    liked, other = earned_by(one.preferred, theta, estimate), earned_by(one.other, theta, estimate)
    unit = INDIFFERENCE * sum(abs(liked[k] - other[k]) for k in liked)
    lead = (sum(liked.values()) - sum(other.values())) / unit if unit else 0.0
    strong, weak = math.exp(lead), math.exp(-lead)
    total = strong + weak + 2 * math.sqrt(strong * weak)
    return strong / total, 2 * math.sqrt(strong * weak) / total, weak / total


@given(estimate=compared(), seed=SEEDS)
def test_the_likelihood_is_the_one_of_davidson_s_model(estimate: Estimate, seed: int) -> None:
    design, rng = StateReward().design_matrix(estimate.mdp, estimate.terminal_states), np.random.default_rng(seed)
    thetas = rng.choice([0.0, 1.0, -1.0, 0.25, 0.1], size=(4, design.n_parameters))
    comparisons = Comparisons(estimate, design)
    found = comparisons.losses(thetas)
    for theta, losses in zip(thetas, found, strict=True):
        padded = np.append(theta, np.zeros(estimate.mdp.n_states + 1 - len(theta)))
        likely = np.array([direct_probabilities(one, padded, estimate) for one in estimate.preferences])
        for e, rate in enumerate(ERROR_RATES):
            p = (1 - rate) * likely + rate / 3
            said = [row[1] if one.equal else row[0] for row, one in zip(p, estimate.preferences, strict=True)]
            assert losses[e] == pytest.approx(-np.log(said).sum(), rel=1e-9, abs=1e-9)
            sums = comparisons.sums(theta)[:, e]
            loss = -np.log(p)
            mean = (p * loss).sum(axis=1)
            assert sums[0] == losses[e]
            assert sums[1] == pytest.approx(mean.sum(), rel=1e-9, abs=1e-9)
            assert sums[2] == pytest.approx(((p * loss**2).sum(axis=1) - mean**2).sum(), rel=1e-6, abs=1e-6)


@given(estimate=compared(), seed=SEEDS, scale=st.sampled_from([1e-6, 0.5, 3.0, 1e6]))
def test_the_scale_of_a_reward_does_not_matter(estimate: Estimate, seed: int, scale: float) -> None:
    design, rng = StateActionReward().design_matrix(estimate.mdp, estimate.terminal_states), np.random.default_rng(seed)
    thetas, comparisons = rng.normal(size=(3, design.n_parameters)), Comparisons(estimate, design)
    np.testing.assert_allclose(comparisons.losses(scale * thetas), comparisons.losses(thetas), rtol=1e-6, atol=1e-9)


@given(estimate=compared(), seed=SEEDS)
def test_to_like_the_other_one_better_is_to_want_the_opposite(estimate: Estimate, seed: int) -> None:
    design, rng = StateReward().design_matrix(estimate.mdp, estimate.terminal_states), np.random.default_rng(seed)
    thetas = rng.normal(size=(3, design.n_parameters))
    swapped = tuple(Preference(one.other, one.preferred, one.equal) for one in estimate.preferences)
    here, there = (Comparisons(replace(estimate, preferences=p), design) for p in (estimate.preferences, swapped))
    np.testing.assert_allclose(here.losses(thetas), there.losses(-thetas), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(here.feature_gap, -there.feature_gap)


def test_the_return_of_an_episode_is_what_the_table_pays_until_the_horizon() -> None:
    """Where nothing is left to luck, an episode that has ended goes on in its end, whatever is done there."""
    walk, rng = ((0, 0, 1, 1), (1, 1, 0, 2)), np.random.default_rng(0)
    terminal, shape = (2,), (5, 3, 2)
    estimate = estimate_of(counted([walk], shape), (), terminal)
    for space in (StateReward(), StateActionReward()):
        design = space.design_matrix(estimate.mdp, estimate.terminal_states)
        theta = rng.normal(size=design.n_parameters)
        table = design.table(theta)
        whole = table[0, 0, 1] + table[1, 1, 0] + table[2:, 2, 0].sum()
        assert returns(design, estimate.terminal_states, [walk]) @ theta == pytest.approx(whole)
        cut = returns(design, estimate.terminal_states, [walk[:1]]) @ theta
        assert cut == pytest.approx(table[0, 0, 1]), "what is cut off is not paid for"


def test_what_is_paid_is_what_happened_and_not_what_might_have() -> None:
    """The same action led to the flag once and into the hole once: a reward for the flag tells the two apart."""
    flag, hole = ((0, 0, 0, 1),), ((0, 0, 0, 2),)
    estimate = estimate_of(counted([flag, hole], (3, 3, 1)), [Preference(flag, hole)] * 5, (1, 2))
    design = StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
    earned = returns(design, estimate.terminal_states, [flag, hole]).toarray()
    np.testing.assert_array_equal(earned[:, :3], [[1, 1, 0], [1, 0, 1]])
    for space in (None, StateReward(), StateActionReward()):
        assert inferred(estimate, space).goals == [1]


def test_no_preferences_change_nothing() -> None:
    problem = make("gridworld", 0)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    settings = Settings(strategy="random", certify=None, max_samples=300)
    *_, last = learn(Simulator(problem.mdp), expert, settings)
    estimate = last.belief.estimate
    design = StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
    fit, thetas = SparseFit(Likelihood(estimate), design, PENALTY), np.eye(design.n_parameters)
    alone = [fit.likelihood.loss(design.steps(theta)) + PENALTY for theta in thetas]
    np.testing.assert_allclose(fit.costs(thetas), alone)
    assert not fit.comparisons.losses(thetas).any()


def test_answers_and_preferences_add_up_at_one_error_rate() -> None:
    problem, rng = make("gridworld", 0), np.random.default_rng(1)
    walks = recorded(problem, 12, rng)
    answers = np.zeros(problem.mdp.shape, dtype=np.int64)
    for step, state, _, _ in walks[0] + walks[1]:
        answers[step, state, int(rng.integers(4))] = 1
    judge = partial(by_return, earned=partial(paid_by, problem))
    told = [judge(walks[i], walks[i + 1]) for i in range(8)]
    estimate = estimate_of(counted(walks, problem.mdp.shape).with_answers(answers), told)
    design = StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
    fit = SparseFit(Likelihood(estimate), design, PENALTY)
    for theta in rng.choice([0.0, 1.0, -0.5], size=(20, design.n_parameters)):
        table = design.steps(theta)
        rates = fit.likelihood._sums(table)[0][0] + ERROR_PRICE + fit.comparisons.losses(theta[None])[0]
        assert fit.loss(theta) == pytest.approx(rates.min())
        judged = fit.likelihood.judged(table, fit.comparisons.sums(theta))
        assert judged.loss == pytest.approx(rates.min())
        assert judged.error_rate == ERROR_RATES[rates.argmin()]


def paid_by(problem: Problem, walk: Walk) -> float:
    return float(sum(problem.reward[step, state, action] for step, state, action, _ in walk))


def goal_cell(problem: Problem) -> int:
    return int(problem.reward.max(axis=(0, 2)).argmax())


def chosen(estimate: Estimate, found: Explanation | None, walks: Sequence[Walk]) -> tuple[int, int]:
    """The pair that a turn would show."""
    design = StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
    plausible = found is not None and found.space == "state"
    thetas = (
        Alternatives(estimate, design, found).samples if found and plausible else np.zeros((0, design.n_parameters))
    )
    asked = [(walks.index(one.preferred), walks.index(one.other)) for one in estimate.preferences]
    weights = np.full(len(thetas), 1 / max(1, len(thetas)))
    pair = informative_pair(returns(design, estimate.terminal_states, walks), thetas, weights, asked)
    assert pair is not None
    return pair


def compare_until(
    problem: Problem, walks: Sequence[Walk], judge: Judge, most: int, rng: np.random.Generator | None = None
) -> list[bool]:
    """After each comparison, whether the goal is found; of pairs that tell most, or of any if there is a generator."""
    counts, told, right = counted(walks, problem.mdp.shape), list[Preference](), list[bool]()
    found = None
    for _ in range(most):
        estimate = estimate_of(counts, told, initial=problem.mdp.initial)
        if rng is None:
            i, j = chosen(estimate, found, walks)
        else:
            i, j = rng.choice(len(walks), 2, replace=False).tolist()
        told.append(judge(walks[i], walks[j]))
        found = inferred(estimate_of(counts, told, initial=problem.mdp.initial))
        right.append(found.goals == [goal_cell(problem)])
    return right


@pytest.mark.parametrize("name", ["four-paths", "double-chain"])
def test_pairs_that_tell_most_find_the_goal_where_as_many_others_do_not(name: str) -> None:
    """Seven comparisons of forty episodes, and no answer at all."""
    by_chance, by_choice = [], []
    for seed in (0, 3):
        problem, rng = make(name, seed), np.random.default_rng(seed)
        walks = recorded(problem, 40, rng)
        judge = partial(by_return, earned=partial(paid_by, problem))
        by_chance.append(compare_until(problem, walks, judge, 7, rng)[-1])
        by_choice.append(compare_until(problem, walks, judge, 7)[-1])
    assert not any(by_chance)
    assert all(by_choice)


@pytest.mark.parametrize("name", ["four-paths", "gridworld"])
def test_preferences_alone_find_the_goal_although_one_in_ten_is_an_error(name: str) -> None:
    for seed in (0, 1, 3, 4):
        problem, rng = make(name, seed), np.random.default_rng(seed)
        walks = recorded(problem, 100, rng)
        judge = partial(by_return, earned=partial(paid_by, problem))
        doubtful = partial(erring, judge=judge, rng=rng, rate=0.1)
        told = [doubtful(walks[i], walks[(7 * i + 3) % 100]) for i in range(100) if (6 * i + 3) % 100]
        found = inferred(estimate_of(counted(walks, problem.mdp.shape), told))
        assert found.goals == [goal_cell(problem)]
        assert 0.8 <= found.explained_preferences / found.preferences < 1


@pytest.mark.parametrize(("name", "number"), [("four-paths", 10), ("gridworld", 6)])
def test_comparisons_that_mean_nothing_seldom_name_a_goal(name: str, number: int) -> None:
    """Of many rewards some fit by chance: going by what they gain alone, a goal would be named much more often."""
    named, by_gain_alone = 0, 0
    for seed in range(12):
        problem, rng = make(name, seed), np.random.default_rng(seed)
        walks = recorded(problem, 40, rng)
        pairs = [rng.choice(40, 2, replace=False) for _ in range(number)]
        told = [Preference(walks[i], walks[j], equal=bool(rng.random() < 1 / 3)) for i, j in pairs]
        found = inferred(estimate_of(counted(walks, problem.mdp.shape), told), StateReward())
        named, by_gain_alone = named + bool(found.explains), by_gain_alone + (found.gain >= 1.25)
    assert named <= 2 < by_gain_alone


def test_a_goal_is_named_when_it_gains_more_than_luck_would() -> None:
    """Of three places, of either sign, one is right: `log 6` nats are luck, and each comparison gains `log 4`."""
    liked, other = ((0, 0, 0, 1), (1, 1, 0, 1)), ((0, 0, 0, 2), (1, 2, 0, 2))
    for number in range(1, 5):
        found = inferred(estimate_of(counted([liked, other], (2, 3, 1)), [Preference(liked, other)] * number))
        assert found.gain == pytest.approx(number * math.log(4))
        assert found.explains == (number * math.log(4) >= 1.25 + min(number * math.log(4), math.log(6)))
        assert found.goals == ([1] if number > 2 else [])


def on_ice(walk: Walk, *, flag: float, hole: float) -> float:
    end = "".join(ICE)[walk[-1][3]]
    return flag * (end == "F") + hole * (end == "H")


@pytest.mark.parametrize(
    ("flag", "hole", "goals", "avoided"),
    [(1.0, 0.0, [11], []), (0.0, -1.0, [], [3, 5]), (1.0, -1.0, [11], [3, 5])],
    ids=["wants the flag", "fears the holes", "both"],
)
def test_who_wants_the_flag_and_who_fears_the_holes_are_told_apart(
    flag: float, hole: float, goals: list[int], avoided: list[int]
) -> None:
    walks = lake_walks(120, 8, np.random.default_rng(2))
    judge = partial(by_return, earned=partial(on_ice, flag=flag, hole=hole))
    told = [judge(walks[i], walks[i + 1]) for i in range(0, 120, 2)]
    estimate = estimate_of(counted(walks, (8, 12, 4)), told, (3, 5, 11), np.eye(12)[0])
    found = inferred(estimate)
    assert found.space == "state"
    assert (found.goals, sorted(found.avoided)) == (goals, avoided)
    assert (found.preferences, found.explained_preferences, found.answers) == (60, 60, 0)
    opposite = inferred(
        replace(estimate, preferences=tuple(Preference(one.other, one.preferred, one.equal) for one in told))
    )
    assert 11 not in opposite.goals
    assert not set(opposite.avoided) & {3, 5}


def test_the_pair_is_the_one_of_largest_mutual_information() -> None:
    """Against all pairs and rewards, one by one."""
    problem, rng = make("gridworld", 3), np.random.default_rng(3)
    walks = recorded(problem, 9, rng)
    estimate = estimate_of(counted(walks, problem.mdp.shape), ())
    design = StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
    thetas = rng.choice([0.0, 1.0, -1.0, 0.5], size=(7, design.n_parameters))
    weights = rng.dirichlet(np.ones(7))
    earned = returns(design, estimate.terminal_states, walks)

    def told(i: int, j: int) -> float:
        one = replace(estimate, preferences=(Preference(walks[i], walks[j]),))
        pads = np.zeros((7, 1))
        rows = [direct_probabilities(one.preferences[0], theta, one) for theta in np.hstack((thetas, pads))]
        entropies = [-sum(p * math.log(p) for p in row if p > 0) for row in rows]
        mean = weights @ np.array(rows)
        return float(-(mean * np.log(mean)).sum() - weights @ entropies)

    pairs = {(i, j): told(i, j) for i in range(9) for j in range(i + 1, 9)}
    asked: list[tuple[int, int]] = []
    for _ in range(6):
        pair = informative_pair(earned, thetas, weights, asked)
        assert pair is not None
        assert pairs[pair] == pytest.approx(max(v for k, v in pairs.items() if k not in asked), abs=1e-8)
        asked.append(pair)


def test_without_rewards_to_tell_apart_the_episodes_that_differ_in_most_places_are_shown() -> None:
    walks = [((0, 0, 0, 0), (1, 0, 0, 0)), ((0, 0, 0, 1), (1, 1, 0, 1)), ((0, 2, 0, 3), (1, 3, 0, 3))]
    estimate = estimate_of(counted(walks, (2, 4, 1)), ())
    design = StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
    earned, nothing = returns(design, estimate.terminal_states, walks), np.zeros((0, 4))
    assert informative_pair(earned, nothing, np.zeros(0)) == (1, 2)
    assert informative_pair(earned, nothing, np.zeros(0), [(2, 1)]) == (0, 2)
    assert informative_pair(earned, nothing, np.zeros(0), [(0, 1), (0, 2), (1, 2)]) is None
    alike = returns(design, estimate.terminal_states, [walks[0], walks[0]])
    assert informative_pair(alike, nothing, np.zeros(0)) is None, "two episodes that are paid alike tell nothing"


def engine_of(problem: Problem, walks: Sequence[Walk], **changes: Any) -> Engine:
    settings = Settings(strategy="random", certify="policy", epsilon=0.5, max_samples=10_000, **changes)
    engine = Engine(Simulator(problem.mdp), Answers(ExpertKind()), settings)
    engine.replay((Trajectory.of_moves(walk[0][1], walk), {}) for walk in walks)
    return engine


def judged_pairs(problem: Problem, walks: Sequence[Walk], number: int) -> list[Preference]:
    judge = partial(by_return, earned=partial(paid_by, problem))
    pairs = [(walks[i], walks[j]) for i in range(len(walks)) for j in range(i)]
    return [judge(*pair) for pair in pairs[:number]]


def test_an_engine_that_is_told_preferences_learns_the_reward_and_nothing_else() -> None:
    problem = make("gridworld", 1)
    walks = recorded(problem, 15, np.random.default_rng(1))
    engine = engine_of(problem, walks)
    before = engine.last_turn
    assert goal_in_words(before, problem.layout.state_names) == [
        "The expert gave no answer, so the recovered reward means nothing."
    ]
    told = judged_pairs(problem, walks, 30)
    engine.prefer(*told[:29])
    engine.prefer(told[29])
    after = engine.last_turn
    assert after.belief.estimate.preferences == tuple(told)
    assert after.explanation is not None
    assert after.explanation.goals == [goal_cell(problem)]
    assert before.explanation is not None
    assert before.explanation.goals == []
    for one in (lambda turn: turn.iteration, lambda turn: turn.counts.samples, lambda turn: turn.counts.questions):
        assert one(after) == one(before)
    assert after.belief.evidence == before.belief.evidence
    for kind in ("policy", "set", "dynamics"):
        assert after.certificate(kind).value == before.certificate(kind).value
    glanced = engine.preview(Trajectory.of_moves(walks[0][0][1], walks[0][:3]))
    assert glanced.belief.estimate.preferences == tuple(told)
    assert glanced.explanation is not None
    assert glanced.explanation.goals == [goal_cell(problem)]


def test_preferences_during_an_episode_stay_when_it_ends() -> None:
    problem = make("gridworld", 1)
    walks = recorded(problem, 15, np.random.default_rng(1))
    engine, told = engine_of(problem, walks, infer_after_growth=0), judged_pairs(problem, walks, 30)
    shown = engine.ask()
    assert isinstance(shown, Question)
    engine.prefer(*told)
    while isinstance(shown, Question):
        engine.tell(int(problem.expert[shown.step, shown.state].argmax()))
        shown = engine.ask()
    assert isinstance(shown, Turn)
    assert shown.belief.estimate.preferences == tuple(told)
    assert shown.counts.questions > 0
    assert shown.explanation is not None
    assert shown.explanation.goals == [goal_cell(problem)]
    assert "and 30 of 30 comparisons" in goal_in_words(shown, problem.layout.state_names)[0]


def test_the_pair_of_a_turn_is_never_one_that_was_compared() -> None:
    problem = make("gridworld", 1)
    walks = recorded(problem, 4, np.random.default_rng(1))
    engine, seen = engine_of(problem, walks), set()
    judge = partial(by_return, earned=partial(paid_by, problem))
    while (pair := engine.last_turn.pair_to_compare(walks)) is not None:
        assert pair not in seen
        seen.add(pair)
        engine.prefer(judge(walks[pair[0]], walks[pair[1]]))
    assert len(seen) == 6


def test_the_goal_in_words_speaks_of_comparisons_and_not_of_answers() -> None:
    problem = make("gridworld", 1)
    walks, names = recorded(problem, 15, np.random.default_rng(1)), problem.layout.state_names
    engine = engine_of(problem, walks)
    engine.prefer(*judged_pairs(problem, walks, 20))
    unsure = "The comparisons do not tell what the expert wants: too many simple rewards predict them equally well."
    assert goal_in_words(engine.last_turn, names) == [unsure]
    engine = engine_of(problem, walks)
    engine.prefer(*judged_pairs(problem, walks, 100))
    turn = engine.last_turn
    lines = goal_in_words(turn, names)
    assert lines[0] == f"The expert wants to be in {names[goal_cell(problem)]} (explains 100 of 100 comparisons)."
    assert not any("answer" in line for line in lines)
    assert explained_answers(turn) == {}
    nothing = engine_of(problem, walks, reward="any")
    nothing.prefer(*judged_pairs(problem, walks, 2))
    told = goal_of(nothing.last_turn, names)
    assert told is not None
    assert told.wish.endswith("the recovered reward means nothing.")


def test_preferences_that_contradict_one_another_name_no_goal() -> None:
    problem = make("gridworld", 1)
    walks = recorded(problem, 2, np.random.default_rng(1))
    engine = engine_of(problem, walks)
    engine.prefer(*([Preference(walks[0], walks[1]), Preference(walks[1], walks[0])] * 5))
    (line,) = goal_in_words(engine.last_turn, problem.layout.state_names)
    assert line.startswith("The comparisons tell little about what the expert wants: ")
    assert "answers" not in line


def test_preferences_are_kept_with_a_run(tmp_path: Path) -> None:
    problem = make("gridworld", 1)
    walks = recorded(problem, 15, np.random.default_rng(1))
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    settings = Settings(strategy="random", certify=None, max_samples=10_000)
    engine = Engine(Simulator(problem.mdp), answers_of(expert, settings), settings)
    turn = engine.ask()
    assert isinstance(turn, Turn)
    run = Run.create(tmp_path / "run", settings)
    run._save(turn)
    state = run.state()
    assert state is not None
    assert state.preferences == ()
    told = [*judged_pairs(problem, walks, 9), Preference(walks[0][-2:], walks[1][-3:], equal=True)]
    engine.prefer(*told)
    run._save(engine.last_turn)
    state = run.state()
    assert state is not None
    assert state.preferences == tuple(told)
    again = Engine(Simulator(problem.mdp), answers_of(expert, settings), settings, state=state)
    assert again.belief.estimate.preferences == tuple(told)
    following = again.ask()
    assert isinstance(following, Turn)
    assert following.belief.estimate.preferences == tuple(told)
    np.testing.assert_array_equal(again.belief.recovered.reward, _next(engine).belief.recovered.reward)


def _next(engine: Engine) -> Turn:
    turn = engine.ask()
    assert isinstance(turn, Turn)
    return turn


@pytest.mark.parametrize(
    ("preferred", "message"),
    [
        ((), "preferred has no moves"),
        (((0, 1, 0, 2), (1, 3, 0, 2)), "step 0 led to state 2, but the next move is from state 3 at step 1"),
        (((0, 1, 0, 2), (2, 2, 0, 2)), "from state 2 at step 2"),
    ],
)
def test_what_is_no_episode_is_refused(preferred: Walk, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Preference(preferred, ((0, 0, 0, 0),))


@pytest.mark.parametrize(
    ("move", "message"),
    [((10, 0, 0, 0), "step 10, not one of 0 to 9"), ((0, 9, 0, 0), "state 9"), ((0, 0, 4, 0), "action 4")],
)
def test_an_engine_refuses_moves_of_another_problem(move: tuple[int, int, int, int], message: str) -> None:
    engine = engine_of(make("gridworld", 1), ())
    with pytest.raises(InputError, match=message):
        engine.prefer(Preference((move,), ((0, 0, 0, 0),)))
    assert engine.belief.estimate.preferences == ()


def test_states_that_are_met_one_by_one_may_be_compared() -> None:
    """FrozenLake, known only by its walks: whoever likes the episodes that reach the flag wants the flag."""
    gymnasium = pytest.importorskip("gymnasium")
    from aceirl.envs.gymnasium import GymEnvironment

    lake = GymEnvironment(gymnasium.make("FrozenLake-v1", desc=["SFF", "FHF", "FFG"], is_slippery=False))
    settings = Settings(strategy="random", certify=None, max_samples=100_000, seed=1)
    engine = Engine(lake, Answers(ExpertKind(), wanted=lambda step, state, answered: False), settings)
    walks: list[Walk] = []
    while len(walks) < 60:
        turn = engine.ask()
        assert isinstance(turn, Turn)
        walks += [episode.walk for episode in turn.episodes]
    names = engine.access.names
    flag = names.index("terminal 8")
    judge = partial(by_return, earned=lambda walk: float(walk[-1][3] == flag))
    for _ in range(6):
        pair = engine.last_turn.pair_to_compare(walks)
        assert pair is not None
        engine.prefer(judge(walks[pair[0]], walks[pair[1]]))
    found = engine.last_turn.explanation
    assert found is not None
    assert found.goals == [flag]
    assert engine.last_turn.wish.answers == 6
    assert goal_in_words(engine.last_turn, names)[0].startswith("The comparisons do not tell what the expert wants: ")
