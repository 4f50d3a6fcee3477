"""Tables of recordings: CSV and Parquet files, pandas and Polars frames, dictionaries of columns.

A row is a decision: who decided (`individual`), when (`time`), in which state, what was done. The columns have the
names that the table gives them, and the caller says which is which. What follows a row is the next row of the same
individual, if it is one step later; a *gap* in time ends the stretch, and the row before a gap is a decision whose
outcome is not known. A stretch can end in three other ways, and a table has to say which: the process ended
(`terminated`), only the recording did (`truncated`, a time limit), or the rows are used up, which counts as the second.
A column `done` does not say which, so it is refused unless `horizon` tells time limits apart.

Rows are counted from 1, without the header; errors name the row and the column.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aceirl.data.arrays import BoolArray, IntArray
from aceirl.errors import InputError, shown, unknown_name

FORMS = "a .csv, .tsv or .parquet file, a pandas or Polars frame, a pyarrow table, or a dictionary of columns"
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")
MOST_NUMBERS = 100_000
"""Whole numbers below this are states or actions by their own number; larger ones are names."""


@dataclass(frozen=True, eq=False)
class TableColumn:
    """The `values [N]` of a column, and where they are `missing [N]`."""

    name: str
    values: NDArray[Any]
    missing: BoolArray

    @classmethod
    def of(cls, name: str, given: Any) -> TableColumn:
        """From any sequence; numbers become numbers, whole numbers whole ones, and None, NaN and the like missing."""
        values = given.to_numpy() if hasattr(given, "to_numpy") else np.asarray(given)
        if values.ndim != 1:
            raise InputError(f"column {name!r} must have one value a row, got shape {list(values.shape)}")
        if values.dtype.kind == "M":
            return cls(name, values, np.isnat(values))
        if values.dtype.kind in "OUST":
            return cls._of_objects(name, values.astype(object))
        if values.dtype.kind == "f":
            missing = np.isnan(values)
            rounded = np.where(missing, 0, values)
            whole = bool((rounded == np.rint(rounded)).all()) and bool((np.abs(rounded) < 2**53).all())
            return cls(name, rounded.astype(np.int64) if whole else values, missing)
        if values.dtype.kind not in "biu":
            raise InputError(f"column {name!r} has values of the type {values.dtype}, which cannot be read")
        return cls(name, values.astype(np.int64), np.zeros(len(values), dtype=np.bool_))

    @classmethod
    def _of_objects(cls, name: str, values: NDArray[Any]) -> TableColumn:
        missing = np.array([_is_missing(value) for value in values], dtype=np.bool_)
        filled = [0 if absent else value for value, absent in zip(values, missing, strict=True)]
        flags = {"true": 1, "false": 0}
        if all(str(value).lower() in flags or absent for value, absent in zip(filled, missing, strict=True)):
            filled = [flags.get(str(value).lower(), 0) for value in filled]
        for kind in (np.int64, np.float64):
            try:
                numbers = np.array([kind(value) for value in filled])
            except (TypeError, ValueError, OverflowError):
                continue
            if kind is np.float64:
                return cls.of(name, np.where(missing, np.nan, numbers))
            if all(isinstance(value, str) or value == number for value, number in zip(filled, numbers, strict=True)):
                return cls(name, numbers, missing)
        return cls(name, np.array([str(value) for value in filled], dtype=object), missing)

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return self.values.dtype.kind == "i"


@dataclass(frozen=True, eq=False)
class TableFrame:
    """Named columns of one length; `where` is how errors call the table."""

    columns: Mapping[str, TableColumn]
    where: str

    def __post_init__(self) -> None:
        sizes = {name: len(column.values) for name, column in self.columns.items()}
        if not sizes or not next(iter(sizes.values())):
            raise InputError(f"{self.where} has no rows")
        if len(set(sizes.values())) > 1:
            raise InputError(f"{self.where} has columns of different lengths: {shown(sizes)}")

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.values())).values)

    def column(self, name: str, *, missing: bool = False) -> TableColumn:
        """The column of that name; it must be complete, unless values may be `missing`."""
        if name not in self.columns:
            raise InputError(f"{self.where}: {unknown_name('column', name, self.columns)}")
        found = self.columns[name]
        if not missing and found.missing.any():
            raise InputError(f"{self.at(int(np.argmax(found.missing)), name)} is empty")
        return found

    def flags(self, name: str | None) -> BoolArray:
        """`[N]` of a column of 0 and 1, or true and false; all false without a name."""
        if name is None:
            return np.zeros(self.n_rows, dtype=np.bool_)
        found = self.column(name)
        wrong = ~np.isin(found.values, (0, 1)) if found.whole else np.ones(self.n_rows, dtype=np.bool_)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(f"{self.at(row, name)} is {shown(found.values[row])}, and must be 0 or 1")
        return np.asarray(found.values == 1)

    def at(self, row: int, name: str) -> str:
        """How errors call one entry; `row` is counted from 0 here."""
        return f"{self.where}, row {row + 1}, column {name!r}"


def read_table(source: Any) -> TableFrame:
    """The table that `source` is, or that is in the file of that name."""
    if isinstance(source, TableFrame):
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise InputError(f"there is no file {path}; a table is {FORMS}")
        if path.suffix in (".parquet", ".pq"):
            return _of_columns(_parquet(path), path.name)
        if path.name.removesuffix(".gz").endswith((".csv", ".tsv", ".txt")):
            return _of_columns(_csv(path), path.name)
        raise InputError(f"{path} is not {FORMS}")
    if isinstance(source, Mapping):
        return _of_columns(source, "the table")
    names = getattr(source, "column_names", None) or getattr(source, "columns", None)
    if names is None or isinstance(names, Mapping) or not hasattr(source, "__getitem__"):
        raise InputError(f"a table is {FORMS}; got {type(source).__name__}")
    return _of_columns({str(name): source[name] for name in names}, "the table")


def _of_columns(columns: Mapping[str, Any], where: str) -> TableFrame:
    return TableFrame({str(name): TableColumn.of(str(name), values) for name, values in columns.items()}, where)


def _csv(path: Path) -> dict[str, list[Any]]:
    written = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        text = written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} is not text in UTF-8: {error}") from None
    separator = max(",;\t", key=text.partition("\n")[0].count)
    lines = csv.reader(io.StringIO(text), delimiter=separator)
    header = [name.strip() for name in next(lines, [])]
    if not header:
        raise InputError(f"{path.name} is empty; its first line must name the columns")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path.name} has the column {twice!r} twice")
    rows = []
    for number, line in enumerate(filter(None, lines), start=1):
        if len(line) != len(header):
            where = f"{path.name}, row {number} (line {lines.line_num})"
            raise InputError(f"{where} has {len(line)} values for {len(header)} columns")
        rows.append([value.strip() for value in line])
    return {name: [row[k] for row in rows] for k, name in enumerate(header)}


def _parquet(path: Path) -> dict[str, Any]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{path} needs pyarrow: pip install 'aceirl[report]'") from None
    table = parquet.read_table(path)
    return {name: table[name] for name in table.column_names}


def _is_missing(value: Any) -> bool:
    if value is None or (isinstance(value, str) and value in MISSING):
        return True
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


@dataclass(frozen=True, eq=False)
class Panel:
    """Decisions of individuals in the order of time, with states and actions numbered.

    `states [S]` and `actions [A]` are the values behind the numbers; a state of several columns is a tuple, in the
    order of `state_columns`. Flat arrays of one length `N`, one entry a decision: `individual` (a number into
    `individuals`), `state`, `action`, `successor` (−1 where it is not known, `S` where the process ended), `stretch`,
    and `row`, that of the table.
    """

    states: tuple[Any, ...]
    actions: tuple[Any, ...]
    individuals: tuple[Any, ...]
    state_columns: tuple[str, ...]
    action_column: str
    individual: IntArray
    state: IntArray
    action: IntArray
    successor: IntArray
    stretch: IntArray
    row: IntArray
    gaps: int = 0

    def __post_init__(self) -> None:
        n = len(self.state)
        limits = {"individual": (0, len(self.individuals)), "state": (0, len(self.states))}
        limits |= {"action": (0, len(self.actions)), "successor": (-1, len(self.states) + 1)}
        for name, (low, high) in limits.items():
            values = np.asarray(getattr(self, name), dtype=np.int64)
            if values.shape != (n,):
                raise InputError(f"{name} must have shape [{n}], got {list(values.shape)}")
            if n and (values.min() < low or values.max() >= high):
                k = int(np.argmax((values < low) | (values >= high)))
                raise InputError(f"{name}[{k}] is {values[k]}, not a number from {low} to {high - 1}")
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        if not n:
            raise InputError("the table has no decision")

    def __len__(self) -> int:
        return len(self.state)

    @property
    def n_states(self) -> int:
        """How many states there are, without the end."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return len(self.actions)

    @cached_property
    def ends(self) -> bool:
        """Whether the process ended anywhere."""
        return bool((self.successor == self.n_states).any())

    def without_first(self, rows: int) -> Panel:
        """Without the first so many decisions of every individual."""
        order = np.arange(len(self))
        first = np.full(len(self.individuals), len(self))
        np.minimum.at(first, self.individual, order)
        return self.where(order - first[self.individual] >= rows)

    def where(self, kept: BoolArray) -> Panel:
        """The decisions that are `kept [N]`."""
        arrays = {name: getattr(self, name)[kept] for name in ("individual", "state", "action", "successor", "row")}
        return Panel(
            self.states, self.actions, self.individuals, self.state_columns, self.action_column,
            stretch=self.stretch[kept], gaps=self.gaps, **arrays,
        )  # fmt: skip


