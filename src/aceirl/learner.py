"""The pleasant face: settings in, a reward and what it is worth out."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aceirl.certificates import Certificate
from aceirl.engine import Engine
from aceirl.envs import Problem
from aceirl.errors import InputError, unknown_name
from aceirl.goal import goal_in_words, goal_of
from aceirl.loop import answers_of, learn
from aceirl.mdp import MDP, FloatArray, IntArray
from aceirl.protocols import Environment, Expert
from aceirl.recorded import (
    RECORDED,
    Demonstrations,
    after_recording,
    expert_or_recorded,
    going_on,
    judged_by_visits,
    numbered,
    recorded_task,
    recorded_turn,
    told_of,
    with_expert,
)
from aceirl.rewards import Explanation
from aceirl.runs import CONFIGURATION, Run, changed_settings, settings_for, state_under
from aceirl.settings import Settings
from aceirl.sources import (
    AWAY,
    CODE,
    KeptExpert,
    Source,
    Task,
    action_names,
    given_task,
    gym_env,
    open_task,
    part_names,
    read_recording,
    source_parts,
    state_names,
)
from aceirl.support import Support, support_of
from aceirl.transfer import KnownProcess, Transfer, named_process, process_of_env, transfer
from aceirl.turns import Record, Turn, last_measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from aceirl.outputs import GymResult
    from aceirl.show import OpenedRun

LINE_EVERY = 10.0  # seconds between two lines of progress, where there is no terminal

Callback = Callable[[Turn], bool | None]
"""Sees every turn; a run stops where it returns True."""


@dataclass(frozen=True, eq=False)
class Result:
    """What a run ended with: a reward, a `policy [H, S]`, and the road there.

    The policy does what the expert is known to do, and elsewhere what is best under the reward. `certificate` is the
    one that was asked for, whether it holds or not. `turn` is the last one, with all that was believed then, `task`
    what the run was about, and `folder` where it is kept, if it is.
    """

    policy: IntArray
    certificate: Certificate | None
    records: list[Record]
    turn: Turn
    task: Task
    folder: Path | None = None

    @property
    def stopped(self) -> str:
        """Why the run ended: `certificate`, `regret`, `budget`, `callback`, or `questions` of an interview."""
        return self.records[-1].stopped or "interrupted"

    @property
    def samples(self) -> int:
        """How many steps were taken in the environment."""
        return self.records[-1].samples

    @property
    def answers(self) -> int:
        """How many answers the expert gave."""
        return self.records[-1].answers

    @property
    def regret(self) -> float | None:
        """What the policy loses by the truth, as a share of the range of returns; None if no truth is known.

        Of a run that was interrupted it is the last that was measured: see `Record`.
        """
        measured = last_measured(self.records)
        return None if measured is None else measured.regret

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

    @cached_property
    def support(self) -> Support:
        """What the data support, what they leave open, and what to record next."""
        return support_of(self.turn)

    def show(self) -> None:
        """Print what the expert wants, what it took, and what acting on it is worth: what `aceirl show` says."""
        from aceirl.show import sentences

        print("\n".join(sentences(self._opened)))

    @cached_property
    def _opened(self) -> OpenedRun:
        from aceirl.show import OpenedRun

        return OpenedRun.of(self.records, self.turn, self.task)

    def __repr__(self) -> str:
        last = self.records[-1]
        return (
            f"<Result: {last.samples:,} steps, {last.answers:,} answers, stopped by {self.stopped}"
            f"{'' if self.regret is None else f', regret {self.regret:.3f}'}>"
        )

    @cached_property
    def _gym(self) -> GymResult:
        from aceirl.envs.gymnasium import GymAdapter
        from aceirl.outputs import GymResult

        if not isinstance(self.task.environment, GymAdapter):
            if self.turn.names:
                raise InputError(
                    "the observations of this run cannot be told apart without its environment: their space or the "
                    "function that cuts them is not here; load it where they can be imported"
                )
            raise InputError("this run's states have no observations; use reward_table [H, S, A] and policy [H, S]")
        return GymResult.of(self.turn, self.task.environment)

    def reward(
        self, observation: Any, action: Any, next_observation: Any, *, terminated: bool = False, step: int = 0
    ) -> float:
        """What the reward pays for an action, and for the observation it led to if the episode is over then.

        In a Gymnasium environment, by its own observations and actions. Most rewards do not depend on the `step`.
        """
        if self._gym.features is None:  # features have a reward beyond the space too
            self._gym.check(observation)
            if terminated:
                self._gym.check(next_observation)
        return self._gym(observation, action, step, next_observation, terminated=terminated)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """The policy's action for an observation or a batch of them, and the step as a state: as Stable-Baselines3."""
        from aceirl.outputs import GreedyPolicy

        policy = GreedyPolicy(self._gym)
        policy.check(observation)
        return policy.predict(observation, state, episode_start, deterministic)

    def wrapper(self, env: Any, elsewhere: float | None = None) -> Any:
        """The environment, or another with the same observations, paying the recovered reward: train any agent on it.

        `env` is a Gymnasium environment or its id, and `elsewhere` what an action pays where the run never was; -1
        keeps an agent to what is known.
        """
        from aceirl.outputs import RecoveredReward

        if isinstance(env, str):
            env = gym_env(Source(env, {}, self.turn.settings.seed))
        return RecoveredReward(env, self._gym, elsewhere)

    def plot(self, picture: str | None = None) -> Figure:
        """A picture of the run, as `aceirl show` draws it: a figure of Matplotlib.

        By default the reward on a map or, where states have no place, the first there is. `picture` names another:
        reward, visits, policy, why-here, bound or learning.
        """
        from aceirl.show import figures

        drawn = figures(self._opened)
        if picture == "learning" and picture not in drawn:
            raise InputError("this run has no picture of learning: no truth is known, so neither is the regret")
        if picture is not None and picture not in drawn:
            raise unknown_name("picture of this run", picture, drawn)
        return drawn[picture or next(iter(drawn))]

    def save(self, folder: str | Path) -> Path:
        """Keep the run in a new folder, complete in itself: for `load`, and for the command line."""
        path = Path(folder)
        if self.folder is not None:
            Run.open(self.folder).copied(path)
        else:
            Run.saved(path, self.turn, self.records, self.task, part_names(self.task))
        return path

    def resume(self, *, callback: Callback | None = None, progress: bool = False, **settings: Any) -> Result:
        """Go on, asking something else of the run; what was seen and answered stays.

        `settings` are those that change: `max_samples` and `max_answers` in all, `epsilon`, `certify`, `reward`,
        `irl`, `strategy` or `until_regret`. A run that is kept in a folder goes on there.
        """
        _check_callback(callback)
        if self.stopped == RECORDED:
            raise InputError(going_on(self.task.source))
        task = self.task
        if isinstance(task.expert, KeptExpert):
            if task.source is None:
                raise InputError(AWAY)
            task = open_task(task.source)
        before, regret = self.turn.settings, self.turn.measure or task.regret
        if self.folder is not None:
            run = Run.open(self.folder)
            run.change(settings)
            turns = run.resume(task.environment, task.expert, task=task, regret=regret)
            return _result(turns, run.settings, task, run.records(), self.folder, callback, progress, self.turn)
        wanted = changed_settings(before, settings, "this result")
        state = state_under(self.turn.state, before, wanted)
        turns = learn(task.environment, task.expert, wanted, regret=regret, state=state, reconsider=True)
        return _result(turns, wanted, task, self.records, None, callback, progress, self.turn)

    def transfer(
        self,
        target: KnownProcess | Problem | MDP | str | Any,
        *,
        start: str | None = None,
        names: Sequence[str] = (),
        **unknown: Any,
    ) -> Transfer:
        """Plan with the reward in another process: what to do there, what it loses, and what that depends on.

        `target` is a process, a problem, a Gymnasium environment that has an exact model (without a limit of its own,
        its episodes are as long as the run's), the name of an environment (with the run's seed), or a model file. They
        start there as they do, with `start` in the state of that name, or with "uniform" anywhere. `names` are those of
        the run's own states, where its environment neither has names for them nor numbers them as it meets them;
        without names, states of the same number are the same.
        """
        _check_arguments(self.transfer, unknown)
        if isinstance(target, str):
            target = named_process(target, self.turn.settings.seed)
        elif isinstance(target, Problem):
            target = KnownProcess.of(target)
        elif isinstance(target, MDP):
            target = KnownProcess(target)
        elif hasattr(target, "action_space"):
            spec = getattr(target, "spec", None)
            target = process_of_env(target, (spec and spec.max_episode_steps) or self.policy.shape[0])
        layout = self.task.layout
        own = layout.state_names if layout is not None and not self.turn.names else ()
        return transfer(self.turn, target.starting(start), names or own)


