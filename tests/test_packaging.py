"""The wheel and the source distribution, built here without a network: what is in them, and what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import aceirl
from aceirl.cli.app import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = f"aceirl-{PROJECT['version']}"


def uv() -> str:
    """The copy of uv that runs these tests, the checkout's own, or one on the path."""
    own = ROOT / ".tools" / "bin" / "uv"
    found = os.environ.get("UV") or (str(own) if own.exists() else shutil.which("uv"))
    if found is None and os.environ.get("CI") != "true":
        pytest.skip("needs uv, which `make test` brings")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both; the wheel is made from the source distribution, as an installer would."""
    out = tmp_path_factory.mktemp("dist")
    words = [uv(), "build", "--offline", "--quiet", "--python", sys.executable, "--out-dir", str(out), str(ROOT)]
    made = subprocess.run(words, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl")


@pytest.fixture(scope="module")
def sdist(built: Path) -> set[str]:
    """The files of the source distribution, below its folder."""
    with tarfile.open(built / f"{NAME}.tar.gz") as archive:
        files = [member.name for member in archive.getmembers() if member.isfile()]
    assert all(name.startswith(f"{NAME}/") for name in files)
    return {name.removeprefix(f"{NAME}/") for name in files}


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA"))


def kept(folder: str) -> set[str]:
    """The files of a folder that belong to the project; `make docs` writes the gallery's pages beside those of docs."""
    made = {"__pycache__", "gallery"}
    paths = [path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {path.as_posix() for path in paths if made.isdisjoint(path.parts)}


def test_the_wheel_has_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    files = {name for name in wheel.namelist() if not name.endswith("/")}
    package = {name for name in files if not name.startswith(f"{NAME}.dist-info/")}
    assert package == {name.removeprefix("src/") for name in kept("src")}
    assert "aceirl/py.typed" in package
    assert {"aceirl/web/templates/page.html", "aceirl/explain/templates/run.html"} <= package
    assert f"{NAME}.dist-info/licenses/LICENSE" in files
    assert wheel.read(f"{NAME}.dist-info/entry_points.txt").decode().split() == [
        "[console_scripts]",
        "aceirl",
        "=",
        "aceirl.cli:main",
    ]


@pytest.mark.parametrize("folder", [".ci", "src", "tests", "docs", "studies", "benchmarks"])
def test_the_source_distribution_has_all_that_is_tested_and_read(sdist: set[str], folder: str) -> None:
    there = {name for name in sdist if name.startswith(f"{folder}/")}
    assert there == kept(folder)


def test_the_source_distribution_has_what_stands_beside_the_code(sdist: set[str]) -> None:
    beside = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "pyproject.toml"}
    assert beside <= sdist
    left_out = (".git", ".tools/", ".venv/", "runs/", "node_modules/")
    assert not any(name.startswith(left_out) or "__pycache__" in name for name in sdist)


def test_the_metadata_are_true(metadata: Message) -> None:
    assert metadata["Name"] == "aceirl"
    assert metadata["Version"] == PROJECT["version"] == aceirl.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert metadata.get_content_type() == "text/plain"
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    classifiers = metadata.get_all("Classifier") or []
    versions = [one.rpartition(" ")[2] for one in classifiers if re.search(r":: 3\.\d+$", one)]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert f"Programming Language :: Python :: {sys.version_info[0]}.{sys.version_info[1]}" in classifiers
    assert f"version: {PROJECT['version']}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()


def test_every_version_that_is_claimed_is_checked_before_a_release() -> None:
    script = (ROOT / ".ci" / "release-check").read_text(encoding="utf-8")
    for classifier in PROJECT["classifiers"]:
        if version := re.search(r":: (3\.\d+)$", classifier):
            assert version[1] in script


def test_every_dependency_has_a_lower_bound_and_every_extra_that_is_named_exists() -> None:
    extras = PROJECT["optional-dependencies"]
    for requirement in (*PROJECT["dependencies"], *(one for needed in extras.values() for one in needed)):
        assert ">=" in requirement or requirement.startswith("aceirl["), requirement
    assert set(EXTRAS.values()) <= set(extras)
    (everything,) = extras["all"]
    assert set(re.split(r"[\[\],]", everything)[1:-1]) == set(extras) - {"all", "gpu"}, "a GPU is not for everybody"


BARE = """
import importlib, sys
for name in {blocked!r}:
    sys.modules[name] = None
for name in aceirl_names:
    importlib.import_module(f"aceirl.{{name}}")
import aceirl
assert aceirl.ActiveIRL and aceirl.load and aceirl.make
from aceirl.cli import app
"""


def test_the_core_needs_none_of_the_extras() -> None:
    """As after a plain `pip install aceirl`: the libraries of the extras cannot be imported."""
    units = [
        "runs.api",
        "runs.advise",
        "explain.goal",
        "experts.tasks",
        "explain",
        "learner.transfer",
        "cli",
        "bench.specs",
    ]
    script = f"aceirl_names = {units!r}\n" + BARE.format(blocked=sorted(EXTRAS))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_wheel_is_complete_in_itself(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Unpacked elsewhere and taken instead of the checkout, it says its version and lists what can be run."""
    wheel.extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def said(*words: str) -> str:
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert said("-c", "import aceirl; print(aceirl.__file__)").startswith(str(tmp_path))
    assert said("-m", "aceirl", "--version").split() == ["aceirl", PROJECT["version"]]
    assert "gridworld" in said("-m", "aceirl", "envs")
