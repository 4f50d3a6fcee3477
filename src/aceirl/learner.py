"""The pleasant face: settings in, a reward and what it is worth out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aceirl.certificates import Certificate
from aceirl.engine import Engine
from aceirl.envs import Problem
from aceirl.errors import InputError
from aceirl.goal import goal_in_words
from aceirl.loop import answers_of, learn
from aceirl.mdp import MDP, FloatArray, IntArray
from aceirl.protocols import Environment, Expert
from aceirl.rewards import Explanation
from aceirl.runs import Run
from aceirl.settings import Settings
from aceirl.transfer import KnownProcess, Transfer, named_process, transfer
from aceirl.turns import Record, Turn


@dataclass(frozen=True, eq=False)
class Result:
    """What a run ended with: `reward [H, S, A]` in `[0, rmax]`, a `policy [H, S]`, and the road there.

    The policy does what the expert is known to do, and elsewhere what is best under the reward. `certificate` is the
    one that was asked for, whether it holds or not; `certificate.in_words()` explains it.
    `turn` is the last one, with all that was believed then.
    """

    reward: FloatArray
    policy: IntArray
    certificate: Certificate | None
    records: list[Record]
    turn: Turn

    @property
    def stopped(self) -> str:
        """Why the run ended: `certificate`, `regret` or `budget`."""
        return self.records[-1].stopped or "interrupted"

    @property
    def explanation(self) -> Explanation | None:
        """What the reward says of the expert; None if the IRL algorithm does not say."""
        return self.turn.explanation

    def in_words(self, names: Sequence[str] = ()) -> str:
        """What the expert wants, and what is not determined; `names [S]` are what people call the states."""
        n_states = self.reward.shape[1]
        return "\n".join(goal_in_words(self.turn, names or [f"state {s}" for s in range(n_states)]))

    def transfer(
        self, target: KnownProcess | Problem | MDP | str, *, start: str | None = None, names: Sequence[str] = ()
    ) -> Transfer:
        """Plan with the reward in another process: what to do there, what it loses, and what that depends on.

        `target` is a process, a problem, the name of an environment (with the run's seed), or a model file. Episodes
        start there as they do, with `start` in the state of that name, or with "uniform" anywhere. `names` are those of
        the run's own states, where its environment does not number them as it meets them; without names, states of the
        same number are the same.
        """
        if isinstance(target, str):
            target = named_process(target, self.turn.settings.seed)
        elif isinstance(target, Problem):
            target = KnownProcess.of(target)
        elif isinstance(target, MDP):
            target = KnownProcess(target)
        return transfer(self.turn, target.starting(start), names)


class ActiveIRL:
    """Learn why an expert acts as it does, asking and exploring as little as possible.

    Keyword arguments are the fields of `Settings`.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)

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
        records: list[Record] = []
        last: Turn | None = None
        if out is None:
            turns = learn(environment, expert, self.settings, regret=regret)
        else:
            run = self._run(Path(out), environment, expert)
            records = run.records()
            turns = run.resume(environment, expert, regret=regret)
        with progress_bar(self.settings, environment.horizon, show=progress) as advance:
            for turn in turns:
                records.append(turn.record)
                last = turn
                advance(turn.record)
                if callback:
                    callback(turn)
        if last is None:  # the folder holds a run that is over
            state = run.state()
            assert state is not None
            last = Engine(environment, answers_of(expert, self.settings), self.settings, state=state).last_turn
        kind = self.settings.certify
        promise = None if kind is None else last.certificate(kind.name)
        return Result(last.belief.recovered.reward, last.policy, promise, records, last)

    def _run(self, path: Path, environment: Environment, expert: Expert) -> Run:
        """The run of a folder: a new one, or one that was begun with the same parts and settings."""
        parts = {"environment": environment, "expert": expert}
        names = {part: _qualified_name(thing) for part, thing in parts.items()}
        names["shape"] = f"{environment.horizon} steps, {environment.n_actions} actions"
        if not (path / "run.json").exists():
            return Run.create(path, self.settings, parts=names)
        run = Run.open(path)
        mine, theirs = self.settings.model_dump(), run.settings.model_dump()
        for name, value in mine.items():
            if theirs[name] != value:
                raise InputError(
                    f"{path} holds a run with {name} {theirs[name]!r}, not {value!r}; choose another folder"
                )
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
            goal = settings.target(horizon).epsilon
            text = f"{record.samples:,} samples · {record.answers:,} answers · {_certificates(record, goal)}{regret}"
            bar.update(task, completed=record.samples, description=text)

        yield advance


def _certificates(record: Record, goal: float) -> str:
    return " · ".join(f"{kind} {value:.3g}/{goal:.3g}" for kind, value in record.certificates.items())
