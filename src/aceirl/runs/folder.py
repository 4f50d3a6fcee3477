"""A run on disk: configuration, records and state, so that a run killed at any moment goes on as if it had not been."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from aceirl.certificates import given_up
from aceirl.certificates.budget import BUDGET
from aceirl.certificates.e_process import shows
from aceirl.certificates.policy import WAIT_FOR
from aceirl.errors import InputError
from aceirl.experts.tasks import OfflineTask, Source, Task, World, open_source, read_task, write_task
from aceirl.explain.wish import Statement
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Record, RunState, Turn
from aceirl.protocols import Expert, NumberedEnvironment
from aceirl.rewards import RewardSpace
from aceirl.rewards.spaces import pays_by_state
from aceirl.runs.files import LOCK, DiskError, alone, disk, replace
from aceirl.runs.state import packed, unpacked

FORMAT = 7
CONFIGURATION, RECORDS, STATE, ENVIRONMENT = "run.json", "records.jsonl", "state.npz", "environment.npz"
KEPT = "all earlier iterations are kept"

CONTINUOUS = "continuous"
"""The kind of a run with continuous observations, which has folders of its own (`runs/continuous.py`)."""

SAVE_EVERY = 1.0
"""How many seconds of work a run that is killed may have to do anew: that old the state on disk is at most."""

# The expert of a run whose demonstrations lie in its own folder, wherever that is moved to.
HERE = "."


CHANGEABLE = (
    "strategy",
    "irl",
    "reward",
    "certify",
    "epsilon",
    "max_samples",
    "max_answers",
    "until_regret",
    "infer_after_growth",
)
"""What can be asked differently of a run that has begun."""

FIXED = {
    "delta": "how often a certificate may be wrong has to be chosen before any data",
    "confidence": "the radii have to be chosen before any data",
    "rmax": "the evidence for its certificates is in that unit",
    "max_return": "the evidence for its certificates is in that unit",
    "discount": "the evidence for its certificates is about returns with that discount",
    "episodes_per_iteration": "its records are of batches of that size",
    "seed": "its random numbers come from that seed",
}
"""Why other things cannot; those not named here say how to read what was seen."""


@dataclass(eq=False)
class Run:
    """A folder with `run.json` (what was asked), `records.jsonl` (what happened) and `state.npz` (where it stands).

    `environment.npz` keeps what people call states and actions, how observations are told apart, and the map: a folder
    can be moved, shown and loaded where the environment is not. `parts` name what the run is made of, if no source can
    say it; `changes` say what was asked differently, and when; `told` is what a person said of their wish itself.

    The state is replaced, atomically, after the first iteration, then as soon as the last time is a second ago, and
    when the run ends or is left, for whatever reason but a kill; the records it stands for come first. Whatever lies
    beyond the state when a run is opened again is dropped and done anew; the streams of randomness are named by the
    iteration, so it comes out the same.
    """

    path: Path
    settings: Settings
    source: Source | None = None
    parts: dict[str, str] = field(default_factory=dict)
    changes: list[dict[str, Any]] = field(default_factory=list)
    told: tuple[Statement, ...] = ()

    @classmethod
    def create(
        cls, path: Path | str, settings: Settings, source: Source | None = None, parts: dict[str, str] | None = None
    ) -> Run:
        """A new run in a new or empty folder."""
        run = cls(Path(path), settings, source, parts or {})
        check_free(run.path, "resume it, or choose another folder")
        configuration = run._configuration()  # an error here leaves no folder behind
        with disk(run.path):
            run.path.mkdir(parents=True, exist_ok=True)
            replace(run.path / CONFIGURATION, configuration)
        return run

    @classmethod
    def written(
        cls,
        path: Path,
        settings: Settings,
        source: Source,
        turn: Turn,
        stopped: str,
        told: Sequence[Statement] = (),
    ) -> Run:
        """The last turn of an interview, left in its folder as a run that is over, which only its owner can read.

        There is one record, that of the turn. `stopped` says why it is the last if the settings do not.
        """
        source = changed(source, expert=str(path)) if source.expert == HERE else source
        run = cls(path, settings, source, told=tuple(told))
        assert run.source is not None
        with disk(path), open_source(run.source) as task:
            run._keep(task, turn, complete=True, private=True)
            replace(path / STATE, packed(turn.state), private=True)
            replace(path / RECORDS, _lines([_ended(turn, stopped)]).encode(), private=True)
            replace(path / CONFIGURATION, run._configuration(), private=True)
        return run

    @classmethod
    def saved(cls, path: Path, turn: Turn, records: list[Record], task: Task, parts: dict[str, str]) -> Run:
        """A run that was made without a folder, put into one."""
        run = cls.create(path, turn.settings, task.source, parts)
        run._keep(task, turn, complete=True)
        run._write(records)
        run._save(turn)
        return run

    def copied(self, path: Path) -> None:
        """Put a copy of the folder elsewhere."""
        check_free(path, "choose another folder")
        with disk(path), alone(self.path, "another process is writing this run"):
            shutil.copytree(self.path, path, ignore=shutil.ignore_patterns(LOCK), dirs_exist_ok=True)

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """A run that was created before."""
        path = Path(path)
        if path.is_file():
            raise InputError(f"{path} is a file; a run is a folder with {CONFIGURATION} in it")
        try:
            configuration = json.loads((path / CONFIGURATION).read_text())
            if configuration.get("kind") == CONTINUOUS:
                raise InputError(f"{path} holds a run with continuous observations; this is for numbered states")
            if configuration["format"] != FORMAT:
                raise InputError(
                    f"{path} was written by another version, with other certificates (format "
                    f"{configuration['format']}; this one reads {FORMAT}); run it again, in another folder"
                )
            source = configuration["source"] and Source(**configuration["source"])
            if source and source.expert == HERE:
                source = changed(source, expert=str(path))
            settings = Settings(**configuration["settings"])
            told = tuple(Statement.read(one) for one in configuration.get("told", ()))
            return cls(path, settings, source, configuration["parts"], configuration["changes"], told)
        except FileNotFoundError:
            raise InputError(f"{path} is not a run: it has no {CONFIGURATION}") from None
        except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise InputError(f"{path / CONFIGURATION} cannot be read as a run: {error}") from None

    def records(self) -> list[Record]:
        """The records of all iterations that the state stands for."""
        state = self.state()
        return [] if state is None else self._read_records()[: state.iteration]

    def state(self) -> RunState | None:
        """The state after the last whole iteration; None if there was none."""
        try:
            with np.load(self.path / STATE, allow_pickle=False) as file:
                return unpacked(dict(file))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise InputError(f"{self.path / STATE} cannot be read as the state of a run: {error}") from None

    def kept(self) -> OfflineTask | None:
        """What the folder keeps of the environment and the expert; None before the first iteration."""
        try:
            return read_task((self.path / ENVIRONMENT).read_bytes(), self.source)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise InputError(f"{self.path / ENVIRONMENT} cannot be read: {error}") from None

    def change(self, values: Mapping[str, Any]) -> None:
        """Ask something else of the run from now on; what was seen and answered stays.

        The reward is inferred anew if its space or algorithm changes, and evidence for a promise stays where it can
        show the new accuracy (`shows`).
        """
        settings = changed_settings(self.settings, values, str(self.path))
        before, after = self.settings.model_dump(), settings.model_dump()
        differs = {name: [before[name], after[name]] for name in after if before[name] != after[name]}
        if not differs:
            return
        with alone(self.path, "another process is writing this run"), disk(self.path, KEPT):
            state, records = self.state(), self.records()
            if state is not None:
                state = state_under(state, self.settings, settings)
                replace(self.path / STATE, packed(state), private=self.private)
                note = {"iteration": state.iteration, "samples": records[-1].samples, "stopped": records[-1].stopped}
                self.changes = [*self.changes, {**note, "changed": differs}]
            self.settings = settings
            replace(self.path / CONFIGURATION, self._configuration(), private=self.private)

    def resume(
        self, environment: NumberedEnvironment, expert: Expert, *, task: Task | None = None, **options: Any
    ) -> Generator[Turn, None, None]:
        """Turns of the loop from where the run stands. Options as in `learn`.

        What a turn came to is on disk a second later at most, or when the generator is closed. After a change the last
        turn is yielded first, as the new settings see it. `task` says what the environment and the expert are called,
        and how to draw them.
        """
        with alone(self.path, "another process is writing this run"):
            state, records = self.state(), self.records()
            # An interview leaves the record of its last turn alone.
            if state is not None and (not records or records[-1].iteration != state.iteration):
                raise InputError(f"{self.path / RECORDS} lacks records that {STATE} counts")
            anew = state is not None and any(change["iteration"] == state.iteration for change in self.changes)
            if records and records[-1].stopped and not anew:
                return
            self._write(records)
            about, last, saved, due = task or Task(World(environment), expert), None, None, 0.0
            file: TextIO | None = None
            try:
                for turn in learn(environment, expert, self.settings, state=state, reconsider=anew, **options):
                    if last is None:
                        self._keep(about, turn)
                    if last is None and anew:
                        self._write([*records[:-1], turn.record])
                    else:
                        file = self._append(turn.record, file)
                    last = turn
                    if saved is None or turn.stopped or time.monotonic() >= due:
                        self._save(turn, file)
                        saved, due = turn, time.monotonic() + SAVE_EVERY
                    yield turn
            except DiskError:
                last = saved  # a state never stands for records that were not written
                raise
            finally:
                if file is not None:
                    with disk(self.path, KEPT):
                        file.close()
                if last is not None and last is not saved:
                    self._save(last)
                if last is not None:
                    self._keep(about, last, complete=True)

    def begin_with(self, turn: Turn, task: Task, stopped: str | None = None) -> None:
        """Make what a recording came to the first iteration; the last one too, if `stopped` says why."""
        self._keep(task, turn, complete=stopped is not None)
        self._write([_ended(turn, stopped)])
        self._save(turn)

    def _configuration(self) -> bytes:
        source = self.source
        if source is not None and source.expert == str(self.path):
            source = changed(source, expert=HERE)
        configuration = {
            "format": FORMAT,
            "version": version("aceirl"),
            "settings": self.settings.model_dump(),
            "source": None if source is None else vars(source),
            "parts": self.parts,
            "changes": self.changes,
        }
        if self.told:
            configuration["told"] = [one.to_json() for one in self.told]
        return json.dumps(configuration, indent=2).encode()

    @property
    def private(self) -> bool:
        """Whether only the owner can read the folder's files: those of an interview."""
        return not (self.path / CONFIGURATION).stat().st_mode & 0o077

    def _write(self, records: list[Record]) -> None:
        with disk(self.path, KEPT):
            replace(self.path / RECORDS, _lines(records).encode(), wait=False, private=self.private)

    def _keep(self, task: Task, turn: Turn, *, complete: bool = False, private: bool | None = None) -> None:
        """Write down what the environment and the expert are, for whoever opens the folder without them."""
        space, by_function = turn.space, not isinstance(turn.settings.reward, RewardSpace)
        described = space.as_features() if by_function and space is not None else None
        features = None if described is None else described.features
        kind = turn.belief.estimate.kind
        content = write_task(task, turn.names, kind=kind, features=features, complete=complete)
        with disk(self.path, KEPT):
            replace(self.path / ENVIRONMENT, content, wait=False, private=self.private if private is None else private)

    def _append(self, record: Record, file: TextIO | None) -> TextIO:
        """Add a record to the open file, or open it; it is on disk when the state is that stands for it."""
        with disk(self.path, KEPT):
            file = file or (self.path / RECORDS).open("a")
            file.write(_lines([record]))
        return file

    def _save(self, turn: Turn, records: TextIO | None = None) -> None:
        """Write the state of a turn; the `records` that it stands for come first, if their file is open."""
        with disk(self.path, KEPT):
            if records is not None:
                records.flush()
            replace(self.path / STATE, packed(turn.state), wait=False, private=self.private)

    def _read_records(self) -> list[Record]:
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