@dataclass(frozen=True, eq=False, repr=False)
class Inferred(Result):
    """What a recording came to: a result like any other, what was recorded, and what that leaves open."""

    demonstrations: Demonstrations = field(kw_only=True)

    def in_words(self, names: Sequence[str] = ()) -> str:
        """What the expert wants, what was recorded, what that leaves open, and what to record next."""
        called, actions = names or self.names, action_names(self.task)
        goal = goal_of(self.turn, called, actions)
        if goal is None:
            mean = self.reward_table.mean(axis=0).max(axis=1)
            most = called[int(np.where(self.turn.counts.visits.any(axis=(0, 2)), mean, -np.inf).argmax())]
            wanted = [f"The answers name no goal. Going by where the expert was, its reward is largest in {most}."]
        else:
            wanted = replace(goal, undetermined=()).lines  # the support says more of that
        told = told_of(self.demonstrations, self.task, called, actions)
        return "\n".join((*wanted, *told, *self.support.in_words(called, actions)))

    def show(self) -> None:
        """Print what `aceirl infer` says, and the certificate if one was asked for."""
        print(self.in_words())
        if self.certificate is not None:
            print(self.certificate.in_words(self.names, action_names(self.task)))


class ActiveIRL:
    """Learn why an expert acts as it does, asking and exploring as little as possible.

        result = ActiveIRL(max_samples=5000).fit(environment, expert)

    Settings:
    """

    def __init__(self, **settings: Any) -> None:
        for name, instead in ELSEWHERE.items():
            if name in settings:
                raise InputError(f"{name} is no setting; {instead}")
        self.settings = Settings(**settings)

    def __repr__(self) -> str:
        written = self.settings.model_dump(include=self.settings.model_fields_set)
        return f"ActiveIRL({', '.join(f'{name}={value!r}' for name, value in written.items())})"

    def __getattr__(self, name: str) -> Any:
        if name in OF_RESULT:
            raise AttributeError(
                f"ActiveIRL has no {name}; fit returns what was learned: "
                f"result = ActiveIRL(...).fit(environment, expert), then {OF_RESULT[name]}"
            )
        raise AttributeError(f"ActiveIRL has no {name}")

    def fit(
        self,
        environment: Environment | Problem | MDP | str | Any,
        expert: Expert | Callable[..., Any] | ArrayLike | str | Any = None,
        *,
        horizon: int | None = None,
        discretise: Callable[[Any], Any] | None = None,
        stochastic_expert: bool = False,
        demonstrations: Any = None,
        regret: Callable[[IntArray], float] | None = None,
        out: str | Path | None = None,
        callback: Callback | None = None,
        progress: bool = False,
        **unknown: Any,
    ) -> Result:
        """Explore, ask and infer until the certificate, the regret, the budget or the callback says stop.

        The `environment` is a Gymnasium one or its id, one of ours by name, a `Problem`, or an object of your own; the
        `expert` a function of an observation, a model with `predict`, an array of actions, recorded demonstrations or
        trajectories, or an object with `answer(question)`. Problems have one of their own. Episodes of a Gymnasium
        environment have the `horizon` of its time limit unless you say otherwise, and `discretise` cuts continuous
        observations, as `Bins` does. A function or model that draws its actions is a `stochastic_expert`.

        `demonstrations` are a recording to begin with, in any form that `infer` takes. Without an expert, it is all
        that is known of one. Budgets are for what comes after it, and nothing was wagered on it.

        `regret` measures a policy `[H, S]` against a truth that the learner does not see. With `out`, every iteration
        is on disk a second later at the latest; calling `fit` again with the same folder goes on from there, with the
        settings that are given and otherwise the run's own. `callback` sees every turn, and stops the run by returning
        True. With `progress` a line says how far it is; the logger `aceirl` is told in any case.
        """
        _check_arguments(self.fit, unknown)
        _check_callback(callback)
        path = None if out is None else Path(out)
        run = None if path is None or not (path / CONFIGURATION).exists() else Run.open(path)
        said = self.settings.model_fields_set
        seed = self.settings.seed if run is None or "seed" in said else run.settings.seed
        task = given_task(
            environment,
            expert if demonstrations is None else expert_or_recorded(environment, expert),
            horizon=horizon,
            discretise=discretise,
            stochastic_expert=stochastic_expert,
            seed=seed,
        )
        asked, measure, first = self.settings, regret or task.regret, None
        if demonstrations is not None:
            shown = numbered(read_recording(demonstrations), task)
            task, asked = with_expert(replace(task, regret=measure), shown), after_recording(asked, shown)
            first = recorded_turn(task, shown, settings_for(task, asked))
        settings = settings_for(task, asked)
        if path is None:
            state = None if first is None else first.state
            turns = learn(task.environment, task.expert, settings, regret=measure, state=state)
            begun = [] if first is None else [first.record]
            return _result(turns, settings, task, begun, None, callback, progress)
        if run is None:
            run = Run.create(path, settings, task.source, parts=part_names(task))
        else:
            _check_parts(run, task)
            run.change({name: getattr(asked, name) for name in said})
        if first is not None and run.state() is None:
            run.begin_with(first, task)
        turns = run.resume(task.environment, task.expert, task=task, regret=measure)
        return _result(turns, run.settings, task, run.records(), path, callback, progress, _last_turn(run, task))

    def infer(
        self,
        data: Any,
        env: Environment | Problem | MDP | Source | str | Any = None,
        *,
        horizon: int | None = None,
        discretise: Callable[[Any], Any] | None = None,
        stochastic_expert: bool | None = None,
        stationary_expert: bool | None = None,
        out: str | Path | None = None,
        **unknown: Any,
    ) -> Inferred:
        """The reward behind a recording, what the recording leaves open, and what to record next.

        `data` are trajectories: a Minari dataset (itself, its folder or its id), imitation's or the folder they were
        saved in, episodes as lists of `(observation, action, reward, terminated, truncated)`, lines of JSON (`.jsonl`),
        or arrays by name (a dictionary or `.npz`). `env` is the environment they are from, in any form that `fit`
        takes; without it, states are what was observed. Nothing is done in it and nobody is asked; for that, give `fit`
        the recording as `demonstrations`. With `out` the result is kept in a folder, as a run that is over.

        Where no reward explains the answers, because too little else was tried, it is the one of maximum causal entropy
        in states, which goes by where the expert was; unless `irl` or `reward` is set.

        An expert who contradicts itself is taken for stochastic, and one who does different things in a state, but
        never at the same step, to look at the step, unless `stochastic_expert` or `stationary_expert` says otherwise.
        """
        _check_arguments(self.infer, unknown)
        recording = read_recording(data)
        task = recorded_task(recording, env, horizon=horizon, discretise=discretise, seed=self.settings.seed)
        shown = numbered(recording, task)
        task = with_expert(task, shown, stochastic=stochastic_expert, stationary=stationary_expert)
        settings = settings_for(task, after_recording(self.settings, shown))
        if "certify" not in self.settings.model_fields_set:  # nothing was wagered, so there is nothing to promise
            settings = settings.model_copy(update={"certify": None})
        turn = recorded_turn(task, shown, settings)
        found = turn.explanation
        if found is not None and not found.explains and not {"irl", "reward"} & self.settings.model_fields_set:
            turn = recorded_turn(task, shown, judged_by_visits(settings))
        record = replace(turn.record, stopped=RECORDED)
        result = Inferred(turn.policy, _promise(turn), [record], turn, task, demonstrations=shown)
        return result if out is None else replace(result, folder=result.save(out))


