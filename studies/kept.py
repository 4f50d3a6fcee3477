"""Finished runs of a study, kept in a file so that it can go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Kept:
    """Finished runs by family and seed, in a file of JSON lines if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self.runs: dict[tuple[str, int], dict[str, Any]] = {
            (run["family"], run["seed"]): run for run in map(json.loads, lines)
        }

    def add(self, run: dict[str, Any]) -> None:
        """One more."""
        self.runs[run["family"], run["seed"]] = run
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run) + "\n")
