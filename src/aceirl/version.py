"""Which version this is."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path


def version() -> str:
    """The version that is installed; of sources that are not installed, the one in the project file beside them."""
    try:
        return importlib.metadata.version("aceirl")
    except importlib.metadata.PackageNotFoundError:
        import tomllib

        project = Path(__file__).parents[2] / "pyproject.toml"
        return str(tomllib.loads(project.read_text())["project"]["version"]) if project.exists() else "unknown"
