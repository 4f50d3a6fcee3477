"""Commands about one run: run, resume, show, demo; and the lists of what can be run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aceirl.cli.app import command

if TYPE_CHECKING:
    from aceirl.runs import Run
    from aceirl.sources import Task

Out = Annotated[Path | None, typer.Option(help="Folder of the run; by default a new one under runs/.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object on the last line.")]


@command
def run(
    env: Annotated[
        str,
        typer.Argument(
            help="Name of the environment (`aceirl envs` lists ours), a Gymnasium id, or package.module:function."
        ),
    ],
    strategy: Annotated[
        str, typer.Option(help="Where to explore: NAME or NAME:key=value; see `aceirl strategies`.")
    ] = "guided",
    episodes_per_iteration: Annotated[
        int | None,
        typer.Option(help="Episodes between two plans (N_E); by default 1, or --num-envs."),
    ] = None,
    reward: Annotated[
        str,
        typer.Option(
            help="What a reward may depend on: state, state-action, any, or auto for the smallest that explains the "
            "answers; features:path=FILE.npy, or package.module.function of an observation, for features of your own."
        ),
    ] = "auto",
    irl: Annotated[
        str, typer.Option(help="How a reward is inferred: sparse-likelihood, max-causal-entropy, max-margin, ...")
    ] = "sparse-likelihood",
    confidence: Annotated[str, typer.Option(help="The family of confidence radii.")] = "adaptive",
    certify: Annotated[
        str, typer.Option(help="The certificate to stop on: policy, criterion, reward, set, dynamics, or none.")
    ] = "policy",
    epsilon: Annotated[
        float | None,
        typer.Option(help="Accuracy asked of the certificate; by default a tenth of what episodes can pay."),
    ] = None,
    delta: Annotated[float, typer.Option(help="How often the certificate may be wrong.")] = 0.1,
    max_samples: Annotated[int, typer.Option(help="Budget: environment steps; the last batch is finished.")] = 100_000,
    max_answers: Annotated[int | None, typer.Option(help="Budget: answers of the expert; by default no limit.")] = None,
    until_regret: Annotated[float | None, typer.Option(help="Stop when the normalised regret is below this.")] = None,
    seed: Annotated[int, typer.Option(help="Determines the problem and every draw of the run.")] = 0,
    parameter: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the environment, as name=value; may be repeated.")
    ] = None,
    per_step: Annotated[bool, typer.Option(help="Do not assume that the dynamics are the same at every step.")] = False,
    stationary_expert: Annotated[
        bool,
        typer.Option(help="Assume that the expert does not look at the step: an answer then holds at every step."),
    ] = False,
    expert: Annotated[
        str | None,
        typer.Option(
            help="The folder of an interview; or, Gymnasium only: optimal, terminal, package.module:function of an "
            "observation, demonstrations (.jsonl, .npz), or a Stable-Baselines3 model as ppo:model.zip."
        ),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Gymnasium only: steps of an episode; by default the environment's limit.")
    ] = None,
    discretise: Annotated[
        str | None,
        typer.Option(
            help="Gymnasium only: cuts continuous observations; bins or low:high:bins for each dimension, with commas "
            "between, or package.module:function."
        ),
    ] = None,
    wrap: Annotated[
        list[str] | None, typer.Option(help="Gymnasium only: a wrapper, as package.module:class; may be repeated.")
    ] = None,
    num_envs: Annotated[
        int,
        typer.Option(
            help="Gymnasium only: episodes to play side by side, in processes of their own; it pays if a step of the "
            "environment takes a millisecond or more."
        ),
    ] = 1,
    stochastic_expert: Annotated[
        bool, typer.Option(help="Gymnasium only: the function or model is stochastic, and is asked at every visit.")
    ] = False,
    least_probability: Annotated[
        float | None,
        typer.Option(help="For a stochastic expert: it takes every action it uses with at least this probability."),
    ] = None,
    rmax: Annotated[
        float | None,
        typer.Option(
            help="How far the rewards of two steps can lie apart, where one after the end of an episode pays 0; the "
            "unit of certificates. By default 1, or what is known of the environment."
        ),
    ] = None,
    max_return: Annotated[
        float | None,
        typer.Option(
            help="How far the returns of two episodes can lie apart, if that is less than a reward at every step; by "
            "default what is known of the environment."
        ),
    ] = None,
    ask_again: Annotated[
        float | None,
        typer.Option(
            help="How often a deterministic expert is asked about a state for which it has answered; by default a "
            "function or a model always, a person one time in ten, a table never."
        ),
    ] = None,
    recordings: Annotated[
        str | None,
        typer.Option(
            help="Trajectories to begin with, as `aceirl infer` takes them; without --expert, they are all that is "
            "known of the expert. Budgets are for what comes after."
        ),
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Explore an environment, ask its expert, and recover a reward."""
    from aceirl.errors import InputError
    from aceirl.recorded import after_recording, open_recordings, recorded_turn
    from aceirl.runs import Run, settings_for
    from aceirl.settings import Settings
    from aceirl.sources import Source, open_source, read_parameters

    parameters = read_parameters(parameter or [])
    source = Source(
        environment=env,
        parameters=parameters,
        seed=seed,
        stationary_expert=stationary_expert,
        expert=expert,
        horizon=horizon,
        discretise=discretise,
        wrap=tuple(wrap or ()),
        num_envs=num_envs,
        stochastic_expert=stochastic_expert,
        recordings=recordings,
    )
    known = {"episodes_per_iteration": episodes_per_iteration, "rmax": rmax, "max_return": max_return}
    said = {name: value for name, value in known.items() if value is not None}
    if per_step:
        said["stationary_dynamics"] = False
    with open_source(source) as task:
        given = Settings(
            strategy=strategy,
            reward=reward,
            irl=irl,
            confidence=confidence,
            certify=None if certify.lower() == "none" else certify,
            epsilon=epsilon,
            delta=delta,
            max_samples=max_samples,
            max_answers=max_answers,
            until_regret=until_regret,
            ask_again=ask_again,
            least_probability=least_probability,
            seed=seed,
            **said,
        )
        settings = settings_for(task, given)
        task, shown = open_recordings(task, source)
        if shown is not None:
            settings = after_recording(settings, shown)
        folder = out or _free_folder(f"{env}-{strategy}-{seed}".replace(":", "-").replace("/", "-"))
        begun = Run.create(folder, settings, source)
        try:
            if shown is not None:
                begun.begin_with(recorded_turn(task, shown, settings), task)
            _carry_on(begun, task, as_json=as_json)
        except InputError:
            if begun.state() is None:  # nothing was learnt: the corrected command may use the folder
                shutil.rmtree(begun.path)
            raise


