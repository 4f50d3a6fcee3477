"""Recordings: read in every form, inferred from by the same engine, and honest about what they leave open."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium_environments import Corridor
from typer.testing import CliRunner

from aceirl import ActiveIRL, load
from aceirl.cli import app
from aceirl.envs import make
from aceirl.errors import InputError
from aceirl.experts.tasks import Recording, read_recording, recorded_task
from aceirl.explain.support import AHEAD, explained_set, support_of, worth
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of
from aceirl.learner.outputs import EpisodeLog, save_minari
from aceirl.learner.recorded import numbered, recorded_turn, with_expert
from aceirl.learner.settings import Settings
from aceirl.learner.transfer import KnownProcess
from aceirl.models.tabular.mdp import MDP
from aceirl.rewards import contains, extreme, sample
from aceirl.runs import Run

Step = tuple[Any, int, float, Any, bool, bool]

ROOMS = 4


def corridor_walk(actions: list[int]) -> list[Step]:
    """Rooms 0 to 3: 1 goes on, and leaving the last ends the episode; 0 goes back."""
    room, steps = 0, []
    for action in actions:
        after = room + 1 if action else max(0, room - 1)
        over = after == ROOMS
        steps.append((room, action, float(over), min(after, ROOMS - 1), over, False))
        room = after
    return steps


ON = [1, 1, 1, 1]
WALKS = [corridor_walk(walk) for walk in (ON, [1, 0, 1, 1, 1, 1], ON, [0, 1, 1, 0, 1, 1, 1], [1, 1, 1, 0, 1, 1])]


@dataclass
class Trajectory:
    """As imitation has it."""

    obs: Any
    acts: Any
    infos: Any
    terminal: bool


def columns(walks: list[list[Step]]) -> dict[str, Any]:
    flat = [step for walk in walks for step in walk]
    seen, acted, _, after, over, cut = zip(*flat, strict=True)
    return {
        "observations": np.array(seen),
        "actions": np.array(acted),
        "next_observations": np.array(after),
        "terminals": np.array(over),
        "timeouts": np.array(cut),
    }


def as_trajectories(walks: list[list[Step]]) -> list[Trajectory]:
    return [
        Trajectory(
            np.array([walk[0][0], *(step[3] for step in walk)]), np.array([step[1] for step in walk]), None, True
        )
        for walk in walks
    ]


def as_lines(walks: list[list[Step]], path: Path) -> Path:
    names = ("observation", "action", "reward", "next_observation", "terminated", "truncated")
    lines = [{"episode": k, **dict(zip(names, step, strict=True))} for k, walk in enumerate(walks) for step in walk]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def as_npz(walks: list[list[Step]], path: Path) -> Path:
    np.savez(path, **columns(walks))
    return path


def as_arrow(walks: list[list[Step]], folder: Path) -> Path:
    """As Hugging Face's library saves what imitation gives it."""
    pyarrow = pytest.importorskip("pyarrow")
    folder.mkdir()
    rows = {
        "obs": [one.obs.tolist() for one in as_trajectories(walks)],
        "acts": [one.acts.tolist() for one in as_trajectories(walks)],
        "infos": [["{}"] * len(one.acts) for one in as_trajectories(walks)],
        "terminal": [one.terminal for one in as_trajectories(walks)],
    }
    table = pyarrow.table(rows)
    shard = str(folder / "data-00000-of-00001.arrow")
    with pyarrow.OSFile(shard, "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text("{}")
    return folder


def logged(walks: list[list[Step]]) -> EpisodeLog:
    log = EpisodeLog(Corridor(rooms=ROOMS))
    for walk in walks:
        log.reset(seed=0)
        for step in walk:
            log.step(step[1])
    return log


def old_npz(walks: list[list[Step]]) -> dict[str, Any]:
    """As imitation saved trajectories before."""
    all_of = as_trajectories(walks)
    return {
        "obs": np.concatenate([one.obs for one in all_of]),
        "acts": np.concatenate([one.acts for one in all_of]),
        "indices": np.cumsum([len(one.acts) for one in all_of])[:-1],
        "terminal": np.array([one.terminal for one in all_of]),
    }


FORMS: dict[str, Callable[[Path], Any]] = {
    "steps with the next observation": lambda folder: WALKS,
    "steps as dictionaries": lambda folder: [
        [{"obs": s[0], "action": s[1], "next_obs": s[3], "terminated": s[4]} for s in walk] for walk in WALKS
    ],
    "columns of episodes": lambda folder: [
        {"observations": one.obs, "actions": one.acts, "terminations": [one.terminal]} for one in as_trajectories(WALKS)
    ],
    "trajectories": lambda folder: as_trajectories(WALKS),
    "a generator": lambda folder: (one for one in as_trajectories(WALKS)),
    "arrays": lambda folder: columns(WALKS),
    "lines": lambda folder: as_lines(WALKS, folder / "a.jsonl"),
    "lines in a folder": lambda folder: as_lines(WALKS, folder / "a.jsonl").parent,
    "a file of arrays": lambda folder: str(as_npz(WALKS, folder / "a.npz")),
    "hugging face": lambda folder: as_arrow(WALKS, folder / "hf"),
    "an episode log": lambda folder: logged(WALKS),
    "imitation's older file": lambda folder: old_npz(WALKS),
}


def walks_of(recording: Recording) -> list[tuple[list[Any], list[Any], bool | None]]:
    return [
        (np.asarray(one.observations).tolist(), np.asarray(one.actions).tolist(), one.terminated)
        for one in recording.episodes
    ]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_recording(form: str, tmp_path: Path) -> None:
    expected = [(one.obs.tolist(), one.acts.tolist(), True) for one in as_trajectories(WALKS)]
    assert walks_of(read_recording(FORMS[form](tmp_path))) == expected


def test_a_minari_dataset_says_itself_what_it_is_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = EpisodeLog(gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20))
    for actions in ([1, 1, 2, 1, 2, 2], [2, 2, 1, 1, 1, 2], [1, 0, 1, 2, 1, 2, 2]):
        env.reset(seed=0)
        for action in actions:
            env.step(action)
    about: dict[str, Any] = {"author": "us", "author_email": "us@example.com", "code_permalink": "x"}
    save_minari("lake/walks-v0", env, algorithm_name="x", description="walks", **about)
    dataset = minari.load_dataset("lake/walks-v0")
    expected = [[0, 4, 8, 9, 13, 14, 15], [0, 1, 2, 6, 10, 14, 15], [0, 4, 4, 8, 9, 13, 14, 15]]
    for data in (dataset, "lake/walks-v0", tmp_path / "lake" / "walks-v0"):
        assert [walk[0] for walk in walks_of(read_recording(data))] == expected
    result = ActiveIRL().infer("lake/walks-v0")
    assert result.task.environment.horizon == 7  # that of the longest, not the limit
    assert "row 1, column 1" in result.names


