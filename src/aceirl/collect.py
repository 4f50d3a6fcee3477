"""Episodes and answers become counts: the only place where environment and expert are touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from aceirl.counts import Counts, ExpertKind
from aceirl.errors import AnswerError, InputError
from aceirl.mdp import BoolArray, FloatArray, IntArray
from aceirl.protocols import BatchedEnvironment, Environment, Expert, GenerativeModel, Moves, TableExpert


@dataclass(frozen=True, eq=False)
class Plan:
    """Where to collect next.

    `policy [H, S, A]` says how to act; where `follow [H, S]` is true, the expert's answer is taken instead. A plan for
    a generative model has an `allocation [H, S, A]` of samples and needs neither. `memory` are arrays the strategy
    wants to see again next time, to start from; `evidence` is what its planner can say of the plan's quality.
    """

    policy: FloatArray | None = None
    follow: BoolArray | None = None
    allocation: IntArray | None = None
    memory: Mapping[str, FloatArray] = field(default_factory=dict)
    evidence: Mapping[str, float] = field(default_factory=dict)


def collect(
    environment: Environment, expert: Expert, plan: Plan, episodes: int, so_far: Counts, rng: np.random.Generator
) -> Counts:
    """Carry out a plan: `episodes` episodes, or its allocation of samples. Returns the new observations alone.

    The expert is asked in every state visited; a deterministic one is never asked twice what it has answered already.
    """
    if plan.allocation is not None:
        return _sampled(environment, expert, plan.allocation, so_far, rng)
    if isinstance(environment, BatchedEnvironment) and isinstance(expert, TableExpert):
        return _batched(environment, expert, plan, episodes, so_far, rng)
    return _step_by_step(environment, expert, plan, episodes, so_far, rng)


def _sampled(
    environment: Environment, expert: Expert, allocation: IntArray, so_far: Counts, rng: np.random.Generator
) -> Counts:
    if not isinstance(environment, GenerativeModel):
        raise InputError("this strategy needs a generative model, and the environment can only be played in episodes")
    moves = environment.sample_many(allocation, rng)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    return new.with_answers(_answers(expert, new.visits.sum(axis=2), so_far, rng))


def _batched(
    environment: BatchedEnvironment,
    expert: Expert,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    rng: np.random.Generator,
) -> Counts:
    assert isinstance(expert, TableExpert)
    assert plan.policy is not None
    policy = plan.policy
    if plan.follow is not None:
        policy = np.where(plan.follow[:, :, None], expert.policy, policy)
    moves = environment.rollout(policy, episodes, rng)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    answers = _answers(expert, new.visits.sum(axis=2), so_far, rng)
    if plan.follow is not None and not expert.deterministic:
        # A stochastic expert who was followed gave exactly the actions that were taken.
        answers = np.where(plan.follow[:, :, None], new.visits, answers)
    return new.with_answers(answers)


def _answers(expert: Expert, asked: IntArray, so_far: Counts, rng: np.random.Generator) -> IntArray:
    """`[H, S, A]`: the answers to `asked [H, S]` questions, less those a deterministic expert has answered before."""
    answers = np.zeros(so_far.shape, dtype=np.int64)
    if expert.deterministic:
        asked = _first_questions(asked > 0, so_far, ExpertKind(stationary=expert.stationary))
    if isinstance(expert, TableExpert):
        steps, states = np.nonzero(asked)
        answers[steps, states] = rng.multinomial(asked[steps, states], expert.policy[steps, states])
        return answers
    for step, state in np.argwhere(asked):
        for _ in range(asked[step, state]):
            answers[step, state, ask(expert, int(step), int(state), so_far.shape[2], rng)] += 1
    return answers


def _first_questions(visited: BoolArray, so_far: Counts, kind: ExpertKind) -> IntArray:
    """`[H, S]`: one question for each visited state of which nothing is known; at its first step, if steps don't matter."""
    new = visited & (kind.pooled(so_far.answers).sum(axis=2) == 0)
    if kind.stationary:
        new &= np.cumsum(new, axis=0) == 1
    return new.astype(np.int64)


def _step_by_step(
    environment: Environment,
    expert: Expert,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    rng: np.random.Generator,
) -> Counts:
    assert plan.policy is not None
    horizon, n_states, n_actions = so_far.shape
    kind = ExpertKind(stationary=expert.stationary)
    pooled = kind.pooled(so_far.answers)
    memory = {(int(h), int(s)): int(pooled[h, s].argmax()) for h, s in np.argwhere(pooled.sum(axis=2) > 0)}
    answers = np.zeros(so_far.shape, dtype=np.int64)
    starts = np.zeros(n_states, dtype=np.int64)
    path: list[tuple[int, int, int, int]] = []
    for _ in range(episodes):
        state = environment.reset(rng)
        starts[state] += 1
        for step in range(horizon):
            known = memory.get((step, state)) if expert.deterministic else None
            if known is None:
                known = ask(expert, step, state, n_actions, rng)
                answers[step, state, known] += 1
                for h in range(horizon) if expert.stationary else (step,):
                    memory[h, state] = known
            if plan.follow is not None and plan.follow[step, state]:
                action = known
            else:
                action = int(np.searchsorted(np.cumsum(plan.policy[step, state]), rng.random(), side="right"))
                action = min(action, n_actions - 1)
            successor = environment.step(action)
            path.append((step, state, action, successor))
            state = successor
    step_, state_, action_, successor_ = np.array(path, dtype=np.int64).reshape(-1, 4).T
    moves = Moves(step_, state_, action_, successor_, np.ones_like(step_), starts)
    return Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary).with_answers(answers)


def ask(expert: Expert, step: int, state: int, n_actions: int, rng: np.random.Generator) -> int:
    """One answer, checked."""
    try:
        action = expert.answer(step, state, rng)
    except AnswerError:
        raise
    except Exception as error:
        raise AnswerError(
            f"the expert failed in state {state} at step {step}: {type(error).__name__}: {error}"
        ) from error
    if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < n_actions:
        raise AnswerError(
            f"the expert answered {action!r} in state {state} at step {step}; actions are 0 to {n_actions - 1}"
        )
    return int(action)
