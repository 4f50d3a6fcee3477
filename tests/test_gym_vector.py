"""Episodes side by side, in Gymnasium's vector environments."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium_environments import Conveyor, Corridor, Failing, GuardedVector, Shown
from test_gym_adapter import SPACES, assert_same, learned, onwards, samples
from typer.testing import CliRunner

from aceirl.cli import app
from aceirl.envs.gymnasium import GymAdapter, GymEnvironment
from aceirl.envs.truth import exact_model
from aceirl.envs.vector import GymVectorEnvironment, Resting
from aceirl.errors import InputError
from aceirl.experts import FunctionExpert, ObservationExpert
from aceirl.experts.tasks import Source, open_source, open_task
from aceirl.irl.belief import Plan
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.bins import Bins
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.protocols import ParallelEnvironment
from aceirl.runs import Run
from studies.collecting import collected

OLD = gymnasium.__version__.startswith("0.")

# When an environment whose episode is over is reset: some versions of Gymnasium can be told, the first ones cannot.
MODES: list[dict[str, Any]] = [{"autoreset_mode": mode} for mode in getattr(gymnasium.vector, "AutoresetMode", ())] or [
    {}
]
KINDS: list[tuple[type[Any], dict[str, Any]]] = [
    *((SyncVectorEnv, mode) for mode in MODES),
    *((AsyncVectorEnv, mode | {"shared_memory": shared}) for mode in MODES for shared in (True, False)),
]
every_kind = pytest.mark.parametrize(("kind", "options"), KINDS, ids=str)

# A process that is forked off beside threads is announced; Gymnasium's are.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def processes() -> list[multiprocessing.process.BaseProcess]:
    """Those of vector environments; tests of other things leave some that wait for more to do."""
    return [child for child in multiprocessing.active_children() if "VectorEnv" in child.name]


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    assert not processes()


def vector(
    make: Callable[[], gymnasium.Env[Any, Any]],
    num_envs: int = 3,
    *,
    horizon: int | None = 9,
    kind: type[Any] = SyncVectorEnv,
    **options: Any,
) -> GymVectorEnvironment:
    """That many environments; inside `Resting`, where an episode would lose its first step without."""
    next_step = not OLD and getattr(options.get("autoreset_mode"), "value", "NextStep") == "NextStep"
    if kind is AsyncVectorEnv and next_step and not options.get("shared_memory", True):
        return GymVectorEnvironment(kind([lambda: Resting(make())] * num_envs, **options), horizon=horizon)
    return GymVectorEnvironment(kind([make] * num_envs, **options), horizon=horizon)


@every_kind
def test_episodes_side_by_side_are_those_played_one_after_the_other(kind: type[Any], options: dict[str, Any]) -> None:
    """Where the expert is followed only the environment is random, and it is seeded alike."""

    def turns(environment: GymAdapter) -> list[Turn]:
        return learned(environment, onwards(environment), episodes_per_iteration=4, max_samples=120)

    one_by_one = turns(GymEnvironment(Corridor(slip=0.4), horizon=9))
    assert len({turn.record.samples % 4 for turn in one_by_one}) > 1, "some episodes must end before others"
    for num_envs in (1, 3, 4):
        with closing(vector(lambda: Corridor(slip=0.4), num_envs, kind=kind, **options)) as environment:
            assert isinstance(environment, ParallelEnvironment)
            found = turns(environment)
        assert_same(found[-1].state, one_by_one[-1].state)
        assert [turn.record.certificates for turn in found] == [turn.record.certificates for turn in one_by_one]


def test_ends_are_told_apart_side_by_side_as_they_are_one_after_the_other() -> None:
    """On a slippery lake with holes, in which nothing is random but the environment."""

    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.make("FrozenLake-v1", max_episode_steps=40, disable_env_checker=True)

    def found(environment: GymAdapter) -> Turn:
        right = ObservationExpert(lambda room: 2, environment)
        return learned(environment, right, episodes_per_iteration=8, max_samples=400, certify=None)[-1]

    def named(turn: Turn) -> dict[tuple[str, int, str], int]:
        """How often each action led from where to where; numbers depend on the order in which states are met."""
        counts, names = turn.counts, turn.names
        rows, successors = np.divmod(counts.move_keys, len(names))
        states, actions = np.divmod(rows, counts.shape[2])
        moves = zip(states, actions, successors, counts.move_counts, strict=True)
        return {(names[state], int(action), names[successor]): int(n) for state, action, successor, n in moves}

    expected = named(found(GymEnvironment(make())))
    ends = {successor for _, _, successor in expected if successor.startswith("terminal")}
    assert len(ends) > 2
    assert not ends & {state for state, _, _ in expected}
    for options in MODES:
        assert named(found(vector(make, 4, horizon=40, **options))) == expected


@every_kind
def test_no_step_of_an_episode_is_lost_to_the_end_of_the_one_before(kind: type[Any], options: dict[str, Any]) -> None:
    """Some episodes end just at the horizon, and some would with the next step."""

    def turns(environment: GymAdapter) -> list[Turn]:
        return learned(environment, onwards(environment), episodes_per_iteration=12, max_samples=150)

    one_by_one = turns(GymEnvironment(Conveyor(rooms=6), horizon=4))[-1]
    with closing(vector(lambda: Conveyor(rooms=6), 4, horizon=4, kind=kind, **options)) as environment:
        assert_same(turns(environment)[-1].state, one_by_one.state)


@pytest.mark.skipif(OLD, reason="Gymnasium 0.29 resets in the same step")
def test_a_vector_that_would_lose_steps_is_refused() -> None:
    workers = AsyncVectorEnv([lambda: Corridor(rooms=1)] * 2, shared_memory=False)
    with closing(GymVectorEnvironment(workers, horizon=2)) as environment:
        environment.begin(2, np.random.default_rng(0))
        assert environment.advance({0: 1, 1: 0}) == {0: (0, True), 1: (0, False)}
        with pytest.raises(InputError, match="wrap its environments in aceirl"):
            environment.begin(2, np.random.default_rng(0))


@every_kind
def test_an_episode_that_is_over_is_left_alone_and_the_next_begins_at_the_start(
    kind: type[Any], options: dict[str, Any]
) -> None:
    rng, end = np.random.default_rng(0), (1, True)
    with closing(vector(lambda: Corridor(rooms=2), 2, horizon=4, kind=kind, **options)) as environment:
        for _ in range(3):
            first, second = environment.begin(2, rng)
            assert first == second
            here = environment.advance({0: 1, 1: 0})
            assert here[0] != here[1] == (first, False)
            assert environment.advance({0: 1, 1: 1}) == {0: end, 1: here[0]}
            assert environment.advance({0: 1, 1: 0}) == {0: end, 1: here[1]}
            assert environment.advance({1: 1}) == {1: here[0]}
            with pytest.raises(InputError, match="call reset first"):
                environment.advance({1: 1})
        for _ in range(2):
            assert environment.reset(rng) == first
            assert [environment.step(1) for _ in range(4)] == [here[0], end, end, end]


@every_kind
def test_what_was_seen_when_an_episode_is_truncated_is_not_the_next_start(
    kind: type[Any], options: dict[str, Any]
) -> None:
    def limited() -> gymnasium.Env[Any, Any]:
        return gymnasium.wrappers.TimeLimit(Corridor(rooms=9), max_episode_steps=3)

    rng = np.random.default_rng(0)
    with closing(vector(limited, 2, horizon=3, kind=kind, **options)) as environment:
        for _ in range(2):
            environment.begin(2, rng)
            seen = [environment.advance({0: 1, 1: 0}) for _ in range(3)]
            assert [arrived[0][0] for arrived in seen] == [1, 2, 3]
            assert [arrived[1][0] for arrived in seen] == [0, 0, 0]
    with (
        closing(vector(limited, 2, horizon=7, kind=kind, **options)) as environment,
        pytest.raises(InputError, match="truncated an episode after 3 steps, before the horizon of 7"),
    ):
        learned(environment, onwards(environment))


def test_a_vector_that_hides_what_was_seen_last_is_not_believed() -> None:
    class Forgetful(SyncVectorEnv):
        metadata = property(lambda self: {"autoreset_mode": "SameStep"}, lambda self, value: None)

        def step(self, actions: Any) -> Any:
            *step, _ = super().step(actions)
            return *step, {}

    limited = vector(lambda: gymnasium.wrappers.TimeLimit(Corridor(rooms=9), 3), horizon=3, kind=Forgetful)
    with pytest.raises(InputError, match="does not say what was observed last"):
        learned(limited, onwards(limited))


def test_probabilities_are_those_of_the_exact_model() -> None:
    """How often a state is met at a step, in independent episodes; wrong in one of a million runs, by Hoeffding."""
    env = gymnasium.make("FrozenLake-v1", disable_env_checker=True)
    horizon, episodes = 8, 3000
    environment = vector(lambda: gymnasium.make("FrozenLake-v1", disable_env_checker=True), 7, horizon=horizon)
    shape = (horizon, environment.n_states, environment.n_actions)
    uniform = Plan(policy=np.full(shape, 1 / shape[2]), ask=False)
    expert = FunctionExpert(lambda step, state: 0)
    rng = np.random.default_rng(3)
    seen = collected(environment, expert, uniform, episodes, Counts.empty(shape, stationary=False), rng)

    model = exact_model(env, horizon, shape[2])
    exact = occupancy(model.mdp, np.full(model.mdp.shape, 1 / shape[2])).sum(axis=2)
    found = np.zeros_like(exact)
    step_and_row, successor = np.divmod(seen.counts.move_keys, environment.n_states)
    arrivals = np.zeros((horizon, environment.n_states))
    np.add.at(arrivals, (step_and_row // (environment.n_states * shape[2]), successor), seen.counts.move_counts)
    for state in range(1, environment.n_states):
        over = state in environment.terminal
        here = model.states.find(environment.observation(state), terminal=over)
        assert here is not None
        # Nothing is observed where an episode is over; it is there from the step after its arrival.
        visits = arrivals[:-1, state].cumsum() if over else seen.counts.visits[1:, state].sum(axis=1)
        found[1:, here] = visits / episodes
        found[0, here] = seen.counts.starts[state] / episodes
    tolerance = math.sqrt(math.log(2 * exact.size / 1e-6) / (2 * episodes))
    assert tolerance < 0.07
    np.testing.assert_allclose(found, exact, atol=tolerance)
    ends = exact[-1, sorted(model.states.terminal)]
    assert ends.sum() > ends.max() + tolerance, "ends that were one state would show"
    assert seen.counts.starts.sum() == episodes


@pytest.mark.parametrize("options", MODES, ids=str)
def test_an_environment_that_rests_takes_no_step_that_nobody_looks_at(options: dict[str, Any]) -> None:
    made: list[Failing] = []

    def make() -> Failing:
        made.append(Failing(10**9, "raise"))
        return made[-1]

    def steps(wrap: Callable[[Failing], gymnasium.Env[Any, Any]]) -> tuple[int, Turn]:
        made.clear()
        environment = vector(lambda: wrap(make()), 4, **options)
        turn = learned(environment, onwards(environment), episodes_per_iteration=6)[-1]
        return sum(env.taken for env in made), turn

    taken, turn = steps(Resting)
    assert taken == turn.record.samples
    others, same = steps(lambda env: env)
    assert others > same.record.samples == turn.record.samples
    assert_same(turn.state, same.state)


def test_the_last_round_may_be_smaller_and_the_same_seed_gives_the_same_run() -> None:
    def found() -> Turn:
        environment = vector(lambda: Corridor(slip=0.3), 4)
        return learned(environment, onwards(environment), strategy="random", episodes_per_iteration=6)[-1]

    first, second = found(), found()
    assert first.record.episodes == first.state.counts.starts.sum() == 6 * first.record.iteration
    assert_same(first.state, second.state)


def test_what_the_expert_is_known_to_do_is_what_was_known_before_the_batch() -> None:
    """The second round knows the answers of the first, yet its episodes deviate from what was known before both."""
    environment = vector(lambda: Corridor(rooms=3), 2, horizon=3)
    follow = Plan(policy=np.full((3, 1, 2), 0.5), follow=np.ones((3, 1), dtype=np.bool_))
    rng = np.random.default_rng(0)
    first = collected(environment, onwards(environment), follow, 5, Counts.empty((3, 1, 2)), rng)
    assert first.first_deviations.tolist() == [5, 0, 0, 0]
    again = collected(environment, onwards(environment), follow, 5, first.counts, rng)
    assert again.first_deviations.tolist() == [0, 0, 0, 5]


def test_the_budget_of_answers_is_kept_and_a_deterministic_expert_is_not_asked_twice() -> None:
    asked: list[tuple[int, int]] = []

    def answer(step: int, state: int) -> int:
        asked.append((step, state))
        return 1

    settings = {"strategy": "random", "episodes_per_iteration": 10, "max_samples": 500}
    environment = vector(lambda: Corridor(rooms=9, slip=0.2), 4)
    turn = learned(environment, FunctionExpert(answer, ask_again=0), max_answers=7, **settings)[-1]
    assert turn.record.answers == len(asked) == 7
    asked.clear()
    learned(environment, FunctionExpert(answer, ask_again=0), **settings)
    assert len(asked) == len(set(asked)) > 7


def test_the_learner_uses_reset_and_step_only() -> None:
    guarded: Any = GuardedVector(SyncVectorEnv([lambda: Corridor(slip=0.2)] * 3))
    environment = GymVectorEnvironment(guarded, horizon=9)
    learned(environment, onwards(environment), strategy="random", episodes_per_iteration=4)
    told = {"single_observation_space", "single_action_space", "num_envs", "metadata", "spec"}
    assert object.__getattribute__(guarded, "calls") == {"reset", "step"} | told
    with pytest.raises(AssertionError, match="looked at 'envs'"):
        _ = guarded.envs


@pytest.mark.parametrize("shown", SPACES)
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_observations_of_every_kind_are_taken_apart(kind: type[Any], shown: str) -> None:
    seen = list({str(element): element for element in samples(SPACES[shown], 30)}.values())[:5]

    def make() -> Shown:
        return Shown(SPACES[shown], seen, slip=0.3)

    one = GymEnvironment(make(), horizon=9)
    expected = learned(one, onwards(one), episodes_per_iteration=3)[-1]
    options = {} if kind is SyncVectorEnv else {"shared_memory": False}
    with closing(vector(make, 3, kind=kind, **options)) as environment:
        assert_same(learned(environment, onwards(environment), episodes_per_iteration=3)[-1].state, expected.state)
        for state in range(1, environment.n_states):
            assert SPACES[shown].contains(environment.observation(state))


def test_an_observation_that_is_kept_is_not_overwritten_by_later_ones() -> None:
    cells = [np.array([number, number]) for number in range(4)]
    environment = vector(lambda: Shown(spaces.MultiDiscrete([4, 4]), cells), copy=False)
    learned(environment, onwards(environment))
    assert [environment.observation(state).tolist() for state in range(1, 5)] == [[n, n] for n in range(4)]


def test_multi_discrete_actions_arrive_as_they_are() -> None:
    class Doors(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = spaces.MultiDiscrete([2, 3])

        def step(self, action: Any) -> Any:
            assert self.action_space.contains(action)
            return super().step(int(action[0] == 1 and action[1] == 2))

    environment = vector(Doors, 2)
    environment.begin(2, np.random.default_rng(0))
    assert environment.n_actions == 6
    assert {observation for observation, _ in environment.advance({0: 5, 1: 4}).values()} == {0, 1}


def test_a_vector_that_does_not_tell_its_limit_needs_a_horizon() -> None:
    with pytest.raises(InputError, match="horizon must be given"):
        vector(lambda: gymnasium.make("FrozenLake-v1"), horizon=None)
    with pytest.raises(InputError, match="horizon must be a whole number"):
        vector(Corridor, horizon=0)


@pytest.mark.skipif(OLD, reason="a vector by nature loses the last observation before Gymnasium 1")
def test_an_environment_that_is_a_vector_by_nature_runs() -> None:
    def found(horizon: int | None) -> Turn:
        env = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="vector_entry_point")
        bins = Bins.of("-2.4:2.4:3,-3:3:3,-0.21:0.21:6,-3:3:6", env.single_observation_space)
        environment = GymVectorEnvironment(env, horizon=horizon, discretise=bins)
        assert environment.horizon == (horizon or 500)
        expert = ObservationExpert(lambda seen: int(seen[2] > 0), environment)
        settings = Settings(strategy="random", episodes_per_iteration=6, max_samples=300)
        return next(learn(environment, expert, settings))

    first, second = found(30), found(30)
    assert first.state.counts.shape[1] > 5
    assert_same(first.state, second.state)
    with pytest.raises(InputError, match="max_episode_steps=501"):
        found(501)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "failed in step .* of an episode, with actions .* RuntimeError: the motor is stuck"),
        ("type", "failed in step .* Cannot cast"),
        ("range", "returned the observation 99"),
        ("truncate", "truncated an episode"),
        ("tuple", "failed in step .* not enough values"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*(ERROR|Calling `close` while waiting)")
def test_a_failure_of_the_environment_is_clear_and_the_run_goes_on_from_before_it(
    kind: type[Any], how: str, message: str, tmp_path: Path
) -> None:
    settings = Settings(strategy="random", max_samples=150, episodes_per_iteration=2)
    options = {} if kind is SyncVectorEnv else {"shared_memory": False}

    def going(after: int, folder: str) -> Run:
        run = Run.open(tmp_path / folder) if (tmp_path / folder).exists() else Run.create(tmp_path / folder, settings)
        with closing(vector(lambda: Failing(after, how), 2, kind=kind, **options)) as environment:
            for _ in run.resume(environment, onwards(environment)):
                pass
        return run

    with pytest.raises(InputError, match=message) as failure:
        going(35, "interrupted")
    assert "\n" not in str(failure.value)
    assert 0 < Run.open(tmp_path / "interrupted").records()[-1].samples < 90
    resumed, whole = going(10**9, "interrupted"), going(10**9, "whole")
    assert_same(resumed.state(), whole.state())


@pytest.mark.filterwarnings("ignore:.*Calling `close` while waiting")
def test_a_process_that_died_is_said_to_have_and_the_others_end() -> None:
    with closing(vector(Corridor, 3, kind=AsyncVectorEnv)) as environment:
        environment.begin(3, np.random.default_rng(0))
        victim = processes()[0]
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        with pytest.raises(InputError, match=r"failed in step 1 .* (its process has died|Broken pipe|reset by peer)"):
            environment.advance({0: 1, 1: 1, 2: 1})


CORRIDOR = Source(
    "gymnasium_environments:Corridor", {"slip": 0.3}, 0, expert="test_gym_vector:always_on", horizon=9, num_envs=2
)


def always_on(room: int) -> int:
    return 1


class Worldly(Corridor):
    """Draws from the generator of the whole process, wants plain numbers, and tells things of many shapes."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert type(action) is int
        drawn = int(np.random.randint(1000))  # noqa: NPY002 - as such environments do
        observation, reward, _, _, _ = super().step(0)
        return observation, reward, False, False, {"seen": np.arange(drawn % 3 + 1)}

    def seen(self) -> Any:
        return int(np.random.randint(4))  # noqa: NPY002


