"""Dynamics that factor over fields, held against the world they were seen in."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from aceirl.errors import InputError
from aceirl.models.fields import Field, Fields, FieldTable
from aceirl.models.fields.dynamics import FieldDynamics, Imagined, imagined
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.rewards.hypotheses import FieldCondition, Hypothesis, Predicate, Wish
from aceirl.rewards.hypotheses.predicates import Grammar
from aceirl.rewards.in_fields import FieldReward
from aceirl.rewards.spaces import described_by

State = tuple[int, int, int]
SIZE, FULL = 7, 25


def moved(state: State, action: int, rng: np.random.Generator) -> tuple[State, bool]:
    """A corridor: a key lies at 4, the door at 0 ends the episode for whoever has it; energy is filled at 6."""
    place, key, energy = state
    place = min(SIZE - 1, max(0, place + (-1, 1)[action]))
    energy = FULL if place == 6 else energy - 1
    key = int(key or place == 4)
    return (place, key, energy), energy == 0 or (place == 0 and bool(key))


def slippery(state: State, action: int, rng: np.random.Generator) -> tuple[State, bool]:
    """The same, but one action in three does what the other does."""
    return moved(state, action if rng.random() < 2 / 3 else 1 - action, rng)


class Walked:
    """What random episodes show of a world: its table of fields, and counts."""

    def __init__(self, step: Callable[..., tuple[State, bool]], episodes: int) -> None:
        rng, numbers, walks, starts = np.random.default_rng(3), {}, [], []  # type: ignore[var-annotated]
        for _ in range(episodes):
            state, over, walk = (int(rng.integers(SIZE)), 0, FULL), False, []
            starts.append(numbers.setdefault((state, False), len(numbers)))
            for h in range(40):
                if over:
                    break
                action = int(rng.integers(2))
                after, over = step(state, action, rng)
                here, there = (numbers.setdefault(one, len(numbers)) for one in ((state, False), (after, over)))
                walk.append((h, here, action, there))
                state = after
            walks.append(walk)
        self.states = list(numbers)
        kinds = (Field("place", "ordered"), Field("key", "categorical", ("0", "1")), Field("energy", "ordered"))
        values = np.array([state for state, _ in self.states], dtype=np.float64)
        self.table = FieldTable(kinds, values, np.array([over for _, over in self.states]))
        shape = (40, len(self.states), 2)
        self.counts = Counts.of_walks(starts, walks, shape, stationary=True)
        ends = [number for number, (_, over) in enumerate(self.states) if over]
        kind = ExpertKind(deterministic=True, stationary=True)
        self.estimate = Estimate.of(self.counts, kind=kind, delta=0.1, terminal=ends)


def world(episodes: int = 60) -> tuple[Walked, Imagined]:
    walked = Walked(moved, episodes)
    found = imagined(walked.estimate, walked.table)
    assert found is not None
    return walked, found


def test_rows_that_were_never_tried_are_predicted_as_the_world_has_them() -> None:
    walked, found = world()
    table, rows, rng = found.table, found.estimate.mdp.transitions, np.random.default_rng(0)
    tried = np.asarray(walked.counts.visits.any(axis=0))
    new = 0
    for state in np.flatnonzero(table.known & ~table.ends).tolist():
        for action in range(2):
            entries = slice(*rows.indptr[[2 * state + action, 2 * state + action + 1]])
            after, over = moved(tuple(int(v) for v in table.values[state]), action, rng)  # type: ignore[arg-type]
            for there in rows.successors[entries].tolist():
                assert (tuple(table.values[there].astype(int).tolist()), bool(table.ends[there])) == (after, over)
                new += state >= len(tried) or not tried[state, action]
    assert new > 20
    assert len(table.values) > len(walked.states)


def test_each_field_depends_on_no_more_than_it_must() -> None:
    walked, _ = world()
    dynamics = FieldDynamics.fitted(walked.table, walked.counts)
    assert [None if one is None else one.parents for one in dynamics.effects] == [(0,), (0,), (0,)]
    ends = {tuple(zip(fields, values.tolist(), strict=True)) for fields, values in walked.table.kinds_of_ends}
    assert ends == {((2, 0.0),), ((0, 0.0), (1, 1.0))}


def test_in_a_world_of_chance_nothing_is_predicted() -> None:
    walked = Walked(slippery, 60)
    assert FieldDynamics.fitted(walked.table, walked.counts).effects[0] is None
    assert imagined(walked.estimate, walked.table) is None


def test_too_few_moves_predict_nothing() -> None:
    assert imagined(Walked(moved, 1).estimate, Walked(moved, 1).table) is None


def test_what_was_answered_and_met_stays_as_it_was() -> None:
    walked, found = world()
    n = len(walked.states)
    np.testing.assert_array_equal(found.table.values[:n], walked.table.values)
    assert found.estimate.terminal >= walked.estimate.terminal
    np.testing.assert_array_equal(found.estimate.counts.starts[:n], walked.counts.starts)
    assert found.numbers[6.0, 1.0, float(FULL)] >= 0


def likely(*hypotheses: Hypothesis) -> Wish:
    """A wish of hypotheses that are equally probable, the first as the likeliest."""
    return Wish("open", (), 0.0, "", 0, 0.0, 0.0, tuple((one, 1 / len(hypotheses)) for one in hypotheses))


def key_at_the_door() -> FieldReward:
    walked, _ = world()
    wanted = Predicate((FieldCondition(0, 0.0, 0.0), FieldCondition(1, 1.0, 1.0)), ends=True)
    fields = Fields(lambda seen: dict(zip(("place", "key", "energy"), seen, strict=True)), {"key": "categorical"})
    found = FieldReward.of(likely(Hypothesis(features=((wanted, 1.0),), step_cost=0.02)), walked.table, fields)
    assert found is not None
    return found


def test_a_reward_of_fields_pays_observations_that_were_never_met() -> None:
    reward = key_at_the_door()
    assert reward((1, 1, 99), 0, (0, 1, 98), terminal=True) == pytest.approx(0.98)
    assert reward((1, 1, 99), 0, (0, 1, 98)) == pytest.approx(-0.02)
    assert reward((1, 0, 1), 0, (0, 0, 0), terminal=True) == pytest.approx(-0.02)
    assert reward.words() == "an end with place = 0 and key = 1: 1; a step: -0.02"


def test_the_same_wish_of_other_values() -> None:
    there = key_at_the_door().elsewhere({"place": 5})
    assert there((4, 1, 9), 1, (5, 1, 8), terminal=True) == pytest.approx(0.98)
    assert there((1, 1, 9), 0, (0, 1, 8), terminal=True) == pytest.approx(-0.02)
    with pytest.raises(InputError, match="no field 'door'; the fields are place, key, energy"):
        there.elsewhere({"door": 5})


def test_a_range_that_is_left_open_pays_by_how_probable_it_is() -> None:
    """An action or an avoided place beside it, of which nothing is said, is left out."""
    walked, _ = world()
    fields = Fields(lambda seen: dict(zip(("place", "key", "energy"), seen, strict=True)), {})
    wide, narrow, other = (
        Hypothesis(features=((Predicate((FieldCondition(field, low, 5.0),)), 1.0),))
        for field, low in ((0, 2.0), (0, 4.0), (2, 1.0))
    )
    found = FieldReward.of(likely(replace(wide, actions=((0, 0.3),)), narrow, other), walked.table, fields)
    assert found is not None
    assert [found((place, 0, 9), 0, (0, 0, 9)) for place in (1, 2, 4, 5, 6)] == pytest.approx([0.0, 0.5, 1.0, 1.0, 0.0])


def test_a_wish_for_a_place_is_no_reward_of_fields() -> None:
    walked, _ = world()
    assert FieldReward.of(likely(Hypothesis(places=((3, 1.0),))), walked.table, Fields(dict, {})) is None


def test_features_that_are_a_mapping_have_names() -> None:
    names, values = described_by(lambda seen: {"distance": seen, "near": seen < 2}, 1)
    assert names == ("distance", "near")
    assert values.tolist() == [1.0, 1.0]
    assert described_by(lambda seen: [seen], 3)[0] == ()


def test_an_end_that_was_met_once_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has delivered once does not know yet whether that ends it with any energy left."""
    monkeypatch.setattr("aceirl.models.fields.table.MOST_TOGETHER", 10)
    fields = (Field("place", "ordered"), Field("key", "categorical", ("0", "1")), Field("energy", "ordered"))
    met = [(1, 0, 5), (1, 1, 4), (0, 0, 3), (0, 1, 2), (2, 0, 0), (2, 1, 0)]
    only_imagined = [(0, 1, 1), (1, 1, 3), (2, 0, 2)]
    over = [one in met[3:] for one in (*met, *only_imagined)]
    table = FieldTable(fields, np.array([*met, *only_imagined], dtype=np.float64), np.array(over))
    assert [(told_by, values.tolist()) for told_by, values in table.kinds_of_ends] == [((2,), [0.0])]
    together = table.met_together(len(met))
    assert together[: len(met)].all()
    assert not together[len(met)], "the end with the key was met once"
    assert together[len(met) + 1]
    assert not together[len(met) + 2], "there it ended for want of energy"


