"""What the page shows: the interview at one moment, in plain values and in words."""

from __future__ import annotations

from typing import Any

from aceirl.protocols import EndingEnvironment, GrowingEnvironment
from aceirl.web.history import Walk
from aceirl.web.session import Interview
from aceirl.web.slips import Slips, slips
from aceirl.web.stage import Stage

# How many of the steps before a question are told in words.
TOLD_STEPS = 4


def about(interview: Interview) -> dict[str, Any]:
    """What never changes: the environment, its actions and their keys."""
    stage = interview.stage
    return {
        "environment": interview.source.environment,
        "brief": stage.brief,
        "shape": stage.shape,
        "horizon": interview.environment.horizon,
        "actions": [{"name": a.name, "direction": a.direction, "key": a.key} for a in stage.actions],
    }


def tag(interview: Interview) -> str:
    """Changes whenever the page has something new to show."""
    learnt = interview.learnt
    known = "-" if learnt is None else ".".join(map(str, learnt.version))
    return f"{interview.turn}.{interview.history.samples}.{interview.phase}.{known}"


def view(interview: Interview) -> dict[str, Any]:
    """All that the page shows now."""
    phase: str = interview.phase
    if phase == "done" and (interview.learnt is None or interview.learnt.version != interview.version):
        phase = "thinking"
    return {
        "tag": tag(interview),
        "turn": interview.turn,
        "phase": phase,
        "question": _question(interview) if phase == "asking" else None,
        "progress": _progress(interview),
        "gauge": _gauge(interview),
        "slips": _slips_in_words(interview),
        "belief": _belief(interview),
        "contradictions": _contradictions(interview),
        "can_undo": interview.deeds > 0,
        "outcome": _outcome(interview) if phase == "done" else None,
        "slack": _slack_in_words(interview) if phase == "done" else None,
    }


def _question(interview: Interview) -> dict[str, Any]:
    walk, stage = interview.history.walk, interview.stage
    assert walk is not None
    state = walk.states[-1]
    name = stage.name(state)
    return {
        "state": state,
        "where": name[0].upper() + name[1:],
        "step": walk.step,
        "episode": walk.number + 1,
        "path": walk.states,
        "told": told(stage, walk),
        "alone": interview.history.episodes_since_deed,
        "picture": stage.picture(),
    }


def told(stage: Stage, walk: Walk) -> list[str]:
    """The last steps of an episode in words; its beginning, if that is not long ago."""
    first = max(0, walk.step - TOLD_STEPS)
    sentences = [] if first else [f"It started in {stage.name(walk.states[0])}."]
    for step in range(first, walk.step):
        before, after = walk.states[step], walk.states[step + 1]
        action = stage.actions[walk.actions[step]].name
        reached = "stayed where it was" if before == after else f"got to {stage.name(after)}"
        sentences.append(f"It did “{action}” and {reached}.")
    return sentences


def _progress(interview: Interview) -> dict[str, Any]:
    history, environment = interview.history, interview.environment
    possible: int | None = environment.n_states
    if isinstance(environment, GrowingEnvironment):
        possible = environment.possible_states
    if possible is not None and isinstance(environment, EndingEnvironment):
        possible -= 1
    left = None if possible is None else possible - len(history.known())
    expected = history.expected_questions()
    if interview.phase == "done":
        words = "No more are needed."
    elif expected is not None:
        expected = expected if left is None else min(expected, left)
        words = "Hardly any more are expected." if expected == 0 else f"About {expected} more expected."
    else:
        words = "Too early to say how many more." if left is None else f"At most {left} more, usually far fewer."
    return {
        "answers": history.answers,
        "skipped": history.skips,
        "episodes": history.episodes,
        "steps": history.samples,
        "words": words,
    }


def _gauge(interview: Interview) -> dict[str, Any]:
    share, terms = interview.certified_share, interview.terms
    confidence = _percent(1 - terms.delta)
    loses = f"acting on what it learnt loses at most {_percent(share)} of the most an episode can be worth"
    if share >= 1:
        words = "Nothing can be promised yet. That changes once it has walked whole episodes on your answers alone."
    elif interview.certified:
        words = f"Promised, with {confidence} confidence: compared with you, {loses}."
    else:
        words = f"With {confidence} confidence: compared with you, {loses}. It stops at {_percent(terms.epsilon)}."
    return {"sure": 1 - share, "target": 1 - terms.epsilon, "reached": interview.certified, "words": words}


