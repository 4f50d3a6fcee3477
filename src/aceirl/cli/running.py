"""Commands about one run: run, resume, show, demo; and the lists of what can be run."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aceirl.cli.app import command
from aceirl.cli.options import Folder, Json, command_with

if TYPE_CHECKING:
    from aceirl.experts.tasks import Source, Task
    from aceirl.learner.settings import Settings
    from aceirl.runs import Run


NO_MAP = "Lists instead of maps: the environment does not say where its states are (docs/gymnasium.md, Pictures)."


def _asked_of_a_run() -> list[str]:
    from aceirl.learner.settings import Settings

    return [name for name in Settings.model_fields if name != "infer_after_growth"]


def _asked_anew() -> list[str]:
    from aceirl.runs.folder import CHANGEABLE

    return [name for name in CHANGEABLE if name != "infer_after_growth"]


@command_with(_asked_of_a_run)
def run(
    source: Any,
    num_envs: Annotated[
        int,
        typer.Option(
            help="Gymnasium only: episodes to play in parallel processes; worthwhile if a step of the environment "
            "takes a millisecond or more."
        ),
    ] = 1,
    recordings: Annotated[
        str | None,
        typer.Option(
            help="Trajectories to begin with, in the forms that `aceirl infer` takes; without --expert, they are all "
            "that is known of the expert. They do not count towards the budgets."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default a new one under runs/.")] = None,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Explore an environment, ask its expert, and recover a reward."""
    from aceirl.errors import InputError
    from aceirl.experts.tasks import open_source
    from aceirl.learner.recorded import after_recording, open_recordings, recorded_turn
    from aceirl.learner.settings import Settings
    from aceirl.runs import Run
    from aceirl.runs.folder import settings_for

    source = replace(source, num_envs=num_envs, recordings=recordings)
    if _is_continuous(source):
        _run_continuous(source, Settings(**settings), out, as_json=as_json)
        return
    with open_source(source) as task:
        wanted = settings_for(task, Settings(**settings))
        task, shown = open_recordings(task, source)
        if shown is not None:
            wanted = after_recording(wanted, shown)
        name = f"{source.environment}-{settings.get('strategy', wanted.named('strategy'))}-{source.seed}"
        folder = out or _free_folder(name.replace(":", "-").replace("/", "-"))
        begun = Run.create(folder, wanted, source)
        try:
            if shown is not None:
                begun.begin_with(recorded_turn(task, shown, wanted), task)
            _carry_on(begun, task, as_json=as_json)
        except InputError:
            if begun.state() is None:  # nothing was learnt: the corrected command may use the folder
                shutil.rmtree(begun.path)
            raise


