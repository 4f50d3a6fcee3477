"""Trajectories as imitation has them, for machines where it is not installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TrajectoryWithRew:
    """Observations `[T+1]`, actions `[T]`, rewards `[T]`, and whether the last observation ended the episode."""

    obs: Any
    acts: np.ndarray[Any, Any]
    infos: Any
    terminal: bool
    rews: np.ndarray[Any, Any]
