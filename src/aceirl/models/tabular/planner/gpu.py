"""A model on the GPU: the planner's passes, best responses backward and answers forward.

A softened answer is never stored. A pass backward leaves its values `[H+1, S, 2]`, and the pass forward works the
answer out again as it comes by. With counts pooled over steps and a `Separable` weight nothing has the size `H·S·A`,
and the plan is a `Mixture` of the explorer's answers instead of their average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from aceirl.models.tabular.gpu import (
    BLOCK,
    UNIT,
    DeviceArray,
    clear,
    cuda,
    grid,
    mass_of,
    on_device,
    rows_of,
    to_device,
)
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.models.tabular.planner.passes import (
    ADVERSARY,
    CONSTANT,
    EXPLORER,
    NOTHING,
    TIE,
    Cost,
    SaddleProblem,
    SaddleState,
    empty_state,
    fill,
)

UNIFORM = 1e30
"""A temperature at which all actions are taken alike."""

WEIGHTED, OFFSET, REWARDED, WITH_ACTIONS, WHOLE, CHARGED = 1, 2, 4, 8, 16, 32
"""Which terms a pass has, and what it is asked for; other arguments are arrays that it does not read."""

CACHED = 3_000_000
"""Of so many states the values of one step, in double precision, are about what the cache of a large GPU holds."""

PARTS = 1 << 16
"""How many threads share a sum. Each leaves a part, and the parts are added in their order."""


class _Passes(NamedTuple):
    respond: Any
    push: Any
    push_given: Any
    threads: int


@cache
def _passes(n_actions: int, states: int) -> _Passes:
    """The kernels of one step: backward, and forward under a softened answer or under a given one.

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
    def soften(q, first, temperature):  # type: ignore[no-untyped-def]
        """The values `q[first:first+A]` become the softened answer of `passes.respond`; returns its mean."""
        best, chosen = first_best(q, first)
        heat = temperature * abs(best)
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
        temperature, h, values, upward, actions,
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
            values[h, s, 1] = soften(q, thread * n_actions, temperature)

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
        temperature, h, values, here, after, share, sums, whole, earned,
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
            soften(q, thread * n_actions, temperature)
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
    def push_given(  # type: ignore[no-untyped-def]
        indptr, successors, probabilities, stride, flags, scale, weight, entries, fixed, reward,
        h, actions, policy, here, after, share, sums, whole, earned,
    ):  # fmt: skip
        """Forward under `actions [H, S]` or a `policy [H, S, A]`, a thread a state; `earned[2]` is the cost."""
        s = cuda.grid(1)
        if s >= here.size or here[s] == 0:
            return
        mass = here[s] / UNIT
        here[s] = 0
        with_actions = flags & WITH_ACTIONS
        low, high = (actions[h, s], actions[h, s] + 1) if with_actions else (0, n_actions)
        for a in range(low, high):
            flow = mass if with_actions else mass * policy[h, s, a]
            if flow > 0.0:
                got, paid = add(flow, share, flags, scale, weight, fixed, reward, sums, whole, h, s, a)
                if flags & REWARDED:
                    earned[0, s, a] += got
                if flags & OFFSET:
                    earned[1, s, a] += paid
                if flags & CHARGED:
                    earned[2, s, a] += flow * cost_of(flags, scale, weight, entries, fixed, reward, 0.0, h, s, a)
                row = h * stride + s * n_actions + a
                for k in range(indptr[row], indptr[row + 1] if h + 1 < scale.size else indptr[row]):
                    cuda.atomic.add(after, successors[k], np.int64(flow * probabilities[k] * UNIT + 0.5))

    return _Passes(respond, push, push_given, states * lanes)


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


@cuda.jit
def _set_root(counts, explored, scale, root):  # type: ignore[no-untyped-def]
    """`1/√(n + x)`."""
    i = cuda.grid(1)
    if i < counts.size:
        root[i] = 1.0 / math.sqrt(counts[i] + scale * explored[i])


@cuda.jit
def _set_price(counts, weighted, scale, root, price, parts):  # type: ignore[no-untyped-def]
    """`p = ŵ·z^{-3/2}/2`; the parts `[2, ·]` add up to `⟨ŵ, 1/√z⟩` and `⟨p, n⟩`."""
    first, stride = cuda.grid(1), cuda.gridsize(1)
    value, held = 0.0, 0.0
    for i in range(first, counts.size, stride):
        here = scale * weighted[i] * root[i]
        price[i] = 0.5 * here * root[i] * root[i]
        value += here
        held += price[i] * counts[i]
    parts[0, first] = value
    parts[1, first] = held


