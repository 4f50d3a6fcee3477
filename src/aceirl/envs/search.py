"""All transitions of a Gymnasium environment, by trying every action in copies of it.

A deterministic one is searched and its model is exact. Of any other, what happens is counted.
"""

from __future__ import annotations

import copy
import itertools
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import lru_cache
from types import NoneType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from aceirl.envs.gymnasium import actions_of
from aceirl.errors import InputError, shown
from aceirl.models.tabular.encoder import Discretise, StateIndex

# One outcome of a step: (probability, next observation, reward, terminated), as toy-text environments list them in `P`.
Outcome = tuple[float, Any, float, bool]
Row = tuple[Any, int, list[Outcome]]

# How many states a search may find before it is given up.
SEARCH_LIMIT = 400_000

# How often the start is looked at, and how often each action is tried in each state, always with other random numbers,
# to see whether it always does the same. The first ones are tried more often: where there are few, each has to show
# more.
STARTS = 50
TRIALS, FIRST_TRIALS = 5, 400

SAMPLED_STARTS = 500
SAMPLES = 60_000
"""Steps from which the model of a random environment is estimated, at most, and at least two for each action. Where so
many were all as the ones before them, each further action is tried once."""

MOST_TRIALS = 200
"""So often an action is tried in a state at most."""

SHARED = (gymnasium.Space, np.random.Generator, np.random.RandomState, random.Random)
UNCHANGING = (int, float, str, bytes, NoneType, np.generic, EnvSpec, *SHARED)
NONE: Counter[int] = Counter()
SAY_EVERY = 2.0  # seconds

Say = Callable[[str], None]
log = logging.getLogger("aceirl").info


class _Now:
    """Says how far something is, now and then."""

    def __init__(self, say: Say) -> None:
        self._say, self._last = say, time.monotonic()

    def now(self, text: Callable[[], str]) -> None:
        """Say it, if nothing was said for a while."""
        if time.monotonic() - self._last > SAY_EVERY:
            self._last = time.monotonic()
            self._say(text())


