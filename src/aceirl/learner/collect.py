"""Episodes and answers become data: the only place where the environment is touched.

Walking is a generator: it goes as far as it can without the expert, yields a `Question`, and is sent the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from aceirl.data.answers import AnswerMemory
from aceirl.data.arrays import Move
from aceirl.data.dataset import Answer, Dataset, Trajectory
from aceirl.errors import InputError
from aceirl.irl.belief import Plan, uniform_policy
from aceirl.models.tabular.counts import Counts, StepCounts
from aceirl.models.tabular.estimate import ExpertKind, first_questions
from aceirl.models.tabular.mdp import FloatArray, IntArray
from aceirl.models.tabular.model import TabularModel
from aceirl.protocols import Capabilities, Model, Question, Seen


class Reply(Enum):
    """What can be replied to a question instead of an action."""

    SKIP = "skip"
    """The expert has nothing to say about this state; it is not asked about it again in this batch."""
    NOBODY = "nobody"
    """Nobody is there to be asked; there are no more questions in this batch."""


@dataclass(frozen=True)
class Guess:
    """What to do where the expert was asked: it is acted on, and is no answer."""

    action: int


Reference = Callable[[int, Any], int]
"""The action that the policy, frozen before an episode, takes for the expert's at `(step, state)`; -1 if none."""


@dataclass(frozen=True, eq=False)
class Collected:
    """New observations, as `data` or, in bulk, as `counts`; and `first_deviations [H+1]` from the reference.

    `first_deviations[h]` episodes did what the expert does and met only states where that was known, or rightly
    imputed, *before* they began, up to step `h`; the last entry counts those that did so to the end. All zero if
    there was no reference.
    """

    data: Dataset
    first_deviations: IntArray
    counts: Counts | None = None

    def added_to(self, model: Model) -> Model:
        """The model that knows them too."""
        if self.counts is None:
            return model.update(self.data)
        assert isinstance(model, TabularModel)
        return model.with_counts(model.counts.grown(self.counts.shape[1]) + self.counts)


Walking = Generator[Question, int | Guess | Reply, Collected]


@dataclass(frozen=True, eq=False)
class Answers:
    """How the expert answers: of what kind it is; its `table [H, S, A]`, if that is known, so that nobody has to be
    asked; how many answers it may give in all; and `wanted(step, state, answered)`, whether it shall be asked about a
    state that it has or has not answered before. By default a deterministic expert is asked once, and again as often as
    its kind says."""

    kind: ExpertKind
    table: FloatArray | None = None
    limit: int | None = None
    wanted: Callable[[int, int, bool], bool] | None = None


@dataclass(frozen=True)
class Streams:
    """The generators of one turn, one for each use, so that none depends on how often another was drawn from.

    They are the same for the same seed and iteration, wherever a run was interrupted; each is made when it is used.
    """

    seed: int
    iteration: int

    @cached_property
    def strategy(self) -> np.random.Generator:
        """Of the strategy."""
        return self._stream(0)

    @cached_property
    def environment(self) -> np.random.Generator:
        """Of the environment."""
        return self._stream(1)

    @cached_property
    def ties(self) -> np.random.Generator:
        """Among actions that are equally good."""
        return self._stream(2)

    @cached_property
    def actions(self) -> np.random.Generator:
        """Of the actions taken."""
        return self._stream(3)

    @cached_property
    def answers(self) -> np.random.Generator:
        """Of a stochastic expert, and of whether one is asked again."""
        return self._stream(4)

    def _stream(self, number: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(self.iteration, number)))


def collect(
    access: Capabilities,
    answers: Answers,
    plan: Plan,
    episodes: int,
    model: Model,
    reference: IntArray | Reference | None,
    streams: Streams,
    begun: Trajectory | None = None,
) -> Walking:
    """Carry out a plan: `episodes` episodes, or its allocation of samples. Returns the new observations alone.

    The expert is asked in every state visited; a deterministic one is asked what it has answered already only as often
    as its kind says, and nobody is asked once the limit of answers is reached. The actions that the policy takes for
    the expert's are the `reference`, of a table `[H, S]`: see `Moves`; where the expert says otherwise, an episode
    deviates. If the first episode was `begun` before, the environment is brought back to where it was.
    """
    if isinstance(model, TabularModel) and not callable(reference):
        if plan.allocation is not None:
            return (yield from _sampled(access, answers, plan.allocation, model, streams))
        in_bulk = isinstance(plan.ask, bool) and plan.questions is None and answers.limit is None and begun is None
        if access.batched is not None and answers.table is not None and in_bulk:
            return _batched(access, answers, plan, episodes, model.counts, reference, streams.environment)
    questions = _Questions(answers, model, streams, plan)
    walk = _Walk(access, plan, questions, streams, model, reference_at(reference))
    while len(walk.episodes) < episodes:
        yield from walk.round(min(access.parallel.num_envs, episodes - len(walk.episodes)), begun)
        begun = None
    first = first_deviations(reference, walk.episodes, access.shape[0])
    data = Dataset(tuple(walk.episodes), tuple(walk.answers), tuple(questions.memory.repeats))
    return Collected(data, first)


