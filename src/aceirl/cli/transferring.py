"""`aceirl transfer`: the reward of a run, planned with somewhere else."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aceirl.cli.app import command
from aceirl.cli.options import Folder, Horizon, Json, Parameters
from aceirl.cli.running import run_in

if TYPE_CHECKING:
    from aceirl.experts.tasks import Source
    from aceirl.learner.transfer import Transfer


@command
def transfer(
    directory: Folder,
    to: Annotated[
        str | None,
        typer.Option(
            help="The other environment: a built-in one, a Gymnasium id, or a model file (.npz); by default the run's "
            "own."
        ),
    ] = None,
    env_seed: Annotated[
        int | None, typer.Option(help="Another seed for a built-in environment; by default the run's.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Where episodes start: the name of a state, or uniform for any that is not terminal."),
    ] = None,
    discount: Annotated[
        float | None, typer.Option(help="The discount factor there; by default that of the run.")
    ] = None,
    horizon: Horizon = None,
    parameter: Parameters = None,
    steps: Annotated[
        int | None, typer.Option(help="Continuous observations only: how many steps to take there.")
    ] = None,
    as_json: Json = False,
    env: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Plan with the recovered reward in another environment, and say what that loses and what it depends on."""
    from aceirl.errors import InputError
    from aceirl.experts.tasks import Source, read_parameters
    from aceirl.learner.transfer import process_of_file, process_of_source
    from aceirl.runs.folder import is_continuous_run
    from aceirl.runs.result import opened

    if env is not None:
        raise InputError(f"--env is an option of infer; say where to with --to {env}")
    if is_continuous_run(directory):
        _continuous(directory, to, horizon, read_parameters(parameter or []), steps, as_json)
        return
    if steps is not None:
        raise InputError("--steps is for runs with continuous observations; this one has numbered states")
    run = run_in(directory)
    if run.source is None and to is None:
        raise InputError(f"{directory} was begun from Python, with an environment that has no name; say where --to")
    home = run.source or Source(str(to), {}, run.settings.seed)
    source = _source(home, to, env_seed, horizon, read_parameters(parameter or []))
    target = (process_of_file(Path(str(to))) if source is None else process_of_source(source, _say)).starting(start)
    own = process_of_source(run.source) if run.source is not None and home.ours else None
    if own is not None and source is not None and source.environment == home.environment:
        target = target.valued_as(own)
    if (home.expert is None and home.recordings) or (home.expert is not None and Path(home.expert).is_dir()):
        target = replace(target, reward=None)  # what an environment pays is not what a person wants
    result = opened(run).transfer(target, discount=discount, progress=True)
    if as_json:
        print(json.dumps(result.to_json()))
        return
    print(result.in_words())
    for picture in _drawn(result, source, directory, (to, env_seed, horizon, start, discount, parameter)):
        print(f"  {picture}")


def _continuous(
    directory: Path, to: str | None, horizon: int | None, parameters: dict[str, Any], steps: int | None, as_json: bool
) -> None:
    """Plan with the reward of a run with continuous observations."""
    import logging

    from aceirl.errors import InputError
    from aceirl.experts.tasks import Source
    from aceirl.experts.tasks.gymnasium import gym_env
    from aceirl.runs.continuous import ContinuousRun

    result = ContinuousRun.open(directory).result()
    if to is None and result.source is None:
        raise InputError(f"{directory} was begun from Python, with an environment that has no name; say where --to")
    name = to if to is not None or result.source is None else result.source.environment
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    target = gym_env(Source(str(name), parameters, result.settings.seed, horizon=horizon))
    planned = result.transfer(target, steps=steps)
    if as_json:
        print(json.dumps({"sentence": result.sentence, **planned.to_json()}))
        return
    print(result.sentence)
    print(planned.in_words())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _source(
    run: Source, to: str | None, env_seed: int | None, horizon: int | None, parameters: dict[str, Any]
) -> Source | None:
    """What the target is: the run's own environment, changed, or another; None if it is a model file."""
    from aceirl.errors import InputError
    from aceirl.experts.tasks import Source

    name = run.environment if to is None else to
    seed = run.seed if env_seed is None else env_seed
    other = Source(name, parameters, seed, horizon=horizon)
    if env_seed is not None and not other.ours:
        raise InputError(f"--env-seed is for built-in environments; {name} has none")
    if horizon is not None and (other.ours or name.endswith(".npz")):
        raise InputError(f"--horizon is for Gymnasium environments; {name} has its own")
    if name.endswith(".npz"):
        if parameters:
            raise InputError(f"a model file has no parameters, got --set {next(iter(parameters))}")
        return None
    if name != run.environment:
        return other
    steps = run.horizon if horizon is None else horizon
    return replace(run, parameters=run.parameters | parameters, seed=seed, horizon=steps, num_envs=1)


def _drawn(result: Transfer, source: Source | None, directory: Path, chosen: tuple[Any, ...]) -> list[Path]:
    """The plan on a map, if the target has one."""
    from aceirl.experts.tasks import layout
    from aceirl.explain import maps, plots

    target = result.target
    drawing = target.layout
    if drawing is None and source is not None:
        drawing = layout(source, target.names)
    if drawing is None or not len(drawing.drawn):
        return []
    to, env_seed, horizon, start, discount, parameters = chosen
    parts = ["transfer", to, env_seed, horizon and f"{horizon}-steps", start and f"from-{start}"]
    parts += [None if discount is None else f"discount-{discount:g}", *(parameters or [])]
    words = [str(part).removesuffix(".npz") for part in parts if part is not None]
    folder = directory / "pictures"
    folder.mkdir(exist_ok=True)
    name = re.sub(r"[^\w=.-]+", "-", "-".join(words))[:100].strip("-")
    return plots.save(maps.policy(drawing, result.policy), folder / name)
