"""An environment in words and on a map, by its own description or that of its kind."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from aceirl.envs.description import EnvironmentDescription, MapCell
from aceirl.envs.families import is_wrapped, library_of
from aceirl.envs.known_descriptions import DESCRIPTIONS, LIBRARIES

if TYPE_CHECKING:
    from aceirl.envs.observations import StateIndex

# A state in words is not longer than this, in characters.
LONGEST = 100


def description(env: Any) -> EnvironmentDescription:
    """How an environment is described: by its own class, or as its kind is."""
    kinds = type(env.unwrapped).__mro__
    found = next((known for kind in kinds if (known := _of_class(kind)) is not None), EnvironmentDescription())
    if found.understands_wrappers or not _observed_otherwise(env):
        return found
    return EnvironmentDescription(found.actions, found.brief)


def _of_class(kind: type) -> EnvironmentDescription | None:
    own = vars(kind).get("description")
    if isinstance(own, EnvironmentDescription):
        return own
    return DESCRIPTIONS.get(kind.__name__) if library_of(kind) in LIBRARIES else None


def _observed_otherwise(env: Any) -> bool:
    """Whether a wrapper changes the observations."""
    return env.observation_space != env.unwrapped.observation_space or is_wrapped(env, "ObservationWrapper")


def ask_description(env: Any, function: Literal["words", "map_cell", "pose", "frame"], argument: Any) -> Any:
    """What a function of the description says; if it fails, that is a warning, and the default is asked instead."""
    try:
        return getattr(description(env), function)(env.unwrapped, argument)
    except Exception as error:
        kind = type(env.unwrapped).__name__
        warnings.warn(f"the description of {kind} failed: {type(error).__name__}: {error}", stacklevel=3)
        return getattr(EnvironmentDescription(), function)(env.unwrapped, argument)


def words(env: Any, observation: Any) -> str:
    """An observation in a few words; as it is, if those fail."""
    text = str(ask_description(env, "words", observation))
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} …"


def state_words(env: Any, states: StateIndex) -> tuple[str, ...]:
    """The states met so far in words; where those do not tell one from another, with its number."""
    texts = [words(env, states.observation(number)) for number in range(1, len(states))]
    often = Counter(texts)
    return (
        "the end",
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


def map_cell(env: Any, observation: Any) -> MapCell | None:
    """Where an observation is drawn; nowhere, if that fails."""
    found = ask_description(env, "map_cell", observation)
    return found if isinstance(found, MapCell) else None


def map_cells(env: Any, states: StateIndex) -> dict[int, MapCell]:
    """The cells of the states met so far, by their numbers; none, if two states share one: that is no map."""
    found = {n: cell for n in range(1, len(states)) if (cell := map_cell(env, states.observation(n))) is not None}
    distinct = {(cell.x, cell.y, cell.panel, cell.scene) for cell in found.values()}
    return found if len(distinct) == len(found) else {}
