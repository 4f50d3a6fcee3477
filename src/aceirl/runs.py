"""A run on disk: configuration, records and state, so that a run killed at any moment goes on as if it had not been."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import fields
from dataclasses import replace as changed
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.counts import Counts
from aceirl.errors import InputError
from aceirl.files import alone, disk, replace
from aceirl.loop import learn
from aceirl.protocols import Environment, Expert
from aceirl.rewards import Explanation, Recovered
from aceirl.settings import Settings
from aceirl.sources import Source
from aceirl.turns import Record, RunState, Turn

FORMAT = 3
CONFIGURATION, RECORDS, STATE = "run.json", "records.jsonl", "state.npz"
KEPT = "all earlier iterations are kept"

# The expert of a run whose demonstrations lie in its own folder, wherever that is moved to.
HERE = "."


class Run:
    """A folder with `run.json` (what was asked), `records.jsonl` (what happened) and `state.npz` (where it stands).

    After each iteration its record is appended and then the state is replaced, atomically. Whatever lies beyond the
    state when a run is opened again is dropped and done anew; the streams of randomness are named by the iteration, so
    it comes out the same.
    """

    def __init__(
        self, path: Path, settings: Settings, source: Source | None = None, parts: dict[str, str] | None = None
    ) -> None:
        self.path, self.settings, self.source, self.parts = path, settings, source, parts or {}

    @classmethod
    def create(
        cls, path: Path | str, settings: Settings, source: Source | None = None, parts: dict[str, str] | None = None
    ) -> Run:
        """A new run in a new or empty folder; `parts` names what it is made of, if no source can say it."""
        path = Path(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path} exists and is not empty; resume it, or choose another folder")
        configuration = _configuration(settings, source, parts)  # an error here leaves no folder behind
        with disk(path):
            path.mkdir(parents=True, exist_ok=True)
            replace(path / CONFIGURATION, configuration)
        return cls(path, settings, source, parts)

    @classmethod
    def written(cls, path: Path, settings: Settings, source: Source, turn: Turn, stopped: str) -> Run:
        """The last turn of an interview, left in its folder as a run that is over, which only its owner can read.

        There is one record, that of the turn. `stopped` says why it is the last if the settings do not.
        """
        record = changed(turn.record, stopped=turn.record.stopped or stopped)
        with disk(path):
            replace(path / STATE, _arrays(turn.state), private=True)
            replace(path / RECORDS, (json.dumps(record.to_json()) + "\n").encode(), private=True)
            replace(path / CONFIGURATION, _configuration(settings, source), private=True)
        return cls(path, settings, source)

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """A run that was created before."""
        path = Path(path)
        try:
            configuration = json.loads((path / CONFIGURATION).read_text())
            if configuration["format"] != FORMAT:
                raise InputError(
                    f"{path} is of another version, whose promises rest on something else (format "
                    f"{configuration['format']}, this one reads {FORMAT}); run it again"
                )
            source = configuration["source"] and Source(**configuration["source"])
            if source and source.expert == HERE:
                source = changed(source, expert=str(path))
            return cls(path, Settings(**configuration["settings"]), source, configuration["parts"])
        except FileNotFoundError:
            raise InputError(f"{path} is not a run: it has no {CONFIGURATION}") from None
        except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise InputError(f"{path / CONFIGURATION} cannot be read as a run: {error}") from None

    def records(self) -> list[Record]:
        """The records of all iterations that the state stands for."""
        state = self.state()
        return [] if state is None else self._lines()[: state.iteration]

    def state(self) -> RunState | None:
        """The state after the last whole iteration; None if there was none."""
        try:
            with np.load(self.path / STATE, allow_pickle=False) as file:
                return _unpacked(dict(file))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise InputError(f"{self.path / STATE} cannot be read as the state of a run: {error}") from None

    def resume(self, environment: Environment, expert: Expert, **options: Any) -> Iterator[Turn]:
        """Turns of the loop from where the run stands, each on disk before it is yielded. Options as in `learn`."""
        with alone(self.path, "another process is writing this run"):
            state, records = self.state(), self.records()
            if records and records[-1].stopped:
                return
            if state is not None and len(records) < state.iteration:
                raise InputError(f"{self.path / RECORDS} lacks records that {STATE} stands for")
            with disk(self.path, KEPT):
                lines = "".join(json.dumps(record.to_json()) + "\n" for record in records)
                replace(self.path / RECORDS, lines.encode(), wait=False)
            for turn in learn(environment, expert, self.settings, state=state, **options):
                self._save(turn)
                yield turn

    def _save(self, turn: Turn) -> None:
        packed = _arrays(turn.state)
        with disk(self.path, KEPT):
            with (self.path / RECORDS).open("a") as file:
                file.write(json.dumps(turn.record.to_json()) + "\n")
            replace(self.path / STATE, packed, wait=False)

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


def _configuration(settings: Settings, source: Source | None, parts: dict[str, str] | None = None) -> bytes:
    configuration = {
        "format": FORMAT,
        "version": version("aceirl"),
        "settings": settings.model_dump(),
        "source": None if source is None else vars(source),
        "parts": parts or {},
    }
    return json.dumps(configuration, indent=2).encode()


def _arrays(state: RunState) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, **_packed(state))
    return packed.getvalue()


def _packed(state: RunState) -> dict[str, Any]:
    """A state as named arrays; nothing in it needs pickling."""
    recovered = {field.name: getattr(state.recovered, field.name) for field in fields(Recovered)}
    parameters, explanation = recovered.pop("parameters"), recovered.pop("explanation")
    told = (
        {} if explanation is None else {field.name: getattr(explanation, field.name) for field in fields(Explanation)}
    )
    groups = {
        "counts": {field.name: getattr(state.counts, field.name) for field in fields(Counts)},
        "recovered": recovered,
        "parameters": parameters,
        "explanation": told,
        "memory": state.memory,
        **{f"evidence.{kind}": memory for kind, memory in state.evidence.items()},
    }
    arrays: dict[str, Any] = {
        "iteration": state.iteration,
        "accuracy": state.accuracy,
        "inferred_at": state.inferred_at,
    }
    if state.names:
        arrays["names"] = np.array([name.encode("ascii") for name in state.names])
    return arrays | {f"{group}.{name}": array for group, named in groups.items() for name, array in named.items()}


def _unpacked(arrays: dict[str, Any]) -> RunState:
    def group(name: str) -> dict[str, Any]:
        return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}

    def plain(name: str) -> dict[str, Any]:
        return {key: value if value.ndim else value.item() for key, value in group(name).items()}

    evidence: dict[str, dict[str, Any]] = {}
    for key, value in group("evidence").items():
        kind, _, name = key.partition(".")
        evidence.setdefault(kind, {})[name] = value
    return RunState(
        iteration=int(arrays["iteration"]),
        counts=Counts(**plain("counts")),
        recovered=Recovered(
            **plain("recovered"),
            parameters=group("parameters"),
            explanation=Explanation(**plain("explanation")) if "explanation.space" in arrays else None,
        ),
        accuracy=float(arrays["accuracy"]),
        inferred_at=int(arrays["inferred_at"]),
        memory=group("memory"),
        evidence=evidence,
        names=tuple(name.decode("ascii") for name in arrays.get("names", [])),
    )
