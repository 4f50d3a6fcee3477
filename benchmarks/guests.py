"""What a guest can cost the host: answers of the host while a guest does the worst that its page allows, and memory.

    python benchmarks/guests.py [--runs SECONDS]

The host's requests are timed from sending to having read. Memory is the server's, beyond what it had before.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import _frame as frame
import numpy as np

from studies.serving import Server

ENVIRONMENT = "FrozenLake-v1"

# How many requests a guest sends a second, more than the server allows, how many it leaves unfinished, and how many
# connections it has if it wants many.
PACE, UNFINISHED, CONNECTIONS = 60, 2_000, 40


class Visitor:
    """Requests to the pages of one token."""

    def __init__(self, server: Server, token: str) -> None:
        self.port, self.base = server.port, f"/{token}/"
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(self, path: str, **body: object) -> tuple[int, dict[str, object]]:
        """The status and the content, if it is JSON; a change if there is a body."""
        sent = json.dumps(body) if body else None
        headers = {"Content-Type": "application/json"}
        self.connection.request("POST" if body else "GET", self.base + path, sent, headers)
        response = self.connection.getresponse()
        content = response.read()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(content) if is_json else {}


def memory_of(process: int) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def asking(path: Callable[[int], str]) -> Callable[[Visitor, threading.Event], None]:
    """Ask for something again and again, faster than is allowed."""

    def attack(guest: Visitor, over: threading.Event) -> None:
        number = 0
        while not over.is_set():
            guest.ask(path(number))
            number += 1
            time.sleep(1 / PACE)

    return attack


def long_episodes(guest: Visitor, over: threading.Event) -> None:
    """The longest episodes there can be, another length each time, and all that is refused."""
    number = 0
    while not over.is_set():
        _, shown = guest.ask("view")
        for horizon in (10**9, 5 * 10**6, 1_000 - number % 500):
            guest.ask("adjust", turn=shown.get("turn", 0), epsilon=0.001, delta=0.001, horizon=horizon)
        number += 1
        time.sleep(1 / PACE)


def changes(guest: Visitor, over: threading.Event) -> None:
    """All that has everything computed again: answers, modes, ends, taking back and starting anew."""
    said: list[tuple[str, dict[str, object]]] = [
        ("answer", {"action": 1}),
        ("mode", {"mode": "compare"}),
        ("finish", {}),
        ("go_on", {}),
        ("undo", {}),
        ("mode", {"mode": "ask"}),
        ("start_again", {}),
    ]
    for kind, body in cycle(said):
        if over.is_set():
            return
        _, shown = guest.ask("view")
        guest.ask(kind, turn=shown.get("turn", 0), **body)
        time.sleep(1 / PACE)


def more_questions(guest: Visitor, over: threading.Event) -> None:
    """Ends, each worked out, after which more questions are asked for: the agent looks around for them."""
    while not over.is_set():
        _, shown = guest.ask("view")
        outcome = shown.get("outcome")
        if shown.get("phase") == "asking":
            guest.ask("answer", turn=shown["turn"], action=1)
            guest.ask("finish", turn=int(str(shown["turn"])) + 1)
        elif isinstance(outcome, dict):
            guest.ask("more" if outcome["wish"]["more"] else "start_again", turn=shown["turn"])
        time.sleep(1 / PACE)


def unfinished(guest: Visitor, over: threading.Event) -> None:
    """Requests that are begun with the token and never finished."""
    with ExitStack() as opened:
        for _ in range(UNFINISHED):
            if over.is_set():
                return
            try:
                begun = opened.enter_context(socket.create_connection(("127.0.0.1", guest.port), timeout=10))
                begun.sendall(f"GET {guest.base}view HTTP/1.1\r\nHost: 127.0.0.1:{guest.port}\r\n".encode())
            except OSError:
                time.sleep(0.01)
        over.wait()


def long_interview(guest: Visitor, over: threading.Event) -> None:
    """As many answers as can be given, and some taken back in between: all is computed anew each time."""
    _, shown = guest.ask("view")
    guest.ask("mode", turn=shown["turn"], mode="play")
    for number in cycle(range(100)):
        if over.is_set():
            return
        _, shown = guest.ask("view")
        if shown.get("phase") == "done":
            guest.ask("go_on", turn=shown["turn"])
        kind, body = ("undo", {}) if number % 8 == 7 else ("answer", {"action": number * 7 // 3 % 4})
        guest.ask(kind, turn=shown.get("turn", 0), **body)
        time.sleep(1 / PACE)


def long_walks(guest: Visitor, over: threading.Event) -> None:
    """Episodes as long as they can be, in which the agent walks on its own, and more of them whenever it is done."""
    _, shown = guest.ask("view")
    guest.ask("adjust", turn=shown["turn"], epsilon=0.001, delta=0.001, horizon=1_000)
    while not over.is_set():
        _, shown = guest.ask("view")
        if shown.get("phase") == "asking":
            guest.ask("answer", turn=shown["turn"], action=0)
        elif shown.get("phase") in ("done", "thinking"):
            guest.ask("finish", turn=shown["turn"])
            guest.ask("go_on", turn=int(str(shown["turn"])) + 1)
        time.sleep(1 / PACE)


def names(guest: Visitor, over: threading.Event) -> None:
    """Another name each time: each is written to the disk."""
    number = 0
    while not over.is_set():
        guest.ask("name", name=f"Guest {number % 1000}")
        number += 1
        time.sleep(1 / PACE)


def sending(content: Callable[[Visitor], bytes], reads: bool = True) -> Callable[[Visitor, threading.Event], None]:
    """Send something on many connections, as fast as it is taken if the answers are read, or once on each."""

    def attack(guest: Visitor, over: threading.Event) -> None:
        sent, opened = content(guest), dict[int, socket.socket]()
        while not over.is_set():
            for number in range(CONNECTIONS):
                try:
                    if number not in opened:
                        opened[number] = socket.create_connection(("127.0.0.1", guest.port), timeout=10)
                        opened[number].setblocking(False)
                    elif not reads:
                        continue
                    opened[number].send(sent)
                    while reads and opened[number].recv(1 << 16):
                        pass
                except BlockingIOError:
                    pass
                except OSError:
                    opened.pop(number).close()
            time.sleep(1e-3)
        for connection in opened.values():
            connection.close()

    return attack


def request(guest: Visitor, path: str, *headers: str, body: bytes = b"") -> bytes:
    """The bytes of a request."""
    kind = "POST" if body else "GET"
    lines = [f"{kind} {guest.base}{path} HTTP/1.1", f"Host: 127.0.0.1:{guest.port}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def in_small_chunks(guest: Visitor) -> bytes:
    """A body that comes in tens of thousands of pieces at once."""
    headers = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    return request(guest, "answer", *headers, body=b"1\r\n \r\n" * 30_000)


ATTACKS: dict[str, Callable[[Visitor, threading.Event], None]] = {
    "nothing": lambda guest, over: None,
    "long episodes": long_episodes,
    "films": asking(lambda number: f"film?number={number % 1000}"),
    "tries": asking(lambda number: f"try?number={number % 1000}&actions=" + ".".join("0123" * 7)),
    "maps": asking(lambda number: "panels"),
    "changes": changes,
    "more questions": more_questions,
    "everybody's answers": asking(lambda number: "people.json"),
    "unfinished requests": unfinished,
    "a long interview": long_interview,
    "long walks": long_walks,
    "names": names,
    "downloads": asking(lambda number: "everything.zip"),
    "requests as fast as possible": sending(lambda guest: request(guest, "view")),
    "many requests at once": sending(lambda guest: 1_000 * request(guest, "view")),
    "a body in small chunks": sending(in_small_chunks),
    "films that are not read": sending(
        lambda guest: request(guest, "try?actions=" + ".".join("0123" * 7)), reads=False
    ),
}


def under(name: str, seconds: float) -> tuple[int, float, float, float, float]:
    """How many answers the host got, how long they took in ms (median, 99 %, slowest), and the memory beyond before."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(ENVIRONMENT, Path(folder) / "host")
        try:
            host = Visitor(server, server.url.rstrip("/").rpartition("/")[2])
            _, shown = host.ask("people.json")
            invitation = Visitor(server, shown["host"]["links"][0]["token"])  # type: ignore[index]
            _, joined = invitation.ask("join", name="Guest")
            guest = Visitor(server, str(joined["address"]).strip("/"))
            guest.ask("view")
            time.sleep(3)
            before, most, over = memory_of(server.process.pid), 0.0, threading.Event()
            attacking = threading.Thread(target=ATTACKS[name], args=(guest, over))
            attacking.start()
            times: list[float] = []
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                began = time.perf_counter()
                status, _ = host.ask("view")
                times.append(1e3 * (time.perf_counter() - began))
                assert status == 200, status
                most = max(most, memory_of(server.process.pid) - before)
                time.sleep(0.05)
            assert attacking.is_alive() or name == "nothing", f"{name}: the attack broke off"
            over.set()
            attacking.join(timeout=30)
        finally:
            server.stop(signal.SIGKILL)
    p50, p99, worst = (float(np.quantile(times, share)) for share in (0.5, 0.99, 1.0))
    return len(times), p50, p99, worst, most


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A row for each thing that a guest may do."""
    table = report.table(
        "guests",
        frame.Column("the guest"),
        frame.number("answers to the host"),
        frame.number("p50, ms", "{:.1f}"),
        frame.number("p99, ms", "{:.1f}"),
        frame.number("slowest, ms", "{:.1f}"),
        frame.number("MB more", "{:.0f}"),
        page="interview.md",
    )
    for name in ATTACKS:
        table.add(name, *under(name, options.runs))


if __name__ == "__main__":
    frame.start(measure, __doc__, frame.argument("--runs", type=float, default=30.0, help="seconds of each attack"))