def test_without_the_next_observation_an_episode_ends_where_it_was() -> None:
    data = columns([corridor_walk(ON), corridor_walk([1, 0, 1])])
    del data["next_observations"]
    data["timeouts"][-1] = True
    first, second = read_recording(data).episodes
    assert (list(first.observations), first.terminated) == ([0, 1, 2, 3], True)
    assert (list(second.observations), second.terminated) == ([0, 1, 0], False)
    recording = read_recording(data)
    shown = numbered(recording, recorded_task(recording))
    assert shown.names[shown.walks[0].walk[-1][3]] == "terminal 3"
    assert len(shown.walks[1].walk) == 2  # the last action is an answer, and leads nowhere
    assert [action for _, _, action in shown.walks[1].answers] == [1, 0, 1]


def test_transitions_one_by_one_are_chained_where_they_meet() -> None:
    steps = [{"observation": s[0], "action": s[1], "next_observation": s[3]} for s in corridor_walk([1, 1])]
    apart = {"observation": 3, "action": 0, "next_observation": 2}
    assert [walk[0] for walk in walks_of(read_recording([*steps, apart]))] == [[0, 1, 2], [3, 2]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "no episode"),
        (3, "got 3"),
        ([[(0, 1, 2)]], "episode 0, step 0 is"),
        ([{"observation": 0, "action": 1}, {"observation": 1, "action": 1}], "does not say where episodes end"),
        ([{"observation": 0}], "step 0 has no 'action'"),
        ({"observations": [0, 1], "reward": [0, 0]}, "no array 'actions'"),
        ({"observations": [0, 1, 2, 3], "actions": [0, 1]}, "there are 2 actions, but 'observations' has 4"),
        (
            {"observations": [0, 1, 2], "actions": [0, 1], "terminals": [0, 0, 1]},
            "there are 2 actions, but 'terminals' has 3",
        ),
        (
            {"observations": [0, 1, 2], "actions": [0, 1], "next_observations": [1, 2, 2]},
            "there are 2 actions, but 'next_observations' has 3",
        ),
        (
            [{"observations": [0, 1, 2], "actions": [0, 1], "terminations": [0, 0, 1]}],
            "episode 0: there are 2 actions, but 'terminated' has 3",
        ),
        ([Trajectory([0, 1, 2], [0], None, True)], "1 actions and 3 observations; it needs 2"),
        ([[(0, 1, 0.0, True, False), (0, 1, 0.0, True, False)]], "step 0 ends the episode, but more steps follow"),
        ("nowhere.jsonl", "there is no file nowhere.jsonl"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(data: Any, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        read_recording(data)


def test_a_line_that_is_wrong_is_named(tmp_path: Path) -> None:
    path = as_lines(WALKS, tmp_path / "a.jsonl")
    path.write_text(path.read_text() + "{\n")
    with pytest.raises(InputError, match=f"line {sum(map(len, WALKS)) + 1} is not JSON"):
        read_recording(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda step: (99, *step[1:]), r"episode 0, observation 0 is not one of this environment: 99 is not in"),
        (lambda step: (step[0], 7, *step[2:]), r"episode 0, action 0 is 7, not one of 0, 1"),
    ],
)
def test_what_is_not_in_the_environment_is_named(change: Callable[[Step], Step], said: str) -> None:
    walks = [[change(WALKS[0][0]), *WALKS[0][1:]]]
    with pytest.raises(InputError, match=said):
        ActiveIRL().infer(walks, Corridor(rooms=ROOMS), horizon=10)


