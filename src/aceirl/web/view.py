"""What the page shows: the interview at one moment, in plain values and in words."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from aceirl.errors import InputError
from aceirl.explain.listing import listed
from aceirl.learner.turns import Turn
from aceirl.protocols import Question
from aceirl.runs.files import Event
from aceirl.web.driver import Interview
from aceirl.web.ending import Ending, Group
from aceirl.web.environment_view import EnvironmentView
from aceirl.web.history import Accuracy, LoggedTrajectory, Scope
from aceirl.web.inter_rater import answer_errors

# How many of the steps before a question are told in words.
NARRATED_STEPS = 4

# A wish that is this much less probable than the first one is not offered to choose from.
UNLIKELY = 0.02


def about(interview: Interview) -> dict[str, Any]:
    """What hardly ever changes: the environment, its actions and their keys."""
    shown = interview.view
    return {
        "environment": interview.source.environment,
        "brief": shown.brief,
        "rules": [*shown.rules, _end_of_time(interview)],
        "shape": shown.shape,
        "most_steps": interview.most_steps,
        "actions": [{"name": a.name, "direction": a.direction, "key": a.key} for a in shown.actions],
    }


def _end_of_time(interview: Interview) -> str:
    return f"After {counted(interview.environment.horizon, 'step')} an episode is over in any case."


def tag(interview: Interview) -> str:
    """Changes whenever the page has something new to show."""
    known = "-" if interview.learned is None else ".".join(map(str, interview.learned_version))
    kept = interview.kept_version == interview.version
    return f"{interview.turn}.{interview.history.samples}.{interview.phase}.{known}.{kept:d}.{interview.trouble or ''}"


def view(interview: Interview) -> dict[str, Any]:
    """All that the page shows now."""
    phase: str = interview.phase
    if (phase == "done" and interview.kept_version != interview.version) or (
        phase == "walking" and interview.needs_inference
    ):
        phase = "thinking"
    return {
        "tag": tag(interview),
        "turn": interview.turn,
        "phase": phase,
        "mode": interview.history.mode,
        "question": _question(interview, interview.asked) if phase == "asking" else None,
        "progress": _progress(interview),
        "gauge": _gauge(interview),
        "answer_errors": _answer_errors_in_words(interview),
        "belief": _belief(interview),
        "contradictions": [
            {"state": state, "name": interview.view.name(state), "votes": votes.votes, "standing": votes.standing}
            for state, votes in interview.history.contradictory().items()
        ],
        "last": _last_said(interview),
        "finished": interview.history.finished and not interview.certified,
        "settings": {
            "epsilon": interview.accuracy.epsilon,
            "delta": interview.accuracy.delta,
            "horizon": interview.environment.horizon,
        },
        "trouble": interview.trouble,
        "outcome": (
            _outcome(interview, interview.learned, interview.ending)
            if phase == "done" and interview.learned and interview.ending
            else None
        ),
    }


def _last_said(interview: Interview) -> dict[str, str] | None:
    """What undoing takes back, in words: short, and in full; None if there is nothing."""
    if not interview.history.said:
        return None
    event = interview.history.said[-1]
    where = event.get("state_name", "")
    match event["event"]:
        case "answer":
            short, full = f"You said {event['action_name']}", f"“{event['action_name']}” in {where}"
        case "skip":
            short, full = "You did not know", f"“I don’t know” in {where}"
        case "correct":
            short, full = (
                f"You changed it to {event['action_name']}",
                f"the change to “{event['action_name']}” in {where}",
            )
        case "review":
            said = event["names"][-1] if event["instead"] and event["names"] else None
            short = "You agreed" if said is None else f"You said {said['action_name']}"
            full = (
                "what you said to the episode" if said is None else f"“{said['action_name']}” in {said['state_name']}"
            )
        case "prefer":
            sides = {0: "left is better", 1: "right is better", None: "no difference"}
            said = "I don’t know" if event.get("unknown") else sides[event["better"]]
            short, full = f"You said {said}", f"“{said}”"
        case _:
            said = event["verdict"] if event["chosen"] is None else _chosen_in_words(event)
            short, full = f"You said {said}", f"“{said}” as what you want"
    return {"short": short, "full": full}


def answers(interview: Interview) -> list[dict[str, Any]]:
    """What the person is taken to do, situation by situation, in the order in which they said so, and how they did."""
    known, shown = interview.history.known(), interview.view
    return [
        {
            "state": state,
            "name": shown.name(state),
            "action": known[state],
            "how": _how_said(event),
        }
        for state, event in interview.history.first_said.items()
        if state in known
    ]


def _how_said(event: Event) -> str:
    if "scope" in event:
        return f"the same: {Scope.read(event['scope']).words}"
    if event.get("also"):
        return f"the same in {counted(1 + len(event['also']), 'situation')}"
    how = {"answer": "", "applied": "the same everywhere like it", "correct": "changed", "review": "you saw it"}
    return how[event["event"]]


def like(interview: Interview, relations: dict[str, str]) -> dict[str, Any]:
    """How many situations an answer to the current question would hold for, in words."""
    question = interview.asked
    if not isinstance(question, Question):
        raise InputError("no question is open now")
    scope, dialogue = Scope.like(interview.view.features(question.state), relations), interview.dialogue
    kept = len(dialogue.covered(scope, question.state, known=True))
    count = 1 + len(dialogue.covered(scope, question.state))
    words = f"Holds in {counted(count, 'situation')} known so far, and in all like it that are met later"
    return {
        "count": count,
        "words": f"{words}; {kept} you spoke about before stay as they are." if kept else f"{words}.",
    }


def _question(interview: Interview, asked: object) -> dict[str, Any]:
    """What the person is asked: about a situation, about an episode that was walked on guesses, which are listed for
    them to say where they would do otherwise, or about two episodes."""
    history, walk, shown = interview.history, interview.history.trajectory, interview.view
    if isinstance(asked, Question):
        apart = history.reopened is not None or interview.dialogue.needed is not None
        name, now = shown.name(asked.state), None if apart else walk
        features = {} if asked.again else shown.features(asked.state)
        return {
            "kind": "situation",
            "state": asked.state,
            "where": name[0].upper() + name[1:],
            "step": asked.step,
            "episode": None if now is None else now.number,
            "path": [asked.state] if now is None else now.states,
            "narrative": [] if now is None else narrative(shown, now),
            "why": _why(interview, asked),
            "features": [{"name": n, "value": v, "ordered": not isinstance(v, str)} for n, v in features.items()],
            "picture": None if now is None else shown.picture(),
        }
    if isinstance(asked, LoggedTrajectory):
        steps = [
            {"step": step, "name": shown.name(state), "action": action, "words": shown.actions[action].name}
            for step, state, action in asked.guessed
        ]
        guesses = counted(len(steps), "situation")
        return {
            "kind": "episode",
            "where": "The agent did this on its own",
            "episode": asked.number,
            "steps": steps,
            "why": f"It guessed what you would do in {guesses} that you have not spoken about.",
        }
    assert isinstance(asked, tuple)
    why = "What the agent did in both was partly chance; look at what happens."
    return {
        "kind": "pair",
        "where": "Which of the two do you like better",
        "pair": list(asked),
        "why": why if history.compared else f"{why} It asks about the two that tell it most about what you want.",
    }


def _why(interview: Interview, question: Question) -> str:
    """Why this is asked now, in one line."""
    history, votes = interview.history, interview.history.votes.get(question.state)
    if history.reopened:
        return "You took back what you said here. The agent goes on from where it is."
    if history.pending:
        left = len(history.pending)
        last = "the last of these" if left == 1 else f"{left} of these are left"
        return f"You may want several things that differ in what to do here; {last}."
    if interview.dialogue.needed is not None:
        return "Others have answered this one, and you are asked too. The agent goes on from where it is."
    if history.mode == "play":
        return f"You play: step {question.step + 1} of {interview.environment.horizon}."
    if votes is not None and votes.contradictory:
        return "You gave two different answers here, so it comes once more."
    if votes is not None and votes.standing is not None:
        return "You were asked this before: a few questions come twice on purpose."
    if votes is not None:
        return "You did not know before; perhaps you do now."
    walked = history.episodes_since_user_action
    before = f"It played {counted(walked, 'episode')} without you. " if walked > 1 else ""
    often = history.met[question.state]
    came = f"came up in {often} of {counted(history.episodes, 'episode')}" if often else "comes up for the first time"
    return f"{before}You have not spoken about this situation; it {came}."


def narrative(shown: EnvironmentView, walk: LoggedTrajectory) -> list[str]:
    """The last steps of an episode in words; its beginning, if that is not long ago."""
    first = max(0, walk.step - NARRATED_STEPS)
    sentences = [] if first else [f"It started in {shown.name(walk.start)}."]
    for _, before, action, after in walk.moves[first:]:
        reached = "stayed where it was" if before == after else f"got to {shown.name(after)}"
        sentences.append(f"It did “{shown.actions[action].name}” and {reached}.")
    return sentences


def _progress(interview: Interview) -> dict[str, Any]:
    history, access = interview.history, interview.engine.access
    possible = access.shape[1] if access.possible_states is None else (access.possible_states - 1) / 2
    left = history.answers_left(possible)
    if interview.phase == "done":
        words = "No more questions come."
    elif history.finished:
        words = "You finished; this one comes again because you took it back."
    elif history.mode == "compare":
        words = "Finish whenever you like."
    elif left is None:
        words = "Too early to say how many more."
    else:
        roughly = left if left < 10 else round(left, 1 - len(str(left)))  # with one digit, from ten on
        words = f"About {roughly} more expected." if left else "Few more are expected."
    return {
        "answers": history.answers,
        "situations": len(history.known()),
        "skipped": history.skips,
        "episodes": history.episodes,
        "steps": history.samples,
        "words": words,
    }


def _gauge(interview: Interview) -> dict[str, Any]:
    """How much of what is met the person has spoken about, and what can be promised by now."""
    share, asked, history = interview.certified_share, interview.accuracy, interview.history
    shown, over = interview.phase == "done", interview.phase == "done" or history.finished
    confidence = _percent(1 - asked.delta)
    loses = f"acting on what it learnt loses at most {_percent(share)} of the most an episode can be worth"
    if history.contradictory():
        differ, several = len(history.contradictory()), sum(len(votes.votes) > 1 for votes in history.votes.values())
        words = f"Nothing is promised as long as answers contradict each other: {differ} of "
        words += f"{counted(several, 'situation')} that came again got different answers. "
        words += "Say below what you meant." if shown else "At the end you can say what you meant."
    elif share >= 1 and over:
        words = "Nothing can be promised."
    elif share >= 1:
        words = "Nothing can be promised yet. That changes once it has played whole episodes on your answers alone."
    elif interview.certified:
        words = f"Promised, with {confidence} confidence: compared with you, {loses}."
    else:
        words = f"With {confidence} confidence: compared with you, {loses}."
        words += "" if over else f" It stops at {_percent(asked.epsilon)}."
    return {"covered": history.familiar, "reached": interview.certified, "words": words}


def _answer_errors_in_words(interview: Interview) -> str:
    history = interview.history
    found = answer_errors(history.repeats, history.contradictions)
    if not found.repeated and interview.phase == "done":
        return "No question came twice, so there is no telling how many of your answers may be errors."
    if not found.repeated:
        return "Everyone makes mistakes, so a few questions may come twice on purpose."
    one, differ = found.repeated == 1, found.contradicted
    asked = "One question came twice" if one else f"{found.repeated} questions came twice"
    said = "you said the same" if not differ else "you said something else" if one else f"{differ} got another answer"
    if found.high == 1 and not found.low:
        return f"{asked}, and {said}. That is too few to say how many of your answers may be errors."
    range_ = f"{_percent(found.low)} to {_percent(found.high)}" if found.low else f"at most {_percent(found.high)}"
    errors = f"About {_percent(found.guess)} of your answers may be errors ({range_}, with 90 % confidence)."
    return f"{asked}, and {said}. {errors}"


def _belief(interview: Interview) -> dict[str, Any]:
    """The states on the map panel that the current one lies on, with what is thought of them."""
    shown, walk, learned = interview.view, interview.history.trajectory, interview.learned
    here = None
    if walk is not None:
        asked = interview.asked
        over = interview.engine.access.terminal
        on_the_way = [state for state in reversed(walk.states) if state not in over]
        met = [asked.state] if isinstance(asked, Question) else [*on_the_way, walk.states[-1]]
        here = next((cell for state in met if (cell := shown.map_cell(state))), None)
    states = []
    for state in range(interview.environment.n_states):
        cell = shown.map_cell(state)
        if cell is None or (here and (cell.panel, cell.scene) != (here.panel, here.scene)):
            continue
        states.append({**_place(interview, state), "x": cell.x, "y": cell.y, "ahead": cell.ahead})
    panel = "" if here is None else here.panel[:1].upper() + here.panel[1:]
    rows = [] if states or learned is None else _listed(interview, learned)
    return {"ready": learned is not None, "panel": panel, "states": states, "list": rows}


def _place(interview: Interview, state: int) -> dict[str, Any]:
    """A state with what was said and is thought of it; `end` is what an episode ends with there."""
    name, learned = interview.view.name(state), interview.learned
    row: dict[str, Any] = {"state": state, "name": name}
    said = interview.history.standing(state)
    if said is not None:
        row["said"] = said
    if state in interview.engine.access.terminal:
        # In one word: the flag in row 4 is a flag, the passenger delivered at a stand is delivered.
        row["end"] = re.split(r" (?:in|at|with) |[,:;]", name.removeprefix("the "))[0].split()[-1]
    if learned is not None and state < len(learned.mean_reward):
        row["reward"] = round(float(learned.mean_reward[state]), 3)
        row["guess"] = int(learned.policy[0, state])
    return row


def _listed(interview: Interview, learned: Turn) -> list[dict[str, Any]]:
    """For environments without a map: the states with the largest rewards, in words."""
    shown, known, earned = interview.view, interview.history.known(), learned.mean_reward
    ranked = sorted((-float(earned[s]), s) for s in known if s < len(earned))
    return [
        {"name": shown.name(s), "reward": round(-least, 3), "action": shown.actions[known[s]].name}
        for least, s in ranked[:8]
    ]


def _outcome(interview: Interview, learned: Turn, ending: Ending) -> dict[str, Any]:
    """What the interview has come to: what the agent does, what the person seems to want, in words and place by place,
    and what is next."""
    history = interview.history
    places = [_place(interview, state) for state in range(interview.environment.n_states)]
    alternatives = learned.alternatives
    for place in places:
        cell = interview.view.map_cell(place["state"])
        place["ahead"] = (0.0, 1.0) if cell is None else cell.ahead
        place["open"] = alternatives is not None and place["state"] in alternatives.undetermined
    answers, were = counted(history.answers, "answer"), "was" if history.answers == 1 else "were"
    worked = f"{answers} {were} enough" if interview.certified else f"You gave {answers}"
    known = len(history.known())
    if known > history.answers:
        worked += f", for {counted(known, 'situation')}"
    unanswered = [interview.view.name(s) for s, votes in history.votes.items() if votes.standing is None]
    unsaid = [f"You did not say what you would do in {listed(unanswered)}."] if unanswered else []
    episodes, steps = counted(history.episodes, "episode"), counted(history.samples, "step")
    found = ending.goal if ending.wish.kind == "bold" else None
    lines = [] if found is None else [*found.reasons, *found.errors]
    lines.append(f"{worked}; the agent played {episodes}, {steps} in all.")
    if not interview.certified and not history.contradictory():
        lines.append(_why_not_more(interview))
    return {
        "certified": interview.certified,
        "does": [_group_in_words(group) for group in ending.does],
        "wish": _wish(interview, ending),
        "lines": lines,
        "places": places,
        "explained": _explained(interview, ending.explained),
        "open": [*(() if found is None else found.undetermined), *unsaid],
        "next": next_steps(interview),
    }


def _group_in_words(group: Group) -> dict[str, str]:
    count = counted(group.count, "situation") + (f", {group.otherwise} of them otherwise" if group.otherwise else "")
    return {"action": group.action, "where": group.words, "count": count}


def _wish(interview: Interview, ending: Ending) -> dict[str, Any]:
    """What the person seems to want: a headline, why no more, what else it may be, and what they said to it."""
    history, wish = interview.history, ending.wish
    verdict = history.verdicts[-1] if history.verdicts else None
    headline, why = wish.sentence, ""
    if not history.answers and not history.told:
        headline = "You have answered nothing, so there is nothing to say about what you want."
    elif wish.quote:
        headline, why = wish.quote, wish.sentence.removeprefix(wish.quote).strip()
    elif wish.kind == "open":
        more = f"; about {counted(ending.needed, 'more answer')} would" if ending.needed else ""
        headline = f"I cannot tell yet what you want{more}."
        why = re.sub(r"^The ([a-z ]+) do not tell what you want: ", r"Your \1: ", wish.sentence)
    return {
        "kind": wish.kind,
        "headline": headline,
        "why": why,
        "rivals": [one | {"words": _rival_in_words(one)} for one in _likely(wish.rivals)],
        "more": len(ending.telling),
        "chosen": bool(history.chosen),
        "verdict": None if verdict is None else _verdict_in_words(verdict),
        # Whoever has said more since then is asked anew, as it may have come to something else.
        "answered": verdict is not None and history.said[-1] is verdict,
    }


def _likely(rivals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that are not much less probable than the first."""
    return [one for one in rivals if one["probability"] >= UNLIKELY * rivals[0]["probability"]]


