"""`aceirl export`: what a run in a Gymnasium environment has recovered, as files that others can read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aceirl.cli.app import command


@command
def export(
    directory: Annotated[Path, typer.Argument(help="Folder of a run in a Gymnasium environment.")],
) -> None:
    """Write the reward as a table (reward.csv) and the expert's answers as demonstrations (answers.jsonl)."""
    from aceirl.envs.gymnasium import GymAdapter
    from aceirl.errors import InputError
    from aceirl.outputs import GymResult
    from aceirl.runs import Run
    from aceirl.show.opened import opened

    run = Run.open(directory)
    with opened(run) as found:
        if run.source is None or found.task is None:
            raise InputError(f"{directory} was begun from Python; use GymResult.of(result.turn, environment) there")
        if not isinstance(found.task.environment, GymAdapter):
            raise InputError(f"{directory} is a run in {run.source.environment}, not in a Gymnasium environment")
        result = GymResult.of(found.turn, found.task.environment)
    result.save_table(directory / "reward.csv")
    result.save_demonstrations(directory / "answers.jsonl")
    print(f"{directory / 'reward.csv'}\n{directory / 'answers.jsonl'}")
