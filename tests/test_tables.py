"""Tables of recordings in the forms people have: the same panel from all of them, and errors that name the place."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aceirl.data.tables import Panel, read_panel, read_table
from aceirl.errors import InputError
from aceirl.models.tabular.panels import CountedDynamics, GivenDynamics, IncrementDynamics, given_dynamics

CSV = """bus,month,bin,replaced,note
a,0,0,0,new
a,1,1,0,
b,0,0,0,
a,2,2,1,old
b,1,0,0,
a,3,0,0,
b,3,1,0,after a gap
b,4,2,0,
"""
NAMED: dict[str, Any] = {"state": "bin", "action": "replaced", "individual": "bus", "time": "month"}


def columns() -> dict[str, list[Any]]:
    lines = [line.split(",") for line in CSV.strip().splitlines()]
    rows = [[a, int(b), int(c), int(d), e or None] for a, b, c, d, e in lines[1:]]
    return {name: [row[k] for row in rows] for k, name in enumerate(lines[0])}


def written(tmp_path: Path, text: str = CSV, name: str = "buses.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def same(one: Panel, other: Panel) -> None:
    assert (one.states, one.actions, one.individuals) == (other.states, other.actions, other.individuals)
    for name in ("individual", "state", "action", "successor", "stretch", "row"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_a_panel_of_individuals_with_a_gap(tmp_path: Path) -> None:
    panel = read_panel(written(tmp_path), **NAMED)
    assert panel.individuals == ("a", "b")
    assert panel.states == (0, 1, 2)
    assert panel.gaps == 1
    assert panel.state.tolist() == [0, 1, 2, 0, 0, 0, 1, 2]
    assert panel.successor.tolist() == [1, 2, 0, -1, 0, -1, 2, -1], "what follows a gap or the last row is not known"
    assert panel.stretch.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    assert panel.row.tolist() == [0, 1, 3, 5, 2, 4, 6, 7]


def test_every_form_gives_the_same_panel(tmp_path: Path) -> None:
    expected = read_panel(columns(), **NAMED)
    same(read_panel(written(tmp_path), **NAMED), expected)
    same(read_panel(written(tmp_path, CSV.replace(",", "\t"), "buses.tsv"), **NAMED), expected)
    same(read_panel(written(tmp_path, "\ufeff" + CSV.replace(",", ";")), **NAMED), expected)
    packed = tmp_path / "buses.csv.gz"
    packed.write_bytes(gzip.compress(CSV.encode()))
    same(read_panel(packed, **NAMED), expected)
    same(read_panel({name: np.array(values) for name, values in columns().items()}, **NAMED), expected)


def test_parquet_and_arrow_give_the_same_panel(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table(columns())
    parquet.write_table(table, tmp_path / "buses.parquet")
    same(read_panel(tmp_path / "buses.parquet", **NAMED), read_panel(columns(), **NAMED))
    same(read_panel(table, **NAMED), read_panel(columns(), **NAMED))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_other_libraries_give_the_same_panel(library: str) -> None:
    frames = pytest.importorskip(library)
    same(read_panel(frames.DataFrame(columns()), **NAMED), read_panel(columns(), **NAMED))


def test_a_frame_is_known_by_its_columns() -> None:
    """As pandas and Polars have them, without either being installed."""

    class Series:
        def __init__(self, values: list[Any]) -> None:
            self.values = values

        def to_numpy(self) -> np.ndarray:
            return np.array(self.values)

    class DataFrame:
        columns = tuple(columns())

        def __getitem__(self, name: str) -> Series:
            return Series(columns()[name])

    same(read_panel(DataFrame(), **NAMED), read_panel(columns(), **NAMED))


def test_names_instead_of_numbers_and_states_of_several_columns() -> None:
    table = {"age": [30, 30, 31], "job": ["cook", "none", "cook"], "did": ["stay", "move", "stay"]}
    panel = read_panel(table, state=["age", "job"], action="did")
    assert panel.states == ((30, "cook"), (30, "none"), (31, "cook"))
    assert panel.actions == ("move", "stay")
    assert panel.successor.tolist() == [1, 2, -1]


def test_numbers_that_became_floats_are_numbers_again() -> None:
    """pandas turns whole numbers into floats when one is missing."""
    panel = read_panel({"s": [0.0, 1.0, 2.0], "a": [1.0, 0.0, np.nan]}, state="s", action="a")
    assert panel.state.tolist() == [0, 1]
    assert panel.successor.tolist() == [1, 2], "a last row without an action says where the one before it led"


def test_dates_count_as_months_or_days() -> None:
    months = {"when": ["1975-01", "1975-02", "1975-04"], "s": [0, 1, 2], "a": [0, 0, 0]}
    assert read_panel(months, state="s", action="a", time="when").successor.tolist() == [1, -1, -1]
    days = {"when": ["2020-02-28", "2020-02-29", "2020-03-01"], "s": [0, 1, 2], "a": [0, 0, 0]}
    assert read_panel(days, state="s", action="a", time="when").gaps == 0


ENDS = {"s": [0, 1, 2, 0, 1, 2], "a": [0, 0, 0, 0, 0, 0], "flag": [0, 0, 1, 0, 1, 0]}


def test_an_end_of_the_process_is_not_a_time_limit() -> None:
    over = read_panel(ENDS, state="s", action="a", terminated="flag")
    assert over.successor.tolist() == [1, 2, 3, 1, 3, -1]
    cut = read_panel(ENDS, state="s", action="a", truncated="flag")
    assert cut.successor.tolist() == [1, 2, -1, 1, -1, -1]


def test_done_alone_is_refused_and_says_what_to_give() -> None:
    table = {**{name: ENDS[name] for name in ("s", "a")}, "done": ENDS["flag"]}
    for done in (None, "done"):
        with pytest.raises(InputError, match=r"terminated='done' .* truncated='done' .* done='done' with the horizon"):
            read_panel(table, state="s", action="a", done=done)
    told = read_panel(table, state="s", action="a", done="done", horizon=3)
    assert told.successor.tolist() == [1, 2, -1, 1, 3, -1], "the third step is the time limit, the second is not"


def test_a_recorded_next_state_is_believed() -> None:
    table = {"s": [0, 5, 1], "a": [0, 0, 0], "after": [1, 1, None]}
    panel = read_panel(table, state="s", action="a", next_state="after")
    assert panel.successor.tolist() == [1, 1, -1]
    assert panel.stretch.tolist() == [0, 1, 1], "a row is missing between the first and the second"


@pytest.mark.parametrize(
    ("change", "named", "message"),
    [
        (("a,1,1,0,", "a,1,,0,"), {}, r"buses.csv, row 2, column 'bin' is empty"),
        (("a,1,1,0,", "a,1,1,,"), {}, r"row 2, column 'replaced' is empty, but the next row follows without a gap"),
        (("a,1,1,0,", "a,1,95,0,"), {"n_states": 90}, r"row 2, column 'bin' is 95, not a number from 0 to 89"),
        (("a,1,1,0,", "a,0,1,0,"), {}, r"row 2, column 'month': row 1 is of the same individual at the same time"),
        (("a,1,1,0,", "a,1,1,0"), {}, r"buses.csv, row 2 \(line 3\) has 4 values for 5 columns"),
        (("", ""), {"state": "bins"}, r"unknown column 'bins'; did you mean 'bin'\?"),
        (("", ""), {"terminated": "bin"}, r"row 4, column 'bin' is 2, and must be 0 or 1"),
        (("bus,", "bin,"), {}, r"has the column 'bin' twice"),
        (("a,0", "a,never"), {}, r"the column 'month' is not a time"),
    ],
)
def test_errors_name_the_row_and_the_column(
    tmp_path: Path, change: tuple[str, str], named: dict[str, Any], message: str
) -> None:
    path = written(tmp_path, CSV.replace(*change, 1))
    with pytest.raises(InputError, match=message):
        read_panel(path, **{**NAMED, **named})


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match=r"a table is a \.csv"):
        read_table(3)
    with pytest.raises(InputError, match="has no rows"):
        read_table(written(tmp_path, "a,b\n"))
    with pytest.raises(InputError, match="no usual step"):
        read_panel({"s": [0] * 4, "a": [0] * 4, "t": [0, 1, 5, 12]}, state="s", action="a", time="t")


def test_counted_dynamics_are_shares_and_leave_open_what_nobody_tried() -> None:
    panel = read_panel({"s": [0, 1, 0, 0, 1], "a": [0, 1, 0, 0, 0]}, state="s", action="a")
    found = CountedDynamics().fit(panel)
    np.testing.assert_allclose(found.dense()[0, 0], [1 / 3, 2 / 3])
    np.testing.assert_allclose(found.dense()[1, 1], [1, 0])
    assert found.filled.tolist() == [True, False, False, True], "the last row led nowhere that is known"


def test_increments_are_the_same_everywhere_and_a_renewal_starts_again() -> None:
    panel = read_panel({"s": [0, 1, 3, 0, 1], "a": [0, 0, 1, 0, 0]}, state="s", action="a", n_states=4)
    dense = IncrementDynamics(renews=1).fit(panel).dense()
    np.testing.assert_allclose(dense[0, 0], [1 / 4, 1 / 2, 1 / 4, 0])  # moves of 1, 2, 0 (after the renewal), 1
    np.testing.assert_allclose(dense[3, 1], dense[0, 0])
    np.testing.assert_allclose(dense[2, 0], [0, 0, 1 / 4, 3 / 4])
    with pytest.raises(InputError, match="what it does is not known"):
        IncrementDynamics().fit(panel.where(panel.action == 0))


def test_given_dynamics_must_fit_the_table() -> None:
    panel = read_panel(columns(), **NAMED)
    dense = np.tile(np.eye(3)[:, None, :], (1, 2, 1))
    assert isinstance(given_dynamics(dense), GivenDynamics)
    np.testing.assert_array_equal(given_dynamics(dense).fit(panel).dense(), dense)
    with pytest.raises(InputError, match="the dynamics have 2 states"):
        given_dynamics(np.tile(np.eye(2)[:, None, :], (1, 2, 1))).fit(panel)
