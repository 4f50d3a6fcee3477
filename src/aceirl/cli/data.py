"""`aceirl data`: the data sets of others, with their licences and their published figures."""

from __future__ import annotations

import json
import shutil
import textwrap
from pathlib import Path
from typing import Annotated, Literal

import typer

from aceirl.cli.app import command
from aceirl.cli.options import Json


@command
def data(
    do: Annotated[
        Literal["list", "show", "fetch", "reproduce"],
        typer.Argument(help="list all, show one, fetch its files into a folder, or reproduce its published figures."),
    ],
    name: Annotated[str | None, typer.Argument(help="Name of the data set.")] = None,
    out: Annotated[Path, typer.Option(help="With fetch: the folder.")] = Path(),
    plot: Annotated[
        Path | None, typer.Option(help="With reproduce rust-bus: draw the demand for engines there.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Published data sets: list them, show what they contain, fetch their files, reproduce published figures."""
    from aceirl.data.catalogue import SETS, data_set
    from aceirl.errors import InputError

    if do == "list":
        if as_json:
            print(json.dumps({one.name: {"title": one.title, "licence": one.licence} for one in SETS.values()}))
            return
        for one in SETS.values():
            print(f"{one.name:12} {one.title}" + ("" if one.here else f" (pip install {one.package})"))
        return
    if name is None:
        raise InputError(f"`aceirl data {do}` needs the name of a data set: {', '.join(SETS)}")
    chosen = data_set(name)
    if do == "show":
        told = {"contents": chosen.contents, "source": chosen.source, "licence": chosen.licence}
        told |= {"does not tell": chosen.not_told}
        if as_json:
            print(json.dumps({"name": chosen.name, "title": chosen.title, **told, "here": chosen.here}))
            return
        print(f"{chosen.name}: {chosen.title}")
        for head, words in told.items():
            print(textwrap.fill(f"{head}: {words}", 110, subsequent_indent="  "))
        if not chosen.here:
            print(f"It comes with a package of its own: pip install {chosen.package}")
        print(f"Reproduce its figures: aceirl data reproduce {chosen.name}")
    elif do == "fetch":
        out.mkdir(parents=True, exist_ok=True)
        written = []
        for file in chosen.files:
            target = out / f"{chosen.name}-{Path(file).name}"
            shutil.copyfile(chosen.path(file), target)
            written.append(str(target))
        print(json.dumps({"files": written}) if as_json else "\n".join(written))
    else:
        from aceirl.bench.reproductions import REPRODUCTIONS, engine_demand

        if plot is not None:
            from aceirl.explain.plots import save

            if chosen.name != "rust-bus":
                raise InputError("--plot is for rust-bus")
            save(engine_demand(), plot.with_suffix(""), [plot.suffix.lstrip(".") or "png"])
        lines, figures = REPRODUCTIONS[chosen.name]()
        print("\n".join(lines))
        if as_json:
            print(json.dumps(figures))
