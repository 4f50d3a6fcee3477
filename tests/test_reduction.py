"""Fewer fields: left out is what neither moves nor answers depend on, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from aceirl import ActiveIRL
from aceirl.irl import SparseLikelihood
from aceirl.irl.alternatives import alternatives_in
from aceirl.irl.belief import KEPT, Inference
from aceirl.irl.likelihood import Likelihood
from aceirl.models.fields import Field, FieldTable
from aceirl.models.fields.reduction import reduced
from aceirl.models.tabular.confidence import hoeffding
from aceirl.models.tabular.counts import Counts, StepCounts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.model import TabularModel
from aceirl.rewards import StateReward
from aceirl.rewards.hypotheses.evidence import GivenAnswers
from aceirl.rewards.recovered import expanded
from studies.large import HORIZON, Warehouse, driver

State = tuple[int, int]
ROOMS, HOURS, STEPS = 6, 40, 30
Move = Callable[[int, int, int, np.random.Generator], int]


def corridor(room: int, hour: int, action: int, rng: np.random.Generator) -> int:
    """One room to the left or to the right, whatever the hour."""
    return min(ROOMS - 1, max(0, room + (-1, 1)[action]))


def by_day(room: int, hour: int, action: int, rng: np.random.Generator) -> int:
    """The same, but at one hour nothing moves."""
    return room if hour == 7 else corridor(room, hour, action, rng)


def slippery(room: int, hour: int, action: int, rng: np.random.Generator) -> int:
    """The same, but one move in ten fails."""
    return room if rng.random() < 0.1 else corridor(room, hour, action, rng)


def to_the_left(room: int, hour: int) -> int:
    return 0 if room > 2 else 1


def but_at_noon(room: int, hour: int) -> int:
    return 1 if hour == 12 else to_the_left(room, hour)


def home(room: int, hour: int) -> int:
    return 0


def walked(
    move: Move, expert: Callable[[int, int], int], *, clock: bool = True, **kind: bool
) -> tuple[Estimate, FieldTable, list[State]]:
    """Random episodes in rooms with a clock, and an answer in each state at the step at which it was met first.

    Without the `clock` the same was done and said, by and to somebody who does not see it.
    """
    rng, numbers, walks, starts = np.random.default_rng(0), dict[State, int](), [], []
    answers: list[tuple[int, int, int]] = []
    for _ in range(150):
        state, walk = (int(rng.integers(ROOMS)), int(rng.integers(HOURS))), []
        starts.append(numbers.setdefault(state, len(numbers)))
        for step in range(STEPS):
            here, action = numbers[state], int(rng.integers(2))
            if here == len(answers):
                answers.append((step, here, expert(*state)))
            state = move(*state, action, rng), (state[1] + 1) % HOURS
            walk.append((step, here, action, numbers.setdefault(state, len(numbers))))
            if len(numbers) > len(answers) + 1:
                raise AssertionError("states are answered for as they are met")
        walks.append(walk)
        if len(answers) < len(numbers):  # the last state of the episode
            answers.append((STEPS - 1, len(answers), expert(*state)))
    if not clock:
        rooms = {room: k for k, room in enumerate(dict.fromkeys(room for room, _ in numbers))}
        one = [rooms[room] for room, _ in numbers]
        starts, answers = [one[s] for s in starts], [(h, one[s], a) for h, s, a in answers]
        walks = [[(h, one[s], a, one[t]) for h, s, a, t in walk] for walk in walks]
        numbers = {(room, 0): k for room, k in rooms.items()}
    shape = (STEPS, len(numbers), 2)
    counts = Counts.of_walks(starts, walks, shape, stationary=True)
    counts = replace(counts, given=StepCounts.at(shape, *np.array(answers).T))
    expected = ExpertKind(**{"deterministic": True, "stationary": True, **kind})
    table = FieldTable(
        (Field("hour", "circular"), Field("room", "ordered")),
        np.array([(hour, room) for room, hour in numbers], dtype=np.float64),
        np.zeros(len(numbers), dtype=np.bool_),
    )
    return Estimate.of(counts, kind=expected, delta=0.1), table, list(numbers)


def test_states_that_differ_in_a_clock_alone_are_one() -> None:
    estimate, table, states = walked(corridor, to_the_left)
    found = reduced(estimate, table)
    assert found is not None
    fewer, rooms = found.estimate, found.table
    counts, before = fewer.counts, estimate.counts
    assert len(states) > 200
    assert counts.shape == (STEPS, ROOMS, 2)
    assert len(set(rooms.values[:, 0])) == 1
    assert sorted(rooms.values[:, 1]) == list(range(ROOMS))
    row, after = np.divmod(counts.move_keys, ROOMS)
    rng = np.random.default_rng(0)
    for one, there in zip(row.tolist(), after.tolist(), strict=True):
        room, action = int(rooms.values[one // 2, 1]), one % 2
        assert rooms.values[there, 1] == corridor(room, 0, action, rng)
    assert (counts.samples, counts.episodes, counts.questions) == (before.samples, before.episodes, before.questions)
    assert [states[first][0] for first in found.first] == rooms.values[:, 1].tolist()
    assert [rooms.values[number, 1] for number in found.numbers] == [room for room, _ in states]
    somewhere = np.array([(5.5, 3.0), (0.0, 99.0)])
    assert found.found(somewhere, np.array([False, False])).tolist() == [rooms.values[:, 1].tolist().index(3), -1]
    assert found.found(somewhere, np.array([True, True])).tolist() == [-1, -1]
    for number in range(ROOMS):
        right = to_the_left(int(rooms.values[number, 1]), 0)
        assert counts.given.pooled[number, right] == sum(room == rooms.values[number, 1] for room, _ in states)
        assert counts.given.pooled[number, 1 - right] == 0


def test_what_a_move_or_an_answer_depends_on_is_kept() -> None:
    # Who always says the same does not look at the room, which follows from what is done and may be what is wanted.
    for move, expert in ((by_day, to_the_left), (corridor, but_at_noon), (slippery, to_the_left), (by_day, home)):
        estimate, table, _ = walked(move, expert)
        assert reduced(estimate, table) is None


def test_an_expert_who_may_say_either_thing_is_not_merged() -> None:
    for kind in ({"deterministic": False}, {"stationary": False}):
        estimate, table, _ = walked(corridor, to_the_left, **kind)
        assert reduced(estimate, table) is None


def test_merged_answers_count_once_and_are_the_earliest() -> None:
    estimate, table, _ = walked(corridor, to_the_left)
    found = reduced(estimate, table)
    assert found is not None
    given = GivenAnswers.of(found.estimate.counts, found.estimate.terminal_states)
    once = given.once()
    assert given.number > 200
    assert once.number == len(once.state) == len(set(once.state.tolist())) == ROOMS
    for state, step in zip(once.state.tolist(), once.step.tolist(), strict=True):
        assert step == given.step[given.state == state].min()


@pytest.mark.parametrize("expert", [home, to_the_left])
def test_a_reward_in_fewer_states_is_that_of_somebody_who_does_not_see_the_clock(
    expert: Callable[[int, int], int],
) -> None:
    estimate, table, states = walked(corridor, expert)
    blind, _, rooms = walked(corridor, expert, clock=False)
    found = reduced(estimate, table)
    assert found is not None
    merged = expanded(SparseLikelihood()(found.estimate, 1.0), estimate, found.numbers)
    alone = SparseLikelihood()(blind, 1.0)
    where = np.array([rooms.index((room, 0)) for room, _ in states])
    np.testing.assert_allclose(merged.reward, alone.reward[:, where], atol=1e-9)
    said, told = merged.explanation, alone.explanation
    assert said is not None
    assert told is not None
    assert said.goals == [s for s in range(len(states)) if where[s] in told.goals]
    assert (said.space, said.compared, said.explained) == ("state", told.compared, told.explained)
    # All answers are explained in the states of the run too, and better than by the places that are sought there.
    likelihood, unmerged = Likelihood(estimate), SparseLikelihood()(estimate, 1.0, space=StateReward())
    compared, explained = likelihood.explained(merged.reward)
    assert (compared == explained).all()
    assert compared.sum() > 200
    assert likelihood.loss(merged.reward) < likelihood.loss(unmerged.reward)


def test_the_engine_seeks_the_reward_in_fewer_states_only_where_nothing_depends_on_the_others() -> None:
    for move, merges in ((corridor, True), (by_day, False)):
        estimate, table, states = walked(move, home)
        model = TabularModel(estimate, hoeffding, 1.0, 0.1)
        vars(model)["fields"], vars(model)["fewer"] = table, reduced(estimate, table)
        recovered = Inference(model, SparseLikelihood(), None, None).recovered
        assert (KEPT in recovered.parameters) == merges
        whole = SparseLikelihood()(estimate, 1.0, {})
        at_home = np.array([room == 0 for room, _ in states])
        if merges:
            assert recovered.reward[:, at_home].min() == 1.0
            assert recovered.reward[:, ~at_home].max() < 0.5
        else:
            np.testing.assert_array_equal(recovered.reward, whole.reward)


def test_alternatives_in_fewer_states_are_those_of_all_that_are_one() -> None:
    estimate, table, states = walked(corridor, home)
    found = reduced(estimate, table)
    assert found is not None
    said = expanded(SparseLikelihood()(found.estimate, 1.0), estimate, found.numbers).explanation
    assert said is not None
    design = StateReward().design_matrix(estimate.mdp, estimate.terminal_states)
    alternatives = alternatives_in(found, design, said)
    assert alternatives is not None
    samples = alternatives.samples
    assert samples.shape[1] == len(states)
    np.testing.assert_array_equal(samples, samples[:, found.first][:, found.numbers])
    assert len(np.unique(samples, axis=0)) > 1
    assert alternatives.goals[:40] == said.goals
    rooms = {states[s][0] for s in alternatives.undetermined}
    assert alternatives.undetermined == [s for s in range(len(states)) if states[s][0] in rooms]
    assert 0 in rooms
    assert len(rooms) < ROOMS
    spoilt = np.where(np.arange(len(states)) == said.goals[0], 0.5, said.map_estimate)
    assert alternatives_in(found, design, replace(said, map_estimate=spoilt)) is None


def test_a_reward_in_fewer_states_is_taken_to_states_that_were_never_met() -> None:
    env = Warehouse(8, 150)
    learner = ActiveIRL(max_samples=500, certify=None, infer_after_growth=20.0)
    result = learner.fit(env, driver(env.floor), horizon=HORIZON)
    turn = result.turn
    fields, fewer = turn.belief.table.fields, turn.belief.table.fewer
    assert fields is not None
    assert fewer is not None
    assert fewer.kept == (0, 1, 2)
    access = turn.belief.table.access
    assert access is not None
    access.encode((*env.floor.dock, 0, 149))  # met by somebody else, later
    later = replace(turn.belief.table, rmax=2.0).fewer
    assert later is not None
    np.testing.assert_array_equal(later.numbers, fewer.numbers)
    dock = (fields.values[:, :3] == (*env.floor.dock, 1)).all(axis=1)
    assert 1 < dock.sum() < 150, "some of the dock was never met"
    paid = turn.belief.recovered.reward[:, dock]
    assert (paid == 1.0).all()
    target = Warehouse(8, 150, start=env.floor.depot)
    moved = result.transfer(target)
    assert len(moved.unmet) < 0.2 * (moved.policy.shape[1] - len(dock)), "of most states that were never met"
    assert moved.regret is not None
    assert moved.regret < 0.01
    # What wishes of fields pay is known there too: they are not counted as lost.
    assert turn.wish.likeliest[0][0].features
    assert moved.loses_more_than["0.5"] < 0.3
