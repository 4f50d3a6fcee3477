"""How a sweep is shown while it goes on: a live display on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aceirl.bench.sweep import Progress
    from aceirl.bench.work import Work

LINE_EVERY = 10.0  # seconds
PICTURE_EVERY = 0.25
ROWS = 24  # the display stays on one screen


class Remaining:
    """What is left of a sweep, and how long it should take, judged by the runs of the same kind so far."""

    def __init__(self, cells: Iterable[Work]) -> None:
        self.kinds: dict[str, tuple[str, str]] = {}
        self.left: dict[tuple[str, str], int] = {}
        self.spent: dict[tuple[str, str], list[float]] = {}
        self.samples: dict[tuple[str, str], list[tuple[int, bool]]] = {}
        self.errors: list[str] = []
        self.busy = 1
        for cell in cells:
            if cell.key not in self.kinds:
                self.kinds[cell.key] = kind = cell.place
                self.left[kind] = self.left.get(kind, 0) + 1

    def learn(self, progress: Progress) -> None:
        """Take in one step of the sweep."""
        from aceirl.bench.work import Failed

        self.busy = max(1, progress.running)
        if progress.outcome is None:
            return
        kind = self.kinds[progress.outcome.key]
        self.left[kind] -= 1
        if isinstance(progress.outcome, Failed):
            self.errors.append(f"{kind[0]}, {kind[1]}, seed {progress.outcome.cell.seed}: {progress.outcome.error}")
            return
        self.spent.setdefault(kind, []).append(progress.outcome.seconds["total"])
        outcome = progress.outcome
        self.samples.setdefault(kind, []).append((outcome.samples, outcome.stopped == "budget"))

    def seconds(self, progress: Progress) -> float | None:
        """The expected time to the end; None before anything is known."""
        if not self.spent:
            return None
        means = {kind: sum(spent) / len(spent) for kind, spent in self.spent.items()}
        average = sum(means.values()) / len(means)
        # Runs kept from before are in `left` too: only the share that is really missing counts.
        share = progress.left / max(1, sum(self.left.values()))
        return share * sum(n * means.get(kind, average) for kind, n in self.left.items()) / self.busy


class PlainLines:
    """A line at the start, then at most one every ten seconds, and each failure as it happens."""

    def __init__(self, remaining: Remaining) -> None:
        self.remaining, self.last_line, self.errors = remaining, 0.0, 0

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, progress: Progress) -> None:
        """Say where the sweep stands, if it is time."""
        for error in self.remaining.errors[self.errors :]:
            print(f"failed: {error}", file=sys.stderr)
        self.errors = len(self.remaining.errors)
        now = time.perf_counter()
        if now - self.last_line >= LINE_EVERY or progress.left == 0:
            self.last_line = now
            print(status(progress, self.remaining), file=sys.stderr, flush=True)


class LiveDisplay:
    """A bar, a line, and the means so far of every scenario and strategy."""

    def __init__(self, remaining: Remaining) -> None:
        from rich.console import Console
        from rich.live import Live

        self.remaining, self.last_picture = remaining, 0.0
        self.live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)

    def __enter__(self) -> LiveDisplay:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def show(self, progress: Progress) -> None:
        """Draw the display anew, if it is time."""
        now = time.perf_counter()
        if now - self.last_picture >= PICTURE_EVERY or progress.left == 0:
            self.last_picture = now
            self.live.update(self._picture(progress), refresh=True)

    def _picture(self, progress: Progress) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        errors = [Text(f"failed: {error}", style="red", overflow="ellipsis") for error in self.remaining.errors[-3:]]
        bar = ProgressBar(total=max(1, progress.total), completed=progress.total - progress.left, width=60)
        return Group(self._means(), bar, Text(status(progress, self.remaining)), *errors)

    def _means(self) -> Any:
        from rich.table import Table

        scenarios = list(dict.fromkeys(scenario for scenario, _ in self.remaining.left))
        strategies = list(dict.fromkeys(strategy for _, strategy in self.remaining.left))
        table = Table("samples", *strategies, box=None, header_style="bold", pad_edge=False)
        for scenario in scenarios[:ROWS]:
            table.add_row(scenario, *(_mean(self.remaining.samples.get((scenario, name), [])) for name in strategies))
        return table


def status(progress: Progress, remaining: Remaining) -> str:
    """Done, running, failures and the expected end, in one line."""
    done = progress.total - progress.left
    parts = [f"{done:,} of {progress.total:,} runs"]
    if progress.kept:
        parts.append(f"{progress.kept:,} from before")
    if progress.left:
        parts.append(f"{progress.running} running" if progress.running else "waiting for workers")
    parts.append(f"{progress.failed:,} failed")
    seconds = remaining.seconds(progress)
    if seconds is not None and progress.left:
        end = time.strftime("%H:%M", time.localtime(time.time() + seconds))
        parts.append(f"about {_duration(seconds)} left, until {end}")
    return " · ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _mean(samples: list[tuple[int, bool]]) -> str:
    if not samples:
        return "[dim]–[/dim]"
    censored = any(ended for _, ended in samples)
    return f"{'≥' if censored else ''}{sum(n for n, _ in samples) / len(samples):,.0f} [dim]({len(samples)})[/dim]"
