"""The command line's frame: one app, and one way to end when the input was wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar, cast

import typer

# Which extra brings a library that only some commands need.
EXTRAS = {
    "gymnasium": "gym",
    "jinja2": "plots",
    "matplotlib": "plots",
    "joblib": "report",
    "pyarrow": "report",
    "dask": "cluster",
    "distributed": "cluster",
    "starlette": "web",
    "uvicorn": "web",
    "minari": "minari",
}

F = TypeVar("F", bound=Callable[..., Any])

app = typer.Typer(
    name="aceirl",
    help="Learn why an expert acts as it does, asking and exploring as little as possible.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its tables cut the names of options where a terminal has 80 columns
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print("aceirl", version("aceirl"))
        raise typer.Exit


@app.callback()
def _everywhere(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What holds for all commands."""


def command(function: F) -> F:
    """Register a command. Wrong input ends it with one line and exit code 2; an interrupt with exit code 130."""
    return app.command()(guarded(function))


def guarded(function: F) -> F:
    """The function of a command, with one way to end when the input was wrong."""

    @wraps(function)
    def ending_well(*arguments: Any, **options: Any) -> Any:
        from aceirl.errors import InputError

        try:
            return function(*arguments, **options)
        except InputError as error:
            print(f"aceirl: {error}", file=sys.stderr)
            raise typer.Exit(2) from None
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            print(f"aceirl: this needs {error.name}: pip install 'aceirl[{extra}]'", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            print("aceirl: interrupted; what was finished is kept", file=sys.stderr)
            raise typer.Exit(130) from None

    return cast(F, ending_well)
