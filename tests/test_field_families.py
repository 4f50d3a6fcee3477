"""Families of worlds with fields: that their experts fulfil their wishes, and that what is said of them is judged."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aceirl import ActiveIRL
from aceirl.models.fields.table import Field, FieldTable
from aceirl.rewards.hypotheses import Claim, FieldCondition, Named, Predicate
from aceirl.rewards.hypotheses.evidence import GivenAnswers, judged
from aceirl.rewards.hypotheses.search import Hypothesis, Search, claimed
from aceirl.rewards.hypotheses.wish import LEAST_SEEN, _is_seen
from studies.field_families import FIELD_FAMILIES, PATIENCE, FieldCase, FieldEnv, Record, field_case

STEPS = 6
WISHES = [name for name in FIELD_FAMILIES if "errs" not in name and "no effect" not in name]


def table_of(case: FieldCase) -> FieldTable:
    """The fields of all that can be reached."""
    values = np.array([record for record, _ in case.records], dtype=np.float64)
    fields = tuple(Field(name, "ordered") for name in case.sizes)
    return FieldTable(fields, values, np.array([over for _, over in case.records]))


def said(case: FieldCase, predicate: Predicate) -> bool:
    """Whether it is true that this is wanted."""
    named = Named(Claim("features", fields=claimed(predicate, 1.0)), 1.0, predicate, predicate)
    return case.is_true(named, table_of(case))


@pytest.mark.parametrize("family", WISHES)
def test_no_other_way_is_better_than_the_experts(family: str) -> None:
    """Of all ways of some steps, by what they pay and what is left of the wish after them."""
    case = field_case(family, 1)
    rng = np.random.default_rng(0)

    def worth(start: Record, actions: Sequence[int] | None) -> float:
        record, total = start, 0.0
        for step in range(STEPS):
            action = case.expert(dict(zip(case.sizes, record, strict=True))) if actions is None else actions[step]
            total += PATIENCE**step * (float(case.pays(record, False)) - case.step_cost)
            record, over = case.move(record, action)
            if over:
                return total + PATIENCE**step * float(case.pays(record, True))
        return total + PATIENCE**STEPS * max(case.quality(record, action) for action in range(case.n_actions))

    for start in rng.permutation(np.array(case.starts))[:3].tolist():
        ways = (
            itertools.product(range(case.n_actions), repeat=7)
            if case.n_actions == 4
            else rng.integers(5, size=(4000, 7))
        )
        assert max(worth(tuple(start), way) for way in ways) <= worth(tuple(start), None) + 1e-6


@pytest.mark.parametrize("family", WISHES)
def test_the_wish_itself_is_true_and_others_are_false(family: str) -> None:
    case = field_case(family, 3)
    numbers = {name: k for k, name in enumerate(case.sizes)}
    conditions = tuple(
        FieldCondition(numbers[name], float(low), float(high)) for name, (low, high) in case.paid.items()
    )
    assert said(case, Predicate(conditions, case.ends))
    assert not said(case, Predicate(conditions[:1], case.ends))
    assert not said(case, Predicate(conditions[1:], False))
    last = conditions[-1]
    elsewhere = replace(last, low=last.low + 1, high=last.high + 1)
    assert not said(case, Predicate((*conditions[:-1], elsewhere), case.ends))
    hurry = Named(Claim("hurry"), 1.0)
    assert case.is_true(hurry, table_of(case)) == (case.step_cost > 0)


def test_an_expert_may_have_an_order_of_its_own_or_err() -> None:
    def lost(case: FieldCase) -> float:
        """In which share of situations what the expert does is not the best."""
        going_on = [record for record, over in case.records if not over]
        worth = np.array([[case.quality(one, action) for action in range(case.n_actions)] for one in going_on])
        taken = [case.expert(dict(zip(case.sizes, one, strict=True))) for one in going_on]
        return float((worth[np.arange(len(taken)), taken] < worth.max(axis=1) - 1e-6).mean())

    ordered = [field_case("any of them, an order of its own", seed) for seed in range(5)]
    assert [lost(case) for case in ordered] == [0.0] * 5
    other = [replace(case, order=()) for case in ordered]
    assert any(
        own.expert(seen) != plain.expert(seen)
        for own, plain in zip(ordered, other, strict=True)
        for seen in (dict(zip(own.sizes, record, strict=True)) for record, over in own.records if not over)
    )
    assert 0.01 < np.mean([lost(field_case("any of them, errs 5 %", seed)) for seed in range(8)]) < 0.06
    assert 0.04 < np.mean([lost(field_case("any of them, errs 15 %", seed)) for seed in range(8)]) < 0.16


@pytest.mark.parametrize("family", ["no effect, one action", "no effect, an action a value"])
def test_where_actions_have_no_effect_all_lead_to_the_same(family: str) -> None:
    case = field_case(family, 2)
    answers = set()
    for record, over in case.records:
        if not over:
            assert len({case.move(record, action) for action in range(case.n_actions)}) == 1
            answers.add(case.expert(dict(zip(case.sizes, record, strict=True))))
    assert (len(answers) == 1) == (family == "no effect, one action")


def test_a_range_is_true_if_the_widest_that_is_named_holds_it() -> None:
    case = next(one for one in (field_case("two dials", seed) for seed in range(50)) if one.paid["level"][0] > 0)
    case = replace(case, paid={**case.paid, "level": (2, 3)})
    heat = FieldCondition(1, *map(float, case.paid["heat"]))
    level = {"2 to 4": (2.0, 4.0), "1 to 4": (1.0, 4.0), "3 to 5": (3.0, 5.0), "2": (2.0, 2.0)}

    def is_true(likeliest: str, perhaps: str) -> bool:
        one, widest = (Predicate((FieldCondition(0, *level[words]), heat)) for words in (likeliest, perhaps))
        return case.is_true(Named(Claim("features", fields=claimed(one, 1.0)), 1.0, one, widest), table_of(case))

    assert is_true("2 to 4", perhaps="1 to 4")
    assert is_true("2", perhaps="1 to 4")
    assert not is_true("2 to 4", perhaps="3 to 5")
    assert not is_true("2", perhaps="2")
    case = replace(case, paid={**case.paid, "level": (3, 3)})
    assert not is_true("2 to 4", perhaps="2 to 4"), "one value is wanted"
    assert not is_true("2", perhaps="1 to 4")


@pytest.mark.parametrize("seed", [12003, 12073])
def test_who_turns_one_dial_first_may_want_both(seed: int) -> None:
    """The first dial alone explains nearly as much: it is never said for sure to be all that matters."""
    case = field_case("two dials", seed)
    result = ActiveIRL(seed=seed, max_samples=20_000).fit(FieldEnv(case), case.expert, horizon=case.horizon)
    table = result.turn.belief.telling_fields
    assert table is not None
    assert result.wish.kind == "set"
    assert case.holds(result.turn.wish, table)
    assert not case.holds(replace(result.turn.wish, kind="bold"), table)


def test_few_answers_tell_a_wish_in_two_fields() -> None:
    """In a world in which what was never tried is predicted. What is said must be true."""
    case = field_case("errand", 2)
    learner = ActiveIRL(strategy="sparing", irl=None, certify=None, max_answers=12, max_samples=5_000)
    result = learner.fit(FieldEnv(case), case.expert, horizon=case.horizon)
    wish, table = result.turn.wish, result.turn.belief.telling_fields
    assert table is not None
    assert wish.kind == "bold"
    assert case.holds(wish, table)
    assert result.wish.kind == wish.kind, "the reward of fields pays it"
    assert result.field_reward is not None
    beyond = wish.of_states(0)
    assert all(one.claim.where < 0 for one in (*beyond.named, *beyond.rivals))
    places = replace(wish, named=(Named(Claim("wants", 7), 0.99),))
    assert places.of_states(7).kind == "open"
    assert places.of_states(8).kind == places.kind


def test_an_expert_that_does_not_look_at_the_step_may_plan_as_if_all_were_left() -> None:
    case = field_case("exit and key", 1)
    result = ActiveIRL(max_samples=200, irl=None, certify=None).fit(FieldEnv(case), case.expert, horizon=case.horizon)
    estimate, fields = result.turn.belief.estimate, result.turn.belief.telling_fields
    assert estimate.kind.stationary
    search = Search(estimate, np.random.default_rng(0), fields)
    wishes = [Hypothesis(), Hypothesis(step_cost=0.1), Hypothesis(((3, 1.0),))]
    found, rewards = search.judged(wishes), search.rewards(wishes)
    each = [
        judged(rewards, search.dynamics, answers, search.terminal, by_order=True, large=True)[0]
        for answers in (search.answers, search.answers.at_once(search.shape[0]))
    ]
    np.testing.assert_allclose(found.log_likelihood, np.logaddexp(*each) - np.log(2), rtol=1e-9)
    assert not np.allclose(each[0], each[1])


def test_nothing_is_wanted_that_nobody_was_asked_about() -> None:
    """Who fetches something may want to bring it somewhere."""
    case = field_case("errand", 2)
    table = table_of(case)
    carrying = FieldCondition(2, 1.0, 1.0)
    named = Named(Claim("features", fields=claimed(Predicate((carrying,)), 1.0)), 1.0, Predicate((carrying,)))
    ends = replace(named, predicate=Predicate((carrying,), ends=True))
    with_it, without = (np.flatnonzero(table.values[:, 2] == k)[:LEAST_SEEN] for k in (1, 0))
    once, tried = np.ones(LEAST_SEEN, dtype=np.int64), np.ones((len(table.values), 4), dtype=np.bool_)
    first = np.full(case.horizon + 1, LEAST_SEEN)
    there = GivenAnswers(with_it, 0 * once, once, first, tried.sum(axis=1), tried)
    assert _is_seen(named, there, table)
    assert not _is_seen(named, replace(there, state=without), table)
    assert _is_seen(ends, replace(there, state=without), table), "nobody can be asked after the end"
