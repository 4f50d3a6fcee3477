"""The pleasant face: settings in, a reward and what it is worth out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aceirl.certificates import Certificate
from aceirl.errors import InputError
from aceirl.explore import Strategy
from aceirl.irl import InverseReinforcement
from aceirl.loop import Record, State, Turn, certify, learn, target
from aceirl.mdp import FloatArray, IntArray
from aceirl.protocols import Environment, Expert
from aceirl.runs import Run
from aceirl.settings import Settings


@dataclass(frozen=True, eq=False)
class Result:
    """What a run ended with: `reward [H, S, A]` in `[0, rmax]`, its greedy `policy [H, S]`, and the road there.

    `certificate` is the one that was asked for, whether it holds or not; `certificate.in_words()` explains it.
    """

    reward: FloatArray
    policy: IntArray
    certificate: Certificate | None
    records: list[Record]
    state: State

    @property
    def stopped(self) -> str:
        """Why the run ended: `certificate`, `regret` or `budget`."""
        return self.records[-1].stopped or "interrupted"


class ActiveIRL:
    """Learn why an expert acts as it does, asking and exploring as little as possible.

    Keyword arguments are the fields of `Settings`; `strategy` and `irl` may also be objects of your own that follow
    the protocols `Strategy` and `InverseReinforcement`.
    """

    def __init__(
        self, strategy: str | Strategy | None = None, irl: str | InverseReinforcement | None = None, **settings: Any
    ) -> None:
        self._strategy = None if strategy is None or isinstance(strategy, str) else strategy
        self._irl = None if irl is None or isinstance(irl, str) else irl
        if self._strategy is not None and not hasattr(strategy, "plan"):
            raise InputError(f"strategy must be a name or an object with a method `plan`, got {strategy!r}")
        if self._irl is not None and not callable(irl):
            raise InputError(f"irl must be a name or something to call, got {irl!r}")
        names = {"strategy": strategy, "irl": irl}
        self.settings = Settings(**{k: v for k, v in names.items() if isinstance(v, str)}, **settings)

    def fit(
        self,
        environment: Environment,
        expert: Expert,
        *,
        regret: Callable[[IntArray], float] | None = None,
        out: str | Path | None = None,
        callback: Callable[[Turn], None] | None = None,
        progress: bool = False,
    ) -> Result:
        """Explore, ask and infer until the certificate, the regret or the budget says stop.

        `regret` measures a policy `[H, S]` against a truth that the learner does not see. With `out`, every iteration
        is on disk before the next begins, and calling `fit` again with the same folder goes on from there. `callback`
        sees every turn.
        """
        options = {"regret": regret, "explorer": self._strategy, "infer": self._irl}
        records, state = [], None
        if out is None:
            turns = learn(environment, expert, self.settings, **options)  # type: ignore[arg-type]
        else:
            run = self._run(Path(out), environment, expert)
            records, state = run.records(), run.state()
            turns = run.go_on(environment, expert, **options)
        with progress_bar(self.settings, environment.horizon, show=progress) as advance:
            for turn in turns:
                records.append(turn.record)
                state = turn.state
                advance(turn.record)
                if callback:
                    callback(turn)
        assert state is not None
        assert state.recovered is not None
        assert state.policy is not None
        kind = self.settings.certify
        promise = certify(kind, environment, expert, self.settings, state) if kind else None
        return Result(state.recovered.reward, state.policy, promise, records, state)

    def _run(self, path: Path, environment: Environment, expert: Expert) -> Run:
        """The run of a folder: a new one, or one that was begun with the same parts and settings."""
        parts = {"environment": environment, "expert": expert, "strategy": self._strategy, "irl": self._irl}
        names = {part: _qualified_name(thing) for part, thing in parts.items() if thing is not None}
        names["shape"] = f"{environment.horizon} steps, {environment.n_actions} actions"
        if not (path / "run.json").exists():
            return Run.create(path, self.settings, parts=names)
        run = Run.open(path)
        if run.settings != self.settings:
            raise InputError(f"{path} holds a run with other settings; choose another folder")
        for part, name in names.items():
            if run.parts.get(part) != name:
                raise InputError(
                    f"{path} was begun with {part} {run.parts.get(part)}, not {name}; choose another folder"
                )
        return run


def _qualified_name(thing: object) -> str:
    """The name of a function, or of the class of anything else."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


@contextmanager
def progress_bar(settings: Settings, horizon: int, *, show: bool = True) -> Iterator[Callable[[Record], None]]:
    """A line that shows how far a run is: samples spent, answers given, the certificate and the regret."""
    if not show:
        yield lambda record: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("starting; the first run on a machine compiles for a minute", total=settings.max_samples)

        def advance(record: Record) -> None:
            regret = "" if record.regret is None else f" · regret {record.regret:.3f}"
            goal = target(settings, horizon)
            text = f"{record.samples:,} samples · {record.answers:,} answers · {_certificates(record, goal)}{regret}"
            bar.update(task, completed=record.samples, description=text)

        yield advance


def _certificates(record: Record, goal: float) -> str:
    return " · ".join(f"{kind} {value:.3g}/{goal:.3g}" for kind, value in record.certificates.items())
