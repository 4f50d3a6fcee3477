"""Any discrete Gymnasium environment, through `reset` and `step` alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium_environments import Corridor, Failing, Guarded, Shown

from aceirl.envs.gymnasium import GymAdapter, GymEnvironment
from aceirl.envs.search import searched
from aceirl.envs.truth import exact_model, model_of
from aceirl.errors import AnswerError, InputError
from aceirl.experts import FunctionExpert, ObservationExpert
from aceirl.experts.tasks import GymWorld, Source, open_task, optimal_task
from aceirl.explain.goal import goal_in_words
from aceirl.irl import MaxCausalEntropy
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import RunState, Turn
from aceirl.models.tabular.bins import Bins
from aceirl.models.tabular.confidence import kl
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.encoder import PADDING_STATE, StateIndex
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray
from aceirl.models.tabular.metrics import Truth
from aceirl.protocols import Capabilities, Environment, Expert, Moves
from aceirl.rewards import AnyReward
from aceirl.runs import Run

SPACES = {
    "discrete": spaces.Discrete(9, start=-4),
    "multi-discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi-binary": spaces.MultiBinary(4),
    "boxed integers": spaces.Box(-2, 3, shape=(2, 2), dtype=np.int16),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Discrete(4, start=1))),
    "dict": spaces.Dict({"cell": spaces.Discrete(3), "view": spaces.Box(0, 1, shape=(2,), dtype=np.uint8)}),
    "text": spaces.Text(2, charset="ab"),
}


def samples(space: gymnasium.Space[Any], count: int) -> list[Any]:
    space.seed(1)
    return [space.sample() for _ in range(count)]


@pytest.mark.parametrize("kind", SPACES)
def test_observations_of_every_kind_are_numbered_and_read_back(kind: str) -> None:
    space, seen = SPACES[kind], samples(SPACES[kind], 300)
    states = StateIndex(space)
    numbers = [states.number(observation) for observation in seen]
    assert numbers[0] == 1, "nowhere comes first, and what is met follows"
    assert sorted(set(numbers)) == list(range(1, len(states)))
    texts = {str(observation) for observation in seen}
    assert len(states) == len(texts) + 1

    again = StateIndex(space, names=states.names)
    assert [again.find(observation) for observation in seen] == numbers
    for number in set(numbers):
        assert space.contains(again.observation(number))


@pytest.mark.parametrize("kind", SPACES)
def test_an_observation_that_ends_an_episode_is_another_state_than_the_same_one_met_on_the_way(kind: str) -> None:
    first, second = list({str(one): one for one in samples(SPACES[kind], 30)}.values())[:2]
    states = StateIndex(SPACES[kind])
    numbers = [states.number(first), states.number(first, terminal=True), states.number(second, terminal=True)]
    assert numbers == [1, 2, 3]
    assert states.terminal == {PADDING_STATE, 2, 3}
    assert states.find(second) is None, "it was met as an end only"
    assert states.names[2] == f"terminal {states.names[1]}"

    again = states.numbered(states.names)
    assert again.names == states.names
    assert again.terminal == states.terminal
    assert [again.find(first), again.find(first, terminal=True), again.find(second, terminal=True)] == numbers
    assert again.key(again.observation(2)) == states.key(first)


def test_cells_of_a_discretiser_have_ends_of_their_own_too() -> None:
    states = StateIndex(spaces.Box(-1, 1, shape=(1,), dtype=np.float32), Bins((-1,), (1,), (2,)))
    left, also_left = np.array([-0.9], dtype=np.float32), np.array([-0.1], dtype=np.float32)
    assert [states.number(left), states.number(left, terminal=True), states.number(also_left, terminal=True)] == [
        1,
        2,
        2,
    ]


def test_how_many_states_there_can_be_is_known_where_it_can_be() -> None:
    counts = {kind: StateIndex(space).possible_states for kind, space in SPACES.items()}
    expected = {
        "discrete": 9,
        "multi-discrete": 24,
        "multi-binary": 16,
        "boxed integers": 6**4,
        "tuple": 12,
        "dict": 12,
    }
    both = {kind: 2 * count + 1 for kind, count in expected.items()}
    assert counts == both | {"text": None}, "each observation once as a place to act in and once as an end, and nowhere"
    assert StateIndex(spaces.Box(0, 255, shape=(7, 7, 3), dtype=np.uint8)).possible_states is None


def test_continuous_observations_need_a_discretiser_and_the_error_says_so() -> None:
    space = spaces.Box(-1, 1, shape=(2,), dtype=np.float32)
    with pytest.raises(InputError, match="discretise=Bins"):
        StateIndex(space)
    states = StateIndex(space, Bins((-1, -1), (1, 1), (4, 2)))
    assert states.possible_states == 17
    here = states.number(np.array([0.1, 0.9], dtype=np.float32))
    assert states.number(np.array([0.4, 0.1], dtype=np.float32)) == here
    assert states.number(np.array([0.6, 0.1], dtype=np.float32)) == here + 1


@pytest.mark.parametrize(
    ("value", "cell"), [(-9.0, 0), (-1.0, 0), (-0.51, 0), (-0.49, 1), (0.0, 2), (0.99, 3), (1.0, 3), (np.inf, 3)]
)
def test_bins_hold_their_bounds_and_what_lies_beyond(value: float, cell: int) -> None:
    assert Bins((-1.0,), (1.0,), (4,))([value]) == (cell,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4,4,4", "each of the 2 dimensions"),
        ("4,x", "cannot be read"),
        ("4,1:0:3", "finite bounds"),
        ("0", "at least 1"),
    ],
)
def test_wrong_bins_are_explained(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Bins.of(text, spaces.Box(-1, 1, shape=(2,), dtype=np.float32))


def test_bins_take_the_bounds_of_the_space_where_none_are_given() -> None:
    space = spaces.Box(np.array([-1, -np.inf]), np.array([1, np.inf]), dtype=np.float64)
    assert Bins.of("3,-2:2:5", space) == Bins((-1.0, -2.0), (1.0, 2.0), (3, 5))
    with pytest.raises(InputError, match="dimension 1"):
        Bins.of("3", space)


def learned(environment: Environment, expert: Expert, **settings: Any) -> list[Turn]:
    return list(learn(environment, expert, Settings(**{"strategy": "advice", "max_samples": 200} | settings)))


def onwards(environment: GymAdapter) -> ObservationExpert:
    return ObservationExpert(lambda observation: 1, environment)


def test_the_learner_uses_reset_and_step_only() -> None:
    guarded = Guarded(gymnasium.make("FrozenLake-v1", disable_env_checker=True))
    environment = GymEnvironment(guarded)
    turns = learned(environment, ObservationExpert(lambda room: room % 4, environment), strategy="random")
    assert turns[-1].record.samples >= 200
    assert object.__getattribute__(guarded, "calls") == {"reset", "step", "spec", "observation_space", "action_space"}
    with pytest.raises(AssertionError, match="looked at 'unwrapped'"):
        _ = guarded.unwrapped


def test_an_episode_that_is_over_stays_where_it_ended_and_nothing_more_is_observed_or_asked() -> None:
    environment = GymEnvironment(Corridor(rooms=3), horizon=10)
    turns = learned(environment, onwards(environment), max_samples=6)
    counts, end = turns[-1].state.counts, 4
    assert environment.names == ("nowhere", "0", "1", "2", "terminal 2")
    assert environment.terminal == {PADDING_STATE, end}
    assert counts.samples == 6, "two episodes of three steps, although each has a horizon of ten"
    for over in (PADDING_STATE, end):
        assert counts.visits[:, over].sum() == counts.answers[:, over].sum() == 0
    rng = np.random.default_rng(0)
    environment.reset(rng)
    numbers = [Capabilities.of(environment).encode(*environment.step(1)) for _ in range(10)]
    assert numbers == [2, 3, *[end] * 8]
    with pytest.raises(InputError, match="call reset first"):
        environment.step(1)


def lake() -> GymEnvironment:
    """Two cells wide: down is a hole, two to the right is the flag."""
    return GymEnvironment(gymnasium.make("FrozenLake-v1", desc=["SFG", "HFF"], is_slippery=False, max_episode_steps=6))


LEFT, DOWN, RIGHT = 0, 1, 2


def test_a_goal_and_a_hole_are_two_states_and_each_episode_stays_in_its_own() -> None:
    environment, rng = lake(), np.random.default_rng(0)
    encode = Capabilities.of(environment).encode
    assert encode(environment.reset(rng)) == 1
    fallen = [encode(*environment.step(DOWN)) for _ in range(6)]
    environment.reset(rng)
    arrived = [encode(*environment.step(RIGHT)) for _ in range(6)]
    assert fallen == [2] * 6
    assert arrived == [3, *[4] * 5]
    assert environment.names == ("nowhere", "0", "terminal 3", "1", "terminal 2")
    assert environment.terminal == {PADDING_STATE, 2, 4}
    assert environment.states.possible_states == 13


@pytest.mark.parametrize("strategy", ["random", "guided", "advice", "probe"])
def test_nobody_is_asked_where_an_episode_is_over_and_nothing_is_tried_there(strategy: str) -> None:
    environment, asked = lake(), set[Any]()

    def answer(room: int) -> int:
        asked.add(room)
        return RIGHT

    turn = learned(environment, ObservationExpert(answer, environment), strategy=strategy, certify=None)[-1]
    assert {environment.observation(state) for state in environment.terminal - {PADDING_STATE}} >= {2}
    assert not asked & {2, 3}
    assert not turn.counts.visits[:, sorted(environment.terminal)].any()
    assert turn.record.answers == len(asked) <= 4


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("FrozenLake-v1", {}),
        ("FrozenLake-v1", {"is_slippery": False}),
        ("CliffWalking-v1" if "CliffWalking-v1" in gymnasium.registry else "CliffWalking-v0", {}),
        ("Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3", {}),
        ("Blackjack-v1", {}),
        ("MiniGrid-Empty-5x5-v0", {}),
    ],
)
def test_the_exact_model_has_the_ends_that_are_met(name: str, options: dict[str, Any]) -> None:
    """Played with the best policy and many mistakes: every state that is met is in the model, an end if it was one, and
    every step that is taken is possible there."""
    if name.startswith("MiniGrid"):
        pytest.importorskip("minigrid")
    task = open_task(Source(name, options, 0, expert="optimal", horizon=60))
    environment = task.environment
    assert isinstance(environment, GymEnvironment)
    assert isinstance(task.world, GymWorld)
    model = task.world.model()
    best, rng = model.stationary_expert(), np.random.default_rng(0)
    encode = Capabilities.of(environment).encode

    def in_model(state: int) -> int:
        found = model.states.find(environment.observation(state), terminal=state in environment.terminal)
        assert found is not None, environment.names[state]
        return found

    moves = set()
    for _ in range(150):
        state = encode(environment.reset(rng))
        assert model.mdp.initial[in_model(state)] > 0
        for _ in range(60):
            here = in_model(state)
            action = int(rng.integers(environment.n_actions)) if rng.random() < 0.3 else int(best[here])
            state = encode(*environment.step(action))
            moves.add((here, action, in_model(state)))
            if state in environment.terminal:
                break
    probabilities = model.mdp.transitions.matrix.toarray().reshape(-1, environment.n_actions, len(model.states))
    assert all(probabilities[move] > 0 for move in moves)
    assert environment.terminal - {PADDING_STATE}, "some episode must have ended"
    for over in model.states.terminal:
        assert (probabilities[over, :, over] == 1).all()
        assert not model.reward[:, over].any()


def test_what_happens_after_the_end_is_known_without_a_visit() -> None:
    environment = GymEnvironment(Corridor(rooms=3), horizon=5)
    assert Capabilities.of(environment).can_end
    assert Capabilities.of(environment).growing is environment.states
    turn = learned(environment, onwards(environment), max_samples=3)[-1]
    known = turn.belief.estimate
    assert environment.terminal == {PADDING_STATE, 4}
    radii = kl(known, 1.0, 0.1)
    for over in environment.terminal:
        assert known.mdp.transitions.dense()[over, :, over].tolist() == [1, 1]
        assert known.expert_known[:, over].all()
        assert radii.total[:, over].max() < 1e-3 < radii.total[0, 1].min()
    assert radii.guaranteed


def test_the_end_of_an_episode_attracts_no_strategy() -> None:
    """Going on leads straight to the end; a strategy that took the end for unexplored would do nothing else."""
    for strategy in ("greedy", "ace"):
        environment = GymEnvironment(Corridor(rooms=2, slip=0.1), horizon=20)
        turn = learned(environment, onwards(environment), strategy=strategy, episodes_per_iteration=5)[-1]
        assert turn.state.counts.visits[:, :, 0].sum() > 0.3 * turn.record.samples, strategy


def relabelled(counts: Counts, order: list[int]) -> Counts:
    """Counts with state `order[k]` called `k`."""
    _, n_states, n_actions = counts.shape
    number = np.argsort(order)
    row, successor = np.divmod(counts.move_keys, n_states)
    state, action = np.divmod(row, n_actions)
    step = np.zeros_like(state)
    moves = Moves(step, number[state], action, number[successor], counts.move_counts, counts.starts[order])
    moved = Counts.of_moves(moves, counts.shape)
    return Counts.of_arrays(
        True,
        counts.visits[:, order],
        counts.answers[:, order],
        counts.starts[order],
        moved.move_keys,
        moved.move_counts,
    )


def test_states_met_one_by_one_give_the_same_as_states_known_from_the_start() -> None:
    """Shown the same episodes, the learner infers the same, up to the names of the states."""
    names = [3, 0, 2, 1, 5, 4]
    environment = GymEnvironment(Shown(spaces.Discrete(6), names, slip=0.3), horizon=8)
    asked = {"irl": "max-causal-entropy", "reward": "any", "infer_after_growth": 0, "max_samples": 300}
    turns = learned(environment, onwards(environment), strategy="random", **asked)
    shapes = {turn.state.counts.shape[1] for turn in turns}
    assert len(shapes) > 1, "some state must have been met after the first iteration, or nothing grew"

    end = environment.states.number(names[-1], terminal=True)
    order = [PADDING_STATE, end, *(environment.states.number(name) for name in names)]
    warm: Mapping[str, FloatArray] = {}
    for turn in turns:
        counts = relabelled(turn.state.counts.grown(len(order)), order)
        whole = Estimate.of(
            counts, kind=ExpertKind(stationary=True), delta=0.1 / 3, terminal={0, 1}, possible_states=13
        )
        found = MaxCausalEntropy()(whole, 1.0, warm, AnyReward())
        warm = found.parameters

        met = [state for state in order if state < turn.state.counts.shape[1]]
        where = [order.index(state) for state in met]
        grown = turn.belief.estimate
        np.testing.assert_allclose(turn.state.recovered.reward[:, met], found.reward[:, where], atol=2e-3)
        radii, of_whole = kl(grown, 1.0, 0.1), kl(whole, 1.0, 0.1)
        np.testing.assert_allclose(radii.total[:, met], of_whole.total[:, where], rtol=1e-12)


def test_counts_that_grow_keep_what_they_held() -> None:
    rng = np.random.default_rng(5)
    for stationary in (True, False):
        step, state, action, successor = (rng.integers(0, size, 40) for size in (3, 4, 2, 4))
        once = np.ones(40, dtype=np.int64)
        moves = Moves(step, state, action, successor, once, np.ones(4, dtype=np.int64))
        small = Counts.of_moves(moves, (3, 4, 2), stationary=stationary)
        wide = Moves(step, state, action, successor, once, np.array([1, 1, 1, 1, 0, 0]))
        direct = Counts.of_moves(wide, (3, 6, 2), stationary=stationary)
        grown = small.grown(6)
        for name in ("visits", "answers", "starts", "move_keys", "move_counts"):
            np.testing.assert_array_equal(getattr(grown, name), getattr(direct, name), err_msg=name)


def test_truncation_may_come_at_the_horizon_and_not_before() -> None:
    limited = gymnasium.wrappers.TimeLimit(Corridor(rooms=50), max_episode_steps=7)
    with pytest.raises(InputError, match="truncated an episode after 7 steps, before the horizon of 20"):
        learned(GymEnvironment(limited, horizon=20), FunctionExpert(lambda step, state: 1))
    last = learned(GymEnvironment(limited, horizon=7), FunctionExpert(lambda step, state: 1))[-1].record
    assert last.samples == 7 * last.episodes


def test_an_environment_that_never_ends_needs_a_horizon() -> None:
    with pytest.raises(InputError, match="horizon must be given"):
        GymEnvironment(Corridor())
    with pytest.raises(InputError, match="horizon must be a whole number"):
        GymEnvironment(Corridor(), horizon=0)
    with pytest.raises(InputError, match="max_episode_steps=300"):
        GymEnvironment(gymnasium.make("FrozenLake-v1"), horizon=300)
    back = GymEnvironment(Corridor(), horizon=6)
    assert learned(back, FunctionExpert(lambda step, state: 0), max_samples=12)[-1].record.episodes == 2


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "failed in step .* RuntimeError: the motor is stuck"),
        ("type", r"returned the observation .*\(float\), which is not in Discrete"),
        ("range", "returned the observation 99"),
        ("truncate", "truncated an episode"),
        ("tuple", r"step must return \(observation, reward, terminated, truncated, info\)"),
    ],
)
def test_a_failure_of_the_environment_is_clear_and_the_run_goes_on_from_before_it(
    how: str, message: str, tmp_path: Path
) -> None:
    settings = Settings(strategy="random", max_samples=150)

    def going(after: int, folder: str) -> Run:
        environment = GymEnvironment(Failing(after, how), horizon=9)
        run = Run.open(tmp_path / folder) if (tmp_path / folder).exists() else Run.create(tmp_path / folder, settings)
        for _ in run.resume(environment, onwards(environment)):
            pass
        return run

    with pytest.raises(InputError, match=message):
        going(70, "interrupted")
    kept = Run.open(tmp_path / "interrupted").records()
    assert 70 <= kept[-1].samples < 80
    resumed, whole = going(10**9, "interrupted"), going(10**9, "whole")
    assert_same(resumed.state(), whole.state())


def test_an_illegal_answer_in_the_middle_of_a_run_is_clear_and_the_run_goes_on_from_before_it(tmp_path: Path) -> None:
    settings = Settings(strategy="random", max_samples=150)

    def going(answer: Any, folder: str) -> Run:
        environment = GymEnvironment(Corridor(slip=0.2), horizon=9)
        expert = ObservationExpert(lambda room, step: answer if step == 8 else 1, environment)
        run = Run.open(tmp_path / folder) if (tmp_path / folder).exists() else Run.create(tmp_path / folder, settings)
        for _ in run.resume(environment, expert):
            pass
        return run

    for wrong in (2, "left", 1.5, np.array([0, 1])):
        with pytest.raises(AnswerError, match=r"the expert answered .* actions are 0 to 1"):
            going(wrong, "interrupted")
    resumed, whole = going(0, "interrupted"), going(0, "whole")
    assert_same(resumed.state(), whole.state())


def assert_same(first: RunState | None, second: RunState | None) -> None:
    assert first is not None
    assert second is not None
    assert first.names == second.names
    np.testing.assert_array_equal(first.counts.visits, second.counts.visits)
    np.testing.assert_array_equal(first.counts.move_keys, second.counts.move_keys)
    np.testing.assert_array_equal(first.recovered.reward, second.recovered.reward)


def test_an_environment_that_was_used_before_starts_anew() -> None:
    environment = GymEnvironment(Corridor(slip=0.2), horizon=9)
    first, second = (learned(environment, onwards(environment))[-1].state for _ in range(2))
    assert_same(first, second)


def test_the_budget_of_answers_is_kept_and_a_deterministic_expert_is_not_asked_twice() -> None:
    asked: list[tuple[int, int]] = []

    def answer(step: int, state: int) -> int:
        asked.append((step, state))
        return 1

    settings = {"strategy": "random", "episodes_per_iteration": 10, "max_samples": 10_000}
    environment = GymEnvironment(Corridor(rooms=9, slip=0.2), horizon=9)
    turn = learned(environment, FunctionExpert(answer, ask_again=0), max_answers=7, **settings)[-1]
    assert turn.record.answers == len(asked) == 7
    assert turn.record.stopped == "budget"
    asked.clear()
    learned(environment, FunctionExpert(answer, ask_again=0), **settings | {"max_samples": 500})
    assert len(asked) == len(set(asked)) > 7


def test_multi_discrete_actions_are_one_list() -> None:
    env = Corridor()
    env.action_space = spaces.MultiDiscrete([2, 3])
    environment = GymEnvironment(env, horizon=5)
    assert environment.n_actions == 6
    assert [environment.action_number(environment.action(number)) for number in range(6)] == list(range(6))
    assert environment.action_number([2, 0]) is None


def test_own_environments_pass_the_checker() -> None:
    check_env(Corridor(), skip_render_check=True)
    check_env(Shown(spaces.MultiDiscrete([4]), [np.array([k]) for k in range(4)]), skip_render_check=True)


@pytest.mark.parametrize(
    ("name", "bins", "horizon"),
    [
        ("CartPole-v1", "-2.4:2.4:3,-3:3:3,-0.21:0.21:6,-3:3:6", 60),
        ("MountainCar-v0", "10", 200),
        ("Acrobot-v1", "3", 50),
    ],
)
def test_continuous_environments_run(name: str, bins: str, horizon: int) -> None:
    env = gymnasium.make(name, max_episode_steps=horizon)
    environment = GymEnvironment(env, discretise=Bins.of(bins, env.observation_space))
    expert = ObservationExpert(lambda seen: int(seen[1] > 0) * (environment.n_actions - 1), environment)
    turn = learned(environment, expert, max_samples=400, episodes_per_iteration=5)[-1]
    assert turn.state.counts.shape[1] == environment.n_states > 5
    assert len(turn.state.names) == environment.n_states
    assert turn.record.answers <= environment.n_states - 1


def test_fields_of_bins_say_nothing_of_the_wish() -> None:
    """Only the first observation of each is known."""
    env = gymnasium.make("MountainCar-v0", max_episode_steps=20)
    environment = GymEnvironment(env, discretise=Bins.of("4", env.observation_space), fields=("position", "velocity"))
    expert = ObservationExpert(lambda seen: int(seen[1] > 0) * 2, environment)
    turn = learned(environment, expert, max_samples=100, episodes_per_iteration=5)[-1]
    assert turn.belief.table.fields is not None
    assert turn.belief.table.fields.names == ("position", "velocity")
    assert turn.belief.telling_fields is None


def test_frozen_lake_is_learned_from_an_optimal_expert() -> None:
    """One episode of the expert's is not enough: something is lost. A few are, and hardly anything is."""
    env = gymnasium.make("FrozenLake-v1")
    environment = GymEnvironment(env)
    task = optimal_task(GymWorld.of(env, environment), stationary=True)
    settings = Settings(strategy="guided", max_samples=600)
    turns = list(learn(task.environment, task.expert, settings, regret=task.regret))
    assert turns[0].record.regret is not None
    assert turns[-1].record.regret is not None
    assert turns[0].record.regret > 0.05
    assert turns[-1].record.regret < 0.05


