"""Experiments: what determines a run, what is kept of it, and that nothing is lost or done twice."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aceirl.bench import work
from aceirl.bench.experiments import RunResult
from aceirl.bench.paper import PAPER_STRATEGIES, SPECS, TABLE1
from aceirl.bench.specs import Cell, Scenario, Spec
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, Processes, sweep
from aceirl.bench.work import Failed, Finished, perform
from aceirl.envs import make
from aceirl.errors import InputError
from aceirl.runs.files import DRAFT

SMALL = Spec(
    name="small",
    title="Small",
    summary="a few quick runs",
    scenarios=(
        Scenario(
            name="room",
            title="Room",
            environment="gridworld",
            choices={"max_samples": 60, "irl": "feasible-point"},
        ),
        Scenario(
            name="walk",
            title="Walk",
            environment="chain",
            choices={"max_samples": 60, "irl": "feasible-point", "until_regret": 0.4},
        ),
    ),
    strategies=("random", "advice"),
    seeds=(0, 1),
)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def finish(store: Store, cells: list[Cell] | None = None) -> None:
    for _ in sweep(SMALL.cells() if cells is None else cells, store, Here()):
        pass


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    store = Store(tmp_path_factory.mktemp("undisturbed"))
    finish(store)
    return files(store.folder)


def test_every_experiment_can_be_run() -> None:
    for spec in SPECS.values():
        for scenario in spec.scenarios:
            make(scenario.environment, 0, **scenario.parameters)
            for strategy in spec.strategies:
                assert scenario.cell(strategy, 0).strategy == strategy


def test_table1_has_the_papers_nine_scenarios_five_strategies_and_fifty_seeds() -> None:
    table1 = SPECS["table1"]
    assert [scenario.name for scenario in table1.scenarios] == list(TABLE1)
    assert set(PAPER_STRATEGIES) < set(table1.strategies)
    assert len(table1.seeds) == 50
    assert sum(len(row) for row in TABLE1.values()) == 37
    assert all(scenario.choices["until_regret"] == 0.4 for scenario in table1.scenarios)


def test_the_threshold_study_reads_the_runs_of_the_figures() -> None:
    assert {cell.key for cell in SPECS["thresholds"].cells()} == {cell.key for cell in SPECS["figures"].cells()}


def test_a_key_changes_with_whatever_determines_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = SMALL.scenarios[0]
    cell = scenario.cell("random", 0)
    keys = {cell.key}  # a copy made from here on must have one of its own
    others = [
        scenario.cell("random", 1),
        scenario.cell("advice", 0),
        cell.model_copy(update={"environment": "gridworld-released"}),
        cell.model_copy(update={"parameters": {"size": 5}}),
        cell.model_copy(update={"reward_free": True}),
        cell.model_copy(update={"settings": cell.settings.model_copy(update={"delta": 0.2})}),
    ]
    keys |= {other.key for other in others}
    monkeypatch.setattr(work, "RESULTS_VERSION", work.RESULTS_VERSION + 1)
    later = scenario.cell("random", 0)
    keys.add(later.key)
    assert len(keys) == len(others) + 2
    assert scenario.cell("random", 0).key == later.key


def test_rows_read_as_one_table_with_any_reader(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    for name, content in undisturbed.items():
        (tmp_path / name).write_bytes(content)
    table = pq.read_table(tmp_path)
    assert set(table["strategy"].unique().to_pylist()) == {"random", "advice"}
    runs = table.group_by("run").aggregate([("samples", "max"), ("iteration", "count")]).to_pylist()
    assert len(runs) == len(SMALL.cells())
    assert all(run["samples_max"] == 10 * run["iteration_count"] for run in runs)
    assert all(
        sum(visits) == 60
        for visits in pa.compute.drop_null(
            table.filter(pa.compute.equal(table["environment"], "gridworld"))["visits"]
        ).to_pylist()
    )


def test_many_processes_give_the_files_of_one_byte_for_byte(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    steps = list(sweep(SMALL.cells(), Store(tmp_path), Processes(2)))
    assert files(tmp_path) == undisturbed
    assert [step.finished for step in steps] == list(range(len(undisturbed) + 1))
    assert steps[-1].left == steps[-1].failed == 0


def test_what_is_finished_is_not_done_again(
    undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(Store(tmp_path), SMALL.cells()[:5])
    done: list[str] = []

    def noted(cell: Cell) -> Finished | Failed:
        done.append(cell.key)
        return perform(cell)

    monkeypatch.setattr("aceirl.bench.sweep.perform", noted)
    first, *_ = steps = list(sweep(SMALL.cells(), Store(tmp_path), Here()))
    assert (first.kept, first.total) == (5, 8)
    assert steps[-1].finished == 3
    assert done == [cell.key for cell in SMALL.cells()[5:]]
    assert files(tmp_path) == undisturbed


@pytest.mark.parametrize("harm", ["empty", "half", "flipped", "another", "foreign"])
def test_a_harmed_file_is_noticed_and_done_again(harm: str, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store)
    cell, other = SMALL.cells()[:2]
    whole = store.path(cell).read_bytes()
    content = {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "flipped": whole[:100] + bytes([whole[100] ^ 1]) + whole[101:],
        "another": store.path(other).read_bytes(),
        "foreign": _foreign(tmp_path),
    }[harm]
    store.path(cell).write_bytes(content)
    assert not store.finished(cell)
    assert store.finished(other)
    finish(store)
    assert files(tmp_path) == undisturbed


def _foreign(folder: Path) -> bytes:
    path = folder.parent / "foreign.parquet"
    pq.write_table(pa.table({"samples": [1, 2]}), path)
    return path.read_bytes()


def test_a_failing_run_is_told_kept_apart_and_tried_again(
    undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = SMALL.cells()[2]
    whole = Cell.steps

    def steps(cell: Cell):
        if cell == broken:
            raise RuntimeError("the lamp\nwent out")
        return whole(cell)

    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Cell, "steps", steps)
        *_, last = sweep(SMALL.cells(), store, Here())
        assert (last.finished, last.failed, last.left) == (7, 1, 0)
    assert store.error(broken) == "RuntimeError: the lamp went out"
    assert not store.finished(broken)
    finish(store)
    assert store.error(broken) is None
    assert files(tmp_path) == undisturbed


def die_always(cell: Cell, victim: str) -> Finished | Failed:
    """As `perform`, but one run kills every process that does it."""
    if cell.key == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    return perform(cell)


def test_a_run_that_kills_its_process_fails_alone_and_those_beside_it_are_done_again(
    undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = SMALL.cells()[3]
    monkeypatch.setattr("aceirl.bench.sweep.perform", partial(die_always, victim=victim.key))
    store = Store(tmp_path)
    *_, last = sweep(SMALL.cells(), store, Processes(2))
    assert (last.finished, last.failed) == (7, 1)
    assert "died" in (store.error(victim) or "")
    assert files(tmp_path).keys() == undisturbed.keys() - {f"{victim.key}.parquet"}


def test_stopping_early_keeps_what_was_finished(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    going = sweep(SMALL.cells(), Store(tmp_path), Processes(2))
    for progress in going:
        if progress.finished == 3:
            going.close()
    kept = files(tmp_path)
    assert len(kept) == 3
    assert kept.items() < undisturbed.items()
    assert not list(tmp_path.glob(f".*{DRAFT}"))


def test_an_interrupt_before_the_first_run_stops_the_processes_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("aceirl.bench.sweep.compile_once", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(Processes(2).outcomes(SMALL.cells()))
    assert [outcome.key for outcome in Processes(2).outcomes(SMALL.cells()[:1])] == [SMALL.cells()[0].key]
    assert capfd.readouterr() == ("", "")


def test_processes_leave_an_interrupt_to_the_one_that_started_them() -> None:
    """A terminal sends it to all; they would end with words of their own."""
    script = (
        "import signal; from aceirl.bench.sweep import Processes, deaf_to_interrupts\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell may have it ignored in the background
        "with Processes(2)._at_work(signal.getsignal, [signal.SIGINT] * 2, deaf_to_interrupts()) as handlers:\n"
        "    assert list(handlers) == [signal.SIG_IGN] * 2\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_folder_that_cannot_be_written_is_told_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file")
    with pytest.raises(InputError, match=r"cannot write to .*occupied/runs: Not a directory"):
        next(sweep(SMALL.cells(), Store(tmp_path / "occupied" / "runs"), Here()))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_told_before_any_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="Permission denied"):
        next(sweep(SMALL.cells(), Store(tmp_path / "runs"), Here()))


def test_a_full_disk_is_one_line_and_nothing_is_lost(
    undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [6]

    class NearlyFull(io.FileIO):
        """A file on a disk that takes six files, and half of one more."""

        def write(self, content: Any) -> int:
            room[0] -= 1
            if room[0] < 0:
                super().write(content[: len(content) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(content)

    with monkeypatch.context() as patch:
        patch.setattr("aceirl.runs.files.open", NearlyFull, raising=False)
        with pytest.raises(InputError, match=r"cannot write to .*: No space left on device; finished runs are kept"):
            finish(Store(tmp_path))
    assert 0 < len(files(tmp_path)) < 8
    assert files(tmp_path).items() < undisturbed.items()
    assert not list(tmp_path.glob(f".*{DRAFT}"))
    finish(Store(tmp_path))
    assert files(tmp_path) == undisturbed


def test_two_sweeps_share_a_folder(undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    one, other = (sweep(SMALL.cells(), Store(tmp_path), Here()) for _ in range(2))
    next(one), next(other)
    for _ in zip(one, other, strict=True):
        pass
    assert files(tmp_path) == undisturbed


def test_only_drafts_that_nobody_writes_any_more_are_swept_out(tmp_path: Path) -> None:
    abandoned, fresh = (tmp_path / f".{name}.parquet.1-0{DRAFT}" for name in ("abandoned", "fresh"))
    abandoned.touch()
    fresh.touch()
    os.utime(abandoned, (0, 0))
    Store(tmp_path).prepare()
    assert list(tmp_path.iterdir()) == [fresh]


def test_reward_free_regret_is_that_of_planning_with_the_true_reward() -> None:
    scenario = Scenario(
        name="free",
        title="Free",
        environment="double-chain",
        parameters={"length": 5},
        choices={"episodes_per_iteration": 500, "max_samples": 1, "irl": "feasible-point"},
        reward_free=True,
    )
    outcome = perform(scenario.cell("random", 0))
    assert isinstance(outcome, Finished)
    regrets = pq.read_table(pa.BufferReader(outcome.file))["regret"].to_pylist()
    assert regrets == pytest.approx([0.0], abs=1e-12)


def test_seconds_are_kept_beside_the_rows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cell = SMALL.cells()[0]
    finish(store, [cell])
    run = RunResult.read(cell, store)
    assert run is not None
    assert 0 < run.seconds["inferring"] < run.seconds["total"]
    assert run.samples[-1] == 60
    assert json.loads((tmp_path / f"{cell.key}.json").read_text())["seconds"] == run.seconds