@pytest.mark.parametrize("seed", range(20))
def test_kinds_of_ends_are_what_no_other_state_has_and_two_ends_do(seed: int) -> None:
    """In plain loops: of one field first, and of those that are left of more."""
    rng = np.random.default_rng(seed)
    n, n_fields = int(rng.integers(1, 60)), int(rng.integers(1, 5))
    values = rng.integers(0, int(rng.integers(2, 7)), size=(n, n_fields)) / 2
    values[rng.random(n) < 0.1] = np.nan
    ends = (rng.random(n) < 0.3) | (values[:, 0] == (0 if seed % 2 else -1))
    table = FieldTable(tuple(Field(f"{k}", "ordered") for k in range(n_fields)), values, ends)
    met = [tuple(one) for one in values[table.known].tolist()]
    others = [one for one, over in zip(met, ends[table.known], strict=True) if not over]
    left = [one for one, over in zip(met, ends[table.known], strict=True) if over]
    expected = []
    for size in range(1, min(3, n_fields) + 1):
        for told_by in itertools.combinations(range(n_fields), size):
            seen = [tuple(one[k] for k in told_by) for one in left]
            taken = {tuple(one[k] for k in told_by) for one in others}
            new = sorted(one for one in set(seen) - taken if seen.count(one) > 1)
            expected += [(told_by, list(one)) for one in new]
            left = [one for one, said in zip(left, seen, strict=True) if said not in new]
    assert [(told_by, said.tolist()) for told_by, said in table.kinds_of_ends] == expected


def test_ends_are_wanted_by_kind_and_each_kind_is_as_likely_as_another() -> None:
    _, found = world()
    kinds = Grammar(found.table, np.ones(len(found.table.values), dtype=np.bool_)).kinds_of_ends
    assert [one.words(found.table) for one in kinds] == ["an end with energy = 0", "an end with place = 0 and key = 1"]
    assert {round(one.log_prior, 12) for one in kinds} == {round(-np.log(8), 12)}
    assert all(one in Grammar(found.table, found.table.known).simple for one in kinds)
