"""A thousand answers in a row: how long the next question takes, whether memory grows, whether anything is lost.

    python benchmarks/interview.py [--only four-paths Taxi-v4] [--runs N] [--strangers N] [--docs]

Each environment is answered through a server of its own, over HTTP, at the pace that the server allows, forty requests
a second; people are slower. When an interview is over another begins, until there were enough answers. Time is from
sending an answer to having read the next question, picture included.

Then the same answers while strangers, who do not have the token, crowd the server from the same machine: connections
that say nothing and are opened again whenever they are closed, and requests, each on a connection of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import re
import signal
import socket
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

# How long to wait before looking again while the agent walks, in seconds; the page is told instead.
PAUSE = 0.05

# How long a crowd takes until it asks steadily, in seconds.
SETTLING = 2.0

# Longer corridors than usual, for longer interviews.
OPTIONS = {"four-paths": ("--set", "arm_length=40", "--set", "horizon=90")}


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
        while (shown := self.ask("view"))["phase"] in ("walking", "thinking"):
            time.sleep(PAUSE)
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
    from aceirl.experts.tasks import Source, gym_env

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


class Strangers:
    """Idle connections, and as many requests a second without the token, from a process of their own."""

    def __init__(self, port: int, number: int) -> None:
        spawning = multiprocessing.get_context("spawn")
        self.requests, self.idle = spawning.Value("l", 0), spawning.Value("l", 0)
        arguments = (port, number, self.requests, self.idle)
        self.process = spawning.Process(target=_crowd, args=arguments, daemon=True)
        self.process.start()
        while self.idle.value < 0.8 * number:
            time.sleep(0.1)
        time.sleep(SETTLING)

    def stop(self) -> None:
        """Leave, all of them."""
        self.process.terminate()
        self.process.join()


def _crowd(port: int, number: int, requests: Any, idle: Any) -> None:
    """Strangers until the process is ended; counts the answered requests and the idle connections."""
    asked = f"GET /{'x' * 32}/view HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()

    async def connected(say: bytes) -> int:
        """Connect, say something or nothing, and wait for an answer or for being sent away."""
        loop = asyncio.get_running_loop()
        with socket.socket() as connection:
            connection.setblocking(False)
            try:
                await loop.sock_connect(connection, ("127.0.0.1", port))
                idle.value += not say
                await loop.sock_sendall(connection, say)
                return b" 403 " in await loop.sock_recv(connection, 100)
            except OSError:
                return False
            finally:
                idle.value -= not say

    async def stay() -> None:
        while True:
            await connected(b"")
            await asyncio.sleep(1)

    async def request() -> None:
        answered = await connected(asked)
        requests.value += answered

    async def all_of_them() -> None:
        waiting = {asyncio.create_task(stay()) for _ in range(number)}
        began, sent = time.monotonic(), 0
        while True:
            due = int(number * (time.monotonic() - began))
            # Whoever has been waiting for a second is not joined by more.
            for _ in range(min(due - sent, 2 * number - len(waiting))):
                task = asyncio.create_task(request())
                waiting.add(task)
                task.add_done_callback(waiting.discard)
            sent = due
            await asyncio.sleep(0.01)

    asyncio.run(all_of_them())


class Figures:
    """Seconds of each answer, the server's memory after each, and what became of the answers."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.memory: list[list[float]] = []
        self.lost = 0
        self.requests_per_second = self.idle = 0.0


def interview(environment: str, seed: int, person: Person, figures: Figures, answers: int, crowd: int = 0) -> None:
    """One interview to its end, or until there are enough answers."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(environment, Path(folder), "--seed", str(seed), *OPTIONS.get(environment, ()))
        strangers = Strangers(server.port, crowd) if crowd else None
        began, before = time.perf_counter(), strangers.requests.value if strangers else 0
        client, given, memory = Client(server), 0, []
        while len(figures.seconds) < answers and (shown := client.ready())["phase"] == "asking":
            # Whoever is shown an episode says that they do not know, so that all situations are asked about.
            change: dict[str, Any] = {"turn": shown["turn"]}
            if shown["question"]["kind"] == "situation":
                client.ask("answer", change | {"action": person(shown)})
            else:
                client.ask("skip", change)
                continue
            figures.seconds.append(client.seconds)
            given += 1
            memory.append(memory_of(server.process.pid))
        if strangers:
            figures.requests_per_second = (strangers.requests.value - before) / (time.perf_counter() - began)
            figures.idle = strangers.idle.value
            strangers.stop()
        server.kill_and_restart()
        figures.lost += given - Client(server).ready()["progress"]["answers"]
        figures.memory.append(memory)
        server.stop(signal.SIGKILL)


def measured(environment: str, answers: int, table: frame.Table) -> None:
    """Add a row of figures."""
    figures, seed = figures_of(environment, answers)
    p50, p99, worst = (1e3 * float(np.quantile(figures.seconds, q)) for q in (0.5, 0.99, 1.0))
    longest = max(figures.memory, key=len)
    third = len(longest) // 3
    early, late = float(np.median(longest[third : third + 30])), float(np.median(longest[-30:]))
    table.add(environment, len(figures.seconds), seed, p50, p99, worst, early, late, late / early, figures.lost)


def figures_of(environment: str, answers: int, crowd: int = 0) -> tuple[Figures, int]:
    """So many answers, and how many interviews it took; `crowd` strangers meanwhile."""
    person = upward if environment == "four-paths" else taxi_driver(environment)
    figures, seed = Figures(), 0
    while len(figures.seconds) < answers:
        interview(environment, seed, person, figures, answers, crowd)
        seed += 1
    return figures, seed


def measured_among_strangers(environment: str, answers: int, crowd: int, table: frame.Table) -> None:
    """Add a row of figures. A request that is refused ends the benchmark, so there is no column for them."""
    figures, _ = figures_of(environment, answers, crowd)
    p50, p99, worst = (1e3 * float(np.quantile(figures.seconds, q)) for q in (0.5, 0.99, 1.0))
    table.add(environment, figures.idle, figures.requests_per_second, len(figures.seconds), p50, p99, worst)


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
    if not options.strangers:
        return
    table = report.table(
        "interview-strangers",
        frame.Column("environment"),
        frame.number("idle connections", "{:,.0f}"),
        frame.number("requests without the token, per second", "{:,.0f}"),
        frame.number("answers, none refused"),
        frame.number("p50, ms", "{:.1f}"),
        frame.number("p99, ms", "{:.1f}"),
        frame.number("slowest, ms", "{:.1f}"),
        page="interview.md",
    )
    for environment in options.only:
        measured_among_strangers(environment, options.runs, options.strangers, table)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--only", nargs="+", metavar="ENVIRONMENT", default=["four-paths", "Taxi-v4"]),
        frame.argument("--runs", type=int, default=1000, help="answers in each environment"),
        frame.argument("--strangers", type=int, default=1000, help="idle connections, and requests a second"),
    )
