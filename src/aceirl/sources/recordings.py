"""Recorded trajectories, read from the forms in which people have them: what was observed, and what was done.

Whatever the form, a recording becomes episodes. A form is recognised by looking at it:

* a Minari dataset, its folder or its id;
* imitation's trajectories (`obs`, `acts`, `terminal`), or the folder in which imitation or Hugging Face keeps them;
* episodes as lists of steps, as one writes them down in Gymnasium's loop;
* lines of JSON, one for each step (`.jsonl`);
* arrays with an entry for each step, by name or in a file (`.npz`), as D4RL and others have them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.envs import ENVIRONMENTS, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import RecordedExpert
from aceirl.sources.gymnasium import adapted, gym_env
from aceirl.sources.source import Source, Task

FORMS = (
    "a Minari dataset (its folder or id), imitation's trajectories or the folder they were saved in, lines of JSON "
    "(.jsonl), arrays (.npz), or episodes as lists of (observation, action, reward, terminated, truncated)"
)

# What an entry of a step is called; the plural is allowed too.
WORDS: dict[str, tuple[str, ...]] = {
    "observation": ("observation", "obs", "state"),
    "action": ("action", "act"),
    "next_observation": ("next_observation", "next_obs", "next_state"),
    "terminated": ("terminated", "terminal", "termination", "done"),
    "truncated": ("truncated", "timeout", "truncation"),
    "episode": ("episode", "episode_id"),
    "episode_start": ("episode_start",),
    "step": ("step",),
}
WORD_OF = {name: word for word, singular in WORDS.items() for one in singular for name in (one, f"{one}s")}

ENDS = "'terminated' and 'truncated', an 'episode' number, or a 'next_observation'"


@dataclass(frozen=True, eq=False)
class RecordedEpisode:
    """`actions [n]` and the `observations [n + 1]` before and after them; the last may be missing.

    `terminated` is whether the episode was over then; if not, its recording was. `where` is how errors call it.
    """

    observations: Sequence[Any]
    actions: Sequence[Any]
    terminated: bool
    where: str

    def __post_init__(self) -> None:
        n, seen = len(self.actions), len(self.observations)
        if not n:
            raise InputError(f"{self.where} has no action; leave it out")
        if seen not in (n, n + 1):
            raise InputError(f"{self.where} has {n} actions and {seen} observations; it needs {n + 1}")


@dataclass(frozen=True, eq=False)
class Recording:
    """Episodes that were recorded.

    `spaces` are those of the observations and the actions, and `environment` the id of the Gymnasium environment with
    its parameters, where the recording names them.
    """

    episodes: tuple[RecordedEpisode, ...]
    spaces: tuple[Any, Any] | None = None
    environment: tuple[str, dict[str, Any]] | None = None

    @property
    def longest(self) -> int:
        """The steps of the longest episode."""
        return max(len(episode.actions) for episode in self.episodes)


def read_recording(data: Any) -> Recording:
    """The recording that `data` is, or that is in the file or folder of that name."""
    found = _of_path(data) if isinstance(data, str | Path) else _of_object(data)
    if not found.episodes:
        raise InputError("the recording has no episode")
    return found


def _of_path(data: str | Path) -> Recording:
    path = Path(data)
    if not path.exists():
        if path.suffix in (".jsonl", ".npz", ".json"):
            raise InputError(f"there is no file {path}")
        return _minari_by_id(str(data))
    if path.is_dir():
        return _of_folder(path)
    if path.suffix == ".npz":
        return _of_arrays(_arrays_of(path), str(path))
    if path.suffix in (".jsonl", ".json"):
        return Recording(tuple(_of_steps(_lines_of(path), str(path))))
    raise InputError(f"{path} is not {FORMS}")


def _of_folder(path: Path) -> Recording:
    for folder in (path, path / "data"):
        if (folder / "metadata.json").exists():
            return _of_minari(_minari(folder))
    shards = sorted(path.glob("*.arrow"))
    if shards:
        return _of_trajectories([row for shard in shards for row in _rows_of_arrow(shard)], str(path))
    lines = sorted(path.glob("*.jsonl"))
    if len(lines) == 1:
        return _of_path(lines[0])
    raise InputError(
        f"the folder {path} is no recording: a Minari dataset has metadata.json, one of Hugging Face files that end in "
        ".arrow, and another one file that ends in .jsonl"
    )


def _of_object(data: Any) -> Recording:
    if isinstance(data, Recording):
        return data
    if hasattr(data, "iterate_episodes"):
        return _of_minari(data)
    if isinstance(data, Mapping):
        return _of_arrays(dict(data), "the recording")
    if hasattr(data, "episodes"):  # an EpisodeLog
        return _of_object([one for one in data.episodes if one.actions])
    if hasattr(data, "next_obs"):  # imitation's Transitions
        named = {"obs": data.obs, "acts": data.acts, "next_obs": data.next_obs, "dones": data.dones}
        return _of_arrays(named, "the recording")
    if not isinstance(data, Iterable) or isinstance(data, bytes):
        raise InputError(f"a recording is {FORMS}; got {data!r}")
    episodes = list(data)
    if not episodes:
        return Recording(())
    first = episodes[0]
    if hasattr(first, "acts") or (isinstance(first, Mapping) and "acts" in first and "terminal" in first):
        return _of_trajectories(episodes, "the recording")
    if hasattr(first, "actions") and hasattr(first, "observations"):
        return Recording(tuple(_of_buffer(one, f"episode {number}") for number, one in enumerate(episodes)))
    if isinstance(first, Mapping) and not _is_episode(first):
        return Recording(tuple(_of_steps(((one, f"step {n}") for n, one in enumerate(episodes)), "the recording")))
    return Recording(tuple(_of_listed(one, f"episode {number}") for number, one in enumerate(episodes)))


# Episodes as objects.


def _of_trajectories(trajectories: Sequence[Any], where: str) -> Recording:
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
        found.append(RecordedEpisode(_rows(obs), _rows(acts), bool(part(one, "terminal", place)), place))
    return Recording(tuple(found))


def _of_buffer(one: Any, where: str) -> RecordedEpisode:
    """Minari's episodes, and those of an `EpisodeLog`."""
    ends = getattr(one, "terminations", None)
    terminated = bool(getattr(one, "terminated", False)) if ends is None else bool(np.asarray(ends).any())
    return RecordedEpisode(_rows(one.observations), _rows(one.actions), terminated, where)