def is_continuous_run(folder: str | Path) -> bool:
    """Whether a folder holds a run with continuous observations."""
    try:
        return bool(json.loads((Path(folder) / CONFIGURATION).read_text()).get("kind") == CONTINUOUS)
    except (OSError, ValueError, AttributeError):
        return False


def settings_for(task: Task, settings: Settings) -> Settings:
    """The settings, with what is known of the task where nothing was said."""
    known = {
        "rmax": task.world.rmax,
        "max_return": task.world.max_return,
        "stationary_dynamics": task.world.stationary_dynamics,
        "discount": task.world.discount,
        "episodes_per_iteration": getattr(task.environment, "num_envs", 1),
    }
    said = settings.model_fields_set
    if "stationary_dynamics" in said and settings.stationary_dynamics and not task.world.stationary_dynamics:
        raise InputError(
            "stationary_dynamics is True, but this process has transitions for every step; leave it out, or give "
            "transitions [S, A, S] if they are the same at every step"
        )
    if "rmax" in said:
        known.pop("max_return")
    return settings.model_copy(update={name: value for name, value in known.items() if name not in said})


def changed_settings(settings: Settings, values: Mapping[str, Any], where: str) -> Settings:
    """The settings with other values, as far as a run that has begun can have them; `where` it is."""
    kept = {name: getattr(settings, name) for name in type(settings).model_fields}
    if "certify" in values and settings.strategy == Settings(certify=settings.certify).strategy:
        del kept["strategy"]  # it was the default, and another certificate may have another
    wanted = Settings(**{**kept, **values})
    before, after = settings.model_dump(), wanted.model_dump()
    for name in after:
        if before[name] != after[name] and name not in CHANGEABLE:
            why = FIXED.get(name, "its data depend on it")
            raise InputError(
                f"{where} holds a run with {name} {before[name]!r}, not {after[name]!r}, and that cannot be changed: "
                f"{why}; choose another folder"
            )
    return wanted


