"""What the learner may touch: an environment to act in and an expert to ask. Neither shows its insides."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from aceirl.errors import InputError
from aceirl.mdp import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Moves:
    """Observed transitions with multiplicities: `count[i]` times `(step, state, action)[i]` led to `successor[i]`.

    All fields are flat integer arrays of one length; `starts [S]` counts the states in which episodes began. If known
    expert actions were watched, `first_deviations [H+1]` counts the episodes that first deviated from them before step
    `h`, or never (the last entry).
    """

    step: IntArray
    state: IntArray
    action: IntArray
    successor: IntArray
    count: IntArray
    starts: IntArray
    first_deviations: IntArray | None = None


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
        """Begin an episode, with this generator as its only source of randomness, and return the state."""

    def step(self, action: int) -> int:
        """Take an action and return the state it led to."""


@runtime_checkable
class EndingEnvironment(Protocol):
    """An environment whose episodes may be over before the horizon.

    They then stay in one of the states `terminal`, those met so far, whatever is done; nobody is asked there.
    """

    @property
    def terminal(self) -> frozenset[int]: ...


@runtime_checkable
class ParallelEnvironment(Protocol):
    """An environment of which `num_envs` episodes can be played side by side."""

    @property
    def num_envs(self) -> int: ...

    def begin(self, episodes: int, rng: np.random.Generator) -> list[int]:
        """Begin at most `num_envs` episodes, with randomness from this generator; their states, in order."""

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


@runtime_checkable
class ShowingEnvironment(Protocol):
    """An environment that can show an expert what a state looks like, and understands its own actions.

    A state may stand for many observations: those that fall into one of the `binned` cells.
    """

    @property
    def n_actions(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def binned(self) -> bool: ...

    def seen(self, episode: int) -> Any:
        """The observation that was met last in one of the episodes that are played."""

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
        self, policy: FloatArray, episodes: int, rng: np.random.Generator, watched: IntArray | None = None
    ) -> Moves:
        """The transitions of `episodes` independent episodes of `policy [H, S, A]`.

        Known expert actions may be `watched [H, S]`: an episode deviates from them at step `h` if it is then in a state
        without one (-1), and at step `h+1` if it took another action at step `h`.
        """


@runtime_checkable
class GenerativeModel(Protocol):
    """An environment that can be put into any state: the baselines `uniform` and `travel` need it."""

    def sample(self, step: int, state: int, action: int, rng: np.random.Generator) -> int:
        """One successor of `(step, state, action)`."""

    def sample_many(self, allocation: IntArray, rng: np.random.Generator) -> Moves:
        """`allocation[h, s, a]` independent successors of each `(h, s, a)`."""


Move = tuple[int, int, int, int]
"""`(step, state, action, successor)`."""


@dataclass(frozen=True, eq=False)
class Question:
    """What would the expert do in `state` at `step`?

    `observation` is the one that was really met there; None if the environment shows none. `walk` are the moves of the
    episode that led there. A stochastic expert should draw its answer from `rng`, the run's own generator. If it is
    asked `again`, it has answered for this state before.
    """

    step: int
    state: int
    walk: Sequence[Move]
    rng: np.random.Generator
    again: bool = False
    observation: Any = None


class Expert(Protocol):
    """Someone who says what they would do.

    A deterministic expert always answers a question the same way; a stationary one does not look at the step.
    `ask_again` is how often it is asked about a state for which it has answered: whoever sees more than the state may
    answer differently there. At 1 nothing has to be assumed about that; at 0 its answers depend on the state alone.
    """

    @property
    def deterministic(self) -> bool: ...
    @property
    def stationary(self) -> bool: ...
    @property
    def ask_again(self) -> float: ...

    def answer(self, question: Question) -> int | None:
        """The action the expert would take; None if it has nothing to say about it."""


@runtime_checkable
class TableExpert(Protocol):
    """An expert whose answers are known as a table, so that batches can be answered at once."""

    @property
    def policy(self) -> FloatArray:
        """`[H, S, A]`: how likely each answer is."""


@dataclass(frozen=True, eq=False)
class Access:
    """All ways into an environment, read once at the door: what it cannot do is None.

    `parallel` is always there: any environment can play one episode at a time.
    """

    environment: Environment
    parallel: ParallelEnvironment
    batched: BatchedEnvironment | None
    generative: GenerativeModel | None
    growing: GrowingEnvironment | None
    ending: EndingEnvironment | None
    showing: ShowingEnvironment | None

    @classmethod
    def to(cls, environment: Environment) -> Access:
        """What this environment offers; an error if it has no steps, states or actions."""
        for name in ("horizon", "n_states", "n_actions"):
            size = getattr(environment, name)
            if size < 1:
                raise InputError(f"the environment's {name} is {size}; it must be at least 1")
        return cls(
            environment=environment,
            parallel=environment if isinstance(environment, ParallelEnvironment) else _OneAtATime(environment),
            batched=environment if isinstance(environment, BatchedEnvironment) else None,
            generative=environment if isinstance(environment, GenerativeModel) else None,
            growing=environment if isinstance(environment, GrowingEnvironment) else None,
            ending=environment if isinstance(environment, EndingEnvironment) else None,
            showing=environment if isinstance(environment, ShowingEnvironment) else None,
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(H, S, A)`, with the states met so far."""
        environment = self.environment
        return environment.horizon, environment.n_states, environment.n_actions

    @property
    def terminal(self) -> frozenset[int]:
        """The states met so far in which episodes are over."""
        return frozenset() if self.ending is None else self.ending.terminal

    @property
    def binned(self) -> bool:
        """Whether a state may stand for several observations."""
        return self.showing is not None and self.showing.binned

    @property
    def names(self) -> tuple[str, ...]:
        """The states met so far, where the environment numbers them; else none."""
        return () if self.growing is None else self.growing.names

    @property
    def possible_states(self) -> float | None:
        """How many states there can be, if not all are there from the start; infinite if nobody can say."""
        return None if self.growing is None else self.growing.possible_states or np.inf

    def recall(self, names: tuple[str, ...]) -> None:
        """Number the states as these names do, where the environment numbers them."""
        if self.growing is not None:
            self.growing.recall(names)


class _OneAtATime:
    """Any environment, as one in which a single episode is played at a time."""

    num_envs = 1

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def begin(self, episodes: int, rng: np.random.Generator) -> list[int]:
        return [self._environment.reset(rng)]

    def advance(self, actions: Mapping[int, int]) -> dict[int, int]:
        return {0: self._environment.step(actions[0])}
