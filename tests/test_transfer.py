"""A reward taken elsewhere: by the names of states, with the target's own dynamics, and with what that depends on."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from aceirl.bench.experiments import ExperimentResults, transfer_loss
from aceirl.bench.paper import SPECS
from aceirl.bench.report import write_report
from aceirl.bench.specs import Cell
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, sweep
from aceirl.bench.transfers import known_estimate, targets, transfer_regrets
from aceirl.cli import app
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.learner.loop import learn
from aceirl.learner.transfer import KnownProcess, best_actions, named_process, process_of_file, transfer
from aceirl.learner.transfer.planning import _for_the_action
from aceirl.models.tabular.dynamic_programming import evaluate
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import DesignMatrix, FeatureReward, RewardSpace, StateReward
from aceirl.runs.api import ActiveIRL
from aceirl.runs.result import Result as Learnt

ARMS: dict[str, Any] = {"arm_length": 3, "horizon": 6, "max_failure": 0.1}


def learnt(environment: str = "four-paths", seed: int = 0, *, samples: int = 600, **choices: Any) -> Learnt:
    problem = make(environment, seed, **(ARMS if environment == "four-paths" else {}))
    settings = {"strategy": "probe", "certify": None, "max_samples": samples, "seed": seed} | choices
    return ActiveIRL(**settings).fit(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape))


@pytest.fixture(scope="module")
def arms() -> Learnt:
    return learnt()


def best_by_hand(mdp: MDP, reward: FloatArray) -> float:
    """The value of the best of all deterministic policies, one after the other."""
    tables = itertools.product(range(mdp.n_actions), repeat=mdp.horizon * mdp.n_states)
    policies = (np.eye(mdp.n_actions)[np.array(table).reshape(mdp.horizon, mdp.n_states)] for table in tables)
    return max(float(mdp.initial @ evaluate(mdp, reward, policy)[1][0]) for policy in policies)


def test_the_plan_is_the_best_of_all_policies() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        mdp = MDP.from_dense(rng.dirichlet(np.ones(3), (3, 2)), initial=np.full(3, 1 / 3), horizon=3)
        reward = rng.normal(size=mdp.shape)
        policy, value = best_actions(mdp, reward)
        assert value == pytest.approx(best_by_hand(mdp, reward))
        assert value == pytest.approx(float(mdp.initial @ evaluate(mdp, reward, policy)[1][0]))


def test_actions_that_are_equally_good_are_taken_equally_often() -> None:
    mdp = MDP.from_dense(np.full((2, 4, 2), 0.5), initial=0, horizon=2)
    reward = np.zeros(mdp.shape)
    reward[:, 0] = [1.0, 1.0, 0.0, 1.0 - 1e-13]
    policy, _ = best_actions(mdp, reward)
    np.testing.assert_allclose(policy[0, 0], [1 / 3, 1 / 3, 0, 1 / 3])
    np.testing.assert_allclose(policy[0, 1], 0.25)


def test_at_home_the_plan_does_what_is_best_under_the_recovered_reward(arms: Learnt) -> None:
    """The same table up to scale, planned with the true dynamics: the goal is where the expert's is."""
    problem = make("four-paths", 0, **ARMS)
    found = arms.transfer(problem)
    table, _ = best_actions(problem.mdp, arms.reward_table)
    np.testing.assert_allclose(found.policy, table)
    assert found.regret == Truth(problem.mdp, problem.reward).regret(found.policy) == pytest.approx(0, abs=1e-9)
    assert arms.turn.explanation is not None
    assert found.value == pytest.approx(Truth(problem.mdp, found.reward).best)
    np.testing.assert_allclose(found.reward[0], arms.turn.explanation.paid)


def shuffled(process: KnownProcess, order: Any) -> KnownProcess:
    """The same process with its states in another order."""
    dense = process.mdp.transitions.dense()[np.ix_(order, range(process.mdp.n_actions), order)]
    mdp = MDP.from_dense(dense, initial=process.mdp.initial[order], horizon=process.mdp.horizon)
    assert process.reward is not None
    return KnownProcess(mdp, tuple(process.names[s] for s in order), reward=process.reward[:, order])


