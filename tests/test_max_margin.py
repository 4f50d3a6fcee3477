"""Maximum margin: feasible whatever is known, ahead where it can be, and no reward without a reason."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from aceirl import ActiveIRL, Turn
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.irl import ALGORITHMS, FeasiblePoint, MaxMargin, reproducing_answers
from aceirl.irl.max_margin import PRICE
from aceirl.learner.named import read
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray
from aceirl.protocols import Moves
from aceirl.rewards import FeasibleRewardSet, action_values, contains, extreme, sample

max_margin = MaxMargin(reproduce_answers=False)
feasible_point = FeasiblePoint()


def observed(name: str, seed: int, episodes: int, *, everywhere: bool = False) -> Estimate:
    """What uniformly random episodes tell, the expert asked in every state visited, or in every state there is."""
    problem = make(name, seed)
    shape = problem.mdp.shape
    rng = np.random.default_rng(seed)
    counts = Counts.of_moves(Simulator(problem.mdp).rollout(np.full(shape, 1 / shape[2]), episodes, rng), shape)
    asked = everywhere | (counts.visits.sum(axis=2, keepdims=True) > 0)
    answers = asked * problem.expert.astype(np.int64)
    return Estimate.of(counts.with_answers(answers), kind=ExpertKind(), delta=0.1, initial=problem.mdp.initial)


def margins(estimate: Estimate, reward: FloatArray, unknown_step_reward: float) -> FloatArray:
    """How far the expert's action is ahead of the best other one, wherever it is known."""
    uses, q = estimate.expert_uses, action_values(estimate, reward, unknown_step_reward)
    ahead = np.where(uses, q, np.inf).min(axis=2) - np.where(uses, -np.inf, q).max(axis=2)
    return np.asarray(ahead[uses.any(axis=2)])


def objective(estimate: Estimate, reward: FloatArray, unknown_step_reward: float, rmax: float) -> float:
    return float(np.minimum(margins(estimate, reward, unknown_step_reward), rmax).sum() - PRICE * reward.sum())


@pytest.mark.parametrize("name", ["random-mdp", "chain", "gridworld", "double-chain"])
@pytest.mark.parametrize("episodes", [1, 5, 100])
def test_the_reward_is_feasible_whatever_is_known(name: str, episodes: int) -> None:
    estimate = observed(name, 0, episodes)
    recovered = max_margin(estimate, 2.0)
    assert recovered.infeasibility <= 2e-6
    assert (recovered.reward >= 0).all()
    assert (recovered.reward <= 2.0).all()
    assert 0 <= recovered.unknown_step_reward <= 2.0
    assert contains(FeasibleRewardSet.of_estimate(estimate, 2.0, recovered.unknown_step_reward), recovered.reward)


@pytest.mark.parametrize("name", ["random-mdp", "gridworld"])
def test_no_member_has_more_margin_for_its_price(name: str) -> None:
    estimate = observed(name, 1, 400, everywhere=True)
    assert estimate.expert_uses.any(axis=2).all()
    recovered = max_margin(estimate, 1.0)
    best = objective(estimate, recovered.reward, recovered.unknown_step_reward, 1.0)
    exact = FeasibleRewardSet.of_estimate(estimate, 1.0, recovered.unknown_step_reward)
    rng = np.random.default_rng(0)
    point = feasible_point(estimate, 1.0).reward
    for member in (point, *sample(exact, rng, 5), extreme(exact, rng.normal(size=point.shape)).reward):
        assert objective(estimate, member, recovered.unknown_step_reward, 1.0) < best - 1e-3
        nearby = 0.99 * recovered.reward + 0.01 * member
        assert objective(estimate, nearby, recovered.unknown_step_reward, 1.0) <= best + 1e-6


@pytest.mark.parametrize("name", ["random-mdp", "gridworld", "double-chain"])
def test_it_explains_most_with_little(name: str) -> None:
    estimate = observed(name, 2, 400, everywhere=True)
    recovered, point = max_margin(estimate, 1.0), feasible_point(estimate, 1.0)
    assert recovered.reward.sum() < 0.4 * point.reward.sum()
    assert (margins(estimate, recovered.reward, recovered.unknown_step_reward) > 1e-6).mean() > 0.6
    greedy = reproducing_answers(estimate, recovered, 1.0)
    assert (margins(estimate, greedy.reward, greedy.unknown_step_reward) > 0).all()
    assert greedy.blend <= 2.0**-8


def test_two_states_are_solved_by_hand() -> None:
    """The expert goes to state 1, and does the same everywhere at the last step.

    A reward of its last action in state 1 puts it ahead there and, for the price of one, in both states before. One in
    state 0 would undo that, and no other earns more than its own margin.
    """
    state, action, successor, count = np.array([(s, a, a, 1) for s in (0, 1) for a in (0, 1)]).T
    moves = Moves(np.zeros(4, dtype=np.int64), state, action, successor, count, starts=np.array([4, 0]))
    answers = np.array([[[0, 1], [0, 1]], [[1, 0], [1, 0]]])
    counts = Counts.of_moves(moves, (2, 2, 2)).with_answers(answers)
    recovered = max_margin(Estimate.of(counts, kind=ExpertKind(), delta=0.1), 3.0)
    expected = np.zeros((2, 2, 2))
    expected[1, 1, 0] = 3.0
    np.testing.assert_allclose(recovered.reward, expected, atol=1e-9)


def test_nothing_known_gives_no_reward() -> None:
    estimate = Estimate.of(Counts.empty((3, 2, 2)), kind=ExpertKind(), delta=0.1, initial=np.array([1.0, 0.0]))
    recovered = max_margin(estimate, 1.0)
    assert not recovered.reward.any()
    assert recovered.infeasibility == 0.0


def test_it_is_called_by_its_name() -> None:
    estimate = observed("chain", 0, 3)
    named = read("max-margin", "algorithm", ALGORITHMS)(estimate, 1.0, {})
    np.testing.assert_array_equal(named.reward, MaxMargin()(estimate, 1.0).reward)


def inferred_at(**settings: Any) -> list[int]:
    """After how many samples of a run a reward was inferred."""
    found: list[int] = []

    def note(turn: Turn) -> None:
        if turn.inferred_at not in found:
            found.append(turn.inferred_at)

    ActiveIRL(reward="any", certify=None, **settings).fit("gridworld", callback=note)
    return found


def test_a_run_solves_few_of_its_large_programmes() -> None:
    """Others infer a reward whenever the samples have grown by a tenth: six times as often."""
    few = inferred_at(irl="max-margin", max_samples=600)
    many = inferred_at(irl="feasible-point", max_samples=600)
    assert all(later >= 1.5 * earlier for earlier, later in pairwise(few[:-1]))
    assert few[-1] == many[-1] >= 600, "a run ends on a reward that knows all samples"
    assert len(few) <= 12 < len(many) / 2
    assert inferred_at(irl="max-margin", max_samples=50, infer_after_growth=0) == [10, 20, 30, 40, 50]
