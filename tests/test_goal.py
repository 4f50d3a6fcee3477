"""What the expert wants, in words: every kind of sentence, from explanations made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from estimates import explained, observed

from aceirl.envs import make
from aceirl.explain import goal
from aceirl.explain.goal import explained_answers, goal_in_words
from aceirl.explain.listing import EXPERT, LONGEST, YOU, Person, listed
from aceirl.explain.wish import said_wish
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.estimate import Estimate
from aceirl.models.tabular.mdp import FloatArray
from aceirl.rewards import AnyReward, Explanation, FeatureReward, RewardSpace, StateReward, estimated_conflict
from aceirl.rewards.hypotheses import Claim, Hypothesis, Named, Wish, wish_of
from aceirl.rewards.hypotheses.wish import ENOUGH, Kind

NAMES = ("start", "room 1", "room 2", "room 3", "pit", "door")
ACTIONS = ("stay", "go", "jump")


def explanation(by_place: dict[int, float], **changes: Any) -> Explanation:
    """A reward of places, and a step cost, that explains seven of eight answers; `by_place` are its parameters."""
    map_estimate = np.zeros(7)
    map_estimate[list(by_place)] = list(by_place.values())
    values: dict[str, Any] = {
        "space": "state",
        "theta": map_estimate,
        "map_estimate": map_estimate,
        "states": np.array([0, 1, 2, 3, 4, 5, -1]),
        "actions": np.full(7, -1),
        "has_step_cost": True,
        "answers": 1234,
        "compared": 8,
        "explained": 7,
        "loss": 1.0,
        "chance": 9.0,
        "expected": 1.0,
        "deviation": 1.0,
        "error_rate": 0.0,
        "importance": np.where(map_estimate != 0, 3.0, 0.0),
        "paid": np.repeat(map_estimate[:6, None], 3, axis=1),
        "ends": np.zeros(6, dtype=bool),
        "horizon": 10,
    }
    return Explanation(**{**values, **changes})


ENDS = np.array([False, False, False, False, True, True])


NOTHING = Hypothesis()


def wished(
    kind: Kind,
    *claims: Claim,
    evidence: float = 30.4,
    answers: int = 8,
    unexplained: int = 0,
    best: Hypothesis = NOTHING,
) -> Wish:
    """A wish that names claims, each as probable."""
    named = tuple(Named(one, 0.97) for one in claims)
    return Wish(kind, named, evidence, "an action for each state", answers, unexplained, 0.97, ((best, 0.97),))


def wants(*places: int) -> tuple[Claim, ...]:
    return tuple(Claim("wants", place) for place in places)


def avoids(*places: int) -> tuple[Claim, ...]:
    return tuple(Claim("avoids", place) for place in places)


HURRY = Claim("hurry")
ROOM = wished("bold", *wants(2))
BETTER = "Simple rewards predict the answers 30 nats better than the best habit, which ignores what actions lead to."


def turn_of(
    found: Explanation | None,
    wish: Wish,
    undetermined: tuple[int, ...] = (),
    estimate: Estimate | None = None,
    space: RewardSpace | None = None,
) -> Any:
    """A turn that ends on a reward and a wish; the places `undetermined` may be worth as much as the goal."""
    ends = np.zeros(0, dtype=np.int64) if found is None else np.flatnonzero(found.ends)
    belief = SimpleNamespace(estimate=estimate or SimpleNamespace(terminal_states=ends))
    alternatives = SimpleNamespace(undetermined=list(undetermined))
    parts = {"explanation": found, "alternatives": alternatives, "belief": belief, "space": space}
    return SimpleNamespace(**parts, wish=wish, field_reward=None, wish_after=lambda denied: wish)


def said(
    found: Explanation | None,
    wish: Wish = ROOM,
    undetermined: tuple[int, ...] = (),
    actions: tuple[str, ...] = ACTIONS,
    estimate: Estimate | None = None,
    names: tuple[str, ...] = NAMES,
    space: RewardSpace | None = None,
    who: Person = EXPERT,
) -> list[str]:
    """The sentences."""
    return goal_in_words(turn_of(found, wish, undetermined, estimate, space), names, actions, who)


def test_a_goal_and_nothing_else() -> None:
    assert said(explanation({2: 1.0}), undetermined=(2,)) == [
        "The expert wants to be in room 2 (explains 7 of the 8 answers it was inferred from).",
        BETTER,
    ]


def test_several_goals() -> None:
    first, *_ = said(explanation({1: 1.0, 2: 1.0, 5: 1.0}), wished("bold", *wants(1, 2, 5)))
    assert (
        first == "The expert wants to be in room 1 to room 2, door (explains 7 of the 8 answers it was inferred from)."
    )


def test_an_end_is_reached_and_hurry_is_told() -> None:
    calm = explanation({5: 1.0}, ends=ENDS)
    door = wants(5)
    assert (
        said(calm, wished("bold", *door))[0]
        == "The expert wants to reach door (explains 7 of the 8 answers it was inferred from)."
    )
    both = said(explanation({2: 1.0, 5: 1.0}, ends=ENDS), wished("bold", *wants(2, 5)))[0]
    assert both.startswith("The expert wants to be in room 2 and door (")
    hurried = explanation({5: 1.0, 6: 0.1}, ends=ENDS)
    assert said(hurried, wished("bold", *door, HURRY))[0] == (
        "The expert wants to reach door, the sooner the better (explains 7 of the 8 answers it was inferred from)."
    )
    assert said(hurried, wished("bold", *door))[0].startswith("The expert wants to reach door ("), "hurry is not sure"
    alone = said(explanation({6: 1.0}, ends=ENDS), wished("bold", HURRY), undetermined=(1, 2))
    assert alone == ["The expert wants to lose no time (explains 7 of the 8 answers it was inferred from).", BETTER], (
        "there is no goal to be beside"
    )


def test_what_is_avoided_with_and_without_a_goal() -> None:
    both = said(explanation({2: 1.0, 4: -0.5}), wished("bold", *wants(2), *avoids(4)))
    assert (
        both[0]
        == "The expert wants to be in room 2 and to avoid pit (explains 7 of the 8 answers it was inferred from)."
    )
    pits = wished("bold", *avoids(4, 3))
    assert said(explanation({4: -1.0, 3: -0.25}), pits, undetermined=(0, 1, 2)) == [
        "The expert wants to avoid pit and to avoid room 3 (explains 7 of the 8 answers it was inferred from).",
        BETTER,
        "Which of the others it likes best is not determined: start, room 1 to room 2.",
    ]
    alone = said(explanation({4: -1.0}), wished("bold", *avoids(4)))
    assert alone == ["The expert wants to avoid pit (explains 7 of the 8 answers it was inferred from).", BETTER]


@pytest.mark.parametrize(
    ("paid", "actions", "wish"),
    [(1.0, ACTIONS, "do “go”"), (-1.0, ACTIONS, "avoid “go”"), (1.0, (), "do “action 1”")],
)
def test_what_it_likes_to_do_anywhere(paid: float, actions: tuple[str, ...], wish: str) -> None:
    found = wished("bold", Claim("action", 1), best=Hypothesis(actions=((1, paid),)))
    first, *_ = said(explanation({}, space="state-action"), found, actions=actions)
    assert first == f"The expert wants to {wish} everywhere (explains 7 of the 8 answers it was inferred from)."


def test_a_wish_that_depends_on_the_step() -> None:
    found = wished("bold", *wants(1, 2), Claim("step", 3))
    first, *_ = said(explanation({1: 1.0, 2: 1.0}), found)
    assert first == (
        "The expert wants to be in room 1 and room 2; what it wants depends on the step "
        "(explains 7 of the 8 answers it was inferred from)."
    )
    yours, *_ = said(explanation({1: 1.0, 2: 1.0}), found, who=YOU)
    assert yours.startswith("You seem to want to be in room 1 and room 2; what you want depends on the step (")


def test_one_of_a_few_wishes() -> None:
    """Nothing is said of what the recovered reward explains: it is only one of them."""
    found = explanation({2: 1.0}, ends=ENDS)
    assert said(found, wished("set", *wants(2, 1)), undetermined=(0, 1, 2)) == [
        "The expert wants to be in room 2 or room 1: the answers do not tell which."
    ]
    assert said(found, wished("set", *wants(4, 5)))[0].startswith("The expert wants to reach pit or door: ")
    best = Hypothesis(actions=((2, -1.0),))
    mixed = wished("set", *wants(2), *avoids(4), Claim("action", 2), HURRY, best=best)
    assert said(found, mixed) == [
        "The expert wants to be in room 2, or to avoid pit, or to avoid “jump” everywhere, or to lose no time: "
        "the answers do not tell which."
    ]
    steps = wished("set", Claim("step", 3), *wants(1))
    assert said(found, steps, who=YOU) == [
        "You seem to want to be in room 1, or to have something else from step 4 on: the answers do not tell which."
    ]


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (
            wished("open", evidence=0.0, answers=0),
            "The answers do not tell what the expert wants: no other action was tried where the expert answered.",
        ),
        (
            wished("open", evidence=ENOUGH - 0.01, answers=1234),
            "The answers do not tell what the expert wants: a habit (an action for each state) predicts the 1,234 that "
            "can be compared about as well as any simple reward. Trying other actions near its path may tell more.",
        ),
        (
            wished("open", answers=100, unexplained=4),
            "No simple reward explains the answers: the best one leaves about 4 of 100 unexplained, under any "
            "plausible dynamics.",
        ),
        (
            wished("open", answers=100, unexplained=3),
            "The answers do not tell what the expert wants: too many simple rewards predict them equally well.",
        ),
    ],
)
def test_why_nothing_is_named(wish: Wish, sentence: str) -> None:
    """Whatever the recovered reward pays, and however much it explains."""
    assert said(explanation({2: 1.0}), wish, undetermined=(1, 2)) == [sentence]
    found = said_wish(turn_of(explanation({2: 1.0}), wish), NAMES)
    assert (found.kind, found.named, found.sentence) == ("open", [], sentence)


def test_what_the_recovered_reward_does_not_pay_is_not_sure() -> None:
    for found, wish, told in (
        (explanation({1: 1.0}), ROOM, "the expert wants to be in room 2"),
        (explanation({2: 0.5, 1: 1.0}), ROOM, "the expert wants to be in room 2"),
        (explanation({2: 1.0}), wished("bold", *avoids(2)), "the expert wants to avoid room 2"),
        (explanation({2: 1.0}), wished("bold", Claim("step", 3)), "what it wants depends on the step"),
    ):
        sentence = f"Nothing is sure: the answers say that {told}, but that is not what the recovered reward pays for."
        assert said(found, wish) == [sentence]
        assert said_wish(turn_of(found, wish), NAMES).kind == "open"
    assert said_wish(turn_of(None, ROOM), NAMES).kind == "open", "there is no reward that says what it pays"


def test_a_wish_in_plain_values() -> None:
    wish = wished("bold", *wants(2), Claim("action", 1), Claim("step", 3), HURRY, best=Hypothesis(actions=((1, 1.0),)))
    found = said_wish(turn_of(explanation({2: 1.0}), wish), NAMES, ACTIONS)
    named = [
        {"what": "wants", "where": 2, "name": "room 2", "probability": 0.97},
        {"what": "action", "where": 1, "name": "go", "probability": 0.97},
        {"what": "step", "where": 3, "name": "step 4", "probability": 0.97},
        {"what": "hurry", "where": None, "name": "every step", "probability": 0.97},
    ]
    sentence = (
        "The expert wants to be in room 2 and to do “go” everywhere, the sooner the better; what it wants depends on "
        "the step."
    )
    assert found.to_json() == {"kind": "bold", "named": named, "evidence": 30.4, "sentence": sentence}


def test_what_else_the_reward_pays_is_not_claimed() -> None:
    """Of places that the answers do not speak for, the parameters that fit best say nothing."""
    mean = np.array([0.1, -0.1, 1.0, 0.2, 0.0, 0.0, 0.0])
    blurred = explanation({2: 1.0}, theta=mean, paid=np.repeat(mean[:6, None], 3, axis=1))
    for found in (explanation({2: 1.0, 1: 0.25, 3: 0.5, 4: -0.5}), blurred):
        assert said(found) == said(explanation({2: 1.0}))


def test_what_is_not_determined() -> None:
    lines = said(explanation({2: 1.0}), undetermined=(0, 1, 2, 3, 5))
    assert lines[2:] == [
        "Not determined: start, room 1, room 3, door; the answers would fit about as well if any "
        "one of these 4 places were worth as much, beside the goal.",
    ]
    one = said(explanation({2: 1.0}), undetermined=(2, 5))
    assert (
        one[-1]
        == "Not determined: door; the answers would fit about as well if it were worth as much, beside the goal."
    )


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
        "The expert's reward is a sum of features, with the weights feature 1: -1, feature 0: 0.25, step cost: 0.1 "
        "(explains 7 of the 8 answers it was inferred from).",
        "About 10% of the answers seem to be errors.",
    ]
    endless = explanation({6: 1.0}, space="features", states=np.full(7, -1), has_step_cost=False)
    assert "feature 6: 1 (" in said(endless)[0]
    named = FeatureReward(np.zeros((6, 6)), names=("warm", "wet"))
    assert "weights wet: -1, warm: 0.25, step cost: 0.1 (" in said(found, space=named)[0]


def test_who_is_not_explained_gets_no_goal() -> None:
    found = explanation({2: 1.0}, loss=9.0, expected=9.0)
    assert said(found, undetermined=(1, 2)) == [
        "The answers tell little about what the expert wants: the recovered reward explains 7 of the 8 answers it "
        "was inferred from, hardly more than chance would."
    ]


def test_nothing_is_said_where_the_algorithm_does_not_say() -> None:
    assert said(None) == []


@pytest.mark.parametrize("space", ["state", "any"])
def test_without_answers_nothing_is_claimed(space: str) -> None:
    found = explanation({2: 1.0}, space=space, answers=0, compared=0, explained=0, loss=0.0, chance=0.0)
    assert said(found) == ["The expert gave no answer, so the recovered reward means nothing."]


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
    unexplained = f"no reward of places, or of actions in places, explains the {found.answers:,} answers well enough."
    assert first.startswith(f"The answers name no goal: {unexplained} The recovered reward depends on the step")
    entries = estimated_conflict(estimate, StateReward())
    assert len(entries) > 1
    assert all(estimate.counts.answers[h, s, a] for h, s, a in entries)
    told = [f"act {a} in {names[s]} at step {h + 1}" for h, s, a in entries]
    told_first = "By the estimated dynamics, no reward of places explains all of these answers: "
    assert conflict == f"{told_first}{'; '.join(told)}."

    monkeypatch.setattr(goal, "MOST_ANSWERS", 1)
    _, shortened = said(found, estimate=estimate, names=names, actions=())
    h, s, a = entries[0]
    assert shortened.endswith(f"these answers: action {a} in {names[s]} at step {h + 1}; and {len(entries) - 1} more.")
    monkeypatch.setattr(goal, "LARGE", estimate.counts.visits.size - 1)
    assert said(found, estimate=estimate, names=names) == [first]
    monkeypatch.undo()
    monkeypatch.setattr(goal, "estimated_conflict", lambda *_: [])
    assert said(found, estimate=estimate, names=names) == [first]


def test_who_asked_for_a_table_is_not_told_that_places_explain_nothing() -> None:
    """Nobody has tried."""
    found, estimate, names = random_answers(200)
    told = said(found, estimate=estimate, names=names, space=AnyReward())
    assert told == ["A reward of the space any repeats what the expert does, and names no goal."]


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


def test_the_wish_of_a_real_run_is_told_in_its_own_names() -> None:
    problem = make("gridworld", 0)
    estimate = observed(problem, "uniform", 400, 0)
    found = explained(estimate)
    truth: FloatArray = problem.reward.max(axis=(0, 2))
    name = problem.layout.state_names[int(truth.argmax())]
    first, *_ = said(found, wish_of(estimate), estimate=estimate, names=problem.layout.state_names)
    assert (
        first == f"The expert wants to be in {name} (explains {found.explained} of the {found.compared} answers it was "
        "inferred from)."
    )


@pytest.mark.parametrize(
    ("found", "wish", "undetermined", "lines"),
    [
        (
            explanation({2: 1.0}),
            ROOM,
            (2,),
            ["You seem to want to be in room 2 (explains 7 of the 8 answers it was inferred from).", BETTER],
        ),
        (
            explanation({5: 1.0, 6: 0.1, 4: -0.5, 3: 0.5}, ends=ENDS),
            wished("bold", *wants(5), HURRY),
            (1,),
            [
                "You seem to want to reach door, the sooner the better (explains 7 of the 8 answers it was inferred "
                "from).",
                BETTER,
                "Not determined: room 1; the answers would fit about as well if it were worth as much, beside the "
                "goal.",
            ],
        ),
        (
            explanation({4: -1.0}),
            wished("bold", *avoids(4)),
            (0, 1),
            [
                "You seem to want to avoid pit (explains 7 of the 8 answers it was inferred from).",
                BETTER,
                "Which of the others you like best is not determined: start, room 1.",
            ],
        ),
        (
            explanation({6: 1.0}, ends=ENDS),
            wished("bold", HURRY),
            (),
            ["You seem to want to lose no time (explains 7 of the 8 answers it was inferred from).", BETTER],
        ),
        (
            explanation({2: 1.0}),
            wished("open", evidence=0.0, answers=0),
            (),
            ["The answers do not tell what you want: no other action was tried where you answered."],
        ),
        (
            explanation({2: 1.0}),
            wished("open", evidence=1.0),
            (),
            [
                "The answers do not tell what you want: a habit (an action for each state) predicts the 8 that can be "
                "compared about as well as any simple reward. Trying other actions near your path may tell more."
            ],
        ),
        (
            explanation({2: 1.0}, answers=0),
            ROOM,
            (),
            ["You gave no answer, so the recovered reward means nothing."],
        ),
    ],
)
def test_whoever_reads_it_is_spoken_to(
    found: Explanation, wish: Wish, undetermined: tuple[int, ...], lines: list[str]
) -> None:
    told = said(found, wish, undetermined, who=YOU)
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
        design=space.design_matrix(estimate.mdp, estimate.terminal_states),
        theta=explained(estimate, space).map_estimate,
    )
    turn = SimpleNamespace(alternatives=alternatives, belief=SimpleNamespace(estimate=estimate))
    verdicts = explained_answers(turn)  # type: ignore[arg-type]
    assert verdicts == {state: state != odd for state in range(9)}
    assert explained_answers(SimpleNamespace(alternatives=None)) == {}  # type: ignore[arg-type]
