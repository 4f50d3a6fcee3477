"""Keeping an interview going while its page is free: the agent walks, a reward is inferred, films are made."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.experts.tasks import Source
from aceirl.explain.wish import Statement
from aceirl.learner.collect import Streams
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.runs.files import DiskError
from aceirl.web.dialogue import generator
from aceirl.web.driver import Interview
from aceirl.web.ending import Ending, NamedStates, ending_of
from aceirl.web.environment_view import film, maps, replay

# How long the agent may walk before an answer is acknowledged, and at a time while nobody waits, in seconds.
AT_ONCE, IN_BETWEEN = 0.015, 0.003

# How long nobody must have answered before a reward is inferred again, and until a failed write is tried again, in
# seconds.
REFLECTION, RETRY = 0.2, 1.0

# The streams of chance from which films of the policy are drawn, and what comes of trying things out.
FILM, TRY = 3, 6

# How many steps can be tried out.
TRIED = 30

Result = TypeVar("Result")


class Background:
    """Keeps an interview going: the agent walks between questions, and a reward is inferred, while the page is free.

    All that reads or changes the interview is done in one thread of its own, piece after piece (`do`): what takes long,
    and a slow disk, hold up this person and nobody else. Inference and films have threads too, and work on copies.
    """

    def __init__(self, interview: Interview) -> None:
        self.interview = interview
        self.acting = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interview")
        self.thinking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inference")
        self.filming = ThreadPoolExecutor(max_workers=1, thread_name_prefix="film")
        self._stuck = False
        self._walking: asyncio.Task[None] | None = None
        self._learning: asyncio.Task[None] | None = None

    async def do(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What comes of something that reads or changes the interview, after all that was to be done before."""
        return await asyncio.get_running_loop().run_in_executor(self.acting, work, *arguments)

    def at_once(self) -> None:
        """Let the agent walk as far as nobody has to wait for it; to be done in the thread of the interview."""
        self._stuck = False
        try:
            self.interview.walk_on(AT_ONCE, one_episode=True)
        except DiskError:
            pass  # the page says so, and it is tried again
        except Exception as error:
            self._stuck = True
            self._show(error)

    def carry_on(self) -> None:
        """See that what is left to do gets done."""
        if self._stuck:
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
        """Give up whatever is under way, but for a piece that changes the interview; the log has all that matters."""
        for task in (self._walking, self._learning):
            if task is not None:
                task.cancel()
        self.thinking.shutdown(wait=False, cancel_futures=True)
        self.filming.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self.acting.shutdown, wait=True, cancel_futures=True)

    async def _walk(self) -> None:
        while await self.do(self._walks):
            try:
                await self.do(self.interview.walk_on, IN_BETWEEN)
            except DiskError:
                await asyncio.sleep(RETRY)
        self._learning = self._going(self._learning, self._learn)

    def _walks(self) -> bool:
        return self.interview.phase == "walking" and not self.interview.needs_inference

    async def _learn(self) -> None:
        """Infer again for as long as there is something new to infer from."""
        while await self.do(self._has_news):
            # Whoever is answering quickly is not to be held up; there will be a pause.
            turn = self.interview.turn
            await asyncio.sleep(REFLECTION)
            if turn != self.interview.turn:
                continue
            known = await self.do(_Known.of, self.interview)
            ending = await self._in(self.thinking, known.worked_out)
            while True:
                try:
                    await self.do(self.interview.adopt, known.turn, known.version, ending)
                    break
                except DiskError:
                    await asyncio.sleep(RETRY)

    def _has_news(self) -> bool:
        interview = self.interview
        if interview.phase == "done":
            return interview.kept_version != interview.version
        if interview.needs_inference:
            return interview.learned_version != interview.version
        return interview.history.answers > 0 and interview.learned_version[0] != interview.turn

    async def replay(self, episode: int) -> list[dict[str, Any]]:
        """An episode of that number, picture by picture, up to now if it is under way."""
        interview = self.interview

        def walked() -> tuple[Any, ...]:
            walks = interview.history.trajectories[episode : episode + 1]
            return interview.source, interview.seed, *(one.actions[: interview.environment.horizon] for one in walks)

        source, seed, *actions = await self.do(walked)
        rng = Streams(seed, episode).environment
        return await self._in(self.filming, replay, source, rng, *actions) if actions else []

    async def film(self, number: int) -> list[dict[str, Any]]:
        """An episode of what was learnt; another one for each number."""
        source, learned, _ = await self._now()
        rng = generator(source.seed, FILM, number)
        return [] if learned is None else await self._in(self.filming, film, source, rng, learned.policy, learned.names)

    async def tried(self, number: int, actions: list[int]) -> list[dict[str, Any]]:
        """What comes of doing these things from the start: nothing of it counts. Another chance for each number."""
        source, _, _ = await self._now()
        known = range(self.interview.environment.n_actions)
        if len(actions) > TRIED or not set(actions) <= set(known):
            raise InputError(f"at most {TRIED} actions from 0 to {known[-1]} can be tried out")
        return await self._in(self.filming, replay, source, generator(source.seed, TRY, number), actions)

    async def panels(self) -> list[dict[str, Any]]:
        """The map panels of what was met so far, whether or not anything was learnt."""
        source, _, names = await self._now()
        return await self._in(self.filming, maps, source, names)

    async def maps(self) -> list[dict[str, Any]]:
        """The map panels, with the environment's own pictures."""
        source, learned, _ = await self._now()
        return [] if learned is None else await self._in(self.filming, maps, source, learned.names)

    async def _now(self) -> tuple[Source, Turn | None, tuple[str, ...]]:
        """The environment, what was learnt of it, and the states that were met."""
        interview = self.interview
        return await self.do(lambda: (interview.source, interview.learned, interview.engine.access.names))

    async def _in(self, pool: ThreadPoolExecutor, made: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(pool, made, *arguments)


@dataclass(frozen=True)
class _Known:
    """What is known at one moment, and all that is needed to work it out elsewhere; `over` if it is the last word."""

    version: tuple[int, int]
    turn: Turn
    over: bool
    compares: bool
    named: NamedStates
    told: Sequence[Statement]
    askable: Sequence[int]

    @classmethod
    def of(cls, interview: Interview) -> _Known:
        return cls(
            interview.version,
            interview.preview(),
            interview.phase == "done",
            interview.needs_inference,
            interview.named(),
            interview.history.told,
            interview.askable,
        )

    def worked_out(self) -> Ending | None:
        """Infer, and find out what else the answers may mean; the turn keeps it. In the end also what to say of it."""
        work_out(self.turn)
        if self.over or self.compares:
            consider_alternatives(self.turn, self.over)
        return ending_of(self.turn, self.named, self.told, self.askable) if self.over else None


def work_out(turn: Turn) -> None:
    """Infer the reward, the policy and the numbers of a turn, which keeps them."""
    _ = turn.mean_reward, turn.record


def consider_alternatives(turn: Turn, over: bool) -> None:
    """Find out what else the answers may mean; the turn keeps it.

    If all is over that is for the last screen; else which two episodes to compare next depends on other rewards that
    explain what was said about as well.
    """
    if turn.alternatives is not None:
        _ = (turn.alternatives.goals, turn.alternatives.undetermined) if over else turn.alternatives.samples


def prepare() -> None:
    """Work out a tiny problem to its end, so that all compiled parts are ready before somebody waits for them."""
    problem = make("gridworld", seed=0, horizon=2)
    settings = Settings(strategy="advice", max_samples=4, epsilon=1e-9)
    for turn in learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings):
        work_out(turn)
    consider_alternatives(turn, over=True)
    names = problem.layout.state_names
    ending_of(turn, NamedStates(names, problem.layout.action_names, {0: 0}, {0: {}}), askable=range(len(names)))
