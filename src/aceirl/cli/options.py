"""Options that several commands have: those that name an environment, and those made from the fields of `Settings`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.core import TyperCommand

from aceirl.cli.app import app, guarded

F = TypeVar("F", bound=Callable[..., Any])

Folder = Annotated[Path, typer.Argument(help="Folder of a run or of an interview.")]
Parameters = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter of the environment, as name=value; may be repeated.")
]
Horizon = Annotated[
    int | None, typer.Option(help="Gymnasium only: steps of an episode; by default the environment's limit.")
]
Discretise = Annotated[
    str | None,
    typer.Option(
        help="Gymnasium only: cuts continuous observations; bins or low:high:bins for each dimension, with commas "
        "between, or package.module:function."
    ),
]
Wrap = Annotated[
    list[str] | None, typer.Option(help="Gymnasium only: a wrapper, as package.module:class; may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object on the last line.")]


def source_of(
    environment: Annotated[
        str,
        typer.Argument(
            metavar="ENV",
            help="A built-in environment (`aceirl envs` lists them), a Gymnasium id, or package.module:function.",
        ),
    ],
    parameters: Parameters = None,
    expert: Annotated[
        str | None,
        typer.Option(
            help="The folder of an interview; or, Gymnasium only: optimal, terminal, package.module:function of an "
            "observation, demonstrations (.jsonl, .npz), or a Stable-Baselines3 model as ppo:model.zip."
        ),
    ] = None,
    stationary_expert: Annotated[
        bool, typer.Option(help="Assume that the expert's answers do not depend on the step: one holds at every step.")
    ] = False,
    stochastic_expert: Annotated[
        bool, typer.Option(help="Gymnasium only: the function or model is stochastic, and is asked at every visit.")
    ] = False,
    horizon: Horizon = None,
    discretise: Discretise = None,
    wrap: Wrap = None,
    **more: Any,
) -> Any:
    """What names an environment and its expert: a `Source`, with its options."""
    from aceirl.experts.tasks import Source, read_parameters

    return Source(
        environment,
        read_parameters(parameters or []),
        expert=expert,
        stationary_expert=stationary_expert,
        stochastic_expert=stochastic_expert,
        horizon=horizon,
        discretise=discretise,
        wrap=tuple(wrap or ()),
        **more,
    )


OFF = {
    "stationary_dynamics": ("--per-step/--no-per-step", "Do not assume that the dynamics are the same at every step.")
}
"""Settings that are true unless a flag says otherwise: the flag, and what it says."""


def command_with(names: Callable[[], Iterable[str]], *, defaults: bool = True) -> Callable[[F], F]:
    """Register a command that also takes `names` of the settings, and gets those that were given as `**settings`.

    If its first argument is a `source`, it takes what `source_of` does instead.

    Their options are made when the command is called, because the settings take long to load. Without `defaults` these
    are not shown: what is not given stays as it is.
    """

    def register(function: F) -> F:
        class Late(TyperCommand):
            def complete(self) -> Any:
                """The command with all its options."""
                single = typer.Typer(pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
                single.command(self.name)(guarded(_with_settings(function, names(), defaults=defaults)))
                return typer.main.get_command(single)

            def make_context(self, *arguments: Any, **options: Any) -> Any:
                """Parse the arguments as the complete command does, which is then the one that is invoked."""
                return self.complete().make_context(*arguments, **options)

        app.command(function.__name__, cls=Late, help=inspect.getdoc(function))(lambda: None)
        return function

    return register


def _with_settings(function: Callable[..., Any], names: Iterable[str], *, defaults: bool) -> Callable[..., Any]:
    """The function with an option for each of these settings in the place of `**settings`."""
    from aceirl.learner.settings import Settings

    usual, options = Settings().model_dump(), []
    for name in names:
        field = Settings.model_fields[name]
        words, shown = str(field.description), usual[name] if defaults else None
        declared, words = OFF.get(name, (f"--{name.replace('_', '-')}", f"{words[0].upper()}{words[1:]}."))
        hidden = shown is None or name in OFF
        option = typer.Option(declared, help=words, show_default=False if hidden else str(shown))
        annotation = Annotated[_kind(field.annotation) | None, option]  # type: ignore[valid-type]
        options.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))

    @wraps(function)
    def chosen(**values: Any) -> Any:
        given = {one.name: values.pop(one.name) for one in options}
        said = {name: not value if name in OFF else value for name, value in given.items() if value is not None}
        if named:
            words = {one.name: values.pop(one.name) for one in named}
            values["source"] = source_of(**words, seed=said.get("seed", 0), discount=said.get("discount", 1.0))
        return function(**values, **said)

    own = _parameters(function)
    named = _parameters(source_of) if own[0].name == "source" else []
    own = [*named, *own[1:]] if named else own
    chosen.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    chosen.__annotations__ = {one.name: one.annotation for one in (*own, *options)}
    return chosen


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those of a function that have a name."""
    known = inspect.signature(function, eval_str=True).parameters.values()
    return [one for one in known if one.kind is not inspect.Parameter.VAR_KEYWORD]


def _kind(annotation: Any) -> type:
    """What is typed in for a field: a number, a flag, or else a text."""
    known = [kind for part in (annotation, *get_args(annotation)) for kind in (part, *get_args(part))]
    return next((kind for kind in (bool, int, float) if kind in known), str)
