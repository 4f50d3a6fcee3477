"""`aceirl export`: what a run in a Gymnasium environment has learned, as files that others can read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from aceirl.cli.app import command


@command
def export(
    directory: Annotated[Path, typer.Argument(help="Folder of a run in a Gymnasium environment.")],
) -> None:
    """Write the reward as a table (reward.csv) and the expert's answers as demonstrations (answers.jsonl)."""
    from aceirl.engine import Engine
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.errors import InputError
    from aceirl.loop import answers_of
    from aceirl.outputs import GymResult
    from aceirl.runs import Run
    from aceirl.sources import open_source

    opened = Run.open(directory)
    state = opened.state()
    if state is None:
        raise InputError(f"{directory} has no finished iteration yet")
    if opened.source is None:
        raise InputError(f"{directory} was begun from Python; use GymResult.of(result.turn, environment) there")
    with open_source(replace(opened.source, num_envs=1)) as task:
        if not isinstance(task.environment, GymEnvironment):
            raise InputError(f"{directory} is a run in {opened.source.environment}, not in a Gymnasium environment")
        answers = answers_of(task.expert, opened.settings)
        turn = Engine(task.environment, answers, opened.settings, state=state).last_turn
        learned = GymResult.of(turn, task.environment)
    learned.save_table(directory / "reward.csv")
    learned.save_demonstrations(directory / "answers.jsonl")
    print(f"{directory / 'reward.csv'}\n{directory / 'answers.jsonl'}")