@pytest.mark.parametrize("choices", [{}, {"reward": "state-action"}, {"irl": "feasible-point", "reward": "any"}])
def test_states_are_known_by_their_names_whatever_their_numbers(choices: dict[str, Any]) -> None:
    found = learnt(**choices)
    here = KnownProcess.of(make("four-paths", 0, **ARMS))
    order = np.random.default_rng(1).permutation(here.mdp.n_states)
    straight = transfer(found.turn, here, here.names)
    moved = transfer(found.turn, shuffled(here, order), here.names)
    np.testing.assert_allclose(moved.reward, straight.reward[:, order])
    np.testing.assert_allclose(moved.policy, straight.policy[:, order])
    assert moved.value == pytest.approx(straight.value)
    assert moved.regret == pytest.approx(straight.regret)
    assert moved.loses_more_than == pytest.approx(straight.loses_more_than)
    assert moved.certificate is not None
    assert straight.certificate is not None
    assert moved.certificate.value == pytest.approx(straight.certificate.value)
    assert [order[s] for s in moved.unmet] == pytest.approx([s for s in order if s in straight.unmet])


def test_a_state_that_was_never_met_is_worth_nothing_and_is_counted(arms: Learnt) -> None:
    """Longer arms: the goal is still the cell that the expert's was, and the new cells pay nothing."""
    here = KnownProcess.of(make("four-paths", 0, **ARMS))
    longer = named_process("four-paths", 0, **(ARMS | {"arm_length": 4}))
    found = transfer(arms.turn, longer, here.names)
    new = [longer.names.index(f"{arm}4") for arm in "lurd"]
    assert set(new) <= set(found.unmet)
    assert not found.reward[:, new].any()
    assert found.certificate is None
    assert transfer(arms.turn, longer.valued_as(here), here.names).regret == pytest.approx(0, abs=1e-9)
    assert found.regret is not None
    assert found.regret > 0.1, "by its own truth the tip is the goal"
    assert f"{len(found.unmet)} of the states there were never visited" in found.in_words()
    assert "does not explain" not in found.in_words()
    assert "does not explain them" in replace(found, explains=False).in_words()


def test_a_target_with_fewer_states_and_another_horizon(arms: Learnt) -> None:
    here = KnownProcess.of(make("four-paths", 0, **ARMS))
    goal = int(np.argmax(here.reward[0, :, 0]))  # type: ignore[index]
    assert arms.turn.explanation is not None
    assert arms.turn.explanation.goals == [goal]
    # One step from the goal, and one action too few: stay, or go there.
    dense = np.zeros((2, 2, 2))
    dense[0, 0, 0] = dense[0, 1, 1] = dense[1, :, 1] = 1.0
    pair = KnownProcess(MDP.from_dense(dense, initial=0, horizon=9), ("elsewhere", here.names[goal]))
    found = transfer(arms.turn, pair, here.names)
    np.testing.assert_allclose(found.policy[:-1, 0], np.tile([0.0, 1.0], (8, 1)))
    assert found.value == pytest.approx(8.0)
    assert found.regret is None
    assert found.unmet == (0,)


def test_rewards_of_actions_need_the_same_actions() -> None:
    here = KnownProcess.of(make("four-paths", 0, **ARMS))
    two = KnownProcess(MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=6), (here.names[0],))
    spaces: tuple[dict[str, Any], ...] = ({"reward": "state-action"}, {"irl": "feasible-point", "reward": "any"})
    for choices in spaces:
        with pytest.raises(InputError, match="is about actions: the run has 4, and the target 2"):
            transfer(learnt(**choices).turn, two, here.names)


def test_a_table_is_clipped_to_the_shorter_horizon() -> None:
    problem = make("four-paths", 0, **ARMS)
    found = learnt(irl="feasible-point", reward="any")
    shorter = replace(problem.mdp, horizon=4)
    np.testing.assert_array_equal(found.transfer(shorter).reward, found.reward_table[:4])
    longer = found.transfer(replace(problem.mdp, horizon=8)).reward
    np.testing.assert_array_equal(longer[:6], found.reward_table)
    np.testing.assert_array_equal(longer[6:], found.turn.belief.recovered.unknown_step_reward)
    assert not found.transfer(shorter).loses_more_than


def test_features_travel_with_their_states() -> None:
    features = np.eye(13)[:, ::-1]  # one for each state, in another order
    here = KnownProcess.of(make("four-paths", 0, **ARMS))
    order = np.random.default_rng(2).permutation(13)
    found = learnt(reward=FeatureReward(features))
    straight, moved = (transfer(found.turn, one, here.names) for one in (here, shuffled(here, order)))
    np.testing.assert_allclose(moved.policy, straight.policy[:, order])
    assert straight.regret == pytest.approx(0, abs=1e-9)


