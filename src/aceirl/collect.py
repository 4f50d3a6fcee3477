"""Episodes and answers become counts: the only place where the environment is touched.

Walking is a generator: it goes as far as it can without the expert, yields a `Question`, and is sent the answer.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from aceirl.belief import Plan
from aceirl.counts import Counts, ExpertKind
from aceirl.errors import InputError
from aceirl.mdp import BoolArray, FloatArray, IntArray
from aceirl.protocols import Access, Moves

Move = tuple[int, int, int, int]
"""`(step, state, action, successor)`."""


class Reply(Enum):
    """What can be replied to a question instead of an action."""

    SKIP = "skip"
    """The expert has nothing to say about this state; it is not asked about it again in this batch."""
    NOBODY = "nobody"
    """Nobody is there to be asked; there are no more questions in this batch."""


@dataclass(frozen=True, eq=False)
class Question:
    """What would the expert do in `state` at `step`?

    `walk` are the moves of the episode that led there. A stochastic expert should draw its answer from `rng`, the
    run's own generator.
    """

    step: int
    state: int
    walk: Sequence[Move]
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class Collected:
    """New observations: their `counts`, and `first_deviations [H+1]` from the known expert actions.

    `first_deviations[h]` episodes did what the expert does and met only states where that was known *before* they
    began, up to step `h`; the last entry counts those that did so to the end. All zero if nothing was watched.
    """

    counts: Counts
    first_deviations: IntArray


Walking = Generator[Question, int | Reply, Collected]


@dataclass(frozen=True, eq=False)
class Answers:
    """How the expert answers: its kind; its `table [H, S, A]`, if that is known, so that nobody has to be asked; and
    how many answers it may give in all."""

    kind: ExpertKind
    table: FloatArray | None = None
    limit: int | None = None


def collect(
    access: Access,
    answers: Answers,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    watched: IntArray | None,
    rng: np.random.Generator,
) -> Walking:
    """Carry out a plan: `episodes` episodes, or its allocation of samples. Returns the new observations alone.

    The expert is asked in every state visited; a deterministic one is never asked twice what it has answered already,
    and nobody is asked once the limit of answers is reached. Known expert actions are `watched [H, S]`: see `Moves`. In
    a growing environment the new observations have more states than the old.
    """
    if plan.allocation is not None:
        return (yield from _sampled(access, answers, plan.allocation, so_far, rng))
    if access.batched is not None and answers.table is not None and answers.limit is None:
        return _batched(access, answers, plan, episodes, so_far, watched, rng)
    questions = _Questions(answers.kind, so_far, answers.limit if plan.ask else 0, rng)
    return (yield from _step_by_step(access, questions, plan, episodes, so_far, watched, rng))


def _sampled(
    access: Access, answers: Answers, allocation: IntArray, so_far: Counts, rng: np.random.Generator
) -> Walking:
    if access.generative is None:
        raise InputError("this strategy needs a generative model, and the environment can only be played in episodes")
    if answers.limit is not None:
        raise InputError(
            f"max_answers is {answers.limit}, but a strategy with a generative model asks wherever it samples"
        )
    moves = access.generative.sample_many(allocation, rng)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    asked = new.visits.sum(axis=2)
    if answers.table is not None:
        given = _table_answers(answers.kind, answers.table, asked, so_far, rng)
    else:
        questions = _Questions(answers.kind, so_far, None, rng)
        for step, state in np.argwhere(asked).tolist():
            for _ in range(asked[step, state]):
                yield from questions.answer(step, state, ())
        given = questions.counted(so_far.shape)
    return Collected(new.with_answers(given), np.zeros(so_far.shape[0] + 1, dtype=np.int64))


def _batched(
    access: Access,
    answers: Answers,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    watched: IntArray | None,
    rng: np.random.Generator,
) -> Collected:
    assert access.batched is not None
    assert answers.table is not None
    assert plan.policy is not None
    policy = plan.policy
    if plan.follow is not None:
        policy = np.where(plan.follow[:, :, None], answers.table, policy)
    if plan.first_action is not None:
        policy = np.concatenate(
            (np.broadcast_to(np.eye(policy.shape[2])[plan.first_action], policy[:1].shape), policy[1:])
        )
    moves = access.batched.rollout(policy, episodes, rng, watched)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    if not plan.ask:
        return Collected(new, np.zeros(so_far.shape[0] + 1, dtype=np.int64))
    given = _table_answers(answers.kind, answers.table, new.visits.sum(axis=2), so_far, rng)
    if plan.follow is not None and not answers.kind.deterministic:
        # A stochastic expert who was followed gave exactly the actions that were taken; one who was overruled did not.
        overruled = (np.arange(len(policy)) == 0) & (plan.first_action is not None)
        given = np.where((plan.follow & ~overruled[:, None])[:, :, None], new.visits, given)
    none = np.zeros(so_far.shape[0] + 1, dtype=np.int64)
    return Collected(new.with_answers(given), none if moves.first_deviations is None else moves.first_deviations)


def _table_answers(
    kind: ExpertKind, table: FloatArray, asked: IntArray, so_far: Counts, rng: np.random.Generator
) -> IntArray:
    """`[H, S, A]`: the answers to `asked [H, S]` questions, less those a deterministic expert has answered before."""
    answers = np.zeros(so_far.shape, dtype=np.int64)
    if kind.deterministic:
        asked = _first_questions(asked > 0, so_far, kind)
    steps, states = np.nonzero(asked)
    chances = table[steps, states]
    # numpy's multinomial wants distributions that sum to one as closely as floats allow.
    answers[steps, states] = rng.multinomial(asked[steps, states], chances / chances.sum(axis=1, keepdims=True))
    return answers


def _first_questions(visited: BoolArray, so_far: Counts, kind: ExpertKind) -> IntArray:
    """`[H, S]`: one question for each visited state not known yet; at its first step, if the expert is stationary."""
    new = visited & (kind.pooled(so_far.answers).sum(axis=2) == 0)
    if kind.stationary:
        new &= np.cumsum(new, axis=0) == 1
    return np.asarray(new, dtype=np.int64)


class _Questions:
    """The expert with a memory: what a deterministic one has said, or would not say, is not asked again."""

    def __init__(self, kind: ExpertKind, so_far: Counts, limit: int | None, rng: np.random.Generator) -> None:
        self.kind, self.rng = kind, rng
        self.left = np.inf if limit is None else limit - so_far.questions
        self.answers: list[tuple[int, int, int]] = []
        self.memory: dict[tuple[int, int], int | None] = {}
        if kind.deterministic:
            answers = so_far.answers.sum(axis=0, keepdims=True) if kind.stationary else so_far.answers
            known = np.argwhere(answers.any(axis=2))
            self.memory = {(int(h), int(s)): int(answers[h, s].argmax()) for h, s in known}

    def answer(self, step: int, state: int, walk: Sequence[Move]) -> Generator[Question, int | Reply, int | None]:
        """What the expert says of a state, as often as it is visited; None if it says nothing."""
        question = (0 if self.kind.stationary else step, state)
        if question in self.memory:
            return self.memory[question]
        if self.left <= 0:
            return None
        reply = yield Question(step, state, walk, self.rng)
        if reply is Reply.NOBODY:
            self.left = 0
            return None
        action = None if reply is Reply.SKIP else reply
        if action is not None:
            self.left -= 1
            self.answers.append((step, state, action))
        if self.kind.deterministic:
            self.memory[question] = action
        return action

    def counted(self, shape: tuple[int, int, int]) -> IntArray:
        """The new answers, `[H, S, A]`."""
        counts = np.zeros(shape, dtype=np.int64)
        np.add.at(counts, tuple(np.array(self.answers, dtype=np.int64).reshape(-1, 3).T), 1)
        return counts


def _step_by_step(
    access: Access,
    questions: _Questions,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    watched: IntArray | None,
    rng: np.random.Generator,
) -> Walking:
    end, horizon = access.end, so_far.shape[0]
    starts: list[int] = []
    walks: list[list[Move]] = []
    while len(starts) < episodes:
        here = access.parallel.begin(min(access.parallel.num_envs, episodes - len(starts)), rng)
        starts += here
        current: list[list[Move]] = [[] for _ in here]
        for step in range(horizon):
            chosen = {}
            for episode, state in enumerate(here):
                if state != end:
                    answer = yield from questions.answer(step, state, current[episode])
                    chosen[episode] = _action(plan, step, state, answer, rng)
            if not chosen:
                break
            for episode, successor in access.parallel.advance(chosen).items():
                current[episode].append((step, here[episode], chosen[episode], successor))
                here[episode] = successor
        walks += current
    counts = counts_of_walks(starts, walks, access.shape, stationary=so_far.stationary)
    first = first_deviations(watched, walks, horizon)
    return Collected(counts.with_answers(questions.counted(access.shape)), first)


def counts_of_walks(
    starts: Sequence[int], walks: Sequence[Sequence[Move]], shape: tuple[int, int, int], *, stationary: bool
) -> Counts:
    """The counts of episodes that were walked; no answers."""
    flat = np.array([move for walk in walks for move in walk], dtype=np.int64).reshape(-1, 4)
    steps, states, actions, successors = flat.T
    begun = np.bincount(starts, minlength=shape[1])
    return Counts.of_moves(
        Moves(steps, states, actions, successors, np.ones_like(steps), begun), shape, stationary=stationary
    )


def first_deviations(watched: IntArray | None, walks: Sequence[Sequence[Move]], horizon: int) -> IntArray:
    """`[H+1]`: how many episodes first deviated from the `watched [H, S]` actions at each step, or never; see `Moves`."""
    counted = np.zeros(horizon + 1, dtype=np.int64)
    if watched is not None:
        for walk in walks:
            counted[_first_deviation(watched, walk)] += 1
    return counted


def _first_deviation(watched: IntArray, walk: Sequence[Move]) -> int:
    """A state met only in this episode has no known action."""
    horizon, n_states = watched.shape
    for step, state, action, _ in walk:
        if state >= n_states or watched[step, state] < 0:
            return step
        if action != watched[step, state]:
            return step + 1
    return int(horizon)


def _action(plan: Plan, step: int, state: int, answer: int | None, rng: np.random.Generator) -> int:
    """What the plan says, or the expert where it is followed. In a state met only now a plan that follows the expert
    anywhere follows it too, and any other takes any action."""
    assert plan.policy is not None
    if step == 0 and plan.first_action is not None:
        return plan.first_action
    _, n_states, n_actions = plan.policy.shape
    planned = state < n_states
    followed = plan.follow is not None and (plan.follow[step, state] if planned else plan.follow.any())
    if followed and answer is not None:
        return answer
    if not planned:
        return int(rng.integers(n_actions))
    action = int(np.searchsorted(np.cumsum(plan.policy[step, state]), rng.random(), side="right"))
    return min(action, int(n_actions) - 1)
