"""Keeping an interview going while its page is free: the agent walks, a reward is inferred, films are made."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.learner.collect import Streams
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.runs.files import DiskError
from aceirl.web.dialogue import generator
from aceirl.web.driver import Interview
from aceirl.web.ending import ending_of
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


class Background:
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
            self.interview.walk_on(AT_ONCE, one_episode=True)
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
        while self.interview.phase == "walking" and not self.interview.needs_inference:
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
            version, glance = self.interview.version, self.interview.preview()
            await loop.run_in_executor(self.thinking, work_out, glance)
            over, ending = self.interview.phase == "done", None
            if over or self.interview.needs_inference:
                await loop.run_in_executor(self.thinking, consider_alternatives, glance, over)
            if over:
                named, told, askable = self.interview.named(), self.interview.history.told, self.interview.askable
                ending = await loop.run_in_executor(self.thinking, ending_of, glance, named, told, askable)
            while True:
                try:
                    self.interview.adopt(glance, version, ending)
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
        interview, walks = self.interview, self.interview.history.trajectories
        if episode >= len(walks):
            return []
        rng = Streams(interview.seed, episode).environment
        return await self._filmed(replay, rng, walks[episode].actions[: interview.environment.horizon])

    async def film(self, number: int) -> list[dict[str, Any]]:
        """An episode of what was learnt; another one for each number."""
        learned, rng = self.interview.learned, generator(self.interview.source.seed, FILM, number)
        return [] if learned is None else await self._filmed(film, rng, learned.policy, learned.names)

    async def tried(self, number: int, actions: list[int]) -> list[dict[str, Any]]:
        """What comes of doing these things from the start: nothing of it counts. Another chance for each number."""
        interview, rng = self.interview, generator(self.interview.source.seed, TRY, number)
        known = range(interview.environment.n_actions)
        if len(actions) > TRIED or not set(actions) <= set(known):
            raise InputError(f"at most {TRIED} actions from 0 to {known[-1]} can be tried out")
        return await self._filmed(replay, rng, actions)

    async def panels(self) -> list[dict[str, Any]]:
        """The map panels of what was met so far, whether or not anything was learnt."""
        return await self._filmed(maps, self.interview.engine.access.names)

    async def maps(self) -> list[dict[str, Any]]:
        """The map panels, with the environment's own pictures."""
        learned = self.interview.learned
        return [] if learned is None else await self._filmed(maps, learned.names)

    async def _filmed(self, made: Callable[..., list[dict[str, Any]]], *arguments: Any) -> list[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.filming, made, self.interview.source, *arguments)


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
    """Work out a tiny problem, so that all compiled parts are ready before somebody waits for them."""
    problem = make("gridworld", seed=0, horizon=2)
    settings = Settings(strategy="advice", max_samples=4, epsilon=1e-9)
    for turn in learn(Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape), settings):
        work_out(turn)