ELSEWHERE = {
    "env": "give it to fit: ActiveIRL(...).fit(environment, expert)",
    "environment": "give it to fit: ActiveIRL(...).fit(environment, expert)",
    "expert": "give it to fit: ActiveIRL(...).fit(environment, expert)",
    "demonstrations": "give them to fit: ActiveIRL(...).fit(environment, demonstrations=...)",
    "verbose": "for a line of progress: ActiveIRL(...).fit(environment, expert, progress=True)",
}
"""What other libraries give to the constructor, and where it goes here."""

OF_RESULT = {
    "predict": "result.predict(observation)",
    "policy": "result.policy",
    "reward": "result.reward(observation, action, next_observation)",
    "save": "result.save(folder)",
    "load": "result = aceirl.load(folder)",
    "score": "result.regret",
    "train": "result.predict(observation); the budget is a setting, ActiveIRL(max_samples=...)",
    "learn": "result.predict(observation); the budget is a setting, ActiveIRL(max_samples=...)",
    "get_params": "result.turn.settings; before, the settings are in .settings",
}
"""What other libraries call on the learner itself, and what is called here."""


def _document_settings() -> None:
    """The settings with their defaults and meanings, where `help` and signatures look for them."""
    usual = Settings().model_dump()
    fields = Settings.model_fields
    ActiveIRL.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=usual[name]) for name in fields]
    )
    lines = [f"        {name}: {field.description} (default {usual[name]!r})" for name, field in fields.items()]
    ActiveIRL.__doc__ = "\n".join([str(ActiveIRL.__doc__).rstrip(), *lines, ""])


