"""One `delta` for all that a run, a folder or a page promises, however often its evidence starts anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interviews import UP, all_closed, answer, begin, finish, wants_the_end_of, work_out
from scipy.stats import binom

import aceirl
from aceirl import ActiveIRL, Run
from aceirl.certificates import Budget, given_up
from aceirl.certificates.budget import DIVERGENCE, EVENTS, ROWS, delta_of
from aceirl.certificates.dynamics import Dynamics
from aceirl.certificates.e_process import EProcess
from aceirl.experts.tasks import Source
from aceirl.models.tabular.confidence import FAMILIES
from aceirl.web.driver import Interview
from aceirl.web.history import History
from studies.restarts import RESTARTS

# The budget as a value.


@given(st.sampled_from([*EVENTS, None]), st.lists(st.sampled_from(EVENTS), max_size=30))
def test_all_shares_that_are_ever_given_add_up_to_one_at_most(asked: str | None, restarts: list[str]) -> None:
    budget = Budget.begun(asked)
    given = list(budget.shares.values())
    for event in restarts:
        budget = budget.started_anew(event)
        given.append(budget.share(event))
        assert Budget.of(budget.evidence) == budget, "as it lies with the evidence"
    assert sum(given) <= 1 + 1e-12
    assert min(given) > 0
    if asked is not None and asked not in restarts:
        assert budget.share(asked) == pytest.approx(0.9), "who changes nothing pays a tenth"


def test_what_was_never_wagered_on_is_given_up_for_free() -> None:
    budget, empty = Budget.begun("policy"), np.zeros(3)
    evidence = {**budget.evidence, "policy": {"levels": np.ones(3), "now": empty, "peak": empty}}
    assert Budget.of(given_up(evidence, ["policy"])) == budget
    assert "policy" not in given_up(evidence, ["policy"])
    won = {**evidence, "policy": {"levels": np.ones(3), "now": empty - 1, "peak": empty}}
    spent = given_up(won, ["policy"])
    assert Budget.of(spent) == budget.started_anew("policy")
    assert Budget.of(given_up(spent, ["policy", "criterion"])) == budget.started_anew("policy"), "there was none"


# Runs.


def test_the_promises_of_a_report_share_its_delta() -> None:
    result = ActiveIRL(max_samples=400, seed=1, certify="dynamics").fit("gridworld")
    belief, delta = result.turn.belief, 0.1
    shares = [delta_of(belief, event) for event in EVENTS]
    assert sum(shares) <= delta
    assert delta_of(belief, ROWS) == pytest.approx(0.9 * delta)
    assert belief.table.delta == delta_of(belief, ROWS), "what is asked for explores with the radii it promises by"
    other = ActiveIRL(max_samples=400, seed=1, certify="policy").fit("gridworld").turn.belief
    assert other.table.delta == delta, "what nothing is promised by has all"
    radii = FAMILIES["adaptive"](other.estimate, 1.0, delta_of(other, ROWS))
    wider = Dynamics().explain(other)
    assert wider.value == Dynamics().value(other)
    assert wider.delta == delta, "all of a report together"
    assert (other.table.at(delta_of(other, ROWS)).radii.tv_radius == radii.tv_radius).all()
    assert (radii.tv_radius >= other.radii.tv_radius).all()
    assert (radii.tv_radius > other.radii.tv_radius).any()
    assert delta_of(other, DIVERGENCE) < delta


@pytest.mark.parametrize("other", [{"epsilon": 1e-3}, {"reward": "any"}], ids=["accuracy", "space"])
def test_evidence_that_starts_anew_in_a_folder_spends_from_what_lies_there(
    other: dict[str, Any], tmp_path: Path
) -> None:
    """However the folder is opened: what was spent is read, and never forgotten."""
    folder = tmp_path / "run"
    begun: dict[str, Any] = {"epsilon": 0.5, "reward": "state"}
    ActiveIRL(**begun, max_samples=600, seed=2).fit("gridworld", out=folder)
    before = aceirl.load(folder).turn.belief
    assert before.evidence["policy"]["now"].any()
    assert delta_of(before, "policy") == pytest.approx(0.09)
    for changes in (other, begun, {**begun, "max_samples": 700}):
        aceirl.load(folder).resume(**changes)
        assert delta_of(aceirl.load(folder).turn.belief, "policy") == pytest.approx(0.1 * 0.025)
    run = Run.open(folder)
    run.change(other)
    state = run.state()
    assert state is not None
    assert Budget.of(state.evidence).restarts == 2
    assert "policy" not in state.evidence


@pytest.mark.parametrize("way", ["resume", "space"])
def test_who_starts_anew_after_each_surprise_is_not_promised_more_than_is_true(way: str) -> None:
    """At `δ = 1/2`, with the boldest stakes. If each e-process had all of `δ`, nearly every run would break it."""
    runs = 60
    half = next(promise for promise in RESTARTS[f"restarts: {way}"](0) if promise.delta == 0.5)
    broken = sum(bool(RESTARTS[f"restarts: {way}"](seed)[half]) for seed in range(runs))
    assert broken <= binom.ppf(1 - 1e-7, runs, 0.5)
    with patch.object(Budget, "share", lambda *_: 1.0):
        naive = sum(bool(RESTARTS[f"restarts: {way}"](seed)[half]) for seed in range(runs))
    assert naive > binom.ppf(1 - 1e-7, runs, 0.5)


# Interviews.

UPWARD = wants_the_end_of(UP)


@pytest.fixture
def interview(tmp_path: Path) -> Iterator[Interview]:
    with all_closed():
        yield begin(tmp_path / "interview")


def spent(interview: Interview) -> int:
    """How many e-processes were started anew, by the log alone."""
    return History.of(interview.log).spent


def test_a_finished_interview_is_judged_by_show_as_by_its_own_page(tmp_path: Path) -> None:
    """It ends where an e-process with all of the error rate would certify, and the one that was begun anew does not."""
    with all_closed():
        interview = begin(tmp_path / "rooms", Source("studies.restarts:Rooms", {"chance": 0.02}, seed=1, horizon=1))
        interview.answer(interview.turn, 1)
        for _ in range(3):
            interview.walk_on(10, one_episode=True)
        state, action = next(iter(interview.history.known().items()))
        interview.correct(interview.turn, state, 1 - action)
        while EProcess.of(interview.engine.belief.evidence.get("policy", {}), 0.1).certified(0.1) > 0.1:
            interview.walk_on(10, one_episode=True)
            if interview.phase == "asking":
                interview.answer(interview.turn, 1)
        assert not interview.certified
        interview.finish(interview.turn)
        work_out(interview)
        shown = aceirl.load(interview.folder).certificate
        assert shown is not None
        assert not shown.holds
        assert shown.value == pytest.approx(interview.certified_share)


def test_whatever_a_person_does_spends_and_nothing_brings_it_back(interview: Interview) -> None:
    for _ in range(12):
        answer(interview, UPWARD)
    state, action = next(iter(interview.history.known().items()))
    counted = [spent(interview)]

    def did() -> None:
        interview.walk_on(10)
        counted.append(spent(interview))
        assert interview.history.spent == counted[-1], "now and after the log is read again"

    interview.correct(interview.turn, state, (action + 1) % 4)
    while interview.phase != "asking":
        interview.walk_on(10)
    answer(interview, UPWARD)
    did()
    for _ in range(2):
        interview.undo(interview.turn)
        did()
    interview.adjust(interview.turn, 0.2, 0.1, 20)
    did()
    interview.start_again(interview.turn)
    did()
    assert counted == sorted(counted)
    assert len(set(counted)) >= 4
    assert interview.history.restarts == counted[-1]
    assert delta_of(interview.engine.belief, "policy") < 0.1 * 0.05 / counted[-1] ** 2


def test_a_run_that_goes_on_from_an_interview_spends_from_the_same_budget(interview: Interview) -> None:
    finish(interview, UPWARD)
    work_out(interview)
    assert spent(interview) == 0
    for number in (1, 2):
        run = Run.open(interview.folder)
        run.change({"epsilon": 1e-4 / number})
        state = run.state()
        assert state is not None
        assert Budget.of(state.evidence).restarts == number
        interview.go_on(interview.turn)
        assert spent(interview) == number
        assert interview.history.restarts == 0, "the interview's own evidence goes on"
        assert delta_of(interview.engine.belief, "policy") == pytest.approx(0.09)
        interview.finish(interview.turn)
        work_out(interview)