def read_panel(
    source: Any,
    *,
    state: str | Sequence[str],
    action: str,
    individual: str | None = None,
    time: str | None = None,
    next_state: str | Sequence[str] | None = None,
    terminated: str | None = None,
    truncated: str | None = None,
    done: str | None = None,
    horizon: int | None = None,
    n_states: int | None = None,
    n_actions: int | None = None,
    time_step: float | None = None,
) -> Panel:
    """The decisions in a table, with its columns named.

    `state` and `next_state` may be several columns. Without `individual` all rows are of one; without `time` rows are
    in order and there are no gaps. With `n_states` or `n_actions`, whole numbers from 0 to one less. A column `done`
    needs the `horizon`: an end at that many steps is a time limit, an earlier one an end of the process. `time_step` is
    the time between two decisions, by default the most common one. An action may be missing in the last row of a
    stretch: that row then only says where the one before it led.
    """
    frame = read_table(source)
    _check_ends(frame, terminated, truncated, done, horizon)
    state_columns = (state,) if isinstance(state, str) else tuple(state)
    after_columns = (next_state,) if isinstance(next_state, str) else tuple(next_state or ())
    if after_columns and len(after_columns) != len(state_columns):
        raise InputError(f"next_state needs as many columns as state: {len(state_columns)}")
    who, individuals = _individuals(frame, individual)
    when = _times(frame, time)
    order = np.lexsort((np.arange(frame.n_rows), when, _first_seen(who)))
    ended, cut = frame.flags(terminated), frame.flags(truncated)
    acted = frame.column(action, missing=True)
    here, states = _numbers(frame, state_columns, n_states, after_columns)
    states_now, states_after = here[: frame.n_rows], here[frame.n_rows :]
    chosen, actions = _numbers(frame, (action,), n_actions, missing=True)

    whose, times = who[order], when[order]
    same = np.append(whose[1:] == whose[:-1], False)
    _check_times(frame, whose, times, order, same, time)
    stepped = np.append(np.diff(times), 0.0)
    step = _usual_step(stepped[same], time_step, time)
    gap = same & (np.abs(stepped - step) > 1e-9 * max(1.0, abs(step))) if time is not None else np.zeros_like(same)
    over, stopped = ended[order], cut[order]
    if done is not None:
        over = _ended_early(frame.flags(done)[order], whose, horizon or 0)
        stopped = stopped | (frame.flags(done)[order] & ~over)
    goes_on = same & ~gap & ~over & ~stopped
    absent = acted.missing[order]
    if (absent & goes_on).any():
        row = int(order[np.argmax(absent & goes_on)])
        raise InputError(
            f"{frame.at(row, action)} is empty, but the next row follows without a gap; only the last row of a "
            "trajectory may have no action"
        )
    now = states_now[order]
    following = np.where(goes_on, np.append(now[1:], -1), -1)
    if len(states_after):
        recorded = states_after[order]
        # What was recorded as next and what the next row shows differ: rows are missing between them.
        goes_on &= (recorded == following) | (recorded < 0)
        following = np.where(recorded >= 0, recorded, following)
    following = np.where(over, len(states), following)
    kept = ~absent
    return Panel(
        states=states,
        actions=actions,
        individuals=individuals,
        state_columns=state_columns,
        action_column=action,
        individual=whose[kept],
        state=now[kept],
        action=chosen[order][kept],
        successor=following[kept],
        stretch=np.concatenate(([0], np.cumsum(~goes_on)[:-1]))[kept],
        row=order[kept],
        gaps=int(gap.sum()),
    )


