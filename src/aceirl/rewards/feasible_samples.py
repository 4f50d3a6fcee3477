"""Members of the feasible reward set drawn at random: a Gibbs chain over values and the rewards of unused actions.

A feasible reward is given by `V` and by the rewards of the actions the expert does not use; those of the others are
`r = V - P·V`. For an expert with one action in each state this change of variables keeps volume, so a chain that is
uniform over the one is uniform over the other. Given everything else, each unknown lies in an interval and is redrawn
uniformly from it: the value of one state, the reward of one unused action, and a shift of all values up to one step,
which moves what no single state can move far.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aceirl.kernels import compiled
from aceirl.mdp import MDP, BoolArray, FloatArray, IntArray, steps_after

# Sweeps over all unknowns, for each step of the horizon, before a chain's state is taken as a sample.
SWEEPS_PER_STEP = 20


def interior_values(mdp: MDP, rmax: float, unknown_step_reward: float) -> FloatArray:
    """`V [H, S]` that satisfies every constraint strictly, whatever the expert does, for rewards in `[0, Rmax]`.

    `V_h = unknown_step_reward·(H-h-1) + x_h·Rmax`, with `x` around a half and just so steep that a known row earns strictly between
    `0` and `Rmax` too, even where `unknown_step_reward` is one of them.
    """
    horizon, n_states, _ = mdp.shape
    steps = np.arange(horizon)
    if mdp.known.all():
        level = 0.5 * rmax * (horizon - steps)
    else:
        slope = (0.5 - unknown_step_reward / rmax) / horizon
        level = unknown_step_reward * (horizon - 1 - steps) + rmax * (0.5 + slope * ((horizon - 1) / 2 - steps))
    return np.repeat(level[:, None], n_states, axis=1)


def sample_reward(
    mdp: MDP,
    uses: BoolArray,
    unknown_step_reward: float,
    lower: FloatArray,
    upper: FloatArray,
    start: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """`[H, S, A]`: one reward between `lower` and `upper` for which the actions in `uses [H, S, A]` are optimal.

    `start [H, S]` are values that satisfy every constraint strictly.
    """
    reward = lower.copy()
    values = np.concatenate([start, np.zeros((1, mdp.n_states))])
    first, rows, chances = _predecessors(mdp)
    after = unknown_step_reward * steps_after(mdp.horizon)
    gibbs(
        *mdp.transitions.rows,
        first,
        rows,
        chances,
        uses,
        lower,
        upper,
        after,
        SWEEPS_PER_STEP * mdp.horizon,
        rng,
        values,
        reward,
    )
    return reward


def _predecessors(mdp: MDP) -> tuple[IntArray, IntArray, FloatArray]:
    """The transitions by where they lead: `(first, rows, probabilities)`, one block of `S` lists for each kind of step.

    The rows `s·A + a` that lead to state `s` in block `b` are `rows[first[b·S + s]:first[b·S + s + 1]]`.
    """
    per_step = mdp.n_states * mdp.n_actions
    transitions = mdp.transitions
    row = np.repeat(np.arange(transitions.n_rows), np.diff(transitions.indptr))
    target = row // per_step * mdp.n_states + transitions.successors
    order = np.argsort(target, kind="stable")
    first = np.searchsorted(target[order], np.arange(transitions.n_rows // mdp.n_actions + 1))
    return first, row[order] % per_step, transitions.probabilities[order]


@compiled
def gibbs(
    indptr: IntArray,
    successors: NDArray[np.int32],
    probabilities: FloatArray,
    stride: int,
    first: IntArray,
    rows: IntArray,
    chances: FloatArray,
    uses: BoolArray,
    lower: FloatArray,
    upper: FloatArray,
    unknown: FloatArray,
    sweeps: int,
    rng: np.random.Generator,
    v: FloatArray,
    reward: FloatArray,
) -> None:
    """Run the chain on `v [H+1, S]` and `reward [H, S, A]`, in place; `unknown [H]` is what follows an unknown row."""
    horizon, n_states, n_actions = reward.shape
    # What an action can earn at most without overtaking: v[h] - P·v[h+1]. Used actions earn exactly that.
    room = np.empty(reward.shape)
    gaps = steps_with_unknown_rows(indptr, stride, reward.shape)
    for sweep in range(sweeps + 1):
        for h in range(horizon):
            for s in range(n_states):
                for a in range(n_actions):
                    row = h * stride + s * n_actions + a
                    total = unknown[h] if indptr[row] == indptr[row + 1] else 0.0
                    for k in range(indptr[row], indptr[row + 1]):
                        total += probabilities[k] * v[h + 1, successors[k]]
                    room[h, s, a] = v[h, s] - total
                    if uses[h, s, a]:
                        reward[h, s, a] = min(max(room[h, s, a], lower[h, s, a]), upper[h, s, a])
                    elif sweep < sweeps:
                        most = min(room[h, s, a], upper[h, s, a])
                        reward[h, s, a] = lower[h, s, a] + (most - lower[h, s, a]) * rng.random()
        if sweep == sweeps:
            return
        for h in range(horizon):
            shift_until(indptr, stride, gaps, uses, lower, upper, h, rng, v, reward, room)
        for h in range(horizon - 1, -1, -1):
            block = 0 if stride == 0 else h - 1
            for s in range(n_states):
                low, high = own_interval(uses, lower, upper, h, s, reward, room)
                begin, end = (first[block * n_states + s], first[block * n_states + s + 1]) if h > 0 else (0, 0)
                for k in range(begin, end):
                    s_, a_ = rows[k] // n_actions, rows[k] % n_actions
                    least = lower[h - 1, s_, a_] if uses[h - 1, s_, a_] else reward[h - 1, s_, a_]
                    high = min(high, (room[h - 1, s_, a_] - least) / chances[k])
                    if uses[h - 1, s_, a_]:
                        low = max(low, (room[h - 1, s_, a_] - upper[h - 1, s_, a_]) / chances[k])
                if high <= low:
                    continue
                change = low + (high - low) * rng.random()
                v[h, s] += change
                for a in range(n_actions):
                    room[h, s, a] += change
                for k in range(begin, end):
                    room[h - 1, rows[k] // n_actions, rows[k] % n_actions] -= chances[k] * change


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
    indptr: IntArray,
    stride: int,
    gaps: BoolArray,
    uses: BoolArray,
    lower: FloatArray,
    upper: FloatArray,
    last: int,
    rng: np.random.Generator,
    v: FloatArray,
    reward: FloatArray,
    room: FloatArray,
) -> None:
    """Move all values up to step `last` together: only that step's rows, and unknown ones before it, feel it."""
    _, n_states, n_actions = reward.shape
    low, high = -np.inf, np.inf
    for h in range(last + 1):
        if h < last and not gaps[h]:
            continue
        for s in range(n_states):
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                if h == last or indptr[row] == indptr[row + 1]:
                    least = lower[h, s, a] if uses[h, s, a] else reward[h, s, a]
                    low = max(low, least - room[h, s, a])
                    if uses[h, s, a]:
                        high = min(high, upper[h, s, a] - room[h, s, a])
    if high <= low:
        return
    change = low + (high - low) * rng.random()
    for h in range(last + 1):
        v[h] += change
        if h < last and not gaps[h]:
            continue
        for s in range(n_states):
            for a in range(n_actions):
                row = h * stride + s * n_actions + a
                if h == last or indptr[row] == indptr[row + 1]:
                    room[h, s, a] += change


@compiled
def steps_with_unknown_rows(indptr: IntArray, stride: int, shape: tuple[int, int, int]) -> BoolArray:
    """`[H]`: whether any row of transitions of the step is unknown."""
    horizon, n_states, n_actions = shape
    found = np.zeros(horizon, dtype=np.bool_)
    for h in range(horizon):
        for k in range(n_states * n_actions):
            found[h] |= indptr[h * stride + k] == indptr[h * stride + k + 1]
    return found
