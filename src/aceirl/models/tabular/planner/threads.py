"""A model whose passes are shared by threads, for a large problem.

A pass goes step by step, and the threads meet after each. They sleep while they wait: threads that spin, as those of
OpenMP do, take the core from the one they wait for wherever there are fewer cores than threads. States are cut into
`PARTS`, whatever the number of threads, and partial sums are added in the order of the parts: a plan is the same on one
thread and on many.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from aceirl.models.tabular.kernels import compiled, config
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.models.tabular.planner.passes import (
    ADVERSARY,
    CONSTANT,
    EXPLORER,
    TOTALS,
    Actions,
    Cost,
    Graph,
    SaddleProblem,
    SaddleState,
    Step,
    add_answer,
    push,
    respond,
    set_price,
    set_root,
    values_of,
)

PARTS = 4
"""How many parts the states are cut into: so many threads are of use."""

BLOCKS = 8
"""Of how many blocks of neighbouring states a part consists, in turns with the others: steps may visit a few blocks."""


def available() -> int:
    """How many threads may share a problem: one a core, or what `NUMBA_NUM_THREADS` or `OMP_NUM_THREADS` say.

    Whoever starts a process for each core, as sweeps do, sets one of them.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(PARTS, int(config.NUMBA_NUM_THREADS), int(asked) if asked.isdigit() else PARTS))


