"""The command `arena`: methods side by side."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from aceirl.cli.app import command
from aceirl.cli.experiments import ClusterAddress, Jobs, show, swept


@command
def arena(
    methods: Annotated[
        str | None, typer.Option(help="Methods by name, and Python files of your own, with commas; by default all.")
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Tasks by name, with commas; `scaling` for garnet in all sizes; by default all.")
    ] = None,
    experts: Annotated[
        str | None, typer.Option(help="Only tasks with these experts: optimal, slips, boltzmann, with commas.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 50,
    jobs: Jobs = None,
    cluster: ClusterAddress = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, results and the page.")] = Path("arena"),
    against: Annotated[
        Path | None, typer.Option(help="Compare with another arena's folder, method by method, paired by seed.")
    ] = None,
) -> None:
    """Methods of active inverse reinforcement learning side by side, on the same tasks. Interrupt it when you like."""
    from aceirl.bench.arena import ArenaResults, entries_of
    from aceirl.bench.arena_page import write_page
    from aceirl.bench.store import Store
    from aceirl.errors import InputError

    if against is not None and out.resolve() in (against.resolve(), against.resolve().parent):
        raise InputError(f"--against is {against}, the folder of --out itself; name that of another arena")
    entries = entries_of(methods, tasks, experts, seeds)
    before = None if against is None else ArenaResults.of_store(against)
    store = Store(out / "runs")
    failed = swept(entries.cells, store, jobs, cluster)
    show(write_page(entries, store, out, command=shlex.join(["aceirl", *sys.argv[1:]]), before=before), failed)
