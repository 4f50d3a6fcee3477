"""`aceirl advise`: what fits an environment, and what it will cost."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from aceirl.cli.app import command


@command
def advise(
    env: Annotated[
        str,
        typer.Argument(
            help="Name of the environment (`aceirl envs` lists ours), a Gymnasium id, or package.module:function."
        ),
    ],
    expert: Annotated[
        str | None,
        typer.Option(help="Whom to ask, as in `run`; by default the environment's own or best one, if there is any."),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Gymnasium only: steps of an episode; by default the environment's limit.")
    ] = None,
    discretise: Annotated[
        str | None, typer.Option(help="Gymnasium only: cuts continuous observations, as in `run`.")
    ] = None,
    wrap: Annotated[
        list[str] | None, typer.Option(help="Gymnasium only: a wrapper, as package.module:class; may be repeated.")
    ] = None,
    stationary_expert: Annotated[bool, typer.Option(help="Assume that the expert does not look at the step.")] = False,
    stochastic_expert: Annotated[
        bool, typer.Option(help="Gymnasium only: the function or model is stochastic.")
    ] = False,
    parameter: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the environment, as name=value; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Determines the problem and the episodes that are tried.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the advice as one JSON object.")] = False,
) -> None:
    """Say which strategy, reward space, certificate, batch and radii fit, and what a run will cost.

    It plays some random episodes and, if there is an expert who is no person, begins the run, for ten seconds at most.
    """
    from aceirl.choosing import advise as advice_on
    from aceirl.sources import Source, read_parameters

    advice = advice_on(
        Source(
            environment=env,
            parameters=read_parameters(parameter or []),
            seed=seed,
            stationary_expert=stationary_expert,
            expert=expert,
            horizon=horizon,
            discretise=discretise,
            wrap=tuple(wrap or ()),
            stochastic_expert=stochastic_expert,
        )
    )
    print(json.dumps(advice.to_json()) if as_json else advice.in_words())
