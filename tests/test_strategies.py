"""Where the strategies go, and what they may rely on."""

from __future__ import annotations

import numpy as np
import pytest

from aceirl.belief import Belief, Plan
from aceirl.certificates import KINDS
from aceirl.dynamic_programming import greedy_actions, occupancy, optimal_values
from aceirl.engine import Engine
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.explore import STRATEGIES
from aceirl.explore.travel import leading_anywhere, rounded
from aceirl.loop import answers_of, learn
from aceirl.mdp import MDP, Transitions
from aceirl.metrics import Truth
from aceirl.settings import Settings
from aceirl.turns import RunState, Turn

SMALL = {"arm_length": 3, "horizon": 6}


def turns(name: str, environment: str = "four-paths", seed: int = 0, **settings: object) -> list[Turn]:
    problem = make(environment, seed, **(SMALL if environment == "four-paths" else {}))
    chosen = Settings(**{"strategy": name, "max_samples": 300, "certify": None, "seed": seed, **settings})
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    return list(learn(Simulator(problem.mdp), expert, chosen, regret=Truth(problem.mdp, problem.reward).regret))


def belief_after(state: RunState | None, settings: Settings, seed: int = 0) -> Belief:
    """What a run believes in a state; before its first turn, if there is none."""
    problem = make("four-paths", seed, **SMALL)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    return Engine(Simulator(problem.mdp), answers_of(expert, settings), settings, state=state).belief


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("stationary", [True, False])
def test_every_strategy_plans_what_can_be_carried_out(name: str, stationary: bool) -> None:
    settings = Settings(strategy=name, certify=None, episodes_per_iteration=3, stationary_dynamics=stationary)
    later = turns(name, episodes_per_iteration=3, stationary_dynamics=stationary)[-1].state
    for state in (None, later):
        plan = STRATEGIES[name]().plan(belief_after(state, settings), np.random.default_rng(0))
        if plan.allocation is not None:
            assert plan.allocation.sum() == 3 * SMALL["horizon"]
            assert (plan.allocation >= 0).all()
        else:
            assert plan.policy is not None
            np.testing.assert_allclose(plan.policy.sum(axis=2), 1)
            assert (plan.policy >= 0).all()


@pytest.mark.parametrize("name", ["ace-rf", "rf-ucrl"])
def test_reward_free_strategies_ask_nobody(name: str) -> None:
    assert turns(name)[-1].record.answers == 0
    assert turns("ace")[-1].record.answers > 0


@pytest.mark.parametrize("name", ["ace", "travel", "ace-rf"])
def test_plans_come_with_a_gap_that_was_asked_for(name: str) -> None:
    gaps = [turn.record.planner_gap for turn in turns(name, episodes_per_iteration=5)]
    assert all(gap is not None and 0 <= gap <= 0.01 for gap in gaps)


def test_a_plan_for_a_larger_batch_looks_further() -> None:
    """The batch size is part of the problem: one episode goes to the worst place, many are spread."""
    state = turns("random", episodes_per_iteration=10)[-1].state

    def spread(episodes: int) -> float:
        belief = belief_after(state, Settings(strategy="ace", episodes_per_iteration=episodes))
        plan = STRATEGIES["ace"]().plan(belief, np.random.default_rng(0))
        assert plan.policy is not None
        share = occupancy(belief.estimate.mdp, plan.policy).sum(axis=0)
        return float(-(share * np.log(np.maximum(share, 1e-12))).sum())

    assert spread(1000) > spread(1)


def test_guided_follows_the_expert_until_its_way_is_certified_and_then_plans() -> None:
    settings = Settings(strategy="guided", certify="set", episodes_per_iteration=2, max_samples=3000)
    problem = make("four-paths", 0, **SMALL)
    environment, expert = Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)
    target = 0.1 * problem.mdp.horizon
    certified_before, planned = False, []
    for turn in learn(environment, expert, settings):
        planned.append(turn.record.planner_gap is not None)
        assert planned[-1] == certified_before
        certified_before = turn.belief.certificates["policy"].value(turn.belief) <= target * (1 + 1e-9)
    assert planned.count(False) > 10, "it should have followed the expert for a while"
    assert planned.count(True) > 10, "it should have planned for a while"


def test_guided_is_advice_as_long_as_nothing_is_certified() -> None:
    followed, guided = turns("advice", "chain", max_samples=100), turns("guided", "chain", max_samples=100)
    assert [turn.record.regret for turn in followed] == [turn.record.regret for turn in guided]


@pytest.mark.parametrize("seed", range(3))
def test_planning_beats_wandering_where_it_is_far_to_the_goal(seed: int) -> None:
    """Wandering does not reach the far end of the corridor in the samples in which the plan does."""
    budget = {"max_samples": 6000, "episodes_per_iteration": 50}
    far = [turns(name, "double-chain", seed, **budget)[-1].counts.visits[:, 26:].sum() for name in ("random", "ace")]
    assert far[1] > 10 * far[0]


def test_an_unsampled_row_leads_anywhere_and_a_sampled_one_stays() -> None:
    successors, probabilities = np.array([2, 0, 1], dtype=np.int32), np.array([1.0, 0.25, 0.75])
    rows = Transitions(3, 1, np.array([0, 0, 1, 3]), successors, probabilities)
    known = MDP(2, rows, np.eye(3)[0])
    expected = np.array([[1 / 3, 1 / 3, 1 / 3], [0.0, 0.0, 1.0], [0.25, 0.75, 0.0]])
    np.testing.assert_allclose(leading_anywhere(known).transitions.dense()[:, 0], expected)


def test_rounding_keeps_the_total_and_the_mean() -> None:
    allocation = np.array([[[0.2, 1.5], [2.3, 0.0]]])
    draws = np.stack([rounded(allocation, 4, np.random.default_rng(seed)) for seed in range(4000)])
    assert (draws.sum(axis=(1, 2, 3)) == 4).all()
    assert (draws >= np.floor(allocation)).all()
    # One draw is left over: a Bernoulli share of standard error at most 0.008, so 0.05 is over six of them.
    np.testing.assert_allclose(draws.mean(axis=0), allocation, atol=0.05)


def test_the_dynamics_certificate_bounds_the_loss_of_any_plan() -> None:
    """For rewards of every sort, planned for in the estimate and carried out in the truth."""
    assert "dynamics" in KINDS
    rng = np.random.default_rng(0)
    for seed in range(3):
        problem = make("random-mdp", seed, n_states=4, n_actions=2, horizon=4)
        expert = PolicyExpert(problem.expert, problem.mdp.shape)
        settings = Settings(strategy="rf-ucrl", certify="dynamics", epsilon=1.0, episodes_per_iteration=2000, seed=seed)
        *_, last = learn(Simulator(problem.mdp), expert, settings.model_copy(update={"max_samples": 10**7}))
        assert last.record.stopped == "certificate"
        known = last.belief.estimate.mdp
        for power in (0.2, 1.0, 20.0):
            reward = rng.random(problem.mdp.shape) ** power
            actions = greedy_actions(optimal_values(known, reward)[0], rng)
            truth = Truth(problem.mdp, reward)
            assert truth.best - truth.value(actions) <= last.record.certificates["dynamics"] <= 1.0


def test_a_plan_says_where_it_was_made_for() -> None:
    assert Plan().ask
    belief = belief_after(turns("random")[-1].state, Settings())
    assert not STRATEGIES["rf-ucrl"]().plan(belief, np.random.default_rng(0)).ask