@command
def resume(
    directory: Annotated[Path, typer.Argument(help="Folder of a run that was interrupted, or that shall go on.")],
    max_samples: Annotated[int | None, typer.Option(help="Another budget of environment steps, in all.")] = None,
    max_answers: Annotated[int | None, typer.Option(help="Another budget of answers, in all.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Another accuracy of the certificate.")] = None,
    certify: Annotated[str | None, typer.Option(help="Another certificate to stop on, or none.")] = None,
    until_regret: Annotated[float | None, typer.Option(help="Another regret to stop at.")] = None,
    reward: Annotated[str | None, typer.Option(help="Another space of rewards.")] = None,
    irl: Annotated[str | None, typer.Option(help="Another way to infer a reward.")] = None,
    strategy: Annotated[str | None, typer.Option(help="Another strategy from now on.")] = None,
    as_json: Json = False,
) -> None:
    """Go on with a run that was interrupted, as if it had not been; or with one that is over, asking more of it.

    What was seen and answered stays. With another reward or algorithm, a reward is inferred from it anew.
    """
    from aceirl.errors import InputError
    from aceirl.recorded import RECORDED, going_on, open_recordings, recorded_turn
    from aceirl.sources import open_source

    opened = run_in(directory)
    records = opened.records()
    if records and records[-1].stopped == RECORDED:
        raise InputError(f"{directory}: {going_on(opened.source)}")
    if opened.source is None:
        raise InputError(
            f"{directory} was begun from Python, with an environment or an expert that no name leads to; go on there "
            f"with ActiveIRL(...).fit(environment, expert, out={str(directory)!r}) and the settings that change"
        )
    given = {
        "max_samples": max_samples,
        "max_answers": max_answers,
        "epsilon": epsilon,
        "until_regret": until_regret,
        "reward": reward,
        "irl": irl,
        "strategy": strategy,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if certify is not None:
        changes["certify"] = None if certify.lower() == "none" else certify
    with open_source(opened.source) as task:
        task, shown = open_recordings(task, opened.source)
        if shown is not None and opened.state() is None:
            opened.begin_with(recorded_turn(task, shown, opened.settings), task)
        opened.change(changes)
        _carry_on(opened, task, as_json=as_json)


@command
def show(
    directory: Annotated[Path, typer.Argument(help="Folder of a run or of an interview.")],
) -> None:
    """Say what a run found, and draw it: learning curve, visits, recovered reward and policy."""
    from aceirl.show import draw, opened
    from aceirl.show.words import sentences

    run = run_in(directory)
    with opened(run) as found:
        print("\n".join(sentences(found)))
        pictures = draw(run, found)
    for picture in pictures:
        print(f"  {picture}")
    if not any(picture.stem == "policy" for picture in pictures):
        print("No maps: the environment does not say where its states lie (docs/gymnasium.md, Pictures).")


@command
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run, the report and the pictures.")] = Path("aceirl-demo"),
) -> None:
    """The main job in one go: recover a reward on Four Paths, an environment the software does not know."""
    from aceirl.files import LOCK
    from aceirl.runs import CONFIGURATION, ENVIRONMENT, RECORDS, STATE, Run
    from aceirl.settings import Settings
    from aceirl.show import draw, in_words
    from aceirl.sources import Source, open_source

    settings, source = Settings(), Source("four-paths", {}, seed=0)
    written = {CONFIGURATION, RECORDS, STATE, ENVIRONMENT, "report.html", "pictures", LOCK}
    if (out / "run.json").exists() and {path.name for path in out.iterdir()} <= written:
        earlier = Run.open(out)
        if (earlier.source, earlier.settings) == (source, settings):
            shutil.rmtree(out)  # an earlier demo, and nothing else
    begun = Run.create(out, settings, source)
    with open_source(source) as task:
        _carry_on(begun, task, as_json=False, summary=False)
    wanted, *rest = in_words(begun).splitlines()
    print(f"{wanted}\n")
    print(
        "Four corridors leave a room; one has something the expert wants. The software knew neither which one, nor how"
    )
    print("its steps work. It walked, asked the expert what it would do, and inferred the reward behind the answers.\n")
    print("\n".join(rest))
    for picture in draw(begun):
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


def _carry_on(begun: Run, task: Task, *, as_json: bool, summary: bool = True) -> None:
    """Run to the end with a progress bar, and say what came out."""
    from aceirl.errors import InputError
    from aceirl.learner import progress_bar
    from aceirl.show import in_words, outcome
    from aceirl.sources import state_names

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
        state = begun.state()
        print(json.dumps(outcome(begun, () if state is None else state_names(task, state.names))))
    elif summary:
        print(in_words(begun, task))
        print(f"Pictures: aceirl show {begun.path}")


def run_in(directory: Path) -> Run:
    """The run in a folder; an interview is one when it is finished."""
    from aceirl.cli.interview import command_of
    from aceirl.errors import InputError
    from aceirl.runs import CONFIGURATION, Run

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
