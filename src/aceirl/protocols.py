"""What the learner may touch: an environment to act in and an expert to ask. Neither shows its insides."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from aceirl.mdp import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Moves:
    """Observed transitions with multiplicities: `count[i]` times `(step, state, action)[i]` led to `successor[i]`.

    All fields are flat integer arrays of one length; `starts [S]` counts the states in which episodes began. If a
    route was watched, `exits [H+1]` counts the episodes that first strayed from it before step `h`, or never (the last
    entry).
    """

    step: IntArray
    state: IntArray
    action: IntArray
    successor: IntArray
    count: IntArray
    starts: IntArray
    exits: IntArray | None = None


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
class EndingEnvironment(Protocol):
    """An environment whose episodes may be over before the horizon.

    They then stay in the state `end`, whatever is done; nothing is observed there and nobody is asked.
    """

    @property
    def end(self) -> int: ...


@runtime_checkable
class ParallelEnvironment(Protocol):
    """An environment of which several episodes can be played side by side, each in one of its `copies`."""

    @property
    def copies(self) -> int: ...

    def begin(self, episodes: int, rng: np.random.Generator) -> list[int]:
        """Begin that many episodes, at most one a copy, with chance from this generator; their states, in order."""

    def advance(self, actions: Mapping[int, int]) -> dict[int, int]:
        """Take an action in each of these episodes, by number, and return the states they led to.

        All episodes are at the same step, so one that is not among them is over.
        """


@runtime_checkable
class GrowingEnvironment(Protocol):
    """An environment that numbers its states as it meets them, so that `n_states` grows.

    `possible_states` is how many there can be, None if nobody can say; `names` are those met, in their order.
    """

    @property
    def possible_states(self) -> int | None: ...
    @property
    def names(self) -> tuple[str, ...]: ...

    def recall(self, names: tuple[str, ...]) -> None:
        """Number the states as these names do, and forget all others. No names: start anew."""


class ShowingEnvironment(Protocol):
    """An environment that can show an expert what a state looks like, and understands its own actions."""

    @property
    def n_actions(self) -> int: ...
    @property
    def horizon(self) -> int: ...

    def observation(self, state: int) -> Any:
        """The observation that stands for a state."""

    def key(self, observation: Any) -> Hashable:
        """The same for two observations exactly if they are one state."""

    def read_observation(self, written: Any) -> Any:
        """An observation from its form in JSON."""

    def action(self, number: int) -> Any:
        """The environment's own action of that number."""

    def action_number(self, action: Any) -> int | None:
        """The number of one of the environment's own actions; None if it is not one."""


@runtime_checkable
class BatchedEnvironment(Protocol):
    """An environment that can play many episodes of one policy at once."""

    def rollout(
        self, policy: FloatArray, episodes: int, rng: np.random.Generator, route: IntArray | None = None
    ) -> Moves:
        """The transitions of `episodes` independent episodes of `policy [H, S, A]`.

        A `route [H, S]` of actions is watched: an episode strays from it at step `h` if it is then in a state with no
        action on the route (-1), and at step `h+1` if it took another action at step `h`.
        """


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

    def answer(self, step: int, state: int, rng: np.random.Generator) -> int | None:
        """The action the expert would take in `state` at `step`; None if it has nothing to say about it."""


@runtime_checkable
class TableExpert(Protocol):
    """An expert whose answers are known to the simulator as a table, so that batches can be answered at once."""

    @property
    def policy(self) -> FloatArray:
        """`[H, S, A]`: how likely each answer is."""
