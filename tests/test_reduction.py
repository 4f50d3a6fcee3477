"""Fewer fields: left out is what neither moves nor answers depend on, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from aceirl.models.fields import Field, FieldTable
from aceirl.models.fields.reduction import reduced
from aceirl.models.tabular.counts import Counts, StepCounts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.rewards.hypotheses.evidence import GivenAnswers

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


def walked(move: Move, expert: Callable[[int, int], int], **kind: bool) -> tuple[Estimate, FieldTable, list[State]]:
    """Random episodes in rooms with a clock, and an answer in each state at the step at which it was met first."""
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
    fewer, rooms = found
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
    for number in range(ROOMS):
        right = to_the_left(int(rooms.values[number, 1]), 0)
        assert counts.given.pooled[number, right] == sum(room == rooms.values[number, 1] for room, _ in states)
        assert counts.given.pooled[number, 1 - right] == 0


def test_what_a_move_or_an_answer_depends_on_is_kept() -> None:
    for move, expert in ((by_day, to_the_left), (corridor, but_at_noon), (slippery, to_the_left)):
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
    given = GivenAnswers.of(found[0].counts, found[0].terminal_states)
    once = given.once()
    assert given.number > 200
    assert once.number == len(once.state) == len(set(once.state.tolist())) == ROOMS
    for state, step in zip(once.state.tolist(), once.step.tolist(), strict=True):
        assert step == given.step[given.state == state].min()
