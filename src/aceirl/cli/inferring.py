"""`aceirl infer`: the reward behind a recording, what the recording leaves open, and what to record next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from aceirl.cli.app import command
from aceirl.cli.running import Json


@command
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
            help="The environment it is from: one of ours, a Gymnasium id, or package.module:function; by default what "
            "the recording says, or its observations alone."
        ),
    ] = None,
    reward: Annotated[
        str | None,
        typer.Option(help="What a reward may depend on: state, state-action, any, or auto, the default; as in `run`."),
    ] = None,
    irl: Annotated[
        str | None, typer.Option(help="How a reward is inferred; by default sparse-likelihood, as in `run`.")
    ] = None,
    stochastic_expert: Annotated[
        bool | None,
        typer.Option(
            "--stochastic-expert/--deterministic-expert",
            help="The expert draws its actions, or does what it did most often; by default it does draw them if it "
            "contradicts itself.",
        ),
    ] = None,
    stationary_expert: Annotated[
        bool | None,
        typer.Option(
            "--stationary-expert/--per-step-expert",
            help="The expert does not look at the step, or does; by default as the recording shows it.",
        ),
    ] = None,
    per_step: Annotated[bool, typer.Option(help="Do not assume that the dynamics are the same at every step.")] = False,
    horizon: Annotated[
        int | None,
        typer.Option(help="Steps of an episode; by default those of the longest recorded."),
    ] = None,
    discretise: Annotated[
        str | None,
        typer.Option(
            help="Cuts continuous observations; bins or low:high:bins for each dimension, with commas between, or "
            "package.module:function."
        ),
    ] = None,
    wrap: Annotated[
        list[str] | None, typer.Option(help="Gymnasium only: a wrapper, as package.module:class; may be repeated.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the environment, as name=value; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Determines the problem, for one of ours.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder to keep the result in; show, export and transfer take it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Infer a reward from recorded trajectories, and say what they leave open and what to record next."""
    from aceirl.learner import ActiveIRL
    from aceirl.recorded import contradictions
    from aceirl.sources import Source, action_names, read_parameters

    source = Source(
        environment=env or "",
        parameters=read_parameters(parameter or []),
        seed=seed,
        horizon=horizon,
        discretise=discretise,
        wrap=tuple(wrap or ()),
        recordings=data,
    )
    given = {"reward": reward, "irl": irl, "seed": seed}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if per_step:
        settings["stationary_dynamics"] = False
    result = ActiveIRL(**settings).infer(
        data, source, stochastic_expert=stochastic_expert, stationary_expert=stationary_expert, out=out
    )
    found = result.explanation
    if as_json:
        goals = [] if found is None else [result.names[s] for s in found.goals]
        support = result.support.to_json(result.names, action_names(result.task))
        told = {"steps": result.samples, "episodes": result.records[-1].episodes, "goals": goals, "support": support}
        told |= {"horizon": result.task.environment.horizon}
        told |= {"warnings": contradictions(result.demonstrations, result.task)}
        print(json.dumps(told | {"directory": None if out is None else str(out)}))
        return
    print(result.in_words())
    if out is not None:
        print(f"Pictures: aceirl show {out}")
