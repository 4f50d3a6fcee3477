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
        typer.Option(
            help="Episodes between two plans (N_E); by default the paper's for this environment, or --num-envs."
        ),
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
    confidence: Annotated[str, typer.Option(help="The family of confidence radii.")] = "kl",
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
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Explore an environment, ask its expert, and recover a reward."""
    from aceirl.envs import ENVIRONMENTS
    from aceirl.errors import InputError
    from aceirl.runs import Run
    from aceirl.settings import Settings
    from aceirl.sources import Source, open_source

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
    )
    if episodes_per_iteration is None:
        episodes_per_iteration = ENVIRONMENTS[env].episodes_per_iteration if env in ENVIRONMENTS else num_envs
    with open_source(source) as task:
        settings = Settings(
            strategy=strategy,
            reward=reward,
            irl=irl,
            confidence=confidence,
            episodes_per_iteration=episodes_per_iteration,
            certify=None if certify.lower() == "none" else certify,
            epsilon=epsilon,
            delta=delta,
            max_samples=max_samples,
            max_answers=max_answers,
            until_regret=until_regret,
            rmax=task.rmax if rmax is None else rmax,
            max_return=task.max_return if max_return is None and rmax is None else max_return,
            ask_again=ask_again,
            least_probability=least_probability,
            stationary_dynamics=task.stationary_dynamics and not per_step,
            seed=seed,
        )
        folder = out or _free_folder(f"{env}-{strategy}-{seed}".replace(":", "-").replace("/", "-"))
        begun = Run.create(folder, settings, source)
        try:
            _carry_on(begun, task, as_json=as_json)
        except InputError:
            if begun.state() is None:  # nothing was learnt: the corrected command may use the folder
                shutil.rmtree(begun.path)
            raise


@command
def resume(
    directory: Annotated[Path, typer.Argument(help="Folder of a run that was interrupted.")], as_json: Json = False
) -> None:
    """Go on with a run that was interrupted; it ends as if it had not been."""
    from aceirl.errors import InputError
    from aceirl.sources import open_source

    opened = run_in(directory)
    if opened.source is None:
        raise InputError(
            f"{directory} was begun from Python; go on with ActiveIRL(...).fit(environment, expert, out={directory})"
        )
    with open_source(opened.source) as task:
        _carry_on(opened, task, as_json=as_json)


@command
def show(
    directory: Annotated[Path, typer.Argument(help="Folder of a run or of an interview.")],
) -> None:
    """Say what a run found, and draw it: learning curve, visits, recovered reward and policy."""
    from aceirl.show import draw, in_words

    opened = run_in(directory)
    print(in_words(opened))
    pictures = draw(opened)
    for picture in pictures:
        print(f"  {picture}")
    if opened.source is not None and not any(picture.stem == "policy" for picture in pictures):
        print("No maps: the environment does not say where its states lie (docs/gymnasium.md, Pictures).")


@command
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run, the report and the pictures.")] = Path("aceirl-demo"),
) -> None:
    """The main job in one go: recover a reward on Four Paths, an environment the software does not know."""
    from aceirl.files import LOCK
    from aceirl.runs import Run
    from aceirl.settings import Settings
    from aceirl.show import draw, in_words
    from aceirl.sources import Source, open_source

    settings, source = Settings(episodes_per_iteration=1), Source("four-paths", {}, seed=0)
    written = {"run.json", "records.jsonl", "state.npz", "report.html", "pictures", LOCK}
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
        with progress_bar(begun.settings, task.environment.horizon, show=sys.stderr.isatty()) as advance:
            for turn in begun.resume(task.environment, task.expert, regret=task.regret):
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


def read_parameters(assignments: list[str]) -> dict[str, Any]:
    """`name=value` pairs, with numbers read as numbers."""
    from aceirl.errors import InputError

    parameters: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set takes name=value, got {assignment!r}")
        try:
            parameters[name] = json.loads(text)
        except json.JSONDecodeError:
            parameters[name] = text
    return parameters


def _free_folder(name: str) -> Path:
    """The first folder of that name under runs/ that does not exist yet."""
    path, number = Path("runs") / name, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{name}-{number}"
    return path