def state_under(state: RunState, before: Settings, after: Settings) -> RunState:
    """A state to go on from under other settings: what the old ones made of the counts is left out."""
    was, now = before.model_dump(), after.model_dump()
    evidence = dict(state.evidence)
    horizon = state.counts.shape[0]
    share = after.target(horizon).share(horizon)
    if share != before.target(horizon).share(horizon):
        evidence = {kind: {n: array for n, array in kept.items() if n != WAIT_FOR} for kind, kept in evidence.items()}
        evidence = given_up(evidence, [kind for kind, kept in evidence.items() if not shows(kept, share)])
    if pays_by_state(before.reward) and not pays_by_state(after.reward):
        # It may rest on the last step paying whatever is done there.
        evidence = given_up(evidence, [kind for kind in evidence if kind != BUDGET])
    return changed(
        state,
        evidence=evidence,
        memory=state.memory if was["strategy"] == now["strategy"] else {},
        inferred_at=state.inferred_at if (was["irl"], was["reward"]) == (now["irl"], now["reward"]) else 0,
    )


def check_free(path: Path, instead: str) -> None:
    """An error if there is a file or a folder with anything in it; `instead` is what to do."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} exists and is not empty; {instead}")


def _ended(turn: Turn, stopped: str | None) -> Record:
    """The record of a turn, which is the last one if `stopped` says why."""
    return changed(turn.record, stopped=turn.record.stopped or stopped)


def _lines(records: list[Record]) -> str:
    return "".join(json.dumps(record.to_json()) + "\n" for record in records)
