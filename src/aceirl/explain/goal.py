"""What the expert wants, in words."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from aceirl.explain.listing import EXPERT, Person, listed
from aceirl.explain.wish import SaidWish, Statement, said_wish, told_of
from aceirl.irl.alternatives import Alternatives
from aceirl.irl.likelihood import Likelihood
from aceirl.learner.turns import Turn
from aceirl.rewards import Explanation, StateReward, estimated_conflict

LARGE = 700
"""Entries `H·S·A` above which no conflicting answers are sought. That takes linear programmes: of an expert who acts at
random in FrozenLake, a second for 680 entries, 8 for 1,360 and 40 for 2,040."""

MOST_ANSWERS = 6
"""So many conflicting answers are told at most."""


@dataclass(frozen=True)
class GoalWords:
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


def goal_in_words(
    turn: Turn,
    names: Sequence[str],
    actions: Sequence[str] = (),
    who: Person = EXPERT,
    told: Sequence[Statement] = (),
) -> list[str]:
    """What the expert wants, what else it may be, and what is not determined; a sentence or two each.

    `names [S]` are what people call the states, `actions [A]` the actions; `who` is the expert spoken of, or to, and
    `told` what they said of the wish itself.
    """
    found = goal_of(turn, names, actions, who, told)
    return [] if found is None else found.lines


def goal_of(
    turn: Turn,
    names: Sequence[str],
    actions: Sequence[str] = (),
    who: Person = EXPERT,
    told: Sequence[Statement] = (),
) -> GoalWords | None:
    """The same, taken apart; None if the IRL algorithm does not say what its reward explains."""
    found = turn.explanation
    if found is None:
        return None
    free = turn.space is not None and turn.space.free
    if not found.answers and (not found.preferences or free):
        return GoalWords(f"{who.name[0].upper()}{who.name[1:]} gave no answer, so the recovered reward means nothing.")
    does = f"{who.name} {who.does('does', 'do')}"
    if free:
        return GoalWords(f"A reward of the space any repeats what {does}, and names no goal.")
    if told:
        return goal_as_told(said_wish(turn, names, actions, who, told), found, who, told)
    rests_on = told_of(found)
    if any(one.claim.what == "features" for one in turn.wish.named):
        said = said_wish(turn, names, actions, who)
        return GoalWords(said.sentence, reasons=_beside_habits(said, rests_on) if said.kind == "bold" else ())
    if found.repeats_answers:
        repeats = f"depends on the step, repeats what {does}, and says nothing about other places"
        return GoalWords(
            f"The {rests_on} name no goal: no reward of places, or of actions in places, explains the "
            f"{_number(found)} well enough. The recovered reward {repeats if found.answers else 'means nothing'}.",
            reasons=tuple(_conflict(turn, names, actions)) if found.answers else (),
        )
    if not found.explains:
        wants = f"{who.name} {who.does('wants', 'want')}"
        return GoalWords(
            f"The {rests_on} tell little about what {wants}: the recovered reward {_count(found)}, hardly more than "
            "chance would."
        )
    alternatives = turn.alternatives
    assert alternatives is not None
    if not found.about_places:
        features = turn.space.names if turn.space is not None else ()
        return GoalWords(_features(found, features, who), _count(found), errors=_errors(found))
    said = said_wish(turn, names, actions, who)
    if said.kind != "bold":
        return GoalWords(said.sentence)
    about_places = any(one["what"] in ("wants", "avoids") for one in said.named)
    named = {one["where"] for one in said.named if one["what"] == "wants"}
    undetermined = _undetermined(found, alternatives, names, who, named) if about_places else ()
    return GoalWords(said.sentence, _count(found), _beside_habits(said, rests_on), undetermined, _errors(found))


def _beside_habits(said: SaidWish, rests_on: str) -> tuple[str, ...]:
    """How much better wishes predict the answers than habits do, which is what a bold sentence rests on."""
    return (
        f"Simple rewards predict the {rests_on} {said.evidence:.0f} nats better than the best habit, which ignores "
        "what actions lead to.",
    )


def goal_as_told(wish: SaidWish, found: Explanation, who: Person, told: Sequence[Statement]) -> GoalWords:
    """What somebody wants who was asked back, and `told` something of the wish itself."""
    counted = f"What {who.name} denied about the goal, when asked, is counted with the {told_of(found)}."
    why = wish.sentence.removeprefix(wish.quote).strip() if wish.quote else ""
    denied = counted if any(not one.right for one in told) else ""
    return GoalWords(wish.quote or wish.sentence, reasons=tuple(filter(None, (why, denied))))


def explained_answers(turn: Turn) -> dict[int, bool]:
    """Whether the reward explains the answers in a state, by the number of the state.

    Left out are states whose answers cannot be compared, because nothing else was tried there; and all of them, if the
    reward only repeats the answers. If answers depend on the step, a state counts as explained if all of its are.
    """
    alternatives = turn.alternatives
    if alternatives is None:
        return {}
    table = alternatives.design.steps(alternatives.theta)
    compared, explained = Likelihood(turn.belief.estimate).explained(table)
    return {int(s): bool((explained | ~compared)[:, s].all()) for s in np.flatnonzero(compared.any(axis=0))}


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
    answers = f"{found.explained:,} of the {found.compared:,} answers it was inferred from"
    compared = f"{found.explained_preferences:,} of {_comparisons(found)}"
    if not found.preferences:
        return f"explains {answers}"
    return f"explains {answers} and {compared}" if found.answers else f"explains {compared}"


def _undetermined(
    found: Explanation, alternatives: Alternatives, names: Sequence[str], who: Person, named: Collection[int] = ()
) -> tuple[str, ...]:
    """Which places may be worth as much as the goal, beside those that are `named`."""
    places = [s for s in alternatives.undetermined if s not in found.goals and s not in named]
    if not found.goals:
        best = listed([names[s] for s in places])
        likes = f"{who.pronoun} {who.does('likes', 'like')}"
        return (f"Which of the others {likes} best is not determined: {best}.",) if places else ()
    if not places:
        return ()
    which = "it" if len(places) == 1 else f"any one of these {len(places):,} places"
    return (
        f"Not determined: {listed([names[s] for s in places])}; the {told_of(found)} would fit about as well if "
        f"{which} were worth as much, beside the goal.",
    )


def _conflict(turn: Turn, names: Sequence[str], actions: Sequence[str]) -> list[str]:
    """Answers that no reward of places explains together, if the problem is small."""
    estimate = turn.belief.estimate
    if math.prod(estimate.counts.shape) > LARGE:
        return []
    answers = estimated_conflict(estimate, StateReward())
    if not answers:
        return []
    told = [f"{actions[a] if actions else f'action {a}'} in {names[s]} at step {h + 1}" for h, s, a in answers]
    more = f"; and {len(told) - MOST_ANSWERS} more" if len(told) > MOST_ANSWERS else ""
    return [
        "By the estimated dynamics, no reward of places explains all of these answers: "
        f"{'; '.join(told[:MOST_ANSWERS])}{more}."
    ]


def _features(found: Explanation, names: Sequence[str], who: Person) -> str:
    weights = found.map_estimate
    called = [*names, *(f"feature {k}" for k in range(len(names), len(weights)))]
    if found.has_step_cost:
        called[len(weights) - 1] = "step cost"
    paid = [k for k in np.argsort(-np.abs(weights), kind="stable").tolist() if weights[k] != 0]
    values = ", ".join(f"{called[k]}: {weights[k]:g}" for k in paid)
    whose = who.does("The expert's", "Your")
    return f"{whose} reward is a sum of features, with the weights {values}."


def _errors(found: Explanation) -> tuple[str, ...]:
    return (f"About {found.error_rate:.0%} of the {told_of(found)} seem to be errors.",) if found.error_rate else ()
