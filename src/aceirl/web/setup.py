"""What to interview about, as it is chosen on a page."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.errors import InputError
from aceirl.experts.tasks import CatalogueEntry, Source, offer, offered, read_parameters
from aceirl.web.driver import CONFIGURATION
from aceirl.web.early import LEAST_SHARE, MOST_SHARE, check_id, usual_steps
from aceirl.web.environment_view import EnvironmentView, open_view
from aceirl.web.history import Accuracy
from aceirl.web.people import People, checked_name

FIELDS = ("environment", "horizon", "epsilon", "delta", "seed", "parameters", "name", "folder")

PICTURED = ("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "Blackjack-v1", "four-paths")
"""The environments to begin with, shown with a picture."""

CONTINUOUS = "its observations are continuous; it has a page of its own, which its name opens: aceirl interview NAME"
NO_LIMIT = "needed: the environment does not say how long an episode is"


class FormError(InputError):
    """What is wrong with one of the fields."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def usual_folder(environment: str) -> Path:
    """Where the interview about an environment is kept, if nothing else is said."""
    return Path("runs") / f"interview-{environment.replace('/', '-').replace(':', '-')}"


class SetUp:
    """The form, and the people once it is filled in.

    `first` is what the fields hold at first, `out` the folder if one was given, and `token` opens the page. `started`
    is called with the people as soon as there are any.
    """

    def __init__(self, token: str, out: Path | None, first: dict[str, str], started: Callable[[People], None]) -> None:
        self.token, self.out, self.started = token, out, started
        self.first = dict.fromkeys(FIELDS, "") | first | _kept(out)
        self.people: People | None = None
        self._pictures: dict[str, str | None] = {}

    def shown(self) -> dict[str, Any]:
        """The environments to choose from, and what the fields hold at first."""
        return {
            "environments": sorted((_described(one) for one in offered()), key=lambda one: _rank(one["name"])),
            "pictured": PICTURED,
            "values": self.first,
            "folder": None if self.out is None else str(self.out),
        }

    def offer(self, name: str) -> dict[str, Any]:
        """What there is to say of an environment whose name was typed in."""
        try:
            name = _plain_name(name)
            check_id(name)
            return _described(offer(name))
        except Exception as error:
            raise FormError("environment", _in_words(error)) from error

    def picture(self, name: str) -> str | None:
        """How an environment looks that is offered with a picture, as a data URL; None if it does not draw itself."""
        if name not in PICTURED:
            raise FormError("environment", f"{name} has no picture; those with one are {', '.join(PICTURED)}")
        if name not in self._pictures:
            view = open_view(Source(name, {}, seed=0, stationary_expert=True, horizon=usual_steps(name)))
            view.environment.reset(np.random.default_rng(0))
            self._pictures[name] = view.picture() or _drawn(view)
        return self._pictures[name]

    def start(self, values: dict[str, str]) -> People:
        """Begin the interview that the form describes, or go on with it."""
        given = {field: value.strip() for field, value in values.items()}
        source, accuracy = _source(given), _accuracy(given)
        name = _in_field("name", checked_name, given["name"]) if given["name"] else None
        _check_environment(source)
        folder = self._folder(given["folder"], source.environment)
        people: People = _in_field("folder", People.open, folder, source, accuracy, self.token)
        try:
            if name is not None:
                _in_field("name", people.rename, people.owner, name)
        except BaseException:
            people.close()
            raise
        self.people = people
        self.started(people)
        return people

    def _folder(self, name: str, environment: str) -> Path:
        usual = self.out or usual_folder(environment)
        if not name:
            return usual
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,79}", name):
            raise FormError("folder", "a folder's name has letters, digits, dots, dashes and nothing else here")
        return usual.parent / name

    def close(self) -> None:
        """Close the interviews, if there are any."""
        if self.people is not None:
            self.people.close()


def _rank(name: str) -> tuple[int, str]:
    return (PICTURED.index(name) if name in PICTURED else len(PICTURED)), name