def _of_minari(dataset: Any) -> Recording:
    episodes = (_of_buffer(one, f"episode {one.id}") for one in dataset.iterate_episodes())
    spec = dataset.env_spec
    named = None if spec is None else (str(spec.id), dict(spec.kwargs))
    return Recording(tuple(episodes), (dataset.observation_space, dataset.action_space), named)


def _minari(folder: Path) -> Any:
    try:
        from minari import MinariDataset
    except ImportError:
        raise InputError(f"{folder} is a Minari dataset, which needs Minari: pip install 'aceirl[minari]'") from None
    try:
        return MinariDataset(folder)
    except Exception as error:
        raise InputError(f"{folder} cannot be read as a Minari dataset: {type(error).__name__}: {error}") from None


def _minari_by_id(name: str) -> Recording:
    try:
        from minari.storage import get_dataset_path
    except ImportError:
        raise InputError(
            f"there is no file or folder {name}; if it is the id of a Minari dataset: pip install 'aceirl[minari]'"
        ) from None
    folder = get_dataset_path(name) / "data"
    if not folder.exists():
        raise InputError(f"{name} is neither a file or folder, nor a Minari dataset on this machine")
    return _of_minari(_minari(folder))


def _rows_of_arrow(path: Path) -> list[dict[str, Any]]:
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


# Steps, one after the other.


def _is_episode(entry: Mapping[str, Any]) -> bool:
    """Whether a mapping holds the columns of an episode, and not a step."""
    actions = next((value for name, value in entry.items() if WORD_OF.get(name) == "action"), None)
    return (
        isinstance(actions, Sequence | np.ndarray)
        and np.ndim(actions) > 0
        and any(name in entry for name in ("observations", "obs"))
    )


