"""Whether two runs are the same, as far as anyone but the clock can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from aceirl.learner.turns import Turn

COUNTS = ("visits", "answers", "starts", "move_keys", "move_counts")


def timeless(turn: Turn) -> dict[str, Any]:
    """A record without the seconds, which are nobody's choice."""
    return {name: value for name, value in asdict(turn.record).items() if "seconds" not in name}


def assert_same_arrays(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    """Named arrays, equal to the last bit."""
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name, strict=True)


def assert_same(first: Sequence[Turn], second: Sequence[Turn]) -> None:
    """Records, counts, rewards, policies, evidence and memories of all turns."""
    assert [timeless(turn) for turn in first] == [timeless(turn) for turn in second]
    for one, two in zip(first, second, strict=True):
        for name in COUNTS:
            np.testing.assert_array_equal(getattr(one.counts, name), getattr(two.counts, name), err_msg=name)
        recovered, again = one.state.recovered, two.state.recovered
        np.testing.assert_array_equal(recovered.reward, again.reward)
        assert_same_arrays(recovered.parameters, again.parameters)
        np.testing.assert_array_equal(one.policy, two.policy)
        assert_same_arrays(one.state.memory, two.state.memory)
        for kind in one.state.evidence.keys() | two.state.evidence.keys():
            assert_same_arrays(one.state.evidence.get(kind, {}), two.state.evidence.get(kind, {}))
        assert one.state.names == two.state.names