def test_an_episode_that_is_too_long_is_named() -> None:
    with pytest.raises(InputError, match="episode 1 has 6 steps, and episodes have 5; give a horizon of 7"):
        ActiveIRL().infer(WALKS, Corridor(rooms=ROOMS), horizon=5)


def test_actions_are_counted_from_zero() -> None:
    with pytest.raises(InputError, match="actions are counted from 0, but -1 was recorded"):
        ActiveIRL().infer([[(0, -1, 0.0, 1, False, False), (1, 1, 0.0, 2, True, False)]])


def lake_recording(episodes: int = 20, errors: float = 0.2) -> list[list[Step]]:
    """An expert on the slippery lake, by value iteration, who takes any action now and then."""
    env, rng = gymnasium.make("FrozenLake-v1"), np.random.default_rng(0)
    table: Any = env.unwrapped
    value, q = np.zeros(16), np.zeros((16, 4))
    for _ in range(2000):
        for s in range(16):
            q[s] = [sum(p * (r + 0.99 * value[t] * (not over)) for p, t, r, over in table.P[s][a]) for a in range(4)]
        value = q.max(axis=1)
    policy, walks = q.argmax(axis=1), []
    for episode in range(episodes):
        state, walk, done = int(env.reset(seed=episode)[0]), list[Step](), False
        while not done:
            action = int(rng.integers(4) if rng.random() < errors else policy[state])
            after, paid, over, cut, _ = env.step(action)
            walk.append((state, action, float(paid), int(after), bool(over), bool(cut)))
            state, done = int(after), over or cut
        walks.append(walk)
    return walks


