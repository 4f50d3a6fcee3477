"""Who may talk to the interview: only a browser that was given the address, on this machine unless told otherwise.

Whoever shows a token keeps the connection; strangers get little room, time and work.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import hmac
import ipaddress
import re
import secrets
import socket
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from aceirl.errors import InputError
from aceirl.runs.files import disk, replace
from aceirl.web.early import BACKLOG

TOKEN_FILE, REDIRECT_FILE = "token", "open.html"
TOKEN_LENGTH = 32
MAX_BODY = 4096
REQUESTS_PER_SECOND, BURST = 40.0, 120.0

# Who asks more often waits so long for the refusal, in seconds: to refuse takes time too, and there are only so many
# connections.
PENANCE = 0.5

MAX_CLIENTS = 256

# How many connections there may be that have not shown the token, and how long each may be without it, in seconds.
ROOM, PATIENCE = 1024, 10.0

# How many connections there may be to one person's pages; a browser has about six, and so does every tab of it.
OWN_ROOM = 32

# How many connections may be opened to them a second, and in a row: to let somebody in takes time.
ENTRIES_PER_SECOND, ENTRIES_IN_A_ROW = 20.0, 64.0

# So many bytes a request has at most, and what is sent to one person and not read yet; a film has about two million.
LONGEST_REQUEST, MOST_UNREAD = 32_768, 16_000_000

# How many files the process should be allowed to have open, connections included, and how many it needs for itself.
DESCRIPTORS, OWN_DESCRIPTORS = 2048, 64

# asyncio leaves a closed connection in a cycle, for the garbage collector. Those of so many strangers are collected at
# a time: who answers has to wait if there are more.
COLLECTED = 500

# So many bytes show the token, or never will.
LONGEST_OPENING = 256

HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


NO_TOKEN = "the address lacks the right token; use the one that was printed when the interview was started"

TOO_MANY = 429, "too many requests"

GONE_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>This address does not work</title></head>
<body><main><h1>This address does not work</h1>
<p>It does not belong to an interview, or not any more. If you started the interview, use the address that was
printed then. If you were invited, ask whoever sent you the link for another one.</p></main></body></html>
"""