def _rival_in_words(rival: dict[str, Any]) -> str:
    return f"{'Get to' if rival['what'] == 'wants' else 'Keep away from'} {rival['name']}"


def _verdict_in_words(event: Event) -> str:
    """Where nothing was named, there was nothing to affirm or deny."""
    said = [event["verdict"]] if event["named"] or event["chosen"] is None else []
    chosen = [] if event["chosen"] is None else [_chosen_in_words(event)]
    return f"You said: {'; '.join(said + chosen)}."


def _chosen_in_words(event: Event) -> str:
    chosen = [*event.get("besides", ()), [*event["chosen"], event["state_name"]]]
    ways = (("wants", "get to"), ("avoids", "keep away from"))
    said = [(words, [name for what, _, name in chosen if what == way]) for way, words in ways]
    return " and ".join(f"{words} {listed(names)}" for words, names in said if names)


def _explained(interview: Interview, verdicts: Mapping[int, bool]) -> dict[str, Any]:
    """How many answers the reward explains, and those that it does not, together by what was said."""
    shown, known = interview.view, interview.history.known()
    compared = [verdicts[state] for state in known if state in verdicts]
    if compared:
        words = f"The recovered reward explains what you would do in {sum(compared)} of "
        words += f"{counted(len(compared), 'situation')}."
    elif known:
        words = "There is no reward yet that explains any of your answers."
    else:
        words = "You did not say of any situation what you would do."
    groups: dict[str, list[str]] = {}
    for state, action in known.items():
        if verdicts.get(state) is False:
            groups.setdefault(shown.actions[action].name, []).append(shown.name(state))
    rows = [{"action": action, "count": len(names), "where": listed(names)} for action, names in groups.items()]
    return {"words": words, "rows": rows}


