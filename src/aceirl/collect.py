"""Episodes and answers become counts: the only place where environment and expert are touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from aceirl.counts import Counts, ExpertKind
from aceirl.errors import AnswerError, InputError, cause
from aceirl.mdp import BoolArray, FloatArray, IntArray
from aceirl.protocols import (
    BatchedEnvironment,
    EndingEnvironment,
    Environment,
    Expert,
    GenerativeModel,
    Moves,
    ParallelEnvironment,
    TableExpert,
)


@dataclass(frozen=True, eq=False)
class Plan:
    """Where to collect next.

    `policy [H, S, A]` says how to act; where `follow [H, S]` is true, the expert's answer is taken instead. A plan for
    a generative model has an `allocation [H, S, A]` of samples and needs neither. A `first_action` is taken at the
    first step of every episode, whatever else is said. The expert is asked in the states visited unless `ask` is false.
    `memory` are arrays the strategy wants to see again next time, to start from; `evidence` is what its planner can say
    of the plan's quality.
    """

    policy: FloatArray | None = None
    follow: BoolArray | None = None
    first_action: int | None = None
    allocation: IntArray | None = None
    ask: bool = True
    memory: Mapping[str, FloatArray] = field(default_factory=dict)
    evidence: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Collected:
    """New observations: their `counts`, and `exits [H+1]`, how the episodes fared on the expert's known route.

    `exits[h]` episodes did what the expert does and met only states where that was known *before* they began, up to
    step `h`; the last entry counts those that did so to the end. All zero if there was no such route to watch.
    """

    counts: Counts
    exits: IntArray


def collect(
    environment: Environment,
    expert: Expert,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    rng: np.random.Generator,
    *,
    max_answers: int | None = None,
) -> Collected:
    """Carry out a plan: `episodes` episodes, or its allocation of samples. Returns the new observations alone.

    The expert is asked in every state visited; a deterministic one is never asked twice what it has answered already,
    and nobody is asked once `max_answers` answers were given in all. In a growing environment the new observations have
    more states than the old.
    """
    if plan.allocation is not None:
        return _sampled(environment, expert, plan.allocation, so_far, rng, max_answers)
    route = known_route(expert, so_far, plan.first_action)
    if isinstance(environment, BatchedEnvironment) and isinstance(expert, TableExpert) and max_answers is None:
        return _batched(environment, expert, plan, episodes, so_far, route, rng)
    questions = _Questions(expert, so_far, max_answers if plan.ask else 0, rng)
    return _step_by_step(environment, questions, plan, episodes, so_far, route, rng)


def known_route(expert: Expert, so_far: Counts, first_action: int | None = None) -> IntArray | None:
    """`[H, S]`: what a deterministic expert is known to do, -1 where it is not; None if the expert draws its actions.

    With a `first_action` the route is to take that one first, wherever it is, and to follow the expert from then on.
    """
    if not expert.deterministic:
        return None
    answers = ExpertKind(stationary=expert.stationary).pooled(so_far.answers)
    route: IntArray = np.where(answers.any(axis=2), answers.argmax(axis=2), -1)
    if first_action is not None:
        route[0] = first_action
    return route


def _sampled(
    environment: Environment,
    expert: Expert,
    allocation: IntArray,
    so_far: Counts,
    rng: np.random.Generator,
    max_answers: int | None,
) -> Collected:
    if not isinstance(environment, GenerativeModel):
        raise InputError("this strategy needs a generative model, and the environment can only be played in episodes")
    if max_answers is not None:
        raise InputError(
            f"max_answers is {max_answers}, but a strategy with a generative model asks wherever it samples"
        )
    moves = environment.sample_many(allocation, rng)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    counts = new.with_answers(_answers(expert, new.visits.sum(axis=2), so_far, rng))
    return Collected(counts, np.zeros(so_far.shape[0] + 1, dtype=np.int64))


def _batched(
    environment: BatchedEnvironment,
    expert: Expert,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    route: IntArray | None,
    rng: np.random.Generator,
) -> Collected:
    assert isinstance(expert, TableExpert)
    assert plan.policy is not None
    policy = plan.policy
    if plan.follow is not None:
        policy = np.where(plan.follow[:, :, None], expert.policy, policy)
    if plan.first_action is not None:
        policy = np.concatenate(
            (np.broadcast_to(np.eye(policy.shape[2])[plan.first_action], policy[:1].shape), policy[1:])
        )
    moves = environment.rollout(policy, episodes, rng, route)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    if not plan.ask:
        return Collected(new, np.zeros(so_far.shape[0] + 1, dtype=np.int64))
    answers = _answers(expert, new.visits.sum(axis=2), so_far, rng)
    if plan.follow is not None and not expert.deterministic:
        # A stochastic expert who was followed gave exactly the actions that were taken; one who was overruled did not.
        overruled = (np.arange(len(policy)) == 0) & (plan.first_action is not None)
        answers = np.where((plan.follow & ~overruled[:, None])[:, :, None], new.visits, answers)
    exits = moves.exits if moves.exits is not None else np.zeros(so_far.shape[0] + 1, dtype=np.int64)
    return Collected(new.with_answers(answers), exits)


def _answers(expert: Expert, asked: IntArray, so_far: Counts, rng: np.random.Generator) -> IntArray:
    """`[H, S, A]`: the answers to `asked [H, S]` questions, less those a deterministic expert has answered before."""
    answers = np.zeros(so_far.shape, dtype=np.int64)
    if expert.deterministic:
        asked = _first_questions(asked > 0, so_far, ExpertKind(stationary=expert.stationary))
    if isinstance(expert, TableExpert):
        steps, states = np.nonzero(asked)
        answers[steps, states] = rng.multinomial(asked[steps, states], _exact(expert.policy[steps, states]))
        return answers
    for step, state in np.argwhere(asked):
        for _ in range(asked[step, state]):
            action = ask(expert, int(step), int(state), so_far.shape[2], rng)
            if action is not None:
                answers[step, state, action] += 1
    return answers


def _exact(policies: FloatArray) -> FloatArray:
    """`[K, A]` distributions that numpy's multinomial takes: they sum to one as closely as floats allow."""
    exact: FloatArray = policies / policies.sum(axis=1, keepdims=True)
    return exact


