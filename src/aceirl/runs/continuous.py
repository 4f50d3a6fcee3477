"""Runs with continuous observations: driven to their end, kept in a folder, and what they came to."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.certificates.gated import GatedCertificate
from aceirl.data.recording import Recording
from aceirl.errors import InputError
from aceirl.experts.tasks import Source, read_recording
from aceirl.experts.tasks.continuous import STOCHASTIC, ContinuousTask, is_recording, open_continuous
from aceirl.explain.coordinates import reward_in_words
from aceirl.irl.claims import claims
from aceirl.irl.deviations import RewardByDeviations
from aceirl.learner.continuous.learning import MAX_ANSWERS, LearningState, check_settings, learn
from aceirl.learner.continuous.policy import GatedPolicy
from aceirl.learner.continuous.transfer import Planned, reward_of, simulator, transfer_reward
from aceirl.learner.settings import Settings
from aceirl.models.vectors.features import VectorReward
from aceirl.models.vectors.tree import Leaf, leaves
from aceirl.runs.driving import progress_line
from aceirl.runs.files import alone, disk
from aceirl.runs.files import replace as written
from aceirl.runs.folder import CONFIGURATION, CONTINUOUS, KEPT, SAVE_EVERY, STATE, check_free, is_continuous_run

FORMAT = 2

CHANGEABLE = ("epsilon", "max_samples", "max_answers", "calibration_episodes", "certify")
"""What can be asked differently of a run that has begun."""

TREE_STEPS = 5_000
"""By so many steps at most the rules are found."""

PERSON = {"expert": "person"}
"""The part of a run whose expert was a person, who cannot be asked any more."""

STAND_IN = "This is about the policy that was learned, which stands in for the expert."

SAID_EVERY = 500
"""After so many steps it is said anew how many were taken."""

UNMEASURED = "How often such a sentence is true has not been measured."

Callback = Callable[[LearningState], bool | None]


@dataclass(frozen=True, eq=False, repr=False)
class ContinuousResult:
    """What a run with continuous observations came to: a policy that acts where it is sure, and what it promises.

    `progress` holds the answers, the demonstrations and the policy; `task` is what the run was about, None if it was
    loaded from its `folder`. Where the expert was a `person`, or recorded, or is not to be asked any more, the policy
    stands in for it when a reward is recovered.
    """

    progress: LearningState
    settings: Settings
    task: ContinuousTask | None = None
    folder: Path | None = None
    source: Source | None = None
    person: bool = False
    silent: bool = False

    @property
    def policy(self) -> GatedPolicy:
        """The policy without the run: `policy.save(file)`, `GatedPolicy.load(file)`, `predict` as Stable-Baselines3."""
        if self.progress.policy is None:
            raise InputError("the run was stopped before it had a policy; resume it")
        return self.progress.policy

    @property
    def certificate(self) -> GatedCertificate | None:
        """What is promised of the policy behind its gate: `loss` and `asks`; None if nothing was asked for."""
        return self.progress.certificate

    @property
    def answers(self) -> int:
        """How often the expert was asked, besides the demonstrations that it drove."""
        return self.progress.answers

    @property
    def samples(self) -> int:
        """How many steps were taken in the environment, those of the demonstrations with them."""
        return self.progress.samples

    @property
    def stopped(self) -> str:
        """Why the run ended: `budget`, `recorded` if nobody could be asked, or `interrupted`."""
        if not self.progress.done:
            return "interrupted"
        return "budget" if self.progress.answers else "recorded"

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The policy's action for an observation or a batch of them, and None: as Stable-Baselines3."""
        return self.policy.predict(observation, state, episode_start, deterministic)

    def ask_here(self, observation: Any) -> Any:
        """Whether the policy asks the expert at an observation; for a batch, a truth value each."""
        return self.policy.ask_here(observation)

    @cached_property
    def recovered(self) -> RewardByDeviations:
        """The expert's reward over the coordinates of observations, and what it rests on.

        It is found when it is first asked for, by 12,000 more steps in the environment, or 16,000 if observations have
        more than four coordinates: the expert plays, is led astray, and goes on (`aceirl.irl.deviations`).
        """
        task, seed, report = self._opened, self.settings.seed, _counter("Recovering the reward")
        if not self._stands_in:
            return reward_of(task, seed, report)
        stand_in = replace(task, ask=lambda observation, step: self.policy.predict(observation)[0], by_step=False)
        return replace(reward_of(stand_in, seed, report), answers=0)

    @property
    def reward(self) -> VectorReward:
        """The recovered reward, a function of observations."""
        return self.recovered.reward

    @cached_property
    def sentence(self) -> str:
        """What the expert wants, as far as that is sure, and what is open."""
        if self.recovered.warning is not None:
            return " ".join([f"Nothing is sure: {self.recovered.warning}.", *([STAND_IN] if self._stands_in else [])])
        found = claims(self.recovered, np.random.default_rng([self.settings.seed, 0x4F]))
        said = reward_in_words(found, tested=self.recovered.home.prepared is not None)
        return " ".join([said, UNMEASURED, *([STAND_IN] if self._stands_in else [])])

    @property
    def _stands_in(self) -> bool:
        """Whether a reward is that of the policy, as the expert cannot or must not be asked."""
        return self.person or self.silent or self._opened.ask is None

    def without_asking(self) -> ContinuousResult:
        """The same, with a reward that costs no answer: the policy that was learned stands in for the expert.

        To find the reward, the expert is otherwise asked some thousand times more. `save` keeps this with the run.
        """
        return replace(self, silent=True)

    def transfer(self, target: Any, *, steps: int | None = None) -> Planned:
        """Plan with the recovered reward in another environment, of whose dynamics nothing is known.

        `target` is a Gymnasium environment or the id of one; about `steps` steps are taken in it, 6,000 unless told, or
        18,000 if observations have more than four coordinates. What comes back has `predict(observation)` and a
        `warning` if something speaks against it.
        """
        recovered = self.recovered
        task = open_continuous(target, horizon=self._opened.horizon)
        return transfer_reward(
            lambda: simulator(task.env, task.horizon),
            recovered,
            np.random.default_rng([self.settings.seed, 0x50]),
            steps,
            _counter("Planning"),
        )

    @cached_property
    def _opened(self) -> ContinuousTask:
        """What the run was about."""
        if self.task is not None:
            return self.task
        if self.source is None:
            raise InputError(
                "environment and expert were not saved with the run; load it with fit(environment, expert, out=...)"
            )
        return open_continuous(self.source)

    @cached_property
    def _leaves(self) -> tuple[list[Leaf], int, int]:
        """A tree of what the expert did, and how many of how many steps it tells."""
        shown, answered = self.progress.demonstrations, self.progress.answered
        told = shown if shown is not None and len(shown.observations) > len(answered) else answered
        pick = np.linspace(0, len(told.observations) - 1, min(TREE_STEPS, len(told.observations))).round().astype(int)
        choices = self.policy.choices
        found = leaves(told.observations[pick], choices.numbers(told.actions[pick]), len(choices))
        return found, sum(leaf.right for leaf in found), len(pick)

    def rules(self) -> list[str]:
        """What the expert does, as a few rules of at most three conditions, those of most steps first.

        They are a summary: of the steps each is about, it says how many do what it says.
        """
        return [leaf.words(self.policy.fields, self.policy.names) for leaf in self._leaves[0]]

    @property
    def rules_hold(self) -> str:
        """At how many steps the rules hold, in words."""
        _, right, steps = self._leaves
        return f"{right / steps:.0%} of {steps:,} steps"

    def summary(self) -> str:
        """What was learned, what it took, and what is promised."""
        now = self.progress
        shown = 0 if now.demonstrations is None else len(now.demonstrations)
        recorded = f"{now.recorded:,} recorded steps" if now.recorded else ""
        asked = f"{now.answers:,} answers in {now.answered.samples:,} steps" if now.answers else ""
        lines = [f"Learned from {' and '.join(filter(None, (recorded, asked)))}."]
        if shown:
            more = f"{shown:,} more episodes ({now.demonstrated:,} steps)"
            used = "not learned from" if self.certificate is None else "used to choose where it asks"
            lines.append(f"{more} {'of the expert' if now.driven else 'of the recording'} were {used}.")
        if self.policy.choices.rounding:
            lines.append(f"Actions are rounded to {len(self.policy.choices)}: {', '.join(self.policy.names)}.")
        lines.append(f"What the expert does, in a few rules (which hold at {self.rules_hold}):")
        lines += [f"  {rule}" for rule in self.rules()]
        lines.append("Nothing is promised." if self.certificate is None else self.certificate.in_words())
        return "\n".join(lines)

    def show(self) -> None:
        """Print the summary."""
        print(self.summary())

    def to_json(self) -> dict[str, Any]:
        """The result as plain values, for one line of JSON."""
        now = self.progress
        return {
            "samples": now.samples,
            "answers": now.answers,
            "recorded": now.recorded,
            "demonstrations": 0 if now.demonstrations is None else len(now.demonstrations),
            "demonstrated": now.demonstrated,
            "stopped": self.stopped,
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "rules": self.rules(),
            "directory": None if self.folder is None else str(self.folder),
        }

    def resume(self, *, callback: Callback | None = None, progress: bool = False, **settings: Any) -> ContinuousResult:
        """Go on, asking more of the run: `max_answers` and `max_samples` in all, `epsilon`, `calibration_episodes`.

        A run that is kept in a folder goes on there. Whatever is promised anew rests on new demonstrations.
        """
        if self.person:
            raise InputError(f"{self.folder} is an interview, which goes on on its page: aceirl interview")
        task = self._opened
        where = Path("this result") if self.folder is None else self.folder
        run = ContinuousRun(where, self.settings, self.source, task.parts, self.silent).under(Settings(**settings))
        check_settings(run.settings)
        if self.folder is not None:
            run.write()
        kept = None if self.folder is None else run
        more = drive(task, run.settings, kept, begun=self.progress, callback=callback, progress=progress)
        return replace(more, silent=self.silent)

    def __repr__(self) -> str:
        promise = self.certificate
        asks = "" if promise is None else f", asks at most {100 * promise.asks:.1f} % of its steps"
        return f"<ContinuousResult: {self.samples:,} steps, {self.answers:,} answers{asks}>"

    def save(self, folder: str | Path) -> Path:
        """Keep the run in a new folder, complete in itself: for `load`, and for the command line."""
        path = Path(folder)
        parts = {} if self.task is None else self.task.parts
        ContinuousRun.create(path, self.settings, self.source, parts, silent=self.silent).save(self.progress)
        return path


