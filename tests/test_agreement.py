"""What a certificate rests on: that the policy did what the expert says where the episode really was."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium_environments import Corridor
from typer.testing import CliRunner

from aceirl.cli import app
from aceirl.data.dataset import Trajectory
from aceirl.envs import make
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.envs.pay import reward_range
from aceirl.envs.simulator import Simulator
from aceirl.envs.truth import ExactModel
from aceirl.envs.vector import GymVectorEnvironment, Resting
from aceirl.errors import InputError
from aceirl.experts import Demonstration, DemonstrationExpert, FunctionExpert, ObservationExpert, TerminalExpert
from aceirl.experts.tasks import Source, open_task
from aceirl.irl.belief import Target
from aceirl.learner.collect import Answers, Reply, first_deviations
from aceirl.learner.engine import Engine
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.encoder import StateIndex
from aceirl.models.tabular.estimate import ExpertKind
from aceirl.models.tabular.mdp import MDP
from aceirl.protocols import Question
from aceirl.runs import Run
from aceirl.runs.result import load
from studies.observed import HIDDEN, Unaware, hidden_run
from studies.soundness import tallies

versionless = pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment")


class Dial(gymnasium.Env[Any, Any]):
    """Shows a number drawn anew at every step; whether it is above 0.5 is what the expert looks at. Two steps."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(1), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.np_random.random(1), 0.0, False, self.steps == 2, {}


def above(observation: Any) -> int:
    return int(observation[0] > 0.5)


def one_bin(observation: Any) -> int:
    return 0


def halves(observation: Any) -> int:
    return int(observation[0] > 0.5)


def last_turn(environment: Any, expert: Any, **settings: Any) -> Turn:
    chosen: dict[str, Any] = {"strategy": "advice", "irl": "feasible-point", "max_samples": 400, **settings}
    *_, last = learn(environment, expert, Settings(**chosen))
    return last


# Where the expert is asked, and what counts.


def test_an_episode_counts_up_to_where_the_expert_does_not_stand_by_its_answer() -> None:
    reference = np.array([[0, 1], [0, 1], [0, -1]])
    walk = ((0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0))

    def first(**options: Any) -> int:
        return int(first_deviations(reference, [Trajectory.of_moves(0, walk, **options)], 3).argmax())

    assert first() == 3
    assert [first(disagreed=step) for step in range(3)] == [0, 1, 2]
    other = ((0, 0, 1, 0), *walk[1:])
    assert int(first_deviations(reference, [Trajectory.of_moves(0, other, disagreed=2)], 3).argmax()) == 1
    assert int(first_deviations(reference, [Trajectory.of_moves(0, other, disagreed=0)], 3).argmax()) == 0


def test_bins_that_hide_what_the_expert_looks_at_are_never_certified_and_others_are() -> None:
    for cut, certified in ((one_bin, False), (halves, True)):
        environment = GymEnvironment(Dial(), horizon=2, discretise=cut)
        last = last_turn(environment, ObservationExpert(above, environment))
        assert (last.stopped == "certificate") == certified
        same, other = last.counts.repeats.sum(axis=0)
        assert (other > 0) == (not certified)
        assert same + other + last.counts.questions == last.counts.samples, "it is asked at every step"


def test_a_state_s_first_answer_stands_and_only_that_is_an_answer() -> None:
    environment = GymEnvironment(Dial(), horizon=2, discretise=one_bin)
    last = last_turn(environment, ObservationExpert(above, environment), max_samples=100)
    assert last.counts.questions == 1
    known = last.belief.known_actions
    assert known is not None
    np.testing.assert_array_equal(last.policy[:, 1], known[:, 1])


