"""The interview as a local web page: one interview, one page, any number of tabs."""

from __future__ import annotations

import asyncio
import io
import json
import re
import secrets
import socket
import sys
import traceback
import zipfile
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from aceirl.collect import Streams
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.files import DiskError
from aceirl.loop import learn
from aceirl.settings import Settings
from aceirl.turns import Turn
from aceirl.web.connections import BACKLOG, door, on_loop_error
from aceirl.web.film import film, replay
from aceirl.web.maps import maps
from aceirl.web.security import Guard, refusal
from aceirl.web.session import Interview, StaleError
from aceirl.web.view import about, tag, view

# How long the agent may walk before an answer is acknowledged, and at a time while nobody waits, in seconds.
AT_ONCE, IN_BETWEEN = 0.015, 0.003

# How long nobody must have answered before a reward is inferred again, and until a failed write is tried again, in
# seconds.
REFLECTION, RETRY = 0.2, 1.0

# The stream of chance from which films of the policy are drawn.
FILM = 3


class Conductor:
    """Keeps an interview going: the agent walks between questions, and a reward is inferred, while the page is free.

    Everything that changes the interview runs on the event loop's own thread, in pieces of some milliseconds; only
    inference and films run in threads of their own, on copies.
    """

    def __init__(self, interview: Interview) -> None:
        self.interview = interview
        self.thinking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inference")
        self.filming = ThreadPoolExecutor(max_workers=1, thread_name_prefix="film")
        self._walking: asyncio.Task[None] | None = None
        self._learning: asyncio.Task[None] | None = None

    def carry_on(self) -> None:
        """Do at once what can be done at once, and see that the rest gets done."""
        try:
            self.interview.walk_on(AT_ONCE)
        except DiskError:
            pass  # the page says so, and it is tried again
        except Exception as error:
            self._show(error)
            return
        self._walking = self._going(self._walking, self._walk)
        self._learning = self._going(self._learning, self._learn)

    def _going(
        self, task: asyncio.Task[None] | None, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        """The task if it goes on, or else a new one."""
        if task is None or task.done():
            task = asyncio.create_task(work())
            task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._show(error)

    def _show(self, error: BaseException) -> None:
        """What cannot be tried again is said on the page; how it came about, in the terminal."""
        traceback.print_exception(error)
        name = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        self.interview.trouble = f"The interview cannot go on: {name}{error}"

    async def stop(self) -> None:
        """Give up whatever is under way; the log has all that matters."""
        for task in (self._walking, self._learning):
            if task is not None:
                task.cancel()
        self.thinking.shutdown(wait=False, cancel_futures=True)
        self.filming.shutdown(wait=False, cancel_futures=True)

    async def _walk(self) -> None:
        while self.interview.phase == "walking":
            try:
                self.interview.walk_on(IN_BETWEEN)
            except DiskError:
                await asyncio.sleep(RETRY)
            await asyncio.sleep(0)
        self._learning = self._going(self._learning, self._learn)

    async def _learn(self) -> None:
        """Infer again for as long as there is something new to infer from."""
        loop = asyncio.get_running_loop()
        while self._has_news():
            # Whoever is answering quickly is not to be held up; there will be a pause.
            turn = self.interview.turn
            await asyncio.sleep(REFLECTION)
            if turn != self.interview.turn:
                continue
            version, glance = self.interview.version, self.interview.glance()
            await loop.run_in_executor(self.thinking, work_out, glance)
            if self.interview.phase == "done":
                await loop.run_in_executor(self.thinking, consider_alternatives, glance)
            while not self._adopted(glance, version):
                await asyncio.sleep(RETRY)

    def _adopted(self, turn: Turn, version: tuple[int, int]) -> bool:
        try:
            self.interview.adopt(turn, version)
        except DiskError:
            return False
        return True

    def _has_news(self) -> bool:
        interview = self.interview
        if interview.phase == "done":
            return interview.kept_version != interview.version
        return interview.history.answers > 0 and interview.learned_version[0] != interview.turn

    async def replay(self) -> list[dict[str, Any]]:
        """The episode up to now, picture by picture."""
        interview, walk = self.interview, self.interview.history.walk
        if walk is None:
            return []
        rng, actions = Streams.of(interview.source.seed, walk.number).environment, walk.actions
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.filming, replay, interview.source, rng, actions)

    async def film(self, number: int) -> list[dict[str, Any]]:
        """An episode of what was learnt; another one for each number."""
        interview, learned = self.interview, self.interview.learned
        if learned is None:
            return []
        rng = interview.generator(FILM, number)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.filming, film, interview.source, rng, learned.policy, learned.names)

    async def maps(self) -> list[dict[str, Any]]:
        """The map panels, with the environment's own pictures."""
        interview, learned = self.interview, self.interview.learned
        if learned is None:
            return []
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.filming, maps, interview.source, learned.names)