def reference_at(reference: IntArray | Reference | None) -> Reference | None:
    """The reference action at a step and state; a table `[H, S]` says nothing of states that it does not have."""
    if reference is None or callable(reference):
        return reference
    table, n_states = reference, reference.shape[1]
    return lambda step, state: int(table[step, state]) if state < n_states else -1


def _nothing_followed(shape: tuple[int, int, int]) -> IntArray:
    """`[H+1]`: no episode was held against a reference."""
    return np.zeros(shape[0] + 1, dtype=np.int64)


def _sampled(
    access: Capabilities, answers: Answers, allocation: IntArray, model: TabularModel, streams: Streams
) -> Walking:
    if access.generative is None:
        raise InputError("this strategy needs a generative model, and the environment can only be played in episodes")
    if answers.limit is not None:
        raise InputError(
            f"max_answers is {answers.limit}, but a strategy with a generative model asks about every sample; leave "
            "max_answers out, or choose a strategy that plays episodes"
        )
    so_far = model.counts
    moves = access.generative.sample_many(allocation, streams.environment)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    asked = new.visits.sum(axis=2)
    if answers.table is not None:
        new = replace(new, given=_table_answers(answers.kind, answers.table, asked, so_far, streams.environment))
    else:
        questions = _Questions(answers, model, streams, Plan())
        assert access.encoder is not None
        for step, state in np.argwhere(asked).tolist():
            for _ in range(asked[step, state]):
                yield from questions.answer(step, state, (), access.encoder.observation(state))
        given = Dataset((), tuple(questions.memory.answers), tuple(questions.memory.repeats))
        said = Counts.of_data(given, so_far.shape, stationary=so_far.stationary)
        new = new.with_answers(said.answers, said.repeats)
    return Collected(Dataset(), _nothing_followed(so_far.shape), new)


def _batched(
    access: Capabilities,
    answers: Answers,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    reference: IntArray | None,
    rng: np.random.Generator,
) -> Collected:
    assert access.batched is not None
    assert answers.table is not None
    policy = uniform_policy(so_far.shape) if plan.policy is None else np.ascontiguousarray(plan.policy)
    if plan.follow is not None:
        follow = np.asarray(plan.follow)[..., None]
        policy = follow * answers.table + (1 - follow) * policy
    if plan.first_action is not None:
        policy = np.concatenate(
            (np.broadcast_to(np.eye(policy.shape[2])[plan.first_action], policy[:1].shape), policy[1:])
        )
    if reference is not None:
        agreed = answers.table.argmax(axis=2) == reference
        agreed[0] |= plan.first_action is not None
        reference = np.where(agreed, reference, -1)
    moves = access.batched.rollout(policy, episodes, rng, reference)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    if not plan.ask:
        return Collected(Dataset(), _nothing_followed(so_far.shape), new)
    given = _table_answers(answers.kind, answers.table, new.visits.sum(axis=2), so_far, rng)
    if plan.follow is not None and not answers.kind.deterministic:
        # A stochastic expert who was followed gave exactly the actions that were taken; one who was overruled did not.
        overruled = (np.arange(len(policy)) == 0) & (plan.first_action is not None)
        followed = np.broadcast_to(np.equal(plan.follow, 1), policy.shape[:2])
        given = StepCounts.of(np.where((followed & ~overruled[:, None])[:, :, None], new.visits, given.table))
    first = _nothing_followed(so_far.shape) if moves.first_deviations is None else moves.first_deviations
    return Collected(Dataset(), first, replace(new, given=given))