@dataclass(frozen=True, eq=False)
class ContinuousRun:
    """A folder with `run.json`, what was asked, and `state.npz`, where the run stands; see `ContinuousResult` for
    `silent`."""

    path: Path
    settings: Settings
    source: Source | None
    parts: dict[str, str]
    silent: bool = False

    @classmethod
    def create(
        cls, path: Path, settings: Settings, source: Source | None, parts: dict[str, str], *, silent: bool = False
    ) -> ContinuousRun:
        """A new run in a new or empty folder."""
        check_free(path, "resume it, or choose another folder")
        run = cls(path, settings, source, parts, silent)
        run.write()
        return run

    @classmethod
    def open(cls, path: Path) -> ContinuousRun:
        """A run that was created before."""
        if not is_continuous_run(path):
            raise InputError(f"{path} holds a run with numbered states; choose another folder")
        try:
            told = json.loads((path / CONFIGURATION).read_text())
            if told["format"] != FORMAT:
                raise InputError(f"{path} is of another version (format {told['format']}, this one reads {FORMAT})")
            source = told["source"] and Source(**told["source"])
            return cls(path, Settings(**told["settings"]), source, told["parts"], told.get("silent", False))
        except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise InputError(f"{path / CONFIGURATION} cannot be read as a run: {error}") from None

    def progress(self) -> LearningState | None:
        """Where the run stands; None if it has not begun."""
        try:
            with np.load(self.path / STATE, allow_pickle=False) as file:
                return LearningState.of_arrays(dict(file))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise InputError(f"{self.path / STATE} cannot be read as the state of a run: {error}") from None

    def save(self, progress: LearningState) -> None:
        """Write where the run stands, whole or not at all."""
        file = io.BytesIO()
        np.savez(file, **progress.arrays())
        with disk(self.path, KEPT):
            written(self.path / STATE, file.getvalue(), wait=False)

    def under(self, settings: Settings) -> ContinuousRun:
        """The run with what is said in other settings; an error for what cannot be changed once it has begun."""
        said = {name: getattr(settings, name) for name in settings.model_fields_set}
        before, after = self.settings.model_dump(), settings.model_dump()
        for name in said:
            if before[name] != after[name] and name not in CHANGEABLE:
                raise InputError(
                    f"{self.path} holds a run with {name} {before[name]!r}, not {after[name]!r}, and that cannot be "
                    "changed; choose another folder"
                )
        kept = {name: getattr(self.settings, name) for name in self.settings.model_fields_set}
        return replace(self, settings=Settings(**{**kept, **said}))

    def write(self) -> None:
        """Write what was asked into the folder."""
        content = self._configuration()  # an error here leaves no folder behind
        with disk(self.path, KEPT):
            self.path.mkdir(parents=True, exist_ok=True)
            written(self.path / CONFIGURATION, content)

    def result(self, task: ContinuousTask | None = None) -> ContinuousResult:
        """What the run came to so far."""
        progress = self.progress()
        if progress is None:
            raise InputError(f"{self.path} has no finished round yet")
        person = self.parts.get("expert") == PERSON["expert"]
        return ContinuousResult(progress, self.settings, task, self.path, self.source, person, self.silent)

    def _configuration(self) -> bytes:
        configuration = {
            "kind": CONTINUOUS,
            "format": FORMAT,
            "version": version("aceirl"),
            "settings": self.settings.model_dump(include=self.settings.model_fields_set),
            "source": None if self.source is None else vars(self.source),
            "parts": self.parts,
            "silent": self.silent,
        }
        return json.dumps(configuration, indent=2).encode()


