"""Counts add up, estimates say what was seen and nothing else, and the expert is known exactly when it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from strategies import SEEDS, counts, random_mdp, random_moves, shapes

from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.models.tabular.counts import Counts, StepCounts, _merge
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import FloatArray
from aceirl.protocols import Moves

FIELDS = ("visits", "answers", "starts", "move_keys", "move_counts")


def assert_same(first: Counts, second: Counts) -> None:
    assert first.stationary == second.stationary
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


@st.composite
def several(draw: st.DrawFn, number: int) -> list[Counts]:
    """Counts that belong to one problem."""
    shape, stationary = draw(shapes()), draw(st.booleans())
    return [draw(counts(shape=shape, stationary=stationary)) for _ in range(number)]


@given(several(3))
def test_addition_is_associative_and_commutative(three: list[Counts]) -> None:
    a, b, c = three
    assert_same((a + b) + c, a + (b + c))
    assert_same(a + b, b + a)


@given(counts())
def test_the_empty_counts_are_zero(some: Counts) -> None:
    empty = Counts.empty(some.shape, stationary=some.stationary)
    assert_same(some + empty, some)
    assert_same(empty + some, some)
    assert (empty.samples, empty.questions) == (0, 0)


@given(shapes(), st.booleans(), SEEDS, st.integers(0, 20))
def test_counts_of_two_batches_are_the_counts_of_both_together(
    shape: Any, stationary: bool, seed: int, cut: int
) -> None:
    moves = random_moves(np.random.default_rng(seed), shape, 20)

    def part(chosen: slice, starts: Any) -> Counts:
        columns = {name: getattr(moves, name)[chosen] for name in ("step", "state", "action", "successor", "count")}
        return Counts.of_moves(Moves(**columns, starts=starts), shape, stationary=stationary)

    whole = part(slice(None), moves.starts)
    assert_same(part(slice(cut), moves.starts) + part(slice(cut, None), 0 * moves.starts), whole)
    assert whole.samples == moves.count.sum()


@given(shapes(), st.booleans(), SEEDS, st.integers(1, 6))
def test_counts_of_walks_are_those_of_their_moves(shape: Any, stationary: bool, seed: int, episodes: int) -> None:
    rng, (horizon, n_states, n_actions) = np.random.default_rng(seed), shape
    walks, starts = [], rng.integers(n_states, size=episodes).tolist()
    for start in starts:
        path = [start, *rng.integers(n_states, size=rng.integers(horizon + 1)).tolist()]
        taken = rng.integers(n_actions, size=len(path)).tolist()
        walks.append([(step, path[step], taken[step], path[step + 1]) for step in range(len(path) - 1)])
    flat = np.array([move for walk in walks for move in walk], dtype=np.int64).reshape(-1, 4)
    step, state, action, successor = flat.T
    moves = Moves(step, state, action, successor, np.ones_like(step), np.bincount(starts, minlength=n_states))
    found, expected = (
        Counts.of_walks(starts, walks, shape, stationary=stationary),
        Counts.of_moves(moves, shape, stationary=stationary),
    )
    assert_same(found, expected)
    assert_totals(found)
    assert_totals(found + expected)
    assert_totals((found + expected).grown(n_states + 2))
    for start, walk, said in [
        (n_states, [], "an episode starts in the state"),
        (-1, [], "an episode starts in the state -1"),
        (0, [(horizon, 0, 0, 0)], f"a move has the step {horizon}"),
        (0, [(0, 0, 0, -1)], "a move has the successor -1"),
    ]:
        with pytest.raises(InputError, match=said):
            Counts.of_walks([start], [walk], shape, stationary=stationary)


def assert_totals(some: Counts) -> None:
    """What is added up along the way is what there is."""
    totals = some.samples, some.episodes, some.questions, some.repeated
    assert totals == (some.visits.sum(), some.starts.sum(), some.answers.sum(), some.repeats.sum())


@given(several(2))
def test_totals_add_up(two: list[Counts]) -> None:
    a, b = two
    repeats = np.arange(2 * a.shape[1]).reshape(-1, 2)
    for some in (a, b, a + b, a.with_answers(a.answers, repeats) + b, b.with_answers(2 * a.answers).grown(9)):
        assert_totals(some)


@given(several(2))
def test_adding_changes_neither_and_nothing_can_be_written(two: list[Counts]) -> None:
    a, b = two
    before = [getattr(a, name).copy() for name in FIELDS]
    total = a + b
    for name, copy in zip(FIELDS, before, strict=True):
        np.testing.assert_array_equal(getattr(a, name), copy)
        assert not getattr(total, name).flags.writeable


@given(several(1))
def test_what_is_kept_by_step_is_what_the_tables_say(one: list[Counts]) -> None:
    some, (horizon, n_states, _) = one[0], one[0].shape
    for kept, table in ((some.visited, some.visits), (some.given, some.answers)):
        np.testing.assert_array_equal(kept.pooled, table.sum(axis=0))
        np.testing.assert_array_equal(StepCounts.of(table).keys, kept.keys)
        for state in range(n_states):
            np.testing.assert_array_equal(kept.in_state(state), table[:, state].sum(axis=0))
            np.testing.assert_array_equal(kept.in_state(state, horizon - 1), table[-1, state])
    assert_same(some, Counts.of_arrays(**some.arrays()))


def test_counts_of_different_problems_do_not_add() -> None:
    with pytest.raises(InputError, match=r"\[2, 3, 1\] and \[2, 3, 2\]"):
        Counts.empty((2, 3, 1)) + Counts.empty((2, 3, 2))
    with pytest.raises(InputError):
        Counts.empty((2, 3, 1)) + Counts.empty((2, 3, 1), stationary=False)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", [-1, 0.5, np.nan, np.inf])
def test_a_count_that_is_none_is_named(name: str, value: float) -> None:
    shape = (2, 3, 2)
    good = Counts.of_moves(random_moves(np.random.default_rng(0), shape, 9), shape)
    array = getattr(good, name).astype(np.float64)
    array[(0,) * array.ndim] = value
    with pytest.raises(InputError) as caught:
        Counts.of_arrays(**good.arrays() | {name: array})
    assert f"{name}{[0] * array.ndim} is {array[(0,) * array.ndim]}" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"answers": np.zeros((2, 3, 1))}, "answers [2, 3, 1]"),
        ({"starts": np.zeros(2)}, "starts [2]"),
        ({"visits": np.zeros((2, 3))}, "visits [2, 3]"),
        ({"move_counts": [1]}, "[2] and [1]"),
        ({"move_keys": [4, 4]}, "move_keys[1] is 4"),
        ({"move_keys": [4, 3]}, "move_keys[1] is 3"),
        ({"move_keys": [4, 18]}, "move_keys[1] is 18"),
        ({"move_counts": [1, 0]}, "move_counts[1] is 0"),
    ],
)
def test_parts_that_do_not_fit_are_named(changes: dict[str, Any], named: str) -> None:
    good = replace(Counts.empty((2, 3, 2)), move_keys=np.array([4, 17]), move_counts=np.array([1, 2]))
    with pytest.raises(InputError) as caught:
        Counts.of_arrays(**good.arrays() | changes)
    assert named in str(caught.value)


@pytest.mark.parametrize("field", ["step", "state", "action", "successor"])
@pytest.mark.parametrize("value", [-1, 7])
def test_a_move_that_cannot_be_is_named(field: str, value: int) -> None:
    moves = random_moves(np.random.default_rng(0), (2, 3, 2), 5)
    column = getattr(moves, field).copy()
    column[3] = value
    with pytest.raises(InputError, match=f"{field} {value}"):
        Counts.of_moves(replace(moves, **{field: column}), (2, 3, 2))


def test_a_move_seen_zero_times_was_not_seen() -> None:
    moves = replace(random_moves(np.random.default_rng(0), (2, 3, 2), 5), count=np.array([0, 0, 0, 0, 2]))
    estimate = Estimate.of(Counts.of_moves(moves, (2, 3, 2)), kind=ExpertKind(), delta=0.1)
    assert estimate.mdp.known.sum() == 2  # one pooled row, at both steps
    assert estimate.counts.samples == 2


@given(counts(), st.integers(0, 3))
def test_counts_that_grow_keep_what_was_seen(some: Counts, more: int) -> None:
    horizon, n_states, n_actions = some.shape
    large = some.grown(n_states + more)
    assert large.shape == (horizon, n_states + more, n_actions)
    assert (large.samples, large.questions) == (some.samples, some.questions)
    before, after = (Estimate.of(c, kind=ExpertKind(), delta=0.1).mdp for c in (some, large))
    kept = after.transitions.dense()[..., :n_states, :, :]
    np.testing.assert_array_equal(kept[..., :n_states], before.transitions.dense())
    assert not kept[..., n_states:].any()
    assert not after.known[:, n_states:].any()
    assert_same(large + large, (some + some).grown(n_states + more))


def test_what_follows_the_end_is_certain_without_being_seen() -> None:
    estimate = Estimate.of(Counts.empty((3, 2, 2)), kind=ExpertKind(), delta=0.1, terminal={1})
    np.testing.assert_array_equal(estimate.mdp.transitions.dense()[1], [[0.0, 1.0]] * 2)
    np.testing.assert_array_equal(estimate.expert_known, [[False, True]] * 3)
    assert not estimate.mdp.known[:, 0].any()
    assert estimate.counts.samples == 0


@given(counts())
def test_the_estimate_is_the_frequency_of_each_row(some: Counts) -> None:
    estimate = Estimate.of(some, kind=ExpertKind(), delta=0.1, initial=None)
    horizon, n_states, n_actions = some.shape
    lead = () if some.stationary else (horizon,)
    seen = np.zeros((*lead, n_states, n_actions, n_states))
    seen.ravel()[some.move_keys] = some.move_counts
    total = seen.sum(axis=-1)
    visits = some.visits.sum(axis=0) if some.stationary else some.visits
    np.testing.assert_array_equal(total, visits)
    np.testing.assert_array_equal(estimate.row_visits, np.broadcast_to(visits, some.shape))
    np.testing.assert_array_equal(estimate.mdp.known, np.broadcast_to(visits > 0, some.shape))
    np.testing.assert_allclose(estimate.mdp.transitions.dense(), seen / np.maximum(1, total)[..., None], rtol=1e-12)
    starts = some.starts.sum()
    np.testing.assert_allclose(estimate.mdp.initial, some.starts / max(1, starts), rtol=1e-12)
    assert not estimate.start_known


@given(shapes(), SEEDS, st.booleans(), st.booleans(), st.booleans())
def test_an_estimate_that_continues_another_says_what_a_new_one_does(
    shape: tuple[int, int, int], seed: int, stationary: bool, deterministic: bool, growing: bool
) -> None:
    """Batches that bring nothing new, new counts, new moves, new answers and new states."""
    rng = np.random.default_rng(seed)
    options: dict[str, Any] = {"kind": ExpertKind(deterministic, stationary), "delta": 0.1, "terminal": {0}}
    batch = Counts.of_moves(random_moves(rng, shape, 30), shape, stationary=stationary)
    answers = rng.integers(0, 2, shape)
    larger = (shape[0], shape[1] + growing, shape[2])
    other = Counts.of_moves(random_moves(rng, larger, 5), larger, stationary=stationary).with_answers(
        rng.integers(0, 2, larger)
    )
    before, so_far = None, batch.with_answers(answers)
    for new in (batch, batch, other, other):
        estimate = Estimate.of(so_far, before=before, **options)
        fresh = Estimate.of(so_far, **options)
        for name in ("indptr", "successors", "probabilities", "filled"):
            mine, theirs = (getattr(one.mdp.transitions, name) for one in (estimate, fresh))
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
        np.testing.assert_array_equal(estimate.mdp.initial, fresh.mdp.initial)
        for name in ("answered", "expert_known", "expert_policy", "expert_uses", "allowed", "known_actions"):
            np.testing.assert_array_equal(getattr(estimate, name), getattr(fresh, name), err_msg=name)
        before, so_far = estimate, so_far.grown(new.shape[1]) + new


@given(counts())
def test_samples_are_counted_by_adding_too(some: Counts) -> None:
    assert (some + some).samples == 2 * some.visits.sum()


def test_pooling_mixes_the_steps_and_the_per_step_estimate_does_not() -> None:
    # State 0 leads to 0 at step 0 (three times) and to 1 at step 1 (once).
    zero = np.zeros(2, dtype=np.int64)
    moves = Moves(np.array([0, 1]), zero, zero, np.array([0, 1]), np.array([3, 1]), np.array([4, 0]))
    pooled = Estimate.of(Counts.of_moves(moves, (2, 2, 1)), kind=ExpertKind(), delta=0.1).mdp
    np.testing.assert_allclose(pooled.transitions.dense()[0, 0], [0.75, 0.25])
    apart = Estimate.of(Counts.of_moves(moves, (2, 2, 1), stationary=False), kind=ExpertKind(), delta=0.1).mdp
    np.testing.assert_allclose(apart.transitions.dense()[:, 0, 0], [[1.0, 0.0], [0.0, 1.0]])


def test_a_told_start_is_taken_over_the_seen_one() -> None:
    told = np.array([0.5, 0.5])
    some = replace(Counts.empty((1, 2, 1)), starts=np.array([3, 0]))
    estimate = Estimate.of(some, kind=ExpertKind(), delta=0.1, initial=told)
    np.testing.assert_array_equal(estimate.mdp.initial, told)
    assert estimate.start_known


@pytest.mark.parametrize("stationary", [True, False])
def test_estimates_converge(stationary: bool) -> None:
    truth = random_mdp(np.random.default_rng(3), (3, 3, 2), stationary=stationary, sparsity=0.0)
    simulator = Simulator(truth, hide_start=True)
    for episodes in (10**3, 10**5, 10**7):
        moves = simulator.rollout(np.full(truth.shape, 0.5), episodes, np.random.default_rng(1))
        some = Counts.of_moves(moves, truth.shape, stationary=stationary)
        estimate = Estimate.of(some, kind=ExpertKind(), delta=0.1)
        visits = estimate.row_visits[0] if stationary else estimate.row_visits
        # Six standard deviations of a frequency, at most 1/2 over the root of the number.
        assert (
            np.abs(estimate.mdp.transitions.dense() - truth.transitions.dense()) <= 3 / np.sqrt(visits)[..., None]
        ).all()
        assert (np.abs(estimate.mdp.initial - truth.initial) <= 3 / np.sqrt(episodes)).all()


def test_the_expert_is_known_where_it_must_be() -> None:
    """One answer at (h=1, s=0), two different ones at (h=0, s=1), none elsewhere."""
    answers = np.zeros((2, 3, 2), dtype=np.int64)
    answers[1, 0, 1] = 1
    answers[0, 1] = [1, 3]
    some = Counts.empty((2, 3, 2)).with_answers(answers)

    def policy(kind: ExpertKind) -> tuple[FloatArray, Any]:
        estimate = Estimate.of(some, kind=kind, delta=0.1)
        return estimate.expert_policy, estimate.expert_known

    table, known = policy(ExpertKind(deterministic=True, stationary=False))
    np.testing.assert_array_equal(known, [[False, True, False], [True, False, False]])
    np.testing.assert_array_equal(table[:, 0], [[0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_array_equal(table[0, 1], [0.0, 1.0])

    table, known = policy(ExpertKind(deterministic=True, stationary=True))
    np.testing.assert_array_equal(known, [[True, True, False]] * 2)
    np.testing.assert_array_equal(table[:, 0], [[0.0, 1.0]] * 2)

    table, known = policy(ExpertKind(deterministic=False, stationary=False))
    assert not known.any()
    np.testing.assert_array_equal(table[0, 1], [0.25, 0.75])
    np.testing.assert_array_equal(table[1, 1], [0.5, 0.5])

    table, known = policy(ExpertKind(deterministic=False, stationary=True))
    assert not known.any()
    np.testing.assert_array_equal(table[:, 1], [[0.25, 0.75]] * 2)


@given(counts(), st.booleans(), st.booleans())
def test_an_expert_policy_is_always_a_distribution(some: Counts, deterministic: bool, stationary: bool) -> None:
    kind = ExpertKind(deterministic=deterministic, stationary=stationary)
    estimate = Estimate.of(some, kind=kind, delta=0.1)
    np.testing.assert_allclose(estimate.expert_policy.sum(axis=2), 1.0, rtol=1e-12)
    asked = kind.pooled(some.answers).sum(axis=2) > 0
    assert (estimate.expert_policy[~asked] == 1 / some.shape[2]).all()
    assert not estimate.expert_known[~asked].any()
    np.testing.assert_array_equal(estimate.expert_known, asked & deterministic)


@pytest.mark.parametrize("floor", [0.0, -0.1, 1.5])
def test_a_wrong_floor_is_named(floor: float) -> None:
    with pytest.raises(InputError, match=f"least_probability.*{floor}"):
        ExpertKind(deterministic=False, least_probability=floor)


def test_a_stochastic_expert_is_settled_after_the_right_number_of_answers() -> None:
    # H·S·A = 2, δ = 0.1, floor 0.1: m ≥ log(20)/-log(0.9) = 28.4.
    kind = ExpertKind(deterministic=False, least_probability=0.1)
    settled = [bool(kind.settled(np.array([[[m, 0]]]), delta=0.1)[0, 0]) for m in (0, 1, 28, 29, 1000)]
    assert settled == [False, False, False, True, True]
    sure = ExpertKind(deterministic=False, least_probability=1.0)
    assert sure.settled(np.array([[[1, 0]]]), delta=0.1).all()


def test_a_stationary_stochastic_expert_is_settled_at_every_step_at_once() -> None:
    answers = np.zeros((4, 1, 2), dtype=np.int64)
    answers[:, 0, 0] = 20
    for stationary in (True, False):
        kind = ExpertKind(deterministic=False, stationary=stationary, least_probability=0.1)
        assert kind.settled(answers, delta=0.1).all() == stationary


@pytest.mark.parametrize(
    "used", [np.array([[0.1, 0.9]]), np.array([[0.1, 0.3, 0.6], [0.5, 0.4, 0.1], [0.1, 0.1, 0.8]])]
)
def test_a_settled_expert_hides_no_action_it_uses(used: FloatArray) -> None:
    """Ask until settled; the share of runs that missed a used action anywhere is at most δ."""
    delta, runs = 0.2, 2000
    kind = ExpertKind(deterministic=False, least_probability=0.1)
    rng = np.random.default_rng(0)
    one = np.zeros((1, *used.shape), dtype=np.int64)
    one[:, :, 0] = 1
    needed = next(m for m in range(1, 1000) if kind.settled(m * one, delta).all())

    def missed(answers: int) -> int:
        asked = np.full((runs, len(used)), answers)
        return int((rng.multinomial(asked, used) == 0).any(axis=(1, 2)).sum())

    limit = binom.isf(1e-7, runs, delta)
    assert missed(needed) <= limit
    assert missed(needed // 2) > limit  # half the answers would not do: the test can fail


@pytest.mark.parametrize("size", [20, 200])
@pytest.mark.parametrize("highest", [40, 10**12])
def test_equal_keys_are_counted_together_whether_there_are_few_or_many_of_them(size: int, highest: int) -> None:
    rng = np.random.default_rng(0)
    keys, counts = rng.integers(highest, size=size), rng.integers(3, size=size)
    keys[size // 2 :] = keys[: size // 2]
    expected: dict[int, int] = {}
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        expected[key] = expected.get(key, 0) + count
    expected = {key: count for key, count in sorted(expected.items()) if count}
    found, often = _merge(keys, counts)
    assert dict(zip(found.tolist(), often.tolist(), strict=True)) == expected
    assert found.tolist() == list(expected)
    assert [array.size for array in _merge(keys, np.zeros_like(counts))] == [0, 0]


@pytest.mark.parametrize("state", [-1, 3, 3_000_000])
@pytest.mark.parametrize("stationary", [True, False])
def test_an_end_that_is_no_state_is_named(state: int, stationary: bool) -> None:
    counts = Counts.empty((2, 3, 1), stationary=stationary)
    estimate = Estimate.of(counts, kind=ExpertKind(), delta=0.1, terminal=[1, state])
    with pytest.raises(InputError, match=f"end in the state {state}, not one of 0 to 2"):
        _ = estimate.mdp


def test_a_start_that_the_environment_tells_is_checked() -> None:
    for told, said in (([0.5, 0.6, 0.0], "initial sums to 1.1"), ([1.0, 0.0], r"initial must have shape \[3\]")):
        estimate = Estimate.of(Counts.empty((2, 3, 1)), kind=ExpertKind(), delta=0.1, initial=np.array(told))
        with pytest.raises(InputError, match=said):
            _ = estimate.mdp