def test_the_search_for_a_model_agrees_with_the_table() -> None:
    """The table of a lake that is not slippery and a search of the same lake give the same values."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    rows, start = searched(env)
    found = model_of(rows, [(start, 1.0)], env, 20, 4)
    table = exact_model(env, 20, 4)
    assert Truth(found.mdp, found.reward).best == Truth(table.mdp, table.reward).best == 1.0
    with pytest.raises(InputError, match="is random"):
        searched(gymnasium.make("FrozenLake-v1"))


def test_episodes_that_end_early_earn_the_policy_certificate() -> None:
    """The certificate wagers that the expert's actions stay known; an episode that is over does not deviate."""
    environment = GymEnvironment(Corridor(rooms=3), horizon=10)
    last = learned(environment, onwards(environment), max_samples=600)[-1].record
    assert last.stopped == "certificate"
    assert last.certificates["policy"] <= 1


def above(room: int) -> list[float]:
    """How far up, and how far left."""
    return [8 - room // 8, 8 - room % 8]


@pytest.mark.parametrize("reward", ["state", "state-action", above])
def test_a_reward_that_was_inferred_before_the_last_states_were_met_can_still_be_told(reward: Any) -> None:
    env = gymnasium.make("FrozenLake-v1", map_name="8x8")
    environment = GymEnvironment(env)
    expert = optimal_task(GymWorld.of(env, environment)).expert
    settings = Settings(reward=reward, max_samples=400, infer_after_growth=2.0)
    grown = 0
    for turn in learn(environment, expert, settings):
        before, told = turn.belief.recovered.explanation, turn.explanation
        assert before is not None
        assert told is not None
        n_before, n_states = len(before.ends), turn.counts.shape[1]
        assert (told.paid.shape, told.ends.shape) == ((n_states, 4), (n_states,))
        np.testing.assert_allclose(told.paid[:n_before], before.paid)
        if n_before == n_states:
            continue
        grown += 1
        new = np.arange(n_before, n_states)
        np.testing.assert_array_equal(told.ends[new], np.isin(new, turn.belief.estimate.terminal_states))
        if callable(reward):
            seen = [np.array(reward(environment.observation(state))) @ told.theta[:2] for state in new.tolist()]
            np.testing.assert_allclose(told.paid[new], np.repeat(np.array(seen)[:, None], 4, axis=1))
        else:
            assert not told.paid[new].any()
        assert turn.alternatives is not None
        np.testing.assert_array_equal(turn.alternatives.theta, told.map_estimate)
        low, high = turn.alternatives.intervals
        assert (low <= told.map_estimate).all()
        assert (high >= told.map_estimate).all()
        assert goal_in_words(turn, [f"state {name}" for name in turn.names])
    assert grown >= 2
