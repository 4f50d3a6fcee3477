"""The people of an interview: each has a name, an address and a folder, and sees what the others would do and want."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aceirl.errors import InputError
from aceirl.experts.tasks import Source
from aceirl.explain.goal import goal_of
from aceirl.explain.listing import Person
from aceirl.learner.turns import Turn
from aceirl.runs.files import alone, disk, replace
from aceirl.web.background import Background
from aceirl.web.driver import Interview
from aceirl.web.history import Accuracy
from aceirl.web.inter_rater import Agreement, Pair, agreement
from aceirl.web.security import INVITATION_FILE, TOKEN_FILE, Reach, lasting_token
from aceirl.web.view import counted

PEOPLE, NAME_FILE = "people", "name"

# What the first person is called who has not said their name.
HOST = "Host"

LONGEST_NAME, MOST_PEOPLE = 40, 20

Said = dict[str, tuple[str, int]]
"""What a person would do: by situation, its name and the action."""

BUSY = "an interview with this folder is already running"

HERE_ONLY = (
    "This link works on this machine only. To let in others, start with --host 0.0.0.0, "
    "or with --url and the address of a tunnel or a mapped port."
)


@dataclass
class Participant:
    """Somebody with an interview of their own; `token` is the secret part of their address."""

    name: str
    token: str
    interview: Interview


class People:
    """Everybody who is interviewed about one environment, the owner first.

    The owner's interview is in the folder itself, everybody else's in `people/` under it: complete folders of
    interviews, about the same environment and as accurate. Whoever has the `invitation` may join.
    """

    def __init__(self, owner: Interview, token: str, invitation: str) -> None:
        self.folder, self.invitation = owner.folder, invitation
        self.everybody = [Participant(_kept_name(owner.folder) or HOST, token, owner)]
        self._opened = ExitStack()

    @classmethod
    def open(cls, folder: Path, source: Source, accuracy: Accuracy, token: str | None = None) -> People:
        """The people in a folder, which is made if need be; a `token` that is given is for an owner who has none."""
        with ExitStack() as opened:
            opened.enter_context(alone(folder, BUSY))
            owner = Interview.open(folder, source, accuracy)
            opened.callback(owner.close)
            people = cls(owner, lasting_token(folder, fresh=token), lasting_token(folder, INVITATION_FILE))
            people._opened.push(opened.pop_all())
        try:
            people._open_others()
        except BaseException:
            people.close()
            raise
        return people

    @property
    def owner(self) -> Participant:
        """The first person, who may invite others."""
        return self.everybody[0]

    def close(self) -> None:
        """Nothing more is written, and others may use the folders."""
        self._opened.close()

    def join(self, name: str) -> Participant:
        """A new person of that name, who has answered nothing yet."""
        name = self._free_name(name)
        if len(self.everybody) >= MOST_PEOPLE:
            raise InputError(f"there are {MOST_PEOPLE} people already, and no room for more")
        return self._enter(name, self._free_folder(name), new=True)

    def rename(self, person: Participant, name: str) -> None:
        """Call a person something else; the folder stays."""
        name = self._free_name(name, person)
        _keep_name(person.interview.folder, name)
        person.name = name

    def _open_others(self) -> None:
        """Those who have joined before. A folder without a name is of somebody who never got in."""
        found = [path.parent for path in (self.folder / PEOPLE).glob(f"*/{TOKEN_FILE}")]
        for folder in sorted(found, key=lambda folder: (folder / TOKEN_FILE).stat().st_mtime_ns):
            name = _kept_name(folder)
            if name is not None and len(self.everybody) < MOST_PEOPLE:
                self._enter(name, folder)

    def _enter(self, name: str, folder: Path, *, new: bool = False) -> Participant:
        """Open the interview of one person; what the owner has adjusted meanwhile is the owner's."""
        with ExitStack() as opened, disk(folder):
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            opened.enter_context(alone(folder, BUSY))
            interview = Interview.open(folder, *self.owner.interview.begun_with)
            opened.callback(interview.close)
            person = Participant(name, lasting_token(folder), interview)
            if new:
                _keep_name(folder, name)
            self._opened.push(opened.pop_all())
        self.everybody.append(person)
        return person

    def _free_name(self, name: str, person: Participant | None = None) -> str:
        name = checked_name(name)
        if any(_same(name, other.name) for other in self.everybody if other is not person):
            raise InputError(f"somebody called {name} is here already; choose another name")
        return name

    def _free_folder(self, name: str) -> Path:
        """A folder that reads like the name, and that nobody has."""
        slug, number = slug_of(name), 1
        folder = self.folder / PEOPLE / slug
        while (folder / NAME_FILE).exists():
            number += 1
            folder = folder.with_name(f"{slug}-{number}")
        return folder


