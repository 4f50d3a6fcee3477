"""Recordings step by step: lists in Gymnasium's order, lines of JSON, and arrays with an entry for each step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.data.dataset import Trajectory
from aceirl.data.recording import Recording, recorded_episode, rows_of, same_observation
from aceirl.data.recordings_libraries import of_split_arrays
from aceirl.errors import InputError

# What an entry of a step is called; the plural is allowed too.
WORDS: dict[str, tuple[str, ...]] = {
    "observation": ("observation", "obs", "state"),
    "action": ("action", "act"),
    "next_observation": ("next_observation", "next_obs", "next_state"),
    "terminated": ("terminated", "terminal", "termination"),
    "done": ("done",),
    "truncated": ("truncated", "timeout", "truncation"),
    "episode": ("episode", "episode_id"),
    "episode_start": ("episode_start",),
    "step": ("step",),
}
WORD_OF = {name: word for word, singular in WORDS.items() for one in singular for name in (one, f"{one}s")}

ENDS = "'terminated' and 'truncated', an 'episode' number, or a 'next_observation'"

FORMS = (
    "a Minari dataset (its folder or id), imitation's trajectories or the folder they were saved in, lines of JSON "
    "(.jsonl), arrays (.npz), or episodes as lists of (observation, action, reward, terminated, truncated)"
)


SAID_OF_ENDS = ("terminated", "truncated", "done")


def how_it_ended(step: Mapping[str, Any]) -> bool | None:
    """Whether an episode was over with a step; None if the step is the last and it is not said why."""
    if step.get("done") and not {"terminated", "truncated"} & step.keys():
        return None
    return bool(step.get("terminated", step.get("done") and not step.get("truncated")))


def is_episode(entry: Mapping[str, Any]) -> bool:
    """Whether a mapping holds the columns of an episode, and not a step."""
    actions = next((value for name, value in entry.items() if WORD_OF.get(name) == "action"), None)
    return (
        isinstance(actions, Sequence | np.ndarray)
        and np.ndim(actions) > 0
        and any(name in entry for name in ("observations", "obs"))
    )


def of_listed(one: Any, where: str) -> Trajectory:
    """An episode as columns by name, or as a list of steps."""
    if isinstance(one, Mapping):
        columns = {WORD_OF.get(name, name): value for name, value in one.items()}
        missing = next((name for name in ("observation", "action") if name not in columns), None)
        if missing is not None:
            raise InputError(f"{where} has no {missing!r}")
        n = len(rows_of(columns["action"]))
        for name in ("terminated", "truncated", "done"):
            if (size := np.size(columns.get(name, False))) not in (1, n):
                raise InputError(f"{where}: there are {n} actions, but '{name}' has {size} entries")
        ended = how_it_ended({name: np.asarray(value).any() for name, value in columns.items() if name in SAID_OF_ENDS})
        return recorded_episode(rows_of(columns["observation"]), rows_of(columns["action"]), ended, where)
    if not isinstance(one, Sequence | np.ndarray) or isinstance(one, str):
        raise InputError(f"{where} is {one!r}, not an episode: a recording is {FORMS}")
    steps = [(_named(step, f"{where}, step {number}"), f"{where}, step {number}") for number, step in enumerate(one)]
    if not steps:
        raise InputError(f"{where} has no step; leave it out")
    for named, place in steps[:-1]:
        if any(named.get(name) for name in SAID_OF_ENDS):
            raise InputError(f"{place} ends the episode, but more steps follow; begin a new list after it")
    (episode,) = of_steps(((named | {"episode": 0}, place) for named, place in steps), where)
    return recorded_episode(episode.observations, episode.actions, episode.terminated, where)


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


def lines_of(path: Path) -> Iterator[tuple[Mapping[str, Any], str]]:
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


def of_steps(steps: Iterable[tuple[Mapping[str, Any], str]], where: str) -> Iterator[Trajectory]:
    """Steps one after the other, each with its place, put together to episodes."""
    going: _Going | None = None
    divided = False
    count = 0
    for given, place in steps:
        step = {WORD_OF[name]: value for name, value in given.items() if name in WORD_OF}
        for name in ("observation", "action"):
            if name not in step:
                raise InputError(f"{place} has no {name!r}; a step needs an observation and an action")
        divided |= bool(step.keys() & {*SAID_OF_ENDS, "episode", "episode_start", "next_observation"})
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
        if any(last.get(name) for name in SAID_OF_ENDS) or step.get("episode_start"):
            return True
        if "episode" in step or self.number is not None:
            return bool(step.get("episode") != self.number)
        following = last.get("next_observation")
        return following is not None and not same_observation(following, step["observation"])

    def episode(self, where: str) -> Trajectory:
        """All of it."""
        after = self.last.get("next_observation")
        observations = self.observations if after is None else [*self.observations, after]
        begins = self.place if where in self.place else f"{where}, {self.place}"
        ended = how_it_ended(self.last)
        return recorded_episode(observations, self.actions, ended, f"the episode that begins at {begins}")


def arrays_of(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except Exception as error:
        raise InputError(f"{path} cannot be read as arrays: {type(error).__name__}: {error}") from None


def of_arrays(arrays: Mapping[str, Any], where: str) -> Recording:
    if "indices" in arrays and "acts" in arrays:
        return of_split_arrays(arrays, where)
    columns = {WORD_OF[name]: rows_of(value) for name, value in arrays.items() if name in WORD_OF}
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
        ended = how_it_ended({name: np.asarray(columns[name]).any() for name in columns if name in SAID_OF_ENDS})
        return Recording((recorded_episode(columns["observation"], columns["action"], ended, where),))
    steps = ({name: column[k] for name, column in columns.items()} for k in range(n))
    return Recording(tuple(of_steps(((step, f"step {k}") for k, step in enumerate(steps)), where)))