def test_a_state_that_was_never_met_is_worth_what_its_features_are() -> None:
    features = np.arange(13.0)[:, None]
    found = learnt(samples=6, reward=FeatureReward(features))
    assert not found.turn.counts.visits.any(axis=(0, 2)).all()
    here = found.transfer(make("four-paths", 0, **ARMS))
    theta = found.turn.belief.recovered.explanation.theta  # type: ignore[union-attr]
    np.testing.assert_allclose(here.reward[0, :, 0], features @ theta)
    assert here.unmet == ()


@dataclass(frozen=True)
class Own(RewardSpace):
    """The space of states by another name."""

    name: ClassVar = "own"

    def design_matrix(self, mdp: MDP, terminal: IntArray) -> DesignMatrix:
        return replace(StateReward().design_matrix(mdp, terminal), name=self.name)


def test_a_reward_of_a_space_of_ones_own_is_refused() -> None:
    found = learnt(samples=60, reward=Own())
    with pytest.raises(InputError, match="'own'"):
        found.transfer(make("four-paths", 0, **ARMS))


def test_what_is_not_determined_shows_in_the_share_of_rewards_that_lose() -> None:
    """Little was seen: rewards that explain the answers as well want other things elsewhere, and then it shows."""
    start = learnt(samples=18).transfer(make("four-paths", 0, **ARMS), start="uniform")
    later = learnt(samples=2000).transfer(make("four-paths", 0, **ARMS), start="uniform")
    assert start.loses_more_than["0.1"] > later.loses_more_than["0.1"]
    for found in (start, later):
        shares = list(found.loses_more_than.values())
        assert shares == sorted(shares, reverse=True)
        assert list(found.loses_more_than) == [
            "0.01",
            "0.05",
            "0.1",
            "0.2",
            "0.5",
        ]


def test_an_end_is_paid_for_on_arrival_with_the_targets_own_dynamics() -> None:
    """On FrozenLake the flag is the goal; on another map, slippery or not, the plan gets there."""
    gymnasium = pytest.importorskip("gymnasium")
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.experts.tasks import GymWorld, optimal_task

    reached = 0
    for seed in range(5):  # which of its ties the expert takes, and so what it tells, may hang on the processor
        env = gymnasium.make("FrozenLake-v1")
        environment = GymEnvironment(env, horizon=30)
        task = optimal_task(GymWorld.of(env, environment))
        found = ActiveIRL(strategy="probe", certify=None, max_samples=2000, seed=seed).fit(environment, task.expert)
        there = [
            found.transfer(named_process("FrozenLake-v1", **parameters))
            for parameters in ({}, {"desc": ["SFHF", "FFFF", "HFFH", "FFFG"]}, {"is_slippery": False})
        ]
        assert all(one.certificate is None for one in there)
        reached += all(one.regret is not None and one.regret < 0.05 for one in there)
    assert reached >= 3
    hole = found.transfer("FrozenLake-v1", start="row 2, column 1")
    assert hole.target.mdp.initial[hole.target.names.index("4")] == 1


def test_starts() -> None:
    process = KnownProcess.of(make("gridworld", 0))
    np.testing.assert_allclose(process.starting("uniform").mdp.initial, 1 / 9)
    assert process.starting("2,2").mdp.initial[4] == 1
    assert process.starting(None) is process
    ended = replace(process, terminal=frozenset({0, 8}))
    np.testing.assert_allclose(ended.starting("uniform").mdp.initial, [0, *[1 / 7] * 7, 0])
    with pytest.raises(InputError, match="unknown state of the target '9,9'"):
        process.starting("9,9")


