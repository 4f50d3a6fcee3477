"""Ways to get a promise too cheaply: a reckless first wager, copies that play one episode, undoing each surprise."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from aceirl.certificates import Wager
from aceirl.certificates.policy import PolicyCertificate
from aceirl.envs.vector import GymVectorEnvironment, Resting
from aceirl.experts import ObservationExpert
from aceirl.experts.tasks import Source, open_source
from aceirl.irl.belief import Belief, Plan
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.mdp import IntArray
from aceirl.protocols import Question
from aceirl.web.driver import Interview
from aceirl.web.history import Accuracy


@dataclass(frozen=True)
class Reckless(PolicyCertificate):
    """The policy certificate with a first wager that takes the unknown for known."""

    def watch(self, belief: Belief, plan: Plan, reference: IntArray | None) -> Wager | None:
        """As ever, after the first batch."""
        wager = super().watch(belief, plan, reference)
        return wager if wager is None or belief.iteration else Wager(0.98)


def samples_to_policy(source: Source, episodes: int, *, reckless: bool = False, epsilon: float | None = None) -> Turn:
    """The last turn of a run that follows the expert until the policy is certified."""
    with open_source(source) as task:
        settings = Settings(
            strategy="advice",
            irl="feasible-point",
            certify=Reckless() if reckless else PolicyCertificate(),
            episodes_per_iteration=episodes,
            epsilon=epsilon,
            rmax=task.world.rmax,
            max_return=task.world.max_return,
            max_samples=10**6,
            infer_after_growth=10.0,
            seed=source.seed,
        )
        for turn in learn(task.environment, task.expert, settings, regret=task.regret):
            last = turn  # and none before it is kept
        assert last.regret is not None  # worked out while the environment is open
        return last


class RareBranch(gymnasium.Env[Any, Any]):
    """Four steps; the first leads, with a chance a little above what is certified, to a room that is seldom seen.

    With `shared`, the chance is drawn from numpy's global generator.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)
    CHANCE = 0.16

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.room = 0
        return self.room, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if self.room == 0:
            drawn = np.random.random() if self.shared else self.np_random.random()  # noqa: NPY002 - what many do
            self.room = 2 if drawn < self.CHANCE else 1
        return self.room, 0.0, False, False, {}


HORIZON = 4
LOST_UNSEEN = RareBranch.CHANCE * (HORIZON - 1) / HORIZON
"""The share of an episode that is lost on average by who does not know the rare room."""


def _broken(turn: Turn, names: tuple[str, ...]) -> bool:
    """Whether less is promised than is lost by who does not know the rare room, before it was answered for."""
    known = turn.belief.known_actions
    assert known is not None
    answered = [name for name, action in zip(names, known[0], strict=False) if action >= 0]
    return bool(
        "2" not in answered and turn.belief.certificates["policy"].value(turn.belief) < LOST_UNSEEN * HORIZON - 1e-9
    )


class Unmended(gymnasium.Wrapper[Any, Any, Any, Any]):
    """As copies were made before: none of them knows that it is one."""


def copies_run(seed: int, copies: int, *, mended: bool) -> bool:
    """Whether the promise was broken in a run with copies in processes of their own, forked with one random state."""
    np.random.seed(seed)  # noqa: NPY002 - what the copies inherit
    wrapper = Resting if mended else Unmended
    environment = GymVectorEnvironment(
        AsyncVectorEnv([lambda: wrapper(RareBranch(shared=True))] * copies, shared_memory=False), horizon=HORIZON
    )
    settings = Settings(
        strategy="advice", irl="feasible-point", episodes_per_iteration=copies, max_samples=4000, seed=seed
    )
    try:
        turns = learn(environment, ObservationExpert(lambda room: 1, environment), settings)
        return any(_broken(turn, environment.names) for turn in turns)
    finally:
        environment.close()


def undo_run(seed: int, *, skip: bool) -> bool:
    """Whether the promise was broken in an interview in which every surprise is undone.

    The person answers, takes it back, and answers again; or then says that they do not know (`skip`).
    """
    source = Source("studies.attacks:RareBranch", {}, seed=seed, horizon=HORIZON)
    with TemporaryDirectory() as folder:
        interview = Interview.open(Path(folder), source, Accuracy())
        try:
            asked: set[int] = set()
            for _ in itertools.repeat(None, 400):
                if _broken(interview.engine.last_turn, interview.engine.access.names):
                    return True
                if interview.phase == "done":
                    return False
                if interview.phase == "walking":
                    interview.walk_on(0.001)
                    continue
                assert isinstance(interview.asked, Question)
                state = interview.asked.state
                interview.answer(interview.turn, 1)
                if state not in asked and len(asked) > 1:
                    interview.undo(interview.turn)
                    if interview.phase == "asking":
                        interview.skip(interview.turn) if skip else interview.answer(interview.turn, 1)
                asked.add(state)
            return False
        finally:
            interview.close()
