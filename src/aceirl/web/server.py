"""The interview as local web pages: one for each person, one to join by, and one to set it all up."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import re
import socket
import sys
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from aceirl.errors import InputError
from aceirl.web.changes import CHANGES, Change
from aceirl.web.conductor import Conductor
from aceirl.web.connections import BACKLOG, door, on_loop_error
from aceirl.web.pages import page
from aceirl.web.people import People, Person
from aceirl.web.security import Guard, Reach, Tokens, refusal
from aceirl.web.session import StaleError
from aceirl.web.setup import FIELDS, FormError, SetUp
from aceirl.web.together import Together
from aceirl.web.view import about, answers, like, tag, view


def application(served: People | SetUp, reach: Reach) -> Guard:
    """The interviews of people, or the page that sets them up, behind the guard."""
    site = Site(reach)
    if isinstance(served, People):
        site.welcome(served)
    else:
        site.tokens.add(served.token, _SetUpPages(site, served).app)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(on_loop_error)
        if isinstance(served, People):
            site.pages[served.owner.token].wake()
            served.owner.interview.view.picture()  # the first one takes ten times as long as the next
        yield
        for conductor in site.conductors.values():
            await conductor.stop()

    return Guard(site.tokens, reach, Starlette(lifespan=lifespan))


class Site:
    """What each token opens, and who keeps each interview going; more of both come while it is served."""

    def __init__(self, reach: Reach) -> None:
        self.reach, self.tokens = reach, Tokens()
        self.conductors: dict[str, Conductor] = {}
        self.pages: dict[str, _Pages] = {}

    def welcome(self, people: People) -> None:
        """Serve the interviews of people, and let others join."""
        together = Together(people, self.conductors, self.reach)
        for person in people.everybody:
            self.admit(person, together)
        self.tokens.add(people.invitation, _JoinPages(self, together).app)

    def admit(self, person: Person, together: Together) -> None:
        """Serve the interview of one person. Nothing is computed before they come."""
        conductor = self.conductors[person.token] = Conductor(person.interview)
        pages = self.pages[person.token] = _Pages(person, conductor, together)
        self.tokens.add(person.token, pages.app)


class _Pages:
    """What the addresses of one person answer."""

    def __init__(self, person: Person, conductor: Conductor, together: Together) -> None:
        self.person, self.conductor, self.together = person, conductor, together
        self.interview, self._come = person.interview, False
        self.app = Starlette(
            routes=[
                Route("/", self.page),
                Route("/view", self.view),
                Route("/replay", self.replay),
                Route("/film", self.film),
                Route("/maps", self.maps),
                Route("/everything.zip", self.everything),
                Route("/answers", self.answers),
                Route("/like", self.like),
                *(Route(f"/{name}", self.change(kind), methods=["POST"]) for name, kind in CHANGES.items()),
                Route("/people", self.everybody),
                Route("/people.json", self.people),
                Route("/name", self.rename, methods=["POST"]),
            ]
        )

    async def page(self, request: Request) -> Response:
        return page("page", about=about(self.interview), view=self._shown())

    async def view(self, request: Request) -> Response:
        self.wake()
        if request.query_params.get("have") == tag(self.interview):
            return Response(status_code=204)
        return JSONResponse(self._shown())

    async def replay(self, request: Request) -> Response:
        return await self._frames(request, "episode", self.conductor.replay)

    async def film(self, request: Request) -> Response:
        return await self._frames(request, "number", self.conductor.film)

    async def _frames(
        self, request: Request, name: str, made: Callable[[int], Awaitable[list[dict[str, Any]]]]
    ) -> Response:
        number = request.query_params.get(name, "0")
        if not re.fullmatch("[0-9]{1,6}", number):
            return JSONResponse({"error": f"{name} must be a whole number"}, status_code=422)
        return JSONResponse({"frames": await made(int(number))})

    async def answers(self, request: Request) -> Response:
        return JSONResponse({"answers": answers(self.interview)})

    async def like(self, request: Request) -> Response:
        try:
            return JSONResponse(like(self.interview, dict(request.query_params)))
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=422)

    async def maps(self, request: Request) -> Response:
        return JSONResponse({"panels": await self.conductor.maps()})

    async def everything(self, request: Request) -> Response:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in self.interview.files:
                archive.writestr(path.name, path.read_bytes())
        headers = {"content-disposition": 'attachment; filename="interview.zip"'}
        return Response(packed.getvalue(), media_type="application/zip", headers=headers)

    async def everybody(self, request: Request) -> Response:
        return page("people", about=about(self.interview), people=self.together.shown(self.person))

    async def people(self, request: Request) -> Response:
        return JSONResponse(self.together.shown(self.person))

    async def rename(self, request: Request) -> Response:
        try:
            (name,) = await _texts(request, ("name",))
            self.together.people.rename(self.person, name)
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=422)
        return JSONResponse(self.together.shown(self.person))

    def change(self, kind: type[Change]) -> Callable[[Request], Any]:
        """The request that lets the person do one thing; the answer is what the page shows next."""

        async def changed(request: Request) -> Response:
            try:
                kind.read(await request.body()).apply(self.interview)
            except StaleError:
                return JSONResponse(self._shown(), status_code=409)
            except InputError as error:
                return JSONResponse({"error": str(error)}, status_code=422)
            self.conductor.carry_on()
            return JSONResponse(self._shown())

        return changed

    def _shown(self) -> dict[str, Any]:
        """What the page shows; from now on the person has the question before them."""
        self.wake()
        shown = view(self.interview)
        self.interview.question_shown()
        return shown

    def wake(self) -> None:
        """When a person comes for the first time, the agent begins to walk."""
        if not self._come:
            self._come = True
            self.conductor.carry_on()


class _JoinPages:
    """What the invitation answers."""

    def __init__(self, site: Site, together: Together) -> None:
        self.site, self.together, self.people = site, together, together.people
        self._joining = asyncio.Lock()
        self.app = Starlette(routes=[Route("/", self.page), Route("/join", self.join, methods=["POST"])])

    async def page(self, request: Request) -> Response:
        return page("join", about=about(self.people.owner.interview))

    async def join(self, request: Request) -> Response:
        try:
            (name,) = await _texts(request, ("name",))
            async with self._joining:
                person = await asyncio.to_thread(self.people.join, name)
                self.site.admit(person, self.together)
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=422)
        return JSONResponse({"name": person.name, "address": f"/{person.token}/"})


class _SetUpPages:
    """What the address answers as long as there is no interview."""

    def __init__(self, site: Site, form: SetUp) -> None:
        self.site, self.form = site, form
        self._starting = asyncio.Lock()
        self.app = Starlette(
            routes=[
                Route("/", self.page),
                Route("/environment", self.environment),
                Route("/start", self.start, methods=["POST"]),
            ]
        )

    async def page(self, request: Request) -> Response:
        return page("setup", form=await asyncio.to_thread(self.form.shown))

    async def environment(self, request: Request) -> Response:
        try:
            found = await asyncio.to_thread(self.form.offer, request.query_params.get("name", ""))
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=422)
        return JSONResponse(found)

    async def start(self, request: Request) -> Response:
        try:
            values = dict(zip(FIELDS, await _texts(request, FIELDS), strict=True))
            async with self._starting:
                if self.form.people is None:
                    people = await asyncio.to_thread(self.form.start, values)
                    self._show(people)
        except FormError as error:
            return JSONResponse({"error": str(error), "field": error.field}, status_code=422)
        except InputError as error:
            return JSONResponse({"error": str(error), "field": None}, status_code=422)
        assert self.form.people is not None
        return JSONResponse({"address": f"/{self.form.people.owner.token}/"})

    def _show(self, people: People) -> None:
        """The interview takes the place of this page; one that was begun before has an address of its own."""
        address = f"/{people.owner.token}/"

        async def moved(request: Request) -> Response:
            return RedirectResponse(address, status_code=307)

        self.site.tokens.add(self.form.token, Starlette(routes=[Route("/", moved)]))
        self.site.welcome(people)
        self.site.pages[people.owner.token].wake()


async def _texts(request: Request, fields: Sequence[str]) -> list[str]:
    """The texts that were sent by these names; it is an error if one is missing, or is none."""
    try:
        sent = json.loads(await request.body())
        values = [sent[field] for field in fields]
    except (ValueError, KeyError, TypeError, RecursionError):
        values = [None]
    if not all(isinstance(value, str) and _is_unicode(value) for value in values):
        raise InputError(f"{' and '.join(fields)} must be sent, as text")
    return values


def _is_unicode(text: str) -> bool:
    """Whether a text can be written down; JSON can hold halves of characters, which cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def listening_socket(host: str, port: int | None, preferred: int) -> socket.socket:
    """A socket on the port asked for or, if none was, on the preferred one or any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in (preferred, 0) if port is None else (port,):
        # asyncio sends small answers without delay only if the protocol is named; else each takes 40 ms longer.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            # From now on a browser that comes too early waits, and is not turned away.
            listening.listen(BACKLOG)
            return listening
        except OSError as error:
            listening.close()
            reason = error.strerror or str(error)
    raise InputError(f"cannot listen on {host}, port {candidate}: {reason}")


def serve(app: Guard, listening: socket.socket) -> None:
    """Answer requests until interrupted. No access log: it would hold the token."""
    import uvicorn

    # Inference computes in a thread of its own; it has to give way at once when an answer comes.
    sys.setswitchinterval(0.00005)
    # Whoever answers waits while everything is looked through for garbage; most of that was loaded before, and is none.
    gc.collect()
    gc.freeze()
    config = uvicorn.Config(
        app, http=door(app.tokens, refusal()), ws="none", backlog=BACKLOG, access_log=False, log_level="error",
        server_header=False, timeout_keep_alive=30, timeout_graceful_shutdown=2,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])
