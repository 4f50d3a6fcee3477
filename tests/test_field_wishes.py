"""Wishes about fields: the grammar, the words, and that the right one is found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from aceirl import ActiveIRL
from aceirl.envs.problem import from_moves
from aceirl.envs.simulator import Simulator
from aceirl.models.fields import Fields, FieldTable, entries
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import greedy_actions, optimal_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP
from aceirl.rewards.hypotheses import Claim, FieldCondition, Hypothesis, Named, Predicate, wish_of
from aceirl.rewards.hypotheses.predicates import Grammar
from aceirl.rewards.hypotheses.search import Search, claimed
from aceirl.rewards.hypotheses.wish import narrower
from studies.fields import STOCKS, Inventory, best_actions, inventory
from studies.large import HORIZON, Warehouse, driver


def warehouse() -> FieldTable:
    """The padding state, 3 by 3 places with or without a load, and the same as ends."""
    seen = [{"at": (x, y), "load": load} for x, y, load in product(range(3), range(3), (0, 1))]
    return Fields(entries, {"load": "categorical"}).table([None, *seen, *seen], ends=range(19, 37))


def test_a_predicate_holds_where_all_of_it_does() -> None:
    table = warehouse()
    one = Predicate((FieldCondition(0, 2, 2), FieldCondition(1, 1, 1), FieldCondition(2, 1, 1)), ends=True)
    values = table.values
    expected = (values[:, 0] == 2) & (values[:, 1] == 1) & (values[:, 2] == 1) & table.ends
    assert expected.sum() == 1
    assert (one.holds(table) == expected).all()


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        (
            Predicate((FieldCondition(0, 2, 2), FieldCondition(1, 1, 1), FieldCondition(2, 1, 1))),
            "at = (2, 1) and load = 1",
        ),
        (Predicate((FieldCondition(0, 2, 2),), ends=True), "an end with at, entry 1 = 2"),
        (Predicate((), ends=True), "any end"),
        (Predicate((FieldCondition(0, 0, 1),)), "at, entry 1 at most 1"),
        (Predicate((FieldCondition(0, 1, 2),)), "at, entry 1 at least 1"),
    ],
)
def test_predicates_have_words(predicate: Predicate, words: str) -> None:
    assert predicate.words(warehouse()) == words


def test_a_range_inside_has_both_ends_in_words() -> None:
    table = Fields.given(("stock",)).table(list(range(10)))
    assert Predicate((FieldCondition(0, 5, 8),)).words(table) == "stock from 5 to 8"


def test_the_grammar_says_nothing_twice_and_nothing_of_single_places() -> None:
    table = warehouse()
    grammar = Grammar(table, table.known)
    extents = [grammar.extent(one) for one in grammar.simple]
    assert len({extent.tobytes() for extent in extents}) == len(extents)
    assert all(1 < extent.sum() < 36 for extent in extents)
    words = {one.words(table) for one in grammar.simple}
    assert {"load = 1", "at = (2, 1)", "an end with load = 1", "any end"} <= words
    narrower = grammar.refined(Predicate((FieldCondition(0, 2, 2), FieldCondition(1, 1, 1))))
    assert {one.words(table) for one in narrower} == {"at = (2, 1) and load = 0", "at = (2, 1) and load = 1"}
    column = Predicate((FieldCondition(0, 2, 2),))
    assert {"at = (2, 1)", "at, entry 1 = 2 and load = 1"} <= {one.words(table) for one in grammar.refined(column)}


def test_what_is_narrower_has_one_more_condition_even_if_it_holds_in_one_state_or_no_fewer() -> None:
    table = warehouse()
    grammar = Grammar(table, table.known)
    corner = Predicate((FieldCondition(0, 2, 2), FieldCondition(1, 1, 1)), ends=True)
    assert [one.words(table) for one in grammar.narrower(corner)] == [
        "an end with at = (2, 1) and load = 0",
        "an end with at = (2, 1) and load = 1",
    ]
    unloaded = Grammar(table, table.known & (table.values[:, 2] == 0))
    (same,) = (one for one in unloaded.narrower(corner))
    assert same.words(table) == "an end with at = (2, 1) and load = 0"
    np.testing.assert_array_equal(unloaded.extent(same), unloaded.extent(corner))
    assert grammar.narrower(grammar.narrower(corner)[0]) == [], "no more conditions than a wish may have"
    loaded = {one.words(table) for one in grammar.narrower(Predicate((FieldCondition(2, 1, 1),)))}
    assert "at, entry 1 = 2 and load = 1" in loaded
    ranged = {one.words(table) for one in grammar.narrower(Predicate((FieldCondition(0, 1, 2),)))}
    assert any(words.endswith("load = 1") for words in ranged)


def test_what_holds_with_another_one_is_about_other_fields() -> None:
    table = warehouse()
    grammar = Grammar(table, table.known)
    here, there, loaded = FieldCondition(0, 2, 2), FieldCondition(1, 0, 1), FieldCondition(2, 1, 1)
    others = [Predicate((there, loaded)), Predicate((loaded,)), Predicate((here,)), Predicate((loaded,), ends=True)]
    both = grammar.both(Predicate((here,)), others)
    assert [one.conditions for one in both] == [(here, there, loaded), (here, loaded)]
    assert grammar.both(Predicate((here,), ends=True), [Predicate((), ends=True)]) == [], "it says nothing more"


def test_what_is_moved_has_one_end_at_the_next_value_that_was_met() -> None:
    """Of one field alone all ranges are tried anyway, and a categorical field has none."""
    table = Fields.given({"level": "ordered", "load": "categorical"}).table(
        [{"level": level, "load": load} for level in (0, 1, 4, 9) for load in (0, 1)]
    )
    grammar = Grammar(table, table.known, least_states=1)
    loaded = FieldCondition(1, 1, 1)

    def ends(predicate: Predicate) -> set[tuple[float, float]]:
        moved = grammar.moved(predicate)
        assert all(one.conditions[1] == loaded for one in moved)
        return {(one.conditions[0].low, one.conditions[0].high) for one in moved}

    assert ends(Predicate((FieldCondition(0, 4, 4), loaded))) == {(1, 4), (4, 9)}
    assert ends(Predicate((FieldCondition(0, 1, 4), loaded))) == {(0, 4), (1, 9)}, "single values are simple ones"
    assert grammar.moved(Predicate((FieldCondition(0, 1, 4),))) == []
    place = grammar.at(4)
    assert [one.low for one in place.conditions] == [4, 0]
    assert grammar.extent(place).sum() == 1


def test_more_conditions_are_less_likely_beforehand() -> None:
    table = warehouse()
    grammar = Grammar(table, table.known)
    by_words = {one.words(table): one.log_prior for one in grammar.simple}
    assert by_words["at = (2, 1)"] < by_words["load = 1"] < 0
    assert by_words["an end with load = 1"] < by_words["load = 1"]


def test_claims_leave_the_ends_of_a_range_open() -> None:
    five, six = (Predicate((FieldCondition(0, low, 8),)) for low in (5.0, 6.0))
    assert Hypothesis(features=((five, 1.0),)).claims == Hypothesis(features=((six, 1.0),)).claims
    assert Hypothesis(features=((five, 1.0),)).claims != Hypothesis(features=((five, -1.0),)).claims
    assert claimed(Predicate((FieldCondition(0, 5, 5),)), 1.0) != claimed(Predicate((FieldCondition(0, 6, 6),)), 1.0)


def test_a_range_about_what_is_likeliest_is_said_in_its_words() -> None:
    """Claims about a value, and about ranges that hold it, are one claim whose ends are open; others are not."""
    at = Predicate((FieldCondition(0, 5, 5), FieldCondition(1, 2, 2)))
    about = Predicate((FieldCondition(0, 4, 7), FieldCondition(1, 2, 2)))
    beside = Predicate((FieldCondition(0, 6, 7), FieldCondition(1, 2, 2)))
    fewer, ended = Predicate((FieldCondition(0, 4, 7),)), Predicate(about.conditions, ends=True)
    assert at.within(about)
    assert at.within(at)
    assert not any(one.within(other) for one, other in ((about, at), (at, beside), (at, fewer), (at, ended)))
    best = Hypothesis(features=((at, 1.0),))
    assert Hypothesis(features=((about, 1.0),), step_cost=0.1).said_by(best).claims >= best.claims
    for other in (Hypothesis(features=((one, 1.0),)) for one in (beside, fewer, ended)):
        assert other.said_by(best) == other
    avoided = Hypothesis(features=((about, -1.0),))
    assert avoided.said_by(best) == avoided
    assert avoided.said_by(Hypothesis(features=((at, -1.0),))) == avoided


def told(mdp: MDP, wanted: tuple[int, int], visits: int) -> Estimate:
    """What an expert who wants to keep a stock says everywhere, and what every action leads to, so many times each."""
    reward = np.zeros(mdp.shape)
    reward[:, wanted[0] : wanted[1] + 1] = 1
    q = optimal_values(mdp, reward)[0]
    answers = np.zeros(mdp.shape, dtype=np.int64)
    best = greedy_actions(q, np.random.default_rng(0))
    steps, states = np.indices(best.shape)
    answers[steps, states, best] = 1
    answers[5:] = 0
    tried = np.zeros(mdp.shape, dtype=np.int64)
    tried[0] = visits
    rows = mdp.transitions.dense()
    keys, counts = [], []
    for row, (s, a) in enumerate(np.ndindex(mdp.shape[1:])):
        for successor in np.flatnonzero(rows[s, a]):
            keys.append(row * mdp.n_states + successor)
            counts.append(max(1, round(visits * rows[s, a, successor])))
    starts = np.zeros(mdp.n_states, dtype=np.int64)
    made = Counts.of_arrays(True, tried, answers, starts, np.array(keys), np.array(counts))
    return Estimate.of(made, kind=ExpertKind(), delta=0.1, initial=mdp.initial)


def line() -> MDP:
    """Ten stocks; an order of -1, 0 or 1 pieces, of which one in five does not arrive."""
    moves = [
        (s, a, min(9, max(0, s + step)), chance)
        for s in range(10)
        for a, order in enumerate((-1, 0, 1))
        for step, chance in ((order, 0.8), (0, 0.2))
    ]
    return from_moves(moves, n_states=10, n_actions=3, horizon=10, initial=np.full(10, 0.1))


def test_a_wish_to_keep_a_field_in_a_range_is_named() -> None:
    table = Fields.given(("stock",)).table(list(range(10)))
    wish = wish_of(told(line(), (4, 6), 100), fields=table)
    assert wish.kind != "open"
    named = wish.named[0]
    assert named.claim.what == "features"
    assert named.widest is not None
    assert named.widest.conditions[0].low <= 4
    assert named.widest.conditions[0].high >= 6
    assert named.words.startswith("stock from ")


def test_without_fields_no_wish_is_about_them() -> None:
    wish = wish_of(told(line(), (4, 6), 40))
    assert all(one.claim.what != "features" for one in wish.named)


def test_what_a_predicate_pays_is_what_its_places_pay() -> None:
    table = Fields.given(("stock",)).table(list(range(10)))
    search = Search(told(line(), (4, 6), 40), np.random.default_rng(0), table)
    places = Hypothesis(tuple((place, 1.0) for place in (4, 5, 6)))
    both = search.rewards([Hypothesis(features=((Predicate((FieldCondition(0, 4, 6),)), 1.0),)), places])
    assert (both.early[0] == both.early[1]).all()
    assert (both.late[0] == both.late[1]).all()


def test_an_inventory_is_spoken_of_by_its_stock() -> None:
    mdp, reward = inventory((9, 13), 3.0, horizon=8)
    policy = best_actions(mdp, reward)[0]
    learner = ActiveIRL(max_samples=1500, seed=1, certify=None)
    result = learner.fit(Inventory(mdp), lambda seen: int(policy[seen]), horizon=8)
    table = result.turn.belief.table.fields
    assert table is not None
    assert table.names == ("stock",)
    assert set(table.values[table.known, 0]) <= set(range(STOCKS))
    assert all("stock" in rule for rule in result.rules())


SIDE = 5
FLOOR = list(product(range(SIDE), range(SIDE), range(2)))


def driven(drive: Callable[[int, int], int]) -> Search:
    """What somebody does on a floor of two colours, where right, up, left and down were all tried."""
    number = {record: i for i, record in enumerate(FLOOR)}
    moves = [
        (i, a, number[min(SIDE - 1, max(0, x + dx)), min(SIDE - 1, max(0, y + dy)), colour], 1.0)
        for (x, y, colour), i in number.items()
        for a, (dx, dy) in enumerate(((1, 0), (0, 1), (-1, 0), (0, -1)))
    ]
    mdp = from_moves(moves, n_states=len(FLOOR), n_actions=4, horizon=12, initial=np.full(len(FLOOR), 1 / len(FLOOR)))
    answers, tried = np.zeros((2, *mdp.shape), dtype=np.int64)
    for i, (x, y, _) in enumerate(FLOOR):
        answers[0, i, drive(x, y)] = 1
    tried[0] = 3
    keys = np.array([(s * 4 + a) * len(FLOOR) + there for s, a, there, _ in moves])
    counts = Counts.of_arrays(
        True, tried, answers, np.zeros(len(FLOOR), np.int64), np.sort(keys), np.full(len(keys), 3)
    )
    estimate = Estimate.of(counts, kind=ExpertKind(stationary=True), delta=0.1, initial=mdp.initial)
    return Search(estimate, np.random.default_rng(0), Fields.given(("column", "row", "colour")).table(FLOOR))


def test_a_narrower_wish_is_named_beside_the_wide_one_unless_the_answers_speak_against_it() -> None:
    wide = Predicate((FieldCondition(0, 0.0, 0.0),))
    named = Named(Claim("features", fields=claimed(wide, 1.0)), 1.0, wide, wide, "column = 0")

    def beside(search: Search) -> list[str]:
        assert search.fields is not None
        return [one.words for one in narrower(search, named, [Hypothesis(features=((wide, 1.0),))], search.fields)]

    assert beside(driven(lambda x, y: 2 if x > 0 and (y == 0 or (x + y) % 2) else 3))[0] == "column = 0 and row = 0"
    assert beside(driven(lambda x, y: 2 if x > 0 else 1 + 2 * (y % 2))) == [], "who goes to and fro wants no row"


def test_what_predicts_better_is_a_way_to_more_however_unlikely_it_is_beforehand() -> None:
    search = driven(lambda x, y: 1 if y > 1 else 3)
    assert search.grammar is not None
    one, other, *_ = search.grammar.simple
    told = {
        Hypothesis(): -9.0,
        Hypothesis(features=((one, 1.0),)): -8.0,
        Hypothesis(features=((one, 1.0),), step_cost=0.02): -8.5,
        Hypothesis(features=((one, 1.0), (other, 0.3))): -2.0,
        Hypothesis(features=((one, 1.0), (other, 0.55))): -3.0,
    }
    search._screened = {wish: search._prior(wish) + predicts for wish, predicts in told.items()}
    found = search._undominated()
    assert {told[wish] for wish in found} == {-9.0, -8.0, -2.0}
    scores = [search._screened[wish] for wish in found]
    assert scores == sorted(scores, reverse=True)


def test_a_composed_wish_says_nothing_twice() -> None:
    search = driven(lambda x, y: 1 if y > 1 else 3)
    assert search.grammar is not None
    search._screen(search._simple())
    one, other, *_ = search.grammar.simple
    for base in (Hypothesis(features=((one, 1.0),)), Hypothesis(features=tuple(sorted(((one, 1.0), (other, 0.3)))))):
        composed = list(search._composed(base))
        assert composed
        assert all(wish.features == tuple(sorted(wish.features)) for wish in composed)
        assert all(len({predicate for predicate, _ in wish.features}) == len(wish.features) for wish in composed)


def test_beside_a_wish_about_fields_no_action_is_named_and_no_place_inside_it() -> None:
    search = driven(lambda x, y: 2)
    wide = Predicate((FieldCondition(0, 0.0, 0.0),))
    inside, outside = FLOOR.index((0, 3, 1)), FLOOR.index((4, 3, 1))
    claims = search.said_of(Hypothesis(((inside, 1.0), (outside, 1.0)), ((2, 0.3),), features=((wide, 1.0),)))
    assert claims == {Claim("features", fields=claimed(wide, 1.0)), Claim("wants", outside)}
    assert search.said_of(Hypothesis(actions=((2, 1.0),))) == {Claim("action", 2)}


@pytest.mark.parametrize("by_order", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_large_world_is_never_told_a_wish_that_the_dock_does_not_have(seed: int, by_order: bool) -> None:
    """Most states have one answer, and the driver always takes the same of two equally good ways: that is no wish."""
    learner = ActiveIRL(max_samples=5_000, seed=seed, certify=None, infer_after_growth=3.0)
    env = Warehouse(16, 11, seed)
    turn = learner.fit(env, driver(env.floor, by_order=by_order), horizon=HORIZON).turn
    fields = turn.belief.table.fields
    assert fields is not None
    assert turn.belief.table.fewer is not None
    dock = (fields.values[:, :3] == (*env.floor.dock, 1)).all(axis=1)
    assert dock.any()
    wish = turn.wish
    for one in wish.named if wish.kind == "bold" else ():
        if one.claim.what == "hurry":
            continue
        assert one.claim.what in ("wants", "features"), "no action is wanted, no place avoided"
        where = one.predicate.holds(fields) if one.predicate else np.arange(len(dock)) == one.claim.where
        assert where[dock].all() == (one.claim.what == "wants" or one.claim.fields.startswith("wants"))
    assert any(one.predicate is not None for one in wish.named) or wish.kind == "open"


@pytest.mark.parametrize("times", [50, 2_000, 1_000_000])
def test_any_number_of_answers_can_be_judged(times: int) -> None:
    """What an error of one in many would explain, and a habit would not, may be too unlikely for a number."""
    rng = np.random.default_rng(3)
    moves = [(s, a, (s + 1 + a) % 5, 1.0) for s in range(5) for a in range(2)]
    mdp = from_moves(moves, n_states=5, n_actions=2, horizon=6, initial=np.eye(5)[0])
    counts = Counts.of_moves(Simulator(mdp).rollout(np.full((6, 5, 2), 0.5), 200, rng), (6, 5, 2))
    answers = np.zeros((6, 5, 2), dtype=np.int64)
    answers[:, :, 0], answers[:, 3, 1] = times, times // 50
    estimate = Estimate.of(counts.with_answers(answers), kind=ExpertKind(deterministic=False), delta=0.1)
    found = wish_of(estimate, fields=Fields.given(("x",)).table([np.array([x]) for x in range(5)]))
    assert np.isfinite(found.evidence)
    assert np.isfinite(found.unexplained)
    assert 0 <= found.unexplained <= answers.sum()
