"""Tests and benchmarks share studies and nothing else, and every table that docs show has a benchmark that makes it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS, BENCHMARKS, STUDIES = ROOT / "tests", ROOT / "benchmarks", ROOT / "studies"

# Benchmarks that have the name of a library.
LIBRARIES = {"gym"}


def modules(folder: Path) -> set[str]:
    """The names by which files of a folder import each other."""
    return {path.stem for path in folder.rglob("*.py")}


def imported(path: Path) -> set[str]:
    """The first parts of the names of all modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def strings(path: Path) -> set[str]:
    """All string literals of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize(
    ("folder", "foreign"),
    [(TESTS, [BENCHMARKS]), (BENCHMARKS, [TESTS]), (STUDIES, [TESTS, BENCHMARKS])],
    ids=["tests", "benchmarks", "studies"],
)
def test_tests_and_benchmarks_do_not_import_each_other(folder: Path, foreign: list[Path]) -> None:
    names = {"tests", "benchmarks"}.union(*(modules(other) for other in foreign)) - LIBRARIES
    for path in folder.rglob("*.py"):
        assert not imported(path) & names, path


def test_every_benchmark_starts_in_the_frame() -> None:
    for path in BENCHMARKS.glob("[!_]*.py"):
        assert "_frame" in imported(path), f"{path.name} has a command line of its own"
        assert "frame.start(" in path.read_text(encoding="utf-8"), path.name


def marked_tables() -> list[tuple[str, str]]:
    """`(page, name)` of every table between markers; a page as seen from docs/."""
    docs = ROOT / "docs"
    pages = [*sorted(page.name for page in docs.glob("*.md")), "../README.md"]
    marker = re.compile(r"^ *<!-- table: (.+) -->$", re.MULTILINE)
    return [(page, name) for page in pages for name in marker.findall((docs / page).read_text(encoding="utf-8"))]


def test_every_marked_table_is_whole_and_comes_from_a_benchmark() -> None:
    tables = marked_tables()
    assert len(tables) == len({name for _, name in tables}) > 10
    made = {path: strings(path) for path in BENCHMARKS.glob("[!_]*.py")}
    for page, name in tables:
        assert any({name, page} <= found for found in made.values()), f"nothing makes the table {name} of {page}"
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        body = text.partition(f"<!-- table: {name} -->")[2].partition("<!-- end -->")
        assert body[1], f"the table {name} has no end"
        lines = [line.strip() for line in body[0].strip().splitlines()]
        assert len(lines) > 2
        assert all(line.startswith("|") and line.endswith("|") for line in lines), name
        assert len({line.count("|") for line in lines}) == 1, name


def test_every_table_for_a_page_has_its_place_there() -> None:
    tables = {name: page for page, name in marked_tables()}
    for path in BENCHMARKS.glob("[!_]*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "report.table":
                name = node.args[0]
                assert isinstance(name, ast.Constant), path
                if any(keyword.arg == "page" for keyword in node.keywords):
                    assert name.value in tables, (path.name, name.value)
