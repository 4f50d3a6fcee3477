"""Descriptions of the environments that many people use: Gymnasium's toy text and MiniGrid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aceirl.envs.description import COMPASS, EnvironmentDescription, Features, Frame, MapCell

LIBRARIES = ("gymnasium", "minigrid")


def _numbered_grid(
    shape: Callable[[Any], tuple[int, int]],
    actions: tuple[str, ...],
    brief: str,
    ends: Callable[[Any, int, int], str],
    rules: Callable[[Any], tuple[str, ...]],
) -> EnvironmentDescription:
    """A map whose cells are numbered row by row; `ends` says what an episode ends with in a row and column."""

    def place(env: Any, observation: Any) -> tuple[int, int]:
        return divmod(int(observation), shape(env)[1])

    def words(env: Any, observation: Any) -> str:
        row, column = place(env, observation)
        return f"row {row + 1}, column {column + 1}"

    def map_cell(env: Any, observation: Any) -> MapCell:
        row, column = place(env, observation)
        return MapCell(column, -row)

    def features(env: Any, observation: Any) -> Features:
        row, column = place(env, observation)
        return {"row": row + 1, "column": column + 1}

    return EnvironmentDescription(
        actions,
        brief,
        words,
        map_cell,
        _toy_text_pose,
        lambda env, _: Frame.from_corner(*env.cell_size),
        end_words=lambda env, observation: f"{ends(env, *place(env, observation))} in {words(env, observation)}",
        features=features,
        rules=rules,
    )


def _slip(env: Any, state: int, action: int, meant: int) -> str:
    """How often one gets where one meant to, by one step whose end is known; empty if always."""
    there = sum(probability for probability, end, *_ in env.P[state][action] if end == meant)
    if there > 0.999:
        return ""
    often = "one time in three" if abs(there - 1 / 3) < 0.01 else f"{round(100 * there)} times in a hundred"
    rest = "two times in three" if abs(there - 1 / 3) < 0.01 else "else"
    return f"It is slippery: {often} you go where you want, {rest} you slip to one side or the other."


def _lake_rules(env: Any) -> tuple[str, ...]:
    slip = _slip(env, 0, 2, 1) or "It is not slippery: you always go where you want."
    return (slip, "A hole ends the episode, and so does the flag.", "At the edge of the lake you stay where you are.")


def _cliff_rules(env: Any) -> tuple[str, ...]:
    rows, columns = env.shape
    start = (rows - 1) * columns
    slip = _slip(env, start, 0, start - columns) or "You always go where you want."
    return (
        slip,
        "If you step over the cliff, you are put back to the start.",
        "The goal in the last corner ends the episode.",
    )


def _toy_text_pose(env: Any, observation: Any) -> None:
    """Toy-text environments keep their state as a number."""
    env.s = int(observation)


STANDS = ("the red stand", "the green stand", "the yellow stand", "the blue stand")


def _taxi_words(env: Any, observation: int) -> str:
    row, column, passenger, destination = env.decode(observation)
    where = "in the taxi" if passenger == 4 else f"waiting at {STANDS[passenger]}"
    taxi = f"the taxi in row {row + 1}, column {column + 1}"
    return f"{taxi}, the passenger {where}, bound for {STANDS[destination]}"


def _taxi_features(env: Any, observation: int) -> Features:
    row, column, passenger, destination = env.decode(observation)
    return {
        "row": row + 1,
        "column": column + 1,
        "passenger": "in the taxi" if passenger == 4 else f"at {STANDS[passenger]}",
        "destination": STANDS[destination],
        "next stand": STANDS[destination if passenger == 4 else passenger],
    }


def _taxi_end(env: Any, observation: int) -> str:
    return f"the passenger delivered at {STANDS[list(env.decode(observation))[3]]}"


def _taxi_cell(env: Any, observation: int) -> MapCell:
    row, column, passenger, destination = env.decode(observation)
    whence = "in the taxi" if passenger == 4 else f"at {STANDS[passenger].split()[1]}"
    return MapCell(column, -row, f"{whence}, to {STANDS[destination].split()[1]}")


def _taxi_frame(env: Any, shape: tuple[int, ...]) -> Frame:
    (x, y), (right, _), (_, below) = (env.get_surf_loc(cell) for cell in ((0, 0), (0, 1), (1, 0)))
    width, height = env.cell_size
    return Frame((x + width / 2, y + height / 2), (right - x, below - y))


def _blackjack_words(env: Any, observation: tuple[int, int, int]) -> str:
    total, dealer, ace = (int(part) for part in observation)
    return f"a hand of {total}{' with a usable ace' if ace else ''} against the dealer's {dealer}"


def _blackjack_features(env: Any, observation: tuple[int, int, int]) -> Features:
    total, dealer, ace = (int(part) for part in observation)
    return {"your hand": total, "the dealer's card": dealer, "usable ace": "yes" if ace else "no"}


def _blackjack_end(env: Any, observation: tuple[int, int, int]) -> str:
    return f"the end with {_blackjack_words(env, observation)}"


# MiniGrid's encoding of a cell: its kind, colour and state.
EMPTY, WALL, GOAL, LAVA, AGENT = 1, 2, 8, 9, 10
GREEN = 1
MOVABLE = {5: "key", 6: "ball", 7: "box", 4: "door"}
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
DOORS = ("open", "closed", "locked")
FACING = ("right", "down", "left", "up")


def _minigrid_agent(env: Any, observation: Any) -> tuple[int, int, int] | None:
    """Column, row and direction of the agent, if the whole grid is observed."""
    image = observation.get("image") if isinstance(observation, dict) else None
    if image is None or image.shape[:2] != (env.width, env.height):
        return None
    found = np.argwhere(image[:, :, 0] == AGENT)
    if len(found) != 1:
        return None
    column, row = found[0].tolist()
    return column, row, int(image[column, row, 2])


def _minigrid_things(observation: Any) -> str:
    """The movable things of a grid in words; empty if there are none."""
    things = []
    for column, row in np.argwhere(np.isin(observation["image"][:, :, 0], list(MOVABLE))).tolist():
        kind, colour, state = observation["image"][column, row].tolist()
        how = f" {DOORS[state]}" if MOVABLE[kind] == "door" else ""
        things.append(f"{COLOURS[colour]} {MOVABLE[kind]}{how} at {row + 1},{column + 1}")
    return ", ".join(things)


def _minigrid_words(env: Any, observation: Any) -> str:
    agent = _minigrid_agent(env, observation)
    if agent is None:
        return EnvironmentDescription().words(env, observation)
    column, row, direction = agent
    things = _minigrid_things(observation)
    return f"row {row + 1}, column {column + 1}, facing {FACING[direction]}{'; ' + things if things else ''}"


def _minigrid_features(env: Any, observation: Any) -> Features:
    agent = _minigrid_agent(env, observation)
    if agent is None:
        return {}
    column, row, direction = agent
    things = _minigrid_things(observation)
    place: Features = {"row": row + 1, "column": column + 1, "facing": FACING[direction]}
    return place | {"things": things} if things else place


def _minigrid_end(env: Any, observation: Any) -> str | None:
    agent = _minigrid_agent(env, observation)
    if agent is None:
        return None
    column, row, direction = agent
    name = {GOAL: "the goal", LAVA: "the lava"}.get(int(_minigrid_rest(env, observation, column, row)[column, row, 0]))
    return name and f"{name} in row {row + 1}, column {column + 1}, facing {FACING[direction]}"


def _minigrid_rest(env: Any, observation: Any, column: int, row: int) -> Any:
    """The image `[w, h, 3]` without the agent, but with the end of episodes that it may stand on and hide.

    A goal that is nowhere to be seen is under the agent; so is lava, if the environment has lava there and the same
    walls, goals and lava everywhere else.
    """
    rest, own = observation["image"].copy(), env.grid.encode()
    rest[column, row] = EMPTY, 0, 0
    if (own[:, :, 0] == GOAL).any() and not (rest[:, :, 0] == GOAL).any():
        rest[column, row] = GOAL, GREEN, 0
    elif own[column, row, 0] == LAVA:
        rest[column, row] = own[column, row]
        fixed = np.isin(rest, (WALL, GOAL, LAVA)) | np.isin(own, (WALL, GOAL, LAVA))
        if (fixed & (rest != own))[:, :, 0].any():
            rest[column, row] = EMPTY, 0, 0
    return rest


def _minigrid_cell(env: Any, observation: Any) -> MapCell | None:
    agent = _minigrid_agent(env, observation)
    if agent is None:
        return None
    column, row, direction = agent
    scene = _minigrid_rest(env, observation, column, row).tobytes()
    return MapCell(column, -row, f"facing {FACING[direction]}", COMPASS[FACING[direction]], scene)


def _minigrid_pose(env: Any, observation: Any) -> None:
    """Put the agent and all things where they are seen."""
    agent = _minigrid_agent(env, observation)
    if agent is not None:
        column, row, env.agent_dir = agent
        env.agent_pos, env.highlight = (column, row), False
        env.grid, _ = type(env.grid).decode(_minigrid_rest(env, observation, column, row))


# By the name of the environment's class.
DESCRIPTIONS = {
    "FrozenLakeEnv": _numbered_grid(
        lambda env: env.desc.shape,
        ("left", "down", "right", "up"),
        "A frozen lake with holes in it. You may want to get to the flag, and not to fall in.",
        lambda env, row, column: "the flag" if env.desc[row, column] == b"G" else "the hole",
        _lake_rules,
    ),
    "CliffWalkingEnv": _numbered_grid(
        lambda env: env.shape,
        ("up", "right", "down", "left"),
        "A path along a cliff. You may want to get to the other side, and not to fall.",
        lambda env, row, column: "the goal",
        _cliff_rules,
    ),
    "TaxiEnv": EnvironmentDescription(
        ("south", "north", "east", "west", "pick up", "drop off"),
        "A taxi and its passenger. You may want to take them to the coloured stand they are bound for.",
        _taxi_words,
        _taxi_cell,
        _toy_text_pose,
        _taxi_frame,
        end_words=_taxi_end,
        features=_taxi_features,
        rules=lambda env: (
            "The taxi moves one cell at a time; walls stop it.",
            "A passenger can be picked up where they wait, and dropped off at a coloured stand.",
            "The episode ends when the passenger is delivered where they are bound for.",
        ),
    ),
    "BlackjackEnv": EnvironmentDescription(
        ("stick", "hit"),
        "A game of Blackjack. You may want to win it.",
        _blackjack_words,
        end_words=_blackjack_end,
        features=_blackjack_features,
        rules=lambda env: (
            "“Hit” draws a card, “stick” ends your turn. More than 21 is lost at once.",
            "After you stick the dealer draws up to 17; whoever is closer to 21 wins.",
            "Face cards count ten; an ace counts eleven as long as that is not too much (then it is “usable”).",
        ),
    ),
    "MiniGridEnv": EnvironmentDescription(
        words=_minigrid_words,
        map_cell=_minigrid_cell,
        pose=_minigrid_pose,
        frame=lambda env, shape: Frame.from_corner(shape[1] / env.width, shape[0] / env.height),
        understands_wrappers=True,
        end_words=_minigrid_end,
        features=_minigrid_features,
    ),
}
