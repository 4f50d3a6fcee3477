"""What `aceirl show` said of a run, kept in its folder: it is said again for as long as nothing it rests on changes."""

from __future__ import annotations

import contextlib
import json
from importlib.metadata import version
from pathlib import Path

SHOWN = "shown.json"


def shown_before(folder: Path) -> list[str] | None:
    """The lines, if neither the run nor the software has changed and all that was drawn is still there."""
    try:
        kept = json.loads((folder / SHOWN).read_text())
        same = kept["of"] == rests_on(folder) and all((folder / name).exists() for name in kept["drawn"])
        return [*kept["said"], *(f"  {folder / name}" for name in kept["drawn"]), *kept["besides"]] if same else None
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or something else has that name
        return None


def keep_shown(folder: Path, of: list[object], said: list[str], drawn: list[Path], besides: list[str]) -> None:
    """Keep the lines for the next time, if the folder can be written to; `of` is what they rest on."""
    from aceirl.runs.files import replace

    names = [str(one.relative_to(folder)) for one in drawn]
    with contextlib.suppress(OSError):
        kept = {"of": of, "said": said, "drawn": names, "besides": besides}
        replace(folder / SHOWN, json.dumps(kept).encode(), private=True)


def rests_on(folder: Path) -> list[object]:
    """The size and the time of each file that the run has written, and of the software; and the folder's name."""
    package = Path(__file__).parents[1]
    newest = max(one.stat().st_mtime_ns for one in package.rglob("*") if one.suffix in (".py", ".html"))
    names = ("run.json", "records.jsonl", "state.npz", "environment.npz")
    files = [one.stat() for name in names if (one := folder / name).exists()]
    return [version("aceirl"), newest, folder.resolve().name, *([one.st_size, one.st_mtime_ns] for one in files)]
