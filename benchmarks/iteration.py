"""Where the time of an iteration goes, with one episode an iteration, the run kept in a folder.

    python benchmarks/iteration.py [--only Taxi ...] [--against SRC] [--docs]

The median iteration, the whole run, and, in a second run, what the parts of an iteration take on average. All in
processor time, after a run of two iterations that loads what was compiled. A part does not count what other parts do
for it: an inference that asks for radii is not charged for them. With `--against` whole runs are compared with another
version, in turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import _frame as frame

import aceirl.learner.engine
import aceirl.learner.loop
from aceirl import ActiveIRL
from aceirl.certificates import KINDS
from aceirl.explore import STRATEGIES
from aceirl.irl.belief import Inference
from aceirl.learner.turns import Turn
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.model import TabularModel
from aceirl.runs import Run
from studies.fields import KeyDoor, key_expert

PARTS = (
    "exploring",
    "counting",
    "radii and bounds",
    "certificates",
    "planning",
    "inference",
    "policy, regret",
    "saving",
)


@dataclass(frozen=True)
class Case:
    """What is learned, from whom, how, and for how many iterations at most."""

    environment: Callable[[], Any]
    expert: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    iterations: int = 10**9
    horizon: int | None = None

    def learn(self, iterations: int | None = None) -> list[float]:
        """The processor time of each iteration, saving included."""
        most, times = iterations or self.iterations, list[float]()
        last = time.process_time()

        def callback(turn: Turn) -> bool:
            nonlocal last
            now = time.process_time()
            times.append(now - last)
            last = now
            return len(times) >= most

        with tempfile.TemporaryDirectory() as folder:
            learner, out = ActiveIRL(**self.settings), Path(folder) / "run"
            last = time.process_time()
            learner.fit(self.environment(), self.expert, horizon=self.horizon, out=out, callback=callback)
        return times


CASES = {
    "Four Paths": Case(lambda: "four-paths"),
    "Four Paths, `set`": Case(lambda: "four-paths", settings={"certify": "set"}, iterations=300),
    "Taxi-v4": Case(lambda: "Taxi-v4", "optimal", {"max_samples": 5_000}),
    "key and door": Case(KeyDoor, key_expert, {"epsilon": 0.004}, 500, 40),
    "key and door, `set`": Case(KeyDoor, key_expert, {"certify": "set"}, 500, 40),
    "Blackjack-v1": Case(lambda: "Blackjack-v1", "optimal", {"max_samples": 10_000, "epsilon": 0.01}, horizon=12),
}


class Parts:
    """Which part of an iteration the processor is busy with, and for how long it was with each."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys((*PARTS, "rest"), 0.0)
        self.stack, self.last = ["rest"], time.process_time()

    def measure(self) -> None:
        """Begin to measure; from now on, for the rest of this process."""
        self._function("exploring", aceirl.learner.loop, "_reply")
        aceirl.learner.engine.collect = self._walked(aceirl.learner.engine.collect)  # type: ignore[attr-defined]
        for name in ("__add__", "grown", "with_answers"):
            self._function("counting", Counts, name)
        self._property("counting", Estimate, "mdp")
        self._property("radii and bounds", TabularModel, "radii")
        self._property("radii and bounds", TabularModel, "bound")
        for kind in KINDS.values():
            for name in ("steer", "watch", "update", "value"):
                self._function("certificates", kind, name)
        for strategy in STRATEGIES.values():
            self._function("planning", strategy, "plan")
        self._function("inference", Inference, "_infer")
        for name in ("policy", "regret"):
            self._property("policy, regret", Turn, name)
        for name in ("_append", "_save", "_keep"):
            self._function("saving", Run, name)

    def _function(self, part: str, owner: Any, name: str) -> None:
        setattr(owner, name, self._timed(part, getattr(owner, name)))

    def _property(self, part: str, owner: Any, name: str) -> None:
        found = vars(owner)[name]
        found.func = self._timed(part, found.func)

    def _switch(self) -> None:
        now = time.process_time()
        self.spent[self.stack[-1]] += now - self.last
        self.last = now

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            self._switch()
            self.stack.append(part)
            try:
                return function(*arguments, **options)
            finally:
                self._switch()
                self.stack.pop()

        return timed

    def _walked(self, collect: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
        @wraps(collect)
        def walked(*arguments: Any) -> Generator[Any, Any, Any]:
            walk = collect(*arguments)
            go_on = self._timed("exploring", walk.send)
            reply = None
            while True:
                try:
                    question = go_on(reply)
                except StopIteration as over:
                    return over.value
                reply = yield question

        return walked


def in_ms(head: str) -> frame.Column:
    """A column of milliseconds."""
    return frame.number(head, lambda value: f"{1e3 * value:.2f}")


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """The table, or two versions side by side."""

    def whole(case: Case) -> frame.Round:
        case.learn(2)
        return lambda: statistics.median(case.learn(min(200, case.iterations)))

    if frame.compared(options, report, {name: (lambda case=case: whole(case)) for name, case in CASES.items()}):  # type: ignore[misc]
        return
    table = report.table(
        "iteration",
        frame.Column("milliseconds an iteration"),
        frame.number("iterations"),
        in_ms("median"),
        frame.number("seconds in all", "{:.1f}"),
        *(in_ms(part) for part in (*PARTS, "rest")),
        page="strategies.md",
    )
    chosen = {
        name: case for name, case in CASES.items() if not options.only or any(word in name for word in options.only)
    }
    times = {name: case.learn(2) and case.learn() for name, case in chosen.items()}
    parts = Parts()
    parts.measure()
    for name, case in chosen.items():
        parts.spent, parts.last = dict.fromkeys(parts.spent, 0.0), time.process_time()
        iterations, spent = times[name], len(case.learn())
        shares = (seconds / spent for seconds in parts.spent.values())
        table.add(name, len(iterations), statistics.median(iterations), sum(iterations), *shares)


if __name__ == "__main__":
    frame.start(measure, __doc__, *frame.comparing(3))
