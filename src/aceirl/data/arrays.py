"""Kinds of arrays, and a move of an episode: the words in which everything above speaks of data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Move = tuple[int, Any, int, Any]
"""`(step, state, action, successor)`, with states as the model encodes them: a table has numbers."""
