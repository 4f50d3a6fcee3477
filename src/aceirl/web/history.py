"""What an interview has come to: a function of its log, and of nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from aceirl.certificates.betting import Bet, Forecast, Wealth
from aceirl.counts import Counts
from aceirl.mdp import IntArray
from aceirl.web.log import Event

# What a person does; everything else in a log is what the agent did on its own.
DEEDS = ("answer", "skip", "correct")

# How often a person is asked about a state of which they say that they do not know.
MAX_SKIPS = 3


@dataclass
class Walk:
    """An episode: its number, the states met and the actions taken between them, and the stake that was put on it."""

    number: int
    states: list[int]
    actions: list[int]
    stake: float

    @property
    def step(self) -> int:
        """How many steps were made."""
        return len(self.actions)


@dataclass
class Opinion:
    """What a person said about a state: the answers in their order, the step of the first, the number of the last."""

    votes: list[int] = field(default_factory=list)
    step: int = 0
    last_answer: int = 0
    settled: bool = False
    skipped: int = 0

    @property
    def standing(self) -> int | None:
        """The answer that counts: the commonest, and of those equally common the latest; None if there is none."""
        if not self.votes:
            return None
        often = Counter(self.votes)
        most = max(often.values())
        return next(vote for vote in reversed(self.votes) if often[vote] == most)

    @property
    def contradictory(self) -> bool:
        """Whether the answers differ, and nobody has said since which one is right."""
        return len(set(self.votes)) > 1

    @property
    def tied(self) -> bool:
        """Whether the standing answer has no more votes than another."""
        ranked = Counter(self.votes).most_common(2)
        return len(ranked) == 2 and ranked[0][1] == ranked[1][1]


@dataclass(frozen=True, eq=False)
class Tallies:
    """What was seen and said, as it was written down; `visits [H, S', A]` may have room for more states or fewer."""

    n_states: int
    visits: IntArray
    moves: dict[tuple[int, int, int], int]
    starts: dict[int, int]
    answers: list[tuple[int, int, int]]

    def counts(self) -> Counts:
        """The same as the learner wants it."""
        horizon, room, n_actions = self.visits.shape
        shape = (horizon, self.n_states, n_actions)
        visits, answers = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        width = min(self.n_states, room)
        visits[:, :width] = self.visits[:, :width]
        for place in self.answers:
            answers[place] = 1
        starts = np.zeros(self.n_states, dtype=np.int64)
        for state, times in self.starts.items():
            starts[state] = times
        moves = [((s * n_actions + a) * self.n_states + t, times) for (s, a, t), times in self.moves.items()]
        keys, times_each = np.array(sorted(moves), dtype=np.int64).reshape(-1, 2).T
        return Counts(True, visits, answers, starts, keys, times_each)


class History:
    """Opinions, counts and the wealth of the bets on the person's route, kept up to date event by event.

    An episode is on the route for as long as it meets states about which the person's answer was known before the
    episode began, *and still stands today*. An answer that was taken back or put right was wrong when it was given, so
    whether it was right at the time is no question of luck, and the bets remain fair; but what was won with its help
    has to be counted again. `stale` says that this is due: `standing_at_the_end` of the new count is today's.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        target: float,
        *,
        starts: tuple[int, ...] | None,
        end: int | None,
        standing_at_the_end: dict[int, int | None] | None = None,
    ) -> None:
        self.horizon, self.n_actions = shape
        self.starts_known, self.end = starts, end
        self.final = standing_at_the_end
        self.opinions: dict[int, Opinion] = {}
        self.answers = self.skips = self.repeats = self.contradictions = self.episodes = self.samples = 0
        self.last_repeat = 0
        self.episodes_since_deed = 0
        self.wealth = Wealth.of_beginners(target, self.n_actions)
        self.walk: Walk | None = None
        self.names: list[str] = []
        self.stale = False
        self.met: Counter[int] = Counter()
        self._first_met: dict[int, tuple[int, int]] = {}
        self._fresh: set[int] = set()
        self._worst = 1.0
        self._skipped: set[tuple[int, int]] = set()
        self._visits = np.zeros((self.horizon, 1, self.n_actions), dtype=np.int64)
        self._starts: Counter[int] = Counter()
        self._moves: Counter[tuple[int, int, int]] = Counter()

    def standing(self, state: int) -> int | None:
        """The answer that counts in a state; None if there is none."""
        opinion = self.opinions.get(state)
        return opinion.standing if opinion else None

    def open(self, state: int) -> bool:
        """Whether the person may still say what they would do in a state."""
        opinion = self.opinions.get(state)
        return opinion is None or (opinion.standing is None and opinion.skipped < MAX_SKIPS)

    def known(self) -> dict[int, int]:
        """The answers that count, by state."""
        found = {state: opinion.standing for state, opinion in self.opinions.items()}
        return {state: action for state, action in found.items() if action is not None}

    def skipped_in(self, episode: int, state: int) -> bool:
        """Whether the person said in this episode that they do not know what they would do in a state."""
        return (episode, state) in self._skipped

    def over(self) -> bool:
        """Whether no step is left in the episode."""
        walk = self.walk
        return walk is None or walk.step >= self.horizon or walk.states[-1] == self.end

    def apply(self, event: Event) -> None:
        """Take in one event; undone ones are not to be given."""
        match event["event"]:
            case "answer":
                self._answer(event["state"], event["step"], event["action"])
            case "skip":
                self._skip(event["state"])
            case "correct":
                self._correct(event["state"], event["action"])
            case "walk":
                self._walk_on(event)

    def _answer(self, state: int, step: int, action: int) -> None:
        opinion = self.opinions.setdefault(state, Opinion(step=step))
        before = opinion.standing
        if before is None:
            opinion.step = step
        else:
            self.repeats += 1
            self.contradictions += action != before
            self.last_repeat = self.answers + 1
        opinion.votes.append(action)
        self.answers += 1
        opinion.last_answer = self.answers
        self._changed(state, before, opinion.standing)

    def _skip(self, state: int) -> None:
        assert self.walk is not None
        self.opinions.setdefault(state, Opinion()).skipped += 1
        self.skips += 1
        self._skipped.add((self.walk.number, state))
        self.episodes_since_deed = 0

    def _correct(self, state: int, action: int) -> None:
        opinion = self.opinions.setdefault(state, Opinion())
        before = opinion.standing
        opinion.votes, opinion.settled = [action], True
        self._changed(state, before, action)

    def _changed(self, state: int, before: int | None, now: int | None) -> None:
        self.episodes_since_deed = 0
        if before != now:
            self._fresh.add(state)
            self.stale |= before is not None

    def _walk_on(self, event: Event) -> None:
        """`path` is a part of an episode: states and actions in turn; the first has the stake."""
        self.names.extend(event.get("names", ()))
        path = event["path"]
        states, actions = path[0::2], path[1::2]
        if "stake" in event:
            self._begin(Walk(event["episode"], [states[0]], [], event["stake"]))
        assert self.walk is not None
        first = self.walk.step
        self.walk.states.extend(states[1:])
        self.walk.actions.extend(actions)
        self._count(first, states, actions)
        if self.over():
            self._finish(self.walk)

    def _begin(self, walk: Walk) -> None:
        self.walk = walk
        self._fresh.clear()
        self._skipped.clear()
        self._starts[walk.states[0]] += 1
        self._worst = self.worst_next()

    def _on_route(self, state: int) -> bool:
        """Whether the answer in a state was known before the episode, and is still the one that counts."""
        standing = self.standing(state)
        if standing is None or state in self._fresh:
            return False
        return self.final is None or self.final.get(state) == standing

    def _finish(self, walk: Walk) -> None:
        self.episodes += 1
        self.episodes_since_deed += 1
        for step, state in enumerate(walk.states[: walk.step]):
            self._first_met.setdefault(state, (walk.number, step))
        self.met.update(set(walk.states[: walk.step]))
        exits = np.zeros(self.horizon + 1, dtype=np.int64)
        exits[self._first_exit(walk)] = 1
        self.wealth = self.wealth.after(0, Bet(walk.stake, self._worst, 0.0), exits)

    def _first_exit(self, walk: Walk) -> int:
        for step, (state, action) in enumerate(zip(walk.states, walk.actions, strict=False)):
            if not self._on_route(state):
                return step
            if action != self.standing(state):
                return step + 1
        return self.horizon

    def _count(self, first: int, states: list[int], actions: list[int]) -> None:
        self.samples += len(actions)
        largest = max(states)
        if largest >= self._visits.shape[1]:
            more = max(largest + 1, 2 * self._visits.shape[1]) - self._visits.shape[1]
            self._visits = np.pad(self._visits, ((0, 0), (0, more), (0, 0)))
        for offset, (state, action) in enumerate(zip(states, actions, strict=False)):
            self._visits[first + offset, state, action] += 1
            self._moves[state, action, states[offset + 1]] += 1

    def tallies(self, n_states: int) -> Tallies:
        """A copy of all observations and of the answers that count, for a problem of that many states."""
        said = [(self.opinions[state].step, state, action) for state, action in self.known().items()]
        return Tallies(n_states, self._visits.copy(), dict(self._moves), dict(self._starts), said)

    def forecast(self) -> Forecast:
        """What the next episode is expected to do on the person's route, judging by those before.

        A state that one episode alone has met would have been new to it, had it come last: about as often as past
        episodes have such a state will the next one meet something unknown (Good and Turing). StateIndex about which the
        person has nothing to say are met as often as they were. Half an episode that leaves at once is added, since
        even a long row of good ones proves little.
        """
        strays: dict[int, int] = {}
        law = np.zeros(self.horizon + 1)
        law[0] = 0.5
        for state, times in self.met.items():
            episode, step = self._first_met[state]
            if self.standing(state) is None:
                law[step] += times
            elif times == 1:
                strays[episode] = min(step, strays.get(episode, step))
        for step in strays.values():
            law[step] += 1
        law[-1] = max(0.0, self.episodes + 1 - law[:-1].sum())
        return Forecast(np.zeros((self.horizon, 1)), law / law.sum(), self.worst_next())

    def worst_next(self) -> float:
        """The largest share of the next episode that can be lost: less than all, if all possible starts are known."""
        known = self.starts_known is not None and all(self._on_route(state) for state in self.starts_known)
        return 1 - 1 / self.horizon if known else 1.0

    def expected_questions(self) -> int | None:
        """About how many states the person will still be asked about; None before there are episodes to compare.

        From how many states were met in one episode only and in two only (Chao's second estimate of the number of
        species not yet seen), and those met about which nothing was said yet.
        """
        if self.episodes < 3:
            return None
        once = sum(times == 1 for times in self.met.values())
        twice = sum(times == 2 for times in self.met.values())
        unseen = (1 - 1 / self.episodes) * once * (once - 1) / (2 * (twice + 1))
        return round(unseen) + sum(self.open(state) for state in self.met)


def effective(events: Iterable[Event]) -> tuple[list[Event], int]:
    """The events that count, with what was undone taken out; and how many deeds there were, undoing included."""
    kept: list[Event] = []
    deeds: list[int] = []
    turns = 0
    for event in events:
        kind = event["event"]
        if kind == "undo":
            turns += 1
            del kept[deeds.pop() :]
        else:
            if kind in DEEDS:
                turns += 1
                deeds.append(len(kept))
            kept.append(event)
    return kept, turns
