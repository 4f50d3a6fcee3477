"""Continuous observations cut into cells, so that a learner of discrete states can take them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from aceirl.errors import InputError


@dataclass(frozen=True)
class Bins:
    """Each dimension cut into equal bins between two bounds; what lies beyond a bound falls into the bin next to it.

    Only the cells that are met become states, so a fine grid costs little.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    bins: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.low) == len(self.high) == len(self.bins):
            raise InputError(
                f"low, high and bins must have one length, got {len(self.low)}, {len(self.high)} and {len(self.bins)}"
            )
        for i, (low, high, bins) in enumerate(zip(self.low, self.high, self.bins, strict=True)):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise InputError(f"dimension {i} goes from {low} to {high}; give finite bounds, low:high:bins")
            if isinstance(bins, bool) or bins != int(bins) or bins < 1:
                raise InputError(f"bins[{i}] must be a whole number of at least 1, got {bins!r}")

    @classmethod
    def of(cls, text: str, space: Space[Any]) -> Bins:
        """From `bins` or `low:high:bins` for each dimension, with commas between; the bounds default to the space's."""
        parts = [part.split(":") for part in text.split(",")]
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise InputError(f"bins need observations in a flat Box, and these are {space}; use a function instead")
        if len(parts) == 1:
            parts *= space.shape[0]
        if len(parts) != space.shape[0] or any(len(part) not in (1, 3) for part in parts):
            raise InputError(
                f"bins {text!r} must be a number or low:high:number for each of the {space.shape[0]} dimensions"
            )
        try:
            return cls(
                low=tuple(
                    float(own if len(part) == 1 else part[0]) for part, own in zip(parts, space.low, strict=True)
                ),
                high=tuple(
                    float(own if len(part) == 1 else part[1]) for part, own in zip(parts, space.high, strict=True)
                ),
                bins=tuple(int(part[-1]) for part in parts),
            )
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"bins {text!r} cannot be read: {error}") from None

    @property
    def text(self) -> str:
        """As `of` reads it."""
        return ",".join(
            f"{float(low)!r}:{float(high)!r}:{n}" for low, high, n in zip(self.low, self.high, self.bins, strict=True)
        )

    @cached_property
    def _scale(self) -> tuple[float, ...]:
        """Bins for each unit of a dimension."""
        return tuple(bins / (high - low) for low, high, bins in zip(self.low, self.high, self.bins, strict=True))

    @property
    def count(self) -> int:
        """How many cells there are."""
        return math.prod(self.bins)

    def __call__(self, observation: Sequence[float]) -> Hashable:
        """The cell of an observation, one number a dimension."""
        values = np.asarray(observation, dtype=np.float64).tolist()
        if len(values) != len(self.bins) or any(math.isnan(value) for value in values):
            raise InputError(f"observation {values} is not {len(self.bins)} numbers")
        dimensions = zip(values, self.low, self.bins, self._scale, strict=True)
        return tuple(int(min(max((value - low) * scale, 0.0), bins - 1.0)) for value, low, bins, scale in dimensions)
