"""All transitions of a deterministic Gymnasium environment, by trying every action in copies of it."""

from __future__ import annotations

import copy
import itertools
import random
from typing import Any

import gymnasium
import numpy as np

from aceirl.errors import InputError, shown
from aceirl.models.tabular.encoder import StateIndex

# One outcome of a step: (probability, next observation, reward, terminated), as toy-text environments list them in `P`.
Outcome = tuple[float, Any, float, bool]
Row = tuple[Any, int, list[Outcome]]

# How many states a search may find before it is given up.
SEARCH_LIMIT = 20_000

# How often the start is looked at, and how often each action is tried in each state, always with another seed, to see
# whether it always does the same. The first ones are tried more often: where there are few, each has to show more.
STARTS = 50
TRIALS, FIRST_TRIALS = 5, 400


def searched(env: gymnasium.Env[Any, Any], n_actions: int) -> tuple[list[Row], Any]:
    """Every row of a deterministic environment and its start, found by trying each action in a copy of it."""
    states = StateIndex(env.observation_space)
    rows: list[Row] = []
    starts = [env.reset(seed=seed)[0] for seed in range(STARTS)]
    start = starts[-1]
    if len({states.number(observation) for observation in starts}) > 1:
        raise InputError("the start is random, so the exact model cannot be found by search; use another expert")
    waiting, seeds = [(start, env)], itertools.count()
    while waiting:
        observation, here = waiting.pop()
        for action in range(n_actions):
            there, outcome = _tried(here, action, next(seeds))
            trials = max(TRIALS, FIRST_TRIALS // (len(rows) + 1))
            others = (_tried(here, action, next(seeds))[1] for _ in range(1, trials))
            if not all(_same(states, outcome, other) for other in others):
                raise InputError(
                    f"action {action} in {shown(observation)} is random, so the exact model cannot be found by search; "
                    "use another expert"
                )
            rows.append((observation, action, [outcome]))
            met = len(states)
            if not outcome[3] and states.number(outcome[1]) == met:
                waiting.append((outcome[1], there))
        if len(states) > SEARCH_LIMIT:
            raise InputError(f"more than {SEARCH_LIMIT} states were found; the search for an exact model is given up")
    return rows, start


def _tried(env: gymnasium.Env[Any, Any], action: int, seed: int) -> tuple[gymnasium.Env[Any, Any], Outcome]:
    """A copy of the environment after an action, with all its generators set to a seed."""
    there = copy.deepcopy(env)
    _seed_generators(there.unwrapped, seed)
    observation, reward, terminated, _, _ = there.step(int(env.action_space.start) + action)  # type: ignore[attr-defined]
    return there, (1.0, observation, float(reward), bool(terminated))


def _seed_generators(env: Any, seed: int) -> None:
    """Set all generators that an environment keeps, its own ones too."""
    env.np_random = np.random.default_rng(seed)
    for name, value in vars(env).items():
        match value:
            case np.random.Generator():
                setattr(env, name, np.random.default_rng(seed))
            case np.random.RandomState():
                setattr(env, name, np.random.RandomState(seed))
            case random.Random():
                value.seed(seed)


def _same(states: StateIndex, first: Outcome, second: Outcome) -> bool:
    return first[2:] == second[2:] and states.key(first[1]) == states.key(second[1])
