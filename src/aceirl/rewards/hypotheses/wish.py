"""What may be said of the expert's wish: from probabilities alone, and nothing where the answers do not tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Literal

import numpy as np
import scipy

from aceirl.data.preferences import Preference
from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards.hypotheses.evidence import GivenAnswers
from aceirl.rewards.hypotheses.habits import habits
from aceirl.rewards.hypotheses.predicates import FieldCondition, Grammar, Predicate
from aceirl.rewards.hypotheses.search import (
    A_RANGE,
    HONEST,
    TEMPER,
    Claim,
    Denied,
    Hypothesis,
    Judged,
    Search,
    claimed,
    ends_of,
    met_states,
    paid,
)

Kind = Literal["bold", "set", "open"]

SURE = 0.95
"""How probable a claim is that is made without a hedge, and how probable one of the claims of a set."""

MOST_CLAIMS = 4
"""A set of more claims than this says too little."""

MOST_RIVALS = 5
"""How many places are named that the expert may choose from."""

ENOUGH = log(20)
"""How many nats better than the best habit wishes must predict the answers: an expert who has a habit gets that far by
luck in one run of twenty at most."""

UNEXPLAINED = 0.03
"""The share of answers that may be errors under the best hypothesis, whatever the dynamics."""

WELL_EXPLAINED = 0.01
"""The share for a set, and for a sentence on which a run stops. A wish that only resembles the true one is likelier
than it for as long as the dynamics are hardly known, but it leaves more unexplained."""

LEAST_SEEN = 3
"""So many answers are needed where something holds that is said to be wanted."""

LIKELIEST, LIKELIEST_ALONE = 12, 200
"""So many hypotheses are kept with a wish: more of a field that is alone, where each range is one."""


@dataclass(frozen=True)
class Named:
    """A claim and how probable it is. Of fields: which predicate is likeliest, how wide its ranges may be, and both in
    words, "stock from 5 to 8"."""

    claim: Claim
    probability: float
    predicate: Predicate | None = None
    widest: Predicate | None = None
    words: str = ""


@dataclass(frozen=True)
class Wish:
    """What the answers tell of the expert's wish.

    A "bold" one holds all that is `named`, a "set" one of them, and an "open" one names nothing. `evidence` is by how
    many nats wishes predict the answers better than the best `habit`. The `answers` are those that can be compared with
    something else that was tried, and preferences between episodes; the best hypothesis leaves about so many
    `unexplained`. What is said holds with the `probability`; the `likeliest` hypotheses come with theirs, best first.
    `rivals` are the places that may be wanted or avoided, the most probable first, whether named or not.
    """

    kind: Kind
    named: tuple[Named, ...]
    evidence: float
    habit: str
    answers: int
    unexplained: float
    probability: float
    likeliest: tuple[tuple[Hypothesis, float], ...]
    rivals: tuple[Named, ...] = ()

    @property
    def missing(self) -> float | None:
        """How much more data a bold sentence takes, as a share of what there is: a guess.

        The evidence against habits, and the log-odds of the likeliest hypothesis, go on growing as they did. None if
        there is nothing to guess from.
        """
        if self.kind == "bold":
            return 0.0
        odds = log(self.likeliest[0][1] / max(1e-12, 1 - self.likeliest[0][1]))
        if self.evidence <= 0 or odds <= 0:
            return None
        return max(ENOUGH / self.evidence, log(SURE / (1 - SURE)) / odds, 1.1) - 1

    @property
    def is_known(self) -> bool:
        """Whether a run may stop on it: it says for sure what is wanted, not only when, and leaves hardly any answer
        unexplained."""
        told = any(one.claim.what not in ("hurry", "step") for one in self.named)
        return self.kind == "bold" and told and self.unexplained <= WELL_EXPLAINED * self.answers

    def of_states(self, number: int) -> Wish:
        """The same without what it says of places that are not among the first `number` states: open, if it names one
        of them."""
        likeliest = tuple(one for one in self.likeliest if all(place < number for place, _ in one[0].places))
        rivals = tuple(one for one in self.rivals if one.claim.where < number)
        if likeliest and all(one.claim.where < number for one in self.named):
            return replace(self, likeliest=likeliest, rivals=rivals)
        nothing = ((Hypothesis(), 0.0),)
        return replace(self, kind="open", named=(), probability=0.0, likeliest=likeliest or nothing, rivals=rivals)

    @property
    def best(self) -> Hypothesis:
        """The likeliest hypothesis."""
        return self.likeliest[0][0]


def wish_of(estimate: Estimate, seed: int = 0, fields: FieldTable | None = None, denied: Sequence[Denied] = ()) -> Wish:
    """What the answers of an estimate tell, with what the expert `denied` of the wish itself.

    The `seed` decides which dynamics are drawn. With the `fields` of the states it may be a wish about those.
    """
    return wish_found(Search(estimate, np.random.default_rng([seed, 0x77]), fields, denied=denied))


def wish_found(search: Search) -> Wish:
    """What a search tells."""
    estimate, fields, denied = search.estimate, search.fields, search.denied
    customs = habits(search.by_step)
    habit = max(customs, key=customs.__getitem__)
    by_chance = guessed(estimate.preferences) + len(denied) * log(HONEST)
    answers = search.answers.number + len(estimate.preferences)
    if not answers and not denied:
        return Wish("open", (), 0.0, habit, 0, 0.0, 0.0, ((Hypothesis(), 1.0),))
    found = search.found
    of_habit = customs[habit] + by_chance
    evidence = float(np.logaddexp.reduce(found.log_prior + found.log_likelihood)) - of_habit
    weights = _posterior(found, evidence, of_habit, search.power)
    order = np.argsort(-weights, kind="stable")
    best = order[0]
    kind, named, probability = "open", (), 0.0  # type: tuple[Kind, tuple[Named, ...], float]
    in_words = [one if search.alone else one.said_by(found.hypotheses[best]) for one in found.hypotheses]
    claims = [search.said_of(one) for one in in_words]
    if evidence >= ENOUGH and found.unexplained[best] <= UNEXPLAINED * answers:
        kind, named, probability = _said(claims, weights)
        # What is avoided is felt in small differences far away; places beside it, or opposite, fit nearly as well.
        if kind == "set" and (named[0].claim.what == "avoids" or found.unexplained[best] > WELL_EXPLAINED * answers):
            kind, named, probability = "open", (), 0.0
    if fields is not None:
        before, named = named, tuple(_of_fields(one, found.hypotheses, weights, search) for one in named)
        probability -= sum(one.probability - less.probability for one, less in zip(before, named, strict=True))
        given = GivenAnswers.of(search.counts, search.terminal)
        if not all(_is_seen(one, given, fields, search.alone) for one in named):
            kind, named, probability = "open", (), 0.0
        likeliest = [found.hypotheses[i] for i in order]
        less = {more.claim: more for one in named for more in narrower(search, one, likeliest, fields)}
        if less:
            wide = {one.claim: one for one in named if kind == "set" or one.predicate}
            named = tuple({**wide, **less, **wide}.values())
            kind, named, probability = ("set", named, probability) if len(named) <= MOST_CLAIMS else ("open", (), 0.0)
        # Sets about merged states were judged on no family of worlds: of those only what is sure is said.
        if search.merged and kind == "set":
            kind, named, probability = "open", (), 0.0
    likely = _probabilities(claims, weights)
    rivals = sorted((one for one in likely if one.what in ("wants", "avoids")), key=lambda one: (-likely[one], one))
    return Wish(
        kind,
        named,
        evidence,
        habit,
        answers,
        float(found.unexplained[best]),
        probability,
        tuple(
            (found.hypotheses[i], float(weights[i])) for i in order[: LIKELIEST_ALONE if search.alone else LIKELIEST]
        ),
        tuple(Named(one, likely[one]) for one in rivals[:MOST_RIVALS]),
    )


def guessed(preferences: Sequence[Preference]) -> float:
    """The log-likelihood of preferences between episodes of somebody who does not care."""
    return sum(log(1 / 3 if one.equal else 1 / 2) for one in preferences)


def _of_fields(named: Named, hypotheses: tuple[Hypothesis, ...], weights: FloatArray, search: Search) -> Named:
    """A claim about fields with its predicates: the likeliest, and the hull of those that hold `SURE` of its weight,
    whose probability is its own."""
    if named.claim.what != "features":
        return named
    assert search.fields is not None
    mass: dict[Predicate, float] = defaultdict(float)
    if search.alone:
        for one, weight in zip(hypotheses, weights, strict=True):
            if named.claim in search.said_of(one):
                where = search.ranges_of(one)[0] if named.claim.fields == A_RANGE else ends_of(named.claim)
                mass[where] += float(weight)
        return _range_of(named, mass, search.fields)
    best = hypotheses[int(np.argmax(weights))]
    for one, weight in zip(hypotheses, weights, strict=True):
        for (predicate, worth), (said, _) in zip(one.features, one.said_by(best).features, strict=True):
            if claimed(said, worth) == named.claim.fields:
                mass[predicate] += float(weight)
    order = sorted(mass, key=lambda one: -mass[one])
    held = np.cumsum([mass[one] for one in order]) / sum(mass.values())
    last = int(np.searchsorted(held, SURE))
    held_by = replace(named, probability=named.probability * float(held[last]))
    return _in_words(held_by, order[0], Predicate(_hull(order[: last + 1]), order[0].ends), search.fields)


def _range_of(named: Named, mass: Mapping[Predicate, float], fields: FieldTable) -> Named:
    """A claim about a field that is alone: the range of the values that are rather wanted than not, else the likeliest,
    and how far it may go. Either end lies further out with half the doubt that `SURE` leaves, which is in its own."""
    low, high = np.array([(one.conditions[0].low, one.conditions[0].high) for one in mass]).T
    weights, values = np.array(list(mass.values())) / sum(mass.values()), fields.distinct(0)
    starts_lower, ends_higher = (low < values[:, None]) @ weights, (high > values[:, None]) @ weights
    doubt = (1 - SURE) / 2
    widest = FieldCondition(0, float(values[starts_lower <= doubt].max()), float(values[ends_higher <= doubt].min()))
    wanted = np.flatnonzero(((low <= values[:, None]) & (values[:, None] <= high)) @ weights >= 0.5)
    likeliest = max(mass, key=mass.__getitem__)
    if len(wanted) and wanted[-1] - wanted[0] < len(wanted):
        likeliest = Predicate((FieldCondition(0, float(values[wanted[0]]), float(values[wanted[-1]])),))
    held = float(weights[(low >= widest.low) & (high <= widest.high)].sum())
    return _in_words(replace(named, probability=named.probability * held), likeliest, Predicate((widest,)), fields)


def narrower(search: Search, named: Named, hypotheses: Sequence[Hypothesis], fields: FieldTable) -> list[Named]:
    """What may be wanted instead of where a predicate over fields holds: the same with one more condition, or with what
    likely hypotheses pay besides, if there is not `ENOUGH` evidence against it. The likeliest come first, and of all
    that are likely `SURE` are there.

    Whoever goes left before it goes down does the same for the left side as for the corner below: only that the one is
    likelier beforehand tells them apart. The wish is the first of the `hypotheses`, the likeliest first, that has it.
    """
    wide = named.predicate
    base = next((one for one in hypotheses if any(own == wide and worth > 0 for own, worth in one.features)), None)
    if wide is None or base is None or search.grammar is None:
        return []
    worth = dict(base.features)[wide]
    beside = (one for likely in hypotheses[:LIKELIEST] if wide in dict(likely.features) for one, _ in likely.features)
    candidates = [*search.grammar.narrower(wide), *search.grammar.both(wide, dict.fromkeys(beside))]
    # What the base pays besides may be a part of what is wanted.
    others = tuple(one for one in base.features if one[0] != wide)
    bare = replace(base, places=(), actions=(), later=(), change=None)
    instead = [replace(base, features=(*others, (one, worth))) for one in candidates]
    judged = search.judged([base, *instead, *(replace(bare, features=((one, worth),)) for one in candidates)])
    likelihoods = judged.log_likelihood[1:].reshape(2, -1).max(axis=0)
    # How an expert chooses among what is equally good is a guess, however well the dynamics are known.
    power = search.weight if search.merged else TEMPER * search.weight
    behind = power * (judged.log_likelihood[0] - likelihoods)
    order = [i for i in np.argsort(behind, kind="stable") if behind[i] < ENOUGH]
    likely = np.cumsum(np.exp(-behind[order]))
    kept = order[: int(np.searchsorted(likely, SURE * likely[-1])) + 1] if order else []
    alike: dict[str, list[Predicate]] = defaultdict(list)
    for i in kept:
        alike[claimed(candidates[i], worth)].append(candidates[i])
    return [_with_range(own, worth, named, fields) for own in alike.values()]


def _with_range(likeliest: list[Predicate], worth: float, wide: Named, fields: FieldTable) -> Named:
    """The claim of predicates that are narrower than another, the likeliest first; what that leaves open of a range is
    open of this too."""
    assert wide.widest is not None
    open_ends = {one.field: one for one in wide.widest.conditions}
    conditions = tuple(open_ends.get(one.field, one) for one in _hull(likeliest))
    best = likeliest[0]
    claim = Claim("features", fields=claimed(best, worth))
    return _in_words(Named(claim, 0.0), best, Predicate(conditions, best.ends), fields)


def _hull(predicates: Sequence[Predicate]) -> tuple[FieldCondition, ...]:
    """The smallest ranges of the same fields that hold those of all."""
    return tuple(
        FieldCondition(own[0].field, min(one.low for one in own), max(one.high for one in own))
        for own in zip(*(one.conditions for one in predicates), strict=True)
    )


def _in_words(named: Named, likeliest: Predicate, widest: Predicate, fields: FieldTable) -> Named:
    open_ends = tuple(b for a, b in zip(likeliest.conditions, widest.conditions, strict=True) if a != b)
    perhaps = f" (perhaps {Predicate(open_ends).words(fields)})" if open_ends else ""
    return replace(named, predicate=likeliest, widest=widest, words=likeliest.words(fields) + perhaps)


def _is_seen(named: Named, answers: GivenAnswers, fields: FieldTable, alone: bool = False) -> bool:
    """Whether somebody who wants to be where a predicate over fields holds has said what to do there: it may be only on
    the way to something else. Of a field that is alone one answer there is enough, with others as far as it is left
    open; and that may not be everywhere."""
    where = named.widest if alone else named.predicate
    if where is None or named.predicate is None or where.ends or not named.claim.fields.startswith("wants"):
        return True
    holds = where.holds(fields)
    if alone and (holds[fields.known].all() or not named.predicate.holds(fields)[answers.state].any()):
        return False
    return int(answers.times[holds[answers.state]].sum()) >= LEAST_SEEN


def _posterior(found: Judged, evidence: float, of_habit: float, power: float) -> FloatArray:
    """The probability of each hypothesis `[n]`: of all wishes together by the evidence against the best habit, at even
    odds beforehand, and of each among them by the likelihood to that power.

    One that predicts the answers no better than the habit, whose log-likelihood is `of_habit`, was compared with it
    already: where an expert may choose by habit what does not matter to it, a wish to which nothing matters is the
    habit again.
    """
    among = found.log_prior + power * found.log_likelihood
    telling = found.log_likelihood > of_habit
    if telling.any():
        among = np.where(telling, among, -np.inf)
    return np.asarray(np.exp(among - np.logaddexp.reduce(among)) * scipy.special.expit(evidence))


def _said(claims: list[frozenset[Claim]], weights: FloatArray) -> tuple[Kind, tuple[Named, ...], float]:
    """All claims that are sure together; else the smallest set of which one holds; else nothing. And how probably."""
    by_claim = _probabilities(claims, weights)
    sure = sorted((one for one in by_claim if by_claim[one] >= SURE), key=lambda one: (-by_claim[one], one))
    while sure and (together := _holding(claims, weights, lambda said: said.issuperset(sure))) < SURE:
        sure.pop()
    if sure:
        return "bold", tuple(Named(one, by_claim[one]) for one in sure), together
    chosen: list[Claim] = []
    while len(chosen) < MOST_CLAIMS:
        others = [(said, weight) for said, weight in zip(claims, weights, strict=True) if said.isdisjoint(chosen)]
        left = _probabilities([said for said, _ in others], [weight for _, weight in others])
        if not left:
            break
        chosen.append(max(sorted(left), key=left.__getitem__))
        if (one_holds := _holding(claims, weights, lambda said: not said.isdisjoint(chosen))) >= SURE:
            return "set", tuple(Named(one, by_claim[one]) for one in chosen), one_holds
    return "open", (), 0.0


def _holding(claims: list[frozenset[Claim]], weights: FloatArray, holds: Callable[[frozenset[Claim]], bool]) -> float:
    """How probable the hypotheses are whose claims are such."""
    return float(sum(weight for said, weight in zip(claims, weights, strict=True) if holds(said)))


def _probabilities(claims: Iterable[frozenset[Claim]], weights: Iterable[float]) -> dict[Claim, float]:
    found: dict[Claim, float] = defaultdict(float)
    for said, weight in zip(claims, weights, strict=True):
        for one in said:
            found[one] += float(weight)
    return dict(found)


def contested(estimate: Estimate, wish: Wish, fields: FieldTable | None = None) -> FloatArray:
    """`[S]`, from 0 to 1: how much the likeliest hypotheses differ in what they would do in each state.

    In the estimated process, any of the best actions as likely as another: by how much, in total variation, they differ
    from their mean, averaged over hypotheses and steps.
    """
    grammar = None if fields is None else Grammar(fields, met_states(estimate.counts))
    likeliest = wish.likeliest[:LIKELIEST]
    mdp, weights = estimate.mdp, np.array([weight for _, weight in likeliest])
    would = np.empty((len(weights), *mdp.shape))
    for i, (hypothesis, _) in enumerate(likeliest):
        q = optimal_values(mdp, paid(hypothesis, mdp, estimate.terminal_states, grammar))[0]
        best = q >= q.max(axis=2, keepdims=True) - 1e-9
        would[i] = best / best.sum(axis=2, keepdims=True)
    weights /= max(weights.sum(), np.finfo(float).tiny)
    apart = np.abs(would - np.tensordot(weights, would, 1)).sum(axis=3).mean(axis=1) / 2
    return np.asarray(weights @ apart)
