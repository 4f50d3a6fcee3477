"""A run on disk: what was killed goes on as if it had not been, and what is broken is said in one line."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aceirl import load
from aceirl.envs.simulator import Simulator
from aceirl.errors import AnswerError, InputError
from aceirl.experts import FunctionExpert, PolicyExpert
from aceirl.experts.tasks import Source, open_task
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Record
from aceirl.models.tabular.mdp import MDP
from aceirl.runs import Run
from aceirl.runs.files import DRAFT, LOCK, DiskError
from aceirl.runs.folder import CONFIGURATION, RECORDS, STATE

SOURCE = Source("four-paths", {"arm_length": 4, "horizon": 8}, seed=3)
SETTINGS = Settings(strategy="advice", episodes_per_iteration=5, max_samples=6_000, epsilon=1e-6, seed=7)


def finish(path: Path) -> None:
    run = Run.open(path)
    task = open_task(SOURCE)
    for _ in run.resume(task.environment, task.expert, regret=task.regret):
        pass


def deterministic_part(run: Run) -> tuple[list[dict[str, object]], dict[str, np.ndarray]]:
    """Records without their timings, and all arrays of the state."""
    records = [
        {key: value for key, value in asdict(record).items() if "seconds" not in key} for record in run.records()
    ]
    with np.load(run.path / STATE) as file:
        return records, dict(file)


def assert_same(one: Run, other: Run) -> None:
    records, arrays = deterministic_part(one)
    other_records, other_arrays = deterministic_part(other)
    assert records == other_records
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other_arrays[name], err_msg=name, strict=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs") / "undisturbed"
    Run.create(path, SETTINGS, SOURCE)
    finish(path)
    return Run.open(path)


def test_a_run_killed_at_ten_random_moments_ends_as_the_undisturbed_one(undisturbed: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "killed"
    Run.create(path, SETTINGS, SOURCE)
    iterations = len(undisturbed.records())
    pause = np.median([record.seconds for record in undisturbed.records()])
    context = multiprocessing.get_context("fork")
    for done in np.sort(rng.choice(iterations // 2, size=10, replace=False)):
        child = context.Process(target=finish, args=(path,))
        child.start()
        while not (path / RECORDS).exists() or (path / RECORDS).read_text().count("\n") <= done:
            time.sleep(pause / 10)
        time.sleep(pause * rng.random())
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert child.exitcode == -signal.SIGKILL, "the run ended before it could be killed"
    assert len(Run.open(path).records()) < iterations
    finish(path)
    assert_same(undisturbed, Run.open(path))


def test_a_state_that_is_some_turns_old_leads_to_the_same_end(
    undisturbed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is not written at every turn; what a kill leaves then is a copy of the folder between two turns."""
    monkeypatch.setattr("aceirl.runs.folder.SAVE_EVERY", 1e9)
    run = Run.create(tmp_path / "run", SETTINGS, SOURCE)
    task = open_task(SOURCE)
    turns = run.resume(task.environment, task.expert, regret=task.regret)
    left = [next(turns) for _ in range(5)][-1]
    shutil.copytree(run.path, tmp_path / "killed", ignore=shutil.ignore_patterns(LOCK))
    killed = Run.open(tmp_path / "killed")
    assert len(killed.records()) == 1
    turns.close()
    closed = run.state()
    assert closed is not None
    assert closed.iteration == left.iteration == len(run.records()) == 5
    for path in (run.path, killed.path):
        finish(path)
        assert_same(undisturbed, Run.open(path))


def test_a_state_is_written_as_soon_as_the_last_is_a_second_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 0.0
    monkeypatch.setattr("aceirl.runs.folder.time.monotonic", lambda: clock)
    run = Run.create(tmp_path / "run", SETTINGS, SOURCE)
    task = open_task(SOURCE)
    turns = run.resume(task.environment, task.expert)
    saved = []
    for _ in range(6):
        next(turns)
        state = run.state()
        assert state is not None
        saved.append(state.iteration)
        clock += 0.4
    turns.close()
    assert saved == [1, 1, 1, 4, 4, 4]


