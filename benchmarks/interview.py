"""A thousand answers in a row: how long the next question takes, whether memory grows, whether anything is lost.

    python benchmarks/interview.py [--only four-paths Taxi-v4] [--runs N]

Each environment is answered through a server of its own, over HTTP, at the pace that the server allows, forty requests
a second; people are slower. When a long interview is over another begins; in a short one some answers are taken back
one by one and given again, until there were enough. Time is from sending an answer to having read the next
question, picture included.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np

from studies.serving import Server

Person = Callable[[dict[str, Any]], int]

PACE = 1 / 38
UNDONE_AT_THE_END = 12
LONG_INTERVIEW = 100


class Client:
    """The page's requests, without a page."""

    def __init__(self, server: Server) -> None:
        self.base = server.url.split(str(server.port))[1]
        self.last = self.seconds = 0.0
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request; a change if it has a body. Never more than the server allows."""
        time.sleep(max(0.0, self.last + PACE - time.perf_counter()))
        self.last = began = time.perf_counter()
        method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        self.connection.request(method, self.base + path, sent, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        content = response.read()
        self.seconds = time.perf_counter() - began
        assert response.status == 200, (response.status, content)
        answer: dict[str, Any] = json.loads(content)
        return answer

    def ready(self) -> dict[str, Any]:
        """What is shown once the agent has stopped walking."""
        while (shown := self.ask("view"))["phase"] == "walking":
            pass
        return shown


def memory_of(process: int) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def upward(shown: dict[str, Any]) -> int:
    """Someone who wants to get to the end of the upper corridor of Four Paths."""
    return {"left": 2, "right": 0}.get(shown["question"]["where"].split()[1], 1)


def taxi_driver(name: str) -> Person:
    """Someone who knows the way."""
    from aceirl.envs.truth import exact_model
    from aceirl.sources import Source, gym_env

    env = gym_env(Source(name, {}, seed=0))
    model = exact_model(env, 200, 6)
    best = model.stationary_expert()
    colours = ["red", "green", "yellow", "blue"]

    def answer(shown: dict[str, Any]) -> int:
        where = shown["question"]["where"]
        row, column = (int(number) - 1 for number in re.findall(r"\d+", where))
        stands = [colours.index(colour) for colour in re.findall(r"the (\w+) stand", where)]
        passenger, destination = stands if len(stands) == 2 else (4, stands[0])
        observation = env.unwrapped.encode(row, column, passenger, destination)  # type: ignore[attr-defined]
        return int(best[model.states.find(observation)])

    return answer


class Figures:
    """Seconds of each answer, the server's memory after each, and what became of the answers."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.memory: list[list[float]] = []
        self.lost = 0


def interview(environment: str, seed: int, person: Person, figures: Figures, answers: int) -> None:
    """One interview to its end; a short one goes on by taking answers back and giving them again."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(environment, Path(folder), "--seed", str(seed))
        client, given, memory = Client(server), 0, []
        while len(figures.seconds) < answers:
            shown = client.ready()
            if shown["phase"] == "asking":
                client.ask("answer", {"turn": shown["turn"], "action": person(shown)})
                figures.seconds.append(client.seconds)
                given += 1
                memory.append(memory_of(server.process.pid))
            elif given > LONG_INTERVIEW:
                break
            else:
                for _ in range(UNDONE_AT_THE_END):
                    client.ask("undo", {"turn": client.ready()["turn"]})
                    given -= 1
        server.kill_and_restart()
        figures.lost += given - Client(server).ready()["progress"]["answers"]
        figures.memory.append(memory)
        server.stop(signal.SIGKILL)


def measured(environment: str, answers: int, table: frame.Table) -> None:
    """Add a row of figures."""
    person = upward if environment == "four-paths" else taxi_driver(environment)
    figures, seed = Figures(), 0
    while len(figures.seconds) < answers:
        interview(environment, seed, person, figures, answers)
        seed += 1
    p50, p99, worst = (1e3 * float(np.quantile(figures.seconds, q)) for q in (0.5, 0.99, 1.0))
    longest = max(figures.memory, key=len)
    third = len(longest) // 3
    early, late = float(np.median(longest[third : third + 30])), float(np.median(longest[-30:]))
    table.add(environment, len(figures.seconds), seed, p50, p99, worst, early, late, late / early, figures.lost)


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A row for each environment."""
    table = report.table(
        "interview",
        frame.Column("environment"),
        frame.number("answers"),
        frame.number("interviews"),
        frame.number("p50, ms", "{:.1f}"),
        frame.number("p99, ms", "{:.1f}"),
        frame.number("slowest, ms", "{:.1f}"),
        frame.number("MB after a third", "{:.0f}"),
        frame.number("MB at the end", "{:.0f}"),
        frame.number("ratio", "{:.3f}"),
        frame.number("lost after kill -9"),
    )
    for environment in options.only:
        measured(environment, options.runs, table)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--only", nargs="+", metavar="ENVIRONMENT", default=["four-paths", "Taxi-v4"]),
        frame.argument("--runs", type=int, default=1000, help="answers in each environment"),
    )
