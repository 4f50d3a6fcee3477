"""A Gibbs chain over feasible rewards, compiled; `samples` runs it.

A feasible reward is given by `V` and by the rewards of the actions the expert does not use; those of the others are
`r = V - P·V`, where `P` holds the discount. For an expert with one action in each state this change of variables keeps
volume, so a chain that is uniform over the one is uniform over the other. Given everything else, each unknown lies in
an interval and is redrawn uniformly from it: the value of one state, the reward of one unused action, and a shift of
all values up to one step, which moves what no single state can move far.

Where the expert is not known, some action is the best one and earns `V - P·V`; all others earn less. Each choice of it
is a piece of the set, with unknowns of its own, and the change of variables keeps volume in all of them. So given `V`,
an action is the best one with a probability proportional to the volume that the rewards of the others have: that of all
actions together over its own length, `V - P·V - lower`. It is redrawn along with the rewards of its state.

Throughout, `room [H, S, A]` is what an action can earn at most without overtaking, `V - P·V`; used ones earn just that.
"""

from __future__ import annotations

import numpy as np

from aceirl.models.tabular.kernels import Successors, compiled, expectations
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray

UNFELT = 1e-12
"""A value so many steps ahead that it is worth less than this share of itself is not felt: it is rounding."""


@compiled
def gibbs(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int, discount: float,
    first: IntArray, rows: IntArray, row_probabilities: FloatArray,
    known: BoolArray, lower: FloatArray, upper: FloatArray, unknown: FloatArray,
    sweeps: int, rng: np.random.Generator, uses: BoolArray, v: FloatArray, reward: FloatArray,
) -> None:  # fmt: skip
    """Run the chain on `v [H+1, S]` and `reward [H, S, A]`, in place; `unknown [H]` is what follows an unknown row.

    `uses [H, S, A]` are the expert's actions and, where it is not `known [H, S]`, the best one, which changes in place.
    `first, rows, row_probabilities` are the transitions by where they lead: see `samples`.
    """
    horizon, n_states, _ = reward.shape
    room = np.empty(reward.shape)
    gaps = steps_with_unknown_rows(indptr, stride, reward.shape)
    for _ in range(sweeps):
        find_room(indptr, successors, probabilities, stride, unknown, v, room)
        redraw_best(known, lower, upper, room, rng, uses)
        redraw_rewards(uses, lower, upper, room, rng, reward)
        for h in range(horizon):
            shift_until(indptr, stride, discount, gaps, uses, lower, upper, h, rng, v, reward, room)
        for h in range(horizon - 1, -1, -1):
            block = 0 if stride == 0 else (h - 1) * n_states
            before = first[block : block + n_states + 1] if h > 0 else np.zeros_like(first[: n_states + 1])
            redraw_values(before, rows, row_probabilities, uses, lower, upper, h, rng, v, reward, room)
    find_room(indptr, successors, probabilities, stride, unknown, v, room)
    settle_used(uses, lower, upper, room, reward)


@compiled
def find_room(
    indptr: IntArray, successors: Successors, probabilities: FloatArray, stride: int,
    unknown: FloatArray, v: FloatArray, room: FloatArray,
) -> None:  # fmt: skip
    """Anew from the values, so that rounding errors of single moves do not add up."""
    expectations(indptr, successors, probabilities, stride, v[1:], unknown, room)
    horizon, n_states, n_actions = room.shape
    for h in range(horizon):
        for s in range(n_states):
            for a in range(n_actions):
                room[h, s, a] = v[h, s] - room[h, s, a]


@compiled
def settle_used(uses: BoolArray, lower: FloatArray, upper: FloatArray, room: FloatArray, reward: FloatArray) -> None:
    """The actions the expert uses earn all they can."""
    horizon, n_states, n_actions = reward.shape
    for h in range(horizon):
        for s in range(n_states):
            for a in range(n_actions):
                if uses[h, s, a]:
                    reward[h, s, a] = min(max(room[h, s, a], lower[h, s, a]), upper[h, s, a])


@compiled
def redraw_best(
    known: BoolArray, lower: FloatArray, upper: FloatArray, room: FloatArray,
    rng: np.random.Generator, uses: BoolArray,
) -> None:  # fmt: skip
    """Which action is the best one where the expert is not known, by the volume that it leaves the others."""
    horizon, n_states, n_actions = uses.shape
    for h in range(horizon):
        for s in range(n_states):
            if known[h, s]:
                continue
            total, best = 0.0, -1
            for a in range(n_actions):
                length = room[h, s, a] - lower[h, s, a]
                if length > 0.0 and room[h, s, a] <= upper[h, s, a]:
                    total += 1.0 / length
                    if rng.random() * total * length < 1.0:
                        best = a
            if best >= 0:  # rounding may leave none, and then it stays as it is
                uses[h, s] = False
                uses[h, s, best] = True


