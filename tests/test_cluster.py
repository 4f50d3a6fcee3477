"""A sweep on a real Dask cluster, killed three times: its process, a worker, the scheduler."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aceirl.bench.cluster import Cluster, local_cluster
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, sweep
from aceirl.bench.userspecs import read_spec
from aceirl.errors import InputError
from studies.large import cells, killed_sweep

pytest.importorskip("distributed")

SPEC = """
strategies = ["random", "advice", "uniform"]
seeds = 12

[[scenario]]
environment = "chain"
max_samples = 1500
irl = "feasible-point"
"""

PATIENCE = 150.0  # seconds for anything to happen, on a machine that has other things to do


def start(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


class DaskProcesses:
    """A scheduler on a port of its own and two workers, each a process that can be killed and started anew."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.folder = folder
        self.scheduler = self.start_scheduler()
        self.workers = [self.start_worker(), self.start_worker()]

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        return start("dask", "scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")

    def start_worker(self) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        return start("dask", "worker", self.address, *options, "--local-directory", str(self.folder))


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def dask_processes(folder: Path) -> Iterator[DaskProcesses]:
    processes = DaskProcesses(folder)
    try:
        yield processes
    finally:
        for process in (*processes.workers, processes.scheduler):
            kill(process)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for a long time"
        time.sleep(0.02)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@pytest.mark.timeout(240)
def test_a_sweep_killed_three_times_has_the_rows_of_an_undisturbed_one(tmp_path: Path) -> None:
    toml, out = tmp_path / "chain.toml", tmp_path / "out"
    toml.write_text(SPEC)
    cells = read_spec(toml).cells()
    *_, last = sweep(cells, Store(tmp_path / "undisturbed"), Here())
    assert last.finished == len(cells)

    def enough(number: int) -> Callable[[], bool]:
        return lambda: len(files(out / "runs")) >= number

    with dask_processes(tmp_path / "dask") as dask:
        command = ("aceirl", "sweep", str(toml), "--out", str(out), "--cluster", dask.address)
        sweeping = start(*command)
        wait_for(enough(4))
        kill(sweeping)
        assert len(files(out / "runs")) < len(cells)

        sweeping = start(*command)
        wait_for(enough(10))
        kill(dask.workers[0])
        dask.workers[0] = dask.start_worker()

        wait_for(enough(16))
        assert len(files(out / "runs")) < len(cells)
        kill(dask.scheduler)
        dask.scheduler = dask.start_scheduler()
        dask.workers += [dask.start_worker(), dask.start_worker()]
        assert sweeping.wait(timeout=PATIENCE) == 0

    assert files(out / "runs") == files(tmp_path / "undisturbed")
    assert not list((out / "runs").glob("*.error.json"))
    assert (out / "report.html").exists()


@pytest.mark.timeout(240)
def test_an_environment_of_one_s_own_on_four_workers_one_killed_twice(tmp_path: Path) -> None:
    some, alone, cluster = cells(12, max_samples=120), tmp_path / "alone", tmp_path / "cluster"
    *_, last = sweep(some, Store(alone), Here())
    assert (last.finished, last.failed) == (12, 0)
    assert killed_sweep(some, Store(cluster), 4) == (12, 0)
    assert files(cluster) == files(alone), "every run once, and the same bytes"
    assert len(files(alone)) == 12


@pytest.mark.timeout(240)
def test_a_local_cluster_has_as_many_workers_as_asked_for_and_gives_none_up() -> None:
    dask = pytest.importorskip("dask")
    lost = "distributed.deploy.lost-worker-timeout"
    before = dask.config.get(lost)
    with local_cluster(3) as cluster:
        assert len(cluster.workers) == 3
        assert dask.utils.parse_timedelta(dask.config.get(lost)) > 3_600
    assert dask.config.get(lost) == before


def test_no_scheduler_is_one_clear_line(tmp_path: Path) -> None:
    toml = tmp_path / "chain.toml"
    toml.write_text(SPEC)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"no Dask scheduler answers at {address}.*the same command goes on"):
            list(sweep(read_spec(toml).cells(), Store(tmp_path / "runs"), Cluster(address, patience=0.3)))
