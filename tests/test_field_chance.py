"""What rows tell of others where the fields change by chance, held against what the world does and other routes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy

from aceirl import ActiveIRL
from aceirl.errors import InputError
from aceirl.models.fields import Fields, FieldTable
from aceirl.models.fields.chance import WORTH, _Effect, _log_likelihood, _whole, imagined_by_chance
from aceirl.models.fields.dynamics import Records
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray
from aceirl.protocols import Moves
from aceirl.rewards.hypotheses import Claim, Denied, FieldCondition, Hypothesis, Named, Predicate, Wish, wish_of
from aceirl.rewards.hypotheses.predicates import Grammar
from aceirl.rewards.hypotheses.search import A_RANGE, Search
from aceirl.rewards.in_fields import FieldReward
from studies.fields import Inventory, Tank, best_actions, drawn_inventory, drawn_tank, inventory, ordered

MOST, DEMAND = 12, (0.5, 0.3, 0.2)
TIMES = 100


def stocks(kind: str = "ordered", ends: tuple[int, ...] = ()) -> FieldTable:
    return Fields.given({"stock": kind}).table(list(range(MOST + 1)), ends)  # type: ignore[dict-item]


def row(stock: int, order: int) -> FloatArray:
    """Where a day leads: first the order comes, then the demand."""
    chances = np.zeros(MOST + 1)
    for demand, chance in enumerate(DEMAND):
        chances[max(0, stock + order - demand)] += chance
    return chances


def tried(rows: dict[tuple[int, int], FloatArray], times: int = TIMES) -> Estimate:
    """What is known if each row was tried so many times, and led as often anywhere as its chances say."""
    moves = [
        (stock, order, there, int(n))
        for (stock, order), chances in rows.items()
        for there, n in enumerate(np.rint(times * chances))
        if n
    ]
    state, action, after, number = np.array(moves).T
    starts = np.zeros(MOST + 1, dtype=np.int64)
    counts = Counts.of_moves(Moves(np.zeros_like(state), state, action, after, number, starts), (20, MOST + 1, 3))
    return Estimate.of(counts, kind=ExpertKind(), delta=0.1)


def known(estimate: Estimate) -> FloatArray:
    """`[S, A, S]`: the tries of rows, by where they led."""
    counts = estimate.counts
    table = np.zeros((MOST + 1) * 3 * (MOST + 1))
    table[counts.move_keys] = counts.move_counts
    return table.reshape(MOST + 1, 3, MOST + 1)


LOW = {(stock, order): row(stock, order) for stock in range(6) for order in range(3)}
"""Rows that were tried: those of low stocks."""


def test_rows_that_were_never_tried_are_predicted_as_the_world_has_them() -> None:
    estimate = tried(LOW)
    found = imagined_by_chance(estimate, stocks())
    assert found is not None
    more = known(found.estimate) - known(estimate)
    for stock in range(6, MOST - 1):
        for order in range(3):
            assert more[stock, order] / more[stock, order].sum() == pytest.approx(row(stock, order), abs=0.01)
            assert more[stock, order].sum() >= 300
    assert (known(found.estimate) >= known(estimate)).all()
    assert found.estimate.counts.questions == estimate.counts.questions


def test_what_is_predicted_stays_between_the_least_and_the_most_that_was_met() -> None:
    """A stock of 0 falls no further, though the demand was never seen there; orders beyond the most are lost."""
    estimate = tried({(stock, order): row(stock, order) for stock in range(4, 8) for order in range(3)})
    found = imagined_by_chance(estimate, stocks())
    assert found is not None
    for stock in (0, 1, 2, 3):
        assert known(found.estimate)[stock, 0] / known(found.estimate)[stock, 0].sum() == pytest.approx(row(stock, 0))
    assert known(found.estimate)[MOST, 2].argmax() == MOST


def test_where_what_happens_depends_on_the_value_rows_tell_of_those_nearby() -> None:
    """From seven on three more are lost a day, up to where no more is left; those between were not tried."""
    spoiling = {
        (stock, order): row(stock - (3 if stock > 6 else 0), order)
        for stock in (1, 2, 3, 4, 8, 9, 10, 11)
        for order in range(3)
    }
    found = imagined_by_chance(tried(spoiling), stocks())
    assert found is not None
    predicted = known(found.estimate)
    for stock, lost in ((5, 0), (MOST, 3)):
        for order in range(3):
            assert predicted[stock, order] / predicted[stock, order].sum() == pytest.approx(
                row(stock - lost, order), abs=0.02
            )


@pytest.mark.parametrize("unit", [0.1, 0.01, 1 / 3, 0.7, 1e6])
def test_in_other_units_the_same_is_predicted(unit: float) -> None:
    """Differences of tenths are not the same to the last digit."""
    estimate = tried(LOW)
    scaled = Fields.given(("stock",)).table([np.array([unit * stock]) for stock in range(MOST + 1)])
    found, whole = imagined_by_chance(estimate, scaled), imagined_by_chance(estimate, stocks())
    assert found is not None
    assert whole is not None
    np.testing.assert_array_equal(known(found.estimate), known(whole.estimate))


def test_values_that_differ_by_rounding_alone_are_not_told_apart() -> None:
    levels = [float(stock) for stock in range(MOST + 1)]
    levels[4] = 3 * (1 + 1e-15)
    assert imagined_by_chance(tried(LOW), Fields.given(("stock",)).table([np.array([one]) for one in levels])) is None


def test_no_row_tells_of_itself() -> None:
    """They tell of those at most a quarter of the range away. Of ten, which was tried, no other tells anything."""
    at, after = np.nonzero([row(stock, 0) if stock in (1, 2, 3, 10) else np.zeros(MOST + 1) for stock in range(11)])
    times = np.rint(20 * np.array([row(int(stock), 0)[there] for stock, there in zip(at, after, strict=True)]))
    effect = _Effect.fitted(Records(stocks()), 0, np.array([[-2.0], [-1.0], [0.0]]), at, after, times.astype(int))
    states, _, _, number = effect.moves(Records(stocks()), np.array([2, 3, 5, 9, 10, 11]), 1 / 4, 50)
    assert np.bincount(states, number, MOST + 1).tolist() == [0, 0, 40, 40, 0, 40, 0, 0, 0, 20, 0, 20, 0]


def test_predicted_tries_are_whole_numbers_with_the_same_sum() -> None:
    rows = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    times = np.array([0.5, 0.5, 0.5, 0.2, 29.8, 3.0, 1 / 3, 2 / 3])
    found = _whole(times, rows)
    assert np.bincount(rows, found).tolist() == [1, 30, 4]
    assert np.abs(found - times).max() < 1
    assert _whole(np.full(20, 0.5), np.zeros(20, np.int64)).sum() == 10
    assert _whole(np.full(3, 1.0), np.arange(3)).tolist() == [1, 1, 1]


def test_where_rows_disagree_nothing_is_predicted() -> None:
    """In the one half of stocks nothing is sold, in the other all is."""
    apart = {(stock, order): np.eye(MOST + 1)[stock if stock % 2 else 0] for stock in range(10) for order in range(3)}
    assert imagined_by_chance(tried(apart), stocks()) is None


def test_a_row_that_does_something_else_is_left_alone() -> None:
    usual = {(stock, order): row(stock, order) for stock in range(11) for order in range(3)}
    estimate = tried({**usual, (3, 1): np.eye(MOST + 1)[9]}, times=20)
    found = imagined_by_chance(estimate, stocks())
    assert found is not None
    more = known(found.estimate) - known(estimate)
    assert not more[3, 1].any()
    assert more[2, 1].sum() >= 10
    assert not more[2, 1, 4:].any()  # and nothing was learned from it


def test_values_that_were_not_met_are_no_other_states() -> None:
    """Of two fields the one never changes; where the other would have a value that was never met nothing is said."""
    pairs = [(a, b) for a in range(6) for b in (0, 1, 2, 3, 5, 6, 7)]
    number = {pair: k for k, pair in enumerate(pairs)}
    moves = [
        (number[a, b], 0, number[a, b + more], times)
        for a, b in pairs
        if b in (0, 1, 5, 6)
        for more, times in ((0, 60), (1, 40))
    ]
    state, action, after, times = np.array(moves).T
    none = np.zeros(len(pairs), dtype=np.int64)
    counts = Counts.of_moves(Moves(np.zeros_like(state), state, action, after, times, none), (20, len(pairs), 1))
    table = Fields.given(("a", "b")).table(pairs)
    found = imagined_by_chance(Estimate.of(counts, kind=ExpertKind(), delta=0.1), table)
    assert found is not None
    before, after = np.divmod(found.estimate.counts.move_keys, len(pairs))
    assert (table.values[before, 0] == table.values[after, 0]).all()
    assert number[1, 2] in before
    assert number[1, 3] not in before


def test_a_single_row_tells_of_no_other() -> None:
    assert imagined_by_chance(tried({(4, order): row(4, order) for order in range(3)}), stocks()) is None
    estimate = tried({**{at: chances for at, chances in LOW.items() if at[1] < 2}, (4, 2): np.eye(MOST + 1)[11]})
    found = imagined_by_chance(estimate, stocks())
    assert found is not None
    assert not (known(found.estimate) - known(estimate))[:, 2].any()


def test_words_and_ends_that_are_not_told_by_fields_are_left_alone() -> None:
    estimate = tried(LOW)
    assert imagined_by_chance(estimate, stocks("categorical")) is None
    one_end = stocks(ends=(MOST,))
    assert not one_end.kinds_of_ends
    assert imagined_by_chance(estimate, one_end) is None


def test_dynamics_of_every_step_by_itself_are_left_alone() -> None:
    estimate = tried(LOW)
    state, action, after = np.nonzero(known(estimate))
    starts = np.zeros(MOST + 1, dtype=np.int64)
    moves = Moves(np.zeros_like(state), state, action, after, np.ones_like(state), starts)
    counts = Counts.of_moves(moves, (20, MOST + 1, 3), stationary=False)
    assert imagined_by_chance(Estimate.of(counts, kind=ExpertKind(), delta=0.1), stocks()) is None


def test_the_chances_are_the_likeliest_also_where_only_the_least_is_seen() -> None:
    """The same by a general optimiser. Of stocks 0, 1 and 3, most falls are only known to be at least so deep."""
    rng = np.random.default_rng(5)
    before = np.array([0, 1, 3])
    seen = np.array([rng.multinomial(50, row(stock, 0)) for stock in before])
    at, after = np.nonzero(seen)
    changes = np.array([[-2.0], [-1.0], [0.0]])
    effect = _Effect.fitted(Records(stocks()), 0, changes, before[at], after, seen[at, after])

    def negative(free: FloatArray) -> float:
        chances = scipy.special.softmax(np.append(free, 0.0))
        told = 0.0
        for stock, times in zip(before, seen, strict=True):
            by = np.bincount(np.maximum(0, stock + changes[:, 0]).astype(int), chances, MOST + 1)
            told -= float(times[times > 0] @ np.log(by[times > 0]))
        return told

    best = scipy.optimize.minimize(negative, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    found = effect.times.sum(axis=0) / effect.times.sum()
    assert found == pytest.approx(scipy.special.softmax(np.append(best.x, 0.0)), abs=1e-4)
    np.testing.assert_allclose(effect.times.sum(axis=1), 50)


def test_what_rows_are_worth_is_the_likelihood_of_dirichlet_multinomials() -> None:
    """Without the number of orders in which the same could be seen, which no comparison needs."""
    weights, seen = np.array([0.5, 2.0, 1.5, 3.0, 0.2]), np.array([3.0, 0.0, 4.0, 2.0, 1.0])
    found = _log_likelihood(weights, seen, np.array([0, 0, 0, 1, 1]))
    for k, part in enumerate((slice(0, 3), slice(3, 5))):
        n = int(seen[part].sum())
        orders = scipy.special.gammaln(n + 1) - scipy.special.gammaln(seen[part] + 1).sum()
        whole = scipy.stats.dirichlet_multinomial.logpmf(seen[part].astype(int), weights[part], n)
        assert found[k] == pytest.approx(whole - orders)
    agreeing = np.array([50.0, 30.0, 20.0])
    told = [_log_likelihood(worth * np.array(DEMAND), agreeing, np.zeros(3, np.int64))[0] for worth in WORTH]
    assert np.diff(told).min() > 0  # the better they agree, the more it is worth


def test_of_a_field_that_is_alone_a_place_is_a_range() -> None:
    table = stocks()
    search = Search(tried(LOW), np.random.default_rng(0), table)
    place, range_of_it = Hypothesis(places=((4, 1.0),)), Predicate((FieldCondition(0, 4, 4),))
    assert search.alone
    assert search.grammar is not None
    assert search._in_fields(place) == Hypothesis(features=((range_of_it, 1.0),))
    below = Hypothesis(features=((Predicate((FieldCondition(0, 0, 4),)), -1.0),))
    assert search._in_fields(below) == Hypothesis(features=((Predicate((FieldCondition(0, 5, MOST),)), 1.0),))
    between = Hypothesis(features=((Predicate((FieldCondition(0, 3, 4),)), -1.0),))
    assert search._in_fields(between) == between
    first = replace(place, later=((7, 1.0),), change=5)
    assert search._in_fields(first) == first
    assert search.ranges_of(first) == []
    wide = Hypothesis(features=((search.grammar._made([FieldCondition(0, 6, 8)], False), 1.0),))
    assert search._prior(place) == search._prior(wide)
    assert search.said_of(search._in_fields(place)) == search.said_of(wide) == {Claim("features", fields=A_RANGE)}
    assert search.found.hypotheses == tuple(dict.fromkeys(search.found.hypotheses))


def keeping(*features: tuple[float, float, float]) -> Hypothesis:
    return Hypothesis(
        features=tuple((Predicate((FieldCondition(0, low, high),)), worth) for low, high, worth in features)
    )


@pytest.mark.parametrize(
    ("hypothesis", "ranges"),
    [
        (keeping((3, 5, 1.0), (4, 4, 0.3)), [(3, 5)]),
        (keeping((3, 5, 0.3), (4, 4, 1.0)), [(4, 4)]),
        (keeping((2, 2, 1.0), (10, 10, 1.0)), [(2, 2), (10, 10)]),
        (keeping((2, 10, 1.0), (3, 9, -1.0)), [(2, 2), (10, 10)]),
        (keeping((2, 10, 1.0), (3, 3, -0.3)), [(2, 10)]),
        (keeping((4, 5, -1.0)), []),
        (keeping((4, 6, -1.0), (6, 6, 1.0)), []),
        (keeping((4, 5, -1.0), (10, 10, -0.3)), []),
    ],
)
def test_a_range_is_wanted_if_what_is_worth_most_lies_together(
    hypothesis: Hypothesis, ranges: list[tuple[float, float]]
) -> None:
    """And else avoided if it is worth least."""
    search = Search(tried(LOW), np.random.default_rng(0), stocks())
    found = [(one.conditions[0].low, one.conditions[0].high) for one in search.ranges_of(hypothesis)]
    assert found == ranges
    said = {one.fields for one in search.said_of(hypothesis)}
    expected = {f"wants all 0={low:g}:{high:g}" for low, high in ranges} or {"avoids all 0=4:5"}
    assert said == ({A_RANGE} if len(ranges) == 1 else expected)


def test_of_two_stocks_that_are_wanted_none_between_is_named() -> None:
    mdp, _, _ = drawn_tank("plain", 3)
    reward = np.zeros(mdp.shape)
    reward[:, [2, 10]] = 1.0
    does = best_actions(mdp, reward)
    result = ActiveIRL(seed=1, max_samples=6_000, certify=None).fit(
        Tank(mdp), lambda seen, step: int(does[step, seen]), horizon=mdp.horizon
    )
    assert {one.words for one in result.turn.wish.named} == {"level = 2", "level = 10"}
    assert result.wish.kind == "bold"


def test_a_range_that_is_denied_is_hardly_likely_any_more() -> None:
    denied = Denied(frozenset({Claim("features", fields=A_RANGE)}))
    search = Search(tried(LOW), np.random.default_rng(0), stocks(), denied=(denied,))
    plain = Search(tried(LOW), np.random.default_rng(0), stocks())
    place, avoided = Hypothesis(places=((4, 1.0),)), keeping((4, 5, -1.0))
    assert search._prior(place) - plain._prior(place) < search._prior(avoided) - plain._prior(avoided) - 2


def test_a_table_with_ends_or_several_fields_has_none_that_is_alone() -> None:
    assert stocks().alone
    assert not stocks("categorical").alone
    assert not stocks(ends=(3,)).alone
    padded = Fields.given(("stock",)).table([None, 3, 4, 5], ends=(0,))
    assert padded.alone
    assert not replace(padded, ends=np.zeros(4, dtype=np.bool_)).alone
    assert not Fields.given(("a", "b")).table([(1, 2), (3, 4)]).alone
    two_places_with_one_value = [np.array([1]), np.array([1]), np.array([2])]
    assert not Fields.given(("x",)).table(two_places_with_one_value).alone


def test_what_is_left_over_of_an_end_is_a_range() -> None:
    table = stocks()
    grammar = Grammar(table, np.ones(MOST + 1, dtype=np.bool_))
    above = grammar.others(Predicate((FieldCondition(0, 0, 4),)))
    assert [one.conditions for one in above] == [(FieldCondition(0, 5, MOST),)]
    assert [one.conditions for one in grammar.others(Predicate((FieldCondition(0, 9, MOST),)))] == [
        (FieldCondition(0, 0, 8),)
    ]
    assert grammar.others(Predicate((FieldCondition(0, 0, MOST),))) == []


def test_the_reward_of_a_field_that_is_alone_is_what_is_expected_of_it() -> None:
    def wanting(low: float, high: float) -> Hypothesis:
        return Hypothesis(features=((Predicate((FieldCondition(0, low, high),)), 1.0),))

    likely = ((wanting(3, 5), 0.5), (wanting(6, 8), 0.3), (Hypothesis(actions=((1, 0.1),)), 0.2))
    wish = Wish("bold", (), 9.0, "anything", 10, 0.0, 1.0, likely)
    paid = FieldReward.of(wish, stocks(), Fields.given(("stock",)))
    assert paid is not None
    assert [paid(stock, 0, stock) for stock in (2, 4, 7, 9)] == pytest.approx([0.0, 5 / 8, 3 / 8, 0.0])
    with pytest.raises(InputError, match="what is wanted of stock is a range"):
        paid.elsewhere({"stock": 9})

    def named(low: float, high: float, what: str = "wants") -> Named:
        claim = Claim("features", fields=f"{what} all 0")
        return Named(claim, 1.0, Predicate((FieldCondition(0, low, high),)))

    assert paid.pays(named(4, 6))
    assert not paid.pays(named(6, 8))
    assert paid.pays(named(9, 12, "avoids"))
    assert not paid.pays(named(4, 5, "avoids"))
    assert not paid.pays(Named(Claim("hurry"), 1.0))


def keeper(seed: int, by_step: bool) -> tuple[Inventory, Any, tuple[int, int]]:
    """An inventory, its expert, and between which stocks that keeps its own."""
    wanted, demand, _ = drawn_inventory(seed)
    orders = ordered(wanted, demand, by_step)
    expert = (lambda seen, step: int(orders[step, seen])) if by_step else (lambda seen: int(orders[0, seen]))
    return Inventory(inventory(wanted, demand)[0]), expert, wanted


@pytest.mark.parametrize(("seed", "by_step"), [(300, False), (301, True)])
def test_a_default_run_says_between_which_stocks_an_expert_keeps_its_own(seed: int, by_step: bool) -> None:
    shop, expert, wanted = keeper(seed, by_step)
    result = ActiveIRL(seed=seed).fit(shop, expert, horizon=20)
    (said,) = result.turn.wish.named
    assert said.widest is not None
    (held,) = said.widest.conditions
    assert held.low <= wanted[0]
    assert wanted[1] <= held.high
    assert held.high - held.low < 15
    assert "stock" in result.wish.sentence


def test_no_certificate_rests_on_rows_that_were_only_predicted() -> None:
    """And what such a run says does not either."""
    shop, expert, _ = keeper(302, by_step=True)
    result = ActiveIRL(seed=302, certify="goal", max_samples=60).fit(shop, expert, horizon=20)
    belief, fields = result.turn.belief, result.turn.belief.telling_fields
    assert fields is not None
    assert imagined_by_chance(belief.estimate, fields) is not None
    tried_alone = wish_of(belief.estimate, fields=fields)
    assert belief.wish.is_known
    assert not tried_alone.is_known
    assert result.turn.wish == tried_alone
    assert result.certificate is not None
    assert not result.certificate.holds
    assert result.stopped == "budget"


def test_the_ends_of_a_range_are_part_of_the_doubt() -> None:
    """Each of both may lie further out with 2.5 %, so a range with brackets is never surer than what they hold."""
    shop, expert, _ = keeper(300, by_step=True)
    result = ActiveIRL(seed=300, certify=None, max_samples=2_000).fit(shop, expert, horizon=20)
    wish = result.turn.wish
    (said,) = wish.named
    assert said.widest is not None
    (held,) = said.widest.conditions
    total = outside = 0.0
    for hypothesis, weight in wish.likeliest:
        values = [one.conditions[0] for one, worth in hypothesis.features if worth > 0]
        if values:
            total += weight
            outside += weight * (
                min(one.low for one in values) < held.low or max(one.high for one in values) > held.high
            )
    assert 0.001 < outside <= 0.05 * total
    assert said.probability == pytest.approx(total - outside, abs=1e-4)
    assert wish.probability == pytest.approx(said.probability)