def _slips_in_words(interview: Interview) -> str:
    history = interview.history
    found = slips(history.repeats, history.contradictions)
    if not found.repeated:
        return "Everybody slips now and then, so a few questions come twice on purpose."
    range_ = f"{_percent(found.low)} to {_percent(found.high)}" if found.low else f"at most {_percent(found.high)}"
    return (
        f"{_times(found)}. About {_percent(found.guess)} of your answers may be slips ({range_}, with 90 % confidence)."
    )


def _slack_in_words(interview: Interview) -> str:
    assert interview.learnt is not None
    share = _percent(interview.learnt.slack / interview.environment.horizon)
    return f"To allow for them, rewards under which your answers lose up to {share} of an episode remain possible."


def _times(found: Slips) -> str:
    asked = "One question came twice" if found.repeated == 1 else f"{found.repeated} questions came twice"
    if not found.contradicted:
        return f"{asked}, and you said the same"
    if found.repeated == 1:
        return f"{asked}, and you said something else"
    return f"{asked}, and {found.contradicted} got another answer"


def _belief(interview: Interview) -> dict[str, Any]:
    """The states on the sheet that the current one lies on, with what is thought of them."""
    stage, walk, learnt = interview.stage, interview.history.walk, interview.learnt
    here = None if walk is None else stage.place(walk.states[-1])
    if here is None and walk is not None:
        here = next((place for state in reversed(walk.states) if (place := stage.place(state))), None)
    known = interview.history.known()
    states = []
    for state in range(interview.environment.n_states):
        place = stage.place(state)
        if place is None or (here and (place.sheet, place.scene) != (here.sheet, here.scene)):
            continue
        row: dict[str, Any] = {"state": state, "x": place.x, "y": place.y, "name": stage.name(state)}
        row["ahead"] = place.ahead
        if state in known:
            row["said"] = known[state]
        if learnt is not None and state < len(learnt.worth):
            row["worth"] = round(float(learnt.worth[state]), 3)
            row["guess"] = int(learnt.policy[0, state])
        states.append(row)
    sheet = "" if here is None else here.sheet[:1].upper() + here.sheet[1:]
    return {
        "ready": learnt is not None,
        "sheet": sheet,
        "states": states,
        "list": [] if states else _listed(interview),
    }


def _listed(interview: Interview) -> list[dict[str, Any]]:
    """For environments without a map: the states that are worth most, in words."""
    stage, learnt = interview.stage, interview.learnt
    if learnt is None:
        return []
    known = interview.history.known()
    ranked = sorted((-float(learnt.worth[s]), s) for s in known if s < len(learnt.worth))
    return [
        {"name": stage.name(s), "worth": round(-least, 3), "action": stage.actions[known[s]].name}
        for least, s in ranked[:8]
    ]


def _contradictions(interview: Interview) -> list[dict[str, Any]]:
    return [
        {
            "state": state,
            "name": interview.stage.name(state),
            "votes": opinion.votes,
            "standing": opinion.standing,
        }
        for state, opinion in sorted(interview.history.opinions.items())
        if opinion.contradictory
    ]


def _outcome(interview: Interview) -> dict[str, Any]:
    history, learnt = interview.history, interview.learnt
    assert learnt is not None
    agrees = "does what you said wherever you said something" if learnt.agrees else "differs from some of your answers"
    worked = f"{history.answers} answers were enough" if interview.certified else f"You gave {history.answers} answers"
    lines = [
        f"{worked}; the agent walked {history.episodes} episodes, {history.samples} steps in all.",
        f"A reward was found whose best policy {agrees}.",
    ]
    if not isinstance(interview.environment, EndingEnvironment):
        best = max(history.known(), key=lambda state: learnt.worth[state])
        lines.append(f"You get most of it in {interview.stage.name(best)}.")
    if not interview.certified:
        lines.append("More could not be promised: in some situations you did not say what you would do.")
    return {"certified": interview.certified, "lines": lines}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 or share == 0 else f"{100 * share:.1g} %"