def work_out(turn: Turn) -> None:
    """Infer the reward, the policy and the numbers of a turn, which keeps them."""
    _ = turn.mean_reward, turn.record


def consider_alternatives(turn: Turn) -> None:
    """Find out what else the answers may mean, for the last screen; the turn keeps it."""
    if turn.alternatives is not None:
        _ = turn.alternatives.goals, turn.alternatives.undetermined


def prepare() -> None:
    """Work out a tiny problem, so that all compiled parts are ready before somebody waits for them."""
    problem = make("gridworld", seed=0, horizon=2)
    settings = Settings(strategy="advice", max_samples=4, epsilon=1e-9)
    for turn in learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings):
        work_out(turn)


def application(interview: Interview, token: str, port: int, *, public: bool = False) -> Guard:
    """The page and its requests, behind the guard."""
    conductor = Conductor(interview)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(on_loop_error)
        conductor.carry_on()
        yield
        await conductor.stop()

    pages = _Pages(conductor)
    routes = [
        Route("/", pages.page),
        Route("/view", pages.view),
        Route("/replay", pages.replay),
        Route("/film", pages.film),
        Route("/maps", pages.maps),
        Route("/everything.zip", pages.everything),
        *(Route(f"/{name}", pages.change(name), methods=["POST"]) for name in ("answer", "skip", "undo", "correct")),
    ]
    return Guard(Starlette(routes=routes, lifespan=lifespan), token, port, public=public)


class _Pages:
    """What each address answers."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor, self.interview = conductor, conductor.interview

    async def page(self, request: Request) -> Response:
        nonce = secrets.token_urlsafe(16)
        content = _template().render(
            nonce=nonce,
            style=_text("page.css"),
            script=_text("page.js"),
            about=about(self.interview),
            view=self._shown(),
        )
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return HTMLResponse(content, headers={"content-security-policy": policy})

    async def view(self, request: Request) -> Response:
        if request.query_params.get("have") == tag(self.interview):
            return Response(status_code=204)
        return JSONResponse(self._shown())

    async def replay(self, request: Request) -> Response:
        return JSONResponse({"frames": await self.conductor.replay()})

    async def film(self, request: Request) -> Response:
        number = request.query_params.get("number", "0")
        if not re.fullmatch("[0-9]{1,6}", number):
            return JSONResponse({"error": "number must be a whole number"}, status_code=422)
        return JSONResponse({"frames": await self.conductor.film(int(number))})

    async def maps(self, request: Request) -> Response:
        return JSONResponse({"panels": await self.conductor.maps()})

    async def everything(self, request: Request) -> Response:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in self.interview.files:
                archive.writestr(path.name, path.read_bytes())
        headers = {"content-disposition": 'attachment; filename="interview.zip"'}
        return Response(packed.getvalue(), media_type="application/zip", headers=headers)

    def change(self, name: str) -> Callable[[Request], Any]:
        """The request that lets the person do one thing; the answer is what the page shows next."""
        fields = {"answer": ("turn", "action"), "correct": ("turn", "state", "action")}.get(name, ("turn",))

        async def changed(request: Request) -> Response:
            try:
                sent = json.loads(await request.body())
                values = [sent[field] for field in fields]
            except (ValueError, KeyError, TypeError, RecursionError):
                return JSONResponse({"error": f"{name} needs {' and '.join(fields)}"}, status_code=422)
            if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
                return JSONResponse({"error": f"{' and '.join(fields)} must be whole numbers"}, status_code=422)
            try:
                getattr(self.interview, name)(*values)
            except StaleError:
                return JSONResponse(self._shown(), status_code=409)
            except InputError as error:
                return JSONResponse({"error": str(error)}, status_code=422)
            self.conductor.carry_on()
            return JSONResponse(self._shown())

        return changed

    def _shown(self) -> dict[str, Any]:
        """What the page shows; from now on the person has the question before them."""
        shown = view(self.interview)
        self.interview.question_shown()
        return shown


@cache
def _text(name: str) -> str:
    return (files("aceirl.web") / "templates" / name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    # tojson escapes <, > and & so that no name of an environment can end the script it stands in.
    return jinja2.Environment(autoescape=True).from_string(_text("page.html"))


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
    config = uvicorn.Config(
        app, http=door(app.token, refusal()), ws="none", backlog=BACKLOG, access_log=False, log_level="error",
        server_header=False, timeout_keep_alive=30, timeout_graceful_shutdown=2,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])
