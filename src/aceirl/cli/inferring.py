"""`aceirl infer`: the reward behind a recording, what the recording leaves open, and what to record next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from aceirl.cli.options import Discretise, Json, Parameters, Wrap, command_with, source_of


@command_with(lambda: ("reward", "irl", "stationary_dynamics", "discount", "seed"))
def infer(
    data: Annotated[
        str,
        typer.Argument(
            help="The recording: a .jsonl or .npz file, the folder or id of a Minari dataset, or a folder of "
            "imitation's trajectories."
        ),
    ],
    env: Annotated[
        str | None,
        typer.Option(
            help="The environment it was recorded in: a built-in one, a Gymnasium id, or package.module:function; by "
            "default what the recording says, or only its observations."
        ),
    ] = None,
    stochastic_expert: Annotated[
        bool | None,
        typer.Option(
            "--stochastic-expert/--deterministic-expert",
            help="Whether the expert draws its actions at random, or takes the most frequent one; by default it draws "
            "them if the recording contradicts itself.",
        ),
    ] = None,
    stationary_expert: Annotated[
        bool | None,
        typer.Option(
            "--stationary-expert/--per-step-expert",
            help="Whether the expert's actions depend on the state only, or on the step too; by default as recorded.",
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(help="Steps of an episode; by default the length of the longest recorded one."),
    ] = None,
    discretise: Discretise = None,
    wrap: Wrap = None,
    parameter: Parameters = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to keep the result in; show, export and transfer take it.")
    ] = None,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Infer a reward from recorded trajectories, and say what they leave open and what to record next."""
    from aceirl.explain.recordings import contradictions
    from aceirl.runs.api import ActiveIRL

    named: dict[str, Any] = {"horizon": horizon, "discretise": discretise, "wrap": wrap, "recordings": data}
    source = source_of(env or "", parameter, seed=settings.get("seed", 0), **named)
    result = ActiveIRL(**settings).infer(
        data, source, stochastic_expert=stochastic_expert, stationary_expert=stationary_expert, out=out
    )
    found = result.explanation
    if as_json:
        goals = [] if found is None else [result.names[s] for s in found.goals]
        support = result.support.to_json(result.names, result.actions)
        told = {"steps": result.samples, "episodes": result.records[-1].episodes, "goals": goals, "support": support}
        told |= {"horizon": result.task.environment.horizon, "wish": result.wish.to_json()}
        assert result.demonstrations is not None
        told |= {"warnings": contradictions(result.demonstrations, result.task)}
        print(json.dumps(told | {"directory": None if out is None else str(out)}))
        return
    print(result.in_words())
    if out is not None:
        print(f"Pictures: aceirl show {out}")
