"""The encoder of the tabular model: observations told apart, numbered as they are met, written down, read back."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from aceirl.errors import InputError, shown
from aceirl.protocols import TERMINAL

Key = Callable[[Any], Hashable]
Discretise = Callable[[Any], Hashable]

# A state that is there before any other is met, and in which nothing ever happens.
PADDING_STATE, PADDING_NAME = 0, "nowhere"

_WRITTEN = json.JSONEncoder(separators=(",", ":"))

# A space with more elements than this says nothing useful about the number of states (an image has 256^pixels).
COUNTABLE = 1_000_000


class StateIndex:
    """The states met so far, in the order in which they were met; number 0 is nowhere.

    A state is an observation or, with `discretise`, all observations for which that function returns the same. The
    first observation met stands for its state in names. An observation with which an
    episode terminates is a state of its own: a goal and a pit are two places, and neither is one to act in.
    """

    def __init__(self, space: Space[Any], discretise: Discretise | None = None, names: Iterable[str] = ()) -> None:
        self.space, self.discretise = space, discretise
        self._key = discretise or key_function(space)
        self.recall(tuple(names))

    def recall(self, names: tuple[str, ...]) -> None:
        """Number the states as these names do, and forget all others. No names: start anew."""
        self._numbers: dict[tuple[Hashable, bool], int] = {}
        self._observations: list[Any] = [None]
        self._names = [PADDING_NAME]
        self._written: tuple[str, ...] = ()
        self._ends, self._terminal = {PADDING_STATE}, frozenset({PADDING_STATE})
        for name in names[1:]:
            observation, terminal = self._read(name)
            self.number(observation, terminal=terminal)

    def numbered(self, names: Iterable[str]) -> StateIndex:
        """Another index of the same observations, with the states of these names, which it wrote, in their order."""
        made = StateIndex(self.space, self.discretise)
        for name in tuple(names)[1:]:
            observation, terminal = self._read(name)
            made._add((made.key(observation), terminal), observation, name)
        return made

    def _read(self, name: str) -> tuple[Any, bool]:
        """The observation of a name, and whether it is an end."""
        return read(self.space, json.loads(name.removeprefix(TERMINAL))), name.startswith(TERMINAL)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def n_states(self) -> int:
        """How many states were met so far."""
        return len(self._names)

    @property
    def binned(self) -> bool:
        """Whether a state may have several observations."""
        return self.discretise is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The states as text, in order: enough to number them alike again."""
        if len(self._written) != len(self._names):
            self._written = tuple(self._names)
        return self._written

    @property
    def terminal(self) -> frozenset[int]:
        """The states in which episodes are over, with nowhere."""
        if len(self._terminal) != len(self._ends):
            self._terminal = frozenset(self._ends)
        return self._terminal

    @cached_property
    def possible_states(self) -> int | None:
        """How many states there can be, terminal ones and nowhere included; None if nobody can say."""
        count = getattr(self.discretise, "count", None) if self.discretise else count_of(self.space)
        return None if count is None or count > COUNTABLE else 2 * count + 1

    def number(self, observation: Any, *, terminal: bool = False) -> int:
        """The state's number; a new one if it was never met."""
        key = (self.key(observation), terminal)
        known = self._numbers.get(key)
        if known is not None:
            return known
        if not self.space.contains(observation):
            raise wrong_observation(self.space, observation)
        return self._add(key, observation, TERMINAL * terminal + _WRITTEN.encode(plain(observation)))

    def _add(self, key: tuple[Hashable, bool], observation: Any, name: str) -> int:
        number = len(self._names)
        self._numbers[key] = number
        self._observations.append(observation)
        self._names.append(name)
        if key[1]:
            self._ends.add(number)
        return number

    def find(self, observation: Any, *, terminal: bool = False) -> int | None:
        """The state's number, or None if it was never met."""
        return self._numbers.get((self.key(observation), terminal))

    def key(self, observation: Any) -> Hashable:
        """The same for two observations exactly if they are one state."""
        try:
            key = self._key(observation)
            hash(key)
            return key
        except InputError:
            raise
        except Exception as error:
            raise wrong_observation(self.space, observation) from error

    def observation(self, state: int) -> Any:
        """The first observation met in a state; None for nowhere."""
        return self._observations[state]


