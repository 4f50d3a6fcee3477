"""Recordings as other libraries keep them: imitation's trajectories and Minari's datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.data.dataset import Trajectory
from aceirl.data.recording import Recording, recorded_episode, rows_of
from aceirl.errors import InputError


def of_trajectories(trajectories: Sequence[Any], where: str) -> Recording:
    """imitation's: an observation more than actions, and `terminal`."""

    def part(one: Any, name: str, where: str) -> Any:
        found = one.get(name) if isinstance(one, Mapping) else getattr(one, name, None)
        if found is None:
            raise InputError(f"{where} has no {name!r}; a trajectory of imitation has obs, acts and terminal")
        return found

    found = []
    for number, one in enumerate(trajectories):
        place = f"{where}: trajectory {number}"
        obs, acts = part(one, "obs", place), part(one, "acts", place)
        found.append(recorded_episode(rows_of(obs), rows_of(acts), bool(part(one, "terminal", place)), place))
    return Recording(tuple(found))


def of_split_arrays(arrays: Mapping[str, Any], where: str) -> Recording:
    """imitation's older files: trajectories one after the other, split at `indices`."""
    for name in ("obs", "terminal"):
        if name not in arrays:
            raise InputError(f"{where} has no array {name!r}, which trajectories with 'indices' have")
    cuts = np.asarray(arrays["indices"], dtype=np.int64)
    acts = np.split(np.asarray(arrays["acts"]), cuts)
    obs = np.split(np.asarray(arrays["obs"]), cuts + np.arange(1, len(cuts) + 1))
    ends = np.asarray(arrays["terminal"]).tolist()
    if len(ends) != len(acts):
        raise InputError(f"{where} has {len(acts)} trajectories, but 'terminal' has {len(ends)} entries")
    return of_trajectories(
        [{"obs": o, "acts": a, "terminal": end} for o, a, end in zip(obs, acts, ends, strict=True)], where
    )


def rows_of_arrow(path: Path) -> list[dict[str, Any]]:
    """The rows of a file in the format of Arrow, in which Hugging Face's library keeps datasets."""
    try:
        from pyarrow import ipc, memory_map
    except ImportError:
        raise InputError(f"{path} needs pyarrow: pip install 'aceirl[report]'") from None
    try:
        with memory_map(str(path)) as source:
            table = ipc.open_stream(source).read_all()
        columns = [name for name in ("obs", "acts", "terminal") if name in table.column_names]
        rows: list[dict[str, Any]] = table.select(columns).to_pylist()
        return rows
    except Exception as error:
        raise InputError(f"{path} cannot be read as a dataset: {type(error).__name__}: {error}") from None


def of_buffer(one: Any, where: str) -> Trajectory:
    """Minari's episodes, and those of an `EpisodeLog`."""
    ends = getattr(one, "terminations", None)
    terminated = bool(getattr(one, "terminated", False)) if ends is None else bool(np.asarray(ends).any())
    return recorded_episode(rows_of(one.observations), rows_of(one.actions), terminated, where)


def of_minari(dataset: Any) -> Recording:
    episodes = (of_buffer(one, f"episode {one.id}") for one in dataset.iterate_episodes())
    spec = dataset.env_spec
    named = None if spec is None else (str(spec.id), dict(spec.kwargs))
    return Recording(tuple(episodes), (dataset.observation_space, dataset.action_space), named)


def open_minari(folder: Path) -> Any:
    try:
        from minari import MinariDataset
    except ImportError:
        raise InputError(f"{folder} is a Minari dataset, which needs Minari: pip install 'aceirl[minari]'") from None
    try:
        return MinariDataset(folder)
    except Exception as error:
        raise InputError(f"{folder} cannot be read as a Minari dataset: {type(error).__name__}: {error}") from None


def minari_by_id(name: str) -> Recording:
    try:
        from minari.storage import get_dataset_path
    except ImportError:
        raise InputError(
            f"there is no file or folder {name}; if it is the id of a Minari dataset: pip install 'aceirl[minari]'"
        ) from None
    folder = get_dataset_path(name) / "data"
    if not folder.exists():
        raise InputError(f"{name} is neither a file or folder, nor a Minari dataset on this machine")
    return of_minari(open_minari(folder))
