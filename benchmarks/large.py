"""Warehouses of a thousand to 300,000 states, default settings: seconds and memory of every part of a run.

    python benchmarks/large.py [--states N ...] [--samples N] [--first SEED]
    python benchmarks/large.py --sentences [--seeds N] [--keep FILE]
    python benchmarks/large.py --sweep [--runs N]

The learner has 100,000 steps in each warehouse and does not know how many states there are; "met" are those it met.
Explore is all of `fit` but inferring rewards; say is the wish and the sentences of `show`; transfer plans in the same
warehouse from another start, and finds its model by trying every action everywhere; "lost" is what that plan loses of
what there is to earn. Seconds are those of the processor, in one process; each warehouse has a process of its own,
whose largest memory is that of all parts up to then. "Said" is "dock" if the sentence is bold and names the dock with a
box and nothing else, "in part" if it leaves out a condition, "one of a set" if one of several is the dock, "false" if
it names anything else, and else "open". The last row is the exponent with which seconds grow with the states, from
10,000 states on.

With `--sentences`: what is said in other warehouses, of drivers whose choice between equally short ways is drawn for
each cell, and of those who always take the first of right, up, left and down.

With `--sweep`: runs of an environment of one's own on a local Dask cluster of four workers, one of which is killed
twice, beside the same runs one after the other.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import _frame as frame

import aceirl
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, sweep
from aceirl.irl import SparseLikelihood
from aceirl.rewards import Recovered
from aceirl.rewards.hypotheses import Wish
from studies.kept import Kept
from studies.large import HORIZON, SIZES, Floor, Warehouse, cells, driver, killed_sweep

ANEW = 10_000
"""The exponent is of warehouses with more states."""

PARTS = ("explore", "infer", "certify", "say", "transfer", "show")

KINDS = ("dock", "in part", "one of a set", "open", "false")

SENTENCED = (1_056,)
"""The sizes of warehouses of which many sentences are looked at."""

WAYS = ("one drawn for each cell", "the first")

T = TypeVar("T")


@dataclass(frozen=True)
class TimedInference(SparseLikelihood):
    """The default algorithm, which writes down how long each inference took."""

    seconds: list[float] = field(default_factory=list)

    def __call__(self, *arguments: Any) -> Recovered:
        """The reward."""
        began = time.process_time()
        found = super().__call__(*arguments)
        self.seconds.append(time.process_time() - began)
        return found


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A process for each warehouse, or the sweep."""
    if options.one is not None:
        print(json.dumps(one_world(options.one, options.samples, options.first)))
        return
    if options.sentences:
        many_sentences(options, report)
        return
    if options.sweep:
        killed(options.runs, report)
        return
    table = report.table(
        "large",
        frame.number("states"),
        frame.number("met"),
        *(frame.number(f"{part}, s", "{:.2f}") for part in PARTS),
        frame.number("all, s", "{:.1f}"),
        frame.number("memory, GB", "{:.2f}"),
        frame.number("lost", "{:.1%}"),
        frame.Column("said"),
        page="large.md",
    )
    found = []
    for states in options.states:
        chosen = {"one": states, "samples": options.samples, "first": options.first}
        command = [
            sys.executable,
            __file__,
            *(text for name, value in chosen.items() for text in (f"--{name}", f"{value}")),
        ]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        found.append((states, row))
        table.add(
            states, row["met"], *(row[part] for part in PARTS), total(row), row["memory"], row["lost"], row["said"]
        )
    grown = [one for one in found if one[0] > ANEW]
    if len(grown) > 1:
        (small, first), (large, last) = grown[0], grown[-1]
        power = math.log(total(last) / total(first)) / math.log(large / small)
        powers = [math.log(last[part] / first[part]) / math.log(large / small) for part in PARTS]
        table.add(None, None, *powers, power, None, None, None)


def total(row: dict[str, Any]) -> float:
    """The seconds of all parts."""
    return float(sum(row[part] for part in PARTS))


def one_world(states: int, samples: int, seed: int) -> dict[str, Any]:
    """The parts of one run, and the largest memory."""
    width, charges = SIZES[states]
    everything(Warehouse(4, 40), 1_500, HORIZON, {})  # it may have to compile
    seconds: dict[str, float] = {}
    env = Warehouse(width, charges, seed)
    result, lost = everything(env, samples, HORIZON, seconds)
    print(*result.sentences, sep="\n", file=sys.stderr)
    return {
        **seconds,
        "met": result.turn.counts.shape[1] - 1,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "lost": lost,
        "said": said(result.turn.wish, env.floor),
    }