def test_environments_side_by_side_have_randomness_of_their_own_and_get_what_one_gets() -> None:
    source = Source("test_gym_vector:Worldly", {}, 0, expert="test_gym_vector:always_on", horizon=30, num_envs=3)
    rng = np.random.default_rng(0)
    with open_source(source) as task:
        environment = task.environment
        assert isinstance(environment, GymVectorEnvironment)
        walks = [environment.begin(3, rng)]
        walks += [list(environment.advance({0: 1, 1: 0, 2: 1}).values()) for _ in range(30)]
    # Two environments agree in 31 draws of four with probability 4^-31.
    assert len({tuple(walk) for walk in zip(*walks, strict=True)}) == 3


def test_a_source_can_ask_for_several_environments_and_their_processes_end_with_the_block() -> None:
    assert not isinstance(open_task(CORRIDOR).environment, GymVectorEnvironment), "to look at it, one is enough"
    with open_source(CORRIDOR) as task:
        assert isinstance(task.environment, GymVectorEnvironment)
        assert task.environment.num_envs == len(processes()) == 2
        learned(task.environment, task.expert, episodes_per_iteration=2)
    assert not processes()


def test_processes_end_after_an_interrupt_in_the_middle_of_a_step() -> None:
    def interrupted() -> None:
        with open_source(CORRIDOR) as task:
            assert isinstance(task.environment, GymVectorEnvironment)
            workers: Any = task.environment._vector

            def step(actions: Any) -> Any:
                workers.step_async(actions)
                workers.parent_pipes[0].recv()  # an answer that nobody will read a second time
                raise KeyboardInterrupt

            workers.step = step
            learned(task.environment, task.expert, episodes_per_iteration=2)

    level = gymnasium.logger.min_level
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not processes()
    assert gymnasium.logger.min_level == level


