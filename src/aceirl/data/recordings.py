"""Recorded trajectories, read from the forms in which people have them: what was observed, and what was done.

Whatever the form, a recording becomes episodes. A form is recognised by looking at it:

* a Minari dataset, its folder or its id;
* imitation's trajectories (`obs`, `acts`, `terminal`), or the folder in which imitation or Hugging Face keeps them;
* episodes as lists of steps, as one writes them down in Gymnasium's loop;
* lines of JSON, one for each step (`.jsonl`);
* arrays with an entry for each step, by name, in a file (`.npz`) or as a data frame, as D4RL and others have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from aceirl.data.recording import Recording, with_known_ends
from aceirl.data.recordings_libraries import (
    minari_by_id,
    of_buffer,
    of_minari,
    of_trajectories,
    open_minari,
    rows_of_arrow,
)
from aceirl.data.recordings_steps import FORMS, arrays_of, is_episode, lines_of, of_arrays, of_listed, of_steps
from aceirl.errors import InputError


def read_recording(data: Any) -> Recording:
    """The recording that `data` is, or that is in the file or folder of that name."""
    found = _of_path(data) if isinstance(data, str | Path) else _of_object(data)
    if not found.episodes:
        raise InputError("the recording has no episode")
    return with_known_ends(found)


def _of_path(data: str | Path) -> Recording:
    path = Path(data)
    if not path.exists():
        if path.suffix in (".jsonl", ".npz", ".json"):
            raise InputError(f"there is no file {path}")
        return minari_by_id(str(data))
    if path.is_dir():
        return _of_folder(path)
    if path.suffix == ".npz":
        return of_arrays(arrays_of(path), str(path))
    if path.suffix in (".jsonl", ".json"):
        return Recording(tuple(of_steps(lines_of(path), str(path))))
    raise InputError(f"{path} is not {FORMS}")


def _of_folder(path: Path) -> Recording:
    for folder in (path, path / "data"):
        if (folder / "metadata.json").exists():
            return of_minari(open_minari(folder))
    shards = sorted(path.glob("*.arrow"))
    if shards:
        return of_trajectories([row for shard in shards for row in rows_of_arrow(shard)], str(path))
    lines = sorted(path.glob("*.jsonl"))
    if len(lines) == 1:
        return _of_path(lines[0])
    raise InputError(
        f"the folder {path} is not a recording: it needs metadata.json (Minari), files that end in .arrow (Hugging "
        "Face), or one file that ends in .jsonl"
    )


def _of_object(data: Any) -> Recording:
    if isinstance(data, Recording):
        return data
    if hasattr(data, "iterate_episodes"):
        return of_minari(data)
    if isinstance(data, Mapping):
        return of_arrays(dict(data), "the recording")
    if hasattr(data, "columns") and hasattr(data, "to_numpy"):  # a data frame of pandas or polars
        return of_arrays({str(name): list(data[name]) for name in data.columns}, "the data frame")
    if hasattr(data, "episodes"):  # an EpisodeLog
        return _of_object([one for one in data.episodes if one.actions])
    if hasattr(data, "next_obs"):  # imitation's Transitions
        named = {"obs": data.obs, "acts": data.acts, "next_obs": data.next_obs, "dones": data.dones}
        return of_arrays(named, "the recording")
    if not isinstance(data, Iterable) or isinstance(data, bytes):
        raise InputError(f"a recording is {FORMS}; got {data!r}")
    episodes = list(data)
    if not episodes:
        return Recording(())
    first = episodes[0]
    if hasattr(first, "acts") or (isinstance(first, Mapping) and "acts" in first and "terminal" in first):
        return of_trajectories(episodes, "the recording")
    if hasattr(first, "actions") and hasattr(first, "observations"):
        return Recording(tuple(of_buffer(one, f"episode {number}") for number, one in enumerate(episodes)))
    if isinstance(first, Mapping) and not is_episode(first):
        return Recording(tuple(of_steps(((one, f"step {n}") for n, one in enumerate(episodes)), "the recording")))
    return Recording(tuple(of_listed(one, f"episode {number}") for number, one in enumerate(episodes)))