def _table_answers(
    kind: ExpertKind, table: FloatArray, asked: IntArray, so_far: Counts, rng: np.random.Generator
) -> StepCounts:
    """The answers to `asked [H, S]` questions, less those a deterministic expert has answered before."""
    if kind.deterministic:
        asked = first_questions(asked, so_far.answers, kind.stationary)
    steps, states = np.nonzero(asked)
    chances = table[steps, states]
    # numpy's multinomial wants distributions that sum to one as closely as floats allow.
    drawn = rng.multinomial(asked[steps, states], chances / chances.sum(axis=1, keepdims=True))
    where, actions = np.nonzero(drawn)
    return StepCounts.at(so_far.shape, steps[where], states[where], actions, drawn[where, actions])


class _Questions:
    """The expert with a memory: what a deterministic one has said, or would not say, is not asked again."""

    def __init__(self, answers: Answers, model: Model, streams: Streams, plan: Plan) -> None:
        self.kind, self.streams, self.wanted = answers.kind, streams, answers.wanted
        self.left = np.inf if answers.limit is None else answers.limit - self.kind.given(model.totals)
        self.left = min(self.left, np.inf if plan.questions is None else plan.questions)
        self.where, self.row = None if isinstance(plan.ask, bool) else plan.ask, plan.row
        if plan.ask is False:
            self.left = 0
        before = model.said if isinstance(model, TabularModel) else None
        kind = self.kind
        self.memory = AnswerMemory(deterministic=kind.deterministic, stationary=kind.stationary, before=before)

    def remember(self, episode: Trajectory) -> None:
        """What was said in an episode that had begun."""
        for step, state in episode.skipped:
            self.memory.skip(step, state)
        for step, state, action in episode.answers:
            self._take(step, state, action)

    def answer(
        self, step: int, state: Any, walk: Sequence[Move], seen: Any, meant: int | None = None
    ) -> Generator[Question, int | Guess | Reply, tuple[int | None, bool]]:
        """What the expert says of a state where `seen` was observed, None if it says nothing; and whether that, or what
        it said before where that may be taken for what it says here, is what it is `meant` to do, if anything."""
        action = self.memory.said(step, state)
        again = action is not None
        trusted = not self.kind.asked_everywhere and meant in (None, action)
        if self.left <= 0 or not self._wants(step, state, again, seen):
            return action, trusted
        reply = yield Question(step, state, walk, self.streams.answers, again, seen)
        if reply is Reply.NOBODY:
            self.left = 0
            return action, trusted
        if isinstance(reply, Guess):
            return reply.action, trusted
        if isinstance(reply, Reply):
            if not again:
                self.memory.skip(step, state)
            return action, trusted
        if again:
            self.memory.repeat(state, differs=reply != action)
            self.left -= not self.kind.asked_everywhere
            return reply, reply == action and meant in (None, action)
        self._take(step, state, reply)
        return reply, meant in (None, reply)

    def _wants(self, step: int, state: Any, again: bool, seen: Any) -> bool:
        """Whether the expert shall be asked, perhaps again."""
        if not again and self.memory.silent(step, state):
            return False
        if self.where is not None:
            row = self.row(state, seen)
            if row is None or not self.where[step, row]:
                return False
        if self.wanted is not None:
            return self.wanted(step, state, again)
        rate = self.kind.ask_again if again else 1.0
        return rate == 1 or (rate > 0 and self.streams.answers.random() < rate)

    def _take(self, step: int, state: Any, action: int) -> None:
        self.left -= 1
        self.memory.add(step, state, action)


class _Draws:
    """Uniform draws `[episodes, H]` for each round, made when one of them is first asked for; as if all were made."""

    def __init__(self, streams: Streams, horizon: int) -> None:
        self.streams, self.horizon = streams, horizon
        self.number = self.missing = 0
        self.made: FloatArray | None = None

    def begin(self, number: int) -> None:
        """A round of so many episodes begins."""
        self.missing += self.number if self.made is None else 0
        self.number, self.made = number, None

    def of(self, episode: int, step: int) -> float:
        """The draw of an episode of this round at a step."""
        if self.made is None:
            draws = self.streams.actions.random((self.missing + self.number, self.horizon))
            self.made, self.missing = draws[self.missing :], 0
        return float(self.made[episode, step])


