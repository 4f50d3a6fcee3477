"""A model on the GPU, and the planner's passes over it: best responses backward, softened answers forward.

A softened answer is never stored. A pass backward leaves its values `[H+1, S, 2]`, and the pass forward works the
answer out again as it comes by.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from aceirl.gpu import BLOCK, UNIT, DeviceArray, clear, cuda, grid, mass_of, on_device, rows_of, to_device
from aceirl.mdp import MDP
from aceirl.planner.passes import TIE

WEIGHTED, OFFSET, REWARDED, WITH_ACTIONS, WHOLE = 1, 2, 4, 8, 16
"""Which terms a pass has; the others are arrays that nobody reads."""

CACHED = 3_000_000
"""Of so many states the values of one step, in double precision, are about what the cache of a large GPU holds."""

PARTS = 1 << 16
"""How many threads share a sum. Each leaves a part, and the parts are added in their order."""


class _Passes(NamedTuple):
    respond: Any
    push: Any
    push_actions: Any
    threads: int


@cache
def _passes(n_actions: int, states: int) -> _Passes:
    """The kernels of one step: backward, and forward under a softened answer or under actions.

    An entry costs `scale[h]·weight·entries + fixed + multiplier·reward`, where `entries` and `weight` are
    `[1 or H, S, A]` and `fixed` and `reward [H, S, A]`. A block has some `states` and a lane for each of their actions,
    so that neighbours read neighbouring rows; the first lanes then soften an answer each.
    """
    lanes = min(n_actions, BLOCK)
    room = states * n_actions

    @cuda.jit(device=True)
    def weight_of(flags, scale, weight, h, s, a):  # type: ignore[no-untyped-def]
        if flags & WEIGHTED:
            return scale[h] * weight[h if weight.shape[0] > 1 else 0, s, a]
        return scale[h]

    @cuda.jit(device=True)
    def cost_of(flags, scale, weight, entries, fixed, reward, multiplier, h, s, a):  # type: ignore[no-untyped-def]
        cost = entries[h if entries.shape[0] > 1 else 0, s, a] * weight_of(flags, scale, weight, h, s, a)
        if flags & OFFSET:
            cost += fixed[h, s, a]
        if multiplier != 0.0:
            cost += multiplier * reward[h, s, a]
        return cost

    @cuda.jit(device=True)
    def first_best(q, first):  # type: ignore[no-untyped-def]
        best, chosen = q[first], 0
        for a in range(1, n_actions):
            if q[first + a] > best + TIE * abs(best):
                chosen = a
            best = max(best, q[first + a])
        return best, chosen

    @cuda.jit(device=True)
    def soften(q, first, lag):  # type: ignore[no-untyped-def]
        """The values `q[first:first+A]` become the softened answer of `passes.respond`; returns its mean."""
        best, chosen = first_best(q, first)
        heat = lag * abs(best)
        threshold, count, active = best - heat, n_actions + 1, n_actions
        while 1 < active < count:
            count, active, total = active, 0, -heat
            for a in range(n_actions):
                if q[first + a] > threshold:
                    active += 1
                    total += q[first + a]
            if active > 1:
                threshold = total / active
        total, mean = 0.0, 0.0
        for a in range(n_actions):
            value = q[first + a]
            share = max(0.0, value - threshold) if active > 1 else 0.0
            total += share
            mean += share * value
            q[first + a] = share
        if total == 0.0:
            q[first + chosen] = 1.0
            return best
        scale = 1.0 / total
        for a in range(n_actions):
            q[first + a] *= scale
        return scale * mean

    @cuda.jit
    def respond(  # type: ignore[no-untyped-def]
        indptr, successors, probabilities, stride, flags, scale, weight, entries, fixed, reward, multiplier,
        lag, h, values, upward, actions,
    ):  # fmt: skip
        """Backward: `values [H+1, S, 2]` are the best ones, times `upward`, and those of the softened answer."""
        thread, n_states = cuda.threadIdx.x, values.shape[1]
        begin = cuda.blockIdx.x * states
        q = cuda.shared.array(room, np.float64)
        best = cuda.shared.array(room, np.float64)
        s = begin + thread // lanes
        if s < n_states:
            for a in range(thread % lanes, n_actions, lanes):
                row = h * stride + s * n_actions + a
                total = cost_of(flags, scale, weight, entries, fixed, reward, multiplier, h, s, a)
                tail = total
                for k in range(indptr[row], indptr[row + 1]):
                    total += probabilities[k] * values[h + 1, successors[k], 0]
                    tail += probabilities[k] * values[h + 1, successors[k], 1]
                best[(s - begin) * n_actions + a] = total
                q[(s - begin) * n_actions + a] = tail
        cuda.syncthreads()
        s = begin + thread
        if thread < states and s < n_states:
            value, chosen = first_best(best, thread * n_actions)
            if flags & WITH_ACTIONS:
                actions[h, s] = chosen
            values[h, s, 0] = value * upward
            values[h, s, 1] = soften(q, thread * n_actions, lag)

    @cuda.jit(device=True)
    def add(  # type: ignore[no-untyped-def]
        flow, share, flags, scale, weight, fixed, reward, sums, whole, h, s, a
    ):
        """`share` of a flow to the sums of a player; returns what all of it earns of reward and fixed cost."""
        if share > 0.0:
            sums[h if sums.shape[0] > 1 else 0, s, a] += share * flow * weight_of(flags, scale, weight, h, s, a)
            if flags & WHOLE:
                whole[h, s, a] += share * flow
        earned = flow * reward[h, s, a] if flags & REWARDED else 0.0
        charged = flow * fixed[h, s, a] if flags & OFFSET else 0.0
        return earned, charged

    @cuda.jit
    def push(  # type: ignore[no-untyped-def]
        indptr, successors, probabilities, stride, flags, scale, weight, entries, fixed, reward, multiplier,
        lag, h, values, here, after, share, sums, whole, earned,
    ):  # fmt: skip
        """Forward under the softened answer: mass leaves `here [S]` and comes to `after [S]`."""
        thread, n_states = cuda.threadIdx.x, here.size
        begin = cuda.blockIdx.x * states
        q = cuda.shared.array(room, np.float64)
        s = begin + thread // lanes
        mass = here[s] / UNIT if s < n_states else 0.0
        if mass > 0.0:
            for a in range(thread % lanes, n_actions, lanes):
                row = h * stride + s * n_actions + a
                total = cost_of(flags, scale, weight, entries, fixed, reward, multiplier, h, s, a)
                for k in range(indptr[row], indptr[row + 1]):
                    total += probabilities[k] * values[h + 1, successors[k], 1]
                q[(s - begin) * n_actions + a] = total
        cuda.syncthreads()
        if thread < states and begin + thread < n_states and here[begin + thread] != 0:
            soften(q, thread * n_actions, lag)
        cuda.syncthreads()
        if mass > 0.0:
            if thread % lanes == 0:
                here[s] = 0
            for a in range(thread % lanes, n_actions, lanes):
                flow = mass * q[(s - begin) * n_actions + a]
                if flow > 0.0:
                    got, paid = add(flow, share, flags, scale, weight, fixed, reward, sums, whole, h, s, a)
                    if flags & REWARDED:
                        earned[0, s, a] += got
                    if flags & OFFSET:
                        earned[1, s, a] += paid
                    row = h * stride + s * n_actions + a
                    for k in range(indptr[row], indptr[row + 1] if h + 2 < values.shape[0] else indptr[row]):
                        cuda.atomic.add(after, successors[k], np.int64(flow * probabilities[k] * UNIT + 0.5))

    @cuda.jit
    def push_actions(  # type: ignore[no-untyped-def]
        indptr, successors, probabilities, stride, flags, scale, weight, entries, fixed, reward,
        h, actions, here, after, share, sums, whole, earned,
    ):  # fmt: skip
        """Forward under `actions [H, S]`, a thread a state; `earned[2]` is the cost."""
        s = cuda.grid(1)
        if s >= here.size or here[s] == 0:
            return
        mass, a = here[s] / UNIT, actions[h, s]
        here[s] = 0
        got, paid = add(mass, share, flags, scale, weight, fixed, reward, sums, whole, h, s, a)
        earned[0, s, a] += got
        earned[1, s, a] += paid
        earned[2, s, a] += mass * cost_of(flags, scale, weight, entries, fixed, reward, 0.0, h, s, a)
        row = h * stride + s * n_actions + a
        for k in range(indptr[row], indptr[row + 1] if h + 1 < actions.shape[0] else indptr[row]):
            cuda.atomic.add(after, successors[k], np.int64(mass * probabilities[k] * UNIT + 0.5))

    return _Passes(respond, push, push_actions, states * lanes)


@cuda.jit
def _best_of_start(initial, values, parts):  # type: ignore[no-untyped-def]
    first, total = cuda.grid(1), 0.0
    for s in range(first, initial.size, cuda.gridsize(1)):
        total += initial[s] * values[0, s, 0]
    parts[0, first] = total


@cuda.jit
def _sum_of(array, parts):  # type: ignore[no-untyped-def]
    first, total = cuda.grid(1), 0.0
    for i in range(first, array.size, cuda.gridsize(1)):
        total += array[i]
    parts[0, first] = total


class Terms(NamedTuple):
    """What a pass charges for an entry, see `_passes`, and which of the terms apply."""

    flags: int
    scale: DeviceArray
    weight: DeviceArray
    entries: DeviceArray
    fixed: DeviceArray
    reward: DeviceArray


@dataclass(frozen=True, eq=False)
class Answer:
    """A softened answer: its terms, the multiplier of the reward, and its temperature."""

    terms: Terms
    multiplier: float
    temperature: float


class Board:
    """A model on the GPU, and the passes over it.

    `values [H+1, S, 2]` are the best ones and those of the last softened answer; `here` and `after [S]` are the mass
    before and after a step, and `earned [3, S, A]` what it brings: reward, fixed cost and all of the cost, where they
    are asked for. A `lean` board keeps the values of more than `CACHED` states in single precision, the best ones
    rounded up: what they bound stays a bound, and twice as many are at hand.
    """

    def __init__(self, mdp: MDP, *, earning: bool = False, lean: bool = False) -> None:
        self.shape = mdp.shape
        horizon, n_states, n_actions = mdp.shape
        states = min(n_states, max(1, BLOCK // n_actions))
        self.passes = _passes(n_actions, states)
        self.blocks = -(-n_states // states), self.passes.threads
        self.rows, self.initial, self.start = rows_of(mdp), to_device(mdp.initial), mass_of(mdp.initial)
        single = lean and n_states > CACHED
        self.values = on_device((horizon + 1, n_states, 2), np.float32 if single else np.float64)
        self.upward = 1.0 + 2.0**-23 if single else 1.0
        self.here, self.after = on_device((n_states,), np.int64), on_device((n_states,), np.int64)
        self.earned = on_device((3, n_states, n_actions) if earning else (1, 1, 1))
        self.ones, self.nothing = to_device(np.ones(horizon)), on_device((1, 1, 1))
        self.no_actions = on_device((1, 1), np.int32)

    def respond(self, answer: Answer, actions: DeviceArray | None = None) -> float:
        """The best value `max_μ ⟨μ, cost⟩`; its policy goes to `actions [H, S]`, and `values` are left behind."""
        horizon, terms = self.shape[0], answer.terms
        if actions is not None:
            terms = terms._replace(flags=terms.flags | WITH_ACTIONS)
        for h in range(horizon - 1, -1, -1):
            self.passes.respond[self.blocks](
                *self.rows, *terms, answer.multiplier, answer.temperature / (horizon - h), h, self.values,
                self.upward, self.no_actions if actions is None else actions,
            )  # fmt: skip
        return self.total(_best_of_start, self.initial.size, self.initial, self.values)[0]

    def push(
        self, answer: Answer, share: float, sums: DeviceArray, whole: DeviceArray | None = None
    ) -> tuple[float, float]:
        """Follow the answer that `respond` has just given, and add `share` of it; `(⟨μ, reward⟩, ⟨μ, fixed⟩)`."""
        horizon = self.shape[0]
        terms, whole = self._begin(answer.terms, whole)
        for h in range(horizon):
            self.passes.push[self.blocks](
                *self.rows, *terms, answer.multiplier, answer.temperature / (horizon - h), h, self.values, self.here,
                self.after, share, sums, whole, self.earned,
            )  # fmt: skip
            self.here, self.after = self.after, self.here
        reward, fixed, _ = self._earnings(terms)
        return reward, fixed

    def push_actions(
        self, terms: Terms, actions: DeviceArray, share: float, sums: DeviceArray, whole: DeviceArray | None = None
    ) -> tuple[float, float, float]:
        """Follow `actions [H, S]` and add `share` of them; `(⟨μ, reward⟩, ⟨μ, fixed⟩, ⟨μ, cost⟩)`."""
        horizon, n_states, _ = self.shape
        terms, whole = self._begin(terms, whole)
        for h in range(horizon):
            self.passes.push_actions[grid(n_states)](
                *self.rows, *terms, h, actions, self.here, self.after, share, sums, whole, self.earned
            )
            self.here, self.after = self.after, self.here
        return self._earnings(terms, cost=True)

    def _begin(self, terms: Terms, whole: DeviceArray | None) -> tuple[Terms, DeviceArray]:
        self.here.copy_to_device(self.start)
        if terms.flags & (REWARDED | OFFSET):
            clear(self.earned)
        if whole is None:
            return terms, self.nothing
        return terms._replace(flags=terms.flags | WHOLE), whole

    def _earnings(self, terms: Terms, *, cost: bool = False) -> tuple[float, float, float]:
        asked = (bool(terms.flags & REWARDED), bool(terms.flags & OFFSET), cost)
        size = self.shape[1] * self.shape[2]
        first, second, third = (
            self.total(_sum_of, size, self.earned[place].reshape(size))[0] if wanted else 0.0
            for place, wanted in enumerate(asked)
        )
        return first, second, third

    def total(self, kernel: Any, size: int, *arguments: Any) -> list[float]:
        """Two sums of a kernel that leaves parts of them; the same each time."""
        blocks, block = grid(min(PARTS, size))
        parts = on_device((2, blocks * block))
        kernel[blocks, block](*arguments, parts)
        return [float(part) for part in parts.copy_to_host().sum(axis=1)]
