"""The whole run with continuous observations: ask in rounds, fit once more, let the expert drive, calibrate the gate.

`learn` yields after each round and each batch of demonstrations. What it yields is all that the run needs to go on:
from the same state the same follows.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aceirl.certificates.budget import Budget
from aceirl.certificates.gated import ASK_EVERYWHERE, Demonstrated, GatedCertificate, certify, least_episodes
from aceirl.data.recording import Recording
from aceirl.errors import InputError
from aceirl.experts.tasks.continuous import ContinuousTask
from aceirl.irl.belief import Target
from aceirl.learner.continuous.collect import Answered, ExpertEpisodes, demonstrated, last_fit, of_recording, rounds
from aceirl.learner.continuous.policy import GatedPolicy
from aceirl.learner.settings import Settings

EVENT = "gated"
"""What the promise is called in the budget of `delta`."""

MAX_ANSWERS = 1_000
"""Answers to learn from, where no setting says how many."""

AT_ONCE = 50
"""So many demonstrations are kept at a time."""

DIVIDING = 5
"""A further stream of random numbers, see `collect`."""

SETTINGS = (
    "certify",
    "epsilon",
    "delta",
    "rmax",
    "max_return",
    "discount",
    "max_samples",
    "max_answers",
    "calibration_episodes",
    "seed",
)
"""The settings that mean something here."""


@dataclass(frozen=True, eq=False)
class LearningState:
    """Where a run stands: the answers, the policy once it is fitted, the demonstrations, and the certificate.

    `restarts` counts the certificates of the run that came before; each spends from the budget of `delta`. `recorded`
    are answers that came from a recording; `driven` episodes with `driven_steps` were ever driven to calibrate.
    """

    answered: Answered
    policy: GatedPolicy | None = None
    demonstrations: ExpertEpisodes | None = None
    certificate: GatedCertificate | None = None
    restarts: int = 0
    recorded: int = 0
    driven: int = 0
    driven_steps: int = 0
    done: bool = False

    @property
    def answers(self) -> int:
        """How often the expert was asked, besides the demonstrations."""
        return len(self.answered) - self.recorded

    @property
    def demonstrated(self) -> int:
        """The steps of the demonstrations that calibrate the gate."""
        return 0 if self.demonstrations is None else int(self.demonstrations.lengths.sum())

    @property
    def samples(self) -> int:
        """All steps that were taken in the environment: while learning, and by the expert for the gate."""
        return self.answered.samples + self.driven_steps

    def arrays(self) -> dict[str, Any]:
        """What `of_arrays` reads."""
        parts = {"answered": self.answered, "policy": self.policy, "demonstrations": self.demonstrations}
        named = {
            f"{part}.{name}": array
            for part, value in parts.items()
            if value is not None
            for name, array in value.arrays().items()
        }
        promised = None if self.certificate is None else self.certificate.to_json()
        counts = {name: getattr(self, name) for name in ("restarts", "recorded", "driven", "driven_steps", "done")}
        return {**named, "words": np.asarray(json.dumps({"certificate": promised, **counts}))}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> LearningState:
        """The state that `arrays` wrote."""

        def part(name: str) -> dict[str, Any]:
            return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}

        words = json.loads(str(arrays["words"]))
        promised, policy, shown = words.pop("certificate"), part("policy"), part("demonstrations")
        gated = GatedPolicy.of_arrays(policy) if policy else None
        if promised is not None and gated is not None:  # which may be infinite
            promised["threshold"] = gated.threshold
        return cls(
            Answered.of_arrays(part("answered")),
            gated,
            ExpertEpisodes.of_arrays(shown) if shown else None,
            None if promised is None else GatedCertificate(**promised),
            **words,
        )


def check_settings(settings: Settings) -> None:
    """Refuse what is said and means nothing for continuous observations."""
    certify = settings.certify
    if certify is not None and getattr(certify, "name", "policy") != "policy":
        raise InputError(
            f"certificate {certify.name!r} is for numbered states; with continuous observations only the policy can be "
            "certified: certify='policy', or None"
        )
    for name in sorted(settings.model_fields_set - set(SETTINGS)):
        raise InputError(
            f"{name} is for numbered states, and these observations or actions are continuous; leave it out, or put "
            "the observations into bins: fit(..., discretise=Bins(...)) (--discretise)"
        )


def target_of(task: ContinuousTask, settings: Settings) -> Target:
    """What is asked of the certificate, in the units that are said or known."""
    said, (rmax, most) = settings.model_fields_set, task.pay
    known: dict[str, Any] = {}
    if "rmax" not in said and rmax is not None:
        known = {"rmax": rmax} | ({} if "max_return" in said else {"max_return": most})
    return settings.model_copy(update=known).target(task.horizon)


def learn(
    task: ContinuousTask,
    settings: Settings,
    state: LearningState | None = None,
    recording: Recording | None = None,
) -> Generator[LearningState, None, None]:
    """Ask, fit, let the expert drive, calibrate; the last state yielded is `done`.

    With a `recording` and nobody to ask, half of its episodes are learned from and the others calibrate the gate. With
    an expert too, all of them are answers to begin with, and budgets are for what comes after. A run that is over goes
    on if the settings ask for more answers, for other demonstrations, or for another promise.
    """
    if state is None and recording is not None:
        state = _begun_with(recording, task, settings.seed)
    if state is not None and state.done:
        if not _wants_more(task, settings, state):
            yield state
            return
        spent = state.restarts + (state.certificate is not None)
        # What is asked of the run now may hang on the old demonstrations, so they are no evidence for it.
        kept = None if state.driven else state.demonstrations
        state = replace(state, done=False, policy=None, certificate=None, restarts=spent, demonstrations=kept)
    if task.ask is not None:
        state = yield from _asking(task, settings, state)
    if state is None:
        raise InputError("expert must be given, or demonstrations: fit(environment, expert)")
    if state.policy is None:
        state = replace(state, policy=_fitted(task, state.answered, settings.seed))
        yield state
    if settings.certify is not None:
        if task.ask is not None:
            state = yield from _driving(task, settings, state)
        if state.demonstrations is not None:
            state = _promised(task, settings, state)
    yield replace(state, done=True)


def _wants_more(task: ContinuousTask, settings: Settings, state: LearningState) -> bool:
    """Whether the settings ask for more than a run that is over has."""
    asks, promise, shown = task.ask is not None, state.certificate, state.demonstrations
    if asks and state.answers < (settings.max_answers or MAX_ANSWERS) and state.answered.samples < settings.max_samples:
        return True
    if settings.certify is None:
        return False
    if promise is None:
        return asks or shown is not None
    if promise.epsilon == target_of(task, settings).epsilon:
        return asks and shown is not None and len(shown) != settings.calibration_episodes
    if not asks:
        raise InputError(
            "the recording was used to certify another epsilon, and cannot be used a second time; keep that epsilon, "
            "or give an expert to ask"
        )
    return True


def _asking(
    task: ContinuousTask, settings: Settings, state: LearningState | None
) -> Generator[LearningState, None, LearningState | None]:
    """Rounds of questions, unless a policy was fitted already; the state after them."""
    if state is not None and state.policy is not None:
        return state
    recorded = 0 if state is None else state.recorded
    budget = recorded + (settings.max_answers or MAX_ANSWERS)
    before = None if state is None else state.answered
    for answered in rounds(task, settings.seed, budget, settings.max_samples, before):
        state = LearningState(answered, recorded=recorded) if state is None else replace(state, answered=answered)
        yield state
    return state


def _fitted(task: ContinuousTask, answered: Answered, seed: int) -> GatedPolicy:
    committee, choices = last_fit(answered, task.encoding, seed)
    return GatedPolicy(committee, choices, task.encoding, ASK_EVERYWHERE, task.fields, task.names(choices))


def _driving(
    task: ContinuousTask, settings: Settings, state: LearningState
) -> Generator[LearningState, None, LearningState]:
    """Demonstrations, until there are enough."""
    assert state.policy is not None
    choices, shown = state.policy.choices, state.demonstrations
    while shown is None or len(shown) < settings.calibration_episodes:
        more = min(AT_ONCE, settings.calibration_episodes - (0 if shown is None else len(shown)))
        new = demonstrated(task, choices, settings.seed, state.driven, state.driven + more)
        shown = new if shown is None else shown + new
        steps = state.driven_steps + int(new.lengths.sum())
        state = replace(state, demonstrations=shown, driven=state.driven + more, driven_steps=steps)
        yield state
    return state


def _promised(task: ContinuousTask, settings: Settings, state: LearningState) -> LearningState:
    """The state with its gate calibrated; the certificates before it, if any, have spent of `delta`."""
    policy, shown = state.policy, state.demonstrations
    assert policy is not None
    assert shown is not None
    chosen, scores = policy.committee.agree(shown.observations)
    agrees = (policy.choices.values[chosen] == shown.actions).all(axis=1)
    found = Demonstrated(scores, agrees, shown.lengths)
    delta = _delta(settings, state.restarts)
    certificate = certify(found, target_of(task, settings), task.horizon, delta, rounded=policy.choices.rounding)
    return replace(state, certificate=certificate, policy=replace(policy, threshold=certificate.threshold))


def _delta(settings: Settings, restarts: int) -> float:
    """What the budget has for a certificate after so many others."""
    return settings.delta * Budget.begun(EVENT).started_anew(EVENT, restarts).share(EVENT)


def least_demonstrations(task: ContinuousTask, settings: Settings, restarts: int = 0) -> int:
    """Without so many demonstrations nothing can be promised; with them, a gate that misses nothing in any of them."""
    return least_episodes(target_of(task, settings).share(task.horizon), _delta(settings, restarts))


def _begun_with(recording: Recording, task: ContinuousTask, seed: int) -> LearningState:
    """What a recording gives: answers and, where nobody can be asked, demonstrations that are not learned from."""
    shown = of_recording(recording.episodes, task.encoding, task.horizon)
    if task.ask is not None:
        return LearningState(shown.answers(), recorded=len(shown.observations))
    if len(shown) < 2:
        raise InputError(
            f"the recording has {len(shown)} episode, and at least two are needed: one to learn from, one to calibrate"
        )
    order = np.random.default_rng((seed, DIVIDING)).permutation(len(shown))
    learned, kept = shown.chosen(order[: len(shown) // 2]), shown.chosen(order[len(shown) // 2 :])
    answers = learned.answers()
    return LearningState(answers, demonstrations=kept, recorded=len(learned.observations))