def _check_ends(
    frame: TableFrame,
    terminated: str | None,
    truncated: str | None,
    done: str | None,
    horizon: int | None,
) -> None:
    unnamed = [name for name in frame.columns if name.lower() in ("done", "dones")]
    ambiguous = done if done is not None else (unnamed[0] if unnamed else None)
    if ambiguous is None or terminated is not None or truncated is not None:
        return
    if done is None or horizon is None:
        raise InputError(
            f"{frame.where}: the column {ambiguous!r} does not say whether the process ended or a time limit was "
            f"reached. Give terminated={ambiguous!r} if the process ended, truncated={ambiguous!r} if only the "
            f"recording did, or done={ambiguous!r} with the horizon at which the time limit lies"
        )


def _ended_early(done: BoolArray, whose: IntArray, horizon: int) -> BoolArray:
    """`[N]`: ends before the `horizon`-th step of their episode, so not at the time limit."""
    begins = np.concatenate(([True], done[:-1] | (whose[1:] != whose[:-1])))
    count = np.arange(len(done)) - np.maximum.accumulate(np.where(begins, np.arange(len(done)), 0)) + 1
    return done & (count < horizon)


def _numbers(
    frame: TableFrame,
    names: Sequence[str],
    size: int | None,
    after: Sequence[str] = (),
    *,
    missing: bool = False,
) -> tuple[IntArray, tuple[Any, ...]]:
    """Numbers `[N]`, or `[2N]` with the columns `after`, −1 where missing, and the values behind them."""
    columns = [frame.column(name, missing=missing) for name in names]
    later = [frame.column(name, missing=True) for name in after]
    values = [column.values for column in columns]
    absent = np.logical_or.reduce([column.missing for column in columns])
    if later:
        values = [np.concatenate((a, b.values)) for a, b in zip(values, later, strict=True)]
        absent = np.concatenate((absent, np.logical_or.reduce([column.missing for column in later])))
    whole = all(column.whole for column in (*columns, *later))
    if len(names) == 1 and whole:
        numbers = np.where(absent, -1, values[0]).astype(np.int64)
        if size is not None or (numbers.max() < MOST_NUMBERS and numbers[~absent].min(initial=0) >= 0):
            limit = int(numbers.max()) + 1 if size is None else size
            wrong = ~absent & ((numbers < 0) | (numbers >= limit))
            if wrong.any():
                k = int(np.argmax(wrong))
                name = (*names, *after)[k // frame.n_rows]
                raise InputError(
                    f"{frame.at(k % frame.n_rows, name)} is {values[0][k]}, not a number from 0 to {limit - 1}"
                )
            return numbers, tuple(range(limit))
    elif size is not None:
        raise InputError(f"the number of states can be given only if they are whole numbers; {names[0]!r} has others")
    present = [tuple(_plain(part[k]) for part in values) for k in np.flatnonzero(~absent)]
    labels = sorted(set(present))
    place = {label: number for number, label in enumerate(labels)}
    numbers = np.full(len(absent), -1, dtype=np.int64)
    numbers[~absent] = [place[label] for label in present]
    return numbers, tuple(label if len(names) > 1 else label[0] for label in labels)


def _individuals(frame: TableFrame, name: str | None) -> tuple[IntArray, tuple[Any, ...]]:
    """Numbers `[N]` and the names behind them."""
    if name is None:
        return np.zeros(frame.n_rows, dtype=np.int64), (None,)
    labels, numbers = np.unique(frame.column(name).values, return_inverse=True)
    return numbers.astype(np.int64), tuple(labels.tolist())


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _first_seen(numbers: IntArray) -> IntArray:
    """`[N]`: the row in which each entry's individual appears first, so that individuals stay in the table's order."""
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    return np.asarray(first[which], dtype=np.int64)


def _times(frame: TableFrame, name: str | None) -> NDArray[np.float64]:
    """`[N]` as numbers: as they are, or months or days of dates."""
    if name is None:
        return np.arange(frame.n_rows, dtype=np.float64)
    found = frame.column(name)
    if found.values.dtype.kind in "if":
        return found.values.astype(np.float64)
    try:
        dates = found.values.astype("datetime64[s]")
    except ValueError:
        raise InputError(
            f"{frame.where}: the column {name!r} is not a time; it must have numbers, or dates such as 1975-03-31"
        ) from None
    months = dates.astype("datetime64[M]")
    # Months differ in length: where all dates lie at the same place in their month, months are counted.
    if len(np.unique(dates - months.astype("datetime64[s]"))) == 1:
        return months.astype(np.int64).astype(np.float64)
    return dates.astype(np.int64).astype(np.float64) / 86_400


def _check_times(
    frame: TableFrame, whose: IntArray, times: NDArray[np.float64], order: IntArray, same: BoolArray, name: str | None
) -> None:
    twice = same & np.append(np.diff(times) == 0, False)
    if name is not None and twice.any():
        k = int(np.argmax(twice))
        raise InputError(
            f"{frame.at(int(order[k + 1]), name)}: row {int(order[k]) + 1} is of the same individual at the same time; "
            "name the column of the individual, or leave one of the rows out"
        )


def _usual_step(steps: NDArray[np.float64], given: float | None, name: str | None) -> float:
    """The time between two decisions."""
    if given is not None:
        if not given > 0:
            raise InputError(f"time_step must be above 0, got {given!r}")
        return float(given)
    if name is None or not len(steps):
        return 1.0
    values, counts = np.unique(np.round(steps, 9), return_counts=True)
    if 2 * counts.max() < len(steps):
        raise InputError(
            f"the times in {name!r} have no usual step: the most common one, {values[counts.argmax()]:g}, is between "
            f"{counts.max()} of {len(steps)} rows. Give time_step, or leave the time out to take rows as steps"
        )
    return float(values[counts.argmax()])