def test_the_horizon_is_that_of_the_longest_episode_with_an_environment_too() -> None:
    walks = lake_recording()
    longest = max(map(len, walks))
    assert longest < 100  # the limit of the lake
    alone = ActiveIRL().infer(walks)
    named = ActiveIRL().infer(walks, "FrozenLake-v1")
    given = ActiveIRL().infer(walks, gymnasium.make("FrozenLake-v1"))
    for result, goal in ((alone, "the end in the observation 15"), (named, "the flag in row 4, column 4")):
        assert result.explanation is not None
        assert [result.names[s] for s in result.explanation.goals] == [goal]
    assert alone.turn.names == named.turn.names == given.turn.names
    assert alone.task.environment.horizon == named.task.environment.horizon == longest
    assert given.task.environment.horizon == longest
    assert f"The horizon is {longest} steps (the length of the longest)" in named.in_words()
    set_by_hand = ActiveIRL().infer(WALKS, Corridor(rooms=ROOMS), horizon=9)
    assert "The horizon is 9 steps (the longest has 7)" in set_by_hand.in_words()


def test_how_often_a_place_was_passed_is_counted_in_the_recording() -> None:
    walks = lake_recording()
    result = ActiveIRL().infer(walks, "FrozenLake-v1")
    assert result.support.next
    for one in result.support.next:
        observation = result.turn.names[one.state]
        taken = sum(str(step[0]) == observation for walk in walks for step in walk)
        assert one.taken == taken
        said = one.in_words(result.names, (), 4, result.support.episodes)
        if one.actions:
            assert f"{taken} steps in {len(walks)} episodes" in said
            assert said in result.support.in_words(result.names)


def test_what_the_environment_cannot_do_is_counted() -> None:
    walks = lake_recording()
    assert "Warning" not in ActiveIRL().infer(walks, "FrozenLake-v1").in_words()
    sure = gymnasium.make("FrozenLake-v1", is_slippery=False)
    table: Any = sure.unwrapped
    wrong = sum(table.P[s][a][0][1] != after for walk in walks for s, a, _, after, _, _ in walk)
    steps = sum(map(len, walks))
    assert f"Warning: {wrong} of {steps} steps are moves that" in ActiveIRL().infer(walks, sure).in_words()
    ended = [[(0, 0, 0.0, 0, True, False)], *walks[1:]]  # the start is no end
    said = ActiveIRL().infer(ended, "FrozenLake-v1").in_words()
    assert "Warning: 1 of 20 episodes end where the environment has no end" in said
    assert "moves that" not in said
    ours = own_recording("double-chain", 3, 0.0, slip=0.0)
    problem = make("double-chain", 0)
    matrix = problem.mdp.transitions.matrix.toarray()
    jump = next(t for t in range(problem.mdp.n_states) if matrix[ours[0][0][0] * problem.mdp.n_actions, t] == 0)
    assert "Warning" not in ActiveIRL().infer(ours, "double-chain").in_words()
    said = ActiveIRL().infer([*ours, [(ours[0][0][0], 0, 0.0, jump, False, False)]], "double-chain").in_words()
    assert "Warning: 1 of" in said


def test_a_folder_of_a_recording_says_what_is_open_and_is_not_gone_on_with(tmp_path: Path) -> None:
    path, folder, call = as_lines(WALKS, tmp_path / "walks.jsonl"), tmp_path / "found", CliRunner().invoke
    told = call(app, ["infer", str(path), "--out", str(folder)])
    assert told.exit_code == 0, told.output
    loaded = load(folder)
    assert loaded.support == ActiveIRL().infer(WALKS).support
    shown = call(app, ["show", str(folder)]).output
    for line in loaded.support.in_words(loaded.names, ("action 0", "action 1")):
        assert line in told.output
        assert line in shown
    assert "a recording: 27 steps in 5 episodes, 27 answers in it" in shown
    assert "strategy" not in shown
    before = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    for more in ([], ["--max-samples", "500"], ["--reward", "state"]):
        refused = call(app, ["resume", str(folder), *more])
        assert refused.exit_code == 2
        assert f"aceirl run ENV --recordings {path} --expert" in " ".join(refused.output.split())
    with pytest.raises(InputError, match="aceirl run ENV --recordings"):
        loaded.resume(max_samples=500)
    after = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    assert after == before


