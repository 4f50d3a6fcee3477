"""Rules over fields: they repeat the answers, doubt where those leave a boundary open, and are readable."""

from __future__ import annotations

import numpy as np

from aceirl.models.fields import Fields, FieldTable, entries
from aceirl.models.fields.rules import Rule, committee, rules

HANDS = [{"hand": hand, "ace": ace} for hand in range(4, 22) for ace in (False, True)]


def table(observations: list[dict[str, int | bool]] = HANDS) -> FieldTable:
    return Fields(entries, {}).table([None, *observations])


def sticks(hand: int, ace: bool) -> int:
    """Sticks from 17, with an ace from 19."""
    return int(hand >= (19 if ace else 17))


ACTIONS = np.array([0, *(sticks(**hand) for hand in HANDS)])  # type: ignore[arg-type]


def test_every_tree_repeats_the_answers_it_has_seen() -> None:
    states = np.random.default_rng(0).choice(np.arange(1, 37), 20, replace=False)
    found = committee(table(), states, ACTIONS[states], 2, np.random.default_rng(1))
    seen = found.left_out == 0
    assert seen.any(axis=1).all()
    assert (found.votes[:, states] == ACTIONS[states])[seen].all()
    assert (found.votes[:, 0] == -1).all()  # the padding state has no fields


def test_trees_doubt_exactly_between_the_answers_that_differ() -> None:
    observations: list[dict[str, int | bool]] = [{"hand": hand} for hand in range(4, 22)]
    found = table(observations)
    states = np.array([1, 7, 15, 18])  # hands of 4, 10, 18 and 21
    votes = committee(found, states, np.array([0, 0, 1, 1]), 2, np.random.default_rng(2), trees=400)
    whole = (votes.left_out == 0).all(axis=1)
    shares = (votes.votes[whole] == 1).mean(axis=0)
    assert whole.sum() > 100
    assert (shares[1:8] == 0).all()
    assert (shares[15:] == 1).all()
    between = shares[8:15]  # a cut is drawn uniformly between 10 and 18
    assert np.abs(between - np.arange(1, 8) / 8).max() < 0.2
    assert (np.diff(between) >= 0).all()


def test_answers_left_out_are_predicted_where_fields_tell_and_not_where_they_do_not() -> None:
    states, rng = np.arange(1, 37), np.random.default_rng(3)
    told = committee(table(), states, ACTIONS[states], 2, rng).log_likelihood
    anything = committee(table(), states, rng.integers(2, size=36), 2, rng).log_likelihood
    chance = 36 * np.log(0.5)
    assert told > chance + 8
    assert anything < chance + 4


def test_a_circle_has_no_end() -> None:
    hours = Fields(entries, {"hour": "circular"}).table([{"hour": hour} for hour in range(24)])
    states = np.array([0, 6, 12, 23])  # night, day, day, night
    votes = committee(hours, states, np.array([0, 1, 1, 0]), 2, np.random.default_rng(4), trees=200).votes
    assert (votes[:, [22, 1]] == 0).mean(axis=0).min() > 0.5
    assert (votes[:, 9] == 1).mean() > 0.75


def test_the_rules_of_all_answers_are_the_ones_behind_them() -> None:
    found = table()
    states = np.arange(1, 37)
    said = rules(found, states, ACTIONS[states])
    for rule in said:
        assert rule.against == 0
    words = [rule.words(found, ("hit", "stick")) for rule in said]
    assert "hit if hand is at most 16" in words
    assert "stick if hand is at least 19" in words
    assert "stick if hand is 17 to 18 and ace is no" in words or "stick if hand is at least 17 and ace is no" in words
    assert len(words) <= 4


def test_each_answer_is_said_by_a_rule() -> None:
    found, rng = table(), np.random.default_rng(5)
    states = rng.choice(np.arange(1, 37), 25, replace=False)
    actions = rng.integers(3, size=25)
    said = rules(found, states, actions)
    for state, action in zip(states, actions, strict=True):
        values = found.values[state]
        holding = [r for r in said if all(low <= values[k] <= high for k, low, high in r.conditions)]
        assert action in {rule.action for rule in holding}


def test_one_answer_everywhere_is_one_rule() -> None:
    assert rules(table(), np.array([3, 9]), np.array([1, 1])) == (Rule((), 1, 2, 0),)
    assert Rule((), 1, 2, 0).words(table(), ("hit", "stick")) == "stick everywhere"
    assert rules(table(), np.array([], dtype=np.int64), np.array([], dtype=np.int64)) == ()
