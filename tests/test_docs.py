"""What the pages say exists: links, files, commands with their options, benchmarks, names in the package. Their blocks
of Python are executed."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import aceirl
from aceirl.bench.specs import Scenario
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, sweep
from aceirl.bench.userspecs import read_spec
from aceirl.cli import app

ROOT = Path(__file__).parents[1]
DOCS = [page for folder in ("docs", "docs/reference") for page in sorted((ROOT / folder).glob("*.md"))]
PAGES = [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

BLOCK = re.compile(r"^ *```([\w{}-]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as links write them."""
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def commands(page: Path) -> list[str]:
    """All lines that call `aceirl` or a benchmark, in blocks and in the text."""
    text = page.read_text(encoding="utf-8")
    lines = [line for kind, block in BLOCK.findall(text) if kind in ("sh", "") for line in block.splitlines()]
    lines += CODE.findall(prose(page))
    return [line.strip() for line in lines if re.match(r"\s*(aceirl [a-z]|(python )?benchmarks/\w+\.py)", line)]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_and_their_options_exist(page: Path) -> None:
    known: dict[str, Any] = getattr(get_command(app), "commands")  # noqa: B009 - click's groups have them
    for line in commands(page):
        words = shlex.split(line, comments=True)
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        if words[0] == "aceirl":
            assert words[1] in known, line
            found = known[words[1]]
            complete = found.complete() if hasattr(found, "complete") else found
            taken = {name for parameter in complete.params for name in parameter.opts}
            assert options <= taken | {"--help"}, line
        else:
            script = ROOT / next(word for word in words if word.endswith(".py"))
            assert script.exists(), line
            source = script.read_text(encoding="utf-8") + (ROOT / "benchmarks" / "_frame.py").read_text(
                encoding="utf-8"
            )
            assert all(f'"{option}"' in source for option in options), line


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_files_and_tests_that_are_named_exist(page: Path) -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("*.py"))
    for code in CODE.findall(prose(page)):
        if re.fullmatch(r"(aceirl|src|tests|docs|benchmarks|studies)/[\w/.-]+\.(py|md)", code):
            assert (ROOT / code).exists() or (ROOT / "src" / code).exists(), code
        elif re.fullmatch(r"test_\w+", code):
            assert f"def {code}(" in tests, code


def resolved(name: str, found: Any) -> bool:
    """Whether a dotted name leads somewhere from a module or a class: to a module, an attribute, or a field."""
    first, _, rest = name.partition(".")
    if isinstance(found, type) and f"self.{first}" in inspect.getsource(found):
        return not rest
    if first in getattr(found, "__annotations__", {}):
        return not rest
    try:
        next_one = getattr(found, first)
    except AttributeError:
        try:
            next_one = importlib.import_module(f"{getattr(found, '__name__', '')}.{first}")
        except ModuleNotFoundError:
            return False
    return not rest or resolved(rest, next_one)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_names_of_the_package_exist(page: Path) -> None:
    for name in re.findall(r"`aceirl\.([\w.]*\w)", prose(page)):
        assert name == "cell" or resolved(name, aceirl), f"aceirl.{name}"  # a key in the metadata of Parquet files


def test_names_in_the_table_of_notation_exist() -> None:
    """With the name of a module before them, or a class that one of these modules has."""
    tables = ("mdp", "counts", "confidence", "bounds", "planner")
    homes = ("irl.belief", "rewards", "learner.collect", "learner.turns", "learner.settings", "certificates.e_process")
    names = ("models.tabular", *(f"models.tabular.{name}" for name in tables), *homes)
    modules = [aceirl, *(importlib.import_module(f"aceirl.{name}") for name in names)]
    rows = [line.split(" | ") for line in (ROOT / "docs" / "notation.md").read_text(encoding="utf-8").splitlines()]
    cells = [row[1] for row in rows[1:] if len(row) > 2]
    assert len(cells) > 25
    checked = 0
    for code in (code for cell in cells for code in CODE.findall(cell)):
        if re.match(r"[A-Z]\w+|[a-z_]+\.", code):
            name = re.match(r"[\w.]*", code)
            assert name is not None
            assert any(resolved(name[0], module) for module in modules), code
            checked += 1
    assert checked > 25


WITH_PYTHON = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, with the results that the page on experiments reads."""
    monkeypatch.chdir(tmp_path)
    scenario = Scenario(name="small", title="Small", environment="gridworld", choices={"max_samples": 20})
    store = Store(tmp_path / "reproduction" / "runs")
    for _ in sweep([scenario.cell("random", 0)], store, Here()):
        pass
    return tmp_path


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_as_written_and_prints_what_it_says(page: Path, elsewhere: Path) -> None:
    """All blocks of a page in order, in one interpreter; a block of text after one is what it prints."""
    names: dict[str, Any] = {"__name__": f"page_{page.stem}"}
    printed, kinds = "", []
    for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        kinds.append(kind)
        if kind == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
                exec(compile(text, page.name, "exec", dont_inherit=True), names)
            printed = output.getvalue()
        elif kind == "text" and kinds[-2:] == ["python", "text"]:
            assert printed == text
    if page.name == "strategies.md":
        assert names["result"].reward_table.shape == names["problem"].mdp.shape
    if page.name == "gymnasium.md":
        assert names["House"].description.words(None, (2, 1)) == "room 2 with the toy"
        assert names["House"].description.map_cell(None, (2, 1)).panel == "with the toy"
        assert names["action"] == 1
        assert names["side_by_side"].turn.settings.episodes_per_iteration == 2


def test_the_key_and_the_door_take_twenty_lines_from_class_to_transferred_reward() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    lines = [line for line in BLOCK.findall(text)[0][1].splitlines() if line.strip()]
    first = next(i for i, line in enumerate(lines) if line.startswith("class KeyDoor"))
    last = next(i for i, line in enumerate(lines) if ".transfer(" in line)
    assert last - first + 1 <= 20


def test_a_run_of_the_page_on_rewards_says_what_the_page_does(elsewhere: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "rewards.md").read_text(encoding="utf-8"))
    command = shlex.split(blocks[0][1].splitlines()[0], comments=True)
    ran = CliRunner().invoke(app, command[1:])
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.startswith(blocks[1][1])


def test_the_experiment_of_the_page_on_experiments_is_one(elsewhere: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "experiments.md").read_text(encoding="utf-8"))
    path = elsewhere / "mine.toml"
    path.write_text(next(text for kind, text in blocks if kind == "toml"))
    spec = read_spec(path)
    assert [scenario.environment for scenario in spec.scenarios] == [
        "four-paths",
        "four-paths",
        "chain",
        "FrozenLake-v1",
    ]