def test_the_counts_are_those_of_the_recording() -> None:
    result = ActiveIRL().infer(WALKS)
    counts = result.turn.counts
    assert counts.samples == sum(map(len, WALKS)) == result.samples
    assert counts.starts.sum() == result.records[-1].episodes == len(WALKS)
    state = {name: number for number, name in enumerate(result.turn.names)}
    for room, action in ((0, 1), (1, 0), (3, 1)):
        recorded = sum(step[0] == room and step[1] == action for walk in WALKS for step in walk)
        assert counts.visits[:, state[str(room)], action].sum() == recorded
    assert result.stopped == "recording"
    assert result.explanation is not None
    assert [result.names[s] for s in result.explanation.goals] == ["the end in the observation 3"]
    settled = ActiveIRL().infer(WALKS, stochastic_expert=False)
    assert [settled.predict(room)[0] for room in range(ROOMS)] == [1] * ROOMS


@pytest.mark.parametrize(
    "elements",
    [
        [np.array([k, 2 - k]) for k in range(3)],
        [{"a": k, "b": np.array([k, 0])} for k in range(2)],
        [(k, 3 - k) for k in range(4)],
        ["hall", "attic"],
    ],
    ids=["arrays", "dictionaries", "tuples", "text"],
)
def test_observations_of_any_kind_are_states(elements: list[Any]) -> None:
    walk = [(one, 1, 0.0, after, False, False) for one, after in pairwise(elements)]
    result = ActiveIRL().infer([walk])
    assert len(result.turn.names) == 1 + len(elements)
    assert result.predict(elements[0])[0] == 1


def contradicting(n: int, wrong: int) -> list[list[Step]]:
    """At first the expert goes on, but for some episodes."""
    return [corridor_walk([0, *ON] if k < wrong else ON) for k in range(n)]


def test_an_expert_who_contradicts_itself_is_taken_to_draw_its_actions() -> None:
    result = ActiveIRL().infer(contradicting(10, 3))
    assert not result.task.expert.deterministic
    assert "3 × action 0" in result.in_words()
    assert "10 × action 1" in result.in_words()
    assert result.turn.belief.estimate.expert_policy[0, 1] == pytest.approx([3 / 13, 10 / 13])


def test_errors_of_a_deterministic_expert_are_outvoted_and_refute_promises() -> None:
    result = ActiveIRL(certify="reward").infer(contradicting(10, 3), stochastic_expert=False)
    counts = result.turn.counts
    assert counts.answers[:, 1].sum() == 1  # one answer, the commonest
    assert counts.repeats[1].tolist() == [9, 3]
    assert result.policy[0, 1] == 1
    assert result.certificate is not None
    assert result.certificate.refuted is not None


def test_an_expert_who_does_otherwise_at_other_steps_looks_at_the_step() -> None:
    late = [corridor_walk([0, 1, 1, 1, 1]) for _ in range(3)]
    shown = numbered(read_recording(late), recorded_task(read_recording(late)))
    assert not shown.stationary
    assert shown.expert().deterministic
    assert "actions are assumed to depend on the step" in ActiveIRL().infer(late).in_words()
    assert numbered(read_recording(WALKS[:1]), recorded_task(read_recording(WALKS[:1]))).stationary


# What the data leave open.


