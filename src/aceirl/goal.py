"""What the expert wants, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aceirl.irl.alternatives import Alternatives
from aceirl.irl.likelihood import Likelihood
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


@dataclass(frozen=True)
class Person:
    """Who is spoken of: the name, the pronoun, whose the answers are, and whether it is you who reads it."""

    name: str
    pronoun: str
    own: str
    is_you: bool = False

    def does(self, verb: str, yours: str) -> str:
        """The verb as it goes with the name or the pronoun."""
        return yours if self.is_you else verb


EXPERT, YOU = Person("the expert", "it", "the expert"), Person("you", "you", "yours", is_you=True)


@dataclass(frozen=True)
class Goal:
    """What somebody wants, in sentences.

    `wish` says it in one, and `count` how many answers and comparisons that explains (empty if there is nothing to
    count). `reasons` are what more there is to say of it, `undetermined` is what they leave open, `errors` how many
    seem wrong.
    """

    wish: str
    count: str = ""
    reasons: tuple[str, ...] = ()
    undetermined: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """All sentences."""
        first = f"{self.wish[:-1]} ({self.count})." if self.count else self.wish
        return [first, *self.reasons, *self.undetermined, *self.errors]


def goal_in_words(turn: Turn, names: Sequence[str], actions: Sequence[str] = (), who: Person = EXPERT) -> list[str]:
    """What the expert wants, what else it may be, and what is not determined; a sentence or two each.

    `names [S]` are what people call the states, `actions [A]` the actions; `who` is the expert spoken of, or to.
    """
    found = goal_of(turn, names, actions, who)
    return [] if found is None else found.lines


def goal_of(turn: Turn, names: Sequence[str], actions: Sequence[str] = (), who: Person = EXPERT) -> Goal | None:
    """The same, taken apart; None if the IRL algorithm does not say what its reward explains."""
    found = turn.explanation
    if found is None:
        return None
    if not found.answers and (not found.preferences or isinstance(turn.space, AnyReward)):
        return Goal(f"There is no answer of {who.own} to go by: the recovered reward means nothing.")
    does = f"{who.name} {who.does('does', 'do')}"
    if isinstance(turn.space, AnyReward):
        return Goal(f"The recovered reward, of the space any, repeats what {does}; it names no goal.")
    told = _told(found)
    if found.space == "any":
        repeats = f"depends on the step, repeats what {does}, and says nothing about other places"
        return Goal(
            f"The {told} name no goal: no reward of places, or of actions in places, explains the {_number(found)}. "
            f"The recovered reward {repeats if found.answers else 'means nothing'}.",
            reasons=tuple(_conflict(turn, names, actions)) if found.answers else (),
        )
    if not found.explains:
        wants = f"{who.name} {who.does('wants', 'want')}"
        return Goal(f"The {told} tell little of what {wants}: {_count(found)}, hardly more than chance would.")
    alternatives = turn.alternatives
    assert alternatives is not None
    if found.space == "features":
        features = turn.space.names if isinstance(turn.space, FeatureReward) else ()
        return Goal(_features(found, features, who), _count(found), errors=_errors(found))
    return Goal(
        f"{_wanted(found, names, actions, who)}.",
        _count(found),
        (*_ways(found, who), _weight(found, who), *_others(found, alternatives, names, who)),
        _undetermined(found, alternatives, names, who),
        _errors(found),
    )


def explained_answers(turn: Turn) -> dict[int, bool]:
    """Whether the reward explains the answers in a state, by the number of the state.

    Left out are states whose answers cannot be compared, because nothing else was tried there; and all of them, if the
    reward only repeats the answers. If answers depend on the step, a state counts as explained if all of its are.
    """
    alternatives = turn.alternatives
    if alternatives is None:
        return {}
    table = alternatives.over.steps(alternatives.theta)
    compared, explained = Likelihood(turn.belief.estimate).explained(table)
    return {int(s): bool((explained | ~compared)[:, s].all()) for s in np.flatnonzero(compared.any(axis=0))}


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


def _told(found: Explanation) -> str:
    """What the reward rests on."""
    if not found.preferences:
        return "answers"
    return "answers and comparisons" if found.answers else "comparisons"


def _comparisons(found: Explanation) -> str:
    return f"{found.preferences:,} comparison{'s' if found.preferences != 1 else ''}"


def _number(found: Explanation) -> str:
    """The same, with how many there are."""
    compared = _comparisons(found)
    if not found.answers:
        return compared
    answers = f"{found.answers:,} answer{'' if found.answers == 1 else 's'}"
    return f"{answers} and the {compared}" if found.preferences else answers


def _count(found: Explanation) -> str:
    answers = f"{found.explained:,} of {found.compared:,} answers"
    compared = f"{found.explained_preferences:,} of {_comparisons(found)}"
    if not found.preferences:
        return f"explains {answers}"
    return f"explains {answers} and {compared}" if found.answers else f"explains {compared}"


def _weight(found: Explanation, who: Person) -> str:
    """How much likelier the reward makes what was said, and how many answers cannot be compared."""
    times = "over a million" if found.gain > np.log(1e6) else f"{np.exp(found.gain):,.0f}"
    rest = found.answers - found.compared
    others = "answers" if found.preferences else "more"
    more = f"; {rest:,} {others} cannot be compared with anything that was tried" if rest else ""
    makes = who.does("It makes these", "This wish makes your") + f" {_told(found)}"
    return f"{makes} {times} times likelier than chance{more}."


def _wanted(found: Explanation, names: Sequence[str], actions: Sequence[str], who: Person) -> str:
    """The goal, what is avoided, and hurry, in one sentence without its end."""
    somebody = who.name[0].upper() + who.name[1:]
    avoided = listed([names[s] for s in found.avoided])
    if not found.goals and avoided:
        return f"{somebody} {who.does('avoids', 'seem to avoid')} {avoided}"
    wants = f"{somebody} {who.does('wants', 'seem to want')}"
    if not found.goals:
        return (
            f"{wants} {who.does('its', 'the')} episodes to last"
            if found.hurry < 0
            else f"{wants} nothing in particular"
        )
    ends = found.ends[found.goals].all()
    places = listed([names[s] for s in found.goals])
    wish = f"reach {places}" if ends else f"be in {places}"
    if found.space == "state-action" and not ends and actions:
        wish = f"{_done(found, actions)} in {places}"
    hurries = f"{who.does('is', 'to be')} in a hurry: every step before the end costs {who.pronoun} something"
    soon = f", and {hurries}" if found.hurry > 0 else ""
    shy = f", and {who.does('avoids', 'to avoid')} {avoided}" if avoided else ""
    return f"{wants} to {wish}{soon}{shy}"


def _done(found: Explanation, actions: Sequence[str]) -> str:
    best = found.paid[found.goals[0]]
    chosen = [actions[a] for a in np.flatnonzero(best >= best.max() - 1e-9).tolist()]
    return "be" if len(chosen) == len(actions) else f"do “{' or '.join(chosen)}”"


def _ways(found: Explanation, who: Person) -> list[str]:
    """Whether the way matters: it does not if nothing but the goals is paid for."""
    if not found.goals or found.hurry != 0:
        return []
    paid = set(found.states[found.likeliest != 0].tolist())
    no_matter = f"{who.does('It does not care', 'You do not seem to care')} which way "
    gets = f"{who.pronoun} {who.does('gets', 'get')} there."
    return [no_matter + gets] if paid <= set(found.goals) else []


def _others(found: Explanation, alternatives: Alternatives, names: Sequence[str], who: Person) -> list[str]:
    """The places that are paid for beside the goal, and those that may be the goal instead of it."""
    liked = [
        (float(found.likeliest[k]), int(found.states[k]))
        for k in np.flatnonzero((found.likeliest > 0) & (found.importance >= SLIGHT))
        if found.states[k] >= 0 and found.states[k] not in found.goals
    ]
    lines = []
    if liked:
        shares = ", ".join(f"{names[s]} ({value:.0%})" for value, s in sorted(liked, reverse=True)[:4])
        likes = who.does("It also likes", "You also seem to like")
        lines.append(f"{likes} to be in {shares} of what the goal pays.")
    rivals = [s for s in alternatives.goals if s not in found.goals]
    if rivals and found.goals:
        wants = f"{who.pronoun} {who.does('wants', 'want')}"
        lines.append(f"What {wants} may also be {listed([names[s] for s in rivals])}: the {_told(found)} fit that too.")
    return lines


def _undetermined(found: Explanation, alternatives: Alternatives, names: Sequence[str], who: Person) -> tuple[str, ...]:
    """Which places may be worth as much as the goal."""
    places = [s for s in alternatives.undetermined if s not in found.goals]
    if not found.goals:
        best = listed([names[s] for s in places])
        likes = f"{who.pronoun} {who.does('likes', 'like')}"
        return (f"Which of the others {likes} best is not determined: {best}.",) if places else ()
    if not places:
        return (f"Every other place is worth less to {who.pronoun}.",)
    which = "it" if len(places) == 1 else f"any one of these {len(places):,} places"
    return (
        f"Not determined: {listed([names[s] for s in places])}; the {_told(found)} would fit about as well if {which} "
        "were worth as much as the goal.",
    )


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


def _features(found: Explanation, names: Sequence[str], who: Person) -> str:
    weights = found.likeliest
    called = [*names, *(f"feature {k}" for k in range(len(names), len(weights)))]
    if found.hurries:
        called[len(weights) - 1] = "hurry"
    paid = [k for k in np.argsort(-np.abs(weights), kind="stable").tolist() if weights[k] != 0]
    values = ", ".join(f"{called[k]}: {weights[k]:g}" for k in paid)
    whose = who.does("The expert's", "Your")
    return f"{whose} reward is a sum of features, with the weights {values}."


def _errors(found: Explanation) -> tuple[str, ...]:
    return (f"About {found.error_rate:.0%} of the {_told(found)} seem to be errors.",) if found.error_rate else ()