def said(wish: Wish, floor: Floor) -> str:
    """How a wish is about the dock."""
    dock = {f"column = {floor.dock[0]}", f"row = {floor.dock[1]}", "carrying = 1"}
    # "The sooner the better" is true of whoever is paid at every step; all else must be of the dock.
    words = [one.words or one.claim.what for one in wish.named if one.claim.what != "hurry"]
    conditions = [set(one.partition(" (perhaps ")[0].split(" and ")) for one in words]
    if wish.kind == "open" or not conditions:
        return "open"
    if wish.kind == "set":
        return "one of a set" if dock in conditions else "false"
    return "dock" if conditions == [dock] else "in part" if all(one < dock for one in conditions) else "false"


def everything(env: Warehouse, samples: int, horizon: int, seconds: dict[str, float]) -> tuple[Any, float]:
    """A run with all that follows it, and what a transfer loses; the seconds of each part are written down."""

    def timed(part: str, work: Callable[[], T]) -> T:
        began = time.process_time()
        found = work()
        seconds[part] = time.process_time() - began
        return found

    def moved() -> float:
        target = Warehouse(env.floor.width, env.charges, env.floor.seed)
        found = result.transfer(target, start=(*env.floor.dock, 0, 0))
        found.in_words()
        assert found.regret is not None
        return float(found.regret)

    inferring, expert = TimedInference(), driver(env.floor)
    learner = aceirl.ActiveIRL(max_samples=samples, irl=inferring)
    result = timed("explore", lambda: learner.fit(env, expert, horizon=horizon))
    seconds["infer"] = sum(inferring.seconds)
    seconds["explore"] -= seconds["infer"]
    timed("certify", lambda: result.certificate)
    timed("say", lambda: result.sentences)
    lost = timed("transfer", moved)
    timed("show", result.plot)
    return result, lost


def many_sentences(options: argparse.Namespace, report: frame.Report) -> None:
    """How often which kind of sentence is said."""
    table = report.table(
        "large-sentences",
        frame.number("states"),
        frame.Column("takes of equally short ways"),
        frame.number("runs"),
        *map(frame.number, KINDS),
        page="large.md",
    )
    kept = Kept(options.keep)
    for seed in range(options.first + 1, options.first + 1 + options.seeds):
        for states, (by_order, way) in product(SENTENCED, enumerate(WAYS)):
            name = f"{states} {way}"
            if (name, seed) not in kept.runs:
                env = Warehouse(*SIZES[states], seed)
                learner, expert = (
                    aceirl.ActiveIRL(max_samples=options.samples),
                    driver(env.floor, by_order=by_order > 0),
                )
                result = learner.fit(env, expert, horizon=HORIZON)
                kept.add({"family": name, "seed": seed, "said": said(result.turn.wish, env.floor)})
                print(kept.runs[name, seed], *result.sentences[:1], file=sys.stderr, flush=True)
    for states, way in product(SENTENCED, WAYS):
        found = [run["said"] for (family, _), run in kept.runs.items() if family == f"{states} {way}"]
        table.add(states, way, len(found), *map(found.count, KINDS))


def killed(runs: int, report: frame.Report) -> None:
    """The sweep with a worker killed twice, beside the undisturbed one."""
    table = report.table(
        "large-sweep",
        frame.Column("sweep"),
        frame.number("runs"),
        frame.number("finished"),
        frame.number("failed"),
        frame.number("files"),
        frame.Column("the same bytes"),
        frame.number("time", frame.seconds),
        page="large.md",
    )
    some = cells(runs)
    with tempfile.TemporaryDirectory() as folder:
        serial, cluster = Path(folder) / "serial", Path(folder) / "cluster"
        began = time.perf_counter()
        *_, last = sweep(some, Store(serial), Here())
        table.add("one after the other", runs, last.finished, last.failed, len(files(serial)), None, since(began))
        began = time.perf_counter()
        finished, failed = killed_sweep(some, Store(cluster), 4)
        same = "all" if files(cluster) == files(serial) else "no"
        name = "four workers, one killed twice"
        table.add(name, runs, finished, failed, len(files(cluster)), same, since(began))


def since(began: float) -> float:
    return time.perf_counter() - began


def files(folder: Path) -> dict[str, bytes]:
    """The results by their names."""
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--states", part=True, type=int, nargs="+", default=list(SIZES), choices=list(SIZES)),
        frame.argument("--samples", part=True, type=int, default=100_000),
        frame.argument("--sentences", action="store_true", help="what is said in other warehouses instead"),
        frame.argument("--seeds", part=True, type=int, default=5),
        frame.argument("--keep", type=Path, help="a file in which finished runs are kept"),
        frame.argument("--sweep", action="store_true", help="the sweep on killed workers instead"),
        frame.argument("--runs", part=True, type=int, default=200),
        frame.argument("--first", part=True, type=int, default=100, help="the seed of the warehouses"),
        frame.argument("--one", part=True, type=int, help=argparse.SUPPRESS),
    )