def _first_questions(visited: BoolArray, so_far: Counts, kind: ExpertKind) -> IntArray:
    """`[H, S]`: one question for each visited state not known yet; at its first step, if the expert is stationary."""
    new = visited & (kind.pooled(so_far.answers).sum(axis=2) == 0)
    if kind.stationary:
        new &= np.cumsum(new, axis=0) == 1
    return np.asarray(new, dtype=np.int64)


class _Questions:
    """The expert with a memory: what a deterministic one has said, or would not say, is not asked again."""

    def __init__(self, expert: Expert, so_far: Counts, max_answers: int | None, rng: np.random.Generator) -> None:
        self.expert, self.n_actions, self.rng = expert, so_far.shape[2], rng
        self.left = np.inf if max_answers is None else max_answers - so_far.questions
        self.answers: list[tuple[int, int, int]] = []
        self.memory: dict[tuple[int, int], int | None] = {}
        if expert.deterministic:
            answers = so_far.answers.sum(axis=0, keepdims=True) if expert.stationary else so_far.answers
            known = np.argwhere(answers.any(axis=2))
            self.memory = {(int(h), int(s)): int(answers[h, s].argmax()) for h, s in known}

    def answer(self, step: int, state: int) -> int | None:
        """What the expert says of a state, as often as it is visited; None if it says nothing."""
        question = (0 if self.expert.stationary else step, state)
        if question in self.memory:
            return self.memory[question]
        if self.left <= 0:
            return None
        action = ask(self.expert, step, state, self.n_actions, self.rng)
        if action is not None:
            self.left -= 1
            self.answers.append((step, state, action))
        if self.expert.deterministic:
            self.memory[question] = action
        return action

    def counted(self, shape: tuple[int, int, int]) -> IntArray:
        """The new answers, `[H, S, A]`."""
        counts = np.zeros(shape, dtype=np.int64)
        np.add.at(counts, tuple(np.array(self.answers, dtype=np.int64).reshape(-1, 3).T), 1)
        return counts


class _OneCopy:
    """Any environment, as one in which a single episode is played at a time."""

    copies = 1

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def begin(self, episodes: int, rng: np.random.Generator) -> list[int]:
        return [self._environment.reset(rng)]

    def advance(self, actions: Mapping[int, int]) -> dict[int, int]:
        return {0: self._environment.step(actions[0])}


def _step_by_step(
    environment: Environment,
    questions: _Questions,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    route: IntArray | None,
    rng: np.random.Generator,
) -> Collected:
    end = environment.end if isinstance(environment, EndingEnvironment) else None
    parallel = environment if isinstance(environment, ParallelEnvironment) else _OneCopy(environment)
    starts: list[int] = []
    path: list[tuple[int, int, int, int]] = []
    exits = np.zeros(environment.horizon + 1, dtype=np.int64)
    while len(starts) < episodes:
        here = parallel.begin(min(parallel.copies, episodes - len(starts)), rng)
        starts += here
        walks: list[list[tuple[int, int, int, int]]] = [[] for _ in here]
        for step in range(environment.horizon):
            chosen = {
                episode: _action(plan, step, state, questions.answer(step, state), rng)
                for episode, state in enumerate(here)
                if state != end
            }
            if not chosen:
                break
            for episode, successor in parallel.advance(chosen).items():
                walks[episode].append((step, here[episode], chosen[episode], successor))
                here[episode] = successor
        for walk in walks:
            path += walk
            if route is not None:
                exits[first_exit(route, walk)] += 1
    horizon, _, n_actions = so_far.shape
    shape = (horizon, environment.n_states, n_actions)
    begun = np.bincount(starts, minlength=shape[1])
    steps, states, actions, successors = np.array(path, dtype=np.int64).reshape(-1, 4).T
    moves = Moves(steps, states, actions, successors, np.ones_like(steps), begun)
    counts = Counts.of_moves(moves, shape, stationary=so_far.stationary).with_answers(questions.counted(shape))
    return Collected(counts, exits)


def first_exit(route: IntArray, episode: list[tuple[int, int, int, int]]) -> int:
    """The step at which an episode of moves `(step, state, action, successor)` first strays from a route; H if never.

    As in `BatchedEnvironment.rollout`. A state met only in this episode is on no route.
    """
    horizon, n_states = route.shape
    for step, state, action, _ in episode:
        if state >= n_states or route[step, state] < 0:
            return step
        if action != route[step, state]:
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


def ask(expert: Expert, step: int, state: int, n_actions: int, rng: np.random.Generator) -> int | None:
    """One answer, checked; None if the expert has nothing to say."""
    try:
        action = expert.answer(step, state, rng)
    except AnswerError:
        raise
    except Exception as error:
        raise AnswerError(f"the expert failed in state {state} at step {step}: {cause(error)}") from error
    if action is None:
        return None
    if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < n_actions:
        raise AnswerError(
            f"the expert answered {action!r} in state {state} at step {step}; actions are 0 to {n_actions - 1}"
        )
    return int(action)
