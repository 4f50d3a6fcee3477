"""What the learner works with: an environment to act in, an expert to ask, and a model that learns from both.

Environments and experts speak of observations. What a model makes of an observation is its own affair: a table numbers
it (`models/tabular/encoder.py`), another model may take it as it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from aceirl.data.arrays import BoolArray, FloatArray, IntArray, Move
from aceirl.data.dataset import Dataset, Totals
from aceirl.errors import InputError

if TYPE_CHECKING:
    from aceirl.models.fields import Fields, FieldTable

TERMINAL = "terminal "
"""How the name of a state begins in which episodes are over, where states are numbered as they are met."""


@dataclass(frozen=True, eq=False)
class Moves:
    """The bulk form of trajectories, as batched roll-outs return them: transitions with multiplicities.

    `count[i]` times `(step, state, action)[i]` led to `successor[i]`.

    All fields are flat integer arrays of one length; `starts [S]` counts the states in which episodes began. If known
    expert actions were the reference, `first_deviations [H+1]` counts episodes that first deviated before step
    `h`, or never (the last entry).
    """

    step: IntArray
    state: IntArray
    action: IntArray
    successor: IntArray
    count: IntArray
    starts: IntArray
    first_deviations: IntArray | None = None


Seen = tuple[Any, bool]
"""An observation, and whether the episode is over with it."""


class Environment(Protocol):
    """An episodic environment with `n_actions` actions and episodes of at most `horizon` steps."""

    @property
    def n_actions(self) -> int: ...
    @property
    def horizon(self) -> int: ...

    def reset(self, rng: np.random.Generator) -> Any:
        """Begin an episode, with this generator as its only source of randomness, and return the observation."""

    def step(self, action: int) -> Seen:
        """Take an action; the observation it led to, and whether the episode is over with it."""


class NumberedEnvironment(Environment, Protocol):
    """An environment whose observations are the numbers of its `n_states` states.

    `initial` is the start distribution `[S]` if the learner is told it, else None (it is then estimated from resets).
    One whose episodes can be over before the horizon has a set `terminal` of states, as far as it knows them.
    """

    @property
    def n_states(self) -> int: ...
    @property
    def initial(self) -> FloatArray | None: ...


class Encoder(Protocol):
    """How observations become the numbers of a table; those met so far are `0` to `n_states - 1`.

    Episodes stay in one of the states `terminal` when they are over. Where states are numbered as they are met,
    `names` are those met, in their order, and `possible_states` is how many there can be, None if nobody can say.
    """

    @property
    def n_states(self) -> int: ...
    @property
    def terminal(self) -> frozenset[int]: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def possible_states(self) -> int | None: ...
    @property
    def binned(self) -> bool:
        """Whether a state may have several observations."""

    def number(self, observation: Any, *, terminal: bool = False) -> int:
        """The state's number; a new one if it was never met."""

    def find(self, observation: Any) -> int | None:
        """The state's number, or None if it was never met."""

    def observation(self, state: int) -> Any:
        """The observation that represents a state."""

    def recall(self, names: tuple[str, ...]) -> None:
        """Number the states as these names do, and forget all others. No names: start anew."""


@runtime_checkable
class EncodedEnvironment(Protocol):
    """An environment that comes with the encoder of its observations, `states`."""

    @property
    def states(self) -> Encoder: ...


@runtime_checkable
class ParallelEnvironment(Protocol):
    """An environment of which `num_envs` episodes can be played side by side."""

    @property
    def num_envs(self) -> int: ...

    def begin(self, episodes: int, rng: np.random.Generator) -> list[Any]:
        """Begin at most `num_envs` episodes, with randomness from this generator; their observations, in order."""

    def advance(self, actions: Mapping[int, int]) -> dict[int, Seen]:
        """Take an action in each of these episodes, by number; what it led to, and whether that is the end.

        All episodes are at the same step, so one that is not among them is over.
        """


@runtime_checkable
class ObservableEnvironment(Protocol):
    """An environment that understands its own observations and actions in the forms in which people have them.

    A state may have many observations: those that fall into one of the `binned` cells.
    """

    @property
    def n_actions(self) -> int: ...
    @property
    def horizon(self) -> int: ...
    @property
    def binned(self) -> bool: ...

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
        self, policy: FloatArray, episodes: int, rng: np.random.Generator, reference: IntArray | None = None
    ) -> Moves:
        """The transitions of `episodes` independent episodes of `policy [H, S, A]`.

        Known expert actions may be the `reference [H, S]`: an episode deviates at step `h` if it is then in a state
        without one (-1), and at step `h+1` if it took another action at step `h`.
        """


