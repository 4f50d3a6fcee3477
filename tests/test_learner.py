"""The pleasant face: what it returns, what it refuses, and that it goes on where it was."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from aceirl import ActiveIRL, InputError, PolicyExpert, Simulator, Truth, Turn, make
from aceirl.explore import STRATEGIES
from aceirl.irl import ALGORITHMS

ROOT = Path(__file__).parents[1]


class Stop(Exception):
    pass


def parts() -> tuple[Simulator, PolicyExpert, Truth]:
    problem = make("gridworld", 0)
    expert = PolicyExpert(problem.expert, problem.mdp.shape)
    return Simulator(problem.mdp), expert, Truth(problem.mdp, problem.reward)


def test_the_first_example_does_what_the_readme_says(capsys: pytest.CaptureFixture[str]) -> None:
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert block is not None
    exec(block.group(1), {})
    goal, *_, words, regret = capsys.readouterr().out.strip().splitlines()
    assert goal.startswith("The expert wants to be in d10 (explains ")
    assert words.startswith("Certified with 90 % confidence")
    assert float(regret) < 0.1


def test_a_fit_interrupted_and_begun_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    environment, expert, truth = parts()
    learner = ActiveIRL(strategy="ace", max_samples=200, seed=4)
    whole = learner.fit(environment, expert, regret=truth.regret)

    def tire(turn: Turn) -> None:
        if turn.record.iteration == 5:
            raise Stop

    with pytest.raises(Stop):
        learner.fit(environment, expert, regret=truth.regret, out=tmp_path / "run", callback=tire)
    again = learner.fit(environment, expert, regret=truth.regret, out=tmp_path / "run")
    np.testing.assert_array_equal(again.reward, whole.reward)
    np.testing.assert_array_equal(again.policy, whole.policy)
    assert [record.regret for record in again.records] == [record.regret for record in whole.records]
    assert again.certificate == whole.certificate
    assert again.stopped == whole.stopped == "budget"
    with pytest.raises(InputError, match="holds a run with max_samples 200, not 201"):
        ActiveIRL(strategy="ace", max_samples=201, seed=4).fit(environment, expert, out=tmp_path / "run")


def test_strategies_and_algorithms_may_be_objects() -> None:
    environment, expert, _ = parts()
    named = ActiveIRL(strategy="random", irl="feasible-point", max_samples=100, certify=None)
    given = ActiveIRL(
        strategy=STRATEGIES["random"](), irl=ALGORITHMS["feasible-point"](), max_samples=100, certify=None
    )
    first, second = named.fit(environment, expert), given.fit(environment, expert)
    np.testing.assert_array_equal(first.reward, second.reward)
    assert first.certificate is None


def test_a_result_says_what_the_expert_wants() -> None:
    environment, expert, truth = parts()
    goal = int(truth.reward.max(axis=(0, 2)).argmax())
    found = ActiveIRL(max_samples=200, certify=None).fit(environment, expert)
    assert found.explanation is not None
    assert (found.explanation.space, found.explanation.goals) == ("state", [goal])
    count = f"(explains {found.explanation.explained} of {found.explanation.compared} answers)"
    assert found.in_words().splitlines()[0] == f"The expert wants to be in state {goal} {count}."
    names = [f"cell {letter}" for letter in "abcdefghi"]
    assert found.in_words(names).splitlines()[0] == f"The expert wants to be in {names[goal]} {count}."
    silent = ActiveIRL(max_samples=100, certify=None, irl="feasible-point").fit(environment, expert)
    assert silent.explanation is None
    assert silent.in_words() == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": 3}, "strategy must be a name or an object with a method `plan`, got 3"),
        ({"irl": 3}, "IRL algorithm must be a name or something to call, got 3"),
        ({"strategy": "asce"}, "did you mean 'ace'"),
        ({"max_sample": 3}, "did you mean 'max_samples'"),
        ({"delta": 0}, "delta"),
    ],
)
def test_what_cannot_be_is_said(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ActiveIRL(**arguments)