def _drawn(view: EnvironmentView) -> str | None:
    """The places of an environment that does not render, as a picture."""
    cells = [cell for state in range(view.environment.n_states) if (cell := view.map_cell(state)) is not None]
    if not cells:
        return None
    left, low = min(cell.x for cell in cells) - 1, min(cell.y for cell in cells) - 1
    width, height = max(cell.x for cell in cells) + 1 - left, max(cell.y for cell in cells) + 1 - low
    corners = [(cell.x - left - 0.44, height - cell.y + low - 0.44) for cell in cells]
    boxes = "".join(f'<rect x="{x:g}" y="{y:g}" width="0.88" height="0.88" rx="0.15"/>' for x, y in corners)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" fill="#5aa0bd">{boxes}</svg>'
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _described(entry: CatalogueEntry) -> dict[str, Any]:
    """An environment with how long its episodes are, also if it does not say so itself."""
    return asdict(replace(entry, steps=entry.steps or usual_steps(entry.name)))


def _source(given: dict[str, str]) -> Source:
    environment = _plain_name(given["environment"])
    lines = [line for line in given["parameters"].splitlines() if line.strip()]
    parameters = _in_field("parameters", read_parameters, lines, "each line")
    horizon = None if not given["horizon"] else _whole_number("horizon", given["horizon"], least=1)
    source = Source(
        environment, parameters, seed=0, stationary_expert=True, horizon=horizon or usual_steps(environment)
    )
    if horizon is not None and source.ours:
        raise FormError("horizon", f"{environment} has its own; write horizon={horizon} under parameters instead")
    return replace(source, seed=_whole_number("seed", given["seed"], least=0))


def _plain_name(name: str) -> str:
    """The name of an environment; on a page nobody can have code imported by its name."""
    name = name.strip()
    if not name:
        raise FormError("environment", "choose an environment")
    if ":" in name or len(name) > 200:
        raise FormError(
            "environment", "here only ids of Gymnasium can be typed; for a function, start: aceirl interview FUNCTION"
        )
    return name


def _accuracy(given: dict[str, str]) -> Accuracy:
    values = {}
    for field in ("epsilon", "delta"):
        try:
            values[field] = float(given[field].removesuffix("%").rstrip()) / (100 if given[field].endswith("%") else 1)
        except ValueError:
            raise FormError(field, f"{given[field]!r} is not a number") from None
        if not LEAST_SHARE <= values[field] <= MOST_SHARE:
            raise FormError(field, f"this must be between {LEAST_SHARE} and {MOST_SHARE}, got {given[field]}")
    return Accuracy(**values)


def _whole_number(field: str, text: str, least: int) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
        raise FormError(field, f"this must be a whole number of at least {least}, got {text!r}")
    return int(text)


def _check_environment(source: Source) -> None:
    """Make the environment once, to say next to which field what is wrong with it."""
    try:
        check_id(source.environment)
        open_view(source)
    except Exception as error:
        message = _in_words(error)
        if message.startswith("horizon"):
            raise FormError("horizon", message if source.horizon else NO_LIMIT) from error
        field = "parameters" if source.parameters and _is_made_without(source) else "environment"
        raise FormError(field, message) from error


def _in_words(error: Exception) -> str:
    """What is wrong with an environment; here nobody can have its observations cut into bins."""
    if not isinstance(error, InputError):
        return f"{type(error).__name__}: {error}"
    return CONTINUOUS if str(error).startswith("observations are continuous") else str(error)


def _is_made_without(source: Source) -> bool:
    try:
        offer(source.environment)
    except Exception:
        return False
    return True


def _in_field(field: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function whose errors belong to a field."""
    try:
        return function(*arguments)
    except InputError as error:
        raise FormError(field, str(error)) from error


def _kept(folder: Path | None) -> dict[str, str]:
    """The fields of an interview that is there already."""
    try:
        found = json.loads(((folder or Path()) / CONFIGURATION).read_text())
        source, accuracy = found["source"], found["accuracy"]
        lines = [f"{name}={json.dumps(value)}" for name, value in source["parameters"].items()]
        return {
            "environment": str(source["environment"]),
            "horizon": "" if source["horizon"] is None else str(source["horizon"]),
            "seed": str(source["seed"]),
            "epsilon": str(accuracy["epsilon"]),
            "delta": str(accuracy["delta"]),
            "parameters": "\n".join(lines),
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
