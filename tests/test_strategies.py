"""Where the strategies go, and what they may rely on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aceirl.certificates import KINDS
from aceirl.certificates.forecast import chance_taken, forecast
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.explore import STRATEGIES, Guided
from aceirl.explore.advice import Advice
from aceirl.explore.probe import Probe
from aceirl.explore.travel import leading_anywhere, rounded
from aceirl.irl.belief import Belief, Plan
from aceirl.learner.collect import Answers, Streams, collect
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of, learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import RunState, Turn
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import greedy_actions, occupancy, optimal_values
from aceirl.models.tabular.estimate import ExpertKind
from aceirl.models.tabular.mdp import MDP, Transitions
from aceirl.models.tabular.metrics import Truth
from aceirl.protocols import Capabilities, Moves

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


class Drawing(Probe):
    """A strategy of one's own that is made of one of ours, and draws."""

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        return replace(super().plan(belief, rng), follow=rng.random(belief.shape[:2]))


def test_a_strategy_made_of_one_that_does_not_draw_has_a_generator_of_its_run() -> None:
    problem = make("four-paths", 0, **SMALL)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    settings = Settings(strategy=Drawing(), max_samples=300, certify=None)
    first, again = (list(learn(Simulator(problem.mdp), expert, settings))[-1].counts.visits for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize(
    ("name", "stationary"),
    [(name, stationary) for name in STRATEGIES for stationary in (True, False) if stationary or name != "sparing"],
)
def test_every_strategy_plans_what_can_be_carried_out(name: str, stationary: bool) -> None:
    settings = Settings(strategy=name, certify=None, episodes_per_iteration=3, stationary_dynamics=stationary)
    later = turns(name, episodes_per_iteration=3, stationary_dynamics=stationary)[-1].state
    for state in (None, later):
        plan = STRATEGIES[name]().plan(belief_after(state, settings), np.random.default_rng(0))
        if plan.allocation is not None:
            assert plan.allocation.sum() == 3 * SMALL["horizon"]
            assert (plan.allocation >= 0).all()
        elif plan.policy is None:
            assert plan.always_follows
        else:
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


def which(plan: Plan, belief: Belief) -> str:
    """Whose plan it is."""
    if "gap" in plan.evidence:
        return "ace"
    assert plan.policy is not None
    assert plan.follow is not None
    for strategy in (Probe(), Advice()):
        own = strategy.plan(belief, np.random.default_rng(0))
        assert own.policy is not None
        assert own.follow is not None
        if np.array_equal(plan.policy, own.policy) and np.array_equal(plan.follow, own.follow):
            assert plan.follow_new == own.follow_new
            return type(strategy).__name__.lower()
    raise AssertionError("guided plans like nobody")


@pytest.mark.parametrize("episodes", [1, 3])
def test_guided_probes_first_then_follows_and_probes_now_and_then_until_it_is_certified(episodes: int) -> None:
    problem = make("four-paths", 0, **SMALL)
    settings = Settings(certify="set", episodes_per_iteration=episodes, max_samples=episodes * 540)
    assert settings.strategy == Guided(probing_episodes=20, probe_every=6)
    made = []
    for turn in learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings):
        belief = turn.belief
        found = which(Guided().plan(belief, np.random.default_rng(0)), belief)
        if belief.iteration * episodes < 20:
            expected = "probe"
        elif belief.certified("policy"):
            expected = "ace"
        else:
            expected = "probe" if belief.iteration % 6 == 0 else "advice"
        assert found == expected
        made.append((belief.iteration * episodes >= 20, found))
    assert {(False, "probe"), (True, "probe"), (True, "advice"), (True, "ace")} == set(made)


def test_guided_probes_a_stochastic_expert_for_longer_and_then_in_every_other_iteration() -> None:
    problem = make("four-paths", 0, **SMALL)
    expert = PolicyExpert(0.9 * problem.expert + 0.1 / 4, problem.mdp.shape)
    made = []
    assert Guided().stochastic_episodes == 100
    guided = Guided(stochastic_episodes=24)
    for turn in learn(Simulator(problem.mdp), expert, Settings(strategy=guided, certify=None, max_samples=180)):
        plan = guided.plan(turn.belief, np.random.default_rng(0))
        made.append((turn.belief.iteration, which(plan, turn.belief)))
    assert all(found == ("probe" if k < 24 or k % 2 == 0 else "ace") for k, found in made)
    assert {found for _, found in made} == {"probe", "ace"}


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize(
    ("deviations", "deviate", "share"), [(3.0, 0.15, 0.05), (0.2, 0.0, 0.3), (1.0, 0.1, 0.2), (0.0, 0.2, 0.2)]
)
def test_probe_takes_what_was_tried_least_in_the_states_that_were_probed_least(
    stationary: bool, deviations: float, deviate: float, share: float
) -> None:
    """Levels: how often the action tried least was tried. Those probed hold the share of all visits, and no more.

    So many visits of an episode, times the chance of deviating in each, are the deviations; but at most half of them.
    """
    state = turns("probe", max_samples=180, stationary_dynamics=stationary)[-1].state
    belief = belief_after(state, Settings(strategy="probe", stationary_dynamics=stationary))
    plan = Probe(deviations=deviations, deviate=deviate, share=share).plan(belief, np.random.default_rng(0))
    assert plan.policy is not None
    assert plan.follow is not None
    seen = state.counts.visits
    tried = np.broadcast_to(seen.sum(axis=0), seen.shape) if stationary else seen
    level, met = tried.min(axis=2), seen.sum(axis=2)
    highest = min(one for one in np.unique(level) if met[level <= one].sum() >= share * met.sum())
    assert 0 < (level > highest).sum() < level.size
    wanted = max(deviations, deviate * len(level))
    assert plan.follow_new == pytest.approx(1 - min(0.5, wanted / len(level)))
    visits = len(level) * met[level <= highest].sum() / met.sum()
    chance = min(0.5, wanted / visits)
    for h, s in np.ndindex(level.shape):
        if level[h, s] > highest:
            assert plan.follow_at(h, s, planned=True) == 1.0
            continue
        rarest = tried[h, s] == level[h, s]
        assert plan.follow_at(h, s, planned=True) == pytest.approx(1 - chance)
        np.testing.assert_allclose(plan.policy[h, s], rarest / rarest.sum())


