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
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from types import NoneType
from typing import Any

import gymnasium
import numpy as np
import scipy
from gymnasium.envs.registration import EnvSpec

from aceirl.envs.gymnasium import actions_of
from aceirl.errors import InputError, shown
from aceirl.models.tabular.encoder import Discretise, StateIndex
from aceirl.models.tabular.mdp import FloatArray

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
    """How often each action led where, from an environment's `reset` and `step`; `steps` is how many were taken."""

    def __init__(self, env: gymnasium.Env[Any, Any], states: StateIndex, say: Say) -> None:
        self.env, self.states, self._told = env, states, _Now(say)
        self.actions = actions_of(env.action_space)
        self.steps = 0
        self._begun: Counter[int] = Counter()
        # By the row, state times actions plus action: how often it was tried, what was paid in all, and what followed.
        self._tried: dict[int, int] = {}
        self._paid: dict[int, float] = {}
        self._led: dict[tuple[int, int], int] = {}
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
        numbers = range(len(self.actions))
        for seed in itertools.count():
            state, over = self._start(seed), False
            while not over and self.steps < SAMPLES:
                rarest = min(numbers, key=lambda action: self._tried.get(self._row(state, action), 0))
                state, over = self._step(self.env, state, rarest, cut=True)
            if self.steps >= SAMPLES:
                return

    def _start(self, seed: int) -> int:
        state = self.states.number(self.env.reset(seed=seed)[0])
        self._begun[state] += 1
        return state

    def _row(self, state: int, action: int) -> int:
        return state * len(self.actions) + action

    def _step(self, env: gymnasium.Env[Any, Any], state: int, action: int, *, cut: bool = False) -> tuple[int, bool]:
        """Where an action led, and whether the episode is over; a time limit is an end only if it is to `cut`."""
        observation, reward, terminated, truncated, _ = env.step(self.actions[action])
        successor, row = self.states.number(observation, terminal=bool(terminated)), self._row(state, action)
        tried, often = self._tried.get(row, 0), self._led.get((row, successor), 0)
        self._by_chance |= often < tried
        self._tried[row], self._led[row, successor] = tried + 1, often + 1
        self._paid[row] = self._paid.get(row, 0.0) + float(reward)
        self.steps += 1
        self._told.now(lambda: f"sampling the target: {self.steps:,} steps, {len(self.states):,} states")
        return successor, bool(terminated or (cut and truncated))

    @property
    def initial(self) -> FloatArray:
        """`[S]`: how likely episodes start in which state."""
        starts = np.zeros(len(self.states))
        starts[list(self._begun)] = list(self._begun.values())
        return np.asarray(starts / starts.sum())

    @property
    def reward(self) -> FloatArray:
        """`[S, A]`: what an action paid on average; nothing where it was never tried."""
        paid = np.zeros((len(self.states), len(self.actions)))
        rows = np.fromiter(self._tried, np.int64)
        paid.ravel()[rows] = np.fromiter(self._paid.values(), np.float64) / np.fromiter(self._tried.values(), np.int64)
        return paid

    @property
    def moves(self) -> FloatArray:
        """`[n, 4]`: a state, an action, a successor, and how likely it is.

        An action that was never tried in a state is taken to do what the others did there; if none was tried, to stay,
        as where episodes are over.
        """
        shape, keys = (len(self.states), len(self.actions)), np.array(list(self._led), dtype=np.int64).reshape(-1, 2)
        often, n_rows = np.fromiter(self._led.values(), np.float64), shape[0] * shape[1]
        tried = scipy.sparse.csr_array((often, keys.T), shape=(n_rows, shape[0]))
        is_new = np.asarray(tried.sum(axis=1)) == 0
        of_state = np.repeat(np.arange(shape[0]), shape[1])
        pooled = (
            scipy.sparse.csr_array((np.ones(n_rows), (of_state, np.arange(n_rows))), shape=(shape[0], n_rows)) @ tried
        )
        stays = np.asarray(pooled.sum(axis=1)) == 0
        pooled += scipy.sparse.diags_array(stays.astype(np.float64))
        counted = (tried + scipy.sparse.diags_array(is_new.astype(np.float64)) @ pooled[of_state]).tocoo()
        row, successor = counted.coords
        likely = counted.data / np.bincount(row, weights=counted.data)[row]
        return np.column_stack((row // shape[1], row % shape[1], successor, likely))


def copied(env: Any) -> Any:
    """A copy that shares its spaces, which do not change, and its generators: so no two tries see the same numbers.

    Attributes that cannot change are taken over, and flat arrays copied, which takes a tenth of the time of a deep
    copy; that is made of all that has others.
    """
    made, arrays = _shallow(env), dict[int, Any]()
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


def _shallow(env: Any) -> Any:
    """What `copy.copy` makes, but sooner if the class has nothing to say about it."""
    kind: Any = type(env)
    if not _is_plain(kind):
        return copy.copy(env)
    made = kind.__new__(kind)
    vars(made).update(vars(env))
    return made


@lru_cache(maxsize=64)
def _is_plain(kind: Any) -> bool:
    """Whether objects of a class are made of their attributes alone."""
    ways = ("__new__", "__reduce__", "__reduce_ex__", "__getstate__")
    usual = all(getattr(kind, name) is getattr(object, name) for name in ways)
    slots = any(vars(one).get("__slots__") for one in kind.__mro__)
    return usual and not slots and not hasattr(kind, "__copy__") and not hasattr(kind, "__setstate__")


def _is_fixed(value: Any) -> bool:
    """Whether nothing in a value can change, or it is shared; a tuple, a frozen set or a frozen dataclass may be so.

    Copies share a set or a dataclass that is, so it is looked at once.
    """
    if isinstance(value, tuple):
        return all(isinstance(part, UNCHANGING) or _is_fixed(part) for part in value)
    if _FIXED.get(id(value)) is value:
        return True
    frozen = getattr(type(value), "__dataclass_params__", None)
    if isinstance(value, frozenset):
        fixed = all(map(_is_fixed, value))
    elif frozen is not None and frozen.frozen:
        fixed = all(_is_fixed(getattr(value, part.name)) for part in fields(value))
    else:
        return isinstance(value, UNCHANGING)
    if fixed:
        if len(_FIXED) == MOST_FIXED:
            _FIXED.clear()
        _FIXED[id(value)] = value
    return fixed


MOST_FIXED = 64
_FIXED: dict[int, Any] = {}
"""Sets and dataclasses, by identity, in which nothing can change."""


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
