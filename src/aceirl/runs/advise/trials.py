"""Random episodes, and the beginning of a run: how long things take, and how many it will be."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.certificates.e_process import kelly_wager
from aceirl.experts.tasks import Source, Task, open_world
from aceirl.learner.collect import Streams
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.protocols import Capabilities, NumberedEnvironment

RANDOM_EPISODES, RANDOM_SECONDS, LONGEST_EPISODE = 20, 5.0, 1_000

REHEARSED_EPISODES, REHEARSED_SECONDS = 40, 10.0
"""A rehearsal ends with its certificate, or when it can foretell one after so many episodes, or after so long."""

FORETOLD = 2.0
"""What is still to come is foretold up to so many times what the rehearsal took. It goes by how often episodes meet
something new, which becomes rarer: far ahead it says too much, up to two hundred times. So it is at most three times
too much, for a run that has not ended takes more than its rehearsal did."""


@dataclass(frozen=True)
class Wandering:
    """What random episodes showed: how many there were, their steps in all, and how many ended by themselves.

    `seconds_per_step` is the median, of the environment alone; `states` are those met. Where little is known yet:
    `longest` is the longest that ended, `limit` the shortest that was truncated, and `ranges` are the lowest and
    highest value of each number in a continuous observation.
    """

    episodes: int
    steps: int
    seconds_per_step: float
    ended: int
    states: int | None = None
    longest: int | None = None
    limit: int | None = None
    ranges: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Price:
    """What the run is expected to take in all; None where that cannot be said. `source` is where it comes from."""

    least_episodes: int | None
    samples: int | None
    answers: int | None
    seconds: float | None
    source: str


@contextmanager
def environment_of(source: Source) -> Iterator[NumberedEnvironment]:
    """The environment of a source, without an expert."""
    with closing(open_world(source)) as world:
        yield world.environment


def wander(environment: NumberedEnvironment, seed: int) -> Wandering:
    """Random episodes, `RANDOM_EPISODES` of them or fewer if they take long."""
    rng = Streams(seed, 0).ties
    lengths: list[int] = []
    seconds: list[float] = []
    ended, met, began, encode = 0, set(), time.perf_counter(), Capabilities.of(environment).encode
    while len(lengths) < RANDOM_EPISODES and (not lengths or time.perf_counter() - began < RANDOM_SECONDS):
        met.add(encode(environment.reset(rng)))
        for step in range(1, environment.horizon + 1):
            action, before = int(rng.integers(environment.n_actions)), time.perf_counter()
            observation, over = environment.step(action)
            seconds.append(time.perf_counter() - before)
            met.add(encode(observation, over))
            if over or step == environment.horizon:
                ended += over
                lengths.append(step)
                break
    return Wandering(len(lengths), sum(lengths), float(np.median(seconds)), ended, len(met))


def wander_unlimited(env: Any, seed: int) -> Wandering:
    """The same in a Gymnasium environment whose episodes or observations the learner cannot take yet."""
    env.action_space.seed(seed)
    lengths: list[int] = []
    seconds: list[float] = []
    observations: list[Any] = []
    outcomes: list[tuple[bool, bool]] = []
    began = time.perf_counter()
    while len(lengths) < RANDOM_EPISODES and (not lengths or time.perf_counter() - began < RANDOM_SECONDS):
        env.reset(seed=seed + len(lengths))
        for step in range(1, LONGEST_EPISODE + 1):
            action, before = env.action_space.sample(), time.perf_counter()
            observation, _, terminated, truncated, _ = env.step(action)
            seconds.append(time.perf_counter() - before)
            observations.append(observation)
            if terminated or truncated or step == LONGEST_EPISODE:
                outcomes.append((bool(terminated), bool(truncated)))
                lengths.append(step)
                break
    over = [length for length, (terminated, _) in zip(lengths, outcomes, strict=True) if terminated]
    cut = [length for length, (terminated, truncated) in zip(lengths, outcomes, strict=True) if truncated > terminated]
    return Wandering(
        len(lengths),
        sum(lengths),
        float(np.median(seconds)),
        len(over),
        longest=max(over, default=None),
        limit=min(cut, default=None),
        ranges=_ranges(observations),
    )


def _ranges(observations: Sequence[Any]) -> tuple[tuple[float, float], ...]:
    """The lowest and the highest of each number; none, if observations are not flat rows of numbers."""
    first = np.asarray(observations[0]) if observations and not isinstance(observations[0], dict | tuple) else None
    if first is None or first.ndim != 1 or first.dtype.kind != "f":
        return ()
    rows = np.asarray(observations, dtype=np.float64)
    return tuple(zip(rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), strict=True))


def rehearse(task: Task, settings: Settings) -> tuple[Price, int]:
    """Begin the run, and stop when it is seen what it will take.

    Also how many states there are in which the expert, asked again, said something else.
    """
    began, seconds, turns = time.perf_counter(), [], []
    with closing(learn(task.environment, task.expert, settings)) as steps:
        for turn in steps:
            turns.append(turn)
            seconds.append(time.perf_counter() - began)
            late = turn.record.episodes >= REHEARSED_EPISODES and turn.iteration % 10 == 0
            if turn.record.stopped or seconds[-1] > REHEARSED_SECONDS or (late and _foretold(turn) is not None):
                break
    last, more = turns[-1].record, _foretold(turns[-1])
    least = None if settings.certify is None else least_episodes(settings, task.environment)
    said = f"a trial run of {last.episodes:,} episodes, {last.samples:,} samples and {in_seconds(seconds[-1])}"
    contradicted = int(np.count_nonzero(turns[-1].counts.contradicted))
    if more is None:
        return Price(least, None, None, None, said), contradicted
    # The first turns compile and meet everything for the first time; what comes is like the second half.
    middle = (len(turns) - 1) // 2
    half = turns[middle].record
    share = more / max(1, last.samples - half.samples)
    answers = last.answers + round((last.answers - half.answers) * share)
    whole = seconds[-1] + (seconds[-1] - seconds[middle]) * share
    return Price(least, last.samples + more, answers, whole, said), contradicted


def in_seconds(seconds: float) -> str:
    """Seconds as people write them."""
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _foretold(turn: Turn) -> int | None:
    """How many more samples the certificate expects to need; None if that is too far ahead to tell."""
    kind = turn.settings.certify
    if kind is None:
        return None
    found = turn.certificate(kind.name)
    more = 0 if found.holds else found.more_samples
    return None if more is None or more > FORETOLD * turn.record.samples else more


def least_episodes(settings: Settings, environment: NumberedEnvironment | None = None, *, horizon: int = 1) -> int:
    """How many episodes the `policy` certificate takes if none of them ever leaves what is known.

    Once the expert is known in all the states there are, it holds whatever the number.
    """
    steps = horizon if environment is None else environment.horizon
    target = settings.target(steps)
    losses = target.losses(steps)
    if environment is not None and environment.initial is not None:
        losses = np.minimum(losses, losses[1])  # every start is known, and the expert is taken at its word
    share = target.share(steps)
    growth = kelly_wager(np.eye(steps + 1)[-1], losses, share).growth
    return math.ceil(math.log(1 / settings.delta) / growth) if growth > 0 else 1
