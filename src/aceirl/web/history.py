"""What was said and done in an interview: events in, facts out; no engine, no environment and no clock."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from aceirl.certificates import Wager
from aceirl.data.answers import standing
from aceirl.data.arrays import Move
from aceirl.data.dataset import Trajectory
from aceirl.data.preferences import Preference
from aceirl.envs.description import Features
from aceirl.errors import InputError
from aceirl.explain.wish import Statement
from aceirl.learner.engine import Recorded
from aceirl.models.tabular.mdp import IntArray
from aceirl.runs.files import Event
from aceirl.web.early import LEAST_SHARE, MOST_SHARE

# What a person says, which can be taken back, and all that a person does; the rest of a log is what the agent did.
SAID = ("answer", "skip", "correct", "review", "prefer", "verdict")
USER_ACTIONS = (*SAID, "undo", "finish", "go on", "more", "adjust", "start again", "mode")

Mode = Literal["ask", "play", "compare"]
"""How a person is interviewed: asked now and then, playing every move, or comparing two episodes."""

Verdict = Literal["yes", "nearly", "no"]
"""What a person says of the wish that is read from their answers."""

EpisodeMode = Literal["asked", "shown", "alone"]
"""How the actions of an episode are chosen: by the person's answers, by guesses shown afterwards, or without them."""

Relation = Literal["same", "at most", "at least"]

Reviewed = tuple[int, int, int]
"""`(step, state, action)`: a guess that was acted on."""

# So many of the last episodes at least, and situations in them, say how much of what is met was spoken about.
LAST_EPISODES, LAST_SITUATIONS = 15, 150

# How many answers are to come is not guessed as long as less than this share of what is met was spoken about.
EARLY = 0.5

# What of an episode need not be covered, to guess how many answers are to come.
ENOUGH = 0.03

# What was done in a state so many times is no news any more.
FAMILIAR = 4

# How often a person is asked about a state of which they say that they do not know.
MAX_SKIPS = 3


@dataclass(frozen=True)
class Accuracy:
    """What is asked of the certificate: a loss of at most a share `epsilon`, with confidence `1 - delta`."""

    epsilon: float = 0.1
    delta: float = 0.1

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if not LEAST_SHARE <= value <= MOST_SHARE:
                raise InputError(f"{name} must be between {LEAST_SHARE} and {MOST_SHARE}, got {value!r}")


@dataclass(frozen=True)
class Scope:
    """The situations whose features relate to given values so; a feature that is not named may be anything."""

    conditions: tuple[tuple[str, Relation, int | float | str], ...]

    @classmethod
    def like(cls, features: Features, relations: Mapping[str, str]) -> Scope:
        """The situations that are like one with these features, by the relations that a person named."""
        conditions: list[tuple[str, Relation, int | float | str]] = []
        for name, relation in relations.items():
            if name not in features:
                raise InputError(f"{name!r} is not one of {', '.join(features) or 'no features at all'}")
            value = features[name]
            allowed: tuple[Relation, ...] = get_args(Relation) if not isinstance(value, str) else ("same",)
            found = next((one for one in allowed if one == relation), None)
            if found is None:
                raise InputError(f"{name} can be {', '.join(allowed)}, not {relation!r}")
            conditions.append((name, found, value))
        return cls(tuple(sorted(conditions)))

    @classmethod
    def read(cls, written: list[Any]) -> Scope:
        """From its form in JSON; a `ValueError` or `TypeError` if it is none."""
        for name, relation, value in written:
            if (type(name), relation in get_args(Relation), isinstance(value, int | float | str)) != (str, True, True):
                raise ValueError(written)
        return cls(tuple((name, relation, value) for name, relation, value in written))

    def covers(self, features: Features) -> bool:
        """Whether a situation with these features is one of them."""
        return all(name in features and _holds(features[name], how, value) for name, how, value in self.conditions)

    @property
    def words(self) -> str:
        """The situations in words."""
        how = {"same": "", "at most": " or less", "at least": " or more"}
        return ", ".join(f"{name} {value}{how[way]}" for name, way, value in self.conditions) or "everywhere"


def _holds(found: int | float | str, relation: Relation, value: int | float | str) -> bool:
    if relation == "same":
        return found == value
    if isinstance(found, str) or isinstance(value, str):
        return False
    return found <= value if relation == "at most" else found >= value


