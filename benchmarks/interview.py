"""A thousand answers in a row: how long the next question takes, whether memory grows, whether anything is lost.

    python benchmarks/interview.py four-paths Taxi-v4

Each environment is answered through a server of its own, over HTTP, at no more than thirty answers a second: people are
slower, and the server refuses whoever is much faster. When an interview is over some answers are taken back one by one
and given again, until there were a thousand. Time is from sending an answer to having read the next question, picture
included.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))

from browsing import Server

ANSWERS = 1000
PACE = 1 / 30
UNDONE_AT_THE_END = 12


class Client:
    """The page's requests, without a page."""

    def __init__(self, server: Server) -> None:
        self.base = server.url.split(str(server.port))[1]
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request; a change if it has a body."""
        method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        self.connection.request(method, self.base + path, sent, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        content = response.read()
        assert response.status == 200, (response.status, content)
        answer: dict[str, Any] = json.loads(content)
        return answer

    def ready(self) -> dict[str, Any]:
        """What is shown once the agent has stopped walking."""
        while (shown := self.ask("view"))["phase"] in ("walking", "thinking"):
            time.sleep(0.1)
        return shown


def memory_of(process: int) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def choice(environment: str, shown: dict[str, Any]) -> int:
    """Someone who wants to go up in Four Paths; elsewhere, someone with odd wishes."""
    where, state = shown["question"]["where"], shown["question"]["state"]
    if environment == "four-paths":
        return {"left": 2, "right": 0}.get(where.split()[1], 1)
    return int(state * 7 % 4)


def measure(environment: str, options: tuple[str, ...]) -> None:
    """Print one line of figures."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(environment, Path(folder), *options)
        client = Client(server)
        times: list[float] = []
        memory: list[float] = []
        net = 0
        while len(times) < ANSWERS:
            shown = client.ready()
            if shown["phase"] == "done":
                for _ in range(min(UNDONE_AT_THE_END, shown["progress"]["answers"])):
                    shown = client.ask("undo", {"turn": client.ready()["turn"]})
                    net -= 1
                continue
            began = time.perf_counter()
            client.ask("answer", {"turn": shown["turn"], "action": choice(environment, shown)})
            times.append(time.perf_counter() - began)
            net += 1
            memory.append(memory_of(server.process.pid))
            time.sleep(max(0.0, PACE - times[-1]))
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
        measure(name, ("--set", "arm_length=10") if name == "four-paths" else ())
