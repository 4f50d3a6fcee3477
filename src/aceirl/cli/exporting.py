"""`aceirl export`: what a run has recovered, as files that others can read."""

from __future__ import annotations

from aceirl.cli.app import command
from aceirl.cli.options import Folder
from aceirl.cli.running import run_in


@command
def export(
    directory: Folder,
) -> None:
    """Write the reward as a table (reward.csv) and the expert's answers as demonstrations (demonstrations.jsonl)."""
    from aceirl.experts.demonstrations import DEMONSTRATIONS
    from aceirl.runs.result import opened

    run = run_in(directory)
    # An interview has written its own demonstrations, with times.
    theirs = run.source is not None and run.source.expert == str(run.path)
    opened(run).export(directory / "reward.csv", None if theirs else directory / DEMONSTRATIONS)
    print(f"{directory / 'reward.csv'}\n{directory / DEMONSTRATIONS}")
