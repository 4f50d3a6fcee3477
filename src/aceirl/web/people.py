"""The people of an interview: each has a name, an address and a folder of their own, and answers for themselves."""

from __future__ import annotations

import re
import unicodedata
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from aceirl.errors import InputError
from aceirl.files import alone, disk, replace
from aceirl.sources import Source
from aceirl.web.security import INVITATION_FILE, TOKEN_FILE, lasting_token
from aceirl.web.session import Accuracy, Interview

PEOPLE, NAME_FILE = "people", "name"

# What the first person is called who has not said their name.
HOST = "Host"

LONGEST_NAME, MOST_PEOPLE = 40, 20

BUSY = "an interview with this folder is already running"


@dataclass
class Person:
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
        self.everybody = [Person(_kept_name(owner.folder) or HOST, token, owner)]
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
    def owner(self) -> Person:
        """The first person, who may invite others."""
        return self.everybody[0]

    def close(self) -> None:
        """Nothing more is written, and others may use the folders."""
        self._opened.close()

    def join(self, name: str) -> Person:
        """A new person of that name, who has answered nothing yet."""
        name = self._free_name(name)
        if len(self.everybody) >= MOST_PEOPLE:
            raise InputError(f"there are {MOST_PEOPLE} people already, and no room for more")
        return self._enter(name, self._free_folder(name), new=True)

    def rename(self, person: Person, name: str) -> None:
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

    def _enter(self, name: str, folder: Path, *, new: bool = False) -> Person:
        """Open the interview of one person; what the owner has adjusted meanwhile is the owner's."""
        with ExitStack() as opened, disk(folder):
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            opened.enter_context(alone(folder, BUSY))
            interview = Interview.open(folder, *self.owner.interview.begun_with)
            opened.callback(interview.close)
            person = Person(name, lasting_token(folder), interview)
            if new:
                _keep_name(folder, name)
            self._opened.push(opened.pop_all())
        self.everybody.append(person)
        return person

    def _free_name(self, name: str, person: Person | None = None) -> str:
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
            folder = self.folder / PEOPLE / f"{slug}-{number}"
        return folder


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
