"""Connections to the interview: whoever shows the token keeps theirs, strangers get little room, time and work."""

from __future__ import annotations

import asyncio
import errno
import gc
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from aceirl.web.security import TOKEN_LENGTH, Tokens

# How many connections there may be that have not shown the token, and how long each may be without it, in seconds.
ROOM, PATIENCE = 1024, 10.0

# How many connections may wait to be accepted; they are accepted all at once.
BACKLOG = 128

# How many files the process should be allowed to have open, connections included, and how many it needs for itself.
DESCRIPTORS, OWN_DESCRIPTORS = 2048, 64

# asyncio leaves a closed connection in a cycle, for the garbage collector. Those of so many strangers are collected at
# a time: who answers has to wait if there are more.
COLLECTED = 500

# So many bytes show the token, or never will.
LONGEST_OPENING = 256


class Door(asyncio.Protocol):
    """Where a connection waits until its first request shows a token; then it is let in to the web server.

    Who shows another one is given the `refusal`, and nobody spends time on understanding the request. Who shows none is
    sent away after a while, and sooner if there are too many such.
    """

    tokens: ClassVar[Tokens]
    refusal: ClassVar[bytes]
    room: ClassVar[int]
    strangers: ClassVar[dict[Door, asyncio.TimerHandle]]
    gone: ClassVar[int] = 0

    def __init__(self, **server: Any) -> None:
        self.server, self.connections = server, server["server_state"].connections
        self.opening = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait; if there are too many strangers, the one who came first has to go."""
        self.transport = cast(asyncio.Transport, transport)
        self.strangers[self] = asyncio.get_running_loop().call_later(PATIENCE, self.shutdown)
        self.connections.add(self)
        if len(self.strangers) > self.room:
            first = next(iter(self.strangers))
            first.leave()
            first.shutdown()

    def data_received(self, data: bytes) -> None:
        """Let in whoever shows a token at the beginning of the path."""
        self.opening += data
        shown = self.opening.partition(b" /")[2][:TOKEN_LENGTH]
        if len(shown) < TOKEN_LENGTH and b"\n" not in self.opening and len(self.opening) < LONGEST_OPENING:
            return
        self.leave()
        if self.tokens.opened(shown) is None:
            self.transport.write(self.refusal)
            self.transport.close()
            return
        inside = H11Protocol(**self.server)
        self.transport.set_protocol(inside)
        inside.connection_made(self.transport)
        inside.data_received(self.opening)

    def connection_lost(self, exc: Exception | None) -> None:
        """The stranger has gone."""
        self.leave()
        own = type(self)
        own.gone += 1
        if own.gone % COLLECTED == 0:
            gc.collect()

    def leave(self) -> None:
        """A stranger no more."""
        self.connections.discard(self)
        end = self.strangers.pop(self, None)
        if end is not None:
            end.cancel()

    def shutdown(self) -> None:
        """Send the stranger away; also called when the server stops."""
        self.transport.abort()


def door(tokens: Tokens, refusal: bytes) -> type[Door]:
    """The door of one server."""
    return type("OwnDoor", (Door,), {"tokens": tokens, "refusal": refusal, "room": _room(), "strangers": {}})


def _room() -> int:
    """Ask for as many open files as connections may need, and give strangers less room where that is refused."""
    try:
        import resource
    except ImportError:  # not on this system
        return ROOM
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= DESCRIPTORS:
        return ROOM
    limit = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    # Those who have to go are gone only after the next have been accepted.
    return max(1, min(ROOM, limit - OWN_DESCRIPTORS - 2 * BACKLOG))


def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Without descriptors the loop stops accepting for a second, by itself; a hundred messages about it help nobody."""
    if getattr(context.get("exception"), "errno", None) not in (errno.EMFILE, errno.ENFILE):
        loop.default_exception_handler(context)
