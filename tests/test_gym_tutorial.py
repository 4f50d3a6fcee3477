"""The tutorial says what happens: its blocks are executed in order, and what they print is compared."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs_and_prints_what_it_says() -> None:
    names: dict[str, Any] = {"__name__": "tutorial"}
    printed, compared = "", 0
    for kind, text in BLOCK.findall(TUTORIAL.read_text()):
        if kind == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, str(TUTORIAL), "exec"), names)
            printed = output.getvalue()
        elif kind == "text":
            assert printed == text
            compared += 1
    assert compared == 3
