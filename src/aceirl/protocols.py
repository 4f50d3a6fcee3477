"""What the learner may touch: an environment to act in and an expert to ask. Neither shows its insides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from aceirl.mdp import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Moves:
    """Observed transitions with multiplicities: `count[i]` times `(step, state, action)[i]` led to `successor[i]`.

    All fields are flat integer arrays of one length; `starts [S]` counts the states in which episodes began.
    """

    step: IntArray
    state: IntArray
    action: IntArray
    successor: IntArray
    count: IntArray
    starts: IntArray


class Environment(Protocol):
    """An episodic environment with `n_states` states, `n_actions` actions and episodes of `horizon` steps.

    `initial` is the start distribution `[S]` if the learner is told it, else None (it is then estimated from resets).
    """

    @property
    def n_states(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def initial(self) -> FloatArray | None: ...

    def reset(self, rng: np.random.Generator) -> int:
        """Begin an episode, with this generator as its only source of chance, and return the state."""

    def step(self, action: int) -> int:
        """Take an action and return the state it led to."""


@runtime_checkable
class BatchedEnvironment(Protocol):
    """An environment that can play many episodes of one policy at once."""

    def rollout(self, policy: FloatArray, episodes: int, rng: np.random.Generator) -> Moves:
        """The transitions of `episodes` independent episodes of `policy [H, S, A]`."""


@runtime_checkable
class GenerativeModel(Protocol):
    """An environment that can be put into any state: the baselines `uniform` and `travel` need it."""

    def sample(self, step: int, state: int, action: int, rng: np.random.Generator) -> int:
        """One successor of `(step, state, action)`."""

    def sample_many(self, allocation: IntArray, rng: np.random.Generator) -> Moves:
        """`allocation[h, s, a]` independent successors of each `(h, s, a)`."""


class Expert(Protocol):
    """Someone who says what they would do.

    A deterministic expert always answers a question the same way; a stationary one does not look at the step.
    """

    @property
    def deterministic(self) -> bool: ...
    @property
    def stationary(self) -> bool: ...

    def answer(self, step: int, state: int, rng: np.random.Generator) -> int:
        """The action the expert would take in `state` at `step`."""


@runtime_checkable
class TableExpert(Protocol):
    """An expert whose answers are known to the simulator as a table, so that batches can be answered at once."""

    @property
    def policy(self) -> FloatArray:
        """`[H, S, A]`: how likely each answer is."""
