"""What the package offers: every public name is there, typed, and nothing heavy is loaded before it is used."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import aceirl


@pytest.mark.parametrize("name", aceirl.__all__)
def test_every_public_name_is_there_and_explained(name: str) -> None:
    value = getattr(aceirl, name)
    assert name == "__version__" or value.__doc__


PACKAGES = [
    ".".join(path.parent.relative_to(Path(aceirl.__file__).parents[1]).parts)
    for path in sorted(Path(aceirl.__file__).parent.glob("*/**/__init__.py"))
    if "__all__ =" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("package", ["aceirl", *PACKAGES])
def test_public_functions_and_classes_are_explained_with_the_shapes_of_arrays(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            words = inspect.getdoc(value)
            assert words, f"{package}.{name}"
            if inspect.isfunction(value) and "FloatArray" in str(inspect.signature(value)):
                assert "[" in words, f"{package}.{name} does not say which shapes it takes"


def test_types_are_known_for_the_names_that_are_loaded_late() -> None:
    tree = ast.parse(Path(aceirl.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed | {"__version__"} == set(aceirl.__all__)


def test_an_unknown_name_is_said_to_be_one() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'ActiveIrl'"):
        _ = aceirl.ActiveIrl
