"""The way back: rewards to train on, policies to act by, datasets, and rewards that a person can read."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium_environments import Corridor, Warehouse
from hypothesis import given
from hypothesis import strategies as st

from aceirl import ActiveIRL
from aceirl.envs import make
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.errors import InputError
from aceirl.experts import ObservationExpert
from aceirl.experts.tasks import GymWorld, optimal_task
from aceirl.learner.loop import learn
from aceirl.learner.outputs import (
    EpisodeLog,
    GreedyPolicy,
    ObservedReward,
    RecoveredReward,
    imitation_trajectories,
    price_of_actions,
    save_demonstrations,
    save_minari,
    save_table,
    shaped,
    state_only,
)
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.dynamic_programming import evaluate, greedy_actions, optimal_values
from aceirl.models.tabular.encoder import PADDING_STATE
from aceirl.models.tabular.mdp import MDP, check_policy
from aceirl.models.tabular.metrics import Truth
from aceirl.protocols import Question
from aceirl.rewards import Explanation

HORIZON = 20

# The checker would rather see bare environments, and says so; old versions of it look at attributes they deprecate.
wrapped_on_purpose = pytest.mark.filterwarnings("ignore:.*(unwrapped|other wrappers)")


def lake() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=HORIZON)


@pytest.fixture(scope="module")
def run() -> tuple[EpisodeLog, GymEnvironment, Turn]:
    """A lake learned from its best expert, with all that happened."""
    log = EpisodeLog(lake())
    environment = GymEnvironment(log)
    task = optimal_task(GymWorld.of(log, environment), stationary=True)
    turns = list(learn(task.environment, task.expert, Settings(strategy="advice", max_samples=60)))
    return log, environment, turns[-1]


@pytest.fixture
def greedy(run: tuple[EpisodeLog, GymEnvironment, Turn]) -> GreedyPolicy:
    return GreedyPolicy.of(run[2], run[1])


@pytest.fixture
def learned(run: tuple[EpisodeLog, GymEnvironment, Turn]) -> ObservedReward:
    return ObservedReward.of(run[2], run[1])


def test_what_was_learned_outlives_the_environments_numbering(
    run: tuple[EpisodeLog, GymEnvironment, Turn], learned: ObservedReward
) -> None:
    before = [learned(room, 1) for room in range(16)]
    other = GymEnvironment(run[0].env)
    other.reset(np.random.default_rng(3))
    assert [learned(room, 1) for room in range(16)] == before
    here = learned.states.find(0)
    assert learned(0, 1) == learned.payments[0, here, 1]
    assert learned(0, 1, step=10**6) == learned.payments[-1, here, 1]


@wrapped_on_purpose
def test_the_wrapped_environment_passes_the_checker_and_keeps_the_original_reward(learned: ObservedReward) -> None:
    wrapped = RecoveredReward(lake(), learned)
    check_env(wrapped, skip_render_check=True)
    wrapped.reset(seed=0)
    for action in (1, 1, 2, 1, 2):
        _, reward, terminated, _, info = wrapped.step(action)
        assert not terminated
        assert info["original_reward"] == 0
    _, reward, terminated, _, info = wrapped.step(2)
    assert terminated
    assert info["original_reward"] == 1
    assert reward == learned(14, 2, 15, terminated=True, step=5)


@wrapped_on_purpose
def test_the_log_passes_the_checker() -> None:
    check_env(EpisodeLog(lake()), skip_render_check=True)


def test_what_is_paid_in_states_never_met_can_be_chosen(learned: ObservedReward) -> None:
    """The expert goes down first; nobody ever was on its right."""
    assert learned.states.find(1) is None
    assert learned.unknown_step_reward == 0
    for elsewhere, paid in ((None, -1.0), (-3.0, -3.0)):
        wrapped = RecoveredReward(lake(), learned, elsewhere)
        wrapped.reset(seed=0)
        wrapped.step(2)
        assert wrapped.step(2)[1] == paid, "an expert's action pays nothing here, and any other one less"


SMALL = ["SFF", "FHF", "FFG"]
HOLE, FLAG = 4, 8


def small_lake() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("FrozenLake-v1", desc=SMALL, is_slippery=False, max_episode_steps=8)


def place(room: int) -> list[float]:
    """Features of a room: how far down and right it is, and whether it is in the middle."""
    return [room // 3 + room % 3, float(room == HOLE)]


SPACES: dict[str, dict[str, Any]] = {
    "state": {"reward": "state"},
    "state-action": {"reward": "state-action"},
    "features": {"reward": place},
    "any": {"reward": "any"},
    "max-causal-entropy": {"irl": "max-causal-entropy", "reward": "any"},
    "feasible-point": {"irl": "feasible-point", "reward": "any"},
    "random numbers": {"reward": "any"},
}


@cache
def explored(space: str) -> tuple[ObservedReward, GreedyPolicy]:
    """What was recovered in a space, in the small lake, in which everything was tried; or any table at all."""
    env = small_lake()
    environment = GymEnvironment(env)
    task = optimal_task(GymWorld.of(env, environment), stationary=True)
    settings = Settings(strategy="random", max_samples=600, episodes_per_iteration=50, certify=None, **SPACES[space])
    turn = list(learn(task.environment, task.expert, settings))[-1]
    assert turn.belief.estimate.mdp.known[:, 1:].all(), "everything was tried"
    result = ObservedReward.of(turn, environment)
    if space == "random numbers":
        result = replace(result, reward=np.random.default_rng(0).random(result.reward.shape), explanation=None)
    return result, GreedyPolicy.of(turn, environment)


@pytest.mark.parametrize("space", SPACES)
def test_what_the_wrapper_pays_in_an_episode_is_the_tables_return(space: str) -> None:
    """An agent's episode stops at the end, the learner's goes on there for the steps that are left, in the place where
    it ended. Both rank all ways to act alike: the returns differ by a factor and a constant."""
    result, _ = explored(space)
    wrapped, rng = RecoveredReward(small_lake(), result), np.random.default_rng(0)
    paid, in_table, ends = [], [], set()
    for _ in range(60):
        seen, _ = wrapped.reset()
        earned, by_table, over = 0.0, 0.0, False
        for step in range(8):
            action = int(rng.integers(4))
            state = result.states.find(seen, terminal=over)
            # After the end the learner does whatever is best there.
            by_table += result.reward[step, state, slice(None) if over else action].max()
            if not over:
                seen, reward, over, _, _ = wrapped.step(action)
                earned += float(reward)
        ends.add((seen, over))
        paid.append(earned)
        in_table.append(by_table)
    assert {(HOLE, True), (FLAG, True)} < ends
    assert np.ptp(in_table) > 0.1, "some episodes must be better than others"
    factor = np.ptp(paid) / np.ptp(in_table)
    np.testing.assert_allclose(paid, factor * (np.array(in_table) - min(in_table)) + min(paid), atol=1e-9)


@pytest.mark.parametrize("space", SPACES)
def test_the_table_on_disk_has_all_that_the_wrapper_pays(space: str, tmp_path: Path) -> None:
    result, policy = explored(space)
    save_table(tmp_path / "reward.csv", result, policy)
    with (tmp_path / "reward.csv").open() as file:
        lines = list(csv.DictReader(file))
    own = {line["observation"]: float(line["reward"]) for line in lines if line["terminal"] == ""}
    hurry = own.pop("step cost", 0.0)

    def written(room: int, action: int | None, step: int) -> float:
        """What the lines say of an action, or of an end."""
        if own:
            return float(np.dot(place(room), list(own.values())))
        kept = [
            float(line["reward"])
            for line in lines
            if (line["observation"], line["terminal"]) == (str(room), str(int(action is None)))
            and line["action"] in ("", str(action))
            and line.get("step", str(step)) == str(step)
        ]
        (value,) = kept
        return value

    for step in range(8):
        for room in set(range(9)) - {HOLE, FLAG}:
            for action in range(4):
                assert result(room, action, step=step) == pytest.approx(written(room, action, step) - hurry, abs=1e-5)
        for room, before, action in ((HOLE, 1, 1), (FLAG, 5, 1)):
            paid = result(before, action, room, terminated=True, step=step) - result(before, action, step=step)
            assert paid == pytest.approx(written(room, None, step), abs=1e-5)


@pytest.mark.parametrize("space", ["any", "feasible-point"])
def test_a_table_that_is_the_same_at_every_step_pays_the_same_at_every_step(space: str) -> None:
    """An agent that does not see the step can be trained on it. Ends that are worth the same pay nothing on arrival,
    else there would be more to get by an early end."""
    result, _ = explored(space)
    np.testing.assert_allclose(result.payments, np.broadcast_to(result.payments[:1], result.payments.shape), atol=1e-12)
    for end in result.states.terminal - {PADDING_STATE}:
        np.testing.assert_allclose(result.payments[:, end], 0.0, atol=1e-12)
    assert result.payments[:, 1:].max() <= 1e-12


def test_a_terminal_place_is_paid_once_on_arrival_and_hurry_at_every_step() -> None:
    """A hand-made reward: the last room is worth 0.2, to be done in it 1, and each step costs 0.1."""
    environment = GymEnvironment(Corridor(rooms=3), horizon=9)
    expert = ObservationExpert(lambda room: 1, environment)
    turn = list(learn(environment, expert, Settings(reward="state", max_samples=30, certify=None)))[-1]
    told, states = turn.belief.recovered.explanation, environment.states
    assert told is not None
    last, end = states.find(2), states.find(2, terminal=True)
    assert last is not None
    assert end is not None
    worth = np.zeros(len(states))
    worth[last], worth[end] = 0.2, 1.0
    paid = np.repeat(worth[:, None], 2, axis=1)
    result = replace(ObservedReward.of(turn, environment), explanation=told.of(np.append(worth, 0.1), paid))
    wrapped = RecoveredReward(Corridor(rooms=3), result)
    wrapped.reset(seed=0)
    rewards = [wrapped.step(action)[1:3] for action in (1, 0, 1, 1, 1)]
    assert [over for _, over in rewards] == [False] * 4 + [True]
    assert [reward for reward, _ in rewards] == pytest.approx([-0.1, -0.1, -0.1, -0.1, 0.2 - 0.1 + 1.0])
    shorter = Corridor(rooms=2)
    shorter.observation_space = spaces.Discrete(3)
    paying = RecoveredReward(shorter, result)
    paying.reset(seed=0)
    assert [paying.step(1)[1] for _ in range(2)] == pytest.approx([-0.1, -0.1]), (
        "an end that was never met pays nothing"
    )


def test_features_pay_where_nobody_ever_was() -> None:
    """In a lake that is larger, with the same weights; a state is known by its number only."""
    result, _ = explored("features")
    told = result.explanation
    assert told is not None
    weights = told.theta[:2]
    for room, action in ((11, 0), (HOLE, 2)):
        assert result(room, action) == pytest.approx(np.dot(place(room), weights) - told.step_cost)
    paid = result(0, 0, 13, terminated=True, step=3) - result(0, 0, step=3)
    assert paid == pytest.approx(np.dot(place(13), weights))
    by_state, _ = explored("state")
    assert by_state.explanation is not None
    assert by_state(11, 0) == -by_state.explanation.step_cost


def test_the_greedy_policy_predicts_for_one_observation_and_for_many(greedy: GreedyPolicy) -> None:
    policy, env = greedy, lake()
    observation, _ = env.reset(seed=0)
    steps, total = None, 0.0
    for _ in range(HORIZON):
        action, steps = policy.predict(observation, steps)
        observation, reward, terminated, _, _ = env.step(int(action))
        total += float(reward)
        if terminated:
            break
    assert total == 1
    actions, steps = policy.predict(np.array([0, 4, 0]), None)
    assert actions.tolist() == [policy.predict(room)[0] for room in (0, 4, 0)]
    _, steps = policy.predict(np.array([0, 4, 0]), steps, episode_start=np.array([False, True, False]))
    assert steps[0].tolist() == [2, 1, 2]


def test_answers_come_back_as_demonstrations(greedy: GreedyPolicy, tmp_path: Path) -> None:
    from aceirl.experts import DemonstrationExpert

    save_demonstrations(tmp_path / "answers.jsonl", greedy)
    environment = GymEnvironment(lake())
    environment.states.recall(greedy.states.names)
    expert = DemonstrationExpert.load(tmp_path / "answers.jsonl", environment)
    assert expert.stationary
    assert len(expert.actions) == 6
    rng = np.random.default_rng(0)
    for entry in greedy.demonstrations():
        question = Question(0, environment.states.number(entry.observation), (), rng, observation=entry.observation)
        assert expert.answer(question) == entry.action


def test_transitions_and_answers_become_a_minari_dataset(
    run: tuple[EpisodeLog, GymEnvironment, Turn],
    greedy: GreedyPolicy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    log = run[0]
    with pytest.raises(InputError, match="no episode yet"):
        save_minari("aceirl/empty-v0", EpisodeLog(lake()))
    details = {"author": "tests", "author_email": "none", "code_permalink": "none", "description": "a lake"}
    save_minari("aceirl/lake-v0", log, greedy, algorithm_name="expert", **details)
    dataset = minari.load_dataset("aceirl/lake-v0")
    assert dataset.total_episodes == len(log.episodes)
    for kept, episode in zip(dataset.iterate_episodes(), log.episodes, strict=True):
        np.testing.assert_array_equal(kept.observations, episode.observations)
        np.testing.assert_array_equal(kept.actions, episode.actions)
        np.testing.assert_array_equal(kept.rewards, episode.rewards)
        assert kept.terminations[-1] == episode.terminated
        np.testing.assert_array_equal(kept.infos["expert_action"][:-1], episode.actions, "the expert was followed")


def test_an_environment_that_nobody_registered_becomes_a_dataset_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    log = EpisodeLog(Corridor())
    log.reset(seed=0)
    while not log.step(1)[2]:
        pass
    details = {"author": "tests", "author_email": "none", "code_permalink": "none", "description": "a corridor"}
    save_minari("aceirl/corridor-v0", log, None, algorithm_name="expert", **details)
    assert minari.load_dataset("aceirl/corridor-v0").total_episodes == 1


def test_transitions_become_trajectories_of_imitation(run: tuple[EpisodeLog, GymEnvironment, Turn]) -> None:
    pytest.importorskip("imitation")
    trajectories = imitation_trajectories(run[0])
    assert [len(trajectory.acts) for trajectory in trajectories] == [len(e.actions) for e in run[0].episodes]
    assert all(len(trajectory.obs) == len(trajectory.acts) + 1 for trajectory in trajectories)


@st.composite
def problems(draw: st.DrawFn) -> tuple[MDP, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A random process with a random reward and a random potential."""
    horizon, n_states, n_actions = (draw(st.integers(low, high)) for low, high in ((1, 5), (1, 5), (2, 3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    transitions = rng.dirichlet(np.full(n_states, 0.4), (n_states, n_actions))
    mdp = MDP.from_dense(transitions, initial=0, horizon=horizon)
    return mdp, rng.normal(size=mdp.shape), rng.normal(size=mdp.shape[:2])


@given(problems())
def test_a_potential_changes_no_choice(problem: tuple[MDP, np.ndarray[Any, Any], np.ndarray[Any, Any]]) -> None:
    """Every action value falls by the potential of its state, and so do the values of every policy."""
    mdp, reward, potential = problem
    moved = shaped(mdp, reward, potential)
    before, after = optimal_values(mdp, reward)[0], optimal_values(mdp, moved)[0]
    np.testing.assert_allclose(after, before - potential[:, :, None], atol=1e-9)
    policy = check_policy(np.zeros(mdp.shape[:2], dtype=np.int64), mdp.shape)
    kept, lost = evaluate(mdp, reward, policy)[1], evaluate(mdp, moved, policy)[1]
    np.testing.assert_allclose(lost, kept - potential, atol=1e-9)


@given(problems())
def test_the_price_of_an_action_is_what_it_costs_in_the_end(
    problem: tuple[MDP, np.ndarray[Any, Any], np.ndarray[Any, Any]],
) -> None:
    mdp, reward, _ = problem
    q, v = optimal_values(mdp, reward)
    price = price_of_actions(mdp, reward)
    np.testing.assert_allclose(price, q - v[:, :, None], atol=1e-9)
    np.testing.assert_allclose(price.max(axis=2), 0, atol=1e-9)


@pytest.mark.parametrize("name", ["double-chain", "gridworld"])
def test_a_reward_for_states_is_found_where_the_expert_has_one(name: str) -> None:
    """The truth pays in one state. From the policy alone a reward as sparse is found, and it loses nothing."""
    problem = make(name, seed=0)
    policy = greedy_actions(optimal_values(problem.mdp, problem.reward)[0], np.random.default_rng(0))
    simple = state_only(problem.mdp, policy)
    assert simple is not None
    assert np.count_nonzero(simple.reward) < problem.mdp.n_states / 2
    q, _ = optimal_values(problem.mdp, np.broadcast_to(simple.reward[None, :, None], problem.mdp.shape))
    chosen = np.take_along_axis(q, policy[:, :, None], axis=2)[:, :, 0]
    np.testing.assert_allclose(chosen, q.max(axis=2), atol=1e-6)
    assert not simple.decided[-1].any(), "in the last step every action earns the same"
    assert Truth(problem.mdp, problem.reward).regret(simple.policy) == pytest.approx(0.0, abs=1e-12)


def test_where_no_reward_for_states_will_do_none_is_given() -> None:
    """Both actions lead to the same place, so no reward for places can tell why the second is taken once only."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, :, 1] = transitions[1, :, 0] = 1
    mdp = MDP.from_dense(transitions, initial=0, horizon=4)
    assert state_only(mdp, np.array([[0, 1]] * 4)) is None


@pytest.mark.parametrize("seed", [0, 2])
def test_an_agent_does_not_end_where_the_expert_does_not_head_for(seed: int) -> None:
    """A step cost alone makes a shaft nearby as good as a delivery far away, and every end a goal.

    The agent is the best there is under what the wrapper pays, in the true process.
    """
    ends = dict.fromkeys(Warehouse.DELIVERIES, 1.0) | dict.fromkeys(Warehouse.SHAFTS, -1.0)
    truth = np.broadcast_to([ends.get(cell, -0.05) for cell in range(24)], (24, 4, 24))
    does = Warehouse.best(truth)
    result = ActiveIRL(seed=seed, max_samples=3000).fit(Warehouse(), lambda cell: int(does[cell]), horizon=30)
    told = result.explanation
    assert told is not None
    assert told.step_cost > 0, "what this is about"
    for place in told.goals:
        assert told.paid[place].max() > 0, "what is named, the table pays"
    reward = result.wrapper(Warehouse())._paid
    paid = np.array([[[reward(s, a, n, terminated=n in ends) for n in range(24)] for a in range(4)] for s in range(24)])
    agent, here, arrived = Warehouse.best(paid), np.zeros(24), np.zeros(24)
    here[[0, 6, 12, 18]] = 0.25
    for _ in range(60):
        here = here @ Warehouse.rows()[np.arange(24), agent]
        arrived[list(ends)] += here[list(ends)]
        here[list(ends)] = 0.0
    assert arrived[list(Warehouse.DELIVERIES)].sum() > 0.9


def test_ends_that_are_all_paid_alike_are_no_goals_unless_there_is_one() -> None:
    def explanation(ends: list[bool], paid: list[float]) -> Explanation:
        theta = np.array([*paid, 1.0])
        return Explanation(
            "state", theta, theta, np.array([*range(len(paid)), -1]), np.full(len(paid) + 1, -1), True, 9, 9, 9,
            1.0, 20.0, 5.0, 1.0, 0.0, np.ones(len(theta)), np.array(paid)[:, None], np.array(ends), 10,
        )  # fmt: skip

    assert explanation([False, True, True], [0, 0, 0]).goals == [], "being done is wanted, wherever"
    assert explanation([False, True, False], [0, 0, 0]).goals == [1], "there is but one way to be done"
    assert explanation([False, True, True], [0, 0, -1]).goals == [1]
    assert explanation([False, True, True], [0, 1, 0]).goals == [1]
