"""A run is driven to its end: with a line that shows how far it is, and a callback that may stop it."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from aceirl.errors import InputError, unknown_name
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Record, Turn

LINE_EVERY = 10.0  # seconds between two lines of progress, where there is no terminal

Now = TypeVar("Now")

Callback = Callable[[Turn], bool | None]
"""Sees every turn; a run stops where it returns True."""


def driven(
    turns: Generator[Turn, None, None],
    settings: Settings,
    horizon: int,
    begun: list[Record],
    callback: Callback | None,
    progress: bool,
    last: Turn | None = None,
) -> tuple[list[Record], Turn]:
    """Learn to the end: all records, and the last turn. `begun` and `last` are those of a run that has begun."""
    records = list(begun)
    with closing(turns), progress_bar(settings, horizon, show=progress) as advance:
        for turn in turns:
            if records and records[-1].iteration == turn.iteration:  # the last one, reconsidered
                records.pop()
            records.append(turn.record)
            last = turn
            advance(turn.record)
            if callback and callback(turn) is True:
                records[-1] = replace(turn.record, stopped=turn.record.stopped or "callback", regret=turn.regret)
                break
    assert last is not None
    return records, last


def check_arguments(method: Callable[..., Any], unknown: dict[str, Any]) -> None:
    """Refuse arguments that a method does not have: with the nearest one, or with where a setting goes."""
    for name, value in unknown.items():
        if name in Settings.model_fields:
            raise InputError(
                f"{name} is not an argument of {method.__name__}; it is a setting: ActiveIRL({name}={value!r})"
            )
        known = inspect.signature(method).parameters.values()
        names = [parameter.name for parameter in known if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
        raise unknown_name(f"argument of {method.__name__}", name, names)


def check_callback(callback: Any) -> None:
    """Refuse what cannot be called with a turn."""
    if callback is None:
        return
    if callable(callback):
        try:
            inspect.signature(callback).bind(None)
            return
        except ValueError:  # built in, and without a signature
            return
        except TypeError:
            pass
    raise InputError(f"callback must be a function of one argument, the turn; got {callback!r}")


def progress_bar(
    settings: Settings, horizon: int, *, show: bool = True
) -> AbstractContextManager[Callable[[Record], None]]:
    """A line that shows how far a run is: samples spent, answers given, the certificate and the regret."""
    goal, regret = settings.target(horizon).epsilon, ""

    def status(record: Record) -> str:
        """A record in a line, beside what is asked for; with the regret that was measured last."""
        nonlocal regret
        if record.regret is not None:
            regret = f" · regret {record.regret:.3f}"
        certified = " · ".join(f"{kind} {value:.3g}/{goal:.3g}" for kind, value in record.certificates.items())
        return f"{record.samples:,} samples · {record.answers:,} answers · {certified}{regret}"

    return progress_line(status, lambda record: record.samples, settings.max_samples, show=show)


@contextmanager
def progress_line(
    status: Callable[[Now], str], done: Callable[[Now], int], total: int, *, show: bool
) -> Iterator[Callable[[Now], None]]:
    """A line with the `status` of a run and a bar of what is `done`; a line now and then where there is no terminal."""
    if not show:
        yield lambda now: None
        return
    last = time.monotonic()

    def line(now: Now) -> None:
        nonlocal last
        text = status(now)
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    text = TextColumn("{task.description}", table_column=Column(overflow="fold", no_wrap=False))
    with Progress(BarColumn(20), text, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda now: bar.update(task, completed=done(now), description=status(now))