def own_recording(name: str, episodes: int, errors: float, seed: int = 0, **parameters: Any) -> list[list[Step]]:
    """The environment's own expert, who takes any action now and then."""
    problem, rng = make(name, seed, **parameters), np.random.default_rng(seed)
    mdp, walks = problem.mdp, []
    rows = mdp.transitions.matrix.toarray()
    for _ in range(episodes):
        state, walk = int(rng.choice(mdp.n_states, p=mdp.initial)), []
        for h in range(mdp.horizon):
            drawn = rng.integers(mdp.n_actions)
            action = int(drawn if rng.random() < errors else problem.expert[h, state].argmax())
            after = int(rng.choice(mdp.n_states, p=rows[state * mdp.n_actions + action]))
            walk.append((state, action, 0.0, after, False, h == mdp.horizon - 1))
            state = after
        walks.append(walk)
    return walks


CASES = {
    "gridworld": [("gridworld", 8, 0.1), ("gridworld", 8, 0.3), ("gridworld", 20, 0.1)],
    "double-chain": [("double-chain", 8, 0.1)],
}
SURE: dict[str, dict[str, Any]] = {"gridworld": {"failure": 0.0, "obstacle": 0.0}, "double-chain": {"slip": 0.0}}
"""Dynamics without chance, in which all that was seen is so."""


@pytest.mark.parametrize("environment", CASES)
def test_what_is_called_open_or_closed_is_so_in_the_feasible_set(environment: str) -> None:
    """Two routes: members of the set that were found or sampled are judged by a backward induction."""
    n_open = n_closed = 0
    for name, episodes, errors in CASES[environment]:
        problem = make(name, 0, **SURE[name])
        result = ActiveIRL().infer(own_recording(name, episodes, errors, **SURE[name]), problem)
        support, found = result.support, result.explanation
        assert found is not None
        assert support.by == "feasible set"
        exact, value = explained_set(result.turn.belief.estimate, found), worth(found)
        assert contains(exact, found.map_estimate)
        goal = next(k for k in np.argsort(-found.map_estimate, kind="stable") if found.states[k] in found.goals)
        beyond = value - value[goal]
        for theta in sample(exact, np.random.default_rng(0), 20):
            assert contains(exact, theta)
            closed = np.isin(found.states, support.closed_places)
            assert (beyond[closed] @ theta <= AHEAD + 1e-6).all()
        for state in support.closed_places:
            (k,) = np.flatnonzero(found.states == state)
            assert extreme(exact, beyond[k]).bound <= AHEAD + 1e-6
        for state in support.open_places:
            (k,) = np.flatnonzero(found.states == state)
            way = extreme(exact, beyond[k])
            assert way.membership
            assert way.value > AHEAD
        n_open, n_closed = n_open + len(support.open_places), n_closed + len(support.closed_places)
    assert n_open >= 2
    assert n_closed >= 5


def test_what_is_called_closed_is_not_above_the_goal_by_the_truth() -> None:
    for seed in range(6):
        problem = make("gridworld", seed)
        result = ActiveIRL().infer(own_recording("gridworld", 40, 0.2, seed), problem)
        assert result.explanation is not None
        goal = result.explanation.goals[0]
        paid = problem.reward[0].max(axis=1)
        assert not [s for s in result.support.closed_places if paid[s] > paid[goal]]


def test_rows_and_answers_that_are_missing_are_counted() -> None:
    cut = [*WALKS[:1], corridor_walk([1, 1])]  # the second ends in room 2
    support = ActiveIRL().infer([cut[1]]).support
    assert (support.states, support.rows, support.tried) == (3, 3 * 2, 2)
    assert len(support.unanswered) == 1
    assert support.alone == 2
    whole = ActiveIRL().infer(WALKS).support
    tried = {(step[0], step[1]) for walk in WALKS for step in walk}
    assert (whole.states, whole.rows, whole.tried) == (ROOMS, 2 * ROOMS, len(tried))
    assert whole.unanswered == ()


