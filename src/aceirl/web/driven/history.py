"""What was driven and said: events in, facts out; no environment, no committee and no clock.

An episode is told by its number, which names its seed, and by all its actions, the policy's and the person's. What the
person saw at each of their actions is in the log too, so what was answered does not depend on anything being repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from aceirl.errors import InputError
from aceirl.runs.files import Event

Way = Literal["drive", "ask", "watch", "test"]
"""The person drives; the policy drives and asks; it drives and they take over; they drive and nothing is learned."""

Over = Literal["", "ended", "time"]
"""Whether an episode goes on, is over by itself, or was cut by its limit of time."""


@dataclass
class Drive:
    """An episode: `actions` are the numbers of all choices that were taken, `own` says which the person took, and
    `seen [n, d]` what they saw then. The policy of the episode knows the first `known` answers; it has `stopped` where
    it asks."""

    way: Way
    number: int
    known: int
    actions: list[int] = field(default_factory=list)
    own: list[bool] = field(default_factory=list)
    seen: list[list[float]] = field(default_factory=list)
    over: Over = ""
    stopped: bool = False

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return len(self.actions)

    @property
    def free(self) -> int:
        """The step from which on all steps are the policy's."""
        return next((step + 1 for step in reversed(range(self.steps)) if self.own[step]), 0)

    def cut(self, steps: int) -> None:
        """Keep only so many steps."""
        del self.actions[steps:], self.own[steps:]
        del self.seen[sum(self.own) :]
        self.over, self.stopped = "", True


class Drives:
    """All episodes, and what the person decided; `turn` counts the events.

    `at` is the episode under way. Test drives `[used:]` are evidence for the next promise; those before have been seen
    in an ending, of which there were `endings` with a promise. What was done before the last ending stays.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.drives: list[Drive] = []
        self.at: Drive | None = None
        self.turn = self.looked = self.used = self.endings = 0
        self.finished = False
        self._said: list[Drive] = []  # the episode of each action of the person since the last ending
        for number, event in enumerate(events, start=1):
            try:
                self.apply(event)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise InputError(f"line {number} of the log is not an event of this interview: {error}") from None

    def apply(self, event: Event) -> None:
        """Take in one event."""
        match event["event"]:
            case "begin":
                self._begin(event["way"], int(event["known"]), int(event.get("looked", 0)))
            case "policy":
                self._go_on([int(action) for action in event["actions"]], own=False)
            case "person":
                drive = self._go_on([int(event["action"])], own=True)
                drive.seen.append([float(number) for number in event["seen"]])
                self._said.append(drive)
            case "over":
                self._under_way().over = event["how"]
            case "take":
                self._under_way().cut(int(event["step"]))
            case "undo":
                self._undo()
            case "finish":
                self.finished, self.at = True, None
                self._said.clear()
            case "go on":
                self.finished = False
                if event["promised"]:
                    self.used, self.endings = len(self.tests), self.endings + 1
            case unknown:
                raise ValueError(f"{unknown!r} is unknown")
        self.turn += 1

    @property
    def tests(self) -> list[Drive]:
        """The test drives, in the order in which they were begun; only the last may be unfinished."""
        return [drive for drive in self.drives if drive.way == "test"]

    @property
    def evidence(self) -> list[Drive]:
        """The test drives for the next promise, without one that is not finished."""
        return [drive for drive in self.tests[self.used :] if drive.over]

    @property
    def learning(self) -> list[Drive]:
        """The episodes that are learned from."""
        return [drive for drive in self.drives if drive.way != "test"]

    @property
    def answers(self) -> int:
        """How many answers there are to learn from."""
        return sum(len(drive.seen) for drive in self.learning)

    @property
    def steps(self) -> int:
        """How many steps were taken in the environment, but for test drives."""
        return self.looked + sum(drive.steps for drive in self.learning)

    @property
    def undoable(self) -> Drive | None:
        """The episode of the last action that can be taken back; not of a test drive, in which one tries once."""
        return self._said[-1] if self._said and self._said[-1].way != "test" else None

    def answered(self, first: int | None = None) -> tuple[list[list[float]], list[int]]:
        """What was seen and what was done, of the `first` answers, or of all."""
        seen = [one for drive in self.learning for one in drive.seen]
        said = [a for drive in self.learning for a, own in zip(drive.actions, drive.own, strict=True) if own]
        return seen[:first], said[:first]

    def _begin(self, way: Way, known: int, looked: int) -> None:
        tests = self.tests
        self.looked += looked
        if way == "test" and tests and not tests[-1].over:  # whoever could leave out a test would choose
            self.at = tests[-1]
            return
        number = len(tests) if way == "test" else len(self.learning)
        self.at = Drive(way, number, known)
        self.drives.append(self.at)

    def _under_way(self) -> Drive:
        if self.at is None:
            raise ValueError("no episode is under way")
        return self.at

    def _go_on(self, actions: list[int], *, own: bool) -> Drive:
        drive = self._under_way()
        drive.actions += actions
        drive.own += [own] * len(actions)
        drive.stopped = not own
        return drive

    def _undo(self) -> None:
        """Take back the person's last action and all that came after it: the same situation is there again."""
        drive = self.undoable
        if drive is None:
            raise ValueError("there is nothing to undo")
        self._said.pop()
        drive.cut(drive.free - 1)
        del self.drives[self.drives.index(drive) + 1 :]
        self.at = drive