def wrong_observation(space: Space[Any], observation: Any) -> InputError:
    """The error for an observation that is not one."""
    what = f"{shown(observation)} ({type(observation).__name__})"
    return InputError(f"the environment returned the observation {what}, which is not in {space}")


def key_function(space: Space[Any]) -> Key:
    """What makes two observations of a space the same state, quick enough for every step."""
    match space:
        case spaces.Discrete():
            return operator.index
        case spaces.MultiDiscrete() | spaces.MultiBinary() | spaces.Box():
            if not np.issubdtype(space.dtype, np.integer) and space.dtype != np.bool_:
                raise InputError(
                    f"observations are continuous, {space}; give discretise=Bins(...) or a function of your own "
                    "(--discretise)"
                )
            return _array_key(space)
        case spaces.Tuple():
            parts = [key_function(part) for part in space.spaces]
            return lambda observation: tuple(key(part) for key, part in zip(parts, observation, strict=True))
        case spaces.Dict():
            named = {name: key_function(part) for name, part in space.spaces.items()}
            return lambda observation: tuple(key(observation[name]) for name, key in named.items())
        case _:
            return lambda observation: observation


def _array_key(space: Space[Any]) -> Key:
    shape, dtype = space.shape, space.dtype

    def key(observation: Any) -> Hashable:
        array = np.asarray(observation)
        if array.shape != shape or array.dtype.kind not in "biu":
            raise wrong_observation(space, observation)
        return array.astype(dtype, copy=False).tobytes()

    return key


def count_of(space: Space[Any]) -> int | None:
    """How many elements a space has; None if they cannot be counted."""
    match space:
        case spaces.Discrete():
            return int(space.n)
        case spaces.MultiDiscrete():
            return math.prod(int(n) for n in space.nvec.ravel())
        case spaces.MultiBinary():
            return int(2 ** math.prod(space.shape))
        case spaces.Box() if np.issubdtype(space.dtype, np.integer):
            spans = zip(space.high.ravel(), space.low.ravel(), strict=True)
            return math.prod(int(high) - int(low) + 1 for high, low in spans)
        case spaces.Tuple():
            return _product(count_of(part) for part in space.spaces)
        case spaces.Dict():
            return _product(count_of(part) for part in space.spaces.values())
        case _:
            return None


def _product(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else math.prod(count for count in known if count is not None)


def plain(observation: Any) -> Any:
    """An observation as JSON can hold it."""
    match observation:
        case np.ndarray() | np.generic():
            return observation.tolist()
        case dict():
            return {name: plain(part) for name, part in observation.items()}
        case tuple() | list():
            return [plain(part) for part in observation]
        case bool() | int() | float() | str() | None:
            return observation
        case _:
            raise InputError(
                f"observation {shown(observation)} cannot be saved; use a wrapper that returns numbers, text or tuples"
            )


def read(space: Space[Any], written: Any) -> Any:
    """The observation that `plain` wrote."""
    match space:
        case spaces.MultiDiscrete() | spaces.MultiBinary() | spaces.Box():
            return np.array(written, dtype=space.dtype)
        case spaces.Tuple():
            return tuple(read(part, value) for part, value in zip(space.spaces, written, strict=True))
        case spaces.Dict():
            # In the order in which it was written: the space may have another than the environment.
            return {name: read(space.spaces[name], written[name]) for name in written if name in space.spaces}
        case _:
            return _tuples(written)


def _tuples(written: Any) -> Any:
    """JSON knows no tuples; what it gives back as lists were some."""
    return tuple(_tuples(part) for part in written) if isinstance(written, list) else written