def _of_listed(one: Any, where: str) -> RecordedEpisode:
    """An episode as columns by name, or as a list of steps."""
    if isinstance(one, Mapping):
        columns = {WORD_OF.get(name, name): value for name, value in one.items()}
        missing = next((name for name in ("observation", "action") if name not in columns), None)
        if missing is not None:
            raise InputError(f"{where} has no {missing!r}")
        n = len(_rows(columns["action"]))
        for name in ("terminated", "truncated"):
            if (size := np.size(columns.get(name, False))) not in (1, n):
                raise InputError(f"{where}: there are {n} actions, but '{name}' has {size} entries")
        terminated = bool(np.asarray(columns.get("terminated", False)).any())
        return RecordedEpisode(_rows(columns["observation"]), _rows(columns["action"]), terminated, where)
    if not isinstance(one, Sequence | np.ndarray) or isinstance(one, str):
        raise InputError(f"{where} is {one!r}, not an episode: a recording is {FORMS}")
    steps = [(_named(step, f"{where}, step {number}"), f"{where}, step {number}") for number, step in enumerate(one)]
    if not steps:
        raise InputError(f"{where} has no step; leave it out")
    for named, place in steps[:-1]:
        if named.get("terminated") or named.get("truncated"):
            raise InputError(f"{place} ends the episode, but more steps follow; begin a new list after it")
    (episode,) = _of_steps(((named | {"episode": 0}, place) for named, place in steps), where)
    return RecordedEpisode(episode.observations, episode.actions, episode.terminated, where)


def _named(step: Any, where: str) -> dict[str, Any]:
    """A step as a mapping."""
    if isinstance(step, Mapping):
        return dict(step)
    names = {
        2: ("observation", "action"),
        5: ("observation", "action", "reward", "terminated", "truncated"),
        6: ("observation", "action", "reward", "next_observation", "terminated", "truncated"),
    }
    if not isinstance(step, Sequence | np.ndarray) or len(step) not in names:
        raise InputError(
            f"{where} is {step!r}; a step is (observation, action), (observation, action, reward, terminated, "
            "truncated), or the same with the next observation after the reward"
        )
    return dict(zip(names[len(step)], step, strict=True))


