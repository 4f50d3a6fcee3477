"""A thousand answers in a row: how long the next question takes, whether memory grows, whether anything is lost.

    python benchmarks/interview.py four-paths Taxi-v4

Each environment is answered through a server of its own, over HTTP, at the pace that the server allows, forty requests
a second; people are slower. When an interview is over some answers are taken back one by one and given again, until
there were a thousand. Time is from sending an answer to having read the next question, picture included.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))

from browsing import Server

Person = Callable[[dict[str, Any]], int]

ANSWERS = 1000
PACE = 1 / 38
UNDONE_AT_THE_END = 12


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
    from aceirl.tasks import Source, gym_env

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


def measure(environment: str) -> None:
    """Print one line of figures."""
    person = upward if environment == "four-paths" else taxi_driver(environment)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(environment, Path(folder))
        client = Client(server)
        times: list[float] = []
        memory: list[float] = []
        net = 0
        while len(times) < ANSWERS:
            shown = client.ready()
            if shown["phase"] != "asking":
                for _ in range(min(UNDONE_AT_THE_END, shown["progress"]["answers"])):
                    shown = client.ask("undo", {"turn": client.ready()["turn"]})
                    net -= 1
                continue
            client.ask("answer", {"turn": shown["turn"], "action": person(shown)})
            times.append(client.seconds)
            net += 1
            memory.append(memory_of(server.process.pid))
        counted = client.ready()["progress"]["answers"]
        server.kill_and_restart()
        again = Client(server).ready()["progress"]["answers"]
        server.stop(signal.SIGKILL)
    p50, p99, worst = (1e3 * np.quantile(times, q) for q in (0.5, 0.99, 1.0))
    early, late = np.median(memory[300:400]), np.median(memory[-100:])
    print(
        f"{environment:14} {len(times)} answers  p50 {p50:.1f} ms  p99 {p99:.1f} ms  worst {worst:.1f} ms  "
        f"memory {early:.0f} MB at 350, {late:.0f} MB at 950 (ratio {late / early:.3f})  "
        f"expected {net}, counted {counted}, after kill -9 {again}"
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or ["four-paths", "Taxi-v4"]:
        measure(name)
