"""What the people of an interview see of each other: names, what each would do, where they differ, what each wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from aceirl.goal import Person as Named
from aceirl.goal import goal_of
from aceirl.turns import Turn
from aceirl.web.agreement import Agreement, Pair, agreement
from aceirl.web.conductor import Conductor
from aceirl.web.people import People, Person
from aceirl.web.security import Reach
from aceirl.web.session import Interview
from aceirl.web.view import counted

HERE_ONLY = (
    "This link works on this machine only. To let in others, start with --host 0.0.0.0, "
    "or with --url and the address of a tunnel or a mapped port."
)


class Together:
    """Everybody's answers side by side. `conductors` has one for each token, and works out what a person wants."""

    def __init__(self, people: People, conductors: Mapping[str, Conductor], reach: Reach) -> None:
        self.people, self.conductors, self.reach = people, conductors, reach
        self._answers: dict[str, tuple[int, dict[str, int], dict[str, str]]] = {}
        self._agreement: tuple[object, dict[str, Any]] = None, {}
        self._goals: dict[str, tuple[object, str | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def shown(self, me: Person) -> dict[str, Any]:
        """All that the page about everybody shows to one of them; only the owner is shown how others can join."""
        rows = [self._row(person, me) for person in self.people.everybody]
        return {
            "me": me.name,
            "invitation": self._invitation() if me is self.people.owner else None,
            "people": rows,
            "agreement": self._compared_once(),
        }

    def _row(self, person: Person, me: Person) -> dict[str, Any]:
        interview = person.interview
        return {
            "name": person.name,
            "me": person is me,
            "answers": interview.history.answers,
            "phase": interview.phase,
            "goal": self._goal(person) if interview.phase == "done" else None,
        }

    def _invitation(self) -> dict[str, Any]:
        """The path; its `base` is the page's own origin, if there is no address that is said to lead here."""
        reach = self.reach
        note = None if reach.public or reach.url else HERE_ONLY
        return {"path": f"/{self.people.invitation}/", "base": reach.url, "note": note}

    def _compared_once(self) -> dict[str, Any]:
        """The same for as long as nobody does anything."""
        moment = [(person.name, person.interview.turn) for person in self.people.everybody]
        if self._agreement[0] != moment:
            self._agreement = moment, self._compared()
        return self._agreement[1]

    def _compared(self) -> dict[str, Any]:
        answers: dict[str, dict[str, int]] = {}
        names: dict[str, str] = {}
        for person in self.people.everybody:
            answers[person.name], named = self._said(person)
            names |= named
        actions = [action.name for action in self.people.owner.interview.view.actions]
        found = agreement(answers)
        return {
            "words": _in_words(found),
            "common": found.common,
            "pairs": [asdict(pair) | {"words": _pair_in_words(pair)} for pair in found.pairs],
            "disagreements": [
                {
                    "situation": names[one.situation],
                    "answers": [{"name": name, "action": actions[said]} for name, said in one.answers.items()],
                }
                for one in found.disagreements
            ],
        }

    def _said(self, person: Person) -> tuple[dict[str, int], dict[str, str]]:
        """What a person would do by situation, and the situations in words."""
        turn, said, names = self._answers.get(person.token, (-1, {}, {}))
        if turn != person.interview.turn:
            said, names = _answers_of(person.interview)
            self._answers[person.token] = person.interview.turn, said, names
        return said, names

    def _goal(self, person: Person) -> str | None:
        """What a person who has finished wants, in one sentence; None while that is being worked out."""
        interview, conductor = person.interview, self.conductors[person.token]
        learned = interview.learned if interview.kept_version == interview.version else None
        moment = None if learned is None else interview.version, person.name
        asked, goal = self._goals.get(person.token, (None, None))
        if asked != moment:
            self._goals[person.token] = moment, None
            if learned is None:
                conductor.carry_on()
            else:
                task = asyncio.create_task(self._work_out(person, learned, conductor, moment))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return None
        return goal

    async def _work_out(self, person: Person, learned: Turn, conductor: Conductor, moment: object) -> None:
        names = [person.interview.view.name(state) for state in range(person.interview.environment.n_states)]
        actions = [action.name for action in person.interview.view.actions]
        called = Named(person.name, "them", person.name)
        loop = asyncio.get_running_loop()
        goal = await loop.run_in_executor(conductor.thinking, goal_of, learned, names, actions, called)
        if self._goals[person.token][0] == moment:
            self._goals[person.token] = moment, "" if goal is None else goal.wish


def _answers_of(interview: Interview) -> tuple[dict[str, int], dict[str, str]]:
    """People meet situations in different orders, so these are told apart by what the environment shows."""
    said, names = {}, {}
    for state, action in interview.history.known().items():
        situation = json.dumps(interview.view.demonstrated(state, action)[0])
        said[situation], names[situation] = action, interview.view.name(state)
    return said, names


def _in_words(found: Agreement) -> str:
    if not found.pairs:
        return "Nobody else is here yet."
    if not found.common:
        return "There is no situation yet that two people have answered."
    if not found.disagreements:
        return f"All agree, in {counted(found.common, 'situation')} that two or more have answered."
    differ = len(found.disagreements)
    return f"Of {counted(found.common, 'situation')} that two or more have answered, they differ in {differ}."


def _pair_in_words(pair: Pair) -> str:
    if not pair.common:
        return "no common situation yet"
    share = f"{100 * pair.equal / pair.common:.0f} %"
    return f"{share} ({100 * pair.low:.0f} to {100 * pair.high:.0f} %)"
