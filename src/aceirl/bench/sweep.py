"""Many runs at once, on one machine or a cluster; what is finished is kept, what is lost is done again."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from aceirl.bench.store import Store
from aceirl.bench.work import Failed, Outcome, Work, get_ready, perform


@dataclass(frozen=True)
class Progress:
    """Where a sweep stands: of `total` runs, `kept` were there before, `finished` and `failed` came out of it.

    `running` are those under way now, as far as is known; `outcome` is what came in last.
    """

    total: int
    kept: int
    finished: int = 0
    failed: int = 0
    running: int = 0
    outcome: Outcome | None = None

    @property
    def left(self) -> int:
        """Runs that have not come in yet."""
        return self.total - self.kept - self.finished - self.failed


class Workers(Protocol):
    """Whoever carries out runs."""

    @property
    def busy(self) -> int:
        """How many runs can be under way at once."""

    def outcomes(self, cells: Sequence[Work]) -> Generator[Outcome, None, None]:
        """The outcome of every run, in any order. Closing the iterator stops the work."""


def sweep(cells: Iterable[Work], store: Store, workers: Workers) -> Generator[Progress, None, None]:
    """Carry out every run that the store does not have yet; progress after each.

    Interrupt it at any time: what was finished is in the store, and the next sweep of the same runs goes on from there.
    """
    store.prepare()
    every = {cell.key: cell for cell in cells}
    missing = [cell for cell in every.values() if not store.finished(cell)]
    progress = Progress(total=len(every), kept=len(every) - len(missing), running=min(len(missing), workers.busy))
    yield progress
    if not missing:
        return
    with closing(workers.outcomes(missing)) as outcomes:
        for outcome in outcomes:
            store.save(outcome)
            failed = isinstance(outcome, Failed)
            progress = replace(
                progress,
                finished=progress.finished + (not failed),
                failed=progress.failed + failed,
                outcome=outcome,
            )
            progress = replace(progress, running=min(progress.left, workers.busy))
            yield progress


class Here:
    """This process, one run after the other."""

    busy = 1

    def outcomes(self, cells: Sequence[Work]) -> Generator[Outcome, None, None]:
        """Each run in turn."""
        for cell in cells:
            yield perform(cell)


class Processes:
    """Processes on this machine, each with one thread."""

    def __init__(self, jobs: int) -> None:
        self.busy = jobs

    def outcomes(self, cells: Sequence[Work]) -> Generator[Outcome, None, None]:
        """Runs come back as they finish, short ones a few at a time. What a process had when it died is done again."""
        with self._at_work(get_ready, [*cells[:1]] * self.busy, deaf_to_interrupts()) as ready:
            try:
                compile_once(cells)  # while the processes load what they need
            finally:  # joblib fails in a thread of its own, aloud, if it is given up before it has begun
                with suppress(BrokenProcessPool):
                    list(ready)
        left = {cell.key: cell for cell in cells}
        while left:
            before = len(left)
            with suppress(BrokenProcessPool), self._at_work(perform, list(left.values())) as outcomes:
                for outcome in outcomes:
                    del left[outcome.key]
                    yield outcome
            if len(left) == before:
                break
        # Nothing came back before a process died again: one of these runs kills whoever does it. Each goes alone.
        for cell in left.values():
            try:
                with self._at_work(perform, [cell]) as outcomes:
                    [outcome] = outcomes
            except BrokenProcessPool:
                outcome = Failed(cell, cell.key, "the process that ran it died twice; is there enough memory?")
            yield outcome

    @contextmanager
    def _at_work(
        self,
        function: Callable[[Any], Any],
        arguments: Iterable[Any],
        beginning: AbstractContextManager[None] | None = None,
    ) -> Iterator[Iterator[Any]]:
        """The values of a function, in any order. The processes begin at once, within `beginning`, and give up what
        nobody waits for."""
        from joblib import Parallel, delayed, parallel_config

        with parallel_config(backend="loky", n_jobs=self.busy, inner_max_num_threads=1):
            pool = Parallel(return_as="generator_unordered")
            with beginning or nullcontext():
                values = pool(delayed(function)(argument) for argument in arguments)
            try:
                yield values
            finally:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # runs under way are given up: that is meant
                    values.close()


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes started in here ignore Ctrl-C, which a terminal sends to all: this one ends them, in good order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def compile_once(cells: Sequence[Work]) -> None:
    """Compile what these runs need before any process does one, so that none of them has to."""
    kinds: dict[tuple[object, ...], Work] = {}
    for cell in cells:
        kinds.setdefault(cell.compiled, cell)
    for cell in kinds.values():
        with suppress(Exception):  # a run that fails says so when its turn comes
            next(cell.steps(), None)
