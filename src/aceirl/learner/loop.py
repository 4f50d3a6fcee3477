"""The loop: a program drives the engine with an environment and an expert."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator

from aceirl.errors import AnswerError, InputError, cause, shown
from aceirl.learner.collect import Answers, Reply
from aceirl.learner.engine import Engine
from aceirl.learner.settings import Settings
from aceirl.learner.turns import RunState, Turn
from aceirl.models.tabular.estimate import ExpertKind
from aceirl.models.tabular.mdp import IntArray
from aceirl.protocols import Environment, Expert, Model, Question, TableExpert

LOG_EVERY = 10.0  # seconds


def learn(
    environment: Environment,
    expert: Expert,
    settings: Settings,
    *,
    regret: Callable[[IntArray], float] | None = None,
    state: RunState | None = None,
    reconsider: bool = False,
    model: Model | None = None,
) -> Generator[Turn, None, None]:
    """Learn until the certificate, the regret or the budget says stop; one turn an iteration.

    `regret` measures a policy `[H, S]` against a truth the learner does not see. Give a `state` to go on from it; to
    `reconsider` it is to yield its last turn first, as these settings see it. The `model` is a table unless another one
    is given. The logger `aceirl` is told.
    """
    engine = Engine(environment, answers_of(expert, settings), settings, regret=regret, state=state, model=model)
    if isinstance(expert, TableExpert):
        _check_table(expert, engine)
    log = Log(settings, engine)
    if reconsider and state is not None:
        again = engine.reconsidered()
        yield again
        if again.record.stopped:
            log.over(again)
            return
    while True:
        step = engine.ask()
        if isinstance(step, Question):
            engine.tell(_reply(expert, step, engine))
            continue
        log.turn(step)
        yield step
        if step.record.stopped:
            log.over(step)
            return


class Log:
    """Tells the logger `aceirl` of a run: its start, a line now and then, and its end; every turn at level DEBUG."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self.logger, self.last = logging.getLogger("aceirl"), time.monotonic()
        horizon, _, n_actions = engine.access.shape
        self.logger.info(
            "strategy %s, seed %d, %d steps an episode, %d actions, from sample %d",
            type(settings.strategy).__name__,
            settings.seed,
            horizon,
            n_actions,
            engine.belief.model.totals.samples,
        )

    def turn(self, turn: Turn) -> None:
        """A turn has ended."""
        due = time.monotonic() - self.last >= LOG_EVERY
        self.last = time.monotonic() if due else self.last
        level = logging.INFO if due else logging.DEBUG
        if self.logger.isEnabledFor(level):
            self.logger.log(level, "%s", turn.record.in_words())

    def over(self, turn: Turn) -> None:
        """The run has."""
        self.logger.info("%s; stopped by %s", turn.record.in_words(), turn.record.stopped)


def _check_table(expert: TableExpert, engine: Engine) -> None:
    shape = engine.access.shape
    if expert.policy.shape != shape:
        raise InputError(
            f"the expert's policy is for {_sizes(expert.policy.shape)}, and the environment has {_sizes(shape)}: it is "
            "the expert of another environment"
        )


def _sizes(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} steps, {shape[1]} states and {shape[2]} actions"


def answers_of(expert: Expert, settings: Settings) -> Answers:
    """What the engine has to know of an expert: of what kind it is, and its table, if it has one."""
    again = getattr(expert, "ask_again", 1.0) if settings.ask_again is None else settings.ask_again
    if not isinstance(again, int | float):
        raise InputError(f"the expert's ask_again is {again!r}; it must be a number from 0 to 1")
    declares = bool(getattr(expert, "declares", False))
    kind = ExpertKind(expert.deterministic, expert.stationary, settings.least_probability, again, declares)
    return Answers(kind, expert.policy if isinstance(expert, TableExpert) else None, settings.max_answers)


def _reply(expert: Expert, question: Question, engine: Engine) -> int | Reply:
    try:
        action = expert.answer(question)
    except AnswerError:
        raise
    except Exception as error:
        numbered = engine.access.growing is None and engine.belief.tables is not None
        where = f"in state {question.state}" if numbered else f"on the observation {shown(question.observation)}"
        raise AnswerError(f"the expert failed {where} at step {question.step}: {cause(error)}") from error
    return Reply.SKIP if action is None else action
