"""Runs on a Dask cluster: workers may come and go, and the scheduler may be started anew."""

from __future__ import annotations

import logging
import queue
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from aceirl.bench.sweep import compile_once, deaf_to_interrupts
from aceirl.bench.work import Failed, Outcome, Work, perform
from aceirl.errors import InputError

LOOK_AGAIN = 0.5  # seconds between two looks at whether the scheduler is still there


class ConnectionLost(Exception):
    """The scheduler is gone, and with it all it knew."""


class Cluster:
    """A Dask scheduler at an address such as `tcp://host:8786`, with workers that have this software installed.

    A worker that dies loses its current run, which the scheduler gives to another. If the scheduler dies, it has
    `patience` seconds to come back at the same address, and gets whatever is left.
    """

    def __init__(self, address: str, patience: float = 60.0) -> None:
        self.address, self.patience = address, patience
        self.busy = 0

    def outcomes(self, cells: Sequence[Work]) -> Generator[Outcome, None, None]:
        """Runs come back as they finish, in any order."""
        left = {cell.key: cell for cell in cells}
        while left:
            try:
                with self._client() as client:
                    for outcome in self._round(client, left):
                        del left[outcome.key]
                        yield outcome
            except ConnectionLost:
                continue

    def _round(self, client: Any, left: dict[str, Work]) -> Iterator[Outcome]:
        """Hand out all that is left, and bring in what comes back, until the connection breaks."""
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # The key is the run's name: two sweeps on one scheduler then wait for the same run instead of doing it twice.
        futures = {key: client.submit(perform, cell, key=f"aceirl-{key}") for key, cell in left.items()}
        keys = {future.key: key for key, future in futures.items()}
        for future in futures.values():
            future.add_done_callback(done.put)
        while futures:
            try:
                future = done.get(timeout=LOOK_AGAIN)
            except queue.Empty:
                if client.status != "running":
                    raise ConnectionLost from None
                self._count_workers(client)
                continue
            key = keys[future.key]
            yield _outcome(future, left[key])
            del futures[key]

    def _count_workers(self, client: Any) -> None:
        try:
            self.busy = sum(client.nthreads().values())
        except (OSError, CancelledError, TimeoutError):
            raise ConnectionLost from None

    @contextmanager
    def _client(self) -> Iterator[Any]:
        from distributed import Client

        try:
            client = Client(self.address, timeout=self.patience, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(
                f"no Dask scheduler answers at {self.address} ({_one_line(error)}); "
                "finished runs are kept, and the same command goes on"
            ) from None
        try:
            self._count_workers(client)
            yield client
        finally:
            client.close(timeout=2)  # type: ignore[no-untyped-call]


class LocalCluster:
    """A Dask cluster of `jobs` worker processes on this machine, for as long as the sweep takes."""

    def __init__(self, jobs: int) -> None:
        self.busy = jobs

    def outcomes(self, cells: Sequence[Work]) -> Generator[Outcome, None, None]:
        """As on any cluster."""
        compile_once(cells)
        with local_cluster(self.busy) as cluster:
            yield from Cluster(cluster.scheduler_address).outcomes(cells)


@contextmanager
def local_cluster(jobs: int) -> Iterator[Any]:
    """A Dask cluster of so many processes. One that dies is replaced, however long that takes.

    By itself Dask gives up for good a worker that is not back after 15 seconds, which a busy machine may need to start
    one: a sweep would go on with fewer, and whoever waits for that worker would wait for ever.
    """
    import dask
    import distributed

    quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL}
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day"}):
        with deaf_to_interrupts():
            local = distributed.LocalCluster(n_workers=jobs, threads_per_worker=1, **quiet)  # type: ignore[no-untyped-call]
        with local as cluster:
            yield cluster


def _outcome(future: Any, cell: Work) -> Outcome:
    """What a future holds. A run the cluster could not do fails; a future that got lost is no fault of the run."""
    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        raise ConnectionLost
    try:
        outcome: Outcome = future.result(timeout=60)
    except KilledWorker as error:
        return Failed(cell, cell.key, f"every worker that ran it died; is there enough memory? ({_one_line(error)})")
    except (CancelledError, OSError, TimeoutError):
        raise ConnectionLost from None
    except Exception as error:
        return Failed(cell, cell.key, f"the worker could not run it: {_one_line(error)}")
    if outcome.key != cell.key:
        return Failed(cell, cell.key, "the worker has another version of aceirl; install the same everywhere")
    return outcome


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