def fit_continuous(
    given: Any,
    expert: Any,
    settings: Settings,
    *,
    horizon: int | None = None,
    fields: Any = None,
    demonstrations: Any = None,
    stochastic_expert: bool = False,
    regret: Any = None,
    out: Path | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> ContinuousResult:
    """What `ActiveIRL.fit` does where observations or actions are continuous; see there.

    With `out` the folder is written after each round, and a run that is there already goes on.
    """
    check_settings(settings)
    if stochastic_expert:
        raise InputError(STOCHASTIC)
    if regret is not None:
        raise InputError(
            "regret is a function of a policy [H, S] of numbered states; these observations are continuous"
        )
    if isinstance(given, Source) and is_recording(given.expert):
        given, demonstrations = replace(given, expert=None), given.expert
    if demonstrations is None and is_recording(expert):
        expert, demonstrations = None, expert
    recording: Recording | None = None if demonstrations is None else read_recording(demonstrations)
    run = None
    if out is not None and (out / CONFIGURATION).exists():
        run = ContinuousRun.open(out).under(settings)
        settings = run.settings
    if horizon is None and recording is not None and not isinstance(given, str | Source):
        horizon = getattr(getattr(given, "spec", None), "max_episode_steps", None) or recording.longest
    task = open_continuous(given, expert, horizon=horizon, fields=fields, seed=settings.seed)
    if task.ask is None and recording is None:
        raise InputError("expert must be given, or demonstrations: fit(environment, expert)")
    if run is not None:
        _check_parts(run, task)
        run.write()
    elif out is not None:
        run = ContinuousRun.create(out, settings, task.source, task.parts)
    return drive(task, settings, run, recording, callback=callback, progress=progress)


def drive(
    task: ContinuousTask,
    settings: Settings,
    run: ContinuousRun | None = None,
    recording: Recording | None = None,
    *,
    begun: LearningState | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> ContinuousResult:
    """Learn to the end, from where the `run` stands, if there is one, or else from what was `begun`.

    The folder is written as it goes on.
    """
    with alone(run.path, "another process is writing this run") if run else nullcontext():
        begun = begun if run is None else run.progress()
        last, saved, due = begun, begun, 0.0
        try:
            with _progress_bar(settings, show=progress) as advance:
                for last in learn(task, settings, begun, recording):
                    if run is not None and (last.done or time.monotonic() >= due):
                        run.save(last)
                        saved, due = last, time.monotonic() + SAVE_EVERY
                    advance(last)
                    if callback is not None and callback(last) is True:
                        break
        finally:
            if run is not None and last is not None and last is not saved:
                run.save(last)
    assert last is not None
    if run is None:
        return ContinuousResult(last, settings, task, source=task.source)
    return ContinuousResult(last, settings, task, run.path, task.source, silent=run.silent)


def _progress_bar(settings: Settings, *, show: bool) -> AbstractContextManager[Callable[[LearningState], None]]:
    """A line that shows how far a run is: answers, then demonstrations."""
    wanted = settings.max_answers or MAX_ANSWERS

    def status(now: LearningState) -> str:
        shown = 0 if now.demonstrations is None else len(now.demonstrations)
        driven = f" · {shown:,} of {settings.calibration_episodes:,} demonstrations" if now.driven else ""
        promise = "" if now.certificate is None else f" · asks at most {100 * now.certificate.asks:.1f} %"
        return f"{now.samples:,} samples · {now.answers:,} of {wanted:,} answers{driven}{promise}"

    return progress_line(status, lambda now: now.answers, wanted, show=show)


def _counter(what: str) -> Callable[[int], None]:
    """Say how many steps were taken, for whoever listens."""
    said = 0

    def count(taken: int) -> None:
        nonlocal said
        if taken >= said + SAID_EVERY:
            said = taken
            logging.getLogger("aceirl").info("%s: %s steps", what, f"{taken:,}")

    return count


def _check_parts(run: ContinuousRun, task: ContinuousTask) -> None:
    """A run goes on with what it was begun with, as far as that can be told."""
    for part, before in run.parts.items():
        if part in task.parts and before != task.parts[part]:
            raise InputError(
                f"{run.path} was begun with {part} {before}, not {task.parts[part]}; choose another folder"
            )
