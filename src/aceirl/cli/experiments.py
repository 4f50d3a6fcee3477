"""Commands about many runs: experiments, sweep, reproduce."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aceirl.cli.app import command

if TYPE_CHECKING:
    from aceirl.bench.page import Written
    from aceirl.bench.specs import Spec
    from aceirl.bench.store import Store
    from aceirl.bench.sweep import Progress, Workers
    from aceirl.bench.work import Work


Jobs = Annotated[int | None, typer.Option(min=1, help="Processes on this machine; by default one for each core.")]
ClusterAddress = Annotated[
    str | None, typer.Option("--cluster", help="A Dask scheduler, tcp://host:port; or `local`, to start one here.")
]
Seeds = Annotated[int | None, typer.Option(min=1, help="How many seeds; by default as many as the experiment names.")]


@command
def experiments() -> None:
    """List the experiments that can be reproduced."""
    from rich.console import Console
    from rich.table import Column, Table

    from aceirl.bench.paper import SPECS

    table = Table(
        Column("name", no_wrap=True),
        "what it is",
        "scenarios",
        "strategies",
        "runs",
        title="aceirl reproduce …",
        title_justify="left",
    )
    for name, spec in SPECS.items():
        names = ", ".join(spec.strategies)
        table.add_row(name, spec.summary, str(len(spec.scenarios)), names, f"{len(spec.cells()):,}")
    Console().print(table)
    print("Your own: write a TOML file (docs/experiments.md) and run `aceirl sweep my.toml`.")


@command
def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment in TOML; docs/experiments.md shows one.")],
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; by default sweeps/ and the file's name.")
    ] = None,
    cluster: ClusterAddress = None,
) -> None:
    """Run an experiment of your own, and report on it."""
    from aceirl.bench.userspecs import read_spec

    _carry_out([read_spec(file)], seeds, jobs, out or Path("sweeps") / file.stem, cluster)


@command
def reproduce(
    what: Annotated[str, typer.Argument(help="A name that `aceirl experiments` lists, or `all`.")],
    seeds: Seeds = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Folder for results, figures and the report.")] = Path("reproduction"),
    cluster: ClusterAddress = None,
) -> None:
    """Repeat the paper's experiments: all runs are kept on disk, and one report shows them. Interrupt it any time."""
    from aceirl.bench.paper import SPECS, spec

    specs = list(SPECS.values()) if what == "all" else [spec(what)]
    _carry_out(specs, seeds, jobs, out, cluster, paper=True)


def _carry_out(
    specs: list[Spec], seeds: int | None, jobs: int | None, out: Path, cluster: str | None, *, paper: bool = False
) -> None:
    from aceirl.bench.report import write_report
    from aceirl.bench.store import Store

    specs = [spec if seeds is None else spec.with_seeds(seeds) for spec in specs]
    store = Store(out / "runs")
    failed = swept([cell for spec in specs for cell in spec.cells()], store, jobs, cluster)
    show(write_report(specs, store, out, command=shlex.join(["aceirl", *sys.argv[1:]]), paper=paper), failed)


def swept(cells: Sequence[Work], store: Store, jobs: int | None, cluster: str | None) -> int:
    """Carry out all runs that the store does not have, and show it; how many failed."""
    from aceirl.bench.sweep import sweep as carry_out

    workers = _workers(jobs or os.cpu_count() or 1, cluster)
    began, last = time.perf_counter(), None
    with _watching(cells) as watch:
        for progress in carry_out(cells, store, workers):
            watch(progress)
            last = progress
    assert last is not None
    seconds = time.perf_counter() - began
    print(f"{last.finished:,} runs done, {last.kept:,} kept from before, {last.failed:,} failed, in {seconds:,.0f} s")
    return last.failed


def show(report: Written, failed: int) -> None:
    """What a report says, and where it is; exit code 1 if runs failed."""
    for line in report.lines:
        print(line)
    print(f"Report: {report.path}")
    if failed:
        print(f"aceirl: {failed} runs failed; the report names them, and the same command tries again", file=sys.stderr)
        raise typer.Exit(1)


def _workers(jobs: int, cluster: str | None) -> Workers:
    from aceirl.bench.sweep import Here, Processes
    from aceirl.errors import InputError

    if cluster is None:
        return Processes(jobs) if jobs > 1 else Here()
    # A scheduler that goes away is told in one line at the end; the library would fill the screen.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        from aceirl.bench.cluster import Cluster, LocalCluster
    except ImportError as error:
        raise InputError(f"--cluster needs Dask ({error}): pip install 'aceirl[cluster]'") from None
    if cluster == "local":
        return LocalCluster(jobs)
    if "://" not in cluster:
        raise InputError(f"--cluster must be `local` or an address such as tcp://host:8786, got {cluster!r}")
    return Cluster(cluster)


@contextmanager
def _watching(cells: Iterable[Work]) -> Iterator[Any]:
    """Show progress: a live display on a terminal, else a line now and then."""
    from aceirl.cli.watching import LiveDisplay, PlainLines, Remaining

    remaining = Remaining(cells)
    with LiveDisplay(remaining) if sys.stderr.isatty() else PlainLines(remaining) as display:

        def watch(progress: Progress) -> None:
            remaining.learn(progress)
            display.show(progress)

        yield watch
