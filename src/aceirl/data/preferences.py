"""Preferences: which of two episodes somebody likes better."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from aceirl.data.arrays import Move
from aceirl.errors import InputError

SIZES = ("step", "state", "action", "successor")


@dataclass(frozen=True)
class Preference:
    """Two episodes, or parts of episodes, as moves: `preferred` is liked better than `other`, or as much if `equal`.

    The moves of an episode follow one another, and there is at least one.
    """

    preferred: tuple[Move, ...]
    other: tuple[Move, ...]
    equal: bool = False

    def __post_init__(self) -> None:
        for name in ("preferred", "other"):
            walk = tuple((int(h), int(s), int(a), int(after)) for h, s, a, after in getattr(self, name))
            object.__setattr__(self, name, walk)
            if not walk:
                raise InputError(f"{name} has no moves; an episode that is compared has at least one")
            for before, move in pairwise(walk):
                if move[:2] != (before[0] + 1, before[3]):
                    raise InputError(
                        f"in {name}, step {before[0]} led to state {before[3]}, but the next move is from state "
                        f"{move[1]} at step {move[0]}"
                    )

    @property
    def pair(self) -> frozenset[tuple[Move, ...]]:
        """The two episodes, whichever is liked better."""
        return frozenset((self.preferred, self.other))

    def require(self, shape: tuple[int, int, int]) -> None:
        """An error if a move is not one of a problem with `shape = (H, S, A)`."""
        horizon, n_states, n_actions = shape
        for move in (*self.preferred, *self.other):
            for name, value, size in zip(SIZES, move, (horizon, n_states, n_actions, n_states), strict=True):
                if not 0 <= value < size:
                    raise InputError(f"a move that is compared has the {name} {value}, not one of 0 to {size - 1}")