def test_each_of_several_episodes_is_asked_about_its_own_observation() -> None:
    asked: list[float] = []

    def noted(observation: Any) -> int:
        asked.append(float(observation[0]))
        return above(observation)

    environment = GymVectorEnvironment(SyncVectorEnv([Dial] * 4), horizon=2, discretise=one_bin)
    last_turn(environment, ObservationExpert(noted, environment), max_samples=8, episodes_per_iteration=4)
    assert len(set(asked)) == 8


def test_who_is_taken_to_answer_alike_and_does_not_gets_no_promise() -> None:
    environment = Unaware(Dial(), horizon=2, discretise=one_bin)
    expert = ObservationExpert(above, environment)
    last = last_turn(environment, expert, ask_again=0.25, max_samples=2000)
    assert last.stopped == "budget"
    for kind in ("policy", "criterion", "set", "reward"):
        certificate = last.certificate(kind)
        assert not certificate.holds
        assert certificate.in_words().startswith("Nothing is promised: asked again, the expert gave another answer ")
        assert last.belief.certificates[kind].value(last.belief) >= certificate.possible
    assert last.certificate("dynamics").refuted is None, "that is not about the expert"
    never = last_turn(environment, expert, ask_again=0)
    assert never.stopped == "certificate", "an assumption that nobody looks into"
    assert "the expert's answer depends on the state and the step only" in never.certificate("policy").assumptions


def test_silence_where_an_answer_was_given_is_no_agreement_unless_it_is_assumed() -> None:
    def only_at_first(calls: Iterator[int], step: int, state: int) -> int | None:
        return 0 if next(calls) == 0 else None

    mdp = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=2)
    for ask_again, certified in ((1.0, False), (0.0, True)):
        expert = FunctionExpert(partial(only_at_first, itertools.count()), stationary=True, ask_again=ask_again)
        last = last_turn(Simulator(mdp), expert)
        assert (last.stopped == "certificate") == certified
        assert not last.counts.contradicted.any(), "nothing was said differently"


def test_a_log_cannot_speak_for_all_that_falls_into_a_bin() -> None:
    entries = [Demonstration(np.array([value]), int(value > 0.5)) for value in (0.2, 0.8)]
    environment = GymEnvironment(Dial(), horizon=2, discretise=halves)
    binned = DemonstrationExpert(entries, environment)
    assert binned.deterministic
    assert last_turn(environment, binned).stopped == "budget"
    rooms = GymEnvironment(Corridor(), horizon=8)
    exact = DemonstrationExpert([Demonstration(room, 1) for room in range(4)], rooms)
    assert last_turn(rooms, exact, max_samples=2000).stopped == "certificate"


def test_a_person_is_asked_again_now_and_then() -> None:
    rooms = GymEnvironment(Corridor(), horizon=8)
    typed: list[str] = []

    def read(prompt: str) -> str:
        typed.append(prompt)
        return "1"

    last = last_turn(rooms, TerminalExpert(rooms, read=read, show=lambda text: None), max_samples=2000)
    assert last.stopped == "certificate"
    same, other = last.counts.repeats.sum(axis=0)
    assert other == 0
    assert 0 < same == len(typed) - last.counts.questions < last.counts.samples / 4
    assert last.record.answers == len(typed), "what a person repeats is an answer too"
    few = last_turn(rooms, TerminalExpert(rooms, read=read, show=lambda text: None), max_answers=6, epsilon=1e-3)
    assert (few.stopped, few.record.answers) == ("budget", 6)


def test_in_bins_everybody_is_asked_everywhere() -> None:
    environment, asked = GymEnvironment(Dial(), horizon=2, discretise=one_bin), []

    def read(prompt: str) -> str:
        asked.append(prompt)
        return str(above([float(shown[-1].rsplit(": ", 1)[1].strip("[]"))]))

    shown: list[str] = []
    last = last_turn(environment, TerminalExpert(environment, read=read, show=shown.append), max_samples=100)
    assert len(asked) == last.counts.samples
    assert last.counts.contradicted.any()
    with pytest.raises(InputError, match=r"ask_again is 0\.5, but states are bins"):
        last_turn(environment, ObservationExpert(above, environment), ask_again=0.5)


