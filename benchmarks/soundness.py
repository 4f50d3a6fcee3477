"""How often a certificate's promise is broken: the study of `studies/soundness.py`, as tables.

    python benchmarks/soundness.py [--runs N] [--workers N] [--keep FOLDER] [--only cases | restarts | unmet]
                                   [--cases WORD ...]

Of the `cases`, the first table has every promise as it is done, the others the worst of them: by promise over all
cases, and by case over all ways to come by a promise. `restarts` are all ways to make evidence start anew
(`studies/restarts.py`); in `unmet` nobody knows how many states there are. The exit status is 1 if a promise is broken
too often. All cases take more than an hour of processor time, the restarts half an hour, and the unmet ten minutes:
with `--keep`, a study that was stopped goes on after its last finished case.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple
from functools import partial
from pathlib import Path

import _frame as frame

from aceirl.runs.files import replace
from studies.adversaries import UNMET
from studies.observed import HIDDEN, hidden_run
from studies.restarts import RESTARTS, WORDS
from studies.soundness import DELTAS, RUNS, Outcome, Promise, Tally, tallies, unmet_run

ALL_RUNS: dict[str, Callable[[int], Outcome]] = {**RUNS, **{name: partial(hidden_run, name) for name in HIDDEN}}


def measure(options: argparse.Namespace, report: frame.Report) -> int:
    """Whether all promises are kept as often as they say."""
    parts = {"cases": cases, "restarts": restarts, "unmet": unmet}
    found = [tally for name, part in parts.items() if options.only in (None, name) for tally in part(options, report)]
    return 0 if all(tally.passes for tally in found) else 1


def restarts(options: argparse.Namespace, report: frame.Report) -> list[Tally]:
    """Every way to make the evidence start anew, after each surprise."""
    table = report.table(
        "soundness-restarts",
        frame.Column("after each surprise"),
        frame.Column("δ"),
        frame.number("runs"),
        frame.number("promised"),
        frame.number("broken"),
        frame.number("share", percent),
        frame.number("p-value", "{:.2g}"),
        frame.Column("", verdict),
        page="certificates.md",
    )
    found = []
    for name, run in RESTARTS.items():
        for tally in tallies_of(name, run, options):
            found.append(tally)
            counted = tally.runs, tally.made, tally.broken, tally.share, tally.p_value, tally.passes
            table.add(WORDS[name], tally.promise.delta, *counted)
    return found


def unmet(options: argparse.Namespace, report: frame.Report) -> list[Tally]:
    """Promises about the policy where states may be left that were never met."""
    table = report.table(
        "soundness-unmet",
        frame.Column("case"),
        frame.Column("promise"),
        frame.Column("by"),
        frame.Column("δ"),
        frame.number("runs"),
        frame.number("promised"),
        frame.number("broken"),
        frame.number("share", percent),
        frame.Column("", verdict),
        page="certificates.md",
    )
    found = []
    words = options.cases or [""]
    for name in (name for name in UNMET if any(word in name for word in words)):
        for tally in tallies_of(f"unmet, {name}", partial(unmet_run, name), options):
            found.append(tally)
            kind, where, delta = tally.promise
            table.add(name, kind, where, delta, tally.runs, tally.made, tally.broken, tally.share, tally.passes)
    return found


def cases(options: argparse.Namespace, report: frame.Report) -> list[Tally]:
    """All promises of all cases."""
    table = report.table(
        "soundness-all",
        frame.Column("case"),
        frame.Column("promise"),
        frame.Column("by"),
        frame.Column("δ"),
        frame.number("runs"),
        frame.number("promised"),
        frame.number("broken"),
        frame.number("share", percent),
        frame.number("p-value", "{:.2g}"),
        frame.Column("", verdict),
    )
    words = options.cases or [""]
    chosen = [name for name in ALL_RUNS if any(word in name for word in words)]
    found = []
    for tally in (tally for name in chosen for tally in tallies_of(name, ALL_RUNS[name], options)):
        found.append(tally)
        kind, where, delta = tally.promise
        counted = tally.runs, tally.made, tally.broken, tally.share, tally.p_value, tally.passes
        table.add(tally.case, kind, where, delta, *counted)
    by_promise(found, report)
    by_case(found, report)
    return found


def tallies_of(name: str, run: Callable[[int], Outcome], options: argparse.Namespace) -> Iterator[Tally]:
    """The promises of a case: those that were kept, or counted now and kept."""
    kept: Path | None = options.keep and options.keep / f"{name}, {options.runs} runs.json"
    if kept and kept.exists():
        for case, promise, *counts in json.loads(kept.read_text(encoding="utf-8")):
            yield Tally(case, Promise(*promise), *counts)
        return
    found = list(tallies({name: run}, options.runs, options.workers))
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace(kept, json.dumps([astuple(tally) for tally in found]).encode())
    yield from found


def by_promise(found: list[Tally], report: frame.Report) -> None:
    """The worst case of each promise."""
    table = report.table(
        "soundness",
        frame.Column("promise"),
        frame.Column("by"),
        frame.Column("δ"),
        frame.number("runs"),
        frame.number("promised"),
        frame.number("broken", lambda share: f"{share[0]:,} ({percent(share[0] / share[1])})"),
        frame.Column("most often", lambda worst: f"{worst[0]}: {percent(worst[1])}"),
        frame.number("p-value there", "{:.2g}"),
        frame.Column("", verdict),
        page="certificates.md",
    )
    kinds = kinds_of(found)
    for promise in sorted({tally.promise: None for tally in found}, key=lambda one: kinds.index(one.kind)):
        of_it = [tally for tally in found if tally.promise == promise]
        runs, worst = sum(tally.runs for tally in of_it), most_broken(of_it)
        broken, made = sum(tally.broken for tally in of_it), sum(tally.made for tally in of_it)
        often = (worst.case, worst.share) if worst.broken else None
        table.add(*promise, runs, made, (broken, runs), often, worst.p_value, all(tally.passes for tally in of_it))


def by_case(found: list[Tally], report: frame.Report) -> None:
    """The worst way of each kind of promise in each case: the share broken at either level."""
    kinds = kinds_of(found)
    table = report.table(
        "soundness-cases",
        frame.Column("case"),
        *(frame.number(kind, lambda shares: f"{100 * shares[0]:.2g} / {percent(shares[1])}") for kind in kinds),
        page="certificates.md",
    )
    for case in dict.fromkeys(tally.case for tally in found):
        cells: list[tuple[float, ...] | None] = []
        for kind in kinds:
            of_it = [tally for tally in found if (tally.case, tally.promise.kind) == (case, kind)]
            by_level = ([tally for tally in of_it if tally.promise.delta == delta] for delta in DELTAS)
            cells.append(tuple(most_broken(at).share for at in by_level) if of_it else None)
        table.add(case, *cells)


def kinds_of(found: list[Tally]) -> list[str]:
    """The kinds of promises, in the order in which they were first found."""
    return list(dict.fromkeys(tally.promise.kind for tally in found))


def most_broken(found: Iterable[Tally]) -> Tally:
    """The one that was broken in the largest share of its runs."""
    return max(found, key=lambda tally: tally.share)


def percent(share: float) -> str:
    """A share as it reads well."""
    return f"{100 * share:.2g} %"


def verdict(passes: bool) -> str:
    """Whether a promise is kept as often as it says."""
    return "passes" if passes else "FAILS"


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--runs", type=int, default=2000, help="of each case"),
        frame.argument("--workers", type=int, default=2, help="processes"),
        frame.argument("--keep", type=Path, metavar="FOLDER", help="keep the counts of finished cases here"),
        frame.argument("--only", choices=("cases", "restarts", "unmet"), help="only these"),
        frame.argument("--cases", part=True, nargs="+", metavar="WORD", help="only cases with one of the words"),
    )