class _Walk:
    """Episodes walked step by step, as many side by side as the environment has."""

    def __init__(
        self,
        access: Capabilities,
        plan: Plan,
        questions: _Questions,
        streams: Streams,
        model: Model,
        reference: Reference | None,
    ) -> None:
        self.access, self.plan, self.questions, self.streams = access, plan, questions, streams
        self.encode, self.reference = model.encode, reference
        self.episodes: list[Trajectory] = []
        self.answers: list[Answer] = []  # of episodes side by side, which do not belong to one of them
        self.draws = _Draws(streams, access.shape[0])

    def round(self, number: int, begun: Trajectory | None) -> Generator[Question, int | Guess | Reply, None]:
        """Begin so many episodes and walk them to their ends; the first one along the beginning it has, if any."""
        parallel, horizon = self.access.parallel, self.access.shape[0]
        self.draws.begin(number)
        seen = parallel.begin(number, self.streams.environment)
        here, over = [self.encode(one) for one in seen], [False] * number
        starts, walks = list(here), [[] for _ in here]  # type: tuple[list[Any], list[list[Move]]]
        given = len(self.questions.memory.answers)
        disagreed: list[int | None] = [None] * number
        if begun is not None:
            seen[0], over[0] = self._again(begun, here, walks, seen[0])
            disagreed[0] = begun.disagreed
        for step in range(len(walks[0]) if begun is not None else 0, horizon):
            chosen: dict[int, int] = {}
            for episode, state in enumerate(here):
                if not over[episode]:
                    meant = self._meant(step, state)
                    answer, agreed = yield from self.questions.answer(step, state, walks[episode], seen[episode], meant)
                    imposed = step == 0 and self.plan.first_action is not None
                    if not agreed and not imposed and disagreed[episode] is None:
                        disagreed[episode] = step
                    chosen[episode] = self._action(step, state, seen[episode], episode, answer)
            if not chosen:
                break
            for episode, (observation, terminated) in parallel.advance(chosen).items():
                successor = self.encode(observation, terminated)
                walks[episode].append((step, here[episode], chosen[episode], successor))
                here[episode], seen[episode], over[episode] = successor, observation, terminated
        answers = tuple(self.questions.memory.answers[given:])
        if number > 1:
            self.answers, answers = [*self.answers, *answers], ()
        self.episodes += [
            Trajectory.of_moves(start, walk, terminated=ended, answers=answers, disagreed=step)
            for start, walk, ended, step in zip(starts, walks, over, disagreed, strict=True)
        ]

    def _meant(self, step: int, state: Any) -> int | None:
        """What the policy takes for the expert's action; None if it knows nothing."""
        action = -1 if self.reference is None else self.reference(step, state)
        return None if action < 0 else action

    def _action(self, step: int, state: Any, seen: Any, episode: int, answer: int | None) -> int:
        """What the plan says, or the expert, as a uniform draw decides."""
        plan, n_actions = self.plan, self.access.shape[2]
        if step == 0 and plan.first_action is not None:
            return plan.first_action
        row = None if plan.policy is None else plan.row(state, seen)
        policy = None if row is None else plan.policy
        follow = plan.follow_at(step, state, planned=policy is not None)
        if answer is not None and follow >= 1:
            return answer
        draw = self.draws.of(episode, step)
        if answer is not None and draw < follow:
            return answer
        if answer is not None:
            draw = (draw - follow) / (1 - follow)
        if policy is None:
            return min(int(draw * n_actions), n_actions - 1)
        return min(int(np.searchsorted(np.cumsum(policy[step, row]), draw, side="right")), n_actions - 1)

    def _again(self, begun: Trajectory, here: list[Any], walks: list[list[Move]], seen: Any) -> Seen:
        """Bring the one environment back to where an episode was, by its actions; what was seen there last."""
        self.questions.remember(begun)
        same, terminated, moves = len(here) == 1 and here[0] == begun.start, False, begun.walk
        for move in moves:
            if same:
                seen, terminated = self.access.parallel.advance({0: move[2]})[0]
                same = self.encode(seen, terminated) == move[3]
        if not same:
            raise InputError(
                "an episode went differently when it was played again; the environment must take all its randomness "
                "from the generator that reset is given"
            )
        walks[0].extend(moves)
        here[0] = begun.last
        return seen, terminated


def first_deviations(reference: IntArray | Reference | None, episodes: Sequence[Trajectory], horizon: int) -> IntArray:
    """`[H+1]`: how many episodes first deviated from the reference actions at each step, or never."""
    counted, at = np.zeros(horizon + 1, dtype=np.int64), reference_at(reference)
    if at is not None:
        for episode in episodes:
            counted[_first_deviation(at, episode, horizon)] += 1
    return counted


def _first_deviation(reference: Reference, episode: Trajectory, horizon: int) -> int:
    """A state met only in this episode has no known action, and one that the expert did not confirm was left there."""
    for step, state, action, _ in episode.walk:
        known = reference(step, state)
        if known < 0 or step == episode.disagreed:
            return step
        if action != known:
            return step + 1
    return horizon