@runtime_checkable
class GenerativeModel(Protocol):
    """An environment that can be put into any state: the baselines `uniform` and `travel` need it."""

    def sample(self, step: int, state: int, action: int, rng: np.random.Generator) -> int:
        """One successor of `(step, state, action)`."""

    def sample_many(self, allocation: IntArray, rng: np.random.Generator) -> Moves:
        """`allocation[h, s, a]` independent successors of each `(h, s, a)`."""


@dataclass(frozen=True, eq=False)
class Question:
    """What would the expert do on `observation` at `step`?

    `state` is what the model makes of the observation, of a table its number; `walk` are the moves of the episode that
    led there, in the same form. A stochastic expert should draw its answer from `rng`, the run's own generator. If it
    is asked `again`, it has answered for this state before.
    """

    step: int
    state: Any
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
class ActionBelief:
    """What is believed of the expert on `n` observations: `probabilities [n, A]`, and where it is `known [n]` what the
    expert does; elsewhere that is predicted, or uniform."""

    probabilities: FloatArray
    known: BoolArray

    @property
    def actions(self) -> IntArray:
        """`[n]`: the likeliest action where the expert is known, else -1."""
        return np.where(self.known, self.probabilities.argmax(axis=1), -1)


class Policy(Protocol):
    """What to do."""

    def act(self, observation: Any, step: int, rng: np.random.Generator) -> int:
        """The action on an observation at a step."""


class RewardFunction(Protocol):
    """What a step is worth."""

    def __call__(self, observation: Any, action: int, next_observation: Any, terminal: bool, step: int) -> float: ...


class Model(Protocol):
    """What was learned, as a value: data in, beliefs and plans out.

    Observations come in as `encode` leaves them; of a model that is not a table that is any hashable form of them.
    """

    @property
    def totals(self) -> Totals:
        """How much was observed and answered so far."""

    def encode(self, observation: Any, terminal: bool = False) -> Any:
        """The model's own form of an observation."""

    def update(self, data: Dataset) -> Model:
        """The model that knows these data too."""

    def expert(self, observations: Sequence[Any], step: int) -> ActionBelief:
        """What the expert does on encoded observations at a step."""

    def plan(self, reward: RewardFunction | None) -> Policy:
        """What to do for a reward; without one, what the expert does as far as that is known."""

    def uncertainty(self, observations: Sequence[Any], actions: Sequence[int]) -> FloatArray:
        """`[n]`: how unsure the model is of what these actions lead to, from 0 to 1."""


class ExactPlanning(Protocol):
    """A model of numbered states, with the estimated process as tables: it can be planned in exactly."""


class ConfidenceRadii(Protocol):
    """A model that bounds, with probability `1 - delta`, how wrong its tables are."""


class Rollouts(Protocol):
    """A model in which episodes can be played."""


class DynamicsDraws(Protocol):
    """A model of which plausible dynamics can be drawn."""


CAPABILITIES: dict[type, str] = {
    ExactPlanning: "exact planning in tables",
    ConfidenceRadii: "confidence radii",
    Rollouts: "roll-outs",
    DynamicsDraws: "draws of the dynamics",
}
"""What a model may be able to do besides; it says so by inheriting from the protocol."""


def offers(model: Model, needs: Sequence[type]) -> bool:
    """Whether a model has all these capabilities."""
    return all(need in type(model).__mro__ for need in needs)


def require_capabilities(model: Model, needs: Sequence[type], what: str) -> None:
    """An error if the model lacks a capability that something needs; said before any work."""
    missing = [CAPABILITIES[need] for need in needs if not offers(model, (need,))]
    if missing:
        raise InputError(
            f"{what} needs {' and '.join(missing)}, which the model {type(model).__name__} does not offer; choose "
            "another, or a tabular model"
        )


