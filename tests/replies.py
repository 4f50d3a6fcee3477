"""What somebody who knows what they want sends to the server, whatever they are asked."""

from __future__ import annotations

from typing import Any

from interviews import Person


def reply(shown: dict[str, Any], person: Person) -> tuple[str, dict[str, Any]]:
    """The name of the request and its content, for what the page shows while it asks.

    An episode is as the person would have it, or is put right at the first step where it is not.
    """
    question, turn = shown["question"], {"turn": shown["turn"]}
    if question["kind"] == "situation":
        return "answer", turn | {"action": person(question["state"])}
    assert question["kind"] == "episode"
    states = {place["name"]: place["state"] for place in shown["belief"]["states"]}
    for step in question["steps"]:
        wanted = person(states[step["name"]])
        if wanted != step["action"]:
            return "review", turn | {"step": step["step"], "action": wanted}
    return "review", turn