def test_recording_what_is_suggested_closes_places() -> None:
    only = [corridor_walk(ON) for _ in range(3)]
    before = ActiveIRL().infer(only).support
    first = before.next[0]
    assert first.actions == (0,)  # nothing else was tried anywhere
    told = before.in_words([f"room {s}" for s in range(20)], ["back", "on"])
    assert any("try back" in line for line in told)
    after = ActiveIRL().infer([*only, *WALKS], stochastic_expert=False).support
    assert len(after.closed_places) > len(before.closed_places)
    assert after.untried_on_the_way < before.untried_on_the_way


def test_where_nothing_else_was_tried_the_reward_goes_by_where_the_expert_was() -> None:
    """Four Paths: of an expert who never errs no reward is compared with anything, but it stays at its goal."""
    problem = make("four-paths", 1)
    data = own_recording("four-paths", 50, 0.0, seed=1)
    result = ActiveIRL().infer(data, problem)
    asked = ActiveIRL(reward="auto").infer(data, problem)
    assert asked.explanation is not None
    assert not asked.explanation.explains
    elsewhere = KnownProcess.of(problem).starting("uniform")
    regrets = [one.transfer(elsewhere).regret for one in (result, asked)]
    assert regrets[0] is not None
    assert regrets[1] is not None
    assert regrets[0] < 0.05 < regrets[1]
    assert "Of the states that were visited" in result.in_words()
    assert result.support.by == ""


# Recordings, and then questions.


def test_a_run_that_begins_with_a_recording_goes_on_from_its_counts() -> None:
    def on(room: int) -> int:
        return 1

    settings = {"max_samples": 40, "certify": None, "seed": 1}
    result = ActiveIRL(**settings).fit(Corridor(rooms=ROOMS), on, horizon=8, demonstrations=WALKS)
    recorded = sum(map(len, WALKS))
    assert result.records[0].samples == recorded
    assert result.samples >= recorded + 40  # the budget is for what comes after
    assert result.explanation is not None
    assert result.explanation.goals


def test_nobody_is_asked_where_there_is_only_the_recording() -> None:
    result = ActiveIRL(max_samples=60, certify=None).fit(
        Corridor(rooms=ROOMS, slip=0.2), horizon=8, demonstrations=[corridor_walk(ON)]
    )
    assert result.samples >= 60 + len(ON)
    assert result.turn.counts.questions == len(ON)  # all of them recorded, none counted twice


def test_silence_is_no_contradiction() -> None:
    """After the recording nobody can be asked: nothing is confirmed, and nothing was said differently either."""
    result = ActiveIRL(max_samples=400).fit(
        Corridor(rooms=ROOMS, slip=0.2), horizon=8, demonstrations=[corridor_walk(ON)]
    )
    assert result.turn.belief.kind.asked_everywhere, "that it does not look at the step is a guess"
    assert not result.turn.counts.contradicted.any()
    assert "gave another answer" not in " ".join(result.sentences)
    certificate = result.certificate
    assert certificate is not None
    assert (certificate.holds, certificate.more_samples) == (False, None), "nor would more of it help"


def test_nothing_was_wagered_on_a_recording() -> None:
    """However long it is, the certificates that rest on wagers say what they would say without it."""
    recording = read_recording([corridor_walk(ON)] * 500)
    task = recorded_task(recording, Corridor(rooms=ROOMS), horizon=8)
    shown = numbered(recording, task)
    task = with_expert(task, shown, stochastic=False, stationary=True)
    turn = recorded_turn(task, shown, Settings(max_samples=10**6))
    assert turn.belief.evidence.keys() == {"budget"}
    for kind in ("policy", "criterion"):
        value = turn.belief.certificates[kind].value(turn.belief)
        assert value == pytest.approx(turn.certificate(kind).possible)
    # Fresh episodes on the known actions are evidence, as many as there are.
    engine = Engine(task.environment, answers_of(task.expert, turn.settings), turn.settings, state=turn.state)
    for _ in range(100):
        later: Any = engine.ask()
    assert later.belief.evidence.keys() > {"budget"}
    policy = turn.belief.certificates["policy"]
    assert policy.value(later.belief) < 0.5 * policy.value(turn.belief)


