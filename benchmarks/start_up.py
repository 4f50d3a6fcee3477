"""How long commands take: help, a run up to its first step, and what a run found.

    python benchmarks/start_up.py [--against SRC] [--docs]

In processor time of a process of their own, the least of a few, after one that compiles. With `--against` they are
compared with another version, in turns.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import _frame as frame

COMMAND = "from aceirl.cli import main; main()"
TO_THE_FIRST_STEP = """
import os
import aceirl.cli

def begun():
    import aceirl.learner.engine
    aceirl.learner.engine.collect = lambda *arguments, **options: os._exit(0)
    command()

command, aceirl.cli.app = aceirl.cli.app, begun
aceirl.cli.main()
"""

CASES = {
    "aceirl --help": (COMMAND, "--help"),
    "aceirl run four-paths, to the first step": (TO_THE_FIRST_STEP, "run", "four-paths"),
    "aceirl run Taxi-v4, to the first step": (TO_THE_FIRST_STEP, "run", "Taxi-v4", "--expert", "optimal"),
    "aceirl show, the first time": (COMMAND, "show"),
    "aceirl show, again": (COMMAND, "show", "again"),
}


def spent(code: str, *arguments: str) -> float:
    """The processor time of a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def prepared(code: str, command: str, *arguments: str) -> frame.Round:
    """A round of a command, in a folder where it has its place."""
    folder, again = tempfile.mkdtemp(), arguments == ("again",)
    if command == "show":
        spent(COMMAND, "run", "four-paths", "--out", folder)
        arguments = (folder,)

    def measure() -> float:
        if not again:
            (Path(folder) / "shown.json").unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as out:
            return spent(code, command, *arguments, *(["--out", str(Path(out) / "run")] if command == "run" else []))

    measure()
    return measure


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """The table, or two versions side by side."""
    if frame.compared(options, report, {name: (lambda case=case: prepared(*case)) for name, case in CASES.items()}):  # type: ignore[misc]
        return
    table = report.table("start-up", frame.Column("command"), frame.number("seconds", "{:.2f}"), page="strategies.md")
    for name, case in CASES.items():
        once = prepared(*case)
        table.add(name, min(once() for _ in range(options.rounds)))


if __name__ == "__main__":
    frame.start(measure, __doc__, *frame.comparing(5))
