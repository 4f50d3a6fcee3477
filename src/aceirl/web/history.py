"""What an interview has come to: votes, episodes and counts of both, a function of its log and of nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from aceirl.certificates import Wager
from aceirl.collect import Episode
from aceirl.engine import Recorded
from aceirl.errors import InputError
from aceirl.files import Event
from aceirl.mdp import IntArray
from aceirl.protocols import Move

# What a person does; everything else in a log is what the agent did on its own.
USER_ACTIONS = ("answer", "skip", "correct")

# How often a person is asked about a state of which they say that they do not know.
MAX_SKIPS = 3


@dataclass
class Walk:
    """An episode: its number, where it started, its moves, and what was wagered on it."""

    number: int
    start: int
    wagers: dict[str, Wager]
    moves: list[Move] = field(default_factory=list)
    skipped: list[tuple[int, int]] = field(default_factory=list)
    over: bool = False

    @property
    def step(self) -> int:
        """How many steps were made."""
        return len(self.moves)

    @property
    def states(self) -> list[int]:
        """The states met, one more than there are actions."""
        return [self.start, *(move[3] for move in self.moves)]

    @property
    def actions(self) -> list[int]:
        """The actions taken."""
        return [move[2] for move in self.moves]


@dataclass
class Votes:
    """What a person said about a state, in order; `since` is the episode and step from which the answer stands.

    `last_answer` is the number of the last answer. What was put right, or not known when it was asked again, is
    `settled` and not asked about any more.
    """

    votes: list[int] = field(default_factory=list)
    since: tuple[int, int] = (0, 0)
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


class History:
    """Votes and episodes, kept up to date event by event.

    An answer that was taken back or put right was wrong when it was given. So an episode knows a state from the time on
    at which its standing answer came to stand *for good*: what was won with the help of another one does not count.
    """

    def __init__(self) -> None:
        self.votes: dict[int, Votes] = {}
        self.answers = self.skips = self.repeats = self.contradictions = self.samples = 0
        self.last_repeat = 0
        self.episodes_since_user_action = 0
        self.walks: list[Walk] = []
        self.names: list[str] = []
        self.met: Counter[int] = Counter()

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """The history that a log tells; what was undone is left out, and the episodes stay."""
        history = cls()
        for number, event in enumerate(effective(events), start=1):
            try:
                history.apply(event)
            except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                raise _misfit(number) from error
        return history

    @property
    def walk(self) -> Walk | None:
        """The last episode; None if there is none yet."""
        return self.walks[-1] if self.walks else None

    @property
    def episodes(self) -> int:
        """How many episodes are over."""
        return len(self.walks) - (self.walk is not None and not self.walk.over)

    def standing(self, state: int) -> int | None:
        """The answer that counts in a state; None if there is none."""
        votes = self.votes.get(state)
        return votes.standing if votes else None

    def contradictory(self) -> dict[int, Votes]:
        """What was said about states, where the answers differ and have not been put right."""
        return {state: votes for state, votes in sorted(self.votes.items()) if votes.contradictory}

    def may_ask(self, state: int) -> bool:
        """Whether the person may still say what they would do in a state that they have not answered."""
        votes = self.votes.get(state)
        return votes is None or (votes.standing is None and votes.skipped < MAX_SKIPS)

    def known(self) -> dict[int, int]:
        """The answers that count, by state."""
        found = {state: votes.standing for state, votes in self.votes.items()}
        return {state: action for state, action in found.items() if action is not None}

    def repeated(self, n_states: int) -> IntArray:
        """`[S, 2]`: how often what was said of a state besides the standing answer is the same, and how often not."""
        found = np.zeros((n_states, 2), dtype=np.int64)
        for state, action in self.known().items():
            votes = self.votes[state].votes
            same = votes.count(action)
            found[state] = same - 1, len(votes) - same
        return found

    def recorded(self) -> list[Recorded]:
        """All episodes, the one under way too, each with the answers that have stood for good since it."""
        answers: dict[int, list[tuple[int, int, int]]] = {}
        for state, action in self.known().items():
            episode, step = self.votes[state].since
            answers.setdefault(episode, []).append((step, state, action))
        return [
            Recorded(
                Episode(walk.start, tuple(walk.moves), tuple(answers.get(walk.number, ())), tuple(walk.skipped)),
                walk.wagers,
            )
            for walk in self.walks
        ]

    def apply(self, event: Event) -> bool:
        """Take in one event that counts; whether it changed an answer that stood before."""
        match event["event"]:
            case "answer":
                return self._answer(*_numbers(event["state"], event["step"], event["action"]))
            case "skip":
                self._skip(*_numbers(event["state"], event["step"]))
            case "correct":
                return self._correct(*_numbers(event["state"], event["action"]))
            case "walk":
                self._walk_on(event)
            case "undo" | "undone":
                pass
            case unknown:
                raise ValueError(unknown)
        return False

    def _answer(self, state: int, step: int, action: int) -> bool:
        votes = self.votes.setdefault(state, Votes())
        before = votes.standing
        if before is not None:
            self.last_repeat = self.answers + 1
        if len(votes.votes) == 1:
            # Only the first repeat of a state is a trial: whether there is a third answer depends on the second.
            self.repeats += 1
            self.contradictions += action != before
        votes.votes.append(action)
        self.answers += 1
        votes.last_answer = self.answers
        return self._changed(votes, before, step)

    def _skip(self, state: int, step: int) -> None:
        votes = self.votes.setdefault(state, Votes())
        self.skips += 1
        self.episodes_since_user_action = 0
        if votes.standing is not None:
            votes.settled, self.last_repeat = True, self.answers
        else:
            votes.skipped += 1
            self.walks[-1].skipped.append((step, state))

    def _correct(self, state: int, action: int) -> bool:
        votes = self.votes[state]
        before = votes.standing
        votes.votes, votes.settled = [action], True
        return self._changed(votes, before, 0)

    def _changed(self, votes: Votes, before: int | None, step: int) -> bool:
        self.episodes_since_user_action = 0
        if votes.standing != before:
            votes.since = (self.walk.number if self.walk else 0, step)
        return before is not None and votes.standing != before

    def _walk_on(self, event: Event) -> None:
        """`path` is a part of an episode: states and actions in turn; the first part has the stakes."""
        path = _numbers(*event["path"])
        states, actions = path[0::2], path[1::2]
        if "stakes" in event:
            wagers = {kind: Wager(stake) for kind, stake in event["stakes"].items()}
            walk = Walk(len(self.walks), states[0], wagers)
            fits = (self.walk is None or self.walk.over) and all(0 <= one.stake <= 1 for one in wagers.values())
        else:
            walk = self.walks[-1]
            fits = not walk.over and walk.states[-1] == states[0]
        if not fits or event["episode"] != walk.number or event["step"] != walk.step:
            raise ValueError(event)
        if walk.number == len(self.walks):
            self.walks.append(walk)
        self.names.extend(event.get("names", ()))
        for here, action, there in zip(states[:-1], actions, states[1:], strict=True):
            walk.moves.append((walk.step, here, action, there))
        self.samples += len(actions)
        if event.get("over"):
            walk.over = True
            self.episodes_since_user_action += 1
            self.met.update({move[1] for move in walk.moves})

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
        return round(unseen) + sum(self.may_ask(state) for state in self.met)


def effective(events: Iterable[Event]) -> list[Event]:
    """The events with what was undone left blank. What the agent did meanwhile stays."""
    kept: list[Event] = []
    done: list[int] = []
    for event in events:
        kept.append(event)
        if event.get("event") in USER_ACTIONS:
            done.append(len(kept) - 1)
        elif event.get("event") == "undo":
            if not done:
                raise _misfit(len(kept))
            kept[done.pop()] = {"event": "undone"}
    return kept


def last_user_action(events: Iterable[Event]) -> Event | None:
    """What an undo would take back; None if there is nothing."""
    return next((event for event in reversed(effective(events)) if event["event"] in USER_ACTIONS), None)


def _numbers(*values: int) -> tuple[int, ...]:
    """The values, if they can be numbers of states, actions and steps."""
    if not all(type(value) is int and value >= 0 for value in values):
        raise ValueError(values)
    return values


def _misfit(number: int) -> InputError:
    return InputError(f"line {number} does not fit what comes before it")