def test_a_model_file(tmp_path: Path, arms: Learnt) -> None:
    problem = make("four-paths", 0, **ARMS)
    arrays: dict[str, Any] = {
        "transitions": problem.mdp.transitions.dense(),
        "initial": problem.mdp.initial,
        "horizon": problem.mdp.horizon,
        "names": np.array(problem.layout.state_names),
    }
    np.savez(tmp_path / "model.npz", **arrays)
    process = process_of_file(tmp_path / "model.npz")
    assert process.names == problem.layout.state_names
    assert process.reward is None
    found = arms.transfer(str(tmp_path / "model.npz"))
    assert found.regret is None
    np.testing.assert_array_equal(found.policy, arms.transfer(problem).policy)
    np.savez(tmp_path / "truth.npz", **arrays, reward=problem.reward[0])
    assert arms.transfer(str(tmp_path / "truth.npz")).regret == arms.transfer(problem).regret
    names = np.array(["a", "terminal a"])
    np.savez(tmp_path / "ends.npz", transitions=np.ones((1, 2, 1, 2)) / 2, initial=0, names=names)
    assert process_of_file(tmp_path / "ends.npz").terminal == {1}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"initial": 0}, "has no array 'transitions'"),
        ({"transitions": np.ones((1, 1, 1)), "initial": 0}, "horizon must be given"),
        ({"transitions": np.ones((1, 1, 1)), "initial": 0, "horizon": 2, "rewards": 1}, "did you mean 'reward'"),
        ({"transitions": np.ones((1, 1, 1, 1)), "initial": 0, "names": ["a", "b"]}, "2 names for 1 states"),
        ({"transitions": np.full((1, 2, 1, 2), 0.5), "initial": 0, "names": ["a", "a"]}, "two states are called 'a'"),
        ({"transitions": np.ones((1, 1, 1, 1)), "initial": 0, "terminal": [True, False]}, "terminal must have shape"),
        ({"transitions": np.full((1, 1, 1, 1), 0.5), "initial": 0}, "sum to 0.5"),
    ],
)
def test_a_model_file_that_is_wrong_says_so(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "model.npz", **arrays)
    with pytest.raises(InputError, match=message):
        process_of_file(tmp_path / "model.npz")


def test_without_names_the_numbers_must_do(arms: Learnt) -> None:
    with pytest.raises(InputError, match="the target has 17 states and the run 13; name the states of both"):
        arms.transfer(make("four-paths", 0, **(ARMS | {"arm_length": 4})))
    with pytest.raises(InputError, match="no state of the target was met"):
        arms.transfer("double-chain", names=KnownProcess.of(make("four-paths", 0, **ARMS)).names)


def aceirl(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("transfer") / "run"
    small = [f"--set={name}={value}" for name, value in ARMS.items()]
    chosen = ["--irl", "sparse-likelihood", "--strategy", "probe", "--max-samples", "600", "--certify", "none"]
    ran = aceirl("run", "four-paths", *small, "--episodes-per-iteration", "1", *chosen, "--out", str(folder), "--json")
    assert ran.exit_code == 0, ran.output
    return folder


@pytest.mark.parametrize(
    "options",
    [[], ["--start", "uniform"], ["--start", "l2"], ["--env-seed", "5"], ["--set", "max_failure=0.3"]],
    ids=" ".join,
)
def test_the_command_prints_one_object(run: Path, options: list[str]) -> None:
    ran = aceirl("transfer", str(run), *options, "--json")
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout.splitlines()[-1])
    assert {"regret", "value", "loses_more_than", "certificate"} <= found.keys()
    assert found["regret"] == pytest.approx(0, abs=1e-9)
    assert found["value"] > 0
    assert found["certificate"] > 0
    assert all(0 <= share <= 1 for share in found["loses_more_than"].values())


def test_the_command_in_words_and_pictures(run: Path, tmp_path: Path) -> None:
    ran = aceirl("transfer", str(run), "--env-seed", "5", "--start", "uniform")
    assert ran.exit_code == 0, ran.output
    assert "the last step leads to state" in ran.stdout
    assert "it loses 0.0%" in ran.stdout
    assert (run / "pictures" / "transfer-5-from-uniform.svg").stat().st_size > 1000
    problem = make("four-paths", 0, **ARMS)
    np.savez(
        tmp_path / "model.npz",
        transitions=problem.mdp.transitions.dense(),
        initial=problem.mdp.initial,
        horizon=6,
        names=problem.layout.state_names,
    )
    filed = aceirl("transfer", str(run), "--to", str(tmp_path / "model.npz"), "--json")
    assert json.loads(filed.stdout.splitlines()[-1])["regret"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "four-path"], "unknown environment 'four-path'; did you mean 'four-paths'?"),
        (["--to", "double-chain"], "no state of the target was met in the run"),
        (["--start", "l9"], "unknown state of the target 'l9'"),
        (["--set", "arms=3"], "unknown parameter of four-paths 'arms'"),
        (["--to", "missing.npz"], "there is no model file missing.npz"),
        (["--to", "m.npz", "--env-seed", "1"], "--env-seed is for built-in environments"),
        (["--to", "m.npz", "--set", "a=1"], "a model file has no parameters"),
        (["--horizon", "9"], "--horizon is for Gymnasium environments; four-paths has its own"),
        (["--to", "CartPole-v1"], "needs its model: observations are continuous"),
    ],
)
def test_a_mistake_is_told_in_one_line(run: Path, options: list[str], message: str) -> None:
    ran = aceirl("transfer", str(run), *options)
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def small_cell(strategy: str = "probe", seed: int = 0, samples: int = 200, dynamics: Any = "estimated") -> Cell:
    scenario = next(one for one in SPECS["transfer"].scenarios if one.environment == "gridworld")
    chosen = {"choices": {"max_samples": samples}, "transfer": dynamics}
    return scenario.model_copy(update=chosen).cell(strategy, seed)


