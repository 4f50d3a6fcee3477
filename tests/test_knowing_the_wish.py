"""The certificate `goal`, the strategy that serves it, and the reward that such a run ends with."""

from __future__ import annotations

import numpy as np
import pytest

from aceirl import ActiveIRL
from aceirl.certificates import Goal, GoalCertificate
from aceirl.explore.telling import Telling
from aceirl.irl.belief import is_due
from aceirl.irl.sparse_likelihood import reward_of_wish
from aceirl.learner.settings import Settings
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.rewards.hypotheses import Hypothesis, Wish, contested
from aceirl.rewards.hypotheses.search import paid
from aceirl.rewards.hypotheses.wish import ENOUGH, SURE
from studies.families import case


def wish(*likeliest: tuple[Hypothesis, float], kind: str = "open", evidence: float = 10.0) -> Wish:
    return Wish(kind, (), evidence, "anything", 10, 0.0, 0.0, likeliest)  # type: ignore[arg-type]


def place(number: int, worth: float = 1.0) -> Hypothesis:
    return Hypothesis(((number, worth),))


def test_a_run_stops_when_the_wish_is_known_and_its_reward_pays_it() -> None:
    drawn = case("one goal", 3)
    (goal,) = drawn.wanted
    result = ActiveIRL(certify="goal", seed=3).fit(drawn.problem)
    certificate = result.certificate
    assert (result.stopped, result.wish.kind) == ("certificate", "bold")
    assert [(one["what"], one["where"]) for one in result.wish.named] == [("wants", goal)]
    assert isinstance(certificate, GoalCertificate)
    assert certificate.holds
    assert certificate.doubt <= 0.05
    assert "What is said about the expert's goal is true with a probability of 9" in certificate.in_words()
    assert int(result.reward_table.sum(axis=(0, 2)).argmax()) == goal


def test_a_run_on_which_nothing_depends_goes_on_to_its_budget() -> None:
    drawn = case("no effect, an action a state", 3)
    result = ActiveIRL(certify="goal", seed=3, max_samples=400).fit(drawn.problem)
    assert (result.stopped, result.wish.kind) == ("budget", "open")
    assert result.certificate is not None
    assert not result.certificate.holds
    assert result.certificate.in_words().startswith("The expert's goal is not known yet.")


def test_the_certificate_brings_its_strategy_unless_one_is_given() -> None:
    assert isinstance(Settings(certify="goal").strategy, Telling)
    assert isinstance(Settings(certify="goal:growth=0.5").strategy, Telling)
    assert isinstance(Settings(certify=Goal()).strategy, Telling)
    assert not isinstance(Settings(certify="goal", strategy="probe").strategy, Telling)
    assert not isinstance(Settings().strategy, Telling)


def test_other_runs_do_not_look_for_the_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> Wish:
        raise AssertionError("a look takes a while, and nobody asked for it")

    monkeypatch.setattr("aceirl.irl.belief.wish_of", forbidden)
    ActiveIRL(seed=2).fit(case("GARNET", 2).problem)


@pytest.mark.parametrize("growth", [0.25, 1.0])
def test_looks_become_rarer(growth: float) -> None:
    looks = [number for number in range(1, 2000) if is_due(number, growth)]
    ratios = np.array(looks[12:]) / np.array(looks[11:-1])
    assert looks[0] == 1
    assert (np.abs(ratios / (1 + growth) - 1) < 0.25).all()


def test_wishes_are_contested_where_they_differ() -> None:
    """On a line, two who want its ends differ between them; two who want the same end nowhere."""
    result = ActiveIRL(seed=0, max_samples=300, certify=None).fit(case("slope", 5).problem)
    estimate = result.turn.belief.estimate
    last = estimate.mdp.n_states - 1
    there = contested(estimate, wish((place(0), 0.5), (place(last), 0.5)))
    assert there[1:last].min() > 0.2
    assert contested(estimate, wish((place(last), 0.7), (Hypothesis(((last, 0.5),)), 0.2))).max() < 1e-9


def test_what_a_hypothesis_pays_in_a_process() -> None:
    mdp = case("GARNET", 4).problem.mdp
    one = Hypothesis(((0, 1.0),), actions=((1, 0.3),), later=((2, -0.5),), change=3, step_cost=0.1, decay=0.5)
    table = paid(one, mdp, np.array([1]))
    transitions = mdp.transitions.dense()
    for step in range(mdp.horizon):
        worth = np.zeros(mdp.n_states)
        worth[0 if step < 3 else 2] = 1.0 if step < 3 else -0.5
        worth *= 0.5**step
        for state in range(mdp.n_states):
            for action in range(mdp.n_actions):
                arriving = transitions[state, action, 1] * worth[1]
                expected = worth[state] + 0.3 * (action == 1) - 0.1 + arriving
                assert table[step, state, action] == pytest.approx(0.0 if state == 1 else expected)


def test_the_reward_of_a_wish_is_planned_as_the_wish() -> None:
    estimate = ActiveIRL(seed=0, max_samples=400, certify=None).fit(case("rooms", 5).problem).turn.belief.estimate
    best = Hypothesis(((0, 1.0), (3, -0.7)))
    found = reward_of_wish(estimate, wish((best, 1.0)), 2.0)
    assert found is not None
    assert found.explanation is not None
    q, v = optimal_values(estimate.mdp, paid(best, estimate.mdp, estimate.terminal_states))
    own, _ = optimal_values(estimate.mdp, found.reward)
    for step, state in np.ndindex(*v.shape):
        if estimate.mdp.known[step, state].all():
            assert set(np.flatnonzero(own[step, state] >= own[step, state].max() - 1e-9)) <= set(
                np.flatnonzero(q[step, state] >= v[step, state] - 1e-9)
            )
    assert reward_of_wish(estimate, wish((Hypothesis(actions=((0, 1.0),)), 1.0)), 1.0) is None


def test_what_is_missing_grows_with_what_there_is() -> None:
    assert wish((place(0), 0.99), kind="bold").missing == 0.0
    assert wish((place(0), 0.8), evidence=-1.0).missing is None
    assert wish((place(0), 0.4)).missing is None
    assert wish((place(0), 0.94), evidence=ENOUGH / 3).missing == pytest.approx(2.0)
    odds = np.log(SURE / (1 - SURE)) / np.log(0.7 / 0.3)
    assert wish((place(0), 0.7), evidence=30.0).missing == pytest.approx(odds - 1)
