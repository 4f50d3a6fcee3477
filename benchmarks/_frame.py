"""The frame of every benchmark: one command line, tables as Markdown and as JSON, and the tables that docs show.

    python benchmarks/NAME.py [its own options] [--out FILE.json] [--docs]

A benchmark opens tables and adds rows to them; each row is printed as soon as it is there. With `--docs` the finished
tables replace what stands between `<!-- table: NAME -->` and `<!-- end -->` in their page. Some benchmarks can compare
two versions of the package: see `compared`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).parent
ROOT = HERE.parent
DOCS = ROOT / "docs"

# `studies` lies beside this folder. The folder itself goes to the end of the path: its files have names of libraries.
sys.path[:] = [str(ROOT), *(path for path in sys.path if Path(path or ".").resolve() != HERE.resolve()), str(HERE)]

# Everybody on one core. Libraries read this when they are first imported, so benchmarks import this file before them.
for _library in ("NUMBA", "OMP", "OPENBLAS"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

END = "<!-- end -->"


@dataclass(frozen=True)
class Column:
    """The head of a column, and how its values are shown: a format, or a function. None is an empty cell."""

    head: str
    show: str | Callable[[Any], str] = "{}"
    right: bool = False

    def cell(self, value: Any) -> str:
        """A value as it stands in the table."""
        if value is None:
            return ""
        return self.show.format(value) if isinstance(self.show, str) else self.show(value)


def number(head: str, show: str | Callable[[Any], str] = "{:,}") -> Column:
    """A column of numbers, set to the right."""
    return Column(head, show, right=True)


class Table:
    """Rows under columns. `page` is the file, from docs/, that shows the table between the markers of its name."""

    def __init__(self, name: str, columns: Sequence[Column], page: str | None = None) -> None:
        self.name, self.columns, self.page = name, tuple(columns), page
        self.rows: list[tuple[Any, ...]] = []

    def add(self, *values: Any) -> None:
        """One more row, which is printed."""
        if len(values) != len(self.columns):
            raise ValueError(f"table {self.name} has {len(self.columns)} columns, got {len(values)} values")
        self.rows.append(values)
        print(self._line(column.cell(value) for column, value in zip(self.columns, values, strict=True)), flush=True)

    @property
    def head(self) -> str:
        """The two lines above the rows."""
        rule = self._line("---:" if column.right else "---" for column in self.columns)
        return f"{self._line(column.head for column in self.columns)}\n{rule}"

    @property
    def markdown(self) -> str:
        """The whole table."""
        shown = (
            self._line(column.cell(value) for column, value in zip(self.columns, row, strict=True)) for row in self.rows
        )
        return "\n".join((self.head, *shown))

    @property
    def values(self) -> list[dict[str, Any]]:
        """The rows for JSON, by the head of each column, or by its place where it has none."""
        heads = [column.head or f"column {place}" for place, column in enumerate(self.columns, start=1)]
        return [dict(zip(heads, map(_plain, row), strict=True)) for row in self.rows]

    @staticmethod
    def _line(cells: Iterable[str]) -> str:
        return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


class Report:
    """The tables of one run of a benchmark, and whether docs are to show them."""

    def __init__(self, *, docs: bool = False) -> None:
        self.docs, self.tables = docs, list[Table]()

    def table(self, name: str, *columns: Column, page: str | None = None) -> Table:
        """A new table, of which the head is printed. Where docs shall show it is looked for before it is measured."""
        table = Table(name, columns, page)
        if self.docs and page is not None:
            replaced((DOCS / page).read_text(encoding="utf-8"), name, "")
        if self.tables:
            print()
        print(table.head, flush=True)
        self.tables.append(table)
        return table

    def show_in_docs(self) -> None:
        """Put the tables where the docs show them."""
        for table in self.tables:
            if table.page is not None:
                path = DOCS / table.page
                page = replaced(path.read_text(encoding="utf-8"), table.name, table.markdown)
                path.write_text(page, encoding="utf-8")
                print(f"{path.relative_to(ROOT)} shows the table {table.name}", file=sys.stderr)


def replaced(text: str, name: str, table: str) -> str:
    """A page with another table between the markers of that name, indented as they are."""
    lines = text.splitlines()
    marked = [index for index, line in enumerate(lines) if line.strip() == f"<!-- table: {name} -->"]
    if len(marked) != 1:
        raise SystemExit(f"the page has {len(marked)} markers <!-- table: {name} -->, not one")
    first = marked[0]
    last = next((index for index in range(first + 1, len(lines)) if lines[index].strip() == END), None)
    if last is None:
        raise SystemExit(f"the table {name} has no {END}")
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    lines[first + 1 : last] = ["", *(indent + line for line in table.splitlines()), ""]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Argument:
    """An argument of a benchmark's own. With a `part` of the rows only, docs cannot be written."""

    flag: str
    options: Mapping[str, Any]
    part: bool = False


def argument(flag: str, *, part: bool = False, **options: Any) -> Argument:
    """As `add_argument` of argparse takes it."""
    return Argument(flag, options, part)


