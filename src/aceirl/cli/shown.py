"""What `aceirl show` said of a run, kept in its folder: it is said again for as long as nothing it rests on changes."""

from __future__ import annotations

import contextlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aceirl.learner.settings import Settings
    from aceirl.runs.folder import Run

SHOWN = "shown.json"


def shown_before(folder: Path) -> list[str] | None:
    """The lines, if neither the run nor the software has changed and all that was drawn is still there."""
    try:
        kept = json.loads((folder / SHOWN).read_text())
        drawn = [folder / name for name in kept["drawn"]]
        same = kept["of"] == rests_on(folder) and list(kept["drawn"].values()) == _as_they_are(drawn)
        return [*kept["said"], *(f"  {one}" for one in drawn), *kept["besides"]] if same else None
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or something else has that name
        return None


def keep_shown(
    run: Run, settings: Settings, of: list[object], said: list[str], drawn: list[Path], besides: list[str]
) -> None:
    """Keep the lines for the next time, if they rest on nothing else that may change, and the folder can be written to.

    `of` is what they rest on. A part of one's own, or a file of features, may change.
    """
    from aceirl.rewards import FeatureFile
    from aceirl.runs.files import replace

    parts = settings.strategy, settings.irl, settings.reward, settings.confidence, settings.certify
    if any(part is not None and not part.__module__.startswith("aceirl.") for part in parts):
        return
    if isinstance(settings.reward, FeatureFile):
        return
    with contextlib.suppress(OSError):
        names = [str(one.relative_to(run.path)) for one in drawn]
        kept = {"of": of, "said": said, "drawn": dict(zip(names, _as_they_are(drawn), strict=True)), "besides": besides}
        replace(run.path / SHOWN, json.dumps(kept).encode(), private=run.private)


def rests_on(folder: Path) -> list[object]:
    """The size and the time of each file that the run has written, and of the software; and the folder's name."""
    package = Path(__file__).parents[1]
    newest = max(one.stat().st_mtime_ns for one in package.rglob("*") if one.suffix in (".py", ".html"))
    names = ("run.json", "records.jsonl", "state.npz", "environment.npz")
    files = [one for name in names if (one := folder / name).exists()]
    return [version("aceirl"), newest, folder.resolve().name, *_as_they_are(files)]


def _as_they_are(files: list[Path]) -> list[list[int]]:
    """The size and the time of each file."""
    return [[found.st_size, found.st_mtime_ns] for found in (one.stat() for one in files)]
