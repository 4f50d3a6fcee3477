"""The pages of a person who drives, and what they send. All work is done by one thread, one thing at a time."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, create_model
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aceirl.web.driven.history import Way
from aceirl.web.driven.session import Session
from aceirl.web.driver import StaleError
from aceirl.web.security import Allowance, Guard, Reach, Tokens, on_loop_error
from aceirl.web.server import IN_A_ROW, PER_SECOND, STRICT, app_of, number_in, page, read_change

CHANGES: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "begin": (Session.begin, {"way": (Way, ...)}),
    "press": (Session.press, {"action": (int, ...)}),
    "take": (Session.take, {"step": (int, ...)}),
    "hand_back": (Session.hand_back, {}),
    "undo": (Session.undo, {}),
    "finish": (Session.finish, {}),
    "go_on": (Session.go_on, {}),
}

TOO_MANY = {"error": "too many requests in a row: wait a second"}


def application(session: Session, reach: Reach) -> Guard:
    """The interview of somebody who drives, behind the guard."""
    pages, tokens = Pages(session), Tokens()
    tokens.add(session.token, pages.app)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(on_loop_error)
        yield
        pages.worker.shutdown()

    return Guard(tokens, reach, Starlette(lifespan=lifespan))


class Pages:
    """What the addresses answer. `shown` is the last moment; who looks at it waits for nothing."""

    def __init__(self, session: Session) -> None:
        self.session, self.about, self.shown, self.busy = session, session.about(), session.view(), False
        self.worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="driving")
        self.allowance = Allowance(PER_SECOND, IN_A_ROW)
        self._filming = asyncio.Lock()
        self._film: tuple[tuple[int, int], list[dict[str, Any]]] | None = None
        self.app = app_of(
            [
                Route("/", self.page),
                Route("/view", self.view),
                Route("/film", self.film),
                Route("/everything.zip", self.everything),
                *(Route(f"/{name}", self.change(name, *kind), methods=["POST"]) for name, kind in CHANGES.items()),
            ]
        )

    async def page(self, request: Request) -> Response:
        return page("driven", about=self.about, view=self.shown)

    async def view(self, request: Request) -> Response:
        if request.query_params.get("have") == str(self.shown["turn"]):
            return JSONResponse(None)
        return JSONResponse(self.shown)

    async def film(self, request: Request) -> Response:
        wanted = self.shown["turn"], number_in(request, "number")
        if self._film is None or self._film[0] != wanted:
            if self._filming.locked() or not self.allowance.take("film"):
                return JSONResponse(TOO_MANY, status_code=429)
            async with self._filming:
                frames = await asyncio.get_running_loop().run_in_executor(self.worker, self.session.film, wanted[1])
                self._film = wanted, frames
        return JSONResponse({"turn": wanted[0], "frames": self._film[1]})

    async def everything(self, request: Request) -> Response:
        packed = await asyncio.get_running_loop().run_in_executor(self.worker, self._packed)
        headers = {"content-disposition": 'attachment; filename="interview.zip"'}
        return Response(packed, media_type="application/zip", headers=headers)

    def _packed(self) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in self.session.files().items():
                archive.writestr(name, content)
        return packed.getvalue()

    def change(self, name: str, method: Callable[..., None], fields: dict[str, Any]) -> Callable[[Request], Any]:
        """The request that lets the person do one thing; the answer is what the page shows next.

        What comes while something else is being done, or is about a moment that has passed, changes nothing.
        """
        kind: type[BaseModel] = create_model("Change", __config__=STRICT, turn=(int, ...), **fields)

        async def changed(request: Request) -> Response:
            values = read_change(kind, await request.body())
            if self.busy:
                return JSONResponse(self.shown)
            if name != "press" and not self.allowance.take(name):
                return JSONResponse(TOO_MANY, status_code=429)
            self.busy = True
            try:
                await asyncio.get_running_loop().run_in_executor(self.worker, self._do, method, values)
            finally:
                self.busy = False
            return JSONResponse(self.shown)

        return changed

    def _do(self, method: Callable[..., None], values: dict[str, Any]) -> None:
        try:
            method(self.session, **values)
        except StaleError:
            return
        finally:
            self.shown = self.session.view()
