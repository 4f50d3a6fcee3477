"""What an interview leaves behind: the answers as demonstrations, and the outcome in plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aceirl.files import Event
from aceirl.goal import YOU, goal_in_words
from aceirl.web.answer_errors import answer_errors
from aceirl.web.history import effective

if TYPE_CHECKING:
    from aceirl.web.session import Interview


def demonstrations(interview: Interview) -> list[dict[str, Any]]:
    """The answers that stand, as `DemonstrationExpert` reads them: with names, and when each was last given."""
    given: dict[tuple[int, int], Event] = {}
    for event in effective(interview.log):
        match event["event"]:
            case "answer" | "correct" | "applied":
                states = [event["state"], *event.get("also", ())]
                given |= {(state, event["action"]): event for state in states}
            case "review":
                said = [*event["approved"], *([event["instead"]] if event["instead"] else [])]
                given |= {(state, action): event for _, state, action in said}
    lines = []
    for state, action in sorted(interview.history.known().items()):
        observation, does = interview.view.demonstrated(state, action)
        line = {"observation": observation, "action": does} | interview.named(state, action)
        lines.append(line | {key: given[state, action].get(key) for key in ("time", "seconds")})
    return lines


def summary(interview: Interview) -> dict[str, Any]:
    """The outcome in plain values."""
    history, learned = interview.history, interview.learned
    names = [interview.view.name(state) for state in range(interview.environment.n_states)]
    actions = [action.name for action in interview.view.actions]
    return {
        "environment": interview.source.environment,
        "goal": [] if learned is None else goal_in_words(learned, names, actions, YOU),
        "certified": interview.certified,
        "certified_loss_share": interview.certified_share,
        "asked_loss_share": interview.accuracy.epsilon,
        "confidence": 1 - interview.accuracy.delta,
        "answers": history.answers,
        "situations": len(history.known()),
        "comparisons": len(history.compared),
        "skipped": history.skips,
        "episodes": history.episodes,
        "steps": history.samples,
        "answer_errors": asdict(answer_errors(history.repeats, history.contradictions)),
        "answers_by_state": {
            interview.view.name(state): interview.view.actions[action].name for state, action in history.known().items()
        },
        "contradictions": {
            interview.view.name(state): [interview.view.actions[vote].name for vote in votes.votes]
            for state, votes in history.contradictory().items()
        },
    }
