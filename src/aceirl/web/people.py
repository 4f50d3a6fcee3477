"""The people of an interview: each has a name, an address and a folder, and sees what the others would do and want."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

from aceirl.errors import InputError
from aceirl.experts.tasks import Source
from aceirl.explain.goal import goal_of
from aceirl.explain.listing import Person, listed
from aceirl.explain.wish import Statement
from aceirl.learner.turns import Turn
from aceirl.runs.files import alone, disk, replace
from aceirl.web.background import Background
from aceirl.web.driver import Interview, Public, SettingsError
from aceirl.web.environment_view import situation
from aceirl.web.history import Accuracy
from aceirl.web.inter_rater import Pair, PeopleAgreement, agreement
from aceirl.web.security import TOKEN_FILE, Reach, is_token, lasting_token, new_token
from aceirl.web.view import counted

PEOPLE, REMOVED, NAME_FILE = "people", "removed", "name"

# What the host has decided for all: whom to invite, and what counts where people differ.
TOGETHER_FILE = "people.json"

# What the first person is called who has not said their name.
HOST = "Host"

LONGEST_NAME, MOST_PEOPLE = 40, 20

# So many situations that need more answers are named.
FEW = 6

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
    opened: ExitStack = field(default_factory=ExitStack, repr=False)

    def close(self) -> None:
        """Nothing more is written, and others may use the folder."""
        self.opened.close()


@dataclass
class Invitation:
    """A link by which so many people may join, some of whom have."""

    token: str
    seats: int = 1
    taken: int = 0


@dataclass
class Decisions:
    """What the host has decided for all: the invitations, how many answers a situation needs, and what counts in those
    situations, by what the environment shows there, in which people differ."""

    invitations: list[Invitation] = field(default_factory=list)
    minimum: int = 2
    settled: dict[str, int] = field(default_factory=dict)

    @classmethod
    def kept(cls, folder: Path) -> Decisions:
        """Those in a folder; of one that has none, or none that can be read, an invitation for one person."""
        try:
            found = json.loads((folder / TOGETHER_FILE).read_text(encoding="utf-8"))
            invitations = [Invitation(one["token"], one["seats"], one["taken"]) for one in found["invitations"]]
            settled = {str(where): int(action) for where, action in found["settled"].items()}
            if all(is_token(one.token) for one in invitations):
                return cls(invitations, int(found["minimum"]), settled)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        return cls([Invitation(new_token())])


class People:
    """Everybody who is interviewed about one environment, the owner first.

    The owner's interview is in the folder itself, everybody else's in `people/` under it: complete folders of
    interviews, about the same environment and as accurate. Whoever has an invitation may join, as long as it has seats.
    `broken` says by name of whom the interview could not be opened, and why: the others go on without them.
    """

    def __init__(self, owner: Interview, token: str, decided: Decisions | None = None) -> None:
        self.folder, self.decided = owner.folder, decided or Decisions([Invitation(new_token())])
        self.everybody = [Participant(_kept_name(owner.folder) or HOST, token, owner)]
        self.broken: dict[str, str] = {}

    @classmethod
    def open(cls, folder: Path, source: Source, accuracy: Accuracy, token: str | None = None) -> People:
        """The people in a folder, which is made if need be; a `token` that is given is for an owner who has none."""
        with ExitStack() as opened:
            opened.enter_context(alone(folder, BUSY))
            owner = Interview.open(folder, source, accuracy)
            opened.callback(owner.close)
            people = cls(owner, lasting_token(folder, fresh=token), Decisions.kept(folder))
            people._keep()
            people.owner.opened.push(opened.pop_all())
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

    @property
    def invitation(self) -> Invitation | None:
        """The latest invitation that has a seat; None if there is none."""
        return next((one for one in reversed(self.decided.invitations) if one.taken < one.seats), None)

    @property
    def free_seats(self) -> int:
        """How many more there is room for."""
        return MOST_PEOPLE - len(self.everybody)

    def close(self) -> None:
        """Nothing more is written, and others may use the folders."""
        for person in self.everybody:
            person.close()

    def join(self, name: str, invitation: Invitation) -> Participant:
        """A new person of that name, who has answered nothing yet and takes one of the seats of an invitation."""
        if invitation.taken >= invitation.seats:
            raise InputError("this invitation has been used; ask the person who sent it for another one")
        name = self._free_name(name)
        if not self.free_seats:
            raise InputError(f"there are {MOST_PEOPLE} people already, and no room for more")
        invitation.taken += 1
        try:
            self._keep()
            return self._enter(name, self._free_folder(name), new=True)
        except BaseException:
            invitation.taken -= 1
            raise

    def invite(self, seats: int) -> Invitation:
        """A new invitation for so many people."""
        free = self.free_seats
        if not 1 <= seats <= free:
            raise InputError(f"a link is for 1 to {free} people, as many as there is room for, not {seats}")
        made = Invitation(new_token(), seats)
        self._decide(invitations=[*self.decided.invitations, made])
        return made

    def revoke(self, token: str) -> None:
        """Let nobody in any more by an invitation."""
        left = [one for one in self.decided.invitations if one.token != token]
        if len(left) == len(self.decided.invitations):
            raise InputError("there is no such invitation")
        self._decide(invitations=left)

    def remove(self, name: str) -> Participant:
        """Send a guest away. What they said is kept in `removed/`, and counts no more."""
        person = next((one for one in self.everybody[1:] if one.name == name), None)
        if person is None:
            raise InputError(f"{name!r} is none of the guests: {', '.join(one.name for one in self.everybody[1:])}")
        folder = person.interview.folder
        person.close()
        with disk(folder):
            aside = self.folder / REMOVED
            aside.mkdir(mode=0o700, exist_ok=True)
            folder.rename(_free(aside / folder.name))
        self.everybody.remove(person)
        return person

    def ask_for(self, minimum: int) -> None:
        """Of how many people a situation needs an answer at least."""
        if not 1 <= minimum <= MOST_PEOPLE:
            raise InputError(f"a situation can need the answers of 1 to {MOST_PEOPLE} people, not {minimum}")
        self._decide(minimum=minimum)

    def settle(self, where: str, action: int | None) -> None:
        """Say what counts in a situation in which people differ; None leaves it open again."""
        if action is not None and not 0 <= action < self.owner.interview.environment.n_actions:
            raise InputError(f"action {action} is not one of 0 to {self.owner.interview.environment.n_actions - 1}")
        others = {other: what for other, what in self.decided.settled.items() if other != where}
        self._decide(settled=others if action is None else others | {where: action})

    def _decide(self, **changes: Any) -> None:
        """Change what is decided, if it can be written down."""
        before, self.decided = self.decided, replace_fields(self.decided, **changes)
        try:
            self._keep()
        except BaseException:
            self.decided = before
            raise

    def _keep(self) -> None:
        with disk(self.folder):
            replace(self.folder / TOGETHER_FILE, json.dumps(asdict(self.decided), indent=2).encode(), private=True)

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
            if name is None or not self.free_seats:
                continue
            try:
                self._enter(name, folder)
            except SettingsError:
                raise
            except Exception as error:  # whatever is wrong with a guest, the others go on
                self.broken[name] = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
                print(f"aceirl: the interview of {name} cannot be opened: {self.broken[name]}", file=sys.stderr)

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
            person.opened = opened.pop_all()
        self.everybody.append(person)
        return person

    def _free_name(self, name: str, person: Participant | None = None) -> str:
        name = checked_name(name)
        taken = [other.name for other in self.everybody if other is not person]
        if any(_same(name, other) for other in (*taken, *self.broken)):
            raise InputError(f"someone called {name} is here already; choose another name")
        return name

    def _free_folder(self, name: str) -> Path:
        """A folder that reads like the name, and that nobody has."""
        return _free(self.folder / PEOPLE / slug_of(name), NAME_FILE)


class Together:
    """Everybody's answers side by side. `backgrounds` has one for each token, and works out what a person wants.

    Of others only what is public is read: their interviews go on meanwhile, in threads of their own. People meet
    situations in different orders, so these are told apart by what the environment shows.
    """

    def __init__(self, people: People, backgrounds: Mapping[str, Background], reach: Reach) -> None:
        self.people, self.backgrounds, self.reach = people, backgrounds, reach
        self._agreement: tuple[object, dict[str, Any]] = None, {}
        self._goals: dict[str, tuple[object, str | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def shown(self, me: Participant) -> dict[str, Any]:
        """All that the page about everybody shows to one of them; only the owner is shown how others can join."""
        rows = [
            {
                "name": person.name,
                "me": person is me,
                "role": "host" if person is self.people.owner else "guest",
                "answers": public.answers,
                "phase": public.phase,
                "goal": self._goal(person, public) if public.phase == "done" else None,
            }
            for person in self.people.everybody
            for public in (person.interview.public,)
        ]
        decided = self.people.decided
        turns = [(person.name, person.interview.public.version[0]) for person in self.people.everybody]
        moment = turns, decided.minimum, dict(decided.settled)
        if self._agreement[0] != moment:
            self._agreement = moment, self._compared()
        # Without a `base` the page takes its own origin: no other address is said to lead here.
        note = None if self.reach.public or self.reach.url else HERE_ONLY
        links = [
            {"token": one.token, "seats": one.seats, "taken": one.taken}
            for one in decided.invitations
            if one.taken < one.seats
        ]
        own = {"base": self.reach.url, "note": note, "links": links}
        return {
            "me": me.name,
            "host": own | {"broken": self.people.broken} if me is self.people.owner else None,
            "people": rows,
            "agreement": self._agreement[1],
            "states": self._states(me, [one["key"] for one in self._agreement[1]["disagreements"]]),
        }

    def needed(self, me: Participant) -> list[int]:
        """The states that somebody shall speak of: those of which others have, and fewer than the host asks for.

        What only one more has to speak of comes first. What they have not met is left out.
        """
        others = [other for other in self.people.everybody if other is not me]
        spoken = Counter(key for other in others for key in other.interview.public.said)
        few = {key: count for key, count in spoken.items() if count < self.people.decided.minimum}
        if not few:
            return []
        view, terminal = me.interview.view, me.interview.engine.access.terminal
        free = sorted(set(range(me.interview.environment.n_states)) - terminal - me.interview.history.votes.keys())
        numbers = {situation(view, state): state for state in free}
        return [numbers[key] for key in sorted(few, key=lambda key: -few[key]) if key in numbers]

    def _states(self, me: Participant, situations: list[str]) -> dict[str, int]:
        """The numbers that these situations have on the map of one person, who need not have met them all."""
        view, states = me.interview.view, range(me.interview.environment.n_states if situations else 0)
        numbers = {situation(view, state): state for state in states if view.map_cell(state) is not None}
        return {key: numbers[key] for key in situations if key in numbers}

    def _compared(self) -> dict[str, Any]:
        said = {person.name: person.interview.public.said for person in self.people.everybody}
        names = {key: name for one in said.values() for key, (name, _) in one.items()}
        decided, actions = self.people.decided, [action.name for action in self.people.owner.interview.view.actions]
        found = agreement({name: {key: action for key, (_, action) in one.items()} for name, one in said.items()})
        few = [key for key in names if sum(key in one for one in said.values()) < decided.minimum]
        return {
            "words": _in_words(found),
            "common": found.common,
            "pairs": [asdict(pair) | {"words": _pair_in_words(pair)} for pair in found.pairs],
            "minimum": decided.minimum,
            "few": _few_in_words(few, names, decided.minimum),
            "actions": actions,
            "disagreements": [
                {
                    "key": key,
                    "situation": names[key],
                    "settled": decided.settled.get(key),
                    "answers": [{"name": name, "action": actions[action]} for name, action in answers.items()],
                }
                for key, answers in found.disagreements.items()
            ],
        }

    def _goal(self, person: Participant, public: Public) -> str | None:
        """What a person who has finished wants, in one sentence; None while that is being worked out."""
        background, learned = self.backgrounds[person.token], public.learned
        moment = None if learned is None else public.version, person.name
        asked, goal = self._goals.get(person.token, (None, None))
        if asked != moment:
            self._goals[person.token] = moment, None
            if learned is None:
                background.carry_on()
            else:
                task = asyncio.create_task(self._work_out(person, learned, public.told, background, moment))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return None
        return goal

    async def _work_out(
        self, person: Participant, learned: Turn, told: Sequence[Statement], background: Background, moment: object
    ) -> None:
        named, called = await background.do(person.interview.named), Person(person.name, "them")
        about = learned, named.names, named.actions, called, told
        goal = await asyncio.get_running_loop().run_in_executor(background.thinking, goal_of, *about)
        if self._goals[person.token][0] == moment:
            wish = "" if goal is None else goal.wish
            short, colon, _ = wish.partition(": ")
            self._goals[person.token] = moment, f"{short}." if colon and wish.startswith("The ") else wish


def _in_words(found: PeopleAgreement) -> str:
    if not found.pairs:
        return "You are the only one here so far."
    if not found.common:
        return "There is no situation yet that two people have answered."
    if not found.disagreements:
        return f"All agree, in {counted(found.common, 'situation')} that two or more have answered."
    differ = len(found.disagreements)
    return f"Of {counted(found.common, 'situation')} that two or more have answered, they differ in {differ}."


def _few_in_words(few: list[str], names: dict[str, str], minimum: int) -> str:
    """Which situations have too few answers."""
    if not names:
        return "There are no answers yet."
    if not few:
        return f"Each of {counted(len(names), 'situation')} has the answers of {minimum} people or more."
    shown = listed([names[key] for key in few[:FEW]])
    more = f" and {len(few) - FEW} more" if len(few) > FEW else ""
    return f"{len(few)} of {counted(len(names), 'situation')} need more answers: {shown}{more}."


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


def _free(folder: Path, taken: str = "") -> Path:
    """The folder, or another one of nearly that name, if there is something in it: the file `taken`, or anything."""
    found, number = folder, 1
    while (found / taken).exists():
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found


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
