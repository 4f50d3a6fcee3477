"""Who may talk to the interview: only a browser that was given the address, on this machine unless told otherwise."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections import OrderedDict
from pathlib import Path
from time import monotonic

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aceirl.files import disk, replace

TOKEN_FILE, REDIRECT_FILE = "token", "open.html"
MAX_BODY = 4096
REQUESTS_PER_SECOND, BURST = 40.0, 120.0
MAX_CLIENTS = 256

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


def refusal() -> bytes:
    """The whole response to a request without the token."""
    content = JSONResponse({"error": NO_TOKEN}).body
    headers = HEADERS | {"content-type": "application/json", "connection": "close", "content-length": str(len(content))}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 403 Forbidden\r\n{head}\r\n".encode() + bytes(content)


def lasting_token(folder: Path) -> str:
    """The secret in the address: drawn once and kept with the interview, so that an open page works after a restart."""
    path = folder / TOKEN_FILE
    if path.exists():
        kept = path.read_text(errors="replace").strip()
        if re.fullmatch(r"[\w-]{32,}", kept, re.ASCII):
            return kept
    token = secrets.token_urlsafe(24)
    with disk(path):
        replace(path, token.encode(), private=True)
    return token


def redirecting_file(folder: Path, url: str) -> Path:
    """A page on disk that leads a browser to the interview, and that nobody else can read."""
    path = folder / REDIRECT_FILE
    with disk(path):
        replace(
            path, f'<meta http-equiv="refresh" content="0; url={url}"><a href="{url}">{url}</a>'.encode(), private=True
        )
    return path


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Refuses every request that is not from the page itself, before anything else looks at it.

    The host must be one that nobody can point elsewhere (against DNS rebinding): the loopback names or, if the server
    is open to the network, any literal address and this machine's own name. The first part of the path is the token.
    A change must come from the page's own origin, as JSON, and be small.
    """

    def __init__(self, app: ASGIApp, token: str, port: int, *, public: bool) -> None:
        self.app, self.token, self.port, self.public = app, token, port, public
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None and scope["method"] not in ("GET", "HEAD"):
            body = await _small_body(receive)
            if body is None:
                refusal = (413, "the request is too large")
            else:
                receive = _replayed(body)
        if refusal is not None:
            response = JSONResponse({"error": refusal[1]}, status_code=refusal[0])
            await response(scope, receive, _with_headers(send))
            return
        token, slash, rest = scope["path"][1:].partition("/")
        if not slash:  # the page's own requests are relative to the address with it
            await RedirectResponse(f"/{token}/", status_code=308)(scope, receive, _with_headers(send))
            return
        rest = f"/{rest}"
        await self.app({**scope, "path": rest, "raw_path": rest.encode()}, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        if not self._is_own_host(headers.get("host", "")):
            return 421, "this host name is not served here"
        given = scope["path"][1:].partition("/")[0]
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return 403, NO_TOKEN
        # Only now: requests without the token must not use up what the person may send.
        if not self._may_ask(scope["client"][0] if scope.get("client") else ""):
            return 429, "too many requests"
        if scope["method"] not in ("GET", "HEAD"):
            return self._refusal_of_change(headers)
        return None

    def _refusal_of_change(self, headers: Headers) -> tuple[int, str] | None:
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers['host']}":
            return 403, "changes are accepted from the interview's own page only"
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "changes are accepted from the interview's own page only"
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "changes must be sent as application/json"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return 413, "the request is too large"
        return None

    def _is_own_host(self, host: str) -> bool:
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        if is_loopback(name):
            return True
        if not self.public:
            return False
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name.lower() == socket.gethostname().lower()
        return True

    def _may_ask(self, client: str) -> bool:
        """A bucket of requests for each client, refilled steadily; only the latest clients are remembered."""
        now = monotonic()
        left, before = self._allowances.pop(client, (BURST, now))
        left = min(BURST, left + (now - before) * REQUESTS_PER_SECOND)
        self._allowances[client] = (max(0.0, left - 1), now)
        if len(self._allowances) > MAX_CLIENTS:
            self._allowances.popitem(last=False)
        return left >= 1


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
