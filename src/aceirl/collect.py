"""Episodes and answers become counts: the only place where the environment is touched.

Walking is a generator: it goes as far as it can without the expert, yields a `Question`, and is sent the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

import numpy as np

from aceirl.belief import Plan
from aceirl.counts import Counts, ExpertKind
from aceirl.errors import InputError
from aceirl.kernels import compiled
from aceirl.mdp import FloatArray, IntArray
from aceirl.protocols import Access, Move, Question


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


@dataclass(frozen=True)
class Episode:
    """An episode, or its beginning: where it started, its moves, and the answers `(step, state, action)` given in it.

    `skipped` are the `(step, state)` about which the expert had nothing to say. `disagreed` is the first step at which
    it did not confirm what was known or presumed of it before; None if there is none.
    """

    start: int
    walk: tuple[Move, ...] = ()
    answers: tuple[tuple[int, int, int], ...] = ()
    skipped: tuple[tuple[int, int], ...] = ()
    disagreed: int | None = None


@dataclass(frozen=True, eq=False)
class Collected:
    """New observations: their `counts`, and `first_deviations [H+1]` from the known expert actions.

    `first_deviations[h]` episodes did what the expert does and met only states where that was known, or rightly
    presumed, *before* they began, up to step `h`; the last entry counts those that did so to the end. All zero if
    nothing was watched. `episodes` are those that were walked step by step.
    """

    counts: Counts
    first_deviations: IntArray
    episodes: tuple[Episode, ...] = ()


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


@dataclass(frozen=True, eq=False)
class Streams:
    """The generators of one turn, one for each use, so that none depends on how often another was drawn from."""

    strategy: np.random.Generator
    environment: np.random.Generator
    ties: np.random.Generator
    actions: np.random.Generator
    answers: np.random.Generator

    @classmethod
    def of(cls, seed: int, iteration: int) -> Streams:
        """The same for the same seed and iteration, wherever a run was interrupted; each is made when it is used."""
        streams = cls.__new__(cls)
        vars(streams)["_key"] = seed, iteration
        return streams

    def __getattr__(self, name: str) -> np.random.Generator:
        if name not in _STREAMS or "_key" not in vars(self):
            raise AttributeError(name)
        seed, iteration = vars(self)["_key"]
        sequence = np.random.SeedSequence(seed, spawn_key=(iteration, _STREAMS.index(name)))
        made: np.random.Generator = vars(self).setdefault(name, np.random.default_rng(sequence))
        return made


_STREAMS = tuple(field.name for field in fields(Streams))


def collect(
    access: Access,
    answers: Answers,
    plan: Plan,
    episodes: int,
    so_far: Counts,
    watched: IntArray | None,
    streams: Streams,
    begun: Episode | None = None,
) -> Walking:
    """Carry out a plan: `episodes` episodes, or its allocation of samples. Returns the new observations alone.

    The expert is asked in every state visited; a deterministic one is asked what it has answered already only as often
    as its kind says, and nobody is asked once the limit of answers is reached. The actions that the policy takes for
    the expert's are `watched [H, S]`: see `Moves`; where the expert says otherwise, an episode deviates. In a growing
    environment the new observations have more states than the old. If the first episode was `begun` before, the
    environment is brought back to where it was.
    """
    if plan.allocation is not None:
        return (yield from _sampled(access, answers, plan.allocation, so_far, streams))
    if access.batched is not None and answers.table is not None and answers.limit is None and begun is None:
        return _batched(access, answers, plan, episodes, so_far, watched, streams.environment)
    questions = _Questions(answers, so_far, streams, ask=plan.ask)
    walk = _Walk(access, plan, questions, streams, watched)
    while len(walk.episodes) < episodes:
        yield from walk.round(min(access.parallel.num_envs, episodes - len(walk.episodes)), begun)
        begun = None
    shape, walks = access.shape, [episode.walk for episode in walk.episodes]
    starts = [episode.start for episode in walk.episodes]
    counts = Counts.of_walks(starts, walks, shape, stationary=so_far.stationary)
    first = first_deviations(watched, walk.episodes, shape[0])
    if questions.answers or questions.repeats:
        counts = counts.with_answers(*questions.counted(shape))
    return Collected(counts, first, tuple(walk.episodes))


def _sampled(access: Access, answers: Answers, allocation: IntArray, so_far: Counts, streams: Streams) -> Walking:
    if access.generative is None:
        raise InputError("this strategy needs a generative model, and the environment can only be played in episodes")
    if answers.limit is not None:
        raise InputError(
            f"max_answers is {answers.limit}, but a strategy with a generative model asks wherever it samples"
        )
    moves = access.generative.sample_many(allocation, streams.environment)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    asked = new.visits.sum(axis=2)
    if answers.table is not None:
        given = _table_answers(answers.kind, answers.table, asked, so_far, streams.environment)
    else:
        questions = _Questions(answers, so_far, streams)
        for step, state in np.argwhere(asked).tolist():
            seen = None if access.showing is None else access.showing.observation(state)
            for _ in range(asked[step, state]):
                yield from questions.answer(step, state, (), seen)
        given, repeats = questions.counted(so_far.shape)
        return Collected(new.with_answers(given, repeats), np.zeros(so_far.shape[0] + 1, dtype=np.int64))
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
        follow = plan.follow[:, :, None]
        policy = follow * answers.table + (1 - follow) * policy
    if plan.first_action is not None:
        policy = np.concatenate(
            (np.broadcast_to(np.eye(policy.shape[2])[plan.first_action], policy[:1].shape), policy[1:])
        )
    if watched is not None:
        agreed = answers.table.argmax(axis=2) == watched
        agreed[0] |= plan.first_action is not None
        watched = np.where(agreed, watched, -1)
    moves = access.batched.rollout(policy, episodes, rng, watched)
    new = Counts.of_moves(moves, so_far.shape, stationary=so_far.stationary)
    if not plan.ask:
        return Collected(new, np.zeros(so_far.shape[0] + 1, dtype=np.int64))
    given = _table_answers(answers.kind, answers.table, new.visits.sum(axis=2), so_far, rng)
    if plan.follow is not None and not answers.kind.deterministic:
        # A stochastic expert who was followed gave exactly the actions that were taken; one who was overruled did not.
        overruled = (np.arange(len(policy)) == 0) & (plan.first_action is not None)
        given = np.where(((plan.follow == 1) & ~overruled[:, None])[:, :, None], new.visits, given)
    none = np.zeros(so_far.shape[0] + 1, dtype=np.int64)
    return Collected(new.with_answers(given), none if moves.first_deviations is None else moves.first_deviations)


def _table_answers(
    kind: ExpertKind, table: FloatArray, asked: IntArray, so_far: Counts, rng: np.random.Generator
) -> IntArray:
    """`[H, S, A]`: the answers to `asked [H, S]` questions, less those a deterministic expert has answered before."""
    answers = np.zeros(so_far.shape, dtype=np.int64)
    if kind.deterministic:
        asked = _first_questions(asked, so_far.answers, kind.stationary)
    steps, states = np.nonzero(asked)
    if not len(steps):
        return answers
    chances = table[steps, states]
    # numpy's multinomial wants distributions that sum to one as closely as floats allow.
    answers[steps, states] = rng.multinomial(asked[steps, states], chances / chances.sum(axis=1, keepdims=True))
    return answers


@compiled
def _first_questions(visits: IntArray, answers: IntArray, stationary: bool) -> IntArray:
    """`[H, S]`: one question for each visited state not known yet; at its first step, if the expert is stationary.

    `visits [H, S]` are those of a batch, `answers [H, S, A]` those given before.
    """
    horizon, n_states = visits.shape
    asked = np.zeros(visits.shape, np.int64)
    for s in range(n_states):
        known = bool(stationary and answers[:, s].any())
        for h in range(horizon):
            if visits[h, s] > 0 and not known and (stationary or not answers[h, s].any()):
                asked[h, s], known = 1, stationary
    return asked


class _Questions:
    """The expert with a memory: what a deterministic one has said, or would not say, is not asked again."""

    def __init__(self, answers: Answers, so_far: Counts, streams: Streams, *, ask: bool = True) -> None:
        self.kind, self.so_far, self.streams, self.wanted = answers.kind, so_far.answers, streams, answers.wanted
        self.left = np.inf if answers.limit is None else answers.limit - self.kind.given(so_far)
        if not ask:
            self.left = 0
        self.answers: list[tuple[int, int, int]] = []
        self.repeats: list[tuple[int, bool]] = []
        self.memory: dict[tuple[int, int], int | None] = {}

    def remember(self, episode: Episode) -> None:
        """What was said in an episode that had begun."""
        for step, state in episode.skipped:
            self.memory[self._key(step, state)] = None
        for step, state, action in episode.answers:
            self._take(step, state, action)

    def answer(
        self, step: int, state: int, walk: Sequence[Move], seen: Any, meant: int | None = None
    ) -> Generator[Question, int | Guess | Reply, tuple[int | None, bool]]:
        """What the expert says of a state where `seen` was observed, None if it says nothing; and whether that, or what
        it said before where that may be taken for what it says here, is what it is `meant` to do, if anything."""
        key = self._key(step, state)
        action = self._said(key)
        again = action is not None
        trusted = not self.kind.asked_everywhere and meant in (None, action)
        if not self._wants(step, state, key, again) or self.left <= 0:
            return action, trusted
        reply = yield Question(step, state, walk, self.streams.answers, again, seen)
        if reply is Reply.NOBODY:
            self.left = 0
            return action, trusted
        if isinstance(reply, Guess):
            return reply.action, trusted
        if isinstance(reply, Reply):
            if not again and self.kind.deterministic:
                self.memory[key] = None
            elif again and self.kind.asked_everywhere:
                self.repeats.append((state, True))
            return action, trusted
        if again:
            self.repeats.append((state, reply != action))
            self.left -= not self.kind.asked_everywhere
            return reply, reply == action and meant in (None, action)
        self._take(step, state, reply)
        return reply, meant in (None, reply)

    def _said(self, key: tuple[int, int]) -> int | None:
        """What a deterministic expert has said there, None if it has not; what it said before this batch is looked up
        only where it is needed."""
        step, state = key
        if key not in self.memory and self.kind.deterministic and state < self.so_far.shape[1]:
            given = self.so_far[:, state].sum(axis=0) if self.kind.stationary else self.so_far[step, state]
            said = int(given.argmax())
            if given[said]:
                self.memory[key] = said
        return self.memory.get(key)

    def _wants(self, step: int, state: int, key: tuple[int, int], again: bool) -> bool:
        """Whether the expert shall be asked, perhaps again."""
        if not again and key in self.memory:
            return False
        if self.wanted is not None:
            return self.wanted(step, state, again)
        rate = self.kind.ask_again if again else 1.0
        return rate == 1 or (rate > 0 and self.streams.answers.random() < rate)

    def _take(self, step: int, state: int, action: int) -> None:
        self.left -= 1
        self.answers.append((step, state, action))
        if self.kind.deterministic:
            self.memory[self._key(step, state)] = action

    def _key(self, step: int, state: int) -> tuple[int, int]:
        return 0 if self.kind.stationary else step, state

    def counted(self, shape: tuple[int, int, int]) -> tuple[IntArray, IntArray]:
        """The new answers `[H, S, A]`, and the repeats `[S, 2]`."""
        counts, repeats = np.zeros(shape, dtype=np.int64), np.zeros((shape[1], 2), dtype=np.int64)
        np.add.at(counts, tuple(np.array(self.answers, dtype=np.int64).reshape(-1, 3).T), 1)
        np.add.at(repeats, tuple(np.array(self.repeats, dtype=np.int64).reshape(-1, 2).T), 1)
        return counts, repeats


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
        self, access: Access, plan: Plan, questions: _Questions, streams: Streams, watched: IntArray | None
    ) -> None:
        self.access, self.plan, self.questions, self.streams = access, plan, questions, streams
        self.watched = np.zeros((0, 0), dtype=np.int64) if watched is None else watched
        self.episodes: list[Episode] = []
        self.draws = _Draws(streams, access.shape[0])

    def round(self, number: int, begun: Episode | None) -> Generator[Question, int | Guess | Reply, None]:
        """Begin so many episodes and walk them to their ends; the first one along the beginning it has, if any."""
        parallel, horizon = self.access.parallel, self.access.shape[0]
        self.draws.begin(number)
        starts = parallel.begin(number, self.streams.environment)
        here, walks = list(starts), [[] for _ in starts]  # type: tuple[list[int], list[list[Move]]]
        given = len(self.questions.answers)
        disagreed: list[int | None] = [None] * number
        if begun is not None:
            self._again(begun, here, walks)
            disagreed[0] = begun.disagreed
        showing = self.access.showing
        for step in range(len(walks[0]) if begun is not None else 0, horizon):
            chosen, terminal = {}, self.access.terminal
            for episode, state in enumerate(here):
                if state not in terminal:
                    seen = None if showing is None else showing.seen(episode)
                    meant = self._meant(step, state)
                    answer, agreed = yield from self.questions.answer(step, state, walks[episode], seen, meant)
                    imposed = step == 0 and self.plan.first_action is not None
                    if not agreed and not imposed and disagreed[episode] is None:
                        disagreed[episode] = step
                    chosen[episode] = self._action(step, state, episode, answer)
            if not chosen:
                break
            for episode, successor in parallel.advance(chosen).items():
                walks[episode].append((step, here[episode], chosen[episode], successor))
                here[episode] = successor
        answers = tuple(self.questions.answers[given:]) if number == 1 else ()
        self.episodes += [
            Episode(start, tuple(walk), answers, disagreed=step)
            for start, walk, step in zip(starts, walks, disagreed, strict=True)
        ]

    def _meant(self, step: int, state: int) -> int | None:
        """What the policy takes for the expert's action; None if it knows nothing."""
        action = int(self.watched[step, state]) if state < self.watched.shape[1] else -1
        return None if action < 0 else action

    def _action(self, step: int, state: int, episode: int, answer: int | None) -> int:
        """What the plan says, or the expert, as a uniform draw decides."""
        plan = self.plan
        assert plan.policy is not None
        if step == 0 and plan.first_action is not None:
            return plan.first_action
        _, n_states, n_actions = plan.policy.shape
        planned = state < n_states
        if planned:
            follow = 0.0 if plan.follow is None else float(plan.follow[step, state])
        elif plan.follow_new is not None:
            follow = plan.follow_new
        else:
            follow = float(plan.follow is not None and plan.follow.any())
        if answer is not None and follow >= 1:
            return answer
        draw = self.draws.of(episode, step)
        if answer is not None and draw < follow:
            return answer
        if answer is not None:
            draw = (draw - follow) / (1 - follow)
        action = int(
            np.searchsorted(np.cumsum(plan.policy[step, state]), draw, side="right") if planned else draw * n_actions
        )
        return min(action, int(n_actions) - 1)

    def _again(self, begun: Episode, here: list[int], walks: list[list[Move]]) -> None:
        """Bring the one environment back to where an episode was, by its actions."""
        self.questions.remember(begun)
        same = len(here) == 1 and here[0] == begun.start
        for move in begun.walk:
            same = same and self.access.parallel.advance({0: move[2]})[0] == move[3]
        if not same:
            raise InputError(
                "an episode went differently when it was played again; the environment must take all its randomness "
                "from the generator that reset is given"
            )
        walks[0].extend(begun.walk)
        here[0] = begun.walk[-1][3] if begun.walk else begun.start


def first_deviations(watched: IntArray | None, episodes: Sequence[Episode], horizon: int) -> IntArray:
    """`[H+1]`: how many episodes first deviated from the `watched [H, S]` actions at each step, or never."""
    counted = np.zeros(horizon + 1, dtype=np.int64)
    if watched is not None:
        for episode in episodes:
            counted[_first_deviation(watched, episode)] += 1
    return counted


def _first_deviation(watched: IntArray, episode: Episode) -> int:
    """A state met only in this episode has no known action, and one that the expert did not confirm was left there."""
    horizon, n_states = watched.shape
    for step, state, action, _ in episode.walk:
        if state >= n_states or watched[step, state] < 0 or step == episode.disagreed:
            return step
        if action != watched[step, state]:
            return step + 1
    return int(horizon)