def test_probe_only_follows_in_the_first_episode_unless_many_are_planned_at_once() -> None:
    for episodes, follows in ((1, True), (5, False)):
        settings = Settings(strategy="probe", episodes_per_iteration=episodes)
        plan = Probe().plan(belief_after(None, settings), np.random.default_rng(0))
        assert plan.follow is not None
        assert (plan.always_follows, plan.follow_new in (None, 1.0)) == (follows, follows)
    horizon = belief_after(None, settings).shape[0]
    counts = turns("probe", max_samples=3 * horizon)[0].counts
    asked = turns("advice", max_samples=3 * horizon)[0].counts
    np.testing.assert_array_equal(counts.visits, asked.visits)


def test_probe_deviates_as_often_as_it_should_before_anything_is_known() -> None:
    settings = Settings(strategy="probe", episodes_per_iteration=2)
    horizon = belief_after(None, settings).shape[0]
    plan = Probe(deviations=2.0).plan(belief_after(None, settings), np.random.default_rng(0))
    assert plan.policy is not None
    assert plan.follow is not None
    np.testing.assert_allclose(1 - plan.follow, min(0.5, 2 / horizon))
    np.testing.assert_allclose(plan.policy, 0.25)


def planned(seed: int = 0, first_action: int | None = None) -> tuple[Belief, Plan]:
    """What probing plans after some episodes of a process in which nothing happens that was not seen before."""
    problem = make("four-paths", seed, **SMALL)
    seen = turns("probe", seed=seed, max_samples=120)[-1].state
    rows = (1 << 20) * problem.mdp.transitions.matrix
    moves = rows.tocoo()
    often = np.maximum(2, np.rint(moves.data)).astype(np.int64)
    state, action = np.divmod(moves.coords[0].astype(np.int64), 4)
    none = np.zeros(problem.mdp.n_states, dtype=np.int64)
    sure = Moves(np.zeros_like(state), state, action, moves.coords[1].astype(np.int64), often, none)
    counts = seen.counts + Counts.of_moves(sure, problem.mdp.shape)
    belief = belief_after(replace(seen, counts=counts), Settings(strategy="probe"), seed)
    plan = Probe(share=0.6).plan(belief_after(seen, Settings(strategy="probe"), seed), np.random.default_rng(0))
    return belief, replace(plan, first_action=first_action)


@pytest.mark.parametrize("first_action", [None, 2])
def test_a_plan_that_follows_in_part_does_what_it_says_and_deviates_as_forecast(first_action: int | None) -> None:
    """The actions taken, the states met and the first deviations of 40 000 episodes, against what was worked out.

    A frequency over `n` draws has a standard error of at most `0.5/sqrt(n)`; six of them are allowed.
    """
    belief, plan = planned(first_action=first_action)
    problem, episodes = make("four-paths", 0, **SMALL), 40_000
    known = belief.known_actions
    assert known is not None
    assert (known < 0).any()
    reference = known.copy()
    if first_action is not None:
        reference[0] = first_action
    expert = Answers(ExpertKind(), problem.expert)
    walking = collect(
        Capabilities.of(Simulator(problem.mdp)),
        expert,
        plan,
        episodes,
        belief.model,
        reference,
        Streams(1, 0),
    )
    with pytest.raises(StopIteration) as over:
        next(walking)
    seen = over.value.value

    assert plan.policy is not None
    assert plan.follow is not None
    follow = np.asarray(plan.follow)[:, :, None]
    mixed = follow * problem.expert + (1 - follow) * plan.policy
    if first_action is not None:
        mixed[0] = np.eye(4)[first_action]
    there = occupancy(problem.mdp, mixed)
    np.testing.assert_allclose(seen.counts.visits / episodes, there, atol=6 * 0.5 / np.sqrt(episodes))

    taken = chance_taken(plan, reference)
    for h, s in np.argwhere(reference >= 0):
        met = int(seen.counts.visits[h, s].sum())
        if met >= 100:
            assert seen.counts.visits[h, s, reference[h, s]] / met == pytest.approx(taken[h, s], abs=3 / np.sqrt(met))

    law = forecast(belief.estimate, reference, belief.target, taken).law
    assert law.sum() == pytest.approx(1)
    assert seen.first_deviations.sum() == episodes
    np.testing.assert_allclose(seen.first_deviations / episodes, law, atol=6 * 0.5 / np.sqrt(episodes) + 1e-4)
    always = forecast(belief.estimate, reference, belief.target).law
    assert np.abs(always - law).max() > 0.1, "who follows in part deviates more often"


def test_probing_tries_what_following_never_does_near_the_expert_s_way() -> None:
    probed, followed, wandered = (turns(name, max_samples=300)[-1].counts for name in ("probe", "advice", "random"))
    problem = make("four-paths", 0, **SMALL)
    way = occupancy(problem.mdp, problem.expert).sum(axis=(0, 2)) > 0.2

    def tried(counts: Counts) -> float:
        """The share of actions that were tried in the states that the expert meets."""
        return float((counts.visits.sum(axis=0)[way] > 0).mean())

    assert tried(probed) == 1.0 > tried(followed)
    assert probed.visits[:, way].sum() > 1.3 * wandered.visits[:, way].sum()


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