def test_an_expert_of_one_s_own_is_asked_everywhere_unless_it_says_otherwise() -> None:
    class Own:
        deterministic, stationary = True, True

        def answer(self, question: Question) -> int:
            return above(question.observation)

    environment = GymEnvironment(Dial(), horizon=2, discretise=one_bin)
    assert last_turn(environment, Own()).stopped == "budget"
    wrong = Own()
    wrong.ask_again = "often"  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="ask_again is 'often'"):
        last_turn(environment, wrong)


def test_samples_of_a_generative_model_contradict_too() -> None:
    problem = make("gridworld", 0)
    coin = itertools.count()
    expert = FunctionExpert(lambda step, state: next(coin) % 2)
    last = last_turn(Simulator(problem.mdp), expert, strategy="uniform", certify="set", max_samples=2000)
    assert last.counts.contradicted.any()
    assert last.certificate("set").refuted is not None


def test_repeats_survive_an_interruption(tmp_path: Path) -> None:
    def run(path: Path) -> tuple[Run, GymEnvironment]:
        settings = Settings(strategy="advice", irl="feasible-point", max_samples=60, ask_again=0.5, epsilon=1e-3)
        return Run.create(path, settings), Unaware(Dial(), horizon=2, discretise=one_bin)

    whole, environment = run(tmp_path / "whole")
    *_, _ = whole.resume(environment, ObservationExpert(above, environment))
    broken, environment = run(tmp_path / "broken")
    turns = broken.resume(environment, ObservationExpert(above, environment))
    for _ in range(7):
        next(turns)
    assert isinstance(turns, Iterator)
    turns.close()
    *_, _ = Run.open(tmp_path / "broken").resume(environment, ObservationExpert(above, environment))
    first, second = whole.state(), broken.state()
    assert first is not None
    assert second is not None
    assert first.counts.repeats.sum() > 0
    np.testing.assert_array_equal(first.counts.repeats, second.counts.repeats)
    np.testing.assert_array_equal(first.evidence["policy"]["now"], second.evidence["policy"]["now"])


def test_where_the_expert_disagrees_is_said_with_what_to_do(tmp_path: Path) -> None:
    for discretise, advice in (("test_agreement:one_bin", "use finer bins there"), ("test_agreement:halves", None)):
        out = tmp_path / discretise.partition(":")[2]
        options = ["--expert", "test_agreement:above", "--horizon", "2", "--max-samples", "60", "--out", str(out)]
        result = CliRunner().invoke(app, ["run", "test_agreement:Dial", "--discretise", discretise, *options])
        assert result.exit_code == 0, result.output
        said = "\n".join(load(out).sentences)
        assert ("Asked again, the expert gave another answer" in said) == (advice is not None)
        if advice is not None:
            assert advice in said


def test_the_same_question_is_asked_with_the_observation_by_ask_and_tell() -> None:
    environment = GymEnvironment(Dial(), horizon=2, discretise=one_bin)
    engine = Engine(environment, Answers(ExpertKind(stationary=True, ask_again=1.0)), Settings(strategy="advice"))
    first = engine.ask()
    assert isinstance(first, Question)
    assert not first.again
    engine.tell(1)
    second = engine.ask()
    assert isinstance(second, Question)
    assert second.again
    assert first.observation != second.observation
    engine.tell(Reply.NOBODY)
    assert isinstance(engine.ask(), Turn)


# Coverage against the exact truth.


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_hidden_breaks_no_promise_if_the_expert_is_asked_everywhere(name: str) -> None:
    for tally in tallies({name: partial(hidden_run, name)}, runs=60):
        assert tally.passes, tally


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_hidden_breaks_promises_if_it_is_asked_once(name: str) -> None:
    broken = [any(map(bool, hidden_run(name, seed, ask_again=0.0).values())) for seed in range(12)]
    # Each is broken with a probability of about 0.95; fewer than four of twelve happen once in 10⁹.
    assert sum(broken) >= 4