class Numbers:
    """The encoder of an environment whose observations are the numbers of its states: there is nothing to do."""

    names: tuple[str, ...] = ()
    possible_states: int | None = None
    binned = False

    def __init__(self, environment: NumberedEnvironment) -> None:
        self.n_states = environment.n_states
        self.can_end = hasattr(environment, "terminal")
        self.terminal: frozenset[int] = frozenset(getattr(environment, "terminal", ()))

    def number(self, observation: Any, *, terminal: bool = False) -> int:
        """The observation, which is a number."""
        if terminal:
            self.terminal |= {observation}
        number: int = observation
        return number

    def find(self, observation: Any) -> int | None:
        """The observation, which is a number."""
        number: int = observation
        return number

    def observation(self, state: int) -> Any:
        """The number."""
        return state

    def recall(self, names: tuple[str, ...]) -> None:
        """There are no names."""


@dataclass(frozen=True, eq=False)
class Capabilities:
    """All ways into an environment, read once at the door: what it cannot do is None.

    `parallel` is always there: any environment can play one episode at a time. The `encoder` numbers observations for
    a table; None if the model is none.
    """

    environment: Environment
    parallel: ParallelEnvironment
    batched: BatchedEnvironment | None
    generative: GenerativeModel | None
    encoder: Encoder | None
    initial: FloatArray | None = None

    @classmethod
    def of(cls, environment: Any, *, numbered: bool = True) -> Capabilities:
        """What this environment offers a table or, unless `numbered`, another model; an error if it has no size."""
        for name in ("horizon", "n_states", "n_actions") if numbered else ("horizon", "n_actions"):
            size = getattr(environment, name)
            if size < 1:
                raise InputError(f"the environment's {name} is {size}; it must be at least 1")
        encoder: Encoder | None = None
        if numbered:
            encoder = environment.states if isinstance(environment, EncodedEnvironment) else Numbers(environment)
        return cls(
            environment=environment,
            parallel=environment if isinstance(environment, ParallelEnvironment) else _OneAtATime(environment),
            batched=environment if isinstance(environment, BatchedEnvironment) else None,
            generative=environment if isinstance(environment, GenerativeModel) else None,
            encoder=encoder,
            initial=environment.initial if numbered else None,
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(H, S, A)`, with the states met so far; none without an encoder."""
        n_states = 0 if self.encoder is None else self.encoder.n_states
        return self.environment.horizon, n_states, self.environment.n_actions

    @property
    def fields(self) -> Fields | None:
        """How observations are taken apart; None if nothing is known of that."""
        return getattr(self.environment, "fields", None)

    @property
    def field_table(self) -> FieldTable | None:
        """The fields of the states met so far; None if nothing is known of what observations consist of.

        They say nothing of the wish where a state has several observations: only the first is known.
        """
        fields = self.fields
        if fields is None or self.encoder is None:
            return None
        seen = [self.encoder.observation(state) for state in range(self.encoder.n_states)]
        table = fields.table(seen, self.terminal)
        return replace(table, speaks=table.speaks and not self.encoder.binned) if table.fields else None

    @property
    def growing(self) -> Encoder | None:
        """The encoder, if it numbers states as they are met."""
        return None if isinstance(self.encoder, Numbers) else self.encoder

    @property
    def can_end(self) -> bool:
        """Whether episodes may be over before the horizon."""
        return not isinstance(self.encoder, Numbers) or self.encoder.can_end

    @property
    def terminal(self) -> frozenset[int]:
        """The states met so far in which episodes are over."""
        return frozenset() if self.encoder is None else self.encoder.terminal

    @property
    def names(self) -> tuple[str, ...]:
        """The states met so far, where they are numbered as they are met; else none."""
        return () if self.growing is None else self.growing.names

    @property
    def possible_states(self) -> float | None:
        """How many states there can be, if not all are there from the start; infinite if nobody can say."""
        return None if self.growing is None else self.growing.possible_states or np.inf

    def encode(self, observation: Any, terminal: bool = False) -> int:
        """The number of an observation, for a table."""
        assert self.encoder is not None
        return self.encoder.number(observation, terminal=terminal)

    def recall(self, names: tuple[str, ...]) -> None:
        """Number the states as these names do, where they are numbered as they are met."""
        if self.growing is not None:
            self.growing.recall(names)


class _OneAtATime:
    """Any environment, as one in which a single episode is played at a time."""

    num_envs = 1

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def begin(self, episodes: int, rng: np.random.Generator) -> list[Any]:
        return [self._environment.reset(rng)]

    def advance(self, actions: Mapping[int, int]) -> dict[int, Seen]:
        return {0: self._environment.step(actions[0])}