def refusal(*, to_a_reader: bool = False) -> bytes:
    """The whole response to a request without the token; `to_a_reader` one to read."""
    content, kind = bytes(JSONResponse({"error": NO_TOKEN}).body), "application/json"
    if to_a_reader:
        content, kind = GONE_PAGE.encode(), "text/html; charset=utf-8"
    headers = HEADERS | {"content-type": kind, "connection": "close", "content-length": str(len(content))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 403 Forbidden\r\n{head}\r\n".encode() + content


def new_token() -> str:
    """A secret that nobody can guess."""
    return secrets.token_urlsafe(TOKEN_LENGTH * 3 // 4)


def is_token(text: str) -> bool:
    """Whether a text has the form of a token."""
    return re.fullmatch(rf"[\w-]{{{TOKEN_LENGTH}}}", text, re.ASCII) is not None


def lasting_token(folder: Path, fresh: str | None = None) -> str:
    """A secret in an address: kept with the interview, so that an open page works after a restart.

    If there is none yet it is drawn, or `fresh`.
    """
    path = folder / TOKEN_FILE
    if path.exists():
        kept = path.read_text(errors="replace").strip()
        if is_token(kept):
            return kept
    token = fresh or new_token()
    with disk(path):
        replace(path, token.encode(), private=True)
    return token


def redirecting_file(folder: Path, url: str) -> Path:
    """A page on disk that leads a browser to the interview, and that nobody else can read."""
    path, page = folder / REDIRECT_FILE, f'<meta http-equiv="refresh" content="0; url={url}"><a href="{url}">{url}</a>'
    with disk(path):
        replace(path, page.encode(), private=True)
    return path


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Tokens:
    """What each token opens. All are of one length, and there may be more while the server runs."""

    def __init__(self) -> None:
        self._apps: dict[bytes, ASGIApp] = {}

    def add(self, token: str, app: ASGIApp) -> None:
        """From now on the token opens the application."""
        if len(token) != TOKEN_LENGTH:
            raise ValueError(f"a token has {TOKEN_LENGTH} characters, not {len(token)}")
        self._apps[token.encode()] = app

    def remove(self, token: str) -> None:
        """From now on the token opens nothing."""
        self._apps.pop(token.encode(), None)

    def opened(self, given: bytes) -> ASGIApp | None:
        """The application of a token, None if there is none. How long that takes says nothing about the others."""
        found = None
        for token, app in self._apps.items():
            if hmac.compare_digest(given, token):
                found = app
        return found


@dataclass(frozen=True)
class Reach:
    """The hosts under which the server can be reached, none of which anybody can point elsewhere (DNS rebinding).

    These are the loopback names; if it is `public`, open to the network, any literal address and this machine's own
    name; and the `url` that was said to lead here: a tunnel, a mapped port, a name in the local network.
    """

    port: int
    public: bool = False
    url: str | None = None

    def is_own(self, host: str) -> bool:
        """Whether a Host header names this server."""
        if self._leads_here(host):
            return True
        name, _, port = host.rpartition(":")
        if port != str(self.port) or not (self.public or is_loopback(name)):
            return False
        if is_loopback(name):
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name.lower() == socket.gethostname().lower()
        return True

    def is_origin(self, origin: str, host: str) -> bool:
        """Whether a page of that origin is the server's own; a tunnel may pass on another host than its own."""
        return origin == self.url or (origin == f"http://{host}" and not self._leads_here(host))

    def _leads_here(self, host: str) -> bool:
        """Whether a Host header is that of the URL."""
        return self.url is not None and _with_port(host.lower(), self.url) == _with_port(self.url, self.url)


def _with_port(address: str, url: str) -> str:
    """The host and the port of an address, which is that of the URL's scheme if it has none."""
    host = address.rpartition("/")[2]
    return host if re.search(r":\d+$", host) else f"{host}:{443 if url.startswith('https:') else 80}"


def origin_of(url: str) -> str:
    """The origin of an address as a browser writes it; it is an error if the address has more than that."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise InputError(f"--url {url!r} is not an address: {error}") from None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not re.fullmatch(r"[\w.:-]+", parts.hostname, re.ASCII)
    ):
        raise InputError(f"--url must be an address such as https://name.example or http://name:9000, got {url!r}")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
        raise InputError(f"--url must have nothing after its host and port, got {url!r}")
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{name}" + ("" if port in (None, usual) else f":{port}")


def reachable_address(bound: str) -> str:
    """An address that others can open, for one the server is bound to: of all of them, the one that leads outside."""
    if not ipaddress.ip_address(bound).is_unspecified:
        return f"[{bound}]" if ":" in bound else bound
    family, elsewhere = (socket.AF_INET6, "2001:db8::1") if ":" in bound else (socket.AF_INET, "192.0.2.1")
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((elsewhere, 9))  # nothing is sent: it only chooses a way
        except OSError:
            return socket.gethostname()
        return reachable_address(asking.getsockname()[0])


class Allowance:
    """A bucket of requests for each client, refilled steadily; only the latest clients are remembered."""

    def __init__(self, per_second: float, burst: float) -> None:
        self.per_second, self.burst = per_second, burst
        self.left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str = "") -> bool:
        """Whether a client may ask once more."""
        now = monotonic()
        left, before = self.left.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - before) * self.per_second)
        self.left[client] = (max(0.0, left - 1), now)
        if len(self.left) > MAX_CLIENTS:
            self.left.popitem(last=False)
        return left >= 1


class Guard:
    """Refuses every request that is not from the page itself, before anything else looks at it.

    The host must be one of the server's own. The first part of the path is a token, and says which page is meant. A
    change must come from the page's own origin, as JSON, and be small. `lifespan` is told when the server starts and
    stops.
    """

    def __init__(self, tokens: Tokens, reach: Reach, lifespan: ASGIApp) -> None:
        self.tokens, self.reach, self.lifespan = tokens, reach, lifespan
        self.allowance = Allowance(REQUESTS_PER_SECOND, BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.lifespan(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        send, refusal = _with_headers(send), self._refusal(scope, Headers(scope=scope))
        if refusal is None and scope["method"] not in ("GET", "HEAD"):
            body = await _small_body(receive)
            if body is None:
                refusal = (413, "the request is too large")
            else:
                receive = _replayed(body)
        if refusal is TOO_MANY:
            await asyncio.sleep(PENANCE)
        if refusal is not None:
            reads = refusal[1] is NO_TOKEN and "text/html" in Headers(scope=scope).get("accept", "")
            said: Response = HTMLResponse(GONE_PAGE) if reads else JSONResponse({"error": refusal[1]})
            said.status_code = refusal[0]
            await said(scope, receive, send)
            return
        token, slash, rest = scope["path"][1:].partition("/")
        if not slash:  # the page's own requests are relative to the address with it
            await RedirectResponse(f"/{token}/", status_code=308)(scope, receive, send)
            return
        app = self.tokens.opened(token.encode())
        assert app is not None
        await app({**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if not self.reach.is_own(headers.get("host", "")):
            return 421, "this host name is not served here; if people come by it, start with --url and their address"
        given = scope["path"][1:].partition("/")[0]
        if self.tokens.opened(given.encode()) is None:
            return 403, NO_TOKEN
        # Only now: requests without the token must not use up what the person may send. Through a tunnel all people
        # come from one address.
        if not self.allowance.take(f"{scope['client'][0] if scope.get('client') else ''} {given}"):
            return TOO_MANY
        if scope["method"] in ("GET", "HEAD"):
            return None
        origin = headers.get("origin")
        elsewhere = origin is not None and not self.reach.is_origin(origin, headers["host"])
        if elsewhere or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "changes are accepted from the interview's own page only"
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "changes must be sent as application/json"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return 413, "the request is too large"
        return None


async def _small_body(receive: Receive) -> bytes | None:
    """The body of a request, whatever it says of its length; None if it is too large."""
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return body


def _replayed(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


class Door(asyncio.Protocol):
    """Where a connection waits until its first request shows a token; then it is let in to the web server.

    Who shows another one is refused, by a page if the request asks for one, and nobody spends time on understanding it.
    Who shows none is sent away after a while, and sooner if there are too many such; who comes too often, at once.
    """

    tokens: ClassVar[Tokens]
    refused: ClassVar[bytes] = refusal()
    refused_page: ClassVar[bytes] = refusal(to_a_reader=True)
    room: ClassVar[int]
    strangers: ClassVar[dict[Door, asyncio.TimerHandle]]
    guests: ClassVar[dict[bytes, dict[Inside, None]]]
    entries: ClassVar[Allowance]
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
            self.transport.write(self.refused_page if b"text/html" in self.opening else self.refused)
            self.transport.close()
            return
        if not self.entries.take(shown.decode()):
            self.transport.abort()
            return
        inside = Inside(self.guests.setdefault(shown, {}), **self.server)
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


class Inside(H11Protocol):
    """A connection that has shown a token. A request has to be sent whole within a while, after the last answer was
    read, and neither be large nor come in chunks: each of these costs time, and no browser sends them. `others` are
    those of the same token: if there are too many, or too much is not read, the one that came first has to go."""

    def __init__(self, others: dict[Inside, None], **server: Any) -> None:
        super().__init__(**server)
        self.others, self._end = others, None  # type: dict[Inside, None], asyncio.TimerHandle | None
        self._length = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room."""
        super().connection_made(transport)
        self.others[self] = None
        if len(self.others) > OWN_ROOM:
            next(iter(self.others)).drop()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request, but not for ever."""
        self._length += len(data)
        if self._length > LONGEST_REQUEST or self.flow.write_paused or not self._is_plain(data):
            self.drop()
            return
        super().data_received(data)
        if self.conn.their_state is h11.DONE and self.conn.trailing_data[0]:
            self.drop()
            return
        unfinished = self.conn.their_state is h11.SEND_BODY or (
            self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        )
        if not unfinished:
            self._stop_waiting()
            self._length = 0
        elif self._end is None:
            self._end = asyncio.get_running_loop().call_later(PATIENCE, self.drop)

    def _is_plain(self, data: bytes) -> bool:
        """Whether what comes is due now, and does not come in chunks."""
        if self.conn.their_state is not h11.IDLE:
            return self.conn.their_state is h11.SEND_BODY
        head = (self.conn.trailing_data[0] + data).partition(b"\r\n\r\n")[0]
        return b"transfer-encoding" not in head.lower()

    def pause_writing(self) -> None:
        """The person does not read what they asked for, or slowly."""
        super().pause_writing()
        while sum(one.transport.get_write_buffer_size() for one in self.others) > MOST_UNREAD:
            next(one for one in self.others if one.transport.get_write_buffer_size()).drop()

    def drop(self) -> None:
        """End the connection at once, whatever is under way."""
        self.others.pop(self, None)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has gone."""
        self._stop_waiting()
        self.others.pop(self, None)
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


def door(tokens: Tokens) -> type[Door]:
    """The door of one server."""
    own = {"entries": Allowance(ENTRIES_PER_SECOND, ENTRIES_IN_A_ROW), "strangers": {}, "guests": {}}
    return type("OwnDoor", (Door,), {"tokens": tokens, "room": _room(), **own})


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