@pytest.mark.parametrize(
    ("environment", "num_envs", "message"),
    [
        ("FrozenLake-v1", 0, "num_envs must be at least 1, got 0"),
        ("chain", 2, "num_envs is for Gymnasium environments"),
    ],
)
def test_a_wrong_number_of_environments_is_explained(environment: str, num_envs: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Source(environment, {}, 0, num_envs=num_envs)


def test_a_run_side_by_side_is_found_again_and_the_best_policy_is_known(tmp_path: Path) -> None:
    """On the command line, and gone on with after an interruption."""

    def aceirl(*arguments: str) -> None:
        ran = CliRunner().invoke(app, arguments)
        assert ran.exit_code == 0, ran.stderr

    arguments = ["--expert", "optimal", "--stationary-expert", "--strategy", "random", "--max-samples", "300"]
    whole, interrupted = tmp_path / "whole", tmp_path / "interrupted"
    aceirl("run", "FrozenLake-v1", *arguments, "--num-envs", "3", "--out", str(whole))
    run = Run.open(whole)
    assert run.source is not None
    assert (run.source.num_envs, run.settings.episodes_per_iteration) == (3, 3)
    assert run.records()[-1].regret is not None

    begun = Run.create(interrupted, run.settings, run.source)
    with open_source(run.source) as task:
        for turn in begun.resume(task.environment, task.expert, regret=task.regret):
            if turn.record.iteration == 2:
                break
    aceirl("resume", str(interrupted))
    assert_same(begun.state(), run.state())
    assert [record.regret for record in begun.records()] == [record.regret for record in run.records()]
