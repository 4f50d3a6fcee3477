"""Imports point one way. The tables below are the plan of the house; the tests read the sources and compare."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "aceirl"

# A unit is a module or a package directly under `aceirl`; inside a package the files may know each other.
# From the bottom up: a unit may import those before it.
FLOORS = (
    "errors",
    "data",
    "protocols",
    "models",
    "rewards",
    "irl",
    "explore",
    "certificates",
    "envs",
    "experts",
    "learner",
    "explain",
    "runs",
    "__init__",
    "bench",
    "web",
    "cli",
    "__main__",
)
MAY_IMPORT: dict[str, set[str]] = {unit: set(FLOORS[:floor]) for floor, unit in enumerate(FLOORS)}
# Neighbours that do not know each other.
MAY_IMPORT["certificates"] -= {"explore"}
MAY_IMPORT["envs"] -= {"data", "rewards", "irl", "explore", "certificates"}
MAY_IMPORT["experts"] -= {"rewards", "irl", "explore", "certificates"}
# A page drives the engine. It knows no rule of learning: neither rewards nor radii, neither plans nor bounds.
MAY_IMPORT["web"] -= {"rewards", "irl", "explore", "bench"}

# Libraries that only some units may touch. Any other library is free.
SHOWING = {"explain", "runs", "bench", "cli", "web"}
RESERVED: dict[str, set[str]] = {
    "matplotlib": SHOWING,
    "pandas": SHOWING,
    "pyarrow": SHOWING | {"data", "experts"},
    "jinja2": SHOWING,
    "joblib": SHOWING,
    "dask": SHOWING,
    "distributed": SHOWING,
    "starlette": SHOWING,
    "typer": {"cli", "web"},
    "rich": {"cli", "runs", "web"},
    "uvicorn": {"cli", "web"},
    # The page looks up ids before anything is loaded.
    "gymnasium": {"data", "models", "envs", "experts", "learner", "web"},
    # Oracles: they check the product from the tests and benchmarks, and are no part of it.
    "clarabel": set(),
    "cvxpy": set(),
    "quantecon": set(),
    "scs": set(),
}


def violations(source: str, path: str) -> list[str]:
    """What is wrong with the imports of `source`, a file at `path` relative to the package, one line each."""
    package = ["aceirl", *Path(path).parts[:-1]]
    unit = unit_of(path)
    if unit not in MAY_IMPORT:
        return [f"{path}: '{unit}' is not in the table of units; add it to MAY_IMPORT"]
    found = []
    for line, name in imported(ast.parse(source), package):
        top, *rest = name.split(".")
        if top == "aceirl":
            target = rest[0] if rest and rest[0] in known_units() else "__init__"
            if target != unit and target not in MAY_IMPORT[unit]:
                found.append(f"{path}:{line}: '{unit}' may not import '{target}'")
        elif unit not in RESERVED.get(top, {unit}):
            found.append(f"{path}:{line}: '{unit}' may not import the library '{top}'")
    return found


def unit_of(path: str) -> str:
    return Path(path).parts[0].removesuffix(".py")


def source_files() -> list[str]:
    return sorted(str(file.relative_to(SOURCES)) for file in SOURCES.rglob("*.py"))


@cache
def known_units() -> set[str]:
    return set(MAY_IMPORT) | {unit_of(path) for path in source_files()}


def imported(node: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """The line and full dotted name of every import below `node`, wherever it runs; not those for types only."""
    match node:
        case ast.Import():
            yield from ((node.lineno, alias.name) for alias in node.names)
        case ast.ImportFrom():
            parents = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
        case ast.Call(func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=[name, *_]):
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value if name.value[0] != "." else f"aceirl{name.value}"
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            for statement in node.orelse:
                yield from imported(statement, package)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from imported(child, package)


@pytest.mark.parametrize("path", source_files())
def test_imports_of_every_module_point_one_way(path: str) -> None:
    found = violations((SOURCES / path).read_text(encoding="utf-8"), path)
    assert not found, "\n".join(found)


def test_the_table_itself_has_no_cycle_and_no_unknown_name() -> None:
    list(TopologicalSorter(MAY_IMPORT).static_order())
    assert set().union(*MAY_IMPORT.values(), *RESERVED.values()) <= set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("path", "source", "offender"),
    [
        ("errors.py", "from aceirl.protocols import Expert", "protocols"),
        ("errors.py", "from aceirl import protocols", "protocols"),
        ("protocols.py", "from . import models", "models"),
        ("web/view.py", "from aceirl.rewards import Recovered", "rewards"),
        ("web/driver.py", "from aceirl.irl import MaxMargin", "irl"),
        ("models/tabular/mdp.py", "import aceirl.learner.loop as loop", "learner"),
        ("models/tabular/bounds.py", "from aceirl import ActiveIRL", "__init__"),
        ("irl/entropy.py", "from ..explore.greedy import Greedy", "explore"),
        ("explore/ace.py", "from ..envs import four_paths", "envs"),
        ("irl/entropy.py", "def f():\n    from aceirl.experts import table", "experts"),
        ("envs/chain.py", "from aceirl.experts import table", "experts"),
        ("certificates/policy.py", "from aceirl.explore import Guided", "explore"),
        ("learner/loop.py", "import importlib\nimportlib.import_module('aceirl.bench')", "bench"),
        ("learner/loop.py", "def draw():\n    import matplotlib.pyplot as plt", "matplotlib"),
        ("bench/experiments/report.py", "from rich.table import Table", "rich"),
        ("models/tabular/planner/constrained.py", "import cvxpy", "cvxpy"),
        ("learner/loop.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import pandas", "pandas"),
        ("gadget.py", "", "gadget"),
    ],
)
def test_an_arrow_that_turns_round_is_seen(path: str, source: str, offender: str) -> None:
    (found,) = violations(source, path)
    assert f"'{offender}'" in found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("rewards/spaces.py", "from aceirl.models.tabular.mdp import MDP"),
        ("explore/ace.py", "from .greedy import Greedy"),
        ("explore/deep/inner.py", "from ..greedy import Greedy"),
        ("explore/ace.py", "import typing\nif typing.TYPE_CHECKING:\n    from aceirl.envs import Problem"),
        ("explain/plots.py", "import matplotlib.pyplot as plt"),
        ("cli.py", "from aceirl import __version__"),
        ("models/tabular/mdp.py", "import numpy as np"),
    ],
)
def test_an_arrow_that_points_down_is_allowed(path: str, source: str) -> None:
    assert violations(source, path) == []


def test_the_plan_names_every_room_and_no_other() -> None:
    plan = (SOURCES.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = re.search(r"^src/aceirl/\n(.*?)^studies/", plan, re.MULTILINE | re.DOTALL)
    assert drawn is not None
    rooms = {name for line in re.findall(r"^  (\S.*)", drawn[1], re.MULTILINE) for name in _rooms(line)}
    there = {path.name + "/" * path.is_dir() for path in SOURCES.iterdir() if not path.name.startswith("__")}
    assert rooms == there - {"py.typed"}
    inside = {path.name + "/" * path.is_dir() for path in SOURCES.rglob("*")}
    assert set(re.findall(r"\b\w+(?:\.py|/)", drawn[1])) <= inside


def _rooms(line: str) -> list[str]:
    """What a line of the plan begins with: a folder, or files."""
    return re.findall(r"\w+(?:\.py|/)", line.split("   ", maxsplit=1)[0])