def start(
    measure: Callable[[argparse.Namespace, Report], int | None], description: str | None, *arguments: Argument
) -> NoReturn:
    """Read the command line, measure, and write what was asked for. The result of `measure` is the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=raw)
    added = [(given, parser.add_argument(given.flag, **given.options)) for given in arguments]
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write all tables to this file")
    parser.add_argument("--docs", action="store_true", help="write the tables into the pages that show them")
    options = parser.parse_args()
    if options.docs:
        for given, action in added:
            if given.part and getattr(options, action.dest) != action.default:
                parser.error(f"--docs needs the whole table, and {given.flag} leaves a part of it out")
    report = Report(docs=options.docs)
    status = measure(options, report)
    if options.out is not None:
        options.out.write_text(json.dumps(_written(parser.prog, options, report), indent=2, ensure_ascii=False) + "\n")
    if options.docs:
        report.show_in_docs()
    raise SystemExit(status or 0)


def _written(name: str, options: argparse.Namespace, report: Report) -> dict[str, Any]:
    """A run of a benchmark in JSON."""
    return {
        "benchmark": Path(name).stem,
        "options": {key: _plain(value) for key, value in vars(options).items() if key not in ("out", "docs")},
        "version": version("aceirl"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "tables": {table.name: table.values for table in report.tables},
    }


def _plain(value: Any) -> Any:
    """A value that JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Path):
        return value.name
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Mean:
    """A mean and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Mean:
        """Of independent runs."""
        spread = statistics.stdev(numbers) / len(numbers) ** 0.5 if len(numbers) > 1 else 0.0
        return cls(statistics.fmean(numbers), spread)

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.error:.2g}"


def seconds(value: float) -> str:
    """Seconds in a unit that reads well."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:,.3g} {unit}" if value < 1000 else f"{value / 3600:,.0f} h"
    return f"{value / 1e-6:.3g} µs"


# Two versions of the package, side by side.

Round = Callable[[], float]
"""Measures once: the seconds of a round."""


def timed(call: Callable[[], Any], calls: int = 1, clock: Callable[[], float] = time.process_time) -> Round:
    """A round of so many calls, in seconds a call; of processor time, which other work hardly changes."""

    def measure() -> float:
        began = clock()
        for _ in range(calls):
            call()
        return (clock() - began) / calls

    return measure


def comparing(rounds: int) -> tuple[Argument, ...]:
    """The arguments of a benchmark that can compare two versions."""
    return (
        argument(
            "--against",
            type=Path,
            metavar="SRC",
            help="compare with the version of the package in this folder: the same measurements in turns, as ratios",
        ),
        argument(
            "--only", nargs="+", metavar="WORD", help="sections; with --against: measurements with one of the words"
        ),
        argument("--rounds", type=int, default=rounds, help="how often everything takes its turn"),
        argument("--pairs", type=int, default=5, help="with --against: how often both versions begin anew"),
        argument("--worker", action="store_true", help=argparse.SUPPRESS),
    )


def compared(options: argparse.Namespace, report: Report, measurements: Mapping[str, Callable[[], Round]]) -> bool:
    """Compare versions, if the command line says so; false if it does not.

    Each version runs in a process of its own, with its source folder first on the path. Rounds alternate between the
    two, and so does who begins. A measurement is prepared, and so compiled, before its first round. The ratio is the
    median of the ratios within a round, so that other work on the machine hits both alike. How things happen to lie in
    the memory of a process is worth some per cent of a short pass for as long as it lives, so several pairs of
    processes take part.
    """
    if options.worker:
        _serve(measurements)
        return True
    if options.against is None:
        return False
    if not (options.against / "aceirl").is_dir():
        raise SystemExit(f"{options.against} has no package aceirl in it")
    chosen = [name for name in measurements if not options.only or any(word in name for word in options.only)]
    ours: dict[str, list[float]] = {name: [] for name in chosen}
    theirs: dict[str, list[float]] = {name: [] for name in chosen}
    for pair in range(options.pairs):
        print(f"pair {pair + 1} of {options.pairs}", file=sys.stderr, flush=True)
        with _Worker(ROOT / "src") as one, _Worker(options.against) as other:
            for name in chosen:
                for turn in range(options.rounds):
                    sides = [(one, ours[name]), (other, theirs[name])]
                    for worker, times in sides if turn % 2 else reversed(sides):
                        times.append(worker.round(name))
    table = report.table(
        "versions",
        Column("measurement"),
        number("this version", seconds),
        number("the other", seconds),
        number("ratio", "{:.3f}"),
        number("lowest to highest of a pair", lambda ends: f"{ends[0]:.3f} to {ends[1]:.3f}"),
    )
    for name in chosen:
        ratios = [mine / yours for mine, yours in zip(ours[name], theirs[name], strict=True)]
        pairs = [statistics.median(ratios[k : k + options.rounds]) for k in range(0, len(ratios), options.rounds)]
        middle = statistics.median(ratios)
        table.add(
            name, statistics.median(ours[name]), statistics.median(theirs[name]), middle, (min(pairs), max(pairs))
        )
    return True


class _Worker:
    """A process that measures one version, a line of JSON for each round."""

    def __init__(self, source: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
        self.process = subprocess.Popen(
            [sys.executable, sys.argv[0], "--worker"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def round(self, name: str) -> float:
        """The seconds of one round."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(name), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the measurement {name!r} failed")
        return float(json.loads(line))


def _serve(measurements: Mapping[str, Callable[[], Round]]) -> None:
    """Measure whatever is named on the standard input, until it ends."""
    ready: dict[str, Round] = {}
    for line in sys.stdin:
        name = json.loads(line)
        if name not in ready:
            ready[name] = measurements[name]()
            ready[name]()
        print(json.dumps(ready[name]()), flush=True)
