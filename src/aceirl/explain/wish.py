"""What the expert wants, in a sentence that is never bolder than its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

import numpy as np

from aceirl.envs.description import OBSERVED
from aceirl.explain.listing import EXPERT, Person, listed
from aceirl.learner.turns import Turn
from aceirl.rewards import Explanation
from aceirl.rewards.hypotheses import Agreement, Claim, Denied, Named, Wish
from aceirl.rewards.hypotheses.wish import ENOUGH, UNEXPLAINED, Kind

FEW = 3
"""So many other places that would do as well are named; of more it is said how many there are."""


@dataclass(frozen=True)
class Statement:
    """What somebody says of their own wish: that all these claims, as `(what, where)`, hold or, if not `right`, not."""

    claims: frozenset[tuple[str, int]]
    right: bool = True

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"claims": sorted(self.claims), "right": self.right}

    @classmethod
    def read(cls, values: dict[str, Any]) -> Statement:
        """What `to_json` made plain values of."""
        return cls(frozenset((str(what), int(where)) for what, where in values["claims"]), bool(values["right"]))


@dataclass(frozen=True)
class SaidWish:
    """What is said of the expert's wish, and what it rests on.

    A "bold" `kind` says all that is `named`, a "set" one of it, and an "open" one nothing; a "stated" one is what the
    person says, with which the answers agree. Each that is named says
    `what` ("wants", "avoids", "action", "step", "hurry" or "features"), `where` (the number of the state, action or
    step; of features the condition, as "stock from 5 to 8"; None for "hurry"), its `name` and its
    `probability`, which is None if it is only stated.
    `evidence` is by how many nats wishes predict the answers better than the best habit. `rivals` are the likeliest
    places that may be wanted or avoided, whether or not they are named. If the answers do not show a wish that the
    person stated, `quote` is that, as a sentence, with how they bear on it.
    """

    kind: Kind | Literal["stated"]
    named: list[dict[str, Any]]
    evidence: float
    sentence: str
    rivals: list[dict[str, Any]] = field(default_factory=list)
    quote: str = ""

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"kind": self.kind, "named": self.named, "evidence": self.evidence, "sentence": self.sentence}


def said_wish(
    turn: Turn,
    names: Sequence[str],
    actions: Sequence[str] = (),
    who: Person = EXPERT,
    told: Sequence[Statement] = (),
) -> SaidWish:
    """The wish that the answers tell of, with what was `told` of it outright.

    `names [S]` are what people call the states, `actions [A]` the actions.
    """
    said = [(frozenset(Claim(*claim) for claim in one.claims), one.right) for one in told]
    wish = turn.wish_after([Denied(claims) for claims, right in said if not right])
    words = _Words(turn, wish, names, actions, who)
    rivals = [words.listed(one) for one in wish.rivals]
    if wish.kind == "bold" and not told and not _is_paid(wish, turn):
        return SaidWish("open", [], wish.evidence, words.unpaid(wish), rivals)
    affirmed = [one for claims, right in said if right for one in sorted(claims)]
    if affirmed and not (wish.kind == "bold" and {one.claim for one in wish.named}.issuperset(affirmed)):
        found = turn.agreement(affirmed)
        quote, why = words.quoted(affirmed, found)
        agrees = found is not None and found.bearing == "agree"
        named = [words.listed(Named(one, 0.0)) | {"probability": None} for one in affirmed] if agrees else []
        return SaidWish("stated" if agrees else "open", named, wish.evidence, f"{quote} {why}", rivals, quote)
    sentence = {"bold": words.bold, "set": words.one_of, "open": words.open}[wish.kind](wish)
    return SaidWish(wish.kind, [words.listed(one) for one in wish.named], wish.evidence, sentence, rivals)


def answers_needed(turn: Turn) -> int | None:
    """About how many more answers would tell what is wanted, if they tell as much as those so far; None if unknown."""
    wish = turn.wish
    if wish.kind != "open" or not wish.answers or not 0 < wish.evidence < ENOUGH:
        return None
    return ceil((ENOUGH - wish.evidence) * wish.answers / wish.evidence)


def told_of(found: Explanation | None) -> str:
    """What it rests on: answers, comparisons of episodes, or both."""
    if found is None or not found.preferences:
        return "answers"
    return "answers and comparisons" if found.answers else "comparisons"


def _is_paid(wish: Wish, turn: Turn) -> bool:
    """Whether the recovered reward, or that of fields, pays what is said for sure: what is wanted most, what is avoided
    least."""
    paid, claims = turn.field_reward, {one.claim for one in wish.named}
    if paid is not None and (all(map(paid.pays, wish.named)) if paid.table.alone else wish.best.claims >= claims):
        return True
    found = turn.explanation
    if found is None:
        return False
    wanted = {one.where for one in claims if one.what == "wants"}
    avoided = {one.where for one in claims if one.what == "avoids"}
    for one in wish.named:
        if one.predicate is not None and (fields := turn.belief.telling_fields) is not None:
            those = wanted if one.claim.fields.startswith("wants") else avoided
            those |= set(np.flatnonzero(one.predicate.holds(fields)).tolist())
    others = any(one.what in ("action", "hurry") for one in claims) and not wanted | avoided
    if others or found.repeats_answers:
        return others
    worth = found.by_state
    most = max(float(worth.max(initial=0.0)) * (1 - 1e-9), 1e-12)
    return any(worth[place] >= most for place in wanted) or any(worth[place] < 0 for place in avoided)


@dataclass(frozen=True)
class _Words:
    """How one speaks of a wish: the names of states and actions, and who it is that wants."""

    turn: Turn
    wish: Wish
    names: Sequence[str]
    actions: Sequence[str]
    who: Person

    def listed(self, one: Named) -> dict[str, Any]:
        """A claim as plain values."""
        return {
            "what": one.claim.what,
            "where": None if one.claim.where < 0 else one.claim.where,
            "name": self.name(one.claim),
            "probability": round(one.probability, 6),
        }

    @property
    def wants(self) -> str:
        """What is said of somebody who wants something: of a person no more than that it seems so."""
        return "wants" if self.who is EXPERT else self.who.does("seems to want", "seem to want")

    def name(self, claim: Claim) -> str:
        """What a claim is about."""
        match claim.what:
            case "wants" | "avoids":
                return self.names[claim.where]
            case "action":
                return self.actions[claim.where] if self.actions else f"action {claim.where}"
            case "step":
                return f"step {claim.where + 1}"
        return "every step"

    def bold(self, wish: Wish) -> str:
        """All that is named, which is sure."""
        claims = [one.claim for one in wish.named]
        wanted = [one.where for one in claims if one.what == "wants"]
        parts = [f"to {self._being(wanted)}"] if wanted else []
        parts += [f"to {self._wish(one)}" for one in claims if one.what in ("avoids", "action")]
        parts += [f"to {self._of_fields(one)}" for one in wish.named if one.claim.what == "features"]
        said = f"{self._somebody} {self.wants} {' and '.join(parts)}" if parts else ""
        soon = any(one.what == "hurry" for one in claims)
        if soon and not said:
            said = f"{self._somebody} {self.wants} to {self._wish(Claim('hurry'))}"
        elif soon:
            said += ", the sooner the better"
        if any(one.what == "step" for one in claims):
            wish_words = self.who.does("what it wants", "what you want")
            said = (
                f"{said}; {wish_words} depends on the step"
                if said
                else f"{self._capital(wish_words)} depends on the step"
            )
        return f"{said}."

    def one_of(self, wish: Wish) -> str:
        """One of what is named, which is sure together."""
        wants = [one.claim.where for one in wish.named if one.claim.what == "wants"]
        options = [f"to {self._being(wants, 'or')}"] if wants else []
        options += [
            f"to {self._of_fields(one) if one.words else self._wish(one.claim)}"
            for one in wish.named
            if one.claim.what != "wants"
        ]
        wants_one = f"{self._somebody} {self.wants} {', or '.join(options)}"
        return f"{wants_one}: the {self._told} do not tell which."

    def unpaid(self, wish: Wish) -> str:
        """The answers name something that the recovered reward does not pay: then nothing is said for sure."""
        said = self.bold(wish).removesuffix(".")
        return (
            f"Nothing is sure: the {self._told} say that {self._lower(said)}, but that is not what the recovered "
            "reward pays for."
        )

    def open(self, wish: Wish) -> str:
        """Why nothing is named, and what would tell."""
        wants = f"{self.who.name} {self.who.does('wants', 'want')}"
        if not wish.answers:
            return (
                f"The {self._told} do not tell what {wants}: no other action was tried where {self.who.name} answered."
            )
        if wish.evidence < ENOUGH:
            return (
                f"The {self._told} do not tell what {wants}: a habit ({wish.habit}) predicts the {wish.answers:,} that "
                "can be compared about as well as any simple reward. Trying other actions near "
                f"{self._whose} path may tell more."
            )
        if wish.unexplained > UNEXPLAINED * wish.answers:
            return (
                f"No simple reward explains the {self._told}: the best one leaves about {wish.unexplained:,.0f} of "
                f"{wish.answers:,} unexplained, under any plausible dynamics."
            )
        return f"The {self._told} do not tell what {wants}: too many simple rewards predict them equally well."

    def quoted(self, claims: Sequence[Claim], found: Agreement | None) -> tuple[str, str]:
        """What somebody says of the wish itself, with how the answers bear on it; and why."""
        places = {what: [one.where for one in claims if one.what == what] for what in ("wants", "avoids")}
        parts = [self._being(places["wants"])] if places["wants"] else []
        parts += [f"avoid {listed([self.names[place] for place in places['avoids']])}"] if places["avoids"] else []
        parts += [self._wish(one) for one in claims if one.what not in places]
        wish = " and ".join(f"to {part}" for part in parts)
        said = f"{self._somebody} {self.who.does('says that the goal is', 'say that you want')} {wish}"
        told = f"{self.who.does('the', 'your')} {self._told}"
        if found is None:
            return f"{said}.", f"{self._capital(told)} alone do not show that yet."
        if found.bearing == "neither":
            return f"{said}.", f"{self._capital(told)} alone do not show that yet, and do not contradict it."
        best = f"{round(found.answers - found.unexplained):,} of the {found.answers:,} that can be compared are"
        if found.bearing == "contradict":
            why = f"{best} among the best for it, and something else predicts them far better."
            return f"{said}, but {told} speak against it.", self._capital(why)
        why = f"{best} among the best for it, far more than by chance."
        if 0 < len(found.others) <= FEW:
            why += f" They would agree as well with a goal to {self._being(found.others, 'or')}."
        elif found.others:
            why += f" They would agree as well with any of {len(found.others):,} other places."
        if found.habit is not None:
            why += f" A habit ({found.habit}) predicts them as well."
        return f"{said}, and {told} agree.", self._capital(why)

    def _wish(self, claim: Claim) -> str:
        match claim.what:
            case "wants":
                return self._being([claim.where])
            case "avoids":
                return f"avoid {self.name(claim)}"
            case "action":
                paid = dict(self.wish.best.actions).get(claim.where, 1.0) > 0
                return f"{'do' if paid else 'avoid'} “{self.name(claim)}” everywhere"
            case "hurry":
                return "lose no time"
        return f"have something else from {self.name(claim)} on"

    @staticmethod
    def _of_fields(named: Named) -> str:
        """A wish about fields: to keep one in a range, to end in some way, to be where something holds, or not to."""
        assert named.predicate is not None
        avoided = named.claim.fields.startswith("avoids")
        if avoided:
            return f"avoid {named.words}"
        if named.predicate.ends:
            return f"reach {named.words}"
        alone = len(named.predicate.conditions) == 1 and named.predicate.ranged
        return f"keep {named.words}" if alone else f"be where {named.words}"

    def _being(self, places: Sequence[int], last: str = "and") -> str:
        ends = set(self.turn.belief.estimate.terminal_states.tolist())
        names = [self.names[place] for place in places]
        verb = "reach" if all(place in ends for place in places) else "be in"
        if all(name.startswith(OBSERVED) for name in names):
            verb, names = "be where the observation is", [name.removeprefix(OBSERVED) for name in names]
        if len(names) == 2 or (last == "or" and len(names) > 2):
            return f"{verb} {', '.join(names[:-1])} {last} {names[-1]}"
        return f"{verb} {listed(names)}"

    @property
    def _whose(self) -> str:
        return "its" if self.who is EXPERT else self.who.does("their", "your")

    @property
    def _told(self) -> str:
        return told_of(self.turn.explanation)

    @property
    def _somebody(self) -> str:
        return self._capital(self.who.name)

    @staticmethod
    def _lower(text: str) -> str:
        return text[0].lower() + text[1:]

    @staticmethod
    def _capital(text: str) -> str:
        return text[0].upper() + text[1:]
