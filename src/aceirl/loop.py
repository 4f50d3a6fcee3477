"""The loop: a program drives the engine with an environment and an expert."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aceirl.collect import Answers, Reply
from aceirl.counts import ExpertKind
from aceirl.engine import Engine
from aceirl.errors import AnswerError, InputError, cause
from aceirl.mdp import IntArray
from aceirl.protocols import Environment, Expert, Question, TableExpert
from aceirl.settings import Settings
from aceirl.turns import RunState, Turn


def learn(
    environment: Environment,
    expert: Expert,
    settings: Settings,
    *,
    regret: Callable[[IntArray], float] | None = None,
    state: RunState | None = None,
) -> Iterator[Turn]:
    """Learn until the certificate, the regret or the budget says stop; one turn an iteration.

    `regret` measures a policy `[H, S]` against a truth the learner does not see. Give a `state` to go on from it.
    """
    engine = Engine(environment, answers_of(expert, settings), settings, regret=regret, state=state)
    while True:
        step = engine.ask()
        if isinstance(step, Question):
            engine.tell(_reply(expert, step))
            continue
        yield step
        if step.record.stopped:
            return


def answers_of(expert: Expert, settings: Settings) -> Answers:
    """What the engine has to know of an expert: of what kind it is, and its table, if it has one."""
    again = getattr(expert, "ask_again", 1.0) if settings.ask_again is None else settings.ask_again
    if not isinstance(again, int | float):
        raise InputError(f"the expert's ask_again is {again!r}; it must be a number from 0 to 1")
    kind = ExpertKind(expert.deterministic, expert.stationary, settings.least_probability, again)
    return Answers(kind, expert.policy if isinstance(expert, TableExpert) else None, settings.max_answers)


def _reply(expert: Expert, question: Question) -> int | Reply:
    try:
        action = expert.answer(question)
    except AnswerError:
        raise
    except Exception as error:
        raise AnswerError(
            f"the expert failed in state {question.state} at step {question.step}: {cause(error)}"
        ) from error
    return Reply.SKIP if action is None else action
