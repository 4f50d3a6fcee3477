"""What an expert may want: hypotheses from simple to composed, and a search for those that predict its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log

import numpy as np

from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import occupancy
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray
from aceirl.rewards.hypotheses.evidence import ERRORS, DrawnDynamics, GivenAnswers, Rewards, judged, preferred
from aceirl.rewards.hypotheses.predicates import MOST_CONDITIONS, FieldCondition, Grammar, Predicate

DRAWS = 24
"""Draws of the dynamics by which a hypothesis is judged in the end."""

FIRST_DRAWS, MORE_DRAWS = 2, 8
"""Draws by which hypotheses are screened, and by which the better ones are."""

BEAM, ROUNDS, KEPT = 8, 3, 120
"""How many of the best are composed with more, how often, and how many are judged in the end."""

HOPELESS = 8.0
"""Hypotheses this many nats behind the best are not judged further."""

BEHIND = 20.0
"""Hypotheses this many nats behind the best in the end have next to no weight."""

TEMPER = 0.4
"""The power of the likelihood by which wishes are compared. States are judged apart, as if what is not known of one row
did not matter to the answers of several."""

RARE = 0.5
"""Chance is rare where fewer of the rows that may have several successors have more than one."""

LARGE = 50_000
"""Where one hypothesis takes more operations under one draw, fewer are tried, and under fewer draws."""

MANY = 1_000
"""A world of more states than this is a large one: most of its states have one answer at most."""

FULL_WEIGHT = 500
"""In a large world so many answers count as half as many, and all together never as more than so many: what a wish
leaves out of account, such as which of two equally good ways the expert takes, is the same in thousands of states
(Miller and Dunson 2019, "Robust Bayesian inference via coarsening")."""

MOST_PLACES = 120
"""So many places are tried, if there are more: those that the expert heads for, or away from, most."""

LEAST_PREDICATES, MOST_WORK = 80, 60_000_000
"""So many predicates over fields are tried alone, or as many as so many rows, over all steps, allow."""

MORE_PREDICATES = 320
"""So many more are tried of an expert that does not look at the step."""

BEST_PREDICATES = 12
"""So many predicates over fields, and of ends as many more, are composed with others."""

LEAST_AHEAD, MOST_ROWS_AHEAD = 20, 75_000
"""How many steps, at least, the wish of an expert that does not look at the step is planned ahead to judge it; more if
that is no more work, in rows."""

WORTHS = (0.3, 0.55, 0.8, 1.0)
"""What a further place may be worth beside the best one."""

CHANGES = (0.35, 0.5, 0.65)
"""When a wish may change, as a share of the horizon."""


@dataclass(frozen=True, order=True)
class Claim:
    """A thing that may be said of a wish: `what` is "wants", "avoids", "action", "step", "hurry" or "features".

    `where` is the place or the action it is about, the step of a change, or -1. Of "features", `fields` says which have
    which value, and which of them a range, without its ends.
    """

    what: str
    where: int = -1
    fields: str = ""


HONEST = 0.95
"""How often somebody who says what they do not want says what is so."""


@dataclass(frozen=True)
class Denied:
    """What the expert said of the wish itself: that these `claims` do not hold together."""

    claims: frozenset[Claim]

    def log_likelihood(self, claims: frozenset[Claim]) -> float:
        """How likely that is to be said by somebody with such a wish; of somebody without one as of any other."""
        return log(1 - HONEST) if self.claims <= claims else log(HONEST)


@dataclass(frozen=True)
class Hypothesis:
    """A wish: what `places` and `actions` pay, as pairs; `later` instead of `places` from the step `change` on, if any.

    `features` are what all places pay in which a predicate over fields holds, and `other_ends` what any end of episodes
    does that is not among the places. A `step_cost` is taken for every step, and what places pay shrinks by the factor
    `decay` a step.
    """

    places: tuple[tuple[int, float], ...] = ()
    actions: tuple[tuple[int, float], ...] = ()
    later: tuple[tuple[int, float], ...] = ()
    change: int | None = None
    step_cost: float = 0.0
    decay: float = 1.0
    features: tuple[tuple[Predicate, float], ...] = ()
    other_ends: float = 0.0

    @property
    def claims(self) -> frozenset[Claim]:
        """What it says. What is avoided beside what is wanted only rounds off the wish, and nothing is said of it,
        unless it is a kind of end."""
        places = (*self.places, *self.later)
        wanted = {Claim("wants", place) for place, worth in places if worth > 0}
        anything = bool(wanted) or any(worth > 0 for _, worth in self.features)
        said = wanted if anything else {Claim("avoids", place) for place, _ in places}
        said |= {
            Claim("features", fields=claimed(one, worth))
            for one, worth in self.features
            if worth > 0 or one.ends or not anything
        }
        said |= {Claim("action", action) for action, _ in self.actions}
        if self.change is not None:
            said.add(Claim("step", self.change))
        if self.step_cost > 0 or self.decay < 1:
            said.add(Claim("hurry"))
        return frozenset(said)

    def said_by(self, likeliest: Hypothesis) -> Hypothesis:
        """The same in the words of the likeliest: of a range about what that wants it is left open how far it goes."""
        wanted = [one for one, worth in likeliest.features if worth > 0]

        def said(predicate: Predicate, worth: float) -> Predicate:
            return next((one for one in wanted if worth > 0 and one.within(predicate)), predicate)

        return replace(self, features=tuple((said(*one), one[1]) for one in self.features))

    def log_prior(self, n_places: int, n_actions: int) -> float:
        """Few parts are likelier than many, and places likelier than actions.

        All hypotheses together have less than the weight one.
        """
        wanted = sum(worth > 0 for _, worth in (*self.places, *self.later))
        avoided = sum(worth < 0 for _, worth in (*self.places, *self.later))
        known = log(0.15 if wanted else 0.1 if avoided or self.features else 0.03) - (wanted + avoided) * log(n_places)
        known += max(0, wanted - 1) * log(0.4 / len(WORTHS)) + (avoided if wanted else max(0, avoided - 1)) * log(0.3)
        if self.features:
            known += sum(one.log_prior + (0.0 if worth > 0 else log(0.3)) for one, worth in self.features)
            known += (len(self.features) - 1 + (wanted > 0)) * log(0.4 / len(WORTHS))
        known += len(self.actions) * log((0.2 if wanted + avoided + len(self.features) else 1.0) / (4 * n_actions))
        known += log(0.3 / len(CHANGES)) if self.change is not None else 0.0
        known += log(0.3) if self.other_ends else 0.0
        return known + (log(0.1) if self.decay < 1 else 0.0) + (log(0.3) if self.step_cost else 0.0)


def claimed(predicate: Predicate, worth: float) -> str:
    """What is said of fields: wanted or avoided, which values, and of which fields a range."""
    said = [f"{one.field}" if one.low < one.high else f"{one.field}={one.low:.17g}" for one in predicate.conditions]
    return " ".join(("wants" if worth > 0 else "avoids", "ends" if predicate.ends else "all", *said))


def ends_of(claim: Claim) -> Predicate:
    """The range of a field that is alone which a claim names by its ends."""
    low, high = claim.fields.partition("=")[2].split(":")
    return Predicate((FieldCondition(0, float(low), float(high)),))


@dataclass(frozen=True, eq=False)
class Judged:
    """Hypotheses with their `log_prior [n]`, the `log_likelihood [n]` of the answers, and how many
    are `unexplained [n]`. They are compared by the likelihood to the power `weight`."""

    hypotheses: tuple[Hypothesis, ...]
    log_prior: FloatArray
    log_likelihood: FloatArray
    unexplained: FloatArray
    weight: float = 1.0

    @property
    def score(self) -> FloatArray:
        """`[n]`: the log of prior times likelihood, as it is weighted."""
        return self.log_prior + self.weight * self.log_likelihood

    def best(self, n: int) -> Judged:
        """The `n` of the highest score, the best first."""
        return self._of(np.argsort(-self.score, kind="stable")[:n])

    def distinct(self, said: Callable[[Hypothesis], Hypothesis]) -> Judged:
        """Each hypothesis in other words, those that come out the same once."""
        first: dict[Hypothesis, int] = {}
        for i, one in enumerate(self.hypotheses):
            first.setdefault(said(one), i)
        return replace(self._of(np.array(list(first.values()))), hypotheses=tuple(first))

    def _of(self, order: IntArray) -> Judged:
        return Judged(
            tuple(self.hypotheses[i] for i in order),
            self.log_prior[order],
            self.log_likelihood[order],
            self.unexplained[order],
            self.weight,
        )


A_RANGE = "wants all 0"
"""What is said of a field that is alone if a range of it is wanted."""


class Search:
    """The search for hypotheses that predict the comparable answers of an estimate.

    The `beam` best are composed with more, `rounds` times; at least `least_kept` are judged in the end. States that
    are `merged`, of several of the run each, are no places: only predicates over fields are about one. Their answers
    count once.
    """

    beam, rounds, least_kept = BEAM, ROUNDS, 8

    def __init__(
        self,
        estimate: Estimate,
        rng: np.random.Generator,
        fields: FieldTable | None = None,
        dynamics: DrawnDynamics | None = None,
        denied: Sequence[Denied] = (),
        *,
        merged: bool = False,
    ) -> None:
        self.estimate, self.fields = estimate, fields
        self.shape, self.terminal = estimate.counts.shape, estimate.terminal_states
        self.by_order = fields is not None and fields.speaks
        self.is_large = self.shape[1] > MANY
        self.counts, self.preferences, self.discount = estimate.counts, estimate.preferences, estimate.discount
        given = GivenAnswers.of(self.counts, self.terminal)
        self.merged = merged
        self.by_step = self.answers = given.once() if merged else given
        # An expert that does not look at the step may plan as if all steps were left; in a large world it does.
        self.patient: GivenAnswers | None = None
        if estimate.kind.stationary and self.is_large:
            self.answers = self.answers.at_once(self.shape[0])
        elif estimate.kind.stationary and self.by_order:
            self.patient = self.answers.at_once(self.shape[0])
        self.dynamics = DrawnDynamics.drawn(self.counts, DRAWS, rng) if dynamics is None else dynamics
        work = self.shape[0] * len(self.dynamics.successors) + self.answers.number
        self.effort = min(1.0, LARGE / max(1, work))
        self.places = [] if merged else _candidates(estimate, self._some(MOST_PLACES, 30))
        self.denied = tuple(denied)
        self.n_places = int(met_states(estimate.counts).sum())
        self.grammar = None
        if fields is not None:
            self.grammar = Grammar(fields, met_states(estimate.counts), least_states=1 if merged else 2)
        self._screened: dict[Hypothesis, float] = {}

    @property
    def power(self) -> float:
        """The power of the likelihood by which wishes are compared: all of it where nothing happens by chance and no
        row is in doubt."""
        return self.weight * (1 - (1 - TEMPER) * self.dynamics.by_chance)

    @property
    def shares_tolerance(self) -> bool:
        """Whether one tolerance of ties may hold in all states: most have one answer, which tells none, and where few
        rows are in doubt none is needed for those."""
        return self.is_large or (self.by_order and self.dynamics.by_chance < RARE)

    @property
    def weight(self) -> float:
        """The power of the likelihood: 1, and less in a large world."""
        return 1 / (1 + self.answers.number / FULL_WEIGHT) if self.is_large else 1.0

    @property
    def alone(self) -> bool:
        """Whether observations have one field that speaks, with an order: then a place is a range of it."""
        return self.fields is not None and self.fields.speaks and self.fields.alone

    def _in_fields(self, hypothesis: Hypothesis) -> Hypothesis:
        """A wish of places as one of the field that is alone, and what is wanted instead of one end that is avoided."""
        assert self.grammar is not None
        if hypothesis.later:
            return hypothesis
        features = [*hypothesis.features, *((self.grammar.at(place), worth) for place, worth in hypothesis.places)]
        if len(features) == 1 and features[0][1] < 0:
            predicate, worth = features[0]
            features = [(one, -worth) for one in self.grammar.others(predicate)] or features
        return replace(hypothesis, places=(), features=tuple(features))

    def ranges_of(self, hypothesis: Hypothesis, sign: int = 1) -> list[Predicate]:
        """The values of the field that is alone that are worth at least half of the most, as ranges with others between
        them; none if nothing is wanted, or if that changes. With the `sign` -1 those that are avoided."""
        assert self.fields is not None
        values = self.fields.distinct(0)
        worth = np.zeros(len(values))
        for predicate, paid_there in hypothesis.features:
            (one,) = predicate.conditions
            worth += sign * paid_there * ((one.low <= values) & (values <= one.high))
        if hypothesis.later or worth.max() <= 0:
            return []
        found = np.flatnonzero(worth >= worth.max() / 2)
        parts = np.split(found, np.flatnonzero(np.diff(found) > 1) + 1)
        return [Predicate((FieldCondition(0, float(values[one[0]]), float(values[one[-1]])),)) for one in parts]

    def said_of(self, hypothesis: Hypothesis) -> frozenset[Claim]:
        """What a hypothesis claims.

        In a large world, and where observations have fields, an action that is paid beside something wanted does little
        but choose between actions that are equally good for that, or nearly, as a habit would; and a place that is
        wanted beside all places of a kind, of which it is one, says how much each is worth. Nothing is said of those.
        """
        claims = hypothesis.claims
        if self.alone:
            others = {one for one in claims if one.what not in ("features", "action", "hurry")}
            return frozenset(others | {Claim("features", fields=one) for one in self._said_alone(hypothesis)})
        if not (self.is_large or self.by_order) or not any(one.what in ("wants", "features") for one in claims):
            return claims
        within = np.zeros(self.shape[1], dtype=np.bool_)
        for predicate, worth in hypothesis.features:
            if self.grammar is not None and worth > 0 and not predicate.ends:
                within |= self.grammar.extent(predicate) > 0
        return frozenset(
            one for one in claims if one.what != "action" and not (one.what == "wants" and within[one.where])
        )

    def _said_alone(self, hypothesis: Hypothesis) -> list[str]:
        """What is said of the field that is alone: that a range is wanted, or which ones are wanted, or avoided."""
        wanted = self.ranges_of(hypothesis)
        if len(wanted) == 1:
            return [A_RANGE]
        said, which = ("wants", wanted) if wanted else ("avoids", self.ranges_of(hypothesis, -1))
        ends = [(one.conditions[0].low, one.conditions[0].high) for one in which]
        return [f"{said} all 0={low:.17g}:{high:.17g}" for low, high in ends]

    @cached_property
    def found(self) -> Judged:
        """The best hypotheses, judged in full; the simplest are always tried, composed ones from the best of those."""
        self._screen(self._simple())
        self._screen(self._changing())
        for _ in range(self.rounds if self.effort == 1 else 2):
            number = self._some(self.beam, 2 if self.is_large else 1)
            best = self._front(number)
            before = self._screened[best[0]]
            bases = dict.fromkeys((*best, *self._undominated()[:number]))
            self._screen(one for base in bases for one in self._composed(base))
            if self._screened[self._front(1)[0]] <= before:
                break
        kept = self._front(self._some(KEPT, 30 if self.is_large else self.least_kept))
        kept = [one for one in kept if self._screened[one] >= self._screened[kept[0]] - BEHIND]
        found = self.judged(kept).best(len(kept))
        return found.distinct(self._in_fields) if self.alone else found

    def judged(self, hypotheses: Sequence[Hypothesis]) -> Judged:
        """Hypotheses by all draws of the dynamics, or by fewer in a large world."""
        return self._judged(hypotheses, self._some(DRAWS, 6 if self.is_large else 12))

    def _some(self, number: int, least: int) -> int:
        """So many, or fewer in a large world."""
        return max(least, round(number * self.effort))

    @cached_property
    def _leading(self) -> list[int]:
        """The places that are composed with others: all, or those that are best by themselves if that takes long."""
        most = self._some(MOST_PLACES, 8)
        if most >= len(self.places):
            return self.places
        alone = [one for one in self._front(len(self._screened)) if len(one.places) == 1 and not one.actions]
        return sorted(list(dict.fromkeys(one.places[0][0] for one in alone))[:most])

    def _front(self, n: int) -> list[Hypothesis]:
        return sorted(self._screened, key=self._screened.__getitem__, reverse=True)[:n]

    def _undominated(self) -> list[Hypothesis]:
        """Those that predict the answers better than all that are as likely beforehand, those of the highest score
        first: what is said in many words is found by way of them."""
        priors = {one: self._prior(one) for one in self._screened}
        best, found = -np.inf, []
        for one in sorted(priors, key=lambda one: (-priors[one], -self._screened[one])):
            predicts = self._screened[one] - priors[one]
            if predicts > best + 1e-9:
                best = predicts
                found.append(one)
        return sorted(found, key=lambda one: -self._screened[one])

    def _screen(self, hypotheses: Iterable[Hypothesis]) -> None:
        """Judge those that are new by a few draws and one error rate, and the better ones by more."""
        new = [one for one in dict.fromkeys(hypotheses) if one not in self._screened]
        if not new:
            return
        first = self._judged(new, self._some(FIRST_DRAWS, 1), errors=ERRORS[1:2])
        first = first.best(self._some(max(40, len(new) // 6), 30 if self.is_large else 12))
        better = self._judged(first.hypotheses, self._some(MORE_DRAWS, 4))
        highest = max([*self._screened.values(), float(better.score.max())])
        kept = better.score > highest - HOPELESS if len(self._screened) > KEPT else np.ones(len(better.score), bool)
        for i in np.flatnonzero(kept):
            self._screened[better.hypotheses[i]] = float(better.score[i])

    def _judged(
        self,
        hypotheses: Sequence[Hypothesis],
        draws: int | None,
        answers: GivenAnswers | None = None,
        errors: FloatArray = ERRORS,
    ) -> Judged:
        rewards = self.rewards(hypotheses)
        told = self.answers if answers is None else answers
        how = self.terminal, draws, self.discount, errors, self.by_order, self.shares_tolerance
        likelihood, unexplained = judged(rewards, self.dynamics, told, *how)
        if self.patient is not None and answers is None:
            other, wrong = judged(rewards, self.dynamics, self.patient, *how)
            both = np.logaddexp(likelihood, other)
            unexplained = np.exp(likelihood - both) * unexplained + np.exp(other - both) * wrong
            likelihood = both - log(2)
        if self.preferences:
            of_preferences, contradicted = preferred(rewards, self.preferences, self.terminal, self.discount)
            likelihood, unexplained = likelihood + of_preferences, unexplained + contradicted
        prior = np.array([self._prior(one) for one in hypotheses])
        return Judged(tuple(hypotheses), prior, likelihood, unexplained, self.weight)

    def _prior(self, hypothesis: Hypothesis) -> float:
        """With what was said of the wish, which is known beforehand: no doubt about the dynamics touches it."""
        claims = hypothesis.claims
        if self.alone:
            hypothesis = self._in_fields(hypothesis)
            claims |= self.said_of(hypothesis)
        denials = sum(said.log_likelihood(claims) for said in self.denied)
        return hypothesis.log_prior(self.n_places, self.shape[2]) + denials

    def rewards(self, hypotheses: Sequence[Hypothesis]) -> Rewards:
        """What hypotheses pay."""
        return _rewards(hypotheses, self.shape, self.terminal, self.grammar)

    def _simple(self) -> Iterator[Hypothesis]:
        """Nothing in particular, one place wanted or avoided, one action paid or not, to be done soon, one end and no
        other."""
        yield Hypothesis()
        for place in self.places:
            yield Hypothesis(((place, 1.0),))
            yield Hypothesis(((place, -1.0),))
        for action in range(self.shape[2]):
            yield Hypothesis(actions=((action, 1.0),))
            yield Hypothesis(actions=((action, -1.0),))
        if len(self.terminal):
            yield Hypothesis(step_cost=0.1)
            for place in self.places:
                yield Hypothesis(((place, 1.0),), step_cost=0.02)
        ends = [place for place in self.places if place in self.terminal]
        for place in ends if len(ends) > 1 else ():
            yield Hypothesis(((place, 1.0),), step_cost=0.02, other_ends=-1.0)
        for one in () if self.grammar is None else self.grammar.simple[: self._most_predicates]:
            yield Hypothesis(features=((one, 1.0),))
            yield Hypothesis(features=((one, -1.0),))
            if len(self.terminal):
                yield Hypothesis(features=((one, 1.0),), step_cost=0.02)

    def _changing(self) -> Iterator[Hypothesis]:
        """One place first and another one later: the later ones are those that the last answers alone speak for."""
        horizon = self.shape[0]
        if horizon < 4:
            return
        last = GivenAnswers.of(self.counts, self.terminal, slice(round(max(CHANGES) * horizon), None))
        alone = [Hypothesis(((place, 1.0),)) for place in self.places]
        later = [
            one.places[0][0]
            for one in self._judged(alone, self._some(FIRST_DRAWS, 1), last).best(self._some(5, 2)).hypotheses
        ]
        for change in sorted({round(share * horizon) for share in CHANGES}):
            for second in later:
                for place in self._leading:
                    if place != second:
                        yield Hypothesis(((place, 1.0),), later=((second, 1.0),), change=change)

    def _composed(self, base: Hypothesis) -> Iterator[Hypothesis]:
        """The same with one thing more."""
        known = {place for place, _ in base.places}
        wants = any(worth > 0 for _, worth in base.places)
        if base.change is None and len(known) < 6:
            for place in self._leading:
                if place in known:
                    continue
                worths = (*WORTHS, -0.7) if wants else (1.0, -1.0)
                for worth in worths if known or not base.actions else ():
                    yield replace(base, places=tuple(sorted((*base.places, (place, worth)))))
        yield from self._with_fields(base)
        for action in range(self.shape[2]) if not base.actions and known else ():
            for worth in (0.3, 0.1, -0.1, -0.3):
                yield replace(base, actions=((action, worth),))
        if len(known) > 1 and base.decay == 1:
            yield from (replace(base, decay=decay) for decay in (0.9, 0.75))

    @property
    def _most_predicates(self) -> int:
        """How many are tried alone: more where that is less work."""
        horizon = len(self.answers.first) - 1
        return max(LEAST_PREDICATES, MOST_WORK // (horizon * self.shape[1] * self.shape[2]))

    def _with_fields(self, base: Hypothesis) -> Iterator[Hypothesis]:
        """The same with one more predicate, of those that have proved best, or with one that is narrower or moved."""
        if self.grammar is None or base.change is not None or len(base.features) > 2:
            return
        if len(self.terminal) and not base.step_cost and (base.features or base.places):
            yield replace(base, step_cost=0.02)
        for k, (one, worth) in enumerate(base.features):
            rest = (*base.features[:k], *base.features[k + 1 :])
            for other in (*self.grammar.refined(one), *self.grammar.moved(one)):
                if other not in dict(rest):
                    yield replace(base, features=tuple(sorted((*rest, (other, worth)))))
        if len(base.places) == 1 and not base.features and len(self.grammar.table.fields) <= MOST_CONDITIONS:
            ((place, worth),) = base.places
            for other in self.grammar.moved(self.grammar.at(place)):
                yield replace(base, places=(), features=((other, worth),))
        for one in self._best_predicates:
            if one not in dict(base.features):
                for worth in (*WORTHS, -0.7) if base.features or base.places else (1.0, -1.0):
                    yield replace(base, features=tuple(sorted((*base.features, (one, worth)))))

    @cached_property
    def _best_predicates(self) -> list[Predicate]:
        """Those of which a wish of one predicate predicts the answers best, and those of ends."""
        alone = [one for one in self._front(len(self._screened)) if len(one.features) == 1 and not one.places]
        found = dict.fromkeys(one.features[0][0] for one in alone)
        ends = [one for one in found if one.ends][:BEST_PREDICATES]
        return list(dict.fromkeys([*list(found)[:BEST_PREDICATES], *ends]))


class StationarySearch(Search):
    """A search for the wishes of an expert that does not look at the step, in the dynamics as they are estimated: less
    wide, and in a large problem less far ahead."""

    beam, rounds, least_kept = 4, 2, 60

    def __init__(
        self, estimate: Estimate, fields: FieldTable | None, denied: Sequence[Denied] = (), *, merged: bool = False
    ) -> None:
        dynamics = DrawnDynamics.estimated(estimate.mdp)
        super().__init__(estimate, np.random.default_rng(0), fields, dynamics, denied, merged=merged)
        if self.grammar is not None:
            self.grammar = replace(self.grammar, most_cuts=8, most_pairs=150)
        horizon, n_states, n_actions = self.shape
        short = min(horizon, max(LEAST_AHEAD, MOST_ROWS_AHEAD // (n_states * n_actions)))
        self.answers = self.answers.at_once(horizon if fields is not None and fields.speaks else short)
        # Answers are few there, and chosen; of merged states each has one.
        self.by_order, self.patient, self.is_large = True, None, merged and self.is_large
        if merged:  # or it does not look at the end of an episode either
            self.patient = self.answers.at_once(2 * horizon)

    @property
    def power(self) -> float:
        """What is predicted of rows that were never tried is always in doubt; nothing in merged states is."""
        return self.weight * (1.0 if self.merged else TEMPER)

    def _simple(self) -> Iterator[Hypothesis]:
        """Of fields with many values some more are tried, if only as what is wanted; and states that are merged, unless
        they are many."""
        yield from super()._simple()
        if self.grammar is not None:
            alone = self.grammar.of_states if self.merged else []
            yield from (Hypothesis(features=((one, 1.0),)) for one in alone if len(alone) <= self._most_predicates)
            for one in self.grammar.simple[self._most_predicates :][:MORE_PREDICATES]:
                yield Hypothesis(features=((one, 1.0),))

    def _changing(self) -> Iterator[Hypothesis]:
        """It does not look at the step."""
        return iter(())

    def _composed(self, base: Hypothesis) -> Iterator[Hypothesis]:
        """Where observations speak of fields, wishes do."""
        return super()._composed(base) if self.grammar is None else self._with_fields(base)


def _candidates(estimate: Estimate, most: int) -> list[int]:
    """The places that were met; of more than `most`, those that the expert heads for, or away from, most."""
    counts = estimate.counts
    n_actions = counts.shape[2]
    places = np.flatnonzero(met_states(counts))
    if len(places) <= most:
        return [int(place) for place in places]
    anything = np.full(counts.shape, 1 / n_actions)
    there = occupancy(estimate.mdp, estimate.expert_policy) - occupancy(estimate.mdp, anything)
    gap = there.sum(axis=(0, 2))[places]
    order = np.argsort(-gap, kind="stable")
    chosen = np.concatenate((order[: 2 * most // 3], order[-most // 3 :]))
    return sorted(int(place) for place in places[np.unique(chosen)])


def met_states(counts: Counts) -> BoolArray:
    """`[S]`: the places that were met."""
    n_states = counts.shape[1]
    met = np.asarray(counts.visited.pooled.any(axis=1))
    met[counts.move_keys % n_states] = True
    return met


def _rewards(
    hypotheses: Sequence[Hypothesis], shape: tuple[int, int, int], terminal: IntArray, grammar: Grammar | None = None
) -> Rewards:
    """The same as arrays."""
    horizon, n_states, n_actions = shape
    early, action = np.zeros((len(hypotheses), n_states)), np.zeros((len(hypotheses), n_actions))
    late = early.copy()
    for i, one in enumerate(hypotheses):
        early[i, terminal] = late[i, terminal] = one.other_ends
        for place, worth in one.places:
            early[i, place] = worth
        for place, worth in one.later or one.places:
            late[i, place] = worth
        for predicate, worth in one.features:
            assert grammar is not None
            extent = grammar.extent(predicate)
            early[i] += worth * extent
            late[i] += worth * extent
        for number, worth in one.actions:
            action[i, number] = worth
    change = np.array([horizon if one.change is None else one.change for one in hypotheses], dtype=np.int64)
    step_cost, decay = np.array([[one.step_cost, one.decay] for one in hypotheses]).reshape(-1, 2).T.copy()
    return Rewards(early, late, change, action, step_cost, decay)


def paid(hypothesis: Hypothesis, mdp: MDP, terminal: IntArray, grammar: Grammar | None = None) -> FloatArray:
    """`[H, S, A]`: what a hypothesis pays in a process; for an end, what is expected of arriving there.

    One that speaks of fields needs their `grammar`. Of what is the same at every step it is a view.
    """
    one = _rewards([hypothesis], mdp.shape, terminal, grammar)
    same = mdp.stationary and hypothesis.change is None and hypothesis.decay == 1
    steps = np.arange(1 if same else mdp.horizon)[:, None]
    places = np.where(steps < one.change, one.early, one.late) * one.decay**steps
    ends = np.zeros_like(places)
    ends[:, terminal], places[:, terminal] = places[:, terminal], 0.0
    reward = places[:, :, None] + one.action[0] - one.step_cost + mdp.transitions.expect(ends)
    reward[:, terminal] = 0.0
    return np.broadcast_to(reward, mdp.shape)
