"""The play of a large problem, its passes shared by threads.

A pass goes step by step, and the threads meet after each. They sleep while they wait: threads that spin, as those of
OpenMP do, take the core from the one they wait for wherever there are fewer cores than threads. States are cut into
`PARTS`, whatever the number of threads, and partial sums are added in the order of the parts: a plan is the same on one
thread and on many.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from aceirl.kernels import compiled, config
from aceirl.mdp import FloatArray, IntArray
from aceirl.planner import constrained, saddle
from aceirl.planner.constrained import values_of
from aceirl.planner.passes import Actions, Cost, Graph, Step, push, respond
from aceirl.planner.saddle import (
    ADVERSARY,
    CONSTANT,
    EXPLORER,
    TOTALS,
    Problem,
    State,
    add_answer,
    set_price,
    set_root,
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


class Crew:
    """Some threads, the caller's among them, that share the passes of one play; a context that ends them.

    `play` is `saddle.iterate` with the passes of this class in place of the compiled ones of the same names.
    """

    def __init__(self, graph: Graph, threads: int) -> None:
        self.threads, self._others = threads, [_Hand() for _ in range(1, threads)]
        self._graph, self._first = parted(graph)
        self._graphs = [self._graph._replace(first=first) for first in self._first]
        self._values = np.zeros((threads, 2, graph.initial.size, 2))
        self._sent = np.zeros((2, PARTS, graph.initial.size))
        names: dict[str, Any] = {
            "respond": self.respond, "push": self.push, "values_of": self.values_of,
            "set_root": self.set_root, "set_price": self.set_price, "add_answer": self.add_answer,
        }  # fmt: skip
        names["search_multiplier"] = _interpreted(constrained, "search_multiplier", names)
        for rule in ("upper_bound", "add_adversary", "lower_bound", "iterate"):
            names[rule] = _interpreted(saddle, rule, names)
        self.play: Callable[..., tuple[int, bool]] = names["iterate"]

    def __enter__(self) -> Crew:
        for other in self._others:
            other.start()
        return self

    def __exit__(self, *_: object) -> None:
        for other in self._others:
            other.orders.put(None)
            other.join()

    def _share(self, work: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call `work(…, number, of)` once in each thread; what the calls return, in order."""
        for number, other in enumerate(self._others, 1):
            other.orders.put(partial(work, *arguments, number, self.threads))
        own = _outcome(partial(work, *arguments, 0, self.threads))
        outcomes = [own, *(other.outcomes.get() for other in self._others)]
        for _, error in outcomes:
            if error is not None:
                raise error
        return [result for result, _ in outcomes]

    def _parts(self, work: Callable[[int], Any]) -> list[Any]:
        """Call `work(part)` for every part; what the calls return, in order."""

        def several(number: int, of: int) -> list[Any]:
            return [work(part) for part in range(number, PARTS, of)]

        found = self._share(several)
        return [found[part % self.threads][part // self.threads] for part in range(PARTS)]

    def respond(
        self, graph: Graph, cost: Cost, multiplier: float, temperature: float, actions: Actions, policy: FloatArray
    ) -> float:
        """See `passes.respond`."""
        horizon = graph.first.shape[0] - 1
        self._values[:, horizon % 2] = 0.0
        for h in range(horizon - 1, -1, -1):
            self._share(
                _respond_step, self._graph, self._first, cost, multiplier, temperature, actions, policy, self._values, h
            )
        return float(sum(self._parts(self._value)))

    def _value(self, part: int) -> float:
        """What the first states of a part add to the best value."""
        states = self._graph.states[self._first[part, 0] : self._first[part, 1]]
        return float((self._graph.initial[states] * self._values[part % self.threads, 0, states, 0]).sum())

    def push(self, graph: Graph, actions: Actions, policy: FloatArray, n_actions: int, mass: FloatArray) -> None:
        """See `passes.push`."""
        self._sent[0] = 0.0
        self._sent[0, 0] = graph.initial
        for h in range(mass.shape[0]):
            self._share(_push_step, self._graph, self._first, actions, policy, n_actions, mass, self._sent, h)

    def values_of(
        self, graph: Graph, cost: Cost, actions: Actions, policy: FloatArray, mass: FloatArray
    ) -> tuple[float, float]:
        """See `constrained.values_of`."""
        value, earned = np.sum(self._parts(lambda part: values_of(self._graphs[part], cost, actions, policy, mass)), 0)
        return float(value), float(earned)

    def set_root(self, problem: Problem, state: State) -> None:
        """See `saddle.set_root`."""
        self._parts(lambda part: set_root(*_entries(problem, state, part)))

    def set_price(self, problem: Problem, state: State) -> tuple[float, float]:
        """See `saddle.set_price`."""
        value, held = np.sum(self._parts(lambda part: set_price(*_entries(problem, state, part))), 0)
        return float(value), float(held)

    def add_answer(
        self, graph: Graph, problem: Problem, state: State, actions: Actions, share: float, adversary: bool
    ) -> None:
        """See `saddle.add_answer`."""
        totals = np.zeros((PARTS, TOTALS))
        states = [state._replace(totals=each) for each in totals]
        self._parts(lambda part: add_answer(self._graphs[part], problem, states[part], actions, share, adversary))
        state.totals[ADVERSARY if adversary else EXPLORER] += share
        state.totals[CONSTANT] += totals[:, CONSTANT].sum()


class _Hand(Thread):
    """A thread that carries out one order after the other; none is the last."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.orders: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self.outcomes: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run(self) -> None:
        """Until the orders end."""
        while (order := self.orders.get()) is not None:
            self.outcomes.put(_outcome(order))


def _outcome(order: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What came of it, or what went wrong: nobody leaves before all are done."""
    try:
        return order(), None
    except BaseException as error:
        return None, error


def _interpreted(module: ModuleType, name: str, names: dict[str, Any]) -> Callable[..., Any]:
    """A compiled function of a module, run by the interpreter, with other functions behind these names.

    So the rules of the play are written once, and small problems run them in one compiled call.
    """
    function = getattr(module, name)
    written = getattr(function, "py_func", function)  # nothing is compiled if numba is switched off
    return FunctionType(written.__code__, {**vars(module), **names})


def parted(graph: Graph) -> tuple[Graph, IntArray]:
    """The graph with its states in the order of their parts, and `first [PARTS, H+1]` for each of them."""
    horizon = graph.first.shape[0] - 1
    steps = np.repeat(np.arange(horizon), np.diff(graph.first))
    parts = graph.states // -(-graph.initial.size // (PARTS * BLOCKS)) % PARTS
    sizes = np.bincount(parts * horizon + steps, minlength=PARTS * horizon)
    ends = np.concatenate(([0], np.cumsum(sizes)))
    first = ends[np.arange(PARTS)[:, None] * horizon + np.arange(horizon + 1)]
    return graph._replace(states=graph.states[np.argsort(parts, kind="stable")]), first


def _entries(problem: Problem, state: State, part: int) -> tuple[Problem, State]:
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
    return Graph(graph.indptr, graph.successors, graph.probabilities, graph.stride, graph.initial, first, graph.states)


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
    graph: Graph, first: IntArray, actions: Actions, policy: FloatArray, n_actions: int, mass: FloatArray,
    sent: FloatArray, h: int, number: int, of: int,
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
            push(_part_of(graph, first[part]), actions, policy, n_actions, mass, Step(h, outbox[part]))