class Together:
    """Everybody's answers side by side. `backgrounds` has one for each token, and works out what a person wants."""

    def __init__(self, people: People, backgrounds: Mapping[str, Background], reach: Reach) -> None:
        self.people, self.backgrounds, self.reach = people, backgrounds, reach
        self._answers: dict[str, tuple[int, Said]] = {}
        self._agreement: tuple[object, dict[str, Any]] = None, {}
        self._goals: dict[str, tuple[object, str | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def shown(self, me: Participant) -> dict[str, Any]:
        """All that the page about everybody shows to one of them; only the owner is shown how others can join."""
        rows = [
            {
                "name": person.name,
                "me": person is me,
                "answers": person.interview.history.answers,
                "phase": person.interview.phase,
                "goal": self._goal(person) if person.interview.phase == "done" else None,
            }
            for person in self.people.everybody
        ]
        moment = [(person.name, person.interview.turn) for person in self.people.everybody]
        if self._agreement[0] != moment:
            self._agreement = moment, self._compared()
        # Without a `base` the page takes its own origin: no other address is said to lead here.
        note = None if self.reach.public or self.reach.url else HERE_ONLY
        invitation = {"path": f"/{self.people.invitation}/", "base": self.reach.url, "note": note}
        return {
            "me": me.name,
            "invitation": invitation if me is self.people.owner else None,
            "people": rows,
            "agreement": self._agreement[1],
        }

    def _compared(self) -> dict[str, Any]:
        said = {person.name: self._said(person) for person in self.people.everybody}
        names = {situation: name for one in said.values() for situation, (name, _) in one.items()}
        actions = [action.name for action in self.people.owner.interview.view.actions]
        found = agreement({name: {key: action for key, (_, action) in one.items()} for name, one in said.items()})
        return {
            "words": _in_words(found),
            "common": found.common,
            "pairs": [asdict(pair) | {"words": _pair_in_words(pair)} for pair in found.pairs],
            "disagreements": [
                {
                    "situation": names[situation],
                    "answers": [{"name": name, "action": actions[action]} for name, action in answers.items()],
                }
                for situation, answers in found.disagreements.items()
            ],
        }

    def _said(self, person: Participant) -> Said:
        """What a person would do by situation; people meet situations in different orders, so these are told apart by
        what the environment shows."""
        interview, (turn, said) = person.interview, self._answers.get(person.token, (-1, {}))
        if turn != interview.turn:
            view = interview.view
            known = interview.history.known().items()
            said = {json.dumps(view.demonstrated(s, action)[0]): (view.name(s), action) for s, action in known}
            self._answers[person.token] = interview.turn, said
        return said

    def _goal(self, person: Participant) -> str | None:
        """What a person who has finished wants, in one sentence; None while that is being worked out."""
        interview, background = person.interview, self.backgrounds[person.token]
        learned = interview.learned if interview.kept_version == interview.version else None
        moment = None if learned is None else interview.version, person.name
        asked, goal = self._goals.get(person.token, (None, None))
        if asked != moment:
            self._goals[person.token] = moment, None
            if learned is None:
                background.carry_on()
            else:
                task = asyncio.create_task(self._work_out(person, learned, background, moment))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return None
        return goal

    async def _work_out(self, person: Participant, learned: Turn, background: Background, moment: object) -> None:
        names = [person.interview.view.name(state) for state in range(person.interview.environment.n_states)]
        actions = [action.name for action in person.interview.view.actions]
        called = Person(person.name, "them", person.name)
        loop = asyncio.get_running_loop()
        goal = await loop.run_in_executor(background.thinking, goal_of, learned, names, actions, called)
        if self._goals[person.token][0] == moment:
            self._goals[person.token] = moment, "" if goal is None else goal.wish


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


def checked_name(name: str) -> str:
    """A name without spaces around it; it is an error if it cannot be one."""
    name = unicodedata.normalize("NFC", " ".join(name.split()))
    if not name:
        raise InputError("a name is needed")
    if len(name) > LONGEST_NAME:
        raise InputError(f"a name has at most {LONGEST_NAME} characters, this one has {len(name)}")
    if any(unicodedata.category(character)[0] == "C" for character in name):
        raise InputError("a name has no control characters")
    return name


def slug_of(name: str) -> str:
    """A name for a folder: plain letters, digits and dashes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain).strip("-") or "person"


def _same(one: str, other: str) -> bool:
    return unicodedata.normalize("NFKC", one).casefold() == unicodedata.normalize("NFKC", other).casefold()


def _keep_name(folder: Path, name: str) -> None:
    with disk(folder):
        replace(folder / NAME_FILE, name.encode(), private=True)


def _kept_name(folder: Path) -> str | None:
    """The name in a folder; None if there is none that can be one."""
    try:
        return checked_name((folder / NAME_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, InputError):
        return None