def searched(env: gymnasium.Env[Any, Any], say: Say = log) -> tuple[list[Row], Any]:
    """Every row of a deterministic environment and its start, found by trying each action in a copy of it."""
    states, told = StateIndex(env.observation_space), _Now(say)
    rows: list[Row] = []
    starts = [env.reset(seed=seed)[0] for seed in range(STARTS)]
    start = starts[-1]
    if len({states.number(observation) for observation in starts}) > 1:
        raise InputError("the start is random, so the exact model cannot be found by search; use another expert")
    waiting = [(start, env)]
    while waiting:
        observation, here = waiting.pop()
        for action, own in enumerate(actions_of(env.action_space)):
            there, outcome = _tried(here, own)
            trials = max(TRIALS, FIRST_TRIALS // (len(rows) + 1))
            others = (_tried(here, own)[1] for _ in range(1, trials))
            if not all(_same(states, outcome, other) for other in others):
                raise InputError(
                    f"action {action} in {shown(observation)} is random, so the exact model cannot be found by search; "
                    "use another expert"
                )
            rows.append((observation, action, [outcome]))
            met = len(states)
            if not outcome[3] and states.number(outcome[1]) == met:
                waiting.append((outcome[1], there))
        told.now(lambda: f"searching the environment: {len(rows):,} actions tried, {len(states):,} states")
        if len(states) > SEARCH_LIMIT:
            raise InputError(f"more than {SEARCH_LIMIT:,} states were found; the search for an exact model is given up")
    return rows, start


def sampled(env: gymnasium.Env[Any, Any], discretise: Discretise | None = None, say: Say = log) -> Sampled:
    """What every action does in every state, counted; in copies of the environment or, if that fails, in episodes.

    States that are bins have many observations, and a copy has one: they are met in episodes too.
    """
    tally = Sampled(env, StateIndex(env.observation_space, discretise), say)
    try:
        copied(env)
        can_copy = discretise is None
    except Exception:  # whatever another library raises where it cannot be copied
        can_copy = False
    if can_copy:
        tally.try_everywhere()
    else:
        tally.play_episodes()
    return tally


class Sampled:
    """How often each action led where, from an environment's `reset` and `step`.

    `rows` and `starts` are those of the estimated model, `steps` how many were taken for it.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], states: StateIndex, say: Say) -> None:
        self.env, self.states, self._told = env, states, _Now(say)
        self.actions = actions_of(env.action_space)
        self.steps = 0
        self._begun: Counter[int] = Counter()
        # By state and action: how often which state followed, and what was paid in all.
        self._led: dict[tuple[int, int], Counter[int]] = {}
        self._paid: Counter[tuple[int, int]] = Counter()
        self._by_chance = False  # whether an action has led to two places

    def try_everywhere(self) -> None:
        """Try each action in a copy of the environment in each state; often, if they are random."""
        places: dict[int, Any] = {}
        for seed in range(SAMPLED_STARTS):
            start = self._start(seed)
            if start not in places:
                places[start] = copied(self.env)
        waiting = list(places)
        for at, state in enumerate(waiting):  # grows while it is walked through
            trials = max(2, FIRST_TRIALS // (at * len(self.actions) + 1))
            waiting += self._tried_in(state, places, trials if self._by_chance or self.steps < SAMPLES else 1)
            if len(places) > SEARCH_LIMIT:
                break
        if self._by_chance:
            trials = min(MOST_TRIALS, (SAMPLES - self.steps) // (len(waiting) * len(self.actions)))
            for state in waiting:
                waiting += self._tried_in(state, places, trials)
                if self.steps > 2 * SAMPLES:  # there is no end of states
                    break

    def _tried_in(self, state: int, places: dict[int, Any], trials: int) -> list[int]:
        """The states in which to act that were met for the first time."""
        new = []
        for action in range(len(self.actions)):
            for _ in range(trials):
                there = copied(places[state])
                successor, over = self._step(there, state, action)
                if not over and successor not in places:
                    places[successor] = there
                    new.append(successor)
        return new

    def play_episodes(self) -> None:
        """Play episodes, with the action that was taken least where one is."""
        for seed in itertools.count():
            state, over = self._start(seed), False
            while not over and self.steps < SAMPLES:
                tried = [self._led.get((state, action), Counter()).total() for action in range(len(self.actions))]
                state, over = self._step(self.env, state, int(np.argmin(tried)), cut=True)
            if self.steps >= SAMPLES:
                return

    def _start(self, seed: int) -> int:
        state = self.states.number(self.env.reset(seed=seed)[0])
        self._begun[state] += 1
        return state

    def _step(self, env: gymnasium.Env[Any, Any], state: int, action: int, *, cut: bool = False) -> tuple[int, bool]:
        """Where an action led, and whether the episode is over; a time limit is an end only if it is to `cut`."""
        observation, reward, terminated, truncated, _ = env.step(self.actions[action])
        successor = self.states.number(observation, terminal=bool(terminated))
        led = self._led.setdefault((state, action), Counter())
        led[successor] += 1
        self._by_chance |= len(led) > 1
        self._paid[state, action] += float(reward)  # type: ignore[assignment]
        self.steps += 1
        self._told.now(lambda: f"sampling the target: {self.steps:,} steps, {len(self.states):,} states")
        return successor, bool(terminated or (cut and truncated))

    @property
    def starts(self) -> list[tuple[int, float]]:
        """How likely episodes start in which state."""
        return [(state, count / self._begun.total()) for state, count in self._begun.items()]

    @property
    def rows(self) -> Iterator[tuple[int, int, list[tuple[float, int]], float]]:
        """`(state, action, [(probability, successor)], reward)` of all states in which one acts.

        An action that was never tried in a state is taken to do what the others did there; if none was tried, to stay.
        """
        numbers = range(len(self.actions))
        for state in range(len(self.states)):
            if state in self.states.terminal:
                continue
            known = [self._led.get((state, action), NONE) for action in numbers]
            pooled = NONE if all(known) else sum(known, Counter()) or Counter({state: 1})
            for action in numbers:
                led = known[action] or pooled
                paid = self._paid[state, action] / max(1, known[action].total())
                yield state, action, [(count / led.total(), after) for after, count in led.items()], paid


def copied(env: Any) -> Any:
    """A copy that shares its spaces, which do not change, and its generators: so no two tries see the same numbers.

    Attributes that cannot change are taken over, and flat arrays copied, which takes a tenth of the time of a deep
    copy; that is made of all that has others.
    """
    made, arrays = copy.copy(env), dict[int, Any]()
    for name, value in vars(env).items():
        if isinstance(value, UNCHANGING):
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            setattr(made, name, arrays.setdefault(id(value), value.copy()))
        elif name == "env" and isinstance(env, gymnasium.Wrapper):
            made.env = copied(value)
        elif not _is_fixed(value):
            return copy.deepcopy(env, _shared(env))
    return made


def _is_fixed(value: Any) -> bool:
    """Whether nothing in a value can change, or it is shared; a tuple, a frozen set or a frozen dataclass may be so."""
    frozen = getattr(type(value), "__dataclass_params__", None)
    if frozen is not None and frozen.frozen:
        return all(_is_fixed(getattr(value, part.name)) for part in fields(value))
    if isinstance(value, frozenset):
        return _are_fixed(value)
    if isinstance(value, tuple):
        return all(isinstance(part, UNCHANGING) or _is_fixed(part) for part in value)
    return isinstance(value, UNCHANGING)


@lru_cache(maxsize=64)
def _are_fixed(values: frozenset[Any]) -> bool:
    """Whether all of a set are, which copies share, so it is looked at once."""
    return all(_is_fixed(one) for one in values)


def _shared(env: Any) -> dict[int, Any]:
    """What a deep copy shall not copy."""
    shared = {id(value): value for value in vars(env).values() if isinstance(value, SHARED)}
    return shared if env is env.unwrapped else shared | _shared(env.env)


def _tried(env: gymnasium.Env[Any, Any], action: Any) -> tuple[gymnasium.Env[Any, Any], Outcome]:
    """A copy of the environment after an action, and what that did."""
    there = copied(env)
    observation, reward, terminated, _, _ = there.step(action)
    return there, (1.0, observation, float(reward), bool(terminated))


def _same(states: StateIndex, first: Outcome, second: Outcome) -> bool:
    return first[2:] == second[2:] and states.key(first[1]) == states.key(second[1])