def test_a_known_process_is_estimated_as_it_is() -> None:
    problem = make("gridworld", 0)
    estimate = known_estimate(problem, (problem.expert > 0).astype(np.int64))
    np.testing.assert_allclose(estimate.mdp.transitions.dense(), problem.mdp.transitions.dense(), atol=1e-8)
    np.testing.assert_array_equal(estimate.expert_policy, problem.expert)


def test_elsewhere_the_expert_wants_what_it_wanted() -> None:
    """Other seeds of Four Paths have other goals; the study's targets do not."""
    scenario = next(one for one in SPECS["transfer"].scenarios if one.environment == "four-paths")
    goals = set()
    for seed in range(6):
        found = targets(scenario.environment, seed, scenario.parameters)
        home = make("four-paths", seed)
        for target in found.values():
            np.testing.assert_array_equal(target.reward, home.reward)
            np.testing.assert_allclose(target.mdp.initial, 1 / 41)
        here, there = (target.mdp.transitions.dense() for target in found.values())
        assert not np.allclose(here, there)
        goals.add(int(home.reward[0, :, 0].argmax()))
    assert len(goals) > 1


def test_the_study_has_a_row_for_each_plan_and_target_and_reports_them(tmp_path: Path) -> None:
    spec = SPECS["transfer"].with_seeds(1)
    chosen = [one for one in spec.scenarios if one.environment == "gridworld" and one.choices["max_samples"] < 1000]
    spec = spec.model_copy(update={"scenarios": tuple(chosen), "strategies": ("probe",)})
    store = Store(tmp_path / "runs")
    *_, last = sweep(spec.cells(), store, Here())
    assert (last.finished, last.failed) == (2, 0)
    results = ExperimentResults.read(spec, store)
    places = ("every start", "other dynamics", "obstacle moved")
    (run,) = results.of(chosen[0].name, "probe")
    assert set(run.labels) == set(itertools.product(("reward", "any", "point", "answers"), places))
    (known,) = results.of(chosen[1].name, "probe")
    assert set(known.labels) == set(itertools.product(("reward", "occupancy"), places))
    reward, copied = (transfer_loss([run], plan, "obstacle moved") for plan in ("reward", "answers"))
    assert reward is not None
    assert copied is not None
    assert reward.mean < 1e-9 < 0.1 < copied.mean, "copied answers walk into the obstacle"
    written = write_report([spec], store, tmp_path, command="aceirl reproduce transfer")
    assert any("copying the answers" in line for line in written.lines)
    assert "copying the answers" in written.path.read_text()


def test_sixty_samples_of_following_the_expert_suffice_if_the_dynamics_are_known() -> None:
    cell = small_cell("advice", samples=60, dynamics="known")
    problem = make(cell.environment, cell.seed)
    *_, turn = learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), cell.settings)
    regrets = transfer_regrets(cell.environment, cell.parameters, "known", turn)
    assert max(regrets.values()) < 0.01


def test_where_nothing_is_promised_json_has_no_number() -> None:
    """Radii that guarantee nothing, and an expert who contradicted itself."""
    here = KnownProcess.of(make("four-paths", 0, **ARMS))
    sound = transfer(learnt().turn, here, here.names)
    assert sound.certificate is not None
    assert sound.to_json()["certificate"] == min(sound.certificate.value, sound.certificate.possible)
    paper = transfer(learnt(confidence="hoeffding").turn, here, here.names)
    assert paper.certificate is not None
    assert not paper.certificate.guaranteed
    assert paper.to_json()["certificate"] is None
    refuted = replace(sound, certificate=replace(sound.certificate, refuted="it said otherwise"))
    assert refuted.to_json()["certificate"] is None


def test_what_a_place_pays_may_be_for_what_the_expert_does_there() -> None:
    """Only where it always does the same, and only of places that are wanted."""
    table = np.ones((2, 3, 2)) * np.array([1.0, 0.5, -0.7])[:, None]
    said = np.array([[True, False], [True, True], [False, True]])
    only = _for_the_action(table, np.array([1.0, 0.5, 0.0]), said)
    assert only[0].tolist() == only[1].tolist() == [[1.0, 0.0], [0.5, 0.5], [-0.7, -0.7]]
    assert table[0, 0, 1] == 1.0