@cuda.jit
def _multiply(array, factor):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < array.size:
        array[i] *= factor


class Terms(NamedTuple):
    """What a pass charges for an entry, see `_passes`, and which of the terms apply."""

    flags: int
    scale: DeviceArray
    weight: DeviceArray
    entries: DeviceArray
    fixed: DeviceArray
    reward: DeviceArray


class Answer(NamedTuple):
    """A softened answer: its terms, the multiplier of the reward, and its temperature."""

    terms: Terms
    multiplier: float
    temperature: float


class DeviceModel:
    """A model on the GPU. A method is the pass of the same name, see `passes`.

    The weight of a step is multiplied by its `scale [H]`. `values [H+1, S, 2]` are the best ones and those of the last
    softened answer; `here` and `after [S]` are the mass before and after a step, and `earned [3, S, A]` what it brings:
    reward, fixed cost and all of the cost, where they are asked for. A `lean` model keeps the values of more than
    `CACHED` states in single precision, the best ones rounded up: what they bound stays a bound, and twice as many are
    at hand. It keeps the explorer's answers as well, each as the `price [1, S, A]` that it answers and its temperature.
    """

    def __init__(self, mdp: MDP, scale: FloatArray | None = None, *, earning: bool = False, lean: bool = False) -> None:
        self.mdp, self.shape, self.lean = mdp, mdp.shape, lean
        horizon, n_states, n_actions = mdp.shape
        states = min(n_states, max(1, BLOCK // n_actions))
        self._passes = _passes(n_actions, states)
        self._blocks = -(-n_states // states), self._passes.threads
        self._rows, self._initial, self._start = rows_of(mdp), to_device(mdp.initial), mass_of(mdp.initial)
        single = lean and n_states > CACHED
        self.values = on_device((horizon + 1, n_states, 2), np.float32 if single else np.float64)
        self._upward = 1.0 + 2.0**-23 if single else 1.0
        self._here, self._after = on_device((n_states,), np.int64), on_device((n_states,), np.int64)
        self._earned = on_device((3, n_states, n_actions) if earning else (1, 1, 1))
        self._ones, self._nothing = to_device(np.ones(horizon)), on_device((1, 1, 1))
        self._scale = self._ones if scale is None else to_device(scale)
        self._no_actions = on_device((1, 1), np.int32)
        self._answer: Answer | None = None
        self._policy: DeviceArray = None
        self._kept: list[tuple[DeviceArray, float]] = []

    def respond(self, cost: Cost, multiplier: float, temperature: float, actions: Any, policy: Any) -> float:
        """Backward; the softened answer is kept as its terms and `values`, and nothing goes to `policy`."""
        horizon, terms = self.shape[0], self._terms(cost)
        self._answer, self._policy = Answer(terms, multiplier, temperature), None
        if actions.size:
            terms = terms._replace(flags=terms.flags | WITH_ACTIONS)
        for h in range(horizon - 1, -1, -1):
            self._passes.respond[self._blocks](
                *self._rows, *terms, multiplier, temperature / (horizon - h), h, self.values, self._upward,
                actions if actions.size else self._no_actions,
            )  # fmt: skip
        return self._total(_best_of_start, self._initial.size, self._initial, self.values)[0]

    def _terms(self, cost: Cost) -> Terms:
        weight, fixed, reward = (
            term if term.size else self._nothing for term in (cost.weight, cost.fixed, cost.reward)
        )
        flags = (WEIGHTED if cost.weight.size else 0) | (OFFSET if cost.fixed.size else 0)
        flags |= REWARDED if cost.reward.size else 0
        return Terms(flags, self._scale if cost.weight.size else self._ones, weight, cost.root, fixed, reward)

    def push(self, actions: Any, policy: Any, mass: Any) -> None:
        """Nothing yet: mass is pushed where something is added up on the way, by `values_of` and `add_answer`."""

    def values_of(self, cost: Cost, actions: Any, policy: Any, mass: Any) -> tuple[float, float]:
        """Of an answer without actions the reward alone: the rest of its cost is not asked for."""
        reward, _, value = self._follow(self._terms(cost), actions, 0.0, self._nothing, charged=bool(actions.size))
        return value, reward

    def add_answer(
        self, problem: SaddleProblem, state: SaddleState, actions: Any, share: float, adversary: bool
    ) -> None:
        """The mass is pushed, and `share` of it added on its way."""
        if adversary:
            sums, whole = state.weighted, state.adversary
            cost = Cost(problem.weight, state.root, problem.fixed, problem.reward)
        else:
            sums, whole = state.explored, NOTHING if state.explorer is state.explored else state.explorer
            cost = Cost(NOTHING, state.root, NOTHING, NOTHING)
            if self.lean and self._answer is not None:
                price = cuda.device_array_like(self._answer.terms.entries)
                price.copy_to_device(self._answer.terms.entries)
                self._kept.append((price, self._answer.temperature))
        _, constant, _ = self._follow(self._terms(cost), actions, share, sums, whole)
        state.totals[ADVERSARY if adversary else EXPLORER] += share
        state.totals[CONSTANT] += share * constant

    def _follow(
        self, terms: Terms, actions: Any, share: float, sums: Any, whole: Any = NOTHING, *, charged: bool = False
    ) -> tuple[float, float, float]:
        """Push the mass of `actions`, or of the last answer, and add `share`; `(⟨μ, reward⟩, ⟨μ, fixed⟩, ⟨μ, cost⟩)`.

        A softened answer has terms of its own.
        """
        horizon, n_states, _ = self.shape
        softened = self._answer if self._policy is None and not actions.size else None
        terms = terms if softened is None else softened.terms
        flags = terms.flags | (WHOLE if whole.size else 0) | (CHARGED if charged else 0)
        terms = terms._replace(flags=flags | (WITH_ACTIONS if actions.size else 0))
        added = share, sums, whole if whole.size else self._nothing, self._earned
        self._here.copy_to_device(self._start)
        if flags & (REWARDED | OFFSET | CHARGED):
            clear(self._earned)
        for h in range(horizon):
            if softened is not None:
                self._passes.push[self._blocks](
                    *self._rows, *terms, softened.multiplier, softened.temperature / (horizon - h), h, self.values,
                    self._here, self._after, *added,
                )  # fmt: skip
            else:
                given = actions if actions.size else self._no_actions, self._nothing if actions.size else self._policy
                self._passes.push_given[grid(n_states)](*self._rows, *terms, h, *given, self._here, self._after, *added)
            self._here, self._after = self._after, self._here
        size = self.shape[1] * self.shape[2]
        reward, fixed, cost = (
            self._total(_sum_of, size, self._earned[place].reshape(size))[0] if flags & asked else 0.0
            for place, asked in enumerate((REWARDED, OFFSET, CHARGED))
        )
        return reward, fixed, cost

    def set_root(self, problem: SaddleProblem, state: SaddleState) -> None:
        """A thread an entry."""
        scale = problem.number / state.totals[EXPLORER]
        counts, explored, root = (_flat(array) for array in (problem.counts, state.explored, state.root))
        _set_root[grid(counts.size)](counts, explored, scale, root)

    def set_price(self, problem: SaddleProblem, state: SaddleState) -> tuple[float, float]:
        """Threads share the entries."""
        arrays = (problem.counts, state.weighted, state.root, state.price)
        counts, weighted, root, price = (_flat(array) for array in arrays)
        scale = 1.0 / state.totals[ADVERSARY]
        value, held = self._total(_set_price, counts.size, counts, weighted, scale, root, price)
        return value, held

    def largest_price(self, state: SaddleState) -> float:
        """On the processor."""
        price: DeviceArray = state.price
        return float(price.copy_to_host().max())

    def allocate(self, problem: SaddleProblem, state: SaddleState) -> None:
        """On the processor: it is in closed form, and no larger than the counts."""
        arrays: tuple[DeviceArray, ...] = (problem.counts, state.weighted, state.explored)
        counts, weighted = (array.copy_to_host() for array in arrays[:2])
        held = state.totals[ADVERSARY]
        state.totals[EXPLORER] = 1.0
        level, shares = np.empty(counts.size), np.empty(counts.size)
        fill(counts.ravel(), weighted.ravel(), 1.0 / held if held > 0.0 else 0.0, problem.number, level, shares)
        arrays[2].copy_to_device(shares.reshape(counts.shape))

    def set_uniform(self, state: SaddleState) -> None:
        """By an answer so soft that it takes all actions alike: it can be kept like the others."""
        ones = to_device(np.ones((1, *self.shape[1:])))
        self.respond(Cost(NOTHING, ones, NOTHING, NOTHING), 0.0, UNIFORM, state.none, state.policy)

    def set_answer(self, state: SaddleState, policy: FloatArray) -> None:
        """The policy is copied to the GPU until the next answer is given."""
        self._policy = to_device(policy)

    def scale_sums(self, problem: SaddleProblem, state: SaddleState, factor: float) -> None:
        """A thread an entry."""
        sums = [state.adversary, state.weighted]
        state.totals[[ADVERSARY, CONSTANT]] *= factor
        if not problem.samples:
            sums += [state.explored] if state.explorer is state.explored else [state.explored, state.explorer]
            state.totals[EXPLORER] *= factor
        for array in sums:
            _multiply[grid(array.size)](_flat(array), factor)

    def results(self, state: SaddleState) -> tuple[SaddleState, Mixture | None]:
        """The sums on the processor, and for a lean model the mixture of the explorer's answers."""
        names = ("explored", "weighted", "explorer", "adversary")
        arrays = {name: getattr(state, name) for name in names}
        state = state._replace(**{name: array.copy_to_host() for name, array in arrays.items() if array.size})
        if not self.lean:
            return state, None
        visits, weighted = state.explored[0] / state.totals[EXPLORER], state.weighted[0] / state.totals[ADVERSARY]
        return state, Mixture(self.mdp, self._kept, visits, weighted)

    def _total(self, kernel: Any, size: int, *arguments: Any) -> list[float]:
        """Two sums of a kernel that leaves parts of them; the same each time."""
        blocks, block = grid(min(PARTS, size))
        parts = on_device((2, blocks * block))
        kernel[blocks, block](*arguments, parts)
        return [float(part) for part in parts.copy_to_host().sum(axis=1)]


def _flat(array: DeviceArray) -> DeviceArray:
    return array.reshape(array.size)


def on_gpu(
    mdp: MDP, problem: SaddleProblem, scale: FloatArray | None = None
) -> tuple[DeviceModel, SaddleProblem, SaddleState]:
    """A model on the GPU with problem and empty state; lean if the weight `[1, S, A]` has a `scale [H]` of its own."""
    lean, earning = scale is not None, problem.reward.size > 0 or problem.fixed.size > 0
    names = ("counts", "weight", "fixed", "reward")
    arrays = {name: getattr(problem, name) for name in names}
    problem = problem._replace(**{name: to_device(array) for name, array in arrays.items() if array.size})
    state = empty_state(problem, mdp.shape, on_device, whole=not lean, stored=False)
    return DeviceModel(mdp, scale, earning=earning, lean=lean), problem, state


@dataclass(frozen=True, eq=False)
class SoftPolicy:
    """One answer of the explorer: it earns `price [S, A]` an entry, and is softened by a temperature.

    `values [H+1, S]` are its own.
    """

    mdp: MDP
    price: FloatArray
    temperature: float
    values: FloatArray

    def shares(self, h: int, states: IntArray) -> FloatArray:
        """`[n, A]`: how likely it takes each action in `states [n]` at step `h`."""
        transitions = self.mdp.backup
        rows = h * transitions.stride + np.asarray(states)[:, None] * self.mdp.n_actions + np.arange(self.mdp.n_actions)
        q = self.price[states] + (transitions.matrix[rows.ravel()] @ self.values[h + 1]).reshape(rows.shape)
        best = q.max(axis=1)
        heat = self.temperature / (self.mdp.horizon - h) * np.abs(best)
        threshold, running = best - heat, np.ones(len(q), dtype=np.bool_)
        active = count = np.full(len(q), q.shape[1])
        while running.any():  # the steps of `passes.respond`, for all states together
            used = q > threshold[:, None]
            active = np.where(running, used.sum(axis=1), active)
            mean = (np.where(used, q, 0.0).sum(axis=1) - heat) / np.maximum(1, active)
            threshold = np.where(running & (active > 1), mean, threshold)
            running &= (active > 1) & (active < count)
            count = np.where(running, active, count)
        shares = np.maximum(0.0, q - threshold[:, None])
        shares[active <= 1] = 0.0
        lonely = shares.sum(axis=1) == 0.0
        nearly_best = q >= (best - TIE * np.abs(best))[:, None]
        shares[lonely, nearly_best[lonely].argmax(axis=1)] = 1.0
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Mixture:
    """A plan as the explorer's answers: for each episode draw one, all alike, and play it to the end.

    `visits [S, A]` is what an episode of the mixture does at all steps together, and `weighted [S, A]` the averaged
    adversary's visits times their weight: the certificate's bounds can be worked out from these two. `answers` are
    prices `[1, S, A]` on the GPU, and temperatures.
    """

    mdp: MDP
    answers: list[tuple[DeviceArray, float]]
    visits: FloatArray
    weighted: FloatArray

    def __len__(self) -> int:
        return len(self.answers)

    def policy(self, index: int) -> SoftPolicy:
        """One of the answers."""
        model, (price, temperature) = DeviceModel(self.mdp, lean=True), self.answers[index]
        model.respond(Cost(NOTHING, price, NOTHING, NOTHING), 0.0, temperature, NOTHING, NOTHING)
        return SoftPolicy(self.mdp, price.copy_to_host()[0], temperature, model.values.copy_to_host()[:, :, 1])