_document_settings()


def load(folder: str | Path) -> Result:
    """A run or a finished interview from its folder, made in Python or on the command line, with all that it can do.

    The environment is not needed: the folder keeps what tells observations apart.
    """
    from aceirl.show import opened

    path = Path(folder)
    run = Run.open(path)
    with opened(run) as found:
        turn = found.turn
        return Result(turn.policy, _promise(turn), found.records, turn, found.task, path)


def _result(
    turns: Generator[Turn, None, None],
    settings: Settings,
    task: Task,
    records: list[Record],
    folder: Path | None,
    callback: Callback | None,
    progress: bool,
    last: Turn | None = None,
) -> Result:
    """Learn to the end; `last` is the turn that the run stands at, if it has begun."""
    records = list(records)
    with closing(turns), progress_bar(settings, task.environment.horizon, show=progress) as advance:
        for turn in turns:
            if records and records[-1].iteration == turn.iteration:  # the last one, reconsidered
                records.pop()
            records.append(turn.record)
            last = turn
            advance(turn.record)
            if callback and callback(turn) is True:
                records[-1] = replace(turn.record, stopped=turn.record.stopped or "callback", regret=turn.regret)
                break
    assert last is not None
    return Result(last.policy, _promise(last), records, last, task, folder)


def _last_turn(run: Run, task: Task) -> Turn | None:
    """Where a run stands; None before its first turn."""
    state = run.state()
    if state is None:
        return None
    return Engine(task.environment, answers_of(task.expert, run.settings), run.settings, state=state).last_turn