def _lines_of(path: Path) -> Iterator[tuple[Mapping[str, Any], str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            step = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{where} is not JSON: {error}") from None
        if not isinstance(step, dict):
            raise InputError(f"{where} is {step!r}, not a step with an observation and an action")
        yield step, where


def _of_steps(steps: Iterable[tuple[Mapping[str, Any], str]], where: str) -> Iterator[RecordedEpisode]:
    """Steps one after the other, each with its place, put together to episodes."""
    going: _Going | None = None
    divided = False
    count = 0
    for given, place in steps:
        step = {WORD_OF[name]: value for name, value in given.items() if name in WORD_OF}
        for name in ("observation", "action"):
            if name not in step:
                raise InputError(f"{place} has no {name!r}; a step needs an observation and an action")
        divided |= bool(step.keys() & {"terminated", "truncated", "episode", "episode_start", "next_observation"})
        count += 1
        if going is not None and going.is_over_before(step):
            yield going.episode(where)
            going = None
        going = _Going(step, place) if going is None else going.with_step(step, place)
    if not divided and count > 1:
        raise InputError(f"{where} does not say where episodes end; give its steps {ENDS}")
    if going is not None:
        yield going.episode(where)


class _Going:
    """An episode that is being put together."""

    def __init__(self, step: Mapping[str, Any], place: str) -> None:
        self.place, self.number = place, step.get("episode")
        self.observations: list[Any] = []
        self.actions: list[Any] = []
        self.with_step(step, place)

    def with_step(self, step: Mapping[str, Any], place: str) -> _Going:
        """One step further."""
        self.observations.append(step["observation"])
        self.actions.append(step["action"])
        self.last = step
        return self

    def is_over_before(self, step: Mapping[str, Any]) -> bool:
        """Whether a step belongs to the next episode."""
        last = self.last
        if last.get("terminated") or last.get("truncated") or step.get("episode_start"):
            return True
        if "episode" in step or self.number is not None:
            return bool(step.get("episode") != self.number)
        following = last.get("next_observation")
        return following is not None and not _same(following, step["observation"])

    def episode(self, where: str) -> RecordedEpisode:
        """All of it."""
        after = self.last.get("next_observation")
        observations = self.observations if after is None else [*self.observations, after]
        begins = self.place if where in self.place else f"{where}, {self.place}"
        return RecordedEpisode(
            observations, self.actions, bool(self.last.get("terminated")), f"the episode that begins at {begins}"
        )


# Arrays with an entry for each step.


def _arrays_of(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except Exception as error:
        raise InputError(f"{path} cannot be read as arrays: {type(error).__name__}: {error}") from None


def _of_arrays(arrays: Mapping[str, Any], where: str) -> Recording:
    if "indices" in arrays and "acts" in arrays:
        return _of_split_arrays(arrays, where)
    columns = {WORD_OF[name]: _rows(value) for name, value in arrays.items() if name in WORD_OF}
    for name in ("observation", "action"):
        if name not in columns:
            raise InputError(f"{where} has no array '{name}s'; it has {', '.join(sorted(arrays)) or 'none'}")
    n = len(columns["action"])
    called = {WORD_OF[name]: name for name in arrays if name in WORD_OF}
    one_episode = len(columns["observation"]) == n + 1
    for name, column in columns.items():
        if len(column) != n and not (one_episode and name == "observation"):
            raise InputError(f"{where}: there are {n} actions, but '{called[name]}' has {len(column)} entries")
    if one_episode:
        terminated = bool(np.asarray(columns.get("terminated", False)).any())
        return Recording((RecordedEpisode(columns["observation"], columns["action"], terminated, where),))
    steps = ({name: column[k] for name, column in columns.items()} for k in range(n))
    return Recording(tuple(_of_steps(((step, f"step {k}") for k, step in enumerate(steps)), where)))


def _of_split_arrays(arrays: Mapping[str, Any], where: str) -> Recording:
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
    return _of_trajectories(
        [{"obs": o, "acts": a, "terminal": end} for o, a, end in zip(obs, acts, ends, strict=True)], where
    )


def _rows(column: Any) -> Sequence[Any]:
    """The entries of a column; of parts made of columns, entries made of parts."""
    if hasattr(column, "unwrap"):  # imitation's DictObs
        column = column.unwrap()
    if isinstance(column, Mapping):
        parts = {name: _rows(part) for name, part in column.items()}
        return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]
    if isinstance(column, tuple):
        return list(zip(*(_rows(part) for part in column), strict=True))
    array = np.asarray(column) if isinstance(column, np.ndarray) else None
    return list(column) if array is None else list(array)


def _same(one: Any, other: Any) -> bool:
    """Whether two observations are alike."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(part, other[name]) for name, part in one.items())
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return bool(np.array_equal(one, other))


# The environment of a recording.

ONLY_RECORDED = "aceirl.envs.recorded:RecordedEnv"
"""The environment of a recording whose own is not there."""


def recorded_source(recording: Recording, source: Source | None = None) -> Source:
    """What a recording is of: as the source says, or the recording, or its observations and actions alone.

    Episodes are as long as the source says, else as the longest that was recorded: the limit of an environment says
    little of the episodes that an expert has ended before, and no episode is longer than a limit that was met.
    """
    from aceirl.envs.recorded import action_space_of, space_of
    from aceirl.envs.written_space import write_space

    given = Source("", {}, seed=0) if source is None else source
    if given.environment:
        return given
    if recording.environment is not None:
        name, parameters = recording.environment
        named = replace(given, environment=name, parameters=parameters, horizon=given.horizon or recording.longest)
        try:
            gym_env(named).close()
            return named
        except InputError:
            pass  # its spaces are enough
    episodes = recording.episodes
    seen, acted = recording.spaces or (
        space_of([_alike(one) for episode in episodes for one in episode.observations]),
        action_space_of([_alike(one) for episode in episodes for one in episode.actions]),
    )
    spaces = {"observations": write_space(seen), "actions": write_space(acted)}
    return replace(given, environment=ONLY_RECORDED, parameters=spaces, horizon=given.horizon or recording.longest)


def task_to_infer(recording: Recording, source: Source) -> Task:
    """The environment that a source names, and nobody to ask."""
    if source.environment in ENVIRONMENTS:
        for option in ("horizon", "discretise", "wrap"):
            if getattr(source, option):
                raise InputError(f"{option} is for Gymnasium environments; {source.environment} comes with its own")
        problem = make(source.environment, source.seed, **source.parameters)
        return Task(
            Simulator(problem.mdp),
            RecordedExpert(),
            stationary_dynamics=problem.mdp.stationary,
            layout=problem.layout,
            source=source,
        )
    env = gym_env(source)
    timed = replace(source, horizon=source.horizon or recording.longest)
    try:
        return Task(adapted(timed, env), RecordedExpert(), env=env, source=timed)
    except Exception:
        env.close()
        raise


def _alike(value: Any) -> Any:
    """A number as Python has it; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value