class Full:
    """A file that holds what was flushed, and from some record on can write nothing, and forgets what it was given."""

    def __init__(self, path: Path, left: int) -> None:
        self.path, self.left, self.waiting = path, left, ""

    def write(self, text: str) -> None:
        self.left -= 1
        if self.left < 0:
            self.waiting = ""
            raise OSError(errno.EFBIG, "File too large")
        self.waiting += text

    def flush(self) -> None:
        with self.path.open("a") as file:
            file.write(self.waiting)
        self.waiting = ""

    def close(self) -> None:
        self.flush()


def test_a_state_never_stands_for_records_that_could_not_be_written(
    undisturbed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, task, full = Run.create(tmp_path / "run", SETTINGS, SOURCE), open_task(SOURCE), list[Full]()
    monkeypatch.setattr("aceirl.runs.folder.SAVE_EVERY", 1e9)
    append = Run._append

    def appended(self: Run, record: Record, file: Any) -> Any:
        if not full:
            full.append(Full(self.path / RECORDS, left=7))
        return append(self, record, full[0])  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Run, "_append", appended)
        with pytest.raises(DiskError, match="File too large; all earlier iterations are kept"):
            list(run.resume(task.environment, task.expert, regret=task.regret))
    state = run.state()
    assert state is not None
    assert state.iteration == len(run.records()) == 1
    finish(run.path)
    assert_same(undisturbed, Run.open(run.path))


def test_a_run_that_was_interrupted_says_when_its_regret_was_measured(tmp_path: Path) -> None:
    """40 samples an iteration; a reward is inferred, and the regret measured, when they have doubled."""
    run = Run.create(tmp_path / "run", SETTINGS.model_copy(update={"infer_after_growth": 1.0}), SOURCE)
    task = open_task(SOURCE)
    turns = run.resume(task.environment, task.expert, regret=task.regret)
    measured = [next(turns).record.regret for _ in range(6)]
    turns.close()
    assert [regret is not None for regret in measured] == [True, True, False, True, False, False]
    result = load(run.path)
    assert result.regret == measured[3]
    assert f"regret {measured[3]:.3f}" in repr(result)
    assert result.to_json()["regret"] == measured[3]
    said = "\n".join(result.sentences)
    assert f"loses {measured[3]:.1%}" in said
    assert "(checked after 160 steps with the true reward" in said
    figures = result.draw()
    assert any(path.stem == "learning" for path in figures)


@pytest.mark.parametrize("cut", [0, 1, 7])
def test_whatever_lies_beyond_the_state_is_done_anew(undisturbed: Run, tmp_path: Path, cut: int) -> None:
    """As after a kill between the record and the state, or in the middle of a line."""
    path = tmp_path / "cut"
    run = Run.create(path, SETTINGS, SOURCE)
    task = open_task(SOURCE)
    for turn in run.resume(task.environment, task.expert, regret=task.regret):
        if turn.record.iteration == 5:
            break
    line = json.dumps({"iteration": 6, "samples": 1})
    with (path / RECORDS).open("a") as file:
        file.write(line[: len(line) - cut])
    (path / (STATE + ".draft")).write_bytes(b"half a state")
    finish(path)
    assert_same(undisturbed, Run.open(path))


def test_a_finished_run_stays_as_it_is(undisturbed: Run) -> None:
    before = (undisturbed.path / STATE).read_bytes()
    finish(undisturbed.path)
    assert (undisturbed.path / STATE).read_bytes() == before
    assert undisturbed.records()[-1].stopped == "budget"


def test_nothing_in_a_state_needs_pickling(undisturbed: Run) -> None:
    with np.load(undisturbed.path / STATE, allow_pickle=False) as file:
        assert {"counts.visits", "recovered.reward", "accuracy", "iteration"} <= set(file)