def _promise(turn: Turn) -> Certificate | None:
    asked = turn.settings.certify
    return None if asked is None else turn.certificate(asked.name)


def _check_arguments(method: Callable[..., Any], unknown: dict[str, Any]) -> None:
    """Refuse arguments that a method does not have: with the nearest one, or with where a setting goes."""
    for name, value in unknown.items():
        if name in Settings.model_fields:
            raise InputError(
                f"{name} is no argument of {method.__name__}; it is a setting: ActiveIRL({name}={value!r})"
            )
        known = inspect.signature(method).parameters.values()
        names = [parameter.name for parameter in known if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
        raise unknown_name(f"argument of {method.__name__}", name, names)


def _check_callback(callback: Any) -> None:
    """Refuse what cannot be called with a turn."""
    if callback is None:
        return
    if callable(callback):
        try:
            inspect.signature(callback).bind(None)
            return
        except ValueError:  # built in, and without a signature
            return
        except TypeError:
            pass
    raise InputError(f"callback must be a function of one argument, the turn; got {callback!r}")


def _check_parts(run: Run, task: Task) -> None:
    """A run goes on with what it was begun with, as far as that can be told."""
    before, now = run.parts | source_parts(run.source) | run.parts, source_parts(task.source) | part_names(task)
    if not run.parts and (kept := run.kept()) is not None:  # begun on the command line
        then = part_names(kept.task)
        before |= {part: then[part] for part in ("shape", "observations") if part in then}
    for part in [part for part in before if part in now and before[part] != now[part]]:
        if part != CODE:
            raise InputError(f"{run.path} was begun with {part} {before[part]}, not {now[part]}; choose another folder")
        if before[part].split(",")[0] == now[part].split(",")[0]:
            raise InputError(
                f"{run.path} was begun with another expert: {now['expert']} was not the same then; choose another "
                "folder"
            )


@contextmanager
def progress_bar(settings: Settings, horizon: int, *, show: bool = True) -> Iterator[Callable[[Record], None]]:
    """A line that shows how far a run is: samples spent, answers given, the certificate and the regret."""
    if not show:
        yield lambda record: None
        return
    goal = settings.target(horizon).epsilon
    if not sys.stderr.isatty():
        yield _Lines(goal).advance
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    text = TextColumn("{task.description}", table_column=Column(overflow="fold", no_wrap=False))
    with Progress(BarColumn(20), text, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting; the first run on a machine compiles for a minute", total=settings.max_samples)
        status = _Status(goal)
        yield lambda record: bar.update(task, completed=record.samples, description=status.of(record))


class _Lines:
    """Where there is no terminal: a line every ten seconds."""

    def __init__(self, goal: float) -> None:
        self.status, self.last = _Status(goal), time.monotonic()

    def advance(self, record: Record) -> None:
        text = self.status.of(record)
        if time.monotonic() - self.last >= LINE_EVERY:
            self.last = time.monotonic()
            print(text, file=sys.stderr, flush=True)


class _Status:
    """A record in a line, beside what is asked for; with the regret that was measured last."""

    def __init__(self, goal: float) -> None:
        self.goal, self.regret = goal, ""

    def of(self, record: Record) -> str:
        if record.regret is not None:
            self.regret = f" · regret {record.regret:.3f}"
        certified = " · ".join(f"{kind} {value:.3g}/{self.goal:.3g}" for kind, value in record.certificates.items())
        return f"{record.samples:,} samples · {record.answers:,} answers · {certified}{self.regret}"
