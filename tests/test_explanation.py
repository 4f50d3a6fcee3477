"""What is said of a reward: figures that fit together, and places that are sought or avoided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import counts

from aceirl.irl import SparseLikelihood
from aceirl.irl.likelihood import ERROR_RATES, Likelihood
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards import SPACES, Explanation, RewardSpace, StateActionReward, StateReward


def needed(compared: int) -> float:
    """The evidence that a reward needs if the expert does not err."""
    return min(2.5, max(1.25, compared / 36))


@given(
    counts(),
    st.sampled_from([None, StateReward(), StateActionReward()]),
    st.sampled_from([0.5, 1.0, 4.0]),
    st.booleans(),
)
@settings(max_examples=60)
def test_the_figures_fit_together(some: Counts, space: RewardSpace | None, rmax: float, ends: bool) -> None:
    """Whatever was counted, whatever was answered."""
    terminal = (some.shape[1] - 1,) if ends and some.shape[1] > 1 else ()
    estimate = Estimate.of(some, kind=ExpertKind(), delta=0.1, terminal=terminal)
    recovered = SparseLikelihood()(estimate, rmax, None, space)
    seen = recovered.explanation
    assert seen is not None
    assert seen.space == space.name if space else seen.space in ("state", "state-action", "any")
    assert seen.answers == np.count_nonzero(some.answers.any(axis=2))
    assert 0 <= seen.explained <= seen.compared <= seen.answers
    assert 0 <= seen.share <= 1
    assert seen.gain == seen.chance - seen.loss
    assert seen.evidence == pytest.approx(seen.gain + seen.consistency)
    assert min(seen.loss, seen.expected, seen.deviation) >= 0
    assert seen.error_rate in ERROR_RATES
    assert seen.explains == (seen.gain >= 1.5 if seen.error_rate else seen.evidence >= needed(seen.compared))
    assert len(seen.theta) == len(seen.map_estimate) == len(seen.states) == len(seen.actions) == len(seen.importance)
    assert not seen.importance[seen.map_estimate == 0].any()
    assert seen.by_state.shape == seen.ends.shape == some.shape[1:2]
    assert not (seen.ends & ~np.isin(np.arange(some.shape[1]), terminal)).any()
    if not seen.explains:
        assert seen.goals == seen.avoided == []
    assert not set(seen.goals) & set(seen.avoided)
    if seen.space != "any":
        assert np.abs(seen.theta).max() == np.abs(seen.map_estimate).max() == 1
        likelihood = Likelihood(estimate)
        chosen = SPACES[seen.space]()
        design = chosen.design_matrix(estimate.mdp, estimate.terminal_states)
        assert seen.loss == pytest.approx(likelihood.loss(design.table(seen.map_estimate)), rel=1e-9, abs=1e-9)
        assert seen.explained == likelihood.explained(design.table(seen.map_estimate))[1].sum()
        assert seen.chance == pytest.approx(likelihood.loss(np.zeros(some.shape)), rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(seen.paid, design.paid(seen.theta))
        assert seen.has_step_cost == bool(terminal)
        assert seen.step_cost == (seen.theta[-1] if terminal else 0.0)
    elif space is None:
        assert seen.explained == seen.compared, "to repeat the answers explains them all, and says nothing"
        assert not seen.explains


def example(
    paid: FloatArray,
    *,
    gain: float = 10.0,
    ends: tuple[int, ...] = (),
    step_cost: float = 0.0,
    map_estimate: FloatArray | None = None,
) -> Explanation:
    """An explanation of eight answers by a reward `paid [S, A]`; the likeliest parameters are the same unless given."""
    n_states, n_actions = paid.shape
    states, actions = np.divmod(np.arange(paid.size), n_actions)
    theta = np.append(paid.ravel(), step_cost)
    return Explanation(
        space="state-action",
        theta=theta,
        map_estimate=theta if map_estimate is None else np.append(map_estimate.ravel(), step_cost),
        states=np.append(states, -1),
        actions=np.append(actions, -1),
        has_step_cost=True,
        answers=10,
        compared=8,
        explained=6,
        loss=20.0 - gain,
        chance=20.0,
        expected=20.0 - gain,
        deviation=1.0,
        error_rate=0.0,
        importance=np.zeros(paid.size + 1),
        paid=paid,
        ends=np.isin(np.arange(n_states), ends),
        horizon=10,
    )


PAID = np.array([[0.0, 0.0], [0.5, 1.0], [0.0, -1.0], [-0.5, -0.25], [-1.0, -1.0]])


def test_goals_are_the_places_of_the_best_payment_and_avoided_those_where_nothing_better_is_paid() -> None:
    seen = example(PAID)
    assert seen.goals == [1]
    assert seen.avoided == [4, 3], "the worst first; in state 2 one can do something harmless"
    np.testing.assert_array_equal(seen.by_state, [0.0, 1.0, 0.0, -0.25, -1.0])
    assert seen.share == 6 / 8
    assert example(-np.abs(PAID)).goals == [], "nothing is sought where nothing is paid"
    assert example(np.abs(PAID)).avoided == []
    two = example(np.array([[0.0, 0.5], [1.0, 0.0], [0.0, 1.0]]))
    assert two.goals == [1, 2]


def test_places_that_only_the_mean_is_about_are_neither_goals_nor_avoided() -> None:
    """The mean over rewards that are about as likely has a little of everything."""
    avoided = np.array([[0.0, 0.0], [-1.0, -1.0], [0.0, 0.0]])
    mean = np.array([[0.1, 0.1], [-1.0, -1.0], [-0.1, -0.1]])
    seen = example(mean, map_estimate=avoided)
    assert (seen.goals, seen.avoided) == ([], [1])
    sought = example(-mean, map_estimate=-avoided)
    assert (sought.goals, sought.avoided) == ([1], [])
    # Where two places are about as likely, the goal is that of the larger mean.
    torn = example(np.array([[0.8, 0.8], [1.0, 1.0]]), map_estimate=np.array([[1.0, 1.0], [0.0, 0.0]]))
    assert torn.goals == [1]


@pytest.mark.parametrize("compared", [0, 8, 60, 89, 90, 1000])
def test_nothing_is_named_by_a_reward_that_does_not_explain(compared: int) -> None:
    """The more answers there are, the more must speak for it, up to a point."""
    barely, hardly = (
        replace(example(PAID, gain=needed(compared) + more), compared=compared, explained=0) for more in (0.01, -0.01)
    )
    assert (barely.explains, hardly.explains) == (True, False)
    assert (barely.goals, barely.avoided) == ([1], [4, 3])
    assert (hardly.goals, hardly.avoided) == ([], [])


def test_answers_that_are_more_consistent_than_the_estimate_are_evidence_unless_the_expert_errs() -> None:
    seen = replace(example(PAID, gain=1.0), expected=21.0, deviation=4.0)
    assert seen.consistency == pytest.approx(0.5)
    assert seen.evidence == pytest.approx(1.5)
    assert seen.explains
    assert not replace(seen, error_rate=0.1).explains, "whoever errs is not consistent: the gain counts alone"
    assert replace(seen, error_rate=0.1, chance=seen.chance + 0.6).explains
    assert replace(seen, deviation=0.0).consistency == 0.0


def test_an_end_saves_a_hurried_expert_the_whole_episode() -> None:
    seen = example(PAID, ends=(0,), step_cost=0.3)
    np.testing.assert_allclose(seen.by_state, [3.0, 1.0, 0.0, -0.25, -1.0])
    assert seen.goals == [0]
    assert seen.step_cost == 0.3
    assert example(PAID, ends=(0,)).goals == [1], "who is not in a hurry does not care for an end that pays nothing"


def test_the_same_words_for_other_parameters() -> None:
    other = example(PAID).of(np.append(-PAID.ravel(), 0.0), -PAID)
    assert other.goals == [2, 4]
    np.testing.assert_array_equal(other.map_estimate, other.theta)
    assert (other.loss, other.answers) == (example(PAID).loss, 10)