class ThreadPool:
    """Some threads, the caller's among them, and the passes that they share; a context that ends them.

    A method is the pass of the same name, see `passes`; those that are not here are done by one thread.
    """

    def __init__(self, graph: Graph, threads: int) -> None:
        self.graph, self.threads = graph, threads
        self._workers = ThreadPoolExecutor(max(1, threads - 1))
        self._parted, self._first = parted(graph)
        self._graphs = [self._parted._replace(first=first) for first in self._first]
        self._values = np.zeros((threads, 2, graph.initial.size, 2))
        self._sent = np.zeros((2, PARTS, graph.initial.size))

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.shutdown()

    def results(self, state: SaddleState) -> tuple[SaddleState, None]:
        """The state as it is; there is no mixture."""
        return state, None

    def _share(self, work: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call `work(…, number, of)` once in each thread; what the calls return, in order."""
        others = [self._workers.submit(work, *arguments, number, self.threads) for number in range(1, self.threads)]
        own = work(*arguments, 0, self.threads)
        return [own, *(other.result() for other in others)]

    def _parts(self, work: Callable[[int], Any]) -> list[Any]:
        """Call `work(part)` for every part; what the calls return, in order."""

        def several(number: int, of: int) -> list[Any]:
            return [work(part) for part in range(number, PARTS, of)]

        found = self._share(several)
        return [found[part % self.threads][part // self.threads] for part in range(PARTS)]

    def respond(self, cost: Cost, multiplier: float, temperature: float, actions: Actions, policy: FloatArray) -> float:
        """Backward, all threads at one step at a time."""
        horizon = self.graph.first.shape[0] - 1
        self._values[:, horizon % 2] = 0.0
        for h in range(horizon - 1, -1, -1):
            self._share(
                _respond_step, self._parted, self._first, cost, multiplier, temperature, actions, policy,
                self._values, h,
            )  # fmt: skip
        return float(sum(self._parts(self._value)))

    def _value(self, part: int) -> float:
        """What the first states of a part add to the best value."""
        states = self._parted.states[self._first[part, 0] : self._first[part, 1]]
        return float((self.graph.initial[states] * self._values[part % self.threads, 0, states, 0]).sum())

    def push(self, actions: Actions, policy: FloatArray, mass: FloatArray) -> None:
        """Forward, all threads at one step at a time."""
        self._sent[0] = 0.0
        self._sent[0, 0] = self.graph.initial
        for h in range(mass.shape[0]):
            self._share(_push_step, self._parted, self._first, actions, policy, mass, self._sent, h)

    def values_of(self, cost: Cost, actions: Actions, policy: FloatArray, mass: FloatArray) -> tuple[float, float]:
        """Summed part by part, as `set_price` and `add_answer` are."""
        value, earned = np.sum(self._parts(lambda part: values_of(self._graphs[part], cost, actions, policy, mass)), 0)
        return float(value), float(earned)

    def set_root(self, problem: SaddleProblem, state: SaddleState) -> None:
        """A part of the entries each."""
        self._parts(lambda part: set_root(self.graph, *_entries(problem, state, part)))

    def set_price(self, problem: SaddleProblem, state: SaddleState) -> tuple[float, float]:
        """A part of the entries each."""
        value, held = np.sum(self._parts(lambda part: set_price(self.graph, *_entries(problem, state, part))), 0)
        return float(value), float(held)

    def add_answer(
        self, problem: SaddleProblem, state: SaddleState, actions: Actions, share: float, adversary: bool
    ) -> None:
        """A part of the states each; their totals are added in order."""
        totals = np.zeros((PARTS, TOTALS))
        states = [state._replace(totals=each) for each in totals]
        self._parts(lambda part: add_answer(self._graphs[part], problem, states[part], actions, share, adversary))
        state.totals[ADVERSARY if adversary else EXPLORER] += share
        state.totals[CONSTANT] += totals[:, CONSTANT].sum()


def parted(graph: Graph) -> tuple[Graph, IntArray]:
    """The graph with its states in the order of their parts, and `first [PARTS, H+1]` for each of them."""
    horizon = graph.first.shape[0] - 1
    steps = np.repeat(np.arange(horizon), np.diff(graph.first))
    parts = graph.states // -(-graph.initial.size // (PARTS * BLOCKS)) % PARTS
    sizes = np.bincount(parts * horizon + steps, minlength=PARTS * horizon)
    ends = np.concatenate(([0], np.cumsum(sizes)))
    first = ends[np.arange(PARTS)[:, None] * horizon + np.arange(horizon + 1)]
    return graph._replace(states=graph.states[np.argsort(parts, kind="stable")]), first


def _entries(problem: SaddleProblem, state: SaddleState, part: int) -> tuple[SaddleProblem, SaddleState]:
    """What `set_root` and `set_price` read and write, for one part of the entries."""

    def some(array: FloatArray) -> FloatArray:
        flat = array.reshape(-1)
        low, high = (flat.size * number // PARTS for number in (part, part + 1))
        return flat[low:high].reshape(1, -1, 1)

    explored, weighted, root, price = (some(sums) for sums in (state.explored, state.weighted, state.root, state.price))
    mine = state._replace(explored=explored, weighted=weighted, root=root, price=price)
    return problem._replace(counts=some(problem.counts)), mine


@compiled
def _part_of(graph: Graph, first: IntArray) -> Graph:
    """The graph with the states of one part."""
    rows = graph.indptr, graph.successors, graph.probabilities, graph.stride, graph.n_actions
    return Graph(*rows, graph.initial, first, graph.states)


@compiled
def _respond_step(
    graph: Graph, first: IntArray, cost: Cost, multiplier: float, temperature: float, actions: Actions,
    policy: FloatArray, values: FloatArray, h: int, number: int, of: int,
) -> None:  # fmt: skip
    """Step `h` of `respond` for the parts of one thread.

    `values [threads, 2, S, 2]` has room for each: what the others found at the next step is copied first, in order,
    because to fetch it from another core one by one is slow.
    """
    mine, later = values[number], (h + 1) % 2
    for part in range(PARTS):
        if part % of != number and h + 2 < first.shape[1]:
            theirs = values[part % of]
            for i in range(first[part, h + 1], first[part, h + 2]):
                s = graph.states[i]
                mine[later, s, 0], mine[later, s, 1] = theirs[later, s, 0], theirs[later, s, 1]
    for part in range(number, PARTS, of):
        respond(_part_of(graph, first[part]), cost, multiplier, temperature, actions, policy, Step(h, mine))


@compiled
def _push_step(
    graph: Graph, first: IntArray, actions: Actions, policy: FloatArray, mass: FloatArray, sent: FloatArray,
    h: int, number: int, of: int,
) -> None:  # fmt: skip
    """What all parts have sent to those of one thread becomes their `mass[h]`, and is moved on.

    `sent [2, PARTS, S]` is what each part has sent, to even and to odd steps.
    """
    inbox, outbox = sent[h % 2], sent[(h + 1) % 2]
    for part in range(number, PARTS, of):
        for i in range(first[part, h], first[part, h + 1]):
            s = graph.states[i]
            mass[h, s] = (inbox[0, s] + inbox[1, s]) + (inbox[2, s] + inbox[3, s])
        if h + 1 < mass.shape[0]:
            outbox[part, :] = 0.0
            push(_part_of(graph, first[part]), actions, policy, mass, Step(h, outbox[part]))