# What an episode can pay.


def test_losses_are_the_smaller_of_what_is_left_and_what_an_episode_can_pay() -> None:
    np.testing.assert_allclose(Target(1.0, 0.1, 2.0).losses(4), [1, 0.75, 0.5, 0.25, 0])
    limited = Target(1.0, 0.1, 2.0, max_return=4.0)
    assert (limited.possible(4), limited.share(4)) == (4.0, 0.25)
    np.testing.assert_allclose(limited.losses(4), [1, 1, 1, 0.5, 0])
    assert Target(1.0, 0.1, 2.0, max_return=9.0).possible(4) == 8.0
    np.testing.assert_allclose(Target(1.0, 0.1, 2.0, by_state=True).losses(4), [0.75, 0.5, 0.25, 0, 0])
    np.testing.assert_allclose(replace(limited, by_state=True).losses(4), [1, 1, 0.5, 0, 0])
    assert Settings(max_return=4.0, rmax=2.0).target(4).epsilon == 0.4
    assert Settings(rmax=2.0).target(4).epsilon == pytest.approx(0.8)
    assert Settings(rmax=2.0, epsilon=0.3, max_return=4.0).target(4).epsilon == 0.3


def test_the_certificate_names_what_an_episode_can_pay() -> None:
    rooms = GymEnvironment(Corridor(), horizon=8)
    expert = ObservationExpert(lambda room: 1, rooms)
    last = last_turn(rooms, expert, max_return=1.0, max_samples=2000)
    certificate = last.certificate("policy")
    assert certificate.holds
    assert certificate.value <= 0.1
    assert "0.1, where the best and the worst episode differ by at most 1." in certificate.in_words()
    assert "returns of two episodes differ by at most 1" in certificate.assumptions


def test_the_spread_of_returns_is_that_of_all_paths() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        horizon, n_states, n_actions = 3, 3, 2
        rows = rng.dirichlet(np.ones(n_states), (n_states, n_actions)) * (
            rng.random((n_states, n_actions, n_states)) < 0.6
        )
        rows[rows.sum(axis=2) == 0] = 1.0
        rows /= rows.sum(axis=2, keepdims=True)
        mdp = MDP.from_dense(rows, initial=rng.dirichlet([1.0, 1.0, 0.0 + 1e-3]), horizon=horizon)
        reward = rng.normal(size=mdp.shape)
        returns = [
            sum(reward[h, path[h], actions[h]] for h in range(horizon))
            for path in itertools.product(range(n_states), repeat=horizon + 1)
            for actions in itertools.product(range(n_actions), repeat=horizon)
            if mdp.initial[path[0]] > 0 and all(rows[path[h], actions[h], path[h + 1]] > 0 for h in range(horizon))
        ]
        model = ExactModel(mdp, reward, StateIndex(spaces.Discrete(n_states)))
        assert model.max_return == pytest.approx(max(returns) - min(returns))


@pytest.mark.parametrize(
    ("environment", "parameters", "rmax", "max_return"),
    [
        ("FrozenLake-v1", {}, 1.0, 1.0),
        ("Blackjack-v1", {}, 2.0, 2.0),
        ("Blackjack-v1", {"natural": True, "sab": False}, 2.5, 2.5),
        ("Blackjack-v1", {"natural": True, "sab": True}, 2.0, 2.0),
        ("CliffWalking", {}, 100.0, None),
        ("Taxi", {}, 30.0, None),
        ("test_agreement:Declared", {}, 1.0, 3.0),
        ("test_agreement:Dial", {}, 1.0, None),
    ],
)
@versionless
def test_what_steps_and_episodes_can_pay_is_read_from_the_environment(
    environment: str, parameters: dict[str, Any], rmax: float, max_return: float | None
) -> None:
    source = Source(environment, parameters, 0, expert="test_agreement:above", horizon=9, discretise=None)
    if environment.startswith("test_agreement"):
        source = Source(environment, parameters, 0, expert="test_agreement:above", horizon=9, discretise="4")
    task = open_task(source)
    assert (task.world.rmax, task.world.max_return) == (rmax, max_return)