def test_a_folder_that_is_not_empty_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(InputError, match=r"exists and is not empty"):
        Run.create(tmp_path, SETTINGS, SOURCE)
    assert (tmp_path / "note.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (CONFIGURATION, "{", r"run\.json cannot be read as a run"),
        (CONFIGURATION, '{"format": 99}', r"format 99"),
        (
            CONFIGURATION,
            '{"format": 7, "settings": {"delta": 3}, "source": null, "parts": {}, "changes": []}',
            r"delta.*got 3",
        ),
        (STATE, "not an archive", r"state\.npz cannot be read"),
        (RECORDS, "nonsense\nnonsense\n", r"records\.jsonl, line 1 is not a record"),
        (RECORDS, "", r"lacks records"),
    ],
)
def test_a_broken_folder_is_named(undisturbed: Run, tmp_path: Path, name: str, content: str, message: str) -> None:
    for file in (CONFIGURATION, RECORDS, STATE):
        (tmp_path / file).write_bytes((undisturbed.path / file).read_bytes())
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        finish(tmp_path)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run: it has no run\.json"):
        Run.open(tmp_path)


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", SETTINGS, SOURCE)
    task = open_task(SOURCE)
    turns = run.resume(task.environment, task.expert)
    next(turns)
    with pytest.raises(InputError, match="is in use: another process is writing this run"):
        finish(run.path)
    turns.close()


def test_an_expert_who_fails_loses_nothing(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", Settings(strategy="random", max_samples=10_000), SOURCE)
    task = open_task(SOURCE)
    questions = 0

    def moody(step: int, state: int) -> int:
        nonlocal questions
        questions += 1
        if questions > 30:
            raise RuntimeError("no more questions")
        return 0

    with pytest.raises(AnswerError, match="no more questions"):
        for _ in run.resume(task.environment, FunctionExpert(moody)):
            pass
    kept = Run.open(run.path).state()
    assert kept is not None
    assert kept.iteration == len(run.records()) > 0
    resumed = next(run.resume(task.environment, FunctionExpert(lambda step, state: 0)))
    assert resumed.record.iteration == kept.iteration + 1


def test_a_full_disk_is_one_line_and_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aceirl.runs.folder.SAVE_EVERY", 0.0)
    run = Run.create(tmp_path / "run", SETTINGS, SOURCE)
    task = open_task(SOURCE)
    turns = run.resume(task.environment, task.expert)
    next(turns)
    before = (run.path / STATE).read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match=r"cannot write to .*No space left on device.*earlier iterations are kept"):
        next(turns)
    assert (run.path / STATE).read_bytes() == before
    assert not list(run.path.glob(f"*{DRAFT}"))
    monkeypatch.undo()
    assert next(run.resume(task.environment, task.expert)).record.iteration == 2


def test_evidence_for_a_reward_of_states_is_none_for_other_rewards(tmp_path: Path) -> None:
    """What is done at the last step pays nothing in the one, and up to `rmax` in the others."""
    n_states = 100
    mdp = MDP.from_dense(np.full((n_states, 2, n_states), 1 / n_states), initial=0, horizon=2)
    actions = np.random.default_rng(0).integers(2, size=(2, n_states))
    environment, expert = Simulator(mdp, hide_start=True), PolicyExpert(actions, mdp.shape)
    settings = Settings(strategy="advice", reward="state", epsilon=0.2)
    *_, before = Run.create(tmp_path / "run", settings).resume(environment, expert)
    assert before.certificate("policy").holds
    assert (before.policy != actions)[1].mean() > 0.2, "not known at the last step"
    run = Run.open(tmp_path / "run")
    run.change({"reward": "any", "max_samples": before.samples})
    *_, after = run.resume(environment, expert)
    assert after.samples == before.samples
    assert not after.certificate("policy").holds
