"""The pleasant face: settings in, a reward and what it is worth out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aceirl.envs import ENVIRONMENTS, Problem
from aceirl.errors import InputError
from aceirl.experts import RecordedExpert
from aceirl.experts.tasks import (
    CODE,
    Source,
    Task,
    fingerprint,
    open_task,
    read_recording,
    recorded_task,
    source_fingerprint,
)
from aceirl.learner.loop import learn
from aceirl.learner.recorded import (
    RECORDED,
    after_recording,
    judged_by_visits,
    numbered,
    recorded_turn,
    with_expert,
)
from aceirl.learner.settings import Settings
from aceirl.models.tabular.mdp import MDP, IntArray
from aceirl.protocols import Environment, Expert
from aceirl.runs.driving import check_arguments, check_callback, driven
from aceirl.runs.folder import CONFIGURATION, Run, settings_for
from aceirl.runs.result import Result, opened

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class ActiveIRL:
    """Learn why an expert acts as it does, asking and exploring as little as possible.

        result = ActiveIRL(max_samples=5000).fit(environment, expert)

    Settings:
    """

    def __init__(self, **settings: Any) -> None:
        for name, instead in ELSEWHERE.items():
            if name in settings:
                raise InputError(f"{name} is not a setting; {instead}")
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
        fields: Any = None,
        stochastic_expert: bool = False,
        demonstrations: Any = None,
        regret: Callable[[IntArray], float] | None = None,
        out: str | Path | None = None,
        callback: Callable[[Any], bool | None] | None = None,
        progress: bool = False,
        **unknown: Any,
    ) -> Result | Any:
        """Explore, ask and infer until the certificate, the regret, the budget or the callback says stop.

        The `environment` is a Gymnasium one or its id, one of ours by name, a `Problem`, or an object of your own; the
        `expert` a function of an observation, a model with `predict`, an array of actions, recorded demonstrations or
        trajectories, or an object with `answer(question)`. Problems have one of their own. Episodes of a Gymnasium
        environment have the `horizon` of its time limit unless you say otherwise, and `discretise` cuts continuous
        observations, as `Bins` does. `fields` names what its observations consist of: names in their order, a kind
        (categorical, ordered or circular) or a function for each name, or one function that returns all; by default
        the parts of the observation, or the attribute `fields` of the environment. A function or model that draws its
        actions is a `stochastic_expert`.

        `demonstrations` are a recording to begin with, in any form that `infer` takes. Without an expert, it is all
        that is known of one. Budgets are for what comes after it, and nothing was wagered on it.

        Where observations or actions are continuous and nothing cuts them, a committee of small networks learns what
        the expert does, asking where it is unsure, and a `ContinuousResult` is returned. `fields` then names the
        numbers of an observation, the expert may be recorded episodes, and no `regret` is measured.

        `regret` measures a policy `[H, S]` against a truth that the learner does not see. With `out`, every iteration
        is on disk a second later at the latest; calling `fit` again with the same folder goes on from there, with the
        settings that are given and otherwise the run's own. `callback` sees every turn, and stops the run by returning
        True. With `progress` a line says how far it is; the logger `aceirl` is told in any case.
        """
        check_arguments(self.fit, unknown)
        check_callback(callback)
        path = None if out is None else Path(out)
        if discretise is None and _is_continuous(environment, horizon):
            from aceirl.runs.continuous import fit_continuous

            return fit_continuous(
                environment,
                expert,
                self.settings,
                horizon=horizon,
                fields=fields,
                demonstrations=demonstrations,
                stochastic_expert=stochastic_expert,
                regret=regret,
                out=path,
                callback=callback,
                progress=progress,
            )
        run = None if path is None or not (path / CONFIGURATION).exists() else Run.open(path)
        said = self.settings.model_fields_set
        before_it = self.settings if run is None else run.settings
        seed = (self.settings if "seed" in said else before_it).seed
        discount = self.settings.discount if "discount" in said else None if run is None else run.settings.discount
        task = open_task(
            environment,
            expert,
            horizon=horizon,
            discretise=discretise,
            fields=fields,
            stochastic_expert=stochastic_expert,
            otherwise=None if demonstrations is None else RecordedExpert(),
            seed=seed,
            discount=discount,
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
            records, last = driven(turns, settings, task.environment.horizon, begun, callback, progress)
            return Result(records, last, task)
        if run is None:
            run = Run.create(path, settings, task.source, parts=fingerprint(task))
        else:
            _check_parts(run, task)
            run.change({name: getattr(asked, name) for name in said})
        if first is not None and run.state() is None:
            run.begin_with(first, task)
        before = None if run.state() is None else opened(run, task).turn
        turns = run.resume(task.environment, task.expert, task=task, regret=measure)
        horizon = task.environment.horizon
        records, last = driven(turns, run.settings, horizon, run.records(), callback, progress, before)
        return Result(records, last, task, path)

    def infer(
        self,
        data: Any,
        env: Environment | Problem | MDP | Source | str | Any = None,
        *,
        horizon: int | None = None,
        discretise: Callable[[Any], Any] | None = None,
        fields: Any = None,
        stochastic_expert: bool | None = None,
        stationary_expert: bool | None = None,
        out: str | Path | None = None,
        **unknown: Any,
    ) -> Result | Any:
        """The reward behind a recording, what the recording leaves open, and what to record next.

        `data` are trajectories: a Minari dataset (itself, its folder or its id), imitation's or the folder they were
        saved in, episodes as lists of `(observation, action, reward, terminated, truncated)`, lines of JSON (`.jsonl`),
        or arrays by name (a dictionary or `.npz`). `env` is the environment they are from, in any form that `fit`
        takes; without it, states are what was observed. Nothing is done in it and nobody is asked; for that, give `fit`
        the recording as `demonstrations`. With `out` the result is kept in a folder, as a run that is over.

        Where no reward explains the answers, because too little else was tried, it is the one of maximum causal entropy
        in states, which goes by where the expert was; unless `irl` or `reward` is set.

        Where observations or actions of `env` are continuous and nothing cuts them, a policy is learned, with a gate
        that half of the episodes calibrate: a `ContinuousResult`.

        An expert who contradicts itself is taken for stochastic, and one who does different things in a state, but
        never at the same step, to look at the step, unless `stochastic_expert` or `stationary_expert` says otherwise.
        """
        check_arguments(self.infer, unknown)
        if discretise is None and _is_continuous(env, horizon):
            from aceirl.runs.continuous import fit_continuous

            path = None if out is None else Path(out)
            return fit_continuous(
                env, None, self.settings, horizon=horizon, fields=fields, demonstrations=data, out=path
            )
        recording = read_recording(data)
        said, seed = self.settings.model_fields_set, self.settings.seed
        options: dict[str, Any] = {"horizon": horizon, "discretise": discretise, "fields": fields}
        discount = self.settings.discount if "discount" in said else None
        task = recorded_task(recording, env, **options, seed=seed, discount=discount)
        shown = numbered(recording, task)
        task = with_expert(task, shown, stochastic=stochastic_expert, stationary=stationary_expert)
        settings = settings_for(task, after_recording(self.settings, shown))
        if "certify" not in said:  # nothing was wagered, so there is nothing to promise
            settings = settings.model_copy(update={"certify": None})
        turn = recorded_turn(task, shown, settings)
        found = turn.explanation
        if found is not None and not found.explains and not {"irl", "reward"} & said:
            turn = recorded_turn(task, shown, judged_by_visits(settings))
        record = replace(turn.record, stopped=RECORDED)
        result = Result([record], turn, task, demonstrations=shown)
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
    "score": "result.score()",
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


def _is_continuous(environment: Any, horizon: int | None) -> bool:
    """Whether it is a Gymnasium environment, or names one, that tables cannot take."""
    named = isinstance(environment, str) and environment not in ENVIRONMENTS
    if not (named or hasattr(environment, "action_space")):
        return False
    try:
        from aceirl.experts.tasks.continuous import names_continuous
    except ImportError:  # without Gymnasium there are none
        return False
    return names_continuous(environment, horizon)


def _check_parts(run: Run, task: Task) -> None:
    """A run goes on with what it was begun with, as far as that can be told."""
    before, now = (
        run.parts | source_fingerprint(run.source) | run.parts,
        source_fingerprint(task.source) | fingerprint(task),
    )
    if not run.parts and (kept := run.kept()) is not None:  # begun on the command line
        then = fingerprint(kept.task)
        before |= {part: then[part] for part in ("shape", "observations") if part in then}
    for part in [part for part in before if part in now and before[part] != now[part]]:
        if part != CODE:
            raise InputError(f"{run.path} was begun with {part} {before[part]}, not {now[part]}; choose another folder")
        if before[part].split(",")[0] == now[part].split(",")[0]:
            raise InputError(
                f"{run.path} was begun with another expert: {now['expert']} was not the same then; choose another "
                "folder"
            )
