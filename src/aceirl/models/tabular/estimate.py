"""Estimate: what the learner believes of the process and of the expert because of the counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import InitVar, dataclass, field
from functools import cached_property

import numpy as np

from aceirl.data.dataset import Totals
from aceirl.data.preferences import Preference
from aceirl.errors import InputError
from aceirl.models.tabular.counts import Counts, StepCounts
from aceirl.models.tabular.kernels import compiled, frequencies
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray, Successors, Transitions


@dataclass(frozen=True)
class ExpertKind:
    """What is assumed of the expert.

    `least_probability` is, for a stochastic expert, a floor on the probability of every action it uses; without it no
    number of answers rules an action out. `ask_again` is how often a deterministic one is asked about a state for which
    it has answered, to see whether it looks at more than the state. One that `declares` has said of many states at once
    what it would do there.
    """

    deterministic: bool = True
    stationary: bool = False
    least_probability: float | None = None
    ask_again: float = 0.0
    declares: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.ask_again <= 1:
            raise InputError(f"ask_again must be between 0 and 1, got {self.ask_again}")
        floor = self.least_probability
        if floor is not None and not 0 < floor <= 1:
            raise InputError(f"least_probability must be in (0, 1], got {floor}")

    @property
    def asked_everywhere(self) -> bool:
        """Whether nothing is assumed of how its answers depend on the state: it is asked wherever that would matter."""
        return self.ask_again == 1

    @property
    def imputed(self) -> bool:
        """Whether it may be imputed to answer as it did elsewhere, until it says otherwise.

        Not if it may be heard to say otherwise where it has answered: then what is imputed would not stand.
        """
        return self.deterministic and self.ask_again == 0

    def given(self, counts: Counts | Totals) -> int:
        """How many answers it gave, repeats included unless it is asked everywhere: then they cost nothing."""
        return counts.questions + (0 if self.asked_everywhere else counts.repeated)

    def settled(self, answers: IntArray, delta: float, possible_states: float | None = None) -> BoolArray:
        """`[H, S]`: whether the actions the expert uses are known, but for probability `delta` over all states.

        A deterministic expert: after one answer. A stochastic one: `m` answers miss a used action with probability at
        most `(1 - least_probability)^m`, with a union over all `(h, s, a)` that there can be.
        """
        given = self.pooled(answers).sum(axis=2)
        if self.deterministic or self.least_probability == 1:
            return np.asarray(given > 0)
        if self.least_probability is None:
            return np.zeros(given.shape, dtype=np.bool_)
        horizon, met, n_actions = answers.shape
        questions = horizon * (possible_states or met) * n_actions
        needed = np.log(questions / delta) / -np.log1p(-self.least_probability)
        return np.asarray(given >= needed)

    def pooled(self, answers: IntArray) -> IntArray:
        """`[H, S, A]`: the answers that count at each step; all of them, if the expert is stationary."""
        return np.broadcast_to(answers.sum(axis=0), answers.shape) if self.stationary else answers

    def known_actions(self, given: StepCounts) -> IntArray | None:
        """`[H, S]`: what a deterministic expert is known to do by its answers, -1 where it is not; None if it is
        stochastic."""
        if not self.deterministic:
            return None
        answers = given.pooled[None] if self.stationary else given.table
        known = np.where(answers.any(axis=2), answers.argmax(axis=2), -1)
        return np.repeat(known, given.shape[0], axis=0) if self.stationary else known


@compiled
def first_questions(visits: IntArray, answers: IntArray, stationary: bool) -> IntArray:
    """`[H, S]`: one question for each visited state not known yet; at its first step, if the expert is stationary.

    The rule of `AnswerMemory`, in bulk: `visits [H, S]` are those of a batch, `answers [H, S, A]` those given before.
    """
    horizon, n_states = visits.shape
    asked = np.zeros(visits.shape, np.int64)
    for s in range(n_states):
        known = bool(stationary and answers[:, s].any())
        for h in range(horizon):
            if visits[h, s] > 0 and not known and (stationary or not answers[h, s].any()):
                asked[h, s], known = 1, stationary
    return asked


CERTAIN = 2**60
"""As many observations, over all steps of an episode, as are as good as certainty."""


@dataclass(frozen=True, eq=False)
class AnswerTables:
    """What the answers that were `given` say of the expert, under what is assumed of it; worked out when asked for.

    The fields are those of `Estimate`, which has these tables too, as long as no answer is new the same ones.
    """

    given: StepCounts
    kind: ExpertKind
    delta: float
    terminal: frozenset[int]
    possible_states: float

    @property
    def answers(self) -> IntArray:
        """`[H, S, A]`: how often each action was the answer."""
        return self.given.table

    @cached_property
    def answered(self) -> BoolArray:
        """`[H, S]`: whether an answer of the expert counts there."""
        return np.asarray(self.kind.pooled(self.answers).any(axis=2))

    @cached_property
    def expert_known(self) -> BoolArray:
        """`[H, S]`: whether the actions that the expert uses are known; after the end there is nothing to know."""
        settled = self.kind.settled(self.answers, self.delta, self.possible_states).copy()
        settled[:, sorted(self.terminal)] = True
        return settled

    @cached_property
    def expert_policy(self) -> FloatArray:
        """`[H, S, A]`: the answers' frequencies; the commonest answer if the expert is deterministic.

        Uniform where nobody was asked: the choice of largest entropy, and not a claim.
        """
        answers = self.kind.pooled(self.answers)
        n_actions = answers.shape[2]
        if self.kind.deterministic:
            policy = np.eye(n_actions)[answers.argmax(axis=2)]
        else:
            policy = answers / np.maximum(1, answers.sum(axis=2, keepdims=True))
        return np.asarray(np.where(self.answered[:, :, None], policy, 1.0 / n_actions), dtype=np.float64)

    @cached_property
    def expert_uses(self) -> BoolArray:
        """`[H, S, A]`: the actions the expert is known to take."""
        return np.asarray((self.expert_policy > 0) & self.answered[:, :, None])

    @cached_property
    def allowed(self) -> BoolArray:
        """`[H, S, A]`: the same, and all actions where none is known."""
        return np.asarray(self.expert_uses | ~self.answered[:, :, None])

    @cached_property
    def known_actions(self) -> IntArray | None:
        """`[H, S]`: what the expert is known to do, -1 where it is not; None if it is stochastic."""
        return self.kind.known_actions(self.given)

    @cached_property
    def imputed_actions(self) -> IntArray:
        """`[H, S]`: what a deterministic expert is known to do, and elsewhere its commonest answers."""
        known = self.known_actions
        assert known is not None
        return np.where(known < 0, self.common_answers[:-1], known)

    @cached_property
    def common_answers(self) -> IntArray:
        """`[S+1]`: the commonest answer in each state over all steps; where there is none, and in states never met (the
        last entry), the commonest of all. -1 before any answer."""
        by_state = np.vstack((self.given.pooled, np.zeros((1, self.given.shape[2]), dtype=np.int64)))
        overall = by_state.sum(axis=0)
        commonest = np.where(by_state.any(axis=1), by_state.argmax(axis=1), overall.argmax())
        return commonest if overall.any() else np.full(len(by_state), -1)

    @cached_property
    def doubts(self) -> FloatArray | None:
        """`[H, S]`: `imputation_doubts` of the commonest answers; None if the expert is stochastic."""
        return None if self.known_actions is None else imputation_doubts(self, self.common_answers)


def imputation_doubts(tables: AnswerTables, imputed: IntArray) -> FloatArray:
    """`[H, S]`: how likely the expert does not do what is `imputed [S+1]` of it; 0 where its action is known. A guess.

    In a state with answers: as many of them are others than imputed, and as many in all such states, the latter with
    the weight of one answer. In a state without any: as many states with answers have others than are imputed there.
    """
    assert tables.known_actions is not None
    doubt = np.zeros(tables.known_actions.shape)
    _doubt(tables.known_actions, imputed, tables.common_answers, doubt)
    doubt.flags.writeable = False
    return doubt


@compiled
def _doubt(known: IntArray, imputed: IntArray, common: IntArray, doubt: FloatArray) -> None:
    horizon, n_states = known.shape
    answers, wrong = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon):
        for s in range(n_states):
            if known[h, s] >= 0:
                answers[s] += 1
                wrong[s] += known[h, s] != imputed[s]
    tried, met, others = 0.0, 0.0, 0.0
    for s in range(n_states):
        # Of the answers of a state one is no trial: by it the action is imputed.
        tried += max(answers[s] - 1, wrong[s])
        met += answers[s] > 0
        others += answers[s] > 0 and common[s] != imputed[n_states]
    overall, unmet = (wrong.sum() + 1) / (tried + 2), (others + 1) / (met + 2)
    of_state = answers
    for s in range(n_states):
        if imputed[s] < 0:
            of_state[s] = 0.0
        elif answers[s] > 0:
            of_state[s] = (wrong[s] + overall) / (max(answers[s] - 1, wrong[s]) + 1)
        else:
            of_state[s] = unmet
    for h in range(horizon):
        for s in range(n_states):
            if known[h, s] < 0:
                doubt[h, s] = of_state[s]


@compiled
def _laid_out(
    move_keys: IntArray, over: IntArray, steps: int, n_states: int, n_actions: int
) -> tuple[IntArray, IntArray, IntArray, Successors, FloatArray]:
    """`(moved, staying, indptr, successors, probabilities)`: where moves, and stays in states that are `over`, lie in
    the rows of all steps, and the rows, in each of which all successors are as likely as any other."""
    n_stays = steps * over.size * n_actions
    moved, staying = np.empty(move_keys.size, np.int64), np.empty(n_stays, np.int64)
    indptr = np.zeros(steps * n_states * n_actions + 1, np.int64)
    successors = np.empty(move_keys.size + n_stays, np.int32)
    i, j, n = 0, 0, 0
    while i < move_keys.size or j < n_stays:
        stay = -1
        if j < n_stays:
            row, state = j // n_actions, over[j // n_actions % over.size]
            stay = ((row // over.size * n_states + state) * n_actions + j % n_actions) * n_states + state
        move = move_keys[i] if i < move_keys.size else -1
        key = move if stay < 0 or 0 <= move <= stay else stay
        indptr[key // n_states + 1] += 1
        successors[n] = key % n_states
        if key == move:
            moved[i], i = n, i + 1
        if key == stay:
            staying[j], j = n, j + 1
        n += 1
    probabilities = np.empty(n)
    for row in range(indptr.size - 1):
        first, often = indptr[row], indptr[row + 1]
        indptr[row + 1] += first
        for k in range(first, first + often):
            probabilities[k] = 1.0 / often
    return moved, staying, indptr, successors[:n].copy(), probabilities


@dataclass(frozen=True, eq=False)
class _Rows:
    """Which successors were seen of each row: the same as long as no row has shown a new one."""

    move_keys: IntArray
    shape: tuple[int, int, int]
    stationary: bool
    terminal: frozenset[int]

    @cached_property
    def terminal_states(self) -> IntArray:
        """The terminal states, in order."""
        return np.array(sorted(self.terminal), dtype=np.int64)

    @cached_property
    def move_rows(self) -> IntArray:
        """`[moves]`: the row of each of the counted moves."""
        return self.move_keys // self.shape[1]

    @cached_property
    def laid_out(self) -> tuple[IntArray, IntArray, Transitions]:
        """Where each move and each stay in a terminal state lies in the rows, and the rows with some probabilities."""
        horizon, n_states, n_actions = self.shape
        steps = None if self.stationary else horizon
        over = self.terminal_states
        if len(over) and not 0 <= over[0] <= over[-1] < n_states:
            wrong = over[0] if over[0] < 0 else over[-1]
            raise InputError(f"episodes are said to end in the state {wrong}, not one of 0 to {n_states - 1}")
        moved, staying, indptr, successors, even = _laid_out(self.move_keys, over, steps or 1, n_states, n_actions)
        return moved, staying, Transitions(n_states, n_actions, indptr, successors, even, steps)


def _same(one: AnswerTables | _Rows, other: AnswerTables | _Rows) -> bool:
    """Whether both are of the very same arrays, under the same assumptions."""
    pairs = ((getattr(one, name), getattr(other, name)) for name in one.__match_args__)
    return all(a is b or (not isinstance(a, np.ndarray) and a == b) for a, b in pairs)


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the counts say: `P̂`, `π̂ᴱ`, and how much stands behind each; worked out when first asked for.

    Paper, §"Estimating Transition Model and Expert Policy". Differs: a row never visited has no estimate, and an expert
    never asked is not assumed to act in any way.

    `kind` is what is assumed of the expert, `delta` how often what is settled of a stochastic one may be wrong. The
    start `initial [S]` is given where the learner is told it. `terminal` are the states in which episodes that are over
    stay; that needs no observation. `possible_states` is how many states there can be, infinite if nobody can say.
    `preferences` say which of two episodes the expert likes better: they tell of its reward, and of nothing else. Its
    returns are taken to be discounted, by `discount` a step.
    """

    counts: Counts
    kind: ExpertKind
    delta: float
    initial: FloatArray | None
    terminal: frozenset[int]
    possible_states: float
    preferences: tuple[Preference, ...] = ()
    discount: float = 1.0

    @classmethod
    def of(
        cls,
        counts: Counts,
        *,
        kind: ExpertKind,
        delta: float,
        initial: FloatArray | None = None,
        terminal: Collection[int] = (),
        possible_states: float | None = None,
        preferences: tuple[Preference, ...] = (),
        discount: float = 1.0,
        before: Estimate | None = None,
    ) -> Estimate:
        """From counts and assumptions; by default there are no states but those of the counts."""
        possible = counts.shape[1] if possible_states is None else possible_states
        return cls(counts, kind, delta, initial, frozenset(terminal), possible, preferences, discount, before)

    @property
    def start_known(self) -> bool:
        """Whether the learner was told the start."""
        return self.initial is not None

    said: AnswerTables = field(init=False)
    rows: _Rows = field(init=False)
    before: InitVar[Estimate | None] = None
    """What fewer counts said: what follows from what has not changed since is not worked out again."""

    def __post_init__(self, before: Estimate | None) -> None:
        counts = self.counts
        said = AnswerTables(counts.given, self.kind, self.delta, self.terminal, self.possible_states)
        rows = _Rows(counts.move_keys, counts.shape, counts.stationary, self.terminal)
        if before is not None:
            said = before.said if _same(said, before.said) else said
            rows = before.rows if _same(rows, before.rows) else rows
        object.__setattr__(self, "said", said)
        object.__setattr__(self, "rows", rows)

    @property
    def terminal_states(self) -> IntArray:
        """The terminal states, in order."""
        return self.rows.terminal_states

    @property
    def move_rows(self) -> IntArray:
        """`[moves]`: the row of each of the counted moves."""
        return self.rows.move_rows

    @cached_property
    def mdp(self) -> MDP:
        """The estimated process; a row never visited is unknown, and after the end nothing happens any more."""
        counts = self.counts
        moved, staying, transitions = self.rows.laid_out
        probabilities = np.empty(len(transitions.successors))
        frequencies(transitions.indptr, moved, counts.move_counts, staying, probabilities)
        probabilities.flags.writeable = False
        horizon, estimated = counts.shape[0], transitions.with_probabilities(probabilities, trusted=True)
        if self.initial is not None:
            return MDP(horizon, estimated, self.initial, self.discount)
        return MDP.trusted(horizon, estimated, counts.starts / max(1, counts.episodes), self.discount)

    @cached_property
    def step_visits(self) -> IntArray:
        """`[H, S, A]`: observations made at that very step; as good as certain where episodes are over."""
        if not self.terminal:
            return self.counts.visits
        visits = self.counts.visits.copy()
        visits[:, self.terminal_states] += CERTAIN // visits.shape[0]
        visits.flags.writeable = False
        return visits

    @cached_property
    def observed(self) -> IntArray:
        """`[rows]`: observations that stand behind each row of the process."""
        if not self.counts.stationary:
            return self.step_visits.ravel()
        pooled = self.counts.visited.pooled
        if self.terminal:
            pooled, horizon = pooled.copy(), self.counts.shape[0]
            pooled[self.terminal_states] += CERTAIN // horizon * horizon
            pooled.flags.writeable = False
        return pooled.ravel()

    @cached_property
    def row_visits(self) -> IntArray:
        """`[H, S, A]`: the same of the row of `(h, s, a)`, read-only."""
        horizon, n_states, n_actions = self.counts.shape
        return np.broadcast_to(self.observed.reshape(-1, n_states, n_actions), (horizon, n_states, n_actions))

    @property
    def answered(self) -> BoolArray:
        """`[H, S]`: whether an answer of the expert counts there."""
        return self.said.answered

    @property
    def expert_known(self) -> BoolArray:
        """`[H, S]`: whether the actions that the expert uses are known; after the end there is nothing to know."""
        return self.said.expert_known

    @property
    def expert_policy(self) -> FloatArray:
        """`[H, S, A]`: the answers' frequencies; the commonest answer if the expert is deterministic."""
        return self.said.expert_policy

    @property
    def expert_uses(self) -> BoolArray:
        """`[H, S, A]`: the actions the expert is known to take."""
        return self.said.expert_uses

    @property
    def allowed(self) -> BoolArray:
        """`[H, S, A]`: the same, and all actions where none is known."""
        return self.said.allowed

    @property
    def known_actions(self) -> IntArray | None:
        """`[H, S]`: what the expert is known to do, -1 where it is not; None if it is stochastic."""
        return self.said.known_actions

    @property
    def imputed_actions(self) -> IntArray:
        """`[H, S]`: what a deterministic expert is known to do, and elsewhere its commonest answers."""
        return self.said.imputed_actions

    @property
    def common_answers(self) -> IntArray:
        """`[S+1]`: the commonest answer in each state over all steps, and in states never met."""
        return self.said.common_answers