class Declared(Dial):
    max_return = 3.0


class Taxed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Changes rewards without saying so by its class."""


def test_what_is_paid_is_known_as_long_as_no_wrapper_changes_it() -> None:
    lake = gymnasium.make("FrozenLake-v1")
    assert reward_range(lake) == (1.0, 1.0)
    assert reward_range(gymnasium.wrappers.TransformReward(lake, lambda reward: 100 * float(reward))) == (None, None)
    assert reward_range(Taxed(lake)) == (None, None)
    outer = Taxed(lake)
    outer.rmax = np.float32(2.0)  # type: ignore[attr-defined]
    assert reward_range(outer) == (2.0, None), "what lies inside says nothing of the returns outside"
    silent = Declared()
    silent.max_return = None  # type: ignore[assignment]
    assert reward_range(silent) == (None, None)


def test_every_schedule_of_rewards_of_the_lake_is_read() -> None:
    try:
        lake = gymnasium.make("FrozenLake-v1", reward_schedule=(100, -100, 0))
    except TypeError:
        pytest.skip("this version of Gymnasium has no schedules")
    assert reward_range(lake) == (200.0, 200.0)
    slow = gymnasium.make("FrozenLake-v1", reward_schedule=(1, 0, -1))
    assert reward_range(slow) == (2.0, None)


def test_a_declared_return_must_be_a_number() -> None:
    env = Declared()
    env.max_return = -1.0
    with pytest.raises(InputError, match=r"max_return is -1\.0; it must be a number above 0"):
        reward_range(env)


def test_a_share_above_one_is_not_certified_as_more_than_all() -> None:
    rooms = GymEnvironment(Corridor(), horizon=8)
    last = last_turn(rooms, ObservationExpert(lambda room: 1, rooms), max_return=1.0, epsilon=10.0, max_samples=200)
    assert last.stopped == "certificate"
    assert last.certificate("policy").value <= 1.0


def test_kinds_about_every_step_are_asked_for_in_steps() -> None:
    assert Settings(max_return=1.0, certify="set").target(10).epsilon == pytest.approx(1.0)
    assert Settings(max_return=1.0, certify="policy").target(10).epsilon == pytest.approx(0.1)


@versionless
def test_an_exact_model_says_what_an_episode_can_pay() -> None:
    task = open_task(Source("FrozenLake-v1", {}, 0, expert="optimal", horizon=20))
    assert (task.world.rmax, task.world.max_return) == (1.0, 1.0)
    cliff = open_task(Source("CliffWalking", {}, 0, expert="optimal", horizon=20))
    assert (cliff.world.rmax, cliff.world.max_return) == (100.0, 2000.0 - 13.0)


# Independent copies.


class Careless(Corridor):
    """Takes its randomness from numpy's global generator, and none from its seed."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.room = int(np.random.randint(self.rooms))  # noqa: NPY002 - what many environments do
        return self.room, 0.0, False, False, {}


def test_copies_in_processes_of_their_own_play_episodes_of_their_own() -> None:
    np.random.seed(0)  # noqa: NPY002 - what a forked process inherits
    environment = GymVectorEnvironment(AsyncVectorEnv([lambda: Resting(Careless(rooms=50))] * 2), horizon=12)
    try:
        environment.begin(2, np.random.default_rng(0))
        walks = [environment.advance({0: 1, 1: 1}) for _ in range(12)]
    finally:
        environment.close()
    # Two independent walks agree everywhere with probability 50⁻¹².
    assert any(here[0] != here[1] for here in walks)
