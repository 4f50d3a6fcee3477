"""The pleasant face: settings in, a reward and what it is worth out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from aceirl.sources import Task, action_names, given_task, state_names
from aceirl.transfer import KnownProcess, Transfer, named_process, transfer
from aceirl.turns import Record, Turn

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from aceirl.outputs import GymResult


@dataclass(frozen=True, eq=False)
class Result:
    """What a run ended with: a reward, a `policy [H, S]`, and the road there.

    The policy does what the expert is known to do, and elsewhere what is best under the reward. `certificate` is the
    one that was asked for, whether it holds or not. `turn` is the last one, with all that was believed then, and `task`
    what the run was about.
    """

    policy: IntArray
    certificate: Certificate | None
    records: list[Record]
    turn: Turn
    task: Task

    @property
    def stopped(self) -> str:
        """Why the run ended: `certificate`, `regret` or `budget`."""
        return self.records[-1].stopped or "interrupted"

    @property
    def explanation(self) -> Explanation | None:
        """What the reward says of the expert; None if the IRL algorithm does not say."""
        return self.turn.explanation

    @property
    def reward_table(self) -> FloatArray:
        """`[H, S, A]`: the reward in numbered states, in `[0, rmax]`."""
        return self.turn.belief.recovered.reward

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What people call the states."""
        return state_names(self.task, self.turn.names) or tuple(f"state {s}" for s in range(self.policy.shape[1]))

    def in_words(self, names: Sequence[str] = ()) -> str:
        """What the expert wants, and what is not determined; `names [S]` if states have other names for you."""
        return "\n".join(goal_in_words(self.turn, names or self.names, action_names(self.task)))

    def show(self) -> None:
        """Print what the expert wants, what it took, and what acting on it is worth."""
        print(self.in_words())
        print(f"{self!r}")
        if self.certificate is not None:
            print(self.certificate.in_words(self.names))

    def __repr__(self) -> str:
        last = self.records[-1]
        return (
            f"<Result: {last.samples:,} steps, {last.answers:,} answers, stopped by {self.stopped}"
            f"{'' if last.regret is None else f', regret {last.regret:.3f}'}>"
        )

    @cached_property
    def _gym(self) -> GymResult:
        from aceirl.envs.gymnasium import GymAdapter
        from aceirl.outputs import GymResult

        if not isinstance(self.task.environment, GymAdapter):
            raise InputError("this run's states have no observations; use reward_table [H, S, A] and policy [H, S]")
        return GymResult.of(self.turn, self.task.environment)

    def reward(
        self, observation: Any, action: Any, next_observation: Any, *, terminated: bool = False, step: int = 0
    ) -> float:
        """What the reward pays for an action, and for the observation it led to if the episode is over then.

        In a Gymnasium environment, by its own observations and actions. Most rewards do not depend on the `step`.
        """
        return self._gym(observation, action, step, next_observation, terminated=terminated)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """The policy's action for an observation or a batch of them, and the step as a state: as Stable-Baselines3."""
        from aceirl.outputs import GreedyPolicy

        return GreedyPolicy(self._gym).predict(observation, state, episode_start, deterministic)

    def wrapper(self, env: Any, elsewhere: float | None = None) -> Any:
        """The environment, or another with the same observations, paying the recovered reward: train any agent on it.

        `elsewhere` is what an action pays where the run never was; -1 keeps an agent to what is known.
        """
        from aceirl.outputs import RecoveredReward

        return RecoveredReward(env, self._gym, elsewhere)

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
        environment: Environment | Problem | MDP | str | Any,
        expert: Expert | Callable[..., Any] | ArrayLike | str | Any = None,
        *,
        horizon: int | None = None,
        discretise: Callable[[Any], Any] | None = None,
        stochastic_expert: bool = False,
        regret: Callable[[IntArray], float] | None = None,
        out: str | Path | None = None,
        callback: Callable[[Turn], None] | None = None,
        progress: bool = False,
    ) -> Result:
        """Explore, ask and infer until the certificate, the regret or the budget says stop.

        The `environment` is a Gymnasium one or its id, one of ours by name, a `Problem`, or an object of your own; the
        `expert` a function of an observation, a model with `predict`, an array of actions, recorded demonstrations, or
        an object with `answer(question)`. Problems have one of their own. Episodes of a Gymnasium environment have the
        `horizon` of its time limit unless you say otherwise, and `discretise` cuts continuous observations, as `Bins`
        does. A function or model that draws its actions is a `stochastic_expert`.

        `regret` measures a policy `[H, S]` against a truth that the learner does not see. With `out`, every iteration
        is on disk before the next begins, and calling `fit` again with the same folder goes on from there. `callback`
        sees every turn.
        """
        task = given_task(
            environment,
            expert,
            horizon=horizon,
            discretise=discretise,
            stochastic_expert=stochastic_expert,
            seed=self.settings.seed,
        )
        settings, regret = self._settings_for(task), regret or task.regret
        records: list[Record] = []
        last: Turn | None = None
        if out is None:
            turns = learn(task.environment, task.expert, settings, regret=regret)
        else:
            run = self._run(Path(out), task, settings)
            records = run.records()
            turns = run.resume(task.environment, task.expert, regret=regret)
        with progress_bar(settings, task.environment.horizon, show=progress) as advance:
            for turn in turns:
                records.append(turn.record)
                last = turn
                advance(turn.record)
                if callback:
                    callback(turn)
        if last is None:  # the folder holds a run that is over
            state = run.state()
            assert state is not None
            last = Engine(task.environment, answers_of(task.expert, settings), settings, state=state).last_turn
        promise = None if settings.certify is None else last.certificate(settings.certify.name)
        return Result(last.policy, promise, records, last, task)

    def _settings_for(self, task: Task) -> Settings:
        """The settings, with what is known of the task where nothing was said."""
        known = {"rmax": task.rmax, "max_return": task.max_return, "stationary_dynamics": task.stationary_dynamics}
        said = self.settings.model_fields_set
        if "rmax" in said:
            known.pop("max_return")
        return self.settings.model_copy(update={name: value for name, value in known.items() if name not in said})

    def _run(self, path: Path, task: Task, settings: Settings) -> Run:
        """The run of a folder: a new one, or one that was begun with the same parts and settings."""
        environment, expert = task.environment, task.expert
        parts = {"environment": environment, "expert": expert}
        names = {part: _qualified_name(thing) for part, thing in parts.items()}
        names["shape"] = f"{environment.horizon} steps, {environment.n_actions} actions"
        if not (path / "run.json").exists():
            return Run.create(path, settings, parts=names)
        run = Run.open(path)
        mine, theirs = settings.model_dump(), run.settings.model_dump()
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
