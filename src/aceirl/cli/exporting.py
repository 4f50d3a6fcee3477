"""`aceirl export`: what a run has recovered, as files that others can read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aceirl.cli.app import command
from aceirl.cli.running import run_in


@command
def export(
    directory: Annotated[Path, typer.Argument(help="Folder of a run or of an interview.")],
) -> None:
    """Write the reward as a table (reward.csv) and the expert's answers as demonstrations (demonstrations.jsonl)."""
    from aceirl.envs.gymnasium import GymAdapter
    from aceirl.experts.demonstrations import DEMONSTRATIONS
    from aceirl.outputs import GymResult, OwnResult
    from aceirl.show.opened import opened

    run = run_in(directory)
    with opened(run) as found:
        environment, layout = found.task.environment, found.task.layout
        result: GymResult | OwnResult
        if isinstance(environment, GymAdapter):
            result = GymResult.of(found.turn, environment)
        elif layout is not None:
            result = OwnResult(found.turn, layout.state_names, layout.action_names)
        else:
            result = OwnResult(found.turn, found.names, found.actions)
    result.save_table(directory / "reward.csv")
    if run.source is None or run.source.expert != str(run.path):  # an interview has written its own, with times
        result.save_demonstrations(directory / DEMONSTRATIONS)
    print(f"{directory / 'reward.csv'}\n{directory / DEMONSTRATIONS}")