@command_with(_asked_anew, defaults=False)
def resume(
    directory: Annotated[Path, typer.Argument(help="Folder of a run that was interrupted, or that is to go on.")],
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Go on with a run that was interrupted, or with one that is over, with settings that ask for more.

    Everything observed and answered is kept. With another reward space or algorithm, the reward is inferred again.
    Budgets include what was spent before.
    """
    from aceirl.errors import InputError
    from aceirl.experts.tasks import open_source
    from aceirl.learner.recorded import RECORDED, going_on, open_recordings, recorded_turn
    from aceirl.learner.settings import Settings
    from aceirl.runs.folder import is_continuous_run

    if is_continuous_run(directory):
        _resume_continuous(directory, Settings(**settings), as_json=as_json)
        return
    opened = run_in(directory)
    records = opened.records()
    if records and records[-1].stopped == RECORDED:
        raise InputError(f"{directory}: {going_on(opened.source)}")
    if opened.source is None:
        raise InputError(
            f"{directory} was begun from Python, with an environment or an expert that has no name; go on there "
            f"with ActiveIRL(...).fit(environment, expert, out={str(directory)!r}) and the settings that change"
        )
    with open_source(opened.source) as task:
        task, shown = open_recordings(task, opened.source)
        if shown is not None and opened.state() is None:
            opened.begin_with(recorded_turn(task, shown, opened.settings), task)
        opened.change(settings)
        _carry_on(opened, task, as_json=as_json)


@command
def show(
    directory: Folder,
) -> None:
    """Say what a run found, and draw it: learning curve, visits, recovered reward and policy."""
    from aceirl.cli.shown import keep_shown, rests_on, shown_before

    lines = shown_before(directory)
    if lines is not None:
        print("\n".join(lines))
        return
    from aceirl.runs.folder import is_continuous_run
    from aceirl.runs.result import load, opened

    if is_continuous_run(directory):
        load(directory).show()
        return
    begun = run_in(directory)
    now = rests_on(directory)
    found = opened(begun)
    print("\n".join(found.sentences))
    drawn = found.draw()
    besides = [NO_MAP] if found.layout is None else []
    for line in [*(f"  {one}" for one in drawn), *besides]:
        print(line)
    if found.records[-1].stopped:
        keep_shown(begun, found.turn.settings, now, list(found.sentences), drawn, besides)


@command
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run, the report and the pictures.")] = Path("aceirl-demo"),
) -> None:
    """An example from start to end: recover a reward on Four Paths, whose dynamics are not given."""
    from aceirl.cli.shown import SHOWN
    from aceirl.experts.tasks import Source, open_source
    from aceirl.learner.settings import Settings
    from aceirl.runs import Run
    from aceirl.runs.files import LOCK
    from aceirl.runs.folder import CONFIGURATION, ENVIRONMENT, RECORDS, STATE
    from aceirl.runs.result import opened

    settings, source = Settings(), Source("four-paths", {}, seed=0)
    written = {CONFIGURATION, RECORDS, STATE, ENVIRONMENT, "report.html", "pictures", SHOWN, LOCK}
    if (out / "run.json").exists() and {path.name for path in out.iterdir()} <= written:
        earlier = Run.open(out)
        if (earlier.source, earlier.settings) == (source, settings):
            shutil.rmtree(out)  # an earlier demo, and nothing else
    begun = Run.create(out, settings, source)
    with open_source(source) as task:
        _carry_on(begun, task, as_json=False, summary=False)
    found = opened(begun)
    wanted, *rest = found.sentences
    print(f"{wanted}\n")
    print(
        "Four corridors leave a room; one has something the expert wants. The software knew neither which one, nor what"
    )
    print("actions do. It tried them, asked the expert what it would do, and inferred the reward behind the answers.\n")
    print("\n".join(rest))
    for picture in found.draw():
        print(f"  {picture}")


@command
def envs() -> None:
    """List the environments."""
    from rich.console import Console
    from rich.table import Table

    from aceirl.envs import ENVIRONMENTS

    table = Table("name", "what it is", "parameters (--set name=value)")
    for name, spec in ENVIRONMENTS.items():
        table.add_row(name, spec.summary, ", ".join(f"{k}={v}" for k, v in spec.parameters.items()))
    Console().print(table)


@command
def strategies() -> None:
    """List the exploration strategies."""
    from dataclasses import fields

    from rich.console import Console
    from rich.table import Table

    from aceirl.explore import STRATEGIES

    table = Table("name", "needs", "rule", "parameters")
    for name, kind in STRATEGIES.items():
        made: Any = kind()
        parameters = ", ".join(f"{field.name}={getattr(made, field.name)}" for field in fields(made))
        table.add_row(name, kind.access, kind.summary, parameters)
    Console().print(table)


def _is_continuous(source: Source) -> bool:
    """Whether the environment has observations or actions that tables cannot take, and nothing cuts them."""
    if source.ours or source.discretise is not None:
        return False
    try:
        from aceirl.experts.tasks.continuous import names_continuous
    except ImportError:  # without Gymnasium there are none
        return False
    return names_continuous(source)


def _run_continuous(source: Source, settings: Settings, out: Path | None, *, as_json: bool) -> None:
    """Run to the end in a folder, and say what came out."""
    from aceirl.errors import InputError
    from aceirl.runs.continuous import ContinuousRun, fit_continuous
    from aceirl.runs.folder import CONFIGURATION

    if source.num_envs > 1:
        raise InputError("num_envs is for numbered states; continuous observations are learned one episode at a time")
    if source.expert is None and source.recordings is None:
        raise InputError(
            f"{source.environment} has no expert of its own; give one: package.module:function, a model as "
            "ppo:model.zip, or episodes as --recordings"
        )
    folder = out or _free_folder(f"{source.environment}-{source.seed}".replace(":", "-").replace("/", "-"))
    try:
        found = fit_continuous(source, None, settings, demonstrations=source.recordings, out=folder, progress=True)
    except KeyboardInterrupt:
        print(f"aceirl: interrupted; go on with: aceirl resume {folder}", file=sys.stderr)
        raise typer.Exit(130) from None
    except InputError:
        if (folder / CONFIGURATION).exists() and ContinuousRun.open(folder).progress() is None:  # nothing was learnt
            shutil.rmtree(folder)
        raise
    print(json.dumps(found.to_json()) if as_json else found.summary())


def _resume_continuous(directory: Path, settings: Settings, *, as_json: bool) -> None:
    """Go on with a run in a folder, and say what came out."""
    from aceirl.errors import InputError
    from aceirl.runs.continuous import ContinuousRun

    if (directory / "interview.json").exists():
        from aceirl.cli.interview import command_of

        raise InputError(f"{directory} is an interview; go on with: {command_of(directory)}")
    begun = ContinuousRun.open(directory)
    if begun.source is None:
        raise InputError(
            f"{directory} was begun from Python, with an environment or an expert that has no name; go on there "
            f"with ActiveIRL(...).fit(environment, expert, out={str(directory)!r}) and the settings that change"
        )
    _run_continuous(begun.source, settings, directory, as_json=as_json)


def _carry_on(begun: Run, task: Task, *, as_json: bool, summary: bool = True) -> None:
    """Run to the end with a progress bar, and say what came out."""
    from aceirl.errors import InputError
    from aceirl.runs.driving import progress_bar
    from aceirl.runs.result import opened

    try:
        with progress_bar(begun.settings, task.environment.horizon) as advance:
            for turn in begun.resume(task.environment, task.expert, task=task, regret=task.regret):
                advance(turn.record)
    except KeyboardInterrupt:
        print(f"aceirl: interrupted; go on with: aceirl resume {begun.path}", file=sys.stderr)
        raise typer.Exit(130) from None
    except InputError as error:
        if begun.state() is None:
            raise
        raise InputError(f"{error}\nWhat was learnt before is kept; go on with: aceirl resume {begun.path}") from error
    if as_json:
        print(json.dumps(opened(begun, task).to_json()))
    elif summary:
        print("\n".join(opened(begun, task).sentences))
        print(f"Pictures: aceirl show {begun.path}")


def run_in(directory: Path) -> Run:
    """The run in a folder; an interview is one when it is finished."""
    from aceirl.cli.interview import command_of
    from aceirl.errors import InputError
    from aceirl.runs import Run
    from aceirl.runs.folder import CONFIGURATION

    if not (directory / CONFIGURATION).exists() and (directory / "interview.json").exists():
        raise InputError(f"the interview in {directory} is not finished; go on with: {command_of(directory)}")
    return Run.open(directory)


def _free_folder(name: str) -> Path:
    """The first folder of that name under runs/ that does not exist yet."""
    path, number = Path("runs") / name, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{name}-{number}"
    return path