@compiled
def redraw_rewards(
    uses: BoolArray, lower: FloatArray, upper: FloatArray, room: FloatArray,
    rng: np.random.Generator, reward: FloatArray,
) -> None:  # fmt: skip
    """The actions the expert uses earn all they can, the others anything up to that."""
    horizon, n_states, n_actions = reward.shape
    for h in range(horizon):
        for s in range(n_states):
            for a in range(n_actions):
                most = min(max(room[h, s, a], lower[h, s, a]), upper[h, s, a])
                if uses[h, s, a]:
                    reward[h, s, a] = most
                else:
                    reward[h, s, a] = lower[h, s, a] + (most - lower[h, s, a]) * rng.random()


@compiled
def redraw_values(
    first: IntArray, rows: IntArray, row_probabilities: FloatArray,
    uses: BoolArray, lower: FloatArray, upper: FloatArray, h: int,
    rng: np.random.Generator, v: FloatArray, reward: FloatArray, room: FloatArray,
) -> None:  # fmt: skip
    """Move the values of step `h` one by one: own actions feel it, and those of the step before that lead there."""
    _, n_states, n_actions = reward.shape
    for s in range(n_states):
        low, high = own_interval(uses, lower, upper, h, s, reward, room)
        for k in range(first[s], first[s + 1]):
            s_, a_ = rows[k] // n_actions, rows[k] % n_actions
            least = lower[h - 1, s_, a_] if uses[h - 1, s_, a_] else reward[h - 1, s_, a_]
            high = min(high, (room[h - 1, s_, a_] - least) / row_probabilities[k])
            if uses[h - 1, s_, a_]:
                low = max(low, (room[h - 1, s_, a_] - upper[h - 1, s_, a_]) / row_probabilities[k])
        if high <= low:
            continue
        change = low + (high - low) * rng.random()
        v[h, s] += change
        for a in range(n_actions):
            room[h, s, a] += change
        for k in range(first[s], first[s + 1]):
            room[h - 1, rows[k] // n_actions, rows[k] % n_actions] -= row_probabilities[k] * change


@compiled
def own_interval(
    uses: BoolArray, lower: FloatArray, upper: FloatArray, h: int, s: int, reward: FloatArray, room: FloatArray
) -> tuple[float, float]:
    """By how much the value of `(h, s)` may fall and rise as far as its own actions are concerned."""
    low, high = -np.inf, np.inf
    for a in range(reward.shape[2]):
        least = lower[h, s, a] if uses[h, s, a] else reward[h, s, a]
        low = max(low, least - room[h, s, a])
        if uses[h, s, a]:
            high = min(high, upper[h, s, a] - room[h, s, a])
    return low, high


@compiled
def shift_until(
    indptr: IntArray, stride: int, discount: float, gaps: BoolArray,
    uses: BoolArray, lower: FloatArray, upper: FloatArray, last: int,
    rng: np.random.Generator, v: FloatArray, reward: FloatArray, room: FloatArray,
) -> None:  # fmt: skip
    """Move all values up to step `last` together, each by as much as that is worth there: only that step's rows, and
    unknown ones before it, feel it."""
    _, n_states, n_actions = reward.shape
    low, high = -np.inf, np.inf
    for h in range(last + 1):
        worth = discount ** (last - h)
        if h < last and (not gaps[h] or worth < UNFELT):
            continue
        for s in range(n_states):
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                if h == last or indptr[row] == indptr[row + 1]:
                    least = lower[h, s, a] if uses[h, s, a] else reward[h, s, a]
                    low = max(low, (least - room[h, s, a]) / worth)
                    if uses[h, s, a]:
                        high = min(high, (upper[h, s, a] - room[h, s, a]) / worth)
    if high <= low:
        return
    change = low + (high - low) * rng.random()
    for h in range(last + 1):
        worth = discount ** (last - h)
        v[h] += worth * change
        if h < last and not gaps[h]:
            continue
        for s in range(n_states):
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                if h == last or indptr[row] == indptr[row + 1]:
                    room[h, s, a] += worth * change


@compiled
def steps_with_unknown_rows(indptr: IntArray, stride: int, shape: tuple[int, int, int]) -> BoolArray:
    """`[H]`: whether any row of transitions of the step is unknown."""
    horizon, n_states, n_actions = shape
    found = np.zeros(horizon, dtype=np.bool_)
    for h in range(horizon):
        for k in range(n_states * n_actions):
            found[h] |= indptr[h * stride + k] == indptr[h * stride + k + 1]
    return found
