"""What the expert wants, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from aceirl.irl.alternatives import Alternatives
from aceirl.rewards import AnyReward, Explanation, FeatureReward, StateReward, estimated_conflict
from aceirl.turns import Turn

SLIGHT = 1.0
"""Parameters without which the answers are at most this many nats less likely are not spoken of."""


LONGEST = 120
"""About how many characters a list of names has at most."""


LARGE = 700
"""Entries `H·S·A` above which no conflicting answers are sought. That takes linear programmes: of an expert who acts at
random in FrozenLake, a second for 680 entries, 8 for 1,360 and 40 for 2,040."""

MOST_ANSWERS = 6
"""So many conflicting answers are told at most."""


def goal_in_words(turn: Turn, names: Sequence[str], actions: Sequence[str] = ()) -> list[str]:
    """What the expert wants, what else it may be, and what is not determined; a sentence or two each.

    `names [S]` are what people call the states, `actions [A]` the actions.
    """
    found = turn.explanation
    if found is None:
        return []
    if not found.answers:
        return ["There is no answer of the expert to go by: the recovered reward means nothing."]
    if isinstance(turn.space, AnyReward):
        return ["The recovered reward, of the space any, repeats what the expert does; it names no goal."]
    if found.space == "any":
        return [
            f"The answers name no goal: no reward of places, or of actions in places, explains the {found.answers:,} "
            "answers. The recovered reward depends on the step, repeats what the expert does, and says nothing about "
            "other places.",
            *_conflict(turn, names, actions),
        ]
    if not found.explains:
        return [f"The answers tell little of what the expert wants: {_count(found)}, hardly more than chance would."]
    alternatives = turn.alternatives
    assert alternatives is not None
    if found.space == "features":
        return [_features(found, turn.space.names if isinstance(turn.space, FeatureReward) else ()), *_errors(found)]
    return [
        f"{_wanted(found, names, actions)} ({_count(found)}).",
        *_ways(found),
        _weight(found),
        *_others(found, alternatives, names),
        *_undetermined(found, alternatives, names),
        *_errors(found),
    ]


def listed(names: Sequence[str]) -> str:
    """Names in a row, with runs of numbers drawn together: `state l5 to l10, u7`; of many, the first."""
    runs: list[tuple[str, int | None, int | None]] = []
    first = _prefix(names)
    for name in names:
        match = re.fullmatch(r"(.*?)(0|[1-9]\d*)", name)
        stem, number = (match[1], int(match[2])) if match else (name, None)
        if runs and number is not None and runs[-1][0] == stem and runs[-1][2] == number - 1:
            runs[-1] = (stem, runs[-1][1], number)
        else:
            runs.append((stem, number, number))
    texts = [
        stem.removeprefix(first)
        + ("" if low is None else f"{low}" if low == high else f"{low} to {_again(stem).removeprefix(first)}{high}")
        for stem, low, high in runs
    ]
    most = max(2, LONGEST // max((len(text) for text in texts), default=1))
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    separator = "; " if any("," in text for text in texts) else ", "
    return first + separator.join(texts[:most]) + rest


def _again(stem: str) -> str:
    """What is repeated before the last number of a run: nothing after `row 3, column 1 to`."""
    return "" if ", " in stem else stem


def _prefix(names: Sequence[str]) -> str:
    """The first word, if all names share it."""
    word = names[0].partition(" ")[0] + " " if names else ""
    return word if all(name.startswith(word) for name in names) and word.strip() == "state" else ""


def _count(found: Explanation) -> str:
    return f"explains {found.explained:,} of {found.compared:,} answers"


def _weight(found: Explanation) -> str:
    """How much likelier the reward makes the answers, and how many cannot be compared."""
    times = "over a million" if found.gain > np.log(1e6) else f"{np.exp(found.gain):,.0f}"
    rest = found.answers - found.compared
    more = f"; {rest:,} more cannot be compared with anything that was tried" if rest else ""
    return f"It makes these answers {times} times likelier than chance{more}."


def _wanted(found: Explanation, names: Sequence[str], actions: Sequence[str]) -> str:
    """The goal, what is avoided, and hurry, in one sentence without its end."""
    avoided = listed([names[s] for s in found.avoided])
    if not found.goals:
        if avoided:
            return f"The expert avoids {avoided}"
        return "The expert wants its episodes to last" if found.hurry < 0 else "The expert wants nothing in particular"
    ends = found.ends[found.goals].all()
    places = listed([names[s] for s in found.goals])
    wish = f"reach {places}" if ends else f"be in {places}"
    if found.space == "state-action" and not ends and actions:
        wish = f"{_done(found, actions)} in {places}"
    soon = ", and is in a hurry: every step before the end costs it something" if found.hurry > 0 else ""
    shy = f", and avoids {avoided}" if avoided else ""
    return f"The expert wants to {wish}{soon}{shy}"


def _done(found: Explanation, actions: Sequence[str]) -> str:
    best = found.paid[found.goals[0]]
    chosen = [actions[a] for a in np.flatnonzero(best >= best.max() - 1e-9).tolist()]
    return "be" if len(chosen) == len(actions) else f"do “{' or '.join(chosen)}”"


def _ways(found: Explanation) -> list[str]:
    """Whether the way matters: it does not if nothing but the goals is paid for."""
    if not found.goals or found.hurry != 0:
        return []
    paid = set(found.states[found.likeliest != 0].tolist())
    return ["It does not care which way it gets there."] if paid <= set(found.goals) else []


def _others(found: Explanation, alternatives: Alternatives, names: Sequence[str]) -> list[str]:
    """The places that are paid for beside the goal, and those that may be the goal instead of it."""
    liked = [
        (float(found.likeliest[k]), int(found.states[k]))
        for k in np.flatnonzero((found.likeliest > 0) & (found.importance >= SLIGHT))
        if found.states[k] >= 0 and found.states[k] not in found.goals
    ]
    lines = []
    if liked:
        shares = ", ".join(f"{names[s]} ({value:.0%})" for value, s in sorted(liked, reverse=True)[:4])
        lines.append(f"It also likes to be in {shares} of what the goal pays.")
    rivals = [s for s in alternatives.goals if s not in found.goals]
    if rivals and found.goals:
        lines.append(f"What it wants may also be {listed([names[s] for s in rivals])}: the answers fit that too.")
    return lines


def _undetermined(found: Explanation, alternatives: Alternatives, names: Sequence[str]) -> list[str]:
    places = [s for s in alternatives.undetermined if s not in found.goals]
    if not found.goals:
        best = listed([names[s] for s in places])
        return [f"Which of the others it likes best is not determined: {best}."] if places else []
    if not places:
        return ["Every other place is worth less to it."]
    which = "it" if len(places) == 1 else f"any one of these {len(places):,} places"
    return [
        f"Not determined: {listed([names[s] for s in places])}; the answers would fit about as well if {which} were "
        "worth as much as the goal."
    ]


def _conflict(turn: Turn, names: Sequence[str], actions: Sequence[str]) -> list[str]:
    """Answers that no reward of places explains together, if the problem is small."""
    estimate = turn.belief.estimate
    if estimate.counts.visits.size > LARGE:
        return []
    answers = estimated_conflict(estimate, StateReward())
    if not answers:
        return []
    told = [f"{actions[a] if actions else f'action {a}'} in {names[s]} at step {h + 1}" for h, s, a in answers]
    more = f"; and {len(told) - MOST_ANSWERS} more" if len(told) > MOST_ANSWERS else ""
    return [
        "As far as the estimated dynamics tell, no reward of places explains these answers together: "
        f"{'; '.join(told[:MOST_ANSWERS])}{more}."
    ]


def _features(found: Explanation, names: Sequence[str]) -> str:
    weights = found.likeliest
    called = [*names, *(f"feature {k}" for k in range(len(names), len(weights)))]
    if found.hurries:
        called[len(weights) - 1] = "hurry"
    paid = [k for k in np.argsort(-np.abs(weights), kind="stable").tolist() if weights[k] != 0]
    values = ", ".join(f"{called[k]}: {weights[k]:g}" for k in paid)
    return f"The expert's reward is a sum of features, with the weights {values} ({_count(found)})."


def _errors(found: Explanation) -> list[str]:
    return [f"About {found.error_rate:.0%} of the answers seem to be errors."] if found.error_rate else []