@dataclass
class LoggedTrajectory:
    """An episode: its number, where it started, its moves, how it was walked, and what was wagered on it.

    `guessed` are the guesses that were acted on, one for each state; `offered` is whether the person shall see them,
    and `reviewed` whether they have.
    `news` counts the moves that did something in a state for one of the first times.
    """

    number: int
    start: int
    wagers: dict[str, Wager]
    mode: EpisodeMode = "asked"
    moves: list[Move] = field(default_factory=list)
    skipped: list[tuple[int, int]] = field(default_factory=list)
    guessed: list[Reviewed] = field(default_factory=list)
    over: bool = False
    offered: bool = False
    reviewed: bool = False
    news: int = 0

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
    `settled` and not asked about any more. What was said of many states at once is `declared`.
    """

    votes: list[int] = field(default_factory=list)
    since: tuple[int, int] = (0, 0)
    last_answer: int = 0
    settled: bool = False
    declared: bool = False
    skipped: int = 0

    @property
    def standing(self) -> int | None:
        """The answer that counts: the commonest, and of those equally common the latest; None if there is none."""
        return standing(self.votes)

    @property
    def contradictory(self) -> bool:
        """Whether the answers differ, and nobody has said since which one is right."""
        return len(set(self.votes)) > 1

    @property
    def tied(self) -> bool:
        """Whether the standing answer has no more votes than another."""
        ranked = Counter(self.votes).most_common(2)
        return len(ranked) == 2 and ranked[0][1] == ranked[1][1]


@dataclass(frozen=True)
class SaidRule:
    """An answer that holds for many situations; `number` is the turn at which it was given."""

    number: int
    scope: Scope
    action: int


@dataclass(frozen=True)
class Earlier:
    """What a log came to before the person last started again: how many lines, what the person did, how often they had
    started again, and what was spent of the error rate. All else is forgotten, and need not be read again."""

    lines: int = 0
    turns: int = 0
    times_begun: int = 0
    spent: int = 0


class History:
    """Votes and episodes, kept up to date event by event.

    An answer that was taken back or put right was wrong when it was given. So an episode knows a state from the time on
    at which its standing answer came to stand *for good*: what was won with the help of another one does not count.

    `spent` counts how often evidence for a promise was gathered anew, whoever did it and whatever was taken back since;
    `restarts` is that number when what there is was begun. `turn` counts what the person did, `said` is what of it can
    be taken back, and `reopened` what was taken back just now. `needed` counts questions that came because others had
    answered them, `wondered` are the states that the person asked to be asked about after the end, and `wondered_since`
    is the number of the next episode then, None if one was under way. `first_said` has by state the event that speaks
    of it first, or that put it right, and `given` by state and action the last event that says so. `earlier` is what
    was before the person last started again.
    """

    def __init__(self) -> None:
        self.votes: dict[int, Votes] = {}
        self._standing: dict[int, int] = {}
        self.answers = self.skips = self.repeats = self.contradictions = self.samples = 0
        self.last_repeat = self.right_guesses = self.needed = 0
        self.episodes_since_user_action = 0
        self.mode: Mode = "ask"
        self.finished = False
        self.wondered: list[int] = []
        self.wondered_since: int | None = None
        self.adjusted: tuple[Accuracy, int] | None = None
        self.restarts = self.spent = self.evidence_since = self.alone_steps = 0
        self.rules: list[SaidRule] = []
        self.compared: list[Event] = []
        self.verdicts: list[Event] = []
        self.trajectories: list[LoggedTrajectory] = []
        self.names: list[str] = []
        self.met: Counter[int] = Counter()
        self.tried: Counter[tuple[int, int]] = Counter()
        self._last_met: deque[set[int]] = deque()
        self._lengths: deque[int] = deque(maxlen=LAST_EPISODES)
        self._totals: deque[float] = deque(maxlen=LAST_EPISODES)
        self.turn = self.times_begun = self.times_wondered = 0
        self.earlier = Earlier()
        self.said: list[Event] = []
        self.reopened: Event | None = None
        self.last_event: Event | None = None
        self.given: dict[tuple[int, int], Event] = {}
        self.first_said: dict[int, Event] = {}

    @classmethod
    def of(cls, events: Iterable[Event], earlier: Earlier | None = None) -> History:
        """The history that a log tells, or the part of it after what is `earlier`; what was undone is left out, and the
        episodes stay.

        Who starts again forgets all but what was spent of the error rate: the folder promises once.
        """
        earlier = earlier or Earlier()
        events, first, spent = list(events), 0, earlier.spent
        begins = [number for number, event in enumerate(events) if event.get("event") == "start again"]
        for last in (*begins, len(events)):
            history = cls()
            history.restarts = history.spent = spent
            for number, event in enumerate(effective(events[first:last]), start=earlier.lines + first + 1):
                try:
                    history.apply(event)
                except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                    raise _misfit(number) from error
            if last < len(events):
                first, spent = last + 1, history.spent + 1
        did = [event["event"] in USER_ACTIONS for event in events]
        history.turn, history.times_begun = earlier.turns + sum(did), earlier.times_begun + len(begins)
        turns = earlier.turns + sum(did[:first])
        history.earlier = Earlier(earlier.lines + first, turns, history.times_begun, spent)
        return history

    @property
    def trajectory(self) -> LoggedTrajectory | None:
        """The last episode; None if there is none yet."""
        return self.trajectories[-1] if self.trajectories else None

    def under_way(self, horizon: int) -> bool:
        """Whether the last episode goes on."""
        return self.trajectory is not None and not self.trajectory.over and self.trajectory.step < horizon

    @property
    def episodes(self) -> int:
        """How many episodes are over."""
        return len(self.trajectories) - (self.trajectory is not None and not self.trajectory.over)

    def standing(self, state: int) -> int | None:
        """The answer that counts in a state; None if there is none."""
        return self._standing.get(state)

    def contradictory(self) -> dict[int, Votes]:
        """What was said about states, where the answers differ and have not been put right."""
        return {state: votes for state, votes in sorted(self.votes.items()) if votes.contradictory}

    def may_ask(self, state: int) -> bool:
        """Whether the person may still say what they would do in a state that they have not answered."""
        votes = self.votes.get(state)
        return votes is None or (votes.standing is None and votes.skipped < MAX_SKIPS)

    def known(self) -> dict[int, int]:
        """The answers that count, by state."""
        return dict(self._standing)

    def repeated(self, n_states: int) -> IntArray:
        """`[S, 2]`: how often what was said of a state besides the standing answer is the same, and how often not."""
        found = np.zeros((n_states, 2), dtype=np.int64)
        for state, action in self.known().items():
            votes = self.votes[state].votes
            same = votes.count(action)
            found[state] = same - 1, len(votes) - same
        return found

    @property
    def pending(self) -> list[int]:
        """The states that the person asked to be asked about, and has said nothing of."""
        return [state for state in self.wondered if state not in self.votes]

    @property
    def to_review(self) -> LoggedTrajectory | None:
        """The last episode, if the person is asked, shall see what was guessed in it and has not yet."""
        walk = self.trajectory
        return walk if self.mode == "ask" and walk and walk.offered and not walk.reviewed else None

    def recorded(self, horizon: int) -> list[Recorded]:
        """All episodes, the one under way too, each with the answers that have stood for good since it.

        Of episodes longer than the `horizon` the beginning counts. What was won before the evidence was gathered anew
        does not.
        """
        answers: dict[int, list[tuple[int, int, int]]] = {}
        for state, action in self.known().items():
            episode, step = self.votes[state].since
            answers.setdefault(episode, []).append((min(step, horizon - 1), state, action))
        return [
            (
                Trajectory.of_moves(
                    walk.start,
                    walk.moves[:horizon],
                    answers=tuple(answers.get(walk.number, ())),
                    skipped=tuple(one for one in walk.skipped if one[0] < horizon),
                ),
                walk.wagers if walk.number >= self.evidence_since else {},
            )
            for walk in self.trajectories
        ]

    def preferences(self, horizon: int) -> list[Preference]:
        """What the person said of pairs of episodes that differ; of longer ones the beginning counts."""
        found = []
        for event in self.compared:
            first, second = (tuple(self.trajectories[number].moves[:horizon]) for number in event["pair"])
            if first and second and not event.get("unknown"):
                better, other = (second, first) if event["better"] == 1 else (first, second)
                found.append(Preference(better, other, equal=event["better"] is None))
        return found

    @property
    def chosen(self) -> list[list[Any]]:
        """What the person chose last as what they want or avoid, with all besides: what, where, and its name."""
        last = next((event for event in reversed(self.verdicts) if event["chosen"] is not None), None)
        return [] if last is None else [*last.get("besides", ()), [*last["chosen"], last["state_name"]]]

    @property
    def told(self) -> list[Statement]:
        """What the person said of their wish: all that they denied, and what they affirmed last. To say no to one of
        several wishes is to deny each; to say yes affirms none."""
        denied: list[Statement] = []
        affirmed: list[Statement] = []
        for event in self.verdicts:
            named = frozenset((str(what), int(where)) for what, where in event["named"])
            one_of = bool(event.get("one_of"))
            if event["chosen"] is not None:
                claims = [event["chosen"], *(one[:2] for one in event.get("besides", ()))]
                affirmed = [Statement(frozenset((str(what), int(where)) for what, where in claims))]
            elif event["verdict"] == "yes" and named and not one_of:
                affirmed = [Statement(named)]
            if event["verdict"] == "no" and named:
                parts = [frozenset({one}) for one in sorted(named)] if one_of else [named]
                denied += [Statement(part, right=False) for part in parts]
        return [one for one in denied if all(one.claims != other.claims for other in affirmed)] + affirmed

    def fits(self, shape: tuple[int, int, int]) -> bool:
        """Whether all steps, states and actions are those of an environment of `shape` `(H, S, A)`."""
        walks, said = self.trajectories, self.votes
        steps = {walk.step - 1 for walk in walks} | {votes.since[1] for votes in said.values()}
        states = {state for walk in walks for state in walk.states} | set(said)
        actions = {action for walk in walks for action in walk.actions}
        actions |= {vote for votes in said.values() for vote in votes.votes}
        if self.adjusted is not None:  # episodes may have been longer
            steps = set()
        return all(max(found, default=0) < size for found, size in zip((steps, states, actions), shape, strict=True))

    def apply(self, event: Event) -> bool:
        """Take in one event that counts; whether it changed an answer that stood before."""
        kind, changed = event["event"], False
        if kind in SAID:
            self.said.append(event)
        if kind != "spent":
            self.last_event = event
        if kind in USER_ACTIONS:
            self.turn += 1
            self.reopened = None
            self.needed += bool(event.get("needed"))
        match kind:
            case "answer":
                changed = self._answer(event, *_numbers(event["state"], event["step"], event["action"]))
            case "applied":
                self._fill(*_numbers(event["step"], event["state"], event["action"]), declared=True)
            case "skip":
                self._skip(*_numbers(event["state"], event["step"]))
            case "correct":
                changed = self._correct(*_numbers(event["state"], event["action"]))
            case "review":
                self._review(event)
            case "prefer":
                first, second = _numbers(*event["pair"])
                if event["better"] not in (0, 1, None) or max(first, second) >= len(self.trajectories):
                    raise ValueError(event)
                unknown = bool(event.get("unknown"))
                self.compared.append(event)
                self.answers, self.skips = self.answers + (not unknown), self.skips + unknown
            case "verdict":
                if event["verdict"] not in get_args(Verdict):
                    raise ValueError(event)
                self.verdicts.append(event)
            case "walk":
                self._walk_on(event)
            case "mode":
                if event["mode"] not in get_args(Mode):
                    raise ValueError(event)
                self.mode, self.wondered = event["mode"], []
            case "finish" | "go on":
                self.finished, self.episodes_since_user_action, self.wondered = kind == "finish", 0, []
            case "more":
                at_rest = self.trajectory is None or self.trajectory.over
                self.wondered = list(_numbers(*event["states"]))
                self.wondered_since = len(self.trajectories) if at_rest else None
                self.times_wondered += 1
            case "adjust":
                (horizon,) = _numbers(event["horizon"])
                if self.trajectory is not None:
                    self.trajectory.over = True  # it was another kind of episode
                self.adjusted = Accuracy(float(event["epsilon"]), float(event["delta"])), horizon
                self._gather_anew()
                self.finished, self.episodes_since_user_action = False, 0
            case "undo":
                took = event["took"]
                self.reopened = None if took["event"] in ("correct", "verdict") else took
                # What was taken back may have made the evidence start anew.
                self.spent += took["event"] == "correct" or (took["event"] == "answer" and "guess" not in took)
                if event["walked"] and took["event"] != "verdict":
                    self._gather_anew()
                    for state, _ in _spoken_about(took):
                        self.votes.get(state, Votes()).since = (len(self.trajectories) - 1, 0)
            case "spent":
                self.spent = max(self.spent, *_numbers(event["restarts"]))
            case "undone":
                pass
            case _:
                raise ValueError(kind)
        if kind in ("answer", "applied", "correct", "review"):
            for state, action in _spoken_about(event):
                self.given[state, action] = event
                self.first_said[state] = event if kind == "correct" else self.first_said.get(state, event)
        return changed

    def _answer(self, event: Event, state: int, step: int, action: int) -> bool:
        votes = self.votes.setdefault(state, Votes())
        before = votes.standing
        if before is not None:
            self.last_repeat = self.answers + 1
        if len(votes.votes) == 1 and not votes.declared:
            # Only the first repeat of a state is a trial: whether there is a third answer depends on the second.
            self.repeats += 1
            self.contradictions += action != before
        elif before is None and event.get("guess") is not None:
            self.right_guesses = self.right_guesses + 1 if event["guess"] == action else 0
        votes.votes.append(action)
        self.answers += 1
        votes.last_answer = self.answers
        changed = self._changed(state, before, step)
        if "scope" in event:
            (number,) = _numbers(event["turn"])
            self.rules.append(SaidRule(number, Scope.read(event["scope"]), action))
        for other in _numbers(*event.get("also", ())):
            self._fill(step, other, action, declared=True)
        return changed

    def _fill(self, step: int, state: int, action: int, *, declared: bool = False) -> None:
        """An answer that comes with others, for a state that has none of its own.

        If it was declared it may be asked about, else it was approved, and is not.
        """
        votes = self.votes.setdefault(state, Votes())
        if votes.standing is None:
            votes.votes, votes.last_answer = [action], self.answers
            votes.declared, votes.settled = declared, not declared
            self._changed(state, None, step)

    def _review(self, event: Event) -> None:
        """Guesses that the person has seen: those that are right, and what they would do instead at the first wrong.

        They may be as good as what the person would have said, so nobody is asked about them again.
        """
        (number,) = _numbers(event["episode"])
        said = reviewed(event)
        self.trajectories[number].reviewed = True
        self.episodes_since_user_action = 0
        self.answers, self.skips = self.answers + bool(said), self.skips + (not said)
        self.right_guesses = self.right_guesses + len(said) if said and not event["instead"] else 0
        for entry in said:
            self._fill(*_numbers(*entry))

    def _skip(self, state: int, step: int) -> None:
        votes = self.votes.setdefault(state, Votes())
        self.skips += 1
        self.episodes_since_user_action = 0
        if votes.standing is not None:
            votes.settled, self.last_repeat = True, self.answers
        else:
            votes.skipped += 1
            self.trajectories[-1].skipped.append((step, state))

    def _correct(self, state: int, action: int) -> bool:
        votes = self.votes[state]
        before = votes.standing
        votes.votes, votes.settled = [action], True
        return self._changed(state, before, 0)

    def _changed(self, state: int, before: int | None, step: int) -> bool:
        """Take note of what stands now; whether something else stood before."""
        self.episodes_since_user_action = 0
        votes, number = self.votes[state], self.trajectory.number if self.trajectory else 0
        standing = votes.standing
        if standing is not None:
            self._standing[state] = standing
        if standing == before:
            return False
        if before is not None and votes.since[0] < number:
            self._gather_anew()
        votes.since = (number, step)
        return before is not None

    def _gather_anew(self) -> None:
        """From now on other answers are known, or something else is aimed at: no wager so far was about that."""
        self.spent += 1
        self.restarts = self.spent
        self.evidence_since = len(self.trajectories)

    def _walk_on(self, event: Event) -> None:
        """`path` is a part of an episode: states and actions in turn; the first part has the stakes."""
        path = _numbers(*event["path"])
        states, actions = path[0::2], path[1::2]
        if "stakes" in event:
            waits = event.get("waits", {})
            wagers = {kind: Wager(stake, wait_for=waits.get(kind, 0.0)) for kind, stake in event["stakes"].items()}
            if event.get("conduct", "asked") not in get_args(EpisodeMode):
                raise ValueError(event)
            walk = LoggedTrajectory(len(self.trajectories), states[0], wagers, event.get("conduct", "asked"))
            fits = (self.trajectory is None or self.trajectory.over) and all(
                0 <= one.stake <= 1 and 0 <= one.wait_for < math.inf for one in wagers.values()
            )
        else:
            walk = self.trajectories[-1]
            fits = not walk.over and walk.states[-1] == states[0]
        if not fits or event["episode"] != walk.number or event["step"] != walk.step:
            raise ValueError(event)
        if walk.number == len(self.trajectories):
            self.trajectories.append(walk)
        self.names.extend(event.get("names", ()))
        for here, action, there in zip(states[:-1], actions, states[1:], strict=True):
            walk.moves.append((walk.step, here, action, there))
            walk.news += self.tried[here, action] < FAMILIAR
            self.tried[here, action] += 1
        for entry in event.get("guessed", ()):
            step, state, action = _numbers(*entry)
            walk.guessed.append((step, state, action))
        self.samples += len(actions)
        if event.get("over"):
            walk.over, walk.offered = True, bool(event.get("offered"))
            self.episodes_since_user_action += walk.mode != "alone"
            self.alone_steps += walk.step if walk.mode == "alone" else 0
            met = {move[1] for move in walk.moves}
            self.met.update(met)
            self._last_met.append(met)
            while len(self._last_met) > LAST_EPISODES and sum(map(len, self._last_met)) > LAST_SITUATIONS:
                self._last_met.popleft()
            if walk.mode != "alone":
                self._expect(walk.step)

    @property
    def coverage(self) -> float:
        """The share of the situations met in the last episodes that the person has spoken about."""
        met = sum(map(len, self._last_met))
        return sum(len(states & self._standing.keys()) for states in self._last_met) / met if met else 0.0

    @property
    def familiar(self) -> float | None:
        """How much of what is met the person has spoken about, as the page shows it; None if it is too early to say.

        Who plays speaks about everything that they meet, so in what they play counts what they spoke about in earlier
        episodes.
        """
        if self.mode != "play":
            return self.coverage
        played = [walk for walk in self.trajectories if walk.mode != "alone"][1:]
        met = [(walk.number, state) for walk in played[-LAST_EPISODES:] for state in {move[1] for move in walk.moves}]
        before = sum(state in self._standing and self.votes[state].since[0] < number for number, state in met)
        return before / len(met) if met else None

    def _expect(self, length: int) -> None:
        """Keep how many answers there will be, as it seems after an episode of that length.

        What is not covered is taken to shrink by the same share with every answer, until an episode is covered but for
        a probability of `ENOUGH`.
        """
        self._lengths.append(length)
        new, enough = 1 - self.coverage, ENOUGH / max(1.0, float(np.mean(self._lengths)))
        if self.answers and new < 1:
            self._totals.append(self.answers * float(np.log(enough) / np.log(max(new, enough))))

    def answers_left(self, possible: float) -> int | None:
        """About how many answers are still to come, by the median of the last guesses; None if it is too early to say.

        There are no more than the `possible` states call for, if an answer goes on to cover as many as it did.
        """
        if self.coverage < EARLY or not self._totals:
            return None
        left, known = float(np.median(self._totals)) - self.answers, len(self.known())
        most = (possible - known) / max(1.0, known / max(1, self.answers))
        return max(0, round(min(left, most)))


def effective(events: Iterable[Event]) -> list[Event]:
    """The events of a log in which nobody starts again, with what was undone left blank.

    What the agent did meanwhile stays, but for what it did on an answer for many situations that was taken back. An
    undoing has what it `took` back, as what is said of those states stands only since then, and whether episodes began
    meanwhile.
    """
    kept: list[Event] = []
    said: list[int] = []
    for event in events:
        kept.append(event)
        if event.get("event") in SAID:
            said.append(len(kept) - 1)
        elif event.get("event") == "undo":
            if not said:
                raise _misfit(len(kept))
            walked = any("stakes" in one for one in kept[said[-1] :])
            kept[-1] = event | {"took": kept[said[-1]], "walked": walked}
            kept[said.pop()] = {"event": "undone"}
    rules = {event["turn"] for event in kept if event.get("event") == "answer" and "scope" in event}
    lost = {"event": "undone"}
    return [lost if event.get("event") == "applied" and event.get("rule") not in rules else event for event in kept]


def reviewed(event: Event) -> list[Reviewed]:
    """What a review says: the guesses that are right, and what the person would do at the first that is wrong."""
    return [*event["approved"], *([event["instead"]] if event["instead"] else [])]


def _spoken_about(event: Event) -> list[tuple[int, int]]:
    """The states that something was said about, each with the action that was named; -1 if none was."""
    if event["event"] == "review":
        return [(state, action) for _, state, action in reviewed(event)]
    states = [event["state"]] if "state" in event else []
    return [(state, event.get("action", -1)) for state in (*states, *event.get("also", ()))]


def _numbers(*values: int) -> tuple[int, ...]:
    """The values, if they can be numbers of states, actions and steps."""
    if not all(type(value) is int and value >= 0 for value in values):
        raise ValueError(values)
    return values


def _misfit(number: int) -> InputError:
    return InputError(f"line {number} does not fit what comes before it")
