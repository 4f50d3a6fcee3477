"""`aceirl estimate`: from a table of decisions to parameters, intervals, words and counterfactuals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from aceirl.cli.app import command
from aceirl.cli.options import Json

if TYPE_CHECKING:
    from aceirl.runs.estimating import EstimatedReward


@command
def estimate(
    data: Annotated[Path, typer.Argument(help="The table: a .csv, .tsv or .parquet file, one decision a row.")],
    state: Annotated[list[str], typer.Option(help="Column of the state; may be repeated.")],
    action: Annotated[str, typer.Option(help="Column of the action.")],
    features: Annotated[
        list[str],
        typer.Option(help="What the reward may depend on, as NAME=EXPRESSION over columns; may be repeated."),
    ],
    discount: Annotated[float, typer.Option(help="The discount factor, from 0 to 1; it is not estimated.")],
    individual: Annotated[str | None, typer.Option(help="Column that says who decided.")] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of the time; a new trajectory begins after a gap in it.")
    ] = None,
    next_state: Annotated[list[str] | None, typer.Option(help="Column of the state that followed.")] = None,
    terminated: Annotated[str | None, typer.Option(help="Column that is 1 where the process ended.")] = None,
    truncated: Annotated[str | None, typer.Option(help="Column that is 1 where only the recording ended.")] = None,
    done: Annotated[str | None, typer.Option(help="Column that is 1 in either case; needs --horizon.")] = None,
    horizon: Annotated[int | None, typer.Option(help="With --done: the time limit in steps.")] = None,
    states: Annotated[
        int | None, typer.Option(help="The number of states; by default, states go up to the largest in the table.")
    ] = None,
    dynamics: Annotated[
        str,
        typer.Option(
            help="Transition probabilities: counted, for each state and action by itself; increments, the same moves "
            "from every state; or a .npy file [S, A, S]."
        ),
    ] = "counted",
    renews: Annotated[str | None, typer.Option(help="With increments: the action that starts again from 0.")] = None,
    increments: Annotated[str | None, typer.Option(help="With increments: the column that has them.")] = None,
    skip: Annotated[int, typer.Option(help="How many first decisions of each individual to leave out.")] = 0,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.9,
    errors: Annotated[
        Literal["observed", "expected", "outer", "clustered"],
        typer.Option(help="Standard errors from the Hessian, its mean, the scores, or clustered by individual."),
    ] = "observed",
    change: Annotated[
        list[str] | None,
        typer.Option(
            help="A counterfactual: NAME*FACTOR or NAME=VALUE of a parameter, or discount=VALUE; may be repeated, and "
            "all changes happen together."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="File for a picture of the choices in each state.")] = None,
    as_json: Json = False,
) -> None:
    """Estimate the reward behind a table of decisions, with intervals; it needs no simulator and no expert."""
    import numpy as np

    from aceirl.errors import InputError
    from aceirl.runs.estimating import estimate as estimated

    given: Any = dynamics
    if dynamics.endswith(".npy"):
        if not Path(dynamics).is_file():
            raise InputError(f"there is no file {dynamics}")
        given = np.load(dynamics, allow_pickle=False)
    result = estimated(
        data, state=state[0] if len(state) == 1 else state, action=action, features=features, discount=discount,
        individual=individual, time=time, next_state=next_state or None, terminated=terminated, truncated=truncated,
        done=done, horizon=horizon, n_states=states, dynamics=given, renews=_value(renews), increments=increments,
        skip=skip, level=level, errors=errors,
    )  # fmt: skip
    changed = _counterfactual(result, change) if change else None
    if plot is not None:
        result.plot(plot)
    if as_json:
        print(json.dumps(result.to_json() | ({} if changed is None else {"counterfactual": changed})))
        return
    print(result.in_words())
    if changed is not None:
        where = "in the recorded states" if result.panel.ends else "in the long run"
        print(f"With {', '.join(change or ())}, shares of decisions {where}, with {100 * level:g} % intervals:")
        for action_, entry in changed.items():
            low, high = entry["interval"]
            print(f"  {action} = {action_}: {entry['share']:.4g} ({low:.4g} to {high:.4g}); was {entry['was']:.4g}")
    if plot is not None:
        print(f"Picture: {plot}")


def _value(text: str | None) -> Any:
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


def _counterfactual(result: EstimatedReward, changes: list[str]) -> dict[str, Any]:
    """The share of each action, with intervals, before and after: in the long run, or in the recorded states."""
    from aceirl.errors import InputError

    put: dict[str, float] = {}
    scaled: dict[str, float] = {}
    discount: float | None = None
    for one in changes:
        name, sign, number = one.partition("=" if "=" in one else "*")
        try:
            value = float(number)
        except ValueError:
            raise InputError(f"a change is NAME*FACTOR, NAME=VALUE or discount=VALUE, got {one!r}") from None
        if name == "discount" and sign == "=":
            discount = value
        else:
            (put if sign == "=" else scaled)[name] = value
    before, after = result.counterfactual(), result.counterfactual(parameters=put, scaled=scaled, discount=discount)
    level, errors = result.level, result.errors
    if result.panel.ends:
        visited = result.estimate.counts.sum(axis=1)
        (was, _), (share, ends) = before.shares(visited), after.shares(visited, level, errors)
    else:
        was, share, ends = before.demand, after.demand, after.demand_intervals(level, errors)
    return {
        str(name): {"share": float(share[a]), "interval": ends[a].tolist(), "was": float(was[a])}
        for a, name in enumerate(result.panel.actions)
    }
