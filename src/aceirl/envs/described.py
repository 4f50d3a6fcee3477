"""An environment in words and on a map, by its own description or that of its kind."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from aceirl.envs.description import EnvironmentDescription, Features, MapCell
from aceirl.envs.families import is_wrapped, library_of
from aceirl.envs.known_descriptions import DESCRIPTIONS, LIBRARIES

if TYPE_CHECKING:
    from aceirl.models.tabular.encoder import StateIndex

# A state in words is not longer than this, in characters.
LONGEST = 100


def description(env: Any) -> EnvironmentDescription:
    """How an environment is described: by its own class, or as its kind is."""
    kinds = type(env.unwrapped).__mro__
    found = next((known for kind in kinds if (known := _of_class(kind)) is not None), EnvironmentDescription())
    if found.understands_wrappers or not _observed_otherwise(env):
        return found
    return EnvironmentDescription(found.actions, found.brief, rules=found.rules)


def _of_class(kind: type) -> EnvironmentDescription | None:
    own = vars(kind).get("description")
    if isinstance(own, EnvironmentDescription):
        return own
    known = DESCRIPTIONS.get(kind.__name__)
    return known if known is not None and library_of(kind) in LIBRARIES else None


def _observed_otherwise(env: Any) -> bool:
    """Whether a wrapper changes the observations."""
    if env is env.unwrapped:
        return False
    return env.observation_space != env.unwrapped.observation_space or is_wrapped(env, "ObservationWrapper")


def ask_description(
    env: Any, function: Literal["words", "end_words", "map_cell", "pose", "frame", "features"], argument: Any
) -> Any:
    """What a function of the description says; if it fails, that is a warning, and the default is asked instead."""
    try:
        return getattr(description(env), function)(env.unwrapped, argument)
    except Exception as error:
        kind = type(env.unwrapped).__name__
        warnings.warn(f"the description of {kind} failed: {type(error).__name__}: {error}", stacklevel=3)
        return getattr(EnvironmentDescription(), function)(env.unwrapped, argument)


def words(env: Any, observation: Any, *, terminal: bool = False) -> str:
    """An observation in a few words, perhaps one with which an episode ends; as it is, if those fail."""
    told = ask_description(env, "end_words", observation) if terminal else None
    text = str(ask_description(env, "words", observation) if told is None else told)
    if terminal and told is None:
        text = f"the end in {text}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} …"


def state_words(env: Any, states: StateIndex) -> tuple[str, ...]:
    """The states met so far in words; where those do not tell one from another, with its number."""
    numbers = range(1, len(states))
    texts = [words(env, states.observation(number), terminal=number in states.terminal) for number in numbers]
    often = Counter(texts)
    return (
        states.names[0],  # nowhere
        *(
            f"state {number}: {text}" if text.endswith("…") or often[text] > 1 else text
            for number, text in enumerate(texts, start=1)
        ),
    )


def action_names(env: Any, actions: Sequence[Any]) -> list[str]:
    """By the names this kind of environment has for them, its own names, or numbers."""
    names = list(description(env).actions)
    listed = getattr(env.unwrapped, "actions", None)
    if not names and isinstance(listed, type) and issubclass(listed, Enum):
        names = [member.name.replace("_", " ") for member in listed]
    if names and len(names) != len(actions):
        warnings.warn(f"{len(names)} names for {len(actions)} actions: {', '.join(names)}", stacklevel=2)
    return names if len(names) == len(actions) else [f"action {action}" for action in actions]


def features(env: Any, observation: Any) -> Features:
    """What an observation consists of; nothing, if that fails."""
    found = ask_description(env, "features", observation)
    return found if isinstance(found, dict) else {}


def rules(env: Any) -> tuple[str, ...]:
    """What people have to know of an environment before they act in it; nothing, if nobody says so or that fails."""
    try:
        return tuple(map(str, description(env).rules(env.unwrapped)))
    except Exception as error:
        kind = type(env.unwrapped).__name__
        warnings.warn(f"the description of {kind} failed: {type(error).__name__}: {error}", stacklevel=2)
        return ()


def map_cell(env: Any, observation: Any) -> MapCell | None:
    """Where an observation is drawn; nowhere, if that fails."""
    found = ask_description(env, "map_cell", observation)
    return found if isinstance(found, MapCell) else None


def map_cells(env: Any, states: StateIndex) -> dict[int, MapCell]:
    """The cells of the states met so far, by their numbers; none, if two states share one: that is no map.

    A cell may be one to act in at one time, and one in which an episode ends at another.
    """
    found = {n: cell for n in range(1, len(states)) if (cell := map_cell(env, states.observation(n))) is not None}
    distinct = {(cell.x, cell.y, cell.panel, cell.scene, n in states.terminal) for n, cell in found.items()}
    return found if len(distinct) == len(found) else {}
