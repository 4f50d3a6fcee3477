"""What the expert wants, in words: every kind of sentence, from explanations made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from estimates import explained, observed

from aceirl import goal
from aceirl.counts import Estimate
from aceirl.dynamic_programming import optimal_values
from aceirl.envs import make
from aceirl.goal import EXPERT, LONGEST, YOU, Person, explained_answers, goal_in_words, listed
from aceirl.mdp import FloatArray
from aceirl.rewards import AnyReward, Explanation, FeatureReward, RewardSpace, StateReward, estimated_conflict

NAMES = ("start", "room 1", "room 2", "room 3", "pit", "door")
ACTIONS = ("stay", "go", "jump")


def explanation(by_place: dict[int, float], **changes: Any) -> Explanation:
    """A reward of places, and hurry, that explains seven of eight answers; `by_place` are its parameters."""
    likeliest = np.zeros(7)
    likeliest[list(by_place)] = list(by_place.values())
    values: dict[str, Any] = {
        "space": "state",
        "theta": likeliest,
        "likeliest": likeliest,
        "states": np.array([0, 1, 2, 3, 4, 5, -1]),
        "actions": np.full(7, -1),
        "hurries": True,
        "answers": 1234,
        "compared": 8,
        "explained": 7,
        "loss": 1.0,
        "chance": 9.0,
        "expected": 1.0,
        "deviation": 1.0,
        "error_rate": 0.0,
        "importance": np.where(likeliest != 0, 3.0, 0.0),
        "paid": np.repeat(likeliest[:6, None], 3, axis=1),
        "ends": np.zeros(6, dtype=bool),
        "horizon": 10,
    }
    return Explanation(**{**values, **changes})


ENDS = np.array([False, False, False, False, True, True])


def said(
    found: Explanation | None,
    goals: tuple[int, ...] = (),
    undetermined: tuple[int, ...] = (),
    actions: tuple[str, ...] = ACTIONS,
    estimate: Estimate | None = None,
    names: tuple[str, ...] = NAMES,
    space: RewardSpace | None = None,
    who: Person = EXPERT,
) -> list[str]:
    """The sentences; `goals` and `undetermined` are what other rewards that are about as likely say."""
    alternatives = SimpleNamespace(goals=list(goals), undetermined=list(undetermined))
    belief = SimpleNamespace(estimate=estimate)
    turn = SimpleNamespace(explanation=found, alternatives=alternatives, belief=belief, space=space)
    lines = goal_in_words(turn, names, actions, who)  # type: ignore[arg-type]
    return [line for line in lines if not line.startswith(("It makes these answers ", "This wish makes your answers "))]


def test_a_goal_and_nothing_else() -> None:
    assert said(explanation({2: 1.0}), goals=(2,), undetermined=(2,)) == [
        "The expert wants to be in room 2 (explains 7 of 8 answers).",
        "It does not care which way it gets there.",
        "Every other place is worth less to it.",
    ]


def test_several_goals() -> None:
    first, *_ = said(explanation({1: 1.0, 2: 1.0, 5: 1.0}), goals=(1, 2, 5))
    assert first == "The expert wants to be in room 1 to room 2, door (explains 7 of 8 answers)."


def test_an_end_is_reached_and_hurry_is_told() -> None:
    calm = explanation({5: 1.0}, ends=ENDS)
    assert said(calm, goals=(5,))[:2] == [
        "The expert wants to reach door (explains 7 of 8 answers).",
        "It does not care which way it gets there.",
    ]
    hurried = said(explanation({5: 1.0, 6: 0.1}, ends=ENDS), goals=(5,))
    assert hurried[0] == (
        "The expert wants to reach door, and is in a hurry: every step before the end costs it something "
        "(explains 7 of 8 answers)."
    )
    assert not any("which way" in line for line in hurried), "the shortest way matters to who is in a hurry"


def test_what_is_avoided_with_and_without_a_goal() -> None:
    both = said(explanation({2: 1.0, 4: -0.5}), goals=(2,), undetermined=(2,))
    assert both[0] == "The expert wants to be in room 2, and avoids pit (explains 7 of 8 answers)."
    assert not any("which way" in line for line in both)
    assert said(explanation({4: -1.0, 3: -0.25}), undetermined=(0, 1, 2)) == [
        "The expert avoids pit, room 3 (explains 7 of 8 answers).",
        "Which of the others it likes best is not determined: start, room 1 to room 2.",
    ]
    assert said(explanation({4: -1.0})) == ["The expert avoids pit (explains 7 of 8 answers)."]


def test_an_expert_who_is_in_no_place_for_its_own_sake() -> None:
    assert said(explanation({6: -1.0}, ends=ENDS))[0].startswith("The expert wants its episodes to last (")
    assert said(explanation({}))[0].startswith("The expert wants nothing in particular (")


@pytest.mark.parametrize(
    ("paid", "actions", "wish"),
    [
        ([0.0, 1.0, 0.0], ACTIONS, "do “go” in room 2"),
        ([1.0, 1.0, 0.0], ACTIONS, "do “stay or go” in room 2"),
        ([1.0, 1.0, 1.0], ACTIONS, "be in room 2"),
        ([0.0, 1.0, 0.0], (), "be in room 2"),
    ],
)
def test_what_it_does_there(paid: list[float], actions: tuple[str, ...], wish: str) -> None:
    table = np.zeros((6, 3))
    table[2] = paid
    found = explanation({2: 1.0}, space="state-action", paid=table)
    assert said(found, goals=(2,), actions=actions)[0] == f"The expert wants to {wish} (explains 7 of 8 answers)."
    ends = explanation({5: 1.0}, space="state-action", ends=ENDS)
    assert said(ends, goals=(5,), actions=actions)[0].startswith("The expert wants to reach door (")


def test_other_places_that_are_paid_for() -> None:
    found = explanation({2: 1.0, 1: 0.25, 3: 0.5, 0: 0.1})
    lines = said(found, goals=(2,), undetermined=(2,))
    assert lines[1] == "It also likes to be in room 3 (50%), room 1 (25%), start (10%) of what the goal pays."
    assert not any("which way" in line for line in lines)
    importance = np.where(np.arange(7) == 3, goal.SLIGHT, goal.SLIGHT - 0.01)
    slight = explanation({2: 1.0, 1: 0.25, 3: 0.5}, importance=importance)
    assert said(slight, goals=(2,))[1] == "It also likes to be in room 3 (50%) of what the goal pays."


@pytest.mark.parametrize(("gain", "times"), [(np.log(4), "4"), (np.log(1500), "1,500"), (30.0, "over a million")])
@pytest.mark.parametrize("answers", [8, 11])
def test_how_much_likelier_the_answers_are_is_told(gain: float, times: str, answers: int) -> None:
    found = explanation({2: 1.0}, loss=0.0, expected=0.0, chance=gain, answers=answers)
    alternatives = SimpleNamespace(goals=[2], undetermined=[])
    turn = SimpleNamespace(explanation=found, alternatives=alternatives, space=None)
    more = "" if answers == 8 else "; 3 more cannot be compared with anything that was tried"
    lines = goal_in_words(turn, NAMES)  # type: ignore[arg-type]
    assert f"It makes these answers {times} times likelier than chance{more}." in lines


def test_rivals_and_what_is_not_determined() -> None:
    lines = said(explanation({2: 1.0}), goals=(2, 1, 5), undetermined=(0, 1, 2, 3, 5))
    assert lines[2:] == [
        "What it wants may also be room 1, door: the answers fit that too.",
        "Not determined: start, room 1, room 3, door; the answers would fit about as well if any "
        "one of these 4 places were worth as much as the goal.",
    ]
    one = said(explanation({2: 1.0}), goals=(2,), undetermined=(2, 5))
    assert one[-1] == "Not determined: door; the answers would fit about as well if it were worth as much as the goal."


def test_places_that_only_the_mean_pays_for_are_not_told() -> None:
    """It says what is likeliest; the mean, which is planned with, has a little of all that is about as likely."""
    mean = np.array([0.1, -0.1, 1.0, 0.2, 0.0, 0.0, 0.0])
    blurred = explanation({2: 1.0}, theta=mean, paid=np.repeat(mean[:6, None], 3, axis=1))
    assert said(blurred, goals=(2,)) == said(explanation({2: 1.0}), goals=(2,))


def test_errors_are_told() -> None:
    assert said(explanation({2: 1.0}, error_rate=0.05))[-1] == "About 5% of the answers seem to be errors."
    assert not any("errors" in line for line in said(explanation({2: 1.0})))


def test_features_are_told_by_their_weights_the_largest_first() -> None:
    found = explanation(
        {0: 0.25, 1: -1.0, 6: 0.1},
        space="features",
        states=np.full(7, -1),
        theta=np.full(7, 0.5),
        error_rate=0.1,
    )
    assert said(found) == [
        "The expert's reward is a sum of features, with the weights feature 1: -1, feature 0: 0.25, hurry: 0.1 "
        "(explains 7 of 8 answers).",
        "About 10% of the answers seem to be errors.",
    ]
    endless = explanation({6: 1.0}, space="features", states=np.full(7, -1), hurries=False)
    assert "feature 6: 1 (" in said(endless)[0]
    named = FeatureReward(np.zeros((6, 6)), names=("warm", "wet"))
    assert "weights wet: -1, warm: 0.25, hurry: 0.1 (" in said(found, space=named)[0]


def test_who_is_not_explained_gets_no_goal() -> None:
    found = explanation({2: 1.0}, loss=9.0, expected=9.0)
    assert said(found, goals=(2,), undetermined=(1, 2)) == [
        "The answers tell little of what the expert wants: explains 7 of 8 answers, hardly more than chance would."
    ]


def test_nothing_is_said_where_the_algorithm_does_not_say() -> None:
    assert said(None) == []


@pytest.mark.parametrize("space", ["state", "any"])
def test_without_answers_nothing_is_claimed(space: str) -> None:
    found = explanation({2: 1.0}, space=space, answers=0, compared=0, explained=0, loss=0.0, chance=0.0)
    assert said(found) == ["There is no answer of the expert to go by: the recovered reward means nothing."]


def random_answers(samples: int = 3000) -> tuple[Explanation, Estimate, tuple[str, ...]]:
    """Of an expert whose reward depends on the step."""
    problem = make("random-mdp", 0)
    estimate = observed(problem, "uniform", samples, 0)
    return explained(estimate), estimate, problem.layout.state_names


def test_an_expert_whose_reward_depends_on_the_step_and_answers_that_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goal, "MOST_ANSWERS", 10_000)
    found, estimate, names = random_answers()
    assert found.space == "any"
    actions = tuple(f"act {a}" for a in range(estimate.mdp.n_actions))
    first, conflict = said(found, estimate=estimate, names=names, actions=actions)
    assert first.startswith("The answers name no goal: no reward of places, or of actions in places, explains the ")
    assert f"the {found.answers:,} answers." in first
    entries = estimated_conflict(estimate, StateReward())
    assert len(entries) > 1
    assert all(estimate.counts.answers[h, s, a] for h, s, a in entries)
    told = [f"act {a} in {names[s]} at step {h + 1}" for h, s, a in entries]
    told_first = "As far as the estimated dynamics tell, no reward of places explains these answers together: "
    assert conflict == f"{told_first}{'; '.join(told)}."

    monkeypatch.setattr(goal, "MOST_ANSWERS", 1)
    _, shortened = said(found, estimate=estimate, names=names, actions=())
    h, s, a = entries[0]
    assert shortened.endswith(f"together: action {a} in {names[s]} at step {h + 1}; and {len(entries) - 1} more.")
    monkeypatch.setattr(goal, "LARGE", estimate.counts.visits.size - 1)
    assert said(found, estimate=estimate, names=names) == [first]
    monkeypatch.undo()
    monkeypatch.setattr(goal, "estimated_conflict", lambda *_: [])
    assert said(found, estimate=estimate, names=names) == [first]


def test_who_asked_for_a_table_is_not_told_that_places_explain_nothing() -> None:
    """Nobody has tried."""
    found, estimate, names = random_answers(200)
    told = said(found, estimate=estimate, names=names, space=AnyReward())
    assert told == ["The recovered reward, of the space any, repeats what the expert does; it names no goal."]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["d10"], "d10"),
        (["l5", "l6", "l7", "u7", "u9", "u10"], "l5 to l7, u7, u9 to u10"),
        (["l9", "u10"], "l9, u10"),
        (["b2", "b1"], "b2, b1"),
        (["7", "8", "9"], "7 to 9"),
        (["a08", "a09", "a10"], "a08 to a09, a10"),
        (["state l5", "state l6", "state u7"], "state l5 to l6, u7"),
        (["state 3"], "state 3"),
        (["room 1", "room 2", "door"], "room 1 to room 2, door"),
        (["3,1", "3,2", "1,3"], "3,1 to 3,2; 1,3"),
        (["at the door, with a key", "delivered"], "at the door, with a key; delivered"),
    ],
)
def test_a_list_of_names(names: list[str], text: str) -> None:
    assert listed(names) == text


def test_of_many_names_the_first_are_told() -> None:
    every_other = [f"cell {k}" for k in range(0, 100, 2)]
    most = LONGEST // len("cell 98")
    assert listed(every_other) == ", ".join(every_other[:most]) + f" and {50 - most} more"
    long = [f"{'x' * 200} {letter}" for letter in "abcd"]
    assert listed(long) == f"{long[0]}, {long[1]} and 2 more", "two at least"
    assert listed([f"cell {k}" for k in range(100)]) == "cell 0 to cell 99"


def test_the_table_of_a_real_run_is_told_in_its_own_names() -> None:
    problem = make("gridworld", 0)
    found = explained(observed(problem, "uniform", 400, 0))
    truth: FloatArray = problem.reward.max(axis=(0, 2))
    name = problem.layout.state_names[int(truth.argmax())]
    first, *_ = said(found, names=problem.layout.state_names)
    assert first == f"The expert wants to be in {name} (explains {found.explained} of {found.compared} answers)."


@pytest.mark.parametrize(
    ("found", "others", "lines"),
    [
        (
            explanation({2: 1.0}),
            ((2,), (2,)),
            [
                "You seem to want to be in room 2 (explains 7 of 8 answers).",
                "You do not seem to care which way you get there.",
                "Every other place is worth less to you.",
            ],
        ),
        (
            explanation({5: 1.0, 6: 0.1, 4: -0.5, 3: 0.5}, ends=ENDS),
            ((5, 1), (1,)),
            [
                "You seem to want to reach door, and to be in a hurry: every step before the end costs you something, "
                "and to avoid pit (explains 7 of 8 answers).",
                "You also seem to like to be in room 3 (50%) of what the goal pays.",
                "What you want may also be room 1: the answers fit that too.",
                "Not determined: room 1; the answers would fit about as well if it were worth as much as the goal.",
            ],
        ),
        (
            explanation({4: -1.0}),
            ((), (0, 1)),
            [
                "You seem to avoid pit (explains 7 of 8 answers).",
                "Which of the others you like best is not determined: start, room 1.",
            ],
        ),
        (
            explanation({6: -1.0}, ends=ENDS),
            ((), ()),
            ["You seem to want the episodes to last (explains 7 of 8 answers)."],
        ),
        (
            explanation({2: 1.0}, answers=0),
            ((), ()),
            ["There is no answer of yours to go by: the recovered reward means nothing."],
        ),
    ],
)
def test_whoever_reads_it_is_spoken_to(
    found: Explanation, others: tuple[tuple[int, ...], tuple[int, ...]], lines: list[str]
) -> None:
    told = said(found, *others, who=YOU)
    assert told == lines
    assert not any(word in line.split() for line in told for word in ("expert", "It"))


def test_the_answer_that_does_not_fit_the_others_is_found() -> None:
    """Someone who wants one cell of a room, and in another cell says what leads away from it."""
    problem, odd = make("gridworld", 0), 4
    q = optimal_values(problem.mdp, problem.reward)[0]
    expert = np.array(problem.expert, dtype=np.float64)
    expert[:, odd] = np.eye(q.shape[2])[q[:, odd].argmin(axis=1)]
    estimate = observed(problem, "uniform", 2000, 0, expert)
    space = StateReward()
    alternatives = SimpleNamespace(
        over=space.over(estimate.mdp, estimate.over), theta=explained(estimate, space).likeliest
    )
    turn = SimpleNamespace(alternatives=alternatives, belief=SimpleNamespace(estimate=estimate))
    verdicts = explained_answers(turn)  # type: ignore[arg-type]
    assert verdicts == {state: state != odd for state in range(9)}
    assert explained_answers(SimpleNamespace(alternatives=None)) == {}  # type: ignore[arg-type]