def next_steps(interview: Interview) -> list[dict[str, str]]:
    """What can be done with what was learnt: a title, and a command or a program for it."""
    source, folder = interview.source, str(interview.folder)
    steps = [
        {"title": "Come back to this page, to go on or to change an answer", "code": _same_command(interview)},
        {
            "title": "Try it in a changed world: here with episodes that start anywhere",
            "code": f"aceirl transfer {shlex.quote(folder)} --start uniform",
        },
    ]
    if source.ours:
        return steps
    made = "".join(f", {name}={value!r}" for name, value in source.parameters.items())
    program = f"""import aceirl
import gymnasium

wanted = aceirl.load({folder!r})
env = wanted.wrapper(gymnasium.make({source.environment!r}{made}))  # pays what you want"""
    return [
        {"title": "Train any agent on it, in Python", "code": program},
        {
            "title": "Export the reward as a table and your answers as demonstrations",
            "code": f"aceirl export {shlex.quote(folder)}",
        },
        *reversed(steps),
    ]


def _same_command(interview: Interview) -> str:
    """The command that opens this interview again."""
    (source, asked), usual = interview.begun_with, Accuracy()
    words = ["aceirl", "interview", source.environment, "--out", str(interview.folder)]
    for name, value in source.parameters.items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    for option, value, default in (
        ("--seed", source.seed, 0),
        ("--horizon", source.horizon, None),
        ("--epsilon", asked.epsilon, usual.epsilon),
        ("--delta", asked.delta, usual.delta),
    ):
        if value != default:
            words += [option, str(value)]
    return shlex.join(words)


def _why_not_more(interview: Interview) -> str:
    history = interview.history
    if history.finished:
        return "You finished before more could be promised."
    if history.mode == "compare":
        return "Comparing episodes tells what you want, and not what you would do, so nothing is promised about that."
    if any(votes.standing is None for votes in history.votes.values()):
        return "More could not be promised: in some situations you did not say what you would do."
    if interview.has_walked_enough:
        return f"More could not be promised: the agent has made {counted(history.samples, 'step')}, as many as it may."
    walked = counted(history.episodes_since_user_action, "episode")
    return f"More could not be promised: {walked} without a question were not enough for the accuracy asked for."


def counted(number: int, noun: str) -> str:
    """A number of things: one thing, several things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.095 or share == 0 else f"{100 * share:.1g} %"
