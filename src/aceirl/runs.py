"""A run on disk: configuration, records and state, so that a run killed at any moment goes on as if it had not been."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np

from aceirl.certificates import Wealth
from aceirl.counts import Counts
from aceirl.errors import InputError
from aceirl.irl import Recovered
from aceirl.loop import Record, State, Turn, learn
from aceirl.protocols import Environment, Expert
from aceirl.settings import Settings
from aceirl.tasks import Source

FORMAT = 1
CONFIGURATION, RECORDS, STATE = "run.json", "records.jsonl", "state.npz"


class Run:
    """A folder with `run.json` (what was asked), `records.jsonl` (what happened) and `state.npz` (where it stands).

    After each iteration its record is appended and then the state is replaced, atomically. Whatever lies beyond the
    state when a run is opened again is dropped and done anew; the streams of chance are named by the iteration, so it
    comes out the same.
    """

    def __init__(
        self, path: Path, settings: Settings, source: Source | None = None, parts: dict[str, str] | None = None
    ) -> None:
        self.path, self.settings, self.source, self.parts = path, settings, source, parts or {}

    @classmethod
    def create(
        cls, path: Path, settings: Settings, source: Source | None = None, parts: dict[str, str] | None = None
    ) -> Run:
        """A new run in a new or empty folder; `parts` names what it is made of, if no source can say it."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path} exists and is not empty; resume it, or choose another folder")
        configuration = {
            "format": FORMAT,
            "version": version("aceirl"),
            "settings": settings.model_dump(),
            "source": None if source is None else vars(source),
            "parts": parts or {},
        }
        with _disk(path):
            path.mkdir(parents=True, exist_ok=True)
            _replace(path / CONFIGURATION, lambda file: file.write(json.dumps(configuration, indent=2).encode()))
        return cls(path, settings, source, parts)

    @classmethod
    def open(cls, path: Path) -> Run:
        """A run that was created before."""
        try:
            configuration = json.loads((path / CONFIGURATION).read_text())
            if configuration["format"] != FORMAT:
                raise InputError(f"{path} was written in format {configuration['format']}; this version reads {FORMAT}")
            source = configuration["source"] and Source(**configuration["source"])
            return cls(path, Settings(**configuration["settings"]), source, configuration["parts"])
        except FileNotFoundError:
            raise InputError(f"{path} is not a run: it has no {CONFIGURATION}") from None
        except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise InputError(f"{path / CONFIGURATION} cannot be read as a run: {error}") from None

    def records(self) -> list[Record]:
        """The records of all iterations that the state stands for."""
        state = self.state()
        return [] if state is None else self._lines()[: state.iteration]

    def state(self) -> State | None:
        """The state after the last whole iteration; None if there was none."""
        try:
            with np.load(self.path / STATE, allow_pickle=False) as file:
                return _unpacked(dict(file))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise InputError(f"{self.path / STATE} cannot be read as the state of a run: {error}") from None

    def go_on(self, environment: Environment, expert: Expert, **options: Any) -> Iterator[Turn]:
        """Turns of the loop from where the run stands, each on disk before it is yielded. Options as in `learn`."""
        with self._alone():
            state, records = self.state(), self.records()
            if state is not None and len(records) < state.iteration:
                raise InputError(f"{self.path / RECORDS} lacks records that {STATE} stands for")
            if records and records[-1].stopped:
                return
            with _disk(self.path):
                lines = "".join(json.dumps(record.to_json()) + "\n" for record in records)
                _replace(self.path / RECORDS, lambda file: file.write(lines.encode()))
            for turn in learn(environment, expert, self.settings, state=state, **options):
                self._save(turn)
                yield turn

    def _save(self, turn: Turn) -> None:
        with _disk(self.path):
            with (self.path / RECORDS).open("a") as file:
                file.write(json.dumps(turn.record.to_json()) + "\n")
            _replace(self.path / STATE, lambda file: np.savez(file, **_packed(turn.state)))

    def _lines(self) -> list[Record]:
        try:
            lines = (self.path / RECORDS).read_text().splitlines()
        except FileNotFoundError:
            return []
        records = []
        for number, line in enumerate(lines, start=1):
            try:
                records.append(Record(**json.loads(line)))
            except (json.JSONDecodeError, TypeError) as error:
                if number < len(lines):
                    raise InputError(f"{self.path / RECORDS}, line {number} is not a record: {error}") from None
        return records

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Two processes must not write one run."""
        with (self.path / CONFIGURATION).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{self.path} is being written by another process") from None
            yield


def _packed(state: State) -> dict[str, Any]:
    """A state as named arrays; nothing in it needs pickling."""
    arrays: dict[str, Any] = {"iteration": state.iteration}
    if state.accuracy is not None:
        arrays["accuracy"] = state.accuracy
    if state.policy is not None:
        arrays["policy"] = state.policy
    arrays |= {f"counts.{field.name}": getattr(state.counts, field.name) for field in fields(Counts)}
    if state.names:
        arrays["names"] = np.array([name.encode("ascii") for name in state.names])
    if state.wealth is not None:
        arrays |= {f"wealth.{field.name}": getattr(state.wealth, field.name) for field in fields(Wealth)}
    if state.recovered is not None:
        arrays |= {f"recovered.{field.name}": getattr(state.recovered, field.name) for field in fields(Recovered)}
    return arrays | {f"memory.{name}": array for name, array in state.memory.items()}


def _unpacked(arrays: dict[str, Any]) -> State:
    def group(name: str) -> dict[str, Any]:
        chosen = {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}
        return {key: value if value.ndim else value.item() for key, value in chosen.items()}

    return State(
        iteration=int(arrays["iteration"]),
        counts=Counts(**group("counts")),
        recovered=Recovered(**group("recovered")) if "recovered.reward" in arrays else None,
        wealth=Wealth(**group("wealth")) if "wealth.now" in arrays else None,
        policy=arrays.get("policy"),
        accuracy=float(arrays["accuracy"]) if "accuracy" in arrays else None,
        memory={key.removeprefix("memory."): value for key, value in arrays.items() if key.startswith("memory.")},
        names=tuple(name.decode("ascii") for name in arrays.get("names", [])),
    )


def _replace(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file under another name and move it into place, so that it is there whole or not at all."""
    draft = path.with_name(path.name + ".draft")
    with draft.open("wb") as file:
        write(file)
        file.flush()
    os.replace(draft, path)


@contextlib.contextmanager
def _disk(path: Path) -> Iterator[None]:
    """What goes wrong with the disk is said in one line; what was written before stays."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot write to {path}: {reason}; all earlier iterations are kept") from error
