"""The interview as local web pages: one for each person, one to join by, one to set it all up; and what they send."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import re
import secrets
import socket
import sys
import zipfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal

import jinja2
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from aceirl.errors import InputError
from aceirl.web.background import Background
from aceirl.web.driver import Interview, StaleError
from aceirl.web.early import BACKLOG
from aceirl.web.history import Mode, Verdict
from aceirl.web.people import Invitation, Participant, People, Together
from aceirl.web.security import Allowance, Guard, Reach, Tokens, door, on_loop_error
from aceirl.web.setup import FIELDS, FormError, SetUp
from aceirl.web.view import about, answers, like, tag, view

# What a page may send to change an interview: read strictly.
STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _change(method: Callable[..., None], **fields: Any) -> tuple[Callable[..., None], type[BaseModel]]:
    """Something that a person does, and what is sent for it; `turn` says which question they saw."""
    return method, create_model("Change", __config__=STRICT, turn=(int, ...), **fields)


CHANGES = {
    "answer": _change(
        Interview.answer, action=(int, ...), like=(dict[str, str] | None, None), also=(list[int] | None, None)
    ),
    "skip": _change(Interview.skip),
    "undo": _change(Interview.undo),
    "correct": _change(Interview.correct, state=(int, ...), action=(int, ...)),
    "review": _change(Interview.review, step=(int | None, None), action=(int | None, None)),
    "prefer": _change(Interview.prefer, better=(Literal[0, 1] | None, ...)),
    "verdict": _change(
        Interview.verdict,
        verdict=(Verdict, ...),
        what=(str | None, None),
        where=(int | None, None),
        besides=(bool, False),
    ),
    "finish": _change(Interview.finish),
    "go_on": _change(Interview.go_on),
    "more": _change(Interview.more),
    "start_again": _change(Interview.start_again),
    "mode": _change(Interview.change_mode, mode=(Mode, ...)),
    "adjust": _change(Interview.adjust, epsilon=(float, ...), delta=(float, ...), horizon=(int, ...)),
}


# Pages with a style of their own, besides the one that all have.
OWN_STYLE = ("driven",)

# What computes everything again may be asked for so often: it takes the time of all others.
LABORIOUS = {"undo", "correct", "verdict", "finish", "go_on", "more", "start_again", "mode", "adjust"}
PER_SECOND, IN_A_ROW = 4.0, 8.0


def read_change(kind: type[BaseModel], body: bytes) -> dict[str, Any]:
    """What was sent, or an error that says what was wrong with it."""
    try:
        return dict(kind.model_validate_json(body))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        needed = " and ".join(name for name, field in kind.model_fields.items() if field.is_required())
        raise InputError(f"{where or 'the request'}: {first['msg'].lower()}; needed are {needed}") from None


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
            owner = site.pages[served.owner.token]
            await owner.wake()
            await owner.background.do(served.owner.interview.view.picture)  # the first takes ten times as long
        yield
        for background in site.backgrounds.values():
            await background.stop()

    return Guard(site.tokens, reach, Starlette(lifespan=lifespan))


class Site:
    """What each token opens, and who keeps each interview going; more of both come while it is served."""

    def __init__(self, reach: Reach) -> None:
        self.reach, self.tokens = reach, Tokens()
        self.backgrounds: dict[str, Background] = {}
        self.pages: dict[str, _Pages] = {}

    def welcome(self, people: People) -> None:
        """Serve the interviews of people, and let others join."""
        together = Together(people, self.backgrounds, self.reach)
        self.joining = _Joining(self, together)
        for person in people.everybody:
            self.admit(person, together)
        for invitation in people.decided.invitations:
            self.joining.open(invitation)

    def admit(self, person: Participant, together: Together) -> None:
        """Serve the interview of one person. Nothing is computed before they come."""
        person.interview.needs = partial(together.needed, person)
        background = self.backgrounds[person.token] = Background(person.interview)
        pages = self.pages[person.token] = _Pages(self, person, background, together)
        self.tokens.add(person.token, pages.app)

    async def dismiss(self, token: str) -> None:
        """Serve the interview of somebody no more."""
        self.tokens.remove(token)
        self.pages.pop(token)
        await self.backgrounds.pop(token).stop()


class _Pages:
    """What the addresses of one person answer."""

    def __init__(self, site: Site, person: Participant, background: Background, together: Together) -> None:
        self.site, self.person, self.background, self.together = site, person, background, together
        self.interview, self._come = person.interview, False
        self.allowance = Allowance(PER_SECOND, IN_A_ROW)
        host = self.host_routes() if person is together.people.owner else ()
        self.app = app_of(
            [
                Route("/", self.page),
                Route("/view", self.view),
                Route("/replay", self.replay),
                Route("/film", self.film),
                Route("/try", self.tried),
                Route("/maps", self.maps),
                Route("/everything.zip", self.everything),
                Route("/answers", self.answers),
                Route("/like", self.like),
                *(Route(f"/{name}", self.change(name, *kind), methods=["POST"]) for name, kind in CHANGES.items()),
                Route("/people", self.everybody),
                Route("/people.json", self.people),
                Route("/name", self.rename, methods=["POST"]),
                Route("/panels", self.panels),
                *host,
            ]
        )

    def host_routes(self) -> Iterator[Route]:
        """What only the host can do, and what is sent for it."""
        people, joining = self.together.people, self.site.joining

        async def invite(seats: int) -> None:
            joining.open(people.invite(seats))

        async def revoke(token: str) -> None:
            people.revoke(token)
            self.site.tokens.remove(token)

        async def remove(name: str) -> None:
            person = next((one for one in people.everybody[1:] if one.name == name), None)
            if person is not None:
                await self.site.dismiss(person.token)
            people.remove(name)

        async def minimum(answers: int) -> None:
            people.ask_for(answers)

        async def settle(situation: str, action: int | None) -> None:
            people.settle(situation, action)

        yield self.decision(invite, seats=(int, ...))
        yield self.decision(revoke, token=(str, ...))
        yield self.decision(remove, name=(str, ...))
        yield self.decision(minimum, answers=(int, ...))
        yield self.decision(settle, situation=(str, ...), action=(int | None, ...))

    def decision(self, decided: Callable[..., Coroutine[Any, Any, None]], **fields: Any) -> Route:
        """The request by which the host decides something; the answer is what the page about everybody shows then."""
        kind = create_model("Decision", __config__=STRICT, **fields)

        async def made(request: Request) -> Response:
            await decided(**read_change(kind, await request.body()))
            return JSONResponse(self.together.shown(self.person))

        return Route(f"/{decided.__name__}", made, methods=["POST"])

    async def page(self, request: Request) -> Response:
        return await self._do(lambda: page("page", about=about(self.interview), view=self._shown()))

    async def view(self, request: Request) -> Response:
        have = request.query_params.get("have")

        def news() -> Response:
            if have == tag(self.interview):
                return Response(status_code=204)
            return JSONResponse(self._shown())

        return await self._do(news)

    async def replay(self, request: Request) -> Response:
        return JSONResponse({"frames": await self.background.replay(number_in(request, "episode"))})

    async def film(self, request: Request) -> Response:
        return JSONResponse({"frames": await self.background.film(number_in(request, "number"))})

    async def tried(self, request: Request) -> Response:
        actions = request.query_params.get("actions", "")
        if not re.fullmatch(r"([0-9]{1,3}(\.[0-9]{1,3})*)?", actions):
            raise InputError("actions must be whole numbers with dots between them")
        numbers = [int(one) for one in actions.split(".") if one]
        return JSONResponse({"frames": await self.background.tried(number_in(request, "number"), numbers)})

    async def answers(self, request: Request) -> Response:
        return await self._do(lambda: JSONResponse({"answers": answers(self.interview)}))

    async def like(self, request: Request) -> Response:
        return await self._do(lambda: JSONResponse(like(self.interview, dict(request.query_params))))

    async def panels(self, request: Request) -> Response:
        return JSONResponse({"panels": await self.background.panels()})

    async def maps(self, request: Request) -> Response:
        return JSONResponse({"panels": await self.background.maps()})

    async def everything(self, request: Request) -> Response:
        return await self._do(self._packed)

    def _packed(self) -> Response:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in self.interview.files().items():
                archive.writestr(name, content)
        headers = {"content-disposition": 'attachment; filename="interview.zip"'}
        return Response(packed.getvalue(), media_type="application/zip", headers=headers)

    async def everybody(self, request: Request) -> Response:
        return page("people", about=about(self.interview), people=self.together.shown(self.person))

    async def people(self, request: Request) -> Response:
        return JSONResponse(self.together.shown(self.person))

    async def rename(self, request: Request) -> Response:
        (name,) = await _texts(request, ("name",))
        if not self.allowance.take():
            return _too_many()
        async with self.site.joining.one_at_a_time:
            await asyncio.to_thread(self.together.people.rename, self.person, name)
        return JSONResponse(self.together.shown(self.person))

    def change(self, name: str, method: Callable[..., None], kind: type[BaseModel]) -> Callable[[Request], Any]:
        """The request that lets the person do one thing; the answer is what the page shows next."""

        async def changed(request: Request) -> Response:
            if name in LABORIOUS and not self.allowance.take():
                return _too_many()
            sent = read_change(kind, await request.body())

            def done() -> Response:
                status = 200
                try:
                    method(self.interview, **sent)
                except StaleError:
                    status = 409
                finally:
                    self.background.at_once()
                return JSONResponse(self._shown(), status_code=status)

            try:
                return await self._do(done)
            finally:
                self.background.carry_on()

        return changed

    async def _do(self, work: Callable[[], Response]) -> Response:
        """What comes of something that reads or changes the interview, in the thread of this person alone."""
        await self.wake()
        return await self.background.do(work)

    def _shown(self) -> dict[str, Any]:
        """What the page shows; from now on the person has the question before them."""
        shown = view(self.interview)
        self.interview.question_shown()
        return shown

    async def wake(self) -> None:
        """When a person comes for the first time, the agent begins to walk."""
        if not self._come:
            self._come = True
            await self.background.do(self.background.at_once)
            self.background.carry_on()


class _Joining:
    """What invitations answer."""

    def __init__(self, site: Site, together: Together) -> None:
        self.site, self.together, self.people = site, together, together.people
        self.one_at_a_time = asyncio.Lock()

    def open(self, invitation: Invitation) -> None:
        """From now on people can join by an invitation."""

        async def shown(request: Request) -> Response:
            free = invitation.taken < invitation.seats
            return page("join", about=about(self.people.owner.interview), free=free)

        async def join(request: Request) -> Response:
            (name,) = await _texts(request, ("name",))
            async with self.one_at_a_time:
                person = await asyncio.to_thread(self.people.join, name, invitation)
                self.site.admit(person, self.together)
                if self.people.invitation is None and self.people.free_seats:
                    self.open(self.people.invite(1))  # the host finds the next link ready
            return JSONResponse({"name": person.name, "address": f"/{person.token}/"})

        routes = [Route("/", shown), Route("/join", join, methods=["POST"])]
        self.site.tokens.add(invitation.token, app_of(routes))


class _SetUpPages:
    """What the address answers as long as there is no interview."""

    def __init__(self, site: Site, form: SetUp) -> None:
        self.site, self.form = site, form
        self._starting, self._drawing = asyncio.Lock(), asyncio.Lock()
        routes = [Route("/", self.page), Route("/environment", self.environment), Route("/picture", self.picture)]
        self.app = app_of([*routes, Route("/start", self.start, methods=["POST"])])

    async def page(self, request: Request) -> Response:
        return page("setup", form=await asyncio.to_thread(self.form.shown))

    async def environment(self, request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(self.form.offer, request.query_params.get("name", "")))

    async def picture(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        async with self._drawing:
            return JSONResponse({"picture": await asyncio.to_thread(self.form.picture, name)})

    async def start(self, request: Request) -> Response:
        try:
            values = dict(zip(FIELDS, await _texts(request, FIELDS), strict=True))
            async with self._starting:
                if self.form.people is None:
                    people = await asyncio.to_thread(self.form.start, values)
                    await self._show(people)
        except InputError as error:
            field = error.field if isinstance(error, FormError) else None
            return JSONResponse({"error": str(error), "field": field}, status_code=422)
        assert self.form.people is not None
        return JSONResponse({"address": f"/{self.form.people.owner.token}/"})

    async def _show(self, people: People) -> None:
        """The interview takes the place of this page; one that was begun before has an address of its own."""
        address = f"/{people.owner.token}/"

        async def moved(request: Request) -> Response:
            return RedirectResponse(address, status_code=307)

        self.site.tokens.add(self.form.token, Starlette(routes=[Route("/", moved)]))
        self.site.welcome(people)
        await self.site.pages[people.owner.token].wake()


def app_of(routes: list[Route]) -> Starlette:
    """An application that answers what was wrong with a request in words."""

    async def refused(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, status_code=422)

    return Starlette(routes=routes, exception_handlers={InputError: refused})


def _too_many() -> Response:
    return JSONResponse({"error": "too many changes in a row: wait a second"}, status_code=429)


def page(name: str, **values: Any) -> HTMLResponse:
    """The page of a template, with its style and its script, which allows nothing else; `values` are what the template
    speaks of."""
    nonce = secrets.token_urlsafe(16)
    style, script = _text("page.css"), _text(f"{name}.js")
    if name != "page":
        style, script = style + _text("more.css"), _text("more.js") + script
    if name in OWN_STYLE:
        style += _text(f"{name}.css")
    script = _text("spot.js") + script
    content = _templates.get_template(f"{name}.html").render(nonce=nonce, style=style, script=script, **values)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(content, headers={"content-security-policy": policy})


@cache
def _text(name: str) -> str:
    return (files("aceirl.web") / "templates" / name).read_text(encoding="utf-8")


# tojson escapes <, > and & so that no name of an environment or a person can end the script it stands in.
_templates = jinja2.Environment(loader=jinja2.PackageLoader("aceirl.web"), autoescape=True)


def number_in(request: Request, name: str) -> int:
    """The number of that name in the address; 0 if there is none."""
    number = request.query_params.get(name, "0")
    if not re.fullmatch("[0-9]{1,6}", number):
        raise InputError(f"{name} must be a whole number")
    return int(number)


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


def serve(app: Guard, listening: socket.socket) -> None:
    """Answer requests until interrupted. No access log: it would hold the token."""
    import uvicorn

    # Inference computes in a thread of its own; it has to give way at once when an answer comes.
    sys.setswitchinterval(0.00005)
    # Whoever answers waits while everything is looked through for garbage; most of that was loaded before, and is none.
    gc.collect()
    gc.freeze()
    config = uvicorn.Config(
        app, http=door(app.tokens), ws="none", backlog=BACKLOG, access_log=False, log_level="error",
        server_header=False, timeout_keep_alive=30, timeout_graceful_shutdown=2,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])