def test_a_folder_keeps_a_recording_and_what_came_after(tmp_path: Path) -> None:
    found = ActiveIRL().infer(WALKS, out=tmp_path / "found")
    again = Run.open(tmp_path / "found")
    assert [record.stopped for record in again.records()] == ["recording"]
    state = again.state()
    assert state is not None
    assert (state.counts.visits == found.turn.counts.visits).all()

    def three(turn: Any) -> bool:
        return bool(turn.iteration >= 3)

    settings = {"max_samples": 60, "certify": None}

    def fitted(out: Path | None, **options: Any) -> Any:
        return ActiveIRL(**settings).fit(Corridor(rooms=ROOMS), horizon=8, demonstrations=WALKS, out=out, **options)

    fitted(tmp_path / "run", callback=three)
    gone_on, at_once = fitted(tmp_path / "run"), fitted(None)
    assert gone_on.samples == at_once.samples
    assert (gone_on.turn.counts.visits == at_once.turn.counts.visits).all()


def told_in_words(call: Any, path: Path) -> str:
    """What the command prints without `--json`, as one line; the count of what is explained is left out."""
    return re.sub(r" \(explains [^)]*\)", "", " ".join(call(app, ["infer", str(path)]).output.split()))


def test_the_command_line_infers_shows_and_goes_on(tmp_path: Path) -> None:
    path = as_lines(own_recording("gridworld", 30, 0.2), tmp_path / "walks.jsonl")
    call = CliRunner().invoke
    told = call(app, ["infer", str(path), "--env", "gridworld", "--out", str(tmp_path / "found")])
    assert told.exit_code == 0, told.output
    assert "Never tried" in told.output
    assert "state 3,2" in told.output
    assert "It is a recording" in "\n".join(load(tmp_path / "found").sentences)
    assert call(app, ["export", str(tmp_path / "found")]).exit_code == 0
    carried = json.loads(call(app, ["transfer", str(tmp_path / "found"), "--start", "uniform", "--json"]).output)
    assert carried["regret"] is None  # what the environment pays need not be what was wanted
    told = call(app, ["infer", str(path), "--json"])
    values = json.loads(told.output.splitlines()[-1])
    assert values["episodes"] == 30
    assert set(values["support"]) >= {"open", "closed", "unclear", "next"}
    assert set(values["wish"]) == {"kind", "named", "evidence", "sentence"}
    assert values["wish"]["sentence"] in told_in_words(call, path)
    options = ["--recordings", str(path), "--max-samples", "50", "--out", str(tmp_path / "run"), "--json"]
    told = call(app, ["run", "gridworld", *options])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output.splitlines()[-1])["samples"] >= 350
    wrong = call(app, ["infer", str(tmp_path / "nothing.npz")])
    assert wrong.exit_code == 2
    assert "there is no file" in wrong.output


def test_support_can_be_asked_of_any_run() -> None:
    result = ActiveIRL(max_samples=200, certify=None).fit("gridworld")
    support = support_of(result.turn)
    assert support.rows == 9 * 4
    assert 0 < support.tried <= support.rows


def test_that_an_expert_does_not_look_at_the_step_is_promised_on_only_if_it_is_said() -> None:
    """One episode shows what was done in each state once: at other steps the expert may do otherwise."""
    around = np.zeros((3, 2, 3))
    around[np.arange(3), 0, (np.arange(3) + 1) % 3] = 1.0
    around[np.arange(3), 1, np.arange(3)] = 1.0
    ring = MDP.from_dense(around, initial=[1 / 3, 1 / 3, 1 / 3], horizon=3)
    episode = [(0, 0, 0.0, False, False), (1, 0, 0.0, False, False), (2, 0, 0.0, False, True)]
    learner = ActiveIRL(certify="policy")
    guessed = learner.infer([episode], ring)
    assert guessed.turn.belief.estimate.kind.stationary
    assert not guessed.turn.certificate("policy").holds
    said = learner.infer([episode], ring, stationary_expert=True).turn.certificate("policy")
    assert said.holds
    assert said.value == 0.0
